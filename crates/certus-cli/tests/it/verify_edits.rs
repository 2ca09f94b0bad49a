//! Whatever is edited in the files of a fit, `certus verify` ends 14 or 65, or no claim rests on it and it says so:
//! every leaf of every JSON file and entries of every array of seven kinds of fits. Most edits are checked in this
//! process, by the function that the binary calls; some of each kind by the binary.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![cfg(feature = "scan")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::{certus, expect, scratch};
use certus::error::TargetError;
use certus::target::PointTarget;
use certus::{Goal, auto};
use certus_data::{Features, FileSource, GroupSpec, Spec, Storage};
use certus_fit::record::{Data, Parameter, Source};
use certus_fit::verify::{Own, Recipe, Stored, check_black_box, unchecked, unchecked_of_black_box};
use certus_fit::{ErrorKind, Fit, FitDirectory, Meta};
use certus_fit::{MethodChoice, PosteriorChoice, Problem, Request, Settings};
use certus_likelihood::Response;
use certus_models::auto::Method;
use serde_json::{Value, json};

/// Writes a changed file, with the manifest that belongs to it.
fn put(dir: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(dir.join(name), bytes).unwrap();
    // what is no JSON any more cannot be sealed, and is refused for that
    certus_fit::rewrite_manifest(dir).unwrap();
}

/// Every edit, not a part of them (`scripts/check edits`).
fn full() -> bool {
    std::env::var_os("CERTUS_FULL").is_some()
}

fn wave(k: f64, i: usize) -> f64 {
    (k * (i + 1) as f64).sin()
}

/// 36 rows in 6 groups: two features, a binary and a count response.
fn data(dir: &Path) -> PathBuf {
    let mut text = String::from("y,n,a,b,g\n");
    for i in 0..36 {
        let (a, b, g) = (wave(1.7, i), wave(0.9, i) + 0.4 * wave(1.7, i), i % 6);
        let y = u8::from(0.4 + a - 0.5 * b + 0.9 * wave(2.9, g) + 1.2 * wave(4.3, i) > 0.0);
        let n = (2.5 + 2.0 * a + 1.5 * wave(2.9, g) + wave(6.1, i)).max(0.0).round();
        text.push_str(&format!("{y},{n},{a:.3},{b:.3},g{g}\n"));
    }
    let path = dir.join("rows.csv");
    std::fs::write(&path, text).unwrap();
    path
}

/// A fit, and how to compute it again.
struct Case {
    name: &'static str,
    out: PathBuf,
    /// `None` for a black box.
    with: Option<With>,
}

struct With {
    problem: Problem,
    choice: MethodChoice,
    posterior: PosteriorChoice,
}

impl Case {
    fn new(
        name: &'static str,
        dir: &Path,
        data: &Path,
        arguments: &[&str],
        spec: Spec,
        choice: MethodChoice,
    ) -> Self {
        let base = ["fit", "logistic", data.to_str().unwrap(), "--response", "y", "--features", "a,b"];
        Self::of(name, dir, data, &[&base[..], arguments].concat(), &Request::new(spec), choice)
    }

    /// Of a command and the same request.
    fn of(
        name: &'static str,
        dir: &Path,
        data: &Path,
        command: &[&str],
        request: &Request,
        choice: MethodChoice,
    ) -> Self {
        let out = dir.join(name);
        expect(&certus(&[command, &["--quiet", "--out", out.to_str().unwrap()]].concat()), 0, "");
        let source = FileSource::open(&[data.to_path_buf()], certus_data::FileOptions::default()).unwrap();
        let problem = Problem::new(&source, request, &Storage::default()).unwrap();
        // the posterior of the others is checked like that of dense models, and takes seconds each time
        let gaussian = command.contains(&"gaussian");
        let posterior =
            if gaussian { PosteriorChoice::Only(Source::Gaussian) } else { PosteriorChoice::Auto };
        Self { name, out, with: Some(With { problem, choice, posterior }) }
    }

