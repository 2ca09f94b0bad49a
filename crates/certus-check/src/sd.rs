//! The rule for the sd of an effect of groups (docs/certificate-format.md, "The sd of an effect"): the likelihood,
//! maximised over the coefficients, is lower at both ends of an interval of sds than inside.

use std::io::Read;

use crate::apart;
use crate::ball::{Ball, LARGE, TINY, U, up};
use crate::block::{Frame, SUMMED};
use crate::certificate::{BLOCK_ROWS, Column, Precision, Refusal, triangle};
use crate::group::{GroupRow, Integral, Nodes, integrate};
use crate::moments::Likelihood;
use crate::sha256::{Hash, hex, leaf, root};
use crate::theorem::{Array, least_eigenvalue, prior, total};

/// Coefficients and an sd.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The sd of the effect.
    pub sd: f64,
    /// The coefficients.
    pub mean: Vec<f64>,
}

/// Numbers, and how far they may be from the truth in the Euclidean norm.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated {
    /// A vector or the triangle of a matrix.
    pub parts: Vec<f64>,
    /// The radius.
    pub rad: f64,
}

/// A group: its rows, and at every point the integral with its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// How many rows it has.
    pub rows: u64,
    /// −log ∫ e^{−ψ}, its radius, and the nodes.
    pub integrals: Vec<(f64, f64, Nodes)>,
}

/// Whole groups of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The hash of the rows.
    pub hash: Hash,
    /// The groups.
    pub groups: Vec<Group>,
    /// Gradient and least curvature at every end.
    pub ends: Vec<[Stated; 2]>,
}

/// What is certified, and the hints.
#[derive(Clone, Debug, PartialEq)]
pub struct SdCertificate {
    /// The sd of a maximum is between these; below it is a maximum at 0, too, if the first is 0.
    pub between: [f64; 2],
    /// The likelihood.
    pub likelihood: Likelihood,
    /// True if the first coefficient is that of a column of ones.
    pub intercept: bool,
    /// The columns.
    pub columns: Vec<Column>,
    /// μ₀.
    pub prior_mean: Vec<f64>,
    /// The diagonal of J.
    pub prior_diagonal: Vec<f64>,
    /// The root of the hash tree.
    pub root: Hash,
    /// C, its lower triangle row by row.
    pub factor: Vec<f64>,
    /// r.
    pub radius: f64,
    /// λ.
    pub lambda: f64,
    /// A point inside, then the ends: one if the interval begins at 0, else two.
    pub points: Vec<Point>,
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// Names of points.
pub(crate) const POINTS: [&str; 3] = ["inside", "upper", "lower"];

impl SdCertificate {
    /// d.
    pub fn dim(&self) -> usize {
        self.prior_mean.len()
    }

    /// Numbers per row: columns, z, group, response, trials, offset, weight.
    pub fn numbers(&self) -> usize {
        self.columns.len() + 6
    }

    /// Rows and groups.
    pub fn counts(&self) -> [u64; 2] {
        let groups = || self.blocks.iter().flat_map(|block| &block.groups);
        [groups().map(|group| group.rows).sum(), groups().count() as u64]
    }

