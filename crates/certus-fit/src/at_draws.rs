//! The rows of a fit at draws of its posterior: linear predictors, and the parameter of the likelihood.

use certus::parallel;
use certus_likelihood::Response;
use certus_models::rows::{Leaf, leaves};

use crate::error::Error;
use crate::fit::Fit;
use crate::predict::{DRAWS, KnownGroups, PredictedRow, SEED, unknown_parameter};
use crate::problem::Problem;
use crate::refusal::RequestError;

/// Linear predictors at draws.
enum Predictors<'a> {
    /// Of latents: draws of the first, of the second, …
    Latents(Vec<f64>, usize),
    Groups(KnownGroups<'a>),
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
}

impl<'a> AtDraws<'a> {
    fn new(predictors: Predictors<'a>, parameters: Vec<Option<f64>>, note: Option<&'static str>) -> Self {
        Self { predictors, parameters, note }
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
                let mut own: Vec<Option<T>> = (0..leaf.y.len()).map(|_| None).collect();
                let work =
                    || parallel::for_each_piece(&mut own, 1, 8, &|i, out| out[0] = Some(of_row(&leaf, i)));
                if let Err(error) = parallel::install(None, work) {
                    installed = Err(error);
                }
                own.into_iter().flatten().for_each(&mut *take);
            })?;
        }
        Ok(installed.map_err(certus_models::Error::from)?)
    }
}

impl Fit {
    /// The rows of the fit at draws of its posterior.
    pub(crate) fn at_draws(&self) -> Result<AtDraws<'_>, Error> {
        let meaning = self.meaning()?;
        let response: Response = self.record.model.parse()?;
        let given = response.parameter().map(|p| (p, self.record.settings[p.name()].as_f64()));
        let unknown = given.filter(|(_, value)| value.is_none()).map(|(p, _)| p.name());
        let parameters = || match (unknown, given) {
            (Some(name), _) => unknown_parameter(self, name).into_iter().map(Some).collect(),
            (None, given) => vec![given.and_then(|(_, value)| value)],
        };
        let Some((mixture, scales)) = &self.mixture else {
            let latents = self.latents(DRAWS, SEED);
            return Ok(AtDraws::new(columns(&latents, self.gaussian.dim()), parameters(), None));
        };
        match &self.posterior_draws {
            Some(draws) => {
                let effects = mixture.effects.as_ref();
                if !scales.effects.is_empty() && effects.is_none() {
                    return Err(RequestError::NoDraws("it does not have the effects of its groups").into());
                }
                let drawn_apart = effects.is_some_and(|effects| !effects.deviations.is_empty());
                if drawn_apart && unknown.is_some() {
                    let words =
                        "the effects of its groups and the parameter of the likelihood have no joint draws";
                    return Err(RequestError::NoDraws(words).into());
                }
                let groups = KnownGroups::new(meaning.dim(), scales, effects, draws);
                let note = "the effects of groups are taken to be normal, given the coefficients";
                let note = (!scales.effects.is_empty()).then_some(note);
                Ok(AtDraws::new(Predictors::Groups(groups), parameters(), note))
            }
            None if mixture.log_covariance.is_some() => {
                Err(RequestError::NoDraws("its scales are estimates; infer their posterior instead").into())
            }
            None if scales.effects.is_empty() => {
                let mut latents = Vec::new();
                mixture.each_draw(scales, DRAWS, SEED, |z, _| latents.extend_from_slice(z));
                Ok(AtDraws::new(columns(&latents, mixture.dim()), parameters(), None))
            }
            None => Err(RequestError::NoDraws("the effects of its groups have no draws").into()),
        }
    }
}
