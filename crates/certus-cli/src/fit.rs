//! `certus fit`, `plan` and `resume`: the run with its checkpoints, and what is written and printed at the end.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use certus::certificate::counted;
use certus::fit::Status;
use certus::{Goal, Outcome};
use certus_fit::directory::SETTINGS;
use certus_fit::record::Source;
use certus_fit::{
    Checkpoints, Compared, Fingerprint, Fit, FitDirectory, Kind, Meta, MethodChoice, PosteriorChoice,
    Problem, Record, RequiredLevel, RunOutcome, Settings, Stage, write_failed,
};

use crate::exit::{Code, Failure, note, print_json};
use crate::progress::ProgressDisplay;
use crate::ranks::Communicator;
use crate::request::{path, problem};
use crate::saving::Saving;
use crate::signals::{FinalWords, Signals};
use crate::table;

/// What decides the bits of a fit: the settings that matter, and the data.
fn fingerprint(settings: &Settings, problem: &Problem) -> Fingerprint {
    let text = settings.decisive().to_string();
    Fingerprint::of([text.as_bytes(), &problem.prepared.fingerprint.to_le_bytes()])
}

/// `certus fit`.
pub fn fit(arguments: &Settings, communicator: &Communicator) -> Result<Code, Failure> {
    let run = Run::new(arguments, communicator)?;
    communicator.first(|| match &arguments.out {
        Some(out) if !arguments.overwrite && out.exists() => {
            Err(certus_fit::Error::Exists { path: out.clone() }.into())
        }
        Some(out) => crate::output::apart(out, path(arguments)?),
        None => Ok(()),
    })?;
    let problem = run.read()?;
    // made now, so that what takes long is not done in vain, and not before, so that bad data leave nothing behind
    let directory = communicator.first(|| {
        let Some(out) = &arguments.out else { return Ok(None) };
        let _writing = run.signals.writing();
        let directory = FitDirectory::create(out, arguments.overwrite)?;
        directory.write(SETTINGS, arguments.value().to_string().as_bytes())?;
        Ok(Some(directory))
    })?;
    communicator.beat(arguments.out.as_deref());
    run.go(&problem, directory.flatten(), None)
}

/// `certus resume`.
pub fn resume(
    dir: &Path,
    data: Option<&Path>,
    json: bool,
    quiet: bool,
    communicator: &Communicator,
) -> Result<Code, Failure> {
    let opened = communicator.first(|| {
        let directory = FitDirectory::resume(dir)?;
        let text = directory.settings()?;
        let earlier = match Record::read(&directory) {
            _ if directory.replaces() => None,
            Err(certus_fit::Error::Missing { .. } | certus_fit::Error::Unfinished { .. }) => None,
            read => Some(read?),
        };
        // of a result that will be replaced nothing is read
        directory.note().filter(|_| !directory.replaces()).iter().for_each(|words| crate::exit::note(words));
        Ok(((directory, earlier), text))
    })?;
    let (opened, text) = opened.unzip();
    let (directory, earlier) = opened.unzip();
    let earlier = earlier.flatten();
    let text = communicator.share(text).expect("rank 0 has read it");
    let mut arguments: Settings = serde_json::from_slice(&text)
        .map_err(|e| Failure::new(Code::Data, format!("{}: {e}", dir.join(SETTINGS).display())))?;
    (arguments.json, arguments.quiet) = (json, quiet);
    if let Some(data) = data {
        arguments.data = Some(data.to_path_buf());
    }
    let done = earlier.as_ref().filter(|r| !matches!(r.status, Status::Interrupted | Status::Limit));
    if communicator.decide(u64::from(done.is_some())) == 1 {
        let Some(done) = done else { return Ok(Code::Reached) };
        directory.iter().try_for_each(FitDirectory::remove_run)?;
        table::show(&arguments, done, directory.as_ref())?;
        return Ok(Code::from(&done.status));
    }
    let run = Run::new(&arguments, communicator)?;
    let problem = run.read().map_err(moved)?;
    communicator.beat(Some(dir));
    run.go(&problem, directory, earlier.as_ref())
}

