//! Claims as plain text (docs/verify.md): one `key value...` per line, in a fixed order, numbers to the bit.

use std::fmt;

use super::claim::{Claim, ClaimFamily, Theorem};
use crate::error::Error;
use certus_likelihood::prior::Precision;

/// The first line.
const HEADER: &str = "certus-claim 1";

impl Claim {
    /// Writes the claim; [`Claim::read`] gives it back to the bit. An error if its parts do not fit together.
    pub fn write(&self, out: &mut impl fmt::Write) -> fmt::Result {
        self.check_shape().map_err(|_| fmt::Error)?;
        let d = self.dim();
        writeln!(out, "{HEADER}\nlikelihood {}", self.likelihood)?;
        if let Some(parameter) = self.parameter {
            line(out, "parameter", &[parameter])?;
        }
        writeln!(out, "dimension {d}\nrows {}", self.y.len())?;
        line(out, "prior-mean", &self.prior_mean)?;
        match &self.prior_precision {
            Precision::Diagonal(j) => line(out, "prior-diagonal", j)?,
            Precision::Dense(j) => j.chunks(d).try_for_each(|row| line(out, "prior-row", row))?,
        }
        for i in 0..self.y.len() {
            let mut row = self.design[i * d..][..d].to_vec();
            row.extend([self.y[i], self.trials[i], self.offset[i], self.weight[i]]);
            line(out, "row", &row)?;
        }
        line(out, "mean", &self.mean)?;
        self.factor.chunks(d).try_for_each(|row| line(out, "factor-row", row))?;
        match &self.family {
            ClaimFamily::All => writeln!(out, "family all")?,
            ClaimFamily::Pattern { sizes, parents } => {
                write!(out, "family pattern\nblocks")?;
                sizes.iter().try_for_each(|s| write!(out, " {s}"))?;
                write!(out, "\nparents")?;
                for parent in parents {
                    match parent {
                        Some(p) => write!(out, " {p}")?,
                        None => write!(out, " -")?,
                    }
                }
                writeln!(out)?;
            }
        }
        let theorem = Theorem::NAMES.iter().find(|n| n.0 == self.theorem).map_or("", |n| n.2);
        writeln!(out, "theorem {theorem}\nlevel {}", if self.proved { "proved" } else { "estimated" })?;
        line(out, "bound", &[self.bound])?;
        for (key, value) in [
            ("mean-error", self.mean_error),
            ("sd-error", self.sd_error),
            ("radius", self.radius),
            ("omega", self.omega),
            ("theta", self.theta),
        ] {
            if let Some(value) = value {
                line(out, key, &[value])?;
            }
        }
        writeln!(out, "end")
    }

    /// Reads a claim; errors name the line.
    pub fn read(text: &str) -> Result<Self, Error> {
        let mut lines = Lines::new(text);
        if lines.at != HEADER {
            return Err(lines.wrong(&format!("the first line must be \"{HEADER}\"")));
        }
        lines.next();
        let likelihood = lines.word("likelihood")?.to_string();
        let parameter = lines.optional("parameter")?;
        let d = lines.count("dimension")?;
        let n = lines.count("rows")?;
        let prior_mean = lines.numbers("prior-mean", d)?;
        let prior_precision = if lines.is("prior-diagonal") {
            Precision::Diagonal(lines.numbers("prior-diagonal", d)?)
        } else {
            Precision::Dense(lines.matrix("prior-row", d)?)
        };
        let (mut design, mut columns) = (Vec::new(), [const { Vec::new() }; 4]);
        for _ in 0..n {
            let row = lines.numbers("row", d.saturating_add(4))?;
            design.extend_from_slice(&row[..d]);
            columns.iter_mut().zip(&row[d..]).for_each(|(column, x)| column.push(*x));
        }
        let [y, trials, offset, weight] = columns;
        let mean = lines.numbers("mean", d)?;
        let factor = lines.matrix("factor-row", d)?;
        let family = match lines.word("family")? {
            "all" => ClaimFamily::All,
            "pattern" => {
                let whole = |lines: &Lines<'_>, s: &str| {
                    s.parse::<usize>().map_err(|_| lines.wrong(&format!("\"{s}\" is not a whole number")))
                };
                let sizes = lines.values("blocks")?;
                let sizes = sizes.iter().map(|s| whole(&lines, s)).collect::<Result<_, _>>()?;
                lines.next();
                let parents = lines.values("parents")?;
                let parents = parents
                    .iter()
                    .map(|s| if *s == "-" { Ok(None) } else { whole(&lines, s).map(Some) })
                    .collect::<Result<_, _>>()?;
                lines.next();
                ClaimFamily::Pattern { sizes, parents }
            }
            other => return Err(lines.before(&format!("the family is \"{other}\", not all or pattern"))),
        };
        let name = lines.word("theorem")?;
        let theorem = Theorem::NAMES.iter().find(|n| n.2 == name).map(|n| n.0);
        let theorem = theorem.ok_or_else(|| lines.before(&format!("unknown theorem \"{name}\"")))?;
        let proved = match lines.word("level")? {
            "proved" => true,
            "estimated" => false,
            other => return Err(lines.before(&format!("the level is \"{other}\", not proved or estimated"))),
        };
        let bound = lines.number("bound")?;
        let mean_error = lines.optional("mean-error")?;
        let sd_error = lines.optional("sd-error")?;
        let radius = lines.optional("radius")?;
        let omega = lines.optional("omega")?;
        let theta = lines.optional("theta")?;
        if lines.at != "end" {
            return Err(lines.wrong("\"end\" is expected here"));
        }
        lines.next();
        if !lines.at.is_empty() {
            return Err(lines.wrong("nothing may follow \"end\""));
        }
        Ok(Self {
            likelihood,
            parameter,
            prior_mean,
            prior_precision,
            design,
            y,
            trials,
            offset,
            weight,
            mean,
            factor,
            family,
            theorem,
            proved,
            bound,
            mean_error,
            sd_error,
            radius,
            omega,
            theta,
        })
    }
}

