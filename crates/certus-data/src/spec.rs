//! What a user asks of the columns: response, features, groups, weights; and the search for the columns named.

use std::str::FromStr;

use certus_models::likelihood::{Binomial, Datum, Likelihood, Logistic, Poisson, Probit};

use crate::error::DataError;
use crate::table::ColumnInfo;

/// The model's likelihood, as far as it decides which responses are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Any number.
    Linear,
    /// 0/1 or truth values.
    Logistic,
    /// Successes among the trials of a second column.
    Binomial,
    /// 0/1 or truth values.
    Probit,
    /// Counts.
    Poisson,
    /// Counts.
    NegativeBinomial,
}

impl Family {
    const NAMES: [(&str, Self); 6] = [
        ("linear", Self::Linear),
        ("logistic", Self::Logistic),
        ("binomial", Self::Binomial),
        ("probit", Self::Probit),
        ("poisson", Self::Poisson),
        ("negative-binomial", Self::NegativeBinomial),
    ];

    /// What is wrong with a response, or `None`.
    pub fn reject(self, y: f64, trials: f64) -> Option<String> {
        let datum = Datum { y, trials };
        match self {
            Self::Linear => {
                (!y.is_finite()).then(|| format!("the response is {y}, but a finite number is required"))
            }
            Self::Logistic => Logistic.reject(datum),
            Self::Binomial => Binomial.reject(datum),
            Self::Probit => Probit.reject(datum),
            Self::Poisson | Self::NegativeBinomial => Poisson.reject(datum),
        }
    }
}

impl FromStr for Family {
    type Err = DataError;

    fn from_str(name: &str) -> Result<Self, DataError> {
        let known = Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, family)| *family);
        known.ok_or_else(|| {
            let names = Self::NAMES.map(|(n, _)| n);
            DataError::Usage(format!("there is no model '{name}': use one of {}", names.join(", ")))
        })
    }
}

/// Which columns are features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Features {
    /// Every column of numbers or truth values that has no other role.
    #[default]
    All,
    /// Terms: a column `a`, or the product `a:b` of columns.
    Terms(Vec<String>),
}

/// Which coefficients vary by group besides the intercept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slopes {
    /// Those of the named terms.
    Terms(Vec<String>),
    /// Those of the named terms, and the intercept does not vary.
    Only(Vec<String>),
    /// All.
    All,
}

/// Coefficients that vary by group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSpec {
    /// A column `a`, or `a/b` for `b` within `a`, which makes a term of either unless `a` has its own already.
    pub factor: String,
    /// What varies besides the intercept (if there is one).
    pub slopes: Slopes,
    /// Standard deviation of the coefficients between groups, on the scale of the design; `None` if it is not known.
    pub sd: Option<f64>,
}

impl GroupSpec {
    /// Group terms "g", "g: a,b", "g: 0,a" (the intercept does not vary) or "g: *", with their sds, X for every group or g=X for one.
    pub fn all(groups: &[String], sds: &[String]) -> Result<Vec<Self>, DataError> {
        let usage = |words: String| DataError::Usage(words);
        let number = |text: &str| {
            text.parse::<f64>().map_err(|_| {
                usage(format!("group-sd is '{text}', but a number above 0, or GROUP=NUMBER, is required"))
            })
        };
        let (mut every, mut named) = (None, Vec::new());
        for text in sds {
            match text.split_once('=') {
                Some((group, sd)) => named.push((group.trim(), number(sd.trim())?)),
                None => every = Some(number(text.trim())?),
            }
        }
        let mut out: Vec<Self> = Vec::new();
        for text in groups {
            let (factor, slopes) = text.split_once(':').unwrap_or((text, ""));
            let (factor, slopes) = (factor.trim(), slopes.trim());
            let terms = slopes.split(',').map(str::trim).filter(|s| !s.is_empty());
            let (zeros, terms): (Vec<&str>, Vec<&str>) = terms.partition(|t| *t == "0");
            let terms = terms.into_iter().map(String::from).collect();
            let slopes = match (slopes, zeros.is_empty()) {
                ("*", _) => Slopes::All,
                (_, true) => Slopes::Terms(terms),
                (_, false) => Slopes::Only(terms),
            };
            let own = named.iter().find(|(group, _)| *group == factor).map(|(_, sd)| *sd);
            out.push(Self { factor: factor.into(), slopes, sd: own.or(every) });
        }
        if let Some((group, _)) = named.iter().find(|(group, _)| out.iter().all(|g| g.factor != *group)) {
            let hint = nearest(out.iter().map(|g| g.factor.as_str()), group);
            return Err(usage(format!("group-sd names the group '{group}', which is none{hint}")));
        }
        if every.is_some() && out.is_empty() {
            return Err(usage("group-sd is given, but there is no group: leave it out".into()));
        }
        Ok(out)
    }
}

