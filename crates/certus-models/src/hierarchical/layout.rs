//! From group terms to blocks, the elimination tree of the joint precision, and rows sorted along it.

use certus::Tree;

use super::Entry;
use crate::error::Error;
use crate::forest::Forest;
use crate::likelihood::{Datum, Likelihood};

/// Rows of a hierarchical model, in any order.
#[derive(Clone, Debug, Default)]
pub struct GroupedRows {
    /// Features, row-major.
    pub x: Vec<f64>,
    /// Number of features.
    pub columns: usize,
    /// Responses.
    pub y: Vec<f64>,
    /// Trials, or empty.
    pub trials: Vec<f64>,
    /// Offsets, or empty.
    pub offset: Vec<f64>,
    /// Weights, or empty.
    pub weight: Vec<f64>,
}

/// A grouping factor: which coefficients vary by it.
#[derive(Clone, Debug, Default)]
pub struct GroupTerm {
    /// The level of each row, 0 to (number of levels − 1).
    pub group: Vec<usize>,
    /// The features whose coefficient varies.
    pub slopes: Vec<usize>,
    /// Their standard deviations.
    pub sd: Vec<f64>,
    /// The term this one is nested in.
    pub within: Option<usize>,
}

/// What a latent is.
///
/// The first factor and what is nested in it hold the groups' *own* coefficients, centred at the outer level's (θ at the top); further
/// factors hold deviations centred at 0, which are added.
#[derive(Clone, Debug, PartialEq)]
pub struct Latent {
    /// The group term, or `None` for a global coefficient.
    pub term: Option<usize>,
    /// The level of that term.
    pub level: usize,
    /// The feature.
    pub feature: usize,
    /// Its standard deviation around the outer latent (infinite for global ones, whose prior is separate).
    pub sd: f64,
    /// The latent it is centred at, with that one's place on the path.
    pub outer: Option<(usize, usize)>,
    /// Its own place on the path of its block.
    pub place: usize,
}

/// Rows sorted by the deepest block they touch.
pub(super) struct Layout {
    entries: Vec<Entry>,
    row_start: Vec<usize>,
    pub(super) offset: Vec<f64>,
    pub(super) weight: Vec<f64>,
    pub(super) data: Vec<Datum>,
    /// Rows `first[k]..first[k + 1]` have node k as their deepest.
    pub(super) first: Vec<usize>,
}

/// A block of coefficients before it has a place in the tree; block 0 is the root.
struct Block {
    term: Option<usize>,
    level: usize,
    slopes: Vec<usize>,
    outer: Option<usize>,
}

impl Layout {
    pub(super) fn entries(&self, row: usize) -> &[Entry] {
        &self.entries[self.row_start[row]..self.row_start[row + 1]]
    }

    pub(super) fn new(
        rows: &GroupedRows,
        terms: &[GroupTerm],
        likelihood: &dyn Likelihood,
        memory: usize,
    ) -> Result<(Self, Forest, Vec<Latent>), Error> {
        check(rows, terms, likelihood)?;
        let (blocks, first_block) = blocks(rows, terms)?;
        let touched: Vec<Vec<(usize, usize, f64)>> =
            (0..rows.y.len()).map(|i| row_blocks(rows, terms, &first_block, i)).collect();
        let parents = elimination_tree(terms, &blocks, &first_block, &touched);
        let (order, place) = level_by_level(&parents);
        let sizes: Vec<usize> = order.iter().map(|&b| blocks[b].slopes.len()).collect();
        let up: Vec<Option<usize>> = order.iter().map(|&b| parents[b].map(|p| place[p])).collect();
        let tree = Tree::new(&sizes, &up)?;
        // one factor, its trial, a direction, a residual, its image, the gradient and two more of the same size
        let bytes = 8 * 8 * (tree.stored() + tree.dim());
        if bytes > memory {
            return Err(Error::TooLarge(format!(
                "the joint precision fills {} numbers along its elimination tree (the widest path has {}), which needs about {} MB, \
                 but {} MB were given; crossed factors with many levels have no lossless sparse factor",
                tree.stored(),
                tree.widest(),
                bytes >> 20,
                memory >> 20
            )));
        }
        let forest = Forest::new(tree)?;
        let nodes = forest.nodes();
        let place_of =
            |block: usize, slot: usize| nodes[place[block]].width - nodes[place[block]].size + slot;
        let mut latents = Vec::with_capacity(forest.dim());
        for &b in &order {
            let block = &blocks[b];
            for (slot, &feature) in block.slopes.iter().enumerate() {
                let outer = outer_of(terms, &blocks, b, feature)
                    .map(|(o, s)| (nodes[place[o]].start + s, place_of(o, s)));
                let sd = block.term.map_or(f64::INFINITY, |t| terms[t].sd[slot]);
                latents.push(Latent {
                    term: block.term,
                    level: block.level,
                    feature,
                    sd,
                    outer,
                    place: place_of(b, slot),
                });
            }
        }
        // rows by their deepest block, keeping their order within it
        let deepest = |touched: &[(usize, usize, f64)]| touched.iter().map(|t| place[t.0]).max().unwrap_or(0);
        let mut sorted: Vec<usize> = (0..rows.y.len()).collect();
        sorted.sort_by_key(|&i| deepest(&touched[i]));
        let mut first = vec![0; nodes.len() + 1];
        touched.iter().for_each(|t| first[deepest(t) + 1] += 1);
        (0..nodes.len()).for_each(|k| first[k + 1] += first[k]);
        let at = |v: &Vec<f64>, i: usize, default: f64| v.get(i).copied().unwrap_or(default);
        let mut layout = Self {
            entries: Vec::new(),
            row_start: vec![0],
            offset: sorted.iter().map(|&i| at(&rows.offset, i, 0.0)).collect(),
            weight: sorted.iter().map(|&i| at(&rows.weight, i, 1.0)).collect(),
            data: sorted.iter().map(|&i| Datum { y: rows.y[i], trials: at(&rows.trials, i, 1.0) }).collect(),
            first,
        };
        for &i in &sorted {
            layout.entries.extend(touched[i].iter().map(|&(block, slot, v)| (place_of(block, slot), v)));
            layout.row_start.push(layout.entries.len());
        }
        Ok((layout, forest, latents))
    }
}

