//! `certus fit`, `plan` and `resume`: the run with its checkpoints, and what is written and printed at the end.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use certus::certificate::{Level, Posterior, figure};
use certus::fit::Status;
use certus::theorem::Constants;
use certus::{Goal, MethodName, Outcome};
use certus_data::{Fitted, Problem};
use certus_models::PosteriorSettings;
use certus_models::auto::{Chosen, MOST_MEMORY, MOST_WORK, Method, ModelState, Route, planned, resume};
use certus_store::directory::{MEANING, SETTINGS};
use certus_store::record::{Data, Parameter};
use certus_store::{Arrays, Checkpoints, Fingerprint, FitDirectory, Kind, Meta, Record, Timer};

use crate::arguments::{ConstantsChoice, FitArguments, LevelChoice, MethodChoice};
use crate::exit::{Code, Failure, print};
use crate::table;
use crate::watch::{Signals, Watch, duration};

/// Multiplications that the draws of the certificate of the posterior may take: a second or two.
const POSTERIOR_WORK: f64 = 1e9;
/// Its draws, at most and at least.
const POSTERIOR_DRAWS: (f64, f64) = (1e5, 4e3);

/// How to fit: without settings, or by one of the paper's methods.
enum How {
    Auto(Method),
    Planned(Chosen),
}

impl FitArguments {
    fn goal(&self) -> Result<Goal, Failure> {
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

    fn how(&self) -> Result<How, Failure> {
        let method = match self.method.unwrap_or_default() {
            MethodChoice::ProxEnergy => MethodName::ProxEnergy,
            MethodChoice::ProjEntropy => MethodName::ProjEntropy,
            MethodChoice::ProjStl => MethodName::ProjStl,
            MethodChoice::ProxCv => MethodName::ProxCv,
            MethodChoice::BallStl => MethodName::BallStl,
            own => {
                let given = [
                    ("--batch", self.batch.is_some()),
                    ("--iterations", self.iterations.is_some()),
                    ("--constants", self.constants.is_some()),
                ];
                if let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) {
                    let words = format!(
                        "{flag} belongs to the paper's methods (--method prox-energy, proj-entropy, proj-stl, prox-cv, ball-stl): leave it out"
                    );
                    return Err(Failure::new(Code::Usage, words));
                }
                return Ok(How::Auto(match own {
                    MethodChoice::Exact => Method::Exact,
                    MethodChoice::Stochastic => Method::Stochastic,
                    _ => Method::Auto,
                }));
            }
        };
        let constants = match (self.constants.unwrap_or_default(), method) {
            (ConstantsChoice::Paper, MethodName::BallStl | MethodName::ProxCv) => {
                let words =
                    "--constants paper: this method is not in the paper, so it has no constants of it";
                return Err(Failure::new(Code::Usage, words));
            }
            (ConstantsChoice::Paper, _) => Constants::Paper,
            _ => Constants::Sharp,
        };
        let Chosen { batch, iterations, .. } = Chosen::default();
        Ok(How::Planned(Chosen {
            method,
            constants,
            batch: self.batch.unwrap_or(batch),
            iterations: self.iterations.unwrap_or(iterations),
        }))
    }

    fn every(&self) -> Result<Duration, Failure> {
        self.checkpoint_every.as_deref().map_or(Ok(Duration::from_secs(30)), duration)
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("arguments are plain values")
    }

    /// What decides the bits of a fit: the settings that matter, and the data.
    fn fingerprint(&self, problem: &Problem) -> Fingerprint {
        let mut own = self.clone();
        (own.data, own.out, own.threads, own.max_time, own.checkpoint_every) = (None, None, None, None, None);
        (own.overwrite, own.json, own.quiet) = (false, false, false);
        let text = own.settings().to_string();
        Fingerprint::of([text.as_bytes(), &problem.prepared.fingerprint.to_le_bytes()])
    }
}

/// `certus fit`.
pub fn fit(arguments: &FitArguments) -> Result<Code, Failure> {
    let run = Run::new(arguments)?;
    if let Some(out) = arguments.out.as_deref().filter(|out| !arguments.overwrite && out.exists()) {
        return Err(certus_store::Error::Exists { path: out.to_path_buf() }.into());
    }
    run.watch.say("reading the data");
    let problem = arguments.problem(&run.signals)?;
    // made now, so that what takes long is not done in vain, and not before, so that bad data leave nothing behind
    let directory =
        arguments.out.as_deref().map(|dir| FitDirectory::create(dir, arguments.overwrite)).transpose()?;
    if let Some(directory) = &directory {
        directory.write(SETTINGS, arguments.settings().to_string().as_bytes())?;
        let meaning = serde_json::to_vec(&problem.meaning).expect("meanings are plain values");
        directory.write(MEANING, &meaning)?;
    }
    run.go(&problem, directory, None)
}

