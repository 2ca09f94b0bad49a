//! Hierarchical generalised linear models with one grouping factor and given scales: θ has a Gaussian prior, every group has its own
//! copy z_g of some coefficients with z_ga ~ N(θ_a, σ_a²), and a row of group g uses z_g where there is one and θ elsewhere.
//!
//! The joint precision is an arrow (A7: strongly log-concave), so the best Gaussian over *all* Gaussians lies in the root-first arrow
//! pattern (Proposition I), and everything here is linear in the number of groups. The prior terms are rows too: (z_ga − θ_a)²/(2σ_a²)
//! is a linear-regression row on the path of its group.

mod solver;
mod sums;
mod target;

pub use solver::ArrowState;

use std::f64::consts::PI;
use std::sync::Arc;

use certus::{Curvature, Family, Gaussian};

use crate::arrow::{Arrow, RUN};
use crate::error::Error;
use crate::expectation::Quadrature;
use crate::likelihood::{Datum, Likelihood, Moments};
use crate::prior::{Precision, Prior};
use sums::{dot, whiten};

/// Data of a hierarchical model, in any row order.
#[derive(Clone, Debug, Default)]
pub struct GroupedRows {
    /// Features, row-major.
    pub x: Vec<f64>,
    /// Number of features.
    pub columns: usize,
    /// Responses.
    pub y: Vec<f64>,
    /// Trials, or empty.
    pub trials: Vec<f64>,
    /// Offsets, or empty.
    pub offset: Vec<f64>,
    /// Weights, or empty.
    pub weight: Vec<f64>,
    /// The group of each row, 0 to (number of groups − 1).
    pub group: Vec<usize>,
}

/// A hierarchical model. Latents are θ (one per feature), then z_0, z_1, … (one block per group).
pub struct Hierarchical {
    arrow: Arrow,
    likelihood: Arc<dyn Likelihood>,
    /// Rows sorted by group: features on the path (w numbers a row), offset, weight, observation.
    paths: Vec<f64>,
    offset: Vec<f64>,
    weight: Vec<f64>,
    data: Vec<Datum>,
    /// Rows `first[g]..first[g + 1]` belong to group g.
    first: Vec<usize>,
    slopes: Vec<usize>,
    group_precision: Vec<f64>,
    root_mean: Vec<f64>,
    root_precision: Vec<f64>,
    constant: f64,
    curvature: Option<Curvature>,
}

/// Per data row: weighted E φ, E φ′, E φ″(1, x, x²), and the sd of its predictor.
const KEPT: usize = 6;

