//! The certificate of the variance parameters of a linear mixed model: where the restricted likelihood or the
//! likelihood has a strict local maximum (docs/certificate-format.md, section 16).

use certus::certificate::words::{downward, upward};
use certus_mixed::linear::{Criterion, TermFit};
use certus_models::error::NotFinite;
use certus_models::proof::{MixedCertificate, judged, variance_maximum};
use certus_models::rows::leaves;

use super::refused;
use crate::error::Error;
use crate::problem::Problem;
use crate::record::{RESTRICTED, Scale};
use crate::variance::mixed::LinearMixed;
use crate::variance::several::EffectTerm;
use crate::verify::Stored;

/// Rows of a certificate at most: it is checked with dense matrices.
const MOST_ROWS: f64 = 600.0;
/// Multiplications, where nobody asked for a certificate.
const MOST_WORK: f64 = 1e8;
/// Digits of printed numbers.
const DIGITS: usize = 8;

/// What is certified of a fit, and where the search begins.
pub(crate) struct StatedVariances {
    restricted: bool,
    intercept: bool,
    columns: Vec<(String, f64, f64)>,
    terms: Vec<(String, u64)>,
    rows: Vec<Vec<f64>>,
    estimate: Vec<f64>,
    /// The name of every parameter, and whether it is a variance.
    names: Vec<(String, bool)>,
}

/// The linear mixed model of a problem whose variance parameters are all estimated, if it is one.
pub(crate) fn model(problem: &Problem) -> Option<&LinearMixed> {
    problem.collapsed()?.model.linear_mixed()
}

/// True if it takes longer than a report or a verification should.
pub(crate) fn takes_long(model: &LinearMixed) -> bool {
    let k = model.terms.unknown_scales.scales.len();
    model.weight.powi(3) * (k as f64 + 2.0) > MOST_WORK
}

/// Why Theorem V1 does not apply to a fit, in words.
fn excluded(model: &LinearMixed, scale: &Scale) -> Result<(), Error> {
    let rows = model.weight;
    if rows > MOST_ROWS {
        return Err(refused(format!(
            "a certificate of variance parameters is checked with dense matrices and has at most {MOST_ROWS} rows; the \
             fit has {rows}"
        )));
    }
    let unknown = &model.terms.unknown_scales.scales;
    let estimates = std::iter::once((&scale.name, scale.estimate))
        .chain(scale.others.iter().map(|other| (&other.name, other.estimate)));
    for ((name, estimate), own) in estimates.zip(unknown) {
        let estimate = estimate.unwrap_or(f64::NAN);
        let inside = if own.correlation { estimate.abs() < 1.0 } else { estimate > 0.0 };
        if !inside {
            return Err(refused(format!(
                "{name} is {estimate}, which is on the boundary of its range; Theorem V1 is about maxima where every \
                 covariance matrix is positive definite"
            )));
        }
    }
    Ok(())
}

impl StatedVariances {
    pub(crate) fn of(problem: &Problem, stored: &Stored) -> Result<Self, Error> {
        let scale = stored.record.certificate.scale.as_ref();
        let (Some(model), Some(scale)) = (model(problem), scale) else {
            return Err(refused("the fit is not one of a linear mixed model whose variances are estimated"));
        };
        excluded(model, scale)?;
        let encoding = &problem.prepared.encoding;
        let (center, width) = encoding.center_and_scale();
        let first = usize::from(encoding.intercept);
        let coefficients = encoding.coefficients();
        let columns =
            (0..encoding.features.len()).map(|j| (coefficients[j + first].clone(), center[j], width[j]));
        let others = scale.others.iter().map(|other| other.estimate);
        let scales: Vec<f64> =
            std::iter::once(scale.estimate).chain(others).map(|own| own.unwrap_or(f64::NAN)).collect();
        let (mut terms, mut estimate) =
            (Vec::new(), vec![scales.last().copied().unwrap_or(f64::NAN).powi(2)]);
        let mut names = vec![("sigma".to_string(), true)];
        for term in &model.terms.list {
            let effects: Vec<_> =
                term.effects.iter().map(|e| &model.terms.unknown_scales.effects[*e]).collect();
            let name = match &effects[..] {
                [own] if !encoding.is_intercept(own.feature) => format!("{}: {}", own.group, own.coefficient),
                all => all.first().map_or(String::new(), |own| own.group.clone()),
            };
            for (i, a) in effects.iter().enumerate() {
                for (j, b) in effects[..=i].iter().enumerate() {
                    let (sds, name) = (scales[a.scale] * scales[b.scale], |scale: usize| {
                        model.terms.unknown_scales.scales[scale].name.clone()
                    });
                    let pair = TermFit::pairs(effects.len()).position(|pair| pair == (i, j));
                    match (pair, term.correlations) {
                        (Some(pair), Some(at)) => {
                            estimate.push(sds * scales[at + pair]);
                            names.push((name(at + pair).replacen("cor(", "cov(", 1), false));
                        }
                        _ => {
                            estimate.push(sds);
                            names.push((name(a.scale), true));
                        }
                    }
                }
            }
            terms.push((name, effects.len() as u64));
        }
        Ok(Self {
            restricted: model.criterion == Criterion::Reml,
            intercept: encoding.intercept,
            columns: columns.collect(),
            terms,
            rows: rows(problem, model)?,
            estimate,
            names,
        })
    }

