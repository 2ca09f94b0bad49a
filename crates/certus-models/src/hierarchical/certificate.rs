//! A hierarchical model around a Gaussian on its pattern, at a cost linear in the pattern. The pattern holds the best
//! Gaussian of all (Proposition I), so the gap within it is the gap to all Gaussians.

use std::sync::Arc;

use certus::certificate::{Gap, Posterior};
use certus::{Family, Gaussian};

use super::{At, Hierarchical, KEPT, ON_PATTERN};
use crate::certificate::all_bounds;
use crate::certificate::bracket::{self, Certified, Value};
use crate::certificate::dense::Dense;
use crate::certificate::row::{CHAIN, Errors, Row, Sizes, gamma, largest_sd, split};
use crate::certificate::theorem::{LocalConvexity, Surroundings, THETAS, search};
use crate::design::Design;
use crate::error::{Error, InvalidModel, NotFinite};
use crate::expectation::Quadrature;
use crate::glm::Glm;
use crate::newton::dot;
use crate::rows::{Failure, Memory};
use certus_likelihood::prior::Prior;

/// Entries of the dense rows and precision up to which a model is looked at as a dense one (about a second).
const SMALL: usize = 1 << 21;

/// d beyond which only the usual split θ is tried.
const LARGE: usize = 5000;

/// A model around w, in the frame y = C⁻¹(z − m).
struct Around<'a> {
    model: &'a Hierarchical,
    w: &'a Gaussian,
    rows: Vec<Row>,
    largest_sd: f64,
    /// Longest chain of additions of a sum over rows, up the tree.
    chain: usize,
    /// g_m and S on the pattern.
    mean: Vec<f64>,
    factor: Vec<f64>,
    errors: Errors,
    /// A bound on the error of the prior's part of a curvature matrix.
    prior_error: f64,
}

impl Hierarchical {
    /// How far f(w) is from its least value over all Gaussians; w must be on the model's pattern. Small models are
    /// looked at as dense ones: over symmetric factors h curves every entry, so the bound is smaller.
    pub fn gap(&self, w: &Gaussian) -> Result<Gap, Error> {
        let found = if self.is_small() {
            Dense::over_all(&self.as_dense()?, w).and_then(|at| search(&at))
        } else {
            Around::new(self, w).and_then(|at| search(&at))
        };
        crate::certificate::gap(found, "all Gaussians".into(), &*self.likelihood)
    }

    /// How far w is from the posterior, which is known where it is Gaussian (D7).
    pub fn posterior(&self, w: &Gaussian) -> Result<Posterior, Error> {
        if !self.likelihood.is_quadratic() {
            return Ok(Posterior::none("the certificates of the posterior do not support group terms yet"));
        }
        crate::posterior::by_gap(self, w, &self.gap(w)?)
    }

    fn is_small(&self) -> bool {
        self.dim() * (self.dim() + self.layout.data.len()) <= SMALL
    }

    /// Bounds on |ã| of a latent's prior row z_i − z_outer, and on the sizes that its residual is a difference of.
    fn prior_sizes(&self, i: usize, sds: &[f64], mean: &[f64]) -> (f64, f64) {
        let (sd, level) = (sds[i], mean[i].abs() + self.prior[i].0.abs());
        self.latents[i].outer.map_or((sd, level), |(outer, _)| (sd + sds[outer], level + mean[outer].abs()))
    }

    /// The same model with its rows and its prior precision written out.
    fn as_dense(&self) -> Result<Glm, Error> {
        let (d, layout) = (self.dim(), &self.layout);
        let mut rows = Memory { columns: d, weight: layout.weight.clone(), ..Memory::default() };
        rows.offset.clone_from(&layout.offset);
        rows.y = layout.data.iter().map(|datum| datum.y).collect();
        rows.trials = layout.data.iter().map(|datum| datum.trials).collect();
        rows.x = vec![0.0; d * layout.data.len()];
        let numbers: Vec<f64> = (0..d).map(|i| i as f64).collect();
        for (node, at) in self.forest.nodes().iter().enumerate() {
            let mut path = vec![0.0; at.width];
            self.forest.path_vector(&numbers, node, &mut path);
            layout.rows_of(node, |k, entries| {
                entries.iter().for_each(|&(i, v)| rows.x[k * d + path[i] as usize] += v);
            })?;
        }
        let (mut mean, mut precision) = (vec![0.0; d], vec![0.0; d * d]);
        for (i, latent) in self.latents.iter().enumerate() {
            let (center, p) = self.prior[i];
            precision[i * (d + 1)] += p;
            mean[i] = center;
            if let Some((outer, _)) = latent.outer {
                mean[i] = mean[outer];
                precision[outer * (d + 1)] += p;
                precision[i * d + outer] -= p;
                precision[outer * d + i] -= p;
            }
        }
        let prior = Prior::with_precision(mean, precision)?;
        Glm::new(Design::new(Arc::new(rows), false), self.likelihood.clone(), prior)
    }
}

