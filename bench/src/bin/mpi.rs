//! Iterations per second of the batch gradient on rows that are spread over MPI ranks: mpi ROWS D B SECONDS, alone or
//! under mpirun. Every rank makes its own leaves and keeps them in memory; rank 0 prints, last of all the milliseconds
//! of every iteration.

use std::sync::Arc;
use std::time::{Duration, Instant};

use certus::Target;
use certus_cluster::Spread;
use certus_cluster::mpi::Mpi;
use certus_likelihood::Logistic;
use certus_models::rows::{LEAF, Leaf, Rows};
use certus_models::{Design, Error, Glm, Memory, Prior, Ranks};

/// The leaves of one rank.
struct Part {
    rows: usize,
    first: usize,
    own: Memory,
    ranks: Arc<Spread<Mpi>>,
}

impl Rows for Part {
    fn len(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.own.columns()
    }

    fn ranks(&self) -> Option<&dyn Ranks> {
        Some(&*self.ranks)
    }

    fn leaf(&self, index: usize, visit: &mut dyn FnMut(Leaf<'_>)) -> Result<(), Error> {
        let first = index * LEAF;
        self.own.leaf(index - self.first, &mut |leaf| visit(Leaf { first, ..leaf }))
    }
}

fn main() {
    let argument = |k: usize| std::env::args().nth(k).and_then(|a| a.parse::<usize>().ok());
    let [rows, d, batch, seconds] =
        [1, 2, 3, 4].map(|k| argument(k).expect("mpi ROWS D B SECONDS, four whole numbers"));
    let silence = Box::new(|peer: Option<usize>, _| eprintln!("no answer from {peer:?}"));
    let mpi = Mpi::start(Duration::from_secs(300), 69, silence).expect("MPI");
    let ranks = Arc::new(Spread::new(mpi));
    let bounds = ranks.manifest(rows.div_ceil(LEAF));
    let rank = ranks.rank();
    let (first, end) = (bounds[rank] * LEAF, (bounds[rank + 1] * LEAF).min(rows));
    // any numbers will do: a cheap mixer of the place
    let noise = |k: usize| {
        let mixed = (k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let own = Memory {
        x: (first * d..end * d).map(noise).collect(),
        y: (first..end).map(|i| f64::from(u8::from(noise(i * d) + noise(3 * i + 1) > 0.0))).collect(),
        columns: d,
        ..Memory::default()
    };
    let part = Part { rows, first: bounds[rank], own, ranks: ranks.clone() };
    let prior = Prior::independent(vec![0.0; d], &vec![1.0; d]).expect("a prior");
    let model = Glm::new(Design::new(Arc::new(part), false), Arc::new(Logistic), prior).expect("a model");
    let (points, mut values, mut gradients) =
        ((0..d * batch).map(noise).collect::<Vec<_>>(), vec![0.0; batch], vec![0.0; d * batch]);
    let mut once = || model.log_density(&points, &mut values, &mut gradients).expect("finite");
    certus::parallel::install(Some(1), || {
        once();
        let (began, mut times) = (Instant::now(), Vec::new());
        // rank 0 has the clock
        while ranks.decide(u64::from(began.elapsed().as_secs() < seconds as u64)) == 1 {
            let before = began.elapsed();
            once();
            times.push(format!("{}", (began.elapsed() - before).as_millis()));
        }
        let speed = times.len() as f64 / began.elapsed().as_secs_f64();
        if rank == 0 {
            println!("{} ranks, {rows} rows: {speed:.4} iterations/s", ranks.count());
            println!("{}", times.join(" "));
        }
    })
    .expect("a thread");
    ranks.transport().farewell(Duration::from_secs(60), 69, &|| eprintln!("a rank did not end"));
}
