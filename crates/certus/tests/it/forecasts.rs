//! The paper's step sizes against its printed formulas, the corrected constant of sticking the landing, and what a
//! forecast says against the run.
#![allow(clippy::unwrap_used)]

use crate::common::*;
use certus::schedule::Schedule;
use certus::theorem::{Constants, LONGEST_FOLD, Local, Problem};
use certus::{Curvature, Family, Forecast, Gaussian, MethodName, Plan, Settings, StepRule};

const PAPER: [MethodName; 3] = [MethodName::ProxEnergy, MethodName::ProjEntropy, MethodName::ProjStl];

/// a of the paper for single draws: 2(d+3)M², 4(d+3)M², 24(d+3)M².
fn a_of_the_paper(method: MethodName, d: f64, m: f64) -> f64 {
    let factor = match method {
        MethodName::ProxEnergy => 2.0,
        MethodName::ProjEntropy => 4.0,
        _ => 24.0,
    };
    factor * (d + 3.0) * m * m
}

fn family_of(method: MethodName) -> Family {
    if method == MethodName::ProxEnergy { Family::Lower } else { Family::Symmetric }
}

/// μ > 0: γ_t = min{μ/(2a), (1/μ)(2t+1)/(t+1)²} after a prox (Theorem prox-strong-smooth) and min{μ/(2a),
/// (2/μ)(2t+1)/(t+1)²} after a projection (Theorem proj-strong-smooth). μ = 0: 1/√(aT) and √(2/(aT)) (Theorems
/// prox-convex-smooth and proj-convex-smooth).
#[test]
fn paper_steps_are_the_papers() {
    let target = GaussianTarget::with_kappa(3, 4.0, &mut Dice::new(90));
    let (mu, m, d) = (target.mu(), target.m(), 3.0);
    for method in PAPER {
        let a = a_of_the_paper(method, d, m);
        let factor = if method == MethodName::ProxEnergy { 1.0 } else { 2.0 };
        let settings = Settings {
            method,
            batch: 1,
            constants: Constants::Paper,
            step_rule: StepRule::Paper,
            iterations: 40,
            ..Settings::default()
        };
        let plan = Plan::new(&target, &settings).unwrap();
        let problem = Problem::new(3, plan.curvature().unwrap(), &family_of(method), 1);
        let forecast = Forecast::global(method, Constants::Paper, &problem, StepRule::Paper, 40).unwrap();
        for t in [0_u64, 1, 2, 7, 100, 5_000, 1_000_000, 1_000_000_000] {
            let x = t as f64;
            let printed = (mu / (2.0 * a)).min(factor / mu * (2.0 * x + 1.0) / ((x + 1.0) * (x + 1.0)));
            let ours = plan.schedule().step_size(t, || unreachable!());
            assert!((ours / printed - 1.0).abs() < 1e-12, "{method:?} t = {t}: {ours} against {printed}");
            assert!((forecast.step_size(t).unwrap() / printed - 1.0).abs() < 1e-12);
        }
        // both branches were seen
        assert!(plan.schedule().step_size(1_000_000_000, || 0.0) < 0.5 * mu / (2.0 * a));
        // and the run takes them, with the bound folded along them
        let (mut state, mut memory) = (plan.start(), plan.memory());
        let info = plan.step(&target, &mut state, &mut memory).unwrap();
        assert!((info.step_size / (mu / (2.0 * a)) - 1.0).abs() < 1e-12);

        // without strong convexity and without a radius: the step is the paper's, and nothing is promised, with the
        // reason
        let flat =
            Curvature::new(0.0, m, certus::internals::by_model()).unwrap().with_mode(target.mean.clone());
        let settings = Settings { curvature: Some(flat.clone()), ..settings };
        let plan = Plan::new(&target, &settings).unwrap();
        let printed =
            if method == MethodName::ProxEnergy { 1.0 / (a * 40.0) } else { 2.0 / (a * 40.0) }.sqrt();
        assert!((plan.step_size(&plan.start()) / printed - 1.0).abs() < 1e-12, "{method:?}");
        let problem = Problem::new(3, &flat, &family_of(method), 1);
        let forecast = Forecast::global(method, Constants::Paper, &problem, StepRule::Paper, 40).unwrap();
        assert_eq!(forecast.step_size(0), Some(plan.step_size(&plan.start())));
        assert!(forecast.distance_after(40).unwrap_err().contains("μ = 0"));
        let fit = certus::fit(&target, &settings).unwrap();
        assert!(fit.guarantee.unwrap_err().contains("μ = 0"));
        // with a radius the same steps are promised something
        let settings = Settings { solution_radius: Some((d / mu).sqrt()), ..settings };
        let known = certus::fit(&target, &settings).unwrap();
        assert!(known.guarantee.is_ok() && known.gaussian == fit.gaussian);
    }
}

