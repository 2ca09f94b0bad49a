//! Formulas: what they mean, what is refused with which words, and that no text makes the parser panic.

use certus_data::formula::{Basis, Expression, Formula, FormulaError, GroupTerm, Offset, Term, Variable};
use proptest::prelude::*;

fn term(columns: &[&str]) -> Term {
    Term { variables: columns.iter().map(|name| Variable::Column(name.to_string())).collect() }
}

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
        ("y ~ log(x)*z", "y ~ 1 + log(x) + z + log(x):z"),
        ("y ~ x^2 + I(x^2) + I(x)", "y ~ 1 + I(x^2) + x"),
        ("y ~ a:log(x)", "y ~ 1 + a:log(x)"),
        ("y ~ I( a/b ) + sqrt(x+1)", "y ~ 1 + I(a/b) + sqrt(x + 1)"),
        (
            "y ~ scale(log(x)) + poly(x,3) + bs(x, df=4) + ns(`a b`, 2)",
            "y ~ 1 + scale(log(x)) + poly(x, 3) + bs(x, 4) + ns(`a b`, 2)",
        ),
        ("y ~ factor(year) + factor( year )", "y ~ 1 + factor(year)"),
        (
            "y ~ factor(g, ref = 'a, b)')*x",
            "y ~ 1 + factor(g, ref=\"a, b)\") + x + factor(g, ref=\"a, b)\"):x",
        ),
        ("arm['yes, b'] ~ x", "arm[\"yes, b\"] ~ 1 + x"),
        ("arm[ 1 ] ~ x", "arm[\"1\"] ~ 1 + x"),
        ("arm['a \"b\"'] ~ x", "arm['a \"b\"'] ~ 1 + x"),
        ("cbind(s, n - s) ~ x", "p(s, n) ~ 1 + x"),
        ("proportion(s, `all n`) ~ x", "p(s, `all n`) ~ 1 + x"),
        ("s | trials(n) ~ x + (1 | g)", "p(s, n) ~ 1 + x + (1 | g)"),
        ("y ~ factor(g, ref=2)", "y ~ 1 + factor(g, ref=\"2\")"),
        // both quotation marks: only without any
        ("arm[a\"b' ] ~ x", "arm[a\"b'] ~ 1 + x"),
        ("y ~ factor(g, ref=a\"b'c\")", "y ~ 1 + factor(g, ref=a\"b'c\")"),
        ("y ~ log(x) + (log(x) | g)", "y ~ 1 + log(x) + (1 + log(x) | g)"),
        ("y ~ x + offset(log(n) + b)", "y ~ 1 + x + offset(log(n) + b)"),
        ("y ~ .x", "y ~ 1 + .x"),
        ("y ~ .", "y ~ 1 + ."),
        ("y ~ 0 + . - a - `b c` + log(d) + (1 | g)", "y ~ 0 + . - a - `b c` + log(d) + (1 | g)"),
        ("y ~ a*b + . - a", "y ~ 1 + . - a + b + a:b"),
    ] {
        assert_eq!(read(text).to_string(), meaning, "{text}");
    }
}

