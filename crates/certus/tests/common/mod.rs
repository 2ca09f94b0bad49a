//! Oracles for the tests: Gaussian targets whose optimum, gradients and second moments have closed forms.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use certus::factor::{Lower, Pattern, Symmetric};
use certus::random::{Purpose, Random};
use certus::{Curvature, Factor, Family, Gaussian, PointTarget, Provenance, TargetError, Tree};
use std::sync::Arc;

/// A stream of plain random numbers for building cases.
pub struct Dice(Random, u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed, Purpose::Simulate, 0), 0)
    }

    pub fn normals(&mut self, n: usize) -> Vec<f64> {
        let mut out = vec![0.0; n];
        self.0.normals(self.1, 0, n.max(1), &mut out);
        self.1 += 1;
        out
    }

    pub fn normal(&mut self) -> f64 {
        self.normals(1)[0]
    }

    /// Uniform on [0, 1]: the angle of a normal point in the plane.
    pub fn uniform(&mut self) -> f64 {
        let x = self.normals(2);
        0.5 + x[0].atan2(x[1]) / std::f64::consts::TAU
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// A random orthogonal matrix, column-major.
    pub fn rotation(&mut self, d: usize) -> Vec<f64> {
        let mut q: Vec<Vec<f64>> = Vec::new();
        while q.len() < d {
            let mut v = self.normals(d);
            for _ in 0..2 {
                for e in &q {
                    let t = dot(&v, e);
                    v.iter_mut().zip(e).for_each(|(x, y)| *x -= t * y);
                }
            }
            let norm = dot(&v, &v).sqrt();
            q.push(v.into_iter().map(|x| x / norm).collect());
        }
        q.concat()
    }
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// A B for column-major square matrices (or B with several columns).
pub fn times(a: &[f64], b: &[f64], d: usize) -> Vec<f64> {
    let mut out = vec![0.0; b.len()];
    for (j, column) in b.chunks_exact(d).enumerate() {
        for k in 0..d {
            for i in 0..d {
                out[j * d + i] += a[k * d + i] * column[k];
            }
        }
    }
    out
}

pub fn transpose(a: &[f64], d: usize) -> Vec<f64> {
    (0..d * d).map(|k| a[(k % d) * d + k / d]).collect()
}

/// Σ_k f(λ_k) v_k v_kᵀ.
pub fn spectral(rotation: &[f64], values: &[f64], f: impl Fn(f64) -> f64) -> Vec<f64> {
    let d = values.len();
    let mut out = vec![0.0; d * d];
    for (k, &value) in values.iter().enumerate() {
        let v = &rotation[k * d..][..d];
        for j in 0..d {
            for i in 0..d {
                out[j * d + i] += f(value) * v[i] * v[j];
            }
        }
    }
    // symmetric to the bit
    for j in 0..d {
        for i in j..d {
            out[i * d + j] = out[j * d + i];
        }
    }
    out
}

/// A⁻¹ b by Gaussian elimination with pivoting (small, test only).
pub fn solve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let d = b.len();
    let mut rows: Vec<Vec<f64>> =
        (0..d).map(|i| (0..d).map(|j| a[j * d + i]).chain([b[i]]).collect()).collect();
    for k in 0..d {
        let pivot = (k..d).max_by(|&i, &j| rows[i][k].abs().total_cmp(&rows[j][k].abs())).unwrap();
        rows.swap(k, pivot);
        for i in k + 1..d {
            let t = rows[i][k] / rows[k][k];
            for j in k..=d {
                let x = rows[k][j];
                rows[i][j] -= t * x;
            }
        }
    }
    let mut x = vec![0.0; d];
    for i in (0..d).rev() {
        let s: f64 = (i + 1..d).map(|j| rows[i][j] * x[j]).sum();
        x[i] = (rows[i][d] - s) / rows[i][i];
    }
    x
}

/// p(z) = N(mean, H⁻¹), normalised, H = rotation · diag(values) · rotationᵀ.
#[derive(Clone)]
pub struct GaussianTarget {
    pub mean: Vec<f64>,
    pub rotation: Vec<f64>,
    pub values: Vec<f64>,
    pub hessian: Vec<f64>,
    pub provenance: Provenance,
}

impl GaussianTarget {
    pub fn new(mean: Vec<f64>, rotation: Vec<f64>, values: Vec<f64>) -> Self {
        let hessian = spectral(&rotation, &values, |x| x);
        Self { mean, rotation, values, hessian, provenance: certus::internals::by_model() }
    }

    /// Random rotation and mean; eigenvalues from 1 to κ, log-spaced.
    pub fn with_kappa(d: usize, kappa: f64, dice: &mut Dice) -> Self {
        let values =
            (0..d).map(|i| kappa.powf(if d > 1 { i as f64 / (d - 1) as f64 } else { 0.0 })).collect();
        let (mean, rotation) = (dice.normals(d), dice.rotation(d));
        Self::new(mean, rotation, values)
    }

