//! Elementary functions the likelihoods need, written so that the compiler turns loops over them into vector code.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E, PI};

/// exp(x) for x ≤ 709, to 2 ulp; 0 below −708. Branch-free, so loops over it vectorise.
///
/// x = k ln 2 + r with |r| ≤ ln 2 / 2; eʳ by its Taylor polynomial of degree 13 (next term below 2⁻⁵⁵); 2ᵏ by the
/// exponent.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5·2⁵²: adding it rounds to an integer in the low bits
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8; // the first 32 bits of ln 2
    const LN_2_LOW: f64 = LN_2 - LN_2_HIGH + 2.319_046_813_846_3e-17; // ln 2 − high, with what f64 LN_2 lacks
    let clamped = x.clamp(-708.0, 709.0);
    let shifted = clamped * LOG2_E + MAGIC;
    let k = shifted - MAGIC;
    let r = (clamped - k * LN_2_HIGH) - k * LN_2_LOW;
    let p = polynomial(r);
    let scale = f64::from_bits((shifted.to_bits().wrapping_shl(52)).wrapping_add(1.0_f64.to_bits()));
    if x < -708.0 { 0.0 } else { p * scale }
}

#[inline(always)]
fn polynomial(r: f64) -> f64 {
    const C: [f64; 12] = [
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5_040.0,
        1.0 / 40_320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
        1.0 / 479_001_600.0,
        1.0 / 6_227_020_800.0,
    ];
    let tail = horner(&C, r);
    // 1 + (r + r²·tail): the small part is summed first
    1.0 + (r + r * r * tail)
}

/// C₀ + C₁x + C₂x² + …
#[inline(always)]
fn horner<const N: usize>(c: &[f64; N], x: f64) -> f64 {
    let mut sum = c[N - 1];
    let mut k = N - 1;
    while k > 0 {
        k -= 1;
        sum = sum * x + c[k];
    }
    sum
}

/// σ(t) = 1/(1 + e⁻ᵗ), relative accuracy on both sides.
#[inline(always)]
pub fn sigmoid(t: f64) -> f64 {
    let e = exp(-t.abs());
    let top = if t >= 0.0 { 1.0 } else { e };
    top / (1.0 + e)
}

/// σ(t)σ(−t).
#[inline(always)]
pub fn sigmoid_derivative(t: f64) -> f64 {
    let e = exp(-t.abs());
    e / ((1.0 + e) * (1.0 + e))
}

/// log(1 + x) for 0 ≤ x ≤ 1, to 2 ulp, branch-free: 2 artanh(s) with s = x/(2 + x) ≤ 1/3, sixteen terms of its series.
#[inline(always)]
pub fn log_1p_unit(x: f64) -> f64 {
    let s = x / (2.0 + x);
    let q = s * s;
    // 1/3, 1/5, …, 1/33
    const C: [f64; 16] = {
        let mut c = [0.0; 16];
        let mut k = 0;
        while k < 16 {
            c[k] = 1.0 / (2 * k + 3) as f64;
            k += 1;
        }
        c
    };
    let tail = horner(&C, q);
    // 2s + 2s·q·tail: the leading term keeps its accuracy
    let lead = 2.0 * s;
    lead + lead * (q * tail)
}

/// log x for finite x ≥ 1, to 2 ulp of its size plus one: x = 2ᵏ(1 + f), log x = k log 2 + log(1 + f). Branch-free.
#[inline(always)]
pub fn log_from_one(x: f64) -> f64 {
    let bits = x.to_bits();
    let k = (bits >> 52).wrapping_sub(1023);
    // k as a float without a conversion that has no vector form: it goes into the low bits of 2⁵²
    let k = f64::from_bits(k | 4_503_599_627_370_496.0_f64.to_bits()) - 4_503_599_627_370_496.0;
    let f = f64::from_bits((bits & ((1 << 52) - 1)) | 1.0_f64.to_bits()) - 1.0;
    k * LN_2 + log_1p_unit(f)
}

/// log(1 + eᵗ).
#[inline(always)]
pub fn softplus(t: f64) -> f64 {
    t.max(0.0) + log_1p_unit(exp(-t.abs()))
}

