//! `certus verify` of a fit whose scales were not all given: does an interval hold a maximum, and do the weights of the grid follow from the data?

use certus_data::{Mixed, Problem, Scales, Varying};
use certus_models::collapsed::Excluded;
use certus_store::record::{Level, Parameter, Scale, objective, outward};
use certus_store::{Arrays, Record};

use crate::exit::Failure;
use crate::verify::refuted;

/// Differences between weights that the last step at a node, taken on trust, may leave.
const WEIGHT: f64 = 1e-3;

/// What was found, in lines; an error if something does not hold.
pub(crate) fn check(
    problem: &Problem,
    varying: &Varying,
    record: &Record,
    arrays: &Arrays,
) -> Result<String, Failure> {
    let count = varying.varies.scales.len();
    let Some(mixed) = Mixed::of_vectors(problem.meaning.dim(), count, &arrays.vectors) else {
        return Err(refuted("the arrays have no grid of scales"));
    };
    let mixed = mixed.map_err(refuted)?;
    let gaussian = mixed.gaussian().map_err(|e| refuted(e.to_string()))?;
    if gaussian.distance_squared(&arrays.gaussian)
        > 1e-18 * (1.0 + gaussian.mean().iter().map(|m| m * m).sum::<f64>())
    {
        return Err(refuted("the Gaussian in the arrays is not that of the grid"));
    }
    follows(&mixed.parameters(&problem.quantities, &varying.varies), &record.parameters)?;
    let mut out = format!("all {} parameters follow from the arrays\n", record.parameters.len());
    let Some(scale) = &record.certificate.scale else {
        return Err(refuted("a scale was not given, but fit.json has no certificate.scale"));
    };
    let stated: Vec<(&str, Option<f64>)> = std::iter::once((scale.name.as_str(), scale.estimate))
        .chain(scale.others.iter().map(|o| (o.name.as_str(), o.estimate)))
        .collect();
    let known = varying.varies.scales.iter().map(|own| own.name.as_str());
    if !known.eq(stated.iter().map(|s| s.0)) {
        return Err(refuted(format!(
            "certificate.scale speaks of {}, but what was not given is {}",
            scale.names(),
            varying.varies.names()
        )));
    }
    let mut estimates = Vec::new();
    for (own, (name, estimate)) in varying.varies.scales.iter().zip(stated) {
        let estimate = estimate.filter(|e| *e >= 0.0 && e.is_finite());
        let words = || refuted(format!("certificate.scale has no estimate of {name}"));
        estimates.push(estimate.ok_or_else(words)? / own.unit);
    }
    out.push_str(&interval(varying, &mixed, scale, &estimates)?);
    out.push_str(&maxima(varying, &mixed, scale, &estimates)?);
    if scale.scales == "posterior" {
        let differ = varying.model.weights_differ(&mixed, &varying.priors)?;
        if differ.is_nan() || differ > WEIGHT {
            return Err(refuted(format!(
                "the weights of the grid differ by {differ:.1e} from those that follow from the data"
            )));
        }
        out.push_str(&format!(
            "the weights of the {} nodes of the grid follow from the data\n",
            mixed.nodes.len()
        ));
    } else if varying.scales == Scales::Posterior {
        out.push_str("the run was stopped before the posterior was known\n");
    }
    Ok(out)
}

/// The likelihood at the ends of the interval, and at the estimate between them.
fn interval(varying: &Varying, mixed: &Mixed, scale: &Scale, at: &[f64]) -> Result<String, Failure> {
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
    if !close {
        return Err(refuted(format!(
            "the log likelihood at the estimate is {claimed} in fit.json, but computed again {}",
            found.log_likelihood
        )));
    }
    let mut out = format!("the log likelihood at the estimate is {claimed:.6}: confirmed\n");
    if !proved {
        out.push_str("nothing is claimed to be proved of where the maximum is\n");
        return Ok(out);
    }
    let ([low, high], objective) = (scale.interval.unwrap_or_default(), &scale.objective);
    if !found.margins.iter().all(|m| *m > 0.0) {
        return Err(refuted(format!(
            "a maximum of the {objective} is claimed between {low} and {high}, but there the profile is above its ends by {:.1e} and {:.1e} nats only, every error counted",
            found.margins[0], found.margins[1]
        )));
    }
    out.push_str(&format!(
        "a maximum of the {objective} lies between {}: confirmed from the data, by the code of the fit\n",
        outward([low, high]).join(" and ")
    ));
    Ok(out)
}

