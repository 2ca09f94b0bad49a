//! The answer: estimates with their intervals in the units of the data, and a sentence for every predictor of which one
//! can be said truthfully.

use std::fmt::Write;

use certus_data::Encoding;
use certus_likelihood::{Link, Response, Values};

use super::html::{count, escape, number};
use super::sentences::sentences;
use super::{Extras, section};
use crate::record::{Parameter, Record};

/// Lines of the table.
const LISTED: usize = 30;
/// Beginnings of the names of parameters that are no coefficients and concern all rows.
const SCALES: [&str; 5] = ["sd(", "cor(", "sigma", "icc(", "dispersion"];

/// The section.
pub(super) fn part(out: &mut String, record: &Record, extras: &Extras) {
    section(out, "answer", "The answer");
    let chosen = chosen(&record.parameters, extras.encoding.as_ref());
    let response = record.model.parse::<Response>().ok().filter(|_| extras.encoding.is_some());
    let factor = match response.map(|response| (response.link(), response.values())) {
        Some((Link::Logit, _)) => Some(["odds ×", "odds"]),
        Some((Link::Log, Values::Counts)) => Some(["count ×", "expected count"]),
        Some((Link::Log, _)) => Some(["mean ×", "mean"]),
        Some((Link::Identity | Link::Probit, _)) | None => None,
    };
    if let Some(encoding) = &extras.encoding {
        sentences(out, record, encoding);
    }
    if chosen.is_empty() {
        out.push_str("<p>There are no numbers: the fit has no result.</p></section>\n");
        return;
    }
    let whose = match (&record.criterion, &record.table, &record.certificate.scale) {
        (Some(criterion), ..) => criterion.kind.to_string(),
        (None, None, None) => "means of the normal approximation".into(),
        _ => "posterior means".into(),
    };
    let _ = write!(
        out,
        "<div class=\"scroll\"><table class=\"answer\"><caption>Estimates ({whose}) in the units of the data, and \
         the ends of intervals that contain the true value with probability 0.9, if the model is right.",
    );
    if let Some([_, what]) = factor {
        let _ = write!(out, " The last column is what one more unit multiplies the {what} by (the median).");
    }
    out.push_str("</caption><thead><tr><th scope=\"col\">parameter</th>");
    for head in ["estimate", "from", "to"].into_iter().chain(factor.map(|[head, _]| head)) {
        let _ = write!(out, "<th scope=\"col\">{head}</th>");
    }
    out.push_str("</tr></thead><tbody>\n");
    for p in chosen.iter().take(LISTED) {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&p.name));
        [p.mean, p.q05, p.q95].iter().for_each(|x| {
            let _ = write!(out, "<td>{}</td>", x.map_or("–".into(), number));
        });
        if factor.is_some() {
            let _ = write!(out, "<td>{}</td>", multiplied(p, extras.encoding.as_ref()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    let more = record.parameters.len().saturating_sub(chosen.len().min(LISTED));
    if more > 0 {
        let words = if more == 1 { "parameter is" } else { "parameters are" };
        let _ = write!(
            out,
            "<p class=\"small\">{} more {words} in the technical part or in fit.json.</p>",
            count(more as u64)
        );
    }
    out.push_str("</section>\n");
}

/// Coefficients of all rows and scales; without names of columns, all parameters.
fn chosen<'a>(parameters: &'a [Parameter], encoding: Option<&Encoding>) -> Vec<&'a Parameter> {
    let Some(encoding) = encoding else { return parameters.iter().collect() };
    let coefficients = encoding.coefficients();
    let own = |p: &&Parameter| coefficients.contains(&p.name) || SCALES.iter().any(|s| p.name.starts_with(s));
    parameters.iter().filter(own).collect()
}

/// The exponential of a coefficient's median, a dash for what is none.
fn multiplied(p: &Parameter, encoding: Option<&Encoding>) -> String {
    let slope = encoding.is_some_and(|e| e.features.iter().any(|f| f.name == p.name));
    match p.q50.or(p.mean).filter(|_| slope).map(f64::exp) {
        Some(x) if x.is_finite() && x > 0.0 => number(x),
        _ => "–".into(),
    }
}
