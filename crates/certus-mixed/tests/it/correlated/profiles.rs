//! Profile intervals against a maximisation of the likelihood that knows nothing of charts and multipliers.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::ops::ControlFlow;
use std::sync::Arc;

use certus_likelihood::{Datum, Logistic};
use certus_mixed::correlated::{CorrelatedFit, Model};

use super::data::{Data, load};
use crate::common::Dice;

const CONTINUE: ControlFlow<()> = ControlFlow::Continue(());
/// The 90 % quantile of χ² with one degree of freedom.
const CUT: f64 = 2.705_543_454_095_404;

/// T of standard deviations (as logarithms) and of the artanh of the correlation.
fn factor(s: &[f64]) -> Vec<f64> {
    let (a, b, r) = (s[0].exp(), s[1].exp(), s[2].tanh());
    vec![a, b * r, 0.0, b * (1.0 - r * r).max(0.0).sqrt()]
}

/// The highest log likelihood with the parameter `held` fixed, over (β, log sds, artanh r).
fn highest(model: &Model, at: Vec<f64>, held: usize) -> f64 {
    let p = at.len() - 3;
    crate::ascent::highest(at, held, |x| {
        let found = model.log_likelihood_to(&x[..p], &factor(&x[p..]), 1e-8);
        found.map_or(f64::NEG_INFINITY, |(log, _)| log)
    })
}

/// Checks every interval of a fit; how many of its ends are inside of their range.
fn check(name: &str, model: &Model, fit: &CorrelatedFit) -> usize {
    let p = fit.fixed.len();
    let mut inner = 0;
    let intervals = model.profiles(fit, CUT, &mut |_, _| CONTINUE).unwrap();
    assert_eq!(intervals.len(), 3);
    for (held, interval) in intervals.into_iter().enumerate() {
        let interval = interval.unwrap();
        let correlation = fit.term.correlations[1].clamp(-0.999, 0.999).atanh();
        let own = [fit.term.sds[0].ln(), fit.term.sds[1].ln(), correlation];
        println!("{name} {held}: {interval:?}, estimate {:?} {correlation}", fit.term.sds);
        let estimate = if held < 2 { fit.term.sds[held] } else { fit.term.correlations[1] };
        assert!(interval.low <= estimate && estimate <= interval.high);
        for end in [interval.low, interval.high] {
            let x = if held < 2 { end.ln() } else { end.atanh() };
            if end.abs() == 1.0 && held == 2 {
                continue;
            }
            // an sd of 0 is below the cut
            let zero = end == 0.0 && held < 2;
            let x = if zero { -8.0 } else { x };
            inner += usize::from(!zero);
            // from both sides of the plane of correlations
            let tries = [own[2], 0.0, -own[2]].map(|r| {
                let mut start: Vec<f64> = fit.fixed.iter().chain(&own).copied().collect();
                start[p + 2] = r;
                start[p + held] = x;
                highest(model, start, p + held)
            });
            let above = 2.0 * (fit.log_likelihood - tries.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b)));
            assert!(
                if zero { above < CUT + 3e-3 } else { (above - CUT).abs() < 3e-3 },
                "{name} {held} {end}: {above}"
            );
        }
    }
    inner
}

fn simulated(dice: &mut Dice, groups: usize, correlation: f64) -> Data {
    let mut out = Data::default();
    for g in 0..groups {
        let u = [dice.normal(), dice.normal()];
        let b = [0.9 * u[0], 0.7 * (correlation * u[0] + (1.0 - correlation * correlation).sqrt() * u[1])];
        for _ in 0..8 {
            let x = dice.normal();
            let t = 0.3 - 0.2 * x + b[0] + b[1] * x;
            out.levels.push(g as u32);
            out.effects.push(vec![1.0, x]);
            out.fixed.push(vec![1.0, x]);
            let y = f64::from(u8::from(dice.uniform() < 1.0 / (1.0 + (-t).exp())));
            out.data.push(Datum { y, trials: 1.0 });
            out.offset.push(0.0);
            out.weight.push(1.0);
        }
    }
    out
}

#[test]
fn profiles_are_maxima_of_the_likelihood() {
    let (data, likelihood) = load("epil");
    let model = data.model(likelihood);
    assert_eq!(check("epil", &model, &model.fit().unwrap()), 6);
    let mut dice = Dice::new(20);
    for groups in [40, 80] {
        let model = simulated(&mut dice, groups, 0.0).model(Arc::new(Logistic));
        assert!(check("simulated", &model, &model.fit().unwrap()) >= 3);
    }
}

/// A matrix of rank 1: sds still have intervals, and the correlation one that ends at 1.
#[test]
fn singular_matrices_have_intervals() {
    let (data, likelihood) = load("bacteria");
    let model = data.model(likelihood);
    let fit = model.fit().unwrap();
    assert_eq!(fit.term.rank, 1);
    assert_eq!(check("bacteria", &model, &fit), 2);
    let mut dice = Dice::new(30);
    let singular = (0..20).find_map(|_| {
        let model = simulated(&mut dice, 60, 0.97).model(Arc::new(Logistic));
        let fit = model.fit().unwrap();
        (fit.term.rank == 1).then_some((model, fit))
    });
    let (model, fit) = singular.expect("a correlation of 0.97 is often estimated as 1");
    assert_eq!(check("simulated, singular", &model, &fit), 5);
    assert_eq!(model.profiles(&fit, CUT, &mut |_, _| CONTINUE).unwrap()[2].unwrap().high, 1.0);
}
