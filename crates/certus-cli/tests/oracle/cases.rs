//! Random small problems, as arguments of the binary and as the model they ask for, written out.

use std::f64::consts::PI;

use super::losses::{Response, Row};

/// Splitmix64: the oracle has its own dice.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (2.0 * PI * self.uniform()).cos()
    }

    fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.next() % of.len() as u64) as usize]
    }
}

/// A problem.
#[derive(Clone, Debug)]
pub struct Case {
    pub response: Response,
    pub rows: Vec<Row>,
    pub features: usize,
    pub intercept: bool,
    pub standardise: bool,
    pub diagonal: bool,
    pub prior_sd: f64,
    pub intercept_prior_sd: f64,
    /// The sd of group intercepts, if there are groups.
    pub group_sd: Option<f64>,
    pub groups: usize,
    pub seed: u64,
}

/// The model a case asks for over latents z (coefficients of centred and scaled features, then deviations of groups),
/// and what is reported of them.
pub struct Model {
    pub response: Response,
    pub rows: Vec<Row>,
    pub design: Vec<Vec<f64>>,
    pub prior_mean: Vec<f64>,
    pub precision: Vec<Vec<f64>>,
    /// Names as fit.json has them, with weights of the latents.
    pub quantities: Vec<(String, Vec<f64>)>,
}

impl Case {
    /// The same index, the same case. Every fourth has rows of weight 0 far from the others, which only move the
    /// centres of the features.
    pub fn random(index: u64) -> Self {
        let mut dice = Dice::new(index);
        let kind = index % 7;
        let response = match kind {
            0 | 6 => Response::Linear { sigma: dice.one_of(&[0.3, 1.0, 2.0]) },
            1 => Response::Logistic,
            2 => Response::Binomial,
            3 => Response::Probit,
            4 => Response::Poisson,
            _ => Response::NegativeBinomial { k: dice.one_of(&[0.5, 2.0, 10.0]) },
        };
        let grouped = kind == 6;
        let linear = matches!(response, Response::Linear { .. });
        let bounded = linear || matches!(response, Response::Logistic | Response::Binomial);
        let far = index.is_multiple_of(4);
        let (mut features, mut intercept) =
            if dice.chance(0.7) { (1, true) } else { (dice.one_of(&[1, 2]), false) };
        let mut standardise = dice.chance(0.7);
        let mut prior_sd: f64 = dice.one_of(&[0.3, 1.0, 2.5, 10.0]);
        let mut intercept_prior_sd = dice.one_of(&[0.5, 3.0, 10.0]);
        if bounded && dice.chance(0.25) {
            (features, intercept, prior_sd, intercept_prior_sd) = (2, true, prior_sd.min(1.0), 1.0);
        }
        if far || grouped {
            (features, intercept, standardise) = (features.min(1), true, true);
            prior_sd = if linear { prior_sd } else { 10.0 };
            intercept_prior_sd = 3.0;
        }
        let n = 3 + (dice.next() % 5) as usize + if grouped { 4 } else { 0 };
        let groups = if grouped { 3 } else { 0 };
        let weighted = dice.chance(0.5) && !(linear && standardise);
        let offsets = dice.chance(0.3);
        let (scale, shift) = if standardise {
            (10f64.powf(2.0 * dice.uniform() - 1.0), 10.0 * dice.normal())
        } else {
            (0.3 + 2.0 * dice.uniform(), dice.normal())
        };
        let mut rows: Vec<Row> = (0..n)
            .map(|i| {
                let steps: Vec<f64> = (0..features).map(|_| dice.normal()).collect();
                let weight = if weighted { dice.one_of(&[0.0, 0.5, 1.0, 1.0, 2.5]) } else { 1.0 };
                let offset = if offsets { 0.5 * dice.normal() } else { 0.0 };
                let t = offset + 0.3 + 0.8 * steps[0];
                let trials =
                    if response == Response::Binomial { 1.0 + (dice.next() % 6) as f64 } else { 1.0 };
                let up = |dice: &mut Dice| f64::from(u8::from(dice.chance(1.0 / (1.0 + (-t).exp()))));
                let y = match response {
                    Response::Linear { sigma } => t + sigma * dice.normal(),
                    Response::Logistic | Response::Probit => up(&mut dice),
                    Response::Binomial => (0..trials as usize).map(|_| up(&mut dice)).sum(),
                    _ => (t + 0.5 * dice.normal()).exp().floor().min(20.0),
                };
                let x = steps.iter().map(|s| scale * (s + shift)).collect();
                Row { y, trials, x, weight, offset, group: i % groups.max(1) }
            })
            .collect();
        if far && !(linear && standardise) {
            // as in the refutation: all rows that count lie close together, others far away move the centre
            for row in &mut rows {
                row.x[0] = 0.02 * scale * dice.normal();
            }
            for k in 0..1 + n / 3 {
                rows[k].x[0] = -scale * (8.0 + dice.uniform());
                rows[k].weight = 0.0;
            }
        }
        if linear && standardise {
            // a response of mean 0 and sd 1, so that sds of the response are its own units
            let r: Vec<f64> = rows.iter().map(|row| row.y - row.offset).collect();
            let (mean, sd) = moments(&r);
            rows.iter_mut().for_each(|row| row.y = row.offset + (row.y - row.offset - mean) / sd);
        }
        let diagonal = !grouped && features + usize::from(intercept) > 1 && dice.chance(0.25);
        let group_sd = grouped.then(|| dice.one_of(&[0.3, 1.0, 3.0]));
        Self {
            response,
            rows,
            features,
            intercept,
            standardise,
            diagonal,
            prior_sd,
            intercept_prior_sd,
            group_sd,
            groups,
            seed: index,
        }
    }

