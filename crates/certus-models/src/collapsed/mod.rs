//! Models with one effect per group whose sd is not known: every group is integrated out, exactly but for a proved error (docs/collapsed.md).
//!
//! With t_i = x_iβ + offset_i and the effect v_g = σu of row i's group times z_i (1, or a column), the collapsed log likelihood is
//! ℓ(β, σ) = Σ_g log ∫ Π_{i∈g} p(y_i | t_i + σ z_i u) N(u) du. F(β, θ) = −ℓ(β, e^θ) − log prior(β). For fixed σ, F is convex in β (Prékopa).
//!
//! Derivatives are expectations over the posterior of u: with φ_i′ at t_i + σ z_i u,
//!
//! ```text
//! ∂F/∂β = Σ x_i E φ_i′,      ∂²F/∂β² = Σ x_i x_iᵀ E φ_i″ − Σ_g Cov(Σ x_i φ_i′),
//! ∂F/∂θ = Σ_g (1 − E u²),    ∂²F/∂θ² = Σ_g (2 E u² − Var u²),    ∂²F/∂β∂θ = Σ_g Cov(Σ x_i φ_i′, u²),
//! ```
//!
//! the last three because θ enters through N(v; 0, σ²) alone once v = σu is integrated over.

mod confirm;
mod curvature;
mod derivatives;
mod effects;
mod estimate;
mod exclude;
mod group;
mod mixture;
mod pair;
mod passes;
mod posterior;
mod search;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use certus::linalg;

pub use confirm::Confirmed;
pub(crate) use confirm::differ;
pub(crate) use curvature::{RADIUS, least_relative};
pub use effects::Effect;
pub use effects::quantile;
pub use estimate::{Estimate, Interval};
pub use exclude::Excluded;
pub(crate) use exclude::{is_excluded, sweep};
pub use mixture::{Mixture, Node};
pub(crate) use mixture::{add_line, weights};
pub use pair::{CollapsedPair, PairAt, PairEffect, PairEstimate};
pub use passes::{Observer, Pass, Stage};
pub(crate) use posterior::Alone;
pub use posterior::{AGREE, SdPrior};
pub use search::Maximum;

use crate::design::Design;
use crate::error::Error;
use crate::likelihood::{Datum, Likelihood, add_exactly};
use crate::prior::Prior;
use crate::rows::leaves;
use curvature::Curvature;
use derivatives::Derivatives;
pub(crate) use group::ROUNDING;
use group::{EPSILON, GroupRows, Nodes};

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
pub(crate) struct Ask<'a> {
    pub(crate) order: Order,
    /// The relative error of a group's integral to aim at.
    pub(crate) epsilon: f64,
    /// Whether the gradient's errors are wanted; they are infinite if not.
    pub(crate) slope_errors: bool,
    /// L and r, if a lower bound of the Hessian near β is wanted, too (Lemma K4).
    pub(crate) metric: Option<(&'a [f64], f64)>,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self { order: Order::Second, epsilon: EPSILON, slope_errors: false, metric: None }
    }
}

