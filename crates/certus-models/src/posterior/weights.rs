//! The tail of the importance weights (D8) for models: attempts with more and more pairs until what is printed is known
//! well enough.

use certus::certificate::weights::{
    EnclosedFunction, LatentFunctions, WeightCertificate, WeightObstacle, WeightProblem, WeightSettings,
    WeightsDeclined,
};
use certus::certificate::words::{AT_LEAST, downward, probability, upward};
use certus::certificate::{Posterior, Statement, figure};
use certus::diagnostics::WeightedDraws;
use certus::{Gaussian, linalg};
use certus_likelihood::Likelihood;
use certus_likelihood::internals::vouched_by;

use crate::auto::Model;
use crate::certificate::bracket::Value;
use crate::envelope::{ROUNDING, with_quadrature};
use crate::error::{Error, InvalidModel};
use crate::exact::congruent;
use crate::glm::Glm;

/// Attempt k has 2,000 · 4ᵏ pairs.
const PAIRS: f64 = 2000.0;
/// The largest k: 2 million pairs.
const LAST: i32 = 5;
/// The smallest k, and that where rows are so many that nothing larger can be paid for: 500 pairs.
const USUAL: i32 = 1;
const FEWEST: i32 = -1;
/// The number of attempt −1: streams of draws have none that is negative.
const OF_FEWEST: u64 = 63;
/// Pairs of [`sixteen_pairs`], and their attempt, which is no k.
const SIXTEEN: usize = 16;
const OF_SIXTEEN: u64 = 62;
/// Pairs of [`enclosed_functions`], at least, and its attempts, which are no k: this and those above.
const FUNCTION_PAIRS: usize = 8000;
const OF_FUNCTIONS: u64 = 64;
/// Beyond this dimension the eigenvalues of the prior in the frame of q take minutes, and 0 must do.
const LARGEST: usize = 1000;

/// Whose errors are to be small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    /// q's own means and sds.
    Gaussian,
    /// Those that the weights correct.
    Corrected,
}

/// How well the posterior is to be known, and what that may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightGoal {
    /// Means are to be within this many of q's sds, sds within this part of them.
    pub accuracy: f64,
    /// Which means and sds.
    pub printed: Printed,
    /// Points to keep with their weights, at most.
    pub keep: usize,
    /// All attempts together hold with probability at least 1 − δ.
    pub delta: f64,
    /// Of the draws.
    pub seed: u64,
    /// Products of rows and coefficients of the first attempt, at most (but for the smallest attempt), …
    pub first: f64,
    /// … and of all.
    pub most: f64,
}

/// What the weights say.
#[derive(Clone, Debug)]
pub struct Weighed {
    /// Of q.
    pub posterior: Posterior,
    /// All of it, unless they say nothing, with the first points.
    pub found: Option<(WeightCertificate, WeightedDraws)>,
    /// True if no attempt with the usual number of pairs was made, because it would take too long, and a smaller one,
    /// if any, did not do.
    pub too_long: bool,
}

/// Products that attempt k takes: values and gradients of both draws of its pairs.
fn cost(products: f64, k: i32) -> f64 {
    4.0 * products * PAIRS * 4f64.powi(k)
}

/// The first attempt: the largest that takes at most `first` products, else the usual one, else the largest that takes
/// at most `most`; `None` if none does.
fn first_attempt(products: f64, first: f64, most: f64) -> Option<i32> {
    let large = (USUAL + 1..=LAST).rev().find(|&k| cost(products, k) <= first);
    large.or_else(|| (FEWEST..=USUAL).rev().find(|&k| cost(products, k) <= most))
}

/// Draws of the first attempt, and the products that it takes; `None` if no attempt takes at most `most`.
pub fn first_draws(products: f64, first: f64, most: f64) -> Option<(f64, f64)> {
    first_attempt(products, first, most).map(|k| (2.0 * PAIRS * 4f64.powi(k), cost(products, k)))
}

/// Products that the smallest attempt takes, 500 pairs, which give means to some 0.13 sd and sds to 25 % where q is all
/// but exact; and those of the smallest that gives 0.1, 2,000 pairs.
pub fn smallest_attempts(products: f64) -> (f64, f64) {
    (cost(products, FEWEST), cost(products, FEWEST + 1))
}

