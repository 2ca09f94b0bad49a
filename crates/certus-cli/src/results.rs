//! What is made of a fit that is there: draws, predictions, a report, a comparison.

use std::collections::HashMap;
use std::path::Path;

use certus::certificate::figure;
use certus_data::{Encoding, Meaning, Mixed, Storage, Varies};
use certus_store::directory::{MEANING, REPORT};
use certus_store::record::Parameter;
use certus_store::report::Extras;
use certus_store::{Arrays, FitDirectory, Record, Sheet};

use crate::arguments::FitArguments;
use crate::exit::{Code, Failure, note, print};
use crate::output::Output;
use crate::request::open;
use crate::table::aligned;

/// A fit read from its directory.
struct Stored {
    directory: FitDirectory,
    record: Record,
    arguments: FitArguments,
    meaning: Meaning,
}

impl Stored {
    fn read(dir: &Path) -> Result<Self, Failure> {
        let directory = FitDirectory::open(dir)?;
        directory.note().iter().for_each(|words| note(words));
        let record = Record::read(&directory)?;
        let bad = |name: &str, e: serde_json::Error| {
            Failure::new(
                Code::Data,
                format!("{} is damaged or not ours: {e}", directory.file(name).display()),
            )
        };
        let arguments = serde_json::from_value(record.settings.clone()).map_err(|e| bad("fit.json", e))?;
        let meaning = serde_json::from_slice(&directory.read(MEANING)?).map_err(|e| bad(MEANING, e))?;
        Ok(Self { directory, record, arguments, meaning })
    }

    /// The posterior of the first scale that was not given; nothing where there is none, or where the fit has no arrays.
    fn density(&self) -> Vec<(f64, f64)> {
        let mixed = self.arrays().and_then(|arrays| self.mixed(&arrays));
        mixed.ok().flatten().map(|(mixed, varies)| mixed.density(&varies)).unwrap_or_default()
    }

    /// The mixture of a fit whose scales were not all given, and which.
    fn mixed(&self, arrays: &Arrays) -> Result<Option<(Mixed, Varies)>, Failure> {
        let bad = |words: String| Failure::new(Code::Data, words);
        let family = self.arguments.family()?;
        let (sigma, dispersion) = (self.arguments.sigma, self.arguments.dispersion);
        let Some(varies) = Varies::of(&self.meaning.encoding, family, sigma, dispersion)? else {
            return Ok(None);
        };
        let mixed = Mixed::of_vectors(self.meaning.dim(), varies.scales.len(), &arrays.vectors)
            .ok_or_else(|| bad(format!("the arrays have no grid, but {} was not given", varies.names())))?;
        Ok(Some((mixed.map_err(bad)?, varies)))
    }

    /// The data of the fit, where they still are.
    fn data(&self) -> Option<&Path> {
        self.arguments.data.as_deref()
    }

    fn arrays(&self) -> Result<Arrays, Failure> {
        let arrays = Arrays::read(&self.directory)?;
        if arrays.gaussian.dim() == self.meaning.dim() {
            return Ok(arrays);
        }
        let words = format!(
            "the arrays have {} latents, {MEANING} has {}",
            arrays.gaussian.dim(),
            self.meaning.dim()
        );
        Err(Failure::new(Code::Data, words))
    }
}

/// `certus sample`: row k depends on the seed and k only.
pub fn sample(dir: &Path, draws: usize, seed: u64, to: &Path, overwrite: bool) -> Result<Code, Failure> {
    let stored = Stored::read(dir)?;
    let output = Output::new(to, overwrite, dir, stored.data().as_slice())?;
    let arrays = stored.arrays()?;
    let quantities = stored.meaning.quantities();
    let (values, kind) = match stored.mixed(&arrays)? {
        Some((mixed, varies)) => (mixed.draws(&quantities, &varies, draws, seed), "mixture of Gaussians"),
        None => (certus_data::draws(&quantities, &arrays.gaussian, draws, seed), "Gaussian approximation"),
    };
    let names: Vec<String> = stored.record.parameters.iter().map(|p| p.name.clone()).collect();
    let comments = [
        format!("draws of a {kind} by certus, model = {}", stored.record.model),
        format!("num_samples = {draws}"),
        format!("seed = {seed}"),
    ];
    output.write(&Sheet { names: &names, values: &values, comments: &comments })?;
    print(&format!("{draws} draws of {} parameters in {}\n", names.len(), to.display()))?;
    Ok(Code::Reached)
}

