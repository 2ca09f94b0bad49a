//! What is done with bytes that nobody has checked: one function per fuzz target. Any bytes may come; nothing may
//! panic, and what is read must be written back as it was. `crates/certus-cli/tests/seeds.rs` runs the same functions.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use certus::Goal;
use certus::moving::MovingMemory;
use certus_data::wire::{Answer, Ask, answer, asked};
use certus_data::{FileOptions, FileSource, Formula, Source, Spec, prepare};
use certus_fit::checkpoint::Checkpoint;
use certus_fit::directory::{ARRAYS, MEANING, RECORD, SETTINGS};
use certus_fit::manifest::MANIFEST;
use certus_fit::{Arrays, CoefficientMap, Fit, FitDirectory, Record, Settings, report};
use certus_likelihood::{Logistic, Response};
use certus_models::auto::ModelState;
use certus_models::{Design, Glm, Memory, Prior};

/// A file of settings, as `--config` reads it.
pub fn settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(table) = toml::from_str::<toml::Table>(text) else { return };
    let Ok(settings) = table.try_into::<Settings>() else { return };
    if settings.check_words().is_err() {
        return;
    }
    let _ =
        (settings.response(), settings.goal(), settings.request(), settings.posterior(), settings.choice());
    let _ = (settings.asked(), settings.check_many(), settings.checkpoint_every());
    let again = toml::to_string(&settings).expect("settings are TOML");
    let again: Settings = toml::from_str(&again).expect("what was printed can be read");
    assert_eq!(format!("{again:?}"), format!("{settings:?}"));
}

/// A formula, as it is typed.
pub fn formula(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Formula>() {
        Err(error) => drop(error.to_string()),
        Ok(formula) => {
            let printed = formula.to_string();
            let again = printed.parse::<Formula>();
            assert_eq!(again.as_ref().ok(), Some(&formula), "{printed}: {again:?}");
        }
    }
}

/// Where this process may write a file.
fn scratch(extension: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let own = root.join(format!("certus-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&own).expect("a place for files");
        own
    });
    folder.join(format!("f.{extension}"))
}

/// For fuzz targets of files, whose engine ends at every panic: one in the code of a decoder is caught by certus-data,
/// which reports bad data, so only panics of certus end the process (and any panic that is not caught).
pub fn decoders_may_panic() {
    std::panic::set_hook(Box::new(|panic| {
        if panic.location().is_some_and(|place| place.file().contains("crates/certus")) {
            let _ = writeln!(std::io::stderr(), "{panic}");
            std::process::abort();
        }
    }));
}

/// A file of data: described, read, and prepared as rows of a model of its first column.
fn file(bytes: &[u8], extension: &str) {
    let path = scratch(extension);
    std::fs::write(&path, bytes).expect("a file");
    let source = match FileSource::open(&[path], FileOptions::default()) {
        Ok(source) => source,
        Err(error) => return drop(error.to_string()),
    };
    let wanted: Vec<usize> = (0..source.columns().len()).collect();
    let mut rows = 0;
    let read = source.scan(&wanted, &mut |batch| {
        for c in &wanted {
            for i in 0..batch.rows() {
                let (column, at) = batch.cell(*c, i);
                let _ = (column.number(at), column.label(at), column.is_missing(at));
            }
        }
        rows += batch.rows();
        Ok(())
    });
    drop(read.map_err(|error| error.to_string()));
    let Some(first) = source.columns().first() else { return };
    for model in [Response::Linear, Response::Logistic] {
        match prepare(&source, &Spec::new(&first.name, model)) {
            Ok(prepared) => drop(prepared.design().map(|_| ())),
            Err(error) => drop(error.to_string()),
        }
    }
}

/// A file of text.
pub fn csv(bytes: &[u8]) {
    file(bytes, "csv");
}

/// A Parquet file.
pub fn parquet(bytes: &[u8]) {
    file(bytes, "parquet");
}

/// An Arrow file.
pub fn arrow(bytes: &[u8]) {
    file(bytes, "arrow");
}

/// The file of a checkpoint.
pub fn checkpoint(bytes: &[u8]) {
    if let Ok(checkpoint) = Checkpoint::decode(bytes) {
        assert_eq!(checkpoint.encode(), bytes);
    }
}

