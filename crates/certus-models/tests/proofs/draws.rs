//! Certificates of posterior means and sds: true ones of random models, and what can be wrong with them.

use certus_check::{DrawsCertificate, Likelihood, Refusal, check, leaf, root, sha256};
use certus_models::proof::Subject;

use crate::{Dice, model};

/// A certificate with its rows.
#[derive(Clone)]
pub struct DrawsCase {
    pub certificate: DrawsCertificate,
    pub rows: Vec<u8>,
}

fn truth(dice: &mut Dice, kind: usize, pairs: u64) -> Option<DrawsCase> {
    let (model, best) = model(dice, kind, [2, 60]);
    let d = model.dim();
    let subject = Subject::new(&model, &best, &[], Some(9)).unwrap();
    let combinations = [
        ("first".to_string(), (0..d).map(|j| f64::from(u8::from(j == 0))).collect()),
        (
            "all of them".to_string(),
            (0..d).map(|j| dice.between(0.2, 1.0) * (-1f64).powi(j as i32)).collect(),
        ),
    ];
    let certificate = subject.weigh(&combinations[..d.min(2)], Some(pairs), 0.05).ok()?;
    let rows = (0..subject.blocks()).flat_map(|k| subject.block(k).unwrap()).collect();
    Some(DrawsCase { certificate, rows })
}

pub fn some_truth(dice: &mut Dice, kind: usize) -> DrawsCase {
    let pairs = dice.whole(900, 1600) as u64;
    (0..60).find_map(|_| truth(dice, kind, pairs)).expect("some random models are certified")
}

impl DrawsCase {
    pub fn judge(&self) -> Result<(), Refusal> {
        let certificate = DrawsCertificate::read(&self.certificate.write())?;
        assert_eq!(certificate, self.certificate, "what is written is what is read");
        check(&certificate, Some(&mut &self.rows[..])).map(drop)
    }

    fn width(&self) -> usize {
        8 * (self.certificate.model.columns.len() + 4)
    }

    /// Makes hashes and the seed those of rows and text, so that only what is claimed is false.
    fn coherent(&mut self) {
        let c = &mut self.certificate;
        let width = 8 * (c.model.columns.len() + 4);
        c.rows[0] = (self.rows.len() / width) as u64;
        c.blocks = self.rows.chunks(c.rows[1] as usize * width).map(leaf).collect();
        c.root = root(&c.blocks);
        c.seed = sha256(&[c.above().as_bytes()]);
    }
}

/// What is wrong with a false certificate.
type Flaw = (&'static str, fn(&mut DrawsCase));

pub const FLAWS: [Flaw; 20] = [
    ("draws-mean-too-tight", |case| {
        let mean = &mut case.certificate.directions[0].mean;
        mean[0] += 1e-3 * (mean[1] - mean[0]);
    }),
    ("draws-mean-moved", |case| {
        let mean = &mut case.certificate.directions[0].mean;
        let width = mean[1] - mean[0];
        mean.iter_mut().for_each(|x| *x -= 0.1 * width);
    }),
    ("draws-mean-with-other-sign", |case| {
        let [low, high] = case.certificate.directions[0].mean;
        case.certificate.directions[0].mean = [-high, -low];
    }),
    ("draws-sd-too-tight", |case| {
        let sd = &mut case.certificate.directions[0].sd;
        sd[1] -= 1e-3 * (sd[1] - sd[0]);
    }),
    ("draws-divergence-too-small", |case| case.certificate.divergence *= 0.999),
    ("draws-other-seed", |case| case.certificate.seed[31] ^= 1),
    ("draws-tail-too-large", |case| case.certificate.tail *= 1.001),
    ("draws-set-chosen-afterwards", |case| case.certificate.growth[1] *= 0.999),
    ("draws-set-too-small", |case| {
        // where q is exact only rounding is left
        case.certificate.growth[1] *= if case.certificate.growth[1] < 1e-3 { 1e-12 } else { 0.5 };
        case.coherent();
    }),
    ("draws-fewer-pairs", |case| {
        case.certificate.pairs /= 2;
        case.coherent();
    }),
    ("draws-pairs-chosen-afterwards", |case| case.certificate.pairs -= 1),
    ("draws-more-certain", |case| {
        case.certificate.delta *= 1e-3;
        case.coherent();
    }),
    ("draws-direction-twice-as-long", |case| {
        case.certificate.directions[0].weights[0] = 2.0;
        case.coherent();
    }),
    ("draws-other-unit", |case| {
        case.certificate.model.columns[0].scale *= 2.54;
        case.coherent();
    }),
    ("draws-other-likelihood", |case| {
        case.certificate.model.likelihood = match case.certificate.model.likelihood {
            Likelihood::Poisson => Likelihood::Linear(1.0),
            Likelihood::Linear(sd) => Likelihood::Linear(1.5 * sd),
            Likelihood::Binomial => Likelihood::Poisson,
            Likelihood::Logistic => Likelihood::Linear(0.5),
        };
        case.coherent();
    }),
    // without one row the claim might be true by accident
    ("draws-half-of-the-rows", |case| {
        let rows = case.rows.len() / case.width() / 2;
        case.rows.truncate(rows * case.width());
        case.coherent();
    }),
    ("draws-row-dropped-from-the-file", |case| {
        case.rows.drain(..case.width());
    }),
    ("draws-one-bit-of-a-row", |case| {
        let at = case.rows.len() - case.width();
        case.rows[at] ^= 1;
    }),
    ("draws-cap-chosen-afterwards", |case| case.certificate.cap[0] *= 1.01),
    ("draws-of-another-gaussian", |case| {
        case.certificate.mean[0] += 0.3 * case.certificate.factor[0];
        case.coherent();
    }),
];
