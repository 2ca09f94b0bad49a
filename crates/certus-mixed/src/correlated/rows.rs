//! The rows of a model with correlated effects of one factor, sorted by its levels, and the model they make with a
//! likelihood and a prior.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use certus::linalg;
use certus_likelihood::prior::Prior;
use certus_likelihood::{Datum, Likelihood};

use super::error::Error;
use super::space::{MOST_EFFECTS, Vector};
use crate::linear;

/// Rows of a piece of work, about: pieces end where groups end, so they depend on the data only.
const PIECE: usize = 64;
/// The largest condition number that the effects' cross-products may have.
const HARDLY: f64 = 2e7;

/// The shape of a model: one factor whose levels have k correlated effects each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Design {
    /// Levels of the factor.
    pub levels: usize,
    /// k, effects per level.
    pub effects: usize,
    /// p, fixed effects, the intercept among them.
    pub fixed: usize,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The level of the factor.
    pub level: u32,
    /// z, the columns of the effects: 1 for an intercept.
    pub effects: &'a [f64],
    /// x, the columns of the fixed effects.
    pub fixed: &'a [f64],
    /// The response, with the trials of a binomial one.
    pub datum: Datum,
    /// What is added to the linear predictor.
    pub offset: f64,
    /// w, a frequency: a row of weight w is w equal rows.
    pub weight: f64,
}

/// A model whose correlated effects are integrated out. A copy shares the rows.
#[derive(Clone)]
pub struct Model {
    pub(super) design: Design,
    pub(super) likelihood: Arc<dyn Likelihood>,
    pub(super) prior: Prior,
    pub(super) sorted: Arc<Sorted>,
    stop: Option<Arc<AtomicBool>>,
}

/// Rows sorted by level.
#[derive(Default)]
pub(super) struct Sorted {
    /// x, row after row.
    pub(super) x: Vec<f64>,
    pub(super) z: Vec<Vector>,
    pub(super) data: Vec<Datum>,
    pub(super) offset: Vec<f64>,
    pub(super) weight: Vec<f64>,
    /// The levels that have rows.
    pub(super) codes: Vec<usize>,
    /// Where groups begin among the rows, and the number of rows.
    pub(super) first: Vec<usize>,
    /// Where pieces begin among the groups, and the number of groups.
    pub(super) pieces: Vec<usize>,
    /// √(Σ w z²/Σ w) of every effect.
    pub(super) rms: Vec<f64>,
    /// Σ w.
    pub(super) total: f64,
}

impl Model {
    /// Reads the rows; those of weight 0 are left out. A flat prior of the coefficients is `Prior::independent` with
    /// infinite sds.
    pub fn new<'a>(
        design: Design,
        rows: impl IntoIterator<Item = Row<'a>>,
        likelihood: Arc<dyn Likelihood>,
        prior: Prior,
    ) -> Result<Self, Error> {
        let Design { levels, effects: k, fixed: p } = design;
        if k == 0 || k > MOST_EFFECTS {
            return Err(Error::Effects { effects: k, most: MOST_EFFECTS });
        }
        if prior.dim() != p {
            return Err(Error::Prior { found: prior.dim(), expected: p });
        }
        let mut all = Sorted::default();
        let mut level = Vec::new();
        for (at, row) in rows.into_iter().enumerate() {
            check(&design, at, &row)?;
            if row.weight == 0.0 {
                continue;
            }
            if let Some(problem) = likelihood.reject(row.datum) {
                return Err(Error::Response { row: at, problem });
            }
            level.push(row.level as usize);
            all.x.extend(row.fixed);
            let mut z = [0.0; MOST_EFFECTS];
            z[..k].copy_from_slice(row.effects);
            all.z.push(z);
            all.data.push(row.datum);
            all.offset.push(row.offset);
            all.weight.push(row.weight);
        }
        let sorted = all.sort(&level, levels, p, k);
        if sorted.data.is_empty() {
            return Err(Error::NoRows);
        }
        let model = Self { design, likelihood, prior, sorted: Arc::new(sorted), stop: None };
        model.identified()?;
        Ok(model)
    }

    /// The same model, whose passes end when the flag is set.
    pub fn with_stop(self, stop: Option<Arc<AtomicBool>>) -> Self {
        Self { stop, ..self }
    }

    /// The shape.
    pub fn design(&self) -> Design {
        self.design
    }

    /// Rows of positive weight.
    pub fn rows(&self) -> usize {
        self.sorted.data.len()
    }

    /// n, the sum of the weights.
    pub fn weight(&self) -> f64 {
        self.sorted.total
    }

    /// The levels that have rows, ascending: the order in which effects are listed.
    pub fn levels(&self) -> &[usize] {
        &self.sorted.codes
    }

    /// The prior of the coefficients.
    pub fn prior(&self) -> &Prior {
        &self.prior
    }

    /// √(Σ w z²/Σ w) of every effect.
    pub fn rms(&self) -> &[f64] {
        &self.sorted.rms
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Refuses columns of X that others explain (unless the prior does not), and effects that are hardly distinct.
    fn identified(&self) -> Result<(), Error> {
        let (p, k, rows) = (self.design.fixed, self.design.effects, &*self.sorted);
        if p > 0 && self.prior.is_flat() {
            let mut squares = linear::LeastSquares::new(p);
            for (i, fixed) in rows.x.chunks_exact(p).enumerate() {
                let weight = rows.weight[i];
                squares.push(&linear::Row { levels: &[], effects: &[], fixed, response: 0.0, weight });
            }
            if let Err(linear::Error::Collinear { column }) = squares.solve() {
                return Err(Error::Collinear { column });
            }
        }
        let mut gram = vec![0.0; k * k];
        for (z, w) in rows.z.iter().zip(&rows.weight) {
            (0..k * k).for_each(|e| gram[e] += w * z[e % k] * z[e / k] / (rows.rms[e % k] * rows.rms[e / k]));
        }
        let condition = linalg::extreme_eigenvalues(&gram, k)
            .map_or(f64::INFINITY, |(least, most)| if least > 0.0 { most / least } else { f64::INFINITY });
        if condition > HARDLY {
            return Err(Error::IllConditioned { condition });
        }
        Ok(())
    }
}

