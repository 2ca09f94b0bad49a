//! What the Gaussian of the kept effects leaves out of log L: c = log E e^ρ, by importance sampling with common random
//! numbers, component by component (docs/mixed.md, X1 and X2).
//!
//! Draws v come from (1 − η)N(v̂, H⁻¹) + ηN(0, I), stratified and in pairs ±z, so that every weight is at most
//! sup Π I_g/η. The normals z are the same for every value of the parameters: c is a smooth function of them. A
//! component with one kept effect has a trapezoid sum instead (N1), and one without any has c = 0.

use std::f64::consts::TAU;

use certus::diagnostics::psis;
use certus::parallel;
use certus::random::{Purpose, Random};

use super::conditional::{Conditional, Part};
use super::error::Error;
use super::fixed::FixedNodes;
use super::group::GroupView;
use super::integral;
use super::model::CrossedModel;

/// One part in this many of the draws comes from the prior.
const DEFENSIVE: usize = 64;
/// Step and nodes of the trapezoid sum over one kept effect, in standard deviations.
const STEP: f64 = 0.4;
const NODES: usize = 41;
/// A component with a larger effective part of the draws has no tail worth fitting: k̂ of nearly equal weights is
/// noise, and its largest value over many components more so.
const EVEN: f64 = 0.98;
/// The first of the iterations of `Purpose::Estimate` that these draws have.
const ITERATION: u64 = 1 << 45;

/// Normal numbers for S draws of all kept effects.
pub(super) struct Draws {
    /// S.
    pub(super) count: usize,
    /// Draws from the prior, the last ones.
    prior: usize,
    /// One per pair, by columns of the kept factors.
    z: Vec<f64>,
}

impl Draws {
    /// Draws of one of several independent sets.
    pub(super) fn new(model: &CrossedModel, count: usize, seed: u64, set: u64) -> Self {
        let columns = model.layout.columns;
        let mut z = vec![0.0; columns * count / 2];
        if columns > 0 {
            Random::new(seed, Purpose::Estimate, 0).normals(ITERATION + set, 0, columns, &mut z);
        }
        Self { count, prior: (count / DEFENSIVE / 2 * 2).max(2), z }
    }

    /// ±z of a column in draw s.
    fn z(&self, s: usize, column: usize) -> f64 {
        let columns = 2 * self.z.len() / self.count;
        let z = self.z[s / 2 * columns + column];
        if s.is_multiple_of(2) { z } else { -z }
    }
}

/// How one component is integrated over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    None,
    Line,
    Sampled,
}

impl Rule {
    fn of(columns: usize) -> Self {
        match columns {
            0 => Self::None,
            1 => Self::Line,
            _ => Self::Sampled,
        }
    }

    fn draws(self, count: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Line => NODES,
            Self::Sampled => count,
        }
    }
}

/// Logarithms of the weights, relative to the Gaussian approximation, component after component.
pub(super) struct Weights {
    /// None: not sampled; else the log weights of the draws.
    sampled: Vec<Option<Vec<f64>>>,
    /// c of the components that are not sampled.
    lines: f64,
}

/// c and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Summary {
    pub(super) value: f64,
    pub(super) standard_error: f64,
    /// The smallest effective part of the draws.
    pub(super) efficiency: f64,
    /// The largest k̂ among components whose draws are not nearly all effective.
    pub(super) k_hat: Option<f64>,
    /// Components that were sampled.
    pub(super) sampled: usize,
}

