//! The frame z = m + Cu of an envelope: ψ(u) = −log p(m + Cu) at its centre, and lower bounds of its curvature along
//! rays.

use certus::factor::{Factor, Lower};
use certus::{Gaussian, Target, linalg};

use crate::error::Error;
use crate::exact::whiten;
use crate::glm::curvature::{bracket, ulps};
use crate::glm::{Glm, predictors};
use crate::matrix::{add_product, view};
use crate::newton::dot;

/// Largest number of products a_i a_j for which the bound on rays is made (d ≤ 31).
const PRODUCTS: usize = 500;

/// A centre and a factor, scaled so that λ_min(∇²ψ(0)) is 1, with what the envelope starts from.
pub(crate) struct EnvelopeFrame<'a> {
    pub(super) model: &'a Glm,
    pub(crate) gaussian: Gaussian,
    /// ψ(0).
    pub(crate) value: f64,
    /// ε₀ ≥ |∇ψ(0)|.
    pub(crate) slope: f64,
    /// What rounding may do to ψ where losses are large and cancel (counts of 10¹³): 64 ulp of the sizes that it is a
    /// sum of.
    pub(crate) rounding: f64,
    /// CᵀJC.
    prior: Vec<f64>,
    rays: Option<Rays>,
}

/// Constants of the bound on rays.
#[derive(Clone, Copy, Debug)]
struct Rays {
    /// j ≤ λ_min(CᵀJC).
    prior: f64,
    /// λ_min(∇²ψ(0)) − j.
    data: f64,
    /// T ≥ |Σ w φ″ a (ãᵀθ)³| for every unit vector θ.
    cubic: f64,
    /// Q ≥ Σ w φ″ c (ãᵀθ)⁴.
    quartic: f64,
}

impl Rays {
    /// j + W e^{−(sT + s²Q/2)/W}, a lower bound of the curvature of s ↦ ψ(sθ) (math: D6, rays).
    fn curvature(&self, s: f64) -> f64 {
        if self.data <= 0.0 {
            return self.prior;
        }
        let drop = (s * self.cubic + 0.5 * s * s * self.quartic) / self.data;
        self.prior + self.data * (-drop).exp() * (1.0 - 1e-13)
    }
}

impl<'a> EnvelopeFrame<'a> {
    /// Around `mean` with the lower-triangular `factor`, which is scaled. `None` if ∇²ψ(0) is singular to rounding.
    pub(crate) fn new(model: &'a Glm, mean: &[f64], factor: &Factor) -> Result<Option<Self>, Error> {
        let d = model.dim();
        let mut c = factor.to_dense();
        let first = Self {
            model,
            gaussian: made(mean, c.clone())?,
            value: 0.0,
            slope: 0.0,
            rounding: 0.0,
            prior: model.prior.congruent(&c, true),
            rays: None,
        };
        let least = first.curvature_at(&[0.0])?[0];
        if !(least > 0.0 && least.is_finite()) {
            return Ok(None);
        }
        c.iter_mut().for_each(|x| *x /= least.sqrt());
        let mut frame =
            Self { gaussian: made(mean, c.clone())?, prior: model.prior.congruent(&c, true), ..first };
        let (mut value, mut gradient) = ([0.0], vec![0.0; d]);
        model.log_density(mean, &mut value, &mut gradient).map_err(certus::Error::Target)?;
        frame.value = -value[0];
        (frame.slope, frame.rounding) = frame.gradient_norm(&gradient)?;
        frame.rays = frame.rays()?;
        Ok(Some(frame))
    }

