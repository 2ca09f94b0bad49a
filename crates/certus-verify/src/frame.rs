//! A claim's model in the frame of its Gaussian, y = C⁻¹(z − m), by one loop over the rows in double-double arithmetic:
//! the gradient of f and lower bounds of its curvature, with what is allowed for the f64 that the likelihood computes.

use super::claim::{Claim, ClaimFamily};
use super::double_double::Double;
use super::matrix::UNIT;
use super::quadrature::{Predictor, Rule};
use crate::error::Error;
use certus_likelihood::prior::Precision;
use certus_likelihood::{Datum, Likelihood};

/// Errors of E φ′ and E φ″(1, x, x²) per [`Likelihood::scale`]: φ′, φ″, the density and t are right to a few ulp each,
/// and so are the few operations in f64 that follow.
const ALLOWANCE: f64 = 64.0 * f64::EPSILON;

/// One row: t = mean + sd·x.
struct Place {
    at: Predictor,
    weight: f64,
    scale: f64,
    /// mean and ã err by at most these.
    shift: f64,
    delta: f64,
}

/// See the module.
pub(super) struct ClaimFrame<'a> {
    likelihood: &'a dyn Likelihood,
    d: usize,
    /// The rows of every column of the pattern, or `None` for all Gaussians.
    pub(super) columns: Option<Vec<Vec<usize>>>,
    places: Vec<Place>,
    /// ã = Cᵀa, row after row.
    whitened: Vec<Double>,
    /// J̃ = CᵀJC.
    prior: Vec<Double>,
    prior_error: f64,
    /// g_m.
    pub(super) mean: Vec<Double>,
    /// S, projected on the pattern.
    pub(super) factor: Vec<Double>,
    /// Their errors, in norm.
    pub(super) mean_error: f64,
    pub(super) factor_error: f64,
    rule: Rule,
}