/// What to do with missing values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Refuse them, with their number and the place of the first.
    #[default]
    Error,
    /// Leave out the rows that have one in a column that is used.
    Drop,
}

/// What is asked of the columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The response.
    pub response: String,
    /// The likelihood it is for.
    pub family: Family,
    /// The features.
    pub features: Features,
    /// Coefficients by group.
    pub groups: Vec<GroupSpec>,
    /// Column of observation weights.
    pub weights: Option<String>,
    /// Column added to the linear predictor.
    pub offset: Option<String>,
    /// Column of the trials of a binomial response.
    pub trials: Option<String>,
    /// Columns that are no features because they say which model a row belongs to.
    pub by: Vec<String>,
    /// True for an intercept.
    pub intercept: bool,
    /// True to centre and scale the features inside the model.
    pub standardise: bool,
    /// What to do with missing values.
    pub missing: Missing,
}

impl Spec {
    /// All other columns as features, an intercept, standardised, missing values refused.
    pub fn new(response: &str, family: Family) -> Self {
        Self {
            response: response.into(),
            family,
            features: Features::All,
            groups: Vec::new(),
            weights: None,
            offset: None,
            trials: None,
            by: Vec::new(),
            intercept: true,
            standardise: true,
            missing: Missing::Error,
        }
    }

    /// Every column that has a role other than feature, with the role.
    pub(crate) fn roles(&self) -> Vec<(String, &'static str)> {
        let mut roles = vec![(self.response.clone(), "the response")];
        let optional =
            [(&self.weights, "the weights"), (&self.offset, "the offset"), (&self.trials, "the trials")];
        roles.extend(optional.into_iter().filter_map(|(name, role)| name.clone().map(|n| (n, role))));
        for group in &self.groups {
            roles.extend(group.factor.split('/').map(|part| (part.trim().to_string(), "a group")));
        }
        roles.extend(self.by.iter().map(|name| (name.clone(), "what tells the models apart")));
        roles
    }

