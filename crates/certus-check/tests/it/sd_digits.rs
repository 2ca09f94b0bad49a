//! The integral of a group and expectations under it against 60 digits: every ball contains the truth.

use certus_check::{Ball, GroupRow, Nodes, integrate, log, log_one_plus};

use crate::digits::{Big, Dice, big, contains};

const U: f64 = 1.0 / 9_007_199_254_740_992.0;

#[test]
fn logarithms() {
    let mut dice = Dice(5);
    let mut worst = 0.0f64;
    for k in 0..4_000 {
        let e = if k % 2 == 0 { dice.unit() } else { (-dice.between(0.0, 690.0)).exp() };
        // log(1 + e) would lose its digits where e is small
        let truth = if e < 1e-30 { big(e) } else { (big(1.0) + big(e)).ln() };
        let apart: Big = (big(log_one_plus(e)) - truth.clone()) / truth;
        worst = worst.max((apart.to_f64().value() / U).abs());
        let x = 10f64.powf(dice.between(-280.0, 49.0)) * dice.between(1.0, 2.0);
        let ball = Ball::new(x, x * 10f64.powf(dice.between(-18.0, -0.5)));
        for at in [-1.0, 0.0, 0.7, 1.0] {
            contains(log(ball), &(big(x) + big(at) * big(ball.rad)).ln(), "logarithm");
        }
        // where the reduction changes its k
        let near =
            Ball::exact(2f64.powf(dice.between(-30.0, 30.0).floor() + 0.5) * (1.0 + 1e-15 * dice.unit()));
        contains(log(near), &big(near.mid).ln(), "logarithm");
    }
    assert!(worst < 8.0, "{worst} u");
    for bad in [Ball::exact(0.0), Ball::exact(-1.0), Ball::new(1.0, 1.0), Ball::new(f64::NAN, 0.0)] {
        assert!(!log(bad).rad.is_finite(), "{bad:?}");
    }
}

/// φ and φ′ of a row at t.
fn loss(row: &GroupRow, t: &Big) -> (Big, Big, Big) {
    let size = if *t < big(0.0) { -t.clone() } else { t.clone() };
    let e = (-size).exp();
    let b = big(1.0) / (big(1.0) + e.clone());
    let sigma = if *t < big(0.0) { e.clone() * b.clone() } else { b.clone() };
    let most = if *t < big(0.0) { big(0.0) } else { t.clone() };
    let value = big(row.trials) * ((big(1.0) + e.clone()).ln() + most) - big(row.y) * t.clone();
    (value, big(row.trials) * sigma - big(row.y), big(row.trials) * e * b.clone() * b)
}

/// ψ at u, with w φ′ of every row.
fn psi(rows: &[GroupRow], members: &[[Big; 2]], u: &Big) -> (Big, Vec<Big>) {
    let (mut sum, mut slopes) = (u.clone() * u.clone() * big(0.5), Vec::new());
    for (row, [t, s]) in rows.iter().zip(members) {
        let (value, slope, _) = loss(row, &(t.clone() + s.clone() * u.clone()));
        sum += big(row.weight) * value;
        slopes.push(big(row.weight) * slope);
    }
    (sum, slopes)
}

/// The mode of e^{−ψ} on the grid of 2⁻¹⁰, about: ψ′ increases, and its zero is between 0 and −ψ′(0).
fn mode(rows: &[GroupRow]) -> f64 {
    let slope = |u: f64| {
        let of_row = |row: &GroupRow| {
            let sigma = 1.0 / (1.0 + (-(row.t.mid + row.s.mid * u)).exp());
            row.weight * row.s.mid * (row.trials * sigma - row.y)
        };
        u + rows.iter().map(of_row).sum::<f64>()
    };
    let (mut low, mut high) = ((-slope(0.0)).min(0.0), (-slope(0.0)).max(0.0));
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if slope(middle) > 0.0 { high = middle } else { low = middle }
    }
    (1024.0 * low).round() / 1024.0
}

