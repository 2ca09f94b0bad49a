//! What is made from an existing fit: draws, predictions, a comparison.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use certus::certificate::{counted, figure};
use certus_data::{DataError, Source, Storage};
use certus_fit::record::Parameter;
use certus_fit::{
    ColumnFile, DevianceTest, Fit, FitDirectory, Levels, ModelComparison, ModelRow, Record, Settings,
};
use clap::Args;

use crate::exit::{Code, Failure, note, print, print_data};
use crate::output::Output;
use crate::request::{open_new, open_new_by_query};
use crate::table::aligned;

/// Opens the directory of a fit, with a note if nothing protects its files.
pub fn opened(dir: &Path) -> Result<FitDirectory, Failure> {
    let directory = FitDirectory::open(dir)?;
    directory.note().iter().for_each(|words| note(words));
    Ok(directory)
}

/// The settings of a fit.
pub fn settings(record: &Record) -> Result<Settings, Failure> {
    serde_json::from_value(record.settings.clone())
        .map_err(|e| Failure::new(Code::Data, format!("the settings in fit.json: {e}")))
}

/// The data of a fit, where they still are.
pub fn data(record: &Record) -> Option<&Path> {
    record.settings["data"].as_str().map(Path::new)
}

/// `certus sample`: row k depends on the seed and k only.
pub fn sample(dir: &Path, draws: usize, seed: u64, to: &Path, overwrite: bool) -> Result<Code, Failure> {
    let directory = opened(dir)?;
    let output = Output::new(to, overwrite, dir, data(&Record::read(&directory)?).as_slice())?;
    let fit = Fit::read(&directory)?;
    fit.check_draws(draws)?;
    let kind = match (&fit.mixture, &fit.posterior_draws) {
        (_, Some(_)) => "the posterior",
        (Some((mixture, _)), None) if mixture.is_estimated() => "the normal approximation of the likelihood",
        (Some((mixture, _)), None) if mixture.nodes.len() > 1 => "a mixture of Gaussians",
        (Some(_), None) => "the posterior",
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
    output.write(&ColumnFile {
        names: &names,
        values: &fit.draws(draws, seed),
        labels: &[],
        comments: &comments,
    })?;
    print(&format!(
        "{} of {} in {}\n",
        counted(draws, "draw"),
        counted(names.len(), "parameter"),
        to.display()
    ))?;
    Ok(Code::Reached)
}

/// `certus export-proof`: the certificate and its rows.
pub fn export_proof(
    dir: &Path,
    to: &Path,
    data: Option<&Path>,
    overwrite: bool,
    posterior: bool,
) -> Result<Code, Failure> {
    let record = Record::read(&opened(dir)?)?;
    let inputs: Vec<&Path> = data.into_iter().chain(self::data(&record)).collect();
    let rows = to.with_extension("rows");
    // refuses what must not be replaced
    for file in [to, &rows] {
        Output::new(file, overwrite, dir, &inputs)?;
    }
    let (stored, problem) = crate::verify::reread(dir, data, "certus export-proof DIR --to FILE")?;
    let export = if posterior { certus_fit::proof::export_posterior } else { certus_fit::proof::export };
    let done = export(&problem, &stored, to)?;
    print(&format!(
        "claim: {}\ncertificate in {}, {} of rows in {}\ncheck it with: certus-check {} {}\n",
        done.claim,
        to.display(),
        counted(done.blocks as usize, "block"),
        done.rows.display(),
        to.display(),
        done.rows.display()
    ))?;
    Ok(Code::Reached)
}

/// What is asked of `certus predict`.
#[derive(Debug, Args)]
pub struct PredictArguments {
    /// The directory of the fit
    dir: PathBuf,
    /// The new data, with the columns of the fit; the response is not needed
    new: PathBuf,
    /// Output file: .csv or .parquet [default: CSV on stdout]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long)]
    overwrite: bool,
    /// Copy this column of the new data to the output, before the predictions; repeatable
    #[arg(long, value_name = "COL")]
    id: Vec<String>,
    /// Levels of the quantiles, of the expected response and of a new observation [default: 0.05,0.5,0.95 and
    /// 0.05,0.95]
    #[arg(long, value_name = "P,P", value_delimiter = ',')]
    quantiles: Option<Vec<f64>>,
    /// Add 5 % and 95 % quantiles of a new observation (y05, y95), or those of --quantiles, by simulation
    #[arg(long)]
    observations: bool,
    /// If the sd between groups was not given: predict for the groups of the fit, for an unseen group, or averaged over
    /// the population of groups [default: known]
    #[arg(long, value_parser = ["known", "new", "population"])]
    groups: Option<String>,
}

/// The new data of a prediction: as they are, or by the query of the fit if they lack columns that it computes.
fn new_data(arguments: &PredictArguments, fit: &Fit) -> Result<Box<dyn Source>, Failure> {
    let (encoding, settings) = (&fit.meaning()?.encoding, settings(&fit.record)?);
    let source = open_new(&arguments.new, &settings)?;
    let lacks = |name: &&str| source.columns().iter().all(|c| c.name != **name);
    let lacking: Vec<&str> = encoding.inputs().into_iter().filter(lacks).collect();
    if lacking.is_empty() || settings.sql.is_none() {
        return Ok(source);
    }
    note(&format!(
        "{} is read by the query of the fit (--sql), which computes '{}'",
        arguments.new.display(),
        lacking.join("', '")
    ));
    open_new_by_query(&arguments.new, &settings, &encoding.response_columns())
}

/// `certus predict`.
pub fn predict(arguments: &PredictArguments) -> Result<Code, Failure> {
    let PredictArguments { dir, new, groups, to, observations, .. } = arguments;
    let directory = opened(dir)?;
    let record = Record::read(&directory)?;
    let inputs: Vec<&Path> = std::iter::once(new.as_path()).chain(data(&record)).collect();
    let output = to.as_ref().map(|to| Output::new(to, arguments.overwrite, dir, &inputs)).transpose()?;
    let levels = Levels::new(arguments.quantiles.as_deref(), *observations)?;
    let names: Vec<String> = arguments.id.iter().cloned().chain(levels.names()).collect();
    if let Some(twice) = (1..names.len()).find(|k| names[..*k].contains(&names[*k])) {
        let message = format!(
            "--id: the output would have two columns '{}'; give each column once, and rename one of the new data that \
             is called like a prediction",
            names[twice]
        );
        return Err(Failure::new(Code::Usage, message));
    }
    let fit = Fit::read(&directory)?;
    let source = new_data(arguments, &fit)?;
    let asked = groups.as_deref().map(str::parse).transpose()?;
    let predicted = fit.predict(&*source, asked, &levels, &Storage::default())?;
    let rows = predicted.rows.len();
    let of_ids = arguments.id.iter().map(|name| Ok((name.clone(), certus_data::labels(&*source, name)?)));
    let labels = of_ids.collect::<Result<Vec<_>, DataError>>()?;
    let all: Vec<usize> = (0..source.columns().len()).collect();
    source.notes(&all).iter().chain(&predicted.note()).for_each(|words| note(words));
    let unknown_scales =
        fit.mixture.as_ref().is_some_and(|(_, unknown_scales)| !unknown_scales.effects.is_empty());
    let whose = match groups.as_deref().unwrap_or("known") {
        _ if !unknown_scales => "",
        "known" => " for the rows' own groups",
        "new" => " for new groups",
        _ => " averaged over the population of groups",
    };
    let (names, values) = (levels.names(), predicted.numbers());
    let columns = ColumnFile { names: &names, values: &values, labels: &labels, comments: &[] };
    match (output, to) {
        (Some(output), Some(to)) => {
            output.write(&columns)?;
            let read = source.files_read(rows).map_or(String::new(), |words| format!(" ({words})"));
            print(&format!("predictions{whose} in {}, rows: {rows}{read}\n", to.display()))?;
        }
        _ => print_data(&columns.to_csv()?)?,
    }
    Ok(Code::Reached)
}

/// `certus compare`: criteria, evidence and tests of models of the same responses; of two, the parameters of both.
pub fn compare(dirs: &[PathBuf]) -> Result<Code, Failure> {
    let mut records = Vec::new();
    for dir in dirs {
        records.push((dir.display().to_string(), Record::read(&opened(dir)?)?));
    }
    let fits: Vec<(String, &Record)> = records.iter().map(|(name, record)| (name.clone(), record)).collect();
    let mut out = match &fits[..] {
        [(_, a), (_, b)] => format!("{}\n", parameters(a, b)),
        _ => String::new(),
    };
    out.push_str(&models(&ModelComparison::new(&fits)));
    print(&out)?;
    Ok(Code::Reached)
}

/// The parameters that two fits have, and where they differ most.
fn parameters(a: &Record, b: &Record) -> String {
    let of: HashMap<&str, &Parameter> = b.parameters.iter().map(|p| (p.name.as_str(), p)).collect();
    let mut rows = Vec::new();
    for p in &a.parameters {
        let Some(q) = of.get(p.name.as_str()) else { continue };
        let [m, s, n, t] = [p.mean, p.sd, q.mean, q.sd].map(|x| x.unwrap_or(f64::NAN));
        rows.push(((n - m) / s, t / s, p.name.clone(), [m, s, n, t]));
    }
    let both = rows.len();
    // what has no sd, such as an estimate of 0, comes last
    let size = |difference: f64| if difference.is_nan() { -1.0 } else { difference.abs() };
    let worst = rows.iter().map(|r| size(r.0)).fold(0.0, f64::max);
    rows.sort_by(|x, y| size(y.0).total_cmp(&size(x.0)));
    let head = ["parameter", "mean", "sd", "mean", "sd", "difference", "sd ratio"].map(String::from).to_vec();
    let shown = rows.iter().take(40).map(|(difference, ratio, name, numbers)| {
        let shown = |x: f64, text: String| if x.is_finite() { text } else { "-".into() };
        let numbers = numbers.iter().map(|x| shown(*x, format!("{x:.5}")));
        let beside =
            [shown(*difference, format!("{difference:+.4} sd")), shown(*ratio, format!("{ratio:.4}"))];
        std::iter::once(name.clone()).chain(numbers).chain(beside).collect()
    });
    let table: Vec<Vec<String>> = std::iter::once(head).chain(shown).collect();
    let only = |x: &Record| x.parameters.len() - both;
    format!(
        "{}\n{both} parameters in both, {} only in the first, {} only in the second; the means differ by at most {} \
            sd of the first\n",
        aligned(&table),
        only(a),
        only(b),
        figure(worst)
    )
}

/// Models of the same responses, with what can be compared of them.
fn models(found: &ModelComparison) -> String {
    if let Some(reason) = &found.reason {
        return format!("criteria and evidence are not comparable: {reason}\n");
    }
    let number = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.4}"));
    let evidence = |interval: Option<(f64, f64)>| match interval {
        Some((low, high)) if low < high => format!("{low:.4} to {high:.4}"),
        other => number(other.map(|x| x.0)),
    };
    let head = ["model", "df", "log likelihood", "AIC", "BIC", "ELBO", "log evidence"].map(String::from);
    let row = |m: &ModelRow| {
        let df = m.df.map_or("-".into(), |df| df.to_string());
        let numbers = [m.log_likelihood, m.aic, m.bic, m.elbo].map(number);
        let cells = [m.name.clone(), df].into_iter().chain(numbers).chain([evidence(m.log_evidence)]);
        cells.collect::<Vec<String>>()
    };
    let rows: Vec<Vec<String>> = std::iter::once(head.to_vec()).chain(found.models.iter().map(row)).collect();
    let mut out = aligned(&rows);
    for test in &found.tests {
        let DevianceTest { smaller, larger, statistic, mixture: (low, high), p_value, .. } = test;
        let law = match low == high {
            true => format!("chi-squared with {high} df"),
            false => format!("an equal mixture of chi-squared with {low} and {high} df"),
        };
        let more = if test.conservative { "; conservative: several sds are tested against 0" } else { "" };
        out.push_str(&format!(
            "\n{smaller} in {larger}: deviance {statistic:.4}, p {} ({law}{more})\n",
            if *p_value < 1e-4 { "< 0.0001".into() } else { format!("= {p_value:.4}") }
        ));
    }
    out
}
