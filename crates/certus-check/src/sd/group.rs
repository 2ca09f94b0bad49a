//! One group integrated out: −log ∫ e^{−ψ(u)} du, ψ(u) = Σ w φ(t + s u) + u²/2, and expectations under e^{−ψ}, by the
//! trapezoidal rule with every error in a ball (docs/certificate-format.md, "The integral of a group").

use crate::ball::{Ball, TINY, U, exp, log, log_one_plus, two_sum, up};
use crate::gap::block::SUMMED;

/// The nodes of a group: origin + k·step for −below ≤ k ≤ above. Any legal numbers may be given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nodes {
    /// Where k is 0.
    pub origin: f64,
    /// Their distance.
    pub step: f64,
    /// a, half the height of the strip.
    pub height: f64,
    /// Nodes below the origin.
    pub below: u64,
    /// Nodes above it.
    pub above: u64,
    /// The nodes −`inner[0]` and `inner[1]` are the ends of the interval in which curvature is counted.
    pub inner: [u64; 2],
}

/// A row of a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupRow {
    /// Its predictor without the effect.
    pub t: Ball,
    /// What one sd of the effect adds to it.
    pub s: Ball,
    /// Its response.
    pub y: f64,
    /// Its trials.
    pub trials: f64,
    /// Its weight.
    pub weight: f64,
}

/// What is known of a group.
#[derive(Clone, Debug)]
pub struct Integral {
    /// −log ∫ e^{−ψ}.
    pub value: Ball,
    /// w E φ′ of every row.
    pub slopes: Vec<Ball>,
    /// At most w φ″ for u between the inner nodes.
    pub curvatures: Vec<f64>,
    /// At most the probability of that interval.
    pub inside: f64,
}

/// Nodes times rows at most.
const NUMBERS: u64 = 1 << 27;
/// Nodes are whole multiples of 2⁻³⁰ and at most 2²⁰, so that they are exact.
const GRAIN: f64 = 1_073_741_824.0;
const FARTHEST: f64 = 1_048_576.0;
/// Uncertainties of a predictor that the formulas of a row are proved for.
const REACH: f64 = 0.1;
/// At least −log cos(τ/2)/τ² for |τ| ≤ 2.
const STRIP: f64 = 0.154;

impl Nodes {
    fn legal(&self, rows: usize) -> bool {
        let grain = |x: f64| (x * GRAIN).fract() == 0.0;
        let count = self.below.max(self.above);
        self.step > 0.0
            && self.height > 0.0
            && grain(self.origin)
            && grain(self.step)
            && (2 * count + 1) * rows as u64 <= NUMBERS
            && self.origin.abs() + self.step * count as f64 <= FARTHEST
            && self.inner[0] <= self.below
            && self.inner[1] <= self.above
    }

    fn at(&self, k: u64) -> f64 {
        self.origin + self.step * (k as f64 - self.below as f64)
    }
}

/// What a row is at a predictor t: φ, φ′, at most φ″, with errors of the first two if t is within `reach` of the truth.
fn row_at(row: &GroupRow, t: f64, reach: f64) -> [f64; 5] {
    let GroupRow { y, trials, .. } = *row;
    let e = exp(-t.abs()).mid;
    let b = 1.0 / (1.0 + e);
    let (sigma, rest) = if t >= 0.0 { (b, (trials - y) * t) } else { (e * b, y * -t) };
    // a sum of nonnegative terms
    let (loss, slope) = (trials * log_one_plus(e) + rest, trials * sigma - y);
    let of_slope = trials * (0.25 * reach + 16.0 * U);
    // e below 1e-300 counts as 0
    let of_loss = (slope.abs() + of_slope) * reach + 24.0 * U * loss + 1e-290 * trials;
    [loss, slope, trials * (e * b * b) * (1.0 - 24.0 * U) * (1.0 - reach), of_loss, of_slope]
}

