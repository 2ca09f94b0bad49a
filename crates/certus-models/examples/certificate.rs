//! What a fit says about itself: a logistic regression whose Laplace approximation and exact optimum are certified, and
//! whose distance from the posterior is bounded from the inside with exact posterior draws.

use std::path::Path;
use std::sync::Arc;

use certus::Certificate;
use certus::certificate::Posterior;
use certus_likelihood::Logistic;
use certus_models::envelope::EnvelopeSettings;
use certus_models::{Design, Error, Glm, Memory, Prior, laplace};

/// What is printed; docs/certificates.md shows it.
pub fn report() -> Result<String, Error> {
    // 1,000 rows, 10 features; column y is the response
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/logit_d10.csv");
    let text = std::fs::read_to_string(path).expect("the file is in the repository");
    let mut rows = Memory { columns: 10, ..Memory::default() };
    let names: Vec<&str> = text.lines().next().unwrap_or("").split(',').collect();
    for line in text.lines().skip(1) {
        for (name, value) in names.iter().zip(line.split(',')) {
            let value = value.parse().expect("a number");
            if *name == "y" {
                rows.y.push(value);
            } else {
                rows.x.push(value);
            }
        }
    }
    let prior = Prior::independent(vec![0.0; 10], &[1.0; 10])?;
    let model = Glm::new(Design::new(Arc::new(rows), false), Arc::new(Logistic), prior)?;

    let start = laplace(&model)?.gaussian;
    let posterior = Posterior::none("not requested");
    let first = Certificate { gap: model.gap(&start)?, posterior };

    let best = model.solve_exactly()?.gaussian;
    let settings = EnvelopeSettings { proposals: 200_000, delta: 1e-6, seed: 0, keep: 0 };
    let posterior = model.envelope(&best, &settings)?.posterior;
    let certificate = Certificate { gap: model.gap(&best)?, posterior };
    assert!(certificate.gap.statement.bound().is_some_and(|b| b < 1e-12));
    assert!(certificate.posterior.statement.bound().is_some_and(|b| b < 0.05));
    Ok(format!("The Laplace approximation\n{first}\nThe exact solver's Gaussian\n{certificate}"))
}

#[allow(clippy::print_stdout, dead_code)]
fn main() -> Result<(), Error> {
    print!("{}", report()?);
    Ok(())
}
