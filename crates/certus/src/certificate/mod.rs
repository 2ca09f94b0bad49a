//! What a fit can say about itself: how far it is from the best Gaussian of its family, and how far from the posterior.
//!
//! The two parts are independent. Each is a [`Statement`]: a bound with its level, the theorem behind it, the constants
//! that entered, and what it rests on; or the reason why there is none. A statement is proved or probable only if every
//! constant in it is vouched for: those constructors ask for a [`Vouched`], which cannot be made from estimated
//! constants.

mod checks;
mod deviation;
mod gap;
mod lipschitz;
mod posterior;
pub mod weights;
pub mod words;

pub use checks::{Checks, Spending};
pub use deviation::fisher_bound;
pub use gap::family_name;
pub use words::{counted, figure, significant};

use crate::target::{Provenance, Vouched};

/// How strong a statement is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// It holds, rounding and quadrature included, if its assumptions do.
    Proved,
    /// It holds with probability at least 1 − δ over our own draws, if its assumptions do.
    Probable {
        /// δ.
        delta: f64,
    },
    /// It rests on something that was only measured or is not proved.
    Estimated,
    /// Nothing is stated.
    None,
}

/// Something a statement rests on, and who says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Assumption {
    /// What is assumed.
    pub what: String,
    /// Who says so.
    pub provenance: Provenance,
}

/// A bound with its level and everything it rests on, or the reason why there is none.
///
/// The fields are private, so a level cannot be written by hand:
///
/// ```compile_fail
/// use certus::certificate::{Level, Statement};
/// let forged = Statement { level: Level::Proved, ..Statement::none("") };
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    bound: Option<f64>,
    level: Level,
    theorem: &'static str,
    constants: Vec<(&'static str, f64)>,
    assumptions: Vec<Assumption>,
    reason: Option<String>,
}

impl Statement {
    /// A deterministic bound from constants that somebody vouches for.
    pub fn proved(theorem: &'static str, bound: f64, word: &Vouched, assumption: &str) -> Self {
        Self::new(Level::Proved, theorem, bound, word.provenance().clone(), assumption)
    }

    /// A bound that holds with probability 1 − δ over our own draws.
    pub fn probable(theorem: &'static str, bound: f64, delta: f64, word: &Vouched, assumption: &str) -> Self {
        Self::new(Level::Probable { delta }, theorem, bound, word.provenance().clone(), assumption)
    }

    /// An estimate.
    pub fn estimated(theorem: &'static str, bound: f64, assumption: &str) -> Self {
        Self::new(Level::Estimated, theorem, bound, Provenance::Estimated, assumption)
    }

    /// The strongest level that `provenance` allows for a deterministic bound.
    pub fn by(provenance: &Provenance, theorem: &'static str, bound: f64, assumption: &str) -> Self {
        match provenance.vouched() {
            Some(word) => Self::proved(theorem, bound, &word, assumption),
            None => Self::estimated(theorem, bound, assumption),
        }
    }

    /// No bound, and why.
    pub fn none(reason: impl Into<String>) -> Self {
        Self {
            bound: None,
            level: Level::None,
            theorem: "",
            constants: Vec::new(),
            assumptions: Vec::new(),
            reason: Some(reason.into()),
        }
    }

    fn new(
        level: Level,
        theorem: &'static str,
        bound: f64,
        provenance: Provenance,
        assumption: &str,
    ) -> Self {
        if !(bound.is_finite() && bound >= 0.0) {
            return Self::none(format!("{theorem} gave {bound}, which bounds nothing"));
        }
        let assumptions = vec![Assumption { what: assumption.to_string(), provenance }];
        Self { bound: Some(bound), level, theorem, constants: Vec::new(), assumptions, reason: None }
    }

