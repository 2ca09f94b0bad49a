//! A generalised linear model around a Gaussian: the exact gradient and lower bounds of the Hessian in the frame of w, over symmetric
//! factors (all Gaussians) or over an ancestor pattern, as dense matrices.

use std::sync::Arc;

use certus::{Factor, Gaussian, Tree, linalg};
use faer::MatRef;

use super::row::{self, CHAIN, Errors, Row, Sizes, gamma, split};
use super::theorem::{Bowl, Surroundings, THETAS};
use crate::design::DesignLeaf;
use crate::error::Error;
use crate::exact::{KEEP, is_lower, whiten};
use crate::expectation::Quadrature;
use crate::glm::{Glm, add_columns, predictors};
use crate::newton::dot;
use crate::prior::Precision;
use crate::rows::{Leaf, own_leaves};

/// A model around w = (m, C), in the frame y = C⁻¹(z − m).
pub(crate) struct Dense<'a> {
    model: &'a Glm,
    c: Vec<f64>,
    /// True if C is lower triangular.
    lower: bool,
    /// The pattern, or `None` for all Gaussians.
    tree: Option<Arc<Tree>>,
    /// Those that are here.
    rows: Vec<Row>,
    largest_sd: f64,
    /// Ã = A C, leaf by leaf, or empty.
    whitened: Vec<f64>,
    /// J̃ = CᵀJC.
    pub(super) prior: Vec<f64>,
    /// A bound on the error of J̃.
    prior_error: f64,
    /// g_m and S, projected on the pattern.
    mean: Vec<f64>,
    factor: Vec<f64>,
    errors: Errors,
}

impl<'a> Dense<'a> {
    /// Over all Gaussians, or over the pattern of w's factor.
    pub(crate) fn new(model: &'a Glm, w: &Gaussian) -> Result<Self, Error> {
        let tree = match w.factor() {
            Factor::Pattern(pattern) => Some(pattern.tree().clone()),
            _ => None,
        };
        Self::over(model, w, tree)
    }

    /// Over all Gaussians, whatever family w is stored in.
    pub(crate) fn over_all(model: &'a Glm, w: &Gaussian) -> Result<Self, Error> {
        Self::over(model, w, None)
    }

    fn over(model: &'a Glm, w: &Gaussian, tree: Option<Arc<Tree>>) -> Result<Self, Error> {
        let mut at = Self { tree, ..Self::placed(model, w)? };
        at.prior(w);
        at.gradient()?;
        Ok(at)
    }

    /// The rows alone: enough for values of f, not for bounds.
    pub(super) fn placed(model: &'a Glm, w: &Gaussian) -> Result<Self, Error> {
        let mut at = Self {
            model,
            c: w.factor().to_dense(),
            lower: is_lower(w),
            tree: None,
            rows: Vec::new(),
            largest_sd: 0.0,
            whitened: Vec::new(),
            prior: Vec::new(),
            prior_error: 0.0,
            mean: vec![0.0; model.dim()],
            factor: Vec::new(),
            errors: Errors::default(),
        };
        at.place(w)?;
        Ok(at)
    }

    pub(super) fn dim(&self) -> usize {
        self.mean.len()
    }

    pub(super) fn model(&self) -> &Glm {
        self.model
    }

