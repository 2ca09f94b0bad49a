//! Conditional modes of all effects at the estimate, and how well the data determine them (docs/mixed.md, X0, X1).

use super::conditional::{Conditional, times_effects};
use super::error::Error;
use super::fit::{CrossedFit, Method};
use super::group::GroupView;
use super::inner::Inner;
use super::mode::Mode;
use super::model::CrossedModel;
use super::points::Points;
use crate::linear::{Modes, small};

/// The joint Gaussian of all effects and β around the estimate, θ given: b − b̂ = J(β − β̂) + own.
pub(super) struct Around<'a> {
    at: Conditional<'a>,
    /// ΛH⁻¹Λᵀ of every component.
    covariances: Vec<Vec<f64>>,
    /// Per group: mean and covariance of u given the kept effects, and how fast the mean falls along them.
    groups: Vec<(Vec<f64>, Vec<f64>, Vec<f64>)>,
    /// J of the kept effects, coefficient after coefficient, and of u of every group (k each).
    kept: Vec<Vec<f64>>,
    own: Vec<Vec<f64>>,
}

impl<'a> Around<'a> {
    pub(super) fn new(model: &'a CrossedModel, fit: &CrossedFit) -> Result<Self, Error> {
        let inner = match fit.method {
            Method::Laplace => Inner::Mode,
            Method::Corrected(_) => Inner::Integral,
        };
        Self::at(Conditional::new(model, inner, &fit.parameters, None)?)
    }

    fn at(at: Conditional<'a>) -> Result<Self, Error> {
        let (model, inner) = (at.model, at.inner);
        let mut covariances = Vec::new();
        for (component, part) in model.components.iter().zip(&at.parts) {
            let d = component.columns.len();
            let mut covariance = part.inverse();
            times_effects(model, component, &at.matrices, &mut covariance, true);
            let mut turned = vec![0.0; d * d];
            for j in 0..d {
                (0..d).for_each(|i| turned[j * d + i] = covariance[i * d + j]);
            }
            times_effects(model, component, &at.matrices, &mut turned, true);
            covariances.push(turned);
        }
        let view = |g: usize| GroupView::new(model, g, &at.t, &at.matrices[0]);
        let groups = (0..model.groups.len()).map(|g| own(&view(g), inner)).collect();
        let (mut kept, mut of_groups) = (Vec::new(), Vec::new());
        let (n, p, k) = (model.rows(), model.layout.fixed, model.layout.factors[0].effects);
        for j in 0..p {
            // dv = −H⁻¹ΛᵀZᵀ𝒲x, db = Λdv, du along x + z db
            let x: Vec<f64> = (0..n).map(|i| model.x[i * p + j]).collect();
            let mut moved = vec![0.0; n];
            for (g, group) in model.groups.iter().enumerate() {
                moved[group.rows.clone()]
                    .copy_from_slice(&inner.along(&view(g), &x[group.rows.clone()]).rows);
            }
            let mut dv = model.scatter(&at.matrices, &moved);
            for (component, part) in model.components.iter().zip(&at.parts) {
                let mut own: Vec<f64> = component.columns.iter().map(|&c| -dv[c]).collect();
                part.solve(&mut own);
                component.columns.iter().zip(own).for_each(|(&c, x)| dv[c] = x);
            }
            let db = model.effects(&at.matrices, &dv);
            let delta: Vec<f64> = (0..n).map(|i| x[i] + model.kept_predictor(i, &db)).collect();
            let mut du = vec![0.0; model.groups.len() * k];
            for (g, group) in model.groups.iter().enumerate() {
                du[g * k..][..k].copy_from_slice(&falls(&view(g), inner, &delta[group.rows.clone()]));
            }
            du.iter_mut().for_each(|x| *x = -*x);
            kept.push(db);
            of_groups.push(du);
        }
        Ok(Self { at, covariances, groups, kept, own: of_groups })
    }

    /// b̂ by factor.
    fn means(&self) -> Vec<Vec<f64>> {
        let (model, layout) = (self.at.model, &self.at.model.layout);
        let b = model.effects(&self.at.matrices, &self.at.v);
        let each = self.groups.iter().flat_map(|g| g.0.iter().copied()).collect::<Vec<f64>>();
        let mut out = vec![self.by_level(&each)];
        for factor in &layout.factors[1..] {
            out.push(b[factor.start..][..factor.levels * factor.effects].to_vec());
        }
        out
    }

