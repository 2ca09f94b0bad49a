//! Negative-binomial models whose dispersion is not known, without groups or with one effect per group.
//!
//! The scale is s = 1/√k, the sd of the rates about their mean: y is Poisson with the rate e^t·γ, γ of mean 1 and sd s.
//! At s = 0 this is the Poisson model, so s is a scale like the sd of groups, with the same priors. Without groups F is
//! exact, and convex in β for every s; with groups it is that of [`Collapsed`].

use std::ops::Range;
use std::sync::Arc;

use certus::linalg;

use super::{Care, ConditionalFit, ScaleMixture, ScaleProblem, ScalesEstimate};
use crate::collapsed::{Collapsed, Effect, Node, ProfileFit, RADIUS, ROUNDING, SdPrior, least_relative};
use certus_likelihood::{Likelihood, NegativeBinomial};
use certus_models::Error;
use certus_models::Glm;
use certus_models::internals::laplace_from;
use certus_models::internals::{Pool, predictors};

/// A scale this small is 0.
const SMALLEST: f64 = 1e-4;
/// The largest scale that is searched.
const LARGEST: f64 = 20.0;

/// A negative-binomial model with unknown dispersion.
pub enum Dispersion {
    /// Coefficients alone; the likelihood it was made with does not matter.
    Plain(Glm),
    /// An effect per group; the likelihood it was made with does not matter.
    Grouped(Collapsed),
}

impl Dispersion {
    /// 1/s².
    pub fn dispersion(scale: f64) -> f64 {
        1.0 / (scale * scale)
    }

    /// The maximum over β and the scales. `start` are coefficients to begin with.
    pub fn estimate(&self, start: &[f64]) -> Result<ScalesEstimate, Error> {
        super::estimate::estimate(self, start)
    }

    /// The posterior; given the scales, β is taken to be Gaussian. Priors as [`ScaleProblem::names`] has them: of the
    /// group
    /// sd, where there are groups, and of s.
    pub fn posterior(&self, start: &[f64], priors: &[SdPrior]) -> Result<ScaleMixture, Error> {
        super::lattice::posterior(self, start, priors)
    }

    /// Groups that have rows.
    pub fn groups(&self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::Grouped(model) => model.groups(),
        }
    }

    /// The effects of some groups, by their places in the order of codes; `scales` are those of every node. None
    /// without groups.
    pub fn effects_of(
        &self,
        groups: Range<usize>,
        nodes: &[Node],
        scales: &[Vec<f64>],
    ) -> Result<Vec<Effect>, Error> {
        let Self::Grouped(model) = self else { return Ok(Vec::new()) };
        let likelihoods = scales.iter().map(|s| dispersed(s[1])).collect::<Result<Vec<_>, _>>()?;
        let own = nodes.iter().zip(&likelihoods).map(|(n, l)| (n, &**l)).collect::<Vec<_>>();
        Ok(model.effects_over(groups, &own))
    }
}

/// At 0 that of a scale which is too small to matter.
pub(crate) fn dispersed(scale: f64) -> Result<Arc<dyn Likelihood>, Error> {
    Ok(Arc::new(NegativeBinomial::new(Dispersion::dispersion(scale.max(SMALLEST)))?))
}

impl ScaleProblem for Dispersion {
    fn dim(&self) -> usize {
        match self {
            Self::Plain(model) => model.dim(),
            Self::Grouped(model) => model.dim(),
        }
    }

    fn names(&self) -> &'static [&'static str] {
        match self {
            Self::Plain(_) => &["rate sd"],
            Self::Grouped(_) => &["group sd", "rate sd"],
        }
    }

    fn start(&self) -> Vec<f64> {
        vec![0.5_f64.ln(); self.names().len()]
    }

    fn floor(&self) -> Vec<f64> {
        vec![SMALLEST.ln(); self.names().len()]
    }

    fn range(&self) -> Vec<[f64; 2]> {
        vec![[SMALLEST.ln(), LARGEST.ln()]; self.names().len()]
    }

    fn conditional_fit(&self, x: &[f64], start: &[f64], care: Care) -> Result<ConditionalFit, Error> {
        match self {
            Self::Plain(model) => {
                plain(&model.rebuilt(dispersed(x[0].exp())?, model.prior().clone())?, start)
            }
            Self::Grouped(model) => {
                let model = model.with_likelihood(dispersed(x[1].exp())?);
                let nats = match care {
                    Care::Full => 1e-10,
                    Care::Density => model.close_enough(),
                };
                grouped(&model, start, x[0], nats)
            }
        }
    }

    fn bracket(&self, x: &[f64], beta: &[f64]) -> Result<[f64; 2], String> {
        match self {
            Self::Plain(model) => dispersed(x[0].exp())
                .and_then(|l| bracket(&model.rebuilt(l, model.prior().clone())?, beta))
                .map_err(|error| error.to_string())?,
            Self::Grouped(_) => Err("a maximum over two scales is not bracketed".into()),
        }
    }
}

