//! Fits a Gaussian to a posterior whose curvature is known, stops by itself, and says what is proved.

use certus::{Curvature, PointTarget, Provenance, Settings, Status, TargetError, fit};

/// Two measurements y = 1.0 and 1.4 of a location z₀ with sd 0.5, prior N(0, 1); z₁ ~ N(z₀, 1) is predicted.
struct Location;

impl PointTarget for Location {
    fn dim(&self) -> usize {
        2
    }

    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        gradient[0] = -z[0] + 4.0 * (1.0 - z[0]) + 4.0 * (1.4 - z[0]) + (z[1] - z[0]);
        gradient[1] = -(z[1] - z[0]);
        Ok(-0.5
            * (z[0].powi(2) + 4.0 * ((1.0 - z[0]).powi(2) + (1.4 - z[0]).powi(2)) + (z[1] - z[0]).powi(2)))
    }

    fn curvature(&self) -> Option<Curvature> {
        // The Hessian of −log p is [[10, −1], [−1, 1]], with eigenvalues 5.5 ± √21.25.
        let root = 21.25_f64.sqrt();
        let why = Provenance::DeclaredByUser("eigenvalues of the constant Hessian".into());
        Curvature::new(5.5 - root, 5.5 + root, why).ok()
    }
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), certus::Error> {
    let settings = Settings { tolerance: Some(0.5), iterations: 1_000_000, ..Settings::default() };
    let result = fit(&Location, &settings)?;
    println!("{result}");

    // The posterior is Gaussian: mean 9.6/9 for both, sds 1/3 and √(1 + 1/9).
    assert_eq!(result.status, Status::Reached);
    assert!(result.guarantee.expect("the curvature is declared").bound() <= 0.5);
    assert!((result.gaussian.mean()[0] - 9.6 / 9.0).abs() < 0.1);
    assert!((result.gaussian.sd()[1] - (1.0_f64 + 1.0 / 9.0).sqrt()).abs() < 0.1);
    Ok(())
}
