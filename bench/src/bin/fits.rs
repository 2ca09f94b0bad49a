//! Fits the benchmark problems without settings, one thread: `fits models|boxes SEEDS DIR...` (directories as `data/`).
//! One JSON line per run, as `bench/peers` writes them: settings "auto" and "stochastic" for models; "black box" with
//! nothing but the log density, and "black box, gap 1e-6" to see how soon it passes what others reach. The gap is
//! exact.

use std::ops::ControlFlow;
use std::path::Path;

use certus::{Gaussian, Goal, Outcome, Target, TargetError, auto_observed};
use certus_bench::cpu_seconds;
use certus_bench::problems::{Problem, load};
use certus_models::Glm;
use certus_models::auto::{Method, Model, fit};

const NAMES: [&str; 8] =
    ["lin_d10", "lin_d100", "lin_ill_d50", "logit_d10", "logit_bc", "hier_logit", "logit_d100", "logit_d500"];

/// A model's log density, and nothing else.
struct Opaque<'a>(&'a Glm);

impl Target for Opaque<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }
    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        self.0.log_density(points, values, gradients)
    }
}

/// One line.
fn report(
    setting: &str,
    problem: &str,
    seed: u64,
    cpu: f64,
    gap: f64,
    outcome: &Outcome,
    trace: &[[f64; 3]],
) {
    let statement = &outcome.certificate.gap.statement;
    let number = |x: Option<f64>| x.filter(|x| x.is_finite()).map_or("null".into(), |x| format!("{x:.6e}"));
    let trace: Vec<String> = trace.iter().map(|t| format!("[{},{:.5},{:.4e}]", t[0], t[1], t[2])).collect();
    println!(
        "{{\"tool\": \"certus\", \"version\": \"{}\", \"setting\": \"{setting}\", \"tuned\": false, \"problem\": \"{problem}\", \"seed\": {seed}, \
         \"gradients\": {}, \"hessians\": {}, \"exact_passes\": {}, \"values\": 0, \"cpu_seconds\": {cpu:.5}, \"compile_seconds\": 0, \"gap\": {gap:.4e}, \
         \"status\": \"{}\", \"level\": \"{}\", \"bound\": {}, \"estimate\": {}, \"said\": {:?}, \"trace\": [{}]}}",
        env!("CARGO_PKG_VERSION"),
        outcome.counts.gradients,
        outcome.counts.hessians,
        outcome.counts.exact_passes,
        outcome.status.as_str(),
        statement.level().name(),
        number(statement.bound()),
        number(statement.constant("estimate")),
        outcome.message,
        trace.join(",")
    );
}

fn black_box(problem: &Problem, name: &str, setting: &str, goal: &Goal) {
    let gap = |w: &Gaussian| problem.dense.neg_elbo(w).map_or(f64::NAN, |f| f - problem.neg_elbo);
    // what the exact gaps of the trace cost does not count
    let (began, mut watching, mut trace) = (cpu_seconds(), 0.0, Vec::new());
    let outcome = auto_observed(&Opaque(&problem.dense), goal, &mut |p| {
        if let Some(w) = p.gaussian {
            let now = cpu_seconds();
            trace.push([p.gradients as f64, now - began - watching, gap(w)]);
            watching += cpu_seconds() - now;
        }
        ControlFlow::Continue(())
    })
    .expect("a fit");
    let cpu = cpu_seconds() - began - watching;
    report(setting, name, goal.seed, cpu, gap(&outcome.gaussian), &outcome, &trace);
}

fn model(problem: &Problem, name: &str, method: Method, seed: u64) {
    let model: &dyn Model = problem.grouped.as_ref().map_or(&problem.dense, |g| g);
    let began = cpu_seconds();
    let outcome = fit(model, &Goal { seed, ..Goal::default() }, method).expect("a fit");
    let cpu = cpu_seconds() - began;
    // f of a hierarchical model is exact, too, and the numbers agree
    let gap = outcome.neg_elbo.value - problem.neg_elbo;
    report(method.as_str(), name, seed, cpu, gap, &outcome, &[[outcome.counts.gradients as f64, cpu, gap]]);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let models = match arguments.next().as_deref() {
        Some("models") => true,
        Some("boxes") => false,
        other => panic!("models or boxes, not {other:?}"),
    };
    let seeds: u64 = arguments.next().and_then(|s| s.parse().ok()).expect("how many seeds?");
    let folders: Vec<String> = arguments.collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| {
        for name in NAMES {
            let Some(problem) = folders.iter().find_map(|dir| load(Path::new(dir), name)) else {
                eprintln!("{name}: not in {folders:?}, skipped");
                continue;
            };
            for seed in 0..seeds {
                if models {
                    model(&problem, name, Method::Auto, seed);
                    // a pass over logit_d500 costs more than the whole exact fit; nobody would sample there
                    if name != "logit_d500" {
                        model(&problem, name, Method::Stochastic, seed);
                    }
                    continue;
                }
                black_box(&problem, name, "black box", &Goal { seed, ..Goal::default() });
                let far = Goal { seed, gap: 1e-6, max_gradients: Some(12_000), ..Goal::default() };
                black_box(&problem, name, "black box, gap 1e-6", &far);
            }
        }
    });
}
