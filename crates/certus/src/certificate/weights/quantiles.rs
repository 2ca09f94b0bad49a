//! Quantiles of the posterior, enclosed by the same pairs (math: D8, part 6).
//!
//! F_p(t) ≤ α exactly where E_q[w(1{uᵀx ≤ t} − α)] ≤ 0. H(t) = ½Σ_±(w̄(±x) − 1)(1{±uᵀx ≤ t} − α) is bounded, and the
//! expectation lies within E H(t) + Φ(t) − α + [−αT₀, (1 − α)T₀].

use super::bounded::{Clip, Sums};
use super::normal::upper_tail;

/// The probabilities, and where the standard normal law has them.
const AT: [(f64, f64); 3] = [(0.05, -1.644_853_626_951_472_7), (0.5, 0.0), (0.95, 1.644_853_626_951_472_7)];
/// The grid of t: so many points on either side of q's own quantile, this far apart, in sds of q.
const SIDE: usize = 60;
const STEP: f64 = 0.01;
const POINTS: usize = 2 * SIDE + 1;
/// Of more numbers no quantiles are enclosed: their grids would fill the memory.
const LARGEST: usize = 2000;
/// For the rounding of uᵀx and t.
const ROUNDING: f64 = 1e-9;

/// Sums of H and H² at every point of the grids, as the jumps between them: of a pair, H takes three values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Steps {
    /// Before the first jump, the same for everything reported.
    first: [[f64; 2]; 3],
    /// The jump of (ΣH, ΣH²) at every point, for each probability, of everything reported.
    jumps: Vec<[f64; 2]>,
}

impl Steps {
    /// Of `reported` numbers.
    pub(super) fn new(reported: usize) -> Self {
        let reported = if reported <= LARGEST { reported } else { 0 };
        Self { first: [[0.0; 2]; 3], jumps: vec![[0.0; 2]; reported * AT.len() * POINTS] }
    }

    /// Adds a pair with w̄(x) − 1 and w̄(−x) − 1, H clipped at ±`clip`.
    pub(super) fn add(&mut self, [a, b]: [f64; 2], along: &[f64], clip: f64) {
        let recorded = |h: f64| {
            let h = h.clamp(-clip, clip);
            [h, h * h]
        };
        for (j, &(alpha, _)) in AT.iter().enumerate() {
            let none = recorded(-0.5 * alpha * (a + b));
            let both = recorded(0.5 * (1.0 - alpha) * (a + b));
            // with the smaller of uᵀx and −uᵀx alone
            let one = [a, b].map(|lower| recorded(0.5 * (lower - alpha * (a + b))));
            add(&mut self.first[j], none);
            for (jumps, along) in self.jumps.chunks_exact_mut(AT.len() * POINTS).zip(along) {
                let jumps = &mut jumps[j * POINTS..][..POINTS];
                let one = one[usize::from(*along > 0.0)];
                if let Some(jump) = jumps.get_mut(index(j, -along.abs())) {
                    add(jump, minus(one, none));
                }
                if let Some(jump) = jumps.get_mut(index(j, along.abs())) {
                    add(jump, minus(both, one));
                }
            }
        }
    }

    /// Adds the sums of other pairs.
    pub(super) fn join(&mut self, other: &Self) {
        self.first.iter_mut().zip(&other.first).for_each(|(a, b)| add(a, *b));
        self.jumps.iter_mut().zip(&other.jumps).for_each(|(a, b)| add(a, *b));
    }

    /// Intervals of t, in q's sds from its mean, that contain p's quantiles of number k, each missing them with
    /// probability at most δ; infinite where the grid ends. `size` are the sums of ½Σ|w̄(±x) − 1| ≥ |H|, which was
    /// clipped like H. No union over the grid: the lower end is wrong only if the interval of E H is wrong at the first
    /// point beyond the quantile, the upper end only at the last point before it; a third of δ for each, and for
    /// clipping.
    pub(super) fn enclosed(
        &self,
        k: usize,
        size: &Sums,
        clip: Clip,
        n: f64,
        (tail, slack): (f64, f64),
        delta: f64,
    ) -> [(f64, f64); 3] {
        let beyond = size.beyond_clip(n, clip, delta / 3.0);
        let all = self.jumps.get(k * AT.len() * POINTS..).unwrap_or_default();
        std::array::from_fn(|j| {
            let (alpha, _) = AT[j];
            let mut sums = self.first[j];
            // if every point so far has F_p(t) ≤ α, and the first since which every point has F_p(t) ≥ α
            let (mut below, mut low, mut high) = (true, f64::NEG_INFINITY, f64::INFINITY);
            for (i, jump) in all.iter().skip(j * POINTS).take(POINTS).enumerate() {
                add(&mut sums, *jump);
                let (least, most) = Sums::of(sums).between(n, clip, delta / 3.0, beyond);
                let t = point(j, i);
                let own = upper_tail(-t) - alpha;
                below &= most + own + (1.0 - alpha) * tail + slack <= 0.0;
                if below {
                    low = t - ROUNDING;
                }
                if least + own - alpha * tail - slack < 0.0 {
                    high = f64::INFINITY;
                } else if high == f64::INFINITY {
                    high = t + ROUNDING;
                }
            }
            (low, high)
        })
    }
}

