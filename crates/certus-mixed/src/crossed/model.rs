//! The rows of a generalised linear mixed model, sorted by the factor that is integrated out, and the connected
//! components of its levels.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use certus::linalg;
use certus_likelihood::{Datum, Likelihood, Prior};

use super::error::Error;
use super::layout::Layout;
use crate::linear::Design;

/// Effects of one component that are not integrated out level by level, at most (512 MiB of dense matrix).
const LIMIT: usize = 8192;

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// Its level of every factor.
    pub levels: &'a [u32],
    /// The values of the effects of all terms, one after the other.
    pub effects: &'a [f64],
    /// The values of the fixed effects.
    pub fixed: &'a [f64],
    /// The response.
    pub datum: Datum,
    /// Added to the linear predictor.
    pub offset: f64,
    /// How many such rows there are.
    pub weight: f64,
}

/// The rows of one level of the factor that is integrated out.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) level: u32,
    pub(super) rows: Range<usize>,
    pub(super) component: usize,
    /// The columns of kept effects that its rows have, as places in the component.
    pub(super) columns: Vec<u32>,
}

/// Levels that rows connect: effects of different components are independent, given the rows.
#[derive(Debug, Clone, Default)]
pub(super) struct Component {
    /// Its kept effects: (factor, level) and the place of the first effect of each.
    pub(super) blocks: Vec<(usize, u32)>,
    pub(super) starts: Vec<usize>,
    /// Its columns among those of all kept factors.
    pub(super) columns: Vec<usize>,
}

/// A model: its rows, terms and likelihood.
pub struct CrossedModel {
    pub(super) likelihood: Arc<dyn Likelihood>,
    pub(super) layout: Layout,
    /// X, row after row.
    pub(super) x: Vec<f64>,
    pub(super) data: Vec<Datum>,
    pub(super) offset: Vec<f64>,
    pub(super) weight: Vec<f64>,
    /// Values of the effects that are integrated out, row after row.
    pub(super) own: Vec<f64>,
    /// Values of the kept effects, row after row, factor by factor.
    pub(super) kept: Vec<f64>,
    /// Per row and kept factor the first of its columns in the list of its group.
    pub(super) local: Vec<u32>,
    /// Per row and kept factor the first of its columns among those of all kept factors.
    pub(super) place: Vec<u32>,
    pub(super) groups: Vec<Group>,
    pub(super) components: Vec<Component>,
    /// Σ w.
    pub(super) total: f64,
    /// Of β; flat if there is none.
    prior: Option<Prior>,
    stop: Option<Arc<AtomicBool>>,
}

