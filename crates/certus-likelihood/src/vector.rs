//! The loops behind slices, vectorised for the machine they run on.

use crate::loss::{Datum, Loss, Moments};

/// Values in a loop of fixed length, which leaves no rest to be done one by one.
const LANES: usize = 8;

/// Values worked on at a time. The loops over a block have no other purpose than to be vectorised.
const BLOCK: usize = 128;

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

/// [`crate::Slices::first_derivatives`], vectorised.
pub(crate) struct FirstDerivatives<'a, L> {
    pub(crate) loss: &'a L,
    pub(crate) t: &'a mut [f64],
    pub(crate) data: &'a [Datum],
    pub(crate) weight: &'a [f64],
}

impl<L: Loss> pulp::NullaryFnOnce for FirstDerivatives<'_, L> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let FirstDerivatives { loss, t, data, weight } = self;
        let mut value = [0.0; BLOCK];
        let mut total = 0.0;
        for ((t, data), weight) in t.chunks_mut(BLOCK).zip(data.chunks(BLOCK)).zip(weight.chunks(BLOCK)) {
            let n = t.len();
            let (data, weight, value) = (&data[..n], &weight[..n], &mut value[..n]);
            for k in 0..n {
                value[k] = weight[k] * loss.value(t[k], data[k]);
                t[k] = weight[k] * loss.first_derivative(t[k], data[k]);
            }
            total += sum(value);
        }
        total
    }
}

/// [`crate::Slices::derivatives`], vectorised: the last few rows are filled up with rows of weight 0.
pub(crate) struct Derivatives<'a, L> {
    pub(crate) loss: &'a L,
    pub(crate) t: &'a [f64],
    pub(crate) data: &'a [Datum],
    pub(crate) weight: &'a [f64],
    pub(crate) first: &'a mut [f64],
    pub(crate) second: &'a mut [f64],
}

impl<L: Loss> pulp::NullaryFnOnce for Derivatives<'_, L> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let Derivatives { loss, t, data, weight, first, second } = self;
        let mut total = 0.0;
        for from in (0..t.len()).step_by(LANES) {
            let n = LANES.min(t.len() - from);
            let (mut at, mut w, mut datum) = ([0.0; LANES], [0.0; LANES], [data[from]; LANES]);
            at[..n].copy_from_slice(&t[from..][..n]);
            w[..n].copy_from_slice(&weight[from..][..n]);
            datum[..n].copy_from_slice(&data[from..][..n]);
            let [mut values, mut firsts, mut seconds] = [[0.0; LANES]; 3];
            for k in 0..LANES {
                values[k] = w[k] * loss.value(at[k], datum[k]);
                firsts[k] = w[k] * loss.first_derivative(at[k], datum[k]);
                seconds[k] = w[k] * loss.second_derivative(at[k], datum[k]);
            }
            values[..n].iter().for_each(|v| total += v);
            first[from..][..n].copy_from_slice(&firsts[..n]);
            second[from..][..n].copy_from_slice(&seconds[..n]);
        }
        total
    }
}

/// [`crate::Slices::along`], vectorised.
pub(crate) struct Along<'a, L> {
    pub(crate) loss: &'a L,
    pub(crate) t: f64,
    pub(crate) s: f64,
    pub(crate) datum: Datum,
    pub(crate) weight: f64,
    pub(crate) nodes: &'a [f64],
    pub(crate) value: &'a mut [f64],
    pub(crate) first: &'a mut [f64],
    pub(crate) second: &'a mut [f64],
}

impl<L: Loss> pulp::NullaryFnOnce for Along<'_, L> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Along { loss, t, s, datum, weight, nodes, value, first, second } = self;
        let n = nodes.len();
        let (value, first, second) = (&mut value[..n], &mut first[..n], &mut second[..n]);
        for k in 0..n {
            let at = t + s * nodes[k];
            value[k] += weight * loss.value(at, datum);
            first[k] = weight * loss.first_derivative(at, datum);
            second[k] = weight * loss.second_derivative(at, datum);
        }
    }
}

