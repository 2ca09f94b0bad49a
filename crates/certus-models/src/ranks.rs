//! Other processes that hold leaves of the same rows, as far as sums over leaves need them. How they talk is nobody's
//! business here (crate certus-cluster): every process runs the same program, and only what is combined in these
//! functions is collective.

use std::ops::Range;

use certus::parallel;

use crate::error::Error;

/// The processes of one run. Every function but the first three is collective: all ranks call it, in the same order.
pub trait Ranks: Send + Sync + std::fmt::Debug {
    /// The number of this process.
    fn rank(&self) -> usize;

    /// How many there are.
    fn count(&self) -> usize;

    /// Where the leaves of each rank begin, and where those of the last one end: `count() + 1` numbers from 0 to
    /// `leaves`, a function of the number of leaves.
    fn manifest(&self, leaves: usize) -> Vec<usize>;

    /// Combines numbers of all items `0..bounds[count()]` in the one fixed tree, on every rank; items
    /// `bounds[r]..bounds[r + 1]` are at rank r. `own(node)` is the value of a node of the tree whose items are all
    /// here; `combine(a, b)` sets a ← a ∘ b.
    fn reduce(
        &self,
        bounds: &[usize],
        length: usize,
        own: &dyn Fn(Range<usize>) -> Result<Vec<f64>, Error>,
        combine: &dyn Fn(&mut [f64], &[f64]),
    ) -> Result<Vec<f64>, Error>;

    /// The word of rank 0, on every rank: clocks and signals are its business.
    fn decide(&self, word: u64) -> u64;

    /// The bytes that rank `from` has, on every rank; what others pass is ignored.
    fn broadcast(&self, from: usize, bytes: Vec<u8>) -> Vec<u8>;
}

impl dyn Ranks + '_ {
    /// The largest of every number over all ranks; the order of maxima does not matter.
    pub fn most(&self, numbers: &mut [f64]) {
        let bounds: Vec<usize> = (0..=self.count()).collect();
        let larger = |a: &mut [f64], b: &[f64]| a.iter_mut().zip(b).for_each(|(a, b)| *a = a.max(*b));
        let all = self.reduce(&bounds, numbers.len(), &|_| Ok(numbers.to_vec()), &larger);
        numbers.copy_from_slice(&all.expect("nothing here can fail"));
    }

    /// The words of the first rank that has any.
    pub fn first_words(&self, words: Option<String>) -> Option<String> {
        let none = -(self.count() as f64);
        let mut first = [if words.is_some() { -(self.rank() as f64) } else { none }];
        self.most(&mut first);
        (first[0] > none).then(|| {
            let bytes = self.broadcast(-first[0] as usize, words.unwrap_or_default().into_bytes());
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }
}

/// A word as two numbers that hold half of it each, exactly.
pub fn halves(word: u64) -> [f64; 2] {
    [(word >> 32) as f64, (word & 0xffff_ffff) as f64]
}

/// The word that two numbers hold.
pub fn whole(halves: &[f64]) -> u64 {
    ((halves[0] as u64) << 32) | halves[1] as u64
}

/// Items that are spread: over whom, and where those of each rank begin.
pub type Spread<'a> = Option<(&'a dyn Ranks, &'a [usize])>;

/// Combines `item(0), …, item(count − 1)`, each `length` numbers, in the one fixed tree; `None` if there is none. Where
/// items are spread, only those that are here are asked for.
pub fn reduce(
    spread: Spread<'_>,
    count: usize,
    length: usize,
    item: &(impl Fn(usize) -> Result<Vec<f64>, Error> + Sync),
    combine: &(impl Fn(&mut [f64], &[f64]) + Sync),
    give: &(impl Fn(Vec<f64>) + Sync),
) -> Result<Option<Vec<f64>>, Error> {
    let join = |a: Result<Vec<f64>, Error>, b: Result<Vec<f64>, Error>| {
        let (mut a, b) = (a?, b?);
        combine(&mut a, &b);
        give(b);
        Ok(a)
    };
    match spread {
        Some((ranks, bounds)) if count > 0 => {
            let own = |node: Range<usize>| parallel::subtree(node, 1, item, &join);
            ranks.reduce(bounds, length, &own, combine).map(Some)
        }
        _ => parallel::reduce(count, 1, item, &join).transpose(),
    }
}
