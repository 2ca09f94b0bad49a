//! The constants of a problem: second moments (B1), expected smoothness (B2), noise at the optimum (B3, B4), patterns
//! (Theorem H). Labels are those of docs/maths.md, which also lists what is wrong in the paper as printed.

use super::chi_square::expected_smoothness_factor;
use crate::factor::Family;
use crate::target::Curvature;

/// Dimension, curvature and shape of the family: all that the theorems need to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// d.
    pub dim: usize,
    /// μ.
    pub strong_convexity: f64,
    /// M.
    pub smoothness: f64,
    /// B (pairs count once).
    pub batch: usize,
    /// k, the largest number of entries in a row of C.
    pub widest: usize,
    /// L, the levels of the pattern (1 for dense and block-diagonal factors).
    pub levels: usize,
}

/// E|g|² ≤ a |w − w*|² + b.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuadraticBound {
    /// Coefficient of |w − w*|².
    pub a: f64,
    /// Constant.
    pub b: f64,
}

impl Problem {
    /// Collects the constants.
    pub fn new(dim: usize, curvature: &Curvature, family: &Family, batch: usize) -> Self {
        let (widest, levels) = match family {
            Family::Pattern(tree) => (tree.widest(), tree.levels()),
            _ => (dim, 1),
        };
        let (strong_convexity, smoothness) = (curvature.strong_convexity(), curvature.smoothness());
        Self { dim, strong_convexity, smoothness, batch, widest, levels }
    }

    /// κ = M/μ ≥ 1.
    pub fn kappa(&self) -> f64 {
        (self.smoothness / self.strong_convexity).max(1.0)
    }

    fn d(&self) -> f64 {
        self.dim as f64
    }

    fn b(&self) -> f64 {
        self.batch as f64
    }

    /// |w* − w̄|² ≤ d/μ for every family (fact 4, Theorem H).
    pub fn solution_norm_squared(&self) -> f64 {
        self.d() / self.strong_convexity
    }

    /// c_P with E|g_energy|² ≤ c_P M²|w − w̄|² (Theorem H): min{d + 3, k + 1 + 2√L}; 4 for mean field in any dimension.
    pub fn pattern_constant(&self) -> f64 {
        (self.d() + 3.0).min(self.widest as f64 + 1.0 + 2.0 * (self.levels as f64).sqrt())
    }

