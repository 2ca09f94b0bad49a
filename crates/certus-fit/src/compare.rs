//! Models of the same responses beside each other: criteria, evidence, and tests of nested ones.

use certus_likelihood::special::chi_squared_tail;
use serde::Serialize;

use crate::record::{GroupTerm, Record};

/// What is known of one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRow {
    /// The name it was given.
    pub name: String,
    /// Coefficients and variance parameters, where the likelihood was maximised.
    pub df: Option<u64>,
    /// The maximum of the likelihood, restricted for REML.
    pub log_likelihood: Option<f64>,
    /// `ML` or `REML`.
    pub kind: Option<String>,
    /// Of it.
    pub aic: Option<f64>,
    /// Of it.
    pub bic: Option<f64>,
    /// A lower bound on the log evidence.
    pub elbo: Option<f64>,
    /// An interval of the log evidence, where there is one.
    pub log_evidence: Option<(f64, f64)>,
}

/// A likelihood-ratio test of a model against a larger one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DevianceTest {
    /// The smaller model.
    pub smaller: String,
    /// The larger one.
    pub larger: String,
    /// By how much −2 log L falls.
    pub statistic: f64,
    /// Parameters that are added.
    pub df: u64,
    /// The degrees of freedom of the two χ² whose equal mixture the statistic follows; one of them twice where no sd of
    /// 0 is tested.
    pub mixture: (u64, u64),
    /// P(statistic or more), if the smaller model is true.
    pub p_value: f64,
    /// True if more than one sd of 0 is tested: then the p-value is too large.
    pub conservative: bool,
}

/// Fits beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelComparison {
    /// In the order given.
    pub models: Vec<ModelRow>,
    /// Of every neighbouring pair of nested models, ordered by their parameters.
    pub tests: Vec<DevianceTest>,
    /// Why criteria and evidence are not comparable.
    pub reason: Option<String>,
}

impl ModelComparison {
    /// Of records and their names.
    pub fn new(fits: &[(String, &Record)]) -> Self {
        let models = fits.iter().map(|(name, record)| row(name, record)).collect();
        let reason = fits.windows(2).find_map(|pair| difference(&pair[0], &pair[1]));
        let mut tests = Vec::new();
        if reason.is_none() {
            let mut order: Vec<&(String, &Record)> =
                fits.iter().filter(|f| f.1.criterion.is_some()).collect();
            order.sort_by_key(|f| f.1.criterion.as_ref().map(|c| c.df));
            tests.extend(order.windows(2).filter_map(|pair| deviance_test(pair[0], pair[1])));
        }
        Self { models, tests, reason }
    }
}

fn row(name: &str, record: &Record) -> ModelRow {
    let criterion = record.criterion.as_ref();
    // the evidence of flat priors is a number without a unit
    let proper = criterion.is_none() && !record.notes.iter().any(|note| note.contains("~ flat"));
    let interval = record.certificate.posterior.log_evidence.map(|[low, high]| (low, high));
    ModelRow {
        name: name.into(),
        df: criterion.map(|c| c.df),
        log_likelihood: criterion.map(|c| c.log_likelihood),
        kind: criterion.map(|c| c.kind.clone()),
        aic: criterion.map(|c| c.aic),
        bic: criterion.map(|c| c.bic),
        elbo: record.neg_elbo.map(|f| -f).filter(|_| proper),
        log_evidence: interval.or_else(|| record.log_evidence().map(|x| (x, x))).filter(|_| proper),
    }
}

