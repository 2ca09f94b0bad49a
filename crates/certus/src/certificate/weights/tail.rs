//! The tail of the importance weights, which no draw has seen (math: D8, Theorems 1 and 2).
//!
//! Where −log p is convex and a set A = {−W ≤ w₀, |∇W| ≤ r₀} has q(A) ≥ Φ(z), the weight at a distance ρ from A is at
//! most e^{P(ρ)}, P(ρ) = w₀ + r₀ρ + (1 − κ)ρ²/2, and no more than Q(ρ + z) of q lies that far away (Gaussian
//! isoperimetry).

use super::normal::{density, most_moments, upper_tail};

/// The grid of s begins here.
const FIRST: f64 = 0.05;
/// Its step, in units of max(1, s).
const STEP: f64 = 2e-3;
/// The integrals end here; what is beyond is bounded in closed form.
const LAST: f64 = 400.0;
/// Tails further out than this are taken to be as heavy as here, so that nothing underflows.
const FURTHEST: f64 = 36.0;
/// For the rounding of what is below.
const ALLOWANCE: f64 = 1.0 + 1e-9;

/// {−W ≤ `level`, |∇W| ≤ `slope`}, of which q has at least Φ(`z`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GoodSet {
    /// w₀.
    pub(super) level: f64,
    /// r₀.
    pub(super) slope: f64,
    /// z.
    pub(super) z: f64,
}

/// T₀, T₁, T₂ and T_k.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tail {
    /// E_q (w − e^τ)₊ |uᵀx|ʲ for every unit vector u and j = 0, 1, 2 is at most these.
    pub(super) moments: [f64; 3],
    /// E_q (v e^v − τ e^τ)₊, v = −W, is at most this.
    pub(super) entropy: f64,
}

impl Tail {
    fn each(self, other: Self, with: impl Fn(f64, f64) -> f64) -> Self {
        let moments = [0, 1, 2].map(|j| with(self.moments[j], other.moments[j]));
        Self { moments, entropy: with(self.entropy, other.entropy) }
    }

    pub(super) fn is_finite(&self) -> bool {
        self.moments.iter().all(|t| t.is_finite()) && self.entropy.is_finite()
    }
}

/// [`Tail`] at every point of a fixed grid of τ.
pub(super) struct Tails {
    grid: Vec<f64>,
    tails: Vec<Tail>,
}

impl GoodSet {
    /// P(ρ) = w₀ + r₀ρ + (1 − κ)ρ²/2.
    fn growth(&self, kappa: f64, distance: f64) -> f64 {
        self.level + self.slope * distance + 0.5 * (1.0 - kappa) * distance * distance
    }

    /// ρ(s) ≥ 0 with P(ρ) = s ≥ w₀.
    fn distance(&self, kappa: f64, s: f64) -> f64 {
        let rise = s - self.level;
        let root = (self.slope * self.slope + 2.0 * (1.0 - kappa) * rise).sqrt();
        if rise <= 0.0 { 0.0 } else { 2.0 * rise / (self.slope + root) }
    }

    /// q(−W > s) ≤ Q(ρ(s) + z) for s ≥ w₀ (Theorem 2a).
    pub(super) fn beyond(&self, kappa: f64, s: f64) -> f64 {
        // and 1 where one of the numbers is none
        let far = self.distance(kappa, s) + self.z;
        if s >= self.level && !far.is_nan() { upper_tail(far.min(FURTHEST)) } else { 1.0 }
    }

    /// The parts of T beyond s = P(R), from ∫_R^∞ e^P P′ G(Q(ρ + z)) dρ. There P′ ≤ ρ + z, because y = R + z exceeds
    /// P′(R) by σ > 0 and never by less further out; so P′Q ≤ γ, and e^P γ(ρ + z) falls at least like e^{−σt} from f =
    /// e^{P(R)}γ(y). G₁(Q(Y)) ≤ Q(Y)(Y + 1.7/Y) and G₂(Q(Y)) ≤ Q(Y)(Y² + 3.4 + 0.5/Y²), for half of the tail beyond Y
    /// lies beyond Y + log 2/Y at most.
    fn remainder(&self, kappa: f64, s: f64) -> Tail {
        let far = self.distance(kappa, s);
        let y = far + self.z;
        let sigma = y - (self.slope + (1.0 - kappa) * far);
        if s < self.level || y < 1.0 || sigma <= 0.0 {
            return Tail { moments: [f64::INFINITY; 3], entropy: f64::INFINITY };
        }
        let height = self.growth(kappa, far).max(s);
        let f = (height - 0.5 * y * y).exp() / std::f64::consts::TAU.sqrt();
        let (s1, s2, s3) = (1.0 / sigma, sigma.powi(-2), sigma.powi(-3));
        let moments = [
            f * s1,
            f * (y * s1 + s2 + 1.7 / y * s1),
            f * (y * y * s1 + 2.0 * y * s2 + 2.0 * s3 + (3.4 + 0.5 / (y * y)) * s1),
        ];
        Tail { moments, entropy: f * ((1.0 + height) * s1 + y * s2 + s3) }
    }
}

