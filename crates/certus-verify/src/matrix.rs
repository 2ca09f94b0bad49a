//! Small dense symmetric matrices in double-double arithmetic, row-major: definiteness, least eigenvalues, and the
//! norms of Theorem D.

use super::double_double::Double;

/// Roundings of this arithmetic, generously.
pub(super) const UNIT: f64 = 1.0 / (1_u128 << 100) as f64;

/// The lower L with L Lᵀ = a − shift·I, or `None` if that is not positive definite.
pub(super) fn cholesky(a: &[Double], n: usize, shift: Double) -> Option<Vec<Double>> {
    let mut l = vec![Double::ZERO; n * n];
    for i in 0..n {
        for j in 0..=i {
            let mut sum = a[i * n + j];
            for k in 0..j {
                sum -= l[i * n + k] * l[j * n + k];
            }
            l[i * n + j] = if i > j {
                sum / l[j * n + j]
            } else {
                let pivot = sum - shift;
                if !(pivot.is_finite() && pivot > Double::ZERO) {
                    return None;
                }
                pivot.sqrt()
            };
        }
    }
    Some(l)
}

fn trace(a: &[Double], n: usize) -> f64 {
    (0..n).map(|i| a[i * n + i].to_f64().abs()).sum()
}

/// What rounding in a Cholesky factorisation can hide.
pub(super) fn slack(a: &[Double], n: usize) -> f64 {
    (n + 8) as f64 * UNIT * trace(a, n)
}

/// True if every eigenvalue is at least `least`.
pub(super) fn all_above(a: &[Double], n: usize, least: f64) -> bool {
    cholesky(a, n, Double::from(least + slack(a, n))).is_some()
}

/// A lower bound of the least eigenvalue, within 1e-9 of it, by bisection; `None` if it is not positive.
pub(super) fn least_eigenvalue(a: &[Double], n: usize) -> Option<f64> {
    if !all_above(a, n, 0.0) {
        return None;
    }
    // the least diagonal entry is above it
    let (mut low, mut high) = (0.0, (0..n).map(|i| a[i * n + i].to_f64()).fold(f64::INFINITY, f64::min));
    for _ in 0..100 {
        if high - low <= 1e-9 * low {
            break;
        }
        let middle = 0.5 * (low + high);
        if all_above(a, n, middle) { low = middle } else { high = middle }
    }
    (low > 0.0).then_some(low)
}

/// gᵀa⁻¹g for a positive definite a.
pub(super) fn inverse_norm(a: &[Double], n: usize, g: &[Double]) -> Option<Double> {
    let l = cholesky(a, n, Double::ZERO)?;
    let (mut y, mut total) = (vec![Double::ZERO; n], Double::ZERO);
    for i in 0..n {
        let mut sum = g[i];
        for k in 0..i {
            sum -= l[i * n + k] * y[k];
        }
        y[i] = sum / l[i * n + i];
        total += y[i] * y[i];
    }
    Some(total)
}

/// An upper bound of ⟨s, 𝓛⁻¹s⟩ for 𝓛(x) = (h x + x h)/2 + c x on symmetric matrices, 𝓛 ≥ `least` > 0. x may come from
/// plain arithmetic, an approximate eigenbasis of h; it is refined until its residual does not matter.
pub(super) fn lyapunov_norm(h: &[Double], n: usize, c: Double, s: &[Double], least: f64) -> Double {
    let plain: Vec<f64> = h.iter().map(|x| x.to_f64()).collect();
    let (values, basis) = jacobi(plain, n);
    let (mut x, mut r) = (vec![Double::ZERO; n * n], s.to_vec());
    let mut best = Double::from(f64::MAX);
    for _ in 0..6 {
        // y = U (UᵀrU / weights) Uᵀ
        let residual: Vec<f64> = r.iter().map(|x| x.to_f64()).collect();
        let mut turned = product(&transpose(&basis, n), &product(&residual, &basis, n), n);
        for (k, t) in turned.iter_mut().enumerate() {
            *t /= (0.5 * (values[k / n] + values[k % n]) + c.to_f64()).max(least);
        }
        let step = product(&basis, &product(&turned, &transpose(&basis, n), n), n);
        for i in 0..n {
            for j in 0..n {
                x[i * n + j] += Double::from(0.5 * (step[i * n + j] + step[j * n + i]));
            }
        }
        let (value, rest) = bound_from(h, n, c, s, &x, least, &mut r);
        if value + rest < best {
            best = value + rest;
        }
        if rest.to_f64() <= 1e-20 * value.to_f64() {
            break;
        }
    }
    best
}

/// Whatever the symmetric x is, with the residual r = s − 𝓛x: ⟨s, 𝓛⁻¹s⟩ = ⟨s + r, x⟩ + ⟨r, 𝓛⁻¹r⟩ ≤ ⟨s + r, x⟩ +
/// |r|²/least. The two terms; r is left behind.
fn bound_from(
    h: &[Double],
    n: usize,
    c: Double,
    s: &[Double],
    x: &[Double],
    least: f64,
    r: &mut [Double],
) -> (Double, Double) {
    let mut hx = vec![Double::ZERO; n * n];
    for i in 0..n {
        for k in 0..n {
            let entry = h[i * n + k];
            for j in 0..n {
                hx[i * n + j] += entry * x[k * n + j];
            }
        }
    }
    let (mut value, mut rest) = (Double::ZERO, Double::ZERO);
    for i in 0..n {
        for j in 0..n {
            let k = i * n + j;
            r[k] = s[k] - Double::from(0.5) * (hx[k] + hx[j * n + i]) - c * x[k];
            value += (s[k] + r[k]) * x[k];
            rest += r[k] * r[k];
        }
    }
    (value, rest / Double::from(least))
}

