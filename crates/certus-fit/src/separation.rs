//! Whether the data separate the response, so that its likelihood has no maximum, with a direction that is checked on
//! every row (docs/priors.md, P3).

use std::sync::Arc;

use certus::{Gaussian, Outcome};
use certus_likelihood::{Binomial, Likelihood, Logistic};
use certus_models::rows::{Leaf, add, leaves};
use certus_models::{Glm, Prior, laplace};

use crate::conflict::shares;
use crate::number::number;
use crate::problem::Problem;
use crate::sides::{Side, side};
use certus_data::DataError;
use certus_data::encoding::ColumnEncoding;
use certus_data::summary::{all, over_leaves};
use certus_likelihood::Values;

/// Leaves that are checked before all others: where these overlap, all do.
const FIRST: usize = 8;
/// Rows × coefficients² for which modes with wider priors are looked for.
const SMALL: f64 = 5e6;
/// Separated data leave some coefficient this share of its prior's variance at least; where none has it, no mode is
/// looked for.
const OPEN: f64 = 0.01;
/// The wider priors, in sds of the features.
const WIDE: [f64; 2] = [1e3, 1e4];
/// Features named one by one.
const NAMED: usize = 3;

/// A column that may separate: a feature, or the reference level of a column of text, which is 1 less the sum of its
/// other levels.
enum Column {
    Feature(usize),
    Reference { name: String, level: String, others: Vec<usize> },
}

impl Column {
    fn value(&self, leaf: &Leaf<'_>, i: usize) -> f64 {
        match self {
            Self::Feature(j) => leaf.x.get(i, *j),
            Self::Reference { others, .. } => 1.0 - others.iter().map(|j| leaf.x.get(i, *j)).sum::<f64>(),
        }
    }
}

/// Least and greatest value where a direction must be at most and at least 0: observations that are both count on
/// either side.
#[derive(Clone, Copy, Debug)]
struct Ranges {
    below: [f64; 2],
    above: [f64; 2],
}

const NOWHERE: [f64; 4] = [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY, f64::NEG_INFINITY];

impl Ranges {
    /// Some x − c or c − x has the right sign in every row: comparisons alone, so it is exact. `free` if any c is
    /// allowed, else 0.
    fn ordered(&self, free: bool) -> bool {
        let between = |low: f64, high: f64| low <= high && (free || (low <= 0.0 && 0.0 <= high));
        between(self.below[1], self.above[0]) || between(self.above[1], self.below[0])
    }

    /// And it is not 0 in all.
    fn separate(&self, free: bool) -> bool {
        let [[a, b], [c, d]] = [self.below, self.above];
        self.ordered(free) && a.min(c) < b.max(d)
    }
}

impl Problem {
    /// A sentence on a response that is separated.
    pub(crate) fn separation(&self, outcome: &Outcome) -> Option<String> {
        // what cannot be read again is no finding
        self.separated(&outcome.gaussian).ok().flatten()
    }

    fn separated(&self, w: &Gaussian) -> Result<Option<String>, DataError> {
        if self.response.values() == Values::Numbers || self.one_sided()? {
            return Ok(None);
        }
        let facts = self.columns_that_separate()?;
        let end = "the likelihood has no maximum along this direction, and only priors keep the coefficients finite";
        if !facts.is_empty() {
            let more = match facts.len().saturating_sub(NAMED) {
                0 => String::new(),
                n => format!("; and {n} more"),
            };
            let shown = facts[..facts.len().min(NAMED)].join("; ");
            return Ok(Some(format!("the data separate the response: {shown}{more}; {end}")));
        }
        let Some((names, strict)) = self.combination_that_separates(w)? else { return Ok(None) };
        let (y, one, zero) = (&self.prepared.encoding.response, self.success(), self.failure());
        let where_ = if strict {
            format!("is above a threshold wherever {y} is {one}, and below it wherever {y} is {zero}")
        } else {
            let neither = if self.response.values() == Values::Successes {
                ", and at it in all other rows"
            } else {
                ""
            };
            format!(
                "is never below a threshold where {y} is {one}, never above it where {y} is {zero}{neither}"
            )
        };
        Ok(Some(format!("the data separate the response: a linear combination of {names} {where_}; {end}")))
    }

