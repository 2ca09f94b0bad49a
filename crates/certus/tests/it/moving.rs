//! The descent in the iterate's own frame and what fresh pairs say, against Gaussian targets, for which everything has
//! a closed form: with q = N(m, P Pᵀ) and p = N(a, A⁻¹) the residual is v = g + S u, g = PᵀA(m − a), S = PᵀAP − I.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::sync::Mutex;

use crate::common::*;
use certus::moving::{Measured, Moving, MovingMemory, concave_direction};
use certus::random::{Purpose, Random};
use certus::{Family, Gaussian, PointTarget, TargetError};

fn target(d: usize, seed: u64) -> GaussianTarget {
    GaussianTarget::with_kappa(d, 30.0, &mut Dice::new(seed))
}

/// g and S at w.
fn residual(t: &GaussianTarget, w: &Gaussian) -> (Vec<f64>, Vec<f64>) {
    let d = w.dim();
    let c = w.factor().to_dense();
    let ct = transpose(&c, d);
    let away: Vec<f64> = w.mean().iter().zip(&t.mean).map(|(m, a)| m - a).collect();
    let g = times(&ct, &times(&t.hessian, &away, d), d);
    let mut s = times(&ct, &times(&t.hessian, &c, d), d);
    s.iter_mut().step_by(d + 1).for_each(|x| *x -= 1.0);
    (g, s)
}

/// f(w) − f* = ½|g̃|² + ½(tr(S) − log det(I + S)) for a Gaussian target, by the eigenvalues of I + S.
fn exact_gap(t: &GaussianTarget, w: &Gaussian) -> f64 {
    let (_, s) = residual(t, w);
    let d = w.dim();
    let mut precision = s;
    precision.iter_mut().step_by(d + 1).for_each(|x| *x += 1.0);
    let (values, _) = certus::linalg::eigen(&precision, d).unwrap();
    let away: Vec<f64> = w.mean().iter().zip(&t.mean).map(|(m, a)| m - a).collect();
    let energy = dot(&away, &times(&t.hessian, &away, d));
    0.5 * energy + 0.5 * values.iter().map(|x| x - 1.0 - x.ln()).sum::<f64>()
}

fn near(t: &GaussianTarget, off: f64, dice: &mut Dice) -> Gaussian {
    let d = t.mean.len();
    let w = t.optimum(&Family::Lower);
    let c = w.factor().to_dense();
    let shift = times(&c, &dice.normals(d).iter().map(|x| off * x).collect::<Vec<f64>>(), d);
    let mean = w.mean().iter().zip(&shift).map(|(m, s)| m + s).collect();
    let mut turn: Vec<f64> = dice.normals(d * d).iter().map(|x| off * x / (d as f64).sqrt()).collect();
    turn.iter_mut().step_by(d + 1).for_each(|x| *x += 1.0);
    let lower = certus::linalg::lower_of_same_covariance(&times(&c, &turn, d), d);
    Gaussian::new(mean, from_dense(&Family::Lower, &lower)).unwrap()
}

/// The mean of (S u) uᵀ over the draws of the first step, rebuilt from the seed.
fn moment(s: &[f64], random: &Random, d: usize, n: usize) -> Vec<f64> {
    let mut u = vec![0.0; d * n];
    random.normals(0, 0, d, &mut u);
    let mut out = vec![0.0; d * d];
    for column in u.chunks_exact(d) {
        let v = times(s, column, d);
        for j in 0..d {
            for i in 0..d {
                out[j * d + i] += v[i] * column[j] / n as f64;
            }
        }
    }
    out
}

