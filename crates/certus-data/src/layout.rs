//! From terms and levels to the columns of the design: what is multiplied, how cells become numbers, and which
//! coefficients vary by group. With what the rows are like it becomes an encoding.

use crate::encoding::{
    Coding, ColumnEncoding, EffectColumn, Encoding, Feature, Group, INTERCEPT, Part, Reading,
};
use crate::error::{ColumnError, DataError, SpecError, Unavailable};
use crate::event::Event;
use crate::formula::{Term, Variable};
use crate::left::UnusedColumn;
use crate::profile::Profile;
use crate::reader::{Labels, Recipe};
use crate::spec::{GroupSpec, Slopes, Spec};
use crate::summary::Summary;
use crate::terms::{Factor, Terms, Used};
use crate::units::{Spread, Spreads, unit_of};

/// The columns of the design and the levels of the groups, before any row was encoded.
pub(crate) struct Layout {
    /// Columns that features and groups are made of.
    pub(crate) columns: Vec<Coding>,
    /// The features.
    pub(crate) products: Vec<Product>,
    /// The groups with their levels.
    pub(crate) groups: Vec<(Factor, Vec<String>)>,
    /// What varies by group without being a feature.
    pub(crate) effects: Vec<Product>,
    /// What varies by each group, term by term.
    varying: Vec<Vec<(String, Vec<Product>)>>,
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

impl Product {
    /// Of nothing: 1 in every row.
    fn intercept() -> Self {
        let term = (INTERCEPT.to_string(), Term { variables: Vec::new() });
        Self { name: INTERCEPT.into(), term, parts: Vec::new() }
    }

    /// True for the same numbers.
    fn is_same(&self, other: &Self) -> bool {
        self.parts.len() == other.parts.len() && self.parts.iter().all(|part| other.parts.contains(part))
    }
}

impl Layout {
    /// Of terms whose levels, dates and bases are known.
    pub(crate) fn of(terms: &Terms, profile: &Profile, spec: &Spec) -> Result<Self, DataError> {
        let fixed = Coded { used: &terms.variables, terms: &terms.terms, intercept: spec.intercept };
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
                    let all = last.is_none_or(|t| fixed.has_all_levels(t, variable));
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
        let products = fixed.products(&columns);
        let varying: Vec<_> =
            spec.groups.iter().map(|asked| varying(asked, &terms.variables, &columns, &products)).collect();
        let mut effects: Vec<Product> = Vec::new();
        for (asked, own) in spec.groups.iter().zip(&varying) {
            let around_none =
                !spec.intercept && asked.sd.is_none() && matches!(asked.slopes, Slopes::Terms(_));
            let own = own.iter().flat_map(|(_, products)| products.clone());
            for product in around_none.then(Product::intercept).into_iter().chain(own) {
                if !products.iter().chain(&effects).any(|other| other.is_same(&product)) {
                    effects.push(product);
                }
            }
        }
        let groups = terms.groups.iter().cloned().zip(profile.group_levels.iter().cloned()).collect();
        let event = profile.event.clone();
        Ok(Self { columns, products, groups, effects, varying, event })
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
            effects: self.effects.iter().map(|p| (p.name.as_str(), p.parts.as_slice())).collect(),
            response: Some((&spec.response, self.event.as_ref())),
            computed: spec.computed.as_ref(),
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
        spreads: &Spreads,
        slopes: Vec<Vec<usize>>,
    ) -> Encoding {
        let Self { columns, products, groups, effects, event, .. } = self;
        let feature = |(j, Product { name, term: (term, _), parts }): (usize, Product)| {
            let (mean, sd) = summary.moments[j];
            let unit = Some(unit_of(&parts, &columns, summary.units[j], &spreads.parts));
            Feature { name, term, parts, mean, sd, unit }
        };
        let effect = |(Product { name, parts, .. }, spread): (Product, &Spread)| {
            let unit = unit_of(&parts, &columns, spread.unit(), &spreads.parts);
            EffectColumn { name, parts, unit: if spec.standardise { unit } else { 1.0 } }
        };
        let effects = effects.into_iter().zip(&spreads.effects).map(effect).collect();
        let features = products.into_iter().enumerate().map(feature).collect();
        let mut varying = Vec::with_capacity(groups.len());
        for (((factor, levels), slopes), asked) in groups.into_iter().zip(slopes).zip(&spec.groups) {
            let Factor { name, columns, sd, within } = factor;
            let correlated = asked.correlated && slopes.len() > 1;
            varying.push(Group { name, columns, levels, slopes, sd, within, correlated });
        }
        Encoding {
            response: spec.response.clone(),
            computed: spec.computed.clone(),
            features,
            columns,
            groups: varying,
            effects,
            trials: spec.trials.clone(),
            offset: spec.offset.clone(),
            weights: spec.weights.clone(),
            event,
            intercept: spec.intercept,
            standardise: spec.standardise,
        }
    }

