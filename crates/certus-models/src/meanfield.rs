//! Mean field: the best Gaussian with a diagonal factor, N(m, diag(c)²), by Newton-CG on the exact ELBO at O(N d) per
//! pass, and what the family costs against all Gaussians.
//!
//! Independence is asked of the coordinates in which the model is given: for standardised columns, of the standardised
//! coefficients.

use std::sync::Arc;

use certus::certificate::Gap;
use certus::factor::{Factor, Pattern};
use certus::theorem::Local;
use certus::{Curvature, Family, Gaussian, Target, TargetError, Tree};

use crate::auto::{Model, Size};
use crate::certificate::{Certified, Value};
use crate::design::DesignLeaf;
use crate::error::{Declined, Error, InvalidModel};
use crate::exact::KEPT;
use crate::glm::{Glm, add_columns, predictors};
use crate::laplace::{Laplace, laplace, laplace_from};
use crate::newton::{ExactState, Newton, positive_step};
use crate::ranks::Ranks;
use certus_likelihood::Likelihood;
use certus_likelihood::prior::Precision;

/// A model whose Gaussians have independent coordinates.
pub struct MeanField<'a> {
    model: &'a Glm,
    tree: Arc<Tree>,
    /// The diagonal of J.
    precision: Vec<f64>,
}

/// f of a diagonal Gaussian above that of the best one of all, in nats: between these two, rounding and both gaps
/// included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FamilyCost {
    /// At least.
    pub least: f64,
    /// At most.
    pub most: f64,
    /// The difference of the exact negative ELBOs.
    pub value: f64,
}

impl<'a> MeanField<'a> {
    /// The same model over diagonal factors.
    pub fn new(model: &'a Glm) -> Result<Self, Error> {
        let d = model.dim();
        let precision = match model.prior().precision() {
            Precision::Diagonal(j) => j.clone(),
            Precision::Dense(j) => j.iter().step_by(d + 1).copied().collect(),
        };
        Ok(Self { tree: Arc::new(Tree::diagonal(d)?), model, precision })
    }

    /// The model over all Gaussians.
    pub fn dense(&self) -> &Glm {
        self.model
    }

    /// N(m, diag(c)²).
    fn gaussian(&self, mean: Vec<f64>, sd: Vec<f64>) -> Result<Gaussian, Error> {
        Ok(Gaussian::new(mean, Factor::Pattern(Pattern::new(self.tree.clone(), sd)?))?)
    }

    fn check(&self, w: &Gaussian) -> Result<(), Error> {
        if w.factor().family() == Model::family(self) {
            return Ok(());
        }
        Err(InvalidModel::Factor { required: "a diagonal factor" }.into())
    }

    /// From the mode, with the sds Λ_ii^(−1/2) of the best diagonal Gaussian for the precision Λ there (the optimum
    /// itself where the posterior is Gaussian).
    fn start(&self, mode: Laplace) -> Result<Laplace, Error> {
        let d = mode.gaussian.dim();
        let here = self.model.derivatives(mode.gaussian.mean())?;
        let sd = here.hessian.iter().step_by(d + 1).map(|h| h.sqrt().recip()).collect();
        let gaussian = self.gaussian(mode.gaussian.mean().to_vec(), sd)?;
        Ok(Laplace { gaussian, gradients: mode.gradients + 1, hessians: mode.hessians + 1, ..mode })
    }

    /// From the Laplace approximation to the optimum of the family.
    pub fn solve_exactly(&self) -> Result<ExactState, Error> {
        let start = self.start(laplace(self.model)?)?;
        Model::exact_start(self, &start.gaussian)?.run(|state| Model::exact_step(self, state))
    }

    /// What the family costs at w: f(w) less the least f of all Gaussians, which the dense solver finds.
    pub fn family_cost(&self, w: &Gaussian) -> Result<Option<FamilyCost>, Error> {
        let best = self.model.solve_exactly()?;
        let (Some(own), Some(all)) = (self.reference(w)?, self.model.reference(&best.gaussian)?) else {
            return Ok(None);
        };
        let ((low, high), (least, most)) = (own.interval(), all.interval());
        let value = self.model.exact_value(w)?.value - self.model.exact_value(&best.gaussian)?.value;
        Ok(Some(FamilyCost { least: (low - most).max(0.0), most: high - least, value }))
    }

