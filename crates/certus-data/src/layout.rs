//! From terms and levels to the columns of the design: what is multiplied, how cells become numbers, and which
//! coefficients vary by group. With what the rows are like it becomes an encoding.

use crate::encoding::{Coding, ColumnEncoding, Encoding, Feature, Group, Part, Reading};
use crate::error::{ColumnError, DataError, SpecError, Unavailable};
use crate::event::Event;
use crate::formula::{Term, Variable};
use crate::left::UnusedColumn;
use crate::profile::Profile;
use crate::reader::{Labels, Recipe};
use crate::spec::{GroupSpec, Slopes, Spec};
use crate::summary::Summary;
use crate::terms::{Factor, Terms, Used};
use crate::units::{Spread, unit_of};

/// The columns of the design and the levels of the groups, before any row was encoded.
pub(crate) struct Layout {
    /// Columns that features and groups are made of.
    pub(crate) columns: Vec<Coding>,
    /// The features.
    pub(crate) products: Vec<Product>,
    /// The groups with their levels.
    pub(crate) groups: Vec<(Factor, Vec<String>)>,
    /// The event of the response.
    event: Option<Event>,
}

/// A feature: a product of columns and levels.
#[derive(Clone)]
pub(crate) struct Product {
    /// Such as `rain`, `city[Utrecht]` or `city[Utrecht]:rain`.
    pub(crate) name: String,
    /// The term it comes from, as it was asked for and as it is read.
    pub(crate) term: (String, Term),
    /// What is multiplied.
    pub(crate) parts: Vec<Part>,
}

impl Layout {
    /// Of terms whose levels, dates and bases are known.
    pub(crate) fn of(terms: &Terms, profile: &Profile, intercept: bool) -> Result<Self, DataError> {
        let full = |t: usize, variable: &Variable| has_all_levels(terms, intercept, t, variable);
        let mut columns = Vec::with_capacity(terms.variables.len());
        for (c, Used { variable, reading, reference, .. }) in terms.variables.iter().enumerate() {
            let how = match (reading, variable) {
                (Reading::Computed, Variable::Computed { of, .. }) => {
                    ColumnEncoding::Computed { of: of.clone(), basis: profile.bases[c].clone() }
                }
                (Reading::Number | Reading::Computed, _) => ColumnEncoding::Number,
                (Reading::Boolean, _) => ColumnEncoding::Boolean,
                (Reading::Days, _) => ColumnEncoding::Days { first: profile.first_dates[c] },
                (Reading::Label, _) => ColumnEncoding::Label,
                (Reading::Levels, _) => {
                    let levels = profile.levels[c].clone();
                    let asked =
                        reference.as_deref().map(|level| found(variable, level, &levels)).transpose()?;
                    // the last term that has the variable decides
                    let last = terms.terms.iter().rposition(|(_, term)| term.variables.contains(variable));
                    let all = last.is_some_and(|t| full(t, variable));
                    let reference = asked.or_else(|| levels.first().cloned()).filter(|_| !all);
                    ColumnEncoding::Levels { levels, reference }
                }
            };
            let name = variable.label();
            let column = match variable {
                Variable::Factor { column, .. } => Some(column.clone()),
                _ => None,
            };
            columns.push(Coding { name, how, column });
        }
        let expand = |(t, (text, term)): (usize, &(String, Term))| {
            let choices = term.variables.iter().map(|variable| {
                let column = terms.variables.iter().position(|used| used.variable == *variable);
                let column = column.expect("every variable of a term is used");
                let reference = terms.variables[column].reference.as_deref();
                choices(&columns[column], column, (!full(t, variable)).then_some(reference))
            });
            products(text, term, choices.collect())
        };
        let products = terms.terms.iter().enumerate().flat_map(expand).collect();
        let groups = terms.groups.iter().cloned().zip(profile.group_levels.iter().cloned()).collect();
        let event = profile.event.clone();
        Ok(Self { columns, products, groups, event })
    }

    /// Without some features.
    pub(crate) fn without(self, features: &[usize]) -> Self {
        let kept = self.products.into_iter().enumerate().filter(|(j, _)| !features.contains(j));
        Self { products: kept.map(|(_, product)| product).collect(), ..self }
    }

