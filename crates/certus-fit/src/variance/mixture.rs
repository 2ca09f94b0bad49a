//! The posterior of a model whose scales are not all known: a mixture of Gaussians over a grid of scales, its marginals
//! and draws on the user's scale.

use crate::record::Parameter;
use certus::factor::Lower;
use certus::gaussian::NORMAL_95;
use certus::random::{Purpose, Random};
use certus::{Factor, Gaussian, linalg};
use certus_likelihood::special::normal_cdf;
use certus_mixed::collapsed::{Effect, Mixture, Node};
use certus_mixed::scales::Grid;

use crate::coefficient_map::Quantity;
use crate::variance::names::{RandomEffect, Row, Shape, UnknownScales};

/// Numbers of covariances between effects and coefficients that are kept, at most.
const KEPT: usize = 50_000_000;

/// The standard error of the logarithm of an estimated scale beyond which the data do not tell it: a normal
/// approximation says nothing there.
const KNOWN: f64 = 2.0;

/// Bins of the density of a scale beside which there is another.
const BINS: usize = 30;

/// The effects of the groups by level: all that predictions need.
#[derive(Clone, Debug, PartialEq)]
pub struct Effects {
    /// Means, on the scale of the design.
    pub mean: Vec<f64>,
    /// Variances.
    pub variance: Vec<f64>,
    /// Covariances with the coefficients, group after group.
    pub covariance: Vec<f64>,
    /// Rows.
    pub rows: Vec<f64>,
    /// 5 % quantile, median and 95 % quantile, group after group.
    pub quantiles: Vec<f64>,
    /// Of several effects of one group: covariances of their pairs, level after level.
    pub between: Vec<f64>,
    /// Of several groups: draws of coefficients and effects less their means, one after the other.
    pub deviations: Vec<f64>,
}

impl Effects {
    /// rows, mean, sd, q05, q50, q95 of every level of an effect on the user's scale, level after level.
    pub fn table(&self, random_effect: &RandomEffect) -> Vec<f64> {
        let row = |g: usize| {
            let [mean, sd] = [self.mean[g], self.variance[g].sqrt()].map(|x| x * random_effect.unit);
            let quantiles = self.quantiles[3 * g..][..3].iter().map(|q| q * random_effect.unit);
            [self.rows[g], mean, sd].into_iter().chain(quantiles).collect::<Vec<_>>()
        };
        let own = random_effect.first..random_effect.first + random_effect.levels;
        own.filter(|g| *g < self.mean.len()).flat_map(row).collect()
    }

    /// `None` if they are too many to be kept.
    pub(crate) fn new(effects: &[Effect]) -> Option<Self> {
        let dim = effects.first().map_or(0, |e| e.covariance.len());
        (effects.len() * dim <= KEPT).then(|| Self {
            mean: effects.iter().map(|e| e.mean).collect(),
            variance: effects.iter().map(|e| e.sd * e.sd).collect(),
            covariance: effects.iter().flat_map(|e| e.covariance.iter().copied()).collect(),
            rows: effects.iter().map(|e| e.rows as f64).collect(),
            quantiles: effects.iter().flat_map(|e| e.quantiles).collect(),
            between: Vec::new(),
            deviations: Vec::new(),
        })
    }
}

/// A mixture of Gaussians, on the scale of the design.
#[derive(Clone, Debug)]
pub struct MixturePosterior {
    /// One per node of the grid, whose first scale is its sd; one if the scales were estimated.
    pub nodes: Vec<Node>,
    /// The scales of every node.
    pub scales: Vec<Vec<f64>>,
    /// Where every node is on the grid.
    pub keys: Vec<[i64; 2]>,
    /// The covariance of the log scales, row after row, if they were estimated; empty if there are none.
    pub log_covariance: Option<Vec<f64>>,
    /// The groups' own.
    pub effects: Option<Effects>,
}

