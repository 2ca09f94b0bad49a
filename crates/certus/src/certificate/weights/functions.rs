//! Posterior means and quantiles of functions of the latents, such as predicted probabilities, slopes and linear
//! combinations (math: D8, parts 7 and 8).
//!
//! E_p f = c + E_q w(f − c)/Z for every c. Where |f − c| ≤ a + Σ sᵢ|uᵢᵀx|, the weights cut at e^τ leave out at most
//! aT₀ + sT₁, s = Σ sᵢ.

use super::bounded::{Clip, Sums};
use super::levels::{Level, Weighted};
use super::pairs::{Cut, Pair, Pairs};
use super::plan::{Plan, closest, pilot_pairs};
use super::tail::{Tail, Tails, clipped_mean};
use super::{EVIDENCE, Enclosed, WeightObstacle, WeightProblem, WeightSettings, WeightsDeclined, ratio};
use crate::error::Error;

/// Points that functions are evaluated at together.
const RUN: usize = 1024;
/// The parts of δ of all means and of all quantiles; the sets and Z have the rest.
const MEANS: f64 = 0.25;
const QUANTILES: f64 = 0.375;

/// How large a function may be, with the latents in the frame of q: z = m + Cx.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FunctionSize {
    /// Its values lie between these.
    Between(f64, f64),
    /// |f − `centre`| ≤ `constant` + Σ sᵢ|uᵢᵀx| for unit vectors uᵢ and Σ sᵢ = `slope`.
    Linear {
        /// Any number.
        centre: f64,
        /// Not negative.
        constant: f64,
        /// Not negative.
        slope: f64,
    },
    /// f = `mean` + `sd` uᵀx for a unit vector u, so that it is normal under q.
    Normal {
        /// Its mean under q.
        mean: f64,
        /// Its sd.
        sd: f64,
    },
    /// Nothing is known, and nothing will be of its mean; its quantiles need no bound.
    Unknown,
}

/// Functions of the latents.
pub trait LatentFunctions: Sync {
    /// How large each of them may be.
    fn sizes(&self) -> &[FunctionSize];

    /// All of them at points that follow each other, point after point.
    fn values(&self, points: &[f64], out: &mut [f64]) -> Result<(), Error>;
}

/// What is known of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct EnclosedFunction {
    /// Its posterior mean, if its size is known.
    pub mean: Option<Enclosed>,
    /// Its posterior quantiles, one for every probability; `None` where the draws do not enclose it.
    pub quantiles: Vec<Option<Enclosed>>,
}

/// A function whose mean is asked for.
#[derive(Clone, Copy, Debug)]
struct Centred {
    /// c.
    centre: f64,
    /// |f − c| ≤ constant + Σ sᵢ|uᵢᵀx|, slope = Σ sᵢ.
    constant: f64,
    slope: f64,
    /// What no value is outside of, if that is known.
    within: (f64, f64),
    /// f − c is clipped at ± this, …
    most: f64,
    /// … and w̄(f − c) at this.
    clip: Clip,
}

impl Centred {
    /// V = ½Σ w̄(f − c), f − c clipped.
    fn variable(&self, [a, b]: [f64; 2], [plus, minus]: [f64; 2]) -> f64 {
        let off = |f: f64| (f - self.centre).clamp(-self.most, self.most);
        0.5 * (a * off(plus) + b * off(minus))
    }

    /// |E_q w(f − c) − E V| is at most this: what cutting the weights does, and what clipping f − c.
    fn room(&self, tail: &Tail, cut: Cut, slack: f64) -> f64 {
        let [t0, t1, _] = tail.moments;
        let clipped = 2.0 * clipped_mean(cut.tau.exp(), cut.xi);
        self.constant * t0 + self.slope * (t1 + clipped) + self.most * slack
    }
}

/// w̄ at x and at −x of pairs, and the values of functions there.
struct Evaluated {
    weights: Vec<[f64; 2]>,
    functions: usize,
    values: Vec<f64>,
}

impl Evaluated {
    /// The values of function k, pair after pair.
    fn of(&self, k: usize) -> impl Iterator<Item = ([f64; 2], [f64; 2])> + '_ {
        let n = self.functions;
        let values = self.values.chunks_exact(2 * n).map(move |pair| [pair[k], pair[n + k]]);
        self.weights.iter().copied().zip(values)
    }

    fn is_finite(&self, k: usize) -> bool {
        self.of(k).all(|(_, values)| values.iter().all(|f| f.is_finite()))
    }
}

