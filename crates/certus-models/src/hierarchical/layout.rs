//! From group terms to blocks, the elimination tree of the joint precision, and the order of the rows along it. The
//! features stay where they are: every pass pulls them from the leaves of the design.

use certus::Tree;

use super::Entry;
use crate::design::Design;
use crate::error::{Error, InvalidData, InvalidModel, TooLarge};
use crate::forest::Forest;
use crate::rows::{LEAF, leaves};
use certus_likelihood::Datum;

/// A grouping factor: which coefficients vary by it.
#[derive(Clone, Debug, Default)]
pub struct GroupTerm {
    /// The level of each row, 0 to (number of levels − 1).
    pub group: Vec<usize>,
    /// The columns of the design whose coefficient varies (0 is the intercept if the design has one).
    pub slopes: Vec<usize>,
    /// Their standard deviations.
    pub sd: Vec<f64>,
    /// The term this one is nested in.
    pub within: Option<usize>,
}

/// What a latent is.
///
/// The first factor and what is nested in it hold the groups' *own* coefficients, centred at the outer level's (θ at
/// the top); further factors hold deviations centred at 0, which are added.
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

/// The rows in the order of the deepest block they touch.
pub(super) struct Layout {
    pub(super) design: Design,
    /// What every row multiplies.
    slots: Vec<Slot>,
    /// The row of the source.
    row: Vec<usize>,
    /// Where the block of each term starts on the path of the row's node, per row.
    places: Vec<u32>,
    pub(super) offset: Vec<f64>,
    pub(super) weight: Vec<f64>,
    pub(super) data: Vec<Datum>,
    /// Rows `first[k]..first[k + 1]` have node k as their deepest.
    pub(super) first: Vec<usize>,
}

/// A coefficient that rows multiply: of the row's own level of a term, or a global one.
struct Slot {
    term: Option<usize>,
    slot: usize,
    feature: usize,
}

/// A block of coefficients before it has a place in the tree; block 0 is the root.
struct Block {
    term: Option<usize>,
    level: usize,
    slopes: Vec<usize>,
    outer: Option<usize>,
}

impl Layout {
    /// Calls `work(row, entries)` for every row of a node, pulling the features from their leaves.
    pub(super) fn rows_of(&self, node: usize, mut work: impl FnMut(usize, &[Entry])) -> Result<(), Error> {
        let (mut k, end) = (self.first[node], self.first[node + 1]);
        let terms = self.places.len() / self.row.len().max(1);
        let mut entries = Vec::with_capacity(self.slots.len());
        while k < end {
            let (start, index) = (k, self.row[k] / LEAF);
            self.design.rows().leaf(index, &mut |leaf| {
                while k < end && self.row[k] / LEAF == index {
                    let i = self.row[k] - leaf.first;
                    entries.clear();
                    entries.extend(self.slots.iter().map(|s| {
                        let place =
                            s.term.map_or(s.feature, |t| self.places[k * terms + t] as usize + s.slot);
                        (place, self.design.value(&leaf, i, s.feature))
                    }));
                    work(k, &entries);
                    k += 1;
                }
            })?;
            if k == start {
                return Err(InvalidData::LeafMissing { leaf: index }.into());
            }
        }
        Ok(())
    }

    /// Every observation, in the order of the source, checked with its place in this order.
    pub(super) fn check(&self, reject: impl Fn(Datum) -> Option<String>) -> Result<(), Error> {
        let bad = (0..self.row.len())
            .filter_map(|k| reject(self.data[k]).map(|reason| (self.row[k], reason)))
            .min();
        bad.map_or(Ok(()), |(row, reason)| Err(InvalidData::Response { row, reason }.into()))
    }

