//! What the terms of formulas multiply: a column, a factor, or numbers computed from columns.

use std::fmt;

use winnow::Parser;
use winnow::combinator::{alt, opt};
use winnow::token::take_till;

use super::error::Fault;
use super::expression::{Expression, Function, exponent, expression, function};
use super::lex::{Atom, Call, Input, Parsed, atom, end, expected, number, sign, space, whole, wrong};
use crate::names::{quoted, quoted_level, split};

/// Most columns that `poly`, `bs` and `ns` may have.
const MOST_COLUMNS: f64 = 100.0;

/// One factor of a term.
#[derive(Clone, Debug, PartialEq)]
pub enum Variable {
    /// A column as it is.
    Column(String),
    /// `factor(x, ref="a")`: a coefficient per level of a column, whatever its cells are.
    Factor {
        /// The column.
        column: String,
        /// The level without a coefficient; the first if it is `None`.
        reference: Option<String>,
    },
    /// Numbers computed from columns: `log(x)`, `poly(x, 2)`.
    Computed {
        /// The number per row.
        of: Expression,
        /// What is made of it.
        basis: Basis,
    },
}

/// Which columns of the design are made of a number. Means, knots and coefficients are those of the data of the fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The number.
    Itself,
    /// `scale(x)`: (x − mean)/sd, where the sd divides by n − 1.
    Scale,
    /// `poly(x, k)`: orthonormal polynomials of degree 1 to k.
    Poly(usize),
    /// `bs(x, k)`: cubic B-splines, k columns.
    Bs(usize),
    /// `ns(x, k)`: natural cubic splines, k columns.
    Ns(usize),
}

/// A basis that a number of columns belongs to.
struct Counted {
    basis: fn(usize) -> Basis,
    /// The name of the number.
    count: &'static str,
    /// The least that it may be.
    least: f64,
    /// What it is, in words.
    range: &'static str,
}

impl Counted {
    fn named(name: &str) -> Option<Self> {
        let from_1 = "a whole number from 1 to 100";
        match name {
            "poly" => Some(Self { basis: Basis::Poly, count: "degree", least: 1.0, range: from_1 }),
            "ns" => Some(Self { basis: Basis::Ns, count: "df", least: 1.0, range: from_1 }),
            "bs" => {
                let range = "a whole number from 3 to 100";
                Some(Self { basis: Basis::Bs, count: "df", least: 3.0, range })
            }
            _ => None,
        }
    }
}

impl Variable {
    /// The columns it is made of.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Column(name) | Self::Factor { column: name, .. } => vec![name],
            Self::Computed { of, .. } => of.columns(),
        }
    }

    /// Its name among the coefficients: that of a column as it is, without backquotes.
    pub fn label(&self) -> String {
        match self {
            Self::Column(name) => name.clone(),
            Self::Factor { column, .. } => format!("factor({})", quoted(column)),
            Self::Computed { of, basis: Basis::Itself } => of.as_part(),
            Self::Computed { of, basis: Basis::Scale } => format!("scale({of})"),
            Self::Computed { of, basis: Basis::Poly(k) } => format!("poly({of}, {k})"),
            Self::Computed { of, basis: Basis::Bs(k) } => format!("bs({of}, {k})"),
            Self::Computed { of, basis: Basis::Ns(k) } => format!("ns({of}, {k})"),
        }
    }

    /// As a setting names it: a call of a formula, or else a column, with or without backquotes.
    pub(crate) fn of_text(text: &str) -> Self {
        let name = text.split('(').next().unwrap_or_default().trim_end();
        let known = Counted::named(name).is_some()
            || Function::named(name).is_some()
            || ["I", "factor", "scale"].contains(&name);
        let call = || {
            whole(text, |input| {
                let own = variable(input)?;
                end(input, "the end").map(|()| own)
            })
        };
        match known.then(call) {
            Some(Ok(own)) => own,
            _ => Self::Column(split(text, &[]).concat()),
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => f.write_str(&quoted(name)),
            Self::Factor { column, reference: Some(level) } => {
                write!(f, "factor({}, ref={})", quoted(column), quoted_level(level))
            }
            _ => f.write_str(&self.label()),
        }
    }
}

