//! Certificates about the sd of an effect of groups (docs/certificate-format.md, "The sd of an effect"): the best
//! coefficients at three sds by Newton's method, nodes for the integral of every group, and the sums of certus-check.
//! Nothing here is trusted.

use certus::{linalg, parallel};
use certus_check::{
    Block, Column, Group, Likelihood, Model, Point, Precision, Refusal, SdCertificate, SdSums, Stated, check,
    leaf, root, triangle,
};

use super::sd_nodes::{Plain, PlainRow, find};
use super::{RADII, ROOM, encoded, refused};
use crate::error::Error;

/// Rows of a block, about.
const BLOCK: usize = 2048;
/// Blocks, about, of many rows.
const BLOCKS: usize = 64;
/// Newton steps.
const STEPS: usize = 60;
/// What the radius of a stated integral is larger than what was found: what is proved depends on it.
const INTEGRAL: f64 = 1.25;
/// The radius in which curvature is bounded, unless the gradient asks for more.
const RADIUS: f64 = 1e-7;
/// How often the distance of the ends is doubled, at most.
const DOUBLED: i32 = 12;

/// Why an interval that a fit has proved may have no certificate.
const NO_CURVATURE: &str = "at an end of the interval certus-check cannot bound how far the objective can fall from \
     the stated coefficients, because it proves no curvature in the coefficients there. The fit bounds this by the \
     prior, or by Lemma K4 over wider parts of the groups' integrals with rounding allowed for; a certificate counts \
     each group between two nodes only, and every rounding error. With a tighter prior of the coefficients the \
     interval can be exported";

/// A row as it is exported.
#[derive(Clone, Debug)]
pub struct SdRow {
    /// Its columns.
    pub x: Vec<f64>,
    /// What the effect of its group is multiplied by.
    pub z: f64,
    /// Its group, from 0 on without gaps.
    pub group: usize,
    /// Response, trials, offset and weight.
    pub rest: [f64; 4],
}

/// A model whose sd is to be certified.
pub struct SdSubject {
    certificate: SdCertificate,
    /// The diagonal of J.
    prior_diagonal: Vec<f64>,
    /// The groups, and their rows as bytes.
    groups: Vec<(Vec<PlainRow>, Vec<u8>)>,
}

impl SdSubject {
    /// A logistic or binomial model with the diagonal of the precision of the prior.
    pub fn new(
        likelihood: &str,
        intercept: bool,
        columns: Vec<(String, f64, f64)>,
        prior: [Vec<f64>; 2],
        rows: Vec<SdRow>,
    ) -> Result<Self, Error> {
        let likelihood = match likelihood {
            "logistic" => Likelihood::Logistic,
            "binomial" => Likelihood::Binomial,
            _ => return Err(refused("certificates of an sd cover logistic and binomial models")),
        };
        let columns: Vec<Column> = columns
            .into_iter()
            .map(|(name, centre, scale)| Column { name: encoded(&name), centre, scale })
            .collect();
        let count = rows.iter().map(|row| row.group + 1).max().unwrap_or(0);
        let mut groups = vec![(Vec::new(), Vec::new()); count];
        for row in rows {
            let (plain, bytes) = &mut groups[row.group];
            let values = row.x.iter().zip(&columns).map(|(x, column)| (x - column.centre) / column.scale);
            let [y, trials, offset, weight] = row.rest;
            let design = intercept.then_some(1.0).into_iter().chain(values).collect();
            plain.push(PlainRow { design, z: row.z, y, trials, offset, weight });
            let numbers = row.x.iter().copied().chain([row.z, row.group as f64]).chain(row.rest);
            numbers.for_each(|x| bytes.extend(x.to_le_bytes()));
        }
        if groups.iter().any(|(rows, _)| rows.is_empty()) {
            return Err(refused("a group has no rows"));
        }
        let [prior_mean, prior_diagonal] = prior;
        let prior_precision = Precision::Diagonal(prior_diagonal.clone());
        let certificate = SdCertificate {
            between: [0.0; 2],
            model: Model { likelihood, intercept, columns, prior_mean, prior_precision },
            root: [0; 32],
            factor: Vec::new(),
            radius: RADIUS,
            lambda: 0.0,
            points: Vec::new(),
            blocks: Vec::new(),
        };
        Ok(Self { certificate, prior_diagonal, groups })
    }