/// Sums over the main pairs that belong to no function.
#[derive(Clone)]
struct Common {
    /// Y and its bound ½Σ|w̄ − 1|.
    weight: Sums,
    size: Sums,
    outside: Vec<f64>,
    weights: Vec<[f64; 2]>,
}

impl WeightProblem<'_> {
    /// Posterior means of functions, and their quantiles at `levels`, in intervals that hold, all of them, with
    /// probability 1 − δ; or why there are none. The attempt must be one that nothing was chosen by, the functions
    /// included.
    pub fn certify_functions(
        &self,
        functions: &dyn LatentFunctions,
        levels: &[f64],
        settings: &WeightSettings,
    ) -> Result<Result<Vec<EnclosedFunction>, WeightsDeclined>, Error> {
        // of these functions and nothing else
        WeightProblem { reported: &[], ..*self }.certify_alone(functions, levels, settings)
    }

    fn certify_alone(
        &self,
        functions: &dyn LatentFunctions,
        levels: &[f64],
        settings: &WeightSettings,
    ) -> Result<Result<Vec<EnclosedFunction>, WeightsDeclined>, Error> {
        self.check(settings)?;
        check(functions.sizes(), levels)?;
        let (pilot, main) = (self.pairs(settings, &[], 0), self.pairs(settings, &[], 1));
        let plan = self.plan(&pilot, settings)?;
        let none =
            |slope, z| WeightsDeclined { obstacle: WeightObstacle::Tail { slope, z }, kl_at_least: 0.0 };
        let Some(cut) = plan.cut else { return Ok(Err(none(plan.closest.slope, plan.closest.z))) };
        let few = pilot_pairs(settings.pairs);
        let seen = pilot.each_in_order(few, |pair| cut_weights(&pair, cut))?;
        let seen = evaluated(&pilot, seen, functions)?;
        let size = Clip::of_pilot(plan.largest.size, cut.most(0).size);
        let common = common(&main, settings.pairs, cut, &plan, size)?;
        let (n, delta) = (settings.pairs as f64, settings.delta);
        let sets = self.sets(&plan.thresholds, &common.outside, n, delta);
        let tail = Tails::new(&sets, self.kappa()).at(cut.tau);
        if !tail.is_finite() {
            let closest = closest(&sets);
            return Ok(Err(none(closest.slope, closest.z)));
        }
        let (slack, beyond) = (self.slack(cut), tail.moments[0]);
        let y = common.weight.interval(n, plan.clip(cut), EVIDENCE * delta);
        // Jensen: Z ≥ e^{−E W}
        let z = ((1.0 + y.0 - slack).max((-self.neg_elbo.1).exp()), 1.0 + y.1 + slack + beyond);
        if !(z.0 > 0.0 && z.0 <= z.1) {
            let obstacle = WeightObstacle::Contradiction { least: z.0, most: z.1 };
            return Ok(Err(WeightsDeclined { obstacle, kl_at_least: 0.0 }));
        }
        let about = 1.0 + common.weight.mean(n);
        let main = evaluated(&main, common.weights, functions)?;
        let count = functions.sizes().len().max(1) as f64;
        let (each, quantile) = (MEANS * delta / count, QUANTILES * delta / (count * levels.len() as f64));
        let weighted = Weighted { size: common.size, clip: size, n, tail: beyond, slack, delta: quantile };
        let one = |(k, size): (usize, &FunctionSize)| {
            if !(seen.is_finite(k) && main.is_finite(k)) {
                return EnclosedFunction { mean: None, quantiles: vec![None; levels.len()] };
            }
            let mean = Centred::new(*size, &seen, k, cut).map(|own| {
                let mut sums = Sums::default();
                main.of(k).for_each(|(weights, values)| sums.add(own.variable(weights, values), own.clip));
                let (v, room) = (sums.interval(n, own.clip, each), own.room(&tail, cut, slack));
                let (a, b) = ratio((v.0 - room, v.1 + room), z);
                let (low, high) = own.within;
                let (a, b) = ((own.centre + a).max(low), (own.centre + b).min(high));
                Enclosed { estimate: (own.centre + sums.mean(n) / about).clamp(a, b), low: a, high: b }
            });
            let normal = match *size {
                FunctionSize::Normal { mean, sd } if sd > 0.0 => Some((mean, sd)),
                _ => None,
            };
            let quantiles = levels.iter().map(|&alpha| {
                Level::new(alpha, normal, seen.of(k), &weighted).enclosed(main.of(k), &weighted)
            });
            EnclosedFunction { mean, quantiles: quantiles.collect() }
        };
        Ok(Ok(functions.sizes().iter().enumerate().map(one).collect()))
    }
}

