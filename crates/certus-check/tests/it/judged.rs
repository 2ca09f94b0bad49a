//! Certificates that are true, and the same with one thing wrong. They were written by a prover in Python that
//! shares no code with this crate; the large corpus is that of certus-models (tests/proofs).

use certus_check::{Certificate, Likelihood, Rows, Stated, check, check_block, leaf, root, sentence};

use crate::judge::{Case, Flaw, edits_are_seen, flaws_are_seen, judge};

const CASES: [Case; 4] = [
    ("logistic", include_str!("../data/logistic.proof"), include_bytes!("../data/logistic.rows")),
    ("binomial", include_str!("../data/binomial.proof"), include_bytes!("../data/binomial.rows")),
    ("poisson", include_str!("../data/poisson.proof"), include_bytes!("../data/poisson.rows")),
    ("linear", include_str!("../data/linear.proof"), include_bytes!("../data/linear.rows")),
];

/// The same with the sums and hashes of these rows.
fn coherent(mut certificate: Certificate, rows: &[u8]) -> Certificate {
    let width = 8 * certificate.numbers();
    certificate.rows = (rows.len() / width) as u64;
    let mut blocks = Vec::new();
    for (k, bytes) in rows.chunks(certificate.block_rows as usize * width).enumerate() {
        let first = certificate.block_rows * k as u64;
        let sums = Rows::new(&certificate).sums(bytes, first).unwrap();
        blocks.push((leaf(bytes), sums.map(|sum| Stated { rad: 4.0 * sum.rad, ..sum })));
    }
    certificate.root = root(&blocks.iter().map(|(hash, _)| *hash).collect::<Vec<_>>());
    certificate.blocks = blocks;
    certificate
}

#[test]
fn true_ones_are_proved_and_so_is_every_block() {
    for (name, text, rows) in CASES {
        let certificate = Certificate::read(text).unwrap();
        assert_eq!(judge(&certificate, rows), Ok(()), "{name}");
        check(&certificate, None).unwrap();
        let proof = certificate.theorem().unwrap();
        // the claim is 10⁻⁶ larger than what its prover, in other arithmetic, found
        assert!((certificate.bound / proof.bound - 1.000_001).abs() < 1e-9, "{name}: {proof:?}");
        let width = 8 * certificate.numbers();
        for (k, bytes) in rows.chunks(certificate.block_rows as usize * width).enumerate() {
            assert_eq!(check_block(&certificate, k, bytes), Ok(()), "{name} {k}");
            let mut other = bytes.to_vec();
            other[0] ^= 1;
            assert!(check_block(&certificate, k, &other).is_err(), "{name} {k}");
        }
        // sums and hashes of our own are as good
        assert_eq!(judge(&coherent(certificate, rows), rows), Ok(()), "{name}");
    }
}

