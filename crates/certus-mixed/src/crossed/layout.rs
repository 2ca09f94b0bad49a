//! Factors and terms of a generalised linear mixed model: which factor is integrated out, where parameters are.

use super::error::Error;
use crate::linear::{Design, Term};

/// Effects per level that are integrated out by a lattice, at most.
pub(super) const MOST: usize = 3;

/// A factor with the effects of all its terms side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Factor {
    /// Its place in [`Design::levels`].
    pub(super) index: usize,
    pub(super) levels: usize,
    /// k, of all its terms together.
    pub(super) effects: usize,
    /// Its first column among those of the kept factors; 0 for the first factor, which is integrated out.
    pub(super) start: usize,
    /// Its first effect among those of the kept factors in a row.
    pub(super) first: usize,
}

/// Where a term's effects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The factor, in the engine's order.
    pub(super) factor: usize,
    /// Its first effect there.
    pub(super) first: usize,
    /// k of the term.
    pub(super) effects: usize,
    /// Where its θ begin among the parameters.
    pub(super) start: usize,
}

/// The engine's order: the factor that is integrated out first, then the kept ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) factors: Vec<Factor>,
    pub(super) places: Vec<Place>,
    /// p.
    pub(super) fixed: usize,
    /// Effects of a row that belong to kept factors.
    pub(super) width: usize,
    /// Columns of the kept factors.
    pub(super) columns: usize,
    /// β and the θ of every term.
    pub(super) parameters: usize,
}

impl Layout {
    pub(super) fn new(design: &Design) -> Result<Self, Error> {
        let count = design.levels.len();
        if design.terms.is_empty() {
            return Err(Error::NoTerm);
        }
        let mut effects = vec![0; count];
        for (t, term) in design.terms.iter().enumerate() {
            if term.factor >= count || term.effects == 0 {
                let Term { factor, effects } = *term;
                return Err(Error::Term { term: t, factor, effects, factors: count });
            }
            effects[term.factor] += term.effects;
        }
        let mut order: Vec<usize> = (0..count).filter(|&f| effects[f] > 0).collect();
        // the factor with most columns among those that can be integrated out
        order.sort_by_key(|&f| (effects[f] > MOST, std::cmp::Reverse(design.levels[f] * effects[f])));
        let (mut start, mut first) = (0, 0);
        let mut factors: Vec<Factor> = Vec::new();
        for (at, &index) in order.iter().enumerate() {
            let (levels, k) = (design.levels[index], effects[index]);
            factors.push(Factor { index, levels, effects: k, start, first });
            if at > 0 {
                start += levels * k;
                first += k;
            }
        }
        let mut used = vec![0; count];
        let mut places = Vec::new();
        let mut parameters = design.fixed;
        for term in &design.terms {
            let factor = order.iter().position(|&f| f == term.factor).expect("every term has a factor");
            let (first, k) = (used[term.factor], term.effects);
            places.push(Place { factor, first, effects: k, start: parameters });
            used[term.factor] += k;
            parameters += k * (k + 1) / 2;
        }
        Ok(Self { factors, places, fixed: design.fixed, width: first, columns: start, parameters })
    }

    /// True if the first factor can be integrated out by a lattice.
    pub(super) fn collapses(&self) -> bool {
        self.factors[0].effects <= MOST
    }

    /// T of every factor, block diagonal, k × k by columns, from the parameters (β, θ): θ of a term is the lower
    /// triangle of its T by columns.
    pub(super) fn matrices(&self, parameters: &[f64]) -> Vec<Vec<f64>> {
        let mut out: Vec<Vec<f64>> = self.factors.iter().map(|f| vec![0.0; f.effects * f.effects]).collect();
        for place in &self.places {
            let all = self.factors[place.factor].effects;
            for (at, (i, j)) in lower(place.effects).enumerate() {
                out[place.factor][(place.first + j) * all + place.first + i] = parameters[place.start + at];
            }
        }
        out
    }

    /// Derivatives in the T of the factors become derivatives in θ.
    pub(super) fn gather(&self, of_matrices: &[Vec<f64>], out: &mut [f64]) {
        for place in &self.places {
            let all = self.factors[place.factor].effects;
            for (at, (i, j)) in lower(place.effects).enumerate() {
                out[place.start + at] = of_matrices[place.factor][(place.first + j) * all + place.first + i];
            }
        }
    }

    /// The T of a term, k × k by columns.
    pub(super) fn term(&self, place: &Place, parameters: &[f64]) -> Vec<f64> {
        let k = place.effects;
        let mut out = vec![0.0; k * k];
        for (at, (i, j)) in lower(k).enumerate() {
            out[j * k + i] = parameters[place.start + at];
        }
        out
    }

    /// Standard deviations of all effects, term by term.
    pub(super) fn sds(&self, parameters: &[f64]) -> Vec<f64> {
        let of = |place: &Place| {
            let (k, t) = (place.effects, self.term(place, parameters));
            (0..k).map(|i| (0..k).map(|j| t[j * k + i].powi(2)).sum::<f64>().sqrt()).collect::<Vec<f64>>()
        };
        self.places.iter().flat_map(of).collect()
    }
}

/// Entries (i, j), i ≥ j, of a lower triangle by columns.
pub(super) fn lower(k: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..k).flat_map(move |j| (j..k).map(move |i| (i, j)))
}
