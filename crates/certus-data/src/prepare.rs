//! From a source and a request to the rows of a model: names, levels, two passes over the columns, and an account of
//! what was left out.

use std::sync::Arc;

use certus_likelihood::Datum;
use certus_models::rows::Rows;
use certus_models::{Design, GroupTerm};

use crate::encoding::{Encoding, Group, Part};
use crate::error::{ColumnError, DataError, NoFeature, SpecError};
use crate::layout::{Layout, Product};
use crate::leaves::{Leaves, Storage, Writer};
use crate::left::UnusedColumn;
use crate::nested::questions;
use crate::notes::{dependence, notes};
use crate::profile::profile;
use crate::reader::{GroupColumns, Reader};
use crate::spec::Spec;
use crate::summary::{Extent, ResponseSummary, dependent, fingerprint, summarise};
use crate::table::Source;
use crate::terms::Terms;
use crate::units::{Spread, Spreads, parts_of_products};

/// Rows for a model and what became of the columns.
#[derive(Clone)]
pub struct Prepared {
    /// The rows, in the order of the source.
    pub rows: Arc<dyn Rows>,
    /// How they were made; keep it to read new data in the same way.
    pub encoding: Encoding,
    /// The level of each row, per group of the encoding.
    pub codes: Vec<Vec<u32>>,
    /// The columns of [`Encoding::effects`], row by row.
    pub effects: Vec<Vec<f64>>,
    /// Columns that were never asked to be features and can't be.
    pub ignored: Vec<UnusedColumn>,
    /// Features that were left out.
    pub dropped: Vec<UnusedColumn>,
    /// What else a user should know, one sentence each; ignored and dropped columns included.
    pub notes: Vec<String>,
    /// Rows in use.
    pub rows_used: usize,
    /// Rows left out for missing values.
    pub rows_dropped: usize,
    /// The response.
    pub response: ResponseSummary,
    /// Tells responses, trials and weights of the rows in use from any others: models of the same can be compared.
    pub responses: u64,
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

    /// Rows of every level of every group.
    pub fn rows_by_level(&self) -> Vec<Vec<usize>> {
        let count = |(group, codes): (&Group, &Vec<u32>)| {
            let mut rows = vec![0; group.levels.len()];
            codes.iter().for_each(|code| rows[*code as usize] += 1);
            rows
        };
        self.encoding.groups.iter().zip(&self.codes).map(count).collect()
    }