    /// Contradictions that need no data to be seen.
    pub(crate) fn check(&self) -> Result<(), DataError> {
        let usage = |message: String| Err(DataError::Usage(message));
        if self.family == Family::Binomial && self.trials.is_none() {
            return usage(
                "a binomial response needs the column of its trials: name it (--trials, in Python trials=)"
                    .into(),
            );
        }
        if self.family != Family::Binomial && self.trials.is_some() {
            return usage(
                "only a binomial response has trials: leave them out or use the model binomial".into(),
            );
        }
        let roles = self.roles();
        for (k, (name, role)) in roles.iter().enumerate() {
            let other = roles[..k].iter().find(|(n, r)| n == name && (*r != *role || *role != "a group"));
            if let Some((_, other)) = other {
                return usage(format!(
                    "column '{name}' is named both as {other} and as {role}: give it one role"
                ));
            }
        }
        if let Some(sd) = self.groups.iter().filter_map(|g| g.sd).find(|sd| !(*sd > 0.0 && sd.is_finite())) {
            return usage(format!("a group sd is {sd}, but a finite number above 0 is required"));
        }
        let only = |g: &&GroupSpec| self.intercept && g.sd.is_some() && matches!(g.slopes, Slopes::Only(_));
        if let Some(group) = self.groups.iter().find(only) {
            return usage(format!(
                "by {} the intercept does not vary, which with a given sd is not built yet: let it vary too, or leave out group-sd",
                group.factor
            ));
        }
        if let Features::Terms(terms) = &self.features {
            for (k, term) in terms.iter().enumerate() {
                let parts = parts(term);
                if terms[..k].iter().any(|t| same_parts(&self::parts(t), &parts)) {
                    return usage(format!("the feature '{term}' is named twice: name it once"));
                }
                if let Some(part) = (1..parts.len()).find(|&j| parts[..j].contains(&parts[j])) {
                    return usage(format!(
                        "'{term}' has '{}' twice; for a power make a column of it",
                        parts[part]
                    ));
                }
                if let Some((name, role)) = roles.iter().find(|(name, _)| parts.contains(&name.as_str())) {
                    return usage(format!(
                        "'{name}' is {role} and can't be a feature as well: leave it out of '{term}'"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The columns of a term.
pub(crate) fn parts(term: &str) -> Vec<&str> {
    term.split(':').map(str::trim).collect()
}

/// True for the same columns in any order.
pub(crate) fn same_parts(a: &[&str], b: &[&str]) -> bool {
    a.len() == b.len() && a.iter().all(|part| b.contains(part))
}

/// The place of a column, or an error that names the nearest there is.
pub(crate) fn find(columns: &[ColumnInfo], name: &str) -> Result<usize, DataError> {
    columns.iter().position(|c| c.name == name).ok_or_else(|| {
        let names = columns.iter().map(|c| c.name.as_str());
        DataError::BadData(format!("there is no column '{name}'{}", nearest(names, name)))
    })
}

/// ": did you mean …?" with the name of least edit distance, or all names if none is near.
pub fn nearest<'a>(names: impl Iterator<Item = &'a str> + Clone, wanted: &str) -> String {
    let folded = wanted.to_lowercase();
    let best = names.clone().map(|n| (distance(&n.to_lowercase(), &folded), n)).min_by_key(|(d, _)| *d);
    match best {
        Some((d, name)) if d <= wanted.chars().count().div_ceil(2) => format!(": did you mean '{name}'?"),
        Some(_) => {
            let all: Vec<&str> = names.collect();
            let shown = all[..all.len().min(20)].join(", ");
            format!(": there are {shown}{}", if all.len() > 20 { ", …" } else { "" })
        }
        None => ": there are none".into(),
    }
}

/// Least number of letters to insert, delete or replace (Levenshtein), one row of the table at a time.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distances() {
        for (a, b, d) in [("kitten", "sitting", 3), ("", "abc", 3), ("rain", "rian", 2), ("same", "same", 0)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (d, d));
        }
        assert_eq!(nearest(["distance", "rain"].into_iter(), "Distnace"), ": did you mean 'distance'?");
        assert_eq!(nearest(["distance", "rain"].into_iter(), "xyzzy"), ": there are distance, rain");
    }

    #[test]
    fn contradictions_are_refused() {
        let spec = |change: &dyn Fn(&mut Spec)| {
            let mut spec = Spec::new("y", Family::Linear);
            change(&mut spec);
            spec.check().map_err(|e| (e.exit_code(), e.to_string()))
        };
        assert_eq!(spec(&|_| ()), Ok(()));
        let words = |change: &dyn Fn(&mut Spec), word: &str| {
            let (code, message) = spec(change).unwrap_err();
            assert!(code == 64 && message.contains(word), "{message}");
        };
        let terms = |names: &[&str]| Features::Terms(names.iter().map(|s| s.to_string()).collect());
        words(&|s| s.family = Family::Binomial, "trials");
        words(&|s| s.trials = Some("n".into()), "binomial");
        words(&|s| s.weights = Some("y".into()), "one role");
        words(&|s| s.features = terms(&["a", "y"]), "the response");
        words(&|s| s.features = terms(&["a:b", "b:a"]), "twice");
        words(&|s| s.features = terms(&["a:a"]), "power");
        let group = GroupSpec { factor: "g".into(), slopes: Slopes::All, sd: Some(0.0) };
        words(&|s| s.groups = vec![group.clone()], "above 0");
        assert!("gamma".parse::<Family>().is_err());
        assert_eq!("negative-binomial".parse::<Family>().ok(), Some(Family::NegativeBinomial));
    }
}