    /// |∇ψ(0)| = |Cᵀ∇φ(m)|, plus what summation may have lost: a few (d + 16) ulp of Σ|w φ′||ã| and of the prior's
    /// terms, and what the rounding of t does to φ′, a few ulp of the scale of φ times |t|; with the rounding of ψ(0)
    /// itself.
    fn gradient_norm(&self, gradient: &[f64]) -> Result<(f64, f64), Error> {
        let (model, d, w) = (self.model, self.model.dim(), &self.gaussian);
        let c = w.factor().to_dense();
        let sizes = self.sum(3, &|leaf, whitened, t, out| {
            let n = leaf.data.len();
            for i in 0..n {
                let (slope, length) =
                    (model.likelihood.first_derivative(t[i], leaf.data[i]), row_norm(whitened, i, n));
                let size = model.likelihood.scale(t[i], 0.0, leaf.data[i]) * (1.0 + t[i].abs());
                out[0] += leaf.weight[i] * slope.abs() * length;
                out[1] += leaf.weight[i] * size;
                out[2] += leaf.weight[i] * size * length;
            }
        })?;
        let dm: Vec<f64> = w.mean().iter().zip(model.prior.mean()).map(|(a, b)| a - b).collect();
        let mut pull = vec![0.0; d];
        model.prior.add_precision_times(&dm, &mut pull);
        let pulled: f64 = (0..d * d).map(|k| (c[k] * pull[k % d]).abs()).sum();
        let mut turned = vec![0.0; d];
        w.factor().add_apply_transpose(gradient, &mut turned);
        let ulp = f64::EPSILON;
        let slope = dot(&turned, &turned).sqrt() * (1.0 + 1e-12) + ulps(d) * (sizes[0] + pulled);
        Ok((slope + 8.0 * ulp * sizes[2], 64.0 * ulp * sizes[1]))
    }

    /// k at each radius: the better of the bound on balls and the bound on rays; both fall with the radius.
    pub(super) fn curvature(&self, radii: &[f64]) -> Result<Vec<f64>, Error> {
        let k = self.curvature_at(radii)?;
        Ok(k.into_iter().zip(radii).map(|(k, s)| self.along_rays(k, *s)).collect())
    }

    /// The better of a bound k on the ball of radius s and the bound on rays there.
    pub(crate) fn along_rays(&self, k: f64, s: f64) -> f64 {
        self.rays.as_ref().map_or(k, |rays| k.max(rays.curvature(s)))
    }

    /// λ_min(Cᵀ J_R C) for each R, rounded down (math: D6).
    fn curvature_at(&self, radii: &[f64]) -> Result<Vec<f64>, Error> {
        let d = self.model.dim();
        self.on_balls(radii)?.iter().map(|matrix| bracket(matrix, d).map(|(low, _)| low)).collect()
    }

    /// Cᵀ J_R C with J_R = J + Σ w c_n(R) a aᵀ for each R, c_n(R) ≤ φ″ within R|Cᵀa_n| of a_nᵀm + o_n (math: D6).
    pub(crate) fn on_balls(&self, radii: &[f64]) -> Result<Vec<Vec<f64>>, Error> {
        let (model, d) = (self.model, self.model.dim());
        let sums = self.sum(radii.len() * d * d, &|leaf, whitened, t, out| {
            let n = leaf.data.len();
            let mut work = model.pool.buffer(2 * n);
            let (norm, curvature) = work.split_at_mut(n);
            (0..n).for_each(|i| norm[i] = row_norm(whitened, i, n));
            let matrix = view(whitened, n, d);
            for (radius, gram) in radii.iter().zip(out.chunks_exact_mut(d * d)) {
                for i in 0..n {
                    curvature[i] = leaf.weight[i]
                        * model.likelihood.second_derivative_within(t[i], radius * norm[i], leaf.data[i]);
                }
                model.add_gram(matrix, curvature, gram);
            }
            model.pool.give(work);
        })?;
        let with_prior = |gram: &[f64]| {
            let mut matrix = gram.to_vec();
            linalg::mirror(&mut matrix, d);
            matrix.iter_mut().zip(&self.prior).for_each(|(m, j)| *m += j);
            matrix
        };
        Ok(sums.chunks_exact(d * d).map(with_prior).collect())
    }

