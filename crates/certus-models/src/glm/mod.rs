//! A generalised linear model: p(z, y) = N(z | μ₀, J⁻¹) Π_n p(y_n | a_nᵀz + o_n)^{w_n}. It knows its log density,
//! gradient and Hessian, as sums over leaves, and is a [`Target`] whose batch gradient reads X once.

pub(crate) mod curvature;

use std::sync::{Arc, OnceLock};

use certus::linalg;
use certus::{Curvature, Target, TargetError};

use crate::design::{Design, DesignLeaf};
use crate::error::{Error, InvalidData, InvalidModel};
use crate::matrix::{Matrix, add_lower_gram, add_product, view};
use crate::newton::dot;
use crate::rows::Pool;
use certus_likelihood::Likelihood;
use certus_likelihood::prior::Prior;

/// Rows of a block of the fused kernel: X_blk Z, φ′ and X_blkᵀP while the block is in the cache.
const BLOCK: usize = 128;

/// A generalised linear model with a Gaussian prior.
pub struct Glm {
    pub(crate) design: Design,
    pub(crate) likelihood: Arc<dyn Likelihood>,
    pub(crate) prior: Prior,
    pub(crate) pool: Pool,
    /// Found when first asked for.
    curvature: OnceLock<Option<Curvature>>,
}

/// −log p, its gradient and its Hessian at a point.
pub struct Derivatives {
    /// −log p(z, y), all constants included.
    pub value: f64,
    /// ∇(−log p).
    pub gradient: Vec<f64>,
    /// ∇²(−log p), column-major.
    pub hessian: Vec<f64>,
}

impl Glm {
    /// Checks that everything fits and every observation is legal.
    pub fn new(design: Design, likelihood: Arc<dyn Likelihood>, prior: Prior) -> Result<Self, Error> {
        design.check_numbers()?;
        Self::on_checked(design, likelihood, prior)
    }

    /// The same data with another likelihood or prior (new σ, new scales): only the responses are looked at again.
    pub fn rebuilt(&self, likelihood: Arc<dyn Likelihood>, prior: Prior) -> Result<Self, Error> {
        Self::on_checked(self.design.clone(), likelihood, prior)
    }

    fn on_checked(design: Design, likelihood: Arc<dyn Likelihood>, prior: Prior) -> Result<Self, Error> {
        if design.dim() != prior.dim() {
            let (expected, found) = (design.dim(), prior.dim());
            return Err(InvalidModel::Coefficients { what: "the prior", expected, found }.into());
        }
        if design.dim() == 0 {
            return Err(InvalidData::NoCoefficients.into());
        }
        design.check_responses(&*likelihood)?;
        Ok(Self { design, likelihood, prior, pool: Pool::default(), curvature: OnceLock::new() })
    }

    /// μ and M of −log p, from one pass the first time; `None` where φ″ is not bounded.
    pub fn bounds(&self) -> Result<Option<Curvature>, Error> {
        if let Some(known) = self.curvature.get() {
            return Ok(known.clone());
        }
        let found = curvature::of(self)?;
        Ok(self.curvature.get_or_init(|| found).clone())
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.prior.dim()
    }

    /// The design.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// The likelihood.
    pub fn likelihood(&self) -> &dyn Likelihood {
        &*self.likelihood
    }

    /// The prior.
    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    /// How many evaluations of batches of draws run one after the other: any number at once where all rows are here,
    /// all of them where an evaluation waits for other ranks, which must meet in the same order.
    pub(crate) fn grain(&self) -> usize {
        if self.design.rows().ranks().is_some() { usize::MAX } else { 1 }
    }

    /// −log p, gradient and Hessian at `z`, in one pass.
    pub fn derivatives(&self, z: &[f64]) -> Result<Derivatives, Error> {
        let d = self.dim();
        let mut sums = self.pool.sum(self.design.rows(), 1 + d + d * d, &|leaf, scratch, out| {
            self.design.prepare(leaf, scratch, |leaf| {
                let n = leaf.data.len();
                let mut work = self.pool.buffer(3 * n);
                let (t, rest) = work.split_at_mut(n);
                let (slope, curvature) = rest.split_at_mut(n);
                predictors(&leaf, z, t);
                out[0] += self.likelihood.derivatives(t, leaf.data, leaf.weight, slope, curvature);
                let (gradient, gram) = out[1..].split_at_mut(d);
                add_columns(gradient, leaf.a, slope);
                self.add_gram(leaf.a, curvature, gram);
                self.pool.give(work);
            });
        })?;
        let dm: Vec<f64> = z.iter().zip(self.prior.mean()).map(|(a, b)| a - b).collect();
        let mut prior_slope = vec![0.0; d];
        self.prior.add_precision_times(&dm, &mut prior_slope);
        let value = sums[0] + 0.5 * dot(&dm, &prior_slope) + self.prior.constant();
        let gradient = sums[1..=d].iter().zip(&prior_slope).map(|(a, b)| a + b).collect();
        let mut hessian = sums.split_off(1 + d);
        linalg::mirror(&mut hessian, d);
        self.prior.add_to(&mut hessian);
        self.pool.give(sums);
        Ok(Derivatives { value, gradient, hessian })
    }

