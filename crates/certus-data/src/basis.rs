//! The columns that `scale`, `poly`, `bs` and `ns` make of a number, with R's conventions: fitted to the data of a fit
//! and kept with it, so that new data give the same functions.

use serde::{Deserialize, Serialize};

use crate::formula::Basis;

/// Functions of a number, as the data of a fit determined them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FittedBasis {
    /// The number.
    Itself,
    /// (x − center)/scale.
    Scale {
        /// The mean.
        center: f64,
        /// The standard deviation, divided by n − 1.
        scale: f64,
    },
    /// p₁, …, p_k with Σ pᵢpⱼ = δᵢⱼ over the rows of the fit: p₀ = 1, P₁ = x − α₀, and P_{j+1} = (x − αⱼ)Pⱼ −
    /// (νⱼ/ν_{j−1})P_{j−1}, where νⱼ = Σ Pⱼ² and pⱼ = Pⱼ/√νⱼ.
    Poly {
        /// α₀, …, α_{k−1}.
        alpha: Vec<f64>,
        /// ν₀, …, ν_k.
        norm2: Vec<f64>,
    },
    /// Cubic B-splines without the first; outside of the boundary the polynomials next to it go on.
    Bs {
        /// Inner knots.
        knots: Vec<f64>,
        /// Least and greatest value.
        boundary: [f64; 2],
    },
    /// Natural cubic splines, linear outside of the boundary: the B-splines without the first times a matrix whose
    /// columns have no second derivative at the boundary.
    Ns {
        /// Inner knots.
        knots: Vec<f64>,
        /// Least and greatest value.
        boundary: [f64; 2],
        /// Rows of the matrix, one per B-spline.
        matrix: Vec<Vec<f64>>,
    },
}

/// Why there is no such basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFewValues {
    /// Different values that it needs.
    pub(crate) needed: usize,
    /// Different values that there are.
    pub(crate) found: usize,
}

impl FittedBasis {
    /// Of the values of all rows, which are finite; they are sorted.
    pub(crate) fn fit(basis: Basis, values: &mut [f64]) -> Result<Self, TooFewValues> {
        let needed = match basis {
            Basis::Itself => return Ok(Self::Itself),
            Basis::Scale | Basis::Ns(_) | Basis::Bs(_) => 2,
            Basis::Poly(k) => k + 1,
        };
        let n = values.len() as f64;
        // the mean in the order of the rows, as everywhere
        let mean = values.iter().sum::<f64>() / n;
        let fitted = match basis {
            Basis::Itself => Self::Itself,
            Basis::Scale => {
                let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
                Self::Scale { center: mean, scale: (squares / (n - 1.0)).sqrt() }
            }
            Basis::Poly(k) => poly(k, values, mean),
            Basis::Bs(_) | Basis::Ns(_) => Self::Itself,
        };
        values.sort_by(f64::total_cmp);
        let found = 1 + values.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if found < needed {
            return Err(TooFewValues { needed, found });
        }
        let boundary = [values[0], values[values.len() - 1]];
        let inner = |count: usize| -> Result<Vec<f64>, TooFewValues> {
            let knots: Vec<f64> =
                (1..=count).map(|k| quantile(values, k as f64 / (count + 1) as f64)).collect();
            let all = [&boundary[..1], &knots, &boundary[1..]].concat();
            match all.windows(2).all(|pair| pair[0] < pair[1]) {
                true => Ok(knots),
                false => Err(TooFewValues { needed: (count + 2).max(found + 1), found }),
            }
        };
        Ok(match basis {
            Basis::Bs(k) => Self::Bs { knots: inner(k - 3)?, boundary },
            Basis::Ns(k) => {
                let knots = inner(k - 1)?;
                let matrix = natural(&knots, boundary);
                Self::Ns { knots, boundary, matrix }
            }
            _ => fitted,
        })
    }

    /// How many functions.
    pub(crate) fn columns(&self) -> usize {
        match self {
            Self::Itself | Self::Scale { .. } => 1,
            Self::Poly { alpha, .. } => alpha.len(),
            Self::Bs { knots, .. } => knots.len() + 3,
            Self::Ns { knots, .. } => knots.len() + 1,
        }
    }

