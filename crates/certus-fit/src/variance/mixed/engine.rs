//! Linear mixed models as engines.

use certus::certificate::counted;
use certus_likelihood::Prior;
use certus_mixed::collapsed::Confirmed;
use certus_mixed::linear::Criterion;
use certus_mixed::{Journal, ScaleObserver};
use certus_models::Error;

use super::density::MixedDensity;
use super::given::GivenMixed;
use super::model::LinearMixed;
use crate::variance::engine::{ClosedForm, JointLaw, JointMaximum, ScaleEngine, factor_of};
use crate::variance::gridded::Gridded;
use crate::variance::piloted::{Piloted, ScalePrior};
use crate::variance::request::criterion_name;

impl ScaleEngine for LinearMixed {
    fn groups(&self) -> usize {
        LinearMixed::groups(self)
    }

    fn integrated(&self) -> String {
        format!("{} integrated out in closed form", counted(LinearMixed::groups(self), "group"))
    }

    fn criterion(&self) -> Option<&'static str> {
        Some(criterion_name(self.criterion))
    }

    fn is_restricted(&self) -> bool {
        self.criterion == Criterion::Reml
    }

    fn estimate(
        &self,
        _: &mut Journal,
        _: &mut ScaleObserver<'_>,
        profiled: bool,
    ) -> Result<JointMaximum, Error> {
        let (fit, several) = self.estimated()?;
        let profiles = if profiled { self.profiles(&fit) } else { Vec::new() };
        Ok(JointMaximum {
            scales: self.scales(&fit),
            log_covariance: fit.covariance.clone(),
            intervals: self.intervals(&fit),
            factor: factor_of(&fit.fixed_covariance, LinearMixed::dim(self))?,
            log_likelihood: self.log_likelihood(fit.value),
            error: f64::NAN,
            beta: fit.fixed,
            maxima: Vec::new(),
            betas: Vec::new(),
            excluded: None,
            profiles,
            several: Some(several),
        })
    }

    fn confirm(&self, _: &[f64], found: &[f64], interval: Option<[f64; 2]>) -> Result<Confirmed, Error> {
        self.confirmed(found, interval)
    }

    fn piloted<'a>(&'a self, prior: &'a Prior, scales: ScalePrior<'a>) -> Option<Box<dyn Piloted + 'a>> {
        Some(Box::new(MixedDensity { model: self, prior, scales }))
    }

    fn joint_law(&self) -> Option<&dyn JointLaw> {
        Some(self)
    }

    fn linear_mixed(&self) -> Option<&LinearMixed> {
        Some(self)
    }
}

impl Gridded for GivenMixed {
    fn all_groups(&self) -> usize {
        self.model.groups()
    }

    fn words(&self) -> String {
        format!("{} integrated out in closed form", counted(self.all_groups(), "group"))
    }

    fn joint(&self) -> Option<&dyn JointLaw> {
        Some(&self.model)
    }

    fn closed(&self) -> Option<&dyn ClosedForm> {
        Some(self)
    }
}
