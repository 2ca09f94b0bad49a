//! Pairs x, −x of draws of q: log weights, gradients, and the sums that the statements are made of (math: D8).

use super::WeightProblem;
use super::bounded::{Clip, Sums};
use super::quantiles::Steps;
use crate::error::Error;
use crate::parallel;
use crate::random::Random;

/// Pairs evaluated together, and numbers of their points: fewer pairs where there are very many latents.
const RUN: usize = 64;
const NUMBERS: usize = 1 << 21;

/// A stream of pairs.
pub(super) struct Pairs<'a> {
    pub(super) problem: &'a WeightProblem<'a>,
    /// Mean and sd of what is reported, under q.
    pub(super) moments: &'a [(f64, f64)],
    pub(super) random: Random,
    pub(super) stream: u64,
}

/// One pair.
pub(super) struct Pair<'a> {
    /// v = −W at x and at −x.
    pub(super) v: [f64; 2],
    /// |∇W| at x and at −x.
    pub(super) slopes: [f64; 2],
    /// uᵀx of everything reported.
    pub(super) along: &'a [f64],
}

/// What is taken of a pair: the weights are cut at e^τ, uᵀx at ±ξ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) tau: f64,
    pub(super) xi: f64,
}

/// The variables of Theorem 3, whose expectations are bounded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Variables<T> {
    /// Y = ½(w̄(x) + w̄(−x)) − 1.
    pub(super) weight: T,
    /// K = ½Σ min(v, τ)e^{min(v, τ)}.
    pub(super) entropy: T,
    /// D = ½Σ (1 − w)₊.
    pub(super) below: T,
    /// ½Σ|w̄ − 1|, which bounds the H of every quantile.
    pub(super) size: T,
    /// M = ½(w̄(x) − w̄(−x)) clip(uᵀx), of everything reported.
    pub(super) means: Vec<T>,
    /// S = Y(clip(uᵀx)² − 1).
    pub(super) squares: Vec<T>,
}

impl<T> Variables<T> {
    /// Each with its counterpart.
    pub(super) fn zip<U>(&mut self, other: &Variables<U>, mut visit: impl FnMut(&mut T, &U)) {
        visit(&mut self.weight, &other.weight);
        visit(&mut self.entropy, &other.entropy);
        visit(&mut self.below, &other.below);
        visit(&mut self.size, &other.size);
        self.means.iter_mut().zip(&other.means).for_each(|(a, b)| visit(a, b));
        self.squares.iter_mut().zip(&other.squares).for_each(|(a, b)| visit(a, b));
    }

    /// One of each for `reported` numbers.
    pub(super) fn all(value: T, reported: usize) -> Self
    where
        T: Clone,
    {
        let many = vec![value.clone(); reported];
        let [weight, entropy, below, size] = [value.clone(), value.clone(), value.clone(), value];
        Self { weight, entropy, below, size, means: many.clone(), squares: many }
    }
}

impl Cut {
    /// The variables of a pair.
    pub(super) fn of(&self, pair: &Pair<'_>, out: &mut Variables<f64>) {
        let cut = pair.v.map(|v| v.min(self.tau));
        let [a, b] = cut.map(f64::exp);
        let weight = 0.5 * (a + b) - 1.0;
        out.weight = weight;
        out.entropy = 0.5 * (cut[0] * a + cut[1] * b);
        out.below = 0.5 * ((1.0 - a).max(0.0) + (1.0 - b).max(0.0));
        out.size = 0.5 * ((a - 1.0).abs() + (b - 1.0).abs());
        for (k, along) in pair.along.iter().enumerate() {
            let along = along.clamp(-self.xi, self.xi);
            out.means[k] = 0.5 * (a - b) * along;
            out.squares[k] = weight * (along * along - 1.0);
        }
    }

