//! What a fit looks like on stdout: the verdict first, then what is known and how well, then the numbers.

use std::fmt::Write;
use std::path::Path;

use certus::certificate::{figure, significant};
use certus_store::Record;
use certus_store::record::{GroupEffect, Level, Parameter, Scale, outward};

/// Parameters shown.
const SHOWN: usize = 40;

/// A number with five significant digits, or a dash.
fn number(x: Option<f64>) -> String {
    match x {
        None => "-".into(),
        Some(0.0) => "0".into(),
        Some(x) if (1e-3..1e5).contains(&x.abs()) => significant(x, 5),
        Some(x) => format!("{x:.4e}"),
    }
}

/// Rows of a table, the first column to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        for (c, text) in row.iter().enumerate() {
            let space = " ".repeat(widths[c] - text.chars().count());
            out.push_str(&if c == 0 { format!("{text}{space}") } else { format!("  {space}{text}") });
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// The table of the parameters.
pub fn parameters(parameters: &[Parameter]) -> String {
    let head = ["parameter", "mean", "sd", "5 %", "95 %"].map(String::from).to_vec();
    let row = |p: &Parameter| {
        let numbers = [p.mean, p.sd, p.q05, p.q95].map(number);
        std::iter::once(p.name.clone()).chain(numbers).collect()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(head).chain(parameters.iter().take(SHOWN).map(row)).collect();
    let mut out = aligned(&rows);
    if parameters.len() > SHOWN {
        let _ = writeln!(out, "and {} more (--json or fit.json has them all)", parameters.len() - SHOWN);
    }
    out
}

fn level(level: Level, delta: Option<f64>) -> String {
    match (level, delta) {
        (Level::Proved, _) => "proved".into(),
        (Level::Probable, Some(delta)) => format!("with probability {}", 1.0 - delta),
        (Level::Probable, None) => "probable".into(),
        (Level::Estimated, _) => "estimated, not proved".into(),
        (Level::None, _) => "nothing is known".into(),
    }
}

/// "means within 0.0052 sd, sds within 0.31 %".
fn errors(mean: Option<f64>, sd: Option<f64>) -> Option<String> {
    let mean = mean.map(|e| format!("means within {} sd", figure(e)));
    let sd = sd.map(|e| format!("sds within {} %", figure(100.0 * e)));
    let both: Vec<String> = mean.into_iter().chain(sd).collect();
    (!both.is_empty()).then(|| both.join(", "))
}

/// How far the Gaussian is from the best one and from the posterior.
fn certificate(record: &Record) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let gap = &record.certificate.gap;
    match gap.bound {
        Some(bound) => {
            let theorem = gap.theorem.as_deref().map_or(String::new(), |t| format!(", {t}"));
            lines.push((
                "gap",
                format!(
                    "at most {} nats from the best of {} ({}{theorem})",
                    figure(bound),
                    gap.family,
                    level(gap.level, gap.delta)
                ),
            ));
            lines.extend(errors(gap.mean_error, gap.sd_error).map(|e| ("", format!("its {e}"))));
        }
        None => {
            lines.push(("gap", format!("not known: {}", gap.reason.as_deref().unwrap_or("nobody asked"))))
        }
    }
    let posterior = &record.certificate.posterior;
    match posterior.bound {
        Some(bound) => {
            lines.push((
                "posterior",
                format!(
                    "KL(q|p) at most {} nats ({})",
                    figure(bound),
                    level(posterior.level, posterior.delta)
                ),
            ));
            lines.extend(errors(posterior.mean_error, posterior.sd_error).map(|e| ("", format!("its {e}"))));
        }
        None => {
            lines.push((
                "posterior",
                format!("not compared: {}", posterior.reason.as_deref().unwrap_or("nobody asked")),
            ));
        }
    }
    lines
}

/// What is known of scales that were not given.
fn scaled(scale: &Scale, honest: Option<&str>) -> Vec<(&'static str, String)> {
    let estimate = number(scale.estimate);
    let first = match scale.interval {
        Some(ends) => format!(
            "{} {estimate}: a maximum of the {} lies between {} (proved, {})",
            scale.name,
            scale.objective,
            outward(ends).join(" and "),
            scale.theorem.as_deref().unwrap_or_default()
        ),
        None => {
            let why = scale.reason.as_deref().unwrap_or("nobody asked");
            let others: String =
                scale.others.iter().map(|o| format!(", {} {}", o.name, number(o.estimate))).collect();
            format!(
                "{} {estimate}{others}: a maximum of the {}, without a proof: {why}",
                scale.name, scale.objective
            )
        }
    };
    let mut lines = vec![("scale", first)];
    lines.extend(scale.other_maxima().into_iter().map(|line| ("", line)));
    let likelihood = scale.log_likelihood.map_or("not known".into(), |l| format!("{l:.4}"));
    let error = scale.log_likelihood_error.map_or("without a proof".into(), |e| format!("± {}", figure(e)));
    let evidence = scale.log_evidence.map_or(String::new(), |e| format!("; log evidence {e:.4} (estimated)"));
    lines.push(("", format!("log likelihood there {likelihood} {error}{evidence}")));
    if let (Some(first), Some(last)) = (scale.smallest.first(), scale.largest.last()) {
        let one = |e: &GroupEffect| format!("{} {} ± {}", e.group, number(Some(e.mean)), number(Some(e.sd)));
        lines.push((
            "effects",
            format!(
                "{} groups of {}, from {} to {}",
                scale.groups,
                scale.group.as_deref().unwrap_or_default(),
                one(first),
                one(last)
            ),
        ));
    }
    lines.extend(honest.map(|words| ("posterior", words.to_string())));
    lines
}

/// The verdict, the certificate, the parameters, the remarks.
pub fn fit(record: &Record, written: Option<&Path>) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    lines.push((record.status.as_str(), record.message.clone()));
    match &record.certificate.scale {
        Some(scale) => lines.extend(scaled(scale, record.certificate.posterior.reason.as_deref())),
        None => lines.extend(certificate(record)),
    }
    if !record.route.is_empty() {
        lines.push(("route", record.route.clone()));
    }
    let rows = record.data.rows.map_or(String::new(), |n| format!("{n} rows, "));
    let unit = if record.certificate.scale.is_some() { "passes" } else { "gradients" };
    lines.push(("spent", format!("{rows}{} {unit}, {:.2} s", record.counts.gradients, record.seconds)));
    let width = lines.iter().map(|l| l.0.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (what, text) in &lines {
        let _ = writeln!(out, "{what:<width$}  {text}");
    }
    if !record.parameters.is_empty() {
        let _ = write!(out, "\n{}", parameters(&record.parameters));
    }
    if !record.notes.is_empty() {
        out.push('\n');
        record.notes.iter().for_each(|note| {
            let _ = writeln!(out, "note: {note}");
        });
    }
    if let Some(path) = written {
        let path = path.display();
        let _ = writeln!(out, "\nwritten to {path}; see it with: certus report {path}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_digits() {
        let shown = [0.0, 1.0, -12.345678, 123_456.0, 0.000_123, 99_999.4].map(|x| number(Some(x)));
        assert_eq!(shown, ["0", "1.0000", "-12.346", "1.2346e5", "1.2300e-4", "99999"]);
        assert_eq!(number(None), "-");
    }

    #[test]
    fn tables_are_aligned() {
        let rows = [vec!["a".into(), "10".into()], vec!["äöü".into(), "5".into()]];
        assert_eq!(aligned(&rows), "a    10\näöü   5\n");
    }
}