    /// What is claimed, in a sentence.
    pub fn sentence(&self) -> String {
        let [rows, groups] = self.counts();
        let objective =
            if self.prior_diagonal.iter().all(|j| *j == 0.0) { "likelihood" } else { "penalised likelihood" };
        format!(
            "the {objective} of the coefficients and the sd of one effect of {groups} groups has a local maximum at an \
             sd between {:e} and {:e}, for the {} regression of {rows} rows (SHA-256 {}) on {} coefficients.",
            self.between[0],
            self.between[1],
            self.likelihood.name(),
            hex(&self.root),
            self.dim()
        )
    }
}

/// Signs and sizes that the theorem requires.
pub fn sd_requirements(certificate: &SdCertificate) -> Result<(), Refusal> {
    let SdCertificate { between: [low, high], points, blocks, .. } = certificate;
    let inside = points[0].sd;
    let radii = |block: &Block| {
        let of_ends = block.ends.iter().flatten().map(|stated| stated.rad);
        let of_groups = block.groups.iter().flat_map(|group| group.integrals.iter().map(|all| all.1));
        of_ends.chain(of_groups).all(|rad| rad >= 0.0)
    };
    for (holds, what) in [
        (*low >= 0.0 && low < high, "the interval is one"),
        (inside < *high && (inside > *low || *low == 0.0 && inside == 0.0), "a point is inside"),
        (points[1].sd == *high && points.get(2).is_none_or(|p| p.sd == *low), "the ends are points"),
        (certificate.prior_diagonal.iter().all(|j| *j >= 0.0), "the precision of the prior is positive"),
        (certificate.columns.iter().all(|c| c.scale > 1e-50), "the scales of columns are above 1e-50"),
        (
            triangle(&certificate.factor).all(|row| row[row.len() - 1] > 0.0),
            "the diagonal of the factor is positive",
        ),
        (certificate.radius > 0.0 && certificate.lambda > 0.0, "radius and lambda are positive"),
        (blocks.iter().all(radii), "the radii are not negative"),
        (blocks.iter().flat_map(|block| &block.groups).all(|group| group.rows > 0), "every group has a row"),
        (
            blocks.iter().all(|b| b.groups.iter().map(|g| g.rows).sum::<u64>() <= BLOCK_ROWS),
            "no block has more than 2^20 rows",
        ),
    ] {
        if !holds {
            return Err(Refusal::NotProved(format!("the theorem requires that {what}")));
        }
    }
    Ok(())
}

/// By how many nats at least the objective is lower at every end than inside, if all blocks are as stated.
pub fn prove_sd(certificate: &SdCertificate) -> Result<Vec<f64>, Refusal> {
    let SdCertificate { prior_mean, prior_diagonal, factor, points, radius, .. } = certificate;
    let d = certificate.dim();
    let precision = Precision::Diagonal(prior_diagonal.clone());
    let mut margins = Vec::new();
    for (end, point) in points.iter().enumerate().skip(1) {
        let mut gain = Ball::ZERO;
        for integrals in
            certificate.blocks.iter().flat_map(|block| &block.groups).map(|group| &group.integrals)
        {
            let [(inside, own, _), (there, rad, _)] = [integrals[0], integrals[end]];
            gain = gain + (Ball::exact(there) - inside) - own - rad;
        }
        for j in 0..d {
            let (b, a) = (Ball::exact(point.mean[j]), Ball::exact(points[0].mean[j]));
            gain = gain + (b - a) * (b + a - prior_mean[j] * 2.0) * prior_diagonal[j] * 0.5;
        }
        let stated = |k: usize| {
            let all = certificate.blocks.iter().map(move |block| &block.ends[end - 1][k]);
            all.map(|stated| (&stated.parts[..], stated.rad))
        };
        let (slope, bend) = prior(&point.mean, prior_mean, &precision, factor);
        let steep = total(stated(0), d, false).plus(1.0, &slope).size();
        let curved = total(stated(1), d, true).plus(1.0, &bend);
        let least = least_eigenvalue(&curved, d, certificate.lambda).filter(|least| *least > 0.0);
        let Some(least) = least else {
            return Err(Refusal::NotProved(format!("lambda is not proved at the {} end", POINTS[end])));
        };
        let at_most = (Ball::exact(least) * *radius).lower();
        if up(2.0 * steep) >= at_most || steep.is_nan() {
            return Err(Refusal::NotProved(format!(
                "at the {} end the gradient {steep:e} asks for a larger radius",
                POINTS[end]
            )));
        }
        margins.push((gain - up(0.5 * steep * steep / least)).lower());
    }
    for (end, margin) in margins.iter().enumerate() {
        // NaN is not above anything
        if margin.is_nan() || *margin <= 0.0 {
            let end = POINTS[end + 1];
            return Err(Refusal::NotProved(format!(
                "at the {end} end the objective is not proved to be lower"
            )));
        }
    }
    Ok(margins)
}

/// What the rows of a block give.
#[derive(Clone, Debug)]
pub struct SdSums {
    /// The integrals at every point, group after group.
    pub values: Vec<Vec<Ball>>,
    /// Gradient and least curvature at every end.
    pub ends: Vec<[Stated; 2]>,
}

/// The rows of a block, and what they give at every point: the integrals, and at the ends gradient and curvature.
pub fn sd_block(certificate: &SdCertificate, block: usize, bytes: &[u8]) -> Result<SdSums, Refusal> {
    let (d, numbers) = (certificate.dim(), certificate.numbers());
    let first: u64 = certificate.blocks[..block].iter().map(|block| block.groups.len() as u64).sum();
    let (mut values, mut ends) = (Vec::new(), Vec::new());
    for (at, point) in certificate.points.iter().enumerate() {
        let frame = Frame::new(certificate.intercept, &certificate.columns, &point.mean, &certificate.factor);
        let (mut v, mut words) = (vec![1.0; d], bytes.chunks_exact(8 * numbers));
        let mut sums = Sums::new(d);
        let mut own = Vec::new();
        for (k, group) in certificate.blocks[block].groups.iter().enumerate() {
            let wrong =
                |what: &str| Refusal::NotProved(format!("a row of group {} {what}", first + k as u64));
            let (mut rows, mut designs) = (Vec::new(), Vec::new());
            for words in words.by_ref().take(group.rows as usize) {
                let row: Vec<f64> =
                    words.as_chunks().0.iter().map(|word| f64::from_le_bytes(*word)).collect();
                let (x, rest) = row.split_at(numbers - 6);
                let [z, of_group, y, trials, offset, weight] =
                    [rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]];
                if !row.iter().all(|x| x.abs() <= LARGE) || weight < 0.0 {
                    return Err(wrong("has a number that it must not have"));
                }
                if of_group != (first + k as u64) as f64 {
                    return Err(wrong("belongs to another group"));
                }
                if let Some(required) = certificate.likelihood.reject(y, trials) {
                    return Err(wrong(&format!("must have {required}")));
                }
                let mut a = vec![0.0; d];
                let (t, norm, eps) = frame.predictor(x, offset, &mut v, &mut a);
                let norm = up(norm * (1.0 + (d as f64 + 4.0) * U));
                rows.push(GroupRow { t, s: Ball::exact(z) * point.sd, y, trials, weight });
                designs.push((a, norm, eps));
            }
            let nodes = &group.integrals[at].2;
            let Some(found) = integrate(&rows, nodes, at > 0) else {
                let name = POINTS[at];
                return Err(Refusal::NotProved(format!(
                    "the nodes of group {} do not enclose its integral ({name})",
                    first + k as u64
                )));
            };
            if at > 0 {
                sums.add(&rows, &designs, &found, certificate.radius);
            }
            own.push(found.value);
        }
        values.push(own);
        if at > 0 {
            ends.push(sums.finish());
        }
    }
    Ok(SdSums { values, ends })
}

