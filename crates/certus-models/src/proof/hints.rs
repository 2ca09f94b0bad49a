//! The hints of a certificate, in plain numbers: a checker needs them to be good, not to be exact.

use certus::linalg;
use certus_check::{Certificate, Precision, Sums, triangle};

/// λ_m, λ_H, H_m⁻¹g and 𝓛⁻¹S in plain numbers, and the radius that the theorem needs with them.
pub(super) fn find(certificate: &mut Certificate) -> Option<f64> {
    let d = certificate.dim();
    let total = |part: usize, length: usize| {
        let add = |mut sum: Vec<f64>, (_, sums): &(_, Sums)| {
            sum.iter_mut().zip(&sums[part].parts).for_each(|(sum, x)| *sum += x);
            sum
        };
        certificate.blocks.iter().fold(vec![0.0; length], add)
    };
    let full = |lower: Vec<f64>| {
        let mut out = vec![0.0; d * d];
        for (i, row) in triangle(&lower).enumerate() {
            row.iter().enumerate().for_each(|(j, x)| (out[i * d + j], out[j * d + i]) = (*x, *x));
        }
        out
    };
    let (slope, prior) = prior_terms(certificate);
    let plus = |a: Vec<f64>| a.iter().zip(&prior).map(|(a, b)| a + b).collect::<Vec<f64>>();
    let g: Vec<f64> = total(0, d).iter().zip(&slope).map(|(a, b)| a + b).collect();
    let [s, h_m, h_c] = [1, 2, 3].map(|part| plus(full(total(part, d * (d + 1) / 2))));
    let mut s = s;
    s.iter_mut().step_by(d + 1).for_each(|x| *x -= 1.0);
    let c = (1.0 + certificate.radius / certificate.tau).powi(-2);
    let (of_m, u) = linalg::eigen(&h_m, d)?;
    // columns of u are eigenvectors
    let in_basis = |u: &[f64], v: &[f64]| -> Vec<f64> { u.chunks(d).map(|u| linalg::dot(u, v)).collect() };
    let turned: Vec<f64> = in_basis(&u, &g).iter().zip(&of_m).map(|(g, h)| g / h).collect();
    let x: Vec<f64> = (0..d).map(|i| (0..d).map(|k| u[k * d + i] * turned[k]).sum()).collect();
    let (of_c, u) = linalg::eigen(&h_c, d)?;
    let half: Vec<f64> = s.chunks(d).flat_map(|row| in_basis(&u, row)).collect();
    let mut middle = vec![0.0; d * d];
    for (i, a) in u.chunks(d).enumerate() {
        for j in 0..d {
            let both: f64 = (0..d).map(|k| a[k] * half[k * d + j]).sum();
            middle[i * d + j] = both / (0.5 * (of_c[i].max(0.0) + of_c[j].max(0.0)) + c);
        }
    }
    let mut left = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..d {
            left[i * d + j] = (0..d).map(|k| u[k * d + i] * middle[k * d + j]).sum();
        }
    }
    let entry = |i: usize, j: usize| (0..d).map(|k| left[i * d + k] * u[k * d + j]).sum::<f64>();
    let solution: Vec<f64> =
        (0..d).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
    // a little less than the eigenvalues, so that the factorisation succeeds
    certificate.lambda_mean = of_m[0] * (1.0 - 1e-6);
    certificate.lambda_factor = if of_c[0] > 1e-6 { of_c[0] * (1.0 - 1e-6) } else { 0.0 };
    if of_m[0].is_nan() || of_m[0] <= 0.0 {
        return Some(f64::INFINITY);
    }
    let whole = full(solution.clone());
    let rho_squared = linalg::dot(&g, &x) + linalg::dot(&s, &whole);
    let radii = |part: usize| certificate.blocks.iter().map(|(_, sums)| sums[part].rad).sum::<f64>();
    // what is known of the gradient only within its radius counts in full
    let rho = rho_squared.max(0.0).sqrt()
        + radii(0) / of_m[0].sqrt()
        + radii(1) / (certificate.lambda_factor + c).sqrt();
    let least = of_m[0].min((certificate.lambda_factor + c) / certificate.tau.powi(2));
    (certificate.solution_mean, certificate.solution_factor) = (x, solution);
    Some(rho / least.sqrt())
}

/// C′J(m − μ₀) and C′JC in plain numbers.
fn prior_terms(certificate: &Certificate) -> (Vec<f64>, Vec<f64>) {
    let d = certificate.dim();
    let mut factor = vec![0.0; d * d];
    for (i, row) in triangle(&certificate.factor).enumerate() {
        factor[i * d..][..=i].copy_from_slice(row);
    }
    let times = |v: &[f64]| -> Vec<f64> {
        match &certificate.model.prior_precision {
            Precision::Diagonal(j) => j.iter().zip(v).map(|(j, v)| j * v).collect(),
            Precision::Dense(j) => j.chunks(d).map(|row| linalg::dot(row, v)).collect(),
        }
    };
    let back =
        |v: &[f64]| -> Vec<f64> { (0..d).map(|i| (i..d).map(|k| factor[k * d + i] * v[k]).sum()).collect() };
    let moved: Vec<f64> =
        certificate.mean.iter().zip(&certificate.model.prior_mean).map(|(m, p)| m - p).collect();
    let column = |j: usize| (0..d).map(|i| factor[i * d + j]).collect::<Vec<f64>>();
    (back(&times(&moved)), (0..d).flat_map(|j| back(&times(&column(j)))).collect())
}
