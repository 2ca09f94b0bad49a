//! `certus fit-many`: one certified model per value of a key column, in chunks that any process may make and none makes
//! twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use certus::certificate::words::{counted, figure, nearest};
use certus_data::Source;
use certus_fit::many::files::{Chunk, FITS, GroupResult, Key as StoredKey, Manifest, ManyDirectory};
use certus_fit::many::{Chunks, GroupFit, Key, Many, ManyObserver, ManySettings, ManyStatus};
use certus_fit::{Fingerprint, Settings};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::arguments::FitArguments;
use crate::exit::{Code, Failure, note, print, print_json};
use crate::progress::Counter;
use crate::request::{Stoppable, open, path, request};
use crate::signals::{FinalWords, Signals};
use crate::table::aligned;

/// Arguments of `fit-many`: those of `fit`, and the column that assigns rows to models.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ManyArguments {
    /// Those of `fit`.
    #[command(flatten)]
    pub fit: FitArguments,
    /// Column whose value determines the model that a row belongs to
    #[arg(long, value_name = "COL", help_heading = "Many")]
    pub by: Option<String>,
    /// Groups per chunk [default: depends on the data, at most 1000]
    #[arg(long, value_name = "N", help_heading = "Many")]
    pub chunk: Option<usize>,
    /// Compute only the K-th of P parts of the chunks, with K from 1 to P; other processes compute the other parts
    #[arg(long, value_name = "K/P", help_heading = "Many")]
    #[serde(skip)]
    pub part: Option<String>,
    /// Compute no chunks, only assemble the table from existing ones
    #[arg(long, help_heading = "Many", conflicts_with = "part")]
    #[serde(skip)]
    pub collect: bool,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(Code::Usage, message)
}

/// "3/8" as (2, 8).
fn part(text: &str) -> Result<(usize, usize), Failure> {
    let numbers = text.split_once('/').map(|(k, p)| (k.trim().parse::<usize>(), p.trim().parse::<usize>()));
    match numbers {
        Some((Ok(k), Ok(p))) if (1..=p).contains(&k) => Ok((k - 1, p)),
        _ => Err(usage(format!(
            "--part is '{text}', but K/P with K from 1 to P is required (with Slurm: sbatch --array=1-8)"
        ))),
    }
}