/// Gradient and least curvature over the groups of a block.
struct Sums {
    gradient: Vec<Ball>,
    curvature: Vec<f64>,
    /// How far the gradient's terms, and those of the curvature, may be from the truth, and their sizes.
    rads: [f64; 2],
    size: f64,
    count: f64,
}

impl Sums {
    fn new(d: usize) -> Self {
        let (gradient, curvature) = (vec![Ball::ZERO; d], vec![0.0; d * (d + 1) / 2]);
        Self { gradient, curvature, rads: [0.0; 2], size: 0.0, count: 0.0 }
    }

    /// k x x′.
    fn outer(&mut self, k: f64, x: &[f64]) {
        let mut at = 0;
        for i in 0..x.len() {
            for j in 0..=i {
                self.curvature[at] += k * (x[i] * x[j]);
                at += 1;
            }
        }
    }

    fn add(&mut self, rows: &[GroupRow], designs: &[(Vec<f64>, f64, f64)], found: &Integral, radius: f64) {
        let d = self.gradient.len();
        // c_g of the theorem, and D
        let mut moved = Ball::ZERO;
        let mut least = Vec::new();
        for ((row, (_, norm, eps)), curvature) in rows.iter().zip(designs).zip(&found.curvatures) {
            let reach = (Ball::exact(*norm) + *eps) * radius;
            moved = moved + reach * row.trials * row.weight;
            least.push((-reach).exp().lower().max(0.0) * curvature * (1.0 - 2.0 * U));
        }
        let share = (Ball::exact((-moved).exp().lower().max(0.0)) * found.inside).lower().max(0.0);
        // b = Σ D s ã and S = Σ D s²
        let (mut b, mut wrong, mut size, mut spread) = (vec![0.0; d], 0.0, 0.0, Ball::ZERO);
        for (((row, (a, norm, eps)), slope), least) in rows.iter().zip(designs).zip(&found.slopes).zip(&least)
        {
            self.count += 1.0;
            for (sum, a) in self.gradient.iter_mut().zip(a) {
                let term = slope.mid * a;
                *sum = *sum + Ball { mid: term, rad: 0.0 };
            }
            self.rads[0] += slope.mid.abs() * (eps + 2.0 * U * norm) + slope.rad * (norm + eps);
            let k = share * least;
            self.outer(k, a);
            self.rads[1] += k * eps * (2.0 * norm + eps);
            self.size += k * norm * norm;
            let pull = least * row.s.mid;
            b.iter_mut().zip(a).for_each(|(b, a)| *b += pull * a);
            wrong += least * row.s.rad * (norm + eps) + pull.abs() * eps;
            size += pull.abs() * norm;
            spread = spread + row.s * row.s * *least;
        }
        let rounded = (rows.len() as f64 + 4.0) * U * size;
        let wrong = up(SUMMED * (wrong + rounded + rows.len() as f64 * TINY));
        let k = Ball::exact(share) / (spread + 1.0);
        self.outer(-k.mid, &b);
        let norm = up(size * SUMMED);
        self.rads[1] += up(k.mid * wrong * (2.0 * norm + wrong) + k.rad * (norm + wrong) * (norm + wrong));
        self.size += k.mid * norm * norm;
    }