impl Tails {
    /// T_j = Σ (e^{s′} − e^s) G_j(p̄(s)) over the grid from τ on, s′ the point after s: never less than the integral,
    /// since p̄ falls. p̄ is the smallest of the sets', and so is each remainder. κ is at most 1.
    pub(super) fn new(sets: &[GoodSet], kappa: f64) -> Self {
        let mut grid = vec![FIRST];
        while grid[grid.len() - 1] < LAST {
            let last = grid[grid.len() - 1];
            grid.push(last + STEP * last.max(1.0));
        }
        let end = grid[grid.len() - 1];
        let nothing = Tail { moments: [f64::INFINITY; 3], entropy: f64::INFINITY };
        let least = |a: Tail, b: Tail| a.each(b, f64::min);
        let mut sum = sets.iter().map(|set| set.remainder(kappa, end)).fold(nothing, least);
        let mut tails = vec![sum];
        for pair in grid.windows(2).rev() {
            let (s, next) = (pair[0], pair[1]);
            let p = sets.iter().map(|set| set.beyond(kappa, s)).fold(1.0, f64::min);
            let (rise, moments) = (next.exp() - s.exp(), most_moments(p));
            let entropy = (next * next.exp() - s * s.exp()) * p;
            let here = Tail { moments: moments.map(|g| rise * g), entropy };
            sum = sum.each(here, |a, b| a + b);
            tails.push(sum.each(sum, |a, _| a * ALLOWANCE));
        }
        tails.reverse();
        Self { grid, tails }
    }

    /// Every τ up to `most`, with its tail.
    pub(super) fn up_to(&self, most: f64) -> impl Iterator<Item = (f64, Tail)> {
        self.grid.iter().copied().zip(self.tails.iter().copied()).take_while(move |(tau, _)| *tau <= most)
    }

    /// The tail at a τ of the grid.
    pub(super) fn at(&self, tau: f64) -> Tail {
        let here = self.grid.partition_point(|s| *s < tau);
        debug_assert_eq!(self.grid[here], tau);
        self.tails[here]
    }
}

/// e^τ(γ(ξ) − ξQ(ξ)): what clipping uᵀx at ±ξ does to E ½(w̄(x) − w̄(−x))uᵀx, for |w̄(x) − w̄(−x)| ≤ e^τ.
pub(super) fn clipped_mean(cap: f64, xi: f64) -> f64 {
    cap * (density(xi) - xi * upper_tail(xi)) * (1.0 + 1e-6)
}

