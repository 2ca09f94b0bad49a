//! A fit whose scales were not all given: its stored interval, likelihood and weights by the model at the stored
//! numbers, the rest by repeating the run.

use std::ops::ControlFlow;

use crate::record::{RecordedLevel, Scale};
use crate::{Arrays, Record};
use certus::certificate::Posterior;
use certus::certificate::words::{downward, upward};
use certus::fit::Status;
use certus_mixed::Stage;
use certus_mixed::collapsed::Excluded;
use certus_models::Error;
use certus_models::error::InvalidModel;
use certus_models::proof::counts_rounding;

use super::leaves::Rules;
use super::{CERTIFICATE, Line, Own, Recipe, Report, Stored, Word};
use crate::posterior::UNFINISHED;
use crate::posterior_draws::DRAWS;
use crate::progress::RunProgress;
use crate::proof::sd::{self, StatedSd};
use crate::proof::variances;
use crate::run::RunOutcome;
use crate::variance::mixture::MixturePosterior;
use crate::variance::model::ScaleModel;
use crate::variance::request::Scales;

/// The share of the claimed widths that is proved again: the exporter claims four times what it proves, for checkers
/// that round otherwise.
const PROVED: f64 = 0.4;
/// Differences between weights that the last step at a node, taken on trust, may leave.
const WEIGHT: f64 = 1e-3;