/// Nodes for which section 11 proves a remainder below 3e^{−32} < 1e-13 of the integral. With ψ″ ≤ B = 1 + ¼Σ
/// w·trials·s², ∫e^{−ψ} ≥ √(2π/B)e^{−ψ(c)}, so that the first term is at most 2√B e^{L + p²/2}/(e^{2πα/h} − 1) of it,
/// p = ψ′(c), and one tail √(B/2π)e^{|p|x − x²/2}/(x − |p|), x the distance of the last node; |p| ≤ B/1024 because c is
/// so near the mode.
fn nodes_of(rows: &[GroupRow], k: usize) -> Nodes {
    const SMALL: f64 = 32.0;
    let spread: f64 = rows.iter().map(|row| row.weight * row.trials * row.s.size().powi(2)).sum();
    let largest = rows.iter().map(|row| row.s.size()).fold(0.0, f64::max);
    let (most, loss) = (1.0 + 0.25 * spread, 0.154 * spread + 0.5);
    let p = most / 1024.0;
    let needed = SMALL + 0.5 * p * p + (2.0 * most.sqrt()).ln() + 0.01;
    let height = (needed / loss).sqrt().min(1.999 / largest);
    let longest = std::f64::consts::TAU * height / (needed + loss * height * height);
    // steps of eight bits, so that all nodes are exact
    let unit = 2f64.powf(longest.log2().floor() - 7.0);
    let step = (longest / unit).floor() * unit;
    let reach = (2.0 * (SMALL + 0.5 * most.ln())).sqrt() + 2.0 * p;
    let side = (reach / step).ceil() as u64;
    let inner = [(0.7 / step).ceil() as u64, (0.5 / step).ceil() as u64];
    // in some groups the origin is another of the nodes
    let shift = if k % 7 == 3 { side / 2 } else { 0 };
    let origin = mode(rows) + shift as f64 * step;
    let inner = [inner[0] + shift, inner[1].saturating_sub(shift)];
    Nodes { origin, step, height, below: side + shift, above: side - shift, inner }
}

/// Random groups, and a member of every ball of their rows: distances as parts of the radii, at most.
fn groups(count: usize) -> [f64; 2] {
    let mut worst = [0.0f64; 2];
    for k in 0..count {
        let mut dice = Dice(900 + k as u64);
        let sd = 10f64.powf(dice.between(-1.5, 0.4));
        let rows: Vec<GroupRow> = (0..1 + (dice.unit() * 5.0) as usize)
            .map(|_| {
                let trials = if k % 2 == 0 { 1.0 } else { (1.0 + 5.0 * dice.unit()).floor() };
                let t = dice.between(-3.0, 3.0);
                let s = sd * if k % 3 == 0 { 1.0 } else { dice.between(-1.0, 1.0) };
                let wrong = if k % 5 == 0 { 1e-9 } else { 1e-16 };
                GroupRow {
                    t: Ball::new(t, wrong * dice.unit()),
                    s: Ball::new(s, wrong * dice.unit()),
                    y: ((trials + 1.0) * dice.unit()).floor().min(trials),
                    trials,
                    weight: if k % 4 == 0 { dice.between(0.0, 2.0) } else { 1.0 },
                }
            })
            .collect();
        let at = |ball: Ball, part: f64| big(ball.mid) + big(part) * big(ball.rad);
        let members: Vec<[Big; 2]> = rows
            .iter()
            .map(|row| [at(row.t, dice.between(-1.0, 1.0)), at(row.s, dice.between(-1.0, 1.0))])
            .collect();
        let nodes = nodes_of(&rows, k);
        let Nodes { origin, step, inner, .. } = nodes;
        let found = integrate(&rows, &nodes, true).unwrap();
        // the same sum to 13 sds about the mode with half of the step: wrong by less than 1e-27 of itself
        let (mut sum, mut means) = (big(0.0), vec![big(0.0); rows.len()]);
        let (half, centre) = (0.5 * step, mode(&rows));
        for j in -(13.0 / half) as i64..=(13.0 / half) as i64 {
            let (value, slopes) = psi(&rows, &members, &big(centre + j as f64 * half));
            let term = (-value).exp();
            means.iter_mut().zip(slopes).for_each(|(mean, slope)| *mean += slope * term.clone());
            sum += term;
        }
        let truth = -(sum.clone() * big(half)).ln();
        contains(found.value, &truth, "value");
        let apart =
            |ball: Ball, truth: &Big| ((truth.clone() - big(ball.mid)).to_f64().value() / ball.rad).abs();
        worst[0] = worst[0].max(apart(found.value, &truth));
        for (slope, mean) in found.slopes.iter().zip(means) {
            if slope.mid != 0.0 {
                contains(*slope, &(mean.clone() / sum.clone()), "slope");
                worst[1] = worst[1].max(apart(*slope, &(mean / sum.clone())));
            }
        }
        // least curvatures, at many places between the inner nodes
        let (low, high) = (origin - step * inner[0] as f64, origin + step * inner[1] as f64);
        for j in 0..=20 {
            let u = big(low + (high - low) * f64::from(j) / 20.0);
            for ((row, [t, s]), least) in rows.iter().zip(&members).zip(&found.curvatures) {
                let (_, _, bend) = loss(row, &(t.clone() + s.clone() * u.clone()));
                assert!(big(*least) <= big(row.weight) * bend, "curvature of group {k}");
            }
        }
        // the mass between them, by a sum that is fine enough for three digits
        let mut inside = big(0.0);
        for j in 0..200 {
            let u = low + (high - low) * (f64::from(j) + 0.5) / 200.0;
            inside += (-psi(&rows, &members, &big(u)).0).exp() * big((high - low) / 200.0);
        }
        let inside = (inside / (sum * big(half))).to_f64().value();
        assert!(found.inside <= inside + 1e-4, "{} {inside}", found.inside);
        // every fifth group has rows that are known within 1e-9 only
        if k % 5 != 0 {
            assert!(found.value.rad < 1e-12, "group {k}: {:?}", found.value);
        }
    }
    worst
}

