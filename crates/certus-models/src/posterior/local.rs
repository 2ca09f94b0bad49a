//! The log-Sobolev bound on a ball around q, where −log p is curved most, with the mass outside bounded by the envelope
//! (math: D5).

use certus::certificate::{Posterior, Statement, fisher_bound};
use certus::random::{Purpose, Random};
use certus::theorem::chi_square;
use certus::{Gaussian, Target, linalg, parallel};

use super::PosteriorSettings;
use crate::certificate::Certified;
use crate::envelope::frame::EnvelopeFrame;
use crate::envelope::shells::{Growing, STEP, log_sphere};
use crate::envelope::{ROUNDING, with_quadrature};
use crate::error::{Error, NotFinite};
use crate::exact::{congruent, lower};
use crate::glm::Glm;
use crate::glm::curvature::{self, bracket, ulps};
use certus_likelihood::internals::vouched_by;

/// Stream numbers, apart from those of other checks.
const PILOT_STREAM: u64 = 0xD5 << 32;
const STREAM: u64 = PILOT_STREAM + 1;
/// Draws that choose the ball; none of them is used again.
const PILOT: usize = 256;
/// Draws evaluated together.
const BATCH: usize = 256;
/// Most coefficients: some hundred d × d matrices are kept.
const LARGEST: usize = 200;
/// Radii whose curvature is found in one pass over the rows, how many of them become one ball, and the most passes.
const RADII: usize = 64;
const APART: usize = 4;
const PASSES: usize = 32;
/// Larger balls are not looked at once so little of q and of p is outside.
const NEGLIGIBLE: f64 = 1e-13;

/// A ball |u| ≤ R in the frame z = m + Cu of q, and what is known of it.
struct Ball {
    radius: f64,
    /// The lower Cholesky factor of (a bit less than) CᵀJ_R C.
    root: Vec<f64>,
    /// k ≤ λ_min(CᵀJ_R C).
    least: f64,
    /// Q = P(χ²_d ≤ R²) and 1 − Q.
    inside: f64,
    outside: f64,
    /// η_j ≥ ∫_{|u|>R} |u|ʲ p, j = 0, 1, 2.
    tails: [f64; 3],
}

/// How fast the residual s(u) = ∇ψ(u) − u can change, and what rounding may do to it.
struct Residual {
    lipschitz: f64,
    rounding: f64,
}

/// E sᵀ(CᵀJ_R C)⁻¹s and E|s|².
#[derive(Clone, Copy, Debug)]
struct Fisher {
    ball: f64,
    whole: f64,
}

/// KL(q ‖ p) from the draws of `settings` (math: D5); `Posterior::none` with the reason where it cannot be had.
pub fn local(model: &Glm, q: &Gaussian, settings: &PosteriorSettings) -> Result<Posterior, Error> {
    settings.check(q, model.dim())?;
    let d = model.dim();
    if d > LARGEST {
        return Ok(Posterior::none(format!("{d} coefficients, but at most {LARGEST} are possible")));
    }
    let q = lower(q)?;
    let Some(residual) = Residual::new(model, &q)? else {
        let name = model.likelihood.name();
        return Ok(Posterior::none(format!("the curvature of the {name} likelihood has no upper bound")));
    };
    let neg_elbo = model.neg_elbo(&q)?;
    let balls = match balls(model, &q, neg_elbo)? {
        Ok(balls) => balls,
        Err(reason) => return Ok(Posterior::none(reason)),
    };
    let pilot = residuals(model, &q, settings.seed, PILOT_STREAM, 0, PILOT)?;
    // the ball is a function of the pilot alone
    let promise = |ball: &Ball| {
        ball.bound(residual.bounded(ball, ball.sums(&pilot, d), settings.draws, settings.delta))
    };
    let best = balls.iter().min_by(|a, b| promise(a).total_cmp(&promise(b)));
    let Some(ball) = best else {
        return Ok(Posterior::none("there is no ball on which −log p is curved and beyond which p is small"));
    };
    stated(model, &q, ball, &residual, neg_elbo, settings)
}