    /// The rows, group after group.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.groups.iter().map(|(_, bytes)| &bytes[..])
    }

    /// F, its gradient and its Hessian (column-major) in plain numbers.
    fn at(&self, beta: &[f64], sd: f64) -> Option<Plain> {
        let (d, c) = (beta.len(), &self.certificate);
        let one = |k: usize| {
            let (rows, _) = &self.groups[k];
            Some(Plain::of(rows, beta, sd, &find(rows, beta, sd)?))
        };
        let add = |a: Option<Plain>, b: Option<Plain>| Some(a?.plus(&b?));
        let mut sum = parallel::reduce(self.groups.len(), 8, &one, &add)??;
        for j in 0..d {
            let away = beta[j] - c.model.prior_mean[j];
            sum.value += 0.5 * self.prior_diagonal[j] * away * away;
            sum.gradient[j] += self.prior_diagonal[j] * away;
            sum.hessian[j * (d + 1)] += self.prior_diagonal[j];
        }
        sum.value.is_finite().then_some(sum)
    }

    /// The best coefficients at an sd, F and its Hessian's factor there.
    pub fn profile(&self, start: &[f64], sd: f64) -> Result<(Vec<f64>, f64, Vec<f64>), Error> {
        let lost = || refused(format!("its integrals at the sd {sd:e} cannot be computed"));
        let (d, mut beta) = (start.len(), start.to_vec());
        let mut here = self.at(&beta, sd).ok_or_else(lost)?;
        for step in 0..STEPS {
            let mut factor = here.hessian.clone();
            if !linalg::cholesky(&mut factor, d) {
                return Err(refused("its coefficients are not identified"));
            }
            let mut down = here.gradient.clone();
            linalg::solve_lower(&factor, d, false, &mut down);
            let steep = linalg::norm_squared(&down).sqrt();
            linalg::solve_lower(&factor, d, true, &mut down);
            if steep < 1e-11 || step + 1 == STEPS {
                return Ok((beta, here.value, factor));
            }
            let mut part = 1.0;
            let next = loop {
                let trial: Vec<f64> = beta.iter().zip(&down).map(|(b, s)| b - part * s).collect();
                match self.at(&trial, sd) {
                    Some(there) if there.value <= here.value + 1e-12 * here.value.abs() => {
                        break Some((trial, there));
                    }
                    _ if part < 1e-6 => break None,
                    _ => part *= 0.5,
                }
            };
            let Some((trial, there)) = next else { return Ok((beta, here.value, factor)) };
            // rounding leaves no more to gain
            let stuck = steep < 1e-7 && there.value >= here.value;
            (beta, here) = (trial, there);
            if stuck {
                return Ok((beta, here.value, factor));
            }
        }
        Err(refused("its coefficients were not found"))
    }

    /// The certificate that a maximum over the sd lies between two numbers, around an estimate; where that is not
    /// proved, between others twice as far from it, and so on.
    pub fn certify(&self, start: &[f64], sd: f64, between: [f64; 2]) -> Result<SdCertificate, Error> {
        let inside = self.profile(start, sd)?;
        let mut why = refused("the interval does not contain the estimate");
        for doubled in 0..DOUBLED {
            let far = 2f64.powi(doubled);
            let [low, high] = between.map(|end| sd + far * (end - sd));
            let between = [if between[0] == 0.0 { 0.0 } else { low.max(0.5 * between[0]) }, high];
            match self.between(&inside, sd, between) {
                Ok(certificate) => return Ok(certificate),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The ends that certus-check proves of the certificate, made as by [`certify`](Self::certify) and read from its
    /// text, with all rows.
    pub fn checked(&self, start: &[f64], sd: f64, between: [f64; 2]) -> Result<[f64; 2], Error> {
        let words = |refusal: Refusal| refused(refusal.to_string());
        let text = self.certify(start, sd, between)?.write();
        let certificate = SdCertificate::read(&text).map_err(words)?;
        let rows: Vec<u8> = self.rows().flatten().copied().collect();
        check(&certificate, Some(&mut &rows[..])).map_err(words)?;
        Ok(certificate.between)
    }

    fn between(
        &self,
        inside: &(Vec<f64>, f64, Vec<f64>),
        sd: f64,
        between: [f64; 2],
    ) -> Result<SdCertificate, Error> {
        let d = inside.0.len();
        let lower = linalg::lower_of_inverse(&inside.2, d);
        let mut points = vec![Point { sd, mean: inside.0.clone() }];
        for end in [between[1], between[0]].into_iter().filter(|end| *end > 0.0) {
            points.push(Point { sd: end, mean: self.profile(&inside.0, end)?.0 });
        }
        let entries = (0..d).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let factor = entries.map(|(i, j)| lower[j * d + i]).collect();
        let mut out = SdCertificate { between, points, factor, ..self.certificate.clone() };
        let (mut blocks, rows) = (Vec::new(), self.groups.iter().map(|(rows, _)| rows.len()).sum::<usize>());
        let (mut from, mut begun) = (0, 0);
        for k in 0..self.groups.len() {
            begun += self.groups[k].0.len();
            if begun >= BLOCK.max(rows / BLOCKS) || k + 1 == self.groups.len() {
                blocks.push(from..k + 1);
                (from, begun) = (k + 1, 0);
            }
        }
        for own in &blocks {
            let mut block = Block { hash: [0; 32], groups: Vec::new(), ends: Vec::new() };
            for (rows, _) in &self.groups[own.clone()] {
                let at = |point: &Point| Some((0.0, 0.0, find(rows, &point.mean, point.sd)?));
                let integrals = out.points.iter().map(at).collect::<Option<Vec<_>>>();
                let integrals = integrals.ok_or_else(|| refused("a group has no nodes for its integral"))?;
                block.groups.push(Group { rows: rows.len() as u64, integrals });
            }
            out.blocks.push(block);
        }
        for _ in 0..3 {
            self.state(&mut out, &blocks)?;
            let steep = hints(&mut out, &self.prior_diagonal)?;
            let needed = 4.0 * steep / out.lambda;
            if needed <= out.radius {
                break;
            }
            out.radius = 2.0 * needed;
        }
        let words = |refusal: Refusal| refused(refusal.to_string());
        out.requirements().map_err(words)?;
        out.theorem().map_err(words)?;
        Ok(out)
    }

    /// Hashes and sums, with room in their radii for another checker.
    fn state(&self, out: &mut SdCertificate, blocks: &[std::ops::Range<usize>]) -> Result<(), Error> {
        let fixed = &*out;
        let one = |k: usize| {
            let bytes: Vec<u8> =
                self.groups[blocks[k].clone()].iter().flat_map(|(_, bytes)| bytes).copied().collect();
            let found = fixed.sums(k, &bytes).map_err(|refusal| refused(refusal.to_string()));
            Ok::<_, Error>((leaf(&bytes), found?))
        };
        let mut all: Vec<Option<Result<_, Error>>> = (0..blocks.len()).map(|_| None).collect();
        parallel::for_each_piece(&mut all, 1, 1, &|k, out| out[0] = Some(one(k)));
        let all = all.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
        for (block, (hash, SdSums { values, ends })) in out.blocks.iter_mut().zip(all) {
            block.hash = hash;
            for (at, values) in values.iter().enumerate() {
                for (group, value) in block.groups.iter_mut().zip(values) {
                    let integral = &mut group.integrals[at];
                    (integral.0, integral.1) = (value.mid, INTEGRAL * value.rad);
                }
            }
            let widen = |[mut gradient, mut curvature]: [Stated; 2]| {
                let trace: f64 = triangle(&curvature.parts).filter_map(|row| row.last()).sum();
                gradient.rad *= RADII;
                curvature.rad = RADII * curvature.rad + ROOM * trace;
                [gradient, curvature]
            };
            block.ends = ends.into_iter().map(widen).collect();
        }
        out.root = root(&out.blocks.iter().map(|block| block.hash).collect::<Vec<_>>());
        Ok(())
    }
}

/// λ, and how large the gradients can be, both with the room of the radii.
fn hints(out: &mut SdCertificate, prior_diagonal: &[f64]) -> Result<f64, Error> {
    let d = out.dim();
    let mut c = vec![0.0; d * d];
    for (i, row) in triangle(&out.factor).enumerate() {
        row.iter().enumerate().for_each(|(j, x)| c[j * d + i] = *x);
    }
    let (mut lambda, mut steep) = (f64::INFINITY, 0.0f64);
    for end in 1..out.points.len() {
        let (mut gradient, mut matrix, mut rads) = (vec![0.0; d], vec![0.0; d * d], [0.0; 2]);
        for block in &out.blocks {
            let [slope, bend] = &block.ends[end - 1];
            linalg::add_scaled(&mut gradient, 1.0, &slope.parts);
            for (i, row) in triangle(&bend.parts).enumerate() {
                for (j, x) in row.iter().enumerate() {
                    matrix[j * d + i] += x;
                    matrix[i * d + j] += if i == j { 0.0 } else { *x };
                }
            }
            rads = [rads[0] + slope.rad, rads[1] + bend.rad];
        }
        for i in 0..d {
            for k in 0..d {
                let own = c[i * d + k] * prior_diagonal[k];
                gradient[i] += own * (out.points[end].mean[k] - out.model.prior_mean[k]);
                (0..d).for_each(|j| matrix[j * d + i] += own * c[j * d + k]);
            }
        }
        let (least, _) = linalg::extreme_eigenvalues(&matrix, d)
            .ok_or_else(|| refused("the eigenvalues of its curvature were not found"))?;
        lambda = lambda.min(least * (1.0 - 1e-6) - 2.0 * rads[1]);
        steep = steep.max(linalg::norm_squared(&gradient).sqrt() + rads[0]);
    }
    if lambda.is_nan() || lambda <= 0.0 {
        return Err(refused(NO_CURVATURE));
    }
    out.lambda = lambda;
    Ok(steep)
}