/// A column, a power of one, or a call.
pub(super) fn variable(input: &mut Input<'_>) -> Parsed<Variable> {
    match atom(input)? {
        (_, Atom::Name(name)) => match opt(sign('^')).parse_next(input)? {
            Some(_) => {
                let power = exponent(input)?;
                let of = Expression::Two('^', Box::new(Expression::Column(name)), Box::new(power));
                Ok(Variable::Computed { of, basis: Basis::Itself })
            }
            None => Ok(Variable::Column(name)),
        },
        (at, Atom::Call(call)) => called(at, &call),
        (at, Atom::Number(number)) if number == "0" || number == "1" => wrong(at, Fault::NumberInProduct),
        (at, Atom::Number(number)) => wrong(at, Fault::Number { number }),
    }
}

fn called(at: usize, call: &Call) -> Parsed<Variable> {
    if let Some(of) = function(call)? {
        return Ok(match of {
            Expression::Column(name) => Variable::Column(name),
            Expression::Number(_) => return wrong(at, Fault::NoColumn { call: call.text.clone() }),
            of if of.columns().is_empty() => return wrong(at, Fault::NoColumn { call: call.text.clone() }),
            of => Variable::Computed { of, basis: Basis::Itself },
        });
    }
    let of_column = |of: &Expression| match of.columns().is_empty() {
        true => wrong(at, Fault::NoColumn { call: call.text.clone() }),
        false => Ok(()),
    };
    match (call.name.as_str(), Counted::named(&call.name)) {
        ("factor", _) => call.read(factor),
        ("scale", _) => {
            let of = call.read(|input| {
                let of = expression(input)?;
                end(input, "the ) after one expression").map(|()| of)
            })?;
            of_column(&of)?;
            Ok(Variable::Computed { of, basis: Basis::Scale })
        }
        (_, Some(own)) => {
            let (of, k) = call.read(|input| counted(input, &own))?;
            of_column(&of)?;
            Ok(Variable::Computed { of, basis: (own.basis)(k) })
        }
        ("as.factor" | "C" | "ordered", _) => {
            let column = call.inside.split(',').next().unwrap_or_default().trim().to_string();
            wrong(at, Fault::Factor { call: call.text.clone(), column })
        }
        _ => wrong(at, Fault::Function { call: call.text.clone() }),
    }
}

/// `x, 3` or `x, df = 3`.
fn counted(input: &mut Input<'_>, own: &Counted) -> Parsed<(Expression, usize)> {
    let of = expression(input)?;
    let required = match own.count {
        "degree" => ", and the degree of the polynomial",
        _ => ", and the number of columns (df)",
    };
    if opt(sign(',')).parse_next(input)?.is_none() {
        return expected(input, required);
    }
    space(input)?;
    let named: Option<&str> = opt(own.count).parse_next(input)?;
    if named.is_some() && opt(sign('=')).parse_next(input)?.is_none() {
        return expected(input, "=");
    }
    space(input)?;
    let start = *input;
    match number(input)? {
        Some(k) if k.fract() == 0.0 && (own.least..=MOST_COLUMNS).contains(&k) => {
            end(input, "the ) that closes this parenthesis").map(|()| (of, k as usize))
        }
        _ => expected(&start, own.range),
    }
}

/// `x` or `x, ref="a"`.
fn factor(input: &mut Input<'_>) -> Parsed<Variable> {
    let column = match atom(input)? {
        (_, Atom::Name(name)) => name,
        (at, Atom::Number(number)) => return wrong(at, Fault::Number { number }),
        (at, Atom::Call(call)) => return wrong(at, Fault::FactorOf { call: call.text }),
    };
    let mut reference = None;
    if opt(sign(',')).parse_next(input)?.is_some() {
        space(input)?;
        if opt("ref").parse_next(input)?.is_none() || opt(sign('=')).parse_next(input)?.is_none() {
            return expected(input, "ref=\"level\"");
        }
        space(input)?;
        let quote = opt(alt(('"', '\''))).parse_next(input)?;
        let level: &str = match quote {
            Some(quote) => take_till(0.., quote).parse_next(input)?,
            None => take_till(0.., [',', ')', ' ']).parse_next(input)?,
        };
        if level.is_empty() || (quote.is_some() && opt(alt(('"', '\''))).parse_next(input)?.is_none()) {
            return expected(input, "the name of a level between quotation marks");
        }
        reference = Some(level.to_string());
    }
    end(input, "the ) after one column, or ref=\"level\"")?;
    Ok(Variable::Factor { column, reference })
}
