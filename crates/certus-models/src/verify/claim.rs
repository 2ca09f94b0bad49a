//! A certificate of a gap with everything it speaks of: the model, the data, the Gaussian and what is claimed.

use certus::certificate::{Gap, Level};
use certus::{Factor, Gaussian};

use crate::error::Error;
use crate::glm::Glm;
use crate::prior::Precision;
use crate::rows;

/// The Gaussians the optimum is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Family {
    /// All of them.
    All,
    /// Those whose factor has an ancestor pattern: blocks of these sizes, root first, each with the index of its parent.
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
    pub(super) const NAMES: [(Self, &'static str, &'static str); 4] = [
        (Self::D, "Theorem D", "D"),
        (Self::APrime, "Theorem A'", "A'"),
        (Self::D1, "D1 in matrix form", "D1"),
        (Self::Bracket, "two-sided bracket", "bracket"),
    ];

    /// The theorem that certificates call so.
    fn of_label(label: &str) -> Result<Self, Error> {
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
    pub family: Family,
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

/// What a certificate says of a gap, word for word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stated<'a> {
    /// The label of the theorem.
    pub theorem: &'a str,
    /// True if the optimum is over all Gaussians, false if it is over the pattern of the factor.
    pub all: bool,
    /// True if it is said to be proved, false if estimated.
    pub proved: bool,
    /// The bound, in nats.
    pub bound: f64,
    /// Errors of means and sds that follow from the same theorem.
    pub errors: [Option<f64>; 2],
    /// r, ω and θ.
    pub constants: [Option<f64>; 3],
}

impl Claim {
    /// What `gap`, found by [`Glm::gap`] at `w`, claims. A gap may take its errors of means and sds from another theorem than its bound;
    /// the claim states those that follow from the theorem of the bound.
    pub fn new(model: &Glm, w: &Gaussian, gap: &Gap) -> Result<Self, Error> {
        let statement = &gap.statement;
        let bound = statement.bound().ok_or_else(|| {
            Error::Declined("there is no bound on the gap, so nothing is claimed".to_string())
        })?;
        let proved = match statement.level() {
            Level::Proved => true,
            Level::Estimated => false,
            other => return Err(Error::Declined(format!("a claim is proved or estimated, not {other}"))),
        };
        let (mean_error, sd_error) = errors(Theorem::of_label(statement.theorem())?, gap);
        let stated = Stated {
            theorem: statement.theorem(),
            all: !matches!(w.factor(), Factor::Pattern(_)),
            proved,
            bound,
            errors: [mean_error, sd_error],
            constants: ["radius", "omega", "theta"].map(|name| statement.constant(name)),
        };
        Self::stated(model, w, &stated)
    }

    /// What somebody states of a gap at `w`, whether it is true or not: [`verify`](super::verify) finds out.
    pub fn stated(model: &Glm, w: &Gaussian, stated: &Stated<'_>) -> Result<Self, Error> {
        let theorem = Theorem::of_label(stated.theorem)?;
        let likelihood = model.likelihood();
        let known = super::likelihood(likelihood.name(), likelihood.parameter().map(|p| p.1));
        known.map_err(|_| {
            Error::Declined(format!("{} is not a likelihood that a checker knows", likelihood.name()))
        })?;
        let d = model.dim();
        same_length(d, w.dim())?;
        let family = match (w.factor(), stated.all) {
            (_, true) => Family::All,
            (Factor::Pattern(pattern), false) => Family::Pattern {
                sizes: pattern.tree().nodes().iter().map(|n| n.size).collect(),
                parents: pattern.tree().nodes().iter().map(|n| n.parent).collect(),
            },
            _ => return Err(Error::Model("the factor is dense, so the family is all Gaussians".into())),
        };
        let columns = w.factor().to_dense();
        let ([mean_error, sd_error], [radius, omega, theta]) = (stated.errors, stated.constants);
        let mut claim = Self {
            likelihood: likelihood.name().to_string(),
            parameter: likelihood.parameter().map(|p| p.1),
            prior_mean: model.prior().mean().to_vec(),
            prior_precision: model.prior().precision().clone(),
            design: Vec::new(),
            y: Vec::new(),
            trials: Vec::new(),
            offset: Vec::new(),
            weight: Vec::new(),
            mean: w.mean().to_vec(),
            factor: (0..d * d).map(|k| columns[(k % d) * d + k / d]).collect(),
            family,
            theorem,
            proved: stated.proved,
            bound: stated.bound,
            mean_error,
            sd_error,
            radius,
            omega,
            theta,
        };
        let design = model.design();
        for index in 0..rows::leaves(design.rows()) {
            design.rows().leaf(index, &mut |leaf| {
                for i in 0..leaf.y.len() {
                    claim.design.extend((0..d).map(|j| design.value(&leaf, i, j)));
                    claim.y.push(leaf.datum(i).y);
                    claim.trials.push(leaf.datum(i).trials);
                    claim.offset.push(leaf.offset_of(i));
                    claim.weight.push(leaf.weight_of(i));
                }
            })?;
        }
        Ok(claim)
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Checks that the lengths of all parts fit together.
    pub(super) fn check_shape(&self) -> Result<(), Error> {
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
                Err(Error::Data(format!("{name} has {found} numbers instead of {needed}")))
            }
            None if d == 0 => Err(Error::Data("there is no coefficient".into())),
            None => Ok(()),
        }
    }
}

fn same_length(expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Model(format!("the model has {expected} coefficients, but the Gaussian has {found}")))
}

/// |dm| and |dC| of the optimum by the theorem of the bound: ρ/√λ_m and ρ/√λ_C, or ρ* and ρ*/√ω; an sd error from 1 on says nothing.
fn errors(theorem: Theorem, gap: &Gap) -> (Option<f64>, Option<f64>) {
    let constant = |name: &str| gap.statement.constant(name);
    let over = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a / b.sqrt());
    let (mean, sd) = match theorem {
        Theorem::D => (
            over(constant("gradient"), constant("curvature in the mean")),
            over(constant("gradient"), constant("curvature in the factor")),
        ),
        Theorem::APrime => (constant("radius"), over(constant("radius"), constant("omega"))),
        Theorem::D1 => {
            let both = over(constant("gradient"), constant("strong convexity"));
            (both, both)
        }
        Theorem::Bracket => (None, None),
    };
    (mean.filter(|x| x.is_finite()), sd.filter(|x| *x < 1.0))
}
