//! Draws of the Gaussian as files that other programs read: CSV in CmdStan's style, or Parquet.
//!
//! Draw k depends on the seed and k only, so more draws begin with the ones of a smaller file.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use certus::Gaussian;

use crate::directory::write_atomically;
use crate::error::Error;

/// Which draws.
#[derive(Clone, Copy, Debug)]
pub struct Draws<'a> {
    /// The Gaussian on the user's scale.
    pub gaussian: &'a Gaussian,
    /// A name per coordinate; for CmdStan's readers vectors are `theta.1`, `theta.2`, …
    pub names: &'a [String],
    /// How many.
    pub n: usize,
    /// Seed.
    pub seed: u64,
}

impl Draws<'_> {
    /// The draws as a `d × n` column-major batch, once the parts are known to fit together.
    fn sample(&self) -> Result<Vec<f64>, Error> {
        let (d, given) = (self.gaussian.dim(), self.names.len());
        if d != given {
            return Err(Error::Mismatch(format!("{given} names were given for {d} parameters")));
        }
        let mut seen = HashSet::new();
        if let Some(name) = self.names.iter().find(|name| !seen.insert(*name)) {
            return Err(Error::Mismatch(format!("two parameters are called {name}")));
        }
        Ok(self.gaussian.sample(self.n, self.seed))
    }

    /// The text of a CSV file: comments with `#`, a line of names, a line per draw; every number reads back to its bits. A name with a comma,
    /// a quote or a line break is quoted. `comments` are lines of the header.
    pub fn to_csv(&self, comments: &[String]) -> Result<String, Error> {
        let draws = self.sample()?;
        let mut out = String::new();
        for line in comments.iter().flat_map(|text| text.lines()) {
            let _ = writeln!(out, "# {line}");
        }
        let _ = writeln!(
            out,
            "# draws of a Gaussian approximation by certus\n#   num_samples = {}\n#   seed = {}",
            self.n, self.seed
        );
        let names: Vec<String> = self.names.iter().map(|name| quoted(name)).collect();
        let _ = writeln!(out, "{}", names.join(","));
        for draw in draws.chunks_exact(self.gaussian.dim()) {
            for (i, x) in draw.iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                let _ = write!(out, "{comma}{x:?}");
            }
            out.push('\n');
        }
        Ok(out)
    }

    /// Writes a CSV file, whole or not at all.
    pub fn write_csv(&self, path: &Path, comments: &[String]) -> Result<(), Error> {
        write_atomically(path, self.to_csv(comments)?.as_bytes())
    }
}

/// A field as RFC 4180 has it; a name that would look like a comment is quoted, too.
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) || name.starts_with('#') || name.trim() != name {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_string()
    }
}

#[cfg(feature = "parquet")]
mod columns {
    //! Parquet: a column of doubles per parameter, compressed by Snappy.

    use std::path::Path;
    use std::sync::Arc;

    use parquet::basic::{Compression, Repetition, Type as Physical};
    use parquet::data_type::DoubleType;
    use parquet::errors::ParquetError;
    use parquet::file::metadata::KeyValue;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;

    use super::Draws;
    use crate::directory::write_atomically;
    use crate::error::Error;

    /// Rows of a row group.
    const GROUP: usize = 1 << 16;

    impl Draws<'_> {
        /// The bytes of a Parquet file with a required double column per parameter and a row per draw; the metadata have the seed.
        pub fn to_parquet(&self) -> Result<Vec<u8>, Error> {
            let draws = self.sample()?;
            self.encode(&draws).map_err(|e| Error::Mismatch(format!("the draws cannot be encoded: {e}")))
        }

        fn encode(&self, draws: &[f64]) -> Result<Vec<u8>, ParquetError> {
            let d = self.gaussian.dim();
            let column = |name: &String| {
                let column = Type::primitive_type_builder(name, Physical::DOUBLE);
                column.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
            };
            let fields = self.names.iter().map(column).collect::<Result<Vec<_>, _>>()?;
            let schema = Type::group_type_builder("draws").with_fields(fields).build()?;
            let seed = KeyValue { key: "certus.seed".into(), value: Some(self.seed.to_string()) };
            let properties = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_dictionary_enabled(false)
                .set_created_by(concat!("certus ", env!("CARGO_PKG_VERSION")).into())
                .set_key_value_metadata(Some(vec![seed]))
                .build();
            let mut bytes = Vec::new();
            let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties))?;
            let mut values = Vec::new();
            for rows in draws.chunks(GROUP * d) {
                let mut group = file.next_row_group()?;
                let mut coordinate = 0;
                while let Some(mut column) = group.next_column()? {
                    values.clear();
                    values.extend(rows.iter().skip(coordinate).step_by(d));
                    column.typed::<DoubleType>().write_batch(&values, None, None)?;
                    column.close()?;
                    coordinate += 1;
                }
                group.close()?;
            }
            file.close()?;
            Ok(bytes)
        }

        /// Writes a Parquet file, whole or not at all.
        pub fn write_parquet(&self, path: &Path) -> Result<(), Error> {
            write_atomically(path, &self.to_parquet()?)
        }
    }
}
