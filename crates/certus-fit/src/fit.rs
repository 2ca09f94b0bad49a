//! One result: what was found, what it means, and its posterior, which is a Gaussian, a mixture of them or draws. It
//! writes itself, reads itself, draws and predicts; every interface shows the same.

mod draws;

use std::collections::BTreeMap;

use certus::{Gaussian, Goal, Outcome};
use certus_data::{Source, Storage};
use certus_likelihood::{Link, Response};

use crate::arrays::Arrays;
use crate::coefficient_map::{CoefficientMap, Quantity};
use crate::directory::{FitDirectory, GROUPS, MEANING, SETTINGS};
use crate::error::{Error, Inconsistency};
use crate::groups::{EffectSource, GroupTable};
use crate::meta::meta;
use crate::posterior::PosteriorTable;
use crate::posterior_draws::{DRAWS, PosteriorDraws};
use crate::predict::{Groups, Levels, Predictions, Responses, predict, predict_mixture, predict_posterior};
use crate::problem::Problem;
use crate::record::{GroupEffect, Meta, Parameter, Record};
use crate::refusal::RequestError;
use crate::report::Extras;
use crate::run::RunOutcome;
use crate::settings::Settings;
use crate::variance::mixture::MixturePosterior;
use crate::variance::names::UnknownScales;

/// A finished fit.
pub struct Fit {
    /// fit.json.
    pub record: Record,
    /// The fitted Gaussian; of a mixture, the one with its mean and covariance.
    pub gaussian: Gaussian,
    /// What the latents mean; `None` for black boxes.
    pub meaning: Option<CoefficientMap>,
    /// The parameters as combinations of latents.
    pub quantities: Vec<Quantity>,
    /// The mixture over variance parameters that were not given, and which those are.
    pub mixture: Option<(MixturePosterior, UnknownScales)>,
    /// Latents of draws of the posterior, if its printed numbers are not the Gaussian's.
    pub posterior_draws: Option<PosteriorDraws>,
    effects: Effects,
}

/// What groups.parquet is made of, where there is one.
enum Effects {
    None,
    /// The coefficients of groups, too many to list: the rows of every level, and what is proved.
    Table(Vec<Vec<i64>>, String),
    /// The effects of groups that were integrated out.
    Integrated(Vec<GroupEffect>),
    /// The file that was read.
    File(Vec<u8>),
}

/// Makes the record of a fit that has no Gaussian the result of the directory.
pub fn write_failed(
    record: &Record,
    meaning: &CoefficientMap,
    directory: &FitDirectory,
    keep_checkpoints: bool,
) -> Result<(), Error> {
    write_words(record, Some(meaning), directory)?;
    directory.commit(keep_checkpoints)
}

/// Meaning, settings and record.
fn write_words(
    record: &Record,
    meaning: Option<&CoefficientMap>,
    directory: &FitDirectory,
) -> Result<(), Error> {
    if let Some(meaning) = meaning {
        directory.write(MEANING, &serde_json::to_vec(meaning).expect("meanings are plain values"))?;
    }
    directory.write(SETTINGS, record.settings.to_string().as_bytes())?;
    record.write(directory)
}

impl Fit {
    /// Of a black box: its latents have names, and are its parameters if no others are given. What is printed is what
    /// NUTS `sampled`, if anything.
    pub fn of_target(
        mut outcome: Outcome,
        names: Vec<String>,
        parameters: Vec<Parameter>,
        settings: &Settings,
        sampled: Option<PosteriorTable>,
    ) -> Result<Self, RequestError> {
        let (choice, seed) = (settings.posterior()?, settings.seed());
        let weighed = || PosteriorTable::of_black_box(&mut outcome, choice, settings.accuracy, seed);
        let table = sampled.or_else(weighed);
        let record = Record::new(&outcome, Meta { parameters, ..meta(settings) }).printing_own();
        let record = match &table {
            Some(table) => record.printing_table(table),
            None => record,
        };
        let quantities = coordinates(names.into_iter());
        let (gaussian, effects) = (outcome.gaussian, Effects::None);
        let posterior_draws = table.map(|table| PosteriorDraws::new(gaussian.dim(), table.draws));
        Ok(Self { record, gaussian, meaning: None, quantities, mixture: None, posterior_draws, effects })
    }

