//! `paper [SEEDS]`: the methods of Domke, Garrigos and Gower against their theorems. For a linear, a logistic and a
//! hierarchical model: E|w_t − w*|² over SEEDS [50] runs of one draw each step, beside the bound of the theorem with
//! the paper's constants and steps, with ours (docs/maths.md), and in a certified ball (Theorem G, in the frame of the
//! ball's centre). Prints CSV; bench/paper.py draws it.

use std::path::Path;

use certus::frame::{Frame, Framed};
use certus::linalg::{eigen, lower_of_same_covariance, mirror, solve_lower};
use certus::theorem::Constants;
use certus::{Factor, Family, Gaussian, MethodName, Plan, Settings, StepRule, Target};
use certus_bench::problems;
use certus_models::auto::Model;
use rayon::prelude::*;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let seeds: u64 = std::env::args().nth(1).map_or(Ok(50), |n| n.parse())?;
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data");
    println!("problem,dimension,kappa,method,constants,iteration,mean,standard_error,bound");
    for (name, most) in [("lin_d10", 100_000), ("logit_d10", 100_000), ("hier_logit", 3_000)] {
        let problem = problems::load(&data, name).ok_or("data/ is incomplete")?;
        let (model, d) = (&problem.dense, problem.dense.dim());
        let start = model.laplace_start(None)?.gaussian;
        let best = model.solve_exactly()?.gaussian;
        let curvature = model.curvature().ok_or("no curvature")?.with_mode(start.mean().to_vec());
        let kappa = curvature.smoothness() / curvature.strong_convexity();
        let show = |method: &str, constants: &str, rows: Vec<Row>| {
            for Row { iteration, mean, error, bound } in rows {
                println!(
                    "{name},{d},{kappa:.1},{method},{constants},{iteration},{mean:e},{error:e},{bound:e}"
                );
            }
        };
        for (label, method, family) in [
            ("prox-energy", MethodName::ProxEnergy, Family::Lower),
            ("proj-entropy", MethodName::ProjEntropy, Family::Symmetric),
            ("proj-stl", MethodName::ProjStl, Family::Symmetric),
        ] {
            let optimum = with_factor(&best, &family)?;
            for (constants, chosen, step_rule) in
                [("paper", Constants::Paper, StepRule::Paper), ("sharp", Constants::Sharp, StepRule::Greedy)]
            {
                let settings = Settings {
                    method,
                    constants: chosen,
                    step_rule,
                    curvature: Some(curvature.clone()),
                    ..common(most)
                };
                show(label, constants, errors(model, &settings, &optimum, seeds)?);
            }
        }
        // distances here are in the frame of the ball's centre, whose unit is a posterior sd
        let center = with_factor(&start, &Family::Lower)?;
        if let Ok(local) = model.ball(&center)? {
            let framed = Framed::new(model, Frame::of(&center)?, None)?;
            let optimum = in_frame(&best, &center)?;
            let settings = Settings {
                method: MethodName::BallStl,
                step_rule: StepRule::Greedy,
                local: Some(local),
                ..common(most)
            };
            show("ball-stl", "local", errors(&framed, &settings, &optimum, seeds)?);
        }
    }
    Ok(())
}

/// One draw each step, as in the paper.
fn common(iterations: u64) -> Settings {
    Settings { batch: 1, iterations, threads: Some(1), ..Settings::default() }
}

/// E|w_t − w*|² at one iteration.
struct Row {
    iteration: u64,
    mean: f64,
    /// The standard error of the mean over the seeds.
    error: f64,
    bound: f64,
}

/// At 1, 2, 5, 10, … iterations.
fn errors(
    target: &dyn Target,
    settings: &Settings,
    optimum: &Gaussian,
    seeds: u64,
) -> Result<Vec<Row>, Failure> {
    let checkpoints: Vec<u64> = (0..8)
        .flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)))
        .filter(|t| *t <= settings.iterations)
        .collect();
    let runs: Vec<Vec<[f64; 2]>> = (0..seeds)
        .into_par_iter()
        .map(|seed| {
            let plan = Plan::new(target, &Settings { seed, ..settings.clone() })?;
            let (mut state, mut memory) = (plan.start(), plan.memory());
            let mut found = Vec::new();
            for &t in &checkpoints {
                while state.iteration() < t {
                    plan.step(target, &mut state, &mut memory)?;
                }
                found.push([state.iterate().distance_squared(optimum), state.bound()]);
            }
            Ok(found)
        })
        .collect::<Result<_, certus::Error>>()?;
    let n = seeds as f64;
    Ok(checkpoints
        .iter()
        .enumerate()
        .map(|(k, &iteration)| {
            let mean = runs.iter().map(|run| run[k][0]).sum::<f64>() / n;
            let squares: f64 = runs.iter().map(|run| (run[k][0] - mean).powi(2)).sum();
            Row { iteration, mean, error: (squares / (n * (n - 1.0))).sqrt(), bound: runs[0][k][1] }
        })
        .collect())
}

/// The same Gaussian with a lower-triangular or symmetric factor.
fn with_factor(w: &Gaussian, family: &Family) -> Result<Gaussian, Failure> {
    if *family == Family::Symmetric {
        return symmetric(w.mean().to_vec(), &w.covariance());
    }
    let lower =
        certus::factor::Lower::new(w.dim(), lower_of_same_covariance(&w.factor().to_dense(), w.dim()))?;
    Ok(Gaussian::new(w.mean().to_vec(), Factor::Lower(lower))?)
}

/// The Gaussian with the symmetric root of a covariance matrix.
fn symmetric(mean: Vec<f64>, covariance: &[f64]) -> Result<Gaussian, Failure> {
    let d = mean.len();
    let (values, vectors) = eigen(covariance, d).ok_or("no eigenvalues")?;
    let mut root = vec![0.0; d * d];
    for (value, v) in values.iter().zip(vectors.chunks_exact(d)) {
        for j in 0..d {
            for i in 0..d {
                root[j * d + i] += value.sqrt() * v[i] * v[j];
            }
        }
    }
    mirror(&mut root, d);
    let factor = certus::factor::Symmetric::new(d, root)?;
    Ok(Gaussian::new(mean, Factor::Symmetric(factor))?)
}

/// w as seen from the frame of the centre: z = m + L u with the centre's mean m and lower factor L.
fn in_frame(w: &Gaussian, center: &Gaussian) -> Result<Gaussian, Failure> {
    let (d, l) = (w.dim(), center.factor().to_dense());
    let mut mean: Vec<f64> = w.mean().iter().zip(center.mean()).map(|(a, b)| a - b).collect();
    solve_lower(&l, d, false, &mut mean);
    // L⁻¹ Σ L⁻ᵀ
    let mut covariance = w.covariance();
    for _ in 0..2 {
        covariance.chunks_exact_mut(d).for_each(|column| solve_lower(&l, d, false, column));
        covariance = (0..d * d).map(|e| covariance[e % d * d + e / d]).collect();
    }
    symmetric(mean, &covariance)
}