/// What is said of other maxima: the objective at each of them, and the ranges in which others are not excluded.
fn maxima(varying: &Varying, mixed: &Mixed, scale: &Scale, at: &[f64]) -> Result<String, Failure> {
    // files from before other maxima were looked for do not say what was maximised
    if !scale.maxima.is_empty() && scale.objective != objective(varying.penalised) {
        return Err(refuted(format!(
            "the objective is the {} in fit.json, but with these priors it is the {}",
            scale.objective,
            objective(varying.penalised)
        )));
    }
    let start = &mixed.nodes[0].mean;
    let mut out = String::new();
    for own in &scale.maxima {
        let units = varying.varies.scales.iter().map(|s| s.unit);
        let scales: Vec<f64> =
            std::iter::once(&own.estimate).chain(&own.others).zip(units).map(|(s, u)| s / u).collect();
        if scales.len() != at.len() {
            return Err(refuted(format!(
                "a maximum has {} scales, but there are {}",
                scales.len(),
                at.len()
            )));
        }
        let found = varying.model.confirm(start, &scales, None)?;
        let pairs = [(own.log_likelihood, found.log_likelihood), (own.log_objective, -found.value)];
        for (claimed, computed) in pairs {
            let allowed =
                1e-6 * (1.0 + computed.abs()) + if found.error.is_finite() { found.error } else { 0.0 };
            let off = (claimed - computed).abs();
            if off.is_nan() || off > allowed {
                return Err(refuted(format!(
                    "at the maximum {} fit.json has {claimed}, but computed again it is {computed}",
                    own.estimate
                )));
            }
        }
    }
    if scale.maxima.len() > 1 {
        out.push_str(&format!("the objective at {} maxima: confirmed\n", scale.maxima.len()));
    }
    let unit = varying.varies.scales[0].unit;
    if let (Some(stated), Some(searched)) = (&scale.not_excluded, scale.searched) {
        let open = stated.iter().map(|part| part.map(|s| s / unit)).collect();
        let claim = Excluded { searched: searched.map(|s| s / unit), open, proved: Ok(()) };
        if !varying.model.confirm_excluded(start, at, &claim)? {
            return Err(refuted(
                "other maxima are excluded in fit.json where they are not excluded when it is computed again",
            ));
        }
        out.push_str("where other maxima are excluded: confirmed from the data, by the code of the fit\n");
    }
    Ok(out)
}

fn follows(own: &[Parameter], stored: &[Parameter]) -> Result<(), Failure> {
    if own.len() != stored.len() {
        return Err(refuted(format!(
            "fit.json has {} parameters, but the arrays {}",
            stored.len(),
            own.len()
        )));
    }
    for (own, stored) in own.iter().zip(stored) {
        let size = own.sd.unwrap_or(0.0) + own.mean.unwrap_or(0.0).abs();
        let same = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * size,
            (None, None) => true,
            _ => false,
        };
        let all = [
            (own.mean, stored.mean),
            (own.sd, stored.sd),
            (own.q05, stored.q05),
            (own.q50, stored.q50),
            (own.q95, stored.q95),
        ];
        if own.name != stored.name || !all.into_iter().all(|(a, b)| same(a, b)) {
            return Err(refuted(format!("{stored:?} in fit.json does not follow from the arrays: {own:?}")));
        }
    }
    Ok(())
}
