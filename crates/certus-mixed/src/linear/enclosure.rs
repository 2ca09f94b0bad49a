//! The cross-products in units of an estimate, with bounds of their errors against those of the rows without any
//! rounding (docs/mixed.md, R1).

use super::blocks::Blocks;
use super::small;
use super::statistics::Statistics;

/// γ_n = nu/(1 − nu), u the unit roundoff.
pub(super) fn gamma(n: f64) -> f64 {
    let nu = n * 0.5 * f64::EPSILON;
    if nu < 0.1 { nu / (1.0 - nu) } else { f64::INFINITY }
}

/// Integers up to here are added without rounding.
const EXACT: f64 = 4_503_599_627_370_496.0;
/// Roundings of a product, of columns that are centred and scaled (four each), of what follows.
const FEW: f64 = 24.0;

/// Z ← ZW: `middle` as computed, `radius` at least what its entries are off.
pub(super) struct Enclosure {
    pub(super) middle: Statistics,
    pub(super) radius: Statistics,
}

/// What of the rows decides about errors of sums: per column its norm, and whether it has integers only.
struct Columns {
    /// Of Z, by factors.
    z: Vec<Vec<f64>>,
    /// Of X.
    x: Vec<f64>,
    /// γ of factor 1 and of all others.
    first: f64,
    rest: f64,
}

impl Columns {
    fn new(s: &Statistics) -> Self {
        let width = s.layout.fixed + 1;
        // norms from sums that have few roundings themselves
        let norm = |square: f64| 1.01 * square.sqrt();
        let of = |(own, k): (&Vec<f64>, usize)| -> Vec<f64> {
            own.chunks_exact(k * k).flat_map(|a| (0..k).map(move |i| norm(a[i * (k + 1)]))).collect()
        };
        let few = FEW + 2.0 * width as f64;
        Self {
            z: s.own.iter().zip(&s.layout.factors).map(|(own, f)| of((own, f.effects))).collect(),
            x: (0..width - 1).map(|c| norm(s.fixed[c * (width + 1)])).collect(),
            first: gamma(s.depth.min(s.largest) as f64 + few),
            rest: gamma(s.depth as f64 + few),
        }
    }

    fn gamma(&self, factor: usize) -> f64 {
        if factor == 0 { self.first } else { self.rest }
    }
}

/// Whether a sum of products of two columns with these norms is exact.
fn exact(whole: bool, other: bool, a: f64, b: f64) -> bool {
    whole && other && a * b < EXACT
}

impl Enclosure {
    /// W of every factor, k × k.
    pub(super) fn new(s: &Statistics, w: &[Vec<f64>]) -> Self {
        let columns = Columns::new(s);
        let sizes: Vec<Vec<f64>> = w.iter().map(|w| w.iter().map(|x| x.abs()).collect()).collect();
        let (own, own_radius) = squares(s, &columns, w, &sizes);
        let (cross, cross_radius) = crosses(s, &columns, w, &sizes);
        let (meetings, meetings_radius) = meetings(s, &columns, w, &sizes);
        let mut rest = s.rest.clone();
        rest.congruent(&s.layout, w, true);
        let mut rest_radius = others(s, &columns);
        rest_radius.congruent(&s.layout, &sizes, true);
        let part = |own, cross: Vec<Vec<f64>>, rest, meetings, fixed| Statistics {
            rest_cross: gathered(s, &cross),
            own,
            cross,
            rest,
            meetings,
            fixed,
            ..s.clone()
        };
        Self {
            middle: part(own, cross, rest, meetings, s.fixed.clone()),
            radius: part(own_radius, cross_radius, rest_radius, meetings_radius, fixed(s, &columns)),
        }
    }
}

