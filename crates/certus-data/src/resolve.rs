//! From the names of a request to an encoding: terms, columns and their codes, features, groups and what varies by them.

use crate::encoding::{Coding, Encoding, Feature, Group, How, Part};
use crate::error::DataError;
use crate::prepare::Left;
use crate::profile::first_cell;
use crate::spec::{Family, Features, Slopes, Spec, find, nearest, parts, same_parts};
use crate::table::{Kind, Source};

/// Response, weights, offset and trials must be numbers; the error names the first cell that is none.
pub(crate) fn check_numbers(source: &dyn Source, spec: &Spec) -> Result<(), DataError> {
    let columns = source.columns();
    let roles = [
        (Some(&spec.response), "response"),
        (spec.weights.as_ref(), "weights"),
        (spec.offset.as_ref(), "offset"),
        (spec.trials.as_ref(), "trials"),
    ];
    for (name, role) in roles.into_iter().filter_map(|(name, role)| name.map(|n| (n, role))) {
        let place = find(columns, name)?;
        let needed = match spec.family {
            Family::Logistic | Family::Probit if role == "response" => "0, 1 or truth values",
            _ => "numbers",
        };
        match &columns[place].kind {
            Kind::Number | Kind::Boolean => (),
            Kind::Mixed(words) => return Err(DataError::BadData(words.clone())),
            kind => {
                return Err(DataError::BadData(format!(
                    "the {role} '{name}' holds {}: its first cell is {}, but {needed} are required",
                    kind.words(),
                    first_cell(source, place)?
                )));
            }
        }
    }
    spec.by.iter().try_for_each(|name| find(columns, name).map(|_| ()))
}

/// The terms of the design, and the columns that nobody named and that can't be features.
pub(crate) fn terms(source: &dyn Source, spec: &Spec) -> Result<(Vec<String>, Vec<Left>), DataError> {
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
            ignored.extend(
                rest.map(|c| Left { name: c.name.clone(), reason: "is not among the features named".into() }),
            );
            return Ok((terms, ignored));
        }
        Features::All => {
            for column in columns.iter().filter(|c| roles.iter().all(|(name, _)| *name != c.name)) {
                match &column.kind {
                    Kind::Number | Kind::Boolean => terms.push(column.name.clone()),
                    Kind::Mixed(words) => return Err(DataError::BadData(words.clone())),
                    kind => {
                        let hint = if matches!(kind, Kind::Text | Kind::Date) {
                            "; name it as a feature to use it"
                        } else {
                            ""
                        };
                        let reason = format!("holds {}{hint}", kind.words());
                        ignored.push(Left { name: column.name.clone(), reason });
                    }
                }
            }
        }
    }
    if terms.is_empty() {
        let why = match ignored.first() {
            Some(left) => {
                let cell = first_cell(source, find(columns, &left.name)?)?;
                format!("'{}' {}, its first cell is {cell}", left.name, left.reason)
            }
            None => "every column has another role".into(),
        };
        return Err(DataError::BadData(format!("no feature is left among all columns of numbers: {why}")));
    }
    Ok((terms, ignored))
}

/// The encoding with everything but levels, dates and features.
pub(crate) fn columns_and_groups(
    source: &dyn Source,
    spec: &Spec,
    terms: &[String],
) -> Result<Encoding, DataError> {
    let mut columns: Vec<Coding> = Vec::new();
    for name in terms.iter().flat_map(|term| parts(term)) {
        if columns.iter().any(|c| c.name == name) {
            continue;
        }
        let how = match &source.columns()[find(source.columns(), name)?].kind {
            Kind::Boolean => How::Boolean,
            Kind::Date => How::Days { first: 0.0 },
            Kind::Text => How::Levels { levels: Vec::new(), reference: None },
            _ => How::Number,
        };
        columns.push(Coding { name: name.into(), how });
    }
    let mut groups: Vec<Group> = Vec::new();
    for asked in &spec.groups {
        let factors: Vec<&str> = asked.factor.split('/').map(str::trim).collect();
        let mut places = Vec::new();
        let mut within = None;
        for (depth, factor) in factors.iter().enumerate() {
            find(source.columns(), factor)?;
            let known = columns.iter().position(|c| c.name == *factor);
            places.push(known.unwrap_or_else(|| {
                columns.push(Coding { name: (*factor).into(), how: How::Label });
                columns.len() - 1
            }));
            let name = factors[..=depth].join("/");
            let there = groups.iter().position(|g| g.name == name);
            if there.is_some() && depth + 1 == factors.len() {
                return Err(DataError::Usage(format!("the group '{name}' is named twice: name it once")));
            }
            within = Some(there.unwrap_or_else(|| {
                groups.push(Group {
                    name,
                    columns: places.clone(),
                    levels: Vec::new(),
                    slopes: Vec::new(),
                    sd: asked.sd,
                    within,
                });
                groups.len() - 1
            }));
        }
    }
    Ok(Encoding {
        response: spec.response.clone(),
        columns,
        features: Vec::new(),
        groups,
        trials: spec.trials.clone(),
        offset: spec.offset.clone(),
        weights: spec.weights.clone(),
        intercept: spec.intercept,
        standardise: spec.standardise,
    })
}

