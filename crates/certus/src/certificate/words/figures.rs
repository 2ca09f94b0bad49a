//! Numbers as text that claims no more than the number does: bounds are rounded outward, estimates to the nearest.
//!
//! Every figure after "at most" or "within" is read back as a number that is not below the one it stands for, and every
//! lower end as one that is not above: the rounding is done on the decimal digits, which Rust prints and reads exactly.

use std::fmt;

/// Which way a number is rounded.
#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    Up,
    Down,
    Nearest,
}

impl Rounding {
    /// The step that the last digit of |x| takes, if `shown` is what |x| was rounded to: 1 away from zero, −1 towards
    /// it, else 0.
    fn step(self, x: f64, shown: f64) -> i32 {
        match (self, x < 0.0) {
            (Rounding::Nearest, _) => 0,
            (Rounding::Up, false) | (Rounding::Down, true) => i32::from(shown < x.abs()),
            (Rounding::Up, true) | (Rounding::Down, false) => -i32::from(shown > x.abs()),
        }
    }
}

/// Adds `step` (1 or −1) to the last of the decimal digits; true if a digit 1 has to stand in front of them now.
fn carry(digits: &mut [u8], step: i32) -> bool {
    for digit in digits.iter_mut().rev().filter(|d| d.is_ascii_digit()) {
        match (*digit, step) {
            (b'9', 1) => *digit = b'0',
            (b'0', -1) => *digit = b'9',
            _ => {
                *digit = if step > 0 { *digit + 1 } else { *digit - 1 };
                return false;
            }
        }
    }
    step > 0
}

/// ± d₁.d₂d₃… · 10^exponent.
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i32,
}

impl Decimal {
    /// A finite x ≠ 0 with that many significant digits.
    fn new(x: f64, digits: usize, rounding: Rounding) -> Self {
        let text = format!("{:.*e}", digits - 1, x.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mut out = Self {
            negative: x < 0.0,
            digits: mantissa.bytes().filter(u8::is_ascii_digit).collect(),
            exponent: exponent.parse().unwrap_or(0),
        };
        let step = rounding.step(x, text.parse().unwrap_or(f64::NAN));
        if step != 0 && carry(&mut out.digits, step) {
            // 99 → 100
            out.digits[0] = b'1';
            out.exponent += 1;
        } else if out.digits[0] == b'0' {
            // 100 → 99, and one more digit
            out.digits.rotate_left(1);
            *out.digits.last_mut().expect("there is a digit") = b'9';
            out.exponent -= 1;
        }
        out
    }
}

impl fmt::Display for Decimal {
    /// Without an exponent from 0.001 to 9999.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = String::from_utf8_lossy(&self.digits);
        if self.negative {
            f.write_str("-")?;
        }
        match self.exponent {
            e @ 0..=3 if self.digits.len() <= e as usize + 1 => {
                write!(f, "{digits}{}", "0".repeat(e as usize + 1 - self.digits.len()))
            }
            e @ 0..=3 => write!(f, "{}.{}", &digits[..e as usize + 1], &digits[e as usize + 1..]),
            e @ -3..0 => write!(f, "0.{}{digits}", "0".repeat((-e - 1) as usize)),
            e if self.digits.len() == 1 => write!(f, "{digits}e{e}"),
            e => write!(f, "{}.{}e{e}", &digits[..1], &digits[1..]),
        }
    }
}

fn rounded(x: f64, digits: usize, rounding: Rounding) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{}", x + 0.0);
    }
    Decimal::new(x, digits, rounding).to_string()
}

/// Two significant digits, rounded up: for bounds, which may not be made smaller.
pub fn figure(x: f64) -> String {
    upward(x, 2)
}

/// That many significant digits, rounded up: for upper bounds.
pub fn upward(x: f64, digits: usize) -> String {
    rounded(x, digits, Rounding::Up)
}

/// That many significant digits, rounded down: for lower bounds.
pub fn downward(x: f64, digits: usize) -> String {
    rounded(x, digits, Rounding::Down)
}

