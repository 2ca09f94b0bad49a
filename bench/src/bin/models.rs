//! The batch gradient of a logistic model beside two full faer products plus elementwise φ′, in one run, one thread;
//! and the time of Laplace + exact solver + gradient check on a CSV problem given as arguments.

use std::sync::Arc;
use std::time::Instant;

use certus::Target;
use certus_bench::best;
use certus_likelihood::{Datum, Logistic, Slices};
use certus_models::{Design, Glm, Memory, Prior};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

fn kernel(n: usize, d: usize, b: usize) {
    let x: Vec<f64> = (0..n * d).map(|k| ((k * 7919 % 1000) as f64 / 500.0 - 1.0) * 0.3).collect();
    let y: Vec<f64> = (0..n).map(|i| (i % 2) as f64).collect();
    let z: Vec<f64> = (0..d * b).map(|k| ((k * 104_729 % 1000) as f64 / 500.0 - 1.0) * 0.1).collect();
    let data: Vec<Datum> = y.iter().map(|&y| Datum { y, trials: 1.0 }).collect();
    let ones = vec![1.0; n];
    let memory = Memory { x: x.clone(), y, columns: d, ..Memory::default() };
    let prior = Prior::independent(vec![0.0; d], &vec![1.0; d]).expect("a prior");
    let model = Glm::new(Design::new(Arc::new(memory), false), Arc::new(Logistic), prior).expect("a model");
    let (mut values, mut gradients) = (vec![0.0; b], vec![0.0; d * b]);
    let ours = best(|| model.log_density(&z, &mut values, &mut gradients).expect("finite"));
    // two full products with φ′ between them, in the better of the two layouts of X
    let mut p = vec![0.0; n * b];
    let zm = MatRef::from_column_major_slice(&z, d, b);
    let mut turned = vec![0.0; n * d];
    for i in 0..n {
        for j in 0..d {
            turned[j * n + i] = x[i * d + j];
        }
    }
    let mut full = f64::INFINITY;
    for xm in [MatRef::from_row_major_slice(&x, n, d), MatRef::from_column_major_slice(&turned, n, d)] {
        full = full.min(best(|| {
            matmul(MatMut::from_column_major_slice_mut(&mut p, n, b), Accum::Replace, xm, zm, 1.0, Par::Seq);
            for (column, value) in p.chunks_exact_mut(n).zip(&mut values) {
                *value = Logistic.first_derivatives(column, &data, &ones);
            }
            let pm = MatRef::from_column_major_slice(&p, n, b);
            let g = MatMut::from_column_major_slice_mut(&mut gradients, d, b);
            matmul(g, Accum::Replace, xm.transpose(), pm, 1.0, Par::Seq);
        }));
    }
    let slope = best(|| {
        for column in p.chunks_exact_mut(n) {
            std::hint::black_box(Logistic.first_derivatives(column, &data, &ones));
        }
    });
    println!(
        "batch gradient N={n} d={d} B={b}: fused {:.2} ms, two products and slopes {:.2} ms, ratio {:.2}; value and slope {:.2} ns each",
        1e3 * ours,
        1e3 * full,
        ours / full,
        1e9 * slope / (n * b) as f64
    );
}

fn problem(path: &str) {
    let text = std::fs::read_to_string(path).expect("a CSV file");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let y_at = names.iter().position(|n| *n == "y").expect("a column y");
    let mut memory = Memory { columns: names.len() - 1, ..Memory::default() };
    for line in lines {
        for (j, cell) in line.split(',').enumerate() {
            let value = cell.parse().expect("a number");
            if j == y_at { memory.y.push(value) } else { memory.x.push(value) }
        }
    }
    let d = memory.columns;
    let prior = Prior::independent(vec![0.0; d], &vec![1.0; d]).expect("a prior");
    let model = Glm::new(Design::new(Arc::new(memory), false), Arc::new(Logistic), prior).expect("a model");
    let mut times = Vec::new();
    for _ in 0..3 {
        let clock = Instant::now();
        let mode = certus_models::laplace(&model).expect("a mode");
        let laplace = clock.elapsed().as_secs_f64();
        let state = model.solve_exactly().expect("an optimum");
        let norm = model.whitened_gradient(&state.gaussian).expect("finite").norm();
        times.push(clock.elapsed().as_secs_f64() - laplace);
        println!(
            "{path}: mode in {laplace:.3} s ({} iterations); mode + exact + check {:.3} s ({} iterations, {} products, |g| = {norm:.1e})",
            mode.iterations,
            times[times.len() - 1],
            state.iterations,
            state.products
        );
    }
}

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| {
        kernel(5000, 500, 16);
        kernel(10_000, 100, 16);
        std::env::args().skip(1).for_each(|path| problem(&path));
    });
}
