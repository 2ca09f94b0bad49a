//! Certificates that anyone can check (docs/certificate-format.md): the gap of a fit, written out with its rows and
//! with
//! hints for `certus-check`. Nothing here is trusted: hints that are wrong make a certificate that is refused.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use certus::{Factor, Gaussian, linalg};
use certus_check::{
    Certificate, Column, Likelihood, Precision, Refusal, Rows, Sums, leaf, prove, root, triangle,
};
use certus_likelihood::prior;
use certus_models::Glm;
use certus_models::rows::LEAF;

use crate::atomic;
use crate::error::Error;
use crate::problem::{ModelKind, Problem};
use crate::verify::Stored;

/// Blocks at most, unless they would become too long.
const BLOCKS: u64 = 64;
/// Rows of a block at most.
const BLOCK_ROWS: u64 = 1 << 16;
/// Radii that are tried before the gap is called too large.
const ATTEMPTS: usize = 12;
/// The values of θ that are tried.
const THETAS: [f64; 3] = [0.71, 0.5, 0.35];
/// What the claim is larger than what the checker finds, so that a checker with another rounding finds it too.
const MARGIN: f64 = 1.0 + 1e-6;
/// What stated radii are larger than those that were found.
const RADII: f64 = 4.0;
/// Room in the radii of M and K, as a part of the trace of A: certus-check rounds k_m and k_C down, another checker
/// less.
const ROOM: f64 = 1e-10;

fn refused(words: impl Into<String>) -> Error {
    Error::NoProof(words.into())
}

/// The model, the Gaussian and the encoding of a certificate; claim, hints and sums are found by
/// [`Subject::certify`].
pub struct Subject<'a> {
    model: &'a Glm,
    certificate: Certificate,
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
            bound: 0.0,
            likelihood,
            intercept: design.intercept(),
            columns: (0..design.rows().columns()).map(column).collect(),
            prior_mean: model.prior().mean().to_vec(),
            prior_precision,
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
        Ok(Self { model, certificate })
    }

    /// The rows of one block, as numbers of eight bytes.
    pub fn block(&self, block: u64) -> Result<Vec<u8>, Error> {
        let rows = self.model.design().rows();
        let first = (block * self.certificate.block_rows) as usize;
        let end = (first + self.certificate.block_rows as usize).min(rows.len());
        let mut bytes = Vec::new();
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

    /// The certificate with the smallest bound that was found; `about` is a guess of it.
    pub fn certify(mut self, about: f64) -> Result<Certificate, Error> {
        let mut last = String::new();
        for theta in THETAS {
            self.certificate.theta = theta;
            // the theorem needs r ≥ ρ/√λ, and ρ²/2 is the bound
            let mut radius = (1.05 * (2.0 * about).sqrt()).clamp(1e-14, 0.1);
            for _ in 0..ATTEMPTS {
                if radius >= 0.99 * self.certificate.tau {
                    break;
                }
                self.certificate.radius = radius;
                let sought = self.attempt()?;
                match prove(&self.certificate) {
                    Ok(proof) if radius <= 1.2 * sought => {
                        self.certificate.bound = proof.bound * MARGIN;
                        return Ok(self.certificate);
                    }
                    Err(Refusal::NotCheckable(why)) => return Err(refused(why)),
                    Err(Refusal::NotProved(why)) => last = why,
                    Ok(_) => {}
                }
                if !sought.is_finite() {
                    break;
                }
                radius = (1.02 * sought).max(1e-14);
            }
        }
        Err(refused(format!("the gap is too large for Theorem D ({last}); fit with a smaller --gap")))
    }

    /// Sums and hints at the present radius, and the radius that the theorem needs there.
    fn attempt(&mut self) -> Result<f64, Error> {
        let mut blocks = Vec::new();
        for block in 0..self.blocks() {
            let bytes = self.block(block)?;
            let sums = Rows::new(&self.certificate).sums(&bytes, block * self.certificate.block_rows);
            let mut sums = sums.map_err(|refusal| refused(refusal.to_string()))?;
            widen(&mut sums);
            blocks.push((leaf(&bytes), sums));
        }
        self.certificate.root = root(&blocks.iter().map(|(hash, _)| *hash).collect::<Vec<_>>());
        self.certificate.blocks = blocks;
        hints(&mut self.certificate).ok_or_else(|| refused("the eigenvalues of its curvature were not found"))
    }
}

