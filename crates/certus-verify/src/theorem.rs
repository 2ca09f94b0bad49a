//! Theorems D and A′ and the global bound (docs/maths.md, "The gap after the fact"), recomputed from a [`ClaimFrame`].

use super::double_double::Double;
use super::frame::ClaimFrame;
use super::matrix::{all_above, inverse_norm, least_eigenvalue, lyapunov_norm, slack};
use crate::error::Error;

/// What a theorem gives: a bound on the gap, |dm| and |dC| of the optimum.
#[derive(Clone, Copy, Debug)]
pub(super) struct TheoremBound {
    pub(super) bound: f64,
    pub(super) mean: f64,
    pub(super) factor: f64,
}

/// A theorem's answer, or the hypothesis that fails.
pub(super) type Answer = Result<Result<TheoremBound, String>, Error>;

/// H_m and H_C, each with its error, their least eigenvalues, those of h included, and c.
struct Curvature {
    mean: (Vec<Double>, f64),
    factor: (Vec<Double>, f64),
    own: Double,
    least_mean: f64,
    least_factor: f64,
}

/// The θ of a claim that does not name one.
pub(super) const THETA: f64 = 0.71;

/// k_m and k_C with [α β]Q⁻[α β]ᵀ + q₀|b⊥|² ≥ k_m α² + k_C |b|². By 2q₁αβ ≥ −θ|q₁|α² − |q₁|β²/θ the pair (q₀ − θ|q₁|,
/// min(q₀, q₂ − |q₁|/θ)) is one for every θ > 0, and 0 twice is another because Q ≥ 0. Each row moves θ as far as
/// needed for both to be λ_min(Q⁻)/2 at least.
fn split([q0, q1, q2]: [f64; 3], theta: f64) -> (f64, f64) {
    let floor = 0.5 * (0.5 * (q0 + q2) - (0.5 * (q0 - q2)).hypot(q1));
    if floor.is_nan() || floor <= 0.0 {
        return (0.0, 0.0);
    }
    // AM-GM is valid for every θ > 0, so each row may have its own
    let least = q1 / (q2 - floor);
    let most = if q1 > 0.0 { (q0 - floor) / q1 } else { f64::INFINITY };
    let own = theta.min(most).max(least);
    let factor = if q1 > 0.0 { q2 - q1 / own } else { q2 };
    (q0 - own * q1, q0.min(factor))
}

