//! Hierarchical generalised linear models with given scales: global coefficients θ with a Gaussian prior, and for every
//! level of every grouping factor a block of its own coefficients.
//!
//! The joint precision is sparse (A7: strongly log-concave), so the best Gaussian over *all* Gaussians lies in the
//! ancestor pattern of its elimination tree (Proposition I): an arrow for one factor, a deeper tree for nested ones,
//! paths as wide as the fill for crossed ones. Everything here is linear in that pattern. The prior terms are rows too:
//! (z − z_outer)²/(2σ²) is a linear-regression row on the path of its block.

mod certificate;
mod layout;
mod solver;
mod sums;
mod target;

pub use layout::{GroupTerm, Latent};

use std::f64::consts::PI;
use std::sync::{Arc, OnceLock};

use certus::{Curvature, Family, Gaussian};

use crate::design::Design;
use crate::error::{Error, InvalidModel, NotFinite};
use crate::expectation::Quadrature;
use crate::forest::Forest;
use crate::newton::dot;
use crate::rows::Failure;
use certus_likelihood::prior::{Precision, Prior};
use certus_likelihood::{Datum, Likelihood, Moments};
use layout::Layout;
use sums::whiten;

/// A hierarchical model. Latents come block by block, the global coefficients first; [`Hierarchical::latents`] says
/// which is which.
pub struct Hierarchical {
    forest: Forest,
    likelihood: Arc<dyn Likelihood>,
    layout: Arc<Layout>,
    latents: Vec<Latent>,
    /// Prior mean (of latents without an outer one) and precision of every latent.
    prior: Vec<(f64, f64)>,
    constant: f64,
    /// Found when first asked for.
    curvature: OnceLock<Option<Curvature>>,
}

/// How large a model is: rows of data, and the numbers, the widest path and the blocks of its pattern.
pub(crate) struct Extent {
    pub(crate) rows: usize,
    pub(crate) stored: usize,
    pub(crate) widest: usize,
    pub(crate) groups: usize,
}

/// Per data row: weighted E φ, E φ′, E φ″(1, x, x²), and the sd of its predictor.
const KEPT: usize = 6;
/// What Gaussians over the latents must have.
const ON_PATTERN: &str = "a factor on the pattern of the model";
/// Nodes whose rows are handled together.
const RUN: usize = 64;

/// An entry of a row: where on the path of its node, and the value.
pub(crate) type Entry = (usize, f64);

impl Hierarchical {
    /// A model with global coefficients for every column of the design (independent `prior`) and the given group terms.
    /// Refused if the pattern needs more than `memory` bytes for one factor and what the solver keeps beside it.
    pub fn new(
        design: Design,
        terms: &[GroupTerm],
        likelihood: Arc<dyn Likelihood>,
        prior: &Prior,
        memory: usize,
    ) -> Result<Self, Error> {
        design.check_numbers()?;
        let (layout, forest, latents) = Layout::new(design, terms, memory)?;
        Self::on_layout(Arc::new(layout), forest, latents, likelihood, prior)
    }

    /// The likelihood.
    pub fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    /// The same data and terms with another likelihood, prior or sds (one list per term): the layout is shared, only
    /// the responses are looked at again.
    pub fn rebuilt(
        &self,
        likelihood: Arc<dyn Likelihood>,
        prior: &Prior,
        sds: &[Vec<f64>],
    ) -> Result<Self, Error> {
        let mut latents = self.latents.clone();
        // the slopes of a term follow each other in every one of its blocks
        let mut left = [].iter();
        for k in 0..latents.len() {
            let Some(t) = latents[k].term else { continue };
            if k == 0 || (latents[k].term, latents[k].level) != (latents[k - 1].term, latents[k - 1].level) {
                let block =
                    latents[k..].iter().take_while(|l| (l.term, l.level) == (Some(t), latents[k].level));
                let sd = sds.get(t).map_or(&[][..], |sd| sd);
                layout::check_sds(t, block.count(), sd)?;
                left = sd.iter();
            }
            latents[k].sd = left.next().copied().unwrap_or(f64::NAN);
        }
        Self::on_layout(self.layout.clone(), self.forest.clone(), latents, likelihood, prior)
    }

