//! NUTS on a black box: where it was asked for, or where the other numbers are unreliable or not accurate enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use certus::auto::{ACCURATE, Comparison, Verdict};
use certus::certificate::words::nearest;
use certus::fit::Status;
use certus::target::Gated;
use certus::{Goal, Outcome, Target};
use certus_models::nuts::{Chains, NutsSettings, nuts};

use super::choice::PosteriorChoice;
use super::ladder::{NUTS_GRADIENTS, NUTS_LATENTS, R_HAT};
use super::table::{PosteriorTable, kept};
use crate::record::Source;

/// Gradients of a whole run with NUTS, where no limit is given.
const GRADIENTS: u64 = 1_000_000;
/// Chains are worth more than this many independent draws, where their numbers are accurate.
const EFFECTIVE: f64 = 400.0;
/// Numbers of chains that are accurate have stated errors of at most this: means in sds, sds as parts of themselves.
/// A variable of infinite variance mixes, and its sd is not known.
const STATED_WITHIN: f64 = 0.25;
/// Divergences up to which the chains run again with shorter steps, and their acceptance.
const FEW: u64 = 200;
const CAREFUL: f64 = 0.98;
/// Chains with a larger R-hat are not printed, because they do not agree on where they are.
const PRINTED: f64 = 1.1;
/// What a target says that has no gradients or no time left.
const OVER: [&str; 2] = ["the limit of gradients was reached", "the time limit was reached"];

/// What NUTS found: the table to print, if the chains have mixed, and what they say of themselves.
struct Found {
    table: Option<PosteriorTable>,
    verdict: Verdict,
    words: String,
}

impl Found {
    /// Chains that are not accurate do not replace numbers that are usable, unless they were asked for.
    fn or_better(self, own: Verdict, asked: bool) -> Self {
        if asked || !own.is_usable() || self.verdict.is_usable() {
            return self;
        }
        Self { table: None, verdict: own, words: format!("NUTS does no better: {}", self.words) }
    }
}

/// True of chains whose numbers are accurate, if there is one mode: no divergences, R-hat below 1.01, an effective
/// sample size above 400, and stated errors of at most a quarter.
pub(crate) fn accurate(r_hat: f64, effective: f64, divergences: f64, error: f64) -> bool {
    r_hat < R_HAT && effective > EFFECTIVE && divergences == 0.0 && error <= STATED_WITHIN
}

impl PosteriorTable {
    /// NUTS in q's frame on the target of an outcome, where `choice` is NUTS, or is left to us and the other numbers
    /// are unreliable or not within the accuracy. The verdict, the message and the status become those of what is
    /// printed. A target that belongs `here` is called by this thread alone. An error of the target is kept in the
    /// outcome.
    pub fn sampled(
        outcome: &mut Outcome,
        target: &dyn Target,
        choice: PosteriorChoice,
        goal: &Goal,
        here: bool,
    ) -> Option<Self> {
        let own = outcome.comparison.as_ref()?.verdict;
        let asked = choice == PosteriorChoice::Only(Source::Nuts);
        let compared = outcome.comparison.as_ref()?;
        let ended = matches!(outcome.status, Status::Reached | Status::Limit | Status::NoProgress);
        let accuracy = goal.accuracy.unwrap_or(ACCURATE);
        let enough = compared.verdict.is_usable() && compared.best_error(&outcome.gaussian) <= accuracy;
        let wanted = asked || (choice == PosteriorChoice::Auto && !enough);
        if !ended || !wanted || compared.verdict == Verdict::Failed || outcome.error.is_some() {
            return None;
        }
        let deadline = match goal.max_time {
            Some(limit) => Some(Instant::now().checked_add(limit.checked_sub(outcome.elapsed)?)?),
            None => None,
        };
        let left = goal.max_gradients.unwrap_or(GRADIENTS).saturating_sub(outcome.counts.gradients);
        let found = match not_run(outcome, compared, left, asked) {
            Some(why) => {
                Found { table: None, verdict: compared.verdict, words: format!("NUTS was not run: {why}") }
            }
            None => {
                let begun = Instant::now();
                let spent = AtomicU64::new(0);
                let admit = |points: usize| {
                    // whether all chains together have enough does not depend on which comes first
                    let count = points as u64;
                    let enough = spent.fetch_add(count, Ordering::Relaxed) + count <= left;
                    let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    match (enough, late) {
                        (false, _) => Err(OVER[0].into()),
                        (true, true) => Err(OVER[1].into()),
                        (true, false) => Ok(()),
                    }
                };
                let rationed = Gated::new(target, &admit);
                let grain = if here { usize::MAX } else { 1 };
                let first = NutsSettings { seed: goal.seed, grain, ..NutsSettings::default() };
                let sampled = |settings: &NutsSettings| {
                    let run = || nuts(&rationed, &outcome.gaussian, settings);
                    match here {
                        true => run(),
                        false => {
                            certus::parallel::install(goal.threads, run).map_err(Into::into).and_then(|r| r)
                        }
                    }
                };
                let mut chains = sampled(&first);
                // a few divergences often end with shorter steps
                let few = |c: &Chains| (1..=FEW).contains(&c.divergences);
                if let Some(before) = chains.as_ref().ok().filter(|c| few(c)).map(|c| c.divergences)
                    && let Ok(again) = sampled(&NutsSettings { acceptance: CAREFUL, ..first })
                    && again.divergences < before
                {
                    chains = Ok(again);
                }
                outcome.counts.gradients += spent.load(Ordering::Relaxed).min(left);
                outcome.elapsed += begun.elapsed();
                judged(outcome, chains, goal.seed)
            }
        };
        let found = found.or_better(own, asked);
        rewritten(outcome, &found, goal, asked);
        found.table
    }
}

