//! Block-diagonal matrices over the columns of Z₂, one dense block per connected component (docs/mixed.md, L0): what of
//! a q₂ × q₂ matrix is not 0, whatever the number of components.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use certus::{linalg, parallel};

use super::components::{Components, SMALL};
use super::layout::Layout;
use super::small;

/// A matrix over the columns of Z₂; blocks by columns.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    components: Arc<Components>,
    values: Vec<f64>,
}

impl Blocks {
    pub(super) fn zeros(components: &Arc<Components>) -> Self {
        Self { values: vec![0.0; components.numbers()], components: components.clone() }
    }

    /// Where the entry of two columns of one component is.
    fn index(&self, i: usize, j: usize) -> usize {
        let ((c, j), (other, i)) = (self.components.of(j), self.components.of(i));
        debug_assert_eq!(c, other, "columns of two components");
        self.components.square(c).start + j * self.components.size(c) + i
    }

    /// The entry at row `i` and column `j` of one component.
    pub(super) fn at(&self, i: usize, j: usize) -> f64 {
        self.values[self.index(i, j)]
    }

    pub(super) fn set(&mut self, i: usize, j: usize, value: f64) {
        let index = self.index(i, j);
        self.values[index] = value;
    }

    /// The matrix of a component.
    pub(super) fn block(&self, c: usize) -> &[f64] {
        &self.values[self.components.square(c)]
    }

    /// Calls `work` on every block and on its part of `beside`, which has `width` numbers per column of Z₂, component
    /// by component. Pieces are fixed, so that threads do not change a bit.
    pub(super) fn for_each_with(
        &mut self,
        beside: &mut [f64],
        width: usize,
        work: &(impl Fn(usize, &mut [f64], &mut [f64]) + Sync),
    ) {
        let components = self.components.clone();
        let (mut values, mut beside) = (&mut self.values[..], beside);
        let mut pieces = Vec::with_capacity(components.pieces().len());
        for piece in components.pieces() {
            let (first, last) = (piece.start, piece.end - 1);
            let numbers = components.square(last).end - components.square(first).start;
            let columns = components.range(last).end - components.range(first).start;
            let (own, after) = std::mem::take(&mut values).split_at_mut(numbers);
            let (own_beside, after_beside) = std::mem::take(&mut beside).split_at_mut(columns * width);
            pieces.push((own, own_beside));
            (values, beside) = (after, after_beside);
        }
        parallel::for_each_piece(&mut pieces, 1, 1, &|i, piece| {
            let (mut values, mut beside) = std::mem::take(&mut piece[0]);
            for c in components.pieces()[i].clone() {
                let n = components.size(c);
                let (own, after) = std::mem::take(&mut values).split_at_mut(n * n);
                let (own_beside, after_beside) = std::mem::take(&mut beside).split_at_mut(n * width);
                work(c, own, own_beside);
                (values, beside) = (after, after_beside);
            }
        });
    }

    /// Calls `work` on every block.
    pub(super) fn for_each(&mut self, work: &(impl Fn(usize, &mut [f64]) + Sync)) {
        self.for_each_with(&mut [], 0, &|c, block, _| work(c, block));
    }

    /// x ← `work` of the block and of its rows of a q₂ × anything matrix.
    fn apply(&self, x: &mut [f64], work: &(impl Fn(&[f64], usize, &mut [f64]) + Sync)) {
        let (components, width) = (&self.components, x.len() / self.components.columns().max(1));
        if components.count() == 1 {
            work(&self.values, components.columns(), x);
            return;
        }
        let mut own = components.gather(x);
        let mut pieces = Vec::with_capacity(components.pieces().len());
        let mut rest = &mut own[..];
        for piece in components.pieces() {
            let columns = components.range(piece.end - 1).end - components.range(piece.start).start;
            let (part, after) = std::mem::take(&mut rest).split_at_mut(columns * width);
            pieces.push(part);
            rest = after;
        }
        parallel::for_each_piece(&mut pieces, 1, 4, &|i, piece| {
            let mut rest = std::mem::take(&mut piece[0]);
            for c in components.pieces()[i].clone() {
                let n = components.size(c);
                let (part, after) = std::mem::take(&mut rest).split_at_mut(n * width);
                work(self.block(c), n, part);
                rest = after;
            }
        });
        components.scatter(&own, x);
    }

