//! The fit: estimates on the user's scale, their standard errors, and how well the likelihood is known.

use super::corrected::{Sampling, trusted};
use super::error::Error;
use super::inner::Inner;
use super::layout::{Layout, MOST, lower};
use super::model::CrossedModel;
use super::nested::proved_likelihood;
use super::search::{Search, Watch, solved};
use crate::linear::TermFit;

/// Which likelihood is maximised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The Laplace approximation of all effects at their joint mode, as lme4 has it with `nAGQ = 1`.
    Laplace,
    /// The largest factor integrated out, the Laplace approximation of the rest corrected by importance sampling.
    Corrected(Sampling),
}

/// How well the corrected likelihood is known. All of it is estimated, but for `proved`.
#[derive(Debug, Clone, PartialEq)]
pub struct Correction {
    /// Λ, the Laplace approximation after the largest factor is integrated out.
    pub approximation: f64,
    /// c = log L − Λ.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Draws of each set, and independent sets.
    pub draws: usize,
    /// Independent sets.
    pub sets: usize,
    /// The smallest effective part of the draws of a component.
    pub efficiency: f64,
    /// The largest k̂ of a component, of those whose draws are not nearly all effective.
    pub k_hat: Option<f64>,
    /// Components, and those of them that were sampled (the others have one kept effect, or none, and a sum).
    pub components: usize,
    /// Components that were sampled.
    pub sampled: usize,
    /// Monte-Carlo standard errors of (β, θ).
    pub noise: Vec<f64>,
    /// False if the weights say nothing (k̂ above 0.7, or fewer than 1 in 20 draws effective): estimates are then those
    /// of Λ.
    pub trusted: bool,
    /// N1: what the log likelihood of the fit is off at most, for two nested factors; nothing else is proved.
    pub proved: Option<f64>,
}

/// The fit.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossedFit {
    /// Which likelihood was maximised.
    pub method: Method,
    /// Its logarithm at the maximum.
    pub log_likelihood: f64,
    /// β.
    pub fixed: Vec<f64>,
    /// Its covariance matrix, p × p, θ estimated too.
    pub fixed_covariance: Vec<f64>,
    /// The terms, in the order of the design; θ is T itself.
    pub terms: Vec<TermFit>,
    /// The covariance matrix, from the Hessian, of: per term the log standard deviations of its effects, then the
    /// artanh of their correlations ([`TermFit::pairs`]). Rows of a term whose Σ is singular are 0.
    pub covariance: Vec<f64>,
    /// Covariances of β (rows, p of them) with the parameters of the covariance matrix above, by columns.
    pub with_fixed: Vec<f64>,
    /// Monte-Carlo standard errors of the log standard deviations, term by term; 0 without sampling.
    pub log_sd_noise: Vec<f64>,
    /// Steps.
    pub iterations: usize,
    /// Evaluations of the criterion.
    pub evaluations: usize,
    /// Newton's decrement at the end.
    pub decrement: f64,
    /// What is known of the corrected likelihood.
    pub correction: Option<Correction>,
    /// (β, θ).
    pub parameters: Vec<f64>,
    /// Parameters that are not held at 0, and the Hessian of −log L in them.
    pub(super) free: Vec<usize>,
    pub(super) hessian: Vec<f64>,
}

impl CrossedFit {
    /// Parameters of the variances.
    pub fn variance_parameters(&self) -> usize {
        self.parameters.len() - self.fixed.len()
    }
}

/// The maximum of the likelihood; `watch` is told every point with its log likelihood (Λ without its
/// correction), and may end it.
pub fn fit(model: &CrossedModel, method: Method, watch: &mut Watch<'_>) -> Result<CrossedFit, Error> {
    let inner = match method {
        Method::Laplace => Inner::Mode,
        Method::Corrected(_) if model.layout.collapses() => Inner::Integral,
        Method::Corrected(_) => return Err(Error::NothingToCollapse { most: MOST }),
    };
    let mut search = Search { model, inner, watch, evaluations: 0, iterations: 0 };
    let found = search.minimise(&model.start()?)?;
    let free = found.free.clone();
    let Method::Corrected(sampling) = method else {
        let mut parameters = found.at.parameters.clone();
        let hessian = positive(&model.layout, &mut parameters, &free, &found.hessian);
        let mut fit = describe(model, method, parameters, &free, &hessian, &[]);
        (fit.log_likelihood, fit.decrement) = (found.at.log_likelihood(), found.decrement);
        (fit.iterations, fit.evaluations) = (search.iterations, search.evaluations);
        return Ok(fit);
    };
    let decrement = found.decrement;
    let corrected = search.correct(found, sampling)?;
    let summary = corrected.summary;
    let trusted = trusted(&summary);
    let mut parameters = corrected.at.parameters.clone();
    let hessian = positive(&model.layout, &mut parameters, &free, &corrected.hessian);
    let noise = if trusted { &corrected.noise[..] } else { &[] };
    let mut fit = describe(model, method, parameters, &free, &hessian, noise);
    let approximation = corrected.at.log_likelihood();
    fit.log_likelihood = approximation + if trusted { summary.value } else { 0.0 };
    fit.decrement = if trusted { corrected.decrement } else { decrement };
    (fit.iterations, fit.evaluations) = (search.iterations, search.evaluations);
    let mut all = vec![0.0; model.parameters()];
    free.iter().zip(&corrected.noise).for_each(|(&j, n)| all[j] = *n);
    // without draws, the likelihood is a sum whose error can be bounded
    let proved = match summary.sampled {
        0 => proved_likelihood(model, &fit.parameters)?,
        _ => None,
    };
    let found = fit.log_likelihood;
    fit.correction = Some(Correction {
        proved: proved.map(|p| p.error + (p.log_likelihood - found).abs()),
        approximation,
        value: summary.value,
        standard_error: summary.standard_error,
        draws: corrected.draws,
        sets: corrected.sets,
        efficiency: summary.efficiency,
        k_hat: summary.k_hat,
        components: model.components.len(),
        sampled: summary.sampled,
        noise: all,
        trusted,
    });
    Ok(fit)
}

