//! Benchmark problems and simulated data for the tests.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use certus::Target;
use certus::factor::{Factor, Lower};
use certus::random::{Purpose, Random};
use certus_likelihood::{Likelihood, Linear, Logistic};
use certus_models::error::InvalidData;
use certus_models::rows::{LEAF, Leaf, Rows};
use certus_models::{Design, Error, Glm, Memory, Prior, laplace};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A stream of random numbers for building cases.
pub struct Dice(Random, u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed, Purpose::Simulate, 0), 0)
    }
    pub fn normals(&mut self, n: usize) -> Vec<f64> {
        let mut out = vec![0.0; n];
        self.0.normals(self.1, 0, n.max(1), &mut out);
        self.1 += 1;
        out
    }
    pub fn normal(&mut self) -> f64 {
        self.normals(1)[0]
    }
    /// Uniform on [0, 1]: the angle of a normal point in the plane.
    pub fn uniform(&mut self) -> f64 {
        let x = self.normals(2);
        0.5 + x[0].atan2(x[1]) / std::f64::consts::TAU
    }
    /// A Poisson count, by inversion; at most `most`.
    pub fn count(&mut self, rate: f64, most: f64) -> f64 {
        let (mut k, mut left, mut mass) = (0.0, self.uniform(), (-rate).exp());
        while left > mass && k < most {
            left -= mass;
            k += 1.0;
            mass *= rate / k;
        }
        k
    }
}

/// A table read from CSV: column names and rows.
pub fn read(path: &Path) -> (Vec<String>, Vec<Vec<f64>>) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut lines = text.lines();
    let names = lines.next().unwrap().split(',').map(str::to_string).collect();
    (names, lines.map(|l| l.split(',').map(|x| x.parse().unwrap()).collect()).collect())
}

pub fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data")
}

/// One number of references.json, found by text: `"name": {… "key": 1.5 …}`.
pub fn reference(dir: &Path, name: &str, key: &str) -> f64 {
    let text = std::fs::read_to_string(dir.join("references.json")).unwrap();
    let from = text.find(&format!("\"{name}\"")).unwrap();
    let at = from + text[from..].find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
    text[at..].trim_start().split([',', '\n', '}']).next().unwrap().trim().parse().unwrap()
}

/// A benchmark problem: the model and its reference optimum.
pub struct Problem {
    pub model: Glm,
    pub neg_elbo: f64,
    pub optimum: certus::Gaussian,
}

pub fn problem(dir: &Path, name: &str) -> Problem {
    let (names, rows) = read(&dir.join(format!("{name}.csv")));
    let y_at = names.iter().position(|n| n == "y").unwrap();
    let xs: Vec<usize> = (0..names.len()).filter(|&j| names[j].starts_with('x')).collect();
    let y: Vec<f64> = rows.iter().map(|r| r[y_at]).collect();
    let linear = name.starts_with("lin");
    let likelihood: Arc<dyn Likelihood> =
        if linear { Arc::new(Linear::new(1.0).unwrap()) } else { Arc::new(Logistic) };
    let (x, columns, prior) = if name == "hier_logit" {
        let group_at = names.iter().position(|n| n == "group").unwrap();
        let (p, groups) = (xs.len(), 20);
        let d = p * (groups + 1);
        let mut x = vec![0.0; rows.len() * d];
        for (i, row) in rows.iter().enumerate() {
            for (k, &j) in xs.iter().enumerate() {
                x[i * d + p * (row[group_at] as usize + 1) + k] = row[j];
            }
        }
        let mut j = vec![0.0; d * d];
        for a in 0..p {
            j[a * d + a] = 1.0 + groups as f64;
            for g in 1..=groups {
                let b = g * p + a;
                j[b * d + b] = 1.0;
                j[a * d + b] = -1.0;
                j[b * d + a] = -1.0;
            }
        }
        (x, d, Prior::with_precision(vec![0.0; d], j).unwrap())
    } else {
        let x = rows.iter().flat_map(|r| xs.iter().map(|&j| r[j]).collect::<Vec<_>>()).collect();
        (x, xs.len(), Prior::independent(vec![0.0; xs.len()], &vec![1.0; xs.len()]).unwrap())
    };
    let memory = Memory { x, y, columns, ..Memory::default() };
    let model = Glm::new(Design::new(Arc::new(memory), false), likelihood, prior).unwrap();
    let (names, rows) = read(&dir.join(format!("{name}.reference.csv")));
    let d = rows.len();
    let mean_at = names.iter().position(|n| n == "mean").unwrap();
    let mut factor = vec![0.0; d * d];
    for j in 0..d {
        let at = names.iter().position(|n| *n == format!("c{j}")).unwrap();
        for i in 0..d {
            factor[j * d + i] = rows[i][at];
        }
    }
    let mean = rows.iter().map(|r| r[mean_at]).collect();
    let optimum = certus::Gaussian::new(mean, Factor::Lower(Lower::new(d, factor).unwrap())).unwrap();
    Problem { model, neg_elbo: reference(dir, name, "neg_elbo"), optimum }
}