/// One step is m − γPg and P(I − (γ/2) sym(S mean u uᵀ)) with γ = n/(n + d + 3), the draws rebuilt from the seed.
#[test]
fn a_step_is_the_formula() {
    let (d, n) = (6, 64);
    let t = target(d, 1);
    let w = near(&t, 0.05, &mut Dice::new(2));
    let random = Random::new(9, Purpose::Step, 0);
    let mut moving = Moving::new(&w);
    moving.step(&t, &random, n, &mut MovingMemory::default()).unwrap();

    let (g, s) = residual(&t, &w);
    let half = moment(&s, &random, d, n);
    let moment: Vec<f64> = half.iter().zip(transpose(&half, d)).map(|(a, b)| 0.5 * (a + b)).collect();
    let gamma = n as f64 / (n as f64 + d as f64 + 3.0);
    let p = w.factor().to_dense();
    let step = times(&p, &g, d);
    let turned = times(&p, &moment, d);
    let axes: Vec<f64> = p.iter().zip(&turned).map(|(p, t)| p - 0.5 * gamma * t).collect();
    let after = moving.last().unwrap();
    for i in 0..d {
        let want = w.mean()[i] - gamma * step[i];
        assert!((after.mean()[i] - want).abs() < 1e-13, "mean {i}: {} against {want}", after.mean()[i]);
    }
    let want = times(&axes, &transpose(&axes, d), d);
    for (got, want) in after.covariance().iter().zip(want) {
        assert!((got - want).abs() < 1e-13, "{got} against {want}");
    }
}

/// On a pattern the factor part is that of the pattern, its diagonal halved.
#[test]
fn a_step_on_a_pattern_is_the_formula() {
    let (d, n) = (7, 32);
    let t = target(d, 3);
    let tree = std::sync::Arc::new(certus::Tree::arrow(3, &[2, 2]).unwrap());
    let family = Family::Pattern(tree.clone());
    let best = t.optimum(&family);
    let mean = best.mean().iter().map(|m| m + 0.01).collect();
    let w = Gaussian::new(mean, best.factor().clone().scaled(1.03)).unwrap();
    let random = Random::new(9, Purpose::Step, 0);
    let mut moving = Moving::new(&w);
    moving.step(&t, &random, n, &mut MovingMemory::default()).unwrap();

    let (g, s) = residual(&t, &w);
    let mut direction = moment(&s, &random, d, n);
    direction.iter_mut().step_by(d + 1).for_each(|x| *x *= 0.5);
    direction.iter_mut().zip(pattern_mask(&tree)).for_each(|(x, inside)| *x *= f64::from(u8::from(inside)));
    // k + 1 + 2√levels = 5 + 1 + 2√2
    let gamma = n as f64 / (n as f64 + 6.0 + 2.0 * 2f64.sqrt());
    assert!(dot(&g, &g) + dot(&direction, &direction) < 0.25, "the step must not be cut");
    let p = w.factor().to_dense();
    let turned = times(&p, &direction, d);
    let got = moving.last().unwrap().factor().to_dense();
    for k in 0..d * d {
        let want = p[k] - gamma * turned[k];
        assert!((got[k] - want).abs() < 1e-13, "entry {k}: {} against {want}", got[k]);
    }
}

/// N(0, I), with the first coordinates of the points it was asked for.
struct Standard(usize, Mutex<Vec<u64>>);

fn standard(d: usize) -> Standard {
    Standard(d, Mutex::default())
}

impl PointTarget for Standard {
    fn dim(&self) -> usize {
        self.0
    }

