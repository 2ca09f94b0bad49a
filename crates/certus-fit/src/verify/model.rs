//! A fit of one Gaussian computed again at the stored one, and its stored gap by the independent checker.

use std::sync::OnceLock;

use crate::Record;
use crate::record::{Parameter, RecordedLevel};
use certus::certificate::{Posterior, figure};
use certus::fit::Status;
use certus::{Factor, Family};
use certus_models::Error;
use certus_models::claim::{Stated, stated_claim};
use certus_models::error::InvalidModel;
use certus_models::proof::{self, DrawsCertificate};
use certus_verify::{ABSOLUTE, RELATIVE, verify};

use super::{Own, Recipe, Report, Rules, Stored, Word, fresh};
use crate::arrays::Arrays;
use crate::method_choice::MethodChoice;
use crate::posterior::{SHORT, UNFINISHED};
use crate::posterior_draws::DRAWS;
use crate::problem::ModelKind;
use crate::proof::moments::{self, StatedMoments};

/// The family of an optimum over everything.
const ALL: &str = "all Gaussians";

/// What fit.json should say about the stored Gaussian.
pub(super) fn own(recipe: &Recipe<'_>, stored: &Stored) -> Result<Own, Error> {
    let Recipe { problem, goal, choice, posterior, asked, .. } = recipe;
    let (w, record) = (&stored.arrays.gaussian, &stored.record);
    if problem.meaning.dim() != w.dim() {
        let (what, expected, found) = ("the stored Gaussian", problem.meaning.dim(), w.dim());
        return Err(InvalidModel::Coefficients { what, expected, found }.into());
    }
    shape(recipe, w.factor())?;
    let mut path_dependent = Vec::new();
    // a run that reached its goal, perhaps not at the level asked for; else one that ended for another reason
    let (mut outcome, said) = problem.restated(goal, choice, w, true)?;
    if let Some(asked) = asked {
        asked.judge(&mut outcome);
    }
    let judged = record.message.starts_with(&format!("{}{SHORT}", outcome.message));
    let as_reached = judged || outcome.status == record.status && outcome.message == record.message;
    if record.status != Status::Reached && !as_reached {
        outcome = problem.restated(goal, choice, w, false)?.0;
        let ended = record.message.ends_with(&format!(": {said}"));
        if ended {
            (outcome.status, outcome.message) = (record.status.clone(), record.message.clone());
            path_dependent.push(("status", "how the run ended, apart from the bound in its message"));
            path_dependent.push(("message", "how the run ended, apart from the bound in it"));
        }
    }
    let (route, whole) = problem.route_taken(choice);
    outcome.route = route;
    if !whole && record.route.starts_with(&outcome.route) {
        outcome.route.clone_from(&record.route);
        path_dependent.push(("route", "the numbers of the run that it contains"));
    }
    let (mut drawn, mut table) = (None, None);
    if outcome.status == Status::Reached {
        let stated = &record.certificate.posterior;
        let unfinished = stated.reason.as_deref().filter(|r| r.ends_with(UNFINISHED));
        match unfinished.filter(|_| stated.level == RecordedLevel::None) {
            Some(reason) => {
                path_dependent.push(("certificate.posterior.reason", "what stopped the run"));
                outcome.certificate.posterior = Posterior::none(reason);
            }
            None => {
                let found = problem.compare_gaussian(goal, *posterior, *asked, &outcome, &|_| {});
                found.judge(&mut outcome);
                (outcome.certificate.posterior, table) = (found.posterior, found.table);
            }
        }
        if matches!(record.certificate.posterior.level, RecordedLevel::Proved | RecordedLevel::Probable) {
            drawn = fresh::Fresh::draw(recipe, w, outcome.neg_elbo.value);
        }
    }
    let normals = problem.on_user_scale(w);
    let named = problem.quantities.iter().zip(&normals);
    let parameters = named.map(|(q, n)| Parameter::normal(&q.name, n.mean, n.sd)).collect();
    let mut own = Record::new(&outcome, (recipe.meta)(&outcome, parameters)).printing_own();
    if let Some(table) = &table {
        own = own.printing_table(table);
    }
    Ok(Own {
        record: serde_json::to_value(&own).expect("a record has only text keys"),
        arrays: None,
        draws: table.map(|table| table.draws),
        fresh: drawn,
        lines: Vec::new(),
        refuted: Vec::new(),
        moments: OnceLock::new(),
        path_dependent,
        versions: own.versions,
    })
}

