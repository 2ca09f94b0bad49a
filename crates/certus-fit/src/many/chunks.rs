//! Which groups make a chunk and whose chunk it is: functions of numbers alone, so that processes agree without
//! communication.

use std::ops::Range;

/// Groups `0..groups` in runs of `size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// Groups.
    pub groups: usize,
    /// Groups of a chunk but for the last.
    pub size: usize,
}

/// Rows of a chunk, about: a second or so of one core.
const ROWS: usize = 100_000;
/// Groups of a chunk at most.
const MOST: usize = 1000;

impl Chunks {
    /// About a hundred thousand rows each, and at most a thousand groups.
    pub fn usual(groups: usize, rows: usize) -> Self {
        let size = (ROWS as f64 / (rows as f64 / groups as f64).max(1.0)) as usize;
        Self { groups, size: size.clamp(1, MOST) }
    }

    /// Chunks.
    pub fn count(&self) -> usize {
        self.groups.div_ceil(self.size)
    }

    /// The groups of a chunk.
    pub fn groups_of(&self, chunk: usize) -> Range<usize> {
        chunk * self.size..((chunk + 1) * self.size).min(self.groups)
    }

    /// The chunks of worker `part` (from 0) of `parts`: every `parts`-th, so that workers differ by one chunk at most.
    pub fn of_part(&self, part: usize, parts: usize) -> impl Iterator<Item = usize> + use<> {
        (part..self.count()).step_by(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_in_one_chunk_and_every_chunk_in_one_part() {
        for (groups, size) in [(1, 1), (7, 3), (1000, 1000), (1001, 1000), (12, 5)] {
            let chunks = Chunks { groups, size };
            let all: Vec<usize> = (0..chunks.count()).flat_map(|c| chunks.groups_of(c)).collect();
            assert_eq!(all, (0..groups).collect::<Vec<_>>());
            for parts in 1..6 {
                let mut dealt: Vec<usize> = (0..parts).flat_map(|k| chunks.of_part(k, parts)).collect();
                dealt.sort_unstable();
                assert_eq!(dealt, (0..chunks.count()).collect::<Vec<_>>(), "{groups} {size} {parts}");
            }
        }
    }

    #[test]
    fn chunks_have_a_usual_size() {
        let size = |groups, rows| Chunks::usual(groups, rows).size;
        assert_eq!(size(100_000, 12_500_000), 800);
        assert_eq!(size(1_000_000, 1_000_000), 1000);
        assert_eq!(size(10, 10_000_000), 1);
    }
}
