//! Columns from files, through embedded DataFusion: only the columns and rows that are used are decoded, in the order
//! (path, row group, row), batch by batch on the calling thread.

mod arrow;
mod cells;
mod csv;
mod described;
mod files;
mod limits;
mod notation;
mod options;
mod packed;
mod schema;
mod session;
pub mod wire;

use std::collections::HashSet;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Column as ColumnName;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{Expr, cast as cast_to, lit};
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use futures::{FutureExt, StreamExt};
use tokio::runtime::{Builder, Runtime};

pub use self::described::Described;
use self::files::{Format, Listed, list, short, url};
pub use self::limits::ReadLimits;
use self::limits::{failed as decoder_failed, guarded};
use self::notation::Notation;
pub use self::options::FileOptions;
use self::packed::Unpacked;
use self::schema::{agree, problem, result_columns};
use self::session::context;
use crate::error::{ColumnError, DataError, FileError};
use crate::table::{Batch, Column, ColumnInfo, Kind, Source};

/// CSV, TSV, Parquet or Arrow files, optionally filtered or queried. In SQL the files are the table `data`; names are
/// case-sensitive.
pub struct FileSource {
    runtime: Runtime,
    context: SessionContext,
    files: Vec<PathBuf>,
    /// What is read in their place, if they are compressed.
    unpacked: Option<Unpacked>,
    notation: Notation,
    format: Format,
    limits: ReadLimits,
    described: Described,
    /// As the files are read; CSV as text.
    schema: SchemaRef,
    /// What text becomes.
    types: Vec<DataType>,
    filter: Option<String>,
    query: Option<String>,
}

impl FileSource {
    /// Opens files and directories of one format.
    ///
    /// CSV files are read through once, to see what every column holds.
    pub fn open(paths: &[PathBuf], options: FileOptions) -> Result<Self, DataError> {
        let FileOptions { filter, sql, na, absent, used, limits } = options;
        let used = used.filter(|_| filter.is_none() && sql.is_none());
        if filter.is_some() && sql.is_some() {
            return Err(FileError::ConditionAndQuery.into());
        }
        let Listed { files, format, searched } = list(paths)?;
        let (packed, commas) = match format {
            Format::Csv { separator, packed } => (packed, separator != b','),
            _ => (false, false),
        };
        let unpacked = packed.then(|| Unpacked::new(&files)).transpose()?;
        let runtime = Builder::new_current_thread().build().map_err(|source| FileError::Start { source })?;
        let described = Described {
            files: files.len(),
            searched,
            filtered: filter.is_some(),
            queried: sql.is_some(),
            ..Described::default()
        };
        let mut source = Self {
            runtime,
            context: context(0),
            files,
            unpacked,
            notation: Notation { na, commas },
            format,
            limits,
            described,
            schema: Arc::new(Schema::empty()),
            types: Vec::new(),
            filter,
            query: sql,
        };
        source.find_schema(used)?;
        if let Some(sql) = source.query.clone() {
            let mut table = source.typed(0..source.files.len(), "the query", None)?;
            let failed = |e| problem(e, "the query", &source.described.columns);
            for name in absent.iter().filter(|name| source.described.columns.iter().all(|c| c.name != **name))
            {
                let nothing = cast_to(lit(ScalarValue::Null), DataType::Float64);
                table = table.with_column(name, nothing).map_err(failed)?;
            }
            source.context.register_table("data", table.into_view()).map_err(failed)?;
            let frame = source.query(&sql)?;
            source.described.columns = result_columns(&frame, &source.described.columns);
        } else if source.filter.is_some() {
            // a condition that can't be understood is refused now, not at the first row
            source.frame(0, &[])?;
        }
        Ok(source)
    }

    /// The files, in the order they are read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Everything that is known of them but their rows.
    pub fn described(&self) -> &Described {
        &self.described
    }

