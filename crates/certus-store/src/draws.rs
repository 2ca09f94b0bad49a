//! Draws of the Gaussian as files that other programs read: CSV in CmdStan's style, or Parquet.
//!
//! Draw k depends on the seed and k only, so more draws begin with the ones of a smaller file.

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
        if let Some(name) = self.names.iter().enumerate().find(|(i, name)| self.names[..*i].contains(name)) {
            return Err(Error::Mismatch(format!("two parameters are called {}", name.1)));
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
        let _ =
            writeln!(out, "# method = variational\n#   num_samples = {}\n#   seed = {}", self.n, self.seed);
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
