//! What every likelihood must satisfy; each file calls this with its own data.

use crate::{Datum, Likelihood, Moments};

pub(crate) fn consistent(likelihood: &dyn Likelihood, data: &[Datum], ts: &[f64]) {
    for &datum in data {
        assert!(likelihood.reject(datum).is_none(), "{datum:?}");
        for &t in ts {
            let h = 1e-4;
            let scale = 1.0
                + likelihood.second_derivative(t, datum).abs()
                + likelihood.first_derivative(t, datum).abs();
            let central = |f: &dyn Fn(f64) -> f64| (f(t + h) - f(t - h)) / (2.0 * h);
            // error of a central difference: h² φ⁗/6 + ulp(φ)/h
            let tolerance = 1e-7 * scale + 1e-11 * likelihood.value(t, datum).abs();
            let first = central(&|t| likelihood.value(t, datum));
            assert!(
                (first - likelihood.first_derivative(t, datum)).abs() < tolerance,
                "φ′ at {t} for {datum:?}"
            );
            let second = central(&|t| likelihood.first_derivative(t, datum));
            assert!(
                (second - likelihood.second_derivative(t, datum)).abs() < tolerance,
                "φ″ at {t} for {datum:?}"
            );
            let b = likelihood.second_derivative(t, datum);
            assert!(b >= likelihood.second_derivative_min(datum) * (1.0 - 1e-12), "θ_min at {t}");
            if let Some(most) = likelihood.second_derivative_max(datum) {
                assert!(b <= most * (1.0 + 1e-12), "θ_max at {t}: {b} > {most}");
            }
            if let Some(most) = likelihood.third_derivative_max(datum) {
                let third = central(&|t| likelihood.second_derivative(t, datum)).abs();
                assert!(!likelihood.third_below_second() || third <= b * (1.0 + 1e-6) + 1e-9 * scale);
                if let Some(most) = likelihood.fourth_derivative_max(datum) {
                    let there = |t: f64| {
                        likelihood
                            .log_second_derivative(t, datum)
                            .map_or(0.0, |l| l.0 * likelihood.second_derivative(t, datum))
                    };
                    assert!(central(&there).abs() <= most * (1.0 + 1e-6) + 1e-9 * scale, "φ⁗ at {t}");
                    assert!((there(t).abs() - third).abs() <= 1e-6 * scale, "φ‴ at {t}");
                }
                assert!(third <= most * (1.0 + 1e-6) + 1e-9 * scale, "φ‴ at {t}: {third} > {most}");
            }
            for radius in [0.0, 0.1, 1.0, 5.0] {
                let low = likelihood.second_derivative_near(t, radius, datum);
                let within = likelihood.second_derivative_within(t, radius, datum);
                assert!(within >= low * (1.0 - 1e-12), "the least value is at least any bound");
                for k in -20..=20 {
                    let there = likelihood.second_derivative(t + radius * f64::from(k) / 20.0, datum);
                    if let Some((a, c)) = likelihood.log_second_derivative(t, datum) {
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
            let firsts = likelihood.trapezoid_derivatives(t, 0.7, datum, &nodes, &weights);
            assert_eq!(firsts, Moments { e0: 0.0, ..sums }, "all but the value at {t}");
            let (mut firsts, mut seconds, mut shifted) = ([0.0], [0.0], [t]);
            let sum = likelihood.derivatives(&[t], &[datum], &[2.0], &mut firsts, &mut seconds);
            assert!((sum - 2.0 * likelihood.value(t, datum)).abs() <= 1e-13 * sum.abs());
            let again = likelihood.first_derivatives(&mut shifted, &[datum], &[2.0]);
            assert!((again - sum).abs() <= 1e-13 * sum.abs());
            assert!((shifted[0] - firsts[0]).abs() <= 1e-13 * scale);
        }
    }
}
