//! Data files are decoded by another process, `certus __read`, within limits of memory and time: a file that makes a
//! decoder panic, abort or take too much is bad data, and this process goes on to say so. `--trust-input` and runs
//! under `mpirun` decode files here, as do the Python package and builds without files.

use std::fs;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use certus_data::wire::{Answer, Ask, answer, ask, asked, serve};
use certus_data::{
    Batch, ColumnInfo, DataError, Described, ErrorKind, FileOptions, FileSource, Source, files_of,
};

use crate::exit::{Code, Failure, note};

/// The command that reads.
pub const COMMAND: &str = "__read";
/// Answers that wait to be looked at: the reader works while this process does.
const AHEAD: usize = 4;
/// How long a process that has ended may take to be seen as ended.
const END: Duration = Duration::from_millis(500);

static TRUSTED: AtomicBool = AtomicBool::new(false);

/// From now on, files are decoded in this process.
pub fn trust() {
    TRUSTED.store(true, Ordering::Relaxed);
}

/// Opens files, in another process where that is possible.
pub fn open(path: &Path, options: FileOptions) -> Result<Box<dyn Source>, Failure> {
    if TRUSTED.load(Ordering::Relaxed) || crate::ranks::launched().is_some() || path.to_str().is_none() {
        return Ok(Box::new(FileSource::open(&[path.to_path_buf()], options)?));
    }
    // what is not there needs no reader
    let files = files_of(path)?;
    let limits = options.limits;
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |there| there.len());
    let bytes: u64 = files.iter().map(size).sum();
    let regular = files.iter().all(|file| file.is_file());
    let query = options.sql.is_some();
    let reader = Reader {
        memory: limits.memory_for(bytes, query),
        patience: (regular && !query).then(|| limits.patience_for(bytes)),
        name: path.display().to_string(),
    };
    let source = match reader.start() {
        Ok(process) => Remote::open(reader, process, path, options)?,
        Err(error) => {
            note(&format!(
                "no other process can be started to decode the files ({error}): they are decoded here"
            ));
            return Ok(Box::new(FileSource::open(&[path.to_path_buf()], options)?));
        }
    };
    Ok(Box::new(source))
}

/// `certus __read`.
pub fn read() -> Result<Code, Failure> {
    // what a panic says is told by the other process
    std::panic::set_hook(Box::new(|_| ()));
    let (send, asks) = channel();
    // a query may compute for ever without a row: when nobody waits for one any more, this process ends in its midst
    std::thread::Builder::new()
        .name("asks".into())
        .spawn(move || {
            let mut from = BufReader::new(std::io::stdin());
            loop {
                match asked(&mut from).transpose() {
                    None => std::process::exit(0),
                    Some(next) => {
                        let last = next.is_err();
                        if send.send(next).is_err() || last {
                            return;
                        }
                    }
                }
            }
        })
        .map_err(|e| Failure::new(Code::WriteFailed, e.to_string()))?;
    match serve(asks, &mut BufWriter::with_capacity(1 << 16, std::io::stdout())) {
        // the other process has ended
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(Code::Reached),
        Err(e) => Err(Failure::new(Code::Usage, format!("{COMMAND} is for certus itself: {e}"))),
        Ok(()) => Ok(Code::Reached),
    }
}

/// What a reading process may take.
struct Reader {
    /// Bytes of its address space.
    memory: u64,
    /// How long it may be silent, if not for ever.
    patience: Option<Duration>,
    /// The files, as the user named them.
    name: String,
}

/// A process that reads.
struct Process {
    child: Child,
    asks: ChildStdin,
    answers: Receiver<std::io::Result<Answer>>,
}

impl Reader {
    fn start(&self) -> std::io::Result<Process> {
        let own = std::env::current_exe()?;
        // the shell sets the limit, because that takes no unsafe code; where it has no such limit there is none
        let limited = "ulimit -v \"$1\" 2>/dev/null; ulimit -c 0 2>/dev/null; shift; exec \"$@\"";
        let mut command = if cfg!(unix) { Command::new("/bin/sh") } else { Command::new(&own) };
        if cfg!(unix) {
            command.args(["-c", limited, "certus", &(self.memory >> 10).to_string()]).arg(&own);
        }
        // two places of memory for all threads: others would be reserved in address space that nobody uses
        command.arg(COMMAND).env("MALLOC_ARENA_MAX", "2");
        // Ctrl-C is for this process, which ends the other one
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (Some(asks), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("it has no pipes"));
        };
        let (send, answers) = sync_channel(AHEAD);
        std::thread::Builder::new().name("answers".into()).spawn(move || {
            let mut out = BufReader::with_capacity(1 << 16, out);
            loop {
                let next = answer(&mut out);
                let last = next.is_err();
                if send.send(next).is_err() || last {
                    return;
                }
            }
        })?;
        Ok(Process { child, asks, answers })
    }
}

