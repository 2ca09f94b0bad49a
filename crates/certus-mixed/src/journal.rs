//! The saveable state of a run over unknown scales: every evaluation it has made, in order.
//!
//! Such a run is a deterministic program between evaluations of the likelihood, which are all that takes time. Begun
//! again with its journal it asks for the same evaluations and finds them there, so it goes on where it was stopped,
//! with the same bits.

use certus_models::Error;

/// Numbers that are kept, at most: 64 MiB of them. Later evaluations are made again by a run that is resumed.
const MOST: usize = 8 << 20;

/// What was computed from what.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    /// The hash of everything that was asked for.
    key: u64,
    values: Vec<f64>,
}

/// The evaluations of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    entries: Vec<Entry>,
    /// The entry that comes next; all of them are behind a run that is not resumed.
    next: usize,
    /// Numbers in all entries.
    size: usize,
}

impl Journal {
    /// Reads what [`encode`](Self::encode) made; a run begins again at the first entry.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = || Error::Core(certus::Error::BadState("its journal is damaged".into()));
        let (mut journal, mut rest) = (Self::default(), bytes);
        let word = |rest: &mut &[u8]| -> Result<u64, Error> {
            let (first, others) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
            *rest = others;
            Ok(u64::from_le_bytes(*first))
        };
        while !rest.is_empty() {
            let (key, count) = (word(&mut rest)?, word(&mut rest)?);
            if count > rest.len() as u64 / 8 {
                return Err(damaged());
            }
            let values: Result<Vec<f64>, Error> =
                (0..count).map(|_| word(&mut rest).map(f64::from_bits)).collect();
            journal.size += count as usize;
            journal.entries.push(Entry { key, values: values? });
        }
        Ok(journal)
    }

    /// The bytes of a checkpoint: of every entry its key, how many numbers it has, and those, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 * (self.size + 2 * self.entries.len()));
        for entry in &self.entries {
            bytes.extend(entry.key.to_le_bytes());
            bytes.extend((entry.values.len() as u64).to_le_bytes());
            entry.values.iter().for_each(|x| bytes.extend(x.to_bits().to_le_bytes()));
        }
        bytes
    }

    /// The values of the next entry, if it has this key.
    pub(crate) fn next(&mut self, key: u64) -> Option<&[f64]> {
        let entry = self.entries.get(self.next).filter(|entry| entry.key == key)?;
        self.next += 1;
        Some(&entry.values)
    }

    /// Adds an evaluation; entries that were not asked for any more are forgotten.
    pub(crate) fn push(&mut self, key: u64, values: Vec<f64>) {
        let forgotten = self.entries.drain(self.next..);
        self.size -= forgotten.map(|entry| entry.values.len()).sum::<usize>();
        if self.size + values.len() <= MOST {
            self.size += values.len();
            self.entries.push(Entry { key, values });
            self.next = self.entries.len();
        }
    }
}

/// FNV-1a over the bits of numbers. It need not resist anybody: the checkpoint's fingerprint says whose journal it is.
pub(crate) fn key<'a>(parts: impl IntoIterator<Item = &'a [f64]>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: u64| {
        for byte in word.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for part in parts {
        add(part.len() as u64);
        part.iter().for_each(|x| add(x.to_bits()));
    }
    hash
}

/// Several vectors as one, each behind its length.
pub(crate) fn packed(vectors: &[&[f64]]) -> Vec<f64> {
    vectors.iter().flat_map(|v| std::iter::once(v.len() as f64).chain(v.iter().copied())).collect()
}

/// The other way round; `None` unless there are `N` of them.
pub(crate) fn unpacked<const N: usize>(mut values: &[f64]) -> Option<[Vec<f64>; N]> {
    let mut out = [const { Vec::new() }; N];
    for vector in &mut out {
        let (count, rest) = values.split_first()?;
        let (own, others) = rest.split_at_checked(*count as usize)?;
        *vector = own.to_vec();
        values = others;
    }
    values.is_empty().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Journal {
        let mut journal = Journal::default();
        journal.push(1, vec![1.5, f64::NAN]);
        journal.push(2, Vec::new());
        journal.push(3, vec![f64::NEG_INFINITY]);
        journal
    }

    #[test]
    fn a_journal_comes_back_bit_for_bit() {
        let bytes = filled().encode();
        let mut again = Journal::decode(&bytes).unwrap();
        assert_eq!(again.encode(), bytes);
        assert_eq!(again.next(1).map(|v| v[1].is_nan()), Some(true));
        assert_eq!(again.next(3), None);
        assert_eq!(again.next(2), Some(&[][..]));
    }

    #[test]
    fn what_is_asked_for_no_more_is_forgotten() {
        let mut again = Journal::decode(&filled().encode()).unwrap();
        assert!(again.next(1).is_some());
        again.push(7, vec![7.0]);
        assert_eq!((again.entries.len(), again.size), (2, 3));
        assert_eq!(again.next(2), None);
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let mut journal = filled();
        journal.push(4, vec![0.0; MOST]);
        assert_eq!(journal.entries.len(), 3);
    }

    #[test]
    fn damage_is_refused() {
        let bytes = filled().encode();
        assert!(Journal::decode(&bytes[..bytes.len() - 3]).is_err());
        let mut long = bytes.clone();
        long[15] = 255;
        assert!(Journal::decode(&long).is_err());
    }

    #[test]
    fn keys_tell_lengths_and_bits_apart() {
        let keys =
            [key([&[1.0, 2.0][..], &[]]), key([&[1.0][..], &[2.0]]), key([&[0.0][..]]), key([&[-0.0][..]])];
        assert!((0..4).all(|i| (0..i).all(|j| keys[i] != keys[j])));
    }

    #[test]
    fn vectors_are_packed_and_unpacked() {
        let there = packed(&[&[1.0, 2.0], &[], &[3.0]]);
        assert_eq!(unpacked::<3>(&there), Some([vec![1.0, 2.0], vec![], vec![3.0]]));
        assert_eq!(unpacked::<2>(&there), None);
        assert_eq!(unpacked::<4>(&there), None);
    }
}
