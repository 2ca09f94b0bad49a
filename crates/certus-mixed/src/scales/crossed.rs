//! Two crossed factors, both sds unknown: the larger is integrated out group by group, the effects of the smaller are
//! kept as coefficients with the prior N(0, σ₂²) (docs/collapsed.md, part K10).
//!
//! Given both sds F is that of [`Collapsed`] with one more coefficient per level of the smaller factor. These w must be
//! integrated over before σ₂ can be estimated (the density of w has no maximum over σ₂): by their Gaussian, −log
//! ∫e^{−F}dw ≈ F + ½ log det H_ww − (levels/2) log 2π. That is an estimate.

use std::sync::Arc;

use certus::linalg;

use super::{Care, ConditionalFit, ScaleMixture, ScaleProblem, ScalesEstimate};
use crate::collapsed::{Collapsed, Effect, ProfileFit, SdPrior};
use certus_likelihood::Likelihood;
use certus_likelihood::prior::{Precision, Prior};
use certus_models::Design;
use certus_models::Error;
use certus_models::error::{InvalidData, InvalidModel, NotFinite, TooLarge};

/// An sd this small is 0.
const SMALLEST: f64 = 1e-4;
/// Levels of the smaller factor, at most.
const LEVELS: usize = 1000;
/// Numbers of the widened design, at most (1 GiB).
const NUMBERS: usize = 1 << 27;
/// What a prior with correlated coefficients is answered.
const DEPENDENT: InvalidModel = InvalidModel::Requires {
    what: "a model with crossed factors",
    required: "independent priors of the coefficients",
};

/// A model with two crossed factors.
pub struct Crossed {
    /// Coefficients first, then the smaller factor's effects.
    rows: Collapsed,
    /// Coefficients, without the effects.
    dim: usize,
    levels: usize,
    prior: Prior,
}

impl Crossed {
    /// The rows of a design, for every row its level of the larger factor and of the smaller, and the prior of the
    /// coefficients, which must have independent ones.
    pub fn new(
        design: &Design,
        larger: &[usize],
        smaller: &[usize],
        likelihood: Arc<dyn Likelihood>,
        prior: Prior,
    ) -> Result<Self, Error> {
        let (n, dim) = (design.rows().len(), design.dim());
        if smaller.len() != n {
            let (what, found) = ("the smaller factor".into(), smaller.len());
            return Err(InvalidData::Length { what, found, rows: n }.into());
        }
        let levels = smaller.iter().max().map_or(0, |l| l + 1);
        if levels > LEVELS || n.saturating_mul(dim + levels) > NUMBERS {
            let (most_levels, most_numbers) = (LEVELS, NUMBERS);
            return Err(TooLarge::SmallerFactor { levels, rows: n, most_levels, most_numbers }.into());
        }
        if matches!(prior.precision(), Precision::Dense(_)) {
            return Err(DEPENDENT.into());
        }
        let rows = Collapsed::new(design, larger, None, likelihood, prior.clone())?;
        let rows = rows.widened(larger, smaller, levels, widen(&prior, levels, 1.0)?);
        Ok(Self { rows, dim, levels, prior })
    }

    /// The maximum over β and both sds; the smaller factor's effects are integrated over by their Gaussian.
    pub fn estimate(&self) -> Result<ScalesEstimate, Error> {
        super::estimate::estimate(self, &vec![0.0; self.dim + self.levels])
    }

    /// The posterior. After the coefficients follow the smaller factor's effects, level by level.
    pub fn posterior(&self, priors: &[SdPrior; 2]) -> Result<ScaleMixture, Error> {
        super::lattice::posterior(self, &vec![0.0; self.dim + self.levels], priors)
    }

    /// The larger factor's effects, in the order of their codes.
    pub fn effects(&self, posterior: &ScaleMixture) -> Vec<Effect> {
        self.rows.effects(&posterior.mixture)
    }
}

/// The prior of coefficients and effects.
fn widen(prior: &Prior, levels: usize, sd: f64) -> Result<Prior, Error> {
    let Precision::Diagonal(precision) = prior.precision() else {
        return Err(DEPENDENT.into());
    };
    let mut mean = prior.mean().to_vec();
    mean.extend(std::iter::repeat_n(0.0, levels));
    let mut sds: Vec<f64> = precision.iter().map(|j| 1.0 / j.sqrt()).collect();
    sds.extend(std::iter::repeat_n(sd, levels));
    Ok(Prior::independent(mean, &sds)?)
}

impl ScaleProblem for Crossed {
    fn dim(&self) -> usize {
        self.dim + self.levels
    }

    fn names(&self) -> &'static [&'static str] {
        &["group sd", "second sd"]
    }

    fn start(&self) -> Vec<f64> {
        vec![0.5_f64.ln(); 2]
    }

    fn floor(&self) -> Vec<f64> {
        vec![SMALLEST.ln(); 2]
    }

    fn conditional_fit(&self, x: &[f64], start: &[f64], care: Care) -> Result<ConditionalFit, Error> {
        let all = self.dim + self.levels;
        let model = self.rows.with_prior(widen(&self.prior, self.levels, x[1].exp())?);
        let nats = match care {
            Care::Full => 1e-10,
            Care::Density => model.close_enough(),
        };
        let ProfileFit { beta, at, factor: l, evaluations } = model.profile_unobserved(start, x[0], nats)?;
        let log_det = 2.0 * (0..all).map(|j| l[j * (all + 1)].ln()).sum::<f64>();
        let block = |k: usize| {
            let (i, j) = (self.dim + k / self.levels, self.dim + k % self.levels);
            at.hessian[i * (all + 1) + j]
        };
        let own: Vec<f64> = (0..self.levels * self.levels).map(block).collect();
        let own = linalg::log_det_positive(&own, self.levels)
            .ok_or(NotFinite::Indefinite { what: "the Hessian of the smaller factor's effects" })?;
        // that part of the Gaussian integral which belongs to the effects
        let value = at.value + 0.5 * own - 0.5 * self.levels as f64 * std::f64::consts::TAU.ln();
        let centred: Vec<f64> = beta[..self.dim].iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; self.dim];
        self.prior.add_precision_times(&centred, &mut pull);
        let log_likelihood = 0.5 * linalg::dot(&centred, &pull) + self.prior.constant() - value;
        // the rest, in units in which every coefficient brings its ½ log 2π
        let log_det = log_det - own + self.levels as f64 * std::f64::consts::TAU.ln();
        let lower = linalg::lower_of_inverse(&l, all);
        Ok(ConditionalFit { beta, value, log_likelihood, lower, log_det, error: at.error, evaluations })
    }

    fn bracket(&self, _x: &[f64], _beta: &[f64]) -> Result<[f64; 2], String> {
        Err("a maximum over two scales is not bracketed".into())
    }
}
