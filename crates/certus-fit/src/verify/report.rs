//! What `certus verify` found: a line per part of a fit, and what is wrong.

use std::fmt;

use crate::directory::{MEANING, SETTINGS};

use super::leaves::Difference;
use super::{IDLE, Recipe, Stored, UNCHECKED};

/// How far a statement was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// By arithmetic that shares only the formulas of the likelihood with the fit.
    Confirmed,
    /// By the code of the fit, from the data and the stored numbers; the same within the tolerance.
    Recomputed,
    /// Not at all.
    NotChecked,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Confirmed => "confirmed",
            Self::Recomputed => "recomputed",
            Self::NotChecked => "not checked",
        })
    }
}

/// One part of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// How far it was checked.
    pub word: Word,
    /// What, and how.
    pub what: String,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What holds, or was not checked.
    pub lines: Vec<Line>,
    /// What does not hold, a sentence each; the fit is refuted if there is any.
    pub refuted: Vec<String>,
}

impl Report {
    pub(super) fn line(&mut self, word: Word, what: impl Into<String>) {
        self.lines.push(Line { word, what: what.into() });
    }

    /// A claim of a certificate that was made for this, and proved by certus-check's library.
    pub(super) fn certified(&mut self, claim: &str) {
        let how = "a certificate of it was made, and proved by certus-check's library, \
                   which shares no code with the fit";
        self.line(Word::Confirmed, format!("{claim}: {how}"));
    }

    /// A certificate that nobody asked for and that takes longer than a verification should; `command` writes it.
    pub(super) fn takes_long(&mut self, what: &str, command: &str) {
        self.line(Word::NotChecked, format!("{what}: a certificate would take long; {command} writes it"));
    }

    /// Leaves that differ.
    pub(super) fn leaves(&mut self, found: &[Difference]) {
        for Difference { path, stored, own } in found {
            self.refuted.push(format!("{path} is {stored}, but recomputed it is {own}"));
        }
    }

    /// Lines for the parts that were compared leaf by leaf; parts of which a leaf differs have none.
    pub(super) fn summary(
        &mut self,
        recipe: &Recipe<'_>,
        stored: &Stored,
        path_dependent: &[(&'static str, &'static str)],
    ) {
        let record = &stored.record;
        let fingerprint = record.data.fingerprint.as_deref().unwrap_or("none");
        let rows = recipe.problem.prepared.rows_used;
        let mut parts: Vec<(&[&str], String)> = vec![
            (
                &["data", SETTINGS, MEANING],
                format!("data: {rows} rows with the fingerprint {fingerprint}; {SETTINGS}, {MEANING}"),
            ),
            (&["parameter", "fit.json has", "table", "gaussian"], Self::parameters(stored)),
            (
                &["certificate.gap", "gap", "stored gap"],
                "certificate of the gap: every field, by the code of the fit".to_string(),
            ),
            (&["certificate.posterior"], Self::posterior(stored)),
            (
                &["status", "message", "route", "notes", "seed", "model", "schema", "k_hat"],
                "status, message, route, notes, seed and model: they follow from the rest".to_string(),
            ),
        ];
        if record.neg_elbo.is_some() {
            parts.push((&["neg_elbo"], "negative ELBO, at the stored Gaussian".to_string()));
        }
        if record.certificate.scale.is_some() {
            parts.push((
                &["certificate.scale"],
                "certificate of the scales: every field, by repeating the run".to_string(),
            ));
        }
        for (roots, words) in parts {
            let belongs = |text: &String| {
                let text = text.strip_prefix("the ").unwrap_or(text);
                roots.iter().any(|root| text.starts_with(root))
            };
            if !self.refuted.iter().any(belongs) {
                self.line(Word::Recomputed, words);
            }
        }
        for (path, why) in path_dependent {
            self.line(Word::NotChecked, format!("{path}: {why}"));
        }
        self.idle();
    }

    fn parameters(stored: &Stored) -> String {
        let (all, table) = (stored.record.parameters.len(), &stored.record.table);
        match table {
            Some(_) => format!(
                "parameters: all {all} with their errors, repeated with the stored seed by the code of the fit; the \
                    Gaussian's follow from the arrays"
            ),
            None => format!("parameters: all {all} follow from the arrays"),
        }
    }

    fn posterior(stored: &Stored) -> String {
        let posterior = &stored.record.certificate.posterior;
        let how = match posterior.bound {
            None => "the distance from the posterior is not stated",
            Some(_) if posterior.delta.is_some() => {
                "repeated with the stored seed by the code of the fit; fresh draws do not contradict it at \
                    significance 10⁻⁶"
            }
            Some(_) => "repeated with the stored seed by the code of the fit",
        };
        format!("certificate of the posterior: {how}")
    }

    /// What no claim rests on.
    pub(super) fn idle(&mut self) {
        let settings = IDLE.join(", ");
        self.line(
            Word::NotChecked,
            format!("no claim rests on them: {}; settings {settings}", UNCHECKED.join(", ")),
        );
    }
}
