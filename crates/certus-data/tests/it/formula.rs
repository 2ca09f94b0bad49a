//! Formulas: what they mean, what is refused with which words, and that no text makes the parser panic.

use certus_data::formula::{Formula, FormulaError, GroupTerm, Term};
use proptest::prelude::*;

fn read(text: &str) -> Formula {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn error(text: &str) -> FormulaError {
    text.parse::<Formula>().expect_err(text)
}

#[test]
fn products_and_nested_groups_are_written_out() {
    for (text, meaning) in [
        ("y~x", "y ~ 1 + x"),
        ("y ~ 1", "y ~ 1"),
        ("y ~ 0 + x", "y ~ 0 + x"),
        ("y ~ x - 1", "y ~ 0 + x"),
        ("y ~ -1 + x", "y ~ 0 + x"),
        ("y ~ a*b", "y ~ 1 + a + b + a:b"),
        ("y ~ a*b*c", "y ~ 1 + a + b + c + a:b + a:c + b:c + a:b:c"),
        ("y ~ a*b - a", "y ~ 1 + b + a:b"),
        ("y ~ a*b - b:a", "y ~ 1 + a + b"),
        ("y ~ a:b*c", "y ~ 1 + a:b + c + a:b:c"),
        ("y ~ b:a + a:b + a:a + a", "y ~ 1 + b:a + a"),
        ("y ~ x + (1 | g)", "y ~ 1 + x + (1 | g)"),
        ("y ~ (x|g)", "y ~ 1 + (1 + x | g)"),
        ("y ~ (x || g)", "y ~ 1 + (1 + x || g)"),
        ("y ~ (0 + x | g)", "y ~ 1 + (0 + x | g)"),
        ("y ~ (x - 1 | g)", "y ~ 1 + (0 + x | g)"),
        ("y ~ (a*b | g)", "y ~ 1 + (1 + a + b + a:b | g)"),
        ("y ~ (1 | a/b)", "y ~ 1 + (1 | a) + (1 | a:b)"),
        ("y ~ (1 | a/b/c)", "y ~ 1 + (1 | a) + (1 | a:b) + (1 | a:b:c)"),
        ("y ~ (1 | a:b)", "y ~ 1 + (1 | a:b)"),
        ("y ~ (1 | a) + (1 | a/b)", "y ~ 1 + (1 | a) + (1 | a:b)"),
        ("y ~ x + offset(log.n)", "y ~ 1 + x + offset(log.n)"),
        ("y ~ offset( `log n` ) + x", "y ~ 1 + x + offset(`log n`)"),
        ("`my y` ~ `x:z` * größe.2_ + `2nd`", "`my y` ~ 1 + `x:z` + größe.2_ + `x:z`:größe.2_ + `2nd`"),
        ("y\t~\n x", "y ~ 1 + x"),
        ("y ~ .x", "y ~ 1 + .x"),
    ] {
        assert_eq!(read(text).to_string(), meaning, "{text}");
    }
}

#[test]
fn the_parts_are_fields() {
    let own = read("y ~ `x:z`:b + (0 + b || s/t)");
    assert_eq!(own.fixed, [Term { columns: vec!["x:z".into(), "b".into()] }]);
    let group = |factor: &[&str]| GroupTerm {
        factor: factor.iter().map(ToString::to_string).collect(),
        intercept: false,
        effects: vec![Term { columns: vec!["b".into()] }],
        correlated: false,
    };
    assert_eq!(own.groups, [group(&["s"]), group(&["s", "t"])]);
}

/// Every refusal has its place, and says what is required or what to write.
#[test]
fn what_is_wrong_is_shown_at_its_place() {
    for (text, at, words) in [
        ("", 0, "no response"),
        ("~ x", 0, "no response: write y ~ …"),
        ("y + x", 0, "no response: write y ~ x"),
        ("y ~", 3, "the formula ends"),
        ("y ~ x +", 7, "the formula ends"),
        ("y ~ x z", 6, "+, - or the end is required here, but 'z' was found"),
        ("y ~ .", 4, "name the columns"),
        ("y ~ a + log(x)", 8, "--sql \"SELECT *, ln(x) AS new FROM data\""),
        ("y ~ a:log(x)", 6, "ln(x)"),
        ("y ~ I(x^2)", 4, "power(x, 2)"),
        ("y ~ I(x + z)", 4, "x + z AS new"),
        ("y ~ scale(x)", 4, "x - avg(x) OVER () AS new"),
        ("y ~ poly(x, 2)", 4, "poly(x, 2)"),
        ("y ~ bs(x, df = 3)", 4, "make the column first"),
        ("y ~ factor(year)", 4, "'level ' || year AS new"),
        ("y ~ a + (log(x) | g)", 9, "ln(x)"),
        ("log(y) ~ x", 0, "the response is log(y)"),
        ("cbind(s, n - s) ~ x", 0, "--trials"),
        ("y ~ x^2", 5, "for a power make a column"),
        ("y ~ (a + b)^2", 4, "parentheses are for group terms"),
        ("y ~ a/b", 5, "a + a:b"),
        ("y ~ a %in% b", 6, "a:b"),
        ("y ~ 2", 4, "'2' is not a term"),
        ("y ~ 2nd", 4, "backquotes"),
        ("y ~ a:1", 6, "product"),
        ("y ~ 1:a", 4, "product"),
        ("y ~ x - z", 8, "there is no z before it"),
        ("y ~ blood-pressure", 10, "a name with a dash stands between backquotes"),
        ("y ~ x - (1 | g)", 8, "leave the group term out"),
        ("y ~ x - offset(z)", 8, "leave the offset out"),
        ("y ~ offset(a) + offset(b)", 16, "two offsets"),
        ("y ~ offset(log(n))", 11, "ln(n)"),
        ("y ~ offset(a + b)", 13, "one column"),
        ("y ~ (offset(a) | g)", 5, "outside of the parentheses"),
        ("y ~ (1 | g", 10, "the ) of the group term"),
        ("y ~ (1 | )", 9, "the name of a column"),
        ("y ~ (1 | a*b)", 10, "(1 | a) + (1 | b) + (1 | a:b)"),
        ("y ~ (1 | a + b)", 11, "one term per group"),
        ("y ~ (0 | g)", 4, "nothing varies by g"),
        ("y ~ (x)", 4, "parentheses are for group terms"),
        ("y ~ x + 1 | g", 10, "the parenthesis of a group term"),
        ("y ~ `x", 4, "never closed"),
        ("y ~ log(x", 7, "closes this parenthesis"),
        ("y ~ a*b*c*d*e*f*g*h*i", 4, "511 terms"),
        ("größe ~ x + größe^2", 21, "power"),
    ] {
        let error = error(text);
        assert_eq!(error.at, at, "{text}: {error}");
        let shown = error.to_string();
        assert!(shown.contains(words), "{text}: {shown}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1].trim_start(), text.trim_start(), "{shown}");
        assert_eq!(lines[2].chars().count(), 3 + text[..at].chars().count(), "{shown}");
    }
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let shown = error("y ~ x \u{1b}[31m z").to_string();
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zäß_][a-z0-9._]{0,3}".prop_map(String::from),
        "[a-z]{1,2}[ :/|+~()*-][0-9a-z]{1,2}".prop_map(String::from),
        Just("2nd".to_string()),
        Just("log".to_string()),
    ]
}

