//! How the engine is set up.

use datafusion::prelude::SessionConfig;

/// One partition and nothing that deals rows out anew: the order of rows is that of the files. Conditions go down to
/// the reader.
pub(super) fn in_order() -> SessionConfig {
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
