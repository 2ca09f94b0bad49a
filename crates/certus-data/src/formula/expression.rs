//! Numbers that a formula computes from the cells of one row: `log(a/b)`, `x^2`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use winnow::Parser;
use winnow::combinator::{alt, opt, peek};
use winnow::stream::Location;

use super::error::{Fault, FormulaError};
use super::lex::{Atom, Call, Input, Parsed, atom, end, expected, number, sign, space, whole, wrong};
use crate::names::quoted;

/// A number per row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Expression {
    /// A number.
    Number(f64),
    /// The cell of a column.
    Column(String),
    /// A function of a number.
    Of(Function, Box<Expression>),
    /// Two numbers and what is done with them: one of `+ - * / ^`.
    Two(char, Box<Expression>, Box<Expression>),
}

/// A function of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The natural logarithm.
    Log,
    /// The logarithm to base 2.
    Log2,
    /// The logarithm to base 10.
    Log10,
    /// The natural logarithm of one more.
    Log1p,
    /// The square root.
    Sqrt,
    /// The exponential function.
    Exp,
    /// The absolute value.
    Abs,
}

impl Function {
    const ALL: [(&'static str, Self); 7] = [
        ("log", Self::Log),
        ("log2", Self::Log2),
        ("log10", Self::Log10),
        ("log1p", Self::Log1p),
        ("sqrt", Self::Sqrt),
        ("exp", Self::Exp),
        ("abs", Self::Abs),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| *own == name).map(|(_, function)| *function)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, function)| *function == self).map_or("", |(name, _)| name)
    }

    fn apply(self, x: f64) -> f64 {
        match self {
            Self::Log => x.ln(),
            Self::Log2 => x.log2(),
            Self::Log10 => x.log10(),
            Self::Log1p => x.ln_1p(),
            Self::Sqrt => x.sqrt(),
            Self::Exp => x.exp(),
            Self::Abs => x.abs(),
        }
    }
}

impl Expression {
    /// The columns it is computed from, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut all = match self {
            Self::Number(_) => Vec::new(),
            Self::Column(name) => vec![name.as_str()],
            Self::Of(_, x) => x.columns(),
            Self::Two(_, a, b) => {
                let mut all = a.columns();
                let new: Vec<&str> = b.columns().into_iter().filter(|name| !all.contains(name)).collect();
                all.extend(new);
                all
            }
        };
        all.dedup();
        all
    }

    /// Its value where the columns have these.
    pub fn value(&self, cell: &impl Fn(&str) -> f64) -> f64 {
        match self {
            Self::Number(x) => *x,
            Self::Column(name) => cell(name),
            Self::Of(function, x) => function.apply(x.value(cell)),
            Self::Two(sign, a, b) => {
                let (a, b) = (a.value(cell), b.value(cell));
                match sign {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    '/' => a / b,
                    // whole powers by multiplication
                    _ if b == b.trunc() && b.abs() <= 64.0 => a.powi(b as i32),
                    _ => a.powf(b),
                }
            }
        }
    }

    /// As a part of a term: arithmetic between the parentheses of `I(…)`.
    pub(super) fn as_part(&self) -> String {
        match self {
            Self::Two(..) | Self::Number(_) => format!("I({self})"),
            _ => self.to_string(),
        }
    }

    /// How strongly its outermost sign binds.
    fn rank(&self) -> u8 {
        match self {
            Self::Two('+' | '-', ..) => 0,
            Self::Two('*' | '/', ..) => 1,
            Self::Two(..) => 2,
            Self::Number(x) if *x < 0.0 => 0,
            _ => 3,
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // between parentheses if its sign binds less than the one next to it
        let inner = |f: &mut fmt::Formatter<'_>, x: &Self, least: u8| {
            if x.rank() < least { write!(f, "({x})") } else { write!(f, "{x}") }
        };
        match self {
            Self::Number(x) => write!(f, "{x}"),
            Self::Column(name) => f.write_str(&quoted(name)),
            Self::Of(function, x) => write!(f, "{}({x})", function.name()),
            Self::Two(sign, a, b) => {
                let own = self.rank();
                let (left, right) = if *sign == '^' { (own + 1, own) } else { (own, own + 1) };
                inner(f, a, left)?;
                match sign {
                    '+' | '-' => write!(f, " {sign} ")?,
                    _ => write!(f, "{sign}")?,
                }
                inner(f, b, right)
            }
        }
    }
}

impl FromStr for Expression {
    type Err = FormulaError;

    fn from_str(text: &str) -> Result<Self, FormulaError> {
        whole(text, |input| {
            let own = expression(input)?;
            end(input, "the end").map(|()| own)
        })
    }
}

impl TryFrom<String> for Expression {
    type Error = FormulaError;

    fn try_from(text: String) -> Result<Self, FormulaError> {
        text.parse()
    }
}

