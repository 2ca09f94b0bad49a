//! Looks for directions in which −log p bends the wrong way: a few Lanczos steps on the Hessian at draws of q, by
//! differences of gradients.

use super::Axes;
use crate::error::Error;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::random::Random;
use crate::target::{Change, Target, Witness};

/// Differences of gradients that are spent, shared out over draws of q, their mirror images, and the same twice and
/// three times as far out.
const DIFFERENCES: usize = 144;
/// Lanczos steps at each.
const STEPS: usize = 8;
/// Half the distance of the points of a difference, in q's standard deviations.
const REACH: f64 = 0.1;
/// A whitened curvature below minus this is a witness: far above rounding, far below the 1 of a Gaussian.
pub(super) const CONCAVE: f64 = 0.02;

/// What a search says of the convexity of −log p around a Gaussian.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Convexity {
    /// Nothing: there was no search, it was stopped, or log p was finite nowhere it looked.
    #[default]
    NotChecked,
    /// No violation was found, which proves nothing.
    NoViolation,
    /// Two points between which −log p is not convex.
    Violated(Box<Violation>),
}

impl Convexity {
    /// Of gradients that contradict it.
    pub(crate) fn by_gradients(witness: Witness) -> Self {
        Self::Violated(Box::new(Violation::Gradients(witness)))
    }

    /// True if a violation was found.
    pub fn is_violated(&self) -> bool {
        matches!(self, Self::Violated(_))
    }
}

/// What contradicts log-concavity.
#[derive(Clone, Debug, PartialEq)]
pub enum Violation {
    /// Gradients at two points, between which −log p bends downwards.
    Gradients(Witness),
    /// Two maxima, between which the log density is lower than at both by so many nats.
    Maxima([Vec<f64>; 2], f64),
}

/// Two points between which −log p is not convex, if a search at draws of q finds any.
pub fn concave_direction(
    target: &dyn Target,
    w: &Gaussian,
    random: &Random,
    iteration: u64,
) -> Result<Option<Witness>, Error> {
    Ok(match convexity(target, w, random, iteration, &|| true)? {
        Convexity::Violated(violation) => match *violation {
            Violation::Gradients(witness) => Some(witness),
            Violation::Maxima(..) => None,
        },
        _ => None,
    })
}

/// Looks for two points between which −log p is not convex, at draws of q, as long as `proceed` allows, which is asked
/// before every pair of gradients. A draw at which log p is not finite says nothing.
///
/// Lanczos on PᵀHP at a draw z: its smallest Ritz value is at least the smallest eigenvalue, and close to it after a
/// few steps where that stands out; the gradients at the two ends of its vector then decide.
pub fn convexity(
    target: &dyn Target,
    w: &Gaussian,
    random: &Random,
    iteration: u64,
    proceed: &dyn Fn() -> bool,
) -> Result<Convexity, Error> {
    let (dim, axes) = (w.dim(), Axes::of(w.factor()));
    let draws = DIFFERENCES / (6 * STEPS.min(dim));
    let mut u = vec![0.0; 2 * dim * draws];
    random.normals(iteration, 0, dim, &mut u);
    let (draws, starts) = u.split_at(dim * draws);
    let mut known = Convexity::NotChecked;
    for (u, start) in draws.chunks_exact(dim).zip(starts.chunks_exact(dim)) {
        for far in [1.0, -1.0, 2.0, -2.0, 3.0, -3.0] {
            let mut center = w.mean().to_vec();
            axes.add_apply(&u.iter().map(|x| far * x).collect::<Vec<f64>>(), &mut center);
            let around = Around { target, axes: &axes, center, proceed };
            match around.lanczos(start)? {
                Place::Violated(witness) => return Ok(Convexity::by_gradients(witness)),
                Place::Stopped => return Ok(Convexity::NotChecked),
                Place::NoViolation => known = Convexity::NoViolation,
                Place::NotFinite => {}
            }
        }
    }
    Ok(known)
}

