//! Coordinates of a term's covariance matrix: Σ = W M(S) Wᵀ around a point of any rank, in which Newton's method moves
//! (docs/mixed.md, L0).

use certus::linalg;

use super::small;

/// The size of the directions outside of a singular matrix's range, and of the first guess: this times σ in the
/// response, in the root mean square over the rows.
const UNIT: f64 = 0.5;

/// A frame W = [T, τU]: Σ = TTᵀ has rank `rank`, U spans what is outside of its range.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) k: usize,
    pub(crate) rank: usize,
    /// W, k × k by columns.
    pub(crate) w: Vec<f64>,
}

impl Frame {
    /// T = diag(size/rms of the column).
    pub(crate) fn start(rms: &[f64], size: f64) -> Self {
        let k = rms.len();
        let mut w = vec![0.0; k * k];
        (0..k).for_each(|i| w[i * (k + 1)] = size / rms[i]);
        Self { k, rank: k, w }
    }

    /// T, its last columns 0.
    pub(crate) fn t(&self) -> Vec<f64> {
        let mut t = self.w.clone();
        t[self.rank * self.k..].fill(0.0);
        t
    }

    /// The orthonormal basis of symmetric matrices, but for what a matrix of this rank cannot do (the block of U).
    pub(crate) fn basis(&self) -> Vec<Vec<f64>> {
        let k = self.k;
        let pairs = (0..self.rank).flat_map(|j| (j..k).map(move |i| (i, j)));
        pairs.map(|(i, j)| unit(k, i, j)).collect()
    }

    /// Σ moved by S: T ← (T + τU S₂₁) chol(e^{S₁₁}).
    pub(crate) fn moved(&self, s: &[f64]) -> Option<Self> {
        let (k, r) = (self.k, self.rank);
        let mut own = vec![0.0; r * r];
        let mut w = self.w.clone();
        for j in 0..r {
            for i in 0..r {
                own[j * r + i] = s[j * k + i];
            }
            for i in r..k {
                for l in 0..k {
                    w[j * k + l] += self.w[i * k + l] * s[j * k + i];
                }
            }
        }
        if r > 0 {
            let mut power = small::of_symmetric(&own, r, f64::exp)?;
            if !small::cholesky(&mut power, r) {
                return None;
            }
            let old = w.clone();
            for j in 0..r {
                for l in 0..k {
                    w[j * k + l] = (j..r).map(|i| old[i * k + l] * power[j * r + i]).sum();
                }
            }
        }
        w.iter().all(|x| x.is_finite()).then_some(Self { k, rank: r, w })
    }

    /// The smallest standard deviation in any direction, relative to σ, of the effects scaled by their columns' rms;
    /// and the matrix without that direction.
    pub(crate) fn reduced(&self, rms: &[f64]) -> Option<(f64, Self)> {
        let (k, r) = (self.k, self.rank);
        if r == 0 {
            return None;
        }
        let (values, vectors) = self.scaled(rms)?;
        let smallest = values[k - r].max(0.0).sqrt();
        Some((smallest, Self::of_range(rms, &values, &vectors, r - 1)))
    }

    /// The same matrix with one more direction: `direction` among those of U, small.
    pub(crate) fn released(&self, direction: &[f64]) -> Self {
        let (k, r) = (self.k, self.rank);
        let mut out = self.clone();
        let old = &self.w[r * k..];
        // an orthonormal basis of coefficients whose first is `direction`
        let count = k - r;
        let mut basis: Vec<Vec<f64>> = vec![direction.to_vec()];
        for e in 0..count {
            let mut v: Vec<f64> = (0..count).map(|i| f64::from(u8::from(i == e))).collect();
            for b in &basis {
                let by = small::inner(b, &v);
                v.iter_mut().zip(b).for_each(|(v, b)| *v -= by * b);
            }
            let norm = small::inner(&v, &v).sqrt();
            if norm > 1e-6 && basis.len() < count {
                basis.push(v.iter().map(|x| x / norm).collect());
            }
        }
        for (j, b) in basis.iter().enumerate() {
            for l in 0..k {
                let sum: f64 = (0..count).map(|i| old[i * k + l] * b[i]).sum();
                out.w[(r + j) * k + l] = if j == 0 { 0.1 * sum } else { sum };
            }
        }
        out.rank += 1;
        out
    }

    /// Eigenvalues, ascending, and vectors of diag(rms)TTᵀdiag(rms).
    fn scaled(&self, rms: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        let (k, t) = (self.k, self.t());
        let mut square = vec![0.0; k * k];
        for j in 0..k {
            for i in 0..k {
                let sum: f64 = (0..k).map(|l| t[l * k + i] * t[l * k + j]).sum();
                square[j * k + i] = rms[i] * rms[j] * sum;
            }
        }
        linalg::eigen(&square, k)
    }

    /// The matrix of the `rank` largest directions: T = U_ρD_ρ, scaled back.
    fn of_range(rms: &[f64], values: &[f64], vectors: &[f64], rank: usize) -> Self {
        let k = rms.len();
        let mut w = vec![0.0; k * k];
        for j in 0..k {
            let from = k - 1 - j;
            let size = if j < rank { values[from].max(0.0).sqrt() } else { UNIT };
            for i in 0..k {
                w[j * k + i] = size * vectors[from * k + i] / rms[i];
            }
        }
        Self { k, rank, w }
    }

    /// Wᵀ Γ W.
    pub(crate) fn pulled(&self, gamma: &[f64]) -> Vec<f64> {
        small::congruence(&small::transposed(&self.w, self.k), gamma, self.k)
    }

    /// What a second derivative along basis matrices a, b gains because the chart is not affine: Γ (= WᵀΓW) against
    /// (S₁₁²)/2 and S₂₁S₁₂.
    pub(crate) fn bend(&self, gamma: &[f64], a: &[f64], b: &[f64]) -> f64 {
        let (k, r) = (self.k, self.rank);
        let mut sum = 0.0;
        for j in 0..k {
            for i in 0..k {
                let product: f64 =
                    (0..r).map(|l| a[l * k + i] * b[j * k + l] + b[l * k + i] * a[j * k + l]).sum();
                if i < r && j < r {
                    sum += 0.5 * gamma[j * k + i] * product;
                } else if i >= r && j >= r {
                    sum += gamma[j * k + i] * product;
                }
            }
        }
        sum
    }

    /// The smallest eigenvalue of the block of U of Γ (= WᵀΓW), and its vector; nothing if there is no such block.
    pub(crate) fn outward(&self, gamma: &[f64]) -> Option<(f64, Vec<f64>)> {
        let (k, r) = (self.k, self.rank);
        let count = k - r;
        if count == 0 {
            return None;
        }
        let block: Vec<f64> =
            (0..count * count).map(|e| gamma[(r + e / count) * k + r + e % count]).collect();
        let (values, vectors) = linalg::eigen(&block, count)?;
        Some((values[0], vectors[..count].to_vec()))
    }
}

/// The basis matrix of entries (i, j) and (j, i), of Frobenius norm 1.
pub(crate) fn unit(k: usize, i: usize, j: usize) -> Vec<f64> {
    let mut out = vec![0.0; k * k];
    let value = if i == j { 1.0 } else { std::f64::consts::FRAC_1_SQRT_2 };
    (out[j * k + i], out[i * k + j]) = (value, value);
    out
}
