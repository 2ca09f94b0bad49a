//! `certus verify` of a directory of many fits: every group is fitted again and its row compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use certus_fit::many::files::{Chunk, FITS, MANIFEST, Manifest, ManyDirectory};
use certus_fit::many::{GroupFit, Many, ManyObserver, ManyStatus};
use certus_fit::verify::{IDLE, Line, Report, Word, leaves_that_differ};

use crate::exit::{Code, Failure};
use crate::fit::moved;
use crate::many::{ManyArguments, how, manifest, stored};
use crate::request::{Stoppable, open, path, request};
use crate::signals::Signals;
use crate::verify::{damaged, finish, listen};

/// `certus verify DIR`, where many fits are.
pub fn check(dir: &Path, data: Option<&Path>) -> Result<Code, Failure> {
    let directory = ManyDirectory::open(dir)?;
    let there = directory.manifest()?;
    let mut arguments: ManyArguments = serde_json::from_value(there.settings.clone())
        .map_err(|e| Failure::new(Code::Data, format!("the settings in {MANIFEST}: {e}")))?;
    if let Some(data) = data {
        arguments.fit.settings.data = Some(data.to_path_buf());
    }
    let (own, chunks) = again(&arguments, &there)?;
    let mut report = Report::default();
    let mut line = |word: Word, what: String| report.lines.push(Line { word, what });
    let mut refuted = leaves_that_differ(MANIFEST, &directory.json(None)?, &value(&own), &|path| {
        let setting = path.strip_prefix(MANIFEST).and_then(|p| p.strip_prefix(".settings.fit."));
        setting.is_some_and(|name| IDLE.contains(&name))
    });
    if refuted.is_empty() {
        line(
            Word::Recomputed,
            format!("{MANIFEST}: {} groups of {} rows by {}", own.groups, own.rows, own.by),
        );
    }
    let (mut whole, mut missing, mut fits) = (Vec::new(), 0, 0);
    for (index, made) in chunks.iter().enumerate() {
        let Some(chunk) = directory.chunk(&own, index)? else {
            match directory.json(Some(index)) {
                Err(certus_fit::Error::Missing { .. }) => missing += 1,
                Err(error) => return Err(error.into()),
                Ok(_) => refuted.push(format!("chunk {index} belongs to other fits, or has other groups")),
            }
            continue;
        };
        let found = leaves_that_differ(
            &format!("chunk {index}"),
            &directory.json(Some(index))?,
            &value(made),
            &|_| false,
        );
        fits += if found.is_empty() { made.fits.len() } else { 0 };
        refuted.extend(found);
        whole.push(chunk);
    }
    if fits > 0 {
        let level = |name: &str| chunks.iter().flat_map(|c| &c.fits).filter(|f| f.gap_level == name).count();
        line(
            Word::Recomputed,
            format!(
                "{fits} fits: status, message, gap, negative ELBO and parameters of each group, by repeating the run \
                    on its rows ({} proved)",
                level("proved")
            ),
        );
    }
    // once the table is there, chunks are not needed any more
    let (count, from) = (chunks.len(), if missing == 0 { "the chunks" } else { "the run" });
    match std::fs::read(dir.join(FITS)) {
        Ok(bytes) => {
            let parts = if missing == 0 { whole } else { chunks };
            if ManyDirectory::table(&own, parts)? == bytes {
                line(Word::Recomputed, format!("{FITS}: it follows from {from}"));
            } else {
                refuted.push(format!("{FITS} does not follow from {from}"));
            }
        }
        Err(_) => line(Word::NotChecked, format!("{FITS}: missing")),
    }
    if missing > 0 {
        line(Word::NotChecked, format!("{missing} of {count} chunks, which are missing"));
    }
    line(Word::NotChecked, format!("no claim rests on them: settings {}", IDLE.join(", ")));
    report.refuted = refuted;
    finish(&report)
}

fn value<T: serde::Serialize>(what: &T) -> serde_json::Value {
    serde_json::to_value(what).expect("plain values")
}

/// The same run, with nothing written.
fn again(arguments: &ManyArguments, there: &Manifest) -> Result<(Manifest, Vec<Chunk>), Failure> {
    let of_settings = damaged("the settings in many.json");
    let fit = &arguments.fit.settings;
    let by = arguments.by.as_deref().unwrap_or(&there.by);
    let (how, request) = (how(fit).map_err(&of_settings)?, request(fit).map_err(&of_settings)?);
    let signals = listen("the fits were not verified")?;
    let path = path(fit).map_err(&of_settings)?;
    let source = open(path, fit).map_err(moved).map_err(&of_settings)?;
    let source = Stoppable { source, signals: &signals };
    let stopped = |e: certus_fit::Error| {
        if source.stopped() { signals.end() } else { of_settings(e.into()) }
    };
    let many = Many::new(&source, &request, by).map_err(stopped)?;
    let (own, chunks) = manifest(arguments, &many, by);
    signals.doing("fitting every group again");
    let todo: Vec<usize> = (0..chunks.count()).collect();
    let made = Made { signals: &signals, many: &many, manifest: &own, chunks: Mutex::default() };
    if many.run(&source, &chunks, &todo, &[], &how, &made).map_err(stopped)? == ManyStatus::Stopped {
        return Err(signals.end());
    }
    let found = made.chunks.into_inner().expect("no thread panics while it holds the lock");
    Ok((own, found.into_values().collect()))
}

/// Chunks that are kept in memory.
struct Made<'a> {
    signals: &'a Signals,
    many: &'a Many,
    manifest: &'a Manifest,
    chunks: Mutex<BTreeMap<usize, Chunk>>,
}

impl ManyObserver for Made<'_> {
    fn stop(&self) -> bool {
        self.signals.seen().is_some() || self.signals.must_end()
    }

    fn group(&self) {}

    fn chunk(&self, chunk: usize, fits: Vec<GroupFit>, data: u64) -> bool {
        let content = stored(self.many, self.manifest, fits, data);
        self.chunks.lock().expect("no thread panics while it holds the lock").insert(chunk, content);
        true
    }
}
