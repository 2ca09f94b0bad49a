//! The posterior of a linear mixed model: of coefficients, log sds, artanh of correlations and log σ, with the group
//! effects integrated out in closed form (docs/mixed.md, P1).

use std::ops::Range;

use certus::random::{Purpose, Random};
use certus::{linalg, parallel};
use certus_likelihood::Prior;
use certus_likelihood::special::ln_gamma;
use certus_mixed::collapsed::{Effect, SdPrior};
use certus_mixed::density::{CollapsedDensity, CollapsedSample, LogDensity, log_scale_density};
use certus_mixed::linear::{Conditional, TermFit};
use certus_models::Error;

use super::model::LinearMixed;
use crate::variance::mixture::Law;

/// The prior of the correlations of a term, LKJ(2): |R|^(η−1).
pub(crate) const LKJ: f64 = 2.0;
/// ν of the proposal of the scales.
const FREEDOM: usize = 5;
/// The factor of the sds of the first proposal, and of one that has the moments of draws.
const WIDER: [f64; 2] = [1.5, 1.2];
/// The largest sd of a coordinate that the curvature may state.
const WIDEST: f64 = 1.5;
/// Draws evaluated by one thread at a time.
const PIECE: usize = 8;
/// Draws that the effects of groups average over.
const DRAWS: usize = 200;
/// Effects up to which quantiles are those of the mixture of normal laws over the draws, and not of one normal law.
const MIXED: usize = 2000;
/// The log density of correlations that no correlation matrix has.
const IMPOSSIBLE: f64 = -1e9;
/// The first stream of the draws; each batch has one ([`Purpose`] lists them all).
const STREAM: u64 = 1 << 43;
/// The stream of the normal numbers of effects.
const EFFECTS: u64 = 1 << 44;

/// The posterior density.
pub(crate) struct MixedDensity<'a> {
    pub(crate) model: &'a LinearMixed,
    pub(crate) prior: &'a Prior,
    pub(crate) scales: &'a [SdPrior],
}

/// Student's law of the coordinates of the scales: a center and a lower factor.
#[derive(Clone)]
pub(crate) struct ScaleProposal {
    pub(crate) center: Vec<f64>,
    factor: Vec<f64>,
}

impl ScaleProposal {
    /// With this covariance, its sds a little wider; `None` if it is singular.
    fn new(center: Vec<f64>, covariance: &[f64], wider: f64) -> Option<Self> {
        let mut factor: Vec<f64> = covariance.iter().map(|c| wider * wider * c).collect();
        let dim = center.len();
        linalg::cholesky(&mut factor, dim).then_some(Self { center, factor })
    }

    /// A point and log q there, from normal numbers: its own and ν for the length.
    fn point(&self, normals: &[f64]) -> (Vec<f64>, f64) {
        let (k, nu) = (self.center.len(), FREEDOM as f64);
        let (z, chi) = normals.split_at(k);
        let length = (nu / linalg::norm_squared(&chi[..FREEDOM])).sqrt();
        let t: Vec<f64> = z.iter().map(|z| z * length).collect();
        let mut out = self.center.clone();
        linalg::add_square_times(&self.factor, k, true, &t, &mut out);
        let log_det: f64 = self.factor.iter().step_by(k + 1).map(|x| x.ln()).sum();
        let d = k as f64;
        let constant =
            ln_gamma(0.5 * (nu + d)) - ln_gamma(0.5 * nu) - 0.5 * d * (nu * std::f64::consts::PI).ln();
        (out, constant - log_det - 0.5 * (nu + d) * (linalg::norm_squared(&t) / nu).ln_1p())
    }
}

impl<'a> MixedDensity<'a> {
    fn count(&self) -> usize {
        self.model.unknown_scales().scales.len()
    }

