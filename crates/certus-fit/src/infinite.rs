//! Numbers that may be infinite, which JSON cannot say: 'inf' there.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

#[derive(Deserialize)]
#[serde(untagged)]
enum Either {
    Number(f64),
    Text(String),
}

pub(crate) fn serialize<S: Serializer>(x: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match x {
        Some(x) if x.is_finite() => serializer.serialize_f64(*x),
        Some(x) => serializer.serialize_str(&x.to_string()),
        None => serializer.serialize_none(),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Ok(match Option::<Either>::deserialize(deserializer)? {
        None => None,
        Some(Either::Number(x)) => Some(x),
        Some(Either::Text(text)) => {
            Some(text.parse().map_err(|_| D::Error::custom(format!("\"{text}\" is not a number")))?)
        }
    })
}
