//! F at (β, θ): the groups' integrals, their errors and derivatives, summed over the pieces of the rows and put
//! together with the prior.

use std::ops::Range;

use certus::linalg;

use super::compensated::Compensated;
use super::curvature::Curvature;
use super::derivatives::{Derivatives, length};
use super::group::{GroupRows, ROUNDING};
use super::nodes::Nodes;
use super::{Collapsed, EvaluationOptions, ObjectiveValue, Order};
use certus_models::Error;
use certus_models::error::NotFinite;

/// The predictors of a group's rows, the sizes of their terms, and the steps of its effect.
#[derive(Default)]
pub(super) struct Predictors {
    t: Vec<f64>,
    reach: Vec<f64>,
    s: Vec<f64>,
}

/// Sums over groups: ℓ, error, Σ|log I|, then the gradient, its error and the Hessian.
struct Sums {
    log: Compensated,
    error: f64,
    size: f64,
    derivatives: Vec<f64>,
    least_hessian: Vec<f64>,
}

impl Sums {
    fn add(mut self, other: Self) -> Self {
        self.log.join(other.log);
        self.error += other.error;
        self.size += other.size;
        self.derivatives.iter_mut().zip(&other.derivatives).for_each(|(x, y)| *x += y);
        self.least_hessian.iter_mut().zip(&other.least_hessian).for_each(|(x, y)| *x += y);
        self
    }
}

