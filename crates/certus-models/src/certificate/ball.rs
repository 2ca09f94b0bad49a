//! Constants of f in a ball around a Gaussian (Theorem G), and the iterations they promise for a gap before a run:
//! beside those of the global constants, which hold everywhere and are useless on real data.

use certus::theorem::{Anytime, Constants, Local, LocalParts, Problem};
use certus::{Family, Forecast, Gaussian, MethodName, Provenance, StepRule, linalg};

use super::dense::Dense;
use super::row::{Row, Upper, gamma};
use super::theorem::{Surroundings, THETAS};
use crate::error::{Declined, Error, NotFinite};
use crate::glm::Glm;
use crate::newton::dot;
use crate::rows;
use certus_likelihood::internals::vouched_by;

/// Rows up to which τ₀ and τ₂ are summed over pairs.
const PAIRS: usize = 3000;

/// Iterations of sticking the landing that are proved to bring the expected gap below a goal, per set of constants;
/// `None` where nothing is promised.
#[derive(Clone, Debug)]
pub struct Iterations {
    /// In the ball, greedy steps, with the reason if there is none.
    pub local: Result<u64, String>,
    /// Projected on W_M with our global constants, greedy steps.
    pub sharp: Option<u64>,
    /// Projected on W_M with the paper's a and our noise at the optimum (B4) for its b, the paper's steps.
    pub with_b4: Option<u64>,
    /// Projected on W_M with the paper's constants and steps.
    pub paper: Option<u64>,
}

/// Iterations of Algorithm 3 with the paper's a and steps, and b = 2b*/B of B4 instead of the paper's own: what its
/// theorem asks for once the noise at the optimum is known better.
pub fn iterations_with_b4(problem: &Problem, gap: f64) -> Option<u64> {
    let (mu, m) = (problem.strong_convexity, problem.smoothness);
    if mu <= 0.0 {
        return None;
    }
    let a = problem.stl_second_moment_paper(0.0).a;
    let b = problem.stl_second_moment().b;
    let anytime = Anytime { mu: 0.5 * mu, l: a / mu, sigma_squared: 0.5 * b };
    let iterations = anytime.iterations(problem.dim as f64 * (1.0 / mu - 1.0 / m), gap / m);
    (iterations < u64::MAX).then_some(iterations)
}

impl Glm {
    /// A ball in the frame y = C⁻¹(z − m) of w that provably contains the optimum over all Gaussians, with the
    /// constants of Theorem G on it; or the reason why there is none.
    pub fn ball(&self, w: &Gaussian) -> Result<Result<Local, Declined>, Error> {
        let at = Dense::over_all(self, w)?;
        let slope = at.slope(1.0);
        let mut radius = 1.01 * slope;
        for _ in 0..60 {
            if radius >= 1.0 {
                break;
            }
            let convexities = at.convexities(radius, 1.0, &THETAS)?;
            let curvature = convexities.iter().flatten().map(|b| b.mean.min(b.factor)).fold(0.0, f64::max);
            if curvature <= 0.0 {
                return Ok(Err(Declined::BallCurvature { radius }));
            }
            if slope <= curvature * radius {
                return Ok(Ok(at.constants(radius, curvature, slope)?));
            }
            radius = 1.01 * slope / curvature;
        }
        Ok(Err(Declined::BallGradient { slope }))
    }

