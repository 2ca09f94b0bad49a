//! One group in plain numbers: where the nodes of its integral should be, and its part of F with derivatives.

use certus_check::Nodes;

/// A row of a group.
#[derive(Clone, Debug)]
pub(super) struct PlainRow {
    pub(super) design: Vec<f64>,
    pub(super) z: f64,
    pub(super) y: f64,
    pub(super) trials: f64,
    pub(super) offset: f64,
    pub(super) weight: f64,
}

/// −log of the error that the rule and its ends should have, as parts of the integral.
const SMALL: f64 = 44.0;
/// Nodes on one side, at most.
const MOST: f64 = 4000.0;
/// Nodes are multiples of this.
const GRAIN: f64 = 1.0 / 1_073_741_824.0;
/// The interval in which curvature is counted, in sds of the group's effect.
const INNER: f64 = 1.6;

fn predictor(row: &PlainRow, beta: &[f64]) -> f64 {
    row.offset + row.design.iter().zip(beta).map(|(x, b)| x * b).sum::<f64>()
}

/// φ, φ′ and φ″ of a row.
fn loss(row: &PlainRow, t: f64) -> [f64; 3] {
    let e = (-t.abs()).exp();
    let sigma = if t >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) };
    let value = row.trials * (e.ln_1p() + t.max(0.0)) - row.y * t;
    [value, row.trials * sigma - row.y, row.trials * e / ((1.0 + e) * (1.0 + e))]
}

/// ψ, ψ′ and ψ″ at u.
fn potential(rows: &[PlainRow], t: &[f64], sd: f64, u: f64) -> [f64; 3] {
    let mut out = [0.5 * u * u, u, 1.0];
    for (row, t) in rows.iter().zip(t) {
        let (s, w) = (sd * row.z, row.weight);
        let [value, slope, bend] = loss(row, t + s * u);
        out = [out[0] + w * value, out[1] + w * s * slope, out[2] + w * s * s * bend];
    }
    out
}

/// Nodes with which the integral has an error of about e^{−44} of itself.
pub(super) fn find(rows: &[PlainRow], beta: &[f64], sd: f64) -> Option<Nodes> {
    let t: Vec<f64> = rows.iter().map(|row| predictor(row, beta)).collect();
    let at = |u: f64| potential(rows, &t, sd, u);
    // ψ″ ≥ 1, so that the mode is between 0 and −ψ′(0)
    let first = at(0.0)[1];
    let (mut low, mut high) = ((-first).min(0.0), (-first).max(0.0));
    let (mut u, mut here) = (0.0, at(0.0));
    for _ in 0..200 {
        if here[1].abs() <= 1e-3 * here[2].sqrt() {
            break;
        }
        if here[1] > 0.0 {
            high = u
        } else {
            low = u
        }
        let newton = u - here[1] / here[2];
        u = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        here = at(u);
    }
    let origin = (u / GRAIN).round() * GRAIN;
    let here = at(origin);
    let own = 1.0 / here[2].sqrt();
    let square = |row: &PlainRow| (sd * row.z).powi(2) * row.trials * row.weight;
    let bend = 0.154 * rows.iter().map(square).sum::<f64>() + 0.5;
    let largest = rows.iter().map(|row| (sd * row.z).abs()).fold(0.0, f64::max);
    // the longest step: 2πa/h must be SMALL + bend a²; the best height without the limit is √(SMALL/bend)
    let limit = if largest > 0.0 { 1.999_999 / largest } else { f64::INFINITY };
    let height = (SMALL / bend).sqrt().min(limit);
    let step = std::f64::consts::TAU * height / (SMALL + bend * height * height);
    let step = (step / GRAIN).floor() * GRAIN;
    let side = |sign: f64| {
        let mut k = (5.0 * own / step).ceil().max(1.0);
        loop {
            let [value, slope, _] = at(origin + sign * k * step);
            let down = step * sign * slope;
            if down > 0.0 && value - here[0] + down.exp_m1().ln() > SMALL {
                return Some(k as u64);
            }
            k = (k + 1.0).max((1.02 * k).floor());
            if k > MOST {
                return None;
            }
        }
    };
    let (below, above) = (side(-1.0)?, side(1.0)?);
    let inner = (INNER * own / step).round().max(1.0) as u64;
    Some(Nodes { origin, step, height, below, above, inner: [inner.min(below), inner.min(above)] })
}

/// −log ∫ e^{−ψ} with its gradient and Hessian (column-major) in the coefficients.
pub(super) struct Plain {
    pub(super) value: f64,
    pub(super) gradient: Vec<f64>,
    pub(super) hessian: Vec<f64>,
}

impl Plain {
    pub(super) fn of(rows: &[PlainRow], beta: &[f64], sd: f64, nodes: &Nodes) -> Self {
        let d = beta.len();
        let t: Vec<f64> = rows.iter().map(|row| predictor(row, beta)).collect();
        let count = (nodes.below + nodes.above + 1) as usize;
        let at = |k: usize| nodes.origin + (k as f64 - nodes.below as f64) * nodes.step;
        let psi: Vec<f64> = (0..count).map(|k| potential(rows, &t, sd, at(k))[0]).collect();
        let least = psi.iter().copied().fold(f64::INFINITY, f64::min);
        let terms: Vec<f64> = psi.iter().map(|psi| (least - psi).exp()).collect();
        let sum: f64 = terms.iter().sum();
        let (mut gradient, mut hessian) = (vec![0.0; d], vec![0.0; d * d]);
        let mut bends = vec![0.0; rows.len()];
        for (k, term) in terms.iter().enumerate() {
            let (p, mut slopes) = (term / sum, vec![0.0; d]);
            for ((row, t), mean) in rows.iter().zip(&t).zip(&mut bends) {
                let [_, slope, bend] = loss(row, t + sd * row.z * at(k));
                *mean += p * row.weight * bend;
                slopes.iter_mut().zip(&row.design).for_each(|(sum, x)| *sum += row.weight * slope * x);
            }
            for i in 0..d {
                gradient[i] += p * slopes[i];
                (0..d).for_each(|j| hessian[j * d + i] -= p * slopes[i] * slopes[j]);
            }
        }
        for (row, bend) in rows.iter().zip(&bends) {
            for i in 0..d {
                (0..d).for_each(|j| hessian[j * d + i] += bend * row.design[i] * row.design[j]);
            }
        }
        for i in 0..d {
            (0..d).for_each(|j| hessian[j * d + i] += gradient[i] * gradient[j]);
        }
        Self { value: least - (sum * nodes.step).ln(), gradient, hessian }
    }

    pub(super) fn plus(mut self, other: &Self) -> Self {
        self.value += other.value;
        self.gradient.iter_mut().zip(&other.gradient).for_each(|(a, b)| *a += b);
        self.hessian.iter_mut().zip(&other.hessian).for_each(|(a, b)| *a += b);
        self
    }
}