/// `certus resume`.
pub fn go_on(dir: &Path, data: Option<&Path>, json: bool, quiet: bool) -> Result<Code, Failure> {
    let mut directory = FitDirectory::open(dir)?;
    directory.lock()?;
    let text = directory.read(SETTINGS)?;
    let mut arguments: FitArguments = serde_json::from_slice(&text)
        .map_err(|e| Failure::new(Code::Data, format!("{}: {e}", directory.file(SETTINGS).display())))?;
    (arguments.json, arguments.quiet) = (json, quiet);
    if let Some(data) = data {
        arguments.data = Some(data.to_path_buf());
    }
    let earlier = Record::read(&directory).ok();
    if let Some(done) = earlier.as_ref().filter(|r| !matches!(r.status, Status::Interrupted | Status::Limit))
    {
        show(&arguments, done, Some(&directory))?;
        return Ok(Code::from(&done.status));
    }
    let run = Run::new(&arguments)?;
    run.watch.say("reading the data");
    let problem = arguments.problem(&run.signals).map_err(moved)?;
    run.go(&problem, Some(directory), earlier.as_ref())
}

/// A file that is not there may have moved.
pub fn moved(mut failure: Failure) -> Failure {
    if failure.code == Code::NoInput {
        failure.message.push_str("; if the data moved, say where to with --data");
    }
    failure
}

/// A run with all that surrounds it.
struct Run<'a> {
    arguments: &'a FitArguments,
    goal: Goal,
    how: How,
    every: Duration,
    signals: Signals,
    watch: Watch,
}

impl<'a> Run<'a> {
    fn new(arguments: &'a FitArguments) -> Result<Self, Failure> {
        // what needs no data is refused before they are read
        let (goal, how, every) = (arguments.goal()?, arguments.how()?, arguments.every()?);
        let watch = Watch::new(arguments.quiet, goal.gap);
        Ok(Self { arguments, goal, how, every, signals: Signals::listen()?, watch })
    }

    fn go(
        mut self,
        problem: &Problem,
        directory: Option<FitDirectory>,
        earlier: Option<&Record>,
    ) -> Result<Code, Failure> {
        let kind = if matches!(self.how, How::Auto(_)) { Kind::Model } else { Kind::Plan };
        let fingerprint = self.arguments.fingerprint(problem);
        let mut checkpoints = directory.as_ref().map(|dir| Checkpoints::new(dir, kind, fingerprint));
        let saved = match checkpoints.as_ref().map(Checkpoints::latest) {
            Some(Ok(latest)) => {
                latest.note.iter().for_each(|note| self.watch.say(note));
                Some(latest.checkpoint.state)
            }
            // stopped before the first checkpoint: from the beginning
            Some(Err(certus_store::Error::Missing { .. })) | None => None,
            Some(Err(other)) => return Err(other.into()),
        };
        self.watch.say("fitting");
        let (mut timer, mut broken, mut last) = (Timer::new(self.every), None, None);
        let (watch, signals, limited) = (&mut self.watch, &self.signals, self.goal.max_time.is_some());
        let outcome = run(problem, &self.goal, &self.how, saved.as_deref(), &mut |point, save| {
            watch.step(point);
            let stop = signals.seen().is_some();
            if let Some(checkpoints) = &mut checkpoints {
                if stop || timer.due() {
                    if let Err(error) = checkpoints.write(&save()) {
                        broken = Some(error);
                        return ControlFlow::Break(());
                    }
                    timer.reset();
                }
                if limited {
                    last = Some(save());
                }
            }
            if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let outcome = outcome.map(|outcome| self.judged(problem, outcome));
        self.watch.done();
        if let Some(error) = broken {
            return Err(error.into());
        }
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
                let witness = witness(problem, &error);
                let mut failure = Failure::from(error);
                failure.message.push_str(&witness);
                failure
            }
        };
        // a failed fit still says what it knows
        let status = match failure.code {
            Code::NonFinite => Status::NonFinite,
            Code::Violated => Status::AssumptionViolated,
            _ => return Err(failure),
        };
        let record = Record::failed(status, failure.message.clone(), self.meta(problem, Vec::new()));
        if let Some(directory) = &directory {
            record.write(directory)?;
        }
        if self.arguments.json {
            print(&record.to_json())?;
        }
        Err(failure)
    }

    /// The outcome with the certificate of the posterior, at the level that was asked for.
    fn judged(&self, problem: &Problem, mut outcome: Outcome) -> Outcome {
        let level = outcome.certificate.gap.statement.level();
        let enough = match self.arguments.level {
            Some(LevelChoice::Proved) => level == Level::Proved,
            Some(LevelChoice::Probable) => matches!(level, Level::Proved | Level::Probable { .. }),
            _ => true,
        };
        if outcome.status == Status::Reached && !enough {
            outcome.status = Status::Limit;
            outcome.message = format!("{}; a stronger statement was asked for", outcome.message);
        }
        if outcome.status == Status::Reached {
            self.watch.say("comparing with the posterior");
            outcome.certificate.posterior = posterior(problem, &self.goal, &outcome);
        }
        outcome
    }

    fn meta(&self, problem: &Problem, parameters: Vec<Parameter>) -> Meta {
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
            notes: prepared
                .notes
                .iter()
                .cloned()
                .chain([format!("prior: {}", joined(&problem.priors))])
                .collect(),
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
            record.write(directory)?;
            if !matches!(outcome.status, Status::Interrupted | Status::Limit) {
                directory.remove_checkpoints()?;
            }
        }
        show(self.arguments, &record, directory)
    }
}