impl CrossedModel {
    /// The model with these rows.
    pub fn new<'a>(
        design: &Design,
        likelihood: Arc<dyn Likelihood>,
        rows: impl IntoIterator<Item = Observation<'a>>,
    ) -> Result<Self, Error> {
        let layout = Layout::new(design)?;
        let count: usize = design.terms.iter().map(|t| t.effects).sum();
        let mut levels: Vec<u32> = Vec::new();
        let (mut x, mut own, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let (mut data, mut offset, mut weight) = (Vec::new(), Vec::new(), Vec::new());
        for (row, r) in rows.into_iter().enumerate() {
            check(row, &r, design, count, &*likelihood)?;
            levels.extend(layout.factors.iter().map(|f| r.levels[f.index]));
            x.extend_from_slice(r.fixed);
            let (at_own, at_kept) = (own.len(), kept.len());
            own.resize(at_own + layout.factors[0].effects, 0.0);
            kept.resize(at_kept + layout.width, 0.0);
            let mut from = 0;
            for place in &layout.places {
                let z = &r.effects[from..][..place.effects];
                from += place.effects;
                match place.factor {
                    0 => own[at_own + place.first..][..place.effects].copy_from_slice(z),
                    f => {
                        let first = at_kept + layout.factors[f].first + place.first;
                        kept[first..][..place.effects].copy_from_slice(z);
                    }
                }
            }
            data.push(r.datum);
            offset.push(r.offset);
            weight.push(r.weight);
        }
        if data.is_empty() {
            return Err(Error::NoRow { required: design.fixed + 1 });
        }
        let n = data.len();
        let factors = layout.factors.len();
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&i| levels[i * factors]);
        let by = |from: &[f64], width: usize| -> Vec<f64> {
            order.iter().flat_map(|&i| from[i * width..][..width].iter().copied()).collect()
        };
        let total = weight.iter().sum();
        let codes: Vec<u32> =
            order.iter().flat_map(|&i| levels[i * factors..][..factors].iter().copied()).collect();
        let mut model = Self {
            likelihood,
            x: by(&x, layout.fixed),
            own: by(&own, layout.factors[0].effects),
            kept: by(&kept, layout.width),
            offset: by(&offset, 1),
            weight: by(&weight, 1),
            data: order.iter().map(|&i| data[i]).collect(),
            local: vec![0; n * (factors - 1)],
            place: Vec::new(),
            groups: Vec::new(),
            components: Vec::new(),
            total,
            prior: None,
            stop: None,
            layout,
        };
        model.connect(&codes)?;
        Ok(model)
    }

    /// The same model with a prior of β: what is maximised is then the likelihood times its density.
    pub fn with_prior(self, prior: Prior) -> Self {
        Self { prior: (!prior.is_flat()).then_some(prior), ..self }
    }

    /// ½(β − μ₀)ᵀJ(β − μ₀), and J(β − μ₀).
    pub(super) fn penalty(&self, beta: &[f64]) -> (f64, Vec<f64>) {
        let mut slope = vec![0.0; beta.len()];
        let Some(prior) = &self.prior else { return (0.0, slope) };
        let apart: Vec<f64> = beta.iter().zip(prior.mean()).map(|(b, m)| b - m).collect();
        prior.add_precision_times(&apart, &mut slope);
        (0.5 * linalg::dot(&apart, &slope), slope)
    }

    /// matrix += J.
    pub(super) fn add_precision(&self, matrix: &mut [f64]) {
        if let Some(prior) = &self.prior {
            prior.add_to(matrix);
        }
    }

    /// The same model, whose passes end when the flag is set.
    pub fn with_stop(self, stop: Option<Arc<AtomicBool>>) -> Self {
        Self { stop, ..self }
    }

    /// Groups and connected components, from the sorted levels.
    fn connect(&mut self, codes: &[u32]) -> Result<(), Error> {
        let factors = self.layout.factors.len();
        let rows = self.data.len();
        let kept = &self.layout.factors[1..];
        // nodes of the graph: kept levels, factor by factor
        let mut base = vec![0usize];
        kept.iter().for_each(|f| base.push(base[base.len() - 1] + f.levels));
        let mut parent: Vec<usize> = (0..base[kept.len()]).collect();
        let mut bounds = vec![0];
        bounds.extend((1..rows).filter(|&i| codes[i * factors] != codes[(i - 1) * factors]));
        bounds.push(rows);
        let node = |i: usize, f: usize| base[f] + codes[i * factors + f + 1] as usize;
        let mut seen = vec![false; base[kept.len()]];
        for pair in bounds.windows(2) {
            for i in pair[0]..pair[1] {
                for f in 0..kept.len() {
                    seen[node(i, f)] = true;
                    let (a, b) = (root(&mut parent, node(pair[0], 0)), root(&mut parent, node(i, f)));
                    parent[a.max(b)] = a.min(b);
                }
            }
        }
        let mut of_root = vec![usize::MAX; parent.len()];
        let mut at = vec![(0usize, 0usize); parent.len()];
        for f in 0..kept.len() {
            for level in 0..kept[f].levels {
                let n = base[f] + level;
                if !seen[n] {
                    continue;
                }
                let r = root(&mut parent, n);
                if of_root[r] == usize::MAX {
                    of_root[r] = self.components.len();
                    self.components.push(Component::default());
                }
                let component = &mut self.components[of_root[r]];
                let start = component.columns.len();
                at[n] = (of_root[r], start);
                component.blocks.push((f + 1, level as u32));
                component.starts.push(start);
                let first = kept[f].start + level * kept[f].effects;
                component.columns.extend(first..first + kept[f].effects);
            }
        }
        if kept.is_empty() {
            self.components.push(Component::default());
        }
        let columns = self.components.iter().map(|c| c.columns.len()).max().unwrap_or(0);
        if columns > LIMIT {
            return Err(Error::TooLarge { columns, limit: LIMIT });
        }
        let mut slot = vec![u32::MAX; parent.len()];
        for pair in bounds.windows(2) {
            let mut columns = Vec::new();
            let mut touched = Vec::new();
            let mut component = 0;
            for i in pair[0]..pair[1] {
                for f in 0..kept.len() {
                    let n = node(i, f);
                    component = at[n].0;
                    if slot[n] == u32::MAX {
                        slot[n] = columns.len() as u32;
                        touched.push(n);
                        columns.extend((at[n].1..at[n].1 + kept[f].effects).map(|c| c as u32));
                    }
                    self.local[i * kept.len() + f] = slot[n];
                    let first = kept[f].start + codes[i * factors + f + 1] as usize * kept[f].effects;
                    self.place.push(first as u32);
                }
            }
            touched.into_iter().for_each(|n| slot[n] = u32::MAX);
            let level = codes[pair[0] * factors];
            self.groups.push(Group { level, rows: pair[0]..pair[1], component, columns });
        }
        Ok(())
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.data.len()
    }

    /// Connected components of the levels that are not integrated out.
    pub fn components(&self) -> usize {
        self.components.len()
    }

    /// Coefficients and θ.
    pub fn parameters(&self) -> usize {
        self.layout.parameters
    }

    /// xβ + offset of every row.
    pub(super) fn fixed_predictors(&self, beta: &[f64]) -> Vec<f64> {
        let p = self.layout.fixed;
        let row = |i: usize| {
            let x = &self.x[i * p..][..p];
            self.offset[i] + x.iter().zip(beta).map(|(x, b)| x * b).sum::<f64>()
        };
        (0..self.rows()).map(row).collect()
    }

    /// z b of row i over the kept factors, b by columns.
    #[inline]
    pub(super) fn kept_predictor(&self, i: usize, b: &[f64]) -> f64 {
        let factors = self.layout.factors.len() - 1;
        let mut sum = 0.0;
        for (f, factor) in self.layout.factors[1..].iter().enumerate() {
            let first = self.place[i * factors + f] as usize;
            let z = &self.kept[i * self.layout.width + factor.first..][..factor.effects];
            sum += z.iter().zip(&b[first..]).map(|(z, b)| z * b).sum::<f64>();
        }
        sum
    }

    /// Λ v of the kept factors: T of its factor times every level's part.
    pub(super) fn effects(&self, matrices: &[Vec<f64>], v: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; v.len()];
        for (factor, t) in self.layout.factors.iter().zip(matrices).skip(1) {
            let k = factor.effects;
            let of = factor.start..factor.start + factor.levels * k;
            for (out, v) in out[of.clone()].chunks_exact_mut(k).zip(v[of].chunks_exact(k)) {
                for j in 0..k {
                    (0..k).for_each(|i| out[i] += t[j * k + i] * v[j]);
                }
            }
        }
        out
    }

    pub(super) fn check_stop(&self) -> Result<(), Error> {
        match &self.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(Error::Stopped),
            _ => Ok(()),
        }
    }
}