fn check(design: &Design, at: usize, row: &Row<'_>) -> Result<(), Error> {
    let lengths = [("effects", row.effects, design.effects), ("fixed effects", row.fixed, design.fixed)];
    for (what, values, expected) in lengths {
        if values.len() != expected {
            return Err(Error::Length { row: at, what, found: values.len(), expected });
        }
    }
    if row.level as usize >= design.levels {
        return Err(Error::Level { row: at, level: row.level, levels: design.levels });
    }
    let finite = "a finite number is required";
    let value = |what, value, required| Err(Error::Value { row: at, what, value, required });
    if let Some(bad) = row.effects.iter().find(|x| !x.is_finite()) {
        return value("an effect's column", *bad, finite);
    }
    if let Some(bad) = row.fixed.iter().find(|x| !x.is_finite()) {
        return value("a fixed effect's column", *bad, finite);
    }
    if !row.offset.is_finite() {
        return value("the offset", row.offset, finite);
    }
    if !(row.weight >= 0.0 && row.weight.is_finite()) {
        return value("the weight", row.weight, "a finite number of at least 0 is required");
    }
    Ok(())
}

impl Sorted {
    /// A stable counting sort by level.
    fn sort(self, level: &[usize], levels: usize, p: usize, k: usize) -> Self {
        let n = level.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&i| level[i]);
        let mut first = Vec::new();
        let mut codes = Vec::new();
        for (place, &i) in order.iter().enumerate() {
            if codes.last() != Some(&level[i]) {
                codes.push(level[i]);
                first.push(place);
            }
        }
        debug_assert!(codes.iter().all(|c| *c < levels));
        first.push(n);
        let mut pieces = vec![0];
        let mut begun = 0;
        for g in 1..first.len() {
            if first[g] - begun >= PIECE || g + 1 == first.len() {
                pieces.push(g);
                begun = first[g];
            }
        }
        let total: f64 = self.weight.iter().sum();
        let square = |a: usize| self.z.iter().zip(&self.weight).map(|(z, w)| w * z[a] * z[a]).sum::<f64>();
        let rms = (0..k).map(|a| (square(a) / total).sqrt()).collect();
        Self {
            x: order.iter().flat_map(|&i| &self.x[i * p..][..p]).copied().collect(),
            z: order.iter().map(|&i| self.z[i]).collect(),
            data: order.iter().map(|&i| self.data[i]).collect(),
            offset: order.iter().map(|&i| self.offset[i]).collect(),
            weight: order.iter().map(|&i| self.weight[i]).collect(),
            codes,
            first,
            pieces,
            rms,
            total,
        }
    }
}
