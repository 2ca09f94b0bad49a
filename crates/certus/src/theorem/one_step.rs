//! The proved one-step inequalities: from a bound on E = E|w_t − w*|² and the step γ to a bound after the step.

/// One inequality. All are of the form E⁺ ≤ (something) E + (noise) γ², each valid for the steps it names.
#[derive(Clone, Debug, PartialEq)]
pub enum OneStep {
    /// E⁺ ≤ (1 − 2μγ + βγ²) E + νγ², every γ > 0.
    ///
    /// Prox with E|g|² ≤ aE + b: β = 2a, ν = 2(b + |∇l(w*)|²), from |g − ∇l(w*)|² ≤ 2|g|² + 2|∇l(w*)|².
    /// Projection: β = a, ν = b, from ⟨∇f(w), w − w*⟩ ≥ μ|w − w*|² (A24).
    SecondMoment {
        /// μ.
        mu: f64,
        /// β.
        beta: f64,
        /// ν.
        nu: f64,
    },
    /// E⁺ ≤ E − 2γI + γ²[λ(η) I + q(1+η) E + (1 + 1/η) ν] with I ≥ μE, every η > 0 with γλ(η) ≤ 2, where
    /// λ(η) = M(j − (1+η)t)₊ + (1+η)ℓ (B5, B6 and the control variate; η is free at every step).
    Variance {
        /// μ.
        mu: f64,
        /// M.
        smoothness: f64,
        /// j.
        j: f64,
        /// t.
        t: f64,
        /// ℓ.
        l: f64,
        /// q.
        q: f64,
        /// ν, the noise at the optimum over B.
        nu: f64,
    },
    /// E⁺ ≤ (1 − γμ)² E + γ² (V(E)/B + R) for γ ≤ 2/(μ + L), V(E) = (d+3)X + 2τ√X, X = (L√E + β)² + A (Theorem G).
    Ball {
        /// μ_r.
        mu: f64,
        /// L.
        smoothness: f64,
        /// d.
        dim: f64,
        /// β = |∇f(w*)| over all matrices: 0 unless the pattern does not contain the dense optimum.
        bias: f64,
        /// A, the averaged spread of the curvature.
        spread: f64,
        /// τ.
        tilt: f64,
        /// B.
        batch: f64,
        /// R, what one batch of rows for all draws of a step adds (part F); 0 where all rows are used.
        rows: f64,
    },
}

/// Bounds are rounded outward by this much per step: the handful of operations of one step err by less.
const OUTWARD: f64 = 1.0 + 16.0 * f64::EPSILON;

impl OneStep {
    /// The bound after a step of size `gamma` from a bound `e`; infinite where the inequality says nothing.
    pub fn next(&self, e: f64, gamma: f64) -> f64 {
        let after = match *self {
            OneStep::SecondMoment { mu, beta, nu } => {
                (1.0 - 2.0 * mu * gamma + beta * gamma * gamma).max(0.0) * e + nu * gamma * gamma
            }
            OneStep::Variance { mu, nu, .. } => {
                let mut best = f64::INFINITY;
                for eta in self.etas(e).into_iter().chain(self.largest_eta(gamma)) {
                    let (lambda, quadratic) = self.at(eta);
                    if eta >= 0.0 && gamma * lambda <= 2.0 {
                        // the difference may cancel, so it is rounded outward by itself
                        let shrink =
                            (1.0 - (2.0 - gamma * lambda) * gamma * mu).max(0.0) + 4.0 * f64::EPSILON;
                        best = best.min(
                            (shrink + gamma * gamma * quadratic) * e + gamma * gamma * inflated(nu, eta),
                        );
                    }
                }
                best
            }
            OneStep::Ball { mu, smoothness, .. } => {
                if gamma * (mu + smoothness) <= 2.0 * (1.0 + 1e-14) {
                    (1.0 - gamma * mu).powi(2) * e + gamma * gamma * self.noise(e)
                } else {
                    f64::INFINITY
                }
            }
        };
        after * OUTWARD
    }

    /// The step that makes [`Self::next`] smallest.
    pub fn best_step(&self, e: f64) -> f64 {
        match *self {
            OneStep::SecondMoment { mu, beta, nu } => mu * e / (beta * e + nu),
            OneStep::Variance { mu, nu, .. } => self
                .etas(e)
                .into_iter()
                .map(|eta| {
                    let (lambda, quadratic) = self.at(eta);
                    mu * e / ((mu * lambda + quadratic) * e + inflated(nu, eta))
                })
                .fold(0.0, f64::max),
            OneStep::Ball { mu, smoothness, .. } => {
                let best = mu * e / (mu * mu * e + self.noise(e));
                best.min(2.0 / (mu + smoothness))
            }
        }
    }

    /// The noise of a ball step over γ², V(E)/B + R; NaN for the other inequalities.
    pub(super) fn noise(&self, e: f64) -> f64 {
        let OneStep::Ball { batch, rows, .. } = *self else { return f64::NAN };
        self.ball_variance(e) / batch + rows
    }

