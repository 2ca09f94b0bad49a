//! Pictures of what each predictor does on the scale of the response.

use std::fmt::Write;

use super::Extras;
use super::axes::{Axes, range, tick};
use super::html::{count, escape, number, percent};
use super::plots::ticks;
use super::question::outcome;
use crate::checks::{Curve, Curves, Places};
use crate::record::Record;

/// All of them.
pub(super) fn pictures(out: &mut String, curves: &Curves, record: &Record, extras: &Extras) {
    if curves.list.is_empty() {
        out.push_str("<p>There is no predictor that could be drawn.</p>");
        return;
    }
    let axis = extras.encoding.as_ref().and_then(|e| outcome(record, e)).map(|o| o.axis);
    let axis = axis.as_deref().unwrap_or("expected response");
    let _ = write!(
        out,
        "<p>Each picture shows the {} if every row had the same value of one predictor and kept its other values, \
         averaged over {} rows{}; the shades are 90\u{a0}% intervals.</p><div class=\"plots\">",
        escape(axis),
        count(curves.averaged as u64),
        if curves.population { " and over the population of groups" } else { "" }
    );
    let ends = || curves.list.iter().flat_map(|c| &c.points).flat_map(|[_, low, high]| [*low, *high]);
    if let Some(up) = range(ends()) {
        curves.list.iter().for_each(|curve| one_effect(out, curve, up, axis));
    }
    let left = match curves.left {
        0 => String::new(),
        1 => " One more predictor is not drawn.".into(),
        n => format!(" {n} more predictors are not drawn."),
    };
    let _ = write!(
        out,
        "</div><p class=\"small\">From {} draws; the scale of the response is the same in all pictures.{left}</p>",
        count(curves.draws as u64)
    );
}

fn one_effect(out: &mut String, curve: &Curve, up: [f64; 2], axis: &str) {
    let column = &curve.column;
    match &curve.places {
        Places::Numbers(x) => {
            let (Some(&first), Some(&last)) = (x.first(), x.last()) else { return };
            if first >= last {
                return;
            }
            let mut axes = Axes::new([first, last], up);
            let each = || x.iter().zip(&curve.points);
            axes.band(&each().map(|(x, [_, low, high])| [*x, *low, *high]).collect::<Vec<_>>());
            axes.curve(&each().map(|(x, [m, ..])| [*x, *m]).collect::<Vec<_>>(), "curve");
            let said = |k: usize| curve.points.get(k).map_or(String::new(), |p| number(p[0]));
            let words = format!(
                "{column}: about {} at {}, about {} at {}",
                said(0),
                tick(first),
                said(x.len() - 1),
                tick(last)
            );
            out.push_str(&axes.figure([column, axis], &words, &(escape(&words) + ".")));
        }
        Places::Levels(names) => levels(out, curve, names, up, axis),
    }
}

/// A line for each level.
fn levels(out: &mut String, curve: &Curve, names: &[String], up: [f64; 2], axis: &str) {
    let place = |x: f64| percent((x - up[0]) / (up[1] - up[0]));
    let column = escape(&curve.column);
    let _ = write!(
        out,
        r#"<figure class="plot"><p class="axis">{column}</p><div class="forest" role="img" aria-label="{} for each level of {column}">"#,
        escape(axis)
    );
    let marks = ticks(up[0], up[1]);
    for (name, [middle, low, high]) in names.iter().zip(&curve.points) {
        let name = escape(name);
        let _ = write!(
            out,
            r#"<div class="line"><span class="name" title="{name}">{name}</span><svg width="100%" height="24" aria-hidden="true">"#
        );
        for t in &marks {
            let _ = write!(out, r#"<line class="grid" x1="{x}" x2="{x}" y1="0" y2="100%"/>"#, x = place(*t));
        }
        let _ = write!(
            out,
            r#"<line class="spread" x1="{}" x2="{}" y1="12" y2="12"/><circle class="dot" cx="{}" cy="12" r="4"/></svg><span class="value">{}</span></div>"#,
            place(*low),
            place(*high),
            place(*middle),
            number(*middle)
        );
    }
    out.push_str(r#"<div class="line"><span></span><svg width="100%" height="20" aria-hidden="true">"#);
    for t in &marks {
        let _ = write!(out, r#"<text x="{}" y="15" text-anchor="middle">{}</text>"#, place(*t), tick(*t));
    }
    let _ = writeln!(
        out,
        "</svg><span></span></div></div><p class=\"axis across\">{}</p></figure>",
        escape(axis)
    );
}