fn root(parent: &mut [usize], mut n: usize) -> usize {
    while parent[n] != n {
        parent[n] = parent[parent[n]];
        n = parent[n];
    }
    n
}

fn check(
    row: usize,
    r: &Observation<'_>,
    design: &Design,
    effects: usize,
    likelihood: &dyn Likelihood,
) -> Result<(), Error> {
    let lengths = [
        ("levels", r.levels.len(), design.levels.len()),
        ("effects", r.effects.len(), effects),
        ("fixed effects", r.fixed.len(), design.fixed),
    ];
    if let Some(&(what, found, expected)) = lengths.iter().find(|l| l.1 != l.2) {
        return Err(Error::Length { row, what, found, expected });
    }
    for (factor, (&level, &levels)) in r.levels.iter().zip(&design.levels).enumerate() {
        if level as usize >= levels {
            return Err(Error::Level { row, factor, level, levels });
        }
    }
    let required = "it must be finite";
    let numbers = [("an effect", r.effects), ("a fixed effect", r.fixed), ("the offset", &[r.offset])];
    for (what, values) in numbers {
        if let Some(&value) = values.iter().find(|v| !v.is_finite()) {
            return Err(Error::Value { row, what, value, required });
        }
    }
    if !(r.weight > 0.0 && r.weight.is_finite()) {
        let (what, value) = ("the weight", r.weight);
        return Err(Error::Value { row, what, value, required: "it must be finite and above 0" });
    }
    match likelihood.reject(r.datum) {
        Some(reason) => Err(Error::Response { row, reason }),
        None => Ok(()),
    }
}
