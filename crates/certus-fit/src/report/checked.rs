//! The data beside what the model predicts: calibration, residuals, and data sets that the model simulates.

use std::fmt::Write;

use certus::gaussian::NORMAL_95;
use certus_likelihood::{Response, Values};

use super::axes::{Axes, range};
use super::html::{count, escape, number, percent};
use super::{Extras, predictors, section};
use crate::checks::{CheckedRow, Checks, Frequency, Ppc, Statistic};
use crate::record::Record;

/// Points of a picture.
const POINTS: usize = 600;
/// Groups of a calibration plot.
const GROUPS: usize = 10;
/// Words on the axis of frequencies.
const WORDS: usize = 8;
/// Shares of simulated data sets that call for a sentence.
const RARE: f64 = 0.01;

/// All of them.
pub(super) fn part(out: &mut String, record: &Record, extras: &Extras) {
    let checks = &extras.checks;
    section(out, "effects", "What each predictor does");
    match &checks.curves {
        Ok(curves) => predictors::pictures(out, curves, record, extras),
        Err(reason) => absent(out, reason),
    }
    out.push_str("</section>\n");
    let ppc = match &checks.rows {
        Ok(ppc) => ppc,
        Err(reason) => {
            section(out, "checks", "Does the model suit the data?");
            absent(out, reason);
            out.push_str("</section>\n");
            return;
        }
    };
    let response: Option<Response> = record.model.parse().ok();
    let pictures: [(&str, &str, Picture); 3] = [
        ("calibration", "Are the predictions right on average?", calibration),
        ("residuals", "Is anything left in the residuals?", residuals),
        ("predictive", "Would the model produce such data?", predictive),
    ];
    let grouped = record.certificate.scale.as_ref().is_some_and(|scale| scale.group.is_some());
    for (id, title, picture) in pictures {
        section(out, id, title);
        match response {
            Some(_) if ppc.at_estimates && grouped && id == "calibration" => {
                absent(out, "the scales are estimates, and the effects of groups have no draws");
            }
            Some(response) if !ppc.checked.is_empty() => picture(out, ppc, response),
            _ => absent(out, "there are no rows"),
        }
        how(out, ppc, checks, record);
        out.push_str("</section>\n");
    }
}

type Picture = fn(&mut String, &Ppc, Response);

fn absent(out: &mut String, reason: &str) {
    let _ = write!(out, "<p>Not shown: {}.</p>", escape(reason.trim_end_matches('.')));
}

/// From which rows and draws.
fn how(out: &mut String, ppc: &Ppc, checks: &Checks, record: &Record) {
    let mut words = match checks.every {
        1 => format!("From all {} rows", count(ppc.rows as u64)),
        every => format!(
            "From {} rows, chosen by a fixed rule, about one of every {every}{}",
            count(ppc.rows as u64),
            record.data.rows.map_or(String::new(), |all| format!(" of {}", count(all)))
        ),
    };
    let drawn = if ppc.at_estimates { "simulated data sets" } else { "draws of the posterior" };
    let _ = write!(words, ", and {} {drawn}.", count(ppc.draws as u64));
    if let Some(note) = ppc.note {
        let _ = write!(words, " {}.", escape(super::html::sentence(note).trim_end_matches('.')));
    }
    let _ = write!(out, "<p class=\"small\">{words}</p>");
}

/// Some rows, in a fixed way: one of every so many.
fn some(rows: &[CheckedRow]) -> impl Iterator<Item = &CheckedRow> {
    rows.iter().step_by(rows.len().div_ceil(POINTS).max(1))
}

/// How many points are drawn, if not all.
fn drawn(ppc: &Ppc) -> String {
    match ppc.checked.len().div_ceil(POINTS) {
        0 | 1 => String::new(),
        every => format!(" One row of every {every} is drawn."),
    }
}

fn calibration(out: &mut String, ppc: &Ppc, response: Response) {
    match response.values() {
        Values::Binary | Values::Successes => shares(out, ppc),
        Values::Counts => frequencies(out, ppc),
        Values::Numbers => scatter(out, ppc),
    }
}

