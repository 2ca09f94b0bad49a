//! The certificate of means and sds of the posterior, from draws that can be repeated (docs/certificate-format.md,
//! section 13).

use certus::certificate::words::percent;
use certus::certificate::{counted, figure};
use certus_models::proof::{DrawsCertificate, MOST_COEFFICIENTS, Subject, covers};

use super::refused;
use crate::coefficient_map::Quantity;
use crate::error::Error;
use crate::problem::{ModelKind, Problem};
use crate::record::{Parameter, RecordedLevel, Source};
use crate::verify::Stored;

/// The part of the certificates of posteriors that may be false: small, because nobody knows how many were made.
pub(crate) const DELTA: f64 = 1e-6;
/// Rows times pairs of draws, where nobody asked for a certificate, and pairs below which one says little.
const MOST_WORK: usize = 4_000_000;
const FEWEST_PAIRS: usize = 2000;
const MOST_PAIRS: usize = 1 << 15;

/// What is certified of a fit.
pub(crate) struct StatedMoments<'a> {
    pub(crate) subject: Subject<'a>,
    combinations: Vec<(String, Vec<f64>)>,
}

/// Where the printed numbers of a fit come from importance weights, so that the rule for draws may apply.
pub(crate) fn concerns(problem: &Problem, stored: &Stored) -> bool {
    let ModelKind::Dense(model) = &problem.model_kind else { return false };
    let source = stored.record.table.as_ref().map(|table| table.source);
    covers(model)
        && model.dim() <= MOST_COEFFICIENTS
        && matches!(source, Some(Source::Corrected | Source::Importance))
}

/// Pairs of draws of a certificate that nobody asked for; `None` where it would take long.
pub(crate) fn pairs(problem: &Problem) -> Option<u64> {
    let work = problem.prepared.rows_used.max(1) * (4 + problem.meaning.dim() / 4);
    let pairs = (4 * MOST_WORK / work).min(MOST_PAIRS);
    (pairs >= FEWEST_PAIRS).then_some(pairs as u64)
}

impl<'a> StatedMoments<'a> {
    pub(crate) fn of(problem: &'a Problem, stored: &Stored) -> Result<Self, Error> {
        let ModelKind::Dense(model) = &problem.model_kind else {
            return Err(refused(
                "certificates of a posterior cover models without group terms whose scales are given",
            ));
        };
        let names = problem.prepared.encoding.coefficients();
        let subject = Subject::new(model, &stored.arrays.gaussian, &names, None)?;
        let combination = |quantity: Quantity| {
            let mut weights = vec![0.0; model.dim()];
            quantity.terms.iter().for_each(|(latent, weight)| weights[*latent] += weight);
            (quantity.name, weights)
        };
        let combinations = problem.meaning.quantities().into_iter().map(combination).collect();
        Ok(Self { subject, combinations })
    }

    /// The certificate, from so many pairs of draws or as many as take some seconds.
    pub(crate) fn certify(&self, pairs: Option<u64>) -> Result<DrawsCertificate, Error> {
        Ok(self.subject.weigh(&self.combinations, pairs, DELTA)?)
    }

    /// The same, read from its text and proved by certus-check's library.
    pub(crate) fn checked(&self, pairs: u64) -> Result<DrawsCertificate, Error> {
        Ok(self.subject.weighed(&self.combinations, Some(pairs), DELTA)?)
    }

    /// The claim, a line for each coefficient.
    pub(crate) fn words(&self, certificate: &DrawsCertificate) -> String {
        let mut claim = format!("with probability {}, {}", 1.0 - DELTA, divergence(certificate));
        for ((name, _), direction) in self.combinations.iter().zip(&certificate.directions) {
            let ([a, b], [c, d]) = (direction.mean, direction.sd);
            claim.push_str(&format!("\n  {name}: mean between {a:?} and {b:?}, sd between {c:?} and {d:?}"));
        }
        claim
    }

    /// The claim in one sentence: how far the ends of every interval are from the printed numbers at most. An error
    /// names a printed interval that lies outside the certified one.
    pub(crate) fn compared(
        &self,
        certificate: &DrawsCertificate,
        printed: &[Parameter],
    ) -> Result<String, String> {
        let (mut mean_error, mut sd_error) = (0.0f64, 0.0f64);
        for ((name, _), direction) in self.combinations.iter().zip(&certificate.directions) {
            let Some(own) = printed.iter().find(|own| own.name == *name) else {
                return Err(format!("no mean of {name} is printed"));
            };
            let (mean, sd) = (own.mean.unwrap_or(f64::NAN), own.sd.unwrap_or(f64::NAN));
            let holds = matches!(own.level, Some(RecordedLevel::Proved | RecordedLevel::Probable));
            let errors = [own.mean_error.map(|error| error * sd), own.sd_error.map(|error| error * sd)];
            for ((what, x, error), [low, high]) in [("mean", mean, errors[0]), ("sd", sd, errors[1])]
                .into_iter()
                .zip([direction.mean, direction.sd])
            {
                let error = error.filter(|_| holds).unwrap_or(f64::INFINITY);
                if x + error < low || high < x - error {
                    return Err(format!(
                        "the {what} of {name} is printed as {x} within {error}, but with probability {} it is between \
                         {low} and {high}",
                        1.0 - DELTA
                    ));
                }
            }
            mean_error = mean_error.max(far(direction.mean, mean) / sd);
            sd_error = sd_error.max(far(direction.sd, sd) / sd);
        }
        Ok(format!(
            "with probability {}, {}, every printed mean is within {} sd and every printed sd within {} % of the \
             posterior's",
            1.0 - DELTA,
            divergence(certificate),
            figure(mean_error),
            percent(sd_error)
        ))
    }
}

/// "from 2000 pairs of draws, KL(posterior || q) is at most 0.01 nats".
fn divergence(certificate: &DrawsCertificate) -> String {
    let pairs = counted(certificate.pairs as usize, "pair");
    format!("from {pairs} of draws, KL(posterior || q) is at most {} nats", figure(certificate.divergence))
}

/// How far a number can be from one in an interval.
fn far([low, high]: [f64; 2], x: f64) -> f64 {
    (x - low).abs().max((high - x).abs())
}
