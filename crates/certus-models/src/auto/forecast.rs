//! What the theorems say of the paper's methods and ours on a model, before a run: with the paper's constants, our
//! global ones, and those of the certified ball around the Laplace approximation.

use certus::theorem::{Constants, Local, Problem};
use certus::{Curvature, Family, Forecast, Goal, MethodName, StepRule};

use super::{Model, PlannedMethod};
use crate::certificate::iterations_with_b4;
use crate::error::Error;

/// The constants a forecast is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Global, the paper's, errata corrected.
    Paper,
    /// Global, ours (B2 to B6).
    Sharp,
    /// Those of a certified ball (Theorem G).
    Local,
}

impl Basis {
    /// The word of the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Basis::Paper => "paper",
            Basis::Sharp => "sharp",
            Basis::Local => "local",
        }
    }
}

/// A method with constants, and what its theorem says, or why there is none.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The method.
    pub method: MethodName,
    /// Its constants.
    pub basis: Basis,
    /// The paper's steps with the paper's constants, greedy steps with ours.
    pub forecast: Result<Forecast, String>,
}

/// The forecasts of a model.
#[derive(Clone, Debug)]
pub struct Forecasts {
    /// μ and M, or why there are none.
    pub curvature: Result<Curvature, String>,
    /// The certified ball, or why there is none.
    pub ball: Result<Local, String>,
    /// Every method with every set of constants that it has.
    pub each: Vec<Prediction>,
    /// Iterations of [`MethodName::ProjStl`] for the gap with the paper's a and our noise at the optimum (B4).
    pub with_b4: Option<u64>,
    dim: usize,
    family: Family,
}

/// The combinations, in the order in which they are shown.
const COMBINATIONS: [(MethodName, Basis); 8] = [
    (MethodName::ProxEnergy, Basis::Paper),
    (MethodName::ProxEnergy, Basis::Sharp),
    (MethodName::ProjEntropy, Basis::Paper),
    (MethodName::ProjEntropy, Basis::Sharp),
    (MethodName::ProjStl, Basis::Paper),
    (MethodName::ProjStl, Basis::Sharp),
    (MethodName::ProxCv, Basis::Sharp),
    (MethodName::BallStl, Basis::Local),
];

impl Forecasts {
    /// Of `iterations` steps of `batch` draws. Takes one pass for μ and M, and those of the Laplace approximation and
    /// of the ball around it.
    pub fn new(model: &dyn Model, goal: &Goal, batch: usize, iterations: u64) -> Result<Self, Error> {
        goal.validate()?;
        certus::parallel::install(goal.threads, || Self::of(model, goal, batch, iterations))
            .map_err(Error::from)
    }

    fn of(model: &dyn Model, goal: &Goal, batch: usize, iterations: u64) -> Self {
        let curvature = model.curvature().ok_or_else(|| {
            "there is no M: the second derivative of the loss is not bounded, or is not finite".to_string()
        });
        let ball = model
            .laplace_start(goal.start.as_deref())
            .and_then(|start| model.certified_ball(&start.gaussian));
        let ball = match ball {
            Ok(ball) => ball.map_err(|declined| declined.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let ball = ball.and_then(|local| match local.vouched() {
            Some(_) => Ok(local),
            None => Err(
                "the constants of the ball are only estimated, because the quadrature of the loss is not \
                proved"
                    .into(),
            ),
        });
        let mut out = Self {
            curvature,
            ball,
            each: Vec::new(),
            with_b4: None,
            dim: model.dim(),
            family: model.family(),
        };
        out.each = COMBINATIONS
            .iter()
            .map(|&(method, basis)| {
                let steps = if basis == Basis::Paper { StepRule::Paper } else { StepRule::Greedy };
                Prediction { method, basis, forecast: out.forecast(method, basis, steps, batch, iterations) }
            })
            .collect();
        out.with_b4 =
            out.problem(MethodName::ProjStl, batch).ok().and_then(|p| iterations_with_b4(&p, goal.gap));
        out
    }

    /// Of a run that was chosen.
    pub fn chosen(&self, chosen: &PlannedMethod) -> Prediction {
        let basis = match (chosen.method, chosen.constants) {
            (MethodName::BallStl, _) => Basis::Local,
            (_, Constants::Paper) => Basis::Paper,
            (_, Constants::Sharp) => Basis::Sharp,
        };
        let PlannedMethod { method, steps, batch, iterations, .. } = *chosen;
        Prediction { method, basis, forecast: self.forecast(method, basis, steps, batch, iterations) }
    }

    fn problem(&self, method: MethodName, batch: usize) -> Result<Problem, String> {
        let symmetric = method.family() == Family::Symmetric;
        let family = if symmetric { &Family::Symmetric } else { &self.family };
        Ok(Problem::new(self.dim, self.curvature.as_ref().map_err(Clone::clone)?, family, batch))
    }

    fn forecast(
        &self,
        method: MethodName,
        basis: Basis,
        steps: StepRule,
        batch: usize,
        iterations: u64,
    ) -> Result<Forecast, String> {
        let constants = match basis {
            Basis::Local => {
                let local = self.ball.as_ref().map_err(Clone::clone)?;
                return Forecast::local(local, batch, steps, iterations).map_err(|e| e.to_string());
            }
            Basis::Paper => Constants::Paper,
            Basis::Sharp => Constants::Sharp,
        };
        let problem = self.problem(method, batch)?;
        if problem.strong_convexity <= 0.0 && basis == Basis::Sharp {
            return Err("μ = 0: these theorems need a proper prior for every coefficient".into());
        }
        Forecast::global(method, constants, &problem, steps, iterations).map_err(|e| e.to_string())
    }
}
