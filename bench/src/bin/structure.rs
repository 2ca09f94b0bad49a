//! `structure GROUPS ROWS [pass | draws GRADIENTS]`: a hierarchical logistic model, five effects per group and ROWS
//! rows each, in memory: the phases of the exact route with their times (not with `pass`), and one exact pass and one
//! step of draws against what the memory alone would take for the bytes that it must touch. With `draws`, the
//! stochastic route with so many gradients instead.

use std::sync::Arc;
use std::time::Instant;

use certus::Goal;
use certus::moving::{Moving, MovingMemory};
use certus::random::{Purpose, Random};
use certus_likelihood::Logistic;
use certus_models::auto::{Method, Model, fit};
use certus_models::hierarchical::GroupTerm;
use certus_models::{Design, Hierarchical, Memory, Prior};

const EFFECTS: usize = 5;
/// Pairs of draws of a step, as the first steps of a run have them.
const PAIRS: usize = 8;
/// What the effects of all groups are drawn around.
const COMMON: [f64; EFFECTS] = [-0.5, 0.8, -0.4, 0.2, 0.0];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [groups, rows, only @ ..] = &arguments[..] else { return Err("structure GROUPS ROWS [pass]".into()) };
    let (groups, rows): (usize, usize) = (groups.parse()?, rows.parse()?);
    let clock = Clock::default();
    let model = clock.time("rows and layout", || model(groups, rows))?;
    if let [_, gradients] = only {
        return draws(&model, gradients.parse()?);
    }
    if !only.is_empty() {
        // a Gaussian about as wide as the optimum costs the same nodes
        let w = certus::Gaussian::isotropic(vec![0.0; model.dim()], 0.7, &model.family())?;
        return bandwidth(&model, &w, &clock);
    }
    let start = clock.time("Laplace", || model.laplace_from(&vec![0.0; model.dim()]))?;
    println!("# the mode took {} Newton steps", start.iterations);
    let mut state = clock.time("value", || model.exact_start(&start.gaussian))?;
    drop(start);
    while !state.done && state.decrement > 0.02 && state.iterations < 30 {
        let (products, passes) = (state.products, state.passes);
        clock.time("Newton step", || model.exact_step(&mut state))?;
        println!(
            "# decrement {:.2e} before it, {} products, {} passes",
            state.decrement,
            state.products - products,
            state.passes - passes
        );
    }
    let gap = clock.time("certificate", || model.gap(&state.gaussian))?;
    println!(
        "# negative ELBO {:.3}, gap {:.2e} {}, means within {:.1e} and sds within {:.1e}",
        state.neg_elbo,
        gap.statement.bound().unwrap_or(f64::NAN),
        gap.statement.level(),
        gap.mean_error.unwrap_or(f64::NAN),
        gap.sd_error.unwrap_or(f64::NAN)
    );
    bandwidth(&model, &state.gaussian, &clock)
}

fn model(groups: usize, rows: usize) -> Result<Hierarchical, Box<dyn std::error::Error>> {
    let n = groups * rows;
    let random = Random::new(1, Purpose::Simulate, 0);
    let (mut normals, mut luck) = (vec![0.0; EFFECTS + rows * (EFFECTS - 1)], vec![0.0; rows]);
    let mut memory = Memory { columns: EFFECTS - 1, ..Memory::default() };
    memory.x.reserve_exact(n * (EFFECTS - 1));
    memory.y.reserve_exact(n);
    for g in 0..groups {
        random.normals(2 * g as u64, 0, normals.len(), &mut normals);
        random.uniforms(2 * g as u64 + 1, 0, rows, &mut luck);
        let (effects, x) = normals.split_at(EFFECTS);
        for (x, luck) in x.chunks_exact(EFFECTS - 1).zip(&luck) {
            let slopes = x.iter().enumerate().map(|(j, x)| (COMMON[j + 1] + effects[j + 1]) * x);
            let t = COMMON[0] + effects[0] + slopes.sum::<f64>();
            memory.y.push(f64::from(u8::from(*luck < 1.0 / (1.0 + (-t).exp()))));
            memory.x.extend_from_slice(x);
        }
    }
    let term = GroupTerm {
        group: (0..n).map(|i| i / rows).collect(),
        slopes: (0..EFFECTS).collect(),
        sd: vec![1.0; EFFECTS],
        within: None,
    };
    let prior = Prior::independent(vec![0.0; EFFECTS], &[2.5; EFFECTS])?;
    let design = Design::new(Arc::new(memory), true);
    Ok(Hierarchical::new(design, &[term], Arc::new(Logistic), &prior, 8 << 30)?)
}