/// The group, or `None` where nothing follows from its nodes. `slopes` and what comes after are only computed if asked
/// for.
pub fn integrate(rows: &[GroupRow], nodes: &Nodes, slopes: bool) -> Option<Integral> {
    if !nodes.legal(rows.len()) {
        return None;
    }
    let count = (nodes.below + nodes.above + 1) as usize;
    let n = rows.len() as f64;
    // ψ without u²/2 as a sum and what rounding took of it, its radius, ψ′ without u, its radius, sizes
    let mut sums = vec![[0.0; 6]; count];
    let mut derivatives = vec![0.0; if slopes { count * rows.len() } else { 0 }];
    let mut inexact = vec![0.0f64; rows.len()];
    let inner = [nodes.below - nodes.inner[0], nodes.below + nodes.inner[1]];
    let mut curvatures = vec![f64::INFINITY; rows.len()];
    let (mut largest, mut spread) = (0.0f64, Ball::ZERO);
    for (i, row) in rows.iter().enumerate() {
        let (s, w) = (row.s.mid, row.weight);
        largest = largest.max(row.s.size());
        spread = spread + row.s * row.s * row.trials * w;
        for (k, sum) in sums.iter_mut().enumerate() {
            let u = nodes.at(k as u64);
            let product = s * u;
            let t = product + row.t.mid;
            let reach = up(row.t.rad + row.s.rad * u.abs() + U * (product.abs() + t.abs()));
            if reach.is_nan() || reach > REACH {
                return None;
            }
            let [loss, slope, curvature, of_loss, of_slope] = row_at(row, t, reach);
            if inner.contains(&(k as u64)) {
                curvatures[i] = curvatures[i].min(curvature);
            }
            let (high, low) = two_sum(sum[0], w * loss);
            *sum = [
                high,
                sum[1] + low,
                sum[2] + w * of_loss,
                sum[3] + w * s * slope,
                sum[4] + w * (s.abs() * of_slope + row.s.rad * (slope.abs() + of_slope)),
                sum[5] + (w * s * slope).abs(),
            ];
            inexact[i] = inexact[i].max(of_slope);
            if slopes {
                derivatives[i * count + k] = slope;
            }
        }
    }
    let psi = |k: u64| {
        let ([high, low, rad, ..], u) = (sums[k as usize], nodes.at(k));
        let rounded = (4.0 * U + 2.0 * n * n * U * U) * high;
        Ball::new(high + low, up(SUMMED * (rad + rounded + n * TINY))) + Ball::exact(u) * u * 0.5
    };
    let slope = |k: u64| {
        let ([_, _, _, slope, rad, size], u) = (sums[k as usize], nodes.at(k));
        Ball::new(slope, up(SUMMED * (rad + (n + 4.0) * U * size + n * TINY))) + u
    };
    let (low_end, origin, high_end) = (0, nodes.below, nodes.below + nodes.above);
    let reference = psi(origin).mid;
    let terms: Vec<Ball> = (0..=high_end).map(|k| (-(psi(k) - reference)).exp()).collect();
    let sum = terms.iter().fold(Ball::ZERO, |sum, term| sum + *term);
    // Theorem K1: 2√2π e^{L + ψ′²/2 − ψ}/(e^{2πa/h} − 1) with ψ and ψ′ at any node, 2√2π < 5.0133
    let height = nodes.height;
    if up(largest * height) > 2.0 {
        return None;
    }
    let one = Ball::exact(1.0);
    let growth = |k: u64| (slope(k).squared() * 0.5 - (psi(k) - reference)).upper();
    let least = (0..=high_end).map(growth).fold(f64::INFINITY, f64::min);
    let loss = (spread * STRIP + 0.5) * height * height + least;
    let turns = Ball { mid: std::f64::consts::TAU, rad: 8.0 * U } * height / nodes.step;
    let small = |x: Ball| (-x).exp();
    let strip = (small(turns - loss) * 5.0133 / (one - small(turns))).upper();
    // beyond the ends: terms fall at least like those of an exponential
    let beyond = |k: u64, outward: f64| {
        let down = (slope(k) * outward).lower();
        let small = small(Ball::exact(down) * nodes.step);
        (down > 0.0).then(|| (terms[k as usize] * nodes.step * small / (one - small)).upper())
    };
    let tails = up(beyond(low_end, -1.0)? + beyond(high_end, 1.0)?);
    let mut whole = sum * nodes.step;
    let lost = whole.rad;
    whole.rad = up(whole.rad + strip + tails);
    if whole.lower().is_nan() || whole.lower() <= 0.0 || !whole.rad.is_finite() {
        return None;
    }
    let mut out =
        Integral { value: -log(whole) + reference, slopes: Vec::new(), curvatures: Vec::new(), inside: 0.0 };
    if !slopes {
        return Some(out);
    }
    let lost = up((2.0 * lost + 4.0 * strip + 2.0 * tails) / whole.lower());
    if lost.is_nan() || lost > 0.1 {
        return None;
    }
    for (i, row) in rows.iter().enumerate() {
        let own = derivatives[i * count..][..count].iter().zip(&terms);
        let mean = own.map(|(slope, term)| slope * term.mid).sum::<f64>() / sum.mid;
        let rad = row.trials * (lost + (count as f64 + 8.0) * U) + 1.2 * inexact[i];
        out.slopes.push(Ball::new(mean, up(rad)) * row.weight);
        out.curvatures.push((curvatures[i] * row.weight * (1.0 - 4.0 * U)).max(0.0));
    }
    // ∫ beyond a node is at most the term over the slope
    let outside = |k: u64, outward: f64| terms[k as usize] / (slope(k) * outward).lower().max(0.0);
    let outside = (outside(inner[0], -1.0) + outside(inner[1], 1.0)) / whole;
    // of NaN, 0
    out.inside = (one - outside).lower().max(0.0);
    Some(out)
}