impl Certified for Hierarchical {
    /// Every latent's prior row adds p(r² + |ã|²)/2.
    fn exact_value(&self, w: &Gaussian) -> Result<Value, Error> {
        let at = Around::placed(self, w)?;
        let losses =
            bracket::losses(&at.rows, self.layout.design.rows(), &*self.likelihood, at.largest_sd, CHAIN)?;
        let diagonal: Vec<f64> = self.forest.diagonal().map(|i| w.factor().values()[i]).collect();
        let entropy = bracket::neg_entropy(&diagonal);
        let (sds, mean) = (w.sd(), w.mean());
        let (mut size, mut rounded) = (self.constant.abs(), 0.0);
        for i in 0..self.dim() {
            let (_, residual, precision) = self.prior_row(i, mean);
            let (sd, level) = self.prior_sizes(i, &sds, mean);
            size += 0.5 * precision * (residual * residual + sd * sd);
            rounded += precision * residual.abs() * gamma(4) * level;
        }
        // energy(w) sums the same terms up the runs of nodes, and the constant one by one
        let value = self.neg_elbo(w)? - w.neg_entropy() + entropy.value;
        let added = gamma(at.chain + CHAIN) * (size + losses.value.abs() + entropy.value.abs());
        let constants = gamma(self.dim() + 16) * self.constant.abs();
        Ok(Value { value, error: losses.error + entropy.error + 1.001 * rounded + added + constants })
    }

    /// The pattern loses nothing.
    fn optimum_over(&self, _: &Gaussian) -> Option<Family> {
        None
    }

    fn certified_gap(&self, w: &Gaussian) -> Result<Gap, Error> {
        self.gap(w)
    }

    fn gap_bounds(&self, w: &Gaussian) -> Result<Vec<(&'static str, f64)>, Error> {
        if self.is_small() {
            return all_bounds(&Dense::over_all(&self.as_dense()?, w)?);
        }
        all_bounds(&Around::new(self, w)?)
    }
}

impl<'a> Around<'a> {
    fn new(model: &'a Hierarchical, w: &'a Gaussian) -> Result<Self, Error> {
        let mut at = Self::placed(model, w)?;
        at.gradient()?;
        Ok(at)
    }

    /// The rows alone: enough for values of f, not for bounds.
    fn placed(model: &'a Hierarchical, w: &'a Gaussian) -> Result<Self, Error> {
        if w.factor().family() != model.family() {
            return Err(InvalidModel::Factor { required: ON_PATTERN }.into());
        }
        let first = &model.layout.first;
        let most = first.windows(2).map(|k| k[1] - k[0]).max().unwrap_or(0);
        let mut at = Self {
            model,
            w,
            rows: Vec::new(),
            largest_sd: 0.0,
            // a node's own rows, then runs of 64 siblings, level by level
            chain: most + model.forest.tree.widest() + (64 + 32) * model.forest.tree.levels(),
            mean: Vec::new(),
            factor: Vec::new(),
            errors: Errors::default(),
            prior_error: 0.0,
        };
        at.place_rows()?;
        Ok(at)
    }

