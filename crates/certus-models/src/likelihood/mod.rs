//! The scalar losses φ(t) = −log p(y | t) of a linear predictor t. One file per likelihood, with its maths and its tests.

mod binomial;
mod linear;
mod logistic;
mod negative_binomial;
mod poisson;
mod probit;
mod sigmoid;
mod slices;

pub use binomial::Binomial;
pub use linear::Linear;
pub use logistic::Logistic;
pub use negative_binomial::NegativeBinomial;
pub use poisson::Poisson;
pub use probit::Probit;

pub(crate) use slices::{
    Along, Derivatives, Lower, Slopes, Trapezoid, TrapezoidValue, lower_method, moment_methods, slice_methods,
};

use certus::Provenance;

/// One observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Datum {
    /// The response.
    pub y: f64,
    /// Trials of a binomial response, else 1.
    pub trials: f64,
}

/// E φ, E φ′ and E φ″(1, x, x²) for t = mean + sd·x, x ~ N(0, 1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// E φ.
    pub e0: f64,
    /// E φ′.
    pub e1: f64,
    /// E φ″.
    pub q0: f64,
    /// E φ″ x.
    pub q1: f64,
    /// E φ″ x².
    pub q2: f64,
}

/// In a private module, so that no other crate can name it, and hence override the method that takes it.
mod sealed {
    /// See [`Likelihood::is_ours`](super::Likelihood::is_ours).
    #[derive(Clone, Copy, Debug)]
    pub struct Seal;
}

/// Who vouches for what a likelihood claims of its derivatives: the model, for those of this crate, else the user who wrote it.
pub(crate) fn vouched_by(likelihood: &dyn Likelihood) -> Provenance {
    if likelihood.is_ours(sealed::Seal) {
        return certus::internals::by_model();
    }
    Provenance::DeclaredByUser(format!("the likelihood '{}'", likelihood.name()))
}

/// A convex scalar loss with the constants that make a fit certifiable.
///
/// Methods take one observation; a model only calls the ones on whole slices, which are compiled per likelihood.
///
/// A likelihood of your own can be fitted like ours. What follows from its constants is then "declared by the user", because nobody else has
/// checked them; that it is one of ours cannot be claimed from outside:
///
/// ```compile_fail
/// use certus_models::likelihood::sealed::Seal;
/// ```
pub trait Likelihood: Send + Sync + std::fmt::Debug {
    /// The name used in messages and files.
    fn name(&self) -> &'static str;

    /// True for the likelihoods of this crate, whose claims are proved in docs/maths.md. Other crates cannot override it.
    #[doc(hidden)]
    fn is_ours(&self, _: sealed::Seal) -> bool {
        false
    }

    /// The name and value of its hyperparameter, if it has one.
    fn parameter(&self) -> Option<(&'static str, f64)> {
        None
    }

    /// What is wrong with an observation, or `None`.
    fn reject(&self, datum: Datum) -> Option<String>;

    /// φ(t) with all constants.
    fn value(&self, t: f64, datum: Datum) -> f64;

    /// φ′(t).
    fn slope(&self, t: f64, datum: Datum) -> f64;

    /// φ″(t) ≥ 0.
    fn bend(&self, t: f64, datum: Datum) -> f64;

    /// θ_min ≤ φ″ everywhere.
    fn least_bend(&self, datum: Datum) -> f64;

    /// φ″ ≤ θ_max everywhere, or `None` if φ″ is not bounded.
    fn most_bend(&self, datum: Datum) -> Option<f64>;

    /// A lower bound of φ″ on [t − radius, t + radius] (math: Lemma C).
    fn bend_near(&self, t: f64, radius: f64, datum: Datum) -> f64;

    /// The least value of φ″ on [t − radius, t + radius], or a lower bound. Unlike `bend_near` it need not be smooth in t.
    fn bend_within(&self, t: f64, radius: f64, datum: Datum) -> f64 {
        self.bend_near(t, radius, datum)
    }

    /// True if φ is a parabola, so that the posterior under a Gaussian prior is Gaussian (math: D7).
    fn is_quadratic(&self) -> bool {
        false
    }

    /// (a, c) with φ″(t + x) ≥ φ″(t)e^{ax − cx²/2} for every x: the slope of log φ″ at t and a bound of how fast that falls.
    fn log_bend(&self, _t: f64, _datum: Datum) -> Option<(f64, f64)> {
        None
    }

