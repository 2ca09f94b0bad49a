//! The posterior of one or two scales on a lattice, and of β given each (docs/collapsed.md, part K9).
//!
//! p(x | y) ∝ Z(x) Π p(s_j)s_j, Z(x) = ∫e^{−F(β, x)}dβ taken to be (2π)^{d/2} det H^{−1/2} e^{−F(β̂)}. The lattice is
//! x̂ + h C k, k whole numbers, CCᵀ the inverse of the second derivatives of −log p at its maximum x̂, so that a sum
//! over it is a trapezoid sum of about a standard Gaussian. It grows from x̂ to neighbours while the density is above a
//! ten-millionth of its maximum; h is halved until nothing that matters changes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use certus::linalg;

use super::evaluator::ScaleEvaluator;
use super::grid::{Grid, ScaleLaw};
use super::search::{ScaleMinimum, extrapolated, minimum, same};
use super::{Care, ConditionalFit, ScaleProblem};
use crate::collapsed::{self, Mixture, Node, SdPrior, weights};
use crate::evaluations::{Evaluations, ScaleObserver, Stage};
use crate::journal::Journal;
use certus_models::Error;
use certus_models::error::{InvalidModel, NotFinite};

/// Density, relative to its maximum, whose neighbours are left out; times σ² for priors with heavy tails.
const FAR: f64 = 1e-7;
/// Nodes beyond which the step is not halved again, and nodes at most.
const NODES: usize = 2000;
const MOST: usize = 8 * NODES;
/// The first step, in sds, as for one scale.
const FIRST: f64 = 1.4;
/// What halving the step may change: means in sds, sds in parts, for one scale and for two. It is the error before: the
/// logarithm of what is left after is four times that of what was there before.
pub const AGREE: [f64; 2] = [collapsed::AGREE, 1e-2];

/// The posterior of β and the scales: a mixture of Gaussians.
#[derive(Clone, Debug)]
pub struct ScaleMixture {
    /// The scales' names.
    pub names: &'static [&'static str],
    /// β; the sd of a node is the first scale.
    pub mixture: Mixture,
    /// The scales of every node.
    pub scales: Vec<Vec<f64>>,
    /// Where every node is on the lattice.
    pub keys: Vec<[i64; 2]>,
}

/// A node before it has its weight.
struct Raw {
    x: Vec<f64>,
    conditional_fit: ConditionalFit,
    log_density: f64,
}

/// The lattice at one step.
struct Lattice<'a, M: ?Sized> {
    evaluator: ScaleEvaluator<'a, M>,
    priors: &'a [SdPrior],
    middle: Vec<f64>,
    /// C, column-major.
    basis: Vec<f64>,
    beta_derivatives: Vec<Vec<f64>>,
    step: f64,
    nodes: BTreeMap<[i64; 2], Raw>,
}

/// −F − ½ log det H + (d/2) log 2π + Σ log p(s_j) + log s_j.
pub(super) fn log_density<M: ScaleProblem + ?Sized>(
    model: &M,
    priors: &[SdPrior],
    x: &[f64],
    conditional_fit: &ConditionalFit,
) -> f64 {
    let log_z = -conditional_fit.value - 0.5 * conditional_fit.log_det
        + 0.5 * conditional_fit.beta.len() as f64 * std::f64::consts::TAU.ln();
    let logs = model.log_scales(x);
    log_z + priors.iter().zip(logs).map(|(p, l)| p.log_density(l.exp()) + l).sum::<f64>()
}

/// The posterior. `start` are coefficients to begin with; a prior for every scale.
pub fn posterior<M: ScaleProblem + ?Sized>(
    model: &M,
    start: &[f64],
    priors: &[SdPrior],
) -> Result<ScaleMixture, Error> {
    posterior_observed(model, start, &[], priors, &mut Journal::default(), &mut |_, _| {
        ControlFlow::Continue(())
    })
}

