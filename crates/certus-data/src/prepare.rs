//! From a source and a request to the rows of a model: names, levels, two passes over the columns, and an account of what was left out.

use std::sync::Arc;

use certus_models::rows::Rows;
use certus_models::{Design, GroupTerm};

use crate::account::{dependence, notes};
use crate::encoding::{Encoding, Group, Reader};
use crate::error::DataError;
use crate::leaves::{Leaves, Storage, Writer};
use crate::profile::profile;
use crate::resolve::{check_numbers, columns_and_groups, expand, slopes, terms};
use crate::spec::Spec;
use crate::summary::{Extent, dependent, fingerprint, summarise};
use crate::table::Source;
use crate::units::{Spread, parts_of_products, unit_of};

/// A column that is not in the design, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its name.
    pub name: String,
    /// The reason, in words that follow the name.
    pub reason: String,
}

/// The response in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseSummary {
    /// Mean.
    pub mean: f64,
    /// Standard deviation (divided by N).
    pub sd: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
}

/// Rows for a model and what became of the columns.
#[derive(Clone)]
pub struct Prepared {
    /// The rows, in the order of the source.
    pub rows: Arc<dyn Rows>,
    /// How they were made; keep it to read new data in the same way.
    pub encoding: Encoding,
    /// The level of each row, per group of the encoding.
    pub codes: Vec<Vec<u32>>,
    /// Columns that were never asked to be features and can't be.
    pub ignored: Vec<Left>,
    /// Features that were left out.
    pub dropped: Vec<Left>,
    /// What else a user should know, one sentence each; ignored and dropped columns included.
    pub notes: Vec<String>,
    /// Rows in use.
    pub rows_used: usize,
    /// Rows left out for missing values.
    pub rows_dropped: usize,
    /// The response.
    pub response: ResponseSummary,
    /// Tells the data used from any other: an order-dependent hash of names, levels and cells.
    pub fingerprint: u64,
}

impl Prepared {
    /// The design that the request asked for.
    pub fn design(&self) -> Result<Design, DataError> {
        let (rows, intercept) = (self.rows.clone(), self.encoding.intercept);
        Ok(if self.encoding.standardise {
            // the means and sds are known, and two passes over the rows are spared
            let (center, scale) = self.encoding.center_and_scale();
            Design::transformed(rows, intercept, center, scale)?
        } else {
            Design::new(rows, intercept)
        })
    }

    /// The group terms, with `unknown_sd` for those without a standard deviation; an error names those if that is `None`.
    pub fn group_terms(&self, unknown_sd: Option<f64>) -> Result<Vec<GroupTerm>, DataError> {
        let term = |(group, codes): (&Group, &Vec<u32>)| {
            let sd = group.sd.or(unknown_sd).ok_or_else(|| {
                DataError::Usage(format!("the sd of the group '{}' is not given (group-sd)", group.name))
            })?;
            Ok(GroupTerm {
                group: codes.iter().map(|c| *c as usize).collect(),
                slopes: group.slopes.clone(),
                sd: vec![sd; group.slopes.len()],
                within: group.within,
            })
        };
        self.encoding.groups.iter().zip(&self.codes).map(term).collect()
    }
}

/// [`prepare_with`] up to 384 MiB of memory for the rows.
pub fn prepare(source: &dyn Source, spec: &Spec) -> Result<Prepared, DataError> {
    prepare_with(source, spec, &Storage::default())
}

