//! What every part of the grammar of formulas is read with: places, signs, names, numbers and calls.

use winnow::combinator::{cut_err, delimited, opt, peek, preceded};
use winnow::error::{ErrMode, ParserError};
use winnow::stream::{Location, Stream};
use winnow::token::{any, take_till, take_while};
use winnow::{LocatingSlice, Parser};

use super::error::{Fault, FormulaError};
use crate::names::{closing, is_name_character, is_plain};

pub(super) type Input<'a> = LocatingSlice<&'a str>;
pub(super) type Parsed<T> = Result<T, ErrMode<Problem>>;

/// What is wrong, and where in bytes.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) at: usize,
    pub(super) fault: Option<Fault>,
}

impl<'a> ParserError<Input<'a>> for Problem {
    type Inner = Self;

    fn from_input(input: &Input<'a>) -> Self {
        Self { at: input.current_token_start(), fault: None }
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

pub(super) const POWER: &str = "write x^2 for a power, a:b or a*b for products";
pub(super) const NESTED: &str = "a/b is for groups, (1 | a/b); write a + a:b for fixed effects";

/// All of a text, read by `parse`.
pub(super) fn whole<T>(
    text: &str,
    parse: impl FnOnce(&mut Input<'_>) -> Parsed<T>,
) -> Result<T, FormulaError> {
    parse(&mut LocatingSlice::new(text)).map_err(|error| {
        let problem = match error {
            ErrMode::Backtrack(problem) | ErrMode::Cut(problem) => problem,
            ErrMode::Incomplete(_) => Problem { at: text.len(), fault: None },
        };
        let found = text[problem.at..].chars().next();
        let fault = problem.fault.unwrap_or(Fault::Expected { expected: "a term", found });
        FormulaError { text: text.into(), at: problem.at, fault }
    })
}

/// An error at a place, with no way back.
pub(super) fn wrong<T>(at: usize, fault: Fault) -> Parsed<T> {
    Err(ErrMode::Cut(Problem { at, fault: Some(fault) }))
}

/// Something else is required at the place of the input.
pub(super) fn expected<T>(input: &Input<'_>, expected: &'static str) -> Parsed<T> {
    let (at, rest): (usize, &str) = (input.current_token_start(), input.as_ref());
    let found = rest.chars().next();
    match found {
        Some('^') => wrong(at, Fault::Sign { sign: '^', instead: POWER }),
        Some('%') => wrong(at, Fault::Sign { sign: '%', instead: "write the product of columns as a:b" }),
        Some('`') => wrong(at, Fault::Backquote),
        _ => wrong(at, Fault::Expected { expected, found }),
    }
}

/// The end of what is read.
pub(super) fn end(input: &mut Input<'_>, before: &'static str) -> Parsed<()> {
    space(input)?;
    if input.as_ref().is_empty() { Ok(()) } else { expected(input, before) }
}

/// What a term is made of.
pub(super) enum Atom {
    Name(String),
    Number(String),
    Call(Call),
}

/// `name(inside)`.
pub(super) struct Call {
    pub(super) name: String,
    pub(super) inside: String,
    /// As it was written.
    pub(super) text: String,
    /// Where the inside begins, in bytes.
    pub(super) start: usize,
}

impl Call {
    /// The inside of the parentheses, all of it read by `parse`; what is wrong in it is found where it is written.
    pub(super) fn read<T>(&self, parse: impl FnOnce(&mut Input<'_>) -> Parsed<T>) -> Parsed<T> {
        let shifted = |problem: Problem| Problem { at: problem.at + self.start, ..problem };
        let mut own = LocatingSlice::new(self.inside.as_str());
        parse(&mut own).map_err(|error| error.map(shifted))
    }
}

/// A name, a number or a call, and where it is.
pub(super) fn atom(input: &mut Input<'_>) -> Parsed<(usize, Atom)> {
    space(input)?;
    let at = input.current_token_start();
    let quoted = delimited('`', take_till(1.., '`'), cut_err('`'));
    if let Some(name) = opt(quoted).parse_next(input).map_err(|_: ErrMode<Problem>| unclosed(at))? {
        return Ok((at, Atom::Name(String::from(name))));
    }
    let word: Option<&str> = opt(take_while(1.., is_name_character)).parse_next(input)?;
    let Some(word) = word else {
        return match input.as_ref().chars().next() {
            Some('(') => wrong(at, Fault::Parentheses),
            Some('/') => wrong(at, Fault::Sign { sign: '/', instead: NESTED }),
            _ => expected(input, "the name of a column"),
        };
    };
    if word == "." {
        return wrong(at, Fault::Dot);
    }
    if peek(sign('(')).parse_next(input).is_ok() && is_plain(word) {
        return call(input, word).map(|call| (at, Atom::Call(call)));
    }
    let kind = if is_plain(word) { Atom::Name(word.into()) } else { Atom::Number(word.into()) };
    Ok((at, kind))
}

fn unclosed(at: usize) -> ErrMode<Problem> {
    ErrMode::Cut(Problem { at, fault: Some(Fault::Backquote) })
}

/// The rest of a call, up to the parenthesis that closes it.
fn call(input: &mut Input<'_>, name: &str) -> Parsed<Call> {
    space(input)?;
    let (start, rest): (usize, &str) = (input.current_token_start(), input.as_ref());
    let Some(close) = closing(rest) else {
        return wrong(start, Fault::Expected { expected: "the ) that closes this parenthesis", found: None });
    };
    let inside = rest[1..close].to_string();
    let text = format!("{name}({inside})");
    while input.current_token_start() <= start + close {
        any::<_, ErrMode<Problem>>.parse_next(input)?;
    }
    Ok(Call { name: name.into(), inside, text, start: start + 1 })
}

/// A number, such as `2` or `1.5e-3`, if one is here.
pub(super) fn number(input: &mut Input<'_>) -> Parsed<Option<f64>> {
    space(input)?;
    let start = input.checkpoint();
    let digits: &str = take_while(0.., |c: char| c.is_ascii_digit() || c == '.').parse_next(input)?;
    let mut text = digits.to_string();
    let mantissa = input.checkpoint();
    if opt(winnow::token::one_of(['e', 'E'])).parse_next(input)?.is_some() {
        let minus = opt(winnow::token::one_of(['+', '-'])).parse_next(input)?;
        let power: &str = take_while(0.., |c: char| c.is_ascii_digit()).parse_next(input)?;
        if power.is_empty() {
            input.reset(&mantissa);
        } else {
            text = format!("{text}e{}{power}", minus.map_or(String::new(), String::from));
        }
    }
    let after = input.as_ref().chars().next().is_some_and(is_name_character);
    match text.parse::<f64>() {
        Ok(x) if !after && !digits.is_empty() && x.is_finite() => Ok(Some(x)),
        _ => {
            input.reset(&start);
            Ok(None)
        }
    }
}

pub(super) fn space(input: &mut Input<'_>) -> Parsed<()> {
    take_while(0.., char::is_whitespace).void().parse_next(input)
}

/// A sign, after spaces.
pub(super) fn sign<'a>(sign: char) -> impl Parser<Input<'a>, char, ErrMode<Problem>> {
    preceded(space, sign)
}
