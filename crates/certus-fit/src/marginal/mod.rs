//! Questions about expected responses: adjusted predictions, contrasts, ratios and slopes, averaged over rows.

mod average;
mod certified;
mod curves;
mod made;
mod question;

pub use certified::Certifying;
pub use question::{Comparison, Contrast, Held, Question};

use certus_data::{Column, ColumnEncoding, Encoding, Source, Table};
use serde::Serialize;

use crate::error::Error;
use crate::fit::Fit;
use crate::predict::mean_and_sd;
use crate::quantile::quantile;
use crate::refusal::RequestError;
use average::Average;
use made::Made;

/// Half the distance of a slope's two points, in sds of its column: the error of a central difference is of the order
/// of its square.
const STEP: f64 = 1e-3;
/// The probability of intervals, if none is asked for: that of the table's quantiles.
const INTERVAL: f64 = 0.9;

/// An answer: what is known of one number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarginalEffect {
    /// What it is: a contrast as it was written, `age (slope)`, or `expected died`.
    pub term: String,
    /// Where other columns are held, such as `age = 40`; empty if nowhere.
    pub at: String,
    /// The posterior mean, or the value at the estimates of a fit that maximises a likelihood.
    pub estimate: f64,
    /// The posterior sd.
    pub std_error: f64,
    /// The lower end of the interval, a quantile.
    pub conf_low: f64,
    /// The upper end.
    pub conf_high: f64,
    /// The probability that a difference or slope is above 0, or a ratio above 1.
    pub above: Option<f64>,
    /// The posterior mean is within this of the estimate, where that is certified.
    pub error: Option<f64>,
    /// The posterior quantiles are within this of both ends of the interval, where that is certified.
    pub interval_error: Option<f64>,
}

/// Answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MarginalEffects {
    /// One per question and combination of held columns.
    pub rows: Vec<MarginalEffect>,
    /// The probability of the intervals.
    pub interval: f64,
    /// Rows that were averaged over.
    pub averaged: usize,
    /// Draws that the numbers are made of.
    pub draws: usize,
    /// What they were drawn from.
    pub source: String,
    /// The Monte Carlo standard error of an estimate, in its sds; `None` for the value at estimates.
    pub monte_carlo_error: Option<f64>,
    /// True if responses are averages over the population of groups.
    pub population: bool,
    /// True if the answers are about the linear predictor and not about the expected response.
    pub linear_predictor: bool,
    /// What the errors rest on: the label of docs/maths.md; `None` if none is stated.
    pub theorem: Option<String>,
    /// All errors that are stated hold, together, with probability 1 − δ; `None` if they are proved, or none is stated.
    pub delta: Option<f64>,
    /// Why no error is stated, where some might have been.
    pub declined: Option<String>,
}

/// One number that is asked for.
enum Asked {
    Prediction,
    Compared(Contrast),
    Slope(String),
}

