//! Which leaves are whose: contiguous runs in the order of ranks, about equally long, with round boundaries.

use crate::exchange::Exchange;

/// A boundary may be one over this of a rank's share away from the even split: the first of these with few messages, or
/// the last.
const TOLERANCES: [usize; 4] = [128, 64, 32, 16];

/// Where the leaves of each rank begin, and where the last one's end.
///
/// Boundary r is the number near r·leaves/ranks that is divisible by the highest power of two (the nearest of several):
/// in a tree that splits at powers of two, few nodes then straddle it, so that few partial sums travel (see
/// [`Exchange`]). Near is as near as at most 3(ranks − 1) of them allow, which with the result are twice what a ring
/// all-reduce sends: whoever has the most leaves is waited for. A rank has at most 9/8 of its share, and a leaf more.
pub fn manifest(leaves: usize, ranks: usize) -> Vec<usize> {
    if leaves == 0 {
        return vec![0; ranks + 1];
    }
    let few = |bounds: &Vec<usize>| Exchange::new(bounds).moves() <= 3 * (ranks - 1);
    let [near @ .., far] = TOLERANCES.map(|tolerance| boundaries(leaves, ranks, tolerance));
    near.into_iter().find(few).unwrap_or(far)
}

fn boundaries(leaves: usize, ranks: usize, tolerance: usize) -> Vec<usize> {
    let boundary = |r: usize| {
        let even = (r * leaves + ranks / 2) / ranks;
        let reach = leaves / (tolerance * ranks);
        let (low, high) = (even.saturating_sub(reach), (even + reach).min(leaves));
        // the highest power of two with a multiple in low..=high
        let unit = (0..usize::BITS).rev().map(|k| 1 << k).find(|unit| high / unit * unit >= low.max(1));
        let unit = unit.unwrap_or(1);
        let nearest = (even + unit / 2) / unit * unit;
        if nearest < low { nearest + unit } else { nearest.min(high / unit * unit) }
    };
    std::iter::once(0).chain((1..ranks).map(boundary)).chain([leaves]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_in_order() {
        for ranks in 1..=9 {
            for leaves in (0..600).chain([1953, 1954, 4097, 976_563]) {
                let bounds = manifest(leaves, ranks);
                assert_eq!((bounds.len(), bounds[0], bounds[ranks]), (ranks + 1, 0, leaves));
                let share = leaves as f64 / ranks as f64;
                for pair in bounds.windows(2) {
                    let own = pair[1].checked_sub(pair[0]).expect("in order") as f64;
                    assert!(own <= 1.125 * share + 1.0, "{leaves} over {ranks}: {bounds:?}");
                }
            }
        }
        assert_eq!(manifest(1954, 2), [0, 976, 1954]);
        assert_eq!(manifest(8, 4), [0, 2, 4, 6, 8]);
        assert_eq!(manifest(1, 3), [0, 0, 1, 1]);
    }
}
