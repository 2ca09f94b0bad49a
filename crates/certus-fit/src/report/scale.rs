//! The part of the report on scales that were not given: where their likelihood has a maximum, the posterior, the
//! groups that differ most.

use std::fmt::Write;

use certus::certificate::figure;

use super::html::{capital, count, escape, percent, short};
use super::plots::{ticks, trim};
use crate::record::{CriterionValue, GroupEffect, OtherScale, Parameter, Record, Scale, Table};

/// The height of the picture.
const HEIGHT: f64 = 200.0;
/// Density, relative to its maximum, that is not drawn.
const FAR: f64 = 2e-3;
/// Points between two of the grid.
const BETWEEN: usize = 6;

/// The verdict, as HTML.
pub(super) fn sentences(scale: &Scale, table: Option<&Table>) -> Vec<String> {
    let name = escape(&scale.name);
    let first = format!("{}.", escape(&scale.sentence()));
    let first = if first.starts_with("a maximum") { capital(&first) } else { first };
    let second = match (&scale.prior, table) {
        (Some(prior), Some(table)) => format!(
            "The posterior uses the prior {} for {name}{}. It is estimated by {}: {}.",
            escape(prior),
            priors(scale),
            escape(&table.made),
            escape(&table.errors())
        ),
        (Some(prior), None) => format!(
            "The posterior uses the prior {} for {name}{}. It is estimated: a sum over {} grid points, at each \
                of which the coefficients are taken to be normal.",
            escape(prior),
            priors(scale),
            count(scale.nodes)
        ),
        (None, _) => format!(
            "The parameters are those at the maximum; their standard errors come from the curvature of the {}.",
            escape(&scale.objective)
        ),
    };
    let others = scale.other_maxima().into_iter().map(|line| format!("{}.", escape(&capital(&line))));
    std::iter::once(first).chain(others).chain([second]).collect()
}

/// The boxes below the verdict.
pub(super) fn facts(scale: &Scale, criterion: Option<&CriterionValue>) -> Vec<(&'static str, String)> {
    if let Some(own) = criterion {
        let numbers = [(own.name(), own.value), ("AIC", own.aic), ("BIC", own.bic)];
        let facts = numbers.into_iter().map(|(name, x)| (name, format!("{x:.3}")));
        return facts.chain([("Groups", count(scale.groups))]).collect();
    }
    let proved = if scale.log_likelihood_error.is_some() { " <small>proved</small>" } else { "" };
    let mut facts = vec![
        (
            if scale.is_penalised() {
                "Maximum of the penalised likelihood"
            } else {
                "Maximum of the likelihood"
            },
            format!("{} <small>{}</small>", short(scale.estimate), escape(&scale.name)),
        ),
        ("Log likelihood at the maximum", format!("{}{proved}", scale.likelihood_there())),
    ];
    facts.extend(scale.log_evidence.map(|e| ("Log evidence", format!("{e:.3} <small>estimated</small>"))));
    if scale.groups > 0 {
        facts.push(("Groups", count(scale.groups)));
    }
    facts
}

fn priors(scale: &Scale) -> String {
    let one = |o: &OtherScale| {
        o.prior.as_ref().map_or(String::new(), |p| format!(", {} for {}", escape(p), escape(&o.name)))
    };
    scale.others.iter().map(one).collect()
}

/// What the statements rest on.
pub(super) fn evidence(scale: &Scale) -> Vec<String> {
    let closed = scale.name == "sigma" || scale.others.iter().any(|o| o.name == "sigma");
    let error = match scale.log_likelihood_error {
        Some(error) if closed || scale.groups == 0 => format!(
            "Proved by the model: the likelihood is summed directly{}; the rounding errors are at most {} nats.",
            if scale.groups > 0 { ", groups integrated out in closed form" } else { "" },
            figure(error)
        ),
        Some(error) => format!(
            "Proved by the model: every group's integral is a trapezoid sum of an analytic function; the errors of all \
                {} groups and of rounding sum to at most {} nats.",
            count(scale.groups),
            figure(error)
        ),
        None => "The error of the likelihood is not proved.".into(),
    };
    let grid = scale.refinement.map(|r| {
        format!("Estimated: halving the step of the grid moved no mean by more than {} sd, and no sd by more than {} \
            %.", figure(r), figure(100.0 * r))
    });
    std::iter::once(error).chain(grid).collect()
}

/// The section.
pub(super) fn section(out: &mut String, record: &Record, density: &[(f64, f64)]) {
    let Some(scale) = &record.certificate.scale else { return };
    super::section(out, "scale", "Scales that were not given");
    let own = record.parameters.iter().find(|p| p.name == scale.name);
    if let Some(plot) = own.and_then(|own| plot(density, own, scale.estimate, &scale.objective)) {
        out.push_str(&plot);
    }
    let what = if scale.prior.is_some() { "posterior mean" } else { "estimate" };
    for name in std::iter::once(&scale.name).chain(scale.others.iter().map(|other| &other.name)) {
        let own = record.parameters.iter().find(|p| p.name == *name);
        let Some(Parameter { mean: Some(mean), q05, q95, .. }) = own else { continue };
        let interval = q05.zip(*q95).map_or(String::new(), |(low, high)| {
            format!(", 90 % interval {} to {}", short(Some(low)), short(Some(high)))
        });
        let _ = write!(out, "<p>{}: {what} {}{interval}.</p>", escape(name), short(Some(*mean)));
    }
    if !scale.largest.is_empty() {
        let _ = write!(
            out,
            "<div class=\"scroll\"><table><caption>The smallest and the largest effects among {} groups of {}; \
                groups.parquet, or fit.groups in Python, contains all of them</caption><thead><tr>",
            count(scale.groups),
            escape(scale.group.as_deref().unwrap_or_default())
        );
        for head in ["group", "rows", "mean", "sd", "5 %", "median", "95 %"] {
            let _ = write!(out, "<th scope=\"col\">{head}</th>");
        }
        out.push_str("</tr></thead><tbody>\n");
        scale.smallest.iter().chain(&scale.largest).for_each(|e| row(out, e));
        out.push_str("</tbody></table></div>");
    }
    out.push_str("</section>\n");
}

