//! A record in words: its facts go to the core, which makes the sentences (`certus::certificate::words`), so that every
//! interface has the same sentences with the same digits.

use std::collections::BTreeMap;

use certus::certificate::{
    self,
    words::{About, Facts, counted, downward, interval, known_to, nearest, upward},
};

use certus_mixed::collapsed::UNKNOWN;

use super::{
    Assumption, Gap, Posterior, RESTRICTED, Record, RecordedLevel, Scale, ScaleMaximum, Table, Voucher,
};

pub(super) fn level(level: RecordedLevel, delta: Option<f64>) -> certificate::Level {
    match level {
        RecordedLevel::Proved => certificate::Level::Proved,
        RecordedLevel::Probable => certificate::Level::Probable { delta: delta.unwrap_or(f64::NAN) },
        RecordedLevel::Estimated => certificate::Level::Estimated,
        RecordedLevel::None => certificate::Level::None,
    }
}

fn estimate(constants: &BTreeMap<String, Option<f64>>) -> Option<(f64, f64)> {
    let constant = |name: &str| constants.get(name).copied().flatten();
    constant("estimate").zip(constant("standard error"))
}

fn assumed(assumptions: &[Assumption]) -> Vec<&str> {
    assumptions.iter().filter(|a| a.by == Voucher::Estimate).map(|a| a.what.as_str()).collect()
}

fn declared(assumptions: &[Assumption]) -> bool {
    assumptions.iter().any(|a| a.by == Voucher::User)
}

impl Gap {
    /// The facts that words are made of.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            about: About::Gap { family: &self.family },
            bound: self.bound,
            at_least: 0.0,
            level: level(self.level, self.delta),
            theorem: self.theorem.as_deref().unwrap_or_default(),
            estimate: estimate(&self.constants),
            assumed: assumed(&self.assumptions),
            declared: declared(&self.assumptions),
            reason: self.reason.as_deref(),
            mean_error: self.mean_error,
            sd_error: self.sd_error,
            log_evidence: None,
        }
    }
}

impl Posterior {
    /// The facts that words are made of.
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            about: About::Posterior,
            bound: self.bound,
            at_least: self
                .constants
                .get(certus::certificate::words::AT_LEAST)
                .copied()
                .flatten()
                .unwrap_or(0.0),
            level: level(self.level, self.delta),
            theorem: self.theorem.as_deref().unwrap_or_default(),
            estimate: estimate(&self.constants),
            assumed: assumed(&self.assumptions),
            declared: declared(&self.assumptions),
            reason: self.reason.as_deref(),
            mean_error: self.mean_error,
            sd_error: self.sd_error,
            log_evidence: self.log_evidence.map(|[low, high]| (low, high)),
        }
    }
}

/// "sd(a) is", "sd(a) and sd(b) are".
fn are(names: &[String]) -> String {
    format!("{} {}", names.join(" and "), if names.len() > 1 { "are" } else { "is" })
}

impl Scale {
    /// Where the maximum is, if that is proved: the ends of the interval, rounded outward.
    pub fn ends(&self) -> Option<(String, String)> {
        let [low, high] = self.interval?;
        Some(if high >= 1e-3 { interval(low, high, 6) } else { (downward(low, 4), upward(high, 4)) })
    }

    /// "sd(city) 0.4786: a maximum of the penalised likelihood lies between 0.478542 and 0.478578 (proved, C4)", or why
    /// that is not proved.
    pub fn sentence(&self) -> String {
        let shown = |x: Option<f64>| x.map_or("unknown".into(), |x| nearest(x, 5));
        let (name, objective, estimate) = (&self.name, &self.objective, shown(self.estimate));
        let several = self.others.iter().any(|own| own.interval.is_some());
        if self.objective == RESTRICTED || self.radius.is_some() || several {
            return self.of_mixed();
        }
        match self.ends() {
            Some((low, high)) => format!(
                "{name} {estimate}: a maximum of the {objective} lies between {low} and {high} (proved, {})",
                self.theorem.as_deref().unwrap_or_default()
            ),
            None => {
                let why = self.reason.as_deref().unwrap_or("not requested").trim_end_matches('.');
                let others: String =
                    self.others.iter().map(|o| format!(", {} {}", o.name, shown(o.estimate))).collect();
                let what = match why == UNKNOWN {
                    true => format!(
                        "where the search for a maximum of the {objective} ended, which may have none"
                    ),
                    false => format!("a maximum of the {objective}, not proved"),
                };
                format!("{name} {estimate}{others}: {what}: {why}")
            }
        }
    }

