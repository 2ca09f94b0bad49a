//! `certus fit`, `plan` and `resume`: the run with its checkpoints, and what is written and printed at the end.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use certus::certificate::Posterior;
use certus::fit::Status;
use certus::{Goal, Outcome};
use certus_data::{GroupTable, Numbers, Problem, Way};
use certus_store::directory::{MEANING, SETTINGS};
use certus_store::record::{Data, Parameter};
use certus_store::{Arrays, Checkpoints, Fingerprint, FitDirectory, Kind, Meta, Record};

use crate::arguments::{FactorChoice, FitArguments};
use crate::crew::Crew;
use crate::exit::{Code, Failure, print};
use crate::saving::Saving;
use crate::signals::{Parting, Signals};
use crate::table;
use crate::watch::{Watch, duration};

impl FitArguments {
    /// The goal.
    pub fn goal(&self) -> Result<Goal, Failure> {
        let goal = Goal {
            gap: self.gap.unwrap_or(0.01),
            delta: self.delta.unwrap_or(0.01),
            max_time: self.max_time.as_deref().map(duration).transpose()?,
            seed: self.seed.unwrap_or(0),
            threads: self.threads,
            ..Goal::default()
        };
        goal.validate().map_err(|e| Failure::new(Code::Usage, e.to_string()))?;
        Ok(goal)
    }

    /// How to fit.
    pub fn way(&self) -> Result<Way, Failure> {
        let method = serde_json::to_value(self.method.unwrap_or_default()).expect("a word");
        let constants = self.constants.map(|c| serde_json::to_value(c).expect("a word"));
        let constants = constants.as_ref().and_then(|c| c.as_str());
        let steps = self.steps.map(|s| serde_json::to_value(s).expect("a word"));
        let steps = steps.as_ref().and_then(|s| s.as_str());
        let numbers = Numbers { batch: self.batch, iterations: self.iterations, row_batch: self.row_batch };
        let way = Way::new(method.as_str().unwrap_or_default(), constants, steps, numbers)?;
        let diagonal = self.factor == Some(FactorChoice::Diagonal);
        Ok(if diagonal { way.with_independence()? } else { way })
    }

    fn every(&self) -> Result<Duration, Failure> {
        self.checkpoint_every.as_deref().map_or(Ok(Duration::from_secs(30)), duration)
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("arguments are plain values")
    }

    /// The settings that decide the bits of a fit.
    pub fn decisive(&self) -> serde_json::Value {
        let mut own = self.clone();
        (own.data, own.out, own.threads, own.max_time, own.checkpoint_every) = (None, None, None, None, None);
        (own.overwrite, own.json, own.quiet) = (false, false, false);
        own.settings()
    }

    /// What decides the bits of a fit: the settings that matter, and the data.
    fn fingerprint(&self, problem: &Problem) -> Fingerprint {
        let text = self.decisive().to_string();
        Fingerprint::of([text.as_bytes(), &problem.prepared.fingerprint.to_le_bytes()])
    }
}

/// `certus fit`.
pub fn fit(arguments: &FitArguments, crew: &Crew) -> Result<Code, Failure> {
    let run = Run::new(arguments, crew)?;
    crew.first(|| match &arguments.out {
        Some(out) if !arguments.overwrite && out.exists() => {
            Err(certus_store::Error::Exists { path: out.clone() }.into())
        }
        Some(out) => crate::output::apart(out, arguments.path()?),
        None => Ok(()),
    })?;
    let problem = run.read()?;
    // made now, so that what takes long is not done in vain, and not before, so that bad data leave nothing behind
    let directory = crew.first(|| {
        let Some(out) = &arguments.out else { return Ok(None) };
        let _writing = run.signals.writing();
        let directory = FitDirectory::create(out, arguments.overwrite)?;
        directory.write(SETTINGS, arguments.settings().to_string().as_bytes())?;
        Ok(Some(directory))
    })?;
    crew.beat(arguments.out.as_deref());
    run.go(&problem, directory.flatten(), None)
}

