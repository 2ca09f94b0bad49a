//! Linear mixed models some of whose sds are given: coefficients and effects are Gaussian given the other scales, which
//! are one or two, searched and integrated over on a grid, or none (docs/mixed.md, L0 and P1).

use std::ops::ControlFlow;

use certus::linalg;
use certus::random::{Purpose, Random};
use certus_data::Prepared;
use certus_likelihood::{Auxiliary, Prior};
use certus_mixed::collapsed::{Effect, Node};
use certus_mixed::linear::{Coefficients, Conditional, Criterion, EffectLaws};
use certus_mixed::scales::{Care, ConditionalFit, ScaleProblem};
use certus_models::Error;

use super::estimate::STREAM;
use super::model::LinearMixed;
use crate::request::Request;
use crate::variance::effect_rows::each_row;
use crate::variance::engine::{ClosedForm, GivenEffects, JointLaw};
use crate::variance::mixture::Law;
use crate::variance::names::UnknownScales;
use crate::variance::request::given_as_they_vary;

/// Multiplications of a pass over the rows beyond which crossed groups are integrated out although all is given.
const TREE_WORK: f64 = 1e9;
/// An sd below this part of the spread of the residuals is none.
const SMALLEST: f64 = 1e-4;
/// Draws of coefficients and effects that are kept for predictions, and numbers of them, at most.
const DRAWS: usize = 1000;
const NUMBERS: usize = 4_000_000;
/// Effects up to which quantiles are those of the mixture over the grid, and not of one normal law.
const MIXED: usize = 2000;

/// Whether the groups of a linear model whose scales are all given are integrated out in closed form: if they are
/// crossed and the elimination tree of their coefficients is so deep that a pass over the rows takes long. All groups
/// but those around the most numerous ones are on the path of every row, and a row takes the square of its path.
pub(crate) fn integrated(prepared: &Prepared, request: &Request) -> bool {
    let encoding = &prepared.encoding;
    let groups = &encoding.groups;
    let given = request.own().is_none() && groups.iter().all(|g| g.sd.is_some());
    let linear = request.spec.model.parameter() == Some(Auxiliary::Sigma);
    let plain = encoding.effects.is_empty() && given_as_they_vary(encoding);
    if !(linear && given && plain) || prepared.rows.ranks().is_some_and(|ranks| ranks.count() > 1) {
        return false;
    }
    let outermost = |mut g: usize| {
        while let Some(next) = groups[g].within {
            g = next;
        }
        g
    };
    let tops = (0..groups.len()).filter(|g| groups[*g].within.is_none());
    let Some(most) = tops.max_by_key(|g| groups[*g].levels.len()) else { return false };
    let beside = (0..groups.len()).filter(|g| outermost(*g) != most);
    let others: usize = beside.map(|g| groups[g].levels.len() * groups[g].slopes.len()).sum();
    let path = (others + encoding.coefficients().len()) as f64;
    others > 0 && prepared.rows_used as f64 * path * path > TREE_WORK
}

/// A linear mixed model with a prior of its coefficients and scales of which some are given.
pub(crate) struct GivenMixed {
    pub(crate) model: LinearMixed,
    prior: Prior,
    /// Its precision matrix.
    precision: Vec<f64>,
    sigma: Option<f64>,
}

impl GivenMixed {
    /// Sums up the rows.
    pub(crate) fn new(
        prepared: &Prepared,
        unknown_scales: &UnknownScales,
        prior: Prior,
        sigma: Option<f64>,
    ) -> Result<Self, Error> {
        let model = LinearMixed::new(prepared, unknown_scales, Criterion::Ml)?;
        let p = prior.dim();
        let mut precision = vec![0.0; p * p];
        prior.add_to(&mut precision);
        Ok(Self { model, prior, precision, sigma })
    }

    fn unknown(&self) -> &UnknownScales {
        &self.model.terms.unknown_scales
    }

    /// Given the scales that are not given: the model, and the law of its coefficients.
    fn at(&self, scales: &[f64]) -> Result<(Conditional<'_>, Coefficients), Error> {
        let all: Vec<f64> = scales.iter().copied().chain(self.sigma).collect();
        let at = self.model.conditional(&all)?;
        let law = self.model.named(at.coefficients(self.prior.mean(), &self.precision))?;
        Ok((at, law))
    }

