//! The values of settings that are words, each with a line of help: one list for the command line's help, Python and
//! every check.

use certus::MethodName;
use certus_likelihood::Response;

use crate::refusal::RequestError;

/// Values and what they mean.
pub type Choices = Vec<(&'static str, &'static str)>;

/// The models.
pub fn models() -> Choices {
    Response::ALL.iter().map(|response| (response.name(), response.about())).collect()
}

/// The methods; those from `subsampled` on are for researchers.
pub fn methods() -> Choices {
    let own = [
        ("auto", "Exact where that is affordable, otherwise stochastic"),
        ("exact", "Newton-CG on the exact ELBO"),
        ("stochastic", "Stochastic optimisation with draws, certified by exact passes"),
        ("subsampled", "Batches of rows and draws in a certified ball, then an exact pass that certifies"),
    ];
    own.into_iter().chain(MethodName::ALL.map(|method| (method.name(), method.about()))).collect()
}

/// The structures of the covariance factor.
pub fn factors() -> Choices {
    vec![
        ("auto", "Dense; with groups, the arrow, which contains the best of all Gaussians"),
        ("dense", "Every entry"),
        ("diagonal", "Independent coefficients (mean field)"),
        ("arrow", "Groups that are independent given the common coefficients"),
    ]
}

/// Where the printed numbers come from.
pub fn posteriors() -> Choices {
    vec![
        ("auto", "The first of the following, from corrected on, that is accurate enough"),
        ("gaussian", "The fitted Gaussian's own numbers"),
        ("corrected", "The Gaussian corrected by importance weights whose tail is proved: errors that hold"),
        ("exact", "Independent draws from the posterior (at most 12 coefficients)"),
        ("nuts", "NUTS, four chains started from the Gaussian: estimated errors"),
        ("importance", "Importance sampling with Pareto-smoothed weights: estimated errors, often too small"),
    ]
}

/// The constants of the paper's methods.
pub fn constants() -> Choices {
    vec![
        ("local", "Those of a certified ball where the method has one (ball-stl), otherwise sharp"),
        ("sharp", "Our constants, proved in docs/maths.md"),
        ("paper", "The constants of the paper, with its misprints corrected"),
    ]
}

/// The step sizes of the paper's methods.
pub fn steps() -> Choices {
    vec![
        ("greedy", "Step sizes that minimise the proved bound after every step"),
        ("paper", "Step sizes of the paper's theorem for the method, with the paper's constants"),
        ("horizon", "One constant step size, the best for --iterations"),
        ("decaying", "min{cap, (2t+1)/(mu (t+1)^2)}"),
    ]
}

/// What is proved of the estimate of a linear mixed model.
pub fn proofs() -> Choices {
    vec![
        ("local", "A maximum near the estimate, and no other around it"),
        (
            "global",
            "Also that no other variances have a higher likelihood: one or two terms of one effect each",
        ),
    ]
}

/// The level of certainty that is required for the goal to count as reached.
pub fn levels() -> Choices {
    vec![
        ("estimated", "An estimate without a guarantee"),
        ("probable", "With probability 1 - delta"),
        ("proved", "By a theorem"),
    ]
}

/// What to do with missing values.
pub fn missing() -> Choices {
    vec![
        ("error", "Refuse the data and report the number and places of missing values"),
        ("drop", "Drop rows with missing values and report their number"),
    ]
}

/// Priors of variance parameters that are not given.
pub fn sd_priors() -> Choices {
    vec![
        ("half-normal", "Normal, truncated to positive values"),
        ("half-t", "Student's t with 3 degrees of freedom, truncated to positive values"),
        ("exponential", "Exponential; its scale is its mean"),
        ("flat", "Flat"),
    ]
}

/// What is computed for variance parameters that are not given.
pub fn scales() -> Choices {
    vec![
        ("posterior", "Their posterior"),
        ("estimate", "The maximum of the (penalised) likelihood"),
        (
            "laplace",
            "The same by the Laplace approximation alone, as in lme4: several group effects, not linear",
        ),
    ]
}

/// An error that names the setting, its value and the values it may have, unless it is one of them.
pub(crate) fn check(setting: &str, word: Option<&str>, choices: &Choices) -> Result<(), RequestError> {
    match word {
        Some(word) if choices.iter().all(|(known, _)| *known != word) => {
            Err(RequestError::word(setting, word, choices.iter().map(|(known, _)| *known)))
        }
        _ => Ok(()),
    }
}

/// The values for clap.
#[cfg(feature = "clap")]
pub(crate) fn parser(choices: Choices) -> clap::builder::PossibleValuesParser {
    let each = choices.into_iter().map(|(word, help)| clap::builder::PossibleValue::new(word).help(help));
    clap::builder::PossibleValuesParser::new(each.collect::<Vec<_>>())
}