/// `certus resume`.
pub fn go_on(dir: &Path, data: Option<&Path>, json: bool, quiet: bool, crew: &Crew) -> Result<Code, Failure> {
    let opened = crew.first(|| {
        let directory = FitDirectory::resume(dir)?;
        let text = directory.settings()?;
        let earlier = match Record::read(&directory) {
            _ if directory.replaces() => None,
            Err(certus_store::Error::Missing { .. } | certus_store::Error::Unfinished { .. }) => None,
            read => Some(read?),
        };
        // of a result that will be replaced nothing is read
        directory.note().filter(|_| !directory.replaces()).iter().for_each(|words| crate::exit::note(words));
        Ok(((directory, earlier), text))
    })?;
    let (opened, text) = opened.unzip();
    let (directory, earlier) = opened.unzip();
    let earlier = earlier.flatten();
    let text = crew.share(text).expect("rank 0 has read it");
    let mut arguments: FitArguments = serde_json::from_slice(&text)
        .map_err(|e| Failure::new(Code::Data, format!("{}: {e}", dir.join(SETTINGS).display())))?;
    (arguments.json, arguments.quiet) = (json, quiet);
    if let Some(data) = data {
        arguments.data = Some(data.to_path_buf());
    }
    let done = earlier.as_ref().filter(|r| !matches!(r.status, Status::Interrupted | Status::Limit));
    if crew.decide(u64::from(done.is_some())) == 1 {
        let Some(done) = done else { return Ok(Code::Reached) };
        directory.iter().try_for_each(FitDirectory::remove_run)?;
        show(&arguments, done, directory.as_ref())?;
        return Ok(Code::from(&done.status));
    }
    let run = Run::new(&arguments, crew)?;
    let problem = run.read().map_err(moved)?;
    crew.beat(Some(dir));
    run.go(&problem, directory, earlier.as_ref())
}

/// A file that is not there may have moved.
pub fn moved(mut failure: Failure) -> Failure {
    if failure.code == Code::NoInput {
        failure.message.push_str("; if the data moved, say where to with --data");
    }
    failure
}

/// A run with all that surrounds it.
pub(crate) struct Run<'a> {
    pub(crate) arguments: &'a FitArguments,
    crew: &'a Crew,
    pub(crate) goal: Goal,
    pub(crate) way: Way,
    every: Duration,
    pub(crate) signals: Signals,
    pub(crate) watch: Watch,
}

impl<'a> Run<'a> {
    fn new(arguments: &'a FitArguments, crew: &'a Crew) -> Result<Self, Failure> {
        // what needs no data is refused before they are read
        let (mut goal, way, every) = (arguments.goal()?, arguments.way()?, arguments.every()?);
        goal.threads = goal.threads.or_else(|| crew.threads());
        let watch = Watch::new(arguments.quiet || !crew.leads(), goal.gap);
        let signals = Signals::with_limit(goal.max_time, Instant::now(), crew.leads())?;
        Ok(Self { arguments, crew, goal, way, every, signals, watch })
    }

    /// Says what is being done, here and to whoever stops it.
    pub(crate) fn say(&self, doing: &str) {
        self.signals.doing(doing);
        self.watch.say(doing);
    }

    fn prints_json(&self) -> bool {
        self.arguments.json && self.crew.leads()
    }

    /// Reads the data and builds the model. Nothing is written if that is stopped.
    fn read(&self) -> Result<Arc<Problem>, Failure> {
        self.say("reading and preparing the data");
        let (meta, json) = (self.bare_meta(), self.prints_json());
        self.signals.on_end(move |reason| {
            let message = format!("{} while {}; nothing was fitted", reason.words, reason.doing);
            let record = || Record::failed(status(reason.code), message.clone(), meta.clone()).to_json();
            Parting { record: json.then(record), message }
        });
        self.arguments.problem(&self.signals, self.crew.ranks()).map(Arc::new)
    }

    /// The goal with the time that is left.
    pub(crate) fn goal_left(&self) -> Goal {
        Goal { max_time: self.signals.time_left(), ..self.goal.clone() }
    }

    /// True if an error is the way in which a stop came through.
    pub(crate) fn was_stopped(&self, error: &certus_models::Error) -> bool {
        error.is_stopped() || self.signals.must_end()
    }

