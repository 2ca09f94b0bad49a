//! Certificates about the sd of an effect: true ones of random models, and what can be wrong with them.

use certus_check::{Block, Likelihood, Precision, SdCertificate, leaf, root, triangle};
use certus_models::proof::{SdRow, SdSubject};

use crate::{Case, Dice, Flaw};

/// How wide intervals are, as parts of the estimate.
pub const WIDTHS: [f64; 3] = [1e-2, 1e-4, 0.3];

/// A random model with one effect, an intercept or a slope, and coefficients to begin with.
fn model(dice: &mut Dice) -> (SdSubject, usize) {
    let (least, most) = if dice.unit() < 0.1 { (20, 28) } else { (6, 12) };
    let (p, groups) = (dice.whole(1, 2), dice.whole(least, most));
    let (intercept, slope) = (dice.unit() < 0.8, dice.unit() < 0.4);
    let likelihood = if dice.unit() < 0.5 { Likelihood::Logistic } else { Likelihood::Binomial };
    let (sd, weighted) = (dice.between(0.6, 1.8), dice.unit() < 0.3);
    let mut rows = Vec::new();
    for group in 0..groups {
        let effect = sd * (0..6).map(|_| dice.between(-0.7, 0.7)).sum::<f64>();
        for _ in 0..dice.whole(2, 7) {
            let x: Vec<f64> = (0..p).map(|_| dice.between(-1.0, 1.5)).collect();
            let z = if slope { x[0] } else { 1.0 };
            let offset = if weighted { dice.between(-0.5, 0.5) } else { 0.0 };
            let t = 0.3 * x.iter().sum::<f64>() - 0.2 + z * effect + offset;
            let trials = if likelihood == Likelihood::Binomial { dice.whole(1, 6) as f64 } else { 1.0 };
            let chance = 1.0 / (1.0 + (-t).exp());
            let y = (0..trials as usize).filter(|_| dice.unit() < chance).count() as f64;
            let weight = if weighted { dice.between(0.3, 2.0) } else { 1.0 };
            rows.push(SdRow { x, z, group, rest: [y, trials, offset, weight] });
        }
    }
    let d = p + usize::from(intercept);
    let columns: Vec<_> =
        (0..p).map(|j| (format!("column {j}"), dice.between(-0.5, 0.5), dice.between(0.5, 2.0))).collect();
    let flat = dice.unit() < 0.6;
    let prior: Vec<f64> = (0..d).map(|_| if flat { 0.0 } else { dice.between(0.05, 0.5) }).collect();
    let means: Vec<f64> = (0..d).map(|_| if flat { 0.0 } else { dice.between(-0.2, 0.2) }).collect();
    (SdSubject::new(likelihood.name(), intercept, columns, [means, prior], rows).unwrap(), d)
}

/// The sd with the highest profile: a coarse grid, then golden sections.
fn maximum(subject: &SdSubject, d: usize) -> Option<f64> {
    let mut beta = vec![0.0; d];
    let mut height = |theta: f64| {
        let (best, value, _) = subject.profile(&beta, theta.exp()).ok()?;
        beta = best;
        Some(value)
    };
    let grid: Vec<f64> = (0..12).map(|k| -2.5 + 0.35 * f64::from(k)).collect();
    let values = grid.iter().map(|theta| height(*theta)).collect::<Option<Vec<_>>>()?;
    let best = (0..12).min_by(|a, b| values[*a].total_cmp(&values[*b]))?;
    if best == 0 || best == 11 {
        return None;
    }
    let (mut low, mut high, ratio) = (grid[best - 1], grid[best + 1], 0.618_033_988_749_895);
    for _ in 0..30 {
        let (a, b) = (high - ratio * (high - low), low + ratio * (high - low));
        if height(a)? < height(b)? { high = b } else { low = a }
    }
    Some((0.5 * (low + high)).exp())
}

fn truth(dice: &mut Dice, width: f64, from_zero: bool) -> Option<Case<SdCertificate>> {
    let (subject, d) = model(dice);
    let sd = maximum(&subject, d)?;
    let low = if from_zero { 0.0 } else { sd / (1.0 + width) };
    let certificate = subject.certify(&vec![0.0; d], sd, [low, sd * (1.0 + width)]).ok()?;
    // the exporter's nodes leave rounding only (section 11, "Which nodes are enough")
    let groups = certificate.blocks.iter().flat_map(|block| &block.groups);
    for (value, rad, nodes) in groups.flat_map(|group| &group.integrals) {
        assert!(*rad < 2e-14 * (10.0 + value.abs()), "{value} {rad:e} {nodes:?}");
    }
    Some(Case { certificate, rows: subject.rows().flatten().copied().collect() })
}

