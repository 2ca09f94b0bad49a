//! The exact solver: minimises the negative ELBO over all Gaussians without sampling, by Newton-CG in the frame of the
//! iterate (docs/maths.md, "Exact mode"), as `step` on a saveable state.

use certus::factor::{Factor, Lower};
use certus::{Gaussian, linalg};

use crate::design::DesignLeaf;
use crate::error::{Error, NotFinite};
use crate::expectation::Quadrature;
use crate::glm::{Glm, add_columns, predictors};
use crate::matrix::{Matrix, add_lower_gram, product, product_with_factor, view};
use crate::newton::{ExactState, NOISE, Newton, dot};
use crate::rows::{most, own_rows};

/// Numbers kept per row: the mean of its predictor, E φ′ and E φ″(1, x, x²), weighted, and the predictor's sd.
pub(crate) const KEPT: usize = 6;

/// The gradient of f in the whitened frame of w: g_m = Cᵀ(J(m−μ₀) + Σ e₁ a), S = Cᵀ(J + Σ q₀ a aᵀ)C − I.
pub struct Whitened {
    /// g_m.
    pub mean: Vec<f64>,
    /// S, symmetric.
    pub factor: Vec<f64>,
    /// Per row: the `KEPT` numbers.
    rows: Vec<f64>,
    /// A C, leaf by leaf, if it is small enough to keep; else every product makes it again.
    whitened: Vec<f64>,
}

/// Numbers of A C worth keeping between Hessian-vector products (256 MB).
pub(crate) const KEEP: usize = 1 << 25;

impl Whitened {
    /// |g| = √(|g_m|² + |S|²).
    pub fn norm(&self) -> f64 {
        (dot(&self.mean, &self.mean) + dot(&self.factor, &self.factor)).sqrt()
    }
}

impl Glm {
    /// The state at a Gaussian with a dense factor.
    pub fn exact_start(&self, start: &Gaussian) -> Result<ExactState, Error> {
        ExactState::starting(lower(start)?, |w| self.neg_elbo(w))
    }

    /// f(w) = ½[(m−μ₀)ᵀJ(m−μ₀) + tr CᵀJC] + c₀ + Σ E φ − log det C − (d/2)(1 + log 2π), exact to rounding.
    pub fn neg_elbo(&self, w: &Gaussian) -> Result<f64, Error> {
        // two numbers of every row, and not the six of a gradient: a trial needs them while those of the last gradient
        // are kept
        Ok(self.expected_loss(&self.spreads::<2>(w)?)? + self.prior_energy(w) + w.neg_entropy())
    }

    /// Σ E φ over rows whose predictors have these means and sds.
    pub(crate) fn expected_loss(&self, spreads: &[f64]) -> Result<f64, Error> {
        let (quadrature, origin) = (self.rule::<2>(spreads)?, self.here().start);
        let sum = self.pool.sum(self.design.rows(), 1, &|leaf, scratch, out| {
            self.design.prepare(leaf, scratch, |leaf| {
                for i in 0..leaf.data.len() {
                    let [t, sd] = [0, 1].map(|k| spreads[(leaf.first - origin + i) * 2 + k]);
                    out[0] += leaf.weight[i] * quadrature.value(&*self.likelihood, t, sd, leaf.data[i]);
                }
            });
        })?;
        Ok(sum[0])
    }

    /// The rows that are here; what is kept per row is kept of these.
    pub(crate) fn here(&self) -> std::ops::Range<usize> {
        own_rows(self.design.rows())
    }

    /// E[−log prior].
    fn prior_energy(&self, w: &Gaussian) -> f64 {
        self.prior_energy_with_size(w).0
    }

