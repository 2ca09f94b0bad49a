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
mod effects;
mod estimate;
mod group;
mod passes;
mod posterior;

use std::sync::Arc;

use certus::linalg;

pub use confirm::Confirmed;
pub use effects::Effect;
pub use estimate::{Estimate, Interval};
pub use passes::{Observer, Pass, Stage};
pub use posterior::{Mixture, Node, SdPrior};

use crate::design::Design;
use crate::error::Error;
use crate::likelihood::{Datum, Likelihood};
use crate::prior::Prior;
use crate::rows::leaves;
use group::{GroupRows, Nodes, ROUNDING};

/// Rows of a piece of work, about: pieces end where groups end, so they depend on the data only.
const PIECE: usize = 1024;

/// A model whose groups are integrated out.
pub struct Collapsed {
    likelihood: Arc<dyn Likelihood>,
    prior: Prior,
    dim: usize,
    /// A, row after row, sorted by group.
    a: Vec<f64>,
    /// z, or nothing if it is 1 everywhere.
    effect: Vec<f64>,
    data: Vec<Datum>,
    offset: Vec<f64>,
    weight: Vec<f64>,
    /// The codes of the groups that have rows.
    codes: Vec<usize>,
    /// Where groups begin among the sorted rows, and the number of rows.
    first: Vec<usize>,
    /// Where pieces begin among the groups, and the number of groups.
    pieces: Vec<usize>,
}

/// What is computed at (β, θ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// F and the bound on its error.
    Value,
    /// Its derivatives, too.
    Second,
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
}

