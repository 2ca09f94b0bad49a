//! Certificates from draws that are true, and the same with one thing wrong; the large corpus is that of certus-models
//! (tests/proofs), which also compares what is claimed with sums over a grid.

use certus_check::{DrawsCertificate, Refusal, check, check_block, leaf, read, root, sha256};

use crate::judge::{Case, Flaw, edits_are_seen, flaws_are_seen};

const CASES: [Case; 2] = [
    ("logistic", include_str!("../data/draws-logistic.proof"), include_bytes!("../data/draws-logistic.rows")),
    ("poisson", include_str!("../data/draws-poisson.proof"), include_bytes!("../data/draws-poisson.rows")),
];

/// Makes the seed that of the text above it.
fn sealed(mut certificate: DrawsCertificate) -> DrawsCertificate {
    certificate.root = root(&certificate.blocks);
    certificate.seed = sha256(&[certificate.above().as_bytes()]);
    certificate
}

#[test]
fn true_ones_are_proved() {
    for (name, text, mut rows) in CASES {
        let certificate = read(text).unwrap();
        let [sentence, _] = check(&*certificate, Some(&mut rows)).unwrap();
        // 1 − δ itself would be printed as 1 where δ is below 10⁻¹⁶
        let probability = "with a probability of at least 1 − 5e-2 ";
        assert!(sentence.starts_with(probability) && sentence.contains(name), "{sentence}");
        // the same again, and what needs all rows
        assert!(certificate.prove().is_ok());
        let (_, blocks) = certificate.tree();
        assert!(blocks.len() > 1);
        let first = &CASES.iter().find(|case| case.0 == name).unwrap().2[..blocks[0].1 as usize];
        assert_eq!(check_block(&*certificate, 0, first), Ok(()));
        assert!(matches!(certificate.prove(), Err(Refusal::NotCheckable(_))));
        assert!(matches!(check(&*read(text).unwrap(), None), Err(Refusal::NotCheckable(_))));
    }
}

#[test]
fn false_ones_are_not_proved() {
    let flaws: [Flaw<DrawsCertificate>; 23] = [
        ("a mean from too high", "only a mean", |c, _| {
            let mean = &mut c.directions[0].mean;
            mean[0] += 1e-3 * (mean[1] - mean[0]);
        }),
        ("a mean to too low", "only a mean", |c, _| {
            let mean = &mut c.directions[1].mean;
            mean[1] -= 1e-3 * (mean[1] - mean[0]);
        }),
        ("an sd from too high", "only a mean", |c, _| {
            let sd = &mut c.directions[1].sd;
            sd[0] += 1e-3 * (sd[1] - sd[0]);
        }),
        ("an sd to too low", "only a mean", |c, _| {
            let sd = &mut c.directions[0].sd;
            sd[1] -= 1e-3 * (sd[1] - sd[0]);
        }),
        ("intervals of two directions", "only a mean", |c, _| {
            let [a, b] = [c.directions[0].clone(), c.directions[1].clone()];
            (c.directions[0].mean, c.directions[1].mean) = (b.mean, a.mean);
        }),
        ("a divergence that is too small", "divergence of at most", |c, _| c.divergence *= 0.999),
        ("a tail that is too large", "tail", |c, _| c.tail *= 1.000_01),
        ("a tail below r₀", "0 < r₀ < z", |c, _| c.tail = 0.5 * c.growth[1]),
        ("another seed", "the seed is not", |c, _| c.seed[7] ^= 1),
        ("another level afterwards", "the seed is not", |c, _| c.level += 1e-9),
        ("another cap afterwards", "the seed is not", |c, _| c.cap[0] += 1e-9),
        ("fewer pairs afterwards", "the seed is not", |c, _| c.pairs -= 1),
        ("more probable afterwards", "the seed is not", |c, _| c.delta *= 0.5),
        ("a delta that is none", "delta is between", |c, _| {
            *c = sealed(DrawsCertificate { delta: 0.0, ..c.clone() })
        }),
        ("a cap below w₀", "not below w₀", |c, _| {
            c.cap[0] = 0.5 * c.growth[0];
            *c = sealed(c.clone());
        }),
        ("a place to clip at that is too near", "ξ is between", |c, _| {
            c.cap[1] = 1.0;
            *c = sealed(c.clone());
        }),
        ("much more probable", "", |c, _| {
            c.delta *= 1e-9;
            *c = sealed(c.clone());
        }),
        ("a Gaussian with other sds", "", |c, _| {
            c.factor.iter_mut().for_each(|x| *x *= 1.5);
            *c = sealed(c.clone());
        }),
        ("a direction of zeros", "only a mean", |c, _| {
            c.directions[0].weights.fill(0.0);
            *c = sealed(c.clone());
        }),
        ("a bit of a row", "hash", |_, rows| rows[3] ^= 16),
        ("a row dropped", "fewer rows", |_, rows| rows.truncate(rows.len() - 8)),
        ("an illegal response", "must have", |c, rows| {
            let width = 8 * c.numbers();
            rows[width - 32..width - 24].copy_from_slice(&0.5f64.to_le_bytes());
            c.blocks[0] = leaf(&rows[..width * c.rows[1] as usize]);
            *c = sealed(c.clone());
        }),
        ("another hash of a block", "root", |c, _| c.blocks[1][0] ^= 1),
    ];
    flaws_are_seen(&CASES, &flaws);
}

#[test]
fn what_is_unknown_is_not_checkable() {
    let unknown = [("theorem D8", "theorem D9"), ("likelihood logistic", "likelihood probit")];
    let malformed = [
        ("seed ", "seed 0"),
        ("\nseed ", "\nseed\t"),
        ("\nseed ", "\n seed "),
        ("direction ", "direction more "),
        ("growth ", "growth nan "),
        ("moments ", "moments 1 "),
        ("\nend", "\nend\nmore"),
        // what is above the seed counts as it is written
        ("delta 0.05", "delta 0.050"),
        ("direction first", "direction second"),
    ];
    edits_are_seen::<DrawsCertificate>(CASES[0].1, &unknown, &malformed);
    let text = CASES[0].1;
    let many = text.lines().map(|line| if line.starts_with("pairs") { "pairs 100000000" } else { line });
    let many = many.collect::<Vec<_>>().join("\n");
    assert!(matches!(DrawsCertificate::read(&many), Err(Refusal::NotCheckable(_))));
}