    fn ball_variance(&self, e: f64) -> f64 {
        let OneStep::Ball { smoothness, dim, bias, spread, tilt, .. } = *self else { return f64::NAN };
        let x = (smoothness * e.sqrt() + bias).powi(2) + spread;
        (dim + 3.0) * x + 2.0 * tilt * x.sqrt()
    }

    /// (λ(η), q(1+η)).
    fn at(&self, eta: f64) -> (f64, f64) {
        let OneStep::Variance { smoothness, j, t, l, q, .. } = *self else { return (f64::NAN, f64::NAN) };
        (smoothness * (j - (1.0 + eta) * t).max(0.0) + (1.0 + eta) * l, q * (1.0 + eta))
    }

    /// λ(η) + q(1+η)/μ, the whole coefficient of I once E ≤ I/μ is used.
    pub(super) fn total_smoothness(&self, eta: f64) -> f64 {
        let OneStep::Variance { mu, .. } = *self else { return f64::NAN };
        let (lambda, quadratic) = self.at(eta);
        lambda + quadratic / mu
    }

    /// η balancing ηsE against ν/η, with the slope s of μλ(η) + q(1+η) where (·)₊ is and is not active; the kink
    /// between the two; and η = 1. The best η is one of the first three.
    fn etas(&self, e: f64) -> [f64; 4] {
        let OneStep::Variance { mu, smoothness, j, t, l, q, nu } = *self else { return [1.0; 4] };
        let balance = |slope: f64| {
            let eta = (nu / (slope * e)).sqrt();
            if eta.is_finite() { eta } else { 1.0 }
        };
        let kink = if t > 0.0 { (j / t - 1.0).max(0.0) } else { 1.0 };
        [balance(mu * (l - smoothness * t) + q), balance(mu * l + q), kink, 1.0]
    }

    /// The largest η that a step admits (γλ(η) ≤ 2), a little inside.
    fn largest_eta(&self, gamma: f64) -> Option<f64> {
        let OneStep::Variance { smoothness, j, t, l, .. } = *self else { return None };
        let room = 2.0 / gamma * (1.0 - 1e-12);
        let active = (room - smoothness * j) / (l - smoothness * t) - 1.0;
        let inactive = room / l - 1.0;
        let eta = if active.is_finite() { active.min(inactive) } else { inactive };
        (eta.is_finite() && eta > 0.0).then_some(eta)
    }
}

/// (1 + 1/η) ν, which is 0 for ν = 0 whatever η.
fn inflated(nu: f64, eta: f64) -> f64 {
    if nu == 0.0 { 0.0 } else { (1.0 + 1.0 / eta) * nu } // infinite for η = 0: then another η is better
}

/// The anytime theorem (A18): E⁺ ≤ (1 − γμ)E + 2σ²γ² for γ ≤ 1/(2L), with γ_t = min{1/(2L), (2t+1)/(μ(t+1)²)}.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anytime {
    /// μ of the inequality.
    pub mu: f64,
    /// L.
    pub l: f64,
    /// σ².
    pub sigma_squared: f64,
}

impl Anytime {
    fn k(&self) -> f64 {
        self.l / self.mu
    }

    /// t_c = ⌈2K − 1 + √(2K(2K − 1))⌉ (0 if K ≤ 1/2): from here on the decaying branch is below 1/(2L).
    pub fn switch(&self) -> f64 {
        let k = self.k();
        if k <= 0.5 { 0.0 } else { (2.0 * k - 1.0 + (2.0 * k * (2.0 * k - 1.0)).sqrt()).ceil() }
    }

    /// E_T ≤ min{t_c², (16/e²)K²} E_0/T² + 8σ²/(μ²T), every T ≥ 1.
    pub fn bound(&self, initial: f64, iterations: u64) -> f64 {
        let (k, t) = (self.k(), iterations as f64);
        if iterations == 0 {
            return initial;
        }
        let transient =
            if k > 0.5 { self.switch().powi(2).min(16.0 * (-2.0_f64).exp() * k * k) } else { 0.0 };
        transient * initial / (t * t) + 8.0 * self.sigma_squared / (self.mu * self.mu * t)
    }

    /// The smallest T with `bound(initial, T) ≤ epsilon`: the root of a quadratic, rounded up.
    pub fn iterations(&self, initial: f64, epsilon: f64) -> u64 {
        let one = self.bound(initial, 1);
        let noise = 8.0 * self.sigma_squared / (self.mu * self.mu);
        let transient = one - noise;
        let t = (noise + (noise * noise + 4.0 * epsilon * transient).sqrt()) / (2.0 * epsilon);
        if !t.is_finite() {
            return u64::MAX;
        }
        // as casts saturate, so an absurd count stays an absurd count; beyond 2⁵³ the next number is further away than
        // 1
        let mut t = (t.ceil() as u64).max(1);
        while self.bound(initial, t) > epsilon && t < u64::MAX {
            t = t.saturating_add((t >> 52).max(1));
        }
        t
    }
}
