//! The state of a run on a model, its one `step`, and its bytes.

use certus::Goal;
use certus::auto::Counts;
use certus::bytes::{Reader, Writer, bad};
use certus::fit::Status;
use certus::moving::MovingMemory;

use super::exact_pass::{ExactPass, read_gaussian, write_gaussian};
use super::stochastic::Stochastic;
use super::{Method, Model, Route};
use crate::error::{Error, NotFinite};
use crate::newton::ExactState;

/// Means and standard deviations are proved to be this close, in standard deviations, before the exact route ends.
const CLOSE: f64 = 0.01;
/// The exact route looks for a certificate once the step before started from a decrement below this: quadratic
/// convergence leaves less than its square.
const NEAR: f64 = 0.02;
/// The same where a look costs as much as many steps: conjugate gradients leave a hundredth, and a look should be the
/// last.
const NEARER: f64 = 2e-3;
/// d from which it does.
const COSTLY: usize = 5000;

/// All that a run carries from one step to the next. It holds no clock, host or thread count.
#[derive(Clone, Debug)]
pub struct ModelState {
    asked: Method,
    route: Route,
    counts: Counts,
    stage: Stage,
    /// The best Gaussian that was looked at.
    pass: Option<ExactPass>,
    ended: Option<(Status, String)>,
}

#[derive(Clone, Debug)]
enum Stage {
    Exact(ExactState),
    Stochastic(Box<Stochastic>),
}

impl ModelState {
    /// Chooses the route and finds the Laplace approximation.
    pub fn new(model: &dyn Model, goal: &Goal, method: Method) -> Result<Self, Error> {
        goal.validate()?;
        let start = model.laplace_start(goal.start.as_deref())?;
        let mut counts =
            Counts { gradients: start.gradients as u64, hessians: start.hessians as u64, exact_passes: 0 };
        let route = Route::of(method, model.size());
        let stage = match route.method {
            Method::Stochastic => Stage::Stochastic(Box::new(Stochastic::new(&start.gaussian))),
            _ => {
                let state = model.exact_start(&start.gaussian)?;
                counts.exact_passes = state.passes as u64;
                Stage::Exact(state)
            }
        };
        Ok(Self { asked: method, route, counts, stage, pass: None, ended: None })
    }

    /// One step: of Newton-CG with a certificate where it may be the last one; or one stochastic step or exact pass.
    /// Nothing happens after the run has ended.
    pub fn step(&mut self, model: &dyn Model, goal: &Goal, memory: &mut MovingMemory) -> Result<(), Error> {
        if self.ended.is_some() {
            return Ok(());
        }
        match &mut self.stage {
            Stage::Exact(state) => {
                let before = state.passes;
                model.exact_step(state)?;
                self.counts.exact_passes += (state.passes - before) as u64;
                let enough = if model.size().dim > COSTLY { NEARER } else { NEAR };
                let (done, near) = (state.done, state.decrement < enough);
                if done || near {
                    self.look_again(model)?;
                    self.ended = self.judge(goal, done);
                }
            }
            Stage::Stochastic(run) => {
                let Some(pass) = run.step(model, goal, &mut self.counts, memory)? else { return Ok(()) };
                self.keep(pass);
                self.ended = self.judge(goal, false);
                self.plan_on(model, goal)?;
            }
        }
        Ok(())
    }

    /// Certifies where the run is now.
    fn look_again(&mut self, model: &dyn Model) -> Result<(), Error> {
        let (gaussian, exact) = match &mut self.stage {
            Stage::Exact(state) => (state.gaussian.clone(), Some(state.neg_elbo)),
            Stage::Stochastic(run) => (run.current()?, None),
        };
        self.counts.exact_passes += 1;
        let pass = match exact {
            Some(neg_elbo) => ExactPass::knowing(model, gaussian, neg_elbo)?,
            None => ExactPass::new(model, gaussian)?,
        };
        if exact.is_some() {
            // the exact route only ever gets better
            self.pass = None;
        }
        self.keep(pass);
        Ok(())
    }

    fn keep(&mut self, pass: ExactPass) {
        if self.pass.as_ref().is_none_or(|best| pass.bound() <= best.bound()) {
            self.pass = Some(pass);
        }
    }