/// `certus fit-many`.
pub fn fit_many(arguments: &ManyArguments) -> Result<Code, Failure> {
    let clock = Instant::now();
    let fit = &arguments.fit.settings;
    let out = fit.out.as_deref().ok_or_else(|| usage("the output directory is not given: use --out DIR"))?;
    if arguments.collect {
        let directory = ManyDirectory::open(out)?;
        let manifest = directory.manifest()?;
        return finish(arguments, &directory, &manifest, None);
    }
    let by = arguments.by.as_deref().ok_or_else(|| {
        usage("the column that identifies the model of each row is not given: use --by COL (for one model: certus fit)")
    })?;
    let part = arguments.part.as_deref().map(part).transpose()?;
    if arguments.chunk == Some(0) {
        return Err(usage("--chunk is 0, but at least one group per chunk is required"));
    }
    if fit.overwrite && part.is_some() {
        return Err(usage(
            "--overwrite with --part would remove the results of the other parts: remove the directory first",
        ));
    }
    let limit = fit.goal()?.max_time;
    let how = how(fit)?;
    let request = request(fit)?;
    let signals = Signals::with_limit(limit, clock, true)?;
    signals.doing("reading the keys");
    signals.on_end(|reason| {
        FinalWords::saying(format!("{} while {}; finished chunks are kept", reason.words, reason.doing))
    });
    let counter = Counter::new(fit.quiet);
    counter.say("reading the keys");
    let source = open(path(fit)?, fit)?;
    let source = Stoppable { source, signals: &signals };
    let stopped = |e: certus_fit::Error| if source.stopped() { signals.end() } else { e.into() };
    crate::output::apart(out, path(fit)?)?;
    let many = Many::new(&source, &request, by).map_err(stopped)?;
    let (manifest, chunks) = manifest(arguments, &many, by);
    if let Some(words) = source.files_read(manifest.rows).filter(|_| !fit.quiet) {
        note(&words);
    }
    let directory = {
        let _writing = signals.writing();
        ManyDirectory::begin(out, &manifest, part.is_some(), fit.overwrite)?
    };
    let (index, parts) = part.unwrap_or((0, 1));
    let (mut todo, mut known, mut groups) = (Vec::new(), Vec::new(), 0);
    for chunk in chunks.of_part(index, parts) {
        let read = directory.chunk(&manifest, chunk)?;
        match read.and_then(|read| u64::from_str_radix(&read.data, 16).ok()) {
            Some(data) => known.push((chunk, data)),
            None => {
                groups += chunks.groups_of(chunk).len();
                todo.push(chunk);
            }
        }
    }
    counter.begin(groups);
    signals.doing("fitting");
    let left = Arc::new(AtomicUsize::new(todo.len()));
    let (theirs, all) = (left.clone(), chunks.count());
    signals.on_end(move |reason| {
        let left = theirs.load(Ordering::Relaxed);
        FinalWords::saying(format!(
            "{} with {left} of {all} chunks left; run the same command to continue",
            reason.words
        ))
    });
    let progress = ManyProgress { signals: &signals, counter: &counter, many: &many, left: &left };
    let progress = Writing { progress, directory: &directory, manifest: &manifest, broken: Mutex::new(None) };
    let ended = many.run(&source, &chunks, &todo, &known, &how, &progress);
    counter.done();
    if let Some(error) = progress.broken.into_inner().expect("no thread panics while it holds the lock") {
        return Err(error.into());
    }
    if ended.map_err(stopped)? == ManyStatus::Stopped {
        return Err(signals.end());
    }
    let speed = Some((groups, clock.elapsed())).filter(|(groups, _)| *groups > 0);
    signals.finish(|| finish(arguments, &directory, &manifest, speed))
}

/// How every group is fitted.
pub(crate) fn how(fit: &Settings) -> Result<ManySettings, Failure> {
    fit.check_many()?;
    Ok(ManySettings {
        goal: fit.goal()?,
        choice: fit.choice()?,
        level: fit.asked()?,
        threads: fit.threads,
        memory: None,
    })
}

/// `certus resume` on a directory of many fits.
pub fn resume(dir: &Path, data: Option<&Path>, json: bool, quiet: bool) -> Result<Code, Failure> {
    let manifest = ManyDirectory::open(dir)?.manifest()?;
    let mut arguments: ManyArguments = serde_json::from_value(manifest.settings)
        .map_err(|e| Failure::new(Code::Data, format!("the settings in {}: {e}", dir.display())))?;
    let fit = &mut arguments.fit.settings;
    (fit.json, fit.quiet, fit.overwrite, fit.out) = (json, quiet, false, Some(dir.to_path_buf()));
    if let Some(data) = data {
        fit.data = Some(data.to_path_buf());
    }
    fit_many(&arguments).map_err(crate::fit::moved)
}

/// What decides the results, and how groups are dealt into chunks.
pub(crate) fn manifest(arguments: &ManyArguments, many: &Many, by: &str) -> (Manifest, Chunks) {
    let keys = many.keys();
    let rows = (0..keys.len()).map(|g| keys.rows(g)).sum();
    let mut chunks = Chunks::usual(keys.len(), rows);
    chunks.size = arguments.chunk.unwrap_or(chunks.size);
    let decisive = arguments.fit.settings.decisive().to_string();
    let size = (chunks.size as u64).to_le_bytes();
    let fingerprint =
        Fingerprint::of([decisive.as_bytes(), by.as_bytes(), &keys.fingerprint().to_le_bytes(), &size]);
    let mut settings = arguments.clone();
    let own = &mut settings.fit.settings;
    (own.out, own.json, own.quiet, own.overwrite) = (None, false, false, false);
    // a relative path would mean another file elsewhere
    own.data = own.data.take().map(|path| path.canonicalize().unwrap_or(path));
    let manifest = Manifest {
        version: Manifest::VERSION,
        settings: serde_json::to_value(&settings).expect("arguments are plain values"),
        fingerprint: fingerprint.0.iter().map(|byte| format!("{byte:02x}")).collect(),
        by: by.into(),
        groups: keys.len(),
        rows,
        chunk: chunks.size,
        parameters: many.parameters().to_vec(),
    };
    (manifest, chunks)
}

