//! The stochastic route: steps in the moving frame, exact passes that certify its average, and, if they do not suffice,
//! sticking the landing in a certified ball for the number of iterations that Theorem G promises.
//!
//! DIFFERENCE: the paper has no theory for sticking the landing from where it starts here, where the control variate
//! (B6) would be used; in the frame that moves with the iterate the two are the same estimator (docs/maths.md, part J).

use certus::auto::Counts;
use certus::bytes::{Reader, Writer, bad};
use certus::certificate::counted;
use certus::frame::{Frame, Framed};
use certus::moving::{Moving, MovingMemory};
use certus::random::{Purpose, Random};
use certus::schedule::Schedule;
use certus::theorem::Theorem;
use certus::{Factor, Gaussian, Goal, MethodName, Plan, Settings, State};

use super::Model;
use super::exact_pass::{ExactPass, read_gaussian, write_gaussian};
use crate::error::Error;

/// Exact passes of a run.
const PASSES: u64 = 10;
/// Those after which the rest is kept for the ball.
const MOVING_PASSES: u64 = 8;
/// Pairs of the first steps and of those in the ball; pairs of a step are at most an eighth of the pairs seen, so that
/// they grow only when steps have become short.
const PAIRS: u64 = 8;
/// Pairs before the first pass after the one at the start, at least.
const FIRST: u64 = 32;
/// Passes are skipped only up to this many times the pairs of the first one: beyond, a large bound says more of the
/// theorems than of the run.
const SKIP: u64 = 64;
/// The ball is left alone if Theorem G promises the gap only after this many times the gradients spent.
const PATIENCE: u64 = 64;
/// Tells the draws in the ball from those that chose its centre.
const BALL_KEY: u64 = 0x6261_6c6c_0000_0000;

/// The state of the stochastic route.
#[derive(Clone, Debug)]
pub(super) struct Stochastic {
    moving: Moving,
    /// Pairs seen.
    pairs: u64,
    /// Pairs at which the next pass is due.
    next: u64,
    /// The run in the ball, once there is one.
    ball: Option<Ball>,
}

/// Sticking the landing in the ball around a certified centre.
#[derive(Clone, Debug)]
struct Ball {
    center: Gaussian,
    plan: Plan,
    state: State,
    /// The iterations that bring the expected gap below the goal.
    promised: u64,
}

impl Stochastic {
    pub(super) fn new(start: &Gaussian) -> Self {
        Self { moving: Moving::new(start), pairs: 0, next: 0, ball: None }
    }

    /// An exact pass if one is due, else a step.
    pub(super) fn step(
        &mut self,
        model: &dyn Model,
        goal: &Goal,
        counts: &mut Counts,
        memory: &mut MovingMemory,
    ) -> Result<Option<ExactPass>, Error> {
        if self.is_due() {
            counts.exact_passes += 1;
            return Ok(Some(ExactPass::new(model, self.current()?)?));
        }
        counts.gradients += self.next_gradients();
        if let Some(ball) = &mut self.ball {
            ball.step(model)?;
            return Ok(None);
        }
        let (random, pairs) = (Random::new(goal.seed, Purpose::Step, goal.model_key), self.pairs_of_step());
        self.moving.step(model, &random, pairs as usize, memory)?;
        self.pairs += pairs;
        self.restart_average();
        Ok(None)
    }

    fn is_due(&self) -> bool {
        self.pairs_now() == self.next
    }

    /// What the passes are counted by: pairs, or iterations in the ball.
    fn pairs_now(&self) -> u64 {
        self.ball.as_ref().map_or(self.pairs, |ball| ball.state.iteration())
    }

    /// A power of two, so that sums of steps meet the passes.
    fn pairs_of_step(&self) -> u64 {
        let most = (self.pairs / 8).max(PAIRS);
        1 << most.ilog2()
    }

    /// Averages are over the second half of the pairs.
    fn restart_average(&mut self) {
        if 2 * self.pairs == self.next {
            self.moving.restart_average();
        }
    }

