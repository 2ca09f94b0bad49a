//! From feature columns to the design matrix A: an intercept first if wanted, columns centred and scaled inside the
//! leaf, and the affine map of coefficients back to the user's scale.

use std::sync::Arc;

use certus::Gaussian;
use certus::factor::{Factor, Lower};
use certus::linalg;

use crate::error::{Error, InvalidData};
use crate::matrix::{Matrix, view};
use crate::rows::{Leaf, Pool, Rows};
use certus_likelihood::{Datum, Likelihood};

/// How columns become coefficients: column j of A is (x_j − center_j)/scale_j.
#[derive(Clone)]
pub struct Design {
    rows: Arc<dyn Rows>,
    intercept: bool,
    transform: Option<(Vec<f64>, Vec<f64>)>,
}

/// One leaf of the design: A (rows × d) and the data of its rows.
pub struct DesignLeaf<'a> {
    /// The number of its first row.
    pub first: usize,
    /// A.
    pub a: Matrix<'a>,
    /// Responses and trials.
    pub data: &'a [Datum],
    /// Offsets.
    pub offset: &'a [f64],
    /// Weights.
    pub weight: &'a [f64],
}

impl Design {
    /// The columns as they are.
    pub fn new(rows: Arc<dyn Rows>, intercept: bool) -> Self {
        Self { rows, intercept, transform: None }
    }

    /// Columns centred (if there is an intercept to take it up) and scaled to unit standard deviation, in two passes; a
    /// constant column keeps scale 1.
    pub fn standardised(rows: Arc<dyn Rows>, intercept: bool) -> Result<Self, Error> {
        let (p, n) = (rows.columns(), rows.len() as f64);
        let pool = Pool::default();
        let center = if intercept {
            let mut sums = pool.sum(&*rows, p, &|leaf, _, out| {
                (0..p).for_each(|j| out[j] += (0..leaf.y.len()).map(|i| leaf.x.get(i, j)).sum::<f64>());
            })?;
            sums.iter_mut().for_each(|s| *s /= n);
            sums
        } else {
            vec![0.0; p]
        };
        let about: Vec<f64> = center.clone();
        let moments = |shrink: &[f64]| {
            pool.sum(&*rows, 2 * p, &|leaf, _, out| {
                for j in 0..p {
                    for i in 0..leaf.y.len() {
                        let x = (leaf.x.get(i, j) - about[j]) * shrink[j];
                        out[j] += x;
                        out[p + j] += x * x;
                    }
                }
            })
        };
        let mut shrink = vec![1.0; p];
        let mut sums = moments(&shrink)?;
        // squares of very small or large numbers leave the range of doubles: once more with those columns in a power of
        // two
        if (0..p).any(|j| !(1e-280..1e280).contains(&sums[p + j])) {
            let sizes = pool.sum(&*rows, p, &|leaf, _, out| {
                for j in 0..p {
                    let parts = (0..leaf.y.len()).map(|i| (leaf.x.get(i, j) - about[j]).abs() / n);
                    out[j] += parts.sum::<f64>();
                }
            })?;
            for (s, size) in
                shrink.iter_mut().zip(&sizes).filter(|(_, size)| **size > 0.0 && size.is_finite())
            {
                *s = 2f64.powi(-(size.log2().floor() as i32).clamp(-1000, 1000));
            }
            sums = moments(&shrink)?;
        }
        let scale = (0..p)
            .map(|j| {
                let (mean, square, about) = (sums[j] / n, sums[p + j] / n, about[j] * shrink[j]);
                let variance = (square - mean * mean).max(0.0);
                if variance > 1e-24 * (square + about * about) { variance.sqrt() / shrink[j] } else { 1.0 }
            })
            .collect();
        Ok(Self { rows, intercept, transform: Some((center, scale)) })
    }

