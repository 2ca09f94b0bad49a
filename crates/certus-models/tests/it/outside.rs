//! A likelihood from outside the crate is fitted like ours, but what follows from its constants is declared by the
//! user, whatever it says of itself (finding T7).
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use certus::certificate::Level;
use certus::{Goal, Provenance, Target};
use certus_likelihood::{Bounds, Datum, Likelihood, Logistic, Loss, Strip};
use certus_models::auto::{Method, fit};
use certus_models::envelope::EnvelopeSettings;
use certus_models::posterior::{PosteriorSettings, global, local};
use certus_models::{Design, Glm, Memory, Prior};

/// The logistic loss under another name, with every claim of it.
#[derive(Debug)]
struct Mine;

impl Loss for Mine {
    fn name(&self) -> &'static str {
        "mine"
    }
    fn reject(&self, datum: Datum) -> Option<String> {
        Logistic.reject(datum)
    }
    fn value(&self, t: f64, datum: Datum) -> f64 {
        Logistic.value(t, datum)
    }
    fn first_derivative(&self, t: f64, datum: Datum) -> f64 {
        Logistic.first_derivative(t, datum)
    }
    fn second_derivative(&self, t: f64, datum: Datum) -> f64 {
        Logistic.second_derivative(t, datum)
    }
}

impl Bounds for Mine {
    fn second_derivative_max(&self, datum: Datum) -> Option<f64> {
        Logistic.second_derivative_max(datum)
    }
    fn second_derivative_near(&self, t: f64, radius: f64, datum: Datum) -> f64 {
        Logistic.second_derivative_near(t, radius, datum)
    }
    fn log_second_derivative(&self, t: f64, datum: Datum) -> Option<(f64, f64)> {
        Logistic.log_second_derivative(t, datum)
    }
    fn third_derivative_max(&self, datum: Datum) -> Option<f64> {
        Logistic.third_derivative_max(datum)
    }
    fn fourth_derivative_max(&self, datum: Datum) -> Option<f64> {
        Logistic.fourth_derivative_max(datum)
    }
    fn third_below_second(&self) -> bool {
        true
    }
}

impl Strip for Mine {
    fn strip(&self) -> f64 {
        Logistic.strip()
    }
    fn strip_is_proved(&self) -> bool {
        true
    }
    fn scale(&self, mean: f64, sd: f64, datum: Datum) -> f64 {
        Logistic.scale(mean, sd, datum)
    }
}

fn model(likelihood: Arc<dyn Likelihood>) -> Glm {
    let wave = |k: usize| (k as f64 * 1.3).sin() + (k as f64 * 0.37).cos();
    let rows = Memory {
        x: (0..120).map(wave).collect(),
        y: (0..60).map(|i| f64::from(u8::from(i % 3 == 0))).collect(),
        columns: 2,
        ..Memory::default()
    };
    let prior = Prior::independent(vec![0.0; 2], &[1.0; 2]).unwrap();
    Glm::new(Design::new(Arc::new(rows), false), likelihood, prior).unwrap()
}

#[test]
fn only_our_likelihoods_are_proved_by_the_model() {
    let declared = Provenance::DeclaredByUser("the likelihood 'mine'".into());
    for (likelihood, expected) in [
        (Arc::new(Logistic) as Arc<dyn Likelihood>, certus::internals::by_model()),
        (Arc::new(Mine), declared),
    ] {
        let model = model(likelihood);
        let outcome = fit(&model, &Goal::default(), Method::Exact).unwrap();
        let ours = expected == certus::internals::by_model();
        let gap = &outcome.certificate.gap.statement;
        assert_eq!(gap.level(), Level::Proved);
        assert!(gap.assumptions().iter().all(|a| a.provenance == expected), "{gap:?}");
        assert_eq!(outcome.message.contains("proved from what the user declared"), !ours);
        assert_eq!(outcome.to_string().contains("proved by the model"), ours, "{outcome}");
        assert_eq!(*model.curvature().unwrap().provenance(), expected);
        let q = &outcome.gaussian;
        let settings = PosteriorSettings { draws: 4000, delta: 0.01, seed: 0 };
        let drawn = EnvelopeSettings { proposals: 4000, delta: 0.01, ..EnvelopeSettings::default() };
        for posterior in [
            global(&model, q, &settings).unwrap(),
            local(&model, q, &settings).unwrap(),
            model.envelope(q, &drawn).unwrap().posterior,
        ] {
            let statement = &posterior.statement;
            assert_eq!(statement.level(), Level::Probable { delta: 0.01 }, "{statement:?}");
            assert!(statement.assumptions().iter().all(|a| a.provenance == expected), "{statement:?}");
        }
    }
}
