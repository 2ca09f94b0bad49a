//! Linear algebra on a tree of blocks (an ancestor pattern): sweeps from the leaves to the root and back, in parallel
//! over fixed runs of siblings, at a cost linear in the pattern.
//!
//! Matrices use the layout of `Pattern`: one `size × width` panel per node, column-major, its columns being the path
//! from the root to the node. A factor is lower triangular in its own blocks; a symmetric matrix stores them in full.
//! Nodes come level by level with siblings next to each other, so that the part of any vector that belongs to a level
//! is one slice.

mod elimination;

use std::ops::Range;
use std::sync::Arc;

use certus::factor::{Node, Tree};
use certus::parallel;

use crate::error::{Error, InvalidModel};

/// Siblings handled together: what they send to their parent is summed per run, and the runs in the fixed tree.
const RUN: usize = 64;

/// A tree of blocks with its levels.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    pub(crate) tree: Arc<Tree>,
    levels: Vec<Range<usize>>,
}

/// One node's part of a sweep.
pub(crate) struct Visit<'a> {
    /// The node.
    pub(crate) node: usize,
    /// What the children sent, over the path: a vector and a square matrix (lower triangle). What is left in its
    /// ancestors' part goes to the parent.
    pub(crate) vector: &'a mut [f64],
    /// The square.
    pub(crate) square: &'a mut [f64],
    /// The only places of the path at which a node without children has added something to vector and square (there
    /// to pairs of them), if it says so.
    pub(crate) touched: &'a mut Option<Vec<usize>>,
    /// The node's own part of the output vector.
    pub(crate) own: &'a mut [f64],
    /// The node's panel of the output matrix.
    pub(crate) panel: &'a mut [f64],
}

fn add(mut a: Vec<f64>, b: Vec<f64>) -> Vec<f64> {
    a.iter_mut().zip(&b).for_each(|(x, y)| *x += y);
    a
}

impl Forest {
    /// A tree with one root whose nodes come level by level.
    pub(crate) fn new(tree: Tree) -> Result<Self, Error> {
        let nodes = tree.nodes();
        let mut levels: Vec<Range<usize>> = Vec::new();
        let mut depth = vec![0; nodes.len()];
        for k in 0..nodes.len() {
            depth[k] = nodes[k].parent.map_or(0, |p| depth[p] + 1);
            let in_order = k == 0 || (depth[k] >= depth[k - 1] && nodes[k].parent >= nodes[k - 1].parent);
            if !in_order || (k > 0 && nodes[k].parent.is_none()) {
                let required = "blocks in the order of their levels, from one root";
                return Err(InvalidModel::Requires { what: "the elimination tree", required }.into());
            }
            if depth[k] == levels.len() {
                levels.push(k..k);
            }
            levels[depth[k]].end = k + 1;
        }
        Ok(Self { tree: Arc::new(tree), levels })
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        self.tree.nodes()
    }

    pub(crate) fn dim(&self) -> usize {
        self.tree.dim()
    }

    /// Runs of siblings of one level.
    fn runs(&self, level: &Range<usize>) -> Vec<Range<usize>> {
        let nodes = self.nodes();
        let mut runs: Vec<Range<usize>> = Vec::new();
        for k in level.clone() {
            match runs.last_mut() {
                Some(run) if nodes[run.start].parent == nodes[k].parent && run.len() < RUN => run.end = k + 1,
                _ => runs.push(k..k + 1),
            }
        }
        runs
    }

