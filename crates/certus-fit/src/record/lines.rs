//! What a record says at a glance, a labelled line each: the lines of the command line's table, and what notebooks and
//! comparisons take from it. Nothing outside of this crate need know whether the result is a Gaussian or a mixture.

use certus::certificate::words::{figure, percent};
use certus::certificate::{counted, significant};

use super::{GroupEffect, GroupTerm, Record, RecordedLevel, Scale, Source, Table};

/// A number with five significant digits, or a dash.
pub fn number(x: Option<f64>) -> String {
    match x {
        None => "-".into(),
        Some(0.0) => "0".into(),
        Some(x) if (1e-3..1e5).contains(&x.abs()) => significant(x, 5),
        Some(x) => format!("{x:.4e}"),
    }
}

impl Record {
    /// How far the printed numbers are from what they should be, line by line: from the posterior's first, then from
    /// the best Gaussian's. A line without a label belongs to the one before.
    pub fn statements(&self) -> Vec<(&'static str, String)> {
        let certificate = &self.certificate;
        if let Some(scale) = &certificate.scale {
            return self.of_scale(scale, certificate.posterior.reason.as_deref());
        }
        let mut lines = Vec::new();
        let posterior = certificate.posterior.facts();
        let printed = self.table.iter().flat_map(Table::sentences);
        let printed: Vec<_> = ["posterior", ""].into_iter().zip(printed).collect();
        // an estimate says so itself
        let sure = match posterior.is_a_bound() {
            true => format!(" ({})", posterior.level_words()),
            false => String::new(),
        };
        lines.extend(posterior.errors().map(|errors| format!("{errors}{sure}")));
        lines.push(posterior.sentence().to_string());
        let label = if printed.is_empty() { "posterior" } else { "gaussian" };
        let lines = [label, "", ""].into_iter().zip(lines);
        let verdict = self.verdict_sentence().map(|sentence| ("verdict", sentence));
        let mut lines: Vec<_> = verdict.into_iter().chain(printed).chain(lines).collect();
        let gap = certificate.gap.facts();
        lines.push(("gap", gap.sentence().to_string()));
        lines.extend(gap.errors().map(|errors| ("", errors)));
        lines
    }

    /// Rows, evaluations and seconds.
    pub fn spent(&self) -> String {
        let rows = self.data.rows.map_or(String::new(), |n| format!("{}, ", counted(n, "row")));
        let unit = if self.certificate.scale.is_some() { "pass" } else { "gradient" };
        format!("{rows}{}, {:.2} s", counted(self.counts.gradients, unit), self.seconds)
    }

    /// How strong the main statement is: about the gap of a Gaussian, or the interval of a scale.
    pub fn level(&self) -> RecordedLevel {
        self.certificate.scale.as_ref().map_or(self.certificate.gap.level, |scale| scale.level)
    }

    /// The estimated log evidence, of a mixture.
    pub fn log_evidence(&self) -> Option<f64> {
        self.certificate.scale.as_ref().and_then(|scale| scale.log_evidence)
    }
}

impl RecordedLevel {
    /// As fit.json has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Probable => "probable",
            Self::Estimated => "estimated",
            Self::None => "none",
        }
    }
}

impl Record {
    /// What is known about scales that were not given.
    fn of_scale(&self, scale: &Scale, posterior: Option<&str>) -> Vec<(&'static str, String)> {
        let mut lines = vec![("scale", scale.sentence())];
        lines.extend(scale.other_maxima().into_iter().map(|line| ("", line)));
        lines.push(match &self.criterion {
            Some(criterion) => ("criterion", criterion.sentence()),
            None => ("", scale.likelihood()),
        });
        if let (Some(first), Some(last)) = (scale.smallest.first(), scale.largest.last()) {
            let one =
                |e: &GroupEffect| format!("{} {} ± {}", e.group, number(Some(e.mean)), number(Some(e.sd)));
            let (groups, term) = (counted(scale.groups, "group"), scale.group.as_deref().unwrap_or_default());
            lines.push(("effects", format!("{groups} of {term}, from {} to {}", one(first), one(last))));
        } else if self.groups.len() > 1 || self.groups.iter().any(|g| g.effects.len() > 1) {
            let one = |g: &GroupTerm| format!("{} of {}", counted(g.levels, "group"), g.name);
            let mut all: Vec<String> = self.groups.iter().map(one).collect();
            // a factor may have several terms
            all.dedup();
            lines.push((
                "effects",
                format!("{}; all of them in groups.parquet of a fit that is kept", all.join(", ")),
            ));
        }
        let printed = self.table.iter().flat_map(Table::sentences).chain(self.errors_of_grid());
        let printed = printed.chain(posterior.map(String::from));
        if self.criterion.is_some() {
            lines.extend(["errors", "", ""].into_iter().zip(printed));
            return lines;
        }
        // what is known of the printed numbers comes first
        ["posterior", "", ""].into_iter().zip(printed).chain(lines).collect()
    }

    /// How far the numbers of a mixture may be off, where refining its grid tells.
    fn errors_of_grid(&self) -> Option<String> {
        let own = self.parameters.iter().filter(|p| p.source == Some(Source::Mixture));
        let error = own
            .filter_map(|p| p.mean_error)
            .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))))?;
        Some(format!(
            "means about {} sd, sds about {} % from the posterior's, by halving the step of a grid (estimated)",
            figure(error),
            percent(error)
        ))
    }
}
