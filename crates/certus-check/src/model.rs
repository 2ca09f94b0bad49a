//! What a row means, and the prior: the lines that every certificate has.

use crate::array::{Array, least_eigenvalue};
use crate::ball::{Ball, LARGE};
use crate::moments::Likelihood;
use crate::refusal::Refusal;
use crate::sha256::{Hash, hex};
use crate::text::Lines;

/// Coefficients beyond this are not checked.
const DIMENSION: usize = 512;

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

impl Column {
    pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Self, Refusal> {
        let [name, centre, scale] = lines.words("column")?[..] else {
            return Err(lines.wrong("\"column\" takes a name, a centre and a scale"));
        };
        Ok(Self { name: name.into(), centre: lines.parse(centre)?, scale: lines.parse(scale)? })
    }
}

/// J, the precision of the prior.
#[derive(Clone, Debug, PartialEq)]
pub enum Precision {
    /// Its diagonal; the rest is 0.
    Diagonal(Vec<f64>),
    /// All of it, row by row.
    Dense(Vec<f64>),
}

impl Precision {
    /// J times a vector.
    pub(crate) fn times(&self, v: &[Ball]) -> Vec<Ball> {
        let dot = |row: &[f64]| row.iter().zip(v).fold(Ball::ZERO, |sum, (j, v)| sum + *v * *j);
        match self {
            Self::Diagonal(j) => j.iter().zip(v).map(|(j, v)| *v * *j).collect(),
            Self::Dense(j) => j.chunks(v.len()).map(dot).collect(),
        }
    }

    /// True if J is symmetric and proved to be positive semidefinite.
    fn is_legal(&self, d: usize) -> bool {
        match self {
            Self::Diagonal(j) => j.iter().all(|x| *x >= 0.0),
            Self::Dense(j) => {
                let trace: f64 = j.iter().step_by(d + 1).sum();
                let matrix = Array { mid: j.clone(), rad: 0.0 };
                (0..d * d).all(|at| j[at] == j[(at % d) * d + at / d])
                    && least_eigenvalue(&matrix, d, 1e-12 * trace).is_some_and(|least| least >= 0.0)
            }
        }
    }
}

/// The model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
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
}

impl Model {
    /// d.
    pub fn dim(&self) -> usize {
        self.prior_mean.len()
    }

    /// What the model and its rows are, in words.
    pub(crate) fn data(&self, rows: u64, root: &Hash) -> String {
        let (name, d) = (self.likelihood.name(), self.dim());
        format!("for the {name} regression of {rows} rows (SHA-256 {}) on {d} coefficients", hex(root))
    }

    /// What is maximised by the estimates.
    pub(crate) fn objective(&self) -> &'static str {
        let (Precision::Diagonal(j) | Precision::Dense(j)) = &self.prior_precision;
        if j.iter().all(|j| *j == 0.0) { "likelihood" } else { "penalised likelihood" }
    }

    /// Signs and sizes that every theorem requires.
    pub(crate) fn requirements(&self) -> Result<(), Refusal> {
        let sd = if let Likelihood::Linear(sd) = self.likelihood { sd } else { 1.0 };
        require(&[
            (self.columns.iter().all(|c| c.scale > 1e-50), "the scales of columns are above 1e-50"),
            (
                self.prior_precision.is_legal(self.dim()),
                "the precision of the prior is symmetric and positive",
            ),
            (sd > 0.0, "the sd is positive"),
        ])
    }

    /// The numbers of a row, if they are legal: columns first, then response, trials, offset and weight.
    pub(crate) fn row(&self, words: &[u8], row: &mut [f64]) -> Result<(), String> {
        for (x, word) in row.iter_mut().zip(words.as_chunks().0) {
            *x = f64::from_le_bytes(*word);
        }
        let [y, trials, _, weight] = last(row);
        if !row.iter().all(|x| x.abs() <= LARGE) || weight < 0.0 {
            return Err("has a number that it must not have".into());
        }
        self.likelihood.reject(y, trials).map_or(Ok(()), |required| Err(format!("must have {required}")))
    }

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
        let intercept = lines.flag("intercept")?;
        let columns = (usize::from(intercept)..d).map(|_| Column::read(lines));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let prior_mean = lines.numbers("prior-mean", d)?;
        let prior_precision = if lines.is_next("prior-diagonal") {
            Precision::Diagonal(lines.numbers("prior-diagonal", d)?)
        } else {
            let rows = (0..d).map(|_| lines.numbers("prior-row", d));
            Precision::Dense(rows.collect::<Result<Vec<_>, _>>()?.concat())
        };
        let model = Self { likelihood, intercept, columns, prior_mean, prior_precision };
        model.requirements()?;
        Ok(model)
    }
}

/// The last four numbers of a row.
pub(crate) fn last(row: &[f64]) -> [f64; 4] {
    let at = row.len() - 4;
    [row[at], row[at + 1], row[at + 2], row[at + 3]]
}

/// What a theorem requires, each with its name.
pub(crate) fn require(list: &[(bool, &str)]) -> Result<(), Refusal> {
    match list.iter().find(|(holds, _)| !holds) {
        None => Ok(()),
        Some((_, what)) => Err(Refusal::NotProved(format!("the theorem requires that {what}"))),
    }
}

/// C′J(m − μ₀) and C′JC.
pub(crate) fn prior(model: &Model, mean: &[f64], factor: &[f64]) -> (Array, Array) {
    let d = mean.len();
    let entry = |i: usize, j: usize| factor[i * (i + 1) / 2 + j];
    // C′J times a vector
    let times = |v: Vec<Ball>| -> Vec<Ball> {
        let v = model.prior_precision.times(&v);
        (0..d).map(|j| (j..d).fold(Ball::ZERO, |sum, i| sum + v[i] * entry(i, j))).collect()
    };
    let moved = mean.iter().zip(&model.prior_mean).map(|(m, prior)| Ball::exact(*m) - *prior);
    let slope = times(moved.collect());
    let column = |j: usize| (0..d).map(|i| if i < j { Ball::ZERO } else { entry(i, j).into() }).collect();
    let columns: Vec<Ball> = (0..d).flat_map(|j| times(column(j))).collect();
    (Array::of(&slope), Array::of(&columns).symmetric(d))
}
