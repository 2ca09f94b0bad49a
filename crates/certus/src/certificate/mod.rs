//! What a fit can say about itself: how far it is from the best Gaussian of its family, and how far from the posterior.
//!
//! The two parts are independent. Each is a [`Statement`]: a bound with its level, the theorem behind it, the constants that entered, and
//! what it rests on; or the reason why there is none. A statement is proved or probable only if every constant in it is vouched for:
//! those constructors ask for a [`Vouched`], which cannot be made from estimated constants.

mod checks;
mod deviation;
mod gap;
mod lipschitz;
mod posterior;

pub use checks::{Checks, Spending};
pub use deviation::fisher_bound;
pub use gap::family_name;

use std::fmt;

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
    fn rank(self) -> u8 {
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

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Probable { delta } => write!(f, "with probability {}", 1.0 - delta),
            other => f.write_str(other.name()),
        }
    }
}

impl Statement {
    fn write(&self, f: &mut fmt::Formatter<'_>, what: &str, more: &[String]) -> fmt::Result {
        match self.bound {
            Some(bound) => {
                let size = match (self.level, self.constant("estimate"), self.constant("standard error")) {
                    (Level::Estimated, Some(value), Some(error)) => {
                        format!("about {} ± {}", figure(value.max(0.0)), figure(error))
                    }
                    _ => format!("at most {}", figure(bound)),
                };
                writeln!(f, "{what} {size} nats, {} ({})", self.level, self.theorem)?;
                more.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
                for a in &self.assumptions {
                    writeln!(f, "  rests on: {}, {}", a.what, a.provenance)?;
                }
                match &self.reason {
                    Some(reason) => writeln!(f, "  not stronger because {reason}"),
                    None => Ok(()),
                }
            }
            None => writeln!(f, "{what}: no statement, because {}", self.reason().unwrap_or("nobody asked")),
        }
    }
}

/// Two significant digits, rounded up: for bounds, which may not be made smaller.
pub fn figure(x: f64) -> String {
    if !(x > 1e-290 && x.is_finite()) {
        return if x > 0.0 && x < 1.0 { "1e-290".into() } else { format!("{x}") };
    }
    let digits = 1 - x.log10().floor() as i32;
    let scale = 10f64.powi(digits);
    // a figure that is exact to rounding is not pushed up by it
    let up = (x * scale * (1.0 - 1e-12)).ceil() / scale;
    if (1e-3..1e4).contains(&up) { format!("{up:.*}", digits.max(0) as usize) } else { format!("{up:.1e}") }
}

/// That many significant digits, without an exponent: for estimates of ordinary size, which are rounded to the nearest.
pub fn significant(x: f64, digits: i32) -> String {
    let decimals = (digits - 1 - x.abs().log10().floor() as i32).max(0) as usize;
    format!("{x:.decimals$}")
}

fn errors(of: &str, mean: Option<f64>, sd: Option<f64>) -> Vec<String> {
    let mean = mean.map(|e| format!("every mean of {of} within {} sd of q's", figure(e)));
    let sd = sd.map(|e| format!("every sd of {of} within {} % of q's", figure(100.0 * e)));
    mean.into_iter().chain(sd).collect()
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = &self.gap;
        let what = format!("gap to the best of {}", gap.family);
        gap.statement.write(f, &what, &errors("the optimum", gap.mean_error, gap.sd_error))?;
        let posterior = &self.posterior;
        let mut lines = errors("the posterior", posterior.mean_error, posterior.sd_error);
        if let Some((low, high)) = posterior.log_evidence {
            lines.push(format!("log evidence between {low:.4} and {high:.4}"));
        }
        posterior.statement.write(f, "KL from the posterior", &lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_from_who_vouches() {
        let by_model = Provenance::ByModel;
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
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            let none = Statement::by(&by_model, "Theorem D", bad, "local curvature");
            assert_eq!((none.level(), none.bound()), (Level::None, None));
            assert!(none.reason().is_some_and(|r| r.contains("Theorem D")));
        }
        assert_eq!(Statement::none("why").assuming("x", Provenance::Estimated).level(), Level::None);
    }

    #[test]
    fn figures_are_rounded_up() {
        for (x, text) in [
            (0.012, "0.012"),
            (0.01201, "0.013"),
            (6.21, "6.3"),
            (28.9, "29"),
            (123.0, "130"),
            (0.099_99, "0.100"),
            (2.01e-8, "2.1e-8"),
            (0.0, "0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(figure(x), text);
        }
        for x in [1.0f64, 0.0123, 7.77e-12, 9.99, 99.9, 1e5 / 3.0, 2.5e-300] {
            assert!(
                figure(x).parse::<f64>().is_ok_and(|shown| shown >= x * (1.0 - 1e-12)),
                "{x} → {}",
                figure(x)
            );
        }
    }

    #[test]
    fn it_reads_like_a_sentence() {
        let word = Provenance::ByModel.vouched().expect("models prove");
        let certificate = Certificate {
            gap: Gap {
                statement: Statement::proved("Theorem D", 1.234e-5, &word, "local curvature"),
                family: "all Gaussians".into(),
                mean_error: Some(0.00512),
                sd_error: Some(0.00312),
            },
            posterior: Posterior::none("it was not asked for"),
        };
        let text = certificate.to_string();
        for words in [
            "gap to the best of all Gaussians at most 1.3e-5 nats, proved (Theorem D)",
            "every mean of the optimum within 0.0052 sd of q's",
            "every sd of the optimum within 0.32 % of q's",
            "rests on: local curvature, proved by the model",
            "KL from the posterior: no statement, because it was not asked for",
        ] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
    }
}