    /// The end, if the best look says so; `done` if nothing moves any more.
    fn judge(&self, goal: &Goal, done: bool) -> Option<(Status, String)> {
        let pass = self.pass.as_ref()?;
        let close = |error: Option<f64>| error.is_some_and(|e| e <= CLOSE);
        let exact = matches!(self.stage, Stage::Exact(_));
        let enough = !exact || done || (close(pass.gap.mean_error) && close(pass.gap.sd_error));
        if pass.reaches(goal) && enough {
            return Some((Status::Reached, pass.said()));
        }
        done.then(|| (Status::NoProgress, format!("stopped by rounding error: {}", pass.said())))
    }

    /// What a stochastic run does after a pass that did not end it.
    fn plan_on(&mut self, model: &dyn Model, goal: &Goal) -> Result<(), Error> {
        let (Stage::Stochastic(run), Some(pass), None) = (&mut self.stage, &self.pass, &self.ended) else {
            return Ok(());
        };
        if !run.plan_on(model, goal, &mut self.counts, pass)? {
            self.ended = Some((Status::Limit, format!("all exact passes were used: {}", pass.said())));
        }
        Ok(())
    }

    /// Looks at a run that was stopped between two looks; a limit is forgiven if the goal is reached.
    pub(super) fn conclude(
        &mut self,
        model: &dyn Model,
        goal: &Goal,
        status: Status,
        message: String,
    ) -> Result<(Status, String), Error> {
        let fresh = match &self.stage {
            Stage::Exact(state) => self.pass.as_ref().is_none_or(|pass| pass.gaussian != state.gaussian),
            Stage::Stochastic(run) => run.unseen(&self.counts) || self.pass.is_none(),
        };
        if self.ended.is_none() && fresh {
            match self.look_again(model) {
                // what made the run stop may forbid a look too
                Err(Error::NotFinite(_)) if self.pass.is_some() => {}
                // nothing can be certified any more: what was certified before is better than the last iterate
                Err(e) if e.is_stopped() => {
                    if self.pass.is_none() {
                        self.pass = Some(match &self.stage {
                            Stage::Exact(state) => {
                                ExactPass::uncertified(state.gaussian.clone(), state.neg_elbo)
                            }
                            Stage::Stochastic(run) => ExactPass::uncertified(run.current()?, f64::NAN),
                        });
                    }
                }
                other => other?,
            }
            let end = self.judge(goal, false);
            if let (Status::Limit, Some(end)) = (&status, end) {
                return Ok(end);
            }
        }
        match &self.pass {
            Some(pass) if self.ended.is_none() => Ok((status, format!("{message}: {}", pass.said()))),
            _ => Ok((status, message)),
        }
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<&(Status, String)> {
        self.ended.as_ref()
    }

    /// What was spent.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Steps taken.
    pub fn iteration(&self) -> u64 {
        match &self.stage {
            Stage::Exact(state) => state.iterations as u64,
            Stage::Stochastic(run) => run.iteration(),
        }
    }

    /// Single-point gradients of the next step.
    pub fn next_gradients(&self) -> u64 {
        match &self.stage {
            Stage::Exact(_) => 0,
            Stage::Stochastic(run) => run.next_gradients(),
        }
    }

    pub(super) fn pass(&self) -> Option<&ExactPass> {
        self.pass.as_ref()
    }

    /// What was chosen and why, and what came of it.
    pub(super) fn described(&self) -> String {
        match &self.stage {
            Stage::Exact(_) => self.route.why.clone(),
            Stage::Stochastic(run) => format!("{}; {}", self.route.why, run.described(&self.counts)),
        }
    }

    pub(super) fn into_result(self) -> Result<(ExactPass, Counts), Error> {
        let pass = self.pass.ok_or(NotFinite::NoIterate)?;
        Ok((pass, self.counts))
    }
}

const MAGIC: &[u8; 16] = b"certus model v1\n";

impl ModelState {
    /// The state as bytes. What can be computed again from the model (values of f, certificates, constants of balls) is
    /// not in them, so that bytes cannot claim what the model does not confirm.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(MAGIC);
        out.count(self.asked as u64);
        for count in [self.counts.gradients, self.counts.hessians, self.counts.exact_passes] {
            out.count(count);
        }
        out.count(u64::from(self.pass.is_some()));
        if let Some(pass) = &self.pass {
            write_gaussian(&mut out, &pass.gaussian);
        }
        match &self.stage {
            Stage::Exact(state) => {
                out.count(0);
                write_gaussian(&mut out, &state.gaussian);
                for count in [state.iterations, state.products, state.passes, usize::from(state.done)] {
                    out.count(count as u64);
                }
                // infinite before the first step
                out.numbers([&state.decrement.min(f64::MAX)]);
            }
            Stage::Stochastic(run) => {
                out.count(1);
                run.write(&mut out);
            }
        }
        out.finish()
    }

