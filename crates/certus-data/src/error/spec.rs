//! Requests that contradict themselves, or name what there is none of.

use crate::nearest::nearest_of;

/// What is wrong with what is asked of the columns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A setting out of its range.
    #[error("{setting} is '{value}', but {required} is required")]
    Value {
        /// Which setting.
        setting: &'static str,
        /// What it is.
        value: String,
        /// What it must be.
        required: &'static str,
    },
    /// An sd for a group that was not asked for.
    #[error("group-sd: unknown group '{name}'{}", nearest_of(available, name))]
    UnknownGroup {
        /// The group named.
        name: String,
        /// The groups of the request.
        available: Vec<String>,
    },
    /// An sd for every group where there is none.
    #[error("group-sd is given, but there is no group: leave it out")]
    GroupSdWithoutGroup,
    /// A binomial response without trials.
    #[error("a binomial response needs the column of its trials: name it (--trials, in Python trials=)")]
    NoTrials,
    /// Trials of another response.
    #[error("only a binomial response has trials: leave them out or use the model binomial")]
    UnusedTrials,
    /// An event of a response that is not binary.
    #[error("only a binary response (logistic, probit) has an event: leave out `event`")]
    UnusedEvent,
    /// A column that is to be categorical and is not used.
    #[error(
        "`categorical` names '{column}', which is not among the features{}",
        nearest_of(available, column)
    )]
    UnusedCategorical {
        /// The column.
        column: String,
        /// The columns of the features.
        available: Vec<String>,
    },
    /// Two reference levels of one column.
    #[error("{first} and {second} have different reference levels: write the same in both")]
    TwoReferences {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A column with two roles.
    #[error("column '{column}' is named both as {first} and as {second}: give it one role")]
    TwoRoles {
        /// The column.
        column: String,
        /// One role.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A column with another role in a term of the features.
    #[error("'{column}' is {role} and can't be a feature as well: leave it out of '{term}'")]
    RoleInTerm {
        /// The column.
        column: String,
        /// Its role.
        role: &'static str,
        /// The term.
        term: String,
    },
    /// A response that is computed, of a model that is not for any numbers.
    #[error("the response {response} is computed, which linear models take only: name a column")]
    ComputedResponse {
        /// As it is written.
        response: String,
    },
    /// A feature or a group that is named twice.
    #[error("the {what} '{name}' is named twice: name it once")]
    Repeated {
        /// `feature` or `group`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A term with the same column twice.
    #[error("'{term}' has '{column}' twice: for a power write x^2 in a formula")]
    RepeatedPart {
        /// The term.
        term: String,
        /// The column.
        column: String,
    },
    /// A group term that no solver takes yet: the only refusal of terms that a formula can write and that mean
    /// something.
    #[error("the group term {term} is not available yet: {reason}")]
    Unavailable {
        /// The term.
        term: String,
        /// What is missing, and what to do.
        reason: Unavailable,
    },
    /// Given sds of effects that are correlated.
    #[error(
        "the effects of {term} are correlated, but group-sd gives their sds only: write {independent} for \
            independent effects (`group` \"{flag}\"), or leave out group-sd"
    )]
    CorrelatedSds {
        /// The term.
        term: String,
        /// The same with independent effects.
        independent: String,
        /// The same as a setting.
        flag: String,
    },
    /// A slope of a feature that there is none of.
    #[error("'{term}' is to vary by '{group}', but there is no such feature{}", nearest_of(available, term))]
    UnknownSlope {
        /// The term.
        term: String,
        /// The group.
        group: String,
        /// The terms of the design.
        available: Vec<String>,
    },
    /// A group by which no coefficient varies.
    #[error("nothing varies by the group '{group}': without an intercept, name the slopes that do")]
    NothingVaries {
        /// The group.
        group: String,
    },
    /// A group without an sd where one is needed.
    #[error("the sd of the group '{group}' is not given (group-sd)")]
    NoGroupSd {
        /// The group.
        group: String,
    },
    /// Group terms in a run of several processes.
    #[error(
        "the group '{group}': rows with group terms can't be spread over {processes} processes yet; run one, without \
            mpirun"
    )]
    GroupOverProcesses {
        /// The first group.
        group: String,
        /// Number of processes.
        processes: usize,
    },
}

/// What is not available yet of a group term.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// More unknown sds than one.
    #[error(
        "the sd of the group {group} is not given, and {}: give the sds{} (`group-sd`: X for all, or one for \
            each group), or keep only one effect of one group",
        many_effects(*terms, *effects),
        parameter.map_or(String::new(), |name| format!(" and {name}"))
    )]
    UnknownSds {
        /// The group.
        group: String,
        /// Group terms.
        terms: usize,
        /// Coefficients that vary by the group.
        effects: usize,
        /// A parameter of the likelihood that is not given either.
        parameter: Option<&'static str>,
    },
    /// Slopes that vary without the intercept, with an sd that is given.
    #[error(
        "the intercept does not vary, which is not supported with a given sd: let it vary too, or leave out group-sd"
    )]
    FixedIntercept,
    /// What varies around 0, in a model that is not ready for it.
    #[error(
        "{effect} varies without being a fixed effect, which needs {needed}: add it to the fixed effects, or {cure}"
    )]
    NotFixed {
        /// Such as `'x'`, or `the intercept`.
        effect: String,
        /// Such as "a dispersion that is given".
        needed: &'static str,
        /// What else can be done.
        cure: &'static str,
    },
    /// An effect that is in two terms of a factor.
    #[error("one of its effects is in another term of the same group too: write it once")]
    Twice,
}

fn many_effects(terms: usize, effects: usize) -> String {
    let only = "but only one unknown sd is supported so far";
    if terms > 1 {
        format!("there are {terms} group terms, {only}")
    } else {
        format!("{effects} coefficients vary by it, {only}")
    }
}
