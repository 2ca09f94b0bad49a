//! N1: log L of nested factors with a bound on its error: outer trapezoid sums of inner ones, component by component
//! (docs/mixed.md).

use std::f64::consts::{PI, TAU};

use certus::parallel;

use super::conditional::Conditional;
use super::error::Error;
use super::inner::Inner;
use super::model::CrossedModel;
use crate::collapsed::group::{GroupRows, Integral};
use crate::collapsed::nodes::Nodes;

/// The relative errors aimed at, of an inner integral and of an outer sum.
const INNER: f64 = 1e-11;
const OUTER: f64 = 1e-11;
/// Where outer sums end, in nats below their top; nodes at most on one side.
const CUT: f64 = 36.0;
const MOST: usize = 400;
/// Rows times nodes of both rules, at most: some seconds.
const BUDGET: f64 = 1e9;
/// Nodes of an inner rule, about, and those of an outer one.
const USUAL: [f64; 2] = [60.0, 60.0];

/// log L at given parameters, and what it is off by quadrature and rounding at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProvedLikelihood {
    /// log L.
    pub log_likelihood: f64,
    /// Bound on its error.
    pub error: f64,
}

/// Theorem N1 at (β, θ): nothing if the levels of a factor are not nested in those of one other factor, both with one
/// effect, if nothing is proved of the likelihood's integrals or its tails grow too fast in the strip (Poisson), or if
/// the sums would take too long.
pub fn proved_likelihood(
    model: &CrossedModel,
    parameters: &[f64],
) -> Result<Option<ProvedLikelihood>, Error> {
    let nested =
        model.layout.factors[0].effects == 1 && model.components.iter().all(|c| c.columns.len() <= 1);
    let bounded = model.likelihood.strip_is_proved() && model.likelihood.strip_loss(0.0).is_some();
    if !nested || !bounded || model.rows() as f64 * USUAL[0] * USUAL[1] > BUDGET {
        return Ok(None);
    }
    let at = Conditional::new(model, Inner::Integral, parameters, None)?;
    let outer = Outer::new(&at);
    let components = model.components.len();
    let leaf = |c: usize| outer.component(c);
    let both = |a: Option<[f64; 2]>, b: Option<[f64; 2]>| a.zip(b).map(|(a, b)| [a[0] + b[0], a[1] + b[1]]);
    let Some(Some([log, error])) = parallel::reduce(components, 1, &leaf, &both) else { return Ok(None) };
    model.check_stop()?;
    // the sum over components
    let error = 1.01 * error + components as f64 * f64::EPSILON * log.abs();
    Ok(error.is_finite().then_some(ProvedLikelihood { log_likelihood: log, error }))
}

struct Outer<'a> {
    at: &'a Conditional<'a>,
    /// Per row: xβ + offset, the sizes of its terms, and what a unit of the kept effect adds.
    base: Vec<f64>,
    reach: Vec<f64>,
    slope: Vec<f64>,
    /// Groups of every component.
    groups: Vec<Vec<usize>>,
}

/// F at a node, and bounds of its error.
struct Value {
    f: f64,
    error: f64,
}

impl<'a> Outer<'a> {
    fn new(at: &'a Conditional<'a>) -> Self {
        let (model, p) = (at.model, at.model.layout.fixed);
        let beta = &at.parameters[..p];
        let one = model.effects(&at.matrices, &vec![1.0; at.v.len()]);
        let rows = 0..model.rows();
        let size = |i: usize| {
            let x = &model.x[i * p..][..p];
            model.offset[i].abs() + x.iter().zip(beta).map(|(x, b)| (x * b).abs()).sum::<f64>()
        };
        let mut groups = vec![Vec::new(); model.components.len()];
        model.groups.iter().enumerate().for_each(|(g, group)| groups[group.component].push(g));
        Self {
            at,
            base: model.fixed_predictors(beta),
            reach: rows.clone().map(size).collect(),
            slope: rows.map(|i| model.kept_predictor(i, &one)).collect(),
            groups,
        }
    }

