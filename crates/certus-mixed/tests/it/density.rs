//! The density of coefficients and log scales: its gradient by central differences, its proposal by hand and by the
//! weights of a skewed posterior (K13).
#![allow(clippy::unwrap_used)]

use std::ops::Range;
use std::sync::Arc;

use certus_likelihood::{Binomial, Poisson};
use certus_mixed::collapsed::{Collapsed, Effect, Mixture, Node, SdPrior};
use certus_mixed::density::{
    CollapsedDensity, CollapsedSample, CountDensity, EffectDensity, LogDensity, Proposal, sample,
};
use certus_mixed::scales::Dispersion;
use certus_models::{Design, Error, Glm, Memory, Prior};

/// Eight clinics with two arms; no event in the second.
fn clinics() -> Collapsed {
    const CONTROL: [(f64, f64); 8] = [
        (2.0, 15.0),
        (0.0, 10.0),
        (3.0, 20.0),
        (1.0, 12.0),
        (5.0, 18.0),
        (0.0, 8.0),
        (2.0, 25.0),
        (1.0, 9.0),
    ];
    let (mut memory, mut group) = (Memory { columns: 1, ..Memory::default() }, Vec::new());
    for (g, (y, trials)) in CONTROL.into_iter().enumerate() {
        for (arm, y) in [(0.0, y), (1.0, 0.0)] {
            memory.x.push(arm);
            memory.y.push(y);
            memory.trials.push(trials);
            group.push(g);
        }
    }
    let design = Design::new(Arc::new(memory), true);
    let prior = Prior::independent(vec![0.0; 2], &[10.0, 2.5]).unwrap();
    Collapsed::new(&design, &group, None, Arc::new(Binomial), prior).unwrap()
}

fn keys(mixture: &Mixture) -> (Vec<Vec<f64>>, Vec<[i64; 2]>) {
    let scales = mixture.nodes.iter().map(|n| vec![n.sd]).collect();
    (scales, (0..mixture.nodes.len() as i64).map(|k| [k, 0]).collect())
}

/// The gradients are central differences of the values, for all kinds of models and priors.
#[test]
fn gradients() {
    let clinics = clinics();
    let counts = |grouped: bool| {
        let x: Vec<f64> = (0..24).map(|i| (f64::from(i) * 0.7).sin()).collect();
        let y = |i: usize| ((i * 7) % 5 + 3 * usize::from(i.is_multiple_of(6))) as f64;
        let y = (0..24).map(y).collect();
        let design = Design::new(Arc::new(Memory { x, y, columns: 1, ..Memory::default() }), true);
        let prior = Prior::independent(vec![0.0; 2], &[10.0, 2.5]).unwrap();
        let group: Vec<usize> = (0..24).map(|i| i / 4).collect();
        match grouped {
            true => {
                Dispersion::Grouped(Collapsed::new(&design, &group, None, Arc::new(Poisson), prior).unwrap())
            }
            false => Dispersion::Plain(Glm::new(design, Arc::new(Poisson), prior).unwrap()),
        }
    };
    let (plain, grouped) = (counts(false), counts(true));
    let priors = [SdPrior::HalfT(3.0, 2.5), SdPrior::Exponential(1.0)];
    let cases: Vec<(Box<dyn CollapsedDensity + '_>, Vec<f64>)> = vec![
        (Box::new(EffectDensity::new(&clinics, SdPrior::HalfNormal(2.5))), vec![-2.0, -3.0, 0.2]),
        (Box::new(CountDensity::new(&plain, &priors[..1])), vec![0.5, 0.3, -0.4]),
        (Box::new(CountDensity::new(&grouped, &priors)), vec![0.5, 0.3, -0.7, -0.4]),
    ];
    for (density, point) in cases {
        let mut gradient = vec![0.0; point.len()];
        let value = density.log_density_gradient(&point, &mut gradient).unwrap();
        assert!((value - density.log_density(&point).unwrap().value).abs() < 1e-4);
        for j in 0..point.len() {
            let near = |h: f64| {
                let mut z = point.clone();
                z[j] += h;
                density.log_density(&z).unwrap().value
            };
            let h = 1e-3;
            let by_hand = (8.0 * (near(h) - near(-h)) - near(2.0 * h) + near(-2.0 * h)) / (12.0 * h);
            assert!(
                (gradient[j] - by_hand).abs() < 1e-4 * (1.0 + by_hand.abs()),
                "{j}: {gradient:?} {by_hand}"
            );
        }
    }
}

/// A density that is known: θ ~ N(0.3, 0.5²) and β ~ N(θ, 1 + θ²).
struct Known;

