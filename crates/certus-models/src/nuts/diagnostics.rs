//! What chains say of one scalar, and how far they agree: rank-normalised split R̂, effective sample size, and
//! Monte-Carlo standard errors (Vehtari, Gelman, Simpson, Carpenter and Bürkner 2021; the numbers of arviz).

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

/// Draws of a chain, at least: each half has a variance and a lag.
pub(super) const FEWEST: usize = 4;

/// A scalar over all chains.
///
/// If it is the same in every draw, it is known: the standard errors are 0, R̂ is 1 and every draw counts. (Chains
/// start at different points, so those that never moved do not agree on it: their R̂ is infinite.) If a value is not
/// finite, every number is NaN; so are R̂, the sample size and the standard errors of chains with fewer than 4 draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Diagnosed {
    /// The mean of all draws.
    pub mean: f64,
    /// Its Monte-Carlo standard error, sd/√ess.
    pub mean_se: f64,
    /// The sd of all draws.
    pub sd: f64,
    /// Its Monte-Carlo standard error.
    pub sd_se: f64,
    /// The larger one of the rank-normalised split R̂ of the draws and of their distances from the median; about 1 if
    /// the chains have mixed.
    pub r_hat: f64,
    /// Independent draws that would estimate the mean as well.
    pub ess: f64,
}

/// Before anything is known.
const UNKNOWN: Diagnosed = Diagnosed {
    mean: f64::NAN,
    mean_se: f64::NAN,
    sd: f64::NAN,
    sd_se: f64::NAN,
    r_hat: f64::NAN,
    ess: f64::NAN,
};

/// Draws of one scalar, chain after chain, all chains of the same length. Of a single chain the halves are compared.
pub fn diagnosed(series: &[f64], chains: usize) -> Diagnosed {
    if series.is_empty() || series.iter().any(|x| !x.is_finite()) {
        return UNKNOWN;
    }
    let (mean, sd) = (average(series), variance(series).sqrt());
    let draws = series.len() / chains.max(1);
    if draws < FEWEST {
        return Diagnosed { mean, sd, ..UNKNOWN };
    }
    let halves = split(series, draws);
    let ess = effective(&halves);
    let all = halves.concat();
    let centre = median(&all);
    let folded: Vec<f64> = all.iter().map(|x| (x - centre).abs()).collect();
    let half = draws / 2;
    let r_hat = r_hat(&normal_scores(&all), half).max(r_hat(&normal_scores(&folded), half));
    Diagnosed { mean, mean_se: sd / ess.sqrt(), sd, sd_se: sd_error(series, mean, draws), r_hat, ess }
}

/// The standard error of the root of v = mean of (x − mean)²: that of v, times the derivative 1/(2√v).
fn sd_error(series: &[f64], mean: f64, draws: usize) -> f64 {
    let squares: Vec<f64> = series.iter().map(|x| (x - mean).powi(2)).collect();
    let v = average(&squares);
    if v == 0.0 {
        return 0.0;
    }
    let fourth = squares.iter().map(|x| x * x).sum::<f64>() / squares.len() as f64;
    ((fourth - v * v).max(0.0) / effective(&split(&squares, draws)) / v).sqrt() / 2.0
}

/// The first and the last half of every chain; of an odd number of draws the one in the middle is in neither.
fn split(series: &[f64], draws: usize) -> Vec<&[f64]> {
    let half = draws / 2;
    series.chunks_exact(draws).flat_map(|chain| [&chain[..half], &chain[draws - half..]]).collect()
}

/// The mean, exact for a constant.
fn average(x: &[f64]) -> f64 {
    x[0] + x.iter().map(|v| v - x[0]).sum::<f64>() / x.len() as f64
}

/// The unbiased variance.
fn variance(x: &[f64]) -> f64 {
    let mean = average(x);
    x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (x.len() as f64 - 1.0)
}

