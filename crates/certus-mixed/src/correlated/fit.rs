//! The fit of a model with correlated effects: estimates, their standard errors, what is proved of them, and the
//! laws of
//! the effects.

use std::ops::ControlFlow;

use certus::linalg;

use super::ball::{self, Proof};
use super::error::Error;
use super::evaluate::{Options, Room};
use super::nodes::Scores;
use super::rows::Model;
use super::search::{FINE, FINEST, Found, Place, Watch, search};
use super::space::MOST_EFFECTS;
use crate::linear::TermFit;
use crate::linear::chart::Frame;
use crate::linear::small;

/// The relative error of a group's integral behind the laws of its effects.
const EFFECTS: f64 = 1e-8;

/// How well log L is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quadrature {
    /// The lattice sums err by at most `error` in all (G1), rounding allowed for.
    Proved {
        /// The bound.
        error: f64,
    },
    /// Nothing is proved for this likelihood; half the steps change log L by `change`.
    Estimated {
        /// The change.
        change: f64,
    },
}

/// The fit by maximum likelihood, or with priors of the coefficients their posterior mode.
#[derive(Debug, Clone, PartialEq)]
pub struct CorrelatedFit {
    /// log L.
    pub log_likelihood: f64,
    /// How well that is known.
    pub quadrature: Quadrature,
    /// The covariance matrix of the effects.
    pub term: TermFit,
    /// β.
    pub fixed: Vec<f64>,
    /// Its covariance matrix, p × p, from the Hessian in all parameters.
    pub fixed_covariance: Vec<f64>,
    /// The covariance matrix of the log standard deviations, then the artanh of the correlations
    /// ([`TermFit::pairs`]); 0 if Σ is singular.
    pub covariance: Vec<f64>,
    /// The same beside β: p + k + k(k − 1)/2 square, β first.
    pub joint_covariance: Vec<f64>,
    /// Newton steps of the best start.
    pub iterations: usize,
    /// Evaluations of F with its derivatives, all starts.
    pub evaluations: usize,
    /// Newton's decrement at the end: about twice what is left to gain.
    pub decrement: f64,
    /// Nodes per group, on average.
    pub nodes: f64,
    /// What is proved of the estimate.
    pub proof: Proof,
    pub(super) frame: Frame,
}

impl CorrelatedFit {
    /// −2 log L.
    pub fn value(&self) -> f64 {
        -2.0 * self.log_likelihood
    }

    /// Parameters: coefficients, standard deviations, correlations.
    pub fn parameters(&self) -> usize {
        self.fixed.len() + self.term.theta.len()
    }

    /// −2 log L + 2·parameters.
    pub fn aic(&self) -> f64 {
        self.value() + 2.0 * self.parameters() as f64
    }

    /// −2 log L + parameters·log n, n the sum of the weights.
    pub fn bic(&self, weight: f64) -> f64 {
        self.value() + self.parameters() as f64 * weight.ln()
    }

    /// T with TTᵀ = Σ, k × k by columns.
    pub fn factor(&self) -> Vec<f64> {
        self.frame.t()
    }
}

/// The law of one level's effects given its rows, β and Σ.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelEffects {
    /// The level.
    pub level: usize,
    /// E b.
    pub mean: Vec<f64>,
    /// Cov b, k × k.
    pub covariance: Vec<f64>,
    /// The mode of b.
    pub mode: Vec<f64>,
    /// −∂E b/∂β = Cov(b, Σ wφ′x), k × p, row after row.
    pub with_fixed: Vec<f64>,
}

impl Model {
    /// The fit.
    pub fn fit(&self) -> Result<CorrelatedFit, Error> {
        self.fit_observed(&mut |_, _| ControlFlow::Continue(()))
    }

    /// The fit, watched step by step.
    pub fn fit_observed(&self, watch: &mut Watch<'_>) -> Result<CorrelatedFit, Error> {
        let found = search(self, watch)?;
        self.describe(found)
    }