    /// Mean, sd and sizes of every row.
    fn place_rows(&mut self) -> Result<(), Error> {
        let (model, w, sds) = (self.model, self.w, self.w.sd());
        let level: Vec<f64> = w.mean().iter().map(|m| m.abs()).collect();
        let (layout, failure) = (&model.layout, Failure::default());
        let mut kept = vec![0.0; KEPT * layout.data.len()];
        model.over_rows(&mut kept, &|node, out| {
            if out.is_empty() {
                return;
            }
            let width = model.forest.nodes()[node].width;
            let line = |x: &[f64]| {
                let mut path = vec![0.0; width];
                model.forest.path_vector(x, node, &mut path);
                path
            };
            let (mean, spread, level) = (line(w.mean()), line(&sds), line(&level));
            let (mut path, mut at) = (vec![0.0; width * width], vec![0.0; width]);
            model.forest.path(w.factor().values(), node, &mut path);
            let first = layout.first[node];
            failure.note(layout.rows_of(node, |k, entries| {
                super::whiten(&path, entries.iter().copied(), &mut at);
                let along = |x: &[f64]| entries.iter().map(|&(i, v)| v.abs() * x[i]).sum::<f64>();
                let t = layout.offset[k] + entries.iter().map(|&(i, v)| v * mean[i]).sum::<f64>();
                let sizes = [t, dot(&at, &at).sqrt(), along(&spread), along(&level), entries.len() as f64];
                out[KEPT * (k - first)..][..5].copy_from_slice(&sizes);
            }));
        });
        failure.into_result()?;
        self.rows = kept
            .chunks_exact(KEPT)
            .enumerate()
            .map(|(k, x)| {
                let level = x[3] + layout.offset[k].abs();
                // |ã| is a sum over the path as well
                let terms = x[4] as usize + model.forest.tree.widest();
                Row::new(x[0], x[1], layout.weight[k], layout.data[k], Sizes { terms, spread: x[2], level })
            })
            .collect();
        self.largest_sd = largest_sd(&self.rows, self.model.layout.design.rows())?;
        Ok(())
    }

    /// g_m and S on the pattern, and their errors. The prior rows z_i − z_outer have |ã| ≤ sd_i + sd_outer.
    fn gradient(&mut self) -> Result<(), Error> {
        let (model, likelihood) = (self.model, &*self.model.likelihood);
        let quadrature = Quadrature::new(likelihood.strip(), self.largest_sd);
        let mut kept = vec![0.0; KEPT * self.rows.len()];
        // per row: slope, curvature and the two errors
        certus::parallel::for_each_piece(&mut kept, 256 * KEPT, 1, &|piece, part| {
            for (row, out) in self.rows[256 * piece..].iter().zip(part.chunks_exact_mut(KEPT)) {
                let moments = row.first_order(likelihood, &quadrature);
                let errors = row.first_order_errors(&moments, self.chain);
                out[1..5].copy_from_slice(&[moments.slope, moments.curvature, errors.mean, errors.factor]);
            }
        });
        for k in kept.chunks_exact(KEPT) {
            self.errors.mean += k[3];
            self.errors.factor += k[4];
        }
        let sums = model.sums_at(At::of(self.w), kept)?;
        (self.mean, self.factor) = (sums.mean, sums.factor);
        model.forest.diagonal().for_each(|i| self.factor[i] -= 1.0);
        let (sds, mean, added) = (self.w.sd(), self.w.mean(), gamma(self.chain + 8));
        for i in 0..model.dim() {
            let (_, residual, precision) = model.prior_row(i, mean);
            let (sd, level) = model.prior_sizes(i, &sds, mean);
            self.errors.mean += precision * sd * (added * residual.abs() + gamma(4) * level);
            self.prior_error += precision * sd * sd * added;
        }
        let size = dot(&self.factor, &self.factor).sqrt() + (model.dim() as f64).sqrt();
        self.errors.mean = 1.001 * self.errors.mean + gamma(8) * dot(&self.mean, &self.mean).sqrt();
        self.errors.factor = 1.001 * self.errors.factor + self.prior_error + gamma(8) * size;
        let sound = self.mean.iter().chain(&self.factor).chain([&self.errors.mean, &self.errors.factor]);
        if sound.into_iter().any(|x| !x.is_finite()) {
            return Err(NotFinite::Quantity { what: "the gradient of the ELBO" }.into());
        }
        Ok(())
    }

