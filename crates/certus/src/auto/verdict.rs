//! The four words for the numbers of a black box, and what they are decided by.

use super::modes::Modes;
use crate::certificate::Posterior;
use crate::certificate::weights::WeightCertificate;
use crate::certificate::words::{estimate, figure};
use crate::diagnostics::importance::{STATED, stated};
use crate::diagnostics::{Estimate, Importance, WeightedDraws};
use crate::gaussian::Gaussian;
use crate::moving::Convexity;

/// k̂ below which the weights have a finite variance, and below which estimates from them can be used.
pub const LIGHT: f64 = 0.5;
/// See [`LIGHT`].
pub const USABLE: f64 = 0.7;
/// By how much importance weights may move q's own means (in sds) and sds (as a fraction), if those are accurate.
pub const ACCURATE: f64 = 0.1;
/// Weights that are worth fewer draws than this say nothing.
const FEWEST: f64 = 100.0;

/// What the printed numbers of a black box are worth. The first that applies, in this order.
///
/// | verdict | measured |
/// |---|---|
/// | failed | there is no finite result |
/// | unreliable | k̂ ≥ 0.7, or the posterior has several modes of which q describes one, or there was no comparison |
/// | accurate | k̂ < 0.5, and weights move no mean of q by 0.1 sd and no sd by 10 %, 2.6 standard errors included |
/// | usable after correction | k̂ < 0.7: the numbers that importance weights correct are printed |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No finite result.
    Failed,
    /// The weights or the modes contradict the numbers.
    Unreliable,
    /// q's own numbers are the posterior's, about.
    Accurate,
    /// The corrected numbers are the posterior's, about.
    UsableAfterCorrection,
}

impl Verdict {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::Failed, Self::Unreliable, Self::Accurate, Self::UsableAfterCorrection];

    /// The words of every interface and of fit.json.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Unreliable => "unreliable",
            Self::Accurate => "accurate",
            Self::UsableAfterCorrection => "usable after correction",
        }
    }

    /// True of numbers that may be used.
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Accurate | Self::UsableAfterCorrection)
    }
}

/// What was compared with q to find the verdict, and what the comparison found.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The verdict.
    pub verdict: Verdict,
    /// What decided it, in words.
    pub why: String,
    /// Means and sds of every coordinate with importance weights, if draws were weighted.
    pub importance: Option<Importance>,
    /// Points with these weights, where the verdict allows to use them.
    pub points: Option<WeightedDraws>,
    /// The largest change of a mean of q by the weights, in sds, with its standard error.
    pub mean_shift: Option<Estimate>,
    /// The largest change of an sd of q, as a fraction of it, with its standard error.
    pub sd_shift: Option<Estimate>,
    /// What holds of a target that is declared log-concave.
    pub certified: Option<CertifiedWeights>,
    /// Why nothing does, of such a target.
    pub not_certified: Option<String>,
    /// The modes that were found.
    pub modes: Modes,
    /// Whether a violation of log-concavity was found.
    pub convexity: Convexity,
}

/// The statements that need a log-concave target, with the points that belong to them.
#[derive(Clone, Debug)]
pub struct CertifiedWeights {
    /// What holds with probability 1 − δ.
    pub certificate: WeightCertificate,
    /// The points with their weights.
    pub points: WeightedDraws,
    /// Pairs of draws.
    pub pairs: usize,
    /// δ.
    pub delta: f64,
}

/// The numbers that are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    /// q's own.
    Gaussian,
    /// Those that importance weights correct; estimated.
    Importance,
    /// Those that weights with a proved tail correct; probable.
    Corrected,
}

/// How far the numbers of q move.
struct Shifts {
    mean: Estimate,
    sd: Estimate,
}

impl Shifts {
    fn new(w: &Gaussian, found: &Importance) -> Self {
        let largest = |changes: &mut dyn Iterator<Item = Estimate>| {
            let bound = |e: &Estimate| e.value + STATED * e.standard_error;
            let first = Estimate { value: 0.0, standard_error: 0.0 };
            // what is not a number is larger than all
            changes.fold(first, |a, b| if bound(&b) <= bound(&a) { a } else { b })
        };
        let sds = w.sd();
        let change = |e: &Estimate, own: f64, sd: f64| Estimate {
            value: (e.value - own).abs() / sd,
            standard_error: e.standard_error / sd,
        };
        let mut means = found.mean.iter().zip(w.mean()).zip(&sds).map(|((e, m), s)| change(e, *m, *s));
        let mut widths = found.sd.iter().zip(&sds).map(|(e, s)| change(e, *s, *s));
        Self { mean: largest(&mut means), sd: largest(&mut widths) }
    }

    fn error(&self) -> f64 {
        let each = [self.mean, self.sd].map(|e| e.value + STATED * e.standard_error);
        each.into_iter().fold(0.0, |a, b| if b.is_nan() { f64::INFINITY } else { a.max(b) })
    }
}

impl Comparison {
    /// Of a run without a finite result.
    pub(super) fn failed(why: String) -> Self {
        Self::without(Verdict::Failed, why, Convexity::NotChecked)
    }

    /// Of a run that was not compared.
    pub(super) fn missing(why: &str, convexity: Convexity) -> Self {
        Self::without(Verdict::Unreliable, format!("not compared with the posterior: {why}"), convexity)
    }