impl Conditional<'_> {
    /// The log weights of all draws.
    pub(super) fn weights(&self, draws: &Draws) -> Result<Weights, Error> {
        let model = self.model;
        let rules: Vec<Rule> = model.components.iter().map(|c| Rule::of(c.columns.len())).collect();
        let count = rules.iter().map(|r| r.draws(draws.count)).max().unwrap_or(0);
        let components = model.components.len();
        let base = model.fixed_predictors(&self.parameters[..model.layout.fixed]);
        let mut nodes: Vec<Option<FixedNodes>> = Vec::new();
        nodes.resize_with(model.groups.len(), || None);
        let grain = (256 / (1 + model.rows() / model.groups.len())).max(1);
        parallel::for_each_piece(&mut nodes, 1, grain, &|g, out| {
            if rules[model.groups[g].component] != Rule::None {
                out[0] = FixedNodes::new(&GroupView::new(model, g, &self.t, &self.matrices[0]));
            }
        });
        let mut logs = vec![0.0; count * components];
        parallel::for_each_piece(&mut logs, components, 1, &|s, out| {
            if model.check_stop().is_ok() {
                self.draw(draws, &rules, &base, &nodes, s, out);
            }
        });
        model.check_stop()?;
        let mut weights = Weights { sampled: Vec::new(), lines: 0.0 };
        for (c, rule) in rules.iter().enumerate() {
            let own: Vec<f64> = (0..rule.draws(draws.count)).map(|s| logs[s * components + c]).collect();
            if own.iter().any(|w| !w.is_finite()) {
                return Err(Error::NotFinite { sds: model.layout.sds(&self.parameters) });
            }
            if *rule == Rule::Line {
                weights.lines += log_sum(&own) + (STEP / TAU.sqrt()).ln();
            }
            weights.sampled.push((*rule == Rule::Sampled).then_some(own));
        }
        Ok(weights)
    }

    /// The log weight of draw s in every component.
    fn draw(
        &self,
        draws: &Draws,
        rules: &[Rule],
        base: &[f64],
        nodes: &[Option<FixedNodes>],
        s: usize,
        out: &mut [f64],
    ) {
        let model = self.model;
        let mut v = self.v.clone();
        // the logarithm of what the draw is divided by, without the approximation's value
        let mut divided = vec![0.0; rules.len()];
        for (c, (component, part)) in model.components.iter().zip(&self.parts).enumerate() {
            if s >= rules[c].draws(draws.count) {
                continue;
            }
            let mut x: Vec<f64> = match rules[c] {
                Rule::None => continue,
                Rule::Line => vec![STEP * (s as f64 - (NODES / 2) as f64)],
                Rule::Sampled => component.columns.iter().map(|&j| draws.z(s, j)).collect(),
            };
            let share = draws.prior as f64 / draws.count as f64;
            let from_prior = rules[c] == Rule::Sampled && s >= draws.count - draws.prior;
            let square = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
            let (y, own);
            if from_prior {
                y = square(
                    &part.frame(x.iter().zip(&component.columns).map(|(x, &j)| x - self.v[j]).collect()),
                );
                own = square(&x);
                component.columns.iter().zip(&x).for_each(|(&j, x)| v[j] = *x);
            } else {
                y = square(&x);
                part.unframe(&mut x);
                component.columns.iter().zip(&x).for_each(|(&j, x)| v[j] += x);
                own = component.columns.iter().map(|&j| v[j] * v[j]).sum();
            }
            // the terms of a trapezoid sum are e^{−F} itself
            if rules[c] == Rule::Sampled {
                let (a, b) = ((1.0 - share).ln() - 0.5 * y, share.ln() - part.half_log_h() - 0.5 * own);
                divided[c] = a.max(b) + (-(a - b).abs()).exp().ln_1p();
            }
        }
        let b = model.effects(&self.matrices, &v);
        let mut t = base.to_vec();
        for group in &model.groups {
            if s < rules[group.component].draws(draws.count) {
                group.rows.clone().for_each(|i| t[i] += model.kept_predictor(i, &b));
            }
        }
        out.fill(0.0);
        let mut psi = Vec::new();
        for (g, group) in model.groups.iter().enumerate() {
            if s < rules[group.component].draws(draws.count) {
                let view = GroupView::new(model, g, &t, &self.matrices[0]);
                let fixed = nodes[g].as_ref().and_then(|nodes| nodes.value(&view, &mut psi));
                out[group.component] -= fixed.unwrap_or_else(|| integral::value(&view));
            }
        }
        for (c, (component, part)) in model.components.iter().zip(&self.parts).enumerate() {
            let square: f64 = component.columns.iter().map(|&j| v[j] * v[j]).sum();
            out[c] += part.value - 0.5 * square - divided[c];
        }
    }
}

impl Part {
    /// Lᵀx.
    fn frame(&self, x: Vec<f64>) -> Vec<f64> {
        let d = x.len();
        (0..d).map(|j| (j..d).map(|i| self.factor[j * d + i] * x[i]).sum()).collect()
    }

    /// x ← L⁻ᵀx.
    fn unframe(&self, x: &mut [f64]) {
        certus::linalg::solve_lower(&self.factor, x.len(), true, x);
    }
}

impl Weights {
    /// c.
    pub(super) fn correction(&self) -> f64 {
        let of = |w: &Vec<f64>| log_sum(w) - (w.len() as f64).ln();
        self.lines + self.sampled.iter().flatten().map(of).sum::<f64>()
    }

    /// The weights of independent sets, together.
    pub(super) fn joined(sets: &[Self]) -> Self {
        let components = sets[0].sampled.len();
        let of = |c: usize| {
            sets[0].sampled[c].as_ref()?;
            Some(sets.iter().filter_map(|s| s.sampled[c].as_ref()).flatten().copied().collect())
        };
        Self { sampled: (0..components).map(of).collect(), lines: sets[0].lines }
    }

    /// c with its standard error (pairs are independent of each other), effective draws and k̂.
    pub(super) fn summary(&self) -> Summary {
        let mut variance = 0.0;
        let (mut efficiency, mut k_hat, mut sampled) = (1.0_f64, None::<f64>, 0);
        for logs in self.sampled.iter().flatten() {
            sampled += 1;
            let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let w: Vec<f64> = logs.iter().map(|l| (l - top).exp()).collect();
            let (sum, squares): (f64, f64) = (w.iter().sum(), w.iter().map(|w| w * w).sum());
            let own = sum * sum / squares / w.len() as f64;
            efficiency = efficiency.min(own);
            let pairs: Vec<f64> = w.chunks_exact(2).map(|p| 0.5 * (p[0] + p[1])).collect();
            let mean = sum / w.len() as f64;
            let spread: f64 = pairs.iter().map(|p| (p - mean).powi(2)).sum();
            let n = pairs.len() as f64;
            variance += spread / (n * (n - 1.0)) / (mean * mean);
            if let (true, Some(k)) = (own < EVEN, psis::k_hat(logs)) {
                k_hat = Some(k_hat.map_or(k, |other| other.max(k)));
            }
        }
        let standard_error = variance.sqrt();
        Summary { value: self.correction(), standard_error, efficiency, k_hat, sampled }
    }
}

/// log Σ eˣ.
fn log_sum(x: &[f64]) -> f64 {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + x.iter().map(|x| (x - top).exp()).sum::<f64>().ln()
}
