//! How far a quantity can lie above its Monte-Carlo estimate: shares of δ, medians of block means, Fisher information (math: D2, D3).

/// How the total error probability δ is shared out among repeated checks.
///
/// The union over all checks stays below δ, so one may look after every check, change the Gaussian because of what one
/// saw, and stop whenever one likes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spending {
    delta: f64,
    planned: Option<u64>,
}

impl Spending {
    /// Equal shares for at most `checks` checks.
    pub fn planned(delta: f64, checks: u64) -> Self {
        Self { delta, planned: Some(checks) }
    }

    /// Any number of checks: the k-th gets 6δ/(π²k²), because Σ 1/k² = π²/6.
    pub fn anytime(delta: f64) -> Self {
        Self { delta, planned: None }
    }

    /// δ, the probability that any of the checks is wrong.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// What the `check`-th check may spend, counted from 1; nothing is left beyond those planned.
    pub fn share(&self, check: u64) -> f64 {
        let k = check as f64;
        match self.planned {
            _ if check == 0 => 0.0,
            Some(checks) if check > checks => 0.0,
            Some(checks) => self.delta / checks as f64,
            None => self.delta * 6.0 / (std::f64::consts::PI * k).powi(2),
        }
    }
}

/// Of each check's share this part is spent on the Fisher information, the rest on the gradient.
const FISHER_PART: f64 = 0.1;

/// How one check is made; everything here is fixed before a draw is seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Design {
    /// Draws in all.
    pub(super) draws: usize,
    /// Blocks k, odd.
    pub(super) blocks: usize,
    /// c: the gradient's norm exceeds the median of the block means' by at most c √(v/n), n draws in the smallest block.
    pub(super) factor: f64,
    /// The share of δ that the Fisher information may spend.
    pub(super) fisher_delta: f64,
}