fn check(rows: &GroupedRows, terms: &[GroupTerm], likelihood: &dyn Likelihood) -> Result<(), Error> {
    let (n, k) = (rows.y.len(), rows.columns);
    let data = |message: String| Err(Error::Data(message));
    if n == 0 || k == 0 {
        return data(format!("{n} rows and {k} features: at least one of each is required"));
    }
    if rows.x.len() != n * k {
        return data(format!("{n} responses and {k} features, but {} feature values", rows.x.len()));
    }
    for (name, part) in [("trials", &rows.trials), ("offset", &rows.offset), ("weight", &rows.weight)] {
        if !part.is_empty() && part.len() != n {
            return data(format!("{name} has {} entries for {n} rows", part.len()));
        }
    }
    if terms.is_empty() {
        return Err(Error::Model("a hierarchical model needs a group term".into()));
    }
    for (t, term) in terms.iter().enumerate() {
        if term.group.len() != n {
            return data(format!("group term {t} has {} labels for {n} rows", term.group.len()));
        }
        if term.slopes.is_empty() || term.slopes.iter().any(|&j| j >= k) {
            return Err(Error::Model(format!(
                "group term {t} must name at least one of the {k} features, not {:?}",
                term.slopes
            )));
        }
        if term.sd.len() != term.slopes.len() || term.sd.iter().any(|s| !(*s > 0.0 && s.is_finite())) {
            return Err(Error::Model(format!(
                "group term {t}: the sds {:?} must be finite numbers above 0, one per slope",
                term.sd
            )));
        }
        let nested_twice = |outer: usize| terms[..t].iter().any(|other| other.within == Some(outer));
        if let Some(outer) = term.within.filter(|&outer| outer >= t || nested_twice(outer)) {
            return Err(Error::Model(format!(
                "group term {t} must be the only one nested in an earlier term, not in {outer}"
            )));
        }
    }
    for i in 0..n {
        let datum = Datum { y: rows.y[i], trials: rows.trials.get(i).copied().unwrap_or(1.0) };
        if let Some(reason) = likelihood.reject(datum) {
            return data(format!("row {i}: {reason}"));
        }
        let weight = rows.weight.get(i).copied().unwrap_or(1.0);
        let finite = rows.x[i * k..][..k].iter().chain(rows.offset.get(i)).all(|v| v.is_finite());
        if !(finite && weight >= 0.0 && weight.is_finite()) {
            return data(format!(
                "row {i}: a feature, offset or weight is not a finite number, or the weight is negative"
            ));
        }
    }
    Ok(())
}

/// Block 0 holds the global coefficients; then one block per level of every term. Returns the blocks and each term's first.
fn blocks(rows: &GroupedRows, terms: &[GroupTerm]) -> Result<(Vec<Block>, Vec<usize>), Error> {
    let mut blocks = vec![Block { term: None, level: 0, slopes: (0..rows.columns).collect(), outer: None }];
    let mut first = Vec::new();
    for (t, term) in terms.iter().enumerate() {
        first.push(blocks.len());
        let levels = term.group.iter().max().map_or(0, |m| m + 1);
        let mut outer = vec![None; levels];
        if let Some(o) = term.within {
            for (i, &level) in term.group.iter().enumerate() {
                let there = first[o] + terms[o].group[i];
                if *outer[level].get_or_insert(there) != there {
                    return Err(Error::Data(format!(
                        "row {i}: level {level} of group term {t} lies in two levels of term {o}"
                    )));
                }
            }
        }
        for (level, outer) in outer.into_iter().enumerate() {
            blocks.push(Block { term: Some(t), level, slopes: term.slopes.clone(), outer });
        }
    }
    Ok((blocks, first))
}