    fn on_layout(
        layout: Arc<Layout>,
        forest: Forest,
        latents: Vec<Latent>,
        likelihood: Arc<dyn Likelihood>,
        prior: &Prior,
    ) -> Result<Self, Error> {
        let Precision::Diagonal(precision) = prior.precision() else {
            let required = "independent priors of the global coefficients";
            return Err(InvalidModel::Requires { what: "a hierarchical model", required }.into());
        };
        let globals = latents.iter().filter(|l| l.term.is_none()).count();
        if prior.dim() != globals {
            let (what, found) = ("the prior", prior.dim());
            return Err(InvalidModel::Coefficients { what, expected: globals, found }.into());
        }
        layout.check(|datum| likelihood.reject(datum))?;
        let (mut table, mut constant) = (Vec::with_capacity(latents.len()), prior.constant());
        for latent in &latents {
            table.push(if latent.term.is_none() {
                (prior.mean()[latent.feature], precision[latent.feature])
            } else {
                constant += 0.5 * (2.0 * PI).ln() + latent.sd.ln();
                (0.0, 1.0 / (latent.sd * latent.sd))
            });
        }
        let curvature = OnceLock::new();
        Ok(Self { forest, likelihood, layout, latents, prior: table, constant, curvature })
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.forest.dim()
    }

    /// What every latent is.
    pub fn latents(&self) -> &[Latent] {
        &self.latents
    }

    /// The ancestor pattern the optimum lies in.
    pub fn family(&self) -> Family {
        Family::Pattern(self.forest.tree.clone())
    }

    pub(crate) fn extent(&self) -> Extent {
        let tree = &self.forest.tree;
        let (stored, widest, groups) = (tree.stored(), tree.widest(), tree.nodes().len());
        Extent { rows: self.layout.data.len(), stored, widest, groups }
    }

    /// The prior row of one latent: itself minus its outer latent, with the residual at `mean` and the precision.
    fn prior_row(&self, coordinate: usize, mean: &[f64]) -> ([Entry; 2], f64, f64) {
        let latent = &self.latents[coordinate];
        let (center, precision) = self.prior[coordinate];
        let own = (latent.place, 1.0);
        match latent.outer {
            Some((outer, place)) => ([own, (place, -1.0)], mean[coordinate] - mean[outer], precision),
            None => ([own, (latent.place, 0.0)], mean[coordinate] - center, precision),
        }
    }

    /// Moments of every data row: E φ alone, or all but that.
    fn row_moments(&self, at: At<'_>, values: bool) -> Result<Vec<f64>, Error> {
        let mut rows = vec![0.0; KEPT * self.layout.data.len()];
        let failure = Failure::default();
        self.over_rows(&mut rows, &|node, out| {
            if out.is_empty() {
                return;
            }
            let width = self.forest.nodes()[node].width;
            let (mut path, mut mean) = (Vec::new(), vec![0.0; width]);
            let mut whitened = vec![0.0; width];
            self.forest.path_vector(at.mean, node, &mut mean);
            if let Some(factor) = at.factor {
                path.resize(width * width, 0.0);
                self.forest.path(factor, node, &mut path);
            }
            let first = self.layout.first[node];
            failure.note(self.layout.rows_of(node, |k, entries| {
                let kept = &mut out[KEPT * (k - first)..][..KEPT];
                kept[0] = self.layout.offset[k] + entries.iter().map(|&(i, v)| v * mean[i]).sum::<f64>();
                if at.factor.is_some() {
                    whiten(&path, entries.iter().copied(), &mut whitened);
                    kept[5] = dot(&whitened, &whitened).sqrt();
                }
            }));
        });
        failure.into_result()?;
        let largest = rows.iter().skip(5).step_by(KEPT).fold(0.0_f64, |a, b| a.max(*b));
        if !largest.is_finite() || rows.iter().step_by(KEPT).any(|t| !t.is_finite()) {
            return Err(NotFinite::Quantity { what: "a linear predictor" }.into());
        }
        let (quadrature, likelihood) =
            (Quadrature::within_reason(self.likelihood.strip(), largest)?, &*self.likelihood);
        self.over_rows(&mut rows, &|node, out| {
            for (k, kept) in (self.layout.first[node]..).zip(out.chunks_exact_mut(KEPT)) {
                let (t, sd, datum, v) = (kept[0], kept[5], self.layout.data[k], self.layout.weight[k]);
                if at.factor.is_some() && values {
                    kept[0] = v * quadrature.value(likelihood, t, sd, datum);
                    continue;
                }
                let m = if at.factor.is_none() {
                    self.at_point(t, datum)
                } else {
                    quadrature.slopes(likelihood, t, sd, datum)
                };
                kept[..5].copy_from_slice(&[v * m.e0, v * m.e1, v * m.q0, v * m.q1, v * m.q2]);
            }
        });
        Ok(rows)
    }

