//! Proposals from the envelope, their acceptance probabilities A, and the sums that the statements need (math: D6).

use certus::random::Random;
use certus::{Target, parallel};

use super::frame::EnvelopeFrame;
use super::reported::Reported;
use super::shells::Shells;
use crate::error::{Error, Violated};

/// Proposals evaluated together.
const BATCH: usize = 256;

/// A stream of proposals and the quantities averaged over them.
pub(super) struct Sampler<'a> {
    pub(super) target: &'a dyn Target,
    pub(super) frame: &'a EnvelopeFrame<'a>,
    pub(super) shells: &'a Shells,
    /// What y is of.
    pub(super) reported: &'a Reported<'a>,
    pub(super) random: Random,
    /// The stream of the directions; that of the uniform numbers is the next one.
    pub(super) stream: u64,
    /// What rounding may add to log A.
    pub(super) allowance: f64,
}

/// Sums of A, A y_k and A(y_k² − 1), of their squares, and the accepted points.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) sums: Vec<f64>,
    pub(super) squares: Vec<f64>,
    pub(super) accepted: usize,
    /// The first accepted points, d × n.
    pub(super) draws: Vec<f64>,
}

impl Tally {
    fn join(mut self, other: Self, most: usize) -> Self {
        self.sums.iter_mut().zip(&other.sums).for_each(|(a, b)| *a += b);
        self.squares.iter_mut().zip(&other.squares).for_each(|(a, b)| *a += b);
        self.accepted += other.accepted;
        self.draws.extend_from_slice(&other.draws);
        self.draws.truncate(most);
        self
    }
}

impl Sampler<'_> {
    /// `count` proposals; the first `keep` accepted points are kept. The same bits for any number of threads.
    pub(super) fn run(&self, count: usize, keep: usize) -> Result<Tally, Error> {
        let most = keep * self.frame.gaussian.dim();
        let batch = |index: usize| self.batch(index * BATCH, BATCH.min(count - index * BATCH), most);
        let join = |a: Result<Tally, Error>, b: Result<Tally, Error>| Ok(a?.join(b?, most));
        parallel::reduce(count.div_ceil(BATCH), self.frame.model.grain(), &batch, &join)
            .unwrap_or_else(|| Ok(Tally::default()))
    }

    fn batch(&self, first: usize, n: usize, most: usize) -> Result<Tally, Error> {
        let (d, r) = (self.frame.gaussian.dim(), self.reported.len());
        let (mut u, mut dice) = (vec![0.0; d * n], vec![0.0; 3 * n]);
        self.random.normals(self.stream, first as u64, d, &mut u);
        self.random.uniforms(self.stream + 1, first as u64, 3, &mut dice);
        let mut low = vec![0.0; n];
        for ((u, dice), low) in u.chunks_exact_mut(d).zip(dice.chunks_exact(3)).zip(&mut low) {
            let (radius, least) = self.shells.propose(dice[0], dice[1]);
            let scale = radius / u.iter().map(|x| x * x).sum::<f64>().sqrt();
            u.iter_mut().for_each(|x| *x *= scale);
            *low = least;
        }
        let (mut z, mut gradients, mut values) = (vec![0.0; d * n], vec![0.0; d * n], vec![0.0; n]);
        self.frame.gaussian.transform(&u, &mut z);
        self.target.log_density(&z, &mut values, &mut gradients).map_err(certus::Error::Target)?;
        let mut tally =
            Tally { sums: vec![0.0; 1 + 2 * r], squares: vec![0.0; 1 + 2 * r], ..Tally::default() };
        for (k, z) in z.chunks_exact(d).enumerate() {
            // A = exp(ψ(0) − ψ(u) + ID_low)
            let log_accept = self.frame.value + values[k] + low[k];
            if log_accept.is_nan() || log_accept > self.allowance {
                return Err(self.violated(first + k, log_accept, z));
            }
            let accept = log_accept.exp().min(1.0);
            tally.add(0, accept);
            for (k, y) in self.reported.at(z).enumerate() {
                tally.add(1 + k, accept * y);
                tally.add(1 + r + k, accept * (y * y - 1.0));
            }
            if dice[3 * k + 2] < accept {
                tally.accepted += 1;
                if tally.draws.len() < most {
                    tally.draws.extend_from_slice(z);
                }
            }
        }
        Ok(tally)
    }

    fn violated(&self, proposal: usize, log_accept: f64, z: &[f64]) -> Error {
        Violated::Envelope { log_accept, allowance: self.allowance, proposal, z: z.to_vec() }.into()
    }
}

impl Tally {
    fn add(&mut self, i: usize, x: f64) {
        self.sums[i] += x;
        self.squares[i] += x * x;
    }
}