    /// gram += Σ weight_i a_i a_iᵀ (lower triangle), weights ≥ 0, block by block.
    pub(crate) fn add_gram(&self, a: Matrix<'_>, weight: &[f64], gram: &mut [f64]) {
        let (n, d) = (a.nrows(), a.ncols());
        let mut scaled = self.pool.buffer(BLOCK * d);
        for first in (0..n).step_by(BLOCK) {
            let rows = BLOCK.min(n - first);
            let block = a.subrows(first, rows);
            for j in 0..d {
                for i in 0..rows {
                    scaled[j * rows + i] = weight[first + i].sqrt() * block[(i, j)];
                }
            }
            let s = view(&scaled[..rows * d], rows, d);
            add_lower_gram(gram, s, s);
        }
        self.pool.give(scaled);
    }

    /// Σ φ and Σ φ′ a over all rows for a `d × n` batch of points: the fused row-block kernel, X read once.
    fn batch(&self, points: &[f64]) -> Result<Vec<f64>, Error> {
        let d = self.dim();
        let n = points.len() / d;
        let z = view(points, d, n);
        self.pool.sum(self.design.rows(), n + d * n, &|leaf, scratch, out| {
            self.design.prepare(leaf, scratch, |leaf| {
                let (values, gradients) = out.split_at_mut(n);
                let mut work = self.pool.buffer(BLOCK * n);
                for first in (0..leaf.data.len()).step_by(BLOCK) {
                    let rows = BLOCK.min(leaf.data.len() - first);
                    let block = leaf.a.subrows(first, rows);
                    let part = &mut work[..rows * n];
                    for column in part.chunks_exact_mut(rows) {
                        column.copy_from_slice(&leaf.offset[first..][..rows]);
                    }
                    add_product(part, block, z);
                    let (data, weight) = (&leaf.data[first..][..rows], &leaf.weight[first..][..rows]);
                    for (value, column) in values.iter_mut().zip(part.chunks_exact_mut(rows)) {
                        *value += self.likelihood.first_derivatives(column, data, weight);
                    }
                    add_product(gradients, block.transpose(), view(part, rows, n));
                }
                self.pool.give(work);
            });
        })
    }
}

impl Target for Glm {
    fn dim(&self) -> usize {
        Glm::dim(self)
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        let (d, n) = (Glm::dim(self), values.len());
        let sums = self.batch(points)?;
        // −log p = ½(z − μ₀)ᵀJ(z − μ₀) + c₀ + Σ φ
        let mut centred = self.pool.buffer(d * n);
        for (c, z) in centred.chunks_exact_mut(d).zip(points.chunks_exact(d)) {
            for i in 0..d {
                c[i] = z[i] - self.prior.mean()[i];
            }
        }
        gradients.fill(0.0);
        self.prior.add_precision_times(&centred, gradients);
        for k in 0..n {
            let quadratic = dot(&centred[k * d..][..d], &gradients[k * d..][..d]);
            values[k] = -(0.5 * quadratic + self.prior.constant() + sums[k]);
        }
        for (g, s) in gradients.iter_mut().zip(&sums[n..]) {
            *g = -(*g + s);
        }
        self.pool.give(centred);
        self.pool.give(sums);
        Ok(())
    }

    fn curvature(&self) -> Option<Curvature> {
        self.bounds().ok().flatten()
    }
}

/// t ← A z + offset.
pub fn predictors(leaf: &DesignLeaf<'_>, z: &[f64], t: &mut [f64]) {
    t.copy_from_slice(leaf.offset);
    add_product(t, leaf.a, view(z, z.len(), 1));
}

/// out += Aᵀ v.
pub(crate) fn add_columns(out: &mut [f64], a: Matrix<'_>, v: &[f64]) {
    add_product(out, a.transpose(), view(v, v.len(), 1));
}