/// β̂ and its Gaussian.
fn plain(model: &Glm, start: &[f64]) -> Result<ConditionalFit, Error> {
    let found = laplace_from(model, start)?;
    let beta = found.gaussian.mean().to_vec();
    let value = model.derivatives(&beta)?.value;
    let lower = found.gaussian.factor().to_dense();
    let log_det = -2.0 * lower.iter().step_by(beta.len() + 1).map(|x| x.ln()).sum::<f64>();
    let log_likelihood = prior_energy(model, &beta) - value;
    Ok(ConditionalFit {
        beta,
        value,
        log_likelihood,
        lower,
        log_det,
        error: 0.0,
        evaluations: found.gradients + 1,
    })
}

fn grouped(model: &Collapsed, start: &[f64], log_sd: f64, nats: f64) -> Result<ConditionalFit, Error> {
    let d = model.dim();
    let ProfileFit { beta, at, factor: l, evaluations } = model.profile_unobserved(start, log_sd, nats)?;
    let log_det = 2.0 * (0..d).map(|j| l[j * (d + 1)].ln()).sum::<f64>();
    let (lower, log_likelihood) = (linalg::lower_of_inverse(&l, d), at.log_likelihood);
    Ok(ConditionalFit { beta, value: at.value, log_likelihood, lower, log_det, error: at.error, evaluations })
}

fn prior_energy(model: &Glm, beta: &[f64]) -> f64 {
    let prior = model.prior();
    let centred: Vec<f64> = beta.iter().zip(prior.mean()).map(|(b, m)| b - m).collect();
    let mut pull = vec![0.0; centred.len()];
    prior.add_precision_times(&centred, &mut pull);
    0.5 * linalg::dot(&centred, &pull) + prior.constant()
}

/// Bounds of F_p: F(β) up to rounding, and Lemma K4 without groups. In the ball |Lᵀ(b − β)| ≤ r a predictor moves by at
/// most ρ_i = r|L⁻¹x_i|, so ∇²F ≥ Σ w_i min φ_i″ x_i x_iᵀ + J ≥ λLLᵀ there; if |L⁻¹g| < λr/2 the minimum is in the ball
/// and lower by at most |L⁻¹g|²/(2λ).
fn bracket(model: &Glm, beta: &[f64]) -> Result<Result<[f64; 2], String>, Error> {
    let d = model.dim();
    let here = model.derivatives(beta)?;
    let mut metric = here.hessian.clone();
    if !linalg::cholesky(&mut metric, d) {
        return Ok(Err("the Hessian is singular".into()));
    }
    // Σ sizes, those of the gradient, and the least Hessian
    let sums = Pool::default().sum(model.design().rows(), 1 + d + d * d, &|leaf, scratch, out| {
        model.design().prepare(leaf, scratch, |leaf| {
            let n = leaf.data.len();
            let mut t = vec![0.0; n];
            predictors(&leaf, beta, &mut t);
            for i in 0..n {
                let (w, datum) = (leaf.weight[i], leaf.data[i]);
                let row: Vec<f64> = (0..d).map(|j| leaf.a[(i, j)]).collect();
                let mut turned = row.clone();
                linalg::solve_lower(&metric, d, false, &mut turned);
                let rho = RADIUS * linalg::norm_squared(&turned).sqrt() * (1.0 + 1e-9);
                let curvature = w * model.likelihood().second_derivative_within(t[i], rho, datum);
                let counts = datum.y.abs() + 1.0;
                let size = w * (model.likelihood().first_derivative(t[i], datum).abs() + counts);
                let reach: f64 = row.iter().zip(beta).map(|(x, b)| (x * b).abs()).sum();
                out[0] += size * (1.0 + reach + leaf.offset[i].abs() + counts.ln());
                for j in 0..d {
                    out[1 + j] += row[j].abs() * size * (1.0 + reach);
                    (0..d).for_each(|l| out[1 + d + j * d + l] += curvature * row[j] * row[l]);
                }
            }
        });
    })?;
    // 1024 rows one after the other
    let rounding = ROUNDING + 1024.0 * f64::EPSILON;
    let error = rounding * (sums[0] + prior_energy(model, beta).abs());
    let mut least = sums[1 + d..].to_vec();
    model.prior().add_to(&mut least);
    let lambda = least_relative(&least, &metric, d)?;
    let mut norm = 0.0;
    for j in 0..d {
        let mut unit = vec![0.0; d];
        unit[j] = 1.0;
        linalg::solve_lower(&metric, d, false, &mut unit);
        let size = sums[1 + j] + model.prior().mean()[j].abs() + beta[j].abs();
        norm += (here.gradient[j].abs() + rounding * size) * linalg::norm_squared(&unit).sqrt();
    }
    if norm >= 0.5 * lambda * RADIUS {
        return Ok(Err("the coefficients are not known well enough for a proof".into()));
    }
    Ok(Ok([here.value - error - norm * norm / (2.0 * lambda), here.value + error]))
}