/// WᵀAW of every level, and |W|ᵀ(E + γ|A|)|W| with the errors E of A.
fn squares(
    s: &Statistics,
    columns: &Columns,
    w: &[Vec<f64>],
    sizes: &[Vec<f64>],
) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let each = s.own.iter().enumerate().map(|(f, own)| {
        let k = s.layout.factors[f].effects;
        let (turned, turned_sizes) = (small::transposed(&w[f], k), small::transposed(&sizes[f], k));
        let (rounding, of_sums) = (gamma(2.0 * k as f64 + 2.0), columns.gamma(f));
        let (mut middle, mut radius) = (Vec::with_capacity(own.len()), Vec::with_capacity(own.len()));
        for (a, norms) in own.chunks_exact(k * k).zip(columns.z[f].chunks_exact(k)) {
            middle.extend(small::congruence(&turned, a, k));
            let off = |e: usize| {
                let (i, j) = (e % k, e / k);
                let whole = exact(s.whole[f][i], s.whole[f][j], norms[i], norms[j]);
                let sum = if whole { 0.0 } else { of_sums * norms[i] * norms[j] };
                sum + rounding * a[e].abs()
            };
            let off: Vec<f64> = (0..k * k).map(off).collect();
            radius.extend(small::congruence(&turned_sizes, &off, k));
        }
        (middle, radius)
    });
    each.unzip()
}

/// WᵀZᵀ[X r] of every level, likewise.
fn crosses(
    s: &Statistics,
    columns: &Columns,
    w: &[Vec<f64>],
    sizes: &[Vec<f64>],
) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let (p, u) = (s.layout.fixed, 0.5 * f64::EPSILON);
    let each = s.cross.iter().enumerate().map(|(f, cross)| {
        let k = s.layout.factors[f].effects;
        let (rounding, of_sums) = (gamma(k as f64 + 2.0), columns.gamma(f));
        let (mut middle, mut radius) = (Vec::with_capacity(cross.len()), Vec::with_capacity(cross.len()));
        for (at, column) in cross.chunks_exact(k).enumerate() {
            let (level, c) = (at / (p + 1), at % (p + 1));
            let norms = &columns.z[f][level * k..][..k];
            let off = |i: usize| {
                let sum = if c == p {
                    norms[i] * (4.0 * of_sums * s.residual + u * s.stray)
                } else if exact(s.whole[f][i], s.whole_fixed[c], norms[i], columns.x[c]) {
                    0.0
                } else {
                    of_sums * norms[i] * columns.x[c]
                };
                sum + rounding * column[i].abs()
            };
            let off: Vec<f64> = (0..k).map(off).collect();
            for i in 0..k {
                middle.push(small::inner(&w[f][i * k..][..k], column));
                radius.push(small::inner(&sizes[f][i * k..][..k], &off));
            }
        }
        (middle, radius)
    });
    each.unzip()
}

/// W₁ᵀB_gW₂ of every level of factor 1, likewise.
fn meetings(s: &Statistics, columns: &Columns, w: &[Vec<f64>], sizes: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let first = s.layout.factors[0];
    let k = first.effects;
    let (mut middle, mut radius) = (vec![0.0; s.meetings.len()], vec![0.0; s.meetings.len()]);
    let (turned, turned_sizes) = (small::transposed(&w[0], k), small::transposed(&sizes[0], k));
    for g in 0..first.levels {
        let (met, b) = s.meeting(g);
        let begin = s.offsets[g] * k;
        let mut at = 0;
        while at < met.len() {
            let (f, effect, norms) = place(s, columns, met[at]);
            debug_assert_eq!(effect, 0);
            let other = s.layout.factors[f].effects;
            let (block, own) = (&b[at * k..][..k * other], &columns.z[0][g * k..][..k]);
            let rounding = gamma((k + other) as f64 + 2.0);
            let off = |e: usize| {
                let (i, j) = (e % k, e / k);
                let whole = exact(s.whole[0][i], s.whole[f][j], own[i], norms[j]);
                let sum = if whole { 0.0 } else { columns.first * own[i] * norms[j] };
                sum + rounding * block[e].abs()
            };
            let off: Vec<f64> = (0..k * other).map(off).collect();
            let to = begin + at * k;
            turn(&turned, block, &w[f], k, other, &mut middle[to..][..k * other]);
            turn(&turned_sizes, &off, &sizes[f], k, other, &mut radius[to..][..k * other]);
            at += other;
        }
    }
    (middle, radius)
}