    fn without(verdict: Verdict, why: String, convexity: Convexity) -> Self {
        Self {
            verdict,
            why,
            importance: None,
            points: None,
            mean_shift: None,
            sd_shift: None,
            certified: None,
            not_certified: None,
            modes: Modes::default(),
            convexity,
        }
    }

    /// What the weights and the modes say of q.
    pub(super) fn new(w: &Gaussian, found: Importance, modes: Modes, convexity: Convexity) -> Self {
        let shifts = Shifts::new(w, &found);
        // equal weights have no tail
        let k_hat = found.tail_index.unwrap_or(0.0);
        let (mean, sd) = (shifts.mean, shifts.sd);
        let tail = format!("k-hat {k_hat:.2}");
        let moved = format!(
            "importance weights move a mean by about {} sd and an sd by about {} % (the largest changes)",
            estimate(mean.value, mean.standard_error),
            estimate(100.0 * sd.value, 100.0 * sd.standard_error)
        );
        let (verdict, why) = if let Some(several) = modes.several() {
            (Verdict::Unreliable, several)
        } else if k_hat >= USABLE {
            (Verdict::Unreliable, format!("{tail}: q misses parts of the posterior"))
        } else if found.effective_sample_size < FEWEST || !shifts.error().is_finite() {
            let worth = figure(found.effective_sample_size);
            (Verdict::Unreliable, format!("{tail}, but the weights are worth only {worth} draws"))
        } else if k_hat < LIGHT && shifts.error() <= ACCURATE {
            (Verdict::Accurate, format!("{tail}; {moved}{}", modes.words()))
        } else {
            (Verdict::UsableAfterCorrection, format!("{tail}; {moved}{}", modes.words()))
        };
        Self {
            verdict,
            why,
            mean_shift: Some(mean),
            sd_shift: Some(sd),
            importance: Some(found),
            points: None,
            certified: None,
            not_certified: None,
            modes,
            convexity,
        }
    }

    /// True if more draws may change the verdict, or show that the accuracy is reached.
    pub(super) fn is_open(&self, w: &Gaussian, accuracy: f64) -> bool {
        let Some(found) = &self.importance else { return false };
        let k_hat = found.tail_index.unwrap_or(0.0);
        let near = [LIGHT, USABLE].iter().any(|limit| (k_hat - limit).abs() < 0.1);
        let printed = self.printed(w, accuracy);
        let (error, own) = (self.error(w, printed), self.error(w, Printed::Gaussian));
        let settled =
            k_hat >= USABLE + 0.1 || (error <= accuracy && !(ACCURATE..2.0 * ACCURATE).contains(&own));
        near || !settled
    }

    /// How far q is from the posterior: by the draws of the comparison, if the verdict allows it.
    pub(super) fn posterior(&self) -> Option<Posterior> {
        let found = self.importance.as_ref()?;
        if !self.verdict.is_usable() {
            return Some(Posterior::none(self.why.clone()));
        }
        let mut posterior = stated(found.log_evidence, found.kl);
        let with = |e: Estimate| e.value + STATED * e.standard_error;
        (posterior.mean_error, posterior.sd_error) = (self.mean_shift.map(with), self.sd_shift.map(with));
        if let Some(CertifiedWeights { certificate, .. }) = &self.certified {
            posterior.statement = posterior
                .statement
                .with("KL(p‖q), at most", certificate.reverse_kl)
                .with("total variation, at most", certificate.total_variation);
        }
        Some(posterior)
    }

    /// True of a target that is declared log-concave.
    pub fn is_declared(&self) -> bool {
        self.certified.is_some() || self.not_certified.is_some()
    }

    /// "accurate: k-hat 0.08; …".
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.verdict.as_str(), self.why)
    }

    /// How far printed numbers may be off: means in sds, sds as a fraction; infinite where that is not known.
    pub fn error(&self, w: &Gaussian, printed: Printed) -> f64 {
        let largest = |errors: &mut dyn Iterator<Item = f64>| {
            errors.fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) })
        };
        match (printed, &self.importance, &self.certified) {
            (Printed::Gaussian, Some(found), _) => Shifts::new(w, found).error(),
            (Printed::Importance, Some(found), _) => {
                let off = found
                    .mean
                    .iter()
                    .zip(&found.sd)
                    .flat_map(|(mean, sd)| [mean, sd].map(|e| STATED * e.standard_error / sd.value));
                largest(&mut { off })
            }
            (Printed::Corrected, _, Some(CertifiedWeights { certificate, .. })) => {
                certificate.corrected_error()
            }
            _ => f64::INFINITY,
        }
    }

    /// How far the best of the printed numbers may be off: the corrected ones, or q's own if those are accurate.
    pub fn best_error(&self, w: &Gaussian) -> f64 {
        let own = match self.verdict {
            Verdict::Accurate => self.error(w, Printed::Gaussian),
            _ => f64::INFINITY,
        };
        own.min(self.error(w, Printed::Importance)).min(self.error(w, Printed::Corrected))
    }

    /// What is printed where nothing else was asked for: what is certified; q's own numbers, if they are accurate or
    /// nothing is better; else the corrected ones.
    pub fn printed(&self, w: &Gaussian, accuracy: f64) -> Printed {
        match self.verdict {
            Verdict::Failed | Verdict::Unreliable => Printed::Gaussian,
            _ if self.certified.is_some() => Printed::Corrected,
            Verdict::Accurate if self.error(w, Printed::Gaussian) <= accuracy => Printed::Gaussian,
            _ => Printed::Importance,
        }
    }
}