pub fn some_truth(dice: &mut Dice, width: f64, from_zero: bool) -> Case<SdCertificate> {
    (0..60).find_map(|_| truth(dice, width, from_zero)).expect("most random models are certified")
}

impl Case<SdCertificate> {
    /// The bytes of every block.
    fn places(&self) -> Vec<std::ops::Range<usize>> {
        let mut from = 0;
        let mut place = |block: &Block| {
            let rows: u64 = block.groups.iter().map(|group| group.rows).sum();
            let to = from + rows as usize * self.width();
            std::mem::replace(&mut from, to)..to
        };
        self.certificate.blocks.iter().map(&mut place).collect()
    }

    /// Makes hashes those of the rows, but not sums.
    fn hashed(&mut self) {
        for (k, place) in self.places().into_iter().enumerate() {
            self.certificate.blocks[k].hash = leaf(&self.rows[place]);
        }
        self.certificate.root =
            root(&self.certificate.blocks.iter().map(|block| block.hash).collect::<Vec<_>>());
    }

    /// Makes hashes and sums those of the rows, so that only the claim is false.
    fn coherent(&mut self) {
        for (k, place) in self.places().into_iter().enumerate() {
            let Ok(found) = self.certificate.sums(k, &self.rows[place]) else { continue };
            let block = &mut self.certificate.blocks[k];
            for (at, values) in found.values.iter().enumerate() {
                for (group, value) in block.groups.iter_mut().zip(values) {
                    (group.integrals[at].0, group.integrals[at].1) = (value.mid, 1.25 * value.rad);
                }
            }
            block.ends = found.ends;
            for [gradient, curvature] in &mut block.ends {
                let trace: f64 = triangle(&curvature.parts).filter_map(|row| row.last()).sum();
                gradient.rad *= 4.0;
                curvature.rad = 4.0 * curvature.rad + 1e-10 * trace;
            }
        }
        self.hashed();
    }
}