/// Every likelihood with data it accepts, for the linear predictor `t`.
pub fn simulate(name: &str, t: f64, dice: &mut Dice) -> (f64, f64) {
    let bernoulli = |p: f64, dice: &mut Dice| f64::from(u8::from(dice.uniform() < p));
    let sigmoid = |t: f64| 1.0 / (1.0 + (-t).exp());
    let poisson = |rate: f64, dice: &mut Dice| {
        let (mut left, mut count) = (rate, 0.0);
        loop {
            left += dice.uniform().max(1e-300).ln();
            if left < 0.0 || count > 500.0 {
                return count;
            }
            count += 1.0;
        }
    };
    match name {
        "linear" => (t + 0.7 * dice.normal(), 1.0),
        "logistic" => (bernoulli(sigmoid(t), dice), 1.0),
        "probit" => (f64::from(u8::from(t + dice.normal() > 0.0)), 1.0),
        "binomial" => {
            let trials = (1.0 + 8.0 * dice.uniform()).floor();
            ((0..trials as usize).map(|_| bernoulli(sigmoid(t), dice)).sum(), trials)
        }
        "poisson" => (poisson(t.min(4.0).exp(), dice), 1.0),
        // a Poisson with a gamma rate would be exact; any counts will do
        "negative-binomial" => (poisson((t + 0.5 * dice.normal()).min(4.0).exp(), dice), 1.0),
        _ => unreachable!(),
    }
}

pub const LIKELIHOODS: [&str; 6] =
    ["linear", "logistic", "probit", "binomial", "poisson", "negative-binomial"];

pub fn likelihood(name: &str) -> Arc<dyn Likelihood> {
    use certus_likelihood::{Binomial, NegativeBinomial, Poisson, Probit};
    match name {
        "linear" => Arc::new(Linear::new(0.7).unwrap()),
        "logistic" => Arc::new(Logistic),
        "probit" => Arc::new(Probit),
        "binomial" => Arc::new(Binomial),
        "poisson" => Arc::new(Poisson),
        "negative-binomial" => Arc::new(NegativeBinomial::new(2.5).unwrap()),
        _ => unreachable!(),
    }
}

/// Simulated rows with offsets and weights; coefficients of size about `effect`.
pub fn simulated_rows(name: &str, n: usize, p: usize, effect: f64, dice: &mut Dice) -> Memory {
    let beta: Vec<f64> = dice.normals(p).iter().map(|b| effect * b).collect();
    let mut memory = Memory { columns: p, ..Memory::default() };
    for _ in 0..n {
        let x = dice.normals(p);
        let offset = 0.2 * dice.normal();
        let t = offset + x.iter().zip(&beta).map(|(a, b)| a * b).sum::<f64>();
        let (y, trials) = simulate(name, t, dice);
        memory.x.extend(x);
        memory.y.push(y);
        memory.trials.push(trials);
        memory.offset.push(offset);
        memory.weight.push(0.5 + dice.uniform());
    }
    memory
}

pub fn simulated(name: &str, n: usize, p: usize, effect: f64, prior_sd: f64, dice: &mut Dice) -> Glm {
    let rows = Arc::new(simulated_rows(name, n, p, effect, dice));
    let prior = Prior::independent(dice.normals(p + 1), &vec![prior_sd; p + 1]).unwrap();
    Glm::new(Design::new(rows, true), likelihood(name), prior).unwrap()
}