/// [`crate::Slices::line_values`], vectorised.
pub(crate) struct LineValues<'a, L> {
    pub(crate) loss: &'a L,
    pub(crate) t: &'a [f64],
    pub(crate) s: &'a [f64],
    pub(crate) data: &'a [Datum],
    pub(crate) weight: &'a [f64],
    pub(crate) first: f64,
    pub(crate) step: f64,
    pub(crate) value: &'a mut [f64],
}

impl<L: Loss> pulp::NullaryFnOnce for LineValues<'_, L> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let LineValues { loss, t, s, data, weight, first, step, value } = self;
        for i in 0..t.len() {
            let (base, slope) = (t[i] + s[i] * first, s[i] * step);
            for k in 0..value.len() {
                value[k] += weight[i] * loss.value(base + slope * k as f64, data[i]);
            }
        }
    }
}

/// [`crate::Slices::trapezoid`] or, without `VALUE`, [`crate::Slices::trapezoid_derivatives`], vectorised.
pub(crate) struct Trapezoid<'a, L, const VALUE: bool> {
    pub(crate) loss: &'a L,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    pub(crate) datum: Datum,
    pub(crate) nodes: &'a [f64],
    pub(crate) weights: &'a [f64],
}

impl<L: Loss, const VALUE: bool> pulp::NullaryFnOnce for Trapezoid<'_, L, VALUE> {
    type Output = Moments;

    #[inline(always)]
    fn call(self) -> Moments {
        let Trapezoid { loss, mean, sd, datum, nodes, weights } = self;
        let mut terms = [[0.0; BLOCK]; 5];
        let (mut xs, mut ws) = ([0.0; BLOCK], [0.0; BLOCK]);
        let mut m = Moments::default();
        for (x, w) in nodes.chunks(BLOCK).zip(weights.chunks(BLOCK)) {
            let n = x.len();
            let (x, w) = (whole(x, &mut xs), whole(w, &mut ws));
            let [e0, e1, q0, q1, q2] = &mut terms;
            let (w, e0, e1) = (&w[..x.len()], &mut e0[..x.len()], &mut e1[..x.len()]);
            let (q0, q1, q2) = (&mut q0[..x.len()], &mut q1[..x.len()], &mut q2[..x.len()]);
            for k in 0..x.len() {
                let t = mean + sd * x[k];
                if VALUE {
                    e0[k] = w[k] * loss.value(t, datum);
                }
                e1[k] = w[k] * loss.first_derivative(t, datum);
                q0[k] = w[k] * loss.second_derivative(t, datum);
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
fn whole<'a>(x: &[f64], room: &'a mut [f64; BLOCK]) -> &'a [f64] {
    let n = x.len().next_multiple_of(8);
    room[x.len()..n].fill(0.0);
    room[..x.len()].copy_from_slice(x);
    &room[..n]
}

/// [`crate::Slices::trapezoid_value`], vectorised; the first of the moments, to the bit.
pub(crate) struct TrapezoidValue<'a, L> {
    pub(crate) loss: &'a L,
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    pub(crate) datum: Datum,
    pub(crate) nodes: &'a [f64],
    pub(crate) weights: &'a [f64],
}

impl<L: Loss> pulp::NullaryFnOnce for TrapezoidValue<'_, L> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let TrapezoidValue { loss, mean, sd, datum, nodes, weights } = self;
        let (mut xs, mut ws, mut e0) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        let mut total = 0.0;
        for (x, w) in nodes.chunks(BLOCK).zip(weights.chunks(BLOCK)) {
            let n = x.len();
            let (x, w) = (whole(x, &mut xs), whole(w, &mut ws));
            let (w, e0) = (&w[..x.len()], &mut e0[..x.len()]);
            for k in 0..x.len() {
                e0[k] = w[k] * loss.value(mean + sd * x[k], datum);
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
        let mut terms = [[0.0; BLOCK]; 3];
        let (mut xs, mut ws) = ([0.0; BLOCK], [0.0; BLOCK]);
        let mut total = [0.0; 3];
        for (x, w) in nodes.chunks(BLOCK).zip(weights.chunks(BLOCK)) {
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
