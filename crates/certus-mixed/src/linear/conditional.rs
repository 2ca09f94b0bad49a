//! A linear mixed model at given variances: the likelihood of its coefficients, their law under a Gaussian prior, and
//! the effects of the groups (docs/mixed.md, P1).

use std::f64::consts::PI;

use certus::linalg;

use super::deviations::Root;
use super::error::Error;
use super::point::{Criterion, Point, levels};
use super::slopes::Slopes;
use super::small;
use super::statistics::Statistics;

/// Everything at T of every term and σ.
pub struct Conditional<'a> {
    point: Point<'a>,
    sigma: f64,
    /// L_x, L_xL_xᵀ = XᵀV⁻¹X.
    lx: Vec<f64>,
    /// log|V|.
    log_det: f64,
    factors: Vec<Vec<f64>>,
}

/// The law of β given the variances, and the likelihood without it.
#[derive(Debug, Clone, PartialEq)]
pub struct Coefficients {
    /// Its mean.
    pub mean: Vec<f64>,
    /// The lower factor of its precision.
    pub precision: Vec<f64>,
    /// log ∫ p(y | β)p(β) dβ; without the constant of the prior, where that is flat in a direction.
    pub log_marginal: f64,
}

/// The effects of the groups, β having its law: term after term, level by level.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectLaws {
    /// Their means.
    pub means: Vec<f64>,
    /// Their variances.
    pub variances: Vec<f64>,
    /// Their covariances with β, p numbers per effect.
    pub covariances: Vec<f64>,
    /// Draws of coefficients and effects, one after the other: (β, b).
    pub draws: Vec<f64>,
}

impl<'a> Conditional<'a> {
    /// At T of every term, relative to σ.
    pub fn new(statistics: &'a Statistics, factors: &[Vec<f64>], sigma: f64) -> Result<Self, Error> {
        let point = Point::new(statistics, Criterion::Ml, factors)?;
        let (p, width, m) = (statistics.layout.fixed, statistics.layout.fixed + 1, point.freedom());
        let mut lx = vec![0.0; p * p];
        (0..p).for_each(|j| lx[j * p..][..p].copy_from_slice(&point.lx[j * width..][..p]));
        let log_det = point.value - m * (1.0 + (2.0 * PI * point.q / m).ln());
        Ok(Self { point, sigma, lx, log_det, factors: factors.to_vec() })
    }

    fn base(&self) -> &[f64] {
        &self.point.statistics.base
    }

    /// L_xᵀ(β̂ − β₀), the last row of the factor.
    fn turned(&self) -> Vec<f64> {
        let p = self.base().len();
        (0..p).map(|j| self.point.lx[j * (p + 1) + p]).collect()
    }

    /// −½(n log 2πσ² + log|V|), what the likelihood has beside its sum of squares.
    fn constant(&self) -> f64 {
        let n = self.point.statistics.weight;
        -0.5 * (n * (2.0 * PI * self.sigma * self.sigma).ln() + self.log_det)
    }

    /// log p(y | β): the sum of squares is Q + |L_xᵀ(β − β̂)|².
    pub fn log_likelihood(&self, beta: &[f64]) -> f64 {
        let apart: Vec<f64> = beta.iter().zip(self.base()).map(|(b, b0)| b - b0).collect();
        let p = beta.len();
        let off = |(j, own): (usize, f64)| {
            let along: f64 = (j..p).map(|i| self.lx[j * p + i] * apart[i]).sum();
            (along - own).powi(2)
        };
        let sum: f64 = self.turned().into_iter().enumerate().map(off).sum();
        self.constant() - 0.5 * (self.point.q + sum) / (self.sigma * self.sigma)
    }