/// The paper's steps need its constants and its methods; they are Algorithm 1 to 3 with decaying steps, bit for bit.
#[test]
fn paper_steps_are_refused_elsewhere() {
    let target = GaussianTarget::with_kappa(3, 4.0, &mut Dice::new(91));
    let settings = Settings { step_rule: StepRule::Paper, iterations: 20, ..Settings::default() };
    let refused = |settings: &Settings| Plan::new(&target, settings).unwrap_err().to_string();
    assert!(refused(&settings).contains("Constants::Paper"));
    let cv = Settings { method: MethodName::ProxCv, constants: Constants::Paper, ..settings.clone() };
    assert!(refused(&cv).contains("not in the paper"));
    for method in PAPER {
        let paper = Settings { method, constants: Constants::Paper, ..settings.clone() };
        let decaying = Settings { step_rule: StepRule::Decaying, ..paper.clone() };
        let (one, two) = (certus::fit(&target, &paper).unwrap(), certus::fit(&target, &decaying).unwrap());
        assert_eq!(one.gaussian, two.gaussian);
        assert_eq!(one.guarantee.unwrap().bound(), two.guarantee.unwrap().bound());
        let greedy = Settings { step_rule: StepRule::Greedy, ..paper };
        assert_ne!(certus::fit(&target, &greedy).unwrap().gaussian, one.gaussian);
    }
}

/// A25 corrected: E|g_STL(w)|² ≤ 4(d+3)(K² + 2M²)|w − w*|² + 4(d+3)K²|C*|² with K = sup|H − Σ*⁻¹|, without a stationary
/// point of the residual. By quadrature on φ = z²/2 + k log(1 + e^z) − 3z in d = 1, and the paper's K ≤ 2M as the
/// library has it.
#[test]
fn erratum_a25_corrected() {
    let e = |f: &dyn Fn(f64) -> f64| -> f64 {
        let h = 0.01;
        let density = |u: f64| (-0.5 * u * u).exp() / std::f64::consts::TAU.sqrt();
        (-900..=900).map(|k| k as f64 * h).map(|u| h * density(u) * f(u)).sum()
    };
    for k in [0.5, 4.0, 40.0] {
        let sigma = |z: f64| 1.0 / (1.0 + (-z).exp());
        let slope = |z: f64| z + k * sigma(z) - 3.0;
        let curvature = |z: f64| 1.0 + k * sigma(z) * (1.0 - sigma(z));
        let (mu, m) = (1.0, 1.0 + 0.25 * k);
        let (mut mean, mut c) = (0.0, 1.0);
        for _ in 0..2000 {
            let h = e(&|u| curvature(mean + c * u));
            mean -= 0.2 / m * e(&|u| slope(mean + c * u));
            c += 0.2 * (h.powf(-0.5) - c);
        }
        assert!(e(&|u| slope(mean + c * u)).abs() < 1e-9 && c >= m.powf(-0.5));
        let precision = c.powi(-2);
        let residual = (m - precision).max(precision - mu);
        let problem = Problem::new(
            1,
            &Curvature::new(mu, m, certus::internals::by_model()).unwrap(),
            &Family::Symmetric,
            1,
        );
        let paper = problem.stl_second_moment_paper(problem.solution_norm_squared());
        assert_eq!((paper.a, paper.b), (24.0 * 4.0 * m * m, 16.0 * 4.0 * m * m / mu));
        let mut tightest: f64 = 0.0;
        for dm in [-3.0, -0.3, 0.0, 0.1, 1.0] {
            for scale in [1.0, 1.05, 1.5, 4.0] {
                let (at, factor) = (mean + dm, (c * scale).max(m.powf(-0.5)));
                let moment = e(&|u| (slope(at + factor * u) - u / factor).powi(2) * (1.0 + u * u));
                let square = dm * dm + (factor - c).powi(2);
                let bound =
                    16.0 * (residual * residual + 2.0 * m * m) * square + 16.0 * residual * residual * c * c;
                assert!(moment <= bound, "k = {k}, dm = {dm}, scale = {scale}: {moment} > {bound}");
                assert!(moment <= paper.a * square + paper.b);
                tightest = tightest.max(moment / bound);
            }
        }
        assert!(tightest > 1e-3, "the bound is looked at where it is far from tight: {tightest}");
    }
}

