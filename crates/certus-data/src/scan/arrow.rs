//! Arrow files are looked at before they are decoded: the decoder takes as much memory as lengths in a file say, and
//! reads a file that it refuses a second time as a stream, whose first length is then four letters of the magic word.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use datafusion::arrow::ipc::reader::{FileReader, read_footer_length};
use datafusion::arrow::ipc::{Block, root_as_footer};

use super::files::Format;
use crate::error::{DataError, FileError};

const MAGIC: &[u8; 6] = b"ARROW1";
/// What begins a message of a stream, before its length.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// An error unless every length that an Arrow file states lies within it. Pipes are not looked at: they have no end.
pub(super) fn check(format: Format, file: &Path, name: &str) -> Result<(), DataError> {
    if format != Format::Arrow || !file.is_file() {
        return Ok(());
    }
    let opened =
        File::open(file).map_err(|e| FileError::Read { name: name.into(), reason: e.to_string() })?;
    lengths(&opened).map_err(|reason| FileError::Damaged { name: name.into(), reason }.into())
}

fn lengths(mut file: &File) -> Result<(), String> {
    let unreadable = |e: io::Error| e.to_string();
    let size = file.metadata().map_err(unreadable)?.len();
    let mut head = Vec::new();
    file.take(8).read_to_end(&mut head).map_err(unreadable)?;
    let Ok(head) = <[u8; 8]>::try_from(head) else { return Err("it ends after a few bytes".into()) };
    if !head.starts_with(MAGIC) {
        // a stream: its first message, with a mark or, as it was before 2020, without
        let at = if head.starts_with(&CONTINUATION) { 4 } else { 0 };
        let length = u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        return within(0, 0, u64::from(length), size).ok_or_else(|| beyond("its first message"));
    }
    let mut tail = [0; 10];
    let end = |back: u64| SeekFrom::Start(size.saturating_sub(back));
    file.seek(end(10)).and_then(|_| file.read_exact(&mut tail)).map_err(unreadable)?;
    let length = read_footer_length(tail).map_err(|e| e.to_string())?;
    if length as u64 + 10 > size {
        return Err(beyond("its footer"));
    }
    let mut bytes = vec![0; length];
    file.seek(end(10 + length as u64)).and_then(|_| file.read_exact(&mut bytes)).map_err(unreadable)?;
    let footer = root_as_footer(&bytes).map_err(|e| format!("its footer is damaged ({e})"))?;
    let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches()).flatten();
    for (k, block) in blocks.enumerate() {
        inside(block, size).ok_or_else(|| beyond(&format!("block {k}")))?;
    }
    // what is not right in other ways is said here, and not of a stream
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    FileReader::try_new(file, None).map(|_| ()).map_err(|e| e.to_string())
}

fn beyond(what: &str) -> String {
    format!("{what} is longer than the file")
}

fn inside(block: &Block, size: u64) -> Option<()> {
    let [start, body] = [block.offset(), block.bodyLength()].map(|length| u64::try_from(length).ok());
    within(start?, u64::try_from(block.metaDataLength()).ok()?, body?, size)
}

/// Something if so many bytes from `start` on end within `size`.
fn within(start: u64, metadata: u64, body: u64, size: u64) -> Option<()> {
    (start.checked_add(metadata)?.checked_add(body)? <= size).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_end_within_the_file() {
        assert_eq!(within(3, 4, 5, 12), Some(()));
        assert_eq!(within(3, 4, 5, 11), None);
        assert_eq!(within(u64::MAX, 1, 0, u64::MAX), None);
        assert_eq!(inside(&Block::new(8, 4, 12), 24), Some(()));
        assert_eq!(inside(&Block::new(8, 4, 12), 23), None);
        assert_eq!(inside(&Block::new(-1, 4, 12), 1 << 40), None);
        assert_eq!(inside(&Block::new(1, -4, 12), 1 << 40), None);
    }
}
