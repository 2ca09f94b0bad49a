//! The checker's own trapezoid rule: steps are powers of two, so that nodes are exact, finer and wider than the
//! library's, and summed in double-double arithmetic.
//!
//! For an integrand analytic in |Im x| ≤ a the rule with step η errs by about e^{−2πa/η} of its size on the strip's
//! edge, e^{a²/2} times the scale (docs/maths.md, Lemma C); η ≤ 2πa/(50 + a²/2) makes that e⁻⁵⁰, and beyond 10 sds lies
//! less than e⁻⁵⁰ of the mass.

use super::double_double::Double;
use certus_likelihood::{Datum, Likelihood};

/// Where the nodes end.
const END: f64 = 10.0;
/// The widest step is 2⁻³.
const COARSEST: usize = 3;
/// The finest one; it serves sds up to about 3000.
const FINEST: usize = 15;
/// φ″ = e^{±t} moves the mass by ±sd, so that nodes have to go on for as much: up to this.
const MOST_TILT: f64 = 20.0;

/// Weights of the standard normal density on grids of step 2⁻ᵏ, made when first needed.
#[derive(Default)]
pub(super) struct Rule {
    grids: Vec<Option<Vec<f64>>>,
}

/// One observation in the frame of w: t = mean + sd·x.
#[derive(Clone, Copy, Debug)]
pub(super) struct Predictor {
    pub(super) mean: Double,
    pub(super) sd: Double,
    pub(super) datum: Datum,
}

impl Rule {
    /// The weights of step 2⁻ᵏ ≤ 2πa/(50 + a²/2) at 0, η, 2η, …, with k.
    fn grid(&mut self, a: f64) -> Option<(i32, &[f64])> {
        let step = std::f64::consts::TAU * a / (50.0 + 0.5 * a * a);
        let level = (-step.log2()).ceil().max(COARSEST as f64);
        if level.is_nan() || level > FINEST as f64 {
            return None;
        }
        let level = level as usize;
        self.grids.resize(FINEST + 1, None);
        let weights = self.grids[level].get_or_insert_with(|| {
            let step = 0.5f64.powi(level as i32);
            let count = ((END + MOST_TILT) / step) as usize;
            let density = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            (0..=count).map(|k| step * density(k as f64 * step)).collect()
        });
        Some((level as i32, weights))
    }

    /// Calls `visit(weight, x, t)` at every node of a rule for integrands analytic in |Im x| < a; false if there is
    /// none.
    fn nodes(&mut self, a: f64, at: &Predictor, tilt: f64, mut visit: impl FnMut(Double, f64, f64)) -> bool {
        if tilt.is_nan() || tilt.abs() > MOST_TILT {
            return false;
        }
        let Some((level, weights)) = self.grid(a) else { return false };
        let step = 0.5f64.powi(level);
        let (left, right) = (((END - tilt.min(0.0)) / step) as i64, ((END + tilt.max(0.0)) / step) as i64);
        for k in -left..=right {
            let x = k as f64 * step;
            let t = at.mean + at.sd * Double::from(x);
            visit(Double::from(weights[k.unsigned_abs() as usize]), x, t.to_f64());
        }
        true
    }

    /// E φ′(t) and E φ″(t), or `None` where sd is too large for the rule.
    pub(super) fn first(&mut self, likelihood: &dyn Likelihood, at: &Predictor) -> Option<(Double, Double)> {
        let a = (likelihood.strip() / at.sd.to_f64()).min(8.0);
        let (mut first, mut second) = (Double::ZERO, Double::ZERO);
        let tilt = tilt(likelihood, at);
        let done = self.nodes(a, at, tilt, |w, _, t| {
            first += w * Double::from(likelihood.first_derivative(t, at.datum));
            second += w * Double::from(likelihood.second_derivative(t, at.datum));
        });
        (done && first.is_finite() && second.is_finite()).then_some((first, second))
    }

    /// E φ₋(1, x, x²), φ₋ the least φ″ can be within D = reach·√(1 + x²/ω) of t (Lemma C). D has its branch points at
    /// ±i√ω, and its imaginary part may use up r/√ω of the strip.
    pub(super) fn lower(
        &mut self,
        likelihood: &dyn Likelihood,
        at: &Predictor,
        radius: f64,
        omega: f64,
        reach: f64,
    ) -> Option<[f64; 3]> {
        let root = omega.sqrt();
        let a = (likelihood.strip() / (at.sd.to_f64() * (1.0 + radius / root))).min(root);
        let mut q = [Double::ZERO; 3];
        let tilt = tilt(likelihood, at);
        let done = self.nodes(a, at, tilt, |w, x, t| {
            let far = reach * (1.0 + x * x / omega).sqrt();
            let term = w * Double::from(likelihood.second_derivative_near(t, far, at.datum));
            let by_x = term * Double::from(x);
            q = [q[0] + term, q[1] + by_x, q[2] + by_x * Double::from(x)];
        });
        (done && q.iter().all(|q| q.is_finite())).then_some(q.map(Double::to_f64))
    }
}