    /// Their values at x.
    pub(crate) fn values(&self, x: f64) -> Vec<f64> {
        match self {
            Self::Itself => vec![x],
            Self::Scale { center, scale } => vec![(x - center) / scale],
            Self::Poly { alpha, norm2 } => {
                let (mut before, mut own) = (0.0, 1.0);
                let next = |j: usize| {
                    let ratio = if j == 0 { 0.0 } else { norm2[j] / norm2[j - 1] };
                    (before, own) = (own, (x - alpha[j]) * own - ratio * before);
                    own / norm2[j + 1].sqrt()
                };
                (0..alpha.len()).map(next).collect()
            }
            Self::Bs { knots, boundary } => splines(knots, *boundary, x)[1..].to_vec(),
            Self::Ns { knots, boundary, matrix } => {
                let inside = x.clamp(boundary[0], boundary[1]);
                let value = times(&splines(knots, *boundary, inside)[1..], matrix);
                if x == inside {
                    return value;
                }
                let slope = times(&derivative(knots, *boundary, inside, 1)[1..], matrix);
                value.iter().zip(slope).map(|(v, s)| v + s * (x - inside)).collect()
            }
        }
    }
}

/// Orthogonal polynomials by their recurrence, about the mean for accuracy.
fn poly(k: usize, values: &[f64], mean: f64) -> FittedBasis {
    let x: Vec<f64> = values.iter().map(|x| x - mean).collect();
    let (mut before, mut own) = (vec![0.0; x.len()], vec![1.0; x.len()]);
    let (mut alpha, mut norm2) = (Vec::new(), vec![x.len() as f64]);
    for j in 0..k {
        let mean_of = own.iter().zip(&x).map(|(p, x)| x * p * p).sum::<f64>() / norm2[j];
        let ratio = if j == 0 { 0.0 } else { norm2[j] / norm2[j - 1] };
        let mut next: Vec<f64> =
            (0..x.len()).map(|i| (x[i] - mean_of) * own[i] - ratio * before[i]).collect();
        norm2.push(next.iter().map(|p| p * p).sum());
        alpha.push(mean_of + mean);
        std::mem::swap(&mut before, &mut own);
        std::mem::swap(&mut own, &mut next);
    }
    FittedBasis::Poly { alpha, norm2 }
}

/// R's quantile of type 7, of sorted values.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let h = (sorted.len() - 1) as f64 * p;
    let low = (h + 4.0 * f64::EPSILON).floor();
    let (k, part) = (low as usize, h - low);
    let next = sorted[(k + 1).min(sorted.len() - 1)];
    if part.abs() < 1e-12 { sorted[k] } else { sorted[k] + part * (next - sorted[k]) }
}

/// All knots, those of the boundary four times.
fn all_knots(knots: &[f64], boundary: [f64; 2]) -> Vec<f64> {
    [&[boundary[0]; 4][..], knots, &[boundary[1]; 4]].concat()
}

/// Number of inner knots up to x, without those at the greatest value: the piece that x lies in, or the nearest.
fn piece(knots: &[f64], x: f64) -> usize {
    knots.iter().take_while(|knot| **knot <= x).count()
}

/// All B-splines of this degree at x, of which degree + 1 are not 0: de Boor's recurrence on the piece of x, whose
/// polynomials go on outside of the boundary.
fn of_degree(degree: usize, t: &[f64], place: usize, x: f64) -> Vec<f64> {
    let mut out = vec![0.0; t.len() - 1 - degree];
    let mut own = vec![1.0];
    for d in 1..=degree {
        let mut next = vec![0.0; d + 1];
        for r in 0..d {
            let (left, right) = (t[place + 1 + r - d], t[place + 1 + r]);
            let part = own[r] / (right - left);
            next[r] += (right - x) * part;
            next[r + 1] += (x - left) * part;
        }
        own = next;
    }
    out[place - degree..=place].copy_from_slice(&own);
    out
}

/// The cubic B-splines at x.
fn splines(knots: &[f64], boundary: [f64; 2], x: f64) -> Vec<f64> {
    of_degree(3, &all_knots(knots, boundary), 3 + piece(knots, x), x)
}

