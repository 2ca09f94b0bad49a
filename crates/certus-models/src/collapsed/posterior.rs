//! The posterior of the sd on a grid of θ = log σ, and of β given each (docs/collapsed.md, part K5).
//!
//! p(θ | y) ∝ Z(θ) p(σ) σ, Z(θ) = ∫ e^{−F(β, θ)}dβ. At every node β is N(β̂, H⁻¹) with the minimum and Hessian of F, and Z its Gaussian integral; the nodes'
//! weights make a mixture. The sums over θ are trapezoid sums of an analytic function that decays on both sides, refined until halving the step changes
//! nothing that matters.

use std::ops::ControlFlow;

use certus::linalg;

use super::effects::quantile;
use super::estimate::{Profile, Ridge, factor};
use super::passes::{Observer, Passes, Stage};
use super::{At, Collapsed};
use crate::error::Error;
use crate::special::normal_cdf;

/// Density, relative to its maximum, beyond which a node is left out.
const FAR: f64 = 1e-7;
/// Nodes, at most.
const NODES: usize = 400;
/// The first step, in sds of θ: a trapezoid sum of a Gaussian errs by 2e^{−2π²/step²}, 8e-5 of it, and half the step makes that 1e-17.
const FIRST: f64 = 1.4;
/// What halving the step may change: means in sds, sds in parts.
pub const AGREE: f64 = 1e-3;

/// Prior of the group sd.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SdPrior {
    /// N(0, scale²) on σ > 0.
    HalfNormal(f64),
    /// Student's t with degrees of freedom and scale, on σ > 0.
    HalfT(f64, f64),
    /// With the mean given.
    Exponential(f64),
    /// Constant in σ; proper only if the likelihood bounds the sd.
    Flat,
}

impl SdPrior {
    /// log p(σ), normalised but for the flat one.
    pub fn log_density(self, sd: f64) -> f64 {
        use std::f64::consts::{FRAC_2_PI, PI};
        match self {
            Self::HalfNormal(scale) => 0.5 * FRAC_2_PI.ln() - scale.ln() - 0.5 * (sd / scale).powi(2),
            Self::HalfT(df, scale) => {
                let half = 0.5 * (df + 1.0);
                let constant = crate::special::ln_gamma(half)
                    - crate::special::ln_gamma(0.5 * df)
                    - 0.5 * (df * PI).ln();
                2f64.ln() + constant - scale.ln() - half * ((sd / scale).powi(2) / df).ln_1p()
            }
            Self::Exponential(mean) => -mean.ln() - sd / mean,
            Self::Flat => 0.0,
        }
    }
}

/// One node of the grid.
#[derive(Clone, Debug)]
pub struct Node {
    /// The sd.
    pub sd: f64,
    /// Its weight; all weights sum to 1.
    pub weight: f64,
    /// β̂.
    pub mean: Vec<f64>,
    /// Lower factor of H⁻¹.
    pub factor: Vec<f64>,
    /// Bound on the error of F there.
    pub error: f64,
}

/// The posterior of β and σ: a mixture of Gaussians.
#[derive(Clone, Debug)]
pub struct Mixture {
    /// From the smallest sd to the largest.
    pub nodes: Vec<Node>,
    /// log ∫∫ e^{−F} p(σ) dβ dσ, estimated: by Gaussian integrals over β.
    pub log_evidence: f64,
    /// What halving the step changed last: of the means, in sds, and of the sds, in parts.
    pub refinement: f64,
    /// Evaluations of F.
    pub evaluations: usize,
}

/// β̂ at one sd, F there and the Cholesky factor of its Hessian in β.
pub(crate) struct Alone {
    pub(crate) beta: Vec<f64>,
    pub(crate) at: At,
    pub(crate) factor: Vec<f64>,
    pub(crate) evaluations: usize,
}

/// A node before it has its weight.
pub(super) struct Raw {
    theta: f64,
    pub(super) profile: Profile,
    lower: Vec<f64>,
    pub(super) log_density: f64,
    /// −dβ̂/dθ, and the second derivative of the profile.
    turned: Vec<f64>,
    bend: f64,
}

