//! A generalised linear model around a Gaussian: the exact gradient and lower bounds of the Hessian in the frame of w,
//! over symmetric factors (all Gaussians) or over an ancestor pattern, as dense matrices.

use std::sync::Arc;

use certus::{Factor, Gaussian, Tree, linalg};

use super::placed::Placed;
use super::row::{self, CHAIN, Errors, Row, gamma, split};
use super::theorem::{LocalConvexity, Surroundings, THETAS};
use crate::error::{Error, NotFinite};
use crate::expectation::Quadrature;
use crate::glm::{Glm, add_columns};
use crate::matrix::view;
use crate::newton::dot;
use certus_likelihood::prior::Precision;

/// Numbers of partial sums of curvature matrices that may be made in one pass (8 MB): more splits of larger matrices
/// take more passes.
const ROOM: usize = 1 << 20;

/// A model around w = (m, C), in the frame y = C⁻¹(z − m).
pub(crate) struct Dense<'a> {
    placed: Placed<'a>,
    /// The pattern, or `None` for all Gaussians.
    tree: Option<Arc<Tree>>,
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
        Self::over(Placed::new(model, w)?, w, tree)
    }

    /// Over all Gaussians, whatever family w is stored in.
    pub(crate) fn over_all(model: &'a Glm, w: &Gaussian) -> Result<Self, Error> {
        Self::over(Placed::new(model, w)?, w, None)
    }

    fn over(placed: Placed<'a>, w: &Gaussian, tree: Option<Arc<Tree>>) -> Result<Self, Error> {
        let mut at = Self {
            placed,
            tree,
            prior: Vec::new(),
            prior_error: 0.0,
            mean: vec![0.0; w.dim()],
            factor: Vec::new(),
            errors: Errors::default(),
        };
        at.prior(w);
        at.gradient()?;
        Ok(at)
    }

    pub(super) fn dim(&self) -> usize {
        self.mean.len()
    }

    pub(super) fn model(&self) -> &'a Glm {
        self.placed.model()
    }

    pub(super) fn placed(&self) -> &Placed<'a> {
        &self.placed
    }

    /// g_m, S and bounds on their errors in norm.
    pub(crate) fn gradient_with_errors(&self) -> (&[f64], &[f64], Errors) {
        (&self.mean, &self.factor, self.errors)
    }

    /// J̃ and CᵀJ(m − μ₀). With |C_j·| = sd_j they err by γ Σ|J_ij| sd_i sd_j and γ Σ sd_i |J_ij| (|m_j| + |μ₀_j|).
    fn prior(&mut self, w: &Gaussian) {
        let (d, prior) = (self.dim(), &self.placed.model().prior);
        let (c, lower) = (&self.placed.c, self.placed.lower);
        self.prior = prior.congruent(c, lower);
        let dm: Vec<f64> = w.mean().iter().zip(prior.mean()).map(|(m, p)| m - p).collect();
        let mut slope = vec![0.0; d];
        prior.add_precision_times(&dm, &mut slope);
        linalg::add_transpose_times(c, d, lower, &slope, &mut self.mean);
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

    /// g_m = CᵀJ(m − μ₀) + Σ e₁ ã and S = J̃ + Σ q₀ ã ãᵀ − I, projected on the pattern, and their errors.
    fn gradient(&mut self) -> Result<(), Error> {
        let (d, model) = (self.dim(), self.model());
        let likelihood = model.likelihood();
        let quadrature = Quadrature::new(likelihood.strip(), self.placed.largest_sd());
        let sums = self.placed.sum(d + d * d + 2, &|_, rows, at, out| {
            let n = rows.len();
            let mut work = model.pool.buffer(2 * n);
            let (slope, curvature) = work.split_at_mut(n);
            let (mean, rest) = out.split_at_mut(d);
            let (gram, errors) = rest.split_at_mut(d * d);
            for (i, row) in rows.iter().enumerate() {
                let moments = row.first_order(likelihood, &quadrature);
                (slope[i], curvature[i]) = (moments.slope, moments.curvature);
                let error = row.first_order_errors(&moments, CHAIN);
                errors[0] += error.mean;
                errors[1] += error.factor;
            }
            let matrix = view(at, n, d);
            add_columns(mean, matrix, slope);
            model.add_gram(matrix, curvature, gram);
            model.pool.give(work);
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
            return Err(NotFinite::Quantity { what: "the gradient of the ELBO" }.into());
        }
        Ok(())
    }

    /// J̃ + Σ k ã ãᵀ for several sets of weights k, and a bound on the error of each; `weights(k, row, out)` are those
    /// of row k of the rows that are here.
    pub(super) fn curvature(
        &self,
        sets: usize,
        weights: &(impl Fn(usize, &Row, &mut [f64]) + Sync),
    ) -> Result<Vec<(Vec<f64>, f64)>, Error> {
        let (d, model) = (self.dim(), self.model());
        let sums = self.placed.sum(sets * (d * d + 1), &|first, rows, at, out| {
            let n = rows.len();
            let mut work = model.pool.buffer(sets * (n + 1));
            let (each, of_row) = work.split_at_mut(sets * n);
            for (i, row) in rows.iter().enumerate() {
                weights(first + i, row, of_row);
                for (s, k) in of_row.iter().enumerate() {
                    each[s * n + i] = *k;
                    out[s * (d * d + 1) + d * d] += row.curvature_error(*k, CHAIN);
                }
            }
            let matrix = view(at, n, d);
            for (weight, out) in each.chunks_exact(n).zip(out.chunks_exact_mut(d * d + 1)) {
                model.add_gram(matrix, weight, &mut out[..d * d]);
            }
            model.pool.give(work);
        })?;
        let finish = |part: &[f64]| {
            let mut h = part[..d * d].to_vec();
            linalg::mirror(&mut h, d);
            h.iter_mut().zip(&self.prior).for_each(|(h, j)| *h += j);
            let error = part[d * d] * 1.001 + self.prior_error + gamma(8) * dot(&h, &h).sqrt();
            (h, error)
        };
        Ok(sums.chunks_exact(d * d + 1).map(finish).collect())
    }

    /// The convexity of pairs of curvature matrices.
    fn weigh_all(&self, all: &[(Vec<f64>, f64)], radius: f64, omega: f64) -> Vec<Option<LocalConvexity>> {
        let own = (1.0 + radius / omega.sqrt()).powi(-2) * (1.0 - 1e-15);
        all.chunks_exact(2).map(|pair| self.weigh(&pair[0], &pair[1], own)).collect()
    }

    /// ρ, λ_m and λ_C for H_m and H_C, with `own` the curvature of h (on every entry of a symmetric factor, on the
    /// diagonal of a pattern).
    fn weigh(&self, mean: &(Vec<f64>, f64), factor: &(Vec<f64>, f64), own: f64) -> Option<LocalConvexity> {
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
        Some(LocalConvexity { rho, mean: lambda_mean, factor: lambda_factor })
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
        debug_assert!(!self.placed.is_streamed(), "only what is kept per row can be asked for");
        let (rows, largest) = (self.placed.kept(), self.placed.largest_sd());
        Ok(row::lower(rows, self.model().likelihood(), largest, radius, omega))
    }

    fn convexity(
        &self,
        lower: &[[f64; 3]],
        radius: f64,
        omega: f64,
        theta: f64,
    ) -> Result<Option<LocalConvexity>, Error> {
        let set = |k: usize, _: &Row, out: &mut [f64]| (out[0], out[1]) = split(lower[k], theta);
        Ok(self.weigh_all(&self.curvature(2, &set)?, radius, omega)[0])
    }

    /// Where rows are made again, Q⁻ of a row is used for all splits at once and forgotten.
    fn convexities(
        &self,
        radius: f64,
        omega: f64,
        thetas: &[f64],
    ) -> Result<Vec<Option<LocalConvexity>>, Error> {
        if !self.placed.is_streamed() {
            let lower = self.lower(radius, omega)?;
            return thetas.iter().map(|theta| self.convexity(&lower, radius, omega, *theta)).collect();
        }
        let likelihood = self.model().likelihood();
        let quadrature = Quadrature::lower(likelihood.strip(), self.placed.largest_sd(), radius, omega);
        let run = ROOM / (2 * self.dim() * self.dim());
        let mut convexities = Vec::new();
        for thetas in thetas.chunks(run.max(1)) {
            let sets = |_: usize, row: &Row, out: &mut [f64]| {
                let lower = row.lower(likelihood, &quadrature, radius, omega);
                for (theta, pair) in thetas.iter().zip(out.chunks_exact_mut(2)) {
                    (pair[0], pair[1]) = split(lower, *theta);
                }
            };
            convexities.extend(self.weigh_all(&self.curvature(2 * thetas.len(), &sets)?, radius, omega));
        }
        Ok(convexities)
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
    fn everywhere(&self) -> Result<Option<LocalConvexity>, Error> {
        let likelihood = self.model().likelihood();
        let least = |_: usize, row: &Row, out: &mut [f64]| {
            out[0] = row.weight * likelihood.second_derivative_min(row.datum)
        };
        let h = self.curvature(1, &least)?;
        Ok(self.weigh(&h[0], &h[0], 0.0))
    }
}

fn add(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 + b.0, a.1 + b.1)
}

#[cfg(test)]
mod tests {
    use super::super::theorem::search;
    use super::*;
    use crate::certificate::bracket;
    use crate::{Design, Memory, Prior};
    use certus_likelihood::{Likelihood, Logistic, Poisson};

    /// Rows that are made again for every pass give the bits of rows that are kept: f, its error, and every number of
    /// every bound.
    #[test]
    fn streamed_rows_give_the_same_bits() {
        let (n, d) = (2500, 3);
        let wave = |k: usize| (k as f64 * 1.3).sin() + (k as f64 * 0.37).cos();
        let rows = Arc::new(Memory {
            x: (0..n * d).map(wave).collect(),
            y: (0..n).map(|i| f64::from(u8::from(wave(3 * i + 7) > 0.4))).collect(),
            offset: (0..n).map(|i| 0.1 * wave(i)).collect(),
            weight: (0..n).map(|i| 1.0 + 0.5 * wave(i).abs()).collect(),
            columns: d,
            ..Memory::default()
        });
        let likelihoods: [Arc<dyn Likelihood>; 2] = [Arc::new(Logistic), Arc::new(Poisson)];
        for likelihood in likelihoods {
            let prior = Prior::independent(vec![0.1; d + 1], &[1.5; 4]).expect("a prior");
            let design = Design::standardised(rows.clone(), true).expect("finite");
            let model = Glm::new(design, likelihood, prior).expect("a model");
            let w = crate::laplace(&model).expect("a mode").gaussian;
            let said = |most: usize| {
                let placed = || Placed::keeping(&model, &w, most).expect("finite");
                assert_eq!(placed().is_streamed(), most < 8 * n);
                let value = bracket::losses_of(&placed()).expect("finite");
                let at = Dense::over(placed(), &w, None).expect("finite");
                let found = search(&at).expect("finite").found;
                assert!(!found.is_empty());
                format!("{value:?} {found:?} {:?}", everywhere(&at))
            };
            let everything = said(1 << 25);
            // nothing kept, and Ã alone
            assert_eq!(everything, said(0));
            assert_eq!(everything, said(4 * n));
        }
    }

    fn everywhere(at: &Dense<'_>) -> Vec<Option<LocalConvexity>> {
        let mut convexities = at.convexities(0.3, 1.5, &THETAS).expect("finite");
        convexities.push(at.everywhere().expect("finite"));
        convexities
    }
}
