//! What the latents of a fit mean: names, the way to the user's scale, and the linear predictor of a row.

use certus_models::hierarchical::Latent;
use serde::{Deserialize, Serialize};

use certus_data::encoding::{ColumnEncoding, Encoding, Group};

/// The most latents whose quantities are listed one by one in fit.json, some 25 MB of text; beyond, groups have a
/// table.
pub const LISTED: usize = 1 << 16;

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
pub struct CoefficientMap {
    /// How rows are made.
    pub encoding: Encoding,
    /// What every latent is; empty if they are the coefficients of the design, in order.
    pub latents: Vec<Place>,
}

impl CoefficientMap {
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

    /// The same for rows whose groups are not asked for.
    pub(crate) fn without_groups(&self) -> Self {
        let mut out = self.clone();
        out.encoding.groups.clear();
        // columns that only name groups come last
        while out.encoding.columns.last().is_some_and(|c| c.how == ColumnEncoding::Label) {
            out.encoding.columns.pop();
        }
        out
    }

    /// True if the coefficients of the groups are too many to list: they have a table of their own.
    pub fn has_table(&self) -> bool {
        self.latents.len() > LISTED
    }

    /// Every coefficient on the user's scale: those of all rows, then for every latent of a group its own value and,
    /// where it is centred at another, its deviation from that; with [`CoefficientMap::has_table`], those of all rows
    /// alone.
    pub fn quantities(&self) -> Vec<Quantity> {
        let blocks = Blocks::new(self);
        let listed = if self.has_table() { self.columns() } else { self.dim() };
        (0..listed).flat_map(|i| blocks.quantities(i)).collect()
    }

    /// Calls `visit(latent, terms of its own value, terms of its deviation)` for every latent of a group, in order.
    pub(crate) fn for_each_effect(&self, mut visit: impl FnMut(&Place, &[(usize, f64)], &[(usize, f64)])) {
        let blocks = Blocks::new(self);
        for (i, place) in self.latents.iter().enumerate().filter(|(_, place)| place.group.is_some()) {
            let own = blocks.on_user_scale(i);
            let deviation = place.outer.map_or_else(|| own.clone(), |outer| blocks.difference(&own, outer));
            visit(place, &own, &deviation);
        }
    }

    /// Linear predictors of rows.
    pub fn rows(&self) -> RowTerms<'_> {
        RowTerms { blocks: Blocks::new(self) }
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

/// The latents by group, level and feature. Blocks of latents are consecutive, with the slopes of their group in its
/// order.
struct Blocks<'a> {
    meaning: &'a CoefficientMap,
    /// Per group and level, its first latent.
    first: Vec<Vec<usize>>,
    /// Per group and column of the design, its place among the slopes.
    slots: Vec<Vec<Option<usize>>>,
    center: Vec<f64>,
    scale: Vec<f64>,
}

impl<'a> Blocks<'a> {
    fn new(meaning: &'a CoefficientMap) -> Self {
        let groups = &meaning.encoding.groups;
        let mut first: Vec<Vec<usize>> = groups.iter().map(|g| vec![usize::MAX; g.levels.len()]).collect();
        for (i, place) in meaning.latents.iter().enumerate() {
            if let Some(at) = place.group.and_then(|g| first[g].get_mut(place.level)) {
                *at = (*at).min(i);
            }
        }
        let slot = |g: &Group, feature: usize| g.slopes.iter().position(|j| *j == feature);
        let slots = groups.iter().map(|g| (0..meaning.columns()).map(|j| slot(g, j)).collect()).collect();
        let (center, scale) = meaning.encoding.center_and_scale();
        Self { meaning, first, slots, center, scale }
    }

    fn place(&self, i: usize) -> Option<&'a Place> {
        self.meaning.latents.get(i)
    }

    /// The latent of a level of a group for a column of the design.
    fn own(&self, group: usize, level: usize, feature: usize) -> Option<usize> {
        let first = *self.first.get(group)?.get(level)?;
        let slot = self.slots[group][feature]?;
        (first != usize::MAX).then(|| first + slot)
    }

    /// The names and terms of a latent, and of its deviation.
    fn quantities(&self, i: usize) -> Vec<Quantity> {
        let encoding = &self.meaning.encoding;
        let named = |i: usize| {
            let place = self.place(i);
            let coefficient = encoding.coefficient(place.map_or(i, |p| p.feature));
            match place.and_then(|p| p.group.map(|g| (p, &encoding.groups[g]))) {
                Some((p, group)) => format!("{coefficient}[{}={}]", group.name, group.level_name(p.level)),
                None => coefficient,
            }
        };
        let own = Quantity { name: named(i), terms: self.on_user_scale(i) };
        let deviation = self.place(i).and_then(|p| p.outer).map(|outer| Quantity {
            name: format!("{} - {}", own.name, named(outer)),
            terms: self.difference(&own.terms, outer),
        });
        std::iter::once(own).chain(deviation).collect()
    }

    fn difference(&self, own: &[(usize, f64)], outer: usize) -> Vec<(usize, f64)> {
        let around = self.on_user_scale(outer).into_iter().map(|(k, a)| (k, -a));
        combined(own.iter().copied().chain(around).collect())
    }

    /// True for the groups whose latents are their own coefficients: a deviation is added to the coefficients of all
    /// rows instead.
    fn centred(&self, mut i: usize) -> bool {
        while let Some(outer) = self.place(i).and_then(|p| p.outer) {
            i = outer;
        }
        self.place(i).is_none_or(|p| p.group.is_none())
    }

    /// The latent that multiplies a feature in the block of latent i: its own, that of a block around it, that of all
    /// rows; none if the block holds deviations and the feature does not deviate.
    fn slope(&self, i: usize, feature: usize) -> Option<usize> {
        let mut here = Some(i);
        while let Some((place, group)) =
            here.and_then(|i| self.place(i)).and_then(|p| p.group.map(|g| (p, g)))
        {
            if let Some(own) = self.own(group, place.level, feature) {
                return Some(own);
            }
            here = place.outer;
        }
        // the coefficients of all rows come first
        self.centred(i).then_some(feature)
    }

    /// β_j = z_j/scale_j, and an intercept gives back what centring took from the slopes that go with it: z_0 − Σ z_j
    /// center_j/scale_j.
    fn on_user_scale(&self, i: usize) -> Vec<(usize, f64)> {
        let first = usize::from(self.meaning.encoding.intercept);
        let feature = self.place(i).map_or(i, |p| p.feature);
        let (center, scale) = (&self.center, &self.scale);
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
}

impl RowTerms<'_> {
    /// The linear predictor, without the offset, of a row with features `x` and `levels[g]` of every group, as (latent,
    /// weight).
    pub fn terms(&self, x: &[f64], levels: &[usize], out: &mut Vec<(usize, f64)>) {
        out.clear();
        let encoding = &self.blocks.meaning.encoding;
        let first = usize::from(encoding.intercept);
        for feature in 0..first + x.len() {
            let value = feature
                .checked_sub(first)
                .map_or(1.0, |j| (x[j] - self.blocks.center[j]) / self.blocks.scale[j]);
            let mut global = true;
            for (g, level) in levels.iter().enumerate() {
                let Some(own) = self.blocks.own(g, *level, feature) else { continue };
                global &= !self.blocks.centred(own);
                let deeper = encoding.groups.iter().zip(levels).enumerate().any(|(k, (group, level))| {
                    group.within == Some(g) && self.blocks.own(k, *level, feature).is_some()
                });
                if !deeper {
                    out.push((own, value));
                }
            }
            if global {
                out.push((feature, value));
            }
        }
    }
}
