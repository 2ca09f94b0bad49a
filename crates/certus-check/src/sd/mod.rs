//! The rule for the sd of an effect of groups (docs/certificate-format.md, "The sd of an effect"): the likelihood,
//! maximised over the coefficients, is lower at both ends of an interval of sds than inside.

mod group;
mod text;

pub use group::{GroupRow, Integral, Nodes, integrate};
pub(crate) use text::CLAIM;

use crate::array::{Array, least_eigenvalue, total};
use crate::ball::{Ball, TINY, U, up};
use crate::gap::BLOCK_ROWS;
use crate::gap::block::{Frame, SUMMED};
use crate::model::{Model, last, prior, require};
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::sha256::Hash;
use crate::stated::Stated;
use crate::text::triangle;

/// Coefficients and an sd.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The sd of the effect.
    pub sd: f64,
    /// The coefficients.
    pub mean: Vec<f64>,
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

impl Block {
    fn rows(&self) -> u64 {
        self.groups.iter().map(|group| group.rows).fold(0, u64::saturating_add)
    }
}

/// What is certified, and the hints.
#[derive(Clone, Debug, PartialEq)]
pub struct SdCertificate {
    /// The sd of a maximum is between these; below it is a maximum at 0, too, if the first is 0.
    pub between: [f64; 2],
    /// The model; J is diagonal.
    pub model: Model,
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
        self.model.dim()
    }

    /// Numbers per row: columns, z, group, response, trials, offset, weight.
    pub fn numbers(&self) -> usize {
        self.model.columns.len() + 6
    }

    /// Rows and groups.
    pub fn counts(&self) -> [u64; 2] {
        let groups = self.blocks.iter().map(|block| block.groups.len() as u64);
        [self.blocks.iter().map(Block::rows).fold(0, u64::saturating_add), groups.sum()]
    }

    /// Signs and sizes that the theorem requires.
    pub fn requirements(&self) -> Result<(), Refusal> {
        self.model.requirements()?;
        let Self { between: [low, high], points, blocks, .. } = self;
        let inside = points[0].sd;
        let groups = || blocks.iter().flat_map(|block| &block.groups);
        let of_ends = blocks.iter().flat_map(|block| &block.ends).flatten().map(|stated| stated.rad);
        let of_groups = groups().flat_map(|group| &group.integrals).map(|all| all.1);
        let mut diagonal = triangle(&self.factor).map(|row| row[row.len() - 1]);
        require(&[
            (*low >= 0.0 && low < high, "the interval is one"),
            (inside < *high && (inside > *low || *low == 0.0 && inside == 0.0), "a point is inside"),
            (points[1].sd == *high && points.get(2).is_none_or(|p| p.sd == *low), "the ends are points"),
            (diagonal.all(|x| x > 0.0), "the diagonal of the factor is positive"),
            (self.radius > 0.0 && self.lambda > 0.0, "radius and lambda are positive"),
            (of_ends.chain(of_groups).all(|rad| rad >= 0.0), "the radii are not negative"),
            (groups().all(|group| group.rows > 0), "every group has a row"),
            (blocks.iter().all(|block| block.rows() <= BLOCK_ROWS), "no block has more than 2^20 rows"),
        ])
    }

    /// By how many nats at least the objective is lower at every end than inside, if all blocks are as stated.
    pub fn theorem(&self) -> Result<Vec<f64>, Refusal> {
        let Self { model, factor, points, radius, .. } = self;
        let d = self.dim();
        let mut margins = Vec::new();
        for (end, point) in points.iter().enumerate().skip(1) {
            let refused = |what: &str| Refusal::NotProved(format!("at the {} end {what}", POINTS[end]));
            let mut gain = Ball::ZERO;
            for group in self.blocks.iter().flat_map(|block| &block.groups) {
                let [(inside, own, _), (there, rad, _)] = [group.integrals[0], group.integrals[end]];
                gain = gain + (Ball::exact(there) - inside) - own - rad;
            }
            let pairs = point.mean.iter().zip(&points[0].mean);
            let pairs: Vec<_> = pairs.map(|(b, a)| (Ball::exact(*b), Ball::exact(*a))).collect();
            let apart: Vec<Ball> = pairs.iter().map(|(b, a)| *b - *a).collect();
            for (j, pull) in model.prior_precision.times(&apart).into_iter().enumerate() {
                gain = gain + pull * (pairs[j].0 + pairs[j].1 - model.prior_mean[j] * 2.0) * 0.5;
            }
            let stated = |k: usize| self.blocks.iter().map(move |block| &block.ends[end - 1][k]);
            let (slope, bend) = prior(model, &point.mean, factor);
            let steep = total(stated(0), d, false).plus(1.0, &slope).size();
            let curved = total(stated(1), d, true).plus(1.0, &bend);
            let least = least_eigenvalue(&curved, d, self.lambda).filter(|least| *least > 0.0);
            let least = least.ok_or_else(|| refused("lambda is not proved"))?;
            let at_most = (Ball::exact(least) * *radius).lower();
            if up(2.0 * steep) >= at_most || steep.is_nan() {
                return Err(refused(&format!("the gradient {steep:e} asks for a larger radius")));
            }
            let margin = (gain - up(0.5 * steep * steep / least)).lower();
            // NaN is not above anything
            if margin.is_nan() || margin <= 0.0 {
                return Err(refused("the objective is not proved to be lower"));
            }
            margins.push(margin);
        }
        Ok(margins)
    }

    /// The rows of a block, and what they give at every point: the integrals, and at the ends gradient and curvature.
    pub fn sums(&self, block: usize, bytes: &[u8]) -> Result<SdSums, Refusal> {
        let (d, numbers) = (self.dim(), self.numbers());
        let first: u64 = self.blocks[..block].iter().map(|block| block.groups.len() as u64).sum();
        let (mut values, mut ends) = (Vec::new(), Vec::new());
        for (at, point) in self.points.iter().enumerate() {
            let frame = Frame::new(&self.model, &point.mean, &self.factor);
            let (mut v, mut words) = (vec![1.0; d], bytes.chunks_exact(8 * numbers));
            let mut sums = Sums::new(d);
            let mut own = Vec::new();
            for (k, group) in self.blocks[block].groups.iter().enumerate() {
                let wrong = |what: &str| Refusal::NotProved(format!("group {}: it {what}", first + k as u64));
                let (mut rows, mut designs) = (Vec::new(), Vec::new());
                for words in words.by_ref().take(group.rows as usize) {
                    let mut row = vec![0.0; numbers];
                    self.model
                        .row(words, &mut row)
                        .map_err(|what| wrong(&format!("has a row that {what}")))?;
                    let [y, trials, offset, weight] = last(&row);
                    let (x, z) = (&row[..numbers - 6], row[numbers - 6]);
                    if row[numbers - 5] != (first + k as u64) as f64 {
                        return Err(wrong("has a row of another group"));
                    }
                    let mut a = vec![0.0; d];
                    let (t, norm, eps) = frame.predictor(x, offset, &mut v, &mut a);
                    let norm = up(norm * (1.0 + (d as f64 + 4.0) * U));
                    rows.push(GroupRow { t, s: Ball::exact(z) * point.sd, y, trials, weight });
                    designs.push((a, norm, eps));
                }
                let found = integrate(&rows, &group.integrals[at].2, at > 0);
                let found = found.ok_or_else(|| wrong("has nodes that do not enclose its integral"))?;
                if at > 0 {
                    sums.add(&rows, &designs, &found, self.radius);
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
}

impl Rule for SdCertificate {
    fn tree(&self) -> (Hash, Vec<(Hash, u64)>) {
        let bytes = |block: &Block| block.rows() * 8 * self.numbers() as u64;
        (self.root, self.blocks.iter().map(|block| (block.hash, bytes(block))).collect())
    }

    fn rows(&self, block: usize, bytes: &[u8]) -> Result<(), Refusal> {
        let SdSums { values, ends } = self.sums(block, bytes)?;
        let own = &self.blocks[block];
        for (at, values) in values.into_iter().enumerate() {
            for (value, group) in values.into_iter().zip(&own.groups) {
                let (stated, rad, _) = group.integrals[at];
                let found = Stated { parts: vec![value.mid], rad: value.rad };
                let stated = Stated { parts: vec![stated], rad };
                found.agrees(&stated, 1, &format!("an integral of block {block}"))?;
            }
        }
        for ([gradient, curvature], stated) in ends.iter().zip(&own.ends) {
            gradient.agrees(&stated[0], self.dim(), &format!("a gradient of block {block}"))?;
            curvature.agrees(&stated[1], self.dim(), &format!("a curvature of block {block}"))?;
        }
        Ok(())
    }

    fn prove(&self) -> Result<[String; 2], Refusal> {
        let least = self.theorem()?.into_iter().fold(f64::INFINITY, f64::min);
        let [rows, groups] = self.counts();
        let sentence = format!(
            "the {} of the coefficients and the sd of one effect of {groups} groups has a local maximum at an sd \
             between {:e} and {:e}, {}.",
            self.model.objective(),
            self.between[0],
            self.between[1],
            self.model.data(rows, &self.root)
        );
        Ok([sentence, format!("at its ends the objective is lower by at least {least:e} nats")])
    }
}

/// What the rows of a block give.
#[derive(Clone, Debug)]
pub struct SdSums {
    /// The integrals at every point, group after group.
    pub values: Vec<Vec<Ball>>,
    /// Gradient and least curvature at every end.
    pub ends: Vec<[Stated; 2]>,
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
        let products = x.iter().enumerate().flat_map(|(i, a)| x[..=i].iter().map(move |b| k * (a * b)));
        self.curvature.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
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
            let terms = a.iter().map(|a| Ball { mid: slope.mid * a, rad: 0.0 });
            self.gradient.iter_mut().zip(terms).for_each(|(sum, term)| *sum = *sum + term);
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