impl Process {
    fn ask(&mut self, asked: &Ask, reader: &Reader) -> Result<(), DataError> {
        ask(&mut self.asks, asked).map_err(|_| self.lost(reader))
    }

    /// The next answer, or why there is none.
    fn next(&mut self, reader: &Reader) -> Result<Answer, DataError> {
        let waited = match reader.patience {
            Some(patience) => self.answers.recv_timeout(patience),
            None => self.answers.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match waited {
            Ok(Ok(Answer::Failed { kind, message })) => Err(DataError::Elsewhere { kind, message }),
            Ok(Ok(answer)) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                let seconds = reader.patience.unwrap_or_default().as_secs();
                let _ = self.child.kill();
                Err(reader.damaged(&format!("its decoder gave no rows for {seconds} s")))
            }
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => Err(self.lost(reader)),
        }
    }

    /// What to say of a reader that has ended in the middle of its work.
    fn lost(&mut self, reader: &Reader) -> DataError {
        let began = std::time::Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(None) if began.elapsed() < END => std::thread::sleep(Duration::from_millis(5)),
                Ok(status) => break status,
                Err(_) => break None,
            }
        };
        let ended = status.map_or("does not answer".into(), |status| format!("ended with {status}"));
        reader.damaged(&format!(
            "its decoder {ended}, with a limit of {} MiB of memory; a file that is known to be whole can be read \
             without limits by --trust-input",
            reader.memory >> 20
        ))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reader {
    fn damaged(&self, reason: &str) -> DataError {
        DataError::Elsewhere {
            kind: ErrorKind::Data,
            message: format!("{} can't be read: {reason}", self.name),
        }
    }
}

/// Files that another process reads.
struct Remote {
    reader: Reader,
    /// `None` after it has failed, or was left in the middle of its rows.
    process: Mutex<Option<Process>>,
    open: Ask,
    described: Described,
}

impl Remote {
    fn open(reader: Reader, process: Process, path: &Path, options: FileOptions) -> Result<Self, DataError> {
        let open = Ask::Open { paths: vec![path.to_path_buf()], options };
        let mut process = process;
        let described = Self::opened(&reader, &mut process, &open)?;
        Ok(Self { reader, process: Mutex::new(Some(process)), open, described })
    }

    fn opened(reader: &Reader, process: &mut Process, open: &Ask) -> Result<Described, DataError> {
        process.ask(open, reader)?;
        match process.next(reader)? {
            Answer::Described(described) => Ok(described),
            _ => Err(process.lost(reader)),
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Remote {
    fn columns(&self) -> &[ColumnInfo] {
        &self.described.columns
    }

    fn files_read(&self, rows: usize) -> Option<String> {
        self.described.files_read(rows)
    }

    fn notes(&self, wanted: &[usize]) -> Vec<String> {
        self.described.notes(wanted)
    }

    fn scan(
        &self,
        wanted: &[usize],
        visit: &mut dyn FnMut(&Batch<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        // one scan at a time; one within another, or after one that was left, has a process of its own
        let mut process = match self.process().take() {
            Some(process) => process,
            None => {
                let failed =
                    |e: std::io::Error| self.reader.damaged(&format!("its decoder can't be started: {e}"));
                let mut process = self.reader.start().map_err(failed)?;
                if Self::opened(&self.reader, &mut process, &self.open)? != self.described {
                    return Err(self.reader.damaged("it has changed while it was read"));
                }
                process
            }
        };
        process.ask(&Ask::Scan(wanted.to_vec()), &self.reader)?;
        loop {
            match process.next(&self.reader)? {
                Answer::Rows(rows) if rows.columns() == wanted.len() => visit(&rows.batch())?,
                Answer::End => break,
                _ => return Err(process.lost(&self.reader)),
            }
        }
        *self.process() = Some(process);
        Ok(())
    }
}
