//! μ and M of −log p from one pass: μ = λ_min(J + Σ θ_min a aᵀ), M = λ_max(J + Σ θ_max a aᵀ) (A1: θ_max there, not
//! θ_min; A4: of the d × d matrix, so that fewer rows than coefficients give no curvature), rounded outward.

use certus::Curvature;
use certus::linalg;

use super::Glm;
use crate::error::{Error, InvalidData};
use certus_likelihood::internals::vouched_by;

/// d² beyond which M is bounded by row norms instead of eigenvalues (about 1 GB of partial sums).
const DENSE: usize = 1 << 24;

/// The curvature of a model, or `None` where φ″ is not bounded (Poisson).
pub(crate) fn of(model: &Glm) -> Result<Option<Curvature>, Error> {
    let d = model.dim();
    if d * d > DENSE {
        return cheap(model);
    }
    let Some((least, most)) = extremes(model)? else { return Ok(None) };
    let (mu, _) = bracket(&least, d)?;
    let (_, m) = bracket(&most, d)?;
    Ok(Some(Curvature::new(mu.max(0.0).min(m), m, vouched_by(&*model.likelihood))?))
}

/// What summation of rows, about (log₂ N + rows of a block) ulp, and an eigenvalue iteration, c·d ulp, may lose of the
/// norm.
pub(crate) fn ulps(d: usize) -> f64 {
    64.0 * (d + 16) as f64 * f64::EPSILON
}

/// Extreme eigenvalues of a matrix that was summed over rows, rounded outward.
pub(crate) fn bracket(matrix: &[f64], d: usize) -> Result<(f64, f64), Error> {
    let (low, high) = linalg::extreme_eigenvalues(matrix, d).ok_or(InvalidData::Curvature)?;
    let slack = ulps(d) * high.abs().max(low.abs());
    Ok((low - slack, high + slack))
}

/// Two d × d matrices, a lower and an upper bound.
pub(crate) type Between = (Vec<f64>, Vec<f64>);

/// J + Σ θ_min a aᵀ ≤ ∇²φ ≤ J + Σ θ_max a aᵀ, both d × d matrices; `None` where φ″ is not bounded.
pub(crate) fn extremes(model: &Glm) -> Result<Option<Between>, Error> {
    let (d, likelihood) = (model.dim(), &*model.likelihood);
    let sums = model.pool.sum(model.design.rows(), 1 + 2 * d * d, &|leaf, scratch, out| {
        model.design.prepare(leaf, scratch, |leaf| {
            let n = leaf.data.len();
            let mut work = model.pool.buffer(2 * n);
            let (least, most) = work.split_at_mut(n);
            for i in 0..n {
                least[i] = leaf.weight[i] * likelihood.second_derivative_min(leaf.data[i]);
                let bound = likelihood.second_derivative_max(leaf.data[i]);
                out[0] += f64::from(u8::from(bound.is_none()));
                most[i] = leaf.weight[i] * bound.unwrap_or(0.0);
            }
            let (low, high) = out[1..].split_at_mut(d * d);
            if least.iter().any(|x| *x > 0.0) {
                model.add_gram(leaf.a, least, low);
            }
            model.add_gram(leaf.a, most, high);
            model.pool.give(work);
        });
    })?;
    if sums[0] > 0.0 {
        return Ok(None);
    }
    let with_prior = |matrix: &[f64]| {
        let mut matrix = matrix.to_vec();
        linalg::mirror(&mut matrix, d);
        model.prior.add_to(&mut matrix);
        matrix
    };
    Ok(Some((with_prior(&sums[1..][..d * d]), with_prior(&sums[1 + d * d..]))))
}

/// M ≤ λ_max(J) + Σ θ_max |a|² for very large d: valid, cheap, loose; μ from the prior alone.
fn cheap(model: &Glm) -> Result<Option<Curvature>, Error> {
    let likelihood = &*model.likelihood;
    let sums = model.pool.sum(model.design.rows(), 2, &|leaf, scratch, out| {
        model.design.prepare(leaf, scratch, |leaf| {
            for i in 0..leaf.data.len() {
                let norm: f64 = (0..leaf.a.ncols()).map(|j| leaf.a[(i, j)] * leaf.a[(i, j)]).sum();
                match likelihood.second_derivative_max(leaf.data[i]) {
                    Some(most) => out[1] += leaf.weight[i] * most * norm,
                    None => out[0] += 1.0,
                }
            }
        });
    })?;
    if sums[0] > 0.0 {
        return Ok(None);
    }
    let (low, high) = match model.prior.precision() {
        certus_likelihood::prior::Precision::Diagonal(j) => {
            j.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), x| (a.min(*x), b.max(*x)))
        }
        // Gershgorin from above; nothing is claimed from below
        certus_likelihood::prior::Precision::Dense(j) => {
            (0.0, j.chunks_exact(model.dim()).map(|c| c.iter().map(|x| x.abs()).sum()).fold(0.0, f64::max))
        }
    };
    let m = (high + sums[1]) * (1.0 + 1e-9);
    Ok(Some(Curvature::new(low.min(m), m, vouched_by(likelihood))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Design, Memory, Prior};
    use certus_likelihood::{Logistic, Poisson};
    use std::sync::Arc;

    /// The cheap bounds hold wherever the eigenvalues do, and an unbounded φ″ gives none.
    #[test]
    fn cheap_bounds_are_valid() {
        let rows = Arc::new(Memory {
            x: (0..60).map(|k| (k as f64 * 0.7).sin()).collect(),
            y: (0..20).map(|i| f64::from(i % 2)).collect(),
            columns: 3,
            ..Memory::default()
        });
        let dense = vec![2.0, 0.5, 0.0, 0.5, 1.0, -0.3, 0.0, -0.3, 3.0];
        for prior in [
            Prior::independent(vec![0.0; 3], &[0.5, 1.0, 2.0]).expect("a prior"),
            Prior::with_precision(vec![0.0; 3], dense).expect("a prior"),
        ] {
            let model = Glm::new(Design::new(rows.clone(), false), Arc::new(Logistic), prior.clone())
                .expect("a model");
            let (exact, cheap) = (
                of(&model).expect("finite").expect("bounded"),
                cheap(&model).expect("finite").expect("bounded"),
            );
            assert!(cheap.smoothness() >= exact.smoothness(), "{cheap:?} {exact:?}");
            assert!(cheap.strong_convexity() <= exact.strong_convexity() + 1e-9, "{cheap:?} {exact:?}");
            let counts =
                Glm::new(Design::new(rows.clone(), false), Arc::new(Poisson), prior).expect("a model");
            assert!(super::cheap(&counts).expect("finite").is_none());
        }
    }
}
