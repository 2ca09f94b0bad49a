//! A certificate as it is written: one `key values…` per line in a fixed order (docs/certificate-format.md).

use crate::ball::LARGE;
use crate::moments::Likelihood;
use crate::sha256::Hash;

/// Why something is not proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is outside of what this checker knows.
    NotCheckable(String),
    /// It is inside, and something does not hold.
    NotProved(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotCheckable(why) => write!(f, "not checkable: {why}"),
            Self::NotProved(why) => write!(f, "not proved: {why}"),
        }
    }
}

/// How a column becomes a number of the design: (x − centre)/scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, for readers.
    pub name: String,
    /// What is subtracted.
    pub centre: f64,
    /// What it is divided by afterwards.
    pub scale: f64,
}

/// J, the precision of the prior.
#[derive(Clone, Debug, PartialEq)]
pub enum Precision {
    /// Its diagonal; the rest is 0.
    Diagonal(Vec<f64>),
    /// All of it, row by row.
    Dense(Vec<f64>),
}

/// Σ e ã, Σ p₀ ãã′, Σ k_m ãã′ and Σ k_C ãã′ over a block of rows, each within a radius in the Euclidean norm. Matrices
/// are symmetric: their lower triangles, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// The vector, then the matrices.
    pub parts: [Vec<f64>; 4],
    /// How far each of them may be from the truth.
    pub radii: [f64; 4],
}

/// What is claimed of the stated Gaussian q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// No Gaussian has an ELBO that is more than the bound above that of q.
    Gap,
    /// KL(q ‖ posterior) of a linear model is at most the bound.
    LinearPosterior,
}

impl Claim {
    const ALL: [Self; 2] = [Self::Gap, Self::LinearPosterior];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gap => "gap-of-all-gaussians",
            Self::LinearPosterior => "kl-from-linear-posterior",
        }
    }
}

/// What is certified, and the hints.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// What is claimed.
    pub claim: Claim,
    /// The bound of the claim, in nats.
    pub bound: f64,
    /// The likelihood.
    pub likelihood: Likelihood,
    /// True if the first coefficient is that of a column of ones.
    pub intercept: bool,
    /// The columns.
    pub columns: Vec<Column>,
    /// μ₀.
    pub prior_mean: Vec<f64>,
    /// J.
    pub prior_precision: Precision,
    /// Number of rows.
    pub rows: u64,
    /// Rows per block; the last block may have fewer.
    pub block_rows: u64,
    /// The root of the hash tree.
    pub root: Hash,
    /// m.
    pub mean: Vec<f64>,
    /// C, its lower triangle row by row; q = N(m, CC′).
    pub factor: Vec<f64>,
    /// r.
    pub radius: f64,
    /// τ = √ω.
    pub tau: f64,
    /// θ.
    pub theta: f64,
    /// λ_m, about the least eigenvalue of H_m.
    pub lambda_mean: f64,
    /// λ_H, about the least eigenvalue of H_C.
    pub lambda_factor: f64,
    /// About H_m⁻¹ g.
    pub solution_mean: Vec<f64>,
    /// About 𝓛⁻¹ S, its lower triangle row by row.
    pub solution_factor: Vec<f64>,
    /// Hash and sums of every block.
    pub blocks: Vec<(Hash, Sums)>,
}

/// Coefficients beyond this are not checked.
pub(crate) const DIMENSION: usize = 400;
/// Rows per block beyond this are not checked.
pub(crate) const BLOCK_ROWS: u64 = 1 << 20;
pub(crate) const HEADER: &str = "certus-proof";
pub(crate) const SUMS: [&str; 4] = ["gradient", "curvature", "lower-mean", "lower-factor"];

impl Certificate {
    /// d.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Numbers per row of the file of rows: columns, response, trials, offset, weight.
    pub fn numbers(&self) -> usize {
        self.columns.len() + 4
    }

    /// Rows of a block.
    pub fn rows_of(&self, block: usize) -> u64 {
        self.block_rows.min(self.rows - self.block_rows * block as u64)
    }