    /// Which columns vary by each group ([`Group::slopes`]), and what to say of those that were to vary and were
    /// dropped.
    pub(crate) fn slopes(
        &self,
        spec: &Spec,
        dropped: &[UnusedColumn],
    ) -> Result<(Vec<Vec<usize>>, Vec<String>), SpecError> {
        let first = usize::from(spec.intercept);
        let columns = || self.products.iter().chain(&self.effects).enumerate();
        let place = |own: &Product| columns().find(|(_, p)| p.is_same(own)).map(|(j, _)| first + j);
        let (mut by_group, mut notes) = (Vec::new(), Vec::new());
        for (asked, varying) in spec.groups.iter().zip(&self.varying) {
            let intercept = match asked.slopes {
                Slopes::Only(_) => None,
                _ if spec.intercept => Some(0),
                _ => place(&Product::intercept()),
            };
            let mut slopes = Vec::new();
            if asked.slopes == Slopes::All {
                slopes.extend(first..first + self.products.len());
            }
            for (term, products) in varying {
                let found: Vec<usize> = products.iter().filter_map(place).collect();
                if found.is_empty() {
                    let (group, label) = (asked.factor.join(":"), Term::of_text(term).label());
                    if !dropped.iter().any(|l| l.name == *term || l.name == label) {
                        if asked.sd.is_some() && self.columns.iter().any(|c| c.name == label) {
                            return Err(not_fixed(asked, &label));
                        }
                        let available = self.products.iter().map(|p| p.term.0.clone()).collect();
                        return Err(SpecError::UnknownSlope { term: term.clone(), group, available });
                    }
                    notes.push(format!("'{term}' does not vary by '{group}', because it was left out"));
                }
                for place in found {
                    if !slopes.contains(&place) {
                        slopes.push(place);
                    }
                }
            }
            // hierarchical models have the order of the design
            if asked.sd.is_some() {
                slopes.sort_unstable();
            }
            slopes.splice(..0, intercept);
            if slopes.is_empty() {
                return Err(SpecError::NothingVaries { group: asked.factor.join(":") });
            }
            if asked.sd.is_some() && asked.correlated && slopes.len() > 1 {
                return Err(correlated(asked));
            }
            by_group.push(slopes);
        }
        Ok((by_group, notes))
    }
}

/// Terms beside each other, whose levels are coded as R does it.
struct Coded<'a> {
    used: &'a [Used],
    terms: &'a [(String, Term)],
    /// True if there is an intercept beside them.
    intercept: bool,
}

impl Coded<'_> {
    /// True if a variable of levels has all of them in a term: unless the term without that variable is there too, in
    /// which case the reference level has no column of its own. The term of no variable is the intercept, and without
    /// one the first term that is such a variable alone takes its place.
    fn has_all_levels(&self, term: usize, variable: &Variable) -> bool {
        let levels = |own: &Variable| {
            self.used.iter().any(|used| used.variable == *own && used.reading == Reading::Levels)
        };
        let alone = |(_, term): &(String, Term)| matches!(&term.variables[..], [own] if levels(own));
        let mut rest = self.terms[term].1.clone();
        rest.variables.retain(|own| own != variable);
        if rest.variables.is_empty() {
            return !self.intercept && self.terms.iter().position(alone) == Some(term);
        }
        !self.terms.iter().any(|(_, other)| other.is_same(&rest))
    }

    /// The columns of a term; none if it has a variable that is not read.
    fn of_term(&self, t: usize, columns: &[Coding]) -> Vec<Product> {
        let (text, term) = &self.terms[t];
        let choices = term.variables.iter().map(|variable| {
            let column = self.used.iter().position(|used| used.variable == *variable)?;
            let reference = self.used[column].reference.as_deref();
            let but = (!self.has_all_levels(t, variable)).then_some(reference);
            Some(choices(&columns[column], column, but))
        });
        choices.collect::<Option<_>>().map_or(Vec::new(), |choices| products(text, term, choices))
    }

    fn products(&self, columns: &[Coding]) -> Vec<Product> {
        (0..self.terms.len()).flat_map(|t| self.of_term(t, columns)).collect()
    }
}

/// What varies by a group, term by term: a feature that is named, or the columns of a term. Where an sd is given these
/// are features, else their levels are coded as if the group's terms were alone.
fn varying(
    asked: &GroupSpec,
    used: &[Used],
    columns: &[Coding],
    features: &[Product],
) -> Vec<(String, Vec<Product>)> {
    let terms: Vec<(String, Term)> =
        asked.slopes.terms().iter().map(|text| (text.clone(), Term::of_text(text))).collect();
    let intercept = !matches!(asked.slopes, Slopes::Only(_));
    let own = Coded { used, terms: &terms, intercept };
    let of = |(t, (text, term)): (usize, &(String, Term))| {
        let named: Vec<Product> = features.iter().filter(|p| p.name == *text).cloned().collect();
        let products = match (named.is_empty(), asked.sd) {
            (false, _) => named,
            (true, Some(_)) => features.iter().filter(|p| p.term.1.is_same(term)).cloned().collect(),
            (true, None) => own.of_term(t, columns),
        };
        (text.clone(), products)
    };
    terms.iter().enumerate().map(of).collect()
}

/// The level that was asked for as the reference.
fn found(variable: &Variable, level: &str, levels: &[String]) -> Result<String, ColumnError> {
    let column = || variable.columns().concat();
    let unknown =
        || ColumnError::UnknownReference { column: column(), level: level.into(), known: levels.to_vec() };
    levels.iter().find(|own| *own == level).cloned().ok_or_else(unknown)
}

/// The refusal of a given sd for what is no fixed effect.
fn not_fixed(asked: &GroupSpec, effect: &str) -> SpecError {
    let (needed, cure) = ("sds that are not given", "leave out group-sd");
    let reason = Unavailable::NotFixed { effect: format!("'{effect}'"), needed, cure };
    SpecError::Unavailable { term: asked.to_string(), reason }
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
