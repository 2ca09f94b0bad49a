//! A corpus of certificates (docs/certificate-format.md): true ones of random models, and false ones, each with one
//! thing wrong. certus-check must judge all of them rightly, and so must the checker in Python, for which they are
//! written out.

#![allow(unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

mod draws;
mod mixed;
mod sd;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use certus::factor::{Factor, Lower};
use certus::{Gaussian, Target};
use certus_check::{Certificate, Claim, Likelihood, Precision, Refusal, Rows, check, leaf, root};
use certus_likelihood::{Binomial, Linear, Logistic, Poisson};
use certus_models::proof::{Guess, Subject, widen};
use certus_models::{Design, Glm, Memory, Prior};

/// Numbers without a pattern (SplitMix64).
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, a: f64, b: f64) -> f64 {
        a + (b - a) * self.unit()
    }

    fn whole(&mut self, a: usize, b: usize) -> usize {
        a + (self.unit() * (b - a + 1) as f64) as usize
    }
}

/// A certificate with its rows.
#[derive(Clone)]
struct Case {
    certificate: Certificate,
    rows: Vec<u8>,
}

/// A random model and its best Gaussian.
fn model(dice: &mut Dice, kind: usize, most: [usize; 2]) -> (Glm, Gaussian) {
    let (p, n) = (dice.whole(1, most[0]), dice.whole(12, most[1]));
    let intercept = dice.unit() < 0.7;
    let d = p + usize::from(intercept);
    let unit: Vec<f64> = (0..p).map(|_| 10f64.powf(dice.between(-1.0, 2.0))).collect();
    let x: Vec<f64> = (0..n * p).map(|k| unit[k % p] * dice.between(-1.5, 2.0)).collect();
    let beta: Vec<f64> = unit.iter().map(|unit| dice.between(-1.0, 1.0) / unit).collect();
    let (mut y, mut trials) = (Vec::new(), Vec::new());
    for row in x.chunks(p) {
        let t: f64 = row.iter().zip(&beta).map(|(x, b)| x * b).sum();
        let chance = 1.0 / (1.0 + (-t).exp());
        trials.push(if kind == 1 { dice.whole(1, 9) as f64 } else { 1.0 });
        y.push(match kind {
            0 => f64::from(u8::from(dice.unit() < chance)),
            1 => (0..*trials.last().unwrap() as usize).filter(|_| dice.unit() < chance).count() as f64,
            2 => (t.exp() * dice.between(0.2, 2.0)).floor(),
            _ => t + dice.between(-1.0, 1.0),
        });
    }
    let offset = (0..n).map(|_| dice.between(-0.5, 0.5)).collect();
    let weight = (0..n).map(|_| dice.between(0.2, 2.0)).collect();
    let (has_offset, has_weight) = (dice.unit() < 0.3, dice.unit() < 0.3);
    let memory = Memory {
        x,
        column_major: false,
        y,
        trials,
        offset: if has_offset { offset } else { Vec::new() },
        weight: if has_weight { weight } else { Vec::new() },
        columns: p,
    };
    let standardised = dice.unit() < 0.7;
    let rows = Arc::new(memory);
    let design = match standardised {
        true => Design::standardised(rows, intercept).unwrap(),
        false => Design::new(rows, intercept),
    };
    let mean: Vec<f64> = (0..d).map(|_| dice.between(-0.2, 0.2)).collect();
    let prior = if dice.unit() < 0.2 {
        let mut precision = vec![0.1; d * d];
        precision.iter_mut().step_by(d + 1).for_each(|x| *x = dice.between(0.5, 1.5));
        Prior::with_precision(mean, precision).unwrap()
    } else {
        let sd: Vec<f64> = (0..d).map(|_| 10f64.powf(dice.between(-0.5, 0.7))).collect();
        Prior::independent(mean, &sd).unwrap()
    };
    let likelihood: Arc<dyn certus_likelihood::Likelihood> = match kind {
        0 => Arc::new(Logistic),
        1 => Arc::new(Binomial),
        2 => Arc::new(Poisson),
        _ => Arc::new(Linear::new(dice.between(0.3, 1.5)).unwrap()),
    };
    let model = Glm::new(design, likelihood, prior).unwrap();
    let best = model.solve_exactly().unwrap().gaussian;
    (model, best)
}