/// The state in a checkpoint, with a check sum that is right.
pub fn state(bytes: &[u8]) {
    static MODEL: OnceLock<Glm> = OnceLock::new();
    let model = MODEL.get_or_init(|| {
        let rows = Memory {
            x: (0..40).map(|k| (f64::from(k) * 1.3).sin()).collect(),
            y: (0..20).map(|i| f64::from(i % 3 / 2)).collect(),
            columns: 2,
            ..Memory::default()
        };
        let prior = Prior::independent(vec![0.0; 2], &[1.0; 2]).expect("a prior");
        Glm::new(Design::new(Arc::new(rows), false), Arc::new(Logistic), prior).expect("a model")
    });
    let mut whole = b"certus model v1\n".to_vec();
    whole.extend(&bytes[..bytes.len() / 8 * 8]);
    // FNV-1a, as `certus::bytes` has it
    let sum = whole
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    whole.extend(sum.to_le_bytes());
    let goal = Goal { threads: Some(1), ..Goal::default() };
    let Ok(mut state) = ModelState::decode(&whole, model, &goal) else { return };
    let again = ModelState::decode(&state.encode(), model, &goal).expect("what was written can be read");
    assert_eq!(again.encode(), state.encode());
    let mut memory = MovingMemory::default();
    let _ = state.step(model, &goal, &mut memory);
}

/// A fit that the tests wrote: its files by name.
const FIT: [(&str, &[u8]); 5] = [
    (RECORD, include_bytes!("../data/fit.json")),
    (ARRAYS, include_bytes!("../data/arrays.safetensors")),
    (MEANING, include_bytes!("../data/meaning.json")),
    (SETTINGS, include_bytes!("../data/settings.json")),
    (MANIFEST, include_bytes!("../data/manifest.json")),
];

fn bytes_of(name: &str) -> &'static [u8] {
    FIT.iter().find(|file| file.0 == name).expect("a file of a fit").1
}

/// What a user can ask of the parts of a fit.
fn use_fit(record: &Record, meaning: &[u8]) {
    let _ = report(record, &certus_fit::extras(record, None));
    let Ok(meaning) = serde_json::from_slice::<CoefficientMap>(meaning) else { return };
    let _ = report(record, &certus_fit::extras(record, Some(&meaning)));
    let arrays = Arrays::decode(bytes_of(ARRAYS)).expect("arrays");
    let Ok(fit) = Fit::of_parts(record.clone(), arrays, Some(meaning)) else { return };
    let _ = (fit.draws(2, 1), fit.extras(), fit.link().map(|_| ()));
}

/// fit.json.
pub fn fit(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let record = match Record::from_json(text) {
        Ok(record) => record,
        Err(words) => return drop(words),
    };
    let again = Record::from_json(&record.to_json()).expect("what was written can be read");
    assert_eq!(again.to_json(), record.to_json());
    use_fit(&record, bytes_of(MEANING));
}

/// meaning.json.
pub fn meaning(bytes: &[u8]) {
    static GOOD: OnceLock<Record> = OnceLock::new();
    let record = GOOD.get_or_init(|| {
        let text = std::str::from_utf8(bytes_of(RECORD)).expect("text");
        Record::from_json(text).expect("a record")
    });
    use_fit(record, bytes);
}

/// manifest.json, beside the files of a fit.
pub fn manifest(bytes: &[u8]) {
    let path = scratch("fit");
    std::fs::create_dir_all(&path).expect("a directory");
    for (name, own) in FIT {
        std::fs::write(path.join(name), if name == MANIFEST { bytes } else { own }).expect("a file");
    }
    match FitDirectory::open(&path) {
        Ok(directory) => drop(Fit::read(&directory).map_err(|error| error.to_string())),
        Err(error) => drop(error.to_string()),
    }
}

/// arrays.safetensors.
pub fn safetensors(bytes: &[u8]) {
    let Ok(arrays) = Arrays::decode(bytes) else { return };
    let again = Arrays::decode(&arrays.encode().expect("finite")).expect("what was written can be read");
    assert_eq!(again.encode().expect("finite"), arrays.encode().expect("finite"));
}

/// What the process that decodes files sends back, and what it is asked.
pub fn wire(bytes: &[u8]) {
    let mut from = bytes;
    while let Ok(answered) = answer(&mut from) {
        if let Answer::Rows(rows) = answered {
            let batch = rows.batch();
            let last = batch.rows().saturating_sub(1);
            let _ = batch.place(last);
            for c in 0..if batch.rows() > 0 { rows.columns() } else { 0 } {
                let (column, at) = batch.cell(c, last);
                let _ = (column.number(at), column.label(at), column.is_missing(at));
            }
        }
    }
    let mut from = bytes;
    while let Ok(Some(_)) = asked(&mut from) {}
    let _ = serde_json::from_slice::<Ask>(bytes);
}

/// A certificate, and rows after the line that ends it.
pub fn certificate(bytes: &[u8]) {
    const END: &[u8] = b"\nend\n";
    let end = bytes.windows(END.len()).position(|part| part == END).map_or(bytes.len(), |at| at + END.len());
    let (text, mut rows) = bytes.split_at(end);
    let Ok(text) = std::str::from_utf8(text) else { return };
    match certus_check::read(text) {
        Ok(certificate) => drop(certus_check::check(&*certificate, Some(&mut rows))),
        Err(refusal) => drop(refusal.to_string()),
    }
}
