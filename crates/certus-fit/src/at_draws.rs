//! The rows of a fit at draws of its posterior: linear predictors, and the parameter of the likelihood.

use certus::parallel;
use certus_data::is_chosen;
use certus_likelihood::Response;
use certus_models::rows::{Leaf, leaves};

use crate::error::Error;
use crate::fit::Fit;
use crate::joint_effects::JointEffects;
use crate::predict::{KnownGroups, PredictedRow, unknown_parameter};
use crate::problem::Problem;
use crate::refusal::RequestError;
use crate::variance::names::UnknownScales;

/// Linear predictors at draws.
enum Predictors<'a> {
    /// Of latents: draws of the first, of the second, …
    Latents(Vec<f64>, usize),
    Groups(KnownGroups<'a>),
    /// Of coefficients, scales and effects that were drawn together.
    Joint(JointEffects<'a>),
}

impl Predictors<'_> {
    fn linear(&self, row: &PredictedRow<'_>) -> Vec<f64> {
        match self {
            Self::Latents(columns, draws) => {
                let mut t = vec![row.offset; *draws];
                for (j, a) in row.terms {
                    certus::linalg::add_scaled(&mut t, *a, &columns[j * draws..][..*draws]);
                }
                t
            }
            Self::Groups(groups) => groups.linear(row),
            Self::Joint(joint) => joint.linear(row),
        }
    }
}

/// Of draws one after the other, those of each latent together.
fn columns(latents: &[f64], dim: usize) -> Predictors<'static> {
    let draws = latents.len() / dim.max(1);
    let columns = (0..dim * draws).map(|at| latents[at % draws * dim + at / draws]).collect();
    Predictors::Latents(columns, draws)
}

/// What is known of rows at draws of the posterior.
pub(crate) struct AtDraws<'a> {
    predictors: Predictors<'a>,
    /// The parameter of the likelihood at the same draws; one if it was given, or there is none.
    pub(crate) parameters: Vec<Option<f64>>,
    /// What was assumed beyond the draws.
    pub(crate) note: Option<&'static str>,
    /// Which of the draws are those of [`Fit::draws`], in their order.
    pub(crate) order: Vec<usize>,
    /// About one row of every so many is looked at, see [`is_chosen`].
    pub(crate) every: usize,
}

impl<'a> AtDraws<'a> {
    fn new(predictors: Predictors<'a>, parameters: Vec<Option<f64>>, order: Vec<usize>) -> Self {
        Self { predictors, parameters, note: None, order, every: 1 }
    }

    /// Does `work` on every row of the problem, given its linear predictor at every draw, and hands what it made to
    /// `take`, row by row in order.
    pub(crate) fn each_row<T: Send>(
        &self,
        problem: &Problem,
        work: &(dyn Fn(&Leaf<'_>, usize, Vec<f64>) -> T + Sync),
        take: &mut dyn FnMut(T),
    ) -> Result<(), Error> {
        let (meaning, prepared) = (&problem.meaning, &problem.prepared);
        let (rows, p) = (meaning.rows(), prepared.encoding.features.len());
        let of_row = |leaf: &Leaf<'_>, i: usize| {
            let x: Vec<f64> = (0..p).map(|j| leaf.x.get(i, j)).collect();
            let levels: Vec<usize> =
                prepared.codes.iter().map(|codes| codes[leaf.first + i] as usize).collect();
            let only: Vec<f64> = prepared.effects.iter().map(|column| column[leaf.first + i]).collect();
            let mut terms = Vec::new();
            rows.terms(&x, &levels, &mut terms);
            let offset = leaf.offset_of(i);
            let row = PredictedRow { terms: &terms, only: &only, offset, levels: &levels };
            work(leaf, i, self.predictors.linear(&row))
        };
        let mut installed = Ok(());
        for index in 0..leaves(&*prepared.rows) {
            prepared.rows.leaf(index, &mut |leaf| {
                let chosen = (0..leaf.y.len()).filter(|i| is_chosen(leaf.first + i, self.every));
                let mut own: Vec<(usize, Option<T>)> = chosen.map(|i| (i, None)).collect();
                let one = |_: usize, out: &mut [(usize, Option<T>)]| {
                    out.iter_mut().for_each(|(i, made)| *made = Some(of_row(&leaf, *i)));
                };
                if let Err(error) = parallel::install(None, || parallel::for_each_piece(&mut own, 1, 8, &one))
                {
                    installed = Err(error);
                }
                own.into_iter().filter_map(|(_, made)| made).for_each(&mut *take);
            })?;
        }
        Ok(installed.map_err(certus_models::Error::from)?)
    }
}

impl Fit {
    /// The rows of the fit at draws of its posterior: where they are not kept, `count` of them that follow from the
    /// seed.
    pub(crate) fn at_draws(&self, problem: &Problem, count: usize, seed: u64) -> Result<AtDraws<'_>, Error> {
        let meaning = self.meaning()?;
        let response: Response = self.record.model.parse()?;
        let given = response.parameter().map(|p| (p, self.record.settings[p.name()].as_f64()));
        let unknown = given.filter(|(_, value)| value.is_none()).map(|(p, _)| p.name());
        let known = given.and_then(|(_, value)| value);
        let own_order = (0..count).collect();
        let Some((mixture, scales)) = &self.mixture else {
            let latents = self.latents(count, seed);
            return Ok(AtDraws::new(columns(&latents, self.gaussian.dim()), vec![known], own_order));
        };
        if self.is_estimate() {
            return Err(
                RequestError::NoDraws("its scales are estimates; infer their posterior instead").into()
            );
        }
        let linear = response == Response::Linear && !scales.effects.is_empty();
        if let Some(points) = self.joint_points(count, seed).filter(|_| linear) {
            let joint = JointEffects::new(problem, scales, points, known)?;
            let parameters = joint.noise();
            let order = (0..count).map(|k| k % joint.count()).collect();
            return Ok(AtDraws::new(Predictors::Joint(joint), parameters, order));
        }
        let Some(draws) = &self.posterior_draws else {
            if !scales.effects.is_empty() {
                return Err(RequestError::NoDraws("the effects of its groups have no draws").into());
            }
            let (mut latents, mut parameters) = (Vec::new(), Vec::new());
            mixture.each_draw(scales, count, seed, |z, drawn| {
                latents.extend_from_slice(z);
                parameters.push(parameter(unknown, scales, drawn).or(known));
            });
            return Ok(AtDraws::new(columns(&latents, mixture.dim()), parameters, own_order));
        };
        let effects = mixture.effects.as_ref();
        if !scales.effects.is_empty() && effects.is_none() {
            return Err(RequestError::NoDraws("it does not have the effects of its groups").into());
        }
        let drawn_apart = effects.is_some_and(|effects| !effects.deviations.is_empty());
        if drawn_apart && unknown.is_some() {
            let words = "the effects of its groups and the parameter of the likelihood have no joint draws";
            return Err(RequestError::NoDraws(words).into());
        }
        let groups = KnownGroups::new(meaning.dim(), scales, effects, draws);
        let parameters = match unknown {
            Some(name) => unknown_parameter(self, name).into_iter().map(Some).collect(),
            None => vec![known],
        };
        let mut at = AtDraws::new(Predictors::Groups(groups), parameters, draws.places(count, seed));
        let note = "the effects of groups are taken to be normal, given the coefficients";
        at.note = (!scales.effects.is_empty()).then_some(note);
        Ok(at)
    }

