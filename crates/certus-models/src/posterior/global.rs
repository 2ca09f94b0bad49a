//! The log-Sobolev bound on all of space in its best frame, from fresh draws (math: D3, C).

use certus::certificate::{Checks, Posterior, Spending};
use certus::factor::{Factor, Lower};
use certus::frame::{Frame, Framed};
use certus::{Curvature, Gaussian, linalg};

use super::PosteriorSettings;
use crate::certificate::Certified;
use crate::envelope::ROUNDING;

use crate::error::Error;
use crate::exact::{congruent, lower};
use crate::glm::Glm;
use crate::glm::curvature::{self, bracket, ulps};
use certus_likelihood::internals::vouched_by;

/// The key of these draws, apart from those of other checks with the same seed.
const KEY: u64 = 0xD3 << 32;
/// Beyond this dimension the eigenvalues of dense matrices take minutes.
const LARGEST: usize = 2000;

/// D3 in the frame z = m + Py, PPᵀ = J⁻¹ with J = prior precision + Σ θ_min a aᵀ: there μ = 1, and M = λ_max(PᵀUP), U
/// with θ_max.
///
/// KL ≤ ½ E SᵀJ⁻¹S. Errors of aᵀz are √(aᵀJ⁻¹a · 2KL) at most, in units of q's sd |Cᵀa| at worst √(λ_max(C⁻¹J⁻¹C⁻ᵀ) ·
/// 2KL), which is what the core says in the frame, where q has the factor P⁻¹C. The evidence takes the exact ELBO where
/// its quadrature is proved.
pub fn global(model: &Glm, q: &Gaussian, settings: &PosteriorSettings) -> Result<Posterior, Error> {
    settings.check(q, model.dim())?;
    let d = model.dim();
    if d > LARGEST {
        return Ok(Posterior::none(format!(
            "{d} coefficients, but the best frame is found for at most {LARGEST}"
        )));
    }
    let Some((least, most)) = curvature::extremes(model)? else {
        let name = model.likelihood.name();
        return Ok(Posterior::none(format!("the curvature of the {name} likelihood has no upper bound")));
    };
    let ((low, high), (_, top)) = (bracket(&least, d)?, bracket(&most, d)?);
    // what PᵀJP = I and PᵀUP lose to rounding
    let (slack, slack_above) = (ulps(d) * high / low, ulps(d) * top / low);
    if !(low > 0.0 && slack < 0.5) {
        return Ok(Posterior::none(format!(
            "−log p is not known to be strongly convex: its curvature is between {low:.1e} and {top:.1e}"
        )));
    }
    let mut root = least;
    if !linalg::cholesky(&mut root, d) {
        return Ok(Posterior::none("the least curvature is singular to rounding"));
    }
    let p = linalg::lower_of_inverse(&root, d);
    let (_, m) = bracket(&congruent(&most, &p, true, d), d)?;
    let q = lower(q)?;
    let mut factor = q.factor().to_dense();
    linalg::solve_lower(&p, d, false, &mut factor);
    let inside = Gaussian::new(vec![0.0; d], Factor::Lower(Lower::new(d, factor)?))?;
    let frame = Frame::new(q.mean().to_vec(), Factor::Lower(Lower::new(d, p)?))?;
    let by = vouched_by(&*model.likelihood);
    let bounds = Curvature::new(1.0 - slack, (m + slack_above).max(1.0), by)?;
    let framed = Framed::new(model, frame, Some(bounds))?;
    let once = Spending::planned(settings.delta, 1);
    let mut checks = Checks::new(once, settings.draws, settings.seed)?.for_model(KEY);
    let mut found = checks.certify_posterior(&framed, &inside)?;
    if let (true, Some(kl)) = (model.likelihood.strip_is_proved(), found.statement.bound()) {
        let elbo = -model.neg_elbo(&q)?;
        let rounding = ROUNDING * (1.0 + elbo.abs()) + model.exact_value(&q)?.error;
        found.log_evidence = Some((elbo - rounding, elbo + kl + rounding));
    }
    Ok(found)
}
