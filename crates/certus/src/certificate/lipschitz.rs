//! How fast the residual S(u) = ∇φ(m + Cu) − C⁻ᵀu can change, from μ ≤ ∇²φ ≤ M alone (math: Lipschitz constants).

use crate::factor::{Factor, Pattern};
use crate::linalg;

/// Beyond this dimension the eigenvalues of a dense matrix take minutes, and norms of its entries must do.
const LARGEST_DENSE: usize = 2000;

/// What a triangular factor and μ ≤ H ≤ M say of S and of CᵀS.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reach {
    /// Bounds of the singular values of C.
    pub(super) smallest: f64,
    pub(super) largest: f64,
    /// ρ, a Lipschitz constant of S.
    pub(super) residual: f64,
    /// ρ_u, a Lipschitz constant of CᵀS.
    pub(super) whitened: f64,
}

impl Reach {
    /// The derivative of S is HC − C⁻ᵀ = (H − c)C + (cC − C⁻ᵀ) = C⁻ᵀ(CᵀHC − I), so with c, K = (M ± μ)/2
    /// ρ = min{K‖C‖ + ‖cC − C⁻ᵀ‖, ρ_u/σ_min}, ρ_u = max{1 − μσ_min², Mσ_max² − 1}.
    ///
    /// The singular values of cC − C⁻ᵀ are |cσ − 1/σ|, largest at an end because cσ − 1/σ increases. No other c is
    /// better: moving it by t costs t‖C‖ in the first term and saves at most that in the second. Both forms are
    /// equalities for multiples of the identity; the second is smaller if q is narrow.
    pub(super) fn new(factor: &Factor, strong_convexity: f64, smoothness: f64) -> Result<Self, String> {
        let (mu, m) = (strong_convexity, smoothness);
        let (centre, spread) = (0.5 * (m + mu), 0.5 * (m - mu));
        let (norm, inverse, tilt) = match factor {
            Factor::Pattern(c) => {
                let inverse = c.inverse();
                (
                    sparse_norm(c, None, 1.0),
                    sparse_norm(&inverse, None, 1.0),
                    sparse_norm(c, Some(&inverse), centre),
                )
            }
            dense => {
                let (dim, c) = (dense.dim(), dense.to_dense());
                let mut inverse = vec![0.0; dim * dim];
                inverse.iter_mut().step_by(dim + 1).for_each(|x| *x = 1.0);
                linalg::solve_lower(&c, dim, true, &mut inverse);
                (dense_norm(&c, dim), dense_norm(&inverse, dim), f64::INFINITY)
            }
        };
        // the inverse errs by some d ulp times the condition of C
        let (largest, slack) = (norm, 64.0 * factor.dim() as f64 * f64::EPSILON * norm * inverse);
        let smallest = (1.0 - slack) / inverse;
        if !(smallest > 0.0 && largest.is_finite()) {
            return Err("C is singular up to rounding".into());
        }
        let end = |sigma: f64| (centre * sigma - 1.0 / sigma).abs();
        let tilt = tilt.min(end(smallest).max(end(largest)));
        let whitened = (1.0 - mu * smallest.powi(2)).max(m * largest.powi(2) - 1.0).max(0.0);
        let residual = (spread * largest + tilt).min(whitened / smallest);
        Ok(Self { smallest, largest, residual, whitened })
    }
}

/// ‖A‖ = √λ_max(AᵀA), rounded up; never more than |A|_F and √(largest row sum × largest column sum).
fn dense_norm(a: &[f64], dim: usize) -> f64 {
    if dim > LARGEST_DENSE {
        let mut sums = Sums::new(dim);
        a.iter().enumerate().for_each(|(k, x)| sums.add(k % dim, k / dim, *x));
        return sums.norm();
    }
    let mut square = vec![0.0; dim * dim];
    linalg::add_transpose_times(a, dim, false, a, &mut square);
    linalg::mirror(&mut square, dim);
    let largest = linalg::extreme_eigenvalues(&square, dim).map_or(f64::INFINITY, |(_, high)| high);
    let allowance = 1.0 + 64.0 * dim as f64 * f64::EPSILON;
    (largest.max(0.0).min(linalg::norm_squared(a)) * allowance).sqrt()
}

