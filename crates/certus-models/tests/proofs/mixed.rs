//! Certificates of variance parameters: true ones of random linear mixed models, and what can be wrong with them.

use certus_check::{MixedCertificate, leaf};
use certus_models::proof::variance_maximum;

use crate::{Case, Dice, Flaw};

/// The criterion in plain numbers, from dense matrices; infinite where V is not positive definite.
fn criterion(
    restricted: bool,
    rows: &[Vec<f64>],
    columns: usize,
    terms: &[(String, u64)],
    theta: &[f64],
) -> f64 {
    let n = rows.len();
    let mut v = vec![vec![0.0; n]; n];
    for a in 0..n {
        v[a][a] += theta[0];
        for b in 0..n {
            let (mut at, mut k) = (columns, 1);
            for (_, effects) in terms {
                for i in 0..*effects as usize {
                    for j in 0..=i {
                        if rows[a][at] == rows[b][at] {
                            let z = |row: usize, i: usize| rows[row][at + 1 + i];
                            let own = z(a, i) * z(b, j) + if i == j { 0.0 } else { z(a, j) * z(b, i) };
                            v[a][b] += theta[k] * own;
                        }
                        k += 1;
                    }
                }
                at += 1 + *effects as usize;
            }
        }
    }
    // Cholesky of V, then of X′V⁻¹X with the response as a last column
    let p = columns + 1;
    let design = |row: &Vec<f64>| -> Vec<f64> {
        [1.0].into_iter().chain(row[..columns].iter().copied()).chain([row[row.len() - 1]]).collect()
    };
    let mut right: Vec<Vec<f64>> = rows.iter().map(design).collect();
    let mut log_det = 0.0;
    for j in 0..n {
        for i in j..n {
            let known: f64 = (0..j).map(|k| v[i][k] * v[j][k]).sum();
            let left = v[i][j] - known;
            v[i][j] = if i == j { left.sqrt() } else { left / v[j][j] };
        }
        if v[j][j].is_nan() || v[j][j] <= 0.0 {
            return f64::INFINITY;
        }
        log_det += v[j][j].ln();
        for c in 0..=p {
            let known: f64 = (0..j).map(|k| v[j][k] * right[k][c]).sum();
            right[j][c] = (right[j][c] - known) / v[j][j];
        }
    }
    let mut m = vec![vec![0.0; p + 1]; p + 1];
    for j in 0..=p {
        for i in j..=p {
            let sum: f64 = right.iter().map(|row| row[i] * row[j]).sum();
            let left = sum - (0..j).map(|k| m[i][k] * m[j][k]).sum::<f64>();
            m[i][j] = if i == j { left.sqrt() } else { left / m[j][j] };
        }
    }
    let of_design: f64 = (0..p).map(|j| m[j][j].ln()).sum();
    log_det + 0.5 * m[p][p] * m[p][p] + if restricted { of_design } else { 0.0 }
}

fn truth(dice: &mut Dice) -> Option<Case<MixedCertificate>> {
    // few of the larger ones have a certificate: the enclosures of the Hessian are too wide (bench/results)
    let (least, most) = if dice.unit() < 0.05 { (80, 120) } else { (24, 44) };
    let (n, columns, restricted) = (dice.whole(least, most), dice.whole(0, 2), dice.unit() < 0.6);
    let two = dice.unit() < 0.3;
    let first = if dice.unit() < 0.4 { 2 } else { 1 };
    let terms: Vec<(String, u64)> =
        [("a group".to_string(), first), ("b".into(), 1)].into_iter().take(1 + usize::from(two)).collect();
    let (groups, others) = (dice.whole(5, 8), dice.whole(4, 6));
    let normal = |dice: &mut Dice| (0..6).map(|_| dice.between(-0.707, 0.707)).sum::<f64>();
    let effects: Vec<[f64; 3]> = (0..groups).map(|_| [(); 3].map(|()| 1.5 * normal(dice))).collect();
    let rows: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let x: Vec<f64> = (0..columns).map(|_| dice.between(-1.0, 2.0)).collect();
            let slope = dice.between(-1.5, 1.5);
            let (g, h) = (i % groups, dice.whole(0, others - 1));
            let mut y = 0.5 + x.iter().sum::<f64>() + effects[g][0] + 0.7 * normal(dice);
            let mut row = x;
            row.extend([g as f64, 1.0]);
            if first == 2 {
                row.push(slope);
                y += slope * effects[g][1];
            }
            if two {
                row.extend([h as f64, 1.0]);
                y += effects[h % groups][2];
            }
            row.push(y);
            row
        })
        .collect();
    // a pattern search for the maximum, in the logarithm of variances and the covariance itself
    let k = 1 + (first * (first + 1) / 2) as usize + usize::from(two);
    let is_variance = |at: usize| !(first == 2 && at == 2);
    let of = |u: &[f64]| -> Vec<f64> {
        (0..k).map(|at| if is_variance(at) { u[at].exp() } else { u[at] }).collect()
    };
    let value = |u: &[f64]| criterion(restricted, &rows, columns, &terms, &of(u));
    let (mut u, mut step) = (vec![0.0; k], 0.5);
    let mut here = value(&u);
    while step > 1e-5 {
        let mut better = false;
        for (at, sign) in (0..k).flat_map(|at| [(at, 1.0), (at, -1.0)]) {
            let mut trial = u.clone();
            trial[at] += sign * step;
            let there = value(&trial);
            if there < here {
                (u, here, better) = (trial, there, true);
            }
        }
        if !better {
            step *= 0.5;
        }
        if u[0].abs() > 12.0 {
            return None;
        }
    }
    // not at a border of the covariance matrices
    let theta = of(&u);
    let inside = (1..k).all(|at| !is_variance(at) || theta[at] > 1e-2)
        && (first == 1 || theta[2].powi(2) < 0.98 * theta[1] * theta[3]);
    let plain = (0..columns).map(|j| (format!("x{j}"), 0.25 * j as f64, 1.5)).collect();
    let made = inside.then(|| variance_maximum(restricted, true, plain, &terms, &rows, &theta).ok())??;
    let (certificate, bytes) = made;
    // what is claimed is a minimum of this criterion
    let centre: Vec<f64> = certificate.between.iter().map(|[a, b]| 0.5 * (a + b)).collect();
    let least = criterion(restricted, &rows, columns, &terms, &centre);
    for at in 0..k {
        for far in [-1e-3, 1e-3] {
            let mut moved = centre.clone();
            moved[at] *= 1.0 + far;
            assert!(criterion(restricted, &rows, columns, &terms, &moved) > least, "{certificate:?}");
        }
    }
    Some(Case { certificate, rows: bytes })
}

