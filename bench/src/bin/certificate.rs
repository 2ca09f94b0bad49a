//! The certificate of a hierarchical model with 100,005 latents against one iteration of the exact solver, in one run,
//! with all threads.

use std::sync::Arc;
use std::time::Instant;

use certus::random::{Purpose, Random};
use certus_likelihood::Logistic;
use certus_models::{Design, GroupTerm, Hierarchical, Memory, Prior};

const GROUPS: usize = 20_000;
const EACH: usize = 10;
const FEATURES: usize = 5;

fn main() {
    let n = GROUPS * EACH;
    let normals = |key: u64, count: usize| {
        let mut out = vec![0.0; count];
        Random::new(7, Purpose::Simulate, key).normals(0, 0, count, &mut out);
        out
    };
    let (mut x, luck) = (normals(0, n * FEATURES), normals(1, n));
    x.iter_mut().step_by(FEATURES).for_each(|v| *v = 1.0);
    let own = normals(2, GROUPS * FEATURES);
    let group: Vec<usize> = (0..n).map(|i| i % GROUPS).collect();
    // a logistic response from the logistic quantile of a normal's probability, near enough
    let y = (0..n).map(|i| {
        let t: f64 = (0..FEATURES).map(|j| 0.7 * x[i * FEATURES + j] * own[group[i] * FEATURES + j]).sum();
        f64::from(u8::from(t + 1.7 * luck[i] > 0.0))
    });
    let rows = Memory { y: y.collect(), x, columns: FEATURES, ..Memory::default() };
    let slopes: Vec<usize> = (0..FEATURES).collect();
    let term = GroupTerm { group, slopes, sd: vec![1.0; FEATURES], within: None };
    let prior = Prior::independent(vec![0.0; FEATURES], &[1.0; FEATURES]).expect("a prior");
    let design = Design::new(Arc::new(rows), false);
    let model = Hierarchical::new(design, &[term], Arc::new(Logistic), &prior, 4 << 30).expect("a model");
    let start = model.laplace().expect("a mode");
    let mut state = model.exact_start(&start).expect("finite");
    let mut slowest = 0.0_f64;
    while !state.done && state.iterations < 50 {
        let clock = Instant::now();
        model.exact_step(&mut state).expect("finite");
        slowest = slowest.max(clock.elapsed().as_secs_f64());
    }
    let clock = Instant::now();
    let gap = model.gap(&state.gaussian).expect("finite");
    let seconds = clock.elapsed().as_secs_f64();
    println!(
        "d = {}: {} iterations, the slowest {slowest:.2} s; certificate {seconds:.2} s, {:.2} of an iteration; gap {} at most {:.1e}",
        model.dim(),
        state.iterations,
        seconds / slowest,
        gap.statement.level(),
        gap.statement.bound().unwrap_or(f64::INFINITY)
    );
}
