//! The technical part of the report: what the certificate states, every number, the run, the data, the evidence, and
//! how to check it.

use std::fmt::Write;

use certus::Status;
use certus::certificate::words::{figure, nearest};

use super::html::{count, escape, sentence, short, time};
use super::{Comparison, Extras, paragraphs, plots, scale, section, words};
use crate::record::{Assumption, Record, RecordedLevel};

/// Parameters of the table.
const LISTED: usize = 1000;
/// Lines of the table of the run.
const TRACE_LINES: usize = 30;

/// All of it.
pub(super) fn part(out: &mut String, record: &Record, extras: &Extras) {
    out.push_str("<div class=\"part\"><h2 id=\"technical\">Technical part</h2>");
    out.push_str("<p class=\"small\">For readers who want to check the computation.</p></div>\n");
    facts(out, record);
    scale::section(out, record, &extras.density);
    coefficients(out, record, extras);
    run(out, record);
    posterior(out, record, extras);
    data(out, record, extras);
    evidence(out, record);
    settings(out, record);
    verify(out, record, extras);
    super::proof::part(out, extras);
}

fn facts(out: &mut String, record: &Record) {
    section(out, "certificate", "What is certified");
    if record.status == Status::Reached {
        let _ = write!(out, "<p>{}</p>", words::meaning(&record.status));
        super::trust::message(out, record);
    }
    let (gap, posterior) = (&record.certificate.gap, &record.certificate.posterior);
    if record.certificate.scale.is_none() && record.table.is_some() {
        paragraphs(out, &words::stated(&gap.facts()));
        paragraphs(out, &words::stated(&posterior.facts())[..1]);
    }
    out.push_str("<dl class=\"facts\">");
    let error = record
        .neg_elbo_se
        .filter(|e| *e > 0.0)
        .map_or(String::new(), |e| format!(" <small>± {}</small>", figure(e)));
    let mut facts = match &record.certificate.scale {
        Some(scale) => scale::facts(scale, record.criterion.as_ref()),
        None => vec![
            ("Gap to the best Gaussian", words::fact(&gap.facts())),
            ("KL from the posterior", words::fact(&posterior.facts())),
            (
                "Negative ELBO",
                format!("{}{error}", record.neg_elbo.map_or("–".into(), |f| format!("{f:.3}"))),
            ),
        ],
    };
    facts.push(("Parameters", count(record.parameters.len() as u64)));
    facts.extend(record.data.rows.map(|rows| ("Rows", count(rows))));
    facts.extend(record.k_hat.map(|k| ("k-hat", format!("{k:.2}"))));
    facts.push(("Time", time(record.seconds)));
    for (name, value) in facts {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    out.push_str("</dl>\n</section>\n");
}

fn coefficients(out: &mut String, record: &Record, extras: &Extras) {
    section(out, "coefficients", "Coefficients");
    let all = &record.parameters;
    let draws = extras.draws.as_ref().filter(|d| d.parameters.len() == all.len());
    // beside what is printed, other draws or the Gaussian
    let beside = draws.map(|d| (d.parameters.as_slice(), d.source.as_str()));
    let estimated = record.criterion.is_some();
    let [whole, own] = match record.certificate.scale {
        Some(_) => ["mixture", "the mixture of Gaussians"],
        None => ["Gaussian", "the Gaussian"],
    };
    let own = record.gaussian.as_ref().map(|q| (q.parameters.as_slice(), own));
    let beside = beside.or(own);
    let whose = if record.table.is_some() { "posterior" } else { whole };
    match plots::coefficients(all, beside.map(|(parameters, _)| parameters)) {
        Some(plot) => {
            out.push_str(&plot);
            let what = match estimated {
                true => "estimate and 90 % interval".into(),
                false => format!("mean and 90 % interval of the {whose}"),
            };
            let _ = write!(out, "<p class=\"small\"><span class=\"key\"></span>{what}");
            if let Some((_, source)) = beside {
                let _ = write!(out, "<span class=\"key draws\"></span>{}", escape(source));
            }
            if all.len() > plots::DRAWN {
                let _ = write!(out, ". The first {} of {} are shown", plots::DRAWN, count(all.len() as u64));
            }
            out.push_str(".</p>\n");
        }
        None => {
            out.push_str("<p>There is nothing to plot: no interval is finite and longer than a point.</p>\n")
        }
    }
    let ([mean, sd], what) =
        if estimated { (["estimate", "se"], "Estimates") } else { (["mean", "sd"], "Marginals") };
    let _ = write!(
        out,
        "<div class=\"scroll\"><table class=\"marginals\"><caption>{what}, on the scale of the \
        data</caption><thead><tr>"
    );
    for head in ["name", mean, sd, "5 %", if estimated { "" } else { "median" }, "95 %"] {
        if !head.is_empty() {
            let _ = write!(out, "<th scope=\"col\">{head}</th>");
        }
    }
    out.push_str("</tr></thead><tbody>\n");
    for p in all.iter().take(LISTED) {
        let _ = write!(out, "<tr><td>{}</td>", escape(&p.name));
        let median = (!estimated).then_some(p.q50);
        for number in [Some(p.mean), Some(p.sd), Some(p.q05), median, Some(p.q95)].into_iter().flatten() {
            let _ = write!(out, "<td>{}</td>", short(number));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    if all.len() > LISTED {
        let rest = count((all.len() - LISTED) as u64);
        let _ = write!(out, "<p class=\"small\">{rest} more are in fit.json.</p>");
    }
    out.push_str("</section>\n");
}

fn run(out: &mut String, record: &Record) {
    section(out, "run", "The run");
    let _ = write!(out, "<p>{}</p>", escape(&sentence(&record.route)));
    let goal = record.settings.get("gap").and_then(serde_json::Value::as_f64);
    let gap = &record.certificate.gap;
    let end = gap.facts().size().zip(gap.bound);
    // estimates during the run of a black box may end in a probable bound
    let proved = gap.level == RecordedLevel::Proved;
    match plots::trace(&record.trace, record.seconds, end, goal, proved) {
        Some(plot) => out.push_str(&plot),
        None if record.certificate.scale.is_some() => {}
        None => out.push_str("<p>The run has too few recorded points for a plot.</p>"),
    }
    let c = &record.counts;
    let counted = |n: u64, one: &str, many: &str| format!("{} {}", count(n), if n == 1 { one } else { many });
    let _ = writeln!(
        out,
        "<p class=\"small\">Spent: {}, {}, {} over the data, in {}.</p>",
        counted(c.gradients, "gradient", "gradients"),
        counted(c.hessians, "Hessian", "Hessians"),
        counted(c.exact_passes, "exact pass", "exact passes"),
        time(record.seconds)
    );
    if !record.trace.is_empty() {
        out.push_str(
            "<details><summary>The numbers of the run</summary><div class=\"scroll\"><table><thead><tr>",
        );
        for head in [
            "seconds",
            "iteration",
            "gradients",
            "negative ELBO",
            if proved { "gap at most" } else { "gap, estimated" },
        ] {
            let _ = write!(out, "<th scope=\"col\">{head}</th>");
        }
        out.push_str("</tr></thead><tbody>\n");
        let (every, last) = (record.trace.len().div_ceil(TRACE_LINES), record.trace.len() - 1);
        for (_, p) in record.trace.iter().enumerate().filter(|(k, _)| k.is_multiple_of(every) || *k == last) {
            let _ = writeln!(
                out,
                "<tr><td>{:.3}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                p.seconds,
                count(p.iteration),
                count(p.gradients),
                short(p.neg_elbo),
                p.bound.map_or("–".into(), |b| if proved { figure(b) } else { nearest(b, 2) })
            );
        }
        out.push_str("</tbody></table></div></details>");
    }
    out.push_str("</section>\n");
}

fn posterior(out: &mut String, record: &Record, extras: &Extras) {
    if record.certificate.scale.is_some() {
        let about = if record.criterion.is_some() { "the errors" } else { "the posterior" };
        section(out, "posterior", &format!("What is known about {about}"));
        let reason = record.certificate.posterior.reason.as_deref().unwrap_or_default();
        let _ = write!(out, "<p>{}</p>", escape(&sentence(reason)));
    } else {
        section(out, "posterior", "The Gaussian compared with the posterior");
        paragraphs(out, &words::stated(&record.certificate.posterior.facts()));
    }
    if let Some(k) = record.k_hat {
        let (sentence, _) = words::k_hat(k);
        let _ = write!(out, "<h3>k-hat {k:.2}</h3>{}<p>{sentence}</p>", plots::k_hat(k));
    }
    match extras.draws.as_ref() {
        Some(draws) if draws.parameters.len() == record.parameters.len() => compare(out, record, draws),
        Some(_) => {
            out.push_str("<p>The draws for the comparison have other parameters, so they are left out.</p>")
        }
        None => {}
    }
    out.push_str("</section>\n");
}

fn compare(out: &mut String, record: &Record, draws: &Comparison) {
    let _ = writeln!(
        out,
        "<div class=\"scroll\"><table><caption>Compared with {}</caption><thead><tr><th scope=\"col\">name</th><th \
            scope=\"col\">mean of q</th><th scope=\"col\">mean of draws</th><th scope=\"col\">difference / sd</th><th \
            scope=\"col\">ratio of sds</th></tr></thead><tbody>",
        escape(&draws.source)
    );
    for (q, p) in record.parameters.iter().zip(&draws.parameters).take(plots::DRAWN) {
        let difference = q.mean.zip(p.mean).zip(q.sd).map(|((a, b), sd)| (a - b) / sd);
        let ratio = q.sd.zip(p.sd).map(|(a, b)| a / b);
        let fixed = |x: Option<f64>| x.filter(|x| x.is_finite()).map_or("–".into(), |x| format!("{x:.3}"));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&q.name),
            short(q.mean),
            short(p.mean),
            fixed(difference),
            fixed(ratio)
        );
    }
    out.push_str("</tbody></table></div>");
}

fn data(out: &mut String, record: &Record, extras: &Extras) {
    section(out, "data", "Data");
    let mut pairs = vec![("model".to_string(), record.model.clone())];
    pairs.extend(record.data.rows.map(|rows| ("rows".to_string(), count(rows))));
    pairs.extend(extras.data.iter().cloned());
    pairs.extend(record.data.fingerprint.iter().map(|f| ("fingerprint".to_string(), f.clone())));
    table(out, &pairs);
    out.push_str("</section>\n");
}

fn evidence(out: &mut String, record: &Record) {
    section(out, "evidence", "What the statements rest on");
    let (gap, posterior) = (&record.certificate.gap, &record.certificate.posterior);
    if let Some(scale) = &record.certificate.scale {
        paragraphs(out, &scale::evidence(scale));
        out.push_str("</section>\n");
        return;
    }
    for (what, level, assumptions, constants) in [
        ("Gap to the best Gaussian", gap.level, &gap.assumptions, &gap.constants),
        ("Distance from the posterior", posterior.level, &posterior.assumptions, &posterior.constants),
    ] {
        let _ = write!(out, "<h3>{what}: {}</h3>", level_word(level));
        if level == RecordedLevel::None {
            out.push_str("<p>No statement is made.</p>");
        }
        if !assumptions.is_empty() {
            let line = |a: &Assumption| format!("<li>{}</li>", words::assumption(a));
            let _ = write!(out, "<ul>{}</ul>", assumptions.iter().map(line).collect::<String>());
        }
        if !constants.is_empty() {
            let pairs: Vec<_> = constants.iter().map(|(name, value)| (name.clone(), short(*value))).collect();
            table(out, &pairs);
        }
    }
    out.push_str("</section>\n");
}

fn settings(out: &mut String, record: &Record) {
    section(out, "settings", "Settings and versions");
    let text = serde_json::to_string_pretty(&record.settings).unwrap_or_default();
    let _ = write!(out, "<pre>{}</pre>", escape(&text));
    let mut pairs = vec![("seed".to_string(), record.seed.to_string())];
    pairs.extend(record.versions.iter().map(|(name, version)| (name.clone(), version.clone())));
    table(out, &pairs);
    out.push_str("</section>\n");
}

fn verify(out: &mut String, record: &Record, extras: &Extras) {
    section(out, "verify", "How to check this");
    let directory = escape(extras.directory.as_deref().unwrap_or("DIR"));
    if record.certificate.scale.is_some() {
        let _ = write!(
            out,
            "<p>The likelihood and everything that is stated of it can be recomputed from the data, by the code of \
                the fit:</p><pre>certus verify {directory} --data FILE</pre>"
        );
    } else if matches!(record.certificate.gap.level, RecordedLevel::Proved) {
        let _ = write!(
            out,
            "<p>All of this can be checked against the data: the bound on the gap of a model without groups by a \
                checker that shares only the formulas of the likelihood with the fit and computes with twice as many \
                digits, the rest by computing it again:</p><pre>certus verify {directory} --data FILE</pre>"
        );
    } else {
        out.push_str("<p>No bound on the gap is proved here, so there is no proof to check.</p>");
    }
    out.push_str(
        "<p>The same data, settings, seed and program give the same numbers to the bit, for any number of \
        threads. The data are those of this fit if their fingerprint is the one above. ",
    );
    out.push_str(
        "fit.json next to this file contains every number in full; arrays.safetensors contains the \
            arrays.</p></section>\n",
    );
}

fn table(out: &mut String, pairs: &[(String, String)]) {
    out.push_str("<table class=\"pairs\"><tbody>");
    for (name, value) in pairs {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escape(name), escape(value));
    }
    out.push_str("</tbody></table>\n");
}

fn level_word(level: RecordedLevel) -> &'static str {
    match level {
        RecordedLevel::Proved => "proved",
        RecordedLevel::Probable => "probable",
        RecordedLevel::Estimated => "estimated",
        RecordedLevel::None => "none",
    }
}
