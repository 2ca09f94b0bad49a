//! From the names of a request to what is read: the terms of the design, the columns they are made of, the factors by
//! which coefficients vary, and the places of all of them in the source.

use certus_likelihood::Values;

use crate::encoding::Reading;
use crate::error::{ColumnError, DataError, NoFeature, SpecError};
use crate::left::UnusedColumn;
use crate::names::same;
use crate::reader::places;
use crate::spec::{Features, Spec, find, parts};
use crate::table::{Kind, Source};

/// The name of a column, and how it is read.
type Named = (String, Reading);

/// What a request names, found in a source.
pub struct Terms {
    /// The terms of the design, in order.
    pub names: Vec<String>,
    /// Every column that terms and groups are made of, once, and how it is read.
    pub(crate) columns: Vec<Named>,
    /// The factors by which coefficients vary, outer ones before those within them.
    pub(crate) groups: Vec<Factor>,
    /// Columns that nobody named and that can't be features.
    pub(crate) ignored: Vec<UnusedColumn>,
    /// Places in the source of the columns, then of response, trials, offset and weights as far as they are there.
    pub wanted: Vec<usize>,
}

/// A factor by which coefficients vary.
#[derive(Clone)]
pub(crate) struct Factor {
    /// Such as `school` or `school/class`.
    pub(crate) name: String,
    /// The columns whose labels together are a level, in [`Terms::columns`].
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
        let (names, ignored) = names(source, spec)?;
        let of_terms = columns_of_terms(source, &names)?;
        let (columns, groups) = factors(source, spec, of_terms)?;
        let coded = columns.iter().map(|(name, reading)| (name.as_str(), *reading));
        let roles = [Some(&spec.response), spec.trials.as_ref(), spec.offset.as_ref(), spec.weights.as_ref()];
        let roles = roles.into_iter().flatten().map(|name| (name.as_str(), Reading::Number));
        let wanted = places(source.columns(), coded.chain(roles))?;
        Ok(Self { names, columns, groups, ignored, wanted })
    }

    /// The names of the features that are terms without a column of levels.
    pub fn single(&self) -> impl Iterator<Item = String> {
        let levels = |name: &str| self.columns.iter().any(|(n, r)| n == name && *r == Reading::Levels);
        self.names
            .iter()
            .map(|term| parts(term))
            .filter(move |p| !p.iter().any(|n| levels(n)))
            .map(|p| p.join(":"))
    }
}

/// Response, weights, offset and trials must be numbers; the error names the first cell that is none.
fn check_numbers(source: &dyn Source, spec: &Spec) -> Result<(), DataError> {
    let columns = source.columns();
    let roles = [
        (Some(&spec.response), "response"),
        (spec.weights.as_ref(), "weights"),
        (spec.offset.as_ref(), "offset"),
        (spec.trials.as_ref(), "trials"),
    ];
    for (name, role) in roles.into_iter().filter_map(|(name, role)| name.map(|n| (n, role))) {
        let place = find(columns, name)?;
        let required = match spec.model.values() {
            Values::Binary if role == "response" => "0, 1 or truth values",
            _ => "numbers",
        };
        match &columns[place].kind {
            Kind::Number | Kind::Boolean => (),
            kind => {
                return Err(match ColumnError::unclear(name, kind) {
                    Some(error) => error,
                    None => ColumnError::WrongKind {
                        role: format!("the {role}"),
                        name: name.clone(),
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

/// The terms of the design, and the columns that nobody named and that can't be features.
fn names(source: &dyn Source, spec: &Spec) -> Result<(Vec<String>, Vec<UnusedColumn>), DataError> {
    let columns = source.columns();
    let (mut terms, mut ignored) = (Vec::new(), Vec::new());
    let roles = spec.roles();
    match &spec.features {
        Features::Terms(named) => {
            for term in named {
                for part in parts(term) {
                    find(columns, part)?;
                }
                terms.push(term.clone());
            }
            let used: Vec<&str> = named.iter().flat_map(|term| parts(term)).collect();
            let rest = columns.iter().filter(|c| !used.contains(&c.name.as_str()));
            let rest = rest.filter(|c| roles.iter().all(|(name, _)| *name != c.name));
            ignored.extend(rest.map(|c| UnusedColumn {
                name: c.name.clone(),
                reason: "is not among the features named".into(),
            }));
            return Ok((terms, ignored));
        }
        Features::All => {
            for column in columns.iter().filter(|c| roles.iter().all(|(name, _)| *name != c.name)) {
                match &column.kind {
                    Kind::Number | Kind::Boolean => terms.push(column.name.clone()),
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
        }
    }
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

/// The columns of the terms, and how they are read.
fn columns_of_terms(source: &dyn Source, terms: &[String]) -> Result<Vec<Named>, DataError> {
    let mut columns: Vec<Named> = Vec::new();
    for name in terms.iter().flat_map(|term| parts(term)) {
        if columns.iter().any(|(known, _)| known == name) {
            continue;
        }
        let reading = match &source.columns()[find(source.columns(), name)?].kind {
            Kind::Boolean => Reading::Boolean,
            Kind::Date => Reading::Days,
            Kind::Text => Reading::Levels,
            _ => Reading::Number,
        };
        columns.push((name.into(), reading));
    }
    Ok(columns)
}

/// The factors of the groups, and the columns with those that are labels only.
fn factors(
    source: &dyn Source,
    spec: &Spec,
    mut columns: Vec<Named>,
) -> Result<(Vec<Named>, Vec<Factor>), DataError> {
    let mut groups: Vec<Factor> = Vec::new();
    for (k, asked) in spec.groups.iter().enumerate() {
        let mut places = Vec::new();
        for factor in &asked.factor {
            find(source.columns(), factor)?;
            let known = columns.iter().position(|(name, _)| name == factor);
            places.push(known.unwrap_or_else(|| {
                columns.push((factor.clone(), Reading::Label));
                columns.len() - 1
            }));
        }
        // nested in the longest factor that it begins with
        let outer = |j: &usize| asked.factor.starts_with(&spec.groups[*j].factor);
        let within = (0..k).filter(outer).max_by_key(|j| spec.groups[*j].factor.len());
        let rest = within.map_or(0, |j| spec.groups[j].factor.len());
        let own = asked.factor[rest..].join(":");
        let name = within.map_or(own.clone(), |j| format!("{}/{own}", groups[j].name));
        if spec.groups[..k].iter().any(|other| same(&other.factor, &asked.factor)) {
            return Err(SpecError::Repeated { what: "group", name: asked.factor.join("/") }.into());
        }
        groups.push(Factor { name, columns: places, sd: asked.sd, within });
    }
    Ok((columns, groups))
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
