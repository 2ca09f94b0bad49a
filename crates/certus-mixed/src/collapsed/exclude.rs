//! Where the profile can be as high as at its highest maximum, and where this is excluded: a sweep over the range of
//! the scale (Theorem K12).
//!
//! F_p falls from σ_b down to σ by at most ½Σ_g log((1 + σ_b²B_g)/(1 + σ²B_g)), so one value F_p(σ_b), every error
//! counted, excludes all sds below σ_b down to the one at which that sum is as large as what F_p(σ_b) is above the best
//! value.

use super::profile::factor;
use super::{Collapsed, EvaluationOptions, ObjectiveValue};
use crate::evaluations::{Evaluations, Stage};
use certus_models::Error;

/// Values of F_p, at most.
const VALUES: usize = 120;
/// A step in log scale that is too short to go on with.
const SHORT: f64 = 0.01;
/// A check takes any step that is longer than this: rounding.
const ROUNDED: f64 = 1e-6;
/// What is left out when a step is too short: the first time, how much longer every time after, and at most.
const LEAP: f64 = 0.05;
const LONGER: f64 = 1.5;
const LONGEST: f64 = 0.4;
/// Rows, at most: the sweep computes F a few hundred times.
const ROWS: usize = 20_000;
/// More than this left to gain, in nats, says that little is known of F_p.
const UNKNOWN: f64 = 1.0;
/// With this much left to gain, the last step of β is taken on trust; what is left is bounded after it.
const CLOSE: f64 = 1e-6;

/// Where the highest maximum can be.
#[derive(Clone, Debug, PartialEq)]
pub struct Excluded {
    /// The range of scales that was searched.
    pub searched: [f64; 2],
    /// Parts of it, from small scales to large ones: outside them the likelihood is proved to be lower than at the
    /// estimate.
    pub open: Vec<[f64; 2]>,
    /// Why nothing is proved, if so; then all of the range is open.
    pub proved: Result<(), String>,
}

impl Excluded {
    /// Nothing is excluded.
    pub(crate) fn nothing(searched: [f64; 2], why: &str) -> Self {
        Self { searched, open: vec![searched], proved: Err(why.into()) }
    }
}

/// The parts of [−∞, `high`] in log scale that stay open. `above(b)` is what F_p(b) is above the best value at least,
/// every error counted; `fall(b, a)` bounds F_p(b) − F_p(x) for all x from a to b; `best` is where the best value is.
pub(crate) fn sweep(
    [low, high]: [f64; 2],
    best: f64,
    above: &mut dyn FnMut(f64) -> Result<f64, Error>,
    fall: &dyn Fn(f64, f64) -> f64,
) -> Result<Vec<[f64; 2]>, Error> {
    let mut open: Vec<[f64; 2]> = Vec::new();
    let (mut b, mut leap, mut values) = (high, LEAP, 0);
    let end = f64::NEG_INFINITY;
    while b > low && values < VALUES {
        values += 1;
        let margin = above(b)?;
        let reached = if margin > 0.0 { farthest(b, margin, fall) } else { b };
        if b - reached >= SHORT {
            (b, leap) = (reached, LEAP);
            continue;
        }
        // too near to a maximum: over the best one at once, over others, and where nothing is known, by longer and
        // longer steps
        let mirrored = best - (b - best);
        let over = b > best && mirrored > b - 3.0 && margin > f64::NEG_INFINITY;
        let next = if over { mirrored } else { b - leap };
        leap = (LONGER * leap).min(LONGEST);
        open.push([next, b]);
        b = next;
    }
    if b > end {
        open.push([end, b]);
    }
    open.reverse();
    let mut joined: Vec<[f64; 2]> = Vec::new();
    for part in open {
        match joined.last_mut() {
            Some(last) if last[1] >= part[0] => last[1] = part[1],
            _ => joined.push(part),
        }
    }
    Ok(joined)
}

/// Whether all of the range but the `open` parts, from small to large in log scale, is excluded: the same sweep, with
/// the parts left out.
pub(crate) fn is_excluded(
    [low, high]: [f64; 2],
    open: &[[f64; 2]],
    above: &mut dyn FnMut(f64) -> Result<f64, Error>,
    fall: &dyn Fn(f64, f64) -> f64,
) -> Result<bool, Error> {
    let mut b = high;
    for _ in 0..2 * VALUES {
        if b <= low {
            return Ok(true);
        }
        if let Some(part) = open.iter().find(|part| part[0] < b && b <= part[1] + ROUNDED) {
            b = part[0];
            continue;
        }
        let margin = above(b)?;
        let reached = if margin > 0.0 { farthest(b, margin, fall) } else { b };
        if b - reached <= ROUNDED {
            return Ok(false);
        }
        b = reached;
    }
    Ok(false)
}

