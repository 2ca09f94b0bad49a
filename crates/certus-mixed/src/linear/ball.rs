//! A ball with exactly one stationary point of the criterion (docs/mixed.md, L1).

use certus::linalg;

use super::derivatives::Direction;
use super::rounding::Verified;
use super::small;

/// Roundings of an sd from T and Q, with up to a hundred effects.
const ROOTS: f64 = 1e-13;

/// Why nothing is proved.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unproved {
    /// A singular covariance matrix of several effects, one of which has hardly any variance beside the others.
    #[error(
        "the covariance matrix of term {term} is singular, and a variance is too small beside the others for a proof"
    )]
    Singular {
        /// The term.
        term: usize,
    },
    /// The Hessian is not positive definite.
    #[error("the Hessian of the criterion is not positive definite: the data hardly determine the variances")]
    Flat,
    /// The estimate is too far from a stationary point for the size of third derivatives.
    #[error(
        "the estimate is {epsilon:e} from a stationary point, too far for the third derivatives (at most {radius:e})"
    )]
    TooFar {
        /// ε.
        epsilon: f64,
        /// The largest ε that would do.
        radius: f64,
    },
    /// Sums of rows, or what is computed from them, may have lost too many digits.
    #[error(
        "rounding may hide the derivatives of the criterion: columns that can hardly be told apart, or group effects \
         far larger than the noise; subtract a constant from columns that are far from 0"
    )]
    Rounding,
    /// The criterion does not increase enough away from 0.
    #[error(
        "the criterion hardly increases where the standard deviation of term {term} leaves 0 (derivative {slope:e})"
    )]
    Level {
        /// The term.
        term: usize,
        /// The derivative at 0, in units of the frame.
        slope: f64,
    },
}

/// L1: a minimum in {SᵀHS ≤ inner²}, and no other stationary point in {SᵀHS ≤ outer²}. S is relative to the estimate:
/// Σ = T(I + S)Tᵀ.
#[derive(Debug, Clone, PartialEq)]
pub struct Ball {
    /// ε, at least ‖∂F‖ in H⁻¹ (R1 included).
    pub epsilon: f64,
    /// What of it is the bound on rounding, R1.
    pub rounding: f64,
    /// By how much of itself the Q that σ is computed from is off at most.
    pub noise_error: f64,
    /// r₀.
    pub inner: f64,
    /// r.
    pub outer: f64,
    /// Whether the stationary point is the only one, and a strict minimum: C′(r₀) < 1.
    pub unique: bool,
    /// Terms that the ball is about.
    pub terms: Vec<usize>,
    /// Per such term, by how much of itself Σ_f/σ² is off at most.
    pub relative_error: Vec<f64>,
    /// Per such term d_f: no other stationary point with ‖S_f‖ ≤ d_f for all f.
    pub excluded: Vec<f64>,
}

impl Ball {
    /// The same with a smaller outer radius.
    pub(super) fn within(mut self, radius: f64) -> Self {
        let part = (radius / self.outer).min(1.0);
        self.outer *= part;
        self.excluded.iter_mut().for_each(|d| *d *= part);
        self
    }

    /// The factors between which every sd of the ball's term `index` is right, σ included.
    pub fn sd_factors(&self, index: usize) -> (f64, f64) {
        let (own, all) =
            (self.relative_error[index], self.relative_error.iter().copied().fold(0.0, f64::max));
        // R1: of Q, and of the roots that make an sd of T and Q
        let noise = self.noise_error + ROOTS;
        let low = ((1.0 - own) / (1.0 + all)).max(0.0).sqrt() * (1.0 - noise);
        (low, ((1.0 + own) / (1.0 - all)).sqrt() * (1.0 + noise))
    }
}

/// What L1 and L2 use of the derivatives along directions of terms.
pub(super) struct Constants<'a> {
    pub(super) directions: &'a [Direction],
    pub(super) at: &'a Verified,
    /// W of every term.
    pub(super) units: &'a [Vec<f64>],
}

/// The part of a d × d matrix with these rows and columns.
pub(super) fn part(matrix: &[f64], d: usize, rows: &[usize], columns: &[usize]) -> Vec<f64> {
    columns.iter().flat_map(|&j| rows.iter().map(move |&i| matrix[j * d + i])).collect()
}

