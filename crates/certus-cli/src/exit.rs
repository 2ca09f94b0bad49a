//! How the program ends: one code per kind of ending, and the message on stderr.

use std::fmt;
use std::io::Write;

use certus::Status;
use certus_data::{DataError, ErrorKind};
use certus_fit::{Interface, RequestError};

use crate::terminal::{data, plain, plain_json, say};

/// An ending with its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The goal is reached at the requested level.
    Reached = 0,
    /// A limit was reached first; the result is written, the certificate says what holds.
    Limit = 10,
    /// Rounding floor or dead line search.
    NoProgress = 11,
    /// A value was not finite.
    NonFinite = 12,
    /// An assumption is violated, with a witness.
    Violated = 13,
    /// `verify`: the certificate does not hold.
    Refuted = 14,
    /// Wrong arguments.
    Usage = 64,
    /// Bad data, unknown columns included.
    Data = 65,
    /// No such input.
    NoInput = 66,
    /// A rank of the run is lost, silent, or does not agree with the others.
    Lost = 69,
    /// Our bug.
    Bug = 70,
    /// The output exists or cannot be created.
    CannotCreate = 73,
    /// Writing failed.
    WriteFailed = 74,
    /// A bad config file.
    Config = 78,
    /// The terminal hung up.
    HungUp = 129,
    /// Ctrl-C.
    Interrupted = 130,
    /// Terminated.
    Terminated = 143,
}

/// A failure: what stderr says, and the code.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// The message: the value, the place, what was required, what to do.
    pub message: String,
}

impl Failure {
    /// A failure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "certus: {}", self.message)
    }
}

impl From<&Status> for Code {
    fn from(status: &Status) -> Self {
        match status {
            Status::Reached => Code::Reached,
            Status::Limit => Code::Limit,
            Status::NoProgress => Code::NoProgress,
            Status::NonFinite => Code::NonFinite,
            Status::AssumptionViolated => Code::Violated,
            // the only user code here is the data
            Status::UserError => Code::Data,
            Status::Interrupted => Code::Interrupted,
        }
    }
}

impl From<ErrorKind> for Code {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Request => Code::Usage,
            ErrorKind::Data => Code::Data,
            ErrorKind::NotFound => Code::NoInput,
            ErrorKind::Output => Code::CannotCreate,
            ErrorKind::Io => Code::WriteFailed,
            ErrorKind::NotFinite => Code::NonFinite,
            ErrorKind::NotIdentified => Code::Violated,
            ErrorKind::Defect => Code::Bug,
        }
    }
}

impl Code {
    /// True if a signal or `--max-time` ended it.
    pub fn is_stop(self) -> bool {
        matches!(self, Code::Limit | Code::HungUp | Code::Interrupted | Code::Terminated)
    }

    /// The code of a number that another thread or rank left.
    pub fn by_number(number: u8) -> Code {
        const ALL: [Code; 14] = [
            Code::Limit,
            Code::NonFinite,
            Code::Violated,
            Code::Usage,
            Code::Data,
            Code::NoInput,
            Code::Lost,
            Code::CannotCreate,
            Code::WriteFailed,
            Code::Config,
            Code::HungUp,
            Code::Interrupted,
            Code::Terminated,
            Code::Bug,
        ];
        ALL.into_iter().find(|code| *code as u8 == number).unwrap_or(Code::Bug)
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        certus_fit::Error::from(error).into()
    }
}

impl From<certus_models::Error> for Failure {
    fn from(error: certus_models::Error) -> Self {
        DataError::from(error).into()
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        certus_fit::Error::from(error).into()
    }
}

impl From<certus_fit::Error> for Failure {
    fn from(error: certus_fit::Error) -> Self {
        let message = match &error {
            certus_fit::Error::Request(_) | certus_fit::Error::Data(_) => {
                Interface::CommandLine.spell(&error.to_string())
            }
            certus_fit::Error::Exists { .. } => format!("{error} (--overwrite)"),
            _ => error.to_string(),
        };
        Self::new(error.kind().into(), message)
    }
}

/// A note on stderr that does not change how the program ends.
pub fn note(words: &str) {
    say(&format!("certus: note: {words}"));
}

/// Writes a result for people to stdout.
pub fn print(text: &str) -> Result<(), Failure> {
    write(&plain(text))
}

/// Writes JSON to stdout.
pub fn print_json(text: &str) -> Result<(), Failure> {
    write(&plain_json(text))
}

/// Writes data to stdout, whose bytes are what is asked for.
pub fn print_data(text: &str) -> Result<(), Failure> {
    write(&data(text))
}

fn write(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| Failure::new(Code::WriteFailed, format!("the result cannot be written to stdout: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_failure_has_its_code() {
        for (kind, number) in [
            (ErrorKind::NotFinite, 12),
            (ErrorKind::NotIdentified, 13),
            (ErrorKind::Request, 64),
            (ErrorKind::Data, 65),
            (ErrorKind::NotFound, 66),
            (ErrorKind::Defect, 70),
            (ErrorKind::Output, 73),
            (ErrorKind::Io, 74),
        ] {
            let code = Code::from(kind);
            assert_eq!(code as u8, number, "{kind:?}");
            assert_eq!(Code::by_number(number), code);
        }
    }
}