    /// −log p(β).
    fn energy(&self, beta: &[f64]) -> f64 {
        let apart: Vec<f64> = beta.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; apart.len()];
        self.prior.add_precision_times(&apart, &mut pull);
        0.5 * linalg::dot(&apart, &pull) + self.prior.constant()
    }

    /// In the order of the model.
    fn ordered(&self, found: EffectLaws, p: usize) -> EffectLaws {
        let terms = &self.model.terms;
        let column = |c: usize| found.covariances.iter().skip(c).step_by(p).copied().collect::<Vec<f64>>();
        let columns: Vec<Vec<f64>> = (0..p).map(|c| terms.ordered(&column(c))).collect();
        let count = found.means.len();
        EffectLaws {
            means: terms.ordered(&found.means),
            variances: terms.ordered(&found.variances),
            covariances: (0..count * p).map(|k| columns[k % p][k / p]).collect(),
            draws: Vec::new(),
        }
    }
}

impl ClosedForm for GivenMixed {
    fn fit_at(&self, scales: &[f64]) -> Result<ConditionalFit, Error> {
        let (at, law) = self.at(scales)?;
        let d = law.mean.len();
        let log_likelihood = at.log_likelihood(&law.mean);
        let log_det = 2.0 * (0..d).map(|j| law.precision[j * (d + 1)].ln()).sum::<f64>();
        Ok(ConditionalFit {
            value: self.energy(&law.mean) - log_likelihood,
            log_likelihood,
            lower: linalg::lower_of_inverse(&law.precision, d),
            log_det,
            error: 0.0,
            evaluations: 1,
            beta: law.mean,
        })
    }

    fn effects(
        &self,
        nodes: &[Node],
        scales: &[Vec<f64>],
        look: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Option<GivenEffects>, Error> {
        let (p, count) = (self.model.dim(), self.model.effects_count());
        let draws = (NUMBERS / (p + count)).clamp(1, DRAWS);
        // one effect alone is predicted with its covariance
        let draws = if self.unknown().effects.len() > 1 { draws } else { 0 };
        let of_node = shares(nodes, draws);
        let (mut laws, mut drawn) = (Vec::with_capacity(nodes.len()), Vec::new());
        for (k, scales) in scales.iter().enumerate() {
            if look(k).is_break() {
                return Ok(None);
            }
            let (at, law) = self.at(scales)?;
            let mut normals = vec![0.0; of_node[k].len() * (p + count)];
            let first = of_node[k].start as u64;
            Random::new(0, Purpose::Sample, 0).normals(STREAM, first, p + count, &mut normals);
            let found = self.model.named(at.effects_under(&law, &normals))?;
            for draw in found.draws.chunks_exact(p + count) {
                drawn.extend_from_slice(&draw[..p]);
                drawn.extend(self.model.terms.ordered(&draw[p..]));
            }
            laws.push(self.ordered(found, p));
        }
        let weights: Vec<f64> = nodes.iter().map(|n| n.weight).collect();
        let average = |of: &dyn Fn(usize) -> f64| (0..nodes.len()).map(|k| weights[k] * of(k)).sum::<f64>();
        let beta: Vec<f64> = (0..p).map(|c| average(&|k| nodes[k].mean[c])).collect();
        let mut effects = Vec::with_capacity(count);
        for (e, (group, rows)) in self.model.terms.levels_of_effects().enumerate() {
            let own = |k: usize| [weights[k], laws[k].means[e], laws[k].variances[e].max(0.0).sqrt()];
            let law = Law((0..nodes.len()).map(own).collect());
            let (mean, sd) = law.moments();
            let quantiles = match nodes.len() > 1 && count <= MIXED {
                true => [0.05, 0.5, 0.95].map(|q| law.quantile(q)),
                false => [-1.0, 0.0, 1.0].map(|z| mean + z * certus::gaussian::NORMAL_95 * sd),
            };
            let with = |c: usize| {
                let one = |k: usize| {
                    laws[k].covariances[e * p + c] + (laws[k].means[e] - mean) * (nodes[k].mean[c] - beta[c])
                };
                average(&one)
            };
            effects.push(Effect { group, rows, mean, sd, quantiles, covariance: (0..p).map(with).collect() });
        }
        let center = beta.iter().copied().chain(effects.iter().map(|e| e.mean));
        let center: Vec<f64> = center.collect();
        for draw in drawn.chunks_exact_mut(p + count) {
            draw.iter_mut().zip(&center).for_each(|(x, c)| *x -= c);
        }
        Ok(Some(GivenEffects { effects, deviations: drawn }))
    }

    /// e = [X Z]ᵀ(y − Xβ − Zb)/σ² − P(z − m), what the normal equations leave at coefficients and effects, all scales
    /// given: |z − z*| in the precision matrix H of the posterior is √(eᵀH⁻¹e), here with the variances of z for H⁻¹,
    /// an estimate. As the effects' prior is part of H, a variance is at most its prior's.
    fn residual(&self, prepared: &Prepared, node: &Node, effects: &[Effect]) -> Result<f64, Error> {
        let (p, terms) = (self.model.dim(), &self.model.terms);
        let Some(sigma) = self.sigma else { return Ok(f64::NAN) };
        let order: Vec<usize> = terms.list.iter().flat_map(|t| t.effects.iter().copied()).collect();
        let mut left = vec![0.0; p + effects.len()];
        each_row(prepared, terms, &mut |row| {
            let at = |k: usize| {
                let effect = &self.unknown().effects[order[k]];
                effect.first + row.levels[terms.factor_of(effect.term)] as usize
            };
            let fixed: f64 = row.fixed.iter().zip(&node.mean).map(|(x, b)| x * b).sum();
            let random: f64 = row.effects.iter().enumerate().map(|(k, z)| z * effects[at(k)].mean).sum();
            let by = row.weight * (row.datum.y - row.offset - fixed - random) / (sigma * sigma);
            row.fixed.iter().zip(&mut left).for_each(|(x, e)| *e += x * by);
            for (k, z) in row.effects.iter().enumerate() {
                left[p + at(k)] += z * by;
            }
        })?;
        let apart: Vec<f64> = node.mean.iter().zip(self.prior.mean()).map(|(b, m)| b - m).collect();
        let mut pull = vec![0.0; p];
        self.prior.add_precision_times(&apart, &mut pull);
        left.iter_mut().zip(&pull).for_each(|(e, x)| *e -= x);
        for effect in &self.unknown().effects {
            let sd = self.unknown().sd(effect, &[]);
            for e in effect.first..effect.first + effect.levels {
                left[p + e] -= effects[e].mean / (sd * sd);
            }
        }
        // factor of the covariance of β
        let mut turned = vec![0.0; p];
        linalg::add_transpose_times(&node.factor, p, true, &left[..p], &mut turned);
        let own: f64 = left[p..].iter().zip(effects).map(|(e, effect)| (e * effect.sd).powi(2)).sum();
        Ok((linalg::norm_squared(&turned) + own).sqrt())
    }
}

/// Which of so many draws each node has: numbers in proportion to the weights.
fn shares(nodes: &[Node], draws: usize) -> Vec<std::ops::Range<usize>> {
    let (mut sum, mut from, mut out) = (0.0, 0, Vec::with_capacity(nodes.len()));
    for node in nodes {
        sum += node.weight;
        let to = ((sum * draws as f64).round() as usize).clamp(from, draws);
        out.push(from..to);
        from = to;
    }
    out
}

impl ScaleProblem for GivenMixed {
    fn dim(&self) -> usize {
        self.model.dim()
    }