/// F at (β, θ).
#[derive(Clone, Debug)]
pub struct At {
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

/// The predictors of a group's rows, the sizes of their terms, and the steps of its effect.
#[derive(Default)]
struct Predictors {
    t: Vec<f64>,
    reach: Vec<f64>,
    s: Vec<f64>,
}

/// Sums over groups: ℓ, what was rounded away of it, error, Σ|log I|, then the gradient, its error and the Hessian.
struct Sums {
    log: f64,
    low: f64,
    error: f64,
    size: f64,
    derivatives: Vec<f64>,
    least_hessian: Vec<f64>,
}

impl Sums {
    fn add(mut self, other: Self) -> Self {
        add_exactly(&mut self.log, &mut self.low, other.log);
        self.low += other.low;
        self.error += other.error;
        self.size += other.size;
        self.derivatives.iter_mut().zip(&other.derivatives).for_each(|(x, y)| *x += y);
        self.least_hessian.iter_mut().zip(&other.least_hessian).for_each(|(x, y)| *x += y);
        self
    }
}

impl Collapsed {
    /// The rows of a design, the group of every row, and the column of the design that varies by group (`None`: the intercept, or 1).
    pub fn new(
        design: &Design,
        group: &[usize],
        effect: Option<usize>,
        likelihood: Arc<dyn Likelihood>,
        prior: Prior,
    ) -> Result<Self, Error> {
        let (n, dim) = (design.rows().len(), design.dim());
        if group.len() != n {
            return Err(Error::Data(format!("{n} rows, but {} group codes", group.len())));
        }
        if prior.dim() != dim {
            return Err(Error::Model(format!("{dim} coefficients, but a prior of {}", prior.dim())));
        }
        if let Some(column) = effect.filter(|c| *c >= dim) {
            return Err(Error::Model(format!(
                "there is no column {column} among {dim} that could vary by group"
            )));
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

    /// The same rows with a column more for every level of another factor, 1 in its rows; `group` is what the model was made with.
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

    /// The prior of the coefficients.
    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    /// F at (β, θ).
    pub fn at(&self, beta: &[f64], log_sd: f64, order: Order) -> Result<At, Error> {
        self.evaluate(beta, log_sd, Ask { order, slope_errors: true, ..Ask::default() })
    }

    pub(crate) fn evaluate(&self, beta: &[f64], log_sd: f64, ask: Ask) -> Result<At, Error> {
        let (d, sigma) = (self.dim, log_sd.exp());
        if !sigma.is_finite() || sigma == 0.0 || beta.iter().any(|b| !b.is_finite()) {
            return Err(Error::NotFinite(format!("the group sd is {sigma}, or a coefficient is not finite")));
        }
        let pieces = (self.pieces.len() - 1).div_ceil(self.every);
        let piece = |piece: usize| self.piece(piece * self.every, beta, sigma, ask);
        let sums = certus::parallel::reduce(pieces, 1, &piece, &Sums::add);
        if self.stopped() {
            return Err(Error::Stopped);
        }
        let second = ask.order == Order::Second;
        let Sums { log, low, error, size, mut derivatives, least_hessian } = sums.unwrap_or_else(|| Sums {
            log: 0.0,
            low: 0.0,
            error: 0.0,
            size: 0.0,
            derivatives: vec![0.0; if second { derivatives::length(d) } else { 0 }],
            least_hessian: vec![0.0; if ask.metric.is_some() { d * d } else { 0 }],
        });
        let log = log + low;
        if !log.is_finite() {
            return Err(Error::NotFinite("the likelihood of some group is not finite".into()));
        }
        let centred: Vec<f64> = beta.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; d];
        self.prior.add_precision_times(&centred, &mut pull);
        let energy = 0.5 * linalg::dot(&centred, &pull) + self.prior.constant();
        // the last sums; errors are added up with errors of their own
        let rounding = ROUNDING * (size + energy.abs());
        let mut out = At {
            value: energy - log,
            log_likelihood: log,
            error: (error + rounding) * (1.0 + 1e-9),
            gradient: Vec::new(),
            gradient_error: Vec::new(),
            hessian: Vec::new(),
            least_hessian,
        };
        if second {
            out.hessian = derivatives.split_off(2 * d + 1);
            out.gradient_error = derivatives.split_off(d + 1);
            if !ask.slope_errors {
                out.gradient_error.fill(f64::INFINITY);
            }
            out.gradient = derivatives;
            for j in 0..d {
                out.gradient[j] += pull[j];
                out.gradient_error[j] += ROUNDING * pull[j].abs();
            }
            let mut unit = vec![0.0; d];
            for j in 0..d {
                unit[j] = 1.0;
                self.prior.add_precision_times(&unit, &mut out.hessian[j * (d + 1)..][..d]);
                unit[j] = 0.0;
            }
        }
        Ok(out)
    }

    /// The rows of group g at (β, σ).
    fn group_rows<'a>(
        &'a self,
        g: usize,
        beta: &[f64],
        sigma: f64,
        room: &'a mut Predictors,
    ) -> GroupRows<'a> {
        let range = self.first[g]..self.first[g + 1];
        let Predictors { t, reach, s } = room;
        self.predict(range.clone(), beta, t, reach);
        s.clear();
        s.extend(range.clone().map(|i| sigma * self.effect.get(i).copied().unwrap_or(1.0)));
        let (data, weight) = (&self.data[range.clone()], &self.weight[range]);
        let (likelihood, shift, columns) = (&*self.likelihood, sigma * self.shift, self.dim);
        GroupRows { likelihood, t, reach, s, shift, columns, data, weight }
    }

