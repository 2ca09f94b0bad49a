//! Two JSON values leaf by leaf: which leaves differ beyond their tolerance.

use serde_json::Value;

/// How leaves are compared.
pub(crate) struct Rules {
    /// Two numbers are the same if they differ by this part of the larger one.
    pub(crate) relative: f64,
    /// Or by this. Above 0 only for fits of another program or machine, whose rounding may differ.
    pub(crate) absolute: f64,
}

impl Rules {
    pub(crate) fn near(&self, a: f64, b: f64) -> bool {
        // what is not a number differs from everything
        (a - b).abs() <= self.relative * a.abs().max(b.abs()) + self.absolute
    }

    /// The same words; where rounding may differ, numbers in them may differ in their last digit.
    fn same_words(&self, a: &str, b: &str) -> bool {
        if a == b {
            return true;
        }
        if self.absolute == 0.0 {
            return false;
        }
        let (left, right): (Vec<&str>, Vec<&str>) = (a.split(' ').collect(), b.split(' ').collect());
        let number = |word: &str| word.trim_matches([',', ';', ':', '(', ')']).parse::<f64>().ok();
        let alike = |a: &str, b: &str| match (number(a), number(b)) {
            (Some(x), Some(y)) => (x - y).abs() <= 0.11 * x.abs().max(y.abs()) + self.absolute,
            _ => a == b,
        };
        left.len() == right.len() && left.iter().zip(&right).all(|(a, b)| alike(a, b))
    }
}

/// A leaf that differs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// `certificate.gap.bound`, `parameters[2].mean`.
    pub(crate) path: String,
    /// What the file says; "nothing" where the leaf is missing.
    pub(crate) stored: String,
    /// What it should say.
    pub(crate) own: String,
}

/// The leaves below `path` that differ, but for those that `skip` names.
pub(crate) fn differences(
    path: &str,
    stored: &Value,
    own: &Value,
    rules: &Rules,
    skip: &dyn Fn(&str) -> bool,
) -> Vec<Difference> {
    let mut out = Vec::new();
    walk(path, Some(stored), Some(own), rules, skip, &mut out);
    out
}

fn walk(
    path: &str,
    stored: Option<&Value>,
    own: Option<&Value>,
    rules: &Rules,
    skip: &dyn Fn(&str) -> bool,
    out: &mut Vec<Difference>,
) {
    if skip(path) {
        return;
    }
    match (stored, own) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let more = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(more) {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(&below, a.get(key), b.get(key), rules, skip, out);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for k in 0..a.len().max(b.len()) {
                walk(&format!("{path}[{k}]"), a.get(k), b.get(k), rules, skip, out);
            }
        }
        _ => {
            let same = match (stored, own) {
                (Some(Value::Number(a)), Some(Value::Number(b))) => {
                    let whole = |x: &serde_json::Number| x.is_u64() || x.is_i64();
                    match (whole(a) && whole(b), a.as_f64(), b.as_f64()) {
                        (true, ..) => a == b,
                        (false, Some(a), Some(b)) => rules.near(a, b),
                        _ => false,
                    }
                }
                (Some(Value::String(a)), Some(Value::String(b))) => rules.same_words(a, b),
                (a, b) => a == b,
            };
            if !same {
                out.push(Difference { path: path.to_string(), stored: shown(stored), own: shown(own) });
            }
        }
    }
}

/// A value in a sentence, cut where it is long.
fn shown(value: Option<&Value>) -> String {
    const MOST: usize = 160;
    let text = value.map_or("nothing".to_string(), Value::to_string);
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn leaves_that_differ_are_named() {
        let strict = Rules { relative: 1e-6, absolute: 0.0 };
        let stored = json!({ "a": { "b": [1.0, 2.0], "n": 3 }, "text": "gap 1.2e-20 nats", "gone": null });
        let mut own = stored.clone();
        let found = |own: &Value, rules: &Rules| -> Vec<String> {
            differences("", &stored, own, rules, &|p| p == "skipped").into_iter().map(|d| d.path).collect()
        };
        assert!(found(&own, &strict).is_empty());
        own["a"]["b"][1] = json!(2.0 + 1e-6);
        own["skipped"] = json!("anything");
        assert!(found(&own, &strict).is_empty());
        own["a"]["b"][1] = json!(2.0 + 3e-6);
        own["a"]["n"] = json!(4);
        assert_eq!(found(&own, &strict), ["a.b[1]", "a.n"]);
        own["a"]["b"] = json!([1.0, 2.0, 0.0]);
        own["text"] = json!("gap 1.3e-20 nats");
        let keys = own.as_object_mut().expect("an object");
        keys.remove("gone");
        assert_eq!(found(&own, &strict), ["a.b[2]", "a.n", "gone", "text"]);
        // the last digit of a number in a sentence is rounding, elsewhere
        let loose = Rules { relative: 1e-6, absolute: 1e-8 };
        assert_eq!(found(&own, &loose), ["a.b[2]", "a.n", "gone"]);
        own["text"] = json!("gap 1.3e-2 nats");
        assert_eq!(found(&own, &loose), ["a.b[2]", "a.n", "gone", "text"]);
    }
}