    /// Effects of the first factor by level, from u of every group: T u.
    fn by_level(&self, u: &[f64]) -> Vec<f64> {
        let (model, t) = (self.at.model, &self.at.matrices[0]);
        let k = model.layout.factors[0].effects;
        let mut out = vec![0.0; model.layout.factors[0].levels * k];
        for (group, u) in model.groups.iter().zip(u.chunks_exact(k)) {
            let out = &mut out[group.level as usize * k..][..k];
            (0..k).for_each(|i| out[i] = (0..k).map(|j| t[j * k + i] * u[j]).sum());
        }
        out
    }

    /// J by factor and coefficient.
    fn slopes(&self) -> Vec<Vec<Vec<f64>>> {
        let layout = &self.at.model.layout;
        let mut out: Vec<Vec<Vec<f64>>> = vec![self.own.iter().map(|u| self.by_level(u)).collect()];
        for factor in &layout.factors[1..] {
            let of = factor.start..factor.start + factor.levels * factor.effects;
            out.push(self.kept.iter().map(|b| b[of.clone()].to_vec()).collect());
        }
        out
    }

    /// Var(b | β) by factor, k × k per level.
    fn variances(&self) -> Vec<Vec<f64>> {
        let (model, at) = (self.at.model, &self.at);
        let layout = &model.layout;
        let mut out: Vec<Vec<f64>> = Vec::new();
        for (factor, t) in layout.factors.iter().zip(&at.matrices) {
            let prior = small::congruence(t, &small::identity(factor.effects), factor.effects);
            out.push(prior.repeat(factor.levels));
        }
        for (component, covariance) in model.components.iter().zip(&self.covariances) {
            let d = component.columns.len();
            for (&(f, level), &start) in component.blocks.iter().zip(&component.starts) {
                let k = layout.factors[f].effects;
                let own = &mut out[f][level as usize * k * k..][..k * k];
                (0..k * k).for_each(|e| own[e] = covariance[(start + e / k) * d + start + e % k]);
            }
        }
        let (k, t) = (layout.factors[0].effects, &at.matrices[0]);
        for (group, (_, covariance, slope)) in model.groups.iter().zip(&self.groups) {
            let d = model.components[group.component].columns.len();
            let kept = &self.covariances[group.component];
            let mut all = covariance.clone();
            // slope P, then slope P slopeᵀ
            let c = group.columns.len();
            let mut half = vec![0.0; k * c];
            for (b, &y) in group.columns.iter().enumerate() {
                for (a, &x) in group.columns.iter().enumerate() {
                    let p = kept[x as usize * d + y as usize];
                    (0..k).for_each(|i| half[b * k + i] += slope[a * k + i] * p);
                }
            }
            for b in 0..c {
                for j in 0..k {
                    (0..k).for_each(|i| all[j * k + i] += half[b * k + i] * slope[b * k + j]);
                }
            }
            let own = &mut out[0][group.level as usize * k * k..][..k * k];
            own.copy_from_slice(&small::congruence(t, &all, k));
        }
        out
    }

    /// Normal numbers that one draw of [`Self::deviation`] takes.
    pub(super) fn normals(&self) -> usize {
        let layout = &self.at.model.layout;
        layout.fixed + layout.columns + self.groups.len() * layout.factors[0].effects
    }

