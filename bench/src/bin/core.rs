//! Time per iteration of `Plan::step` beside the bare kernels it must contain, in one run.
//!
//! Bare kernels, each with the fastest faer call we know, in sequence, at the same d and B: B·d normals; Z = C U; C +=
//! Π Uᵀ; for the projected methods also C⁻¹U (one Cholesky factorisation and two solves) or C⁻¹, and, where the
//! projection is active, one eigendecomposition put together again. The target (a standard normal) is *not* among them.
//! One thread unless said otherwise.

use certus::{Curvature, Family, MethodName, Plan, Settings, StepRule, Target, TargetError, Tree};
use certus_bench::best;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::matmul::triangular::BlockStructure::{Rectangular, TriangularLower};
use faer::linalg::matmul::{matmul, triangular};
use faer::{Accum, MatMut, MatRef, Par};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// N(0, I/h): the cheapest target there is.
struct Cheap {
    dim: usize,
    h: f64,
}

impl Target for Cheap {
    fn dim(&self) -> usize {
        self.dim
    }
    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        let run = 1 << 15;
        values.fill(0.0);
        certus::parallel::for_each_piece(gradients, run, 1, &|i, part| {
            part.iter_mut().zip(&points[i * run..]).for_each(|(g, z)| *g = -self.h * z);
        });
        Ok(())
    }
    fn curvature(&self) -> Option<Curvature> {
        Curvature::new(self.h, self.h, certus::internals::by_model()).ok()
    }
}

fn step_time(target: &Cheap, settings: &Settings) -> f64 {
    let plan = Plan::new(target, settings).expect("a legal plan");
    let (mut state, mut memory) = (plan.start(), plan.memory());
    for _ in 0..3 {
        plan.step(target, &mut state, &mut memory).expect("a step");
    }
    best(|| {
        plan.step(target, &mut state, &mut memory).expect("a step");
    })
}

fn view(x: &[f64], rows: usize, columns: usize) -> MatRef<'_, f64> {
    MatRef::from_column_major_slice(x, rows, columns)
}

fn normals(d: usize, b: usize) -> f64 {
    let mut out = vec![0.0; d * b];
    let mut iteration = 0;
    best(|| {
        iteration += 1;
        let mut rng = ChaCha8Rng::from_seed([1; 32]);
        rng.set_stream(iteration);
        for (sample, column) in out.chunks_exact_mut(d).enumerate() {
            for (block, part) in column.chunks_mut(256).enumerate() {
                rng.set_word_pos((((sample as u128) << 24) | block as u128) << 12);
                part.iter_mut().for_each(|x| *x = StandardNormal.sample(&mut rng));
            }
        }
    })
}

/// The two products of a step on a d × d factor; the triangular ones may use whichever of two faer calls is faster.
fn products(d: usize, b: usize, triangular_factor: bool) -> f64 {
    let mut c = vec![0.0; d * d];
    for j in 0..d {
        for i in j..d {
            c[j * d + i] = 1e-3;
        }
    }
    let (u, pi, mut z) = (vec![0.3; d * b], vec![1e-9; d * b], vec![0.0; d * b]);
    let (um, pm) = (view(&u, d, b), view(&pi, d, b));
    let full = best(|| {
        let z = MatMut::from_column_major_slice_mut(&mut z, d, b);
        matmul(z, Accum::Replace, view(&c, d, d), um, 1.0, Par::Seq);
    });
    let half = best(|| {
        let z = MatMut::from_column_major_slice_mut(&mut z, d, b);
        triangular::matmul(
            z,
            Rectangular,
            Accum::Replace,
            view(&c, d, d),
            TriangularLower,
            um,
            Rectangular,
            1.0,
            Par::Seq,
        );
    });
    let full_update = best(|| {
        let c = MatMut::from_column_major_slice_mut(&mut c, d, d);
        matmul(c, Accum::Add, pm, um.transpose(), -1e-9, Par::Seq);
    });
    let half_update = best(|| {
        let c = MatMut::from_column_major_slice_mut(&mut c, d, d);
        triangular::matmul(
            c,
            TriangularLower,
            Accum::Add,
            pm,
            Rectangular,
            um.transpose(),
            Rectangular,
            -1e-9,
            Par::Seq,
        );
    });
    if triangular_factor { full.min(half) + full_update.min(half_update) } else { full + full_update }
}

