//! Both engines for responses that are not linear behind the interface of all engines.

use certus::certificate::counted;
use certus_likelihood::Prior;
use certus_mixed::collapsed::{Confirmed, Interval};
use certus_mixed::linear::Criterion;
use certus_mixed::{Journal, ScaleObserver};
use certus_models::Error;

use super::correlated::CorrelatedMixed;
use super::estimate::known;
use super::model::CrossedMixed;
use crate::variance::engine::{JointMaximum, ScaleEngine, factor_of};
use crate::variance::piloted::{Piloted, ScalePrior, SeveralDensity};
use crate::variance::request::criterion_name;

impl ScaleEngine for CrossedMixed {
    fn groups(&self) -> usize {
        CrossedMixed::groups(self)
    }

    fn integrated(&self) -> String {
        format!("{} integrated out", counted(CrossedMixed::groups(self), "group"))
    }

    fn criterion(&self) -> Option<&'static str> {
        Some(self.kind())
    }

    fn estimate(
        &self,
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
        profiled: bool,
    ) -> Result<JointMaximum, Error> {
        let (fit, several) = self.estimated(journal, observer)?;
        let profiles = if profiled { self.profiles(&fit, journal, observer) } else { Vec::new() };
        let scales = self.scales(&fit);
        let nothing = Interval { sds: [f64::NAN; 2], proved: Err(known(&fit)) };
        Ok(JointMaximum {
            intervals: vec![nothing; scales.len()],
            scales,
            log_covariance: fit.covariance.clone(),
            factor: factor_of(&fit.fixed_covariance, CrossedMixed::dim(self))?,
            log_likelihood: fit.log_likelihood,
            error: f64::NAN,
            beta: fit.fixed,
            maxima: Vec::new(),
            betas: Vec::new(),
            excluded: None,
            profiles,
            several: Some(several),
        })
    }

    fn confirm(&self, start: &[f64], found: &[f64], _: Option<[f64; 2]>) -> Result<Confirmed, Error> {
        self.confirmed(start, found)
    }

    fn piloted<'a>(&'a self, prior: &'a Prior, scales: ScalePrior<'a>) -> Option<Box<dyn Piloted + 'a>> {
        Some(Box::new(SeveralDensity { model: self, prior, scales }))
    }
}

impl ScaleEngine for CorrelatedMixed {
    fn groups(&self) -> usize {
        CorrelatedMixed::groups(self)
    }

    fn integrated(&self) -> String {
        format!("{} integrated out on lattices", counted(CorrelatedMixed::groups(self), "group"))
    }

    fn criterion(&self) -> Option<&'static str> {
        Some(criterion_name(Criterion::Ml))
    }

    fn estimate(
        &self,
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
        profiled: bool,
    ) -> Result<JointMaximum, Error> {
        let (fit, several) = self.estimated(journal, observer)?;
        let profiles = if profiled { self.profiles(&fit, journal, observer) } else { Vec::new() };
        Ok(JointMaximum {
            scales: self.scales(&fit),
            log_covariance: fit.covariance.clone(),
            intervals: self.intervals(&fit),
            factor: factor_of(&fit.fixed_covariance, CorrelatedMixed::dim(self))?,
            log_likelihood: fit.log_likelihood,
            error: Self::error(&fit),
            beta: fit.fixed,
            maxima: Vec::new(),
            betas: Vec::new(),
            excluded: None,
            profiles,
            several: Some(several),
        })
    }

    fn confirm(&self, start: &[f64], found: &[f64], interval: Option<[f64; 2]>) -> Result<Confirmed, Error> {
        self.confirmed(start, found, interval)
    }

    fn piloted<'a>(&'a self, prior: &'a Prior, scales: ScalePrior<'a>) -> Option<Box<dyn Piloted + 'a>> {
        Some(Box::new(SeveralDensity { model: self, prior, scales }))
    }
}