    /// The group terms, with `unknown_sd` for those without a standard deviation; an error names those if that is
    /// `None`.
    pub fn group_terms(&self, unknown_sd: Option<f64>) -> Result<Vec<GroupTerm>, DataError> {
        let term = |(group, codes): (&Group, &Vec<u32>)| {
            let sd =
                group.sd.or(unknown_sd).ok_or_else(|| SpecError::NoGroupSd { group: group.name.clone() })?;
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

/// Reads a source twice: once for levels, dates and missing values, once for the rows. Every step takes what the one
/// before has finished: terms, profile, layout, rows, encoding.
pub fn prepare_with(source: &dyn Source, spec: &Spec, storage: &Storage) -> Result<Prepared, DataError> {
    let terms = Terms::of(source, spec)?;
    refuse_processes(&terms, storage)?;
    let profile = profile(source, &terms, spec)?;
    let layout = Layout::of(&terms, &profile, spec)?;
    let filled = fill(source, spec, &layout, storage, profile.used)?;
    let extent = Extent::of(&filled.leaves)?;
    let constant = if spec.intercept { extent.constants() } else { Vec::new() };
    let dropped: Vec<UnusedColumn> =
        constant.iter().map(|(j, value)| confounded(&layout.products[*j], *value)).collect();
    let places: Vec<usize> = constant.iter().map(|(j, _)| *j).collect();
    let Filled { leaves, groups: GroupColumns { codes, effects }, spreads } = filled;
    let (layout, leaves, extent) =
        (layout.without(&places), leaves.without(&places), extent.without(&places));
    if layout.products.is_empty() && (!terms.terms.is_empty() || !spec.intercept) {
        return Err(ColumnError::NoFeature(match (dropped.is_empty(), terms.terms.is_empty()) {
            (false, _) => NoFeature::Dropped(dropped),
            (true, false) => NoFeature::OneLevel,
            (true, true) => NoFeature::NoColumn,
        })
        .into());
    }
    let summary = summarise(&leaves, &extent, spec.intercept, &codes)?;
    let (slopes, of_slopes) = layout.slopes(spec, &dropped)?;
    let encoding = layout.encoding(spec, &summary, &spreads, slopes);
    let read = source.files_read(profile.used + profile.incomplete);
    let of_columns = notes(spec, &encoding, &profile, &terms.ignored, &dropped);
    let dependent = dependent(&leaves, &encoding)?;
    let of_rows = dependent.iter().map(|d| dependence(&encoding, d));
    let (of_cells, of_groups) = (source.notes(&terms.wanted), questions(&encoding.groups, &codes));
    let of_source = read.into_iter().chain(of_cells);
    let notes = of_source.chain(of_columns).chain(of_slopes).chain(of_groups).chain(of_rows).collect();
    Ok(Prepared {
        rows_used: profile.used,
        rows_dropped: profile.incomplete,
        response: summary.response,
        responses: summary.responses,
        fingerprint: fingerprint(&leaves, &encoding, &summary, &effects),
        rows: Arc::new(leaves),
        encoding,
        codes,
        effects,
        ignored: terms.ignored,
        dropped,
        notes,
    })
}

/// Group terms are not spread over processes.
fn refuse_processes(terms: &Terms, storage: &Storage) -> Result<(), SpecError> {
    let processes = storage.ranks.as_ref().map_or(1, |ranks| ranks.count());
    match terms.groups.first() {
        Some(group) if processes > 1 => {
            Err(SpecError::GroupOverProcesses { group: group.name.clone(), processes })
        }
        _ => Ok(()),
    }
}

/// A constant column is confounded with the intercept, and dropped if there is one.
fn confounded(product: &Product, value: f64) -> UnusedColumn {
    let reason = format!("is {value} in every row, so it is confounded with the intercept");
    UnusedColumn { name: product.name.clone(), reason }
}

/// What the second pass gives: the rows, what groups need of them, and what the units of their columns follow from.
struct Filled {
    leaves: Leaves,
    groups: GroupColumns,
    spreads: Spreads,
}

/// The second pass: every complete row, checked against the likelihood.
fn fill(
    source: &dyn Source,
    spec: &Spec,
    layout: &Layout,
    storage: &Storage,
    rows: usize,
) -> Result<Filled, DataError> {
    let reader = Reader::new(layout.recipe(spec), source.columns())?;
    let p = layout.products.len();
    let writer = Writer::new(p + reader.extras.count(), storage);
    let mut writer = writer.spread(rows, storage.ranks.clone());
    let mut groups = GroupColumns::new(layout.groups.len(), layout.effects.len());
    let weight = reader.extras.weight.then_some(p + reader.extras.count() - 1);
    let products = layout.products.iter().chain(&layout.effects).map(|product| product.parts.as_slice());
    let mut parts: Vec<(Part, Spread)> =
        parts_of_products(products).into_iter().map(|part| (part, Spread::default())).collect();
    source.scan(&reader.wanted, &mut |batch| {
        let keep: Vec<usize> = (0..batch.rows()).filter(|&i| reader.missing(batch, i).is_none()).collect();
        let values = reader.values(batch, &keep, &mut groups)?;
        for (part, spread) in &mut parts {
            reader.numbers_of(batch, *part, &keep)?.into_iter().for_each(|x| spread.push(x));
        }
        for (k, &i) in keep.iter().enumerate() {
            let trials = if reader.extras.trials { values[p + 1][k] } else { 1.0 };
            if let Some(reason) = spec.model.reject(Datum { y: values[p][k], trials }) {
                let (place, column) = (batch.place(i), spec.response.clone());
                return Err(ColumnError::Response { place, column, reason }.into());
            }
            if let Some(w) = weight.map(|w| values[w][k]).filter(|w| *w < 0.0) {
                return Err(ColumnError::weight(batch.place(i), w).into());
            }
        }
        writer.push(&values, keep.len())
    })?;
    let effects = groups.effects.iter().map(|column| Spread::of(column)).collect();
    Ok(Filled { leaves: writer.finish(reader.extras)?, groups, spreads: Spreads { parts, effects } })
}