impl<'a> ClaimFrame<'a> {
    pub(super) fn new(claim: &Claim, likelihood: &'a dyn Likelihood) -> Result<Self, Error> {
        let d = claim.dim();
        let mut frame = Self {
            likelihood,
            d,
            columns: columns(claim)?,
            places: Vec::new(),
            whitened: Vec::new(),
            prior: vec![Double::ZERO; d * d],
            prior_error: 0.0,
            mean: vec![Double::ZERO; d],
            factor: Vec::new(),
            mean_error: 0.0,
            factor_error: 0.0,
            rule: Rule::default(),
        };
        // |C_j·|, rounded up
        let sds: Vec<f64> = claim
            .factor
            .chunks(d)
            .map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt() * (1.0 + 1e-9))
            .collect();
        frame.prior(claim, &sds);
        frame.rows(claim, &sds);
        frame.gradient()?;
        Ok(frame)
    }

    /// J̃ and CᵀJ(m − μ₀).
    fn prior(&mut self, claim: &Claim, sds: &[f64]) {
        let d = self.d;
        let difference = |j: usize| Double::from(claim.mean[j]) - Double::from(claim.prior_mean[j]);
        let level = |j: usize| claim.mean[j].abs() + claim.prior_mean[j].abs();
        let mut add = |i: usize, j: usize, entry: f64| {
            if entry == 0.0 {
                return;
            }
            let (left, right) = (&claim.factor[i * d..][..d], &claim.factor[j * d..][..d]);
            let slope = Double::from(entry) * difference(j);
            for a in 0..d {
                let scaled = Double::from(left[a]) * Double::from(entry);
                self.mean[a] += Double::from(left[a]) * slope;
                for b in 0..d {
                    self.prior[a * d + b] += scaled * Double::from(right[b]);
                }
            }
            let rounding = (2 * d + 8) as f64 * (d as f64) * UNIT * entry.abs() * sds[i];
            self.prior_error += rounding * sds[j];
            self.mean_error += rounding * level(j);
        };
        match &claim.prior_precision {
            Precision::Diagonal(j) => (0..d).for_each(|i| add(i, i, j[i])),
            Precision::Dense(j) => (0..d * d).for_each(|k| add(k / d, k % d, j[k])),
        }
        self.factor_error = self.prior_error;
    }

    /// ã, mean and sd of every row. The sum of d products errs by γ Σ|a_j||C_j·| and γ(Σ|a_j m_j| + |o|).
    fn rows(&mut self, claim: &Claim, sds: &[f64]) {
        let d = self.d;
        let rounding = (d + 8) as f64 * UNIT;
        for (n, a) in claim.design.chunks(d).enumerate() {
            let mut mean = Double::from(claim.offset[n]);
            let (mut spread, mut level) = (0.0, claim.offset[n].abs());
            let first = self.whitened.len();
            self.whitened.resize(first + d, Double::ZERO);
            let turned = &mut self.whitened[first..];
            for j in 0..d {
                mean += Double::from(a[j]) * Double::from(claim.mean[j]);
                spread += a[j].abs() * sds[j];
                level += (a[j] * claim.mean[j]).abs();
                let entry = Double::from(a[j]);
                for (t, c) in turned.iter_mut().zip(&claim.factor[j * d..][..d]) {
                    if *c != 0.0 {
                        *t += entry * Double::from(*c);
                    }
                }
            }
            let sd = turned.iter().fold(Double::ZERO, |s, x| s + *x * *x).sqrt();
            let datum = Datum { y: claim.y[n], trials: claim.trials[n] };
            self.places.push(Place {
                at: Predictor { mean, sd, datum },
                weight: claim.weight[n],
                scale: self.likelihood.scale(mean.to_f64(), sd.to_f64(), datum),
                shift: rounding * level,
                delta: rounding * (spread + sd.to_f64()),
            });
        }
    }

    /// g_m = CᵀJ(m − μ₀) + Σ E φ′ ã and S = J̃ + Σ E φ″ ããᵀ − I. What a row's E φ′ and E φ″ err by is multiplied by |ã|
    /// and |ã|².
    fn gradient(&mut self) -> Result<(), Error> {
        let d = self.d;
        let mut s = self.prior.clone();
        for (n, place) in self.places.iter().enumerate() {
            let moments = self.rule.first(self.likelihood, &place.at);
            let (first, second) = moments.ok_or_else(|| out_of_range(n, &place.at))?;
            let weight = Double::from(place.weight);
            let (first, second) = (weight * first, weight * second);
            let row = &self.whitened[n * d..][..d];
            self.mean.iter_mut().zip(row).for_each(|(g, a)| *g += first * *a);
            add_outer(&mut s, row, second);
            // a moved t changes φ′ and φ″ by no more than their scale allows
            let own = place.weight * place.scale * (ALLOWANCE + 4.0 * (place.shift + place.delta));
            let (sd, delta) = (place.at.sd.to_f64() + place.delta, place.delta);
            self.mean_error += 1.001 * (sd * own + delta * first.to_f64().abs());
            self.factor_error += 1.001 * (sd * sd * own + delta * (2.0 * sd + delta) * second.to_f64());
        }
        mirror(&mut s, d);
        (0..d).for_each(|i| s[i * (d + 1)] -= Double::ONE);
        if let Some(columns) = &self.columns {
            let mut kept = vec![Double::ZERO; d * d];
            for (j, rows) in columns.iter().enumerate() {
                rows.iter().for_each(|&i| kept[i * d + j] = s[i * d + j]);
            }
            s = kept;
        }
        self.factor = s;
        let finite = self.mean.iter().chain(&self.factor).all(|x| x.is_finite());
        if !finite || !(self.mean_error + self.factor_error).is_finite() {
            return Err(Error::Malformed("the gradient of f is not finite".into()));
        }
        Ok(())
    }

    /// √(|g_m|² + |S|²/ω), errors included.
    pub(super) fn slope(&self, omega: f64) -> f64 {
        let square = |x: &[Double]| x.iter().fold(Double::ZERO, |s, x| s + *x * *x);
        let exact = (square(&self.mean) + square(&self.factor) / Double::from(omega)).sqrt().to_f64();
        exact * (1.0 + 1e-15) + self.mean_error + self.factor_error / omega.sqrt()
    }

    /// Q⁻ of every row on E_r (Lemma C): q₀ and q₂ from below, |q₁| from above, weighted. By Cauchy-Schwarz the
    /// rounding of mean and ã widens the reach by at most |(shift, √ω·delta)|.
    pub(super) fn lower(&mut self, radius: f64, omega: f64) -> Result<Vec<[f64; 3]>, Error> {
        let mut out = Vec::with_capacity(self.places.len());
        for (n, place) in self.places.iter().enumerate() {
            let widened = place.shift.hypot(omega.sqrt() * place.delta);
            let reach = (radius * (place.at.sd.to_f64() + place.delta) + widened) * (1.0 + 1e-15);
            let moments = self.rule.lower(self.likelihood, &place.at, radius, omega, reach);
            let [q0, q1, q2] = moments.ok_or_else(|| out_of_range(n, &place.at))?;
            let own = ALLOWANCE * place.scale;
            out.push([q0 - own, q1.abs() + own, q2 - own].map(|q| place.weight * q));
        }
        Ok(out)
    }

    /// θ_min of every row, weighted.
    pub(super) fn second_derivative_mins(&self) -> Vec<f64> {
        let least = |p: &Place| p.weight * self.likelihood.second_derivative_min(p.at.datum) * (1.0 - 1e-15);
        self.places.iter().map(least).collect()
    }

    /// J̃ + Σ k ããᵀ with a bound on its error.
    pub(super) fn curvature(&self, weights: impl Iterator<Item = f64>) -> (Vec<Double>, f64) {
        let d = self.d;
        let (mut h, mut error) = (self.prior.clone(), self.prior_error);
        let rounding = (self.places.len() + d + 8) as f64 * UNIT;
        for (n, k) in weights.enumerate().filter(|(_, k)| *k != 0.0) {
            add_outer(&mut h, &self.whitened[n * d..][..d], Double::from(k));
            let (sd, delta) = (self.places[n].at.sd.to_f64(), self.places[n].delta);
            error += k * (rounding * sd * sd + delta * (2.0 * sd + 2.0 * delta));
        }
        mirror(&mut h, d);
        (h, 1.001 * error)
    }
}

