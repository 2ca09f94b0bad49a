//! What the encoded rows are like, in two passes: ranges, means and standard deviations, a fingerprint; and which
//! columns follow from others. Sums run over leaves in the one fixed tree, so that they do not depend on threads or
//! ranks.

use certus::linalg;
use certus_models::ranks::{self, halves, whole};
use certus_models::rows::{LEAF, Leaf, Rows, add, leaves};

use crate::encoding::Encoding;
use crate::error::DataError;

/// A column is said to follow from others if they explain all but this part of its square sum; rounding leaves about
/// 1e-13.
const UNEXPLAINED: f64 = 1e-10;

/// Combines numbers of the leaves `which` (in order): `work(leaf, out)` changes those of one, which are `empty` before.
pub fn over_leaves(
    rows: &dyn Rows,
    which: &[usize],
    empty: &[f64],
    work: impl Fn(&Leaf<'_>, &mut [f64]) + Sync,
    combine: impl Fn(&mut [f64], &[f64]) + Sync,
) -> Result<Vec<f64>, DataError> {
    let leaf = |k: usize| {
        let mut out = empty.to_vec();
        rows.leaf(which[k], &mut |leaf| work(&leaf, &mut out))?;
        Ok(out)
    };
    // where the chosen leaves of each rank begin
    let place = |bound: &usize| which.partition_point(|leaf| leaf < bound);
    let bounds: Option<Vec<usize>> =
        rows.ranks().map(|ranks| ranks.manifest(leaves(rows)).iter().map(place).collect());
    let spread = rows.ranks().zip(bounds.as_deref());
    let all = ranks::reduce(spread, which.len(), empty.len(), &leaf, &combine, &drop)?;
    Ok(all.unwrap_or_else(|| empty.to_vec()))
}

/// All leaves that are here.
pub fn all(rows: &dyn Rows) -> Vec<usize> {
    (0..leaves(rows)).collect()
}

/// The response in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseSummary {
    /// Mean.
    pub mean: f64,
    /// Standard deviation (divided by N).
    pub sd: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
}

/// What one pass tells of every feature and of the response: least, greatest, sum.
pub(crate) struct Extent {
    features: Vec<[f64; 3]>,
    response: [f64; 3],
}

const NOTHING: [f64; 3] = [f64::INFINITY, f64::NEG_INFINITY, 0.0];

/// Takes note of values; their sum is added at the end, so that it depends on them alone.
fn extend(out: &mut [f64], values: impl Iterator<Item = f64>) {
    let mut sum = 0.0;
    for x in values {
        (out[0], out[1], sum) = (out[0].min(x), out[1].max(x), sum + x);
    }
    out[2] += sum;
}

impl Extent {
    pub(crate) fn of(rows: &dyn Rows) -> Result<Self, DataError> {
        let p = rows.columns();
        let all = over_leaves(
            rows,
            &all(rows),
            &NOTHING.repeat(p + 1),
            |leaf, out| {
                let (features, response) = out.split_at_mut(3 * p);
                for (j, out) in features.chunks_exact_mut(3).enumerate() {
                    extend(out, (0..leaf.y.len()).map(|i| leaf.x.get(i, j)));
                }
                extend(response, leaf.y.iter().copied());
            },
            |a, b| {
                for (a, b) in a.chunks_exact_mut(3).zip(b.chunks_exact(3)) {
                    (a[0], a[1], a[2]) = (a[0].min(b[0]), a[1].max(b[1]), a[2] + b[2]);
                }
            },
        )?;
        let mut parts = all.as_chunks::<3>().0.to_vec();
        let response = parts.pop().unwrap_or(NOTHING);
        Ok(Self { features: parts, response })
    }

    /// Features that have the same value in every row, with it.
    pub(crate) fn constants(&self) -> Vec<(usize, f64)> {
        let constant = |(j, part): (usize, &[f64; 3])| (part[0] == part[1]).then_some((j, part[0]));
        self.features.iter().enumerate().filter_map(constant).collect()
    }

    /// Without some features.
    pub(crate) fn without(self, features: &[usize]) -> Self {
        let kept = self.features.into_iter().enumerate().filter(|(j, _)| !features.contains(j));
        Self { features: kept.map(|(_, part)| part).collect(), response: self.response }
    }
}

/// What a second pass tells, knowing the first.
pub(crate) struct Summary {
    /// Mean and standard deviation of every feature.
    pub(crate) moments: Vec<(f64, f64)>,
    /// One of every feature by itself, to its prior (docs/priors.md, P1): the distance between its values if it has
    /// two, else its sd.
    pub(crate) units: Vec<f64>,
    pub(crate) response: ResponseSummary,
    /// A hash of all cells.
    cells: u64,
    /// A hash of the response, trials and weights of every row.
    pub(crate) responses: u64,
}

