//! The estimate of a linear mixed model: scales in the order of the model, effects of the groups, profile intervals,
//! and the check of what a file claims.

use certus_mixed::collapsed::Confirmed;
use certus_mixed::linear::{
    LinearMixedFit, Scale, TermFit, deviation_len, deviations, level_covariances, modes, profile,
};
use certus_models::Error;

use super::model::LinearMixed;
use crate::variance::profiled::{CUT, Profiled};
use crate::variance::several::SeveralEffects;

/// Levels of all groups up to which profile intervals are computed.
const PROFILED: usize = 1000;
/// What a change of units and back may move, as a part of a number.
const UNITS: f64 = 4.0 * f64::EPSILON;
/// The stream of the normal numbers of draws ([`certus::random::Purpose`] lists them all).
pub(super) const STREAM: u64 = 1 << 42;

impl LinearMixed {
    /// The estimate with the effects of all groups.
    pub(super) fn estimated(&self) -> Result<(LinearMixedFit, SeveralEffects), Error> {
        let (found, highest) = self.highest()?;
        let all = self.named(modes(&self.statistics, &found))?;
        let effects = self.terms.effects(&all);
        let (mut between, mut kept) = (Vec::new(), Vec::new());
        if self.terms.unknown_scales.effects.len() > 1 {
            match self.named(level_covariances(&self.statistics, &found))? {
                Some(covariances) => between = self.between(&covariances),
                None => {
                    let draw = |normals: &[f64]| deviations(&self.statistics, &found, normals);
                    let length = deviation_len(&self.statistics);
                    kept = self.named(self.terms.deviations(length, STREAM, draw))?;
                }
            }
        }
        let estimate = SeveralEffects {
            effects,
            between,
            deviations: kept,
            evaluations: found.evaluations,
            thetas: self.terms.thetas(&found.terms),
            parameters: found.variance_parameters,
            weight: self.weight,
            ball: self.proved(&found),
            unenclosed: None,
            highest,
            estimated: false,
            scales_known: true,
        };
        Ok((found, estimate))
    }

    /// Profile intervals of sds, where they take no longer than the fit or so; an end that cannot be found is left to
    /// the curvature.
    pub(crate) fn profiles(&self, found: &LinearMixedFit) -> Vec<Profiled> {
        let mut out = vec![Profiled::NotTried; self.terms.unknown_scales.scales.len()];
        if self.groups() > PROFILED {
            return out;
        }
        let of = |scale: Scale| match profile(&self.statistics, found, scale, CUT) {
            Ok(None) => Profiled::NotFound("a covariance matrix is singular".into()),
            Ok(found) => Profiled::of(found),
            Err(error) => Profiled::NotFound(error.to_string()),
        };
        for (t, term) in self.terms.list.iter().enumerate() {
            for (e, effect) in term.effects.iter().enumerate() {
                out[self.terms.unknown_scales.effects[*effect].scale] =
                    of(Scale::Effect { term: t, effect: e });
            }
        }
        if let Some(last) = out.last_mut() {
            *last = of(Scale::Noise);
        }
        out
    }

    /// Covariances between the effects of a level, pair after pair.
    fn between(&self, covariances: &[f64]) -> Vec<f64> {
        let k = self.terms.unknown_scales.effects.len();
        let each = covariances.chunks_exact(k * k);
        each.flat_map(|c| TermFit::pairs(k).map(|(i, j)| c[j * k + i]).collect::<Vec<_>>()).collect()
    }

    /// The scales of an estimate in the order of the model: sds, correlations, σ.
    pub(crate) fn scales(&self, found: &LinearMixedFit) -> Vec<f64> {
        let mut out = vec![0.0; self.terms.unknown_scales.scales.len()];
        for (term, own) in self.terms.list.iter().zip(&found.terms) {
            for (sd, effect) in own.sds.iter().zip(&term.effects) {
                out[self.terms.unknown_scales.effects[*effect].scale] = *sd;
            }
            if let Some(at) = term.correlations {
                let k = own.sds.len();
                for (place, (i, j)) in TermFit::pairs(k).enumerate() {
                    let r = own.correlations[j * k + i];
                    // beside an sd of 0 there is none
                    out[at + place] = if r.is_finite() { r.clamp(-1.0, 1.0) } else { 0.0 };
                }
            }
        }
        if let Some(last) = out.last_mut() {
            *last = found.sigma;
        }
        out
    }

    /// The likelihood at stored scales, and whether an interval of the first holds that of the estimate.
    pub(super) fn confirmed(&self, stored: &[f64], interval: Option<[f64; 2]>) -> Result<Confirmed, Error> {
        let value = self.value_at(stored)?;
        let (found, _) = self.highest()?;
        let own = self.intervals(&found).swap_remove(0);
        // what is stored has been in the user's units
        let inside = |[low, high]: [f64; 2]| {
            own.proved.is_ok() && low <= own.sds[0] * (1.0 + UNITS) && own.sds[1] * (1.0 - UNITS) <= high
        };
        let margin = if interval.is_none_or(inside) { 1.0 } else { -1.0 };
        Ok(Confirmed {
            log_likelihood: self.log_likelihood(value),
            value: 0.5 * (value + self.log_units),
            error: f64::NAN,
            margins: [margin; 2],
        })
    }
}
