//! The posterior of a model whose group sd is not known: a mixture of Gaussians over a grid of sds, its marginals and draws on the user's scale, and the vectors it
//! is kept as.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use certus::factor::Lower;
use certus::gaussian::NORMAL_95;
use certus::random::{Purpose, Random};
use certus::{Factor, Gaussian, linalg};
use certus_models::collapsed::{Effect, Mixture, Node};
use certus_models::special::normal_cdf;
use certus_store::record::Parameter;

use crate::encoding::Encoding;
use crate::error::DataError;
use crate::meaning::Quantity;
use crate::scales::unknown;
use crate::spec::Family;

/// Numbers of covariances between effects and coefficients that are kept, at most.
const KEPT: usize = 50_000_000;

/// The coefficient that varies by a group of unknown sd, and how that sd reads on the user's scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Varies {
    /// Its name, `sd(city)`, or `sd(city: rain)` for a slope.
    pub name: String,
    /// The group.
    pub group: String,
    /// The column of the design.
    pub feature: usize,
    /// One unit of the design on the user's scale.
    pub unit: f64,
    /// What is added to the centred column so that it varies as the user's does.
    pub shift: f64,
    /// Variance of a response on the latent scale given its group, where there is such a scale: the share of the variance that lies between groups (ICC) is then
    /// sd²/(sd² + this).
    pub latent: Option<f64>,
}

impl Varies {
    /// Of a fit; `None` if every sd was given.
    pub fn of(encoding: &Encoding, family: Family, sigma: Option<f64>) -> Result<Option<Self>, DataError> {
        let Some((group, feature)) = unknown(encoding)? else { return Ok(None) };
        let (center, scale) = encoding.center_and_scale();
        let slope = feature.checked_sub(usize::from(encoding.intercept));
        let latent = match family {
            Family::Logistic | Family::Binomial => Some(PI * PI / 3.0),
            Family::Probit => Some(1.0),
            Family::Linear => sigma.map(|s| s * s),
            Family::Poisson | Family::NegativeBinomial => None,
        };
        Ok(Some(Self {
            name: match slope {
                Some(j) => format!("sd({}: {})", group.name, encoding.features[j].name),
                None => format!("sd({})", group.name),
            },
            group: group.name.clone(),
            feature,
            unit: slope.map_or(1.0, |j| 1.0 / scale[j]),
            shift: slope.map_or(0.0, |j| center[j] / scale[j]),
            latent: latent.filter(|_| slope.is_none()),
        }))
    }

    fn icc(&self, sd: f64) -> Option<f64> {
        self.latent.map(|latent| sd * sd / (sd * sd + latent))
    }

    fn icc_name(&self) -> String {
        format!("icc({})", self.group)
    }
}

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
}

impl Effects {
    /// rows, mean, sd, q05, q50, q95 of every group on the user's scale, group after group.
    pub fn table(&self, varies: &Varies) -> Vec<f64> {
        let row = |g: usize| {
            let [mean, sd] = [self.mean[g], self.variance[g].sqrt()].map(|x| x * varies.unit);
            let quantiles = self.quantiles[3 * g..][..3].iter().map(|q| q * varies.unit);
            [self.rows[g], mean, sd].into_iter().chain(quantiles).collect::<Vec<_>>()
        };
        (0..self.mean.len()).flat_map(row).collect()
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
        })
    }
}

/// A mixture of Gaussians, on the scale of the design.
#[derive(Clone, Debug)]
pub struct Mixed {
    /// From the smallest sd to the largest; one if the sd was estimated.
    pub nodes: Vec<Node>,
    /// The standard error of log sd, if it was estimated.
    pub log_sd_error: Option<f64>,
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

impl Mixed {
    /// Of a mixture.
    pub(crate) fn new(mixture: Mixture, log_sd_error: Option<f64>) -> Self {
        Self { nodes: mixture.nodes, log_sd_error, effects: None }
    }

    /// Coefficients.
    pub fn dim(&self) -> usize {
        self.nodes[0].mean.len()
    }

    /// As the model has it.
    pub fn mixture(&self) -> Mixture {
        let nodes = self.nodes.clone();
        Mixture { nodes, log_evidence: f64::NAN, refinement: f64::NAN, evaluations: 0 }
    }

    /// Fewer nodes, see [`Mixture::thinned`].
    pub(crate) fn thinned(&self) -> Vec<Node> {
        self.mixture().thinned().nodes
    }

