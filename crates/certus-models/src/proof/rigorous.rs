//! The gap with every rounding error included: sums over rows, quadrature, factorisations and the inequalities of
//! Theorem D in the balls of `certus-check`, with hints from plain numbers.

use certus::certificate::{Gap, Statement};
use certus::theorem::Local;
use certus::{Curvature, Family, Gaussian, Target, TargetError};
use certus_likelihood::Likelihood;
use certus_likelihood::internals::vouched_by;

use super::{Guess, MARGIN, Subject};
use crate::auto::{Model, Size};
use crate::certificate::{Certified, RIGOROUS, Value, useful};
use crate::error::{Declined, Error};
use crate::glm::Glm;
use crate::laplace::Laplace;
use crate::newton::ExactState;
use crate::ranks::Ranks;

/// The theorem of certificates of version 1, as [`Glm::gap`] names it.
const THEOREM: &str = "Theorem D";
/// What follows the label of a theorem that was applied in balls.
pub const ROUNDING: &str = ", rounding included";

/// Whether the label of a theorem says so.
pub fn counts_rounding(theorem: &str) -> bool {
    theorem.ends_with(ROUNDING)
}

/// Both.
const STATED: &str = "Theorem D, rounding included";

impl Guess {
    /// Where the ordinary certificate has found the optimum.
    pub fn from(gap: &Gap) -> Self {
        let constant = |name| gap.statement.constant(name);
        let curvature = constant("curvature in the mean").zip(constant("curvature in the factor"));
        let omega = constant("omega").unwrap_or(2.0);
        Self {
            gap: gap.statement.bound().unwrap_or(1e-3),
            curvature: curvature.map_or(1.0, |(mean, factor)| mean.min(factor / omega)),
        }
    }
}

impl Glm {
    /// [`Glm::gap`], whose bound and errors are proved without allowances for rounding; where they are not, its reason
    /// says why.
    pub fn rigorous_gap(&self, w: &Gaussian) -> Result<Gap, Error> {
        let mut gap = self.gap(w)?;
        match self.without_allowances(w, &gap) {
            Err(Error::Declined(Declined::Proof(why))) => {
                let why = format!("not every rounding error is included: {why}");
                gap.statement = gap.statement.because(why);
                Ok(gap)
            }
            found => found,
        }
    }

    /// The same without the ordinary statement, which only guides the search.
    pub fn without_allowances(&self, w: &Gaussian, guide: &Gap) -> Result<Gap, Error> {
        if guide.statement.theorem() != THEOREM {
            return Err(Declined::Proof("the gap is too large for Theorem D".into()).into());
        }
        let mut subject = Subject::new(self, w, &[], None)?;
        subject.hashed = false;
        let (certificate, proof) = subject.search(Guess::from(guide))?;
        let statement = Statement::by(&vouched_by(&*self.likelihood), STATED, certificate.bound, RIGOROUS)
            .with("radius", certificate.radius)
            .with("omega", certificate.tau * certificate.tau)
            .with("theta", certificate.theta)
            .with("curvature in the mean", proof.lambda_mean)
            .with("curvature in the factor", proof.lambda_factor)
            .with("gradient", proof.rho_squared.max(0.0).sqrt() * MARGIN);
        let (mean_error, sd_error) = (Some(proof.mean_error()), useful(proof.factor_error()));
        Ok(Gap { statement, family: guide.family.clone(), mean_error, sd_error })
    }
}

/// A model whose gaps are [`Glm::rigorous_gap`].
#[derive(Clone, Copy)]
pub struct Rigorous<'a>(pub &'a Glm);

impl Target for Rigorous<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        self.0.log_density(points, values, gradients)
    }

    fn curvature(&self) -> Option<Curvature> {
        self.0.curvature()
    }
}

impl Certified for Rigorous<'_> {
    fn exact_value(&self, w: &Gaussian) -> Result<Value, Error> {
        self.0.exact_value(w)
    }

    fn optimum_over(&self, w: &Gaussian) -> Option<Family> {
        self.0.optimum_over(w)
    }

    fn certified_gap(&self, w: &Gaussian) -> Result<Gap, Error> {
        self.0.rigorous_gap(w)
    }

    fn gap_bounds(&self, w: &Gaussian) -> Result<Vec<(&'static str, f64)>, Error> {
        self.0.gap_bounds(w)
    }
}

impl Model for Rigorous<'_> {
    fn likelihood(&self) -> &dyn Likelihood {
        self.0.likelihood()
    }

    fn size(&self) -> Size {
        self.0.size()
    }

    fn family(&self) -> Family {
        self.0.family()
    }

    fn laplace_start(&self, from: Option<&[f64]>) -> Result<Laplace, Error> {
        self.0.laplace_start(from)
    }

    fn exact_start(&self, start: &Gaussian) -> Result<ExactState, Error> {
        Model::exact_start(self.0, start)
    }

    fn exact_step(&self, state: &mut ExactState) -> Result<(), Error> {
        Model::exact_step(self.0, state)
    }

    fn certified_ball(&self, w: &Gaussian) -> Result<Result<Local, Declined>, Error> {
        self.0.certified_ball(w)
    }

    fn dense(&self) -> Option<&Glm> {
        Some(self.0)
    }

    fn ranks(&self) -> Option<&dyn Ranks> {
        Model::ranks(self.0)
    }
}
