//! Models on rows that are spread over ranks, here threads that talk over channels: the bits are those of one process,
//! for every number of ranks, every likelihood and every pass.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use certus::Goal;
use certus_cluster::{Spread, Transport};
use certus_likelihood::{Likelihood, Linear, Logistic, Poisson};
use certus_models::auto::{Method, fit};
use certus_models::rows::{LEAF, Leaf, Rows, own_leaves};
use certus_models::{Design, EnvelopeSettings, Error, Glm, Memory, PosteriorSettings, Prior, Ranks};

/// A tag and numbers.
type Message = (u16, Vec<f64>);

/// Ranks that are threads of this process.
#[derive(Debug)]
struct Channels {
    rank: usize,
    /// To every rank, and from every rank.
    to: Vec<Mutex<Sender<Message>>>,
    from: Vec<Mutex<Receiver<Message>>>,
}

fn channels(count: usize) -> Vec<Channels> {
    let mut to: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    let mut from: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    for sender in 0..count {
        for receiver in from.iter_mut() {
            let (tx, rx) = channel();
            to[sender].push(Mutex::new(tx));
            receiver.push(Mutex::new(rx));
        }
    }
    let ends = to.into_iter().zip(from).enumerate();
    ends.map(|(rank, (to, from))| Channels { rank, to, from }).collect()
}

impl Transport for Channels {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.to.len()
    }

    fn send(&self, to: usize, numbers: &[f64], tag: u16) {
        self.to[to].lock().unwrap().send((tag, numbers.to_vec())).unwrap();
    }

    fn receive(&self, from: usize, numbers: &mut [f64], tag: u16) {
        let (told, sent) = self.from[from].lock().unwrap().recv().unwrap();
        assert_eq!((told, sent.len()), (tag, numbers.len()), "ranks do not run the same program");
        numbers.copy_from_slice(&sent);
    }

    fn broadcast(&self, from: usize, numbers: &mut [f64]) {
        if from == self.rank {
            (0..self.count()).filter(|r| *r != from).for_each(|r| self.send(r, numbers, 0));
        } else {
            self.receive(from, numbers, 0);
        }
    }
}

/// Rows of which a rank may look at its own leaves only.
#[derive(Debug)]
struct Part {
    all: Memory,
    ranks: Option<Arc<dyn Ranks>>,
}

impl Rows for Part {
    fn len(&self) -> usize {
        self.all.len()
    }

    fn columns(&self) -> usize {
        self.all.columns()
    }

    fn ranks(&self) -> Option<&dyn Ranks> {
        self.ranks.as_deref()
    }