    /// The same with the sum of the sizes of what is added, for rounding errors.
    pub(crate) fn prior_energy_with_size(&self, w: &Gaussian) -> (f64, f64) {
        let c = w.factor().to_dense();
        let dm: Vec<f64> = w.mean().iter().zip(self.prior.mean()).map(|(a, b)| a - b).collect();
        let mut jm = vec![0.0; dm.len()];
        self.prior.add_precision_times(&dm, &mut jm);
        let mut jc = vec![0.0; c.len()];
        self.prior.add_precision_times(&c, &mut jc);
        let sizes = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x * y).abs()).sum::<f64>();
        // m − μ₀ and J(m − μ₀) are rounded too
        let level: f64 = w
            .mean()
            .iter()
            .zip(self.prior.mean())
            .zip(&jm)
            .map(|((m, p), j)| (m.abs() + p.abs()) * j.abs())
            .sum();
        let size = sizes(&dm, &jm) + sizes(&c, &jc) + level + self.prior.constant().abs();
        (0.5 * (dot(&dm, &jm) + dot(&c, &jc)) + self.prior.constant(), size)
    }

    /// The mean of every row's predictor and, K − 1 places on, its sd.
    fn spreads<const K: usize>(&self, w: &Gaussian) -> Result<Vec<f64>, Error> {
        let (d, c) = (self.dim(), w.factor().to_dense());
        let c = view(&c, d, d);
        let mut rows = vec![0.0; K * self.here().len()];
        self.pool.map(self.design.rows(), K, &mut rows, &|leaf, scratch, out| {
            self.design.prepare(leaf, scratch, |leaf| {
                let n = leaf.data.len();
                let mut work = self.pool.buffer(n * d + n);
                let (whitened, t) = work.split_at_mut(n * d);
                whiten(&leaf, c, is_lower(w), whitened);
                predictors(&leaf, w.mean(), t);
                for i in 0..n {
                    let square: f64 = whitened.iter().skip(i).step_by(n).map(|x| x * x).sum();
                    out[i * K] = t[i];
                    out[i * K + K - 1] = square.sqrt();
                }
                self.pool.give(work);
            });
        })?;
        Ok(rows)
    }

    /// The rule that integrates over predictors with these means and sds.
    fn rule<const K: usize>(&self, rows: &[f64]) -> Result<Quadrature, Error> {
        let largest = rows.iter().skip(K - 1).step_by(K).fold(0.0_f64, |a, b| a.max(*b));
        let bad = !largest.is_finite() || rows.iter().step_by(K).any(|t| !t.is_finite());
        let mut both = [largest, f64::from(u8::from(bad))];
        most(self.design.rows(), &mut both);
        let [largest, bad] = both;
        if bad > 0.0 {
            return Err(NotFinite::Quantity { what: "a linear predictor" }.into());
        }
        Quadrature::within_reason(self.likelihood.strip(), largest)
    }

    /// The kept numbers of every row, from the means and sds of their predictors.
    pub(crate) fn row_moments(&self, mut rows: Vec<f64>) -> Result<Vec<f64>, Error> {
        let quadrature = self.rule::<KEPT>(&rows)?;
        self.pool.map(self.design.rows(), KEPT, &mut rows, &|leaf, scratch, out| {
            self.design.prepare(leaf, scratch, |leaf| {
                for i in 0..leaf.data.len() {
                    let row = &mut out[i * KEPT..][..KEPT];
                    let m = quadrature.slopes(&*self.likelihood, row[0], row[5], leaf.data[i]);
                    let v = leaf.weight[i];
                    row[1..5].copy_from_slice(&[v * m.e1, v * m.q0, v * m.q1, v * m.q2]);
                }
            });
        })?;
        Ok(rows)
    }

    /// About what rounding does to Σ E φ, from the kept numbers of every row: losses are of the size of their scale
    /// times that of t.
    pub(crate) fn noise(&self, rows: &[f64]) -> Result<f64, Error> {
        let origin = self.here().start;
        let sum = self.pool.sum(self.design.rows(), 1, &|leaf, scratch, out| {
            self.design.prepare(leaf, scratch, |leaf| {
                for i in 0..leaf.data.len() {
                    let row = &rows[KEPT * (leaf.first - origin + i)..][..KEPT];
                    let size = self.likelihood.scale(row[0], row[5], leaf.data[i]);
                    out[0] += leaf.weight[i] * size * (1.0 + row[0].abs() + row[5]);
                }
            });
        })?;
        Ok(NOISE * sum[0])
    }

    /// The exact gradient of f at w in w's own frame.
    pub fn whitened_gradient(&self, w: &Gaussian) -> Result<Whitened, Error> {
        let d = self.dim();
        let rows = self.row_moments(self.spreads::<KEPT>(w)?)?;
        let here = self.here();
        let mut sums = self.pool.sum(self.design.rows(), d + d * d, &|leaf, scratch, out| {
            self.design.prepare(leaf, scratch, |leaf| {
                let n = leaf.data.len();
                let kept = &rows[KEPT * (leaf.first - here.start)..][..KEPT * n];
                let mut work = self.pool.buffer(2 * n);
                let (e1, q0) = work.split_at_mut(n);
                for i in 0..n {
                    (e1[i], q0[i]) = (kept[i * KEPT + 1], kept[i * KEPT + 2]);
                }
                let (gradient, gram) = out.split_at_mut(d);
                add_columns(gradient, leaf.a, e1);
                self.add_gram(leaf.a, q0, gram);
                self.pool.give(work);
            });
        })?;
        let dm: Vec<f64> = w.mean().iter().zip(self.prior.mean()).map(|(a, b)| a - b).collect();
        self.prior.add_precision_times(&dm, &mut sums[..d]);
        let mut mean = vec![0.0; d];
        w.factor().add_apply_transpose(&sums[..d], &mut mean);
        let (c, mut hessian) = (w.factor().to_dense(), sums.split_off(d));
        self.pool.give(sums);
        linalg::mirror(&mut hessian, d);
        self.prior.add_to(&mut hessian);
        let mut factor = congruent(&hessian, &c, is_lower(w), d);
        factor.iter_mut().step_by(d + 1).for_each(|x| *x -= 1.0);
        let mut whitened = Vec::new();
        if here.len() * d <= KEEP {
            whitened.resize(here.len() * d, 0.0);
            let c = view(&c, d, d);
            self.pool.map(self.design.rows(), d, &mut whitened, &|leaf, scratch, out| {
                self.design.prepare(leaf, scratch, |leaf| whiten(&leaf, c, is_lower(w), out));
            })?;
        }
        Ok(Whitened { mean, factor, rows, whitened })
    }

    /// The Hessian of f at w applied to (dm, dC), in the whitened frame (Lemma B). With Σ q₀ããᵀ + J̃ = S + I it is
    /// ((S + I)dm + Σ q₁β ã, sym((S + I)dC) + Σ (v/s) ããᵀ + dC), β = ãᵀdC ã/s, v = q₁α + (q₂ − q₀)β, so that the rows
    /// are needed for one product with dC and one weighted Gram matrix only.
    fn hessian_times(
        &self,
        w: &Gaussian,
        g: &Whitened,
        dm: &[f64],
        dc: &[f64],
        out_mean: &mut [f64],
        out_factor: &mut [f64],
    ) -> Result<(), Error> {
        let (d, origin) = (self.dim(), self.here().start);
        let c = if g.whitened.is_empty() { w.factor().to_dense() } else { vec![0.0; d * d] };
        let (c, dcv) = (view(&c, d, d), view(dc, d, d));
        let sums = self.pool.sum(self.design.rows(), d + d * d, &|leaf, scratch, out| {
            let n = leaf.y.len();
            let first = leaf.first - origin;
            let kept = &g.rows[KEPT * first..][..KEPT * n];
            let mut made = Vec::new();
            let at = if g.whitened.is_empty() {
                made = self.pool.buffer(n * d);
                self.design.prepare(leaf, scratch, |leaf| whiten(&leaf, c, is_lower(w), &mut made));
                &made[..]
            } else {
                &g.whitened[first * d..][..n * d]
            };
            let mut work = self.pool.buffer(n * d + 2 * n);
            let (turned, rest) = work.split_at_mut(n * d);
            let (alpha, beta) = rest.split_at_mut(n);
            let matrix = view(at, n, d);
            product(turned, matrix, dcv);
            for ((x, y), dm) in at.chunks_exact(n).zip(turned.chunks_exact(n)).zip(dm) {
                for i in 0..n {
                    alpha[i] += x[i] * dm;
                    beta[i] += x[i] * y[i];
                }
            }
            for i in 0..n {
                let row = &kept[i * KEPT..][..KEPT];
                let (q0, q1, q2, sd) = (row[2], row[3], row[4], row[5]);
                let per_sd = if sd > 0.0 { 1.0 / sd } else { 0.0 };
                let (a, b) = (alpha[i], beta[i] * per_sd);
                alpha[i] = q1 * b;
                beta[i] = (q1 * a + (q2 - q0) * b) * per_sd;
            }
            for (x, y) in at.chunks_exact(n).zip(turned.chunks_exact_mut(n)) {
                for i in 0..n {
                    y[i] = beta[i] * x[i];
                }
            }
            let (mean, square) = out.split_at_mut(d);
            add_columns(mean, matrix, alpha);
            add_lower_gram(square, matrix, view(turned, n, d));
            self.pool.give(work);
            self.pool.give(made);
        })?;
        out_mean.copy_from_slice(dm);
        out_mean.iter_mut().zip(&sums).for_each(|(o, s)| *o += s);
        linalg::add_square_times(&g.factor, d, false, dm, out_mean);
        let mut full = dc.to_vec();
        linalg::add_square_times(&g.factor, d, false, dc, &mut full);
        for j in 0..d {
            for i in 0..d {
                let gram = sums[d + i.min(j) * d + i.max(j)];
                out_factor[j * d + i] = 0.5 * (full[j * d + i] + full[i * d + j]) + gram + dc[j * d + i];
            }
        }
        self.pool.give(sums);
        Ok(())
    }

    /// One Newton-CG step with a line search on the exact f.
    pub fn exact_step(&self, state: &mut ExactState) -> Result<(), Error> {
        let w = state.gaussian.clone();
        let gradient = self.whitened_gradient(&w)?;
        let descent = gradient.mean.iter().chain(&gradient.factor).map(|v| -v).collect();
        state.advance(&Here { model: self, w, gradient, descent })
    }

    /// From the Laplace approximation to the optimum.
    pub fn solve_exactly(&self) -> Result<ExactState, Error> {
        let start = crate::laplace::laplace(self)?;
        self.exact_start(&start.gaussian)?.run(|state| self.exact_step(state))
    }
}

