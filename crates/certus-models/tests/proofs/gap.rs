//! Certificates of the gap: true ones of random models, and what can be wrong with them.

use std::sync::Arc;

use certus::Gaussian;
use certus::factor::{Factor, Lower};
use certus_check::{Certificate, Claim, Likelihood, Precision, Rows, leaf, root};
use certus_likelihood::{Binomial, Linear, Logistic, Poisson};
use certus_models::proof::{Guess, Subject, widen};
use certus_models::{Design, Glm, Memory, Prior};

use crate::{Case, Dice, Judged};

/// A random model and its best Gaussian.
pub fn model(dice: &mut Dice, kind: usize, most: [usize; 2]) -> (Glm, Gaussian) {
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
fn truth(dice: &mut Dice, kind: usize, by: f64) -> Option<Case<Certificate>> {
    let (model, best) = model(dice, kind, [3, 40]);
    let names: Vec<String> = (0..model.dim()).map(|j| format!("column {j}%")).collect();
    let subject = || Subject::new(&model, &moved(&best, by), &names, Some(7 + 5 * (kind as u64))).unwrap();
    let certificate = subject().certify(Guess { gap: by * by, curvature: 1.0 }).ok()?;
    let rows = (0..subject().blocks()).flat_map(|k| subject().block(k).unwrap()).collect();
    Some(Case { certificate, rows })
}

pub fn some_truth(dice: &mut Dice, kind: usize, by: f64) -> Case<Certificate> {
    (0..20).find_map(|_| truth(dice, kind, by)).expect("most random models are certified")
}

impl Case<Certificate> {
    /// Makes hashes and sums those of the rows, so that only the claim is false.
    fn coherent(mut self) -> Self {
        let width = self.width();
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
}

/// What is wrong with a false certificate; whether it starts from the optimum, where every change of the data
/// counts, or
/// near it, where every hint counts.
type Flaw = (&'static str, f64, fn(&mut Case<Certificate>));

pub const FLAWS: [Flaw; 20] = [
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
        case.drop_row(0);
        *case = case.clone().coherent();
    }),
    ("row-dropped-from-the-file", 0.0, |case| {
        case.drop_row(0);
    }),
    ("row-twice", 0.0, |case| {
        let row = case.rows[..case.width()].to_vec();
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
        let at = case.rows.len() - case.width();
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

pub fn true_one(dice: &mut Dice, index: usize) -> Judged {
    let (kind, by) = (index % 4, NEAR[(index / 4) % NEAR.len()]);
    some_truth(dice, kind, by).named(["logistic", "binomial", "poisson", "linear"][kind])
}

pub fn false_one(dice: &mut Dice, index: usize) -> Judged {
    let (name, by, flaw) = FLAWS[index % FLAWS.len()];
    some_truth(dice, (index + index / FLAWS.len()) % 4, by).flawed(&[(name, flaw)], 0)
}
