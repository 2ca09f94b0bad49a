//! Runs with batches of rows: what they promise is certified by an exact pass, and their bits depend on the seed alone.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;

use certus::certificate::Level;
use certus::fit::Status;
use certus::{Goal, Outcome};
use certus_likelihood::{Likelihood, Logistic, Poisson};
use certus_models::auto::{Subsampling, fit, subsampled};
use certus_models::{Design, Error, Glm, Memory, Prior};

fn model(n: usize, likelihood: Arc<dyn Likelihood>) -> Glm {
    let wave = |k: usize| (k as f64 * 1.3).sin() + (k as f64 * 0.37).cos();
    let rows = Memory {
        x: (0..3 * n).map(wave).collect(),
        y: (0..n).map(|i| f64::from(u8::from(wave(3 * i + 7) > 0.4))).collect(),
        columns: 3,
        ..Memory::default()
    };
    let prior = Prior::independent(vec![0.0; 4], &[2.5; 4]).unwrap();
    Glm::new(Design::standardised(Arc::new(rows), true).unwrap(), likelihood, prior).unwrap()
}

fn run(model: &Glm, goal: &Goal, chosen: &Subsampling, saved: Option<&[u8]>) -> Outcome {
    subsampled(model, goal, chosen, saved, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

/// The Laplace approximation misses the goal, the promised iterations reach it, and the gap is proved.
#[test]
fn the_goal_is_reached_and_proved() {
    let model = model(3000, Arc::new(Logistic));
    let start = model.gap(&certus_models::laplace(&model).unwrap().gaussian).unwrap();
    let goal = Goal { gap: 0.2 * start.statement.bound().unwrap(), ..Goal::default() };
    let chosen = Subsampling { rows: 200, ..Subsampling::default() };
    let outcome = run(&model, &goal, &chosen, None);
    let gap = &outcome.certificate.gap.statement;
    assert_eq!(outcome.status, Status::Reached, "{}", outcome.message);
    assert!(gap.bound().unwrap() <= goal.gap && gap.level() == Level::Proved);
    let best = fit(&model, &goal, certus_models::auto::Method::Exact).unwrap();
    let truth = outcome.neg_elbo.value - best.neg_elbo.value;
    assert!(truth >= -1e-9 && truth <= gap.bound().unwrap() + 1e-9, "{truth:e}");
    assert!(outcome.route.contains("200 rows and 8 pairs"), "{}", outcome.route);
    // one in 15 rows is looked at
    let steps = outcome.trace.last().unwrap().iteration;
    assert!(outcome.counts.gradients < 30 + 2 * steps, "{:?} {steps}", outcome.counts);
}

/// The same bits for one thread and two, and for a run that was stopped and gone on with; another seed gives others.
#[test]
fn bits_depend_on_the_seed_alone() {
    let model = model(2500, Arc::new(Logistic));
    let chosen = Subsampling { rows: 50, pairs: 2, iterations: Some(40) };
    let goal =
        |threads: usize, seed: u64| Goal { threads: Some(threads), seed, gap: 1e-3, ..Goal::default() };
    let whole = run(&model, &goal(1, 5), &chosen, None);
    assert_eq!(whole.gaussian, run(&model, &goal(2, 5), &chosen, None).gaussian);
    assert_ne!(whole.gaussian, run(&model, &goal(2, 6), &chosen, None).gaussian);
    let mut saved = Vec::new();
    let stopped = subsampled(&model, &goal(2, 5), &chosen, None, &mut |point, save| {
        saved = save();
        if point.iteration == 17 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(stopped.unwrap().status, Status::Interrupted);
    assert_eq!(whole.gaussian, run(&model, &goal(1, 5), &chosen, Some(&saved)).gaussian);
}

/// What can't be promised is refused with the figure that decides.
#[test]
fn what_is_refused() {
    let refused = |model: &Glm, goal: &Goal, chosen: &Subsampling, words: &str| {
        let error = subsampled(model, goal, chosen, None, &mut |_, _| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(error, Error::Declined(_)) && error.to_string().contains(words), "{error}");
    };
    let (goal, chosen) = (Goal::default(), Subsampling::default());
    refused(&model(800, Arc::new(Poisson)), &goal, &chosen, "is bounded");
    let tiny = Goal { gap: 1e-13, ..Goal::default() };
    refused(&model(800, Arc::new(Logistic)), &tiny, &Subsampling { rows: 1, ..chosen }, "row-batch");
}
