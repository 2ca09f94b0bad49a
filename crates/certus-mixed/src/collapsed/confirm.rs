//! Claims about the sd, checked from the data: does the interval hold a maximum (Theorem K3), and do the weights of a
//! grid follow?

use super::mixture::weights;
use super::profile::factor;
use super::{Collapsed, Mixture, Node, ObjectiveValue, SdPrior};
use crate::evaluations::{Evaluations, Stage};
use certus_models::Error;

/// An interval of sds, looked at again.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmed {
    /// The log likelihood at the estimate, where β maximises F.
    pub log_likelihood: f64,
    /// F there.
    pub value: f64,
    /// Bound on its error.
    pub error: f64,
    /// How much lower F is at the estimate than it can be at the ends, in nats, every error counted: above 0 there is a
    /// maximum between them.
    pub margins: [f64; 2],
}

impl Collapsed {
    /// F_p at both ends of `interval` against F at `sd` between them. `start` are coefficients to begin with. An end of
    /// 0 needs no margin: a maximum at 0 itself counts.
    pub fn confirm(&self, start: &[f64], sd: f64, interval: [f64; 2]) -> Result<Confirmed, Error> {
        let evaluations = &mut Evaluations::hidden(Stage::Interval);
        // the likelihood at 0 is that at an sd too small to matter
        let least = self.smallest() - 8.0;
        let here = self.profile(start, sd.ln().max(least), 0.0, evaluations)?;
        let metric = factor(&here.at.hessian, self.dim)?;
        let top = here.at.value + here.at.error;
        let mut margins = [f64::INFINITY; 2];
        for (margin, end) in margins.iter_mut().zip(interval) {
            if end == 0.0 {
                continue;
            }
            *margin = self.at_least(&here.beta, end.ln(), &metric, top, evaluations)? - top;
        }
        if !(interval[0] <= sd && sd <= interval[1]) {
            margins = [f64::NEG_INFINITY; 2];
        }
        let ObjectiveValue { log_likelihood, value, error, .. } = here.at;
        Ok(Confirmed { log_likelihood, value, error, margins })
    }

    /// The largest difference between the weights of a mixture and those that follow from the data at its nodes;
    /// infinite if a node's coefficients do not maximise F there.
    pub fn weights_differ(&self, mixture: &Mixture, prior: SdPrior) -> Result<f64, Error> {
        let evaluations = &mut Evaluations::hidden(Stage::Posterior);
        differ(&mixture.nodes, |_, node| {
            let raw = self.raw(&node.mean, node.sd.ln(), prior, evaluations)?;
            Ok((raw.profile.beta, raw.log_density))
        })
    }
}

/// The same of any nodes; `at` says which coefficients maximise F at a node, and the logarithm of the density there.
pub(crate) fn differ(
    nodes: &[Node],
    mut at: impl FnMut(usize, &Node) -> Result<(Vec<f64>, f64), Error>,
) -> Result<f64, Error> {
    let mut logs = Vec::with_capacity(nodes.len());
    for (k, node) in nodes.iter().enumerate() {
        let (beta, log_density) = at(k, node)?;
        let mut moved = node.mean.iter().zip(&beta).enumerate();
        if moved.any(|(j, (a, b))| (a - b).abs() > 1e-3 * node.sd_of(j)) {
            return Ok(f64::INFINITY);
        }
        logs.push(log_density);
    }
    let (own, _) = weights(&logs);
    Ok(own.iter().zip(nodes).map(|(own, node)| (own - node.weight).abs()).fold(0.0, f64::max))
}