    /// The mean of every row's predictor and, K − 1 places on, its sd √Σ a_j²c_j².
    fn spreads<const K: usize>(&self, w: &Gaussian) -> Result<Vec<f64>, Error> {
        let (model, c) = (self.model, w.factor().values());
        let mut rows = vec![0.0; K * model.here().len()];
        model.pool.map(model.design.rows(), K, &mut rows, &|leaf, scratch, out| {
            model.design.prepare(leaf, scratch, |leaf| {
                let n = leaf.data.len();
                let mut work = model.pool.buffer(2 * n);
                let (t, square) = work.split_at_mut(n);
                predictors(&leaf, w.mean(), t);
                for (j, c) in c.iter().enumerate() {
                    for (i, s) in square.iter_mut().enumerate() {
                        let x = c * leaf.a[(i, j)];
                        *s += x * x;
                    }
                }
                for i in 0..n {
                    (out[i * K], out[i * K + K - 1]) = (t[i], square[i].sqrt());
                }
                model.pool.give(work);
            });
        })?;
        Ok(rows)
    }

    /// f(w), exact to rounding.
    pub fn neg_elbo(&self, w: &Gaussian) -> Result<f64, Error> {
        self.check(w)?;
        let model = self.model;
        let loss = model.expected_loss(&self.spreads::<2>(w)?)?;
        let dm: Vec<f64> = w.mean().iter().zip(model.prior.mean()).map(|(a, b)| a - b).collect();
        let mut slope = vec![0.0; dm.len()];
        model.prior.add_precision_times(&dm, &mut slope);
        let spread: f64 = w.factor().values().iter().zip(&self.precision).map(|(c, j)| j * c * c).sum();
        let level: f64 = dm.iter().zip(&slope).map(|(a, b)| a * b).sum();
        Ok(loss + 0.5 * (level + spread) + model.prior.constant() + w.neg_entropy())
    }

    /// −g in the frame of w and the moments of the rows: g_m = c∘(J(m − μ₀) + Σ e₁a), g_c = c²∘(diag J + Σ q₀a²) − 1.
    fn descent(&self, w: &Gaussian) -> Result<(Vec<f64>, Vec<f64>), Error> {
        let (model, d, c) = (self.model, w.dim(), w.factor().values());
        let rows = model.row_moments(self.spreads::<KEPT>(w)?)?;
        let origin = model.here().start;
        let sums = model.pool.sum(model.design.rows(), 2 * d, &|leaf, scratch, out| {
            model.design.prepare(leaf, scratch, |leaf| {
                let kept = &rows[KEPT * (leaf.first - origin)..][..KEPT * leaf.data.len()];
                let (slope, curvature): (Vec<f64>, Vec<f64>) =
                    kept.chunks_exact(KEPT).map(|k| (k[1], k[2])).unzip();
                let (mean, square) = out.split_at_mut(d);
                add_columns(mean, leaf.a, &slope);
                add_squares(square, &leaf, &curvature);
            });
        })?;
        let dm: Vec<f64> = w.mean().iter().zip(model.prior.mean()).map(|(a, b)| a - b).collect();
        let (mut slope, curvature) = (sums[..d].to_vec(), &sums[d..]);
        model.prior.add_precision_times(&dm, &mut slope);
        let mean = slope.iter().zip(c).map(|(g, c)| -c * g);
        let factor = (0..d).map(|j| 1.0 - c[j] * c[j] * (self.precision[j] + curvature[j]));
        Ok((mean.chain(factor).collect(), rows))
    }
}

/// out_j += Σ_i v_i a_ij².
fn add_squares(out: &mut [f64], leaf: &DesignLeaf<'_>, v: &[f64]) {
    for (j, out) in out.iter_mut().enumerate() {
        *out += v.iter().enumerate().map(|(i, v)| v * leaf.a[(i, j)] * leaf.a[(i, j)]).sum::<f64>();
    }
}

/// A model at an iterate, for one step.
struct Here<'a> {
    field: &'a MeanField<'a>,
    w: Gaussian,
    rows: Vec<f64>,
    descent: Vec<f64>,
}

