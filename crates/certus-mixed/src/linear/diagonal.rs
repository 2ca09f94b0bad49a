//! The diagonal blocks of ZᵀV⁻¹Z, level by level of every factor (docs/mixed.md, L0).

use certus::{linalg, parallel};

use super::blocks::{Blocks, add_times};
use super::components::NOWHERE;
use super::point::{PIECE, Point};
use super::small;

/// The blocks G_gA_g − G_gB_gNB_gᵀG_gᵀ of factor 1.
pub(super) fn first(point: &Point<'_>, n: &Blocks) -> Vec<f64> {
    let s = point.statistics;
    let size = s.layout.factors[0].effects.pow(2);
    let levels = s.components.all_levels();
    let mut sorted = vec![0.0; s.own[0].len()];
    parallel::for_each_piece(&mut sorted, PIECE * size, 1, &|piece, mut out| {
        let mut at = piece * PIECE;
        while !out.is_empty() {
            let (component, end) = s.components.run(at);
            let count = (end - at).min(out.len() / size);
            let (own, after) = out.split_at_mut(count * size);
            let levels = &levels[at..at + count];
            if component != NOWHERE && s.components.dense(component) {
                met_by_most(point, n, component, levels, own);
            } else {
                met_by_few(point, n, component, levels, own);
            }
            (at, out) = (at + count, after);
        }
    });
    let mut out = vec![0.0; sorted.len()];
    for (&g, block) in levels.iter().zip(sorted.chunks_exact(size)) {
        out[g as usize * size..][..size].copy_from_slice(block);
    }
    out
}

/// The same for levels of one component whose columns most of them meet.
fn met_by_most(point: &Point<'_>, by: &Blocks, component: usize, levels: &[u32], out: &mut [f64]) {
    let s = point.statistics;
    let (k, n) = (s.layout.factors[0].effects, s.components.size(component));
    let mut u = Vec::new();
    let mut rows = vec![0.0; n * k * levels.len()];
    for (rows, &g) in rows.chunks_exact_mut(n * k).zip(levels) {
        point.kept_meeting(g as usize, &mut u);
        for (t, &column) in s.meeting(g as usize).0.iter().enumerate() {
            (0..k).for_each(|i| rows[i * n + s.components.place(column)] = u[t * k + i]);
        }
    }
    let mut products = vec![0.0; rows.len()];
    linalg::add_square_times(by.block(component), n, false, &rows, &mut products);
    for ((out, &g), products) in out.chunks_exact_mut(k * k).zip(levels).zip(products.chunks_exact(n * k)) {
        kept_own(point, g as usize, out);
        point.kept_meeting(g as usize, &mut u);
        for (t, &column) in s.meeting(g as usize).0.iter().enumerate() {
            for j in 0..k {
                let by = products[j * n + s.components.place(column)];
                (0..k).for_each(|i| out[j * k + i] -= u[t * k + i] * by);
            }
        }
    }
}

/// The same for levels that meet few columns, or none.
fn met_by_few(point: &Point<'_>, by: &Blocks, component: usize, levels: &[u32], out: &mut [f64]) {
    let s = point.statistics;
    let k = s.layout.factors[0].effects;
    let (n, block) = match component {
        NOWHERE => (0, &[][..]),
        c => (s.components.size(c), by.block(c)),
    };
    let (mut u, mut nu) = (Vec::new(), vec![0.0; k]);
    for (out, &g) in out.chunks_exact_mut(k * k).zip(levels) {
        kept_own(point, g as usize, out);
        point.kept_meeting(g as usize, &mut u);
        let columns = s.meeting(g as usize).0;
        for (t, &column) in columns.iter().enumerate() {
            // what this column and those before it give, for every effect: N is symmetric
            nu.fill(0.0);
            let row = &block[s.components.place(column) * n..][..n];
            let own = &u[t * k..][..k];
            for (u, &other) in u.chunks_exact(k).zip(&columns[..t]) {
                let by = row[s.components.place(other)];
                nu.iter_mut().zip(u).for_each(|(nu, u)| *nu += by * u);
            }
            let by = 0.5 * row[s.components.place(column)];
            nu.iter_mut().zip(own).for_each(|(nu, u)| *nu += by * u);
            for j in 0..k {
                (0..k).for_each(|i| out[j * k + i] -= own[i] * nu[j] + nu[i] * own[j]);
            }
        }
    }
}

/// The blocks K − KNK of another factor.
pub(super) fn rest(point: &Point<'_>, by: &Blocks, f: usize) -> Vec<f64> {
    let (s, factor) = (point.statistics, point.statistics.layout.factors[f]);
    let (k, start) = (factor.effects, factor.start - s.layout.factors[0].columns());
    // per piece of components, the blocks of their levels
    let pieces = s.components.pieces();
    let mut found = vec![Vec::new(); pieces.len()];
    parallel::for_each_piece(&mut found, 1, 1, &|i, out| {
        let mut nk = Vec::new();
        for c in pieces[i].clone() {
            let (n, part) = (s.components.size(c), s.components.part(c, f));
            let own = &point.k.block(c)[part.start * n..part.end * n];
            nk.clear();
            nk.resize(own.len(), 0.0);
            add_times(by.block(c), n, own, &mut nk);
            for level in (0..part.len()).step_by(k) {
                for (b, a) in (level..level + k).flat_map(|b| (level..level + k).map(move |a| (b, a))) {
                    let through = linalg::dot(&own[a * n..][..n], &nk[b * n..][..n]);
                    out[0].push(own[b * n + part.start + a] - through);
                }
            }
        }
    });
    let mut out = vec![0.0; factor.columns() * k];
    let mut found = found.iter().flatten();
    for c in 0..s.components.count() {
        for column in &s.components.members(c)[s.components.part(c, f)] {
            let at = (*column as usize - start) * k;
            out[at..at + k].iter_mut().zip(&mut found).for_each(|(o, x)| *o = *x);
        }
    }
    out
}

/// The same as Λ⁻ᵀ(I − S⁻¹)Λ⁻¹.
pub(super) fn inverted(point: &Point<'_>, by: &Blocks, inverse: &[f64], f: usize) -> Vec<f64> {
    let (s, factor) = (point.statistics, point.statistics.layout.factors[f]);
    let (k, start) = (factor.effects, factor.start - s.layout.factors[0].columns());
    let turned = small::transposed(inverse, k);
    let mut out = Vec::with_capacity(factor.columns() * k);
    let mut block = vec![0.0; k * k];
    for at in (0..factor.levels).map(|l| start + l * k) {
        for j in 0..k {
            for i in 0..k {
                block[j * k + i] = f64::from(u8::from(i == j)) - by.at(at + i, at + j);
            }
        }
        out.extend(small::congruence(&turned, &block, k));
    }
    out
}

/// G_gA_g.
fn kept_own(point: &Point<'_>, g: usize, out: &mut [f64]) {
    let (s, k) = (point.statistics, point.statistics.layout.factors[0].effects);
    let at = g * k * k;
    small::product_into(&point.kept[at..at + k * k], false, &s.own[0][at..at + k * k], k, out);
}
