//! Opened files behind a pair of pipes: what is asked, what is answered, and rows as bytes.
//!
//! A message is one byte that says what it is, the length of the rest as eight bytes, and the rest. All numbers are
//! little-endian. The one side asks [`Ask::Open`] and then [`Ask::Scan`] as often as it likes, both in JSON; the other
//! answers with [`Answer`]s: one description, or batches of rows and an end, or one failure.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::described::Described;
use super::{FileOptions, FileSource};
use crate::error::{DataError, ErrorKind};
use crate::table::{Batch, Column, Source};

/// What is asked of the process that reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// To open files and describe them.
    Open {
        /// Files and directories.
        paths: Vec<PathBuf>,
        /// Which rows, and how they are read.
        options: FileOptions,
    },
    /// All rows of these columns.
    Scan(Vec<usize>),
}

/// What it answers.
#[derive(Debug)]
pub enum Answer {
    /// The files are open.
    Described(Described),
    /// Some rows.
    Rows(Rows),
    /// There are no more rows.
    End,
    /// It could not be done.
    Failed {
        /// What kind of failure that is.
        kind: ErrorKind,
        /// The message.
        message: String,
    },
}

/// A batch of rows with its own cells.
#[derive(Debug, PartialEq)]
pub struct Rows {
    columns: Vec<Column>,
    rows: usize,
    first: usize,
    place: String,
}

impl Rows {
    /// How many columns it has: as many as were asked for, unless the other process is not to be believed.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// As a source hands them out.
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(self.columns.iter().collect(), 0, self.rows, self.first, &self.place)
    }
}

const OPEN: u8 = b'O';
const ROWS: u8 = b'R';
const END: u8 = b'E';
const FAILED: u8 = b'F';
const ASKED: u8 = b'A';
/// Bytes of a message, at most: what is longer was not written by us.
const LONGEST: u64 = 1 << 33;
/// The length of a text that is missing.
const MISSING: u32 = u32::MAX;

fn send(to: &mut dyn Write, tag: u8, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&[tag])?;
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)
}

fn receive(from: &mut dyn Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    from.read_exact(&mut head)?;
    let length = u64::from_le_bytes(head[1..].try_into().expect("eight bytes"));
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    // as it comes, so that a wrong length takes no memory
    if from.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((head[0], bytes))
}

/// Asks.
pub fn ask(to: &mut dyn Write, ask: &Ask) -> io::Result<()> {
    send(to, ASKED, &serde_json::to_vec(ask)?)?;
    to.flush()
}

/// Waits for the next answer.
pub fn answer(from: &mut dyn Read) -> io::Result<Answer> {
    let (tag, bytes) = receive(from)?;
    Ok(match tag {
        OPEN => Answer::Described(serde_json::from_slice(&bytes)?),
        ROWS => Answer::Rows(decode(&bytes).ok_or(io::ErrorKind::InvalidData)?),
        END => Answer::End,
        FAILED => {
            let (kind, message) = serde_json::from_slice(&bytes)?;
            Answer::Failed { kind, message }
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    })
}

/// Waits for what is asked next; `None` when nobody asks any more.
pub fn asked(from: &mut dyn Read) -> io::Result<Option<Ask>> {
    match receive(from) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Ok((ASKED, bytes)) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(e) => Err(e),
    }
}

/// The other side: reads files as it is asked, until nobody asks any more.
pub fn serve(asks: impl IntoIterator<Item = io::Result<Ask>>, to: &mut dyn Write) -> io::Result<()> {
    let mut source: Option<FileSource> = None;
    for asked in asks {
        let mut broken = None;
        let done = match (asked?, &source) {
            (Ask::Open { paths, options }, _) => FileSource::open(&paths, options).map(|opened| {
                broken = serde_json::to_vec(opened.described())
                    .map_err(io::Error::from)
                    .and_then(|bytes| send(to, OPEN, &bytes))
                    .err();
                source = Some(opened);
            }),
            (Ask::Scan(wanted), Some(source)) => {
                let sent = source.scan(&wanted, &mut |batch| {
                    let sent = send(to, ROWS, &encode(batch, wanted.len()));
                    sent.map_err(|e| {
                        broken = Some(e);
                        DataError::Stopped
                    })
                });
                sent.map(|()| broken = send(to, END, &[]).err())
            }
            (Ask::Scan(_), None) => return Err(io::ErrorKind::InvalidData.into()),
        };
        if let Some(error) = broken {
            return Err(error);
        }
        if let Err(error) = done {
            send(to, FAILED, &serde_json::to_vec(&(error.kind(), error.to_string()))?)?;
        }
        to.flush()?;
    }
    Ok(())
}