impl Raw {
    /// Where β̂ is expected at another θ.
    fn toward(&self, theta: f64) -> Vec<f64> {
        let change = theta - self.theta;
        self.profile.beta.iter().zip(&self.turned).map(|(b, t)| b - change * t).collect()
    }
}

impl Collapsed {
    /// With this much left to gain, the last step of β is taken on trust: the Hessian is then off by about √(nats·d/n) = 1e-4.
    pub(crate) fn close_enough(&self) -> f64 {
        (1e-8 * self.rows() as f64 / self.dim as f64).clamp(1e-10, 1e-4)
    }

    /// β̂ at one sd, which nobody watches.
    pub(crate) fn alone(&self, start: &[f64], log_sd: f64, nats: f64) -> Result<Alone, Error> {
        let passes = &mut Passes::unwatched(Stage::Posterior);
        let Profile { beta, at } = self.profile(start, log_sd, nats, passes)?;
        let factor = factor(&at.hessian, self.dim)?;
        Ok(Alone { beta, at, factor, evaluations: passes.count() })
    }

    pub(super) fn raw(
        &self,
        start: &[f64],
        theta: f64,
        prior: SdPrior,
        passes: &mut Passes<'_>,
    ) -> Result<Raw, Error> {
        let d = self.dim;
        let profile = self.profile(start, theta, self.close_enough(), passes)?;
        let Ridge { factor: l, turned, bend, .. } = profile.ridge(d)?;
        let log_det: f64 = (0..d).map(|j| l[j * (d + 1)].ln()).sum();
        let log_z = -profile.at.value - log_det + 0.5 * d as f64 * std::f64::consts::TAU.ln();
        let log_density = log_z + prior.log_density(theta.exp()) + theta;
        Ok(Raw { theta, lower: linalg::lower_of_inverse(&l, d), profile, log_density, turned, bend })
    }

    /// The posterior. `start` are coefficients and an sd to begin with, such as those of [`Collapsed::estimate`].
    pub fn posterior(&self, start: &[f64], sd: f64, prior: SdPrior) -> Result<Mixture, Error> {
        self.posterior_observed(start, sd, prior, &mut |_| ControlFlow::Continue(()))
    }

    /// The same, watched: [`Error::Stopped`] if the observer ends it.
    pub fn posterior_observed(
        &self,
        start: &[f64],
        sd: f64,
        prior: SdPrior,
        observer: &mut Observer<'_>,
    ) -> Result<Mixture, Error> {
        let passes = &mut Passes::new(Stage::Posterior, observer);
        let mut theta = sd.max(0.1).ln();
        // the maximum, roughly, by parabolas through three points
        let mut middle = self.raw(start, theta, prior, passes)?;
        let mut width = if middle.bend > 0.0 { (1.0 / middle.bend.sqrt()).clamp(1e-4, 0.5) } else { 0.5 };
        for _ in 0..40 {
            let left = self.raw(&middle.toward(theta - width), theta - width, prior, passes)?;
            let right = self.raw(&middle.toward(theta + width), theta + width, prior, passes)?;
            let bend = (2.0 * middle.log_density - left.log_density - right.log_density) / (width * width);
            let slope = (right.log_density - left.log_density) / (2.0 * width);
            let step = if bend > 0.0 { (slope / bend).clamp(-1.5, 1.5) } else { slope.signum() };
            let spread = if bend > 0.0 { (1.0 / bend.sqrt()).clamp(1e-4, 1.0) } else { 1.0 };
            theta += step;
            middle = self.raw(&middle.toward(theta), theta, prior, passes)?;
            let done = step.abs() < 0.2 * spread && width <= 2.0 * spread;
            width = spread;
            if done {
                break;
            }
        }
        let mut step = FIRST * width;
        let mut raws = vec![middle];
        self.extend(&mut raws, step, prior, passes)?;
        let mut last = mixed(&raws, step);
        loop {
            // halve the step: a node between every two
            let mut finer = Vec::with_capacity(2 * raws.len());
            let mut old = std::mem::take(&mut raws).into_iter().peekable();
            while let Some(raw) = old.next() {
                let between = old
                    .peek()
                    .map(|_| {
                        let theta = raw.theta + 0.5 * step;
                        self.raw(&raw.toward(theta), theta, prior, passes)
                    })
                    .transpose()?;
                finer.push(raw);
                finer.extend(between);
            }
            step *= 0.5;
            raws = finer;
            self.extend(&mut raws, step, prior, passes)?;
            let mut next = mixed(&raws, step);
            next.refinement = next.differs(&last);
            next.evaluations = passes.count();
            if next.refinement <= AGREE || raws.len() > NODES {
                return Ok(next);
            }
            last = next;
        }
    }