/// The run again, and the stored claims at the stored numbers.
pub(super) fn own(recipe: &Recipe<'_>, stored: &Stored) -> Result<Own, Error> {
    let Some(scale_model) = recipe.problem.collapsed() else {
        let (what, required) = ("a check of scales", "a scale that is not given");
        return Err(InvalidModel::Requires { what, required }.into());
    };
    let record = &stored.record;
    let mut path_dependent = Vec::new();
    // a run that was stopped is stopped again at the same stage
    let stage = match record.status {
        Status::Limit | Status::Interrupted if record.message.contains("; stopped before the posterior") => {
            Some(Stage::Posterior)
        }
        Status::Limit | Status::Interrupted if record.message.contains("; stopped before the effects") => {
            Some(Stage::Effects)
        }
        _ => None,
    };
    let goal = certus::Goal { max_time: None, ..recipe.goal.clone() };
    let stop = &mut |progress: &RunProgress, _: &dyn Fn() -> Vec<u8>| match &progress.scales {
        Some((now, _)) if Some(*now) == stage => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let (outcome, ended) = recipe.problem.run_scales(&goal, &recipe.choice, recipe.asked, None, stop)?;
    let mut ended = RunOutcome { outcome, scales: Some(ended), table: None };
    let stated = record.certificate.posterior.reason.as_deref();
    if let Some(reason) = stated.filter(|reason| reason.ends_with(UNFINISHED)) {
        path_dependent.push(("certificate.posterior.reason", "what stopped the run"));
        ended.outcome.certificate.posterior = Posterior::none(reason);
    } else if ended.outcome.status == Status::Reached {
        ended.with(recipe.problem.compare(&goal, recipe.posterior, recipe.asked, &ended, &|_| {}));
    }
    let RunOutcome { mut outcome, scales, table } = ended;
    let Some(ended) = scales.map(|scales| recipe.problem.with_effects(scales)) else {
        let (what, required) = ("a check of scales", "a scale that is not given");
        return Err(InvalidModel::Requires { what, required }.into());
    };
    if stage.is_some() && outcome.status == Status::Interrupted {
        outcome.status = record.status.clone();
        path_dependent.push(("status", "what stopped the run"));
    }
    let mut own = Record::new(&outcome, (recipe.meta)(&outcome, ended.parameters.clone()));
    own.certificate.scale = ended.scale.clone();
    own.describe(ended.mixed.clone());
    let mut vectors = ended.mixture_posterior.vectors();
    if let Some(table) = table {
        own = own.printing_table(&table);
        vectors.insert(DRAWS.to_string(), table.draws);
    }
    let mut report = Report::default();
    claims(recipe, scale_model, stored, &mut report)?;
    Ok(Own {
        versions: own.versions.clone(),
        record: serde_json::to_value(&own).expect("a record has only text keys"),
        draws: None,
        arrays: Some(Arrays { gaussian: outcome.gaussian.clone(), vectors }),
        fresh: None,
        lines: report.lines,
        refuted: report.refuted,
        moments: Default::default(),
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
            Some(k) => format!("entry {k} is {}, but recomputed it is {}", there[k], own[k]),
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
        report.line(Word::Recomputed, format!("arrays: all {count}, by repeating the run"));
    }
}

/// What is claimed about the scales, at the stored numbers.
fn claims(
    recipe: &Recipe<'_>,
    scale_model: &ScaleModel,
    stored: &Stored,
    report: &mut Report,
) -> Result<(), Error> {
    let refute = |report: &mut Report, words: String| {
        report.refuted.push(words);
        Ok(())
    };
    let (unknown_scales, dim) = (&scale_model.unknown_scales, recipe.problem.meaning.dim());
    let mixture_posterior = match MixturePosterior::of_vectors(dim, unknown_scales, &stored.arrays.vectors) {
        Some(Ok(mixture_posterior)) => mixture_posterior,
        Some(Err(why)) => return refute(report, why.to_string()),
        None => return refute(report, "the arrays have no grid of scales".into()),
    };
    if unknown_scales.scales.is_empty() {
        let groups = scale_model.model.groups();
        let words =
            format!("coefficients and effects of {groups} groups in closed form, by the code of the fit");
        report.line(Word::Recomputed, words);
        return Ok(());
    }
    let Some(scale) = &stored.record.certificate.scale else {
        return refute(report, "a scale was not given, but fit.json has no certificate.scale".into());
    };
    let named: Vec<(&str, Option<f64>)> = std::iter::once((scale.name.as_str(), scale.estimate))
        .chain(scale.others.iter().map(|o| (o.name.as_str(), o.estimate)))
        .collect();
    if !scale_model.unknown_scales.scales.iter().map(|own| own.name.as_str()).eq(named.iter().map(|s| s.0)) {
        let words = format!(
            "certificate.scale is about {}, but what was not given is {}",
            scale.names(),
            scale_model.unknown_scales.names()
        );
        return refute(report, words);
    }
    let mut estimates = Vec::new();
    for (own, (name, estimate)) in scale_model.unknown_scales.scales.iter().zip(named) {
        let possible = |e: &f64| if own.correlation { e.abs() <= 1.0 } else { *e >= 0.0 && e.is_finite() };
        match estimate.filter(possible) {
            Some(estimate) => estimates.push(estimate / own.unit),
            None => return refute(report, format!("certificate.scale has no estimate of {name}")),
        }
    }
    interval(scale_model, &mixture_posterior, scale, &estimates, report)?;
    certificate(recipe, stored, report);
    variances_certificate(recipe, stored, report);
    maxima(scale_model, &mixture_posterior, scale, &estimates, report)?;
    if scale.scales == "posterior" && scale_model.piloted().is_none() {
        let differ = scale_model.model.weights_differ(&mixture_posterior, &scale_model.priors)?;
        if differ.is_nan() || differ > WEIGHT {
            let words = format!(
                "the weights of the grid differ by {differ:.1e} from those that follow from the data"
            );
            return refute(report, words);
        }
        report.line(
            Word::Recomputed,
            format!(
                "the weights of the {} grid points, by the code of the fit",
                mixture_posterior.nodes.len()
            ),
        );
    } else if scale.scales != "posterior" && scale_model.scales == Scales::Posterior {
        report.line(Word::NotChecked, "the posterior of the scales: the run was stopped before it was known");
    }
    Ok(())
}

/// True if a stored number is the one computed again, up to a relative difference and the error of the computation.
fn agree(claimed: f64, computed: f64, relative: f64, error: f64) -> bool {
    let allowed = relative * (1.0 + computed.abs()) + if error.is_finite() { error } else { 0.0 };
    (claimed - computed).abs() <= allowed
}

/// The likelihood at the ends of the interval, and at the estimate between them.
fn interval(
    scale_model: &ScaleModel,
    mixture_posterior: &MixturePosterior,
    scale: &Scale,
    at: &[f64],
    report: &mut Report,
) -> Result<(), Error> {
    // the node nearest to the estimate has coefficients to begin with
    let away =
        |k: &usize| mixture_posterior.scales[*k].iter().zip(at).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let nearest = (0..mixture_posterior.nodes.len()).min_by(|a, b| away(a).total_cmp(&away(b))).unwrap_or(0);
    let start = &mixture_posterior.nodes[nearest];
    let ends = match (scale.level, scale.interval) {
        (RecordedLevel::Proved, Some(ends)) => {
            Some(ends.map(|e| e / scale_model.unknown_scales.scales[0].unit))
        }
        _ => None,
    };
    let (found, proved) = (scale_model.model.confirm(&start.mean, at, ends)?, ends.is_some());
    let claimed = scale.log_likelihood.unwrap_or(f64::NAN);
    if agree(claimed, found.log_likelihood, 1e-8, found.error) {
        let words = format!("log likelihood at the estimate: {claimed:.6}, by the code of the fit");
        report.line(Word::Recomputed, words);
    } else {
        report.refuted.push(format!(
            "the log likelihood at the estimate is {claimed} in fit.json, but recomputed it is {}",
            found.log_likelihood
        ));
    }
    if !proved {
        report.lines.push(Line {
            word: Word::Recomputed,
            what: "no proved interval around the maximum is claimed".into(),
        });
        return Ok(());
    }
    let ([low, high], stated) = (scale.interval.unwrap_or_default(), &scale.objective);
    if found.margins.iter().all(|m| *m > 0.0) {
        let how =
            if scale.radius.is_some() { "the proof at the estimate" } else { "the data at the stored ends" };
        let words = format!(
            "a maximum of the {stated} has {} between {}: from {how}, by the code of the fit",
            scale.name,
            scale.ends().map_or(String::new(), |(low, high)| format!("{low} and {high}"))
        );
        report.line(Word::Recomputed, words);
    } else {
        report.refuted.push(format!(
            "a maximum of the {stated} is claimed between {low} and {high}, but there the profile exceeds its ends by \
                only {:.1e} and {:.1e} nats, all errors included",
            found.margins[0], found.margins[1]
        ));
    }
    Ok(())
}

/// A certificate of the variance parameters as `certus export-proof` writes it, judged as certus-check does.
fn variances_certificate(recipe: &Recipe<'_>, stored: &Stored, report: &mut Report) {
    let Some((long, scale)) = variances::covers(recipe.problem).zip(stored.record.certificate.scale.as_ref())
    else {
        return;
    };
    let what = "variance parameters with every rounding error included";
    let rigorous = scale.theorem.as_deref().is_some_and(counts_rounding);
    if long && !rigorous {
        return report.takes_long(what, "certus export-proof");
    }
    let judged = certus::parallel::install(recipe.goal.threads, || {
        let stated = variances::of(recipe.problem, stored)?;
        let certificate = stated.proved()?;
        Ok::<_, crate::Error>((stated.words(&certificate), stated.enclosed(&certificate, PROVED)))
    });
    match judged.map_err(|error| Error::from(error).into()).and_then(|judged| judged) {
        Ok((_, ends)) if rigorous && !all_contain(scale, &ends) => report.refuted.push(format!(
            "intervals of the scales are claimed with every rounding error included, but certus-check's library proves \
             {ends:?}"
        )),
        Ok((claim, _)) => report.certified(&format!("{what}: {claim} (Theorem V1)")),
        Err(error) if rigorous => {
            report.refuted.push(format!("the intervals of the scales cannot be certified again: {error}"));
        }
        Err(error) => report.line(Word::NotChecked, format!("{what}: {error}")),
    }
}

/// True if the stated interval of every scale contains what is proved.
fn all_contain(scale: &Scale, ends: &[[f64; 2]]) -> bool {
    let stated = std::iter::once(scale.interval).chain(scale.others.iter().map(|own| own.interval));
    let holds = |(stated, [low, high]): (Option<[f64; 2]>, &[f64; 2])| {
        stated.is_some_and(|[a, b]| a <= *low && *high <= b)
    };
    stated.clone().count() == ends.len() && stated.zip(ends).all(holds)
}

/// A certificate of the interval as `certus export-proof` writes it, judged as certus-check does.
fn certificate(recipe: &Recipe<'_>, stored: &Stored, report: &mut Report) {
    let Some(scale) =
        stored.record.certificate.scale.as_ref().filter(|s| sd::covers(recipe.problem, Some(s)))
    else {
        return;
    };
    let what = format!("{} with every rounding error included", scale.name);
    let rigorous = scale.theorem.as_deref().is_some_and(counts_rounding);
    if sd::takes_long(recipe.problem) && !rigorous {
        return report.takes_long(&what, "certus export-proof");
    }
    let judged = certus::parallel::install(recipe.goal.threads, || {
        let stated = StatedSd::of(recipe.problem, stored)?;
        Ok::<_, crate::Error>(stated.subject.checked(stated.start, stated.sd, stated.between)?)
    });
    match judged.map_err(|error| Error::from(error).into()).and_then(|judged| judged) {
        Ok(ends) if rigorous && !contains(scale.interval, ends) => report.refuted.push(format!(
            "a maximum is claimed between {:?} with every rounding error included, but certus-check's library proves \
             {ends:?}",
            scale.interval.unwrap_or_default()
        )),
        Ok([low, high]) => report.certified(&format!(
            "{what}: a maximum of the {} is between {} and {} (Theorem K3)",
            scale.objective,
            downward(low, 8),
            upward(high, 8)
        )),
        Err(error) if rigorous => {
            report.refuted.push(format!("the interval of {} cannot be certified again: {error}", scale.name));
        }
        Err(error) => report.line(Word::NotChecked, format!("{what}: {error}")),
    }
}

/// True if a stated interval contains what is proved, up to the tolerance of certificates.
fn contains(stated: Option<[f64; 2]>, [low, high]: [f64; 2]) -> bool {
    let near = |x: f64| CERTIFICATE * x.abs();
    stated.is_some_and(|[a, b]| a <= low + near(low) && high <= b + near(b))
}

/// What is stated about other maxima: the objective at each of them, and the ranges in which others are not excluded.
fn maxima(
    scale_model: &ScaleModel,
    mixture_posterior: &MixturePosterior,
    scale: &Scale,
    at: &[f64],
    report: &mut Report,
) -> Result<(), Error> {
    let (start, before) = (&mixture_posterior.nodes[0].mean, report.refuted.len());
    if scale.objective != scale_model.objective() {
        report.refuted.push(format!(
            "the objective is the {} in fit.json, but with these settings it is the {}",
            scale.objective,
            scale_model.objective()
        ));
    }
    for own in &scale.maxima {
        let units = scale_model.unknown_scales.scales.iter().map(|s| s.unit);
        let scales: Vec<f64> =
            std::iter::once(&own.estimate).chain(&own.others).zip(units).map(|(s, u)| s / u).collect();
        if scales.len() != at.len() {
            report.refuted.push(format!("a maximum has {} scales, but there are {}", scales.len(), at.len()));
            continue;
        }
        let found = scale_model.model.confirm(start, &scales, None)?;
        for (claimed, computed) in
            [(own.log_likelihood, found.log_likelihood), (own.log_objective, -found.value)]
        {
            if !agree(claimed, computed, 1e-6, found.error) {
                report.refuted.push(format!(
                    "at the maximum {} fit.json has {claimed}, but recomputed it is {computed}",
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
    let unit = scale_model.unknown_scales.scales[0].unit;
    if let (Some(stated), Some(searched)) = (&scale.not_excluded, scale.searched) {
        let open = stated.iter().map(|part| part.map(|s| s / unit)).collect();
        let claim = Excluded { searched: searched.map(|s| s / unit), open, proved: Ok(()) };
        if scale_model.model.confirm_excluded(start, at, &claim)? {
            report.line(Word::Recomputed, "where other maxima are excluded, by the code of the fit");
        } else {
            let words = "fit.json excludes other maxima where the recomputation does not exclude them";
            report.refuted.push(words.into());
        }
    }
    Ok(())
}