    /// Under the prior N(m, P⁻¹), P p × p: A = XᵀV⁻¹X/σ² + P, mean A⁻¹(XᵀV⁻¹Xβ̂/σ² + Pm), and
    /// log p(y) = −½(n log 2πσ² + log|V| + Q/σ² + log|A| − log|P| + |β̂ − β̄|² in XᵀV⁻¹X/σ² + |m − β̄|² in P).
    pub fn coefficients(&self, mean: &[f64], precision: &[f64]) -> Result<Coefficients, Error> {
        let (p, variance) = (mean.len(), self.sigma * self.sigma);
        let not_finite = || Error::NotFinite { sds: vec![self.sigma] };
        let mut information = vec![0.0; p * p];
        for (j, i) in (0..p).flat_map(|j| (0..p).map(move |i| (j, i))) {
            let inner = (0..=i.min(j)).map(|c| self.lx[c * p + i] * self.lx[c * p + j]).sum::<f64>();
            information[j * p + i] = inner / variance;
        }
        let mut factor: Vec<f64> = information.iter().zip(precision).map(|(a, b)| a + b).collect();
        if !linalg::cholesky(&mut factor, p) {
            return Err(not_finite());
        }
        let mut hat = self.turned();
        small::backward(&self.lx, p, &mut hat);
        hat.iter_mut().zip(self.base()).for_each(|(h, b)| *h += b);
        // relative to β̂, so that nothing cancels
        let apart: Vec<f64> = mean.iter().zip(&hat).map(|(m, h)| m - h).collect();
        let times = |a: &[f64], x: &[f64]| -> Vec<f64> {
            (0..p).map(|i| (0..p).map(|j| a[j * p + i] * x[j]).sum()).collect()
        };
        let mut moved = times(precision, &apart);
        small::forward(&factor, p, &mut moved);
        small::backward(&factor, p, &mut moved);
        let from_prior: Vec<f64> = apart.iter().zip(&moved).map(|(a, m)| a - m).collect();
        let square = |a: &[f64], x: &[f64]| small::inner(&times(a, x), x);
        let quadratic = square(&information, &moved) + square(precision, &from_prior);
        let log_factor: f64 = factor.iter().step_by(p + 1).map(|x| x.ln()).sum();
        let log_marginal = self.constant() - 0.5 * (self.point.q / variance + quadratic) - log_factor;
        let mean = hat.iter().zip(&moved).map(|(h, m)| h + m).collect();
        Ok(Coefficients { mean, precision: factor, log_marginal })
    }

    /// Given β: the means of the effects and their variances (diagonal), term after term, level by level.
    pub fn effects(&self, betas: &[&[f64]]) -> Vec<(Vec<f64>, Vec<f64>)> {
        let slopes = Slopes::new(&self.point);
        let layout = &self.point.statistics.layout;
        let (p, all, variance) = (layout.fixed, layout.columns(), self.sigma * self.sigma);
        let one = |beta: &&[f64]| {
            let (mut means, mut variances) = (Vec::new(), Vec::new());
            let mut u = slopes.d[p * all..].to_vec();
            for (c, (b, b0)) in beta.iter().zip(self.base()).enumerate() {
                u.iter_mut().zip(&slopes.d[c * all..]).for_each(|(u, d)| *u -= d * (b - b0));
            }
            for (place, t) in layout.places.iter().zip(&self.factors) {
                let (k, factor) = (place.effects, layout.factors[place.factor]);
                let sigma = small::congruence(t, &small::identity(k), k);
                for level in 0..factor.levels {
                    let at = factor.start + level * factor.effects + place.first;
                    let size = factor.effects * factor.effects;
                    let block = layout.part(place, &slopes.blocks[place.factor][level * size..][..size]);
                    let less = small::congruence(&sigma, &block, k);
                    for i in 0..k {
                        means.push((0..k).map(|l| sigma[l * k + i] * u[at + l]).sum());
                        variances.push(variance * (sigma[i * (k + 1)] - less[i * (k + 1)]));
                    }
                }
            }
            (means, variances)
        };
        betas.iter().map(one).collect()
    }

    /// With G = ∂E[b | β]/∂β = −ΣD and V the covariance of β: Var b = Var(b | β) + GVGᵀ, Cov(b, β) = GV. A draw is made
    /// of p + (effects) standard normal numbers: β of the first, then E[b | β] + [`Self::deviation`] of the others.
    pub fn effects_under(&self, law: &Coefficients, normals: &[f64]) -> Result<EffectLaws, Error> {
        let p = law.mean.len();
        // columns of G, by differences of a linear function
        let steps: Vec<Vec<f64>> = (0..p)
            .map(|c| {
                let mut beta = law.mean.clone();
                beta[c] += 1.0;
                beta
            })
            .collect();
        let points: Vec<&[f64]> = std::iter::once(&law.mean).chain(&steps).map(|b| &b[..]).collect();
        let mut all = self.effects(&points);
        let moved = all.split_off(1);
        let (means, mut variances) = all.swap_remove(0);
        let mut covariances = vec![0.0; means.len() * p];
        let slope = |e: usize, c: usize| moved[c].0[e] - means[e];
        for (e, own) in covariances.chunks_exact_mut(p.max(1)).enumerate() {
            (0..p).for_each(|c| own[c] = slope(e, c));
            // Lx = g: gᵀVg = |x|², Vg = L⁻ᵀx
            small::forward(&law.precision, p, own);
            variances[e] += small::inner(own, own);
            small::backward(&law.precision, p, own);
        }
        let width = p + means.len();
        let mut draws = Vec::with_capacity(normals.len());
        let half = self.half()?;
        for z in normals.chunks_exact(width) {
            let mut beta = z[..p].to_vec();
            small::backward(&law.precision, p, &mut beta);
            let apart = self.apart(&half, &z[p..]);
            draws.extend(beta.iter().zip(&law.mean).map(|(b, m)| b + m));
            let own = |e: usize| means[e] + apart[e] + (0..p).map(|c| slope(e, c) * beta[c]).sum::<f64>();
            draws.extend((0..means.len()).map(own));
        }
        Ok(EffectLaws { means, variances, covariances, draws })
    }

