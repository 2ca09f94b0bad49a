//! What is proved of the estimate of a linear mixed model (docs/mixed.md, L1 to L3), by the names of its scales.

use certus_mixed::collapsed::Interval;
use certus_mixed::linear::{Ball, LinearMixedFit, NotGlobal, Proof, Unproved, fit, fit_from, global};
use certus_models::Error;

use super::model::LinearMixed;
use crate::refusal::RequestError;
use crate::variance::request::{Prove, Scales};
use crate::variance::several::{Highest, ProvedBall};

/// Multiplications for the proof of a global maximum: without being asked, about a second; if it is asked for.
const UNASKED: f64 = 1e9;
const ASKED: f64 = 2e10;
/// How often a search goes on where the likelihood is higher.
const MOVES: usize = 3;

impl LinearMixed {
    /// Sets what is to be proved of an estimate.
    pub(crate) fn prove(&mut self, scales: Scales, asked: Option<Prove>) -> Result<(), RequestError> {
        let scalar = self.terms.list.len() <= 2 && self.terms.list.iter().all(|term| term.effects.len() == 1);
        self.global = match (scales, asked) {
            (Scales::Estimate, Some(Prove::Global)) if !scalar => {
                let owner = "linear mixed models with one or two terms of one effect each";
                return Err(RequestError::no_effect("`prove` global", owner));
            }
            (Scales::Estimate, Some(Prove::Global)) => (ASKED, true),
            (Scales::Estimate, None) if scalar => (UNASKED, false),
            _ => (0.0, false),
        };
        Ok(())
    }

    /// The estimate, and whether its maximum is the highest of all (docs/mixed.md, L3), where that is asked for or
    /// quick to see: where the likelihood turns out to be higher elsewhere, the search goes on from there.
    pub(super) fn highest(&self) -> Result<(LinearMixedFit, Option<Highest>), Error> {
        let mut found = self.named(fit(&self.statistics, self.criterion))?;
        let (budget, asked) = self.global;
        if budget == 0.0 {
            return Ok((found, None));
        }
        for moves in 0..=MOVES {
            let not_proved = |reason: NotGlobal| Some(Highest::NotProved(reason.to_string()));
            let highest = match global(&self.statistics, &found, budget) {
                Ok(_) => Some(Highest::Proved),
                Err(NotGlobal::Better { ratios, below }) => {
                    // where the likelihood has no maximum, a search there does not end
                    let next = fit_from(&self.statistics, self.criterion, &ratios).ok();
                    if let Some(mut next) = next.filter(|next| moves < MOVES && next.value < found.value) {
                        next.evaluations += found.evaluations;
                        found = next;
                        continue;
                    }
                    not_proved(NotGlobal::Better { ratios, below })
                }
                Err(reason) => not_proved(reason).filter(|_| asked),
            };
            return Ok((found, highest));
        }
        Ok((found, None))
    }

    /// What is proved of every sd and σ (correlations have what the first sd of their group has).
    pub(crate) fn intervals(&self, found: &LinearMixedFit) -> Vec<Interval> {
        let nothing = |why: String| Interval { sds: [f64::NAN; 2], proved: Err(why) };
        let scaled = |sd: f64, (low, high): (f64, f64)| Interval {
            sds: [(sd * low).next_down().max(0.0), (sd * high).next_up()],
            proved: Ok(()),
        };
        let of = |t: usize, sd: f64, ball: Option<&Ball>, zero: &[usize]| {
            let place = ball.and_then(|ball| Some((ball, ball.terms.iter().position(|own| *own == t)?)));
            match place {
                Some((ball, index)) => scaled(sd, ball.sd_factors(index)),
                None if zero.contains(&t) => Interval { sds: [0.0; 2], proved: Ok(()) },
                None => nothing("the term is not part of the proof".into()),
            }
        };
        let mut out = vec![nothing("no proof".into()); self.terms.unknown_scales.scales.len()];
        for (t, (term, own)) in self.terms.list.iter().zip(&found.terms).enumerate() {
            for (sd, effect) in own.sds.iter().zip(&term.effects) {
                out[self.terms.unknown_scales.effects[*effect].scale] = match &found.proof {
                    Proof::Ball(ball) => of(t, *sd, Some(ball), &[]),
                    Proof::Boundary { zero, ball, .. } => of(t, *sd, ball.as_ref(), zero),
                    Proof::Singular { ball, terms } => {
                        let zero = if own.rank == 0 { &terms[..] } else { &[] };
                        of(t, *sd, Some(ball), zero)
                    }
                    Proof::None { reason } => nothing(self.unproved(reason)),
                };
            }
        }
        out
    }

    /// How far, of itself, every Σ/σ² is from that of the minimum at most; how far from it no other stationary point
    /// is; and the groups whose sd is 0 at it.
    pub(super) fn proved(&self, found: &LinearMixedFit) -> Option<ProvedBall> {
        let name = |t: &usize| {
            let effect = &self.terms.unknown_scales.effects[self.terms.list[*t].effects[0]];
            self.terms.unknown_scales.scales[effect.scale].name.clone()
        };
        let numbers = |ball: &Ball| {
            let largest = ball.relative_error.iter().copied().fold(0.0, f64::max);
            (largest, ball.excluded.iter().copied().fold(f64::INFINITY, f64::min))
        };
        match &found.proof {
            Proof::Ball(ball) => {
                let (radius, exclusion) = numbers(ball);
                Some(ProvedBall { theorem: "Theorem L1", radius, exclusion, zero: Vec::new() })
            }
            Proof::Boundary { zero, ball, .. } => {
                let (radius, exclusion) = ball.as_ref().map_or((0.0, f64::INFINITY), numbers);
                let zero = zero.iter().map(name).collect();
                Some(ProvedBall { theorem: "Theorem L2", radius, exclusion, zero })
            }
            Proof::Singular { terms, ball } => {
                let zero = terms.iter().filter(|&&t| found.terms[t].rank == 0).map(name).collect();
                let (radius, _) = numbers(ball);
                Some(ProvedBall { theorem: "Theorem L4", radius, exclusion: f64::INFINITY, zero })
            }
            Proof::None { .. } => None,
        }
    }

    /// Why nothing is proved, by names.
    fn unproved(&self, reason: &Unproved) -> String {
        match reason {
            Unproved::Singular { term } => format!(
                "the covariance matrix of {} is singular, and a variance is too small beside the others for a proof",
                self.terms.names[*term]
            ),
            Unproved::Level { term, .. } => {
                format!("the criterion hardly increases where the sd of {} leaves 0", self.terms.names[*term])
            }
            other => other.to_string(),
        }
    }
}