/// What the weights say of the combinations `reported` of a model's latents. `products` is the number of products that
/// a value of log p takes.
pub fn weights(
    model: &dyn Model,
    q: &Gaussian,
    reported: &[Vec<(usize, f64)>],
    products: f64,
    goal: &WeightGoal,
) -> Result<Weighed, Error> {
    let none = |why: String| Weighed { posterior: Posterior::none(why), found: None, too_long: false };
    let likelihood = model.likelihood();
    if q.dim() != model.dim() || !q.is_proper() {
        return Err(InvalidModel::Gaussian { coefficients: model.dim() }.into());
    }
    let problem = problem(model, q, reported)?;
    let cost = |k: i32| cost(products, k);
    let Some(mut k) = first_attempt(products, goal.first, goal.most) else {
        return Ok(Weighed { too_long: true, ..none(too_long(cost(FEWEST), goal.most)) });
    };
    let worst = |c: &WeightCertificate| match goal.printed {
        Printed::Gaussian => c.mean_error.max(c.sd_error),
        Printed::Corrected => c.corrected_error(),
    };
    let (mut spent, mut share, mut best) = (0.0, goal.delta, None::<(WeightCertificate, WeightSettings)>);
    loop {
        share *= 0.5;
        let pairs = PAIRS * 4f64.powi(k);
        let settings =
            WeightSettings { pairs: pairs as usize, delta: share, seed: goal.seed, attempt: number(k) };
        spent += cost(k);
        let last = k == LAST || spent + cost(k + 1) > goal.most;
        let found = match problem.certify(&settings) {
            Ok(Ok(found)) => found,
            // what an earlier attempt has said is not unsaid
            _ if best.is_some() => break,
            // too few pairs decline what more of them certify
            Ok(Err(_)) if k < USUAL && !last => {
                k += 1;
                continue;
            }
            Ok(Err(declined)) => {
                let why = refused(&declined, likelihood, goal.delta);
                return Ok(Weighed { too_long: k < USUAL, ..none(why) });
            }
            Err(error) => return Err(error.into()),
        };
        let (error, width) = (worst(&found), found.width);
        if best.as_ref().is_none_or(|(best, _)| error < worst(best)) {
            best = Some((found, settings));
        }
        // what is left is q's own error, or could not be had at any price
        let reachable = width * pairs / (PAIRS * 4f64.powi(LAST)) <= goal.accuracy;
        if error <= goal.accuracy || width <= 0.25 * goal.accuracy || !reachable || last {
            break;
        }
        k += 1;
    }
    let (found, settings) = best.expect("an attempt was made");
    let word = vouched_by(likelihood).vouched().expect("a model or a user vouches");
    let statement = Statement::probable("D8", found.kl.1, goal.delta, &word, "−log p is convex")
        .with(AT_LEAST, found.kl.0)
        .with("KL(p‖q), at most", found.reverse_kl)
        .with("total variation, at most", found.total_variation)
        .with("pairs of draws", settings.pairs as f64)
        .with("tau", found.tau)
        .with("tail of the weights", found.tail);
    let posterior = Posterior {
        statement: with_quadrature(likelihood, statement),
        log_evidence: Some(found.log_evidence),
        mean_error: Some(found.mean_error),
        sd_error: Some(found.sd_error),
    };
    let kept = settings.pairs.min(goal.keep / 2);
    let latents = problem.latents(&settings, kept);
    let draws = WeightedDraws::new(q.dim(), latents, &found.log_weights[..2 * kept])?;
    let too_long = k < USUAL && worst(&found) > goal.accuracy;
    Ok(Weighed { posterior, found: Some((found, draws)), too_long })
}

/// What sixteen pairs of draws, evaluated together, estimate of every combination of the latents: one pass over the
/// rows.
pub fn sixteen_pairs(model: &dyn Model, q: &Gaussian, seed: u64) -> Result<Posterior, Error> {
    let settings = WeightSettings { pairs: SIXTEEN, delta: 0.5, seed, attempt: OF_SIXTEEN };
    Ok(problem(model, q, &[])?.estimate(&settings)?)
}

/// The number of attempt k.
fn number(k: i32) -> u64 {
    u64::try_from(k).unwrap_or(OF_FEWEST)
}

