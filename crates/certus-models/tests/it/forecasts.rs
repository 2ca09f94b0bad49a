//! What the theorems say of a model before a run: the same numbers as from the functions they come from, and as the
//! runs fold.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::common::*;
use certus::frame::{Frame, Framed};
use certus::theorem::Constants;
use certus::{Family, Goal, MethodName, Settings, StepRule, Target};
use certus_likelihood::{Logistic, Poisson};
use certus_models::auto::{Basis, Forecasts, Model, PlannedMethod, planned};
use certus_models::{Design, Glm, Memory, Prior};

fn iterations(forecasts: &Forecasts, method: MethodName, basis: Basis, gap: f64) -> Result<u64, String> {
    let found = forecasts.each.iter().find(|p| p.method == method && p.basis == basis).unwrap();
    found.forecast.as_ref().map_err(Clone::clone)?.iterations_for_gap(gap).map_err(String::from)
}

/// logit_d10, gap 0.01, B = 10: the counts of the plan are those of `Glm::iterations_to`, and of the expected size.
#[test]
fn counts_of_logit_d10() {
    let p = problem(&data_dir(), "logit_d10");
    let start = certus_models::laplace(&p.model).unwrap().gaussian;
    let api = p.model.iterations_to(&start, 0.01, 10).unwrap();
    let forecasts = Forecasts::new(&p.model, &Goal::default(), 10, 10_000).unwrap();
    let count = |method, basis| iterations(&forecasts, method, basis, 0.01);
    assert_eq!(count(MethodName::ProjStl, Basis::Paper).ok(), api.paper);
    assert_eq!(count(MethodName::ProjStl, Basis::Sharp).ok(), api.sharp);
    assert_eq!(count(MethodName::BallStl, Basis::Local), api.local);
    assert_eq!(forecasts.with_b4, api.with_b4);
    println!("{api:?}");
    let size = |count: Option<u64>| (count.unwrap() as f64).log10();
    // the paper's b is 16(d+3)M² d/μ/B; with ours in its place the count falls to a thousandth
    assert!((size(api.with_b4) - 1.1e10_f64.log10()).abs() < 0.05);
    assert!((size(api.sharp) - 5.2e8_f64.log10()).abs() < 0.05);
    assert_eq!(api.local, Ok(595));
    let (mu, m, d) = (1.0, p.model.curvature().unwrap().smoothness(), 10.0);
    let b = 16.0 * (d + 3.0) * m * m * (d / mu) / 10.0;
    let noise = 16.0 * b / (mu * mu) * m / 0.01;
    assert!(api.paper.unwrap() as f64 >= noise && api.paper.unwrap() as f64 <= 1.01 * noise);
    // a prox has no bound on the gap, and says so
    for basis in [Basis::Paper, Basis::Sharp] {
        assert!(count(MethodName::ProxEnergy, basis).unwrap_err().contains("not the gap"));
    }
}

/// Without M, without μ, without a proof of the quadrature: the reason instead of a number.
#[test]
fn what_cannot_be_said_has_a_reason() {
    let x: Vec<f64> = (0..120).map(|k| (k as f64 * 0.7).sin()).collect();
    let y: Vec<f64> = (0..40).map(|i| f64::from(u8::from(i % 3 == 0))).collect();
    let rows = || Arc::new(Memory { x: x.clone(), y: y.clone(), columns: 3, ..Memory::default() });
    let prior = |sd: f64| Prior::independent(vec![0.0; 3], &[sd; 3]).unwrap();
    let goal = Goal::default();
    let counts = Glm::new(Design::new(rows(), false), Arc::new(Poisson), prior(1.0)).unwrap();
    let forecasts = Forecasts::new(&counts, &goal, 10, 100).unwrap();
    assert!(forecasts.curvature.as_ref().unwrap_err().contains("there is no M"));
    assert!(
        iterations(&forecasts, MethodName::ProjStl, Basis::Paper, 0.01)
            .unwrap_err()
            .contains("there is no M")
    );
    assert!(iterations(&forecasts, MethodName::BallStl, Basis::Local, 0.01).is_ok());

    let flat = Glm::new(Design::new(rows(), false), Arc::new(Logistic), prior(f64::INFINITY)).unwrap();
    let forecasts = Forecasts::new(&flat, &goal, 10, 100).unwrap();
    for basis in [Basis::Paper, Basis::Sharp] {
        let reason = iterations(&forecasts, MethodName::ProxEnergy, basis, 0.01).unwrap_err();
        assert!(reason.contains("μ = 0"), "{reason}");
    }
    // the paper's steps are known all the same: 1/√(aT)
    let paper = forecasts.each[0].forecast.as_ref().unwrap();
    let m = flat.curvature().unwrap().smoothness();
    let a = 2.0 * m * m * (1.0 + 5.0 / 10.0);
    assert!((paper.step_size(0).unwrap() * (a * 100.0).sqrt() - 1.0).abs() < 1e-12);

    // enough rows for a ball, were the constants of the loss proved
    let probit = simulated("probit", 400, 2, 0.6, 1.0, &mut Dice::new(5));
    let forecasts = Forecasts::new(&probit, &goal, 10, 100).unwrap();
    let reason = iterations(&forecasts, MethodName::BallStl, Basis::Local, 0.01).unwrap_err();
    assert!(reason.contains("only estimated") || reason.contains("third derivative"), "{reason}");
}