    /// log p of the scales at their coordinates: sds and σ with their priors, correlations with LKJ, and the
    /// derivatives of the coordinates.
    fn log_prior(&self, coordinates: &[f64]) -> f64 {
        let unknown_scales = self.model.unknown_scales();
        let mut priors = self.scales.iter();
        let mut sum = 0.0;
        for (own, x) in unknown_scales.scales.iter().zip(coordinates) {
            sum += match own.correlation {
                // d tanh x = 1 − tanh² x
                true => (1.0 - x.tanh().powi(2)).ln(),
                false => priors.next().map_or(*x, |prior| log_scale_density(*prior, *x)[0]),
            };
        }
        for term in 0..unknown_scales.effects.last().map_or(0, |e| e.term + 1) {
            let (effects, Some(at)) = unknown_scales.term(term) else { continue };
            let k = effects.len();
            let mut r = vec![0.0; k * k];
            (0..k).for_each(|i| r[i * (k + 1)] = 1.0);
            for (place, (i, j)) in TermFit::pairs(k).enumerate() {
                let own = coordinates[at + place].tanh();
                (r[j * k + i], r[i * k + j]) = (own, own);
            }
            sum += match linalg::cholesky(&mut r, k) {
                true => (LKJ - 1.0) * 2.0 * r.iter().step_by(k + 1).map(|x| x.ln()).sum::<f64>(),
                false => IMPOSSIBLE,
            };
        }
        sum
    }

