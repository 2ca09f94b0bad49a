//! The rule for the variance parameters of a linear mixed model (docs/certificate-format.md, section 16): where REML or
//! ML has a maximum, from dense matrices in balls, for few rows.

use std::cell::RefCell;

use crate::array::{Array, dot, full, least_eigenvalue};
use crate::ball::{Ball, LARGE, up};
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

/// The model in a frame in which V(θ̂) is near I and X′X near I: TX times a matrix, T times residuals, and T G_k T′.
struct Whitened {
    x: Array,
    residuals: Array,
    all: Vec<Array>,
}

/// A lower-triangular T with TAT′ near I, in plain numbers: the inverse of the Cholesky factor of a symmetric A.
fn whitening(a: &[f64], d: usize) -> Option<Array> {
    let (mut l, mut t) = (vec![0.0; d * d], vec![0.0; d * d]);
    for i in 0..d {
        for j in 0..=i {
            let left = a[i * d + j] - (0..j).map(|k| l[i * d + k] * l[j * d + k]).sum::<f64>();
            l[i * d + j] = if i == j { left.sqrt() } else { left / l[j * d + j] };
        }
        // row i of T from L T = I
        let mut row: Vec<f64> = (0..d).map(|j| if i == j { 1.0 } else { 0.0 }).collect();
        for k in 0..i {
            let times = l[i * d + k];
            row.iter_mut().zip(&t[k * d..][..=k]).for_each(|(x, y)| *x -= times * y);
        }
        t[i * d..][..d].iter_mut().zip(row).for_each(|(x, y)| *x = y / l[i * d + i]);
    }
    let regular = t.iter().all(|x| x.is_finite()) && t.iter().step_by(d + 1).all(|x| *x > 0.0);
    regular.then_some(Array { mid: t, rad: 0.0 })
}

/// The inverses of all members, which must be near I: with A = I + E and |E| ≤ e < 1 they are within e/(1 − e) of I. A
/// symmetric A is then positive definite.
fn inverse(a: &Array, d: usize) -> Option<Array> {
    let one = identity(d);
    let wrong = a.plus(-1.0, &one).size();
    let rad = up(wrong / (1.0 - wrong) * (1.0 + 1e-15));
    (wrong < 0.9 && rad.is_finite()).then_some(Array { mid: one.mid, rad })
}

/// ½aᵀWa for all members of a vector, W symmetric: 2|δ||Wa| + |W||δ|² is what a change by δ makes of aᵀWa.
fn half_square(w: &Array, a: &Array, n: usize) -> Ball {
    let exact = Array { mid: a.mid.clone(), rad: 0.0 };
    let pulled = product(w, &exact, n);
    let at = inner(&exact, &pulled);
    Ball::new(at.mid, up(at.rad + 2.0 * a.rad * pulled.size() + w.size() * a.rad * a.rad)) * 0.5
}

/// Σ x_k A_k.
fn sum(x: &[f64], all: &[Array]) -> Array {
    let zero = Array { mid: vec![0.0; all[0].mid.len()], rad: 0.0 };
    x.iter().zip(all).filter(|(x, _)| **x != 0.0).fold(zero, |sum, (x, a)| sum.plus(*x, a))
}

