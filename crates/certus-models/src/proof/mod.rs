//! Certificates that anyone can check (docs/certificate-format.md): the gap of a Gaussian, written out with hints for
//! `certus-check`, and the same proof without a file. Nothing here is trusted: hints that are wrong make a certificate
//! that is refused.

mod draws;
mod hints;
mod mixed;
mod rigorous;
mod sd;
mod sd_nodes;

pub use certus_check::{DrawsCertificate, MixedCertificate};
pub use mixed::{judged, variance_maximum};
pub use rigorous::{ROUNDING, Rigorous, counts_rounding};
pub use sd::{SdRow, SdSubject};

use certus::{Factor, Gaussian, linalg, parallel};
use certus_check::{
    Certificate, Claim, Column, Likelihood, Model, Precision, Proof, Refusal, Rows, Sums, check, check_block,
    leaf, root, triangle,
};
use certus_likelihood::prior;

use crate::error::{Declined, Error};
use crate::glm::Glm;
use crate::rows::LEAF;

/// Coefficients beyond this are no certificate of version 1.
pub const MOST_COEFFICIENTS: usize = 512;
/// Blocks at most, unless they would become too long.
const BLOCKS: u64 = 64;
/// Rows of a block at most.
const BLOCK_ROWS: u64 = 1 << 16;
/// Radii that are tried before the gap is called too large.
const ATTEMPTS: usize = 12;
/// The values of θ that are tried.
const THETAS: [f64; 3] = [0.71, 0.5, 0.35];
/// Radii in which the curvature hardly changes, so that a smaller one would not give a smaller bound.
const SMALL: f64 = 1e-4;
/// What the claim is larger than what the checker finds, so that a checker with another rounding finds it too.
const MARGIN: f64 = 1.0 + 1e-6;
/// What stated radii are larger than those that were found.
const RADII: f64 = 4.0;
/// Room in the radii of M and K, as a part of the trace of A: certus-check rounds k_m and k_C down, another checker
/// less.
const ROOM: f64 = 1e-10;

fn refused(words: impl Into<String>) -> Error {
    Declined::Proof(words.into()).into()
}

/// Where the search for a proof begins: both are only guesses.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// The gap, in nats.
    pub gap: f64,
    /// The least curvature in the frame of the Gaussian, of the mean and of the factor over ω.
    pub curvature: f64,
}

/// The model, the Gaussian and the encoding of a certificate; claim, hints and sums are found by
/// [`Subject::certify`].
pub struct Subject<'a> {
    model: &'a Glm,
    certificate: Certificate,
    /// False if nobody will read the certificate, so that its blocks need no hashes.
    hashed: bool,
}

/// True if the gap of dense Gaussians can be certified so.
pub fn covers(model: &Glm) -> bool {
    let known = ["linear", "logistic", "binomial", "poisson"];
    known.contains(&model.likelihood().name()) && model.design().rows().ranks().is_none()
}

