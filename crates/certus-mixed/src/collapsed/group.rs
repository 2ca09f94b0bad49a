//! One group integrated out: log ∫ exp(−Σ w_i φ_i(t_i + s_i u)) N(u) du by the trapezoid rule, with a proved bound on
//! its error (docs/collapsed.md).
//!
//! ψ(u) = Σ w_i φ_i(t_i + s_i u) + u²/2 has ψ″ ≥ 1. Nodes are û + k h around its minimum. With Re ψ(x + ib) ≥ G(x) for
//! |b| ≤ a and G convex, G″ ≥ 1, the rule errs by at most 2N/(e^{2πa/h} − 1), N = √2π e^{−G(x̃) + G′(x̃)²/2} for any x̃
//! (Theorem K1), and what lies beyond the last node u is at most e^{−ψ(u)} q/(1 − q), q = e^{−h(|ψ′(u)| − max|s|)},
//! also of what grows with u as e^{|s|u} does. Neither asks how well û was found.

use std::f64::consts::{PI, TAU};

use certus_likelihood::{Datum, Likelihood};

use super::nodes::{LANES, Nodes, Spaced};

/// The relative error aimed at where it counts.
pub(crate) const EPSILON: f64 = 1e-10;
/// What sums of [`certus_likelihood::RUN`] terms and a few operations on each lose of the sizes of the terms (part
/// K11).
pub(crate) const ROUNDING: f64 = 32.0 * f64::EPSILON;
/// Nodes on one side, at most: with more, the error that was reached is reported.
const MOST: i64 = 4000;
/// Slopes that are held at a time, at most, unless there are fewer nodes than the next number.
const NUMBERS: usize = 1 << 27;
const LEAST: usize = 64;
/// Curvature at the mode, as a part of the largest, below which every row is looked at for the step.
const RARE: f64 = 0.2;
/// Newton steps to the mode, at most, and how many of them are short.
const STEPS: usize = 200;
const SHORT: usize = 16;

/// Rows worked on at a time.
pub(super) const RUN: usize = 32;
/// The rows of one group.
#[derive(Clone, Copy)]
pub(crate) struct GroupRows<'a> {
    pub(crate) likelihood: &'a dyn Likelihood,
    /// x_i β + offset.
    pub(crate) t: &'a [f64],
    /// Σ_j |x_ij β_j| + |offset|.
    pub(crate) reach: &'a [f64],
    /// σ z_i.
    pub(crate) s: &'a [f64],
    /// σ times what was added to z.
    pub(crate) shift: f64,
    /// Coefficients.
    pub(crate) columns: usize,
    pub(crate) data: &'a [Datum],
    pub(crate) weight: &'a [f64],
}

/// A group's integral.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Integral {
    /// The logarithm of the integral.
    pub(crate) log: f64,
    /// Bound on the relative error of the integral; infinite where nothing is proved.
    pub(crate) error: f64,
    /// Its part that the strip bounds, and that of what lies beyond the ends.
    strip: f64,
    beyond: f64,
    /// What rounding may take of the logarithm; 0 until [`GroupRows::rounding`] has said so.
    pub(crate) rounding: f64,
    /// What it may take of ψ at any node.
    pub(crate) worst: f64,
    /// Near the minimum of ψ.
    pub(crate) mode: f64,
    /// The height of the strip, x̃ and G′(x̃).
    height: f64,
    centre: f64,
    lean: f64,
}

