//! What a profile holds fixed, as a function of a covariance matrix: the log of a standard deviation or the artanh of a
//! correlation.

use crate::linear::chart::Frame;
use crate::linear::small;

/// The step of differences of c in the chart.
const DIFFERENCE: f64 = 1e-3;

/// What is profiled.
#[derive(Clone, Copy)]
pub(super) enum Scale {
    Sd(usize),
    Correlation(usize, usize),
}

impl Scale {
    /// c at a matrix.
    pub(super) fn coordinate(&self, frame: &Frame) -> Option<f64> {
        let (k, t) = (frame.k, frame.t());
        let square = |i: usize, j: usize| (0..k).map(|l| t[l * k + i] * t[l * k + j]).sum::<f64>();
        let out = match *self {
            Scale::Sd(i) => 0.5 * square(i, i).ln(),
            Scale::Correlation(i, j) => (square(i, j) / (square(i, i) * square(j, j)).sqrt()).atanh(),
        };
        out.is_finite().then_some(out)
    }

    /// The matrix with c = x: a row of T scaled, so that correlations stay, or a row turned, so that sds stay.
    pub(super) fn adjusted(&self, frame: &Frame, x: f64) -> Option<Frame> {
        let (k, mut out) = (frame.k, frame.clone());
        match *self {
            Scale::Sd(i) => {
                let by = (x - self.coordinate(frame)?).exp();
                (0..k).for_each(|l| out.w[l * k + i] *= by);
            }
            Scale::Correlation(i, j) => {
                let t = frame.t();
                let row = |i: usize| (0..k).map(|l| t[l * k + i]).collect::<Vec<f64>>();
                let (a, b) = (row(i), row(j));
                let (long, size) = (small::inner(&a, &a).sqrt(), small::inner(&b, &b).sqrt());
                let away = |v: &[f64]| -> Vec<f64> {
                    let along = small::inner(v, &a) / (long * long);
                    v.iter().zip(&a).map(|(v, a)| v - along * a).collect()
                };
                let mut across = away(&b);
                if small::inner(&across, &across).sqrt() < 1e-8 * size {
                    // the rows are parallel: across them in the direction that is farthest from both
                    let far = (0..k).min_by(|x, y| a[*x].abs().total_cmp(&a[*y].abs()))?;
                    across = away(&(0..k).map(|l| f64::from(u8::from(l == far))).collect::<Vec<_>>());
                }
                let width = small::inner(&across, &across).sqrt();
                let (r, rest) = (x.tanh(), 1.0 / x.cosh());
                for l in 0..k {
                    out.w[l * k + j] = size * (r * a[l] / long + rest * across[l] / width);
                }
                out.w
                    .iter_mut()
                    .zip(&t)
                    .enumerate()
                    .filter(|(e, _)| e % k != j)
                    .for_each(|(_, (w, t))| *w = *t);
                out.rank = k;
            }
        }
        out.w.iter().all(|w| w.is_finite()).then_some(out)
    }

    /// Gradient and Hessian of c in (β, S), by differences in the chart.
    pub(super) fn derivatives(&self, frame: &Frame, p: usize) -> Option<(Vec<f64>, Vec<f64>)> {
        let basis = frame.basis();
        let (n, h) = (basis.len(), DIFFERENCE);
        let at = |steps: &[(usize, f64)]| {
            let mut s = vec![0.0; frame.k * frame.k];
            for (b, by) in steps {
                s.iter_mut().zip(&basis[*b]).for_each(|(s, b)| *s += by * b);
            }
            self.coordinate(&frame.moved(&s)?)
        };
        let (d, own) = (p + n, self.coordinate(frame)?);
        let (mut gradient, mut hessian) = (vec![0.0; d], vec![0.0; d * d]);
        for i in 0..n {
            let (up, down) = (at(&[(i, h)])?, at(&[(i, -h)])?);
            gradient[p + i] = (up - down) / (2.0 * h);
            hessian[(p + i) * (d + 1)] = (up - 2.0 * own + down) / (h * h);
            for j in 0..i {
                let both = at(&[(i, h), (j, h)])? + at(&[(i, -h), (j, -h)])?
                    - at(&[(i, h), (j, -h)])?
                    - at(&[(i, -h), (j, h)])?;
                hessian[(p + i) * d + p + j] = both / (4.0 * h * h);
                hessian[(p + j) * d + p + i] = both / (4.0 * h * h);
            }
        }
        Some((gradient, hessian))
    }
}
