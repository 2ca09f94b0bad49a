//! From the names of a request to what is read: the terms of the design, the columns they are made of, the factors by
//! which coefficients vary, and the places of all of them in the source.

use std::collections::HashSet;

use certus_likelihood::{Response, Values};

use crate::encoding::Reading;
use crate::error::{ColumnError, DataError, NoFeature, SpecError};
use crate::event::Event;
use crate::formula::{Basis, Offset, Term, Variable, response_columns};
use crate::identifiers::identifiers;
use crate::inputs::Inputs;
use crate::left::UnusedColumn;
use crate::levels::{in_order, label};
use crate::names::same;
use crate::spec::{Features, Spec, find};
use crate::table::{Batch, ColumnInfo, Kind, Source};

/// Levels of a response that are kept for a message.
pub(crate) const MOST_SHOWN: usize = 20;

/// A term as it was asked for, and as it is read.
type NamedTerm = (String, Term);

/// A variable, how it is read, and the reference level that was asked for.
type Asked = (Variable, Reading, Option<String>);

/// A variable of the terms, or a column of labels, and how it is read.
pub(crate) struct Used {
    /// The variable.
    pub(crate) variable: Variable,
    /// How it is read.
    pub(crate) reading: Reading,
    /// The level without a coefficient, if one was asked for.
    pub(crate) reference: Option<String>,
    /// The columns it is made of, in [`Terms::wanted`].
    pub(crate) inputs: Vec<usize>,
}

impl Used {
    /// A cell of row i, as the number of the column of this name.
    pub(crate) fn cell(&self, batch: &Batch<'_>, i: usize) -> impl Fn(&str) -> f64 {
        move |name| {
            let columns = self.variable.columns();
            let place = columns.iter().position(|own| *own == name).expect("one of its columns");
            let (column, row) = batch.cell(self.inputs[place], i);
            column.number(row).unwrap_or(f64::NAN)
        }
    }
}

/// What a request names, found in a source.
pub struct Terms {
    /// The terms of the design in order, as they were asked for and as they are read.
    pub(crate) terms: Vec<NamedTerm>,
    /// Every variable that terms and groups are made of, once.
    pub(crate) variables: Vec<Used>,
    /// The factors by which coefficients vary, outer ones before those within them.
    pub(crate) groups: Vec<Factor>,
    /// Columns that nobody named and that can't be features.
    pub(crate) ignored: Vec<UnusedColumn>,
    /// Places in the source of the columns of variables, then of response, trials, offset and weights as far as they
    /// are there.
    pub wanted: Vec<usize>,
    /// The response, in [`Terms::wanted`].
    pub(crate) response: usize,
}

/// A factor by which coefficients vary.
#[derive(Clone)]
pub(crate) struct Factor {
    /// Such as `school` or `school/class`.
    pub(crate) name: String,
    /// The columns whose labels together are a level, in [`Terms::variables`].
    pub(crate) columns: Vec<usize>,
    /// The standard deviation between groups, if it is given.
    pub(crate) sd: Option<f64>,
    /// The factor this one is nested in.
    pub(crate) within: Option<usize>,
}

impl Terms {
    /// Finds what a request names; contradictions, unknown columns and columns of the wrong kind are refused.
    pub fn of(source: &dyn Source, spec: &Spec) -> Result<Self, DataError> {
        spec.check()?;
        check_numbers(source, spec)?;
        let (terms, mut ignored) = named(source, spec)?;
        let of_groups = effect_terms(source, spec);
        ignored.retain(|c| !of_groups.iter().any(|(_, term)| term.columns().contains(&c.name.as_str())));
        let of_terms = variables_of_terms(source, spec, &[&terms[..], &of_groups[..]].concat())?;
        let (asked, groups) = factors(source, spec, of_terms)?;
        let mut inputs = Inputs::new(source.columns());
        let mut variables = Vec::with_capacity(asked.len());
        for (variable, reading, reference) in asked {
            let columns = variable.columns().into_iter().map(|name| inputs.add(name, reading));
            let own = columns.collect::<Result<_, _>>()?;
            variables.push(Used { variable, reading, reference, inputs: own });
        }
        let of_response = response_columns(&spec.response, spec.computed.as_ref()).into_iter();
        let of_response = of_response.map(|name| inputs.add(name, response_reading(spec.model)));
        let response = of_response.collect::<Result<Vec<_>, _>>()?[0];
        let offset = spec.offset.iter().flat_map(Offset::columns);
        let numbers = spec.trials.iter().map(String::as_str).chain(offset);
        for name in numbers.chain(spec.weights.as_deref()) {
            inputs.add(name, Reading::Number)?;
        }
        Ok(Self { terms, variables, groups, ignored, wanted: inputs.wanted, response })
    }

