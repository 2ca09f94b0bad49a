//! The grammar of formulas:
//!
//! ```text
//! formula := left '~' sum          sum   := ['+'|'-'] piece (('+'|'-') piece)*
//! left    := name | name '[' event ']' | 'p' '(' name ',' name ')' | 'cbind' '(' name ',' name '-' name ')' |
//!            name '|' 'trials' '(' name ')'
//! piece   := '0' | '1' | '.' | product | 'offset' '(' expression ')' | '(' group ')'
//! product := term ('*' term)*      term  := variable (':' variable)*
//! group   := sum ('|' | '||') factor   (its sum has no groups, no offset and no '.')
//! factor  := name ((':' | '/') name)*
//! ```

use winnow::Parser;
use winnow::combinator::{alt, opt, peek, preceded};
use winnow::stream::{Location, Stream};
use winnow::token::take_while;

use super::error::{Fault, FormulaError};
use super::expression::{Expression, expression};
use super::left::{Left, left};
use super::lex::{Atom, Call, Input, NESTED, POWER, Parsed, atom, end, expected, sign, space, whole, wrong};
use super::offset::Offset;
use super::variable::{Variable, variable};
use super::{Formula, GroupTerm, Term};
use crate::names::{is_name_character, quoted};

/// Most variables that `*` may multiply.
const MOST_FACTORS: usize = 8;

/// Reads a formula.
pub(super) fn formula(text: &str) -> Result<Formula, FormulaError> {
    whole(text, both_sides)
}

fn both_sides(input: &mut Input<'_>) -> Parsed<Formula> {
    let tilde = input.as_ref().contains('~');
    if peek(sign('~')).parse_next(input).is_ok() || !tilde {
        return wrong(input.current_token_start(), Fault::NoResponse { tilde });
    }
    let Left { response, computed, trials, event } = left(input)?;
    if sign('~').parse_next(input).is_err() {
        return expected(input, "~");
    }
    let mut sum = Sum { intercept: true, ..Sum::default() };
    sum.read(input, false)?;
    space(input)?;
    if input.as_ref().starts_with('|') {
        return expected(input, "the parenthesis of a group term, ( … | g),");
    }
    end(input, "+, - or the end")?;
    let Sum { intercept, terms: fixed, others, groups, offset } = sum;
    Ok(Formula { response, computed, trials, event, intercept, fixed, others, groups, offset })
}

/// A sum as it is read.
#[derive(Default)]
struct Sum {
    intercept: bool,
    terms: Vec<Term>,
    /// With `.`, the columns that are removed from it.
    others: Option<Vec<String>>,
    groups: Vec<GroupTerm>,
    offset: Option<Offset>,
}

impl Sum {
    /// Pieces with signs between them; of a group if `inside`.
    fn read(&mut self, input: &mut Input<'_>, inside: bool) -> Parsed<()> {
        let mut add =
            opt(alt((sign('+').value(true), sign('-').value(false)))).parse_next(input)?.unwrap_or(true);
        loop {
            self.piece(input, add, inside)?;
            match opt(alt((sign('+').value(true), sign('-').value(false)))).parse_next(input)? {
                Some(next) => add = next,
                None => return Ok(()),
            }
        }
    }

    fn piece(&mut self, input: &mut Input<'_>, add: bool, inside: bool) -> Parsed<()> {
        space(input)?;
        let at = input.current_token_start();
        if input.as_ref().starts_with('(') {
            return if inside { wrong(at, Fault::Parentheses) } else { self.group(input, add) };
        }
        let start = input.checkpoint();
        if opt(dot).parse_next(input)?.is_some() {
            let alone =
                peek(opt(alt((sign('*'), sign(':'), sign('^'), sign('/'))))).parse_next(input)?.is_none();
            return match (alone && !inside, add) {
                (false, _) => wrong(at, Fault::Dot),
                (_, false) => wrong(at, Fault::Removed { what: "'.'" }),
                (_, true) => {
                    self.others.get_or_insert_default();
                    Ok(())
                }
            };
        }
        match atom(input)? {
            (_, Atom::Call(call)) if call.name == "offset" => self.offset(at, &call, add, inside),
            (_, Atom::Number(number)) => {
                if peek(alt((sign('*'), sign(':')))).parse_next(input).is_ok() {
                    return wrong(at, Fault::NumberInProduct);
                }
                match (number.as_str(), add) {
                    ("0", true) | ("1", false) => self.intercept = false,
                    ("1", true) => self.intercept = true,
                    _ => return wrong(at, Fault::Number { number }),
                }
                Ok(())
            }
            _ => {
                input.reset(&start);
                let product = product(input)?;
                if add {
                    let new = product.into_iter().filter(|t| !self.terms.iter().any(|own| own.is_same(t)));
                    let new: Vec<Term> = new.collect();
                    self.terms.extend(new);
                    return Ok(());
                }
                let absent = |t: &&Term| !self.terms.iter().any(|own| own.is_same(t));
                let of_others = |t: &&Term| self.others.is_some() && t.as_column().is_some();
                if let Some(absent) = product.iter().find(|t| absent(t) && !of_others(t)) {
                    return wrong(at, Fault::Absent { term: absent.to_string() });
                }
                self.terms.retain(|own| !product.iter().any(|t| t.is_same(own)));
                if let Some(except) = &mut self.others {
                    except.extend(product.iter().filter_map(Term::as_column).map(String::from));
                }
                Ok(())
            }
        }
    }