/// Point i of the grid of probability j.
fn point(j: usize, i: usize) -> f64 {
    AT[j].1 + (i as f64 - SIDE as f64) * STEP
}

/// The first point of the grid of probability j that is not below t; beyond the grid if there is none.
fn index(j: usize, t: f64) -> usize {
    ((t - AT[j].1) / STEP + SIDE as f64).ceil().clamp(0.0, POINTS as f64) as usize
}

fn add(a: &mut [f64; 2], b: [f64; 2]) {
    a[0] += b[0];
    a[1] += b[1];
}

fn minus(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] - b[0], a[1] - b[1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums over the grid against H itself, pair by pair and point by point, clipped and not.
    #[test]
    fn sums_by_hand() {
        let pairs = [([0.5, -0.25], 0.3), ([-0.125, 0.75], -1.7), ([2.0, 1.0], 1.644), ([0.0, 0.25], -8.0)];
        for clip in [10.0, 0.3] {
            let mut steps = Steps::new(2);
            pairs.iter().for_each(|(weights, along)| steps.add(*weights, &[*along, -along], clip));
            for (k, sign) in [1.0, -1.0].into_iter().enumerate() {
                for (j, (alpha, _)) in AT.into_iter().enumerate() {
                    let mut sums = steps.first[j];
                    for i in 0..POINTS {
                        add(&mut sums, steps.jumps[(k * AT.len() + j) * POINTS + i]);
                        let t = point(j, i);
                        let h = |([a, b], s): &([f64; 2], f64)| {
                            let side = |x: f64| f64::from(u8::from(x <= t)) - alpha;
                            (0.5 * (a * side(sign * s) + b * side(-sign * s))).clamp(-clip, clip)
                        };
                        let by_hand = pairs.iter().map(h).fold([0.0; 2], |[s, q], h| [s + h, q + h * h]);
                        let near = |x: f64, y: f64| (x - y).abs() < 1e-12;
                        assert!(near(sums[0], by_hand[0]) && near(sums[1], by_hand[1]), "{k} {j} {t}");
                    }
                }
            }
        }
    }

    /// Equal weights: p is q, and the ends are the last point that the widths allow, by hand.
    #[test]
    fn ends_by_hand() {
        // many pairs, and few enough for every part of the width to move an end
        for (n, most, widest) in [(1_000_000, 2.0, 0.25), (2000, 6.0, 0.8)] {
            let (delta, clip) = (0.06, Clip { clip: 1.0, most });
            let (mut steps, mut size) = (Steps::new(1), Sums::default());
            // H = 0 at all pairs, none of them beyond the clip
            (0..n).for_each(|_| size.add(0.0, clip));
            steps.add([0.0; 2], &[0.5], 1.0);
            let (n, tail, slack) = (f64::from(n), 0.004, 0.001);
            let width = 14.0 * 100.0_f64.ln() / (3.0 * (n - 1.0))
                + (most - 1.0) * super::super::bounded::probability_at_most(0.0, n, 0.02)
                + 1e-10 * most;
            for (j, (low, high)) in
                steps.enclosed(0, &size, clip, n, (tail, slack), delta).into_iter().enumerate()
            {
                let alpha = AT[j].0;
                let at = |t: f64| upper_tail(-t) - alpha;
                let (above, below) = (width + (1.0 - alpha) * tail + slack, -width - alpha * tail - slack);
                let last = (0..POINTS).map(|i| point(j, i)).take_while(|t| at(*t) + above <= 0.0).last();
                let first = (0..POINTS).map(|i| point(j, i)).find(|t| at(*t) + below >= 0.0);
                assert_eq!(
                    (Some(low), Some(high)),
                    (last.map(|t| t - ROUNDING), first.map(|t| t + ROUNDING))
                );
                assert!(low < AT[j].1 && AT[j].1 < high && high - low < widest, "{j}: {low} {high}");
            }
            // far off, nothing is said
            let nothing = steps.enclosed(0, &size, clip, n, (2.0, slack), delta);
            assert_eq!(nothing, [(f64::NEG_INFINITY, f64::INFINITY); 3]);
            assert_eq!(Steps::new(LARGEST + 1).enclosed(5, &size, clip, n, (0.0, 0.0), delta), nothing);
        }
    }
}