fn median(x: &[f64]) -> f64 {
    let mut sorted = x.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    0.5 * (sorted[(x.len() - 1) / 2] + sorted[x.len() / 2])
}

/// R̂ = √((B/W + n − 1)/n) for chains of length n: W is the mean of their variances, B is n times the variance of their
/// means.
fn r_hat(x: &[f64], n: usize) -> f64 {
    let chains = x.chunks_exact(n);
    let within = average(&chains.clone().map(variance).collect::<Vec<_>>());
    let between = variance(&chains.map(average).collect::<Vec<_>>()) * n as f64;
    if between == 0.0 && within == 0.0 {
        return 1.0;
    }
    ((between / within + n as f64 - 1.0) / n as f64).sqrt()
}

/// Φ⁻¹((r − 3/8)/(N + 1/4)) of the ranks r = 1, …, N, equal values sharing their mean rank.
fn normal_scores(x: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_unstable_by(|&a, &b| x[a].total_cmp(&x[b]));
    let (mut scores, mut first) = (vec![0.0; x.len()], 0);
    for equal in order.chunk_by(|&a, &b| x[a] == x[b]) {
        let rank = first as f64 + 0.5 * (equal.len() as f64 + 1.0);
        let score = normal_quantile((rank - 0.375) / (x.len() as f64 + 0.25));
        equal.iter().for_each(|&i| scores[i] = score);
        first += equal.len();
    }
    scores
}

/// Φ⁻¹(p): a rational approximation with an error below 4.5e-4 (Abramowitz and Stegun 26.2.23), then two steps of
/// Halley's method on Q(x) = p, which cube the error.
fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    let t = (-2.0 * p.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let mut x = t - above / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    for _ in 0..2 {
        let density = (-0.5 * x * x).exp() / TAU.sqrt();
        let step = (0.5 * libm::erfc(x * FRAC_1_SQRT_2) - p) / density;
        x += step / (1.0 - 0.5 * step * x);
    }
    -x
}

/// N/τ̂ for N draws in chains of length n, τ̂ = −1 + 2 Σ ρ̂_t over Geyer's initial monotone sequence, where
/// ρ̂_t = 1 − (W − mean of the autocovariances at lag t)/var⁺ and var⁺ = W (n − 1)/n + variance of the means. At most
/// N log₁₀ N, which antithetic draws would exceed.
///
/// DIFFERENCE: arviz takes a scalar with a range below 1e-15 for constant, whatever its unit.
fn effective(chains: &[&[f64]]) -> f64 {
    let n = chains[0].len();
    let total = (chains.len() * n) as f64;
    let means: Vec<f64> = chains.iter().map(|chain| average(chain)).collect();
    let covariance = |lag: usize| {
        let each = chains.iter().zip(&means).map(|(chain, mean)| {
            let products = chain.iter().zip(&chain[lag..]).map(|(a, b)| (a - mean) * (b - mean));
            products.sum::<f64>() / n as f64
        });
        each.sum::<f64>() / chains.len() as f64
    };
    let plus = covariance(0) + variance(&means);
    if plus == 0.0 {
        return total;
    }
    let within = covariance(0) * n as f64 / (n as f64 - 1.0);
    let rho = |lag: usize| 1.0 - (within - covariance(lag)) / plus;
    // sums of pairs ρ̂_{2k} + ρ̂_{2k+1} while they are positive, none larger than the one before
    let (mut pair, mut sum, mut t) = ([1.0, rho(1)], 0.0, 1);
    let mut least = f64::INFINITY;
    while t + 3 < n && pair[0] + pair[1] > 0.0 {
        least = least.min(pair[0] + pair[1]);
        sum += least;
        pair = [rho(t + 1), rho(t + 2)];
        t += 2;
    }
    // the even one of the pair that ends the sequence, if it is positive
    let last = pair[0].max(0.0);
    total / (2.0 * sum - 1.0 + last).max(1.0 / total.log10())
}