/// Leaves room in the radii for a checker that rounds otherwise.
pub fn widen(sums: &mut Sums) {
    let trace: f64 = triangle(&sums.parts[1]).filter_map(|row| row.last()).sum();
    sums.radii = sums.radii.map(|rad| RADII * rad);
    sums.radii[2..].iter_mut().for_each(|rad| *rad += ROOM * trace);
}

/// λ_m, λ_H, H_m⁻¹g and 𝓛⁻¹S in plain numbers, and the radius that the theorem needs with them.
fn hints(certificate: &mut Certificate) -> Option<f64> {
    let d = certificate.dim();
    let total = |part: usize, length: usize| {
        let add = |mut sum: Vec<f64>, (_, sums): &(_, Sums)| {
            sum.iter_mut().zip(&sums.parts[part]).for_each(|(sum, x)| *sum += x);
            sum
        };
        certificate.blocks.iter().fold(vec![0.0; length], add)
    };
    let full = |lower: Vec<f64>| {
        let mut out = vec![0.0; d * d];
        for (i, row) in triangle(&lower).enumerate() {
            row.iter().enumerate().for_each(|(j, x)| (out[i * d + j], out[j * d + i]) = (*x, *x));
        }
        out
    };
    let (slope, prior) = prior_terms(certificate);
    let plus = |a: Vec<f64>| a.iter().zip(&prior).map(|(a, b)| a + b).collect::<Vec<f64>>();
    let g: Vec<f64> = total(0, d).iter().zip(&slope).map(|(a, b)| a + b).collect();
    let [s, h_m, h_c] = [1, 2, 3].map(|part| plus(full(total(part, d * (d + 1) / 2))));
    let mut s = s;
    s.iter_mut().step_by(d + 1).for_each(|x| *x -= 1.0);
    let c = (1.0 + certificate.radius / certificate.tau).powi(-2);
    let (of_m, u) = linalg::eigen(&h_m, d)?;
    // columns of u are eigenvectors
    let in_basis = |u: &[f64], v: &[f64]| -> Vec<f64> { u.chunks(d).map(|u| linalg::dot(u, v)).collect() };
    let turned: Vec<f64> = in_basis(&u, &g).iter().zip(&of_m).map(|(g, h)| g / h).collect();
    let x: Vec<f64> = (0..d).map(|i| (0..d).map(|k| u[k * d + i] * turned[k]).sum()).collect();
    let (of_c, u) = linalg::eigen(&h_c, d)?;
    let half: Vec<f64> = s.chunks(d).flat_map(|row| in_basis(&u, row)).collect();
    let mut middle = vec![0.0; d * d];
    for (i, a) in u.chunks(d).enumerate() {
        for j in 0..d {
            let both: f64 = (0..d).map(|k| a[k] * half[k * d + j]).sum();
            middle[i * d + j] = both / (0.5 * (of_c[i].max(0.0) + of_c[j].max(0.0)) + c);
        }
    }
    let mut left = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..d {
            left[i * d + j] = (0..d).map(|k| u[k * d + i] * middle[k * d + j]).sum();
        }
    }
    let entry = |i: usize, j: usize| (0..d).map(|k| left[i * d + k] * u[k * d + j]).sum::<f64>();
    let solution: Vec<f64> =
        (0..d).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| entry(i, j)).collect();
    // a little less than the eigenvalues, so that the factorisation succeeds
    certificate.lambda_mean = of_m[0] * (1.0 - 1e-6);
    certificate.lambda_factor = if of_c[0] > 1e-6 { of_c[0] * (1.0 - 1e-6) } else { 0.0 };
    if of_m[0].is_nan() || of_m[0] <= 0.0 {
        return Some(f64::INFINITY);
    }
    let whole = full(solution.clone());
    let rho_squared = linalg::dot(&g, &x) + linalg::dot(&s, &whole);
    let radii = |part: usize| certificate.blocks.iter().map(|(_, sums)| sums.radii[part]).sum::<f64>();
    // what is known of the gradient only within its radius counts in full
    let rho = rho_squared.max(0.0).sqrt()
        + radii(0) / of_m[0].sqrt()
        + radii(1) / (certificate.lambda_factor + c).sqrt();
    let least = of_m[0].min((certificate.lambda_factor + c) / certificate.tau.powi(2));
    (certificate.solution_mean, certificate.solution_factor) = (x, solution);
    Some(rho / least.sqrt())
}

