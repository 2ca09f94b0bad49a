//! Groups whose labels are used again within another group: casks a, b, c of every batch are different casks, which
//! `(1 | batch) + (1 | cask)` takes for the same.

use std::collections::HashSet;

use crate::encoding::Group;

/// Rows per pair of levels from which pairs look like groups of their own.
const ROWS: usize = 2;
/// The longest label that looks like a number within something: `3`, `b`, `c2`.
const SHORT: usize = 2;

/// A question for every pair of groups that looks so: each label of the second is short, there are fewer of them than
/// levels of the first, each occurs in at least two of these, and pairs have two rows or more on average.
pub(crate) fn questions(groups: &[Group], codes: &[Vec<u32>]) -> Vec<String> {
    let mut out = Vec::new();
    for (outer, of_outer) in groups.iter().zip(codes) {
        for (inner, of_inner) in groups.iter().zip(codes) {
            if looks_nested([outer, inner], [of_outer, of_inner]) {
                let (a, b) = (&outer.name, &inner.name);
                out.push(format!(
                    "'{b}' has the same labels in every '{a}': if they are different things, did you mean \
                     (1 | {a}/{b})?"
                ));
            }
        }
    }
    out
}

fn looks_nested([outer, inner]: [&Group; 2], [a, b]: [&Vec<u32>; 2]) -> bool {
    let simple = |group: &Group| group.columns.len() == 1 && group.within.is_none();
    let short = |group: &Group| group.levels.iter().all(|label| label.chars().count() <= SHORT);
    let fewer = inner.levels.len() > 1 && inner.levels.len() < outer.levels.len();
    if !simple(outer) || !simple(inner) || !fewer || !short(inner) {
        return false;
    }
    let pairs: HashSet<(u32, u32)> = a.iter().copied().zip(b.iter().copied()).collect();
    let mut outers = vec![0; inner.levels.len()];
    pairs.iter().for_each(|(_, inner)| outers[*inner as usize] += 1);
    ROWS * pairs.len() <= a.len() && outers.iter().all(|count| *count > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, levels: &[&str]) -> Group {
        Group {
            name: name.into(),
            columns: vec![0],
            levels: levels.iter().map(ToString::to_string).collect(),
            slopes: vec![0],
            sd: None,
            within: None,
            correlated: false,
        }
    }

    #[test]
    fn labels_that_are_used_again_are_asked_about() {
        let batch = group("batch", &["A", "B", "C", "D"]);
        let cask = group("cask", &["a", "b", "c"]);
        // every cask of every batch twice
        let code = |of: fn(u32) -> u32| (0..24).map(of).collect::<Vec<u32>>();
        let (batches, casks) = (code(|i| i / 6), code(|i| i % 3));
        let asked = |groups: &[Group], codes: &[Vec<u32>]| questions(groups, codes).join("\n");
        let groups = [batch.clone(), cask.clone()];
        let found = asked(&groups, &[batches.clone(), casks.clone()]);
        assert!(found.ends_with("did you mean (1 | batch/cask)?"), "{found}");
        // once each: crossed, as plates and samples are
        let half = |codes: &Vec<u32>| codes.iter().step_by(2).copied().collect::<Vec<u32>>();
        let crossed = asked(&groups, &[code(|i| i / 6 % 4), code(|i| i % 3)].map(|c| half(&c)));
        assert_eq!(crossed, "");
        // labels that are names, and a group that is nested as it is
        let named = [batch.clone(), group("cask", &["oak 1", "oak 2", "oak 3"])];
        assert_eq!(asked(&named, &[batches.clone(), casks.clone()]), "");
        let nested = [batch, Group { within: Some(0), ..cask }];
        assert_eq!(asked(&nested, &[batches, casks]), "");
    }
}