fn row(out: &mut String, e: &GroupEffect) {
    let _ = write!(out, "<tr><td>{}</td><td>{}</td>", escape(&e.group), count(e.rows));
    for x in [e.mean, e.sd, e.q05, e.q50, e.q95] {
        let _ = write!(out, "<td>{}</td>", short(Some(x)));
    }
    out.push_str("</tr>\n");
}

/// The density of the sd, its 90 % interval, and where the objective has its maximum; `None` if there is nothing to
/// draw.
fn plot(density: &[(f64, f64)], own: &Parameter, estimate: Option<f64>, objective: &str) -> Option<String> {
    let points = smooth(density);
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let shown: Vec<(f64, f64)> = points.into_iter().filter(|p| p.1 > FAR * most).collect();
    let (low, high) = (shown.first()?.0, shown.last()?.0);
    let room = 0.03 * (high - low);
    let (low, high) = ((low - room).max(0.0), high + room);
    let sane = most > 0.0 && most.is_finite() && high > low;
    if !sane {
        return None;
    }
    let x = |sd: f64| percent((sd - low) / (high - low));
    let y = |d: f64| format!("{:.1}", HEIGHT - (HEIGHT - 16.0) * d / most);
    let mut out = format!(
        r#"<figure class="trace"><svg width="100%" height="{}" role="img" aria-label="Posterior density of {}, from {} to {}.">"#,
        HEIGHT + 24.0,
        escape(&own.name),
        short(Some(low)),
        short(Some(high))
    );
    let _ = write!(out, r#"<line class="grid" x1="0" x2="100%" y1="{HEIGHT}" y2="{HEIGHT}"/>"#);
    for pair in shown.windows(2) {
        let [(a, f), (b, g)] = [pair[0], pair[1]];
        let _ =
            write!(out, r#"<line class="path" x1="{}" y1="{}" x2="{}" y2="{}"/>"#, x(a), y(f), x(b), y(g));
    }
    if let Some(at) = estimate.filter(|e| (low..=high).contains(e)) {
        let left = (at - low) / (high - low) > 0.6;
        let (anchor, shift) = if left { ("end", -6) } else { ("start", 6) };
        let _ = write!(
            out,
            r#"<line class="certified" x1="{0}" x2="{0}" y1="0" y2="{HEIGHT}"/><text class="certified" x="{0}" dx="{shift}" y="12" text-anchor="{anchor}">maximum of the {2} {1}</text>"#,
            x(at),
            short(Some(at)),
            escape(objective)
        );
    }
    if let (Some(a), Some(b)) = (own.q05, own.q95) {
        let _ = write!(
            out,
            r#"<line class="interval" x1="{}" x2="{}" y1="{HEIGHT}" y2="{HEIGHT}"/>"#,
            x(a.max(low)),
            x(b.min(high))
        );
    }
    for t in ticks(low, high) {
        let label = if t == 0.0 { "0".into() } else { trim(&short(Some(t))) };
        let _ =
            write!(out, r#"<text x="{}" y="{}" text-anchor="middle">{label}</text>"#, x(t), HEIGHT + 18.0);
    }
    let _ = write!(
        out,
        "</svg><figcaption>Posterior density of {}; the thick line is its 90 % interval.</figcaption></figure>",
        escape(&own.name)
    );
    Some(out)
}

/// Points between those of the grid: cubics through the logarithms (Catmull and Rom).
fn smooth(density: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let legal = |p: &&(f64, f64)| p.0 > 0.0 && p.1 > 0.0 && p.0.is_finite() && p.1.is_finite();
    let logs: Vec<(f64, f64)> = density.iter().filter(legal).map(|p| (p.0.ln(), p.1.ln())).collect();
    let mut out = Vec::new();
    for k in 0..logs.len().saturating_sub(1) {
        let [a, b, c, d] = [k.saturating_sub(1), k, k + 1, (k + 2).min(logs.len() - 1)].map(|k| logs[k].1);
        for j in 0..BETWEEN {
            let t = j as f64 / BETWEEN as f64;
            let cubic =
                b + 0.5 * t * (c - a + t * (2.0 * a - 5.0 * b + 4.0 * c - d + t * (3.0 * (b - c) + d - a)));
            let at = logs[k].0 + t * (logs[k + 1].0 - logs[k].0);
            out.push((at.exp(), cubic.exp()));
        }
    }
    out.extend(logs.last().map(|p| (p.0.exp(), p.1.exp())));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bell in log sd stays one between its points.
    #[test]
    fn densities_are_smooth() {
        let bell = |t: f64| (-0.5 * t * t).exp();
        let grid: Vec<(f64, f64)> =
            (-16..=16).map(|k| 0.35 * f64::from(k)).map(|t| (t.exp(), bell(t))).collect();
        for (sd, d) in smooth(&grid) {
            assert!((d - bell(sd.ln())).abs() < 0.02, "{sd}: {d}");
        }
        let own = Parameter::normal("sd(g)", 1.0, 0.2);
        let with = |density: &[(f64, f64)], at| plot(density, &own, at, "likelihood");
        assert!(with(&grid, Some(1.0)).is_some_and(|p| p.contains("maximum of the likelihood 1.000")));
        assert!(with(&[], None).is_none() && with(&[(1.0, 0.0), (2.0, f64::NAN)], None).is_none());
    }
}
