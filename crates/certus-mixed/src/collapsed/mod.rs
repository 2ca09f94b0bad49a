//! Models with one effect per group whose sd is not known: every group is integrated out, exactly but for a proved
//! error (docs/collapsed.md).
//!
//! With t_i = x_iβ + offset_i and the effect v_g = σu of row i's group times z_i (1, or a column), the collapsed log
//! likelihood is ℓ(β, σ) = Σ_g log ∫ Π_{i∈g} p(y_i | t_i + σ z_i u) N(u) du. F(β, θ) = −ℓ(β, e^θ) − log prior(β). For
//! fixed σ, F is convex in β (Prékopa).
//!
//! Derivatives are expectations over the posterior of u: with φ_i′ at t_i + σ z_i u,
//!
//! ```text
//! ∂F/∂β = Σ x_i E φ_i′,      ∂²F/∂β² = Σ x_i x_iᵀ E φ_i″ − Σ_g Cov(Σ x_i φ_i′),
//! ∂F/∂θ = Σ_g (1 − E u²),    ∂²F/∂θ² = Σ_g (2 E u² − Var u²),    ∂²F/∂β∂θ = Σ_g Cov(Σ x_i φ_i′, u²),
//! ```
//!
//! the last three because θ enters through N(v; 0, σ²) alone once v = σu is integrated over.

pub(crate) mod compensated;
mod confirm;
mod curvature;
mod derivatives;
mod effects;
mod estimate;
mod exclude;
pub(crate) mod group;
mod mixture;
pub(crate) mod nodes;
mod posterior;
mod profile;
mod recalled;
mod search;
mod sums;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use confirm::Confirmed;
pub(crate) use confirm::differ;
pub(crate) use curvature::{RADIUS, least_relative};
pub use effects::Effect;
pub use effects::{quantile, recalled_effects};
pub use estimate::{Estimate, Interval, UNKNOWN};
pub use exclude::Excluded;
pub(crate) use exclude::{is_excluded, sweep};
pub use mixture::{Mixture, Node};
pub(crate) use mixture::{add_line, weights};
pub use posterior::{AGREE, SdPrior};
pub(crate) use posterior::{FARTHEST, LOST, ProfileFit};
pub use search::Maximum;

use certus_likelihood::prior::Prior;
use certus_likelihood::{Datum, Likelihood};
use certus_models::Design;
use certus_models::Error;
use certus_models::error::{InvalidData, InvalidModel};
use certus_models::rows::leaves;
use group::EPSILON;
pub(crate) use group::ROUNDING;
use sums::Predictors;

/// Rows of a piece of work, about: pieces end where groups end, so they depend on the data only.
const PIECE: usize = 1024;

/// A model whose groups are integrated out. A copy shares the rows.
#[derive(Clone)]
pub struct Collapsed {
    likelihood: Arc<dyn Likelihood>,
    prior: Prior,
    dim: usize,
    /// A, row after row, sorted by group.
    a: Arc<Vec<f64>>,
    /// z, or nothing if it is 1 everywhere.
    effect: Arc<Vec<f64>>,
    /// What was added to z.
    shift: f64,
    data: Arc<Vec<Datum>>,
    offset: Arc<Vec<f64>>,
    weight: Arc<Vec<f64>>,
    /// The codes of the groups that have rows.
    codes: Arc<Vec<usize>>,
    /// Where groups begin among the sorted rows, and the number of rows.
    first: Arc<Vec<usize>>,
    /// Where pieces begin among the groups, and the number of groups.
    pieces: Arc<Vec<usize>>,
    /// Only every such piece is looked at.
    every: usize,
    /// The flag of the rows that ends a pass.
    stop: Option<Arc<AtomicBool>>,
}

/// What is computed at (β, θ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// F and the bound on its error.
    Value,
    /// Its derivatives, too.
    Second,
}

/// How F is to be computed.
#[derive(Clone, Copy)]
pub(crate) struct EvaluationOptions<'a> {
    pub(crate) order: Order,
    /// The relative error of a group's integral to aim at.
    pub(crate) epsilon: f64,
    /// Whether the gradient's errors are wanted; they are infinite if not.
    pub(crate) slope_errors: bool,
    /// L and r, if a lower bound of the Hessian near β is wanted, too (Lemma K4).
    pub(crate) metric: Option<(&'a [f64], f64)>,
}

impl Default for EvaluationOptions<'_> {
    fn default() -> Self {
        Self { order: Order::Second, epsilon: EPSILON, slope_errors: false, metric: None }
    }
}

/// F at (β, θ).
#[derive(Clone, Debug)]
pub struct ObjectiveValue {
    /// F.
    pub value: f64,
    /// The log likelihood.
    pub log_likelihood: f64,
    /// Bound on the error of F by quadrature and rounding; infinite where none is proved.
    pub error: f64,
    /// The gradient, θ last.
    pub gradient: Vec<f64>,
    /// Bounds on the errors of the gradient in β.
    pub gradient_error: Vec<f64>,
    /// The Hessian, column-major, θ last.
    pub hessian: Vec<f64>,
    /// A lower bound of the likelihood's Hessian in β near by, where one was asked for.
    least_hessian: Vec<f64>,
}