    /// J of every level of factor 1.
    fn half(&self) -> Result<Vec<f64>, Error> {
        let found = levels(self.point.statistics, &self.point.t[0]);
        found.map(|found| found.0).ok_or_else(|| Error::NotFinite { sds: vec![self.sigma] })
    }

    /// [`Self::deviation`] at J.
    fn apart(&self, half: &[f64], normals: &[f64]) -> Vec<f64> {
        let p = self.base().len();
        let with: Vec<f64> = vec![0.0; p].into_iter().chain(normals.iter().copied()).collect();
        // what β would take away is not needed
        let y = vec![0.0; p * self.point.statistics.layout.rest()];
        let root = Root { point: &self.point, half, lx: &self.lx, y: &y, sigma: self.sigma };
        root.draws(&with).split_off(p)
    }

    /// b − E[b | β] at standard normal numbers, as many as there are effects, in the order of [`Self::effects`]: with β
    /// given, b₂ = σΛ₂L⁻ᵀz and b₁ = J(σz − JᵀB_gb₂), as in [`super::deviations`].
    pub fn deviation(&self, normals: &[f64]) -> Result<Vec<f64>, Error> {
        Ok(self.apart(&self.half()?, normals))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Noise, random};
    use super::*;

    /// (5) is the integral of the likelihood times the prior: β on a grid of two coefficients.
    #[test]
    fn integrals_are_those_of_sums() {
        let s = random(&[6, 4], &[(0, 2), (1, 1)], 60, &mut Noise(3));
        let factors = [vec![0.7, 0.2, 0.0, 0.5], vec![0.4]];
        let at = Conditional::new(&s, &factors, 1.3).expect("finite");
        let (mean, precision) = ([1.0, -0.5], [2.0, 0.3, 0.3, 1.5]);
        let found = at.coefficients(&mean, &precision).expect("positive definite");
        let log_p = |b: [f64; 2]| {
            let d = [b[0] - mean[0], b[1] - mean[1]];
            let square =
                precision[0] * d[0] * d[0] + 2.0 * precision[1] * d[0] * d[1] + precision[3] * d[1] * d[1];
            at.log_likelihood(&b) - 0.5 * square
        };
        let (step, far) = (0.02, 150);
        let (mut total, mut first) = (0.0, [0.0; 2]);
        let top = log_p([found.mean[0], found.mean[1]]);
        for (i, j) in (-far..=far).flat_map(|i| (-far..=far).map(move |j| (i, j))) {
            let b = [found.mean[0] + step * f64::from(i), found.mean[1] + step * f64::from(j)];
            let w = (log_p(b) - top).exp();
            total += w;
            (0..2).for_each(|k| first[k] += w * b[k]);
        }
        // without the (2π)^{p/2} of the normal law
        let log_sum = top + (total * step * step).ln() - (2.0 * PI).ln();
        assert!((log_sum - found.log_marginal).abs() < 1e-9, "{log_sum} {}", found.log_marginal);
        (0..2).for_each(|k| assert!((first[k] / total - found.mean[k]).abs() < 1e-9));
    }