    /// Every row that is here, in the frame of w.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(super) fn largest_sd(&self) -> f64 {
        self.largest_sd
    }

    /// The diagonal of C.
    pub(super) fn factor_diagonal(&self) -> Vec<f64> {
        self.c.iter().step_by(self.dim() + 1).copied().collect()
    }

    /// J̃ and CᵀJ(m − μ₀). With |C_j·| = sd_j they err by γ Σ|J_ij| sd_i sd_j and γ Σ sd_i |J_ij| (|m_j| + |μ₀_j|).
    fn prior(&mut self, w: &Gaussian) {
        let (d, prior) = (self.dim(), &self.model.prior);
        self.prior = prior.congruent(&self.c, self.lower);
        let dm: Vec<f64> = w.mean().iter().zip(prior.mean()).map(|(m, p)| m - p).collect();
        let mut slope = vec![0.0; d];
        prior.add_precision_times(&dm, &mut slope);
        linalg::add_transpose_times(&self.c, d, self.lower, &slope, &mut self.mean);
        let sd = w.sd();
        let level: Vec<f64> = w.mean().iter().zip(prior.mean()).map(|(m, p)| m.abs() + p.abs()).collect();
        let sizes =
            |i: usize, j: usize, size: f64| (size.abs() * sd[i] * sd[j], size.abs() * sd[i] * level[j]);
        let (matrix, vector) = match prior.precision() {
            Precision::Diagonal(j) => (0..d).map(|i| sizes(i, i, j[i])).fold((0.0, 0.0), add),
            Precision::Dense(j) => (0..d * d).map(|k| sizes(k % d, k / d, j[k])).fold((0.0, 0.0), add),
        };
        self.prior_error = gamma(3 * d + 8) * matrix;
        self.errors.mean = gamma(3 * d + 8) * vector;
    }

    /// Ã if it is small enough to keep, and every row's place.
    fn place(&mut self, w: &Gaussian) -> Result<(), Error> {
        const KEPT: usize = 4;
        let (d, model, sds) = (self.dim(), self.model, w.sd());
        let here = model.here();
        let n = here.len();
        if n * d <= KEEP {
            let mut whitened = vec![0.0; n * d];
            model.pool.map(model.design.rows(), d, &mut whitened, &|leaf, scratch, out| {
                model.design.prepare(leaf, scratch, |leaf| self.whiten(&leaf, out));
            })?;
            self.whitened = whitened;
        }
        let mut kept = vec![0.0; KEPT * n];
        model.pool.map(model.design.rows(), KEPT, &mut kept, &|leaf, scratch, out| {
            self.with_whitened(leaf, scratch, |leaf, whitened| {
                let n = leaf.data.len();
                let mut t = model.pool.buffer(n);
                predictors(leaf, w.mean(), &mut t);
                for i in 0..n {
                    let square: f64 = whitened.iter().skip(i).step_by(n).map(|x| x * x).sum();
                    let (mut spread, mut level) = (0.0, leaf.offset[i].abs());
                    for j in 0..d {
                        let a = leaf.a[(i, j)].abs();
                        spread += a * sds[j];
                        level += a * w.mean()[j].abs();
                    }
                    out[i * KEPT..][..KEPT].copy_from_slice(&[t[i], square.sqrt(), spread, level]);
                }
                model.pool.give(t);
            });
        })?;
        let mut rows = vec![Row::default(); n];
        for index in own_leaves(model.design.rows()) {
            model.design.rows().leaf(index, &mut |leaf| {
                for i in 0..leaf.y.len() {
                    let k = leaf.first - here.start + i;
                    let (mean, sd) = (kept[k * KEPT], kept[k * KEPT + 1]);
                    let sizes = Sizes { terms: d, spread: kept[k * KEPT + 2], level: kept[k * KEPT + 3] };
                    rows[k] = Row::new(mean, sd, leaf.weight_of(i), leaf.datum(i), sizes);
                }
            })?;
        }
        self.largest_sd = row::largest_sd(&rows, model.design.rows())?;
        self.rows = rows;
        Ok(())
    }

    fn whiten(&self, leaf: &DesignLeaf<'_>, out: &mut [f64]) {
        let d = self.dim();
        whiten(leaf, MatRef::from_column_major_slice(&self.c, d, d), self.lower, out);
    }

    /// Calls `work(leaf, its Ã (column-major))`, Ã kept or made again.
    pub(super) fn with_whitened(
        &self,
        leaf: Leaf<'_>,
        scratch: &mut Vec<f64>,
        work: impl FnOnce(&DesignLeaf<'_>, &[f64]),
    ) {
        let (d, origin) = (self.dim(), self.model.here().start);
        self.model.design.prepare(leaf, scratch, |leaf| {
            let (first, n) = (leaf.first - origin, leaf.data.len());
            if !self.whitened.is_empty() {
                return work(&leaf, &self.whitened[first * d..][..n * d]);
            }
            let mut made = self.model.pool.buffer(n * d);
            self.whiten(&leaf, &mut made);
            work(&leaf, &made);
            self.model.pool.give(made);
        });
    }

    /// Σ over leaves of `work(first row among those that are here, rows, Ã of the leaf (column-major), out)`. Where Ã is kept nothing else of the leaf is needed.
    fn sum(
        &self,
        length: usize,
        work: &(impl Fn(usize, usize, &[f64], &mut [f64]) + Sync),
    ) -> Result<Vec<f64>, Error> {
        let (d, model, origin) = (self.dim(), self.model, self.model.here().start);
        model.pool.sum(model.design.rows(), length, &|leaf, scratch, out| {
            let (first, n) = (leaf.first - origin, leaf.y.len());
            if self.whitened.is_empty() {
                self.with_whitened(leaf, scratch, |_, at| work(first, n, at, out));
            } else {
                work(first, n, &self.whitened[first * d..][..n * d], out);
            }
        })
    }

    /// g_m = CᵀJ(m − μ₀) + Σ e₁ ã and S = J̃ + Σ q₀ ã ãᵀ − I, projected on the pattern, and their errors.
    fn gradient(&mut self) -> Result<(), Error> {
        let (d, likelihood) = (self.dim(), &*self.model.likelihood);
        let quadrature = Quadrature::new(likelihood.strip(), self.largest_sd);
        let sums = self.sum(d + d * d + 2, &|first, n, at, out| {
            let mut work = self.model.pool.buffer(2 * n);
            let (slope, bend) = work.split_at_mut(n);
            let (mean, rest) = out.split_at_mut(d);
            let (gram, errors) = rest.split_at_mut(d * d);
            for (i, row) in self.rows[first..][..n].iter().enumerate() {
                let moments = row.first_order(likelihood, &quadrature);
                (slope[i], bend[i]) = (moments.slope, moments.bend);
                let error = row.first_order_errors(&moments, CHAIN);
                errors[0] += error.mean;
                errors[1] += error.factor;
            }
            let view = MatRef::from_column_major_slice(at, n, d);
            add_columns(mean, d, view, slope, n);
            self.model.add_gram(view, bend, gram);
            self.model.pool.give(work);
        })?;
        self.mean.iter_mut().zip(&sums).for_each(|(g, s)| *g += s);
        let mut s = sums[d..][..d * d].to_vec();
        linalg::mirror(&mut s, d);
        s.iter_mut().zip(&self.prior).for_each(|(s, j)| *s += j);
        s.iter_mut().step_by(d + 1).for_each(|x| *x -= 1.0);
        // a few more roundings of entries of size |S| + 1
        let size = dot(&s, &s).sqrt() + (d as f64).sqrt();
        self.errors.mean += sums[d + d * d] * 1.001 + gamma(8) * dot(&self.mean, &self.mean).sqrt();
        self.errors.factor = sums[d + d * d + 1] * 1.001 + self.prior_error + gamma(8) * size;
        if let Some(tree) = &self.tree {
            let mut kept = vec![0.0; d * d];
            tree.for_each_entry(|i, j| kept[j * d + i] = s[j * d + i]);
            s = kept;
        }
        self.factor = s;
        if self
            .mean
            .iter()
            .chain(&self.factor)
            .chain([&self.errors.mean, &self.errors.factor])
            .any(|x| !x.is_finite())
        {
            return Err(Error::NotFinite("the gradient of the ELBO is not finite".into()));
        }
        Ok(())
    }

    /// J̃ + Σ k ã ãᵀ for two sets of weights (of row k of those that are here), and a bound on the error of each.
    pub(super) fn curvature(
        &self,
        weight: &(impl Fn(usize) -> (f64, f64) + Sync),
    ) -> Result<[(Vec<f64>, f64); 2], Error> {
        let d = self.dim();
        let sums = self.sum(2 * (d * d + 1), &|first, n, at, out| {
            let mut work = self.model.pool.buffer(2 * n);
            let (one, two) = work.split_at_mut(n);
            let (out_one, out_two) = out.split_at_mut(d * d + 1);
            for i in 0..n {
                (one[i], two[i]) = weight(first + i);
                out_one[d * d] += self.rows[first + i].curvature_error(one[i], CHAIN);
                out_two[d * d] += self.rows[first + i].curvature_error(two[i], CHAIN);
            }
            let view = MatRef::from_column_major_slice(at, n, d);
            self.model.add_gram(view, one, &mut out_one[..d * d]);
            self.model.add_gram(view, two, &mut out_two[..d * d]);
            self.model.pool.give(work);
        })?;
        let finish = |part: &[f64]| {
            let mut h = part[..d * d].to_vec();
            linalg::mirror(&mut h, d);
            h.iter_mut().zip(&self.prior).for_each(|(h, j)| *h += j);
            let error = part[d * d] * 1.001 + self.prior_error + gamma(8) * dot(&h, &h).sqrt();
            (h, error)
        };
        Ok([finish(&sums[..d * d + 1]), finish(&sums[d * d + 1..])])
    }

    /// ρ, λ_m and λ_C for H_m and H_C, with `own` the curvature of h (on every entry of a symmetric factor, on the diagonal of a pattern).
    fn weigh(&self, [mean, factor]: &[(Vec<f64>, f64); 2], own: f64) -> Option<Bowl> {
        let d = self.dim();
        // (h, U) are those of a matrix within c·d·u·|H| of H
        let eigen = |(h, error): &(Vec<f64>, f64)| {
            let (mut values, vectors) = linalg::eigen(h, d)?;
            let slack = error + gamma(16 * d + 64) * dot(h, h).sqrt();
            values.iter_mut().for_each(|x| *x -= slack);
            Some((values, vectors))
        };
        let (h, u) = eigen(mean)?;
        let lambda_mean = h[0];
        if lambda_mean.is_nan() || lambda_mean <= 0.0 {
            return None;
        }
        let mut turned = vec![0.0; d];
        linalg::add_transpose_times(&u, d, false, &self.mean, &mut turned);
        let mean_part: f64 = turned.iter().zip(&h).map(|(g, h)| g * g / h).sum();
        let (factor_part, lambda_factor) = match &self.tree {
            None => {
                let (h, u) = eigen(factor)?;
                let lambda = h[0] + own;
                if lambda.is_nan() || lambda <= 0.0 {
                    return None;
                }
                (self.symmetric_norm(&h, &u, own), lambda)
            }
            Some(tree) => self.pattern_norm(tree, factor, own)?,
        };
        // rotations err by c·d roundings of |g|, which are then divided by no less than λ
        let turned = gamma(16 * d + 64);
        let mean_error = self.errors.mean + turned * dot(&self.mean, &self.mean).sqrt();
        let factor_error = self.errors.factor + turned * dot(&self.factor, &self.factor).sqrt();
        let rho = (mean_part + factor_part).sqrt() * (1.0 + turned)
            + mean_error / lambda_mean.sqrt()
            + factor_error / lambda_factor.sqrt();
        Some(Bowl { rho, mean: lambda_mean, factor: lambda_factor })
    }

    /// Σ_ij S̃_ij²/((h_i + h_j)/2 + own), S̃ = UᵀSU.
    fn symmetric_norm(&self, h: &[f64], u: &[f64], own: f64) -> f64 {
        let d = self.dim();
        let (mut su, mut turned) = (vec![0.0; d * d], vec![0.0; d * d]);
        linalg::add_square_times(&self.factor, d, false, u, &mut su);
        linalg::add_transpose_times(u, d, false, &su, &mut turned);
        let entry = |k: usize| turned[k] * turned[k] / (0.5 * (h[k % d] + h[k / d]) + own);
        (0..d * d).map(entry).sum()
    }

    /// Column by column: Σ_j s_jᵀ(H_C[rows(j)] + own e_j e_jᵀ)⁻¹ s_j, and the smallest eigenvalue of these matrices.
    fn pattern_norm(&self, tree: &Tree, (h, error): &(Vec<f64>, f64), own: f64) -> Option<(f64, f64)> {
        let d = self.dim();
        let mut columns: Vec<Vec<usize>> = vec![Vec::new(); d];
        tree.for_each_entry(|i, j| columns[j].push(i));
        let (mut sum, mut lowest) = (0.0, f64::INFINITY);
        for (j, rows) in columns.iter().enumerate() {
            let n = rows.len();
            let mut part: Vec<f64> =
                rows.iter().flat_map(|&c| rows.iter().map(move |&r| h[c * d + r])).collect();
            let place = rows.iter().position(|&i| i == j)?;
            part[place * (n + 1)] += own;
            let slack = error + gamma(16 * n + 64) * dot(&part, &part).sqrt();
            let (mut values, vectors) = linalg::eigen(&part, n)?;
            values.iter_mut().for_each(|x| *x -= slack);
            if values[0].is_nan() || values[0] <= 0.0 {
                return None;
            }
            lowest = lowest.min(values[0]);
            let s: Vec<f64> = rows.iter().map(|&i| self.factor[j * d + i]).collect();
            let mut turned = vec![0.0; n];
            linalg::add_transpose_times(&vectors, n, false, &s, &mut turned);
            sum += turned.iter().zip(&values).map(|(s, h)| s * s / h).sum::<f64>();
        }
        Some((sum, lowest))
    }
}

