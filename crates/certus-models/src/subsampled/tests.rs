//! Every expectation over rows is enumerated, every one over draws is a one-dimensional sum.

use std::sync::Arc;

use certus::frame::{Frame, Framed};

use super::sampler::moments;
use super::*;
use crate::design::Design;
use crate::rows::Memory;
use certus_likelihood::Loss;
use certus_likelihood::prior::Prior;
use certus_likelihood::{Linear, Logistic, Poisson};

fn wave(k: usize) -> f64 {
    (k as f64 * 1.3).sin() + (k as f64 * 0.37).cos()
}

/// Rows whose lengths differ by a factor of 20, with weights (some 0) and offsets.
fn model(n: usize, likelihood: Arc<dyn Likelihood>) -> Glm {
    let d = 3;
    let rows = Memory {
        x: (0..n * d)
            .map(|k| wave(k) * if (k / d).is_multiple_of(7) { 4.0 } else { 0.2 + 0.1 * wave(k / d) })
            .collect(),
        y: (0..n).map(|i| f64::from(u8::from(wave(3 * i + 7) > 0.4))).collect(),
        offset: (0..n).map(|i| 0.1 * wave(i)).collect(),
        weight: (0..n).map(|i| if i % 5 == 2 { 0.0 } else { 1.0 + 0.5 * wave(i).abs() }).collect(),
        columns: d,
        ..Memory::default()
    };
    let prior = Prior::independent(vec![0.1; d + 1], &[1.5; 4]).expect("a prior");
    Glm::new(Design::new(Arc::new(rows), true), likelihood, prior).expect("a model")
}

fn around(model: &Glm) -> Gaussian {
    crate::laplace(model).expect("a mode").gaussian
}

/// Points d × 3 of size 1 or so.
fn points(d: usize) -> Vec<f64> {
    (0..3 * d).map(|k| 1.2 * wave(5 * k + 1)).collect()
}

fn evaluate(target: &dyn Target, points: &[f64]) -> Vec<f64> {
    let n = points.len() / target.dim();
    let (mut values, mut gradients) = (vec![0.0; n], vec![0.0; points.len()]);
    target.log_density(points, &mut values, &mut gradients).expect("finite");
    values.extend(gradients);
    values
}

/// Σ p_n estimate_n is the log density and its gradient over all rows; probabilities are those of part F.
#[test]
fn the_estimate_is_unbiased() {
    let model = model(1500, Arc::new(Logistic));
    let w = around(&model);
    let batches = model.row_batches(&w, 0.5, 1, 0, 0).expect("bounded");
    let all = batches.sampler.all();
    let sums = all.iter().fold([0.0; 3], |s, row| {
        let norm = dot(&row.at, &row.at).sqrt();
        [s[0] + row.probability, s[1] + norm, s[2] + norm * norm]
    });
    assert!((sums[0] - 1.0).abs() < 1e-12);
    for row in &all {
        let norm = dot(&row.at, &row.at).sqrt();
        let wanted = 0.5 * norm / sums[1] + 0.5 * norm * norm / sums[2];
        assert!((row.probability / wanted - 1.0).abs() < 1e-12);
    }
    let points = points(4);
    let framed = Framed::new(&model, Frame::of(&w).expect("proper"), None).expect("fits");
    let exact = evaluate(&framed, &points);
    let mut mean = vec![0.0; exact.len()];
    for row in &all {
        let one = RowTarget { model: &batches, rows: std::slice::from_ref(row) };
        let p = row.probability;
        mean.iter_mut().zip(evaluate(&one, &points)).for_each(|(m, x)| *m += p * x);
    }
    // sums of 1500 terms of size up to 1000
    for (a, b) in mean.iter().zip(&exact) {
        assert!((a - b).abs() < 1e-9 * (1.0 + exact[0].abs()), "{mean:?} {exact:?}");
    }
    // and the expansion alone is not it
    assert!(evaluate(&batches.expansion(), &points).iter().zip(&exact).any(|(a, b)| (a - b).abs() > 1e-3));
}

