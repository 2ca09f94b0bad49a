//! What the latents of a fit mean: names, the way to the user's scale, and the linear predictor of a row.

use std::collections::HashMap;

use certus_models::hierarchical::Latent;
use serde::{Deserialize, Serialize};

use crate::encoding::Encoding;

/// One latent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The group, or `None` for a coefficient of all rows.
    pub group: Option<usize>,
    /// The level of that group.
    pub level: usize,
    /// The column of the design (0 is the intercept if there is one).
    pub feature: usize,
    /// The latent it is centred at.
    pub outer: Option<usize>,
}

/// A linear combination of latents that has a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// Such as `rain`, `rain[city=Utrecht]` or `rain[city=Utrecht] - rain`.
    pub name: String,
    /// (latent, weight).
    pub terms: Vec<(usize, f64)>,
}

/// The latents of a fit; kept with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meaning {
    /// How rows are made.
    pub encoding: Encoding,
    /// What every latent is; empty if they are the coefficients of the design, in order.
    pub latents: Vec<Place>,
}

impl Meaning {
    /// Of a model without groups.
    pub fn dense(encoding: Encoding) -> Self {
        Self { encoding, latents: Vec::new() }
    }

    /// Of a model with groups.
    pub fn grouped(encoding: Encoding, latents: &[Latent]) -> Self {
        let place = |l: &Latent| Place {
            group: l.term,
            level: l.level,
            feature: l.feature,
            outer: l.outer.map(|(outer, _)| outer),
        };
        Self { encoding, latents: latents.iter().map(place).collect() }
    }

    fn columns(&self) -> usize {
        self.encoding.features.len() + usize::from(self.encoding.intercept)
    }

    /// Number of latents.
    pub fn dim(&self) -> usize {
        if self.latents.is_empty() { self.columns() } else { self.latents.len() }
    }

    /// Every coefficient on the user's scale: those of all rows, then for every latent of a group its own value and, where it is centred
    /// at another, its deviation from that.
    ///
    /// β_j = z_j/scale_j, and an intercept gives back what centring took from the slopes that go with it: z_0 − Σ z_j center_j/scale_j.
    pub fn quantities(&self) -> Vec<Quantity> {
        let blocks = Blocks::new(self);
        let names = self.encoding.coefficients();
        let mut out = Vec::new();
        for i in 0..self.dim() {
            let terms = blocks.on_user_scale(i);
            let feature = blocks.place(i).map_or(i, |p| p.feature);
            let Some((place, group)) = blocks.place(i).and_then(|p| p.group.map(|g| (p, g))) else {
                out.push(Quantity { name: names[feature].clone(), terms });
                continue;
            };
            let group = &self.encoding.groups[group];
            let name = format!("{}[{}={}]", names[feature], group.name, group.level_name(place.level));
            let deviation = place.outer.map(|outer| {
                let around = blocks.place(outer).and_then(|p| p.group.map(|g| (p, g))).map_or_else(
                    || names[feature].clone(),
                    |(p, g)| {
                        let outer = &self.encoding.groups[g];
                        format!("{}[{}={}]", names[feature], outer.name, outer.level_name(p.level))
                    },
                );
                let mut difference = terms.clone();
                difference.extend(blocks.on_user_scale(outer).into_iter().map(|(k, a)| (k, -a)));
                Quantity { name: format!("{name} - {around}"), terms: combined(difference) }
            });
            out.push(Quantity { name, terms });
            out.extend(deviation);
        }
        out
    }

    /// Linear predictors of rows.
    pub fn rows(&self) -> RowTerms<'_> {
        let (center, scale) = self.encoding.center_and_scale();
        RowTerms { blocks: Blocks::new(self), center, scale }
    }
}

