//! The rule for means and sds of the posterior from draws (docs/certificate-format.md, sections 13 to 15): importance
//! weights of repeatable draws of q, with a bound of the tail of the weights. The claim holds with a probability.

mod normals;
mod text;

use std::cell::RefCell;

use self::normals::{Normals, birnbaum, density};
use crate::array::{Array, dot};
use crate::ball::{Ball, U, exp, log, log_one_plus, up};
use crate::gap::block::Frame;
use crate::model::{Model, last, prior, require};
use crate::moments::Likelihood;
use crate::refusal::Refusal;
use crate::rule::Rule;
use crate::sha256::Hash;
use crate::text::triangle;

pub(crate) const CLAIM: &str = "posterior-moments";

/// A combination of the coefficients, and what is claimed of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Its name, for readers.
    pub name: String,
    /// a.
    pub weights: Vec<f64>,
    /// The posterior mean of aᵀz is between these.
    pub mean: [f64; 2],
    /// And its sd.
    pub sd: [f64; 2],
}

/// What is certified, and the hints.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawsCertificate {
    /// The probability with which the claim may be false, at most.
    pub delta: f64,
    /// The model.
    pub model: Model,
    /// Number of rows, and rows per block.
    pub rows: [u64; 2],
    /// The root of the hash tree.
    pub root: Hash,
    /// m.
    pub mean: Vec<f64>,
    /// C, its lower triangle row by row; q = N(m, CC′).
    pub factor: Vec<f64>,
    /// n.
    pub pairs: u64,
    /// c, about the mean of V.
    pub level: f64,
    /// w₀ and r₀: the set A.
    pub growth: [f64; 2],
    /// τ and ξ.
    pub cap: [f64; 2],
    /// What is claimed of combinations.
    pub directions: Vec<Direction>,
    /// SHA-256 of all that is above.
    pub seed: Hash,
    /// z with q(A) ≥ Φ(z).
    pub tail: f64,
    /// KL(posterior ‖ q) is at most this.
    pub divergence: f64,
    /// Hashes of the blocks.
    pub blocks: Vec<Hash>,
    /// What the rows so far have given.
    pub draws: Draws,
}

/// The draws with their potentials, while rows are read. They are no part of the certificate.
#[derive(Clone, Debug, Default)]
pub struct Draws(RefCell<State>);

impl PartialEq for Draws {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    /// Blocks that were seen, from the first on.
    seen: usize,
    /// x of every pair, with |x| and a bound of how far it is from the truth.
    x: Vec<f64>,
    norms: Vec<[f64; 2]>,
    /// V and its gradient at x and −x, and how far the gradient may be from the truth.
    values: Vec<Ball>,
    gradients: Vec<f64>,
    rads: Vec<f64>,
}

/// What the draws say, in units of q.
#[derive(Clone, Debug)]
pub struct Weighted {
    /// KL(posterior ‖ q) is at most this.
    pub divergence: f64,
    /// Lower and upper end of the mean of every direction, then of the sd.
    pub moments: Vec<[[f64; 2]; 2]>,
}

/// φ and φ′ at all members of t.
fn loss(likelihood: Likelihood, y: f64, trials: f64, t: Ball) -> [Ball; 2] {
    match likelihood {
        Likelihood::Linear(sd) => {
            let (apart, precision) = (t - y, Ball::exact(1.0) / (Ball::exact(sd) * sd));
            [apart * apart * precision * 0.5, apart * precision]
        }
        Likelihood::Poisson => {
            let rate = t.exp();
            [rate - t * y, rate - y]
        }
        Likelihood::Logistic | Likelihood::Binomial => {
            let e = exp(-t.mid.abs()).mid;
            let (soft, one) = (log_one_plus(e), 1.0 / (1.0 + e));
            // slopes of log(1 + eᵗ) and σ are at most 1 and ¼; e is wrong by 8u, or 0 instead of 1e-300
            let soft = Ball::new(soft, up(16.0 * U * soft + t.rad + 1e-290)) + t.mid.max(0.0);
            let sigma = Ball::new(if t.mid >= 0.0 { one } else { e * one }, up(0.25 * t.rad + 16.0 * U));
            [soft * trials - t * y, sigma * trials - y]
        }
    }
}