    fn finish(self) -> [Stated; 2] {
        let d = self.gradient.len() as f64;
        let gradient = Array::of(&self.gradient);
        let tiny = self.count * d * d * TINY;
        let first = up(SUMMED * (self.rads[0] + tiny) + gradient.rad);
        // two additions per row at most, and three roundings per product
        let second = up(SUMMED * (self.rads[1] + (2.0 * self.count + 8.0) * U * 1.01 * self.size + tiny));
        [Stated { parts: gradient.mid, rad: first }, Stated { parts: self.curvature, rad: second }]
    }
}

/// Checks the rows of one block.
pub fn check_sd_block(certificate: &SdCertificate, block: usize, bytes: &[u8]) -> Result<(), Refusal> {
    let own = &certificate.blocks[block];
    if leaf(bytes) != own.hash {
        return Err(Refusal::NotProved(format!("block {block} does not have the hash that is stated")));
    }
    let SdSums { values, ends } = sd_block(certificate, block, bytes)?;
    let wrong = |what: &str| {
        Refusal::NotProved(format!("{what} of block {block} is not proved to be within the stated radius"))
    };
    for (at, values) in values.iter().enumerate() {
        for (value, group) in values.iter().zip(&own.groups) {
            let (stated, rad, _) = group.integrals[at];
            let apart = (*value - stated).size();
            if apart.is_nan() || apart > rad {
                return Err(wrong("an integral"));
            }
        }
    }
    let both = ends.iter().flatten().zip(own.ends.iter().flatten());
    for ((found, stated), what) in both.zip(["a gradient", "a curvature"].into_iter().cycle()) {
        let apart = apart(&found.parts, found.rad, &stated.parts, certificate.dim());
        if apart.is_nan() || apart > stated.rad {
            return Err(wrong(what));
        }
    }
    Ok(())
}

/// Checks a certificate, with all of its rows or without any.
pub fn check_sd(certificate: &SdCertificate, input: Option<&mut dyn Read>) -> Result<Vec<f64>, Refusal> {
    sd_requirements(certificate)?;
    let leaves: Vec<Hash> = certificate.blocks.iter().map(|block| block.hash).collect();
    if root(&leaves) != certificate.root {
        return Err(Refusal::NotProved(
            "the hashes of the blocks do not have the root that is stated".into(),
        ));
    }
    let margins = prove_sd(certificate)?;
    if let Some(mut input) = input {
        let mut bytes = Vec::new();
        for (k, block) in certificate.blocks.iter().enumerate() {
            let rows: u64 = block.groups.iter().map(|group| group.rows).sum();
            crate::read(&mut input, rows * 8 * certificate.numbers() as u64, &mut bytes)?;
            check_sd_block(certificate, k, &bytes)?;
        }
        if crate::read(&mut input, 1, &mut bytes).is_ok() {
            return Err(Refusal::NotProved("there are more rows than the certificate states".into()));
        }
    }
    Ok(margins)
}