    /// The model at coordinates of the scales.
    fn at(&self, coordinates: &[f64]) -> Result<Conditional<'a>, Error> {
        self.model.conditional(&self.model.unknown_scales().of_coordinates(coordinates))
    }

    fn precision(&self) -> Vec<f64> {
        let p = self.prior.dim();
        let mut out = vec![0.0; p * p];
        self.prior.add_to(&mut out);
        out
    }

    /// Where the first proposal is: at the estimate with the curvature there; an sd of 0 begins at a tenth of what the
    /// noise would make of it, a correlation that is not known at 0.
    pub(crate) fn first(&self, scales: &[f64], covariance: &[f64]) -> Option<ScaleProposal> {
        let (unknown_scales, k) = (self.model.unknown_scales(), self.count());
        let (mut center, mut own) = (unknown_scales.coordinates(scales), covariance.to_vec());
        let sigma = scales.last().copied().unwrap_or(1.0);
        for j in 0..k {
            let known = center[j].is_finite() && own[j * (k + 1)] > 0.0;
            let sd = own[j * (k + 1)].sqrt();
            if known && sd <= WIDEST {
                continue;
            }
            if !center[j].is_finite() || !known {
                center[j] = match unknown_scales.scales[j].correlation {
                    true => 0.0,
                    false => (0.1 * sigma).ln(),
                };
            }
            for i in 0..k {
                (own[j * k + i], own[i * k + j]) = (0.0, 0.0);
            }
            own[j * (k + 1)] = if unknown_scales.scales[j].correlation { 0.5 } else { 1.0 };
        }
        ScaleProposal::new(center, &own, WIDER[0])
    }

    /// The proposal with the moments of draws; the old one if they have none.
    pub(crate) fn adapted(&self, old: &ScaleProposal, found: &CollapsedSample) -> ScaleProposal {
        let (k, dim) = (self.count(), self.coefficients() + self.count());
        let (mean, covariance) = found.moments(dim);
        let part = |e: usize| covariance[(dim - k + e / k) * dim + dim - k + e % k];
        let own: Vec<f64> = (0..k * k).map(part).collect();
        ScaleProposal::new(mean[dim - k..].to_vec(), &own, WIDER[1]).unwrap_or_else(|| old.clone())
    }

    /// The Gaussian that a sampler begins with: the scales of the proposal, the coefficients at its center.
    pub(crate) fn gaussian(&self, proposal: &ScaleProposal) -> Result<certus::Gaussian, Error> {
        let (p, k) = (self.coefficients(), self.count());
        let dim = p + k;
        let given = self
            .model
            .named(self.at(&proposal.center)?.coefficients(self.prior.mean(), &self.precision()))?;
        let mut covariance = vec![0.0; dim * dim];
        for j in 0..p {
            // a column of the covariance from the factor of the precision
            let mut column = vec![0.0; p];
            column[j] = 1.0;
            linalg::solve_lower(&given.precision, p, false, &mut column);
            linalg::solve_lower(&given.precision, p, true, &mut column);
            covariance[j * dim..][..p].copy_from_slice(&column);
        }
        for (j, i) in (0..k).flat_map(|j| (0..k).map(move |i| (j, i))) {
            let inner =
                (0..=i.min(j)).map(|c| proposal.factor[c * k + i] * proposal.factor[c * k + j]).sum::<f64>();
            covariance[(p + j) * dim + p + i] = inner / (WIDER[1] * WIDER[1]);
        }
        let mean = given.mean.iter().chain(&proposal.center).copied().collect();
        if !linalg::cholesky(&mut covariance, dim) {
            let (what, required) = ("a sampler", "a covariance matrix that is positive definite");
            return Err(certus_models::error::InvalidModel::Requires { what, required }.into());
        }
        let lower = certus::factor::Lower::new(dim, covariance)?;
        Ok(certus::Gaussian::new(mean, certus::Factor::Lower(lower))?)
    }

    /// Draws with weights: scales from the proposal, coefficients from their exact law given them, so that the weight
    /// of a draw is p(scales | y)/q(scales), the coefficients integrated out.
    pub(crate) fn sample(
        &self,
        proposal: &ScaleProposal,
        draws: usize,
        seed: u64,
        batch: u64,
    ) -> Result<CollapsedSample, Error> {
        let (p, k) = (self.coefficients(), self.count());
        let (each, dim) = (k + FREEDOM + p, p + k);
        let mut normals = vec![0.0; each * draws];
        Random::new(seed, Purpose::Estimate, 0).normals(STREAM + batch, 0, each, &mut normals);
        let (mean, precision) = (self.prior.mean(), self.precision());
        let one = |z: &[f64]| -> Result<(Vec<f64>, f64), Error> {
            let (own, rest) = z.split_at(k + FREEDOM);
            let (coordinates, log_q) = proposal.point(own);
            let log_prior = self.log_prior(&coordinates);
            if log_prior < 0.5 * IMPOSSIBLE {
                let point = mean.iter().chain(&coordinates).copied().collect();
                return Ok((point, IMPOSSIBLE));
            }
            let given = self.model.named(self.at(&coordinates)?.coefficients(mean, &precision))?;
            let mut beta = rest.to_vec();
            linalg::solve_lower(&given.precision, p, true, &mut beta);
            let point = beta.iter().zip(&given.mean).map(|(b, m)| b + m).chain(coordinates.iter().copied());
            Ok((point.collect(), given.log_marginal + log_prior - log_q))
        };
        let mut found: Vec<Result<(Vec<f64>, f64), Error>> = Vec::with_capacity(draws);
        found.resize_with(draws, || Ok((Vec::new(), 0.0)));
        parallel::for_each_piece(&mut found, PIECE, 1, &|piece, part| {
            for (i, to) in part.iter_mut().enumerate() {
                *to = one(&normals[(piece * PIECE + i) * each..][..each]);
            }
        });
        let (mut points, mut raw) = (Vec::with_capacity(draws * dim), Vec::with_capacity(draws));
        for one in found {
            let (point, weight) = one?;
            points.extend(point);
            raw.push(weight);
        }
        CollapsedSample::weighted(points, &raw)
    }

    /// The effects of all groups over draws of the posterior, and draws of coefficients and effects less their means.
    pub(crate) fn effects(&self, draws: &[f64]) -> Result<(Vec<Effect>, Vec<f64>), Error> {
        let (p, dim) = (self.coefficients(), self.coefficients() + self.count());
        let mut order: Vec<&[f64]> = draws.chunks_exact(dim).collect();
        order.sort_by(|a, b| a[p].total_cmp(&b[p]));
        let n = DRAWS.min(order.len());
        let few: Vec<&[f64]> = (0..n).map(|k| order[(2 * k + 1) * order.len() / (2 * n)]).collect();
        let length = self.model.effect_count();
        let mut normals = vec![0.0; n * length];
        Random::new(0, Purpose::Sample, 0).normals(EFFECTS, 0, length, &mut normals);
        let mut found: Vec<Result<[Vec<f64>; 3], Error>> = Vec::with_capacity(n);
        found.resize_with(n, || Ok(Default::default()));
        parallel::for_each_piece(&mut found, 1, 1, &|k, part| {
            part[0] = (|| {
                let at = self.at(&few[k][p..])?;
                let (means, variances) = at.effects(&[&few[k][..p]]).swap_remove(0);
                let apart = self.model.named(at.deviation(&normals[k * length..][..length]))?;
                Ok([means, variances, apart].map(|x| self.model.ordered(&x)))
            })();
        });
        let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
        let count = n as f64;
        let beta: Vec<f64> = (0..p).map(|c| few.iter().map(|z| z[c]).sum::<f64>() / count).collect();
        let average: Vec<f64> =
            (0..length).map(|e| found.iter().map(|f| f[0][e]).sum::<f64>() / count).collect();
        let mut effects = Vec::with_capacity(length);
        for (e, (group, rows)) in self.model.levels().enumerate() {
            let law = Law(found.iter().map(|f| [1.0 / count, f[0][e], f[1][e].max(0.0).sqrt()]).collect());
            let (mean, sd) = law.moments();
            let quantiles = match length <= MIXED {
                true => [0.05, 0.5, 0.95].map(|q| law.quantile(q)),
                false => [-1.0, 0.0, 1.0].map(|z| mean + z * certus::gaussian::NORMAL_95 * sd),
            };
            let with = |c: usize| {
                let each = few.iter().zip(&found);
                each.map(|(z, f)| (z[c] - beta[c]) * (f[0][e] - mean)).sum::<f64>() / count
            };
            effects.push(Effect { group, rows, mean, sd, quantiles, covariance: (0..p).map(with).collect() });
        }
        let mut deviations = Vec::with_capacity(n * (p + length));
        for (z, f) in few.iter().zip(&found) {
            deviations.extend((0..p).map(|c| z[c] - beta[c]));
            deviations.extend((0..length).map(|e| f[0][e] + f[2][e] - average[e]));
        }
        Ok((effects, deviations))
    }
}

impl CollapsedDensity for MixedDensity<'_> {
    fn coefficients(&self) -> usize {
        self.model.dim()
    }

    fn scales(&self) -> usize {
        self.count()
    }

    fn terms(&self) -> f64 {
        self.model.cost()
    }

    fn log_density(&self, point: &[f64]) -> Result<LogDensity, Error> {
        let (beta, coordinates) = point.split_at(self.coefficients());
        let log_prior = self.log_prior(coordinates);
        if log_prior < 0.5 * IMPOSSIBLE {
            return Ok(LogDensity { value: IMPOSSIBLE, error: 0.0 });
        }
        let apart: Vec<f64> = beta.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut turned = vec![0.0; apart.len()];
        self.prior.add_precision_times(&apart, &mut turned);
        let own = -0.5 * linalg::dot(&apart, &turned);
        Ok(LogDensity { value: self.at(coordinates)?.log_likelihood(beta) + own + log_prior, error: 0.0 })
    }

    fn groups(&self) -> usize {
        self.model.effect_count()
    }

    fn effects_over(&self, groups: Range<usize>, points: &[f64]) -> Result<Vec<Effect>, Error> {
        let mut all = self.effects(points)?.0;
        Ok(all.drain(groups).collect())
    }
}