    fn stored(&self) -> Result<Stored, certus_fit::Error> {
        Stored::read(&FitDirectory::open(&self.out)?)
    }

    /// The fit computed again.
    fn own(&self, stored: &Stored) -> Option<Result<Own, certus_models::Error>> {
        self.with.as_ref().map(|with| with.recipe(stored, &mut |recipe| Own::of(recipe, stored)))
    }

    /// The exit code of `certus verify`, and why; `known` is the fit computed again, if nothing that it depends on has
    /// changed.
    fn code(&self, known: Option<&Own>) -> (i32, String) {
        let stored = match self.stored() {
            Ok(stored) => stored,
            Err(error) => {
                let code = if error.kind() == ErrorKind::Data { 65 } else { 66 };
                return (code, error.to_string());
            }
        };
        let report = match &self.with {
            None if stored.is_black_box() => check_black_box(&stored),
            None => return (65, "no black box".into()),
            Some(with) => with.recipe(&stored, &mut |recipe| match known {
                Some(own) => own.compare(recipe, &stored),
                None => certus_fit::verify::check(recipe, &stored),
            }),
        };
        match report.refuted.first() {
            None => (0, String::new()),
            Some(first) => (14, first.clone()),
        }
    }
}

impl With {
    fn recipe<T>(&self, stored: &Stored, use_it: &mut dyn FnMut(&Recipe<'_>) -> T) -> T {
        let problem = &self.problem;
        let text = |key: &str| stored.settings[key].as_str().unwrap_or_default().to_string();
        let meta = |outcome: &certus::Outcome, parameters: Vec<Parameter>| Meta {
            model: text("model"),
            parameters,
            settings: stored.settings.clone(),
            seed: 0,
            data: Data {
                rows: Some(problem.prepared.rows_used as u64),
                fingerprint: Some(format!("{:016x}", problem.prepared.fingerprint)),
                responses: Some(format!("{:016x}", problem.prepared.responses)),
            },
            notes: problem.notes_of(&Goal::default(), outcome),
            versions: stored.record.versions.clone(),
        };
        use_it(&Recipe {
            problem,
            goal: Goal::default(),
            choice: self.choice,
            posterior: self.posterior,
            asked: None,
            meta: &meta,
        })
    }
}

/// A law in two dimensions with lighter tails than a Gaussian's, so that its weights have none.
struct Light;

impl PointTarget for Light {
    fn dim(&self) -> usize {
        2
    }

    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        let (x, y) = (z[0] - 1.0, z[1] - 0.3 * z[0]);
        gradient[0] = -x - 0.2 * x.powi(3) + 0.6 * y;
        gradient[1] = -2.0 * y;
        Ok(-0.5 * x * x - 0.05 * x.powi(4) - y * y)
    }
}

/// As Python's `fit.save` does it.
fn black_box(dir: &Path) -> Case {
    let out = dir.join("black-box");
    let outcome = auto(&Light, &Goal::default()).unwrap();
    let sds = outcome.gaussian.sd();
    let moments = outcome.gaussian.mean().iter().zip(sds).zip(["x", "y"]);
    let parameters = moments.map(|((mean, sd), name)| Parameter::normal(name, *mean, sd)).collect();
    let settings: Settings = serde_json::from_value(json!({ "gap": 0.01, "seed": 0 })).unwrap();
    let names = ["x", "y"].map(String::from).to_vec();
    let fit = Fit::of_target(outcome, names, parameters, &settings, None).unwrap();
    fit.write(&FitDirectory::create(&out, false).unwrap(), false).unwrap();
    Case { name: "black box", out, with: None }
}

/// Every place of a value, containers included.
fn places(value: &Value, at: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
    out.push(at.clone());
    let steps: Vec<Step> = match value {
        Value::Object(map) => map.keys().map(|k| Step::Key(k.clone())).collect(),
        Value::Array(list) => (0..list.len()).map(Step::Index).collect(),
        _ => return,
    };
    for step in steps {
        at.push(step.clone());
        places(step.of(value), at, out);
        at.pop();
    }
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> &'a Value {
        match self {
            Step::Key(key) => &value[key],
            Step::Index(k) => &value[*k],
        }
    }
}