/// w moved by about `by` of its sds, and its sds by the factor 1 + by.
fn moved(w: &Gaussian, by: f64) -> Gaussian {
    let d = w.dim();
    let mut dense = w.factor().to_dense();
    let mean = w
        .mean()
        .iter()
        .enumerate()
        .map(|(i, m)| m + by * dense[i * (d + 1)] * if i % 2 == 0 { 1.0 } else { -0.5 });
    let mean = mean.collect();
    dense.iter_mut().for_each(|x| *x *= 1.0 + by);
    Gaussian::new(mean, Factor::Lower(Lower::new(d, dense).unwrap())).unwrap()
}

/// A true certificate of a random model, at a distance from the optimum.
fn truth(dice: &mut Dice, kind: usize, by: f64) -> Option<Case> {
    let (model, best) = model(dice, kind, [3, 40]);
    let names: Vec<String> = (0..model.dim()).map(|j| format!("column {j}%")).collect();
    let subject = || Subject::new(&model, &moved(&best, by), &names, Some(7 + 5 * (kind as u64))).unwrap();
    let certificate = subject().certify(Guess { gap: by * by, curvature: 1.0 }).ok()?;
    let rows = (0..subject().blocks()).flat_map(|k| subject().block(k).unwrap()).collect();
    Some(Case { certificate, rows })
}

fn some_truth(dice: &mut Dice, kind: usize, by: f64) -> Case {
    (0..20).find_map(|_| truth(dice, kind, by)).expect("most random models are certified")
}

impl Case {
    fn bytes_of_row(&self) -> usize {
        8 * self.certificate.numbers()
    }

    /// Makes hashes and sums those of the rows, so that only the claim is false.
    fn coherent(mut self) -> Self {
        let width = self.bytes_of_row();
        self.certificate.rows = (self.rows.len() / width) as u64;
        let length = self.certificate.block_rows as usize * width;
        let mut blocks = Vec::new();
        for (k, bytes) in self.rows.chunks(length).enumerate() {
            let mut sums =
                Rows::new(&self.certificate).sums(bytes, self.certificate.block_rows * k as u64).unwrap();
            widen(&mut sums);
            blocks.push((leaf(bytes), sums));
        }
        self.certificate.root = root(&blocks.iter().map(|(hash, _)| *hash).collect::<Vec<_>>());
        self.certificate.blocks = blocks;
        self
    }

    fn judge(&self) -> Result<(), Refusal> {
        // through the text, as others read it
        let certificate = Certificate::read(&self.certificate.write())?;
        assert_eq!(certificate, self.certificate, "what is written is what is read");
        check(&certificate, Some(&mut &self.rows[..])).map(drop)
    }
}