/// `key x₁ x₂ …`, the shortest decimals that read back to the same bits.
fn line(out: &mut impl fmt::Write, key: &str, numbers: &[f64]) -> fmt::Result {
    out.write_str(key)?;
    numbers.iter().try_for_each(|x| write!(out, " {x:?}"))?;
    writeln!(out)
}

/// The lines that say something, one at a time.
struct Lines<'a> {
    rest: std::iter::Enumerate<std::str::Lines<'a>>,
    /// The current line, empty after the last.
    at: &'a str,
    number: usize,
    last: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let mut lines = Self { rest: text.lines().enumerate(), at: "", number: 0, last: 0 };
        lines.next();
        lines
    }

    /// Goes on to the next line that is neither empty nor a comment.
    fn next(&mut self) {
        self.last = self.number;
        for (number, line) in self.rest.by_ref() {
            self.number = number + 1;
            self.at = line.trim();
            if !(self.at.is_empty() || self.at.starts_with('#')) {
                return;
            }
        }
        (self.at, self.number) = ("", self.number + 1);
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Line { line: self.number, reason: what.into() }
    }

    /// About the line that was just left.
    fn before(&self, what: &str) -> Error {
        Error::Line { line: self.last, reason: what.into() }
    }

    fn is(&self, key: &str) -> bool {
        self.at.split_whitespace().next() == Some(key)
    }

    /// The words after the key.
    fn values(&self, key: &str) -> Result<Vec<&'a str>, Error> {
        if !self.is(key) {
            return Err(self.wrong(&format!("\"{key}\" is expected here")));
        }
        Ok(self.at.split_whitespace().skip(1).collect())
    }

    fn word(&mut self, key: &str) -> Result<&'a str, Error> {
        match self.values(key)?[..] {
            [word] => {
                self.next();
                Ok(word)
            }
            _ => Err(self.wrong(&format!("\"{key}\" takes one value"))),
        }
    }

    fn count(&mut self, key: &str) -> Result<usize, Error> {
        let word = self.word(key)?;
        word.parse().map_err(|_| self.before(&format!("\"{word}\" is not a whole number")))
    }

    fn numbers(&mut self, key: &str, count: usize) -> Result<Vec<f64>, Error> {
        let words = self.values(key)?;
        if words.len() != count {
            return Err(self.wrong(&format!("\"{key}\" has {} values instead of {count}", words.len())));
        }
        let number = |word: &&str| {
            number(word).ok_or_else(|| self.wrong(&format!("\"{word}\" is not a finite number of 53 bits")))
        };
        let numbers = words.iter().map(number).collect::<Result<_, _>>()?;
        self.next();
        Ok(numbers)
    }

    fn number(&mut self, key: &str) -> Result<f64, Error> {
        Ok(self.numbers(key, 1)?[0])
    }

    fn optional(&mut self, key: &str) -> Result<Option<f64>, Error> {
        if self.is(key) { self.number(key).map(Some) } else { Ok(None) }
    }

    /// d lines of d numbers.
    fn matrix(&mut self, key: &str, d: usize) -> Result<Vec<f64>, Error> {
        let mut out = Vec::new();
        for _ in 0..d {
            out.extend(self.numbers(key, d)?);
        }
        Ok(out)
    }
}

/// A decimal or a hexadecimal number (`-0x1.8p-3`), if it is finite; hexadecimal ones must be exact.
fn number(word: &str) -> Option<f64> {
    let (negative, size) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let Some(hex) = size.strip_prefix("0x") else {
        return word.parse().ok().filter(|x: &f64| x.is_finite());
    };
    let (digits, exponent) = hex.split_once('p')?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let figures: String = [whole, part].concat();
    if figures.is_empty() || figures.len() > 16 || !figures.chars().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let mantissa = u64::from_str_radix(&figures, 16).ok()?;
    let exponent: i32 = exponent.parse().ok().filter(|e: &i32| e.abs() < 4096)?;
    let power = exponent - 4 * part.len() as i32;
    let size = libm::ldexp(mantissa as f64, power);
    let exact =
        mantissa as f64 as u128 == u128::from(mantissa) && libm::ldexp(size, -power) == mantissa as f64;
    (exact && size.is_finite()).then_some(if negative { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_of_both_kinds() {
        for (word, value) in [
            ("0x1.8p1", 3.0),
            ("-0x1p-1074", -5e-324),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0xap0", 10.0),
            ("-0x0p0", -0.0),
            ("2.5e-1", 0.25),
            ("-0.0", -0.0),
        ] {
            assert_eq!(number(word).map(f64::to_bits), Some(f64::to_bits(value)), "{word}");
        }
        for word in [
            "inf",
            "nan",
            "1e999",
            "0x",
            "0x1",
            "0xp0",
            "0x1p",
            "0x1p9999",
            "0x1.8p-1074",
            "0x1p1024",
            "0x1ffffffffffffffp0",
            "0x11111111111111111p0",
            "0x+1p0",
            "--1",
            "1_0",
            "é",
        ] {
            assert_eq!(number(word), None, "{word}");
        }
    }
}
