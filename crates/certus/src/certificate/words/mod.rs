//! A certificate in words: the one place where bounds, levels and estimates become sentences.
//!
//! Whoever prints a certificate (the core, the command line, the report, Python) hands its numbers over as [`Facts`]
//! and gets the same sentence with the same digits. "At most" and "within" stand before proved and probable numbers
//! only, which are rounded outward; an estimate reads "about x ± standard error" and names what it assumes.

mod figures;

pub use figures::{
    counted, downward, estimate, figure, interval, known_to, nearest, percent, probability, significant,
    upward,
};

use std::fmt;

use super::{Gap, Level, Posterior, Statement};
use crate::target::Provenance;

/// The constant of a statement that bounds the same number from below.
pub const AT_LEAST: &str = "KL(q‖p), at least";

/// What a statement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// f(w) − f*, over a family of Gaussians.
    Gap {
        /// Its name, such as "all Gaussians".
        family: &'a str,
    },
    /// KL(q ‖ p).
    Posterior,
}

/// A statement as plain facts, whatever type they are stored in.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts<'a> {
    /// What it is about.
    pub about: About<'a>,
    /// The bound, in nats.
    pub bound: Option<f64>,
    /// The same from below, at the same level; 0 where it is not known.
    pub at_least: f64,
    /// How strong it is.
    pub level: Level,
    /// The label of its theorem, or "".
    pub theorem: &'a str,
    /// A value with its standard error, where draws estimated one.
    pub estimate: Option<(f64, f64)>,
    /// What is assumed and not known.
    pub assumed: Vec<&'a str>,
    /// True if it rests on what a user declared.
    pub declared: bool,
    /// Why there is no statement, or why it is not stronger.
    pub reason: Option<&'a str>,
    /// Errors of the means, in sds of q.
    pub mean_error: Option<f64>,
    /// Errors of the sds, as a fraction of q's.
    pub sd_error: Option<f64>,
    /// A bracket of the log evidence.
    pub log_evidence: Option<(f64, f64)>,
}

/// A sentence without its full stop, in three parts so that the number can be set apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Before the number.
    pub before: String,
    /// "at most 1.4e-7 nats", "between 0.0052 and 0.0091 nats", "about 0.021 ± 0.0022 nats".
    pub size: String,
    /// After it.
    pub after: String,
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.before, self.size, self.after)
    }
}

impl<'a> Facts<'a> {
    fn of(about: About<'a>, statement: &'a Statement) -> Self {
        let assumptions = statement.assumptions();
        let value = statement.constant("estimate").zip(statement.constant("standard error"));
        Self {
            about,
            bound: statement.bound(),
            at_least: statement.constant(AT_LEAST).unwrap_or(0.0),
            level: statement.level(),
            theorem: statement.theorem(),
            estimate: value,
            assumed: assumptions
                .iter()
                .filter(|a| a.provenance == Provenance::Estimated)
                .map(|a| a.what.as_str())
                .collect(),
            declared: assumptions.iter().any(|a| matches!(a.provenance, Provenance::DeclaredByUser(_))),
            reason: statement.reason(),
            mean_error: None,
            sd_error: None,
            log_evidence: None,
        }
    }

    /// True where "at most" and "within" may stand.
    pub fn is_a_bound(&self) -> bool {
        matches!(self.level, Level::Proved | Level::Probable { .. })
    }

    /// "proved", "with probability 0.99", "estimated"; with what the user declared, where it rests on that.
    pub fn level_words(&self) -> String {
        let level = level_words(self.level);
        match (self.level, self.declared) {
            (Level::Proved, true) => format!("{level} from what the user declared"),
            (Level::Probable { .. }, true) => format!("{level}, from what the user declared"),
            _ => level,
        }
    }

    /// "at most 1.4e-7 nats", "about 0.021 ± 0.0022 nats", "bounded by about 1.4e-7 nats"; `None` without a number.
    pub fn size(&self) -> Option<String> {
        let bound = self.bound?;
        Some(match (self.is_a_bound(), self.estimate) {
            (true, _) if self.at_least > 0.0 => {
                format!("between {} and {} nats", downward(self.at_least, 2), figure(bound))
            }
            (true, _) => format!("at most {} nats", figure(bound)),
            (false, Some((value, error))) => format!("about {} nats", estimate(value, error)),
            (false, None) => format!("bounded by about {} nats", nearest(bound, 2)),
        })
    }

    /// ", if −log p is convex": what an estimate assumes.
    fn condition(&self) -> String {
        match self.assumed.as_slice() {
            [] => String::new(),
            assumed => format!(", if {}", assumed.join(" and ")),
        }
    }

    /// " (proved, Theorem D)".
    fn label(&self) -> String {
        let theorem = if self.theorem.is_empty() { String::new() } else { format!(", {}", self.theorem) };
        format!(" ({}{theorem})", self.level_words())
    }

