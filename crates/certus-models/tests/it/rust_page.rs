//! docs/rust.md shows what its programs print; the programs themselves are doctests.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use certus::{Goal, PointTarget, TargetError, auto};
use certus_likelihood::Binomial;
use certus_models::auto::{Method, fit};
use certus_models::{Design, Glm, Memory, Prior};

fn shows(printed: &str) {
    let page = include_str!("../../../../docs/rust.md");
    assert!(page.contains(&format!("```text\n{printed}```")), "docs/rust.md must show:\n{printed}");
}

#[test]
fn the_model() {
    let x = vec![1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839];
    let (y, trials) =
        (vec![6., 13., 18., 28., 52., 53., 61., 60.], vec![59., 60., 62., 56., 63., 59., 62., 60.]);
    let rows = Memory { x, y, trials, columns: 1, ..Memory::default() };
    let design = Design::standardised(Arc::new(rows), true).unwrap();
    let prior = Prior::independent(vec![0.0; 2], &[10.0, 2.5]).unwrap();
    let model = Glm::new(design, Arc::new(Binomial), prior).unwrap();
    shows(&fit(&model, &Goal::default(), Method::Auto).unwrap().to_string());
}

#[test]
fn the_black_box() {
    struct Posterior;
    impl PointTarget for Posterior {
        fn dim(&self) -> usize {
            2
        }
        fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
            let t = z[0] + 2.0 * z[1];
            gradient.copy_from_slice(&[1.0 - z[0] - t.tanh(), -z[1] - 2.0 * t.tanh()]);
            Ok(z[0] - 0.5 * (z[0] * z[0] + z[1] * z[1]) - t.cosh().ln())
        }
    }
    shows(&auto(&Posterior, &Goal::default()).unwrap().to_string());
}