    /// What is left behind by a run that is stopped before it has a Gaussian: `save` writes what there is and says what becomes of it. A Gaussian that
    /// is there already, of an earlier run or of one that was to be replaced, stays.
    pub(crate) fn on_end(
        &self,
        problem: &Arc<Problem>,
        directory: Option<Arc<FitDirectory>>,
        mut save: impl FnMut() -> Result<String, certus_store::Error> + Send + 'static,
    ) {
        let meta = self.meta(problem, Vec::new(), problem.notes());
        let (json, bar, problem) = (self.prints_json(), self.watch.bar(), problem.clone());
        self.signals.on_end(move |reason| {
            bar.iter().for_each(|bar| bar.finish_and_clear());
            let saved = save().unwrap_or_else(|e| format!("; {e}"));
            let message = format!("{} while {}{saved}", reason.words, reason.doing);
            let record = Record::failed(status(reason.code), message.clone(), meta.clone());
            let written = match directory.as_deref().filter(|directory| !directory.has_gaussian()) {
                Some(directory) => publish(&problem, &record, directory),
                None => Ok(()),
            };
            let message = match written {
                Ok(()) => message,
                Err(error) => format!("{message}; {error}"),
            };
            Parting { record: json.then(|| record.to_json()), message }
        });
    }

    fn go(
        mut self,
        problem: &Arc<Problem>,
        directory: Option<FitDirectory>,
        earlier: Option<&Record>,
    ) -> Result<Code, Failure> {
        if problem.collapsed().is_some() {
            return self.go_collapsed(problem, directory, earlier);
        }
        let kind = if matches!(self.way, Way::Planned(_)) { Kind::Plan } else { Kind::Model };
        let fingerprint = self.arguments.fingerprint(problem);
        let directory = directory.map(Arc::new);
        let checkpoints = directory.as_ref().map(|dir| Checkpoints::new(dir, kind, fingerprint));
        let saved = self.crew.first(|| match checkpoints.as_ref().map(Checkpoints::latest) {
            Some(Ok(latest)) => {
                latest.note.iter().for_each(|note| self.watch.say(note));
                Ok(Some(latest.checkpoint.state))
            }
            // stopped before the first checkpoint: from the beginning
            Some(Err(certus_store::Error::Missing { .. })) | None => Ok(None),
            Some(Err(other)) => Err(other.into()),
        })?;
        let saved = self.crew.share(saved.flatten());
        self.say(if saved.is_some() { "looking at the saved state" } else { "looking for the mode" });
        let (saving, mut broken, mut begun) = (checkpoints.map(|c| Saving::new(c, self.every)), None, false);
        let saving = saving.map(|saving| Arc::new(Mutex::new(saving)));
        let (theirs, place, resumed) = (saving.clone(), directory.clone(), saved.is_some());
        self.on_end(problem, directory.clone(), move || {
            let (Some(saving), Some(place)) = (&theirs, &place) else {
                return Ok("; nothing was saved, because there is no --out".into());
            };
            let (mut saving, place) = (lock(saving), place.path().display());
            saving.write_kept()?;
            let taken = saving.taken();
            Ok(match saving.saved() {
                Some(saved) => {
                    format!(", after {taken} iterations; certus resume {place} goes on after {saved} of them")
                }
                None if resumed => format!("; certus resume {place} goes on from the last checkpoint"),
                None => format!(", after {taken} iterations; certus resume {place} begins anew"),
            })
        });
        let goal = self.goal_left();
        let (watch, signals) = (&mut self.watch, &self.signals);
        let crew = self.crew;
        let outcome = problem.run(&goal, &self.way, saved.as_deref(), &mut |point, save| {
            if !std::mem::replace(&mut begun, true) {
                signals.doing("fitting");
            }
            watch.step(point);
            crew.compare(point.iteration, save);
            let mut stop = signals.seen().is_some();
            if let Some(saving) = &saving {
                let _writing = signals.writing();
                let asked = stop || signals.asked().is_some();
                if let Err(error) = lock(saving).step(point.iteration, asked, save) {
                    (broken, stop) = (Some(error), true);
                }
            }
            // what rank 0 has seen, so that all stop after the same step
            if crew.decide(u64::from(stop)) == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        crew.first(|| broken.map_or(Ok(()), |error| Err(error.into())))?;
        let outcome = outcome.map(|outcome| self.judged(problem, outcome));
        self.watch.done();
        let failure = match outcome {
            // what an earlier run has certified is better than a Gaussian of which nothing is known
            Ok((outcome, _))
                if uncertified(&outcome) && earlier.is_some_and(|e| e.certificate.gap.bound.is_some()) =>
            {
                return Err(self.signals.end());
            }
            Ok((outcome, compared)) => {
                self.signals.finish(|| {
                    if matches!(outcome.status, Status::Limit | Status::Interrupted) {
                        saving.as_ref().map_or(Ok(()), |saving| lock(saving).write_kept())?;
                    }
                    self.finish(problem, &outcome, directory.as_deref(), earlier)
                })?;
                let code = Code::from(&outcome.status);
                let signal = self.signals.seen().filter(|_| code == Code::Interrupted || !compared);
                return Ok(signal.unwrap_or(code));
            }
            Err(error) if self.was_stopped(&error) => return Err(self.signals.end()),
            Err(error) => {
                let witness = problem.witness(&error);
                let mut failure = Failure::from(error);
                failure.message.push_str(&witness);
                failure
            }
        };
        self.failed(problem, failure, directory.as_deref())
    }

    /// A failed fit still says what it knows.
    pub(crate) fn failed(
        &self,
        problem: &Problem,
        failure: Failure,
        directory: Option<&FitDirectory>,
    ) -> Result<Code, Failure> {
        let status = match failure.code {
            Code::NonFinite => Status::NonFinite,
            Code::Violated => Status::AssumptionViolated,
            _ => return Err(failure),
        };
        let record =
            Record::failed(status, failure.message.clone(), self.meta(problem, Vec::new(), problem.notes()));
        if let Some(directory) = directory {
            publish(problem, &record, directory)?;
        }
        if self.prints_json() {
            print(&record.to_json())?;
        }
        Err(failure)
    }

    /// The outcome with the certificate of the posterior, at the level that was asked for; false if a stop kept it from being compared.
    fn judged(&self, problem: &Arc<Problem>, mut outcome: Outcome) -> (Outcome, bool) {
        if let Some(level) = self.arguments.level {
            level.asked().judge(&mut outcome);
        }
        if outcome.status != Status::Reached {
            return (outcome, true);
        }
        self.say("comparing with the posterior");
        if self.crew.ranks().is_some() {
            outcome.certificate.posterior = problem.posterior(&self.goal, &outcome);
            return (outcome, true);
        }
        let outcome = Arc::new(outcome);
        let (problem, goal, theirs) = (problem.clone(), self.goal.clone(), outcome.clone());
        let found = self.signals.unless_stopped(move || {
            let found = problem.posterior(&goal, &theirs);
            drop(theirs);
            found
        });
        let mut outcome = Arc::try_unwrap(outcome).unwrap_or_else(|shared| (*shared).clone());
        let compared = found.filter(|found| !self.signals.must_end() || found.statement.bound().is_some());
        let done = compared.is_some();
        outcome.certificate.posterior = compared.unwrap_or_else(|| {
            Posterior::none(format!("{} before it was done", self.signals.stopped_by().unwrap_or_default()))
        });
        (outcome, done)
    }

    pub(crate) fn meta(&self, problem: &Problem, parameters: Vec<Parameter>, notes: Vec<String>) -> Meta {
        meta(self.arguments, &self.goal, problem, parameters, notes)
    }

    /// What is known before there are data.
    fn bare_meta(&self) -> Meta {
        bare_meta(self.arguments, &self.goal)
    }

    /// Writes and prints the result.
    fn finish(
        &self,
        problem: &Problem,
        outcome: &Outcome,
        directory: Option<&FitDirectory>,
        earlier: Option<&Record>,
    ) -> Result<(), Failure> {
        let normals = problem.on_user_scale(&outcome.gaussian);
        let named = problem.quantities.iter().zip(&normals);
        let parameters = named.map(|(q, n)| Parameter::normal(&q.name, n.mean, n.sd)).collect();
        let notes = problem.notes_of(&self.goal, outcome);
        let mut record = Record::new(outcome, self.meta(problem, parameters, notes));
        if let Some(earlier) = earlier {
            record = record.after(earlier);
        }
        if let Some(directory) = directory {
            Arrays { gaussian: outcome.gaussian.clone(), vectors: BTreeMap::new() }.write(directory)?;
            if let Some(table) = GroupTable::new(&problem.meaning, &outcome.gaussian) {
                crate::groups::write(directory, table, &outcome.certificate.gap)?;
            }
            publish(problem, &record, directory)?;
        }
        if self.crew.leads() { show(self.arguments, &record, directory) } else { Ok(()) }
    }
}

/// How a record says that a run was stopped.
fn status(code: Code) -> Status {
    if code == Code::Limit { Status::Limit } else { Status::Interrupted }
}

/// True for a run that was stopped before anything was certified.
fn uncertified(outcome: &Outcome) -> bool {
    let stopped = matches!(outcome.status, Status::Limit | Status::Interrupted);
    stopped && outcome.certificate.gap.statement.bound().is_none()
}

fn lock(saving: &Mutex<Saving>) -> std::sync::MutexGuard<'_, Saving> {
    saving.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a record says beyond the outcome.
pub(crate) fn meta(
    arguments: &FitArguments,
    goal: &Goal,
    problem: &Problem,
    parameters: Vec<Parameter>,
    notes: Vec<String>,
) -> Meta {
    let prepared = &problem.prepared;
    let data = Data {
        rows: Some(prepared.rows_used as u64),
        fingerprint: Some(format!("{:016x}", prepared.fingerprint)),
    };
    Meta { parameters, data, notes, ..bare_meta(arguments, goal) }
}

fn bare_meta(arguments: &FitArguments, goal: &Goal) -> Meta {
    let model = arguments.settings()["model"].as_str().unwrap_or_default().to_string();
    let versions = [("certus", env!("CARGO_PKG_VERSION")), ("target", std::env::consts::ARCH)];
    Meta {
        model,
        parameters: Vec::new(),
        settings: arguments.settings(),
        seed: goal.seed,
        data: Data::default(),
        notes: Vec::new(),
        versions: versions.map(|(a, b)| (a.to_string(), b.to_string())).into_iter().collect(),
    }
}

/// Makes what was written, with settings, meaning and record, the result of the directory, as a whole.
pub(crate) fn publish(
    problem: &Problem,
    record: &Record,
    directory: &FitDirectory,
) -> Result<(), certus_store::Error> {
    let meaning = serde_json::to_vec(&problem.meaning).expect("meanings are plain values");
    directory.write(MEANING, &meaning)?;
    directory.write(SETTINGS, record.settings.to_string().as_bytes())?;
    record.write(directory)?;
    directory.commit(matches!(record.status, Status::Interrupted | Status::Limit))
}

/// The record on stdout, as asked for.
pub(crate) fn show(
    arguments: &FitArguments,
    record: &Record,
    directory: Option<&FitDirectory>,
) -> Result<(), Failure> {
    match (arguments.json, arguments.quiet) {
        (true, _) => print(&record.to_json()),
        (false, true) => Ok(()),
        (false, false) => print(&table::fit(record, directory.map(FitDirectory::path))),
    }
}

/// `certus plan`.
pub fn plan(arguments: &FitArguments, crew: &Crew) -> Result<Code, Failure> {
    let run = Run::new(arguments, crew)?;
    let problem = run.read()?;
    run.signals.doing("planning");
    run.watch.done();
    // on every rank: constants and the ball take passes over the rows
    let plan = problem.plan(&run.goal, &run.way)?;
    let out = if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&plan).expect("a plan is plain values"))
    } else {
        plan.to_string()
    };
    crew.first(|| print(&out))?;
    Ok(Code::Reached)
}
