//! The ladder: which source of the posterior is printed.

use std::time::Duration;

use certus::certificate::words::{figure, percent};
use certus::certificate::{Level, Posterior};
use certus::diagnostics::{WeightedDraws, importance};
use certus::fit::Status;
use certus::{Gaussian, Goal, Outcome};
use certus_mixed::collapsed::Effect;
use certus_models::EnvelopeSettings;
use certus_models::nuts::{NutsSettings, nuts};
use certus_models::posterior::Printed;

use super::choice::PosteriorChoice;
use super::gaussian::{ENVELOPE, accuracy, better, is_useful, lower_triangular, stated};
use super::table::{PosteriorTable, kept, points};
use crate::level::RequiredLevel;
use crate::problem::{ModelKind, Problem};
use crate::record::Source;

/// Multiplications that importance sampling may take without being asked for: some seconds.
const IMPORTANCE_WORK: f64 = 4e10;
/// Gradients that NUTS takes, more or less: 4 chains of 1500 draws with 10 steps each.
pub(super) const NUTS_GRADIENTS: f64 = 6e4;
/// Its draws, those of the warm-up included.
pub(super) const NUTS_DRAWS: f64 = 6000.0;
/// Multiplications that it may take without being asked for, by default and for an accuracy: seconds, minutes.
const NUTS_WORK: (f64, f64) = (1e11, 1e12);
/// Latents that it may have: 4,000 draws of 5,000 latents take 160 MB, twice.
pub(super) const NUTS_LATENTS: usize = 5000;
/// R-hat above which chains have not mixed.
pub(super) const R_HAT: f64 = 1.01;
/// Fewer exact draws say nothing.
const FEWEST: usize = 100;
/// How the reason ends where a run was stopped before its Gaussian was compared with the posterior.
pub(crate) const UNFINISHED: &str = " before the comparison was finished";
/// What the message of an outcome says where the printed numbers are not as accurate as they should be.
pub(crate) const SHORT: &str = "; the accuracy is not reached: ";

/// What is known of the posterior.
#[derive(Clone, Debug)]
pub struct Compared {
    /// How far q is from it.
    pub posterior: Posterior,
    /// What is printed; `None` for q's own numbers.
    pub table: Option<PosteriorTable>,
    /// Why what is printed is not as accurate as it should be.
    pub shortfall: Option<String>,
    /// The effects of groups that belong to the table, of a model whose scales are not given.
    pub(crate) effects: Option<Vec<Effect>>,
    /// Draws of coefficients and effects less their means, of a model with several effects.
    pub(crate) deviations: Vec<f64>,
    /// What refining the grid changed of a mixture that is printed, in sds, if it assumes nothing else.
    pub(crate) refinement: Option<f64>,
    /// How long the comparison took.
    pub(crate) elapsed: Duration,
}