impl Collapsed {
    pub(crate) fn evaluate(
        &self,
        beta: &[f64],
        log_sd: f64,
        options: EvaluationOptions,
    ) -> Result<ObjectiveValue, Error> {
        let (d, sigma) = (self.dim, log_sd.exp());
        if !sigma.is_finite() || sigma == 0.0 || beta.iter().any(|b| !b.is_finite()) {
            return Err(NotFinite::GroupSd { sd: sigma }.into());
        }
        let pieces = (self.pieces.len() - 1).div_ceil(self.every);
        let piece = |piece: usize| self.piece(piece * self.every, beta, sigma, options);
        let sums = certus::parallel::reduce(pieces, 1, &piece, &Sums::add);
        if self.stopped() {
            return Err(Error::Stopped);
        }
        let second = options.order == Order::Second;
        let Sums { log, error, size, mut derivatives, least_hessian } = sums.unwrap_or_else(|| Sums {
            log: Compensated::default(),
            error: 0.0,
            size: 0.0,
            derivatives: vec![0.0; if second { length(d) } else { 0 }],
            least_hessian: vec![0.0; if options.metric.is_some() { d * d } else { 0 }],
        });
        let log = log.value();
        if !log.is_finite() {
            return Err(NotFinite::Quantity { what: "the likelihood of some group" }.into());
        }
        let centred: Vec<f64> = beta.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; d];
        self.prior.add_precision_times(&centred, &mut pull);
        let energy = 0.5 * linalg::dot(&centred, &pull) + self.prior.constant();
        // the last sums; errors are added up with errors of their own
        let rounding = ROUNDING * (size + energy.abs());
        let mut out = ObjectiveValue {
            value: energy - log,
            log_likelihood: log,
            error: (error + rounding) * (1.0 + 1e-9),
            gradient: Vec::new(),
            gradient_error: Vec::new(),
            hessian: Vec::new(),
            least_hessian,
        };
        if second {
            out.hessian = derivatives.split_off(2 * d + 1);
            out.gradient_error = derivatives.split_off(d + 1);
            if !options.slope_errors {
                out.gradient_error.fill(f64::INFINITY);
            }
            out.gradient = derivatives;
            for j in 0..d {
                out.gradient[j] += pull[j];
                out.gradient_error[j] += ROUNDING * pull[j].abs();
            }
            let mut unit = vec![0.0; d];
            for j in 0..d {
                unit[j] = 1.0;
                self.prior.add_precision_times(&unit, &mut out.hessian[j * (d + 1)..][..d]);
                unit[j] = 0.0;
            }
        }
        Ok(out)
    }

    /// The rows of group g at (β, σ).
    pub(super) fn group_rows<'a>(
        &'a self,
        g: usize,
        beta: &[f64],
        sigma: f64,
        room: &'a mut Predictors,
    ) -> GroupRows<'a> {
        let range = self.first[g]..self.first[g + 1];
        let Predictors { t, reach, s } = room;
        self.predict(range.clone(), beta, t, reach);
        s.clear();
        s.extend(range.clone().map(|i| sigma * self.effect.get(i).copied().unwrap_or(1.0)));
        let (data, weight) = (&self.data[range.clone()], &self.weight[range]);
        let (likelihood, shift, columns) = (&*self.likelihood, sigma * self.shift, self.dim);
        GroupRows { likelihood, t, reach, s, shift, columns, data, weight }
    }

    /// t_i = x_iβ + offset_i and Σ_j |x_ij β_j| + |offset_i| of some rows.
    pub(super) fn predict(&self, rows: Range<usize>, beta: &[f64], t: &mut Vec<f64>, reach: &mut Vec<f64>) {
        let d = self.dim;
        t.clear();
        reach.clear();
        for i in rows {
            let (mut sum, mut size) = (0.0, 0.0);
            for (x, b) in self.a[i * d..][..d].iter().zip(beta) {
                let term = x * b;
                sum += term;
                size += term.abs();
            }
            t.push(sum + self.offset[i]);
            reach.push(size + self.offset[i].abs());
        }
    }

    fn piece(&self, piece: usize, beta: &[f64], sigma: f64, options: EvaluationOptions) -> Sums {
        let d = self.dim;
        let (mut log, mut error, mut size) = (Compensated::default(), 0.0, 0.0);
        let (mut nodes, mut room) = (Nodes::default(), Predictors::default());
        let groups = self.pieces[piece]..self.pieces[piece + 1];
        // the terms of the gradient are added one after the other
        let chain = f64::EPSILON * (self.first[groups.end] - self.first[groups.start]) as f64;
        let mut derivatives = (options.order == Order::Second).then(|| Derivatives::new(d));
        let mut curvature = options.metric.map(|(metric, radius)| Curvature::new(d, metric, radius));
        for g in groups {
            // the sums are not used then
            if self.stopped() {
                break;
            }
            let a = &self.a[self.first[g] * d..self.first[g + 1] * d];
            let rows = self.group_rows(g, beta, sigma, &mut room);
            let mut integral = rows.integrate(&mut nodes, options.epsilon);
            if let Some(derivatives) = &mut derivatives {
                derivatives.add(a, &nodes);
            }
            [integral.rounding, integral.worst] = match &derivatives {
                Some(derivatives) => rows.rounding(&integral, &nodes, |i| derivatives.mean[i]),
                None => rows.rounding(&integral, &nodes, |i| nodes.mean_slope(i)),
            };
            log.add(integral.log);
            // |log(1 + e)| ≤ e/(1 − e) for the true value over ours
            error +=
                if integral.error < 0.5 { integral.error / (1.0 - integral.error) } else { f64::INFINITY };
            error += integral.rounding;
            size += integral.log.abs();
            if let Some(derivatives) = &mut derivatives {
                for (i, x) in a.chunks_exact(d).enumerate().filter(|_| options.slope_errors) {
                    let mean = derivatives.mean[i];
                    let own = rows.slope_error(i, &integral, &nodes, mean);
                    derivatives.add_error(x, own + chain * mean.abs());
                }
                if let Some(curvature) = &mut curvature {
                    curvature.add(a, &rows, &integral, &nodes, &derivatives.mean);
                }
            }
        }
        let derivatives = derivatives.map_or(Vec::new(), |all| all.flat());
        let least_hessian = curvature.map_or(Vec::new(), Curvature::sum);
        Sums { log, error, size, derivatives, least_hessian }
    }
}
