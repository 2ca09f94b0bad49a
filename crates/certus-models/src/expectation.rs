//! Exact one-dimensional expectations E φ(mean + sd·x), x ~ N(0, 1), by the trapezoid rule, whose error is proved
//! (math: E).
//!
//! For an integrand analytic in |Im x| ≤ a the rule with step η errs by at most 2M_a/(e^{2πa/η} − 1) plus the tails.
//! With a = min(strip/sd, 8) and η = min(2πa/(40 + a²/2), 1/2) that is below 1e-16 of the scale of φ. Rows are bucketed
//! by sd (factor 1.25), so that nodes and weights are shared; the step of a bucket is that of its largest sd.

use std::f64::consts::{PI, TAU};
use std::sync::OnceLock;

use crate::error::{Error, Unidentified};
use certus_likelihood::{Datum, Likelihood, Moments};

/// Where the nodes end: 2Q(9) < 3e-19.
const END: f64 = 9.0;
const FIRST: f64 = 0.125;
/// The largest sd, in units of the strip.
const WIDEST: f64 = 1e4;
const RATIO: f64 = 1.25;

struct Grid {
    nodes: Vec<f64>,
    weights: Vec<f64>,
}

/// Trapezoid grids for rows of every sd up to a given one. A bucket's grid is made when a row first asks for it, and
/// buckets with the same strip share one: for a model of a hundred rows the weights would else cost more than the sums.
pub struct Quadrature {
    /// Per bucket, the first bucket with the same strip.
    first: Vec<usize>,
    /// The strips a.
    strips: Vec<f64>,
    longest_step: f64,
    grids: Vec<OnceLock<Grid>>,
}

fn bucket(sd: f64) -> usize {
    if sd <= FIRST { 0 } else { ((sd / FIRST).ln() / RATIO.ln()).ceil() as usize }
}

/// The largest step of a rule for [`Likelihood::lower_trapezoid`].
const FINE: f64 = 0.2;

/// The largest sd of every bucket.
fn sds(largest: f64) -> impl Iterator<Item = f64> {
    (0..=bucket(largest)).map(|k| FIRST * RATIO.powi(k as i32) * (1.0 + 1e-12))
}

impl Quadrature {
    /// Grids for the lower bounds of Lemma C on E_r: √(1 + x²/ω) has its branch points at ±i√ω, and the shift of t by
    /// D(x) may use up r/√ω of the strip, so a = min(√ω, strip/(sd(1 + r/√ω))), and the step is at most 0.2.
    pub fn lower(strip: f64, largest_sd: f64, radius: f64, omega: f64) -> Self {
        let (widest, strip) = (omega.sqrt(), strip / (1.0 + radius / omega.sqrt()));
        Self::over(sds(largest_sd).map(|sd| (strip / sd).min(widest)).collect(), FINE)
    }

    /// Grids for a likelihood that is analytic in |Im t| < `strip` and row sds up to `largest_sd`.
    pub fn new(strip: f64, largest_sd: f64) -> Self {
        Self::over(sds(largest_sd).map(|sd| (strip / sd).min(8.0)).collect(), 0.5)
    }

    fn over(strips: Vec<f64>, longest_step: f64) -> Self {
        // strips never grow from one bucket to the next
        let mut first: Vec<usize> = (0..strips.len()).collect();
        for k in 1..strips.len() {
            if strips[k] == strips[k - 1] {
                first[k] = first[k - 1];
            }
        }
        let grids = strips.iter().map(|_| OnceLock::new()).collect();
        Self { first, strips, longest_step, grids }
    }

    /// The same, unless that many nodes (a million or more) say that some coefficient is not known at all.
    pub(crate) fn within_reason(strip: f64, largest_sd: f64) -> Result<Self, Error> {
        if largest_sd <= WIDEST * strip {
            return Ok(Self::new(strip, largest_sd));
        }
        let reason = Unidentified::WidePredictor { sd: largest_sd };
        Err(Error::NotIdentified { reason, direction: Vec::new() })
    }

    fn grid(&self, sd: f64) -> &Grid {
        let k = self.first[bucket(sd).min(self.first.len() - 1)];
        self.grids[k].get_or_init(|| Grid::new(self.strips[k], self.longest_step))
    }

