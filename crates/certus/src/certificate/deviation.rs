//! How far a quantity can lie from its Monte-Carlo estimate: medians of block means, the Fisher information (math: D2,
//! D3).

/// Of a check's share of δ this part is spent on each Fisher information, the rest on the median of block means.
pub(super) const FISHER_PART: f64 = 0.1;

/// How block means are made; everything here is fixed before a draw is seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Design {
    /// Draws in all.
    pub(super) draws: usize,
    /// Blocks k, odd.
    pub(super) blocks: usize,
    /// c: the median of the block means is off by at most c √(v/n), n draws in the smallest block.
    pub(super) factor: f64,
}

impl Design {
    /// For norms, which must not be underestimated by more than c√(v/n) but with probability `delta`.
    ///
    /// Block means deviate downwards along the gradient by c√(v/n) with probability at most p = 1/(1 + c²) (Cantelli),
    /// so their median does with probability at most P(Bin(k, p) > k/2). The 1 added to c stands for the noise that the
    /// norm of a block mean contains itself.
    pub(super) fn of_norms(draws: usize, delta: f64) -> Self {
        Self::best(draws, delta, 1.0, &majority)
    }

    /// For numbers, which must not be off by more than c√(v/n) on either side but with probability `delta`.
    ///
    /// A block mean is too low with some probability a ≤ p = 1/(1 + c²) and too high with b ≤ p (Cantelli), where
    /// a + b ≤ 1/c² (Chebyshev). P(Bin(k, ·) > k/2) is convex up to ½, so P(Bin(k, a) > k/2) + P(Bin(k, b) > k/2) is
    /// largest at a = p, b = 1/c² − p = p²/(1 − p). One block is Chebyshev's inequality.
    pub(super) fn of_means(draws: usize, delta: f64) -> Self {
        Self::best(draws, delta, 0.0, &|k, p| majority(k, p) + majority(k, p * p / (1.0 - p)))
    }

    /// The number of blocks with the smallest (c + noise)/√n, where `wrong(k, 1/(1 + c²))` is `delta`.
    fn best(draws: usize, delta: f64, noise: f64, wrong: &dyn Fn(usize, f64) -> f64) -> Self {
        let design = |blocks: usize| {
            let p = largest_probability(delta, &|p| wrong(blocks, p));
            Self { draws, blocks, factor: ((1.0 - p) / p).sqrt() }
        };
        let cost = |factor: f64, blocks: usize| (factor + noise) / ((draws / blocks) as f64).sqrt();
        let (mut best, mut blocks) = (design(1), 3);
        // no number of blocks makes c smaller than 1
        while blocks <= draws && cost(1.0, blocks) < cost(best.factor, best.blocks) {
            let next = design(blocks);
            if cost(next.factor, blocks) < cost(best.factor, best.blocks) {
                best = next;
            }
            blocks += 2;
        }
        best
    }

    /// The draws of one block; sizes differ by at most one.
    pub(super) fn block(&self, j: usize) -> std::ops::Range<usize> {
        j * self.draws / self.blocks..(j + 1) * self.draws / self.blocks
    }

    /// c √(v/n), v a bound on the variance (in any direction, for norms).
    pub(super) fn deviation(&self, variance: f64) -> f64 {
        self.factor * (variance / (self.draws / self.blocks) as f64).sqrt()
    }
}

/// The median of an odd number of values.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// F ≤ (√F̂ + ρ√(2 log(1/δ)/N))² + ρ²/N with probability 1 − δ for F = E|S|², S ρ-Lipschitz, F̂ the mean of N draws
/// (D3); √F̂ is raised by the rounding of S.
pub fn fisher_bound(mean: f64, lipschitz: f64, rounding: f64, draws: usize, delta: f64) -> f64 {
    let n = draws as f64;
    let root = mean.sqrt() + rounding + lipschitz * (2.0 * -delta.ln() / n).sqrt();
    root * root + lipschitz * lipschitz / n
}

/// E⟨S, a + Au⟩² ≤ F + (4/√3) ρ √F for |a|² + |A|² = 1: the variance of the gradient in any direction, in any dimension
/// (D2).
pub(super) fn directional_variance(fisher: f64, lipschitz: f64) -> f64 {
    fisher + 4.0 / 3.0_f64.sqrt() * lipschitz * fisher.sqrt()
}

