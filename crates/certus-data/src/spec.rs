//! What a user asks of the columns: response, features, groups, weights; and the search for the columns named.

use certus_likelihood::{Response, Values};

use crate::error::{ColumnError, DataError, SpecError, Unavailable};
use crate::formula::{Expression, Offset, Term, Variable, response_columns};
use crate::names::{outer_first, outside, quoted, same, split};
use crate::table::ColumnInfo;

/// Which columns are features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Features {
    /// Every column of numbers or truth values that has no other role, and those that are to be categorical.
    #[default]
    All,
    /// Terms as a formula writes them: a variable `a`, or the product `a:b` of variables; backquotes around the name of
    /// a column may be left out.
    Terms(Vec<String>),
    /// These terms, then every other column that has no other role, columns of text by their levels, without those that
    /// identify the rows: `.` in a formula.
    Others {
        /// The terms.
        named: Vec<String>,
        /// Columns that are left out.
        except: Vec<String>,
    },
}

impl Features {
    /// The terms that are named.
    pub(crate) fn named(&self) -> &[String] {
        match self {
            Self::All => &[],
            Self::Terms(named) | Self::Others { named, .. } => named,
        }
    }
}

/// A column that is read as levels, whatever its cells are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Categorical {
    /// The column.
    pub column: String,
    /// The level without a coefficient; the first if it is `None`.
    pub reference: Option<String>,
}

impl Categorical {
    /// As a setting has it: "x" or "x:ref=level".
    pub fn of_text(text: &str) -> Self {
        let (column, reference) = match text.split_once(":ref=") {
            Some((column, level)) => (column, Some(level.trim().to_string())),
            None => (text, None),
        };
        Self { column: split(column, &[]).concat(), reference }
    }
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

impl Slopes {
    /// True if something varies by both.
    pub(crate) fn shares(&self, other: &Self) -> bool {
        let all = *self == Self::All || *other == Self::All;
        let intercepts = !matches!(self, Self::Only(_)) && !matches!(other, Self::Only(_));
        let term =
            |own: &String| other.terms().iter().any(|text| Term::of_text(text).is_same(&Term::of_text(own)));
        all || intercepts || self.terms().iter().any(term)
    }

    /// The terms that are named.
    pub fn terms(&self) -> &[String] {
        match self {
            Self::All => &[],
            Self::Terms(terms) | Self::Only(terms) => terms,
        }
    }
}

/// Coefficients that vary by group: one group term of a formula, `(1 + a | g)`, or one `--group "g: a"`. Per level of
/// the factor, the effects are normal with mean 0; their covariance matrix is the same for all levels.
/// [`Encoding::groups`](crate::Encoding) has the levels and the columns of the design, in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSpec {
    /// The columns whose labels together are a level: `g`; `a` and `b` for `a:b`. If another term has the first of
    /// these columns as its factor, this one is nested in it.
    pub factor: Vec<String>,
    /// Which effects: the intercept (if there is one), slopes, or both.
    pub slopes: Slopes,
    /// Standard deviation of the effects between groups, on the scale of the design; `None` if it is not known.
    pub sd: Option<f64>,
    /// True if the effects are correlated (`|`), false if they are independent (`||`).
    pub correlated: bool,
}

/// The columns of a factor, such as `a/b` or `a:b`.
fn path(text: &str) -> Vec<String> {
    split(text, &['/', ':']).into_iter().map(String::from).collect()
}

impl GroupSpec {
    /// Group terms "g", "g: a,b", "g:: a,b" (independent effects), "g: 0,a" (the intercept does not vary), "g: *" or
    /// "g/h" (g, and h within g), with their sds, X for every group or g=X for one.
    pub fn all(groups: &[String], sds: &[String]) -> Result<Vec<Self>, DataError> {
        let asked: Vec<Self> = groups.iter().map(|text| Self::of_text(text)).collect();
        let mut all: Vec<Self> = Vec::new();
        for own in &asked {
            for depth in 1..own.factor.len() {
                let outer = own.factor[..depth].to_vec();
                if !asked.iter().chain(&all).any(|g| same(&g.factor, &outer)) {
                    all.push(Self { factor: outer, ..own.clone() });
                }
            }
            all.push(own.clone());
        }
        // an outer group that nobody named has the sd of the one that made it
        let named: Vec<Vec<String>> = asked.into_iter().map(|g| g.factor).collect();
        Self::with_sds(all, sds, |factor| {
            named.iter().find(|name| name.starts_with(factor)).filter(|_| !named.contains(&factor.to_vec()))
        })
    }

