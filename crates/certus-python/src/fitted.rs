//! A fit: its record and its Gaussian, draws and predictions from it, and the directory it is kept in.

use std::collections::BTreeMap;
use std::path::PathBuf;

use certus::factor::Workspace;
use certus::{Gaussian, Outcome};
use certus_data::{
    Ended, Groups, Meaning, Mixed, Problem, Quantity, Storage, Varies, predict, predict_draws, predict_mixed,
};
use certus_store::directory::{MEANING, SETTINGS};
use certus_store::record::{Data, Parameter};
use certus_store::report::{Extras, report};
use certus_store::{Arrays, FitDirectory, Meta, Record};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::columns::table;
use crate::error::{data, raise, store, usage};
use crate::settings::Settings;

/// A fit.
#[pyclass(frozen, module = "certus._certus")]
pub(crate) struct Fitted {
    record: Record,
    gaussian: Gaussian,
    /// What the latents mean; `None` if they are the coordinates of a target.
    meaning: Option<Meaning>,
    quantities: Vec<Quantity>,
    /// The mixture of a model whose scales were not all given.
    mixed: Option<(Mixed, Varies)>,
}

/// Mean and sd of every coordinate under its name.
pub(crate) fn parameters(names: &[String], w: &Gaussian) -> Vec<Parameter> {
    let moments = w.mean().iter().zip(w.sd());
    names.iter().zip(moments).map(|(name, (mean, sd))| Parameter::normal(name, *mean, sd)).collect()
}

fn coordinates(names: impl Iterator<Item = String>) -> Vec<Quantity> {
    names.enumerate().map(|(i, name)| Quantity { name, terms: vec![(i, 1.0)] }).collect()
}

fn versions() -> BTreeMap<String, String> {
    [("certus", env!("CARGO_PKG_VERSION")), ("target", std::env::consts::ARCH), ("door", "python")]
        .map(|(a, b)| (a.to_string(), b.to_string()))
        .into_iter()
        .collect()
}

impl Fitted {
    pub(crate) fn of_target(
        outcome: Outcome,
        names: Vec<String>,
        parameters: Vec<Parameter>,
        settings: Settings,
    ) -> Self {
        let meta = Meta {
            model: "target".into(),
            parameters,
            settings: settings.value(),
            seed: settings.seed(),
            data: Data::default(),
            notes: Vec::new(),
            versions: versions(),
        };
        let record = Record::new(&outcome, meta);
        Self {
            record,
            gaussian: outcome.gaussian,
            meaning: None,
            quantities: coordinates(names.into_iter()),
            mixed: None,
        }
    }

    pub(crate) fn of_problem(
        outcome: Outcome,
        problem: &Problem,
        parameters: Vec<Parameter>,
        notes: Vec<String>,
        settings: Settings,
    ) -> Self {
        let meta = Self::meta(problem, parameters, notes, &settings);
        Self {
            record: Record::new(&outcome, meta),
            gaussian: outcome.gaussian,
            meaning: Some(problem.meaning.clone()),
            quantities: problem.quantities.clone(),
            mixed: None,
        }
    }

    pub(crate) fn of_ended(ended: Ended, problem: &Problem, notes: Vec<String>, settings: Settings) -> Self {
        let mut record = Record::new(&ended.outcome, Self::meta(problem, ended.parameters, notes, &settings));
        record.certificate.scale = Some(ended.scale);
        Self {
            record,
            gaussian: ended.outcome.gaussian,
            meaning: Some(problem.meaning.clone()),
            quantities: problem.quantities.clone(),
            mixed: problem.collapsed().map(|varying| (ended.mixed, varying.varies.clone())),
        }
    }

    fn meta(problem: &Problem, parameters: Vec<Parameter>, notes: Vec<String>, settings: &Settings) -> Meta {
        let prepared = &problem.prepared;
        Meta {
            model: settings.model.clone().unwrap_or_default(),
            parameters,
            settings: settings.value(),
            seed: settings.seed(),
            data: Data {
                rows: Some(prepared.rows_used as u64),
                fingerprint: Some(format!("{:016x}", prepared.fingerprint)),
            },
            notes,
            versions: versions(),
        }
    }

    fn of_parts(py: Python<'_>, record: Record, arrays: Arrays, meaning: Option<Meaning>) -> PyResult<Self> {
        let gaussian = arrays.gaussian;
        let quantities = match &meaning {
            Some(meaning) => meaning.quantities(),
            None => coordinates(record.parameters.iter().map(|p| p.name.clone())),
        };
        let dim = meaning.as_ref().map_or(quantities.len(), Meaning::dim);
        if gaussian.dim() != dim {
            let words = format!("the arrays have {} latents, but the names {dim}", gaussian.dim());
            return Err(raise(py, 65, &words));
        }
        let bad = |words: String| raise(py, 65, &words);
        let settings = Settings::read(py, &record.settings.to_string());
        let mixed = match (&meaning, arrays.vectors.contains_key("scale.sd")) {
            (Some(meaning), true) => {
                let family = record.model.parse().map_err(|e| data(py, &e))?;
                let (sigma, dispersion) = settings?.scales();
                let varies = Varies::of(&meaning.encoding, family, sigma, dispersion);
                let varies = varies.map_err(|e| data(py, &e))?;
                let varies = varies.ok_or_else(|| bad("a grid of scales, but all are given".into()))?;
                let mixed = Mixed::of_vectors(dim, varies.scales.len(), &arrays.vectors);
                mixed.transpose().map_err(bad)?.map(|mixed| (mixed, varies))
            }
            _ => None,
        };
        Ok(Self { record, gaussian, meaning, quantities, mixed })
    }

