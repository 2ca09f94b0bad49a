//! An affine change of variables z = m₀ + P y in which the problem is well conditioned (docs/maths.md, part C), and the
//! way back of Gaussians.

use std::sync::Mutex;

use crate::error::{Error, TargetError, same_length};
use crate::factor::{Factor, Lower};
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::target::{Curvature, Target};

/// z = shift + P y.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    shift: Vec<f64>,
    scale: Factor,
    log_det: f64,
}

impl Frame {
    /// The frame with origin `shift` and axes `scale` (P, any factor).
    pub fn new(shift: Vec<f64>, scale: Factor) -> Result<Self, Error> {
        same_length("the shift of the frame", scale.dim(), shift.len())?;
        let log_det = scale.log_det();
        if !log_det.is_finite() {
            return Err(Error::invalid("log det of the frame", log_det, "the frame must be invertible"));
        }
        Ok(Self { shift, scale, log_det })
    }

    /// The frame in which `w` is the standard normal: shift m, axes C.
    pub fn of(w: &Gaussian) -> Result<Self, Error> {
        Self::new(w.mean().to_vec(), w.factor().clone())
    }

    /// The Gaussian of z when y has the Gaussian `w`: mean m₀ + P m, factor P C.
    ///
    /// Lower times lower, and a pattern times the same pattern, stay in their space. Any other product is replaced by
    /// the lower-triangular factor of the same covariance.
    pub fn to_original(&self, w: &Gaussian) -> Result<Gaussian, Error> {
        same_length("the Gaussian", self.scale.dim(), w.dim())?;
        let mut mean = self.shift.clone();
        self.scale.add_apply(w.mean(), &mut mean);
        let dim = w.dim();
        let factor = match (&self.scale, w.factor()) {
            (Factor::Pattern(p), Factor::Pattern(c)) if p.tree() == c.tree() => Factor::Pattern(p.times(c)),
            (p, c) => {
                let mut product = vec![0.0; dim * dim];
                p.add_apply(&c.to_dense(), &mut product);
                let stays_lower = matches!((p, c), (Factor::Lower(_), Factor::Lower(_)));
                if !stays_lower {
                    product = linalg::lower_of_same_covariance(&product, dim);
                }
                Factor::Lower(Lower::new(dim, product)?)
            }
        };
        Gaussian::new(mean, factor)
    }
}

/// A target seen through a frame: log p(m₀ + P y) + log|det P|, the density of y.
///
/// DIFFERENCE: part C leaves the Jacobian out; with it the negative ELBO is the same number in both frames.
pub struct Framed<'a> {
    target: &'a dyn Target,
    frame: Frame,
    curvature: Option<Curvature>,
    points: Mutex<(Vec<f64>, Vec<f64>)>,
}

impl<'a> Framed<'a> {
    /// `target` in `frame`; `curvature` bounds Pᵀ∇²(−log p)P, the Hessian in the frame, if somebody knows it.
    pub fn new(target: &'a dyn Target, frame: Frame, curvature: Option<Curvature>) -> Result<Self, Error> {
        same_length("the frame", target.dim(), frame.shift.len())?;
        Ok(Self { target, frame, curvature, points: Mutex::default() })
    }

    /// The frame.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }
}

impl Target for Framed<'_> {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        let mut memory = self.points.lock().map_err(|_| "an earlier evaluation of the target panicked")?;
        let (z, g) = &mut *memory;
        z.resize(points.len(), 0.0);
        g.resize(points.len(), 0.0);
        linalg::broadcast(&self.frame.shift, z);
        self.frame.scale.add_apply(points, z);
        self.target.log_density(z, values, g)?;
        gradients.fill(0.0);
        self.frame.scale.add_apply_transpose(g, gradients);
        values.iter_mut().for_each(|v| *v += self.frame.log_det);
        Ok(())
    }

    fn curvature(&self) -> Option<Curvature> {
        self.curvature.clone()
    }

    fn log_concave(&self) -> bool {
        self.target.log_concave()
    }
}