    /// Of a run that has ended.
    pub fn of_run(ended: RunOutcome, problem: &Problem, settings: &Settings, goal: &Goal) -> Self {
        let RunOutcome { outcome, scales, table } = ended;
        let notes = problem.notes_of(goal, &outcome);
        let record = |parameters| Record::new(&outcome, problem.meta(settings, parameters, notes));
        let printed = |record: Record| match &table {
            Some(table) => record.printing_table(table),
            None => record,
        };
        let (record, effects, mixture) = match (scales, problem.collapsed()) {
            (Some(scales), Some(scale_model)) => {
                let scales = problem.with_effects(scales);
                let mut record = printed(record(scales.parameters));
                record.certificate.scale = scales.scale;
                record.describe(scales.mixed);
                let groups = scales.groups;
                let effects = if groups.is_empty() { Effects::None } else { Effects::Integrated(groups) };
                (record, effects, Some((scales.mixture_posterior, scale_model.unknown_scales.clone())))
            }
            _ => {
                let normals = problem.on_user_scale(&outcome.gaussian);
                let named = problem.quantities.iter().zip(&normals);
                let parameters = named.map(|(q, n)| Parameter::normal(&q.name, n.mean, n.sd)).collect();
                let effects = match problem.meaning.has_table() {
                    true => {
                        let stated = match &table {
                            Some(table) => {
                                let count = table.draws.len() / outcome.gaussian.dim().max(1);
                                GroupTable::stated_draws(table.source, count)
                            }
                            None => GroupTable::stated(&outcome.certificate.gap),
                        };
                        Effects::Table(problem.rows_by_level(), stated)
                    }
                    false => Effects::None,
                };
                (printed(record(parameters).printing_own()), effects, None)
            }
        };
        let draws = table.map(|table| table.draws);
        let dim = outcome.gaussian.dim() + scale_count(&mixture);
        Self {
            posterior_draws: draws.map(|draws| PosteriorDraws::new(dim, draws)),
            record,
            gaussian: outcome.gaussian,
            meaning: Some(problem.meaning.clone()),
            quantities: problem.quantities.clone(),
            mixture,
            effects,
        }
    }

    /// The same fit with the Gaussian's own numbers and draws.
    #[must_use]
    pub fn of_gaussian(&self) -> Self {
        let mut record = self.record.clone();
        record.table = None;
        record.parameters = record.gaussian.take().map_or(record.parameters, |own| own.parameters);
        Self {
            record,
            gaussian: self.gaussian.clone(),
            meaning: self.meaning.clone(),
            quantities: self.quantities.clone(),
            mixture: self.mixture.clone(),
            posterior_draws: None,
            effects: Effects::None,
        }
    }

    /// Of its parts, as files or pickles keep them.
    pub fn of_parts(record: Record, arrays: Arrays, meaning: Option<CoefficientMap>) -> Result<Self, Error> {
        let gaussian = arrays.gaussian;
        let quantities = match &meaning {
            Some(meaning) => meaning.quantities(),
            None => coordinates(record.parameters.iter().map(|p| p.name.clone())),
        };
        let dim = meaning.as_ref().map_or(quantities.len(), CoefficientMap::dim);
        if gaussian.dim() != dim {
            return Err(Inconsistency::Latents { arrays: gaussian.dim(), meaning: dim }.into());
        }
        let mixture = match &meaning {
            Some(meaning) => mixture(&record, meaning, dim, &arrays.vectors)?,
            None => None,
        };
        // the logarithms of scales that were not given follow the coefficients
        let dim = dim + scale_count(&mixture);
        let posterior_draws = match (&record.table, arrays.vectors.get(DRAWS)) {
            (Some(_), Some(draws)) if !draws.is_empty() && draws.len().is_multiple_of(dim.max(1)) => {
                Some(PosteriorDraws::new(dim, draws.clone()))
            }
            (Some(_), _) => return Err(Inconsistency::NoDraws { dim }.into()),
            (None, _) => None,
        };
        Ok(Self { record, gaussian, meaning, quantities, mixture, posterior_draws, effects: Effects::None })
    }

