//! The minimum of a smooth function of one or two coordinates from its values alone: Newton's method with central differences.

use certus::linalg;

use super::looks::Looks;
use super::{Care, Given, Scaled};
use crate::error::Error;

/// Steps, at most.
const STEPS: usize = 60;
/// The longest step in a coordinate, and the widest difference.
const LONGEST: f64 = 1.5;
const WIDEST: f64 = 0.5;
/// Maxima all of whose coordinates differ by less than this part of a standard error are the same.
const SAME: f64 = 0.5;

/// The minimum.
pub(super) struct Found {
    pub(super) x: Vec<f64>,
    pub(super) given: Given,
    /// The second derivatives, those of coordinates at their floor zero.
    pub(super) bend: Vec<f64>,
    /// dβ̂/dx_j.
    pub(super) turn: Vec<Vec<f64>>,
    /// Whether a coordinate ended at its floor.
    pub(super) floored: Vec<bool>,
}

impl Found {
    /// Where β̂ is expected at another x.
    fn toward(&self, x: &[f64]) -> Vec<f64> {
        extrapolated(&self.given.beta, &self.turn, &self.x, x)
    }
}

/// Whether two searches ended at the same maximum: within half a standard error of each coordinate.
pub(super) fn same(a: &Found, b: &Found) -> bool {
    let k = a.x.len();
    (0..k).all(|j| {
        let bend = a.bend[j * (k + 1)].min(b.bend[j * (k + 1)]);
        let error = if bend > 0.0 { (1.0 / bend.sqrt()).min(1.0) } else { 1.0 };
        (a.x[j] - b.x[j]).abs() <= SAME * error
    })
}

/// β + Σ (to − from)_j dβ/dx_j.
pub(super) fn extrapolated(beta: &[f64], turn: &[Vec<f64>], from: &[f64], to: &[f64]) -> Vec<f64> {
    let mut out = beta.to_vec();
    for (j, turn) in turn.iter().enumerate() {
        out.iter_mut().zip(turn).for_each(|(b, t)| *b += (to[j] - from[j]) * t);
    }
    out
}

/// The minimum of `value`(x, what is given at x). Differences are taken over `wide` sds, at the end, and a step of `enough` sds ends the search.
pub(super) fn minimum<M: Scaled + ?Sized>(
    looks: &mut Looks<'_, M>,
    beta: &[f64],
    x: Vec<f64>,
    value: &dyn Fn(&[f64], &Given) -> f64,
    floor: Option<&[f64]>,
    (wide, enough, care): (f64, f64, Care),
) -> Result<Found, Error> {
    let k = x.len();
    let given = looks.given(&x, beta, care)?;
    let turn = vec![vec![0.0; beta.len()]; k];
    let mut here = Found { x, given, bend: vec![0.0; k * k], turn, floored: vec![false; k] };
    let mut width = vec![WIDEST; k];
    for _ in 0..STEPS {
        let middle = value(&here.x, &here.given);
        let mut slope = vec![0.0; k];
        let mut sides = vec![[middle; 2]; k];
        let mut moved = |here: &Found, by: &[(usize, f64)]| -> Result<(Given, f64), Error> {
            let mut x = here.x.clone();
            by.iter().for_each(|(j, d)| x[*j] += d);
            let given = looks.given(&x, &here.toward(&x), care)?;
            let value = value(&x, &given);
            Ok((given, value))
        };
        here.bend = vec![0.0; k * k];
        let free: Vec<usize> = (0..k).filter(|j| !here.floored[*j]).collect();
        for &j in &free {
            let w = width[j];
            let (up, high) = moved(&here, &[(j, w)])?;
            let (down, low) = moved(&here, &[(j, -w)])?;
            sides[j] = [low, high];
            slope[j] = (high - low) / (2.0 * w);
            here.bend[j * (k + 1)] = (high + low - 2.0 * middle) / (w * w);
            let turned = up.beta.iter().zip(&down.beta).map(|(u, d)| (u - d) / (2.0 * w));
            here.turn[j] = turned.collect();
        }
        if let [0, 1] = free[..] {
            let mut both = 2.0 * middle - sides.iter().flatten().sum::<f64>();
            for sign in [-1.0, 1.0] {
                let (_, value) = moved(&here, &[(0, sign * width[0]), (1, sign * width[1])])?;
                both += value;
            }
            let cross = both / (2.0 * width[0] * width[1]);
            (here.bend[1], here.bend[2]) = (cross, cross);
        }
        let step = descent(&here.bend, &slope, &free);
        let sd = |j: usize| {
            let bend = here.bend[j * (k + 1)];
            if bend > 0.0 { (1.0 / bend.sqrt()).clamp(1e-5, 1.0) } else { 1.0 }
        };
        let close = free.iter().all(|&j| step[j].abs() < enough * sd(j));
        // of differences over steps that are too wide nothing follows
        let fine = free.iter().all(|&j| width[j] <= 1.5 * wide * sd(j));
        let narrower: Vec<f64> = (0..k).map(|j| (wide * sd(j)).min(WIDEST)).collect();
        let mut scale = 1.0;
        let mut next = None;
        while scale > 1e-3 {
            let by: Vec<(usize, f64)> = free.iter().map(|&j| (j, scale * step[j])).collect();
            let (there, low) = moved(&here, &by)?;
            if low <= middle + 1e-12 * (1.0 + middle.abs()) {
                next = Some((by, there));
                break;
            }
            scale *= 0.5;
        }
        if let Some((by, there)) = next {
            by.iter().for_each(|(j, d)| here.x[*j] += d);
            here.given = there;
        }
        if close && fine {
            return Ok(here);
        }
        width = narrower;
        for j in 0..k {
            let least = floor.map_or(f64::NEG_INFINITY, |f| f[j]);
            if here.x[j] <= least && slope[j] >= 0.0 && !here.floored[j] {
                (here.x[j], here.floored[j]) = (least, true);
                here.given = looks.given(&here.x, &here.given.beta, care)?;
                here.turn[j].fill(0.0);
            }
        }
    }
    Ok(here)
}

/// −(bend)⁻¹ slope over the free coordinates, in units in which every coordinate bends by 1; there, eigenvalues below a hundredth are replaced. Each coordinate
/// moves by at most [`LONGEST`].
fn descent(bend: &[f64], slope: &[f64], free: &[usize]) -> Vec<f64> {
    let (k, n) = (slope.len(), free.len());
    let mut out = vec![0.0; k];
    let root: Vec<f64> = free.iter().map(|j| bend[j * (k + 1)].abs().max(1e-12).sqrt()).collect();
    let scaled = |i: usize, j: usize| bend[free[i] * k + free[j]] / (root[i] * root[j]);
    let part: Vec<f64> = (0..n * n).map(|e| scaled(e / n, e % n)).collect();
    let Some((values, vectors)) = linalg::eigen(&part, n) else { return out };
    for (i, value) in values.iter().enumerate() {
        let vector = &vectors[i * n..][..n];
        let along: f64 = (0..n).map(|j| vector[j] * slope[free[j]] / root[j]).sum();
        (0..n).for_each(|j| out[free[j]] -= vector[j] * along / value.abs().max(0.01) / root[j]);
    }
    out.iter_mut().for_each(|s| *s = s.clamp(-LONGEST, LONGEST));
    out
}
