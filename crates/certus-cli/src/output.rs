//! Where results may be written: not over what was read, not over a file of a fit, and over other files only if that is
//! asked for.

use std::path::{Path, PathBuf};

use certus_data::Identity;
use certus_fit::ColumnFile;
use certus_fit::directory::{MEANING, RECORD, RESULT, RUN};
use certus_fit::many::files::{FITS, ManyDirectory};

use crate::exit::{Code, Failure};

/// A file that the user names with `--to`.
pub struct Output<'a> {
    to: &'a Path,
    overwrite: bool,
}

impl<'a> Output<'a> {
    /// Refuses what must not be written, before anything is computed. `fit` is the fit it is made of, `inputs` are
    /// files or directories of data.
    pub fn new(to: &'a Path, overwrite: bool, fit: &Path, inputs: &[&Path]) -> Result<Self, Failure> {
        let refused = |words: String| Err(Failure::new(Code::CannotCreate, words));
        let shown = to.display();
        for input in inputs.iter().flat_map(|input| files(input)) {
            if same(to, &input) {
                return refused(format!(
                    "--to {shown} is {}, which contains data of the command or of the fit: choose another name",
                    input.display()
                ));
            }
        }
        let own = RESULT.iter().map(|name| fit.join(name)).find(|path| same(to, path));
        if let Some(path) = own.or_else(|| of_a_fit(to)) {
            return refused(format!(
                "--to {shown} is {}, a file of a fit: choose another name",
                path.display()
            ));
        }
        if !overwrite && to.symlink_metadata().is_ok() {
            return Err(certus_fit::Error::Exists { path: to.to_path_buf() }.into());
        }
        Ok(Self { to, overwrite })
    }

    /// Writes the columns, whole or not at all.
    pub fn write(&self, column_file: &ColumnFile<'_>) -> Result<(), Failure> {
        let written =
            if self.overwrite { column_file.write(self.to) } else { column_file.write_new(self.to) };
        Ok(written?)
    }
}

/// Refuses a fit that would replace its own data.
pub fn apart(out: &Path, data: &Path) -> Result<(), Failure> {
    let inside =
        |file: &PathBuf| of_a_fit(file).is_some_and(|own| own.parent().is_some_and(|p| same(p, out)));
    match files(data).into_iter().find(inside) {
        Some(file) => Err(Failure::new(
            Code::CannotCreate,
            format!(
                "--out {} would replace {}, which is an input: choose another directory",
                out.display(),
                file.display()
            ),
        )),
        None => Ok(()),
    }
}

/// The data files, as far as they can be found; the others are reported when they are read.
#[cfg(feature = "scan")]
fn files(data: &Path) -> Vec<PathBuf> {
    certus_data::files_of(data).unwrap_or_else(|_| vec![data.to_path_buf()])
}

#[cfg(not(feature = "scan"))]
fn files(data: &Path) -> Vec<PathBuf> {
    vec![data.to_path_buf()]
}

/// True if both are the same file.
fn same(a: &Path, b: &Path) -> bool {
    matches!((Identity::of(a), Identity::of(b)), (Ok(a), Ok(b)) if a == b)
}

/// The path in its directory if it is, or would be, a file of a fit or of many fits.
fn of_a_fit(path: &Path) -> Option<PathBuf> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // a link is followed, as is one above it
    let full = path.canonicalize().or_else(|_| {
        Ok::<_, std::io::Error>(parent.canonicalize()?.join(path.file_name().unwrap_or_default()))
    });
    let full = full.ok()?;
    let (directory, name) = (full.parent()?, full.file_name()?.to_str()?);
    let fit = |at: &Path| [RECORD, MEANING, RUN].iter().any(|name| at.join(name).exists());
    let many = ManyDirectory::is_one;
    let within = directory.file_name().and_then(|n| n.to_str()).zip(directory.parent());
    let ours = (RESULT.contains(&name) && fit(directory))
        || (name == FITS && many(directory))
        || within.is_some_and(|(n, above)| {
            (n == RUN && (fit(above) || many(above))) || (n == "chunks" && many(above))
        });
    ours.then_some(full)
}
