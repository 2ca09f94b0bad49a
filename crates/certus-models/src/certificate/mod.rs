//! How far a Gaussian is from the best one, for models: deterministic bounds from exact gradients, with allowances for
//! quadrature and rounding (docs/certificates.md).

mod ball;
pub(crate) mod bracket;
pub(crate) mod dense;
pub(crate) mod placed;
pub(crate) mod row;
pub(crate) mod theorem;

use certus::certificate::{Gap, Statement, family_name};
use certus::{Gaussian, Provenance};

use crate::error::Error;
use crate::glm::Glm;
pub use ball::{Iterations, iterations_with_b4};
pub use bracket::{Certified, Reference, Value};
use certus_likelihood::Likelihood;
use certus_likelihood::internals::vouched_by;
use theorem::Search;

/// What is assumed where nothing is allowed for but everything bounded.
pub(crate) const RIGOROUS: &str =
    "curvature computed from the model and the data in ball arithmetic, which includes every rounding error";
/// What is assumed: everything else is computed.
const ASSUMPTION: &str =
    "curvature computed from the model and the data, with quadrature and rounding allowed for";

impl Glm {
    /// How far f(w) is from its least value over all Gaussians, or over the pattern of w's factor.
    pub fn gap(&self, w: &Gaussian) -> Result<Gap, Error> {
        let search = dense::Dense::new(self, w).and_then(|at| theorem::search(&at));
        gap(search, family_name(w.factor()), &*self.likelihood)
    }
}

/// Every bound of a search and the global one, with their theorems.
pub(crate) fn all_bounds(at: &impl theorem::Surroundings) -> Result<Vec<(&'static str, f64)>, Error> {
    let mut found = theorem::search(at)?.found;
    if !found.iter().any(|f| f.theorem.starts_with("D1")) {
        found.extend(theorem::everywhere(at)?);
    }
    Ok(found.iter().map(|f| (f.theorem, f.gap)).collect())
}

/// An error of sds that says something.
pub(crate) fn useful(error: f64) -> Option<f64> {
    (error < 1.0).then_some(error)
}

/// The smallest of the bounds found, at the level the likelihood allows.
pub(crate) fn gap(
    search: Result<Search, Error>,
    family: String,
    likelihood: &dyn Likelihood,
) -> Result<Gap, Error> {
    let Search { found, declined } = match search {
        Err(Error::NotFinite(reason)) => return Ok(Gap::none(family, reason.to_string())),
        other => other?,
    };
    let smallest =
        |of: &dyn Fn(&theorem::GapBound) -> f64| found.iter().map(of).fold(f64::INFINITY, f64::min);
    let (mean, factor) = (smallest(&|f| f.mean), smallest(&|f| f.factor));
    let Some(best) = found.iter().min_by(|a, b| a.gap.total_cmp(&b.gap)) else {
        let reason = declined.unwrap_or_else(|| "no theorem applies".into());
        return Ok(Gap::none(family, format!("{reason}, and the prior alone does not bound f")));
    };
    let mut statement = Statement::by(&vouched_by(likelihood), best.theorem, best.gap, ASSUMPTION);
    for &(name, value) in &best.constants {
        statement = statement.with(name, value);
    }
    if !likelihood.strip_is_proved() {
        let name = likelihood.name();
        let what = format!("the trapezoid rule for {name} is as accurate as it was in tests");
        statement = statement
            .assuming(what, Provenance::Estimated)
            .because(format!("the error of the trapezoid rule for {name} is not proved"));
    } else if let Some(declined) = declined {
        statement = statement.because(declined);
    }
    let mean_error = mean.is_finite().then_some(mean);
    Ok(Gap { statement, family, mean_error, sd_error: useful(factor) })
}
