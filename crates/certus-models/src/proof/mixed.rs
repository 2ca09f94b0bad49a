//! Certificates of where REML or ML has its maximum (docs/certificate-format.md, section 16), for few rows: Newton's
//! method with the derivatives of certus-check. Nothing here is trusted.

use certus::linalg;
use certus_check::{Column, MixedCertificate, Refusal, Rule, check, leaf};

use super::{encoded, refused};
use crate::error::Error;

/// Newton steps.
const STEPS: usize = 6;
/// Radii that are tried, in standard errors or so.
const RADII: [f64; 6] = [1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9];
/// In the frame of the inverse Hessian the least eigenvalue at the estimate is about 1.
const LAMBDA: f64 = 0.5;
/// What the distance of the ends is larger than what was found, for a checker that rounds otherwise.
const WIDER: f64 = 4.0;

fn words(refusal: Refusal) -> Error {
    refused(refusal.to_string())
}

/// The certificate with the rows: for every row its columns, for every term the group and the effects' columns, and the
/// response. `estimate` is the variance of the noise, then the triangle of every covariance matrix.
pub fn variance_maximum(
    restricted: bool,
    intercept: bool,
    columns: Vec<(String, f64, f64)>,
    terms: &[(String, u64)],
    rows: &[Vec<f64>],
    estimate: &[f64],
) -> Result<(MixedCertificate, Vec<u8>), Error> {
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    let k = estimate.len();
    let triangle = |entry: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..k).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect()
    };
    // to begin with, every parameter in units of the noise
    let unit = estimate[0];
    let mut out = MixedCertificate {
        restricted,
        rows: rows.len() as u64,
        root: leaf(&bytes),
        intercept,
        columns: columns
            .into_iter()
            .map(|(name, centre, scale)| Column { name: encoded(&name), centre, scale })
            .collect(),
        terms: terms.iter().map(|(name, effects)| (encoded(name), *effects)).collect(),
        estimate: estimate.to_vec(),
        factor: triangle(&|i, j| if i == j { unit } else { 0.0 }),
        radius: 1e-13,
        lambda: LAMBDA,
        between: vec![[0.0; 2]; k],
        data: Default::default(),
    };
    // read as others read it, so that what is not checkable is said here
    MixedCertificate::read(&out.write()).map_err(words)?;
    out.rows(0, &bytes).map_err(words)?;
    let mut best = None;
    for _ in 0..STEPS {
        let (gradient, lower) = out.derivatives().map_err(words)?;
        let mut hessian = vec![0.0; k * k];
        for (at, (i, j)) in (0..k).flat_map(|i| (0..=i).map(move |j| (i, j))).enumerate() {
            (hessian[j * k + i], hessian[i * k + j]) = (lower[at].mid, lower[at].mid);
        }
        if !linalg::cholesky(&mut hessian, k) {
            return Err(refused("the likelihood is not curved at its estimate"));
        }
        let mut step: Vec<f64> = gradient.iter().map(|ball| ball.mid).collect();
        linalg::solve_lower(&hessian, k, false, &mut step);
        let size = linalg::norm_squared(&step).sqrt();
        if best.as_ref().is_some_and(|(_, least)| size >= 0.5 * least) {
            break;
        }
        let lower = linalg::lower_of_inverse(&hessian, k);
        best = Some((
            MixedCertificate { factor: triangle(&|i, j| unit * lower[j * k + i]), ..out.clone() },
            size,
        ));
        linalg::solve_lower(&hessian, k, true, &mut step);
        out.estimate.iter_mut().zip(&step).for_each(|(theta, step)| *theta -= unit * step);
    }
    let (mut out, _) = best.ok_or_else(|| refused("the maximum was not found"))?;
    let mut why = refused("no radius leaves room for its gradient");
    for radius in RADII {
        out.radius = radius;
        match out.distance() {
            // room for a checker whose bounds are wider
            Ok(distance) if 4.0 * distance <= radius => {
                out.between = (0..k).map(|at| out.range(at, WIDER * distance)).collect();
                return Ok((out, bytes));
            }
            Ok(_) => break,
            // a smaller ball may do
            Err(refusal) => why = words(refusal),
        }
    }
    Err(why)
}

/// What certus-check says of a certificate that is read from its text, with its rows: an error unless it is proved.
pub fn judged(certificate: &MixedCertificate, rows: &[u8]) -> Result<(), Error> {
    let again = MixedCertificate::read(&certificate.write()).map_err(words)?;
    check(&again, Some(&mut &rows[..])).map(drop).map_err(words)
}