/// λ_max(H⁻¹A) with H = LLᵀ.
pub(super) fn largest(l: &[f64], a: &[f64], d: usize) -> Option<f64> {
    let mut x = a.to_vec();
    x.chunks_exact_mut(d).for_each(|c| small::forward(l, d, c));
    let mut x = small::transposed(&x, d);
    x.chunks_exact_mut(d).for_each(|c| small::forward(l, d, c));
    for j in 0..d {
        for i in 0..j {
            x[j * d + i] = x[i * d + j];
        }
    }
    linalg::extreme_eigenvalues(&x, d).map(|(_, top)| top.max(0.0))
}

/// ‖v‖ in H⁻¹.
pub(super) fn dual(l: &[f64], v: &[f64]) -> f64 {
    let mut x = v.to_vec();
    small::forward(l, v.len(), &mut x);
    small::inner(&x, &x).sqrt()
}

/// Everything that the radii of L1 are functions of.
pub(super) struct Radii {
    pub(super) m: f64,
    pub(super) omega: f64,
    pub(super) trace: f64,
    pub(super) quadratic: f64,
    pub(super) slope: f64,
    /// η: at least (1 − η)H̃ ⪯ H for the computed H̃.
    pub(super) eta: f64,
    /// √(H̃⁻¹)_ii.
    pub(super) roots: Vec<f64>,
    /// For the rounding of what is solved with the factor of H̃.
    pub(super) grown: f64,
}

impl Radii {
    /// C(r) of L1.
    pub(super) fn cubic(&self, r: f64) -> f64 {
        let s = r * self.omega;
        if s >= 1.0 {
            return f64::INFINITY;
        }
        let (kappa, f) = (s / (1.0 - s), (1.0 + s) / (1.0 - s).powi(3));
        let first = kappa.min(self.slope * r + f * self.quadratic * r * r / self.m);
        2.0 * kappa * self.trace / (1.0 - s).powi(2) + 3.0 * f * self.quadratic * (kappa + first)
    }

    /// C′(r), (4).
    fn convex(&self, r: f64) -> f64 {
        let (s, m, omega) = (r * self.omega, self.m, self.omega);
        if s >= 1.0 {
            return f64::INFINITY;
        }
        let (kappa, f) = (s / (1.0 - s), (1.0 + s) / (1.0 - s).powi(3));
        let root = self.quadratic.sqrt() + kappa * omega * (2.0 * m).sqrt() / (1.0 - s).powf(1.5);
        let grown = (1.0 + s) / (1.0 - s) * root * root;
        let first = kappa.min(self.slope * r + f * self.quadratic * r * r / m);
        2.0 * kappa * self.trace / (1.0 - s).powi(2)
            + kappa * grown
            + 4.0 * kappa * omega * (0.5 * m * grown).sqrt() / (1.0 - s)
            + grown * first
            + std::f64::consts::SQRT_2 * grown * (f * self.quadratic / m).sqrt() * r
    }

    /// The largest r with C(r) ≤ 1.
    fn reach(&self) -> f64 {
        let (mut low, mut high) = (0.0, 1.0 / self.omega);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if self.cubic(middle) <= 1.0 { low = middle } else { high = middle }
        }
        low
    }
}

