//! What tests look at of prepared data.
#![allow(unreachable_pub, clippy::unwrap_used)]

use certus_data::Prepared;
use certus_models::rows::{LEAF, Rows};

/// All rows: features, then the response.
pub fn matrix(rows: &dyn Rows) -> Vec<Vec<f64>> {
    let mut out = Vec::new();
    for index in 0..rows.len().div_ceil(LEAF) {
        rows.leaf(index, &mut |leaf| {
            for i in 0..leaf.y.len() {
                out.push((0..leaf.x.columns()).map(|j| leaf.x.get(i, j)).chain([leaf.y[i]]).collect());
            }
        })
        .unwrap();
    }
    out
}

/// The names of the features.
pub fn names(prepared: &Prepared) -> Vec<&str> {
    prepared.encoding.features.iter().map(|f| f.name.as_str()).collect()
}
