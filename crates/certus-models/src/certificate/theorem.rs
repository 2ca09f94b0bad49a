//! Theorems A, A′ and D: from a gradient and lower bounds of the curvature around w to a bound on the gap
//! (docs/certificates.md, and docs/maths.md for the proofs).

use crate::error::Error;

/// θ of the split between mean and factor, the usual one first.
pub(crate) const THETAS: [f64; 4] = [0.71, 0.5, 0.35, 1.0];

/// Above this a radius of Theorem D may be improved by Theorem A′.
const LARGE: f64 = 1e-3;

/// f around w, in its own frame: ∇²f ≥ diag(mean, factor) on E_r, and ρ = |g| in the inverse of the matrices behind
/// them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalConvexity {
    pub(crate) rho: f64,
    pub(crate) mean: f64,
    pub(crate) factor: f64,
}

/// A Gaussian whose surroundings can be looked at.
pub(crate) trait Surroundings {
    /// Q⁻ of every row on E_r.
    fn lower(&self, radius: f64, omega: f64) -> Result<Vec<[f64; 3]>, Error>;
    /// The convexity they give, or `None` if it is not positive.
    fn convexity(
        &self,
        lower: &[[f64; 3]],
        radius: f64,
        omega: f64,
        theta: f64,
    ) -> Result<Option<LocalConvexity>, Error>;
    /// Both for several splits at once.
    fn convexities(
        &self,
        radius: f64,
        omega: f64,
        thetas: &[f64],
    ) -> Result<Vec<Option<LocalConvexity>>, Error> {
        let lower = self.lower(radius, omega)?;
        thetas.iter().map(|theta| self.convexity(&lower, radius, omega, *theta)).collect()
    }
    /// √(|g_m|² + |S|²/ω), errors included.
    fn slope(&self, omega: f64) -> f64;
    /// The weights ω of the factor in E_r worth trying, the usual one first.
    fn omegas(&self) -> &'static [f64];
    /// The splits θ worth trying.
    fn thetas(&self) -> &'static [f64];
    /// ρ and the strong convexity (mean, factor) that hold everywhere, or `None`.
    fn everywhere(&self) -> Result<Option<LocalConvexity>, Error>;
}

