//! A formula cut into its fixed part and its group terms, as text: for what another program evaluates.

use crate::names::{closing, outside};

/// The parts of a formula as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// The formula without its group terms.
    pub fixed: String,
    /// The group terms.
    pub groups: Vec<GroupPiece>,
}

/// The parts of a group term as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPiece {
    /// Before the bar.
    pub effects: String,
    /// False for `||`.
    pub correlated: bool,
    /// After the bar.
    pub factor: String,
}

impl Pieces {
    /// Cuts out every parenthesis of the formula that has a bar in it and is not an argument.
    pub fn of(text: &str) -> Self {
        let mut pieces = Self { fixed: String::new(), groups: Vec::new() };
        let mut rest = text;
        while let Some((open, _)) = outside(rest).find(|(_, c)| *c == '(') {
            let (before, after) = rest.split_at(open);
            let Some(close) = closing(after) else { break };
            let called = before.ends_with(|c: char| c.is_alphanumeric() || "_.`])".contains(c));
            match cut(&after[1..close]).filter(|_| !called) {
                Some(group) => {
                    // the sign before it goes with it
                    let kept = before.trim_end();
                    pieces.fixed.push_str(kept.strip_suffix('+').unwrap_or(kept).trim_end());
                    pieces.groups.push(group);
                }
                None => {
                    pieces.fixed.push_str(before);
                    pieces.fixed.push_str(&after[..=close]);
                }
            }
            rest = &after[close + 1..];
        }
        pieces.fixed.push_str(rest);
        if !pieces.groups.is_empty() {
            pieces.fixed = tidy(&pieces.fixed);
        }
        pieces
    }
}

/// The parts around the bar, if there is one outside of inner parentheses.
fn cut(inside: &str) -> Option<GroupPiece> {
    let mut depth = 0_usize;
    let (at, _) = outside(inside).find(|(_, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => (),
        }
        *c == '|' && depth == 0
    })?;
    let (effects, after) = inside.split_at(at);
    let (correlated, factor) = match after.strip_prefix("||") {
        Some(factor) => (false, factor),
        None => (true, &after[1..]),
    };
    Some(GroupPiece { effects: effects.trim().into(), correlated, factor: factor.trim().into() })
}

/// What is left after `~` needs a term, and no sign at its beginning.
fn tidy(fixed: &str) -> String {
    let Some((response, rest)) = fixed.split_once('~') else { return fixed.into() };
    let rest = rest.trim();
    let rest = rest.strip_prefix('+').unwrap_or(rest).trim();
    format!("{} ~ {}", response.trim(), if rest.is_empty() { "1" } else { rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_terms_are_cut_out() {
        for (text, fixed, groups) in [
            ("y ~ x + (1 | g)", "y ~ x", vec![("1", true, "g")]),
            ("y ~ (x||g)", "y ~ 1", vec![("x", false, "g")]),
            ("y ~ (1|g) + np.log(x)", "y ~ np.log(x)", vec![("1", true, "g")]),
            (
                "y ~ f(x) + (f(x) | a/b) + (1 | c) + z",
                "y ~ f(x) + z",
                vec![("f(x)", true, "a/b"), ("1", true, "c")],
            ),
            ("y ~ I((x | z)) + (a + b):c", "y ~ I((x | z)) + (a + b):c", vec![]),
            ("y ~ x + (1 | g", "y ~ x + (1 | g", vec![]),
        ] {
            let own = Pieces::of(text);
            assert_eq!(own.fixed, fixed, "{text}");
            let found: Vec<_> =
                own.groups.iter().map(|g| (g.effects.as_str(), g.correlated, g.factor.as_str())).collect();
            assert_eq!(found, groups, "{text}");
        }
    }
}