/// erfcx(x) = e^{x²} erfc(x), x ≥ 0.
///
/// Below 2.5 directly, with x² split so that its rounding does not enter; above by the continued fraction
/// √π erfcx(x) = 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + …)))), 60 terms from the back (error below 1e-16 from x = 2.5 on).
pub fn erfcx(x: f64) -> f64 {
    debug_assert!(x >= 0.0);
    if x < 2.5 {
        let high = f64::from_bits(x.to_bits() & 0xffff_ffff_f800_0000);
        let low = x - high;
        return (high * high).exp() * (low * (x + high)).exp() * libm::erfc(x);
    }
    if x > 1e8 {
        return 1.0 / (x * PI.sqrt());
    }
    let terms = if x < 6.0 { 120 } else { 40 };
    let mut tail = x;
    for k in (1..=terms).rev() {
        tail = x + 0.5 * k as f64 / tail;
    }
    1.0 / (tail * PI.sqrt())
}

/// The hazard of the standard normal h(x) = pdf(x)/P(X > x).
pub fn hazard(x: f64) -> f64 {
    if x >= 0.0 {
        (2.0 / PI).sqrt() / erfcx(x * FRAC_1_SQRT_2)
    } else {
        // P(X > x) is near 1: no cancellation
        (-0.5 * x * x).exp() / (2.0 * PI).sqrt() / (0.5 * libm::erfc(x * FRAC_1_SQRT_2))
    }
}

/// h′(x) = h(x)(h(x) − x) ∈ (0, 1), increasing. The difference cancels for large x, so from x = 5 on it comes from the
/// continued fraction h = x + 1/(x + 2/(x + 3/(x + …))) itself.
pub fn hazard_derivative(x: f64) -> f64 {
    if x <= 5.0 {
        let h = hazard(x);
        return h * (h - x);
    }
    let mut tail = x;
    for k in (2..=if x < 10.0 { 160 } else { 60 }).rev() {
        tail = x + f64::from(k) / tail;
    }
    let excess = 1.0 / tail;
    (x + excess) * excess
}

/// −log Φ(t), accurate in both tails.
pub fn neg_log_normal_cdf(t: f64) -> f64 {
    if t >= -1.0 {
        -(-0.5 * libm::erfc(t * FRAC_1_SQRT_2)).ln_1p()
    } else {
        0.5 * t * t - (0.5 * erfcx(-t * FRAC_1_SQRT_2)).ln()
    }
}

/// Φ(t).
pub fn normal_cdf(t: f64) -> f64 {
    0.5 * libm::erfc(-t * FRAC_1_SQRT_2)
}

/// P(χ²_df > x): P(χ²_{k+2} > x) = P(χ²_k > x) + (x/2)^{k/2}e^{−x/2}/Γ(k/2 + 1), from erfc(√(x/2)) and e^{−x/2}; for no
/// degrees of freedom χ² is 0.
pub fn chi_squared_tail(x: f64, df: u64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let half = 0.5 * x;
    let mut tail = if df % 2 == 1 { libm::erfc(half.sqrt()) } else { 0.0 };
    for k in (df % 2..df).step_by(2) {
        let k = 0.5 * k as f64;
        tail += (k * half.ln() - half - ln_gamma(k + 1.0)).exp();
    }
    tail.min(1.0)
}