/// The statements of one ball, from fresh draws.
fn stated(
    model: &Glm,
    q: &Gaussian,
    ball: &Ball,
    residual: &Residual,
    neg_elbo: f64,
    settings: &PosteriorSettings,
) -> Result<Posterior, Error> {
    let sums = fresh(model, q, ball, settings)?;
    let fisher = residual.bounded(ball, sums, settings.draws, settings.delta);
    let bound = ball.bound(fisher);
    let word = vouched_by(&*model.likelihood).vouched().expect("a model or a user vouches");
    let statement =
        Statement::probable("D5", bound, settings.delta, &word, "curvature on a ball and along rays")
            .with("R", ball.radius)
            .with("k", ball.least)
            .with("1 - Q", ball.outside)
            .with("eta", ball.tails[0])
            .with("Lipschitz constant of the residual", residual.lipschitz)
            .with("Fisher information on the ball", fisher.ball)
            .with("Fisher information", fisher.whole)
            .with("draws", settings.draws as f64);
    let statement = with_quadrature(&*model.likelihood, statement);
    if statement.bound().is_none() {
        return Ok(Posterior { statement, log_evidence: None, mean_error: None, sd_error: None });
    }
    let (mean_error, sd_error) = ball.errors(fisher, q.dim());
    let rounding = ROUNDING * (1.0 + neg_elbo.abs()) + model.exact_value(q)?.error;
    Ok(Posterior {
        statement,
        log_evidence: Some((-neg_elbo - rounding, bound - neg_elbo + rounding)),
        mean_error: Some(mean_error),
        sd_error: Some(sd_error),
    })
}

impl Ball {
    /// D5. KL ≤ E sᵀ(CᵀJ_R C)⁻¹s/(2Q) + √(E|s|² (1 − Q)/(2Q)) + log Q − log(1 − η).
    fn bound(&self, fisher: Fisher) -> f64 {
        let eta = self.tails[0];
        if eta >= 1.0 || self.inside <= 0.0 {
            return f64::INFINITY;
        }
        let curved = fisher.ball / (2.0 * self.inside);
        let cut = (fisher.whole * self.outside / (2.0 * self.inside)).sqrt();
        (curved + cut + (-self.outside).ln_1p() - (-eta).ln_1p()).max(0.0) + 1e-12
    }

    /// D5. With b² = E sᵀ(CᵀJ_R C)⁻¹s/(Qk): means within b + η₁ sds of q; sds between √(1 − η)(t − b) and
    /// √((t + b)² + η₂ + 2cη₁ + c²η) of q's, t² = P(χ²_{d+2} ≤ R²)/Q the variance of q on the ball, c = min(b, R).
    fn errors(&self, fisher: Fisher, dim: usize) -> (f64, f64) {
        let [eta, first, second] = self.tails;
        let b = (fisher.ball / (self.inside * self.least)).sqrt();
        let square = self.radius * self.radius;
        let t = ((1.0 - chi_square::survival(dim + 2, square)) / self.inside).max(0.0).sqrt();
        let low = (1.0 - eta).sqrt() * (t - b).max(0.0);
        let c = b.min(self.radius);
        let high = ((t + b).powi(2) + second + 2.0 * c * first + c * c * eta).sqrt();
        (b + first + 1e-12, (1.0 - low).max(high - 1.0) + 1e-12)
    }

    /// Means of |root⁻¹s|² and |s|² over the columns of `residuals`.
    fn sums(&self, residuals: &[f64], dim: usize) -> Fisher {
        let mut turned = residuals.to_vec();
        linalg::solve_lower(&self.root, dim, false, &mut turned);
        let n = (residuals.len() / dim) as f64;
        let square = |x: &[f64]| x.iter().map(|v| v * v).sum::<f64>();
        Fisher { ball: square(&turned) / n, whole: square(residuals) / n }
    }
}

impl Residual {
    /// s has the derivative CᵀHC − I, of norm ρ = max(1 − λ_min(CᵀJC), λ_max(CᵀUC) − 1) at most; `None` if H has no
    /// upper bound.
    fn new(model: &Glm, q: &Gaussian) -> Result<Option<Self>, Error> {
        let (d, c) = (q.dim(), q.factor().to_dense());
        let Some((least, most)) = curvature::extremes(model)? else { return Ok(None) };
        let (_, top) = bracket(&most, d)?;
        let slack = ulps(d) * top * linalg::norm_squared(&c);
        let (low, _) = bracket(&congruent(&least, &c, true, d), d)?;
        let (_, high) = bracket(&congruent(&most, &c, true, d), d)?;
        let (low, high) = ((low - slack).max(0.0), high + slack);
        // z is rounded by ulps of |m| + |C||u|, which the gradient magnifies by its curvature
        let size = (linalg::norm_squared(q.mean()) + linalg::norm_squared(&c)).sqrt();
        let rounding =
            32.0 * d as f64 * f64::EPSILON * (top * size * linalg::norm_squared(&c).sqrt() + d as f64);
        Ok(Some(Self { lipschitz: (1.0 - low).max(high - 1.0).max(0.0), rounding }))
    }

