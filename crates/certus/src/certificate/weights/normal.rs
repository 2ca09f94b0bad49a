//! The standard normal law: density, upper tail, and its inverse rounded to the safe side.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

/// γ(t).
pub(super) fn density(t: f64) -> f64 {
    (-0.5 * t * t).exp() / TAU.sqrt()
}

/// Q(t) = 1 − Φ(t).
pub(super) fn upper_tail(t: f64) -> f64 {
    0.5 * libm::erfc(t * FRAC_1_SQRT_2)
}

/// The t with Q(t) = p, or a little less; −∞ for p above 0.999, where doubles near 1 know little of t.
pub(super) fn upper_quantile(p: f64) -> f64 {
    if p > 0.999 {
        return f64::NEG_INFINITY;
    }
    let (mut low, mut high) = (-38.0, 38.0);
    // 76/2⁵² is less than the guard below
    for _ in 0..52 {
        let middle = 0.5 * (low + high);
        if upper_tail(middle) >= p { low = middle } else { high = middle }
    }
    low - 1e-12 * (1.0 + f64::abs(low))
}

/// G_j(p), j = 0, 1, 2: the largest E[|g|ʲ; E] over events E of probability p ≤ 1, g standard normal. It is attained at
/// E = {|g| > y} with 2Q(y) = p: p, 2γ(y) and 2(yγ(y) + Q(y)).
pub(super) fn most_moments(p: f64) -> [f64; 3] {
    if p >= 1.0 {
        return [1.0, 2.0 * density(0.0), 1.0];
    }
    let y = upper_quantile(0.5 * p).max(0.0);
    [p, 2.0 * density(y), 2.0 * (y * density(y) + upper_tail(y))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_is_on_the_safe_side() {
        for t in [-3.0, -1.0, 0.0, 0.5, 1.959_963_984_540_054, 6.0, 20.0, 36.0] {
            let found = upper_quantile(upper_tail(t));
            assert!(found <= t && found > t - 1e-9, "{t}: {found}");
        }
        assert!(upper_tail(upper_quantile(1e-3)) >= 1e-3);
        assert_eq!(upper_quantile(1.0), f64::NEG_INFINITY);
    }

    /// Against E[|g|ʲ; |g| > y] by the trapezoid rule, and never less.
    #[test]
    fn moments_of_the_worst_event() {
        for y in [0.0, 0.3, 1.0, 2.5, 6.0] {
            let h = 1e-4;
            let sum = |j: i32| {
                let each = (0..200_000).map(|i| y + (f64::from(i) + 0.5) * h);
                2.0 * h * each.map(|g| g.powi(j) * density(g)).sum::<f64>()
            };
            let found = most_moments(2.0 * upper_tail(y));
            for (j, found) in found.into_iter().enumerate() {
                let exact = sum(j as i32);
                assert!((found / exact - 1.0).abs() < 1e-6, "{y} {j}: {found} {exact}");
            }
        }
        assert_eq!(most_moments(1.0)[0], 1.0);
        assert!((most_moments(1.0)[1] - (2.0 / std::f64::consts::PI).sqrt()).abs() < 1e-15);
        assert_eq!(most_moments(1.0)[2], 1.0);
    }
}