    /// The columns of labels of these variables, in `wanted`.
    pub(crate) fn inputs_of(&self, variables: &[usize]) -> Vec<usize> {
        variables.iter().map(|v| self.variables[*v].inputs[0]).collect()
    }

    /// The names of the features that are terms without a column of levels.
    pub fn single(&self) -> impl Iterator<Item = String> {
        let several = |variable: &Variable| match variable {
            Variable::Computed { basis, .. } => !matches!(basis, Basis::Itself | Basis::Scale),
            own => self.variables.iter().any(|u| u.variable == *own && u.reading == Reading::Levels),
        };
        let terms = self.terms.iter().map(|(_, term)| term);
        terms.filter(move |term| !term.variables.iter().any(several)).map(Term::label)
    }

    /// The event of a binary response that is not 0 and 1, from all rows that have one.
    pub fn event(&self, source: &dyn Source, spec: &Spec) -> Result<Option<Event>, DataError> {
        if spec.model.values() != Values::Binary {
            return Ok(None);
        }
        let place = self.wanted[self.response];
        let mut levels = HashSet::new();
        source.scan(&[place], &mut |batch| {
            for i in 0..batch.rows() {
                let (column, row) = batch.cell(0, i);
                if !column.is_missing(row) && levels.len() <= MOST_SHOWN {
                    levels.insert(label(batch, 0, i).into_owned());
                }
            }
            Ok(())
        })?;
        Event::of(&spec.response, &source.columns()[place].kind, &in_order(levels), spec.event.as_deref())
    }
}

/// How a response is read: a binary one by its levels, which may be 0 and 1.
fn response_reading(model: Response) -> Reading {
    if model.values() == Values::Binary { Reading::Levels } else { Reading::Number }
}

/// Response, weights, offset and trials must be numbers; the error names the first cell that is none.
fn check_numbers(source: &dyn Source, spec: &Spec) -> Result<(), DataError> {
    let columns = source.columns();
    let offset = spec.offset.iter().flat_map(Offset::columns).map(|name| (name, "offset"));
    let response = response_columns(&spec.response, spec.computed.as_ref());
    let roles = [(spec.weights.as_deref(), "weights"), (spec.trials.as_deref(), "trials")];
    let roles = roles.into_iter().filter_map(|(name, role)| name.map(|n| (n, role)));
    for (name, role) in response.into_iter().map(|name| (name, "response")).chain(roles).chain(offset) {
        let place = find(columns, name)?;
        let binary = role == "response" && spec.model.values() == Values::Binary;
        let required = if binary { "two levels, such as 0 and 1 or no and yes," } else { "numbers" };
        match &columns[place].kind {
            Kind::Number | Kind::Boolean => (),
            Kind::Text | Kind::Mixed { .. } | Kind::Inexact { .. } if binary => (),
            kind => {
                return Err(match ColumnError::unclear(name, kind) {
                    Some(error) => error,
                    None => ColumnError::WrongKind {
                        role: format!("the {role}"),
                        name: name.into(),
                        kind: Box::new(kind.clone()),
                        first_cell: Some(first_cell(source, place)?),
                        required,
                    },
                }
                .into());
            }
        }
    }
    spec.by.iter().try_for_each(|name| find(columns, name).map(|_| ()))
}

/// True for what is a feature without being named.
fn is_number(kind: &Kind) -> bool {
    matches!(kind, Kind::Number | Kind::Boolean)
}

/// The column that a term is, as numbers or as levels.
fn itself(term: &Term) -> Option<&str> {
    match &term.variables[..] {
        [Variable::Column(column) | Variable::Factor { column, .. }] => Some(column),
        _ => None,
    }
}

