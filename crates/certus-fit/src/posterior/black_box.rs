//! What is printed of a black box: q's own numbers, or those that importance weights correct.

use certus::Outcome;
use certus::auto::{ACCURATE, CertifiedWeights, Comparison, Printed};
use certus::certificate::Level;
use certus::certificate::words::upward;
use certus::fit::Status;

use super::choice::PosteriorChoice;
use super::ladder::SHORT;
use super::table::{PosteriorTable, kept};
use crate::record::Source;

impl PosteriorTable {
    /// The table of an outcome; `None` for q's own numbers. An outcome whose printed numbers are not accurate enough
    /// has not reached its goal.
    pub(crate) fn of_black_box(
        outcome: &mut Outcome,
        choice: PosteriorChoice,
        accuracy: Option<f64>,
        seed: u64,
    ) -> Option<Self> {
        let Outcome { status, message, gaussian: q, comparison, .. } = outcome;
        let comparison = comparison.as_ref().filter(|_| kept(q.dim()).is_some())?;
        let accuracy = accuracy.unwrap_or(ACCURATE);
        let printed = match choice {
            PosteriorChoice::Auto => comparison.printed(q, accuracy),
            PosteriorChoice::Only(Source::Corrected) => Printed::Corrected,
            PosteriorChoice::Only(Source::Importance) => Printed::Importance,
            PosteriorChoice::Only(_) => Printed::Gaussian,
        };
        let table = Self::printed(q, comparison, printed, seed);
        let missing = table.is_none() && printed != Printed::Gaussian;
        let error = comparison.error(q, if missing { Printed::Gaussian } else { printed });
        // `auto` has been judged by the run
        if choice != PosteriorChoice::Auto && *status == Status::Reached && (missing || error > accuracy) {
            *status = Status::Limit;
            let why = match (missing, printed, &comparison.not_certified) {
                (true, Printed::Corrected, Some(why)) => why.clone(),
                (true, Printed::Corrected, None) => "the target is not declared log-concave".into(),
                (true, ..) => "there are no weights".into(),
                _ => "the source auto may do better".into(),
            };
            *message = format!("{message}{SHORT}{why}");
        }
        table
    }

    fn printed(q: &certus::Gaussian, comparison: &Comparison, printed: Printed, seed: u64) -> Option<Self> {
        let reported: Vec<Vec<(usize, f64)>> = (0..q.dim()).map(|i| vec![(i, 1.0)]).collect();
        let table = match (printed, &comparison.certified, &comparison.importance, &comparison.points) {
            (Printed::Corrected, Some(CertifiedWeights { certificate, points, pairs, delta }), ..) => {
                let level = Level::Probable { delta: *delta };
                let mut table =
                    Self::corrected(q, &reported, certificate, points, level, *pairs as f64, seed);
                let (variation, reverse) = (certificate.total_variation, certificate.reverse_kl);
                table.made = format!(
                    "{}; the user declares the target log-concave; the total variation between q and the posterior is \
                     at most {}, KL(p‖q) at most {} nats, with the same probability",
                    table.made.replace("(D8)", "(D9)"),
                    upward(variation, 2),
                    upward(reverse, 2)
                );
                table
                    .constants
                    .extend([("total variation, at most", variation), ("KL(p‖q), at most", reverse)]);
                table
            }
            (Printed::Importance, _, Some(found), Some(points)) => {
                Self::importance(q, &reported, found, points, seed)
            }
            _ => return None,
        };
        Some(table).filter(PosteriorTable::is_finite)
    }
}
