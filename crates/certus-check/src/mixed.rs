//! The rule for the variance parameters of a linear mixed model (docs/certificate-format.md, section 16): where REML or
//! ML has a maximum, from dense matrices in balls, for few rows.

use std::cell::RefCell;

use crate::array::{Array, dot, full, least_eigenvalue};
use crate::ball::{Ball, LARGE, TINY, U, two_sum, up};
use crate::model::{Column, require};
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::sha256::{Hash, hex};
use crate::text::{Lines, triangle};

/// Rows, columns and variance parameters at most.
const ROWS: u64 = 600;
const COLUMNS: u64 = 64;
const PARAMETERS: usize = 24;
pub(crate) const CLAIM: &str = "variance-maximum";

/// What is certified, and the hints.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedCertificate {
    /// True for REML, false for ML.
    pub restricted: bool,
    /// Number of rows.
    pub rows: u64,
    /// SHA-256 of the rows: the root of a tree with one leaf.
    pub root: Hash,
    /// True if the first coefficient is that of a column of ones.
    pub intercept: bool,
    /// The columns.
    pub columns: Vec<Column>,
    /// Name and number of effects of every term.
    pub terms: Vec<(String, u64)>,
    /// θ̂: the variance of the noise, then the lower triangle of every term's covariance matrix, row by row.
    pub estimate: Vec<f64>,
    /// C, its lower triangle row by row.
    pub factor: Vec<f64>,
    /// r.
    pub radius: f64,
    /// λ.
    pub lambda: f64,
    /// What is claimed: every parameter is between these.
    pub between: Vec<[f64; 2]>,
    /// The rows, once they were seen. They are no part of the certificate.
    pub data: Seen,
}

/// Rows that were seen.
#[derive(Clone, Debug, Default)]
pub struct Seen(RefCell<Vec<Vec<f64>>>);

impl PartialEq for Seen {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// V⁻¹ or P (`inner`), P, and Py.
struct Solved {
    inner: Array,
    p: Array,
    py: Array,
}

/// The inverse of all members: with E = I − AR it is R(I − E)⁻¹.
fn inverse(a: &Array, d: usize) -> Option<Array> {
    // R in plain numbers, by Gauss and Jordan; the matrices are positive definite, so nothing is exchanged
    let (mut left, mut r) = (a.mid.clone(), vec![0.0; d * d]);
    r.iter_mut().step_by(d + 1).for_each(|x| *x = 1.0);
    for k in 0..d {
        let pivot = 1.0 / left[k * d + k];
        for matrix in [&mut left, &mut r] {
            let row: Vec<f64> = matrix[k * d..][..d].iter().map(|x| x * pivot).collect();
            matrix[k * d..][..d].copy_from_slice(&row);
        }
        let rows = [left[k * d..][..d].to_vec(), r[k * d..][..d].to_vec()];
        for i in (0..d).filter(|i| *i != k) {
            let times = left[i * d + k];
            for (matrix, row) in [&mut left, &mut r].into_iter().zip(&rows) {
                matrix[i * d..][..d].iter_mut().zip(row).for_each(|(x, y)| *x -= times * y);
            }
        }
    }
    let residual = |at: usize| {
        let (i, j) = (at / d, at % d);
        left_of_one(if i == j { 1.0 } else { 0.0 }, (0..d).map(|k| (a.mid[i * d + k], r[k * d + j])), d)
    };
    let exact = Array { mid: r.clone(), rad: 0.0 };
    let residual = Array::of(&(0..d * d).map(residual).collect::<Vec<_>>());
    let wrong = up(residual.size() + a.rad * exact.size());
    let rad = up(exact.size() * wrong / (1.0 - wrong) * (1.0 + 1e-15));
    (wrong < 0.9 && rad.is_finite()).then_some(Array { mid: r, rad })
}

/// x less a sum of products, as if in twice the precision (Ogita, Rump and Oishi's Dot2).
fn left_of_one(x: f64, products: impl Iterator<Item = (f64, f64)>, d: usize) -> Ball {
    let (mut high, mut low, mut sizes) = (x, 0.0, x);
    for (a, b) in products {
        let product = -a * b;
        let (sum, lost) = two_sum(high, product);
        (high, low) = (sum, low + (lost + (-a).mul_add(b, -product)));
        sizes += product.abs();
    }
    let n = d as f64 + 3.0;
    Ball::new(high + low, up(U * (high + low).abs() + 4.0 * n * n * U * U * sizes + n * TINY))
}

/// ½aᵀWa for all members of a vector, W symmetric: 2|δ||Wa| + |W||δ|² is what a change by δ makes of aᵀWa.
fn half_square(w: &Array, a: &Array, n: usize) -> Ball {
    let exact = Array { mid: a.mid.clone(), rad: 0.0 };
    let pulled = product(w, &exact, n);
    let at = inner(&exact, &pulled);
    Ball::new(at.mid, up(at.rad + 2.0 * a.rad * pulled.size() + w.size() * a.rad * a.rad)) * 0.5
}

fn identity(d: usize) -> Array {
    let mut mid = vec![0.0; d * d];
    mid.iter_mut().step_by(d + 1).for_each(|x| *x = 1.0);
    Array { mid, rad: 0.0 }
}

/// AB for all members, A with k columns.
fn product(a: &Array, b: &Array, k: usize) -> Array {
    let exact = a.times(&b.mid, k);
    Array { rad: up(exact.rad + a.size() * b.rad), mid: exact.mid }
}

/// Σ a_i b_i for all members.
fn inner(a: &Array, b: &Array) -> Ball {
    let at = a.dot(&b.mid);
    Ball::new(at.mid, up(at.rad + a.size() * b.rad))
}

fn transposed(a: &Array, rows: usize) -> Array {
    let columns = a.mid.len() / rows;
    let mid = (0..a.mid.len()).map(|at| a.mid[(at % rows) * columns + at / rows]).collect();
    Array { mid, rad: a.rad }
}

impl MixedCertificate {
    /// Numbers per row: columns, for every term its group and its effects' columns, the response.
    pub fn numbers(&self) -> usize {
        self.columns.len() + self.terms.iter().map(|(_, k)| 1 + *k as usize).sum::<usize>() + 1
    }