/// Normal laws with weights.
pub(crate) struct Law(pub(crate) Vec<[f64; 3]>);

impl Law {
    /// Mean and sd.
    pub(crate) fn moments(&self) -> (f64, f64) {
        let mean: f64 = self.0.iter().map(|[w, m, _]| w * m).sum();
        let square: f64 = self.0.iter().map(|[w, m, s]| w * (s * s + (m - mean).powi(2))).sum();
        (mean, square.sqrt())
    }

    /// Where the distribution function is p, by halves.
    pub(crate) fn quantile(&self, p: f64) -> f64 {
        let ends = self.0.iter().map(|[_, m, s]| (m - 12.0 * s, m + 12.0 * s));
        let (mut low, mut high) =
            ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), (a, b)| (l.min(a), h.max(b)));
        let below = |x: f64| -> f64 {
            let one = |[w, m, s]: &[f64; 3]| {
                w * if *s > 0.0 { normal_cdf((x - m) / s) } else { f64::from(u8::from(x >= *m)) }
            };
            self.0.iter().map(one).sum()
        };
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if below(middle) < p { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }
}

impl MixturePosterior {
    /// Coefficients.
    pub fn dim(&self) -> usize {
        self.nodes[0].mean.len()
    }

    /// As the model has it.
    pub fn mixture(&self) -> Mixture {
        let nodes = self.nodes.clone();
        Mixture { nodes, log_evidence: f64::NAN, refinement: f64::NAN, evaluations: 0 }
    }

    /// True if scales are estimates, with the curvature of the likelihood for errors.
    pub fn is_estimated(&self) -> bool {
        self.log_covariance.as_ref().is_some_and(|covariance| !covariance.is_empty())
    }

    /// The grid; `None` if the scales were estimated.
    fn grid(&self) -> Option<Grid> {
        let weights: Vec<f64> = self.nodes.iter().map(|n| n.weight).collect();
        self.log_covariance.is_none().then(|| Grid::new(&self.keys, &self.scales, &weights))
    }

    /// Fewer nodes and their scales for work that is done at each: see [`Mixture::thinned`]; of a lattice of two scales
    /// every second on either axis, which is the lattice before its last refinement.
    pub(crate) fn thinned(&self) -> (Vec<Node>, Vec<Vec<f64>>) {
        if self.scales[0].len() == 1 {
            let nodes = self.mixture().thinned().nodes;
            let scales = nodes.iter().map(|n| vec![n.sd]).collect();
            return (nodes, scales);
        }
        let even = |key: &[i64; 2]| key.iter().all(|k| k % 2 == 0);
        let all = self.nodes.iter().zip(&self.scales).zip(&self.keys);
        let kept = all.filter(|((node, _), key)| even(key) && node.weight > 1e-6);
        let (mut nodes, scales): (Vec<Node>, Vec<_>) =
            kept.map(|((node, scales), _)| (node.clone(), scales.clone())).unzip();
        let sum: f64 = nodes.iter().map(|n| n.weight).sum();
        nodes.iter_mut().for_each(|n| n.weight /= sum);
        (nodes, scales)
    }

    /// The Gaussian with the mean and the covariance of the coefficients.
    pub fn gaussian(&self) -> Result<Gaussian, certus::Error> {
        self.moments(|node, _| node.mean.clone())
    }

    /// The same with the logarithms of the scales after the coefficients.
    pub(crate) fn joint_gaussian(&self) -> Result<Gaussian, certus::Error> {
        self.moments(|node, scales| node.mean.iter().copied().chain(scales.iter().map(|s| s.ln())).collect())
    }

