//! Models with a Gaussian posterior (normal errors of known sd): the posterior is the best of all Gaussians, so that
//! KL(q ‖ p) is the gap, and a gap's statements on the optimum are statements on the posterior (math: D7).

use certus::certificate::{Gap, Level, Posterior, Statement};
use certus::{Gaussian, Provenance, linalg};

use crate::certificate::bracket::{Certified, Value};
use crate::certificate::dense::Dense;
use crate::certificate::row::gamma;
use crate::error::Error;
use crate::glm::Glm;
use crate::newton::dot;
use certus_likelihood::internals::vouched_by;

/// What it rests on.
const GAUSSIAN: &str = "normal errors with a known sd and a normal prior, so that the posterior is Gaussian and KL is \
    the gap to the best Gaussian";

/// Why there is no statement where H is not known to be positive.
const SINGULAR: &str = "the curvature of −log p in the frame of q cannot be distinguished from 0";

/// What a gap to the best of *all* Gaussians says of the posterior, for a model whose posterior is Gaussian.
pub fn by_gap(model: &(impl Certified + ?Sized), w: &Gaussian, gap: &Gap) -> Result<Posterior, Error> {
    let statement = &gap.statement;
    let (Some(bound), Some(first)) = (statement.bound(), statement.assumptions().first()) else {
        return Ok(Posterior::none(statement.reason().unwrap_or("there is no bound on the gap")));
    };
    if let Level::Probable { .. } = statement.level() {
        return Ok(Posterior::none("the gap is bounded with a probability only"));
    }
    let said = Statement::by(&first.provenance, "D7", bound, GAUSSIAN);
    Ok(stated(said, model.exact_value(w)?, gap.mean_error, gap.sd_error))
}

/// D7 in closed form. In the frame z = m + Cu of q, where q is standard and g = ∇ψ(0), H = ∇²ψ = I + S,
/// KL(q ‖ p) = ½gᵀH⁻¹g + ½Σ(h − 1 − log h) over the eigenvalues h of H; for every direction the posterior mean is
/// within |H⁻¹g| ≤ √(gᵀH⁻¹g/h_min) sds of q's, and the posterior sd between h_max^{−½} and h_min^{−½} of q's.
pub(super) fn in_closed_form(model: &Glm, q: &Gaussian) -> Result<Posterior, Error> {
    let (at, d) = (Dense::over_all(model, q)?, q.dim());
    let (g, s, errors) = at.gradient_with_errors();
    let Some((values, vectors)) = linalg::eigen(s, d) else { return Ok(Posterior::none(SINGULAR)) };
    let rotation = gamma(16 * d + 64);
    let slack = errors.factor + rotation * dot(s, s).sqrt();
    let (least, most) = (values[0] - slack, values[d - 1] + slack);
    let low = 1.0 + least;
    if low.is_nan() || low <= 0.0 {
        return Ok(Posterior::none(SINGULAR));
    }
    let mut turned = vec![0.0; d];
    linalg::add_transpose_times(&vectors, d, false, g, &mut turned);
    let square: f64 = turned.iter().zip(&values).map(|(g, t)| g * g / (1.0 + t - slack)).sum();
    let lost = errors.mean + rotation * dot(g, g).sqrt();
    let along = square.sqrt() * (1.0 + rotation) + lost / low.sqrt();
    let spread: f64 = values.iter().map(|t| excess(t - slack).max(excess(t + slack))).sum();
    let bound = 0.5 * (along * along + spread) * (1.0 + rotation);
    let likelihood = &*model.likelihood;
    let provenance =
        if likelihood.strip_is_proved() { vouched_by(likelihood) } else { Provenance::Estimated };
    let said = Statement::by(&provenance, "D7", bound, GAUSSIAN)
        .with("least curvature", low)
        .with("largest curvature", 1.0 + most)
        .with("gradient", along);
    let mean = along / low.sqrt();
    // 1/√h − 1 without cancellation
    let ratio = |t: f64| ((-0.5 * t.ln_1p()).exp_m1()).abs();
    let sd = ratio(least).max(ratio(most));
    let outward = 1.0 + 1e-12;
    Ok(stated(said, model.exact_value(q)?, Some(mean * outward), Some(sd * outward)))
}

/// With the evidence: log p(x) = −f + KL.
fn stated(statement: Statement, f: Value, mean_error: Option<f64>, sd_error: Option<f64>) -> Posterior {
    let Some(kl) = statement.bound() else {
        return Posterior { statement, log_evidence: None, mean_error: None, sd_error: None };
    };
    let log_evidence = Some((-f.value - f.error, kl - f.value + f.error));
    Posterior { statement, log_evidence, mean_error, sd_error }
}

/// t − log(1 + t), from above: at most t²/2 for t ≥ 0 and t²/(2(1 + t)) below, which near 0 lose less than the
/// subtraction.
fn excess(t: f64) -> f64 {
    if t.abs() < 1e-4 {
        return 0.5 * t * t / (1.0 + t.min(0.0));
    }
    (t - t.ln_1p()) * (1.0 + 1e-11)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From above, and nearly equal, on both sides of the change of formula.
    #[test]
    fn excess_is_a_close_upper_bound() {
        for t in [-0.9, -0.3, -1.1e-4, -0.9e-4, -1e-8, 0.0, 1e-8, 0.9e-4, 1.1e-4, 0.5, 30.0] {
            // by its series where that converges fast
            let exact = if f64::abs(t) < 1e-2 {
                (2..12)
                    .rev()
                    .fold(0.0, |sum, k| (if k % 2 == 0 { 1.0 } else { -1.0 }) / f64::from(k) + t * sum)
                    * t
                    * t
            } else {
                t - (1.0 + t).ln()
            };
            assert!(excess(t) >= exact * (1.0 - 1e-12), "{t}: {} {exact}", excess(t));
            assert!(excess(t) <= exact * (1.0 + 1.5e-4) + 1e-300, "{t}: {} {exact}", excess(t));
        }
    }
}