    /// Reads a certificate with this claim.
    pub fn read(text: &str) -> Result<Self, Refusal> {
        let (mut lines, _) = Lines::begin(text)?;
        let restricted = match lines.word("criterion")? {
            "reml" => true,
            "ml" => false,
            _ => return Err(lines.wrong("\"criterion\" is reml or ml")),
        };
        let (rows, root) = (lines.count("rows")?, lines.hash("root")?);
        let intercept = lines.flag("intercept")?;
        let count = lines.count("columns")?;
        if rows > ROWS || count > COLUMNS {
            return Err(Refusal::NotCheckable(format!("{rows} rows and {count} columns")));
        }
        let columns = (0..count).map(|_| Column::read(&mut lines)).collect::<Result<Vec<_>, _>>()?;
        let (mut terms, mut k) = (Vec::new(), 1);
        for _ in 0..lines.count("terms")? {
            let [name, effects] = lines.words("term")?[..] else {
                return Err(lines.wrong("\"term\" takes a name and a number of effects"));
            };
            let effects = lines.as_count(effects)?.min(PARAMETERS as u64);
            terms.push((name.to_string(), effects));
            k += (effects * (effects + 1) / 2) as usize;
            if k > PARAMETERS {
                return Err(Refusal::NotCheckable(format!("more than {PARAMETERS} variance parameters")));
            }
        }
        lines.theorem("V1")?;
        let (estimate, factor) = (lines.numbers("estimate", k)?, lines.triangle("factor-row", k)?);
        let (radius, lambda) = (lines.number("radius")?, lines.number("lambda")?);
        let between = (0..k).map(|_| lines.numbers("between", 2).map(|two| [two[0], two[1]]));
        let between = between.collect::<Result<Vec<_>, _>>()?;
        lines.end()?;
        let data = Seen::default();
        let out = Self {
            restricted,
            rows,
            root,
            intercept,
            columns,
            terms,
            estimate,
            factor,
            radius,
            lambda,
            between,
            data,
        };
        out.requirements()?;
        Ok(out)
    }

    /// Signs and sizes that the theorem requires.
    pub fn requirements(&self) -> Result<(), Refusal> {
        let mut diagonal = triangle(&self.factor).map(|row| row[row.len() - 1]);
        require(&[
            (self.rows > 0, "there is a row"),
            (self.intercept || !self.columns.is_empty(), "there is a coefficient"),
            (self.columns.iter().all(|c| c.scale > 1e-50), "the scales of columns are above 1e-50"),
            (self.terms.iter().all(|(_, k)| *k > 0), "every term has an effect"),
            (self.estimate[0] > 0.0, "the variance of the noise is positive"),
            (diagonal.all(|x| x > 0.0), "the diagonal of the factor is positive"),
            (self.radius > 0.0 && self.lambda > 0.0, "radius and lambda are positive"),
        ])
    }