    /// A ← ΛᵀAΛ (or ΛAΛᵀ) of a symmetric A, Λ with the T of every factor.
    pub(super) fn congruent(&mut self, layout: &Layout, t: &[Vec<f64>], transposed: bool) {
        let components = self.components.clone();
        self.for_each(&|c, block| {
            let n = components.size(c);
            let scale = |block: &mut [f64]| {
                parallel::for_each_piece(block, n, 16, &|_, column| {
                    scale_column(&components, c, layout, t, transposed, column);
                });
            };
            scale(block);
            transpose(block, n);
            scale(block);
        });
    }

    /// A ← A + I; its trace in every component.
    pub(super) fn add_identity(&mut self) -> Vec<f64> {
        let components = self.components.clone();
        let of = |c: usize| {
            let diagonal = self.values[components.square(c)].iter_mut().step_by(components.size(c) + 1);
            diagonal.fold(0.0, |sum, x| {
                *x += 1.0;
                sum + *x
            })
        };
        (0..components.count()).map(of).collect()
    }

    /// A ← its lower Cholesky factor; false if it is not positive definite.
    pub(super) fn cholesky(&mut self) -> bool {
        let (components, failed) = (self.components.clone(), AtomicBool::new(false));
        self.for_each(&|c, block| {
            let n = components.size(c);
            let done = if n <= SMALL { small::cholesky(block, n) } else { linalg::cholesky(block, n) };
            if !done {
                failed.store(true, Ordering::Relaxed);
            }
        });
        !failed.into_inner()
    }

    /// Σ log of the diagonal.
    pub(super) fn log_diagonal(&self) -> f64 {
        let components = &self.components;
        let of = |c: usize| self.block(c).iter().step_by(components.size(c) + 1).map(|x| x.ln()).sum::<f64>();
        let leaf = |i: usize| components.pieces()[i].clone().map(of).sum::<f64>();
        parallel::reduce(components.pieces().len(), 4, &leaf, &|a, b| a + b).unwrap_or(0.0)
    }

    /// (LLᵀ)⁻¹ of a Cholesky factor.
    pub(super) fn inverse_of_factor(&self) -> Self {
        let mut out = self.clone();
        out.for_each(&|c, block| {
            let n = self.components.size(c);
            let l = self.block(c);
            if n > SMALL {
                block.copy_from_slice(&linalg::inverse_of_factor(l, n));
                return;
            }
            block.fill(0.0);
            for (j, column) in block.chunks_exact_mut(n).enumerate() {
                column[j] = 1.0;
                small::forward(l, n, column);
                small::backward(l, n, column);
            }
            linalg::mirror(block, n);
        });
        out
    }

    /// x ← L⁻¹x, or L⁻ᵀx.
    pub(super) fn solve_lower(&self, transposed: bool, x: &mut [f64]) {
        self.apply(x, &|l, n, x| match (n <= SMALL, transposed) {
            (false, _) => linalg::solve_lower(l, n, transposed, x),
            (true, false) => x.chunks_exact_mut(n).for_each(|x| small::forward(l, n, x)),
            (true, true) => x.chunks_exact_mut(n).for_each(|x| small::backward(l, n, x)),
        });
    }

    /// z ← z + Ax.
    pub(super) fn add_times(&self, x: &[f64], z: &mut [f64]) {
        if self.components.count() == 1 {
            add_times(&self.values, self.components.columns(), x, z);
            return;
        }
        let mut product = x.to_vec();
        self.apply(&mut product, &|a, n, x| {
            if let ([a], [x]) = (a, &mut *x) {
                *x *= a;
                return;
            }
            let mut out = vec![0.0; x.len()];
            add_times(a, n, x, &mut out);
            x.copy_from_slice(&out);
        });
        z.iter_mut().zip(&product).for_each(|(z, x)| *z += x);
    }
}

/// z ← z + Ax of an n × n matrix.
pub(super) fn add_times(a: &[f64], n: usize, x: &[f64], z: &mut [f64]) {
    if n > SMALL {
        linalg::add_square_times(a, n, false, x, z);
        return;
    }
    for (x, z) in x.chunks_exact(n.max(1)).zip(z.chunks_exact_mut(n.max(1))) {
        for (x, a) in x.iter().zip(a.chunks_exact(n)) {
            z.iter_mut().zip(a).for_each(|(z, a)| *z += a * x);
        }
    }
}