    /// Columns y, n, w, o, g and x0, x1.
    pub fn csv(&self) -> String {
        let header: String = (0..self.features).map(|j| format!(",x{j}")).collect();
        let line = |row: &Row| {
            let x: String = row.x.iter().map(|x| format!(",{x}")).collect();
            format!("{},{},{},{},g{}{x}\n", row.y, row.trials, row.weight, row.offset, row.group)
        };
        format!("y,n,w,o,g{header}\n{}", self.rows.iter().map(line).collect::<String>())
    }

    /// `certus fit …`.
    pub fn arguments(&self, data: &str) -> Vec<String> {
        let features: Vec<String> = (0..self.features).map(|j| format!("x{j}")).collect();
        let mut out: Vec<String> =
            ["fit", self.response.name(), data, "--response", "y", "--weights", "w", "--offset", "o"]
                .map(String::from)
                .to_vec();
        let mut flag = |name: &str, value: String| out.extend([format!("--{name}"), value]);
        flag("features", features.join(","));
        flag("prior-sd", self.prior_sd.to_string());
        flag("intercept-prior-sd", self.intercept_prior_sd.to_string());
        flag("seed", self.seed.to_string());
        match self.response {
            Response::Linear { sigma } => flag("sigma", sigma.to_string()),
            Response::Binomial => flag("trials", "n".into()),
            Response::NegativeBinomial { k } => flag("dispersion", k.to_string()),
            _ => {}
        }
        if let Some(sd) = self.group_sd {
            flag("group", "g".into());
            flag("group-sd", sd.to_string());
        }
        if self.diagonal {
            flag("factor", "diagonal".into());
        }
        out.extend((!self.intercept).then(|| "--no-intercept".into()));
        out.extend((!self.standardise).then(|| "--no-standardise".into()));
        out.push("--json".into());
        out
    }

