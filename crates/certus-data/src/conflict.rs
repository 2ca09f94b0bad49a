//! Whether prior and data disagree: how far the prior of a coefficient moves it (docs/priors.md, P2).

use certus::combination::Combinations;
use certus::{Gaussian, Outcome};

use crate::prior::{at, number, short, user_unit};
use crate::problem::Problem;

/// A prior is remarked on if it moves its coefficient by more than this many posterior sds.
const MOVED: f64 = 0.5;
/// Where the posterior has more than this share of the prior's variance, the data carry too little of the coefficient for a comparison.
const UNINFORMED: f64 = 0.99;
/// Coefficients named one by one.
const NAMED: usize = 4;

/// What a coefficient would be without its own prior.
pub(crate) struct Without {
    pub(crate) coefficient: usize,
    /// With it.
    posterior: [f64; 2],
    /// Without it: mean and sd.
    alone: [f64; 2],
    /// How far the prior moves it, in posterior sds.
    pub(crate) moved: f64,
}

/// s_j²/p_j² for every coefficient: the part of its posterior that is its prior, 0 if that is flat.
pub(crate) fn shares(problem: &Problem, w: &Gaussian) -> Vec<f64> {
    let mut combinations = Combinations::new(w);
    let share = |(j, p): (usize, &f64)| (combinations.moments(&[(j, 1.0)]).1 / p).powi(2);
    problem.prior.sd.iter().enumerate().map(share).collect()
}

/// P2: the posterior N(m, s²) of a coefficient without its own prior N(μ, p²) is N(m + (m − μ) r/(1 − r), s²/(1 − r)) with r = s²/p², exactly if the posterior is
/// normal. `slack` is how far m may be from the posterior mean, in sds.
pub(crate) fn without_priors(problem: &Problem, w: &Gaussian, slack: f64) -> Vec<Without> {
    let (prior, mut combinations) = (&problem.prior, Combinations::new(w));
    let mut out = Vec::new();
    for j in (0..prior.sd.len()).filter(|&j| prior.sd[j].is_finite()) {
        let (m, s) = combinations.moments(&[(j, 1.0)]);
        let share = (s / prior.sd[j]).powi(2);
        if share.is_nan() || share > UNINFORMED || s <= 0.0 {
            continue;
        }
        let odds = share / (1.0 - share);
        let moved = ((m - prior.mean[j]).abs() / s - slack).max(0.0) * odds;
        let alone = [m + (m - prior.mean[j]) * odds, s / (1.0 - share).sqrt()];
        out.push(Without { coefficient: j, posterior: [m, s], alone, moved });
    }
    out
}

impl Problem {
    /// A sentence for every coefficient that its prior moves by more than half a posterior sd, the most moved first.
    pub(crate) fn disagreements(&self, outcome: &Outcome) -> Vec<String> {
        let slack = outcome.certificate.gap.mean_error.filter(|e| e.is_finite()).unwrap_or(0.0);
        let mut found = without_priors(self, &outcome.gaussian, slack);
        found.retain(|one| one.moved > MOVED);
        found.sort_by(|a, b| b.moved.total_cmp(&a.moved));
        let encoding = &self.prepared.encoding;
        let sentence = |one: &Without| {
            let (j, unit) = (one.coefficient, user_unit(encoding, one.coefficient));
            let normal = |[m, s]: [f64; 2]| format!("{} ± {}", number(unit * m), short(unit * s));
            format!(
                "prior and data disagree: {}{} is {} with its prior {}, and about {} without it, {} posterior sds away; if the prior is not what you know, widen it (prior-sd, intercept-prior-sd, priors)",
                encoding.coefficient(j),
                at(encoding, j),
                normal(one.posterior),
                self.prior.words(encoding, j),
                normal(one.alone),
                short(one.moved)
            )
        };
        let mut notes: Vec<String> = found.iter().take(NAMED).map(sentence).collect();
        if found.len() > NAMED {
            let names: Vec<String> =
                found[NAMED..].iter().take(8).map(|one| encoding.coefficient(one.coefficient)).collect();
            let more = if found.len() > NAMED + 8 { ", …" } else { "" };
            notes.push(format!(
                "prior and data also disagree about {} more: {}{more}",
                found.len() - NAMED,
                names.join(", ")
            ));
        }
        notes
    }
}
