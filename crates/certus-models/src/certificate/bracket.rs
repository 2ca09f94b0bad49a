//! The two-sided bracket: once one Gaussian is certified, f* is known from below, and the exact f of any other Gaussian
//! bounds its gap, however far away it is: f(q) − f(ref) ≤ f(q) − f* ≤ f(q) − (f(ref) − bound(ref)).

use std::f64::consts::TAU;

use certus::certificate::{Gap, Statement};
use certus::{Factor, Family, Gaussian, Provenance, linalg};

use super::dense::Dense;
use super::placed::Placed;
use super::row::{CHAIN, Row, gamma};
use crate::error::{Error, InvalidData, Violated};
use crate::expectation::Quadrature;
use crate::glm::Glm;
use crate::rows::{LEAF, Rows, add, over_leaves, own_leaves};
use certus_likelihood::Likelihood;

/// A value of f with a bound on its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// f.
    pub value: f64,
    /// It errs by at most this.
    pub error: f64,
}

/// A certified Gaussian of a model: f* lies in [f(ref) − bound, f(ref)].
#[derive(Clone, Debug)]
pub struct Reference {
    /// The family f* is the optimum of; `None` for all Gaussians.
    over: Option<Family>,
    dim: usize,
    least: f64,
    most: f64,
    provenance: Provenance,
}

impl Reference {
    /// f* lies between these two.
    pub fn interval(&self) -> (f64, f64) {
        (self.least, self.most)
    }
}

/// A model whose f is exact, with the certificate of a Gaussian.
pub trait Certified {
    /// f(w) with its error.
    fn exact_value(&self, w: &Gaussian) -> Result<Value, Error>;
    /// The family that f* is over for w; `None` for all Gaussians.
    fn optimum_over(&self, w: &Gaussian) -> Option<Family>;
    /// How far f(w) is from f*.
    fn certified_gap(&self, w: &Gaussian) -> Result<Gap, Error>;
    /// Every bound on the gap that holds at w, with its theorem; [`Certified::certified_gap`] states the smallest.
    fn gap_bounds(&self, w: &Gaussian) -> Result<Vec<(&'static str, f64)>, Error>;

    /// What a Gaussian, usually the exact solver's, tells about f*; `None` if its own gap is not bounded.
    fn reference(&self, w: &Gaussian) -> Result<Option<Reference>, Error> {
        let (gap, f) = (self.certified_gap(w)?, self.exact_value(w)?);
        let provenance = gap.statement.assumptions().first().map(|a| a.provenance.clone());
        Ok(gap.statement.bound().zip(provenance).map(|(bound, provenance)| Reference {
            over: self.optimum_over(w),
            dim: w.dim(),
            least: f.value - f.error - bound,
            most: f.value + f.error,
            provenance,
        }))
    }

    /// The smaller of w's own bound and the bracket. A reference over all Gaussians speaks for every family, one over a
    /// pattern only for that pattern.
    fn gap_against(&self, w: &Gaussian, reference: &Reference) -> Result<Gap, Error> {
        let (mut gap, f) = (self.certified_gap(w)?, self.exact_value(w)?);
        let speaks = reference.over.as_ref().is_none_or(|family| *family == w.factor().family());
        if reference.dim != w.dim() || !speaks {
            return Ok(gap);
        }
        let bound = f.value + f.error - reference.least;
        if bound < 0.0 {
            return Err(Violated::Reference { value: f.value, least: reference.least }.into());
        }
        let bracket = Statement::by(&reference.provenance, "two-sided bracket", bound, super::ASSUMPTION)
            .with("f", f.value)
            .with("f* at least", reference.least)
            .with("f* at most", reference.most);
        gap.statement = gap.statement.or(bracket);
        Ok(gap)
    }
}

/// Σ E φ over all rows of `source`, of which `rows` are here.
pub(crate) fn losses(
    rows: &[Row],
    source: &dyn Rows,
    likelihood: &dyn Likelihood,
    largest_sd: f64,
    chain: usize,
) -> Result<Value, Error> {
    let quadrature = Quadrature::new(likelihood.strip(), largest_sd);
    let first = own_leaves(source).start;
    let leaf = |index: usize| {
        let part = rows[(index - first) * LEAF..].iter().take(LEAF);
        Ok(losses_of_leaf(part, likelihood, &quadrature, chain).to_vec())
    };
    Ok(total(over_leaves(source, 2, &leaf, &add, &drop)?))
}

/// The same for rows in the frame of a Gaussian.
pub(super) fn losses_of(placed: &Placed<'_>) -> Result<Value, Error> {
    let likelihood = placed.model().likelihood();
    let quadrature = Quadrature::new(likelihood.strip(), placed.largest_sd());
    let sum = placed.sum(2, &|_, rows, _, out| {
        out.copy_from_slice(&losses_of_leaf(rows.iter(), likelihood, &quadrature, CHAIN));
    })?;
    Ok(total(Some(sum)))
}

/// Σ E φ and its error over the rows of a leaf.
fn losses_of_leaf<'a>(
    rows: impl Iterator<Item = &'a Row>,
    likelihood: &dyn Likelihood,
    quadrature: &Quadrature,
    chain: usize,
) -> [f64; 2] {
    rows.fold([0.0, 0.0], |[value, error], row| {
        let m = quadrature.moments(likelihood, row.mean, row.sd, row.datum);
        let size =
            likelihood.scale(row.mean, row.sd, row.datum) * (1.0 + row.mean.abs() + row.sd) + m.e0.abs();
        let own = 1e-13 * size + row.moved(&m) + gamma(chain) * m.e0.abs();
        [value + row.weight * m.e0, error + row.weight * own]
    })
}

