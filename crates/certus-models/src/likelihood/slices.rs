//! Losses on whole slices: loops that are compiled per likelihood and vectorised for the machine they run on.

use super::{Datum, Likelihood, Moments};

/// The slice methods of an `impl Likelihood`, compiled with its scalar methods inlined and with the vector instructions the
/// machine has.
macro_rules! slice_methods {
    () => {
        $crate::likelihood::moment_methods!();
        $crate::likelihood::lower_method!();
    };
}
pub(crate) use slice_methods;

/// [`slice_methods`] but for [`Likelihood::lower_trapezoid`].
macro_rules! moment_methods {
    () => {
        fn slopes(&self, t: &mut [f64], data: &[$crate::likelihood::Datum], weight: &[f64]) -> f64 {
            pulp::Arch::new().dispatch($crate::likelihood::Slopes { likelihood: self, t, data, weight })
        }

        fn derivatives(
            &self,
            t: &[f64],
            data: &[$crate::likelihood::Datum],
            weight: &[f64],
            slope: &mut [f64],
            bend: &mut [f64],
        ) -> f64 {
            let likelihood = self;
            let all = $crate::likelihood::Derivatives { likelihood, t, data, weight, slope, bend };
            pulp::Arch::new().dispatch(all)
        }

        fn along(
            &self,
            t: f64,
            s: f64,
            datum: $crate::likelihood::Datum,
            weight: f64,
            nodes: &[f64],
            value: &mut [f64],
            slope: &mut [f64],
            bend: &mut [f64],
        ) {
            let likelihood = self;
            let line =
                $crate::likelihood::Along { likelihood, t, s, datum, weight, nodes, value, slope, bend };
            pulp::Arch::new().dispatch(line);
        }

        fn trapezoid(
            &self,
            mean: f64,
            sd: f64,
            datum: $crate::likelihood::Datum,
            nodes: &[f64],
            weights: &[f64],
        ) -> $crate::likelihood::Moments {
            let likelihood = self;
            pulp::Arch::new().dispatch($crate::likelihood::Trapezoid {
                likelihood,
                mean,
                sd,
                datum,
                nodes,
                weights,
            })
        }
    };
}
pub(crate) use moment_methods;

/// [`Likelihood::lower_trapezoid`].
macro_rules! lower_method {
    () => {
        fn lower_trapezoid(
            &self,
            mean: f64,
            sd: f64,
            datum: $crate::likelihood::Datum,
            nodes: &[f64],
            weights: &[f64],
            reach: f64,
            omega: f64,
        ) -> [f64; 3] {
            let likelihood = self;
            let at = |x: f64, d: f64| likelihood.bend_near(mean + sd * x, d, datum);
            pulp::Arch::new().dispatch($crate::likelihood::Lower { at, nodes, weights, reach, omega })
        }
    };
}
pub(crate) use lower_method;

/// Values in a loop of fixed length, which leaves no rest to be done one by one.
const LANES: usize = 8;

/// Values worked on at a time. The loops over a run have no other purpose than to be vectorised.
const RUN: usize = 128;

/// Σ x, in eight sums that are kept apart.
#[inline(always)]
fn sum(x: &[f64]) -> f64 {
    let (runs, rest) = x.as_chunks::<8>();
    let mut lanes = [0.0; 8];
    for run in runs {
        for k in 0..8 {
            lanes[k] += run[k];
        }
    }
    lanes.iter().chain(rest).sum()
}

/// [`Likelihood::slopes`], vectorised.
pub(crate) struct Slopes<'a, L> {
    pub(crate) likelihood: &'a L,
    pub(crate) t: &'a mut [f64],
    pub(crate) data: &'a [Datum],
    pub(crate) weight: &'a [f64],
}

impl<L: Likelihood> pulp::NullaryFnOnce for Slopes<'_, L> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let Slopes { likelihood, t, data, weight } = self;
        let mut value = [0.0; RUN];
        let mut total = 0.0;
        for ((t, data), weight) in t.chunks_mut(RUN).zip(data.chunks(RUN)).zip(weight.chunks(RUN)) {
            let n = t.len();
            let (data, weight, value) = (&data[..n], &weight[..n], &mut value[..n]);
            for k in 0..n {
                value[k] = weight[k] * likelihood.value(t[k], data[k]);
                t[k] = weight[k] * likelihood.slope(t[k], data[k]);
            }
            total += sum(value);
        }
        total
    }
}

/// [`Likelihood::derivatives`], vectorised: the last few rows are filled up with rows of weight 0.
pub(crate) struct Derivatives<'a, L> {
    pub(crate) likelihood: &'a L,
    pub(crate) t: &'a [f64],
    pub(crate) data: &'a [Datum],
    pub(crate) weight: &'a [f64],
    pub(crate) slope: &'a mut [f64],
    pub(crate) bend: &'a mut [f64],
}

