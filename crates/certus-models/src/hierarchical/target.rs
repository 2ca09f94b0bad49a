//! A hierarchical model as a [`Target`] that reads its rows once for all points, and its curvature: μ and M of the
//! joint precision by bisection with sparse factorisations.

use certus::{Curvature, Target, TargetError};

use super::{At, Entry, Hierarchical, KEPT};
use crate::error::{Error, InvalidData};
use crate::rows::Failure;
use certus_likelihood::internals::vouched_by;

impl Hierarchical {
    /// The matrix J + Σ weight_n a_n a_nᵀ, where `weight` gives each data row's curvature.
    fn matrix(&self, weight: impl Fn(usize) -> f64) -> Result<Vec<f64>, Error> {
        let mut rows = vec![0.0; KEPT * self.layout.data.len()];
        for (k, kept) in rows.chunks_exact_mut(KEPT).enumerate() {
            kept[2] = self.layout.weight[k] * weight(k);
        }
        Ok(self.sums_at(At::point(&vec![0.0; self.dim()]), rows)?.factor)
    }

    /// μ and M of −log p, found the first time; `None` where φ″ is not bounded.
    pub fn bounds(&self) -> Result<Option<Curvature>, Error> {
        if let Some(known) = self.curvature.get() {
            return Ok(known.clone());
        }
        let found = self.find_bounds()?;
        Ok(self.curvature.get_or_init(|| found).clone())
    }

    /// μ I ≤ ∇²(−log p) ≤ M I, or `None` where φ″ is not bounded. λ lies below every eigenvalue of A iff A − λI has a
    /// Cholesky factorisation, which is linear in the pattern.
    fn find_bounds(&self) -> Result<Option<Curvature>, Error> {
        let likelihood = &*self.likelihood;
        if self.layout.data.iter().any(|d| likelihood.second_derivative_max(*d).is_none()) {
            return Ok(None);
        }
        let low = self.matrix(|k| likelihood.second_derivative_min(self.layout.data[k]))?;
        let high = self.matrix(|k| likelihood.second_derivative_max(self.layout.data[k]).unwrap_or(0.0))?;
        let shifted = |matrix: &[f64], sign: f64, shift: f64| {
            let mut m: Vec<f64> = matrix.iter().map(|x| sign * x).collect();
            self.forest.diagonal().for_each(|i| m[i] += shift);
            self.forest.inverse_factor(m).is_some()
        };
        // the trace of the largest path bounds M from above to begin with
        let mut above = 1.0;
        while !shifted(&high, -1.0, above) {
            above *= 2.0;
            if !f64::is_finite(above) {
                return Err(InvalidData::Curvature.into());
            }
        }
        let bisect = |mut no: f64, mut yes: f64, holds: &dyn Fn(f64) -> bool| {
            for _ in 0..60 {
                let middle = 0.5 * (no + yes);
                if holds(middle) {
                    yes = middle
                } else {
                    no = middle
                }
                if (yes - no).abs() <= 1e-12 * yes.abs() {
                    break;
                }
            }
            yes
        };
        let m = bisect(0.5 * above, above, &|x| shifted(&high, -1.0, x));
        let mu = bisect(m, 0.0, &|x| shifted(&low, 1.0, -x));
        let slack = 64.0 * (self.forest.tree.widest() + 16) as f64 * f64::EPSILON * m;
        let (mu, m) = ((mu - slack).max(0.0), m + slack);
        Ok(Some(Curvature::new(mu.min(m), m, vouched_by(likelihood))?))
    }
}

/// Rows whose predictors at all points are handled together.
const BLOCK: usize = 256;

/// Rows of one node that wait for their slopes: predictors point by point, and the entries of every row.
#[derive(Default)]
struct Waiting {
    t: Vec<f64>,
    entries: Vec<Entry>,
    ends: Vec<usize>,
}

