//! μ and M of −log p from one pass: μ = λ_min(J + Σ θ_min a aᵀ), M = λ_max(J + Σ θ_max a aᵀ) (A1: θ_max there, not θ_min; A4: of
//! the d × d matrix, so that fewer rows than coefficients give no curvature), rounded outward.

use certus::linalg;
use certus::{Curvature, Provenance};

use crate::error::Error;
use crate::glm::Glm;

/// d² beyond which M is bounded by row norms instead of eigenvalues (about 1 GB of partial sums).
const DENSE: usize = 1 << 24;

/// The curvature of a model, or `None` where φ″ is not bounded (Poisson).
pub(crate) fn of(model: &Glm) -> Result<Option<Curvature>, Error> {
    let d = model.dim();
    let likelihood = &*model.likelihood;
    if d * d > DENSE {
        return cheap(model);
    }
    let sums = model.pool.sum(model.design.rows(), 1 + 2 * d * d, &|leaf, scratch, out| {
        model.design.prepare(leaf, scratch, |leaf| {
            let n = leaf.data.len();
            let mut work = model.pool.buffer(2 * n);
            let (least, most) = work.split_at_mut(n);
            for i in 0..n {
                least[i] = leaf.weight[i] * likelihood.least_bend(leaf.data[i]);
                let bound = likelihood.most_bend(leaf.data[i]);
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
    // Summation errs by at most about (log₂ N + rows of a block) ulp, the eigenvalues by c·d ulp, both of the norm.
    let bracket = |matrix: &[f64]| {
        let mut matrix = matrix.to_vec();
        linalg::mirror(&mut matrix, d);
        model.prior.add_to(&mut matrix);
        let (low, high) = linalg::extreme_eigenvalues(&matrix, d)
            .ok_or_else(|| Error::Data("the Gram matrix of the features is not finite".into()))?;
        let slack = 64.0 * (d + 16) as f64 * f64::EPSILON * high;
        Ok::<_, Error>(((low - slack).max(0.0), high + slack))
    };
    let (mu, _) = bracket(&sums[1..][..d * d])?;
    let (_, m) = bracket(&sums[1 + d * d..])?;
    Ok(Some(Curvature::new(mu.min(m), m, Provenance::ByModel)?))
}

/// M ≤ λ_max(J) + Σ θ_max |a|² for very large d: valid, cheap, loose; μ from the prior alone.
fn cheap(model: &Glm) -> Result<Option<Curvature>, Error> {
    let likelihood = &*model.likelihood;
    let sums = model.pool.sum(model.design.rows(), 2, &|leaf, scratch, out| {
        model.design.prepare(leaf, scratch, |leaf| {
            for i in 0..leaf.data.len() {
                let norm: f64 = (0..leaf.a.ncols()).map(|j| leaf.a[(i, j)] * leaf.a[(i, j)]).sum();
                match likelihood.most_bend(leaf.data[i]) {
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
        crate::prior::Precision::Diagonal(j) => {
            j.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), x| (a.min(*x), b.max(*x)))
        }
        // Gershgorin from above; nothing is claimed from below
        crate::prior::Precision::Dense(j) => {
            (0.0, j.chunks_exact(model.dim()).map(|c| c.iter().map(|x| x.abs()).sum()).fold(0.0, f64::max))
        }
    };
    let m = (high + sums[1]) * (1.0 + 1e-9);
    Ok(Some(Curvature::new(low.min(m), m, Provenance::ByModel)?))
}
