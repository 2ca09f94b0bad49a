//! `certus ppc`: the data beside data sets that the posterior predicts.

use std::path::Path;

use certus::certificate::significant;
use certus_fit::{Fit, Statistic};

use crate::exit::{Code, Failure, note, print, print_json};
use crate::results::opened;
use crate::table::aligned;
use crate::verify::reread;

/// `certus ppc DIR`.
pub fn ppc(dir: &Path, data: Option<&Path>, json: bool) -> Result<Code, Failure> {
    let fit = Fit::read(&opened(dir)?)?;
    let (_, problem) = reread(dir, data, "certus ppc DIR")?;
    let found = fit.ppc(&problem)?;
    if json {
        let mut out = serde_json::to_value(&found).expect("plain values");
        out["residuals"] = serde_json::to_value(&found.residuals).expect("numbers");
        print_json(&format!("{out:#}\n"))?;
        return Ok(Code::Reached);
    }
    let head = ["statistic", "observed", "simulated", "5 %", "95 %", "P(above)"].map(String::from).to_vec();
    let row = |s: &Statistic| {
        let numbers = [s.observed, s.mean, s.low, s.high].map(|x| significant(x, 4));
        std::iter::once(s.name.to_string()).chain(numbers).chain([format!("{:.3}", s.above)]).collect()
    };
    let table: Vec<Vec<String>> = std::iter::once(head).chain(found.statistics.iter().map(row)).collect();
    print(&format!("{}{}\n", aligned(&table), found.words()))?;
    if let Some(words) = found.note {
        note(words);
    }
    Ok(Code::Reached)
}