/// Progress, signals and the clock.
struct ManyProgress<'a> {
    signals: &'a Signals,
    counter: &'a Counter,
    many: &'a Many,
    /// Chunks to make.
    left: &'a AtomicUsize,
}

/// And what is written.
struct Writing<'a> {
    progress: ManyProgress<'a>,
    directory: &'a ManyDirectory,
    manifest: &'a Manifest,
    broken: Mutex<Option<certus_fit::Error>>,
}

impl ManyObserver for Writing<'_> {
    fn stop(&self) -> bool {
        self.progress.signals.asked().is_some()
    }

    fn group(&self) {
        self.progress.counter.step();
    }

    fn chunk(&self, chunk: usize, fits: Vec<GroupFit>, data: u64) -> bool {
        let content = stored(self.progress.many, self.manifest, fits, data);
        let _writing = self.progress.signals.writing();
        let written = self.directory.write_chunk(chunk, &content);
        let fine = written.is_ok();
        self.progress.left.fetch_sub(usize::from(fine), Ordering::Relaxed);
        if let Err(error) = written {
            self.broken.lock().expect("no thread panics while it holds the lock").get_or_insert(error);
        }
        fine
    }
}

/// Fits as a chunk: names once, numbers by name.
pub(crate) fn stored(many: &Many, manifest: &Manifest, fits: Vec<GroupFit>, data: u64) -> Chunk {
    let mut names = manifest.parameters.clone();
    let finite = |x: Option<f64>| x.filter(|x| x.is_finite());
    let mut results = Vec::with_capacity(fits.len());
    for fit in fits {
        let mut parameters = vec![None; names.len()];
        for (name, mean, sd) in fit.parameters {
            let place = names.iter().position(|n| *n == name).unwrap_or_else(|| {
                names.push(name);
                parameters.push(None);
                names.len() - 1
            });
            parameters[place] = Some([mean, sd]).filter(|pair| pair.iter().all(|x| x.is_finite()));
        }
        let key = match many.keys().key(fit.group) {
            Key::Number(x) => StoredKey::Number(*x),
            Key::Date(x) => StoredKey::Date(*x),
            Key::Boolean(b) => StoredKey::Boolean(*b),
            Key::Text(text) => StoredKey::Text(text.clone()),
        };
        results.push(GroupResult {
            key,
            rows: fit.rows as u64,
            status: fit.status.as_str().into(),
            gap_bound: finite(fit.bound),
            gap_level: fit.level.into(),
            neg_elbo: finite(fit.neg_elbo),
            message: fit.message,
            parameters,
        });
    }
    Chunk { of: manifest.fingerprint.clone(), data: format!("{data:016x}"), names, fits: results }
}

/// The table, if every chunk is complete, and its summary.
fn finish(
    arguments: &ManyArguments,
    directory: &ManyDirectory,
    manifest: &Manifest,
    speed: Option<(usize, Duration)>,
) -> Result<Code, Failure> {
    let mut seen = Seen::default();
    if let Err(missing) = directory.collect(manifest, &mut |fit| seen.add(fit))? {
        let (count, all) = (missing.len(), manifest.chunks());
        if arguments.part.is_some() {
            if !arguments.fit.settings.quiet {
                print(&format!(
                    "this part is done; {count} of {all} chunks are missing: when the other parts are done, run \
                        certus fit-many --out {} --collect to write the table\n",
                    directory.path().display()
                ))?;
            }
            return Ok(Code::Reached);
        }
        let first = missing[0];
        return Err(Failure::new(
            Code::Limit,
            format!(
                "{count} of {all} chunks are missing, the first is {first}: run certus resume {} to compute them",
                directory.path().display()
            ),
        ));
    }
    let path = directory.path().join(FITS);
    if arguments.fit.settings.json {
        print_json(&seen.json(manifest, &path))?;
    } else if !arguments.fit.settings.quiet {
        print(&seen.table(manifest, &path, speed))?;
    }
    let all = seen.status.get("reached") == Some(&manifest.groups);
    Ok(if all { Code::Reached } else { Code::Limit })
}