    /// J̃ + Σ k ã ãᵀ on the pattern, minus a bound on everything that rounding does to it and to a factorisation of it:
    /// if Cholesky succeeds, the matrix it factored differs by at most γ|L||Lᵀ|, whose entries are below γ
    /// max(diagonal).
    fn curvature(&self, weight: impl Fn(usize) -> f64) -> Result<Vec<f64>, Error> {
        let model = self.model;
        let mut kept = vec![0.0; KEPT * self.rows.len()];
        let mut error = self.prior_error;
        for (k, out) in kept.chunks_exact_mut(KEPT).enumerate() {
            out[2] = weight(k);
            error += self.rows[k].curvature_error(out[2], self.chain);
        }
        let mut h = model.sums_at(At::of(self.w), kept)?.factor;
        model.mirror_own_blocks(&mut h);
        let largest = model.forest.diagonal().map(|i| h[i]).fold(0.0, f64::max);
        let entries = 2.0 * model.forest.tree.stored() as f64;
        let slack = 1.001 * error + self.cholesky(largest) * entries.sqrt();
        model.forest.diagonal().for_each(|i| h[i] -= slack);
        Ok(h)
    }

    /// An entry of what Cholesky factors differs by at most this, blocks of condition 1 given.
    fn cholesky(&self, largest: f64) -> f64 {
        gamma(4 * self.model.forest.tree.widest() + 256 + self.chain) * largest
    }

    /// A lower bound of the least eigenvalue, within 1/32 of the least diagonal entry: λ is one iff H − λI has a
    /// Cholesky factor. The blocks are inverted explicitly, which costs their condition.
    fn least_eigenvalue(&self, h: &[f64]) -> f64 {
        let forest = &self.model.forest;
        let (mut low, mut high) = (0.0, forest.diagonal().map(|i| h[i]).fold(f64::INFINITY, f64::min));
        for _ in 0..5 {
            let middle = 0.5 * (low + high);
            if forest.is_positive(h, middle) { low = middle } else { high = middle }
        }
        let (largest, widest) =
            (forest.diagonal().map(|i| h[i]).fold(0.0, f64::max), forest.tree.widest() as f64);
        let condition = widest * largest / low.max(f64::MIN_POSITIVE);
        low - self.cholesky(largest) * condition * (2.0 * forest.tree.stored() as f64).sqrt()
    }

    /// ρ² = g_mᵀH_m⁻¹g_m + Σ_j s_jᵀ(H_C[rows(j)] + c e_j e_jᵀ)⁻¹ s_j with rows(j) the descendants of column j, c =
    /// `own` the curvature of h: the two parts, made one after the other, so that there is never more than one matrix.
    fn weigh(
        &self,
        mean: impl FnOnce() -> Result<Vec<f64>, Error>,
        factor: impl FnOnce() -> Result<Vec<f64>, Error>,
        own: f64,
    ) -> Result<Option<LocalConvexity>, Error> {
        let Some(mean) = self.weigh_mean(mean()?) else { return Ok(None) };
        let Some(factor) = self.weigh_factor(factor()?, own) else { return Ok(None) };
        // solves err by c·width roundings times the condition of H, which its trace bounds
        let solves = gamma(8 * self.model.forest.tree.widest() + self.chain);
        let rho = (mean.square + factor.square).sqrt()
            * (1.0 + solves * mean.condition.max(factor.condition))
            + self.errors.mean / mean.lambda.sqrt()
            + self.errors.factor / factor.lambda.sqrt();
        Ok(Some(LocalConvexity { rho, mean: mean.lambda, factor: factor.lambda }))
    }

    /// The least eigenvalue and the condition of H, if it is positive.
    fn weighed(&self, h: &[f64]) -> Option<Weighed> {
        let lambda = self.least_eigenvalue(h);
        let trace = self.model.forest.diagonal().map(|i| h[i]).sum::<f64>();
        (lambda > 0.0).then_some(Weighed { lambda, condition: trace / lambda, square: 0.0 })
    }

    fn weigh_mean(&self, h: Vec<f64>) -> Option<Weighed> {
        let (weighed, mut half) = (self.weighed(&h)?, vec![0.0; self.mean.len()]);
        self.model.forest.inverse_factor(h)?.add_apply_transpose(&self.mean, &mut half);
        Some(Weighed { square: dot(&half, &half), ..weighed })
    }

