//! Many posteriors: one model per value of a key column, each with the numbers that a fit of its own rows alone would
//! have.
//!
//! [`Many::new`] reads the key column; [`Many::run`] reads the rows of the requested chunks, sorted by group, and fits
//! them, a group per thread. A chunk is a run of consecutive groups ([`Chunks`]), a function of the keys alone: it does
//! not matter which process fits it.

mod chunks;
pub mod files;
mod run;

pub use certus_data::by_key::{Gathered, Key, Keys};
pub use chunks::Chunks;
pub use run::{ManyObserver, ManySettings, ManyStatus};

use std::ops::ControlFlow;

use certus::certificate::Level;
use certus::fit::Status;
use certus::{Goal, Outcome};

use crate::error::{Error, ErrorKind};
use crate::level::RequiredLevel;
use crate::method_choice::MethodChoice;
use crate::problem::Problem;
use crate::refusal::{NeededBy, RequestError};
use crate::request::Request;
use certus_data::DataError;
use certus_data::leaves::Storage;
use certus_data::table::Source;
use certus_data::terms::Terms;

/// What became of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupFit {
    /// Which group.
    pub group: usize,
    /// Its rows, without those that were dropped for missing values where it could be fitted.
    pub rows: usize,
    /// How it ended.
    pub status: Status,
    /// The bound on the gap, if there is one, and its level.
    pub bound: Option<f64>,
    /// proved, probable, estimated or none.
    pub level: &'static str,
    /// The negative ELBO, if there is a fit.
    pub neg_elbo: Option<f64>,
    /// What the fit, or the reason for none, says.
    pub message: String,
    /// Name, mean and sd of every parameter, on the user's scale.
    pub parameters: Vec<(String, f64, f64)>,
}

/// A request to be answered once per group.
pub struct Many {
    request: Request,
    keys: Keys,
    /// Columns of the source that models need.
    wanted: Vec<usize>,
    /// Parameters that every group has unless a column of it is constant.
    parameters: Vec<String>,
}

impl Many {
    /// Refuses what is wrong for every group, and reads the key column `by`.
    pub fn new(source: &dyn Source, request: &Request, by: &str) -> Result<Self, Error> {
        let mut request = request.clone();
        request.spec.by = vec![by.to_string()];
        if let Some(own) = request.own() {
            let (parameter, by) = (own.name(), NeededBy::Many);
            return Err(RequestError::NotGiven { parameter, by }.into());
        }
        if let Some(group) = request.spec.groups.first() {
            return Err(RequestError::GroupInMany { group: group.to_string() }.into());
        }
        request.refuse()?;
        let terms = Terms::of(source, &request.spec)?;
        // a group may have one of the two levels only
        if let Some(event) = terms.event(source, &request.spec)? {
            request.spec.event = Some(event.level);
        }
        let keys = Keys::read(source, by, request.spec.missing)?;
        let intercept = request.spec.intercept.then(|| "(Intercept)".to_string());
        let parameters = intercept.into_iter().chain(terms.single()).collect();
        Ok(Self { request, keys, wanted: terms.wanted, parameters })
    }

    /// The groups.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Names of the parameters that come first in a table of results, whichever groups have them.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// Bytes that one row takes.
    pub fn row_bytes(&self) -> usize {
        8 * self.wanted.len()
    }

    /// The rows of the groups that `choose` chooses.
    pub fn gather<'a>(
        &'a self,
        source: &'a dyn Source,
        choose: &dyn Fn(usize) -> bool,
    ) -> Result<Gathered<'a>, DataError> {
        Gathered::read(source, &self.keys, &self.wanted, choose)
    }

    /// One group as a problem of its own: what [`Problem::new`] makes of a source with its rows alone.
    pub fn problem(&self, rows: &Gathered<'_>, g: usize) -> Result<Problem, Error> {
        Problem::new(&rows.group(&self.keys, g), &self.request, &Storage::default())
    }

    /// Fits one group; `None` if `stop` ended it before there was a result.
    pub fn fit(
        &self,
        rows: &Gathered<'_>,
        g: usize,
        goal: &Goal,
        choice: &MethodChoice,
        level: Option<RequiredLevel>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<GroupFit>, Error> {
        let goal = Goal { model_key: self.keys.key(g).model_key(), threads: None, ..goal.clone() };
        let problem = match self.problem(rows, g) {
            Ok(problem) => problem,
            Err(error) => return self.failed(g, self.keys.rows(g), error, String::new()).map(Some),
        };
        let mut observer = |_: &certus::auto::TracePoint, _: &dyn Fn() -> Vec<u8>| {
            if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut outcome = match problem.run_gaussian(&goal, choice, None, &mut observer) {
            Ok(Outcome { status: Status::Interrupted, .. }) => return Ok(None),
            Ok(outcome) => outcome,
            Err(error) => {
                let witness = problem.witness(&error);
                return self.failed(g, problem.prepared.rows_used, error.into(), witness).map(Some);
            }
        };
        if let Some(level) = level {
            level.judge(&mut outcome);
        }
        let named = problem.quantities.iter().zip(problem.on_user_scale(&outcome.gaussian));
        let gap = &outcome.certificate.gap.statement;
        Ok(Some(GroupFit {
            group: g,
            rows: problem.prepared.rows_used,
            bound: gap.bound(),
            level: level_name(gap.level()),
            neg_elbo: Some(outcome.neg_elbo.value),
            parameters: named.map(|(q, n)| (q.name.clone(), n.mean, n.sd)).collect(),
            status: outcome.status,
            message: outcome.message,
        }))
    }

    /// A group that can't be fitted says why and does not stop the others; what can't be read stops everything.
    fn failed(&self, group: usize, rows: usize, error: Error, witness: String) -> Result<GroupFit, Error> {
        let status = match error.kind() {
            ErrorKind::NotFinite => Status::NonFinite,
            ErrorKind::NotIdentified => Status::AssumptionViolated,
            ErrorKind::Request | ErrorKind::Data => Status::UserError,
            _ => return Err(error),
        };
        Ok(GroupFit {
            group,
            rows,
            status,
            bound: None,
            level: level_name(Level::None),
            neg_elbo: None,
            message: format!("{error}{witness}"),
            parameters: Vec::new(),
        })
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Proved => "proved",
        Level::Probable { .. } => "probable",
        Level::Estimated => "estimated",
        Level::None => "none",
    }
}
