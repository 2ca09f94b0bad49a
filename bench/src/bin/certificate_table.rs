//! How tight certificates are: Gaussians at known gaps from the optimum, in random directions that move mean and factor
//! alike, and the largest bound / true gap of each. Fails if a bound is below the truth or looser than we promise.

use std::path::Path;
use std::sync::Arc;

use certus::certificate::Level;
use certus::factor::{Factor, Lower, Pattern};
use certus::frame::Frame;
use certus::random::{Purpose, Random};
use certus::{Gaussian, linalg};
use certus_likelihood::{Likelihood, Logistic, NegativeBinomial, Poisson, Probit};
use certus_models::certificate::Certified;
use certus_models::{Design, Error, Glm, GroupTerm, Hierarchical, Memory, Prior};

const GAPS: [f64; 6] = [1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8];
const DIRECTIONS: u64 = 3;

/// A model at its optimum.
struct Case {
    name: &'static str,
    model: Box<dyn Certified>,
    optimum: Gaussian,
    /// Largest ratios we promise at 1e-2, and at 1e-4 and below.
    promise: (f64, f64),
}

fn normals(seed: u64, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; n];
    Random::new(seed, Purpose::Simulate, 0).normals(0, 0, n, &mut out);
    out
}

/// Features and coefficients are normal, responses drawn from the model.
fn simulated(likelihood: &Arc<dyn Likelihood>, d: usize, n: usize, seed: u64) -> Memory {
    let (x, beta, luck) = (normals(seed, n * d), normals(seed + 1, d), normals(seed + 2, n));
    // P(luck ≤ x), by its own integral: the responses need no more than three digits
    let uniform = |z: f64| 0.5 * (1.0 + (0.797_884_56 * z * (1.0 + 0.044_715 * z * z)).tanh());
    let scale = match likelihood.name() {
        "poisson" | "negative-binomial" => 0.3,
        _ => 1.0,
    };
    let mut y = Vec::with_capacity(n);
    for (row, luck) in x.chunks_exact(d).zip(luck) {
        let t = scale * row.iter().zip(&beta).map(|(a, b)| a * b).sum::<f64>() / (d as f64 / 10.0).sqrt();
        // the first value whose cumulative probability exceeds u
        let (mut k, mut left) = (0.0, uniform(luck));
        loop {
            left -= (-likelihood.value(t, certus_likelihood::Datum { y: k, trials: 1.0 })).exp();
            let last = k >= 1.0 && matches!(likelihood.name(), "logistic" | "probit");
            if left <= 0.0 || last || k > 1e4 {
                break;
            }
            k += 1.0;
        }
        y.push(k);
    }
    Memory { x, y, columns: d, ..Memory::default() }
}

fn glm(
    name: &'static str,
    likelihood: Arc<dyn Likelihood>,
    rows: Memory,
    promise: (f64, f64),
) -> Result<Case, Error> {
    let d = rows.columns;
    let prior = Prior::independent(vec![0.0; d], &vec![1.0; d])?;
    let model = Glm::new(Design::new(Arc::new(rows), false), likelihood, prior)?;
    let optimum = model.solve_exactly()?.gaussian;
    Ok(Case { name, model: Box::new(model), optimum, promise })
}

/// A file of `data/`: columns x0, x1, … and y, and group if there is one.
fn read(name: &str) -> (Memory, Vec<usize>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data").join(name);
    let text = std::fs::read_to_string(path).expect("the file is in the repository");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
    let (mut rows, mut groups) = (Memory::default(), Vec::new());
    rows.columns = names.iter().filter(|n| n.starts_with('x')).count();
    for line in lines {
        for (name, value) in names.iter().zip(line.split(',')) {
            let value: f64 = value.parse().expect("a number");
            match *name {
                "y" => rows.y.push(value),
                "group" => groups.push(value as usize),
                n if n.starts_with('x') => rows.x.push(value),
                _ => {}
            }
        }
    }
    (rows, groups)
}

fn cases() -> Result<Vec<Case>, Error> {
    let logistic: Arc<dyn Likelihood> = Arc::new(Logistic);
    let (poisson, probit): (Arc<dyn Likelihood>, Arc<dyn Likelihood>) = (Arc::new(Poisson), Arc::new(Probit));
    let negative: Arc<dyn Likelihood> = Arc::new(NegativeBinomial::new(5.0)?);
    let usual = (2.5, 1.5);
    let (rows, group) = read("hier_logit.csv");
    let prior = Prior::independent(vec![0.0; 5], &[1.0; 5])?;
    let term = GroupTerm { group, slopes: vec![0, 1, 2, 3, 4], sd: vec![1.0; 5], within: None };
    let arrow =
        Hierarchical::new(Design::new(Arc::new(rows), false), &[term], logistic.clone(), &prior, 1 << 30)?;
    let optimum = arrow.solve_exactly()?.gaussian;
    let hierarchical =
        Case { name: "hierarchical 20 x 5 + 5", model: Box::new(arrow), optimum, promise: usual };
    Ok(vec![
        glm("logistic 10 / 1000", logistic.clone(), simulated(&logistic, 10, 1000, 10), usual)?,
        glm("logistic 50 / 1000", logistic.clone(), simulated(&logistic, 50, 1000, 20), usual)?,
        glm("logistic 100 / 10000", logistic.clone(), simulated(&logistic, 100, 10_000, 30), usual)?,
        glm("Poisson 10 / 500", poisson.clone(), simulated(&poisson, 10, 500, 40), usual)?,
        glm("probit 10 / 500", probit.clone(), simulated(&probit, 10, 500, 50), usual)?,
        glm("neg. binomial 10 / 500", negative.clone(), simulated(&negative, 10, 500, 60), usual)?,
        hierarchical,
        glm("logit_bc", logistic, read("logit_bc.csv").0, (2.5, 2.0))?,
    ])
}

