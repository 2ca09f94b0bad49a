//! Guarantees when −log p is convex but not strongly convex: the gap of the θ-weighted mean after a fixed horizon.

/// E f(w̄_T) − f* ≤ c γ (a D²/(1 − θ^T) + b), θ = 1/(1 + (2c) a γ²): c = 1 after a prox, c = 1/2 after a projection.
///
/// For the prox, (a, b) may bound the *variance* of g instead of its second moment (B7); γ ≤ 1/M is needed there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convex {
    /// Coefficient of |w − w*|².
    pub a: f64,
    /// Constant.
    pub b: f64,
    /// True for the prox theorem, false for the projection theorem.
    pub prox: bool,
    /// The largest legal step: 1/M for the prox, ∞ for the projection.
    pub largest_step: f64,
}

impl Convex {
    fn c(&self) -> f64 {
        if self.prox { 1.0 } else { 0.5 }
    }

    /// log θ.
    pub fn log_theta(&self, step: f64) -> f64 {
        -(2.0 * self.c() * self.a * step * step).ln_1p()
    }

    /// The bound on E f(w̄_T) − f* after `horizon` steps of size `step`, from |w_0 − w*|² ≤ `initial`.
    pub fn bound(&self, initial: f64, step: f64, horizon: u64) -> f64 {
        if step > self.largest_step * (1.0 + 1e-14) {
            return f64::INFINITY;
        }
        let decayed = -(horizon as f64 * self.log_theta(step)).exp_m1(); // 1 − θ^T
        self.c() * step * (self.a * initial / decayed + self.b)
    }

    /// The paper's step for T steps: 1/√(aT) (prox) or √(2/(aT)) (projection), never above the largest legal one.
    ///
    /// With it 1/(1 − θ^T) ≤ 3/2 for every T ≥ 1, because (1 + 2/T)^T ≥ 3 (A23; the paper has 2, for T ≥ 2).
    pub fn paper_step(&self, horizon: u64) -> f64 {
        (1.0 / (self.c() * self.a * horizon as f64)).sqrt().min(self.largest_step)
    }

    /// The step of B7: min{largest, D/√(2cT(aD² + b))} balances D²/(2γT)-type and noise terms.
    pub fn balanced_step(&self, initial: f64, horizon: u64) -> f64 {
        let noise = 2.0 * self.c() * horizon as f64 * (self.a * initial + self.b);
        (initial / noise).sqrt().min(self.largest_step)
    }
}