    /// F = v²/2 + Σ_g f_g at a value of the component's kept effect.
    fn value(&self, c: usize, v: f64) -> Option<Value> {
        let (model, matrix) = (self.at.model, &self.at.matrices[0]);
        let mut out = Value { f: 0.5 * v * v, error: 4.0 * f64::EPSILON * v * v };
        let mut nodes = Nodes::default();
        for &g in &self.groups[c] {
            let range = model.groups[g].rows.clone();
            let t: Vec<f64> = range.clone().map(|i| self.base[i] + self.slope[i] * v).collect();
            let reach: Vec<f64> =
                range.clone().map(|i| self.reach[i] + 4.0 * (self.slope[i] * v).abs()).collect();
            let s: Vec<f64> = range.clone().map(|i| matrix[0] * model.own[i]).collect();
            let rows = GroupRows {
                likelihood: &*model.likelihood,
                t: &t,
                reach: &reach,
                s: &s,
                shift: 0.0,
                columns: model.layout.fixed + 4,
                data: &model.data[range.clone()],
                weight: &model.weight[range],
            };
            let integral: Integral = rows.integrate(&mut nodes, INNER);
            let [rounding, _] = rows.rounding(&integral, &nodes, |i| nodes.mean_slope(i));
            // |log(1 ± e)| ≤ e/(1 − e)
            let part = integral.error / (1.0 - integral.error);
            if !(integral.error < 0.5 && rounding.is_finite()) {
                return None;
            }
            out.f -= integral.log;
            out.error += part + rounding + f64::EPSILON * out.f.abs();
        }
        Some(out)
    }

    /// The height of the strip and the spacing of the outer rule, and the bound on its relative error.
    fn rule(&self, c: usize) -> Option<(f64, f64)> {
        let model = self.at.model;
        let rows = || self.groups[c].iter().flat_map(|&g| model.groups[g].rows.clone());
        let widest = rows().map(|i| self.slope[i].abs()).fold(0.0, f64::max);
        // L(a) = a²/2 + Σ w size g(aσ)
        let exponent = |a: f64| -> Option<f64> {
            let mut sum = 0.5 * a * a;
            for i in rows() {
                let size = model.weight[i] * model.likelihood.strip_size(model.data[i]);
                sum += size * model.likelihood.strip_loss(a * self.slope[i])?;
            }
            Some(sum)
        };
        let wanted = (2.0 / OUTER).ln();
        let mut best: Option<(f64, f64)> = None;
        let most = (2.0 * wanted).sqrt().min(0.97 * PI / widest);
        for k in 0..24 {
            let a = most * 0.85f64.powi(k);
            let Some(lost) = exponent(a).filter(|x| x.is_finite()) else { continue };
            let step = TAU * a / (lost + wanted);
            if best.is_none_or(|(longest, _)| step > longest) {
                best = Some((step, 2.0 * lost.exp() / ((TAU * a / step).exp() - 1.0)));
            }
        }
        best
    }

    /// log ∫ e^{−F(v)} dv/√2π of a component, and a bound of its error.
    fn component(&self, c: usize) -> Option<[f64; 2]> {
        let model = self.at.model;
        let Some(&column) = model.components[c].columns.first() else {
            let value = self.value(c, 0.0)?;
            return Some([-value.f, value.error]);
        };
        let (step, strip) = self.rule(c)?;
        let mode = self.at.v[column];
        let top = self.value(c, mode)?;
        let (mut sum, mut worst, mut beyond) = (1.0, top.error, 0.0);
        for sign in [-1.0, 1.0] {
            let mut last = Value { f: top.f, error: top.error };
            let mut ended = false;
            for k in 1..=MOST {
                let here = self.value(c, mode + sign * step * k as f64)?;
                let term = (top.f - here.f).exp();
                sum += term;
                worst = worst.max(here.error);
                // e^{−F} is log-concave: its terms fall at least as fast from here on
                let ratio = (last.f - here.f + last.error + here.error).exp();
                if here.f - top.f > CUT && ratio < 0.9 {
                    beyond += term * here.error.exp() * ratio / (1.0 - ratio);
                    ended = true;
                    break;
                }
                last = here;
            }
            if !ended {
                return None;
            }
        }
        if strip > 0.5 {
            return None;
        }
        let log = (step * sum).ln() - top.f - 0.5 * TAU.ln();
        let rounding = 1e-13 + 4.0 * f64::EPSILON * (log.abs() + top.f.abs());
        Some([log, worst + beyond * worst.exp() / sum + strip / (1.0 - strip) + rounding])
    }
}