    /// A draw of what is not known of β (its deviation given) and of all effects, from normal numbers: by factor.
    pub(super) fn deviation(&self, beta: &[f64], normals: &[f64]) -> Vec<Vec<f64>> {
        let (model, at) = (self.at.model, &self.at);
        let layout = &model.layout;
        let k = layout.factors[0].effects;
        let (own, rest) = normals.split_at(layout.columns);
        let mut v = own.to_vec();
        for (component, part) in model.components.iter().zip(&at.parts) {
            let mut x: Vec<f64> = component.columns.iter().map(|&c| own[c]).collect();
            if !x.is_empty() {
                certus::linalg::solve_lower(&part.factor, x.len(), true, &mut x);
            }
            component.columns.iter().zip(x).for_each(|(&c, x)| v[c] = x);
        }
        let free = model.effects(&at.matrices, &v);
        let mut b = free.clone();
        for (slope, by) in self.kept.iter().zip(beta) {
            b.iter_mut().zip(slope).for_each(|(b, s)| *b += by * s);
        }
        let mut u = vec![0.0; self.groups.len() * k];
        for (g, (group, (_, covariance, slope))) in model.groups.iter().zip(&self.groups).enumerate() {
            let out = &mut u[g * k..][..k];
            let mut factor = covariance.clone();
            if small::cholesky(&mut factor, k) {
                for i in 0..k {
                    out[i] = (0..=i).map(|j| factor[j * k + i] * rest[g * k + j]).sum();
                }
            }
            let columns = &model.components[group.component].columns;
            for (a, &x) in group.columns.iter().enumerate() {
                (0..k).for_each(|i| out[i] -= slope[a * k + i] * free[columns[x as usize]]);
            }
            for (slope, by) in self.own.iter().zip(beta) {
                (0..k).for_each(|i| out[i] += by * slope[g * k + i]);
            }
        }
        let mut out = vec![self.by_level(&u)];
        // levels without rows have the prior: u is drawn for groups only
        for factor in &layout.factors[1..] {
            out.push(b[factor.start..][..factor.levels * factor.effects].to_vec());
        }
        out
    }
}

/// The effects of every term, in the order of the design, given the estimated parameters: conditional modes (means of
/// the factor that is integrated out, given the modes of the others), and covariance matrices by the Gaussian
/// approximation; those of the prior for levels without rows.
pub fn modes(model: &CrossedModel, fit: &CrossedFit) -> Result<Vec<Modes>, Error> {
    let around = Around::new(model, fit)?;
    let (means, slopes, variances) = (around.means(), around.slopes(), around.variances());
    let (layout, p) = (&model.layout, model.layout.fixed);
    let of = |place: &super::layout::Place| {
        let (f, k) = (place.factor, place.effects);
        let all = layout.factors[f].effects;
        let mut out = Modes {
            effects: k,
            means: Vec::new(),
            variances: Vec::new(),
            given_fixed: Vec::new(),
            with_fixed: Vec::new(),
        };
        for level in 0..layout.factors[f].levels {
            let first = level * all + place.first;
            out.means.extend_from_slice(&means[f][first..][..k]);
            // Cov(b, β) = J Cov(β)
            let with: Vec<Vec<f64>> = (0..k)
                .map(|e| {
                    let of = |i: usize| {
                        let each = (0..p).map(|j| slopes[f][j][first + e] * fit.fixed_covariance[j * p + i]);
                        each.sum::<f64>()
                    };
                    (0..p).map(of).collect()
                })
                .collect();
            let own = &variances[f][level * all * all..][..all * all];
            for j in 0..k {
                for i in 0..k {
                    let given = own[(place.first + j) * all + place.first + i];
                    let more: f64 = (0..p).map(|c| with[i][c] * slopes[f][c][first + j]).sum();
                    out.given_fixed.push(given);
                    out.variances.push(given + more);
                }
                out.with_fixed.extend_from_slice(&with[j]);
            }
        }
        out
    };
    Ok(layout.places.iter().map(of).collect())
}

/// The effects given β and θ, term by term and level by level.
#[derive(Clone, Debug, Default)]
pub struct EffectsAt {
    /// Conditional modes, as in [`modes`].
    pub means: Vec<f64>,
    /// Variances by the Gaussian approximation.
    pub variances: Vec<f64>,
    /// A draw less the modes.
    pub deviation: Vec<f64>,
}

/// The effects at (β, θ), with a draw made of normal numbers ([`deviation_len`], those of β not used).
pub fn effects_at(model: &CrossedModel, parameters: &[f64], normals: &[f64]) -> Result<EffectsAt, Error> {
    let around = Around::at(Conditional::new(model, Inner::Integral, parameters, None)?)?;
    let (means, variances) = (around.means(), around.variances());
    let (layout, p) = (&model.layout, model.layout.fixed);
    let drawn = around.deviation(&vec![0.0; p], &normals[p..]);
    let mut out = EffectsAt::default();
    for place in &layout.places {
        let (f, all) = (place.factor, layout.factors[place.factor].effects);
        for level in 0..layout.factors[f].levels {
            let own = level * all + place.first..level * all + place.first + place.effects;
            out.means.extend_from_slice(&means[f][own.clone()]);
            out.deviation.extend_from_slice(&drawn[f][own.clone()]);
            out.variances.extend(own.map(|e| variances[f][e * all + e % all]));
        }
    }
    Ok(out)
}

