//! The posterior of a model whose scales are not given: draws of coefficients and log scales, weighted by the exact
//! density with the groups integrated out (K13), where the mixture over the scales assumes normal coefficients.

use certus::certificate::Posterior;
use certus::certificate::words::figure;
use certus::diagnostics::WeightedDraws;
use certus::{Gaussian, Goal};
use certus_mixed::collapsed::Effect;
use certus_mixed::density::{CollapsedDensity, CollapsedSample, DensityTarget, Proposal, sample};
use certus_models::Error;
use certus_models::error::InvalidModel;
use certus_models::nuts::{NutsSettings, nuts};

use super::choice::PosteriorChoice;
use super::gaussian::accuracy;
use super::ladder::{Compared, NUTS_GRADIENTS, R_HAT, goal_words, table_words};
use super::scale_table::{LIKELIHOOD_ERROR, ScaleRows, importance_table, nuts_table};
use super::table::{PosteriorTable, kept};
use crate::problem::Problem;
use crate::record::Source;
use crate::variance::corrected::corrected_effects;
use crate::variance::model::ScaleModel;
use crate::variance::piloted::{Piloted, Student};
use crate::variance::run::ScalesOutcome;

/// Draws of the pilot, which the proposal adapts to.
const PILOT: usize = 500;
/// Draws to begin with: as many of these as a second or so allows, else the last; and at most.
const DRAWS: [usize; 4] = [16_000, 8000, 4000, 2000];
const MOST: usize = 64_000;
/// Terms of the likelihood (rows × nodes × draws) that a second or so takes.
const SECOND: f64 = 5e7;
/// Terms that importance sampling may take without being asked for, and for an accuracy: seconds, minutes.
const IMPORTANCE_TERMS: (f64, f64) = (2e8, 2e10);
/// The same of NUTS.
const NUTS_TERMS: (f64, f64) = (1e9, 1e11);
/// Pilots of several group effects, one after the other.
const PILOTS: u64 = 4;
/// The part of a pilot's draws that its weights must be worth, so that no other follows where they take long.
const ENOUGH: f64 = 0.3;
/// k-hat that weights may have, and draws that they must be worth.
const K_HAT: f64 = 0.7;
/// The name of the weight of draws at which the error of the likelihood has no bound.
const UNPROVED: &str = "weight without a likelihood error";
const FEWEST: f64 = 400.0;

impl Problem {
    /// What is printed of a model whose scales are not given, and what is known of it.
    pub(crate) fn compare_scales(
        &self,
        goal: &Goal,
        choice: PosteriorChoice,
        ended: &ScalesOutcome,
        tried: &(dyn Fn(Source) + Sync),
    ) -> Compared {
        let known = &ended.known;
        let mixture = || Compared::of(Posterior::none(known.of_mixture()));
        let Some(scale_model) = self.collapsed() else { return mixture() };
        let Some(scale) = &ended.scale else {
            return Compared::of(ended.closed.clone().unwrap_or_else(|| Posterior::none(known.of_mixture())));
        };
        if scale.scales != "posterior" {
            return mixture();
        }
        let piloted = scale_model.piloted();
        let own = scale_model.density();
        let Some(density) = own.as_deref().or(piloted.as_deref().map(|d| d as &dyn CollapsedDensity)) else {
            // given the scales the coefficients are normal, and the grid is refined until nothing changes
            let moved = scale.refinement.unwrap_or(f64::INFINITY);
            let short = goal.accuracy.filter(|wanted| moved > *wanted).map(|wanted| {
                format!("refining the grid moved it by {} sd{}", figure(moved), goal_words(wanted))
            });
            return Compared { refinement: scale.refinement, shortfall: short, ..mixture() };
        };
        if choice == PosteriorChoice::Only(Source::Gaussian) {
            return mixture();
        }
        let climb = ScaleClimb {
            problem: self,
            goal,
            choice,
            ended,
            scale_model,
            density,
            piloted: piloted.as_deref(),
        };
        let found = certus::parallel::install(goal.threads, || climb.climb(tried));
        found.map_err(Error::from).and_then(|found| found).unwrap_or_else(|error| match error.is_stopped() {
            true => Compared::stopped(&known.of_mixture()),
            false => Compared { shortfall: Some(error.to_string()), ..mixture() },
        })
    }
}

/// Draws with weights: so many of a batch.
type Drawing<'a> = Box<dyn Fn(usize, u64) -> Result<CollapsedSample, Error> + 'a>;

/// Why a source gave no table.
enum Missing {
    /// It would take long.
    Long(String),
    /// It was tried.
    Failed(String),
}

/// A density that is no number at a draw fails one source, not all of them.
fn unless_infinite<T>(found: Result<Result<T, Missing>, Error>) -> Result<Result<T, Missing>, Error> {
    match found {
        Err(Error::NotFinite(what)) => Ok(Err(Missing::Failed(format!("at a draw, {what}")))),
        other => other,
    }
}

