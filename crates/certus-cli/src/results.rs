//! What is made from an existing fit: draws, predictions, a report, a comparison.

use std::collections::HashMap;
use std::path::Path;

use certus::certificate::{counted, figure};
use certus_data::Storage;
use certus_fit::directory::{MEANING, REPORT};
use certus_fit::record::Parameter;
use certus_fit::report::Extras;
use certus_fit::{ColumnFile, Fit, FitDirectory, Prediction, Record, extras};

use crate::exit::{Code, Failure, note, print};
use crate::output::Output;
use crate::request::open;
use crate::table::aligned;

/// Opens the directory of a fit, with a note if nothing protects its files.
fn opened(dir: &Path) -> Result<FitDirectory, Failure> {
    let directory = FitDirectory::open(dir)?;
    directory.note().iter().for_each(|words| note(words));
    Ok(directory)
}

/// The data of a fit, where they still are.
fn data(record: &Record) -> Option<&Path> {
    record.settings["data"].as_str().map(Path::new)
}

/// `certus sample`: row k depends on the seed and k only.
pub fn sample(dir: &Path, draws: usize, seed: u64, to: &Path, overwrite: bool) -> Result<Code, Failure> {
    let directory = opened(dir)?;
    let output = Output::new(to, overwrite, dir, data(&Record::read(&directory)?).as_slice())?;
    let fit = Fit::read(&directory)?;
    let kind = match (&fit.mixture, &fit.posterior_draws) {
        (_, Some(_)) => "the posterior",
        (Some(_), None) => "a mixture of Gaussians",
        (None, None) => "a Gaussian approximation",
    };
    if let Some(kept) = fit.posterior_draws.as_ref().map(|kept| kept.count()).filter(|kept| *kept < draws) {
        crate::exit::note(&format!("the fit keeps {kept} draws of the posterior; beyond that they repeat"));
    }
    let names: Vec<String> = fit.record.parameters.iter().map(|p| p.name.clone()).collect();
    let comments = [
        format!("draws of {kind} by certus, model = {}", fit.record.model),
        format!("num_samples = {draws}"),
        format!("seed = {seed}"),
    ];
    output.write(&ColumnFile { names: &names, values: &fit.draws(draws, seed), comments: &comments })?;
    print(&format!(
        "{} of {} in {}\n",
        counted(draws, "draw"),
        counted(names.len(), "parameter"),
        to.display()
    ))?;
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
    let directory = opened(dir)?;
    let record = Record::read(&directory)?;
    let inputs: Vec<&Path> = std::iter::once(new).chain(data(&record)).collect();
    let output = Output::new(to, overwrite, dir, &inputs)?;
    let fit = Fit::read(&directory)?;
    let source = open(new, None, None)?;
    let asked = groups.map(str::parse).transpose()?;
    let rows = fit.predict(&*source, asked, &Storage::default())?;
    let unknown_scales =
        fit.mixture.as_ref().is_some_and(|(_, unknown_scales)| unknown_scales.effect.is_some());
    let whose = match groups.unwrap_or("known") {
        _ if !unknown_scales => "",
        "known" => " for the rows' own groups",
        "new" => " for new groups",
        _ => " averaged over the population of groups",
    };
    let values: Vec<f64> = rows.iter().flat_map(Prediction::numbers).collect();
    output.write(&ColumnFile {
        names: &Prediction::NAMES.map(String::from),
        values: &values,
        comments: &[],
    })?;
    let read = source.files_read(rows.len()).map_or(String::new(), |words| format!(" ({words})"));
    print(&format!("predictions{whose} in {}, rows: {}{read}\n", to.display(), rows.len()))?;
    Ok(Code::Reached)
}

/// `certus report`; for a fit without a Gaussian, what its record says.
pub fn report(dir: &Path) -> Result<Code, Failure> {
    let directory = opened(dir)?;
    let record = Record::read(&directory)?;
    let extras = match Fit::read(&directory) {
        Ok(fit) => fit.extras(),
        Err(_) => {
            let meaning = directory.read(MEANING).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            extras(&record, meaning.as_ref())
        }
    };
    let extras = Extras { directory: Some(dir.display().to_string()), ..extras };
    certus_fit::report::write(&directory, &record, &extras)?;
    print(&format!("{}\n", directory.file(REPORT).display()))?;
    Ok(Code::Reached)
}

/// `certus compare`: the parameters that both have, and where they differ most.
pub fn compare(left: &Path, right: &Path) -> Result<Code, Failure> {
    let (a, b) = (Record::read(&opened(left)?)?, Record::read(&opened(right)?)?);
    let of: HashMap<&str, &Parameter> = b.parameters.iter().map(|p| (p.name.as_str(), p)).collect();
    let mut rows = Vec::new();
    for p in &a.parameters {
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
    let mut out = format!("{} compared with {}\n\n{}\n", left.display(), right.display(), aligned(&table));
    let only = |x: &Record| x.parameters.len() - both;
    out.push_str(&format!(
        "{both} parameters in both, {} only in the first, {} only in the second; the means differ by at most {} \
            sd of the first\n",
        only(&a),
        only(&b),
        figure(worst)
    ));
    let same = a.data.fingerprint.is_some() && a.data.fingerprint == b.data.fingerprint;
    out.push_str(if same {
        "the data are the same\n"
    } else {
        "the rows or the columns in use differ, so evidence and ELBO are not compared\n"
    });
    if let (true, Some(x), Some(y)) = (same, a.neg_elbo, b.neg_elbo) {
        out.push_str(&format!(
            "ELBO: {:.4} and {:.4}, difference {:+.4} nats (a lower bound on the log evidence of each model)\n",
            -x,
            -y,
            x - y
        ));
    }
    if let (true, Some(x), Some(y)) = (same, a.log_evidence(), b.log_evidence()) {
        out.push_str(&format!("log evidence, estimated: {x:.4} and {y:.4}, difference {:+.4} nats\n", y - x));
    }
    print(&out)?;
    Ok(Code::Reached)
}
