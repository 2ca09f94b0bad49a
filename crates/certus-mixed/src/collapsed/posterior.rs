//! The posterior of the sd on a grid of θ = log σ, and of β given each (docs/collapsed.md, part K5).
//!
//! p(θ | y) ∝ Z(θ) p(σ) σ, Z(θ) = ∫ e^{−F(β, θ)}dβ. At every node β is N(β̂, H⁻¹) with the minimum and Hessian of F,
//! and Z its Gaussian integral; the nodes' weights make a mixture. The sums over θ are trapezoid sums of an analytic
//! function that decays on both sides, refined until halving the step changes nothing that matters.

use std::ops::ControlFlow;

use certus::linalg;

use super::mixture::{Mixture, Node, weights};
use super::profile::{Profile, Ridge, factor};
use super::{Collapsed, ObjectiveValue};
use crate::evaluations::{Evaluations, ScaleObserver, Stage};
use crate::journal::Journal;
use certus_models::Error;
use certus_models::error::InvalidModel;

/// Density, relative to its maximum, beyond which a node is left out; times σ² for priors with heavy tails.
const FAR: f64 = 1e-7;
/// How far above the highest node's a log sd may be: a tail that matters there has no second moment, or none that a
/// grid could find.
pub(crate) const FARTHEST: f64 = 25.0;
/// How far above it a node may fail without ending the fit, and what the nodes before it may count for at most, where
/// it is left out.
pub(crate) const LOST: (f64, f64) = (5.0, 1e-5);
/// Nodes, at most.
const NODES: usize = 400;
/// The same for several modes, which may be far apart.
const WIDE: usize = 2000;
/// The first step, in sds of θ: a trapezoid sum of a Gaussian errs by 2e^{−2π²/step²}, 8e-5 of it, and half the step
/// makes that 1e-17.
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
                let constant = certus_likelihood::special::ln_gamma(half)
                    - certus_likelihood::special::ln_gamma(0.5 * df)
                    - 0.5 * (df * PI).ln();
                2f64.ln() + constant - scale.ln() - half * ((sd / scale).powi(2) / df).ln_1p()
            }
            Self::Exponential(mean) => -mean.ln() - sd / mean,
            Self::Flat => 0.0,
        }
    }

    /// d log p/d log σ.
    pub fn log_slope(self, sd: f64) -> f64 {
        match self {
            Self::HalfNormal(scale) => -(sd / scale).powi(2),
            Self::HalfT(df, scale) => {
                let part = (sd / scale).powi(2) / df;
                -(df + 1.0) * part / (1.0 + part)
            }
            Self::Exponential(mean) => -sd / mean,
            Self::Flat => 0.0,
        }
    }

    /// What is added to a log density before it is compared with the highest one, at a log sd so much above that one's:
    /// second moments must not lose what a prior without exponential tails leaves far out.
    pub(crate) fn tail(self, above: f64) -> f64 {
        match self {
            Self::HalfNormal(_) | Self::Exponential(_) => 0.0,
            Self::HalfT(..) | Self::Flat => 2.0 * above.max(0.0),
        }
    }
}

/// β̂ at one sd, F there and the Cholesky factor of its Hessian in β.
pub(crate) struct ProfileFit {
    pub(crate) beta: Vec<f64>,
    pub(crate) at: ObjectiveValue,
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
    curvature: f64,
}

impl Raw {
    /// Where β̂ is expected at another θ.
    fn toward(&self, theta: f64) -> Vec<f64> {
        let change = theta - self.theta;
        self.profile.beta.iter().zip(&self.turned).map(|(b, t)| b - change * t).collect()
    }
}

impl Collapsed {
    /// With this much left to gain, the last step of β is taken on trust: the Hessian is then off by about √(nats·d/n)
    /// = 1e-4.
    pub(crate) fn close_enough(&self) -> f64 {
        (1e-8 * self.rows() as f64 / self.dim as f64).clamp(1e-10, 1e-4)
    }

