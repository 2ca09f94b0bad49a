//! The rule for the gap: the certificate, and the inequalities of the theorem from the sums of all blocks
//! (docs/certificate-format.md, sections 2 and 5).

pub(crate) mod block;
pub(crate) mod posterior;

use self::block::Rows;
use crate::array::{Array, full, least_eigenvalue, total};
use crate::ball::{Ball, U, up};
use crate::model::{Model, prior, require};
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::sha256::Hash;
use crate::stated::Stated;
use crate::text::{Lines, triangle};

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
    /// The model.
    pub model: Model,
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

/// Σ e ã, Σ p₀ ãã′, Σ k_m ãã′ and Σ k_C ãã′ over a block of rows.
pub type Sums = [Stated; 4];

/// Rows per block beyond this are not checked.
pub(crate) const BLOCK_ROWS: u64 = 1 << 20;
pub(crate) const SUMS: [&str; 4] = ["gradient", "curvature", "lower-mean", "lower-factor"];

impl Certificate {
    /// d.
    pub fn dim(&self) -> usize {
        self.model.dim()
    }

    /// Numbers per row of the file of rows: columns, response, trials, offset, weight.
    pub fn numbers(&self) -> usize {
        self.model.columns.len() + 4
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
        let model = Model::read(&mut lines)?;
        let d = model.dim();
        let (rows, block_rows) = rows_and_blocks(&mut lines)?;
        let mut out = Self {
            claim,
            bound,
            model,
            rows,
            block_rows,
            root: lines.hash("root")?,
            mean: lines.numbers("mean", d)?,
            factor: lines.triangle("factor-row", d)?,
            radius: lines.theorem("D").and_then(|()| lines.number("radius"))?,
            tau: lines.number("tau")?,
            theta: lines.number("theta")?,
            lambda_mean: lines.number("lambda-mean")?,
            lambda_factor: lines.number("lambda-factor")?,
            solution_mean: lines.numbers("solution-mean", d)?,
            solution_factor: lines.triangle("solution-row", d)?,
            blocks: Vec::new(),
        };
        for _ in 0..rows.div_ceil(block_rows) {
            let hash = lines.hash("block")?;
            let mut sums = Sums::default();
            for (k, key) in SUMS.iter().enumerate() {
                sums[k] = lines.stated(key, if k == 0 { d } else { d * (d + 1) / 2 })?;
            }
            out.blocks.push((hash, sums));
        }
        lines.end()?;
        out.requirements()?;
        Ok(out)
    }

    /// Signs and sizes that the theorem requires, and what the claim requires of the model.
    pub fn requirements(&self) -> Result<(), Refusal> {
        self.model.requirements()?;
        posterior::requirements(self)?;
        let mut diagonal = triangle(&self.factor).map(|row| row[row.len() - 1]);
        require(&[
            (self.bound > 0.0, "the bound is positive"),
            (diagonal.all(|x| x > 0.0), "the diagonal of the factor is positive"),
            (self.radius > 0.0 && self.radius < self.tau, "0 < radius < tau"),
            (self.theta > 0.0, "theta is positive"),
            (self.lambda_mean > 0.0 && self.lambda_factor >= 0.0, "the lambdas are positive"),
            (
                self.blocks.iter().flat_map(|(_, sums)| sums).all(|sum| sum.rad >= 0.0),
                "the radii are not negative",
            ),
        ])
    }

