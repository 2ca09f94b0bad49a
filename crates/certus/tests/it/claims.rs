//! What a black-box fit may say of itself: no gap where log-concavity is violated or was not checked, no "at most"
//! before an estimate, and nothing "proved by the model" that is not one of ours (findings B1, B2, T7).
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use certus::auto::Verdict;
use certus::certificate::Level;
use certus::fit::Status;
use certus::{
    Curvature, Goal, Outcome, PointTarget, Provenance, Settings, TargetError, auto, auto_observed, fit,
};

use crate::hard_targets::funnel;
use crate::verdicts::mixture;

struct Target<F>(usize, F);

impl<F: Fn(&[f64], &mut [f64]) -> f64 + Sync> PointTarget for Target<F> {
    fn dim(&self) -> usize {
        self.0
    }
    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
        Ok((self.1)(z, g))
    }
}

fn assert_claims_no_gap(outcome: &Outcome) {
    let text = outcome.to_string();
    let gap = &outcome.certificate.gap.statement;
    assert_eq!((gap.level(), gap.bound()), (Level::None, None), "{text}");
    for words in ["at most", "from the best of", "the gap is about", "the gap is bounded"] {
        assert!(!text.contains(words), "{words:?} in\n{text}");
    }
    assert!(text.contains("gap        not certified: "), "{text}");
}

/// B1. The estimate for the funnel was 0.254 nats, the truth is 15 or more: the limit comes first, and convexity was
/// not looked at.
#[test]
fn no_gap_is_stated_of_a_funnel() {
    for seed in 0..3 {
        let outcome = auto(&Target(10, funnel), &Goal { seed, ..Goal::default() }).unwrap();
        assert_claims_no_gap(&outcome);
        assert!(
            outcome.message.contains("not log-concave: no gap is claimed (according to its gradients"),
            "{outcome}"
        );
        // what was measured stays in the record
        let gap = &outcome.certificate.gap.statement;
        assert!(gap.constant("estimate").is_some() && gap.constant("standard error").is_some());
    }
}

/// B2. Nothing is said of the divergence where a mode was missed, and "at most" of nothing.
#[test]
fn no_divergence_is_stated_where_a_mode_was_missed() {
    for (a, w, start) in [(10.0, 0.05, 9.0), (4.0, 0.5, 3.0)] {
        for seed in 0..12 {
            let goal = Goal { start: Some(vec![start]), seed, ..Goal::default() };
            let outcome = auto(&Target(1, mixture(a, w)), &goal).unwrap();
            let text = outcome.to_string();
            assert!(!text.contains("at most") && !text.contains("within"), "{text}");
            assert_eq!(outcome.certificate.posterior.statement.level(), Level::None, "{text}");
            assert_eq!(outcome.comparison.unwrap().verdict, Verdict::Unreliable, "{text}");
        }
    }
}

/// An estimate that is stated says what it assumes; so does its message.
#[test]
fn a_stated_estimate_names_what_it_assumes() {
    let target = Target(3, |z: &[f64], g: &mut [f64]| {
        g.iter_mut().zip(z).for_each(|(g, z)| *g = -z - z.tanh());
        -z.iter().map(|z| 0.5 * z * z + z.cosh().ln()).sum::<f64>()
    });
    for goal in [Goal::default(), Goal { gap: 1e-9, max_gradients: Some(4000), ..Goal::default() }] {
        let outcome = auto(&target, &goal).unwrap();
        let text = outcome.to_string();
        assert_eq!(outcome.certificate.gap.statement.level(), Level::Estimated, "{text}");
        for words in ["about ", " ± ", ", if the posterior is log-concave (no violation was found)"] {
            assert!(text.lines().nth(3).unwrap().contains(words), "{text}");
            assert!(outcome.message.contains(words), "{}", outcome.message);
        }
        assert!(!text.contains("at most"), "{text}");
    }
}

/// A run that is told to stop looks for violations as long as two seconds allow, and says so where they did not.
#[test]
fn an_interrupted_run_states_a_gap_only_if_it_was_checked() {
    let slow = AtomicBool::new(false);
    let logistic = |z: &[f64], g: &mut [f64]| {
        if slow.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        g.iter_mut().zip(z).for_each(|(g, z)| *g = -z - z.tanh());
        -z.iter().map(|z| 0.5 * z * z + z.cosh().ln()).sum::<f64>()
    };
    let goal = Goal { gap: 1e-9, ..Goal::default() };
    for slowly in [false, true] {
        let mut stopped = None;
        let target = Target(20, logistic);
        let outcome = auto_observed(&target, &goal, &mut |p| {
            if p.gap.is_none() || p.iteration < 50 {
                return ControlFlow::Continue(());
            }
            slow.store(slowly, Ordering::Relaxed);
            stopped = Some(Instant::now());
            ControlFlow::Break(())
        })
        .unwrap();
        slow.store(false, Ordering::Relaxed);
        assert!(stopped.unwrap().elapsed() < Duration::from_secs(2), "{:?}", stopped.unwrap().elapsed());
        assert_eq!(outcome.status, Status::Interrupted);
        if slowly {
            assert_claims_no_gap(&outcome);
            assert!(outcome.message.contains("was not checked before the run ended"), "{}", outcome.message);
        } else {
            assert_eq!(outcome.certificate.gap.statement.level(), Level::Estimated, "{outcome}");
        }
    }
    let target = Target(10, funnel);
    let outcome = auto_observed(&target, &goal, &mut |p| {
        if p.gap.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(outcome.status, Status::Interrupted);
    assert_claims_no_gap(&outcome);
}

/// φ = Σ z²/2 with declared constants.
struct Declared;

impl PointTarget for Declared {
    fn dim(&self) -> usize {
        2
    }
    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
        g.iter_mut().zip(z).for_each(|(g, z)| *g = -z);
        Ok(-0.5 * z.iter().map(|z| z * z).sum::<f64>())
    }
    fn curvature(&self) -> Option<Curvature> {
        Curvature::new(1.0, 1.0, Provenance::DeclaredByUser("it is a Gaussian".into())).ok()
    }
}

/// T7. Whatever rests on constants of a user's target says so, at every level.
#[test]
fn what_a_user_declares_is_not_proved_by_the_model() {
    let outcome = auto(&Declared, &Goal::default()).unwrap();
    let text = outcome.to_string();
    assert_eq!(outcome.certificate.gap.statement.level(), Level::Probable { delta: 0.01 }, "{text}");
    assert!(text.contains("with probability 0.99, from what the user declared"), "{text}");
    assert!(text.contains("declared by the user (it is a Gaussian)"), "{text}");
    assert!(outcome.message.contains("from what the user declared"), "{}", outcome.message);
    let settings = Settings { tolerance: Some(0.1), iterations: 100_000, ..Settings::default() };
    let text = format!("{text}{}", fit(&Declared, &settings).unwrap());
    assert!(text.contains("rests on   curvature declared by the user"), "{text}");
    assert!(!text.contains("proved by the model"), "{text}");
}