    /// Columns centred and scaled by numbers that are known already; one of each per column.
    pub fn transformed(
        rows: Arc<dyn Rows>,
        intercept: bool,
        center: Vec<f64>,
        scale: Vec<f64>,
    ) -> Result<Self, Error> {
        let p = rows.columns();
        if center.len() != p || scale.len() != p {
            let (centers, scales) = (center.len(), scale.len());
            return Err(InvalidData::Standardisation { centers, scales, columns: p }.into());
        }
        if let Some(j) = (0..p).find(|&j| !(center[j].is_finite() && scale[j].is_finite() && scale[j] > 0.0))
        {
            return Err(InvalidData::Scale { column: j, center: center[j], scale: scale[j] }.into());
        }
        Ok(Self { rows, intercept, transform: Some((center, scale)) })
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.rows.columns() + usize::from(self.intercept)
    }

    /// The rows behind it.
    pub fn rows(&self) -> &dyn Rows {
        &*self.rows
    }

    /// True if the first column of A is one of ones.
    pub fn intercept(&self) -> bool {
        self.intercept
    }

    /// center_j and scale_j of feature j: 0 and 1 where columns are used as they are.
    pub fn center_and_scale(&self, j: usize) -> (f64, f64) {
        self.transform.as_ref().map_or((0.0, 1.0), |(center, scale)| (center[j], scale[j]))
    }

    /// Checks every number for being finite, naming the first bad row.
    pub fn check_numbers(&self) -> Result<(), Error> {
        self.check(&first_bad_number)
    }

    /// Checks every observation against the likelihood.
    pub fn check_responses(&self, likelihood: &dyn Likelihood) -> Result<(), Error> {
        self.check(&|leaf| {
            (0..leaf.y.len()).find_map(|i| {
                let row = leaf.first + i;
                likelihood.reject(leaf.datum(i)).map(|reason| InvalidData::Response { row, reason })
            })
        })
    }