    /// log L at β and the covariance matrix TTᵀ (T k × k, by columns), and a bound on its error; infinite where none
    /// is proved.
    pub fn log_likelihood(&self, beta: &[f64], factor: &[f64]) -> Result<(f64, f64), Error> {
        self.log_likelihood_to(beta, factor, FINE)
    }

    /// The same with a relative error of every group's integral to aim at.
    pub fn log_likelihood_to(&self, beta: &[f64], factor: &[f64], epsilon: f64) -> Result<(f64, f64), Error> {
        let options = Options { second: false, epsilon, halved: false };
        let at = self.evaluate(beta, &self.frame_of(factor), options)?;
        Ok((at.log_likelihood, at.error))
    }

    /// A frame of any factor: columns that are 0 are those outside.
    pub(super) fn frame_of(&self, factor: &[f64]) -> Frame {
        let k = self.design.effects;
        let mut columns: Vec<&[f64]> =
            factor.chunks_exact(k).filter(|c| c.iter().any(|x| *x != 0.0)).collect();
        let rank = columns.len();
        let none = vec![0.0; k];
        columns.resize(k, &none);
        Frame { k, rank, w: columns.concat() }
    }

    /// The laws of the effects of all levels that have rows, at β and TTᵀ.
    pub fn effects(&self, beta: &[f64], factor: &[f64]) -> Result<Vec<LevelEffects>, Error> {
        self.effects_to(beta, factor, EFFECTS)
    }

    /// The same with a relative error of every group's integral to aim at.
    pub fn effects_to(&self, beta: &[f64], factor: &[f64], epsilon: f64) -> Result<Vec<LevelEffects>, Error> {
        let frame = self.frame_of(factor);
        let (k, t) = (frame.k, frame.t());
        let pieces = self.sorted.pieces.len() - 1;
        let piece = |piece: usize| {
            let mut room = Room::default();
            let mut out = Vec::new();
            for g in self.sorted.pieces[piece]..self.sorted.pieces[piece + 1] {
                let (p, rows) = (self.design.fixed, &*self.sorted);
                let x = &rows.x[rows.first[g] * p..rows.first[g + 1] * p];
                let own = self.with_group(g, beta, &frame, &mut room, |group, full, line, moments| {
                    let lattice = group.lattice([0.0; MOST_EFFECTS], epsilon);
                    let (rank, outside) = (frame.rank, 0);
                    let scores = Scores { x, p, full, rank, outside, directions: &[], with_u: true };
                    moments.of(group, &lattice, line, Some(&scores));
                    let times = |v: [f64; MOST_EFFECTS]| -> Vec<f64> {
                        (0..k).map(|i| (0..k).map(|j| t[j * k + i] * v[j]).sum()).collect()
                    };
                    let centred: Vec<f64> = (0..k * k)
                        .map(|e| moments.uu[e % k][e / k] - moments.u[e % k] * moments.u[e / k])
                        .collect();
                    // Cov(u_j, score of a coefficient), by rows where they are fewer
                    let (m, width) = (moments.mean.len(), scores.width());
                    let with_score = |j: usize, c: usize| -> f64 {
                        let row = &moments.covariance[(width + j) * m..][..width];
                        if scores.by_rows() {
                            row.iter().enumerate().map(|(i, v)| v * x[i * p + c]).sum()
                        } else {
                            row[c]
                        }
                    };
                    let with_fixed =
                        |e: usize| (0..rank).map(|j| t[j * k + e / p] * with_score(j, e % p)).sum::<f64>();
                    LevelEffects {
                        level: rows.codes[g],
                        mean: times(moments.u),
                        covariance: small::congruence(&t, &centred, k),
                        mode: times(lattice.centre),
                        with_fixed: (0..k * p).map(with_fixed).collect(),
                    }
                });
                out.push(own);
            }
            out
        };
        let join = |mut a: Vec<LevelEffects>, b: Vec<LevelEffects>| {
            a.extend(b);
            a
        };
        let all = certus::parallel::reduce(pieces, 1, &piece, &join).unwrap_or_default();
        if self.stopped() { Err(Error::Stopped) } else { Ok(all) }
    }