    /// The Gaussian with the mean and covariance of what every node has at its place, coefficients first.
    fn moments(&self, place: impl Fn(&Node, &[f64]) -> Vec<f64>) -> Result<Gaussian, certus::Error> {
        let c = self.dim();
        let places: Vec<Vec<f64>> = self.nodes.iter().zip(&self.scales).map(|(n, s)| place(n, s)).collect();
        let d = places[0].len();
        let mut mean = vec![0.0; d];
        for (node, place) in self.nodes.iter().zip(&places) {
            mean.iter_mut().zip(place).for_each(|(m, b)| *m += node.weight * b);
        }
        let mut sum = vec![0.0; d * d];
        for (node, place) in self.nodes.iter().zip(&places) {
            for (j, k) in (0..d).flat_map(|j| (0..=j).map(move |k| (j, k))) {
                let own: f64 = match j < c {
                    true => (0..=k).map(|m| node.factor[m * c + j] * node.factor[m * c + k]).sum(),
                    false => 0.0,
                };
                sum[k * d + j] += node.weight * (own + (place[j] - mean[j]) * (place[k] - mean[k]));
            }
        }
        linalg::mirror(&mut sum, d);
        if !linalg::cholesky(&mut sum, d) {
            return Err(certus::Error::Invalid {
                name: "covariance",
                value: "that of the mixture".into(),
                required: "it must be positive definite",
            });
        }
        Gaussian::new(mean, Factor::Lower(Lower::new(d, sum)?))
    }

    /// The law of a combination of coefficients.
    pub(crate) fn law(nodes: &[Node], terms: &[(usize, f64)]) -> Law {
        let one = |node: &Node| {
            let d = node.mean.len();
            let mean: f64 = terms.iter().map(|(j, a)| a * node.mean[*j]).sum();
            let square: f64 = (0..d)
                .map(|m| terms.iter().map(|(j, a)| a * node.factor[m * d + j]).sum::<f64>().powi(2))
                .sum();
            [node.weight, mean, square.sqrt()]
        };
        Law(nodes.iter().map(one).collect())
    }

    /// Mean, sd and quantiles of what follows from the scales; those that are nothing are NaN, and all are where
    /// nothing is known but a value.
    fn of_scales(&self, row: &Row, grid: Option<&Grid>) -> [f64; 5] {
        let mut value = [f64::NAN; 5];
        if let Some(covariance) = &self.log_covariance {
            let (c, k) = (&row.combination, row.combination.len());
            let variance: f64 = (0..k * k).map(|e| c[e / k] * covariance[e] * c[e % k]).sum();
            let x = row.coordinate(&self.scales[0]);
            value[0] = row.shape.of(x);
            if variance > 0.0 && variance.sqrt() < KNOWN && x.is_finite() {
                let error = variance.sqrt();
                // the delta method, by a difference
                let slope = (row.shape.of(x + 1e-4) - row.shape.of(x - 1e-4)) / 2e-4;
                let mut ends = [-NORMAL_95, NORMAL_95].map(|z| row.shape.of(x + z * error));
                ends.sort_by(f64::total_cmp);
                value = [value[0], slope.abs() * error, ends[0], value[0], ends[1]];
            }
            return value;
        }
        if row.shape != Shape::Dispersion {
            let each = || self.nodes.iter().map(|n| n.weight).zip(self.scales.iter().map(|s| row.at(s)));
            value[0] = each().map(|(w, x)| w * x).sum();
            value[1] = each().map(|(w, x)| w * (x - value[0]).powi(2)).sum::<f64>().sqrt();
        }
        let Some(grid) = grid else { return value };
        let law = grid.law(&row.combination);
        let mut quantiles = [0.05, 0.5, 0.95].map(|p| row.shape.of(law.quantile(p)));
        quantiles.sort_by(f64::total_cmp);
        value[2..].copy_from_slice(&quantiles);
        value
    }