    /// The constants of the bound on rays, where log φ″ has a known slope and curvature.
    fn rays(&self) -> Result<Option<Rays>, Error> {
        let (model, d) = (self.model, self.model.dim());
        let p = d * (d + 1) / 2;
        if p > PRODUCTS {
            return Ok(None);
        }
        let sums = self.sum(1 + d * d + d * p + p * p, &|leaf, whitened, t, out| {
            let n = leaf.data.len();
            let mut work = model.pool.buffer(2 * n + n * d + n * p);
            let (curvature, rest) = work.split_at_mut(n);
            let (fall, rest) = rest.split_at_mut(n);
            let (leaning, products) = rest.split_at_mut(n * d);
            leaning.copy_from_slice(whitened);
            for i in 0..n {
                curvature[i] = leaf.weight[i] * model.likelihood.second_derivative(t[i], leaf.data[i]);
                let Some((slope, drop)) = model.likelihood.log_second_derivative(t[i], leaf.data[i]) else {
                    out[0] += 1.0;
                    continue;
                };
                fall[i] = drop * curvature[i];
                leaning.iter_mut().skip(i).step_by(n).for_each(|x| *x *= slope * curvature[i]);
            }
            for (column, (i, j)) in products.chunks_exact_mut(n).zip(pairs(d)) {
                let scale = if i == j { 1.0 } else { 2f64.sqrt() };
                for r in 0..n {
                    column[r] = scale * whitened[i * n + r] * whitened[j * n + r];
                }
            }
            let (gram, rest) = out[1..].split_at_mut(d * d);
            let (third, fourth) = rest.split_at_mut(d * p);
            let products = view(products, n, p);
            let leaning = view(leaning, n, d);
            model.add_gram(view(whitened, n, d), curvature, gram);
            add_product(third, leaning.transpose(), products);
            model.add_gram(products, fall, fourth);
            model.pool.give(work);
        })?;
        if sums[0] > 0.0 {
            return Ok(None);
        }
        let (gram, rest) = sums[1..].split_at(d * d);
        let (third, fourth) = rest.split_at(d * p);
        let (mut hessian, mut fourth) = (gram.to_vec(), fourth.to_vec());
        linalg::mirror(&mut hessian, d);
        linalg::mirror(&mut fourth, p);
        hessian.iter_mut().zip(&self.prior).for_each(|(h, j)| *h += j);
        let prior = bracket(&self.prior, d)?.0.max(0.0);
        let data = bracket(&hessian, d)?.0 - prior;
        Ok(Some(Rays { prior, data, cubic: cubic(third, d)?, quartic: quartic(&fourth, d)? }))
    }

    /// Σ over leaves of `work(leaf, A C, t, out)`, t = A m + offset.
    fn sum(
        &self,
        length: usize,
        work: &(impl Fn(&crate::design::DesignLeaf<'_>, &[f64], &[f64], &mut [f64]) + Sync),
    ) -> Result<Vec<f64>, Error> {
        let (model, d) = (self.model, self.model.dim());
        let c = self.gaussian.factor().to_dense();
        model.pool.sum(model.design.rows(), length, &|leaf, scratch, out| {
            model.design.prepare(leaf, scratch, |leaf| {
                let n = leaf.data.len();
                let mut buffer = model.pool.buffer(n * d + n);
                let (whitened, t) = buffer.split_at_mut(n * d);
                whiten(&leaf, view(&c, d, d), true, whitened);
                predictors(&leaf, self.gaussian.mean(), t);
                work(&leaf, whitened, t, out);
                model.pool.give(buffer);
            });
        })
    }
}

fn made(mean: &[f64], factor: Vec<f64>) -> Result<Gaussian, Error> {
    Ok(Gaussian::new(mean.to_vec(), Factor::Lower(Lower::new(mean.len(), factor)?))?)
}

/// |ã_i| for row i of an n × d matrix.
fn row_norm(whitened: &[f64], i: usize, n: usize) -> f64 {
    whitened.iter().skip(i).step_by(n).map(|x| x * x).sum::<f64>().sqrt()
}

/// (i, j), i ≤ j.
fn pairs(d: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..d).flat_map(move |i| (i..d).map(move |j| (i, j)))
}

/// 1 on the pairs (i, i): I as a vector, in the orthonormal coordinates of symmetric matrices.
fn identity(d: usize) -> Vec<f64> {
    pairs(d).map(|(i, j)| f64::from(u8::from(i == j))).collect()
}

/// T ≥ θᵀB(θθᵀ) for unit vectors θ. ⟨I, θθᵀ⟩ = 1 and |θθᵀ| = 1, so σ_max(B − b Iᵀ) + |b| is a bound for every vector b;
/// multiples of B I are tried.
fn cubic(third: &[f64], d: usize) -> Result<f64, Error> {
    let unit = identity(d);
    let mut lean = vec![0.0; d];
    for (column, one) in third.chunks_exact(d).zip(&unit) {
        lean.iter_mut().zip(column).for_each(|(l, x)| *l += x * one / d as f64);
    }
    let length = dot(&lean, &lean).sqrt();
    let bound = |c: f64| -> Result<f64, Error> {
        let mut square = vec![0.0; d * d];
        for (column, one) in third.chunks_exact(d).zip(&unit) {
            let column: Vec<f64> = column.iter().zip(&lean).map(|(x, l)| x - c * l * one).collect();
            for j in 0..d {
                for i in 0..d {
                    square[j * d + i] += column[i] * column[j];
                }
            }
        }
        // the square root of the ulps lost in a sum of squares
        Ok(bracket(&square, d)?.1.max(0.0).sqrt() * (1.0 + ulps(d)) + c * length)
    };
    least(0.0, 2.0, &bound)
}

/// Q ≥ ⟨θθᵀ, 𝓜 θθᵀ⟩ for unit vectors θ: λ_max(𝓜 − c I Iᵀ) + c is a bound for every c.
fn quartic(fourth: &[f64], d: usize) -> Result<f64, Error> {
    let (unit, p) = (identity(d), d * (d + 1) / 2);
    let bound = |c: f64| -> Result<f64, Error> {
        let shifted: Vec<f64> = (0..p * p).map(|k| fourth[k] - c * unit[k % p] * unit[k / p]).collect();
        Ok((bracket(&shifted, p)?.1 + c).max(0.0))
    };
    let most = bound(0.0)?;
    least(0.0, most, &bound)
}

/// The least value met in a search of a convex function.
fn least(mut low: f64, mut high: f64, f: &impl Fn(f64) -> Result<f64, Error>) -> Result<f64, Error> {
    let mut found = f(low)?;
    for _ in 0..16 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        let (at_a, at_b) = (f(a)?, f(b)?);
        found = found.min(at_a).min(at_b);
        if at_a < at_b { high = b } else { low = a }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Design, Memory, Prior, laplace};
    use certus::random::{Purpose, Random};
    use certus_likelihood::{Binomial, Likelihood, Linear, Logistic, NegativeBinomial, Poisson, Probit};
    use std::sync::Arc;

