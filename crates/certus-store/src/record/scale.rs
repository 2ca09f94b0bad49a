//! What is known of scales that were not given (the sd between groups, the noise, the dispersion): the estimate with a proved interval, the posterior, and the groups that
//! differ most.

use certus::certificate::significant;
use serde::{Deserialize, Serialize};

use super::Level;

/// `certificate.scale`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// The parameter it speaks of, such as `sd(city)`, `sigma` or `sd(rates)`; that of the groups where there are two.
    pub name: String,
    /// The group; null if there is none.
    pub group: Option<String>,
    /// How many groups there are.
    pub groups: u64,
    /// `posterior` or `estimate`: what the parameters are.
    pub scales: String,
    /// Its prior; null for an estimate.
    pub prior: Option<String>,
    /// What is maximised: `likelihood`, or `penalised likelihood`, which is the likelihood times the prior of the coefficients. Files from before this field do not say,
    /// and a flat prior is a penalty of 0.
    #[serde(default = "penalised")]
    pub objective: String,
    /// The scale at which the objective, maximised over the coefficients, has the highest of the maxima that were found.
    pub estimate: Option<f64>,
    /// Standard error of its logarithm, from the curvature of the profile.
    pub log_standard_error: Option<f64>,
    /// An interval that holds a maximum; null if nothing is stated.
    pub interval: Option<[f64; 2]>,
    /// How strong that is: proved, or none.
    pub level: Level,
    /// Its label in docs/collapsed.md.
    pub theorem: Option<String>,
    /// Why nothing is proved.
    pub reason: Option<String>,
    /// The other scale, if there are two.
    #[serde(default)]
    pub others: Vec<OtherScale>,
    /// Every maximum that was found, the highest first; older files have none.
    #[serde(default)]
    pub maxima: Vec<ScaleMaximum>,
    /// The range of the scale that was searched for maxima; null for two scales and in older files.
    #[serde(default)]
    pub searched: Option<[f64; 2]>,
    /// Parts of that range, from small to large: outside them it is proved that the objective is lower than at the estimate. Null if nothing is proved.
    #[serde(default)]
    pub not_excluded: Option<Vec<[f64; 2]>>,
    /// Why nothing is excluded.
    #[serde(default)]
    pub not_excluded_reason: Option<String>,
    /// The log likelihood at the estimate, without any prior.
    pub log_likelihood: Option<f64>,
    /// Bound on its error by quadrature and rounding; null where none is proved.
    pub log_likelihood_error: Option<f64>,
    /// log p(data), estimated; null for an estimate, and meaningless with flat priors.
    pub log_evidence: Option<f64>,
    /// Nodes of the grid.
    pub nodes: u64,
    /// What halving the step of the grid changed last: of means in sds, of sds in parts.
    pub refinement: Option<f64>,
    /// The groups with the smallest effects.
    pub smallest: Vec<GroupEffect>,
    /// The groups with the largest, the largest last.
    pub largest: Vec<GroupEffect>,
}

/// A maximum of the objective over the scales and the coefficients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaleMaximum {
    /// The scale.
    pub estimate: f64,
    /// The other scales there.
    pub others: Vec<f64>,
    /// The log likelihood there, without any prior.
    pub log_likelihood: f64,
    /// The logarithm of the objective there, by which maxima are compared.
    pub log_objective: f64,
}

fn penalised() -> String {
    objective(true).into()
}

/// The name of what is maximised, the only place that decides it: with a prior of a coefficient, or with flat priors alone.
pub fn objective(penalised: bool) -> &'static str {
    if penalised { "penalised likelihood" } else { "likelihood" }
}

/// The ends of an interval with six decimals, or five digits if they are small, rounded away from each other, so that what holds of the interval holds of what is printed.
pub fn outward([low, high]: [f64; 2]) -> [String; 2] {
    [rounded(low, 6, false), rounded(high, 6, true)]
}

