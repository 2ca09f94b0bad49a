//! The posterior in the frame of q, as `nuts-rs` asks for it, and its errors on their way back.

use std::collections::HashMap;

use certus::{Gaussian, Target, TargetError};
use nuts_rs::{CpuLogpFunc, CpuMathError, HasDims, LogpError, NutsError};

use crate::error::{Declined, Error, NotFinite};

/// x ↦ log p(m + Cx), with buffers for one point.
pub(super) struct Frame<'a> {
    target: &'a dyn Target,
    q: &'a Gaussian,
    z: Vec<f64>,
    gradient: Vec<f64>,
}

/// Why there is no density at a point.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The trajectory ends there, and the chain goes on.
    #[error("{what} is {value}")]
    NotFinite { what: &'static str, value: f64 },
    /// The chain ends.
    #[error("{0}")]
    Target(TargetError),
}

impl LogpError for Fault {
    fn is_recoverable(&self) -> bool {
        matches!(self, Fault::NotFinite { .. })
    }
}

impl<'a> Frame<'a> {
    pub(super) fn new(target: &'a dyn Target, q: &'a Gaussian) -> Self {
        Self { target, q, z: vec![0.0; q.dim()], gradient: vec![0.0; q.dim()] }
    }
}

impl HasDims for Frame<'_> {
    fn dim_sizes(&self) -> HashMap<String, u64> {
        HashMap::from([("unconstrained_parameter".to_string(), self.q.dim() as u64)])
    }
}

impl CpuLogpFunc for Frame<'_> {
    type LogpError = Fault;
    type FlowParameters = ();
    type ExpandedVector = Vec<f64>;

    fn dim(&self) -> usize {
        self.q.dim()
    }

    /// log p(z) and Cᵀ∇log p(z) at z = m + Cx.
    fn logp(&mut self, x: &[f64], gradient: &mut [f64]) -> Result<f64, Fault> {
        self.q.transform(x, &mut self.z);
        finite("a latent", &self.z)?;
        let mut value = [0.0];
        self.target.log_density(&self.z, &mut value, &mut self.gradient).map_err(Fault::Target)?;
        finite("the log density", &value)?;
        finite("the gradient of the log density", &self.gradient)?;
        gradient.fill(0.0);
        self.q.factor().add_apply_transpose(&self.gradient, gradient);
        finite("the gradient of the log density in the frame of q", gradient)?;
        Ok(value[0])
    }

    fn expand_vector<R: nuts_rs::rand::Rng + ?Sized>(
        &mut self,
        _: &mut R,
        x: &[f64],
    ) -> Result<Vec<f64>, CpuMathError> {
        Ok(x.to_vec())
    }
}

fn finite(what: &'static str, values: &[f64]) -> Result<(), Fault> {
    match values.iter().find(|x| !x.is_finite()) {
        Some(&value) => Err(Fault::NotFinite { what, value }),
        None => Ok(()),
    }
}

/// What ended a chain at `place`: the target, a number that is not finite, or else the one thing that the sampler
/// refuses itself, a gradient with a zero where it sets its scales.
pub(super) fn cause(error: Option<NutsError>, place: String) -> Error {
    let fault = match error {
        Some(NutsError::LogpFailure(inner) | NutsError::BadInitGrad(inner)) => inner.downcast().ok(),
        _ => None,
    };
    match fault.map(|fault| *fault) {
        Some(Fault::Target(error)) => certus::Error::Target(error).into(),
        Some(Fault::NotFinite { what, value }) => NotFinite::Value { what, value, place }.into(),
        None => Declined::NoSlope { place }.into(),
    }
}
