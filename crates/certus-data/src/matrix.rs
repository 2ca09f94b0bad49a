//! Rows that are numbers already: a model on somebody else's matrix, which is read where it lies and never copied.

use std::sync::Arc;

use certus_models::rows::{Rows, leaves};

use crate::encoding::{Coding, ColumnEncoding, Encoding, Feature, Part};
use crate::error::{ColumnError, DataError, NoFeature, Subject};
use crate::notes::dependence;
use crate::prepare::Prepared;
use crate::spec::Spec;
use crate::summary::{Extent, dependent, fingerprint, summarise};

impl Prepared {
    /// Rows of complete finite numbers, `names` of their columns in order. `None` if a column must be dropped for being
    /// constant, which only a copy can do; then prepare a table instead.
    pub fn of_rows(rows: Arc<dyn Rows>, names: &[String], spec: &Spec) -> Result<Option<Self>, DataError> {
        spec.check()?;
        if let Some(k) = (1..names.len()).find(|&k| names[..k].contains(&names[k])) {
            return Err(ColumnError::Repeated { name: names[k].clone(), file: None }.into());
        }
        if rows.is_empty() {
            return Err(ColumnError::NoRows { incomplete: 0 }.into());
        }
        check(&*rows, names, spec)?;
        let extent = Extent::of(&*rows)?;
        if spec.intercept && !extent.constants().is_empty() {
            return Ok(None);
        }
        if names.is_empty() && !spec.intercept {
            return Err(ColumnError::NoFeature(NoFeature::NoColumn).into());
        }
        let summary = summarise(&*rows, &extent, spec.intercept, &[])?;
        let feature = |(column, (name, (mean, sd))): (usize, (&String, &(f64, f64)))| Feature {
            name: name.clone(),
            term: name.clone(),
            parts: vec![Part::number(column)],
            mean: *mean,
            sd: *sd,
            unit: Some(summary.units[column]),
        };
        let number = |name: &String| Coding { name: name.clone(), how: ColumnEncoding::Number, column: None };
        let encoding = Encoding {
            response: spec.response.clone(),
            computed: None,
            columns: names.iter().map(number).collect(),
            features: names.iter().zip(&summary.moments).enumerate().map(feature).collect(),
            groups: Vec::new(),
            effects: Vec::new(),
            trials: spec.trials.clone(),
            offset: spec.offset.clone(),
            weights: spec.weights.clone(),
            event: None,
            intercept: spec.intercept,
            standardise: spec.standardise,
        };
        let notes = dependent(&*rows, &encoding)?.iter().map(|d| dependence(&encoding, d)).collect();
        Ok(Some(Self {
            rows_used: rows.len(),
            rows_dropped: 0,
            response: summary.response,
            responses: summary.responses,
            fingerprint: fingerprint(&*rows, &encoding, &summary, &[]),
            rows,
            encoding,
            codes: Vec::new(),
            effects: Vec::new(),
            ignored: Vec::new(),
            dropped: Vec::new(),
            notes,
        }))
    }
}

/// Every number is finite, every response legal, no weight negative.
fn check(rows: &dyn Rows, names: &[String], spec: &Spec) -> Result<(), DataError> {
    for index in 0..leaves(rows) {
        let mut bad = None;
        rows.leaf(index, &mut |leaf| {
            for i in 0..leaf.y.len() {
                let place = format!("row {}", leaf.first + i + 1);
                let column = (0..names.len()).find(|&j| !leaf.x.get(i, j).is_finite());
                let error = if let Some(j) = column {
                    let subject = Subject::Column(names[j].clone());
                    Some(ColumnError::not_finite(place, subject, leaf.x.get(i, j).to_string()))
                } else if !leaf.offset_of(i).is_finite() {
                    Some(ColumnError::not_finite(place, Subject::Offset, leaf.offset_of(i).to_string()))
                } else if !(leaf.weight_of(i) >= 0.0 && leaf.weight_of(i).is_finite()) {
                    Some(ColumnError::weight(place, leaf.weight_of(i)))
                } else {
                    let datum = leaf.datum(i);
                    let reason = spec.model.reject(datum);
                    let column = spec.response.clone();
                    reason.map(|reason| ColumnError::Response { place, column, reason })
                };
                if error.is_some() {
                    bad = error;
                    return;
                }
            }
        })?;
        if let Some(error) = bad {
            return Err(error.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use certus_models::rows::Memory;

    use super::*;
    use crate::error::ErrorKind;
    use crate::prepare::prepare;
    use crate::spec::Features;
    use crate::table::{Column, Table};
    use certus_likelihood::Response;

    fn spec() -> Spec {
        let features = Features::Terms(vec!["a".into(), "b".into()]);
        Spec { features, ..Spec::new("y", Response::Logistic) }
    }

    fn rows(x: Vec<f64>, y: Vec<f64>) -> Arc<dyn Rows> {
        Arc::new(Memory { x, y, columns: 2, ..Memory::default() })
    }

    /// Row-major numbers and the same numbers as columns of a table.
    #[test]
    fn a_matrix_is_prepared_as_a_table_is() {
        let n = 2500;
        let cell = |i: usize, j: usize| ((7 * i + 3 * j) % 11) as f64 + 0.1 * j as f64;
        let x: Vec<f64> = (0..2 * n).map(|k| cell(k / 2, k % 2)).collect();
        let y: Vec<f64> = (0..n).map(|i| (i % 3 == 0) as u8 as f64).collect();
        let names = ["a".to_string(), "b".to_string()];
        let column = |j: usize| Column::Number((0..n).map(|i| cell(i, j)).collect());
        let table =
            [("a".into(), column(0)), ("b".into(), column(1)), ("y".into(), Column::Number(y.clone()))];
        let by_table = prepare(&Table::new(table.into()).unwrap(), &spec()).unwrap();
        let by_rows = Prepared::of_rows(rows(x, y), &names, &spec()).unwrap().unwrap();
        assert_eq!(by_rows.encoding, by_table.encoding);
        assert_eq!((by_rows.fingerprint, by_rows.response), (by_table.fingerprint, by_table.response));
        assert_eq!(by_rows.notes, by_table.notes);
    }

    #[test]
    fn what_a_matrix_cannot_be() {
        let names = ["a".to_string(), "b".to_string()];
        let refused = |x: Vec<f64>, y: Vec<f64>, word: &str| {
            let error = Prepared::of_rows(rows(x, y), &names, &spec()).err().unwrap();
            assert!(error.kind() == ErrorKind::Data && error.to_string().contains(word), "{error}");
        };
        refused(vec![1.0, 2.0, f64::NAN, 4.0], vec![0.0, 1.0], "row 2 of column 'a'");
        refused(vec![1.0, 2.0, 3.0, 4.0], vec![0.0, 0.5], "row 2, column 'y'");
        refused(vec![], vec![], "no row");
        // a constant column must be dropped, which needs a copy
        let constant = Prepared::of_rows(rows(vec![1.0, 2.0, 1.0, 4.0], vec![0.0, 1.0]), &names, &spec());
        assert!(constant.unwrap().is_none());
        let twice = ["a".to_string(), "a".to_string()];
        assert!(Prepared::of_rows(rows(vec![1.0; 4], vec![0.0, 1.0]), &twice, &spec()).is_err());
    }
}