fn check(sizes: &[FunctionSize], levels: &[f64]) -> Result<(), Error> {
    if let Some(level) = levels.iter().find(|p| !(**p > 0.0 && **p < 1.0)) {
        return Err(Error::invalid("the probability of a quantile", level, "a number between 0 and 1"));
    }
    let wrong = |size: &&FunctionSize| match **size {
        FunctionSize::Between(low, high) => !(low < high && (high - low).is_finite()),
        FunctionSize::Linear { centre, constant, slope } => {
            !(centre.is_finite() && constant.is_finite() && slope.is_finite() && constant.min(slope) >= 0.0)
        }
        FunctionSize::Normal { mean, sd } => !(mean.is_finite() && sd.is_finite() && sd >= 0.0),
        FunctionSize::Unknown => false,
    };
    match sizes.iter().find(wrong) {
        Some(size) => {
            let required = "low < high, or finite numbers that are not negative";
            Err(Error::invalid("the bounds of a function", format!("{size:?}"), required))
        }
        None => Ok(()),
    }
}

/// w̄ at x and at −x.
fn cut_weights(pair: &Pair<'_>, cut: Cut) -> [f64; 2] {
    pair.v.map(|v| v.min(cut.tau).exp())
}

/// The values of the functions at both points of the first pairs.
fn evaluated(
    pairs: &Pairs<'_>,
    weights: Vec<[f64; 2]>,
    functions: &dyn LatentFunctions,
) -> Result<Evaluated, Error> {
    let (count, d, k) = (weights.len(), pairs.problem.q.dim(), functions.sizes().len());
    let points = pairs.latents(count);
    let mut values = vec![0.0; 2 * count * k];
    for (points, out) in points.chunks(RUN * d).zip(values.chunks_mut(RUN * k.max(1))) {
        functions.values(points, out)?;
    }
    Ok(Evaluated { weights, functions: k, values })
}

impl Centred {
    /// c is the pilot's estimate of E_p f, and the clip three times its largest w̄(f − c).
    fn new(size: FunctionSize, seen: &Evaluated, k: usize, cut: Cut) -> Option<Self> {
        let (mut sum, mut total) = (0.0, 0.0);
        for ([a, b], [plus, minus]) in seen.of(k) {
            sum += a * plus + b * minus;
            total += a + b;
        }
        let about = sum / total;
        let unbounded = (f64::NEG_INFINITY, f64::INFINITY);
        let (centre, constant, slope, within) = match size {
            FunctionSize::Between(low, high) => {
                let centre = about.clamp(low, high);
                (centre, (high - centre).max(centre - low), 0.0, (low, high))
            }
            FunctionSize::Linear { centre, constant, slope } => {
                (about, constant + (about - centre).abs(), slope, unbounded)
            }
            FunctionSize::Normal { mean, sd } => (about, (about - mean).abs(), sd, unbounded),
            FunctionSize::Unknown => return None,
        };
        let most = constant + cut.xi * slope;
        let clip = Clip { clip: f64::INFINITY, most: f64::INFINITY };
        let own = Self { centre, constant, slope, within, most, clip };
        let largest = seen.of(k).map(|(weights, values)| own.variable(weights, values).abs());
        let clip = Clip::of_pilot(largest.fold(0.0, f64::max), cut.tau.exp() * most);
        Some(Self { clip, ..own })
    }
}

fn common(main: &Pairs<'_>, count: usize, cut: Cut, plan: &Plan, size: Clip) -> Result<Common, Error> {
    let (weight, sets) = (plan.clip(cut), &plan.thresholds);
    let nothing = || Common {
        weight: Sums::default(),
        size: Sums::default(),
        outside: vec![0.0; sets.len()],
        weights: Vec::new(),
    };
    let visit = |found: &mut Common, pair: Pair<'_>| {
        let [a, b] = cut_weights(&pair, cut);
        found.weight.add(0.5 * (a + b) - 1.0, weight);
        found.size.add(0.5 * ((a - 1.0).abs() + (b - 1.0).abs()), size);
        found.weights.push([a, b]);
        for (outside, (level, slope)) in found.outside.iter_mut().zip(sets) {
            *outside += f64::from(u8::from(pair.v[0] > *level || pair.slopes[0] > *slope));
        }
    };
    main.fold(count, nothing, visit, |a, b| {
        a.weight.join(&b.weight);
        a.size.join(&b.size);
        a.weights.extend(b.weights);
        a.outside.iter_mut().zip(&b.outside).for_each(|(a, b)| *a += b);
    })
}
