//! What went wrong with a model that could be used: no posterior, overflow, certificates that cannot be had.

use certus::certificate::Level;

/// Why there is no posterior, or a coefficient is not identified, and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unidentified {
    /// Responses that a direction separates.
    #[error(
        "the responses are separated: along a direction of the coefficients −log p falls for ever, so with a flat \
         prior there is no posterior; give every coefficient a proper prior"
    )]
    Separated,
    /// A Hessian that is singular.
    #[error(
        "{what} is singular: the data do not identify a coefficient with a flat prior (constant, duplicate or \
         collinear columns); give every coefficient a proper prior"
    )]
    Singular {
        /// Of which function.
        what: &'static str,
    },
    /// A likelihood, with random effects integrated out, that has no maximum or a flat one.
    #[error(
        "the likelihood has no maximum, or is flat there: a direction of the coefficients separates the responses, or \
         columns are collinear; leave the direction out of the model, or fit the posterior, whose priors are proper, \
         without ml and scales"
    )]
    NoMaximum,
    /// A linear predictor so wide that neither data nor prior determine it.
    #[error(
        "a linear predictor has the sd {sd:.1e}: neither the data nor the prior determine some coefficient; give it a \
         prior sd that you believe"
    )]
    WidePredictor {
        /// The standard deviation.
        sd: f64,
    },
}

/// A number that came out infinite or not a number, or a matrix that came out indefinite.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFinite {
    /// One of many numbers.
    #[error("{what} is not finite")]
    Quantity {
        /// Which.
        what: &'static str,
    },
    /// One number, and where.
    #[error("{what} is {value} at {place}")]
    Value {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
        /// Where.
        place: String,
    },
    /// A matrix that must be positive definite.
    #[error("{what} is not positive definite")]
    Indefinite {
        /// Which.
        what: &'static str,
    },
    /// A curvature that overflows.
    #[error(
        "the curvature along coefficient {coefficient} (counted from 0) is {value}: the numbers of its column are too \
         large; standardise or rescale them"
    )]
    Curvature {
        /// Along which coefficient.
        coefficient: usize,
        /// Its value.
        value: f64,
    },
    /// A search for the mode that leaves the finite numbers.
    #[error("the search for the mode diverges: coordinate {coordinate} (counted from 0) is {value}")]
    Diverged {
        /// The coordinate.
        coordinate: usize,
        /// Its value.
        value: f64,
    },
    /// A linear predictor that is too wide under q.
    #[error("q gives a linear predictor the sd {sd:.0}, and expectations are computed up to {most}")]
    WidePredictor {
        /// Its standard deviation.
        sd: f64,
        /// The largest one allowed.
        most: f64,
    },
    /// A standard deviation of the noise that the data do not determine.
    #[error(
        "the noise sd is {sd:.1e}: the responses are fitted without error, or there are too few rows for the columns; \
         leave out columns, or give sigma"
    )]
    NoiseSd {
        /// Where the search arrived.
        sd: f64,
    },
    /// A standard deviation of groups of 0 or infinity, or coefficients that are not finite.
    #[error("the group sd is {sd}, or a coefficient is not finite")]
    GroupSd {
        /// The standard deviation.
        sd: f64,
    },
    /// A covariance of group effects, or coefficients, that are not finite.
    #[error(
        "the parameters {parameters:?} of the covariance and the {coefficients} coefficients must be finite"
    )]
    Covariance {
        /// Parameters of the covariance.
        parameters: [f64; 3],
        /// Number of coefficients.
        coefficients: usize,
    },
    /// No iterate at which the ELBO could be computed.
    #[error("no Gaussian could be evaluated")]
    NoIterate,
}

/// A model for which a route would take more memory than it may.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TooLarge {
    /// A sparse joint precision.
    #[error(
        "the joint precision fills {stored} numbers along its elimination tree (the widest path has {widest}), which \
         needs about {} MB, but {} MB were given; crossed factors with many levels have no lossless sparse factor",
        .needed >> 20,
        .allowed >> 20
    )]
    Precision {
        /// The numbers it fills.
        stored: usize,
        /// The longest path of its elimination tree.
        widest: usize,
        /// Bytes that a fit needs.
        needed: usize,
        /// Bytes that were given.
        allowed: usize,
    },
    /// The smaller of two crossed factors.
    #[error(
        "the smaller factor has {levels} levels on {rows} rows; it is kept dense, with at most {most_levels} levels \
         and {most_numbers} numbers"
    )]
    SmallerFactor {
        /// Its levels.
        levels: usize,
        /// The rows.
        rows: usize,
        /// Levels, at most.
        most_levels: usize,
        /// Numbers of a dense design with these levels, at most.
        most_numbers: usize,
    },
}

/// Something that a theorem rules out was seen: a defect, of the library or of a user's likelihood.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violated {
    /// f below a proved lower bound of f.
    #[error(
        "f is {value} here, but the reference says it is at least {least}: they are not of the same model and data"
    )]
    Reference {
        /// f.
        value: f64,
        /// The bound.
        least: f64,
    },
    /// A posterior density above its envelope.
    #[error(
        "the envelope (D6) must lie above the posterior, but log A = {log_accept:e} > {allowance:e} at proposal \
         {proposal}, z = {z:?}: the log density or its curvature bound is wrong"
    )]
    Envelope {
        /// The log of the ratio that must not exceed 1.
        log_accept: f64,
        /// What rounding may add.
        allowance: f64,
        /// The proposal.
        proposal: usize,
        /// Where.
        z: Vec<f64>,
    },
}

