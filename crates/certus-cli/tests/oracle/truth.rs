//! The posterior by brute force: its mode, a box around everything that matters, the trapezoid rule on it; and the best
//! Gaussian from the equations it satisfies. Dense algebra of a few dimensions, written here.

use std::f64::consts::PI;

use super::cases::Model;

/// What is true of a posterior.
#[derive(Clone, Debug)]
pub struct Truth {
    pub log_evidence: f64,
    /// Of every reported quantity.
    pub mean: Vec<f64>,
    pub sd: Vec<f64>,
}

impl Truth {
    /// Of one quantity.
    pub fn of(&self, k: usize) -> Self {
        Self { log_evidence: self.log_evidence, mean: vec![self.mean[k]], sd: vec![self.sd[k]] }
    }
}

/// x with A x = b, and log det A, by Gaussian elimination on a symmetric positive matrix.
pub fn solve(a: &[Vec<f64>], b: &[f64]) -> (Vec<f64>, f64) {
    let n = b.len();
    let (mut a, mut b, mut log_det) = (a.to_vec(), b.to_vec(), 0.0);
    for k in 0..n {
        assert!(a[k][k] > 0.0, "the matrix of the oracle is not positive");
        log_det += a[k][k].ln();
        for i in k + 1..n {
            let f = a[i][k] / a[k][k];
            for j in k..n {
                a[i][j] -= f * a[k][j];
            }
            b[i] -= f * b[k];
        }
    }
    for k in (0..n).rev() {
        let rest: f64 = (k + 1..n).map(|j| a[k][j] * b[j]).sum();
        b[k] = (b[k] - rest) / a[k][k];
    }
    (b, log_det)
}

pub fn inverse(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = a.len();
    (0..n).map(|k| solve(a, &(0..n).map(|i| f64::from(u8::from(i == k))).collect::<Vec<_>>()).0).collect()
}

/// The lower Cholesky factor.
fn cholesky(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = a.len();
    let mut l = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
            l[i][j] = if i == j { (a[i][i] - sum).sqrt() } else { (a[i][j] - sum) / l[j][j] };
        }
    }
    l
}

/// −log p(y, z) with its gradient and Hessian.
pub fn energy(model: &Model, z: &[f64]) -> (f64, Vec<f64>, Vec<Vec<f64>>) {
    let d = z.len();
    let mut value = model.constant();
    let (mut slope, mut hessian) = (vec![0.0; d], vec![vec![0.0; d]; d]);
    for i in 0..d {
        for j in 0..d {
            slope[i] += model.precision[i][j] * (z[j] - model.prior_mean[j]);
            hessian[i][j] = model.precision[i][j];
        }
        value += 0.5 * slope[i] * (z[i] - model.prior_mean[i]);
    }
    for (row, a) in model.rows.iter().zip(&model.design) {
        let t = row.offset + a.iter().zip(z).map(|(a, z)| a * z).sum::<f64>();
        let (phi, first, second) = model.response.at(t, row);
        if row.weight == 0.0 {
            continue;
        }
        value += row.weight * phi;
        for i in 0..d {
            slope[i] += row.weight * first * a[i];
            (0..d).for_each(|j| hessian[i][j] += row.weight * second * a[i] * a[j]);
        }
    }
    (value, slope, hessian)
}

/// Newton's method with halving.
pub fn mode(model: &Model) -> Vec<f64> {
    let mut z = model.prior_mean.clone();
    for _ in 0..500 {
        let (value, slope, hessian) = energy(model, &z);
        let step = solve(&hessian, &slope).0;
        let decrement: f64 = step.iter().zip(&slope).map(|(a, b)| a * b).sum();
        if decrement < 1e-22 {
            break;
        }
        let mut tau = 1.0;
        loop {
            let trial: Vec<f64> = z.iter().zip(&step).map(|(z, s)| z - tau * s).collect();
            let there = energy(model, &trial).0;
            if there <= value - 0.1 * tau * decrement || tau < 1e-9 {
                z = trial;
                break;
            }
            tau *= 0.5;
        }
        if tau < 1e-9 {
            break;
        }
    }
    z
}