/// The interval of an expectation from independent variables between two numbers, each end wrong with probability
/// 2e^{−log} at most (Maurer and Pontil).
fn interval(values: &[Ball], range: Ball, log: Ball) -> [f64; 2] {
    let n = values.len() as f64;
    let mean = values.iter().fold(Ball::ZERO, |sum, x| sum + *x) / n;
    let square =
        |sum: Ball, x: &Ball| sum + Ball::new(x.mid - mean.mid, U * (x.mid - mean.mid).abs()).squared();
    // sums of squares about any number are larger than about the mean; the sd moves by twice the radius at most
    let variance = values.iter().fold(Ball::ZERO, square) / (n - 1.0);
    let worst = values.iter().fold(0.0f64, |worst, x| if x.rad <= worst { worst } else { x.rad });
    let sd = variance.sqrt() + 2.0 * worst;
    let half = sd * (log * 2.0 / n).sqrt() + range * log * 7.0 / (3.0 * (n - 1.0));
    [(mean - half).lower(), (mean + half).upper()]
}

/// N/Z for all members of two intervals, 0 < Z.
fn ratio([low, high]: [f64; 2], [least, most]: [f64; 2]) -> [f64; 2] {
    let over = |x: f64, z: f64| Ball::exact(x) / z;
    [
        over(low, if low < 0.0 { least } else { most }).lower(),
        over(high, if high < 0.0 { most } else { least }).upper(),
    ]
}

impl DrawsCertificate {
    /// d.
    pub fn dim(&self) -> usize {
        self.model.dim()
    }

    /// Numbers per row: columns, response, trials, offset, weight.
    pub fn numbers(&self) -> usize {
        self.model.columns.len() + 4
    }

    /// Signs and sizes that the theorem requires.
    pub fn requirements(&self) -> Result<(), Refusal> {
        self.model.requirements()?;
        let ([least, radius], [tau, clip]) = (self.growth, self.cap);
        let mut diagonal = triangle(&self.factor).map(|row| row[row.len() - 1]);
        require(&[
            (self.delta > 0.0 && self.delta <= 0.5, "delta is between 0 and 1/2"),
            (diagonal.all(|x| x > 0.0), "the diagonal of the factor is positive"),
            (self.pairs >= 2, "there are two pairs"),
            (radius > 0.0 && radius < self.tail, "0 < r₀ < z"),
            (tau >= 0.0 && tau >= least, "τ is not negative and not below w₀"),
            ((2.0..=100.0).contains(&clip), "ξ is between 2 and 100"),
        ])
    }

    /// The draws, with the prior's part of V and of its gradient.
    fn begin(&self) -> Result<State, Refusal> {
        let (d, n) = (self.dim(), self.pairs as usize);
        let (slope, mut matrix) = prior(&self.model, &self.mean, &self.factor);
        let mut identity = vec![0.0; d * d];
        identity.iter_mut().step_by(d + 1).for_each(|x| *x = 1.0);
        matrix = matrix.plus(-1.0, &Array { mid: identity, rad: 0.0 });
        let mut normals = Normals { seed: self.seed, count: 0, left: None };
        let mut out = State::default();
        for _ in 0..n {
            let x = (0..d).map(|_| normals.next()).collect::<Result<Vec<_>, _>>()?;
            let x = Array::of(&x);
            let (norm, apart) = (up(dot(&x.mid, &x.mid).sqrt().upper()), x.rad);
            for sign in [1.0, -1.0] {
                let x: Vec<f64> = x.mid.iter().map(|x| sign * x).collect();
                let mut pull = matrix.times(&x, d);
                pull.rad = up(pull.rad + matrix.size() * apart);
                let value = slope.dot(&x) + pull.dot(&x) * 0.5;
                let wrong = up((slope.size() + pull.size()) * apart);
                out.values.push(value + Ball::new(0.0, wrong));
                let gradient = slope.plus(1.0, &pull);
                out.gradients.extend(gradient.mid);
                out.rads.push(gradient.rad);
            }
            out.x.extend(x.mid);
            out.norms.push([norm, apart]);
        }
        Ok(out)
    }

