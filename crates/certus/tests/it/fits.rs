//! How runs start, stop, fail and go on: statuses, messages, observers, deadlines, saved states.
#![allow(clippy::unwrap_used)]

use crate::common::*;
use certus::fit::{Returned, resume};
use certus::theorem::{Constants, Local, Quantity};
use certus::{
    Curvature, Error, Family, Gaussian, MethodName, Plan, PointTarget, Provenance, Settings, State, Status,
    StepRule, TargetError, Tree, fit, fit_observed,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

fn gaussian(d: usize) -> GaussianTarget {
    GaussianTarget::with_kappa(d, 4.0, &mut Dice::new(50))
}

#[test]
fn stops_by_itself_once_the_tolerance_is_proved() {
    let target = gaussian(3);
    let settings = Settings { tolerance: Some(0.1), iterations: 1_000_000, ..Settings::default() };
    let result = fit(&target, &settings).unwrap();
    assert_eq!(result.status, Status::Reached);
    let guarantee = result.guarantee.as_ref().unwrap();
    assert!(guarantee.bound() <= 0.1 && guarantee.quantity() == Quantity::DistanceSquared);
    assert_eq!(*guarantee.provenance(), certus::internals::by_model());
    assert_eq!(guarantee.with_probability(0.1), guarantee.bound() / 0.1);
    let plan = Plan::new(&target, &settings).unwrap();
    assert_eq!(plan.iterations_for(0.1), Some(result.state.iteration()), "the plan knew");
    let w = target.optimum(&Family::Lower);
    assert!(result.gaussian.distance_squared(&w) < 0.1, "and it is true here");
    // what it prints
    let text = result.to_string();
    for part in ["reached", "E|w - w*|^2 <=", "proved by the model", "z[2]"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(result.state.gradients(), 1 + 10 * result.state.iteration());
}

/// A target that misbehaves after some evaluations.
struct Moody {
    calls: std::sync::atomic::AtomicU64,
    mood: fn(u64) -> Result<f64, TargetError>,
    curvature: (f64, f64),
}

impl Moody {
    fn new(mood: fn(u64) -> Result<f64, TargetError>, curvature: (f64, f64)) -> Self {
        Self { calls: 0.into(), mood, curvature }
    }
}

impl PointTarget for Moody {
    fn dim(&self) -> usize {
        2
    }
    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
        let calls = self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let h = (self.mood)(calls)?;
        g.iter_mut().zip(z).for_each(|(g, z)| *g = -h * (z - 1.0));
        Ok(-0.5 * h * z.iter().map(|z| (z - 1.0) * (z - 1.0)).sum::<f64>())
    }
    fn curvature(&self) -> Option<Curvature> {
        Some(
            Curvature::new(self.curvature.0, self.curvature.1, Provenance::DeclaredByUser("a test".into()))
                .unwrap(),
        )
    }
}

#[test]
fn failures_keep_the_last_finite_iterate() {
    let user = fit(
        &Moody::new(|n| if n < 55 { Ok(1.0) } else { Err("the disk is full".into()) }, (1.0, 1.0)),
        &Settings::default(),
    )
    .unwrap();
    assert_eq!(user.status, Status::UserError);
    assert!(
        user.message.contains("the disk is full") && user.message.contains("iteration 5"),
        "{}",
        user.message
    );
    assert!(matches!(user.error.as_deref(), Some(Error::Target(e)) if e.to_string() == "the disk is full"));
    assert!(user.gaussian.is_proper() && user.state.iteration() == 5);
    assert!(user.guarantee.unwrap_err().contains("may depend on its draws"));

    let broken =
        fit(&Moody::new(|n| Ok(if n < 55 { 1.0 } else { f64::NAN }), (1.0, 1.0)), &Settings::default())
            .unwrap();
    assert_eq!(broken.status, Status::NonFinite);
    assert!(
        broken.message.contains("NaN") && broken.message.contains("sample 4 of 10"),
        "{}",
        broken.message
    );
    assert_eq!(broken.gaussian, user.gaussian, "the iterate before the bad draw");

    // a step far too large diverges, and is stopped while everything is still finite
    let settings = Settings { step_rule: StepRule::Constant(50.0), ..Settings::default() };
    let diverged = fit(&Moody::new(|_| Ok(1.0), (1.0, 1.0)), &settings).unwrap();
    assert_eq!(diverged.status, Status::NonFinite);
    assert!(diverged.gaussian.is_proper());
    assert!(diverged.guarantee.is_err());
    let settings = Settings { iterations: 3, ..settings };
    let rash = fit(&Moody::new(|_| Ok(1.0), (1.0, 1.0)), &settings).unwrap();
    assert!(rash.guarantee.unwrap_err().contains("larger than the theorem allows"));
}

#[test]
fn false_declarations_are_found() {
    for (curvature, real) in [((0.5, 0.9), "too steep"), ((1.5, 2.0), "too flat")] {
        let result = fit(&Moody::new(|_| Ok(1.0), curvature), &Settings::default()).unwrap();
        assert_eq!(result.status, Status::AssumptionViolated, "{real}");
        assert!(
            ["1 along", "0.99999", "1.00000"].iter().any(|w| result.message.contains(w)),
            "{}",
            result.message
        );
        assert!(result.guarantee.is_err());
    }
    let honest =
        fit(&Moody::new(|_| Ok(1.0), (1.0, 1.0)), &Settings { iterations: 300, ..Settings::default() })
            .unwrap();
    assert_eq!(honest.status, Status::Limit);
    let guarantee = honest.guarantee.unwrap();
    assert!(guarantee.provenance().to_string().contains("declared by the user (a test)"));
}

#[test]
fn observers_deadlines_and_resuming() {
    let target = gaussian(3);
    let settings = Settings { iterations: 40, ..Settings::default() };
    let whole = fit(&target, &settings).unwrap();
    assert_eq!((whole.status.clone(), whole.state.iteration()), (Status::Limit, 40));
    let mut seen = Vec::new();
    let stopped = fit_observed(&target, &settings, &mut |p, _| {
        seen.push((p.iteration, p.gradients, p.bound));
        if p.iteration == 17 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(stopped.status, Status::Interrupted);
    assert_eq!(seen.len(), 17);
    assert_eq!((seen[16].0, seen[16].1), (17, 171));
    let plan = Plan::new(&target, &settings).unwrap();
    let go_on =
        resume(&target, &settings, &plan, stopped.state, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(go_on.state.encode(), whole.state.encode());
    let late = fit(&target, &Settings { max_time: Some(Duration::ZERO), ..settings.clone() }).unwrap();
    assert_eq!((late.status, late.state.iteration()), (Status::Limit, 0));
    // threads change nothing
    let threaded = fit(&target, &Settings { threads: Some(3), ..settings }).unwrap();
    assert_eq!(threaded.state.encode(), whole.state.encode());
}

#[test]
fn refusals_name_the_value_and_the_remedy() {
    let target = gaussian(3);
    let refuse = |settings: Settings, words: &[&str]| {
        let error = fit(&target, &settings).unwrap_err().to_string();
        words.iter().for_each(|w| assert!(error.contains(w), "{error}"));
    };
    let start = |d: usize, family: &Family| Some(Gaussian::isotropic(vec![0.0; d], 1.0, family).unwrap());
    let base = Settings::default;
    refuse(Settings { batch: 0, ..base() }, &["batch is 0"]);
    refuse(Settings { iterations: 0, ..base() }, &["iterations is 0"]);
    refuse(Settings { threads: Some(0), ..base() }, &["threads is 0"]);
    refuse(Settings { tolerance: Some(-1.0), ..base() }, &["tolerance is -1"]);
    refuse(Settings { step_rule: StepRule::Constant(f64::NAN), ..base() }, &["NaN"]);
    refuse(Settings { start: start(4, &Family::Lower), ..base() }, &["the start has 4", "3 are required"]);
    refuse(Settings { start: start(3, &Family::Symmetric), ..base() }, &["symmetric"]);
    refuse(Settings { method: MethodName::BallStl, ..base() }, &["ball"]);
    refuse(Settings { family: Some(Family::Symmetric), ..base() }, &["prox", "triangular"]);
    refuse(Settings { method: MethodName::ProjStl, family: Some(Family::Lower), ..base() }, &["A14"]);
    refuse(Settings { returned: Returned::Tail, tolerance: Some(1.0), ..base() }, &["last iterate"]);
    let tree = Family::Pattern(Arc::new(Tree::diagonal(5).unwrap()));
    refuse(Settings { family: Some(tree), ..base() }, &["the pattern has 5"]);
    let convex = Curvature::new(0.0, 4.0, certus::internals::by_model()).unwrap();
    refuse(Settings { curvature: Some(convex.clone()), ..base() }, &["only convex"]);
    let known =
        Settings { curvature: Some(convex.with_mode(vec![0.0; 3])), solution_radius: Some(3.0), ..base() };
    refuse(known.clone(), &["declared mode"]);
    let mode = target.mean.clone();
    let convex = Curvature::new(0.0, 4.0, certus::internals::by_model()).unwrap().with_mode(mode);
    let known = Settings { curvature: Some(convex), ..known };
    let spoken = fit(&target, &Settings { iterations: 10, ..known.clone() }).unwrap().guarantee.unwrap();
    assert!(spoken.provenance().to_string().contains("solution_radius"), "the radius is the user's word");
    refuse(Settings { step_rule: StepRule::Greedy, ..known.clone() }, &["μ > 0"]);
    refuse(Settings { method: MethodName::ProxCv, ..known.clone() }, &["strongly convex"]);
    refuse(Settings { tolerance: Some(1.0), ..known }, &["tolerance"]);
    for (mu, m) in [(-1.0, 1.0), (2.0, 1.0), (1.0, f64::INFINITY), (0.0, 0.0), (f64::NAN, 1.0)] {
        assert!(Curvature::new(mu, m, certus::internals::by_model()).is_err(), "{mu} {m}");
    }
    assert!(Tree::new(&[1, 1], &[None, Some(1)]).is_err(), "parents come first");
    assert!(Tree::new(&[], &[]).is_err() && Tree::blocks(&[2, 0]).is_err());
    let curvature = Curvature::new(1.0, 2.0, certus::internals::by_model()).unwrap();
    let center = |family: &Family, s| Gaussian::isotropic(vec![0.0; 3], s, family).unwrap();
    let ball =
        |radius, gradient| Local::from_curvature(&curvature, center(&Family::Lower, 1.0), radius, gradient);
    assert!(ball(0.5, 0.4).is_ok() && ball(0.5, 0.6).is_err() && ball(1.0, 0.1).is_err());
    let mean_field = Family::Pattern(Arc::new(Tree::diagonal(3).unwrap()));
    assert!(Local::from_curvature(&curvature, center(&mean_field, 1.0), 0.5, 0.1).is_err());
    assert!(Local::from_curvature(&curvature, center(&Family::Lower, 1.1), 0.5, 0.1).is_err());
    let local = ball(0.5, 0.1).unwrap();
    let method = MethodName::BallStl;
    refuse(
        Settings { method, local: Some(local.clone()), start: start(3, &Family::Lower), ..base() },
        &["centre"],
    );
    refuse(
        Settings { method, local: Some(local.clone()), family: Some(Family::Symmetric), ..base() },
        &["family"],
    );
    let wide = fit(&gaussian(4), &Settings { method, local: Some(local), ..base() }).unwrap_err().to_string();
    assert!(wide.contains("the start has 3"), "{wide}");
}

/// The mean of the tail may use any schedule; nothing is claimed of it.
#[test]
fn tail_means() {
    let target = gaussian(3);
    let settings = Settings { returned: Returned::Tail, iterations: 2000, ..Settings::default() };
    let result = fit(&target, &settings).unwrap();
    assert!(result.guarantee.unwrap_err().contains("tail"));
    assert!(result.gaussian.distance_squared(&target.optimum(&Family::Lower)) < 0.01);
    assert_eq!(Plan::new(&target, &settings).unwrap().iterations_for(1.0), None);
}

/// Without any curvature a constant step still runs (Algorithm 1), and nothing is claimed.
#[test]
fn unknown_curvature() {
    struct Bare(GaussianTarget);
    impl PointTarget for Bare {
        fn dim(&self) -> usize {
            PointTarget::dim(&self.0)
        }
        fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
            self.0.log_density_at(z, g)
        }
    }
    let bare = Bare(gaussian(3));
    let error = fit(&bare, &Settings::default()).unwrap_err().to_string();
    assert!(error.contains("curvature") && error.contains("StepRule::Constant"), "{error}");
    let settings = Settings {
        step_rule: StepRule::Constant(0.02),
        returned: Returned::Tail,
        iterations: 4000,
        ..Settings::default()
    };
    let result = fit(&bare, &settings).unwrap();
    assert_eq!(result.status, Status::Limit);
    assert!(result.guarantee.is_err());
    assert!(
        result.gaussian.distance_squared(&bare.0.optimum(&Family::Lower)) < 0.01,
        "the tail mean is close"
    );
    let error = fit(&bare, &Settings { method: MethodName::ProjStl, ..settings }).unwrap_err().to_string();
    assert!(error.contains("smoothness"), "{error}");
}

/// The paper's constants ask for more steps than the sharpened ones, by about the factors of docs/maths.md.
#[test]
fn sharpened_constants_need_fewer_steps() {
    let target = GaussianTarget::with_kappa(10, 10.0, &mut Dice::new(51));
    let count = |constants, batch| {
        let settings = Settings { constants, batch, step_rule: StepRule::Decaying, ..Settings::default() };
        let plan = Plan::new(&target, &settings).unwrap();
        plan.iterations_for(0.01 * 10.0 / target.mu()).unwrap() as f64
    };
    let (paper, sharp) = (count(Constants::Paper, 1), count(Constants::Sharp, 1));
    assert!(paper / sharp > 10.0, "{paper} against {sharp}");
    assert!(count(Constants::Sharp, 100) < sharp / 20.0);
}

/// Damaged or foreign states are refused with the reason.
#[test]
fn bad_states_are_refused() {
    let target = gaussian(3);
    let plan = Plan::new(&target, &Settings::default()).unwrap();
    let (mut state, mut memory) = (plan.start(), plan.memory());
    for _ in 0..3 {
        plan.step(&target, &mut state, &mut memory).unwrap();
    }
    let good = state.encode();
    let start = plan.start();
    let refuse = |bytes: &[u8], reason: &str| {
        let error = State::decode(bytes, &start).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    refuse(&good[..good.len() - 8], "too early");
    refuse(&good[..good.len() - 3], "whole number");
    refuse(&[good.clone(), vec![0; 8]].concat(), "trailing");
    refuse(b"something else", "magic");
    let mut flag = good.clone();
    flag[16 + 5 * 8] = 7;
    refuse(&flag, "neither");
    let mut infinite = good.clone();
    infinite[16 + 6 * 8..16 + 7 * 8].copy_from_slice(&f64::NAN.to_bits().to_le_bytes());
    refuse(&infinite, "proper");
    let wide = gaussian(4);
    let other = Plan::new(&wide, &Settings::default()).unwrap();
    assert!(State::decode(&good, &other.start()).unwrap_err().to_string().contains("another size"));
}