impl From<Expression> for String {
    fn from(own: Expression) -> Self {
        own.to_string()
    }
}

/// A sum of products.
pub(super) fn expression(input: &mut Input<'_>) -> Parsed<Expression> {
    let mut own = if opt(sign('-')).parse_next(input)?.is_some() {
        match product(input)? {
            Expression::Number(x) => Expression::Number(-x),
            x => two('*', Expression::Number(-1.0), x),
        }
    } else {
        product(input)?
    };
    while let Some(sign) = opt(alt((sign('+'), sign('-')))).parse_next(input)? {
        own = two(sign, own, product(input)?);
    }
    Ok(own)
}

fn two(sign: char, a: Expression, b: Expression) -> Expression {
    Expression::Two(sign, Box::new(a), Box::new(b))
}

fn product(input: &mut Input<'_>) -> Parsed<Expression> {
    let mut own = power(input)?;
    while let Some(found) = opt(alt((sign('*'), sign('/')))).parse_next(input)? {
        if input.as_ref().starts_with('*') {
            return wrong(
                input.current_token_start(),
                Fault::Sign { sign: '*', instead: "write x^2 for a power" },
            );
        }
        own = two(found, own, power(input)?);
    }
    Ok(own)
}

/// `a^b`, from the right.
fn power(input: &mut Input<'_>) -> Parsed<Expression> {
    let base = primary(input)?;
    match opt(sign('^')).parse_next(input)? {
        Some(_) => Ok(two('^', base, exponent(input)?)),
        None => Ok(base),
    }
}

/// What stands after `^`.
pub(super) fn exponent(input: &mut Input<'_>) -> Parsed<Expression> {
    if opt(sign('-')).parse_next(input)?.is_none() {
        return power(input);
    }
    match number(input)? {
        Some(x) => Ok(Expression::Number(-x)),
        None => expected(input, "a number"),
    }
}

fn primary(input: &mut Input<'_>) -> Parsed<Expression> {
    if let Some(x) = number(input)? {
        return Ok(Expression::Number(x));
    }
    space(input)?;
    if peek(sign('(')).parse_next(input).is_ok() {
        sign('(').parse_next(input)?;
        let own = expression(input)?;
        return match opt(sign(')')).parse_next(input)? {
            Some(_) => Ok(own),
            None => expected(input, "the ) that closes this parenthesis"),
        };
    }
    match atom(input)? {
        (_, Atom::Name(name)) => Ok(Expression::Column(name)),
        (at, Atom::Number(number)) => wrong(at, Fault::Number { number }),
        (at, Atom::Call(call)) => match function(&call)? {
            Some(own) => Ok(own),
            None => wrong(at, Fault::Function { call: call.text }),
        },
    }
}

/// A call of a function of numbers, or of `I`; `None` for any other.
pub(super) fn function(call: &Call) -> Parsed<Option<Expression>> {
    let own = Function::named(&call.name);
    if own.is_none() && call.name != "I" {
        return Ok(None);
    }
    let inside = call.read(|input| {
        let inside = expression(input)?;
        end(input, "the ) after one expression").map(|()| inside)
    })?;
    Ok(Some(match own {
        Some(function) => Expression::Of(function, Box::new(inside)),
        None => inside,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_written_as_they_are_read() {
        for (text, shown, value) in [
            ("x", "x", 2.0),
            ("log(x)", "log(x)", 2f64.ln()),
            (" x ^ 2 ", "x^2", 4.0),
            ("-x^2", "(-1)*x^2", -4.0),
            ("2^3^2", "2^3^2", 512.0),
            ("(2^3)^2", "(2^3)^2", 64.0),
            ("x^-1", "x^(-1)", 0.5),
            ("1 - x - 3", "1 - x - 3", -4.0),
            ("1 - (x - 3)", "1 - (x - 3)", 2.0),
            ("x/y*3", "x/y*3", 1.2),
            ("x/(y*2)", "x/(y*2)", 0.2),
            ("log1p(x + y)", "log1p(x + y)", 8f64.ln()),
            ("sqrt(abs(x - `my y`))", "sqrt(abs(x - `my y`))", 5f64.sqrt()),
            ("1.5e-3*x", "0.0015*x", 0.003),
            ("x + 1e2", "x + 100", 102.0),
        ] {
            let own: Expression = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(own.to_string(), shown);
            assert_eq!(shown.parse::<Expression>().expect("read again"), own);
            let cell = |name: &str| match name {
                "x" => 2.0,
                "y" => 5.0,
                _ => 7.0,
            };
            assert!((own.value(&cell) - value).abs() < 1e-15 * value.abs(), "{text}: {}", own.value(&cell));
        }
        for text in ["", "x +", "f(x)", "x y", "(x", "x**2", "2x", "log()", "log(x, 2)"] {
            assert!(text.parse::<Expression>().is_err(), "{text}");
        }
    }
}
