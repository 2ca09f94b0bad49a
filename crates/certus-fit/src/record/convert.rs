//! From the types of the core to those of `fit.json`.

use std::collections::BTreeMap;

use certus::Provenance;
use certus::certificate::{self, Statement};
use certus::gaussian::NORMAL_95;

use super::{Assumption, Certificate, Gap, Parameter, Posterior, RecordedLevel, TracePoint, Voucher};

impl Parameter {
    /// A coefficient that is normal, as all are here.
    pub fn normal(name: impl Into<String>, mean: f64, sd: f64) -> Self {
        Self {
            name: name.into(),
            mean: finite(mean),
            sd: finite(sd),
            q05: finite(mean - NORMAL_95 * sd),
            q50: finite(mean),
            q95: finite(mean + NORMAL_95 * sd),
            ..Self::default()
        }
    }
}

impl TracePoint {
    pub(super) fn new(point: &certus::auto::TracePoint) -> Self {
        Self {
            seconds: point.elapsed.as_secs_f64(),
            iteration: point.iteration,
            gradients: point.gradients,
            neg_elbo: point.neg_elbo.and_then(finite),
            bound: point.bound.and_then(finite),
        }
    }
}

impl Certificate {
    pub(super) fn new(certificate: &certus::Certificate) -> Self {
        let (gap, posterior) = (&certificate.gap, &certificate.posterior);
        let s = &gap.statement;
        let gap = Gap {
            bound: s.bound(),
            level: RecordedLevel::of(s),
            delta: delta(s),
            theorem: theorem(s),
            family: gap.family.clone(),
            reason: s.reason().map(str::to_string),
            assumptions: assumptions(s),
            constants: constants(s),
            mean_error: gap.mean_error.and_then(finite),
            sd_error: gap.sd_error.and_then(finite),
        };
        let s = &posterior.statement;
        let both_finite = |e: (f64, f64)| Some([finite(e.0)?, finite(e.1)?]);
        let posterior = Posterior {
            bound: s.bound(),
            level: RecordedLevel::of(s),
            delta: delta(s),
            theorem: theorem(s),
            reason: s.reason().map(str::to_string),
            assumptions: assumptions(s),
            constants: constants(s),
            log_evidence: posterior.log_evidence.and_then(both_finite),
            mean_error: posterior.mean_error.and_then(finite),
            sd_error: posterior.sd_error.and_then(finite),
        };
        Self { gap, posterior, scale: None }
    }
}

impl RecordedLevel {
    fn of(statement: &Statement) -> Self {
        Self::new(statement.level())
    }

    /// Of a level of the core.
    pub(super) fn new(level: certificate::Level) -> Self {
        match level {
            certificate::Level::Proved => RecordedLevel::Proved,
            certificate::Level::Probable { .. } => RecordedLevel::Probable,
            certificate::Level::Estimated => RecordedLevel::Estimated,
            certificate::Level::None => RecordedLevel::None,
        }
    }
}

fn delta(statement: &Statement) -> Option<f64> {
    match statement.level() {
        certificate::Level::Probable { delta } => Some(delta),
        _ => None,
    }
}

fn theorem(statement: &Statement) -> Option<String> {
    Some(statement.theorem()).filter(|t| !t.is_empty()).map(str::to_string)
}

/// The first of two constants with one name is the one that counts, as in [`Statement::constant`].
fn constants(statement: &Statement) -> BTreeMap<String, Option<f64>> {
    statement.constants().iter().rev().map(|(name, value)| (name.to_string(), finite(*value))).collect()
}

fn assumptions(statement: &Statement) -> Vec<Assumption> {
    let one = |a: &certificate::Assumption| {
        let (by, reason) = match &a.provenance {
            Provenance::ByModel(_) => (Voucher::Model, None),
            Provenance::DeclaredByUser(reason) => (Voucher::User, Some(reason.clone())),
            Provenance::Estimated => (Voucher::Estimate, None),
        };
        Assumption { what: a.what.clone(), by, reason }
    };
    statement.assumptions().iter().map(one).collect()
}

pub(crate) fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}
