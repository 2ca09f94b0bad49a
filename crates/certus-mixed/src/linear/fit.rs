//! The fit of a linear mixed model: estimates on the user's scale, their standard errors and what is proved of them.

use certus::linalg;

use super::derivatives::{Derivatives, directions, traces};
use super::error::Error;
use super::layout::Place;
use super::moments::Moments;
use super::point::{Criterion, diagonal_of_square};
use super::proof::{Proof, prove};
use super::search::{Found, search};
use super::small;
use super::statistics::Statistics;

/// What of an effect's columns the fixed effects must leave, as a part of their sum of squares.
const CONFOUNDED: f64 = 1e-10;

/// The estimated covariance matrix of one term.
#[derive(Debug, Clone, PartialEq)]
pub struct TermFit {
    /// The lower Cholesky factor of Σ/σ², its lower triangle by columns: lme4's θ.
    pub theta: Vec<f64>,
    /// Standard deviations of the effects.
    pub sds: Vec<f64>,
    /// Their correlations, k × k; NaN beside an effect whose standard deviation is 0.
    pub correlations: Vec<f64>,
    /// The rank of Σ: below k it is singular, on the boundary.
    pub rank: usize,
    /// Standard errors of the log standard deviations, from the Hessian; empty if Σ is singular.
    pub log_sd_errors: Vec<f64>,
}

/// The fit.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearMixedFit {
    /// Which likelihood was maximised.
    pub criterion: Criterion,
    /// −2 log L at its minimum.
    pub value: f64,
    /// log L.
    pub log_likelihood: f64,
    /// Parameters of the variances: those of every Σ, and σ.
    pub variance_parameters: usize,
    /// The terms, in the order of the design.
    pub terms: Vec<TermFit>,
    /// σ.
    pub sigma: f64,
    /// The standard error of log σ.
    pub log_sigma_error: f64,
    /// β.
    pub fixed: Vec<f64>,
    /// Its covariance matrix, p × p.
    pub fixed_covariance: Vec<f64>,
    /// Newton steps.
    pub iterations: usize,
    /// Evaluations of the criterion.
    pub evaluations: usize,
    /// Newton's decrement at the end: about twice what is left to gain.
    pub decrement: f64,
    /// What is proved.
    pub proof: Proof,
    /// T of every term, k × k by columns.
    pub(super) factors: Vec<Vec<f64>>,
}

/// The estimate by REML or ML.
pub fn fit(statistics: &Statistics, criterion: Criterion) -> Result<LinearMixedFit, Error> {
    identified(statistics, criterion)?;
    let found = search(statistics, criterion)?;
    Ok(describe(statistics, criterion, &found))
}

/// Refuses terms whose standard deviation the criterion says nothing about: effects in the span of X, as many effects
/// as rows (docs/mixed.md, L2).
fn identified(s: &Statistics, criterion: Criterion) -> Result<(), Error> {
    for (term, place) in s.layout.places.iter().enumerate() {
        let columns = place.effects * s.layout.factors[place.factor].levels;
        if columns >= s.rows {
            return Err(Error::AsManyAsRows { term, columns, rows: s.rows });
        }
    }
    for (term, (place, rms)) in s.layout.places.iter().zip(s.rms()).enumerate() {
        for (effect, rms) in rms.iter().enumerate() {
            let all = rms * rms * s.rows as f64;
            let explained = if criterion == Criterion::Reml { explained(s, place, effect) } else { 0.0 };
            let left = all - explained;
            if left <= CONFOUNDED * all {
                return Err(Error::Confounded { term, effect });
            }
        }
    }
    Ok(())
}