/// Leaves written to a file and read back one by one.
pub struct Disk {
    file: Mutex<std::fs::File>,
    rows: usize,
    columns: usize,
}

impl Disk {
    pub fn new(memory: &Memory, path: &std::path::Path) -> Self {
        let mut file =
            std::fs::File::options().create(true).truncate(true).read(true).write(true).open(path).unwrap();
        for i in 0..memory.y.len() {
            let row = &memory.x[i * memory.columns..][..memory.columns];
            for v in row.iter().chain([&memory.y[i], &memory.trials[i], &memory.offset[i], &memory.weight[i]])
            {
                file.write_all(&v.to_le_bytes()).unwrap();
            }
        }
        Self { file: Mutex::new(file), rows: memory.y.len(), columns: memory.columns }
    }
}

impl Rows for Disk {
    fn len(&self) -> usize {
        self.rows
    }
    fn columns(&self) -> usize {
        self.columns
    }
    fn leaf(&self, index: usize, visit: &mut dyn FnMut(Leaf<'_>)) -> Result<(), Error> {
        let (first, width) = (index * LEAF, self.columns + 4);
        let n = LEAF.min(self.rows - first);
        let mut bytes = vec![0; n * width * 8];
        {
            let mut file = self.file.lock().unwrap();
            file.seek(SeekFrom::Start((first * width * 8) as u64)).unwrap();
            file.read_exact(&mut bytes)
                .map_err(|error| InvalidData::LeafUnreadable { leaf: index, error })?;
        }
        let number = |k: usize| f64::from_le_bytes(bytes[k * 8..][..8].try_into().unwrap());
        let column = |j: usize| (0..n).map(|i| number(i * width + j)).collect::<Vec<_>>();
        let x: Vec<f64> =
            (0..n).flat_map(|i| (0..self.columns).map(move |j| i * width + j)).map(number).collect();
        let [y, trials, offset, weight] = [0, 1, 2, 3].map(|k| column(self.columns + k));
        let x = certus_models::rows::Block::new(&x, n, self.columns, self.columns, false)?;
        visit(Leaf { first, x, y: &y, trials: &trials, offset: &offset, weight: &weight });
        Ok(())
    }
}

/// log p at every point.
pub fn densities(model: &Glm, points: &[f64]) -> Vec<f64> {
    let d = model.dim();
    let (mut values, mut gradients) = (vec![0.0; points.len() / d], vec![0.0; points.len()]);
    for ((z, v), g) in points.chunks(256 * d).zip(values.chunks_mut(256)).zip(gradients.chunks_mut(256 * d)) {
        model.log_density(z, v, g).unwrap();
    }
    values
}

/// log p(x), posterior means and sds.
pub type Truth = (f64, Vec<f64>, Vec<f64>);

/// log p(x), means and sds by the trapezoid rule on ±12 sd of the Laplace approximation (±9 for d = 3, the most).
pub fn quadrature(model: &Glm) -> Truth {
    let w = laplace(model).unwrap().gaussian;
    let d = w.dim();
    let (side, h): (usize, f64) = [(4801, 5e-3), (241, 0.1), (61, 0.3)][d - 1];
    let axis = |i: usize| (i as f64 - (side / 2) as f64) * h;
    let digits = |k: usize| (0..d as u32).rev().map(move |i| k / side.pow(i) % side);
    let u: Vec<f64> = (0..side.pow(d as u32)).flat_map(digits).map(axis).collect();
    let mut z = vec![0.0; u.len()];
    w.transform(&u, &mut z);
    let values = densities(model, &z);
    let top = values.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
    let (mut total, mut first, mut second) = (0.0, vec![0.0; d], vec![0.0; d]);
    for (z, v) in z.chunks_exact(d).zip(&values) {
        let p = (v - top).exp();
        total += p;
        for i in 0..d {
            let x = z[i] - w.mean()[i];
            first[i] += p * x;
            second[i] += p * x * x;
        }
    }
    let evidence = top + total.ln() + d as f64 * h.ln() + w.factor().log_det();
    let shift: Vec<f64> = first.iter().map(|x| x / total).collect();
    let sds = second.iter().zip(&shift).map(|(s, m)| (s / total - m * m).sqrt()).collect();
    (evidence, shift.iter().zip(w.mean()).map(|(s, m)| s + m).collect(), sds)
}