/// A bound on the gap, with where the optimum can be.
#[derive(Clone, Debug)]
pub(crate) struct GapBound {
    pub(crate) theorem: &'static str,
    pub(crate) gap: f64,
    /// |dm| and |dC| of the optimum in the frame of w.
    pub(crate) mean: f64,
    pub(crate) factor: f64,
    pub(crate) constants: Vec<(&'static str, f64)>,
}

/// What was found, and why the local theorems declined if they did.
pub(crate) struct Search {
    pub(crate) found: Vec<GapBound>,
    pub(crate) declined: Option<String>,
}

/// The bounds that can be the smallest. Where Theorem D holds in a small ball it beats the global bound, because it
/// knows more curvature, and Theorem A′, because its norms are sharper.
pub(crate) fn search(at: &impl Surroundings) -> Result<Search, Error> {
    let (local, declined) = theorem_d(at, at.omegas()[0])?;
    let small = local.as_ref().is_some_and(|f| f.gap <= LARGE);
    let mut found: Vec<GapBound> = local.into_iter().collect();
    if !small {
        for &omega in at.omegas() {
            found.extend(theorem_a_prime(at, omega)?);
        }
        let declined = declined.filter(|_| found.is_empty());
        found.extend(everywhere(at)?);
        return Ok(Search { found, declined });
    }
    Ok(Search { found, declined: None })
}

/// D1 in matrix form: what holds at any distance, f(w) − f* ≤ ρ²/2 with the curvature of the prior and of θ_min alone.
pub(crate) fn everywhere(at: &impl Surroundings) -> Result<Option<GapBound>, Error> {
    Ok(at.everywhere()?.map(|LocalConvexity { rho, mean, factor }| GapBound {
        theorem: "D1 in matrix form",
        gap: 0.5 * rho * rho,
        mean: rho / mean.sqrt(),
        factor: rho / factor.sqrt(),
        constants: vec![("strong convexity", mean.min(factor)), ("gradient", rho)],
    }))
}

/// Theorem D: if ρ ≤ r √min(λ_m, λ_C/ω) then f(w) − f* ≤ ρ²/2, |dm| ≤ ρ/√λ_m, |dC| ≤ ρ/√λ_C. The bound is best at the
/// smallest r that satisfies this: r ← 1.01 ρ(r)/√min(λ_m, λ_C/ω), from above the gradient's own length.
fn theorem_d(at: &impl Surroundings, omega: f64) -> Result<(Option<GapBound>, Option<String>), Error> {
    let limit = omega.sqrt();
    let slope = at.slope(omega);
    // in a small ball the curvature hardly changes, so that it may as well be large enough at once
    let mut radius = (if slope < 2e-3 { 4.0 * slope } else { 1.5 * slope }).min(0.99 * limit);
    let mut best: Option<GapBound> = None;
    for _ in 0..40 {
        let mut next = f64::INFINITY;
        for (theta, convexity) in at.thetas().iter().zip(at.convexities(radius, omega, at.thetas())?) {
            let Some(convexity) = convexity else { continue };
            let needed = convexity.rho / convexity.mean.min(convexity.factor / omega).sqrt();
            next = next.min(1.01 * needed);
            let gap = 0.5 * convexity.rho * convexity.rho;
            if needed <= radius && best.as_ref().is_none_or(|b| gap < b.gap) {
                best = Some(GapBound {
                    theorem: "Theorem D",
                    gap,
                    mean: convexity.rho / convexity.mean.sqrt(),
                    factor: convexity.rho / convexity.factor.sqrt(),
                    constants: vec![
                        ("radius", radius),
                        ("omega", omega),
                        ("theta", *theta),
                        ("curvature in the mean", convexity.mean),
                        ("curvature in the factor", convexity.factor),
                        ("gradient", convexity.rho),
                    ],
                });
            }
        }
        if next.is_infinite() {
            let reason = format!("within radius {radius:.2e} of q no positive curvature could be proved");
            return Ok((best.clone(), best.is_none().then_some(reason)));
        }
        // a small ball has the same curvature everywhere, so that there is nothing to refine
        let settled = next <= radius && (radius < 0.02 || next > 0.97 * radius);
        if best.is_some() && settled {
            return Ok((best, None));
        }
        if next >= limit {
            break;
        }
        radius = next;
    }
    let reason = format!(
        "the gradient ({slope:.2e}) asks for a ball around q of radius above {limit:.2}, where nothing is known of the \
            curvature"
    );
    Ok((best.clone(), best.is_none().then_some(reason)))
}

/// Theorem A′: with ∇²f ≥ μ(s) diag(1, ω) on {|d| ≤ s} and G = |g|, ∫₀^ρ* μ = G gives |w* − w| ≤ ρ* and f(w) − f* ≤
/// ∫₀^ρ* (G − ∫₀ˢ μ) ds. μ is taken constant on steps, at its value at their right end.
fn theorem_a_prime(at: &impl Surroundings, omega: f64) -> Result<Option<GapBound>, Error> {
    const STEPS: f64 = 10.0;
    // where the curvature falls so fast that a hundred times as many are needed, nothing useful comes of it
    const MOST_STEPS: usize = 1000;
    let theta = THETAS[0];
    let curvature = |radius: f64| -> Result<f64, Error> {
        let convexity = at.convexities(radius, omega, &[theta])?;
        Ok(convexity[0].map_or(0.0, |b| b.mean.min(b.factor / omega)))
    };
    let (slope, start) = (at.slope(omega), curvature(0.0)?);
    let step = slope / start / STEPS;
    if !(start > 0.0 && step > 0.0) {
        return Ok(None);
    }
    let (mut radius, mut climbed, mut gap) = (0.0, 0.0, 0.0);
    for _ in 0..MOST_STEPS {
        if radius + step >= omega.sqrt() {
            break;
        }
        let mu = curvature(radius + step)?;
        if mu <= 0.0 {
            return Ok(None);
        }
        let left = slope - climbed;
        if mu * step >= left {
            let last = left / mu;
            gap += left * last - 0.5 * mu * last * last;
            radius += last;
            let constants =
                vec![("radius", radius), ("omega", omega), ("curvature at w", start), ("gradient", slope)];
            // a few roundings per step
            return Ok(Some(GapBound {
                theorem: "Theorem A'",
                gap: gap * (1.0 + 1e-12),
                mean: radius * (1.0 + 1e-12),
                factor: radius * (1.0 + 1e-12) / omega.sqrt(),
                constants,
            }));
        }
        gap += left * step - 0.5 * mu * step * step;
        climbed += mu * step;
        radius += step;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function whose curvature at distance s from w is e^{−s}, along the mean or along the factor, and whose slope
    /// at w is G: its minimum lies at s* = −log(1 − G) and is (G − 1)s* + G below f(w). In every other direction the
    /// slope is 0 and the curvature 9.
    struct Slide {
        slope: f64,
        along_factor: bool,
        least: Option<f64>,
    }

    impl Slide {
        fn minimum(&self) -> (f64, f64) {
            let at = -(-self.slope).ln_1p();
            (at, (self.slope - 1.0) * at + self.slope)
        }
    }

    impl Surroundings for Slide {
        fn lower(&self, _: f64, _: f64) -> Result<Vec<[f64; 3]>, Error> {
            Ok(Vec::new())
        }
        fn convexity(
            &self,
            _: &[[f64; 3]],
            radius: f64,
            omega: f64,
            _: f64,
        ) -> Result<Option<LocalConvexity>, Error> {
            // |dC| ≤ r/√ω on E_r
            let farthest = if self.along_factor { radius / omega.sqrt() } else { radius };
            let k = (-farthest).exp();
            let (mean, factor) = if self.along_factor { (9.0, k) } else { (k, 9.0) };
            Ok(Some(LocalConvexity { rho: self.slope / k.sqrt(), mean, factor }))
        }
        fn slope(&self, omega: f64) -> f64 {
            self.slope / if self.along_factor { omega.sqrt() } else { 1.0 }
        }
        fn omegas(&self) -> &'static [f64] {
            &[2.0, 1.0]
        }
        fn thetas(&self) -> &'static [f64] {
            &THETAS[..1]
        }
        fn everywhere(&self) -> Result<Option<LocalConvexity>, Error> {
            let convexity = |k: f64| LocalConvexity { rho: self.slope / k.sqrt(), mean: k, factor: 0.25 * k };
            Ok(self.least.map(convexity))
        }
    }

