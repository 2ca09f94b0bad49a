//! The benchmark problems, from CSV files as in the repository's `data/`.

use std::path::Path;
use std::sync::Arc;

use certus_likelihood::{Likelihood, Linear, Logistic};
use certus_models::{Design, Glm, GroupTerm, Hierarchical, Memory, Prior};

/// A problem: as a dense model, with its group structure if it has one, and f* over all Gaussians.
pub struct Problem {
    /// The dense model, which knows f exactly.
    pub dense: Glm,
    /// The same as a hierarchical model.
    pub grouped: Option<Hierarchical>,
    /// f*.
    pub neg_elbo: f64,
}

/// Reads `NAME.csv` and the entry of `references.json` in `dir`; `None` if there is no such file.
pub fn load(dir: &Path, name: &str) -> Option<Problem> {
    let text = std::fs::read_to_string(dir.join(format!("{name}.csv"))).ok()?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split(',').collect();
    let (mut x, mut y, mut group) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        for (name, cell) in names.iter().zip(line.split(',')) {
            let value: f64 = cell.parse().expect("a number");
            match *name {
                "y" => y.push(value),
                "group" => group.push(value as usize),
                _ => x.push(value),
            }
        }
    }
    let columns = x.len() / y.len();
    let rows = Memory { x, y, columns, ..Memory::default() };
    let likelihood: Arc<dyn Likelihood> = if name.starts_with("lin") {
        Arc::new(Linear::new(1.0).expect("a sigma"))
    } else {
        Arc::new(Logistic)
    };
    let unit = |d: usize| Prior::independent(vec![0.0; d], &vec![1.0; d]).expect("a prior");
    let design = |rows: &Memory| Design::new(Arc::new(rows.clone()), false);
    let (dense, grouped) = if group.is_empty() {
        (Glm::new(design(&rows), likelihood, unit(columns)).expect("a model"), None)
    } else {
        let term = GroupTerm {
            group: group.clone(),
            slopes: (0..columns).collect(),
            sd: vec![1.0; columns],
            within: None,
        };
        let grouped = Hierarchical::new(design(&rows), &[term], likelihood.clone(), &unit(columns), 1 << 32)
            .expect("a model");
        (flattened(&rows, &group, likelihood), Some(grouped))
    };
    let text = std::fs::read_to_string(dir.join("references.json")).ok()?;
    let entry = &text[text.find(&format!("\"{name}\""))?..];
    let value = &entry[entry.find("\"neg_elbo\":")? + 11..];
    let neg_elbo = value.trim_start().split([',', '\n', '}']).next()?.trim().parse().ok()?;
    Some(Problem { dense, grouped, neg_elbo })
}

/// θ ~ N(0, I), z_g ~ N(θ, I) as one dense model with latents θ, z_0, z_1, ….
fn flattened(rows: &Memory, group: &[usize], likelihood: Arc<dyn Likelihood>) -> Glm {
    let (p, groups) = (rows.columns, group.iter().max().map_or(0, |g| g + 1));
    let d = p * (groups + 1);
    let mut x = vec![0.0; rows.y.len() * d];
    let mut precision = vec![0.0; d * d];
    for (i, &g) in group.iter().enumerate() {
        x[i * d + p * (g + 1)..][..p].copy_from_slice(&rows.x[i * p..][..p]);
    }
    for a in 0..p {
        precision[a * d + a] = 1.0 + groups as f64;
        for b in (1..=groups).map(|g| g * p + a) {
            precision[b * d + b] = 1.0;
            (precision[a * d + b], precision[b * d + a]) = (-1.0, -1.0);
        }
    }
    let memory = Memory { x, y: rows.y.clone(), columns: d, ..Memory::default() };
    let prior = Prior::with_precision(vec![0.0; d], precision).expect("a prior");
    Glm::new(Design::new(Arc::new(memory), false), likelihood, prior).expect("a model")
}