/// A file that is not there may have moved.
pub fn moved(mut failure: Failure) -> Failure {
    if failure.code == Code::NoInput {
        failure.message.push_str("; if the data have moved, give their new path with --data");
    }
    failure
}

/// A run with all that surrounds it.
pub(crate) struct Run<'a> {
    arguments: &'a Settings,
    communicator: &'a Communicator,
    pub(crate) goal: Goal,
    pub(crate) choice: MethodChoice,
    /// Where the printed numbers come from.
    pub(crate) posterior: PosteriorChoice,
    /// The level that counts as reached.
    asked: Option<RequiredLevel>,
    every: Duration,
    pub(crate) signals: Signals,
    pub(crate) display: ProgressDisplay,
}

impl<'a> Run<'a> {
    pub(crate) fn new(arguments: &'a Settings, communicator: &'a Communicator) -> Result<Self, Failure> {
        // what needs no data is refused before they are read
        let (mut goal, choice) = (arguments.goal()?, arguments.choice()?);
        let (asked, every) = (arguments.asked()?, arguments.checkpoint_every()?);
        let posterior = arguments.posterior()?;
        goal.threads = goal.threads.or_else(|| communicator.threads());
        let display = ProgressDisplay::new(arguments.quiet || !communicator.leads(), goal.gap);
        let signals = Signals::with_limit(goal.max_time, Instant::now(), communicator.leads())?;
        Ok(Self { arguments, communicator, goal, choice, posterior, asked, every, signals, display })
    }

    /// Shows what is being done, and records it for the message of a stop.
    fn say(&self, doing: &str) {
        self.signals.doing(doing);
        self.display.say(doing);
    }

    fn prints_json(&self) -> bool {
        self.arguments.json && self.communicator.leads()
    }

    /// Reads the data and builds the model. Nothing is written if that is stopped.
    pub(crate) fn read(&self) -> Result<Arc<Problem>, Failure> {
        self.say("reading and preparing the data");
        let (meta, json) = (certus_fit::meta(self.arguments), self.prints_json());
        self.signals.on_end(move |reason| {
            let message = format!("{} while {}; nothing was fitted", reason.words, reason.doing);
            let record = || Record::failed(status(reason.code), message.clone(), meta.clone()).to_json();
            FinalWords { record: json.then(record), message }
        });
        let problem = problem(self.arguments, &self.signals, self.communicator.ranks())?;
        problem.check_settings(self.arguments)?;
        Ok(Arc::new(problem))
    }

    /// The goal with the time that is left.
    fn goal_left(&self) -> Goal {
        Goal { max_time: self.signals.time_left(), ..self.goal.clone() }
    }

    /// True if an error was caused by a stop.
    fn was_stopped(&self, error: &certus_models::Error) -> bool {
        error.is_stopped() || self.signals.must_end()
    }

    /// What is left behind by a run that is stopped before it has a Gaussian: `save` writes what there is and says what
    /// becomes of it. A Gaussian that is there already, of an earlier run or of one that was to be replaced, stays.
    fn on_end(
        &self,
        problem: &Arc<Problem>,
        directory: Option<Arc<FitDirectory>>,
        mut save: impl FnMut() -> Result<String, certus_fit::Error> + Send + 'static,
    ) {
        let meta = self.meta(problem);
        let (json, bar, problem) = (self.prints_json(), self.display.bar(), problem.clone());
        self.signals.on_end(move |reason| {
            bar.iter().for_each(|bar| bar.finish_and_clear());
            let saved = save().unwrap_or_else(|e| format!("; {e}"));
            let message = format!("{} while {}{saved}", reason.words, reason.doing);
            let record = Record::failed(status(reason.code), message.clone(), meta.clone());
            let written = match directory.as_deref().filter(|directory| !directory.has_gaussian()) {
                Some(directory) => write_failed(&record, &problem.meaning, directory, true),
                None => Ok(()),
            };
            let message = match written {
                Ok(()) => message,
                Err(error) => format!("{message}; {error}"),
            };
            FinalWords { record: json.then(|| record.to_json()), message }
        });
    }

