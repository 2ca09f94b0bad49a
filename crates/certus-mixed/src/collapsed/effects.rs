//! The effects of the groups: their own one-dimensional posteriors, mixed over the sds of the grid (docs/collapsed.md,
//! part K6).
//!
//! Given σ and β the effect v = σu of a group has the density of its integral's nodes. β is N(β̂, H⁻¹): with ∂E v/∂β =
//! −Cov(v, Σ w_i φ_i′ x_i) = −c, v gets the variance cᵀH⁻¹c on top, and its quantiles move out from the mean in the
//! same proportion.

use std::ops::Range;
use std::sync::Arc;

use certus::linalg;

use super::group::EPSILON;
use super::nodes::Nodes;
use super::{Collapsed, Mixture, Node, Predictors};
use crate::evaluations::{Packed, recall};
use crate::journal::{Journal, key};
use certus_likelihood::Likelihood;
use certus_models::Error;

/// Nodes of a finer rule per node of the rule of the integral: with steps of a twelfth of an sd, a sum of trapezia up
/// to a point errs by about 2e-4.
const FINER: usize = 8;
/// The same for draws, of which there are so many that their nodes are fine together.
const FINER_OF_DRAWS: usize = 2;

/// The posterior of one group's effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The code of the group, as it was given.
    pub group: usize,
    /// Its rows.
    pub rows: usize,
    /// Mean of v.
    pub mean: f64,
    /// Its standard deviation.
    pub sd: f64,
    /// Its 5 % quantile, median and 95 % quantile.
    pub quantiles: [f64; 3],
    /// Its covariance with every coefficient.
    pub covariance: Vec<f64>,
}

impl Packed for Vec<Effect> {
    fn pack(&self) -> Vec<f64> {
        let d = self.first().map_or(0, |effect| effect.covariance.len());
        let one = |e: &Effect| {
            let [low, median, high] = e.quantiles;
            let numbers = [e.group as f64, e.rows as f64, e.mean, e.sd, low, median, high];
            numbers.into_iter().chain(e.covariance.clone())
        };
        std::iter::once(d as f64).chain(self.iter().flat_map(one)).collect()
    }

    fn unpack(values: &[f64]) -> Option<Self> {
        let (d, rest) = values.split_first()?;
        let one = |of: &[f64]| Effect {
            group: of[0] as usize,
            rows: of[1] as usize,
            mean: of[2],
            sd: of[3],
            quantiles: [of[4], of[5], of[6]],
            covariance: of[7..].to_vec(),
        };
        let effects = rest.chunks_exact(7 + *d as usize);
        effects.remainder().is_empty().then(|| effects.map(one).collect())
    }
}

/// The effects of some groups from the journal of a run, else computed.
pub fn recalled_effects(
    journal: &mut Journal,
    groups: Range<usize>,
    compute: impl FnOnce() -> Result<Vec<Effect>, Error>,
) -> Result<Vec<Effect>, Error> {
    recall(journal, key([&[groups.start as f64, groups.end as f64][..]]), compute)
}

impl Collapsed {
    /// The effects of all groups, in the order of their codes.
    pub fn effects(&self, mixture: &Mixture) -> Vec<Effect> {
        self.effects_of(0..self.groups(), mixture)
    }

    /// The effects of some groups, by their places in the order of codes, so that many can be had in parts.
    pub fn effects_of(&self, groups: Range<usize>, mixture: &Mixture) -> Vec<Effect> {
        let nodes: Vec<(&Node, &dyn Likelihood)> =
            mixture.nodes.iter().map(|node| (node, &*self.likelihood)).collect();
        self.effects_over(groups, &nodes)
    }

    /// The same where every node has its own likelihood.
    pub(crate) fn effects_over(
        &self,
        groups: Range<usize>,
        mixture: &[(&Node, &dyn Likelihood)],
    ) -> Vec<Effect> {
        self.effects_by(groups, mixture, FINER)
    }

    /// The effects over draws of (β, σ), each with its likelihood: nodes whose β does not vary, with equal weights.
    pub(crate) fn effects_of_draws(
        &self,
        groups: Range<usize>,
        draws: &[(&Node, &dyn Likelihood)],
    ) -> Vec<Effect> {
        self.effects_by(groups, draws, FINER_OF_DRAWS)
    }