/// The bytes of a batch of so many columns.
fn encode(batch: &Batch<'_>, columns: usize) -> Vec<u8> {
    let (rows, place) = (batch.rows(), batch.place_of_file());
    let mut out = Vec::with_capacity(64 + 9 * rows * columns);
    out.extend((rows as u64).to_le_bytes());
    out.extend((batch.first() as u64).to_le_bytes());
    text(&mut out, Some(place));
    out.extend((columns as u64).to_le_bytes());
    for c in 0..columns {
        let (column, start) = batch.cell(c, 0);
        let range = start..start + rows;
        match column {
            Column::Number(v) | Column::Date(v) => {
                out.push(if matches!(column, Column::Number(_)) { 0 } else { 1 });
                v[range].iter().for_each(|x| out.extend(x.to_le_bytes()));
            }
            Column::Boolean(v) => {
                out.push(2);
                out.extend(v[range].iter().map(|b| b.map_or(2, u8::from)));
            }
            Column::Text(v) => {
                out.push(3);
                v[range].iter().for_each(|t| text(&mut out, t.as_deref()));
            }
        }
    }
    out
}

fn text(out: &mut Vec<u8>, text: Option<&str>) {
    let length = text.map_or(MISSING, |t| u32::try_from(t.len()).unwrap_or(MISSING));
    out.extend(length.to_le_bytes());
    if length != MISSING {
        out.extend(text.unwrap_or_default().as_bytes());
    }
}

/// The batch that these bytes are of; `None` if they are of none.
fn decode(mut bytes: &[u8]) -> Option<Rows> {
    let from = &mut bytes;
    let (rows, first) = (number(from)?, number(from)?);
    // the number of the last row
    first.checked_add(rows)?.checked_add(1)?;
    let place = read_text(from)??;
    let count = number(from)?;
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(match taken(from, 1)?[0] {
            kind @ (0 | 1) => {
                let values = taken(from, rows.checked_mul(8)?)?.as_chunks::<8>().0;
                let values = values.iter().map(|x| f64::from_le_bytes(*x)).collect();
                if kind == 0 { Column::Number(values) } else { Column::Date(values) }
            }
            2 => {
                let truth = |b: &u8| match b {
                    0 => Some(Some(false)),
                    1 => Some(Some(true)),
                    2 => Some(None),
                    _ => None,
                };
                Column::Boolean(taken(from, rows)?.iter().map(truth).collect::<Option<_>>()?)
            }
            3 => Column::Text((0..rows).map(|_| read_text(from)).collect::<Option<_>>()?),
            _ => return None,
        });
    }
    from.is_empty().then_some(Rows { columns, rows, first, place })
}

fn taken<'a>(from: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, rest) = from.split_at_checked(n)?;
    *from = rest;
    Some(head)
}

fn number(from: &mut &[u8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(taken(from, 8)?.try_into().ok()?)).ok()
}

fn read_text(from: &mut &[u8]) -> Option<Option<String>> {
    let length = u32::from_le_bytes(taken(from, 4)?.try_into().ok()?);
    if length == MISSING {
        return Some(None);
    }
    Some(Some(String::from_utf8(taken(from, length as usize)?.to_vec()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were_and_nothing_else_is_taken_for_rows() {
        let columns = [
            Column::Number(vec![1.5, f64::NAN, -0.0, 1e-320]),
            Column::Date(vec![0.25, 7.0, f64::NAN, 1e5]),
            Column::Boolean(vec![Some(true), None, Some(false), Some(true)]),
            Column::Text(vec![Some("é".into()), None, Some(String::new()), Some("a\nb".into())]),
        ];
        let batch = Batch::new(columns.iter().collect(), 1, 3, 40, " of é.csv");
        let bytes = encode(&batch, 4);
        let back = decode(&bytes).unwrap();
        assert_eq!((back.rows, back.first, back.place.as_str()), (3, 40, " of é.csv"));
        assert_eq!(back.batch().place(1), batch.place(1));
        for (c, column) in columns.iter().enumerate() {
            for i in 0..3 {
                let (theirs, at) = back.batch().cell(c, i);
                match (column.number(i + 1), theirs.number(at)) {
                    (Some(a), Some(b)) => assert_eq!(a.to_bits(), b.to_bits()),
                    (a, b) => assert_eq!((a, b, column.label(i + 1)), (None, None, theirs.label(at))),
                }
                assert_eq!(column.is_missing(i + 1), theirs.is_missing(at));
            }
        }
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(decode(&longer), None);
        // numbers of rows that no file can have
        longer = bytes.clone();
        longer[8..16].copy_from_slice(&(u64::MAX - 3).to_le_bytes());
        assert_eq!(decode(&longer), None);
        assert_eq!(back.columns(), 4);
        // whatever it is, it is decoded or refused, and takes no memory of its own
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let _ = decode(&other);
        }
        assert!(receive(&mut &[ROWS, 255, 255, 255, 255, 255, 255, 255, 255][..]).is_err());
        assert!(receive(&mut &[ROWS, 255, 255, 255, 255, 0, 0, 0, 0][..]).is_err());
    }
}
