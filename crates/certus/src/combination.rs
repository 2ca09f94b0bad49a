//! Linear combinations of the coordinates of a Gaussian: means and standard deviations without a covariance matrix.

use crate::gaussian::Gaussian;

/// The rows of the factor of a Gaussian, ready to be combined.
pub struct Combinations<'a> {
    mean: &'a [f64],
    /// Row i is `entries[starts[i]..starts[i + 1]]`, as (column, value).
    starts: Vec<usize>,
    entries: Vec<(u32, f64)>,
    sum: Vec<f64>,
    touched: Vec<u32>,
}

impl<'a> Combinations<'a> {
    /// Of `w`.
    pub fn new(w: &'a Gaussian) -> Self {
        let d = w.dim();
        let mut starts = vec![0; d + 1];
        w.factor().for_each_entry(|i, _, _| starts[i + 1] += 1);
        (0..d).for_each(|i| starts[i + 1] += starts[i]);
        let (mut next, mut entries) = (starts.clone(), vec![(0, 0.0); starts[d]]);
        w.factor().for_each_entry(|i, j, value| {
            entries[next[i]] = (j as u32, value);
            next[i] += 1;
        });
        Self { mean: w.mean(), starts, entries, sum: vec![0.0; d], touched: Vec::new() }
    }

    /// Mean Σ a_i m_i and standard deviation |Σ a_i C_i| of Σ a_i z_i, for `terms` (i, a_i).
    pub fn moments(&mut self, terms: &[(usize, f64)]) -> (f64, f64) {
        // squares of numbers beyond 1e±154 would leave the range of doubles; a power of two changes no other bit
        let largest = terms.iter().fold(0.0_f64, |most, term| most.max(term.1.abs()));
        let ordinary = largest == 0.0 || (1e-100..1e100).contains(&largest) || !largest.is_finite();
        let unit = if ordinary { 1.0 } else { 2f64.powi((largest.log2() as i32).clamp(-1000, 1000)) };
        let mut mean = 0.0;
        for &(i, a) in terms {
            mean += a * self.mean[i];
            let a = a / unit;
            for &(j, value) in &self.entries[self.starts[i]..self.starts[i + 1]] {
                if self.sum[j as usize] == 0.0 {
                    self.touched.push(j);
                }
                self.sum[j as usize] += a * value;
            }
        }
        let mut square = 0.0;
        for j in self.touched.drain(..) {
            // a column that was touched twice is 0 by now
            let value = std::mem::take(&mut self.sum[j as usize]);
            square += value * value;
        }
        (mean, square.sqrt() * unit)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::factor::{Factor, Lower, Pattern, Tree};

    /// Against aᵀ Σ a, on a dense factor and on an arrow.
    #[test]
    fn moments_are_those_of_the_covariance() {
        let lower = Lower::new(3, vec![1.0, 0.5, -0.25, 0.0, 2.0, 0.75, 0.0, 0.0, 0.5]).unwrap();
        let tree = Arc::new(Tree::new(&[1, 1, 1], &[None, Some(0), Some(0)]).unwrap());
        let arrow = Pattern::new(tree, vec![1.0, 0.5, 2.0, -0.5, 3.0]).unwrap();
        for factor in [Factor::Lower(lower), Factor::Pattern(arrow)] {
            let w = Gaussian::new(vec![1.0, -2.0, 0.5], factor).unwrap();
            let covariance = w.covariance();
            let mut combinations = Combinations::new(&w);
            for terms in [vec![(0, 1.0)], vec![(2, -2.0)], vec![(0, -0.5), (1, 1.0), (2, 0.25), (0, 1.0)]] {
                let mut a = [0.0; 3];
                terms.iter().for_each(|&(i, x)| a[i] += x);
                let mean: f64 = (0..3).map(|i| a[i] * w.mean()[i]).sum();
                let variance: f64 = (0..9).map(|k| a[k % 3] * covariance[k] * a[k / 3]).sum();
                let (m, s) = combinations.moments(&terms);
                assert!((m - mean).abs() < 1e-14 && (s - variance.sqrt()).abs() < 1e-14, "{terms:?}");
                for size in [1e-200, 1e200] {
                    let terms: Vec<_> = terms.iter().map(|&(i, x)| (i, size * x)).collect();
                    let (_, wide) = combinations.moments(&terms);
                    assert!((wide / size - s).abs() < 1e-13, "{terms:?}: {wide}");
                }
            }
        }
    }
}
