//! Losses on whole slices: loops that are compiled per likelihood and vectorised for the machine they run on.

use crate::bounds::Bounds;
use crate::loss::{Datum, Moments};
use crate::vector::{Along, Derivatives, FirstDerivatives, LineValues, Lower, Trapezoid, TrapezoidValue};

/// What models call: [`Loss`](crate::Loss) and [`Bounds`] on slices, the same for every likelihood.
pub trait Slices: Send + Sync {
    /// t ← φ′(t), elementwise over one column of predictors, and the sum of φ; `weight` multiplies both.
    fn first_derivatives(&self, t: &mut [f64], data: &[Datum], weight: &[f64]) -> f64;

    /// out ← (φ′, φ″), elementwise, weighted; returns the weighted sum of φ.
    fn derivatives(
        &self,
        t: &[f64],
        data: &[Datum],
        weight: &[f64],
        first: &mut [f64],
        second: &mut [f64],
    ) -> f64;

    /// weight·(φ, φ′, φ″)(t + s·x_k) at every node: the values are added to, the derivatives are written.
    fn along(
        &self,
        t: f64,
        s: f64,
        datum: Datum,
        weight: f64,
        nodes: &[f64],
        value: &mut [f64],
        first: &mut [f64],
        second: &mut [f64],
    );

    /// [`Self::along`] for all rows of a group: row i has t_i, s_i and its weight; derivatives are written row after
    /// row.
    fn lines(
        &self,
        t: &[f64],
        s: &[f64],
        data: &[Datum],
        weight: &[f64],
        nodes: &[f64],
        value: &mut [f64],
        first: &mut [f64],
        second: &mut [f64],
    );

    /// The values of [`Self::lines`] alone, at the equally spaced nodes first + k·step: Σ_i weight_i φ_i is added.
    fn line_values(
        &self,
        t: &[f64],
        s: &[f64],
        data: &[Datum],
        weight: &[f64],
        first: f64,
        step: f64,
        value: &mut [f64],
    );

    /// Σ_k w_k (φ, φ′, φ″, φ″x, φ″x²)(mean + sd·x_k): the trapezoid sum over one row's nodes.
    fn trapezoid(&self, mean: f64, sd: f64, datum: Datum, nodes: &[f64], weights: &[f64]) -> Moments;

    /// The moments above but for the first, which is 0: what gradients need.
    fn trapezoid_derivatives(
        &self,
        mean: f64,
        sd: f64,
        datum: Datum,
        nodes: &[f64],
        weights: &[f64],
    ) -> Moments;

    /// Σ_k w_k φ(mean + sd·x_k): the first of the moments above, to the bit.
    fn trapezoid_value(&self, mean: f64, sd: f64, datum: Datum, nodes: &[f64], weights: &[f64]) -> f64;

    /// Σ_k w_k φ₋(1, x, x²), φ₋ = [`Bounds::second_derivative_near`] of t = mean + sd·x_k and D = reach·√(1 + x_k²/ω)
    /// (Lemma C).
    fn lower_trapezoid(
        &self,
        mean: f64,
        sd: f64,
        datum: Datum,
        nodes: &[f64],
        weights: &[f64],
        reach: f64,
        omega: f64,
    ) -> [f64; 3];
}

impl<L: Bounds> Slices for L {
    fn first_derivatives(&self, t: &mut [f64], data: &[Datum], weight: &[f64]) -> f64 {
        pulp::Arch::new().dispatch(FirstDerivatives { loss: self, t, data, weight })
    }

    fn derivatives(
        &self,
        t: &[f64],
        data: &[Datum],
        weight: &[f64],
        first: &mut [f64],
        second: &mut [f64],
    ) -> f64 {
        pulp::Arch::new().dispatch(Derivatives { loss: self, t, data, weight, first, second })
    }

    fn along(
        &self,
        t: f64,
        s: f64,
        datum: Datum,
        weight: f64,
        nodes: &[f64],
        value: &mut [f64],
        first: &mut [f64],
        second: &mut [f64],
    ) {
        pulp::Arch::new().dispatch(Along { loss: self, t, s, datum, weight, nodes, value, first, second });
    }