/// x ← Tx, or Tᵀx, for every level of a factor.
fn scale_levels(t: &[f64], k: usize, transposed: bool, x: &mut [f64]) {
    if k == 1 {
        x.iter_mut().for_each(|x| *x *= t[0]);
        return;
    }
    let mut old = vec![0.0; k];
    for x in x.chunks_exact_mut(k) {
        old.copy_from_slice(x);
        for i in 0..k {
            let at = |l: usize| if transposed { t[i * k + l] } else { t[l * k + i] };
            x[i] = (0..k).map(|l| at(l) * old[l]).sum();
        }
    }
}

/// x ← Λ₂x, or Λ₂ᵀx, for a component's column.
pub(super) fn scale_column(
    components: &Components,
    c: usize,
    layout: &Layout,
    t: &[Vec<f64>],
    transposed: bool,
    x: &mut [f64],
) {
    for (f, (factor, t)) in layout.factors.iter().zip(t).enumerate().skip(1) {
        scale_levels(t, factor.effects, transposed, &mut x[components.part(c, f)]);
    }
}

/// x ← Λ₂x, or Λ₂ᵀx, for the columns of a q₂ × anything matrix.
pub(super) fn scale(layout: &Layout, t: &[Vec<f64>], transposed: bool, x: &mut [f64]) {
    let before = layout.factors[0].columns();
    parallel::for_each_piece(x, layout.rest(), 16, &|_, x| {
        for (factor, t) in layout.factors.iter().zip(t).skip(1) {
            let part = &mut x[factor.start - before..][..factor.columns()];
            scale_levels(t, factor.effects, transposed, part);
        }
    });
}

