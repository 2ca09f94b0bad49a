//! Quantiles of functions of the latents, enclosed by pairs of draws (math: D8, part 8).
//!
//! F_p(t) = p(f ≤ t) is at most α exactly where E_q[w(1{f ≤ t} − α)] ≤ 0. With H(t) = ½Σ(w̄(±x) − 1)(1{f(±x) ≤ t} − α)
//! and U(t) = ½Σ1{f(±x) ≤ t} that expectation is E H(t) + E U(t) − α, but for [−αT₀, (1 − α)T₀]. E U(t) is known where
//! f is normal under q, and bounded by the same pairs elsewhere.

use super::Enclosed;
use super::bounded::{Clip, Sums, empirical_bernstein};
use super::normal::{upper_quantile, upper_tail};

/// Points of a grid of t; those of a normal function are so far apart, in its sds.
const POINTS: usize = 241;
const STEP: f64 = 0.005;
/// U − ½ is not clipped.
const HALF: Clip = Clip { clip: 0.5, most: 0.5 };
/// For the rounding of f and t.
const ROUNDING: f64 = 1e-9;

/// What all functions share.
pub(super) struct Weighted {
    /// Sums of ½Σ|w̄ − 1| ≥ |H|, and how that is recorded.
    pub(super) size: Sums,
    pub(super) clip: Clip,
    /// Pairs.
    pub(super) n: f64,
    /// T₀.
    pub(super) tail: f64,
    /// What rounding of v may do.
    pub(super) slack: f64,
    /// Of one quantile: a fifth each for H and U at either end, and for clipping.
    pub(super) delta: f64,
}

/// One probability, and the grid of t that pilot pairs chose.
pub(super) struct Level {
    alpha: f64,
    grid: Vec<f64>,
    /// Mean and sd of a function that is normal under q.
    normal: Option<(f64, f64)>,
    /// How large f is, for rounding.
    scale: f64,
}

impl Level {
    /// For a function with these values at pilot pairs: around its quantile there, as far as the main pairs may need.
    pub(super) fn new(
        alpha: f64,
        normal: Option<(f64, f64)>,
        pilot: impl Iterator<Item = ([f64; 2], [f64; 2])>,
        with: &Weighted,
    ) -> Self {
        let mut points: Vec<(f64, f64)> =
            pilot.flat_map(|([a, b], [plus, minus])| [(plus, a), (minus, b)]).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let scale = points.iter().fold(0.0_f64, |most, point| most.max(point.0.abs()));
        if let Some((mean, sd)) = normal {
            let (z, side) = (-upper_quantile(alpha), (POINTS / 2) as f64);
            let grid = (0..POINTS).map(|i| mean + sd * (z + (i as f64 - side) * STEP)).collect();
            return Self { alpha, grid, normal, scale };
        }
        let (variance, log) = (alpha * (1.0 - alpha), (10.0 / with.delta).ln());
        let wide = empirical_bernstein(variance, 1.0 + 2.0 * with.clip.clip, log, with.n) + with.tail;
        let wide = 2.5 * wide + 5.0 * (variance / points.len() as f64).sqrt();
        let total: f64 = points.iter().map(|point| point.1).sum();
        let (mut sum, mut grid) = (0.0, Vec::with_capacity(POINTS));
        // the next of the probabilities whose quantiles are the grid
        let share = |i: usize| alpha + wide * (2.0 * i as f64 / (POINTS - 1) as f64 - 1.0);
        let mut next = (0..POINTS).map(share).filter(|p| *p > 0.0 && *p < 1.0).peekable();
        for (value, weight) in points {
            sum += weight;
            if next.peek().is_some_and(|p| sum >= p * total) {
                grid.push(value);
                while next.next_if(|p| sum >= p * total).is_some() {}
            }
        }
        grid.dedup();
        Self { alpha, grid, normal: None, scale }
    }

