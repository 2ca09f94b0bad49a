//! Whether prior and data disagree: how far the prior of a coefficient moves it (docs/priors.md, P2).

use certus::combination::Combinations;
use certus::{Gaussian, Outcome};
use certus_models::laplace;

use crate::number::{number, short};
use crate::prior::{at, user_unit};
use crate::problem::{ModelKind, Problem};

/// A prior is mentioned if it moves its coefficient by more than this many posterior sds.
const MOVED: f64 = 0.5;
/// Where the posterior has more than this share of the prior's variance, the data must contradict the prior by
/// themselves.
const UNINFORMED: f64 = 0.99;
/// Where it has more than this share, what is left is taken from the mode, whose second derivatives are exact to
/// rounding.
const DELICATE: f64 = 0.9;
/// Rows × coefficients² for which that mode is computed.
const SMALL: f64 = 1e8;
/// Coefficients named one by one.
const NAMED: usize = 4;

/// What a coefficient would be without its own prior.
struct Without {
    coefficient: usize,
    /// With it: mean and sd.
    posterior: [f64; 2],
    /// Without it.
    alone: [f64; 2],
    /// How far the prior moves it, in posterior sds.
    moved: f64,
}

/// s_j²/p_j² for every coefficient: the part of its posterior that is its prior, 0 if that is flat.
pub(crate) fn shares(problem: &Problem, w: &Gaussian) -> Vec<f64> {
    let mut combinations = Combinations::new(w);
    let share = |(j, p): (usize, &f64)| (combinations.moments(&[(j, 1.0)]).1 / p).powi(2);
    problem.prior.sd.iter().enumerate().map(share).collect()
}

/// P2: the posterior N(m, s²) of a coefficient without its own prior N(μ, p²) is N(m + (m − μ) r/(1 − r), s²/(1 − r))
/// with r = s²/p², exactly if the posterior is normal. The mean may be off by `slack[0]` sds and the sd by the fraction
/// `slack[1]`.
fn without_priors(problem: &Problem, w: &Gaussian, slack: [f64; 2]) -> Vec<Without> {
    let (prior, mut combinations) = (&problem.prior, Combinations::new(w));
    let mut out = Vec::new();
    for j in (0..prior.sd.len()).filter(|&j| prior.sd[j].is_finite()) {
        let ([m, s], mu) = (<[f64; 2]>::from(combinations.moments(&[(j, 1.0)])), prior.mean[j]);
        let share = (s / prior.sd[j]).powi(2);
        let left = 1.0 - share;
        // false for what is not a number, too
        let known = s > 0.0 && left > 1e-9 && left > 4.0 * slack[1] * share;
        if !known {
            continue;
        }
        let odds = share / left;
        let alone = [m + (m - mu) * odds, s / left.sqrt()];
        if share > UNINFORMED && (alone[0] - mu).abs() <= alone[1] {
            continue;
        }
        let moved = ((m - mu).abs() / s - slack[0]).max(0.0) * odds;
        out.push(Without { coefficient: j, posterior: [m, s], alone, moved });
    }
    out
}

impl Problem {
    /// The mode of a model without groups, where the Gaussian is nearly a prior and the little that is left of it would
    /// be lost in its error.
    fn mode(&self, w: &Gaussian) -> Option<Gaussian> {
        let ModelKind::Dense(model) = &self.model_kind else { return None };
        let d = self.prior.sd.len();
        let small = self.prepared.rows_used as f64 * (d * d) as f64 <= SMALL;
        let delicate = small && shares(self, w).iter().any(|share| *share > DELICATE);
        if delicate { laplace(model).ok().map(|found| found.gaussian) } else { None }
    }

    /// A sentence on the coefficients that their priors move by more than half a posterior sd, the most moved first.
    pub(crate) fn disagreement(&self, outcome: &Outcome) -> Option<String> {
        let gap = &outcome.certificate.gap;
        let stated = [gap.mean_error, gap.sd_error].map(|e| e.filter(|e| e.is_finite()).unwrap_or(0.0));
        let mut found = match self.mode(&outcome.gaussian) {
            Some(mode) => without_priors(self, &mode, [0.0; 2]),
            None => without_priors(self, &outcome.gaussian, stated),
        };
        found.retain(|one| one.moved > MOVED);
        found.sort_by(|a, b| b.moved.total_cmp(&a.moved));
        let encoding = &self.prepared.encoding;
        let fact = |one: &Without| {
            let (j, unit) = (one.coefficient, user_unit(encoding, one.coefficient));
            let normal = |[m, s]: [f64; 2]| format!("{} ± {}", number(unit * m), short(unit * s));
            format!(
                "{}{} is {} with its prior {} and about {} without it ({} posterior sds)",
                encoding.coefficient(j),
                at(encoding, j),
                normal(one.posterior),
                self.prior.words(encoding, j),
                normal(one.alone),
                short(one.moved)
            )
        };
        let mut facts: Vec<String> = found.iter().take(NAMED).map(fact).collect();
        if facts.is_empty() {
            return None;
        }
        if found.len() > NAMED {
            let more = found[NAMED..].iter().take(8).map(|one| encoding.coefficient(one.coefficient));
            let names = more.collect::<Vec<_>>().join(", ");
            let end = if found.len() > NAMED + 8 { ", …" } else { "" };
            facts.push(format!("and {} more: {names}{end}", found.len() - NAMED));
        }
        Some(format!(
            "prior and data disagree: {}; if a prior does not describe what you know, widen it (prior-sd, \
                intercept-prior-sd, priors)",
            facts.join("; ")
        ))
    }
}