/// `certus predict`.
pub fn predict(
    dir: &Path,
    new: &Path,
    groups: Option<&str>,
    to: &Path,
    overwrite: bool,
) -> Result<Code, Failure> {
    let stored = Stored::read(dir)?;
    let inputs: Vec<&Path> = std::iter::once(new).chain(stored.data()).collect();
    let output = Output::new(to, overwrite, dir, &inputs)?;
    let arrays = stored.arrays()?;
    let source = open(new, None, None)?;
    let (family, storage) = (stored.arguments.family()?, Storage::default());
    let mut whose = String::new();
    let rows = match (stored.mixed(&arrays)?, groups) {
        (None, Some(_)) => {
            return Err(Failure::new(
                Code::Usage,
                "--groups belongs to fits whose group sd was not given: leave it out",
            ));
        }
        (None, None) => certus_data::predict(family, &stored.meaning, &arrays.gaussian, &*source, &storage)?,
        (Some((mixed, varies)), groups) => {
            let word = groups.unwrap_or("known");
            whose = match word {
                _ if varies.effect.is_none() => "",
                "known" => " for the rows' own groups",
                "new" => " for new groups",
                _ => " averaged over the population of groups",
            }
            .into();
            let asked = word.parse()?;
            certus_data::predict_mixed(family, &stored.meaning, &varies, &mixed, asked, &*source, &storage)?
        }
    };
    let values: Vec<f64> =
        rows.iter().flat_map(|p| [p.mean, p.q05, p.q50, p.q95, p.linear_mean, p.linear_sd]).collect();
    let names = ["mean", "q05", "q50", "q95", "linear_mean", "linear_sd"].map(String::from);
    output.write(&Sheet { names: &names, values: &values, comments: &[] })?;
    let read = source.files_read(rows.len()).map_or(String::new(), |words| format!(" ({words})"));
    print(&format!("predictions{whose} in {}, rows: {}{read}\n", to.display(), rows.len()))?;
    Ok(Code::Reached)
}

/// `certus report`.
pub fn report(dir: &Path) -> Result<Code, Failure> {
    let stored = Stored::read(dir)?;
    let response = &stored.meaning.encoding.response;
    let extras = Extras {
        title: Some(format!("{} regression of {response}", stored.record.model)),
        data: data_lines(&stored.arguments, &stored.meaning.encoding),
        draws: None,
        density: stored.density(),
        directory: Some(dir.display().to_string()),
    };
    certus_store::report::write(&stored.directory, &stored.record, &extras)?;
    print(&format!("{}\n", stored.directory.file(REPORT).display()))?;
    Ok(Code::Reached)
}

/// The data in a few lines for the report.
fn data_lines(arguments: &FitArguments, encoding: &Encoding) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut line = |what: &str, value: String| lines.push((what.to_string(), value));
    if let Some(path) = &arguments.data {
        line("file", path.display().to_string());
    }
    for (what, value) in [("where", &arguments.r#where), ("query", &arguments.sql)] {
        value.iter().for_each(|value| line(what, value.clone()));
    }
    lines.extend(encoding.described());
    lines
}

/// `certus compare`: the parameters that both have, and where they differ most.
pub fn compare(left: &Path, right: &Path) -> Result<Code, Failure> {
    let (a, b) = (Stored::read(left)?, Stored::read(right)?);
    let of: HashMap<&str, &Parameter> = b.record.parameters.iter().map(|p| (p.name.as_str(), p)).collect();
    let mut rows = Vec::new();
    for p in &a.record.parameters {
        let Some(q) = of.get(p.name.as_str()) else { continue };
        let [m, s, n, t] = [p.mean, p.sd, q.mean, q.sd].map(|x| x.unwrap_or(f64::NAN));
        rows.push(((n - m) / s, t / s, p.name.clone(), [m, s, n, t]));
    }
    let both = rows.len();
    let worst = rows.iter().map(|r| r.0.abs()).fold(0.0, f64::max);
    rows.sort_by(|x, y| y.0.abs().total_cmp(&x.0.abs()));
    let head = ["parameter", "mean", "sd", "mean", "sd", "difference", "sd ratio"].map(String::from).to_vec();
    let shown = rows.iter().take(40).map(|(difference, ratio, name, numbers)| {
        let numbers = numbers.iter().map(|x| format!("{x:.5}"));
        std::iter::once(name.clone())
            .chain(numbers)
            .chain([format!("{difference:+.4} sd"), format!("{ratio:.4}")])
            .collect()
    });
    let table: Vec<Vec<String>> = std::iter::once(head).chain(shown).collect();
    let mut out = format!("{} against {}\n\n{}\n", left.display(), right.display(), aligned(&table));
    let only = |x: &Stored| x.record.parameters.len() - both;
    out.push_str(&format!(
        "{both} parameters in both, {} only in the first, {} only in the second; means differ by at most {} sd of the first\n",
        only(&a),
        only(&b),
        figure(worst)
    ));
    let same = a.record.data.fingerprint.is_some() && a.record.data.fingerprint == b.record.data.fingerprint;
    out.push_str(if same {
        "the data are the same\n"
    } else {
        "the data differ, so evidence and ELBO cannot be compared\n"
    });
    if let (true, Some(x), Some(y)) = (same, a.record.neg_elbo, b.record.neg_elbo) {
        out.push_str(&format!(
            "ELBO: {:.4} and {:.4}, difference {:+.4} nats (a lower bound of the log evidence of each model)\n",
            -x,
            -y,
            x - y
        ));
    }
    let evidence = |x: &Stored| x.record.certificate.scale.as_ref().and_then(|s| s.log_evidence);
    if let (true, Some(x), Some(y)) = (same, evidence(&a), evidence(&b)) {
        out.push_str(&format!("log evidence, estimated: {x:.4} and {y:.4}, difference {:+.4} nats\n", y - x));
    }
    print(&out)?;
    Ok(Code::Reached)
}