/// Observed shares in groups of rows with similar predictions.
fn shares(out: &mut String, ppc: &Ppc) {
    out.push_str(
        "<p>Rows are sorted by the predicted probability and cut into groups. Where the predictions are right, the \
         observed share of each group is near the dashed line, on which both are equal.</p>",
    );
    let groups = grouped(&ppc.checked);
    let ends = groups.iter().flat_map(|g| [g.predicted, g.low, g.high]);
    let Some(both) = range(ends) else { return absent(out, "no prediction is finite") };
    let both = [both[0].max(0.0), both[1].min(1.0)];
    let mut axes = Axes::new(both, both);
    axes.curve(&[[both[0]; 2], [both[1]; 2]], "ideal");
    for g in &groups {
        axes.whisker(g.predicted, g.low, g.high);
        axes.point(g.predicted, g.observed, 4.0, "dot");
    }
    let off = groups.iter().filter(|g| g.predicted < g.low || g.predicted > g.high).count();
    let words = format!(
        "{} groups with 90\u{a0}% binomial intervals (Wilson); {off} of the intervals {} the line, and about {:.0} \
         would where all is right",
        groups.len(),
        if off == 1 { "misses" } else { "miss" },
        0.1 * groups.len() as f64
    );
    out.push_str(&axes.figure(["predicted probability", "observed share"], &words, &(escape(&words) + ".")));
}

/// Rows with similar predictions.
struct Group {
    predicted: f64,
    observed: f64,
    low: f64,
    high: f64,
}

/// About ten groups of equal size; rows with the same prediction stay together.
fn grouped(rows: &[CheckedRow]) -> Vec<Group> {
    let mut sorted: Vec<&CheckedRow> = rows.iter().collect();
    let p = |row: &CheckedRow| row.expected / row.trials;
    sorted.sort_by(|a, b| p(a).total_cmp(&p(b)));
    let (mut out, mut begin) = (Vec::new(), 0);
    for k in 1..=GROUPS {
        let mut end = (k * sorted.len() / GROUPS).max(begin);
        while end > begin && end < sorted.len() && p(sorted[end]) == p(sorted[end - 1]) {
            end += 1;
        }
        if end > begin {
            out.push(Group::of(&sorted[begin..end]));
        }
        begin = end;
    }
    out
}

impl Group {
    fn of(rows: &[&CheckedRow]) -> Self {
        let sum = |of: &dyn Fn(&CheckedRow) -> f64| rows.iter().map(|row| of(row)).sum::<f64>();
        let (n, y) = (sum(&|r| r.trials), sum(&|r| r.y));
        let [low, high] = wilson(y, n);
        Self { predicted: sum(&|r| r.expected) / n, observed: y / n, low, high }
    }
}

/// The interval of Wilson (1927) for a share of y in n, with probability 0.9.
fn wilson(y: f64, n: f64) -> [f64; 2] {
    let (p, z2) = (y / n, NORMAL_95 * NORMAL_95);
    let center = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = NORMAL_95 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt() / (1.0 + z2 / n);
    [(center - half).max(0.0), (center + half).min(1.0)]
}

/// How often each count occurs.
fn frequencies(out: &mut String, ppc: &Ppc) {
    out.push_str(
        "<p>Bars are the numbers of rows with each count that the model expects, with the 5 % and 95 % quantiles of \
         simulated data sets; points are the data. Points beyond the lines are counts that occur too often or too \
         rarely for the model.</p>",
    );
    let all = &ppc.frequencies;
    let most = all.iter().flat_map(|f| [f.observed, f.high]).fold(0.0, f64::max);
    if all.is_empty() || most <= 0.0 || !most.is_finite() {
        return absent(out, "the counts have no finite frequencies");
    }
    let every = all.len().div_ceil(WORDS);
    let named = all.iter().enumerate().step_by(every).map(|(k, f)| (k as f64, written(f))).collect();
    let mut axes = Axes::new([-0.5, all.len() as f64 - 0.5], [0.0, 1.04 * most]).named(named);
    for (k, f) in all.iter().enumerate() {
        let x = k as f64;
        axes.bar([x - 0.4, x + 0.4], f.mean);
        axes.whisker(x, f.low, f.high);
        axes.point(x, f.observed, 3.5, "seen");
    }
    let off = all.iter().filter(|f| f.observed < f.low || f.observed > f.high).count();
    let bins = all.len();
    let words = format!("{off} of {bins} points are beyond the lines");
    out.push_str(&axes.figure(["count", "rows"], &words, &(escape(&words) + ".")));
}

