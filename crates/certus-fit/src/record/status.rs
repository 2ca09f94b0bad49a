//! How a fit ended, as the word that fit.json has.

use certus::Status;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

const ALL: [Status; 7] = [
    Status::Reached,
    Status::Limit,
    Status::NoProgress,
    Status::NonFinite,
    Status::AssumptionViolated,
    Status::UserError,
    Status::Interrupted,
];

pub(super) fn serialize<S: Serializer>(status: &Status, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(status.as_str())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
    let word = String::deserialize(deserializer)?;
    let known = ALL.into_iter().find(|status| status.as_str() == word);
    known.ok_or_else(|| D::Error::custom(format!("unknown status \"{word}\"")))
}
