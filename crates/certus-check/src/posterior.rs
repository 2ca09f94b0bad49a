//! The rule for the exact posterior of a linear model (docs/certificate-format.md, section 9): with a Gaussian prior
//! and a known sd the posterior is a Gaussian itself, so that it is the best one, and the gap is KL(q ‖ posterior).

use crate::ball::up;
use crate::certificate::{Certificate, Claim, Refusal};
use crate::moments::Likelihood;
use crate::sha256::hex;
use crate::theorem::Proof;

/// What a claim requires of the model.
pub(crate) fn requirements(certificate: &Certificate) -> Result<(), Refusal> {
    match (certificate.claim, certificate.likelihood) {
        (Claim::Gap, _) | (Claim::LinearPosterior, Likelihood::Linear(_)) => Ok(()),
        (Claim::LinearPosterior, other) => {
            let name = other.name();
            Err(Refusal::NotProved(format!(
                "the posterior of a {name} model is no Gaussian, a linear one's is"
            )))
        }
    }
}

/// What a certificate claims, in a sentence.
pub fn sentence(certificate: &Certificate) -> String {
    let claim = match certificate.claim {
        Claim::Gap => format!(
            "no Gaussian has an ELBO that is more than {:e} nats above that of the stated one",
            certificate.bound
        ),
        Claim::LinearPosterior => {
            format!("KL(q ‖ posterior) of the stated Gaussian q is at most {:e} nats", certificate.bound)
        }
    };
    format!(
        "{claim}, for the {} regression of {} rows (SHA-256 {}) on {} coefficients with the stated prior.",
        certificate.likelihood.name(),
        certificate.rows,
        hex(&certificate.root),
        certificate.dim()
    )
}

impl Proof {
    /// In the frame of the stated Gaussian the best one is N(μ, B²): |μ| is at most this. It is in {|d|_P ≤ ρ}, and
    /// |d|²_P ≥ λ′_m|μ|² + λ′_C|B − I|².
    pub fn mean_error(&self) -> f64 {
        up(up(self.rho_squared.max(0.0) / self.lambda_mean).sqrt())
    }

    /// |B − I| is at most this.
    pub fn factor_error(&self) -> f64 {
        up(up(self.rho_squared.max(0.0) / self.lambda_factor).sqrt())
    }
}

/// What else follows.
pub fn errors(certificate: &Certificate, proof: &Proof) -> String {
    let whose = match certificate.claim {
        Claim::Gap => "the best Gaussian",
        Claim::LinearPosterior => "the posterior",
    };
    format!(
        "of every linear combination of the coefficients, {whose} has the mean within {:e} of the stated sd, and the \
         sd within the part {:e} of it",
        proof.mean_error(),
        proof.factor_error()
    )
}
