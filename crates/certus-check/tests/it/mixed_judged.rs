//! Certificates of variance parameters that are true, and the same with one thing wrong; the large corpus is that of
//! certus-models (tests/proofs).

use certus_check::{MixedCertificate, Refusal, check, leaf, read};

use crate::judge::{Flaw, edits_are_seen, flaws_are_seen};

const TEXT: &str = include_str!("../data/mixed.proof");
const ROWS: &[u8] = include_bytes!("../data/mixed.rows");

#[test]
fn a_true_one_is_proved() {
    let certificate = read(TEXT).unwrap();
    assert!(matches!(check(&*certificate, None), Err(Refusal::NotCheckable(_))));
    let [sentence, _] = check(&*certificate, Some(&mut &ROWS[..])).unwrap();
    assert!(sentence.starts_with("the likelihood (ML)"), "{sentence}");
    for [low, high] in MixedCertificate::read(TEXT).unwrap().between {
        assert!(sentence.contains(&format!("between {low:e} and {high:e}")), "{sentence}");
    }
}

/// Makes the hash that of the rows.
fn sealed(c: &mut MixedCertificate, rows: &[u8]) {
    c.root = leaf(rows);
}

#[test]
fn false_ones_are_not_proved() {
    let flaws: [Flaw<MixedCertificate>; 18] = [
        ("an end that is too high", "only proved", |c, _| {
            let [low, high] = c.between[1];
            // the estimate itself is outside, whatever rounding adds
            c.between[1][0] = 0.5 * (low + high) + 0.05 * (high - low);
        }),
        ("an end that is too low", "only proved", |c, _| {
            let [low, high] = c.between[0];
            c.between[0][1] = 0.5 * (low + high) - 0.05 * (high - low);
        }),
        ("another sign", "only proved", |c, _| c.between[1] = c.between[1].map(|x| -x)),
        ("another criterion", "asks for a larger", |c, _| c.restricted = true),
        ("another estimate", "asks for a larger", |c, _| c.estimate[1] *= 1.0 + 1e-6),
        ("no noise", "noise is positive", |c, _| c.estimate[0] = 0.0),
        ("an indefinite covariance", "V is not", |c, _| c.estimate[1] = -c.estimate[1]),
        ("lambda", "lambda is not", |c, _| c.lambda = 1.01),
        ("a negative lambda", "are positive", |c, _| c.lambda = -1.0),
        ("a radius that is too small", "asks for a larger", |c, _| c.radius *= 1e-9),
        ("a radius that is too large", "", |c, _| c.radius = 0.5),
        ("a frame without a parameter", "diagonal", |c, _| c.factor[2] = 0.0),
        ("a term without effects", "every term", |c, _| {
            c.terms.push(("b".into(), 0));
        }),
        ("a row dropped", "fewer rows", |_, rows| rows.truncate(rows.len() - 8)),
        ("a row dropped everywhere", "", |c, rows| {
            rows.truncate(rows.len() - 8 * c.numbers());
            c.rows -= 1;
            sealed(c, rows);
        }),
        ("a bit of a row", "hash", |_, rows| rows[3] ^= 16),
        ("a row in another group", "", |c, rows| {
            let group = f64::from_le_bytes(rows[..8].try_into().unwrap());
            rows[..8].copy_from_slice(&(group + 1.0).to_le_bytes());
            sealed(c, rows);
        }),
        ("an infinite response", "must not have", |c, rows| {
            let at = rows.len() - 8;
            rows[at..].copy_from_slice(&f64::INFINITY.to_le_bytes());
            sealed(c, rows);
        }),
    ];
    flaws_are_seen(&[("mixed", TEXT, ROWS)], &flaws);
}

#[test]
fn what_is_unknown_is_not_checkable() {
    let unknown = [
        ("theorem V1", "theorem L1"),
        ("rows 28", "rows 601"),
        ("terms 1\nterm a%20group 2", "terms 1\nterm a 7"),
    ];
    let malformed = [
        ("criterion ml", "criterion ML"),
        ("columns 0", "columns 1"),
        ("radius ", "radius nan "),
        ("\nend", "\nend\nmore"),
        ("between ", "between 1 "),
    ];
    edits_are_seen::<MixedCertificate>(TEXT, &unknown, &malformed);
}
