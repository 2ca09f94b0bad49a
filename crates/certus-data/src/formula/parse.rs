//! The grammar of formulas:
//!
//! ```text
//! formula := name '~' sum          sum   := ['+'|'-'] piece (('+'|'-') piece)*
//! piece   := '0' | '1' | product | 'offset' '(' name ')' | '(' group ')'
//! product := term ('*' term)*      term  := name (':' name)*
//! group   := sum ('|' | '||') factor   (its sum has no groups and no offset)
//! factor  := name ((':' | '/') name)*
//! ```

use winnow::combinator::{alt, cut_err, delimited, eof, opt, peek, preceded};
use winnow::error::{ErrMode, ParserError};
use winnow::stream::{Location, Stream};
use winnow::token::{any, take_till, take_while};
use winnow::{LocatingSlice, Parser};

use super::error::{Fault, FormulaError};
use super::{Formula, GroupTerm, Term};
use crate::names::{closing, is_name_character, is_plain, same};

/// Most columns that `*` may multiply.
const MOST_FACTORS: usize = 8;

type Input<'a> = LocatingSlice<&'a str>;
type Parsed<T> = Result<T, ErrMode<Problem>>;

/// What is wrong, and where in bytes.
#[derive(Debug)]
struct Problem {
    at: usize,
    fault: Option<Fault>,
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

/// An error at a place, with no way back.
fn wrong<T>(at: usize, fault: Fault) -> Parsed<T> {
    Err(ErrMode::Cut(Problem { at, fault: Some(fault) }))
}

/// Something else is required at the place of the input.
fn expected<T>(input: &Input<'_>, expected: &'static str) -> Parsed<T> {
    let (at, rest): (usize, &str) = (input.current_token_start(), input.as_ref());
    let found = rest.chars().next();
    match found {
        Some('^') => wrong(at, Fault::Sign { sign: '^', instead: POWER }),
        Some('%') => wrong(at, Fault::Sign { sign: '%', instead: "write the product of columns as a:b" }),
        Some('`') => wrong(at, Fault::Backquote),
        _ => wrong(at, Fault::Expected { expected, found }),
    }
}

const POWER: &str = "for a power make a column of it, for products write a:b or a*b";
const NESTED: &str = "a/b is for groups, (1 | a/b); write a + a:b for fixed effects";

/// Reads a formula.
pub(super) fn formula(text: &str) -> Result<Formula, FormulaError> {
    let mut input = LocatingSlice::new(text);
    whole(&mut input).map_err(|error| {
        let problem = match error {
            ErrMode::Backtrack(problem) | ErrMode::Cut(problem) => problem,
            ErrMode::Incomplete(_) => Problem { at: text.len(), fault: None },
        };
        let found = text[problem.at..].chars().next();
        let fault = problem.fault.unwrap_or(Fault::Expected { expected: "a term", found });
        FormulaError { text: text.into(), at: problem.at, fault }
    })
}

fn whole(input: &mut Input<'_>) -> Parsed<Formula> {
    let tilde = input.as_ref().contains('~');
    if peek(sign('~')).parse_next(input).is_ok() || !tilde {
        return wrong(input.current_token_start(), Fault::NoResponse { tilde });
    }
    let response = match atom(input)? {
        (_, Atom::Name(name)) => name,
        (at, Atom::Call(call)) => return wrong(at, Fault::Response { call: call.text }),
        (at, Atom::Number(number)) => return wrong(at, Fault::Number { number }),
    };
    if sign('~').parse_next(input).is_err() {
        return expected(input, "~");
    }
    let mut sum = Sum { intercept: true, ..Sum::default() };
    sum.read(input, false)?;
    space(input)?;
    if eof::<_, ErrMode<Problem>>.parse_next(input).is_err() {
        return match input.as_ref().chars().next() {
            Some('|') => expected(input, "the parenthesis of a group term, ( … | g),"),
            _ => expected(input, "+, - or the end"),
        };
    }
    let Sum { intercept, terms: fixed, groups, offset } = sum;
    Ok(Formula { response, intercept, fixed, groups, offset })
}

/// A sum as it is read.
#[derive(Default)]
struct Sum {
    intercept: bool,
    terms: Vec<Term>,
    groups: Vec<GroupTerm>,
    offset: Option<String>,
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
                if let Some(absent) = product.iter().find(|t| !self.terms.iter().any(|own| own.is_same(t))) {
                    return wrong(at, Fault::Absent { term: absent.to_string() });
                }
                self.terms.retain(|own| !product.iter().any(|t| t.is_same(own)));
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
        // the inside of the parentheses is read again, for the place of what is wrong in it
        let inner = call.start + 1;
        let shifted = |problem: Problem| Problem { at: problem.at + inner, ..problem };
        let mut own = LocatingSlice::new(call.inside.as_str());
        let name = one_name(&mut own).map_err(|error| error.map(shifted))?;
        self.offset = Some(name);
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
            let group = Term { columns: factors[0].clone() }.to_string();
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
        let mut columns: Vec<String> = Vec::new();
        for (k, factor) in factors.iter().enumerate().filter(|(k, _)| set >> k & 1 == 1) {
            let new = factor.columns.iter().filter(|name| k == 0 || !columns.contains(name));
            let new: Vec<String> = new.cloned().collect();
            columns.extend(new);
        }
        if !terms.iter().any(|t| same(&t.columns, &columns)) {
            terms.push(Term { columns });
        }
    }
    Ok(terms)
}