/// The least a with fall(b, a) < margin, a little above it; −∞ if there is no end.
fn farthest(b: f64, margin: f64, fall: &dyn Fn(f64, f64) -> f64) -> f64 {
    let enough = |a: f64| fall(b, a) * (1.0 + 1e-9) < margin;
    if enough(f64::NEG_INFINITY) {
        return f64::NEG_INFINITY;
    }
    let (mut good, mut bad) = (b, b - 1.0);
    while enough(bad) {
        (good, bad) = (bad, b - 2.0 * (b - bad));
    }
    for _ in 0..30 {
        let middle = 0.5 * (good + bad);
        if enough(middle) { good = middle } else { bad = middle }
    }
    good
}

impl Collapsed {
    /// B_g of every group: E ψ″ ≤ 1 + σ²B_g, or as good as that, for every β (Theorem K12); infinite where there is no
    /// such bound. Equal ones are counted, not repeated.
    fn information(&self) -> Vec<(f64, f64)> {
        let mut all: Vec<f64> = (0..self.groups()).map(|g| self.information_of(g)).collect();
        all.sort_by(f64::total_cmp);
        let mut out: Vec<(f64, f64)> = Vec::new();
        for b in all {
            match out.last_mut() {
                Some((value, count)) if *value == b => *count += 1.0,
                _ => out.push((b, 1.0)),
            }
        }
        out
    }

    fn information_of(&self, g: usize) -> f64 {
        let mut curvature = 0.0;
        // Σ w|z|(φ′ − φ′(−∞)) and Σ w|z|(φ′(∞) − φ′) at most, less the slopes themselves
        let mut ends = [0.0; 2];
        let (mut widest, mut signs) = (0.0_f64, [false; 2]);
        for i in self.first[g]..self.first[g + 1] {
            let (w, datum) = (self.weight[i], self.data[i]);
            let z = self.effect.get(i).copied().unwrap_or(1.0);
            curvature += w * z * z * self.likelihood.second_derivative_max(datum).unwrap_or(f64::INFINITY);
            for (end, far) in ends.iter_mut().zip([-1e3, 1e3]) {
                *end += w * z.abs() * self.likelihood.first_derivative(far, datum).abs();
            }
            widest = widest.max(z.abs());
            signs = [signs[0] || z < 0.0, signs[1] || z > 0.0];
        }
        let bounded = self.likelihood.third_below_second() && signs != [true; 2];
        let other =
            if bounded { widest * ends[0].min(ends[1]) + 0.5 * widest * widest } else { f64::INFINITY };
        // 0·∞ of a weight of 0
        let curvature = if curvature.is_nan() { f64::INFINITY } else { curvature };
        curvature.min(other) * (1.0 + 1e-9)
    }