    /// True if all observations require the same: then the response is constant, which another note reports.
    fn one_sided(&self) -> Result<bool, DataError> {
        let response = self.response;
        let kind = |leaf: &Leaf<'_>, i: usize| match side(response, leaf.datum(i)) {
            Side::Above => 0,
            Side::Below => 1,
            Side::Both => 2,
        };
        let one = |counts: Vec<f64>| counts.iter().filter(|c| **c > 0.0).count() < 2;
        // a few leaves tell most responses apart
        Ok(one(self.count(&self.first(), &kind)?) && one(self.count(&[], &kind)?))
    }

    /// The leaves that are checked first.
    fn first(&self) -> Vec<usize> {
        (0..leaves(&*self.prepared.rows).min(FIRST)).collect()
    }

    /// How many rows with a weight there are of each of three kinds.
    fn count(
        &self,
        which: &[usize],
        kind: &(dyn Fn(&Leaf<'_>, usize) -> usize + Sync),
    ) -> Result<Vec<f64>, DataError> {
        let rows = &*self.prepared.rows;
        let every = all(rows);
        let which = if which.is_empty() { &every } else { which };
        over_leaves(
            rows,
            which,
            &[0.0; 3],
            |leaf, out| {
                for i in (0..leaf.y.len()).filter(|&i| leaf.weight_of(i) > 0.0) {
                    out[kind(leaf, i)] += 1.0;
                }
            },
            add,
        )
    }

    /// Features by themselves, and reference levels: what is the case of each that separates.
    fn columns_that_separate(&self) -> Result<Vec<String>, DataError> {
        let encoding = &self.prepared.encoding;
        let mut columns: Vec<Column> = (0..encoding.features.len()).map(Column::Feature).collect();
        for (c, coding) in encoding.columns.iter().enumerate() {
            let ColumnEncoding::Levels { reference: Some(level), .. } = &coding.how else { continue };
            let own = |j: &usize| {
                let parts = &encoding.features[*j].parts;
                parts.len() == 1 && parts[0].column == c
            };
            let others: Vec<usize> = (0..encoding.features.len()).filter(own).collect();
            // of two levels, one says what the other does
            if encoding.intercept && others.len() > 1 {
                columns.push(Column::Reference { name: coding.name.clone(), level: level.clone(), others });
            }
        }
        let count = leaves(&*self.prepared.rows);
        let mut found = self.ranges(&columns, &self.first())?;
        let separates = |r: &Ranges| r.separate(encoding.intercept);
        if count > FIRST {
            let mut keep = found.iter().map(|r| r.ordered(encoding.intercept));
            columns.retain(|_| keep.next().unwrap_or(false));
            if columns.is_empty() {
                return Ok(Vec::new());
            }
            found = self.ranges(&columns, &all(&*self.prepared.rows))?;
        }
        let both = columns.iter().zip(&found).filter(|(_, r)| separates(r));
        Ok(both.map(|(column, ranges)| self.fact(column, ranges)).collect())
    }

    fn ranges(&self, columns: &[Column], which: &[usize]) -> Result<Vec<Ranges>, DataError> {
        let response = self.response;
        let all = over_leaves(
            &*self.prepared.rows,
            which,
            &NOWHERE.repeat(columns.len()),
            |leaf, out| {
                for i in (0..leaf.y.len()).filter(|&i| leaf.weight_of(i) > 0.0) {
                    let side = side(response, leaf.datum(i));
                    for (column, out) in columns.iter().zip(out.chunks_exact_mut(4)) {
                        let x = column.value(leaf, i);
                        if side != Side::Above {
                            (out[0], out[1]) = (out[0].min(x), out[1].max(x));
                        }
                        if side != Side::Below {
                            (out[2], out[3]) = (out[2].min(x), out[3].max(x));
                        }
                    }
                }
            },
            |a, b| {
                for (k, (a, b)) in a.iter_mut().zip(b).enumerate() {
                    *a = if k % 2 == 0 { a.min(*b) } else { a.max(*b) };
                }
            },
        )?;
        Ok(all
            .as_chunks::<4>()
            .0
            .iter()
            .map(|r| Ranges { below: [r[0], r[1]], above: [r[2], r[3]] })
            .collect())
    }

    /// What holds where, such as "late is 1 wherever rain > 3 and 0 wherever rain < 2".
    fn fact(&self, column: &Column, r: &Ranges) -> String {
        let encoding = &self.prepared.encoding;
        let level = match column {
            Column::Reference { name, level, .. } => Some((name.as_str(), level.as_str())),
            Column::Feature(j) => {
                match (&encoding.features[*j].parts[..], encoding.features[*j].parts[0].level) {
                    ([part], Some(k)) => match &encoding.columns[part.column] {
                        certus_data::encoding::Coding {
                            name,
                            how: ColumnEncoding::Levels { levels, .. },
                            ..
                        } => levels.get(k as usize).map(|level| (name.as_str(), level.as_str())),
                        _ => None,
                    },
                    _ => None,
                }
            }
        };
        let beyond = |sign: char, at: f64| match (level, column) {
            (Some((name, level)), _) if sign == '>' => format!("{name} is {level}"),
            (Some((name, level)), _) => format!("{name} is not {level}"),
            (None, Column::Feature(j)) => format!("{} {sign} {}", encoding.features[*j].name, number(at)),
            (None, Column::Reference { name, .. }) => name.clone(),
        };
        let ([a, b], [c, d]) = (r.below, r.above);
        // upwards if the rows that must not be above come first
        let (ones, zeros) = if b <= c {
            ((d > b).then(|| beyond('>', b)), (a < c).then(|| beyond('<', c)))
        } else {
            ((c < a).then(|| beyond('<', a)), (b > d).then(|| beyond('>', d)))
        };
        let said = [(self.success(), ones), (self.failure(), zeros)];
        let said: Vec<String> =
            said.into_iter().filter_map(|(v, w)| w.map(|w| format!("{v} wherever {w}"))).collect();
        format!("{} is {}", encoding.response, said.join(" and "))
    }

    /// Names of a combination that separates, and whether it does so strictly: the posterior mean or a mode with wider
    /// priors, or what the mode changes by when priors widen, rounded to whole numbers. Each is checked on every row.
    fn combination_that_separates(&self, w: &Gaussian) -> Result<Option<(String, bool)>, DataError> {
        if self.response.values() == Values::Counts {
            return Ok(None);
        }
        let d = self.prior.sd.len();
        let mean = &w.mean()[..d];
        if self.separates_strictly(mean)? {
            return Ok(Some((self.names_of(mean), true)));
        }
        let open = shares(self, w).iter().any(|share| *share > OPEN);
        if !open || self.prepared.rows_used as f64 * (d * d) as f64 > SMALL {
            return Ok(None);
        }
        let mut modes = Vec::new();
        for sd in WIDE {
            // without a mode there is nothing to check
            let Some(mode) = self.wide_mode(sd) else { return Ok(None) };
            if self.separates_strictly(&mode)? {
                return Ok(Some((self.names_of(&mode), true)));
            }
            modes.push(mode);
        }
        let change: Vec<f64> = modes[1].iter().zip(&modes[0]).map(|(b, a)| b - a).collect();
        let user = self.on_users_scale(&change);
        for largest in 1..=6 {
            let Some(whole) = whole(&user, f64::from(largest)) else { continue };
            if self.separates_in_whole_numbers(&whole)? {
                return Ok(Some((self.names_of(&whole), false)));
            }
        }
        Ok(None)
    }

    fn wide_mode(&self, sd: f64) -> Option<Vec<f64>> {
        let d = self.prior.sd.len();
        let design = self.prepared.design().ok()?;
        let likelihood: Arc<dyn Likelihood> =
            if self.response.values() == Values::Successes { Arc::new(Binomial) } else { Arc::new(Logistic) };
        let prior = Prior::independent(vec![0.0; d], &vec![sd; d]).ok()?;
        let model = Glm::new(design, likelihood, prior).ok()?;
        Some(laplace(&model).ok()?.gaussian.mean().to_vec())
    }

    /// True if the sign of Σ d_j (x_j − center_j)/scale_j is right in every row by more than rounding can change: a sum
    /// of n products whose factors are rounded twice has an error of at most (n + 4) ε Σ|products|.
    fn separates_strictly(&self, direction: &[f64]) -> Result<bool, DataError> {
        let encoding = &self.prepared.encoding;
        let (center, scale) = encoding.center_and_scale();
        let (first, response) = (usize::from(encoding.intercept), self.response);
        let rounding = (direction.len() + 4) as f64 * f64::EPSILON;
        let right = |leaf: &Leaf<'_>, i: usize| {
            let (mut sum, mut size) = (0.0, 0.0);
            for (j, d) in direction.iter().enumerate() {
                let term = match j.checked_sub(first) {
                    Some(k) => d * ((leaf.x.get(i, k) - center[k]) / scale[k]),
                    None => *d,
                };
                (sum, size) = (sum + term, size + term.abs());
            }
            match side(response, leaf.datum(i)) {
                Side::Above => sum > rounding * size,
                Side::Below => -sum > rounding * size,
                Side::Both => false,
            }
        };
        let wrong = |which: &[usize]| self.count(which, &|leaf, i| usize::from(right(leaf, i)));
        let count = leaves(&*self.prepared.rows);
        if count > FIRST && wrong(&self.first())?[0] > 0.0 {
            return Ok(false);
        }
        Ok(wrong(&[])?[0] == 0.0)
    }

    /// True if b₀ + Σ b_j x_j, which whole numbers make exact, is right in every row and not 0 in all.
    fn separates_in_whole_numbers(&self, b: &[f64]) -> Result<bool, DataError> {
        const EXACT: f64 = (1u64 << 50) as f64;
        let (first, response) = (usize::from(self.prepared.encoding.intercept), self.response);
        let kind = |leaf: &Leaf<'_>, i: usize| {
            let (mut sum, mut size) = (0.0, 0.0);
            for (j, b) in b.iter().enumerate().filter(|(_, b)| **b != 0.0) {
                let x = j.checked_sub(first).map_or(1.0, |k| leaf.x.get(i, k));
                if x.fract() != 0.0 {
                    return 0;
                }
                (sum, size) = (sum + b * x, size + (b * x).abs());
            }
            let right = match side(response, leaf.datum(i)) {
                Side::Above => sum >= 0.0,
                Side::Below => sum <= 0.0,
                Side::Both => sum == 0.0,
            };
            match (right && size < EXACT, sum != 0.0) {
                (false, _) => 0,
                (true, true) => 1,
                (true, false) => 2,
            }
        };
        let counts = self.count(&[], &kind)?;
        Ok(counts[0] == 0.0 && counts[1] > 0.0)
    }

    /// β_j = z_j/scale_j and the intercept z_0 − Σ β_j center_j.
    fn on_users_scale(&self, z: &[f64]) -> Vec<f64> {
        let encoding = &self.prepared.encoding;
        let ((center, scale), first) = (encoding.center_and_scale(), usize::from(encoding.intercept));
        let mut out = z.to_vec();
        for k in 0..scale.len() {
            out[first + k] /= scale[k];
            if first > 0 {
                out[0] -= out[first + k] * center[k];
            }
        }
        out
    }

    /// The features of a direction, the largest part first, and how many more.
    fn names_of(&self, direction: &[f64]) -> String {
        let encoding = &self.prepared.encoding;
        let first = usize::from(encoding.intercept);
        let mut parts: Vec<(f64, usize)> =
            direction.iter().enumerate().skip(first).map(|(j, d)| (d.abs(), j)).collect();
        parts.retain(|(size, _)| *size > 0.0);
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let names: Vec<String> = parts.iter().take(NAMED).map(|(_, j)| encoding.coefficient(*j)).collect();
        let more = match parts.len().saturating_sub(NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        format!("{}{more}", names.join(", "))
    }
}

/// A direction whose largest entry is `largest`, if all its entries then are whole numbers but for a twentieth.
fn whole(direction: &[f64], largest: f64) -> Option<Vec<f64>> {
    let most = direction.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    if most.is_nan() || most <= 0.0 || most.is_infinite() {
        return None;
    }
    let scaled: Vec<f64> = direction.iter().map(|x| x * largest / most).collect();
    let near = scaled.iter().all(|x| (x - x.round()).abs() < 0.05);
    near.then(|| scaled.iter().map(|x| x.round()).collect())
}