impl CollapsedDensity for Known {
    fn coefficients(&self) -> usize {
        1
    }
    fn scales(&self) -> usize {
        1
    }
    fn terms(&self) -> f64 {
        1.0
    }
    fn groups(&self) -> usize {
        0
    }
    fn effects_over(&self, _: Range<usize>, _: &[f64]) -> Result<Vec<Effect>, Error> {
        Ok(Vec::new())
    }
    fn log_density(&self, z: &[f64]) -> Result<LogDensity, Error> {
        let spread = 1.0 + z[1] * z[1];
        let value = -0.5 * (z[0] - z[1]).powi(2) / spread - 0.5 * spread.ln() - 2.0 * (z[1] - 0.3).powi(2);
        Ok(LogDensity { value, error: 0.0 })
    }
}

/// Means, variances and the covariance of a known density, from a grid whose β is too narrow; half of the weights are
/// those of the adapted component.
#[test]
fn a_known_density() {
    let node = |k: i64| {
        let theta = 0.25 * k as f64;
        let (weight, factor) = ((-2.0 * (theta - 0.3).powi(2)).exp(), vec![0.8]);
        Node { sd: theta.exp(), weight, mean: vec![theta], factor, error: 0.0 }
    };
    let mut nodes: Vec<Node> = (-10..=12).map(node).collect();
    let total: f64 = nodes.iter().map(|n| n.weight).sum();
    nodes.iter_mut().for_each(|n| n.weight /= total);
    let scales: Vec<Vec<f64>> = nodes.iter().map(|n| vec![n.sd]).collect();
    let keys: Vec<[i64; 2]> = (-10..=12).map(|k| [k, 0]).collect();
    let first = Proposal::of_grid(&nodes, &scales, &keys).unwrap();
    let pilot = sample(&Known, &first, 1000, 3, 0).unwrap();
    let (mean, covariance) = pilot.moments(2);
    let adapted = first.adapted(&mean, &covariance);
    for (proposal, batch) in [(&first, 1), (&adapted, 2)] {
        let found = sample(&Known, proposal, 40_000, 3, batch).unwrap();
        let (mean, covariance) = found.moments(2);
        // E β = 0.3, Var θ = ¼, Var β = 1 + E θ² + Var θ = 1 + 0.34 + 0.25, Cov = ¼
        for (x, exact) in mean.iter().chain(&covariance).zip([0.3, 0.3, 1.59, 0.25, 0.25, 0.25]) {
            assert!((x - exact).abs() < 0.04, "{mean:?} {covariance:?}");
        }
        assert!(found.effective_sample_size > 20_000.0, "{}", found.effective_sample_size);
        // ∫q = 1: the mean of q/p over draws of p is one over the evidence, that of p/q the evidence, 2π·½
        let raw: Vec<f64> = found
            .points
            .chunks_exact(2)
            .map(|z| (Known.log_density(z).unwrap().value - proposal.log_density(z)).exp())
            .collect();
        let evidence = raw.iter().sum::<f64>() / raw.len() as f64;
        assert!((evidence / std::f64::consts::PI - 1.0).abs() < 0.02, "{evidence}");
    }
}

/// The largest weight, in units of the mean.
fn largest(found: &CollapsedSample) -> f64 {
    let most = found.log_weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most.exp() * found.log_weights.len() as f64
}

/// On the clinics no draw weighs more than a few others. With half the spread of β some do: a proposal that is too
/// narrow does not pass this test.
#[test]
fn weights_of_a_skewed_posterior_are_bounded() {
    let model = clinics();
    let prior = SdPrior::HalfNormal(2.5);
    let mixture = model.posterior(&[-2.0, -3.0], 0.5, prior).unwrap();
    let (scales, keys) = keys(&mixture);
    let density = EffectDensity::new(&model, prior);
    let weigh = |nodes: &[Node]| {
        let proposal = Proposal::of_grid(nodes, &scales, &keys).unwrap();
        sample(&density, &proposal, 8000, 5, 0).unwrap()
    };
    let found = weigh(&mixture.nodes);
    println!("{:?} {} {}", found.k_hat, found.effective_sample_size, largest(&found));
    assert!(found.k_hat.unwrap() < 0.4 && largest(&found) < 12.0, "{:?} {}", found.k_hat, largest(&found));
    assert!(found.error < 1e-3 && found.unproved < 1e-3, "{} {}", found.error, found.unproved);
    let mut narrow = mixture.nodes.clone();
    narrow.iter_mut().for_each(|n| n.factor.iter_mut().for_each(|x| *x *= 0.5));
    let found = weigh(&narrow);
    println!("{:?} {} {}", found.k_hat, found.effective_sample_size, largest(&found));
    assert!(found.k_hat.unwrap() >= 0.4 || largest(&found) >= 12.0, "{:?} {}", found.k_hat, largest(&found));
}