    /// True if scales are estimates, so that there are no draws of a posterior.
    pub(crate) fn is_estimate(&self) -> bool {
        self.posterior_draws.is_none() && self.mixture.as_ref().is_some_and(|(m, _)| m.is_estimated())
    }

    /// The rows of the fit at its estimates, with `count` draws of new effects of all groups.
    pub(crate) fn at_estimate(
        &self,
        problem: &Problem,
        count: usize,
        seed: u64,
    ) -> Result<AtDraws<'_>, Error> {
        let Some((mixture, unknown)) = &self.mixture else {
            return Err(RequestError::NoDraws("it has no estimates of scales").into());
        };
        let (node, scales) = (&mixture.nodes[0], &mixture.scales[0]);
        let response: Response = self.record.model.parse()?;
        let parameter = response.parameter().and_then(|own| {
            let given = self.record.settings[own.name()].as_f64();
            given.or_else(|| parameter(Some(own.name()), unknown, scales))
        });
        let joint = JointEffects::of_new_groups(problem, unknown, (&node.mean, scales), count, seed)?;
        let mut at = AtDraws::new(Predictors::Joint(joint), vec![parameter], (0..count).collect());
        at.note = Some(match unknown.effects.is_empty() {
            true => "all data sets have the estimated coefficients and scales",
            false => {
                "all data sets have the estimated coefficients and scales, and each has new effects of all groups, so \
                 that the residuals of a group go together"
            }
        });
        Ok(at)
    }

    /// How many draws of [`Fit::at_estimate`] there can be, up to `count`.
    pub(crate) fn affordable(&self, problem: &Problem, count: usize) -> usize {
        let unknown = self.mixture.as_ref().map(|(_, unknown)| unknown);
        unknown.map_or(count, |unknown| JointEffects::affordable(problem, unknown).clamp(1, count))
    }

    /// Coefficients and scales at the draws of [`Fit::draws`]; `None` if the scales are given.
    fn joint_points(&self, count: usize, seed: u64) -> Option<Vec<(Vec<f64>, Vec<f64>)>> {
        let (mixture, scales) = self.mixture.as_ref()?;
        let dim = self.gaussian.dim();
        let mut out = Vec::with_capacity(count);
        match &self.posterior_draws {
            Some(draws) => {
                let one = |z: &[f64]| (z[..dim].to_vec(), scales.of_coordinates(&z[dim..]));
                out.extend(draws.take(count, seed).chunks_exact(draws.dim()).map(one));
            }
            None => mixture.each_draw(scales, count, seed, |z, s| out.push((z.to_vec(), s.to_vec()))),
        }
        Some(out)
    }
}

/// The parameter of the likelihood at some scales, if it is one of them.
fn parameter(name: Option<&str>, scales: &UnknownScales, drawn: &[f64]) -> Option<f64> {
    let row = scales.rows.iter().find(|row| Some(row.name.as_str()) == name)?;
    Some(row.at(drawn))
}