/// The terms of the design, and the columns that nobody named and that can't be features or tell rows apart.
fn named(source: &dyn Source, spec: &Spec) -> Result<(Vec<NamedTerm>, Vec<UnusedColumn>), DataError> {
    let columns = source.columns();
    let mut ignored = Vec::new();
    let roles: HashSet<String> = spec.roles().into_iter().map(|(name, _)| name).collect();
    let named = spec.features.named();
    let mut terms: Vec<NamedTerm> = named.iter().map(|text| (text.clone(), Term::of_text(text))).collect();
    for name in terms.iter().flat_map(|(_, term)| term.columns()) {
        find(columns, name)?;
    }
    if let Features::Terms(_) = &spec.features {
        let used: HashSet<&str> = terms.iter().flat_map(|(_, term)| term.columns()).collect();
        let rest = columns.iter().filter(|c| !used.contains(c.name.as_str()) && !roles.contains(&c.name));
        ignored.extend(rest.map(|c| UnusedColumn {
            name: c.name.clone(),
            reason: "is not among the features named".into(),
        }));
        return Ok((terms, ignored));
    }
    let is_categorical = |name: &str| spec.categorical.iter().any(|c| c.column == name);
    // `.` takes text and dates too
    let (except, every) = match &spec.features {
        Features::Others { except, .. } => (&except[..], true),
        _ => (&[][..], false),
    };
    for name in except {
        ignored.push(UnusedColumn {
            name: columns[find(columns, name)?].name.clone(),
            reason: "is left out by the formula".into(),
        });
    }
    let alone: HashSet<String> =
        terms.iter().filter_map(|(_, term)| itself(term)).map(String::from).collect();
    let taken = |name: &String| roles.contains(name) || alone.contains(name) || except.contains(name);
    let is_feature = |kind: &Kind| is_number(kind) || (every && matches!(kind, Kind::Text | Kind::Date));
    let free = |c: &&ColumnInfo| !taken(&c.name) && !is_categorical(&c.name);
    // the rows of one model among many may be counted by what is a measurement in all of them
    let unused = if spec.by.is_empty() {
        let places: Vec<usize> =
            (0..columns.len()).filter(|c| free(&&columns[*c]) && is_feature(&columns[*c].kind)).collect();
        identifiers(source, &places)?
    } else {
        Vec::new()
    };
    let identifying: HashSet<&str> = unused.iter().map(|column| column.name.as_str()).collect();
    for column in columns.iter().filter(|c| !taken(&c.name) && !identifying.contains(c.name.as_str())) {
        let categorical = is_categorical(&column.name);
        match &column.kind {
            kind if is_feature(kind) || categorical => {
                let variables = vec![Variable::Column(column.name.clone())];
                terms.push((column.name.clone(), Term { variables }));
            }
            kind => {
                if let Some(error) = ColumnError::unclear(&column.name, kind) {
                    return Err(error.into());
                }
                let hint = if matches!(kind, Kind::Text | Kind::Date) {
                    "; name it as a feature to use it"
                } else {
                    ""
                };
                let reason = format!("holds {}{hint}", kind.words());
                ignored.push(UnusedColumn { name: column.name.clone(), reason });
            }
        }
    }
    ignored.extend(unused);
    if terms.is_empty() {
        let why = match ignored.first() {
            Some(left) => {
                let cell = first_cell(source, find(columns, &left.name)?)?;
                NoFeature::NotNumbers(left.clone(), cell)
            }
            None => NoFeature::OtherRoles,
        };
        return Err(ColumnError::NoFeature(why).into());
    }
    Ok((terms, ignored))
}

/// The terms that vary by group, as far as there are columns of these names.
fn effect_terms(source: &dyn Source, spec: &Spec) -> Vec<NamedTerm> {
    let terms = spec.groups.iter().flat_map(|group| group.slopes.terms());
    let read = terms.map(|text| (text.clone(), Term::of_text(text)));
    read.filter(|(_, term)| term.columns().iter().all(|name| find(source.columns(), name).is_ok())).collect()
}