/// Moments of the quantities, from log evidence, mean and covariance of z.
fn reported(model: &Model, log_evidence: f64, mean: &[f64], covariance: &[Vec<f64>]) -> Truth {
    let d = mean.len();
    let each = |q: &Vec<f64>| {
        let m: f64 = q.iter().zip(mean).map(|(a, m)| a * m).sum();
        let v: f64 = (0..d).map(|i| (0..d).map(|j| q[i] * q[j] * covariance[i][j]).sum::<f64>()).sum();
        (m, v.sqrt())
    };
    let (mean, sd) = model.quantities.iter().map(|(_, q)| each(q)).unzip();
    Truth { log_evidence, mean, sd }
}

/// A Gaussian posterior: its mode is one Newton step away.
pub fn gaussian(model: &Model) -> Truth {
    let mut z = model.prior_mean.clone();
    // a second step removes what rounding left
    for _ in 0..3 {
        let (_, slope, hessian) = energy(model, &z);
        let step = solve(&hessian, &slope).0;
        z.iter_mut().zip(step).for_each(|(z, s)| *z -= s);
    }
    let (value, slope, hessian) = energy(model, &z);
    let log_det = solve(&hessian, &slope).1;
    let evidence = -value + 0.5 * z.len() as f64 * (2.0 * PI).ln() - 0.5 * log_det;
    reported(model, evidence, &z, &inverse(&hessian))
}

/// How far log p falls before it is cut off.
const CUT: f64 = 44.0;

/// The trapezoid rule on a box in the coordinates in which the Laplace approximation is standard, with more nodes until
/// nothing moves.
pub fn by_quadrature(model: &Model) -> Truth {
    let centre = mode(model);
    let d = centre.len();
    let (floor, _, hessian) = energy(model, &centre);
    let c = cholesky(&inverse(&hessian));
    let at = |u: &[f64]| -> Vec<f64> {
        (0..d).map(|i| centre[i] + (0..=i).map(|j| c[i][j] * u[j]).sum::<f64>()).collect()
    };
    // in the coordinates of u: z = centre + C u, t = t₀ + (Cᵀa)ᵀu
    let inside = Turned::new(model, &centre, &c);
    let psi = |u: &[f64]| inside.energy(model, u) - floor;
    let mut least = vec![0.0_f64; d];
    let mut most = vec![0.0_f64; d];
    for direction in directions(d) {
        let mut far = 1.0;
        let point = |r: f64| direction.iter().map(|x| r * x).collect::<Vec<f64>>();
        while psi(&point(far)) < CUT {
            far *= 1.5;
            assert!(far < 1e6, "the posterior does not fall off");
        }
        let mut near = 0.0;
        for _ in 0..40 {
            let middle = 0.5 * (near + far);
            if psi(&point(middle)) < CUT { near = middle } else { far = middle }
        }
        for (i, x) in point(far).into_iter().enumerate() {
            (least[i], most[i]) = (least[i].min(x), most[i].max(x));
        }
    }
    // between two directions the box may be a little larger
    let margin = if d == 3 { 1.15 } else { 1.02 };
    least.iter_mut().chain(&mut most).for_each(|x| *x *= margin);
    let log_det: f64 = (0..d).map(|i| c[i][i].ln()).sum();
    let mut last: Option<Truth> = None;
    let mut nodes = if d == 3 { 36 } else { 72 };
    for _ in 0..7 {
        let [total, mean, square] = sums(&psi, &least, &most, nodes);
        let mean: Vec<f64> = mean.iter().map(|m| m / total[0]).collect();
        let covariance: Vec<Vec<f64>> = (0..d)
            .map(|i| (0..d).map(|j| square[i * d + j] / total[0] - mean[i] * mean[j]).collect())
            .collect();
        // back to z: z = centre + C u
        let spread = |i: usize, j: usize| -> f64 {
            (0..=i).map(|k| (0..=j).map(|l| c[i][k] * covariance[k][l] * c[j][l]).sum::<f64>()).sum()
        };
        let covariance: Vec<Vec<f64>> = (0..d).map(|i| (0..d).map(|j| spread(i, j)).collect()).collect();
        let now = reported(model, total[0].ln() - floor + log_det, &at(&mean), &covariance);
        if let Some(before) = &last {
            let moved = now.mean.iter().zip(&before.mean).zip(&now.sd).map(|((a, b), s)| (a - b).abs() / s);
            let spread = now.sd.iter().zip(&before.sd).map(|(a, b)| (a / b - 1.0).abs());
            let most = moved.chain(spread).fold((now.log_evidence - before.log_evidence).abs(), f64::max);
            if most < 3e-7 {
                return now;
            }
        }
        last = Some(now);
        nodes *= 2;
        assert!(d < 3 || nodes <= 160, "a case of three coefficients needs too many nodes");
    }
    panic!("the trapezoid rule does not settle");
}