    /// From its directory.
    pub fn read(directory: &FitDirectory) -> Result<Self, Error> {
        let (record, arrays) = (Record::read(directory)?, Arrays::read(directory)?);
        let meaning = match directory.read(MEANING) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|e| damaged(directory, &e))?),
            Err(_) if record.model == "target" => None,
            Err(error) => return Err(error),
        };
        let mut fit = Self::of_parts(record, arrays, meaning)?;
        if directory.has(GROUPS) {
            fit.effects = Effects::File(directory.read(GROUPS)?);
        }
        Ok(fit)
    }

    /// The arrays that the Gaussian or the mixture is kept in.
    pub fn arrays(&self) -> Arrays {
        let mut vectors = self
            .mixture
            .as_ref()
            .map(|(mixture_posterior, _)| mixture_posterior.vectors())
            .unwrap_or_default();
        vectors
            .extend(self.posterior_draws.iter().map(|draws| (DRAWS.to_string(), draws.latents().to_vec())));
        Arrays { gaussian: self.gaussian.clone(), vectors }
    }

    /// Writes everything and makes it the result of the directory, as a whole; a run that was stopped can be resumed if
    /// its checkpoints are kept.
    pub fn write(&self, directory: &FitDirectory, keep_checkpoints: bool) -> Result<(), Error> {
        self.arrays().write(directory)?;
        if let Some(bytes) = self.groups_file()? {
            directory.write(GROUPS, &bytes)?;
        }
        write_words(&self.record, self.meaning.as_ref(), directory)?;
        directory.commit(keep_checkpoints)
    }

    fn groups_file(&self) -> Result<Option<Vec<u8>>, Error> {
        let Some(meaning) = &self.meaning else { return Ok(None) };
        let (table, stated) = match (&self.effects, &self.mixture) {
            (Effects::File(bytes), _) => return Ok(Some(bytes.clone())),
            (Effects::Integrated(effects), Some((_, unknown_scales))) => {
                let own = self.own_coefficients()?;
                let table = GroupTable::integrated(&meaning.encoding, &unknown_scales.effects, effects, &own);
                (Some(table), GroupTable::NOTHING)
            }
            (Effects::Table(rows, stated), _) => {
                let source = match &self.posterior_draws {
                    Some(draws) => EffectSource::Draws(draws),
                    None => EffectSource::Gaussian(&self.gaussian),
                };
                (GroupTable::new(meaning, rows, &source), stated.as_str())
            }
            _ => return Ok(None),
        };
        table.map(|table| table.to_parquet(stated)).transpose()
    }

    /// Predictions for the rows of a source, with quantiles at `levels`. `groups` applies only to fits whose group sd
    /// was not given.
    pub fn predict(
        &self,
        source: &dyn Source,
        groups: Option<Groups>,
        levels: &Levels,
        storage: &Storage,
    ) -> Result<Predictions, Error> {
        let meaning = self.meaning()?;
        let responses = &Responses::of_fit(self, levels.clone())?;
        match (&self.mixture, groups) {
            (None, Some(_)) => {
                Err(RequestError::no_effect("`groups`", "fits whose group sd was not given").into())
            }
            (None, None) => match &self.posterior_draws {
                Some(draws) => Ok(predict_posterior(responses, meaning, draws, source, storage)?),
                None => Ok(predict(responses, meaning, &self.gaussian, source, storage)?),
            },
            (Some((mixture_posterior, unknown_scales)), groups) => predict_mixture(
                responses,
                meaning,
                unknown_scales,
                mixture_posterior,
                self.posterior_draws.as_ref(),
                groups.unwrap_or_default(),
                source,
                storage,
            ),
        }
    }

    /// What the latents mean; a black box does not know.
    pub fn meaning(&self) -> Result<&CoefficientMap, RequestError> {
        self.meaning.as_ref().ok_or(RequestError::NothingToPredict)
    }

    /// The link of the response.
    pub fn link(&self) -> Result<Link, Error> {
        Ok(self.record.model.parse::<Response>()?.link())
    }

    /// What the report needs beyond the record.
    pub fn extras(&self) -> Extras {
        let density = match (&self.mixture, &self.posterior_draws) {
            (Some((_, unknown_scales)), _) if unknown_scales.scales.is_empty() => Vec::new(),
            (Some((_, unknown_scales)), Some(draws)) => {
                draws.density(self.gaussian.dim(), unknown_scales.scales[0].unit)
            }
            (Some((mixture_posterior, unknown_scales)), None) => mixture_posterior.density(unknown_scales),
            (None, _) => Vec::new(),
        };
        Extras { density, ..extras(&self.record, self.meaning.as_ref()) }
    }
}

