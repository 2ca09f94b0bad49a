//! Factors and terms of a linear mixed model, and where their columns are.

use super::error::Error;

/// Correlated effects of the levels of one factor. Several terms of one factor are independent of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The grouping factor, an index into [`Design::levels`].
    pub factor: usize,
    /// k, effects per level.
    pub effects: usize,
}

/// The shape of a linear mixed model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Design {
    /// Levels of each grouping factor.
    pub levels: Vec<usize>,
    /// The terms, in the order in which rows list their effects.
    pub terms: Vec<Term>,
    /// p, fixed effects.
    pub fixed: usize,
}

/// A factor as the engine sees it: the effects of all its terms side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Factor {
    /// Its place in [`Design::levels`].
    pub(super) index: usize,
    pub(super) levels: usize,
    /// k, of all its terms together.
    pub(super) effects: usize,
    /// Its first column of Z.
    pub(super) start: usize,
}

impl Factor {
    pub(super) fn columns(&self) -> usize {
        self.levels * self.effects
    }
}

/// Where a term's effects are within its factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The factor, in the engine's order.
    pub(super) factor: usize,
    /// Its first effect there.
    pub(super) first: usize,
    /// k of the term.
    pub(super) effects: usize,
}

/// The engine's order: the factor with most columns first, because it is eliminated level by level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) factors: Vec<Factor>,
    pub(super) places: Vec<Place>,
    pub(super) fixed: usize,
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
        order.sort_by_key(|&f| std::cmp::Reverse(design.levels[f] * effects[f]));
        let mut factors: Vec<Factor> = Vec::new();
        for &index in &order {
            let start = factors.last().map_or(0, |f| f.start + f.columns());
            factors.push(Factor { index, levels: design.levels[index], effects: effects[index], start });
        }
        let mut used = vec![0; count];
        let mut places = Vec::new();
        for term in &design.terms {
            let factor = order.iter().position(|&f| f == term.factor).expect("every term has a factor");
            places.push(Place { factor, first: used[term.factor], effects: term.effects });
            used[term.factor] += term.effects;
        }
        Ok(Self { factors, places, fixed: design.fixed })
    }

    /// All columns of Z.
    pub(super) fn columns(&self) -> usize {
        self.factors.iter().map(Factor::columns).sum()
    }

    /// q₂, the columns of the factors that are not eliminated.
    pub(super) fn rest(&self) -> usize {
        self.columns() - self.factors[0].columns()
    }

    /// k of the factor that column `c` of Z belongs to.
    pub(super) fn effects_of(&self, c: u32) -> usize {
        let after = self.factors.iter().position(|f| f.start > c as usize).unwrap_or(self.factors.len());
        self.factors[after - 1].effects
    }

    /// The factors' matrices, block diagonal, from those of the terms.
    pub(super) fn blocks(&self, terms: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let mut out: Vec<Vec<f64>> = self.factors.iter().map(|f| vec![0.0; f.effects * f.effects]).collect();
        for (place, term) in self.places.iter().zip(terms) {
            self.embed(place, term, &mut out[place.factor]);
        }
        out
    }

    /// Adds a term's matrix to that of its factor.
    pub(super) fn embed(&self, place: &Place, term: &[f64], out: &mut [f64]) {
        let (k, all) = (place.effects, self.factors[place.factor].effects);
        for j in 0..k {
            for i in 0..k {
                out[(place.first + j) * all + place.first + i] += term[j * k + i];
            }
        }
    }

    /// A term's part of its factor's matrix.
    pub(super) fn part(&self, place: &Place, matrix: &[f64]) -> Vec<f64> {
        let (k, all) = (place.effects, self.factors[place.factor].effects);
        let at = |i: usize, j: usize| matrix[(place.first + j) * all + place.first + i];
        (0..k * k).map(|e| at(e % k, e / k)).collect()
    }
}
