//! Ancestor patterns: which entries of a sparse lower-triangular factor may be non-zero.
//!
//! The coordinates are cut into blocks, the nodes of a forest, ordered root first. Row block k holds entries only in
//! the columns of its ancestors and of itself (there lower triangular). Such patterns are closed under product and
//! inverse, and they contain the Cholesky factor of every covariance whose precision has that elimination tree
//! (Proposition I), so a hierarchical model loses nothing. Diagonal, block-diagonal and arrow are the shallow cases.

use crate::error::{Error, same_length};

/// One block of coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// First coordinate.
    pub start: usize,
    /// Number of coordinates.
    pub size: usize,
    /// The parent's index, always smaller than the node's own.
    pub parent: Option<usize>,
    /// Columns of the node's panel: its ancestors' coordinates, root first, then its own.
    pub width: usize,
    /// Where the node's column-major `size × width` panel starts among the values.
    pub offset: usize,
}

/// A forest of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    nodes: Vec<Node>,
    dim: usize,
    levels: usize,
    widest: usize,
    stored: usize,
}

impl Tree {
    /// Blocks of the given sizes with the given parents; a parent must come before its children.
    pub fn new(sizes: &[usize], parents: &[Option<usize>]) -> Result<Self, Error> {
        same_length("the list of parents", sizes.len(), parents.len())?;
        let (mut nodes, mut depths) = (Vec::<Node>::with_capacity(sizes.len()), Vec::<usize>::new());
        let (mut start, mut offset) = (0, 0);
        for (k, (&size, &parent)) in sizes.iter().zip(parents).enumerate() {
            if size == 0 {
                return Err(Error::invalid("the size of a block", size, "every block needs a coordinate"));
            }
            if parent.is_some_and(|p| p >= k) {
                let parent = parent.map_or(0, |p| p);
                return Err(Error::invalid("the parent of a block", parent, "parents come before children"));
            }
            let width = size + parent.map_or(0, |p| nodes[p].width);
            nodes.push(Node { start, size, parent, width, offset });
            depths.push(1 + parent.map_or(0, |p| depths[p]));
            start += size;
            offset += size * width;
        }
        if nodes.is_empty() {
            return Err(Error::invalid("the number of blocks", 0, "at least one block is required"));
        }
        let levels = depths.into_iter().max().unwrap_or(1);
        let widest = nodes.iter().map(|n| n.width).max().unwrap_or(0);
        Ok(Self { nodes, dim: start, levels, widest, stored: offset })
    }

    /// d independent coordinates (mean field).
    pub fn diagonal(dim: usize) -> Result<Self, Error> {
        Self::new(&vec![1; dim], &vec![None; dim])
    }

    /// Independent blocks.
    pub fn blocks(sizes: &[usize]) -> Result<Self, Error> {
        Self::new(sizes, &vec![None; sizes.len()])
    }

    /// A global block first, then groups that share it.
    pub fn arrow(global: usize, groups: &[usize]) -> Result<Self, Error> {
        let sizes: Vec<_> = std::iter::once(global).chain(groups.iter().copied()).collect();
        let parents: Vec<_> = std::iter::once(None).chain(groups.iter().map(|_| Some(0))).collect();
        Self::new(&sizes, &parents)
    }

    /// A Markov chain of `length` blocks of `size` coordinates by nested dissection: the middle block is the root, and
    /// the halves on both sides are chains of their own. Rows have at most `size · ⌈log₂(length + 1)⌉` entries, where
    /// the order of the chain itself would fill the factor. The nodes come level by level; the second result says which
    /// block of the chain each one is.
    pub fn chain(length: usize, size: usize) -> Result<(Self, Vec<usize>), Error> {
        let mut halves = vec![(0..length, None)];
        let (mut parents, mut places) = (Vec::with_capacity(length), Vec::with_capacity(length));
        let mut next = 0;
        while next < halves.len() {
            let (range, parent) = halves[next].clone();
            next += 1;
            if range.is_empty() {
                continue;
            }
            let (node, middle) = (places.len(), range.start + range.len() / 2);
            parents.push(parent);
            places.push(middle);
            halves.push((range.start..middle, Some(node)));
            halves.push((middle + 1..range.end, Some(node)));
        }
        Ok((Self::new(&vec![size; parents.len()], &parents)?, places))
    }

    /// The blocks, root first.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// L, the number of levels.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// k, the largest number of entries in a row.
    pub fn widest(&self) -> usize {
        self.widest
    }

    /// Stored values: every panel in full, the upper triangles of the own blocks being zero.
    pub fn stored(&self) -> usize {
        self.stored
    }

    /// Calls `visit(i, j)` for every entry that may be non-zero.
    pub fn for_each_entry(&self, mut visit: impl FnMut(usize, usize)) {
        for node in &self.nodes {
            self.for_each_ancestor(node, |_, above| {
                for j in above.start..above.start + above.size {
                    (node.start.max(j)..node.start + node.size).for_each(|i| visit(i, j));
                }
            });
        }
    }

    /// Calls `visit(first panel column, node)` for a node and its ancestors, the node itself first.
    #[inline]
    pub(crate) fn for_each_ancestor(&self, node: &Node, mut visit: impl FnMut(usize, &Node)) {
        let mut next = Some(node);
        while let Some(a) = next {
            visit(a.width - a.size, a);
            next = a.parent.map(|p| &self.nodes[p]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven blocks of two: the middle one is the root, every leaf has two above it, and neighbours lie on one path.
    #[test]
    fn a_chain_is_cut_in_halves() {
        let (tree, places) = Tree::chain(7, 2).expect("a chain");
        assert_eq!(places, [3, 1, 5, 0, 2, 4, 6]);
        let parents: Vec<_> = tree.nodes().iter().map(|n| n.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!((tree.dim(), tree.levels(), tree.widest()), (14, 3, 6));
        let above = |mut k: usize, other: usize| loop {
            match tree.nodes()[k].parent {
                Some(p) if p == other => return true,
                Some(p) => k = p,
                None => return false,
            }
        };
        for i in 1..7 {
            let [a, b] =
                [i - 1, i].map(|place| places.iter().position(|p| *p == place).expect("every place"));
            assert!(above(a, b) || above(b, a), "{i}");
        }
        assert!(Tree::chain(0, 1).is_err());
    }
}