    /// Iterations of batches of B draws that bring the expected gap below `gap`, from w as the centre and the start.
    pub fn iterations_to(&self, w: &Gaussian, gap: f64, batch: usize) -> Result<Iterations, Error> {
        let local = self.ball(w)?.map_err(|declined| declined.to_string()).and_then(|local| {
            let forecast = Forecast::local(&local, batch, StepRule::Greedy, 1).map_err(|e| e.to_string())?;
            forecast.iterations_for_gap(gap).map_err(Into::into)
        });
        let curvature = self.bounds().ok().flatten().filter(|c| c.strong_convexity() > 0.0);
        let problem = curvature.map(|c| Problem::new(self.dim(), &c, &Family::Symmetric, batch));
        let global = |constants: Constants, steps: StepRule| -> Option<u64> {
            let forecast = Forecast::global(MethodName::ProjStl, constants, problem.as_ref()?, steps, 1);
            forecast.ok()?.iterations_for_gap(gap).ok()
        };
        Ok(Iterations {
            local,
            sharp: global(Constants::Sharp, StepRule::Greedy),
            with_b4: problem.as_ref().and_then(|problem| iterations_with_b4(problem, gap)),
            paper: global(Constants::Paper, StepRule::Paper),
        })
    }
}

impl Dense<'_> {
    /// L, τ₀ and τ₂ on the ball: L = λ_max(J̃ + Σ λ_max(Q⁺) ã ãᵀ) + (1 − r)⁻², τ₀² = Σ c_n c_k |ã_n·ã_k|³, τ₂² = Σ c_n
    /// c_k |ã_n|²|ã_k|²|ã_n·ã_k| with c_n ≥ √E φ‴² there, A = (1+r)⁴τ₀², τ = (1+r)²τ₂.
    fn constants(&self, radius: f64, strong_convexity: f64, slope: f64) -> Result<Local, Error> {
        let (d, likelihood) = (self.dim(), self.model().likelihood());
        let grids = Upper::new(likelihood, self.placed().largest_sd(), radius);
        // two numbers of every row, kept however many there are: each takes two quadratures
        let mut numbers = vec![0.0; 2 * self.model().here().len()];
        self.placed().map(2, &mut numbers, &|rows, _, out| {
            for (row, out) in rows.iter().zip(out.chunks_exact_mut(2)) {
                let (curvature, third_derivative) =
                    row.upper(likelihood, &grids, radius).unwrap_or((f64::INFINITY, f64::INFINITY));
                out.copy_from_slice(&[curvature, third_derivative]);
            }
        })?;
        let most = numbers.as_chunks::<2>().0;
        let mut unknown = [f64::from(u8::from(most.iter().any(|m| !(m[0] + m[1]).is_finite())))];
        rows::most(self.model().design.rows(), &mut unknown);
        if unknown[0] > 0.0 {
            return Err(Declined::ThirdDerivative { likelihood: likelihood.name() }.into());
        }
        let (h, error) = self.curvature(1, &|k, _, out| out[0] = most[k][0])?.remove(0);
        let (_, top) = linalg::extreme_eigenvalues(&h, d)
            .ok_or(NotFinite::Quantity { what: "the curvature around q" })?;
        let top = top + error + gamma(16 * d + 64) * dot(&h, &h).sqrt();
        let (tau_0, tau_2) = self.tensor_norms(most)?;
        let s = (1.0 + radius).powi(2);
        let proved = likelihood.strip_is_proved();
        Ok(Local::new(LocalParts {
            center: Gaussian::isotropic(vec![0.0; d], 1.0, &Family::Symmetric)?,
            radius,
            strong_convexity,
            smoothness: (top + (1.0 - radius).powi(-2)) * (1.0 + 1e-12),
            bias: 0.0,
            spread: (s * tau_0).powi(2) * (1.0 + 1e-9),
            tilt: s * tau_2 * (1.0 + 1e-9),
            gradient_norm: slope,
            provenance: if proved { vouched_by(likelihood) } else { Provenance::Estimated },
        })?)
    }

    /// |Σ k ã ãᵀ|_F for two sets of weights ≥ 0, from above.
    fn gram_norms(&self, weight: &(impl Fn(usize, &Row) -> [f64; 2] + Sync)) -> Result<[f64; 2], Error> {
        let without_prior = |(mut h, error): (Vec<f64>, f64)| {
            h.iter_mut().zip(&self.prior).for_each(|(h, j)| *h -= j);
            dot(&h, &h).sqrt() * (1.0 + 1e-12) + 2.0 * error
        };
        let both = self.curvature(2, &|k, row, out| out.copy_from_slice(&weight(k, row)))?;
        let norms: Vec<f64> = both.into_iter().map(without_prior).collect();
        Ok([norms[0], norms[1]])
    }

    /// ã of every row that is here, one after the other.
    fn whitened_rows(&self) -> Result<Vec<f64>, Error> {
        let d = self.dim();
        let mut out = vec![0.0; self.model().here().len() * d];
        self.placed().map(d, &mut out, &|rows, at, out| {
            let n = rows.len();
            (0..n * d).for_each(|k| out[k] = at[(k % d) * n + k / d]);
        })?;
        Ok(out)
    }

    /// τ₀ and τ₂ over pairs of rows, or, for many rows, τ₀ ≤ |Σ c|ã| ããᵀ|_F and τ₂² ≤ (Σ c|ã|²)|Σ c|ã|²ããᵀ|_F.
    fn tensor_norms(&self, most: &[[f64; 2]]) -> Result<(f64, f64), Error> {
        let (d, model) = (self.dim(), self.model());
        let source = model.design.rows();
        let sd = |row: &Row| row.sd + row.delta;
        if source.len() > PAIRS {
            let weight = |k: usize, row: &Row| [most[k][1] * sd(row), most[k][1] * sd(row) * sd(row)];
            let [zero, two] = self.gram_norms(&weight)?;
            let total = self.placed().sum(1, &|first, rows, _, out| {
                out[0] = rows.iter().zip(&most[first..]).map(|(row, most)| most[1] * sd(row) * sd(row)).sum();
            })?;
            return Ok((zero, (total[0] * two).sqrt()));
        }
        let rows = self.placed().kept();
        // pairs need all rows: ã, c, sd and δ of each
        let width = d + 3;
        let own = self.whitened_rows()?;
        let each =
            |k: usize| own[k * d..][..d].iter().copied().chain([most[k][1], sd(&rows[k]), rows[k].delta]);
        let all = model.pool.everywhere(source, width, (0..rows.len()).flat_map(each).collect())?;
        let of = |k: usize| {
            let (at, rest) = all[k * width..][..width].split_at(d);
            (at, rest[0], rest[1], rest[2])
        };
        let pairs = |n: usize| {
            let (at_n, c_n, sd_n, delta_n) = of(n);
            let (mut zero, mut two) = (0.0, 0.0);
            for k in 0..source.len() {
                let (at_k, c_k, sd_k, delta_k) = of(k);
                let product = dot(at_n, at_k).abs() + delta_n * sd_k + delta_k * sd_n;
                zero += c_k * product.powi(3);
                two += c_k * sd_k * sd_k * product;
            }
            (c_n * zero, c_n * sd_n * sd_n * two)
        };
        let add = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
        let (zero, two) = certus::parallel::reduce(source.len(), 16, &pairs, &add).unwrap_or((0.0, 0.0));
        Ok((zero.sqrt(), two.sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Design, Memory, Prior};
    use certus_likelihood::Logistic;
    use std::sync::Arc;

    fn model(n: usize) -> Glm {
        let wave = |k: usize| (k as f64 * 1.3).sin() + (k as f64 * 0.37).cos();
        let rows = Memory {
            x: (0..3 * n).map(wave).collect(),
            y: (0..n).map(|i| f64::from(u8::from(i % 3 == 0))).collect(),
            columns: 3,
            ..Memory::default()
        };
        let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).expect("a prior");
        Glm::new(Design::new(Arc::new(rows), false), Arc::new(Logistic), prior).expect("a model")
    }

    /// The cheap norms bound the exact ones, which are those of the tensor itself.
    #[test]
    fn tensor_norms_against_brute_force() {
        let model = model(40);
        let w = model.solve_exactly().expect("an optimum").gaussian;
        let at = Dense::new(&model, &w).expect("finite");
        let most: Vec<[f64; 2]> = (0..40).map(|k| [0.0, 0.02 + 0.001 * k as f64]).collect();
        let (zero, two) = at.tensor_norms(&most).expect("finite");
        let a = at.whitened_rows().expect("kept");
        let (mut square_zero, mut square_two) = (0.0, 0.0);
        for n in 0..40 {
            for k in 0..40 {
                let norm = |i: usize| (0..3).map(|j| a[3 * i + j].powi(2)).sum::<f64>();
                let product = (0..3).map(|j| a[3 * n + j] * a[3 * k + j]).sum::<f64>().abs();
                square_zero += most[n][1] * most[k][1] * product.powi(3);
                square_two += most[n][1] * most[k][1] * norm(n) * norm(k) * product;
            }
        }
        assert!(
            (zero / square_zero.sqrt() - 1.0).abs() < 1e-9 && (two / square_two.sqrt() - 1.0).abs() < 1e-9
        );
        let weight = |k: usize, row: &Row| [most[k][1] * row.sd, most[k][1] * row.sd * row.sd];
        let [g0, g2] = at.gram_norms(&weight).expect("finite");
        let total: f64 = at.placed().kept().iter().enumerate().map(|(k, row)| weight(k, row)[1]).sum();
        assert!(g0 >= zero && total * g2 >= two * two);
    }

    /// μ_r and L bracket the curvature of f at random points of the ball, by second differences of the exact f; the
    /// gradient at the centre is within μ_r r.
    #[test]
    fn constants_hold_on_the_ball() {
        let model = model(60);
        let w = crate::laplace(&model).expect("a mode").gaussian;
        let local = model.ball(&w).expect("finite").expect("close enough");
        let (mu, l, r) = (local.strong_convexity(), local.smoothness(), local.radius());
        assert!(mu > 0.3 && l < 8.0 && r < 0.9, "{mu} {l} {r}");
        let c = w.factor().to_dense();
        let f = |x: &[f64]| {
            // x = (dm, six entries of a symmetric dC)
            let at = [[0, 1, 2], [1, 3, 4], [2, 4, 5]];
            let mut inner: Vec<f64> = (0..9)
                .map(|k| x[3 + at[k % 3][k / 3]] / if k % 3 == k / 3 { 1.0 } else { 2f64.sqrt() })
                .collect();
            inner.iter_mut().step_by(4).for_each(|v| *v += 1.0);
            let mut product = vec![0.0; 9];
            linalg::add_square_times(&c, 3, false, &inner, &mut product);
            let mut mean = w.mean().to_vec();
            linalg::add_square_times(&c, 3, false, &x[..3], &mut mean);
            let lower =
                certus::factor::Lower::new(3, linalg::lower_of_same_covariance(&product, 3)).expect("proper");
            let moved = Gaussian::new(mean, certus::Factor::Lower(lower)).expect("proper");
            model.neg_elbo(&moved).expect("finite")
        };
        let unit = |seed: u64| {
            let mut x = vec![0.0; 9];
            certus::random::Random::new(seed, certus::random::Purpose::Simulate, 0).normals(0, 0, 9, &mut x);
            let norm = dot(&x, &x).sqrt();
            x.iter_mut().for_each(|v| *v /= norm);
            x
        };
        let h = 1e-3;
        for seed in 0..60 {
            let (at, along) = (unit(seed), unit(1000 + seed));
            let value = |t: f64| {
                let x: Vec<f64> = at.iter().zip(&along).map(|(a, d)| (r - h) * a + t * d).collect();
                f(&x)
            };
            let second = (value(h) - 2.0 * value(0.0) + value(-h)) / (h * h);
            assert!(second >= mu * (1.0 - 1e-4) && second <= l, "{second} in [{mu}, {l}]");
        }
    }
}