/// E(g² − ξ²)₊ = 2(ξγ(ξ) + (1 − ξ²)Q(ξ)) for a standard normal g: what clipping does to E g².
pub(super) fn clipped_square(xi: f64) -> f64 {
    2.0 * (xi * density(xi) + (1.0 - xi * xi) * upper_tail(xi)) * (1.0 + 1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one dimension with A = {x ≤ z}: −W = P(dist) is attained, and the tail in closed form is what the bounds say.
    /// Every constant counts: the weights are e^{w₀ + r₀ρ + (1 − κ)ρ²/2} at x = z + ρ.
    #[test]
    fn the_worst_weights_attain_the_bound() {
        for (level, slope, z, kappa) in
            [(0.2, 0.4, 1.5, 0.0), (0.7, 0.9, 2.4, 0.0), (0.1, 1.5, 1.2, 0.3), (0.5, 2.0, -0.5, 1.0)]
        {
            let set = GoodSet { level, slope, z };
            let tails = Tails::new(&[set], kappa);
            for (tau, found) in tails.up_to(4.0).step_by(151) {
                let h = 1e-4;
                let mut exact = Tail::default();
                for i in 0..600_000 {
                    let far = (f64::from(i) + 0.5) * h;
                    let v = set.growth(kappa, far);
                    let mass = density(z + far) * h;
                    if mass * (v + 10.0).exp() < 1e-30 {
                        break;
                    }
                    // in one direction of its own the law of |uᵀx| may be rearranged; only T₀ and T_k are attained
                    exact.moments[0] += mass * (v.exp() - tau.exp()).max(0.0);
                    exact.entropy += mass * (v * v.exp() - tau * tau.exp()).max(0.0);
                }
                // below w₀ the rest of q may have any weight up to e^{w₀}
                if tau < level {
                    exact.moments[0] += upper_tail(-z) * (level.exp() - tau.exp());
                    exact.entropy += upper_tail(-z) * (level * level.exp() - tau * tau.exp());
                }
                for (found, exact) in [(found.moments[0], exact.moments[0]), (found.entropy, exact.entropy)] {
                    let ratio = found / exact;
                    assert!(ratio > 1.0 - 1e-4, "{set:?} {kappa} {tau}: {found} {exact}");
                    assert!(ratio < 1.03, "{set:?} {kappa} {tau}: {found} {exact}");
                }
                assert!(found.moments[1] >= found.moments[0] * 0.5 && found.moments[2].is_finite());
            }
        }
    }

    /// The part of every integral beyond s, by the trapezoid rule, against the closed forms.
    #[test]
    fn remainders_cover_the_integrals() {
        for (level, slope, z, kappa) in
            [(0.2, 0.4, 1.5, 0.0), (0.3, 1.8, 2.0, 0.0), (0.1, 1.5, 1.2, 0.3), (0.5, 0.3, 0.9, 0.8)]
        {
            let set = GoodSet { level, slope, z };
            for s in [1.0, 3.0, 10.0, 40.0] {
                let bound = set.remainder(kappa, s);
                let (mut sums, mut entropy, from, h) = ([0.0; 3], 0.0, set.distance(kappa, s), 1e-3);
                for i in 0..60_000 {
                    let far = from + (f64::from(i) + 0.5) * h;
                    if far + z > 35.0 {
                        break;
                    }
                    let v = set.growth(kappa, far);
                    let weight = v.exp() * (slope + (1.0 - kappa) * far) * h;
                    let p = upper_tail(far + z);
                    let moments = most_moments(p);
                    (0..3).for_each(|j| sums[j] += weight * moments[j]);
                    entropy += weight * (1.0 + v) * p;
                }
                if !bound.is_finite() {
                    continue;
                }
                for j in 0..3 {
                    assert!(
                        sums[j] <= bound.moments[j] && bound.moments[j] < 40.0 * sums[j],
                        "{set:?} {s} {j}"
                    );
                }
                assert!(entropy <= bound.entropy, "{set:?} {s}: {entropy} {}", bound.entropy);
            }
        }
        let hopeless = GoodSet { level: 0.1, slope: 2.0, z: 1.5 };
        assert!(!Tails::new(&[hopeless], 0.0).at(FIRST).is_finite(), "r₀ < z is needed");
        assert!(Tails::new(&[hopeless], 0.3).at(FIRST).is_finite(), "not with a prior");
    }

    /// P, its inverse and the tail, by hand.
    #[test]
    fn growth_by_hand() {
        let set = GoodSet { level: 0.2, slope: 0.4, z: 0.5 };
        // 0.2 + 0.4·2 + ½·0.75·4
        assert!((set.growth(0.25, 2.0) - 2.5).abs() < 1e-15);
        assert!((set.distance(0.25, 2.5) - 2.0).abs() < 1e-14);
        assert!(set.distance(0.25, 0.2) == 0.0 && (set.distance(1.0, 0.6) - 1.0).abs() < 1e-14);
        // Q(2.5)
        assert!((set.beyond(0.25, 2.5) - 0.006_209_665_325_776_13).abs() < 1e-12);
        assert_eq!(set.beyond(0.25, 0.199), 1.0);
    }

    /// The remainder, by hand: κ = 0, w₀ = 0, r₀ = 1, z = 3, R = 2, so that P(R) = 4, y = 5, σ = 2.
    #[test]
    fn remainder_by_hand() {
        let found = GoodSet { level: 0.0, slope: 1.0, z: 3.0 }.remainder(0.0, 4.0);
        let f = (4.0_f64 - 12.5).exp() / std::f64::consts::TAU.sqrt();
        let moments = [f / 2.0, f * (2.5 + 0.25 + 0.17), f * (12.5 + 2.5 + 0.25 + 0.5 * (3.4 + 0.02))];
        for (found, by_hand) in found.moments.into_iter().zip(moments) {
            assert!((found / by_hand - 1.0).abs() < 1e-12, "{found} {by_hand}");
        }
        assert!((found.entropy / (f * (2.5 + 1.25 + 0.125)) - 1.0).abs() < 1e-12);
    }

    /// Two sets are never worse than one of them.
    #[test]
    fn the_smaller_tail_counts() {
        let (near, far) =
            (GoodSet { level: 0.1, slope: 0.5, z: 0.8 }, GoodSet { level: 0.6, slope: 0.9, z: 2.5 });
        let [a, b, both] = [&[near][..], &[far][..], &[near, far][..]].map(|sets| Tails::new(sets, 0.0));
        for (tau, tail) in both.up_to(6.0) {
            for j in 0..3 {
                assert!(tail.moments[j] <= a.at(tau).moments[j].min(b.at(tau).moments[j]) * (1.0 + 1e-9));
            }
        }
        assert!(both.at(FIRST).moments[0] < 0.9 * b.at(FIRST).moments[0]);
    }

    #[test]
    fn what_clipping_costs() {
        let (h, xi) = (1e-4, 2.0);
        let beyond = (0..100_000).map(|i| xi + (f64::from(i) + 0.5) * h);
        let (mean, square) = beyond.fold((0.0, 0.0), |(a, b), g| {
            (a + h * density(g) * (g - xi), b + 2.0 * h * density(g) * (g * g - xi * xi))
        });
        assert!((clipped_mean(3.0, xi) / (3.0 * mean) - 1.0).abs() < 1e-5);
        assert!((clipped_square(xi) / square - 1.0).abs() < 1e-5);
    }
}