    /// Reads a certificate.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let (mut lines, word) = Lines::begin(text)?;
        let claim = Claim::ALL.into_iter().find(|claim| claim.name() == word);
        let claim = claim.ok_or_else(|| Refusal::NotCheckable(format!("the claim \"{word}\"")))?;
        let bound = lines.number("bound")?;
        let Model { likelihood, intercept, columns, prior_mean, prior_precision } = Model::read(&mut lines)?;
        let d = prior_mean.len();
        let rows = lines.count("rows")?;
        let block_rows = lines.count("block-rows")?;
        if block_rows == 0 || block_rows > BLOCK_ROWS {
            return Err(Refusal::NotCheckable(format!(
                "{block_rows} rows per block (1 to {BLOCK_ROWS} are)"
            )));
        }
        let root = lines.hash("root")?;
        let mean = lines.numbers("mean", d)?;
        let factor = lines.triangle("factor-row", d)?;
        match lines.word("theorem")? {
            "D" => {}
            other => return Err(Refusal::NotCheckable(format!("the theorem \"{other}\""))),
        }
        let [radius, tau, theta] = [lines.number("radius")?, lines.number("tau")?, lines.number("theta")?];
        let (lambda_mean, lambda_factor) = (lines.number("lambda-mean")?, lines.number("lambda-factor")?);
        let solution_mean = lines.numbers("solution-mean", d)?;
        let solution_factor = lines.triangle("solution-row", d)?;
        let mut blocks = Vec::new();
        for _ in 0..rows.div_ceil(block_rows) {
            let hash = lines.hash("block")?;
            let mut sums = Sums { parts: [const { Vec::new() }; 4], radii: [0.0; 4] };
            for (k, key) in SUMS.iter().enumerate() {
                let count = if k == 0 { d } else { d * (d + 1) / 2 };
                let mut all = lines.numbers(key, 1 + count)?;
                sums.parts[k] = all.split_off(1);
                sums.radii[k] = all[0];
            }
            blocks.push((hash, sums));
        }
        lines.end()?;
        Ok(Self {
            claim,
            bound,
            likelihood,
            intercept,
            columns,
            prior_mean,
            prior_precision,
            rows,
            block_rows,
            root,
            mean,
            factor,
            radius,
            tau,
            theta,
            lambda_mean,
            lambda_factor,
            solution_mean,
            solution_factor,
            blocks,
        })
    }
}

/// What a row means, and the prior: the same lines in every certificate.
pub(crate) struct Model {
    pub(crate) likelihood: Likelihood,
    pub(crate) intercept: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) prior_mean: Vec<f64>,
    pub(crate) prior_precision: Precision,
}

impl Model {
    pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Self, Refusal> {
        let likelihood = match lines.word("likelihood")? {
            "linear" => Likelihood::Linear(lines.number("sd")?),
            "logistic" => Likelihood::Logistic,
            "binomial" => Likelihood::Binomial,
            "poisson" => Likelihood::Poisson,
            other => return Err(Refusal::NotCheckable(format!("the likelihood \"{other}\""))),
        };
        let d = lines.count("dimension")? as usize;
        if d == 0 || d > DIMENSION {
            return Err(Refusal::NotCheckable(format!("{d} coefficients (1 to {DIMENSION} are)")));
        }
        let intercept = match lines.word("intercept")? {
            "yes" => true,
            "no" => false,
            _ => return Err(lines.wrong("\"intercept\" is yes or no")),
        };
        let mut columns = Vec::new();
        for _ in usize::from(intercept)..d {
            match lines.words("column")?[..] {
                [name, centre, scale] => columns.push(Column {
                    name: name.into(),
                    centre: lines.parse(centre)?,
                    scale: lines.parse(scale)?,
                }),
                _ => return Err(lines.wrong("\"column\" takes a name, a centre and a scale")),
            }
        }
        let prior_mean = lines.numbers("prior-mean", d)?;
        let prior_precision = if lines.is_next("prior-diagonal") {
            Precision::Diagonal(lines.numbers("prior-diagonal", d)?)
        } else {
            let mut all = Vec::new();
            for _ in 0..d {
                all.extend(lines.numbers("prior-row", d)?);
            }
            Precision::Dense(all)
        };
        Ok(Self { likelihood, intercept, columns, prior_mean, prior_precision })
    }
}

/// The rows of a lower triangle.
pub fn triangle(all: &[f64]) -> impl Iterator<Item = &[f64]> {
    (0..).map_while(|i: usize| all.get(i * (i + 1) / 2..(i + 1) * (i + 2) / 2))
}