impl GroupRows<'_> {
    fn widest(&self) -> f64 {
        self.s.iter().fold(0.0_f64, |a, s| a.max(s.abs()))
    }

    /// ψ, ψ′, ψ″ at u.
    pub(crate) fn potential(&self, u: f64) -> [f64; 3] {
        let mut out = [0.5 * u * u, u, 1.0];
        let [mut at, mut slope, mut curvature] = [[0.0; RUN]; 3];
        for from in (0..self.t.len()).step_by(RUN) {
            let n = RUN.min(self.t.len() - from);
            let (t, s) = (&self.t[from..][..n], &self.s[from..][..n]);
            (0..n).for_each(|i| at[i] = t[i] + s[i] * u);
            let (data, weight) = (&self.data[from..][..n], &self.weight[from..][..n]);
            out[0] +=
                self.likelihood.derivatives(&at[..n], data, weight, &mut slope[..n], &mut curvature[..n]);
            for i in 0..n {
                out[1] += s[i] * slope[i];
                out[2] += s[i] * s[i] * curvature[i];
            }
        }
        out
    }

    /// A point near the minimum of ψ, and (ψ, ψ′, ψ″) there: Newton's method with steps of at most 1, by halves once
    /// the minimum lies between two points and Newton's step is of little use (an exponential takes as many steps as it
    /// has powers of e). After [`SHORT`] steps to one side they double, so that a minimum far away is found, too.
    fn mode(&self) -> (f64, [f64; 3]) {
        let (mut u, mut low, mut high) = (0.0_f64, f64::NEG_INFINITY, f64::INFINITY);
        let mut here = self.potential(u);
        let mut most = 1.0_f64;
        for step in 0..STEPS {
            if here[1].abs() <= (0.25 * here[2].sqrt()).min(0.5) {
                break;
            }
            if here[1] > 0.0 {
                high = u
            } else {
                low = u
            }
            let newton = if step >= SHORT && (low.is_infinite() || high.is_infinite()) {
                most *= 2.0;
                u - most.copysign(here[1])
            } else {
                // where an exponential overflows, only the side is known
                let ratio = here[1] / here[2];
                u - if ratio.is_nan() { here[1].signum() } else { ratio.clamp(-1.0, 1.0) }
            };
            let last = here[1].abs();
            u = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
            here = self.potential(u);
            if here[1].abs() > 0.5 * last && low.is_finite() && high.is_finite() {
                if here[1] > 0.0 {
                    high = high.min(u)
                } else {
                    low = low.max(u)
                }
                u = 0.5 * (low + high);
                here = self.potential(u);
            }
        }
        (u, here)
    }

    /// For the strip of height a: a point x̃ near the minimum of G, the exponent ψ(û) − G(x̃) + G′(x̃)²/2, and G′(x̃).
    fn exponent(&self, a: f64, u: f64, here: [f64; 3], common: Option<(f64, f64)>) -> Option<[f64; 3]> {
        if let Some((s, size)) = common {
            let loss = self.likelihood.strip_loss(s * a)?;
            return Some([u, 0.5 * a * a + size * loss + 0.5 * here[1] * here[1], here[1]]);
        }
        let rotated = |x: f64| {
            let mut g = [0.5 * x * x - 0.5 * a * a, x, 1.0];
            for i in 0..self.t.len() {
                let (s, w) = (self.s[i], self.weight[i]);
                let [value, slope, curvature] =
                    self.likelihood.rotated(self.t[i] + s * x, s * a, self.data[i])?;
                g = [g[0] + w * value, g[1] + w * s * slope, g[2] + w * s * s * curvature];
            }
            Some(g)
        };
        // steps of at most 1/max|s| keep an exponential within e
        let (mut x, most) = (u, 1.0 / self.widest());
        let mut g = rotated(x)?;
        for _ in 0..20 {
            if g[1].abs() <= 0.1 {
                break;
            }
            x -= (g[1] / g[2]).clamp(-most, most);
            g = rotated(x)?;
        }
        Some([x, here[0] - g[0] + 0.5 * g[1] * g[1], g[1]])
    }

    /// The height of the strip and the step: the longest one among a few heights; `alike` for steps that do not depend
    /// on the predictors, where there are any.
    fn rule(&self, u: f64, here: [f64; 3], epsilon: f64, alike: bool) -> Rule {
        let wanted = (2.0 / epsilon).ln() + 0.5 * here[2].ln();
        let widest = self.widest();
        let uniform = self.likelihood.strip_loss(0.0).is_some();
        let equal = self.s.iter().all(|s| *s == self.s[0]);
        let size = |i: usize| self.weight[i] * self.likelihood.strip_size(self.data[i]);
        let common = (uniform && equal).then(|| (self.s[0], (0..self.t.len()).map(size).sum()));
        // the curvature of L′ at a = 0, about
        let most = if uniform {
            let tau = 1e-3;
            let g = 2.0 * self.likelihood.strip_loss(tau).unwrap_or(0.0) / (tau * tau);
            1.0 + (0..self.t.len()).map(|i| g * size(i) * self.s[i] * self.s[i]).sum::<f64>()
        } else {
            here[2]
        };
        let (free, edge) = ((2.0 * wanted / most).sqrt(), PI / widest);
        let mut heights =
            [1.0, 0.8, 0.62, 0.47, 0.35, 0.25].map(|part| (part * free.min(0.97 * edge), common)).to_vec();
        // rare events: the rows are far less curved here than where they are most
        if !alike && uniform && here[2] < RARE * most {
            let free = (2.0 * wanted / here[2]).sqrt().min(0.5 * edge);
            heights.extend([1.0, 0.75, 0.5].map(|part| (part * free, None)));
        }
        let mut best: Option<Rule> = None;
        for (a, common) in heights {
            let found = self.exponent(a, u, here, common).filter(|e| e[1].is_finite());
            let Some([centre, exponent, lean]) = found else { continue };
            let step = TAU * a / (exponent.max(0.0) + wanted);
            if best.as_ref().is_none_or(|b| step > b.step) {
                best = Some(Rule { height: a, step, exponent, centre, lean, proved: true, epsilon });
            }
        }
        // nothing is proved: a quarter of the step that a Gaussian of this curvature would need
        best.unwrap_or_else(|| {
            let step = 0.25 * TAU * (1.0 / (2.0 * wanted * most.max(here[2]))).sqrt();
            Rule { height: 0.0, step, exponent: f64::INFINITY, centre: u, lean: 0.0, proved: false, epsilon }
        })
    }

    /// Number of steps to a node beyond which nothing matters, on the side of `sign`, and a bound of what lies beyond
    /// it as a part of e^{−ψ(û)}.
    ///
    /// ψ is convex: `more` steps further out it is larger by at least more·h·ψ′, and what lies beyond smaller by that
    /// power of e.
    fn end(&self, sign: f64, u: f64, here: [f64; 3], rule: &Rule) -> (i64, f64) {
        let widest = self.widest();
        let least = rule.epsilon / (20.0 * here[2].sqrt() * rule.step);
        let gaussian = (2.0 * (2.0 / rule.epsilon).ln() / here[2]).sqrt() / rule.step;
        let mut k = gaussian.ceil().min(MOST as f64) as i64;
        while k < MOST {
            let there = self.potential(u + sign * k as f64 * rule.step);
            let rise = rule.step * sign * there[1];
            let ratio = (rule.step * widest - rise).exp();
            if ratio < 1.0 {
                let beyond = (here[0] - there[0]).exp() * ratio / (1.0 - ratio);
                let more = ((beyond / least).ln() / rise).ceil().clamp(0.0, (MOST - k) as f64);
                return (k + more as i64, beyond * (-more * rise).exp());
            }
            k += (k / 4).max(1);
        }
        (MOST, f64::INFINITY)
    }

    /// Nodes whose step has the error epsilon for all predictors alike, with ends for those here and a part `room` more
    /// on both sides; `None` where the step depends on the predictors.
    pub(crate) fn spaced(&self, epsilon: f64, room: f64) -> Option<Spaced> {
        self.likelihood.strip_loss(0.0)?;
        let (mode, here) = self.mode();
        let rule = self.rule(mode, here, epsilon, true);
        let ends = [-1.0, 1.0].map(|sign| self.end(sign, mode, here, &rule).0);
        let more = (room * (ends[0] + ends[1]) as f64).ceil() as i64;
        let (left, right) = (ends[0] + more, ends[1] + more);
        let first = mode - left as f64 * rule.step;
        rule.proved.then_some(Spaced { first, step: rule.step, count: (left + right + 1) as usize })
    }

    /// The integral; slopes, curvatures and weights of its nodes stay in `nodes`.
    pub(crate) fn integrate(&self, nodes: &mut Nodes, epsilon: f64) -> Integral {
        self.integrate_finer(nodes, epsilon, 1)
    }

    /// The same with `finer` times as many nodes, for those who want to see the density and not its integral.
    pub(crate) fn integrate_finer(&self, nodes: &mut Nodes, epsilon: f64, finer: usize) -> Integral {
        let (mode, here) = self.mode();
        let mut rule = self.rule(mode, here, epsilon, false);
        rule.step /= finer as f64;
        let (mut left, mut beyond_left) = self.end(-1.0, mode, here, &rule);
        let (mut right, mut beyond_right) = self.end(1.0, mode, here, &rule);
        // rows that are all alike may ask for thousands of nodes: with a million of them memory does not suffice, and
        // longer steps will do, but without a proof
        let room = (NUMBERS / self.t.len().max(1)).max(LEAST) as f64;
        for _ in 0..8 {
            let asked = (left + right + 1) as f64;
            if asked <= 1.2 * room {
                break;
            }
            rule.step *= asked / room;
            (left, beyond_left) = self.end(-1.0, mode, here, &rule);
            (right, beyond_right) = self.end(1.0, mode, here, &rule);
        }
        // a few more nodes, so that loops over them leave no rest
        let count = ((left + right + 1) as usize).next_multiple_of(LANES);
        let left = left + (count as i64 - left - right - 1) / 2;
        let right = count as i64 - left - 1;
        nodes.u.clear();
        nodes.u.extend((-left..=right).map(|k| mode + k as f64 * rule.step));
        nodes.p.clear();
        nodes.p.extend(nodes.u.iter().map(|u| 0.5 * u * u));
        nodes.slope.resize(self.t.len() * count, 0.0);
        nodes.curvature.resize(self.t.len() * count, 0.0);
        let Nodes { u, p, slope, curvature } = nodes;
        self.likelihood.lines(self.t, self.s, self.data, self.weight, u, p, slope, curvature);
        let sum = nodes.weigh(here[0]);
        // all in units of e^{−ψ(û)}: the rule says h·sum
        let total = rule.step * sum;
        let missed = rule.step * (beyond_left + beyond_right);
        let outside =
            2.0 * (2.0 * PI).sqrt() * rule.exponent.exp() / ((TAU * rule.height / rule.step).exp() - 1.0);
        let outside = if rule.proved { outside } else { f64::INFINITY };
        let least = total - outside - missed;
        let part = |x: f64| if least > 0.0 { x / least } else { f64::INFINITY };
        Integral {
            log: total.ln() - here[0] - 0.5 * (2.0 * PI).ln(),
            error: part(outside + missed),
            strip: part(outside),
            beyond: part(missed),
            rounding: 0.0,
            worst: 0.0,
            mode,
            height: rule.height,
            centre: rule.centre,
            lean: rule.lean,
        }
    }

    /// Bound on the error of `mean` = E w_i φ_i′: as that of the integral, with |φ_i′| in the strip and beyond the ends
    /// for a factor. There it is at most (|φ_i′(u)| + c)e^{|s|·distance}, c = `first_derivative_growth`. Rounding of ψ
    /// by
    /// at most δ at every node moves it by (e^{2δ} − 1)E|φ_i′ − E φ_i′| (K11). Infinite where nothing is claimed.
    pub(crate) fn slope_error(&self, i: usize, of: &Integral, nodes: &Nodes, mean: f64) -> f64 {
        let (likelihood, datum, s, w) = (self.likelihood, self.data[i], self.s[i], self.weight[i]);
        let strip =
            likelihood.rotated_first_derivative(self.t[i] + s * of.centre, s, of.lean, s * of.height, datum);
        let count = nodes.u.len();
        let (slope, curvature) = (&nodes.slope[i * count..][..count], &nodes.curvature[i * count..][..count]);
        let edge = slope[0].abs().max(slope[count - 1].abs())
            + weighted(w, likelihood.first_derivative_growth(datum));
        let [mut spread, mut curvatures] = [0.0; 2];
        for k in 0..count {
            spread += nodes.p[k] * (slope[k] - mean).abs();
            curvatures += nodes.p[k] * curvature[k];
        }
        let error = of.error * mean.abs()
            + w * of.strip * strip.unwrap_or(f64::INFINITY)
            + of.beyond * edge
            + (2.0 * of.worst).exp_m1() * spread
            + curvatures * self.blur(i, nodes)
            + ROUNDING * self.terms(i, nodes, self.mean_size(i, mean));
        // 0 · ∞, of which nothing is claimed
        if error.is_nan() { f64::INFINITY } else { error }
    }

    /// What rounding may move t_i + s_i u_k by: the products and sums of t_i, the design that they are of, and the
    /// nodes (K11).
    fn blur(&self, i: usize, nodes: &Nodes) -> f64 {
        let steps = (self.s[i].abs() + self.shift.abs()) * nodes.farthest();
        0.5 * f64::EPSILON * ((self.columns + 5) as f64 * self.reach[i] + 8.0 * steps)
    }

    /// The sum of the sizes of the numbers that make up w_iφ_i, where |w_iφ_i′| is at most `slope`, or on average so.
    fn terms(&self, i: usize, nodes: &Nodes, slope: f64) -> f64 {
        let (datum, w) = (self.data[i], self.weight[i]);
        let reach = self.t[i].abs() + self.s[i].abs() * nodes.farthest();
        if w > 0.0 { w * self.likelihood.terms(reach, slope / w, datum) } else { 0.0 }
    }

    /// E|w_i φ_i′| at most; `mean` is E w_i φ_i′.
    fn mean_size(&self, i: usize, mean: f64) -> f64 {
        mean.abs()
            + weighted(self.weight[i], self.likelihood.first_derivative_spread(self.s[i], self.data[i]))
    }

    /// What rounding may take of the logarithm of the integral, and of ψ at any node (K11); `mean` are E w_i φ_i′. φ_i′
    /// is monotone: it is largest at an end.
    pub(crate) fn rounding(&self, of: &Integral, nodes: &Nodes, mean: impl Fn(usize) -> f64) -> [f64; 2] {
        let count = nodes.u.len();
        // the terms u²/2, the logarithm, and the sum over the nodes in eight lanes
        let own = of.log.abs() + (of.mode.abs() + 2.0).powi(2) + 2.0;
        let mut sum = ROUNDING * own + f64::EPSILON * (count / LANES) as f64;
        let mut worst = ROUNDING * nodes.farthest().powi(2);
        for i in 0..self.t.len() {
            let blur = self.blur(i, nodes);
            let slope = self.mean_size(i, mean(i));
            sum += slope * blur + ROUNDING * self.terms(i, nodes, slope);
            let most = nodes.slope[i * count].abs().max(nodes.slope[i * count + count - 1].abs());
            worst += most * blur + ROUNDING * self.terms(i, nodes, most);
        }
        [sum, worst]
    }
}