    /// β̂ at one sd, which nobody watches.
    pub(crate) fn profile_unobserved(
        &self,
        start: &[f64],
        log_sd: f64,
        nats: f64,
    ) -> Result<ProfileFit, Error> {
        let evaluations = &mut Evaluations::hidden(Stage::Posterior);
        let Profile { beta, at } = self.profile(start, log_sd, nats, evaluations)?;
        let factor = factor(&at.hessian, self.dim)?;
        Ok(ProfileFit { beta, at, factor, evaluations: evaluations.count() })
    }

    pub(super) fn raw(
        &self,
        start: &[f64],
        theta: f64,
        prior: SdPrior,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<Raw, Error> {
        let d = self.dim;
        let profile = self.profile(start, theta, self.close_enough(), evaluations)?;
        let Ridge { factor: l, turned, curvature, .. } = profile.ridge(d)?;
        let log_det: f64 = (0..d).map(|j| l[j * (d + 1)].ln()).sum();
        let log_z = -profile.at.value - log_det + 0.5 * d as f64 * std::f64::consts::TAU.ln();
        let log_density = log_z + prior.log_density(theta.exp()) + theta;
        Ok(Raw { theta, lower: linalg::lower_of_inverse(&l, d), profile, log_density, turned, curvature })
    }

    /// The posterior. `start` are coefficients and an sd to begin with, such as those of [`Collapsed::estimate`].
    pub fn posterior(&self, start: &[f64], sd: f64, prior: SdPrior) -> Result<Mixture, Error> {
        self.posterior_over(&[(start.to_vec(), sd)], prior, &mut Journal::default(), &mut |_, _| {
            ControlFlow::Continue(())
        })
    }

    /// The same where the likelihood may have several maxima: coefficients and sds to begin with. The grid covers every
    /// mode of the density that is reached from one of them and not too low to matter. Begins with the journal of a run
    /// that was stopped, or an empty one; [`Error::Stopped`] if the observer ends it.
    pub fn posterior_over(
        &self,
        starts: &[(Vec<f64>, f64)],
        prior: SdPrior,
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Result<Mixture, Error> {
        let evaluations = &mut Evaluations::new(Stage::Posterior, journal, observer);
        let mut modes: Vec<(Raw, f64)> = Vec::new();
        for (beta, sd) in starts {
            // of several maxima, one at 0 may be much narrower than what is usual
            let least = if starts.len() > 1 { self.smallest() } else { (0.1 * self.unit()).ln() };
            let (raw, width) = self.mode(beta, sd.ln().max(least), prior, evaluations)?;
            if modes.iter().all(|(other, _)| (other.theta - raw.theta).abs() > 0.5 * width) {
                modes.push((raw, width));
            }
        }
        // the highest first; the mass of one is about its density times its width
        modes.sort_by(|a, b| b.0.log_density.total_cmp(&a.0.log_density));
        let mass = |(raw, width): &(Raw, f64)| raw.log_density + width.ln();
        let most = modes.iter().map(mass).fold(f64::NEG_INFINITY, f64::max);
        modes.retain(|mode| mass(mode) > most + FAR.ln());
        let width = modes.iter().map(|m| m.1).fold(f64::INFINITY, f64::min);
        let places = || modes.iter().map(|m| m.0.theta);
        let cover = [places().fold(f64::INFINITY, f64::min), places().fold(f64::NEG_INFINITY, f64::max)];
        let room = if modes.len() > 1 { WIDE } else { NODES };
        let Some((middle, _)) = modes.into_iter().next() else {
            let (what, required) = ("the posterior of a scale", "a starting point");
            return Err(InvalidModel::Requires { what, required }.into());
        };
        let mut step = FIRST * width;
        let mut raws = vec![middle];
        let limits = Limits { cover, room };
        let mut whole = self.extend(&mut raws, step, &limits, prior, evaluations)?;
        let mut last = mixed(&raws, step);
        loop {
            // a grid that ends where the density still matters says nothing
            if !whole {
                return Ok(Mixture { refinement: f64::INFINITY, evaluations: evaluations.count(), ..last });
            }
            // halve the step: a node between every two
            let mut finer = Vec::with_capacity(2 * raws.len());
            let mut old = std::mem::take(&mut raws).into_iter().peekable();
            while let Some(raw) = old.next() {
                let between = old
                    .peek()
                    .map(|_| {
                        let theta = raw.theta + 0.5 * step;
                        self.raw(&raw.toward(theta), theta, prior, evaluations)
                    })
                    .transpose()?;
                finer.push(raw);
                finer.extend(between);
            }
            step *= 0.5;
            raws = finer;
            whole = self.extend(&mut raws, step, &limits, prior, evaluations)?;
            let mut next = mixed(&raws, step);
            next.refinement = next.differs(&last);
            next.evaluations = evaluations.count();
            if whole && (next.refinement <= AGREE || raws.len() > room) {
                return Ok(next);
            }
            last = next;
        }
    }

    /// The maximum of the density near θ, roughly, by parabolas through three points; and its width.
    fn mode(
        &self,
        start: &[f64],
        from: f64,
        prior: SdPrior,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<(Raw, f64), Error> {
        let mut theta = from;
        let mut middle = self.raw(start, theta, prior, evaluations)?;
        let mut width =
            if middle.curvature > 0.0 { (1.0 / middle.curvature.sqrt()).clamp(1e-4, 0.5) } else { 0.5 };
        for _ in 0..40 {
            let left = self.raw(&middle.toward(theta - width), theta - width, prior, evaluations)?;
            let right = self.raw(&middle.toward(theta + width), theta + width, prior, evaluations)?;
            let curvature =
                (2.0 * middle.log_density - left.log_density - right.log_density) / (width * width);
            let slope = (right.log_density - left.log_density) / (2.0 * width);
            let step = if curvature > 0.0 { (slope / curvature).clamp(-1.5, 1.5) } else { slope.signum() };
            let spread = if curvature > 0.0 { (1.0 / curvature.sqrt()).clamp(1e-4, 1.0) } else { 1.0 };
            theta += step;
            middle = self.raw(&middle.toward(theta), theta, prior, evaluations)?;
            let done = step.abs() < 0.2 * spread && width <= 2.0 * spread;
            width = spread;
            if done {
                break;
            }
        }
        Ok((middle, width))
    }

    /// Adds nodes on both sides until they do not matter; whether they do not.
    fn extend(
        &self,
        raws: &mut Vec<Raw>,
        step: f64,
        limits: &Limits,
        prior: SdPrior,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<bool, Error> {
        let Limits { cover, room } = *limits;
        let (most, top) = raws.iter().fold((f64::NEG_INFINITY, 0.0), |best: (f64, f64), r| {
            if r.log_density > best.0 { (r.log_density, r.theta) } else { best }
        });
        let counts = |r: &Raw, least: f64| r.log_density + prior.tail(r.theta - top) > most + least.ln();
        let matters = |r: &Raw| counts(r, FAR);
        let done_below = |r: &Raw| !matters(r) && r.theta <= cover[0];
        let done_above = |r: &Raw| !matters(r) && r.theta >= cover[1];
        let mut lost = false;
        while raws.len() <= room {
            let last = &raws[raws.len() - 1];
            if done_above(last) || (last.theta > top + FARTHEST && last.theta >= cover[1]) {
                break;
            }
            let next = self.raw(&last.toward(last.theta + step), last.theta + step, prior, evaluations);
            match next {
                // so far out that the coefficients are lost to rounding
                Err(error) if last.theta > top + LOST.0 && !matches!(error, Error::Stopped) => {
                    lost = !counts(last, LOST.1);
                    break;
                }
                next => raws.push(next?),
            }
        }
        let mut before = Vec::new();
        while raws.len() + before.len() <= room {
            let first = before.last().unwrap_or(&raws[0]);
            if done_below(first) {
                break;
            }
            let next = self.raw(&first.toward(first.theta - step), first.theta - step, prior, evaluations)?;
            before.push(next);
        }
        raws.splice(0..0, before.into_iter().rev());
        Ok(done_below(&raws[0]) && (lost || done_above(&raws[raws.len() - 1])))
    }
}

/// What a grid must reach, and how many nodes it may have.
struct Limits {
    /// The outermost modes.
    cover: [f64; 2],
    room: usize,
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