/// A number of at least 0 rounded down or up to so many decimals, or to as many digits less one if it is small.
fn rounded(x: f64, decimals: i32, up: bool) -> String {
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let decimals = (decimals - 2 - x.abs().log10().floor() as i32).clamp(decimals, 18);
    let unit = 10f64.powi(decimals);
    let mut out = if up { (x * unit).ceil() } else { (x * unit).floor() } / unit;
    // the products may have been rounded to the other side
    if up && out < x {
        out += 1.0 / unit;
    } else if !up && out > x {
        out -= 1.0 / unit;
    }
    format!("{out:.*}", decimals as usize)
}

/// The same without zeros at the end.
fn brief(x: f64, up: bool) -> String {
    let text = rounded(x, 3, up);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// A scale beside the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherScale {
    /// Its parameter.
    pub name: String,
    /// Its prior; null for an estimate.
    pub prior: Option<String>,
    /// Where the likelihood has its maximum.
    pub estimate: Option<f64>,
    /// Standard error of its logarithm.
    pub log_standard_error: Option<f64>,
}

/// The posterior of one group's effect, its deviation from the coefficient of all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupEffect {
    /// The group.
    pub group: String,
    /// Its rows.
    pub rows: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// The 5 % quantile.
    pub q05: f64,
    /// The median.
    pub q50: f64,
    /// The 95 % quantile.
    pub q95: f64,
}

impl Scale {
    /// All names, in words.
    pub fn names(&self) -> String {
        let others = self.others.iter().map(|o| o.name.as_str());
        std::iter::once(self.name.as_str()).chain(others).collect::<Vec<_>>().join(" and ")
    }

    /// True if a prior of the coefficients is part of what is maximised.
    pub fn is_penalised(&self) -> bool {
        self.objective != objective(false)
    }

    /// What is known of other maxima, in words: those that were found, and where others are not excluded.
    pub fn other_maxima(&self) -> Vec<String> {
        let objective = &self.objective;
        // differences and places that are only estimates
        let number = |x: f64| if x == 0.0 { "0".into() } else { significant(x, 5) };
        let mut out = Vec::new();
        if let [first, others @ ..] = &self.maxima[..]
            && !others.is_empty()
        {
            let one = |m: &ScaleMaximum| {
                format!(
                    "{} ({} nats lower)",
                    number(m.estimate),
                    number(first.log_objective - m.log_objective)
                )
            };
            out.push(format!(
                "{} maxima of the {objective} were found; the estimate is the highest, the others are at {}",
                self.maxima.len(),
                others.iter().map(one).collect::<Vec<_>>().join(", ")
            ));
        }
        let Some([low, high]) = self.searched else {
            if !self.maxima.is_empty() {
                out.push(format!("other maxima of the {objective} are not excluded"));
            }
            return out;
        };
        // what holds of the whole range is said of a smaller one, where it may not hold of a larger one
        let all = format!("{} to {}", brief(low, true), brief(high, false));
        match (&self.not_excluded, self.not_excluded_reason.as_deref()) {
            (Some(open), _) => {
                let part =
                    |[low, high]: &[f64; 2]| format!("{} to {}", brief(*low, false), brief(*high, true));
                let parts = open.iter().map(part).collect::<Vec<_>>().join(" and ");
                out.push(format!(
                    "from {all} every {} outside {parts} has a lower {objective} (proved, Theorem K12)",
                    self.name
                ));
            }
            (None, why) => out.push(format!(
                "searched from {all}; other maxima of the {objective} are not excluded{}",
                why.map_or(String::new(), |why| format!(": {why}"))
            )),
        }
        out
    }

    /// An interval goes with a proof, and is one.
    pub(super) fn consistent(&self) -> Result<(), String> {
        let sorted = self.maxima.windows(2).all(|m| m[0].log_objective >= m[1].log_objective);
        if !sorted || self.maxima.first().is_some_and(|m| Some(m.estimate) != self.estimate) {
            return Err("the estimate of the scale is not the highest of its maxima".into());
        }
        let proved = self.level == Level::Proved;
        let ordered = self.interval.is_none_or(|[low, high]| low >= 0.0 && low <= high);
        if self.interval.is_some() == proved && (proved || self.level == Level::None) && ordered {
            return Ok(());
        }
        Err(format!("the scale has the level {:?} and the interval {:?}", self.level, self.interval))
    }
}
