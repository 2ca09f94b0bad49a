//! The certificate of the variance parameters of a linear mixed model: where the restricted likelihood or the
//! likelihood has a strict local maximum (docs/certificate-format.md, section 16).

use certus::certificate::words::{downward, upward};
use certus_mixed::linear::{Criterion, TermFit};
use certus_models::error::NotFinite;
use certus_models::proof::{MixedCertificate, judged, variance_maximum};
use certus_models::rows::leaves;

use super::mixed::LinearMixed;
use super::several::EffectTerm;
use crate::error::Error;
use crate::record::RESTRICTED;
use certus_data::Prepared;

/// Rows of a certificate at most: it is checked with dense matrices.
const MOST_ROWS: f64 = 600.0;
/// Multiplications, where nobody asked for a certificate.
const MOST_WORK: f64 = 1e8;
/// Digits of printed numbers.
const DIGITS: usize = 8;

fn refused(words: impl Into<String>) -> Error {
    Error::NoProof(words.into())
}

/// What is certified of a fit, and where the search begins.
pub(crate) struct StatedVariances {
    restricted: bool,
    intercept: bool,
    columns: Vec<(String, f64, f64)>,
    terms: Vec<(String, u64)>,
    rows: Vec<Vec<f64>>,
    estimate: Vec<f64>,
    parameters: Vec<Parameter>,
    scales: usize,
}

/// A parameter of a certificate.
struct Parameter {
    name: String,
    /// The sd whose square it is, or the correlation of a covariance.
    scale: usize,
    /// The sds of a covariance.
    sds: Option<[usize; 2]>,
}

impl Parameter {
    /// The ends of its sd, roots rounded outward; those of a covariance as they are.
    fn ends(&self, [low, high]: [f64; 2]) -> [f64; 2] {
        match self.sds {
            None => [low.max(0.0).sqrt().next_down().max(0.0), high.sqrt().next_up()],
            Some(_) => [low, high],
        }
    }
}

/// True if it takes longer than a report or a verification should.
pub(crate) fn takes_long(model: &LinearMixed) -> bool {
    let k = model.terms.unknown_scales.scales.len();
    model.weight.powi(3) * (k as f64 + 2.0) > MOST_WORK
}

/// Why Theorem V1 does not apply to a fit, in words.
fn excluded(model: &LinearMixed, scales: &[f64]) -> Result<(), Error> {
    let rows = model.weight;
    if rows > MOST_ROWS {
        return Err(refused(format!(
            "a certificate of variance parameters is checked with dense matrices and has at most {MOST_ROWS} rows; the \
             fit has {rows}"
        )));
    }
    for (own, estimate) in model.terms.unknown_scales.scales.iter().zip(scales) {
        let name = &own.name;
        let inside = if own.correlation { estimate.abs() < 1.0 } else { *estimate > 0.0 };
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
    /// At estimates of the scales, in the order of the model.
    pub(crate) fn at(model: &LinearMixed, prepared: &Prepared, scales: &[f64]) -> Result<Self, Error> {
        excluded(model, scales)?;
        let encoding = &prepared.encoding;
        let (center, width) = encoding.center_and_scale();
        let first = usize::from(encoding.intercept);
        let coefficients = encoding.coefficients();
        let columns =
            (0..encoding.features.len()).map(|j| (coefficients[j + first].clone(), center[j], width[j]));
        let (mut terms, mut estimate) =
            (Vec::new(), vec![scales.last().copied().unwrap_or(f64::NAN).powi(2)]);
        let noise = scales.len().saturating_sub(1);
        let mut parameters = vec![Parameter { name: "sigma".into(), scale: noise, sds: None }];
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
                    let at = |scale: usize, name, sds| Parameter { name, scale, sds };
                    let pair = TermFit::pairs(effects.len()).position(|pair| pair == (i, j));
                    match (pair, term.correlations) {
                        (Some(pair), Some(first)) => {
                            let scale = first + pair;
                            estimate.push(sds * scales[scale]);
                            let name = name(scale).replacen("cor(", "cov(", 1);
                            parameters.push(at(scale, name, Some([a.scale, b.scale])));
                        }
                        _ => {
                            estimate.push(sds);
                            parameters.push(at(a.scale, name(a.scale), None));
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
            rows: rows(prepared, model)?,
            estimate,
            parameters,
            scales: scales.len(),
        })
    }

    /// The certificate with the bytes of its rows.
    pub(crate) fn certify(&self) -> Result<(MixedCertificate, Vec<u8>), Error> {
        let (columns, terms) = (self.columns.clone(), &self.terms);
        Ok(variance_maximum(self.restricted, self.intercept, columns, terms, &self.rows, &self.estimate)?)
    }

    /// The certificate, proved by certus-check's library as it is read from its text.
    pub(crate) fn proved(&self) -> Result<MixedCertificate, Error> {
        let (certificate, rows) = self.certify()?;
        judged(&certificate, &rows)?;
        Ok(certificate)
    }

    /// Between which numbers a certificate has every sd, σ and correlation, in the order of the model; `share` of the
    /// width of its claims.
    pub(crate) fn enclosed(&self, certificate: &MixedCertificate, share: f64) -> Vec<[f64; 2]> {
        let part = |[low, high]: &[f64; 2]| {
            let cut = 0.5 * (1.0 - share) * (high - low);
            [low + cut, high - cut]
        };
        let between: Vec<[f64; 2]> = certificate.between.iter().map(part).collect();
        let mut out = vec![[f64::NAN; 2]; self.scales];
        for (own, between) in self.parameters.iter().zip(&between) {
            out[own.scale] = own.ends(*between);
        }
        for (own, covariance) in self.parameters.iter().zip(&between) {
            let Some([a, b]) = own.sds else { continue };
            // the sds are at least 0, so the quotient is largest at the ends of their product
            let products = [out[a][0] * out[b][0], out[a][1] * out[b][1]];
            let quotients = || products.iter().flat_map(|p| covariance.iter().map(move |c| c / p));
            let low = quotients().fold(f64::INFINITY, f64::min);
            let high = quotients().fold(f64::NEG_INFINITY, f64::max);
            // a product and a quotient are within two roundings
            let wider = |end: f64, sign: f64| end + sign * 4.0 * f64::EPSILON * end.abs();
            out[own.scale] = [wider(low, -1.0).max(-1.0), wider(high, 1.0).min(1.0)];
        }
        out
    }

    /// What a certificate claims, by the names of the fit.
    pub(crate) fn words(&self, certificate: &MixedCertificate) -> String {
        let criterion = if self.restricted { RESTRICTED } else { "likelihood" };
        let one = |(own, between): (&Parameter, &[f64; 2])| {
            let [low, high] = own.ends(*between);
            format!("{} between {} and {}", own.name, downward(low, DIGITS), upward(high, DIGITS))
        };
        let parts: Vec<String> = self.parameters.iter().zip(&certificate.between).map(one).collect();
        format!("the {criterion} has a strict local maximum with {}", parts.join(", "))
    }
}

/// For every row of the model its columns, for every term the group and the columns of its effects, and the response; a
/// row of weight w is w rows.
fn rows(prepared: &Prepared, model: &LinearMixed) -> Result<Vec<Vec<f64>>, Error> {
    let encoding = &prepared.encoding;
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