/// The lines of a certificate, one after the other.
#[derive(Clone)]
pub(crate) struct Lines<'a> {
    rest: std::str::Lines<'a>,
    number: usize,
}

impl<'a> Lines<'a> {
    /// The lines after that of the version, and the claim.
    pub(crate) fn begin(text: &'a str) -> Result<(Self, &'a str), Refusal> {
        let mut lines = Self { rest: text.lines(), number: 0 };
        match lines.words(HEADER)?[..] {
            ["1"] => {}
            [version, ..] => return Err(Refusal::NotCheckable(format!("version {version} of the format"))),
            [] => return Err(lines.wrong("the version is missing")),
        }
        let claim = lines.word("claim")?;
        Ok((lines, claim))
    }

    pub(crate) fn end(mut self) -> Result<(), Refusal> {
        if !self.words("end")?.is_empty() || self.rest.any(|line| !line.trim().is_empty()) {
            return Err(self.wrong("nothing may follow \"end\""));
        }
        Ok(())
    }

    pub(crate) fn wrong(&self, what: &str) -> Refusal {
        Refusal::NotProved(format!("line {} of the certificate: {what}", self.number))
    }

    fn is_next(&self, key: &str) -> bool {
        self.rest.clone().next().is_some_and(|line| line.split_whitespace().next() == Some(key))
    }

    /// The values on the next line, which must have this key.
    pub(crate) fn words(&mut self, key: &str) -> Result<Vec<&'a str>, Refusal> {
        self.number += 1;
        let line = self.rest.next().ok_or_else(|| self.wrong(&format!("\"{key}\" is missing")))?;
        let mut words = line.split_whitespace();
        if words.next() != Some(key) {
            return Err(self.wrong(&format!("\"{key}\" is expected here")));
        }
        Ok(words.collect())
    }

    pub(crate) fn word(&mut self, key: &str) -> Result<&'a str, Refusal> {
        match self.words(key)?[..] {
            [word] => Ok(word),
            _ => Err(self.wrong(&format!("\"{key}\" takes one value"))),
        }
    }

    pub(crate) fn count(&mut self, key: &str) -> Result<u64, Refusal> {
        let word = self.word(key)?;
        self.as_count(word)
    }

    pub(crate) fn as_count(&self, word: &str) -> Result<u64, Refusal> {
        let count = word.parse().ok().filter(|n| *n < 1 << 48 && !word.starts_with('+'));
        count.ok_or_else(|| self.wrong("a whole number is expected"))
    }

    /// The binary64 number nearest to a decimal one.
    pub(crate) fn parse(&self, word: &str) -> Result<f64, Refusal> {
        let number = word.parse().ok().filter(|x: &f64| x.abs() <= LARGE);
        number.ok_or_else(|| self.wrong(&format!("\"{word}\" is not a number between -1e50 and 1e50")))
    }

    pub(crate) fn numbers(&mut self, key: &str, count: usize) -> Result<Vec<f64>, Refusal> {
        let words = self.words(key)?;
        if words.len() != count {
            return Err(self.wrong(&format!("\"{key}\" has {} values instead of {count}", words.len())));
        }
        words.iter().map(|word| self.parse(word)).collect()
    }

    pub(crate) fn number(&mut self, key: &str) -> Result<f64, Refusal> {
        Ok(self.numbers(key, 1)?[0])
    }

    pub(crate) fn triangle(&mut self, key: &str, d: usize) -> Result<Vec<f64>, Refusal> {
        let mut all = Vec::new();
        for i in 0..d {
            all.extend(self.numbers(key, i + 1)?);
        }
        Ok(all)
    }

    pub(crate) fn hash(&mut self, key: &str) -> Result<Hash, Refusal> {
        let word = self.word(key)?;
        self.as_hash(word)
    }

    pub(crate) fn as_hash(&self, word: &str) -> Result<Hash, Refusal> {
        let mut hash = [0; 32];
        let bad = || self.wrong("a hash of 64 hexadecimal digits is expected");
        if word.len() != 64 || !word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        for (k, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&word[2 * k..2 * k + 2], 16).map_err(|_| bad())?;
        }
        Ok(hash)
    }
}