/// The draws that printed numbers come from are those of the same computation; there are no other vectors.
pub(super) fn draws(own: Option<&[f64]>, stored: &Arrays, rules: &Rules, report: &mut Report) {
    for name in stored.vectors.keys().filter(|name| own.is_none() || *name != DRAWS) {
        let words = format!("the arrays have a vector {name}, which does not belong to such a fit");
        report.refuted.push(words);
    }
    let Some(own) = own else { return };
    let there = stored.vectors.get(DRAWS).map_or(&[][..], |draws| draws);
    let same = there.len() == own.len() && there.iter().zip(own).all(|(a, b)| rules.near(*a, *b));
    if same {
        let words = format!("{DRAWS} of the posterior: repeated with the stored seed by the code of the fit");
        report.line(Word::Recomputed, words);
    } else {
        report
            .refuted
            .push(format!("the {DRAWS} in the arrays are not those that the printed numbers come from"));
    }
}

/// The factor is one that the settings request.
fn shape(recipe: &Recipe<'_>, factor: &Factor) -> Result<(), Error> {
    let right = match (&recipe.problem.model_kind, &recipe.choice) {
        (ModelKind::Grouped(model), _) => factor.family() == certus_models::auto::Model::family(&**model),
        (_, MethodChoice::MeanField(_)) => {
            matches!(factor.family(), Family::Pattern(tree) if tree.levels() == 1 && tree.widest() == 1)
        }
        _ => !matches!(factor, Factor::Pattern(_)),
    };
    if right {
        return Ok(());
    }
    Err(InvalidModel::Factor { required: "a factor on the pattern that the settings ask for" }.into())
}

