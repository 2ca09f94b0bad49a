//! How fast the residual S(u) = ∇φ(m + Cu) − C⁻ᵀu can change, from μ ≤ ∇²φ ≤ M alone (math: D2).

use crate::factor::{Factor, Pattern};
use crate::linalg;

/// ρ ≥ sup ‖HC − C⁻ᵀ‖ over μ ≤ H ≤ M, for triangular factors: K‖C‖ + ‖cC − C⁻ᵀ‖ with c, K = (M ± μ)/2.
///
/// No other c is better: moving it by t costs t‖C‖ in the first term and saves at most that in the second. It is an
/// equality for multiples of the identity.
pub(crate) fn of_residual(factor: &Factor, strong_convexity: f64, smoothness: f64) -> f64 {
    let centre = 0.5 * (smoothness + strong_convexity);
    let spread = 0.5 * (smoothness - strong_convexity);
    match factor {
        Factor::Pattern(c) => spread * sparse_norm(c, None, 1.0) + sparse_norm(c, Some(&c.inverse()), centre),
        dense => {
            let dim = dense.dim();
            let c = dense.to_dense();
            let mut tilt = vec![0.0; dim * dim];
            tilt.iter_mut().step_by(dim + 1).for_each(|x| *x = -1.0);
            linalg::solve_lower(&c, dim, true, &mut tilt);
            linalg::add_scaled(&mut tilt, centre, &c);
            spread * dense_norm(&c, dim) + dense_norm(&tilt, dim)
        }
    }
}

/// ‖A‖ = √λ_max(AᵀA), rounded up; never more than |A|_F.
fn dense_norm(a: &[f64], dim: usize) -> f64 {
    let mut square = vec![0.0; dim * dim];
    linalg::add_transpose_times(a, dim, false, a, &mut square);
    linalg::mirror(&mut square, dim);
    let largest = linalg::extreme_eigenvalues(&square, dim).map_or(f64::INFINITY, |(_, high)| high);
    let allowance = 1.0 + 64.0 * dim as f64 * f64::EPSILON;
    (largest.max(0.0).min(linalg::norm_squared(a)) * allowance).sqrt()
}