/// Mean and standard deviation of every feature, with the operations of `Design::standardised`, so that the bits agree:
/// the deviations are taken from the mean if there is an intercept, else from 0. A standard deviation below 1e-12 of
/// the size counts as 0.
///
/// The hash is of all cells of every leaf (features, response, trials, offset, weight, groups) as 64-bit words in
/// order; leaves are joined in the fixed tree.
pub(crate) fn summarise(
    rows: &dyn Rows,
    extent: &Extent,
    intercept: bool,
    codes: &[Vec<u32>],
) -> Result<Summary, DataError> {
    let (p, n) = (rows.columns(), rows.len() as f64);
    let means: Vec<f64> = extent.features.iter().map(|part| part[2] / n).collect();
    let about: Vec<f64> = if intercept { means.clone() } else { vec![0.0; p] };
    // squares of numbers below 1e-154 or above 1e154 would leave the range of doubles; a power of two changes no other
    // bit
    let shrink: Vec<f64> = std::iter::zip(&extent.features, &about)
        .map(|(part, about)| power_of_two((part[0] - about).abs().max((part[1] - about).abs())).recip())
        .collect();
    let [min, max, sum] = extent.response;
    let mean = sum / n;
    // per feature Σ x and Σ x² about its center and how many cells are neither its least nor its greatest; Σ (y −
    // mean)²; the two hashes in halves
    let sums = over_leaves(
        rows,
        &all(rows),
        &vec![0.0; 3 * p + 5],
        |leaf, out| {
            for j in 0..p {
                let [least, greatest, _] = extent.features[j];
                for i in 0..leaf.y.len() {
                    let cell = leaf.x.get(i, j);
                    let x = (cell - about[j]) * shrink[j];
                    out[j] += x;
                    out[p + j] += x * x;
                    out[2 * p + j] += f64::from(u8::from(cell != least && cell != greatest));
                }
            }
            leaf.y.iter().for_each(|y| out[3 * p] += (y - mean) * (y - mean));
            out[3 * p + 1..][..2].copy_from_slice(&halves(cells_hash(leaf, codes)));
            out[3 * p + 3..].copy_from_slice(&halves(responses_hash(leaf)));
        },
        |a, b| {
            add(&mut a[..=3 * p], &b[..=3 * p]);
            for (a, b) in a[3 * p + 1..].chunks_exact_mut(2).zip(b[3 * p + 1..].chunks_exact(2)) {
                a.copy_from_slice(&halves(mix(mix(1, whole(a)), whole(b))));
            }
        },
    )?;
    let sd = |j: usize| {
        let (mean, square) = (sums[j] / n, sums[p + j] / n);
        let variance = (square - mean * mean).max(0.0);
        let about = about[j] * shrink[j];
        if variance > 1e-24 * (square + about * about) { variance.sqrt() / shrink[j] } else { 0.0 }
    };
    let unit = |j: usize| {
        let [least, greatest, _] = extent.features[j];
        if least < greatest && sums[2 * p + j] == 0.0 { greatest - least } else { sd(j) }
    };
    Ok(Summary {
        moments: (0..p).map(|j| (means[j], sd(j))).collect(),
        units: (0..p).map(unit).collect(),
        response: ResponseSummary { mean, sd: (sums[3 * p] / n).sqrt(), min, max },
        cells: whole(&sums[3 * p + 1..][..2]),
        responses: whole(&sums[3 * p + 3..]),
    })
}

/// The largest power of two that is not above `size`, within a range whose reciprocals and their squares are ordinary
/// numbers; 1 for a size that has no logarithm.
fn power_of_two(size: f64) -> f64 {
    if !(size > 0.0 && size.is_finite()) {
        return 1.0;
    }
    2f64.powi((size.log2().floor() as i32).clamp(-1000, 1000))
}

/// A feature that is a combination of earlier ones, and of which (`None` is the intercept).
pub(crate) struct Dependent {
    pub(crate) feature: usize,
    pub(crate) on: Vec<(Option<usize>, f64)>,
}

/// Features that follow from earlier ones.
///
/// Whatever is independent on some rows is independent on all, so a part of the leaves is tried first.
pub(crate) fn dependent(rows: &dyn Rows, encoding: &Encoding) -> Result<Vec<Dependent>, DataError> {
    let count = leaves(rows);
    let enough = (8 * rows.columns()).div_ceil(LEAF).max(8);
    let step = (count / enough).max(1);
    let some: Vec<usize> = (0..count).step_by(step).collect();
    let found = dependent_on(rows, encoding, &some)?;
    if found.is_empty() || some.len() == count { Ok(found) } else { dependent_on(rows, encoding, &all(rows)) }
}