impl Hierarchical {
    /// `slopes` are the features whose coefficient varies by group, `group_sd` their sds, `prior` that of θ (independent).
    pub fn new(
        rows: &GroupedRows,
        slopes: &[usize],
        group_sd: &[f64],
        likelihood: Arc<dyn Likelihood>,
        prior: &Prior,
    ) -> Result<Self, Error> {
        let (n, g, p) = (rows.y.len(), rows.columns, slopes.len());
        let fail = |message: String| Err(Error::Data(message));
        if rows.x.len() != n * g || rows.group.len() != n {
            return fail(format!(
                "{n} responses, but {} feature values and {} group labels",
                rows.x.len(),
                rows.group.len()
            ));
        }
        for (name, part) in [("trials", &rows.trials), ("offset", &rows.offset), ("weight", &rows.weight)] {
            if !part.is_empty() && part.len() != n {
                return fail(format!("{name} has {} entries for {n} rows", part.len()));
            }
        }
        if p == 0 || slopes.iter().any(|&a| a >= g) {
            return Err(Error::Model(format!(
                "the group terms {slopes:?} must name at least one of the {g} features"
            )));
        }
        if group_sd.len() != p || group_sd.iter().any(|s| !(*s > 0.0 && s.is_finite())) {
            return Err(Error::Model(format!(
                "the group sds {group_sd:?} must be {p} finite numbers above 0"
            )));
        }
        let Precision::Diagonal(root_precision) = prior.precision() else {
            return Err(Error::Model("the prior of the global coefficients must be independent".into()));
        };
        if prior.dim() != g {
            return Err(Error::Model(format!("the prior has {} coefficients for {g} features", prior.dim())));
        }
        let groups = rows.group.iter().max().map_or(0, |m| m + 1);
        if groups == 0 {
            return fail("there is no row".into());
        }
        let arrow = Arrow::new(g, p, groups)?;
        let at = |v: &Vec<f64>, i: usize, default: f64| v.get(i).copied().unwrap_or(default);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&i| rows.group[i]); // stable: rows of a group keep their order
        let mut first = vec![0; groups + 1];
        rows.group.iter().for_each(|&k| first[k + 1] += 1);
        (0..groups).for_each(|k| first[k + 1] += first[k]);
        let w = arrow.width();
        let mut paths = vec![0.0; n * w];
        let (mut offset, mut weight, mut data) =
            (Vec::with_capacity(n), Vec::with_capacity(n), Vec::with_capacity(n));
        for (k, &i) in order.iter().enumerate() {
            let (x, path) = (&rows.x[i * g..][..g], &mut paths[k * w..][..w]);
            path[..g].copy_from_slice(x);
            for (a, &j) in slopes.iter().enumerate() {
                path[g + a] = x[j];
                path[j] = 0.0;
            }
            let datum = Datum { y: rows.y[i], trials: at(&rows.trials, i, 1.0) };
            let (o, v) = (at(&rows.offset, i, 0.0), at(&rows.weight, i, 1.0));
            if let Some(reason) = likelihood.reject(datum) {
                return fail(format!("row {i}: {reason}"));
            }
            if x.iter().any(|v| !v.is_finite()) || !o.is_finite() || !(v >= 0.0 && v.is_finite()) {
                return fail(format!("row {i}: a feature, offset or weight is not a finite number"));
            }
            offset.push(o);
            weight.push(v);
            data.push(datum);
        }
        let logs: f64 = group_sd.iter().map(|s| 0.5 * (2.0 * PI).ln() + s.ln()).sum();
        let mut model = Self {
            likelihood,
            paths,
            offset,
            weight,
            data,
            first,
            slopes: slopes.to_vec(),
            group_precision: group_sd.iter().map(|s| 1.0 / (s * s)).collect(),
            root_mean: prior.mean().to_vec(),
            root_precision: root_precision.clone(),
            constant: prior.constant() + groups as f64 * logs,
            arrow,
            curvature: None,
        };
        model.curvature = model.bounds()?;
        Ok(model)
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.arrow.dim()
    }

    /// N(0, I) on the arrow.
    fn origin(&self) -> Gaussian {
        Gaussian::isotropic(vec![0.0; self.dim()], 1.0, &self.family()).expect("a standard normal is proper")
    }

    /// The arrow pattern the optimum lies in.
    pub fn family(&self) -> Family {
        Family::Pattern(self.arrow.tree.clone())
    }

    fn split<'a>(&self, w: &'a Gaussian) -> (&'a [f64], &'a [f64], &'a [f64], &'a [f64]) {
        let (root, panels) = w.factor().values().split_at(self.arrow.root());
        let (globals, groups) = w.mean().split_at(self.arrow.globals);
        (globals, groups, root, panels)
    }

    /// The prior rows of one group: slope a of the group minus its global, as a path with precision.
    fn prior_path(&self, a: usize, path: &mut [f64]) -> f64 {
        path.fill(0.0);
        path[self.slopes[a]] = -1.0;
        path[self.arrow.globals + a] = 1.0;
        self.group_precision[a]
    }

    /// Moments of every data row at w (sd = 0 everywhere if `point`).
    fn row_moments(&self, w: &Gaussian, point: bool) -> Result<Vec<f64>, Error> {
        let (globals, groups, root, panels) = self.split(w);
        let (g, p, width, panel) =
            (self.arrow.globals, self.arrow.size, self.arrow.width(), self.arrow.panel());
        let mut rows = vec![0.0; KEPT * self.data.len()];
        self.over_rows(&mut rows, &|group, out| {
            let mut path = vec![0.0; width * width];
            let mut at = vec![0.0; width];
            if !point {
                self.arrow.path(root, &panels[group * panel..][..panel], &mut path);
            }
            for (k, kept) in (self.first[group]..).zip(out.chunks_exact_mut(KEPT)) {
                let a = &self.paths[k * width..][..width];
                let own = &groups[group * p..][..p];
                kept[0] = self.offset[k] + dot(&a[..g], globals) + dot(&a[g..], own);
                if !point {
                    whiten(&path, a, &mut at);
                    kept[5] = dot(&at, &at).sqrt();
                }
            }
        });
        let largest = rows.iter().skip(5).step_by(KEPT).fold(0.0_f64, |a, b| a.max(*b));
        if !largest.is_finite() || rows.iter().step_by(KEPT).any(|t| !t.is_finite()) {
            return Err(Error::Data("a linear predictor is not finite".into()));
        }
        let quadrature = Quadrature::new(self.likelihood.strip(), largest);
        self.over_rows(&mut rows, &|group, out| {
            for (k, kept) in (self.first[group]..).zip(out.chunks_exact_mut(KEPT)) {
                let (t, datum, v) = (kept[0], self.data[k], self.weight[k]);
                let m = if point {
                    let l = &*self.likelihood;
                    Moments {
                        e0: l.value(t, datum),
                        e1: l.slope(t, datum),
                        q0: l.bend(t, datum),
                        ..Moments::default()
                    }
                } else {
                    quadrature.moments(&*self.likelihood, t, kept[5], datum)
                };
                kept[..5].copy_from_slice(&[v * m.e0, v * m.e1, v * m.q0, v * m.q1, v * m.q2]);
            }
        });
        Ok(rows)
    }

    /// Calls `work(group, its part of out)` for every group, in parallel over fixed runs of groups.
    fn over_rows(&self, out: &mut [f64], work: &(impl Fn(usize, &mut [f64]) + Sync)) {
        let mut rest = out;
        let mut jobs = Vec::with_capacity(self.arrow.groups.div_ceil(RUN));
        for start in (0..self.arrow.groups).step_by(RUN) {
            let end = (start + RUN).min(self.arrow.groups);
            let (part, after) = rest.split_at_mut(KEPT * (self.first[end] - self.first[start]));
            jobs.push((start..end, part));
            rest = after;
        }
        certus::parallel::for_each_piece(&mut jobs, 1, 1, &|_, job| {
            let (range, part) = &mut job[0];
            let mut rest = &mut **part;
            for group in range.clone() {
                let (own, after) = rest.split_at_mut(KEPT * (self.first[group + 1] - self.first[group]));
                work(group, own);
                rest = after;
            }
        });
    }

    /// Visits every row of a group, data and prior, as (path, E φ′, q₀, q₁, q₂).
    fn visit(
        &self,
        group: usize,
        mean: (&[f64], &[f64]),
        rows: &[f64],
        mut row: impl FnMut(&[f64], [f64; 4]),
    ) {
        let (p, width) = (self.arrow.size, self.arrow.width());
        for k in self.first[group]..self.first[group + 1] {
            let kept = &rows[k * KEPT..][..KEPT];
            row(&self.paths[k * width..][..width], [kept[1], kept[2], kept[3], kept[4]]);
        }
        let mut path = vec![0.0; width];
        for a in 0..p {
            let precision = self.prior_path(a, &mut path);
            let residual = mean.1[group * p + a] - mean.0[self.slopes[a]];
            row(&path, [precision * residual, precision, 0.0, precision]);
        }
    }

    /// f(w), exact; or −log p at the mean if `point`.
    fn energy(&self, w: &Gaussian, point: bool) -> Result<f64, Error> {
        let (globals, groups, root, panels) = self.split(w);
        let rows = self.row_moments(w, point)?;
        let (g, p, width, panel) =
            (self.arrow.globals, self.arrow.size, self.arrow.width(), self.arrow.panel());
        let sums = self.arrow.over_groups(&mut vec![0.0; self.arrow.groups], 1, 1, &|first, run, sums| {
            let (mut path, mut a, mut at) = (vec![0.0; width * width], vec![0.0; width], vec![0.0; width]);
            for group in first..first + run.len() {
                let kept = &rows[KEPT * self.first[group]..KEPT * self.first[group + 1]];
                sums[0] += kept.iter().step_by(KEPT).sum::<f64>();
                self.arrow.path(root, &panels[group * panel..][..panel], &mut path);
                for slope in 0..p {
                    let precision = self.prior_path(slope, &mut a);
                    whiten(&path, &a, &mut at);
                    let variance = if point { 0.0 } else { dot(&at, &at) };
                    let residual = groups[group * p + slope] - globals[self.slopes[slope]];
                    sums[0] += 0.5 * precision * (residual * residual + variance);
                }
            }
        });
        let mut total = sums[0] + self.constant;
        for j in 0..g {
            let variance: f64 =
                if point { 0.0 } else { (0..=j).map(|k| root[k * g + j] * root[k * g + j]).sum() };
            total += 0.5 * self.root_precision[j] * ((globals[j] - self.root_mean[j]).powi(2) + variance);
        }
        Ok(if point { total } else { total + w.neg_entropy() })
    }

    /// f(w) = E[−log p] + h(w), exact to rounding, all constants included.
    pub fn neg_elbo(&self, w: &Gaussian) -> Result<f64, Error> {
        self.energy(w, false)
    }
}
