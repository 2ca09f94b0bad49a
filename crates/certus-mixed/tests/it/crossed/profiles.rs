//! Profile intervals against lme4's, and against a maximisation of the same likelihood.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use certus_likelihood::Response;
use certus_mixed::crossed::{Error, Method, Sampling, fit, likelihood_at, profiles};

use super::data::{Noise, likelihood, random, salamander};

const CONTINUE: ControlFlow<()> = ControlFlow::Continue(());
/// The 90 % quantile of χ² with one degree of freedom.
const CUT: f64 = 2.705_543_454_095_404;

/// `confint(profile(m), level = 0.9)` of lme4 1.1-31, whose profiles of the Laplace approximation are interpolated.
#[test]
fn profiles_of_the_laplace_approximation_are_those_of_lme4() {
    let model = salamander().model(likelihood(Response::Logistic));
    let found = fit(&model, Method::Laplace, &mut |_, _| CONTINUE).unwrap();
    let intervals = profiles(&model, &found, CUT, &mut |_, _| CONTINUE).unwrap();
    for (interval, [low, high]) in intervals.iter().zip([[0.691490, 1.542818], [0.631501, 1.468836]]) {
        let own = interval.unwrap();
        assert!((own.low - low).abs() < 5e-4 && (own.high - high).abs() < 5e-4, "{own:?} {low} {high}");
    }
}

/// At the ends of an interval the corrected likelihood, maximised over everything else, is the cut below its maximum:
/// crossed factors (sampled), and nested ones (a sum). One of the nested sds is 0 or nearly so.
#[test]
fn profiles_are_maxima_of_the_corrected_likelihood() {
    let draws = 64;
    let method = Method::Corrected(Sampling { draws: Some(draws), seed: 2 });
    let mut inner = 0;
    for (seed, nested) in [(8, false), (9, true)] {
        let mut rows = random(Response::Logistic, &[24, 6], &[(0, 1), (1, 1)], 240, false, &mut Noise(seed));
        if nested {
            rows.levels.iter_mut().for_each(|l| l[1] = l[0] / 4);
        }
        let model = rows.model(likelihood(Response::Logistic));
        let found = fit(&model, method, &mut |_, _| CONTINUE).unwrap();
        let p = found.fixed.len();
        let intervals = profiles(&model, &found, CUT, &mut |_, _| CONTINUE).unwrap();
        for (term, interval) in intervals.iter().enumerate() {
            let own = interval.unwrap();
            println!("{seed} {term} {own:?} {}", found.terms[term].sds[0]);
            assert!(own.low <= found.terms[term].sds[0] && found.terms[term].sds[0] <= own.high);
            for end in [own.low, own.high] {
                let mut start = found.parameters.clone();
                start[p + term] = end;
                let top = crate::ascent::highest(start, p + term, |x| {
                    let at = likelihood_at(&model, x, method);
                    at.map_or(f64::NEG_INFINITY, |at| at.approximation + at.correction)
                });
                let above = 2.0 * (found.log_likelihood - top);
                let right = if end == 0.0 { above < CUT + 5e-3 } else { (above - CUT).abs() < 5e-3 };
                assert!(right, "{seed} {term} {end}: {above}");
                inner += usize::from(end > 0.0);
            }
        }
    }
    assert!(inner >= 5, "{inner}");
}

#[test]
fn profiles_can_be_stopped() {
    let model = salamander().model(likelihood(Response::Logistic));
    let found = fit(&model, Method::Laplace, &mut |_, _| CONTINUE).unwrap();
    let stopped = profiles(&model, &found, CUT, &mut |_, _| ControlFlow::Break(()));
    assert_eq!(stopped.unwrap_err(), Error::Stopped);
}
