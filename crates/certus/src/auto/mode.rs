//! The mode by L-BFGS with a weak-Wolfe line search, and the inverse Hessian its pairs imply.
//!
//! Ours, not a crate's: the pairs are needed afterwards for the frame, trial points outside the domain must only
//! shorten a step, and the target is counted and may fail; the search itself is a page.

use std::collections::VecDeque;

use crate::error::Error;
use crate::linalg;
use crate::target::Target;

/// Pairs kept.
const MEMORY: usize = 12;
/// The search ends when it promises to gain less than this many nats, three times in a row, because young pairs know
/// little of flat directions; the frame polishes the rest.
const ENOUGH: f64 = 0.01;
const QUIET: u32 = 3;

/// Values and gradients beyond this in size are taken for infinite, so that squares do not overflow.
pub(super) const LARGEST: f64 = 1e150;

/// A point with −log p and its gradient there.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) point: Vec<f64>,
    /// −log p.
    pub(super) value: f64,
    /// ∇(−log p).
    pub(super) slope: Vec<f64>,
}

impl Place {
    /// Evaluates the target. The result may be not finite; [`Place::is_finite`] tells.
    pub(super) fn at(target: &dyn Target, point: Vec<f64>) -> Result<Self, Error> {
        let (mut value, mut slope) = ([0.0], vec![0.0; point.len()]);
        target.log_density(&point, &mut value, &mut slope).map_err(Error::Target)?;
        slope.iter_mut().for_each(|x| *x = -*x);
        Ok(Self { point, value: -value[0], slope })
    }

    /// True if nothing is beyond [`LARGEST`].
    pub(super) fn is_finite(&self) -> bool {
        self.value.abs() <= LARGEST && self.slope.iter().all(|x| x.abs() <= LARGEST)
    }
}

/// The state of the search.
pub(super) struct Search {
    pub(super) here: Place,
    /// (s, y, 1/sᵀy), the oldest first.
    pairs: VecDeque<(Vec<f64>, Vec<f64>, f64)>,
    pub(super) iterations: u64,
    /// What the last step promised to gain, in nats.
    pub(super) promise: f64,
    /// How often in a row that was next to nothing.
    quiet: u32,
}

/// How a step of the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchStep {
    /// It moved.
    Moved,
    /// There is less than [`ENOUGH`] to gain.
    Arrived,
    /// No step along the direction gains anything.
    Stuck,
}

impl Search {
    pub(super) fn new(here: Place) -> Self {
        Self { here, pairs: VecDeque::new(), iterations: 0, promise: f64::INFINITY, quiet: 0 }
    }

    /// H x, H the inverse Hessian that the pairs imply, by the two loops (Nocedal 1980). Without pairs: the step of one
    /// nat, or the identity where there is no slope.
    pub(super) fn inverse_hessian_times(&self, x: &[f64]) -> Vec<f64> {
        let mut q = x.to_vec();
        let mut alphas = Vec::with_capacity(self.pairs.len());
        for (s, y, rho) in self.pairs.iter().rev() {
            let alpha = rho * linalg::dot(s, &q);
            linalg::add_scaled(&mut q, -alpha, y);
            alphas.push(alpha);
        }
        let scale = match self.pairs.back() {
            Some((_, y, rho)) => 1.0 / (rho * linalg::norm_squared(y)),
            None => {
                Some(1.0 / linalg::norm_squared(&self.here.slope)).filter(|s| s.is_finite()).unwrap_or(1.0)
            }
        };
        q.iter_mut().for_each(|v| *v *= scale);
        for ((s, y, rho), alpha) in self.pairs.iter().zip(alphas.into_iter().rev()) {
            let beta = rho * linalg::dot(y, &q);
            linalg::add_scaled(&mut q, alpha - beta, s);
        }
        q
    }