pub const FLAWS: [Flaw<SdCertificate>; 27] = [
    // both ends on one side of the maximum: at one of them the objective is higher than inside
    ("sd-interval-beside-the-maximum", |case| {
        let certificate = &mut case.certificate;
        let [low, high] = certificate.between;
        (certificate.between, certificate.points[0].sd) =
            ([high, high + 2.0 * (high - low)], 1.5 * high - 0.5 * low);
        (certificate.points[1].sd, certificate.points[2].sd) = (certificate.between[1], high);
        let inside = certificate.points[0].mean.clone();
        certificate.points[2].mean = inside;
        case.coherent();
    }),
    ("sd-end-too-tight", |case| {
        let middle = case.certificate.points[0].sd;
        case.certificate.between[1] = middle + 1e-9 * (case.certificate.between[1] - middle);
    }),
    ("sd-end-too-tight-everywhere", |case| {
        let middle = case.certificate.points[0].sd;
        let end = middle + 1e-9 * (case.certificate.between[1] - middle);
        (case.certificate.between[1], case.certificate.points[1].sd) = (end, end);
        let inside = case.certificate.points[0].mean.clone();
        case.certificate.points[1].mean = inside;
        case.coherent();
    }),
    ("sd-from-zero", |case| {
        // the end at 0 needs no proof, the other one does
        case.certificate.between = [0.0, 0.5 * case.certificate.between[0]];
        case.certificate.points.truncate(2);
        case.certificate.points[1].sd = case.certificate.between[1];
        case.certificate.points[0].sd = 0.5 * case.certificate.between[1];
        for block in &mut case.certificate.blocks {
            block.ends.truncate(1);
            block.groups.iter_mut().for_each(|group| group.integrals.truncate(2));
        }
        case.coherent();
    }),
    ("sd-row-dropped-from-the-file", |case| {
        case.drop_row(0);
    }),
    ("sd-row-dropped-everywhere", |case| {
        // the data of the last end are others than those inside, as if a row were missing there
        let kept = case.certificate.clone();
        case.change(0, 1, |_| 0.0);
        case.coherent();
        for (block, old) in case.certificate.blocks.iter_mut().zip(kept.blocks) {
            for (group, old) in block.groups.iter_mut().zip(old.groups) {
                group.integrals[1] = old.integrals[1];
            }
        }
    }),
    ("sd-other-likelihood", |case| {
        case.certificate.model.likelihood = match case.certificate.model.likelihood {
            Likelihood::Logistic => Likelihood::Poisson,
            _ => Likelihood::Logistic,
        };
        // a row with more than one trial
        case.change(0, 3, |trials| trials + 1.0);
    }),
    ("sd-response-with-other-sign", |case| {
        // successes become failures in the first row, or one of them where that changes nothing
        let at = case.width() - 24;
        let trials = f64::from_le_bytes(case.rows[at..at + 8].try_into().unwrap());
        case.change(0, 4, |y| if trials == 2.0 * y { y - 1.0 } else { trials - y });
        case.hashed();
    }),
    ("sd-effect-with-other-sign", |case| {
        case.change(1, 6, |z| -z - 0.25);
        case.hashed();
    }),
    ("sd-row-in-another-group", |case| {
        let groups = case.certificate.counts()[1] as f64;
        case.change(0, 5, |_| groups - 1.0);
        case.hashed();
    }),
    ("sd-group-sizes", |case| {
        let groups = &mut case.certificate.blocks[0].groups;
        (groups[0].rows, groups[1].rows) = (groups[0].rows + 1, groups[1].rows - 1);
    }),
    ("sd-integral-too-small", |case| {
        let rad = case.certificate.blocks[0].groups[0].integrals[1].1;
        case.certificate.blocks[0].groups[0].integrals[1].0 += 4.0 * rad;
    }),
    ("sd-step-too-long", |case| {
        let nodes = &mut case.certificate.blocks[0].groups[0].integrals[0].2;
        (nodes.step, nodes.below, nodes.above) = (4.0 * nodes.step, nodes.below / 4 + 1, nodes.above / 4 + 1);
        nodes.inner = [1, 1];
    }),
    ("sd-strip-too-high", |case| {
        let nodes = &mut case.certificate.blocks[0].groups[0].integrals[0].2;
        nodes.height *= 8.0;
    }),
    ("sd-too-few-nodes", |case| {
        let nodes = &mut case.certificate.blocks[0].groups[0].integrals[0].2;
        (nodes.below, nodes.above, nodes.inner) = (nodes.below / 2, nodes.above / 2, [1, 1]);
    }),
    ("sd-gradient-with-other-sign", |case| {
        for stated in case.certificate.blocks[0].ends[0][0].parts.iter_mut() {
            *stated = 1e-3 - *stated;
        }
    }),
    ("sd-more-curvature-than-there-is", |case| {
        case.certificate.blocks[0].ends[0][1].parts[0] *= 1.000_001;
    }),
    ("sd-radius-too-small", |case| {
        let proof = case.certificate.theorem().unwrap();
        assert!(proof.iter().all(|margin| *margin > 0.0));
        case.certificate.radius *= 1e-9;
        case.coherent();
    }),
    ("sd-end-a-thousandth-lower", |case| {
        case.certificate.between[1] *= 0.999;
        case.certificate.points[1].sd *= 0.999;
    }),
    ("sd-inside-lower-than-it-is", |case| {
        let integral = &mut case.certificate.blocks[0].groups.last_mut().unwrap().integrals[0];
        integral.0 -= 4.0 * integral.1;
    }),
    ("sd-other-unit", |case| case.certificate.model.columns[0].scale *= 2.54),
    ("sd-other-unit-everywhere", |case| {
        case.certificate.model.columns[0].scale *= 2.54;
        case.coherent();
    }),
    ("sd-without-a-row", |case| {
        case.drop_row(0);
        case.certificate.blocks[0].groups[0].rows -= 1;
        case.coherent();
    }),
    ("sd-weight-a-thousandth-larger", |case| {
        case.change(0, 1, |weight| 1.001 * weight);
        case.coherent();
    }),
    ("sd-offset-moved", |case| {
        case.change(0, 2, |offset| offset + 1e-3);
        case.hashed();
    }),
    ("sd-other-prior", |case| {
        if let Precision::Diagonal(j) = &mut case.certificate.model.prior_precision {
            j[0] += 0.05;
        }
    }),
    ("sd-lambda-too-large", |case| case.certificate.lambda *= 1.001),
];