    /// Adds w φ and w φ′ã of one row at every draw.
    fn add(&self, state: &mut State, [y, trials, weight]: [f64; 3], c: Ball, a: &[f64], eps: f64) {
        let d = a.len();
        let norm = up(dot(a, a).sqrt().upper());
        let State { x, norms, values, gradients, rads, .. } = state;
        for (i, (x, [size, apart])) in x.chunks_exact(d).zip(norms).enumerate() {
            let move_by: f64 = a.iter().zip(x).map(|(a, x)| a * x).sum();
            let wrong = up((d as f64 + 4.0) * U * norm * *size + eps * (*size + *apart) + norm * *apart);
            let t = Ball::new(move_by, wrong);
            for (k, t) in [(2 * i, c + t), (2 * i + 1, c - t)] {
                let [value, slope] = loss(self.model.likelihood, y, trials, t).map(|ball| ball * weight);
                values[k] = values[k] + value;
                let mut largest = 0.0f64;
                for (sum, a) in gradients[k * d..][..d].iter_mut().zip(a) {
                    *sum += slope.mid * a;
                    largest = largest.max(sum.abs());
                }
                // two roundings per entry
                let rounded = 2.0 * U * (largest * d as f64 + slope.mid.abs() * norm);
                rads[k] = up(rads[k] + rounded + slope.mid.abs() * eps + slope.rad * (norm + eps));
            }
        }
    }

    /// log W of all draws (c − V) and upper bounds of |∇W|, at x and −x of every pair.
    pub fn log_weights(&self) -> Result<Vec<(Ball, f64)>, Refusal> {
        if self.blocks.is_empty() {
            *self.draws.0.borrow_mut() = self.begin()?;
        }
        let state = self.draws.0.borrow();
        if state.seen != self.blocks.len() {
            return Err(Refusal::NotCheckable("this claim needs all rows at once".into()));
        }
        let steep = state.gradients.chunks_exact(self.dim()).zip(&state.rads);
        let steep = steep.map(|(gradient, rad)| up(dot(gradient, gradient).sqrt().upper() + rad));
        Ok(state.values.iter().map(|v| Ball::exact(self.level) - *v).zip(steep).collect())
    }

    /// δ′ of each of the statements, as −log δ′.
    pub fn share(&self) -> Ball {
        -log(Ball::exact(self.delta) / (4.0 + 4.0 * self.directions.len() as f64))
    }

    /// True if q(A) ≥ Φ(z) is proved with its part of the probability, where so many pairs were outside.
    pub fn tail_is_proved(&self, z: f64, outside: u64) -> bool {
        let n = self.pairs as f64;
        let (z, one) = (Ball::exact(z), Ball::exact(1.0));
        let p = Ball::exact((density(z) * birnbaum(z)).lower());
        let part = Ball::exact(outside as f64) / n;
        if p.mid.is_nan() || part.upper() >= p.mid {
            return false;
        }
        let mut divergence = (one - part) * log((one - part) / (one - p));
        if outside > 0 {
            divergence = divergence + part * log(part / p);
        }
        (divergence * n - self.share()).lower() >= 0.0
    }

    /// How many pairs have an x that is not proved to be in A.
    pub fn outside(&self, log_weights: &[(Ball, f64)]) -> u64 {
        let inside = |(v, steep): &(Ball, f64)| v.upper() <= self.growth[0] && *steep <= self.growth[1];
        log_weights.iter().step_by(2).filter(|draw| !inside(draw)).count() as u64
    }

    /// T₀, T₁, T₂ and T_K of section 14.
    pub fn tails(&self) -> [f64; 4] {
        let ([least, radius], [tau, _], one) = (self.growth, self.cap, Ball::exact(1.0));
        let (z, r) = (Ball::exact(self.tail), Ball::exact(radius));
        let a = z - r;
        let rho = ((r * r + (Ball::exact(tau) - least) * 2.0).sqrt() - r).lower().max(0.0);
        let (b, y) = (r + rho, z + rho);
        let g = (Ball::exact(least) - a * rho).exp() * density(z) / a;
        let [t1, t2] = [b + one / a, b * y + (b + y) / a + Ball::exact(2.0) / (a * a) + 1.0];
        let k = (b + one / a) / a + tau + 1.0;
        [g, g * t1 * 2.0, g * t2 * 2.0, g * k].map(Ball::upper)
    }