/// ‖sC − C⁻ᵀ‖ (or ‖sC‖) in one pass over the entries.
fn sparse_norm(c: &Pattern, inverse: Option<&Pattern>, s: f64) -> f64 {
    let mut sums = Sums::new(c.dim());
    let below = inverse.is_some();
    c.for_each_entry(|i, j, x| match below && i == j {
        true => sums.add(i, i, s * x - 1.0 / x),
        false => sums.add(i, j, s * x),
    });
    if let Some(inverse) = inverse {
        inverse.for_each_entry(|i, j, x| {
            if i != j {
                sums.add(j, i, x)
            }
        });
    }
    sums.norm()
}

/// Sums of |entries| over rows and columns, and of their squares.
struct Sums {
    rows: Vec<f64>,
    columns: Vec<f64>,
    squares: f64,
}

impl Sums {
    fn new(dim: usize) -> Self {
        Self { rows: vec![0.0; dim], columns: vec![0.0; dim], squares: 0.0 }
    }

    fn add(&mut self, i: usize, j: usize, x: f64) {
        self.rows[i] += x.abs();
        self.columns[j] += x.abs();
        self.squares += x * x;
    }

    /// At least the largest singular value: |·|_F and √(largest row sum × largest column sum) (Schur's test), rounded
    /// up.
    fn norm(&self) -> f64 {
        let largest = |sums: &[f64]| sums.iter().copied().fold(0.0, f64::max);
        let allowance = 1.0 + 64.0 * self.rows.len() as f64 * f64::EPSILON;
        (largest(&self.rows) * largest(&self.columns)).min(self.squares).sqrt() * allowance
    }
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

    fn reach(factor: &Factor, mu: f64, m: f64) -> Reach {
        Reach::new(factor, mu, m).expect("well conditioned")
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
                let rho = reach(&family.scaled_identity(6, s), mu, m).residual;
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
                let rho = reach(&factor, mu, m).residual;
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

    /// Singular values lie between the bounds, which are theirs for dense and for diagonal factors.
    #[test]
    fn singular_values_are_bounded() {
        for (f, family) in families().iter().enumerate() {
            for case in 0..10 {
                let factor = random_factor(family, 300 + 100 * f as u64 + case, 1.0);
                let c = factor.to_dense();
                let mut square = vec![0.0; 36];
                linalg::add_transpose_times(&c, 6, false, &c, &mut square);
                linalg::mirror(&mut square, 6);
                let (low, high) = linalg::extreme_eigenvalues(&square, 6).expect("finite");
                let (low, high) = (low.sqrt(), high.sqrt());
                let Reach { smallest, largest, whitened, .. } = reach(&factor, 0.5, 5.0);
                assert!(smallest <= low && high <= largest, "{smallest} {low} {high} {largest}");
                let tight = if f < 2 { 1e-9 } else { 0.7 };
                assert!(
                    smallest > low * (1.0 - tight) && largest < high * (1.0 + tight),
                    "{}",
                    family.name()
                );
                let exact = (1.0 - 0.5 * smallest * smallest).max(5.0 * largest * largest - 1.0);
                assert!((whitened / exact - 1.0).abs() < 1e-12);
            }
        }
        // a dense matrix by the norms of its entries, and one that is singular to rounding
        let mut sums = Sums::new(2);
        [3.0, -4.0, 0.0, 2.0].iter().enumerate().for_each(|(k, x)| sums.add(k % 2, k / 2, *x));
        assert!((sums.norm() - 29f64.sqrt()).abs() < 1e-12, "Frobenius is smaller than √(6 · 7)");
        let mut thin = Family::Lower.scaled_identity(2, 1.0);
        thin.map_diagonal(&|_| 1e-9);
        thin.add_outer(1.0, &[0.0, 1e9], &[1.0, 0.0]);
        assert!(Reach::new(&thin, 1.0, 2.0).is_err());
    }

    /// Where q is narrow and uneven the second form of ρ is the smaller one, and the worst Hessian attains it.
    #[test]
    fn the_second_form_counts_for_narrow_factors() {
        let mut narrow = Family::Lower.scaled_identity(2, 0.1);
        narrow.add_outer(1.0, &[0.0, 0.2], &[0.0, 1.0]);
        // C = diag(.1, .3), μ = 1, M = 8: 1/σ_min − μσ_min = 9.9, at H = μ
        let rho = reach(&narrow, 1.0, 8.0).residual;
        assert!((rho - 9.9).abs() < 1e-9, "{rho}");
    }
}
