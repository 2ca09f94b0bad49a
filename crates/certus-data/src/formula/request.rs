//! A formula as what is asked of the columns: its features, and its group terms in the form that models take.

use super::{Formula, GroupTerm, Term};
use crate::error::{DataError, SpecError, Unavailable};
use crate::names::{outer_first, same};
use crate::spec::{Features, GroupSpec, Slopes};

impl Formula {
    /// The fixed effects.
    pub fn features(&self) -> Features {
        let named = self.fixed.iter().map(Term::to_string).collect();
        match &self.others {
            Some(except) => Features::Others { named, except: except.clone() },
            None => Features::Terms(named),
        }
    }

    /// The group terms, with sds as `--group-sd` has them; outer factors first. Independent effects of a factor are one
    /// term.
    pub fn group_specs(&self, sds: &[String]) -> Result<Vec<GroupSpec>, DataError> {
        let mut terms: Vec<GroupTerm> = Vec::new();
        for term in &self.groups {
            let others = terms.iter().filter(|own| same(&own.factor, &term.factor));
            if others.clone().any(|own| shares(own, term)) {
                return Err(unavailable(term, Unavailable::Twice).into());
            }
            let independent = |own: &GroupTerm| !own.correlated || own.count() == 1;
            match terms.iter_mut().find(|own| same(&own.factor, &term.factor) && independent(own)) {
                Some(own) if independent(term) => join(own, term),
                _ => terms.push(term.clone()),
            }
        }
        terms = outer_first(terms, |term| &term.factor);
        for k in 1..terms.len() {
            let (outer, own) = terms.split_at_mut(k);
            own[0].factor = within(outer, &own[0].factor);
        }
        GroupSpec::with_sds(terms.iter().map(spec).collect(), sds, |_| None)
    }
}

/// The columns of a factor, those of the longest factor that it is nested in first; of several, the one it begins with.
fn within(outer: &[GroupTerm], factor: &[String]) -> Vec<String> {
    let contained = |other: &&GroupTerm| other.factor.iter().all(|name| factor.contains(name));
    let order = |other: &&GroupTerm| (other.factor.len(), factor.starts_with(&other.factor));
    let first =
        outer.iter().filter(contained).max_by_key(order).map_or(Vec::new(), |other| other.factor.clone());
    let rest = factor.iter().filter(|name| !first.contains(name)).cloned().collect::<Vec<_>>();
    first.into_iter().chain(rest).collect()
}

/// True if an effect is in both terms.
fn shares(a: &GroupTerm, b: &GroupTerm) -> bool {
    let effects = a.effects.iter().any(|own| b.effects.iter().any(|other| own.is_same(other)));
    effects || (a.intercept && b.intercept)
}

/// Adds the effects of another term of the same factor: `(1 | g) + (0 + a | g)` is `(1 + a || g)`.
fn join(own: &mut GroupTerm, other: &GroupTerm) {
    own.intercept |= other.intercept;
    own.effects.extend(other.effects.iter().cloned());
    own.correlated = false;
}

fn spec(term: &GroupTerm) -> GroupSpec {
    let effects = term.effects.iter().map(Term::to_string).collect();
    let slopes = if term.intercept { Slopes::Terms(effects) } else { Slopes::Only(effects) };
    GroupSpec { factor: term.factor.clone(), slopes, sd: None, correlated: term.correlated }
}

fn unavailable(term: &GroupTerm, reason: Unavailable) -> SpecError {
    SpecError::Unavailable { term: term.to_string(), reason }
}
