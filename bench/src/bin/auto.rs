//! The fit without settings, one thread: a stochastic step against the bare batch gradient of the same size, timed in
//! turns. What whole fits cost is in `fits`.

use std::sync::Arc;
use std::time::Instant;

use certus::moving::MovingMemory;
use certus::random::{Purpose, Random};
use certus::{Goal, Target};
use certus_likelihood::Logistic;
use certus_models::auto::{Method, ModelState};
use certus_models::{Design, Glm, Memory, Prior};

const ROUNDS: usize = 15;

fn overhead(n: usize, d: usize) {
    let mut x = vec![0.0; n * d];
    Random::new(1, Purpose::Simulate, 0).normals(0, 0, d, &mut x);
    x.iter_mut().for_each(|v| *v *= (d as f64).sqrt().recip());
    let y: Vec<f64> =
        x.chunks_exact(d).map(|row| f64::from(u8::from(row.iter().sum::<f64>() > 0.1))).collect();
    let memory = Memory { x, y, columns: d, ..Memory::default() };
    let prior = Prior::independent(vec![0.0; d], &vec![1.0; d]).expect("a prior");
    let model = Glm::new(Design::new(Arc::new(memory), false), Arc::new(Logistic), prior).expect("a model");
    let goal = Goal { gap: 1e-12, ..Goal::default() };
    let mut buffers = MovingMemory::default();
    let mut fresh = ModelState::new(&model, &goal, Method::Stochastic).expect("a mode");
    fresh.step(&model, &goal, &mut buffers).expect("a first look");
    // points like those of the steps
    let (points, q) = (16, certus_models::laplace(&model).expect("a mode").gaussian);
    let z = q.sample(points, 0);
    let (mut values, mut gradients) = (vec![0.0; points], vec![0.0; d * points]);
    let mut timed = Vec::new();
    for _ in 0..ROUNDS {
        let mut state = fresh.clone();
        while state.next_gradients() == points as u64 {
            let clock = Instant::now();
            model.log_density(&z, &mut values, &mut gradients).expect("finite");
            let bare = clock.elapsed().as_secs_f64();
            let clock = Instant::now();
            state.step(&model, &goal, &mut buffers).expect("finite");
            timed.push((clock.elapsed().as_secs_f64() / bare, bare));
        }
    }
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (ratio, bare) = timed[timed.len() / 2];
    println!(
        "step of 8 pairs against a gradient at 16 points, N={n} d={d}: median ratio {ratio:.2} of {} (gradient {:.2} ms)",
        timed.len(),
        1e3 * bare
    );
}

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| {
        overhead(10_000, 100);
        overhead(5000, 500);
    });
}
