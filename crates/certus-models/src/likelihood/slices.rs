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
            let parts = $crate::likelihood::Derivatives { likelihood, t, data, weight, slope, bend };
            pulp::Arch::new().dispatch(parts)
        }

        fn trapezoid_value(
            &self,
            mean: f64,
            sd: f64,
            datum: $crate::likelihood::Datum,
            nodes: &[f64],
            weights: &[f64],
        ) -> f64 {
            let likelihood = self;
            let line = $crate::likelihood::TrapezoidValue { likelihood, mean, sd, datum, nodes, weights };
            pulp::Arch::new().dispatch(line)
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
            let line =
                $crate::likelihood::Trapezoid::<_, true> { likelihood, mean, sd, datum, nodes, weights };
            pulp::Arch::new().dispatch(line)
        }

        fn trapezoid_slopes(
            &self,
            mean: f64,
            sd: f64,
            datum: $crate::likelihood::Datum,
            nodes: &[f64],
            weights: &[f64],
        ) -> $crate::likelihood::Moments {
            let likelihood = self;
            let line =
                $crate::likelihood::Trapezoid::<_, false> { likelihood, mean, sd, datum, nodes, weights };
            pulp::Arch::new().dispatch(line)
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
    let (runs, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for run in runs {
        for k in 0..LANES {
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

/// [`Likelihood::trapezoid`] or, without `VALUE`, [`Likelihood::trapezoid_slopes`], vectorised.
pub(crate) struct Trapezoid<'a, L, const VALUE: bool> {
    pub(crate) likelihood: &'a L,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    pub(crate) datum: Datum,
    pub(crate) nodes: &'a [f64],
    pub(crate) weights: &'a [f64],
}

impl<L: Likelihood, const VALUE: bool> pulp::NullaryFnOnce for Trapezoid<'_, L, VALUE> {
    type Output = Moments;

    #[inline(always)]
    fn call(self) -> Moments {
        let Trapezoid { likelihood, mean, sd, datum, nodes, weights } = self;
        let mut terms = [[0.0; RUN]; 5];
        let (mut xs, mut ws) = ([0.0; RUN], [0.0; RUN]);
        let mut m = Moments::default();
        for (x, w) in nodes.chunks(RUN).zip(weights.chunks(RUN)) {
            let n = x.len();
            let (x, w) = (whole(x, &mut xs), whole(w, &mut ws));
            let [e0, e1, q0, q1, q2] = &mut terms;
            let (w, e0, e1) = (&w[..x.len()], &mut e0[..x.len()], &mut e1[..x.len()]);
            let (q0, q1, q2) = (&mut q0[..x.len()], &mut q1[..x.len()], &mut q2[..x.len()]);
            for k in 0..x.len() {
                let t = mean + sd * x[k];
                if VALUE {
                    e0[k] = w[k] * likelihood.value(t, datum);
                }
                e1[k] = w[k] * likelihood.slope(t, datum);
                q0[k] = w[k] * likelihood.bend(t, datum);
                q1[k] = q0[k] * x[k];
                q2[k] = q1[k] * x[k];
            }
            if VALUE {
                m.e0 += sum(&e0[..n]);
            }
            m.e1 += sum(&e1[..n]);
            m.q0 += sum(&q0[..n]);
            m.q1 += sum(&q1[..n]);
            m.q2 += sum(&q2[..n]);
        }
        m
    }
}

/// x followed by zeros up to a multiple of eight, so that no loop over it has a rest that is not vectorised.
#[inline(always)]
fn whole<'a>(x: &[f64], room: &'a mut [f64; RUN]) -> &'a [f64] {
    let n = x.len().next_multiple_of(8);
    room[x.len()..n].fill(0.0);
    room[..x.len()].copy_from_slice(x);
    &room[..n]
}

/// [`Likelihood::trapezoid_value`], vectorised; the first of the moments, to the bit.
pub(crate) struct TrapezoidValue<'a, L> {
    pub(crate) likelihood: &'a L,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    pub(crate) datum: Datum,
    pub(crate) nodes: &'a [f64],
    pub(crate) weights: &'a [f64],
}

impl<L: Likelihood> pulp::NullaryFnOnce for TrapezoidValue<'_, L> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let TrapezoidValue { likelihood, mean, sd, datum, nodes, weights } = self;
        let (mut xs, mut ws, mut e0) = ([0.0; RUN], [0.0; RUN], [0.0; RUN]);
        let mut total = 0.0;
        for (x, w) in nodes.chunks(RUN).zip(weights.chunks(RUN)) {
            let n = x.len();
            let (x, w) = (whole(x, &mut xs), whole(w, &mut ws));
            let (w, e0) = (&w[..x.len()], &mut e0[..x.len()]);
            for k in 0..x.len() {
                e0[k] = w[k] * likelihood.value(mean + sd * x[k], datum);
            }
            total += sum(&e0[..n]);
        }
        total
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
        let (mut xs, mut ws) = ([0.0; RUN], [0.0; RUN]);
        let mut total = [0.0; 3];
        for (x, w) in nodes.chunks(RUN).zip(weights.chunks(RUN)) {
            let n = x.len();
            let (x, w) = (whole(x, &mut xs), whole(w, &mut ws));
            let [q0, q1, q2] = &mut terms;
            let (w, q0) = (&w[..x.len()], &mut q0[..x.len()]);
            let (q1, q2) = (&mut q1[..x.len()], &mut q2[..x.len()]);
            for k in 0..x.len() {
                q0[k] = w[k] * at(x[k], reach * (1.0 + x[k] * x[k] * per_omega).sqrt());
                q1[k] = q0[k] * x[k];
                q2[k] = q1[k] * x[k];
            }
            total[0] += sum(&q0[..n]);
            total[1] += sum(&q1[..n]);
            total[2] += sum(&q2[..n]);
        }
        total
    }
}