struct ScaleClimb<'a> {
    problem: &'a Problem,
    goal: &'a Goal,
    choice: PosteriorChoice,
    ended: &'a ScalesOutcome,
    scale_model: &'a ScaleModel,
    density: &'a dyn CollapsedDensity,
    /// The same, of several group effects.
    piloted: Option<&'a dyn Piloted>,
}

impl ScaleClimb<'_> {
    fn climb(&self, tried: &(dyn Fn(Source) + Sync)) -> Result<Compared, Error> {
        let (wanted, mut best) = (accuracy(self.goal), None::<PosteriorTable>);
        let (mut long, mut failed) = (Vec::new(), Vec::new());
        let rungs = match self.choice {
            PosteriorChoice::Auto => vec![Source::Importance, Source::Nuts],
            PosteriorChoice::Only(source) => vec![source],
        };
        for rung in rungs {
            tried(rung);
            let found = match rung {
                Source::Importance => unless_infinite(self.importance(wanted))?,
                Source::Nuts => unless_infinite(self.nuts())?,
                _ => Err(Missing::Failed(format!("{} is for models whose scales are given", rung.as_str()))),
            };
            match found {
                Ok(table) if !table.is_finite() => failed.push("a number was not finite".to_string()),
                Ok(table) if best.as_ref().is_none_or(|best| table.error() < best.error()) => {
                    best = Some(table)
                }
                Ok(_) => {}
                Err(Missing::Long(why)) => long.push(why),
                Err(Missing::Failed(why)) => failed.push(why),
            }
            // what is too long for importance sampling is longer for NUTS
            if best.as_ref().is_some_and(|best| best.error() <= wanted) || !long.is_empty() {
                break;
            }
        }
        let short = match &best {
            Some(best) if best.error() <= wanted => None,
            Some(best) => Some(table_words(best)),
            None if failed.is_empty()
                && self.choice == PosteriorChoice::Auto
                && self.goal.accuracy.is_none() =>
            {
                None
            }
            None => Some([&failed[..], &long].concat().join("; ")),
        };
        let shortfall = short.map(|words| format!("{words}{}", goal_words(wanted)));
        let known = &self.ended.known;
        let Some(table) = best else {
            let why = [failed, long].concat().join("; ");
            return Ok(Compared { shortfall, ..Compared::of(Posterior::none(known.left_out(&why))) });
        };
        let (effects, deviations) = match self.piloted {
            Some(density) => {
                let (effects, deviations) = density.effects(&table.draws)?;
                (Some(effects), deviations)
            }
            None => (self.effects(&table)?, Vec::new()),
        };
        let proved = table.constant(LIKELIHOOD_ERROR).zip(table.constant(UNPROVED));
        let how = self.piloted.and_then(|density| density.likelihood_words());
        let words = known.of_draws(how, proved, effects.is_some());
        let posterior = Posterior::none(words);
        Ok(Compared { table: Some(table), shortfall, effects, deviations, ..Compared::of(posterior) })
    }

    fn rows(&self) -> ScaleRows<'_> {
        ScaleRows { quantities: &self.problem.quantities, unknown_scales: &self.scale_model.unknown_scales }
    }

    /// True if so many terms may be taken: those of an accuracy for several group effects, of which nothing else is
    /// known.
    fn affordable(&self, terms: f64, (usual, asked): (f64, f64)) -> bool {
        match (self.choice, self.goal.accuracy) {
            (PosteriorChoice::Auto, None) if self.piloted.is_some() => terms <= asked,
            (PosteriorChoice::Only(_), _) => true,
            (PosteriorChoice::Auto, Some(_)) => terms <= asked,
            (PosteriorChoice::Auto, None) => terms <= usual,
        }
    }

    /// Draws of the mixture with the tails of Student's t, adapted to a pilot of them; four times as many until the
    /// errors are small enough. The counts are fixed by the size of the model.
    fn importance(&self, wanted: f64) -> Result<Result<PosteriorTable, Missing>, Error> {
        let (terms, seed) = (self.density.terms(), self.goal.seed);
        let allowed = |n: &usize| *n as f64 * terms <= SECOND;
        let mut draws = DRAWS.into_iter().find(allowed).unwrap_or(DRAWS[DRAWS.len() - 1]);
        if !self.affordable((PILOT + draws) as f64 * terms, IMPORTANCE_TERMS) {
            return Ok(Err(Missing::Long(format!(
                "{} draws would take {} terms of the likelihood",
                PILOT + draws,
                figure((PILOT + draws) as f64 * terms)
            ))));
        }
        let dim = self.density.coefficients() + self.density.scales();
        let Some(draw) = self.drawing()? else {
            return Ok(Err(Missing::Failed("the proposal of the scales has no extent".into())));
        };
        let mut batch = 1;
        loop {
            let found = draw(draws, batch)?;
            let k_hat = found.k_hat.unwrap_or(f64::NAN);
            if found.k_hat.is_some_and(|k| k >= K_HAT) {
                let words = format!("the importance weights are too heavy-tailed (k-hat {k_hat:.2})");
                return Ok(Err(Missing::Failed(words)));
            }
            let (ess, few) = (found.effective_sample_size, found.effective_sample_size < FEWEST);
            let points = WeightedDraws::new(dim, found.points, &found.log_weights)?;
            let constants = vec![
                ("draws", draws as f64),
                ("k-hat", k_hat),
                ("effective sample size", ess),
                (LIKELIHOOD_ERROR, found.error),
                (UNPROVED, found.unproved),
            ];
            let table = importance_table(&self.rows(), &points, constants, kept(dim), seed);
            let next = 4 * draws;
            let more = next <= MOST && self.affordable(next as f64 * terms, IMPORTANCE_TERMS);
            if !few && table.error() <= wanted || !more {
                return Ok(if few {
                    Err(Missing::Failed(format!("{draws} draws are worth only {ess:.0}")))
                } else {
                    Ok(table)
                });
            }
            (draws, batch) = (next, batch + 1);
        }
    }

    /// How draws with weights are made: so many of a batch, counted from 1. A proposal is adapted to pilots before.
    fn drawing(&self) -> Result<Option<Drawing<'_>>, Error> {
        let (seed, mixture) = (self.goal.seed, &self.ended.mixture_posterior);
        if let Some(density) = self.piloted {
            let Some(proposal) = self.adapted_proposal(density)? else { return Ok(None) };
            // its pilots are batches too
            let draw = move |draws, batch| density.sample(&proposal, draws, seed, PILOTS - 1 + batch);
            return Ok(Some(Box::new(draw)));
        }
        let Some(first) = Proposal::of_grid(&mixture.nodes, &mixture.scales, &mixture.keys) else {
            return Ok(None);
        };
        let pilot = sample(self.density, &first, PILOT, seed, 0)?;
        let (mean, covariance) = pilot.moments(first.dim());
        let proposal = first.adapted(&mean, &covariance);
        Ok(Some(Box::new(move |draws, batch| sample(self.density, &proposal, draws, seed, batch))))
    }

    /// The proposal of several group effects, adapted to pilots.
    fn adapted_proposal(&self, density: &dyn Piloted) -> Result<Option<Student>, Error> {
        let Some(mut proposal) = density.first(&self.ended.mixture_posterior) else { return Ok(None) };
        let dim = density.coefficients() + density.scales();
        let long = PILOTS as f64 * PILOT as f64 * density.terms() > SECOND;
        for batch in 0..PILOTS {
            let pilot = density.sample(&proposal, PILOT, self.goal.seed, batch)?;
            proposal = proposal.adapted(&pilot, dim);
            if long && pilot.effective_sample_size > ENOUGH * PILOT as f64 {
                break;
            }
        }
        Ok(Some(proposal))
    }

    /// Chains in the frame of the mixture's Gaussian.
    fn nuts(&self) -> Result<Result<PosteriorTable, Missing>, Error> {
        let terms = NUTS_GRADIENTS * self.density.gradient_terms() * self.density.terms();
        if !self.affordable(terms, NUTS_TERMS) {
            let words = format!("NUTS would take about {} terms of the likelihood", figure(terms));
            return Ok(Err(Missing::Long(words)));
        }
        let q: Gaussian = match self.piloted {
            Some(density) => {
                let proposal = self.adapted_proposal(density)?;
                let Some(q) = proposal.map(|own| density.gaussian(&own)).transpose()?.flatten() else {
                    let why = "NUTS needs a covariance of the scales and a likelihood that is not sampled";
                    return Ok(Err(Missing::Failed(why.into())));
                };
                q
            }
            None => self.ended.mixture_posterior.joint_gaussian()?,
        };
        let settings = NutsSettings { seed: self.goal.seed, ..NutsSettings::default() };
        let chains = nuts(&DensityTarget(self.density), &q, &settings)?;
        let (table, r_hat) = nuts_table(&self.rows(), chains, kept(q.dim()), self.goal.seed);
        Ok(match r_hat <= R_HAT {
            true => Ok(table),
            false => Err(Missing::Failed(format!("the chains of NUTS have not mixed: R-hat {r_hat:.3}"))),
        })
    }

    /// The effects of groups, averaged over draws; `None` if there are none, or they would take long.
    fn effects(&self, table: &PosteriorTable) -> Result<Option<Vec<Effect>>, Error> {
        let (density, mixture) = (self.density, &self.ended.mixture_posterior);
        if mixture.effects.is_none() || density.groups() == 0 {
            return Ok(None);
        }
        if table.draws.is_empty() {
            let (what, required) = ("effects of groups", "draws of the posterior");
            return Err(InvalidModel::Requires { what, required }.into());
        }
        corrected_effects(density, &table.draws).map(Some)
    }
}