    /// "proved", and what a proof about several group effects allows for and does not enclose.
    pub fn proved(&self) -> &'static str {
        match self.theorem.as_deref() {
            Some("Theorem G2") => "proved up to rounding and the quadrature of second and third derivatives",
            _ => "proved",
        }
    }

    /// Of a model with several group effects, whose estimates are in the table.
    fn of_mixed(&self) -> String {
        let objective = &self.objective;
        // the table has other numbers than these
        let posterior = self.scales == "posterior";
        let shown = |x: Option<f64>| x.map_or("unknown".into(), |x| nearest(x, 5));
        let others = self.others.iter().map(|o| format!(", {} {}", o.name, shown(o.estimate)));
        let these = match posterior {
            true => format!("{} {}{}: ", self.name, shown(self.estimate), others.collect::<String>()),
            false => String::new(),
        };
        if let (None, Some(ends)) = (self.radius, self.interval) {
            return self.of_enclosed(ends);
        }
        let Some(radius) = self.radius else {
            let why = self.reason.as_deref().unwrap_or("not requested").trim_end_matches('.');
            return format!("{these}a maximum of the {objective}, not proved: {why}");
        };
        let mut known = Vec::new();
        if !self.zero.is_empty() {
            known.push(format!("{} 0 at a maximum of the {objective}", are(&self.zero)));
        }
        if self.zero.is_empty() || radius > 0.0 {
            let (radius, whose) =
                (upward(radius, 2), if posterior { "that of these" } else { "the estimate's" });
            let noise = self.others.last().is_some_and(|own| own.name == "sigma");
            let relative = if noise { ", relative to sigma²," } else { "" };
            // of the same rank: L4 is about variances of effects, not of all of their combinations
            let (also, of) = match self.theorem.as_deref() {
                Some("Theorem L4") => (", where the same covariance matrices are singular,", "every effect"),
                _ => ("", "every combination of a group's effects"),
            };
            known.push(format!(
                "a maximum of the {objective}{also} is so near that the variance of {of}{relative} differs from \
                    {whose} by at most {radius} of it"
            ));
        }
        if let Some(exclusion) = self.exclusion {
            let part = downward(100.0 * exclusion.min(1.0), 2);
            known.push(format!("no other stationary point has all of these variances within {part} %"));
        }
        let theorem = self.theorem.as_deref().unwrap_or_default();
        let proved = self.proved();
        let highest = self.highest();
        let but = self.reason.as_deref().map_or(String::new(), |why| format!("; {why}"));
        format!("{these}{} ({proved}, {theorem}){highest}{but}", known.join("; "))
    }

    /// Whether the maximum is the highest of all, if that was looked at.
    fn highest(&self) -> String {
        let objective = &self.objective;
        match (self.global, self.global_reason.as_deref()) {
            (Some(true), _) => {
                format!("; no other variances have a higher {objective} (proved up to rounding, Theorem L3)")
            }
            (Some(false), why) => format!(
                "; that no other variances have a higher {objective} is not proved: {}",
                why.unwrap_or("unknown")
            ),
            (None, _) => String::new(),
        }
    }

    /// Of one whose scales all have an interval.
    fn of_enclosed(&self, ends: [f64; 2]) -> String {
        const DIGITS: usize = 8;
        let others = self.others.iter().filter_map(|own| Some((&own.name, own.interval?)));
        let one = |(name, [low, high]): (&String, [f64; 2])| {
            format!("{name} between {} and {}", downward(low, DIGITS), upward(high, DIGITS))
        };
        let all: Vec<String> = std::iter::once((&self.name, ends)).chain(others).map(one).collect();
        format!(
            "a maximum of the {} has {} (proved, {}){}",
            self.objective,
            all.join(", "),
            self.theorem.as_deref().unwrap_or_default(),
            self.highest()
        )
    }

    /// What is known about other maxima, in words: those that were found, and where others are not excluded.
    pub fn other_maxima(&self) -> Vec<String> {
        let objective = &self.objective;
        let mut out = Vec::new();
        if let [first, others @ ..] = &self.maxima[..]
            && !others.is_empty()
        {
            let one = |m: &ScaleMaximum| {
                format!(
                    "{} ({} nats lower)",
                    nearest(m.estimate, 5),
                    nearest(first.log_objective - m.log_objective, 5)
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
        let all = format!("{} to {}", upward(low, 4), downward(high, 4));
        match (&self.not_excluded, self.not_excluded_reason.as_deref()) {
            (Some(open), _) => {
                let part = |[low, high]: &[f64; 2]| format!("{} to {}", downward(*low, 4), upward(*high, 4));
                let parts = open.iter().map(part).collect::<Vec<_>>().join(" and ");
                out.push(format!(
                    "in the range {all} every {} outside {parts} has a lower {objective} (proved, Theorem K12)",
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

    /// "-483.931183 ± 1.3e-5", at the estimate.
    pub fn likelihood_there(&self) -> String {
        match (self.log_likelihood, self.log_likelihood_error) {
            (Some(value), Some(error)) => known_to(value, error),
            (Some(value), None) => format!("about {value:.4} (not proved)"),
            (None, _) => "not known".into(),
        }
    }

    /// "log likelihood there -483.931183 ± 1.3e-5; log evidence about -490.1234 (estimated)".
    pub fn likelihood(&self) -> String {
        let evidence =
            self.log_evidence.map_or(String::new(), |e| format!("; log evidence about {e:.4} (estimated)"));
        let restricted = if self.objective == RESTRICTED { "restricted " } else { "" };
        format!("{restricted}log likelihood at the estimate {}{evidence}", self.likelihood_there())
    }
}

impl Record {
    /// What is known about the fit, a sentence each, the most important first.
    pub fn sentences(&self) -> Vec<String> {
        let posterior = &self.certificate.posterior;
        if let Some(scale) = &self.certificate.scale {
            let mut lines = vec![scale.sentence()];
            lines.extend(scale.other_maxima());
            lines.push(match &self.criterion {
                Some(criterion) => criterion.sentence(),
                None => scale.likelihood(),
            });
            if scale.groups > 0 {
                lines.push(format!("{} integrated out", counted(scale.groups, "group")));
            }
            lines.extend(self.table.iter().flat_map(Table::sentences));
            lines.extend(posterior.reason.clone());
            return lines;
        }
        let (gap, posterior) = (self.certificate.gap.facts(), posterior.facts());
        let mut lines: Vec<String> = self.verdict_sentence().into_iter().collect();
        lines.extend(self.table.iter().flat_map(Table::sentences));
        lines.push(gap.standing_alone().to_string());
        lines.extend(gap.errors());
        lines.push(posterior.standing_alone().to_string());
        lines.extend(posterior.errors());
        lines
    }
}