impl<'a> Subject<'a> {
    /// What is to be certified, with the names of the columns and the rows per block.
    pub fn new(
        model: &'a Glm,
        w: &Gaussian,
        names: &[String],
        block_rows: Option<u64>,
    ) -> Result<Self, Error> {
        let d = model.dim();
        let likelihood = match (model.likelihood().name(), model.likelihood().parameter()) {
            ("linear", Some((_, sd))) => Likelihood::Linear(sd),
            ("logistic", _) => Likelihood::Logistic,
            ("binomial", _) => Likelihood::Binomial,
            ("poisson", _) => Likelihood::Poisson,
            (name, _) => {
                return Err(refused(format!(
                    "certificates of version 1 cover linear, logistic, binomial and poisson models, not {name}"
                )));
            }
        };
        if model.design().rows().ranks().is_some() {
            return Err(refused("its rows are spread over several processes"));
        }
        // columns, one after the other
        let dense = match w.factor() {
            Factor::Lower(_) => w.factor().to_dense(),
            Factor::Symmetric(_) => linalg::lower_of_same_covariance(&w.factor().to_dense(), d),
            Factor::Pattern(_) => {
                return Err(refused(
                    "its Gaussian has independent coefficients; the claim is about all Gaussians",
                ));
            }
        };
        let design = model.design();
        let column = |j: usize| {
            let (centre, scale) = design.center_and_scale(j);
            let name = names.get(j + usize::from(design.intercept()));
            Column { name: encoded(name.map_or("", |name| name)), centre, scale }
        };
        let prior_precision = match model.prior().precision() {
            prior::Precision::Diagonal(j) => Precision::Diagonal(j.clone()),
            // symmetric to the bit, so that rows are columns
            prior::Precision::Dense(j) => Precision::Dense(j.clone()),
        };
        let rows = design.rows().len() as u64;
        let usual = || {
            (LEAF as u64 * rows.div_ceil(LEAF as u64 * BLOCKS).next_power_of_two())
                .clamp(LEAF as u64, BLOCK_ROWS)
        };
        let certificate = Certificate {
            // the best Gaussian of a linear model is its posterior
            claim: match likelihood {
                Likelihood::Linear(_) => Claim::LinearPosterior,
                _ => Claim::Gap,
            },
            bound: 0.0,
            model: Model {
                likelihood,
                intercept: design.intercept(),
                columns: (0..design.rows().columns()).map(column).collect(),
                prior_mean: model.prior().mean().to_vec(),
                prior_precision,
            },
            rows,
            block_rows: block_rows.unwrap_or_else(usual),
            root: [0; 32],
            mean: w.mean().to_vec(),
            factor: (0..d)
                .flat_map(|i| (0..=i).map(move |j| (i, j)))
                .map(|(i, j)| dense[j * d + i])
                .collect(),
            radius: 0.0,
            tau: std::f64::consts::SQRT_2,
            theta: THETAS[0],
            lambda_mean: 0.0,
            lambda_factor: 0.0,
            solution_mean: vec![0.0; d],
            solution_factor: vec![0.0; d * (d + 1) / 2],
            blocks: Vec::new(),
        };
        Ok(Self { model, certificate, hashed: true })
    }

    /// The rows of one block, as numbers of eight bytes.
    pub fn block(&self, block: u64) -> Result<Vec<u8>, Error> {
        let rows = self.model.design().rows();
        let first = (block * self.certificate.block_rows) as usize;
        let end = (first + self.certificate.block_rows as usize).min(rows.len());
        let mut bytes = Vec::with_capacity((end - first) * 8 * self.certificate.numbers());
        for index in first / LEAF..end.div_ceil(LEAF) {
            rows.leaf(index, &mut |leaf| {
                for i in first.saturating_sub(leaf.first)..leaf.y.len().min(end - leaf.first) {
                    let x = (0..leaf.x.columns()).map(|j| leaf.x.get(i, j));
                    let rest = [leaf.datum(i).y, leaf.datum(i).trials, leaf.offset_of(i), leaf.weight_of(i)];
                    x.chain(rest).for_each(|x| bytes.extend(x.to_le_bytes()));
                }
            })?;
        }
        Ok(bytes)
    }

    /// Blocks of rows.
    pub fn blocks(&self) -> u64 {
        self.certificate.rows.div_ceil(self.certificate.block_rows)
    }

    /// The bound that certus-check proves of the certificate, made as by [`certify`](Self::certify) and read from its
    /// text, with all rows.
    pub fn checked(self, guess: Guess) -> Result<f64, Error> {
        let again = Subject { certificate: self.certificate.clone(), ..self };
        let text = self.certify(guess)?.write();
        let words = |refusal: Refusal| refused(refusal.to_string());
        let certificate = Certificate::read(&text).map_err(words)?;
        check(&certificate, None).map_err(words)?;
        let one = |block: u64| -> Result<(), Error> {
            let bytes = again.block(block)?;
            check_block(&certificate, block as usize, &bytes).map_err(words)
        };
        let both = |a: Result<(), Error>, b: Result<(), Error>| a.and(b);
        parallel::reduce(again.blocks() as usize, 1, &|k| one(k as u64), &both).transpose()?;
        Ok(certificate.bound)
    }