    /// Every bound covers the exact gap and the way to the minimum, is not far above, and Theorem D's ball holds what
    /// it promises.
    #[test]
    fn bounds_cover_a_minimum_that_is_known() {
        for along_factor in [false, true] {
            for slope in [1e-4, 0.01, 0.1, 0.3, 0.5] {
                let at = Slide { slope, along_factor, least: None };
                let (distance, gap) = at.minimum();
                let search = search(&at).expect("finite");
                let local = search.found.iter().find(|f| f.theorem == "Theorem D");
                // G e^s ≤ s/√ω has a solution in the ball, or none
                assert_eq!(local.is_some(), slope < 0.35, "{slope}");
                assert!(!search.found.is_empty());
                for found in &search.found {
                    let moved = if along_factor { found.factor } else { found.mean };
                    assert!(found.gap >= gap && moved >= distance, "{slope}: {found:?} {gap} {distance}");
                    let loose = if found.theorem == "Theorem A'" { 1.2 } else { 2.0 };
                    assert!(found.gap < loose * gap, "{slope}: {found:?} {gap}");
                    let constant =
                        |name: &str| found.constants.iter().find(|c| c.0 == name).expect("stated").1;
                    if found.theorem == "Theorem D" {
                        let (radius, omega) = (constant("radius"), constant("omega"));
                        let ball = (constant("curvature in the mean"), constant("curvature in the factor"));
                        let needed = constant("gradient") / ball.0.min(ball.1 / omega).sqrt();
                        assert!(needed <= radius && radius < omega.sqrt(), "{slope}: {found:?}");
                        let within = if along_factor { omega.sqrt() * found.factor } else { found.mean };
                        assert!(within <= radius, "the optimum's ball must lie inside: {found:?}");
                    }
                }
            }
            // the minimum lies outside of every ball that is known
            let far = Slide { slope: 0.95, along_factor, least: None };
            let none = search(&far).expect("finite");
            assert!(none.found.is_empty() && none.declined.is_some());
            // the global bound: ρ²/2, ρ/√λ
            let everywhere = Slide { least: Some(0.04), ..far };
            let found = search(&everywhere).expect("finite").found;
            assert_eq!(found.len(), 1);
            let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
            assert!(close(found[0].gap, 0.5 * 0.95 * 0.95 / 0.04));
            assert!(close(found[0].mean, 0.95 / 0.04) && close(found[0].factor, 2.0 * 0.95 / 0.04));
        }
    }
}