    fn at_point(&self, t: f64, datum: Datum) -> Moments {
        let l = &*self.likelihood;
        Moments {
            e0: l.value(t, datum),
            e1: l.first_derivative(t, datum),
            q0: l.second_derivative(t, datum),
            ..Moments::default()
        }
    }

    /// Calls `work(node, its part of out)` for every node, in parallel over fixed runs of nodes.
    fn over_rows(&self, out: &mut [f64], work: &(impl Fn(usize, &mut [f64]) + Sync)) {
        let first = &self.layout.first;
        let nodes = first.len() - 1;
        let mut rest = out;
        let mut jobs = Vec::with_capacity(nodes.div_ceil(RUN));
        for start in (0..nodes).step_by(RUN) {
            let end = (start + RUN).min(nodes);
            let (part, after) = rest.split_at_mut(KEPT * (first[end] - first[start]));
            jobs.push((start..end, part));
            rest = after;
        }
        certus::parallel::for_each_piece(&mut jobs, 1, 1, &|_, job| {
            let (range, part) = &mut job[0];
            let mut rest = &mut **part;
            for node in range.clone() {
                let (own, after) = rest.split_at_mut(KEPT * (first[node + 1] - first[node]));
                work(node, own);
                rest = after;
            }
        });
    }

    /// f(w), exact, but for h; or −log p at a point.
    fn energy(&self, at: At<'_>) -> Result<f64, Error> {
        let rows = self.row_moments(at, true)?;
        let (nodes, first) = (self.forest.nodes(), &self.layout.first);
        let leaf = |run: usize| {
            let mut sum = 0.0;
            for k in run * RUN..((run + 1) * RUN).min(nodes.len()) {
                let (node, width) = (&nodes[k], nodes[k].width);
                sum += rows[KEPT * first[k]..KEPT * first[k + 1]].iter().step_by(KEPT).sum::<f64>();
                let (mut path, mut whitened) = (Vec::new(), vec![0.0; width]);
                if let Some(factor) = at.factor {
                    path.resize(width * width, 0.0);
                    self.forest.path(factor, k, &mut path);
                }
                for coordinate in node.start..node.start + node.size {
                    let (entries, residual, precision) = self.prior_row(coordinate, at.mean);
                    let variance = if at.factor.is_none() {
                        0.0
                    } else {
                        whiten(&path, entries, &mut whitened);
                        dot(&whitened, &whitened)
                    };
                    sum += 0.5 * precision * (residual * residual + variance);
                }
            }
            sum
        };
        let total =
            certus::parallel::reduce(nodes.len().div_ceil(RUN), 1, &leaf, &|a, b| a + b).unwrap_or(0.0);
        Ok(total + self.constant)
    }

    /// f(w) = E[−log p] + h(w), exact to rounding, all constants included.
    pub fn neg_elbo(&self, w: &Gaussian) -> Result<f64, Error> {
        Ok(self.energy(At::of(w))? + w.neg_entropy())
    }
}

/// Where sums over rows are taken: at a Gaussian, or at a point.
#[derive(Clone, Copy)]
struct At<'a> {
    mean: &'a [f64],
    /// The values of C; `None` at a point.
    factor: Option<&'a [f64]>,
}

impl<'a> At<'a> {
    fn of(w: &'a Gaussian) -> Self {
        Self { mean: w.mean(), factor: Some(w.factor().values()) }
    }

    fn point(mean: &'a [f64]) -> Self {
        Self { mean, factor: None }
    }
}
