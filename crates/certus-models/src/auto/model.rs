//! What the routes need of a model.

use certus::theorem::Local;
use certus::{Family, Gaussian, Target};
use certus_likelihood::Likelihood;

use super::route::Size;
use crate::certificate::Certified;
use crate::error::{Declined, Error};
use crate::glm::Glm;
use crate::hierarchical::{Extent, Hierarchical};
use crate::laplace::{Laplace, laplace, laplace_from};
use crate::newton::ExactState;
use crate::ranks::Ranks;

/// A model with an exact f: a target, a certificate, a solver.
pub trait Model: Target + Certified {
    /// Its likelihood, whose losses are convex.
    fn likelihood(&self) -> &dyn Likelihood;
    /// The numbers that choose the route.
    fn size(&self) -> Size;
    /// The factors that the routes work with.
    fn family(&self) -> Family;
    /// The Laplace approximation, searched for from a point or from the prior mean.
    fn laplace_start(&self, from: Option<&[f64]>) -> Result<Laplace, Error>;
    /// The exact solver's state at a Gaussian.
    fn exact_start(&self, start: &Gaussian) -> Result<ExactState, Error>;
    /// One Newton-CG step on the exact f.
    fn exact_step(&self, state: &mut ExactState) -> Result<(), Error>;
    /// A ball around w, in its frame, that provably contains the optimum, with the constants of Theorem G; or why there
    /// is none.
    fn certified_ball(&self, w: &Gaussian) -> Result<Result<Local, Declined>, Error>;
    /// The model itself if it is a dense one, whose rows can be drawn in batches.
    fn dense(&self) -> Option<&Glm> {
        None
    }
    /// The processes over which the rows are spread.
    fn ranks(&self) -> Option<&dyn Ranks> {
        None
    }
    /// What rank 0 says where the rows are spread, else what is said here: clocks differ, and all must stop together.
    fn agreed(&self, here: bool) -> bool {
        self.ranks().map_or(here, |ranks| ranks.decide(u64::from(here)) == 1)
    }
}

impl Model for Glm {
    fn likelihood(&self) -> &dyn Likelihood {
        Glm::likelihood(self)
    }

    fn size(&self) -> Size {
        let (rows, dim) = (self.design.rows().len(), self.dim());
        Size { rows, dim, stored: dim * dim, widest: dim, groups: 0 }
    }

    fn family(&self) -> Family {
        Family::Lower
    }

    fn laplace_start(&self, from: Option<&[f64]>) -> Result<Laplace, Error> {
        from.map_or_else(|| laplace(self), |from| laplace_from(self, from))
    }

    fn exact_start(&self, start: &Gaussian) -> Result<ExactState, Error> {
        Glm::exact_start(self, start)
    }

    fn exact_step(&self, state: &mut ExactState) -> Result<(), Error> {
        Glm::exact_step(self, state)
    }

    fn certified_ball(&self, w: &Gaussian) -> Result<Result<Local, Declined>, Error> {
        match self.ball(w) {
            // no bound of the third derivative
            Err(Error::Declined(declined)) => Ok(Err(declined)),
            Err(Error::NotFinite(reason)) => Ok(Err(reason.into())),
            other => other,
        }
    }

    fn dense(&self) -> Option<&Glm> {
        Some(self)
    }

    fn ranks(&self) -> Option<&dyn Ranks> {
        self.design.rows().ranks()
    }
}

impl Model for Hierarchical {
    fn likelihood(&self) -> &dyn Likelihood {
        Hierarchical::likelihood(self)
    }

    fn size(&self) -> Size {
        let Extent { rows, stored, widest, groups } = self.extent();
        Size { rows, dim: self.dim(), stored, widest, groups }
    }

    fn family(&self) -> Family {
        Hierarchical::family(self)
    }

    fn laplace_start(&self, from: Option<&[f64]>) -> Result<Laplace, Error> {
        from.map_or_else(|| self.laplace_from(&vec![0.0; self.dim()]), |from| self.laplace_from(from))
    }

    fn exact_start(&self, start: &Gaussian) -> Result<ExactState, Error> {
        Hierarchical::exact_start(self, start)
    }

    fn exact_step(&self, state: &mut ExactState) -> Result<(), Error> {
        Hierarchical::exact_step(self, state)
    }

    /// DIFFERENCE: the constants of Theorem G are computed for dense factors only, so a hierarchical model stays in the
    /// moving frame.
    fn certified_ball(&self, _: &Gaussian) -> Result<Result<Local, Declined>, Error> {
        Ok(Err(Declined::BallFactor))
    }
}