    fn meaning(&self, py: Python<'_>) -> PyResult<&Meaning> {
        self.meaning.as_ref().ok_or_else(|| {
            usage(py, "there is nothing to predict: the fit of a log density has no data; use fit.sample")
        })
    }

    fn arrays(&self) -> Arrays {
        let vectors = self.mixed.as_ref().map(|(mixed, _)| mixed.vectors()).unwrap_or_default();
        Arrays { gaussian: self.gaussian.clone(), vectors }
    }

    fn refuse_mixture(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        match self.mixed {
            Some(_) => Err(usage(
                py,
                &format!(
                    "{what} is of one Gaussian, but scales of the model were not given, so this is a mixture of them: use fit.sample"
                ),
            )),
            None => Ok(()),
        }
    }

    fn extras(&self) -> Extras {
        let encoding = self.meaning.as_ref().map(|m| &m.encoding);
        Extras {
            title: encoding.map(|e| format!("{} regression of {}", self.record.model, e.response)),
            data: encoding.map(|e| e.described()).unwrap_or_default(),
            density: self.mixed.as_ref().map_or(Vec::new(), |(mixed, varies)| mixed.density(varies)),
            ..Extras::default()
        }
    }
}

fn matrix<'py>(
    py: Python<'py>,
    values: Vec<f64>,
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    PyArray1::from_vec(py, values).reshape([rows, columns])
}

/// Names, and a row of numbers for each.
type Named<'py> = (Vec<String>, Bound<'py, PyArray2<f64>>);

#[pymethods]
impl Fitted {
    /// fit.json.
    fn json(&self) -> String {
        self.record.to_json()
    }

    /// What is known of the fit, a sentence each: the words of the command line and the report.
    fn verdict(&self) -> Vec<String> {
        self.record.verdict()
    }

    /// Latents.
    #[getter]
    fn dim(&self) -> usize {
        self.gaussian.dim()
    }