    /// These terms with their sds, outer factors before those within them; an sd that is not given may be that of
    /// another factor.
    pub(crate) fn with_sds<'a>(
        mut terms: Vec<Self>,
        sds: &[String],
        other: impl Fn(&[String]) -> Option<&'a Vec<String>>,
    ) -> Result<Vec<Self>, DataError> {
        let number = |text: &str| {
            text.parse::<f64>().map_err(|_| SpecError::Value {
                setting: "group-sd",
                value: text.into(),
                required: "a number above 0, or GROUP=NUMBER,",
            })
        };
        let (mut every, mut named) = (None, Vec::new());
        for text in sds {
            match text.rsplit_once('=') {
                Some((group, sd)) => named.push((path(group), number(sd.trim())?)),
                None => every = Some(number(text.trim())?),
            }
        }
        if let Some((group, _)) = named.iter().find(|(name, _)| terms.iter().all(|g| !same(&g.factor, name)))
        {
            let available = terms.iter().map(|g| g.factor.join("/")).collect();
            return Err(SpecError::UnknownGroup { name: group.join("/"), available }.into());
        }
        if every.is_some() && terms.is_empty() {
            return Err(SpecError::GroupSdWithoutGroup.into());
        }
        for term in &mut terms {
            let of =
                |factor: &Vec<String>| named.iter().find(|(name, _)| same(name, factor)).map(|(_, sd)| *sd);
            term.sd = of(&term.factor).or_else(|| of(other(&term.factor)?)).or(every);
        }
        Ok(outer_first(terms, |g| &g.factor))
    }

    /// As on the command line, without an sd.
    fn of_text(text: &str) -> Self {
        let colon = outside(text).find(|(_, c)| *c == ':').map_or(text.len(), |(at, _)| at);
        let (factor, slopes) = text.split_at(colon);
        let slopes = slopes.strip_prefix(':').unwrap_or(slopes);
        let (correlated, slopes) = slopes.strip_prefix(':').map_or((true, slopes), |slopes| (false, slopes));
        let terms = slopes.split(',').map(str::trim).filter(|s| !s.is_empty());
        let (zeros, terms): (Vec<&str>, Vec<&str>) = terms.partition(|t| *t == "0");
        let terms = terms.into_iter().map(String::from).collect();
        let slopes = match (slopes.trim(), zeros.is_empty()) {
            ("*", _) => Slopes::All,
            (_, true) => Slopes::Terms(terms),
            (_, false) => Slopes::Only(terms),
        };
        Self { factor: path(factor), slopes, sd: None, correlated }
    }

    /// As a formula writes it, with a bar between effects and factor.
    pub(crate) fn written(&self, bar: &str) -> String {
        let effects = match &self.slopes {
            Slopes::All => "1 + …".to_string(),
            Slopes::Terms(terms) => {
                ["1".to_string()].iter().chain(terms).cloned().collect::<Vec<_>>().join(" + ")
            }
            Slopes::Only(terms) => {
                ["0".to_string()].iter().chain(terms).cloned().collect::<Vec<_>>().join(" + ")
            }
        };
        let factor: Vec<_> = self.factor.iter().map(|name| quoted(name)).collect();
        format!("({effects} {bar} {})", factor.join(":"))
    }
}

