//! What the rules of all claims have in common: the hash tree, and what is done with blocks of rows.

use std::io::Read;

use crate::refusal::Refusal;
use crate::sha256::{Hash, leaf, root};

/// A certificate of any claim, read and legal.
pub trait Rule {
    /// The root of the hash tree as it is stated; hash and bytes of every block.
    fn tree(&self) -> (Hash, Vec<(Hash, u64)>);

    /// Checks that a block of rows, whose hash is right, is as stated.
    fn rows(&self, block: usize, bytes: &[u8]) -> Result<(), Refusal>;

    /// If all blocks are as stated: the sentence that is proved, and what else follows.
    fn prove(&self) -> Result<[String; 2], Refusal>;
}

/// Checks a certificate, with all of its rows or without any: what it proves, and what else follows.
pub fn check(rule: &dyn Rule, input: Option<&mut dyn Read>) -> Result<[String; 2], Refusal> {
    let (stated, blocks) = rule.tree();
    if root(&blocks.iter().map(|(hash, _)| *hash).collect::<Vec<_>>()) != stated {
        return Err(Refusal::NotProved(
            "the hashes of the blocks do not have the root that is stated".into(),
        ));
    }
    if let Some(mut input) = input {
        let mut bytes = Vec::new();
        for (block, (hash, length)) in blocks.into_iter().enumerate() {
            fill(&mut input, length, &mut bytes)?;
            rows(rule, block, &bytes, Some(hash))?;
        }
        if fill(&mut input, 1, &mut bytes).is_ok() {
            return Err(Refusal::NotProved("there are more rows than the certificate states".into()));
        }
    }
    rule.prove()
}

/// Checks one block: its hash, and that it is as stated.
pub fn check_block(rule: &(impl Rule + ?Sized), block: usize, bytes: &[u8]) -> Result<(), Refusal> {
    let hash = rule.tree().1.get(block).map(|(hash, _)| *hash);
    rows(rule, block, bytes, hash)
}

fn rows(rule: &(impl Rule + ?Sized), block: usize, bytes: &[u8], hash: Option<Hash>) -> Result<(), Refusal> {
    if hash != Some(leaf(bytes)) {
        return Err(Refusal::NotProved(format!("block {block} does not have the hash that is stated")));
    }
    rule.rows(block, bytes)
}

/// Reads exactly so many bytes.
fn fill(input: &mut impl Read, length: u64, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
    bytes.clear();
    match input.take(length).read_to_end(bytes) {
        Ok(found) if found as u64 == length => Ok(()),
        Ok(_) => Err(Refusal::NotProved("there are fewer rows than the certificate states".into())),
        Err(error) => Err(Refusal::NotCheckable(format!("the rows cannot be read: {error}"))),
    }
}