/// The rows and the prior in the coordinates u: the quadratic form of the prior, and t and the weights of u for every
/// row that counts.
struct Turned {
    level: f64,
    pull: Vec<f64>,
    form: Vec<f64>,
    rows: Vec<(usize, f64, Vec<f64>)>,
}

impl Turned {
    fn new(model: &Model, centre: &[f64], c: &[Vec<f64>]) -> Self {
        let d = centre.len();
        let dz: Vec<f64> = centre.iter().zip(&model.prior_mean).map(|(z, m)| z - m).collect();
        let times = |v: &[f64]| -> Vec<f64> {
            (0..d).map(|i| (0..d).map(|j| model.precision[i][j] * v[j]).sum()).collect()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let column = |j: usize| (0..d).map(|i| c[i][j]).collect::<Vec<f64>>();
        let slope = times(&dz);
        let rows = model.rows.iter().zip(&model.design).enumerate().filter(|(_, (row, _))| row.weight > 0.0);
        Self {
            level: model.constant() + 0.5 * dot(&dz, &slope),
            pull: (0..d).map(|j| dot(&column(j), &slope)).collect(),
            form: (0..d * d).map(|k| dot(&column(k % d), &times(&column(k / d)))).collect(),
            rows: rows
                .map(|(k, (row, a))| {
                    (k, row.offset + dot(a, centre), (0..d).map(|j| dot(a, &column(j))).collect())
                })
                .collect(),
        }
    }

    /// −log p(y, z(u)).
    fn energy(&self, model: &Model, u: &[f64]) -> f64 {
        let d = u.len();
        let mut value = self.level;
        for i in 0..d {
            value += self.pull[i] * u[i];
            (0..d).for_each(|j| value += 0.5 * u[i] * self.form[i * d + j] * u[j]);
        }
        for (k, t, a) in &self.rows {
            let row = &model.rows[*k];
            let t = t + a.iter().zip(u).map(|(a, u)| a * u).sum::<f64>();
            value += row.weight * model.response.value(t, row);
        }
        value
    }
}

/// Unit vectors close to every direction.
fn directions(d: usize) -> Vec<Vec<f64>> {
    match d {
        1 => vec![vec![1.0], vec![-1.0]],
        2 => (0..720).map(|k| f64::from(k) * PI / 360.0).map(|a| vec![a.cos(), a.sin()]).collect(),
        _ => (0..=24)
            .flat_map(|k| (0..48).map(move |l| (f64::from(k) * PI / 24.0, f64::from(l) * PI / 24.0)))
            .map(|(a, b)| vec![a.cos(), a.sin() * b.cos(), a.sin() * b.sin()])
            .collect(),
    }
}

/// ∫e^{−ψ}(1, u, uuᵀ) by the trapezoid rule with `nodes` per axis.
fn sums(psi: &impl Fn(&[f64]) -> f64, least: &[f64], most: &[f64], nodes: usize) -> [Vec<f64>; 3] {
    let d = least.len();
    let step: Vec<f64> = (0..d).map(|i| (most[i] - least[i]) / (nodes - 1) as f64).collect();
    let (mut total, mut mean, mut square) = (vec![0.0], vec![0.0; d], vec![0.0; d * d]);
    let mut u = vec![0.0; d];
    for index in 0..nodes.pow(d as u32) {
        let mut rest = index;
        for i in 0..d {
            u[i] = least[i] + (rest % nodes) as f64 * step[i];
            rest /= nodes;
        }
        let fall = psi(&u);
        if fall > 1.2 * CUT {
            continue;
        }
        let p = (-fall).exp();
        total[0] += p;
        for i in 0..d {
            mean[i] += p * u[i];
            (0..d).for_each(|j| square[i * d + j] += p * u[i] * u[j]);
        }
    }
    let volume: f64 = step.iter().product();
    for part in [&mut total, &mut mean, &mut square] {
        part.iter_mut().for_each(|x| *x *= volume);
    }
    [total, mean, square]
}

/// The best Gaussian of all, or with a diagonal covariance of z: its negative ELBO, and means and sds of the
/// quantities. It satisfies Σ⁻¹ = J + Σ w E φ″ aaᵀ (its diagonal), 0 = J(m − μ) + Σ w E φ′ a, which are iterated with
/// damping.
pub fn best_gaussian(model: &Model, diagonal: bool) -> Option<Truth> {
    let mut m = mode(model);
    let d = m.len();
    let mut precision = energy(model, &m).2;
    for round in 0..4000 {
        let covariance = cut(&inverse(&cut(&precision, diagonal)), diagonal);
        let (_, slope, hessian) = expected(model, &m, &covariance);
        let step = solve(&hessian, &slope).0;
        let size: f64 = (0..d).map(|i| step[i].abs() / covariance[i][i].sqrt()).fold(0.0, f64::max);
        let change = (0..d)
            .map(|i| {
                (0..d)
                    .map(|j| (hessian[i][j] - precision[i][j]).abs() / (hessian[i][i] * hessian[j][j]).sqrt())
                    .fold(0.0, f64::max)
            })
            .fold(0.0, f64::max);
        if size < 1e-13 && change < 1e-13 {
            let covariance = cut(&inverse(&cut(&hessian, diagonal)), diagonal);
            let (value, ..) = expected(model, &m, &covariance);
            let log_det = solve(&covariance, &m).1;
            let neg_elbo = value - 0.5 * log_det - 0.5 * d as f64 * (1.0 + (2.0 * PI).ln());
            return Some(reported(model, neg_elbo, &m, &covariance));
        }
        let tau = 0.5 / (1.0 + f64::from(round) / 100.0);
        for i in 0..d {
            m[i] -= tau * step[i].clamp(-covariance[i][i].sqrt(), covariance[i][i].sqrt());
            (0..d).for_each(|j| precision[i][j] += tau * (hessian[i][j] - precision[i][j]));
        }
    }
    None
}

fn cut(a: &[Vec<f64>], diagonal: bool) -> Vec<Vec<f64>> {
    let keep = |i: usize, j: usize| if diagonal && i != j { 0.0 } else { a[i][j] };
    (0..a.len()).map(|i| (0..a.len()).map(|j| keep(i, j)).collect()).collect()
}

/// E[−log p(y, z)] under N(m, Σ), and J(m − μ) + Σ w E φ′ a, J + Σ w E φ″ aaᵀ; one trapezoid rule per row.
fn expected(model: &Model, m: &[f64], covariance: &[Vec<f64>]) -> (f64, Vec<f64>, Vec<Vec<f64>>) {
    const STEP: f64 = 1.0 / 32.0;
    let d = m.len();
    let mut value = model.constant();
    let (mut slope, mut hessian) = (vec![0.0; d], model.precision.clone());
    for i in 0..d {
        for j in 0..d {
            slope[i] += model.precision[i][j] * (m[j] - model.prior_mean[j]);
            value += 0.5 * model.precision[i][j] * covariance[i][j];
        }
        value += 0.5 * slope[i] * (m[i] - model.prior_mean[i]);
    }
    for (row, a) in model.rows.iter().zip(&model.design).filter(|(row, _)| row.weight > 0.0) {
        let t = row.offset + a.iter().zip(m).map(|(a, m)| a * m).sum::<f64>();
        let variance: f64 = (0..d).map(|i| (0..d).map(|j| a[i] * covariance[i][j] * a[j]).sum::<f64>()).sum();
        let (sd, mut sum) = (variance.sqrt(), [0.0; 3]);
        // e^{sd·x} moves the weight of the integrand by sd
        let end = ((10.0 + sd) / STEP) as i32;
        for k in -end..=end {
            let x = f64::from(k) * STEP;
            let weight = STEP * (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
            let (phi, first, second) = model.response.at(t + sd * x, row);
            sum = [sum[0] + weight * phi, sum[1] + weight * first, sum[2] + weight * second];
        }
        value += row.weight * sum[0];
        for i in 0..d {
            slope[i] += row.weight * sum[1] * a[i];
            (0..d).for_each(|j| hessian[i][j] += row.weight * sum[2] * a[i] * a[j]);
        }
    }
    (value, slope, hessian)
}
