//! Axes with curves, bands and points, as SVG that follows the width of the page: what may be stretched is in a picture
//! of its own, points and text are placed by percentages and keep their size.

use std::fmt::Write;

use super::html::{escape, percent, short};
use super::plots::{ticks, trim};

/// The height of a picture, and the room above and below its axis.
const HEIGHT: f64 = 200.0;
const ROOM: f64 = 8.0;
/// The width that is stretched.
const WIDTH: f64 = 1000.0;

/// A picture in the making.
pub(super) struct Axes {
    x: [f64; 2],
    y: [f64; 2],
    stretched: String,
    placed: String,
    /// Places on the horizontal axis and their words, where they are not round numbers.
    named: Option<Vec<(f64, String)>>,
}

/// The least and the greatest of some numbers with a little room; `None` if there is no finite range.
pub(super) fn range(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    let size = high - low;
    match size {
        s if !s.is_finite() || s < 0.0 => None,
        0.0 => {
            let room = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
            Some([low - room, high + room])
        }
        s => Some([low - 0.04 * s, high + 0.04 * s]),
    }
}

/// A tick as it is written.
pub(super) fn tick(t: f64) -> String {
    if t == 0.0 { "0".into() } else { trim(&short(Some(t))) }
}

impl Axes {
    /// With these ranges.
    pub(super) fn new(x: [f64; 2], y: [f64; 2]) -> Self {
        Self { x, y, stretched: String::new(), placed: String::new(), named: None }
    }

    /// With words at places of the horizontal axis.
    pub(super) fn named(mut self, places: Vec<(f64, String)>) -> Self {
        self.named = Some(places);
        self
    }

    fn across(&self, x: f64) -> f64 {
        0.02 + 0.96 * (x - self.x[0]) / (self.x[1] - self.x[0])
    }

    fn up(&self, y: f64) -> f64 {
        ROOM + (HEIGHT - 2.0 * ROOM) * (self.y[1] - y) / (self.y[1] - self.y[0])
    }

    fn points(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let one = |(x, y): (f64, f64)| format!("{:.1},{:.1}", WIDTH * self.across(x), self.up(y));
        points.filter(|(x, y)| x.is_finite() && y.is_finite()).map(one).collect::<Vec<_>>().join(" ")
    }

