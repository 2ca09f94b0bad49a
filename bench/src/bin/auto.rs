//! The fit without settings, one thread: a stochastic step against the bare batch gradient of the same size, timed in turns; and the time of
//! `auto` with defaults on the CSV problems given as arguments (a column `group` makes a problem hierarchical, a name in `lin` linear).

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use certus::moving::MovingMemory;
use certus::random::{Purpose, Random};
use certus::{Goal, Target};
use certus_models::auto::{Method, Model, ModelState, fit};
use certus_models::likelihood::{Likelihood, Linear, Logistic};
use certus_models::{Design, Glm, GroupTerm, Hierarchical, Memory, Prior};

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

fn read(path: &Path) -> Box<dyn Model> {
    let text = std::fs::read_to_string(path).expect("a CSV file");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let xs: Vec<usize> = (0..names.len()).filter(|&j| names[j].starts_with('x')).collect();
    let at = |name: &str| names.iter().position(|n| *n == name);
    let (y, group) = (at("y").expect("a column y"), at("group"));
    let (mut memory, mut groups) = (Memory { columns: xs.len(), ..Memory::default() }, Vec::new());
    for line in lines {
        let row: Vec<f64> = line.split(',').map(|cell| cell.parse().expect("a number")).collect();
        memory.x.extend(xs.iter().map(|&j| row[j]));
        memory.y.push(row[y]);
        groups.extend(group.map(|g| row[g] as usize));
    }
    let d = xs.len();
    let linear = path.file_stem().is_some_and(|name| name.to_string_lossy().starts_with("lin"));
    let likelihood: Arc<dyn Likelihood> =
        if linear { Arc::new(Linear::new(1.0).expect("a scale")) } else { Arc::new(Logistic) };
    let prior = Prior::independent(vec![0.0; d], &vec![1.0; d]).expect("a prior");
    let design = Design::new(Arc::new(memory), false);
    if group.is_none() {
        return Box::new(Glm::new(design, likelihood, prior).expect("a model"));
    }
    let term = GroupTerm { group: groups, slopes: (0..d).collect(), sd: vec![1.0; d], within: None };
    Box::new(Hierarchical::new(design, &[term], likelihood, &prior, 1 << 30).expect("a model"))
}

fn problem(path: &str) {
    let model = read(Path::new(path));
    let name = Path::new(path).file_stem().expect("a name").to_string_lossy().into_owned();
    for method in [Method::Auto, Method::Stochastic] {
        let mut times = Vec::new();
        let mut last = None;
        for seed in 0..5 {
            let outcome = fit(&*model, &Goal { seed, ..Goal::default() }, method).expect("a fit");
            times.push(1e3 * outcome.elapsed.as_secs_f64());
            last = Some(outcome);
        }
        times.sort_by(f64::total_cmp);
        let outcome = last.expect("five fits");
        println!(
            "{name} {}: median of 5 {:.1} ms, {}, gap {} at most {:.1e}; {} gradients, {} Hessians, {} exact passes",
            method.as_str(),
            times[2],
            outcome.status.as_str(),
            outcome.certificate.gap.statement.level(),
            outcome.certificate.gap.statement.bound().unwrap_or(f64::INFINITY),
            outcome.counts.gradients,
            outcome.counts.hessians,
            outcome.counts.exact_passes
        );
    }
}

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| {
        overhead(10_000, 100);
        overhead(5000, 500);
        std::env::args().skip(1).for_each(|path| problem(&path));
    });
}