/// The same, from the journal of a run that was stopped or an empty one; [`Error::Stopped`] if the observer ends it.
/// `maxima` are scales at which the likelihood has its
/// maxima, if they are known; the lattice grows from every mode that is reached from one of them.
pub fn posterior_observed<M: ScaleProblem + ?Sized>(
    model: &M,
    start: &[f64],
    maxima: &[Vec<f64>],
    priors: &[SdPrior],
    journal: &mut Journal,
    observer: &mut ScaleObserver<'_>,
) -> Result<ScaleMixture, Error> {
    let k = model.names().len();
    if priors.len() != k {
        return Err(InvalidModel::ScalePriors { scales: k, priors: priors.len() }.into());
    }
    let value = |x: &[f64], conditional_fit: &ConditionalFit| -log_density(model, priors, x, conditional_fit);
    let evaluations = Evaluations::new(Stage::Posterior, journal, observer);
    let mut evaluator = ScaleEvaluator { model, evaluations };
    let mut modes = modes(&mut evaluator, start, maxima, &value)?;
    let found = modes.swap_remove(0);
    let mut factor = found.curvature.clone();
    let basis = if linalg::cholesky(&mut factor, k) {
        linalg::lower_of_inverse(&factor, k)
    } else {
        let own = |j: usize| (1.0 / found.curvature[j * (k + 1)].max(1.0)).sqrt();
        (0..k * k).map(|e| if e / k == e % k { own(e / k) } else { 0.0 }).collect()
    };
    let mut nodes = BTreeMap::new();
    let log_density = log_density(model, priors, &found.x, &found.conditional_fit);
    nodes.insert([0, 0], Raw { x: found.x.clone(), conditional_fit: found.conditional_fit, log_density });
    let mut lattice = Lattice {
        evaluator,
        priors,
        middle: found.x,
        basis,
        beta_derivatives: found.beta_derivatives,
        step: FIRST,
        nodes,
    };
    for mode in modes {
        lattice.seed(mode)?;
    }
    let mut whole = lattice.grow()?;
    let mut last = lattice.mixed();
    // a lattice that ends where the density still matters says nothing
    while whole {
        lattice.step *= 0.5;
        let old = std::mem::take(&mut lattice.nodes);
        lattice.nodes = old.into_iter().map(|(key, raw)| (key.map(|k| 2 * k), raw)).collect();
        whole = lattice.grow()?;
        let mut next = lattice.mixed();
        next.mixture.refinement = if whole { next.differs(&last) } else { f64::INFINITY };
        if next.mixture.refinement <= AGREE[k - 1] || lattice.nodes.len() > NODES {
            return Ok(next);
        }
        last = next;
    }
    Ok(last)
}

/// The modes of the density that are reached from the usual start and from the maxima of the likelihood, the highest
/// first.
fn modes<M: ScaleProblem + ?Sized>(
    evaluator: &mut ScaleEvaluator<'_, M>,
    start: &[f64],
    maxima: &[Vec<f64>],
    value: &dyn Fn(&[f64], &ConditionalFit) -> f64,
) -> Result<Vec<ScaleMinimum>, Error> {
    let (model, how) = (evaluator.model, (1.0, 0.2, Care::Density));
    let mut out = vec![minimum(evaluator, start, model.start(), value, None, how)?];
    if maxima.len() > 1 {
        for scales in maxima {
            let logs: Vec<f64> = scales.iter().map(|s| s.ln()).collect();
            let x: Vec<f64> = model.at_logs(&logs).iter().zip(model.floor()).map(|(x, f)| x.max(f)).collect();
            let found = minimum(evaluator, start, x, value, None, how)?;
            if !out.iter().any(|known| same(known, &found)) {
                out.push(found);
            }
        }
    }
    out.sort_by(|a, b| value(&a.x, &a.conditional_fit).total_cmp(&value(&b.x, &b.conditional_fit)));
    Ok(out)
}

