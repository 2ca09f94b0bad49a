//! From terms and levels to the columns of the design: what is multiplied, how cells become numbers, and which
//! coefficients vary by group. With what the rows are like it becomes an encoding.

use crate::encoding::{Coding, ColumnEncoding, Encoding, Feature, Group, Part, Reading};
use crate::error::{SpecError, Unavailable};
use crate::left::UnusedColumn;
use crate::profile::Profile;
use crate::reader::{Labels, Recipe};
use crate::spec::{GroupSpec, Slopes, Spec, parts, same_parts};
use crate::summary::Summary;
use crate::terms::{Factor, Terms};
use crate::units::{Spread, unit_of};

/// The columns of the design and the levels of the groups, before any row was encoded.
pub(crate) struct Layout {
    /// Columns that features and groups are made of.
    pub(crate) columns: Vec<Coding>,
    /// The features.
    pub(crate) products: Vec<Product>,
    /// The groups with their levels.
    pub(crate) groups: Vec<(Factor, Vec<String>)>,
}

/// A feature: a product of columns and levels.
#[derive(Clone)]
pub(crate) struct Product {
    /// Such as `rain`, `city[Utrecht]` or `city[Utrecht]:rain`.
    pub(crate) name: String,
    /// The term it comes from.
    pub(crate) term: String,
    /// What is multiplied.
    pub(crate) parts: Vec<Part>,
}

impl Layout {
    /// Of terms whose levels and dates are known.
    pub(crate) fn of(terms: &Terms, profile: &Profile, intercept: bool) -> Self {
        let full = |t: usize, name: &str| has_all_levels(terms, intercept, t, name);
        let coding = |(c, (name, reading)): (usize, &(String, Reading))| {
            let how = match reading {
                Reading::Number => ColumnEncoding::Number,
                Reading::Boolean => ColumnEncoding::Boolean,
                Reading::Days => ColumnEncoding::Days { first: profile.first_dates[c] },
                Reading::Label => ColumnEncoding::Label,
                Reading::Levels => {
                    let levels = profile.levels[c].clone();
                    // the last term that has the column decides
                    let last = terms.names.iter().rposition(|term| parts(term).contains(&name.as_str()));
                    let all = last.is_some_and(|t| full(t, name));
                    let reference = if all { None } else { levels.first().cloned() };
                    ColumnEncoding::Levels { levels, reference }
                }
            };
            Coding { name: name.clone(), how }
        };
        let columns: Vec<Coding> = terms.columns.iter().enumerate().map(coding).collect();
        let expand = |(t, term): (usize, &String)| products(term, &columns, |name| full(t, name));
        let products = terms.names.iter().enumerate().flat_map(expand).collect();
        let groups = terms.groups.iter().cloned().zip(profile.group_levels.iter().cloned()).collect();
        Self { columns, products, groups }
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
            response: Some(&spec.response),
            trials: spec.trials.as_deref(),
            offset: spec.offset.as_deref(),
            weights: spec.weights.as_deref(),
        }
    }

    /// The encoding, with what the rows are like and the coefficients that vary by each group.
    pub(crate) fn encoding(
        self,
        spec: &Spec,
        summary: &Summary,
        spreads: &[(usize, Spread)],
        slopes: Vec<Vec<usize>>,
    ) -> Encoding {
        let Self { columns, products, groups } = self;
        let feature = |(j, Product { name, term, parts }): (usize, Product)| {
            let (mean, sd) = summary.moments[j];
            let unit = Some(unit_of(&parts, &columns, summary.units[j], spreads));
            Feature { name, term, parts, mean, sd, unit }
        };
        let features = products.into_iter().enumerate().map(feature).collect();
        let group = |((factor, levels), slopes): ((Factor, Vec<String>), Vec<usize>)| {
            let Factor { name, columns, sd, within } = factor;
            Group { name, columns, levels, slopes, sd, within }
        };
        Encoding {
            response: spec.response.clone(),
            features,
            columns,
            groups: groups.into_iter().zip(slopes).map(group).collect(),
            trials: spec.trials.clone(),
            offset: spec.offset.clone(),
            weights: spec.weights.clone(),
            intercept: spec.intercept,
            standardise: spec.standardise,
        }
    }

    /// True if a term has a feature for every level of a column.
    fn has_every_level(&self, term: &str, column: usize) -> bool {
        let of_term = |p: &&Product| same_parts(&parts(&p.term), &parts(term));
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
                        let matches = |name: &str| same_parts(&parts(name), &parts(term));
                        let with = |(j, p): (usize, &Product)| {
                            (matches(&p.term) || p.name == *term).then_some(first + j)
                        };
                        let found: Vec<usize> = self.products.iter().enumerate().filter_map(with).collect();
                        if found.is_empty() && dropped.iter().any(|l| l.name == *term) {
                            notes.push(format!(
                                "'{term}' does not vary by '{}', because it was left out",
                                asked.factor.join(":")
                            ));
                        } else if found.is_empty() {
                            let available = self.products.iter().map(|p| p.term.clone()).collect();
                            let (term, group) = (term.clone(), asked.factor.join(":"));
                            return Err(SpecError::UnknownSlope { term, group, available });
                        }
                        let of_levels =
                            |j: &usize| self.products[j - first].parts.iter().find(|p| p.level.is_some());
                        if let Some(part) = found.iter().find_map(of_levels)
                            && matches!(asked.slopes, Slopes::Only(_))
                            && !self.has_every_level(term, part.column)
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

/// True if a column of levels has all of them in a term, as in R: unless the term without that column is in the model
/// too, in which case the reference level has no feature of its own. The term of no column is the intercept; without
/// one, the first term that is such a column alone takes its place.
fn has_all_levels(terms: &Terms, intercept: bool, term: usize, name: &str) -> bool {
    let levels = |name: &str| terms.columns.iter().any(|(n, r)| n == name && *r == Reading::Levels);
    let alone = |term: &String| matches!(parts(term)[..], [name] if levels(name));
    let mut rest = parts(&terms.names[term]);
    rest.retain(|part| *part != name);
    if rest.is_empty() {
        return !intercept && terms.names.iter().position(alone) == Some(term);
    }
    !terms.names.iter().any(|other| same_parts(&parts(other), &rest))
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

/// The features of a term. Text is coded by treatment: a feature per level but the first, which is the reference, or
/// per level if the column is `full`. Products multiply the columns of their parts, the last part varying fastest.
fn products(term: &str, columns: &[Coding], full: impl Fn(&str) -> bool) -> Vec<Product> {
    let mut products: Vec<(String, Vec<Part>)> = vec![(String::new(), Vec::new())];
    for name in parts(term) {
        let column = columns.iter().position(|c| c.name == name).expect("every part has a coding");
        let choices: Vec<(String, Part)> = match &columns[column].how {
            ColumnEncoding::Levels { levels, .. } => {
                let level = |k: usize| Part { column, level: Some(k as u32) };
                let from = usize::from(!full(name));
                (from..levels.len()).map(|k| (format!("{name}[{}]", levels[k]), level(k))).collect()
            }
            _ => vec![(name.to_string(), Part { column, level: None })],
        };
        products = products
            .iter()
            .flat_map(|(before, parts)| {
                choices.iter().map(move |(name, part)| {
                    let joined = if before.is_empty() { name.clone() } else { format!("{before}:{name}") };
                    (joined, parts.iter().copied().chain([*part]).collect())
                })
            })
            .collect();
    }
    let product = |(name, parts)| Product { name, term: term.into(), parts };
    products.into_iter().map(product).collect()
}