    /// X, y, and G_k with V = Σ θ_k G_k.
    fn matrices(&self, rows: &[Vec<f64>]) -> (Array, Vec<f64>, Vec<Array>) {
        let n = rows.len();
        let of_columns = |row: &Vec<f64>| -> Vec<Ball> {
            let columns = self.columns.iter().zip(row).map(|(c, x)| (Ball::exact(*x) - c.centre) / c.scale);
            self.intercept.then_some(Ball::exact(1.0)).into_iter().chain(columns).collect()
        };
        let x = Array::of(&rows.iter().flat_map(of_columns).collect::<Vec<_>>());
        let y = rows.iter().map(|row| row[row.len() - 1]).collect();
        let mut all = vec![identity(n)];
        let mut at = self.columns.len();
        for (_, effects) in &self.terms {
            let z = |row: usize, i: u64| Ball::exact(rows[row][at + 1 + i as usize]);
            for (i, j) in (0..*effects).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                let entry = |at_row: usize, column: usize| match rows[at_row][at] == rows[column][at] {
                    false => Ball::ZERO,
                    true if i == j => z(at_row, i) * z(column, i),
                    true => z(at_row, i) * z(column, j) + z(at_row, j) * z(column, i),
                };
                let entries = (0..n * n).map(|place| entry(place / n, place % n));
                all.push(Array::of(&entries.collect::<Vec<_>>()));
            }
            at += 1 + *effects as usize;
        }
        (x, y, all)
    }

    /// V⁻¹, P and Py for all members of V.
    fn solve(&self, v: &Array, x: &Array, y: &[f64]) -> Result<Solved, Refusal> {
        let (n, p) = (y.len(), x.mid.len() / y.len());
        let singular =
            |what: &str| Refusal::NotProved(format!("{what} is not proved to be positive definite"));
        // half of the noise is enough, where V is at least the noise
        let least = least_eigenvalue(v, n, 0.5 * self.estimate[0]).filter(|least| *least > 0.0);
        least.ok_or_else(|| singular("V"))?;
        let inverted = inverse(v, n).ok_or_else(|| singular("V"))?;
        let vx = product(&inverted, x, n);
        let m = product(&transposed(x, n), &vx, n);
        let m = inverse(&m, p).ok_or_else(|| singular("X′V⁻¹X"))?;
        let lost = product(&product(&vx, &m, p), &transposed(&vx, n), p);
        let projected = inverted.plus(-1.0, &lost);
        // PX = 0, so that any residuals do for y; those of about the coefficients are small
        let b = m.times(&product(&transposed(&vx, n), &Array { mid: y.to_vec(), rad: 0.0 }, n).mid, p);
        let b = Array { mid: b.mid, rad: 0.0 };
        let residuals = Array { mid: y.to_vec(), rad: 0.0 }.plus(-1.0, &product(x, &b, p));
        let py = product(&projected, &residuals, n);
        let inner = if self.restricted { projected.clone() } else { inverted };
        Ok(Solved { inner, p: projected, py })
    }

    /// In the frame C: the gradient at the estimate, and the Hessian in the whole ball.
    pub fn derivatives(&self) -> Result<(Vec<Ball>, Vec<Ball>), Refusal> {
        let rows = self.data.0.borrow();
        if rows.is_empty() {
            return Err(Refusal::NotCheckable("this claim needs the rows".into()));
        }
        let (x, y, all) = self.matrices(&rows);
        let (n, k) = (rows.len(), all.len());
        let zero = || Array { mid: vec![0.0; n * n], rad: 0.0 };
        let v = all.iter().zip(&self.estimate).fold(zero(), |sum, (g, theta)| sum.plus(*theta, g));
        let entry = |i: usize, j: usize| self.factor[i * (i + 1) / 2 + j];
        let of_column = |j: usize| (j..k).fold(zero(), |sum, i| sum.plus(entry(i, j), &all[i]));
        let w: Vec<Array> = (0..k).map(of_column).collect();
        // the gradient at the estimate
        let at = self.solve(&v, &x, &y)?;
        let slope = |w: &Array| inner(&at.inner, w) * 0.5 - half_square(w, &at.py, n);
        let gradient = w.iter().map(slope).collect();
        // the Hessian in the whole ball
        let sizes = w.iter().fold(Ball::ZERO, |sum, w| sum + Ball::exact(w.size()) * w.size());
        let wide = Array { rad: up(v.rad + self.radius * sizes.sqrt().upper()), mid: v.mid };
        let at = self.solve(&wide, &x, &y)?;
        let pulls: Vec<Array> = w.iter().map(|w| product(w, &at.py, n)).collect();
        let turned: Vec<Array> = w.iter().map(|w| product(&at.inner, w, n)).collect();
        let mut hessian = Vec::new();
        for i in 0..k {
            let pulled = product(&at.p, &pulls[i], n);
            for j in 0..=i {
                let traced = inner(&turned[i], &transposed(&turned[j], n));
                hessian.push(inner(&pulls[j], &pulled) - traced * 0.5);
            }
        }
        Ok((gradient, hessian))
    }

