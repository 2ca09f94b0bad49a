//! `certus verify`: is what a fit directory says true? The checks are those of `certus_fit::verify`; here files are
//! read and findings printed.

use std::path::Path;

use certus_fit::FitDirectory;
use certus_fit::directory::GROUPS;
use certus_fit::many::files::ManyDirectory;
use certus_fit::record::GroupEffect;
use certus_fit::verify::{Recipe, Report, Stored, Word};
use certus_fit::{EffectSource, GroupTable, MixturePosterior, Problem, Settings, own_coefficients};

use crate::exit::{Code, Failure, print};
use crate::fit::moved;
use crate::signals::{FinalWords, Signals};

/// Sentences of what is wrong that are printed.
const SHOWN: usize = 20;
/// What is damaged where settings make no sense.
const OF_SETTINGS: &str = "the settings in fit.json";

/// `certus verify DIR`.
pub fn check(dir: &Path, data: Option<&Path>) -> Result<Code, Failure> {
    if ManyDirectory::is_one(dir) {
        return crate::verify_many::check(dir, data);
    }
    let directory = FitDirectory::open(dir)?;
    directory.note().iter().for_each(|words| crate::exit::note(words));
    let stored = Stored::read(&directory)?;
    let report = if stored.is_black_box() {
        certus_fit::verify::check_black_box(&stored)
    } else {
        with_data(&stored, data)?
    };
    finish(&report)
}

/// What is in the files is data: where it makes no sense, they are damaged.
pub(crate) fn damaged(what: &str) -> impl Fn(Failure) -> Failure {
    move |failure| match failure.code {
        Code::Usage => Failure::new(Code::Data, format!("{what}: {}", failure.message)),
        _ => failure,
    }
}

/// Signals and what they end with.
pub(crate) fn listen(left: &'static str) -> Result<Signals, Failure> {
    let signals = Signals::listen()?;
    signals.doing("reading and preparing the data");
    signals
        .on_end(move |reason| FinalWords::saying(format!("{} while {}; {left}", reason.words, reason.doing)));
    Ok(signals)
}

/// The settings of a fit, with the data where they are now.
fn settings(stored: &Stored, data: Option<&Path>, command: &str) -> Result<Settings, Failure> {
    let mut settings: Settings = serde_json::from_value(stored.record.settings.clone())
        .map_err(|e| Failure::new(Code::Data, format!("the settings in fit.json: {e}")))?;
    if let Some(data) = data {
        settings.data = Some(data.to_path_buf());
    } else if settings.data.is_none() {
        return Err(Failure::new(
            Code::Usage,
            format!("the data are not given, and fit.json names none: use {command} --data FILE"),
        ));
    }
    Ok(settings)
}

/// The model of a stored fit, from the same data.
fn problem(stored: &Stored, settings: &Settings, signals: &Signals) -> Result<Problem, Failure> {
    let problem =
        crate::request::problem(settings, signals, None).map_err(moved).map_err(damaged(OF_SETTINGS))?;
    let fingerprint = format!("{:016x}", problem.prepared.fingerprint);
    if stored.record.data.fingerprint.as_deref() != Some(fingerprint.as_str()) {
        return Err(Failure::new(
            Code::Refuted,
            "the data are not those of the fit: their fingerprints differ",
        ));
    }
    Ok(problem)
}

/// Reads a fit and its data again.
pub(crate) fn reread(dir: &Path, data: Option<&Path>, command: &str) -> Result<(Stored, Problem), Failure> {
    let directory = FitDirectory::open(dir)?;
    directory.note().iter().for_each(|words| crate::exit::note(words));
    let stored = Stored::read(&directory)?;
    if stored.is_black_box() {
        let words = "the fit is one of a log density, whose rows are not known";
        return Err(Failure::new(Code::Usage, words));
    }
    let settings = settings(&stored, data, command)?;
    let signals = listen("nothing was written")?;
    let problem = problem(&stored, &settings, &signals)?;
    Ok((stored, problem))
}

/// A fit with its data.
fn with_data(stored: &Stored, data: Option<&Path>) -> Result<Report, Failure> {
    let of_settings = damaged(OF_SETTINGS);
    let arguments = settings(stored, data, "certus verify DIR")?;
    let asked = arguments.asked().map_err(Failure::from).map_err(&of_settings)?;
    let posterior = arguments.posterior().map_err(Failure::from).map_err(&of_settings)?;
    let (goal, choice) = (
        arguments.goal().map_err(Failure::from).map_err(&of_settings)?,
        arguments.choice().map_err(Failure::from).map_err(&of_settings)?,
    );
    let signals = listen("the fit was not verified")?;
    let problem = problem(stored, &arguments, &signals)?;
    signals.doing("checking what is stored");
    let recipe = Recipe {
        problem: &problem,
        asked,
        meta: &|outcome, parameters| problem.meta(&arguments, parameters, problem.notes_of(&goal, outcome)),
        goal: goal.clone(),
        choice,
        posterior,
    };
    let mut report = certus_fit::verify::check(&recipe, stored);
    if signals.must_end() || signals.seen().is_some() {
        return Err(signals.end());
    }
    groups(&problem, stored, &mut report)?;
    Ok(report)
}