    /// Where F_p can be as low as at (β, σ). `beta` are coefficients to begin with, `top` is F there with its error.
    pub(super) fn excluded(
        &self,
        beta: &[f64],
        theta: f64,
        top: f64,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<Excluded, Error> {
        let largest = self.largest(theta);
        let searched = [0.0, largest];
        if !self.bounds_errors() {
            let why = "the error of the quadrature is not proved for this likelihood";
            return Ok(Excluded::nothing(searched, why));
        }
        if !top.is_finite() {
            let why = "the error of the quadrature could not be bounded at the estimate, whose sd is large";
            return Ok(Excluded::nothing(searched, why));
        }
        if self.rows() > ROWS {
            let why = format!("there are {} rows, and the proof is tried up to {ROWS}", self.rows());
            return Ok(Excluded::nothing(searched, &why));
        }
        let information = self.information();
        let mut near = beta.to_vec();
        let mut above = |b: f64| self.above(&mut near, b, top, evaluations);
        let fall = |b: f64, a: f64| fall(&information, b, a);
        // a little beyond it, so that rounding leaves out nothing
        let high = largest.ln() + 1e-12;
        let open = sweep([self.smallest(), high], theta, &mut above, &fall)?;
        if let [[end, most]] = open[..]
            && end == f64::NEG_INFINITY
            && most >= high
        {
            let why = "what is left to gain from the coefficients could not be bounded; a prior on every coefficient \
                would help";
            return Ok(Excluded::nothing(searched, why));
        }
        let open = open.into_iter().map(|part| part.map(|end| end.exp().min(largest))).collect();
        Ok(Excluded { searched, open, proved: Ok(()) })
    }

    /// What F_p(θ) is above `top` at least; −∞ if nothing is known of it. `near` are coefficients to begin with, and
    /// those found.
    fn above(
        &self,
        near: &mut Vec<f64>,
        theta: f64,
        top: f64,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<f64, Error> {
        match self.lower_bound(near, theta, evaluations) {
            Ok((value, left, there)) => {
                *near = there;
                let margin = value - left - top;
                // it is not near to a maximum that makes it so low, but what is not known of the coefficients
                Ok(if margin <= 0.0 && left > UNKNOWN { f64::NEG_INFINITY } else { margin })
            }
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(_) => Ok(f64::NEG_INFINITY),
        }
    }

    /// F near its minimum over β, its error taken off, what is left to gain at most, and the coefficients: their
    /// difference is a lower bound of F_p(θ).
    fn lower_bound(
        &self,
        start: &[f64],
        theta: f64,
        evaluations: &mut Evaluations<'_>,
    ) -> Result<(f64, f64, Vec<f64>), Error> {
        let there = self.profile(start, theta, CLOSE, evaluations)?;
        let metric = factor(&there.at.hessian, self.dim)?;
        let options = EvaluationOptions { slope_errors: true, ..EvaluationOptions::default() };
        let mut at: ObjectiveValue = self.at_in(evaluations, &there.beta, theta, options)?;
        if self.proper().is_some() {
            return Ok((at.value - at.error, self.left_to_gain(&at, &metric, 0.0)?, there.beta));
        }
        let (norm, most) = (self.slope_norm(&at, &metric), self.radius());
        let mut left = f64::INFINITY;
        // as small as it may be, because groups of many trials tell predictors apart that are near each other; larger
        // where the Hessian varies much
        for times in [8.0, 64.0] {
            let radius = most.min(times * norm).max(f64::MIN_POSITIVE);
            at = self.at_in(
                evaluations,
                &there.beta,
                theta,
                EvaluationOptions { metric: Some((&metric[..], radius)), ..options },
            )?;
            left = self.left_to_gain(&at, &metric, radius)?;
            if left.is_finite() || radius == most {
                break;
            }
        }
        Ok((at.value - at.error, left, there.beta))
    }

    /// Whether all sds up to `claim.searched[1]` but those in the open parts have a lower maximum of −F over β than
    /// `sd` has, from the data again. `start` are coefficients to begin with.
    pub fn confirm_excluded(&self, start: &[f64], sd: f64, claim: &Excluded) -> Result<bool, Error> {
        let evaluations = &mut Evaluations::hidden(Stage::Interval);
        let here = self.profile(start, sd.ln().max(self.smallest() - 8.0), 0.0, evaluations)?;
        let (top, information) = (here.at.value + here.at.error, self.information());
        let mut near = here.beta;
        let mut above = |b: f64| self.above(&mut near, b, top, evaluations);
        let fall = |b: f64, a: f64| fall(&information, b, a);
        let open: Vec<[f64; 2]> = claim.open.iter().map(|part| part.map(f64::ln)).collect();
        is_excluded([f64::NEG_INFINITY, claim.searched[1].ln() + 1e-12], &open, &mut above, &fall)
    }
}

/// ½Σ_g log((1 + σ_b²B_g)/(1 + σ²B_g)) of B_g and how many groups have it.
fn fall(information: &[(f64, f64)], b: f64, a: f64) -> f64 {
    let [b, a] = [(2.0 * b).exp(), (2.0 * a).exp()];
    let one = |(own, count): &(f64, f64)| {
        // 1 + (σ_b² − σ²)B/(1 + σ²B)
        let ratio = if own.is_finite() { ((b - a) * own / (1.0 + a * own)).ln_1p() } else { (b / a).ln() };
        0.5 * count * ratio
    };
    information.iter().map(one).sum()
}