/// Columns of T have positive diagonals: their signs, and those of the Hessian, change together.
fn positive(layout: &Layout, parameters: &mut [f64], free: &[usize], hessian: &[f64]) -> Vec<f64> {
    let mut sign = vec![1.0; parameters.len()];
    for place in &layout.places {
        let t = layout.term(place, parameters);
        for (at, (_, j)) in lower(place.effects).enumerate() {
            if t[j * (place.effects + 1)] < 0.0 {
                sign[place.start + at] = -1.0;
            }
        }
    }
    parameters.iter_mut().zip(&sign).for_each(|(x, s)| *x *= s);
    let d = free.len();
    (0..d * d).map(|e| hessian[e] * sign[free[e % d]] * sign[free[e / d]]).collect()
}

fn describe(
    model: &CrossedModel,
    method: Method,
    parameters: Vec<f64>,
    free: &[usize],
    hessian: &[f64],
    noise: &[f64],
) -> CrossedFit {
    let layout = &model.layout;
    let (p, d) = (layout.fixed, free.len());
    // derivatives of what is reported, over the free parameters
    let mut along: Vec<Option<Vec<f64>>> = (0..p).map(|j| Some(unit(free, j))).collect();
    let mut terms = Vec::new();
    for place in &layout.places {
        let (k, t) = (place.effects, layout.term(place, &parameters));
        let sigma = |i: usize, j: usize| (0..k).map(|l| t[l * k + i] * t[l * k + j]).sum::<f64>();
        let sds: Vec<f64> = (0..k).map(|i| sigma(i, i).sqrt()).collect();
        let correlations: Vec<f64> =
            (0..k * k).map(|e| sigma(e % k, e / k) / (sds[e % k] * sds[e / k])).collect();
        let rank = (0..k).filter(|&j| (j..k).any(|i| t[j * k + i] != 0.0)).count();
        let regular = rank == k;
        // d log sd_i = Σ_l T_il dT_il/Σ_ii;  d artanh r = (dΣ_ij/(s_is_j) − r(d log s_i + d log s_j))/(1 − r²)
        let log_sd = |i: usize| {
            let mut out = vec![0.0; d];
            for (at, (a, l)) in lower(k).enumerate() {
                if let (true, Some(e)) = (a == i, free.iter().position(|&f| f == place.start + at)) {
                    out[e] = t[l * k + i] / (sds[i] * sds[i]);
                }
            }
            out
        };
        for i in 0..k {
            along.push(regular.then(|| log_sd(i)));
        }
        for (i, j) in TermFit::pairs(k) {
            let r = correlations[j * k + i];
            along.push(regular.then(|| {
                let mut out: Vec<f64> =
                    log_sd(i).iter().zip(log_sd(j)).map(|(a, b)| -r * (a + b) / (1.0 - r * r)).collect();
                for (at, (a, l)) in lower(k).enumerate() {
                    let Some(e) = free.iter().position(|&f| f == place.start + at) else { continue };
                    let other = if a == i {
                        t[l * k + j]
                    } else if a == j {
                        t[l * k + i]
                    } else {
                        0.0
                    };
                    out[e] += other / (sds[i] * sds[j]) / (1.0 - r * r);
                }
                out
            }));
        }
        let theta = lower(k).map(|(i, j)| t[j * k + i]).collect();
        terms.push(TermFit { theta, sds, correlations, rank, log_sd_errors: Vec::new() });
    }
    let half: Vec<Option<Vec<f64>>> =
        along.iter().map(|a| a.as_ref().and_then(|a| solved(hessian, a))).collect();
    let count = along.len();
    let covariance = |i: usize, j: usize| match (&half[i], &along[j]) {
        (Some(x), Some(y)) => x.iter().zip(y).map(|(x, y)| x * y).sum(),
        _ => 0.0,
    };
    let block = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| -> Vec<f64> {
        columns.flat_map(|j| rows.clone().map(move |i| (i, j))).map(|(i, j)| covariance(i, j)).collect()
    };
    let mut at = p;
    let mut log_sd_noise = Vec::new();
    for (term, place) in terms.iter_mut().zip(&layout.places) {
        let k = place.effects;
        if term.rank == k {
            term.log_sd_errors = (at..at + k).map(|i| covariance(i, i).sqrt()).collect();
        }
        for i in at..at + k {
            // an upper bound: errors of the entries of T added in size
            let size = |a: &Vec<f64>| a.iter().zip(noise).map(|(a, n)| (a * n).abs()).sum::<f64>();
            log_sd_noise.push(along[i].as_ref().map_or(0.0, size));
        }
        at += k * (k + 1) / 2;
    }
    CrossedFit {
        method,
        log_likelihood: f64::NAN,
        fixed: parameters[..p].to_vec(),
        fixed_covariance: block(0..p, 0..p),
        terms,
        covariance: block(p..count, p..count),
        with_fixed: block(0..p, p..count),
        log_sd_noise,
        iterations: 0,
        evaluations: 0,
        decrement: f64::NAN,
        correction: None,
        parameters,
        free: free.to_vec(),
        hessian: hessian.to_vec(),
    }
}

/// The derivative of a parameter.
fn unit(free: &[usize], parameter: usize) -> Vec<f64> {
    free.iter().map(|&f| f64::from(u8::from(f == parameter))).collect()
}