impl<M: ScaleProblem + ?Sized> Lattice<'_, M> {
    /// The node nearest to another mode, from which the lattice grows, too.
    fn seed(&mut self, mode: ScaleMinimum) -> Result<(), Error> {
        let k = self.middle.len();
        // C is lower triangular
        let mut away: Vec<f64> = mode.x.iter().zip(&self.middle).map(|(x, m)| (x - m) / self.step).collect();
        linalg::solve_lower(&self.basis, k, false, &mut away);
        let mut key = [0; 2];
        (0..k).for_each(|j| key[j] = away[j].round() as i64);
        let x = self.point(key);
        let conditional_fit =
            self.evaluator.conditional_fit(&x, &mode.conditional_fit.beta, Care::Density)?;
        let log_density = log_density(self.evaluator.model, self.priors, &x, &conditional_fit);
        if log_density.is_finite() {
            self.nodes.entry(key).or_insert(Raw { x, conditional_fit, log_density });
        }
        Ok(())
    }

    /// x̂ + h C key.
    fn point(&self, key: [i64; 2]) -> Vec<f64> {
        let k = self.middle.len();
        let at = |i: usize| (0..=i).map(|j| self.basis[j * k + i] * key[j] as f64).sum::<f64>();
        (0..k).map(|i| self.middle[i] + self.step * at(i)).collect()
    }

    /// Adds the neighbours of nodes that matter until there are no more; whether there are none.
    fn grow(&mut self) -> Result<bool, Error> {
        let mut looked = std::collections::BTreeSet::new();
        loop {
            let top = self.nodes.values().max_by(|a, b| a.log_density.total_cmp(&b.log_density));
            let Some(most) = top.map(|raw| raw.log_density) else { return Ok(false) };
            let highest = top.map_or_else(Vec::new, |raw| self.evaluator.model.log_scales(&raw.x));
            let tail = |raw: &Raw| self.tail(&raw.x, &highest);
            let matters = |raw: &Raw| raw.log_density + tail(raw) > most + FAR.ln();
            let new = |(key, _): &(&[i64; 2], &Raw)| !looked.contains(*key);
            let front: Vec<([i64; 2], f64)> = self
                .nodes
                .iter()
                .filter(|node| new(node) && matters(node.1))
                .map(|(key, raw)| (*key, tail(raw)))
                .collect();
            let runaway = front.iter().any(|(_, tail)| *tail > 2.0 * collapsed::FARTHEST);
            if front.is_empty() || runaway || self.nodes.len() > MOST {
                return Ok(front.is_empty());
            }
            for (key, above) in front {
                looked.insert(key);
                for j in 0..self.middle.len() {
                    for sign in [-1, 1] {
                        let mut next = key;
                        next[j] += sign;
                        if !self.nodes.contains_key(&next) {
                            match self.raw(key, next) {
                                // so far out that the coefficients are lost to rounding
                                Err(error)
                                    if above > 2.0 * collapsed::LOST.0
                                        && !matches!(error, Error::Stopped) =>
                                {
                                    if self.nodes[&key].log_density + above > most + collapsed::LOST.1.ln() {
                                        return Ok(false);
                                    }
                                    continue;
                                }
                                raw => self.nodes.insert(next, raw?),
                            };
                        }
                    }
                }
            }
        }
    }

    /// [`SdPrior::tail`] of the scale for which it is the most.
    fn tail(&self, x: &[f64], highest: &[f64]) -> f64 {
        let logs = self.evaluator.model.log_scales(x);
        let each = self.priors.iter().zip(logs.iter().zip(highest)).map(|(p, (l, h))| p.tail(l - h));
        each.fold(0.0, f64::max)
    }

    fn raw(&mut self, from: [i64; 2], to: [i64; 2]) -> Result<Raw, Error> {
        let x = self.point(to);
        let near = &self.nodes[&from];
        let start = extrapolated(&near.conditional_fit.beta, &self.beta_derivatives, &near.x, &x);
        let conditional_fit = self.evaluator.conditional_fit(&x, &start, Care::Density)?;
        let log_density = log_density(self.evaluator.model, self.priors, &x, &conditional_fit);
        if log_density.is_nan() {
            return Err(NotFinite::Quantity { what: "the posterior density of the scales" }.into());
        }
        Ok(Raw { x, conditional_fit, log_density })
    }

    fn mixed(&self) -> ScaleMixture {
        let k = self.middle.len();
        let logs: Vec<f64> = self.nodes.values().map(|r| r.log_density).collect();
        let (weights, log_sum) = weights(&logs);
        let scales: Vec<Vec<f64>> = self
            .nodes
            .values()
            .map(|r| self.evaluator.model.log_scales(&r.x).iter().map(|l| l.exp()).collect())
            .collect();
        let node = |((r, scales), weight): ((&Raw, &Vec<f64>), f64)| Node {
            sd: scales[0],
            weight,
            mean: r.conditional_fit.beta.clone(),
            factor: r.conditional_fit.lower.clone(),
            error: r.conditional_fit.error,
        };
        let cell: f64 = (0..k).map(|j| (self.step * self.basis[j * (k + 1)]).ln()).sum();
        let mixture = Mixture {
            nodes: self.nodes.values().zip(&scales).zip(weights).map(node).collect(),
            log_evidence: log_sum + cell,
            refinement: f64::INFINITY,
            evaluations: self.evaluator.evaluations.count(),
        };
        let keys = self.nodes.keys().copied().collect();
        ScaleMixture { names: self.evaluator.model.names(), mixture, scales, keys }
    }
}

impl ScaleMixture {
    /// Mean and sd of scale j.
    pub fn scale(&self, j: usize) -> (f64, f64) {
        let weights = || self.mixture.nodes.iter().map(|n| n.weight).zip(&self.scales);
        let mean: f64 = weights().map(|(w, s)| w * s[j]).sum();
        let square: f64 = weights().map(|(w, s)| w * (s[j] - mean).powi(2)).sum();
        (mean, square.sqrt())
    }

    /// The law of the logarithm of scale j.
    pub fn law(&self, j: usize) -> ScaleLaw {
        let weights: Vec<f64> = self.mixture.nodes.iter().map(|n| n.weight).collect();
        let mut combination = vec![0.0; self.names.len()];
        combination[j] = 1.0;
        Grid::new(&self.keys, &self.scales, &weights).law(&combination)
    }

    /// The quantile of scale j.
    pub fn scale_quantile(&self, j: usize, p: f64) -> f64 {
        self.law(j).quantile(p).exp()
    }

    /// The largest difference between two mixtures: of means in sds, of sds in parts.
    fn differs(&self, other: &Self) -> f64 {
        let pair = |a: (f64, f64), b: (f64, f64)| ((a.0 - b.0).abs() / a.1).max((a.1 / b.1 - 1.0).abs());
        let scales = (0..self.names.len()).map(|j| pair(self.scale(j), other.scale(j)));
        scales.fold(self.mixture.differs(&other.mixture), f64::max)
    }
}