/// `planned` with every step rule has the bits of `certus::fit` with the same settings, and its promise is the
/// forecast's.
#[test]
fn planned_runs_are_fits_of_the_core() {
    let model = simulated("logistic", 80, 2, 0.6, 1.0, &mut Dice::new(5));
    let goal = Goal { seed: 3, ..Goal::default() };
    let start = model.laplace_start(None).unwrap().gaussian;
    let curvature = model.curvature().unwrap().with_mode(start.mean().to_vec());
    for method in [
        MethodName::ProxEnergy,
        MethodName::ProjEntropy,
        MethodName::ProjStl,
        MethodName::ProxCv,
        MethodName::BallStl,
    ] {
        let own = matches!(method, MethodName::ProxCv | MethodName::BallStl);
        for (steps, constants) in [
            (StepRule::Auto, Constants::Sharp),
            (StepRule::Greedy, Constants::Sharp),
            (StepRule::Decaying, Constants::Sharp),
            (StepRule::Horizon, Constants::Sharp),
            (StepRule::Horizon, Constants::Paper),
            (StepRule::Decaying, Constants::Paper),
            (StepRule::Paper, Constants::Paper),
        ] {
            let chosen = PlannedMethod { method, constants, steps, batch: 4, iterations: 50 };
            let run = planned(&model, &goal, &chosen, None, &mut |_, _| ControlFlow::Continue(()));
            if own && steps == StepRule::Paper {
                assert!(run.unwrap_err().to_string().contains("paper"));
                continue;
            }
            let run = run.unwrap();
            let ball = method == MethodName::BallStl;
            let local = model.certified_ball(&start).unwrap().ok().filter(|_| ball);
            let settings = Settings {
                method,
                constants,
                step_rule: steps,
                batch: 4,
                iterations: 50,
                seed: 3,
                family: (!ball && own || method == MethodName::ProxEnergy).then_some(Family::Lower),
                curvature: (!ball).then(|| curvature.clone()),
                local,
                ..Settings::default()
            };
            let (fit, gaussian) = if ball {
                let frame = Frame::of(&start).unwrap();
                let framed = Framed::new(&model, frame.clone(), None).unwrap();
                let fit = certus::fit(&framed, &settings).unwrap();
                let gaussian = frame.to_original(&fit.gaussian).unwrap();
                (fit, gaussian)
            } else {
                let fit = certus::fit(&model, &settings).unwrap();
                let gaussian = fit.gaussian.clone();
                (fit, gaussian)
            };
            assert_eq!(run.gaussian, gaussian, "{chosen:?}");
            let forecast = Forecasts::new(&model, &goal, 4, 50).unwrap().chosen(&chosen).forecast.unwrap();
            let bound = fit.guarantee.unwrap().bound();
            assert!((forecast.distance_after(50).unwrap() / bound - 1.0).abs() < 1e-5, "{chosen:?}");
        }
    }
}