fn names(most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(name(), 1..=most).prop_map(|all| {
        let mut once: Vec<String> = Vec::new();
        all.into_iter().for_each(|n| {
            if !once.contains(&n) {
                once.push(n)
            }
        });
        once
    })
}

fn terms(most: usize) -> impl Strategy<Value = Vec<Term>> {
    prop::collection::vec(names(3), 0..=most).prop_map(|all| {
        let mut once: Vec<Term> = Vec::new();
        for columns in all {
            let term = Term { columns };
            if !once.iter().any(|t| t.is_same(&term)) {
                once.push(term);
            }
        }
        once
    })
}

fn group() -> impl Strategy<Value = GroupTerm> {
    (names(3), any::<bool>(), terms(3), any::<bool>()).prop_map(|(factor, intercept, effects, correlated)| {
        let intercept = intercept || effects.is_empty();
        GroupTerm { factor, intercept, effects, correlated }
    })
}

fn formulas() -> impl Strategy<Value = Formula> {
    let groups = prop::collection::vec(group(), 0..3).prop_map(|all| {
        let mut once: Vec<GroupTerm> = Vec::new();
        all.into_iter().for_each(|g| {
            if !once.contains(&g) {
                once.push(g)
            }
        });
        once
    });
    (name(), any::<bool>(), terms(4), groups, prop::option::of(name())).prop_map(
        |(response, intercept, fixed, groups, offset)| Formula { response, intercept, fixed, groups, offset },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(own in formulas()) {
        prop_assert_eq!(read(&own.to_string()), own);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = text.parse::<Formula>().map_err(|e| e.to_string());
        let _ = certus_data::formula::Pieces::of(&text);
    }

    #[test]
    fn no_formula_of_known_signs_makes_the_parser_panic(text in "[aβ01.~+*:/|()` \n^%-]{0,24}") {
        if let Err(error) = text.parse::<Formula>() {
            prop_assert!(error.at <= text.len() && !error.to_string().is_empty());
        }
        let _ = certus_data::formula::Pieces::of(&text);
    }
}