    /// The rows of the table: coefficients, then what follows from the scales.
    pub fn parameters(&self, quantities: &[Quantity], unknown_scales: &UnknownScales) -> Vec<Parameter> {
        let row = |name: &str, of: [f64; 5]| {
            let finite = |k: usize| Some(of[k]).filter(|x| x.is_finite());
            Parameter {
                name: name.into(),
                mean: finite(0),
                sd: finite(1),
                q05: finite(2),
                q50: finite(3),
                q95: finite(4),
                ..Parameter::default()
            }
        };
        let mut out: Vec<Parameter> = Vec::new();
        for q in quantities {
            let law = Self::law(&self.nodes, &q.terms);
            let (mean, sd) = law.moments();
            let own = if self.nodes.len() == 1 {
                Parameter::normal(&q.name, mean, sd)
            } else {
                row(&q.name, [mean, sd, law.quantile(0.05), law.quantile(0.5), law.quantile(0.95)])
            };
            out.push(own);
        }
        let grid = self.grid();
        out.extend(unknown_scales.rows.iter().map(|own| row(&own.name, self.of_scales(own, grid.as_ref()))));
        out
    }

    /// `n` draws of the parameters, one after the other; draw k depends on the seed and k only.
    pub fn draws(
        &self,
        quantities: &[Quantity],
        unknown_scales: &UnknownScales,
        n: usize,
        seed: u64,
    ) -> Vec<f64> {
        let mut out = Vec::with_capacity(n * (quantities.len() + unknown_scales.rows.len()));
        self.each_draw(unknown_scales, n, seed, |z, scales| {
            out.extend(quantities.iter().map(|q| q.terms.iter().map(|(i, a)| a * z[*i]).sum::<f64>()));
            out.extend(unknown_scales.rows.iter().map(|row| row.at(scales)));
        });
        out
    }

    /// The coefficients and the scales of the same draws. Estimated scales have the normal law of their coordinates,
    /// those that are 0 stay there.
    pub(crate) fn each_draw(
        &self,
        unknown_scales: &UnknownScales,
        n: usize,
        seed: u64,
        mut visit: impl FnMut(&[f64], &[f64]),
    ) {
        let (d, k) = (self.dim(), self.scales[0].len());
        let random = Random::new(seed, Purpose::Sample, 0);
        let (mut normals, mut luck, mut other) = (vec![0.0; d * n], vec![0.0; n], vec![0.0; n]);
        random.normals(0, 0, d, &mut normals);
        random.uniforms(1, 0, 1, &mut luck);
        random.uniforms(2, 0, 1, &mut other);
        let grid = self.grid();
        let sampler = grid.as_ref().map(Grid::sampler);
        let center = unknown_scales.coordinates(&self.scales[0]);
        let errors = self.log_covariance.clone().filter(|c| !c.is_empty());
        let factor = errors.and_then(|c| factor_of_some(c, &center));
        let mut of_scales = vec![0.0; if factor.is_some() { k * n } else { 0 }];
        if factor.is_some() {
            random.normals(3, 0, k, &mut of_scales);
        }
        for draw in 0..n {
            let (place, scales) = match (&sampler, &factor) {
                (Some(sampler), _) if self.nodes.len() > 1 => sampler.draw([luck[draw], other[draw]]),
                (_, Some(factor)) => {
                    let mut x = center.clone();
                    linalg::add_square_times(factor, k, true, &of_scales[draw * k..][..k], &mut x);
                    (0, unknown_scales.of_coordinates(&x))
                }
                _ => (0, self.scales[0].clone()),
            };
            let node = &self.nodes[place];
            let mut z = node.mean.clone();
            linalg::add_square_times(&node.factor, d, true, &normals[draw * d..][..d], &mut z);
            visit(&z, &scales);
        }
    }