    /// The certificate with the bytes of its rows.
    pub(crate) fn certify(&self) -> Result<(MixedCertificate, Vec<u8>), Error> {
        let (columns, terms) = (self.columns.clone(), &self.terms);
        Ok(variance_maximum(self.restricted, self.intercept, columns, terms, &self.rows, &self.estimate)?)
    }

    /// The claim of a certificate that certus-check's library has proved, read from its text.
    pub(crate) fn checked(&self) -> Result<String, Error> {
        let (certificate, rows) = self.certify()?;
        judged(&certificate, &rows)?;
        Ok(self.words(&certificate))
    }

    /// What a certificate claims, by the names of the fit.
    pub(crate) fn words(&self, certificate: &MixedCertificate) -> String {
        let criterion = if self.restricted { RESTRICTED } else { "likelihood" };
        let one = |((name, variance), [low, high]): (&(String, bool), &[f64; 2])| {
            let [low, high] = match variance {
                // roots are rounded correctly
                true => [low.max(0.0).sqrt().next_down().max(0.0), high.sqrt().next_up()],
                false => [*low, *high],
            };
            format!("{name} between {} and {}", downward(low, DIGITS), upward(high, DIGITS))
        };
        let parts: Vec<String> = self.names.iter().zip(&certificate.between).map(one).collect();
        format!("the {criterion} has a strict local maximum with {}", parts.join(", "))
    }
}

/// For every row of the model its columns, for every term the group and the columns of its effects, and the response; a
/// row of weight w is w rows.
fn rows(problem: &Problem, model: &LinearMixed) -> Result<Vec<Vec<f64>>, Error> {
    let (prepared, encoding) = (&problem.prepared, &problem.prepared.encoding);
    let first = usize::from(encoding.intercept);
    let (mut out, mut plain) = (Vec::with_capacity(prepared.rows_used), true);
    for index in 0..leaves(&*prepared.rows) {
        prepared.rows.leaf(index, &mut |leaf| {
            for i in 0..leaf.y.len() {
                let weight = leaf.weight_of(i);
                plain &= weight.fract() == 0.0 && leaf.offset_of(i) == 0.0;
                let mut row: Vec<f64> = (0..leaf.x.columns()).map(|j| leaf.x.get(i, j)).collect();
                for EffectTerm { group, effects, .. } in &model.terms.list {
                    row.push(f64::from(prepared.codes[*group][leaf.first + i]));
                    row.extend(effects.iter().map(|effect| {
                        let effect = &model.terms.unknown_scales.effects[*effect];
                        match (effect.only, effect.feature.checked_sub(first)) {
                            (Some(k), _) => prepared.effects[k][leaf.first + i],
                            (None, Some(j)) => leaf.x.get(i, j),
                            (None, None) => 1.0,
                        }
                    }));
                }
                row.push(leaf.datum(i).y);
                // their sum is at most MOST_ROWS
                (0..weight as usize).for_each(|_| out.push(row.clone()));
            }
        })?;
    }
    if !plain {
        return Err(refused(
            "its rows have offsets, or weights that are not whole numbers, which Theorem V1 does not have",
        ));
    }
    if out.iter().flatten().any(|x| !x.is_finite()) {
        return Err(certus_models::Error::from(NotFinite::Quantity { what: "a row" }).into());
    }
    Ok(out)
}
