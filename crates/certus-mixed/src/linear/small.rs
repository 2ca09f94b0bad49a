//! Matrices of a few rows, by columns: what is done once per level, and in the chart of a term.

use certus::linalg;

/// out ← A B (k × k), or AᵀB.
pub(crate) fn product_into(a: &[f64], transpose: bool, b: &[f64], k: usize, out: &mut [f64]) {
    for j in 0..k {
        for i in 0..k {
            let at = |l: usize| if transpose { a[i * k + l] } else { a[l * k + i] };
            out[j * k + i] = (0..k).map(|l| at(l) * b[j * k + l]).sum();
        }
    }
}

/// A B.
pub(crate) fn product(a: &[f64], b: &[f64], k: usize) -> Vec<f64> {
    let mut out = vec![0.0; k * k];
    product_into(a, false, b, k, &mut out);
    out
}

/// Aᵀ.
pub(crate) fn transposed(a: &[f64], k: usize) -> Vec<f64> {
    (0..k * k).map(|e| a[(e % k) * k + e / k]).collect()
}

/// A B Aᵀ.
pub(crate) fn congruence(a: &[f64], b: &[f64], k: usize) -> Vec<f64> {
    product(&product(a, b, k), &transposed(a, k), k)
}

/// ⟨A, B⟩, the sum of the products of their entries.
pub(crate) fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// I.
pub(crate) fn identity(k: usize) -> Vec<f64> {
    let mut out = vec![0.0; k * k];
    out.iter_mut().step_by(k + 1).for_each(|x| *x = 1.0);
    out
}

/// a ← its lower Cholesky factor, in place (what is above the diagonal stays); false if it is not positive definite.
pub(crate) fn cholesky(a: &mut [f64], k: usize) -> bool {
    for j in 0..k {
        let sum: f64 = (0..j).map(|l| a[l * k + j] * a[l * k + j]).sum();
        let pivot = a[j * k + j] - sum;
        if pivot.is_nan() || pivot <= 0.0 || pivot.is_infinite() {
            return false;
        }
        let root = pivot.sqrt();
        a[j * k + j] = root;
        for i in j + 1..k {
            let sum: f64 = (0..j).map(|l| a[l * k + i] * a[l * k + j]).sum();
            a[j * k + i] = (a[j * k + i] - sum) / root;
        }
    }
    true
}

/// x ← L⁻¹ x.
pub(crate) fn forward(l: &[f64], k: usize, x: &mut [f64]) {
    for i in 0..k {
        let sum: f64 = (0..i).map(|j| l[j * k + i] * x[j]).sum();
        x[i] = (x[i] - sum) / l[i * k + i];
    }
}

/// x ← L⁻ᵀ x.
pub(crate) fn backward(l: &[f64], k: usize, x: &mut [f64]) {
    for i in (0..k).rev() {
        let sum: f64 = (i + 1..k).map(|j| l[i * k + j] * x[j]).sum();
        x[i] = (x[i] - sum) / l[i * k + i];
    }
}

/// A⁻¹ by elimination with row pivots; nothing if A is singular.
pub(crate) fn inverse(a: &[f64], k: usize) -> Option<Vec<f64>> {
    let (mut a, mut out) = (a.to_vec(), identity(k));
    for c in 0..k {
        let pivot = (c..k).max_by(|&i, &j| a[c * k + i].abs().total_cmp(&a[c * k + j].abs()))?;
        if a[c * k + pivot] == 0.0 || !a[c * k + pivot].is_finite() {
            return None;
        }
        for j in 0..k {
            a.swap(j * k + c, j * k + pivot);
            out.swap(j * k + c, j * k + pivot);
        }
        let scale = 1.0 / a[c * k + c];
        for j in 0..k {
            a[j * k + c] *= scale;
            out[j * k + c] *= scale;
        }
        for i in (0..k).filter(|&i| i != c) {
            let by = a[c * k + i];
            for j in 0..k {
                a[j * k + i] -= by * a[j * k + c];
                out[j * k + i] -= by * out[j * k + c];
            }
        }
    }
    Some(out)
}

/// f(A) for a symmetric A, eigenvalue by eigenvalue.
pub(crate) fn of_symmetric(a: &[f64], k: usize, f: impl Fn(f64) -> f64) -> Option<Vec<f64>> {
    let (values, vectors) = linalg::eigen(a, k)?;
    let mut out = vec![0.0; k * k];
    for (value, v) in values.iter().zip(vectors.chunks_exact(k)) {
        let value = f(*value);
        for j in 0..k {
            for i in 0..k {
                out[j * k + i] += value * v[i] * v[j];
            }
        }
    }
    Some(out)
}

/// ‖A‖ of a rectangular matrix, rows × columns by columns.
pub(crate) fn norm(a: &[f64], rows: usize, columns: usize) -> f64 {
    let mut gram = vec![0.0; columns * columns];
    for j in 0..columns {
        for i in 0..columns {
            gram[j * columns + i] = inner(&a[i * rows..][..rows], &a[j * rows..][..rows]);
        }
    }
    linalg::extreme_eigenvalues(&gram, columns).map_or(f64::INFINITY, |(_, top)| top.max(0.0).sqrt())
}
