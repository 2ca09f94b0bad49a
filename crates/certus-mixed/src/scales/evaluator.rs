//! β̂ at given scales as the evaluation of a run.

use super::{Care, ConditionalFit, ScaleProblem};
use crate::evaluations::{Evaluations, Packed};
use crate::journal::{key, packed, unpacked};
use certus_models::Error;

impl Packed for ConditionalFit {
    fn pack(&self) -> Vec<f64> {
        let Self { value, log_likelihood, log_det, error, evaluations, .. } = *self;
        packed(&[&[value, log_likelihood, log_det, error, evaluations as f64], &self.beta, &self.lower])
    }

    fn unpack(values: &[f64]) -> Option<Self> {
        let [numbers, beta, lower] = unpacked(values)?;
        let [value, log_likelihood, log_det, error, evaluations] = numbers[..] else { return None };
        Some(Self { beta, value, log_likelihood, lower, log_det, error, evaluations: evaluations as usize })
    }
}

/// A model and the evaluations of a run over it.
pub(super) struct ScaleEvaluator<'a, M: ?Sized> {
    pub(super) model: &'a M,
    pub(super) evaluations: Evaluations<'a>,
}

impl<M: ScaleProblem + ?Sized> ScaleEvaluator<'_, M> {
    /// β̂ at x; [`Error::Stopped`] if the observer ends the run.
    pub(super) fn conditional_fit(
        &mut self,
        x: &[f64],
        start: &[f64],
        care: Care,
    ) -> Result<ConditionalFit, Error> {
        let model = self.model;
        let key = || key([x, start, &[if care == Care::Full { 1.0 } else { 0.0 }]]);
        let conditional_fit = self.evaluations.recall(key, || model.conditional_fit(x, start, care))?;
        let scales = || model.log_scales(x).iter().map(|l| l.exp()).collect();
        self.evaluations.show(conditional_fit.evaluations, scales, conditional_fit.log_likelihood)?;
        Ok(conditional_fit)
    }
}