/// The factor of H̃ on `rows`, and its radii; `groups` are the positions of each term's directions in `rows`.
pub(super) fn radii(
    c: &Constants<'_>,
    rows: &[usize],
    groups: &[Vec<usize>],
) -> Option<(Vec<f64>, Radii, Vec<f64>)> {
    let (at, all, d) = (c.at, c.at.gradient.len(), rows.len());
    let mut l = part(&at.hessian, all, rows, rows);
    if !linalg::cholesky(&mut l, d) {
        return None;
    }
    let inverse = linalg::inverse_of_factor(&l, d);
    // the factor and what is solved with it have roundings of their own
    let (size, inverse_size) = (small::inner(&l, &l), (0..d).map(|i| inverse[i * (d + 1)]).sum::<f64>());
    let rounding = 64.0 * d as f64 * f64::EPSILON;
    let grown = 1.0 + rounding * (size * inverse_size).sqrt();
    let roots: Vec<f64> = (0..d).map(|i| grown * inverse[i * (d + 1)].sqrt()).collect();
    let weighed = |errors: &[f64]| -> f64 {
        let errors = part(errors, all, rows, rows);
        (0..d * d).map(|e| errors[e] * roots[e % d] * roots[e / d]).sum()
    };
    let eta = weighed(&at.hessian_error) + rounding * size * inverse_size;
    // NaN is no proof
    if !(grown < 1.1 && eta < 0.25) {
        return None;
    }
    let top = |a: &[f64], errors: &[f64]| -> Option<f64> {
        let a = part(a, all, rows, rows);
        let own = rounding * inverse_size * small::inner(&a, &a).sqrt();
        Some(grown * largest(&l, &a, d)? + own + weighed(errors))
    };
    let extents: Option<Vec<f64>> = groups
        .iter()
        .map(|g| {
            let (_, top) = linalg::extreme_eigenvalues(&part(&inverse, d, g, g), g.len())?;
            Some(grown * top.sqrt())
        })
        .collect();
    let extents = extents?;
    let q1: Vec<f64> = rows.iter().map(|&i| at.q1[i]).collect();
    let off: f64 = rows.iter().zip(&roots).map(|(&i, root)| at.q1_error[i] * root).sum();
    let radii = Radii {
        m: at.m,
        omega: extents.iter().copied().fold(0.0, f64::max),
        trace: top(&at.e, &at.e_error)?,
        quadratic: at.m * top(&at.q2, &at.q2_error)?,
        slope: grown * dual(&l, &q1) + off,
        eta,
        roots,
        grown,
    };
    Some((l, radii, extents))
}

/// Theorem L1 for the directions `rows`.
pub(super) fn ball(c: &Constants<'_>, rows: &[usize]) -> Result<Ball, Unproved> {
    let mut terms: Vec<usize> = rows.iter().map(|&i| c.directions[i].term).collect();
    terms.dedup();
    let own = |term: usize| (0..rows.len()).filter(|&i| c.directions[rows[i]].term == term).collect();
    let groups: Vec<Vec<usize>> = terms.iter().map(|&t| own(t)).collect();
    let (l, radii, extents) = radii(c, rows, &groups).ok_or(Unproved::Flat)?;
    let gradient: Vec<f64> = rows.iter().map(|&i| c.at.gradient[i]).collect();
    let d = rows.len();
    let rounding: f64 = rows.iter().zip(&radii.roots).map(|(&i, root)| c.at.gradient_error[i] * root).sum();
    let epsilon = radii.grown * dual(&l, &gradient) + rounding;
    let outer = radii.reach();
    let inner = epsilon / (1.0 - radii.eta - 0.5 * radii.cubic(outer));
    if inner.is_nan() || inner >= outer {
        return Err(Unproved::TooFar { epsilon, radius: 0.5 * outer });
    }
    // d_f = ω_f r/(Σ ‖H_fg‖ √(k_f k_g) ω_f ω_g)^½
    let hessian = part(&c.at.hessian, c.at.gradient.len(), rows, rows);
    let effects: Vec<f64> = terms.iter().map(|&t| term_effects(c, t)).collect();
    let mut total = 0.0;
    for (f, left) in groups.iter().enumerate() {
        for (g, right) in groups.iter().enumerate() {
            let block = small::norm(&part(&hessian, d, left, right), left.len(), right.len());
            total += block * (effects[f] * effects[g]).sqrt() * extents[f] * extents[g];
        }
    }
    // for the rounding of the factor of H
    let total = (1.0 + radii.eta) * total;
    Ok(Ball {
        epsilon,
        rounding,
        noise_error: c.at.q_error,
        inner,
        outer,
        unique: radii.convex(inner) < 1.0 - radii.eta,
        relative_error: extents.iter().map(|w| w * inner).collect(),
        excluded: extents.iter().map(|w| w * outer / total.sqrt()).collect(),
        terms,
    })
}

