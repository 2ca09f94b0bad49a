//! The left side of a formula: a column, what is computed from columns (`log(y)`), one level (`arm['b']`), or successes
//! among trials, as R (`cbind`), bambi (`p`, `prop`, `proportion`) and brms (`y | trials(n)`) write them.

use winnow::Parser;
use winnow::combinator::opt;
use winnow::token::take_till;

use super::error::Fault;
use super::expression::{Expression, function};
use super::lex::{Atom, Call, Input, Parsed, atom, end, expected, sign, space, wrong};

/// Names of the call `p(successes, trials)`.
const PROPORTIONS: [&str; 3] = ["p", "prop", "proportion"];

/// What the left side names.
pub(super) struct Left {
    pub(super) response: String,
    pub(super) computed: Option<Expression>,
    pub(super) trials: Option<String>,
    pub(super) event: Option<String>,
}

pub(super) fn left(input: &mut Input<'_>) -> Parsed<Left> {
    let (mut trials, mut event, mut computed) = (None, None, None);
    let response = match atom(input)? {
        (_, Atom::Name(name)) => name,
        (_, Atom::Call(call)) if call.name == "cbind" || PROPORTIONS.contains(&call.name.as_str()) => {
            let (successes, all) = call.read(|inside| counts(inside, &call))?;
            trials = Some(all);
            successes
        }
        (at, Atom::Call(call)) => match function(&call)? {
            Some(of) if !of.columns().is_empty() => {
                let name = of.to_string();
                computed = Some(of);
                name
            }
            _ => return wrong(at, Fault::Response { call: call.text }),
        },
        (at, Atom::Number(number)) => return wrong(at, Fault::Number { number }),
    };
    if computed.is_some() {
        return Ok(Left { response, computed, trials, event });
    }
    if trials.is_none() && opt(sign('[')).parse_next(input)?.is_some() {
        event = Some(level(input)?);
    } else if trials.is_none() && opt(sign('|')).parse_next(input)?.is_some() {
        trials = match atom(input)? {
            (_, Atom::Call(call)) if call.name == "trials" => Some(call.read(|inside| {
                let own = name(inside)?;
                end(inside, "the ) after one column").map(|()| own)
            })?),
            _ => return expected(input, "trials(n)"),
        };
    }
    Ok(Left { response, computed, trials, event })
}

/// Successes and trials: `a, n` of `p`, `a, n - a` of `cbind`.
fn counts(input: &mut Input<'_>, call: &Call) -> Parsed<(String, String)> {
    let successes = name(input)?;
    if sign(',').parse_next(input).is_err() {
        return expected(input, "a comma");
    }
    let all = name(input)?;
    if call.name == "cbind" {
        let less = if opt(sign('-')).parse_next(input)?.is_some() { Some(name(input)?) } else { None };
        if less.as_ref() != Some(&successes) {
            return wrong(0, Fault::Failures { call: call.text.clone() });
        }
    }
    end(input, "the ) after two columns").map(|()| (successes, all))
}

/// A level between brackets, with or without quotes.
fn level(input: &mut Input<'_>) -> Parsed<String> {
    space(input)?;
    let quote = input.as_ref().chars().next().filter(|c| ['\'', '"'].contains(c));
    let text: &str = match quote {
        Some(mut quote) => {
            quote.parse_next(input)?;
            let text = take_till(0.., quote).parse_next(input)?;
            if opt(quote).parse_next(input)?.is_none() {
                return expected(input, "the quote that ends the level");
            }
            text
        }
        None => take_till(1.., ']').parse_next(input).map(str::trim_end)?,
    };
    if sign(']').parse_next(input).is_err() {
        return expected(input, "]");
    }
    Ok(text.into())
}

fn name(input: &mut Input<'_>) -> Parsed<String> {
    match atom(input)? {
        (_, Atom::Name(name)) => Ok(name),
        (at, _) => wrong(at, Fault::Expected { expected: "the name of a column", found: None }),
    }
}

/// The columns that a response is read from.
pub(crate) fn response_columns<'a>(name: &'a str, computed: Option<&'a Expression>) -> Vec<&'a str> {
    computed.map_or_else(|| vec![name], Expression::columns)
}