    /// The statement: "at most 1.4e-7 nats from the best of all Gaussians (proved, Theorem D)", to stand after the word
    /// "gap" or a label; "KL(q‖p) about 0.031 ± 0.0012 nats, if q has found every mode (estimated, importance
    /// sampling)"; or "not certified" and why.
    pub fn sentence(&self) -> Sentence {
        let before = match self.about {
            About::Gap { .. } => "",
            About::Posterior => "KL(q‖p) ",
        };
        let (size, after) = match (self.size(), self.about) {
            (Some(size), About::Gap { family }) => {
                (size, format!(" from the best of {family}{}{}", self.condition(), self.label()))
            }
            (Some(size), About::Posterior) => (size, format!("{}{}", self.condition(), self.label())),
            (None, About::Gap { .. }) => ("not certified".into(), format!(": {}", self.why())),
            (None, About::Posterior) => ("not known".into(), format!(": {}", self.why())),
        };
        Sentence { before: before.into(), size, after }
    }

    /// The statement as a whole sentence: [`Self::sentence`] with its subject.
    pub fn standing_alone(&self) -> Sentence {
        let mut sentence = self.sentence();
        if matches!(self.about, About::Gap { .. }) {
            sentence.before = "gap ".into();
        }
        sentence
    }

    /// For messages: "the gap is at most 1.4e-7 nats, proved"; without the family and the theorem.
    pub fn message(&self) -> String {
        let what = match self.about {
            About::Gap { .. } => "the gap",
            About::Posterior => "KL(q‖p)",
        };
        match self.size() {
            Some(size) if self.is_a_bound() => format!("{what} is {size}, {}", self.level_words()),
            Some(size) => format!("{what} is {size} ({}){}", self.level_words(), self.condition()),
            None => format!("{what} is not certified: {}", self.why()),
        }
    }

    fn why(&self) -> &str {
        self.reason.map_or("not requested", |r| r.trim_end_matches('.'))
    }

    /// "the posterior's means within 0.0052 sd, its sds within 0.32 % of q's"; of an estimate "the posterior's means
    /// about 0.0052 sd, its sds about 0.32 % from q's, or less (estimated)".
    pub fn errors(&self) -> Option<String> {
        if self.bound.is_none() || (self.mean_error, self.sd_error) == (None, None) {
            return None;
        }
        let whose = match self.about {
            About::Gap { .. } => "the best Gaussian's",
            About::Posterior => "the posterior's",
        };
        let how = if self.is_a_bound() { "within" } else { "about" };
        let mean = self.mean_error.map(|e| format!("means {how} {} sd", figure(e)));
        let sd = self.sd_error.map(|e| format!("sds {how} {} %", percent(e)));
        let both = mean.into_iter().chain(sd).collect::<Vec<_>>().join(", its ");
        Some(if self.is_a_bound() {
            format!("{whose} {both} of q's")
        } else {
            format!("{whose} {both} from q's, or less ({})", self.level_words())
        })
    }

    /// "log evidence between −12.3457 and −12.3401", rounded outward; of an estimate "log evidence about −12.3429
    /// (estimated, from −12.3457 to −12.3401)".
    pub fn evidence(&self) -> Option<String> {
        let (low, high) = self.log_evidence.filter(|_| self.bound.is_some())?;
        let (from, to) = interval(low, high, 4);
        Some(if self.is_a_bound() {
            format!("log evidence between {from} and {to}")
        } else {
            format!(
                "log evidence about {:.4} ({}, from {from} to {to})",
                0.5 * (low + high),
                self.level_words()
            )
        })
    }

    /// Why a statement is not stronger.
    pub fn weakness(&self) -> Option<String> {
        let reason = self.reason.filter(|_| self.bound.is_some())?;
        Some(format!("not stronger because {}", reason.trim_end_matches('.')))
    }
}

/// "proved", "with probability 0.99", "estimated", "nothing".
pub fn level_words(level: Level) -> String {
    match level {
        Level::Probable { delta } if delta.is_finite() => format!("with probability {}", probability(delta)),
        other => other.name().into(),
    }
}

/// The gap while a fit runs: "gap at most 0.02 nats", "gap about 0.02 nats (estimate, not checked)",
/// "gap not bounded yet".
pub fn progress(bound: Option<f64>, level: Level) -> String {
    match (bound, level) {
        (None, _) | (_, Level::None) => "gap not bounded yet".into(),
        (Some(bound), Level::Estimated) => {
            format!("gap about {} nats (estimate, not checked)", nearest(bound, 2))
        }
        (Some(bound), _) => format!("gap at most {} nats", figure(bound)),
    }
}

impl Gap {
    /// The facts that words are made of.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            mean_error: self.mean_error,
            sd_error: self.sd_error,
            ..Facts::of(About::Gap { family: &self.family }, &self.statement)
        }
    }
}