/// Why two fits are not of the same responses under comparable likelihoods.
fn difference((a, first): &(String, &Record), (b, second): &(String, &Record)) -> Option<String> {
    let rows = |record: &Record| record.data.rows.unwrap_or(0);
    if first.data.responses.is_none() || second.data.responses.is_none() {
        return Some(format!("{a} or {b} does not say which responses it is about: fit it again"));
    }
    if rows(first) != rows(second) {
        let words = "criteria need the same rows (those with missing values may have been left out)";
        return Some(format!("{a} has {} rows and {b} {}: {words}", rows(first), rows(second)));
    }
    if first.data.responses != second.data.responses {
        return Some(format!("the responses, trials or weights of {a} and {b} differ"));
    }
    let discrete = |record: &Record| record.model != "linear";
    if discrete(first) != discrete(second) {
        let words = "a density of y and a probability of y are not comparable";
        return Some(format!("{a} is {} and {b} {}: {words}", first.model, second.model));
    }
    if let (Some(one), Some(two)) = (&first.criterion, &second.criterion) {
        if one.kind != two.kind {
            let words = "likelihoods of different kinds are not comparable; fit both by ML";
            return Some(format!("{a} was fitted by {} and {b} by {}: {words}", one.kind, two.kind));
        }
        if one.kind == "REML" && coefficients(first) != coefficients(second) {
            let words = "restricted likelihoods of models with different coefficients are not comparable; fit \
                both by ML";
            return Some(format!("{a} and {b} have different coefficients: {words}"));
        }
    }
    None
}

/// Whether every group term of the first is one of the second, with the sds and correlations that the second adds;
/// `None` if they are not nested.
fn added(smaller: &[GroupTerm], larger: &[GroupTerm]) -> Option<(u64, u64)> {
    let count = |term: &GroupTerm| (term.effects.len() as u64, term.theta.len() as u64);
    let (mut sds, mut all) = (0, 0);
    let mut unmatched: Vec<&GroupTerm> = smaller.iter().collect();
    for term in larger {
        let (k, theta) = count(term);
        let same = unmatched
            .iter()
            .position(|own| own.name == term.name && own.effects.iter().all(|e| term.effects.contains(e)));
        let (k0, theta0) = same.map_or((0, 0), |place| count(unmatched.remove(place)));
        (sds, all) = (sds + k.checked_sub(k0)?, all + theta.checked_sub(theta0)?);
    }
    unmatched.is_empty().then_some((sds, all))
}

/// The coefficients, without the scales.
fn coefficients(record: &Record) -> Vec<&str> {
    let variances =
        record.groups.iter().map(|g| g.theta.len()).sum::<usize>() + usize::from(record.model == "linear");
    let count = record.criterion.as_ref().map_or(0, |c| (c.df as usize).saturating_sub(variances));
    record.parameters.iter().take(count).map(|p| p.name.as_str()).collect()
}

/// Where one sd is tested against 0, with its c correlations and f coefficients more, −2 log L falls by an equal
/// mixture of χ²_{c+f} and χ²_{c+f+1} (Stram and Lee, 1994).
fn deviance_test(smaller: &(String, &Record), larger: &(String, &Record)) -> Option<DevianceTest> {
    let (a, b) = (smaller.1.criterion.as_ref()?, larger.1.criterion.as_ref()?);
    let (few, many) = (coefficients(smaller.1), coefficients(larger.1));
    let nested = few.iter().all(|name| many.contains(name));
    // restricted likelihoods of different coefficients are about different contrasts of the data
    let comparable = a.kind == b.kind && (a.kind == "ML" || few == many);
    let (sds, scales) = added(&smaller.1.groups, &larger.1.groups)?;
    let df = b.df.checked_sub(a.df).filter(|df| *df > 0)?;
    if !nested || !comparable || smaller.1.model != larger.1.model || scales > df {
        return None;
    }
    let statistic = (a.value - b.value).max(0.0);
    let mixture = if sds == 1 { (df - 1, df) } else { (df, df) };
    let p_value = 0.5 * (chi_squared_tail(statistic, mixture.0) + chi_squared_tail(statistic, mixture.1));
    let (smaller, larger) = (smaller.0.clone(), larger.0.clone());
    Some(DevianceTest { smaller, larger, statistic, df, mixture, p_value, conservative: sds > 1 })
}