fn total(sum: Option<Vec<f64>>) -> Value {
    let (value, error) = sum.map_or((0.0, 0.0), |sum| (sum[0], sum[1]));
    Value { value, error: 1.001 * error }
}

/// h(w) = −log det C − (d/2)(1 + log 2π) from the diagonal of a triangular factor.
pub(crate) fn neg_entropy(diagonal: &[f64]) -> Value {
    const RUN: usize = LEAF;
    let leaf = |run: usize| {
        let part = diagonal[run * RUN..].iter().take(RUN);
        part.fold((0.0, 0.0), |(sum, size), x| (sum - x.ln(), size + 1.0 + x.ln().abs()))
    };
    let add = |a: (f64, f64), b: (f64, f64)| (a.0 + b.0, a.1 + b.1);
    let (sum, size) =
        certus::parallel::reduce(diagonal.len().div_ceil(RUN), 1, &leaf, &add).unwrap_or((0.0, 0.0));
    let constant = 0.5 * diagonal.len() as f64 * (1.0 + TAU.ln());
    Value { value: sum - constant, error: gamma(CHAIN + 8) * (size + constant) }
}

impl Certified for Glm {
    fn exact_value(&self, w: &Gaussian) -> Result<Value, Error> {
        let (d, placed) = (w.dim(), Placed::new(self, w)?);
        let losses = losses_of(&placed)?;
        let (prior, size) = self.prior_energy_with_size(w);
        let entropy = match w.factor() {
            // log det of a matrix within γ|C| of C
            Factor::Symmetric(_) => {
                let (low, high) = linalg::extreme_eigenvalues(w.factor().values(), d)
                    .filter(|(low, _)| *low > 0.0)
                    .ok_or(InvalidData::Indefinite)?;
                let value = w.neg_entropy();
                Value { value, error: gamma(16 * d + 64) * (d as f64 * high / low + value.abs()) }
            }
            _ => neg_entropy(&placed.c.iter().step_by(d + 1).copied().collect::<Vec<_>>()),
        };
        let size = gamma(2 * d + 16) * size + gamma(8) * (losses.value.abs() + entropy.value.abs());
        let value = losses.value + prior + entropy.value;
        Ok(Value { value, error: losses.error + entropy.error + size })
    }

    fn optimum_over(&self, w: &Gaussian) -> Option<Family> {
        Some(w.factor().family()).filter(|family| matches!(family, Family::Pattern(_)))
    }

    fn certified_gap(&self, w: &Gaussian) -> Result<Gap, Error> {
        self.gap(w)
    }

    fn gap_bounds(&self, w: &Gaussian) -> Result<Vec<(&'static str, f64)>, Error> {
        super::all_bounds(&Dense::new(self, w)?)
    }
}