/// What was found around one draw.
enum Place {
    Violated(Witness),
    NoViolation,
    NotFinite,
    Stopped,
}

struct Around<'a> {
    target: &'a dyn Target,
    axes: &'a Axes,
    center: Vec<f64>,
    proceed: &'a dyn Fn() -> bool,
}

/// A difference of gradients along a unit vector of the frame.
struct Difference {
    points: [Vec<f64>; 2],
    /// π(z₊) − π(z₋).
    slopes: Vec<f64>,
    /// PᵀHP v, about.
    product: Vec<f64>,
}

impl Around<'_> {
    fn difference(&self, v: &[f64]) -> Result<Option<Difference>, Error> {
        let dim = v.len();
        let mut shift = vec![0.0; dim];
        self.axes.add_apply(v, &mut shift);
        let end = |sign: f64| -> Vec<f64> {
            self.center.iter().zip(&shift).map(|(z, s)| z + sign * REACH * s).collect()
        };
        let points = [end(1.0), end(-1.0)];
        let (mut values, mut gradients) = ([0.0; 2], vec![0.0; 2 * dim]);
        self.target.log_density(&points.concat(), &mut values, &mut gradients).map_err(Error::Target)?;
        let slopes: Vec<f64> = (0..dim).map(|i| gradients[dim + i] - gradients[i]).collect();
        if !(values[0] + values[1]).is_finite() || slopes.iter().any(|x| x.is_nan() || x.abs() > 1e150) {
            return Ok(None);
        }
        let mut product = vec![0.0; dim];
        self.axes.add_apply_transpose(&slopes, &mut product);
        product.iter_mut().for_each(|x| *x /= 2.0 * REACH);
        Ok(Some(Difference { points, slopes, product }))
    }

    fn lanczos(&self, start: &[f64]) -> Result<Place, Error> {
        let steps = STEPS.min(start.len());
        let mut basis: Vec<Vec<f64>> = Vec::new();
        let (mut diagonal, mut beside): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        let mut next = start.to_vec();
        while basis.len() < steps {
            let norm = linalg::norm_squared(&next).sqrt();
            // the space is used up, to rounding
            if norm <= 1e-8 * diagonal.iter().fold(1.0_f64, |a, b| a.max(b.abs())) {
                break;
            }
            if !basis.is_empty() {
                beside.push(norm);
            }
            basis.push(next.iter().map(|x| x / norm).collect());
            let here = &basis[basis.len() - 1];
            if !(self.proceed)() {
                return Ok(Place::Stopped);
            }
            let Some(difference) = self.difference(here)? else { return Ok(Place::NotFinite) };
            diagonal.push(linalg::dot(here, &difference.product));
            next = difference.product;
            for _ in 0..2 {
                for b in &basis {
                    let t = linalg::dot(b, &next);
                    linalg::add_scaled(&mut next, -t, b);
                }
            }
        }
        let k = basis.len();
        let mut matrix = vec![0.0; k * k];
        for i in 0..k {
            matrix[i * k + i] = diagonal[i];
            if i + 1 < k {
                (matrix[i * k + i + 1], matrix[(i + 1) * k + i]) = (beside[i], beside[i]);
            }
        }
        let Some((values, vectors)) = linalg::eigen(&matrix, k).filter(|(v, _)| v[0] < -CONCAVE) else {
            return Ok(Place::NoViolation);
        };
        debug_assert!(values[0] <= diagonal[0]);
        let mut v = vec![0.0; start.len()];
        for (b, weight) in basis.iter().zip(&vectors) {
            linalg::add_scaled(&mut v, *weight, b);
        }
        let Some(found) = self.difference(&v)? else { return Ok(Place::NotFinite) };
        if linalg::dot(&v, &found.product) >= -CONCAVE {
            return Ok(Place::NoViolation);
        }
        let [a, b] = &found.points;
        let change = Change::new((0..v.len()).map(|i| (a[i] - b[i], found.slopes[i])));
        Ok(Place::Violated(change.witness(found.points)))
    }
}
