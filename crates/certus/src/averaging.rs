//! Which point a run returns: the last iterate, the θ-weighted mean of the convex theorems, or the mean of the tail.

use crate::gaussian::Gaussian;

/// A rule for the returned point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Averaging {
    /// w_T.
    Last,
    /// Σ θ^{t+1} w_t / Σ θ^{t+1}: over t = 1..T after a prox, over t = 0..T−1 after a projection (A23).
    Theta {
        /// log θ < 0.
        log_theta: f64,
        /// The first iterate that counts: 1 (prox) or 0 (projection).
        first: u64,
    },
    /// Plain mean of w_t for t ≥ start.
    Tail {
        /// First iterate that counts.
        start: u64,
    },
}

/// A streaming weighted mean of iterates; weights are kept as logarithms, so θ^T may underflow without harm.
#[derive(Clone, Debug, PartialEq)]
pub struct Average {
    /// The mean so far.
    pub mean: Gaussian,
    /// log Σ weights.
    pub log_total: f64,
}

impl Averaging {
    /// log weight of iterate w_t, or `None` if it does not count.
    fn log_weight(&self, t: u64) -> Option<f64> {
        match *self {
            Averaging::Last => None,
            Averaging::Theta { log_theta, first } => (t >= first).then(|| (t + 1) as f64 * log_theta),
            Averaging::Tail { start } => (t >= start).then_some(0.0),
        }
    }

    /// Takes iterate w_t into the mean. For `Theta` with `first: 0` call it *before* step t, otherwise after.
    pub fn take(&self, average: &mut Option<Average>, t: u64, w: &Gaussian) {
        let Some(log_weight) = self.log_weight(t) else { return };
        match average {
            None => *average = Some(Average { mean: w.clone(), log_total: log_weight }),
            Some(a) => {
                // log(e^total + e^weight), the larger one taken out
                let (high, low) = (a.log_total.max(log_weight), a.log_total.min(log_weight));
                a.log_total = high + (low - high).exp().ln_1p();
                a.mean.move_towards(w, (log_weight - a.log_total).exp());
            }
        }
    }

    /// True if iterates count before the step that leaves them (projection theorem).
    pub fn counts_before_step(&self) -> bool {
        matches!(self, Averaging::Theta { first: 0, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor::Family;

    #[test]
    fn streaming_mean_equals_the_sum() {
        let iterate = |t: u64| {
            Gaussian::isotropic(vec![(t as f64).sin(), t as f64], 1.0 + t as f64, &Family::Lower)
                .expect("valid")
        };
        for (rule, decay) in
            [(Averaging::Theta { log_theta: -0.3, first: 1 }, -0.3), (Averaging::Tail { start: 1 }, 0.0)]
        {
            let weight = |t: u64| f64::exp(decay * (t + 1) as f64);
            let (mut average, mut sum, mut total) = (None, 0.0, 0.0);
            for t in 0..40 {
                rule.take(&mut average, t, &iterate(t));
                if t >= 1 {
                    sum += weight(t) * iterate(t).mean()[0];
                    total += weight(t);
                }
            }
            let got = average.expect("iterates were taken").mean.mean()[0];
            assert!((got - sum / total).abs() < 1e-14, "{rule:?}: {got} against {}", sum / total);
        }
    }

    /// θ^t underflows after 745/|log θ| iterates; the mean must not notice.
    #[test]
    fn weights_may_underflow() {
        let (rule, mut average) = (Averaging::Theta { log_theta: -50.0, first: 0 }, None);
        for t in 0..1000 {
            let w = Gaussian::isotropic(vec![t as f64], 1.0, &Family::Lower).expect("valid");
            rule.take(&mut average, t, &w);
        }
        let a = average.expect("iterates were taken");
        assert!(a.mean.mean()[0] < 1e-20 && a.log_total.is_finite());
    }
}
