//! A fit: its record and its Gaussian, draws and predictions from it, and the directory it is kept in.

use std::path::PathBuf;
use std::sync::Arc;

use certus::Gaussian;
use certus::factor::Workspace;
use certus_data::Storage;
use certus_fit::record::Parameter;
use certus_fit::{Arrays, Fit, FitDirectory, Groups, Levels, Record, predict_draws};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::columns::table;
use crate::error::{data, raise, store, usage};

/// A fit.
#[pyclass(frozen, module = "certus._certus")]
pub(crate) struct Fitted(pub(crate) Arc<Fit>);

/// Mean and sd of every coordinate under its name.
pub(crate) fn parameters(names: &[String], w: &Gaussian) -> Vec<Parameter> {
    let moments = w.mean().iter().zip(w.sd());
    names.iter().zip(moments).map(|(name, (mean, sd))| Parameter::normal(name, *mean, sd)).collect()
}

impl Fitted {
    fn refuse_mixture(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        match self.0.mixture {
            Some(_) => Err(usage(
                py,
                &format!(
                    "{what} needs a single Gaussian, but scales of the model were not given, so the fit is a mixture: \
                        use fit.sample"
                ),
            )),
            None => Ok(()),
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

/// A row of numbers per row of new data, the names of the numbers, and a note.
type Predicted<'py> = (Bound<'py, PyArray2<f64>>, Vec<String>, Option<String>);

/// Names, and a row of numbers for each.
type GroupEffects<'py> = (String, String, Vec<String>, Bound<'py, PyArray2<f64>>);

/// Weights of the latents in linear predictors, those in coefficients, and offsets.
type LinearPredictors<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);
/// A column that new rows need, and its levels if it has levels.
type Input = (String, Option<Vec<String>>);

#[pymethods]
impl Fitted {
    /// fit.json.
    fn json(&self) -> String {
        self.0.record.to_json()
    }

    /// What is known about the fit, a sentence each: the words of the command line and the report.
    fn sentences(&self) -> Vec<String> {
        self.0.record.sentences()
    }

