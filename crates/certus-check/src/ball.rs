//! Balls: a real number known to lie within `rad` of `mid`. The radius is computed in the usual rounding mode
//! and then increased by more than its own rounding errors (docs/certificate-format.md, "Balls").

/// Half the distance from 1 to the next number: a rounded sum, product, quotient or root is wrong by u of itself at
/// most.
pub(crate) const U: f64 = 1.0 / 9_007_199_254_740_992.0;
/// More than what underflow takes from the radii.
pub(crate) const TINY: f64 = 1e-250;
/// Numbers beyond this are not followed: the radius becomes infinite, and nothing is proved.
pub(crate) const LARGE: f64 = 1e50;

/// An upper bound of an expression of nonnegative numbers that was computed as `x` with at most twelve roundings.
pub(crate) fn up(x: f64) -> f64 {
    x * (1.0 + 16.0 * U) + TINY
}

/// All real numbers within `rad` of `mid`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ball {
    /// The centre.
    pub mid: f64,
    /// The radius, not negative; infinite if nothing is known.
    pub rad: f64,
}

impl Ball {
    /// 0.
    pub const ZERO: Self = Self { mid: 0.0, rad: 0.0 };

    /// A ball, unless its numbers are beyond what is followed.
    pub fn new(mid: f64, rad: f64) -> Self {
        // written so that NaN fails
        if mid.abs() + rad <= LARGE { Self { mid, rad } } else { Self { mid: 0.0, rad: f64::INFINITY } }
    }

    /// The number itself.
    pub fn exact(x: f64) -> Self {
        Self::new(x, 0.0)
    }

    /// A number that is at most every member.
    pub fn lower(self) -> f64 {
        (self.mid - self.rad).next_down()
    }

    /// A number that is at least every member.
    pub(crate) fn upper(self) -> f64 {
        (self.mid + self.rad).next_up()
    }

    /// A number that is at least the absolute value of every member.
    pub fn size(self) -> f64 {
        (self.mid.abs() + self.rad).next_up()
    }

    /// The square root; of members below 0, which rounding has made, that of 0.
    pub fn sqrt(self) -> Self {
        let root = self.mid.max(0.0).sqrt();
        if self.rad < self.mid {
            return Self::new(root, up(self.rad / root + U * root));
        }
        let most = self.upper().max(0.0).sqrt().next_up();
        Self::new(0.5 * most, up(0.5 * most))
    }

    /// e to the power of every member.
    pub fn exp(self) -> Self {
        let at = exp(self.mid);
        if self.rad > 1.0 || self.rad.is_nan() {
            return Self::new(0.0, f64::INFINITY);
        }
        // e^r − 1 ≤ r + r² for r ≤ 1
        Self::new(at.mid, up((at.mid + at.rad) * (self.rad + self.rad * self.rad) + at.rad))
    }

    /// The square.
    pub(crate) fn squared(self) -> Self {
        self * self
    }

    /// The absolute value.
    pub fn abs(self) -> Self {
        Self { mid: self.mid.abs(), rad: self.rad }
    }
}

impl From<f64> for Ball {
    fn from(x: f64) -> Self {
        Self::exact(x)
    }
}

impl std::ops::Neg for Ball {
    type Output = Self;
    fn neg(self) -> Self {
        Self { mid: -self.mid, rad: self.rad }
    }
}

impl<T: Into<Ball>> std::ops::Add<T> for Ball {
    type Output = Self;
    fn add(self, other: T) -> Self {
        let other = other.into();
        let mid = self.mid + other.mid;
        Self::new(mid, up(self.rad + other.rad + U * mid.abs()))
    }
}

impl<T: Into<Ball>> std::ops::Sub<T> for Ball {
    type Output = Self;
    fn sub(self, other: T) -> Self {
        self + -other.into()
    }
}

impl<T: Into<Ball>> std::ops::Mul<T> for Ball {
    type Output = Self;
    fn mul(self, other: T) -> Self {
        let other = other.into();
        let mid = self.mid * other.mid;
        let from_radii = self.mid.abs() * other.rad + self.rad * (other.mid.abs() + other.rad);
        Self::new(mid, up(from_radii + U * mid.abs()))
    }
}

impl<T: Into<Ball>> std::ops::Div<T> for Ball {
    type Output = Self;
    fn div(self, other: T) -> Self {
        let other = other.into();
        let (mid, least) = (self.mid / other.mid, other.mid.abs() - other.rad);
        if least.is_nan() || least <= 1.0 / LARGE {
            return Self::new(0.0, f64::INFINITY);
        }
        Self::new(mid, up((self.rad + mid.abs() * other.rad) / least + U * mid.abs()))
    }
}

/// 1/k!, of exact k!
const INVERSE_FACTORIALS: [f64; 14] = {
    let (mut out, mut factorial, mut k) = ([1.0; 14], 1.0, 1);
    while k < 14 {
        factorial *= k as f64;
        out[k] = 1.0 / factorial;
        k += 1;
    }
    out
};

/// e^x for one number, by x = k log 2 + r and thirteen terms: relative error below 2⁻⁵⁰
/// (docs/certificate-format.md, "The exponential function").
pub fn exp(x: f64) -> Ball {
    const LOG2_E: f64 = std::f64::consts::LOG2_E;
    // 33 bits of log 2, so that k times it is exact, and the rest
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    // adding and subtracting 1.5·2⁵² rounds to the nearest whole number
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    if x < -700.0 {
        return Ball { mid: 0.0, rad: 1e-300 };
    }
    if x.is_nan() || x > 700.0 {
        return Ball::new(0.0, f64::INFINITY);
    }
    let k = (x * LOG2_E + SHIFT) - SHIFT;
    let r = (x - k * LN2_HIGH) - k * LN2_LOW;
    let mut sum = INVERSE_FACTORIALS[13];
    for c in INVERSE_FACTORIALS[..13].iter().rev() {
        sum = sum * r + c;
    }
    // 2^k, exact: |k| ≤ 1010
    let power = f64::from_bits(((1023 + k as i64) as u64) << 52);
    let mid = sum * power;
    Ball::new(mid, mid * (8.0 * U))
}

/// 2 atanh z for |z| ≤ 1/3 by 17 terms of its series: relative error below 6u beyond that of z.
fn twice_atanh(z: f64) -> f64 {
    let square = z * z;
    let sum = (0..17).rev().fold(0.0, |sum, k| sum * square + 1.0 / f64::from(2 * k + 1));
    2.0 * z * sum
}

/// log(1 + e) for 0 ≤ e ≤ 1, relative error below 8u.
pub fn log_one_plus(e: f64) -> f64 {
    twice_atanh(e / (2.0 + e))
}

/// The logarithm of a positive number.
pub fn log(x: Ball) -> Ball {
    let least = x.mid - x.rad;
    if least.is_nan() || least < 1e-290 {
        return Ball::new(0.0, f64::INFINITY);
    }
    // x = 2^k f with ½√2 < f < √2, about
    let bits = x.mid.to_bits();
    let (mut k, mut f) = ((bits >> 52) as i64 - 1023, f64::from_bits(bits << 12 >> 12 | 1023 << 52));
    if f > std::f64::consts::SQRT_2 {
        (k, f) = (k + 1, 0.5 * f);
    }
    let part = twice_atanh((f - 1.0) / (f + 1.0));
    let of_two = Ball { mid: std::f64::consts::LN_2, rad: U };
    of_two * k as f64 + Ball::new(part, up(8.0 * U * part.abs() + x.rad / least))
}

/// a + b as a rounded sum and what rounding took away, exactly (Knuth's TwoSum).
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}