fn at<'a>(value: &'a mut Value, place: &[Step]) -> &'a mut Value {
    place.iter().fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key).unwrap(),
        Step::Index(k) => value.get_mut(*k).unwrap(),
    })
}

/// `certificate.gap.bound`, `parameters[2].mean`.
fn path(place: &[Step]) -> String {
    place.iter().fold(String::new(), |path, step| match step {
        Step::Key(key) if path.is_empty() => key.clone(),
        Step::Key(key) => format!("{path}.{key}"),
        Step::Index(k) => format!("{path}[{k}]"),
    })
}

/// What a leaf may be changed to; a container loses entries.
fn edits(value: &Value) -> Vec<Value> {
    let words = [
        "proved",
        "probable",
        "estimated",
        "none",
        "reached",
        "limit",
        "no_progress",
        "interrupted",
        "model",
        "user",
        "estimate",
        "all Gaussians",
        "all Gaussians with independent coordinates",
        "Theorem D",
        "Theorem A'",
        "D1 in matrix form",
        "posterior",
        "",
    ];
    let all: Vec<Value> = match value {
        Value::Null => vec![json!(1.0), json!("x"), json!(1)],
        Value::Bool(b) => vec![json!(!b)],
        Value::Number(n) if n.is_u64() => {
            let n = n.as_u64().unwrap();
            vec![json!(n + 1), json!(2 * n + 3), json!(n / 2), Value::Null]
        }
        Value::Number(n) => {
            let x = n.as_f64().unwrap();
            let scaled = [1.0 + 1e-5, 1.0 - 1e-5, 1.001, 0.999, 0.5, 2.0, 1e-6, 1e6, -1.0];
            let mut all: Vec<Value> = scaled.iter().map(|c| json!(c * x)).collect();
            all.extend([json!(0.0), json!(x + 1.0), Value::Null]);
            all
        }
        Value::String(s) => {
            let mut all = vec![json!(format!("{s}x")), Value::Null];
            all.extend(words.map(|word| json!(word)));
            // a digit, where there is one
            if let Some(k) = s.find(|c: char| c.is_ascii_digit()) {
                let digit = if s[k..].starts_with('7') { "3" } else { "7" };
                all.push(json!(format!("{}{digit}{}", &s[..k], &s[k + 1..])));
            }
            all
        }
        Value::Array(list) => {
            let mut all = vec![json!([])];
            all.extend((0..list.len()).map(|k| {
                let mut less = list.clone();
                less.remove(k);
                json!(less)
            }));
            all.extend(list.last().map(|last| json!([&list[..], std::slice::from_ref(last)].concat())));
            all
        }
        Value::Object(map) => {
            let mut all: Vec<Value> = map
                .keys()
                .map(|key| {
                    let mut less = map.clone();
                    less.remove(key);
                    json!(less)
                })
                .collect();
            let mut more = map.clone();
            more.insert("more".into(), json!(1.0));
            all.push(json!(more));
            all
        }
    };
    all.into_iter().filter(|edited| edited != value).collect()
}

/// Keys whose loss alone is an edit of a container: the leaf that is lost, if there is one only.
fn lost(before: &Value, after: &Value, path: &str) -> String {
    if let (Value::Object(a), Value::Object(b)) = (before, after)
        && let Some(key) = a.keys().find(|key| !b.contains_key(*key))
    {
        return if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
    }
    path.to_string()
}

/// What was tried and what was accepted.
#[derive(Default)]
struct Count {
    edits: usize,
    accepted: usize,
    wrong: Vec<String>,
    /// Of every kind of ending one edit, for the binary: file, bytes, code.
    samples: BTreeMap<(String, i32), (String, Vec<u8>)>,
}