fn run(
    problem: &Problem,
    goal: &Goal,
    how: &How,
    saved: Option<&[u8]>,
    observer: &mut certus_models::auto::Observer<'_>,
) -> Result<Outcome, certus_models::Error> {
    let model = problem.model();
    match how {
        How::Planned(chosen) => planned(model, goal, chosen, saved, observer),
        How::Auto(method) => {
            let state = certus::parallel::install(goal.threads, || match saved {
                Some(bytes) => ModelState::decode(bytes, model, goal),
                None => ModelState::new(model, goal, *method),
            })??;
            resume(model, goal, state, observer)
        }
    }
}

/// How far q is from the posterior, if that can be had in a few seconds.
fn posterior(problem: &Problem, goal: &Goal, outcome: &Outcome) -> Posterior {
    let Fitted::Dense(model) = &problem.fitted else {
        return Posterior::none("the certificates of the posterior know no group terms yet");
    };
    let once = problem.prepared.rows_used as f64 * model.dim() as f64;
    let draws = (POSTERIOR_WORK / once).min(POSTERIOR_DRAWS.0);
    if draws < POSTERIOR_DRAWS.1 {
        return Posterior::none(format!(
            "{} draws on this many rows would take longer than a second or two",
            POSTERIOR_DRAWS.1
        ));
    }
    let settings = PosteriorSettings { draws: draws as usize, delta: goal.delta, seed: goal.seed };
    let found = certus::parallel::install(goal.threads, || model.posterior(&outcome.gaussian, &settings));
    match found {
        Ok(Ok(posterior)) => posterior,
        Ok(Err(error)) => Posterior::none(error.to_string()),
        Err(error) => Posterior::none(error.to_string()),
    }
}

/// The direction that makes a posterior improper, by name, largest first.
fn witness(problem: &Problem, error: &certus_models::Error) -> String {
    let certus_models::Error::NotIdentified { direction, .. } = error else { return String::new() };
    let names = problem.prepared.encoding.coefficients();
    let mut parts: Vec<(f64, &String)> =
        direction.iter().copied().zip(&names).filter(|(x, _)| x.abs() > 1e-6).collect();
    if parts.is_empty() {
        return String::new();
    }
    parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let shown: Vec<String> = parts.iter().take(8).map(|(x, name)| format!("{x:+.3} {name}")).collect();
    let more = if parts.len() > 8 { format!(" and {} smaller ones", parts.len() - 8) } else { String::new() };
    let scale = if problem.prepared.encoding.standardise { ", per sd of the features" } else { "" };
    format!("\nwitness{scale}: {}{more}", shown.join(" "))
}

/// The lines, those that say the same law together.
fn joined(lines: &[String]) -> String {
    const MOST: usize = 8;
    let shown = lines[..lines.len().min(MOST)].join(", ");
    if lines.len() > MOST { format!("{shown} and {} more", lines.len() - MOST) } else { shown }
}

/// The record on stdout, as asked for.
fn show(arguments: &FitArguments, record: &Record, directory: Option<&FitDirectory>) -> Result<(), Failure> {
    match (arguments.json, arguments.quiet) {
        (true, _) => print(&record.to_json()),
        (false, true) => Ok(()),
        (false, false) => print(&table::fit(record, directory.map(FitDirectory::path))),
    }
}

/// `certus plan`.
pub fn plan(arguments: &FitArguments) -> Result<Code, Failure> {
    let run = Run::new(arguments)?;
    run.watch.say("reading the data");
    let problem = arguments.problem(&run.signals)?;
    run.watch.done();
    let (model, prepared) = (problem.model(), &problem.prepared);
    let route = match &run.how {
        How::Auto(Method::Auto) => Route::choose(model.size(), MOST_WORK, MOST_MEMORY).why,
        How::Auto(method) => format!("{}: it was asked for", method.as_str()),
        How::Planned(chosen) => {
            format!(
                "{:?}: it was asked for, {} iterations of {} draws",
                chosen.method, chosen.iterations, chosen.batch
            )
        }
    };
    let mut out = String::new();
    let mut line = |what: &str, value: String| out.push_str(&format!("{what:<13} {value}\n"));
    line("rows", prepared.rows_used.to_string());
    line("response", {
        let r = &prepared.response;
        format!(
            "{}: mean {:.4}, sd {:.4}, from {} to {}",
            prepared.encoding.response, r.mean, r.sd, r.min, r.max
        )
    });
    line("coefficients", joined(&prepared.encoding.coefficients()));
    line("latents", model.dim().to_string());
    problem.priors.iter().take(20).for_each(|prior| line("prior", prior.clone()));
    line("goal", format!("a gap of at most {} nats", figure(run.goal.gap)));
    line("route", route);
    line("cost", format!("{:.1e} operations, {:.0} MB", model.size().work(), model.size().memory() / 1e6));
    prepared.notes.iter().for_each(|note| line("note", note.clone()));
    print(&out)?;
    Ok(Code::Reached)
}