fn symmetric_matrix(d: usize) -> Vec<f64> {
    (0..d * d)
        .map(|k| if k % (d + 1) == 0 { 2.0 } else { 1e-3 * (((k % d) * (k / d)) as f64).sin() })
        .collect()
}

fn cholesky_and_solves(d: usize, b: usize) -> f64 {
    use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
    use faer::linalg::cholesky::llt::solve::solve_in_place;
    let a = symmetric_matrix(d);
    let (mut work, mut x) = (a.clone(), vec![0.1; d * b]);
    let mut memory = MemBuffer::new(cholesky_in_place_scratch::<f64>(d, Par::Seq, Default::default()));
    best(|| {
        work.copy_from_slice(&a);
        let m = MatMut::from_column_major_slice_mut(&mut work, d, d);
        cholesky_in_place(m, Default::default(), Par::Seq, MemStack::new(&mut memory), Default::default())
            .expect("positive definite");
        x.fill(0.1);
        let x = MatMut::from_column_major_slice_mut(&mut x, d, b);
        solve_in_place(view(&work, d, d), x, Par::Seq, MemStack::new(&mut []));
    })
}

/// Cholesky factorisation and inverse: what C⁻¹ of the entropy estimator costs.
fn inverse_time(d: usize) -> f64 {
    use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
    use faer::linalg::cholesky::llt::inverse::{inverse, inverse_scratch};
    let a = symmetric_matrix(d);
    let (mut work, mut out) = (a.clone(), a.clone());
    let need = cholesky_in_place_scratch::<f64>(d, Par::Seq, Default::default())
        .or(inverse_scratch::<f64>(d, Par::Seq));
    let mut memory = MemBuffer::new(need);
    best(|| {
        work.copy_from_slice(&a);
        let m = MatMut::from_column_major_slice_mut(&mut work, d, d);
        cholesky_in_place(m, Default::default(), Par::Seq, MemStack::new(&mut memory), Default::default())
            .expect("positive definite");
        let out = MatMut::from_column_major_slice_mut(&mut out, d, d);
        inverse(out, view(&work, d, d), Par::Seq, MemStack::new(&mut memory));
    })
}

/// Eigenvalues, eigenvectors, and V D Vᵀ put together again.
fn eigendecomposition(d: usize) -> f64 {
    use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
    let a = symmetric_matrix(d);
    let (mut values, mut vectors, mut c) = (vec![0.0; d], vec![0.0; d * d], vec![0.0; d * d]);
    let need = self_adjoint_evd_scratch::<f64>(d, ComputeEigenvectors::Yes, Par::Seq, Default::default());
    let mut memory = MemBuffer::new(need);
    best(|| {
        let s = faer::diag::DiagMut::from_slice_mut(&mut values);
        let u = MatMut::from_column_major_slice_mut(&mut vectors, d, d);
        self_adjoint_evd(
            view(&a, d, d),
            s,
            Some(u),
            Par::Seq,
            MemStack::new(&mut memory),
            Default::default(),
        )
        .expect("finite");
        let scaled = view(&vectors, d, d);
        let c = MatMut::from_column_major_slice_mut(&mut c, d, d);
        triangular::matmul(
            c,
            TriangularLower,
            Accum::Replace,
            scaled,
            Rectangular,
            scaled.transpose(),
            Rectangular,
            1.0,
            Par::Seq,
        );
    })
}