    /// What a reader of the data of a fit needs.
    pub(crate) fn recipe<'a>(&'a self, spec: &'a Spec) -> Recipe<'a> {
        let labels = |(factor, levels): &'a (Factor, Vec<String>)| Labels {
            name: &factor.name,
            columns: &factor.columns,
            levels,
            known_sd: factor.sd.is_some(),
        };
        Recipe {
            columns: &self.columns,
            features: self.products.iter().map(|p| (p.name.as_str(), p.parts.as_slice())).collect(),
            groups: self.groups.iter().map(labels).collect(),
            response: Some((&spec.response, self.event.as_ref())),
            trials: spec.trials.as_deref(),
            offset: spec.offset.as_ref(),
            weights: spec.weights.as_deref(),
        }
    }

    /// The encoding, with what the rows are like and the coefficients that vary by each group.
    pub(crate) fn encoding(
        self,
        spec: &Spec,
        summary: &Summary,
        spreads: &[(Part, Spread)],
        slopes: Vec<Vec<usize>>,
    ) -> Encoding {
        let Self { columns, products, groups, event } = self;
        let feature = |(j, Product { name, term: (term, _), parts }): (usize, Product)| {
            let (mean, sd) = summary.moments[j];
            let unit = Some(unit_of(&parts, &columns, summary.units[j], spreads));
            Feature { name, term, parts, mean, sd, unit }
        };
        let features = products.into_iter().enumerate().map(feature).collect();
        let mut varying = Vec::with_capacity(groups.len());
        for (((factor, levels), slopes), asked) in groups.into_iter().zip(slopes).zip(&spec.groups) {
            let Factor { name, columns, sd, within } = factor;
            let correlated = asked.correlated && slopes.len() > 1;
            varying.push(Group { name, columns, levels, slopes, sd, within, correlated });
        }
        Encoding {
            response: spec.response.clone(),
            features,
            columns,
            groups: varying,
            trials: spec.trials.clone(),
            offset: spec.offset.clone(),
            weights: spec.weights.clone(),
            event,
            intercept: spec.intercept,
            standardise: spec.standardise,
        }
    }

    /// True if a term has a feature for every level of a column.
    fn has_every_level(&self, term: &Term, column: usize) -> bool {
        let of_term = |p: &&Product| p.term.1.is_same(term);
        let mut levels: Vec<_> = self
            .products
            .iter()
            .filter(of_term)
            .flat_map(|p| &p.parts)
            .filter(|p| p.column == column)
            .collect();
        levels.sort_by_key(|p| p.level);
        levels.dedup();
        matches!(&self.columns[column].how, ColumnEncoding::Levels { levels: all, .. } if all.len() == levels.len())
    }

    /// Which coefficients vary by each group, and what to say of those that were to vary and were dropped.
    pub(crate) fn slopes(
        &self,
        spec: &Spec,
        dropped: &[UnusedColumn],
    ) -> Result<(Vec<Vec<usize>>, Vec<String>), SpecError> {
        let first = usize::from(spec.intercept);
        let (mut by_group, mut notes) = (vec![Vec::new(); self.groups.len()], Vec::new());
        for (asked, own_slopes) in spec.groups.iter().zip(&mut by_group) {
            let own = if matches!(asked.slopes, Slopes::Only(_)) { 0 } else { first };
            let mut slopes: Vec<usize> = (0..own).collect();
            match &asked.slopes {
                Slopes::All => slopes.extend(first..first + self.products.len()),
                Slopes::Terms(terms) | Slopes::Only(terms) => {
                    for term in terms {
                        let read = Term::of_text(term);
                        let with = |(j, p): (usize, &Product)| {
                            (p.term.1.is_same(&read) || p.name == *term).then_some(first + j)
                        };
                        let found: Vec<usize> = self.products.iter().enumerate().filter_map(with).collect();
                        if found.is_empty()
                            && dropped.iter().any(|l| l.name == *term || l.name == read.label())
                        {
                            notes.push(format!(
                                "'{term}' does not vary by '{}', because it was left out",
                                asked.factor.join(":")
                            ));
                        } else if found.is_empty() {
                            let available = self.products.iter().map(|p| p.term.0.clone()).collect();
                            let (term, group) = (term.clone(), asked.factor.join(":"));
                            return Err(SpecError::UnknownSlope { term, group, available });
                        }
                        let of_levels =
                            |j: &usize| self.products[j - first].parts.iter().find(|p| p.level.is_some());
                        if let Some(part) = found.iter().find_map(of_levels)
                            && matches!(asked.slopes, Slopes::Only(_))
                            && !self.has_every_level(&read, part.column)
                        {
                            let column = self.columns[part.column].name.clone();
                            let reason = Unavailable::EveryLevel { column };
                            return Err(SpecError::Unavailable { term: asked.to_string(), reason });
                        }
                        slopes.extend(found.into_iter().filter(|j| !slopes.contains(j)).collect::<Vec<_>>());
                    }
                }
            }
            slopes.sort_unstable();
            if slopes.is_empty() {
                return Err(SpecError::NothingVaries { group: asked.factor.join(":") });
            }
            if asked.sd.is_some() && asked.correlated && slopes.len() > 1 {
                return Err(correlated(asked));
            }
            *own_slopes = slopes;
        }
        Ok((by_group, notes))
    }
}