/// E|ξ|² over all pairs of rows is (1/2)(Σ ρ′²|ã|²/p − |Σ ρ′ã|²) for S = 2.
#[test]
fn a_batch_divides_the_variance_by_its_size() {
    let model = model(14, Arc::new(Logistic));
    let w = around(&model);
    let batches = model.row_batches(&w, 0.5, 2, 0, 0).expect("bounded");
    let (all, y) = (batches.sampler.all(), &points(4)[..4]);
    let framed = Framed::new(&model, Frame::of(&w).expect("proper"), None).expect("fits");
    let exact = evaluate(&framed, y);
    let mut variance = 0.0;
    for a in &all {
        for b in &all {
            let pair = [a.clone(), b.clone()];
            let estimate = evaluate(&RowTarget { model: &batches, rows: &pair }, y);
            let error: f64 = estimate[1..].iter().zip(&exact[1..]).map(|(x, y)| (x - y).powi(2)).sum();
            variance += a.probability * b.probability * error;
        }
    }
    let (mut squares, mut sum) = (0.0, [0.0; 4]);
    for row in &all {
        let slope = row.row.weight * remainder(&Logistic, &row.row, dot(&row.at, y)).1;
        squares += slope * slope * dot(&row.at, &row.at) / row.probability;
        sum.iter_mut().zip(&row.at).for_each(|(s, a)| *s += slope * a);
    }
    let formula = 0.5 * (squares - dot(&sum, &sum));
    assert!((variance / formula - 1.0).abs() < 1e-9, "{variance} {formula}");
}

/// E (d + x²) g(x), x ~ N(0, 1): E(1 + |u|²)g of one coordinate of u ~ N(0, I_d).
fn expected(d: usize, g: impl Fn(f64) -> f64) -> f64 {
    let step = 0.02;
    let term = |k: i32| {
        let x = step * f64::from(k);
        step * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt() * (d as f64 + x * x) * g(x)
    };
    (-600..=600).map(term).sum()
}

#[test]
fn moments_in_closed_form() {
    for (d, a, b) in [(1, 0.3, 1.0), (4, 0.0, 1.7), (11, 0.9, 1.9), (3, -2.0, 0.1)] {
        for (closed, power) in moments(d, a, b).into_iter().zip([2, 4]) {
            let sum = expected(d, |x| (a + b * x).powi(power));
            assert!((closed / sum - 1.0).abs() < 1e-10, "{d} {a} {b}: {closed} {sum}");
        }
    }
}

/// The noise that the rows add, enumerated and integrated at Gaussians of the ball, is below its bound, whose parts are
/// those of Lemma F2.
#[test]
fn the_noise_is_bounded_on_the_ball() {
    let (d, size) = (4, 5);
    for n in [900, 40] {
        let model = model(n, Arc::new(Logistic));
        let w = around(&model);
        for radius in [0.05, 0.4, 0.9] {
            let batches = model.row_batches(&w, radius, size, 0, 0).expect("bounded");
            let all = batches.sampler.all();
            // sup|φ‴| = 1/(6√3), θ_max = 1/4
            let of_row = |row: &Picked| {
                let (norm, curvature) =
                    (dot(&row.at, &row.at).sqrt(), Logistic.second_derivative(row.row.mean, row.row.datum));
                let [second, fourth] = moments(d, radius * norm, (1.0 + radius) * norm);
                let by_twist = fourth / (4.0 * 108.0);
                let by_bend = second * (1.01 * curvature.max(0.25 - curvature)).powi(2);
                row.row.weight.powi(2) * by_twist.min(by_bend)
            };
            let [first, second] = batches.sampler.sums();
            let sums = all.iter().fold([0.0; 2], |s, row| {
                [s[0] + of_row(row), s[1] + of_row(row) * dot(&row.at, &row.at).sqrt()]
            });
            let by_hand = (2.0 * second * sums[0]).min(2.0 * first * sums[1]) / size as f64;
            assert!((batches.noise() / by_hand - 1.0).abs() < 1e-8, "{} {by_hand}", batches.noise());
            let mut largest = 0.0_f64;
            for direction in 0..12 {
                largest = largest.max(noise_at(&all, &inside(d, radius, direction)) / size as f64);
            }
            let bound = batches.noise();
            // saturated rows of large sd make it loose: they rarely curvature as much as they could
            assert!(largest <= bound && largest > 1e-4 * bound, "{n} {radius}: {largest} {bound}");
        }
    }
}