/// Lower triangle of h += k a aᵀ.
fn add_outer(h: &mut [Double], a: &[Double], k: Double) {
    let d = a.len();
    for i in 0..d {
        let scaled = k * a[i];
        h[i * d..][..=i].iter_mut().zip(a).for_each(|(h, a)| *h += scaled * *a);
    }
}

fn mirror(h: &mut [Double], d: usize) {
    for i in 0..d {
        for j in 0..i {
            h[j * d + i] = h[i * d + j];
        }
    }
}

fn out_of_range(row: usize, at: &Predictor) -> Error {
    let sd = at.sd.to_f64();
    Error::Declined(format!(
        "row {row}: the linear predictor has the sd {sd:.3e}, which is too large for the trapezoid rule"
    ))
}

/// For every column j of the pattern the rows i ≥ j that have j's block as an ancestor or as their own.
fn columns(claim: &Claim) -> Result<Option<Vec<Vec<usize>>>, Error> {
    let ClaimFamily::Pattern { sizes, parents } = &claim.family else { return Ok(None) };
    let d = claim.dim();
    let total = sizes.iter().try_fold(0_usize, |sum, s| sum.checked_add(*s));
    if sizes.len() != parents.len() || total != Some(d) || sizes.contains(&0) {
        return Err(Error::Malformed(format!("the blocks of the pattern do not cover {d} coordinates")));
    }
    if let Some(k) = (0..parents.len()).find(|&k| parents[k].is_some_and(|p| p >= k)) {
        return Err(Error::Malformed(format!("block {k} of the pattern comes before its parent")));
    }
    let starts: Vec<usize> = sizes.iter().scan(0, |s, x| Some(std::mem::replace(s, *s + x))).collect();
    let mut columns = vec![Vec::new(); d];
    for (k, size) in sizes.iter().enumerate() {
        let mut above = Some(k);
        while let Some(a) = above {
            for j in starts[a]..starts[a] + sizes[a] {
                columns[j].extend((starts[k]..starts[k] + size).filter(|i| *i >= j));
            }
            above = parents[a];
        }
    }
    columns.iter_mut().for_each(|rows| rows.sort_unstable());
    Ok(Some(columns))
}

/// Checks that C belongs to the family: invertible, or on the pattern with a positive diagonal.
pub(super) fn check_factor(claim: &Claim) -> Result<(), Error> {
    let (d, c) = (claim.dim(), &claim.factor);
    let Some(columns) = columns(claim)? else {
        let mut gram = vec![Double::ZERO; d * d];
        for row in c.chunks(d) {
            let row: Vec<Double> = row.iter().map(|x| Double::from(*x)).collect();
            add_outer(&mut gram, &row, Double::ONE);
        }
        mirror(&mut gram, d);
        let invertible = super::matrix::all_above(&gram, d, 0.0);
        return if invertible { Ok(()) } else { Err(Error::Malformed("the factor is singular".into())) };
    };
    let mut rest = c.clone();
    columns.iter().enumerate().for_each(|(j, rows)| rows.iter().for_each(|&i| rest[i * d + j] = 0.0));
    if rest.iter().any(|x| *x != 0.0) || (0..d).any(|i| c[i * (d + 1)] <= 0.0) {
        return Err(Error::Malformed("the factor is not on its pattern with a positive diagonal".into()));
    }
    Ok(())
}