/// What least squares on X explains of the columns of an effect: Σ_g c_gᵀ(XᵀX)⁻¹c_g, c_g = Xᵀz_g.
fn explained(s: &Statistics, place: &Place, effect: usize) -> f64 {
    let (p, width) = (s.layout.fixed, s.layout.fixed + 1);
    let mut factor: Vec<f64> = (0..p * p).map(|e| s.fixed[e / p * width + e % p]).collect();
    if !small::cholesky(&mut factor, p) {
        return 0.0;
    }
    let k = s.layout.factors[place.factor].effects;
    let of = |level: &[f64]| {
        let mut c: Vec<f64> = (0..p).map(|c| level[c * k + place.first + effect]).collect();
        small::forward(&factor, p, &mut c);
        small::inner(&c, &c)
    };
    s.cross[place.factor].chunks_exact(k * width).map(of).sum()
}

fn describe(s: &Statistics, criterion: Criterion, found: &Found<'_>) -> LinearMixedFit {
    let place = &found.place;
    let (point, slopes, p) = (&place.point, &place.slopes, s.layout.fixed);
    let m = point.freedom();
    let variance = point.q / m;
    let directions = directions(s, &place.frames);
    let derivatives = Derivatives::new(point, slopes, &directions);
    let moments = Moments::new(point, slopes);
    let e = traces(&moments, &directions);
    let hessian = place.bent(&directions, derivatives.hessian(&e));
    // Cov(S) = 2H⁻¹; log σ² given S has variance 2/m about log(Q/m)
    let d = directions.len();
    let mut factor = hessian;
    let regular = d == 0 || linalg::cholesky(&mut factor, d);
    let error = |along: &[f64], part: f64| -> f64 {
        if !regular {
            return f64::NAN;
        }
        let mut solved = along.to_vec();
        small::forward(&factor, d, &mut solved);
        (2.0 * small::inner(&solved, &solved) + part * 2.0 / m).sqrt()
    };
    let half: Vec<f64> = derivatives.q1.iter().map(|q| 0.5 * q).collect();
    let factors: Vec<Vec<f64>> = place.frames.iter().map(super::chart::Frame::t).collect();
    let mut terms = Vec::new();
    for (term, (frame, t)) in place.frames.iter().zip(&factors).enumerate() {
        let k = frame.k;
        let lower = linalg::lower_of_same_covariance(t, k);
        let relative = diagonal_of_square(t);
        let covariance = small::congruence(t, &small::identity(k), k);
        let along = |effect: usize| -> Vec<f64> {
            let of = |(v, half): (&super::derivatives::Direction, &f64)| {
                let change = if v.term == term {
                    let e = s.layout.part(&s.layout.places[term], &v.e);
                    e[effect * (k + 1)] / (2.0 * relative[effect] * relative[effect])
                } else {
                    0.0
                };
                change + half
            };
            directions.iter().zip(&half).map(of).collect()
        };
        terms.push(TermFit {
            theta: (0..k).flat_map(|j| (j..k).map(move |i| (i, j))).map(|(i, j)| lower[j * k + i]).collect(),
            sds: relative.iter().map(|r| r * variance.sqrt()).collect(),
            correlations: (0..k * k).map(|e| covariance[e] / (relative[e % k] * relative[e / k])).collect(),
            rank: frame.rank,
            log_sd_errors: if frame.rank == k {
                (0..k).map(|effect| error(&along(effect), 0.25)).collect()
            } else {
                Vec::new()
            },
        });
    }
    LinearMixedFit {
        criterion,
        value: point.value,
        log_likelihood: -0.5 * point.value,
        variance_parameters: 1 + place.frames.iter().map(|f| f.k * (f.k + 1) / 2).sum::<usize>(),
        terms,
        sigma: variance.sqrt(),
        log_sigma_error: error(&half, 0.25),
        fixed: (0..p).map(|i| s.base[i] + slopes.beta[i]).collect(),
        fixed_covariance: slopes.xi.iter().map(|x| x * variance).collect(),
        iterations: found.iterations,
        evaluations: found.evaluations,
        decrement: found.decrement,
        proof: prove(s, place, &moments),
        factors,
    }
}
