//! `groups.parquet` of a fit with many groups whose sds are given.

use certus::certificate::Gap;
use certus_data::{GroupTable, Labels};
use certus_store::FitDirectory;
use certus_store::directory::GROUPS;
use certus_store::grid::{Cells, Grid};

use crate::exit::Failure;

/// Writes the file.
pub(crate) fn write(directory: &FitDirectory, table: GroupTable, gap: &Gap) -> Result<(), Failure> {
    directory.write(GROUPS, &bytes(table, gap)?)?;
    Ok(())
}

/// Columns `term`, `group`, `coefficient`, `mean`, `sd`, `deviation`, `deviation_sd`; what is proved of them is in the metadata.
pub(crate) fn bytes(table: GroupTable, gap: &Gap) -> Result<Vec<u8>, Failure> {
    let label = |labels: Labels| Cells::Label(labels.names, labels.cells);
    let texts = [("term", table.term), ("group", table.group), ("coefficient", table.coefficient)];
    let numbers = GroupTable::NUMBERS.into_iter().zip(table.numbers);
    let columns: Vec<(String, Cells)> = texts
        .map(|(name, labels)| (name.to_string(), label(labels)))
        .into_iter()
        .chain(numbers.map(|(name, x)| (name.to_string(), Cells::Number(x.into_iter().map(Some).collect()))))
        .collect();
    Ok(Grid { columns: &columns, comment: &GroupTable::stated(gap) }.to_parquet()?)
}
