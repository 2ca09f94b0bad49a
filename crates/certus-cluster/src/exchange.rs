//! Which partial sums travel. A node of the fixed tree whose leaves are all at one rank is summed there; a node that
//! straddles ranks is combined at the rank that makes the number of messages smallest. The tree is the same for every
//! number of ranks, and so are the bits.
//!
//! Per boundary between two ranks at most half of the nodes beside its path travel; the sum then goes to the P − 1
//! others.

use std::ops::Range;

use certus::parallel::halves;

/// One thing to do, in the order in which all ranks do them; a rank takes part where it is named. Values are kept in
/// numbered places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Rank `at` makes the value of a node that it has all leaves of.
    Own {
        /// Who.
        at: usize,
        /// The leaves.
        node: Range<usize>,
        /// Where the value is put.
        place: usize,
    },
    /// A value travels; its place stays the same.
    Move {
        /// From rank.
        from: usize,
        /// To rank.
        to: usize,
        /// Where the value is.
        place: usize,
    },
    /// Rank `at` sets left ← left ∘ right.
    Combine {
        /// Who.
        at: usize,
        /// The left child's place, then the node's.
        left: usize,
        /// The right child's place.
        right: usize,
    },
}

/// The steps that combine all leaves, and where the result is.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What to do.
    pub steps: Vec<Step>,
    /// The rank that has the result.
    pub root: usize,
    /// Its place.
    pub place: usize,
}

/// A node as far as it matters who has it: the cheapest number of messages that bring its value to each rank.
struct Node {
    cost: Vec<usize>,
    kind: Kind,
}

enum Kind {
    Whole { node: Range<usize>, owner: usize },
    Split { left: Box<Node>, right: Box<Node>, together: Vec<usize>, best: usize },
}

impl Exchange {
    /// For leaves `bounds[r]..bounds[r + 1]` at rank r; there must be at least one leaf.
    pub fn new(bounds: &[usize]) -> Self {
        let root = node(0..bounds[bounds.len() - 1], bounds);
        let at = least(&root.cost);
        let mut out = Self { steps: Vec::new(), root: at, place: 0 };
        let mut places = 0;
        out.place = out.add(&root, at, &mut places);
        out
    }

    /// Values that travel before the result does.
    pub fn moves(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Move { .. })).count()
    }

    /// The steps that bring the value of `node` to rank `at`; its place.
    fn add(&mut self, node: &Node, at: usize, places: &mut usize) -> usize {
        match &node.kind {
            Kind::Whole { node, owner } => {
                let place = *places;
                *places += 1;
                self.steps.push(Step::Own { at: *owner, node: node.clone(), place });
                self.moved(*owner, at, place)
            }
            Kind::Split { left, right, together, best } => {
                let here = if together[at] <= together[*best] + 1 { at } else { *best };
                let (a, b) = (self.add(left, here, places), self.add(right, here, places));
                self.steps.push(Step::Combine { at: here, left: a, right: b });
                self.moved(here, at, a)
            }
        }
    }

    fn moved(&mut self, from: usize, to: usize, place: usize) -> usize {
        if from != to {
            self.steps.push(Step::Move { from, to, place });
        }
        place
    }
}

/// The first of the smallest.
fn least(cost: &[usize]) -> usize {
    (0..cost.len()).min_by_key(|r| cost[*r]).expect("there is a rank")
}

/// cost(r) of a node that is split: both children brought to r, or to the cheapest rank and the value from there to r.
fn node(range: Range<usize>, bounds: &[usize]) -> Node {
    // the last rank that begins at or before the first leaf, which is the one that has it
    let owner = bounds.partition_point(|b| *b <= range.start) - 1;
    if range.end <= bounds[owner + 1] {
        let cost = (0..bounds.len() - 1).map(|r| usize::from(r != owner)).collect();
        return Node { cost, kind: Kind::Whole { node: range, owner } };
    }
    let (left, right) = halves(range);
    let (left, right) = (node(left, bounds), node(right, bounds));
    let together: Vec<usize> = left.cost.iter().zip(&right.cost).map(|(a, b)| a + b).collect();
    let best = least(&together);
    let cost = together.iter().map(|t| (*t).min(together[best] + 1)).collect();
    Node { cost, kind: Kind::Split { left: Box::new(left), right: Box::new(right), together, best } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::manifest;
    use std::collections::HashMap;

    /// Runs the steps on names of leaves: what each rank has, nobody reads what is not there.
    fn shape(bounds: &[usize]) -> String {
        let exchange = Exchange::new(bounds);
        let mut held: HashMap<(usize, usize), String> = HashMap::new();
        let word = |i: usize| i.to_string();
        let pair = |a: String, b: String| format!("({a} {b})");
        for step in &exchange.steps {
            match step {
                Step::Own { at, node, place } => {
                    assert!(
                        bounds[*at] <= node.start && node.end <= bounds[at + 1],
                        "{node:?} is not at {at}"
                    );
                    held.insert((*at, *place), certus::parallel::subtree(node.clone(), 1, &word, &pair));
                }
                Step::Move { from, to, place } => {
                    let value = held.remove(&(*from, *place)).expect("it is there");
                    held.insert((*to, *place), value);
                }
                Step::Combine { at, left, right } => {
                    let (a, b) = (held.remove(&(*at, *left)), held.remove(&(*at, *right)));
                    held.insert((*at, *left), pair(a.expect("left is there"), b.expect("right is there")));
                }
            }
        }
        held.remove(&(exchange.root, exchange.place)).expect("the result is there")
    }

    /// Every split of the leaves gives the tree of one process.
    #[test]
    fn the_tree_is_the_same() {
        for leaves in 1..=33 {
            let alone = shape(&[0, leaves]);
            for ranks in 1..=6 {
                assert_eq!(shape(&manifest(leaves, ranks)), alone, "{leaves} over {ranks}");
            }
            for cut in 0..=leaves {
                assert_eq!(shape(&[0, cut, leaves]), alone);
                assert_eq!(shape(&[0, cut, cut, leaves]), alone);
            }
        }
    }

    /// A ring all-reduce sends 2(P − 1) times the numbers, and so do we where leaves are a multiple of P that is a
    /// power of two; never more than twice that for P = 2 and 4.
    #[test]
    fn few_sums_travel() {
        for ranks in [2, 4] {
            let ring = 2 * (ranks - 1);
            assert_eq!(Exchange::new(&manifest(64 * ranks, ranks)).moves() + ranks - 1, ring);
            for leaves in (ranks..5000).chain([1 << 20, (1 << 20) + 1, 976_563, 1_500_000, 1_310_720]) {
                let sent = Exchange::new(&manifest(leaves, ranks)).moves() + ranks - 1;
                assert!(sent <= 2 * ring, "{leaves} over {ranks}: {sent}");
            }
        }
        // and about twice for more
        for ranks in [3, 5, 7, 8, 16, 64, 1000] {
            for leaves in [ranks, 1000 * ranks + 17, 976_563] {
                let sent = Exchange::new(&manifest(leaves, ranks)).moves() + ranks - 1;
                assert!(sent <= 5 * (ranks - 1), "{leaves} over {ranks}: {sent}");
            }
        }
    }
}