impl Hierarchical {
    /// −log p and its gradient at n points, given and returned as n numbers per coordinate, the n values last: every
    /// row is read once.
    fn batch(&self, z: &[f64], n: usize, sums: &mut [f64]) -> Result<(), Error> {
        let (layout, failure) = (&self.layout, Failure::default());
        self.forest.gather(n, sums, &|node, path| {
            let at = &self.forest.nodes()[node];
            let mut here = vec![0.0; at.width * n];
            self.forest.path_vectors(n, z, node, &mut here);
            let (gradient, values) = path.split_at_mut(at.width * n);
            let (mut wait, mut t, last) = (Waiting::default(), vec![0.0; n], layout.first[node + 1]);
            failure.note(layout.rows_of(node, |k, entries| {
                t.fill(layout.offset[k]);
                for &(i, v) in entries {
                    t.iter_mut().zip(&here[i * n..]).for_each(|(t, z)| *t += v * z);
                }
                wait.t.extend_from_slice(&t);
                wait.entries.extend_from_slice(entries);
                wait.ends.push(wait.entries.len());
                if wait.ends.len() == BLOCK || k + 1 == last {
                    self.add_rows(k + 1 - wait.ends.len(), &mut wait, gradient, values);
                }
            }));
            for coordinate in at.start..at.start + at.size {
                self.add_prior_row(coordinate, &here, gradient, values);
            }
        });
        failure.into_result()
    }

    /// The losses of waiting rows and their slopes times their entries.
    fn add_rows(&self, first: usize, wait: &mut Waiting, gradient: &mut [f64], values: &mut [f64]) {
        let (rows, n) = (wait.ends.len(), values.len());
        let range = first..first + rows;
        let mut column = [0.0; BLOCK];
        for (p, value) in values.iter_mut().enumerate() {
            (0..rows).for_each(|r| column[r] = wait.t[r * n + p]);
            let (data, weight) = (&self.layout.data[range.clone()], &self.layout.weight[range.clone()]);
            *value += self.likelihood.first_derivatives(&mut column[..rows], data, weight);
            (0..rows).for_each(|r| wait.t[r * n + p] = column[r]);
        }
        let mut start = 0;
        for (&end, slopes) in wait.ends.iter().zip(wait.t.chunks_exact(n)) {
            for &(i, v) in &wait.entries[start..end] {
                gradient[i * n..][..n].iter_mut().zip(slopes).for_each(|(g, s)| *g += v * s);
            }
            start = end;
        }
        wait.t.clear();
        wait.entries.clear();
        wait.ends.clear();
    }

    /// p r²/2 with r = z_i − z_outer, or z_i − its prior mean, at every point.
    fn add_prior_row(&self, coordinate: usize, here: &[f64], gradient: &mut [f64], values: &mut [f64]) {
        let (latent, (center, precision)) = (&self.latents[coordinate], self.prior[coordinate]);
        let n = values.len();
        for (p, value) in values.iter_mut().enumerate() {
            let outer = latent.outer.map_or(center, |(_, place)| here[place * n + p]);
            let residual = here[latent.place * n + p] - outer;
            *value += 0.5 * precision * residual * residual;
            gradient[latent.place * n + p] += precision * residual;
            if let Some((_, place)) = latent.outer {
                gradient[place * n + p] -= precision * residual;
            }
        }
    }
}

impl Target for Hierarchical {
    fn dim(&self) -> usize {
        Hierarchical::dim(self)
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        let (d, n) = (Hierarchical::dim(self), values.len());
        let (mut z, mut sums) = (vec![0.0; d * n], vec![0.0; (d + 1) * n]);
        for (p, point) in points.chunks_exact(d).enumerate() {
            point.iter().enumerate().for_each(|(i, x)| z[i * n + p] = *x);
        }
        self.batch(&z, n, &mut sums)?;
        for (p, gradient) in gradients.chunks_exact_mut(d).enumerate() {
            gradient.iter_mut().enumerate().for_each(|(i, g)| *g = -sums[i * n + p]);
            values[p] = -(sums[d * n + p] + self.constant);
        }
        Ok(())
    }

    fn curvature(&self) -> Option<Curvature> {
        self.bounds().ok().flatten()
    }
}