/// A ← Aᵀ, tile by tile.
pub(super) fn transpose(a: &mut [f64], dim: usize) {
    const TILE: usize = 16;
    for j0 in (0..dim).step_by(TILE) {
        for i0 in (j0..dim).step_by(TILE) {
            for j in j0..(j0 + TILE).min(dim) {
                for i in i0.max(j + 1)..(i0 + TILE).min(dim) {
                    a.swap(i * dim + j, j * dim + i);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::chart::Frame;
    use super::super::derivatives::{Derivatives, directions, traces};
    use super::super::limit::sum_of_squares;
    use super::super::moments::Moments;
    use super::super::point::{Criterion, Point};
    use super::super::proof::perturbation;
    use super::super::sample::{Noise, with_codes};
    use super::super::search::Place;
    use super::super::statistics::Statistics;
    use super::super::{deviation_len, deviations, fit, modes};
    use super::*;

    /// The same statistics with all columns of Z₂ in one component.
    fn joined(s: &Statistics) -> Statistics {
        let pairs: Vec<(u32, u32)> = (1..s.layout.rest() as u32).map(|i| (0, i)).collect();
        let components = Arc::new(Components::new(&s.layout, &s.offsets, &s.columns, &pairs));
        assert_eq!(components.count(), 1);
        let mut rest = Blocks::zeros(&components);
        for c in 0..s.components.count() {
            let members = s.components.members(c).iter().map(|&i| i as usize);
            for (i, j) in members.clone().flat_map(|i| members.clone().map(move |j| (i, j))) {
                rest.set(i, j, s.rest.at(i, j));
            }
        }
        Statistics { components, rest, ..s.clone() }
    }

    /// (name, levels, terms, rows, components, codes): nested factors of two and three levels, with slopes, a level
    /// that no row has, components on both sides of [`SMALL`] with dense and sparse meetings, factors that are crossed
    /// in two halves.
    type Case =
        (&'static str, &'static [usize], &'static [(usize, usize)], usize, usize, fn(&mut Noise) -> Vec<u32>);

    fn below(noise: &mut Noise, most: u32) -> u32 {
        ((noise.next() + 1.0) * 0.5 * f64::from(most)) as u32
    }

    const CASES: [Case; 7] = [
        ("a/b", &[13, 60], &[(0, 1), (1, 1)], 300, 13, |noise| {
            let b = below(noise, 60);
            vec![b % 12, b]
        }),
        ("slopes of a/b", &[13, 48], &[(0, 2), (1, 1)], 300, 13, |noise| {
            let b = below(noise, 48);
            vec![b % 12, b]
        }),
        ("slopes of both", &[12, 36], &[(0, 3), (1, 2), (0, 1)], 400, 12, |noise| {
            let b = below(noise, 36);
            vec![b % 12, b]
        }),
        ("a/b/c", &[5, 20, 80], &[(0, 1), (1, 1), (2, 1)], 400, 5, |noise| {
            let c = below(noise, 80);
            vec![c % 5, c % 20, c]
        }),
        ("a/b/c with slopes", &[3, 24, 96], &[(0, 1), (1, 2), (2, 2)], 600, 3, |noise| {
            let c = below(noise, 96);
            vec![c % 3, c % 24, c]
        }),
        ("a/b/c, few of many meet", &[2, 50, 200], &[(0, 1), (1, 1), (2, 1)], 600, 2, |noise| {
            let c = below(noise, 200);
            vec![c % 2, c % 50, c]
        }),
        ("crossed in two halves", &[60, 40], &[(0, 2), (1, 1)], 700, 2, |noise| {
            let (a, b, half) = (below(noise, 30), below(noise, 20), below(noise, 2));
            vec![2 * a + half, 2 * b + half]
        }),
    ];

    fn near(a: &[f64], b: &[f64], sizes: impl Fn(usize) -> f64, what: &str) {
        assert_eq!(a.len(), b.len(), "{what}");
        for (i, (x, y)) in a.iter().zip(b).enumerate() {
            assert!((x - y).abs() <= 1e-10 * sizes(i), "{what} {i}: {x} {y}");
        }
    }

    /// Blocks and one dense matrix: value, gradient, Hessian and Q at infinity agree, with scales on both sides of
    /// where the form of R changes, for all factors and for some.
    #[test]
    fn components_are_one_dense_block() {
        let mut noise = Noise(17);
        for (name, levels, terms, rows, count, codes) in CASES {
            let s = with_codes(levels, terms, rows, &mut noise, &codes);
            let one = joined(&s);
            assert_eq!(s.components.count(), count, "{name}");
            for (criterion, scales) in [Criterion::Reml, Criterion::Ml]
                .into_iter()
                .flat_map(|c| [[0.05, 0.05], [1.0, 1.0], [5.0, 5.0], [0.05, 4.0]].map(|s| (c, s)))
            {
                let frames: Vec<Frame> = terms
                    .iter()
                    .map(|&(f, k)| {
                        let scale = scales[f % 2];
                        let mut w: Vec<f64> = (0..k * k).map(|_| 0.4 * scale * noise.next()).collect();
                        (0..k).for_each(|i| w[i * (k + 1)] += scale);
                        Frame { k, rank: k, w }
                    })
                    .collect();
                let at = |s: &Statistics| {
                    let place = Place::at(s, criterion, frames.clone()).unwrap();
                    let directions = directions(s, &frames);
                    let derivatives = Derivatives::new(&place.point, &place.slopes, &directions);
                    let e = traces(&Moments::new(&place.point, &place.slopes), &directions);
                    let (value, m) = (place.point.value, place.point.freedom());
                    (value, derivatives.hessian(&e), derivatives, e, m)
                };
                let (value, hessian, found, e, m) = at(&s);
                let (other, other_hessian, reference, ..) = at(&one);
                let what = format!("{name} {criterion:?} {scales:?}");
                near(&[value], &[other], |_| other.abs(), &what);
                let d = found.gradient.len();
                let trace = |i: usize| reference.gradient[i].abs() + 2.0 * m * reference.q1[i].abs();
                near(&found.gradient, &reference.gradient, trace, &what);
                let own = |i: usize| e[i * (d + 1)] + m * reference.q2[i * (d + 1)];
                let both = |i: usize| (own(i % d) * own(i / d)).sqrt();
                near(&hessian, &other_hessian, both, &what);
            }
            if terms.len() == 2 && terms.iter().all(|t| t.1 == 1) {
                for ratios in [[f64::INFINITY, 0.3], [0.3, f64::INFINITY], [f64::INFINITY; 2]] {
                    let (found, reference) = (sum_of_squares(&s, &ratios), sum_of_squares(&one, &ratios));
                    match (found, reference) {
                        (Some(a), Some(b)) => near(&[a.0], &[b.0], |_| b.0, name),
                        // the columns of one block are fewer combinations of each other than its components have
                        _ => assert!(ratios == [f64::INFINITY; 2] && found.is_some(), "{name}"),
                    }
                }
            }
        }
    }

    /// R1: the factor of S has the rounding of its largest block, not of all columns together, and it grows with S.
    #[test]
    fn rounding_is_that_of_the_blocks() {
        let (_, levels, terms, rows, _, codes) = CASES[0];
        let s = with_codes(levels, terms, rows, &mut Noise(5), &codes);
        let one = joined(&s);
        let at = |s: &Statistics, t: f64| {
            perturbation(&Point::new(s, Criterion::Reml, &[vec![t], vec![0.1]]).unwrap())
        };
        assert!(at(&s, 1e6) > 10.0 * at(&s, 1.0) && at(&one, 1e6) > 5.0 * at(&s, 1e6));
    }

    /// So do what is reported of a fit and draws of the effects.
    #[test]
    fn effects_of_components_are_those_of_one_dense_block() {
        let mut noise = Noise(18);
        for (name, levels, terms, rows, _, codes) in CASES {
            let s = with_codes(levels, terms, rows, &mut noise, &codes);
            let one = joined(&s);
            let found = fit(&s, Criterion::Reml).unwrap();
            let reference = fit(&one, Criterion::Reml).unwrap();
            near(&[found.value], &[reference.value], |_| found.value.abs(), name);
            let pairs = modes(&s, &found).unwrap().into_iter().zip(modes(&one, &found).unwrap());
            for (own, other) in pairs {
                let size = |x: &[f64]| x.iter().fold(0.0f64, |most, x| most.max(x.abs()));
                for (own, other) in [
                    (&own.means, &other.means),
                    (&own.variances, &other.variances),
                    (&own.given_fixed, &other.given_fixed),
                    (&own.with_fixed, &other.with_fixed),
                ] {
                    near(own, other, |_| size(other), name);
                }
            }
            let normals: Vec<f64> = (0..2 * deviation_len(&s)).map(|_| noise.next()).collect();
            let (own, other) = (deviations(&s, &found, &normals), deviations(&one, &found, &normals));
            near(&own.unwrap(), &other.unwrap(), |_| 1.0, name);
        }
    }

    /// Columns belong together if they meet in a row, or a common level of factor 1.
    #[test]
    fn components_are_those_of_common_levels() {
        // two factors beside the first: 0 and 1 of the second meet level 5 of the first, 1 and 2 meet no common level
        let rows = [[0, 0, 0], [5, 0, 0], [5, 1, 0], [3, 2, 1], [4, 3, 1], [1, 1, 0], [2, 0, 0]];
        let next = std::cell::Cell::new(0);
        let codes = |_: &mut Noise| {
            next.set(next.get() + 1);
            rows[(next.get() - 1) % rows.len()].to_vec()
        };
        let terms = [(0, 1), (1, 1), (2, 2)];
        let s = with_codes(&[7, 5, 2], &terms, 70, &mut Noise(1), &codes);
        let members: Vec<Vec<u32>> =
            (0..s.components.count()).map(|c| s.components.members(c).to_vec()).collect();
        // the factor with two effects comes after that with five levels; level 4 of it is in no row
        assert_eq!(members, [vec![0, 1, 5, 6], vec![2, 3, 7, 8], vec![4]]);
        assert_eq!(s.components.levels(0), [0, 1, 2, 5]);
        assert_eq!(s.components.levels(1), [3, 4]);
        assert_eq!((s.components.used(), s.components.run(6).0), (2, super::super::components::NOWHERE));
        assert_eq!(s.components.part(1, 2), 2..4);
        let x: Vec<f64> = (0..18).map(f64::from).collect();
        let gathered = s.components.gather(&x);
        assert_eq!(gathered[..8], [0.0, 1.0, 5.0, 6.0, 9.0, 10.0, 14.0, 15.0]);
        let mut back = vec![0.0; 18];
        s.components.scatter(&gathered, &mut back);
        assert_eq!(back, x);
    }
}
