//! F at (β, θ) as the evaluation of a run.

use super::{Collapsed, EvaluationOptions, ObjectiveValue, Order};
use crate::evaluations::{Evaluations, Packed};
use crate::journal::{key, packed, unpacked};
use certus_models::Error;

impl Packed for ObjectiveValue {
    fn pack(&self) -> Vec<f64> {
        let numbers = [self.value, self.log_likelihood, self.error];
        packed(&[&numbers, &self.gradient, &self.gradient_error, &self.hessian, &self.least_hessian])
    }

    fn unpack(values: &[f64]) -> Option<Self> {
        let [numbers, gradient, gradient_error, hessian, least_hessian] = unpacked(values)?;
        let [value, log_likelihood, error] = numbers[..] else { return None };
        Some(Self { value, log_likelihood, error, gradient, gradient_error, hessian, least_hessian })
    }
}

impl Collapsed {
    /// F and its derivatives. Looks at a part of the rows are not counted.
    pub(super) fn at_in(
        &self,
        evaluations: &mut Evaluations<'_>,
        beta: &[f64],
        log_sd: f64,
        options: EvaluationOptions<'_>,
    ) -> Result<ObjectiveValue, Error> {
        let key = || {
            let (second, slopes) = (options.order == Order::Second, options.slope_errors);
            let flags = [second, slopes].map(|flag| if flag { 1.0 } else { 0.0 });
            let (metric, radius) = options.metric.unwrap_or((&[], f64::NAN));
            key([beta, &[log_sd, options.epsilon, radius, self.every as f64], &flags, metric])
        };
        let at = evaluations.recall(key, || self.evaluate(beta, log_sd, options))?;
        if self.every == 1 {
            evaluations.show(1, || vec![log_sd.exp()], at.log_likelihood)?;
        }
        Ok(at)
    }
}