/// ‖sC − C⁻ᵀ‖ (or ‖sC‖) in one pass over the entries: at most |·|_F and √(largest row sum × largest column sum) (Schur's test).
fn sparse_norm(c: &Pattern, inverse: Option<&Pattern>, s: f64) -> f64 {
    let dim = c.dim();
    let (mut rows, mut columns, mut squares) = (vec![0.0; dim], vec![0.0; dim], 0.0);
    let mut add = |i: usize, j: usize, x: f64| {
        rows[i] += x.abs();
        columns[j] += x.abs();
        squares += x * x;
    };
    let below = inverse.is_some();
    c.for_each_entry(|i, j, x| match below && i == j {
        true => add(i, i, s * x - 1.0 / x),
        false => add(i, j, s * x),
    });
    if let Some(inverse) = inverse {
        inverse.for_each_entry(|i, j, x| {
            if i != j {
                add(j, i, x)
            }
        });
    }
    let largest = |sums: &[f64]| sums.iter().copied().fold(0.0, f64::max);
    let allowance = 1.0 + 64.0 * dim as f64 * f64::EPSILON;
    (largest(&rows) * largest(&columns)).min(squares).sqrt() * allowance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor::{Family, Tree};
    use crate::random::{Purpose, Random};
    use std::sync::Arc;

    fn normals(case: u64, n: usize) -> Vec<f64> {
        let mut out = vec![0.0; n];
        Random::new(3, Purpose::Simulate, 0).normals(case, 0, n, &mut out);
        out
    }

    fn families() -> Vec<Family> {
        let pattern = |tree: Tree| Family::Pattern(Arc::new(tree));
        let deep = Tree::new(&[1, 1, 2, 1, 1], &[None, Some(0), Some(1), Some(0), Some(3)]);
        vec![
            Family::Lower,
            pattern(Tree::diagonal(6).expect("legal")),
            pattern(Tree::arrow(2, &[1, 2, 1]).expect("legal")),
            pattern(deep.expect("legal")),
        ]
    }

    /// A random factor: proj_V of a few outer products, diagonal made positive.
    fn random_factor(family: &Family, case: u64, scale: f64) -> Factor {
        let mut factor = family.scaled_identity(6, 0.0);
        factor.add_outer(0.3 * scale, &normals(2 * case, 24), &normals(2 * case + 1, 24));
        factor.map_diagonal(&|x: f64| x.abs() + 0.3 * scale);
        factor
    }

    /// |HCx − C⁻ᵀx| for H = Σ h_k q_k q_kᵀ, q a rotation.
    fn change(factor: &Factor, x: &[f64], rotation: &[Vec<f64>], curvatures: &[f64]) -> f64 {
        let mut cx = vec![0.0; x.len()];
        factor.add_apply(x, &mut cx);
        let mut out = x.to_vec();
        assert!(factor.solve_transpose(&mut out, &mut Default::default()));
        out.iter_mut().for_each(|v| *v = -*v);
        for (q, h) in rotation.iter().zip(curvatures) {
            let t: f64 = q.iter().zip(&cx).map(|(a, b)| a * b).sum();
            out.iter_mut().zip(q).for_each(|(o, q)| *o += h * t * q);
        }
        linalg::norm_squared(&out).sqrt()
    }

    fn rotation(case: u64, d: usize) -> Vec<Vec<f64>> {
        let mut q: Vec<Vec<f64>> = Vec::new();
        for mut v in normals(case, d * d).chunks(d).map(<[f64]>::to_vec) {
            for e in &q {
                let t: f64 = v.iter().zip(e).map(|(a, b)| a * b).sum();
                v.iter_mut().zip(e).for_each(|(x, y)| *x -= t * y);
            }
            let norm = linalg::norm_squared(&v).sqrt();
            q.push(v.into_iter().map(|x| x / norm).collect());
        }
        q
    }

    /// For multiples of the identity the bound is attained: ρ = max(Ms − 1/s, 1/s − μs).
    #[test]
    fn equality_for_multiples_of_the_identity() {
        for family in families() {
            for (s, mu, m) in [(1.0, 0.5, 8.0), (0.1, 1.0, 2.0), (2.0, 1.0, 1.0), (0.5, 4.0, 4.0)] {
                let rho = of_residual(&family.scaled_identity(6, s), mu, m);
                let exact = f64::max(m * s - 1.0 / s, 1.0 / s - mu * s);
                assert!((rho - exact).abs() <= 1e-12 * (m * s + 1.0 / s), "{}: {rho} {exact}", family.name());
            }
        }
    }

    /// No Hessian between μ and M stretches any direction by more; the extreme ones come close.
    #[test]
    fn no_hessian_exceeds_it() {
        let (mu, m) = (0.5, 5.0);
        for (f, family) in families().iter().enumerate() {
            let mut closest: f64 = 0.0;
            for case in 0..40 {
                let factor = random_factor(family, 100 * f as u64 + case, [0.3, 1.0, 2.0][case as usize % 3]);
                let rho = of_residual(&factor, mu, m);
                for trial in 0..50 {
                    let q = rotation(5000 + trial, 6);
                    let ends = normals(6000 + trial, 6);
                    let h: Vec<f64> = ends.iter().map(|e| if *e > 0.0 { m } else { mu }).collect();
                    for h in [h, vec![m; 6], vec![mu; 6]] {
                        let mut x = normals(7000 + trial, 6);
                        let norm = linalg::norm_squared(&x).sqrt();
                        x.iter_mut().for_each(|v| *v /= norm);
                        let change = change(&factor, &x, &q, &h);
                        assert!(change <= rho, "{}: {change} > {rho}", family.name());
                        closest = closest.max(change / rho);
                    }
                }
            }
            assert!(closest > 0.5, "{}: {closest}", family.name());
        }
    }

    /// C C⁻¹ = I on a pattern, and the sparse norms agree with the dense matrix they are bounds for.
    #[test]
    fn the_inverse_of_a_pattern() {
        for family in &families()[1..] {
            let Factor::Pattern(c) = random_factor(family, 9, 1.0) else { panic!("a pattern") };
            let (inverse, dim) = (c.inverse(), 6);
            for (k, x) in Factor::Pattern(c.times(&inverse)).to_dense().iter().enumerate() {
                let identity = if k % (dim + 1) == 0 { 1.0 } else { 0.0 };
                assert!((x - identity).abs() < 1e-12, "{}", family.name());
            }
            let (dense, back) =
                (Factor::Pattern(c.clone()).to_dense(), Factor::Pattern(inverse.clone()).to_dense());
            let tilt: Vec<f64> =
                (0..dim * dim).map(|k| 1.7 * dense[k] - back[(k % dim) * dim + k / dim]).collect();
            let (sparse, exact) = (sparse_norm(&c, Some(&inverse), 1.7), dense_norm(&tilt, dim));
            let frobenius = linalg::norm_squared(&tilt).sqrt();
            assert!(exact <= sparse * (1.0 + 1e-12) && sparse <= frobenius * (1.0 + 1e-12));
            let (sparse, exact) = (sparse_norm(&c, None, 1.7), 1.7 * dense_norm(&dense, dim));
            assert!(exact <= sparse * (1.0 + 1e-12) && sparse < 2.0 * exact, "{sparse} {exact}");
        }
    }
}