impl Collapsed {
    /// The rows of a design, the group of every row, and the column of the design that varies by group (`None`: the
    /// intercept, or 1).
    pub fn new(
        design: &Design,
        group: &[usize],
        effect: Option<usize>,
        likelihood: Arc<dyn Likelihood>,
        prior: Prior,
    ) -> Result<Self, Error> {
        let (n, dim) = (design.rows().len(), design.dim());
        if group.len() != n {
            let (what, found) = ("the grouping factor".into(), group.len());
            return Err(InvalidData::Length { what, found, rows: n }.into());
        }
        if prior.dim() != dim {
            let (what, found) = ("the prior", prior.dim());
            return Err(InvalidModel::Coefficients { what, expected: dim, found }.into());
        }
        if let Some(column) = effect.filter(|c| *c >= dim) {
            let (what, coefficients) = ("a group effect", dim);
            return Err(InvalidModel::Index { what, index: column, coefficients }.into());
        }
        design.check_numbers()?;
        design.check_responses(&*likelihood)?;
        let groups = group.iter().max().map_or(0, |g| g + 1);
        // a counting sort: place[i] is where row i goes
        let mut next = vec![0usize; groups + 1];
        group.iter().for_each(|g| next[g + 1] += 1);
        (0..groups).for_each(|g| next[g + 1] += next[g]);
        let mut first = next.clone();
        let place: Vec<usize> = group
            .iter()
            .map(|&g| {
                let at = next[g];
                next[g] += 1;
                at
            })
            .collect();
        let codes = (0..groups).filter(|&g| first[g] < first[g + 1]).collect();
        first.dedup();
        let blank = Datum { y: 0.0, trials: 1.0 };
        let (mut a, mut data) = (vec![0.0; n * dim], vec![blank; n]);
        let (mut offset, mut weight) = (vec![0.0; n], vec![1.0; n]);
        let mut scratch = Vec::new();
        for index in 0..leaves(design.rows()) {
            design.rows().leaf(index, &mut |leaf| {
                design.prepare(leaf, &mut scratch, |leaf| {
                    for i in 0..leaf.data.len() {
                        let at = place[leaf.first + i];
                        (0..dim).for_each(|j| a[at * dim + j] = leaf.a[(i, j)]);
                        (data[at], offset[at], weight[at]) = (leaf.data[i], leaf.offset[i], leaf.weight[i]);
                    }
                });
            })?;
        }
        let effect = effect.map_or(Vec::new(), |column| (0..n).map(|i| a[i * dim + column]).collect());
        let effect = if effect.iter().all(|z| *z == 1.0) { Vec::new() } else { effect };
        let mut pieces = vec![0];
        let mut begun = 0;
        for g in 1..first.len() {
            if first[g] - begun >= PIECE || g + 1 == first.len() {
                pieces.push(g);
                begun = first[g];
            }
        }
        Ok(Self {
            likelihood,
            prior,
            dim,
            a: Arc::new(a),
            effect: Arc::new(effect),
            shift: 0.0,
            data: Arc::new(data),
            offset: Arc::new(offset),
            weight: Arc::new(weight),
            codes: Arc::new(codes),
            first: Arc::new(first),
            pieces: Arc::new(pieces),
            every: 1,
            stop: design.rows().stop().cloned(),
        })
    }

    /// The same rows and prior with another likelihood, whose observations must be legal for it, too.
    pub(crate) fn with_likelihood(&self, likelihood: Arc<dyn Likelihood>) -> Self {
        Self { likelihood, ..self.clone() }
    }

    /// The same rows with another prior.
    pub(crate) fn with_prior(&self, prior: Prior) -> Self {
        Self { prior, ..self.clone() }
    }

    /// The same rows with a column more for every level of another factor, 1 in its rows; `group` is what the model was
    /// made with.
    pub(crate) fn widened(&self, group: &[usize], level: &[usize], levels: usize, prior: Prior) -> Self {
        let (d, wide) = (self.dim, self.dim + levels);
        let mut order: Vec<usize> = (0..group.len()).collect();
        order.sort_by_key(|&i| group[i]);
        let mut a = vec![0.0; group.len() * wide];
        for (at, row) in order.into_iter().enumerate() {
            a[at * wide..][..d].copy_from_slice(&self.a[at * d..][..d]);
            a[at * wide + d + level[row]] = 1.0;
        }
        Self { prior, dim: wide, a: Arc::new(a), ..self.clone() }
    }

    /// Every sixteenth piece of the rows, to begin with; `None` if that would be few.
    fn thinned(&self) -> Option<Self> {
        let every = 16 * self.every;
        (self.pieces.len() > 4 * every).then(|| Self { every, ..self.clone() })
    }

    /// Coefficients.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Groups that have rows.
    pub fn groups(&self) -> usize {
        self.first.len() - 1
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.data.len()
    }

    /// The likelihood of a row.
    pub(crate) fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    /// The prior of the coefficients.
    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    /// F at (β, θ).
    pub fn at(&self, beta: &[f64], log_sd: f64, order: Order) -> Result<ObjectiveValue, Error> {
        self.evaluate(
            beta,
            log_sd,
            EvaluationOptions { order, slope_errors: true, ..EvaluationOptions::default() },
        )
    }

    fn stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}
