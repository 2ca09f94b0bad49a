//! Where the descent starts: at the mode, in the frame of the curvature there; or as near to that as the target allows.

use std::ops::ControlFlow;

use super::curvature::{curved, polish};
use super::mode::{Place, Search, SearchStep};
use super::slope::short;
use super::{Ending, Run};
use crate::error::Error;
use crate::fit::Status;
use crate::fresh::Fresh;
use crate::linalg;
use crate::moving::Axes;

/// Draws of each of two Gaussians of which one is chosen, and their stream, which no other estimate has.
const COMPARED: usize = 64;
const STREAM: u64 = 3;

impl Run<'_, '_> {
    /// A point, the axes there, and how they were found in words; or an ending.
    pub(super) fn frame(
        &mut self,
        start: Place,
    ) -> Result<ControlFlow<Ending, (Place, Axes, String)>, Error> {
        let most = 200 + 10 * (start.point.len() as u64).min(100);
        let mut search = Search::new(start.clone());
        let mut ended = SearchStep::Moved;
        while ended == SearchStep::Moved && search.iterations < most {
            ended = search.step(&self.target)?;
            if let Some(ending) = self.ask(None, None) {
                return Ok(ControlFlow::Break(ending));
            }
        }
        let steps = search.iterations;
        if let Some(ending) = self.show_guess(&search) {
            return Ok(ControlFlow::Break(ending));
        }
        let mut there = curved(&self.target, &search)?;
        let mut words = format!("mode found by L-BFGS ({steps} steps), frame from secants at the mode");
        if ended != SearchStep::Arrived {
            let how = match ended {
                SearchStep::Stuck => format!("stuck after {steps} L-BFGS steps"),
                _ => format!("no mode found in {steps} L-BFGS steps"),
            };
            words = format!("{how}, frame from secants at the last point");
            // the search ran away, or is at a kink, or in a spike without a maximum, such as that of a scale at zero
            let first = Search::new(start);
            let around = curved(&self.target, &first)?;
            let astray = ended == SearchStep::Moved && !there.convex;
            if there.flat.is_some()
                || astray
                || (around.flat.is_none()
                    && self.loss(&first.here.point, &around.axes)?
                        < self.loss(&search.here.point, &there.axes)?)
            {
                (search, there) = (first, around);
                words = format!("{how}, frame from secants at the start");
            }
        }
        if let Some(flat) = there.flat {
            return Ok(ControlFlow::Break((
                Status::NoProgress,
                format!(
                    "the log density does not change along {flat} near {}: it is flat there, so there is no best \
                        Gaussian; give every coordinate a proper prior",
                    short(&search.here.point)
                ),
            )));
        }
        let mut here = search.here;
        if there.convex {
            polish(&self.target, &mut here, &there.axes)?;
        }
        Ok(ControlFlow::Continue((here, there.axes, words)))
    }

    /// −ELBO of the Gaussian with these axes, from a few draws; infinite where one of them has density 0.
    fn loss(&self, point: &[f64], axes: &Axes) -> Result<f64, Error> {
        let (w, fresh) = (axes.gaussian(point)?, Fresh::estimate(COMPARED, self.goal.seed, STREAM)?);
        let mut sum = 0.0;
        let found = fresh.run(&self.target, &w, 0..COMPARED, &mut |run| {
            sum -= run.log_weights.iter().sum::<f64>();
            Ok(())
        });
        match found {
            Ok(()) => Ok(sum / COMPARED as f64),
            Err(Error::NonFinite { .. }) => Ok(f64::INFINITY),
            Err(error) => Err(error),
        }
    }

    /// A first guess for whoever watches: N(mode, H⁻¹) with the H of the search's pairs.
    fn show_guess(&mut self, search: &Search) -> Option<Ending> {
        let dim = search.here.point.len();
        if !search.has_pairs() {
            return None;
        }
        let mut h = search.inverse_hessian();
        linalg::symmetrise(&mut h, dim);
        if linalg::cholesky(&mut h, dim)
            && let Ok(gaussian) = (Axes::Dense { dim, values: h }).gaussian(&search.here.point)
        {
            self.gaussian = gaussian;
            return self.look(None);
        }
        None
    }
}
