//! A hierarchical model as a [`Target`], and its curvature: μ and M of the joint precision by bisection with arrow factorisations.

use certus::{Curvature, Provenance, Target, TargetError};

use super::{Hierarchical, KEPT};
use crate::error::Error;

impl Hierarchical {
    /// The arrow matrix J + Σ weight_n a_n a_nᵀ, where `weight` gives each data row's curvature.
    fn matrix(&self, weight: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut rows = vec![0.0; KEPT * self.data.len()];
        for (k, kept) in rows.chunks_exact_mut(KEPT).enumerate() {
            kept[2] = self.weight[k] * weight(k);
        }
        self.sums_at(&self.origin(), rows, true).factor
    }

    /// μ I ≤ ∇²(−log p) ≤ M I, or `None` where φ″ is not bounded. λ lies below every eigenvalue of A iff A − λI has a Cholesky
    /// factorisation, and an arrow's is linear in the number of groups.
    pub(super) fn bounds(&self) -> Result<Option<Curvature>, Error> {
        let likelihood = &*self.likelihood;
        if self.data.iter().any(|d| likelihood.most_bend(*d).is_none()) {
            return Ok(None);
        }
        let low = self.matrix(|k| likelihood.least_bend(self.data[k]));
        let high = self.matrix(|k| likelihood.most_bend(self.data[k]).unwrap_or(0.0));
        let shifted = |matrix: &[f64], sign: f64, shift: f64| {
            let mut m: Vec<f64> = matrix.iter().map(|x| sign * x).collect();
            self.diagonal().for_each(|i| m[i] += shift);
            self.arrow.inverse_factor(&m).is_some()
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
        let slack = 64.0 * (self.arrow.width() + 16) as f64 * f64::EPSILON * m;
        let (mu, m) = ((mu - slack).max(0.0), m + slack);
        Ok(Some(Curvature::new(mu.min(m), m, Provenance::ByModel)?))
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
        let (g, p, width) = (self.arrow.globals, self.arrow.size, self.arrow.width());
        // per group: p numbers of gradient for each point; the root's sums: value and g numbers for each point
        let mut out = vec![0.0; self.arrow.groups * p * n];
        let sums = self.arrow.over_groups(&mut out, p * n, n * (1 + g), &|first, run, sums| {
            let mut t = Vec::new();
            let mut path = vec![0.0; width];
            for (k, out) in run.chunks_exact_mut(p * n).enumerate() {
                let group = first + k;
                let rows = self.first[group]..self.first[group + 1];
                let features = &self.paths[rows.start * width..rows.end * width];
                for ((z, out), sums) in
                    points.chunks_exact(d).zip(out.chunks_exact_mut(p)).zip(sums.chunks_exact_mut(1 + g))
                {
                    path[..g].copy_from_slice(&z[..g]);
                    path[g..].copy_from_slice(&z[g + group * p..][..p]);
                    t.clear();
                    t.extend(
                        features
                            .chunks_exact(width)
                            .zip(&self.offset[rows.clone()])
                            .map(|(a, o)| o + super::dot(a, &path)),
                    );
                    sums[0] +=
                        self.likelihood.slopes(&mut t, &self.data[rows.clone()], &self.weight[rows.clone()]);
                    let mut add = |i: usize, v: f64| if i < g { sums[1 + i] += v } else { out[i - g] += v };
                    for (a, slope) in features.chunks_exact(width).zip(&t) {
                        a.iter().enumerate().for_each(|(i, a)| add(i, slope * a));
                    }
                    let mut energy = 0.0;
                    for (a, (&j, q)) in self.slopes.iter().zip(&self.group_precision).enumerate() {
                        let residual = path[g + a] - path[j];
                        energy += 0.5 * q * residual * residual;
                        add(g + a, q * residual);
                        add(j, -q * residual);
                    }
                    sums[0] += energy;
                }
            }
        });
        for (b, (value, gradient)) in values.iter_mut().zip(gradients.chunks_exact_mut(d)).enumerate() {
            let (z, sums) = (&points[b * d..][..d], &sums[b * (1 + g)..][..1 + g]);
            *value = -(sums[0] + self.constant);
            for j in 0..g {
                let residual = z[j] - self.root_mean[j];
                *value -= 0.5 * self.root_precision[j] * residual * residual;
                gradient[j] = -(sums[1 + j] + self.root_precision[j] * residual);
            }
            for (group, own) in gradient[g..].chunks_exact_mut(p).enumerate() {
                let from = &out[(group * n + b) * p..][..p];
                own.iter_mut().zip(from).for_each(|(g, o)| *g = -o);
            }
        }
        Ok(())
    }

    fn curvature(&self) -> Option<Curvature> {
        self.curvature.clone()
    }
}
