//! The sums over a block of rows, with radii that cover every rounding (docs/certificate-format.md, "Sums of a block").

use crate::ball::{Ball, TINY, U, two_sum, up};
use crate::gap::{Certificate, Sums};
use crate::model::{Model, last};
use crate::moments::Quadrature;
use crate::refusal::Refusal;
use crate::stated::Stated;
use crate::text::triangle;

/// Sums of up to 2²⁰ nonnegative numbers are wrong by less than this part of themselves.
pub(crate) const SUMMED: f64 = 1.0 + 1e-9;

/// What is needed for every row.
#[derive(Debug)]
pub struct Rows<'a> {
    certificate: &'a Certificate,
    quadrature: &'static Quadrature,
    frame: Frame<'a>,
}

/// How a row becomes a predictor.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    model: &'a Model,
    mean: &'a [f64],
    factor: &'a [f64],
    /// |C_j|, the norms of the rows of the factor.
    norms: Vec<f64>,
}

/// Rows that are added to a matrix at once.
const PANEL: usize = 32;

/// One matrix Σ k ãã′ on its way.
struct Matrix {
    sum: Vec<f64>,
    /// Σ k|ã|².
    trace: f64,
    rad: f64,
    /// k of the rows that are not in the sum yet.
    panel: [f64; PANEL],
}

impl Matrix {
    /// Adds k ãã′, where k and ã are within `inexact` and `eps` of what is given, and k ≥ 0: now to the radius, later
    /// to the sum.
    fn add(&mut self, place: usize, k: f64, inexact: f64, norm: f64, eps: f64) {
        self.panel[place] = k;
        self.trace += k * norm * norm;
        self.rad += inexact * (norm + eps) * (norm + eps) + k * eps * (2.0 * norm + eps);
    }

    /// Adds the rows of a panel to the sum, four at a time.
    fn flush(&mut self, rows: &[f64], d: usize) {
        let mut at = 0;
        for i in 0..d {
            let out = &mut self.sum[at..=at + i];
            at += i + 1;
            for (k, four) in self.panel.chunks_exact(4).zip(rows.chunks_exact(4 * d)) {
                let [w, x, y, z] = [0, 1, 2, 3].map(|r| (k[r] * four[r * d + i], &four[r * d..=r * d + i]));
                for j in 0..=i {
                    out[j] += (w.0 * w.1[j] + x.0 * x.1[j]) + (y.0 * y.1[j] + z.0 * z.1[j]);
                }
            }
        }
        self.panel = [0.0; PANEL];
    }

    /// The sum over n rows and its radius.
    fn finish(self, n: f64, d: f64) -> Stated {
        let rad = up(SUMMED * (self.rad + 1.01 * (n + 4.0) * U * self.trace + n * d * d * TINY));
        Stated { parts: self.sum, rad }
    }
}

impl<'a> Rows<'a> {
    /// Prepares for the rows of a certificate.
    pub fn new(certificate: &'a Certificate) -> Self {
        let frame = Frame::new(&certificate.model, &certificate.mean, &certificate.factor);
        Self { certificate, quadrature: Quadrature::all(), frame }
    }