    /// t_i = x_iβ + offset_i and Σ_j |x_ij β_j| + |offset_i| of some rows.
    fn predict(&self, rows: Range<usize>, beta: &[f64], t: &mut Vec<f64>, reach: &mut Vec<f64>) {
        let d = self.dim;
        t.clear();
        reach.clear();
        for i in rows {
            let (mut sum, mut size) = (0.0, 0.0);
            for (x, b) in self.a[i * d..][..d].iter().zip(beta) {
                let term = x * b;
                sum += term;
                size += term.abs();
            }
            t.push(sum + self.offset[i]);
            reach.push(size + self.offset[i].abs());
        }
    }

    fn stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn piece(&self, piece: usize, beta: &[f64], sigma: f64, ask: Ask) -> Sums {
        let d = self.dim;
        let [mut log, mut low, mut error, mut size] = [0.0; 4];
        let (mut nodes, mut room) = (Nodes::default(), Predictors::default());
        let groups = self.pieces[piece]..self.pieces[piece + 1];
        // the terms of the gradient are added one after the other
        let chain = f64::EPSILON * (self.first[groups.end] - self.first[groups.start]) as f64;
        let mut derivatives = (ask.order == Order::Second).then(|| Derivatives::new(d));
        let mut curvature = ask.metric.map(|(metric, radius)| Curvature::new(d, metric, radius));
        for g in groups {
            // the sums are not used then
            if self.stopped() {
                break;
            }
            let a = &self.a[self.first[g] * d..self.first[g + 1] * d];
            let rows = self.group_rows(g, beta, sigma, &mut room);
            let mut integral = rows.integrate(&mut nodes, ask.epsilon);
            if let Some(derivatives) = &mut derivatives {
                derivatives.add(a, &nodes);
            }
            integral.rounding = match &derivatives {
                Some(derivatives) => rows.rounding(&integral, &nodes, |i| derivatives.mean[i]),
                None => rows.rounding(&integral, &nodes, |i| nodes.mean_slope(i)),
            };
            add_exactly(&mut log, &mut low, integral.log);
            // |log(1 + e)| ≤ e/(1 − e) for the true value over ours
            error +=
                if integral.error < 0.5 { integral.error / (1.0 - integral.error) } else { f64::INFINITY };
            error += integral.rounding;
            size += integral.log.abs();
            if let Some(derivatives) = &mut derivatives {
                for (i, x) in a.chunks_exact(d).enumerate().filter(|_| ask.slope_errors) {
                    let mean = derivatives.mean[i];
                    let own = rows.slope_error(i, &integral, &nodes, mean);
                    derivatives.add_error(x, own + chain * mean.abs());
                }
                if let Some(curvature) = &mut curvature {
                    curvature.add(a, &rows, &integral, &nodes, &derivatives.mean);
                }
            }
        }
        let derivatives = derivatives.map_or(Vec::new(), |all| all.flat());
        let least_hessian = curvature.map_or(Vec::new(), Curvature::sum);
        Sums { log, low, error, size, derivatives, least_hessian }
    }
}