impl Surroundings for Dense<'_> {
    fn lower(&self, radius: f64, omega: f64) -> Result<Vec<[f64; 3]>, Error> {
        Ok(row::lower(&self.rows, &*self.model.likelihood, self.largest_sd, radius, omega))
    }

    fn bowl(&self, lower: &[[f64; 3]], radius: f64, omega: f64, theta: f64) -> Result<Option<Bowl>, Error> {
        let h = self.curvature(&|k| split(lower[k], theta))?;
        Ok(self.weigh(&h, (1.0 + radius / omega.sqrt()).powi(-2) * (1.0 - 1e-15)))
    }

    fn slope(&self, omega: f64) -> f64 {
        let (mean, factor) = (dot(&self.mean, &self.mean), dot(&self.factor, &self.factor));
        (mean + factor / omega).sqrt() * (1.0 + 1e-12) + self.errors.mean + self.errors.factor / omega.sqrt()
    }

    fn omegas(&self) -> &'static [f64] {
        if self.tree.is_none() { &[2.0, 1.5, 1.0] } else { &[1.0] }
    }

    fn thetas(&self) -> &'static [f64] {
        &THETAS
    }

    /// J̃ + Σ θ_min ã ãᵀ curves mean and factor everywhere; h adds nothing far away.
    fn everywhere(&self) -> Result<Option<Bowl>, Error> {
        let likelihood = &*self.model.likelihood;
        let least = |k: usize| self.rows[k].weight * likelihood.least_bend(self.rows[k].datum);
        let h = self.curvature(&|k| (least(k), least(k)))?;
        Ok(self.weigh(&h, 0.0))
    }
}

fn add(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 + b.0, a.1 + b.1)
}