/// A model at an iterate, for one step.
struct Here<'a> {
    model: &'a Glm,
    w: Gaussian,
    gradient: Whitened,
    descent: Vec<f64>,
}

impl Newton for Here<'_> {
    fn descent(&self) -> &[f64] {
        &self.descent
    }

    /// diag(1, 2) is the Hessian of a Gaussian posterior.
    fn weight(&self, i: usize) -> f64 {
        if i < self.w.dim() { 1.0 } else { 0.5 }
    }

    fn hessian_times(&self, p: &[f64], out: &mut [f64]) -> Result<(), Error> {
        let ((dm, dc), (mean, factor)) = (p.split_at(self.w.dim()), out.split_at_mut(self.w.dim()));
        self.model.hessian_times(&self.w, &self.gradient, dm, dc, mean, factor)
    }

    fn longest_step(&self, direction: &[f64]) -> f64 {
        feasible_step(&direction[self.w.dim()..], self.w.dim())
    }

    fn at(&self) -> &Gaussian {
        &self.w
    }

    fn moved(&self, direction: &[f64], tau: f64) -> Result<Gaussian, Error> {
        let (dm, dc) = direction.split_at(self.w.dim());
        moved(&self.w, dm, dc, tau)
    }

    fn value(&self, w: &Gaussian) -> Result<f64, Error> {
        self.model.neg_elbo(w)
    }

    fn noise(&self) -> Result<f64, Error> {
        self.model.noise(&self.gradient.rows)
    }
}