/// Their derivatives of this order (at most 3): B′ᵢ = d (Bᵢ/(tᵢ₊d − tᵢ) − Bᵢ₊₁/(tᵢ₊d₊₁ − tᵢ₊₁)) of the degree below.
fn derivative(knots: &[f64], boundary: [f64; 2], x: f64, order: usize) -> Vec<f64> {
    let t = all_knots(knots, boundary);
    let mut own = of_degree(3 - order, &t, 3 + piece(knots, x), x);
    for degree in 4 - order..=3 {
        let part = |i: usize| match t[i + degree] - t[i] {
            0.0 => 0.0,
            width => own[i] / width,
        };
        own = (0..own.len() - 1).map(|i| degree as f64 * (part(i) - part(i + 1))).collect();
    }
    own
}

/// R's basis of natural splines: with the second derivatives C at the boundary of the B-splines without the first, and
/// the Householder decomposition Cᵀ = Q R, the columns of Q after the second.
fn natural(knots: &[f64], boundary: [f64; 2]) -> Vec<Vec<f64>> {
    let mut columns: Vec<Vec<f64>> =
        boundary.iter().map(|x| derivative(knots, boundary, *x, 2)[1..].to_vec()).collect();
    let m = columns[0].len();
    let mut reflections: Vec<Vec<f64>> = Vec::new();
    for j in 0..2 {
        for u in &reflections {
            reflect(u, &mut columns[j]);
        }
        let mut u: Vec<f64> =
            columns[j].iter().enumerate().map(|(i, c)| if i < j { 0.0 } else { *c }).collect();
        let norm = u.iter().map(|c| c * c).sum::<f64>().sqrt();
        u[j] += if u[j] < 0.0 { -norm } else { norm };
        reflections.push(u);
    }
    // rows of Q: reflections of unit vectors, from the right
    let row = |i: usize| {
        let mut row: Vec<f64> = (0..m).map(|k| f64::from(u8::from(i == k))).collect();
        reflections.iter().for_each(|u| reflect(u, &mut row));
        row[2..].to_vec()
    };
    (0..m).map(row).collect()
}

/// x − 2 u uᵀx/uᵀu.
fn reflect(u: &[f64], x: &mut [f64]) {
    let (dot, square) = u.iter().zip(&*x).fold((0.0, 0.0), |(d, s), (u, x)| (d + u * x, s + u * u));
    x.iter_mut().zip(u).for_each(|(x, u)| *x -= 2.0 * dot / square * u);
}