/// w moved by τ along a direction of its own frame: (m + τ C dm, C(I + τ dC)).
fn moved(w: &Gaussian, direction: &[f64], tau: f64) -> Result<Gaussian, Error> {
    let d = w.dim();
    let (dm, dc) = direction.split_at(d);
    let mut shift = vec![0.0; d];
    w.factor().add_apply(dm, &mut shift);
    let mean: Vec<f64> = w.mean().iter().zip(&shift).map(|(m, s)| m + tau * s).collect();
    if let Factor::Pattern(pattern) = w.factor() {
        let identity = w.factor().family().scaled_identity(d, 1.0);
        let inner = identity.values().iter().zip(dc).map(|(i, c)| i + tau * c).collect();
        let inner = Factor::Pattern(Pattern::new(pattern.tree().clone(), inner)?);
        return Ok(Frame::new(mean, w.factor().clone())?.to_original(&Gaussian::new(vec![0.0; d], inner)?)?);
    }
    let mut inner: Vec<f64> = dc.iter().map(|x| tau * x).collect();
    linalg::mirror(&mut inner, d);
    inner.iter_mut().step_by(d + 1).for_each(|x| *x += 1.0);
    let mut product = vec![0.0; d * d];
    w.factor().add_apply(&inner, &mut product);
    Ok(Gaussian::new(mean, Factor::Lower(Lower::new(d, linalg::lower_of_same_covariance(&product, d))?))?)
}

/// A direction of unit length, half of it in the mean.
fn direction(w: &Gaussian, seed: u64) -> Vec<f64> {
    let (d, stored) = (w.dim(), w.factor().values().len());
    let mut out = normals(seed, d + stored);
    // entries that the pattern does not have stay zero
    if let Factor::Pattern(_) = w.factor() {
        let present = w.factor().values().iter().map(|x| f64::from(u8::from(*x != 0.0)));
        out[d..].iter_mut().zip(present).for_each(|(o, p)| *o *= p);
    }
    for part in [0..d, d..d + stored] {
        let norm = linalg::norm_squared(&out[part.clone()]).sqrt();
        out[part].iter_mut().for_each(|x| *x *= 0.5_f64.sqrt() / norm);
    }
    out
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    println!(
        "bound / true gap (largest of {DIRECTIONS} directions; the global bound in brackets; - where it declines)\n"
    );
    println!("{:>24} {}", "gap", GAPS.map(|g| format!("{g:>16.0e}")).join(""));
    let mut broken = Vec::new();
    for case in cases()? {
        let (f, mut line) = (case.model.exact_value(&case.optimum)?.value, Vec::new());
        let mut level = Level::None;
        for target in GAPS {
            let (mut worst, mut worst_global) = (Some(0.0_f64), Some(0.0_f64));
            for seed in 0..DIRECTIONS {
                let direction = direction(&case.optimum, 1000 + seed);
                let gap_at = |tau: f64| -> Result<(Gaussian, f64), Error> {
                    let w = moved(&case.optimum, &direction, tau)?;
                    let gap = case.model.exact_value(&w)?.value - f;
                    Ok((w, gap))
                };
                // the gap grows about like τ², so a secant on its root finds it
                let mut tau = target.sqrt();
                let (mut w, mut gap) = gap_at(tau)?;
                for _ in 0..20 {
                    if (gap / target - 1.0).abs() < 1e-3 {
                        break;
                    }
                    tau *= (target / gap.max(1e-3 * target)).sqrt().clamp(0.2, 5.0);
                    (w, gap) = gap_at(tau)?;
                }
                let statement = case.model.certified_gap(&w)?.statement;
                level = statement.level();
                let ratio = statement.bound().map(|b| b / gap);
                // f is known to rounding only
                let noise = 4.0 * case.model.exact_value(&w)?.error / gap;
                if ratio.is_some_and(|r| r < 1.0 - noise) {
                    broken.push(format!(
                        "{}: the bound at {target:e} is below the truth: {ratio:?}",
                        case.name
                    ));
                }
                worst = worst.zip(ratio).map(|(a, b)| a.max(b));
                let global =
                    case.model.gap_bounds(&w)?.iter().find(|b| b.0.starts_with("D1")).map(|b| b.1 / gap);
                worst_global = worst_global.zip(global).map(|(a, b)| a.max(b));
            }
            let limit = if target <= 1.5e-4 { case.promise.1 } else { case.promise.0 };
            if target < 0.05 && worst.is_none_or(|r| r > limit) {
                broken.push(format!("{}: {worst:?} at {target:e}, promised {limit}", case.name));
            }
            let show = |x: Option<f64>| {
                x.map_or("-".into(), |x| if x < 100.0 { format!("{x:.2}") } else { format!("{x:.0}") })
            };
            line.push(format!("{:>16}", format!("{} ({})", show(worst), show(worst_global))));
        }
        println!("{:>24} {}  {}", case.name, line.join(""), level.name());
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}