/// What the report says about the data, also for a fit that has no Gaussian.
pub fn extras(record: &Record, meaning: Option<&CoefficientMap>) -> Extras {
    let text = |key: &str| record.settings[key].as_str().map(String::from);
    let named = [("file", text("data")), ("where", text("where")), ("query", text("sql"))];
    let named = named.into_iter().filter_map(|(what, value)| Some((what.to_string(), value?)));
    let encoding = meaning.map(|m| &m.encoding);
    Extras {
        title: encoding.map(|e| format!("{} regression of {}", record.model, e.response)),
        data: named.chain(encoding.map(|e| e.described()).unwrap_or_default()).collect(),
        encoding: encoding.cloned(),
        ..Extras::default()
    }
}

/// Scales that were not given.
fn scale_count(mixture: &Option<(MixturePosterior, UnknownScales)>) -> usize {
    mixture.as_ref().map_or(0, |(_, unknown_scales)| unknown_scales.scales.len())
}

/// The parameters at draws of coefficients and log scales, one draw after the other.
fn draws_with_scales(
    quantities: &[Quantity],
    unknown_scales: &UnknownScales,
    dim: usize,
    latents: &[f64],
) -> Vec<f64> {
    let mut out = Vec::new();
    for z in latents.chunks_exact(dim) {
        out.extend(quantities.iter().map(|q| q.terms.iter().map(|(i, a)| a * z[*i]).sum::<f64>()));
        let logs = &z[dim - unknown_scales.scales.len()..];
        out.extend(unknown_scales.rows.iter().map(|row| row.at_logs(logs)));
    }
    out
}

fn coordinates(names: impl Iterator<Item = String>) -> Vec<Quantity> {
    names.enumerate().map(|(i, name)| Quantity { name, terms: vec![(i, 1.0)] }).collect()
}

fn damaged(directory: &FitDirectory, reason: &dyn std::fmt::Display) -> Error {
    Error::damaged(&directory.file(MEANING), reason.to_string())
}

/// The mixture of a fit whose variance parameters were not all given.
fn mixture(
    record: &Record,
    meaning: &CoefficientMap,
    dim: usize,
    vectors: &BTreeMap<String, Vec<f64>>,
) -> Result<Option<(MixturePosterior, UnknownScales)>, Error> {
    let response = record.model.parse::<Response>().map_err(Inconsistency::from)?;
    let number = |key: &str| record.settings[key].as_f64();
    // groups without latents
    let integrated = meaning.latents.is_empty() && !meaning.encoding.groups.is_empty();
    let unknown_scales =
        UnknownScales::of(&meaning.encoding, response, number("sigma"), number("dispersion"), integrated);
    let unknown_scales = unknown_scales.map_err(|e| Inconsistency::Scales(Box::new(e)))?;
    let Some(unknown_scales) = unknown_scales else { return Ok(None) };
    let mixture_posterior = MixturePosterior::of_vectors(dim, &unknown_scales, vectors);
    let missing = || Inconsistency::NoMixture { names: unknown_scales.names() };
    let mixture_posterior = mixture_posterior.ok_or_else(missing)??;
    Ok(Some((mixture_posterior, unknown_scales)))
}
