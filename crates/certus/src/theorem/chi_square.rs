//! Tails of the chi-square distribution, for the expected-smoothness constant Q_d(κ) of B2.

/// P(χ²_k > x), by the finite sum over Γ-densities (terms are positive: no cancellation).
///
/// SF_k(x) = [erfc(√(x/2)) if k is odd] + Σ (x/2)^a e^{−x/2} / Γ(a + 1), a = k/2 − 1, k/2 − 2, …, down to 0 or 1/2.
pub fn survival(k: usize, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let (half, top) = (0.5 * x, 0.5 * k as f64 - 1.0);
    let odd = if k % 2 == 1 { libm::erfc(half.sqrt()) } else { 0.0 };
    if top < 0.0 {
        return odd;
    }
    // The largest term sits at a ≈ x/2; start there and go both ways so that nothing underflows on the way.
    let lowest = if k % 2 == 1 { 0.5 } else { 0.0 };
    let start = lowest + (half - lowest).floor().clamp(0.0, top - lowest);
    let peak = (start * half.ln() - half - libm::lgamma(start + 1.0)).exp();
    let (mut sum, mut term, mut a) = (peak, peak, start);
    while a < top && term > 1e-20 * sum {
        a += 1.0;
        term *= half / a;
        sum += term;
    }
    (term, a) = (peak, start);
    while a > lowest && term > 1e-20 * sum {
        term *= a / half;
        a -= 1.0;
        sum += term;
    }
    (odd + sum).min(1.0)
}

/// Q_d(κ) = CVaR_{1/κ}(1 + χ²_{d+2}) (B2), which replaces the paper's (d+3)κ.
///
/// For every c ≥ 1, c + κ[(d+2) SF_{d+4}(c−1) − (c−1) SF_{d+2}(c−1)] is a valid constant and the quantile c − 1 = q
/// with SF_{d+2}(q) = 1/κ is the best one, so an approximate quantile is safe. The result is rounded up.
pub fn expected_smoothness_factor(dim: usize, kappa: f64) -> f64 {
    let d = dim as f64;
    let kappa = kappa.max(1.0);
    let (mut low, mut high) = (0.0, d + 2.0);
    while survival(dim + 2, high) > 1.0 / kappa {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if survival(dim + 2, middle) > 1.0 / kappa { low = middle } else { high = middle }
    }
    let q = if kappa == 1.0 { 0.0 } else { high };
    let excess = (d + 2.0) * survival(dim + 4, q) - q * survival(dim + 2, q);
    // lgamma errs by about an ulp of d ln d, which the exponential passes on
    (1.0 + q + kappa * excess) * (1.0 + 1e-10 + 4e-16 * d * d.ln_1p())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms() {
        for x in [0.1, 1.0, 7.0, 40.0, 300.0] {
            let h: f64 = 0.5 * x;
            assert!((survival(2, x) / (-h).exp() - 1.0).abs() < 1e-13);
            assert!((survival(4, x) / ((-h).exp() * (1.0 + h)) - 1.0).abs() < 1e-13);
            assert!((survival(1, x) / libm::erfc(h.sqrt()) - 1.0).abs() < 1e-13);
            let three = libm::erfc(h.sqrt()) + 2.0 * (h / std::f64::consts::PI).sqrt() * (-h).exp();
            assert!((survival(3, x) / three - 1.0).abs() < 1e-13);
        }
    }

    /// Against the midpoint rule on the density of χ²_k, for k where e^{−x/2} alone underflows.
    #[test]
    fn large_degrees() {
        for (k, x) in [(50, 60.0), (101, 90.0), (3000, 3100.0), (20_000, 19_900.0)] {
            let a = 0.5 * k as f64;
            let density = |t: f64| ((a - 1.0) * (0.5 * t).ln() - 0.5 * t - libm::lgamma(a)).exp() * 0.5;
            let (n, width) = (200_000, 40.0 * (2.0 * k as f64).sqrt());
            let step = width / n as f64;
            let sum: f64 = (0..n).map(|i| density(x + (i as f64 + 0.5) * step)).sum::<f64>() * step;
            assert!((survival(k, x) - sum).abs() < 2e-8, "k = {k}: {} against {sum}", survival(k, x));
        }
    }

    #[test]
    fn factor_is_d_plus_3_without_conditioning_and_grows_slowly() {
        for dim in [1, 2, 10, 101, 1000] {
            let d = dim as f64;
            let one = expected_smoothness_factor(dim, 1.0);
            assert!((one - (d + 3.0)).abs() < 1e-8 * d);
            let mut last = one;
            for kappa in [1.001, 2.0, 10.0, 1e3, 1e6, 1e12] {
                let q = expected_smoothness_factor(dim, kappa);
                let l = 1.0 + f64::ln(kappa);
                assert!(q >= last, "Q must grow with κ");
                assert!(q <= d + 3.0 + 2.0 * ((d + 2.0) * l).sqrt() + 2.0 * l, "explicit bound of B2");
                assert!(q <= (d + 3.0) * kappa * (1.0 + 1e-9), "never worse than the paper");
                last = q;
            }
        }
    }
}
