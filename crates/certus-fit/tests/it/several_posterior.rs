//! Posteriors of several group effects with a response that is not linear, against NUTS on the joint density of
//! coefficients, scales and every single effect, which is written down here.
#![allow(clippy::unwrap_used)]

use certus::factor::Lower;
use certus::{Factor, Gaussian, PointTarget, TargetError};
use certus_data::{Column, Features, GroupSpec, Slopes, Spec, Storage, Table};
use certus_fit::record::Source;
use certus_fit::{Problem, Request};
use certus_likelihood::Response;
use certus_models::nuts::{Chains, NutsSettings, nuts};

use crate::scale_posterior::{Dice, fitted};

/// Which effects vary: the intercept by two crossed groups, or intercept and slope by the first, correlated.
#[derive(Clone, Copy, PartialEq)]
enum Effects {
    Crossed,
    Correlated,
}

/// A row: its two levels, the feature, the response.
type Row = ([usize; 2], f64, f64);

struct Case {
    response: Response,
    effects: Effects,
    levels: [usize; 2],
    rows: Vec<Row>,
}

impl Case {
    /// Rows of a model with sds of 1 and 0.7; responses are random.
    fn simulated(response: Response, effects: Effects, levels: [usize; 2], n: usize, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let first: Vec<f64> = (0..levels[0]).map(|_| dice.normal()).collect();
        let second: Vec<f64> = (0..levels[0].max(levels[1])).map(|_| 0.7 * dice.normal()).collect();
        let mut rows = Vec::new();
        for i in 0..n {
            let (at, x) = ([i % levels[0], i / levels[0] % levels[1]], dice.normal());
            let more = match effects {
                Effects::Crossed => second[at[1]],
                Effects::Correlated => second[at[0]] * x,
            };
            let (t, luck) = (0.3 + 0.5 * x + first[at[0]] + more, dice.uniform());
            let y = match response {
                Response::Poisson => {
                    let (mean, mut below, mut y, mut p) = (t.exp(), 0.0, 0.0, (-t.exp()).exp());
                    while below + p < luck && y < 200.0 {
                        below += p;
                        y += 1.0;
                        p *= mean / y;
                    }
                    y
                }
                _ => f64::from(u8::from(luck < 1.0 / (1.0 + (-t).exp()))),
            };
            rows.push((at, x, y));
        }
        Self { response, effects, levels, rows }
    }

    fn problem(&self) -> Problem {
        let column = |of: &dyn Fn(&Row) -> f64| Column::Number(self.rows.iter().map(of).collect());
        let columns = vec![
            ("y".into(), column(&|r| r.2)),
            ("x".into(), column(&|r| r.1)),
            ("a".into(), column(&|r| r.0[0] as f64)),
            ("b".into(), column(&|r| r.0[1] as f64)),
        ];
        let mut spec = Spec::new("y", self.response);
        spec.features = Features::Terms(vec!["x".into()]);
        let group = |name: &str, slopes: Vec<String>| GroupSpec {
            factor: vec![name.into()],
            slopes: Slopes::Terms(slopes),
            correlated: true,
            sd: None,
        };
        spec.groups = match self.effects {
            Effects::Crossed => vec![group("a", Vec::new()), group("b", Vec::new())],
            Effects::Correlated => vec![group("a", vec!["x".into()])],
        };
        spec.standardise = false;
        Problem::new(&Table::new(columns).unwrap(), &Request::new(spec), &Storage::default()).unwrap()
    }

    /// Scales: two log sds, and the artanh of the correlation.
    fn scales(&self) -> usize {
        2 + usize::from(self.effects == Effects::Correlated)
    }

    /// Standardised effects of the second kind.
    fn others(&self) -> usize {
        match self.effects {
            Effects::Crossed => self.levels[1],
            Effects::Correlated => self.levels[0],
        }
    }

    fn chains(&self) -> Chains {
        let dim = self.dim();
        let mut factor = vec![0.0; dim * dim];
        factor.iter_mut().step_by(dim + 1).for_each(|x| *x = 0.5);
        let q = Gaussian::new(vec![0.0; dim], Factor::Lower(Lower::new(dim, factor).unwrap())).unwrap();
        nuts(self, &q, &NutsSettings { draws: 4000, seed: 5, ..NutsSettings::default() }).unwrap()
    }
}