/// The variables of the terms, how they are read, and the reference levels asked for.
fn variables_of_terms(
    source: &dyn Source,
    spec: &Spec,
    terms: &[NamedTerm],
) -> Result<Vec<Asked>, DataError> {
    let mut variables: Vec<Asked> = Vec::new();
    for variable in terms.iter().flat_map(|(_, term)| &term.variables) {
        if variables.iter().any(|(known, ..)| known == variable) {
            continue;
        }
        let (reading, reference) = match variable {
            Variable::Computed { .. } => (Reading::Computed, None),
            Variable::Factor { reference, .. } => (Reading::Levels, reference.clone()),
            Variable::Column(name) => match spec.categorical.iter().find(|c| c.column == *name) {
                Some(own) => (Reading::Levels, own.reference.clone()),
                None => match &source.columns()[find(source.columns(), name)?].kind {
                    Kind::Boolean => (Reading::Boolean, None),
                    Kind::Date => (Reading::Days, None),
                    Kind::Text => (Reading::Levels, None),
                    _ => (Reading::Number, None),
                },
            },
        };
        variables.push((variable.clone(), reading, reference));
    }
    let is_column = |name: &String| variables.iter().any(|(v, ..)| *v == Variable::Column(name.clone()));
    if let Some(unused) = spec.categorical.iter().find(|c| !is_column(&c.column)) {
        find(source.columns(), &unused.column)?;
        let available = variables.iter().map(|(variable, ..)| variable.label()).collect();
        return Err(SpecError::UnusedCategorical { column: unused.column.clone(), available }.into());
    }
    Ok(variables)
}

/// The factors of the groups, and the variables with those that are labels only.
fn factors(
    source: &dyn Source,
    spec: &Spec,
    mut variables: Vec<Asked>,
) -> Result<(Vec<Asked>, Vec<Factor>), DataError> {
    let mut groups: Vec<Factor> = Vec::new();
    for (k, asked) in spec.groups.iter().enumerate() {
        let mut places = Vec::new();
        for factor in &asked.factor {
            find(source.columns(), factor)?;
            let column = Variable::Column(factor.clone());
            let known = variables.iter().position(|(variable, ..)| *variable == column);
            places.push(known.unwrap_or_else(|| {
                variables.push((column, Reading::Label, None));
                variables.len() - 1
            }));
        }
        // nested in the longest factor that it begins with
        let earlier = spec.groups[..k].iter().position(|other| same(&other.factor, &asked.factor));
        if let Some(j) = earlier {
            // correlated effects beside independent ones; a given sd would be that of both
            let shared = spec.groups[..k].iter().any(|other| {
                same(&other.factor, &asked.factor)
                    && (other.sd.is_some() || other.slopes.shares(&asked.slopes))
            });
            if shared {
                return Err(SpecError::Repeated { what: "group", name: asked.factor.join("/") }.into());
            }
            let Factor { name, columns, within, .. } = groups[j].clone();
            groups.push(Factor { name, columns, sd: asked.sd, within });
            continue;
        }
        let outer = |j: &usize| asked.factor.starts_with(&spec.groups[*j].factor);
        let within = (0..k).filter(outer).max_by_key(|j| spec.groups[*j].factor.len());
        let rest = within.map_or(0, |j| spec.groups[j].factor.len());
        let own = asked.factor[rest..].join(":");
        let name = within.map_or(own.clone(), |j| format!("{}/{own}", groups[j].name));
        groups.push(Factor { name, columns: places, sd: asked.sd, within });
    }
    Ok((variables, groups))
}

/// The first cell of a column that is not missing, in words.
fn first_cell(source: &dyn Source, column: usize) -> Result<String, DataError> {
    if matches!(source.columns()[column].kind, Kind::Other(_)) {
        return Ok("of a type that can't be read".into());
    }
    let mut found = None;
    source.scan(&[column], &mut |batch| {
        if found.is_none() {
            found = (0..batch.rows()).find_map(|i| {
                let (cells, row) = batch.cell(0, i);
                (!cells.is_missing(row)).then(|| format!("'{}' in {}", cells.label(row), batch.place(i)))
            });
        }
        Ok(())
    })?;
    Ok(found.unwrap_or_else(|| "missing in every row".into()))
}