    fn likelihoods() -> [Arc<dyn Likelihood>; 6] {
        [
            Arc::new(Linear::new(0.8).expect("valid")),
            Arc::new(Logistic),
            Arc::new(Poisson),
            Arc::new(Probit),
            Arc::new(NegativeBinomial::new(1.5).expect("valid")),
            Arc::new(Binomial),
        ]
    }

    fn model(likelihood: Arc<dyn Likelihood>, x: Vec<f64>, columns: usize, prior_sd: f64) -> Glm {
        let y = (0..x.len() / columns).map(|i| f64::from(u8::from(i % 3 != 1))).collect();
        let prior = Prior::independent(vec![0.0; columns], &vec![prior_sd; columns]).expect("a prior");
        let rows = Arc::new(Memory { x, y, columns, ..Memory::default() });
        Glm::new(Design::new(rows, false), likelihood, prior).expect("a model")
    }

    fn normals(stream: u64, n: usize) -> Vec<f64> {
        let mut out = vec![0.0; n];
        Random::new(6, Purpose::Simulate, 0).normals(stream, 0, n, &mut out);
        out
    }

    /// uᵀ∇²ψ(sθ)u.
    fn form(frame: &EnvelopeFrame<'_>, s: f64, theta: &[f64], u: &[f64]) -> f64 {
        let d = u.len();
        let w = &frame.gaussian;
        let at: Vec<f64> = theta.iter().map(|x| s * x).collect();
        let (mut z, mut cu) = (vec![0.0; d], vec![0.0; d]);
        w.transform(&at, &mut z);
        w.factor().add_apply(u, &mut cu);
        let hessian = frame.model.derivatives(&z).expect("finite").hessian;
        (0..d * d).map(|k| cu[k % d] * hessian[k] * cu[k / d]).sum()
    }

