//! The rule for the exact posterior of a linear model (docs/certificate-format.md, section 9): with a Gaussian prior
//! and a known sd the posterior is a Gaussian itself, so that it is the best one, and the gap is KL(q ‖ posterior).

use crate::gap::{Certificate, Claim, Proof};
use crate::moments::Likelihood;
use crate::refusal::Refusal;

/// What a claim requires of the model.
pub(crate) fn requirements(certificate: &Certificate) -> Result<(), Refusal> {
    match (certificate.claim, certificate.model.likelihood) {
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
    let data = certificate.model.data(certificate.rows, &certificate.root);
    format!("{claim}, {data} with the stated prior.")
}

/// What else follows.
pub(crate) fn errors(certificate: &Certificate, proof: &Proof) -> String {
    let whose = match certificate.claim {
        Claim::Gap => "the best Gaussian",
        Claim::LinearPosterior => "the posterior",
    };
    format!(
        "the bound that follows from the sums is {:e} nats; of every linear combination of \
         the coefficients, {whose} has the mean within {:e} of the stated sd, and the \
         sd within the part {:e} of it",
        proof.bound,
        proof.mean_error(),
        proof.factor_error()
    )
}
