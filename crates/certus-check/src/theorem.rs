//! The inequalities of the theorem, from the sums of all blocks (docs/certificate-format.md, "The theorem").

use crate::ball::{Ball, U, up};
use crate::certificate::{Certificate, Precision, Refusal, triangle};

/// A vector, or a full square matrix row by row, that is known within `rad` in the Euclidean norm.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) mid: Vec<f64>,
    pub(crate) rad: f64,
}

/// Σ x_i y_i with its rounding.
fn dot(x: &[f64], y: &[f64]) -> Ball {
    let products = || x.iter().zip(y).map(|(x, y)| x * y);
    let sizes: f64 = products().map(f64::abs).sum();
    let n = x.len() as f64 + 2.0;
    Ball::new(products().sum(), up(n * U * sizes * (1.0 + 2.0 * n * U)))
}

/// The Euclidean norm of exact numbers.
fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt().upper()
}

impl Array {
    /// From balls.
    pub(crate) fn of(balls: &[Ball]) -> Self {
        let radii: Vec<f64> = balls.iter().map(|b| b.rad).collect();
        let finite = radii.iter().all(|rad| rad.is_finite());
        let rad = if finite { norm(&radii) } else { f64::INFINITY };
        Self { mid: balls.iter().map(|b| b.mid).collect(), rad }
    }

    /// At least the norm of every member.
    pub(crate) fn size(&self) -> f64 {
        up(norm(&self.mid) + self.rad)
    }

    /// a + x·b, entry by entry.
    pub(crate) fn plus(&self, x: f64, other: &Self) -> Self {
        let entries = self.mid.iter().zip(&other.mid);
        let sum = Self::of(&entries.map(|(a, b)| Ball::exact(*a) + Ball::exact(*b) * x).collect::<Vec<_>>());
        Self { mid: sum.mid, rad: up(sum.rad + self.rad + x.abs() * other.rad) }
    }

    /// This matrix times an exact one of d columns (or a vector).
    fn times(&self, right: &[f64], d: usize) -> Self {
        let columns = right.len() / d;
        let column = |j: usize| (0..d).map(|k| right[k * columns + j]).collect::<Vec<f64>>();
        let columns: Vec<Vec<f64>> = (0..columns).map(column).collect();
        let rows = self.mid.chunks(d);
        let products: Vec<Ball> = rows.flat_map(|row| columns.iter().map(|c| dot(row, c))).collect();
        let product = Self::of(&products);
        Self { mid: product.mid, rad: up(product.rad + self.rad * norm(right)) }
    }

    fn transposed(&self, d: usize) -> Self {
        let mid = (0..d * d).map(|at| self.mid[(at % d) * d + at / d]).collect();
        Self { mid, rad: self.rad }
    }

    /// Its inner product with exact numbers.
    fn dot(&self, x: &[f64]) -> Ball {
        let at = dot(&self.mid, x);
        Ball::new(at.mid, up(at.rad + self.rad * norm(x)))
    }
}

/// The full symmetric matrix of a lower triangle.
fn full(lower: &[f64], d: usize) -> Vec<f64> {
    let mut out = vec![0.0; d * d];
    for (i, row) in triangle(lower).enumerate() {
        for (j, x) in row.iter().enumerate() {
            (out[i * d + j], out[j * d + i]) = (*x, *x);
        }
    }
    out
}

/// A lower bound of the least eigenvalue of a symmetric matrix that is about `hint`: with L from a factorisation of
/// H − hint·I, H ≥ hint − |H − hint·I − LL′|.
pub(crate) fn least_eigenvalue(h: &Array, d: usize, hint: f64) -> Option<f64> {
    let mut l = vec![0.0; d * d];
    for j in 0..d {
        for i in j..d {
            let known: f64 = (0..j).map(|k| l[i * d + k] * l[j * d + k]).sum();
            let left = h.mid[i * d + j] - if i == j { hint } else { 0.0 } - known;
            l[i * d + j] = if i == j { left.sqrt() } else { left / l[j * d + j] };
        }
    }
    if !l.iter().all(|x| x.is_finite()) {
        return None;
    }
    let mut residual = Vec::new();
    for i in 0..d {
        for j in 0..d {
            let product = dot(&l[i * d..][..d], &l[j * d..][..d]);
            let own = Ball::exact(h.mid[i * d + j]) - if i == j { hint } else { 0.0 };
            residual.push(own - product);
        }
    }
    let wrong = up(Array::of(&residual).size() + h.rad);
    Some((Ball::exact(hint) - wrong).lower())
}

