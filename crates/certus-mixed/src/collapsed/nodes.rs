//! The nodes of a group's integral, and what is computed at them.

use certus_likelihood::special::exp;

/// The number of nodes is a multiple of this.
pub(crate) const LANES: usize = 8;

/// Equally spaced nodes: first + k·step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spaced {
    pub(crate) first: f64,
    pub(crate) step: f64,
    pub(crate) count: usize,
}

/// What the nodes of a group hold, reused from group to group.
#[derive(Default)]
pub(crate) struct Nodes {
    /// u_k.
    pub(crate) u: Vec<f64>,
    /// First ψ(u_k), then p_k, the posterior weights.
    pub(crate) p: Vec<f64>,
    /// w_i φ_i′(u_k), row after row.
    pub(crate) slope: Vec<f64>,
    /// w_i φ_i″(u_k).
    pub(crate) curvature: Vec<f64>,
}

impl Nodes {
    /// E w_i φ_i′.
    pub(crate) fn mean_slope(&self, i: usize) -> f64 {
        let count = self.u.len();
        self.p.iter().zip(&self.slope[i * count..][..count]).map(|(p, s)| p * s).sum()
    }

    /// ψ becomes weights; returns Σ e^{least − ψ}.
    pub(super) fn weigh(&mut self, least: f64) -> f64 {
        pulp::Arch::new().dispatch(Weigh { p: &mut self.p, least })
    }

    /// The largest |u_k|.
    pub(super) fn farthest(&self) -> f64 {
        self.u[0].abs().max(self.u[self.u.len() - 1].abs())
    }
}

/// p ← e^{least − p} over its sum, which is returned, vectorised.
struct Weigh<'a> {
    p: &'a mut [f64],
    least: f64,
}

impl pulp::NullaryFnOnce for Weigh<'_> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let Weigh { p, least } = self;
        let mut lanes = [0.0; LANES];
        let (runs, _) = p.as_chunks_mut::<LANES>();
        for run in &mut *runs {
            for k in 0..LANES {
                run[k] = exp(least - run[k]);
                lanes[k] += run[k];
            }
        }
        let sum: f64 = lanes.iter().sum();
        let part = 1.0 / sum;
        runs.iter_mut().for_each(|run| run.iter_mut().for_each(|p| *p *= part));
        sum
    }
}