impl Count {
    fn add(&mut self, file: &str, bytes: &[u8], what: &str, (code, why): (i32, String), allowed: bool) {
        self.edits += 1;
        match code {
            0 => self.accepted += 1,
            14 | 65 => {}
            _ => self.wrong.push(format!("{what}: {code} {why}")),
        }
        if code == 0 && !allowed {
            self.wrong.push(format!("{what}: accepted"));
        }
        let kind: String =
            what.chars().take_while(|c| c.is_alphanumeric() || *c == '.' || *c == ' ').take(40).collect();
        self.samples.entry((kind, code)).or_insert_with(|| (file.to_string(), bytes.to_vec()));
    }

    fn finish(&self, name: &str) {
        println!(
            "{name}: {} edits, {} accepted, all of fields that no claim rests on",
            self.edits, self.accepted
        );
        let shown: Vec<&String> = self.wrong.iter().take(60).collect();
        assert!(self.wrong.is_empty(), "{name}: {} of {} edits: {shown:#?}", self.wrong.len(), self.edits);
        assert!(self.edits > 100, "{name}");
    }
}

/// Every edit of every leaf. Those after which the fit is computed again are a quarter of them all unless CERTUS_FULL
/// is set.
fn json_edits(case: &Case, known: Option<&Own>, allowed: &dyn Fn(&str) -> bool, count: &mut Count) {
    let (mut again, everything) = (0, full());
    for file in ["fit.json", "settings.json", "meaning.json"] {
        let Ok(original) = std::fs::read(case.out.join(file)) else { continue };
        let value: Value = serde_json::from_slice(&original).unwrap();
        let mut all = Vec::new();
        places(&value, &mut Vec::new(), &mut all);
        for place in all {
            let mut edited = value.clone();
            let before = at(&mut edited, &place).clone();
            for after in edits(&before) {
                let root = path(&place);
                let leaf = lost(&before, &after, &root);
                let full = match file {
                    "settings.json" => format!("settings.{leaf}"),
                    "fit.json" => leaf.clone(),
                    other => format!("{other}.{leaf}"),
                };
                *at(&mut edited, &place) = after.clone();
                let bytes = edited.to_string().into_bytes();
                // status and message decide what a fit is computed again from
                let fixed = known
                    .filter(|_| !["", "status", "message"].contains(&leaf.as_str()) || file != "fit.json");
                if known.is_some() && fixed.is_none() {
                    again += 1;
                    if again % 4 != 1 && !everything {
                        continue;
                    }
                }
                put(&case.out, file, &bytes);
                let what = format!("{file} {root}: {before} → {after}");
                count.add(file, &bytes, &what, case.code(fixed), allowed(&full));
            }
        }
        put(&case.out, file, &original);
    }
}

/// Numbers of every tensor, and what the header says of it: at each of three places one of three edits, with
/// CERTUS_FULL all of them.
fn array_edits(case: &Case, count: &mut Count) {
    let file = "arrays.safetensors";
    let original = std::fs::read(case.out.join(file)).unwrap();
    let length = u64::from_le_bytes(original[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&original[8..8 + length]).unwrap();
    let mut check = |bytes: &[u8], what: String| {
        put(&case.out, file, bytes);
        count.add(file, bytes, &what, case.code(None), false);
    };
    for (name, tensor) in header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__") {
        let [from, to] = [0, 1].map(|k| 8 + length + tensor["data_offsets"][k].as_u64().unwrap() as usize);
        let entries = (to - from) / 8;
        let mut places = vec![0, entries / 2, entries.saturating_sub(1)];
        places.dedup();
        for (turn, k) in places.into_iter().enumerate() {
            let place = from + 8 * k..from + 8 * k + 8;
            let x = f64::from_le_bytes(original[place.clone()].try_into().unwrap());
            // a triangle has zeros that stay
            let all: Vec<f64> =
                [x * (1.0 + 1e-5), 0.999 * x, x + 0.5].into_iter().filter(|y| *y != x).collect();
            let one = turn % all.len();
            let chosen = if full() { all } else { vec![all[one]] };
            for y in chosen {
                let mut bytes = original.clone();
                bytes[place.clone()].copy_from_slice(&y.to_le_bytes());
                check(&bytes, format!("arrays {name}[{k}]: {x} → {y}"));
            }
        }
    }
    let metadata = header["__metadata__"]["certus"].as_str().unwrap();
    for (word, other) in [
        ("lower-triangular", "symmetric"),
        ("pattern", "symmetric"),
        ("[1,1", "[2,0"),
        ("\"version\":1", "\"version\":2"),
    ] {
        if metadata.contains(word) {
            let mut changed = header.clone();
            changed["__metadata__"]["certus"] = json!(metadata.replacen(word, other, 1));
            let mut text = changed.to_string().into_bytes();
            text.resize(text.len().next_multiple_of(8), b' ');
            let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
            bytes.extend(text);
            bytes.extend(&original[8 + length..]);
            check(&bytes, format!("arrays metadata: {word} → {other}"));
        }
    }
    put(&case.out, file, &original);
}

