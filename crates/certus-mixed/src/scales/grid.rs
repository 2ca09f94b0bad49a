//! Nodes of a lattice of one or two log scales with their weights: the laws of combinations of the log scales, and
//! draws, between the nodes by cubics.

use std::collections::BTreeMap;

use crate::collapsed::{add_line, quantile};

/// By the first key: the place of the node and its weight.
type Line = BTreeMap<i64, (usize, f64)>;

/// Nodes of a lattice. Log scales are linear in the keys.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Where the key (0, 0) is, and what a step along an axis adds.
    origin: Vec<f64>,
    steps: [Vec<f64>; 2],
    /// By the second key.
    lines: BTreeMap<i64, Line>,
}

/// The law of a combination of log scales.
#[derive(Clone, Debug)]
pub struct ScaleLaw(Vec<(f64, f64)>);

impl ScaleLaw {
    /// Where its distribution function is p.
    pub fn quantile(&self, p: f64) -> f64 {
        quantile(&self.0, p)
    }

    /// Points and their probabilities.
    pub fn masses(&self) -> &[(f64, f64)] {
        &self.0
    }
}

impl Grid {
    /// The keys, scales and weights of the nodes; there must be one at least.
    pub fn new(keys: &[[i64; 2]], scales: &[Vec<f64>], weights: &[f64]) -> Self {
        let mut lines: BTreeMap<i64, Line> = BTreeMap::new();
        for (place, (key, weight)) in keys.iter().zip(weights).enumerate() {
            lines.entry(key[1]).or_default().insert(key[0], (place, *weight));
        }
        let logs: Vec<Vec<f64>> = scales.iter().map(|s| s.iter().map(|x| x.ln()).collect()).collect();
        // from the two nodes that are farthest apart on one line, so that rounding counts least
        let step = |axis: usize| -> Vec<f64> {
            let mut ends: BTreeMap<i64, [(i64, usize); 2]> = BTreeMap::new();
            for (place, key) in keys.iter().enumerate() {
                let here = (key[axis], place);
                let [low, high] = ends.entry(key[1 - axis]).or_insert([here; 2]);
                (*low, *high) = ((*low).min(here), (*high).max(here));
            }
            let longest = ends.values().max_by_key(|[low, high]| high.0 - low.0);
            let [low, high] = longest.copied().unwrap_or([(0, 0); 2]);
            let count = (high.0 - low.0).max(1) as f64;
            logs[high.1].iter().zip(&logs[low.1]).map(|(a, b)| (a - b) / count).collect()
        };
        let steps = [step(0), step(1)];
        let origin = (0..logs[0].len())
            .map(|i| logs[0][i] - keys[0][0] as f64 * steps[0][i] - keys[0][1] as f64 * steps[1][i])
            .collect();
        Self { origin, steps, lines }
    }

    /// What a step along each axis adds to the log scales, axis after axis: a lower triangular matrix. `None` if the
    /// nodes do not span the scales, or the matrix is another.
    pub(crate) fn steps_of(&self, scales: usize) -> Option<Vec<f64>> {
        let mut steps: Vec<f64> = self.steps[..scales].concat();
        for j in 0..scales {
            let own = steps[j * (scales + 1)].abs();
            let above = &mut steps[j * scales..][..j];
            // but for the rounding of logarithms
            if own == 0.0 || above.iter().any(|x| x.abs() > 1e-6 * own) {
                return None;
            }
            above.fill(0.0);
        }
        Some(steps)
    }

    /// The log scales at a point between keys.
    fn at(&self, point: [f64; 2]) -> Vec<f64> {
        let one = |i: usize| self.origin[i] + point[0] * self.steps[0][i] + point[1] * self.steps[1][i];
        (0..self.origin.len()).map(one).collect()
    }

    /// The law of Σ c_j log s_j: lines along the axis that moves it more are even, and a sum over lines is one of a
    /// smooth function.
    pub fn law(&self, combination: &[f64]) -> ScaleLaw {
        let along =
            |axis: usize| -> f64 { combination.iter().zip(&self.steps[axis]).map(|(c, s)| c * s).sum() };
        let steps = [along(0), along(1)];
        let axis = usize::from(steps[1].abs() > steps[0].abs());
        let mut lines: BTreeMap<i64, BTreeMap<i64, f64>> = BTreeMap::new();
        for (second, line) in &self.lines {
            for (first, (_, weight)) in line {
                let key = [*first, *second];
                lines.entry(key[1 - axis]).or_default().insert(key[axis], *weight);
            }
        }
        let mut law = Vec::new();
        for (line, weights) in lines {
            let (first, even) = evened(&weights);
            let point = if axis == 1 { [line as f64, first as f64] } else { [first as f64, line as f64] };
            let start = combination.iter().zip(self.at(point)).map(|(c, l)| c * l).sum();
            add_line(&mut law, start, steps[axis], &even);
        }
        law.sort_by(|a, b| a.0.total_cmp(&b.0));
        ScaleLaw(law)
    }

    /// What draws need, made once.
    pub fn sampler(&self) -> Sampler<'_> {
        let between = |weights: &BTreeMap<i64, f64>| {
            let (first, even) = evened(weights);
            let mut law = Vec::new();
            add_line(&mut law, first as f64, 1.0, &even);
            ScaleLaw(law)
        };
        let own = |line: &Line| -> BTreeMap<i64, f64> { line.iter().map(|(k, (_, w))| (*k, *w)).collect() };
        let totals: BTreeMap<i64, f64> =
            self.lines.iter().map(|(k, line)| (*k, line.values().map(|n| n.1).sum())).collect();
        let lines = self.lines.iter().map(|(k, line)| (totals[k], line, between(&own(line)))).collect();
        Sampler { grid: self, across: between(&totals), lines }
    }
}

/// Weights at even distances, 0 where there is no node, and where they begin.
fn evened(weights: &BTreeMap<i64, f64>) -> (i64, Vec<f64>) {
    let first = weights.first_key_value().map_or(0, |w| *w.0);
    let last = weights.last_key_value().map_or(0, |w| *w.0);
    (first, (first..=last).map(|k| weights.get(&k).copied().unwrap_or(0.0)).collect())
}

/// Draws of scales and of the node that stands for them.
pub struct Sampler<'a> {
    grid: &'a Grid,
    /// The law of the second key.
    across: ScaleLaw,
    /// Of every line its weight, its nodes, and the law of the first key on it.
    lines: Vec<(f64, &'a Line, ScaleLaw)>,
}

impl Sampler<'_> {
    /// The place of a node and scales near it, from two uniform numbers. The line is drawn first; in the lattice's
    /// units the first key hardly depends on the second.
    pub fn draw(&self, luck: [f64; 2]) -> (usize, Vec<f64>) {
        let mut below = 0.0;
        let line = self.lines.iter().find(|(weight, _, _)| {
            below += weight;
            luck[1] < below
        });
        let (weight, nodes, law) = line.unwrap_or(&self.lines[self.lines.len() - 1]);
        let second = if self.lines.len() > 1 { self.across.quantile(luck[1]) } else { self.only() };
        let (mut below, at) = (0.0, luck[0] * weight);
        let node = nodes.values().find(|(_, w)| {
            below += w;
            at < below
        });
        let node = node.or(nodes.values().next_back()).map_or(0, |n| n.0);
        // the law of a line sums to its weight
        let point = [law.quantile(at), second];
        (node, self.grid.at(point).iter().map(|l| l.exp()).collect())
    }

    fn only(&self) -> f64 {
        self.grid.lines.keys().next().copied().unwrap_or(0) as f64
    }
}
