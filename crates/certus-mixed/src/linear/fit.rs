//! The fit of a linear mixed model: estimates on the user's scale, their standard errors and what is proved of them.

use certus::linalg;

use super::derivatives::{Derivatives, directions, traces};
use super::error::Error;
use super::layout::Place;
use super::moments::Moments;
use super::point::{Criterion, diagonal_of_square};
use super::proof::{Proof, prove};
use super::search::{Found, at_ratios, search, search_from};
use super::small;
use super::statistics::Statistics;

/// What of an effect's columns the fixed effects must leave, as a part of their sum of squares.
const CONFOUNDED: f64 = 1e-10;

/// The largest condition number that the effects of a factor may have.
const HARDLY: f64 = 2e7;

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

impl TermFit {
    /// Pairs of effects, i > j, in the order in which correlations are listed.
    pub fn pairs(effects: usize) -> impl Iterator<Item = (usize, usize)> {
        (1..effects).flat_map(|i| (0..i).map(move |j| (i, j)))
    }
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
    /// The covariance matrix, from the Hessian, of: per term the log standard deviations of its effects, then the
    /// artanh of their correlations ([`TermFit::pairs`]); log σ last. Rows of a term whose Σ is singular are 0.
    pub covariance: Vec<f64>,
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

/// The same from where [`super::global`] found the criterion to be lower: variance ratios of terms with one effect
/// each.
pub fn fit_from(
    statistics: &Statistics,
    criterion: Criterion,
    ratios: &[f64],
) -> Result<LinearMixedFit, Error> {
    identified(statistics, criterion)?;
    let found = search_from(statistics, criterion, at_ratios(statistics, ratios))?;
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
    for (factor, condition) in s.conditions().into_iter().enumerate() {
        if condition > HARDLY {
            let term = s.layout.places.iter().position(|p| p.factor == factor).unwrap_or(0);
            return Err(Error::IllConditioned { term, condition });
        }
    }
    for (term, (place, rms)) in s.layout.places.iter().zip(s.rms()).enumerate() {
        for (effect, rms) in rms.iter().enumerate() {
            let all = rms * rms * s.weight;
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
    // functionals of (S, log σ²): what they are along S in the frame of H, and along log σ²
    let mut functionals: Vec<Option<(Vec<f64>, f64)>> = Vec::new();
    let solved = |mut along: Vec<f64>| -> Vec<f64> {
        small::forward(&factor, d, &mut along);
        along
    };
    let covariance =
        |a: &(Vec<f64>, f64), b: &(Vec<f64>, f64)| 2.0 * small::inner(&a.0, &b.0) + a.1 * b.1 * 2.0 / m;
    let half: Vec<f64> = derivatives.q1.iter().map(|q| 0.5 * q).collect();
    let factors: Vec<Vec<f64>> = place.frames.iter().map(super::chart::Frame::t).collect();
    let mut terms = Vec::new();
    for (term, (frame, t)) in place.frames.iter().zip(&factors).enumerate() {
        let k = frame.k;
        let lower = linalg::lower_of_same_covariance(t, k);
        let relative = diagonal_of_square(t);
        let square = small::congruence(t, &small::identity(k), k);
        let correlations: Vec<f64> =
            (0..k * k).map(|e| square[e] / (relative[e % k] * relative[e / k])).collect();
        // d log √S_ii = E_ii/2S_ii, the same relative to S_ij for correlations
        let changes: Vec<Option<Vec<f64>>> = directions
            .iter()
            .map(|v| (v.term == term).then(|| s.layout.part(&s.layout.places[term], &v.e)))
            .collect();
        let log_sd = |e: &[f64], i: usize| e[i * (k + 1)] / (2.0 * relative[i] * relative[i]);
        let first = functionals.len();
        let known = regular && frame.rank == k;
        let all = 0..k + k * (k - 1) / 2;
        functionals.extend(all.map(|_| None));
        if known {
            for i in 0..k {
                let each = changes.iter().zip(&half);
                let of =
                    |(e, half): (&Option<Vec<f64>>, &f64)| half + e.as_ref().map_or(0.0, |e| log_sd(e, i));
                functionals[first + i] = Some((solved(each.map(of).collect()), 0.5));
            }
            for (at, (i, j)) in TermFit::pairs(k).enumerate() {
                let r = correlations[j * k + i];
                let of = |e: &[f64]| {
                    let own = e[j * k + i] / (relative[i] * relative[j]);
                    (own - r * (log_sd(e, i) + log_sd(e, j))) / (1.0 - r * r)
                };
                let along = changes.iter().map(|e| e.as_ref().map_or(0.0, |e| of(e))).collect();
                functionals[first + k + at] = Some((solved(along), 0.0));
            }
        }
        terms.push(TermFit {
            theta: (0..k).flat_map(|j| (j..k).map(move |i| (i, j))).map(|(i, j)| lower[j * k + i]).collect(),
            sds: relative.iter().map(|r| r * variance.sqrt()).collect(),
            correlations,
            rank: frame.rank,
            log_sd_errors: if frame.rank == k {
                let error = |f: &Option<_>| f.as_ref().map_or(f64::NAN, |f| covariance(f, f).sqrt());
                functionals[first..first + k].iter().map(error).collect()
            } else {
                Vec::new()
            },
        });
    }
    functionals.push(regular.then(|| (solved(half), 0.5)));
    let count = functionals.len();
    let entry = |e: usize| match (&functionals[e % count], &functionals[e / count]) {
        (Some(a), Some(b)) => covariance(a, b),
        _ => 0.0,
    };
    LinearMixedFit {
        criterion,
        value: point.value,
        log_likelihood: -0.5 * point.value,
        variance_parameters: 1 + place.frames.iter().map(|f| f.k * (f.k + 1) / 2).sum::<usize>(),
        terms,
        sigma: variance.sqrt(),
        log_sigma_error: functionals[count - 1].as_ref().map_or(f64::NAN, |f| covariance(f, f).sqrt()),
        covariance: (0..count * count).map(entry).collect(),
        fixed: (0..p).map(|i| s.base[i] + slopes.beta[i]).collect(),
        fixed_covariance: slopes.xi.iter().map(|x| x * variance).collect(),
        iterations: found.iterations,
        evaluations: found.evaluations,
        decrement: found.decrement,
        proof: prove(s, place),
        factors,
    }
}

#[cfg(test)]
mod tests {
    use super::super::point::Point;
    use super::super::sample::{Noise, random};
    use super::*;

    /// −2 log L at (log sds, artanh correlation) of two effects and log σ.
    fn criterion(s: &Statistics, criterion: Criterion, at: &[f64]) -> f64 {
        let [a, b] = [at[0], at[1]].map(|x| (x - at[3]).exp());
        let r = at[2].tanh();
        let t = vec![a, r * b, 0.0, (1.0 - r * r).sqrt() * b];
        let point = Point::new(s, criterion, &[t]).expect("finite");
        let m = point.freedom();
        let ratio = point.q / (m * (2.0 * at[3]).exp());
        point.value + m * (ratio - ratio.ln() - 1.0)
    }

    /// The stated covariance matrix is the inverse of half the Hessian, by differences.
    #[test]
    fn covariances_are_those_of_the_criterion() {
        let s = random(&[12], &[(0, 2)], 150, &mut Noise(5));
        for kind in [Criterion::Reml, Criterion::Ml] {
            let found = fit(&s, kind).expect("converges");
            let term = &found.terms[0];
            assert_eq!(term.rank, 2);
            let r = term.correlations[1];
            let at = [term.sds[0].ln(), term.sds[1].ln(), r.atanh(), found.sigma.ln()];
            let (step, n) = (1e-3, 4);
            let moved = |i: usize, x: f64, j: usize, y: f64| {
                let mut to = at;
                to[i] += x;
                to[j] += y;
                criterion(&s, kind, &to)
            };
            let second = |i: usize, j: usize| {
                let pairs = [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)];
                let sum: f64 = pairs.map(|(a, b)| a * b * moved(i, a * step, j, b * step)).iter().sum();
                sum / (4.0 * step * step)
            };
            // half the Hessian times the covariance is the identity
            for i in 0..n {
                for j in 0..n {
                    let product: f64 = (0..n).map(|l| 0.5 * second(i, l) * found.covariance[l * n + j]).sum();
                    assert!(
                        (product - f64::from(u8::from(i == j))).abs() < 1e-3,
                        "{kind:?} {i} {j} {product}"
                    );
                }
            }
        }
    }
}