/// What the binary says of some edits is what was found here.
fn by_the_binary(case: &Case, count: &Count, most: usize) {
    let out = case.out.to_str().unwrap();
    expect(&certus(&["verify", out]), 0, "not checked");
    let every = count.samples.len().div_ceil(most).max(1);
    for ((kind, code), (file, bytes)) in count.samples.iter().step_by(every) {
        let original = std::fs::read(case.out.join(file)).unwrap();
        put(&case.out, file, bytes);
        let output = certus(&["verify", out]);
        let ended = output.status.code();
        // settings that make no sense are found before the rest is looked at, and without data nothing can be checked
        let error = String::from_utf8_lossy(&output.stderr);
        let lost = ended == Some(64) && error.contains("the data are not given");
        let refused = lost || matches!(ended, Some(14 | 65 | 66));
        let same = ended == Some(*code) || (kind.contains("settings") && refused);
        assert!(same, "{}: {kind} ends {ended:?}, and {code} here", case.name);
        put(&case.out, file, &original);
    }
}

fn everything(case: &Case, allowed: &dyn Fn(&str) -> bool) {
    let stored = case.stored().unwrap();
    let own = case.own(&stored).transpose().unwrap();
    assert_eq!(case.code(own.as_ref()), (0, String::new()), "{}", case.name);
    let mut count = Count::default();
    json_edits(case, own.as_ref(), allowed, &mut count);
    array_edits(case, &mut count);
    count.finish(case.name);
    by_the_binary(case, &count, 8);
}

fn spec(groups: &[&str], sds: &[&str]) -> Spec {
    let mut spec = Spec::new("y", Response::Logistic);
    spec.features = Features::Terms(vec!["a".into(), "b".into()]);
    let owned = |list: &[&str]| list.iter().map(|s| s.to_string()).collect::<Vec<_>>();
    spec.groups = GroupSpec::all(&owned(groups), &owned(sds)).unwrap();
    spec
}

