//! A mixture as the vectors it is kept as.

use std::collections::BTreeMap;

use certus_mixed::collapsed::Node;

use crate::variance::mixture::{Effects, MixturePosterior};

impl MixturePosterior {
    /// The vectors it is kept as.
    pub fn vectors(&self) -> BTreeMap<String, Vec<f64>> {
        let d = self.dim();
        let lower =
            |n: &Node| (0..d).flat_map(|j| n.factor[j * d + j..(j + 1) * d].to_vec()).collect::<Vec<_>>();
        let mut out: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut add = |name: &str, values: Vec<f64>| out.insert(name.to_string(), values);
        add("scale.sd", self.scales.concat());
        add("scale.key", self.keys.iter().flatten().map(|k| *k as f64).collect());
        add("scale.weight", self.nodes.iter().map(|n| n.weight).collect());
        add("scale.mean", self.nodes.iter().flat_map(|n| n.mean.clone()).collect());
        add("scale.factor", self.nodes.iter().flat_map(lower).collect());
        if let Some(covariance) = &self.log_covariance {
            add("scale.log_covariance", covariance.clone());
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

    /// Reads [`MixturePosterior::vectors`] of some scales; `None` if there are none, an error in words if they do not
    /// fit
    /// together.
    pub fn of_vectors(
        dim: usize,
        scales: usize,
        vectors: &BTreeMap<String, Vec<f64>>,
    ) -> Option<Result<Self, String>> {
        let sds = vectors.get("scale.sd")?;
        let (count, packed) = (sds.len() / scales, dim * (dim + 1) / 2);
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
            let keys: Vec<[i64; 2]> =
                part("scale.key", 2 * count)?.chunks_exact(2).map(|k| [k[0] as i64, k[1] as i64]).collect();
            part("scale.sd", count * scales)?;
            let grow = scales > 1 || sds.windows(2).all(|w| w[0] < w[1]);
            let legal = count > 0 && sds.iter().all(|s| *s >= 0.0 && s.is_finite());
            let sorted = grow && legal && keys.windows(2).all(|k| k[0] < k[1]);
            if !sorted || (sum - 1.0).abs() > 1e-9 || weights.iter().any(|w| *w < 0.0) {
                return Err(
                    "the scales of the grid are not increasing, or their weights do not sum to 1".into()
                );
            }
            let node = |k: usize| {
                let mut factor = vec![0.0; dim * dim];
                let mut from = k * packed;
                for j in 0..dim {
                    factor[j * dim + j..(j + 1) * dim].copy_from_slice(&factors[from..][..dim - j]);
                    from += dim - j;
                }
                let mean = means[k * dim..][..dim].to_vec();
                Node { sd: sds[k * scales], weight: weights[k], mean, factor, error: f64::INFINITY }
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
            let log_covariance = match vectors.get("scale.log_covariance") {
                Some(_) => Some(part("scale.log_covariance", scales * scales)?.clone()),
                None => None,
            };
            let all = sds.chunks_exact(scales).map(<[f64]>::to_vec).collect();
            Ok(Self { nodes: (0..count).map(node).collect(), scales: all, keys, log_covariance, effects })
        };
        Some(read())
    }
}