    /// The model over z: z_j = s_j β_j, z₀ = β₀ + Σ c_j β_j with the means c_j and sds s_j of the features (all rows,
    /// whatever their weights); features are centred if there is an intercept to take it up.
    pub fn model(&self) -> Model {
        let (first, p) = (usize::from(self.intercept), self.features);
        let d = first + p + self.groups;
        let column = |j: usize| self.rows.iter().map(|row| row.x[j]).collect::<Vec<f64>>();
        let (mut center, mut scale) = (vec![0.0; p], vec![1.0; p]);
        for j in (0..p).filter(|_| self.standardise) {
            let (mean, sd) = moments(&column(j));
            (center[j], scale[j]) = (if self.intercept { mean } else { 0.0 }, sd);
        }
        let unit = |i: usize| (0..d).map(|j| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
        let design = self.rows.iter().map(|row| {
            let mut a = vec![0.0; d];
            (0..first).for_each(|i| a[i] = 1.0);
            (0..p).for_each(|j| a[first + j] = (row.x[j] - center[j]) / scale[j]);
            if self.groups > 0 {
                a[first + p + row.group] = 1.0;
            }
            a
        });
        let design = design.collect();
        let sd = |i: usize| match i {
            i if i < first => self.intercept_prior_sd,
            i if i < first + p => self.prior_sd,
            _ => self.group_sd.unwrap_or(1.0),
        };
        let precision = (0..d).map(|i| unit(i).iter().map(|x| x / (sd(i) * sd(i))).collect()).collect();
        let mut quantities = Vec::new();
        let mut own = vec![0.0; d];
        if self.intercept {
            own[0] = 1.0;
            (0..p).for_each(|j| own[1 + j] = -center[j] / scale[j]);
            quantities.push(("(Intercept)".to_string(), own.clone()));
        }
        for j in 0..p {
            quantities.push((format!("x{j}"), unit(first + j).iter().map(|x| x / scale[j]).collect()));
        }
        for g in 0..self.groups {
            let mut total = own.clone();
            total[first + p + g] = 1.0;
            quantities.push((format!("(Intercept)[g=g{g}]"), total));
            quantities.push((format!("(Intercept)[g=g{g}] - (Intercept)"), unit(first + p + g)));
        }
        Model {
            response: self.response,
            rows: self.rows.clone(),
            design,
            prior_mean: vec![0.0; d],
            precision,
            quantities,
        }
    }
}

impl Model {
    /// The same over β itself: z = Tβ, with β the first quantities, of which there are as many as latents.
    pub fn on_user_scale(&self) -> Self {
        let d = self.prior_mean.len();
        let back: Vec<Vec<f64>> = self.quantities.iter().map(|(_, q)| q.clone()).collect();
        // rows of T = B⁻¹, B the combinations: column k of it solves B x = e_k, by elimination on BᵀB
        let gram: Vec<Vec<f64>> =
            (0..d).map(|i| (0..d).map(|j| (0..d).map(|k| back[k][i] * back[k][j]).sum()).collect()).collect();
        let columns: Vec<Vec<f64>> = (0..d).map(|k| super::truth::solve(&gram, &back[k]).0).collect();
        let t = |i: usize, j: usize| columns[j][i];
        let turned = |a: &Vec<f64>| (0..d).map(|j| (0..d).map(|i| a[i] * t(i, j)).sum()).collect();
        let precision = (0..d)
            .map(|i| (0..d).map(|j| (0..d).map(|k| t(k, i) * self.precision[k][k] * t(k, j)).sum()).collect())
            .collect();
        let unit = |i: usize| (0..d).map(|j| f64::from(u8::from(i == j))).collect();
        Self {
            response: self.response,
            rows: self.rows.clone(),
            design: self.design.iter().map(turned).collect(),
            prior_mean: vec![0.0; d],
            precision,
            quantities: self
                .quantities
                .iter()
                .enumerate()
                .map(|(k, (name, _))| (name.clone(), unit(k)))
                .collect(),
        }
    }

    /// Constants of the prior and of the rows.
    pub fn constant(&self) -> f64 {
        let log_det = super::truth::solve(&self.precision, &self.prior_mean).1;
        let prior = 0.5 * self.prior_mean.len() as f64 * (2.0 * PI).ln() - 0.5 * log_det;
        prior + self.rows.iter().map(|row| row.weight * self.response.constant(row)).sum::<f64>()
    }
}

/// Mean and sd over all numbers.
fn moments(x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    (mean, (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt())
}
