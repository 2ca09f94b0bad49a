//! Plots as SVG that follows the width of the page: horizontal places are percentages, so that text keeps its size on a
//! phone.

use std::fmt::Write;

use certus::certificate::words::{figure, nearest};

use super::html::{escape, percent, short, time};
use crate::record::{Parameter, TracePoint};

/// Coefficients that are drawn.
pub(super) const DRAWN: usize = 40;
/// Points of a trace that are drawn.
const POINTS: usize = 400;
/// The height of the trace, and the room above and below its axis.
const HEIGHT: f64 = 256.0;
const ROOM: f64 = 8.0;

/// Round numbers that divide an interval into at most six parts.
pub(super) fn ticks(low: f64, high: f64) -> Vec<f64> {
    let raw = (high - low) / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let step =
        power * [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| m * power >= raw * (1.0 - 1e-9)).unwrap_or(10.0);
    let first = (low / step).ceil();
    (0..=6).map(|k| (first + f64::from(k)) * step).take_while(|t| *t <= high + 1e-9 * step).collect()
}

fn interval(p: &Parameter) -> Option<[f64; 3]> {
    Some([p.q05?, p.mean?, p.q95?])
}

/// Means and 90 % intervals, one line each, with those of draws below if there are any. `None` if nothing can be drawn.
pub(super) fn coefficients(parameters: &[Parameter], draws: Option<&[Parameter]>) -> Option<String> {
    let shown: Vec<(usize, &Parameter, [f64; 3])> =
        parameters.iter().enumerate().filter_map(|(i, p)| Some((i, p, interval(p)?))).take(DRAWN).collect();
    let drawn = |i: usize| draws.and_then(|d| d.get(i)).and_then(interval);
    let (mut low, mut high) = (0.0f64, 0.0f64);
    for (i, _, [a, _, b]) in &shown {
        (low, high) = (low.min(*a), high.max(*b));
        if let Some([a, _, b]) = drawn(*i) {
            (low, high) = (low.min(a), high.max(b));
        }
    }
    if shown.is_empty() || !(high - low).is_finite() || high <= low {
        return None;
    }
    let margin = 0.04 * (high - low);
    (low, high) = (low - margin, high + margin);
    let place = |x: f64| percent((x - low) / (high - low));
    let ticks = ticks(low, high);
    let mut grid = String::new();
    for t in &ticks {
        let class = if *t == 0.0 { "zero" } else { "grid" };
        let _ = write!(grid, r#"<line class="{class}" x1="{x}" x2="{x}" y1="0" y2="100%"/>"#, x = place(*t));
    }
    let mut out = String::from(
        r#"<div class="forest" role="img" aria-label="Means and 90 % intervals of the coefficients; the table below has the numbers.">"#,
    );
    for (i, parameter, [a, m, b]) in &shown {
        let name = escape(&parameter.name);
        let _ = write!(
            out,
            r#"<div class="line"><span class="name" title="{name}">{name}</span><svg width="100%" height="24" aria-hidden="true">{grid}<line class="interval" x1="{}" x2="{}" y1="12" y2="12"/><circle class="mean" cx="{}" cy="12" r="4"/>"#,
            place(*a),
            place(*b),
            place(*m)
        );
        if let Some([a, m, b]) = drawn(*i) {
            let _ = write!(
                out,
                r#"<line class="draws" x1="{}" x2="{}" y1="19" y2="19"/><circle class="draws" cx="{}" cy="19" r="2.5"/>"#,
                place(a),
                place(b),
                place(m)
            );
        }
        let _ = write!(out, r#"</svg><span class="value">{}</span></div>"#, short(Some(*m)));
    }
    out.push_str(r#"<div class="line"><span></span><svg width="100%" height="20" aria-hidden="true">"#);
    for t in &ticks {
        let label = if *t == 0.0 { "0".into() } else { trim(&short(Some(*t))) };
        let _ = write!(out, r#"<text x="{}" y="15" text-anchor="middle">{label}</text>"#, place(*t));
    }
    out.push_str("</svg><span></span></div></div>");
    Some(out)
}

/// Without the zeros at the end of a decimal fraction.
pub(super) fn trim(number: &str) -> String {
    if number.contains('.') && !number.contains('e') {
        number.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        number.to_string()
    }
}

/// The bound on the gap (if `proved`) or its estimate against time, with a logarithmic axis, and what is said at the
/// `end` in words and as a number; `None` without two points.
pub(super) fn trace(
    points: &[TracePoint],
    seconds: f64,
    end: Option<(String, f64)>,
    goal: Option<f64>,
    proved: bool,
) -> Option<String> {
    let positive = |x: f64| x > 0.0 && x.is_finite();
    let mut bounds: Vec<(f64, f64)> =
        points.iter().filter_map(|p| Some((p.seconds, p.bound.filter(|b| positive(*b))?))).collect();
    let (said, certified) = end.filter(|end| positive(end.1)).unzip();
    let goal = goal.filter(|g| positive(*g));
    if bounds.len() + usize::from(certified.is_some()) < 2 {
        return None;
    }
    let every = bounds.len().div_ceil(POINTS).max(1);
    let last = bounds.len().saturating_sub(1);
    let mut number = 0..;
    bounds.retain(|_| number.next().is_some_and(|k: usize| k.is_multiple_of(every) || k == last));
    let values = || bounds.iter().map(|b| b.1).chain(certified).chain(goal);
    let (low, high) = values().fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
    let bottom = (low.log10() - 0.05).floor();
    let top = (high.log10() + 0.05).ceil().max(bottom + 1.0);
    let right = bounds.iter().map(|b| b.0).fold(seconds, f64::max).max(1e-9);
    let x = |seconds: f64| percent(0.97 * seconds / right);
    let height = |log: f64| ROOM + (HEIGHT - 2.0 * ROOM) * (top - log) / (top - bottom);
    let y = |value: f64| format!("{:.1}", height(value.log10()));
    let what = if proved { "Bound on the gap" } else { "Estimate of the gap" };
    let shown = |x: f64| if proved { figure(x) } else { nearest(x, 2) };
    let mut out = format!(
        r#"<figure class="trace"><div class="axes" role="img" aria-label="{what} against time, from {} to {} nats in {}."><svg width="64" height="{HEIGHT}" aria-hidden="true">"#,
        bounds.first().map_or("nothing".into(), |b| shown(b.1)),
        certified.or(bounds.last().map(|b| b.1)).map_or("nothing".into(), shown),
        time(seconds)
    );
    let step = ((top - bottom) / 6.0).ceil().max(1.0);
    let decades: Vec<f64> =
        (0..=6).map(|k| bottom + f64::from(k) * step).take_while(|d| *d <= top + 1e-9).collect();
    for decade in &decades {
        let at = height(*decade);
        let text = if (-3.0..=3.0).contains(decade) {
            format!("{}", 10f64.powi(*decade as i32))
        } else {
            format!("1e{decade:.0}")
        };
        let _ = write!(out, r#"<text x="56" y="{:.1}" text-anchor="end">{text}</text>"#, at + 4.0);
    }
    let _ = write!(out, r#"</svg><svg width="100%" height="{}" aria-hidden="true">"#, HEIGHT + 22.0);
    for decade in &decades {
        let at = height(*decade);
        let _ = write!(out, r#"<line class="grid" x1="0" x2="100%" y1="{at:.1}" y2="{at:.1}"/>"#);
    }
    // each word on the side of its line where the other line is not
    let certified_is_higher = certified > goal;
    let goal_said = goal.map(|goal| format!("goal {}", figure(goal)));
    for (what, said, value, above) in
        [("goal", goal_said, goal, !certified_is_higher), ("certified", said, certified, certified_is_higher)]
    {
        if let Some((value, said)) = value.zip(said) {
            let at = height(value.log10());
            let text = if above { at - 5.0 } else { at + 14.0 };
            let _ = write!(
                out,
                r#"<line class="{what}" x1="0" x2="100%" y1="{at:.1}" y2="{at:.1}"/><text class="{what}" x="0.5%" y="{text:.1}">{said}</text>"#
            );
        }
    }
    for pair in bounds.windows(2) {
        let _ = write!(
            out,
            r#"<line class="path" x1="{}" y1="{}" x2="{}" y2="{}"/>"#,
            x(pair[0].0),
            y(pair[0].1),
            x(pair[1].0),
            y(pair[1].1)
        );
    }
    if bounds.len() <= 60 {
        for (seconds, value) in &bounds {
            let _ = write!(out, r#"<circle class="mean" cx="{}" cy="{}" r="3.5"/>"#, x(*seconds), y(*value));
        }
    }
    for t in ticks(0.0, right) {
        let anchor = if t == 0.0 { "start" } else { "middle" };
        let text = if t == 0.0 { "0".into() } else { format!("{} s", trim(&short(Some(t)))) };
        let _ =
            write!(out, r#"<text x="{}" y="{}" text-anchor="{anchor}">{text}</text>"#, x(t), HEIGHT + 18.0);
    }
    let _ = write!(
        out,
        "</svg></div><figcaption>{what} (nats, logarithmic) against seconds.</figcaption></figure>"
    );
    Some(out)
}

/// k̂ on its scale.
pub(super) fn k_hat(k: f64) -> String {
    let place = |k: f64| percent(0.02 + 0.96 * (k / 1.2).clamp(0.0, 1.0));
    let mut out = format!(
        r#"<svg class="scale" width="100%" height="46" role="img" aria-label="k-hat is {k:.2}; good below 0.5, usable below 0.7">"#
    );
    for (class, from, to) in [("good", 0.0, 0.5), ("caution", 0.5, 0.7), ("bad", 0.7, 1.2)] {
        let _ = write!(
            out,
            r#"<line class="zone {class}" x1="{}" x2="{}" y1="16" y2="16"/>"#,
            place(from),
            place(to)
        );
    }
    for tick in [0.0, 0.5, 0.7, 1.0] {
        let _ = write!(out, r#"<text x="{}" y="40" text-anchor="middle">{tick}</text>"#, place(tick));
    }
    let _ = write!(out, r#"<circle class="marker" cx="{}" cy="16" r="7"/></svg>"#, place(k));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(-3.0, 5.0), [-2.0, 0.0, 2.0, 4.0]);
        for (low, high) in [(0.0, 1e-9), (-1e6, 3e7), (0.1, 0.13), (-0.26, 2.33)] {
            let ticks = ticks(low, high);
            assert!((2..=6).contains(&ticks.len()), "{low} {high}: {ticks:?}");
            assert!(ticks.iter().all(|t| (low..=high * (1.0 + 1e-9)).contains(t)));
        }
    }

    /// The middle of the axis is drawn in the middle, and a decade is as high as any other.
    #[test]
    fn places_are_right() {
        let text = coefficients(&[Parameter::normal("a", 0.0, 1.0)], None).unwrap();
        assert!(text.contains(r#"<circle class="mean" cx="50.00%""#), "{text}");
        // ±1.645 of a range of 2 · 1.645 · 1.08: from (0.04/1.08) to 1 − that
        assert!(text.contains(r#"x1="3.70%" x2="96.30%" y1="12""#), "{text}");
        let point = |seconds, bound| TracePoint {
            seconds,
            iteration: 0,
            gradients: 0,
            neg_elbo: None,
            bound: Some(bound),
        };
        let text =
            trace(&[point(0.0, 5.0), point(1.0, 0.05), point(2.0, 0.5)], 2.0, None, None, true).unwrap();
        // decades 1 to −2 over 240, 8 below the top: 5 at 8 + 240 (1 − log 5)/3, then 160 lower and 80 back
        let first = 8.0 + 80.0 * (1.0 - 5f64.log10());
        for (x, y) in [("0.00%", first), ("48.50%", first + 160.0), ("97.00%", first + 80.0)] {
            assert!(
                text.contains(&format!(r#"<circle class="mean" cx="{x}" cy="{y:.1}""#)),
                "{x} {y} in {text}"
            );
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_not() {
        assert!(coefficients(&[], None).is_none());
        assert!(coefficients(&[Parameter::normal("a", f64::NAN, 1.0)], None).is_none());
        assert!(coefficients(&[Parameter::normal("a", 0.0, 0.0)], None).is_none());
        assert!(
            coefficients(
                &[Parameter::normal("a", f64::MAX, 1.0), Parameter::normal("b", -f64::MAX, 1.0)],
                None
            )
            .is_none()
        );
        assert!(trace(&[], 1.0, None, Some(0.1), true).is_none());
        let end = || Some(("at most 1.0 nats".to_string(), 1.0));
        let point =
            |seconds, bound| TracePoint { seconds, iteration: 0, gradients: 0, neg_elbo: None, bound };
        assert!(trace(&[point(0.0, None), point(0.0, Some(0.0))], 0.0, end(), None, true).is_none());
        assert!(
            trace(&[point(0.0, Some(1e-300)), point(0.0, Some(1e300))], 0.0, end(), None, false).is_some()
        );
        let many: Vec<_> = (0..10_000).map(|k| point(f64::from(k), Some(1.0 / f64::from(k + 1)))).collect();
        assert!(trace(&many, 1e4, None, None, true).unwrap().len() < 60_000);
    }
}
