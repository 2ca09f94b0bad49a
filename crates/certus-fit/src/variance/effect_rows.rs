//! The rows of a model with several group effects.

use certus_data::Prepared;
use certus_data::encoding::Encoding;
use certus_likelihood::Datum;
use certus_models::Error;
use certus_models::rows::leaves;

use crate::variance::several::EffectTerms;

/// A row of the model: its level of every factor, the columns of its effects in the order of the terms, as the user has
/// them but for their units, and those of the design.
pub(crate) struct EffectRow<'a> {
    pub(crate) levels: &'a [u32],
    pub(crate) effects: &'a [f64],
    pub(crate) fixed: &'a [f64],
    pub(crate) datum: Datum,
    pub(crate) offset: f64,
    pub(crate) weight: f64,
}

/// Visits the rows of positive weight.
pub(crate) fn each_row(
    prepared: &Prepared,
    terms: &EffectTerms,
    visit: &mut dyn FnMut(&EffectRow<'_>),
) -> Result<(), Error> {
    let encoding: &Encoding = &prepared.encoding;
    let (center, scale) = encoding.center_and_scale();
    let first = usize::from(encoding.intercept);
    let order: Vec<usize> = terms.list.iter().flat_map(|t| t.effects.iter().copied()).collect();
    let mut fixed = vec![1.0; first + scale.len()];
    let mut effects = vec![0.0; order.len()];
    let mut levels = vec![0; terms.factors.len()];
    for index in 0..leaves(&*prepared.rows) {
        prepared.rows.leaf(index, &mut |leaf| {
            for i in 0..leaf.y.len() {
                let weight = leaf.weight_of(i);
                // a row of weight 0 is not there
                if weight == 0.0 {
                    continue;
                }
                for j in 0..scale.len() {
                    fixed[first + j] = (leaf.x.get(i, j) - center[j]) / scale[j];
                }
                for (z, effect) in effects.iter_mut().zip(&order) {
                    let effect = &terms.unknown_scales.effects[*effect];
                    *z = match effect.only {
                        Some(k) => prepared.effects[k][leaf.first + i] * effect.unit,
                        None => fixed[effect.feature] + effect.shift,
                    };
                }
                for (level, factor) in levels.iter_mut().zip(&terms.factors) {
                    *level = prepared.codes[*factor][leaf.first + i];
                }
                let (datum, offset) = (leaf.datum(i), leaf.offset_of(i));
                let (levels, effects, fixed) = (&levels[..], &effects[..], &fixed[..]);
                visit(&EffectRow { levels, effects, fixed, datum, offset, weight });
            }
        })?;
    }
    Ok(())
}

/// Rows in memory, for engines that visit them again and again.
#[derive(Default)]
pub(crate) struct EffectRows {
    levels: Vec<u32>,
    effects: Vec<f64>,
    fixed: Vec<f64>,
    others: Vec<(Datum, f64, f64)>,
}

impl EffectRows {
    pub(crate) fn new(prepared: &Prepared, terms: &EffectTerms) -> Result<Self, Error> {
        let mut out = Self::default();
        each_row(prepared, terms, &mut |row| {
            out.levels.extend(row.levels);
            out.effects.extend(row.effects);
            out.fixed.extend(row.fixed);
            out.others.push((row.datum, row.offset, row.weight));
        })?;
        Ok(out)
    }

    /// Σ w.
    pub(crate) fn weight(&self) -> f64 {
        self.others.iter().map(|(_, _, weight)| weight).sum()
    }

    /// Row after row.
    pub(crate) fn iter(&self) -> impl Iterator<Item = EffectRow<'_>> {
        let n = self.others.len().max(1);
        let [groups, width, p] = [self.levels.len(), self.effects.len(), self.fixed.len()].map(|x| x / n);
        self.others.iter().enumerate().map(move |(i, (datum, offset, weight))| EffectRow {
            levels: &self.levels[i * groups..][..groups],
            effects: &self.effects[i * width..][..width],
            fixed: &self.fixed[i * p..][..p],
            datum: *datum,
            offset: *offset,
            weight: *weight,
        })
    }
}