/// By how much φ″ moves the mass, in sds: where φ″ is not bounded, by the slope of log φ″ times sd.
fn tilt(likelihood: &dyn Likelihood, at: &Predictor) -> f64 {
    if likelihood.second_derivative_max(at.datum).is_some() {
        return 0.0;
    }
    let slope = likelihood.log_second_derivative(at.mean.to_f64(), at.datum).map_or(f64::NAN, |l| l.0);
    slope * at.sd.to_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use certus_likelihood::{Bounds, Linear, Logistic, Loss, Poisson, Strip};

    fn at(mean: f64, sd: f64, y: f64) -> Predictor {
        Predictor { mean: mean.into(), sd: sd.into(), datum: Datum { y, trials: 1.0 } }
    }

    /// Closed forms: Poisson E φ″ = e^{m + s²/2}, linear E φ′ = (m − y)/σ², and symmetry gives E φ′ = −½ at m = 0 for y
    /// = 1.
    #[test]
    fn closed_forms() {
        let mut rule = Rule::default();
        for (mean, sd) in [(0.3, 0.0), (-1.0, 0.5), (1.0, 3.0), (-40.0, 10.0), (0.0, 19.0)] {
            let (first, second) = rule.first(&Poisson, &at(mean, sd, 2.0)).expect("within range");
            let truth = (mean + 0.5 * sd * sd).exp();
            let tolerance = 8.0 * f64::EPSILON * (truth * (1.0 + sd * sd + mean.abs()) + 2.0);
            assert!((second.to_f64() - truth).abs() <= tolerance, "{mean} {sd}");
            assert!((first.to_f64() - (truth - 2.0)).abs() <= tolerance, "{mean} {sd}");
            // no radius at all: E φ″(1, x, x²) = e^{m + s²/2}(1, s, 1 + s²)
            let q = rule.lower(&Poisson, &at(mean, sd, 2.0), 0.0, 2.0, 0.0).expect("within range");
            for (q, t) in q.iter().zip([1.0, sd, 1.0 + sd * sd]) {
                assert!((q - truth * t).abs() <= 8.0 * tolerance * (1.0 + sd * sd), "{mean} {sd}");
            }
        }
        let linear = Linear::new(0.5).expect("valid");
        let (first, second) = rule.first(&linear, &at(1.5, 30.0, 1.0)).expect("within range");
        assert!((first.to_f64() - 2.0).abs() < 1e-13 && (second.to_f64() - 4.0).abs() < 1e-14);
        for sd in [1e-3, 1.0, 30.0, 1000.0] {
            let (first, _) = rule.first(&Logistic, &at(0.0, sd, 1.0)).expect("within range");
            assert!((first.to_f64() + 0.5).abs() < 1e-15, "{sd}");
        }
        // E σσ̄ = pdf(0)/sd·(1 + O(sd⁻²)) for wide normals
        let (_, second) = rule.first(&Logistic, &at(0.0, 1000.0, 1.0)).expect("within range");
        assert!((second.to_f64() * 1000.0 * std::f64::consts::TAU.sqrt() - 1.0).abs() < 2e-6);
        assert!(rule.first(&Logistic, &at(0.0, 1e5, 1.0)).is_none());
        assert!(rule.first(&Poisson, &at(0.0, 30.0, 1.0)).is_none());
    }

    /// φ(t) = t + y e⁻ᵗ, which nothing bounds to the left.
    #[derive(Debug)]
    struct Falling;

    impl Loss for Falling {
        fn name(&self) -> &'static str {
            "falling"
        }
        fn reject(&self, _: Datum) -> Option<String> {
            None
        }
        fn value(&self, t: f64, datum: Datum) -> f64 {
            t + datum.y * (-t).exp()
        }
        fn first_derivative(&self, t: f64, datum: Datum) -> f64 {
            1.0 - datum.y * (-t).exp()
        }
        fn second_derivative(&self, t: f64, datum: Datum) -> f64 {
            datum.y * (-t).exp()
        }
    }

    impl Bounds for Falling {
        fn second_derivative_near(&self, t: f64, radius: f64, datum: Datum) -> f64 {
            datum.y * (-t - radius).exp()
        }
        fn log_second_derivative(&self, _: f64, _: Datum) -> Option<(f64, f64)> {
            Some((-1.0, 0.0))
        }
    }

    impl Strip for Falling {
        fn strip(&self) -> f64 {
            f64::INFINITY
        }
        fn scale(&self, _: f64, _: f64, _: Datum) -> f64 {
            1.0
        }
    }

    /// An unbounded φ″ may move the mass to the left as well: E y e⁻ᵗ(1, x, x²) = y e^{s²/2 − m}(1, −s, 1 + s²).
    #[test]
    fn mass_moves_to_either_side() {
        let mut rule = Rule::default();
        for (mean, sd) in [(0.3f64, 0.5f64), (1.0, 3.0), (20.0, 8.0)] {
            let truth = 2.0 * (0.5 * sd * sd - mean).exp();
            let tolerance = 64.0 * f64::EPSILON * truth * (1.0 + sd * sd + mean.abs());
            let (_, second) = rule.first(&Falling, &at(mean, sd, 2.0)).expect("within range");
            assert!((second.to_f64() - truth).abs() <= tolerance, "{mean} {sd}");
            let q = rule.lower(&Falling, &at(mean, sd, 2.0), 0.0, 2.0, 0.0).expect("within range");
            for (q, t) in q.iter().zip([1.0, -sd, 1.0 + sd * sd]) {
                assert!(
                    (q - truth * t).abs() <= tolerance * (1.0 + sd * sd),
                    "{mean} {sd}: {q} {}",
                    truth * t
                );
            }
        }
    }
}
