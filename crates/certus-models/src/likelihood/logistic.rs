//! y ∈ {0, 1}, P(y = 1) = σ(t): with s = 2y − 1, φ(t) = log(1 + e^{−st}), φ′ = −sσ(−st), φ″ = σ(t)σ(−t) ≤ 1/4 (A5).
//!
//! |φ‴| = φ″|1 − 2σ| ≤ φ″, so φ″ falls by at most e^{−D} over a distance D; sup|φ‴| = 1/(6√3). Poles of σ at ±πi: in the strip
//! |Im t| ≤ π/2, |σ| and |σσ| are at most 1, which gives the trapezoid error (math: E).

use super::{
    Datum, Likelihood, RUN, add_exactly,
    sealed::Seal,
    sigmoid::{sigmoid_methods, sigmoid_strip},
    slice_methods,
};
use crate::special::{exp, log_from_one, sigmoid, sigmoid_slope, softplus};

/// Bernoulli responses with the logit link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logistic;

impl Logistic {
    fn size(&self, _datum: Datum) -> f64 {
        1.0
    }

    fn center(&self) -> f64 {
        0.0
    }
}

impl Likelihood for Logistic {
    fn name(&self) -> &'static str {
        "logistic"
    }

    fn is_ours(&self, _: Seal) -> bool {
        true
    }

    fn reject(&self, datum: Datum) -> Option<String> {
        (datum.y != 0.0 && datum.y != 1.0)
            .then(|| format!("the response is {}, but 0 or 1 is required", datum.y))
    }

    #[inline(always)]
    fn value(&self, t: f64, datum: Datum) -> f64 {
        softplus((1.0 - 2.0 * datum.y) * t)
    }

    #[inline(always)]
    fn slope(&self, t: f64, datum: Datum) -> f64 {
        let s = 1.0 - 2.0 * datum.y;
        s * sigmoid(s * t)
    }

    #[inline(always)]
    fn bend(&self, t: f64, datum: Datum) -> f64 {
        // the function is even: with the sign of the others, all three share one exponential
        sigmoid_slope((1.0 - 2.0 * datum.y) * t)
    }

    fn lines(
        &self,
        t: &[f64],
        s: &[f64],
        data: &[Datum],
        weight: &[f64],
        nodes: &[f64],
        value: &mut [f64],
        slope: &mut [f64],
        bend: &mut [f64],
    ) {
        if weight.iter().all(|w| *w == 1.0) {
            pulp::Arch::new().dispatch(Lines { t, s, data, nodes, value, slope, bend });
            return;
        }
        super::line_by_line(self, t, s, data, weight, nodes, value, slope, bend);
    }

    sigmoid_methods!();
    sigmoid_strip!();
    slice_methods!();
}

/// Nodes worked on at a time.
const NODES: usize = 64;

/// [`Likelihood::lines`] of rows of weight 1, vectorised: one logarithm for [`RUN`] rows, because Σ log(1 + e_i) = log Π(1 + e_i), and one division per row.
struct Lines<'a> {
    t: &'a [f64],
    s: &'a [f64],
    data: &'a [Datum],
    nodes: &'a [f64],
    value: &'a mut [f64],
    slope: &'a mut [f64],
    bend: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Lines<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Lines { t, s, data, nodes, value, slope, bend } = self;
        let count = nodes.len();
        let (mut products, mut parts) = ([1.0; NODES], [0.0; NODES]);
        for from in (0..count).step_by(NODES) {
            let n = NODES.min(count - from);
            let mut lows = [0.0; NODES];
            let (x, sum, low) = (&nodes[from..][..n], &mut value[from..][..n], &mut lows[..n]);
            let (product, part) = (&mut products[..n], &mut parts[..n]);
            for i in 0..t.len() {
                let (t, s, sign) = (t[i], s[i], 1.0 - 2.0 * data[i].y);
                let slope = &mut slope[i * count + from..][..n];
                let bend = &mut bend[i * count + from..][..n];
                for k in 0..n {
                    let at = sign * (t + s * x[k]);
                    let e = exp(-at.abs());
                    let below = 1.0 / (1.0 + e);
                    slope[k] = sign * if at >= 0.0 { below } else { e * below };
                    bend[k] = e * below * below;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::checks::consistent;

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
        let [mut slope, mut bend] = [vec![0.0; 6600], vec![0.0; 6600]];
        Logistic.lines(&t, &s, &rows, &[1.0; 600], &nodes, &mut value, &mut slope, &mut bend);
        for i in 0..600 {
            let [mut slopes, mut bends] = [[0.0; 11]; 2];
            Logistic.along(t[i], s[i], rows[i], 1.0, &nodes, &mut along, &mut slopes, &mut bends);
            for k in 0..11 {
                assert!((slope[i * 11 + k] / slopes[k] - 1.0).abs() < 1e-15, "slope {i} {k}");
                assert!((bend[i * 11 + k] / bends[k] - 1.0).abs() < 1e-15, "bend {i} {k}");
            }
        }
        (0..11).for_each(|k| assert!((value[k] / along[k] - 1.0).abs() < 1e-14));
        // relative accuracy in the far tail, where 1 − σ(t) would be 0
        let far = Logistic.slope(50.0, data[1]);
        assert!((far / -(-50f64).exp() - 1.0).abs() < 1e-14);
    }
}