    /// The Gaussian with the mean and the covariance of the coefficients.
    pub fn gaussian(&self) -> Result<Gaussian, certus::Error> {
        let d = self.dim();
        let mut mean = vec![0.0; d];
        for node in &self.nodes {
            mean.iter_mut().zip(&node.mean).for_each(|(m, b)| *m += node.weight * b);
        }
        let mut sum = vec![0.0; d * d];
        for node in &self.nodes {
            for (j, k) in (0..d).flat_map(|j| (0..=j).map(move |k| (j, k))) {
                let own: f64 = (0..=k).map(|m| node.factor[m * d + j] * node.factor[m * d + k]).sum();
                sum[k * d + j] += node.weight * (own + (node.mean[j] - mean[j]) * (node.mean[k] - mean[k]));
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

    /// Mean, sd and quantiles of an increasing function of the sd.
    fn of_sd(&self, f: impl Fn(f64) -> f64) -> Option<[f64; 5]> {
        if let Some(error) = self.log_sd_error {
            let sd = self.nodes[0].sd;
            let at = |z: f64| f((sd.ln() + z * error).exp());
            // the delta method, by a difference
            let slope = (f(sd * 1e-4f64.exp()) - f(sd * (-1e-4f64).exp())) / 2e-4;
            return Some([f(sd), slope * error, at(-NORMAL_95), f(sd), at(NORMAL_95)]);
        }
        if self.nodes.len() == 1 {
            return None;
        }
        let mean: f64 = self.nodes.iter().map(|n| n.weight * f(n.sd)).sum();
        let square: f64 = self.nodes.iter().map(|n| n.weight * (f(n.sd) - mean).powi(2)).sum();
        let mixture = self.mixture();
        let at = |p: f64| f(mixture.sd_quantile(p));
        Some([mean, square.sqrt(), at(0.05), at(0.5), at(0.95)])
    }

    /// The rows of the table: coefficients, the sd, the ICC.
    pub fn parameters(&self, quantities: &[Quantity], varies: &Varies) -> Vec<Parameter> {
        let row = |name: &str, of: Option<[f64; 5]>, alone: f64| {
            let finite = |k: usize| of.map(|x| x[k]).filter(|x| x.is_finite());
            Parameter {
                name: name.into(),
                mean: finite(0).or(Some(alone)),
                sd: finite(1),
                q05: finite(2),
                q50: finite(3),
                q95: finite(4),
            }
        };
        let mut out: Vec<Parameter> = Vec::new();
        for q in quantities {
            let law = Self::law(&self.nodes, &q.terms);
            let (mean, sd) = law.moments();
            let own = if self.nodes.len() == 1 {
                Parameter::normal(&q.name, mean, sd)
            } else {
                let all = [mean, sd, law.quantile(0.05), law.quantile(0.5), law.quantile(0.95)];
                row(&q.name, Some(all), mean)
            };
            out.push(own);
        }
        let sd = self.nodes[0].sd;
        out.push(row(&varies.name, self.of_sd(|s| s * varies.unit), sd * varies.unit));
        if let Some(icc) = varies.icc(sd) {
            let law = self.of_sd(|s| varies.icc(s).unwrap_or_default());
            out.push(row(&varies.icc_name(), law, icc));
        }
        out
    }

    /// `n` draws of the parameters, one after the other; draw k depends on the seed and k only. An estimated sd stays where it is.
    pub fn draws(&self, quantities: &[Quantity], varies: &Varies, n: usize, seed: u64) -> Vec<f64> {
        let d = self.dim();
        let random = Random::new(seed, Purpose::Sample, 0);
        let (mut normals, mut luck) = (vec![0.0; d * n], vec![0.0; n]);
        random.normals(0, 0, d, &mut normals);
        random.uniforms(1, 0, 1, &mut luck);
        let mixture = self.mixture();
        let mut out = Vec::with_capacity(n * (quantities.len() + 2));
        for (u, luck) in normals.chunks_exact(d).zip(luck) {
            let mut below = 0.0;
            let node = self.nodes.iter().find(|node| {
                below += node.weight;
                luck < below
            });
            let node = node.unwrap_or(&self.nodes[self.nodes.len() - 1]);
            let mut z = node.mean.clone();
            linalg::add_square_times(&node.factor, d, true, u, &mut z);
            out.extend(quantities.iter().map(|q| q.terms.iter().map(|(i, a)| a * z[*i]).sum::<f64>()));
            let sd = if self.nodes.len() == 1 { node.sd } else { mixture.sd_quantile(luck) };
            out.push(sd * varies.unit);
            out.extend(varies.icc(sd));
        }
        out
    }

    /// A with A Aᵀ the covariance of the parameters, row after row, and its number of columns.
    pub fn spread(&self, quantities: &[Quantity], varies: &Varies) -> (Vec<f64>, usize) {
        let (d, columns) = (self.dim(), self.nodes.len() * (self.dim() + 1) + 1);
        let count = quantities.len();
        let rows = count + 1 + usize::from(varies.latent.is_some());
        let mut out = vec![0.0; rows * columns];
        let means = |node: &Node| -> Vec<f64> {
            let own = quantities.iter().map(|q| q.terms.iter().map(|(i, a)| a * node.mean[*i]).sum::<f64>());
            own.chain([node.sd * varies.unit]).chain(varies.icc(node.sd)).collect()
        };
        let mut center = vec![0.0; rows];
        for node in &self.nodes {
            center.iter_mut().zip(means(node)).for_each(|(c, m)| *c += node.weight * m);
        }
        for (k, node) in self.nodes.iter().enumerate() {
            let root = node.weight.sqrt();
            for (i, mean) in means(node).into_iter().enumerate() {
                let row = &mut out[i * columns..][k * (d + 1)..][..d + 1];
                row[d] = root * (mean - center[i]);
                if let Some(q) = quantities.get(i) {
                    for (j, a) in &q.terms {
                        (0..d).for_each(|m| row[m] += root * a * node.factor[m * d + j]);
                    }
                }
            }
        }
        // an estimated sd varies by its standard error, and the ICC with it
        if self.log_sd_error.is_some() {
            let functions = [self.of_sd(|s| s * varies.unit), self.of_sd(|s| varies.icc(s).unwrap_or(0.0))];
            for (i, of) in (count..rows).zip(functions) {
                out[(i + 1) * columns - 1] = of.map_or(0.0, |x| x[1]);
            }
        }
        (out, columns)
    }

    /// Points of the density of the sd on the user's scale; none if it was estimated.
    pub fn density(&self, varies: &Varies) -> Vec<(f64, f64)> {
        if self.nodes.len() < 2 {
            return Vec::new();
        }
        let step = (self.nodes[1].sd / self.nodes[0].sd).ln();
        let point = |n: &Node| (n.sd * varies.unit, n.weight / (step * n.sd * varies.unit));
        self.nodes.iter().map(point).collect()
    }

    /// The vectors it is kept as.
    pub fn vectors(&self) -> BTreeMap<String, Vec<f64>> {
        let d = self.dim();
        let lower =
            |n: &Node| (0..d).flat_map(|j| n.factor[j * d + j..(j + 1) * d].to_vec()).collect::<Vec<_>>();
        let mut out: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut add = |name: &str, values: Vec<f64>| out.insert(name.to_string(), values);
        add("scale.sd", self.nodes.iter().map(|n| n.sd).collect());
        add("scale.weight", self.nodes.iter().map(|n| n.weight).collect());
        add("scale.mean", self.nodes.iter().flat_map(|n| n.mean.clone()).collect());
        add("scale.factor", self.nodes.iter().flat_map(lower).collect());
        if let Some(error) = self.log_sd_error {
            add("scale.log_sd_error", vec![error]);
        }
        if let Some(effects) = &self.effects {
            add("effect.mean", effects.mean.clone());
            add("effect.variance", effects.variance.clone());
            add("effect.covariance", effects.covariance.clone());
            add("effect.rows", effects.rows.clone());
            add("effect.quantiles", effects.quantiles.clone());
        }
        out
    }

    /// Reads [`Mixed::vectors`]; `None` if there are none, an error in words if they do not fit together.
    pub fn of_vectors(dim: usize, vectors: &BTreeMap<String, Vec<f64>>) -> Option<Result<Self, String>> {
        let sds = vectors.get("scale.sd")?;
        let (count, packed) = (sds.len(), dim * (dim + 1) / 2);
        let part = |name: &str, length: usize| -> Result<&Vec<f64>, String> {
            let found = vectors.get(name).ok_or(format!("the arrays have no {name}"))?;
            if found.len() == length {
                return Ok(found);
            }
            Err(format!("{name} has {} entries, but {length} are required", found.len()))
        };
        let read = || {
            let (weights, means) = (part("scale.weight", count)?, part("scale.mean", count * dim)?);
            let factors = part("scale.factor", count * packed)?;
            let sum: f64 = weights.iter().sum();
            let sorted = sds.windows(2).all(|w| w[0] < w[1]) && sds.first().is_some_and(|s| *s >= 0.0);
            if !sorted || (sum - 1.0).abs() > 1e-9 || weights.iter().any(|w| *w < 0.0) {
                return Err("the sds of the grid do not grow, or their weights do not sum to 1".into());
            }
            let node = |k: usize| {
                let mut factor = vec![0.0; dim * dim];
                let mut from = k * packed;
                for j in 0..dim {
                    factor[j * dim + j..(j + 1) * dim].copy_from_slice(&factors[from..][..dim - j]);
                    from += dim - j;
                }
                let mean = means[k * dim..][..dim].to_vec();
                Node { sd: sds[k], weight: weights[k], mean, factor, error: f64::INFINITY }
            };
            let effects = match vectors.get("effect.mean") {
                Some(mean) => Some(Effects {
                    mean: mean.clone(),
                    variance: part("effect.variance", mean.len())?.clone(),
                    covariance: part("effect.covariance", mean.len() * dim)?.clone(),
                    rows: part("effect.rows", mean.len())?.clone(),
                    quantiles: part("effect.quantiles", 3 * mean.len())?.clone(),
                }),
                None => None,
            };
            let log_sd_error = vectors.get("scale.log_sd_error").and_then(|v| v.first()).copied();
            Ok(Self { nodes: (0..count).map(node).collect(), log_sd_error, effects })
        };
        Some(read())
    }
}
