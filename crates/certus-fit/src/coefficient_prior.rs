//! The prior of one coefficient, as it is requested and as TOML and JSON write it.

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The prior of one coefficient, or of all coefficients of a term, in the units of `prior-sd`. In TOML and JSON a
/// number (the sd, `"inf"` for a flat prior) or `{ mean = 0.5, sd = 1.0 }`, of which either may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoefficientPrior {
    /// Its mean; 0 if it is not given.
    pub mean: Option<f64>,
    /// Its sd; that of all other coefficients if it is not given.
    pub sd: Option<f64>,
}

impl From<f64> for CoefficientPrior {
    fn from(sd: f64) -> Self {
        Self { mean: None, sd: Some(sd) }
    }
}

/// A number that may be infinite, which JSON cannot express: "inf" there.
struct Wide(f64);

impl Serialize for Wide {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_str(&self.0.to_string())
        }
    }
}

struct WideVisitor;

impl Visitor<'_> for WideVisitor {
    type Value = Wide;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or inf")
    }

    fn visit_f64<E>(self, x: f64) -> Result<Wide, E> {
        Ok(Wide(x))
    }

    fn visit_i64<E>(self, x: i64) -> Result<Wide, E> {
        Ok(Wide(x as f64))
    }

    fn visit_u64<E>(self, x: u64) -> Result<Wide, E> {
        Ok(Wide(x as f64))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Wide, E> {
        text.parse().map(Wide).map_err(|_| E::custom(format!("\"{text}\" is not a number")))
    }
}

impl<'de> Deserialize<'de> for Wide {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WideVisitor)
    }
}

impl Serialize for CoefficientPrior {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let (None, Some(sd)) = (self.mean, self.sd) {
            return Wide(sd).serialize(serializer);
        }
        let given = [("mean", self.mean), ("sd", self.sd)];
        let given = given.into_iter().filter_map(|(name, x)| x.map(|x| (name, x)));
        let mut map = serializer.serialize_map(Some(given.clone().count()))?;
        for (name, x) in given {
            map.serialize_entry(name, &Wide(x))?;
        }
        map.end()
    }
}

struct PriorVisitor;

impl<'de> Visitor<'de> for PriorVisitor {
    type Value = CoefficientPrior;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sd of a prior, or { mean = 0.5, sd = 1.0 }")
    }

    fn visit_f64<E>(self, x: f64) -> Result<CoefficientPrior, E> {
        Ok(x.into())
    }

    fn visit_i64<E>(self, x: i64) -> Result<CoefficientPrior, E> {
        Ok((x as f64).into())
    }

    fn visit_u64<E>(self, x: u64) -> Result<CoefficientPrior, E> {
        Ok((x as f64).into())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<CoefficientPrior, E> {
        WideVisitor.visit_str(text).map(|x| x.0.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CoefficientPrior, A::Error> {
        let mut out = CoefficientPrior::default();
        while let Some(key) = map.next_key::<String>()? {
            let value = Some(map.next_value::<Wide>()?.0);
            match key.as_str() {
                "mean" => out.mean = value,
                "sd" => out.sd = value,
                _ => {
                    return Err(A::Error::custom(format!(
                        "a prior has no part '{key}': use mean, sd or both, as in {{ mean = 0.5, sd = 1.0 }}"
                    )));
                }
            }
        }
        if out == CoefficientPrior::default() {
            return Err(A::Error::custom("a prior is empty: give its mean, its sd or both"));
        }
        Ok(out)
    }
}

impl<'de> Deserialize<'de> for CoefficientPrior {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PriorVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priors_in_json_are_numbers_or_pairs() {
        let read = |text: &str| serde_json::from_str::<CoefficientPrior>(text);
        let of = |mean, sd| CoefficientPrior { mean, sd };
        for (text, prior) in [
            ("1.5", of(None, Some(1.5))),
            ("2", of(None, Some(2.0))),
            ("\"inf\"", of(None, Some(f64::INFINITY))),
            ("{\"mean\":0.5,\"sd\":1.0}", of(Some(0.5), Some(1.0))),
            ("{\"mean\":-1}", of(Some(-1.0), None)),
            ("{\"sd\":\"inf\"}", of(None, Some(f64::INFINITY))),
        ] {
            assert_eq!(read(text).ok(), Some(prior), "{text}");
            let again = serde_json::to_string(&prior).expect("JSON");
            assert_eq!(read(&again).ok(), Some(prior), "{again}");
        }
        for (text, word) in [
            ("{\"mu\":1}", "no part 'mu'"),
            ("{}", "empty"),
            ("\"wide\"", "not a number"),
            ("[1, 2]", "mean = 0.5"),
        ] {
            let error = read(text).expect_err("refused").to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