/// `a:b`.
fn term(input: &mut Input<'_>) -> Parsed<Term> {
    let mut columns = vec![column(input)?];
    while opt(sign(':')).parse_next(input)?.is_some() {
        let next = column(input)?;
        if !columns.contains(&next) {
            columns.push(next);
        }
    }
    Ok(Term { columns })
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
        (at, Atom::Call(call)) => wrong(at, call.fault()),
        (at, Atom::Number(number)) if number == "0" || number == "1" => wrong(at, Fault::NumberInProduct),
        (at, Atom::Number(number)) => wrong(at, Fault::Number { number }),
    }
}

/// One column and nothing more.
fn one_name(input: &mut Input<'_>) -> Parsed<String> {
    let name = column(input)?;
    space(input)?;
    match eof::<_, ErrMode<Problem>>.parse_next(input) {
        Ok(_) => Ok(name),
        Err(_) => expected(input, "the ) after one column (for anything else make a column of it)"),
    }
}

/// What a term is made of.
enum Atom {
    Name(String),
    Number(String),
    Call(Call),
}

/// `name(inside)`.
struct Call {
    name: String,
    inside: String,
    text: String,
    /// Where the parenthesis opens, in bytes.
    start: usize,
}

impl Call {
    fn fault(self) -> Fault {
        let inside = self.inside.trim();
        let column = inside.split(',').next().unwrap_or(inside).trim().to_string();
        match self.name.as_str() {
            "factor" | "as.factor" | "C" | "ordered" => Fault::Factor { call: self.text, column },
            "log" => Fault::Function { call: self.text, sql: format!("ln({inside})") },
            "I" => Fault::Function { call: self.text, sql: powers(inside) },
            "log2" | "log10" | "sqrt" | "exp" | "abs" | "sin" | "cos" => {
                let sql = self.text.clone();
                Fault::Function { call: self.text, sql }
            }
            "scale" | "center" | "standardize" => {
                Fault::Function { call: self.text, sql: format!("{column} - avg({column}) OVER ()") }
            }
            _ => Fault::Function { call: self.text, sql: format!("{column} * {column}") },
        }
    }
}

/// `x^2` as SQL has it.
fn powers(inside: &str) -> String {
    match inside.split_once('^') {
        Some((base, power)) => format!("power({}, {})", base.trim(), power.trim()),
        None => inside.into(),
    }
}

/// A name, a number or a call, and where it is.
fn atom(input: &mut Input<'_>) -> Parsed<(usize, Atom)> {
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
    Ok(Call { name: name.into(), inside, text, start })
}

fn space(input: &mut Input<'_>) -> Parsed<()> {
    take_while(0.., char::is_whitespace).void().parse_next(input)
}

/// A sign, after spaces.
fn sign<'a>(sign: char) -> impl Parser<Input<'a>, char, ErrMode<Problem>> {
    preceded(space, sign)
}