impl Compared {
    /// Of a statement alone: what is printed is the fit's own.
    pub(super) fn of(posterior: Posterior) -> Self {
        Self {
            posterior,
            table: None,
            shortfall: None,
            effects: None,
            deviations: Vec::new(),
            refinement: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Of a comparison that something stopped.
    pub fn stopped(by: &str) -> Self {
        Self::of(Posterior::none(format!("{by}{UNFINISHED}")))
    }

    /// True if nothing was left out.
    pub fn is_whole(&self) -> bool {
        let said = self.table.is_some() || self.refinement.is_some();
        self.shortfall.is_none() && (said || self.posterior.statement.bound().is_some())
    }

    /// An outcome whose numbers are not as accurate as asked for has not reached its goal.
    pub(crate) fn judge(&self, outcome: &mut Outcome) {
        if let Some(why) = self.shortfall.as_ref().filter(|_| outcome.status == Status::Reached) {
            outcome.status = Status::Limit;
            outcome.message = format!("{}{SHORT}{why}", outcome.message);
        }
    }
}

impl Problem {
    /// Compares a Gaussian with the posterior, and takes from the ladder what is printed; the accuracy must be known at
    /// the level that was `asked` for.
    pub(crate) fn compare_gaussian(
        &self,
        goal: &Goal,
        choice: PosteriorChoice,
        asked: Option<RequiredLevel>,
        outcome: &Outcome,
        tried: &(dyn Fn(Source) + Sync),
    ) -> Compared {
        let of_q = Compared::of;
        if let Some(posterior) = self.gaussian_posterior(goal, outcome) {
            return of_q(posterior);
        }
        let asked = asked.unwrap_or(RequiredLevel::Estimated);
        let w = &outcome.gaussian;
        let found = certus::parallel::install(goal.threads, || match choice {
            PosteriorChoice::Only(Source::Gaussian) => of_q(self.of_gaussian(goal, w)),
            _ if kept(w.dim()).is_none() => of_q(self.of_gaussian(goal, w)),
            _ => Climb::new(self, goal, w, choice, asked).climb(tried),
        });
        found.unwrap_or_else(|error| of_q(Posterior::none(error.to_string())))
    }

    /// Draws of importance sampling; `None` if they would take long.
    pub(super) fn importance_draws(&self, choice: PosteriorChoice) -> Option<usize> {
        self.draws_within(if choice == PosteriorChoice::Auto { IMPORTANCE_WORK } else { f64::INFINITY })
    }

    /// Multiplications that NUTS takes, more or less; `Err` of them if they are too many.
    pub(super) fn nuts_work(&self, goal: &Goal, choice: PosteriorChoice) -> Result<f64, f64> {
        let work = 2.0 * NUTS_GRADIENTS * self.products();
        let most = match (choice, goal.accuracy) {
            (PosteriorChoice::Auto, None) => NUTS_WORK.0,
            (PosteriorChoice::Auto, Some(_)) => NUTS_WORK.1,
            (PosteriorChoice::Only(_), _) => f64::INFINITY,
        };
        if work > most { Err(work) } else { Ok(work) }
    }
}

/// "means about 0.12 sd, sds about 9.1 %".
pub(super) fn table_words(table: &PosteriorTable) -> String {
    let (mean, sd) = (figure(table.mean_error()), percent(table.sd_error()));
    let how = if matches!(table.level, Level::Estimated) { "about" } else { "within" };
    format!("means {how} {mean} sd, sds {how} {sd} %")
}

/// "; the goal is means within 0.1 sd and sds within 10 %".
pub(super) fn goal_words(wanted: f64) -> String {
    format!("; the goal is means within {} sd and sds within {} %", figure(wanted), percent(wanted))
}

/// A climb of the ladder.
struct Climb<'a> {
    problem: &'a Problem,
    goal: &'a Goal,
    w: &'a Gaussian,
    choice: PosteriorChoice,
    asked: RequiredLevel,
    reported: Vec<Vec<(usize, f64)>>,
    /// The best bound of how far q is.
    bounded: Posterior,
    /// An estimate of it.
    estimated: Option<Posterior>,
    /// Why rungs were left out: too long, or else.
    long: Vec<String>,
    failed: Vec<String>,
    /// True if NUTS is one of those that would take too long.
    without_nuts: bool,
}

impl<'a> Climb<'a> {
    fn new(
        problem: &'a Problem,
        goal: &'a Goal,
        w: &'a Gaussian,
        choice: PosteriorChoice,
        asked: RequiredLevel,
    ) -> Self {
        Self {
            problem,
            goal,
            w,
            choice,
            asked,
            reported: problem.reported(),
            bounded: Posterior::none("it was not asked for"),
            estimated: None,
            long: Vec::new(),
            failed: Vec::new(),
            without_nuts: false,
        }
    }

