//! A mixture as the vectors it is kept as.

use std::collections::BTreeMap;

use certus_mixed::collapsed::Node;

use crate::error::Inconsistency;
use crate::variance::mixture::{Effects, MixturePosterior};
use crate::variance::names::{ScaleName, UnknownScales};

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
            for (name, values) in
                [("effect.between", &effects.between), ("effect.deviations", &effects.deviations)]
            {
                if !values.is_empty() {
                    add(name, values.clone());
                }
            }
        }
        out
    }

    /// Reads [`MixturePosterior::vectors`] of some scales; `None` if there are none, an error if they do not fit
    /// together.
    pub fn of_vectors(
        dim: usize,
        unknown_scales: &UnknownScales,
        vectors: &BTreeMap<String, Vec<f64>>,
    ) -> Option<Result<Self, Inconsistency>> {
        let sds = vectors.get("scale.sd")?;
        let scales = unknown_scales.scales.len();
        // without unknown scales there is one node
        let (count, packed) = (sds.len().checked_div(scales).unwrap_or(1), dim * (dim + 1) / 2);
        let part = |name: &'static str, required: usize| -> Result<&Vec<f64>, Inconsistency> {
            let found = vectors.get(name).ok_or(Inconsistency::NoVector { name })?;
            if found.len() == required {
                return Ok(found);
            }
            Err(Inconsistency::Length { name, found: found.len(), required })
        };
        let read = || {
            let (weights, means) = (part("scale.weight", count)?, part("scale.mean", count * dim)?);
            let factors = part("scale.factor", count * packed)?;
            let sum: f64 = weights.iter().sum();
            let keys: Vec<[i64; 2]> =
                part("scale.key", 2 * count)?.chunks_exact(2).map(|k| [k[0] as i64, k[1] as i64]).collect();
            part("scale.sd", count * scales)?;
            let grow = scales != 1 || sds.windows(2).all(|w| w[0] < w[1]);
            let possible = |(own, s): (&ScaleName, &f64)| match own.correlation {
                true => s.abs() <= 1.0,
                false => *s >= 0.0 && s.is_finite(),
            };
            let legal = count > 0
                && sds.chunks_exact(scales.max(1)).all(|s| unknown_scales.scales.iter().zip(s).all(possible));
            let sorted = grow && legal && keys.windows(2).all(|k| k[0] < k[1]);
            if !sorted || (sum - 1.0).abs() > 1e-9 || weights.iter().any(|w| *w < 0.0) {
                return Err(Inconsistency::Grid);
            }
            let node = |k: usize| {
                let mut factor = vec![0.0; dim * dim];
                let mut from = k * packed;
                for j in 0..dim {
                    factor[j * dim + j..(j + 1) * dim].copy_from_slice(&factors[from..][..dim - j]);
                    from += dim - j;
                }
                let mean = means[k * dim..][..dim].to_vec();
                Node {
                    sd: sds.get(k * scales).copied().unwrap_or(f64::NAN),
                    weight: weights[k],
                    mean,
                    factor,
                    error: f64::INFINITY,
                }
            };
            let effects = match vectors.get("effect.mean") {
                Some(mean) => Some(Effects {
                    mean: mean.clone(),
                    variance: part("effect.variance", mean.len())?.clone(),
                    covariance: part("effect.covariance", mean.len() * dim)?.clone(),
                    rows: part("effect.rows", mean.len())?.clone(),
                    quantiles: part("effect.quantiles", 3 * mean.len())?.clone(),
                    between: match vectors.get("effect.between") {
                        Some(_) => {
                            let k = unknown_scales.effects.len();
                            part("effect.between", mean.len() / k.max(1) * (k * (k - 1) / 2))?.clone()
                        }
                        None => Vec::new(),
                    },
                    deviations: match vectors.get("effect.deviations") {
                        Some(all) if all.len().is_multiple_of(dim + mean.len()) => all.clone(),
                        Some(all) => {
                            let (found, dim) = (all.len(), dim + mean.len());
                            return Err(Inconsistency::Deviations { found, dim });
                        }
                        None => Vec::new(),
                    },
                }),
                None => None,
            };
            let log_covariance = match vectors.get("scale.log_covariance") {
                Some(_) => Some(part("scale.log_covariance", scales * scales)?.clone()),
                None => None,
            };
            let all = (0..count).map(|k| sds[k * scales..][..scales].to_vec()).collect();
            Ok(Self { nodes: (0..count).map(node).collect(), scales: all, keys, log_covariance, effects })
        };
        Some(read())
    }
}
