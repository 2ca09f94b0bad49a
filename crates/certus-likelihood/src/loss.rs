//! φ(t) = −log p(y | t) and its first two derivatives.

/// One observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Datum {
    /// The response.
    pub y: f64,
    /// Trials of a binomial response, else 1.
    pub trials: f64,
}

/// E φ, E φ′ and E φ″(1, x, x²) for t = mean + sd·x, x ~ N(0, 1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// E φ.
    pub e0: f64,
    /// E φ′.
    pub e1: f64,
    /// E φ″.
    pub q0: f64,
    /// E φ″ x.
    pub q1: f64,
    /// E φ″ x².
    pub q2: f64,
}

/// In a private module, so that no other crate can name it, and hence override the method that takes it.
pub(crate) mod sealed {
    /// See [`Loss::is_ours`](super::Loss::is_ours).
    #[derive(Clone, Copy, Debug)]
    pub struct Seal;
}

/// A convex scalar loss.
///
/// That it is one of ours cannot be claimed from outside:
///
/// ```compile_fail
/// use certus_likelihood::loss::sealed::Seal;
/// ```
pub trait Loss: Send + Sync + std::fmt::Debug {
    /// The name used in messages and files.
    fn name(&self) -> &'static str;

    /// True for the likelihoods of this crate, whose claims are proved in docs/maths.md. Other crates cannot override
    /// it.
    #[doc(hidden)]
    fn is_ours(&self, _: sealed::Seal) -> bool {
        false
    }

    /// The name and value of its parameter, if it has one.
    fn parameter(&self) -> Option<(&'static str, f64)> {
        None
    }

    /// What is wrong with an observation, or `None`.
    fn reject(&self, datum: Datum) -> Option<String>;

    /// φ(t) with all constants.
    fn value(&self, t: f64, datum: Datum) -> f64;

    /// φ′(t).
    fn first_derivative(&self, t: f64, datum: Datum) -> f64;

    /// φ″(t) ≥ 0.
    fn second_derivative(&self, t: f64, datum: Datum) -> f64;

    /// True if φ is a parabola, so that the posterior under a Gaussian prior is Gaussian (math: D7).
    fn is_quadratic(&self) -> bool {
        false
    }

    /// Expectations in closed form, where there is one.
    fn exact_moments(&self, _mean: f64, _sd: f64, _datum: Datum) -> Option<Moments> {
        None
    }

    /// [`Slices::lines`](crate::Slices::lines) for rows of weight 1, where a faster way is known; false if nothing was
    /// done.
    fn unweighted_lines(
        &self,
        _t: &[f64],
        _s: &[f64],
        _data: &[Datum],
        _nodes: &[f64],
        _value: &mut [f64],
        _first: &mut [f64],
        _second: &mut [f64],
    ) -> bool {
        false
    }

    /// [`Slices::line_values`](crate::Slices::line_values) for rows of weight 1, likewise.
    fn unweighted_line_values(
        &self,
        _t: &[f64],
        _s: &[f64],
        _data: &[Datum],
        _first: f64,
        _step: f64,
        _value: &mut [f64],
    ) -> bool {
        false
    }
}
