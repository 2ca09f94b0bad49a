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
    /// A feature or a group that is named twice.
    #[error("the {what} '{name}' is named twice: name it once")]
    Repeated {
        /// `feature` or `group`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A term with the same column twice.
    #[error("'{term}' has '{column}' twice; for a power make a column of it")]
    RepeatedPart {
        /// The term.
        term: String,
        /// The column.
        column: String,
    },
    /// Slopes that vary without the intercept, with an sd that is given.
    #[error(
        "by {group} the intercept does not vary, which is not supported with a given sd yet: let it vary too, or \
            leave out group-sd"
    )]
    FixedIntercept {
        /// The group.
        group: String,
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