/// The weights of a model.
fn problem<'a>(
    model: &'a dyn Model,
    q: &'a Gaussian,
    reported: &'a [Vec<(usize, f64)>],
) -> Result<WeightProblem<'a>, Error> {
    let Value { value, error } = model.exact_value(q)?;
    let rounding = 2.0 * ROUNDING * (1.0 + value.abs() + q.dim() as f64) + error;
    let kappa = model.dense().map_or(0.0, |model| prior_curvature(model, q));
    let grain = if model.ranks().is_some() { usize::MAX } else { 1 };
    Ok(WeightProblem { target: model, q, reported, neg_elbo: (value, rounding), kappa, rounding, grain })
}

/// How functions of the latents are enclosed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunctionGoal {
    /// Everything that is stated holds with probability at least 1 − δ.
    pub delta: f64,
    /// Of the draws.
    pub seed: u64,
    /// Each has draws of its own, and those of no fit: 0, 1, 2, …
    pub call: u64,
    /// True for four times as many draws.
    pub many: bool,
}

impl FunctionGoal {
    fn pairs(&self) -> usize {
        FUNCTION_PAIRS * if self.many { 4 } else { 1 }
    }

    /// Points that functions are evaluated at, those of the pilot included.
    pub fn points(&self) -> usize {
        2 * (self.pairs() + self.pairs() / 8)
    }
}

/// The posterior means of functions of the latents, and their quantiles at `levels`, in intervals that hold together
/// with probability 1 − δ, or why there are none. The draws are others than those of [`weights`].
pub fn enclosed_functions(
    model: &dyn Model,
    q: &Gaussian,
    functions: &dyn LatentFunctions,
    levels: &[f64],
    goal: &FunctionGoal,
) -> Result<Result<Vec<EnclosedFunction>, String>, Error> {
    let (delta, seed) = (goal.delta, goal.seed);
    let settings = WeightSettings { pairs: goal.pairs(), delta, seed, attempt: OF_FUNCTIONS + goal.call };
    let mut problem = problem(model, q, &[])?;
    if !model.likelihood().strip_is_proved() {
        // any number near the ELBO will do if nothing rests on it
        problem.rounding = 2.0 * ROUNDING * (1.0 + problem.neg_elbo.0.abs() + q.dim() as f64);
        problem.neg_elbo.1 = f64::INFINITY;
    }
    let found = problem.certify_functions(functions, levels, &settings)?;
    Ok(found.map_err(|declined| refused(&declined, model.likelihood(), delta)))
}

/// Why no attempt is made.
fn too_long(cost: f64, most: f64) -> String {
    format!(
        "the importance weights of {} pairs of draws would take {} multiplications, more than the limit of {} \
         (posterior corrected makes an attempt however long it takes)",
        PAIRS * 4f64.powi(FEWEST),
        figure(cost),
        figure(most)
    )
}

/// Why there is no upper bound, with the lower one where the ELBO is proved.
fn refused(declined: &WeightsDeclined, likelihood: &dyn Likelihood, delta: f64) -> String {
    let why = match declined.obstacle {
        WeightObstacle::Tail { slope, z } if slope < z => {
            "the tail of the importance weights is not bounded, although their gradients are small: their logarithms \
             are too large, or known too inaccurately for a log density of this size"
                .into()
        }
        WeightObstacle::Tail { slope, z } => format!(
            "the tail of the importance weights is not bounded, because their gradients are too large ({} where less \
             than {} is needed)",
            figure(slope),
            figure(z.max(0.0))
        ),
        WeightObstacle::Unresolved { .. } => "the draws are too few to bound the mean weight".into(),
        WeightObstacle::Contradiction { least, most } => format!(
            "the importance weights contradict the ELBO: their mean would be at least {} and at most {}",
            downward(least, 4),
            upward(most, 4)
        ),
    };
    let kl = declined.kl_at_least;
    if kl > 0.0 && likelihood.strip_is_proved() {
        let sure = probability(delta);
        return format!("{why}; with probability {sure}, KL(q‖p) is at least {} nats", downward(kl, 2));
    }
    why
}

/// κ = λ_min(CᵀJ₀C) for the prior precision J₀, from below.
fn prior_curvature(model: &Glm, q: &Gaussian) -> f64 {
    let d = q.dim();
    if d > LARGEST {
        return 0.0;
    }
    let mut precision = vec![0.0; d * d];
    model.prior.add_to(&mut precision);
    let inside = congruent(&precision, &q.factor().to_dense(), false, d);
    let extremes = linalg::extreme_eigenvalues(&inside, d);
    extremes.map_or(0.0, |(least, most)| (least - 1e-12 * d as f64 * most).max(0.0))
}