impl Fit {
    /// Answers for the rows of a source that have no gaps: those of the fit, or others. Their errors are certified
    /// where the fit's own certificate speaks of them, or the model is given and its posterior allows it.
    pub fn effects(
        &self,
        source: &dyn Source,
        question: &Question,
        certifying: Option<Certifying<'_>>,
    ) -> Result<MarginalEffects, Error> {
        let encoding = &self.meaning()?.encoding;
        let interval = question.interval.unwrap_or(INTERVAL);
        if !(interval > 0.0 && interval < 1.0) {
            let (setting, required) = ("`interval`".into(), "a probability between 0 and 1");
            return Err(RequestError::Number { setting, value: interval, required }.into());
        }
        let (table, weights) = self.rows_of(source, 1)?;
        let average = Average::new(self, table.rows(), question.linear_predictor)?;
        let asked = asked(question, encoding, &table)?;
        let (mut rows, mut all) = (Vec::new(), Vec::new());
        for (at, table) in held(&question.held, encoding, &table)? {
            for one in &asked {
                let (term, made, equal) = match one {
                    Asked::Prediction if question.linear_predictor => {
                        ("linear predictor".into(), Made::Expected(table.clone()), None)
                    }
                    Asked::Prediction => {
                        (format!("expected {}", encoding.response), Made::Expected(table.clone()), None)
                    }
                    Asked::Compared(contrast) => {
                        let how = contrast.comparison;
                        if question.linear_predictor && how != Comparison::Difference {
                            return Err(RequestError::LinearRatio { text: contrast.written() }.into());
                        }
                        let [a, b] = contrast.values.as_ref().expect("of two values");
                        let with = |value: &str| set(&table, encoding, &contrast.column, value);
                        (contrast.written(), Made::Compared(how, [with(a)?, with(b)?]), Some(how.of_equals()))
                    }
                    Asked::Slope(name) => {
                        let (h, tables) = moved(&table, encoding, name)?;
                        (format!("{name} (slope)"), Made::Slope(h, tables), Some(0.0))
                    }
                };
                rows.push(answer(
                    term,
                    at.clone(),
                    &average,
                    &made.values(&average, &weights)?,
                    equal,
                    interval,
                ));
                all.push(made);
            }
        }
        let kept = self.record.table.as_ref();
        let effective = kept.and_then(|t| t.constants.get("effective sample size").copied().flatten());
        let draws = average.draws();
        let estimated = self.mixture.as_ref().is_some_and(|(m, _)| m.is_estimated());
        let from = match (&self.posterior_draws, &self.mixture) {
            (Some(_), _) => format!("the posterior ({})", kept.map_or("", |t| t.source.words())),
            (None, Some(_)) if estimated => "the normal approximation of the likelihood".into(),
            (None, Some((_, scales))) if scales.scales.is_empty() => "the posterior (in closed form)".into(),
            (None, Some(_)) => "the posterior (a mixture over the scales)".into(),
            (None, None) => "the Gaussian approximation of the posterior".into(),
        };
        let effective = effective.map_or(draws as f64, |ess| ess.min(draws as f64));
        let mut found = MarginalEffects {
            rows,
            interval,
            averaged: table.rows(),
            draws,
            source: from,
            monte_carlo_error: (!estimated).then(|| effective.sqrt().recip()),
            population: self.mixture.as_ref().is_some_and(|(_, scales)| !scales.effects.is_empty()),
            linear_predictor: question.linear_predictor,
            theorem: None,
            delta: None,
            declined: None,
        };
        match certifying.filter(|_| self.certifies_effects()) {
            Some(with) => self.certify(&with, &average, &all, &weights, &mut found)?,
            None => self.certify_linear(&average, &all, &weights, &mut found)?,
        }
        Ok(found)
    }

    /// One of every so many rows of a source that have no gaps, and their weights.
    fn rows_of(&self, source: &dyn Source, every: usize) -> Result<(Table, Vec<f64>), Error> {
        let encoding = &self.meaning()?.encoding;
        let has = |name: &&str| source.columns().iter().any(|c| c.name == **name);
        let (labels, inputs): (Vec<&str>, Vec<&str>) =
            encoding.inputs().into_iter().partition(|name| of_groups(encoding).contains(name));
        // rows that the fit left out are left out here; groups are averaged over where their sd was not given
        let more = encoding.response_columns().into_iter().chain(encoding.weights.as_deref());
        let (needed, optional) = match self.mixture {
            Some(_) => (inputs, labels.into_iter().chain(more).filter(has).collect::<Vec<_>>()),
            None => (inputs.into_iter().chain(labels).collect(), more.filter(has).collect()),
        };
        let names: Vec<&str> = needed.into_iter().chain(optional).collect();
        let table = Table::some_complete(source, &names, every)?;
        if table.rows() == 0 {
            return Err(RequestError::NoRows.into());
        }
        let weights = encoding.weights.as_deref().and_then(|name| table.column(name));
        let weight = |i: usize| weights.and_then(|column| column.number(i)).unwrap_or(1.0);
        let weights: Vec<f64> = (0..table.rows()).map(weight).collect();
        Ok((table, weights))
    }
}

fn answer(
    term: String,
    at: String,
    average: &Average<'_>,
    values: &[f64],
    equal: Option<f64>,
    interval: f64,
) -> MarginalEffect {
    let (draws, estimate) = average.split(values);
    let (mean, sd) = mean_and_sd(draws);
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    let tail = 0.5 * (1.0 - interval);
    MarginalEffect {
        term,
        at,
        estimate: estimate.unwrap_or(mean),
        std_error: sd,
        conf_low: quantile(&sorted, tail),
        conf_high: quantile(&sorted, 1.0 - tail),
        above: equal.map(|equal| draws.iter().filter(|x| **x > equal).count() as f64 / draws.len() as f64),
        error: None,
        interval_error: None,
    }
}

/// Columns that only name groups.
fn of_groups(encoding: &Encoding) -> Vec<&str> {
    let labels = encoding.columns.iter().filter(|c| c.how == ColumnEncoding::Label);
    labels.flat_map(|coding| coding.columns()).collect()
}