impl<L: Likelihood> pulp::NullaryFnOnce for Derivatives<'_, L> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let Derivatives { likelihood, t, data, weight, slope, bend } = self;
        let mut total = 0.0;
        for from in (0..t.len()).step_by(LANES) {
            let n = LANES.min(t.len() - from);
            let (mut at, mut w, mut datum) = ([0.0; LANES], [0.0; LANES], [data[from]; LANES]);
            at[..n].copy_from_slice(&t[from..][..n]);
            w[..n].copy_from_slice(&weight[from..][..n]);
            datum[..n].copy_from_slice(&data[from..][..n]);
            let [mut values, mut slopes, mut bends] = [[0.0; LANES]; 3];
            for k in 0..LANES {
                values[k] = w[k] * likelihood.value(at[k], datum[k]);
                slopes[k] = w[k] * likelihood.slope(at[k], datum[k]);
                bends[k] = w[k] * likelihood.bend(at[k], datum[k]);
            }
            values[..n].iter().for_each(|v| total += v);
            slope[from..][..n].copy_from_slice(&slopes[..n]);
            bend[from..][..n].copy_from_slice(&bends[..n]);
        }
        total
    }
}

/// [`Likelihood::along`], vectorised.
pub(crate) struct Along<'a, L> {
    pub(crate) likelihood: &'a L,
    pub(crate) t: f64,
    pub(crate) s: f64,
    pub(crate) datum: Datum,
    pub(crate) weight: f64,
    pub(crate) nodes: &'a [f64],
    pub(crate) value: &'a mut [f64],
    pub(crate) slope: &'a mut [f64],
    pub(crate) bend: &'a mut [f64],
}

impl<L: Likelihood> pulp::NullaryFnOnce for Along<'_, L> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Along { likelihood, t, s, datum, weight, nodes, value, slope, bend } = self;
        let n = nodes.len();
        let (value, slope, bend) = (&mut value[..n], &mut slope[..n], &mut bend[..n]);
        for k in 0..n {
            let at = t + s * nodes[k];
            value[k] += weight * likelihood.value(at, datum);
            slope[k] = weight * likelihood.slope(at, datum);
            bend[k] = weight * likelihood.bend(at, datum);
        }
    }
}

/// [`Likelihood::trapezoid`], vectorised.
pub(crate) struct Trapezoid<'a, L> {
    pub(crate) likelihood: &'a L,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    pub(crate) datum: Datum,
    pub(crate) nodes: &'a [f64],
    pub(crate) weights: &'a [f64],
}

impl<L: Likelihood> pulp::NullaryFnOnce for Trapezoid<'_, L> {
    type Output = Moments;

    #[inline(always)]
    fn call(self) -> Moments {
        let Trapezoid { likelihood, mean, sd, datum, nodes, weights } = self;
        let mut terms = [[0.0; RUN]; 5];
        let mut m = Moments::default();
        for (x, w) in nodes.chunks(RUN).zip(weights.chunks(RUN)) {
            let n = x.len();
            let [e0, e1, q0, q1, q2] = &mut terms;
            let (w, e0, e1) = (&w[..n], &mut e0[..n], &mut e1[..n]);
            let (q0, q1, q2) = (&mut q0[..n], &mut q1[..n], &mut q2[..n]);
            for k in 0..n {
                let t = mean + sd * x[k];
                e0[k] = w[k] * likelihood.value(t, datum);
                e1[k] = w[k] * likelihood.slope(t, datum);
                q0[k] = w[k] * likelihood.bend(t, datum);
                q1[k] = q0[k] * x[k];
                q2[k] = q1[k] * x[k];
            }
            m.e0 += sum(e0);
            m.e1 += sum(e1);
            m.q0 += sum(q0);
            m.q1 += sum(q1);
            m.q2 += sum(q2);
        }
        m
    }
}

/// Σ_k w_k at(x_k, reach·√(1 + x_k²/ω))(1, x_k, x_k²), vectorised.
pub(crate) struct Lower<'a, F> {
    pub(crate) at: F,
    pub(crate) nodes: &'a [f64],
    pub(crate) weights: &'a [f64],
    pub(crate) reach: f64,
    pub(crate) omega: f64,
}

impl<F: Fn(f64, f64) -> f64> pulp::NullaryFnOnce for Lower<'_, F> {
    type Output = [f64; 3];

    #[inline(always)]
    fn call(self) -> [f64; 3] {
        let Lower { at, nodes, weights, reach, omega } = self;
        let per_omega = 1.0 / omega;
        let mut terms = [[0.0; RUN]; 3];
        let mut total = [0.0; 3];
        for (x, w) in nodes.chunks(RUN).zip(weights.chunks(RUN)) {
            let n = x.len();
            let [q0, q1, q2] = &mut terms;
            let (w, q0, q1, q2) = (&w[..n], &mut q0[..n], &mut q1[..n], &mut q2[..n]);
            for k in 0..n {
                q0[k] = w[k] * at(x[k], reach * (1.0 + x[k] * x[k] * per_omega).sqrt());
                q1[k] = q0[k] * x[k];
                q2[k] = q1[k] * x[k];
            }
            total[0] += sum(q0);
            total[1] += sum(q1);
            total[2] += sum(q2);
        }
        total
    }
}