    /// What follows from all draws.
    pub fn weigh(&self) -> Result<Weighted, Refusal> {
        let all = self.log_weights()?;
        let [tau, clip] = self.cap;
        let outside = self.outside(&all);
        if !self.tail_is_proved(self.tail, outside) {
            let why = format!("tail {:e} is not proved: {outside} draws are not in the set", self.tail);
            return Err(Refusal::NotProved(why));
        }
        let [t0, t1, t2, tk] = self.tails();
        let (one, xi, log_share) =
            (Ball::exact(1.0), Ball::exact(clip), self.share() + log(Ball::exact(2.0)));
        let most = Ball::exact(tau).exp();
        // min(v, τ), w̄, and halves of sums and differences over pairs
        let capped: Vec<Ball> = all.iter().map(|(v, _)| Ball { mid: v.mid.min(tau), rad: v.rad }).collect();
        let weights: Vec<Ball> = capped.iter().map(|v| v.exp()).collect();
        let pairs = |sign: f64| weights.chunks_exact(2).map(move |w| (w[0] + w[1] * sign) * 0.5);
        let shifts: Vec<Ball> = pairs(1.0).map(|mean| mean - 1.0).collect();
        let [low, high] = interval(&shifts, most, log_share);
        let z = [(one + low).lower(), (one + high + t0).upper()];
        if z[0].is_nan() || z[0] <= 0.0 {
            return Err(Refusal::NotProved("the mean weight is not proved to be positive".into()));
        }
        let terms: Vec<Ball> = weights.iter().zip(&capped).map(|(w, v)| *w * *v).collect();
        let terms: Vec<Ball> = terms.chunks_exact(2).map(|two| (two[0] + two[1]) * 0.5).collect();
        let [_, high] = interval(&terms, most * tau + 0.368, log_share);
        let divergence =
            Ball::exact((Ball::exact(high) + tk).upper().max(0.0)) / z[0] - log(Ball::exact(z[0]));
        // what clipping at ξ loses
        let (gamma, h) = (density(xi), birnbaum(xi));
        let mean_lost = most * gamma * (one - xi * h) + t1;
        let lost = gamma * 2.0 * (xi - (xi * xi - 1.0) * h);
        let square = Ball::exact((xi * xi - 1.0).upper());
        let range =
            Ball::exact(square.size().max((most - 1.0).upper())) + ((most - 1.0) * square).upper().max(1.0);
        let state = self.draws.0.borrow();
        let mut moments = Vec::new();
        for direction in &self.directions {
            let column = |j: usize| {
                let entry = |i: usize| Ball::exact(direction.weights[i]) * self.factor[i * (i + 1) / 2 + j];
                (j..self.dim()).fold(Ball::ZERO, |sum, i| sum + entry(i))
            };
            let pull: Vec<Ball> = (0..self.dim()).map(column).collect();
            let norm = pull.iter().fold(Ball::ZERO, |sum, x| sum + x.squared()).sqrt();
            let pull = Array::of(&pull);
            let place = |(x, [_, apart]): (&[f64], &[f64; 2])| {
                let at = (pull.dot(x) + Ball::new(0.0, up(pull.size() * *apart))) / norm;
                Ball { mid: at.mid.clamp(-clip, clip), rad: at.rad }
            };
            let places: Vec<Ball> = state.x.chunks_exact(self.dim()).zip(&state.norms).map(place).collect();
            let odd: Vec<Ball> = pairs(-1.0).zip(&places).map(|(w, g)| w * *g).collect();
            let even: Vec<Ball> = shifts.iter().zip(&places).map(|(y, g)| *y * (g.squared() - 1.0)).collect();
            let [low, high] = interval(&odd, most * xi, log_share);
            let mean = ratio([(Ball::exact(low) - mean_lost).lower(), (mean_lost + high).upper()], z);
            let [low, high] = interval(&even, range, log_share);
            let [low, high] =
                [(Ball::exact(low) - t0 - lost).lower(), (lost * (most - 1.0) + high + t2).upper()];
            let [low, high] = ratio([low, high], z).map(|x| one + x);
            let [far, near] = [mean[0].abs().max(mean[1].abs()), mean[0].max(-mean[1]).max(0.0)];
            let variance = [low - Ball::exact(far).squared(), high - Ball::exact(near).squared()];
            let sd = [variance[0].lower(), variance[1].upper()].map(|v| Ball::exact(v.max(0.0)).sqrt());
            let centre = dot(&direction.weights, &self.mean);
            let mean = mean.map(|x| centre + norm * x);
            let sd = sd.map(|x| norm * x);
            moments.push([[mean[0].lower(), mean[1].upper()], [sd[0].lower().max(0.0), sd[1].upper()]]);
        }
        Ok(Weighted { divergence: divergence.upper(), moments })
    }
}