/// What is wrong with a false certificate; whether it starts from the optimum, where every change of the data
/// counts, or
/// near it, where every hint counts.
type Flaw = (&'static str, f64, fn(&mut Case));

const FLAWS: [Flaw; 20] = [
    ("bound-too-small", 1e-3, |case| {
        case.certificate.bound = 0.999 * case.certificate.theorem().unwrap().bound;
    }),
    // at the optimum the bound consists of rounding, of which another checker needs less
    ("bound-too-small-near-optimum", 1e-6, |case| {
        case.certificate.bound = 0.999 * case.certificate.theorem().unwrap().bound;
    }),
    ("other-likelihood", 0.0, |case| {
        case.certificate.model.likelihood = match case.certificate.model.likelihood {
            Likelihood::Poisson => Likelihood::Linear(1.0),
            Likelihood::Linear(sd) => Likelihood::Linear(1.01 * sd),
            _ => Likelihood::Poisson,
        };
    }),
    ("posterior-of-another-model", 0.0, |case| {
        let certificate = &mut case.certificate;
        certificate.claim = Claim::LinearPosterior;
        if let Likelihood::Linear(_) = certificate.model.likelihood {
            certificate.model.likelihood = Likelihood::Logistic;
        }
    }),
    ("mean-with-other-sign", 0.0, |case| {
        case.certificate.mean[0] = -case.certificate.mean[0];
        *case = case.clone().coherent();
    }),
    ("gradient-with-other-sign", 1e-3, |case| {
        let gradient = &mut case.certificate.blocks[0].1[0].parts;
        gradient.iter_mut().for_each(|x| *x = -*x);
    }),
    ("row-dropped-everywhere", 0.0, |case| {
        case.rows.drain(..case.bytes_of_row());
        *case = case.clone().coherent();
    }),
    ("row-dropped-from-the-file", 0.0, |case| {
        case.rows.drain(..case.bytes_of_row());
    }),
    ("row-twice", 0.0, |case| {
        let row = case.rows[..case.bytes_of_row()].to_vec();
        case.rows.extend(row);
        *case = case.clone().coherent();
    }),
    ("other-unit", 0.0, |case| {
        case.certificate.model.columns[0].scale *= 2.54;
    }),
    ("other-unit-everywhere", 0.0, |case| {
        case.certificate.model.columns[0].scale *= 2.54;
        *case = case.clone().coherent();
    }),
    ("one-bit-of-a-row", 0.0, |case| {
        let at = case.rows.len() - case.bytes_of_row();
        case.rows[at] ^= 1;
    }),
    ("other-prior", 0.0, |case| match &mut case.certificate.model.prior_precision {
        Precision::Diagonal(j) | Precision::Dense(j) => j[0] *= 1.001,
    }),
    ("factor-one-percent-too-large", 0.0, |case| {
        case.certificate.factor.iter_mut().for_each(|x| *x *= 1.01);
        *case = case.clone().coherent();
    }),
    ("lambda-too-large", 1e-3, |case| case.certificate.lambda_mean *= 1.001),
    // residuals u cost |u|²/λ − u′H⁻¹u only, which is small where all curvatures are alike
    ("solution-of-the-mean-off", 1e-3, |case| {
        case.certificate.solution_mean.iter_mut().for_each(|x| *x *= -30.0);
    }),
    ("solution-of-the-factor-off", 1e-3, |case| {
        case.certificate.solution_factor.iter_mut().for_each(|x| *x *= -30.0);
    }),
    ("radius-too-small", 1e-3, |case| {
        case.certificate.radius *= 0.5;
        *case = case.clone().coherent();
    }),
    ("more-curvature-than-there-is", 1e-3, |case| {
        case.certificate.blocks[0].1[2].parts[0] *= 1.000_001;
    }),
    ("radii-too-small", 1e-3, |case| {
        case.certificate.blocks[0].1[0].rad = 0.0;
    }),
];

/// How far true certificates are from the optimum.
const NEAR: [f64; 5] = [0.0, 1e-6, 1e-3, 1e-2, 3e-2];

/// What a corpus is made of.
#[derive(Clone, Copy)]
enum Rule {
    Gap,
    Sd,
    Draws,
    Mixed,
}

/// What certus-check says of a certificate, its text and its rows, and what is wrong with it or what it is about.
type Judged = (Result<(), Refusal>, String, Vec<u8>, &'static str);

/// Number `index` of the true certificates of a rule, or of the false ones.
fn certificate(rule: Rule, true_one: bool, index: usize, dice: &mut Dice) -> Judged {
    match rule {
        Rule::Gap => {
            let kind = index % 4;
            let (case, name) = if true_one {
                let by = NEAR[(index / 4) % NEAR.len()];
                (some_truth(dice, kind, by), ["logistic", "binomial", "poisson", "linear"][kind])
            } else {
                let (name, by, flaw) = FLAWS[index % FLAWS.len()];
                let mut case = some_truth(dice, (index + index / FLAWS.len()) % 4, by);
                flaw(&mut case);
                (case, name)
            };
            (case.judge(), case.certificate.write(), case.rows, name)
        }
        Rule::Sd => {
            let width = [1e-2, 1e-4, 0.3][index % 3];
            let mut case = sd::some_truth(dice, width, true_one && index % 5 == 4);
            let name = if true_one {
                "sd-interval"
            } else {
                let (name, flaw) = sd::FLAWS[index % sd::FLAWS.len()];
                flaw(&mut case);
                name
            };
            (case.judge(), case.certificate.write(), case.rows, name)
        }
        Rule::Draws => {
            let mut case = draws::some_truth(dice, (index + index / draws::FLAWS.len()) % 4);
            let name = if true_one {
                "posterior-moments"
            } else {
                let (name, flaw) = draws::FLAWS[index % draws::FLAWS.len()];
                flaw(&mut case);
                name
            };
            (case.judge(), case.certificate.write(), case.rows, name)
        }
        Rule::Mixed => {
            let mut case = mixed::some_truth(dice);
            let name = if true_one {
                "variance-maximum"
            } else {
                let (name, flaw) = mixed::FLAWS[index % mixed::FLAWS.len()];
                flaw(&mut case);
                name
            };
            (case.judge(), case.certificate.write(), case.rows, name)
        }
    }
}

/// Makes `count` true and `count` false certificates of a rule, judges them, and writes them to a directory.
fn corpus(rule: Rule, count: usize, to: &Path) {
    let mut table: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut wrong = Vec::new();
    for k in 0..2 * count {
        let (true_one, index) = (k % 2 == 0, k / 2);
        let mut dice = Dice([1000, 100_000, 200_000, 300_000][rule as usize] + k as u64);
        let (verdict, text, rows, name) = certificate(rule, true_one, index, &mut dice);
        let whether = if true_one { "true" } else { "false" };
        table.entry(format!("{whether}, {name}")).or_default()[usize::from(verdict.is_err())] += 1;
        if verdict.is_ok() != true_one {
            wrong.push(format!("{whether}-{index:04}-{name}: {verdict:?}"));
        }
        let file = |kind: &str| to.join(format!("{whether}-{index:04}-{name}.{kind}"));
        std::fs::write(file("proof"), text).unwrap();
        std::fs::write(file("rows"), rows).unwrap();
    }
    for (name, [accepted, refused]) in &table {
        println!("{name:<44} accepted {accepted:>4}  refused {refused:>4}");
    }
    assert!(wrong.is_empty(), "judged wrongly: {wrong:#?}");
}

/// The checker in Python judges what was written, if there is a Python.
fn in_python(directory: &Path) {
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/check_certificate.py");
    match Command::new("python3").arg(tool).arg("--corpus").arg(directory).output() {
        Ok(output) => {
            println!("{}", String::from_utf8_lossy(&output.stdout));
            assert!(output.status.success(), "{output:?}");
        }
        Err(error) => println!("skipped: python3 cannot be run ({error})"),
    }
}

fn both_checkers(rule: Rule, count: usize) {
    let directory = tempfile::tempdir().unwrap();
    corpus(rule, count, directory.path());
    in_python(directory.path());
}

/// What is claimed of 60 posteriors with one or two coefficients contains what sums over a grid say.
#[test]
fn draws_contain_the_truth() {
    let mut tried = 0;
    for k in 0..60 {
        let mut dice = Dice(300 + k);
        let (model, best) = model(&mut dice, k as usize % 4, [1, 60]);
        let d = model.dim();
        let weights: Vec<f64> = (0..d).map(|_| dice.between(-1.0, 1.0)).collect();
        let subject = Subject::new(&model, &best, &[], None).unwrap();
        let Ok(certificate) = subject.weigh(&[("a".into(), weights.clone())], Some(1500), 0.05) else {
            continue;
        };
        tried += 1;
        let (found, dense) = (&certificate.directions[0], best.factor().to_dense());
        // trapezoidal rule in the frame of the Gaussian
        let line: Vec<f64> = (-90..=90).map(|i| 0.1 * f64::from(i)).collect();
        let grid: Vec<Vec<f64>> = match d {
            1 => line.iter().map(|x| vec![*x]).collect(),
            _ => line.iter().flat_map(|x| line.iter().map(|y| vec![*x, *y])).collect(),
        };
        let (mut logs, mut places) = (Vec::new(), Vec::new());
        for x in &grid {
            let z: Vec<f64> = (0..d)
                .map(|i| best.mean()[i] + (0..=i).map(|j| dense[j * d + i] * x[j]).sum::<f64>())
                .collect();
            let (mut value, mut gradient) = ([0.0], vec![0.0; d]);
            model.log_density(&z, &mut value, &mut gradient).unwrap();
            logs.push([value[0], -0.5 * x.iter().map(|x| x * x).sum::<f64>()]);
            places.push(z.iter().zip(&weights).map(|(z, a)| z * a).sum::<f64>());
        }
        let normal = |k: usize| {
            let most = logs.iter().map(|l| l[k]).fold(f64::NEG_INFINITY, f64::max);
            most + logs.iter().map(|l| (l[k] - most).exp()).sum::<f64>().ln()
        };
        let [of_p, of_q] = [normal(0), normal(1)];
        let mean_of =
            |f: &dyn Fn(usize) -> f64| (0..grid.len()).map(|i| (logs[i][0] - of_p).exp() * f(i)).sum::<f64>();
        let mean = mean_of(&|i| places[i]);
        let sd = mean_of(&|i| (places[i] - mean).powi(2)).sqrt();
        let divergence = mean_of(&|i| (logs[i][0] - of_p) - (logs[i][1] - of_q));
        let within = |[low, high]: [f64; 2], x: f64| low <= x && x <= high;
        assert!(within(found.mean, mean) && within(found.sd, sd), "{k}: {mean} {sd} {found:?}");
        assert!(divergence <= certificate.divergence, "{k}: {divergence} {}", certificate.divergence);
    }
    assert!(tried >= 40, "only {tried} have certificates");
}

/// Writes two certificates from draws to the directory CERTUS_TO: those of crates/certus-check/tests/data.
#[test]
#[ignore = "writes files"]
fn write_draws() {
    let to = PathBuf::from(std::env::var("CERTUS_TO").unwrap());
    for (kind, name) in [(0, "draws-logistic"), (2, "draws-poisson")] {
        let informative = |case: &draws::DrawsCase| {
            let found = &case.certificate.directions;
            found.len() == 2 && found.iter().all(|d| d.sd[0] > 0.0)
        };
        let cases = (0..100).map(|seed| draws::some_truth(&mut Dice(seed), kind));
        let case = cases.into_iter().find(informative).unwrap();
        std::fs::write(to.join(format!("{name}.proof")), case.certificate.write()).unwrap();
        std::fs::write(to.join(format!("{name}.rows")), case.rows).unwrap();
    }
    let case = mixed::some_truth(&mut Dice(8));
    std::fs::write(to.join("mixed.proof"), case.certificate.write()).unwrap();
    std::fs::write(to.join("mixed.rows"), case.rows).unwrap();
}

/// Every flaw with every likelihood.
#[test]
fn flaws_of_draws_are_seen() {
    let mut dice = Dice(77);
    for kind in 0..4 {
        let case = draws::some_truth(&mut dice, kind);
        assert_eq!(case.judge(), Ok(()));
        for (name, flaw) in draws::FLAWS {
            let mut case = case.clone();
            flaw(&mut case);
            assert!(case.judge().is_err(), "{kind} {name}");
        }
    }
}

#[test]
fn both_checkers_judge_a_small_corpus() {
    both_checkers(Rule::Gap, FLAWS.len() + 1);
    both_checkers(Rule::Sd, sd::FLAWS.len());
    both_checkers(Rule::Draws, draws::FLAWS.len());
}

#[test]
fn both_checkers_judge_certificates_of_variances() {
    both_checkers(Rule::Mixed, mixed::FLAWS.len());
}

/// 500 true and 500 false ones of every rule.
#[test]
#[ignore = "long"]
fn full_gap() {
    both_checkers(Rule::Gap, 500);
}

#[test]
#[ignore = "long"]
fn full_sd() {
    both_checkers(Rule::Sd, 500);
}

#[test]
#[ignore = "long"]
fn full_draws() {
    both_checkers(Rule::Draws, 500);
}

#[test]
#[ignore = "long"]
fn full_mixed() {
    both_checkers(Rule::Mixed, 500);
}