/// out ← A B C, A k × k, B k × l, C l × l.
fn turn(a: &[f64], b: &[f64], c: &[f64], k: usize, l: usize, out: &mut [f64]) {
    let mut left = vec![0.0; k * l];
    for (left, b) in left.chunks_exact_mut(k).zip(b.chunks_exact(k)) {
        (0..k).for_each(|i| left[i] = (0..k).map(|m| a[m * k + i] * b[m]).sum());
    }
    for j in 0..l {
        (0..k).for_each(|i| out[j * k + i] = (0..l).map(|m| left[m * k + i] * c[j * l + m]).sum());
    }
}

/// The factor of a column of Z₂, its effect, and the norms of the columns from there on.
fn place<'a>(s: &Statistics, columns: &'a Columns, column: u32) -> (usize, usize, &'a [f64]) {
    let before = s.layout.factors[0].columns();
    let at = before + column as usize;
    let after = s.layout.factors.iter().position(|f| f.start > at).unwrap_or(s.layout.factors.len());
    let own = at - s.layout.factors[after - 1].start;
    (after - 1, own % s.layout.factors[after - 1].effects, &columns.z[after - 1][own..])
}

/// E + γ|Z₂ᵀZ₂|.
fn others(s: &Statistics, columns: &Columns) -> Blocks {
    let mut out = s.rest.clone();
    out.for_each(&|c, block| {
        let (n, members) = (s.components.size(c), s.components.members(c));
        let of: Vec<(usize, usize, f64, usize)> = members
            .iter()
            .map(|&column| {
                let (f, effect, norms) = place(s, columns, column);
                let before = s.layout.factors[0].columns() + column as usize;
                let level = (before - s.layout.factors[f].start) / s.layout.factors[f].effects;
                (f, effect, norms[0], level)
            })
            .collect();
        for (column, &(f, a, norm, level)) in block.chunks_exact_mut(n).zip(&of) {
            for (x, &(g, b, other, at)) in column.iter_mut().zip(&of) {
                if f == g && level != at {
                    continue;
                }
                let rounding =
                    gamma((s.layout.factors[f].effects + s.layout.factors[g].effects) as f64 + 2.0);
                let whole = exact(s.whole[f][a], s.whole[g][b], norm, other);
                *x = rounding * x.abs() + if whole { 0.0 } else { columns.rest * norm * other };
            }
        }
    });
    out
}

/// Errors of [X r]ᵀ[X r].
fn fixed(s: &Statistics, columns: &Columns) -> Vec<f64> {
    let (p, u) = (s.layout.fixed, 0.5 * f64::EPSILON);
    let (r, stray) = (s.residual, u * s.stray);
    let entry = |e: usize| match (e % (p + 1), e / (p + 1)) {
        (i, j) if i == p && j == p => 8.0 * columns.rest * r * r + stray * (2.0 * r + stray),
        (i, j) if i == p || j == p => columns.x[i.min(j)] * (4.0 * columns.rest * r + stray),
        (i, j) if exact(s.whole_fixed[i], s.whole_fixed[j], columns.x[i], columns.x[j]) => 0.0,
        (i, j) => columns.rest * columns.x[i] * columns.x[j],
    };
    (0..(p + 1) * (p + 1)).map(entry).collect()
}

/// Z₂ᵀ[X r] from the factors' parts.
fn gathered(s: &Statistics, cross: &[Vec<f64>]) -> Vec<f64> {
    let (q, width) = (s.layout.rest(), s.layout.fixed + 1);
    let mut out = vec![0.0; q * width];
    for (factor, cross) in s.layout.factors.iter().zip(cross).skip(1) {
        let (k, start) = (factor.effects, factor.start - s.layout.factors[0].columns());
        for (at, column) in cross.chunks_exact(k).enumerate() {
            let (level, c) = (at / width, at % width);
            out[c * q + start + level * k..][..k].copy_from_slice(column);
        }
    }
    out
}