    /// DataFusion's plan for the first file (or the query) and these columns: what is read, and which conditions are
    /// pushed down.
    pub fn plan(&self, wanted: &[usize]) -> Result<String, DataError> {
        let (frame, name) = self.frame(0, wanted)?;
        let plan = self.runtime.block_on(frame.create_physical_plan());
        let plan = plan.map_err(|e| problem(e, &name, &self.described.columns))?;
        Ok(displayable(plan.as_ref()).indent(true).to_string())
    }

    fn options(&self) -> ListingOptions {
        let format: Arc<dyn FileFormat> = match self.format {
            Format::Csv { separator, .. } => Arc::new(
                CsvFormat::default()
                    .with_has_header(true)
                    .with_delimiter(separator)
                    .with_newlines_in_values(true),
            ),
            Format::Parquet => Arc::new(ParquetFormat::default()),
            Format::Arrow => Arc::new(ArrowFormat),
        };
        ListingOptions::new(format).with_file_extension("")
    }

    /// The files as they are read, in the order of their names.
    fn read(&self) -> &[PathBuf] {
        self.unpacked.as_ref().map_or(&self.files, |unpacked| &unpacked.files)
    }

    fn table(&self, files: Range<usize>, schema: SchemaRef) -> Result<ListingTable, DataError> {
        let name = short(&self.files[files.start]);
        let urls: Result<Vec<ListingTableUrl>, _> =
            self.read()[files].iter().map(|f| ListingTableUrl::parse(url(f))).collect();
        let table = urls.and_then(|urls| {
            let config = ListingTableConfig::new_with_multi_paths(urls);
            ListingTable::try_new(config.with_listing_options(self.options()).with_schema(schema))
        });
        table.map_err(|e| problem(e, &name, &self.described.columns))
    }

    /// The common schema of all files.
    fn find_schema(&mut self, used: Option<Vec<String>>) -> Result<(), DataError> {
        let mut common: Option<Vec<Field>> = None;
        for (file, named) in self.read().iter().zip(&self.files) {
            let name = short(named);
            let failed = |e| problem(e, &name, &[]);
            let url = ListingTableUrl::parse(url(file)).map_err(failed)?;
            let state = self.context.state();
            let schema = match self.format {
                // as it stands there: the engine would make one of two columns of the same name
                Format::Csv { separator, .. } => {
                    Arc::new(guarded(&name, || csv::header(file, separator, &name))?)
                }
                _ => guarded(&name, || {
                    arrow::check(self.format, file, &name)?;
                    self.runtime.block_on(self.options().infer_schema(&state, &url)).map_err(failed)
                })?,
            };
            self.limits.check_columns(&name, schema.fields().len())?;
            if schema.fields().is_empty() {
                return Err(FileError::NoColumns { name }.into());
            }
            let fields: Vec<Field> =
                schema.fields().iter().map(|f| Field::new(f.name(), f.data_type().clone(), true)).collect();
            let mut seen = HashSet::new();
            if let Some(twice) = fields.iter().find(|f| !seen.insert(f.name())) {
                let column = twice.name().clone();
                return Err(ColumnError::Repeated { name: column, file: Some(name) }.into());
            }
            match &mut common {
                None => common = Some(fields),
                Some(common) => agree(common, &fields, &short(&self.files[0]), &name)?,
            }
        }
        let fields = common.unwrap_or_default();
        self.types = fields.iter().map(|f| f.data_type().clone()).collect();
        let mut kinds: Vec<Kind> = fields.iter().map(|f| cells::kind(f.data_type())).collect();
        if matches!(self.format, Format::Csv { .. }) {
            let used: Option<HashSet<String>> = used.map(|names| names.into_iter().collect());
            let is_used = |k: &usize| used.as_ref().is_none_or(|names| names.contains(fields[*k].name()));
            self.context = context(fields.len());
            let looked: Vec<usize> = (0..fields.len()).filter(is_used).collect();
            kinds.fill(Kind::Other("text that was not looked at".into()));
            let seen = self.look_through(Arc::new(Schema::new(fields.clone())), &looked)?;
            for (k, seen) in looked.into_iter().zip(&seen) {
                let (kind, data_type) = seen.kind();
                kinds[k] = kind;
                self.types[k] = data_type;
                self.described.notice(fields[k].name(), seen);
            }
        }
        let names = fields.iter().map(|f| f.name().clone());
        self.described.columns = names.zip(kinds).map(|(name, kind)| ColumnInfo { name, kind }).collect();
        self.schema = Arc::new(Schema::new(fields));
        Ok(())
    }