/// Sums the weights of each latent and leaves out what cancels.
fn combined(mut terms: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    terms.sort_by_key(|t| t.0);
    let mut out: Vec<(usize, f64)> = Vec::with_capacity(terms.len());
    for (i, a) in terms {
        match out.last_mut() {
            Some(last) if last.0 == i => last.1 += a,
            _ => out.push((i, a)),
        }
    }
    out.retain(|t| t.1 != 0.0);
    out
}

/// The latents by group, level and feature.
struct Blocks<'a> {
    meaning: &'a Meaning,
    of: HashMap<(Option<usize>, usize, usize), usize>,
}

impl<'a> Blocks<'a> {
    fn new(meaning: &'a Meaning) -> Self {
        let of =
            meaning.latents.iter().enumerate().map(|(i, p)| ((p.group, p.level, p.feature), i)).collect();
        Self { meaning, of }
    }

    fn place(&self, i: usize) -> Option<&'a Place> {
        self.meaning.latents.get(i)
    }

    fn global(&self, feature: usize) -> usize {
        self.of.get(&(None, 0, feature)).copied().unwrap_or(feature)
    }

    /// True for the groups whose latents are their own coefficients: a deviation is added to the coefficients of all rows instead.
    fn centred(&self, mut i: usize) -> bool {
        while let Some(outer) = self.place(i).and_then(|p| p.outer) {
            i = outer;
        }
        self.place(i).is_none_or(|p| p.group.is_none())
    }

    /// The latent that multiplies a feature in the block of latent i: its own, that of a block around it, that of all rows; none if the
    /// block holds deviations and the feature does not deviate.
    fn slope(&self, i: usize, feature: usize) -> Option<usize> {
        let mut here = Some(i);
        while let Some((place, group)) =
            here.and_then(|i| self.place(i)).and_then(|p| p.group.map(|g| (p, g)))
        {
            if let Some(own) = self.of.get(&(Some(group), place.level, feature)) {
                return Some(*own);
            }
            here = place.outer;
        }
        self.centred(i).then(|| self.global(feature))
    }

    fn on_user_scale(&self, i: usize) -> Vec<(usize, f64)> {
        let encoding = &self.meaning.encoding;
        let (center, scale) = encoding.center_and_scale();
        let first = usize::from(encoding.intercept);
        let feature = self.place(i).map_or(i, |p| p.feature);
        if feature >= first {
            return vec![(i, 1.0 / scale[feature - first])];
        }
        let slopes = (0..scale.len()).filter(|&j| center[j] != 0.0);
        let given_back = slopes.filter_map(|j| Some((self.slope(i, first + j)?, -center[j] / scale[j])));
        std::iter::once((i, 1.0)).chain(given_back).collect()
    }
}

/// The latents that a row multiplies.
pub struct RowTerms<'a> {
    blocks: Blocks<'a>,
    center: Vec<f64>,
    scale: Vec<f64>,
}

impl RowTerms<'_> {
    /// The linear predictor, without the offset, of a row with features `x` and `levels[g]` of every group, as (latent, weight).
    pub fn terms(&self, x: &[f64], levels: &[usize], out: &mut Vec<(usize, f64)>) {
        out.clear();
        let encoding = &self.blocks.meaning.encoding;
        let first = usize::from(encoding.intercept);
        for feature in 0..first + x.len() {
            let value = feature.checked_sub(first).map_or(1.0, |j| (x[j] - self.center[j]) / self.scale[j]);
            let mut global = true;
            for (g, level) in levels.iter().enumerate() {
                let Some(&own) = self.blocks.of.get(&(Some(g), *level, feature)) else { continue };
                global &= !self.blocks.centred(own);
                let deeper = encoding.groups.iter().zip(levels).enumerate().any(|(k, (group, level))| {
                    group.within == Some(g) && self.blocks.of.contains_key(&(Some(k), *level, feature))
                });
                if !deeper {
                    out.push((own, value));
                }
            }
            if global {
                out.push((self.blocks.global(feature), value));
            }
        }
    }
}
