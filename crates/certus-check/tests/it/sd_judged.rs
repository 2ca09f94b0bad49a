//! Certificates about an sd that are true, and the same with one thing wrong; the large corpus is that of certus-models
//! (tests/proofs).

use certus_check::{Block, Rule, SdCertificate, check, check_block, leaf, read, root};

use crate::judge::{Case, Flaw, edits_are_seen, flaws_are_seen, judge};

const CASES: [Case; 2] = [
    ("binomial", include_str!("../data/sd-binomial.proof"), include_bytes!("../data/sd-binomial.rows")),
    // its interval begins at 0
    ("logistic", include_str!("../data/sd-logistic.proof"), include_bytes!("../data/sd-logistic.rows")),
];

/// Where the rows of a block are.
fn place(certificate: &SdCertificate, block: usize) -> std::ops::Range<usize> {
    let rows = |block: &Block| block.groups.iter().map(|group| group.rows as usize).sum::<usize>();
    let width = 8 * certificate.numbers();
    let first: usize = certificate.blocks[..block].iter().map(rows).sum();
    first * width..(first + rows(&certificate.blocks[block])) * width
}

/// Makes hashes and sums those of the rows.
fn coherent(certificate: &mut SdCertificate, rows: &[u8]) {
    for k in 0..certificate.blocks.len() {
        let bytes = &rows[place(certificate, k)];
        let Ok(found) = certificate.sums(k, bytes) else { continue };
        let block = &mut certificate.blocks[k];
        block.hash = leaf(bytes);
        for (at, values) in found.values.iter().enumerate() {
            for (group, value) in block.groups.iter_mut().zip(values) {
                (group.integrals[at].0, group.integrals[at].1) = (value.mid, 1.25 * value.rad);
            }
        }
        block.ends = found.ends;
        block.ends.iter_mut().flatten().for_each(|stated| stated.rad *= 4.0);
    }
    certificate.root = root(&certificate.blocks.iter().map(|block| block.hash).collect::<Vec<_>>());
}

#[test]
fn true_ones_are_proved_and_so_is_every_block() {
    for (name, text, rows) in CASES {
        assert!(read(text).is_ok() && read(&text.replace("sd-interval", "sd")).is_err());
        let certificate = SdCertificate::read(text).unwrap();
        assert_eq!(judge(&certificate, rows), Ok(()), "{name}");
        assert!(certificate.theorem().unwrap().iter().all(|margin| *margin > 1e-9), "{name}");
        // the same in two blocks
        let mut two = certificate.clone();
        let later = two.blocks[0].groups.split_off(3);
        two.blocks.push(Block { groups: later, ..two.blocks[0].clone() });
        assert!(judge(&two, rows).is_err());
        coherent(&mut two, rows);
        assert_eq!(judge(&two, rows), Ok(()), "{name}");
        for k in 0..2 {
            let mut bytes = rows[place(&two, k)].to_vec();
            assert_eq!(check_block(&two, k, &bytes), Ok(()), "{name} {k}");
            bytes[9] ^= 1;
            assert!(check_block(&two, k, &bytes).is_err(), "{name} {k}");
        }
        // what needs no rows
        assert!(check(&two, None).is_ok());
        let words = certificate.prove().unwrap()[0].clone();
        let objective = if name == "binomial" { "the penalised likelihood" } else { "the likelihood" };
        assert!(words.starts_with(objective) && words.contains(name), "{words}");
        for end in certificate.between {
            assert!(words.contains(&format!("{end:e}")), "{words}");
        }
    }
}