    /// Every cell of these columns of every CSV file, as text.
    fn look_through(&self, schema: SchemaRef, columns: &[usize]) -> Result<Vec<csv::Seen>, DataError> {
        let mut seen = vec![csv::Seen::default(); columns.len()];
        let names = columns.iter().map(|k| Expr::Column(ColumnName::from_name(schema.field(*k).name())));
        let names: Vec<Expr> = names.collect();
        let mut all = 0;
        for (at, file) in self.files.iter().enumerate() {
            let name = short(file);
            let table = self.table(at..at + 1, schema.clone())?;
            let frame = self.context.read_table(Arc::new(table));
            let frame =
                frame.and_then(|all| all.select(names.clone())).map_err(|e| problem(e, &name, &[]))?;
            let mut first = 0;
            self.stream(frame, &name, &mut |batch| {
                for (k, seen) in seen.iter_mut().enumerate() {
                    let texts = cast(batch.column(k), &DataType::Utf8)
                        .map_err(|e| FileError::Damaged { name: name.clone(), reason: e.to_string() })?;
                    let place = |i: usize| format!("row {} of {name}", first + i + 1);
                    let texts = texts.as_string::<i32>();
                    for (i, text) in texts.iter().enumerate() {
                        let column = schema.field(columns[k]).name();
                        self.limits.check_cell(text.unwrap_or_default(), column, || place(i))?;
                    }
                    seen.cells(texts, &self.notation, place);
                }
                first += batch.num_rows();
                Ok(())
            })?;
            all += first;
        }
        match (all, self.files.first()) {
            (0, Some(first)) => Err(FileError::NoRows { name: short(first) }.into()),
            _ => Ok(seen),
        }
    }

    /// Files with the text of CSV as what it says; what does not say anything of the kind is missing, as [`csv::Seen`]
    /// found before. Of all columns, or of those `wanted`.
    fn typed(
        &self,
        files: Range<usize>,
        name: &str,
        wanted: Option<&[usize]>,
    ) -> Result<DataFrame, DataError> {
        let table = self.table(files, self.schema.clone())?;
        let failed = |e| problem(e, name, &self.described.columns);
        let frame = self.context.read_table(Arc::new(table)).map_err(failed)?;
        let text = matches!(self.format, Format::Csv { .. });
        if !text && self.notation.na.is_empty() {
            return Ok(frame);
        }
        let every: Vec<usize> = (0..self.types.len()).collect();
        let columns = wanted.unwrap_or(&every).iter().map(|k| {
            let (field, data_type) = (self.schema.field(*k), &self.types[*k]);
            let cell = Expr::Column(ColumnName::from_name(field.name()));
            let decimal = self.described.decimal.iter().any(|(name, _)| name == field.name());
            let read = if text {
                self.notation.of_text(cell, data_type, decimal)
            } else {
                self.notation.of_typed(cell, data_type)?
            };
            Ok(if matches!(read, Expr::Column(_)) { read } else { read.alias(field.name()) })
        });
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        frame.select(columns).map_err(failed)
    }

    fn query(&self, sql: &str) -> Result<DataFrame, DataError> {
        let only_reading =
            SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        let frame = self.runtime.block_on(self.context.sql_with_options(sql, only_reading));
        frame.map_err(|e| problem(e, "the query", &self.described.columns))
    }