impl Posterior {
    /// The facts that words are made of.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            mean_error: self.mean_error,
            sd_error: self.sd_error,
            log_evidence: self.log_evidence,
            ..Facts::of(About::Posterior, &self.statement)
        }
    }
}

/// Both parts, each with what it rests on.
impl fmt::Display for super::Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, facts, statement) in [
            ("gap", self.gap.facts(), &self.gap.statement),
            ("posterior", self.posterior.facts(), &self.posterior.statement),
        ] {
            writeln!(f, "{label:<11}{}", facts.sentence())?;
            let more = [facts.errors(), facts.evidence()].into_iter().flatten();
            more.into_iter().try_for_each(|line| writeln!(f, "  {line}"))?;
            for a in statement.assumptions() {
                writeln!(f, "  rests on: {}, {}", a.what, a.provenance)?;
            }
            facts.weakness().into_iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&level_words(*self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Certificate;

    fn facts(level: Level) -> Facts<'static> {
        Facts {
            about: About::Gap { family: "all Gaussians" },
            bound: Some(6.98461e-7),
            at_least: 0.0,
            level,
            theorem: "Theorem D",
            estimate: None,
            assumed: Vec::new(),
            declared: false,
            reason: None,
            mean_error: Some(0.005_12),
            sd_error: Some(0.003_12),
            log_evidence: Some((-12.345_67, -12.340_02)),
        }
    }

    #[test]
    fn bounds_are_at_most_and_estimates_are_about() {
        let proved = facts(Level::Proved);
        assert_eq!(
            proved.standing_alone().to_string(),
            "gap at most 7.0e-7 nats from the best of all Gaussians (proved, Theorem D)"
        );
        assert_eq!(proved.message(), "the gap is at most 7.0e-7 nats, proved");
        assert_eq!(
            proved.errors().as_deref(),
            Some("the best Gaussian's means within 0.0052 sd, its sds within 0.32 % of q's")
        );
        assert_eq!(proved.evidence().as_deref(), Some("log evidence between -12.3457 and -12.3400"));
        let declared = Facts { declared: true, ..facts(Level::Probable { delta: 0.01 }) };
        assert_eq!(
            declared.message(),
            "the gap is at most 7.0e-7 nats, with probability 0.99, from what the user declared"
        );
        let kl = Facts {
            about: About::Posterior,
            bound: Some(0.0303),
            estimate: Some((0.028_01, 0.001_12)),
            assumed: vec!["q has found every mode"],
            theorem: "importance sampling",
            ..facts(Level::Estimated)
        };
        assert_eq!(
            kl.sentence().to_string(),
            "KL(q‖p) about 0.0280 ± 0.0012 nats, if q has found every mode (estimated, importance sampling)"
        );
        let weighed = Facts {
            about: About::Posterior,
            bound: Some(0.009_12),
            at_least: 0.005_27,
            theorem: "D8",
            ..facts(Level::Probable { delta: 0.01 })
        };
        assert_eq!(
            weighed.sentence().to_string(),
            "KL(q‖p) between 0.0052 and 0.0092 nats (with probability 0.99, D8)"
        );
        let unproved = Facts { assumed: vec!["quadrature is exact"], ..facts(Level::Estimated) };
        assert_eq!(
            unproved.message(),
            "the gap is bounded by about 7.0e-7 nats (estimated), if quadrature is exact"
        );
        for estimated in [kl, unproved] {
            let all = [
                estimated.sentence().to_string(),
                estimated.message(),
                estimated.errors().expect("errors"),
                estimated.evidence().expect("a bracket"),
            ];
            assert!(all.iter().all(|t| !t.contains("at most") && !t.contains("within")), "{all:?}");
        }
        let none = Facts {
            bound: None,
            level: Level::None,
            reason: Some("−log p is not convex."),
            ..facts(Level::None)
        };
        assert_eq!(none.standing_alone().to_string(), "gap not certified: −log p is not convex");
        assert_eq!((none.errors(), none.evidence(), none.weakness()), (None, None, None));
        assert_eq!(progress(Some(0.0123), Level::Proved), "gap at most 0.013 nats");
        assert_eq!(progress(Some(0.0123), Level::Estimated), "gap about 0.012 nats (estimate, not checked)");
    }

    #[test]
    fn it_reads_like_a_sentence() {
        let word = crate::internals::by_model().vouched().expect("models prove");
        let certificate = Certificate {
            gap: Gap {
                statement: Statement::proved("Theorem D", 1.234e-5, &word, "local curvature"),
                family: "all Gaussians".into(),
                mean_error: Some(0.00512),
                sd_error: Some(0.00312),
            },
            posterior: Posterior::none("not requested"),
        };
        let text = certificate.to_string();
        for words in [
            "gap        at most 1.3e-5 nats from the best of all Gaussians (proved, Theorem D)",
            "the best Gaussian's means within 0.0052 sd, its sds within 0.32 % of q's",
            "rests on: local curvature, proved by the model",
            "posterior  KL(q‖p) not known: not requested",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
    }
}
