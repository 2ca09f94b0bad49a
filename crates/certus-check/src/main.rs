//! `certus-check FILE.proof [ROWS] [--block K]`: checks a certificate and prints what is proved.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::process::ExitCode;

use certus_check::{Certificate, Refusal, Rows, check, check_block, check_without_rows, errors, sentence};

const USAGE: &str = "usage: certus-check FILE.proof [ROWS] [--block K]

Checks the certificate in FILE.proof with the rows in ROWS. Without ROWS, only that the claim follows from the sums that
the certificate states for its blocks of rows. With --block K (from 0), also the sums of that block; ROWS may then be
the block alone.

exit codes: 0 proved, 1 not proved, 2 not checkable, 3 proved if the sums of blocks that were
not seen are true, 64 usage";

/// What the program ends with.
enum End {
    Proved,
    UnderCondition,
}

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
        Ok(End::Proved) => ExitCode::SUCCESS,
        Ok(End::UnderCondition) => ExitCode::from(3),
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

fn open(path: &str) -> Result<File, Refusal> {
    File::open(path).map_err(|error| Refusal::NotCheckable(format!("{path} cannot be read: {error}")))
}

fn run(proof: &str, rows: Option<&str>, block: Option<usize>) -> Result<End, Refusal> {
    let mut text = String::new();
    let unreadable = |error| Refusal::NotCheckable(format!("{proof} cannot be read: {error}"));
    open(proof)?.read_to_string(&mut text).map_err(unreadable)?;
    let certificate = Certificate::read(&text)?;
    let count = certificate.blocks.len();
    let (end, found) = match (rows, block) {
        (None, _) => (End::UnderCondition, check_without_rows(&certificate)?),
        (Some(rows), None) => {
            (End::Proved, check(&certificate, &mut BufReader::with_capacity(1 << 20, open(rows)?))?)
        }
        (Some(rows), Some(block)) => {
            if block >= count {
                return Err(Refusal::NotCheckable(format!("there are {count} blocks, from 0 on")));
            }
            let found = check_without_rows(&certificate)?;
            one_block(&certificate, rows, block)?;
            (if count == 1 { End::Proved } else { End::UnderCondition }, found)
        }
    };
    let condition = match (&end, block) {
        (End::Proved, _) => "proved: ".to_string(),
        (_, Some(block)) => format!("block {block} is as stated; if so are the other {}, then: ", count - 1),
        _ => format!("no row was seen; if the sums of all {count} blocks are as stated, then: "),
    };
    println!("{condition}{}", sentence(&certificate));
    println!(
        "the bound that follows from the sums is {:e} nats; {}",
        found.bound,
        errors(&certificate, &found)
    );
    println!("not checkable: that these rows are your data, and what their columns mean");
    Ok(end)
}

/// One block out of the file of all rows, or out of a file that has only this block.
fn one_block(certificate: &Certificate, path: &str, block: usize) -> Result<(), Refusal> {
    let unreadable = |error| Refusal::NotCheckable(format!("{path} cannot be read: {error}"));
    let mut file = open(path)?;
    let of_rows = |rows: u64| rows * 8 * certificate.numbers() as u64;
    let length = of_rows(certificate.rows_of(block));
    if file.metadata().map_err(unreadable)?.len() != length {
        let start = of_rows(certificate.block_rows * block as u64);
        file.seek(SeekFrom::Start(start)).map_err(unreadable)?;
    }
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(unreadable)?;
    check_block(&Rows::new(certificate), certificate, block, &bytes)
}