    /// Between two curves: places, lower and upper ends.
    pub(super) fn band(&mut self, points: &[[f64; 3]]) {
        let there = points.iter().map(|[x, low, _]| (*x, *low));
        let back = points.iter().rev().map(|[x, _, high]| (*x, *high));
        let all = self.points(there.chain(back));
        let _ = write!(self.stretched, r#"<polygon class="band" points="{all}"/>"#);
    }

    /// A curve.
    pub(super) fn curve(&mut self, points: &[[f64; 2]], class: &str) {
        let all = self.points(points.iter().map(|[x, y]| (*x, *y)));
        let _ = write!(
            self.stretched,
            r#"<polyline class="{class}" fill="none" vector-effect="non-scaling-stroke" points="{all}"/>"#
        );
    }

    /// A box that stands on 0.
    pub(super) fn bar(&mut self, x: [f64; 2], y: f64) {
        let (left, right, top, foot) = (self.across(x[0]), self.across(x[1]), self.up(y), self.up(0.0));
        let _ = write!(
            self.stretched,
            r#"<rect class="bar" x="{:.1}" y="{top:.1}" width="{:.1}" height="{:.1}"/>"#,
            WIDTH * left,
            WIDTH * (right - left),
            (foot - top).max(0.0)
        );
    }

    /// A point.
    pub(super) fn point(&mut self, x: f64, y: f64, radius: f64, class: &str) {
        if !(x.is_finite() && y.is_finite()) {
            return;
        }
        let (x, y) = (percent(self.across(x)), self.up(y));
        let _ = write!(self.placed, r#"<circle class="{class}" cx="{x}" cy="{y:.1}" r="{radius}"/>"#);
    }

    /// An interval.
    pub(super) fn whisker(&mut self, x: f64, low: f64, high: f64) {
        if ![x, low, high].iter().all(|x| x.is_finite()) {
            return;
        }
        let (x, low, high) = (percent(self.across(x)), self.up(low), self.up(high));
        let _ =
            write!(self.placed, r#"<line class="whisker" x1="{x}" x2="{x}" y1="{low:.1}" y2="{high:.1}"/>"#);
    }

    /// The picture, with what its axes are; `caption` is HTML.
    pub(super) fn figure(self, [across, up]: [&str; 2], says: &str, caption: &str) -> String {
        let mut out = format!(
            r#"<figure class="plot"><p class="axis">{}</p><div class="axes" role="img" aria-label="{}"><svg width="52" height="{HEIGHT}" aria-hidden="true">"#,
            escape(up),
            escape(says)
        );
        let levels = ticks(self.y[0], self.y[1]);
        for t in &levels {
            let _ = write!(
                out,
                r#"<text x="46" y="{:.1}" text-anchor="end">{}</text>"#,
                self.up(*t) + 4.0,
                tick(*t)
            );
        }
        let _ = write!(out, r#"</svg><svg width="100%" height="{}" aria-hidden="true">"#, HEIGHT + 22.0);
        for t in &levels {
            let y = self.up(*t);
            let _ = write!(out, r#"<line class="grid" x1="0" x2="100%" y1="{y:.1}" y2="{y:.1}"/>"#);
        }
        let _ = write!(
            out,
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" height="{HEIGHT}" preserveAspectRatio="none">{}</svg>{}"#,
            self.stretched, self.placed
        );
        let round = || ticks(self.x[0], self.x[1]).into_iter().map(|t| (t, tick(t))).collect();
        for (x, words) in self.named.clone().unwrap_or_else(round) {
            let _ = write!(
                out,
                r#"<text x="{}" y="{}" text-anchor="middle">{}</text>"#,
                percent(self.across(x)),
                HEIGHT + 18.0,
                escape(&words)
            );
        }
        let _ = writeln!(
            out,
            "</svg></div><p class=\"axis across\">{}</p><figcaption>{caption}</figcaption></figure>",
            escape(across)
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The middle is in the middle: 50 % of the width, 100 of 200.
    #[test]
    fn places_are_right() {
        let mut axes = Axes::new([0.0, 10.0], [-1.0, 1.0]);
        axes.point(5.0, 0.0, 3.0, "dot");
        axes.band(&[[0.0, -1.0, 1.0], [10.0, -1.0, 1.0]]);
        axes.bar([0.0, 10.0], 1.0);
        let out = axes.figure(["x", "<y>"], "a \"picture\"", "");
        assert!(out.contains(r#"<circle class="dot" cx="50.00%" cy="100.0" r="3"/>"#), "{out}");
        assert!(out.contains(r#"points="20.0,192.0 980.0,192.0 980.0,8.0 20.0,8.0""#), "{out}");
        assert!(out.contains(r#"<rect class="bar" x="20.0" y="8.0" width="960.0" height="92.0"/>"#), "{out}");
        assert!(out.contains("&lt;y&gt;") && out.contains("a &quot;picture&quot;"));
    }

    #[test]
    fn ranges_have_room() {
        assert_eq!(range([0.0, 100.0].into_iter()), Some([-4.0, 104.0]));
        assert_eq!(
            (range([0.0].into_iter()), range([10.0].into_iter())),
            (Some([-1.0, 1.0]), Some([9.0, 11.0]))
        );
        assert_eq!((range([].into_iter()), range([0.0, f64::INFINITY].into_iter())), (None, None));
        assert_eq!((tick(0.0), tick(0.25), tick(-1e-7)), ("0".into(), "0.25".into(), "-1.000e-7".into()));
    }
}
