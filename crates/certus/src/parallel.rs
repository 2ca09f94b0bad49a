//! Threads choose who computes, never what: fixed pieces, halved recursively, combined in one fixed binary tree.
//!
//! But for [`install`] nothing here allocates, and with one thread (or one piece) nothing touches the pool.

use crate::error::Error;

/// Threads of a run, at most: each has a stack of its own, and systems end processes that ask for too many.
pub(crate) const MOST_THREADS: usize = 1024;

/// Runs `work` inside a pool of `threads`, or in the current one: inside a pool a join neither allocates nor wakes
/// anybody from outside.
pub fn install<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    Ok(match threads {
        None if rayon::current_thread_index().is_some() => work(),
        None => rayon::scope(|_| work()),
        Some(threads) if threads > MOST_THREADS => return Err(too_many(threads)),
        Some(threads) => rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|e| Error::Invalid {
                name: "threads",
                value: format!("{threads} ({e})"),
                required: "the threads could not be started; use fewer",
            })?
            .install(work),
    })
}

pub(crate) fn too_many(threads: usize) -> Error {
    Error::invalid("threads", threads, "at most 1024 threads are possible")
}

/// Both halves, on two threads if there are any.
pub fn join<A: Send, B: Send>(left: impl FnOnce() -> A + Send, right: impl FnOnce() -> B + Send) -> (A, B) {
    if rayon::current_num_threads() == 1 { (left(), right()) } else { rayon::join(left, right) }
}

/// Calls `work(i)` for every `i` in `range`, in parallel when more than `grain` pieces are left and threads exist.
pub fn for_each(range: std::ops::Range<usize>, grain: usize, work: &(impl Fn(usize) + Sync)) {
    if range.len() <= grain.max(1) || rayon::current_num_threads() == 1 {
        range.for_each(work);
    } else {
        let middle = range.start + range.len() / 2;
        rayon::join(
            || for_each(range.start..middle, grain, work),
            || for_each(middle..range.end, grain, work),
        );
    }
}

/// Splits `data` into pieces of `size` and calls `work(index, piece)` on each; `grain` pieces run in sequence.
pub fn for_each_piece<T: Send>(
    data: &mut [T],
    size: usize,
    grain: usize,
    work: &(impl Fn(usize, &mut [T]) + Sync),
) {
    pieces_from(data, size.max(1), grain.max(1), 0, work);
}

fn pieces_from<T: Send>(
    data: &mut [T],
    size: usize,
    grain: usize,
    first: usize,
    work: &(impl Fn(usize, &mut [T]) + Sync),
) {
    let count = data.len().div_ceil(size);
    if count <= grain || rayon::current_num_threads() == 1 {
        for (i, piece) in data.chunks_mut(size).enumerate() {
            work(first + i, piece);
        }
    } else {
        let (left, right) = data.split_at_mut(count / 2 * size);
        rayon::join(
            || pieces_from(left, size, grain, first, work),
            || pieces_from(right, size, grain, first + count / 2, work),
        );
    }
}

/// Combines `leaf(0), …, leaf(count − 1)` in the one fixed binary tree (split at the largest power of two below
/// `count`), so that any number of threads or processes gives the same bits. `None` when there is no leaf.
pub fn reduce<T: Send>(
    count: usize,
    grain: usize,
    leaf: &(impl Fn(usize) -> T + Sync),
    combine: &(impl Fn(T, T) -> T + Sync),
) -> Option<T> {
    (count > 0).then(|| subtree(0..count, grain.max(1), leaf, combine))
}

/// The two children of a node of the fixed tree, which is a range of leaves: split at the largest power of two below
/// its length.
pub fn halves(node: std::ops::Range<usize>) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let middle = node.start + node.len().next_power_of_two() / 2;
    (node.start..middle, middle..node.end)
}

/// Combines the leaves of one node of the fixed tree.
pub fn subtree<T: Send>(
    range: std::ops::Range<usize>,
    grain: usize,
    leaf: &(impl Fn(usize) -> T + Sync),
    combine: &(impl Fn(T, T) -> T + Sync),
) -> T {
    if range.len() == 1 {
        return leaf(range.start);
    }
    let (left, right) = halves(range.clone());
    let (a, b) = if range.len() <= grain {
        (subtree(left, grain, leaf, combine), subtree(right, grain, leaf, combine))
    } else {
        join(|| subtree(left, grain, leaf, combine), || subtree(right, grain, leaf, combine))
    };
    combine(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_piece_is_visited_once() {
        for (length, size) in [(0, 3), (1, 3), (10, 3), (1000, 7)] {
            let mut seen = vec![0usize; length];
            for_each_piece(&mut seen, size, 2, &|i, piece| piece.iter_mut().for_each(|x| *x += i + 1));
            assert!(seen.iter().enumerate().all(|(j, &x)| x == j / size + 1));
        }
        let calls = AtomicUsize::new(0);
        for_each(3..103, 4, &|i| {
            calls.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(calls.into_inner(), (3..103).sum());
    }

    #[test]
    fn the_tree_depends_on_the_count_only() {
        let shape = |grain| {
            reduce(11, grain, &|i| i.to_string(), &|a, b| format!("({a} {b})")).expect("eleven leaves")
        };
        assert_eq!(shape(1), "((((0 1) (2 3)) ((4 5) (6 7))) ((8 9) 10))");
        assert_eq!(shape(1), shape(100));
        assert!(reduce(0, 1, &|i| i, &|a, b| a + b).is_none());
    }
}