    /// Checks the inequalities, given that the sums of all blocks are within their radii of the truth.
    pub fn theorem(&self) -> Result<Proof, Refusal> {
        let d = self.dim();
        let refused = |what: &str, hint: f64| {
            Refusal::NotProved(format!("lambda-{what} {hint:e} is not proved: there is less curvature"))
        };
        let totals =
            [0, 1, 2, 3].map(|part| total(self.blocks.iter().map(|(_, sums)| &sums[part]), d, part > 0));
        let (prior_slope, prior) = prior(&self.model, &self.mean, &self.factor);
        let mut identity = vec![0.0; d * d];
        identity.iter_mut().step_by(d + 1).for_each(|x| *x = 1.0);
        let identity = Array { mid: identity, rad: 0.0 };
        let g = totals[0].plus(1.0, &prior_slope);
        let s = totals[1].plus(1.0, &prior).plus(-1.0, &identity);
        let (h_m, h_c) = (totals[2].plus(1.0, &prior), totals[3].plus(1.0, &prior));
        // least eigenvalues, c and the solutions
        let hint = self.lambda_mean;
        let lambda_m = least_eigenvalue(&h_m, d, hint).filter(|least| *least > 0.0);
        let lambda_m = lambda_m.ok_or_else(|| refused("mean", hint))?;
        let hint = self.lambda_factor;
        // H_C is never negative
        let lambda_h = if hint == 0.0 { Some(0.0) } else { least_eigenvalue(&h_c, d, hint) };
        let lambda_h = lambda_h.filter(|least| *least >= 0.0).ok_or_else(|| refused("factor", hint))?;
        let stretch = Ball::exact(self.radius) / self.tau + 1.0;
        let c = Ball::exact(1.0) / (stretch * stretch);
        let lambda_c = (c + lambda_h).lower();
        let x = &self.solution_mean;
        let left = g.plus(-1.0, &h_m.times(x, d));
        let of_mean = g.plus(1.0, &left).dot(x) + up(left.size() * left.size() / lambda_m);
        let x = full(&self.solution_factor, d);
        let hx = h_c.times(&x, d);
        let both = hx.plus(1.0, &hx.transposed(d));
        let exact = Array { mid: x.clone(), rad: 0.0 };
        // c is known only within its radius
        let cx = Array { mid: x.iter().map(|x| x * c.mid).collect(), rad: up(exact.size() * (c.rad + U)) };
        let left = s.plus(-0.5, &both).plus(-1.0, &cx);
        let of_factor = s.plus(1.0, &left).dot(&x) + up(left.size() * left.size() / lambda_c);
        let rho_squared = (of_mean + of_factor).upper();
        let tau = Ball::exact(self.tau);
        let least = lambda_m.min((Ball::exact(lambda_c) / (tau * tau)).lower());
        let limit = (Ball::exact(self.radius) * self.radius * least).lower();
        if rho_squared.is_nan() || rho_squared > limit {
            let why = format!("the theorem requires ρ² = {rho_squared:.6e} to be at most {limit:.6e}");
            return Err(Refusal::NotProved(why));
        }
        let bound = up(0.5 * rho_squared);
        Ok(Proof { bound, rho_squared, lambda_mean: lambda_m, lambda_factor: lambda_c })
    }
}

impl Rule for Certificate {
    fn tree(&self) -> (Hash, Vec<(Hash, u64)>) {
        let bytes = |block: usize| self.rows_of(block) * 8 * self.numbers() as u64;
        (self.root, self.blocks.iter().enumerate().map(|(k, (hash, _))| (*hash, bytes(k))).collect())
    }

    fn rows(&self, block: usize, bytes: &[u8]) -> Result<(), Refusal> {
        let own = Rows::new(self).sums(bytes, self.block_rows * block as u64)?;
        for ((own, stated), what) in own.iter().zip(&self.blocks[block].1).zip(SUMS) {
            own.agrees(stated, self.dim(), &format!("\"{what}\" of block {block}"))?;
        }
        Ok(())
    }

    fn prove(&self) -> Result<[String; 2], Refusal> {
        let proof = self.theorem()?;
        // NaN is not below anything
        if proof.bound <= self.bound {
            return Ok([posterior::sentence(self), posterior::errors(self, &proof)]);
        }
        Err(Refusal::NotProved(format!(
            "the claim is a gap of at most {:e} nats, but only {:e} is proved",
            self.bound, proof.bound
        )))
    }
}

/// The lines `rows` and `block-rows`.
pub(crate) fn rows_and_blocks(lines: &mut Lines<'_>) -> Result<(u64, u64), Refusal> {
    let (rows, block_rows) = (lines.count("rows")?, lines.count("block-rows")?);
    if block_rows == 0 || block_rows > BLOCK_ROWS {
        let words = format!("{block_rows} rows per block (1 to {BLOCK_ROWS} are)");
        return Err(Refusal::NotCheckable(words));
    }
    Ok((rows, block_rows))
}

/// What follows from the theorem.
#[derive(Clone, Copy, Debug)]
pub struct Proof {
    /// ELBO(q*) − ELBO(q) is at most this.
    pub bound: f64,
    /// ρ² is at most this.
    pub rho_squared: f64,
    /// λ′_m.
    pub lambda_mean: f64,
    /// λ′_C.
    pub lambda_factor: f64,
}

impl Proof {
    /// In the frame of the stated Gaussian the best one is N(μ, B²): |μ| is at most this. It is in {|d|_P ≤ ρ}, and
    /// |d|²_P ≥ λ′_m|μ|² + λ′_C|B − I|².
    pub fn mean_error(&self) -> f64 {
        up(up(self.rho_squared.max(0.0) / self.lambda_mean).sqrt())
    }

    /// |B − I| is at most this.
    pub fn factor_error(&self) -> f64 {
        up(up(self.rho_squared.max(0.0) / self.lambda_factor).sqrt())
    }
}
