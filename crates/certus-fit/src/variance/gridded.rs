//! Engines of one scale or two, searched and put on a grid: one effect of one group, the parameter of a likelihood,
//! what is not given of a linear model with given sds.

use std::ops::Range;

use certus::certificate::counted;
use certus_mixed::collapsed::{
    self, Collapsed, Confirmed, Effect, Excluded, Maximum, Mixture, Node, SdPrior,
};
use certus_mixed::density::{CollapsedDensity, CountDensity, EffectDensity};
use certus_mixed::scales::{self, Dispersion, LinearNoise, ScaleProblem, ScalesEstimate, ScalesMaximum};
use certus_mixed::{Journal, ScaleObserver};
use certus_models::Error;

use crate::variance::engine::{ClosedForm, GridPosterior, JointLaw, JointMaximum, ScaleEngine};
use crate::variance::mixture::MixturePosterior;
use crate::variance::profiled::{CUT, PROFILED, Profiled};

fn one_by_one(groups: usize) -> String {
    format!("{} integrated out, one by one", counted(groups, "group"))
}

fn maximum(found: &Maximum) -> ScalesMaximum {
    let Maximum { sd, value, log_likelihood, .. } = *found;
    ScalesMaximum { scales: vec![sd], value, log_likelihood }
}

impl ScaleEngine for Collapsed {
    fn groups(&self) -> usize {
        Collapsed::groups(self)
    }

    fn integrated(&self) -> String {
        one_by_one(Collapsed::groups(self))
    }

    fn is_one_sd(&self) -> bool {
        true
    }

    fn bounds_errors(&self) -> bool {
        Collapsed::bounds_errors(self)
    }

    fn error_holds(&self) -> &'static str {
        " at each sd"
    }

    fn estimate(
        &self,
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
        profiled: bool,
    ) -> Result<JointMaximum, Error> {
        let found = self.estimate_observed(&vec![0.0; Collapsed::dim(self)], journal, observer)?;
        let error = found.log_sd_error;
        let interval = if profiled && self.rows() <= PROFILED {
            match self.profile_interval(&found, CUT, journal, observer) {
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => Profiled::NotFound(error.to_string()),
                Ok(found) => Profiled::of(found),
            }
        } else {
            Profiled::NotTried
        };
        Ok(JointMaximum {
            log_covariance: vec![if error.is_finite() { error * error } else { 0.0 }],
            beta: found.beta,
            scales: vec![found.sd],
            intervals: vec![found.interval],
            factor: found.factor,
            log_likelihood: found.at.log_likelihood,
            error: found.at.error,
            betas: found.maxima.iter().map(|m| m.beta.clone()).collect(),
            maxima: found.maxima.iter().map(maximum).collect(),
            excluded: Some(found.excluded),
            profiles: vec![interval],
            several: None,
        })
    }

    fn posterior(
        &self,
        found: &JointMaximum,
        priors: &[SdPrior],
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Result<GridPosterior, Error> {
        let places = found.betas.iter().zip(&found.maxima);
        let starts: Vec<_> = places.map(|(beta, m)| (beta.clone(), m.scales[0])).collect();
        let mixture = self.posterior_over(&starts, priors[0], journal, observer)?;
        let scales = mixture.nodes.iter().map(|n| vec![n.sd]).collect();
        let keys = (0..mixture.nodes.len() as i64).map(|k| [k, 0]).collect();
        Ok(GridPosterior { mixture, scales, keys })
    }

    fn effects_of(&self, groups: Range<usize>, nodes: &[Node], _: &[Vec<f64>]) -> Result<Vec<Effect>, Error> {
        let nodes = nodes.to_vec();
        let few = Mixture { nodes, log_evidence: f64::NAN, refinement: f64::NAN, evaluations: 0 };
        Ok(Collapsed::effects_of(self, groups, &few))
    }

    fn confirm(&self, start: &[f64], found: &[f64], interval: Option<[f64; 2]>) -> Result<Confirmed, Error> {
        Collapsed::confirm(self, start, found[0], interval.unwrap_or([found[0]; 2]))
    }

    fn confirm_excluded(&self, start: &[f64], found: &[f64], claim: &Excluded) -> Result<bool, Error> {
        Collapsed::confirm_excluded(self, start, found[0], claim)
    }

    fn weights_differ(&self, posterior: &MixturePosterior, priors: &[SdPrior]) -> Result<f64, Error> {
        Collapsed::weights_differ(self, &posterior.mixture(), priors[0])
    }

    fn agree(&self) -> f64 {
        collapsed::AGREE
    }

    fn density<'a>(&'a self, priors: &'a [SdPrior]) -> Option<Box<dyn CollapsedDensity + 'a>> {
        Some(Box::new(EffectDensity::new(self, priors[0])))
    }
}

/// A problem of one scale or two: what differs between the noise of a linear model and the dispersion of counts.
pub(crate) trait Gridded: ScaleProblem + Send {
    fn all_groups(&self) -> usize;

