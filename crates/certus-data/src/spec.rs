//! What a user asks of the columns: response, features, groups, weights; and the search for the columns named.

use certus_likelihood::{Response, Values};

use crate::error::{ColumnError, DataError, SpecError};
use crate::table::ColumnInfo;

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
    /// Group terms "g", "g: a,b", "g: 0,a" (the intercept does not vary) or "g: *", with their sds, X for every group
    /// or g=X for one.
    pub fn all(groups: &[String], sds: &[String]) -> Result<Vec<Self>, DataError> {
        let number = |text: &str| {
            text.parse::<f64>().map_err(|_| SpecError::Value {
                setting: "group-sd",
                value: text.into(),
                required: "a number above 0, or GROUP=NUMBER,",
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
            let available = out.iter().map(|g| g.factor.clone()).collect();
            return Err(SpecError::UnknownGroup { name: (*group).into(), available }.into());
        }
        if every.is_some() && out.is_empty() {
            return Err(SpecError::GroupSdWithoutGroup.into());
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
    pub model: Response,
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
    pub fn new(response: &str, model: Response) -> Self {
        Self {
            response: response.into(),
            model,
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
    pub fn check(&self) -> Result<(), SpecError> {
        if self.model.values() == Values::Successes && self.trials.is_none() {
            return Err(SpecError::NoTrials);
        }
        if self.model.values() != Values::Successes && self.trials.is_some() {
            return Err(SpecError::UnusedTrials);
        }
        let roles = self.roles();
        for (k, (name, role)) in roles.iter().enumerate() {
            let other = roles[..k].iter().find(|(n, r)| n == name && (*r != *role || *role != "a group"));
            if let Some((_, first)) = other {
                return Err(SpecError::TwoRoles { column: name.clone(), first, second: role });
            }
        }
        if let Some(sd) = self.groups.iter().filter_map(|g| g.sd).find(|sd| !(*sd > 0.0 && sd.is_finite())) {
            let (value, required) = (sd.to_string(), "a finite number above 0");
            return Err(SpecError::Value { setting: "group-sd", value, required });
        }
        let only = |g: &&GroupSpec| self.intercept && g.sd.is_some() && matches!(g.slopes, Slopes::Only(_));
        if let Some(group) = self.groups.iter().find(only) {
            return Err(SpecError::FixedIntercept { group: group.factor.clone() });
        }
        if let Features::Terms(terms) = &self.features {
            for (k, term) in terms.iter().enumerate() {
                let parts = parts(term);
                if terms[..k].iter().any(|t| same_parts(&self::parts(t), &parts)) {
                    return Err(SpecError::Repeated { what: "feature", name: term.clone() });
                }
                if let Some(part) = (1..parts.len()).find(|&j| parts[..j].contains(&parts[j])) {
                    let column = parts[part].into();
                    return Err(SpecError::RepeatedPart { term: term.clone(), column });
                }
                if let Some((name, role)) = roles.iter().find(|(name, _)| parts.contains(&name.as_str())) {
                    let (column, term) = (name.clone(), term.clone());
                    return Err(SpecError::RoleInTerm { column, role, term });
                }
            }
        }
        Ok(())
    }
}

/// The columns of a term.
pub fn parts(term: &str) -> Vec<&str> {
    term.split(':').map(str::trim).collect()
}

/// True for the same columns in any order.
pub(crate) fn same_parts(a: &[&str], b: &[&str]) -> bool {
    a.len() == b.len() && a.iter().all(|part| b.contains(part))
}

/// The place of a column, or an error that names the nearest there is.
pub(crate) fn find(columns: &[ColumnInfo], name: &str) -> Result<usize, DataError> {
    columns.iter().position(|c| c.name == name).ok_or_else(|| {
        let available = columns.iter().map(|c| c.name.clone()).collect();
        ColumnError::NotFound { name: name.into(), within: None, available }.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        let spec = |change: &dyn Fn(&mut Spec)| {
            let mut spec = Spec::new("y", Response::Linear);
            change(&mut spec);
            spec.check().map_err(|e| e.to_string())
        };
        assert_eq!(spec(&|_| ()), Ok(()));
        let words = |change: &dyn Fn(&mut Spec), word: &str| {
            let message = spec(change).unwrap_err();
            assert!(message.contains(word), "{message}");
        };
        let terms = |names: &[&str]| Features::Terms(names.iter().map(|s| s.to_string()).collect());
        words(&|s| s.model = Response::Binomial, "trials");
        words(&|s| s.trials = Some("n".into()), "binomial");
        words(&|s| s.weights = Some("y".into()), "one role");
        words(&|s| s.features = terms(&["a", "y"]), "the response");
        words(&|s| s.features = terms(&["a:b", "b:a"]), "twice");
        words(&|s| s.features = terms(&["a:a"]), "power");
        let group = GroupSpec { factor: "g".into(), slopes: Slopes::All, sd: Some(0.0) };
        words(&|s| s.groups = vec![group.clone()], "above 0");
    }
}
