//! How the engine is set up.

use datafusion::prelude::{SessionConfig, SessionContext};

/// Cells that are decoded together, at most: the reader of text takes eight bytes for each before it reads anything.
const CELLS: usize = 1 << 22;
/// Rows that are decoded together, at most; and at least, so that wide files are not read row by row.
const ROWS: std::ops::RangeInclusive<usize> = 16..=8192;

/// An engine for files of so many columns.
pub(super) fn context(columns: usize) -> SessionContext {
    let rows = (CELLS / columns.max(1)).clamp(*ROWS.start(), *ROWS.end());
    SessionContext::new_with_config(in_order().with_batch_size(rows))
}

/// One partition and nothing that deals rows out anew: the order of rows is that of the files. Conditions go down to
/// the reader.
fn in_order() -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(1);
    let options = config.options_mut();
    options.optimizer.repartition_file_scans = false;
    options.optimizer.repartition_aggregations = false;
    options.optimizer.repartition_joins = false;
    options.optimizer.repartition_sorts = false;
    options.optimizer.repartition_windows = false;
    options.optimizer.enable_round_robin_repartition = false;
    options.execution.parquet.pushdown_filters = true;
    options.sql_parser.enable_ident_normalization = false;
    config
}
