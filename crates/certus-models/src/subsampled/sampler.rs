//! Which rows a step looks at: independent draws with p_n = ½|ã_n|/Σ|ã| + ½|ã_n|²/Σ|ã|² (docs/maths.md, part F). One
//! number is kept per leaf; the numbers of a leaf's rows are made when one of them is drawn.

use certus::Gaussian;
use certus::parallel;
use certus::random::{Purpose, Random};

use crate::certificate::placed::Placed;
use crate::certificate::row::Row;
use crate::error::{Declined, Error};
use crate::glm::Glm;
use crate::rows::{Failure, leaves};
use certus_likelihood::Likelihood;

/// A row of a batch: ã and what the estimator needs of the loss.
#[derive(Clone, Debug)]
pub(crate) struct Picked {
    /// ã.
    pub(super) at: Vec<f64>,
    /// c, datum and weight.
    pub(super) row: Row,
    /// p.
    pub(super) probability: f64,
}

/// A leaf, a place among the rows drawn, and where in the leaf.
type Drawn = (usize, usize, f64);

/// Draws rows in the frame of a Gaussian.
pub(crate) struct Sampler<'a> {
    placed: Placed<'a>,
    /// Σ|ã| and Σ|ã|².
    sums: [f64; 2],
    /// The probability of each leaf and those before it.
    cumulative: Vec<f64>,
}

impl<'a> Sampler<'a> {
    /// One pass; also Σ v and Σ v|ã| from above, where v·|ã|² bounds E(1 + |u|²)(wρ′)²|ã|² of a row on the ball of
    /// radius r (Lemma F2).
    pub(super) fn new(model: &'a Glm, w: &Gaussian, radius: f64) -> Result<(Self, [f64; 2]), Error> {
        let placed = Placed::new(model, w)?;
        let likelihood = model.likelihood();
        let (failure, count) = (Failure::default(), leaves(model.design().rows()));
        let mut each = vec![[0.0; 4]; count];
        parallel::for_each_piece(&mut each, 1, 1, &|index, out| {
            failure.note(placed.leaf(index, |rows, _| {
                for row in rows {
                    let v = noise_of_row(likelihood, row, model.dim(), radius);
                    let added = [row.sd, row.sd * row.sd, v, v * (row.sd + row.delta)];
                    out[0].iter_mut().zip(added).for_each(|(o, x)| *o += x);
                }
            }));
        });
        failure.into_result()?;
        let add = |a: [f64; 4], b: [f64; 4]| [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]];
        let total = parallel::reduce(count, 64, &|k| each[k], &add).unwrap_or([0.0; 4]);
        if !(total[1] > 0.0 && total[1].is_finite()) {
            let reason = "every row of the design is 0, so there is nothing to draw";
            return Err(Declined::RowBatches { reason, remedy: "use auto" }.into());
        }
        let mut sampler = Self { placed, sums: [total[0], total[1]], cumulative: Vec::new() };
        let mut before = 0.0;
        sampler.cumulative = each
            .iter()
            .map(|leaf| {
                before += sampler.mass(leaf[0], leaf[1]);
                before
            })
            .collect();
        Ok((sampler, [total[2], total[3]]))
    }

    /// Σ|ã| and Σ|ã|².
    pub(super) fn sums(&self) -> [f64; 2] {
        self.sums
    }

    /// ½ first/Σ|ã| + ½ second/Σ|ã|².
    fn mass(&self, first: f64, second: f64) -> f64 {
        0.5 * first / self.sums[0] + 0.5 * second / self.sums[1]
    }

    /// p of a row.
    pub(super) fn probability(&self, row: &Row) -> f64 {
        self.mass(row.sd, row.sd * row.sd)
    }

    /// The batches of steps `first..first + steps`, `size` rows each, one after the other. Every leaf is read once at
    /// most.
    pub(super) fn batches(
        &self,
        random: &Random,
        first: u64,
        steps: usize,
        size: usize,
    ) -> Result<Vec<Picked>, Error> {
        let mut drawn: Vec<Drawn> = Vec::with_capacity(steps * size);
        let mut uniforms = vec![0.0; 2 * size];
        let whole = *self.cumulative.last().expect("there is a leaf");
        for step in 0..steps {
            random.uniforms(first + step as u64, 0, 2, &mut uniforms);
            for (k, pair) in uniforms.chunks_exact(2).enumerate() {
                let leaf = self.cumulative.partition_point(|mass| *mass <= pair[0] * whole);
                drawn.push((leaf.min(self.cumulative.len() - 1), step * size + k, pair[1]));
            }
        }
        drawn.sort_unstable_by_key(|(leaf, place, _)| (*leaf, *place));
        let mut found: Vec<(&[Drawn], Vec<Picked>)> =
            drawn.chunk_by(|a, b| a.0 == b.0).map(|run| (run, Vec::new())).collect();
        let failure = Failure::default();
        parallel::for_each_piece(&mut found, 1, 1, &|_, part| {
            let (run, picked) = &mut part[0];
            failure.note(self.placed.leaf(run[0].0, |rows, at| *picked = self.pick(rows, at, run)));
        });
        failure.into_result()?;
        let mut out: Vec<Option<Picked>> = vec![None; steps * size];
        for (run, picked) in found {
            run.iter().zip(picked).for_each(|((_, place, _), row)| out[*place] = Some(row));
        }
        Ok(out.into_iter().map(|row| row.expect("every place was drawn")).collect())
    }

    /// The rows of one leaf at which the running sum of p first exceeds a part of the leaf's.
    fn pick(&self, rows: &[Row], at: &[f64], run: &[Drawn]) -> Vec<Picked> {
        let n = rows.len();
        let mut sum = 0.0;
        let cumulative: Vec<f64> = rows
            .iter()
            .map(|row| {
                sum += self.probability(row);
                sum
            })
            .collect();
        let one = |(_, _, part): &Drawn| {
            let i = cumulative.partition_point(|mass| *mass <= part * sum).min(n - 1);
            let at = at.iter().skip(i).step_by(n).copied().collect();
            Picked { at, row: rows[i], probability: self.probability(&rows[i]) }
        };
        run.iter().map(one).collect()
    }

    /// Every row, for tests.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<Picked> {
        let mut out = Vec::new();
        for index in 0..self.cumulative.len() {
            let each = |rows: &[Row], at: &[f64]| {
                for (i, row) in rows.iter().enumerate() {
                    let at = at.iter().skip(i).step_by(rows.len()).copied().collect();
                    out.push(Picked { at, row: *row, probability: self.probability(row) });
                }
            };
            self.placed.leaf(index, each).expect("finite");
        }
        out
    }
}

