//! Sums over leaves that are spread over the ranks of a transport.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use certus_models::ranks::{halves, whole};
use certus_models::{Error, Ranks};

use crate::exchange::{Exchange, Step};
use crate::manifest::manifest;
use crate::transport::Transport;

/// The ranks of a transport, as sums see them.
#[derive(Debug)]
pub struct Spread<T> {
    transport: T,
    /// By boundaries.
    exchanges: Mutex<HashMap<Vec<usize>, Arc<Exchange>>>,
    manifests: Mutex<HashMap<usize, Vec<usize>>>,
    /// Collective calls so far; the same on every rank.
    calls: AtomicU64,
    /// Numbers sent so far by this rank; of a broadcast each of the P − 1 receivers counts one copy.
    sent: AtomicU64,
}

impl<T: Transport> Spread<T> {
    /// No rows yet.
    pub fn new(transport: T) -> Self {
        Self {
            transport,
            exchanges: Mutex::default(),
            manifests: Mutex::default(),
            calls: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }

    /// The transport.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Numbers (of 8 bytes) that this rank sent, or, of broadcasts, received: summed over ranks, what travelled.
    pub fn numbers_sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn exchange(&self, bounds: &[usize]) -> Arc<Exchange> {
        let mut known = self.exchanges.lock().expect("no thread panics while it holds the lock");
        if let Some(exchange) = known.get(bounds) {
            return exchange.clone();
        }
        let made = Arc::new(Exchange::new(bounds));
        known.insert(bounds.to_vec(), made.clone());
        made
    }

    /// Tells one collective call from the next.
    fn next_tag(&self) -> u16 {
        (self.calls.fetch_add(1, Ordering::Relaxed) & 0x7fff) as u16
    }

    fn send(&self, to: usize, numbers: &[f64], tag: u16) {
        self.transport.send(to, numbers, tag);
        self.sent.fetch_add(numbers.len() as u64, Ordering::Relaxed);
    }

    fn to_all(&self, from: usize, numbers: &mut [f64]) {
        if self.transport.count() > 1 {
            self.transport.broadcast(from, numbers);
            let received = if from == self.transport.rank() { 0 } else { numbers.len() as u64 };
            self.sent.fetch_add(received, Ordering::Relaxed);
        }
    }
}

impl<T: Transport> Ranks for Spread<T> {
    fn rank(&self) -> usize {
        self.transport.rank()
    }

    fn count(&self) -> usize {
        self.transport.count()
    }

    fn manifest(&self, leaves: usize) -> Vec<usize> {
        let mut known = self.manifests.lock().expect("no thread panics while it holds the lock");
        known.entry(leaves).or_insert_with(|| manifest(leaves, self.transport.count())).clone()
    }

    fn reduce(
        &self,
        bounds: &[usize],
        length: usize,
        own: &dyn Fn(Range<usize>) -> Result<Vec<f64>, Error>,
        combine: &dyn Fn(&mut [f64], &[f64]),
    ) -> Result<Vec<f64>, Error> {
        let (exchange, rank, tag) = (self.exchange(bounds), self.transport.rank(), self.next_tag());
        let mut held: HashMap<usize, Vec<f64>> = HashMap::new();
        // what takes long first, so that nobody waits for it longer than needed
        for step in &exchange.steps {
            if let Step::Own { at, node, place } = step
                && *at == rank
            {
                held.insert(*place, own(node.clone())?);
            }
        }
        for step in &exchange.steps {
            match step {
                Step::Move { from, to, place } if *from == rank => {
                    self.send(*to, &held.remove(place).expect("made or received before"), tag);
                }
                Step::Move { from, to, place } if *to == rank => {
                    let mut value = vec![0.0; length];
                    self.transport.receive(*from, &mut value, tag);
                    held.insert(*place, value);
                }
                Step::Combine { at, left, right } if *at == rank => {
                    let right = held.remove(right).expect("made or received before");
                    combine(held.get_mut(left).expect("made or received before"), &right);
                }
                _ => {}
            }
        }
        let mut all = held.remove(&exchange.place).unwrap_or_else(|| vec![0.0; length]);
        self.to_all(exchange.root, &mut all);
        Ok(all)
    }

    fn decide(&self, word: u64) -> u64 {
        let mut numbers = halves(word);
        self.to_all(0, &mut numbers);
        whole(&numbers)
    }

    /// One number says how many bytes there are, the others hold four of them each.
    fn broadcast(&self, from: usize, bytes: Vec<u8>) -> Vec<u8> {
        let mut length = [bytes.len() as f64];
        self.to_all(from, &mut length);
        let length = length[0] as usize;
        let mut numbers = vec![0.0; length.div_ceil(4)];
        if self.transport.rank() == from {
            for (number, part) in numbers.iter_mut().zip(bytes.chunks(4)) {
                let mut four = [0; 4];
                four[..part.len()].copy_from_slice(part);
                *number = f64::from(u32::from_le_bytes(four));
            }
        }
        self.to_all(from, &mut numbers);
        let mut out: Vec<u8> = numbers.iter().flat_map(|x| (*x as u32).to_le_bytes()).collect();
        out.truncate(length);
        out
    }
}