    /// |φ‴| ≤ this everywhere, or `None`.
    fn most_twist(&self, datum: Datum) -> Option<f64>;

    /// True if |φ‴| ≤ φ″ everywhere, so that φ″ changes by at most e^D within D.
    fn twist_below_bend(&self) -> bool {
        false
    }

    /// |φ⁗| ≤ this everywhere, or `None`.
    fn most_turn(&self, _datum: Datum) -> Option<f64> {
        None
    }

    /// Upper bounds of λ_max(Q) and √E φ‴² over all laws whose t moves by at most reach·√(1 + x²) from mean + sd·x, given the moments and
    /// √E φ‴² = `twist` there. φ″ grows by c₃D at most, and E D(1, x; x, x²) ≤ √2·√3·reach; √E φ‴² by c₄√E D² = √2 c₄ reach.
    fn most_around(
        &self,
        _mean: f64,
        _sd: f64,
        reach: f64,
        datum: Datum,
        at: &Moments,
        twist: f64,
    ) -> Option<(f64, f64)> {
        let (most_bend, most_twist) = (self.most_bend(datum)?, self.most_twist(datum)?);
        let top = 0.5 * (at.q0 + at.q2) + (0.5 * (at.q0 - at.q2)).hypot(at.q1);
        let bend = most_bend.min(top + 2.45 * most_twist * reach);
        let moved =
            self.most_turn(datum).map_or(f64::INFINITY, |c| twist + std::f64::consts::SQRT_2 * c * reach);
        Some((bend, most_twist.min(moved)))
    }

    /// φ is analytic in |Im t| < strip; the trapezoid rule takes its step from it.
    fn strip(&self) -> f64;

    /// What errors of E φ′ and E φ″(1, x, x²) are measured by: the trapezoid rule and the evaluation of its terms err by less than 1e-13
    /// of it.
    fn scale(&self, mean: f64, sd: f64, datum: Datum) -> f64;

    /// True if everything above is proved: the trapezoid rule's error, [`Self::scale`], and |φ‴| ≤ φ″ where rounding of t counts. Only then
    /// are statements about models with this loss more than estimates. Of a likelihood from outside this crate they are declared by the
    /// user.
    fn strip_is_proved(&self) -> bool {
        false
    }

    /// g(τ) with Re φ(t + iτ) ≥ φ(t) − size·g(τ) for every t, where [`Self::strip_size`] gives the size; g is even, convex and grows with
    /// |τ|. Infinite where nothing is claimed, `None` if there is no such bound for all t alike.
    fn strip_loss(&self, _tau: f64) -> Option<f64> {
        None
    }

    /// The size that goes with [`Self::strip_loss`].
    fn strip_size(&self, _datum: Datum) -> f64 {
        0.0
    }

    /// A convex function of t that is nowhere above Re φ(t + iτ′) for |τ′| ≤ |τ|, as its value, slope and bend; `None` where nothing is proved.
    fn rotated(&self, t: f64, tau: f64, datum: Datum) -> Option<[f64; 3]> {
        let loss = self.strip_loss(tau)? * self.strip_size(datum);
        Some([self.value(t, datum) - loss, self.slope(t, datum), self.bend(t, datum)])
    }

    /// c with |φ′(t + s(x + ia))| ≤ c on average over x ~ N(−lean, 1) and every |a| with |s a| ≤ |τ|; `None` where nothing is proved.
    fn rotated_slope(&self, _t: f64, _s: f64, _lean: f64, _tau: f64, _datum: Datum) -> Option<f64> {
        None
    }

    /// a with E|φ′| ≤ |E φ′| + a over any law of t. Of φ′ = μ − r with μ ≥ 0 and 0 ≤ r ≤ y, as here, |φ′| ≤ φ′ + 2y.
    fn slope_spread(&self, _s: f64, datum: Datum) -> f64 {
        2.0 * datum.y.abs()
    }

    /// The sum of the sizes of the numbers that φ is computed from, on average over a law with |t| ≤ `reach` and E|φ′| ≤ `slope`: counts and rates times
    /// predictors and logarithms of counts (docs/collapsed.md, part K11).
    fn terms(&self, reach: f64, slope: f64, datum: Datum) -> f64 {
        let counts = datum.y.abs() + datum.trials + 1.0;
        (slope + counts) * (1.0 + reach + counts.ln())
    }