fn term_effects(c: &Constants<'_>, term: usize) -> f64 {
    let direction = c.directions.iter().find(|v| v.term == term);
    direction.map_or(1.0, |v| (v.basis.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::chart::Frame;
    use super::super::derivatives::{Derivatives, directions, traces};
    use super::super::moments::Moments;
    use super::super::point::{Criterion, Point};
    use super::super::sample::{Noise, random};
    use super::super::search::Place;
    use super::*;

    /// Lemma 2: what Taylor's series of second order leaves is at most a sixth of (3), at random centres, for
    /// directions of size 0.02 to 0.9. The bound is sharp enough to be worth something: some remainder reaches 5 % of
    /// it.
    #[test]
    fn third_derivatives_are_bounded() {
        let mut noise = Noise(11);
        let mut worst: f64 = 0.0;
        type Case = (&'static [usize], &'static [(usize, usize)]);
        let cases: [Case; 4] = [
            (&[6], &[(0, 1)]),
            (&[8], &[(0, 2)]),
            (&[9, 4], &[(0, 1), (1, 1)]),
            (&[6, 5], &[(0, 2), (1, 1)]),
        ];
        for (case, criterion) in cases.iter().flat_map(|c| [(c, Criterion::Reml), (c, Criterion::Ml)]) {
            let s = random(case.0, case.1, 40, &mut noise);
            for _ in 0..15 {
                let frames: Vec<Frame> = case
                    .1
                    .iter()
                    .map(|&(_, k)| {
                        let size = (1.5 * noise.next()).exp();
                        let mut w: Vec<f64> = (0..k * k).map(|_| 0.6 * size * noise.next()).collect();
                        (0..k).for_each(|i| w[i * (k + 1)] += size);
                        Frame { k, rank: k, w }
                    })
                    .collect();
                let place = Place::at(&s, criterion, frames.clone()).unwrap();
                let directions = directions(&s, &frames);
                let derivatives = Derivatives::new(&place.point, &place.slopes, &directions);
                let e = traces(&Moments::new(&place.point, &place.slopes), &directions);
                let (h, d, m) = (derivatives.hessian(&e), directions.len(), place.point.freedom());
                for _ in 0..10 {
                    let mut x: Vec<f64> = (0..d).map(|_| noise.next()).collect();
                    let matrices = |x: &[f64]| {
                        let mut out: Vec<Vec<f64>> = frames.iter().map(|f| vec![0.0; f.k * f.k]).collect();
                        for (v, x) in directions.iter().zip(x) {
                            out[v.term].iter_mut().zip(&v.basis).for_each(|(s, b)| *s += x * b);
                        }
                        out
                    };
                    let norm = |x: &[f64]| {
                        matrices(x)
                            .iter()
                            .map(|s| small::norm(s, s.len().isqrt(), s.len().isqrt()))
                            .fold(0.0, f64::max)
                    };
                    let size = 0.02 + 0.44 * (noise.next() + 1.0);
                    let scale = size / norm(&x);
                    x.iter_mut().for_each(|x| *x *= scale);
                    let terms: Vec<Vec<f64>> = frames
                        .iter()
                        .zip(matrices(&x))
                        .map(|(f, mut s)| {
                            (0..f.k).for_each(|i| s[i * (f.k + 1)] += 1.0);
                            assert!(small::cholesky(&mut s, f.k));
                            (0..f.k).for_each(|j| (0..j).for_each(|i| s[j * f.k + i] = 0.0));
                            small::product(&f.w, &s, f.k)
                        })
                        .collect();
                    let value = Point::new(&s, criterion, &terms).unwrap().value;
                    let form = |a: &[f64]| -> f64 { (0..d * d).map(|i| a[i] * x[i % d] * x[i / d]).sum() };
                    let series = place.point.value + small::inner(&derivatives.gradient, &x) + 0.5 * form(&h);
                    // (3) at this direction
                    let radii = Radii {
                        m,
                        omega: size,
                        trace: form(&e),
                        quadratic: m * form(&derivatives.q2),
                        slope: small::inner(&derivatives.q1, &x).abs(),
                        eta: 0.0,
                        roots: Vec::new(),
                        grown: 1.0,
                    };
                    let bound = radii.cubic(1.0);
                    let left = (value - series).abs();
                    assert!(left <= bound / 6.0 + 1e-9, "{case:?} {size}: {left} {bound}");
                    worst = worst.max(left / (bound / 6.0 + 1e-9));
                }
            }
        }
        assert!(worst > 0.05 && worst < 1.0, "{worst}");
    }
}