    fn lines(
        &self,
        t: &[f64],
        s: &[f64],
        data: &[Datum],
        weight: &[f64],
        nodes: &[f64],
        value: &mut [f64],
        first: &mut [f64],
        second: &mut [f64],
    ) {
        if weight.iter().all(|w| *w == 1.0) && self.unweighted_lines(t, s, data, nodes, value, first, second)
        {
            return;
        }
        let count = nodes.len();
        let mut row = |i: usize, value: &mut [f64]| {
            let (first, second) = (&mut first[i * count..][..count], &mut second[i * count..][..count]);
            self.along(t[i], s[i], data[i], weight[i], nodes, value, first, second);
        };
        if t.len() <= RUN {
            (0..t.len()).for_each(|i| row(i, value));
            return;
        }
        let [mut part, mut low] = [vec![0.0; count], vec![0.0; count]];
        for from in (0..t.len()).step_by(RUN) {
            part.fill(0.0);
            (from..t.len().min(from + RUN)).for_each(|i| row(i, &mut part));
            for k in 0..count {
                add_exactly(&mut value[k], &mut low[k], part[k]);
            }
        }
        value.iter_mut().zip(&low).for_each(|(v, l)| *v += l);
    }

    fn line_values(
        &self,
        t: &[f64],
        s: &[f64],
        data: &[Datum],
        weight: &[f64],
        first: f64,
        step: f64,
        value: &mut [f64],
    ) {
        let faster =
            weight.iter().all(|w| *w == 1.0) && self.unweighted_line_values(t, s, data, first, step, value);
        if !faster {
            pulp::Arch::new().dispatch(LineValues { loss: self, t, s, data, weight, first, step, value });
        }
    }

    fn trapezoid(&self, mean: f64, sd: f64, datum: Datum, nodes: &[f64], weights: &[f64]) -> Moments {
        pulp::Arch::new().dispatch(Trapezoid::<_, true> { loss: self, mean, sd, datum, nodes, weights })
    }

    fn trapezoid_derivatives(
        &self,
        mean: f64,
        sd: f64,
        datum: Datum,
        nodes: &[f64],
        weights: &[f64],
    ) -> Moments {
        pulp::Arch::new().dispatch(Trapezoid::<_, false> { loss: self, mean, sd, datum, nodes, weights })
    }

    fn trapezoid_value(&self, mean: f64, sd: f64, datum: Datum, nodes: &[f64], weights: &[f64]) -> f64 {
        pulp::Arch::new().dispatch(TrapezoidValue { loss: self, mean, sd, datum, nodes, weights })
    }

    fn lower_trapezoid(
        &self,
        mean: f64,
        sd: f64,
        datum: Datum,
        nodes: &[f64],
        weights: &[f64],
        reach: f64,
        omega: f64,
    ) -> [f64; 3] {
        if let Some(moments) = self.lower_moments(mean, sd, datum, nodes, weights, reach, omega) {
            return moments;
        }
        // the nodes end at 9 sds: of mass that an unbounded φ″ moves beyond them they know nothing
        if self.second_derivative_max(datum).is_none() {
            return [0.0; 3];
        }
        let at = |x: f64, d: f64| self.second_derivative_near(mean + sd * x, d, datum);
        pulp::Arch::new().dispatch(Lower { at, nodes, weights, reach, omega })
    }
}

/// Rows whose terms are added one after the other; the sums of such runs are added with compensation, so that rounding
/// does not grow with the number of rows (K11).
pub const RUN: usize = 32;

/// sum + low += x, without an error but for the rounding of `low`.
#[inline(always)]
pub fn add_exactly(sum: &mut f64, low: &mut f64, x: f64) {
    let total = *sum + x;
    let of_x = total - *sum;
    *low += (*sum - (total - of_x)) + (x - of_x);
    *sum = total;
}