    /// Expectations in closed form, where there is one.
    fn exact_moments(&self, _mean: f64, _sd: f64, _datum: Datum) -> Option<Moments> {
        None
    }

    /// t ← φ′(t), elementwise over one column of predictors, and the sum of φ; `weight` multiplies both.
    fn slopes(&self, t: &mut [f64], data: &[Datum], weight: &[f64]) -> f64;

    /// out ← (φ′, φ″), elementwise, weighted; returns the weighted sum of φ.
    fn derivatives(
        &self,
        t: &[f64],
        data: &[Datum],
        weight: &[f64],
        slope: &mut [f64],
        bend: &mut [f64],
    ) -> f64 {
        let mut sum = 0.0;
        for i in 0..t.len() {
            sum += weight[i] * self.value(t[i], data[i]);
            slope[i] = weight[i] * self.slope(t[i], data[i]);
            bend[i] = weight[i] * self.bend(t[i], data[i]);
        }
        sum
    }

    /// weight·(φ, φ′, φ″)(t + s·x_k) at every node: the values are added to, slopes and bends are written.
    fn along(
        &self,
        t: f64,
        s: f64,
        datum: Datum,
        weight: f64,
        nodes: &[f64],
        value: &mut [f64],
        slope: &mut [f64],
        bend: &mut [f64],
    ) {
        for (k, x) in nodes.iter().enumerate() {
            value[k] += weight * self.value(t + s * x, datum);
            slope[k] = weight * self.slope(t + s * x, datum);
            bend[k] = weight * self.bend(t + s * x, datum);
        }
    }

    /// [`Self::along`] for all rows of a group: row i has t_i, s_i and its weight; slopes and bends are written row after row.
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
        line_by_line(self, t, s, data, weight, nodes, value, slope, bend);
    }

    /// Σ_k w_k (φ, φ′, φ″, φ″x, φ″x²)(mean + sd·x_k): the trapezoid sum over one row's nodes.
    fn trapezoid(&self, mean: f64, sd: f64, datum: Datum, nodes: &[f64], weights: &[f64]) -> Moments;

    /// The moments above but for the first, which is 0: what gradients need.
    fn trapezoid_slopes(&self, mean: f64, sd: f64, datum: Datum, nodes: &[f64], weights: &[f64]) -> Moments {
        Moments { e0: 0.0, ..self.trapezoid(mean, sd, datum, nodes, weights) }
    }

    /// Σ_k w_k φ(mean + sd·x_k): the first of the moments above, to the bit.
    fn trapezoid_value(&self, mean: f64, sd: f64, datum: Datum, nodes: &[f64], weights: &[f64]) -> f64 {
        self.trapezoid(mean, sd, datum, nodes, weights).e0
    }

    /// Σ_k w_k φ₋(1, x, x²), φ₋ = [`Self::bend_near`] of t = mean + sd·x_k and D = reach·√(1 + x_k²/ω) (Lemma C).
    #[allow(clippy::too_many_arguments)]
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

/// Rows whose terms are added one after the other; the sums of such runs are added with compensation, so that rounding does not grow with the number of rows (K11).
pub(crate) const RUN: usize = 32;

/// sum + low += x, without an error but for the rounding of `low`.
#[inline(always)]
pub(crate) fn add_exactly(sum: &mut f64, low: &mut f64, x: f64) {
    let total = *sum + x;
    let of_x = total - *sum;
    *low += (*sum - (total - of_x)) + (x - of_x);
    *sum = total;
}