/// The stored bound with its theorem, family and constants, in double-double arithmetic.
pub(super) fn gap(recipe: &Recipe<'_>, stored: &Stored, report: &mut Report) {
    let gap = &stored.record.certificate.gap;
    let Some(bound) = gap.bound else {
        report.line(Word::Recomputed, "gap: no bound is stated");
        return;
    };
    // its claim is that of the certificate that is judged beside this
    if is_rigorous(&stored.record) {
        return;
    }
    // "at most" stands only before what is proved or probable
    let how = if gap.level == RecordedLevel::Estimated { "about" } else { "at most" };
    let size = format!("gap: {how} {} nats", figure(bound));
    let again = |report: &mut Report, why: &str| {
        report.line(Word::Recomputed, format!("{size}, {}; by the code of the fit: {why}", level(gap.level)));
    };
    let ModelKind::Dense(model) = &recipe.problem.model_kind else {
        return again(report, "the independent checker does not support group terms");
    };
    let proved = match gap.level {
        RecordedLevel::Proved => true,
        RecordedLevel::Estimated => false,
        _ => return again(report, "the independent checker supports only what is proved or estimated"),
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
    let refuted = |error: &dyn std::fmt::Display| format!("the stored gap cannot be checked: {error}");
    let claim = match stated_claim(model, &stored.arrays.gaussian, &stated) {
        Ok(claim) => claim,
        Err(Error::Declined(declined)) => return again(report, &declined.to_string()),
        Err(error) => return report.refuted.push(refuted(&error)),
    };
    let verdict = match verify(&claim) {
        Ok(verdict) => verdict,
        Err(certus_verify::Error::Declined(reason)) => return again(report, &reason),
        Err(error) => return report.refuted.push(refuted(&error)),
    };
    if !verdict.holds {
        report.refuted.push(format!(
            "the gap is claimed to be at most {bound:e} nats ({theorem}), but the independent checker finds: {}",
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
            format!("{size}{errors} ({constants}): in double-double arithmetic that shares only the formulas of the \
                likelihood with the fit"),
        );
    } else {
        report.line(
            Word::Recomputed,
            format!(
                "{size}, estimated{errors} ({constants}): in double-double arithmetic, but the error of its \
                quadrature is not proved for this likelihood"
            ),
        );
    }
}

/// A certificate of the gap as `certus export-proof` writes it, judged as certus-check does.
pub(super) fn certificate(recipe: &Recipe<'_>, stored: &Stored, report: &mut Report) {
    let gap = &stored.record.certificate.gap;
    let ModelKind::Dense(model) = &recipe.problem.model_kind else { return };
    let claimed = gap.bound.filter(|_| gap.level == RecordedLevel::Proved && gap.family == ALL);
    let Some(claimed) = claimed.filter(|_| proof::covers(model) && model.dim() <= proof::MOST_COEFFICIENTS)
    else {
        return;
    };
    let constant = |name: &str| gap.constants.get(name).copied().flatten();
    let curvature = constant("curvature in the mean").zip(constant("curvature in the factor"));
    let guess = proof::Guess { gap: claimed, curvature: curvature.map_or(1.0, |(m, f)| m.min(0.5 * f)) };
    let (w, rigorous) = (&stored.arrays.gaussian, is_rigorous(&stored.record));
    let judged = certus::parallel::install(recipe.goal.threads, || {
        // the fit began from there, too
        let guess = if rigorous { proof::Guess::from(&model.gap(w)?) } else { guess };
        proof::Subject::new(model, w, &[], None)?.checked(guess)
    });
    match judged.map_err(Error::from).and_then(|judged| judged) {
        Ok(bound) if rigorous && bound > claimed * (1.0 + RELATIVE) => report.refuted.push(format!(
            "the gap is claimed to be at most {claimed:e} nats with every rounding error included, but certus-check's \
             library proves {bound:e}"
        )),
        Ok(bound) => report.certified(&format!(
            "gap with every rounding error included: at most {} nats (Theorem D, all Gaussians)",
            figure(bound)
        )),
        Err(Error::Declined(why)) if !rigorous => {
            report.line(Word::NotChecked, format!("gap with every rounding error included: {why}"));
        }
        Err(error) => report.refuted.push(format!("the gap cannot be certified again: {error}")),
    }
}

/// A certificate of the posterior's means and sds as `certus export-proof --posterior` writes it, judged as
/// certus-check does, where the printed numbers come from importance weights; `made` keeps it for other numbers.
pub(super) fn moments(
    recipe: &Recipe<'_>,
    stored: &Stored,
    made: &OnceLock<Result<DrawsCertificate, String>>,
    report: &mut Report,
) {
    if !moments::concerns(recipe.problem, stored) {
        return;
    }
    let what = "posterior means and sds with every rounding error included";
    let Some(pairs) = moments::pairs(recipe.problem) else {
        return report.takes_long(what, "certus export-proof --posterior");
    };
    let stated = match StatedMoments::of(recipe.problem, stored) {
        Ok(stated) => stated,
        Err(error) => return report.line(Word::NotChecked, format!("{what}: {error}")),
    };
    let certificate = made.get_or_init(|| {
        let judged = certus::parallel::install(recipe.goal.threads, || stated.checked(pairs));
        judged.map_err(|error| Error::from(error).into()).and_then(|judged| judged).map_err(in_words)
    });
    match certificate.as_ref().map(|certificate| stated.compared(certificate, &stored.record.parameters)) {
        Ok(Ok(claim)) => report.certified(&format!("{what}: {claim}")),
        Ok(Err(contradiction)) => report.refuted.push(contradiction),
        Err(error) => report.line(Word::NotChecked, format!("{what}: {error}")),
    }
}

fn in_words(error: crate::Error) -> String {
    error.to_string()
}

/// Whether the stated gap has every rounding error included.
fn is_rigorous(record: &Record) -> bool {
    record.certificate.gap.theorem.as_deref().is_some_and(proof::counts_rounding)
}

fn level(level: RecordedLevel) -> &'static str {
    match level {
        RecordedLevel::Proved => "proved",
        RecordedLevel::Probable => "probable",
        RecordedLevel::Estimated => "estimated",
        RecordedLevel::None => "none",
    }
}