    /// How the energy estimator's a is written.
    pub fn energy_formula(&self) -> &'static str {
        let dense = self.pattern_constant() >= self.dim as f64 + 3.0;
        if dense { "2M²(1 + (d+2)/B)" } else { "2M²(1 + (c_P−1)/B), Theorem H" }
    }

    /// Energy estimator (B1): a = 2M²(1 + (c_P − 1)/B), b = a|w* − w̄|².
    pub fn energy_second_moment(&self, solution_norm_squared: f64) -> QuadraticBound {
        let a = 2.0 * self.smoothness.powi(2) * (1.0 + (self.pattern_constant() - 1.0) / self.b());
        QuadraticBound { a, b: a * solution_norm_squared }
    }

    /// Entropy estimator on W_M, the paper's constants with 2dM (A8: the table's dM does not follow).
    pub fn entropy_second_moment_paper(&self, solution_norm_squared: f64) -> QuadraticBound {
        // |w − w̄|² ≤ 2|w − w*|² + 2|w* − w̄|²
        let at = |distance| entropy_second_moment_on(self.dim, self.smoothness, self.smoothness, distance);
        let b = at(2.0 * solution_norm_squared) / self.b();
        QuadraticBound { a: self.averaged(at(2.0) - at(0.0)), b }
    }

    /// Entropy estimator on W_M, V = 𝒮, convex −log p: the cross term ⟨∇l, ∇h⟩ = −tr E H ≤ −dμ halves a (A8, B1).
    pub fn entropy_second_moment(&self, solution_norm_squared: f64) -> QuadraticBound {
        let single = 2.0 * (self.d() + 3.0) * self.smoothness.powi(2);
        let constant = self.d() * (self.smoothness - 2.0 * self.strong_convexity);
        // The bound is on a second moment, so a negative sum could only mean wrong constants; it is never negative.
        let b = (single * solution_norm_squared + constant) / self.b();
        QuadraticBound { a: self.averaged(single), b }
    }

    /// Sticking the landing on W_M, the paper's constants: a = 4(d+3)(K² + 2M²), b = 4(d+3)K²|w* − ŵ|² with its K ≤ 2M,
    /// that is a = 24(d+3)M² and b = 16(d+3)M²|C*|².
    ///
    /// DIFFERENCE: the paper's ŵ = (m̂, 0) needs a stationary point m̂ of log p − log q*, which need not exist; the
    /// same bound holds with m* in its place, so that |w* − ŵ|² = |C*|² (A25), which is at most |w* − w̄|².
    pub fn stl_second_moment_paper(&self, solution_norm_squared: f64) -> QuadraticBound {
        let single = 24.0 * (self.d() + 3.0) * self.smoothness.powi(2);
        let b = 16.0 * (self.d() + 3.0) * self.smoothness.powi(2) * solution_norm_squared / self.b();
        QuadraticBound { a: self.averaged(single), b }
    }

    /// Sticking the landing on W_M (B1, B4): a = 8(d+3)M², b = 2b*.
    pub fn stl_second_moment(&self) -> QuadraticBound {
        let single = 8.0 * (self.d() + 3.0) * self.smoothness.powi(2);
        QuadraticBound { a: self.averaged(single), b: 2.0 * self.stl_noise_at_optimum() / self.b() }
    }

    /// (1 − 1/B)|∇f|² + E|g|²/B with |∇f(w)| ≤ 2M|w − w*| on W_M.
    fn averaged(&self, single: f64) -> f64 {
        4.0 * self.smoothness.powi(2) * (1.0 - 1.0 / self.b()) + single / self.b()
    }

    /// Λ = M Q_d(κ) with E|g(w) − g(w′)|² ≤ Λ⟨∇l(w) − ∇l(w′), w − w′⟩ (B2), any family.
    pub fn expected_smoothness(&self) -> f64 {
        self.smoothness * expected_smoothness_factor(self.dim, self.kappa())
    }

    /// V* = Var g_energy(w*) ≤ Md(k + 1 + 2√(Lκ)) − dμ (B3; with the pattern's k and L as in the proof of Theorem H).
    pub fn energy_noise_at_optimum(&self) -> f64 {
        let rows = self.widest as f64 + 1.0 + 2.0 * (self.levels as f64 * self.kappa()).sqrt();
        self.d() * (self.smoothness * rows - self.strong_convexity)
    }

    /// The same without strong convexity, given |C*|_F ≤ `radius`: Md(k + 1) + 2√(LMd) M |C*|_F (B3).
    pub fn energy_noise_at_optimum_convex(&self, radius: f64) -> f64 {
        let md = self.smoothness * self.d();
        md * (self.widest as f64 + 1.0) + 2.0 * (self.levels as f64 * md).sqrt() * self.smoothness * radius
    }

    /// b* = E|g_STL(w*)|² ≤ d(M−μ) min{(d+1)/2 + √(2(κ−1)), (κ−1)((d+1)/2 + √2)} (B4), V = 𝒮; 0 when κ = 1.
    pub fn stl_noise_at_optimum(&self) -> f64 {
        let (excess, half) = (self.kappa() - 1.0, 0.5 * (self.d() + 1.0));
        let smaller = (half + (2.0 * excess).sqrt()).min(excess * (half + 2.0_f64.sqrt()));
        self.d() * (self.smoothness - self.strong_convexity) * smaller
    }

    /// The same without strong convexity, given |C*|_F ≤ `radius`: (d+3)M²|C*|² (Lemma F with |H − Σ*⁻¹| ≤ M).
    pub fn stl_noise_at_optimum_convex(&self, radius: f64) -> f64 {
        (self.d() + 3.0) * (self.smoothness * radius).powi(2)
    }

    /// K₀ = sup|H − sI| for the control variate with precision s (B6).
    pub fn control_variate_smoothness(&self, precision: f64) -> f64 {
        (self.smoothness - precision).max(precision - self.strong_convexity)
    }

    /// Variance of the control-variate estimator at w*, centre m₀ with |m₀ − m̄| ≤ `center_error` (B6, Lemma F).
    ///
    /// v = π − s(z − m₀) has mean −s(m* − m₀) and derivative (H − sI)C*, so with x = |m* − m₀|, y = |C*|_F it is at
    /// most (d+1)s²x² + (d+3)K₀²y² + 2K₀s x y, where (x, y) lies within |w* − w̄| ≤ √(d/μ), shifted by the centre's
    /// error.
    pub fn control_variate_noise_at_optimum(&self, precision: f64, center_error: f64) -> f64 {
        let k = self.control_variate_smoothness(precision);
        let (p, q) = ((self.d() + 1.0) * precision * precision, (self.d() + 3.0) * k * k);
        let cross = k * precision;
        // largest eigenvalue of [[p, cross], [cross, q]] times the squared radius
        let largest = 0.5 * (p + q) + (0.25 * (p - q).powi(2) + cross * cross).sqrt();
        largest * (self.solution_norm_squared().sqrt() + center_error).powi(2)
    }
}

/// E|g_entropy|² ≤ 2(d+3)M²|w − w̄|² + 2dL for σ_min(C) ≥ 1/√L, any M-smooth φ with stationary point m̄ (A8).
pub fn entropy_second_moment_on(dim: usize, smoothness: f64, floor: f64, distance_squared: f64) -> f64 {
    let d = dim as f64;
    2.0 * (d + 3.0) * smoothness * smoothness * distance_squared + 2.0 * d * floor
}