/// [`Likelihood::lines`], one row after the other.
#[allow(clippy::too_many_arguments)]
fn line_by_line<L: Likelihood + ?Sized>(
    likelihood: &L,
    t: &[f64],
    s: &[f64],
    data: &[Datum],
    weight: &[f64],
    nodes: &[f64],
    value: &mut [f64],
    slope: &mut [f64],
    bend: &mut [f64],
) {
    let count = nodes.len();
    let mut row = |i: usize, value: &mut [f64]| {
        let (slope, bend) = (&mut slope[i * count..][..count], &mut bend[i * count..][..count]);
        likelihood.along(t[i], s[i], data[i], weight[i], nodes, value, slope, bend);
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

#[cfg(test)]
pub(crate) mod checks {
    //! What every likelihood must satisfy; each file calls this with its own data.
    use super::*;

    pub(crate) fn consistent(likelihood: &dyn Likelihood, data: &[Datum], ts: &[f64]) {
        for &datum in data {
            assert!(likelihood.reject(datum).is_none(), "{datum:?}");
            for &t in ts {
                let h = 1e-4;
                let scale = 1.0 + likelihood.bend(t, datum).abs() + likelihood.slope(t, datum).abs();
                let central = |f: &dyn Fn(f64) -> f64| (f(t + h) - f(t - h)) / (2.0 * h);
                // error of a central difference: h² φ⁗/6 + ulp(φ)/h
                let tolerance = 1e-7 * scale + 1e-11 * likelihood.value(t, datum).abs();
                let slope = central(&|t| likelihood.value(t, datum));
                assert!((slope - likelihood.slope(t, datum)).abs() < tolerance, "φ′ at {t} for {datum:?}");
                let bend = central(&|t| likelihood.slope(t, datum));
                assert!((bend - likelihood.bend(t, datum)).abs() < tolerance, "φ″ at {t} for {datum:?}");
                let b = likelihood.bend(t, datum);
                assert!(b >= likelihood.least_bend(datum) * (1.0 - 1e-12), "θ_min at {t}");
                if let Some(most) = likelihood.most_bend(datum) {
                    assert!(b <= most * (1.0 + 1e-12), "θ_max at {t}: {b} > {most}");
                }
                if let Some(most) = likelihood.most_twist(datum) {
                    let twist = central(&|t| likelihood.bend(t, datum)).abs();
                    assert!(!likelihood.twist_below_bend() || twist <= b * (1.0 + 1e-6) + 1e-9 * scale);
                    if let Some(most) = likelihood.most_turn(datum) {
                        let third = |t: f64| {
                            likelihood.log_bend(t, datum).map_or(0.0, |l| l.0 * likelihood.bend(t, datum))
                        };
                        assert!(central(&third).abs() <= most * (1.0 + 1e-6) + 1e-9 * scale, "φ⁗ at {t}");
                        assert!((third(t).abs() - twist).abs() <= 1e-6 * scale, "φ‴ at {t}");
                    }
                    assert!(twist <= most * (1.0 + 1e-6) + 1e-9 * scale, "φ‴ at {t}: {twist} > {most}");
                }
                for radius in [0.0, 0.1, 1.0, 5.0] {
                    let low = likelihood.bend_near(t, radius, datum);
                    let within = likelihood.bend_within(t, radius, datum);
                    assert!(within >= low * (1.0 - 1e-12), "the least value is at least any bound");
                    for k in -20..=20 {
                        let there = likelihood.bend(t + radius * f64::from(k) / 20.0, datum);
                        if let Some((a, c)) = likelihood.log_bend(t, datum) {
                            let x = radius * f64::from(k) / 20.0;
                            let low = b * (a * x - 0.5 * c * x * x).exp();
                            assert!(low <= there * (1.0 + 1e-12), "log φ″ at {t} + {x}: {low} > {there}");
                        }
                        assert!(within <= there * (1.0 + 1e-12), "φ″ at {t} ± {radius}: {within} > {there}");
                        assert!(
                            low <= there * (1.0 + 1e-12) + 1e-300,
                            "Lemma C at {t} ± {radius}: {low} > {there}"
                        );
                    }
                }
                let (nodes, weights) = ([-1.0, -0.3, 0.0, 0.5, 2.0], [0.1, 0.2, 0.3, 0.2, 0.1]);
                let sums = likelihood.trapezoid(t, 0.7, datum, &nodes, &weights);
                let alone = likelihood.trapezoid_value(t, 0.7, datum, &nodes, &weights);
                assert_eq!(alone, sums.e0, "the value alone at {t}");
                let slopes = likelihood.trapezoid_slopes(t, 0.7, datum, &nodes, &weights);
                assert_eq!(slopes, Moments { e0: 0.0, ..sums }, "all but the value at {t}");
                let (mut slopes, mut bends, mut shifted) = ([0.0], [0.0], [t]);
                let sum = likelihood.derivatives(&[t], &[datum], &[2.0], &mut slopes, &mut bends);
                assert!((sum - 2.0 * likelihood.value(t, datum)).abs() <= 1e-13 * sum.abs());
                let again = likelihood.slopes(&mut shifted, &[datum], &[2.0]);
                assert!((again - sum).abs() <= 1e-13 * sum.abs());
                assert!((shifted[0] - slopes[0]).abs() <= 1e-13 * scale);
            }
        }
    }
}