/// groups.parquet says what the arrays say: its bytes are a function of them.
fn groups(problem: &Problem, stored: &Stored, report: &mut Report) -> Result<(), Failure> {
    let Some(there) = &stored.groups else { return Ok(()) };
    let own = match problem.collapsed() {
        Some(scale_model) => {
            let unknown_scales = &scale_model.unknown_scales;
            let (encoding, varying) = (&problem.prepared.encoding, &unknown_scales.effects);
            let mixture =
                MixturePosterior::of_vectors(problem.meaning.dim(), unknown_scales, &stored.arrays.vectors)
                    .and_then(Result::ok);
            let both = mixture.as_ref().and_then(|own| Some((own.effects.as_ref()?, own.gaussian().ok()?)));
            match both {
                Some((effects, gaussian)) if !varying.is_empty() => {
                    let mut all = Vec::new();
                    for effect in varying {
                        let row = |(k, row): (usize, &[f64])| GroupEffect {
                            group: encoding.groups[effect.term].level_name(k),
                            rows: row[0] as u64,
                            mean: row[1],
                            sd: row[2],
                            q05: row[3],
                            q50: row[4],
                            q95: row[5],
                        };
                        all.extend(effects.table(effect).chunks_exact(6).enumerate().map(row));
                    }
                    let draws = stored.draws(unknown_scales.scales.len());
                    let source =
                        draws.as_ref().map_or(EffectSource::Gaussian(&gaussian), EffectSource::Draws);
                    let own = own_coefficients(&problem.meaning, varying, effects, &source);
                    let table = GroupTable::integrated(encoding, varying, &all, &own);
                    Some(table.to_parquet(GroupTable::NOTHING)?)
                }
                _ => None,
            }
        }
        None => {
            let w = &stored.arrays.gaussian;
            let draws = stored.draws(0);
            let source = draws.as_ref().map_or(EffectSource::Gaussian(w), EffectSource::Draws);
            let table = GroupTable::new(&problem.meaning, &problem.rows_by_level(), &source);
            match (table, problem.model(), &stored.record.table, &draws) {
                (Some(table), _, Some(printed), Some(draws)) => {
                    Some(table.to_parquet(&GroupTable::stated_draws(printed.source, draws.count()))?)
                }
                (Some(table), Some(model), _, _) => {
                    Some(table.to_parquet(&GroupTable::stated(&model.certified_gap(w)?))?)
                }
                _ => None,
            }
        }
    };
    let here = stored.record.versions.get("certus").map(String::as_str) == Some(env!("CARGO_PKG_VERSION"));
    match own {
        Some(own) if own == *there => {
            report.lines.push(line(Word::Recomputed, format!("{GROUPS}: it follows from the arrays")));
        }
        Some(_) if !here => {
            let words = format!("{GROUPS}: written by another version of certus");
            report.lines.push(line(Word::NotChecked, words));
        }
        Some(_) => report.refuted.push(format!("{GROUPS} does not follow from the arrays")),
        None => report.refuted.push(format!("there is a {GROUPS}, but the arrays have no effects of groups")),
    }
    Ok(())
}

fn line(word: Word, what: String) -> certus_fit::verify::Line {
    certus_fit::verify::Line { word, what }
}

/// Prints what was found; what is refuted ends with its code.
pub(crate) fn finish(report: &Report) -> Result<Code, Failure> {
    let mut out = String::new();
    for word in [Word::Confirmed, Word::Recomputed, Word::NotChecked] {
        for line in report.lines.iter().filter(|line| line.word == word) {
            out.push_str(&format!("{word:<12} {}\n", line.what));
        }
    }
    for words in report.refuted.iter().take(SHOWN) {
        out.push_str(&format!("{:<12} {words}\n", "refuted"));
    }
    print(&out)?;
    match report.refuted.first() {
        None => Ok(Code::Reached),
        Some(first) => {
            let more = match report.refuted.len() - 1 {
                0 => String::new(),
                count => format!(" (and {count} more)"),
            };
            Err(Failure::new(Code::Refuted, format!("the fit is refuted: {first}{more}")))
        }
    }
}