/// E(1 + |u|²)(a + bx)² and E(1 + |u|²)(a + bx)⁴ for u ~ N(0, I_d), x one of its coordinates: (d+1)a² + (d+3)b² and
/// (d+1)a⁴ + 6(d+3)a²b² + 3(d+5)b⁴.
pub(super) fn moments(dim: usize, a: f64, b: f64) -> [f64; 2] {
    let (d, a, b) = (dim as f64, a * a, b * b);
    [(d + 1.0) * a + (d + 3.0) * b, (d + 1.0) * a * a + 6.0 * (d + 3.0) * a * b + 3.0 * (d + 5.0) * b * b]
}

/// A bound of E(1 + |u|²)(wρ′)² on the ball of radius r: |ρ′(x)| is at most ½κx² and at most η|x|, η = sup|φ″ − φ″(c)|
/// ≤ max(φ″(c), θ_max − φ″(c)). Infinite where neither φ‴ nor φ″ is bounded.
pub(super) fn noise_of_row(likelihood: &dyn Likelihood, row: &Row, dim: usize, radius: f64) -> f64 {
    let norm = row.sd + row.delta;
    // a row without weight or length adds nothing, however its loss curves
    if row.weight == 0.0 || norm == 0.0 {
        return 0.0;
    }
    let [second, fourth] = moments(dim, radius * norm, (1.0 + radius) * norm);
    let curvature = likelihood.second_derivative(row.mean, row.datum);
    // c is known up to its rounding, which changes φ″ by a hundredth at the very most
    let change =
        likelihood.second_derivative_max(row.datum).map(|most| 1.01 * (most - curvature).max(curvature));
    let by_bend = change.map_or(f64::INFINITY, |eta| eta * eta * second);
    let by_twist =
        likelihood.third_derivative_max(row.datum).map_or(f64::INFINITY, |k| 0.25 * k * k * fourth);
    row.weight * row.weight * by_bend.min(by_twist)
}

/// The source of row batches of a run.
pub(super) fn random(seed: u64, model_key: u64) -> Random {
    Random::new(seed, Purpose::Rows, model_key)
}