    pub(super) fn new(
        design: Design,
        terms: &[GroupTerm],
        memory: usize,
    ) -> Result<(Self, Forest, Vec<Latent>), Error> {
        let (n, columns) = (design.rows().len(), design.dim());
        check(n, columns, terms)?;
        let (blocks, first_block) = blocks(columns, terms)?;
        let slots = slots(columns, terms);
        let mut used: Vec<usize> = slots.iter().filter_map(|s| s.term).collect();
        used.dedup();
        let to_root = slots.iter().any(|s| s.term.is_none());
        // the blocks that row i multiplies
        let touched = |i: usize| {
            let root = to_root.then_some(0);
            root.into_iter()
                .chain(used.iter().map(move |&t| (t, i)).map(|(t, i)| first_block[t] + terms[t].group[i]))
        };
        let parents = elimination_tree(terms, &blocks, &first_block, n, &touched);
        let (order, place) = level_by_level(&parents);
        let sizes: Vec<usize> = order.iter().map(|&b| blocks[b].slopes.len()).collect();
        let up: Vec<Option<usize>> = order.iter().map(|&b| parents[b].map(|p| place[p])).collect();
        let tree = Tree::new(&sizes, &up)?;
        // one factor, its trial, a direction, a residual, its image, the gradient and two more of the same size
        let bytes = 8 * 8 * (tree.stored() + tree.dim());
        if bytes > memory {
            return Err(TooLarge::Precision {
                stored: tree.stored(),
                widest: tree.widest(),
                needed: bytes,
                allowed: memory,
            }
            .into());
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
        let deepest: Vec<usize> = (0..n).map(|i| touched(i).map(|b| place[b]).max().unwrap_or(0)).collect();
        let mut row: Vec<usize> = (0..n).collect();
        row.sort_by_key(|&i| deepest[i]);
        let mut first = vec![0; nodes.len() + 1];
        deepest.iter().for_each(|d| first[d + 1] += 1);
        (0..nodes.len()).for_each(|k| first[k + 1] += first[k]);
        let places = row
            .iter()
            .flat_map(|&i| terms.iter().enumerate().map(move |(t, term)| (t, term.group[i])))
            .map(|(t, level)| place_of(first_block[t] + level, 0) as u32)
            .collect();
        let mut position = vec![0; n];
        row.iter().enumerate().for_each(|(k, &i)| position[i] = k);
        let (mut offset, mut weight) = (vec![0.0; n], vec![1.0; n]);
        let mut data = vec![Datum { y: 0.0, trials: 1.0 }; n];
        for index in 0..leaves(design.rows()) {
            design.rows().leaf(index, &mut |leaf| {
                for i in 0..leaf.y.len() {
                    let k = position[leaf.first + i];
                    (offset[k], weight[k], data[k]) = (leaf.offset_of(i), leaf.weight_of(i), leaf.datum(i));
                }
            })?;
        }
        Ok((Self { design, slots, row, places, offset, weight, data, first }, forest, latents))
    }
}

/// What a model with these sds needs of them.
pub(super) fn check_sds(t: usize, slopes: usize, sd: &[f64]) -> Result<(), Error> {
    if sd.len() != slopes || sd.iter().any(|s| !(*s > 0.0 && s.is_finite())) {
        return Err(InvalidModel::GroupSds { term: t, sds: sd.to_vec() }.into());
    }
    Ok(())
}

fn check(n: usize, columns: usize, terms: &[GroupTerm]) -> Result<(), Error> {
    if n == 0 || columns == 0 {
        return Err(InvalidData::Empty { rows: n, columns }.into());
    }
    if terms.is_empty() {
        return Err(InvalidModel::Requires { what: "a hierarchical model", required: "a group term" }.into());
    }
    for (t, term) in terms.iter().enumerate() {
        if term.group.len() != n {
            let what = format!("group term {t}");
            return Err(InvalidData::Length { what, found: term.group.len(), rows: n }.into());
        }
        if term.slopes.is_empty() || term.slopes.iter().any(|&j| j >= columns) {
            return Err(InvalidModel::GroupSlopes { term: t, columns, slopes: term.slopes.clone() }.into());
        }
        check_sds(t, term.slopes.len(), &term.sd)?;
        let nested_twice = |outer: usize| terms[..t].iter().any(|other| other.within == Some(outer));
        if let Some(outer) = term.within.filter(|&outer| outer >= t || nested_twice(outer)) {
            return Err(InvalidModel::GroupNesting { term: t, outer }.into());
        }
    }
    Ok(())
}

/// Block 0 holds the global coefficients; then one block per level of every term. Returns the blocks and each term's
/// first.
fn blocks(columns: usize, terms: &[GroupTerm]) -> Result<(Vec<Block>, Vec<usize>), Error> {
    let mut blocks = vec![Block { term: None, level: 0, slopes: (0..columns).collect(), outer: None }];
    let mut first = Vec::new();
    for (t, term) in terms.iter().enumerate() {
        first.push(blocks.len());
        let levels = term.group.iter().max().map_or(0, |m| m + 1);
        let mut outer = vec![None; levels];
        if let Some(o) = term.within {
            for (i, &level) in term.group.iter().enumerate() {
                let there = first[o] + terms[o].group[i];
                if *outer[level].get_or_insert(there) != there {
                    return Err(InvalidData::Nesting { row: i, level, term: t, outer: o }.into());
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

/// What every row multiplies. In every chain of nested terms the deepest block that has the feature counts; in the
/// first chain it replaces the global coefficient.
fn slots(columns: usize, terms: &[GroupTerm]) -> Vec<Slot> {
    let mut global: Vec<bool> = vec![true; columns];
    let mut out = Vec::new();
    for (t, term) in terms.iter().enumerate() {
        let inner = terms.iter().position(|other| other.within == Some(t));
        for (slot, &feature) in term.slopes.iter().enumerate() {
            if centred(terms, t) {
                global[feature] = false;
            }
            if !deeper_has(terms, inner, feature) {
                out.push(Slot { term: Some(t), slot, feature });
            }
        }
    }
    out.extend((0..columns).filter(|&j| global[j]).map(|j| Slot { term: None, slot: j, feature: j }));
    out
}

fn deeper_has(terms: &[GroupTerm], inner: Option<usize>, feature: usize) -> bool {
    inner.is_some_and(|t| {
        let deeper = terms.iter().position(|other| other.within == Some(t));
        terms[t].slopes.contains(&feature) || deeper_has(terms, deeper, feature)
    })
}

/// The elimination tree of the joint precision (Liu's algorithm), the terms with most levels eliminated first, nested
/// ones before their outer ones, the root last.
fn elimination_tree<I: Iterator<Item = usize>>(
    terms: &[GroupTerm],
    blocks: &[Block],
    first_block: &[usize],
    rows: usize,
    touched: &impl Fn(usize) -> I,
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
    for i in 0..rows {
        for (k, a) in touched(i).enumerate() {
            touched(i).skip(k + 1).for_each(|b| connect(a, b));
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