#[test]
fn integrals_of_groups() {
    groups(12);
}

#[test]
fn nodes_that_prove_nothing_are_refused() {
    let row = GroupRow { t: Ball::exact(0.3), s: Ball::exact(1.0), y: 1.0, trials: 1.0, weight: 1.0 };
    let good = Nodes { origin: 0.0, step: 0.25, height: 1.99, below: 40, above: 40, inner: [4, 4] };
    let rad = |nodes: Nodes| integrate(&[row], &nodes, true).map_or(f64::INFINITY, |found| found.value.rad);
    assert!(rad(good) < 1e-13, "{}", rad(good));
    for bad in [
        Nodes { step: 1.0, ..good },
        Nodes { step: 0.1, ..good },
        Nodes { step: -0.25, ..good },
        Nodes { origin: 1e-11, ..good },
        Nodes { origin: 4_000_000.0, ..good },
        Nodes { height: 2.001, ..good },
        Nodes { height: 0.5, ..good },
        Nodes { height: f64::NAN, ..good },
        Nodes { below: 1, ..good },
        Nodes { above: 8, ..good },
        Nodes { inner: [41, 4], ..good },
        Nodes { above: 1 << 40, ..good },
    ] {
        assert!(rad(bad) > 1e-10, "{bad:?}: {}", rad(bad));
    }
}

/// Many rows raise the strip's loss, without which this rule would seem to have an error of 1e-17.
#[test]
fn the_loss_of_the_strip_counts() {
    let row = GroupRow { t: Ball::exact(0.0), s: Ball::exact(1.0), y: 100.0, trials: 200.0, weight: 1.0 };
    let nodes = Nodes { origin: 0.0, step: 0.3125, height: 1.9, below: 20, above: 20, inner: [1, 1] };
    assert!(integrate(&[row], &nodes, true).is_none_or(|found| found.value.rad > 1e-3));
}

/// The long version (bench/results/*-proofs.txt).
#[test]
#[ignore = "long"]
#[allow(clippy::print_stdout)]
fn full() {
    let [value, slope] = groups(200);
    println!(
        "200 groups, 60 digits: every ball contains the truth; largest distance/radius: integral {value:.3}, slope \
        {slope:.3}"
    );
}
