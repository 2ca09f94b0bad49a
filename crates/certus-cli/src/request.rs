//! From arguments to a request, its source and its model.

use std::path::Path;
use std::sync::Arc;

use certus_data::{
    DataError, Family, Features, GroupSpec, Missing as DataMissing, Problem, Request, ScaleRequest, Source,
    Spec, Storage,
};
use certus_models::Ranks;

use crate::arguments::{FactorChoice, FitArguments, Missing, ModelName};
use crate::exit::{Code, Failure};
use crate::signals::Signals;

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(Code::Usage, message)
}

impl ModelName {
    /// As certus-data says it.
    pub fn family(self) -> Family {
        match self {
            ModelName::Linear => Family::Linear,
            ModelName::Logistic => Family::Logistic,
            ModelName::Binomial => Family::Binomial,
            ModelName::Probit => Family::Probit,
            ModelName::Poisson => Family::Poisson,
            ModelName::NegativeBinomial => Family::NegativeBinomial,
        }
    }
}

impl FitArguments {
    /// The model, or what to say without one.
    pub fn family(&self) -> Result<Family, Failure> {
        let words = "which model? linear, logistic, binomial, probit, poisson or negative-binomial; for example: \
                     certus fit logistic data.csv --response y";
        self.model.map(ModelName::family).ok_or_else(|| usage(words))
    }

    /// The data, or what to say without them.
    pub fn path(&self) -> Result<&Path, Failure> {
        self.data.as_deref().ok_or_else(|| {
            usage("which data? name a CSV, TSV, Parquet or Arrow file, or a directory of them")
        })
    }

    /// What is asked of the data.
    pub fn request(&self) -> Result<Request, Failure> {
        let family = self.family()?;
        let response =
            self.response.as_deref().ok_or_else(|| usage("which column is the response? --response COL"))?;
        let mut spec = Spec::new(response, family);
        if let Some(terms) = &self.features {
            spec.features = Features::Terms(terms.clone());
        }
        let none = Vec::new();
        spec.groups =
            GroupSpec::all(self.group.as_ref().unwrap_or(&none), self.group_sd.as_ref().unwrap_or(&none))?;
        spec.weights.clone_from(&self.weights);
        spec.offset.clone_from(&self.offset);
        spec.trials.clone_from(&self.trials);
        spec.intercept = !self.no_intercept;
        spec.standardise = !self.no_standardise;
        spec.missing = match self.missing.unwrap_or_default() {
            Missing::Error => DataMissing::Error,
            Missing::Drop => DataMissing::Drop,
        };
        match (self.factor.unwrap_or_default(), spec.groups.is_empty()) {
            (FactorChoice::Diagonal, false) => {
                return Err(usage(
                    "--factor diagonal is not built for models with --group: the arrow loses nothing, leave it out",
                ));
            }
            (FactorChoice::Arrow, true) => {
                return Err(usage("--factor arrow needs a --group: without groups the factor is dense"));
            }
            (FactorChoice::Dense, false) => {
                return Err(usage(
                    "--factor dense does not go with --group: the arrow loses nothing and is smaller",
                ));
            }
            (FactorChoice::Arrow, false) if spec.groups.iter().any(|g| g.sd.is_none()) => {
                return Err(usage(
                    "--factor arrow needs --group-sd: groups whose sd is not given are integrated out",
                ));
            }
            _ => {}
        }
        let mut request = Request::new(spec);
        (request.sigma, request.dispersion) = (self.sigma, self.dispersion);
        request.prior_sd = self.prior_sd.unwrap_or(request.prior_sd);
        request.intercept_prior_sd = self.intercept_prior_sd.unwrap_or(request.intercept_prior_sd);
        request.scale =
            ScaleRequest::new(self.sd_prior.as_deref(), self.sd_prior_scale, self.scales.as_deref())?;
        request.priors.clone_from(&self.priors);
        Ok(request)
    }

    /// Reads the data and builds the model, its rows spread over `ranks` if there are any.
    pub fn problem(&self, signals: &Signals, ranks: Option<Arc<dyn Ranks>>) -> Result<Problem, Failure> {
        let request = self.request()?;
        let source = open(self.path()?, self.r#where.as_deref(), self.sql.as_deref())?;
        let source = Stoppable { source, signals };
        // ranks must stop together, so where there are several no pass ends before its last row
        let stop = ranks.is_none().then(|| signals.flag().clone());
        let storage = Storage { ranks, stop, ..Storage::default() };
        let read = Problem::new(&source, &request, &storage);
        read.map_err(|e| if source.stopped() { signals.end() } else { e.into() })
    }
}

/// Opens files.
#[cfg(feature = "scan")]
pub fn open(path: &Path, filter: Option<&str>, sql: Option<&str>) -> Result<Box<dyn Source>, Failure> {
    Ok(Box::new(certus_data::FileSource::open(&[path.to_path_buf()], filter, sql)?))
}

/// Opens files: this build cannot.
#[cfg(not(feature = "scan"))]
pub fn open(path: &Path, _: Option<&str>, _: Option<&str>) -> Result<Box<dyn Source>, Failure> {
    Err(usage(format!(
        "{} cannot be read: this build has no file scans (build it with the feature `scan`)",
        path.display()
    )))
}

/// A source that a signal ends, or the time.
pub struct Stoppable<'a> {
    /// The source.
    pub source: Box<dyn Source>,
    /// Whose signals.
    pub signals: &'a Signals,
}

impl Stoppable<'_> {
    /// True once no more rows are given.
    pub fn stopped(&self) -> bool {
        self.signals.seen().is_some() || self.signals.must_end()
    }
}

impl Source for Stoppable<'_> {
    fn columns(&self) -> &[certus_data::ColumnInfo] {
        self.source.columns()
    }

    fn files_read(&self, rows: usize) -> Option<String> {
        self.source.files_read(rows)
    }

    fn scan(
        &self,
        wanted: &[usize],
        visit: &mut dyn FnMut(&certus_data::Batch<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.source.scan(wanted, &mut |batch| {
            if self.stopped() { Err(DataError::Read("stopped".into())) } else { visit(batch) }
        })
    }
}
