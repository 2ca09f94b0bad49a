//! y ∈ {0, 1}, P(y = 1) = σ(t): with s = 2y − 1, φ(t) = log(1 + e^{−st}), φ′ = −sσ(−st), φ″ = σ(t)σ(−t) ≤ 1/4 (A5).
//!
//! |φ‴| = φ″|1 − 2σ| ≤ φ″, so φ″ falls by at most e^{−D} over a distance D; sup|φ‴| = 1/(6√3). Poles of σ at ±πi: in
//! the strip
//! |Im t| ≤ π/2, |σ| and |σσ| are at most 1, which gives the trapezoid error (math: E).

use std::sync::Arc;

use crate::draw::uniform;
use crate::loss::{Datum, Loss, sealed::Seal};
use crate::response::{Entry, Link, Values};
use crate::sigmoid::{Sigmoid, Successes};
use crate::slices::{RUN, add_exactly};
use crate::special::{exp, log_from_one, sigmoid, sigmoid_derivative, softplus};

/// Bernoulli responses with the logit link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logistic;

pub(crate) const ENTRY: Entry = Entry {
    name: "logistic",
    about: "0/1 responses",
    values: Values::Binary,
    link: Link::Logit,
    parameter: None,
    reject: |datum| Logistic.reject(datum),
    make: |_| Ok(Arc::new(Logistic)),
    draw: |rng, t, _, _| f64::from(u8::from(uniform(rng) < Link::Logit.response(t))),
};

impl Sigmoid for Logistic {
    fn size(&self, _datum: Datum) -> f64 {
        1.0
    }

    fn center(&self) -> f64 {
        0.0
    }
}

impl Loss for Logistic {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }

    fn reject(&self, datum: Datum) -> Option<String> {
        (datum.y != 0.0 && datum.y != 1.0).then(|| {
            format!(
                "the response is {}, but 0 or 1 is required; of two other levels name the event (--event, in Python \
                    event=)",
                datum.y
            )
        })
    }

    #[inline(always)]
    fn value(&self, t: f64, datum: Datum) -> f64 {
        softplus((1.0 - 2.0 * datum.y) * t)
    }

    #[inline(always)]
    fn first_derivative(&self, t: f64, datum: Datum) -> f64 {
        let s = 1.0 - 2.0 * datum.y;
        s * sigmoid(s * t)
    }

    #[inline(always)]
    fn second_derivative(&self, t: f64, datum: Datum) -> f64 {
        // the function is even: with the sign of the others, all three share one exponential
        sigmoid_derivative((1.0 - 2.0 * datum.y) * t)
    }

    fn unweighted_lines(
        &self,
        t: &[f64],
        s: &[f64],
        data: &[Datum],
        nodes: &[f64],
        value: &mut [f64],
        first: &mut [f64],
        second: &mut [f64],
    ) -> bool {
        pulp::Arch::new().dispatch(Lines { t, s, data, nodes, value, first, second });
        true
    }

    fn unweighted_line_values(
        &self,
        t: &[f64],
        s: &[f64],
        data: &[Datum],
        first: f64,
        step: f64,
        value: &mut [f64],
    ) -> bool {
        pulp::Arch::new().dispatch(LineValues { t, s, data, first, step, value });
        true
    }
}

impl Successes for Logistic {}

/// Nodes worked on at a time.
const NODES: usize = 64;

/// [`Loss::unweighted_lines`], vectorised: one logarithm for [`RUN`] rows, because Σ log(1 + e_i) = log Π(1 + e_i), and
/// one division per row.
struct Lines<'a> {
    t: &'a [f64],
    s: &'a [f64],
    data: &'a [Datum],
    nodes: &'a [f64],
    value: &'a mut [f64],
    first: &'a mut [f64],
    second: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Lines<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Lines { t, s, data, nodes, value, first, second } = self;
        let count = nodes.len();
        let (mut products, mut parts) = ([1.0; NODES], [0.0; NODES]);
        for from in (0..count).step_by(NODES) {
            let n = NODES.min(count - from);
            let mut lows = [0.0; NODES];
            let (x, sum, low) = (&nodes[from..][..n], &mut value[from..][..n], &mut lows[..n]);
            let (product, part) = (&mut products[..n], &mut parts[..n]);
            for i in 0..t.len() {
                let (t, s, sign) = (t[i], s[i], 1.0 - 2.0 * data[i].y);
                let first = &mut first[i * count + from..][..n];
                let second = &mut second[i * count + from..][..n];
                for k in 0..n {
                    let at = sign * (t + s * x[k]);
                    let e = exp(-at.abs());
                    let below = 1.0 / (1.0 + e);
                    first[k] = sign * if at >= 0.0 { below } else { e * below };
                    second[k] = e * below * below;
                    part[k] += at.max(0.0);
                    product[k] *= 1.0 + e;
                }
                if (i + 1).is_multiple_of(RUN) || i + 1 == data.len() {
                    for k in 0..n {
                        add_exactly(&mut sum[k], &mut low[k], part[k] + log_from_one(product[k]));
                        (part[k], product[k]) = (0.0, 1.0);
                    }
                }
            }
            sum.iter_mut().zip(&*low).for_each(|(s, l)| *s += l);
        }
    }
}

/// Nodes in a step of the recurrence.
const LANES: usize = 8;
/// The logarithm that products may have: e^709 is the largest number.
const ROOM: f64 = 600.0;

