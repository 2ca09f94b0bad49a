//! Where the descent starts: at the mode, in the frame of the curvature there; or as near to that as the target allows.

use std::ops::ControlFlow;

use super::curvature::{curved, polish};
use super::mode::{Place, Search, SearchStep};
use super::slope::short;
use super::{Ending, Run};
use crate::error::Error;
use crate::fit::Status;
use crate::linalg;
use crate::moving::Axes;

impl Run<'_, '_> {
    /// A point, the axes there, and how they were found in words; or an ending.
    pub(super) fn frame(
        &mut self,
        start: Place,
        climb: bool,
    ) -> Result<ControlFlow<Ending, (Place, Axes, String)>, Error> {
        let most = 200 + 10 * (start.point.len() as u64).min(100);
        let mut search = Search::new(start.clone());
        let mut ended = if climb { SearchStep::Moved } else { SearchStep::Stuck };
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
        let found = climb && ended != SearchStep::Moved;
        let mut there = curved(&self.target, &search)?;
        let mut words = if !climb {
            "frame from secants at the start".into()
        } else if found {
            format!("mode found by L-BFGS ({steps} steps), frame from secants at the mode")
        } else {
            format!("no mode found in {steps} L-BFGS steps, frame from secants at the last point")
        };
        // where the search ran away (into the neck of a funnel) nothing bends upwards: begin where the user would
        let away = there.flat.is_some() || there.not_finite.is_some() || !(found || there.convex);
        self.climbed = climb && !away;
        if climb && away {
            search = Search::new(start);
            there = curved(&self.target, &search)?;
            words = format!("no mode found in {steps} L-BFGS steps, frame from secants at the start");
        }
        if let Some((coordinate, value)) = there.not_finite {
            return Err(Error::NonFinite {
                what: "the gradient of the log density",
                value,
                place: format!("points along coordinate {coordinate} next to {}", short(&search.here.point)),
            });
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