impl ClaimFrame<'_> {
    /// H_m and H_C and their least eigenvalues, or which of them is not positive definite. `own` is the curvature of h:
    /// on every entry of a symmetric factor, on the diagonal of a pattern.
    fn weigh(&self, weights: &[(f64, f64)], own: Double) -> Result<Curvature, String> {
        let d = self.mean.len();
        let mean = self.curvature(weights.iter().map(|k| k.0));
        let factor = self.curvature(weights.iter().map(|k| k.1));
        let failed = |what: &str| format!("the curvature {what} is not proved to be positive");
        let least_mean = least_eigenvalue(&mean.0, d).map(|l| l - mean.1).filter(|l| *l > 0.0);
        let least_mean = least_mean.ok_or_else(|| failed("in the mean (H_m)"))?;
        let least_factor = match &self.columns {
            // λ_C = λ_min(H_C + c I)
            None => {
                let mut shifted = factor.0.clone();
                (0..d).for_each(|i| shifted[i * (d + 1)] += own);
                least_eigenvalue(&shifted, d)
            }
            Some(columns) => {
                let mut least = Some(f64::INFINITY);
                for j in 0..columns.len() {
                    let part = self.column(&factor.0, j, own);
                    // only a column below all others so far is worth a bisection
                    least = least.and_then(|l| {
                        let n = columns[j].len();
                        let above = l.is_finite() && all_above(&part, n, l);
                        if above { Some(l) } else { least_eigenvalue(&part, n).map(|own| own.min(l)) }
                    });
                }
                least
            }
        };
        let least_factor = least_factor.map(|l| l - factor.1).filter(|l| *l > 0.0);
        let least_factor = least_factor.ok_or_else(|| failed("in the factor (H_C)"))?;
        Ok(Curvature { mean, factor, own, least_mean, least_factor })
    }

    /// H_C[rows(j)] + c e_j e_jᵀ.
    fn column(&self, h: &[Double], j: usize, own: Double) -> Vec<Double> {
        let d = self.mean.len();
        let rows = self.columns.as_ref().map_or(&[][..], |c| &c[j]);
        let mut part: Vec<Double> =
            rows.iter().flat_map(|&r| rows.iter().map(move |&c| h[r * d + c])).collect();
        // rows are sorted, so that j comes first
        part[0] += own;
        part
    }

    /// ρ = √(g_mᵀH_m⁻¹g_m + |S|²_C), errors included. H is known within e, so that H ≥ (1 + e/λ)⁻¹ of what was
    /// computed.
    fn rho(&self, at: &Curvature) -> Result<f64, String> {
        let d = self.mean.len();
        let grown = |(h, error): &(Vec<Double>, f64), least: f64| 1.0 + (error + slack(h, d)) / least;
        let (grown_mean, grown_factor) = (grown(&at.mean, at.least_mean), grown(&at.factor, at.least_factor));
        if !(grown_mean < 1.001 && grown_factor < 1.001) {
            return Err(
                "the curvature is too ill-conditioned to be inverted in double-double arithmetic".into()
            );
        }
        let lost = || "a matrix that was positive definite could not be inverted".to_string();
        let mean = inverse_norm(&at.mean.0, d, &self.mean).ok_or_else(lost)?;
        let factor = match &self.columns {
            None => lyapunov_norm(&at.factor.0, d, at.own, &self.factor, at.least_factor),
            Some(columns) => {
                let mut sum = Double::ZERO;
                for (j, rows) in columns.iter().enumerate() {
                    let part = self.column(&at.factor.0, j, at.own);
                    let s: Vec<Double> = rows.iter().map(|&i| self.factor[i * d + j]).collect();
                    sum += inverse_norm(&part, rows.len(), &s).ok_or_else(lost)?;
                }
                sum
            }
        };
        let exact = mean * Double::from(grown_mean) + factor * Double::from(grown_factor);
        Ok(exact.sqrt().to_f64() * (1.0 + 1e-15)
            + self.mean_error / at.least_mean.sqrt()
            + self.factor_error / at.least_factor.sqrt())
    }

    /// The curvature on E_r, c = (1 + r/√ω)⁻².
    fn within(&mut self, radius: f64, omega: f64, theta: f64) -> Result<Result<Curvature, String>, Error> {
        let weights: Vec<(f64, f64)> =
            self.lower(radius, omega)?.into_iter().map(|q| split(q, theta)).collect();
        let stretch = Double::ONE + Double::from(radius) / Double::from(omega).sqrt();
        Ok(self.weigh(&weights, Double::ONE / (stretch * stretch)))
    }

    /// Theorem D at a given radius: if ρ ≤ r√min(λ_m, λ_C/ω) then f(w) − f* ≤ ρ²/2, |dm| ≤ ρ/√λ_m and |dC| ≤ ρ/√λ_C.
    pub(super) fn theorem_d(&mut self, radius: f64, omega: f64, theta: f64) -> Answer {
        let at = match self.within(radius, omega, theta)? {
            Ok(at) => at,
            Err(reason) => return Ok(Err(reason)),
        };
        let rho = match self.rho(&at) {
            Ok(rho) => rho,
            Err(reason) => return Ok(Err(reason)),
        };
        let reached = radius * at.least_mean.min(at.least_factor / omega).sqrt();
        if rho.is_nan() || rho > reached {
            return Ok(Err(format!(
                "the radius {radius:.3e} is too small: Theorem D requires ρ = {rho:.3e} to be at most {reached:.3e}"
            )));
        }
        Ok(Ok(TheoremBound {
            bound: 0.5 * rho * rho,
            mean: rho / at.least_mean.sqrt(),
            factor: rho / at.least_factor.sqrt(),
        }))
    }

    /// D1 in matrix form: J̃ + Σ θ_min ããᵀ curves mean and factor everywhere, and h is convex.
    pub(super) fn everywhere(&self) -> Answer {
        let weights: Vec<(f64, f64)> = self.second_derivative_mins().into_iter().map(|k| (k, k)).collect();
        let found = self.weigh(&weights, Double::ZERO).and_then(|at| {
            let rho = self.rho(&at)?;
            Ok(TheoremBound {
                bound: 0.5 * rho * rho,
                mean: rho / at.least_mean.sqrt(),
                factor: rho / at.least_factor.sqrt(),
            })
        });
        Ok(found)
    }

    /// Theorem A′: with μ(s) = min(λ_m, λ_C/ω) on E_s and G = √(|g_m|² + |S|²/ω), ∫₀^ρ* μ = G gives |w* − w| ≤ ρ* and a
    /// gap of at most ∫₀^ρ* (G − ∫₀ˢ μ) ds. μ is replaced by its value at the right end of steps of G/μ(0)/20.
    pub(super) fn theorem_a_prime(&mut self, omega: f64, theta: f64) -> Answer {
        const STEPS: f64 = 20.0;
        let slope = self.slope(omega);
        let start = match self.within(0.0, omega, theta)? {
            Ok(at) => at.least_mean.min(at.least_factor / omega),
            Err(reason) => return Ok(Err(reason)),
        };
        let step = slope / start / STEPS;
        let (mut bound, mut climbed, mut count) = (0.0, 0.0, 0.0);
        loop {
            let radius = (count + 1.0) * step;
            if radius.is_nan() || radius >= omega.sqrt() {
                return Ok(Err(format!("the gradient ({slope:.3e}) is not outweighed within radius √ω")));
            }
            let mu = match self.within(radius, omega, theta)? {
                Ok(at) => at.least_mean.min(at.least_factor / omega),
                Err(reason) => return Ok(Err(format!("within radius {radius:.3e} {reason}"))),
            };
            let left = slope - climbed;
            if mu * step >= left {
                let last = left / mu;
                bound += left * last - 0.5 * mu * last * last;
                let distance = count * step + last;
                return Ok(Ok(TheoremBound {
                    bound: bound * (1.0 + 1e-12),
                    mean: distance * (1.0 + 1e-12),
                    factor: distance * (1.0 + 1e-12) / omega.sqrt(),
                }));
            }
            bound += left * step - 0.5 * mu * step * step;
            climbed += mu * step;
            count += 1.0;
        }
    }
}
