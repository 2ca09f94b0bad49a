//! Requests that are refused, and data that a model cannot be fitted to.

use certus_data::{ErrorKind, nearest};

/// Why a fit or a prediction is refused. Settings stand between backticks where interfaces spell them differently.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A word that a setting does not have.
    #[error("`{setting}` is '{value}', but one of {known} is required")]
    Word {
        /// Which setting.
        setting: String,
        /// The word.
        value: String,
        /// The words that it has.
        known: String,
    },
    /// A number out of its range.
    #[error("{setting} is {value}, but {required} is required")]
    Number {
        /// Which setting.
        setting: String,
        /// What it is.
        value: f64,
        /// What it must be.
        required: &'static str,
    },
    /// A duration that cannot be read.
    #[error("`{setting}` is '{value}', which is not a duration: write 90s, 5m or 2h, or seconds")]
    Duration {
        /// Which setting.
        setting: String,
        /// What it is.
        value: String,
    },
    /// A setting without which there is no request.
    #[error("{question}")]
    Unset {
        /// What must be answered.
        question: String,
    },
    /// A formula, and a setting that it replaces.
    #[error("both a formula and `{setting}` are given: {instead}")]
    FormulaAnd {
        /// Which setting.
        setting: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// A setting that has no effect here.
    #[error("{setting} applies only to {owner}: leave it out")]
    NoEffect {
        /// Which setting.
        setting: String,
        /// Where it has one.
        owner: String,
    },
    /// A setting that the method does not leave open.
    #[error("{setting}: {method} always uses {value} ones; leave {setting} out")]
    Fixed {
        /// Which setting.
        setting: &'static str,
        /// The method.
        method: &'static str,
        /// What it always is.
        value: &'static str,
    },
    /// The paper's steps or constants for a method that is not in the paper.
    #[error(
        "{setting} paper: the method {method} is not in the paper, which has no {setting} for it; use {instead}"
    )]
    NotInPaper {
        /// `steps` or `constants`.
        setting: &'static str,
        /// The method.
        method: String,
        /// What it has.
        instead: &'static str,
    },
    /// The paper's steps with other constants.
    #[error(
        "steps paper are computed from the paper's constants, but constants are '{constants}': leave constants out, \
            or use steps decaying"
    )]
    PaperSteps {
        /// Which constants.
        constants: String,
    },
    /// A shape of the factor that the model or the method does not have.
    #[error("`factor` {factor} {reason}")]
    Factor {
        /// The shape.
        factor: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// Two settings of the prior of sds that exclude each other.
    #[error("{setting} {value} {reason}: leave {other} out")]
    Excluded {
        /// A setting.
        setting: &'static str,
        /// What it is.
        value: &'static str,
        /// Why the other has no effect.
        reason: &'static str,
        /// The other setting.
        other: &'static str,
    },
    /// A setting for gaps where there is none.
    #[error(
        "`{setting}` applies only to a fit by a single Gaussian, but {unknown} not given, so that the result is a \
            mixture: leave `{setting}` out, or give a number instead (`group-sd`, `sigma`, `dispersion`)"
    )]
    NoGap {
        /// Which setting.
        setting: &'static str,
        /// "sd(clinic) is".
        unknown: String,
    },
    /// Estimates of several sds with priors of the coefficients.
    #[error(
        "{effects} sds of random effects are not given, and their estimate has flat priors of the coefficients: leave \
            out `prior-sd` and the other priors, or `scales` estimate"
    )]
    PenalisedSds {
        /// Effects of all terms.
        effects: usize,
    },
    /// A setting of unknown scales where all are given.
    #[error(
        "{setting} is given, but no group sd, noise or dispersion is unknown: leave it out, or leave out group-sd, \
            sigma or dispersion"
    )]
    NoUnknownScale {
        /// Which setting.
        setting: &'static str,
    },
    /// A parameter of the likelihood that must be given.
    #[error("{parameter} is not given{}", needed(parameter, *by))]
    NotGiven {
        /// The parameter.
        parameter: &'static str,
        /// What needs it.
        by: NeededBy,
    },
    /// A parameter that is not given beside a group sd that is.
    #[error(
        "{parameter} is not given, but the sd of the group {group} is: give both (--{parameter} X, in Python \
            {parameter}=X), or neither, which is supported with one effect of one group"
    )]
    OneScaleGiven {
        /// The parameter.
        parameter: &'static str,
        /// The group.
        group: String,
    },
    /// More scales that are not given beside the sd of a group that is.
    #[error(
        "the sd of the group {group} is given, but {unknown} other scales are not, which is supported for at most two \
            without correlations: give more of them, or leave out group-sd"
    )]
    TooManyBesideGiven {
        /// The group.
        group: String,
        /// Scales.
        unknown: usize,
    },
    /// Slopes with a given sd beside scales that are not given.
    #[error(
        "the sd of the group {group} is given, but not all scales are, which is supported only where intercepts alone \
            vary with a given sd: give all sds and sigma, leave out group-sd, or do not standardise \
            (--no-standardise, in Python standardise=False)"
    )]
    SlopesBesideGiven {
        /// The group.
        group: String,
    },
    /// A group term in many models at once.
    #[error(
        "many models do not support group terms yet, such as '{group}': leave it out, or fit the models one by one"
    )]
    GroupInMany {
        /// The group.
        group: String,
    },
    /// A prior mean beside an infinite prior sd.
    #[error(
        "the prior of {coefficient} has the mean {mean} but an infinite sd, so it is flat and the mean has no effect: \
            give a finite sd, or leave the mean out"
    )]
    MeanOfFlatPrior {
        /// The coefficient or term.
        coefficient: String,
        /// The mean.
        mean: f64,
    },
    /// A prior for a coefficient that there is none of.
    #[error(
        "a prior is given for '{name}', which is not a coefficient{}",
        nearest(available.iter().map(String::as_str), name)
    )]
    UnknownCoefficient {
        /// The name.
        name: String,
        /// Coefficients and terms.
        available: Vec<String>,
    },
    /// A prediction from a fit that has no data.
    #[error("there is nothing to predict: the fit of a log density has no data; draw from it instead")]
    NothingToPredict,
    /// A contrast that cannot be read.
    #[error(
        "the contrast '{text}' is not understood: write \"arm\" (each level against the reference), \"arm: b - a\", \
            \"arm: b / a\" or \"arm: odds(b) / odds(a)\", with spaces around the sign"
    )]
    Contrast {
        /// What was written.
        text: String,
    },
    /// A ratio of linear predictors.
    #[error(
        "the contrast '{text}' is a ratio, but the linear predictor may be 0 or negative: ask for a difference"
    )]
    LinearRatio {
        /// What was written.
        text: String,
    },
    /// A held column that cannot be read.
    #[error("'{text}' does not say where a column is held: write \"age=40,60\"")]
    Held {
        /// What was written.
        text: String,
    },
    /// A question about a column that the model is not made of.
    #[error(
        "the model is not made of a column '{name}'{}",
        nearest(available.iter().map(String::as_str), name)
    )]
    NoInput {
        /// The name.
        name: String,
        /// Those it is made of.
        available: Vec<String>,
    },
    /// A value that a column cannot have.
    #[error("'{value}' is not a value of the column '{column}', whose cells are of another kind")]
    Value {
        /// The column.
        column: String,
        /// The value.
        value: String,
    },
    /// A slope along a column that has no numbers.
    #[error("the column '{name}' has no numbers, so no slope: ask for a contrast, \"{name}\"")]
    NoSlope {
        /// The column.
        name: String,
    },
    /// Levels of a column of numbers.
    #[error(
        "the column '{name}' has numbers and no levels: name two of them, \"{name}: 2 - 1\", or ask for its slope \
            (`slope`)"
    )]
    NoLevels {
        /// The column.
        name: String,
    },
    /// Nothing to average over.
    #[error("no row has a value in every column of the model: there is nothing to average over")]
    NoRows,
    /// A prediction for known groups without their effects.
    #[error(
        "the fit does not have the effects of its groups, because it was stopped or there are too many: predict for \
            new groups or the population (groups new, population)"
    )]
    NoEffects,
    /// The expected response as a function of the coefficients alone.
    #[error(
        "the expected response is an average over the population of groups, whose sd is a parameter too, so it is no \
            function of the linear predictor: ask `effects`"
    )]
    OfPopulation,
    /// What compares rows with draws of the posterior, without draws.
    #[error(
        "leave-one-out cross-validation and predictive checks need draws of the posterior, which this fit does not \
            have: {0}"
    )]
    NoDraws(&'static str),
    /// A check of rows that stand for others.
    #[error(
        "predictive checks are for rows that count once, but there are weights other than 1: repeat the rows instead"
    )]
    WeightedRows,
    /// A level of a quantile that there is not.
    #[error("`quantiles` has '{value}', but {reason}: for example 0.1,0.5,0.9")]
    Level {
        /// The level.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A linear response whose variance is beyond the largest number.
    #[error("the variance of the response {response} is too large for a number: use larger units")]
    LargeResponse {
        /// The column.
        response: String,
    },
    /// A linear response without variance, and no sigma.
    #[error(
        "the response {response}{} is the same in all {rows} rows, so the noise cannot be estimated: give sigma",
        if *offset { ", less its offset," } else { "" }
    )]
    ConstantResponse {
        /// The column.
        response: String,
        /// True if it has an offset.
        offset: bool,
        /// How many rows.
        rows: usize,
    },
    /// Data that are not those of finished chunks.
    #[error(
        "the data of chunk {chunk} (from group '{first}' on) have changed since it was fitted: start again"
    )]
    ChunkChanged {
        /// The chunk.
        chunk: usize,
        /// Its first group.
        first: String,
    },
}

/// What needs a parameter of the likelihood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededBy {
    /// A likelihood.
    Likelihood,
    /// Many models at once.
    Many,
    /// So many processes.
    Processes(usize),
}

impl RequestError {
    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::ConstantResponse { .. }
            | Self::LargeResponse { .. }
            | Self::ChunkChanged { .. }
            | Self::NoRows => ErrorKind::Data,
            _ => ErrorKind::Request,
        }
    }

    pub(crate) fn word<'a>(setting: &str, value: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Self::Word { setting: setting.into(), value: value.into(), known }
    }

    pub(crate) fn no_effect(setting: impl Into<String>, owner: impl Into<String>) -> Self {
        Self::NoEffect { setting: setting.into(), owner: owner.into() }
    }
}

fn needed(parameter: &str, by: NeededBy) -> String {
    match by {
        NeededBy::Likelihood => format!(", so there is no single likelihood: give {parameter}"),
        NeededBy::Many => format!(
            ": many models need it (--{parameter} X), because it is estimated for one model at a time only (certus fit)"
        ),
        NeededBy::Processes(count) => format!(
            ": such a model cannot be distributed over {count} processes yet; give it, or run one process, without \
                mpirun"
        ),
    }
}