    fn words(&self) -> String;

    /// See [`ScaleEngine::effects_of`].
    fn group_effects(
        &self,
        _groups: Range<usize>,
        _nodes: &[Node],
        _scales: &[Vec<f64>],
    ) -> Result<Vec<Effect>, Error> {
        Ok(Vec::new())
    }

    fn holds(&self) -> &'static str {
        " at the estimate"
    }

    fn collapsed_density<'a>(&'a self, _priors: &'a [SdPrior]) -> Option<Box<dyn CollapsedDensity + 'a>> {
        None
    }

    fn joint(&self) -> Option<&dyn JointLaw> {
        None
    }

    fn closed(&self) -> Option<&dyn ClosedForm> {
        None
    }
}

impl Gridded for LinearNoise {
    fn all_groups(&self) -> usize {
        self.groups()
    }

    fn words(&self) -> String {
        match self.groups() {
            0 => "coefficients in closed form at every sigma".into(),
            groups => format!("{} integrated out in closed form", counted(groups, "group")),
        }
    }

    fn group_effects(
        &self,
        groups: Range<usize>,
        nodes: &[Node],
        scales: &[Vec<f64>],
    ) -> Result<Vec<Effect>, Error> {
        Ok(self.effects_of(groups, nodes, scales))
    }
}

impl Gridded for Dispersion {
    fn all_groups(&self) -> usize {
        self.groups()
    }

    fn words(&self) -> String {
        match self.groups() {
            0 => "coefficients by Newton's method at every dispersion".into(),
            groups => one_by_one(groups),
        }
    }

    fn group_effects(
        &self,
        groups: Range<usize>,
        nodes: &[Node],
        scales: &[Vec<f64>],
    ) -> Result<Vec<Effect>, Error> {
        self.effects_of(groups, nodes, scales)
    }

    fn holds(&self) -> &'static str {
        match self {
            Self::Grouped(_) => " at each grid point",
            Self::Plain(_) => " at the estimate",
        }
    }

    fn collapsed_density<'a>(&'a self, priors: &'a [SdPrior]) -> Option<Box<dyn CollapsedDensity + 'a>> {
        Some(Box::new(CountDensity::new(self, priors)))
    }
}

impl<T: Gridded> ScaleEngine for T {
    fn groups(&self) -> usize {
        self.all_groups()
    }

    fn integrated(&self) -> String {
        self.words()
    }

    fn error_holds(&self) -> &'static str {
        self.holds()
    }

    fn estimate(
        &self,
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
        _: bool,
    ) -> Result<JointMaximum, Error> {
        let start = vec![0.0; ScaleProblem::dim(self)];
        let ScalesEstimate {
            beta,
            scales,
            log_covariance,
            intervals,
            factor,
            log_likelihood,
            error,
            maxima,
            excluded,
            ..
        } = scales::estimate_observed(self, &start, journal, observer)?;
        let (betas, profiles, several) = (Vec::new(), Vec::new(), None);
        Ok(JointMaximum {
            beta,
            scales,
            log_covariance,
            intervals,
            factor,
            log_likelihood,
            error,
            maxima,
            betas,
            excluded,
            profiles,
            several,
        })
    }

    fn posterior(
        &self,
        found: &JointMaximum,
        priors: &[SdPrior],
        journal: &mut Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Result<GridPosterior, Error> {
        let maxima: Vec<Vec<f64>> = found.maxima.iter().map(|m| m.scales.clone()).collect();
        let on_grid = scales::posterior_observed(self, &found.beta, &maxima, priors, journal, observer)?;
        Ok(GridPosterior { mixture: on_grid.mixture, scales: on_grid.scales, keys: on_grid.keys })
    }

    fn effects_of(
        &self,
        groups: Range<usize>,
        nodes: &[Node],
        scales: &[Vec<f64>],
    ) -> Result<Vec<Effect>, Error> {
        self.group_effects(groups, nodes, scales)
    }

    fn confirm(&self, start: &[f64], found: &[f64], interval: Option<[f64; 2]>) -> Result<Confirmed, Error> {
        scales::confirm(self, start, found, interval)
    }

    fn confirm_excluded(&self, start: &[f64], found: &[f64], claim: &Excluded) -> Result<bool, Error> {
        scales::confirm_excluded(self, start, found, claim)
    }

    fn weights_differ(&self, posterior: &MixturePosterior, priors: &[SdPrior]) -> Result<f64, Error> {
        scales::weights_differ(self, &posterior.nodes, &posterior.scales, priors)
    }

    fn agree(&self) -> f64 {
        scales::AGREE[self.names().len() - 1]
    }

    fn density<'a>(&'a self, priors: &'a [SdPrior]) -> Option<Box<dyn CollapsedDensity + 'a>> {
        self.collapsed_density(priors)
    }

    fn joint_law(&self) -> Option<&dyn JointLaw> {
        self.joint()
    }

    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        self.closed()
    }
}
