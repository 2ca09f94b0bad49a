//! A target of your own, evaluated on whole batches: logistic regression with a N(0, I) prior.

use certus::{Curvature, MethodName, Provenance, Settings, Target, TargetError, fit};

struct Logistic {
    /// One row per observation, sign of the outcome already multiplied in.
    rows: Vec<[f64; 2]>,
}

impl Target for Logistic {
    fn dim(&self) -> usize {
        2
    }

    /// Points come as columns: point k is `points[2 * k..2 * k + 2]`.
    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        for ((z, value), g) in points.chunks_exact(2).zip(values).zip(gradients.chunks_exact_mut(2)) {
            *value = -0.5 * (z[0] * z[0] + z[1] * z[1]);
            g.copy_from_slice(&[-z[0], -z[1]]);
            for row in &self.rows {
                let t = row[0] * z[0] + row[1] * z[1];
                *value -= (-t).exp().ln_1p();
                let weight = 1.0 / (1.0 + t.exp());
                g[0] += weight * row[0];
                g[1] += weight * row[1];
            }
        }
        Ok(())
    }

    fn curvature(&self) -> Option<Curvature> {
        // I ≤ ∇²(−log p) ≤ I + AᵀA/4 ≤ (1 + |A|²/4) I, the last step being the trace bound.
        let squares: f64 = self.rows.iter().map(|r| r[0] * r[0] + r[1] * r[1]).sum();
        Curvature::new(
            1.0,
            1.0 + 0.25 * squares,
            Provenance::DeclaredByUser("logistic loss, prior N(0, I)".into()),
        )
        .ok()
    }
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), certus::Error> {
    let rows = (0..40).map(|i| {
        let x = (i as f64 * 0.7).sin();
        let y = if x + 0.5 * (i as f64 * 1.3).cos() > 0.1 { 1.0 } else { -1.0 };
        [y, y * x]
    });
    let target = Logistic { rows: rows.collect() };
    let settings = Settings { method: MethodName::ProjStl, iterations: 20_000, ..Settings::default() };
    let result = fit(&target, &settings)?;
    println!("{result}");

    // An optimum has E π = 0: the mean gradient over fresh draws is zero within its noise.
    let draws = result.gaussian.sample(20_000, 1);
    let (mut values, mut gradients) = (vec![0.0; 20_000], vec![0.0; 40_000]);
    target.log_density(&draws, &mut values, &mut gradients).map_err(certus::Error::Target)?;
    for i in 0..2 {
        let mean = gradients.iter().skip(i).step_by(2).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.1, "coordinate {i}: {mean}");
    }
    assert!(result.gaussian.mean()[1] > 0.5, "the slope is found");
    assert!(result.guarantee.is_ok());
    Ok(())
}