    /// The certificate with the smallest bound that was found.
    pub fn certify(self, guess: Guess) -> Result<Certificate, Error> {
        Ok(self.search(guess)?.0)
    }

    /// The certificate, and what follows from it before its claim is made a little larger.
    fn search(mut self, guess: Guess) -> Result<(Certificate, Proof), Error> {
        let legal = self.certificate_with_legal_hints().requirements();
        legal.map_err(|refusal| refused(refusal.to_string()))?;
        let mut last = String::new();
        for theta in THETAS {
            self.certificate.theta = theta;
            // the theorem needs r ≥ ρ/√λ, and ρ²/2 is the bound
            let needed = 1.05 * (2.0 * guess.gap / guess.curvature).sqrt();
            let mut radius = needed.clamp(0.1 * SMALL, 0.1);
            for _ in 0..ATTEMPTS {
                if radius >= 0.99 * self.certificate.tau {
                    break;
                }
                self.certificate.radius = radius;
                let sought = self.attempt()?;
                match self.certificate.theorem() {
                    Ok(proof) if radius <= SMALL.max(1.2 * sought) => {
                        self.certificate.bound = proof.bound * MARGIN;
                        return Ok((self.certificate, proof));
                    }
                    Err(Refusal::NotCheckable(why)) => return Err(refused(why)),
                    Err(Refusal::NotProved(why)) => last = why,
                    Ok(_) => {}
                }
                if !sought.is_finite() {
                    break;
                }
                radius = (1.02 * sought).max(0.1 * SMALL);
            }
        }
        Err(refused(format!("the gap is too large for Theorem D ({last}); fit with a smaller --gap")))
    }

    /// The same, so that what it requires of model and Gaussian can be looked at before the hints are known.
    fn certificate_with_legal_hints(&self) -> Certificate {
        Certificate { bound: 1.0, radius: 0.1, lambda_mean: 1.0, ..self.certificate.clone() }
    }

    /// Sums and hints at the present radius, and the radius that the theorem needs there.
    fn attempt(&mut self) -> Result<f64, Error> {
        let rows = Rows::new(&self.certificate);
        let one = |block: u64| -> Result<_, Error> {
            let bytes = self.block(block)?;
            let sums = rows.sums(&bytes, block * self.certificate.block_rows);
            let mut sums = sums.map_err(|refusal| refused(refusal.to_string()))?;
            widen(&mut sums);
            Ok((if self.hashed { leaf(&bytes) } else { [0; 32] }, sums))
        };
        let mut blocks: Vec<Option<Result<_, Error>>> = (0..self.blocks()).map(|_| None).collect();
        parallel::for_each_piece(&mut blocks, 1, 1, &|k, out| out[0] = Some(one(k as u64)));
        let blocks = blocks.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
        self.certificate.root = root(&blocks.iter().map(|(hash, _)| *hash).collect::<Vec<_>>());
        self.certificate.blocks = blocks;
        hints::find(&mut self.certificate)
            .ok_or_else(|| refused("the eigenvalues of its curvature were not found"))
    }
}

/// Leaves room in the radii for a checker that rounds otherwise.
pub fn widen(sums: &mut Sums) {
    let trace: f64 = triangle(&sums[1].parts).filter_map(|row| row.last()).sum();
    sums.iter_mut().for_each(|sum| sum.rad *= RADII);
    sums[2..].iter_mut().for_each(|sum| sum.rad += ROOM * trace);
}

/// A name without blanks: they, control characters and % become % and two hexadecimal digits per byte.
fn encoded(name: &str) -> String {
    let plain = |c: char| !(c.is_whitespace() || c.is_control() || c == '%');
    let bytes = |c: char| c.to_string().bytes().map(|b| format!("%{b:02x}")).collect::<String>();
    let words: String = name.chars().map(|c| if plain(c) { c.to_string() } else { bytes(c) }).collect();
    if words.is_empty() { "%".into() } else { words }
}
