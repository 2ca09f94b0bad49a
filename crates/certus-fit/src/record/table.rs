//! Where the printed numbers come from, and how far from the posterior they may be.

use std::collections::BTreeMap;

use certus::certificate::Level;
use certus::certificate::words::{figure, level_words, percent};
use serde::{Deserialize, Serialize};

use super::convert::finite;
use super::words::level;
use super::{Parameter, Record, RecordedLevel};

/// Where printed numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The Gaussian itself.
    Gaussian,
    /// Importance weights whose tail is proved.
    Corrected,
    /// Independent draws from the posterior.
    Exact,
    /// Importance sampling.
    Importance,
    /// NUTS.
    Nuts,
    /// A mixture over scales that were not given, in which the coefficients are normal given the scales.
    Mixture,
}

impl Source {
    /// All that can be asked for.
    pub const ALL: [Self; 5] = [Self::Gaussian, Self::Corrected, Self::Exact, Self::Importance, Self::Nuts];

    /// As fit.json and the setting have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gaussian => "gaussian",
            Self::Corrected => "corrected",
            Self::Exact => "exact",
            Self::Importance => "importance",
            Self::Nuts => "nuts",
            Self::Mixture => "mixture",
        }
    }

    /// What it is: "draws of NUTS".
    pub fn words(self) -> &'static str {
        match self {
            Self::Gaussian => "the Gaussian's own numbers",
            Self::Corrected => "importance weights with a proved tail",
            Self::Exact => "exact draws",
            Self::Importance => "importance sampling",
            Self::Nuts => "draws of NUTS",
            Self::Mixture => "a mixture over the scales",
        }
    }
}

/// What the printed numbers are, if they are not the Gaussian's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Where they come from.
    pub source: Source,
    /// How sure their errors are.
    pub level: RecordedLevel,
    /// δ, if they are probable.
    pub delta: Option<f64>,
    /// The largest error of a mean, in sds.
    pub mean_error: Option<f64>,
    /// The largest error of an sd, as a fraction of it.
    pub sd_error: Option<f64>,
    /// The largest error of a quantile, in sds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantile_error: Option<f64>,
    /// How they were made, in words.
    pub made: String,
    /// Figures that tell how good the source is.
    pub constants: BTreeMap<String, Option<f64>>,
}

/// The Gaussian's own numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfGaussian {
    /// One entry per coefficient, on the user's scale.
    pub parameters: Vec<Parameter>,
}

impl Table {
    /// Of a table of the posterior, with its largest errors of means, sds and quantiles.
    pub(crate) fn new(
        source: Source,
        level: Level,
        [mean_error, sd_error, quantile_error]: [f64; 3],
        made: String,
        constants: &[(&'static str, f64)],
    ) -> Self {
        let delta = match level {
            Level::Probable { delta } => Some(delta),
            _ => None,
        };
        Self {
            source,
            level: RecordedLevel::new(level),
            delta,
            mean_error: finite(mean_error),
            sd_error: finite(sd_error),
            quantile_error: finite(quantile_error),
            made,
            constants: constants.iter().map(|(name, x)| (name.to_string(), finite(*x))).collect(),
        }
    }

    /// How far the printed numbers may be off, and where they come from.
    pub fn sentences(&self) -> [String; 2] {
        [self.errors(), self.made.clone()]
    }

    /// "means within 0.012 sd, sds within 2.6 %, quantiles within 0.05 sd of the posterior's (with probability 0.99)";
    /// of an estimate "means about 0.012 sd, … from the posterior's, 2.6 standard errors each (estimated)".
    pub fn errors(&self) -> String {
        let sure = level(self.level, self.delta);
        let (how, rest) = match sure {
            Level::Estimated | Level::None => ("about", "from the posterior's, 2.6 standard errors each"),
            Level::Proved | Level::Probable { .. } => ("within", "of the posterior's"),
        };
        let shown = |x: Option<f64>, words: fn(f64) -> String| x.map_or("?".into(), words);
        let (mean, sd) = (shown(self.mean_error, figure), shown(self.sd_error, percent));
        let quantiles = self
            .quantile_error
            .map_or(String::new(), |error| format!(", quantiles {how} {} sd", figure(error)));
        format!("means {how} {mean} sd, sds {how} {sd} %{quantiles} {rest} ({})", level_words(sure))
    }
}

impl Record {
    /// The record whose parameters are the Gaussian's own, with what is known of their distance from the posterior.
    #[must_use]
    pub(crate) fn printing_own(mut self) -> Self {
        let known = &self.certificate.posterior;
        for parameter in &mut self.parameters {
            parameter.source = Some(Source::Gaussian);
            if let (Some(mean), Some(sd)) = (known.mean_error, known.sd_error) {
                (parameter.mean_error, parameter.sd_error) = (Some(mean), Some(sd));
                parameter.level = Some(known.level);
            }
        }
        self
    }

    /// The record with another source of the printed numbers, each row with (mean, sd, quantiles, errors); the
    /// Gaussian's own move aside.
    #[must_use]
    pub(crate) fn printing(mut self, table: Table, rows: impl Iterator<Item = [f64; 8]>) -> Self {
        let own = self.parameters;
        let (level, source) = (Some(table.level), Some(table.source));
        let row = |(p, of): (&Parameter, [f64; 8])| Parameter {
            name: p.name.clone(),
            mean: finite(of[0]),
            sd: finite(of[1]),
            q05: finite(of[2]),
            q50: finite(of[3]),
            q95: finite(of[4]),
            mean_error: finite(of[5]),
            sd_error: finite(of[6]),
            quantile_error: finite(of[7]),
            level,
            source,
        };
        self.parameters = own.iter().zip(rows).map(row).collect();
        (self.table, self.gaussian) = (Some(table), Some(OfGaussian { parameters: own }));
        self
    }
}
