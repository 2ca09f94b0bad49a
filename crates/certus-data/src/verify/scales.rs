//! A fit whose scales were not all given: its stored interval, likelihood and weights by the model at the stored numbers, the rest by the same run again.

use std::ops::ControlFlow;

use certus::fit::Status;
use certus_models::Error;
use certus_models::collapsed::Excluded;
use certus_store::record::{Level, Scale, objective};
use certus_store::{Arrays, Record};

use super::leaves::Rules;
use super::{Line, Own, Recipe, Report, Stored, Word};
use crate::mixed::Mixed;
use crate::scales::Scales;
use crate::varying::Varying;

/// Differences between weights that the last step at a node, taken on trust, may leave.
const WEIGHT: f64 = 1e-3;

/// The run again, and the stored claims at the stored numbers.
pub(super) fn own(recipe: &Recipe<'_>, stored: &Stored) -> Result<Own, Error> {
    let Some(varying) = recipe.problem.collapsed() else {
        return Err(Error::Model("every scale is given".into()));
    };
    let record = &stored.record;
    let mut path_dependent = Vec::new();
    // a run that was stopped is stopped again at the same stage
    let stage = match record.status {
        Status::Limit | Status::Interrupted if record.message.contains("; stopped before the posterior") => {
            Some(Varying::POSTERIOR)
        }
        Status::Limit | Status::Interrupted if record.message.contains("; stopped before the effects") => {
            Some(Varying::EFFECTS)
        }
        _ => None,
    };
    let goal = certus::Goal { max_time: None, ..recipe.goal.clone() };
    let mut ended =
        recipe.problem.run_collapsed(&goal, &recipe.way, recipe.asked, &mut |progress| match stage {
            Some(stage) if progress.words.starts_with(stage) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })?;
    if stage.is_some() && ended.outcome.status == Status::Interrupted {
        ended.outcome.status = record.status.clone();
        path_dependent.push(("status", "what stopped the run"));
    }
    let mut own = Record::new(&ended.outcome, (recipe.meta)(&ended.outcome, ended.parameters.clone()));
    own.certificate.scale = Some(ended.scale.clone());
    let mut report = Report::default();
    claims(recipe, varying, stored, &mut report)?;
    Ok(Own {
        versions: own.versions.clone(),
        record: serde_json::to_value(&own).expect("a record has only text keys"),
        arrays: Some(Arrays { gaussian: ended.outcome.gaussian.clone(), vectors: ended.mixed.vectors() }),
        fresh: None,
        lines: report.lines,
        refuted: report.refuted,
        path_dependent,
    })
}

/// The arrays are those of the run.
pub(super) fn arrays(own: &Arrays, stored: &Arrays, rules: &Rules, report: &mut Report) {
    let before = report.refuted.len();
    let mut compare = |name: &str, there: &[f64], own: &[f64]| {
        let largest = own.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        // rules that allow for other rounding do so in units of the whole vector
        let differs =
            |(a, b): (&f64, &f64)| !rules.near(*a, *b) && (a - b).abs() > 100.0 * rules.absolute * largest;
        let words = match there.iter().zip(own).position(differs) {
            Some(k) => format!("entry {k} is {}, but computed again it is {}", there[k], own[k]),
            None if there.len() != own.len() => {
                format!("there are {} entries, but {} are required", there.len(), own.len())
            }
            None => return,
        };
        report.refuted.push(format!("{name} in the arrays: {words}"));
    };
    compare("mean", stored.gaussian.mean(), own.gaussian.mean());
    compare("factor", stored.gaussian.factor().values(), own.gaussian.factor().values());
    let none = Vec::new();
    for (name, values) in &own.vectors {
        compare(name, stored.vectors.get(name).unwrap_or(&none), values);
    }
    for (name, values) in stored.vectors.iter().filter(|(name, _)| !own.vectors.contains_key(*name)) {
        compare(name, values, &none);
    }
    if report.refuted.len() == before {
        let count = own.vectors.len() + 2;
        report.line(Word::Recomputed, format!("arrays: all {count}, by the same run again"));
    }
}

/// What is claimed of the scales, at the stored numbers.
fn claims(recipe: &Recipe<'_>, varying: &Varying, stored: &Stored, report: &mut Report) -> Result<(), Error> {
    let refute = |report: &mut Report, words: String| {
        report.refuted.push(words);
        Ok(())
    };
    let (count, dim) = (varying.varies.scales.len(), recipe.problem.meaning.dim());
    let mixed = match Mixed::of_vectors(dim, count, &stored.arrays.vectors) {
        Some(Ok(mixed)) => mixed,
        Some(Err(words)) => return refute(report, words),
        None => return refute(report, "the arrays have no grid of scales".into()),
    };
    let Some(scale) = &stored.record.certificate.scale else {
        return refute(report, "a scale was not given, but fit.json has no certificate.scale".into());
    };
    let named: Vec<(&str, Option<f64>)> = std::iter::once((scale.name.as_str(), scale.estimate))
        .chain(scale.others.iter().map(|o| (o.name.as_str(), o.estimate)))
        .collect();
    if !varying.varies.scales.iter().map(|own| own.name.as_str()).eq(named.iter().map(|s| s.0)) {
        let words = format!(
            "certificate.scale speaks of {}, but what was not given is {}",
            scale.names(),
            varying.varies.names()
        );
        return refute(report, words);
    }
    let mut estimates = Vec::new();
    for (own, (name, estimate)) in varying.varies.scales.iter().zip(named) {
        match estimate.filter(|e| *e >= 0.0 && e.is_finite()) {
            Some(estimate) => estimates.push(estimate / own.unit),
            None => return refute(report, format!("certificate.scale has no estimate of {name}")),
        }
    }
    interval(varying, &mixed, scale, &estimates, report)?;
    maxima(varying, &mixed, scale, &estimates, report)?;
    if scale.scales == "posterior" {
        let differ = varying.model.weights_differ(&mixed, &varying.priors)?;
        if differ.is_nan() || differ > WEIGHT {
            let words = format!(
                "the weights of the grid differ by {differ:.1e} from those that follow from the data"
            );
            return refute(report, words);
        }
        report.line(
            Word::Recomputed,
            format!("the weights of the {} nodes of the grid, by the code of the fit", mixed.nodes.len()),
        );
    } else if varying.scales == Scales::Posterior {
        report.line(Word::NotChecked, "the posterior of the scales: the run was stopped before it was known");
    }
    Ok(())
}