    /// How strong the main statement is.
    #[getter]
    fn level(&self) -> &'static str {
        self.0.record.level().as_str()
    }

    /// True if the posterior is a mixture over scales that were not given.
    #[getter]
    fn is_mixture(&self) -> bool {
        self.0.mixture.is_some()
    }

    /// True if the printed numbers and draws are not the Gaussian's.
    #[getter]
    fn has_draws(&self) -> bool {
        self.0.posterior_draws.is_some()
    }

    /// The same fit with the Gaussian's own numbers and draws.
    fn gaussian(&self) -> Self {
        Self(Arc::new(self.0.of_gaussian()))
    }

    /// Latents.
    #[getter]
    fn dim(&self) -> usize {
        self.0.gaussian.dim()
    }

    /// Mean of the latents.
    fn latent_mean<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, self.0.gaussian.mean())
    }

    /// A with A Aᵀ the covariance of the named parameters, a row each.
    fn spread<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        if let Some((values, columns)) = self.0.spread_of_draws() {
            let rows = values.len() / columns;
            return matrix(py, values, rows, columns);
        }
        if let Some((mixture_posterior, unknown_scales)) = &self.0.mixture {
            let (values, columns) = mixture_posterior.spread(&self.0.quantities, unknown_scales);
            let rows = values.len() / columns;
            return matrix(py, values, rows, columns);
        }
        let d = self.dim();
        let dense = self.0.gaussian.factor().to_dense();
        let mut out = vec![0.0; self.0.quantities.len() * d];
        for (row, quantity) in out.chunks_exact_mut(d).zip(&self.0.quantities) {
            for &(i, a) in &quantity.terms {
                (0..d).for_each(|j| row[j] += a * dense[j * d + i]);
            }
        }
        matrix(py, out, self.0.quantities.len(), d)
    }

    /// Draws of the parameters, one per row.
    fn sample<'py>(&self, py: Python<'py>, n: usize, seed: u64) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let values = py.detach(|| self.0.draws(n, seed));
        let columns = self.0.record.parameters.len();
        matrix(py, values, n, columns)
    }

    /// The latents of the same draws.
    fn latents<'py>(&self, py: Python<'py>, n: usize, seed: u64) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.refuse_mixture(py, "latents")?;
        let values = py.detach(|| self.0.latents(n, seed));
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
        if !self.0.gaussian.log_density(&points, &mut values, &mut Workspace::default()) {
            return Err(raise(py, 12, "the covariance of the fit is not positive definite"));
        }
        Ok(PyArray1::from_vec(py, values))
    }

    /// Per effect of a group whose sd was not given: the group, the coefficient that varies, the names of its levels,
    /// and of each rows, mean, sd, q05, q50, q95 of its effect, then mean and sd of its own coefficient, NaN where
    /// these are not known; `None` if there are none.
    fn groups<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<GroupEffects<'py>>>> {
        let (Some((mixture_posterior, unknown_scales)), Some(meaning)) = (&self.0.mixture, &self.0.meaning)
        else {
            return Ok(None);
        };
        let Some(effects) = mixture_posterior.effects.as_ref().filter(|_| !unknown_scales.effects.is_empty())
        else {
            return Ok(None);
        };
        let (own, mut out) = (self.0.own_coefficients().map_err(|e| data(py, &e))?, Vec::new());
        for effect in &unknown_scales.effects {
            let group = &meaning.encoding.groups[effect.term];
            let names: Vec<String> = (0..group.levels.len()).map(|k| group.level_name(k)).collect();
            let deviations = effects.table(effect);
            let rows = deviations.chunks_exact(6).enumerate().flat_map(|(level, row)| {
                let own = own.get(effect.first + level).copied().unwrap_or([f64::NAN; 2]);
                row.iter().copied().chain(own).collect::<Vec<_>>()
            });
            let table = matrix(py, rows.collect(), names.len(), 8)?;
            out.push((effect.group.clone(), effect.coefficient.clone(), names, table));
        }
        Ok(Some(out))
    }

    /// Predictions for the rows of new columns, the names of their columns, and a note on rows with missing values.
    #[pyo3(signature = (columns, groups=None, observations=false, quantiles=None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        columns: &Bound<'py, PyDict>,
        groups: Option<&str>,
        observations: bool,
        quantiles: Option<Vec<f64>>,
    ) -> PyResult<Predicted<'py>> {
        let table = table(py, columns)?;
        let groups = groups.map(|word| word.parse::<Groups>().map_err(|e| data(py, &e))).transpose()?;
        let levels = Levels::new(quantiles.as_deref(), observations).map_err(|e| data(py, &e))?;
        let predict = || self.0.predict(&table, groups, &levels, &Storage::default());
        let predicted = py.detach(predict).map_err(|e| data(py, &e))?;
        let names = levels.names();
        let values = matrix(py, predicted.numbers(), predicted.rows.len(), names.len())?;
        Ok((values, names, predicted.note()))
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
        let meaning = self.0.meaning().map_err(|e| data(py, &e))?;
        let link = self.0.link().map_err(|e| data(py, &e))?;
        let table = table(py, columns)?;
        let rows = table.rows();
        let values = py
            .detach(|| predict_draws(link, meaning, &self.0.latents(n, seed), &table, &Storage::default()))
            .map_err(|e| data(py, &e))?;
        matrix(py, values, n, rows)
    }

    /// What new rows' linear predictors are made of: their weights of the latents, the coefficients' (a row each), and
    /// their offsets.
    fn linear_rows<'py>(
        &self,
        py: Python<'py>,
        columns: &Bound<'py, PyDict>,
    ) -> PyResult<LinearPredictors<'py>> {
        let table = table(py, columns)?;
        let made = py.detach(|| self.0.linear_rows(&table)).map_err(|e| data(py, &e))?;
        let (latents, count) = (made.latents, made.offsets.len());
        let coefficients = made.coefficients.len() / latents.max(1);
        Ok((
            matrix(py, made.rows, count, latents)?,
            matrix(py, made.coefficients, coefficients, latents)?,
            PyArray1::from_vec(py, made.offsets),
        ))
    }

    /// Expected responses, of one trial each, at linear predictors.
    fn expected<'py>(
        &self,
        py: Python<'py>,
        linear: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let link = self.0.link().map_err(|e| data(py, &e))?;
        Ok(PyArray1::from_iter(py, linear.as_array().iter().map(|t| link.response(*t))))
    }

    /// The response, and the columns that new rows need: the name, and the levels, the reference first, of a column
    /// that is read as levels.
    fn inputs(&self, py: Python<'_>) -> PyResult<(String, Vec<Input>)> {
        let meaning = self.0.meaning().map_err(|e| data(py, &e))?;
        Ok((meaning.encoding.response.clone(), meaning.encoding.inputs_with_levels()))
    }

    /// Writes the fit directory.
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let write = || self.0.write(&FitDirectory::create(&path, overwrite)?, false);
        py.detach(write).map_err(|e| store(py, &e))
    }

    /// Reads a fit directory, ours or the command line's.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = || {
            let directory = FitDirectory::open(&path)?;
            Ok((Fit::read(&directory)?, directory.note()))
        };
        let (fit, note) = py.detach(read).map_err(|e| store(py, &e))?;
        if let Some(words) = note {
            let words = std::ffi::CString::new(words).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &words, 1)?;
        }
        Ok(Self(Arc::new(fit)))
    }

    /// (fit.json, arrays, meaning): all there is, for pickles.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyBytes>, Option<String>)> {
        let bytes = self.0.arrays().encode().map_err(|e| store(py, &e))?;
        let meaning = self.0.meaning.as_ref();
        let meaning = meaning.map(|m| serde_json::to_string(m).expect("meanings are plain values"));
        Ok((self.0.record.to_json(), PyBytes::new(py, &bytes), meaning))
    }

    /// The fit of its parts.
    #[staticmethod]
    #[pyo3(name = "of_parts", signature = (json, arrays, meaning))]
    fn of_pickle(py: Python<'_>, json: &str, arrays: &[u8], meaning: Option<&str>) -> PyResult<Self> {
        let bad = |words: String| raise(py, 65, &format!("this is not a fit: {words}"));
        let record = Record::from_json(json).map_err(bad)?;
        let arrays = Arrays::decode(arrays).map_err(bad)?;
        let meaning = meaning.map(serde_json::from_str).transpose().map_err(|e| bad(e.to_string()))?;
        Ok(Self(Arc::new(Fit::of_parts(record, arrays, meaning).map_err(|e| store(py, &e))?)))
    }
}