    /// The wanted columns of file k (or of the query), and what to call them in messages.
    fn frame(&self, k: usize, wanted: &[usize]) -> Result<(DataFrame, String), DataError> {
        let (frame, name) = match &self.query {
            Some(sql) => (self.query(sql)?, "the query".to_string()),
            None => {
                let name = short(&self.files[k]);
                // a condition may name any column
                let wanted = if self.filter.is_some() { None } else { Some(wanted) };
                (self.typed(k..k + 1, &name, wanted)?, name)
            }
        };
        let chosen = (|| {
            let frame = match &self.filter {
                Some(filter) => frame.clone().filter(frame.parse_sql_expr(filter)?)?,
                None => frame,
            };
            let names =
                wanted.iter().map(|&c| Expr::Column(ColumnName::from_name(&self.described.columns[c].name)));
            frame.select(names.collect::<Vec<_>>())
        })();
        let name_of_step = if self.filter.is_some() { "the condition" } else { &name };
        Ok((chosen.map_err(|e| problem(e, name_of_step, &self.described.columns))?, name))
    }

    fn stream(
        &self,
        frame: DataFrame,
        name: &str,
        visit: &mut dyn FnMut(&RecordBatch) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.runtime.block_on(async {
            let failed = |e| problem(e, name, &self.described.columns);
            // a decoder that panics has met a damaged file; what it was working on is not used again
            let panicked = |panic: Box<dyn std::any::Any + Send>| decoder_failed(name, &*panic);
            let opened = AssertUnwindSafe(frame.execute_stream()).catch_unwind().await;
            let mut batches = opened.map_err(panicked)?.map_err(failed)?;
            loop {
                let next = AssertUnwindSafe(batches.next()).catch_unwind().await;
                let Some(batch) = next.map_err(panicked)? else { return Ok(()) };
                visit(&batch.map_err(failed)?)?;
            }
        })
    }
}

impl Source for FileSource {
    fn columns(&self) -> &[ColumnInfo] {
        &self.described.columns
    }

    fn files_read(&self, rows: usize) -> Option<String> {
        self.described.files_read(rows)
    }

    fn notes(&self, wanted: &[usize]) -> Vec<String> {
        self.described.notes(wanted)
    }

    fn scan(
        &self,
        wanted: &[usize],
        visit: &mut dyn FnMut(&Batch<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let plans = if self.query.is_some() { 1 } else { self.files.len() };
        for k in 0..plans {
            let (frame, name) = self.frame(k, wanted)?;
            let place = match (&self.query, &self.filter) {
                (Some(_), _) => " of the query's result".to_string(),
                (None, Some(filter)) => format!(" of {name} among those where {filter}"),
                (None, None) => format!(" of {name}"),
            };
            let mut first = 0;
            self.stream(frame, &name, &mut |batch| {
                let of_row = |i: usize| format!("row {}{place}", first + i + 1);
                let columns: Vec<Column> = wanted
                    .iter()
                    .enumerate()
                    .map(|(c, &w)| {
                        let own = &self.described.columns[w].name;
                        let column = guarded(&name, || cells::column(batch.column(c), own, of_row))?;
                        if let Column::Text(texts) = &column {
                            for (i, text) in texts.iter().enumerate() {
                                self.limits
                                    .check_cell(text.as_deref().unwrap_or_default(), own, || of_row(i))?;
                            }
                        }
                        Ok::<_, DataError>(column)
                    })
                    .collect::<Result<_, _>>()?;
                visit(&Batch::new(columns.iter().collect(), 0, batch.num_rows(), first, &place))?;
                first += batch.num_rows();
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// The files that a path stands for: itself, or those of a directory.
pub fn files_of(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    Ok(list(&[path.to_path_buf()])?.files)
}

/// A single file or directory.
impl TryFrom<&Path> for FileSource {
    type Error = DataError;

    fn try_from(path: &Path) -> Result<Self, DataError> {
        Self::open(&[path.to_path_buf()], FileOptions::default())
    }
}