fn transpose(a: &[f64], n: usize) -> Vec<f64> {
    (0..n * n).map(|k| a[(k % n) * n + k / n]).collect()
}

fn product(a: &[f64], b: &[f64], n: usize) -> Vec<f64> {
    let mut out = vec![0.0; n * n];
    for i in 0..n {
        for k in 0..n {
            let entry = a[i * n + k];
            let (row, from) = (&mut out[i * n..][..n], &b[k * n..][..n]);
            row.iter_mut().zip(from).for_each(|(o, b)| *o += entry * b);
        }
    }
    out
}

/// Approximate eigenvalues and an orthogonal basis (columns) by Jacobi's rotations, in plain arithmetic; nothing rests
/// on their accuracy.
fn jacobi(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut basis = vec![0.0; n * n];
    (0..n).for_each(|i| basis[i * (n + 1)] = 1.0);
    for _ in 0..30 {
        let size: f64 = a.iter().map(|x| x * x).sum();
        let off: f64 = (0..n * n).filter(|k| k / n != k % n).map(|k| a[k] * a[k]).sum();
        if off.is_nan() || off <= 1e-31 * size {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let entry = a[p * n + q];
                if entry == 0.0 {
                    continue;
                }
                let tilt = (a[q * n + q] - a[p * n + p]) / (2.0 * entry);
                let t = tilt.signum() / (tilt.abs() + tilt.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
                }
                for m in [&mut a, &mut basis] {
                    for k in 0..n {
                        let (x, y) = (m[k * n + p], m[k * n + q]);
                        (m[k * n + p], m[k * n + q]) = (c * x - s * y, s * x + c * y);
                    }
                }
            }
        }
    }
    ((0..n).map(|i| a[i * (n + 1)]).collect(), basis)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second difference matrix: eigenvalues 2 − 2cos(πk/(n+1)), inverse entries min(i,j)(n+1−max(i,j))/(n+1).
    fn differences(n: usize) -> Vec<Double> {
        let entry = |k: usize| match (k / n).abs_diff(k % n) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        };
        (0..n * n).map(|k| Double::from(entry(k))).collect()
    }

    #[test]
    fn least_eigenvalues_and_inverse() {
        for n in [1, 2, 7, 20] {
            let a = differences(n);
            let truth = 2.0 - 2.0 * (std::f64::consts::PI / (n + 1) as f64).cos();
            let found = least_eigenvalue(&a, n).expect("positive");
            assert!(found <= truth * (1.0 + 1e-14) && found >= truth * (1.0 - 2e-9), "{n}: {found} {truth}");
            let mut g = vec![Double::ZERO; n];
            g[0] = Double::ONE;
            let norm = inverse_norm(&a, n, &g).expect("positive").to_f64();
            assert!((norm - n as f64 / (n + 1) as f64).abs() < 1e-15);
            let mut indefinite = a.clone();
            indefinite[0] = Double::from(-1e-20);
            assert!(least_eigenvalue(&indefinite, n).is_none());
        }
        // singular to the last bit
        assert!(least_eigenvalue(&[Double::ONE; 4], 2).is_none());
    }

    /// 𝓛 in the eigenbasis of h is a division: s = U diag(1, …)Uᵀ with known vectors, and a diagonal h with six
    /// decades.
    #[test]
    fn lyapunov_norms() {
        let n = 5;
        let h: Vec<f64> = (0..n).map(|i| 10f64.powi(i as i32 - 3)).collect();
        let mut dense = vec![Double::ZERO; n * n];
        (0..n).for_each(|i| dense[i * (n + 1)] = Double::from(h[i]));
        let s: Vec<f64> = (0..n * n).map(|k| ((k / n + 1) * (k % n + 1)) as f64).collect();
        for c in [0.0, 0.7] {
            let truth: f64 = (0..n * n).map(|k| s[k] * s[k] / (0.5 * (h[k / n] + h[k % n]) + c)).sum();
            let turned: Vec<Double> = s.iter().map(|x| Double::from(*x)).collect();
            let found = lyapunov_norm(&dense, n, Double::from(c), &turned, h[0] + c).to_f64();
            assert!((found / truth - 1.0).abs() < 1e-14, "{found} {truth}");
        }
        // any x bounds it from above, by ⟨r, (1/least − 𝓛⁻¹)r⟩ too much
        let (least, truth) =
            (h[0], (0..n * n).map(|k| s[k] * s[k] / (0.5 * (h[k / n] + h[k % n]))).sum::<f64>());
        let exact: Vec<Double> = s.iter().map(|x| Double::from(*x)).collect();
        for scale in [0.0, 0.5, 0.9, 1.2] {
            let solved = |k: usize| s[k] / (0.5 * (h[k / n] + h[k % n]));
            let x: Vec<Double> = (0..n * n).map(|k| Double::from(scale * solved(k))).collect();
            let mut r = vec![Double::ZERO; n * n];
            let (value, rest) = bound_from(&dense, n, Double::ZERO, &exact, &x, least, &mut r);
            let square: f64 = s.iter().map(|x| x * x).sum();
            let more = (1.0 - scale).powi(2) * (square / least - truth);
            let found = (value + rest).to_f64();
            assert!(
                (found - truth - more).abs() <= 1e-13 * (truth + more),
                "{scale}: {found} {truth} {more}"
            );
        }
        // s = h: 𝓛⁻¹h = (1 + c/h)⁻¹ in the eigenbasis, so that with c = 0 the norm is tr h
        let h = differences(9);
        let found = lyapunov_norm(&h, 9, Double::ZERO, &h, 0.09).to_f64();
        assert!((found - 18.0).abs() < 1e-13, "{found}");
    }
}