    /// One step. Weak Wolfe conditions by bisection; a trial that is not finite only shortens the step.
    pub(super) fn step(&mut self, target: &dyn Target) -> Result<SearchStep, Error> {
        let mut direction = self.inverse_hessian_times(&self.here.slope);
        let mut slope = linalg::dot(&direction, &self.here.slope);
        if !(slope.is_finite() && slope >= 0.0) {
            self.pairs.clear();
            direction = self.inverse_hessian_times(&self.here.slope);
            slope = linalg::dot(&direction, &self.here.slope);
        }
        self.promise = 0.5 * slope;
        // without pairs the promise is a convention, not a measurement
        let small = self.promise <= ENOUGH && !self.pairs.is_empty();
        self.quiet = if small { self.quiet + 1 } else { 0 };
        if self.quiet == QUIET
            || (small && self.promise <= 1e-6)
            || linalg::norm_squared(&self.here.slope) == 0.0
        {
            return Ok(SearchStep::Arrived);
        }
        let (mut low, mut high, mut t) = (0.0, f64::INFINITY, 1.0);
        for _ in 0..60 {
            let point = self.here.point.iter().zip(&direction).map(|(z, p)| z - t * p).collect();
            let there = Place::at(target, point)?;
            let gain = self.here.value - there.value;
            let rounding = 1e-14 * (self.here.value.abs() + there.value.abs());
            if !there.is_finite() || gain < 1e-4 * t * slope - rounding {
                high = t;
            } else if linalg::dot(&direction, &there.slope) > 0.9 * slope {
                low = t;
            } else {
                self.accept(there);
                return Ok(SearchStep::Moved);
            }
            let next = if high.is_finite() { 0.5 * (low + high) } else { 4.0 * t };
            // the line may fall for ever, or the bracket close on a kink: take the best that is known
            if !next.is_finite() || high - low <= 1e-12 * high {
                break;
            }
            t = next;
        }
        if low > 0.0 {
            let point = self.here.point.iter().zip(&direction).map(|(z, p)| z - low * p).collect();
            let there = Place::at(target, point)?;
            if there.is_finite() && there.value < self.here.value {
                self.accept(there);
                return Ok(SearchStep::Moved);
            }
        }
        if self.pairs.is_empty() {
            return Ok(SearchStep::Stuck);
        }
        // once more along the gradient itself
        self.pairs.clear();
        Ok(SearchStep::Moved)
    }

    fn accept(&mut self, there: Place) {
        let difference = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x - y).collect::<Vec<f64>>();
        let s = difference(&there.point, &self.here.point);
        let y = difference(&there.slope, &self.here.slope);
        let product = linalg::dot(&s, &y);
        // only pairs that bend upwards keep H positive definite
        let size = (linalg::norm_squared(&s) * linalg::norm_squared(&y)).sqrt();
        if product > 1e-10 * size && (1.0 / product).is_finite() {
            if self.pairs.len() == MEMORY {
                self.pairs.pop_front();
            }
            self.pairs.push_back((s, y, 1.0 / product));
        }
        self.here = there;
        self.iterations += 1;
    }

    /// True if a pair was kept, so that H is measured.
    pub(super) fn has_pairs(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// H as a matrix, column-major.
    pub(super) fn inverse_hessian(&self) -> Vec<f64> {
        let dim = self.here.point.len();
        let mut out = Vec::with_capacity(dim * dim);
        let mut unit = vec![0.0; dim];
        for j in 0..dim {
            unit[j] = 1.0;
            out.extend(self.inverse_hessian_times(&unit));
            unit[j] = 0.0;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TargetError;
    use crate::target::{Counted, PointTarget};

    /// −log p = 100(y − x²)² + (1 − x)², or, with a domain, x − 3 log x + y²/2 for x > 0.
    struct Valley {
        bounded: bool,
    }

    impl PointTarget for Valley {
        fn dim(&self) -> usize {
            2
        }
        fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
            let (x, y) = (z[0], z[1]);
            if self.bounded {
                (g[0], g[1]) = (3.0 / x - 1.0, -y);
                return Ok(3.0 * x.ln() - x - 0.5 * y * y);
            }
            let r = y - x * x;
            (g[0], g[1]) = (400.0 * r * x + 2.0 * (1.0 - x), -200.0 * r);
            Ok(-100.0 * r * r - (1.0 - x).powi(2))
        }
    }

    /// Rosenbrock's valley from its usual start, and a domain that ends on the way: both arrive, going down all the
    /// way, in few evaluations.
    #[test]
    fn it_arrives() {
        for (bounded, start, mode, most) in
            [(false, vec![-1.2, 1.0], [1.0, 1.0], 60), (true, vec![0.01, 30.0], [3.0, 0.0], 40)]
        {
            let valley = Valley { bounded };
            let target = Counted::new(&valley, 0);
            let mut search = Search::new(Place::at(&target, start).expect("no error"));
            let mut last = search.here.value;
            while search.step(&target).expect("no error") == SearchStep::Moved {
                assert!(search.here.value <= last);
                last = search.here.value;
            }
            let off = search.here.point.iter().zip(mode).map(|(z, m)| (z - m).abs()).fold(0.0, f64::max);
            assert!(
                off < 0.3 && search.promise <= ENOUGH,
                "{:?}, promise {}",
                search.here.point,
                search.promise
            );
            assert!(target.evaluations() <= most, "{} evaluations", target.evaluations());
        }
    }
}
