//! Same seed, same bits: over threads, over interruptions; and the hot loop does not allocate.
#![allow(clippy::unwrap_used)]

mod common;

use certus::factor::Workspace;
use certus::moving::{Moving, MovingMemory};
use certus::random::{Purpose, Random};
use certus::{Curvature, Family, Gaussian, MethodName, Plan, Settings, State, Tree};
use common::*;
use sha2::{Digest, Sha256};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Counting;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static WATCHING: AtomicBool = AtomicBool::new(false);

// SAFETY: every call is passed on unchanged to the system allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if WATCHING.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Independent coordinates with curvatures between 1 and 4; large dimensions, no memory of its own.
struct Wide(usize);

impl certus::PointTarget for Wide {
    fn dim(&self) -> usize {
        self.0
    }
    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, certus::TargetError> {
        let mut value = 0.0;
        for (i, (z, g)) in z.iter().zip(g).enumerate() {
            let h = 1.0 + (i % 4) as f64;
            *g = -h * (z - 0.1);
            value -= 0.5 * h * (z - 0.1) * (z - 0.1);
        }
        Ok(value)
    }
    fn curvature(&self) -> Option<Curvature> {
        Some(Curvature::new(1.0, 4.0, certus::internals::by_model()).unwrap())
    }
}

/// One case of every method and family, large enough to be split over threads.
fn cases() -> Vec<(&'static str, usize, Settings)> {
    let base = |method| Settings { method, batch: 20, seed: 5, ..Settings::default() };
    let arrow = Arc::new(Tree::arrow(5, &[5; 3000]).unwrap());
    let diagonal = Arc::new(Tree::diagonal(40_000).unwrap());
    vec![
        ("prox-energy, lower", 300, base(MethodName::ProxEnergy)),
        ("prox-energy, antithetic", 300, Settings { antithetic: true, ..base(MethodName::ProxEnergy) }),
        ("prox-cv, lower", 300, base(MethodName::ProxCv)),
        ("proj-entropy", 150, base(MethodName::ProjEntropy)),
        ("proj-stl", 150, base(MethodName::ProjStl)),
        (
            "prox-energy, arrow",
            15_005,
            Settings { family: Some(Family::Pattern(arrow)), ..base(MethodName::ProxEnergy) },
        ),
        (
            "prox-energy, diagonal",
            40_000,
            Settings { family: Some(Family::Pattern(diagonal)), batch: 1, ..base(MethodName::ProxEnergy) },
        ),
        (
            "convex, theta mean",
            200,
            Settings {
                curvature: Some(
                    Curvature::new(0.0, 4.0, certus::internals::by_model())
                        .unwrap()
                        .with_mode(vec![0.1; 200]),
                ),
                solution_radius: Some(20.0),
                ..base(MethodName::ProxEnergy)
            },
        ),
    ]
}

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

fn hash(state: &State) -> String {
    Sha256::digest(state.encode()).iter().map(|b| format!("{b:02x}")).collect()
}

fn run(plan: &Plan, target: &Wide, mut state: State, until: u64) -> State {
    let mut memory = plan.memory();
    while state.iteration() < until {
        plan.step(target, &mut state, &mut memory).unwrap();
    }
    state
}

/// The same of the descent in the iterate's own frame: bits over threads, no allocation after the first step.
fn moving() {
    let arrow = Family::Pattern(Arc::new(Tree::arrow(5, &[5; 300]).unwrap()));
    for (dim, family) in [(200, Family::Lower), (1505, arrow)] {
        let target = Wide(dim);
        let start = Gaussian::isotropic(vec![0.3; dim], 0.8, &family).unwrap();
        let random = Random::new(3, Purpose::Step, 0);
        let run = |steps: u64| {
            let (mut w, mut memory) = (Moving::new(&start), MovingMemory::default());
            for k in 0..steps {
                if k == 3 {
                    ALLOCATIONS.store(0, Ordering::SeqCst);
                    WATCHING.store(true, Ordering::SeqCst);
                }
                w.step(&target, &random, 8, &mut memory).unwrap();
            }
            WATCHING.store(false, Ordering::SeqCst);
            (w.averaged().unwrap(), ALLOCATIONS.load(Ordering::SeqCst))
        };
        let alone = pool(1);
        let one = alone.install(|| run(30));
        // threads of pools that are gone may still be tidying up: a step that allocates does so every time
        let least = (0..5).map(|_| alone.install(|| run(30)).1).min();
        assert_eq!(least, Some(0), "{} allocates", family.name());
        for threads in [2, 3, 8] {
            assert!(pool(threads).install(|| run(30)).0 == one.0, "{} on {threads} threads", family.name());
        }
    }
}

// The allocator counts everything in the process, so all checks share one test and run in sequence.
#[test]
fn determinism() {
    for (name, dim, settings) in cases() {
        let target = Wide(dim);
        let plan = Plan::new(&target, &settings).unwrap();
        let steps = 12;

        let hashes: Vec<String> = [1, 2, 3, 8]
            .map(|n| pool(n).install(|| hash(&run(&plan, &target, plan.start(), steps))))
            .to_vec();
        assert!(hashes.iter().all(|h| *h == hashes[0]), "{name}: {hashes:?}");
        let other = Plan::new(&target, &Settings { seed: 6, ..settings.clone() }).unwrap();
        assert_ne!(
            hash(&run(&other, &target, other.start(), steps)),
            hashes[0],
            "{name}: the seed must matter"
        );

        // resuming from the saved state of any iteration
        let whole = run(&plan, &target, plan.start(), 6);
        for stop in 0..6 {
            let saved = run(&plan, &target, plan.start(), stop).encode();
            let resumed = State::decode(&saved, &plan.start()).unwrap();
            assert_eq!(resumed.encode(), saved, "{name}: a saved state reads back as itself");
            assert_eq!(hash(&run(&plan, &target, resumed, 6)), hash(&whole), "{name}: resumed at {stop}");
        }

        // allocations after the first step
        for (threads, allowed_per_10) in [(1, 0), (2, 1), (3, 1)] {
            let counted = pool(threads).install(|| {
                let (mut state, mut memory) = (plan.start(), plan.memory());
                let rounds = 100;
                for _ in 0..10 {
                    plan.step(&target, &mut state, &mut memory).unwrap();
                }
                ALLOCATIONS.store(0, Ordering::SeqCst);
                WATCHING.store(true, Ordering::SeqCst);
                for _ in 0..rounds {
                    plan.step(&target, &mut state, &mut memory).unwrap();
                }
                WATCHING.store(false, Ordering::SeqCst);
                ALLOCATIONS.load(Ordering::SeqCst)
            });
            assert!(
                counted <= 10 * allowed_per_10,
                "{name}, {threads} threads: {counted} allocations in 100 steps"
            );
        }
    }
    moving();
    // the counter counts
    WATCHING.store(true, Ordering::SeqCst);
    ALLOCATIONS.store(0, Ordering::SeqCst);
    drop(std::hint::black_box(vec![1u8; 100]));
    WATCHING.store(false, Ordering::SeqCst);
    assert!(ALLOCATIONS.load(Ordering::SeqCst) >= 1);
    // solves, too, give the same bits
    let c = random_factor(&Family::Lower, 200, 0.1, &mut Dice::new(1));
    let solved = [1, 2, 8].map(|n| {
        pool(n).install(|| {
            let mut x = Dice::new(2).normals(200 * 40);
            c.solve(&mut x, &mut Workspace::default());
            c.solve_transpose(&mut x, &mut Workspace::default());
            x
        })
    });
    assert!(solved[0] == solved[1] && solved[1] == solved[2]);
}