/// What follows from the theorem.
#[derive(Clone, Copy, Debug)]
pub struct Proof {
    /// ELBO(q*) − ELBO(q) is at most this.
    pub bound: f64,
    /// ρ² is at most this.
    pub rho_squared: f64,
    /// ρ² may be at most this.
    pub limit: f64,
    /// λ′_m.
    pub lambda_mean: f64,
    /// λ′_C.
    pub lambda_factor: f64,
}

/// What stands in the certificate but in no theorem: signs and sizes that the theorem requires.
pub fn requirements(certificate: &Certificate) -> Result<(), Refusal> {
    let d = certificate.dim();
    let diagonal = triangle(&certificate.factor).map(|row| row[row.len() - 1]);
    let symmetric = |j: &[f64]| (0..d * d).all(|at| j[at] == j[(at % d) * d + at / d]);
    let precision = match &certificate.prior_precision {
        Precision::Diagonal(j) => j.iter().all(|x| *x >= 0.0),
        Precision::Dense(j) => {
            let trace: f64 = (0..d).map(|i| j[i * (d + 1)]).sum();
            let matrix = Array { mid: j.clone(), rad: 0.0 };
            symmetric(j) && least_eigenvalue(&matrix, d, 1e-12 * trace).is_some_and(|least| least >= 0.0)
        }
    };
    let sd = match certificate.likelihood {
        crate::moments::Likelihood::Linear(sd) => sd,
        _ => 1.0,
    };
    for (holds, what) in [
        (certificate.bound > 0.0, "the bound is positive"),
        (diagonal.into_iter().all(|x| x > 0.0), "the diagonal of the factor is positive"),
        (
            certificate.columns.iter().all(|column| column.scale > 1e-50),
            "the scales of columns are above 1e-50",
        ),
        (precision, "the precision of the prior is symmetric and positive"),
        (sd > 0.0, "the sd is positive"),
        (certificate.radius > 0.0 && certificate.radius < certificate.tau, "0 < radius < tau"),
        (certificate.theta > 0.0, "theta is positive"),
        (certificate.lambda_mean > 0.0 && certificate.lambda_factor >= 0.0, "the lambdas are positive"),
        (
            certificate.blocks.iter().all(|(_, sums)| sums.radii.iter().all(|rad| *rad >= 0.0)),
            "the radii are not negative",
        ),
    ] {
        if !holds {
            return Err(Refusal::NotProved(format!("the theorem requires that {what}")));
        }
    }
    Ok(())
}

/// The sum over the blocks of what they state, a vector or the triangle of a matrix.
pub(crate) fn total<'a>(stated: impl Iterator<Item = (&'a [f64], f64)>, d: usize, is_matrix: bool) -> Array {
    let mut sum = vec![Ball::ZERO; if is_matrix { d * (d + 1) / 2 } else { d }];
    let mut rad = Ball::ZERO;
    for (part, own) in stated {
        sum.iter_mut().zip(part).for_each(|(sum, x)| *sum = *sum + *x);
        rad = rad + own;
    }
    let mut array = Array::of(&sum);
    if is_matrix {
        // a triangle's norm is at least the root of half of the matrix's
        array = Array { mid: full(&array.mid, d), rad: array.rad * 1.5 };
    }
    array.rad = up(array.rad + rad.upper());
    array
}

