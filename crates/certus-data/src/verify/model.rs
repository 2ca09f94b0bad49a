//! A fit of one Gaussian computed again at the stored one, and its stored gap before the independent checker.

use certus::certificate::{Posterior, figure};
use certus::fit::Status;
use certus::{Factor, Family};
use certus_models::Error;
use certus_models::verify::{ABSOLUTE, Claim, RELATIVE, Stated, verify};
use certus_store::Record;
use certus_store::record::{Level, Parameter};

use super::{Own, Recipe, Report, Stored, Word, fresh};
use crate::problem::Fitted;
use crate::way::Way;

/// The family of an optimum over everything.
const ALL: &str = "all Gaussians";
/// How the reason ends where a run was stopped before its Gaussian was compared with the posterior.
const UNFINISHED: &str = " before it was done";

/// What fit.json should say of the stored Gaussian.
pub(super) fn own(recipe: &Recipe<'_>, stored: &Stored) -> Result<Own, Error> {
    let Recipe { problem, goal, way, asked, .. } = recipe;
    let (w, record) = (&stored.arrays.gaussian, &stored.record);
    if problem.meaning.dim() != w.dim() {
        return Err(Error::Model(format!(
            "the arrays have {} latents, but the model has {}",
            w.dim(),
            problem.meaning.dim()
        )));
    }
    shape(recipe, w.factor())?;
    let mut path_dependent = Vec::new();
    // a run that reached its goal, perhaps not at the level asked for; else one that ended for another reason
    let (mut outcome, said) = problem.restated(goal, way, w, true)?;
    if let Some(asked) = asked {
        asked.judge(&mut outcome);
    }
    let as_reached = outcome.status == record.status && outcome.message == record.message;
    if record.status != Status::Reached && !as_reached {
        outcome = problem.restated(goal, way, w, false)?.0;
        let ended = record.message.ends_with(&format!(": {said}"));
        if ended {
            (outcome.status, outcome.message) = (record.status.clone(), record.message.clone());
            path_dependent.push(("status", "how the run ended, beside the bound in its message"));
            path_dependent.push(("message", "how the run ended, beside the bound in it"));
        }
    }
    let (route, whole) = problem.route_taken(way);
    outcome.route = route;
    if !whole && record.route.starts_with(&outcome.route) {
        outcome.route.clone_from(&record.route);
        path_dependent.push(("route", "the numbers of the run in it"));
    }
    let mut drawn = None;
    if outcome.status == Status::Reached {
        let stated = &record.certificate.posterior;
        let unfinished = stated.reason.as_deref().filter(|r| r.ends_with(UNFINISHED));
        outcome.certificate.posterior = match unfinished.filter(|_| stated.level == Level::None) {
            Some(reason) => {
                path_dependent.push(("certificate.posterior.reason", "what stopped the run"));
                Posterior::none(reason)
            }
            None => problem.posterior(goal, &outcome),
        };
        if matches!(record.certificate.posterior.level, Level::Proved | Level::Probable) {
            drawn = fresh::Fresh::draw(recipe, w, outcome.neg_elbo.value);
        }
    }
    let normals = problem.on_user_scale(w);
    let named = problem.quantities.iter().zip(&normals);
    let parameters = named.map(|(q, n)| Parameter::normal(&q.name, n.mean, n.sd)).collect();
    let own = Record::new(&outcome, (recipe.meta)(&outcome, parameters));
    Ok(Own {
        record: serde_json::to_value(&own).expect("a record has only text keys"),
        arrays: None,
        fresh: drawn,
        lines: Vec::new(),
        refuted: vectors(stored),
        path_dependent,
        versions: own.versions,
    })
}

/// A single Gaussian has no other vectors.
fn vectors(stored: &Stored) -> Vec<String> {
    let names = stored.arrays.vectors.keys();
    names.map(|name| format!("the arrays have a vector {name}, which belongs to no such fit")).collect()
}

/// The factor is one that the settings ask for.
fn shape(recipe: &Recipe<'_>, factor: &Factor) -> Result<(), Error> {
    let right = match (&recipe.problem.fitted, &recipe.way) {
        (Fitted::Grouped(model), _) => factor.family() == certus_models::auto::Model::family(&**model),
        (_, Way::MeanField(_)) => {
            matches!(factor.family(), Family::Pattern(tree) if tree.levels() == 1 && tree.widest() == 1)
        }
        _ => !matches!(factor, Factor::Pattern(_)),
    };
    if right {
        return Ok(());
    }
    Err(Error::Model("the factor in the arrays has another pattern than the settings ask for".into()))
}

/// The stored bound with its theorem, family and constants, in double-double arithmetic.
pub(super) fn gap(recipe: &Recipe<'_>, stored: &Stored, report: &mut Report) {
    let gap = &stored.record.certificate.gap;
    let Some(bound) = gap.bound else {
        report.line(Word::Recomputed, "gap: nothing is stated");
        return;
    };
    // "at most" stands only before what is proved or probable
    let how = if gap.level == Level::Estimated { "about" } else { "at most" };
    let size = format!("gap: {how} {} nats", figure(bound));
    let again = |report: &mut Report, why: &str| {
        report.line(Word::Recomputed, format!("{size}, {}; by the code of the fit: {why}", level(gap.level)));
    };
    let Fitted::Dense(model) = &recipe.problem.fitted else {
        return again(report, "the independent checker does not know group terms");
    };
    let proved = match gap.level {
        Level::Proved => true,
        Level::Estimated => false,
        _ => return again(report, "the independent checker knows what is proved or estimated only"),
    };
    let constant = |name: &str| gap.constants.get(name).copied().flatten();
    let theorem = gap.theorem.as_deref().unwrap_or_default();
    let stated = Stated {
        theorem,
        all: gap.family == ALL,
        proved,
        bound,
        errors: [None; 2],
        constants: ["radius", "omega", "theta"].map(constant),
    };
    let verdict = Claim::stated(model, &stored.arrays.gaussian, &stated).and_then(|claim| verify(&claim));
    let verdict = match verdict {
        Ok(verdict) => verdict,
        Err(Error::Declined(reason) | Error::TooLarge(reason)) => return again(report, &reason),
        Err(error) => {
            report.refuted.push(format!("the stored gap cannot be checked: {error}"));
            return;
        }
    };
    if !verdict.holds {
        report.refuted.push(format!(
            "the gap is claimed to be at most {bound:e} nats ({theorem}), but computed again by the independent checker: {}",
            verdict.reason
        ));
        return;
    }
    let mut of_errors = Vec::new();
    for (what, stated, own) in
        [("means", gap.mean_error, verdict.mean_error), ("sds", gap.sd_error, verdict.sd_error)]
    {
        // the errors may come from another theorem, which gives smaller ones
        if stated.is_some_and(|stated| own <= stated * (1.0 + RELATIVE) + ABSOLUTE) {
            of_errors.push(what);
        }
    }
    let errors = match of_errors[..] {
        [] => String::new(),
        [one] => format!(", and the errors of {one}"),
        _ => ", and the errors of means and sds".into(),
    };
    let constants = format!("{theorem}, {}, with the stored constants", gap.family);
    if proved {
        report.line(
            Word::Confirmed,
            format!("{size}{errors} ({constants}): in double-double arithmetic that shares only the formulas of the likelihood with the fit"),
        );
    } else {
        report.line(
            Word::Recomputed,
            format!("{size}, estimated{errors} ({constants}): in double-double arithmetic, but the error of its quadrature is not proved for this likelihood"),
        );
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Proved => "proved",
        Level::Probable => "probable",
        Level::Estimated => "estimated",
        Level::None => "none",
    }
}