    /// D3 for both Fisher informations, half of δ each; ρ/√k for the one on the ball.
    fn bounded(&self, ball: &Ball, mean: Fisher, draws: usize, delta: f64) -> Fisher {
        let upper = |mean: f64, scale: f64| {
            fisher_bound(mean, scale * self.lipschitz, scale * self.rounding, draws, 0.5 * delta)
        };
        Fisher { ball: upper(mean.ball, 1.0 / ball.least.sqrt()), whole: upper(mean.whole, 1.0) }
    }
}

/// Balls of growing radius, or why there are none. −log p grows along rays at least like D6's ID, so that
/// η_j = e^{f − ψ(0)} det C |S^{d−1}| ∫_R^∞ s^{d−1+j} e^{−ID(s)} ds, because the evidence is at least e^{−f}.
fn balls(model: &Glm, q: &Gaussian, neg_elbo: f64) -> Result<Result<Vec<Ball>, String>, Error> {
    let d = q.dim();
    let Some(frame) = EnvelopeFrame::new(model, q.mean(), q.factor())? else {
        return Ok(Err("−log p is not strictly convex at the mean of q".into()));
    };
    // the frame of the envelope is that of q times `unit`
    let unit = frame.gaussian.factor().diagonal(0) / q.factor().diagonal(0);
    let slack = ROUNDING * (2.0 + neg_elbo.abs() + frame.value.abs()) + 2.0 * frame.rounding;
    let scale = neg_elbo - frame.value + frame.gaussian.factor().log_det() + log_sphere(d) + slack;
    let mut growing = Growing::new(d, frame.slope);
    let mut balls = Vec::new();
    for pass in 0..PASSES {
        let radii: Vec<f64> = (1..=RADII).map(|i| (pass * RADII + i) as f64 * STEP).collect();
        for (i, mut matrix) in frame.on_balls(&radii)?.into_iter().enumerate() {
            let (least, most) = bracket(&matrix, d)?;
            growing.extend(frame.along_rays(least, radii[i]).max(0.0));
            if (i + 1) % APART != 0 || least <= 0.0 {
                continue;
            }
            let tails = [0, 1, 2].map(|j| (scale + growing.tail(j).ln()).exp() * unit.powi(j as i32));
            let radius = radii[i] * unit;
            let outside = chi_square::survival(d, radius * radius) * (1.0 + 1e-10);
            // a matrix below CᵀJ_R C in spite of rounding
            matrix.iter_mut().step_by(d + 1).for_each(|x| *x -= ulps(d) * most);
            if tails[0] < 1.0 && outside < 1.0 && linalg::cholesky(&mut matrix, d) {
                matrix.iter_mut().for_each(|x| *x /= unit);
                let least = least / (unit * unit);
                balls.push(Ball { radius, root: matrix, least, inside: 1.0 - outside, outside, tails });
            }
            if tails[0] < NEGLIGIBLE && outside < NEGLIGIBLE {
                return Ok(Ok(balls));
            }
        }
        if growing.hopeless() {
            break;
        }
    }
    if balls.is_empty() {
        let (radius, slope) = (growing.radius() * unit, growing.slope());
        return Ok(Err(format!(
            "no ball holds most of the posterior for sure: at R = {radius:.1} −log p grows with the slope {slope:.1e} \
                at least"
        )));
    }
    Ok(Ok(balls))
}

/// s = Cᵀ∇φ(m + Cu) − u at draws `first..first + n` of a stream, d × n.
fn residuals(
    model: &Glm,
    q: &Gaussian,
    seed: u64,
    stream: u64,
    first: usize,
    n: usize,
) -> Result<Vec<f64>, Error> {
    let d = q.dim();
    let (mut u, mut z) = (vec![0.0; d * n], vec![0.0; d * n]);
    let (mut values, mut gradients) = (vec![0.0; n], vec![0.0; d * n]);
    Random::new(seed, Purpose::Check, 0).normals(stream, first as u64, d, &mut u);
    q.transform(&u, &mut z);
    model.log_density(&z, &mut values, &mut gradients).map_err(certus::Error::Target)?;
    // −s = u + Cᵀ∇ log p, of the same norm
    q.factor().add_apply_transpose(&gradients, &mut u);
    match u.iter().position(|x| !x.is_finite()) {
        Some(k) => {
            let (what, place) = ("the gradient of log(q/p)", format!("draw {}", first + k / d));
            Err(NotFinite::Value { what, value: u[k], place }.into())
        }
        None => Ok(u),
    }
}