/// Checks the inequalities, given that the sums of all blocks are within their radii of the truth.
pub fn prove(certificate: &Certificate) -> Result<Proof, Refusal> {
    let d = certificate.dim();
    let refused = |what: &str, hint: f64| {
        Refusal::NotProved(format!("lambda-{what} {hint:e} is not proved: there is less curvature"))
    };
    let mut totals = Vec::new();
    for part in 0..4 {
        let sums = certificate.blocks.iter().map(|(_, sums)| (&sums.parts[part][..], sums.radii[part]));
        totals.push(total(sums, d, part > 0));
    }
    let Certificate { mean, prior_mean, prior_precision, factor, .. } = certificate;
    let (prior_slope, prior) = prior(mean, prior_mean, prior_precision, factor);
    let mut identity = vec![0.0; d * d];
    identity.iter_mut().step_by(d + 1).for_each(|x| *x = 1.0);
    let identity = Array { mid: identity, rad: 0.0 };
    let g = totals[0].plus(1.0, &prior_slope);
    let s = totals[1].plus(1.0, &prior).plus(-1.0, &identity);
    let (h_m, h_c) = (totals[2].plus(1.0, &prior), totals[3].plus(1.0, &prior));
    // least eigenvalues, c and the solutions
    let hint = certificate.lambda_mean;
    let lambda_m = least_eigenvalue(&h_m, d, hint).filter(|least| *least > 0.0);
    let lambda_m = lambda_m.ok_or_else(|| refused("mean", hint))?;
    let hint = certificate.lambda_factor;
    // H_C is never negative
    let lambda_h = if hint == 0.0 { Some(0.0) } else { least_eigenvalue(&h_c, d, hint) };
    let lambda_h = lambda_h.filter(|least| *least >= 0.0).ok_or_else(|| refused("factor", hint))?;
    let stretch = Ball::exact(certificate.radius) / certificate.tau + 1.0;
    let c = Ball::exact(1.0) / (stretch * stretch);
    let lambda_c = (c + lambda_h).lower();
    let x = &certificate.solution_mean;
    let hx = h_m.times(x, d);
    let left = g.plus(-1.0, &hx);
    let of_mean = g.plus(1.0, &left).dot(x) + up(left.size() * left.size() / lambda_m);
    let x = full(&certificate.solution_factor, d);
    let hx = h_c.times(&x, d);
    let both = hx.plus(1.0, &hx.transposed(d));
    let exact = Array { mid: x.clone(), rad: 0.0 };
    // c is known only within its radius
    let cx = Array { mid: x.iter().map(|x| x * c.mid).collect(), rad: up(exact.size() * (c.rad + U)) };
    let left = s.plus(-0.5, &both).plus(-1.0, &cx);
    let of_factor = s.plus(1.0, &left).dot(&x) + up(left.size() * left.size() / lambda_c);
    let rho_squared = (of_mean + of_factor).upper();
    let tau = Ball::exact(certificate.tau);
    let least = lambda_m.min((Ball::exact(lambda_c) / (tau * tau)).lower());
    let limit = (Ball::exact(certificate.radius) * certificate.radius * least).lower();
    if rho_squared.is_nan() || rho_squared > limit {
        let why = format!("the theorem requires ρ² = {rho_squared:.6e} to be at most {limit:.6e}");
        return Err(Refusal::NotProved(why));
    }
    let bound = up(0.5 * rho_squared);
    Ok(Proof { bound, rho_squared, limit, lambda_mean: lambda_m, lambda_factor: lambda_c })
}

/// C′J(m − μ₀) and C′JC.
pub(crate) fn prior(
    mean: &[f64],
    prior_mean: &[f64],
    prior_precision: &Precision,
    triangle_of_factor: &[f64],
) -> (Array, Array) {
    let d = mean.len();
    let mut factor = vec![0.0; d * d];
    for (i, row) in triangle(triangle_of_factor).enumerate() {
        factor[i * d..][..=i].copy_from_slice(row);
    }
    let precision = |i: usize, k: usize| match prior_precision {
        Precision::Diagonal(j) => {
            if i == k {
                j[i]
            } else {
                0.0
            }
        }
        Precision::Dense(j) => j[i * d + k],
    };
    // J times a vector of balls, without the zeros of a diagonal
    let times = |v: &[Ball]| -> Vec<Ball> {
        let row = |i: usize| match prior_precision {
            Precision::Diagonal(_) => v[i] * precision(i, i),
            Precision::Dense(_) => (0..d).fold(Ball::ZERO, |sum, k| sum + v[k] * precision(i, k)),
        };
        (0..d).map(row).collect()
    };
    // C′ times it
    let back = |v: &[Ball]| -> Vec<Ball> {
        (0..d).map(|i| (i..d).fold(Ball::ZERO, |sum, k| sum + v[k] * factor[k * d + i])).collect()
    };
    let moved = mean.iter().zip(prior_mean);
    let moved: Vec<Ball> = moved.map(|(m, prior)| Ball::exact(*m) - *prior).collect();
    let slope = back(&times(&moved));
    let mut columns = Vec::new();
    for j in 0..d {
        let column: Vec<Ball> = (0..d).map(|i| Ball::exact(factor[i * d + j])).collect();
        columns.extend(back(&times(&column)));
    }
    (Array::of(&slope), Array::of(&columns).symmetric(d))
}

impl Array {
    /// The same symmetric matrix with equal numbers on both sides of the diagonal.
    fn symmetric(mut self, d: usize) -> Self {
        // both entries are within their radii of the same number
        for i in 0..d {
            for j in 0..i {
                self.mid[i * d + j] = self.mid[j * d + i];
            }
        }
        self.rad = up(2.0 * self.rad);
        self
    }
}