/// Sums over groups: ℓ, error, Σ|terms|, then the gradient, its error and the Hessian.
struct Sums {
    log: f64,
    error: f64,
    size: f64,
    derivatives: Vec<f64>,
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
        Ok(Self { likelihood, prior, dim, a, effect, data, offset, weight, codes, first, pieces })
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
        let (d, sigma) = (self.dim, log_sd.exp());
        if !sigma.is_finite() || sigma == 0.0 || beta.iter().any(|b| !b.is_finite()) {
            return Err(Error::NotFinite(format!("the group sd is {sigma}, or a coefficient is not finite")));
        }
        let sums = certus::parallel::reduce(
            self.pieces.len() - 1,
            1,
            &|piece| self.piece(piece, beta, sigma, order),
            &|mut a, b| {
                (a.log, a.error, a.size) = (a.log + b.log, a.error + b.error, a.size + b.size);
                a.derivatives.iter_mut().zip(&b.derivatives).for_each(|(x, y)| *x += y);
                a
            },
        );
        let length = if order == Order::Second { 2 * d + 1 + (d + 1) * (d + 1) } else { 0 };
        let empty = Sums { log: 0.0, error: 0.0, size: 0.0, derivatives: vec![0.0; length] };
        let Sums { log, error, size, mut derivatives } = sums.unwrap_or(empty);
        if !log.is_finite() {
            return Err(Error::NotFinite("the likelihood of some group is not finite".into()));
        }
        let centred: Vec<f64> = beta.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; d];
        self.prior.add_precision_times(&centred, &mut pull);
        let energy = 0.5 * linalg::dot(&centred, &pull) + self.prior.constant();
        // a few operations per number, sums over pieces in a tree
        let rounding = ROUNDING * (size + energy.abs());
        let mut out = At {
            value: energy - log,
            log_likelihood: log,
            error: error + rounding,
            gradient: Vec::new(),
            gradient_error: Vec::new(),
            hessian: Vec::new(),
        };
        if order == Order::Second {
            out.hessian = derivatives.split_off(2 * d + 1);
            out.gradient_error = derivatives.split_off(d + 1);
            out.gradient = derivatives;
            for j in 0..d {
                out.gradient[j] += pull[j];
                out.gradient_error[j] += ROUNDING * pull[j].abs();
                for i in j + 1..=d {
                    out.hessian[i * (d + 1) + j] = out.hessian[j * (d + 1) + i];
                }
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

    /// The rows of group g at (β, σ); t and s are filled with its predictors and the steps of its effect.
    fn group_rows<'a>(
        &'a self,
        g: usize,
        beta: &[f64],
        sigma: f64,
        t: &'a mut Vec<f64>,
        s: &'a mut Vec<f64>,
    ) -> GroupRows<'a> {
        let (d, range) = (self.dim, self.first[g]..self.first[g + 1]);
        t.clear();
        t.extend(range.clone().map(|i| linalg::dot(&self.a[i * d..][..d], beta) + self.offset[i]));
        s.clear();
        s.extend(range.clone().map(|i| sigma * self.effect.get(i).copied().unwrap_or(1.0)));
        let (data, weight) = (&self.data[range.clone()], &self.weight[range]);
        GroupRows { likelihood: &*self.likelihood, t, s, data, weight }
    }

    fn piece(&self, piece: usize, beta: &[f64], sigma: f64, order: Order) -> Sums {
        let d = self.dim;
        let length = if order == Order::Second { 2 * d + 1 + (d + 1) * (d + 1) } else { 0 };
        let mut sums = Sums { log: 0.0, error: 0.0, size: 0.0, derivatives: vec![0.0; length] };
        let (mut nodes, mut work) = (Nodes::default(), Work::default());
        let (mut t, mut s) = (Vec::new(), Vec::new());
        for g in self.pieces[piece]..self.pieces[piece + 1] {
            let (from, to) = (self.first[g], self.first[g + 1]);
            let rows = self.group_rows(g, beta, sigma, &mut t, &mut s);
            let integral = rows.integrate(&mut nodes);
            sums.log += integral.log;
            // |log(1 + e)| ≤ e/(1 − e) for the true value over ours
            sums.error +=
                if integral.error < 0.5 { integral.error / (1.0 - integral.error) } else { f64::INFINITY };
            sums.size += integral.log.abs() + (0..to - from).map(|i| rows.size(i, &integral)).sum::<f64>();
            if order == Order::Second {
                let slope_error = |i: usize, mean: f64| rows.slope_error(i, &integral, mean);
                self.add_derivatives(from, to, &nodes, &slope_error, &mut work, &mut sums.derivatives);
            }
        }
        sums
    }

    /// Adds what one group adds to the gradient, its error bound, and the lower half of the Hessian.
    fn add_derivatives(
        &self,
        from: usize,
        to: usize,
        nodes: &Nodes,
        slope_error: &dyn Fn(usize, f64) -> f64,
        work: &mut Work,
        out: &mut [f64],
    ) {
        let (d, n, count) = (self.dim, to - from, nodes.u.len());
        let (gradient, rest) = out.split_at_mut(d + 1);
        let (error, hessian) = rest.split_at_mut(d);
        let mean = |x: &[f64]| x.iter().zip(&nodes.p).map(|(x, p)| x * p).sum::<f64>();
        let square = |u: f64| u * u;
        let (mut e2, mut e4) = (0.0, 0.0);
        for (u, p) in nodes.u.iter().zip(&nodes.p) {
            e2 += p * square(*u);
            e4 += p * square(square(*u));
        }
        gradient[d] += 1.0 - e2;
        hessian[d * (d + 1) + d] += 2.0 * e2 - (e4 - e2 * e2);
        // slopes less their means, times √p
        work.spread.resize(n * count, 0.0);
        for i in 0..n {
            let (slope, x) = (&nodes.slope[i * count..][..count], &self.a[(from + i) * d..][..d]);
            let e1 = mean(slope);
            let bend = mean(&nodes.bend[i * count..][..count]);
            let (mut with_square, spread) = (0.0, &mut work.spread[i * count..][..count]);
            for k in 0..count {
                let centred = slope[k] - e1;
                with_square += nodes.p[k] * centred * square(nodes.u[k]);
                spread[k] = centred * nodes.p[k].sqrt();
            }
            let wrong = slope_error(i, e1);
            for j in 0..d {
                gradient[j] += x[j] * e1;
                error[j] += x[j].abs() * wrong;
                hessian[j * (d + 1) + d] += x[j] * with_square;
                let scaled = bend * x[j];
                (j..d).for_each(|k| hessian[j * (d + 1) + k] += scaled * x[k]);
            }
        }
        let rows = &self.a[from * d..to * d];
        if n <= count {
            // Xᵀ(C X) with C the covariance of the slopes
            work.product.clear();
            work.product.resize(n * d, 0.0);
            for i in 0..n {
                for l in 0..=i {
                    let (a, b) = (&work.spread[i * count..][..count], &work.spread[l * count..][..count]);
                    let c = linalg::dot(a, b);
                    for j in 0..d {
                        work.product[i * d + j] += c * rows[l * d + j];
                        if l < i {
                            work.product[l * d + j] += c * rows[i * d + j];
                        }
                    }
                }
            }
            for i in 0..n {
                for j in 0..d {
                    let x = rows[i * d + j];
                    (j..d).for_each(|k| hessian[j * (d + 1) + k] -= x * work.product[i * d + k]);
                }
            }
        } else {
            // a vector per node
            work.product.clear();
            work.product.resize(count * d, 0.0);
            for i in 0..n {
                for k in 0..count {
                    let c = work.spread[i * count + k];
                    (0..d).for_each(|j| work.product[k * d + j] += c * rows[i * d + j]);
                }
            }
            for y in work.product.chunks_exact(d) {
                for j in 0..d {
                    (j..d).for_each(|k| hessian[j * (d + 1) + k] -= y[j] * y[k]);
                }
            }
        }
    }
}

/// Memory reused from group to group.
#[derive(Default)]
struct Work {
    spread: Vec<f64>,
    product: Vec<f64>,
}