    /// E φ₋(t)(1, x, x²), t = mean + sd·x, where φ₋ is a lower bound of φ″ within reach·√(1 + x²/ω) of t (Lemma C).
    pub fn lower_moments(
        &self,
        likelihood: &dyn Likelihood,
        mean: f64,
        sd: f64,
        datum: Datum,
        reach: f64,
        omega: f64,
    ) -> [f64; 3] {
        let grid = self.grid(sd);
        likelihood.lower_trapezoid(mean, sd, datum, &grid.nodes, &grid.weights, reach, omega)
    }

    /// E φ″(t)e^D(1, x, x²) and E(φ″(t)e^D)², D = reach·√(1 + x²): where |φ‴| ≤ φ″ they bound Q and E φ‴² for every t
    /// within D.
    pub fn upper_moments(
        &self,
        likelihood: &dyn Likelihood,
        mean: f64,
        sd: f64,
        datum: Datum,
        reach: f64,
    ) -> [f64; 4] {
        let (grid, mut out) = (self.grid(sd), [0.0; 4]);
        for (x, w) in grid.nodes.iter().zip(&grid.weights) {
            let curvature =
                likelihood.second_derivative(mean + sd * x, datum) * (reach * (1.0 + x * x).sqrt()).exp();
            let term = w * curvature;
            out = [out[0] + term, out[1] + term * x, out[2] + term * x * x, out[3] + term * curvature];
        }
        out
    }

    /// √E φ‴² of one row, 0 where φ‴ is not known.
    pub fn third_derivative(&self, likelihood: &dyn Likelihood, mean: f64, sd: f64, datum: Datum) -> f64 {
        let grid = self.grid(sd);
        let square = |x: &f64| {
            let t = mean + sd * x;
            likelihood
                .log_second_derivative(t, datum)
                .map_or(0.0, |(slope, _)| (slope * likelihood.second_derivative(t, datum)).powi(2))
        };
        grid.nodes.iter().zip(&grid.weights).map(|(x, w)| w * square(x)).sum::<f64>().sqrt()
    }

    /// E φ of one row: the first of its moments, to the bit.
    pub fn value(&self, likelihood: &dyn Likelihood, mean: f64, sd: f64, datum: Datum) -> f64 {
        if let Some(exact) = likelihood.exact_moments(mean, sd, datum) {
            return exact.e0;
        }
        let grid = self.grid(sd);
        likelihood.trapezoid_value(mean, sd, datum, &grid.nodes, &grid.weights)
    }

    /// Moments of one row but for E φ, which is not to be used.
    pub fn slopes(&self, likelihood: &dyn Likelihood, mean: f64, sd: f64, datum: Datum) -> Moments {
        if let Some(exact) = likelihood.exact_moments(mean, sd, datum) {
            return exact;
        }
        let grid = self.grid(sd);
        likelihood.trapezoid_derivatives(mean, sd, datum, &grid.nodes, &grid.weights)
    }

    /// Moments of one row.
    pub fn moments(&self, likelihood: &dyn Likelihood, mean: f64, sd: f64, datum: Datum) -> Moments {
        if let Some(exact) = likelihood.exact_moments(mean, sd, datum) {
            return exact;
        }
        let grid = self.grid(sd);
        likelihood.trapezoid(mean, sd, datum, &grid.nodes, &grid.weights)
    }
}

impl Grid {
    /// For integrands analytic in |Im x| < a.
    fn new(a: f64, longest_step: f64) -> Self {
        let step = (TAU * a / (40.0 + 0.5 * a * a)).min(longest_step);
        let count = (END / step).ceil() as i64;
        let nodes: Vec<f64> = (-count..=count).map(|k| k as f64 * step).collect();
        let half = nodes[..=count as usize].iter().map(|x| step * (-0.5 * x * x).exp() / (2.0 * PI).sqrt());
        let mut weights: Vec<f64> = half.collect();
        // the rule is even
        weights.extend_from_within(..count as usize);
        weights[count as usize + 1..].reverse();
        Self { nodes, weights }
    }
}