    /// Mean of the latents.
    fn latent_mean<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.gaussian.mean())
    }

    /// A with A Aᵀ the covariance of the named parameters, a row each.
    fn spread<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        if let Some((mixed, varies)) = &self.mixed {
            let (values, columns) = mixed.spread(&self.quantities, varies);
            let rows = values.len() / columns;
            return matrix(py, values, rows, columns);
        }
        let d = self.dim();
        let dense = self.gaussian.factor().to_dense();
        let mut out = vec![0.0; self.quantities.len() * d];
        for (row, quantity) in out.chunks_exact_mut(d).zip(&self.quantities) {
            for &(i, a) in &quantity.terms {
                (0..d).for_each(|j| row[j] += a * dense[j * d + i]);
            }
        }
        matrix(py, out, self.quantities.len(), d)
    }

    /// Draws of the parameters, one per row.
    fn sample<'py>(&self, py: Python<'py>, n: usize, seed: u64) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let values = py.detach(|| match &self.mixed {
            Some((mixed, varies)) => mixed.draws(&self.quantities, varies, n, seed),
            None => certus_data::draws(&self.quantities, &self.gaussian, n, seed),
        });
        let columns = self.record.parameters.len();
        matrix(py, values, n, columns)
    }

    /// The latents of the same draws.
    fn latents<'py>(&self, py: Python<'py>, n: usize, seed: u64) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.refuse_mixture(py, "latents")?;
        let values = py.detach(|| self.gaussian.sample(n, seed));
        matrix(py, values, n, self.dim())
    }

    /// log q at the rows of `latents`.
    fn log_q<'py>(
        &self,
        py: Python<'py>,
        latents: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.refuse_mixture(py, "log_q")?;
        let points: Vec<f64> = latents.as_array().iter().copied().collect();
        if !points.len().is_multiple_of(self.dim()) {
            return Err(usage(py, &format!("latents must have {} columns", self.dim())));
        }
        let mut values = vec![0.0; points.len() / self.dim()];
        if !self.gaussian.log_density(&points, &mut values, &mut Workspace::default()) {
            return Err(raise(py, 12, "the covariance of the fit is not positive definite"));
        }
        Ok(PyArray1::from_vec(py, values))
    }

    /// The names of the groups whose sd was not given, and of each rows, mean, sd, q05, q50, q95 of its effect; `None` if there are none.
    fn groups<'py>(&self, py: Python<'py>) -> PyResult<Option<Named<'py>>> {
        let (Some((mixed, varies)), Some(meaning)) = (&self.mixed, &self.meaning) else { return Ok(None) };
        let (Some(effects), Some(effect)) = (&mixed.effects, &varies.effect) else { return Ok(None) };
        let group = &meaning.encoding.groups[0];
        let names: Vec<String> = (0..group.levels.len()).map(|k| group.level_name(k)).collect();
        let rows = names.len();
        Ok(Some((names, matrix(py, effects.table(effect), rows, 6)?)))
    }

    /// Per row of new columns: mean, sd, q05, q50, q95, linear_mean, linear_sd.
    #[pyo3(signature = (columns, groups=None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        columns: &Bound<'py, PyDict>,
        groups: Option<&str>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (meaning, family) = (self.meaning(py)?, self.record.model.parse().map_err(|e| data(py, &e))?);
        let table = table(py, columns)?;
        let groups = groups.map(|word| word.parse::<Groups>().map_err(|e| data(py, &e))).transpose()?;
        if groups.is_some() && self.mixed.is_none() {
            return Err(usage(py, "groups belongs to fits whose group sd was not given: leave it out"));
        }
        let rows = py
            .detach(|| match &self.mixed {
                Some((mixed, varies)) => {
                    let groups = groups.unwrap_or_default();
                    predict_mixed(family, meaning, varies, mixed, groups, &table, &Storage::default())
                }
                None => predict(family, meaning, &self.gaussian, &table, &Storage::default()),
            })
            .map_err(|e| data(py, &e))?;
        let values: Vec<f64> = rows
            .iter()
            .flat_map(|p| [p.mean, p.sd, p.q05, p.q50, p.q95, p.linear_mean, p.linear_sd])
            .collect();
        matrix(py, values, rows.len(), 7)
    }

    /// Expected responses of new rows at draws, one draw per row.
    fn predict_draws<'py>(
        &self,
        py: Python<'py>,
        columns: &Bound<'py, PyDict>,
        n: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.refuse_mixture(py, "predict_draws")?;
        let (meaning, family) = (self.meaning(py)?, self.record.model.parse().map_err(|e| data(py, &e))?);
        let table = table(py, columns)?;
        let rows = table.rows();
        let values = py
            .detach(|| predict_draws(family, meaning, &self.gaussian, &table, &Storage::default(), n, seed))
            .map_err(|e| data(py, &e))?;
        matrix(py, values, n, rows)
    }

    /// The report, one HTML page.
    fn report(&self) -> String {
        report(&self.record, &self.extras())
    }

    /// Writes the fit directory.
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let write = || {
            let directory = FitDirectory::create(&path, overwrite)?;
            directory.write(SETTINGS, self.record.settings.to_string().as_bytes())?;
            if let Some(meaning) = &self.meaning {
                let meaning = serde_json::to_vec(meaning).expect("meanings are plain values");
                directory.write(MEANING, &meaning)?;
            }
            self.arrays().write(&directory)?;
            self.record.write(&directory)?;
            directory.commit(false)
        };
        py.detach(write).map_err(|e| store(py, &e))
    }

    /// Reads a fit directory, ours or the command line's.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = || {
            let directory = FitDirectory::open(&path)?;
            let (record, arrays) = (Record::read(&directory)?, Arrays::read(&directory)?);
            let meaning = match directory.read(MEANING) {
                Ok(bytes) => Some(bytes),
                Err(_) if record.model == "target" => None,
                Err(error) => return Err(error),
            };
            Ok((record, arrays, meaning, directory.note()))
        };
        let (record, arrays, meaning, note) = py.detach(read).map_err(|e| store(py, &e))?;
        if let Some(words) = note {
            let words = std::ffi::CString::new(words).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &words, 1)?;
        }
        let meaning = meaning.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        let meaning = meaning.map_err(|e| raise(py, 65, &format!("{MEANING} is damaged: {e}")))?;
        Self::of_parts(py, record, arrays, meaning)
    }

    /// (fit.json, arrays, meaning): all there is, for pickles.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyBytes>, Option<String>)> {
        let bytes = self.arrays().encode().map_err(|e| store(py, &e))?;
        let meaning = self.meaning.as_ref();
        let meaning = meaning.map(|m| serde_json::to_string(m).expect("meanings are plain values"));
        Ok((self.record.to_json(), PyBytes::new(py, &bytes), meaning))
    }

    /// The fit of its parts.
    #[staticmethod]
    #[pyo3(name = "of_parts", signature = (json, arrays, meaning))]
    fn of_pickle(py: Python<'_>, json: &str, arrays: &[u8], meaning: Option<&str>) -> PyResult<Self> {
        let bad = |words: String| raise(py, 65, &format!("this is no fit: {words}"));
        let record = Record::from_json(json).map_err(bad)?;
        let arrays = Arrays::decode(arrays).map_err(bad)?;
        let meaning = meaning.map(serde_json::from_str).transpose().map_err(|e| bad(e.to_string()))?;
        Self::of_parts(py, record, arrays, meaning)
    }
}