    /// The quantile, from the values at the main pairs; `None` if the grid ends before it is enclosed. No union over
    /// the grid: the lower end is wrong only if an interval is wrong at the first point beyond the quantile, the upper
    /// end only at the last point before it.
    pub(super) fn enclosed(
        &self,
        main: impl Iterator<Item = ([f64; 2], [f64; 2])>,
        with: &Weighted,
    ) -> Option<Enclosed> {
        let (alpha, fifth, clip) = (self.alpha, 0.2 * with.delta, with.clip);
        let [mut h, mut u] = self.sums(main, clip.clip);
        let beyond = with.size.beyond_clip(with.n, clip, fifth);
        let (mut below, mut low, mut high) = (true, None, None);
        let (mut before, mut estimate) = (None::<(f64, f64)>, None);
        for (i, &t) in self.grid.iter().enumerate() {
            let own = Sums::of(h.next(i)).between(with.n, clip, fifth, beyond);
            let under_q = match self.normal {
                Some((mean, sd)) => [upper_tail((mean - t) / sd); 2],
                None => {
                    let (least, most) = Sums::of(u.next(i)).between(with.n, HALF, fifth, 0.0);
                    [0.5 + least, 0.5 + most]
                }
            };
            let [least, most] = under_q.map(|u| u - alpha);
            below &= own.1 + most + (1.0 - alpha) * with.tail + with.slack < 0.0;
            if below {
                low = Some(t);
            }
            if own.0 + least - alpha * with.tail - with.slack < 0.0 {
                high = None;
            } else if high.is_none() {
                high = Some(t);
            }
            // where the estimate of the expectation crosses 0
            let here = 0.5 * (own.0 + own.1 + least + most);
            if here >= 0.0 && estimate.is_none() {
                let part = |(s, there): (f64, f64)| s + (t - s) * there / (there - here);
                estimate = Some(before.map_or(t, part));
            }
            before = Some((t, here));
        }
        let (low, high, estimate) = (low?, high?, estimate?);
        let room = ROUNDING * (self.scale + low.abs().max(high.abs()));
        let (low, high) = (low - room, high + room);
        (low <= high).then(|| Enclosed { estimate: estimate.clamp(low, high), low, high })
    }

    /// Sums of (H, H²), H clipped at ±`clip`, and of U − ½ and its square, at every point of the grid: as the jumps
    /// between them, for of a pair each takes three values.
    fn sums(&self, main: impl Iterator<Item = ([f64; 2], [f64; 2])>, clip: f64) -> [Jumps; 2] {
        let alpha = self.alpha;
        let recorded = |h: f64| {
            let h = h.clamp(-clip, clip);
            [h, h * h]
        };
        let nothing = || Jumps { sum: [0.0; 2], at: vec![[0.0; 2]; self.grid.len()] };
        let [mut h, mut u] = [nothing(), nothing()];
        for ([a, b], [plus, minus]) in main {
            let (a, b) = (a - 1.0, b - 1.0);
            // that with the smaller value first
            let (first, values) = if plus <= minus { (a, [plus, minus]) } else { (b, [minus, plus]) };
            let steps = [-alpha * (a + b), first - alpha * (a + b), (1.0 - alpha) * (a + b)];
            let at = values.map(|f| self.grid.partition_point(|t| *t < f));
            h.add(at, steps.map(|h| recorded(0.5 * h)));
            u.add(at, [[-0.5, 0.25], [0.0, 0.0], [0.5, 0.25]]);
        }
        [h, u]
    }
}

/// A sum along the grid.
struct Jumps {
    /// Before the first point, or up to the last one that was asked for.
    sum: [f64; 2],
    at: Vec<[f64; 2]>,
}

impl Jumps {
    /// Adds a pair: its value before, between and after two points.
    fn add(&mut self, at: [usize; 2], [before, between, after]: [[f64; 2]; 3]) {
        plus(&mut self.sum, before);
        for (at, (from, to)) in at.into_iter().zip([(before, between), (between, after)]) {
            if let Some(jump) = self.at.get_mut(at) {
                plus(jump, [to[0] - from[0], to[1] - from[1]]);
            }
        }
    }

    /// The sum at point i, after those before it.
    fn next(&mut self, i: usize) -> [f64; 2] {
        plus(&mut self.sum, self.at[i]);
        self.sum
    }
}