    /// Both bounds at random points, directions and radii: 0 violations of 6 · 600.
    #[test]
    fn curvature_lies_below_the_hessian() {
        for likelihood in likelihoods() {
            let d = 3;
            let model = model(likelihood, normals(1, 60 * d), d, 1.0);
            let mode = laplace(&model).expect("a mode").gaussian;
            let frame =
                EnvelopeFrame::new(&model, mode.mean(), mode.factor()).expect("finite").expect("convex");
            assert!((frame.curvature_at(&[0.0]).expect("finite")[0] - 1.0).abs() < 1e-9);
            assert!(frame.slope < 1e-6);
            for (k, s) in [0.0, 0.5, 2.0, 5.0, 9.0].into_iter().enumerate() {
                let ball = frame.curvature_at(&[s]).expect("finite")[0];
                let ray = frame.rays.map(|r| r.curvature(s));
                assert!(ray.is_some() != (model.likelihood().name() == "probit"));
                let draws = normals(10 + k as u64, 120 * 2 * d);
                for pair in draws.chunks_exact(2 * d) {
                    let unit = |v: &[f64]| -> Vec<f64> {
                        let norm = dot(v, v).sqrt();
                        v.iter().map(|x| x / norm).collect()
                    };
                    let (theta, u) = (unit(&pair[..d]), unit(&pair[d..]));
                    let anywhere = form(&frame, s, &theta, &u);
                    let along = form(&frame, s, &theta, &theta);
                    let name = model.likelihood().name();
                    assert!(ball <= anywhere * (1.0 + 1e-12), "{name} at {s}: {ball} > {anywhere}");
                    assert!(
                        ray.is_none_or(|r| r <= along * (1.0 + 1e-12)),
                        "{name} at {s}: {ray:?} > {along}"
                    );
                }
            }
        }
    }

    /// With one row and a weak prior the bound on balls is attained at an end, and Poisson's bound on rays too.
    #[test]
    fn curvature_is_attained() {
        for likelihood in likelihoods() {
            let model = model(likelihood, vec![1.3], 1, 4.0);
            let mode = laplace(&model).expect("a mode").gaussian;
            let frame =
                EnvelopeFrame::new(&model, mode.mean(), mode.factor()).expect("finite").expect("convex");
            for s in [0.5, 1.0, 3.0] {
                let ball = frame.curvature_at(&[s]).expect("finite")[0];
                let ends = form(&frame, s, &[1.0], &[1.0]).min(form(&frame, s, &[-1.0], &[1.0]));
                assert!(
                    (ball / ends - 1.0).abs() < 1e-11,
                    "{} at {s}: {ball} {ends}",
                    model.likelihood().name()
                );
                if model.likelihood().name() == "poisson" {
                    let ray = frame.rays.expect("known").curvature(s);
                    assert!((ray / ends - 1.0).abs() < 1e-11, "{ray} {ends}");
                }
            }
        }
    }

    /// The cubic and quartic forms of random tensors: bounds hold at random θ, and that of |θ|⁴-like forms is sharp.
    #[test]
    fn forms_are_bounded() {
        let d = 4;
        let p = d * (d + 1) / 2;
        let a = normals(30, 50 * d);
        let product = |v: &[f64], w: &[f64]| -> Vec<f64> {
            pairs(d).map(|(i, j)| if i == j { v[i] * w[i] } else { 2f64.sqrt() * v[i] * w[j] }).collect()
        };
        let (mut third, mut fourth) = (vec![0.0; d * p], vec![0.0; p * p]);
        for (k, a) in a.chunks_exact(d).enumerate() {
            let b = product(a, a);
            let weight = (k as f64).sin();
            (0..d * p).for_each(|k| third[k] += weight * a[k % d] * b[k / d]);
            (0..p * p).for_each(|k| fourth[k] += b[k % p] * b[k / p]);
        }
        let (t, q) = (cubic(&third, d).expect("finite"), quartic(&fourth, d).expect("finite"));
        let (mut most_t, mut most_q) = (0.0_f64, 0.0_f64);
        for theta in normals(31, 20_000 * d).chunks_exact(d) {
            let norm = dot(theta, theta).sqrt();
            let x = a.chunks_exact(d).map(|a| dot(a, theta) / norm);
            most_t = most_t
                .max(x.clone().enumerate().map(|(k, x)| (k as f64).sin() * x.powi(3)).sum::<f64>().abs());
            most_q = most_q.max(x.map(|x| x.powi(4)).sum());
        }
        assert!(most_t <= t && t <= 1.5 * most_t, "cubic: {most_t} {t}");
        assert!(most_q <= q && q <= 1.3 * most_q, "quartic: {most_q} {q}");
    }
}