/// Why there are no chains.
fn not_run(outcome: &Outcome, compared: &Comparison, left: u64, asked: bool) -> Option<String> {
    let dim = outcome.gaussian.dim();
    if kept(dim).is_none() || dim > NUTS_LATENTS {
        Some("it is for at most 5000 latents".into())
    } else if asked {
        None
    } else if compared.modes.missed > 0 {
        Some("chains rarely move between modes".into())
    } else if compared.importance.is_none() {
        Some("there was no comparison".into())
    } else if (left as f64) < NUTS_GRADIENTS {
        Some(format!("it takes about {NUTS_GRADIENTS} gradients, and the limit leaves {left}"))
    } else {
        None
    }
}

/// What the chains are worth; an error of the target is kept.
fn judged(outcome: &mut Outcome, chains: Result<Chains, certus_models::Error>, seed: u64) -> Found {
    let nothing = |words: String| Found { table: None, verdict: Verdict::Unreliable, words };
    let chains = match chains {
        Ok(chains) => chains,
        Err(certus_models::Error::Core(certus::Error::Target(error))) => {
            let words = format!("the chains of NUTS did not end: {error}");
            if !error.is::<certus::Stopped>() && !OVER.contains(&error.to_string().as_str()) {
                outcome.error = Some(Arc::new(certus::Error::Target(error)));
            }
            return nothing(words);
        }
        Err(error) => return nothing(format!("NUTS failed: {error}")),
    };
    let divergences = chains.divergences;
    let reported: Vec<Vec<(usize, f64)>> = (0..chains.dim).map(|i| vec![(i, 1.0)]).collect();
    let (table, r_hat) = PosteriorTable::nuts(&reported, chains, seed);
    let effective = table.constant("effective sample size").unwrap_or(0.0);
    let modes = outcome.comparison.as_ref().map_or(0, |c| c.modes.missed);
    let error = table.error();
    let good = accurate(r_hat, effective, divergences as f64, error) && modes == 0;
    let none = if divergences == 0 { ", no divergences" } else { "" };
    let mut words = format!("{}{none}, effective sample size about {}", table.made, nearest(effective, 2));
    if error > STATED_WITHIN {
        words += &format!("; a mean or an sd is known only to {} % of an sd", nearest(100.0 * error, 2));
    }
    let mixed = r_hat < PRINTED && table.is_finite();
    Found {
        table: mixed.then_some(table),
        verdict: if good { Verdict::Accurate } else { Verdict::Unreliable },
        words: if mixed {
            words
        } else {
            format!("the chains have not mixed, and q's numbers are printed: {words}")
        },
    }
}

/// The outcome with the verdict of what is printed.
fn rewritten(outcome: &mut Outcome, found: &Found, goal: &Goal, asked: bool) {
    let Some(comparison) = &mut outcome.comparison else { return };
    let (before, own) = (comparison.sentence(), comparison.verdict);
    comparison.verdict = found.verdict;
    comparison.why = if found.table.is_none() && own == found.verdict {
        format!("{}; {}", comparison.why, found.words)
    } else {
        format!("{}; q itself is {before}", found.words)
    };
    let now = comparison.sentence();
    outcome.message = match outcome.message.strip_prefix(&before) {
        Some(rest) => format!("{now}{rest}"),
        None => format!("{now}; {}", outcome.message),
    };
    let close = |table: &PosteriorTable| goal.accuracy.is_none_or(|accuracy| table.error() <= accuracy);
    let gap = outcome.certificate.gap.statement.bound();
    let reached = found.verdict == Verdict::Accurate
        && found.table.as_ref().is_some_and(close)
        && gap.is_none_or(|gap| gap <= goal.gap);
    if reached {
        outcome.status = Status::Reached;
    } else if asked || outcome.status == Status::Reached {
        outcome.status = Status::Limit;
    }
}
