//! A checker of certificates that depends on the standard library alone and shares no code with the solver.
//!
//! docs/certificate-format.md defines the format, states the theorem and proves every inequality that is used here.
#![forbid(unsafe_code)]

mod ball;
mod block;
mod certificate;
mod group;
mod moments;
mod posterior;
mod sd;
mod sd_text;
mod sha256;
mod theorem;
mod write;

use std::io::Read;

pub use ball::{Ball, exp};
pub use block::Rows;
pub use certificate::{Certificate, Claim, Column, Precision, Refusal, Sums, triangle};
pub use group::{GroupRow, Integral, Nodes, integrate, log, log_one_plus};
pub use moments::{Likelihood, Moments, Quadrature};
pub use posterior::{errors, sentence};
pub use sd::{
    Block, Group, Point, SdCertificate, SdSums, Stated, check_sd, check_sd_block, prove_sd, sd_block,
    sd_requirements,
};
pub use sd_text::is_about_sd;
pub use sha256::{Hash, hex, leaf, root, sha256};
pub use theorem::{Proof, prove, requirements};

/// Checks all of a certificate that needs no rows: the hash tree, and that the claim follows from the sums of the
/// blocks.
pub fn check_without_rows(certificate: &Certificate) -> Result<Proof, Refusal> {
    requirements(certificate)?;
    posterior::requirements(certificate)?;
    let leaves: Vec<Hash> = certificate.blocks.iter().map(|(hash, _)| *hash).collect();
    if root(&leaves) != certificate.root {
        return Err(Refusal::NotProved(
            "the hashes of the blocks do not have the root that is stated".into(),
        ));
    }
    let proof = prove(certificate)?;
    // NaN is not below anything
    if proof.bound <= certificate.bound {
        return Ok(proof);
    }
    Err(Refusal::NotProved(format!(
        "the claim is a gap of at most {:e} nats, but only {:e} is proved",
        certificate.bound, proof.bound
    )))
}

/// How far what is stated can be from a vector or the triangle of a d × d matrix that is known within a radius, in the
/// Euclidean norm.
pub(crate) fn apart(own: &[f64], rad: f64, stated: &[f64], d: usize) -> f64 {
    let differences: Vec<Ball> = own.iter().zip(stated).map(|(a, b)| Ball::exact(*a) - *b).collect();
    // entries of a triangle off its diagonal count twice
    let is_matrix = own.len() > d;
    let mut square =
        differences.iter().fold(Ball::ZERO, |sum, x| sum + *x * *x * if is_matrix { 2.0 } else { 1.0 });
    if is_matrix {
        square = (0..d).map(|i| differences[i * (i + 3) / 2]).fold(square, |sum, x| sum - x * x);
    }
    (square.sqrt() + rad).upper()
}

/// Checks the rows of one block: their hash, and that their sums are within the stated radii of the stated ones.
pub fn check_block(
    rows: &Rows<'_>,
    certificate: &Certificate,
    block: usize,
    bytes: &[u8],
) -> Result<(), Refusal> {
    let (hash, stated) = &certificate.blocks[block];
    if leaf(bytes) != *hash {
        return Err(Refusal::NotProved(format!("block {block} does not have the hash that is stated")));
    }
    let own = rows.sums(bytes, certificate.block_rows * block as u64)?;
    for (k, what) in ["gradient", "curvature", "lower-mean", "lower-factor"].iter().enumerate() {
        let apart = apart(&own.parts[k], own.radii[k], &stated.parts[k], certificate.dim());
        if apart.is_nan() || apart > stated.radii[k] {
            return Err(Refusal::NotProved(format!(
                "\"{what}\" of block {block} is not proved to be within {:e} of what is stated (but within {apart:e})",
                stated.radii[k]
            )));
        }
    }
    Ok(())
}

/// Checks a certificate with all of its rows.
pub fn check(certificate: &Certificate, input: &mut impl Read) -> Result<Proof, Refusal> {
    let proof = check_without_rows(certificate)?;
    let rows = Rows::new(certificate);
    let mut bytes = Vec::new();
    for block in 0..certificate.blocks.len() {
        let length = certificate.rows_of(block) * 8 * certificate.numbers() as u64;
        read(input, length, &mut bytes)?;
        check_block(&rows, certificate, block, &bytes)?;
    }
    if read(input, 1, &mut bytes).is_ok() {
        return Err(Refusal::NotProved("there are more rows than the certificate states".into()));
    }
    Ok(proof)
}

/// Reads exactly so many bytes.
pub(crate) fn read(input: &mut impl Read, length: u64, bytes: &mut Vec<u8>) -> Result<(), Refusal> {
    bytes.clear();
    match input.take(length).read_to_end(bytes) {
        Ok(found) if found as u64 == length => Ok(()),
        Ok(_) => Err(Refusal::NotProved("there are fewer rows than the certificate states".into())),
        Err(error) => Err(Refusal::NotCheckable(format!("the rows cannot be read: {error}"))),
    }
}