    /// Given β, effects and their draws follow from the dense matrices: E[b | β] and Var[b | β] by unit vectors.
    #[test]
    fn draws_of_effects_have_their_variances() {
        let s = random(&[6, 4], &[(0, 2), (1, 1)], 60, &mut Noise(9));
        let factors = [vec![0.7, 0.2, 0.0, 0.5], vec![0.4]];
        let at = Conditional::new(&s, &factors, 1.3).expect("finite");
        let (_, variances) = at.effects(&[&[0.5, 1.0]]).swap_remove(0);
        let n = variances.len();
        let mut sums = vec![0.0; n];
        for j in 0..n {
            let unit: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i == j))).collect();
            let draw = at.deviation(&unit).expect("finite");
            sums.iter_mut().zip(&draw).for_each(|(s, x)| *s += x * x);
        }
        sums.iter().zip(&variances).for_each(|(s, v)| assert!((s - v).abs() < 1e-10 * v, "{s} {v}"));
    }

    /// Everything against the dense posterior: precision of (β, b) = [X Z]ᵀ[X Z]/σ² + prior, from the statistics.
    #[test]
    fn the_joint_law_is_the_dense_one() {
        let s = random(&[7, 4], &[(0, 1), (1, 1)], 60, &mut Noise(5));
        let (sigma, sds) = (1.3, [0.9, 0.4]);
        let factors = [vec![sds[0] / sigma], vec![sds[1] / sigma]];
        let at = Conditional::new(&s, &factors, sigma).expect("finite");
        let (prior_mean, prior) = ([1.0, -0.5], [2.0, 0.3, 0.3, 1.5]);
        let law = at.coefficients(&prior_mean, &prior).expect("positive definite");
        let (p, q, width) = (2, 11, 3);
        let d = p + q;
        let (mut h, mut b) = (vec![0.0; d * d], vec![0.0; d]);
        let set = |h: &mut Vec<f64>, i: usize, j: usize, x: f64| (h[i * d + j], h[j * d + i]) = (x, x);
        // rows as sums around β₀: the response is r = y − Xβ₀, so β is β₀ + δ
        for j in 0..p {
            for i in 0..p {
                h[j * d + i] = s.fixed[j * width + i] / (sigma * sigma) + prior[j * p + i];
            }
            b[j] = s.fixed[p * width + j] / (sigma * sigma)
                + (0..p).map(|i| prior[j * p + i] * (prior_mean[i] - s.base[i])).sum::<f64>();
        }
        let starts = [0, s.layout.factors[0].columns()];
        for (f, factor) in s.layout.factors.iter().enumerate() {
            for level in 0..factor.levels {
                let at = p + starts[f] + level;
                let own = s.own[f][level] / (sigma * sigma) + sds[factor.index].powi(-2);
                set(&mut h, at, at, own);
                for c in 0..p {
                    set(&mut h, at, c, s.cross[f][level * width + c] / (sigma * sigma));
                }
                b[at] = s.cross[f][level * width + p] / (sigma * sigma);
            }
        }
        for g in 0..s.layout.factors[0].levels {
            let (columns, meeting) = s.meeting(g);
            for (column, x) in columns.iter().zip(meeting) {
                set(&mut h, p + g, p + starts[1] + *column as usize, x / (sigma * sigma));
            }
        }
        assert!(linalg::cholesky(&mut h, d));
        let solve = |x: &mut Vec<f64>| {
            linalg::solve_lower(&h, d, false, x);
            linalg::solve_lower(&h, d, true, x);
        };
        let mut mean = b;
        solve(&mut mean);
        let covariance: Vec<Vec<f64>> = (0..d)
            .map(|j| {
                let mut unit: Vec<f64> = (0..d).map(|i| f64::from(u8::from(i == j))).collect();
                solve(&mut unit);
                unit
            })
            .collect();
        // draws at unit vectors: their outer products add up to the covariance matrix
        let normals: Vec<f64> = (0..d * d).map(|e| f64::from(u8::from(e % d == e / d))).collect();
        let found = at.effects_under(&law, &normals).expect("finite");
        for j in 0..p {
            assert!((law.mean[j] - s.base[j] - mean[j]).abs() < 1e-10);
        }
        // terms in the order of the model, effects in that of the engine: factor 0 has most levels
        for e in 0..q {
            assert!((found.means[e] - mean[p + e]).abs() < 1e-10, "{e}");
            assert!((found.variances[e] - covariance[p + e][p + e]).abs() < 1e-10, "{e}");
            for c in 0..p {
                assert!((found.covariances[e * p + c] - covariance[p + e][c]).abs() < 1e-10, "{e} {c}");
            }
        }
        let center: Vec<f64> = law.mean.iter().chain(&found.means).copied().collect();
        for (i, j) in (0..d).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            let each = found.draws.chunks_exact(d);
            let sum: f64 = each.map(|x| (x[i] - center[i]) * (x[j] - center[j])).sum();
            assert!((sum - covariance[i][j]).abs() < 1e-10, "{i} {j}: {sum} {}", covariance[i][j]);
        }
    }
}