    /// A with A Aᵀ the covariance of the parameters, row after row, and its number of columns.
    pub fn spread(&self, quantities: &[Quantity], unknown_scales: &UnknownScales) -> (Vec<f64>, usize) {
        let (d, more) = (self.dim(), unknown_scales.rows.len());
        let columns = self.nodes.len() * (d + 1) + more;
        let count = quantities.len();
        let rows = count + more;
        let mut out = vec![0.0; rows * columns];
        let means = |k: usize| -> Vec<f64> {
            let node = &self.nodes[k];
            let own = quantities.iter().map(|q| q.terms.iter().map(|(i, a)| a * node.mean[*i]).sum::<f64>());
            own.chain(unknown_scales.rows.iter().map(|row| row.at(&self.scales[k]))).collect()
        };
        let mut center = vec![0.0; rows];
        for (k, node) in self.nodes.iter().enumerate() {
            center.iter_mut().zip(means(k)).for_each(|(c, m)| *c += node.weight * m);
        }
        for (k, node) in self.nodes.iter().enumerate() {
            let root = node.weight.sqrt();
            for (i, mean) in means(k).into_iter().enumerate() {
                let row = &mut out[i * columns..][k * (d + 1)..][..d + 1];
                row[d] = root * (mean - center[i]);
                if let Some(q) = quantities.get(i) {
                    for (j, a) in &q.terms {
                        (0..d).for_each(|m| row[m] += root * a * node.factor[m * d + j]);
                    }
                }
            }
        }
        let grid = self.grid();
        for (i, row) in unknown_scales.rows.iter().enumerate() {
            let own = &mut out[(count + i) * columns..][..columns];
            if self.log_covariance.is_some() {
                // estimated scales vary by their standard errors
                own.fill(0.0);
                let sd = self.of_scales(row, grid.as_ref())[1];
                own[columns - more + i] = if sd.is_nan() { 0.0 } else { sd };
            } else if row.shape == Shape::Dispersion {
                // it may have no variance
                own.fill(f64::NAN);
            }
        }
        (out, columns)
    }

    /// Points of the density of the first scale on the user's scale; none if it was estimated.
    pub fn density(&self, unknown_scales: &UnknownScales) -> Vec<(f64, f64)> {
        if self.nodes.len() < 2 {
            return Vec::new();
        }
        let unit = unknown_scales.scales[0].unit;
        if self.scales[0].len() == 1 {
            let step = (self.nodes[1].sd / self.nodes[0].sd).ln();
            let point = |n: &Node| (n.sd * unit, n.weight / (step * n.sd * unit));
            return self.nodes.iter().map(point).collect();
        }
        let mut first = vec![0.0; self.scales[0].len()];
        first[0] = 1.0;
        let Some(law) = self.grid().map(|grid| grid.law(&first)) else { return Vec::new() };
        let (low, high) = (law.quantile(5e-4), law.quantile(1.0 - 5e-4));
        let step = (high - low) / BINS as f64;
        let mut masses = [0.0; BINS];
        for (x, mass) in law.masses().iter().filter(|(x, _)| (low..high).contains(x)) {
            masses[(((x - low) / step) as usize).min(BINS - 1)] += mass;
        }
        let place = |k: usize| (low + (k as f64 + 0.5) * step).exp() * unit;
        masses.iter().enumerate().map(|(k, mass)| (place(k), mass / (step * place(k)))).collect()
    }
}

/// The lower factor of the covariance of coordinates, without those that are infinite or do not vary; `None` if it is
/// not positive definite.
fn factor_of_some(mut covariance: Vec<f64>, center: &[f64]) -> Option<Vec<f64>> {
    let k = center.len();
    let fixed = |j: &usize| !(center[*j].is_finite() && covariance[j * (k + 1)] > 0.0);
    let fixed: Vec<usize> = (0..k).filter(fixed).collect();
    for &j in &fixed {
        (0..k).for_each(|i| (covariance[i * k + j], covariance[j * k + i]) = (0.0, 0.0));
        covariance[j * (k + 1)] = 1.0;
    }
    let found = linalg::cholesky(&mut covariance, k);
    fixed.iter().for_each(|j| covariance[j * (k + 1)] = 0.0);
    found.then_some(covariance)
}
