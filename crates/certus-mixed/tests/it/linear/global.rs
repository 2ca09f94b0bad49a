//! The global maximum (docs/mixed.md, L3).
#![allow(clippy::unwrap_used)]

use certus_mixed::linear::{Criterion, Proof, criterion_at, fit, global};

use super::data::{Data, load, model};

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

/// Rows (y, x, group) with an intercept and x as fixed effects and one group term.
fn rows(cells: &[(f64, f64, usize)], more: Option<&dyn Fn(usize) -> f64>) -> Data {
    let labels: Vec<String> = cells.iter().map(|c| format!("g{:03}", c.2)).collect();
    let one = vec![1.0; cells.len()];
    let mut fixed = vec![one.clone(), cells.iter().map(|c| c.1).collect()];
    fixed.extend(more.map(|of| (0..cells.len()).map(of).collect::<Vec<f64>>()));
    model(&[labels], &[(0, vec![one])], &fixed, cells.iter().map(|c| c.0).collect())
}

/// A column that is nearly a combination of the groups (time stamps, a group far away) may explain much where the
/// variance of the groups is infinite: the criterion there can be lower by 28, and nothing is claimed.
#[test]
fn near_combinations_are_not_taken_for_combinations() {
    let y = [0.01, 0.98, 2.01, 3.0, 3.02, 3.99, 4.99, 6.0, -2.01, -0.98, -0.02, 1.01, 1.0, 2.01, 2.99, 4.0];
    for apart in [1e7, 1e9] {
        let start = [0.0, 1.0, 3.0, 7.0].map(|x| x * apart);
        let cells: Vec<_> = (0..16).map(|i| (y[i], start[i / 4] + (i % 4) as f64, i / 4)).collect();
        for scale in [1.0, 1.0 / apart] {
            let scaled: Vec<_> = cells.iter().map(|(y, x, g)| (*y, (x - 2.0 * apart) * scale, *g)).collect();
            let statistics = rows(&scaled, None).statistics();
            let found = fit(&statistics, Criterion::Reml).unwrap();
            let claim = global(&statistics, &found, 1e10);
            assert!(claim.is_err(), "{apart:e}: {claim:?}");
        }
    }
}

/// Columns that are the same within every group are combinations of the groups, which the rows show: the claim is made.
#[test]
fn covariates_of_groups_drop_out() {
    let data = load("dyestuff");
    let cells: Vec<_> = (0..30)
        .map(|i| {
            let batch = data.levels[i][0] as usize;
            (data.response[i], (batch * batch % 5) as f64 - 1.7, batch)
        })
        .collect();
    for criterion in [Criterion::Reml, Criterion::Ml] {
        let statistics = rows(&cells, None).statistics();
        let found = fit(&statistics, criterion).unwrap();
        assert!(global(&statistics, &found, 1e10).is_ok());
    }
}

/// Two columns of X that can hardly be told apart lose most digits of the criterion: nothing is claimed.
#[test]
fn digits_that_cancel_are_allowed_for() {
    let noise = |i: usize| (1.7 * (i * i) as f64).sin();
    let cells: Vec<_> = (0..33).map(|i| (noise(7 * i + 3) + noise(i / 5), noise(i + 50), i / 5)).collect();
    for (apart, claimed) in [(1e-1, true), (1e-6, false), (7e-7, false)] {
        let close = |i: usize| cells[i].1 + apart * noise(3 * i + 1);
        let statistics = rows(&cells, Some(&close)).statistics();
        let found = fit(&statistics, Criterion::Reml).unwrap();
        assert_eq!(global(&statistics, &found, 1e10).is_ok(), claimed, "{apart:e}");
    }
}