    fn climb(mut self, tried: &(dyn Fn(Source) + Sync)) -> Compared {
        let (wanted, mut best) = (accuracy(self.goal), None::<PosteriorTable>);
        for rung in self.choice.rungs() {
            tried(rung);
            let found = match rung {
                Source::Gaussian | Source::Mixture => Ok(None),
                Source::Corrected => self.corrected(),
                Source::Exact => self.exact(),
                Source::Importance => self.importance(),
                Source::Nuts => self.nuts(),
            };
            match found {
                Ok(Some(table)) if table.is_finite() => {
                    if best.as_ref().is_none_or(|best| self.prefers(&table, best)) {
                        best = Some(table);
                    }
                    if best.as_ref().is_some_and(|best| self.is_enough(best, wanted)) {
                        break;
                    }
                }
                Ok(_) => {}
                Err(error) => self.failed.push(error.to_string()),
            }
        }
        let shortfall = self.shortfall(best.as_ref(), wanted);
        Compared { table: best, shortfall, ..Compared::of(self.posterior()) }
    }

    /// True if the first says more: of the level that is asked for or nearer to it, or else more accurately.
    fn prefers(&self, table: &PosteriorTable, best: &PosteriorTable) -> bool {
        let key = |table: &PosteriorTable| match self.asked {
            RequiredLevel::Estimated => (0, table.error()),
            _ => (table.level.rank(), table.error()),
        };
        key(table) < key(best)
    }

    /// True of numbers that are as accurate as asked for, at the level asked for.
    fn is_enough(&self, table: &PosteriorTable, wanted: f64) -> bool {
        table.error() <= wanted && self.asked.allows(table.level)
    }

    /// What is said of q.
    fn posterior(self) -> Posterior {
        match self.estimated {
            _ if is_useful(&self.bounded) => self.bounded,
            Some(estimated) => stated(self.bounded, estimated),
            None if self.problem.draws_in_seconds().is_none() => {
                self.problem.without_draws(self.goal, self.w, self.bounded)
            }
            None => self.bounded,
        }
    }

    /// Why the best table is not good enough, and what to try. Where no rung was tried, because each would take long,
    /// q's own numbers are printed, and their gap decides.
    fn shortfall(&self, best: Option<&PosteriorTable>, wanted: f64) -> Option<String> {
        let what = match best {
            Some(best) if self.is_enough(best, wanted) => return None,
            // nothing was tried, because everything would take long
            None if self.failed.is_empty() && self.choice == PosteriorChoice::Auto => return None,
            Some(best) => table_words(best),
            None => [&self.failed[..], &self.long].concat().join("; "),
        };
        let next = match self.choice {
            PosteriorChoice::Auto if self.without_nuts => "; the source nuts would take longer",
            PosteriorChoice::Auto => "",
            PosteriorChoice::Only(_) => "; the source auto may do better",
        };
        let level = match self.asked {
            RequiredLevel::Estimated => String::new(),
            asked => format!(", {}", asked.as_str()),
        };
        Some(format!("{what}{}{level}{next}", goal_words(wanted)))
    }

    /// Weights whose tail is proved.
    fn corrected(&mut self) -> Result<Option<PosteriorTable>, certus_models::Error> {
        let (dim, seed) = (self.w.dim(), self.goal.seed);
        let weighed = self.problem.weighed(self.goal, self.w, Printed::Corrected, points(dim), self.choice);
        self.bounded = weighed.posterior;
        // what too few pairs say is printed if it was asked for
        let unasked = weighed.too_long && self.choice == PosteriorChoice::Auto;
        let Some((found, draws)) = weighed.found.as_ref().filter(|_| !unasked) else {
            let few = "few pairs of draws are not enough, and more would take long";
            let why = self.bounded.statement.reason().unwrap_or(few).to_string();
            if weighed.too_long {
                self.long.push(why)
            } else {
                self.failed.push(why)
            }
            return Ok(None);
        };
        let statement = &self.bounded.statement;
        let pairs = statement.constant("pairs of draws").unwrap_or(f64::NAN);
        let (level, q) = (statement.level(), self.problem.with_its_factor(self.w)?);
        Ok(Some(PosteriorTable::corrected(&q, &self.reported, found, draws, level, pairs, seed)))
    }