pub fn some_truth(dice: &mut Dice) -> Case<MixedCertificate> {
    (0..60).find_map(|_| truth(dice)).expect("some random models are certified")
}

impl Case<MixedCertificate> {
    /// Makes number of rows and hash those of the rows, so that only the claim is false.
    fn coherent(&mut self) {
        self.certificate.rows = (self.rows.len() / self.width()) as u64;
        self.certificate.root = leaf(&self.rows);
    }
}

pub const FLAWS: [Flaw<MixedCertificate>; 23] = [
    ("variance-end-too-tight", |case| {
        // the estimate itself is outside
        let [low, high] = case.certificate.between[1];
        case.certificate.between[1][0] = 0.5 * (low + high) + 0.05 * (high - low);
    }),
    ("variance-beside-the-maximum", |case| {
        let [low, high] = case.certificate.between[0];
        case.certificate.between[0] = [high, high + (high - low)];
    }),
    ("variance-with-other-sign", |case| {
        let [low, high] = case.certificate.between[1];
        case.certificate.between[1] = [-high, -low];
    }),
    ("variance-estimate-moved", |case| case.certificate.estimate[1] *= 1.001),
    ("variance-noise-moved", |case| {
        case.certificate.estimate[0] *= 1.001;
        case.certificate.between[0] = case.certificate.between[0].map(|x| 1.001 * x);
    }),
    ("variance-of-the-other-criterion", |case| case.certificate.restricted = !case.certificate.restricted),
    ("variance-without-a-row", |case| {
        case.drop_row(0);
        case.coherent();
    }),
    ("variance-row-dropped-from-the-file", |case| {
        case.drop_row(0);
    }),
    ("variance-response-with-other-sign", |case| {
        case.change(0, 1, |y| -y - 0.5);
        case.coherent();
    }),
    ("variance-row-in-another-group", |case| {
        let at = case.certificate.numbers() - case.certificate.columns.len();
        case.change(0, at, |group| group + 1.0);
        case.coherent();
    }),
    ("variance-one-bit-of-a-row", |case| case.rows[9] ^= 1),
    ("variance-lambda-too-large", |case| case.certificate.lambda = 1.01),
    ("variance-radius-too-small", |case| case.certificate.radius *= 1e-9),
    ("variance-radius-too-large", |case| case.certificate.radius = 0.5),
    ("variance-a-thousandth-too-high", |case| {
        case.certificate.between[1] = case.certificate.between[1].map(|x| 1.001 * x);
    }),
    ("variance-end-of-another-parameter", |case| case.certificate.between.swap(0, 1)),
    ("variance-response-in-another-unit", |case| {
        (0..case.certificate.rows as usize).for_each(|row| case.change(row, 1, |y| 1.001 * y));
        case.coherent();
    }),
    ("variance-one-response-a-thousandth-larger", |case| {
        case.change(3, 1, |y| 1.001 * y);
        case.coherent();
    }),
    ("variance-effect-with-other-sign", |case| {
        // of one row only: where all rows have it, it is the same model
        case.change(0, 2, |z| -z);
        case.coherent();
    }),
    ("variance-row-twice", |case| {
        case.append_first_row();
        case.coherent();
    }),
    ("variance-row-twice-in-the-file", |case| case.append_first_row()),
    ("variance-without-intercept", |case| case.certificate.intercept = false),
    ("variance-frame-of-half-the-size", |case| {
        case.certificate.factor.iter_mut().for_each(|x| *x *= 0.5);
    }),
];