/// The largest p ≤ 1/2 with wrong(p) ≤ δ for an increasing function with wrong(p) ≤ p/(1 − p), by bisection of log p,
/// rounded down.
fn largest_probability(delta: f64, wrong: &dyn Fn(f64) -> f64) -> f64 {
    // wrong(δ/(1 + δ)) ≤ δ
    let (mut low, mut high) = ((delta / (1.0 + delta)).min(0.5), 0.5);
    for _ in 0..60 {
        let middle = f64::sqrt(low * high);
        if wrong(middle) <= delta { low = middle } else { high = middle }
    }
    low * (1.0 - 1e-9)
}

/// P(Bin(k, p) > k/2) for odd k and p ≤ 1/2: a sum of positive terms that falls at least like a geometric one.
fn majority(k: usize, p: f64) -> f64 {
    let first = k.div_ceil(2);
    // log of the first term: binomial(k, first) p^first (1 − p)^(k − first)
    let binomial: f64 = (1..=first).map(|i| ((k - first + i) as f64 / i as f64).ln()).sum();
    let mut term = (binomial + first as f64 * p.ln() + (k - first) as f64 * (-p).ln_1p()).exp();
    let mut sum = term;
    for i in first..k {
        term *= (k - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    /// P(Bin(k, p) > k/2) against the polynomials written out.
    #[test]
    fn majority_in_closed_form() {
        for p in [0.01, 0.1, 0.3, 0.5] {
            let q: f64 = 1.0 - p;
            for (k, exact) in [
                (1, p),
                (3, 3.0 * p * p * q + p.powi(3)),
                (5, 10.0 * p.powi(3) * q * q + 5.0 * p.powi(4) * q + p.powi(5)),
            ] {
                assert!((majority(k, p) / exact - 1.0).abs() < 1e-14, "{k} {p}");
            }
        }
        assert!((majority(101, 0.5) - 0.5).abs() < 1e-13, "a fair coin");
        let p = largest_probability(1e-4, &|p| majority(9, p));
        assert!(majority(9, p) <= 1e-4 && majority(9, p * (1.0 + 1e-8)) > 1e-4);
    }

    /// The law that takes the value −σ√((1−p)/p) with probability p and σ√(p/(1−p)) otherwise has mean 0, variance σ²
    /// and is what Cantelli's inequality is sharp for; the factor must cover it, and must not be larger than that.
    #[test]
    fn the_factor_covers_the_worst_law() {
        for delta in [0.3, 0.05, 0.01, 1e-3, 1e-6, 1e-12] {
            let design = Design::of_norms(10_000, delta);
            assert!(design.blocks % 2 == 1);
            let p = 1.0 / (1.0 + design.factor.powi(2));
            let wrong = majority(design.blocks, p);
            assert!(wrong <= delta * (1.0 + 1e-12) && wrong > 0.999 * delta, "{delta}: {wrong}");
            let once = ((1.0 - delta) / delta).sqrt();
            let n = (10_000 / design.blocks) as f64;
            assert!(design.deviation(1.0) <= once / 100.0 * (1.0 + 1e-8), "never worse than Chebyshev");
            assert!((design.deviation(4.0) - 2.0 * design.factor / n.sqrt()).abs() < 1e-12);
        }
        assert_eq!(Design::of_norms(10_000, 0.09).blocks, 1);
        assert!(Design::of_norms(10_000, 1e-6).blocks >= 11);
        let few = Design::of_norms(4, 1e-6);
        assert!(few.blocks <= 3 && few.deviation(1.0) >= few.factor);
        let covered: usize = (0..few.blocks).map(|j| few.block(j).len()).sum();
        assert!(covered == 4 && (0..few.blocks).all(|j| few.block(j).len() >= 4 / few.blocks));
    }

    /// Two-sided: laws on three points, −r with probability a, r with probability b, and one in between, that have mean
    /// 0 and variance 1 with r just above c. The median is off with probability P(Bin(k, a) > k/2) + P(Bin(k, b) >
    /// k/2), at most δ for all of them; at k = 1 the symmetric one attains it.
    #[test]
    fn both_sides_are_covered() {
        for delta in [0.5, 0.05, 0.01, 1e-4, 1e-9] {
            let design = Design::of_means(10_000, delta);
            let (k, c) = (design.blocks, design.factor);
            let mut worst: f64 = 0.0;
            for share in 0..=200 {
                // a r² + b r² ≤ 1 and, for the point in between to exist, (b − a)²r²/(1 − a − b) ≤ 1 − (a + b)r²
                let (mut low, mut high) = (0.0, 1.0 / (c * c));
                let split = f64::from(share) / 200.0;
                for _ in 0..100 {
                    let total = 0.5 * (low + high);
                    let lean = (1.0 - 2.0 * split) * total * c;
                    if lean * lean / (1.0 - total) <= 1.0 - total * c * c {
                        low = total
                    } else {
                        high = total
                    }
                }
                let wrong = majority(k, split * low) + majority(k, (1.0 - split) * low);
                assert!(wrong <= delta, "{delta} {split}: {wrong}");
                worst = worst.max(wrong);
            }
            assert!(worst > if k == 1 { 0.999 } else { 0.9 } * delta, "{delta}: {worst}");
            let chebyshev = (1.0 / (delta * 10_000.0)).sqrt();
            assert!(design.deviation(1.0) <= chebyshev * (1.0 + 1e-8));
        }
        // Chebyshev itself, and much less where δ is small
        let once = Design::of_means(10_000, 0.5);
        assert!(once.blocks == 1 && (once.factor / 2f64.sqrt() - 1.0).abs() < 1e-8, "{once:?}");
        assert!(Design::of_means(10_000, 1e-6).deviation(1.0) < 0.15);
    }

    /// Skewed values, (u² − 1)/√2 of variance 1: the radius covers 0 in all but δ of 400 samples, up to 3.3 standard
    /// deviations of that count (level 5e-4), and is not idle: a quarter of it does not.
    #[test]
    fn the_radius_covers() {
        let random = Random::new(4, Purpose::Simulate, 0);
        let design = Design::of_means(200, 0.05);
        let mut missed = [0; 2];
        for sample in 0..400 {
            let mut u = vec![0.0; 200];
            random.normals(sample, 0, 200, &mut u);
            let values: Vec<f64> = u.iter().map(|x| (x * x - 1.0) / 2f64.sqrt()).collect();
            let mean = |j: usize| values[design.block(j)].iter().sum::<f64>() / design.block(j).len() as f64;
            let center = median((0..design.blocks).map(mean).collect());
            missed[0] += usize::from(center.abs() > design.deviation(1.0));
            missed[1] += usize::from(center.abs() > design.deviation(1.0) / 4.0);
        }
        assert!(missed[0] <= 34 && missed[1] > 34, "{missed:?}");
        assert_eq!(median(vec![9.0, -1.0, 3.0, 1e9, 2.0]), 3.0);
    }

    /// S(u) = b + ρu in one dimension, b ≫ ρ: √F̂ is b + ρ(mean of u) up to O(1/b), so its lower δ-quantile is b − ρ
    /// z_δ/√N. There the bound must still be at least F = b² + ρ².
    #[test]
    fn fisher_information_is_covered_at_its_quantile() {
        let (b, rho, n) = (1e6, 2.0, 100);
        for (delta, z) in [(0.05, 1.6448536269514722), (1e-3, 3.090232306167813), (1e-6, 4.753424308822899)] {
            let quantile: f64 = b - rho * z / (n as f64).sqrt();
            let (bound, truth) = (fisher_bound(quantile * quantile, rho, 0.0, n, delta), b * b + rho * rho);
            assert!(bound >= truth, "{delta}");
            // and one that is 1.5 times less cautious would not do at 1e-6
            let cautious = rho * (2.0 * -f64::ln(delta) / n as f64).sqrt();
            assert!((bound - truth) / (2.0 * b) < 0.35 * cautious);
        }
        // the other term is what an estimate from one draw misses: S = ρu, F̂ = 0
        assert_eq!(fisher_bound(0.0, 2.0, 0.0, 1, 1.0), 4.0);
        // and the rounding of S is added to the root
        assert_eq!(fisher_bound(9.0, 0.0, 2.0, 1, 1.0), 25.0);
    }

    /// E|S|²|a + Au|² for S = b + ρu in one dimension is (b² + ρ²)a² + (b² + 3ρ²)A² + 4bρaA.
    #[test]
    fn directional_variance_covers_affine_fields() {
        let mut tightest: f64 = 0.0;
        for b in [0.0, 0.3, 1.0, 2.0, 10.0] {
            let rho = 1.0;
            let bound = directional_variance(b * b + rho * rho, rho);
            for angle in 0..360 {
                let (a, c) = (f64::from(angle).to_radians().cos(), f64::from(angle).to_radians().sin());
                let exact =
                    (b * b + rho * rho) * a * a + (b * b + 3.0 * rho * rho) * c * c + 4.0 * b * rho * a * c;
                assert!(exact <= bound, "{b} {angle}: {exact} {bound}");
                tightest = tightest.max(exact / bound);
            }
        }
        assert!(tightest > 0.9, "{tightest}");
    }
}
