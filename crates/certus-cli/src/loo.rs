//! `certus loo`: how well fits predict rows that they have not seen.

use std::path::{Path, PathBuf};

use certus_fit::{Criterion, Fit, Loo, LooRow, ModelComparison};

use crate::exit::{Code, Failure, note, print, print_json};
use crate::results::opened;
use crate::table::aligned;
use crate::verify::reread;

/// `certus loo DIR...`.
pub fn loo(dirs: &[PathBuf], data: Option<&Path>, json: bool) -> Result<Code, Failure> {
    let mut found: Vec<(String, Fit, Loo)> = Vec::new();
    for dir in dirs {
        let fit = Fit::read(&opened(dir)?)?;
        let (_, problem) = reread(dir, data, "certus loo DIR")?;
        let loo = fit.loo(&problem)?;
        found.push((dir.display().to_string(), fit, loo));
    }
    let records: Vec<_> = found.iter().map(|(name, fit, _)| (name.clone(), &fit.record)).collect();
    if let Some(reason) = ModelComparison::new(&records).reason {
        return Err(Failure::new(Code::Usage, format!("the fits cannot be compared: {reason}")));
    }
    let fits: Vec<(String, &Loo)> = found.iter().map(|(name, _, loo)| (name.clone(), loo)).collect();
    let rows = Loo::compare(&fits);
    if json {
        let fits: serde_json::Map<String, serde_json::Value> = fits
            .iter()
            .map(|(name, loo)| (name.clone(), serde_json::to_value(loo).expect("plain values")))
            .collect();
        let out = serde_json::json!({ "fits": fits, "comparison": rows });
        print_json(&format!("{out:#}\n"))?;
        return Ok(Code::Reached);
    }
    let mut out = match &fits[..] {
        [(_, loo)] => one(loo),
        _ => several(&rows),
    };
    for (name, loo) in &fits {
        let of = if fits.len() > 1 { format!("{name}: ") } else { String::new() };
        out.push_str(&format!("{of}{}\n", loo.words()));
        if let Some(words) = loo.note {
            note(&format!("{of}{words}"));
        }
    }
    print(&out)?;
    Ok(Code::Reached)
}

/// The criteria of a fit.
fn one(loo: &Loo) -> String {
    let head = ["", "estimate", "se"].map(String::from).to_vec();
    let rows = |name: &str, c: &Criterion| {
        [
            vec![format!("elpd_{name}"), format!("{:.2}", c.elpd), format!("{:.2}", c.se)],
            vec![format!("p_{name}"), format!("{:.2}", c.p), String::new()],
        ]
    };
    let ic = vec!["looic".into(), format!("{:.2}", -2.0 * loo.loo.elpd), format!("{:.2}", 2.0 * loo.loo.se)];
    let mut table = vec![head];
    table.extend(rows("loo", &loo.loo));
    table.push(ic);
    table.extend(rows("waic", &loo.waic));
    aligned(&table)
}

/// Fits, the best first.
fn several(rows: &[LooRow]) -> String {
    let head = ["model", "elpd_loo", "se", "p_loo", "difference", "se of it"].map(String::from).to_vec();
    let row = |r: &LooRow| {
        let numbers = [r.loo.elpd, r.loo.se, r.loo.p, r.difference, r.difference_se];
        std::iter::once(r.name.clone()).chain(numbers.map(|x| format!("{x:.2}"))).collect()
    };
    let table: Vec<Vec<String>> = std::iter::once(head).chain(rows.iter().map(row)).collect();
    aligned(&table)
}