/// That many significant digits, rounded to the nearest: for estimates.
pub fn nearest(x: f64, digits: usize) -> String {
    rounded(x, digits, Rounding::Nearest)
}

/// 100 x with two significant digits, rounded up, without the rounding of a product.
pub fn percent(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return figure(x);
    }
    let mut decimal = Decimal::new(x, 2, Rounding::Up);
    decimal.exponent += 2;
    decimal.to_string()
}

/// Below this, the estimate of a gap or of a change is rounding.
const ROUNDING: f64 = 1e-12;

/// An estimate that cannot be negative with its standard error: "0.0209 ± 0.0022"; rounding is "0 ± 1e-12".
pub fn estimate(value: f64, standard_error: f64) -> String {
    if value.abs() < ROUNDING && standard_error < ROUNDING {
        return format!("0 ± {}", figure(ROUNDING));
    }
    format!("{} ± {}", nearest(value.max(0.0), 3), figure(standard_error))
}

/// A number that is known up to an error, "-483.93118 ± 1.3e-5": the rounding of what is printed is part of the error
/// that is printed.
pub fn known_to(value: f64, error: f64) -> String {
    if !(error > 0.0 && error.is_finite() && value.is_finite()) {
        return format!("{value} ± {}", figure(error));
    }
    let decimals = (1 - error.log10().floor() as i32).clamp(0, 15) as usize;
    let shown = format!("{value:.decimals$}");
    let rounding = 0.5 * 10f64.powi(-(decimals as i32)) + f64::EPSILON * value.abs();
    format!("{shown} ± {}", figure(error + rounding))
}

/// The ends of an interval with that many decimals, the lower end rounded down and the upper end up.
pub fn interval(low: f64, high: f64, decimals: usize) -> (String, String) {
    (decimals_of(low, decimals, Rounding::Down), decimals_of(high, decimals, Rounding::Up))
}

/// 1 − δ, not rounded up, with the digits it needs and at most nine.
pub fn probability(delta: f64) -> String {
    let text = decimals_of(1.0 - delta, 9, Rounding::Down);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn decimals_of(x: f64, decimals: usize, rounding: Rounding) -> String {
    if !x.is_finite() {
        return format!("{x}");
    }
    let text = format!("{:.decimals$}", x.abs());
    let step = rounding.step(x, text.parse().unwrap_or(f64::NAN));
    let mut digits = text.into_bytes();
    if step != 0 && carry(&mut digits, step) {
        digits.insert(0, b'1');
    }
    let negative = x < 0.0 && digits.iter().any(|d| (b'1'..=b'9').contains(d));
    format!("{}{}", if negative { "-" } else { "" }, String::from_utf8_lossy(&digits))
}

/// That many significant digits, without an exponent: for estimates of ordinary size, which are rounded to the nearest.
pub fn significant(x: f64, digits: i32) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let decimals = (digits - 1 - x.abs().log10().floor() as i32).max(0) as usize;
    format!("{x:.decimals$}")
}