    /// What a pass would look at.
    pub(super) fn current(&self) -> Result<Gaussian, Error> {
        match &self.ball {
            Some(ball) => ball.current(),
            None => Ok(self.moving.averaged()?),
        }
    }

    /// True if there were steps since the last pass and there is a pass left.
    pub(super) fn unseen(&self, counts: &Counts) -> bool {
        !self.is_due() && self.pairs_now() > 0 && counts.exact_passes < PASSES
    }

    /// True if a pass was made where the run is, and the next one is not chosen yet.
    pub(super) fn is_over(&self, counts: &Counts) -> bool {
        self.is_due() && counts.exact_passes >= PASSES
    }

    /// Chooses the next pass; false if there is none left.
    pub(super) fn plan_on(
        &mut self,
        model: &dyn Model,
        goal: &Goal,
        counts: &mut Counts,
        best: &ExactPass,
    ) -> Result<bool, Error> {
        if counts.exact_passes >= PASSES {
            return Ok(false);
        }
        if let Some(ball) = &self.ball {
            self.next = ball.promised;
            return Ok(true);
        }
        if counts.exact_passes == MOVING_PASSES {
            self.ball = Ball::new(model, goal, &best.gaussian)?
                .filter(|ball| 2 * PAIRS * ball.promised <= PATIENCE * counts.gradients);
            if let Some(ball) = &self.ball {
                // a plan looks at the slope at its start
                counts.gradients += ball.state.gradients();
                self.next = ball.promised.div_ceil(2);
                return Ok(true);
            }
        }
        let first = FIRST.max((self.moving.noise_factor() as u64).next_power_of_two());
        self.next = match self.pairs {
            0 => first,
            pairs => (2 * pairs).max((pairs * skipped(best.bound() / goal.gap)).min(SKIP * first)),
        };
        self.restart_average();
        Ok(true)
    }

    pub(super) fn iteration(&self) -> u64 {
        self.moving.iteration() + self.ball.as_ref().map_or(0, |ball| ball.state.iteration())
    }

    pub(super) fn next_gradients(&self) -> u64 {
        match &self.ball {
            _ if self.is_due() => 0,
            Some(_) => 2 * PAIRS,
            None => 2 * self.pairs_of_step(),
        }
    }

    /// What came of it.
    pub(super) fn described(&self, counts: &Counts) -> String {
        let passes = counted(counts.exact_passes, "exact pass");
        match &self.ball {
            Some(ball) => format!(
                "after {} pairs of draws a ball was certified in which {} iterations of {PAIRS} pairs bring the \
                    expected gap below the goal (Theorem G); {} were run; {passes}",
                self.pairs,
                ball.promised,
                ball.state.iteration()
            ),
            None => format!("{} pairs of draws, {passes}", self.pairs),
        }
    }

    pub(super) fn write(&self, out: &mut Writer) {
        self.moving.write(out);
        out.count(self.pairs);
        out.count(self.next);
        out.count(u64::from(self.ball.is_some()));
        if let Some(ball) = &self.ball {
            write_gaussian(out, &ball.center);
            let bytes = ball.state.encode();
            out.count(bytes.len() as u64);
            bytes.as_chunks::<8>().0.iter().for_each(|word| out.count(u64::from_le_bytes(*word)));
        }
    }

