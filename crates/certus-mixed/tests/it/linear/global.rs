//! The global maximum (docs/mixed.md, L3).
#![allow(clippy::unwrap_used)]

use certus_mixed::linear::{Criterion, Proof, criterion_at, fit, global};

use super::data::{Data, load};

/// Six published data sets: the estimate is the maximum over all variances, Dyestuff2's 0 among them.
#[test]
fn published_estimates_are_global() {
    for name in ["dyestuff", "dyestuff2", "sleepzc", "penicillin", "pastes", "machines_n"] {
        for criterion in [Criterion::Reml, Criterion::Ml] {
            let statistics = load(name).statistics();
            let found = fit(&statistics, criterion).unwrap();
            let cells = global(&statistics, &found, 1e10).unwrap().cells;
            println!("{name} {criterion:?}: {cells} cells");
            assert!(cells < 6000);
        }
    }
}

/// The lowest criterion on a grid of sd ratios, σ at its best: F(γ) = min over σ.
fn lowest_on_a_grid(data: &Data, criterion: Criterion) -> f64 {
    let statistics = data.statistics();
    let grid: Vec<f64> =
        std::iter::once(0.0).chain((0..60).map(|i| 10f64.powf(-2.0 + 0.1 * f64::from(i)))).collect();
    let terms = data.design.terms.len();
    let mut least = f64::INFINITY;
    for a in &grid {
        for b in if terms == 2 { &grid[..] } else { &grid[..1] } {
            let factors: Vec<Vec<f64>> = [a, b].iter().take(terms).map(|t| vec![**t]).collect();
            let value = |log: f64| criterion_at(&statistics, criterion, &factors, log.exp()).unwrap();
            // −2 log L is m log σ² + Q/σ² in σ: two values give Q, and with it the minimum
            let m = match criterion {
                Criterion::Reml => (data.response.len() - data.design.fixed) as f64,
                Criterion::Ml => data.response.len() as f64,
            };
            let q = (value(0.0) - value(1.0) + 2.0 * m) / (1.0 - (-2.0f64).exp());
            least = least.min(value(0.5 * (q / m).ln()));
        }
    }
    least
}

/// Responses shuffled: maxima inside and on the boundary, all global, none beaten on a grid.
#[test]
fn no_grid_beats_what_is_proved() {
    let mut state = 5u64;
    for name in ["dyestuff", "pastes", "penicillin"] {
        let mut data = load(name);
        let (mut proved, mut zero) = (0, 0);
        for round in 0..8 {
            for i in (1..data.response.len()).rev() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                // every other time only half of the rows change places
                if round % 2 == 0 || i % 2 == 0 {
                    data.response.swap(i, ((state >> 33) % (i as u64 + 1)) as usize);
                }
            }
            for criterion in [Criterion::Reml, Criterion::Ml] {
                let statistics = data.statistics();
                let found = fit(&statistics, criterion).unwrap();
                zero += usize::from(matches!(found.proof, Proof::Boundary { .. }));
                match global(&statistics, &found, 1e10) {
                    Ok(_) => {
                        proved += 1;
                        assert!(lowest_on_a_grid(&data, criterion) > found.value - 1e-8, "{name} {round}");
                    }
                    Err(reason) => println!("{name} {round} {criterion:?}: {reason}"),
                }
            }
        }
        println!("{name}: {proved} of 16 proved, {zero} on the boundary");
        assert!(proved >= 14 && zero > 0);
    }
}