    pub fn mu(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn m(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }

    /// The best Gaussian of a family. 𝒮: H^{−1/2}. Triangular spaces: column j of C* on its rows R is
    /// H_RR⁻¹ e_j / √((H_RR⁻¹)_jj), because (H C)_ij = 0 for i ≠ j in R and (H C)_jj = 1/C_jj.
    pub fn optimum(&self, family: &Family) -> Gaussian {
        let d = self.mean.len();
        let factor = match family {
            Family::Symmetric => Factor::Symmetric(
                Symmetric::new(d, spectral(&self.rotation, &self.values, |x| x.powf(-0.5))).unwrap(),
            ),
            Family::Lower => Factor::Lower(Lower::new(d, self.columns(&|_, _| true)).unwrap()),
            Family::Pattern(tree) => {
                let inside = pattern_mask(tree);
                let dense = self.columns(&|i, j| inside[j * d + i]);
                from_dense(family, &dense)
            }
        };
        Gaussian::new(self.mean.clone(), factor).unwrap()
    }

    fn columns(&self, inside: &dyn Fn(usize, usize) -> bool) -> Vec<f64> {
        let d = self.mean.len();
        let mut out = vec![0.0; d * d];
        for j in 0..d {
            let rows: Vec<usize> = (j..d).filter(|&i| inside(i, j)).collect();
            let sub: Vec<f64> = rows
                .iter()
                .flat_map(|&c| rows.iter().map(move |&r| (r, c)))
                .map(|(r, c)| self.hessian[c * d + r])
                .collect();
            let e: Vec<f64> = rows.iter().map(|&i| f64::from(u8::from(i == j))).collect();
            let x = solve(&sub, &e);
            let scale = x[0].sqrt();
            for (&i, x) in rows.iter().zip(x) {
                out[j * d + i] = x / scale;
            }
        }
        out
    }
}

impl PointTarget for GaussianTarget {
    fn dim(&self) -> usize {
        self.mean.len()
    }

    fn log_density_at(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        let d = self.mean.len();
        gradient.fill(0.0);
        let mut quadratic = 0.0;
        for j in 0..d {
            let x = point[j] - self.mean[j];
            for i in 0..d {
                gradient[i] -= self.hessian[j * d + i] * x;
            }
        }
        for j in 0..d {
            quadratic += (point[j] - self.mean[j]) * gradient[j];
        }
        let log_det: f64 = self.values.iter().map(|x| x.ln()).sum();
        Ok(0.5 * (quadratic + log_det - d as f64 * (2.0 * std::f64::consts::PI).ln()))
    }

    fn curvature(&self) -> Option<Curvature> {
        Some(
            Curvature::new(self.mu(), self.m(), self.provenance.clone())
                .unwrap()
                .with_mode(self.mean.clone()),
        )
    }
}

/// Which entries a pattern may hold, as a dense mask.
pub fn pattern_mask(tree: &Arc<Tree>) -> Vec<bool> {
    let d = tree.dim();
    let mut mask = vec![false; d * d];
    Family::Pattern(tree.clone()).scaled_identity(d, 1.0).for_each_entry(|i, j, _| mask[j * d + i] = true);
    mask
}

/// The factor of a family with the given dense entries (those outside the family are ignored).
pub fn from_dense(family: &Family, dense: &[f64]) -> Factor {
    let d = (dense.len() as f64).sqrt() as usize;
    match family {
        Family::Lower => {
            let kept = (0..d * d).map(|k| if k % d >= k / d { dense[k] } else { 0.0 }).collect();
            Factor::Lower(Lower::new(d, kept).unwrap())
        }
        Family::Symmetric => Factor::Symmetric(Symmetric::new(d, dense.to_vec()).unwrap()),
        Family::Pattern(tree) => {
            let mut values = vec![0.0; tree.stored()];
            for node in tree.nodes() {
                let mut columns = Vec::new();
                let mut next = Some(*node);
                while let Some(a) = next {
                    columns.splice(0..0, a.start..a.start + a.size);
                    next = a.parent.map(|p| tree.nodes()[p]);
                }
                for i in 0..node.size {
                    for (c, &j) in columns.iter().enumerate().filter(|(_, j)| **j <= node.start + i) {
                        values[node.offset + c * node.size + i] = dense[j * d + node.start + i];
                    }
                }
            }
            Factor::Pattern(Pattern::new(tree.clone(), values).unwrap())
        }
    }
}

/// One family of every kind in dimension 6.
pub fn families() -> Vec<Family> {
    let tree = |t: Tree| Family::Pattern(Arc::new(t));
    vec![
        Family::Lower,
        Family::Symmetric,
        tree(Tree::diagonal(6).unwrap()),
        tree(Tree::blocks(&[2, 1, 3]).unwrap()),
        tree(Tree::arrow(2, &[1, 2, 1]).unwrap()),
        tree(Tree::new(&[1, 1, 2, 1, 1], &[None, Some(0), Some(1), Some(0), Some(3)]).unwrap()),
    ]
}

/// A random proper factor of a family, entries of size about `scale`.
pub fn random_factor(family: &Family, d: usize, scale: f64, dice: &mut Dice) -> Factor {
    let dense: Vec<f64> = match family {
        Family::Symmetric => {
            let values: Vec<f64> = (0..d).map(|_| scale * dice.between(0.2, 2.0)).collect();
            spectral(&dice.rotation(d), &values, |x| x)
        }
        _ => {
            let mut x: Vec<f64> = dice.normals(d * d).iter().map(|v| v * scale).collect();
            (0..d).for_each(|i| x[i * (d + 1)] = x[i * (d + 1)].abs() + 0.1 * scale);
            x
        }
    };
    from_dense(family, &dense)
}