/// C′J(m − μ₀) and C′JC in plain numbers.
fn prior_terms(certificate: &Certificate) -> (Vec<f64>, Vec<f64>) {
    let d = certificate.dim();
    let mut factor = vec![0.0; d * d];
    for (i, row) in triangle(&certificate.factor).enumerate() {
        factor[i * d..][..=i].copy_from_slice(row);
    }
    let times = |v: &[f64]| -> Vec<f64> {
        match &certificate.prior_precision {
            Precision::Diagonal(j) => j.iter().zip(v).map(|(j, v)| j * v).collect(),
            Precision::Dense(j) => j.chunks(d).map(|row| linalg::dot(row, v)).collect(),
        }
    };
    let back =
        |v: &[f64]| -> Vec<f64> { (0..d).map(|i| (i..d).map(|k| factor[k * d + i] * v[k]).sum()).collect() };
    let moved: Vec<f64> = certificate.mean.iter().zip(&certificate.prior_mean).map(|(m, p)| m - p).collect();
    let column = |j: usize| (0..d).map(|i| factor[i * d + j]).collect::<Vec<f64>>();
    (back(&times(&moved)), (0..d).flat_map(|j| back(&times(&column(j)))).collect())
}

/// A name without blanks: they, control characters and % become % and two hexadecimal digits per byte.
fn encoded(name: &str) -> String {
    let plain = |c: char| !(c.is_whitespace() || c.is_control() || c == '%');
    let bytes = |c: char| c.to_string().bytes().map(|b| format!("%{b:02x}")).collect::<String>();
    let words: String = name.chars().map(|c| if plain(c) { c.to_string() } else { bytes(c) }).collect();
    if words.is_empty() { "%".into() } else { words }
}

/// What was exported.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The claim, in nats.
    pub bound: f64,
    /// What the fit states.
    pub stated: Option<f64>,
    /// The file of the rows.
    pub rows: PathBuf,
    /// Blocks of rows.
    pub blocks: u64,
}

/// Writes the certificate of a fit to `to`, and its rows to a file beside it whose name ends in `.rows`.
pub fn export(problem: &Problem, stored: &Stored, to: &Path) -> Result<Exported, Error> {
    let model = match &problem.model_kind {
        ModelKind::Dense(model) => model,
        ModelKind::Grouped(_) => {
            return Err(refused("certificates of version 1 cover models without group terms"));
        }
        ModelKind::Collapsed(_) => {
            return Err(refused("certificates of version 1 cover models whose scales are all given"));
        }
    };
    let names = problem.prepared.encoding.coefficients();
    let subject = Subject::new(model, &stored.arrays.gaussian, &names, None)?;
    let blocks = subject.blocks();
    let rows = to.with_extension("rows");
    if rows == to {
        return Err(refused("the rows are written to a file that ends in .rows: choose another name"));
    }
    let stated = stored.record.certificate.gap.bound;
    let certificate =
        Subject::new(model, &stored.arrays.gaussian, &names, None)?.certify(stated.unwrap_or(1e-3))?;
    // rows first: a certificate is never without them
    let half = atomic::temporary(&rows);
    let write = || -> Result<(), Error> {
        let failed = |source| Error::write(&rows, source);
        let mut file = BufWriter::new(File::create_new(&half).map_err(failed)?);
        for block in 0..blocks {
            file.write_all(&subject.block(block)?).map_err(failed)?;
        }
        file.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
        std::fs::rename(&half, &rows).map_err(failed)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&half)))?;
    atomic::write_atomically(to, certificate.write().as_bytes())?;
    Ok(Exported { bound: certificate.bound, stated, rows, blocks })
}