/// The column, if it is one that the model is made of.
fn column<'a>(table: &'a Table, encoding: &Encoding, name: &str) -> Result<&'a Column, Error> {
    let known = encoding.inputs();
    let of_groups = of_groups(encoding);
    let found = table.column(name).filter(|_| known.contains(&name) && !of_groups.contains(&name));
    let available = || known.iter().filter(|k| !of_groups.contains(k)).map(|k| k.to_string()).collect();
    found.ok_or_else(|| RequestError::NoInput { name: name.into(), available: available() }.into())
}

/// The table with one value of a column in every row.
fn set(table: &Table, encoding: &Encoding, name: &str, value: &str) -> Result<Table, Error> {
    let filled = column(table, encoding, name)?.filled(value);
    let filled = filled.ok_or_else(|| RequestError::Value { column: name.into(), value: value.into() })?;
    Ok(table.with(name, filled)?)
}

/// The step, and the table with a column of numbers moved up and down by it.
fn moved(table: &Table, encoding: &Encoding, name: &str) -> Result<(f64, [Table; 2]), Error> {
    let Column::Number(x) = column(table, encoding, name)? else {
        return Err(RequestError::NoSlope { name: name.into() }.into());
    };
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let sd = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let h = STEP * if sd > 0.0 { sd } else { 1.0 };
    let by = |h: f64| table.with(name, Column::Number(x.iter().map(|x| x + h).collect()));
    Ok((h, [by(h)?, by(-h)?]))
}

/// Every combination of held columns: its words and its table.
fn held(all: &[Held], encoding: &Encoding, table: &Table) -> Result<Vec<(String, Table)>, Error> {
    let mut out = vec![(String::new(), table.clone())];
    for Held { column, values } in all {
        let mut next = Vec::new();
        for (words, table) in &out {
            for value in values {
                let comma = if words.is_empty() { "" } else { ", " };
                let words = format!("{words}{comma}{column} = {value}");
                next.push((words, set(table, encoding, column, value)?));
            }
        }
        out = next;
    }
    Ok(out)
}

/// What is asked; without contrasts and slopes the expected response where columns are held, or of every column what
/// it does.
fn asked(question: &Question, encoding: &Encoding, table: &Table) -> Result<Vec<Asked>, Error> {
    let mut out = Vec::new();
    for contrast in &question.contrasts {
        match &contrast.values {
            Some(_) => out.push(Asked::Compared(contrast.clone())),
            None => {
                let all = against_reference(encoding, table, &contrast.column)?;
                let none = || RequestError::NoLevels { name: contrast.column.clone() };
                out.extend(all.ok_or_else(none)?.into_iter().map(Asked::Compared));
            }
        }
    }
    out.extend(question.slopes.iter().cloned().map(Asked::Slope));
    if !out.is_empty() {
        return Ok(out);
    }
    if !question.held.is_empty() {
        return Ok(vec![Asked::Prediction]);
    }
    let mut seen: Vec<&str> = Vec::new();
    for coding in encoding.columns.iter().filter(|c| c.how != ColumnEncoding::Label) {
        for name in coding.columns() {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            match against_reference(encoding, table, name)? {
                Some(contrasts) => out.extend(contrasts.into_iter().map(Asked::Compared)),
                None => out.push(Asked::Slope(name.into())),
            }
        }
    }
    Ok(if out.is_empty() { vec![Asked::Prediction] } else { out })
}

/// Each level of a column against its reference, the first if it has none; `None` of a column of numbers.
fn against_reference(encoding: &Encoding, table: &Table, name: &str) -> Result<Option<Vec<Contrast>>, Error> {
    let cells = column(table, encoding, name)?;
    let contrast = |a: &str, b: &str| Contrast {
        column: name.into(),
        values: Some([a.into(), b.into()]),
        comparison: Comparison::Difference,
    };
    let levels = encoding.columns.iter().find_map(|coding| match &coding.how {
        ColumnEncoding::Levels { levels, reference } if coding.columns() == [name] => {
            Some((levels, reference))
        }
        _ => None,
    });
    Ok(match (levels, cells) {
        (Some((levels, reference)), _) => {
            let reference = reference.as_ref().or(levels.first()).cloned().unwrap_or_default();
            Some(levels.iter().filter(|l| **l != reference).map(|l| contrast(l, &reference)).collect())
        }
        (None, Column::Boolean(_)) => Some(vec![contrast("true", "false")]),
        // an indicator
        (None, Column::Number(x)) if x.iter().all(|x| *x == 0.0 || *x == 1.0) => {
            Some(vec![contrast("1", "0")])
        }
        _ => None,
    })
}
