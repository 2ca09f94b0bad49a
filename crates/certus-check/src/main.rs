//! `certus-check FILE.proof [ROWS] [--block K]`: checks a certificate and prints what is proved.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::process::ExitCode;

use certus_check::{
    Certificate, Refusal, Rows, SdCertificate, check, check_block, check_sd, check_sd_block,
    check_without_rows, errors, is_about_sd, sentence,
};

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

/// A certificate of either claim.
enum Kind {
    Gap(Certificate),
    Sd(SdCertificate),
}

impl Kind {
    fn blocks(&self) -> usize {
        match self {
            Self::Gap(gap) => gap.blocks.len(),
            Self::Sd(sd) => sd.blocks.len(),
        }
    }

    /// Where the bytes of a block begin, and how many they are.
    fn place(&self, block: usize) -> (u64, u64) {
        let (first, rows, numbers) = match self {
            Self::Gap(gap) => (gap.block_rows * block as u64, gap.rows_of(block), gap.numbers()),
            Self::Sd(sd) => {
                let rows = |b: &certus_check::Block| b.groups.iter().map(|group| group.rows).sum::<u64>();
                (sd.blocks[..block].iter().map(rows).sum(), rows(&sd.blocks[block]), sd.numbers())
            }
        };
        (first * 8 * numbers as u64, rows * 8 * numbers as u64)
    }

    fn check_block(&self, block: usize, bytes: &[u8]) -> Result<(), Refusal> {
        match self {
            Self::Gap(gap) => check_block(&Rows::new(gap), gap, block, bytes),
            Self::Sd(sd) => check_sd_block(sd, block, bytes),
        }
    }

    /// With all rows, or without any: what is proved, and what else follows.
    fn check(&self, rows: Option<File>) -> Result<[String; 2], Refusal> {
        let mut rows = rows.map(|file| BufReader::with_capacity(1 << 20, file));
        match self {
            Self::Gap(gap) => {
                let found = match &mut rows {
                    Some(rows) => check(gap, rows)?,
                    None => check_without_rows(gap)?,
                };
                let more = errors(gap, &found);
                let more = format!("the bound that follows from the sums is {:e} nats; {more}", found.bound);
                Ok([sentence(gap), more])
            }
            Self::Sd(sd) => {
                let margins = check_sd(sd, rows.as_mut().map(|rows| rows as &mut dyn Read))?;
                let least = margins.into_iter().fold(f64::INFINITY, f64::min);
                Ok([sd.sentence(), format!("at its ends the objective is lower by at least {least:e} nats")])
            }
        }
    }
}

fn run(proof: &str, rows: Option<&str>, block: Option<usize>) -> Result<End, Refusal> {
    let mut text = String::new();
    let unreadable = |error| Refusal::NotCheckable(format!("{proof} cannot be read: {error}"));
    open(proof)?.read_to_string(&mut text).map_err(unreadable)?;
    let certificate = match is_about_sd(&text) {
        true => Kind::Sd(SdCertificate::read(&text)?),
        false => Kind::Gap(Certificate::read(&text)?),
    };
    let count = certificate.blocks();
    if block.is_some_and(|block| block >= count) {
        return Err(Refusal::NotCheckable(format!("there are {count} blocks, from 0 on")));
    }
    let all = rows.filter(|_| block.is_none()).map(open).transpose()?;
    let whole = all.is_some() || (block.is_some() && count == 1);
    let [proved, more] = certificate.check(all)?;
    if let Some((rows, block)) = rows.zip(block) {
        one_block(&certificate, rows, block)?;
    }
    let condition = match block {
        _ if whole => "proved: ".to_string(),
        Some(block) => format!("block {block} is as stated; if so are the other {}, then: ", count - 1),
        None => format!("no row was seen; if the sums of all {count} blocks are as stated, then: "),
    };
    println!("{condition}{proved}\n{more}");
    println!("not checkable: that these rows are your data, and what their columns mean");
    Ok(if whole { End::Proved } else { End::UnderCondition })
}

/// One block out of the file of all rows, or out of a file that has only this block.
fn one_block(certificate: &Kind, path: &str, block: usize) -> Result<(), Refusal> {
    let unreadable = |error| Refusal::NotCheckable(format!("{path} cannot be read: {error}"));
    let mut file = open(path)?;
    let (start, length) = certificate.place(block);
    if file.metadata().map_err(unreadable)?.len() != length {
        file.seek(SeekFrom::Start(start)).map_err(unreadable)?;
    }
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).map_err(unreadable)?;
    certificate.check_block(block, &bytes)
}