    fn offset(&mut self, at: usize, call: &Call, add: bool, inside: bool) -> Parsed<()> {
        if inside {
            return wrong(at, Fault::OffsetByGroup);
        }
        if !add {
            return wrong(at, Fault::Removed { what: "the offset" });
        }
        if self.offset.is_some() {
            return wrong(at, Fault::TwoOffsets);
        }
        let of = call.read(|input| {
            let of = expression(input)?;
            end(input, "the ) after one expression").map(|()| of)
        })?;
        self.offset = Some(match of {
            Expression::Column(name) => Offset::Column(name),
            of => Offset::Computed { of },
        });
        Ok(())
    }

    fn group(&mut self, input: &mut Input<'_>, add: bool) -> Parsed<()> {
        let at = input.current_token_start();
        sign('(').parse_next(input)?;
        let mut sum = Self { intercept: true, ..Self::default() };
        sum.read(input, true)?;
        let bar = opt(preceded(space, alt(("||", "|")))).parse_next(input)?;
        let Some(bar) = bar else {
            return match opt(sign(')')).parse_next(input)? {
                Some(_) => wrong(at, Fault::Parentheses),
                None => expected(input, "| and the name of a group"),
            };
        };
        if !add {
            return wrong(at, Fault::Removed { what: "the group term" });
        }
        let correlated = bar == "|";
        let factors = factors(input)?;
        if sign(')').parse_next(input).is_err() {
            return match input.as_ref().chars().next() {
                Some('*') => wrong(
                    input.current_token_start(),
                    Fault::Sign { sign: '*', instead: "write (1 | a) + (1 | b) + (1 | a:b)" },
                ),
                Some('+') => wrong(
                    input.current_token_start(),
                    Fault::Sign { sign: '+', instead: "write one term per group, (1 | a) + (1 | b)" },
                ),
                _ => expected(input, "the ) of the group term"),
            };
        }
        if !sum.intercept && sum.terms.is_empty() {
            let names: Vec<_> = factors[0].iter().map(|name| quoted(name)).collect();
            let group = names.join(":");
            return wrong(at, Fault::NothingVaries { group });
        }
        for factor in factors {
            let (intercept, effects) = (sum.intercept, sum.terms.clone());
            let term = GroupTerm { factor, intercept, effects, correlated };
            if !self.groups.contains(&term) {
                self.groups.push(term);
            }
        }
        Ok(())
    }
}

/// `.` alone, not the beginning of a name or a number.
fn dot<'a>(input: &mut Input<'a>) -> Parsed<&'a str> {
    take_while(1.., is_name_character).verify(|word: &str| word == ".").parse_next(input)
}

/// `a:b*c`, written out: all products of the terms that `*` connects, shorter ones first.
fn product(input: &mut Input<'_>) -> Parsed<Vec<Term>> {
    let at = input.current_token_start();
    let mut factors = vec![term(input)?];
    while opt(sign('*')).parse_next(input)?.is_some() {
        if input.as_ref().starts_with('*') {
            return wrong(input.current_token_start(), Fault::Sign { sign: '*', instead: POWER });
        }
        factors.push(term(input)?);
    }
    if peek(sign('/')).parse_next(input).is_ok() {
        space(input)?;
        return wrong(input.current_token_start(), Fault::Sign { sign: '/', instead: NESTED });
    }
    if factors.len() > MOST_FACTORS {
        return wrong(at, Fault::TooMany { count: factors.len().min(100) });
    }
    let mut sets: Vec<u32> = (1..1 << factors.len()).collect();
    // 1 before 2 before 3 factors, and among those earlier factors first
    sets.sort_by_key(|set| (set.count_ones(), std::cmp::Reverse(set.reverse_bits())));
    let mut terms: Vec<Term> = Vec::new();
    for set in sets {
        let mut variables: Vec<Variable> = Vec::new();
        for (k, factor) in factors.iter().enumerate().filter(|(k, _)| set >> k & 1 == 1) {
            let new = factor.variables.iter().filter(|own| k == 0 || !variables.contains(own));
            let new: Vec<Variable> = new.cloned().collect();
            variables.extend(new);
        }
        let own = Term { variables };
        if !terms.iter().any(|t| t.is_same(&own)) {
            terms.push(own);
        }
    }
    Ok(terms)
}

/// `a:b`.
fn term(input: &mut Input<'_>) -> Parsed<Term> {
    let mut variables = vec![variable(input)?];
    while opt(sign(':')).parse_next(input)?.is_some() {
        let next = variable(input)?;
        if !variables.contains(&next) {
            variables.push(next);
        }
    }
    Ok(Term { variables })
}

/// The factors of a group: `a/b` is a and a:b.
fn factors(input: &mut Input<'_>) -> Parsed<Vec<Vec<String>>> {
    let mut factors: Vec<Vec<String>> = Vec::new();
    let mut own: Vec<String> = Vec::new();
    loop {
        let next = column(input)?;
        if !own.contains(&next) {
            own.push(next);
        }
        match opt(alt((sign('/'), sign(':')))).parse_next(input)? {
            Some('/') => factors.push(own.clone()),
            Some(_) => (),
            None => {
                factors.push(own);
                factors.dedup();
                return Ok(factors);
            }
        }
    }
}

/// The name of a column where nothing else may be.
fn column(input: &mut Input<'_>) -> Parsed<String> {
    match atom(input)? {
        (_, Atom::Name(name)) => Ok(name),
        (at, Atom::Call(call)) => wrong(at, Fault::GroupOf { call: call.text }),
        (at, Atom::Number(number)) => wrong(at, Fault::Number { number }),
    }
}