    fn names(&self) -> &'static [&'static str] {
        if self.unknown().scales.len() == 1 { &["scale"] } else { &["first scale", "second scale"] }
    }

    fn start(&self) -> Vec<f64> {
        vec![self.spread().ln(); self.unknown().scales.len()]
    }

    fn floor(&self) -> Vec<f64> {
        let mut out = vec![(SMALLEST * self.spread()).ln(); self.unknown().scales.len()];
        if let (None, Some(noise)) = (self.sigma, out.last_mut()) {
            *noise = f64::NEG_INFINITY;
        }
        out
    }

    /// From far below the residuals of least squares to far above those of the prior mean.
    fn range(&self) -> Vec<[f64; 2]> {
        let apart = self.model.statistics.square(self.prior.mean()) / self.model.statistics.weight();
        let start = self.spread().ln();
        let most = start.max(0.5 * apart.max(f64::MIN_POSITIVE).ln()) + 2.0;
        let floor = self.floor();
        floor.iter().map(|low| [if low.is_finite() { *low } else { start - 7.0 }, most]).collect()
    }

    fn conditional_fit(&self, x: &[f64], _start: &[f64], _care: Care) -> Result<ConditionalFit, Error> {
        self.fit_at(&x.iter().map(|x| x.exp()).collect::<Vec<_>>())
    }

    fn bracket(&self, _x: &[f64], _beta: &[f64]) -> Result<[f64; 2], String> {
        Err("the rounding of sums over groups whose sds are given is not bounded".into())
    }
}

impl GivenMixed {
    /// The spread of the residuals of least squares, half of it noise.
    fn spread(&self) -> f64 {
        let statistics = &self.model.statistics;
        let square = statistics.square(statistics.least_squares()) / statistics.weight();
        (0.5 * square).max(f64::MIN_POSITIVE).sqrt()
    }
}

#[cfg(test)]
mod tests;