    /// The largest size that each can have: τ ≥ 0.
    pub(super) fn most(&self, reported: usize) -> Variables<f64> {
        let (cap, xi) = (self.tau.exp(), self.xi);
        let weight = (cap - 1.0).max(1.0);
        Variables {
            weight,
            // t·eᵗ is at least −1/e
            entropy: (self.tau * cap).max(1.0 / std::f64::consts::E),
            below: 1.0,
            size: weight,
            means: vec![0.5 * cap * xi; reported],
            squares: vec![weight * (xi * xi - 1.0).max(1.0); reported],
        }
    }
}

/// Sums over many pairs.
pub(super) struct Tally {
    pub(super) sums: Variables<Sums>,
    /// Of the quantiles.
    pub(super) steps: Steps,
    /// Pairs whose x is outside of each set.
    pub(super) outside: Vec<f64>,
    /// min(v, τ) at x and at −x of every pair.
    pub(super) log_weights: Vec<f64>,
    /// The variables of the pair that was added last.
    pub(super) here: Variables<f64>,
}

impl Pairs<'_> {
    /// The sums over pairs `0..count`, x outside of a set counted where −W > w₀ or |∇W| > r₀.
    pub(super) fn tally(
        &self,
        count: usize,
        cut: Cut,
        clips: &Variables<Clip>,
        sets: &[(f64, f64)],
    ) -> Result<Tally, Error> {
        let reported = self.moments.len();
        let nothing = || Tally {
            sums: Variables::all(Sums::default(), reported),
            steps: Steps::new(if sets.is_empty() { 0 } else { reported }),
            outside: vec![0.0; sets.len()],
            log_weights: Vec::new(),
            here: Variables::all(0.0, reported),
        };
        let visit = |tally: &mut Tally, pair: Pair<'_>| {
            cut.of(&pair, &mut tally.here);
            add(&mut tally.sums, &tally.here, clips);
            let cut = pair.v.map(|v| v.min(cut.tau));
            tally.steps.add(cut.map(|v| v.exp() - 1.0), pair.along, clips.size.clip);
            tally.log_weights.extend(cut);
            for (outside, (level, slope)) in tally.outside.iter_mut().zip(sets) {
                *outside += f64::from(u8::from(pair.v[0] > *level || pair.slopes[0] > *slope));
            }
        };
        self.fold(count, nothing, visit, |a, b| {
            a.sums.zip(&b.sums, |a, b| a.join(b));
            a.steps.join(&b.steps);
            a.outside.iter_mut().zip(&b.outside).for_each(|(a, b)| *a += b);
            a.log_weights.extend(b.log_weights);
        })
    }

    /// The latents of the first pairs, x before −x.
    pub(super) fn latents(&self, count: usize) -> Vec<f64> {
        let q = self.problem.q;
        let d = q.dim();
        let (mut normals, mut x) = (vec![0.0; d * count], vec![0.0; 2 * d * count]);
        self.random.normals(self.stream, 0, d, &mut normals);
        for (both, x) in x.chunks_exact_mut(2 * d).zip(normals.chunks_exact(d)) {
            let (plus, minus) = both.split_at_mut(d);
            plus.copy_from_slice(x);
            minus.iter_mut().zip(x).for_each(|(a, b)| *a = -b);
        }
        let mut z = vec![0.0; x.len()];
        q.transform(&x, &mut z);
        z
    }

    /// Pairs that are evaluated together.
    fn run(&self) -> usize {
        (NUMBERS / self.problem.q.dim().max(1)).clamp(1, RUN)
    }

    /// The pairs of one run.
    fn range(&self, run: usize, count: usize) -> std::ops::Range<usize> {
        run * self.run()..count.min((run + 1) * self.run())
    }

    /// What `of` makes of pairs `0..count`, in order.
    pub(super) fn each_in_order<T: Send>(
        &self,
        count: usize,
        of: impl Fn(Pair<'_>) -> T + Sync,
    ) -> Result<Vec<T>, Error> {
        self.fold(count, Vec::new, |out, pair| out.push(of(pair)), |a, b| a.extend(b))
    }

    /// What `visit` makes of pairs `0..count`, run by run from `nothing`, and `join` of the runs in their fixed tree:
    /// the same bits for any number of threads.
    pub(super) fn fold<T: Send>(
        &self,
        count: usize,
        nothing: impl Fn() -> T + Sync,
        visit: impl Fn(&mut T, Pair<'_>) + Sync,
        join: impl Fn(&mut T, T) + Sync,
    ) -> Result<T, Error> {
        let leaf = |run: usize| {
            let mut found = nothing();
            self.each(self.range(run, count), &mut |pair| visit(&mut found, pair)).map(|()| found)
        };
        let both = |a: Result<T, Error>, b: Result<T, Error>| {
            let mut a = a?;
            join(&mut a, b?);
            Ok(a)
        };
        parallel::reduce(count.div_ceil(self.run()), self.problem.grain, &leaf, &both)
            .unwrap_or_else(|| Ok(nothing()))
    }

    fn each(&self, range: std::ops::Range<usize>, visit: &mut impl FnMut(Pair<'_>)) -> Result<(), Error> {
        let WeightProblem { target, q, reported, neg_elbo, .. } = *self.problem;
        let (d, n) = (q.dim(), range.len());
        let mut x = vec![0.0; 2 * d * n];
        self.random.normals(self.stream, range.start as u64, d, &mut x[..d * n]);
        let (plus, minus) = x.split_at_mut(d * n);
        minus.iter_mut().zip(&*plus).for_each(|(a, b)| *a = -b);
        // Cx, and z = m + Cx
        let (mut moved, mut gradients, mut values) =
            (vec![0.0; 2 * d * n], vec![0.0; 2 * d * n], vec![0.0; 2 * n]);
        q.factor().add_apply(&x, &mut moved);
        let z: Vec<f64> = moved.iter().zip(q.mean().iter().cycle()).map(|(a, m)| m + a).collect();
        target.log_density(&z, &mut values, &mut gradients).map_err(Error::Target)?;
        // ∇(−W) = Cᵀ∇log p + x
        let mut whitened = x.clone();
        q.factor().add_apply_transpose(&gradients, &mut whitened);
        let constant = q.log_normaliser() + neg_elbo.0;
        let mut along = vec![0.0; reported.len()];
        for k in 0..n {
            let at = |i: usize| -> Result<(f64, f64), Error> {
                let norm = |y: &[f64]| y.iter().map(|y| y * y).sum::<f64>();
                let v = values[i] + constant + 0.5 * norm(&x[i * d..][..d]);
                let slope = norm(&whitened[i * d..][..d]).sqrt();
                if v.is_finite() && slope.is_finite() {
                    return Ok((v, slope));
                }
                let (what, value) = if v.is_finite() {
                    ("the gradient of the log density", slope)
                } else {
                    ("the log density", values[i])
                };
                Err(Error::NonFinite { what, value, place: format!("pair {}", range.start + k) })
            };
            let ((v, slope), (v1, slope1)) = (at(k)?, at(n + k)?);
            for (along, (terms, (_, sd))) in along.iter_mut().zip(reported.iter().zip(self.moments)) {
                *along = terms.iter().map(|&(i, a)| a * moved[k * d + i]).sum::<f64>() / sd;
            }
            visit(Pair { v: [v, v1], slopes: [slope, slope1], along: &along });
        }
        Ok(())
    }
}

/// Adds a pair to the sums.
pub(super) fn add(sums: &mut Variables<Sums>, values: &Variables<f64>, clips: &Variables<Clip>) {
    sums.weight.add(values.weight, clips.weight);
    sums.entropy.add(values.entropy, clips.entropy);
    sums.below.add(values.below, clips.below);
    sums.size.add(values.size, clips.size);
    for (k, clip) in clips.means.iter().enumerate() {
        sums.means[k].add(values.means[k], *clip);
        sums.squares[k].add(values.squares[k], clips.squares[k]);
    }
}
