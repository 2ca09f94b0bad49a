//! Claims about an sd between groups are confirmed or not, runs can be stopped, and a thinner grid says the same of the
//! groups.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;

use certus_likelihood::Logistic;
use certus_mixed::collapsed::{Collapsed, SdPrior, recalled_effects};
use certus_mixed::{Evaluation, Journal, Stage};
use certus_models::{Design, Error, Memory, Prior};

use crate::common::Dice;

/// 30 groups of 5 rows, sd 1.
fn model(prior: f64) -> Collapsed {
    let mut dice = Dice::new(11);
    let (mut x, mut y, mut group) = (vec![], vec![], vec![]);
    for g in 0..30 {
        let effect = dice.normal();
        for _ in 0..5 {
            let value = dice.normal();
            let t = -0.4 + 0.6 * value + effect;
            y.push(f64::from(u8::from(dice.uniform() < 1.0 / (1.0 + (-t).exp()))));
            x.push(value);
            group.push(g);
        }
    }
    let design = Design::new(Arc::new(Memory { x, y, columns: 1, ..Memory::default() }), true);
    let prior = Prior::independent(vec![0.0; 2], &[prior; 2]).unwrap();
    Collapsed::new(&design, &group, None, Arc::new(Logistic), prior).unwrap()
}

#[test]
fn what_is_true_is_confirmed() {
    for prior in [2.5, f64::INFINITY] {
        let model = model(prior);
        let found = model.estimate(&[0.0; 2]).unwrap();
        assert!(found.sd > 0.2 && found.interval.proved.is_ok(), "{found:?}");
        let again = model.confirm(&[0.0; 2], found.sd, found.interval.sds).unwrap();
        assert!(again.margins.iter().all(|m| *m > 0.0), "{again:?}");
        assert!((again.log_likelihood - found.at.log_likelihood).abs() < 1e-9);
        let [low, high] = found.interval.sds;
        let closer = |end: f64| found.sd + 0.01 * (end - found.sd);
        for wrong in [[closer(low), high], [low, closer(high)], [high, 2.0 * high], [0.5 * low, low]] {
            let again = model.confirm(&[0.0; 2], found.sd, wrong).unwrap();
            assert!(again.margins.iter().any(|m| *m <= 0.0), "{wrong:?}: {again:?}");
        }
    }
}

#[test]
fn weights_follow_from_the_data() {
    let (model, prior) = (model(2.5), SdPrior::HalfNormal(2.5));
    let mut mixture = model.posterior(&[0.0; 2], 1.0, prior).unwrap();
    // the last step at a node is taken on trust, which leaves its Hessian off by about 1e-4
    assert!(model.weights_differ(&mixture, prior).unwrap() < 1e-4);
    assert!(model.weights_differ(&mixture, SdPrior::HalfNormal(0.5)).unwrap() > 1e-2);
    let few = mixture.thinned();
    assert!(few.nodes.len() <= mixture.nodes.len());
    for (a, b) in model.effects(&mixture).iter().zip(model.effects(&few)) {
        let far = (a.mean - b.mean).abs().max((a.sd - b.sd).abs());
        assert!(far < 1e-3 * a.sd, "{a:?} {b:?}");
        // read off tables of steps of a twelfth of an sd, which differ
        a.quantiles
            .iter()
            .zip(b.quantiles)
            .for_each(|(p, q)| assert!((p - q).abs() < 0.05 * a.sd, "{a:?} {b:?}"));
    }
    mixture.nodes[3].mean[0] += 0.1;
    assert_eq!(model.weights_differ(&mixture, prior).unwrap(), f64::INFINITY);
}

#[test]
fn runs_are_seen_and_stopped() {
    let model = model(2.5);
    let mut seen = Vec::new();
    let found = model
        .estimate_observed(&[0.0; 2], &mut Journal::default(), &mut |pass, _| {
            seen.push((pass.stage, pass.count));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen.len(), found.evaluations);
    assert_eq!((seen[0], seen[seen.len() - 1].0), ((Stage::Estimate, 1), Stage::Interval));
    let stop = |most: usize| {
        move |pass: &Evaluation, _: &Journal| match pass.count < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    assert!(matches!(
        model.estimate_observed(&[0.0; 2], &mut Journal::default(), &mut stop(2)),
        Err(Error::Stopped)
    ));
    let posterior =
        model.posterior_over(&[(vec![0.0; 2], 1.0)], SdPrior::Flat, &mut Journal::default(), &mut stop(5));
    assert!(matches!(posterior, Err(Error::Stopped)));
}

/// A run that is stopped after any number of passes and begun again with its journal asks for nothing twice and ends
/// with the same bits.
#[test]
fn a_stopped_run_goes_on_with_the_same_bits() {
    let model = model(2.5);
    let whole = |journal: &mut Journal, most: usize| {
        let mut seen = 0;
        let mut observer = |_: &Evaluation, _: &Journal| {
            seen += 1;
            if seen < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let found = model.estimate_observed(&[0.0; 2], journal, &mut observer)?;
        let starts = [(found.beta.clone(), found.sd)];
        let mixture = model.posterior_over(&starts, SdPrior::Flat, journal, &mut observer)?;
        Ok::<_, Error>((format!("{found:?} {mixture:?}"), seen))
    };
    // effects of groups come back from the journal, too
    let mut journal = Journal::default();
    let mixture = model.posterior(&[0.0; 2], 1.0, SdPrior::Flat).unwrap();
    let effects = || Ok(model.effects_of(2..9, &mixture));
    let first = recalled_effects(&mut journal, 2..9, effects).unwrap();
    let mut again = Journal::decode(&journal.encode()).unwrap();
    let second = recalled_effects(&mut again, 2..9, || Err(Error::Stopped)).unwrap();
    assert_eq!(first, second);
    assert!(recalled_effects(&mut again, 9..10, || Err(Error::Stopped)).is_err());
    let mut journal = Journal::default();
    let (wanted, passes) = whole(&mut journal, usize::MAX).unwrap();
    let complete = journal.encode();
    for most in [1, 2, passes / 3, passes / 2, passes - 1] {
        let mut journal = Journal::default();
        assert!(matches!(whole(&mut journal, most), Err(Error::Stopped)));
        let saved = journal.encode();
        assert!(complete.starts_with(&saved) && saved.len() < complete.len());
        let mut journal = Journal::decode(&saved).unwrap();
        assert_eq!(whole(&mut journal, usize::MAX).unwrap(), (wanted.clone(), passes));
        assert_eq!(journal.encode(), complete);
    }
    // what is in the journal is not computed again: another bound on the error of the first evaluation stays there
    let mut altered = complete;
    let error = 16 + 8 + 2 * 8;
    altered[error..error + 8].copy_from_slice(&1e-3f64.to_le_bytes());
    let mut journal = Journal::decode(&altered).unwrap();
    whole(&mut journal, usize::MAX).unwrap();
    assert_eq!(journal.encode()[..error + 8], altered[..error + 8]);
}