    /// The slices of a vector and a matrix that belong to each run of a level.
    fn parts<'a>(
        &self,
        runs: &[Range<usize>],
        mut vector: &'a mut [f64],
        mut matrix: &'a mut [f64],
    ) -> Vec<(Range<usize>, &'a mut [f64], &'a mut [f64])> {
        let nodes = self.nodes();
        let mut parts = Vec::with_capacity(runs.len());
        for run in runs {
            let (size, stored) =
                nodes[run.clone()].iter().fold((0, 0), |(a, b), n| (a + n.size, b + n.size * n.width));
            let (own, rest) = std::mem::take(&mut vector).split_at_mut(size);
            vector = rest;
            let (panels, rest) = std::mem::take(&mut matrix).split_at_mut(stored);
            matrix = rest;
            parts.push((run.clone(), own, panels));
        }
        parts
    }

    /// Where a level starts in a vector and in a matrix.
    fn start(&self, level: &Range<usize>) -> (usize, usize) {
        let node = &self.nodes()[level.start];
        (node.start, node.offset)
    }

    /// From the leaves to the root: `work` sees every node after its children.
    pub(crate) fn upward(&self, vector: &mut [f64], matrix: &mut [f64], work: &(impl Fn(Visit<'_>) + Sync)) {
        let nodes = self.nodes();
        let mut sent: Vec<Vec<f64>> = vec![Vec::new(); nodes.len()];
        let (mut vector, mut matrix) = (vector, matrix);
        for level in self.levels.iter().rev() {
            let (at, stored) = self.start(level);
            let (above, here) = std::mem::take(&mut vector).split_at_mut(at);
            let (above_matrix, here_matrix) = std::mem::take(&mut matrix).split_at_mut(stored);
            (vector, matrix) = (above, above_matrix);
            let runs = self.runs(level);
            let mut jobs: Vec<_> = self
                .parts(&runs, here, here_matrix)
                .into_iter()
                .map(|part| {
                    // a chain of crossed groups has a square of its path per node: none is kept longer than needed
                    let received: Vec<_> = part.0.clone().map(|k| std::mem::take(&mut sent[k])).collect();
                    (part, received, Vec::new())
                })
                .collect();
            parallel::for_each_piece(&mut jobs, 1, 1, &|_, job| {
                let ((run, own, panels), received, out) = &mut job[0];
                let (mut own, mut panels) = (&mut **own, &mut **panels);
                let above = nodes[run.start].width - nodes[run.start].size;
                let mut blank = Vec::new();
                let (mut rest_own, mut rest_panels);
                for (place, k) in run.clone().enumerate() {
                    let (size, width) = (nodes[k].size, nodes[k].width);
                    let mut message = std::mem::take(&mut received[place]);
                    let leaf = message.is_empty();
                    if leaf {
                        // zero from the leaf before, if it has touched a few places only
                        message = std::mem::take(&mut blank);
                        if message.len() != width + width * width {
                            message = vec![0.0; width + width * width];
                        }
                    }
                    let (v, s) = message.split_at_mut(width);
                    (rest_own, own) = own.split_at_mut(size);
                    (rest_panels, panels) = panels.split_at_mut(size * width);
                    let mut touched = None;
                    work(Visit {
                        node: k,
                        vector: v,
                        square: s,
                        touched: &mut touched,
                        own: rest_own,
                        panel: rest_panels,
                    });
                    match touched.filter(|_| leaf) {
                        Some(places) => {
                            out.resize(above + above * above, 0.0);
                            let (out_v, out_s) = out.split_at_mut(above);
                            for (at, &j) in places.iter().enumerate() {
                                let inside = places[at..].iter().take_while(|i| **i < above);
                                inside.for_each(|&i| out_s[j * above + i] += s[j * width + i]);
                                if j < above {
                                    out_v[j] += v[j];
                                }
                                v[j] = 0.0;
                                places[at..].iter().for_each(|&i| s[j * width + i] = 0.0);
                            }
                            blank = message;
                        }
                        None if out.is_empty() => {
                            out.reserve_exact(above + above * above);
                            out.extend_from_slice(&v[..above]);
                            (0..above).for_each(|j| out.extend_from_slice(&s[j * width..][..above]));
                        }
                        None => {
                            let (out_v, out_s) = out.split_at_mut(above);
                            for j in 0..above {
                                out_v[j] += v[j];
                                let (to, from) = (&mut out_s[j * above..], &s[j * width..]);
                                (j..above).for_each(|i| to[i] += from[i]);
                            }
                        }
                    }
                }
            });
            // the runs of each parent, summed in the fixed tree
            let mut first = 0;
            while first < runs.len() {
                let parent = nodes[runs[first].start].parent;
                let count = runs[first..].iter().take_while(|r| nodes[r.start].parent == parent).count();
                if let Some(parent) = parent {
                    sent[parent] = match count {
                        1 => std::mem::take(&mut jobs[first].2),
                        _ => {
                            let leaf = |i: usize| jobs[first + i].2.clone();
                            parallel::reduce(count, 16, &leaf, &add).unwrap_or_default()
                        }
                    };
                }
                first += count;
            }
        }
    }

    /// From the leaves to the root with `n` numbers per coordinate: `work(node, path)` adds a node's part to the
    /// (width + 1) × n numbers of its path, the last n of which every path shares. `own` receives the d × n sums and,
    /// after them, the shared ones.
    pub(crate) fn gather(&self, n: usize, own: &mut [f64], work: &(impl Fn(usize, &mut [f64]) + Sync)) {
        let nodes = self.nodes();
        let mut sent: Vec<Vec<f64>> = vec![Vec::new(); nodes.len()];
        let (mut rest, shared) = own.split_at_mut(self.dim() * n);
        for level in self.levels.iter().rev() {
            let (above, mut here) = std::mem::take(&mut rest).split_at_mut(nodes[level.start].start * n);
            rest = above;
            let runs = self.runs(level);
            let mut jobs = Vec::with_capacity(runs.len());
            for run in &runs {
                let size: usize = nodes[run.clone()].iter().map(|node| node.size).sum();
                let (part, after) = std::mem::take(&mut here).split_at_mut(size * n);
                here = after;
                jobs.push((run.clone(), part, Vec::new()));
            }
            parallel::for_each_piece(&mut jobs, 1, 1, &|_, job| {
                let (run, part, out) = &mut job[0];
                let above = (nodes[run.start].width - nodes[run.start].size) * n;
                out.resize(above + n, 0.0);
                let (mut own, mut path) = (&mut **part, Vec::new());
                for k in run.clone() {
                    path.clear();
                    path.extend_from_slice(&sent[k]);
                    path.resize((nodes[k].width + 1) * n, 0.0);
                    work(k, &mut path);
                    let (mine, after) = own.split_at_mut(nodes[k].size * n);
                    own = after;
                    mine.copy_from_slice(&path[above..above + mine.len()]);
                    let shared = path.len() - n;
                    out[..above].iter_mut().zip(&path).for_each(|(o, p)| *o += p);
                    out[above..].iter_mut().zip(&path[shared..]).for_each(|(o, p)| *o += p);
                }
            });
            let mut first = 0;
            while first < runs.len() {
                let parent = nodes[runs[first].start].parent;
                let count = runs[first..].iter().take_while(|r| nodes[r.start].parent == parent).count();
                let leaf = |i: usize| jobs[first + i].2.clone();
                let sum = parallel::reduce(count, 16, &leaf, &add).unwrap_or_default();
                match parent {
                    Some(parent) => sent[parent] = sum,
                    None => shared.copy_from_slice(&sum),
                }
                first += count;
            }
            level.clone().for_each(|k| sent[k] = Vec::new());
        }
    }

    /// out ← the width × width lower-triangular matrix of a node's path in a factor, *by rows*.
    pub(crate) fn path(&self, values: &[f64], node: usize, out: &mut [f64]) {
        let width = self.nodes()[node].width;
        out[..width * width].fill(0.0);
        let mut next = Some(node);
        while let Some(k) = next {
            let n = &self.nodes()[k];
            let first = n.width - n.size;
            for (j, column) in values[n.offset..][..n.size * n.width].chunks_exact(n.size).enumerate() {
                column.iter().enumerate().for_each(|(i, v)| out[(first + i) * width + j] = *v);
            }
            next = n.parent;
        }
    }

    /// out ← the entries of a vector on a node's path.
    pub(crate) fn path_vector(&self, x: &[f64], node: usize, out: &mut [f64]) {
        self.path_vectors(1, x, node, out);
    }

    /// The same with `each` numbers per coordinate.
    pub(crate) fn path_vectors(&self, each: usize, x: &[f64], node: usize, out: &mut [f64]) {
        let mut next = Some(node);
        while let Some(k) = next {
            let n = &self.nodes()[k];
            let own = &x[n.start * each..][..n.size * each];
            out[(n.width - n.size) * each..n.width * each].copy_from_slice(own);
            next = n.parent;
        }
    }

    /// Where the diagonal of a factor sits among its values.
    pub(crate) fn diagonal(&self) -> impl Iterator<Item = usize> {
        self.nodes()
            .iter()
            .flat_map(|n| (0..n.size).map(|i| n.offset + (n.width - n.size) * n.size + i * (n.size + 1)))
    }
}