fn singular(what: &str) -> Refusal {
    Refusal::NotProved(format!("{what} is not proved to be positive definite"))
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

    /// X, y, and of every term the matrices Z of its effects, with a column for every group.
    fn matrices(&self, rows: &[Vec<f64>]) -> (Array, Array, Vec<Vec<Array>>) {
        let of_columns = |row: &Vec<f64>| -> Vec<Ball> {
            let columns = self.columns.iter().zip(row).map(|(c, x)| (Ball::exact(*x) - c.centre) / c.scale);
            self.intercept.then_some(Ball::exact(1.0)).into_iter().chain(columns).collect()
        };
        let x = Array::of(&rows.iter().flat_map(of_columns).collect::<Vec<_>>());
        let y = Array { mid: rows.iter().map(|row| row[row.len() - 1]).collect(), rad: 0.0 };
        let (mut all, mut at) = (Vec::new(), self.columns.len());
        for (_, effects) in &self.terms {
            let mut groups: Vec<f64> = Vec::new();
            for row in rows {
                if !groups.contains(&row[at]) {
                    groups.push(row[at]);
                }
            }
            let entry = |row: &Vec<f64>, g: f64, i: usize| if row[at] == g { row[at + 1 + i] } else { 0.0 };
            let of_effect = |i: usize| {
                let mid = rows.iter().flat_map(|row| groups.iter().map(move |g| entry(row, *g, i)));
                Array { mid: mid.collect(), rad: 0.0 }
            };
            all.push((0..*effects as usize).map(of_effect).collect());
            at += 1 + *effects as usize;
        }
        (x, y, all)
    }

    /// T G_k T′, in the order of the parameters, with V = Σ θ_k G_k; T = I where there is none.
    fn parts(z: &[Vec<Array>], n: usize, t: Option<&Array>) -> Vec<Array> {
        let mut out = vec![t.map_or_else(|| identity(n), |t| product(t, &transposed(t, n), n))];
        for term in z {
            let turned = |z: &Array| t.map_or_else(|| z.clone(), |t| product(t, z, n));
            let z: Vec<Array> = term.iter().map(turned).collect();
            let columns = z.first().map_or(0, |z| z.mid.len() / n);
            for (i, j) in (0..z.len()).flat_map(|i| (0..=i).map(move |j| (i, j))) {
                let half = product(&z[i], &transposed(&z[j], n), columns);
                out.push(if i == j { half } else { half.plus(1.0, &transposed(&half, n)) });
            }
        }
        out
    }

    /// The model in the frame of the estimate. Multiplying y, X and V by regular matrices changes F by a constant.
    fn whitened(&self, rows: &[Vec<f64>]) -> Result<Whitened, Refusal> {
        let (x, y, z) = self.matrices(rows);
        let (n, p) = (rows.len(), x.mid.len() / rows.len());
        let v = sum(&self.estimate, &Self::parts(&z, n, None));
        let t = whitening(&v.mid, n).ok_or_else(|| singular("V"))?;
        let turned = product(&t, &x, n);
        let m = product(&transposed(&turned, n), &turned, n);
        let m = transposed(&whitening(&m.mid, p).ok_or_else(|| singular("X′V⁻¹X"))?, p);
        let orthonormal = product(&turned, &m, p);
        // PX = 0, so that any residuals do for y; those of about the coefficients are small
        let ty = product(&t, &y, n);
        let b = product(&m, &product(&transposed(&orthonormal, n), &ty, n), p);
        let residuals = y.plus(-1.0, &product(&x, &Array { mid: b.mid, rad: 0.0 }, p));
        let residuals = product(&t, &residuals, n);
        Ok(Whitened { x: orthonormal, residuals, all: Self::parts(&z, n, Some(&t)) })
    }

    /// V⁻¹, P and Py for all members of V.
    fn solve(&self, v: &Array, own: &Whitened) -> Result<Solved, Refusal> {
        let n = own.residuals.mid.len();
        let p = own.x.mid.len() / n;
        let inverted = inverse(v, n).ok_or_else(|| singular("V"))?;
        // about I times X
        let vx = Array { rad: up(own.x.rad + inverted.rad * own.x.size()), mid: own.x.mid.clone() };
        let m = product(&transposed(&own.x, n), &vx, n);
        let m = inverse(&m, p).ok_or_else(|| singular("X′V⁻¹X"))?;
        let lost = product(&product(&vx, &m, p), &transposed(&vx, n), p);
        let projected = inverted.plus(-1.0, &lost);
        let py = product(&projected, &own.residuals, n);
        let inner = if self.restricted { projected.clone() } else { inverted };
        Ok(Solved { inner, p: projected, py })
    }

    /// In the frame C: the gradient at the estimate, and the Hessian in the whole ball.
    pub fn derivatives(&self) -> Result<(Vec<Ball>, Vec<Ball>), Refusal> {
        let rows = self.data.0.borrow();
        if rows.is_empty() {
            return Err(Refusal::NotCheckable("this claim needs the rows".into()));
        }
        let own = self.whitened(&rows)?;
        let (n, k) = (rows.len(), own.all.len());
        let v = sum(&self.estimate, &own.all);
        let entry = |i: usize, j: usize| if i < j { 0.0 } else { self.factor[i * (i + 1) / 2 + j] };
        let of_column = |j: usize| sum(&(0..k).map(|i| entry(i, j)).collect::<Vec<_>>(), &own.all);
        let w: Vec<Array> = (0..k).map(of_column).collect();
        // the gradient at the estimate
        let at = self.solve(&v, &own)?;
        let slope = |w: &Array| inner(&at.inner, w) * 0.5 - half_square(w, &at.py, n);
        let gradient = w.iter().map(slope).collect();
        // the Hessian in the whole ball
        let sizes = w.iter().fold(Ball::ZERO, |sum, w| sum + Ball::exact(w.size()) * w.size());
        let wide = Array { rad: up(v.rad + self.radius * sizes.sqrt().upper()), mid: v.mid };
        let at = self.solve(&wide, &own)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// I + 0.25 uu′ and I − 0.25 uu′ for a unit u: the inverse of the second is at the distance 1/3 from I, which is
    /// the bound.
    #[test]
    fn inverses_are_within_their_radius() {
        let near = |rad| Array { mid: identity(2).mid, rad };
        let found = inverse(&near(0.25), 2).unwrap();
        assert_eq!(found.mid, identity(2).mid);
        assert!(found.rad >= 1.0 / 3.0 && found.rad < 0.333_334, "{}", found.rad);
        assert!(inverse(&near(0.9), 2).is_none() && inverse(&near(f64::NAN), 2).is_none());
        // a midpoint that is not I counts as well
        let moved = Array { mid: vec![0.75, 0.0, 0.0, 1.0], rad: 0.0 };
        assert!(inverse(&moved, 2).unwrap().rad >= 1.0 / 3.0);
    }
}