    fn effects_by(
        &self,
        groups: Range<usize>,
        mixture: &[(&Node, &dyn Likelihood)],
        finer: usize,
    ) -> Vec<Effect> {
        let first = groups.start;
        let mut out = vec![None; groups.len()];
        certus::parallel::for_each_piece(&mut out, 64, 1, &|piece, part| {
            for (k, effect) in part.iter_mut().enumerate() {
                *effect = Some(self.effect(first + 64 * piece + k, mixture, finer));
            }
        });
        out.into_iter().flatten().collect()
    }

    /// The same model with the column that varies by group shifted: x/s instead of (x − c)/s for a shift of c/s, which
    /// is what varies if the intercept does not.
    #[must_use]
    pub fn shifted(mut self, by: f64) -> Self {
        Arc::make_mut(&mut self.effect).iter_mut().for_each(|z| *z += by);
        self.shift += by;
        self
    }

    fn effect(&self, g: usize, mixture: &[(&Node, &dyn Likelihood)], finer: usize) -> Effect {
        let (d, from, to) = (self.dim, self.first[g], self.first[g + 1]);
        let (mut mean, mut square, mut apart) = (0.0, 0.0, 0.0);
        // Cov(v, β) = Σ weight (−H⁻¹c + E v β̂) − E v E β
        let (mut covariance, mut center) = (vec![0.0; d], vec![0.0; d]);
        // (v, probability) of all nodes, the probability at a node in the middle of what it stands for
        let mut law: Vec<(f64, f64)> = Vec::new();
        let (mut nodes, mut room) = (Nodes::default(), Predictors::default());
        for (at, likelihood) in mixture {
            let mut rows = self.group_rows(g, &at.mean, at.sd, &mut room);
            rows.likelihood = *likelihood;
            rows.integrate_finer(&mut nodes, EPSILON, finer);
            let count = nodes.u.len();
            let own: f64 = nodes.u.iter().zip(&nodes.p).map(|(u, p)| u * p).sum();
            let spread: f64 = nodes.u.iter().zip(&nodes.p).map(|(u, p)| p * (u - own).powi(2)).sum();
            let mut c = vec![0.0; d];
            for i in 0..to - from {
                let slope = &nodes.slope[i * count..][..count];
                let with: f64 = (0..count).map(|k| nodes.p[k] * (nodes.u[k] - own) * slope[k]).sum();
                let x = &self.a[(from + i) * d..][..d];
                (0..d).for_each(|j| c[j] += at.sd * with * x[j]);
            }
            let mut turned = vec![0.0; d];
            linalg::add_transpose_times(&at.factor, d, true, &c, &mut turned);
            let mut along = vec![0.0; d];
            linalg::add_square_times(&at.factor, d, true, &turned, &mut along);
            for j in 0..d {
                covariance[j] += at.weight * (at.sd * own * at.mean[j] - along[j]);
                center[j] += at.weight * at.mean[j];
            }
            mean += at.weight * at.sd * own;
            square += at.weight * (at.sd * at.sd * spread + (at.sd * own).powi(2));
            apart += at.weight * linalg::norm_squared(&turned);
            law.extend(nodes.u.iter().zip(&nodes.p).map(|(u, p)| (at.sd * u, at.weight * p)));
        }
        let within = (square - mean * mean).max(0.0);
        let wider = if within > 0.0 { (1.0 + apart / within).sqrt() } else { 1.0 };
        law.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quantiles = [0.05, 0.5, 0.95].map(|p| mean + wider * (quantile(&law, p) - mean));
        covariance.iter_mut().zip(&center).for_each(|(c, b)| *c -= mean * b);
        Effect {
            group: self.codes[g],
            rows: to - from,
            mean,
            sd: (within + apart).sqrt(),
            quantiles,
            covariance,
        }
    }
}

/// Where the distribution function of (place, probability), sorted and linear between the middles of the steps, is p.
pub fn quantile(law: &[(f64, f64)], p: f64) -> f64 {
    let (mut below, mut last) = (0.0, (0.0, law[0].0));
    for (v, weight) in law {
        let at = below + 0.5 * weight;
        if at >= p {
            let part = if at > last.0 { (p - last.0) / (at - last.0) } else { 1.0 };
            return last.1 + part * (v - last.1);
        }
        (below, last) = (below + weight, (at, *v));
    }
    law[law.len() - 1].0
}