fn plus(a: &mut [f64; 2], b: [f64; 2]) {
    a[0] += b[0];
    a[1] += b[1];
}

#[cfg(test)]
mod tests {
    use super::super::bounded::probability_at_most;
    use super::*;

    /// Pairs of weights and of values, in no order.
    fn pairs(n: usize) -> Vec<([f64; 2], [f64; 2])> {
        let wave = |i: usize, a: f64| (i as f64 * a).sin();
        (0..n)
            .map(|i| {
                let (f, g) = (wave(i, 0.7) + 0.3 * wave(i, 1.3), wave(i, 2.1));
                ([1.0 + 0.1 * wave(i, 0.9), 1.0 + 0.2 * wave(i, 1.7).abs()], [f, g])
            })
            .collect()
    }

    /// Every test at every point of the grid, from H and U themselves.
    #[test]
    fn the_ends_of_a_function_by_hand() {
        let (all, n, delta) = (pairs(20_000), 20_000.0, 0.05);
        // a few pairs are clipped
        let (clip, most) = (0.149, 2.0);
        for normal in [None, Some((0.1, 0.7))] {
            for alpha in [0.1, 0.5, 0.9] {
                let mut size = Sums::default();
                let own = Clip { clip, most };
                for ([a, b], _) in &all {
                    size.add(0.5 * ((a - 1.0).abs() + (b - 1.0).abs()), own);
                }
                let with = Weighted { size, clip: own, n, tail: 0.004, slack: 0.001, delta };
                let mut level = Level::new(alpha, normal, all[..500].iter().copied(), &with);
                assert!(normal.is_some() || level.grid.is_sorted() && level.grid.len() > 50);
                // as wide as the rest may need
                level.grid = (-400..400).map(|i| f64::from(i) * 0.005).collect();
                let (fifth, log) = (0.01, 200.0_f64.ln());
                let clipped = all.iter().filter(|([a, b], _)| (a - 1.0).abs() + (b - 1.0).abs() > 2.0 * clip);
                let beyond = (most - clip) * probability_at_most(clipped.count() as f64, n, fifth);
                let bound = |values: &[f64], range: f64| {
                    let mean = values.iter().sum::<f64>() / n;
                    let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
                    (mean, (2.0 * variance * log / n).sqrt() + 7.0 * range * log / (3.0 * (n - 1.0)))
                };
                let tests = level.grid.iter().map(|t| {
                    let (h, u): (Vec<f64>, Vec<f64>) = all
                        .iter()
                        .map(|([a, b], [f, g])| {
                            let side = |f: &f64| f64::from(u8::from(f <= t));
                            let h = (a - 1.0) * (side(f) - alpha) + (b - 1.0) * (side(g) - alpha);
                            ((0.5 * h).clamp(-clip, clip), 0.5 * (side(f) + side(g)))
                        })
                        .unzip();
                    let ((h, wide), (u, wider)) = (bound(&h, 2.0 * clip), bound(&u, 1.0));
                    let (u, wider) = match normal {
                        Some((mean, sd)) => (upper_tail((mean - t) / sd), 0.0),
                        None => (u, wider),
                    };
                    let wide = wide + wider + beyond;
                    [
                        h + u - alpha - wide - alpha * 0.004 - 0.001,
                        h + u - alpha + wide + (1.0 - alpha) * 0.004 + 0.001,
                    ]
                });
                let tests: Vec<(f64, [f64; 2])> = level.grid.iter().copied().zip(tests).collect();
                let low = tests.iter().take_while(|(_, test)| test[1] < 0.0).last().map(|(t, _)| *t);
                let last = tests.iter().rposition(|(_, test)| test[0] < 0.0);
                let high = last.and_then(|i| tests.get(i + 1)).map(|(t, _)| *t);
                let found = level.enclosed(all.iter().copied(), &with).unwrap();
                let near = |x: f64, y: Option<f64>| (x - y.unwrap()).abs() < 1e-6;
                assert!(
                    near(found.low, low) && near(found.high, high),
                    "{alpha} {normal:?}: {found:?} {low:?} {high:?}"
                );
                assert!(found.low < found.estimate && found.estimate < found.high);
            }
        }
    }
}