#[test]
fn the_parts_are_fields() {
    let own = read("y ~ `x:z`:b + (0 + b || s/t)");
    assert_eq!(own.fixed, [term(&["x:z", "b"])]);
    let group = |factor: &[&str]| GroupTerm {
        factor: factor.iter().map(ToString::to_string).collect(),
        intercept: false,
        effects: vec![term(&["b"])],
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
        ("y ~ .:a", 4, "'.' stands for all other columns, alone"),
        ("y ~ .^2", 4, "'.' stands for all other columns, alone"),
        ("y ~ (. | g)", 5, "'.' stands for all other columns, alone"),
        ("y ~ a + log(.)", 12, "'.' stands for all other columns, alone"),
        ("y ~ a - .", 8, "'.'"),
        ("y ~ . - a:b", 8, "a:b"),
        ("y ~ a + sin(x)", 8, "sin(x) is not supported in formulas"),
        ("y ~ a:sin(x)", 6, "--sql"),
        ("y ~ log(x, 2)", 9, "the ) after one expression"),
        ("y ~ I(x +)", 9, "the formula ends"),
        ("y ~ I(x**2)", 8, "x^2"),
        ("y ~ log(2)", 4, "the same in every row"),
        ("y ~ scale(x, 2)", 11, "the ) after one expression"),
        ("y ~ poly(x)", 10, "the degree of the polynomial"),
        ("y ~ poly(x, 0)", 12, "a whole number from 1 to 100"),
        ("y ~ bs(x, df = 2)", 15, "a whole number from 3 to 100"),
        ("y ~ ns(x, 2.5)", 10, "a whole number from 1 to 100"),
        ("y ~ C(year)", 4, "write factor(year)"),
        ("y ~ factor(log(x))", 11, "takes a column"),
        ("y ~ factor(x, a)", 14, "ref="),
        ("y ~ factor(x, ref=\"a)", 10, "closes this parenthesis"),
        ("y ~ a + (sin(x) | g)", 9, "sin(x)"),
        ("y ~ (1 | factor(g))", 9, "make the column first"),
        ("poly(y, 2) ~ x", 0, "the response is poly(y, 2)"),
        ("cos(y) ~ x", 0, "the response is cos(y)"),
        ("cbind(s, f) ~ x", 6, "cbind(s, f) does not name the trials"),
        ("cbind(s, n - t) ~ x", 6, "p(successes, trials)"),
        ("p(s) ~ x", 3, "a comma"),
        ("p(s, 3) ~ x", 5, "the name of a column"),
        ("s | n ~ x", 5, "trials(n)"),
        ("s['a ~ x", 8, "the quote that ends the level"),
        ("s['a' ~ x", 6, "]"),
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
        ("y ~ offset(a, b)", 12, "the ) after one expression"),
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
        ("größe ~ x + größe^2^", 24, "the formula ends"),
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

/// Of one of several kinds.
fn variable(kind: usize, column: String) -> Variable {
    let own = Expression::Column(column.clone());
    let of = |basis: Basis| Variable::Computed { of: own.clone(), basis };
    match kind % 5 {
        0 => of(Basis::Poly(3)),
        1 => of(Basis::Scale),
        2 => Variable::Factor { column, reference: kind.is_multiple_of(2).then(|| "it's (a".into()) },
        3 => {
            let two = Expression::Two('/', Box::new(own.clone()), Box::new(Expression::Number(2.5)));
            Variable::Computed { of: two, basis: Basis::Itself }
        }
        _ => Variable::Column(column),
    }
}

fn terms(most: usize) -> impl Strategy<Value = Vec<Term>> {
    prop::collection::vec(names(3), 0..=most).prop_map(|all| {
        let mut once: Vec<Term> = Vec::new();
        for columns in all {
            let variables = columns.into_iter().enumerate();
            let term =
                Term { variables: variables.map(|(k, name)| variable(k + once.len(), name)).collect() };
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
    let left = (name(), prop::option::of(name()), prop::option::of("[^\"]{0,6}"));
    let others = prop::option::of(prop_oneof![Just(Vec::new()), names(2)]);
    (left, any::<bool>(), (terms(4), others), groups, prop::option::of(name())).prop_map(
        |((response, trials, event), intercept, (fixed, others), groups, offset)| {
            let (offset, event) = (offset.map(Offset::Column), event.filter(|_| trials.is_none()));
            Formula { response, computed: None, trials, event, intercept, fixed, others, groups, offset }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(own in formulas()) {
        prop_assert_eq!(read(&own.to_string()), own);
    }

    /// Computed responses, too.
    #[test]
    fn computed_responses_are_read_back(own in formulas(), text in "log\\((y|`a b`)( \\+ 1)?\\)|sqrt\\(y\\)") {
        let computed = read(&format!("{text} ~ x")).computed.expect("it is computed");
        let (response, trials, event) = (computed.to_string(), None, None);
        let own = Formula { response, computed: Some(computed), trials, event, ..own };
        prop_assert_eq!(read(&own.to_string()), own);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = text.parse::<Formula>().map_err(|e| e.to_string());
        let _ = certus_data::formula::Pieces::of(&text);
    }

    #[test]
    fn no_formula_of_known_signs_makes_the_parser_panic(
        text in "([aβ01.~+*:/|()` \n^%,=\"'-]|log\\(|poly\\(|factor\\(|ref=){0,24}"
    ) {
        if let Err(error) = text.parse::<Formula>() {
            prop_assert!(error.at <= text.len() && !error.to_string().is_empty());
        }
        let _ = certus_data::formula::Pieces::of(&text);
    }
}
