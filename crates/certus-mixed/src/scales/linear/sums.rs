//! The sums that a linear model with unknown noise is made of, over rows and over groups.

use certus::linalg;

use super::{Grouping, LinearNoise, PIECE};
use certus_likelihood::Linear;
use certus_likelihood::prior::Prior;
use certus_models::Design;
use certus_models::Error;
use certus_models::error::{InvalidData, InvalidModel};
use certus_models::internals::DesignLeaf;
use certus_models::internals::Pool;
use certus_models::rows::leaves;

/// What is added to the diagonal of the normal equations, as a part: β₀ need not solve them.
const RIDGE: f64 = 1e-12;

/// y − offset − xβ₀ of row i, and the sum of the sizes of its terms.
fn residual(leaf: &DesignLeaf<'_>, i: usize, base: &[f64]) -> [f64; 2] {
    let (y, offset) = (leaf.data[i].y, leaf.offset[i]);
    let mut out = [y - offset, y.abs() + offset.abs()];
    for (j, b) in base.iter().enumerate() {
        let term = leaf.a[(i, j)] * b;
        out = [out[0] - term, out[1] + term.abs()];
    }
    out
}

impl LinearNoise {
    /// The rows of a design; with groups, an effect of theirs.
    pub fn new(design: &Design, groups: Option<Grouping<'_>>, prior: Prior) -> Result<Self, Error> {
        let (n, d) = (design.rows().len(), design.dim());
        if prior.dim() != d {
            let (what, found) = ("the prior", prior.dim());
            return Err(InvalidModel::Coefficients { what, expected: d, found }.into());
        }
        if n == 0 {
            return Err(InvalidData::Empty { rows: 0, columns: d }.into());
        }
        design.check_numbers()?;
        design.check_responses(&Linear::new(1.0)?)?;
        let base = base(&sums(design, &vec![0.0; d])?.0, d);
        let (sums, squares) = sums(design, &base)?;
        let toward = prior.mean().iter().zip(&base).map(|(m, b)| m - b).collect();
        let mut out = Self {
            prior,
            dim: d,
            toward,
            sums,
            // d products, d + 1 differences
            blur: (2 * d + 2) as f64 * f64::EPSILON * squares.sqrt(),
            groups: Vec::new(),
            codes: Vec::new(),
            grouped: groups.is_some(),
            // 1024 rows one after the other, leaves in a tree, and what a term itself loses
            rounding: (1024.0 + 64.0) * f64::EPSILON,
            reduced: std::sync::Mutex::default(),
            base,
        };
        if let Some(grouping) = groups {
            out.read_groups(design, grouping)?;
        }
        Ok(out)
    }

    fn read_groups(&mut self, design: &Design, grouping: Grouping<'_>) -> Result<(), Error> {
        let (n, d, group) = (design.rows().len(), self.dim, grouping.codes);
        if group.len() != n {
            let (what, found) = ("the grouping factor".into(), group.len());
            return Err(InvalidData::Length { what, found, rows: n }.into());
        }
        if let Some(column) = grouping.column.filter(|c| *c >= d) {
            let (what, coefficients) = ("a group effect", d);
            return Err(InvalidModel::Index { what, index: column, coefficients }.into());
        }
        let count = group.iter().max().map_or(0, |g| g + 1);
        let mut rows = vec![0usize; count];
        group.iter().for_each(|g| rows[*g] += 1);
        self.codes = (0..count).filter(|g| rows[*g] > 0).map(|g| (g, rows[g])).collect();
        let mut place = vec![0; count];
        self.codes.iter().enumerate().for_each(|(at, (g, _))| place[*g] = at);
        let width = 2 + d;
        self.groups = vec![0.0; self.codes.len() * width];
        let mut scratch = Vec::new();
        for index in 0..leaves(design.rows()) {
            design.rows().leaf(index, &mut |leaf| {
                design.prepare(leaf, &mut scratch, |leaf| {
                    for i in 0..leaf.data.len() {
                        let sums = &mut self.groups[place[group[leaf.first + i]] * width..][..width];
                        let z = grouping.column.map_or(1.0, |c| leaf.a[(i, c)]) + grouping.shift;
                        let (w, [r, _]) = (leaf.weight[i] * z, residual(&leaf, i, &self.base));
                        sums[0] += w * z;
                        sums[1] += w * r;
                        (0..d).for_each(|j| sums[2 + j] += w * leaf.a[(i, j)]);
                    }
                });
            })?;
        }
        let most = rows.iter().max().copied().unwrap_or(0);
        self.rounding += (most + PIECE) as f64 * f64::EPSILON;
        Ok(())
    }
}

/// W, Σwr², Σwxr and Σwxxᵀ; and Σw(sizes)².
fn sums(design: &Design, base: &[f64]) -> Result<(Vec<f64>, f64), Error> {
    let d = base.len();
    let last = 2 + d + d * d;
    let mut sums = Pool::default().sum(design.rows(), last + 1, &|leaf, scratch, out| {
        design.prepare(leaf, scratch, |leaf| {
            for i in 0..leaf.data.len() {
                let (w, [r, size]) = (leaf.weight[i], residual(&leaf, i, base));
                out[0] += w;
                out[1] += w * r * r;
                out[last] += w * size * size;
                for j in 0..d {
                    let x = w * leaf.a[(i, j)];
                    out[2 + j] += x * r;
                    (0..=j).for_each(|l| out[2 + d + l * d + j] += x * leaf.a[(i, l)]);
                }
            }
        });
    })?;
    let squares = sums.pop().unwrap_or(0.0);
    linalg::mirror(&mut sums[2 + d..], d);
    Ok((sums, squares))
}

/// A β₀ from the sums of the responses themselves, 0 where the columns repeat each other: it only has to be near.
fn base(sums: &[f64], d: usize) -> Vec<f64> {
    let mut gram = sums[2 + d..].to_vec();
    (0..d).for_each(|j| gram[j * (d + 1)] *= 1.0 + RIDGE);
    let mut out = sums[2..2 + d].to_vec();
    if !linalg::cholesky(&mut gram, d) {
        return vec![0.0; d];
    }
    linalg::solve_lower(&gram, d, false, &mut out);
    linalg::solve_lower(&gram, d, true, &mut out);
    if out.iter().all(|b| b.is_finite()) { out } else { vec![0.0; d] }
}