    fn log_density_at(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError> {
        self.1.lock().unwrap().push(z[0].to_bits());
        gradient.iter_mut().zip(z).for_each(|(g, z)| *g = -z);
        Ok(-0.5 * dot(z, z))
    }
}

/// Steps are as long with many blocks as with one, although all of them together are far away; and draws that are too
/// many to be held at once (2²²/6000 = 699 of 1024 pairs are) come in runs, none of them twice.
#[test]
fn blocks_do_not_shorten_steps() {
    let (blocks, size) = (3000, 2);
    let d = blocks * size;
    let tree = std::sync::Arc::new(certus::Tree::blocks(&vec![size; blocks]).unwrap());
    let start = Gaussian::isotropic(vec![0.5; d], 1.3, &Family::Pattern(tree)).unwrap();
    let (target, mut moving, mut memory) = (standard(d), Moving::new(&start), MovingMemory::default());
    for _ in 0..3 {
        moving.step(&target, &Random::new(4, Purpose::Step, 0), 1024, &mut memory).unwrap();
    }
    // every block is alone: |(Pm, (P² − I)/2)| = √2·|(0.65, 0.345)| = 1.04, so γ = 0.5/1.04, then 1024/1029 and
    // 1024/1285; means, which have no noise, are 0.5·(1 − 1.69·0.48)(1 − 1.17·0.995)(1 − 0.98·0.8) = 0.003 then, and
    // sds 1 but for noise of √(2/1024) of what they were off
    let end = moving.last().unwrap();
    let farthest = end.mean().iter().fold(0.0_f64, |a, m| a.max(m.abs()));
    assert!(farthest < 0.01, "{farthest}");
    let widest = (0..d).map(|i| (end.factor().diagonal(i) - 1.0).abs()).fold(0.0, f64::max);
    assert!(widest < 0.02, "{widest}");
    let asked = target.1.into_inner().unwrap();
    assert_eq!(asked.len(), 3 * 2048);
    assert_eq!(asked.into_iter().collect::<HashSet<_>>().len(), 3 * 2048);
}

/// The noise of what thousands of groups share with one block adds up in that block's precision: it is cut together,
/// and does not drive the block away.
#[test]
fn what_groups_share_is_cut_together() {
    let groups = 3000;
    let tree = std::sync::Arc::new(certus::Tree::arrow(1, &vec![1; groups]).unwrap());
    let start = Gaussian::isotropic(vec![0.5; groups + 1], 1.3, &Family::Pattern(tree)).unwrap();
    let (mut moving, mut memory) = (Moving::new(&start), MovingMemory::default());
    let (target, random) = (standard(groups + 1), Random::new(4, Purpose::Step, 0));
    let mut narrowest = f64::INFINITY;
    for _ in 0..40 {
        moving.step(&target, &random, 8, &mut memory).unwrap();
        narrowest = narrowest.min(moving.last().unwrap().factor().diagonal(0));
    }
    // S = 0.69 on the diagonal at first: an entry below the block has the noise 0.69/√8, all of them √3000 times that,
    // 13, for which the best sd of the block is 1/13; cut to ½ a step makes it 1/√(1 + ¼), a few of them in a row 1/√2,
    // and it was 1.3 (with each group cut alone it falls to 0.15)
    assert!(narrowest > 0.5, "{narrowest}");
}

/// No noise at the optimum of a Gaussian target: nothing moves, however many steps.
#[test]
fn the_optimum_of_a_gaussian_target_stays() {
    let t = target(8, 5);
    let w = t.optimum(&Family::Lower);
    let (mut moving, mut memory) = (Moving::new(&w), MovingMemory::default());
    for _ in 0..50 {
        moving.step(&t, &Random::new(1, Purpose::Step, 0), 8, &mut memory).unwrap();
    }
    assert!(moving.averaged().unwrap().distance_squared(&w).sqrt() < 1e-12);
}

/// From far away (ten standard deviations off, factors ten times too wide and too narrow) it arrives, without a
/// setting.
#[test]
fn it_comes_from_far_away() {
    let (d, random) = (5, Random::new(4, Purpose::Step, 0));
    let t = target(d, 6);
    for scale in [0.1, 10.0] {
        let optimum = t.optimum(&Family::Lower);
        let mean = optimum.mean().iter().zip(optimum.sd()).map(|(m, s)| m + 10.0 * s).collect();
        let start = Gaussian::new(mean, optimum.factor().clone().scaled(scale)).unwrap();
        let (mut moving, mut memory) = (Moving::new(&start), MovingMemory::default());
        for _ in 0..400 {
            moving.step(&t, &random, 8, &mut memory).unwrap();
        }
        let gap = exact_gap(&t, &moving.last().unwrap());
        assert!(gap < 1e-6, "scale {scale}: {gap}");
    }
}

/// The estimate of ½gᵀH⁻¹g has no bias: its mean over 1,600 seeds is within 5 of its standard errors of ½(|g|² +
/// |S|²/2), although one half-gradient alone would be off by its noise; and within two reported standard errors in 85 %
/// of the seeds or more (a jackknife of 16 blocks: 95 % less what its own error costs). The noise agrees with E|g_k|² −
/// |g|², E|sym(Su uᵀ)|² = ½((d+4)|S|² + tr(S)²).
#[test]
fn estimates_of_the_gap_are_unbiased() {
    let d = 5;
    let t = target(d, 7);
    let w = near(&t, 0.1, &mut Dice::new(8));
    let (g, s) = residual(&t, &w);
    let (gg, ss, trace) = (dot(&g, &g), dot(&s, &s), s.iter().step_by(d + 1).sum::<f64>());
    let truth = 0.5 * (gg + 0.5 * ss);
    let noise = 0.25 * ((d as f64 + 4.0) * ss + trace * trace) - 0.5 * ss;
    let (mut values, mut inside, mut noises) = (Vec::new(), 0, 0.0);
    for seed in 0..1600 {
        let m = Measured::new(&t, &w, &Random::new(seed, Purpose::Estimate, 0), 7, 64).unwrap();
        values.push(m.gap.value);
        noises += m.noise / 1600.0;
        inside += usize::from((m.gap.value - truth).abs() <= 2.0 * m.gap.standard_error);
        assert_eq!((m.gradients, m.log_weights.len()), (128, 128));
        assert!(m.witness.is_none());
    }
    let mean = certus::diagnostics::Estimate::of(&values);
    assert!((mean.value - truth).abs() < 5.0 * mean.standard_error, "{mean:?} against {truth}");
    // the bias that a plain square would have is far outside
    assert!(
        0.5 * noise / 64.0 > 7.0 * mean.standard_error,
        "the test could not see a bias: {noise} {mean:?}"
    );
    assert!(inside >= 1360, "{inside} of 1600");
    assert!((noises / noise - 1.0).abs() < 0.1, "noise {noises} against {noise}");
    // and near the optimum it is the gap: a quarter of the third-order terms
    let gap = exact_gap(&t, &near(&t, 0.01, &mut Dice::new(8)));
    let m =
        Measured::new(&t, &near(&t, 0.01, &mut Dice::new(8)), &Random::new(1, Purpose::Estimate, 0), 7, 4096);
    let m = m.unwrap();
    assert!((m.gap.value / gap - 1.0).abs() < 0.1, "{:?} against {gap}", m.gap);
    // f is the negative log evidence plus the gap, and p is normalised
    assert!((m.neg_elbo.value - gap).abs() < 5.0 * m.neg_elbo.standard_error + 1e-12, "{:?}", m.neg_elbo);
}

/// −log p = Σ λ_i z_i²/2 + Σ z⁴/12, with one negative λ: convex where z² > −λ.
struct Saddle(Vec<f64>);

impl PointTarget for Saddle {
    fn dim(&self) -> usize {
        self.0.len()
    }
    fn log_density_at(&self, z: &[f64], g: &mut [f64]) -> Result<f64, TargetError> {
        let mut value = 0.0;
        for i in 0..z.len() {
            g[i] = -self.0[i] * z[i] - z[i].powi(3) / 3.0;
            value -= 0.5 * self.0[i] * z[i] * z[i] + z[i].powi(4) / 12.0;
        }
        Ok(value)
    }
}

/// One wrong direction among twenty is found, and what is found is a contradiction; a convex target has none.
#[test]
fn concave_directions_are_found() {
    let convex = Saddle(vec![1.0; 20]);
    let mut saddle = Saddle(vec![1.0; 20]);
    saddle.0[13] = -0.5;
    let w = Gaussian::isotropic(vec![0.0; 20], 0.3, &Family::Lower).unwrap();
    for seed in 0..20 {
        let random = Random::new(seed, Purpose::Estimate, 0);
        assert!(concave_direction(&convex, &w, &random, 5).unwrap().is_none());
        let witness = concave_direction(&saddle, &w, &random, 5).unwrap().expect("there is one");
        assert!(witness.along < -0.02 && witness.across >= -witness.along);
        let [a, b] = &witness.points;
        let (mut ga, mut gb) = (vec![0.0; 20], vec![0.0; 20]);
        saddle.log_density_at(a, &mut ga).unwrap();
        saddle.log_density_at(b, &mut gb).unwrap();
        let product: f64 = (0..20).map(|i| (a[i] - b[i]) * (gb[i] - ga[i])).sum();
        assert!(product < 0.0, "the witness does not contradict anything");
    }
}