    fn describe(&self, found: Found) -> Result<CorrelatedFit, Error> {
        let Found { place, iterations, evaluations, decrement } = found;
        let place = match place.epsilon <= FINEST {
            true => place,
            false => Place::at(self, place.beta, place.frame, FINEST)?,
        };
        let (frame, p, k) = (&place.frame, self.design.fixed, self.design.effects);
        let objective = &place.objective;
        let quadrature = if objective.error.is_finite() {
            Quadrature::Proved { error: objective.error }
        } else {
            let options = Options { second: false, epsilon: FINE, halved: true };
            let finer = self.evaluate(&place.beta, frame, options)?;
            Quadrature::Estimated { change: (finer.log_likelihood - objective.log_likelihood).abs() }
        };
        let d = objective.gradient.len();
        let mut factor = objective.hessian.clone();
        let regular = d == 0 || linalg::cholesky(&mut factor, d);
        let inverse = if regular { linalg::inverse_of_factor(&factor, d) } else { vec![f64::NAN; d * d] };
        let t = frame.t();
        let lower = linalg::lower_of_same_covariance(&t, k);
        let sigma = small::congruence(&t, &small::identity(k), k);
        let sds: Vec<f64> = (0..k).map(|i| sigma[i * (k + 1)].max(0.0).sqrt()).collect();
        let correlations: Vec<f64> = (0..k * k).map(|e| sigma[e] / (sds[e % k] * sds[e / k])).collect();
        // rows of the functionals (β, log sds, artanh correlations) over (β, S)
        let count = p + k + k * (k - 1) / 2;
        let mut jacobian = vec![0.0; count * d];
        (0..p).for_each(|j| jacobian[j * d + j] = 1.0);
        if frame.rank == k {
            for (at, b) in frame.basis().iter().enumerate() {
                let e = small::congruence(&frame.w, b, k);
                let log_sd = |i: usize| e[i * (k + 1)] / (2.0 * sds[i] * sds[i]);
                (0..k).for_each(|i| jacobian[(p + i) * d + p + at] = log_sd(i));
                for (place, (i, j)) in TermFit::pairs(k).enumerate() {
                    let r = correlations[j * k + i];
                    let own = e[j * k + i] / (sds[i] * sds[j]);
                    jacobian[(p + k + place) * d + p + at] =
                        (own - r * (log_sd(i) + log_sd(j))) / (1.0 - r * r);
                }
            }
        }
        let form = |a: usize, b: usize| {
            let (a, b) = (&jacobian[a * d..][..d], &jacobian[b * d..][..d]);
            (0..d).map(|i| a[i] * (0..d).map(|j| inverse[i * d + j] * b[j]).sum::<f64>()).sum::<f64>()
        };
        let joint: Vec<f64> = (0..count * count).map(|e| form(e % count, e / count)).collect();
        let own = count - p;
        let covariance: Vec<f64> =
            (0..own * own).map(|e| joint[(p + e / own) * count + p + e % own]).collect();
        let term = TermFit {
            theta: (0..k).flat_map(|j| (j..k).map(move |i| (i, j))).map(|(i, j)| lower[j * k + i]).collect(),
            correlations,
            rank: frame.rank,
            log_sd_errors: if frame.rank == k {
                (0..k).map(|i| covariance[i * (own + 1)].sqrt()).collect()
            } else {
                Vec::new()
            },
            sds,
        };
        Ok(CorrelatedFit {
            log_likelihood: objective.log_likelihood,
            quadrature,
            term,
            fixed_covariance: (0..p * p).map(|e| joint[e / p * count + e % p]).collect(),
            fixed: place.beta.clone(),
            covariance,
            joint_covariance: joint,
            iterations,
            evaluations,
            decrement,
            nodes: objective.nodes / self.levels().len() as f64,
            proof: ball::prove(self, &place)?,
            frame: place.frame.clone(),
        })
    }
}