    pub(super) fn read(words: &mut Reader<'_>, model: &dyn Model, goal: &Goal) -> Result<Self, Error> {
        let like = Gaussian::isotropic(vec![0.0; model.dim()], 1.0, &model.family())?;
        let moving = Moving::read(words, &like)?;
        let (pairs, next) = (words.count()?, words.count()?);
        let ball = match words.count()? {
            0 => None,
            1 => {
                let center = read_gaussian(words, model)?;
                let ball = Ball::new(model, goal, &center)?.ok_or_else(|| bad("its ball is not one"))?;
                let length = words.count()? / 8;
                let mut bytes = Vec::new();
                for _ in 0..length {
                    bytes.extend_from_slice(&words.count()?.to_le_bytes());
                }
                let state = State::decode(&bytes, &ball.state)?;
                Some(Ball { state, ..ball })
            }
            _ => return Err(bad("the mark of its ball is neither 0 nor 1").into()),
        };
        let out = Self { moving, pairs, next, ball };
        if out.pairs_now() > out.next {
            return Err(bad("it is beyond its next pass").into());
        }
        Ok(out)
    }
}

/// How many times the pairs seen the next pass comes: the root of how far the bound is from the goal, because the gap
/// falls at least like one over the pairs and a large bound falls faster; a power of two from 2 to 16.
fn skipped(ratio: f64) -> u64 {
    if !ratio.is_finite() {
        return 2;
    }
    (ratio.sqrt().clamp(2.0, 16.0).ceil() as u64).next_power_of_two()
}

impl Ball {
    /// The ball around `center` with the plan of Theorem G; `None` if there is no ball, or no promise in it.
    fn new(model: &dyn Model, goal: &Goal, center: &Gaussian) -> Result<Option<Self>, Error> {
        let Ok(local) = model.certified_ball(center)? else { return Ok(None) };
        let (theorem, epsilon) = (Theorem::ball(&local, PAIRS as usize), 2.0 * goal.gap / local.smoothness());
        let promised = theorem.iterations(local.initial_distance_squared(), &Schedule::Greedy, epsilon);
        let Some(promised) = promised.filter(|n| *n > 0) else { return Ok(None) };
        let settings = Settings {
            method: MethodName::BallStl,
            batch: PAIRS as usize,
            antithetic: true,
            iterations: promised,
            local: Some(local),
            seed: goal.seed,
            model_key: goal.model_key ^ BALL_KEY,
            ..Settings::default()
        };
        let plan = Plan::new(&framed(model, center)?, &settings)?;
        let state = plan.start();
        Ok(Some(Self { center: center.clone(), plan, state, promised }))
    }

    fn step(&mut self, model: &dyn Model) -> Result<(), Error> {
        self.plan.step(&framed(model, &self.center)?, &mut self.state, &mut self.plan.memory())?;
        Ok(())
    }

    fn current(&self) -> Result<Gaussian, Error> {
        Ok(Frame::of(&self.center)?.to_original(self.plan.returned(&self.state))?)
    }
}

/// The model in the frame in which `center` is the standard normal.
fn framed<'a>(model: &'a dyn Model, center: &Gaussian) -> Result<Framed<'a>, Error> {
    debug_assert!(!matches!(center.factor(), Factor::Pattern(_)), "balls are dense");
    Ok(Framed::new(model, Frame::of(center)?, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use certus::Family;

    /// Steps meet every pass, whatever was skipped, and averages begin half way.
    #[test]
    fn steps_meet_passes() {
        assert_eq!([0.5, 3.0, 17.0, 65.0, 1e9, f64::INFINITY].map(skipped), [2, 2, 8, 16, 16, 2]);
        let start = Gaussian::isotropic(vec![0.0; 3], 1.0, &Family::Lower).expect("proper");
        for factors in [[2, 2, 2, 2], [16, 4, 2, 2], [4, 8, 2, 16]] {
            let mut run = Stochastic { pairs: 0, next: FIRST, ..Stochastic::new(&start) };
            for factor in factors {
                let mut met = 2 * run.pairs == run.next;
                while !run.is_due() {
                    let pairs = run.pairs_of_step();
                    assert!(pairs == PAIRS || 8 * pairs <= run.pairs);
                    run.pairs += pairs;
                    met |= 2 * run.pairs == run.next;
                    assert!(run.pairs <= run.next);
                }
                assert!(met, "half way was missed");
                run.next = factor * run.pairs;
            }
        }
    }
}
