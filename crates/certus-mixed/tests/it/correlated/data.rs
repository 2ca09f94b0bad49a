//! Data sets with their models, and simulated rows.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use certus_likelihood::{Datum, Likelihood, Logistic, Poisson, Prior};
use certus_mixed::correlated::{Design, Model, Row};

use crate::linear::data::{codes, columns, numbers};

/// Rows in memory.
#[derive(Clone, Default)]
pub(crate) struct Data {
    pub(crate) levels: Vec<u32>,
    pub(crate) effects: Vec<Vec<f64>>,
    pub(crate) fixed: Vec<Vec<f64>>,
    pub(crate) data: Vec<Datum>,
    pub(crate) offset: Vec<f64>,
    pub(crate) weight: Vec<f64>,
}

impl Data {
    pub(crate) fn model(&self, likelihood: Arc<dyn Likelihood>) -> Model {
        let p = self.fixed[0].len();
        self.with_prior(likelihood, Prior::independent(vec![0.0; p], &vec![f64::INFINITY; p]).unwrap())
    }

    pub(crate) fn with_prior(&self, likelihood: Arc<dyn Likelihood>, prior: Prior) -> Model {
        let design = Design {
            levels: self.levels.iter().max().map_or(0, |l| *l as usize + 1),
            effects: self.effects[0].len(),
            fixed: self.fixed[0].len(),
        };
        let row = |i: usize| Row {
            level: self.levels[i],
            effects: &self.effects[i],
            fixed: &self.fixed[i],
            datum: self.data[i],
            offset: self.offset[i],
            weight: self.weight[i],
        };
        Model::new(design, (0..self.data.len()).map(row), likelihood, prior).unwrap()
    }
}

/// The models of the reference table, by name, and their likelihoods.
pub(crate) fn load(name: &str) -> (Data, Arc<dyn Likelihood>) {
    let c = columns(match name {
        "toenail" => include_str!("../../data/toenail.csv"),
        "contraception" => include_str!("../../data/contraception.csv"),
        "epil" => include_str!("../../data/epil.csv"),
        _ => include_str!("../../data/bacteria.csv"),
    });
    let column = |name: &str| numbers(&c[name]);
    let times = |a: &str, b: &str| column(a).iter().zip(column(b)).map(|(a, b)| a * b).collect::<Vec<f64>>();
    let (response, group, fixed, effect) = match name {
        "toenail" => ("y", "id", vec![column("trt"), column("time"), times("trt", "time")], "time"),
        "contraception" => ("y", "id", ["age", "age2", "u", "l1", "l2", "l3"].map(column).to_vec(), "u"),
        "epil" => {
            let mut fixed = ["lbase4", "trtp", "lage", "visit"].map(column).to_vec();
            fixed.push(times("lbase4", "trtp"));
            ("y", "subject", fixed, "visit")
        }
        _ => ("yy", "id", ["drug", "drugp", "week"].map(column).to_vec(), "week"),
    };
    let (levels, _) = codes(&c[group]);
    let (y, z) = (column(response), column(effect));
    let n = y.len();
    let row = |i: usize| std::iter::once(1.0).chain(fixed.iter().map(|f| f[i])).collect();
    let data = Data {
        levels,
        effects: z.iter().map(|z| vec![1.0, *z]).collect(),
        fixed: (0..n).map(row).collect(),
        data: y.iter().map(|&y| Datum { y, trials: 1.0 }).collect(),
        offset: vec![0.0; n],
        weight: vec![1.0; n],
    };
    let likelihood: Arc<dyn Likelihood> = if name == "epil" { Arc::new(Poisson) } else { Arc::new(Logistic) };
    (data, likelihood)
}