/// A certificate, a run with one, or draws that cannot be had for this model: the number that decides, and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Declined {
    /// Too many coefficients for an envelope.
    #[error(
        "there are {coefficients} coefficients, but the acceptance of an envelope falls exponentially with their \
         number: at most {most}"
    )]
    Coefficients {
        /// Number of coefficients.
        coefficients: usize,
        /// At most.
        most: usize,
    },
    /// Too few proposals that an envelope would accept.
    #[error(
        "of {proposals} proposals a share of {share:.1e} would be accepted, but {least:e} is required: with \
         {coefficients} coefficients the envelope lies too far above the posterior"
    )]
    Acceptance {
        /// Proposals drawn.
        proposals: usize,
        /// The share accepted.
        share: f64,
        /// At least.
        least: f64,
        /// Number of coefficients.
        coefficients: usize,
    },
    /// Too few proposals to tell the acceptance from 0.
    #[error(
        "the mean acceptance {acceptance:.1e} cannot be distinguished from 0 by {proposals} proposals at confidence \
         1 − {delta:e}: give more"
    )]
    Proposals {
        /// The mean acceptance.
        acceptance: f64,
        /// Proposals drawn.
        proposals: usize,
        /// One less the confidence.
        delta: f64,
    },
    /// A mode at which the Hessian is singular.
    #[error("−log p is not strictly convex at its mode, so no envelope falls off")]
    FlatMode,
    /// An envelope that cannot be integrated.
    #[error(
        "the envelope does not fall off: at R = {radius:.1} the curvature is at least {curvature:.1e} and the slope at \
         least {slope:.1e} (gradient at the centre {gradient:.1e})"
    )]
    Envelope {
        /// The largest radius looked at.
        radius: f64,
        /// A lower bound on the curvature there.
        curvature: f64,
        /// A lower bound on the slope there.
        slope: f64,
        /// The gradient at the centre.
        gradient: f64,
    },
    /// A method that needs a proper prior of every coefficient.
    #[error(
        "−log p is not strongly convex everywhere (μ = 0: a prior is flat), and {method} needs that with these steps: \
         give every coefficient a prior sd, use the method auto, or take prox-energy, proj-entropy or proj-stl with \
         the steps of the paper, which then promise nothing"
    )]
    NotStronglyConvex {
        /// The method.
        method: &'static str,
    },
    /// A gap of which there is no proof for certus-check.
    #[error("no proof for certus-check: {0}")]
    Proof(String),
    /// A run on batches of rows that this model or these processes do not allow.
    #[error("{reason}; {remedy}")]
    RowBatches {
        /// Why.
        reason: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A promise of too many iterations, or no promise.
    #[error(
        "{} iterations of {rows} rows are proved to reach the gap of {gap} nats, but at most {most} are run without \
         being asked for: take more rows (row-batch), more draws (batch), a larger gap, or give the iterations",
        .promised.map_or("no number of".into(), |n| n.to_string())
    )]
    Iterations {
        /// The iterations that a theorem promises to be enough.
        promised: Option<u64>,
        /// Rows of a batch.
        rows: usize,
        /// The gap.
        gap: f64,
        /// Iterations, at most.
        most: u64,
    },
    /// A ball around q on which the ELBO may not be concave.
    #[error("within radius {radius:.2} of q no positive curvature could be proved")]
    BallCurvature {
        /// The radius.
        radius: f64,
    },
    /// A Gaussian too far from the optimum.
    #[error("the gradient ({slope:.2e}) is too long for a ball of radius below 1 to hold the optimum")]
    BallGradient {
        /// The norm of the gradient.
        slope: f64,
    },
    /// A factor that is not dense.
    #[error("the ball's constants are known for dense factors only")]
    BallFactor,
    /// A likelihood whose third derivative is not bounded.
    #[error("no bound of the third derivative is known for {likelihood}")]
    ThirdDerivative {
        /// Its name.
        likelihood: &'static str,
    },
    /// Numbers that came out infinite on the way.
    #[error(transparent)]
    NotFinite(#[from] NotFinite),
    /// A gap without a bound.
    #[error("there is no bound on the gap, so nothing is claimed")]
    NoBound,
    /// A gap at a level that claims do not have.
    #[error("a claim is proved or estimated, not {0}")]
    Level(Level),
    /// A point from which a sampler cannot set its scales.
    #[error(
        "the gradient of the log density, in the frame of q, has an entry 0 at {place}: the log density must have a \
         slope along every latent for NUTS to set its scales"
    )]
    NoSlope {
        /// Which.
        place: String,
    },
    /// A likelihood of a user.
    #[error("the checker does not know the likelihood {name}")]
    Likelihood {
        /// Its name.
        name: &'static str,
    },
    /// The independent checker declines it.
    #[error(transparent)]
    Checker(#[from] certus_verify::Error),
}
