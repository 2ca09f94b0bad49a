//! A maximisation that knows nothing of the engines: BFGS with differences.

/// The highest value of a function with one parameter held.
pub(crate) fn highest(mut at: Vec<f64>, held: usize, log: impl Fn(&[f64]) -> f64) -> f64 {
    let value = |x: &[f64]| -log(x);
    let free: Vec<usize> = (0..at.len()).filter(|&j| j != held).collect();
    let slope = |x: &[f64]| -> Vec<f64> {
        let side = |j: usize, h: f64| {
            let mut x = x.to_vec();
            x[j] += h;
            value(&x)
        };
        free.iter().map(|&j| (side(j, 1e-4) - side(j, -1e-4)) / 2e-4).collect()
    };
    let d = free.len();
    let mut inverse: Vec<f64> = (0..d * d).map(|e| if e % (d + 1) == 0 { 0.05 } else { 0.0 }).collect();
    let (mut best, mut g) = (value(&at), slope(&at));
    for _ in 0..200 {
        let step: Vec<f64> =
            inverse.chunks(d).map(|r| -r.iter().zip(&g).map(|(a, b)| a * b).sum::<f64>()).collect();
        let longest = step.iter().fold(0.0_f64, |m, s| m.max(s.abs()));
        let mut by = (0.5 / longest).min(1.0);
        let next = loop {
            let mut x = at.clone();
            free.iter().zip(&step).for_each(|(&j, s)| x[j] += by * s);
            let there = value(&x);
            if there < best || by < 1e-6 {
                break (x, there);
            }
            by *= 0.4;
        };
        let gained = best - next.1;
        if gained < 1e-8 {
            return -best;
        }
        let new = slope(&next.0);
        let s: Vec<f64> = free.iter().map(|&j| next.0[j] - at[j]).collect();
        let y: Vec<f64> = new.iter().zip(&g).map(|(a, b)| a - b).collect();
        let sy: f64 = s.iter().zip(&y).map(|(a, b)| a * b).sum();
        if sy > 0.0 {
            let hy: Vec<f64> =
                inverse.chunks(d).map(|r| r.iter().zip(&y).map(|(a, b)| a * b).sum()).collect();
            let yhy: f64 = hy.iter().zip(&y).map(|(a, b)| a * b).sum();
            for i in 0..d {
                for j in 0..d {
                    inverse[i * d + j] +=
                        (1.0 + yhy / sy) * s[i] * s[j] / sy - (hy[i] * s[j] + s[i] * hy[j]) / sy;
                }
            }
        }
        (at, best, g) = (next.0, next.1, new);
    }
    -best
}