/// A forecast is what the plan of a run folds, without the run: steps, bounds, and counts.
#[test]
fn forecasts_are_what_plans_fold() {
    let target = GaussianTarget::with_kappa(3, 5.0, &mut Dice::new(92));
    for (method, constants, rule) in [
        (MethodName::ProxEnergy, Constants::Paper, StepRule::Paper),
        (MethodName::ProxEnergy, Constants::Sharp, StepRule::Greedy),
        (MethodName::ProjEntropy, Constants::Paper, StepRule::Horizon),
        (MethodName::ProjEntropy, Constants::Sharp, StepRule::Decaying),
        (MethodName::ProjStl, Constants::Paper, StepRule::Paper),
        (MethodName::ProjStl, Constants::Sharp, StepRule::Greedy),
        (MethodName::ProxCv, Constants::Sharp, StepRule::Greedy),
    ] {
        let settings =
            Settings { method, constants, step_rule: rule, iterations: 300, ..Settings::default() };
        let plan = Plan::new(&target, &settings).unwrap();
        let family = if method == MethodName::ProxCv { Family::Lower } else { family_of(method) };
        let problem = Problem::new(3, plan.curvature().unwrap(), &family, settings.batch);
        let forecast = Forecast::global(method, constants, &problem, rule, 300).unwrap();
        let (mut state, mut memory) = (plan.start(), plan.memory());
        // the plan allows for rounding, and for the mode
        let close =
            |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{method:?} {rule:?}: {a} against {b}");
        close(forecast.initial().unwrap(), state.bound());
        for t in 0..300 {
            let info = plan.step(&target, &mut state, &mut memory).unwrap();
            if t % 100 == 99 {
                close(forecast.step_size(t).unwrap(), info.step_size);
                close(forecast.distance_after(t + 1).unwrap(), state.bound());
            }
        }
        let (last, bound) = forecast.after(300);
        assert_eq!((last, bound), (forecast.step_size(299), forecast.distance_after(300)));
        let prox = matches!(method, MethodName::ProxEnergy | MethodName::ProxCv);
        assert_eq!(forecast.gap_after(300).is_err(), prox);
        if !prox {
            close(forecast.gap_after(300).unwrap(), target.m() * state.bound());
        }
        if rule != StepRule::Horizon {
            let epsilon = 0.05 * forecast.initial().unwrap();
            let t = forecast.iterations_for_distance(epsilon).unwrap();
            assert!(forecast.distance_after(t).unwrap() <= epsilon * (1.0 + 1e-12));
            // the least count where it was folded
            assert!(t > 100_000 || forecast.distance_after(t - 1).unwrap() > epsilon, "{method:?}");
        }
    }
}

