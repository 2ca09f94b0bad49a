//! A hierarchical model as a [`Target`](certus::Target), point by point, and its curvature: μ and M of the joint precision by bisection with sparse factorisations.

use certus::{Curvature, PointTarget, Provenance, TargetError};

use super::{Hierarchical, KEPT};
use crate::error::Error;
use crate::rows::Failure;

impl Hierarchical {
    /// The matrix J + Σ weight_n a_n a_nᵀ, where `weight` gives each data row's curvature.
    fn matrix(&self, weight: impl Fn(usize) -> f64) -> Result<Vec<f64>, Error> {
        let mut rows = vec![0.0; KEPT * self.layout.data.len()];
        for (k, kept) in rows.chunks_exact_mut(KEPT).enumerate() {
            kept[2] = self.layout.weight[k] * weight(k);
        }
        Ok(self.sums_at(&self.origin(), rows, true)?.factor)
    }

    /// μ and M of −log p, found the first time; `None` where φ″ is not bounded.
    pub fn bounds(&self) -> Result<Option<Curvature>, Error> {
        if let Some(known) = self.curvature.get() {
            return Ok(known.clone());
        }
        let found = self.find_bounds()?;
        Ok(self.curvature.get_or_init(|| found).clone())
    }

    /// μ I ≤ ∇²(−log p) ≤ M I, or `None` where φ″ is not bounded. λ lies below every eigenvalue of A iff A − λI has a Cholesky
    /// factorisation, which is linear in the pattern.
    fn find_bounds(&self) -> Result<Option<Curvature>, Error> {
        let likelihood = &*self.likelihood;
        if self.layout.data.iter().any(|d| likelihood.most_bend(*d).is_none()) {
            return Ok(None);
        }
        let low = self.matrix(|k| likelihood.least_bend(self.layout.data[k]))?;
        let high = self.matrix(|k| likelihood.most_bend(self.layout.data[k]).unwrap_or(0.0))?;
        let shifted = |matrix: &[f64], sign: f64, shift: f64| {
            let mut m: Vec<f64> = matrix.iter().map(|x| sign * x).collect();
            self.forest.diagonal().for_each(|i| m[i] += shift);
            self.forest.inverse_factor(&m).is_some()
        };
        // the trace of the largest path bounds M from above to begin with
        let mut above = 1.0;
        while !shifted(&high, -1.0, above) {
            above *= 2.0;
            if !f64::is_finite(above) {
                return Err(Error::Data("the curvature of the model is not finite".into()));
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
        Ok(Some(Curvature::new(mu.min(m), m, Provenance::ByModel)?))
    }
}

impl Hierarchical {
    /// −log p at z, and its gradient: predictors and slopes node by node, gradients up the tree.
    fn value_and_gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, Error> {
        let (layout, failure) = (&self.layout, Failure::default());
        // per row: the slope; the sum of the losses of a node's rows in its first place
        let mut rows = vec![0.0; KEPT * layout.data.len()];
        self.over_rows(&mut rows, &|node, out| {
            let range = layout.first[node]..layout.first[node + 1];
            if range.is_empty() {
                return;
            }
            let mut path = vec![0.0; self.forest.nodes()[node].width];
            self.forest.path_vector(z, node, &mut path);
            let mut t = Vec::with_capacity(range.len());
            failure.note(layout.rows_of(node, |k, entries| {
                t.push(layout.offset[k] + entries.iter().map(|&(i, v)| v * path[i]).sum::<f64>());
            }));
            t.resize(range.len(), f64::NAN);
            out[0] = self.likelihood.slopes(&mut t, &layout.data[range.clone()], &layout.weight[range]);
            out.iter_mut().skip(1).step_by(KEPT).zip(t).for_each(|(o, t)| *o = t);
        });
        let mut losses = vec![0.0; self.forest.tree.stored()];
        self.forest.upward(gradient, &mut losses, &|visit| {
            let node = &self.forest.nodes()[visit.node];
            let above = node.width - node.size;
            let mut loss = rows[KEPT * layout.first[visit.node]..KEPT * layout.first[visit.node + 1]]
                .first()
                .copied()
                .unwrap_or(0.0);
            failure.note(layout.rows_of(visit.node, |k, entries| {
                entries.iter().for_each(|&(i, v)| visit.vector[i] += rows[k * KEPT + 1] * v);
            }));
            for coordinate in node.start..node.start + node.size {
                let (entries, residual, precision) = self.prior_row(coordinate, z);
                entries.iter().for_each(|&(i, v)| visit.vector[i] += precision * residual * v);
                loss += 0.5 * precision * residual * residual;
            }
            visit.own.copy_from_slice(&visit.vector[above..]);
            // losses travel in the corner of the square that every path shares
            visit.square[0] += loss;
            visit.panel[0] = visit.square[0];
        });
        failure.into_result()?;
        Ok(losses[0] + self.constant)
    }
}

impl PointTarget for Hierarchical {
    fn dim(&self) -> usize {
        Hierarchical::dim(self)
    }

    fn log_density_at(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        let value = self.value_and_gradient(point, gradient)?;
        gradient.iter_mut().for_each(|g| *g = -*g);
        Ok(-value)
    }

    fn curvature(&self) -> Option<Curvature> {
        self.bounds().ok().flatten()
    }
}