fn written(f: &Frequency) -> String {
    match f.counts {
        [first, last] if last == f64::INFINITY => format!("≥{first}"),
        [first, last] if first == last => format!("{first}"),
        [first, last] => format!("{first}–{last}"),
    }
}

/// The responses against what was predicted.
fn scatter(out: &mut String, ppc: &Ppc) {
    out.push_str(
        "<p>Every point is a row. Where the predictions are right on average, the points lie evenly about the dashed \
         line, on which the response equals its prediction.</p>",
    );
    let ranges = (range(ppc.checked.iter().map(|r| r.expected)), range(ppc.checked.iter().map(|r| r.y)));
    let (Some(x), Some(y)) = ranges else { return absent(out, "no prediction is finite") };
    let mut axes = Axes::new(x, y);
    let ends = [x[0].max(y[0]), x[1].min(y[1])];
    if ends[0] < ends[1] {
        axes.curve(&[[ends[0]; 2], [ends[1]; 2]], "ideal");
    }
    some(&ppc.checked).for_each(|row| axes.point(row.expected, row.y, 2.5, "faint"));
    let words = format!("Responses against their predictions.{}", drawn(ppc));
    out.push_str(&axes.figure(["predicted", "observed"], &words, &escape(&words)));
}

fn residuals(out: &mut String, ppc: &Ppc, _: Response) {
    let _ = write!(
        out,
        "<p>A residual says where a response lies among those that the model predicts for its row, as a standard \
         normal number (randomised quantile residuals). Where the model is right, they form a shapeless cloud about \
         0, with sd 1 or a little less: here their mean is about {:.2} and their sd about {:.2}, and {} of {} are \
         beyond ±3 (about {:.1} expected).</p><div class=\"plots\">",
        ppc.residual_mean,
        ppc.residual_sd,
        ppc.far,
        count(ppc.rows as u64),
        0.0027 * ppc.rows as f64
    );
    let finite = || ppc.checked.iter().filter(|r| r.residual.is_finite() && r.expected.is_finite());
    let most = finite().map(|r| r.residual.abs()).fold(3.2, f64::max);
    let Some(x) = range(finite().map(|r| r.expected)) else {
        out.push_str("</div>");
        return absent(out, "no prediction is finite");
    };
    let mut axes = Axes::new(x, [-1.04 * most, 1.04 * most]);
    for line in [-NORMAL_95, 0.0, NORMAL_95] {
        axes.curve(&[[x[0], line], [x[1], line]], "ideal");
    }
    some(&ppc.checked).for_each(|row| axes.point(row.expected, row.residual, 2.5, "faint"));
    let words =
        format!("Nine of ten points lie between the outer lines where the model is right.{}", drawn(ppc));
    out.push_str(&axes.figure(["predicted", "residual"], &words, &escape(&words)));
    quantiles(out, ppc);
    out.push_str("</div>");
}