    fn check(&self, first_bad: &(impl Fn(&Leaf<'_>) -> Option<InvalidData> + Sync)) -> Result<(), Error> {
        let own = crate::rows::own_leaves(&*self.rows);
        let leaf = |k: usize| {
            let mut bad = None;
            self.rows.leaf(own.start + k, &mut |leaf| bad = first_bad(&leaf))?;
            Ok(bad)
        };
        let first = |a: FirstInvalid, b: FirstInvalid| Ok(a?.or(b?));
        let bad = certus::parallel::reduce(own.len(), 1, &leaf, &first).transpose()?.flatten();
        // ranks hold rows in order, so the first rank with a bad row has the first one
        let bad = match self.rows.ranks() {
            Some(ranks) => {
                let words = ranks.first_words(bad.as_ref().map(ToString::to_string));
                words.map(|words| {
                    bad.filter(|bad| bad.to_string() == words).unwrap_or(InvalidData::OtherRank(words))
                })
            }
            None => bad,
        };
        bad.map_or(Ok(()), |bad| Err(bad.into()))
    }

    /// Prepares a leaf: A is the source's own memory unless an intercept or a transformation makes a copy necessary, in
    /// which case it is built column by column in `scratch`.
    pub fn prepare<R>(
        &self,
        leaf: Leaf<'_>,
        scratch: &mut Vec<f64>,
        work: impl FnOnce(DesignLeaf<'_>) -> R,
    ) -> R {
        let (n, p, d) = (leaf.y.len(), leaf.x.columns(), self.dim());
        let mut data = [Datum { y: 0.0, trials: 1.0 }; crate::rows::LEAF];
        for (i, datum) in data[..n].iter_mut().enumerate() {
            *datum = leaf.datum(i);
        }
        static ZEROS: [f64; crate::rows::LEAF] = [0.0; crate::rows::LEAF];
        static ONES: [f64; crate::rows::LEAF] = [1.0; crate::rows::LEAF];
        let offset = if leaf.offset.is_empty() { &ZEROS[..n] } else { leaf.offset };
        let weight = if leaf.weight.is_empty() { &ONES[..n] } else { leaf.weight };
        let copied = self.intercept || self.transform.is_some();
        if copied {
            scratch.clear();
            scratch.resize(n * d, 1.0);
            let first = usize::from(self.intercept);
            for j in 0..p {
                let column = &mut scratch[(first + j) * n..][..n];
                match &self.transform {
                    Some((center, scale)) => {
                        column
                            .iter_mut()
                            .enumerate()
                            .for_each(|(i, a)| *a = (leaf.x.get(i, j) - center[j]) / scale[j]);
                    }
                    None => column.iter_mut().enumerate().for_each(|(i, a)| *a = leaf.x.get(i, j)),
                }
            }
        }
        let a = if copied { view(&scratch[..n * d], n, d) } else { leaf.x.view() };
        work(DesignLeaf { first: leaf.first, a, data: &data[..n], offset, weight })
    }

    /// Entry (i, j) of A.
    pub(crate) fn value(&self, leaf: &Leaf<'_>, i: usize, j: usize) -> f64 {
        let Some(j) = j.checked_sub(usize::from(self.intercept)) else { return 1.0 };
        match &self.transform {
            Some((center, scale)) => (leaf.x.get(i, j) - center[j]) / scale[j],
            None => leaf.x.get(i, j),
        }
    }

    /// The Gaussian of the coefficients on the user's scale: β_j = z_j/scale_j, intercept z_0 − Σ z_j center_j/scale_j.
    pub fn to_user_scale(&self, w: &Gaussian) -> Result<Gaussian, Error> {
        let Some((center, scale)) = &self.transform else { return Ok(w.clone()) };
        let (d, first) = (self.dim(), usize::from(self.intercept));
        let back = |column: &[f64]| -> Vec<f64> {
            let mut out = column.to_vec();
            for j in 0..scale.len() {
                out[first + j] /= scale[j];
                if self.intercept {
                    out[0] -= out[1 + j] * center[j];
                }
            }
            out
        };
        let mean = back(w.mean());
        let dense: Vec<f64> = w.factor().to_dense().chunks_exact(d).flat_map(back).collect();
        let factor = Factor::Lower(Lower::new(d, linalg::lower_of_same_covariance(&dense, d))?);
        Ok(Gaussian::new(mean, factor)?)
    }
}

/// The first thing wrong in some leaves, unless they could not be read.
type FirstInvalid = Result<Option<InvalidData>, Error>;

fn first_bad_number(leaf: &Leaf<'_>) -> Option<InvalidData> {
    for i in 0..leaf.y.len() {
        let row = leaf.first + i;
        if let Some(j) = (0..leaf.x.columns()).find(|&j| !leaf.x.get(i, j).is_finite()) {
            return Some(InvalidData::Feature { row, column: j, value: leaf.x.get(i, j) });
        }
        let beside = [
            ("offset", leaf.offset, f64::NEG_INFINITY, "a finite number"),
            ("weight", leaf.weight, 0.0, "a finite number of at least 0"),
        ];
        for (name, part, least, required) in beside {
            if let Some(&value) = part.get(i).filter(|x| !x.is_finite() || **x < least) {
                return Some(InvalidData::OffsetOrWeight { row, name, value, required });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Memory;

    /// T14. Squares of 1e-170 are 0 and those of 1e170 infinite: such columns kept the scale 1.
    #[test]
    fn columns_of_any_size_are_standardised() {
        let scale = |size: f64, intercept: bool| {
            let x: Vec<f64> = (0..80)
                .map(|k| if k % 2 == 0 { size * ((0.7 * f64::from(k)).sin() + 0.2) } else { f64::from(k) })
                .collect();
            let rows = Memory { x, y: vec![0.0; 40], columns: 2, ..Memory::default() };
            let design = Design::standardised(Arc::new(rows), intercept).expect("two columns");
            design.transform.expect("standardised").1
        };
        for intercept in [true, false] {
            let ordinary = scale(1.0, intercept);
            for size in [1e-300, 1e-170, 1e170, 1e300] {
                let [a, b] = scale(size, intercept)[..] else { panic!("two columns") };
                assert!((a / size / ordinary[0] - 1.0).abs() < 1e-12, "{size}: {a}");
                assert!((b / ordinary[1] - 1.0).abs() < 1e-12, "{size}: {b}");
            }
        }
    }
}