    /// With F Fᵀ = H_C⁻¹ on the pattern, the factor of H_C[rows(j)]⁻¹ is the part of F below j, so the sum is that of
    /// the squares of T_aj = Σ_{i below a} F_ia S_ij, those on the diagonal divided by 1 + c F_jj² (Sherman-Morrison).
    fn weigh_factor(&self, h: Vec<f64>, own: f64) -> Option<Weighed> {
        let (weighed, forest) = (self.weighed(&h)?, &self.model.forest);
        let inverse = forest.inverse_factor(h)?;
        let (mut none, mut t) = (vec![0.0; self.mean.len()], vec![0.0; forest.tree.stored()]);
        forest.upward(&mut none, &mut t, &|mut visit| {
            let node = &forest.nodes()[visit.node];
            let panel = node.offset..node.offset + node.size * node.width;
            let (f, s) = (&inverse.values()[panel.clone()], &self.factor[panel]);
            for (j, s) in s.chunks_exact(node.size).enumerate() {
                for (a, f) in f.chunks_exact(node.size).enumerate().skip(j) {
                    visit.square[j * node.width + a] += dot(f, s);
                }
            }
            self.model.keep(&mut visit);
        });
        for i in forest.diagonal() {
            let f = inverse.values()[i];
            t[i] /= (1.0 + own * f * f).sqrt();
        }
        Some(Weighed { square: dot(&t, &t), ..weighed })
    }
}

/// A part of ρ² with what is known of its matrix.
struct Weighed {
    lambda: f64,
    condition: f64,
    square: f64,
}