/// Sorted residuals against normal quantiles.
fn quantiles(out: &mut String, ppc: &Ppc) {
    let mut sorted: Vec<f64> = ppc.residuals.iter().copied().filter(|r| r.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let normal = |k: usize| crate::predict::standard_quantile((k as f64 + 0.5) / n as f64);
    // all of the tails, and as many between as are drawn
    let every = n.div_ceil(POINTS).max(1);
    let tail = 20;
    let shown = |k: &usize| k.is_multiple_of(every) || *k < tail || k + tail >= n;
    let points: Vec<[f64; 2]> = (0..n).filter(shown).map(|k| [normal(k), sorted[k]]).collect();
    let most = points.iter().flatten().fold(1.0, |most: f64, x| most.max(x.abs()));
    let both = [-1.04 * most, 1.04 * most];
    let mut axes = Axes::new(both, both);
    axes.curve(&[[both[0]; 2], [both[1]; 2]], "ideal");
    points.iter().for_each(|[x, y]| axes.point(*x, *y, 2.5, "faint"));
    let words = "Sorted residuals against normal quantiles: on the line where the model is right.";
    out.push_str(&axes.figure(["normal quantile", "residual"], words, words));
}

fn predictive(out: &mut String, ppc: &Ppc, _: Response) {
    let _ = write!(
        out,
        "<p>The fitted model simulates {} data sets for the same rows. Each line below compares a property of the data \
         (the ring) with the middle 90\u{a0}% of the simulated data sets (the bar). The \
         last column of the table is the share of simulated data sets that have more.</p>\
         <div class=\"forest wide\" role=\"img\" aria-label=\"Properties of the data beside those of simulated data \
         sets; the table below has the numbers.\">",
        count(ppc.draws as u64)
    );
    for s in &ppc.statistics {
        statistic(out, s);
    }
    out.push_str("</div><div class=\"scroll\"><table class=\"predictive\"><thead><tr>");
    for head in ["property", "data", "simulated", "5 %", "95 %", "above"] {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for s in &ppc.statistics {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(s.name));
        for x in [s.observed, s.mean, s.low, s.high] {
            let _ = write!(out, "<td>{}</td>", super::html::short(Some(x)));
        }
        let _ = write!(out, "<td>{:.3}</td></tr>", s.above);
    }
    out.push_str("</tbody></table></div>");
    let rare: Vec<&Statistic> =
        ppc.statistics.iter().filter(|s| !(RARE..=1.0 - RARE).contains(&s.above)).collect();
    match &rare[..] {
        [] => out.push_str("<p>None of these properties is rare among the simulated data sets.</p>"),
        _ => {
            for s in rare {
                let more = if s.above < RARE { "more" } else { "less" };
                let _ = write!(
                    out,
                    "<p><strong>The model does not reproduce this property of the data: {}.</strong> About {:.1} % of \
                     the simulated data sets have as much or {more} than the data.</p>",
                    escape(s.name),
                    100.0 * s.above.min(1.0 - s.above)
                );
            }
        }
    }
}

/// The bar is as wide as the middle half of the picture; a ring beyond its ends is drawn there.
fn statistic(out: &mut String, s: &Statistic) {
    let width = s.high - s.low;
    let place = |x: f64| match width > 0.0 {
        true => (0.3 + 0.4 * (x - s.low) / width).clamp(0.02, 0.98),
        false if x == s.low => 0.5,
        false => {
            if x < s.low {
                0.02
            } else {
                0.98
            }
        }
    };
    let (a, b) = if width > 0.0 { (0.3, 0.7) } else { (0.49, 0.51) };
    let _ = write!(
        out,
        r#"<div class="line"><span class="name">{}</span><svg width="100%" height="24" aria-hidden="true"><line class="grid" x1="0" x2="100%" y1="12" y2="12"/><line class="spread" x1="{}" x2="{}" y1="12" y2="12"/><circle class="seen" cx="{}" cy="12" r="5"/></svg><span class="value">{}</span></div>"#,
        escape(s.name),
        percent(a),
        percent(b),
        percent(place(s.observed)),
        number(s.observed)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(expected: f64, y: f64) -> CheckedRow {
        CheckedRow { y, trials: 1.0, expected, residual: 0.0 }
    }

    /// Wilson's interval for 2 of 10: where (p - q)² = z² q (1 - q)/n, solved by halves.
    #[test]
    fn intervals_of_shares() {
        let [low, high] = wilson(2.0, 10.0);
        assert!((low - 0.06855799).abs() < 1e-7 && (high - 0.45920719).abs() < 1e-7, "{low} {high}");
        assert_eq!(wilson(0.0, 5.0)[0], 0.0);
        assert!(wilson(5.0, 5.0)[1] <= 1.0);
    }

    /// Groups of equal size, but rows with the same prediction stay together.
    #[test]
    fn groups_are_sorted_and_whole() {
        let rows: Vec<CheckedRow> =
            (0..100).rev().map(|k| row(f64::from(k) / 100.0, f64::from(k % 2))).collect();
        let groups = grouped(&rows);
        assert_eq!(groups.len(), 10);
        assert!((groups[0].predicted - 0.045).abs() < 1e-12 && groups.iter().all(|g| g.observed == 0.5));
        let same: Vec<CheckedRow> = (0..100).map(|k| row(if k < 95 { 0.25 } else { 0.75 }, 1.0)).collect();
        let groups = grouped(&same);
        assert_eq!(groups.iter().map(|g| g.predicted).collect::<Vec<_>>(), [0.25, 0.75]);
    }
}
