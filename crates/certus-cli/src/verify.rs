//! `certus verify`: is what a fit directory says true? The checks are those of `certus_fit::verify`; here files are
//! read and findings printed.

use std::path::Path;

use certus_fit::FitDirectory;
use certus_fit::directory::GROUPS;
use certus_fit::many::files::ManyDirectory;
use certus_fit::record::GroupEffect;
use certus_fit::verify::{Recipe, Report, Stored, Word};
use certus_fit::{GroupTable, MixturePosterior, Problem, Settings};

use crate::exit::{Code, Failure, print};
use crate::fit::moved;
use crate::signals::{FinalWords, Signals};

/// Sentences of what is wrong that are printed.
const SHOWN: usize = 20;

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

/// A fit with its data.
fn with_data(stored: &Stored, data: Option<&Path>) -> Result<Report, Failure> {
    let record = &stored.record;
    let of_settings = damaged("the settings in fit.json");
    let mut arguments: Settings = serde_json::from_value(record.settings.clone())
        .map_err(|e| Failure::new(Code::Data, format!("the settings in fit.json: {e}")))?;
    if let Some(data) = data {
        arguments.data = Some(data.to_path_buf());
    } else if arguments.data.is_none() {
        return Err(Failure::new(
            Code::Usage,
            "the data are not given, and fit.json names none: use certus verify DIR --data FILE",
        ));
    }
    let asked = arguments.asked().map_err(Failure::from).map_err(&of_settings)?;
    let posterior = arguments.posterior().map_err(Failure::from).map_err(&of_settings)?;
    let (goal, choice) = (
        arguments.goal().map_err(Failure::from).map_err(&of_settings)?,
        arguments.choice().map_err(Failure::from).map_err(&of_settings)?,
    );
    let signals = listen("the fit was not verified")?;
    let problem = crate::request::problem(&arguments, &signals, None).map_err(moved).map_err(&of_settings)?;
    signals.doing("checking what is stored");
    let fingerprint = format!("{:016x}", problem.prepared.fingerprint);
    if record.data.fingerprint.as_deref() != Some(fingerprint.as_str()) {
        return Err(Failure::new(
            Code::Refuted,
            "the data are not those of the fit: their fingerprints differ",
        ));
    }
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
            let mixture_posterior = MixturePosterior::of_vectors(
                problem.meaning.dim(),
                scale_model.unknown_scales.scales.len(),
                &stored.arrays.vectors,
            );
            let effects = mixture_posterior
                .and_then(Result::ok)
                .and_then(|mixture_posterior| mixture_posterior.effects);
            match (effects, &scale_model.unknown_scales.effect, problem.prepared.encoding.groups.first()) {
                (Some(effects), Some(effect), Some(group)) => {
                    let row = |(k, row): (usize, &[f64])| GroupEffect {
                        group: group.level_name(k),
                        rows: row[0] as u64,
                        mean: row[1],
                        sd: row[2],
                        q05: row[3],
                        q50: row[4],
                        q95: row[5],
                    };
                    let table = effects.table(effect);
                    let all: Vec<GroupEffect> = table.chunks_exact(6).enumerate().map(row).collect();
                    let table = GroupTable::integrated(&problem.prepared.encoding, effect, &all);
                    Some(table.to_parquet(GroupTable::NOTHING)?)
                }
                _ => None,
            }
        }
        None => {
            let w = &stored.arrays.gaussian;
            match (GroupTable::new(&problem.meaning, &problem.rows_by_level(), w), problem.model()) {
                (Some(table), Some(model)) => {
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