/// The level that was asked for as the reference.
fn found(variable: &Variable, level: &str, levels: &[String]) -> Result<String, ColumnError> {
    let column = || variable.columns().concat();
    let unknown =
        || ColumnError::UnknownReference { column: column(), level: level.into(), known: levels.to_vec() };
    levels.iter().find(|own| *own == level).cloned().ok_or_else(unknown)
}

/// True if a variable of levels has all of them in a term, as in R: unless the term without that variable is in the
/// model too, in which case the reference level has no feature of its own. The term of no variable is the intercept,
/// and without one the first term that is such a variable alone takes its place.
fn has_all_levels(terms: &Terms, intercept: bool, term: usize, variable: &Variable) -> bool {
    let levels = |own: &Variable| {
        terms.variables.iter().any(|used| used.variable == *own && used.reading == Reading::Levels)
    };
    let alone = |(_, term): &(String, Term)| matches!(&term.variables[..], [own] if levels(own));
    let mut rest = terms.terms[term].1.clone();
    rest.variables.retain(|own| own != variable);
    if rest.variables.is_empty() {
        return !intercept && terms.terms.iter().position(alone) == Some(term);
    }
    !terms.terms.iter().any(|(_, other)| other.is_same(&rest))
}

/// The refusal of given sds for correlated effects.
fn correlated(asked: &GroupSpec) -> SpecError {
    let factor = asked.factor.join("/");
    let slopes = match &asked.slopes {
        Slopes::All => "*".to_string(),
        Slopes::Terms(terms) => terms.join(","),
        Slopes::Only(terms) => format!("0,{}", terms.join(",")),
    };
    SpecError::CorrelatedSds {
        term: asked.to_string(),
        independent: asked.written("||"),
        flag: format!("{factor}:: {slopes}"),
    }
}

/// The columns that a variable has in a term: one per level but the reference (`but`: the one asked for, or the first),
/// one per function of a basis, or the number.
fn choices(coding: &Coding, column: usize, but: Option<Option<&str>>) -> Vec<(String, Part)> {
    let name = &coding.name;
    match &coding.how {
        ColumnEncoding::Levels { levels, .. } => {
            let reference = but.map(|asked| asked.or(levels.first().map(String::as_str)));
            let level = |k: usize| Part { column, level: Some(k as u32), function: None };
            let own = (0..levels.len()).filter(|&k| reference != Some(Some(levels[k].as_str())));
            own.map(|k| (format!("{name}[{}]", levels[k]), level(k))).collect()
        }
        ColumnEncoding::Computed { basis, .. } if basis.columns() > 1 => {
            let function = |k: usize| Part { column, level: None, function: Some(k as u32) };
            (0..basis.columns()).map(|k| (format!("{name}[{}]", k + 1), function(k))).collect()
        }
        _ => vec![(name.clone(), Part::number(column))],
    }
}

/// The features of a term: products of one column of each of its variables, the last variable varying fastest.
fn products(text: &str, term: &Term, choices: Vec<Vec<(String, Part)>>) -> Vec<Product> {
    let mut products: Vec<(String, Vec<Part>)> = vec![(String::new(), Vec::new())];
    for (k, choices) in choices.iter().enumerate() {
        products = products
            .iter()
            .flat_map(|(before, parts)| {
                choices.iter().map(move |(name, part)| {
                    let joined = if k == 0 { name.clone() } else { format!("{before}:{name}") };
                    (joined, parts.iter().copied().chain([*part]).collect())
                })
            })
            .collect();
    }
    let product = |(name, parts)| Product { name, term: (text.into(), term.clone()), parts };
    products.into_iter().map(product).collect()
}
