//! Data sets and random models of these tests.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use certus_likelihood::{Datum, Likelihood, Response};
use certus_mixed::crossed::{CrossedModel, Observation};
use certus_mixed::linear::{Design, Term};

use crate::linear::data::{codes, columns, numbers};

/// Rows in memory.
#[derive(Clone)]
pub(crate) struct Rows {
    pub(crate) design: Design,
    pub(crate) levels: Vec<Vec<u32>>,
    pub(crate) effects: Vec<Vec<f64>>,
    pub(crate) fixed: Vec<Vec<f64>>,
    pub(crate) data: Vec<Datum>,
    pub(crate) offset: Vec<f64>,
    pub(crate) weight: Vec<f64>,
}

impl Rows {
    pub(crate) fn model(&self, likelihood: Arc<dyn Likelihood>) -> CrossedModel {
        let row = |i: usize| Observation {
            levels: &self.levels[i],
            effects: &self.effects[i],
            fixed: &self.fixed[i],
            datum: self.data[i],
            offset: self.offset[i],
            weight: self.weight[i],
        };
        CrossedModel::new(&self.design, likelihood, (0..self.data.len()).map(row)).unwrap()
    }
}

pub(crate) fn likelihood(response: Response) -> Arc<dyn Likelihood> {
    response.likelihood(response.parameter().map(|_| 1.7)).unwrap()
}

/// `Mate ~ 0 + Cross + (1 | Female) + (1 | Male)`.
pub(crate) fn salamander() -> Rows {
    let c = columns(include_str!("../../data/salamander.csv"));
    let ((female, females), (male, males)) = (codes(&c["Female"]), codes(&c["Male"]));
    let (cross, crosses) = codes(&c["Cross"]);
    let n = cross.len();
    let one = |i: usize| (0..crosses).map(|k| f64::from(u8::from(k == cross[i] as usize))).collect();
    Rows {
        design: Design {
            levels: vec![females, males],
            terms: vec![Term { factor: 0, effects: 1 }, Term { factor: 1, effects: 1 }],
            fixed: crosses,
        },
        levels: (0..n).map(|i| vec![female[i], male[i]]).collect(),
        effects: vec![vec![1.0, 1.0]; n],
        fixed: (0..n).map(one).collect(),
        data: numbers(&c["Mate"]).iter().map(|&y| Datum { y, trials: 1.0 }).collect(),
        offset: vec![0.0; n],
        weight: vec![1.0; n],
    }
}

/// `r2 ~ Anger + Gender + btype + situ + (1 | id) + (1 | item)`.
pub(crate) fn verbagg() -> Rows {
    let people = columns(include_str!("../../data/verbagg.csv"));
    let items = columns(include_str!("../../data/verbagg_items.csv"));
    let (anger, count) = (numbers(&people["Anger"]), items["item"].len());
    let design = Design {
        levels: vec![anger.len(), count],
        terms: vec![Term { factor: 0, effects: 1 }, Term { factor: 1, effects: 1 }],
        fixed: 6,
    };
    let mut rows = Rows {
        design,
        levels: Vec::new(),
        effects: Vec::new(),
        fixed: Vec::new(),
        data: Vec::new(),
        offset: Vec::new(),
        weight: Vec::new(),
    };
    let is = |yes: bool| f64::from(u8::from(yes));
    for (person, answers) in people["responses"].iter().enumerate() {
        for (item, answer) in answers.chars().enumerate() {
            let (kind, other) = (&items["btype"][item], &items["situ"][item]);
            rows.levels.push(vec![person as u32, item as u32]);
            rows.effects.push(vec![1.0, 1.0]);
            rows.fixed.push(vec![
                1.0,
                anger[person],
                is(people["Gender"][person] == "M"),
                is(kind == "scold"),
                is(kind == "shout"),
                is(other == "self"),
            ]);
            rows.data.push(Datum { y: is(answer == '1'), trials: 1.0 });
            rows.offset.push(0.0);
            rows.weight.push(1.0);
        }
    }
    rows
}

/// Numbers in (−1, 1) without a pattern.
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// A random model: levels of factors, (factor, effects) of terms. With `nested`, the first factor's levels lie within
/// those of the second.
pub(crate) fn random(
    response: Response,
    levels: &[usize],
    terms: &[(usize, usize)],
    n: usize,
    nested: bool,
    noise: &mut Noise,
) -> Rows {
    let effects: usize = terms.iter().map(|t| t.1).sum();
    let mut rows = Rows {
        design: Design {
            levels: levels.to_vec(),
            terms: terms.iter().map(|&(factor, effects)| Term { factor, effects }).collect(),
            fixed: 2,
        },
        levels: Vec::new(),
        effects: Vec::new(),
        fixed: Vec::new(),
        data: Vec::new(),
        offset: Vec::new(),
        weight: Vec::new(),
    };
    for _ in 0..n {
        let mut own: Vec<u32> =
            levels.iter().map(|&l| ((noise.next() + 1.0) * 0.5 * l as f64) as u32).collect();
        if nested {
            own[1] = own[0] * levels[1] as u32 / levels[0] as u32;
        }
        let mut z = Vec::new();
        for &(_, k) in terms {
            z.extend((0..k).map(|e| if e == 0 { 1.0 } else { noise.next() }));
        }
        let x = noise.next();
        let shift: f64 =
            own.iter().enumerate().map(|(f, &l)| (7.0 * f64::from(l) + f as f64).sin()).sum::<f64>();
        let eta = 0.3 + 0.8 * x + 0.8 * shift;
        let uniform = 0.5 * (noise.next() + 1.0);
        let mean = 1.0 / (1.0 + (-eta).exp());
        let (y, trials) = match response {
            Response::Logistic | Response::Probit => (f64::from(u8::from(uniform < mean)), 1.0),
            Response::Binomial => ((5.0 * mean + 2.0 * uniform - 1.0).round().clamp(0.0, 5.0), 5.0),
            Response::Linear => (eta + noise.next(), 1.0),
            _ => ((eta.exp() * 2.0 * uniform).round(), 1.0),
        };
        rows.levels.push(own);
        rows.effects.push(z);
        rows.fixed.push(vec![1.0, x]);
        rows.data.push(Datum { y, trials });
        rows.offset.push(0.1 * noise.next());
        rows.weight.push(if noise.next() > 0.5 { 2.0 } else { 1.0 });
    }
    assert_eq!(effects, rows.effects[0].len());
    rows
}