#[test]
fn dense() {
    let dir = scratch("dense");
    let data = data(&dir);
    let case = Case::new("dense", &dir, &data, &[], spec(&[], &[]), MethodChoice::Auto(Method::Auto));
    everything(&case, &unchecked);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn groups_whose_sds_are_given() {
    let dir = scratch("groups");
    let data = data(&dir);
    let arguments = ["--group", "g", "--group-sd", "0.8", "--posterior", "gaussian"];
    let case = Case::new(
        "groups",
        &dir,
        &data,
        &arguments,
        spec(&["g"], &["0.8"]),
        MethodChoice::Auto(Method::Auto),
    );
    everything(&case, &unchecked);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn unknown_scales() {
    let dir = scratch("scales");
    let data = data(&dir);
    let case = Case::new(
        "scales",
        &dir,
        &data,
        &["--group", "g"],
        spec(&["g"], &[]),
        MethodChoice::Auto(Method::Auto),
    );
    everything(&case, &unchecked);
    // the table of groups is a function of the arrays
    let table = std::fs::read(case.out.join("groups.parquet")).unwrap();
    let other: Vec<u8> = table.iter().enumerate().map(|(k, b)| if k == 40 { b ^ 1 } else { *b }).collect();
    put(&case.out, "groups.parquet", &other);
    expect(&certus(&["verify", case.out.to_str().unwrap()]), 14, "groups.parquet does not follow");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// REML with correlated effects; with CERTUS_FULL also the posterior of the same model.
#[test]
fn linear_mixed_models() {
    let dir = scratch("mixed");
    let data = data(&dir);
    for (name, reml) in [("reml", true), ("posterior", false)].into_iter().take(if full() { 2 } else { 1 }) {
        let formula = "n ~ a + (a | g)";
        let mut command = vec!["fit", "linear", data.to_str().unwrap(), formula];
        command.extend(reml.then_some("--reml"));
        let settings = Settings {
            model: Some("linear".into()),
            formula: Some(formula.into()),
            reml,
            ..Settings::default()
        };
        let request = settings.request().unwrap();
        let case = Case::of(name, &dir, &data, &command, &request, MethodChoice::Auto(Method::Auto));
        everything(&case, &unchecked);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn diagonal() {
    let dir = scratch("diagonal");
    let data = data(&dir);
    let choice = MethodChoice::Auto(Method::Auto).with_independence().unwrap();
    let arguments = ["--factor", "diagonal", "--posterior", "gaussian"];
    let case = Case::new("diagonal", &dir, &data, &arguments, spec(&[], &[]), choice);
    everything(&case, &unchecked);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_black_box() {
    let dir = scratch("black-box");
    everything(&black_box(&dir), &unchecked_of_black_box);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn many_fits() {
    let dir = scratch("many");
    let data = data(&dir);
    let out = dir.join("fits");
    let place = out.to_str().unwrap();
    let fit =
        ["fit-many", "logistic", data.to_str().unwrap(), "--response", "y", "--features", "a", "--by", "g"];
    expect(&certus(&[&fit[..], &["--chunk", "4", "--quiet", "--out", place]].concat()), 0, "");
    expect(&certus(&["verify", place]), 0, "6 fits");
    let mut count = Count::default();
    for file in ["many.json", "chunks/000001.json"] {
        let original = std::fs::read(out.join(file)).unwrap();
        let mut value: Value = serde_json::from_slice(&original).unwrap();
        // the check sum is written anew with every edit
        value.as_object_mut().unwrap().remove("sha256");
        let mut all = Vec::new();
        places(&value, &mut Vec::new(), &mut all);
        for place_in in all {
            let mut edited = value.clone();
            let before = at(&mut edited, &place_in).clone();
            // every edit is a process: two of each leaf
            let all = edits(&before);
            let few = if all.len() > 4 { vec![all[0].clone(), all[2].clone()] } else { all };
            for after in few {
                let root = path(&place_in);
                let leaf = lost(&before, &after, &root);
                *at(&mut edited, &place_in) = after.clone();
                let bytes = edited.to_string().into_bytes();
                put(&out, file, &bytes);
                let code = certus(&["verify", place]).status.code().unwrap();
                let idle = leaf.replacen("settings.fit.", "settings.", 1);
                let allowed = file == "many.json" && unchecked(&idle);
                let what = format!("{file} {root}: {before} → {after}");
                // data that are not there cannot be looked at
                let code = if code == 66 && leaf == "settings.fit.data" { 65 } else { code };
                count.add(file, &bytes, &what, (code, String::new()), allowed);
            }
        }
        put(&out, file, &original);
    }
    let table = std::fs::read(out.join("fits.parquet")).unwrap();
    let other: Vec<u8> = table.iter().enumerate().map(|(k, b)| if k == 60 { b ^ 1 } else { *b }).collect();
    put(&out, "fits.parquet", &other);
    expect(&certus(&["verify", place]), 14, "fits.parquet does not follow");
    put(&out, "fits.parquet", &table);
    expect(&certus(&["verify", place]), 0, "6 fits");
    count.finish("many fits");
    std::fs::remove_dir_all(&dir).unwrap();
}
