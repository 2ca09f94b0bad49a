//! Certificates of posterior means and sds: true ones of random models, and what can be wrong with them.

use certus::Target;
use certus_check::{DrawsCertificate, Likelihood, leaf, root, sha256};
use certus_models::proof::Subject;

use crate::gap::model;
use crate::{Case, Dice, Flaw};

fn truth(dice: &mut Dice, kind: usize, pairs: u64) -> Option<Case<DrawsCertificate>> {
    let most = if dice.unit() < 0.1 { 200 } else { 60 };
    let (model, best) = model(dice, kind, [2, most]);
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
    Some(Case { certificate, rows })
}

pub fn some_truth(dice: &mut Dice, kind: usize) -> Case<DrawsCertificate> {
    let pairs = dice.whole(900, 1600) as u64;
    (0..60).find_map(|_| truth(dice, kind, pairs)).expect("some random models are certified")
}

impl Case<DrawsCertificate> {
    /// Makes hashes and the seed those of rows and text, so that only what is claimed is false.
    fn coherent(&mut self) {
        let width = self.width();
        let c = &mut self.certificate;
        c.rows[0] = (self.rows.len() / width) as u64;
        c.blocks = self.rows.chunks(c.rows[1] as usize * width).map(leaf).collect();
        c.root = root(&c.blocks);
        c.seed = sha256(&[c.above().as_bytes()]);
    }
}

/// The draws of a coherent certificate are others, so what is claimed would be proved by accident where it is not
/// clearly false.
pub const FLAWS: [Flaw<DrawsCertificate>; 25] = [
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
        case.drop_row(0);
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
    ("draws-sd-from-too-high", |case| {
        let sd = &mut case.certificate.directions[0].sd;
        sd[0] += 1e-3 * (sd[1] - sd[0]);
        // where nothing but sd >= 0 is proved
        sd[1] *= if sd[0] < 1e-2 * sd[1] { 0.999 } else { 1.0 };
    }),
    ("draws-mean-of-another-direction", |case| {
        let directions = &mut case.certificate.directions;
        let width = directions[0].mean[1] - directions[0].mean[0];
        let mean = directions.last().unwrap().mean;
        directions[0].mean = mean.map(|x| x + if directions.len() == 1 { width } else { 0.0 });
    }),
    ("draws-set-without-draws", |case| {
        case.certificate.growth[0] -= 20.0;
        case.coherent();
    }),
    ("draws-row-twice-in-the-file", |case| case.append_first_row()),
    ("draws-other-root", |case| case.certificate.root[9] ^= 4),
];

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
