//! Estimates with standard errors, from fresh draws; never a proof.

use crate::error::Error;
use crate::gaussian::Gaussian;
use crate::random::{Purpose, Random};
use crate::target::Target;

/// A Monte-Carlo estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean of the draws.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
}

/// The negative ELBO f(w) = E[−log p(z) + log q_w(z)], z ~ q_w, from `draws` points.
///
/// With z = m + C u the second term is −log det C − |u|²/2 − (d/2) log 2π, so only log p needs evaluating and the noise
/// vanishes when p is Gaussian and q_w equals it.
pub fn neg_elbo(target: &dyn Target, w: &Gaussian, draws: usize, seed: u64) -> Result<Estimate, Error> {
    if draws < 2 {
        return Err(Error::invalid(
            "the number of draws",
            draws,
            "at least 2 are needed for a standard error",
        ));
    }
    let dim = w.dim();
    let constant = -w.factor().log_det() - 0.5 * dim as f64 * (2.0 * std::f64::consts::PI).ln();
    let random = Random::new(seed, Purpose::Check, 0);
    const RUN: usize = 64;
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut u, mut z, mut g) = (vec![0.0; dim * RUN], vec![0.0; dim * RUN], vec![0.0; dim * RUN]);
    let mut values = vec![0.0; RUN];
    let mut first = None;
    for start in (0..draws).step_by(RUN) {
        let n = RUN.min(draws - start);
        let (u, z, g) = (&mut u[..n * dim], &mut z[..n * dim], &mut g[..n * dim]);
        random.normals(0, start as u64, dim, u);
        w.transform(u, z);
        target.log_density(z, &mut values[..n], g).map_err(Error::Target)?;
        for (k, (value, u)) in values[..n].iter().zip(u.chunks_exact(dim)).enumerate() {
            if !value.is_finite() {
                let place = format!("draw {} of {draws}", start + k);
                return Err(Error::NonFinite { what: "the log density", value: *value, place });
            }
            let term = constant - value - 0.5 * u.iter().map(|x| x * x).sum::<f64>();
            // shifted by the first term, so that the variance does not cancel
            let x = term - *first.get_or_insert(term);
            sum += x;
            squares += x * x;
        }
    }
    let n = draws as f64;
    let variance = ((squares - sum * sum / n) / (n - 1.0)).max(0.0);
    Ok(Estimate { value: first.unwrap_or(0.0) + sum / n, standard_error: (variance / n).sqrt() })
}
