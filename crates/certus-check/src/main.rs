//! `certus-check FILE.proof [ROWS] [--block K]`: checks a certificate and prints what is proved.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::process::ExitCode;

use certus_check::{Refusal, Rule, check, check_block, read};

const USAGE: &str = "usage: certus-check FILE.proof [ROWS] [--block K]

Checks the certificate in FILE.proof with the rows in ROWS. Without ROWS, only that the claim follows from the sums that
the certificate states for its blocks of rows. With --block K (from 0), also the sums of that block; ROWS may then be
the block alone.

exit codes: 0 proved, 1 not proved, 2 not checkable, 3 proved if the sums of blocks that were
not seen are true, 64 usage";

fn main() -> ExitCode {
    let mut files = Vec::new();
    let mut block = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--block" => match arguments.next().and_then(|k| k.parse().ok()) {
                Some(k) => block = Some(k),
                None => return usage(),
            },
            option if option.starts_with('-') => return usage(),
            _ => files.push(argument),
        }
    }
    let (proof, rows) = match &files[..] {
        [proof] if block.is_none() => (proof, None),
        [proof, rows] => (proof, Some(rows.as_str())),
        _ => return usage(),
    };
    match run(proof, rows, block) {
        Ok(code) => ExitCode::from(code),
        Err(refusal) => {
            println!("{refusal}");
            ExitCode::from(if matches!(refusal, Refusal::NotProved(_)) { 1 } else { 2 })
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(64)
}

fn unreadable(path: &str) -> impl Fn(std::io::Error) -> Refusal {
    move |error| Refusal::NotCheckable(format!("{path} cannot be read: {error}"))
}

/// Prints what is proved; the exit code.
fn run(proof: &str, rows: Option<&str>, block: Option<usize>) -> Result<u8, Refusal> {
    let text = String::from_utf8(std::fs::read(proof).map_err(unreadable(proof))?);
    let text = text.map_err(|_| Refusal::NotProved(format!("{proof} is not UTF-8")))?;
    let certificate = read(&text)?;
    let count = certificate.tree().1.len();
    if block.is_some_and(|block| block >= count) {
        return Err(Refusal::NotCheckable(format!("there are {count} blocks, from 0 on")));
    }
    // the only block is all of it
    let block = block.filter(|_| count > 1);
    let whole = rows.is_some() && block.is_none();
    let [proved, more] = match (rows, block) {
        (Some(path), None) => {
            let file = File::open(path).map_err(unreadable(path))?;
            check(&*certificate, Some(&mut BufReader::with_capacity(1 << 20, file)))?
        }
        (Some(path), Some(block)) => {
            one_block(&*certificate, path, block).map_err(unreadable(path))??;
            check(&*certificate, None)?
        }
        (None, _) => check(&*certificate, None)?,
    };
    let condition = match block {
        _ if whole => "proved: ".to_string(),
        Some(block) => format!("block {block} is as stated; if so are the other {}, then: ", count - 1),
        None => format!("no row was seen; if the sums of all {count} blocks are as stated, then: "),
    };
    println!("{condition}{proved}\n{more}");
    println!("not checkable: that these rows are your data, and what their columns mean");
    Ok(if whole { 0 } else { 3 })
}

/// One block out of the file of all rows, or out of a file that has only this block.
fn one_block(certificate: &dyn Rule, path: &str, block: usize) -> std::io::Result<Result<(), Refusal>> {
    let (_, blocks) = certificate.tree();
    let length = blocks[block].1;
    let mut file = File::open(path)?;
    if file.metadata()?.len() != length {
        file.seek(SeekFrom::Start(blocks[..block].iter().map(|(_, length)| length).sum()))?;
    }
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(check_block(certificate, block, &bytes))
}