/// [`Loss::unweighted_line_values`], vectorised: on equally spaced nodes e^{η} is a geometric sequence, so that a row
/// takes nine exponentials, and every node one product for e^{η} and another for Π(1 + e^{η}), whose logarithm is taken
/// before it can overflow.
struct LineValues<'a> {
    t: &'a [f64],
    s: &'a [f64],
    data: &'a [Datum],
    first: f64,
    step: f64,
    value: &'a mut [f64],
}

impl pulp::NullaryFnOnce for LineValues<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let LineValues { t, s, data, first, step, value } = self;
        let mut from = 0;
        for value in value.chunks_mut(NODES) {
            let first = first + from as f64 * step;
            let steps = value.len().div_ceil(LANES);
            let mut product = [[1.0; LANES]; NODES / LANES];
            let mut used = 0.0;
            for i in 0..t.len() {
                let sign = 1.0 - 2.0 * data[i].y;
                let (base, slope) = (sign * (t[i] + s[i] * first), sign * s[i] * step);
                let top = base.max(base + slope * (steps * LANES - 1) as f64).max(0.0);
                if top > ROOM {
                    for (k, value) in value.iter_mut().enumerate() {
                        *value += softplus(base + slope * k as f64);
                    }
                    continue;
                }
                // 1 + eˣ ≤ 2e^{max(x, 0)}
                if used + top + 0.7 > ROOM {
                    take_logarithms(&mut product[..steps], value);
                    used = 0.0;
                }
                used += top + 0.7;
                let mut e = [0.0; LANES];
                for c in 0..LANES {
                    e[c] = exp(base + slope * c as f64);
                }
                let ratio = exp(slope * LANES as f64);
                for product in &mut product[..steps] {
                    for c in 0..LANES {
                        product[c] += product[c] * e[c];
                        e[c] *= ratio;
                    }
                }
            }
            take_logarithms(&mut product[..steps], value);
            from += value.len();
        }
    }
}

/// value += log product, product ← 1.
#[inline(always)]
fn take_logarithms(product: &mut [[f64; LANES]], value: &mut [f64]) {
    for (value, product) in value.chunks_mut(LANES).zip(product) {
        let logs = product.map(log_from_one);
        value.iter_mut().zip(logs).for_each(|(v, x)| *v += x);
        *product = [1.0; LANES];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::consistent;
    use crate::slices::Slices;

    #[test]
    fn logistic() {
        let data = [0.0, 1.0].map(|y| Datum { y, trials: 1.0 });
        consistent(&Logistic, &data, &[-30.0, -4.0, -1.0, 0.0, 0.3, 2.0, 9.0, 36.0]);
        assert!(Logistic.reject(Datum { y: 0.5, trials: 1.0 }).is_some_and(|m| m.contains("0.5")));
        // all rows of a group at once are the rows one by one
        let (t, s): (Vec<f64>, Vec<f64>) = (0..600).map(|i| (0.01 * f64::from(i) - 3.0, 0.5)).unzip();
        let rows: Vec<Datum> = (0..600).map(|i| data[i % 2]).collect();
        let nodes: Vec<f64> = (0..11).map(|k| f64::from(k) - 5.0).collect();
        let [mut value, mut along] = [vec![1.0; 11], vec![1.0; 11]];
        let [mut first, mut second] = [vec![0.0; 6600], vec![0.0; 6600]];
        Logistic.lines(&t, &s, &rows, &[1.0; 600], &nodes, &mut value, &mut first, &mut second);
        for i in 0..600 {
            let [mut firsts, mut seconds] = [[0.0; 11]; 2];
            Logistic.along(t[i], s[i], rows[i], 1.0, &nodes, &mut along, &mut firsts, &mut seconds);
            for k in 0..11 {
                assert!((first[i * 11 + k] / firsts[k] - 1.0).abs() < 1e-15, "first {i} {k}");
                assert!((second[i * 11 + k] / seconds[k] - 1.0).abs() < 1e-15, "second {i} {k}");
            }
        }
        (0..11).for_each(|k| assert!((value[k] / along[k] - 1.0).abs() < 1e-14));
        // values alone, by products: nodes in more than one block, products that would overflow, and far tails
        for (first, step, reach) in
            [(-5.0, 1.0, 1.0), (-3.0, 0.05, 30.0), (0.0, 2.0, 300.0), (-2.0, 0.03, 1000.0)]
        {
            let t: Vec<f64> = t.iter().map(|t| reach * t).collect();
            let mut values = vec![1.0; 100];
            Logistic.line_values(&t, &s, &rows, &[1.0; 600], first, step, &mut values);
            for (k, value) in values.iter().enumerate() {
                let at = |i: usize| Logistic.value(t[i] + s[i] * (first + step * k as f64), rows[i]);
                let truth = 1.0 + (0..600).map(at).sum::<f64>();
                assert!((value / truth - 1.0).abs() < 1e-13, "{reach} {k}: {value} {truth}");
            }
        }
        let mut weighted = [0.0; 3];
        Logistic.line_values(&[0.3], &[2.0], &rows[..1], &[2.5], -1.0, 0.5, &mut weighted);
        (0..3).for_each(|k| {
            let truth = 2.5 * Logistic.value(0.3 + 2.0 * (-1.0 + 0.5 * k as f64), rows[0]);
            assert!((weighted[k] - truth).abs() < 1e-14);
        });
        // relative accuracy in the far tail, where 1 − σ(t) would be 0
        let far = Logistic.first_derivative(50.0, data[1]);
        assert!((far / -(-50f64).exp() - 1.0).abs() < 1e-14);
    }
}