    fn go(
        mut self,
        problem: &Arc<Problem>,
        directory: Option<FitDirectory>,
        earlier: Option<&Record>,
    ) -> Result<Code, Failure> {
        let (kind, step) = match self.choice {
            _ if problem.collapsed().is_some() => (Kind::Scales, "pass"),
            MethodChoice::Planned(_) => (Kind::Plan, "iteration"),
            _ => (Kind::Model, "iteration"),
        };
        let fingerprint = fingerprint(self.arguments, problem);
        let directory = directory.map(Arc::new);
        let checkpoints = directory.as_ref().map(|dir| Checkpoints::new(dir, kind, fingerprint));
        let saved = self.communicator.first(|| match checkpoints.as_ref().map(Checkpoints::latest) {
            Some(Ok(latest)) => {
                latest.note.iter().for_each(|note| self.display.say(note));
                Ok(Some(latest.checkpoint.state))
            }
            // stopped before the first checkpoint: from the beginning
            Some(Err(certus_fit::Error::Missing { .. })) | None => Ok(None),
            Some(Err(other)) => Err(other.into()),
        })?;
        let saved = self.communicator.share(saved.flatten());
        let all_given = problem.collapsed().is_some_and(|own| own.unknown_scales.scales.is_empty());
        problem.long_run(&self.choice).iter().for_each(|words| self.display.say(words));
        self.say(match (&saved, kind) {
            (Some(_), _) => "reading the saved state",
            (None, Kind::Scales) if all_given => "computing the posterior in closed form",
            (None, Kind::Scales) => "searching for the scales that are not given",
            (None, _) => "searching for the mode",
        });
        let (saving, mut warned, mut begun) = (checkpoints.map(|c| Saving::new(c, self.every)), false, false);
        let saving = saving.map(|saving| Arc::new(Mutex::new(saving)));
        let (theirs, place, resumed) = (saving.clone(), directory.clone(), saved.is_some());
        let estimated = Arc::new(AtomicBool::new(kind != Kind::Scales));
        let seen = estimated.clone();
        self.on_end(problem, directory.clone(), move || {
            let words = ", before there was an estimate of what was not given";
            let before = if seen.load(Ordering::Relaxed) { "" } else { words };
            let (Some(saving), Some(place)) = (&theirs, &place) else {
                return Ok(format!("{before}; nothing was saved, because there is no --out"));
            };
            let (mut saving, place) = (lock(saving), place.path().display());
            saving.write_kept()?;
            let taken = counted(saving.taken(), step);
            Ok(match saving.saved() {
                // a journal has what an earlier run saved, too
                Some(saved) if kind != Kind::Scales => {
                    format!("{before}, after {taken}; certus resume {place} continues after {saved} of them")
                }
                Some(_) => {
                    format!("{before}, after {taken}; certus resume {place} uses those that were saved")
                }
                None if resumed => {
                    format!("{before}; certus resume {place} continues from the last checkpoint")
                }
                None => {
                    format!("{before}, after {taken}; certus resume {place} starts again from the beginning")
                }
            })
        });
        let goal = self.goal_left();
        let (display, signals) = (&mut self.display, &self.signals);
        let communicator = self.communicator;
        let ended = problem.run(&goal, &self.choice, self.asked, saved.as_deref(), &mut |progress, save| {
            if !std::mem::replace(&mut begun, true) {
                signals.doing("fitting");
            }
            display.step(progress);
            if progress.scales.as_ref().is_some_and(|(stage, _)| *stage >= Stage::Posterior) {
                estimated.store(true, Ordering::Relaxed);
            }
            let iteration = progress.point.iteration;
            communicator.compare(iteration, save);
            let stop = signals.seen().is_some();
            if let Some(saving) = &saving {
                let _writing = signals.writing();
                let asked = stop || signals.asked().is_some();
                // a run can do without checkpoints: what it has computed is worth more than a place to resume from
                if let Err(error) = lock(saving).step(iteration, asked, save)
                    && !std::mem::replace(&mut warned, true)
                {
                    display.note(&format!("{error}; the run continues, but what it does now is not saved"));
                }
            }
            // what rank 0 has seen, so that all stop after the same step
            if communicator.decide(u64::from(stop)) == 1 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let ended = ended.map(|ended| self.compared(problem, ended));
        self.display.done();
        let failure = match ended {
            // what an earlier run has certified is better than a Gaussian of which nothing is known
            Ok((ended, _))
                if uncertified(&ended.outcome)
                    && earlier.is_some_and(|e| e.certificate.gap.bound.is_some()) =>
            {
                return Err(self.signals.end());
            }
            Ok((ended, compared)) => {
                let code = Code::from(&ended.outcome.status);
                self.signals.finish(|| {
                    if matches!(ended.outcome.status, Status::Limit | Status::Interrupted)
                        && let Some(Err(error)) = saving.as_ref().map(|saving| lock(saving).write_kept())
                    {
                        note(&format!("{error}; certus resume continues from an earlier state"));
                    }
                    let mut fit = Fit::of_run(ended, problem, self.arguments, &self.goal);
                    if let Some(earlier) = earlier {
                        fit.record = fit.record.after(earlier);
                    }
                    self.finish(&fit, directory.as_deref())
                })?;
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

    /// A failed fit still records what is known.
    fn failed(
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
        let record = Record::failed(status, failure.message.clone(), self.meta(problem));
        if let Some(directory) = directory {
            write_failed(&record, &problem.meaning, directory, false)?;
        }
        if self.prints_json() {
            print_json(&record.to_json())?;
        }
        Err(failure)
    }

    /// Shows which rung of the ladder is being tried.
    fn say_rung(&self, rung: Source) {
        self.display.say(&format!("comparing with the posterior: {}", rung.words()));
    }

    /// A Gaussian with the certificate of the posterior; false if a stop kept it from being compared.
    fn compared(&self, problem: &Arc<Problem>, mut ended: RunOutcome) -> (RunOutcome, bool) {
        if ended.outcome.status != Status::Reached {
            return (ended, true);
        }
        self.say("comparing with the posterior");
        if self.communicator.ranks().is_some() {
            ended.with(
                problem.compare(&self.goal, self.posterior, self.asked, &ended, &|rung| self.say_rung(rung)),
            );
            return (ended, true);
        }
        let shared = Arc::new(ended);
        let (problem, goal, theirs) = (problem.clone(), self.goal.clone(), shared.clone());
        let (posterior, asked) = (self.posterior, self.asked);
        let (send, rungs) = std::sync::mpsc::channel();
        let work = move || {
            let send = Mutex::new(send);
            // nobody listens to a comparison that was abandoned
            let tried = |rung| {
                let _ = lock(&send).send(rung);
            };
            let found = problem.compare(&goal, posterior, asked, &theirs, &tried);
            drop(theirs);
            found
        };
        let found =
            self.signals.unless_stopped(work, || rungs.try_iter().for_each(|rung| self.say_rung(rung)));
        let mut ended = Arc::try_unwrap(shared).unwrap_or_else(|shared| (*shared).clone());
        let found = found.filter(|found| !self.signals.must_end() || found.is_whole());
        let done = found.is_some();
        let by = self.signals.stopped_by().unwrap_or_default();
        ended.with(found.unwrap_or_else(|| Compared::stopped(&by)));
        (ended, done)
    }

    fn meta(&self, problem: &Problem) -> Meta {
        problem.meta(self.arguments, Vec::new(), problem.notes())
    }

    /// Writes and prints the result.
    fn finish(&self, fit: &Fit, directory: Option<&FitDirectory>) -> Result<(), Failure> {
        if let Some(directory) = directory {
            let stopped = matches!(fit.record.status, Status::Interrupted | Status::Limit);
            fit.write(directory, stopped)?;
        }
        if self.communicator.leads() { table::show(self.arguments, &fit.record, directory) } else { Ok(()) }
    }
}

/// The status of a run that was stopped.
fn status(code: Code) -> Status {
    if code == Code::Limit { Status::Limit } else { Status::Interrupted }
}

/// True for a run that was stopped before anything was certified.
fn uncertified(outcome: &Outcome) -> bool {
    let stopped = matches!(outcome.status, Status::Limit | Status::Interrupted);
    stopped && outcome.certificate.gap.statement.bound().is_none()
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