    /// Exact draws from the envelope.
    fn exact(&mut self) -> Result<Option<PosteriorTable>, certus_models::Error> {
        let dim = self.w.dim();
        let ModelKind::Dense(model) = &self.problem.model_kind else {
            return Ok(self.asked("exact draws", "a model without groups"));
        };
        if dim > ENVELOPE {
            return Ok(self.asked("exact draws", "at most 12 coefficients"));
        }
        let Some(proposals) = self.problem.draws_in_seconds() else {
            self.long.push("exact draws on this many rows would take long".into());
            return Ok(None);
        };
        let Goal { delta, seed, .. } = *self.goal;
        let settings = EnvelopeSettings { proposals, delta: 0.5 * delta, seed, keep: kept(dim).unwrap_or(0) };
        let found = model.envelope_of(&*lower_triangular(self.w)?, &self.reported, &settings)?;
        self.bounded = better(self.bounded.clone(), found.posterior.at_probability(delta));
        if found.draws.len() < FEWEST * dim {
            self.failed.push(format!("only {} exact draws were accepted", found.draws.len() / dim.max(1)));
            return Ok(None);
        }
        Ok(Some(PosteriorTable::exact(dim, &self.reported, found.draws, found.acceptance)))
    }

    /// Importance sampling.
    fn importance(&mut self) -> Result<Option<PosteriorTable>, certus_models::Error> {
        let Some(draws) = self.problem.importance_draws(self.choice) else {
            self.long.push("importance sampling on this many rows would take long".into());
            return Ok(None);
        };
        let (posterior, found) = self.problem.estimated(self.goal, self.w, draws)?;
        let said = posterior.statement.bound().is_some();
        if !said {
            self.failed.push(posterior.statement.reason().unwrap_or_default().to_string());
        }
        self.estimated = Some(posterior);
        if !said {
            return Ok(None);
        }
        let (dim, seed) = (self.w.dim(), self.goal.seed);
        let count = found.log_weights.len().min(points(dim));
        let latents = importance::latents(self.w, count, seed)?;
        let draws = WeightedDraws::new(dim, latents, &found.log_weights[..count])?;
        Ok(Some(PosteriorTable::importance(self.w, &self.reported, &found, &draws, seed)))
    }

    /// A sampler.
    fn nuts(&mut self) -> Result<Option<PosteriorTable>, certus_models::Error> {
        let Some(model) = self.problem.model() else { return Ok(None) };
        if model.ranks().is_some() {
            return Ok(self.asked("NUTS draws", "rows on one machine"));
        }
        if self.w.dim() > NUTS_LATENTS {
            return Ok(self.asked("NUTS draws", "at most 5000 latents"));
        }
        if let Err(work) = self.problem.nuts_work(self.goal, self.choice) {
            self.long.push(format!("NUTS would take about {} multiplications", figure(work)));
            self.without_nuts = true;
            return Ok(None);
        }
        let settings = NutsSettings { seed: self.goal.seed, ..NutsSettings::default() };
        let chains = nuts(model, self.w, &settings)?;
        let (table, r_hat) = PosteriorTable::nuts(&self.reported, chains, self.goal.seed);
        if r_hat.is_nan() || r_hat > R_HAT {
            self.failed.push(format!("the chains of NUTS have not mixed: R-hat {r_hat:.3}"));
            return Ok(None);
        }
        Ok(Some(table))
    }

    /// A rung that is not for this model: said only where it was asked for.
    fn asked(&mut self, what: &str, required: &str) -> Option<PosteriorTable> {
        if self.choice != PosteriorChoice::Auto {
            self.failed.push(format!("{what} are for {required}"));
        }
        None
    }
}