impl Surroundings for Around<'_> {
    fn lower(&self, radius: f64, omega: f64) -> Result<Vec<[f64; 3]>, Error> {
        let likelihood = &*self.model.likelihood;
        Ok(crate::certificate::row::lower(&self.rows, likelihood, self.largest_sd, radius, omega))
    }

    fn convexity(
        &self,
        lower: &[[f64; 3]],
        radius: f64,
        omega: f64,
        theta: f64,
    ) -> Result<Option<LocalConvexity>, Error> {
        let own = (1.0 + radius / omega.sqrt()).powi(-2) * (1.0 - 1e-15);
        let mean = || self.curvature(|k| split(lower[k], theta).0);
        self.weigh(mean, || self.curvature(|k| split(lower[k], theta).1), own)
    }

    fn slope(&self, omega: f64) -> f64 {
        let (mean, factor) = (dot(&self.mean, &self.mean), dot(&self.factor, &self.factor));
        (mean + factor / omega).sqrt() * (1.0 + 1e-9) + self.errors.mean + self.errors.factor / omega.sqrt()
    }

    /// On a pattern h curves the diagonal only, so mean and factor weigh the same.
    fn omegas(&self) -> &'static [f64] {
        &[1.0]
    }

    fn thetas(&self) -> &'static [f64] {
        if self.mean.len() > LARGE { &THETAS[..1] } else { &THETAS }
    }

    fn everywhere(&self) -> Result<Option<LocalConvexity>, Error> {
        let likelihood = &*self.model.likelihood;
        let h =
            || self.curvature(|k| self.rows[k].weight * likelihood.second_derivative_min(self.rows[k].datum));
        self.weigh(h, h, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::GroupTerm;
    use super::*;
    use crate::certificate::dense::Dense;
    use crate::certificate::theorem::everywhere;
    use certus::factor::{Factor, Pattern};
    use certus_likelihood::{Likelihood, Logistic, Poisson};

    /// Three nested levels, so that the tree is deeper than an arrow.
    fn model(likelihood: Arc<dyn Likelihood>) -> Hierarchical {
        let n = 240;
        let wave = |k: usize| (k as f64 * 1.7).sin() + (k as f64 * 0.31).cos();
        let rows = Memory {
            x: (0..2 * n).map(|k| if k % 2 == 0 { 1.0 } else { wave(k) }).collect(),
            y: (0..n).map(|i| f64::from(u8::from(wave(3 * i + 1) > 0.3))).collect(),
            columns: 2,
            ..Memory::default()
        };
        let inner: Vec<usize> = (0..n).map(|i| (i * 7) % 12).collect();
        let outer = GroupTerm {
            group: inner.iter().map(|g| g / 3).collect(),
            slopes: vec![0, 1],
            sd: vec![0.9, 0.5],
            within: None,
        };
        let inner = GroupTerm { group: inner, slopes: vec![0], sd: vec![0.7], within: Some(0) };
        let prior = Prior::independent(vec![0.1; 2], &[1.5; 2]).expect("a prior");
        Hierarchical::new(Design::new(Arc::new(rows), false), &[outer, inner], likelihood, &prior, 1 << 30)
            .expect("a model")
    }

    /// (m + C dm, C(I + dC)) with dm and dC of a fixed pseudo-random direction on the pattern.
    fn moved(model: &Hierarchical, w: &Gaussian, size: f64) -> Gaussian {
        let tree = model.forest.tree.clone();
        let wave = |k: usize| (k as f64 * 2.3).sin();
        let identity = w.factor().family().scaled_identity(w.dim(), 1.0);
        let mut values: Vec<f64> = (0..tree.stored()).map(|k| size * wave(k)).collect();
        for node in tree.nodes() {
            for j in 0..node.size {
                for i in 0..j {
                    values[node.offset + (node.width - node.size + j) * node.size + i] = 0.0;
                }
            }
        }
        values.iter_mut().zip(identity.values()).for_each(|(v, i)| *v += i);
        let inner = Factor::Pattern(Pattern::new(tree, values).expect("a factor"));
        let turned =
            Gaussian::new((0..w.dim()).map(|k| size * wave(k + 50)).collect(), inner).expect("proper");
        certus::frame::Frame::of(w).expect("proper").to_original(&turned).expect("proper")
    }

    /// The sweep over the tree and the column-by-column solves of a dense model are the same numbers; bounds hold.
    #[test]
    fn the_sweep_equals_dense_columns() {
        let likelihoods: [Arc<dyn Likelihood>; 2] = [Arc::new(Logistic), Arc::new(Poisson)];
        for likelihood in likelihoods {
            let model = model(likelihood);
            let state = model.solve_exactly().expect("an optimum");
            for size in [1e-5, 0.003, 0.03] {
                let w = moved(&model, &state.gaussian, size);
                let around = Around::new(&model, &w).expect("finite");
                let dense_model = model.as_dense().expect("a model");
                let dense = Dense::new(&dense_model, &w).expect("finite");
                for (radius, theta) in [(0.01, 0.71), (0.2, 0.5)] {
                    let convexity = |at: &dyn Fn() -> Result<Option<LocalConvexity>, Error>| {
                        at().expect("finite").expect("positive")
                    };
                    let a = convexity(&|| around.convexity(&around.lower(radius, 1.0)?, radius, 1.0, theta));
                    let b = convexity(&|| dense.convexity(&dense.lower(radius, 1.0)?, radius, 1.0, theta));
                    assert!((a.rho / b.rho - 1.0).abs() < 1e-6, "{a:?} {b:?}");
                    // bisection rounds down by at most a 32nd of the least diagonal entry; columns see less than all of
                    // H
                    assert!(a.mean <= b.mean && a.mean > b.mean - 0.1, "{a:?} {b:?}");
                    assert!(a.factor <= b.factor * (1.0 + 1e-9), "{a:?} {b:?}");
                }
                let (a, b) = (everywhere(&around).expect("finite"), everywhere(&dense).expect("finite"));
                let (a, b) = (a.expect("a proper prior").gap, b.expect("a proper prior").gap);
                assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
                let truth = model.neg_elbo(&w).expect("finite") - state.neg_elbo;
                for at in [search(&around).expect("finite"), search(&dense).expect("finite")] {
                    let bound = at.found.iter().map(|f| f.gap).fold(f64::INFINITY, f64::min);
                    assert!(bound >= truth - 1e-10 && bound < 2.5 * truth + 1e-10, "{bound:e} for {truth:e}");
                }
                // the value with its error is the solver's
                let value = model.exact_value(&w).expect("finite");
                assert!(
                    (value.value - dense_model.neg_elbo(&w).expect("finite")).abs() <= value.error.max(1e-10)
                );
            }
        }
    }
}