/// z: intercept, slope, log sds, artanh of the correlation, standardised effects.
impl PointTarget for Case {
    fn dim(&self) -> usize {
        2 + self.scales() + self.levels[0] + self.others()
    }

    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        let (k, sds) = (2 + self.scales(), [z[2].exp(), z[3].exp()]);
        let (first, second) = (k, k + self.levels[0]);
        let r = if self.effects == Effects::Correlated { z[4].tanh() } else { 0.0 };
        let rest = (1.0 - r * r).sqrt();
        // N(0, 10²), N(0, 2.5²), half-normal(2.5) sds, LKJ(2): 1 − r², and 1 − r² = dr/dz
        let mut value = -0.5 * (z[0] / 10.0).powi(2) - 0.5 * (z[1] / 2.5).powi(2);
        gradient.fill(0.0);
        gradient[0] = -z[0] / 100.0;
        gradient[1] = -z[1] / 6.25;
        for j in 0..2 {
            value += z[2 + j] - 0.5 * (sds[j] / 2.5).powi(2);
            gradient[2 + j] = 1.0 - (sds[j] / 2.5).powi(2);
        }
        if self.effects == Effects::Correlated {
            value += 2.0 * (1.0 - r * r).ln();
            gradient[4] = -4.0 * r;
        }
        for j in k..z.len() {
            value -= 0.5 * z[j] * z[j];
            gradient[j] = -z[j];
        }
        for (at, x, y) in &self.rows {
            let u = z[first + at[0]];
            let (place, v, column) = match self.effects {
                Effects::Crossed => (second + at[1], z[second + at[1]], 1.0),
                Effects::Correlated => (second + at[0], z[second + at[0]], *x),
            };
            let own = r * u + rest * v;
            let t = z[0] + z[1] * x + sds[0] * u + sds[1] * own * column;
            let slope = match self.response {
                Response::Poisson => {
                    value += y * t - t.exp();
                    y - t.exp()
                }
                _ => {
                    value += y * t - if t > 0.0 { t + (-t).exp().ln_1p() } else { t.exp().ln_1p() };
                    y - 1.0 / (1.0 + (-t).exp())
                }
            };
            gradient[0] += slope;
            gradient[1] += slope * x;
            gradient[2] += slope * sds[0] * u;
            gradient[3] += slope * sds[1] * own * column;
            gradient[first + at[0]] += slope * (sds[0] + sds[1] * r * column);
            gradient[place] += slope * sds[1] * rest * column;
            if self.effects == Effects::Correlated {
                gradient[4] += slope * sds[1] * column * (1.0 - r * r) * (u - r / rest * v);
            }
        }
        Ok(value)
    }
}

/// A row of the table: its name, and its value at a point.
type NamedRow = (&'static str, Box<dyn Fn(&[f64]) -> f64>);

/// Every mean and sd, to the stated errors (2.6 standard errors; 4 are allowed, one in 16,000 fails) and four standard
/// errors of the chains; quantiles to 0.03 of the probability, four standard errors of 1,000 draws; effects to a
/// quarter of theirs, as 200 draws average.
fn agrees(case: &Case) {
    let chains = case.chains();
    let (fit, k) = (fitted(&case.problem(), "importance", 3), 2 + case.scales());
    let row = |j: usize| -> NamedRow {
        match j {
            0 => ("(Intercept)", Box::new(|z| z[0])),
            1 => ("x", Box::new(|z| z[1])),
            2 => ("sd(a)", Box::new(|z| z[2].exp())),
            3 if case.effects == Effects::Crossed => ("sd(b)", Box::new(|z| z[3].exp())),
            3 => ("sd(a: x)", Box::new(|z| z[3].exp())),
            _ => ("cor(a: (Intercept), x)", Box::new(|z| z[4].tanh())),
        }
    };
    for j in 0..k {
        let (name, of) = row(j);
        let truth = chains.diagnosed(&*of);
        assert!(truth.r_hat < 1.01, "{name}: {}", truth.r_hat);
        let own = fit.record.parameters.iter().find(|p| p.name == name).unwrap();
        assert_eq!(own.source, Some(Source::Importance), "{name}: {}", fit.record.message);
        let (mean, sd) = (own.mean.unwrap(), own.sd.unwrap());
        let off = 4.0 / 2.6 * own.mean_error.unwrap() * sd + 4.0 * truth.mean_se;
        assert!((mean - truth.mean).abs() < off, "{name}: {mean}, NUTS {} ± {}", truth.mean, truth.mean_se);
        let off = 4.0 / 2.6 * own.sd_error.unwrap() * sd + 4.0 * truth.sd_se;
        assert!((sd - truth.sd).abs() < off, "{name}: sd {sd}, NUTS {} ± {}", truth.sd, truth.sd_se);
        let values: Vec<f64> = chains.values.chunks_exact(chains.dim).map(&*of).collect();
        for (q, found) in [(0.05, own.q05.unwrap()), (0.95, own.q95.unwrap())] {
            let below = values.iter().filter(|x| **x < found).count() as f64 / values.len() as f64;
            assert!(
                (below - q).abs() < 0.03,
                "{name}: {below} of the draws of NUTS are below {found}, not {q}"
            );
        }
    }
    let effects = fit.mixture.as_ref().unwrap().0.effects.as_ref().unwrap();
    assert_eq!(effects.mean.len(), case.levels[0] + case.others());
    for (g, (mean, variance)) in effects.mean.iter().zip(&effects.variance).enumerate().take(case.levels[0]) {
        let (sd, truth) = (variance.sqrt(), chains.diagnosed(|z| z[2].exp() * z[k + g]));
        assert!((mean - truth.mean).abs() < 0.25 * truth.sd, "{g}: {mean}, NUTS {}", truth.mean);
        assert!((sd / truth.sd - 1.0).abs() < 0.2, "{g}: sd {sd}, NUTS {}", truth.sd);
    }
}

#[test]
fn crossed_intercepts_of_binary_responses() {
    agrees(&Case::simulated(Response::Logistic, Effects::Crossed, [15, 8], 240, 1));
}

#[test]
fn crossed_intercepts_of_counts() {
    agrees(&Case::simulated(Response::Poisson, Effects::Crossed, [12, 7], 168, 2));
}

#[test]
fn correlated_slopes_of_binary_responses() {
    agrees(&Case::simulated(Response::Logistic, Effects::Correlated, [20, 1], 240, 3));
}

#[test]
fn correlated_slopes_of_counts() {
    agrees(&Case::simulated(Response::Poisson, Effects::Correlated, [15, 1], 150, 4));
}
