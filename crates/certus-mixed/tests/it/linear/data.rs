//! Data sets with their models, as the tests use them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use certus_mixed::linear::{Design, Row, Statistics, Sums, Term};

/// Rows in memory, with the design of one model.
#[derive(Clone)]
pub(crate) struct Data {
    pub(crate) design: Design,
    pub(crate) levels: Vec<Vec<u32>>,
    pub(crate) effects: Vec<Vec<f64>>,
    pub(crate) fixed: Vec<Vec<f64>>,
    pub(crate) response: Vec<f64>,
    pub(crate) weights: Vec<f64>,
}

impl Data {
    pub(crate) fn row(&self, i: usize) -> Row<'_> {
        Row {
            levels: &self.levels[i],
            effects: &self.effects[i],
            fixed: &self.fixed[i],
            response: self.response[i],
            weight: self.weights[i],
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        Statistics::from_rows(&self.design, (0..self.response.len()).map(|i| self.row(i))).unwrap()
    }

    pub(crate) fn sums(&self, base: &[f64], rows: impl Iterator<Item = usize>) -> Sums {
        let mut sums = Sums::new(&self.design, base.to_vec()).unwrap();
        rows.for_each(|i| sums.push(&self.row(i)).unwrap());
        sums
    }
}

/// Columns of a CSV file by name.
pub(crate) fn columns(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines {
        for (name, cell) in names.iter().zip(line.split(',')) {
            out.entry(name.to_string()).or_default().push(cell.to_string());
        }
    }
    out
}

/// Levels in alphabetical order.
pub(crate) fn codes(cells: &[String]) -> (Vec<u32>, usize) {
    let mut names: Vec<&String> = cells.iter().collect();
    names.sort();
    names.dedup();
    let codes = cells.iter().map(|c| names.binary_search(&c).unwrap() as u32).collect();
    (codes, names.len())
}

pub(crate) fn numbers(cells: &[String]) -> Vec<f64> {
    cells.iter().map(|c| c.parse().unwrap()).collect()
}

/// A model from factors, the effects of its terms and fixed effects, all by columns.
pub(crate) fn model(
    factors: &[Vec<String>],
    terms: &[(usize, Vec<Vec<f64>>)],
    fixed: &[Vec<f64>],
    response: Vec<f64>,
) -> Data {
    let n = response.len();
    let coded: Vec<(Vec<u32>, usize)> = factors.iter().map(|f| codes(f)).collect();
    let row = |columns: &[&Vec<f64>], i: usize| columns.iter().map(|c| c[i]).collect::<Vec<f64>>();
    let effects: Vec<&Vec<f64>> = terms.iter().flat_map(|t| &t.1).collect();
    let fixed: Vec<&Vec<f64>> = fixed.iter().collect();
    Data {
        design: Design {
            levels: coded.iter().map(|c| c.1).collect(),
            terms: terms.iter().map(|t| Term { factor: t.0, effects: t.1.len() }).collect(),
            fixed: fixed.len(),
        },
        levels: (0..n).map(|i| coded.iter().map(|c| c.0[i]).collect()).collect(),
        effects: (0..n).map(|i| row(&effects, i)).collect(),
        fixed: (0..n).map(|i| row(&fixed, i)).collect(),
        weights: vec![1.0; n],
        response,
    }
}

fn pasted(a: &[String], b: &[String]) -> Vec<String> {
    a.iter().zip(b).map(|(a, b)| format!("{a}:{b}")).collect()
}

/// The models of the reference table, by name.
pub(crate) fn load(name: &str) -> Data {
    let text = match name {
        "sleep" | "sleepzc" => include_str!("../../data/sleepstudy.csv"),
        "penicillin" => include_str!("../../data/penicillin.csv"),
        "pastes" => include_str!("../../data/pastes.csv"),
        "dyestuff" => include_str!("../../data/dyestuff.csv"),
        "dyestuff2" => include_str!("../../data/dyestuff2.csv"),
        _ => include_str!("../../data/machines.csv"),
    };
    let c = columns(text);
    let n = c.values().next().unwrap().len();
    let one = vec![1.0; n];
    let alone = |f: usize| (f, vec![one.clone()]);
    match name {
        "sleep" => {
            let x = vec![one.clone(), numbers(&c["Days"])];
            model(&[c["Subject"].clone()], &[(0, x.clone())], &x, numbers(&c["Reaction"]))
        }
        "sleepzc" => {
            let x = vec![one.clone(), numbers(&c["Days"])];
            let terms = [alone(0), (0, vec![x[1].clone()])];
            model(&[c["Subject"].clone()], &terms, &x, numbers(&c["Reaction"]))
        }
        "penicillin" => {
            let factors = [c["plate"].clone(), c["sample"].clone()];
            model(&factors, &[alone(0), alone(1)], std::slice::from_ref(&one), numbers(&c["diameter"]))
        }
        "pastes" => {
            let factors = [pasted(&c["batch"], &c["cask"]), c["batch"].clone()];
            model(&factors, &[alone(0), alone(1)], std::slice::from_ref(&one), numbers(&c["strength"]))
        }
        "dyestuff" | "dyestuff2" => {
            model(&[c["Batch"].clone()], &[alone(0)], std::slice::from_ref(&one), numbers(&c["Yield"]))
        }
        _ => {
            let dummy = |m: &str| c["Machine"].iter().map(|x| f64::from(u8::from(x == m))).collect();
            let x = vec![one.clone(), dummy("B"), dummy("C")];
            let score = numbers(&c["score"]);
            if name == "machines_r" {
                return model(&[c["Worker"].clone()], &[(0, x.clone())], &x, score);
            }
            let factors = [pasted(&c["Machine"], &c["Worker"]), c["Worker"].clone()];
            model(&factors, &[alone(0), alone(1)], &x, score)
        }
    }
}