    fn leaf(&self, index: usize, visit: &mut dyn FnMut(Leaf<'_>)) -> Result<(), Error> {
        assert!(own_leaves(self).contains(&index), "leaf {index} is elsewhere");
        self.all.leaf(index, visit)
    }
}

fn data(n: usize, d: usize, kind: &str) -> Memory {
    let wave = |k: usize| (k as f64 * 1.317).sin() + (k as f64 * 0.371).cos();
    let x: Vec<f64> = (0..n * d).map(wave).collect();
    let y = (0..n).map(|i| {
        let t = 0.4 * x[i * d] - 0.7 * x[i * d + 1] + wave(7 * i + 3);
        match kind {
            "linear" => t,
            "logistic" => f64::from(u8::from(t > 0.1)),
            _ => (2.0 + t).max(0.0).floor(),
        }
    });
    Memory { y: y.collect(), x, columns: d, ..Memory::default() }
}

/// Every number that a model makes, as bits.
fn numbers(rows: Part, kind: &str, method: Method, threads: usize) -> Vec<u64> {
    let likelihood: Arc<dyn Likelihood> = match kind {
        "linear" => Arc::new(Linear::new(1.2).unwrap()),
        "logistic" => Arc::new(Logistic),
        _ => Arc::new(Poisson),
    };
    let design = Design::standardised(Arc::new(rows), true).unwrap();
    let d = design.dim();
    let prior = Prior::independent(vec![0.0; d], &vec![2.0; d]).unwrap();
    let model = Glm::new(design, likelihood, prior).unwrap();
    let goal = Goal { threads: Some(threads), seed: 5, ..Goal::default() };
    let outcome = fit(&model, &goal, method).unwrap();
    let mut out: Vec<f64> = outcome.gaussian.mean().to_vec();
    out.extend(outcome.gaussian.factor().values());
    out.extend([outcome.neg_elbo.value, outcome.certificate.gap.statement.bound().unwrap()]);
    certus::parallel::install(Some(threads), || {
        let w = &outcome.gaussian;
        if let Ok(local) = model.ball(w).unwrap() {
            out.extend([local.radius(), local.smoothness(), local.strong_convexity()]);
        }
        if let Some(bounds) = model.bounds().unwrap() {
            out.extend([bounds.smoothness(), bounds.strong_convexity()]);
        }
        let settings = PosteriorSettings { draws: 4000, delta: 0.01, seed: 3 };
        let posterior = model.posterior(w, &settings).unwrap();
        out.extend(posterior.statement.bound());
        if let Ok(envelope) = model.envelope(w, &EnvelopeSettings { proposals: 3000, ..Default::default() }) {
            out.extend(envelope.means.iter().flat_map(|(a, b)| [*a, *b]));
        }
    })
    .unwrap();
    out.into_iter().map(f64::to_bits).collect()
}

fn on_ranks(count: usize, work: impl Fn(Arc<dyn Ranks>) -> Vec<u64> + Sync) -> Vec<Vec<u64>> {
    let work = &work;
    std::thread::scope(|scope| {
        let started =
            channels(count).into_iter().map(|end| scope.spawn(move || work(Arc::new(Spread::new(end)))));
        let started: Vec<_> = started.collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn any_number_of_ranks_gives_the_same_bits() {
    // 2500 rows take the sums over pairs of rows, 9 leaves and a bit do not
    for (kind, n, method) in [
        ("logistic", 2500, Method::Exact),
        ("logistic", 9 * LEAF + 77, Method::Stochastic),
        ("linear", 5 * LEAF, Method::Exact),
        ("linear", 4 * LEAF + 1, Method::Stochastic),
        ("poisson", 3 * LEAF + 5, Method::Auto),
    ] {
        let rows = data(n, 3, kind);
        let alone = numbers(Part { all: rows.clone(), ranks: None }, kind, method, 2);
        assert!(alone.len() > 20);
        for count in [1, 2, 3, 4, 13] {
            // two threads each: collective calls must still meet in order
            let threads = if count == 3 { 2 } else { 1 };
            let each = on_ranks(count, |ranks| {
                numbers(Part { all: rows.clone(), ranks: Some(ranks) }, kind, method, threads)
            });
            assert!(each.iter().all(|bits| *bits == alone), "{kind}, {method:?}, {count} ranks");
        }
    }
}

/// The first bad row is named on every rank, whoever holds it.
#[test]
fn all_ranks_say_what_one_of_them_saw() {
    let mut rows = data(4 * LEAF, 2, "logistic");
    rows.x[2 * (3 * LEAF + 5)] = f64::NAN;
    rows.x[2 * (2 * LEAF + 7) + 1] = f64::INFINITY;
    let said = on_ranks(4, |ranks| {
        let design = Design::new(Arc::new(Part { all: rows.clone(), ranks: Some(ranks) }), true);
        let prior = Prior::independent(vec![0.0; 3], &[1.0; 3]).unwrap();
        let error = Glm::new(design, Arc::new(Logistic), prior).err().unwrap().to_string();
        assert!(error.contains(&format!("row {}, column 1 is inf", 2 * LEAF + 7)), "{error}");
        vec![1]
    });
    assert_eq!(said.len(), 4);
}

/// What rank 0 says is heard, bytes of any length arrive, and numbers are counted as the exchange says.
#[test]
fn words_bytes_and_counts() {
    let heard = on_ranks(3, |ranks| {
        assert_eq!(ranks.decide(0xdead_beef_0123_4567 + ranks.rank() as u64), 0xdead_beef_0123_4567);
        for length in [0, 1, 4, 5, 1001] {
            let bytes: Vec<u8> = (0..length).map(|k| (k * 7 + ranks.rank()) as u8).collect();
            let wanted: Vec<u8> = (0..length).map(|k| (k * 7 + 2) as u8).collect();
            assert_eq!(ranks.broadcast(2, bytes), wanted);
        }
        let mut numbers = [ranks.rank() as f64, -(ranks.rank() as f64), f64::NEG_INFINITY];
        ranks.most(&mut numbers);
        assert_eq!(numbers, [2.0, 0.0, f64::NEG_INFINITY]);
        assert_eq!(ranks.first_words((ranks.rank() > 0).then(|| ranks.rank().to_string())).unwrap(), "1");
        assert_eq!(ranks.first_words(None), None);
        vec![0]
    });
    assert_eq!(heard.len(), 3);
}