/// Cᵀ M C, symmetric to the bit.
pub(crate) fn congruent(matrix: &[f64], c: &[f64], lower: bool, d: usize) -> Vec<f64> {
    let mut mc = vec![0.0; d * d];
    linalg::add_square_times(matrix, d, false, c, &mut mc);
    linalg::congruent(c, lower, &mc, d)
}

pub(crate) fn is_lower(w: &Gaussian) -> bool {
    !matches!(w.factor(), Factor::Symmetric(_))
}

/// A C for one leaf.
pub(crate) fn whiten(leaf: &DesignLeaf<'_>, c: Matrix<'_>, lower: bool, out: &mut [f64]) {
    product_with_factor(out, leaf.a, c, lower);
}

/// The largest τ ≤ 1 of the form 2⁻ᵏ with I + τ dC ≥ 0.1 I.
fn feasible_step(dc: &[f64], d: usize) -> f64 {
    let mut tau = 1.0;
    loop {
        let mut shifted: Vec<f64> = dc.iter().map(|x| tau * x).collect();
        shifted.iter_mut().step_by(d + 1).for_each(|x| *x += 0.9);
        if linalg::cholesky(&mut shifted, d) || tau < 1e-12 {
            return tau;
        }
        tau *= 0.5;
    }
}

/// (m + τ C dm, C(I + τ dC)), its factor made lower triangular again.
fn moved(w: &Gaussian, dm: &[f64], dc: &[f64], tau: f64) -> Result<Gaussian, Error> {
    let d = w.dim();
    let mut shift = vec![0.0; d];
    w.factor().add_apply(dm, &mut shift);
    let mean = w.mean().iter().zip(&shift).map(|(m, s)| m + tau * s).collect();
    let mut inner: Vec<f64> = dc.iter().map(|x| tau * x).collect();
    inner.iter_mut().step_by(d + 1).for_each(|x| *x += 1.0);
    let mut product = vec![0.0; d * d];
    w.factor().add_apply(&inner, &mut product);
    let factor = Lower::new(d, linalg::lower_of_same_covariance(&product, d))?;
    Ok(Gaussian::new(mean, Factor::Lower(factor))?)
}