    /// The sums over the rows of `bytes`, of which the first has the number `first`.
    pub fn sums(&self, bytes: &[u8], first: u64) -> Result<Sums, Refusal> {
        let certificate = self.certificate;
        let (d, numbers) = (certificate.dim(), certificate.numbers());
        let zeros = || vec![0.0; d * (d + 1) / 2];
        let mut matrices =
            [(); 3].map(|()| Matrix { sum: zeros(), trace: 0.0, rad: 0.0, panel: [0.0; PANEL] });
        let mut panel = vec![0.0; PANEL * d];
        let (mut high, mut low, mut rad, mut sizes) = (vec![0.0; d], vec![0.0; d], 0.0, 0.0);
        let (mut row, mut v, mut a) = (vec![0.0; numbers], vec![1.0; d], vec![0.0; d]);
        let mut n = 0.0;
        for (index, words) in bytes.chunks_exact(8 * numbers).enumerate() {
            n += 1.0;
            let at = first + index as u64;
            let legal = self.frame.model.row(words, &mut row);
            legal.map_err(|what| Refusal::NotProved(format!("row {at} {what}")))?;
            let [y, trials, offset, weight] = last(&row);
            let x = &row[..numbers - 4];
            let (c, norm, eps) = self.frame.predictor(x, offset, &mut v, &mut a);
            let s = Ball::new(norm, up((d as f64 + 4.0) * U * norm + eps));
            let norm = s.upper();
            let mut moments = self.quadrature.moments(self.frame.model.likelihood, y, trials, c, s);
            moments.slope = moments.slope * weight;
            moments.curvature = moments.curvature.map(|p| p * weight);
            if !(moments.slope.rad.is_finite() && moments.curvature.iter().all(|p| p.rad.is_finite())) {
                return Err(Refusal::NotCheckable(format!(
                    "row {at}, whose predictor has mean {:.3e} and sd {:.3e}, is beyond this arithmetic",
                    c.mid, s.mid
                )));
            }
            let e = moments.slope;
            for i in 0..d {
                let (sum, lost) = two_sum(high[i], e.mid * a[i]);
                (high[i], low[i]) = (sum, low[i] + lost);
            }
            rad += e.mid.abs() * eps + e.rad * (norm + eps);
            sizes += e.mid.abs() * norm;
            let p0 = moments.curvature[0];
            let (mean, factor) = self.split(&moments.curvature, s);
            // any lower bounds of k_m and k_C may be summed, so these have no error of their own
            let weights = [(p0.mid.max(0.0), p0.rad), (mean, 0.0), (factor, 0.0)];
            let place = index % PANEL;
            panel[place * d..][..d].copy_from_slice(&a);
            for (matrix, (k, inexact)) in matrices.iter_mut().zip(weights) {
                matrix.add(place, k, inexact, norm, eps);
                if place + 1 == PANEL {
                    matrix.flush(&panel, d);
                }
            }
        }
        // of the last panel the rest counts nothing
        matrices.iter_mut().for_each(|matrix| matrix.flush(&panel, d));
        let gradient = high.iter().zip(&low).map(|(high, low)| high + low).collect();
        let rounded = (4.0 * U + 2.0 * n * n * U * U) * sizes;
        let gradient_rad = up(SUMMED * (rad + rounded + n * d as f64 * TINY));
        let [p0, mean, factor] = matrices.map(|matrix| matrix.finish(n, d as f64));
        Ok([Stated { parts: gradient, rad: gradient_rad }, p0, mean, factor])
    }

    /// k_m and k_C of a row, rounded down (Lemma 3 with a θ of its own).
    fn split(&self, p: &[Ball; 5], s: Ball) -> (f64, f64) {
        let hints = self.certificate;
        let bend = hints.model.likelihood.bend();
        let reach = s * hints.radius * bend;
        let half = reach / (Ball::exact(hints.tau) * hints.tau) * 0.5;
        let shrink = (-reach).exp();
        let [q0, q1, q2] = [0, 1, 2].map(|k| shrink * (p[k] - half * p[k + 2]));
        // any θ > 0 is allowed, so this one need not be exact
        let (x, y, z) = (q0.mid, q1.mid.abs(), q2.mid);
        let floor = 0.5 * (0.5 * (x + z) - (0.5 * (x - z)).hypot(y));
        if floor.is_nan() || floor <= 0.0 {
            return (0.0, 0.0);
        }
        let most = if y > 0.0 { (x - floor) / y } else { f64::INFINITY };
        let theta = hints.theta.min(most).max(y / (z - floor));
        let mean = (q0 - q1.abs() * theta).lower();
        let factor = q0.lower().min((q2 - q1.abs() / theta).lower());
        let legal = theta > 1e-9 && theta < 1e9 && mean >= 0.0 && factor >= 0.0;
        if legal { (mean, factor) } else { (0.0, 0.0) }
    }
}

impl<'a> Frame<'a> {
    pub(crate) fn new(model: &'a Model, mean: &'a [f64], factor: &'a [f64]) -> Self {
        let square = |row: &[f64]| row.iter().map(|x| Ball::exact(*x) * *x).fold(Ball::ZERO, |a, b| a + b);
        let norms = triangle(factor).map(|row| square(row).sqrt().upper()).collect();
        Self { model, mean, factor, norms }
    }

    /// The mean c of the predictor, |ã| of what is computed of ã = C′v, and how far ã can be from that.
    pub(crate) fn predictor(&self, x: &[f64], offset: f64, v: &mut [f64], a: &mut [f64]) -> (Ball, f64, f64) {
        let from = usize::from(self.model.intercept);
        for ((v, x), column) in v[from..].iter_mut().zip(x).zip(&self.model.columns) {
            *v = (x - column.centre) / column.scale;
        }
        a.fill(0.0);
        let (mut c, mut sizes, mut lengths) = (offset, offset.abs(), 0.0);
        for (j, row) in triangle(self.factor).enumerate() {
            c += v[j] * self.mean[j];
            sizes += (v[j] * self.mean[j]).abs();
            lengths += v[j].abs() * self.norms[j];
            a.iter_mut().zip(row).for_each(|(a, factor)| *a += v[j] * factor);
        }
        // v is rounded twice, products and sums once for each coefficient
        let gamma = (a.len() as f64 + 8.0) * U;
        let norm = a.iter().map(|a| a * a).sum::<f64>().sqrt();
        let tiny = a.len() as f64 * TINY;
        (Ball::new(c, up(gamma * sizes + tiny)), norm, up(gamma * lengths + tiny))
    }
}
