//! JSON objects whose last member is the SHA-256 of every byte before it, for files that are read before there is a
//! manifest.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::manifest::hex;

/// The name of that member.
pub(crate) const FIELD: &str = "sha256";

/// The text of an object that has members, with its checksum.
pub(crate) fn with_checksum(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).expect("plain values with text keys");
    text.pop();
    let sum = hex(&Sha256::digest(&text));
    text.extend(format!(",\"{FIELD}\":\"{sum}\"}}\n").into_bytes());
    text
}

/// What is wrong with a text that [`with_checksum`] did not make.
pub(crate) fn verify_checksum(text: &[u8]) -> Result<(), &'static str> {
    let opening = format!(",\"{FIELD}\":\"");
    let tail = opening.len() + 64 + "\"}\n".len();
    let (body, end) = text.split_at(text.len().saturating_sub(tail));
    let sum = hex(&Sha256::digest(body));
    match end.strip_prefix(opening.as_bytes()) {
        None => Err("it has no SHA-256 at its end"),
        Some(rest) if rest != format!("{sum}\"}}\n").as_bytes() => Err("its SHA-256 is wrong"),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_every_cut_and_every_extra_byte_is_seen() {
        let text = with_checksum(&serde_json::json!({"of": "a", "fits": [1.5, null]}));
        assert_eq!(verify_checksum(&text), Ok(()));
        let back: serde_json::Value = serde_json::from_slice(&text).expect("an object");
        assert_eq!(back["fits"][0], 1.5);
        (0..text.len()).for_each(|n| assert!(verify_checksum(&text[..n]).is_err(), "{n}"));
        for bit in 0..8 * text.len() {
            let mut other = text.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(verify_checksum(&other).is_err(), "bit {bit}");
        }
        assert!(verify_checksum(&[&text[..], b" "].concat()).is_err());
        assert!(verify_checksum(b"{\"of\":\"a\"}").is_err());
    }
}