/// The means over the draws of the settings; the same bits for any number of threads.
fn fresh(model: &Glm, q: &Gaussian, ball: &Ball, settings: &PosteriorSettings) -> Result<Fisher, Error> {
    let (d, draws) = (q.dim(), settings.draws);
    let batch = |index: usize| -> Result<Fisher, Error> {
        let n = BATCH.min(draws - index * BATCH);
        let means = ball.sums(&residuals(model, q, settings.seed, STREAM, index * BATCH, n)?, d);
        let share = n as f64 / draws as f64;
        Ok(Fisher { ball: means.ball * share, whole: means.whole * share })
    };
    let join = |a: Result<Fisher, Error>, b: Result<Fisher, Error>| {
        let (a, b) = (a?, b?);
        Ok(Fisher { ball: a.ball + b.ball, whole: a.whole + b.whole })
    };
    parallel::reduce(draws.div_ceil(BATCH), model.grain(), &batch, &join)
        .expect("there are at least two draws")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Design, Memory, Prior};
    use certus::factor::{Factor, Lower};
    use certus_likelihood::{Likelihood, Logistic, NegativeBinomial, Probit};
    use std::sync::Arc;

    fn cases() -> Vec<(Glm, Gaussian)> {
        let likelihoods: [Arc<dyn Likelihood>; 3] =
            [Arc::new(Logistic), Arc::new(Probit), Arc::new(NegativeBinomial::new(1.5).expect("valid"))];
        let x = vec![1.0, -0.5, 2.0, 0.3, -1.2, 0.8, 1.5];
        let y = vec![1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0];
        let rows = Arc::new(Memory { x, y, columns: 1, ..Memory::default() });
        let mut out = Vec::new();
        for likelihood in likelihoods {
            for (shift, scale) in [(0.0, 1.0), (1.5, 0.5), (-1.2, 0.6), (0.3, 1.5)] {
                let prior = Prior::independent(vec![0.3], &[4.0]).expect("a prior");
                let model =
                    Glm::new(Design::new(rows.clone(), false), likelihood.clone(), prior).expect("a model");
                let best = crate::laplace(&model).expect("a mode").gaussian;
                let factor = Factor::Lower(Lower::new(1, vec![scale * best.sd()[0]]).expect("finite"));
                let q = Gaussian::new(vec![best.mean()[0] + shift * best.sd()[0]], factor).expect("finite");
                out.push((model, q));
            }
        }
        out
    }

    /// On a grid of u: spacing, u, ψ, ψ′ by the model, p (normalised), the standard normal.
    struct Line {
        u: Vec<f64>,
        slope: Vec<f64>,
        p: Vec<f64>,
        normal: Vec<f64>,
        kl: f64,
    }

    const WIDTH: f64 = 1e-3;

    impl Line {
        fn new(model: &Glm, q: &Gaussian) -> Self {
            let u: Vec<f64> = (-40_000..=40_000).map(|i| f64::from(i) * WIDTH).collect();
            let (c, n) = (q.sd()[0], u.len());
            let mut z = vec![0.0; n];
            q.transform(&u, &mut z);
            let (mut values, mut gradients) = (vec![0.0; n], vec![0.0; n]);
            model.log_density(&z, &mut values, &mut gradients).expect("finite");
            let top = values.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
            let total: f64 = values.iter().map(|v| (v - top).exp()).sum::<f64>() * WIDTH;
            let evidence = top + total.ln() + c.ln();
            Self {
                slope: gradients.iter().map(|g| -c * g).collect(),
                p: values.iter().map(|v| (v - top).exp() / total).collect(),
                normal: u
                    .iter()
                    .map(|u| (-0.5 * u * u).exp() / (2.0 * std::f64::consts::PI).sqrt())
                    .collect(),
                kl: evidence + model.neg_elbo(q).expect("finite"),
                u,
            }
        }

        fn mean(&self, density: &[f64], f: impl Fn(usize) -> f64) -> f64 {
            (0..self.u.len()).map(|i| density[i] * f(i)).sum::<f64>() * WIDTH
        }
    }

    /// Every ball of twelve problems: k is below the curvature on it, η_j above the mass outside, and the bound with
    /// the exact Fisher informations is the formula with Q from erf, above the divergence; means and sds are inside
    /// their bounds. Leaving out η would not be noticed by a q near the mode, so some balls must be seen where it
    /// decides.
    #[test]
    fn every_ball_in_one_dimension() {
        let mut decided = 0;
        for (model, q) in cases() {
            let line = Line::new(&model, &q);
            let neg_elbo = model.neg_elbo(&q).expect("finite");
            let found = balls(&model, &q, neg_elbo).expect("finite").expect("balls");
            let whole = line.mean(&line.normal, |i| (line.slope[i] - line.u[i]).powi(2));
            let residual = Residual::new(&model, &q).expect("finite").expect("bounded");
            let curvature = |i: usize| (line.slope[i + 1] - line.slope[i]) / WIDTH;
            let steepest = (0..line.u.len() - 1).map(|i| (curvature(i) - 1.0).abs()).fold(0.0, f64::max);
            assert!(steepest <= residual.lipschitz + 1e-6, "{steepest} {}", residual.lipschitz);
            assert!(found.len() > 10);
            for ball in &found {
                let name = format!("{} R = {:.2}", model.likelihood().name(), ball.radius);
                let within = (0..line.u.len() - 1)
                    .filter(|i| line.u[*i].abs().max(line.u[i + 1].abs()) <= ball.radius);
                let flattest = within.map(curvature).fold(f64::INFINITY, f64::min);
                assert!(ball.least <= flattest + 1e-6, "{name}: {} {flattest}", ball.least);
                assert!((ball.root[0].powi(2) / ball.least - 1.0).abs() < 1e-9, "{name}");
                for j in 0..3 {
                    let mass = line.mean(&line.p, |i| {
                        let size = line.u[i].abs();
                        if size > ball.radius { size.powi(j) } else { 0.0 }
                    });
                    assert!(ball.tails[j as usize] >= mass - 1e-9, "{name}: {:?} {mass}", ball.tails);
                }
                // beyond R, |u| > R
                let grown = |j: usize| ball.tails[j] >= ball.radius * ball.tails[j - 1] * (1.0 - 1e-9);
                assert!(grown(1) && grown(2), "{name}: {:?}", ball.tails);
                let cut = libm::erfc(ball.radius / 2f64.sqrt());
                let fisher = Fisher { ball: whole / ball.least, whole };
                let without = fisher.ball / (2.0 * (1.0 - cut))
                    + (whole * cut / (2.0 * (1.0 - cut))).sqrt()
                    + (1.0 - cut).ln();
                let want = without - (1.0 - ball.tails[0]).ln();
                let bound = ball.bound(fisher);
                assert!((bound - want).abs() < 1e-8 * (1.0 + want), "{name}: {bound} {want}");
                assert!(bound >= line.kl, "{name}: {bound} < {}", line.kl);
                decided += usize::from(without < line.kl);
                let mean = line.mean(&line.p, |i| line.u[i]);
                let sd = (line.mean(&line.p, |i| line.u[i].powi(2)) - mean * mean).sqrt();
                let (mean_error, sd_error) = ball.errors(fisher, 1);
                assert!(mean.abs() <= mean_error + 1e-9, "{name}: {mean} {mean_error}");
                assert!((sd - 1.0).abs() <= sd_error + 1e-9, "{name}: {sd} {sd_error}");
            }
        }
        assert!(decided > 0);
    }

    /// δ is kept: with δ = 0.1 at most 0.1 · 300 + 4 sd of 300 checks of ten draws lie below the exact Fisher
    /// informations.
    #[test]
    fn coverage() {
        for (model, q) in cases().into_iter().take(4) {
            let line = Line::new(&model, &q);
            let whole = line.mean(&line.normal, |i| (line.slope[i] - line.u[i]).powi(2));
            let residual = Residual::new(&model, &q).expect("finite").expect("bounded");
            let neg_elbo = model.neg_elbo(&q).expect("finite");
            let found = balls(&model, &q, neg_elbo).expect("finite").expect("balls");
            let ball = &found[found.len() / 2];
            let missed = (0..300)
                .filter(|seed| {
                    let settings = PosteriorSettings { draws: 10, delta: 0.1, seed: *seed };
                    let sums = fresh(&model, &q, ball, &settings).expect("finite");
                    let upper = residual.bounded(ball, sums, 10, 0.1);
                    upper.whole < whole || upper.ball < whole / ball.least
                })
                .count();
            assert!(missed <= 30 + 21, "{missed}");
        }
    }
}