    /// With a constant that entered it.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: f64) -> Self {
        self.constants.push((name, value));
        self
    }

    /// With something else it rests on; what is only estimated makes the whole estimated.
    #[must_use]
    pub fn assuming(mut self, what: impl Into<String>, provenance: Provenance) -> Self {
        if provenance == Provenance::Estimated && self.level != Level::None {
            self.level = Level::Estimated;
        }
        self.assumptions.push(Assumption { what: what.into(), provenance });
        self
    }

    /// With a remark on what a stronger statement failed on.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// The same with a larger probability of being false; a smaller one changes nothing.
    #[must_use]
    pub fn at_probability(mut self, delta: f64) -> Self {
        if let Level::Probable { delta: least } = self.level {
            self.level = Level::Probable { delta: delta.max(least) };
        }
        self
    }

    /// The bound, in nats.
    pub fn bound(&self) -> Option<f64> {
        self.bound
    }

    /// Its level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The label of the theorem in `docs/maths.md`.
    pub fn theorem(&self) -> &'static str {
        self.theorem
    }

    /// The constants that entered.
    pub fn constants(&self) -> &[(&'static str, f64)] {
        &self.constants
    }

    /// One of them.
    pub fn constant(&self, name: &str) -> Option<f64> {
        self.constants.iter().find(|c| c.0 == name).map(|c| c.1)
    }

    /// What it rests on.
    pub fn assumptions(&self) -> &[Assumption] {
        &self.assumptions
    }

    /// Why there is none, or why it is not stronger.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The better of two: a stronger level first, then the smaller bound.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let key = |s: &Self| (s.level.rank(), s.bound.unwrap_or(f64::INFINITY));
        if key(&other) < key(&self) { other } else { self }
    }
}

impl Level {
    /// 0 for the strongest.
    pub fn rank(self) -> u8 {
        match self {
            Level::Proved => 0,
            Level::Probable { .. } => 1,
            Level::Estimated => 2,
            Level::None => 3,
        }
    }

    /// The word used in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Level::Proved => "proved",
            Level::Probable { .. } => "probable",
            Level::Estimated => "estimated",
            Level::None => "none",
        }
    }
}

/// Distance to the best Gaussian of the family: f(w) − f*.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// The bound on f(w) − f*.
    pub statement: Statement,
    /// The family the optimum is over: "all Gaussians" or the name of a pattern.
    pub family: String,
    /// Every mean of the optimum lies within this many of q's standard deviations.
    pub mean_error: Option<f64>,
    /// Every standard deviation of the optimum lies within this fraction of q's.
    pub sd_error: Option<f64>,
}

/// Distance of q from the posterior: KL(q ‖ p).
#[derive(Clone, Debug, PartialEq)]
pub struct Posterior {
    /// The bound on KL(q ‖ p).
    pub statement: Statement,
    /// A bracket of the log evidence, at the same level.
    pub log_evidence: Option<(f64, f64)>,
    /// Every posterior mean lies within this many of q's standard deviations.
    pub mean_error: Option<f64>,
    /// Every posterior standard deviation lies within this fraction of q's.
    pub sd_error: Option<f64>,
}

impl Gap {
    /// No statement.
    pub fn none(family: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { statement: Statement::none(reason), family: family.into(), mean_error: None, sd_error: None }
    }
}

impl Posterior {
    /// [`Statement::at_probability`].
    #[must_use]
    pub fn at_probability(mut self, delta: f64) -> Self {
        self.statement = self.statement.at_probability(delta);
        self
    }

    /// No statement.
    pub fn none(reason: impl Into<String>) -> Self {
        Self { statement: Statement::none(reason), log_evidence: None, mean_error: None, sd_error: None }
    }
}

/// Both parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// Distance to the best Gaussian.
    pub gap: Gap,
    /// Distance from the posterior.
    pub posterior: Posterior,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_from_who_vouches() {
        let by_model = crate::internals::by_model();
        let proved = Statement::by(&by_model, "Theorem D", 1e-3, "local curvature").with("r", 0.1);
        assert_eq!(
            (proved.level(), proved.bound(), proved.constant("r")),
            (Level::Proved, Some(1e-3), Some(0.1))
        );
        let estimated = Statement::by(&Provenance::Estimated, "Theorem D", 1e-9, "local curvature");
        assert_eq!(estimated.level(), Level::Estimated);
        // a smaller bound of a weaker level does not win
        assert_eq!(proved.clone().or(estimated.clone()), proved);
        assert_eq!(estimated.clone().or(proved.clone()), proved);
        assert_eq!(proved.clone().assuming("a strip", Provenance::Estimated).level(), Level::Estimated);
        let word = by_model.vouched().expect("the model vouches");
        let often = Statement::probable("D6", 1.0, 0.01, &word, "draws").at_probability(0.02);
        assert_eq!(often.level(), Level::Probable { delta: 0.02 });
        assert_eq!(often.at_probability(0.001).level(), Level::Probable { delta: 0.02 });
        assert_eq!(proved.clone().at_probability(0.02).level(), Level::Proved);
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            let none = Statement::by(&by_model, "Theorem D", bad, "local curvature");
            assert_eq!((none.level(), none.bound()), (Level::None, None));
            assert!(none.reason().is_some_and(|r| r.contains("Theorem D")));
        }
        assert_eq!(Statement::none("why").assuming("x", Provenance::Estimated).level(), Level::None);
    }
}