pub(crate) fn lower(w: &Gaussian) -> Result<Gaussian, Error> {
    if let Factor::Lower(_) = w.factor() {
        return Ok(w.clone());
    }
    let d = w.dim();
    let factor = Lower::new(d, linalg::lower_of_same_covariance(&w.factor().to_dense(), d))?;
    Ok(Gaussian::new(w.mean().to_vec(), Factor::Lower(factor))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Design, Memory, Prior};
    use certus_likelihood::Logistic;
    use std::sync::Arc;

    /// The product is the same whether A C is kept or made again, and it is the Hessian: against differences of the
    /// gradient.
    #[test]
    fn hessian_vector_products() {
        let (n, d) = (50, 3);
        let wave = |k: usize| (k as f64 * 1.7).sin();
        let memory = Memory {
            x: (0..n * d).map(wave).collect(),
            y: (0..n).map(|i| (i % 3 == 0).into()).map(|b: u8| f64::from(b)).collect(),
            columns: d,
            ..Memory::default()
        };
        let prior = Prior::independent(vec![0.0; d], &[1.0; 3]).expect("a prior");
        let model =
            Glm::new(Design::new(Arc::new(memory), false), Arc::new(Logistic), prior).expect("a model");
        let w = crate::laplace(&model).expect("a mode").gaussian;
        let mut g = model.whitened_gradient(&w).expect("a gradient");
        let dm = [0.3, -0.2, 0.5];
        let mut dc: Vec<f64> = (0..9).map(|k| 0.3 * wave(k + 5)).collect();
        linalg::mirror(&mut dc, d);
        let apply = |g: &Whitened| {
            let (mut mean, mut factor) = (vec![0.0; d], vec![0.0; d * d]);
            model.hessian_times(&w, g, &dm, &dc, &mut mean, &mut factor).expect("a product");
            [mean, factor].concat()
        };
        let kept = apply(&g);
        g.whitened.clear();
        assert_eq!(apply(&g), kept);
        // second difference of f along the segment: dᵀHd
        let f = |t: f64| model.neg_elbo(&moved(&w, &dm, &dc, t).expect("proper")).expect("finite");
        let h = 1e-3;
        let second = (f(h) - 2.0 * f(0.0) + f(-h)) / (h * h);
        let form = dot(&kept[..d], &dm) + dot(&kept[d..], &dc);
        assert!((second / form - 1.0).abs() < 1e-5, "{second} against {form}");
    }
}