/// "1 pass", "2 passes": a count with its noun.
pub fn counted(count: impl fmt::Display + PartialEq + From<u8>, noun: &str) -> String {
    let one = count == 1.into();
    let ending = match noun {
        _ if one => "",
        noun if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significant_digits() {
        for (x, text) in [(0.0, "0"), (f64::INFINITY, "inf"), (12.3456, "12.35"), (-0.012_346, "-0.01235")] {
            assert_eq!(significant(x, 4), text);
        }
    }

    #[test]
    fn figures_are_rounded_up() {
        for (x, text) in [
            (0.012, "0.012"),
            (0.01201, "0.013"),
            (6.21, "6.3"),
            (28.9, "29"),
            (123.0, "130"),
            (0.099_99, "0.10"),
            (9_999.0, "1.0e4"),
            (2.01e-8, "2.1e-8"),
            (6.98461e-7, "7.0e-7"),
            (0.0, "0"),
            (-0.0, "0"),
            (5e-324, "4.9e-324"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(figure(x), text);
        }
        assert_eq!([percent(0.0032), percent(0.003_201), percent(7.1)], ["0.32", "0.33", "710"]);
        assert_eq!([downward(0.0999, 2), downward(1.0, 2), downward(-12.34, 2)], ["0.099", "1.0", "-13"]);
        assert_eq!([upward(-12.34, 2), upward(0.099_230_1, 4)], ["-12", "0.09924"]);
        assert_eq!(nearest(0.025_449, 3), "0.0254");
        assert_eq!(estimate(-1e-3, 0.001_21), "0 ± 0.0013");
        assert_eq!(estimate(3e-33, 2e-16), "0 ± 1.0e-12");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(
            [0, 1, 2].map(|n: usize| counted(n, "exact pass")),
            ["0 exact passes", "1 exact pass", "2 exact passes"]
        );
        assert_eq!([1, 2].map(|n: u64| counted(n, "row")), ["1 row", "2 rows"]);
    }

    #[test]
    fn intervals_are_rounded_outward() {
        let shown = |low, high| interval(low, high, 4);
        assert_eq!(shown(1.000_01, 1.000_01), ("1.0000".into(), "1.0001".into()));
        assert_eq!(shown(-1.000_01, -1.000_01), ("-1.0001".into(), "-1.0000".into()));
        assert_eq!(shown(-1e-9, 1e-9), ("-0.0001".into(), "0.0001".into()));
        assert_eq!(shown(1e-9, -1e-9), ("0.0000".into(), "0.0000".into()));
        assert_eq!(shown(-99.999_99, 99.999_99), ("-100.0000".into(), "100.0000".into()));
        assert_eq!(shown(0.5, 0.25), ("0.5000".into(), "0.2500".into()));
        assert_eq!([0.01, 0.05, 1e-6, 1e-12].map(probability), ["0.99", "0.95", "0.999999", "0.999999999"]);
    }

    #[test]
    fn what_is_known_to_an_error_is_within_it_as_printed() {
        assert_eq!(known_to(-483.931_182_745, 1.2e-5), "-483.931183 ± 1.3e-5");
        assert_eq!(known_to(2.0, 0.0), "2 ± 0");
        for (value, error) in
            [(-483.93118, 1.2e-9), (0.123_456, 0.07), (-1e6 / 3.0, 3.4e-7), (2e3 / 7.0, 40.0), (-1e-7, 1e-3)]
        {
            let text = known_to(value, error);
            let (shown, within) = text.split_once(" ± ").expect("two numbers");
            let (shown, within): (f64, f64) = (shown.parse().expect("one"), within.parse().expect("two"));
            // the truth may be anywhere in value ± error
            assert!((shown - value).abs() + error <= within, "{text}");
            assert!(within <= 1.25 * error, "{text}");
        }
    }

    /// 200,000 numbers over all magnitudes: text read back never claims more than the number.
    #[test]
    fn no_text_claims_more_than_its_number() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            bits
        };
        let read = |text: &str| text.parse::<f64>().expect("a number");
        for k in 0..200_000 {
            let any = f64::from_bits(next());
            // half of them of ordinary size
            let x = if k % 2 == 0 { any } else { (any % 1e3) * 10f64.powi((next() % 12) as i32 - 8) };
            if !x.is_finite() {
                continue;
            }
            for digits in [2, 4] {
                // the largest numbers have no decimal above them
                let up = read(&upward(x, digits));
                assert!(up >= x, "{x:e} → {}", upward(x, digits));
                assert!(read(&downward(x, digits)) <= x, "{x:e} → {}", downward(x, digits));
            }
            if x.abs() < 1e15 {
                let (low, high) = interval(x, x, 4);
                assert!(read(&low) <= x && x <= read(&high), "{x:e} → {low} {high}");
                assert!(read(&high) - read(&low) <= 1.0001e-4 + 4.0 * f64::EPSILON * x.abs(), "{x:e}");
            }
            let x = x.abs();
            assert!(read(&percent(x)) >= x * 100.0 * (1.0 - 3e-16) || x > 1e305, "{x:e} → {}", percent(x));
            assert!(!(1e-300..=1e300).contains(&x) || read(&figure(x)) <= 1.1 * x, "{x:e} → {}", figure(x));
        }
    }
}
