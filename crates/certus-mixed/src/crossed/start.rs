//! Where the search begins: the coefficients without group effects, and standard deviations of about a half.

use certus::linalg;

use super::error::Error;
use super::layout::lower;
use super::model::CrossedModel;

/// Newton steps, at most: the response may be separated, and this is only a start.
const STEPS: usize = 12;
/// What a column must leave of its sum of squares beside those before it.
const COLLINEAR: f64 = 1e-11;
/// The standard deviation that the search begins with, for effects whose column has mean square 1.
const SD: f64 = 0.6;

/// Parameters to begin with, and the typical distance of each from its estimate.
pub(super) struct Start {
    pub(super) parameters: Vec<f64>,
    pub(super) spread: Vec<f64>,
}

impl CrossedModel {
    /// Root mean squares of the columns of every effect, term by term.
    pub(super) fn rms(&self) -> Vec<Vec<f64>> {
        let of = |place: &super::layout::Place| {
            let (z, width, first) = match place.factor {
                0 => (&self.own, self.layout.factors[0].effects, place.first),
                f => (&self.kept, self.layout.width, self.layout.factors[f].first + place.first),
            };
            let mean = |e: usize| {
                let each = z.chunks_exact(width).zip(&self.weight);
                each.map(|(z, w)| w * z[first + e] * z[first + e]).sum::<f64>() / self.total
            };
            (0..place.effects).map(|e| mean(e).sqrt().max(f64::MIN_POSITIVE.sqrt())).collect()
        };
        self.layout.places.iter().map(of).collect()
    }

    pub(super) fn start(&self) -> Result<Start, Error> {
        let p = self.layout.fixed;
        self.independent()?;
        let mut beta = vec![0.0; p];
        let mut information = vec![0.0; p * p];
        let n = self.rows();
        let [mut first, mut second] = [vec![0.0; n], vec![0.0; n]];
        let mut before = f64::INFINITY;
        let mut last = beta.clone();
        let mut step = vec![0.0; p];
        let mut part = 1.0;
        for _ in 0..STEPS {
            let t = self.fixed_predictors(&beta);
            let (penalty, slope) = self.penalty(&beta);
            let value =
                penalty + self.likelihood.derivatives(&t, &self.data, &self.weight, &mut first, &mut second);
            if (value.is_nan() || value > before) && part > 1e-3 {
                part *= 0.5;
                beta = last.iter().zip(&step).map(|(b, s)| b - part * s).collect();
                continue;
            }
            let mut g = slope;
            information = vec![0.0; p * p];
            self.add_precision(&mut information);
            for (i, x) in self.x.chunks_exact(p.max(1)).enumerate() {
                for j in 0..p {
                    g[j] += first[i] * x[j];
                    (0..p).for_each(|k| information[j * p + k] += second[i] * x[j] * x[k]);
                }
            }
            let mut factor = information.clone();
            if p == 0 || !linalg::cholesky(&mut factor, p) {
                break;
            }
            step.clone_from(&g);
            linalg::solve_lower(&factor, p, false, &mut step);
            linalg::solve_lower(&factor, p, true, &mut step);
            if linalg::dot(&g, &step) < 1e-6 {
                break;
            }
            (before, part) = (value, 1.0);
            last.clone_from(&beta);
            beta = last.iter().zip(&step).map(|(b, s)| b - s).collect();
        }
        let mut spread: Vec<f64> = (0..p).map(|j| 1.0 / information[j * (p + 1)].sqrt()).collect();
        if p > 0 {
            let mut factor = information;
            if linalg::cholesky(&mut factor, p) {
                let inverse = linalg::inverse_of_factor(&factor, p);
                spread = (0..p).map(|j| inverse[j * (p + 1)].sqrt()).collect();
            }
        }
        let mut parameters = beta;
        for (place, rms) in self.layout.places.iter().zip(self.rms()) {
            for (i, j) in lower(place.effects) {
                parameters.push(if i == j { SD / rms[i] } else { 0.0 });
                spread.push(0.3 / rms[i]);
            }
        }
        Ok(Start { parameters, spread })
    }

    /// Refuses a column of X that is a combination of those before it.
    fn independent(&self) -> Result<(), Error> {
        let p = self.layout.fixed;
        let mut gram = vec![0.0; p * p];
        for (x, w) in self.x.chunks_exact(p.max(1)).zip(&self.weight) {
            for j in 0..p {
                (0..p).for_each(|k| gram[j * p + k] += w * x[j] * x[k]);
            }
        }
        let squares: Vec<f64> = (0..p).map(|j| gram[j * (p + 1)]).collect();
        for j in 0..p {
            let known: f64 = (0..j).map(|l| gram[l * p + j].powi(2)).sum();
            let left = gram[j * (p + 1)] - known;
            if left.is_nan() || left <= COLLINEAR * squares[j] {
                return Err(Error::Collinear { column: j });
            }
            let root = left.sqrt();
            gram[j * (p + 1)] = root;
            for i in j + 1..p {
                let sum: f64 = (0..j).map(|l| gram[l * p + i] * gram[l * p + j]).sum();
                gram[j * p + i] = (gram[j * p + i] - sum) / root;
            }
        }
        Ok(())
    }
}
