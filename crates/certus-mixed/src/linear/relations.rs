//! Columns that are combinations of others, as the rows show it exactly: what drops out where variances are infinite
//! (docs/mixed.md, L3). Rounding alone can't tell a combination from a column that is nearly one.

use super::layout::Layout;

/// Roundings by which z − x may vary between rows.
const ROUNDINGS: f64 = 16.0;

/// What all rows so far have in common; kept for one or two terms with one effect each, for which L3 is.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Relations {
    terms: Vec<TermRelations>,
    /// Columns of X that are 1 in every row.
    one: Vec<bool>,
}

#[derive(Debug, Clone, PartialEq)]
struct TermRelations {
    /// True while z is 1 in every row.
    unit: bool,
    /// Per column of X: true while it is the same in all rows of a level.
    constant: Vec<bool>,
    /// x in the first row of every level; NaN before.
    first: Vec<f64>,
    /// Per column of X: true while z − x is the same in every row, up to rounding; what it is, NaN before.
    shifted: Vec<bool>,
    shift: Vec<f64>,
}

impl Relations {
    pub(super) fn new(layout: &Layout) -> Self {
        let scalar = layout.places.len() <= 2 && layout.places.iter().all(|p| p.effects == 1);
        let p = layout.fixed;
        let of = |factor: usize| TermRelations {
            unit: true,
            constant: vec![true; p],
            first: vec![f64::NAN; layout.factors[factor].levels * p],
            shifted: vec![true; p],
            shift: vec![f64::NAN; p],
        };
        let places = layout.places.iter().filter(|_| scalar);
        Self { terms: places.map(|place| of(place.factor)).collect(), one: vec![true; p] }
    }

    /// A row: the level of each factor, z of each term, x.
    pub(super) fn push(&mut self, layout: &Layout, levels: &[u32], z: &[f64], x: &[f64]) {
        let p = layout.fixed;
        for ((own, place), &z) in self.terms.iter_mut().zip(&layout.places).zip(z) {
            let level = levels[layout.factors[place.factor].index] as usize;
            own.unit &= z == 1.0;
            let first = &mut own.first[level * p..][..p];
            for (j, &x) in x.iter().enumerate() {
                own.constant[j] &= first[j].is_nan() || first[j] == x;
                first[j] = x;
                own.shifted[j] &= same_shift(own.shift[j], z - x, z.abs() + x.abs());
                if own.shift[j].is_nan() {
                    own.shift[j] = z - x;
                }
            }
        }
        if !self.terms.is_empty() {
            self.one.iter_mut().zip(x).for_each(|(one, x)| *one &= *x == 1.0);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (own, other) in self.terms.iter_mut().zip(&other.terms) {
            own.unit &= other.unit;
            let p = own.constant.len();
            for (e, (a, b)) in own.first.iter_mut().zip(&other.first).enumerate() {
                own.constant[e % p] &= other.constant[e % p] && (a.is_nan() || b.is_nan() || a == b);
                *a = if a.is_nan() { *b } else { *a };
            }
            for j in 0..p {
                let size = own.shift[j].abs() + other.shift[j].abs();
                own.shifted[j] &= other.shifted[j] && same_shift(own.shift[j], other.shift[j], size);
                own.shift[j] = if own.shift[j].is_nan() { other.shift[j] } else { own.shift[j] };
            }
        }
        self.one.iter_mut().zip(&other.one).for_each(|(a, b)| *a &= b);
    }

    /// Columns of X that are combinations of the effects of the terms in `infinite` (and of 1, if that is a column):
    /// constant in every level of a term with z = 1, or z up to a constant.
    pub(super) fn of_fixed(&self, infinite: &[bool]) -> usize {
        let has_one = self.one.contains(&true);
        let is = |own: &TermRelations, j: usize| {
            (own.unit && own.constant[j])
                || (own.shifted[j] && !self.one[j] && (has_one || own.shift[j] == 0.0))
        };
        let terms = || self.terms.iter().zip(infinite).filter(|(_, infinite)| **infinite);
        (0..self.one.len()).filter(|&j| terms().any(|(own, _)| is(own, j))).count()
    }

    /// True if z is 1 in every row, of every term.
    pub(super) fn intercepts(&self) -> bool {
        !self.terms.is_empty() && self.terms.iter().all(|own| own.unit)
    }
}

fn same_shift(before: f64, now: f64, size: f64) -> bool {
    before.is_nan()
        || now.is_nan()
        || (now - before).abs() <= ROUNDINGS * f64::EPSILON * (size + before.abs() + now.abs())
}
