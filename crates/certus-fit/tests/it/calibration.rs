//! Simulation-based calibration: parameters from the prior, data from the parameters, and where the true value lies
//! among the numbers that are printed. If they are the posterior's, its place is uniform on (0, 1).
//!
//! The place is Φ((truth − mean)/sd) for linear models with a given sigma, whose posterior is normal, and the part of
//! the fit's draws below the truth for all others. A Kolmogorov-Smirnov test at level 0.001 compares places with the
//! uniform law. `scripts/check calibration` has 500 data sets of each model (bench/results).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::time::Instant;

use certus_data::{Column, Features, GroupSpec, Slopes, Spec, Storage, Table};
use certus_fit::{Problem, Request, ScaleRequest};
use certus_likelihood::Response;
use libm::erfc;

use crate::scale_posterior::{Dice, tried};

/// Draws of a fit that are compared with the truth.
const DRAWS: usize = 2000;
/// KS statistics times √n above this have probability 0.001 (Kolmogorov's law, for n → ∞).
const LIMIT: f64 = 1.949;

/// A model whose parameters and data are simulated. Intercept and slope are N(0, `sd`²), every scale that is not given
/// is half normal with scale `scale`.
#[derive(Clone, Copy)]
struct Model {
    name: &'static str,
    response: Response,
    rows: usize,
    sd: f64,
    /// Groups with effects of an unknown sd.
    groups: Option<usize>,
    /// The noise of a linear model: given, or unknown (`None`).
    sigma: Option<f64>,
    scale: f64,
    source: &'static str,
    /// What is asked for: more draws than that needs take minutes per fit for probit, whose loss is slow.
    accuracy: Option<f64>,
}

const TRIALS: f64 = 6.0;
const DISPERSION: f64 = 3.0;

const MODELS: [Model; 10] = [
    Model::new("linear, sigma given", Response::Linear, "auto"),
    Model::new("logistic", Response::Logistic, "corrected"),
    Model { accuracy: Some(0.3), ..Model::new("probit", Response::Probit, "corrected") },
    Model::new("binomial", Response::Binomial, "corrected"),
    Model { sd: 0.7, ..Model::new("poisson", Response::Poisson, "corrected") },
    Model { sd: 0.7, ..Model::new("negative-binomial", Response::NegativeBinomial, "corrected") },
    Model { sigma: None, ..Model::new("linear, sigma unknown", Response::Linear, "auto") },
    Model { sigma: None, groups: Some(8), ..Model::new("linear, (1 | g)", Response::Linear, "auto") },
    Model { groups: Some(8), ..Model::new("logistic, (1 | g)", Response::Logistic, "auto") },
    Model {
        groups: Some(8),
        sd: 0.7,
        scale: 0.5,
        ..Model::new("poisson, (1 | g)", Response::Poisson, "auto")
    },
];

impl Model {
    const fn new(name: &'static str, response: Response, source: &'static str) -> Self {
        Self {
            name,
            response,
            rows: 40,
            sd: 1.0,
            groups: None,
            sigma: Some(0.8),
            scale: 1.0,
            source,
            accuracy: None,
        }
    }

    fn is_exact(&self) -> bool {
        self.response == Response::Linear && self.sigma.is_some() && self.groups.is_none()
    }

    /// Data, and the parameters they were made from, by the names of the fit. With `wide`, parameters come from a prior
    /// that is so many times wider than the one the fit is told.
    fn simulated(&self, dice: &mut Dice, wide: f64) -> (Table, BTreeMap<String, f64>) {
        let mut truth = BTreeMap::new();
        let beta = [0, 1].map(|_| wide * self.sd * dice.normal());
        truth.extend([("(Intercept)".to_string(), beta[0]), ("x".to_string(), beta[1])]);
        let sigma = self.sigma.unwrap_or_else(|| self.scale * dice.normal().abs());
        if self.response == Response::Linear && self.sigma.is_none() {
            truth.insert("sigma".into(), sigma);
        }
        let effects: Vec<f64> = match self.groups {
            Some(groups) => {
                let sd = self.scale * dice.normal().abs();
                truth.insert("sd(g)".into(), sd);
                (0..groups).map(|_| sd * dice.normal()).collect()
            }
            None => vec![0.0],
        };
        let mut columns = [(); 3].map(|()| Vec::new());
        for i in 0..self.rows {
            let x = dice.normal();
            let t = beta[0] + beta[1] * x + effects[i % effects.len()];
            let y = self.respond(t, sigma, dice);
            columns.iter_mut().zip([y, x, (i % effects.len()) as f64]).for_each(|(column, v)| column.push(v));
        }
        let [y, x, g] = columns.map(Column::Number);
        let trials = Column::Number(vec![TRIALS; self.rows]);
        let named =
            [("y", y), ("x", x), ("g", g), ("n", trials)].map(|(name, column)| (name.to_string(), column));
        (Table::new(named.into()).unwrap(), truth)
    }

    fn respond(&self, t: f64, sigma: f64, dice: &mut Dice) -> f64 {
        let logit = 1.0 / (1.0 + (-t).exp());
        let mut success = |p: f64| f64::from(u8::from(dice.uniform() < p));
        match self.response {
            Response::Linear => t + sigma * dice.normal(),
            Response::Logistic => success(logit),
            Response::Probit => success(normal(t)),
            Response::Binomial => (0..TRIALS as usize).map(|_| success(logit)).sum(),
            Response::Poisson => poisson(t.exp(), dice),
            // Poisson with a mean that is gamma with a whole shape: a sum of exponentials
            Response::NegativeBinomial => {
                let gamma = (0..DISPERSION as usize).map(|_| -dice.uniform().ln()).sum::<f64>();
                poisson(t.exp() * gamma / DISPERSION, dice)
            }
        }
    }

