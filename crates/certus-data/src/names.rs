//! How the name of a column is written in formulas and settings: as it is, or between backquotes.

use std::borrow::Cow;

/// True for characters that a name without backquotes may have.
pub(crate) fn is_name_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// True for a name that a formula may have without backquotes: letters, digits, `_` and `.`, no digit first.
pub(crate) fn is_plain(name: &str) -> bool {
    let mut start = name.chars().skip_while(|c| *c == '.');
    start.next().is_some_and(|c| !c.is_numeric()) && name.chars().all(is_name_character)
}

/// A name as a formula writes it.
pub fn quoted(name: &str) -> Cow<'_, str> {
    if is_plain(name) { name.into() } else { format!("`{name}`").into() }
}

/// A level as a formula writes it: between quotation marks that it does not contain. A level that contains both kinds
/// was written without any, since within quotation marks it could not be.
pub(crate) fn quoted_level(level: &str) -> Cow<'_, str> {
    match ['"', '\''].into_iter().find(|sign| !level.contains(*sign)) {
        Some(sign) => format!("{sign}{level}{sign}").into(),
        None => level.into(),
    }
}

/// The characters that are not between backquotes, and their places.
pub(crate) fn outside(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut inside = false;
    text.char_indices().filter(move |(_, c)| {
        inside ^= *c == '`';
        !inside && *c != '`'
    })
}

/// The place of the parenthesis that closes the one at the beginning; those between backquotes or quotation marks do
/// not count.
pub(crate) fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut inside) = (0_usize, None);
    let close = |(_, c): &(usize, char)| {
        match (inside, *c) {
            (Some(quote), c) if c == quote => inside = None,
            (Some(_), _) => (),
            (None, c @ ('`' | '"' | '\'')) => inside = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => (),
        }
        depth == 0 && inside.is_none()
    };
    text.char_indices().find(close).map(|(at, _)| at)
}

/// True for the same names in any order.
pub(crate) fn same(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().all(|name| b.contains(name))
}

/// The terms in their order, except that a factor stands after those whose columns it has all.
pub(crate) fn outer_first<T>(mut terms: Vec<T>, factor: impl Fn(&T) -> &[String]) -> Vec<T> {
    let inside = |a: &T, b: &T| {
        let (a, b) = (factor(a), factor(b));
        b.len() < a.len() && b.iter().all(|name| a.contains(name))
    };
    let mut out = Vec::with_capacity(terms.len());
    while let Some(next) = terms.iter().position(|own| !terms.iter().any(|other| inside(own, other))) {
        out.push(terms.remove(next));
    }
    out
}

/// How many bytes at the beginning are the call of a function, `name( … )`.
fn call_length(text: &str) -> usize {
    let open = text.find('(').filter(|open| is_plain(&text[..*open]));
    open.and_then(|open| closing(&text[open..]).map(|close| open + close + 1)).unwrap_or(0)
}

/// The names between separators, without their backquotes; separators between backquotes belong to the name.
pub(crate) fn split<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    loop {
        let inside = rest.strip_prefix('`').and_then(|rest| rest.split_once('`'));
        if let Some((name, after)) = inside
            && (after.trim_start().is_empty() || after.trim_start().starts_with(separators))
        {
            names.push(name);
            let Some(next) = after.trim_start().strip_prefix(separators) else { return names };
            rest = next.trim_start();
            continue;
        }
        let call = call_length(rest);
        let Some(at) = rest[call..].find(separators).map(|at| call + at) else {
            names.push(rest);
            return names;
        };
        names.push(rest[..at].trim());
        let after = rest[at..].chars().next().map_or(0, char::len_utf8);
        rest = rest[at + after..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_outside_of_backquotes() {
        assert_eq!(split("a: b", &[':']), ["a", "b"]);
        assert_eq!(split(" `a:b` :c", &[':']), ["a:b", "c"]);
        assert_eq!(split("c:`a:b`", &[':']), ["c", "a:b"]);
        assert_eq!(split("a`b:c", &[':']), ["a`b", "c"]);
        assert_eq!(split("my column", &[':']), ["my column"]);
        assert_eq!(split("a/b:c", &[':', '/']), ["a", "b", "c"]);
        assert_eq!(split("", &[':']), [""]);
        assert_eq!(split("poly(x:z, 2):b", &[':']), ["poly(x:z, 2)", "b"]);
        assert_eq!(split("factor(x, ref=\"a:)\"):b", &[':']), ["factor(x, ref=\"a:)\")", "b"]);
        for name in ["a", "x:z", "2nd", "my column", "größe", ".a", "..2", "a-b"] {
            assert_eq!(split(&quoted(name), &[':']), [name]);
        }
        assert_eq!(["a", "größe", ".a", "a.b_2"].map(is_plain), [true; 4]);
        assert_eq!(["", ".", "2nd", ".2", "a b", "a-b", "x:z"].map(is_plain), [false; 7]);
    }
}