impl Rule for DrawsCertificate {
    fn tree(&self) -> (Hash, Vec<(Hash, u64)>) {
        let [rows, most] = self.rows;
        let bytes = |block: u64| most.min(rows - most * block) * 8 * self.numbers() as u64;
        (self.root, self.blocks.iter().zip(0..).map(|(hash, block)| (*hash, bytes(block))).collect())
    }

    fn rows(&self, block: usize, bytes: &[u8]) -> Result<(), Refusal> {
        let mut state = self.draws.0.borrow_mut();
        if block == 0 {
            *state = self.begin()?;
        } else if state.seen != block {
            return Err(Refusal::NotCheckable("this claim needs all rows, from the first on".into()));
        }
        let frame = Frame::new(&self.model, &self.mean, &self.factor);
        let (d, numbers) = (self.dim(), self.numbers());
        let (mut row, mut v, mut a) = (vec![0.0; numbers], vec![1.0; d], vec![0.0; d]);
        for words in bytes.chunks_exact(8 * numbers) {
            let legal = self.model.row(words, &mut row);
            legal.map_err(|what| Refusal::NotProved(format!("a row of block {block} {what}")))?;
            let [y, trials, offset, weight] = last(&row);
            let (c, _, eps) = frame.predictor(&row[..numbers - 4], offset, &mut v, &mut a);
            self.add(&mut state, [y, trials, weight], c, &a, eps);
        }
        state.seen += 1;
        Ok(())
    }

    fn prove(&self) -> Result<[String; 2], Refusal> {
        let found = self.weigh()?;
        let refused = |what: String| Err(Refusal::NotProved(what));
        if found.divergence.is_nan() || found.divergence > self.divergence {
            return refused(format!("only a divergence of at most {:e} nats is proved", found.divergence));
        }
        let mut claims = String::new();
        for (direction, [mean, sd]) in self.directions.iter().zip(found.moments) {
            let Direction { name, mean: m, sd: s, .. } = direction;
            let name = name.escape_debug();
            if !(m[0] <= mean[0] && mean[1] <= m[1] && s[0] <= sd[0] && sd[1] <= s[1]) {
                return refused(format!(
                    "of {name} only a mean between {:e} and {:e} and an sd between {:e} and {:e} are proved",
                    mean[0], mean[1], sd[0], sd[1]
                ));
            }
            let (m, s) = (format!("{:e} and {:e}", m[0], m[1]), format!("{:e} and {:e}", s[0], s[1]));
            claims += &format!("; the mean of {name} is between {m}, its sd between {s}");
        }
        let sentence = format!(
            "with a probability of at least 1 − {:e} (of {} pairs of draws) KL(posterior ‖ q) is at most {:e} \
             nats{claims}; {} with the stated prior.",
            self.delta,
            self.pairs,
            self.divergence,
            self.model.data(self.rows[0], &self.root)
        );
        Ok([sentence, "the probability is that of SHA-256 as a source of independent bits".into()])
    }
}
