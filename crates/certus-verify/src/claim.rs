//! A certificate of a gap with everything it speaks of: the model, the data, the Gaussian and what is claimed.

use certus_likelihood::prior::Precision;

use crate::error::Error;

/// The Gaussians the optimum is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimFamily {
    /// All of them.
    All,
    /// Those whose factor has an ancestor pattern: blocks of these sizes, root first, each with the index of its
    /// parent.
    Pattern {
        /// Coordinates per block.
        sizes: Vec<usize>,
        /// Parents, before their children.
        parents: Vec<Option<usize>>,
    },
}

/// The theorems of docs/maths.md a claim can rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theorem {
    /// Theorem D.
    D,
    /// Theorem A′.
    APrime,
    /// D1 in matrix form.
    D1,
    /// The two-sided bracket, which cannot be verified from one Gaussian.
    Bracket,
}

impl Theorem {
    /// In certificates and in files.
    pub(crate) const NAMES: [(Self, &'static str, &'static str); 4] = [
        (Self::D, "Theorem D", "D"),
        (Self::APrime, "Theorem A'", "A'"),
        (Self::D1, "D1 in matrix form", "D1"),
        (Self::Bracket, "two-sided bracket", "bracket"),
    ];

    /// The theorem that certificates call so.
    pub fn of_label(label: &str) -> Result<Self, Error> {
        let found = Self::NAMES.iter().find(|n| n.1 == label).map(|n| n.0);
        found.ok_or_else(|| Error::Declined(format!("claims from {label} cannot be written")))
    }
}

/// "For this model and these data, f of this Gaussian is within `bound` of the least over its family."
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The name of the likelihood.
    pub likelihood: String,
    /// σ (linear) or the dispersion (negative binomial), else `None`.
    pub parameter: Option<f64>,
    /// μ₀.
    pub prior_mean: Vec<f64>,
    /// J.
    pub prior_precision: Precision,
    /// The design matrix as used, row by row.
    pub design: Vec<f64>,
    /// Responses.
    pub y: Vec<f64>,
    /// Trials, 1 where there are none.
    pub trials: Vec<f64>,
    /// Offsets.
    pub offset: Vec<f64>,
    /// Weights.
    pub weight: Vec<f64>,
    /// m.
    pub mean: Vec<f64>,
    /// C, row by row.
    pub factor: Vec<f64>,
    /// What the optimum is over.
    pub family: ClaimFamily,
    /// What the bound rests on.
    pub theorem: Theorem,
    /// True if it is said to be proved, false if estimated.
    pub proved: bool,
    /// f(w) − f* is at most this.
    pub bound: f64,
    /// Every mean of the optimum lies within this many of q's sds.
    pub mean_error: Option<f64>,
    /// Every sd of the optimum lies within this fraction of q's.
    pub sd_error: Option<f64>,
    /// r of Theorem D.
    pub radius: Option<f64>,
    /// ω of Theorems D and A′.
    pub omega: Option<f64>,
    /// θ of Theorems D and A′; 0.71 if absent.
    pub theta: Option<f64>,
}

impl Claim {
    /// d.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Checks that the lengths of all parts fit together.
    pub(crate) fn check_shape(&self) -> Result<(), Error> {
        let (d, n) = (self.dim(), self.y.len());
        let precision = match &self.prior_precision {
            Precision::Diagonal(j) => (j.len(), d),
            Precision::Dense(j) => (j.len(), d * d),
        };
        let parts = [
            ("the prior mean", self.prior_mean.len(), d),
            ("the prior precision", precision.0, precision.1),
            ("the factor", self.factor.len(), d * d),
            ("the design", self.design.len(), n * d),
            ("trials", self.trials.len(), n),
            ("offset", self.offset.len(), n),
            ("weight", self.weight.len(), n),
        ];
        match parts.iter().find(|(_, found, needed)| found != needed) {
            Some((name, found, needed)) => {
                Err(Error::Malformed(format!("{name} has {found} numbers instead of {needed}")))
            }
            None if d == 0 => Err(Error::Malformed("there is no coefficient".into())),
            None => Ok(()),
        }
    }
}