/// A row times a matrix.
fn times(row: &[f64], matrix: &[Vec<f64>]) -> Vec<f64> {
    let mut out = vec![0.0; matrix[0].len()];
    for (x, own) in row.iter().zip(matrix) {
        out.iter_mut().zip(own).for_each(|(out, m)| *out += x * m);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(basis: Basis, values: &[f64]) -> FittedBasis {
        FittedBasis::fit(basis, &mut values.to_vec()).expect("enough values")
    }

    fn near(found: &[f64], known: &[f64], tolerance: f64) {
        assert_eq!(found.len(), known.len());
        let same = found.iter().zip(known).all(|(a, b)| (a - b).abs() <= tolerance);
        assert!(same, "{found:?} is not {known:?}");
    }

    /// The heights of R's `women`, 58 to 72.
    fn women() -> Vec<f64> {
        (58..=72).map(f64::from).collect()
    }

    /// Orthonormal, each of its degree, with a positive leading coefficient; on 1..5 they are integers over √10, √14.
    #[test]
    fn polynomials_are_those_of_r() {
        let own = fit(Basis::Poly(2), &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let (a, b) = (10f64.sqrt(), 14f64.sqrt());
        for (x, [p, q]) in [(1.0, [-2.0, 2.0]), (2.0, [-1.0, -1.0]), (3.0, [0.0, -2.0]), (7.0, [4.0, 14.0])] {
            near(&own.values(x), &[p / a, q / b], 1e-14);
        }
        let values: Vec<f64> = (0..200).map(|i| 1e4 + f64::from(i * i % 97)).collect();
        let own = fit(Basis::Poly(5), &values);
        let rows: Vec<Vec<f64>> = values.iter().map(|x| own.values(*x)).collect();
        for j in 0..5 {
            let sum = |k: usize| rows.iter().map(|row| row[j] * row[k]).sum::<f64>();
            for k in 0..5 {
                assert!((sum(k) - f64::from(u8::from(j == k))).abs() < 1e-11, "{j} {k} {}", sum(k));
            }
            assert!(rows.iter().map(|row| row[j]).sum::<f64>().abs() < 1e-9);
        }
        assert!(FittedBasis::fit(Basis::Poly(3), &mut [1.0, 2.0, 1.0, 3.0]).is_err());
    }

    /// Rows of `bs(women$height, df = 5)` by the recurrence in rational numbers, and of `ns(women$height, df = 5)` as R
    /// prints them.
    #[test]
    fn splines_are_those_of_r() {
        let own = fit(Basis::Bs(5), &women());
        let FittedBasis::Bs { knots, boundary } = &own else { panic!("{own:?}") };
        near(knots, &[58.0 + 14.0 / 3.0, 58.0 + 28.0 / 3.0], 1e-12);
        assert_eq!(*boundary, [58.0, 72.0]);
        near(&own.values(58.0), &[0.0; 5], 0.0);
        near(&own.values(59.0), &[4.53443878e-1, 5.98578717e-2, 1.63994169e-3, 0.0, 0.0], 1e-9);
        near(&own.values(72.0), &[0.0, 0.0, 0.0, 0.0, 1.0], 1e-15);
        let own = fit(Basis::Ns(5), &women());
        near(&own.values(58.0), &[0.0; 5], 1e-15);
        near(&own.values(59.0), &[7.592323e-3, 0.0, -8.670223e-2, 2.601067e-1, -1.734045e-1], 1e-7);
        near(&own.values(60.0), &[6.073858e-2, 0.0, -1.503044e-1, 4.509132e-1, -3.006088e-1], 1e-7);
    }

    /// The functions sum to one; outside of the boundary cubics go on as cubics, natural splines as lines.
    #[test]
    fn splines_go_on_outside() {
        let knots = [1.0, 2.5, 4.0];
        for x in [-1.0, 0.0, 0.7, 2.5, 4.9, 5.0, 6.0] {
            let sum: f64 = splines(&knots, [0.0, 5.0], x).iter().sum();
            assert!((sum - 1.0).abs() < 1e-13, "{x}: {sum}");
            let step = 1e-5;
            let ahead = splines(&knots, [0.0, 5.0], x + step);
            let behind = splines(&knots, [0.0, 5.0], x - step);
            let numeric: Vec<f64> = ahead.iter().zip(&behind).map(|(a, b)| (a - b) / (2.0 * step)).collect();
            near(&derivative(&knots, [0.0, 5.0], x, 1), &numeric, 1e-8);
        }
        let own = fit(Basis::Ns(4), &women());
        for (a, b, c) in [(50.0, 54.0, 58.0), (72.0, 75.0, 78.0)] {
            let [a, b, c] = [a, b, c].map(|x| own.values(x));
            let middle: Vec<f64> = a.iter().zip(&c).map(|(a, c)| (a + c) / 2.0).collect();
            near(&b, &middle, 1e-12);
        }
        let cubic = fit(Basis::Bs(4), &women());
        // fourth differences of a cubic vanish
        let at = |x: f64| cubic.values(x);
        for j in 0..4 {
            let d: f64 =
                [1.0, -4.0, 6.0, -4.0, 1.0].iter().zip(73..).map(|(c, x)| c * at(f64::from(x))[j]).sum();
            assert!(d.abs() < 1e-10);
        }
    }

    #[test]
    fn scaled_numbers_have_mean_0_and_sd_1() {
        let own = fit(Basis::Scale, &[1.0, 2.0, 3.0]);
        assert_eq!([0.0, 1.0, 4.0].map(|x| own.values(x)[0]), [-2.0, -1.0, 2.0]);
        let two = FittedBasis::fit(Basis::Scale, &mut [4.0, 4.0]);
        assert_eq!(two, Err(TooFewValues { needed: 2, found: 1 }));
        assert!(FittedBasis::fit(Basis::Bs(6), &mut [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]).is_err());
    }
}