/// The stochastic route, stopped after `gradients`.
fn draws(model: &Hierarchical, gradients: u64) -> Result<(), Box<dyn std::error::Error>> {
    let goal = Goal { gap: 1.0, max_gradients: Some(gradients), ..Goal::default() };
    let (started, before) = (Instant::now(), cpu());
    let outcome = fit(model, &goal, Method::Stochastic)?;
    for point in &outcome.trace {
        println!(
            "{:8} gradients, {:7.1} s: negative ELBO {:.3}, bound {:?}",
            point.gradients,
            point.elapsed.as_secs_f64(),
            point.neg_elbo.unwrap_or(f64::NAN),
            point.bound
        );
    }
    println!("{}; {}", outcome.message, outcome.route);
    let wall = started.elapsed().as_secs_f64();
    println!("{wall:.1} s, {:.1} s of CPU, {} MB at most", cpu() - before, peak() >> 10);
    Ok(())
}

/// One value and one gradient of f and one step of draws: the bytes they must read and write once, over the bandwidth
/// of a copy in this very run.
fn bandwidth(
    model: &Hierarchical,
    w: &certus::Gaussian,
    clock: &Clock,
) -> Result<(), Box<dyn std::error::Error>> {
    let size = model.size();
    let numbers = size.stored + size.dim;
    // rows: features, response; read once. The Gaussian: read once. A gradient of the same size: written once.
    let data = 8 * size.rows * EFFECTS; // four features and a response
    let (value_bytes, gradient_bytes) = (data + 8 * numbers, data + 16 * numbers);
    let length = (numbers).max(1 << 24);
    let (from, mut to) = (vec![1.0_f64; length], vec![0.0_f64; length]);
    let mut copied = Best::default();
    for _ in 0..5 {
        copied.time(|| {
            certus::parallel::for_each_piece(&mut to, 1 << 18, 1, &|k, to| {
                to.copy_from_slice(&from[k << 18..][..to.len()]);
            });
        });
    }
    let stream = 16.0 * length as f64 / copied.wall;
    println!("# copy: {:.1} GB/s, read and written", stream / 1e9);
    drop((from, to));
    let mut best = [Best::default(), Best::default(), Best::default()];
    let (mut moving, mut memory) = (Moving::new(w), MovingMemory::default());
    let random = Random::new(2, Purpose::Step, 0);
    for _ in 0..3 {
        best[0].time(|| model.neg_elbo(w))?;
        best[1].time(|| model.whitened_gradient_norm(w))?;
        best[2].time(|| moving.step(model, &random, PAIRS, &mut memory))?;
    }
    // a step must read the rows once and write what it read of the Gaussian
    let names = ["exact value", "exact gradient", "step of 8 pairs of draws"];
    for ((name, best), bytes) in names.iter().zip(&best).zip([value_bytes, gradient_bytes, gradient_bytes]) {
        let bare = bytes as f64 / stream;
        println!(
            "{name}: {:.3} s ({:.2} s of CPU), {:.2} µs of CPU per group; {bytes} bytes, bare {bare:.4} s, ratio {:.0}",
            best.wall,
            best.cpu,
            1e6 * best.cpu / size.groups as f64,
            best.wall / bare
        );
    }
    println!("{:.1} s in all, {} MB at most", clock.0.elapsed().as_secs_f64(), peak() >> 10);
    Ok(())
}

/// The shortest of several times.
struct Best {
    wall: f64,
    cpu: f64,
}

impl Default for Best {
    fn default() -> Self {
        Self { wall: f64::INFINITY, cpu: f64::INFINITY }
    }
}

impl Best {
    fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (started, before) = (Instant::now(), cpu());
        let out = work();
        self.wall = self.wall.min(started.elapsed().as_secs_f64());
        self.cpu = self.cpu.min(cpu() - before);
        out
    }
}

/// Wall-clock and CPU seconds of phases.
struct Clock(Instant);

impl Default for Clock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock {
    fn time<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let (started, before) = (Instant::now(), cpu());
        let out = work();
        let wall = started.elapsed().as_secs_f64();
        println!(
            "{name:<16} {wall:8.2} s, {:8.2} s of CPU, {} MB at most so far",
            cpu() - before,
            peak() >> 10
        );
        out
    }
}

/// Seconds of CPU of this process so far; 0 where the system does not say.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |k: usize| fields.get(k).and_then(|x| x.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// KB of memory at most so far.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|x| x.parse().ok()).unwrap_or(0)
}