/// Reads a source twice: once for levels, dates and missing values, once for the rows.
pub fn prepare_with(source: &dyn Source, spec: &Spec, storage: &Storage) -> Result<Prepared, DataError> {
    spec.check()?;
    check_numbers(source, spec)?;
    let (terms, ignored) = terms(source, spec)?;
    let mut encoding = columns_and_groups(source, spec, &terms)?;
    let several = storage.ranks.as_ref().filter(|ranks| ranks.count() > 1);
    if let (Some(ranks), Some(group)) = (several, encoding.groups.first()) {
        return Err(DataError::Usage(format!(
            "the group '{}': rows with group terms can't be spread over {} processes yet; run one, without mpirun",
            group.name,
            ranks.count()
        )));
    }
    let profile = profile(source, &mut encoding, spec.missing)?;
    expand(&mut encoding, &terms);
    let Filled { mut leaves, codes, parts } = fill(source, spec, &encoding, storage, profile.used)?;
    let mut extent = Extent::of(&leaves)?;
    let dropped = drop_constants(&mut leaves, &mut extent, &mut encoding);
    if encoding.features.is_empty() && (!terms.is_empty() || !spec.intercept) {
        let names: Vec<String> = dropped.iter().map(|l| format!("'{}' {}", l.name, l.reason)).collect();
        return Err(DataError::BadData(format!("no feature is left: {}", names.join("; "))));
    }
    let summary = summarise(&leaves, &extent, spec.intercept, &codes)?;
    for j in 0..encoding.features.len() {
        let unit = unit_of(&encoding.features[j], &encoding, summary.units[j], &parts);
        let feature = &mut encoding.features[j];
        ((feature.mean, feature.sd), feature.unit) = (summary.moments[j], Some(unit));
    }
    let read = source.files_read(profile.used + profile.incomplete);
    let mut notes: Vec<String> =
        read.into_iter().chain(notes(spec, &encoding, &profile, &ignored, &dropped)).collect();
    slopes(spec, &mut encoding, &dropped, &mut notes)?;
    notes.extend(dependent(&leaves, &encoding)?.iter().map(|d| dependence(&encoding, d)));
    Ok(Prepared {
        rows_used: profile.used,
        rows_dropped: profile.incomplete,
        response: summary.response,
        fingerprint: fingerprint(&leaves, &encoding, &summary),
        rows: Arc::new(leaves),
        encoding,
        codes,
        ignored,
        dropped,
        notes,
    })
}

/// What the second pass gives: the rows, their levels per group, and the columns of numbers that are parts of interactions.
struct Filled {
    leaves: Leaves,
    codes: Vec<Vec<u32>>,
    parts: Vec<(usize, Spread)>,
}

/// The second pass: every complete row, checked against the likelihood.
fn fill(
    source: &dyn Source,
    spec: &Spec,
    encoding: &Encoding,
    storage: &Storage,
    rows: usize,
) -> Result<Filled, DataError> {
    let reader = Reader::new(encoding, source.columns(), true)?;
    let p = encoding.features.len();
    let writer = Writer::new(p + reader.extras.count(), storage);
    let mut writer = writer.spread(rows, storage.ranks.clone());
    let mut codes = vec![Vec::new(); encoding.groups.len()];
    let weight = reader.extras.weight.then_some(p + reader.extras.count() - 1);
    let mut parts: Vec<(usize, Spread)> =
        parts_of_products(encoding).into_iter().map(|c| (c, Spread::default())).collect();
    source.scan(&reader.wanted, &mut |batch| {
        let keep: Vec<usize> = (0..batch.rows()).filter(|&i| reader.missing(batch, i).is_none()).collect();
        let values = reader.values(batch, &keep, &mut codes)?;
        for (column, spread) in &mut parts {
            reader.column(batch, *column, &keep)?.into_iter().for_each(|x| spread.push(x));
        }
        for (k, &i) in keep.iter().enumerate() {
            let trials = if reader.extras.trials { values[p + 1][k] } else { 1.0 };
            if let Some(reason) = spec.family.reject(values[p][k], trials) {
                return Err(DataError::BadData(format!(
                    "{}, column '{}': {reason}",
                    batch.place(i),
                    spec.response
                )));
            }
            if let Some(w) = weight.map(|w| values[w][k]).filter(|w| *w < 0.0) {
                return Err(DataError::BadData(format!(
                    "{}: the weight is {w}, but a number of at least 0 is required",
                    batch.place(i)
                )));
            }
        }
        writer.push(&values, keep.len())
    })?;
    Ok(Filled { leaves: writer.finish(reader.extras)?, codes, parts })
}

/// A constant column is dropped if there is an intercept, which says the same.
fn drop_constants(leaves: &mut Leaves, extent: &mut Extent, encoding: &mut Encoding) -> Vec<Left> {
    if !encoding.intercept {
        return Vec::new();
    }
    let constant = extent.constants();
    let places: Vec<usize> = constant.iter().map(|(j, _)| *j).collect();
    leaves.remove(&places);
    extent.remove(&places);
    let left = constant.iter().map(|(j, value)| Left {
        name: encoding.features[*j].name.clone(),
        reason: format!("is {value} in every row, which the intercept says already"),
    });
    let left = left.collect();
    let mut place = 0..;
    encoding.features.retain(|_| !places.contains(&place.next().expect("endless")));
    left
}