/// All results in a few numbers.
#[derive(Default)]
struct Seen {
    status: BTreeMap<String, usize>,
    levels: BTreeMap<String, usize>,
    /// The largest bound of a gap, and the largest estimate where there is none.
    worst: Option<f64>,
    worst_estimate: Option<f64>,
    /// The first group of every bad ending, and what it says.
    examples: BTreeMap<String, (String, String)>,
}

impl Seen {
    fn add(&mut self, fit: &GroupResult) {
        *self.status.entry(fit.status.clone()).or_default() += 1;
        *self.levels.entry(fit.gap_level.clone()).or_default() += 1;
        let worst = if fit.gap_level == "estimated" { &mut self.worst_estimate } else { &mut self.worst };
        *worst = [*worst, fit.gap_bound].into_iter().flatten().reduce(f64::max);
        if fit.status != "reached" && !self.examples.contains_key(&fit.status) {
            let label = match &fit.key {
                StoredKey::Number(x) => Key::Number(*x).label(),
                StoredKey::Date(x) => Key::Date(*x).label(),
                StoredKey::Boolean(b) => b.to_string(),
                StoredKey::Text(text) => text.clone(),
            };
            self.examples.insert(fit.status.clone(), (label, fit.message.clone()));
        }
    }

    fn table(&self, manifest: &Manifest, path: &Path, speed: Option<(usize, Duration)>) -> String {
        let mut rows = vec![["ended", "groups"].map(String::from).to_vec()];
        rows.extend(self.status.iter().map(|(status, count)| vec![status.clone(), count.to_string()]));
        let mut out = format!(
            "{} by {}, {}\n\n{}\n",
            counted(manifest.groups, "model"),
            manifest.by,
            counted(manifest.rows, "row"),
            aligned(&rows)
        );
        let levels: Vec<String> =
            self.levels.iter().map(|(level, count)| format!("{level} {count}")).collect();
        let bound = self.worst.map(|worst| format!("at most {} nats", figure(worst)));
        let estimate = self
            .worst_estimate
            .map(|worst| format!("about {} nats where it is estimated", nearest(worst, 2)));
        let largest: Vec<String> = bound.into_iter().chain(estimate).collect();
        if !largest.is_empty() {
            out.push_str(&format!("largest gap: {} ({})\n", largest.join(", "), levels.join(", ")));
        }
        for (status, (key, message)) in &self.examples {
            out.push_str(&format!("{status}, first {} = {key}: {message}\n", manifest.by));
        }
        if let Some((groups, time)) = speed {
            let seconds = time.as_secs_f64();
            out.push_str(&format!(
                "{} in {seconds:.1} s, {:.0} per second, including reading\n",
                counted(groups, "fit"),
                groups as f64 / seconds
            ));
        }
        out.push_str(&format!("\nwritten to {}\n", path.display()));
        out
    }

    fn json(&self, manifest: &Manifest, path: &Path) -> String {
        let bound = [self.worst, self.worst_estimate].into_iter().flatten().reduce(f64::max);
        let value = serde_json::json!({
            "groups": manifest.groups,
            "rows": manifest.rows,
            "by": manifest.by,
            "status": self.status,
            "gap": { "bound": bound, "level": self.levels },
            "fits": path,
        });
        format!("{value:#}\n")
    }
}