/// True if a term's blocks hold own coefficients rather than deviations.
fn centred(terms: &[GroupTerm], t: usize) -> bool {
    terms[t].within.map_or(t == 0, |outer| centred(terms, outer))
}

/// The (block, slot) that a block's coefficient of a feature is centred at.
fn outer_of(terms: &[GroupTerm], blocks: &[Block], block: usize, feature: usize) -> Option<(usize, usize)> {
    let term = blocks[block].term?;
    let mut next = blocks[block].outer;
    while let Some(b) = next {
        if let Some(slot) = blocks[b].slopes.iter().position(|&j| j == feature) {
            return Some((b, slot));
        }
        next = blocks[b].outer;
    }
    centred(terms, term).then_some((0, feature))
}

/// What one row multiplies: (block, slot, value). In every chain of nested terms the deepest block that has the feature counts; in the
/// first chain it replaces the global coefficient.
fn row_blocks(
    rows: &GroupedRows,
    terms: &[GroupTerm],
    first_block: &[usize],
    i: usize,
) -> Vec<(usize, usize, f64)> {
    let x = &rows.x[i * rows.columns..][..rows.columns];
    let mut global: Vec<bool> = vec![true; rows.columns];
    let mut out = Vec::new();
    for (t, term) in terms.iter().enumerate() {
        let inner = terms.iter().position(|other| other.within == Some(t));
        for (slot, &j) in term.slopes.iter().enumerate() {
            if centred(terms, t) {
                global[j] = false;
            }
            if !deeper_has(terms, inner, j) {
                out.push((first_block[t] + term.group[i], slot, x[j]));
            }
        }
    }
    out.extend((0..rows.columns).filter(|&j| global[j]).map(|j| (0, j, x[j])));
    out
}

fn deeper_has(terms: &[GroupTerm], inner: Option<usize>, feature: usize) -> bool {
    inner.is_some_and(|t| {
        let deeper = terms.iter().position(|other| other.within == Some(t));
        terms[t].slopes.contains(&feature) || deeper_has(terms, deeper, feature)
    })
}

/// The elimination tree of the joint precision (Liu's algorithm), the terms with most levels eliminated first, nested ones before their
/// outer ones, the root last.
fn elimination_tree(
    terms: &[GroupTerm],
    blocks: &[Block],
    first_block: &[usize],
    touched: &[Vec<(usize, usize, f64)>],
) -> Vec<Option<usize>> {
    let levels = |t: usize| first_block.get(t + 1).copied().unwrap_or(blocks.len()) - first_block[t];
    let top = |mut t: usize| {
        while let Some(outer) = terms[t].within {
            t = outer;
        }
        t
    };
    let mut by_term: Vec<usize> = (0..terms.len()).collect();
    by_term.sort_by_key(|&t| (std::cmp::Reverse(levels(top(t))), top(t), std::cmp::Reverse(t)));
    let mut position = vec![0; blocks.len()];
    let order: Vec<usize> =
        by_term.iter().flat_map(|&t| first_block[t]..first_block[t] + levels(t)).chain([0]).collect();
    order.iter().enumerate().for_each(|(k, &b)| position[b] = k);
    // edges to blocks that are eliminated later
    let mut edges: Vec<(usize, usize)> = Vec::new();
    let mut connect = |a: usize, b: usize| {
        if a != b {
            edges.push((position[a].max(position[b]), position[a].min(position[b])));
        }
    };
    for row in touched {
        for (k, a) in row.iter().enumerate() {
            row[k + 1..].iter().for_each(|b| connect(a.0, b.0));
        }
    }
    for (b, block) in blocks.iter().enumerate().skip(1) {
        block.slopes.iter().filter_map(|&j| outer_of(terms, blocks, b, j)).for_each(|(o, _)| connect(b, o));
    }
    edges.sort_unstable();
    edges.dedup();
    let (mut parent, mut ancestor) = (vec![None; blocks.len()], vec![None; blocks.len()]);
    for (later, earlier) in edges {
        let mut r = earlier;
        loop {
            match ancestor[r] {
                Some(a) if a == later => break,
                Some(a) => {
                    ancestor[r] = Some(later);
                    r = a;
                }
                None => {
                    ancestor[r] = Some(later);
                    parent[r] = Some(later);
                    break;
                }
            }
        }
    }
    let root = order.len() - 1;
    let mut by_block = vec![None; blocks.len()];
    for (k, &b) in order.iter().enumerate().take(root) {
        by_block[b] = Some(order[parent[k].unwrap_or(root)]);
    }
    by_block
}

/// Blocks level by level with siblings together, and where each one ends up.
fn level_by_level(parents: &[Option<usize>]) -> (Vec<usize>, Vec<usize>) {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    for (b, parent) in parents.iter().enumerate() {
        if let Some(p) = parent {
            children[*p].push(b);
        }
    }
    let mut order = vec![0];
    let mut next = 0;
    while next < order.len() {
        order.extend_from_slice(&children[order[next]]);
        next += 1;
    }
    let mut place = vec![0; parents.len()];
    order.iter().enumerate().for_each(|(k, &b)| place[b] = k);
    (order, place)
}