    /// Adds nodes on both sides until they do not matter.
    fn extend(
        &self,
        raws: &mut Vec<Raw>,
        step: f64,
        prior: SdPrior,
        passes: &mut Passes<'_>,
    ) -> Result<(), Error> {
        let most = raws.iter().map(|r| r.log_density).fold(f64::NEG_INFINITY, f64::max);
        while raws.len() <= NODES && raws[raws.len() - 1].log_density > most + FAR.ln() {
            let last = &raws[raws.len() - 1];
            let next = self.raw(&last.toward(last.theta + step), last.theta + step, prior, passes)?;
            raws.push(next);
        }
        let mut before = Vec::new();
        while raws.len() + before.len() <= NODES {
            let first = before.last().unwrap_or(&raws[0]);
            if first.log_density <= most + FAR.ln() {
                break;
            }
            let next = self.raw(&first.toward(first.theta - step), first.theta - step, prior, passes)?;
            before.push(next);
        }
        raws.splice(0..0, before.into_iter().rev());
        Ok(())
    }
}

/// Weights that sum to 1, as e^{log}, and the logarithm of what was the sum.
pub(crate) fn weights(logs: &[f64]) -> (Vec<f64>, f64) {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|l| (l - most).exp()).sum();
    (logs.iter().map(|l| (l - most).exp() / sum).collect(), most + sum.ln())
}

fn mixed(raws: &[Raw], step: f64) -> Mixture {
    let logs: Vec<f64> = raws.iter().map(|r| r.log_density).collect();
    let (weights, log_sum) = weights(&logs);
    let node = |(r, weight): (&Raw, f64)| Node {
        sd: r.theta.exp(),
        weight,
        mean: r.profile.beta.clone(),
        factor: r.lower.clone(),
        error: r.profile.at.error,
    };
    Mixture {
        nodes: raws.iter().zip(weights).map(node).collect(),
        log_evidence: log_sum + step.ln(),
        refinement: f64::INFINITY,
        evaluations: 0,
    }
}

impl Mixture {
    /// Mean and sd of coefficient j.
    pub fn coefficient(&self, j: usize) -> (f64, f64) {
        let (mut mean, mut square) = (0.0, 0.0);
        for node in &self.nodes {
            mean += node.weight * node.mean[j];
        }
        for node in &self.nodes {
            square += node.weight * (node.sd_of(j).powi(2) + (node.mean[j] - mean).powi(2));
        }
        (mean, square.sqrt())
    }