#[test]
fn false_ones_are_not_proved() {
    let flaws: [Flaw<Certificate>; 21] = [
        ("bound 0.1 % too small", "the claim is", |c, _| c.bound *= 0.999),
        ("a negative bound", "positive", |c, _| c.bound = -1.0),
        ("another likelihood", "", |c, _| {
            c.model.likelihood = match c.model.likelihood {
                Likelihood::Poisson => Likelihood::Linear(1.0),
                Likelihood::Linear(sd) => Likelihood::Linear(1.001 * sd),
                _ => Likelihood::Poisson,
            }
        }),
        ("sign of a mean", "", |c, _| c.mean[1] = -c.mean[1]),
        ("sign of a mean, coherent", "", |c, rows| {
            c.mean[1] = -c.mean[1];
            *c = coherent(c.clone(), rows);
        }),
        ("sign of the gradient", "", |c, _| c.blocks[0].1[0].parts.iter_mut().for_each(|x| *x = -*x)),
        ("a row dropped from the file", "fewer rows", |_, rows| rows.truncate(440)),
        ("a row dropped everywhere", "", |c, rows| {
            rows.drain(..40);
            *c = coherent(c.clone(), rows);
        }),
        ("a row more in the file", "more rows", |_, rows| rows.extend_from_within(..40)),
        ("a bit of a row", "hash", |_, rows| rows[3] ^= 16),
        ("another unit", "", |c, _| c.model.columns[0].scale *= 1.001),
        ("another unit, coherent", "", |c, rows| {
            c.model.columns[0].scale *= 2.54;
            *c = coherent(c.clone(), rows);
        }),
        ("another root", "root", |c, _| c.root[0] ^= 1),
        ("lambda of the mean", "lambda-mean", |c, _| c.lambda_mean *= 1.001),
        ("lambda of the factor", "lambda-factor", |c, _| c.lambda_factor *= 1.001),
        // residuals u cost |u|²/λ − u′H⁻¹u only, which is small where all curvatures are alike
        ("solution of the mean", "", |c, _| c.solution_mean.iter_mut().for_each(|x| *x *= -30.0)),
        ("solution of the factor", "", |c, _| c.solution_factor.iter_mut().for_each(|x| *x *= -30.0)),
        ("radius too small", "the theorem requires ρ²", |c, rows| {
            c.radius *= 0.2;
            *c = coherent(c.clone(), rows);
        }),
        ("more curvature than there is", "lower-mean", |c, _| c.blocks[1].1[2].parts[0] *= 1.000_000_1),
        ("radii that cannot be proved", "gradient", |c, _| c.blocks[2].1[0].rad = 0.0),
        ("a negative diagonal of the factor", "diagonal", |c, _| c.factor[2] = -c.factor[2]),
    ];
    flaws_are_seen(&CASES, &flaws);
}

#[test]
fn what_is_unknown_is_not_checkable() {
    let unknown = [
        ("certus-proof 1", "certus-proof 2"),
        ("gap-of-all-gaussians", "gap-of-diagonal-gaussians"),
        ("likelihood logistic", "likelihood probit"),
        ("theorem D", "theorem E"),
        ("dimension 2", "dimension 513"),
    ];
    let malformed = [
        ("rows 12", "rows twelve"),
        ("dimension 2", "dimension 3"),
        ("tau ", "tau nan "),
        ("theta 0.71", "theta inf"),
        ("end", "end\nmore"),
        ("end", ""),
        ("column x 0.5", "column x"),
        ("block ", "block 0"),
    ];
    edits_are_seen::<Certificate>(CASES[0].1, &unknown, &malformed);
}

/// The exact posterior of a linear model, and of no other.
#[test]
fn only_a_linear_posterior_is_a_gaussian() {
    for (name, text, rows) in CASES {
        let text = text.replace("claim gap-of-all-gaussians", "claim kl-from-linear-posterior");
        let certificate = match Certificate::read(&text) {
            Ok(certificate) => certificate,
            Err(refusal) => {
                assert!(name != "linear" && refusal.to_string().contains("no Gaussian"), "{refusal}");
                continue;
            }
        };
        assert_eq!(name, "linear");
        assert_eq!(judge(&certificate, rows), Ok(()));
        let words = sentence(&certificate);
        assert!(words.contains("KL(q ‖ posterior)") && words.contains(&format!("{:e}", certificate.bound)));
    }
}

/// Whatever another reader may take for a number or overlook.
#[test]
fn numbers_are_written_in_one_way() {
    let malformed = [
        ("rows ", "rows +"),
        ("dimension ", "dimension +"),
        ("\nend", "\nend 1"),
        ("theta ", "theta 0x"),
        ("theta ", "theta\u{a0}"),
        ("theta ", "theta\u{c}"),
        ("theta ", "theta\r"),
        ("\nrows ", "\rrows "),
        ("column x", "column x\u{1b}"),
    ];
    edits_are_seen::<Certificate>(CASES[0].1, &[], &malformed);
    // CRLF is legal
    assert!(Certificate::read(&CASES[0].1.replace('\n', "\r\n")).is_ok());
}
