//! Confidence bounds for the mean of a bounded variable, from draws that were clipped where pilot draws end.

/// The upper half width √(2V log(2/δ)/n) + 7(b − a) log(2/δ)/(3(n − 1)) for the mean of n draws in [a, b] with sample
/// variance V (Maurer and Pontil 2009, Theorem 4): exceeded with probability at most δ on either side. `log` is
/// log(2/δ).
pub fn empirical_bernstein(variance: f64, range: f64, log: f64, n: f64) -> f64 {
    (2.0 * variance * log / n).sqrt() + 7.0 * range * log / (3.0 * (n - 1.0))
}

/// The largest p with n·kl(k/n, p) ≤ log(1/δ): the probability of an event that was seen k times in n draws is above
/// it with probability at most δ (Chernoff). For k = 0 it is 1 − δ^{1/n}, the bound of Clopper and Pearson.
pub(super) fn probability_at_most(k: f64, n: f64, delta: f64) -> f64 {
    let share = k / n;
    let divergence = |p: f64| {
        let hit = if k > 0.0 { share * (share / p).ln() } else { 0.0 };
        let miss = if k < n { (1.0 - share) * ((1.0 - share) / (1.0 - p)).ln() } else { 0.0 };
        n * (hit + miss)
    };
    let (mut low, mut high) = (share, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if divergence(middle) <= -delta.ln() { low = middle } else { high = middle }
    }
    (high * (1.0 + 1e-9)).min(1.0)
}

/// How a variable X with |X| ≤ `most` is recorded: clipped at ±`clip`, which pilot draws chose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clip {
    pub(super) clip: f64,
    pub(super) most: f64,
}

impl Clip {
    /// Three times the largest of the pilot's: next to nothing is beyond, and that can be bounded by counting. Less
    /// than a twentieth of the range would gain nothing, for counting costs as much as the rest of it.
    pub(super) fn of_pilot(largest: f64, most: f64) -> Self {
        Self { clip: (3.0 * largest).clamp(0.05 * most, most), most }
    }
}

/// Sums over the draws of a clipped variable.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    sum: f64,
    squares: f64,
    beyond: f64,
}

impl Sums {
    pub(super) fn add(&mut self, x: f64, clip: Clip) {
        let clipped = x.clamp(-clip.clip, clip.clip);
        self.sum += clipped;
        self.squares += clipped * clipped;
        self.beyond += f64::from(u8::from(x.abs() > clip.clip));
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.sum += other.sum;
        self.squares += other.squares;
        self.beyond += other.beyond;
    }

    /// An interval that E X leaves with probability at most δ: a third for each side of the clipped mean, and a third
    /// for the probability of being clipped.
    pub(super) fn interval(&self, n: f64, clip: Clip, delta: f64) -> (f64, f64) {
        let third = delta / 3.0;
        self.between(n, clip, third, self.beyond_clip(n, clip, third))
    }

    /// What clipping may do to E X, but for δ: X is off by at most `most` − `clip`, where it is clipped.
    pub(super) fn beyond_clip(&self, n: f64, clip: Clip, delta: f64) -> f64 {
        (clip.most - clip.clip) * probability_at_most(self.beyond, n, delta)
    }

    /// An interval that E X leaves on either side with probability at most δ, if clipping does no more than `beyond`.
    pub(super) fn between(&self, n: f64, clip: Clip, delta: f64, beyond: f64) -> (f64, f64) {
        let (mean, variance) = (self.mean(n), self.variance(n));
        let width = empirical_bernstein(variance, 2.0 * clip.clip, (2.0 / delta).ln(), n) + beyond;
        // sums of n numbers of this size, of which the squares cancel
        let width = width + 1e-10 * clip.most;
        ((mean - width).max(-clip.most), (mean + width).min(clip.most))
    }

    /// Half the width that [`Self::between`] would have with `n` draws like these `count`, of which none is clipped;
    /// `unseen` is what the probability of clipping may still be.
    pub(super) fn foreseen(&self, count: f64, n: f64, clip: Clip, delta: f64, unseen: f64) -> f64 {
        let log = (2.0 / delta).ln();
        empirical_bernstein(self.variance(count), 2.0 * clip.clip, log, n) + (clip.most - clip.clip) * unseen
    }

    /// The sample variance of what was recorded.
    fn variance(&self, n: f64) -> f64 {
        let mean = self.mean(n);
        ((self.squares - n * mean * mean) / (n - 1.0)).max(0.0)
    }

    /// Of sums that were made elsewhere.
    pub(super) fn of([sum, squares]: [f64; 2]) -> Self {
        Self { sum, squares, beyond: 0.0 }
    }

    /// The mean of what was recorded.
    pub(super) fn mean(&self, n: f64) -> f64 {
        self.sum / n
    }
}

/// The range of a/b for a in one interval and b in another of positive numbers.
pub fn ratio((low, high): (f64, f64), (least, most): (f64, f64)) -> (f64, f64) {
    (low / if low < 0.0 { least } else { most }, high / if high > 0.0 { least } else { most })
}

/// The range of y² for y in an interval.
pub fn squares((a, b): (f64, f64)) -> (f64, f64) {
    let (a2, b2) = (a * a, b * b);
    (if a <= 0.0 && b >= 0.0 { 0.0 } else { a2.min(b2) }, a2.max(b2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_probabilities() {
        let (n, delta) = (1000.0, 1e-3_f64);
        let none = probability_at_most(0.0, n, delta);
        assert!((none / (1.0 - delta.powf(1.0 / n)) - 1.0).abs() < 1e-8);
        assert_eq!(probability_at_most(n, n, delta), 1.0);
        // P(Bin(n, p) ≤ k) ≤ δ at the bound, by the sum of the law, and not much less
        for k in [1, 5, 40, 300] {
            let p = probability_at_most(f64::from(k), n, delta);
            let (mut term, mut sum) = ((n * (1.0 - p).ln()).exp(), 0.0);
            for i in 0..=k {
                sum += term;
                term *= (n - f64::from(i)) / f64::from(i + 1) * p / (1.0 - p);
            }
            assert!(sum <= delta && sum > 0.05 * delta, "{k}: {p} {sum}");
        }
    }

    /// 30 ones and 70 zeros in [−2, 2], clipped at 1/2: by hand.
    #[test]
    fn the_interval_by_hand() {
        let (clip, delta) = (Clip { clip: 0.5, most: 2.0 }, 0.06);
        let mut sums = Sums::default();
        (0..100).for_each(|i| sums.add(if i < 30 { 1.0 } else { 0.0 }, clip));
        assert_eq!(sums, Sums { sum: 15.0, squares: 7.5, beyond: 30.0 });
        let variance: f64 = (7.5 - 100.0 * 0.15 * 0.15) / 99.0;
        let log = 100.0_f64.ln();
        let width = (2.0 * variance * log / 100.0).sqrt() + 7.0 * log / (3.0 * 99.0);
        let beyond = 1.5 * probability_at_most(30.0, 100.0, 0.02);
        let (low, high) = sums.interval(100.0, clip, delta);
        assert!((high - (0.15 + width + beyond)).abs() < 1e-9, "{high}");
        assert!((low - (0.15 - width - beyond)).abs() < 1e-9, "{low}");
    }
}
