//! Numbers of about 106 bits, as unevaluated sums hi + lo of two f64 with |lo| ≤ ulp(hi)/2.
//!
//! With u = 2⁻⁵³ the relative errors are at most 4u² (sums), 5u² (products), 16u² (quotients) and 4u² (square roots),
//! unless something underflows: the algorithms and bounds are those of Joldes, Muller and Popescu (2017) and Lefèvre et
//! al. (2023), rounded up.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// hi + lo; ordered as the number it stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Double {
    hi: f64,
    lo: f64,
}

/// a + b = s + e exactly.
#[inline]
fn two_sum(a: f64, b: f64) -> Double {
    let s = a + b;
    let from_a = s - b;
    let from_b = s - from_a;
    Double { hi: s, lo: (a - from_a) + (b - from_b) }
}

/// The same for |a| ≥ |b| or a = 0.
#[inline]
fn quick_two_sum(a: f64, b: f64) -> Double {
    let s = a + b;
    Double { hi: s, lo: b - (s - a) }
}

/// a as the sum of two numbers of 26 bits (Veltkamp).
#[inline]
fn halves(a: f64) -> (f64, f64) {
    let big = 134_217_729.0 * a; // 2²⁷ + 1
    let high = big - (big - a);
    (high, a - high)
}

/// a b = p + e exactly (Dekker), unless e underflows or a or b exceeds 2⁹⁹⁶. Where the machine's fused multiply-add is
/// not compiled in, `mul_add` is a call that takes ten times as long.
#[inline]
fn two_product(a: f64, b: f64) -> Double {
    let p = a * b;
    let ((a_high, a_low), (b_high, b_low)) = (halves(a), halves(b));
    Double { hi: p, lo: ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low }
}

impl Double {
    /// 0.
    pub const ZERO: Self = Self { hi: 0.0, lo: 0.0 };
    /// 1.
    pub const ONE: Self = Self { hi: 1.0, lo: 0.0 };

    /// The nearest f64.
    pub fn to_f64(self) -> f64 {
        self.hi
    }

    /// True if it is neither infinite nor not a number.
    pub fn is_finite(self) -> bool {
        self.hi.is_finite() && self.lo.is_finite()
    }

    /// |x|.
    #[must_use]
    pub fn abs(self) -> Self {
        if self.hi < 0.0 { -self } else { self }
    }

    /// √x; not a number below 0.
    #[must_use]
    pub fn sqrt(self) -> Self {
        if self.hi == 0.0 {
            return Self::ZERO;
        }
        // one Newton step from the nearest f64
        let root = self.hi.sqrt();
        let square = two_product(root, root);
        let left = ((self.hi - square.hi) - square.lo) + self.lo;
        quick_two_sum(root, left / (2.0 * root))
    }

    /// The high and low parts.
    pub fn parts(self) -> (f64, f64) {
        (self.hi, self.lo)
    }
}

impl From<f64> for Double {
    fn from(x: f64) -> Self {
        Self { hi: x, lo: 0.0 }
    }
}

impl Neg for Double {
    type Output = Self;
    #[inline]
    fn neg(self) -> Self {
        Self { hi: -self.hi, lo: -self.lo }
    }
}

impl Add for Double {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        let (s, t) = (two_sum(self.hi, other.hi), two_sum(self.lo, other.lo));
        let v = quick_two_sum(s.hi, s.lo + t.hi);
        quick_two_sum(v.hi, t.lo + v.lo)
    }
}

impl Sub for Double {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Double {
    type Output = Self;
    #[inline]
    fn mul(self, other: Self) -> Self {
        let p = two_product(self.hi, other.hi);
        quick_two_sum(p.hi, p.lo + (self.hi * other.lo + self.lo * other.hi))
    }
}

impl Div for Double {
    type Output = Self;
    #[inline]
    fn div(self, other: Self) -> Self {
        let first = self.hi / other.hi;
        let product = other * Self::from(first);
        let left = (self.hi - product.hi) + (self.lo - product.lo);
        quick_two_sum(first, left / other.hi)
    }
}

impl AddAssign for Double {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Double {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dashu_float::FBig;
    use dashu_float::round::mode::HalfEven;
    use proptest::prelude::*;

    type Exact = FBig<HalfEven>;

    fn exact(x: f64) -> Exact {
        Exact::try_from(x).expect("finite").with_precision(400).value()
    }

    fn number(x: Double) -> Exact {
        exact(x.hi) + exact(x.lo)
    }

    /// |found − truth| ≤ units·2⁻¹⁰⁶|truth|, and the result is normalised.
    fn close(found: Double, truth: &Exact, units: f64, what: &str) {
        let error = number(found) - truth;
        let ratio = if *truth == Exact::ZERO { error } else { error / truth };
        let ratio = ratio.to_f64().value().abs() * 2f64.powi(106);
        assert!(ratio <= units, "{what}: {ratio} units instead of {units}");
        assert_eq!(found.hi + found.lo, found.hi, "{what} is not normalised");
    }

    fn doubles() -> impl Strategy<Value = Double> {
        (-1.0..1.0_f64, -40..40_i32, -1.0..1.0_f64, 53..70_i32).prop_map(|(a, e, b, f)| {
            let hi = a * 2f64.powi(e);
            quick_two_sum(hi, hi * b * 2f64.powi(-f))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Sums, products, quotients and roots against 400 bits, with the published bounds (units of u² = 2⁻¹⁰⁶).
        #[test]
        fn arithmetic_has_106_bits(a in doubles(), b in doubles()) {
            let (x, y) = (number(a), number(b));
            close(a + b, &(&x + &y), 4.0, "sum");
            close(a - b, &(&x - &y), 4.0, "difference");
            close(a * b, &(&x * &y), 5.0, "product");
            if b.hi != 0.0 {
                close(a / b, &(&x / &y), 16.0, "quotient");
            }
            let square = number(a.abs());
            let root = number(a.abs().sqrt());
            // |√x found − √x| ≤ 4u²√x is |found² − x| ≤ 8u²x, to first order
            let error = (&root * &root - &square).to_f64().value().abs();
            prop_assert!(error <= 8.01 * 2f64.powi(-106) * a.hi.abs(), "root of {:?}", a);
            prop_assert_eq!(a < b, x < y);
        }
    }

    /// Cancellation keeps what f64 loses, and nearby numbers are told apart.
    #[test]
    fn small_parts_survive() {
        let third = Double::ONE / Double::from(3.0);
        let left = Double::ONE - third * Double::from(3.0);
        assert!(left.abs().to_f64() <= 2f64.powi(-104));
        let tiny = Double::from(2f64.powi(-90));
        assert_eq!((Double::ONE + tiny) - Double::ONE, tiny);
        assert!(Double::ONE + tiny > Double::ONE);
        assert_eq!(Double::ZERO.sqrt(), Double::ZERO);
        assert!(!Double::from(-1.0).sqrt().is_finite());
    }
}