/// Draws of what is not known of coefficients and effects, from normal numbers ([`deviation_len`] per draw): per draw
/// those of β, then of every term, level by level. Levels without rows stay where they are.
pub fn deviations(model: &CrossedModel, fit: &CrossedFit, normals: &[f64]) -> Result<Vec<f64>, Error> {
    let around = Around::new(model, fit)?;
    let p = model.layout.fixed;
    let mut factor = fit.fixed_covariance.clone();
    if p > 0 && !certus::linalg::cholesky(&mut factor, p) {
        return Err(Error::NotFinite { sds: model.layout.sds(&fit.parameters) });
    }
    let mut out = Vec::new();
    for z in normals.chunks_exact(around.normals()) {
        let beta: Vec<f64> = (0..p).map(|i| (0..=i).map(|j| factor[j * p + i] * z[j]).sum()).collect();
        let effects = around.deviation(&beta, &z[p..]);
        out.extend_from_slice(&beta);
        for place in &model.layout.places {
            let all = model.layout.factors[place.factor].effects;
            for level in effects[place.factor].chunks_exact(all) {
                out.extend_from_slice(&level[place.first..][..place.effects]);
            }
        }
    }
    Ok(out)
}

/// Normal numbers that a draw of [`deviations`] takes.
pub fn deviation_len(model: &CrossedModel) -> usize {
    let layout = &model.layout;
    layout.fixed + layout.columns + model.groups.len() * layout.factors[0].effects
}

/// How fast the mean of u falls along a direction of t.
fn falls(view: &GroupView<'_>, inner: Inner, delta: &[f64]) -> Vec<f64> {
    let k = view.k;
    if inner == Inner::Mode {
        let at = Mode::new(view);
        let mut out = vec![0.0; k];
        for (i, s) in view.s.chunks_exact(k).enumerate() {
            (0..k).for_each(|j| out[j] += at.second[i] * delta[i] * s[j]);
        }
        at.solve(&mut out);
        return out;
    }
    let points = Points::new(view);
    let mut along = vec![0.0; points.count];
    for i in 0..view.len() {
        points.slopes(i).iter().enumerate().for_each(|(m, f)| along[m] += delta[i] * f);
    }
    let mean = points.mean(&along);
    let of =
        |j: usize| (0..points.count).map(|m| points.p[m] * points.u[m * k + j] * (along[m] - mean)).sum();
    (0..k).map(of).collect()
}

/// Mean and covariance matrix of the standardised effects of a group, and how fast the mean falls along its kept
/// effects, k × c.
fn own(view: &GroupView<'_>, inner: Inner) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (k, c) = (view.k, view.c);
    if inner == Inner::Mode {
        let at = Mode::new(view);
        let mut covariance = small::identity(k);
        covariance.chunks_exact_mut(k).for_each(|column| at.solve(column));
        return (at.u.clone(), covariance, at.regression(view));
    }
    let points = Points::new(view);
    let mut mean = vec![0.0; k];
    for (u, p) in points.u.chunks_exact(k).zip(&points.p) {
        (0..k).for_each(|j| mean[j] += p * u[j]);
    }
    let (mut covariance, mut slope) = (vec![0.0; k * k], vec![0.0; k * c]);
    for (m, u) in points.u.chunks_exact(k).enumerate() {
        for j in 0..k {
            (0..k).for_each(|i| covariance[j * k + i] += points.p[m] * (u[i] - mean[i]) * (u[j] - mean[j]));
        }
    }
    // ∂E u/∂b = −Cov(u, Σ z_iw_iφ_i′)
    for i in 0..view.len() {
        let slopes = points.slopes(i);
        let along: Vec<f64> = (0..k)
            .map(|j| {
                (0..points.count).map(|m| points.p[m] * (points.u[m * k + j] - mean[j]) * slopes[m]).sum()
            })
            .collect();
        view.kept(i, |column, z| (0..k).for_each(|j| slope[column * k + j] += z * along[j]));
    }
    (mean, covariance, slope)
}