impl Newton for Here<'_> {
    fn descent(&self) -> &[f64] {
        &self.descent
    }

    /// diag(1, 2) is the Hessian of a Gaussian posterior with independent coordinates.
    fn weight(&self, i: usize) -> f64 {
        if i < self.w.dim() { 1.0 } else { 0.5 }
    }

    /// Lemma B on the diagonal: with ã = c∘a, α = ã·dm, β = Σ dc_j ã_j²/sd the rows add ã(q₀α + q₁β) to the mean and
    /// q₀ dc_j ã_j² + (q₁α + (q₂ − q₀)β) ã_j²/sd to the factor, the prior c∘J(c∘dm) and c²∘diag(J)∘dc, and h adds dc.
    fn hessian_times(&self, p: &[f64], out: &mut [f64]) -> Result<(), Error> {
        let (model, d, c) = (self.field.model, self.w.dim(), self.w.factor().values());
        let (dm, dc) = p.split_at(d);
        let step: Vec<f64> = c.iter().zip(dm).map(|(c, x)| c * x).collect();
        let factor_step: Vec<f64> = c.iter().zip(dc).map(|(c, x)| c * c * x).collect();
        let origin = model.here().start;
        let sums = model.pool.sum(model.design.rows(), 3 * d, &|leaf, scratch, out| {
            model.design.prepare(leaf, scratch, |leaf| {
                let n = leaf.data.len();
                let kept = &self.rows[KEPT * (leaf.first - origin)..][..KEPT * n];
                let mut work = model.pool.buffer(3 * n);
                let (alpha, rest) = work.split_at_mut(n);
                let (beta, curvature) = rest.split_at_mut(n);
                for j in 0..d {
                    for i in 0..n {
                        let a = leaf.a[(i, j)];
                        alpha[i] += a * step[j];
                        beta[i] += a * a * factor_step[j];
                    }
                }
                for (i, k) in kept.chunks_exact(KEPT).enumerate() {
                    let (q0, q1, q2, sd) = (k[2], k[3], k[4], k[5]);
                    let per_sd = if sd > 0.0 { 1.0 / sd } else { 0.0 };
                    let (a, b) = (alpha[i], beta[i] * per_sd);
                    alpha[i] = q0 * a + q1 * b;
                    beta[i] = (q1 * a + (q2 - q0) * b) * per_sd;
                    curvature[i] = q0;
                }
                let (mean, squares) = out.split_at_mut(d);
                let (cross, square) = squares.split_at_mut(d);
                add_columns(mean, leaf.a, alpha);
                add_squares(cross, &leaf, beta);
                add_squares(square, &leaf, curvature);
                model.pool.give(work);
            });
        })?;
        let (mean, factor) = out.split_at_mut(d);
        mean.copy_from_slice(&sums[..d]);
        model.prior.add_precision_times(&step, mean);
        mean.iter_mut().zip(c).for_each(|(m, c)| *m *= c);
        for j in 0..d {
            let (square, own) = (c[j] * c[j], self.field.precision[j] + sums[2 * d + j]);
            factor[j] = square * (sums[d + j] + own * dc[j]) + dc[j];
        }
        Ok(())
    }

    fn longest_step(&self, direction: &[f64]) -> f64 {
        positive_step(direction[self.w.dim()..].iter().copied().fold(0.0, f64::min))
    }

    fn at(&self) -> &Gaussian {
        &self.w
    }

    fn moved(&self, direction: &[f64], tau: f64) -> Result<Gaussian, Error> {
        let (c, (dm, dc)) = (self.w.factor().values(), direction.split_at(self.w.dim()));
        let mean = self.w.mean().iter().zip(c).zip(dm).map(|((m, c), x)| m + tau * c * x).collect();
        let sd = c.iter().zip(dc).map(|(c, x)| c * (1.0 + tau * x)).collect();
        self.field.gaussian(mean, sd)
    }

    fn value(&self, w: &Gaussian) -> Result<f64, Error> {
        self.field.neg_elbo(w)
    }

    fn noise(&self) -> Result<f64, Error> {
        self.field.model.noise(&self.rows)
    }
}

impl Target for MeanField<'_> {
    fn dim(&self) -> usize {
        self.model.dim()
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        self.model.log_density(points, values, gradients)
    }

    fn curvature(&self) -> Option<Curvature> {
        self.model.curvature()
    }
}

impl Certified for MeanField<'_> {
    fn exact_value(&self, w: &Gaussian) -> Result<Value, Error> {
        self.model.exact_value(w)
    }

    fn optimum_over(&self, w: &Gaussian) -> Option<Family> {
        self.model.optimum_over(w)
    }

    /// Within the family: patterns of independent coordinates are closed under products, so the frame of w keeps them.
    fn certified_gap(&self, w: &Gaussian) -> Result<Gap, Error> {
        self.check(w)?;
        self.model.gap(w)
    }

    fn gap_bounds(&self, w: &Gaussian) -> Result<Vec<(&'static str, f64)>, Error> {
        self.check(w)?;
        self.model.gap_bounds(w)
    }
}