/// Terms to features. Text is coded by treatment: a feature per level but the first, which is the reference; without an intercept the
/// first term of text alone keeps all its levels, for it takes the intercept's place. Products multiply the columns of their parts, the
/// last part varying fastest.
pub(crate) fn expand(encoding: &mut Encoding, terms: &[String]) {
    let mut full = !encoding.intercept;
    for term in terms {
        let names = parts(term);
        let mut products: Vec<(String, Vec<Part>)> = vec![(String::new(), Vec::new())];
        for name in &names {
            let column =
                encoding.columns.iter().position(|c| c.name == *name).expect("every part has a coding");
            let choices: Vec<(String, Part)> = match &mut encoding.columns[column].how {
                How::Levels { levels, reference } => {
                    let keep_all = names.len() == 1 && std::mem::take(&mut full);
                    let from = usize::from(!keep_all);
                    *reference = if keep_all { None } else { levels.first().cloned() };
                    let level = |k: usize| Part { column, level: Some(k as u32) };
                    (from..levels.len()).map(|k| (format!("{name}[{}]", levels[k]), level(k))).collect()
                }
                _ => vec![((*name).to_string(), Part { column, level: None })],
            };
            products = products
                .iter()
                .flat_map(|(before, parts)| {
                    choices.iter().map(move |(name, part)| {
                        let joined =
                            if before.is_empty() { name.clone() } else { format!("{before}:{name}") };
                        (joined, parts.iter().copied().chain([*part]).collect())
                    })
                })
                .collect();
        }
        let feature =
            |(name, parts)| Feature { name, term: term.clone(), parts, mean: 0.0, sd: 0.0, unit: None };
        encoding.features.extend(products.into_iter().map(feature));
    }
}

/// Which coefficients vary by each group.
pub(crate) fn slopes(
    spec: &Spec,
    encoding: &mut Encoding,
    dropped: &[Left],
    notes: &mut Vec<String>,
) -> Result<(), DataError> {
    let first = usize::from(spec.intercept);
    for asked in &spec.groups {
        let own = if matches!(asked.slopes, Slopes::Only(_)) { 0 } else { first };
        let mut slopes: Vec<usize> = (0..own).collect();
        match &asked.slopes {
            Slopes::All => slopes.extend(first..first + encoding.features.len()),
            Slopes::Terms(terms) | Slopes::Only(terms) => {
                for term in terms {
                    let matches = |name: &str| same_parts(&parts(name), &parts(term));
                    let with = |(j, f): (usize, &Feature)| {
                        (matches(&f.term) || f.name == *term).then_some(first + j)
                    };
                    let found: Vec<usize> = encoding.features.iter().enumerate().filter_map(with).collect();
                    if found.is_empty() && dropped.iter().any(|l| l.name == *term) {
                        notes.push(format!(
                            "'{term}' does not vary by '{}', for it was left out",
                            asked.factor
                        ));
                    } else if found.is_empty() {
                        let names = encoding.features.iter().map(|f| f.term.as_str());
                        return Err(DataError::Usage(format!(
                            "'{term}' is to vary by '{}', but there is no such feature{}",
                            asked.factor,
                            nearest(names, term)
                        )));
                    }
                    slopes.extend(found.into_iter().filter(|j| !slopes.contains(j)).collect::<Vec<_>>());
                }
            }
        }
        slopes.sort_unstable();
        if slopes.is_empty() {
            return Err(DataError::Usage(format!(
                "nothing varies by the group '{}': without an intercept, name the slopes that do",
                asked.factor
            )));
        }
        let factor: Vec<&str> = asked.factor.split('/').map(str::trim).collect();
        // the outer factors that this request made have no slopes yet
        for depth in 1..=factor.len() {
            let name = factor[..depth].join("/");
            let group =
                encoding.groups.iter_mut().find(|g| g.name == name).expect("made from the same request");
            if group.slopes.is_empty() {
                group.slopes.clone_from(&slopes);
            }
        }
    }
    Ok(())
}