impl Design {
    /// The best number of blocks for `draws` draws and the error probability `delta`.
    ///
    /// Block means deviate downwards along the gradient by c√(v/n) with probability at most p = 1/(1 + c²) (Cantelli), so
    /// their median does with probability at most P(Bin(k, p) > k/2), which is set to what δ leaves. One block is
    /// Chebyshev's inequality. The 1 added to c stands for the noise that the norm of a block mean contains itself.
    pub(super) fn new(draws: usize, delta: f64) -> Self {
        let design = |blocks: usize| {
            let p = majority_probability(blocks, (1.0 - FISHER_PART) * delta);
            Self { draws, blocks, factor: ((1.0 - p) / p).sqrt(), fisher_delta: FISHER_PART * delta }
        };
        let cost = |factor: f64, blocks: usize| (factor + 1.0) / ((draws / blocks) as f64).sqrt();
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

    /// |∇f| − median_j |ḡ_j| ≤ c √(v/n), v a bound on the variance in any direction.
    pub(super) fn deviation(&self, variance: f64) -> f64 {
        self.factor * (variance / (self.draws / self.blocks) as f64).sqrt()
    }

    /// F ≤ (√F̂ + ρ√(2 log(1/δ)/N))² + ρ²/N with probability 1 − δ for F = E|S|², S ρ-Lipschitz (D3).
    pub(super) fn fisher(&self, measured: f64, lipschitz: f64) -> f64 {
        let n = self.draws as f64;
        let root = measured.sqrt() + lipschitz * (2.0 * -self.fisher_delta.ln() / n).sqrt();
        root * root + lipschitz * lipschitz / n
    }
}

/// E⟨S, a + Au⟩² ≤ F + (4/√3) ρ √F for |a|² + |A|² = 1: the variance of the gradient in any direction, in any dimension (D2).
pub(super) fn directional_variance(fisher: f64, lipschitz: f64) -> f64 {
    fisher + 4.0 / 3.0_f64.sqrt() * lipschitz * fisher.sqrt()
}

/// The largest p ≤ 1/2 with P(Bin(k, p) > k/2) ≤ δ, by bisection of log p, rounded down. p = δ is always small enough.
fn majority_probability(k: usize, delta: f64) -> f64 {
    let (mut low, mut high) = (delta.min(0.5), 0.5);
    for _ in 0..60 {
        let middle = f64::sqrt(low * high);
        if majority(k, middle) <= delta { low = middle } else { high = middle }
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

    /// The shares of all checks together are at most δ, and nearly δ.
    #[test]
    fn shares_add_up_to_delta() {
        let anytime = Spending::anytime(0.05);
        let sum: f64 = (1..=1_000_000).map(|k| anytime.share(k)).sum();
        // the rest of Σ 1/k² beyond n lies between 1/(n+1) and 1/n
        assert!((0.05 - sum) > 0.0 && 0.05 - sum < 0.05 * 0.608e-6 + 1e-12, "{sum}");
        let planned = Spending::planned(0.05, 7);
        assert!(((1..100).map(|k| planned.share(k)).sum::<f64>() - 0.05).abs() < 1e-16);
        assert_eq!((planned.share(8), planned.share(0), anytime.share(0)), (0.0, 0.0, 0.0));
    }

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
        let p = majority_probability(9, 1e-4);
        assert!(majority(9, p) <= 1e-4 && majority(9, p * (1.0 + 1e-8)) > 1e-4);
    }

    /// The law that takes the value −σ√((1−p)/p) with probability p and σ√(p/(1−p)) otherwise has mean 0, variance σ² and is
    /// what Cantelli's inequality is sharp for; the factor must cover it, and must not be larger than that.
    #[test]
    fn the_factor_covers_the_worst_law() {
        for delta in [0.3, 0.05, 0.01, 1e-3, 1e-6, 1e-12] {
            let design = Design::new(10_000, delta);
            assert!(design.blocks % 2 == 1);
            let p = 1.0 / (1.0 + design.factor.powi(2));
            let wrong = majority(design.blocks, p);
            let left = delta - design.fisher_delta;
            assert!(wrong <= left * (1.0 + 1e-12) && wrong > 0.999 * left, "{delta}: {wrong}");
            let once = ((1.0 - left) / left).sqrt();
            let n = (10_000 / design.blocks) as f64;
            assert!(design.deviation(1.0) <= once / 100.0 * (1.0 + 1e-8), "never worse than Chebyshev");
            assert!((design.deviation(4.0) - 2.0 * design.factor / n.sqrt()).abs() < 1e-12);
        }
        assert_eq!(Design::new(10_000, 0.1).blocks, 1);
        assert!(Design::new(10_000, 1e-6).blocks >= 11);
        let few = Design::new(4, 1e-6);
        assert!(few.blocks <= 3 && few.deviation(1.0) >= few.factor);
        let covered: usize = (0..few.blocks).map(|j| few.block(j).len()).sum();
        assert!(covered == 4 && (0..few.blocks).all(|j| few.block(j).len() >= 4 / few.blocks));
    }

    /// S(u) = b + ρu in one dimension, b ≫ ρ: √F̂ is b + ρ(mean of u) up to O(1/b), so its lower δ-quantile is b − ρ z_δ/√N.
    /// There the bound must still be at least F = b² + ρ².
    #[test]
    fn fisher_information_is_covered_at_its_quantile() {
        let (b, rho, n) = (1e6, 2.0, 100);
        for (delta, z) in [(0.05, 1.6448536269514722), (1e-3, 3.090232306167813), (1e-6, 4.753424308822899)] {
            let design = Design { draws: n, blocks: 1, factor: 1.0, fisher_delta: delta };
            let quantile: f64 = b - rho * z / (n as f64).sqrt();
            let (bound, truth) = (design.fisher(quantile * quantile, rho), b * b + rho * rho);
            assert!(bound >= truth, "{delta}");
            // and one that is 1.5 times less cautious would not do at 1e-6
            let cautious = rho * (2.0 * -f64::ln(delta) / n as f64).sqrt();
            assert!((bound - truth) / (2.0 * b) < 0.35 * cautious);
        }
        // the other term is what an estimate from one draw misses: S = ρu, F̂ = 0
        let one = Design { draws: 1, blocks: 1, factor: 1.0, fisher_delta: 1.0 };
        assert_eq!(one.fisher(0.0, 2.0), 4.0);
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
