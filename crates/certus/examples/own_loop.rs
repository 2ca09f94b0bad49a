//! The researcher's loop: draw u, estimate the gradient, take the step. Everything else is yours.

use certus::estimator::{Estimator, Gradient, Sampling};
use certus::factor::Workspace;
use certus::random::{Purpose, Random};
use certus::update::Update;
use certus::{Family, Gaussian, PointTarget, TargetError};

/// N((1, −2), diag(1/4, 1)).
struct Toy;

impl PointTarget for Toy {
    fn dim(&self) -> usize {
        2
    }

    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        gradient.copy_from_slice(&[-4.0 * (z[0] - 1.0), -(z[1] + 2.0)]);
        Ok(-2.0 * (z[0] - 1.0).powi(2) - 0.5 * (z[1] + 2.0).powi(2))
    }
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), certus::Error> {
    let random = Random::new(0, Purpose::Step, 0);
    let mut w = Gaussian::isotropic(vec![0.0, 0.0], 1.0, &Family::Lower)?;
    let mut g = Gradient::new(2, Sampling { batch: 8, antithetic: true });
    let mut workspace = Workspace::default();
    for t in 0..4000 {
        let step_size = 1.0 / (20.0 + t as f64);
        g.draw(&random, t);
        Estimator::Energy.estimate(&Toy, &w, &mut g, &mut workspace)?;
        Update::Prox.apply(&mut w, &g, step_size, &mut workspace)?;
    }
    println!("mean {:?}, sd {:?}", w.mean(), w.sd());
    assert!((w.mean()[0] - 1.0).abs() < 0.02 && (w.mean()[1] + 2.0).abs() < 0.05);
    assert!((w.sd()[0] - 0.5).abs() < 0.02 && (w.sd()[1] - 1.0).abs() < 0.05);
    Ok(())
}