/// (m, C) with |m|² + |C − I|² = r², C symmetric.
fn inside(d: usize, radius: f64, direction: usize) -> (Vec<f64>, Vec<f64>) {
    let mut x: Vec<f64> = (0..d + d * d).map(|k| wave(k + 100 * direction)).collect();
    for j in 0..d {
        for i in 0..j {
            x[d + j * d + i] = x[d + i * d + j];
        }
    }
    let norm = dot(&x, &x).sqrt();
    x.iter_mut().for_each(|v| *v *= radius / norm);
    let mut c = x.split_off(d);
    c.iter_mut().step_by(d + 1).for_each(|v| *v += 1.0);
    (x, c)
}

/// Σ E(1 + |u|²)(wρ′)²|ã|²/p.
fn noise_at(all: &[Picked], (m, c): &(Vec<f64>, Vec<f64>)) -> f64 {
    let d = m.len();
    let one = |row: &Picked| {
        let mut turned = vec![0.0; d];
        linalg::add_transpose_times(c, d, false, &row.at, &mut turned);
        let (a, b) = (dot(&row.at, m), dot(&turned, &turned).sqrt());
        let square = |u: f64| remainder(&Logistic, &row.row, a + b * u).1.powi(2);
        row.row.weight.powi(2) * dot(&row.at, &row.at) / row.probability * expected(d, square)
    };
    all.iter().map(one).sum()
}

/// Rows come as often as their probabilities say, and a batch does not depend on how many are gathered with it.
#[test]
fn batches_are_drawn_as_promised() {
    let model = model(2500, Arc::new(Logistic));
    let w = around(&model);
    let (size, steps) = (300, 400);
    let batches = model.row_batches(&w, 0.5, size, 7, 3).expect("bounded");
    let gathered = batches.gather(0, steps).expect("finite");
    // ten classes of rows by their number in the design, told apart by the mean of their predictor
    let all = batches.sampler.all();
    let class = |row: &Row| all.iter().position(|r| r.row.mean == row.mean).expect("a row") % 10;
    let mut wanted = [0.0; 10];
    all.iter().for_each(|row| wanted[class(&row.row)] += row.probability);
    let mut counts = [0.0; 10];
    gathered.rows.iter().for_each(|row| counts[class(&row.row)] += 1.0);
    let n = (size * steps) as f64;
    for (count, p) in counts.iter().zip(wanted) {
        assert!((count - n * p).abs() < 5.0 * (n * p * (1.0 - p)).sqrt(), "{counts:?} {wanted:?}");
    }
    let long = all.iter().filter(|row| row.row.sd > 0.3).map(|row| row.probability).sum::<f64>();
    let seen = gathered.rows.iter().filter(|row| row.row.sd > 0.3).count() as f64;
    assert!((seen - n * long).abs() < 5.0 * (n * long * (1.0 - long)).sqrt(), "{seen} {long}");
    let points = points(4);
    let later = batches.gather(17, 2).expect("finite");
    assert!(later.hold(18) && !later.hold(19) && !later.hold(16));
    for step in [17, 18] {
        let (a, b) =
            (evaluate(&batches.at(&gathered, step), &points), evaluate(&batches.at(&later, step), &points));
        assert_eq!(a, b);
    }
    let (a, b) = (evaluate(&batches.at(&later, 17), &points), evaluate(&batches.at(&later, 18), &points));
    assert_ne!(a, b);
    let other = model.row_batches(&w, 0.5, size, 8, 3).expect("bounded").gather(17, 1).expect("finite");
    assert_ne!(a, evaluate(&batches.at(&other, 17), &points));
}

/// A linear model is its expansion: no noise at all. Poisson's third derivative is not bounded: no bound.
#[test]
fn the_edges() {
    let linear = model(200, Arc::new(Linear::new(0.7).expect("an sd")));
    let w = around(&linear);
    let batches = linear.row_batches(&w, 0.9, 3, 0, 0).expect("bounded");
    assert_eq!(batches.noise(), 0.0);
    let framed = Framed::new(&linear, Frame::of(&w).expect("proper"), None).expect("fits");
    let gathered = batches.gather(0, 1).expect("finite");
    for (a, b) in evaluate(&batches.at(&gathered, 0), &points(4)).iter().zip(evaluate(&framed, &points(4))) {
        assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{a} {b}");
    }
    let counts = model(200, Arc::new(Poisson));
    assert_eq!(counts.row_batches(&around(&counts), 0.1, 3, 0, 0).expect("drawn").noise(), f64::INFINITY);
    assert!(linear.row_batches(&w, 0.1, 0, 0, 0).is_err());
}