/// The Cholesky factorisation of G = AᵀA (A standardised) column by column: the pivot of column j is the part of its
/// square sum that the columns before it leave unexplained; where that is nothing, L⁻ᵀ gives the combination.
fn dependent_on(rows: &dyn Rows, encoding: &Encoding, which: &[usize]) -> Result<Vec<Dependent>, DataError> {
    let first = usize::from(encoding.intercept);
    let d = rows.columns() + first;
    let center: Vec<f64> =
        encoding.features.iter().map(|f| if encoding.intercept { f.mean } else { 0.0 }).collect();
    let scale: Vec<f64> = encoding.features.iter().map(|f| if f.sd > 0.0 { f.sd } else { 1.0 }).collect();
    let gram = over_leaves(
        rows,
        which,
        &vec![0.0; d * d],
        |leaf, out| {
            let n = leaf.y.len();
            let mut a = vec![1.0; n * d];
            for j in first..d {
                let (m, s) = (center[j - first], scale[j - first]);
                (0..n).for_each(|i| a[j * n + i] = (leaf.x.get(i, j - first) - m) / s);
            }
            for j in 0..d {
                for k in 0..=j {
                    out[j * d + k] += linalg::dot_in_lanes(&a[j * n..][..n], &a[k * n..][..n]);
                }
            }
        },
        add,
    )?;
    let mut l = vec![0.0; d * d];
    let mut independent: Vec<usize> = Vec::new();
    let mut found = Vec::new();
    for j in 0..d {
        let mut row: Vec<f64> = Vec::with_capacity(independent.len());
        for (place, &k) in independent.iter().enumerate() {
            let inner = linalg::dot_in_lanes(&row, &l[k * d..][..place]);
            row.push((gram[j * d + k] - inner) / l[k * d + place]);
        }
        let left = gram[j * d + j] - row.iter().map(|x| x * x).sum::<f64>();
        if left > UNEXPLAINED * gram[j * d + j] {
            l[j * d..][..row.len()].copy_from_slice(&row);
            l[j * d + row.len()] = left.sqrt();
            independent.push(j);
        } else if j >= first {
            // back substitution: Lᵀ c = row
            for place in (0..row.len()).rev() {
                let above: f64 = (place + 1..row.len()).map(|m| row[m] * l[independent[m] * d + place]).sum();
                row[place] = (row[place] - above) / l[independent[place] * d + place];
            }
            let on = independent.iter().zip(&row).filter(|(_, c)| c.abs() > 1e-6);
            let on = on.map(|(&k, c)| (k.checked_sub(first), *c)).collect();
            found.push(Dependent { feature: j - first, on });
        }
    }
    Ok(found)
}

/// h ← mix(h, word): both steps can be undone, so that a change of one word always shows.
pub fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// The hash with a text in it.
pub(crate) fn text_hash(hash: u64, text: &str) -> u64 {
    text.bytes().fold(mix(hash, text.len() as u64), |hash, byte| mix(hash, u64::from(byte)))
}

fn cells_hash(leaf: &Leaf<'_>, codes: &[Vec<u32>]) -> u64 {
    let (mut hash, n) = (0, leaf.y.len());
    for j in 0..leaf.x.columns() {
        hash = (0..n).fold(hash, |hash, i| mix(hash, leaf.x.get(i, j).to_bits()));
    }
    for part in [leaf.y, leaf.trials, leaf.offset, leaf.weight] {
        hash = part.iter().fold(mix(hash, part.len() as u64), |hash, x| mix(hash, x.to_bits()));
    }
    for code in codes {
        let part = &code[leaf.first..leaf.first + n];
        hash = part.iter().fold(hash, |hash, c| mix(hash, u64::from(*c)));
    }
    hash
}

fn responses_hash(leaf: &Leaf<'_>) -> u64 {
    let mut hash = 2;
    for part in [leaf.y, leaf.trials, leaf.weight] {
        hash = part.iter().fold(mix(hash, part.len() as u64), |hash, x| mix(hash, x.to_bits()));
    }
    hash
}

/// The fingerprint of the data used: the names of features, levels and groups, then all cells. It tells data apart, it
/// does not protect them.
pub(crate) fn fingerprint(
    rows: &dyn Rows,
    encoding: &Encoding,
    summary: &Summary,
    effects: &[Vec<f64>],
) -> u64 {
    let mut header = mix(0, rows.len() as u64);
    for name in encoding.coefficients() {
        header = text_hash(header, &name);
    }
    for group in &encoding.groups {
        let name = text_hash(header, &group.name);
        header = group.levels.iter().fold(name, |hash, level| text_hash(hash, level));
    }
    for (effect, column) in encoding.effects.iter().zip(effects) {
        header = column.iter().fold(text_hash(header, &effect.name), |hash, x| mix(hash, x.to_bits()));
    }
    mix(header, summary.cells)
}