    /// The quantile of coefficient j: the root of the mixture's distribution function, by halves.
    pub fn quantile(&self, j: usize, p: f64) -> f64 {
        let ends = self.nodes.iter().map(|n| (n.mean[j], 12.0 * n.sd_of(j)));
        let (mut low, mut high) =
            ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), (m, s)| (l.min(m - s), h.max(m + s)));
        let below = |x: f64| -> f64 {
            self.nodes.iter().map(|n| n.weight * normal_cdf((x - n.mean[j]) / n.sd_of(j))).sum()
        };
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if below(middle) < p { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }

    /// Mean and sd of the group sd.
    pub fn sd(&self) -> (f64, f64) {
        let mean: f64 = self.nodes.iter().map(|n| n.weight * n.sd).sum();
        let square: f64 = self.nodes.iter().map(|n| n.weight * (n.sd - mean).powi(2)).sum();
        (mean, square.sqrt())
    }

    /// The quantile of the group sd.
    pub fn sd_quantile(&self, p: f64) -> f64 {
        let [first, last] = [0, self.nodes.len() - 1].map(|k| self.nodes[k].sd.ln());
        let weights: Vec<f64> = self.nodes.iter().map(|n| n.weight).collect();
        let mut law = Vec::new();
        add_line(&mut law, first, (last - first) / (weights.len() - 1).max(1) as f64, &weights);
        quantile(&law, p).exp()
    }

    /// Fewer nodes for work that is done at each: every second or third of a fine grid, so that a dozen or more remain, and none that weighs less than 1e-6. Steps
    /// of an sd of log σ move means and sds by about 1e-4 sd.
    #[must_use]
    pub fn thinned(&self) -> Mixture {
        let stride = (self.nodes.len() / 12).clamp(1, 3);
        let most =
            (0..self.nodes.len()).max_by(|a, b| self.nodes[*a].weight.total_cmp(&self.nodes[*b].weight));
        let from = most.unwrap_or(0) % stride;
        let mut nodes: Vec<Node> =
            self.nodes.iter().skip(from).step_by(stride).filter(|n| n.weight > 1e-6).cloned().collect();
        let sum: f64 = nodes.iter().map(|n| n.weight).sum();
        nodes.iter_mut().for_each(|n| n.weight /= sum);
        Mixture { nodes, ..self.clone() }
    }

    /// The largest difference between two mixtures: of means in sds, of sds in parts.
    pub(crate) fn differs(&self, other: &Mixture) -> f64 {
        let pair = |a: (f64, f64), b: (f64, f64)| ((a.0 - b.0).abs() / a.1).max((a.1 / b.1 - 1.0).abs());
        let dim = self.nodes[0].mean.len();
        let coefficients = (0..dim).map(|j| pair(self.coefficient(j), other.coefficient(j)));
        coefficients.chain([pair(self.sd(), other.sd())]).fold(0.0, f64::max)
    }
}

/// Adds to a law the masses of 16 pieces between every two nodes at even distances, whose sum is that of the nodes. The logarithm of the density is a cubic
/// through four nodes, none of them so low that it makes the cubic swing (e⁻⁴⁰ of the highest), else a straight line.
pub(crate) fn add_line(law: &mut Vec<(f64, f64)>, start: f64, step: f64, weights: &[f64]) {
    const PIECES: usize = 16;
    let (n, total) = (weights.len(), weights.iter().sum::<f64>());
    if n == 1 {
        law.push((start, total));
        return;
    }
    let log: Vec<f64> = weights.iter().map(|w| w.max(f64::MIN_POSITIVE).ln()).collect();
    let most = log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut pieces = Vec::with_capacity((n - 1) * PIECES);
    for k in 0..n - 1 {
        let sound = |base: usize| base + 4 <= n && log[base..base + 4].iter().all(|l| *l > most - 40.0);
        let bases = [k.checked_sub(1), Some(k), k.checked_sub(2)];
        let points = match bases.into_iter().flatten().find(|b| sound(*b)) {
            Some(base) => base..base + 4,
            None => k..k + 2,
        };
        let density = |part: usize| -> f64 {
            let x = k as f64 + part as f64 / PIECES as f64;
            let weigh = |j: usize| -> f64 {
                points.clone().filter(|l| *l != j).map(|l| (x - l as f64) / (j as f64 - l as f64)).product()
            };
            points.clone().map(|j| weigh(j) * log[j]).sum::<f64>().exp()
        };
        let values: Vec<f64> = (0..=PIECES).map(density).collect();
        pieces.extend(values.windows(2).map(|v| 0.5 * (v[0] + v[1])));
    }
    let sum: f64 = pieces.iter().sum();
    let place = |k: usize| start + step * (k as f64 + 0.5) / PIECES as f64;
    law.extend(pieces.iter().enumerate().map(|(k, piece)| (place(k), total * piece / sum)));
}

impl Node {
    /// The sd of coefficient j.
    pub fn sd_of(&self, j: usize) -> f64 {
        let d = self.mean.len();
        (0..=j).map(|k| self.factor[k * d + j].powi(2)).sum::<f64>().sqrt()
    }
}