#[test]
fn false_ones_are_not_proved() {
    let flaws: [Flaw<SdCertificate>; 27] = [
        ("an end that is no point", "the ends are points", |c, _| c.between[1] *= 0.999_999),
        ("an end too close", "not proved to be lower", |c, rows| {
            let end = c.points[0].sd.max(1e-3) * (1.0 + 1e-9);
            (c.points[0].sd, c.between[1], c.points[1].sd) = (c.points[0].sd.min(end), end, end);
            c.points[1].mean = c.points[0].mean.clone();
            coherent(c, rows);
        }),
        ("no point inside", "a point is inside", |c, _| c.points[0].sd = 1.1 * c.between[1]),
        ("an interval that is none", "", |c, _| c.between[0] = 2.0 * c.between[1]),
        ("a row dropped from the file", "fewer rows", |_, rows| rows.truncate(rows.len() - 8)),
        ("a row more in the file", "more rows", |_, rows| rows.extend_from_within(..64)),
        ("a bit of a row", "hash", |_, rows| rows[3] ^= 16),
        ("another root", "root", |c, _| c.root[0] ^= 1),
        ("sign of the coefficients", "", |c, rows| {
            c.points[1].mean.iter_mut().for_each(|b| *b = 1.0 - *b);
            coherent(c, rows);
        }),
        ("a row of another group", "another group", |c, rows| {
            let at = 8 * c.numbers() - 40;
            rows[at..at + 8].copy_from_slice(&1f64.to_le_bytes());
            c.blocks[0].hash = leaf(rows);
            c.root = c.blocks[0].hash;
        }),
        ("an illegal response", "must have", |c, rows| {
            let at = 8 * c.numbers() - 32;
            rows[at..at + 8].copy_from_slice(&0.5f64.to_le_bytes());
            c.blocks[0].hash = leaf(rows);
            c.root = c.blocks[0].hash;
        }),
        ("a negative weight", "must not have", |c, rows| {
            let at = 8 * c.numbers() - 8;
            rows[at..at + 8].copy_from_slice(&(-1f64).to_le_bytes());
            c.blocks[0].hash = leaf(rows);
            c.root = c.blocks[0].hash;
        }),
        ("other group sizes", "another group", |c, _| {
            let groups = &mut c.blocks[0].groups;
            (groups[0].rows, groups[1].rows) = (groups[0].rows + 1, groups[1].rows - 1);
        }),
        ("a group without rows", "every group has a row", |c, _| {
            let groups = &mut c.blocks[0].groups;
            (groups[0].rows, groups[1].rows) = (0, groups[0].rows + groups[1].rows);
        }),
        // 2^64 more rows than there are: their number would wrap
        ("groups that are too large", "", |c, _| {
            let mut large = c.blocks[0].groups[0].clone();
            large.rows = 1 << 47;
            c.blocks[0].groups.extend(vec![large; 1 << 17]);
        }),
        ("an integral that is too large", "an integral", |c, _| {
            let integral = &mut c.blocks[0].groups[2].integrals[1];
            integral.0 += 4.0 * integral.1;
        }),
        ("a radius that cannot be proved", "an integral", |c, _| c.blocks[0].groups[2].integrals[0].1 = 0.0),
        ("a negative radius", "not negative", |c, _| c.blocks[0].groups[2].integrals[0].1 = -1.0),
        ("another gradient", "a gradient", |c, _| {
            let stated = &mut c.blocks[0].ends[0][0];
            stated.parts[0] += 10.0 * stated.rad;
        }),
        ("more curvature than there is", "a curvature", |c, _| {
            c.blocks[0].ends[0][1].parts[0] *= 1.000_000_1
        }),
        ("lambda", "lambda is not proved", |c, _| c.lambda *= 10.0),
        ("radius too small", "asks for a larger radius", |c, rows| {
            c.radius *= 1e-12;
            coherent(c, rows);
        }),
        ("a radius in which there is no curvature", "", |c, rows| {
            c.radius = 1e3;
            coherent(c, rows);
        }),
        ("steps too long", "", |c, _| {
            let nodes = &mut c.blocks[0].groups[1].integrals[1].2;
            (nodes.step, nodes.below, nodes.above, nodes.inner) = (8.0 * nodes.step, 3, 3, [1, 1]);
        }),
        ("a strip too high", "", |c, _| c.blocks[0].groups[1].integrals[1].2.height *= 9.0),
        ("another prior", "", |c, _| {
            if let certus_check::Precision::Diagonal(j) = &mut c.model.prior_precision {
                j[0] += 1e6;
            }
        }),
        ("a negative diagonal of the factor", "diagonal", |c, _| c.factor[2] = -c.factor[2]),
    ];
    flaws_are_seen(&CASES, &flaws);
}

/// The lower end counts where there is one.
#[test]
fn both_ends_are_checked() {
    let (_, text, rows) = CASES[0];
    let mut certificate = SdCertificate::read(text).unwrap();
    let (low, inside) = (certificate.points[2].clone(), certificate.points[0].clone());
    // inside is where the lower end was, which is further down
    (certificate.points[0], certificate.points[2], certificate.between[0]) = (low, inside.clone(), inside.sd);
    coherent(&mut certificate, rows);
    assert!(judge(&certificate, rows).is_err());
    let sd = inside.sd * (1.0 - 1e-13);
    certificate.points[0].sd = inside.sd * (1.0 + 1e-13);
    (certificate.points[2].sd, certificate.between[0]) = (sd, sd);
    certificate.points[0].mean = inside.mean;
    coherent(&mut certificate, rows);
    assert!(judge(&certificate, rows).is_err());
    let refusal = certificate.theorem().unwrap_err().to_string();
    assert!(refusal.contains("at the lower end"), "{refusal}");
}

#[test]
fn what_is_unknown_is_not_checkable() {
    let unknown = [
        ("certus-proof 1", "certus-proof 2"),
        ("likelihood binomial", "likelihood poisson"),
        ("likelihood binomial", "likelihood probit"),
        ("theorem K3", "theorem K9"),
        ("dimension 3", "dimension 513"),
    ];
    let malformed = [
        ("groups 9", "groups +9"),
        ("groups 9", "groups 8"),
        ("rows 3", "rows 4"),
        ("radius ", "radius nan "),
        ("lambda ", "lambda inf"),
        ("\nend", "\nend\nmore"),
        ("\nend", ""),
        ("integral ", "integral 1 "),
        ("block ", "block 0"),
        ("group ", "group -"),
        ("sd-between ", "sd-between 1 "),
    ];
    edits_are_seen::<SdCertificate>(CASES[0].1, &unknown, &malformed);
}
