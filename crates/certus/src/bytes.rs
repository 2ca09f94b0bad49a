//! Saved states: a magic word, then little-endian words, then a check sum; what is missing, too long, changed or not
//! finite is refused.

use crate::error::Error;

/// Writes a state.
pub struct Writer(Vec<u8>);

impl Writer {
    /// Starts with the magic word of a kind of state.
    pub fn new(magic: &[u8; 16]) -> Self {
        Self(magic.to_vec())
    }

    /// A count.
    pub fn count(&mut self, count: u64) {
        self.0.extend_from_slice(&count.to_le_bytes());
    }

    /// Numbers; how many is known to the reader.
    pub fn numbers<'a>(&mut self, numbers: impl IntoIterator<Item = &'a f64>) {
        numbers.into_iter().for_each(|x| self.count(x.to_bits()));
    }

    /// The bytes, closed by their check sum.
    pub fn finish(mut self) -> Vec<u8> {
        let sum = check_sum(&self.0);
        self.count(sum);
        self.0
    }
}

/// Reads what a [`Writer`] wrote.
pub struct Reader<'a> {
    words: std::slice::Iter<'a, [u8; 8]>,
}

impl<'a> Reader<'a> {
    /// Checks the magic word, the length and the check sum.
    pub fn new(bytes: &'a [u8], magic: &[u8; 16]) -> Result<Self, Error> {
        let body = bytes.strip_prefix(magic).ok_or_else(|| bad("it does not start with the magic word"))?;
        let (words, rest) = body.as_chunks::<8>();
        let Some((sum, words)) = words.split_last().filter(|_| rest.is_empty()) else {
            return Err(bad("its length is not a whole number of words"));
        };
        if u64::from_le_bytes(*sum) != check_sum(&bytes[..bytes.len() - 8]) {
            return Err(bad("its checksum is wrong"));
        }
        Ok(Self { words: words.iter() })
    }

    /// The next count.
    pub fn count(&mut self) -> Result<u64, Error> {
        self.words.next().map(|w| u64::from_le_bytes(*w)).ok_or_else(|| bad("it ends too early"))
    }

    /// The next number, which must be finite.
    pub fn number(&mut self) -> Result<f64, Error> {
        let x = f64::from_bits(self.count()?);
        if x.is_finite() { Ok(x) } else { Err(bad("one of its numbers is not finite")) }
    }

    /// The next `n` numbers. Asks for memory only if there are that many.
    pub fn numbers(&mut self, n: usize) -> Result<Vec<f64>, Error> {
        if n > self.words.len() {
            return Err(bad("it ends too early"));
        }
        (0..n).map(|_| self.number()).collect()
    }

    /// Refuses what is left over.
    pub fn finish(self) -> Result<(), Error> {
        if self.words.len() == 0 { Ok(()) } else { Err(bad("it has trailing words")) }
    }
}

/// A state that cannot be used, and why.
pub fn bad(what: &str) -> Error {
    Error::BadState(what.to_string())
}

/// FNV-1a, which every change of a single byte changes.
fn check_sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_is_read() {
        let magic = b"a magic of words";
        let mut writer = Writer::new(magic);
        writer.count(7);
        writer.numbers(&[1.5, -2.0]);
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes, magic).expect("whole");
        assert_eq!(reader.count().expect("a count"), 7);
        assert!(reader.numbers(3).is_err());
        assert_eq!(reader.numbers(2).expect("two numbers"), [1.5, -2.0]);
        reader.finish().expect("nothing is left");
        for length in 0..bytes.len() {
            assert!(Reader::new(&bytes[..length], magic).is_err());
        }
        for i in 0..bytes.len() {
            let mut garbled = bytes.clone();
            garbled[i] ^= 1;
            assert!(Reader::new(&garbled, magic).is_err());
        }
        let mut writer = Writer::new(magic);
        writer.numbers(&[f64::NAN]);
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes, magic).expect("whole");
        assert!(reader.number().is_err());
        assert!(Reader::new(&bytes, magic).expect("whole").finish().is_err());
    }
}