fn dense() {
    println!("\nmicroseconds per iteration, one thread");
    println!("{:<30} {:>5} {:>4} {:>10} {:>10} {:>7}", "method", "d", "B", "step", "bare", "ratio");
    for d in [10, 17, 100, 500] {
        for batch in [1, 10, 64] {
            let noise = normals(d, batch);
            let base = |method| Settings {
                method,
                batch,
                step_rule: StepRule::Constant(1e-4),
                ..Settings::default()
            };
            let row = |name: &str, step: f64, bare: f64| {
                println!(
                    "{name:<30} {d:>5} {batch:>4} {:>10.2} {:>10.2} {:>7.2}",
                    1e6 * step,
                    1e6 * bare,
                    step / bare
                );
            };
            let target = Cheap { dim: d, h: 1.0 };
            let triangle = noise + products(d, batch, true);
            row("prox-energy", step_time(&target, &base(MethodName::ProxEnergy)), triangle);
            row("prox-cv", step_time(&target, &base(MethodName::ProxCv)), triangle);
            // Inside W_M: the start is well above the floor and the steps are small.
            let inside = |method| Settings {
                curvature: Curvature::new(1.0, 100.0, certus::internals::by_model()).ok(),
                start: certus::Gaussian::isotropic(vec![0.0; d], 1.0, &Family::Symmetric).ok(),
                ..base(method)
            };
            let square = noise + products(d, batch, false);
            let (solve, evd) = (cholesky_and_solves(d, batch), eigendecomposition(d));
            row(
                "proj-stl, inside W_M (no evd)",
                step_time(&target, &inside(MethodName::ProjStl)),
                square + solve,
            );
            row(
                "proj-stl, inside W_M",
                step_time(&target, &inside(MethodName::ProjStl)),
                square + solve + evd,
            );
            // On the boundary of W_M: C* = I/√M, so about every step needs the eigenvalues.
            row("proj-stl, projecting", step_time(&target, &base(MethodName::ProjStl)), square + solve + evd);
            let entropy = square + inverse_time(d) + evd;
            row("proj-entropy, projecting", step_time(&target, &base(MethodName::ProjEntropy)), entropy);
        }
    }
}

/// Reads every number once, fast enough to be bound by memory.
fn sum(x: &[f64]) -> f64 {
    let mut lanes = [0.0; 16];
    for part in x.chunks_exact(16) {
        for (lane, x) in lanes.iter_mut().zip(part) {
            *lane += x;
        }
    }
    lanes.iter().sum()
}

/// The arrow with 10⁵ groups of 5 and 5 globals against its memory traffic: C is read once to sample, read and written
/// once to update; u, z and π (4 MB each) are written and read.
fn arrow(threads: usize) {
    let groups = 100_000;
    let tree = std::sync::Arc::new(Tree::arrow(5, &vec![5; groups]).expect("an arrow"));
    let (d, stored) = (tree.dim(), tree.stored());
    let settings = Settings {
        family: Some(Family::Pattern(tree)),
        batch: 1,
        step_rule: StepRule::Constant(1e-4),
        ..Settings::default()
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let (step, traffic, noise) = pool.install(|| {
        let step = step_time(&Cheap { dim: d, h: 1.0 }, &settings);
        let (mut c, mut u, mut z, mut pi) = (vec![1.0; stored], vec![1.0; d], vec![1.0; d], vec![1.0; d]);
        let run = 1 << 15;
        let traffic = best(|| {
            use rayon::prelude::*;
            let total: f64 = c.par_chunks(run).map(sum).sum();
            std::hint::black_box(total);
            for x in [&mut u, &mut z, &mut pi] {
                x.par_chunks_mut(run).for_each(|x| x.iter_mut().for_each(|x| *x = *x * 0.999 + 1e-9));
            }
            c.par_chunks_mut(run).for_each(|c| c.iter_mut().for_each(|x| *x = *x * 0.999 + 1e-9));
        });
        let mut out = vec![0.0; d];
        let random = certus::random::Random::new(1, certus::random::Purpose::Step, 0);
        let mut t = 0;
        let noise = best(|| {
            t += 1;
            random.normals(t, 0, d, &mut out)
        });
        (step, traffic, noise)
    });
    println!(
        "arrow, 5 + {groups} x 5, B = 1, {threads} thread(s): step {:.2} ms, traffic {:.2} ms, normals {:.2} ms; step / (traffic + normals) = {:.2}, step / traffic = {:.2}",
        1e3 * step,
        1e3 * traffic,
        1e3 * noise,
        step / (traffic + noise),
        step / traffic
    );
}

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread").install(dense);
    println!();
    arrow(1);
    arrow(2);
}