/// w times a bound that may be infinite; a weight of 0 makes it 0.
pub(crate) fn weighted(w: f64, bound: f64) -> f64 {
    if w > 0.0 { w * bound } else { 0.0 }
}

/// Where the nodes are, and on what grounds.
struct Rule {
    height: f64,
    step: f64,
    exponent: f64,
    centre: f64,
    lean: f64,
    proved: bool,
    epsilon: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use certus_likelihood::{Binomial, Logistic};

    fn group<'a>(
        likelihood: &'a dyn Likelihood,
        t: &'a [f64],
        reach: &'a [f64],
        s: &'a [f64],
        data: &'a [Datum],
        weight: &'a [f64],
    ) -> GroupRows<'a> {
        GroupRows { likelihood, t, reach, s, shift: 0.0, columns: 1, data, weight }
    }

    /// Counts at a mean of e⁵⁰⁰ or e⁹⁰⁰, which no number is: the effect takes it back, and the integral is that of a
    /// grid around the mode by hand.
    #[test]
    fn modes_far_away_are_found() {
        for (t, s) in [(500.0, 0.15), (900.0, 2.0), (-700.0, 0.3)] {
            let data = [Datum { y: 3.0, trials: 1.0 }];
            let [at, reach, slope] = [[t], [f64::abs(t)], [s]];
            let rows = group(&certus_likelihood::Poisson, &at, &reach, &slope, &data, &[1.0]);
            // ψ′ = s(e^{t + su} − 3) + u = 0 by halves
            let (mut low, mut high) = (-1e5, 1e5);
            for _ in 0..200 {
                let u = 0.5 * (low + high);
                if s * ((t + s * u).exp() - 3.0) + u > 0.0 { high = u } else { low = u }
            }
            let mut nodes = Nodes::default();
            let found = rows.integrate(&mut nodes, EPSILON);
            assert!((found.mode - low).abs() < 1.0, "{t} {s}: {} {low}", found.mode);
            let least = rows.potential(low)[0];
            let curvature = rows.potential(low)[2];
            let h = 0.02 / curvature.sqrt();
            let sum: f64 =
                (-900..=900).map(|k| (least - rows.potential(low + f64::from(k) * h)[0]).exp()).sum();
            let by_hand = (sum * h / TAU.sqrt()).ln() - least;
            assert!((found.log / by_hand - 1.0).abs() < 1e-12, "{t} {s}: {} {by_hand}", found.log);
        }
    }

    /// 1,500 rows with one event, and 40 of 1,500 trials: the integral within its bound of a fine sum, with a few dozen
    /// nodes instead of hundreds.
    #[test]
    fn rare_events_take_few_nodes() {
        let cases: [(&dyn Likelihood, usize, f64); 2] = [(&Logistic, 1500, 1.0), (&Binomial, 40, 1500.0)];
        for (likelihood, n, trials) in cases {
            for equal in [true, false] {
                let t: Vec<f64> = (0..n).map(|i| -7.0 + 0.5 * (0.37 * i as f64).sin()).collect();
                let s: Vec<f64> =
                    (0..n).map(|i| if equal { 0.9 } else { 0.9 + 0.3 * (0.11 * i as f64).cos() }).collect();
                let data: Vec<Datum> =
                    (0..n).map(|i| Datum { y: f64::from(u8::from(i == 3)), trials }).collect();
                let (reach, weight): (Vec<f64>, _) = (t.iter().map(|t| t.abs()).collect(), vec![1.0; n]);
                let rows = group(likelihood, &t, &reach, &s, &data, &weight);
                let mut nodes = Nodes::default();
                let found = rows.integrate(&mut nodes, EPSILON);
                let h = 1.0 / 64.0;
                let sum: f64 = (-900..=900).map(|k| (-rows.potential(f64::from(k) * h)[0]).exp()).sum();
                let by_hand = (sum * h / TAU.sqrt()).ln();
                assert!(found.error < 2.0 * EPSILON, "{}", found.error);
                assert!((found.log - by_hand).abs() <= found.error + 1e-11, "{} {by_hand}", found.log);
                assert!(nodes.u.len() <= 56, "{}", nodes.u.len());
            }
        }
    }

    /// 120 random groups with rare or frequent events and unequal slopes: the bound holds, and is what was asked for.
    #[test]
    fn bounds_hold_for_rare_events() {
        let mut state = 5u64;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let negative = certus_likelihood::NegativeBinomial::new(1.5).expect("a dispersion");
        let kinds: [&dyn Likelihood; 3] = [&Logistic, &Binomial, &negative];
        for case in 0..120 {
            let (likelihood, n) = (kinds[case % 3], 2 + (400.0 * uniform() * uniform()) as usize);
            let (middle, slope) = (-9.0 + 12.0 * uniform(), 3.0 * uniform().powi(2) + 0.01);
            let trials = if case % 3 == 1 { 1.0 + (30.0 * uniform()).floor() } else { 1.0 };
            let equal = uniform() < 0.5;
            let (mut t, mut s, mut data) = (vec![], vec![], vec![]);
            for _ in 0..n {
                let at = middle + 2.0 * uniform();
                let chance = at.exp() / (1.0 + at.exp());
                t.push(at);
                s.push(if equal { slope } else { slope * (2.0 * uniform() - 0.5) });
                let y = (0..trials as usize).filter(|_| uniform() < chance).count() as f64;
                data.push(Datum { y: if case % 3 == 2 { (3.0 * y).floor() } else { y }, trials });
            }
            let (reach, weight): (Vec<f64>, _) = (t.iter().map(|t: &f64| t.abs()).collect(), vec![1.0; n]);
            let rows = group(likelihood, &t, &reach, &s, &data, &weight);
            let mut nodes = Nodes::default();
            let found = rows.integrate(&mut nodes, EPSILON);
            let (mode, here) = rows.mode();
            let h = 1.0 / (24.0 * here[2].sqrt());
            let psi = |k: i32| rows.potential(mode + f64::from(k) * h)[0];
            let sum: f64 = (-1200..=1200).map(|k| (here[0] - psi(k)).exp()).sum();
            let by_hand = (sum * h / TAU.sqrt()).ln() - here[0];
            assert!(found.error < 4.0 * EPSILON, "{case}: {}", found.error);
            let off = (found.log - by_hand).abs();
            assert!(off <= found.error + 1e-13 * (1.0 + here[0].abs()), "{case}: {off:e} {}", found.error);
        }
    }
}