/// log Γ(x).
pub fn ln_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of the χ² distribution, and the mean of the tail: ∫ P(χ²_df > x)dx = df.
    #[test]
    fn chi_squared_tails() {
        for (df, five, one) in [(1, 3.841459, 6.634897), (2, 5.991465, 9.210340), (3, 7.814728, 11.344867)] {
            assert!((chi_squared_tail(five, df) - 0.05).abs() < 1e-7, "{df}");
            assert!((chi_squared_tail(one, df) - 0.01).abs() < 1e-7, "{df}");
        }
        for df in 0..9 {
            let sum: f64 =
                (0..400_000).map(|k| 1e-3 * chi_squared_tail(1e-3 * (f64::from(k) + 0.5), df)).sum();
            assert!((sum - df as f64).abs() < 1e-5, "{df}: {sum}");
        }
        assert_eq!(chi_squared_tail(0.0, 3), 1.0);
    }

    #[test]
    fn log_is_right_from_one_on() {
        for k in 0..20_000 {
            let x = 1.003_f64.powi(k);
            assert!((log_from_one(x) - x.ln()).abs() <= 4.0 * f64::EPSILON * (1.0 + x.ln()), "at {x}");
        }
    }

    #[test]
    fn exp_is_right_to_2_ulp() {
        let mut worst = 0.0_f64;
        for i in -708_000..709_000 {
            let x = f64::from(i) * 1e-3 + 1.7e-4;
            let (got, want) = (exp(x), x.exp());
            worst = worst.max((got - want).abs() / (want * f64::EPSILON));
        }
        assert!(worst <= 2.0, "{worst} ulp");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1e4), 0.0);
        assert_eq!(exp(f64::NEG_INFINITY), 0.0);
        assert!(exp(f64::NAN).is_nan());
    }

    #[test]
    fn log_1p_is_right_to_3_ulp() {
        for i in 0..=1_000_000 {
            let x = f64::from(i) * 1e-6;
            for x in [x, x * 1e-9] {
                let (got, want) = (log_1p_unit(x), x.ln_1p());
                assert!((got - want).abs() <= 3.0 * f64::EPSILON * want, "log(1 + {x}) = {got}, not {want}");
            }
        }
    }

    #[test]
    fn normal_tails() {
        // h and h′ with 60 digits (mpmath)
        for (x, h, slope) in [
            (0.0, 0.797_884_560_802_865_4, 0.636_619_772_367_581_3),
            (1.0, 1.525_135_276_160_981, 0.800_902_334_429_651_2),
            (2.5, 2.822_744_797_663_907_3, 0.911_026_198_578_884_6),
            (5.0, 5.186_503_967_125_842, 0.967_303_565_382_887_8),
            (7.0, 7.137_545_613_226_503, 0.981_738_088_303_377_8),
            (-3.0, 0.004_437_839_042_125_664, 0.013_333_211_541_740_806),
            (49.0, 49.020_391_198_838_46, 0.999_584_544_074_417),
            (51.0, 51.019_592_794_881_13, 0.999_616_416_548_870_2),
            (300.0, 300.003_333_259_263_37, 0.999_988_889_629_561),
        ] {
            assert!((hazard(x) / h - 1.0).abs() < 2e-15, "h({x}) = {}", hazard(x));
            assert!((hazard_derivative(x) / slope - 1.0).abs() < 2e-14, "h′({x}) = {}", hazard_derivative(x));
        }
        for (t, want) in
            [(-10.0, 53.231_285_150_512_47), (0.5, 0.368_946_415_288_656_4), (8.0, 6.220_960_574_271_786e-16)]
        {
            assert!((neg_log_normal_cdf(t) / want - 1.0).abs() < 1e-14, "−log Φ({t})");
        }
        for x in [2.5, 3.0, 5.0, 5.0001, 9.9999999, 20.0, 1e3] {
            // h″ is small: neighbouring formulas must agree
            let d = (hazard_derivative(x + 1e-7) - hazard_derivative(x)).abs();
            assert!(d < 1e-7, "jump of h′ at {x}: {d}");
            assert!(hazard_derivative(x) > 0.0 && hazard_derivative(x) < 1.0);
        }
        for t in [-40.0, -10.0, -1.0, -0.999, 0.0, 3.0, 8.0] {
            let d = (neg_log_normal_cdf(t + 1e-6) - neg_log_normal_cdf(t - 1e-6)) / 2e-6;
            assert!((d + hazard(-t)).abs() < 1e-8 * (1.0 + d.abs()), "at {t}");
        }
        assert!((neg_log_normal_cdf(0.0) - LN_2).abs() < 1e-15);
        assert!(
            (neg_log_normal_cdf(-1e4) - (5e7 + 1e4_f64.ln() + 0.5 * (2.0 * PI).ln() + 1e-8)).abs() < 1e-7
        );
    }
}