impl Model for MeanField<'_> {
    fn likelihood(&self) -> &dyn Likelihood {
        self.model.likelihood()
    }

    fn size(&self) -> Size {
        let (rows, dim) = (self.model.design.rows().len(), self.model.dim());
        Size { rows, dim, stored: dim, widest: dim, groups: 0 }
    }

    fn family(&self) -> Family {
        Family::Pattern(self.tree.clone())
    }

    fn laplace_start(&self, from: Option<&[f64]>) -> Result<Laplace, Error> {
        self.start(from.map_or_else(|| laplace(self.model), |from| laplace_from(self.model, from))?)
    }

    fn exact_start(&self, start: &Gaussian) -> Result<ExactState, Error> {
        self.check(start)?;
        ExactState::starting(start.clone(), |w| self.neg_elbo(w))
    }

    fn exact_step(&self, state: &mut ExactState) -> Result<(), Error> {
        let w = state.gaussian.clone();
        let (descent, rows) = self.descent(&w)?;
        state.advance(&Here { field: self, w, rows, descent })
    }

    /// DIFFERENCE: Theorem G's constants use that the dense gradient vanishes at the optimum, which mean field breaks.
    fn certified_ball(&self, _: &Gaussian) -> Result<Result<Local, Declined>, Error> {
        Ok(Err(Declined::BallFactor))
    }

    fn ranks(&self) -> Option<&dyn Ranks> {
        self.model.design.rows().ranks()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newton::dot;
    use crate::{Design, Memory, Prior};
    use certus_likelihood::{Likelihood, Logistic, Poisson};

    /// The slope and the second difference of f along a segment are −descent·p and pᵀHp, also for a prior whose
    /// precision is dense.
    #[test]
    fn derivatives_are_those_of_the_value() {
        let (n, d) = (60, 3);
        let wave = |k: usize| (k as f64 * 1.7).sin() + 0.2;
        let likelihoods: [Arc<dyn Likelihood>; 2] = [Arc::new(Logistic), Arc::new(Poisson)];
        for likelihood in likelihoods {
            let memory = Memory {
                x: (0..n * d).map(wave).collect(),
                y: (0..n).map(|i| f64::from(u8::from(i % 3 == 0))).collect(),
                weight: (0..n).map(|i| 0.5 + 0.01 * i as f64).collect(),
                columns: d,
                ..Memory::default()
            };
            let prior = Prior::with_precision(
                vec![0.1, -0.2, 0.3],
                vec![2.0, 0.5, 0.1, 0.5, 1.0, 0.2, 0.1, 0.2, 1.5],
            )
            .expect("a prior");
            let model = Glm::new(Design::new(Arc::new(memory), false), likelihood, prior).expect("a model");
            let field = MeanField::new(&model).expect("a model");
            let w = field.gaussian(vec![0.2, -0.1, 0.4], vec![0.3, 0.5, 0.2]).expect("proper");
            // the dense value at the same Gaussian
            let (own, dense) =
                (field.neg_elbo(&w).expect("finite"), field.dense().neg_elbo(&w).expect("finite"));
            assert!((own - dense).abs() < 1e-12 * own.abs(), "{own} {dense}");
            let (descent, rows) = field.descent(&w).expect("finite");
            let here = Here { field: &field, w, rows, descent };
            let p = [0.3, -0.2, 0.5, 0.2, -0.4, 0.3];
            let mut hp = [0.0; 6];
            here.hessian_times(&p, &mut hp).expect("finite");
            let f = |t: f64| here.value(&here.moved(&p, t).expect("proper")).expect("finite");
            let h = 1e-3;
            let slope = (f(h) - f(-h)) / (2.0 * h);
            assert!((slope + dot(here.descent(), &p)).abs() < 1e-5 * slope.abs().max(1.0), "{slope}");
            let second = (f(h) - 2.0 * f(0.0) + f(-h)) / (h * h);
            assert!((second / dot(&hp, &p) - 1.0).abs() < 1e-5, "{second} against {}", dot(&hp, &p));
        }
    }
}