    fn problem(&self, table: &Table) -> Problem {
        let mut spec = Spec::new("y", self.response);
        spec.features = Features::Terms(vec!["x".into()]);
        spec.standardise = false;
        spec.trials = (self.response == Response::Binomial).then(|| "n".into());
        let term = || GroupSpec {
            factor: vec!["g".into()],
            slopes: Slopes::Terms(Vec::new()),
            correlated: true,
            sd: None,
        };
        spec.groups = self.groups.iter().map(|_| term()).collect();
        let unknown = self.groups.is_some() || (self.response == Response::Linear && self.sigma.is_none());
        let mut request = Request::new(spec);
        (request.prior_sd, request.intercept_prior_sd) = (self.sd, self.sd);
        request.sigma = self.sigma.filter(|_| self.response == Response::Linear);
        request.dispersion = (self.response == Response::NegativeBinomial).then_some(DISPERSION);
        if unknown {
            request.scale = ScaleRequest::new(Some("half-normal"), Some(self.scale), None).unwrap();
        }
        Problem::new(table, &request, &Storage::default()).unwrap()
    }

    /// Places of the truth in `sets` fits, by parameter; how many fits printed numbers of each source, and how many
    /// ended without one.
    fn places(&self, sets: u64, wide: f64) -> Found {
        let mut found = Found::default();
        for set in 0..sets {
            let mut dice = Dice::new(0x5bc0_0000 + set);
            let (table, truth) = self.simulated(&mut dice, wide);
            let fit = tried(&self.problem(&table), self.source, self.accuracy, set)
                .unwrap_or_else(|error| panic!("{}, data set {set}: {error}\n{truth:?}", self.name));
            let printed = &fit.record.parameters;
            let source = fit.record.table.as_ref().map_or("gaussian", |table| table.source.as_str());
            *found.sources.entry(source.into()).or_default() += 1;
            let names: Vec<&str> = printed.iter().map(|p| p.name.as_str()).collect();
            assert!(truth.keys().all(|name| names.contains(&name.as_str())), "{names:?}, {truth:?}");
            let draws = if self.is_exact() { Vec::new() } else { fit.draws(DRAWS, set) };
            for (k, parameter) in printed.iter().enumerate() {
                let Some(truth) = truth.get(&parameter.name) else { continue };
                let place = if self.is_exact() {
                    normal((truth - parameter.mean.unwrap()) / parameter.sd.unwrap())
                } else {
                    let below = draws.iter().skip(k).step_by(printed.len()).filter(|x| *x < truth).count();
                    below as f64 / DRAWS as f64
                };
                found.places.entry(parameter.name.clone()).or_default().push(place);
            }
        }
        found
    }
}

#[derive(Default)]
struct Found {
    places: BTreeMap<String, Vec<f64>>,
    sources: BTreeMap<String, usize>,
}

fn normal(x: f64) -> f64 {
    0.5 * erfc(-x / std::f64::consts::SQRT_2)
}

/// By products of uniform numbers, in parts of at most 30.
fn poisson(mean: f64, dice: &mut Dice) -> f64 {
    let (mut left, mut count) = (mean, 0.0);
    while left > 0.0 {
        let part = left.min(30.0);
        let mut product = dice.uniform();
        while product > (-part).exp() {
            count += 1.0;
            product *= dice.uniform();
        }
        left -= part;
    }
    count
}

/// √n times the largest distance between the empirical law of the places and the uniform one.
fn kolmogorov(places: &[f64]) -> f64 {
    let mut sorted = places.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let apart = |(i, u): (usize, &f64)| (u - i as f64 / n).max((i + 1) as f64 / n - u);
    n.sqrt() * sorted.iter().enumerate().map(apart).fold(0.0, f64::max)
}

/// One line for every parameter; those beyond the limit.
fn report(model: &Model, sets: u64) -> Vec<String> {
    let clock = Instant::now();
    let found = model.places(sets, 1.0);
    let mut beyond = Vec::new();
    for (name, places) in &found.places {
        let statistic = kolmogorov(places);
        println!("| {} | {name} | {} | {statistic:.2} |", model.name, places.len());
        if statistic > LIMIT {
            beyond.push(format!("{}, {name}: {statistic:.2} with {} data sets", model.name, places.len()));
        }
    }
    println!("{}: printed {:?}, {:.0} s", model.name, found.sources, clock.elapsed().as_secs_f64());
    beyond
}

#[test]
#[ignore = "minutes: scripts/check calibration"]
fn places_of_the_truth_are_uniform() {
    let beyond: Vec<String> =
        MODELS.iter().flat_map(|model| report(model, if model.groups.is_some() { 8 } else { 40 })).collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
}

/// The test would see a posterior that is too narrow: here the parameters vary three times as much as the fit is told.
#[test]
#[ignore = "minutes: scripts/check calibration"]
fn a_wrong_prior_is_seen() {
    let model = Model { rows: 6, ..MODELS[1] };
    let found = model.places(100, 3.0);
    let most = found.places.values().map(|places| kolmogorov(places)).fold(0.0, f64::max);
    assert!(most > LIMIT, "{most}");
}

/// `scripts/check calibration`; SETS says how many data sets.
#[test]
#[ignore = "500 data sets of each model take an hour"]
fn full_places_of_the_truth_are_uniform() {
    let sets = std::env::var("SETS").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let only = std::env::var("MODEL").unwrap_or_default();
    println!(
        "| model | parameter | data sets | KS statistic times the root of their number, limit {LIMIT} |"
    );
    println!("|---|---|---|---|");
    let chosen = MODELS.iter().filter(|model| model.name.contains(&only));
    let beyond: Vec<String> = chosen.flat_map(|model| report(model, sets)).collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
}
