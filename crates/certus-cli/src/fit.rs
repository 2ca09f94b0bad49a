//! `certus fit`, `plan` and `resume`: the run with its checkpoints, and what is written and printed at the end.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use certus::fit::Status;
use certus::{Goal, Outcome};
use certus_data::{GroupTable, Numbers, Problem, Way};
use certus_store::directory::{MEANING, SETTINGS};
use certus_store::record::{Data, Parameter};
use certus_store::{Arrays, Checkpoints, Fingerprint, FitDirectory, Kind, Meta, Record, Timer};

use crate::arguments::{FactorChoice, FitArguments};
use crate::crew::Crew;
use crate::exit::{Code, Failure, print};
use crate::table;
use crate::watch::{Signals, Watch, duration};

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
    crew.first(|| match arguments.out.as_deref().filter(|out| !arguments.overwrite && out.exists()) {
        Some(out) => Err(certus_store::Error::Exists { path: out.to_path_buf() }.into()),
        None => Ok(()),
    })?;
    run.watch.say("reading the data");
    let problem = arguments.problem(&run.signals, crew.ranks())?;
    // made now, so that what takes long is not done in vain, and not before, so that bad data leave nothing behind
    let directory = crew.first(|| {
        let Some(out) = &arguments.out else { return Ok(None) };
        let directory = FitDirectory::create(out, arguments.overwrite)?;
        directory.write(SETTINGS, arguments.settings().to_string().as_bytes())?;
        let meaning = serde_json::to_vec(&problem.meaning).expect("meanings are plain values");
        directory.write(MEANING, &meaning)?;
        Ok(Some(directory))
    })?;
    crew.beat(arguments.out.as_deref());
    run.go(&problem, directory.flatten(), None)
}