impl std::fmt::Display for GroupSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.written(if self.correlated { "|" } else { "||" }))
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
    /// What is computed from columns instead, under that name.
    pub computed: Option<Expression>,
    /// The likelihood it is for.
    pub model: Response,
    /// The features.
    pub features: Features,
    /// Coefficients by group.
    pub groups: Vec<GroupSpec>,
    /// Column of observation weights.
    pub weights: Option<String>,
    /// What is added to the linear predictor.
    pub offset: Option<Offset>,
    /// Column of the trials of a binomial response.
    pub trials: Option<String>,
    /// The level of a binary response that counts as 1; if `None`, it is 1, true or yes, else the last level.
    pub event: Option<String>,
    /// Columns that are read as levels.
    pub categorical: Vec<Categorical>,
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
            computed: None,
            model,
            features: Features::All,
            groups: Vec::new(),
            weights: None,
            offset: None,
            trials: None,
            event: None,
            categorical: Vec::new(),
            by: Vec::new(),
            intercept: true,
            standardise: true,
            missing: Missing::Error,
        }
    }

    /// Every column that has a role other than feature, with the role.
    pub(crate) fn roles(&self) -> Vec<(String, &'static str)> {
        let response = response_columns(&self.response, self.computed.as_ref());
        let mut roles: Vec<_> = response.into_iter().map(|name| (name.to_string(), "the response")).collect();
        roles.extend(self.weights.iter().map(|name| (name.clone(), "the weights")));
        let offset = self.offset.iter().flat_map(Offset::columns);
        roles.extend(offset.map(|name| (name.to_string(), "the offset")));
        roles.extend(self.trials.iter().map(|name| (name.clone(), "the trials")));
        for group in &self.groups {
            roles.extend(group.factor.iter().map(|part| (part.clone(), "a group")));
        }
        roles.extend(self.by.iter().map(|name| (name.clone(), "what tells the models apart")));
        roles
    }

    /// Every column that is used, if the features are named.
    pub fn columns(&self) -> Option<Vec<String>> {
        let Features::Terms(terms) = &self.features else { return None };
        let varying = self.groups.iter().flat_map(|group| group.slopes.terms());
        let terms: Vec<Term> = terms.iter().chain(varying).map(|text| Term::of_text(text)).collect();
        let of_terms = terms.iter().flat_map(|term| term.columns()).map(String::from);
        let roles = self.roles().into_iter().map(|(name, _)| name);
        Some(of_terms.chain(roles).chain(self.categorical.iter().map(|c| c.column.clone())).collect())
    }

    /// Contradictions that need no data to be seen.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.model.values() == Values::Successes && self.trials.is_none() {
            return Err(SpecError::NoTrials);
        }
        if self.model.values() != Values::Successes && self.trials.is_some() {
            return Err(SpecError::UnusedTrials);
        }
        if self.model.values() != Values::Binary && self.event.is_some() {
            return Err(SpecError::UnusedEvent);
        }
        if self.computed.is_some() && self.model.values() != Values::Numbers {
            return Err(SpecError::ComputedResponse { response: self.response.clone() });
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
            return Err(SpecError::Unavailable {
                term: group.to_string(),
                reason: Unavailable::FixedIntercept,
            });
        }
        let features = self.features.named();
        let read: Vec<Term> = features.iter().map(|term| Term::of_text(term)).collect();
        check_references(&read)?;
        for (k, term) in features.iter().enumerate() {
            let parts = &read[k].variables;
            if read[..k].iter().any(|other| other.is_same(&read[k])) {
                return Err(SpecError::Repeated { what: "feature", name: term.clone() });
            }
            if let Some(part) = (1..parts.len()).find(|&j| parts[..j].contains(&parts[j])) {
                let column = parts[part].label();
                return Err(SpecError::RepeatedPart { term: term.clone(), column });
            }
        }
        let varying = self.groups.iter().flat_map(|group| group.slopes.terms());
        features.iter().chain(varying).try_for_each(|term| self.check_roles(&roles, term))
    }

    /// Refuses a term with a column that has another role.
    fn check_roles(&self, roles: &[(String, &'static str)], term: &str) -> Result<(), SpecError> {
        let read = Term::of_text(term);
        let columns = read.columns();
        // the levels of a feature may be crossed with those of a group, (1 | g:a)
        let crossed = |name: &String| self.groups.iter().all(|g| g.factor[..] != [name.clone()]);
        // a rate per unit of exposure may depend on the exposure, log(x) + offset(log(x))
        let computed = matches!(self.offset, Some(Offset::Computed { .. }));
        let used = |(name, role): &&(String, &str)| {
            let both = (*role == "a group" && crossed(name)) || (*role == "the offset" && computed);
            columns.contains(&name.as_str()) && !both
        };
        if let Some((name, role)) = roles.iter().find(used) {
            let (column, term) = (name.clone(), term.to_string());
            return Err(SpecError::RoleInTerm { column, role, term });
        }
        Ok(())
    }
}

/// Refuses factors of one column with different reference levels: their coefficients would have the same names.
fn check_references(terms: &[Term]) -> Result<(), SpecError> {
    let all: Vec<&Variable> = terms.iter().flat_map(|term| &term.variables).collect();
    let pairs = all.iter().enumerate().flat_map(|(k, own)| all[..k].iter().map(move |first| (first, own)));
    let mut same = pairs.filter(|(first, own)| first != own && first.label() == own.label());
    match same.next() {
        Some((first, second)) => {
            Err(SpecError::TwoReferences { first: first.to_string(), second: second.to_string() })
        }
        None => Ok(()),
    }
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
        let group =
            GroupSpec { factor: vec!["g".into()], slopes: Slopes::All, sd: Some(0.0), correlated: false };
        words(&|s| s.groups = vec![group.clone()], "above 0");
    }
}