    /// How far the maximum can be from the estimate, in the frame C.
    pub fn distance(&self) -> Result<f64, Refusal> {
        let (gradient, lower) = self.derivatives()?;
        let (steep, k) = (Array::of(&gradient).size(), gradient.len());
        let lower = Array::of(&lower);
        // a triangle's norm is at least the root of half of the matrix's
        let hessian = Array { mid: full(&lower.mid, k), rad: up(1.5 * lower.rad) };
        let least = least_eigenvalue(&hessian, k, self.lambda).filter(|least| *least > 0.0);
        let least = least.ok_or_else(|| Refusal::NotProved("lambda is not proved".into()))?;
        let limit = (Ball::exact(least) * self.radius).lower();
        // NaN is not below anything
        if steep < limit {
            return Ok(up(steep / least));
        }
        Err(Refusal::NotProved(format!("the gradient {steep:e} asks for a larger radius")))
    }

    /// Between which numbers parameter k is, at such a distance.
    pub fn range(&self, k: usize, distance: f64) -> [f64; 2] {
        let row = &self.factor[k * (k + 1) / 2..][..=k];
        let size = dot(row, row).sqrt() * distance;
        [(Ball::exact(self.estimate[k]) - size).lower(), (Ball::exact(self.estimate[k]) + size).upper()]
    }

    /// What the parameters are called.
    fn names(&self) -> Vec<String> {
        let mut out = vec!["the variance of the noise".to_string()];
        for (name, effects) in &self.terms {
            let pairs = (1..=*effects).flat_map(|i| (1..=i).map(move |j| (i, j)));
            out.extend(pairs.map(|(i, j)| format!("the covariance ({i}, {j}) of {}", name.escape_debug())));
        }
        out
    }
}

impl Rule for MixedCertificate {
    fn tree(&self) -> (Hash, Vec<(Hash, u64)>) {
        (self.root, vec![(self.root, self.rows * 8 * self.numbers() as u64)])
    }

    fn rows(&self, _: usize, bytes: &[u8]) -> Result<(), Refusal> {
        let row = |words: &[u8]| words.as_chunks().0.iter().map(|word| f64::from_le_bytes(*word)).collect();
        let rows: Vec<Vec<f64>> = bytes.chunks_exact(8 * self.numbers()).map(row).collect();
        if !rows.iter().flatten().all(|x| x.abs() <= LARGE) {
            return Err(Refusal::NotProved("a row has a number that it must not have".into()));
        }
        *self.data.0.borrow_mut() = rows;
        Ok(())
    }

    fn prove(&self) -> Result<[String; 2], Refusal> {
        let distance = self.distance()?;
        let mut claims = String::new();
        for (k, ([low, high], name)) in self.between.iter().zip(self.names()).enumerate() {
            let [least, most] = self.range(k, distance);
            if !(*low <= least && most <= *high) {
                let why = format!("{name} is only proved to be between {least:e} and {most:e}");
                return Err(Refusal::NotProved(why));
            }
            claims += &format!("; {name} is between {low:e} and {high:e}");
        }
        let sentence = format!(
            "the {} of the linear mixed model with {} terms of {} rows (SHA-256 {}) on {} coefficients has a strict \
             local maximum{claims}.",
            if self.restricted { "restricted likelihood (REML)" } else { "likelihood (ML)" },
            self.terms.len(),
            self.rows,
            hex(&self.root),
            self.columns.len() + usize::from(self.intercept)
        );
        Ok([
            sentence,
            format!("no other stationary point is in the ellipsoid of the radius {:e}", self.radius),
        ])
    }
}
