//! `certus effects`: answers to questions about the expected response.

use std::path::Path;

use certus::certificate::words::probability;
use certus::certificate::{counted, figure};
use certus_fit::record::number;
use certus_fit::{Certifying, Fit, MarginalEffect, MarginalEffects, Question};

use crate::exit::{Code, Failure, note, print, print_data, print_json};
use crate::request::{Stoppable, open, open_new, path};
use crate::results::opened;
use crate::table::aligned;
use crate::verify::{listen, reread};

/// What the arguments ask.
pub fn question(
    contrasts: &[String],
    slopes: Vec<String>,
    held: &[String],
    interval: Option<f64>,
    linear_predictor: bool,
) -> Result<Question, Failure> {
    let contrasts = contrasts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let held = held.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    Ok(Question { contrasts, slopes, held, interval, linear_predictor })
}

/// `certus effects DIR`.
pub fn effects(
    dir: &Path,
    asked: &Question,
    data: Option<&Path>,
    call: u32,
    format: &str,
) -> Result<Code, Failure> {
    let fit = Fit::read(&opened(dir)?)?;
    // a black box has no rows
    fit.meaning()?;
    let settings = crate::results::settings(&fit.record)?;
    let source = match data {
        Some(data) => open_new(data, &settings)?,
        None => open(path(&settings)?, &settings).map_err(crate::fit::moved)?,
    };
    // the model is read again, for errors that hold; its data may have moved to those that are given
    let again =
        |data: Option<&Path>| reread(dir, data, "certus effects DIR").map(|(_, problem)| Some(problem));
    let reread = match fit.certifies_effects() {
        true => again(None)
            .or_else(|failure| data.map_or(Err(()), |_| again(data).map_err(|_| ())).map_err(|()| failure)),
        false => Ok(None),
    };
    let problem = reread.unwrap_or_else(|failure| {
        note(&format!("errors are not certified: {}", failure.message));
        None
    });
    let goal = settings.goal()?;
    let certifying = problem.as_ref().map(|problem| Certifying::new(problem, &goal, call)).transpose()?;
    let signals = listen("nothing was printed")?;
    let source = Stoppable { source, signals: &signals };
    signals.doing("averaging over the rows");
    let found = fit
        .effects(&source, asked, certifying)
        .map_err(|e| if source.stopped() { signals.end() } else { e.into() })?;
    if let Some(why) = &found.declined {
        note(&format!("errors are not certified: {why}"));
    }
    match format {
        "csv" => print_data(&csv(&found)),
        "markdown" => print(&markdown(&found)),
        "json" => print_json(&format!(
            "{}\n",
            serde_json::to_string_pretty(&found).expect("answers are plain values")
        )),
        _ => print(&table(&found)),
    }?;
    Ok(Code::Reached)
}

/// Names and cells; columns that no row fills are left out.
fn cells(found: &MarginalEffects) -> Vec<Vec<String>> {
    // as people write them: 2.5 and 97.5
    let percent = |p: f64| format!("{} %", (p * 1e6).round() / 1e4);
    let tail = 0.5 * (1.0 - found.interval);
    let (low, high) = (percent(tail), percent(1.0 - tail));
    let head = ["", "at", "estimate", "error", "sd", &low, &high, "error of ends", "P(above)"];
    let head = head.map(String::from).to_vec();
    let row = |r: &MarginalEffect| {
        // five digits of the estimate are printed
        let printed = |error: Option<f64>, of: f64| {
            error.map_or(String::new(), |error| format!("± {}", figure(error + 5e-5 * of.abs())))
        };
        let error = printed(r.error, r.estimate);
        let ends = printed(r.interval_error, r.conf_low.abs().max(r.conf_high.abs()));
        let numbers = [r.std_error, r.conf_low, r.conf_high].map(|x| number(Some(x)));
        let above = r.above.map_or(String::new(), |p| match p {
            p if p > 0.9995 => "> 0.999".into(),
            p if p < 0.0005 => "< 0.001".into(),
            p => format!("{p:.3}"),
        });
        let first = [r.term.clone(), r.at.clone(), number(Some(r.estimate)), error];
        first.into_iter().chain(numbers).chain([ends, above]).collect()
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(found.rows.iter().map(row)).collect();
    let used = |c: &usize| rows[1..].iter().any(|r| !r[*c].is_empty());
    let used: Vec<usize> = (0..9).filter(used).collect();
    rows.iter().map(|row| used.iter().map(|c| row[*c].clone()).collect()).collect()
}

/// What the numbers are, in a sentence or two.
fn words(found: &MarginalEffects) -> String {
    let groups = if found.population { "; an average over the population of groups" } else { "" };
    let error = found.monte_carlo_error.map_or(String::new(), |error| {
        format!(", Monte Carlo error of an estimate about {} sd", figure(error))
    });
    let certified = found.theorem.as_ref().map_or(String::new(), |theorem| {
        let sure = match found.delta {
            Some(delta) => {
                // two digits of δ, rounded up
                let unit = 10f64.powf(delta.log10().floor() - 1.0);
                format!("all of them with probability {}", probability((delta / unit).ceil() * unit))
            }
            None => "proved".into(),
        };
        format!(
            "the posterior mean is within the error of the estimate, and the posterior quantiles within the error of \
             ends of the interval's ends, wherever one is stated ({sure}, {theorem})\n"
        )
    });
    let above = match found.rows.iter().any(|r| r.above.is_some()) {
        true => "P(above): the probability that a difference or slope is above 0, a ratio above 1\n",
        false => "",
    };
    format!(
        "averaged over {}{groups}\n{certified}{}estimated from {} of {}{error}\n{above}",
        counted(found.averaged, "row"),
        if found.theorem.is_some() { "everything else is " } else { "" },
        counted(found.draws, "draw"),
        found.source
    )
}

fn table(found: &MarginalEffects) -> String {
    format!("{}\n{}", aligned(&cells(found)), words(found))
}

fn markdown(found: &MarginalEffects) -> String {
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rows = cells(found);
    let rule = vec!["---".to_string(); rows[0].len()];
    let all = std::iter::once(&rows[0]).chain([&rule]).chain(&rows[1..]);
    format!("{}\n{}", all.map(line).collect::<String>(), words(found))
}

/// Tidy columns, in the names of the R package broom.
fn csv(found: &MarginalEffects) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out =
        String::from("term,at,estimate,std_error,conf_low,conf_high,p_above,error,interval_error\n");
    for r in &found.rows {
        let [above, error, ends] =
            [r.above, r.error, r.interval_error].map(|x| x.map_or(String::new(), |x| x.to_string()));
        out.push_str(&format!(
            "{},{},{},{},{},{},{above},{error},{ends}\n",
            quoted(&r.term),
            quoted(&r.at),
            r.estimate,
            r.std_error,
            r.conf_low,
            r.conf_high
        ));
    }
    out
}