/// The likelihood at the ends of the interval, and at the estimate between them.
fn interval(
    varying: &Varying,
    mixed: &Mixed,
    scale: &Scale,
    at: &[f64],
    report: &mut Report,
) -> Result<(), Error> {
    // the node nearest to the estimate has coefficients to begin with
    let away = |k: &usize| mixed.scales[*k].iter().zip(at).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let nearest = (0..mixed.nodes.len()).min_by(|a, b| away(a).total_cmp(&away(b))).unwrap_or(0);
    let start = &mixed.nodes[nearest];
    let ends = match (scale.level, scale.interval) {
        (Level::Proved, Some(ends)) => Some(ends.map(|e| e / varying.varies.scales[0].unit)),
        _ => None,
    };
    let (found, proved) = (varying.model.confirm(&start.mean, at, ends)?, ends.is_some());
    let claimed = scale.log_likelihood.unwrap_or(f64::NAN);
    let allowed =
        1e-8 * (1.0 + found.log_likelihood.abs()) + if found.error.is_finite() { found.error } else { 0.0 };
    let close = (claimed - found.log_likelihood).abs() <= allowed;
    if close {
        let words = format!("log likelihood at the estimate: {claimed:.6}, by the code of the fit");
        report.line(Word::Recomputed, words);
    } else {
        report.refuted.push(format!(
            "the log likelihood at the estimate is {claimed} in fit.json, but computed again {}",
            found.log_likelihood
        ));
    }
    if !proved {
        report.lines.push(Line {
            word: Word::Recomputed,
            what: "nothing is claimed to be proved of where the maximum is".into(),
        });
        return Ok(());
    }
    let ([low, high], stated) = (scale.interval.unwrap_or_default(), &scale.objective);
    if found.margins.iter().all(|m| *m > 0.0) {
        let words = format!(
            "a maximum of the {stated} lies between {}: from the data at the stored ends, by the code of the fit",
            scale.ends().map_or(String::new(), |(low, high)| format!("{low} and {high}"))
        );
        report.line(Word::Recomputed, words);
    } else {
        report.refuted.push(format!(
            "a maximum of the {stated} is claimed between {low} and {high}, but there the profile is above its ends by {:.1e} and {:.1e} nats only, every error counted",
            found.margins[0], found.margins[1]
        ));
    }
    Ok(())
}

/// What is said of other maxima: the objective at each of them, and the ranges in which others are not excluded.
fn maxima(
    varying: &Varying,
    mixed: &Mixed,
    scale: &Scale,
    at: &[f64],
    report: &mut Report,
) -> Result<(), Error> {
    let (start, before) = (&mixed.nodes[0].mean, report.refuted.len());
    if scale.objective != objective(varying.penalised) {
        report.refuted.push(format!(
            "the objective is the {} in fit.json, but with these priors it is the {}",
            scale.objective,
            objective(varying.penalised)
        ));
    }
    for own in &scale.maxima {
        let units = varying.varies.scales.iter().map(|s| s.unit);
        let scales: Vec<f64> =
            std::iter::once(&own.estimate).chain(&own.others).zip(units).map(|(s, u)| s / u).collect();
        if scales.len() != at.len() {
            report.refuted.push(format!("a maximum has {} scales, but there are {}", scales.len(), at.len()));
            continue;
        }
        let found = varying.model.confirm(start, &scales, None)?;
        for (claimed, computed) in
            [(own.log_likelihood, found.log_likelihood), (own.log_objective, -found.value)]
        {
            let allowed =
                1e-6 * (1.0 + computed.abs()) + if found.error.is_finite() { found.error } else { 0.0 };
            let off = (claimed - computed).abs();
            if off.is_nan() || off > allowed {
                report.refuted.push(format!(
                    "at the maximum {} fit.json has {claimed}, but computed again it is {computed}",
                    own.estimate
                ));
            }
        }
    }
    if scale.maxima.len() > 1 && report.refuted.len() == before {
        let words =
            format!("the {} at {} maxima, by the code of the fit", scale.objective, scale.maxima.len());
        report.line(Word::Recomputed, words);
    }
    let unit = varying.varies.scales[0].unit;
    if let (Some(stated), Some(searched)) = (&scale.not_excluded, scale.searched) {
        let open = stated.iter().map(|part| part.map(|s| s / unit)).collect();
        let claim = Excluded { searched: searched.map(|s| s / unit), open, proved: Ok(()) };
        if varying.model.confirm_excluded(start, at, &claim)? {
            report.line(Word::Recomputed, "where other maxima are excluded, by the code of the fit");
        } else {
            let words =
                "other maxima are excluded in fit.json where they are not excluded when it is computed again";
            report.refuted.push(words.into());
        }
    }
    Ok(())
}