/// `certus resume`.
pub fn go_on(dir: &Path, data: Option<&Path>, json: bool, quiet: bool, crew: &Crew) -> Result<Code, Failure> {
    let opened = crew.first(|| {
        let mut directory = FitDirectory::open(dir)?;
        directory.lock()?;
        let text = directory.read(SETTINGS)?;
        Ok((directory, text))
    })?;
    let (directory, text) = opened.unzip();
    let text = crew.share(text).expect("rank 0 has read it");
    let mut arguments: FitArguments = serde_json::from_slice(&text)
        .map_err(|e| Failure::new(Code::Data, format!("{}: {e}", dir.join(SETTINGS).display())))?;
    (arguments.json, arguments.quiet) = (json, quiet);
    if let Some(data) = data {
        arguments.data = Some(data.to_path_buf());
    }
    let earlier = directory.as_ref().and_then(|directory| Record::read(directory).ok());
    let done = earlier.as_ref().filter(|r| !matches!(r.status, Status::Interrupted | Status::Limit));
    if crew.decide(u64::from(done.is_some())) == 1 {
        let Some(done) = done else { return Ok(Code::Reached) };
        show(&arguments, done, directory.as_ref())?;
        return Ok(Code::from(&done.status));
    }
    let run = Run::new(&arguments, crew)?;
    run.watch.say("reading the data");
    let problem = arguments.problem(&run.signals, crew.ranks()).map_err(moved)?;
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
        Ok(Self { arguments, crew, goal, way, every, signals: Signals::listen()?, watch })
    }

    fn go(
        mut self,
        problem: &Problem,
        directory: Option<FitDirectory>,
        earlier: Option<&Record>,
    ) -> Result<Code, Failure> {
        if problem.collapsed().is_some() {
            return self.go_collapsed(problem, directory, earlier);
        }
        let kind = if matches!(self.way, Way::Planned(_)) { Kind::Plan } else { Kind::Model };
        let fingerprint = self.arguments.fingerprint(problem);
        let mut checkpoints = directory.as_ref().map(|dir| Checkpoints::new(dir, kind, fingerprint));
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
        self.watch.say("fitting");
        let (mut timer, mut broken, mut last) = (Timer::new(self.every), None, None);
        let (watch, signals, limited) = (&mut self.watch, &self.signals, self.goal.max_time.is_some());
        let crew = self.crew;
        let outcome = problem.run(&self.goal, &self.way, saved.as_deref(), &mut |point, save| {
            watch.step(point);
            crew.compare(point.iteration, save);
            let mut stop = signals.seen().is_some();
            if let Some(checkpoints) = &mut checkpoints {
                if stop || timer.due() {
                    if let Err(error) = checkpoints.write(&save()) {
                        (broken, stop) = (Some(error), true);
                    }
                    timer.reset();
                }
                if limited {
                    last = Some(save());
                }
            }
            // what rank 0 has seen, so that all stop after the same step
            if crew.decide(u64::from(stop)) == 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        crew.first(|| broken.map_or(Ok(()), |error| Err(error.into())))?;
        let outcome = outcome.map(|outcome| self.judged(problem, outcome));
        self.watch.done();
        if let (Some(checkpoints), Some(last), Ok(Outcome { status: Status::Limit, .. })) =
            (&mut checkpoints, &last, &outcome)
        {
            checkpoints.write(last)?;
        }
        let failure = match outcome {
            Ok(outcome) => {
                self.finish(problem, &outcome, directory.as_ref(), earlier)?;
                let code = Code::from(&outcome.status);
                return Ok(if code == Code::Interrupted {
                    self.signals.seen().unwrap_or(code)
                } else {
                    code
                });
            }
            Err(error) => {
                let witness = problem.witness(&error);
                let mut failure = Failure::from(error);
                failure.message.push_str(&witness);
                failure
            }
        };
        self.failed(problem, failure, directory.as_ref())
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
            Code::Limit => Status::Limit,
            Code::Interrupted | Code::Terminated => Status::Interrupted,
            _ => return Err(failure),
        };
        let record = Record::failed(status, failure.message.clone(), self.meta(problem, Vec::new()));
        if let Some(directory) = directory {
            record.write(directory)?;
        }
        if self.arguments.json && self.crew.leads() {
            print(&record.to_json())?;
        }
        Err(failure)
    }

    /// The outcome with the certificate of the posterior, at the level that was asked for.
    fn judged(&self, problem: &Problem, mut outcome: Outcome) -> Outcome {
        if let Some(level) = self.arguments.level {
            level.asked().judge(&mut outcome);
        }
        if outcome.status == Status::Reached {
            self.watch.say("comparing with the posterior");
            outcome.certificate.posterior = problem.posterior(&self.goal, &outcome);
        }
        outcome
    }

    pub(crate) fn meta(&self, problem: &Problem, parameters: Vec<Parameter>) -> Meta {
        let prepared = &problem.prepared;
        let model = self.arguments.settings()["model"].as_str().unwrap_or_default().to_string();
        let versions = [("certus", env!("CARGO_PKG_VERSION")), ("target", std::env::consts::ARCH)];
        Meta {
            model,
            parameters,
            settings: self.arguments.settings(),
            seed: self.goal.seed,
            data: Data {
                rows: Some(prepared.rows_used as u64),
                fingerprint: Some(format!("{:016x}", prepared.fingerprint)),
            },
            notes: problem.notes(),
            versions: versions.map(|(a, b)| (a.to_string(), b.to_string())).into_iter().collect(),
        }
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
        let mut record = Record::new(outcome, self.meta(problem, parameters));
        if let Some(earlier) = earlier {
            record = record.after(earlier);
        }
        if let Some(directory) = directory {
            Arrays { gaussian: outcome.gaussian.clone(), vectors: BTreeMap::new() }.write(directory)?;
            if let Some(table) = GroupTable::new(&problem.meaning, &outcome.gaussian) {
                crate::groups::write(directory, table, &outcome.certificate.gap)?;
            }
            record.write(directory)?;
            if !matches!(outcome.status, Status::Interrupted | Status::Limit) {
                directory.remove_checkpoints()?;
            }
        }
        if self.crew.leads() { show(self.arguments, &record, directory) } else { Ok(()) }
    }
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
    run.watch.say("reading the data");
    let problem = arguments.problem(&run.signals, crew.ranks())?;
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
