//! Gradients from batches of rows (docs/maths.md, part F): the second-order expansion at the centre of a frame, exact
//! and over all rows, plus what is left of it, from rows drawn with known probabilities. Unbiased, with a proved bound
//! on what the rows add to the noise.

mod sampler;

use certus::Gaussian;
use certus::random::Random;
use certus::{Target, TargetError, linalg};

use crate::certificate::row::Row;
use crate::error::{Declined, Error, InvalidModel};
use crate::exact::{congruent, is_lower};
use crate::glm::Glm;
use crate::newton::dot;
use certus_likelihood::Likelihood;
use sampler::{Picked, Sampler};

/// A dense model in the frame of a Gaussian, with the batches of rows of a run.
pub struct RowBatches<'a> {
    sampler: Sampler<'a>,
    likelihood: &'a dyn Likelihood,
    random: Random,
    /// S.
    size: usize,
    /// −log p, its gradient and its Hessian at the centre, in the frame.
    value: f64,
    slope: Vec<f64>,
    hessian: Vec<f64>,
    /// R.
    noise: f64,
}

/// The rows of some consecutive steps.
pub struct Batches {
    first: u64,
    size: usize,
    rows: Vec<Picked>,
}

impl Batches {
    /// True if the rows of this step are here.
    pub fn hold(&self, step: u64) -> bool {
        (self.first..self.first + (self.rows.len() / self.size) as u64).contains(&step)
    }
}

impl Glm {
    /// Batches of `size` rows in the frame of w, for Gaussians within `radius` of it there: two passes over the rows,
    /// and one number per leaf is kept.
    pub fn row_batches(
        &self,
        w: &Gaussian,
        radius: f64,
        size: usize,
        seed: u64,
        model_key: u64,
    ) -> Result<RowBatches<'_>, Error> {
        if size == 0 {
            return Err(
                InvalidModel::Setting { name: "row-batch", value: 0.0, required: "at least 1" }.into()
            );
        }
        if self.design().rows().ranks().is_some_and(|ranks| ranks.count() > 1) {
            let reason = "batches of rows are drawn by one process";
            return Err(Declined::RowBatches { reason, remedy: "run without mpirun, or use auto" }.into());
        }
        let (d, (sampler, [plain, long])) = (self.dim(), Sampler::new(self, w, radius)?);
        let here = self.derivatives(w.mean())?;
        let mut slope = vec![0.0; d];
        w.factor().add_apply_transpose(&here.gradient, &mut slope);
        // 1/p ≤ 2Σ|ã|²/|ã|² and 1/p ≤ 2Σ|ã|/|ã|; sums over rows lose far less than 1e-9
        let [first, second] = sampler.sums();
        let noise = (2.0 * second * plain).min(2.0 * first * long) / size as f64 * (1.0 + 1e-9);
        Ok(RowBatches {
            sampler,
            likelihood: self.likelihood(),
            random: sampler::random(seed, model_key),
            size,
            value: here.value - w.factor().log_det(),
            slope,
            hessian: congruent(&here.hessian, &w.factor().to_dense(), is_lower(w), d),
            noise,
        })
    }
}

impl RowBatches<'_> {
    /// R ≥ E(1 + |u|²)|ξ(u)|² on the ball around the centre, ξ the error of the gradient at m + Cu from one batch
    /// (Lemma F2); infinite where neither φ″ nor φ‴ is bounded. |ξ|² ≤ (1/S) Σ (wρ′)²|ã|²/p on average over batches.
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// Numbers that the rows of one step take.
    pub fn numbers_per_step(&self) -> usize {
        self.size * (self.slope.len() + size_of::<Picked>() / size_of::<f64>())
    }

    /// The rows of the steps `first..first + steps`. Every leaf is read once at most.
    pub fn gather(&self, first: u64, steps: usize) -> Result<Batches, Error> {
        let rows = self.sampler.batches(&self.random, first, steps, self.size)?;
        Ok(Batches { first, size: self.size, rows })
    }

    /// The target of a step, whose rows must be in `batches`.
    pub fn at<'b>(&'b self, batches: &'b Batches, step: u64) -> RowTarget<'b> {
        let start = (step - batches.first) as usize * self.size;
        RowTarget { model: self, rows: &batches.rows[start..start + self.size] }
    }

    /// The expansion alone, without rows.
    pub fn expansion(&self) -> RowTarget<'_> {
        RowTarget { model: self, rows: &[] }
    }
}

/// An unbiased estimate of log p in the frame, from a batch of rows.
pub struct RowTarget<'a> {
    model: &'a RowBatches<'a>,
    rows: &'a [Picked],
}

impl Target for RowTarget<'_> {
    fn dim(&self) -> usize {
        self.model.slope.len()
    }

    /// With x = ãᵀy and ρ(x) = φ(c + x) − φ(c) − φ′(c)x − ½φ″(c)x²: −log p(0) − gᵀy − ½yᵀHy − (1/S) Σ (w/p) ρ(x), and
    /// its gradient.
    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        let (d, m) = (self.model.slope.len(), self.model);
        gradients.fill(0.0);
        linalg::add_square_times(&m.hessian, d, false, points, gradients);
        for ((y, value), gradient) in points.chunks_exact(d).zip(values).zip(gradients.chunks_exact_mut(d)) {
            *value = m.value + dot(&m.slope, y) + 0.5 * dot(y, gradient);
            gradient.iter_mut().zip(&m.slope).for_each(|(g, s)| *g += s);
            for picked in self.rows {
                let (row, x) = (&picked.row, dot(&picked.at, y));
                let scale = row.weight / (picked.probability * m.size as f64);
                let (rest, slope) = remainder(m.likelihood, row, x);
                *value += scale * rest;
                gradient.iter_mut().zip(&picked.at).for_each(|(g, a)| *g += scale * slope * a);
            }
            *value = -*value;
            gradient.iter_mut().for_each(|g| *g = -*g);
        }
        Ok(())
    }
}

/// ρ(x) and ρ′(x), without the weight.
fn remainder(likelihood: &dyn Likelihood, row: &Row, x: f64) -> (f64, f64) {
    let (c, datum) = (row.mean, row.datum);
    let (slope, curvature) = (likelihood.first_derivative(c, datum), likelihood.second_derivative(c, datum));
    let value =
        likelihood.value(c + x, datum) - likelihood.value(c, datum) - (slope + 0.5 * curvature * x) * x;
    (value, likelihood.first_derivative(c + x, datum) - slope - curvature * x)
}

#[cfg(test)]
mod tests;
