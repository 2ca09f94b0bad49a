//! `groups` and `criterion` of fit.json, of an estimate with several group effects.

use crate::record::{CriterionValue, GroupTerm};
use certus_data::encoding::Group;
use certus_mixed::linear::TermFit;

use crate::variance::engine::JointMaximum;
use crate::variance::model::ScaleModel;

/// `groups` and `criterion` at a maximum: `thetas` are lme4's θ of every group, `count` is the number of variance
/// parameters (sigma included), `weight` is n.
pub(super) fn terms_and_criterion(
    scale_model: &ScaleModel,
    groups: &[Group],
    found: &JointMaximum,
    thetas: &[Vec<f64>],
    count: usize,
    weight: f64,
) -> (Vec<GroupTerm>, CriterionValue) {
    let unknown_scales = &scale_model.unknown_scales;
    let mut terms = Vec::new();
    for ((term, group), theta) in groups.iter().enumerate().zip(thetas) {
        let (effects, correlations) = unknown_scales.term(term);
        let k = effects.len();
        let mut correlation = vec![vec![None; k]; k];
        (0..k).for_each(|i| correlation[i][i] = Some(1.0));
        for (place, (i, j)) in TermFit::pairs(k).enumerate() {
            // beside an sd of 0 there is none
            let both = found.scales[effects[i].scale] * found.scales[effects[j].scale] > 0.0;
            let own = match correlations {
                Some(at) => both.then(|| found.scales[at + place]),
                None => Some(0.0),
            };
            (correlation[i][j], correlation[j][i]) = (own, own);
        }
        terms.push(GroupTerm {
            name: group.name.clone(),
            effects: effects.iter().map(|e| e.coefficient.clone()).collect(),
            levels: group.levels.len() as u64,
            sd: effects.iter().map(|e| found.scales[e.scale] * e.unit).collect(),
            correlation,
            theta: theta.clone(),
        });
    }
    let df = (found.beta.len() + count) as f64;
    let value = -2.0 * found.log_likelihood;
    let explained = scale_model.r_squared(&found.beta, &found.scales);
    let criterion = CriterionValue {
        kind: scale_model.criterion().unwrap_or("ML").into(),
        value,
        log_likelihood: found.log_likelihood,
        df: df as u64,
        aic: value + 2.0 * df,
        bic: value + df * weight.ln(),
        r2_marginal: explained.map(|r| r[0]),
        r2_conditional: explained.map(|r| r[1]),
    };
    (terms, criterion)
}