/// Beyond the longest fold the closed form answers, and it is not below the fold.
#[test]
fn closed_forms_take_over() {
    let curvature = Curvature::new(1.0, 10.0, certus::internals::by_model()).unwrap();
    let problem = Problem::new(3, &curvature, &Family::Symmetric, 1);
    for rule in [StepRule::Paper, StepRule::Horizon] {
        let t = LONGEST_FOLD + 1;
        let forecast = Forecast::global(MethodName::ProjStl, Constants::Paper, &problem, rule, t).unwrap();
        let (folded, closed) = (forecast.distance_after(t - 1).unwrap(), forecast.distance_after(t).unwrap());
        assert!(closed > 0.999 * folded && closed < 30.0 * folded, "{rule:?}: {folded} {closed}");
    }
    let forecast =
        Forecast::global(MethodName::ProjStl, Constants::Paper, &problem, StepRule::Paper, 1).unwrap();
    let count = forecast.iterations_for_gap(1e-6).unwrap();
    assert!(count > LONGEST_FOLD && forecast.gap_after(count).unwrap() <= 1e-6 * (1.0 + 1e-8));
    assert!(forecast.gap_after(count / 2).unwrap() > 1e-6);
    let nothing = certus::theorem::Anytime { mu: 0.0, l: 1.0, sigma_squared: 1.0 };
    assert_eq!(nothing.iterations(1.0, 0.1), u64::MAX, "without strong convexity it ends all the same");
    assert!(forecast.iterations_for_gap(1e-30).unwrap_err().contains("more than"));
    let constant =
        Forecast::global(MethodName::ProjStl, Constants::Paper, &problem, StepRule::Constant(1e-6), 1);
    assert!(constant.unwrap().iterations_for_gap(1e-9).unwrap_err().contains("stays above"));
}

/// f − f* ≤ M|w − w*|² where σ_min(C) ≥ 1/√M, which turns distances into gaps; near singular factors it fails, which is
/// why a prox has no such bound.
#[test]
fn distances_bound_gaps_on_w_m() {
    let mut dice = Dice::new(93);
    let target = GaussianTarget::with_kappa(3, 6.0, &mut dice);
    let best = target.optimum(&Family::Symmetric);
    let exact = |w: &Gaussian| {
        let dm: Vec<f64> = w.mean().iter().zip(&target.mean).map(|(a, b)| a - b).collect();
        let c = w.factor().to_dense();
        0.5 * (dot(&dm, &times(&target.hessian, &dm, 3)) + dot(&c, &times(&target.hessian, &c, 3)))
            + w.neg_entropy()
    };
    let least = exact(&best);
    let mut worst: f64 = 0.0;
    for _ in 0..300 {
        let floor = target.m().powf(-0.5);
        let values: Vec<f64> = (0..3).map(|_| floor * (1.0 + dice.uniform().powi(3))).collect();
        let factor = spectral(&dice.rotation(3), &values, |x| x);
        let mean = target.mean.iter().map(|x| x + 0.3 * dice.normal()).collect();
        let symmetric = certus::factor::Symmetric::new(3, factor).unwrap();
        let w = Gaussian::new(mean, certus::Factor::Symmetric(symmetric)).unwrap();
        let ratio = (exact(&w) - least) / (target.m() * w.distance_squared(&best));
        assert!(ratio <= 1.0, "{ratio}");
        worst = worst.max(ratio);
    }
    assert!(worst > 0.2, "{worst}");
    let thin = Gaussian::isotropic(target.mean.clone(), 1e-30, &Family::Symmetric).unwrap();
    assert!(exact(&thin) - least > target.m() * thin.distance_squared(&best));
}

/// In a ball: the count is the least one whose folded bound times L/2 is below the gap.
#[test]
fn local_forecasts() {
    let curvature = Curvature::new(0.9, 1.2, certus::internals::by_model()).unwrap();
    let center = Gaussian::isotropic(vec![0.0; 4], 1.0, &Family::Symmetric).unwrap();
    let local = Local::from_curvature(&curvature, center, 0.5, 0.4).unwrap();
    let forecast = Forecast::local(&local, 10, StepRule::Greedy, 100).unwrap();
    let count = forecast.iterations_for_gap(0.01).unwrap();
    assert!(forecast.gap_after(count).unwrap() <= 0.01 && forecast.gap_after(count - 1).unwrap() > 0.01);
    assert_eq!(forecast.per_distance().unwrap(), 0.5 * local.smoothness());
    let decaying = Forecast::local(&local, 10, StepRule::Decaying, 100).unwrap();
    assert!(matches!(decaying.schedule(), Schedule::Decaying { .. }));
    assert!(decaying.iterations_for_gap(0.01).unwrap() >= count);
    assert!(Forecast::local(&local, 10, StepRule::Paper, 100).is_err());
}