    /// The state that [`ModelState::encode`] wrote, for the same model and goal.
    pub fn decode(bytes: &[u8], model: &dyn Model, goal: &Goal) -> Result<Self, Error> {
        goal.validate()?;
        let mut words = Reader::new(bytes, MAGIC)?;
        let asked = [Method::Auto, Method::Exact, Method::Stochastic];
        let asked = *asked.get(words.count()? as usize).ok_or_else(|| bad("its method is unknown"))?;
        let (gradients, hessians, exact_passes) = (words.count()?, words.count()?, words.count()?);
        let counts = Counts { gradients, hessians, exact_passes };
        let pass = match words.count()? {
            0 => None,
            1 => Some(ExactPass::new(model, read_gaussian(&mut words, model)?)?),
            _ => return Err(bad("the flag of its look is neither 0 nor 1").into()),
        };
        let stage = match words.count()? {
            0 => {
                let start = read_gaussian(&mut words, model)?;
                let mut state = model.exact_start(&start)?;
                if state.gaussian != start {
                    return Err(bad("f is not finite at its Gaussian").into());
                }
                let mut count = || words.count().map(|c| c as usize);
                (state.iterations, state.products, state.passes) = (count()?, count()?, count()?);
                state.done = count()? == 1;
                let decrement = words.number()?;
                state.decrement = if decrement == f64::MAX { f64::INFINITY } else { decrement };
                Stage::Exact(state)
            }
            1 => Stage::Stochastic(Box::new(Stochastic::read(&mut words, model, goal)?)),
            _ => return Err(bad("its stage is unknown").into()),
        };
        words.finish()?;
        let route = Route::of(asked, model.size());
        if matches!(stage, Stage::Stochastic(_)) != (route.method == Method::Stochastic) {
            return Err(bad("it belongs to another route").into());
        }
        let mut state = Self { asked, route, counts, stage, pass, ended: None };
        state.end_as_before(model, goal)?;
        Ok(state)
    }

    /// A state that was saved after its end has ended.
    fn end_as_before(&mut self, model: &dyn Model, goal: &Goal) -> Result<(), Error> {
        let done = match &self.stage {
            Stage::Exact(state) => {
                if let Some(pass) = self.pass.as_mut().filter(|pass| pass.gaussian == state.gaussian) {
                    pass.neg_elbo = state.neg_elbo;
                }
                state.done
            }
            Stage::Stochastic(run) => {
                if run.is_over(&self.counts) {
                    self.plan_on(model, goal)?;
                }
                false
            }
        };
        self.ended = self.judge(goal, done).or(self.ended.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Design, Glm, Memory, Prior};
    use certus_likelihood::Logistic;
    use std::sync::Arc;

    /// A gap that is proved does not end the exact route while the optimum may be more than 0.01 sd away, unless
    /// nothing moves any more.
    #[test]
    fn the_exact_route_wants_more_than_the_gap() {
        let wave = |k: usize| (k as f64 * 1.3).sin() + (k as f64 * 0.37).cos();
        let rows = Memory {
            x: (0..180).map(wave).collect(),
            y: (0..60).map(|i| f64::from(u8::from(i % 3 == 0))).collect(),
            columns: 3,
            ..Memory::default()
        };
        let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).expect("a prior");
        let model = Glm::new(Design::new(Arc::new(rows), false), Arc::new(Logistic), prior).expect("a model");
        let goal = Goal { gap: 10.0, ..Goal::default() };
        let mut state = ModelState::new(&model, &goal, Method::Exact).expect("a mode");
        state.look_again(&model).expect("finite");
        let error = state.pass.as_ref().and_then(|pass| pass.gap.mean_error).expect("a bound");
        assert!(error > 0.01 && error < 0.4, "{error}");
        assert!(state.judge(&goal, false).is_none());
        assert_eq!(state.judge(&goal, true).expect("done").0, Status::Reached);
        let strict = Goal { gap: 1e-9, ..goal.clone() };
        assert_eq!(state.judge(&strict, true).expect("done").0, Status::NoProgress);
        // the stochastic route is content with the gap
        let run = Stage::Stochastic(Box::new(Stochastic::new(&state.pass.clone().expect("a look").gaussian)));
        state.stage = run;
        assert_eq!(state.judge(&goal, false).expect("enough").0, Status::Reached);
    }
}
