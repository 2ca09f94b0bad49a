//! What a certificate of a gap states, as a claim that the independent checker reads.

use certus::certificate::{Gap, Level};
use certus::{Factor, Gaussian};
use certus_likelihood::Response;
use certus_verify::{Claim, ClaimFamily, Theorem};

use crate::error::{Declined, Error, InvalidModel};
use crate::glm::Glm;
use crate::rows;

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

/// What `gap`, found by [`Glm::gap`] at `w`, claims. A gap may take its errors of means and sds from another theorem
/// than its bound; the claim states those that follow from the theorem of the bound.
pub fn claim(model: &Glm, w: &Gaussian, gap: &Gap) -> Result<Claim, Error> {
    let statement = &gap.statement;
    let bound = statement.bound().ok_or(Declined::NoBound)?;
    let proved = match statement.level() {
        Level::Proved => true,
        Level::Estimated => false,
        other => return Err(Declined::Level(other).into()),
    };
    let (mean_error, sd_error) = errors(theorem(statement.theorem())?, gap);
    let stated = Stated {
        theorem: statement.theorem(),
        all: !matches!(w.factor(), Factor::Pattern(_)),
        proved,
        bound,
        errors: [mean_error, sd_error],
        constants: ["radius", "omega", "theta"].map(|name| statement.constant(name)),
    };
    stated_claim(model, w, &stated)
}

/// What somebody states of a gap at `w`, whether it is true or not: [`certus_verify::verify`] finds out.
pub fn stated_claim(model: &Glm, w: &Gaussian, stated: &Stated<'_>) -> Result<Claim, Error> {
    let theorem = theorem(stated.theorem)?;
    let likelihood = model.likelihood();
    if likelihood.name().parse::<Response>().is_err() {
        return Err(Declined::Likelihood { name: likelihood.name() }.into());
    }
    let d = model.dim();
    same_length(d, w.dim())?;
    let family = match (w.factor(), stated.all) {
        (_, true) => ClaimFamily::All,
        (Factor::Pattern(pattern), false) => ClaimFamily::Pattern {
            sizes: pattern.tree().nodes().iter().map(|n| n.size).collect(),
            parents: pattern.tree().nodes().iter().map(|n| n.parent).collect(),
        },
        _ => {
            let required = "a factor on a pattern, unless the claim is about all Gaussians";
            return Err(InvalidModel::Factor { required }.into());
        }
    };
    let columns = w.factor().to_dense();
    let ([mean_error, sd_error], [radius, omega, theta]) = (stated.errors, stated.constants);
    let mut claim = Claim {
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

fn same_length(expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(InvalidModel::Coefficients { what: "the Gaussian", expected, found }.into())
}

/// |dm| and |dC| of the optimum by the theorem of the bound: ρ/√λ_m and ρ/√λ_C, or ρ* and ρ*/√ω; an sd error from 1 on
/// says nothing.
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

/// The theorem that certificates call so.
fn theorem(label: &str) -> Result<Theorem, Error> {
    // the theorem is the same, whatever arithmetic it was applied in
    let label = label.strip_suffix(crate::proof::ROUNDING).unwrap_or(label);
    Theorem::of_label(label).map_err(|e| Declined::from(e).into())
}
