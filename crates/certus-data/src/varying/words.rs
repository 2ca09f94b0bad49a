//! What a run over unknown scales found, in the words of fit.json.

use certus::Outcome;
use certus::auto::Counts;
use certus::certificate::{Certificate, Gap, Posterior, figure};
use certus::fit::Status;
use certus_models::Error;
use certus_models::collapsed::Effect;
use certus_models::scales::{Dispersion, ScalesMaximum};
use certus_store::record::{GroupEffect, Level, OtherScale, Scale, ScaleMaximum, objective};

use super::Run;
use crate::mixed::Mixed;
use crate::scales::{Scales, prior_words};
use crate::unknowns::{Found, Laid, Unknowns};

/// Groups shown on either side.
const EXTREME: usize = 3;

impl Run<'_> {
    pub(super) fn on_user_scale(&self, effects: &[Effect]) -> Vec<GroupEffect> {
        let (Some(varies), Some(group)) = (&self.varying.varies.effect, self.group) else {
            return Vec::new();
        };
        let unit = varies.unit;
        let one = |e: &Effect| {
            let [q05, q50, q95] = e.quantiles.map(|q| q * unit);
            GroupEffect {
                group: group.level_name(e.group),
                rows: e.rows as u64,
                mean: e.mean * unit,
                sd: e.sd * unit,
                q05,
                q50,
                q95,
            }
        };
        effects.iter().map(one).collect()
    }

    pub(super) fn scale(&self, found: &Found, laid: Option<&Laid>, groups: &[GroupEffect]) -> Scale {
        let (varies, finite) = (&self.varying.varies, |x: f64| x.is_finite().then_some(x));
        let mut order: Vec<usize> = (0..groups.len()).collect();
        order.sort_by(|a, b| groups[*a].mean.total_cmp(&groups[*b].mean));
        let shown = EXTREME.min(groups.len() / 2);
        let named = |order: &[usize]| order.iter().map(|g| groups[*g].clone()).collect();
        let (count, first) = (varies.scales.len(), &found.intervals[0]);
        let proved = first.proved.is_ok();
        let one = |j: usize| {
            let (own, variance) = (&varies.scales[j], found.log_covariance[j * (count + 1)]);
            OtherScale {
                name: own.name.clone(),
                prior: laid.map(|_| prior_words(self.varying.priors[j], own.unit)),
                estimate: Some(found.scales[j] * own.unit),
                log_standard_error: (variance > 0.0).then(|| variance.sqrt()),
            }
        };
        let OtherScale { name, prior, estimate, log_standard_error } = one(0);
        Scale {
            name,
            group: varies.effect.as_ref().map(|effect| effect.group.clone()),
            groups: self.varying.model.groups() as u64,
            scales: if laid.is_some() { "posterior" } else { "estimate" }.into(),
            prior,
            objective: objective(self.varying.penalised).into(),
            estimate,
            log_standard_error,
            interval: proved.then(|| first.sds.map(|s| s * varies.scales[0].unit)),
            level: if proved { Level::Proved } else { Level::None },
            theorem: proved.then(|| "Theorem K3".into()),
            reason: first.proved.clone().err(),
            others: (1..count).map(one).collect(),
            maxima: found.maxima.iter().map(|m| self.maximum(m)).collect(),
            searched: found.excluded.as_ref().map(|e| e.searched.map(|s| s * varies.scales[0].unit)),
            not_excluded: found
                .excluded
                .as_ref()
                .filter(|e| e.proved.is_ok())
                .map(|e| e.open.iter().map(|part| part.map(|s| s * varies.scales[0].unit)).collect()),
            not_excluded_reason: found.excluded.as_ref().and_then(|e| e.proved.clone().err()),
            log_likelihood: finite(found.log_likelihood),
            log_likelihood_error: finite(found.error),
            log_evidence: laid.and_then(|l| finite(l.mixture.log_evidence)),
            nodes: laid.map_or(1, |l| l.mixture.nodes.len() as u64),
            refinement: laid.and_then(|l| finite(l.mixture.refinement)),
            smallest: named(&order[..shown]),
            largest: named(&order[order.len() - shown..]),
        }
    }

    /// A maximum on the user's scale.
    fn maximum(&self, found: &ScalesMaximum) -> ScaleMaximum {
        let scales = self.varying.varies.user(&found.scales);
        ScaleMaximum {
            estimate: scales[0],
            others: scales[1..].to_vec(),
            log_likelihood: found.log_likelihood,
            log_objective: -found.value,
        }
    }

    /// How it ended and what holds of the mixture.
    pub(super) fn outcome(
        &self,
        found: &Found,
        laid: Option<&Laid>,
        mixed: &Mixed,
        stopped: bool,
    ) -> Result<Outcome, Error> {
        let varies = &self.varying.varies;
        let several = varies.scales.len() > 1;
        let objective = objective(self.varying.penalised);
        let (are, whose) = if several { ("are", "the") } else { ("is", "its") };
        let what = match laid {
            Some(laid) => format!("{} {are} found, on a grid of {}", varies.names(), laid.keys.len()),
            None => format!("{} {are} found", varies.names()),
        };
        let mut message = match &found.intervals[0].proved {
            Ok(()) => format!("{what}; where {whose} {objective} has a maximum is proved"),
            Err(_) if several => format!("{what}; where {whose} {objective} has a maximum is not proved"),
            Err(why) => format!("{what}; where {whose} {objective} has a maximum is not proved: {why}"),
        };
        let mut status = Status::Reached;
        if let Some(laid) = laid.filter(|l| l.mixture.refinement > self.varying.model.agree()) {
            status = Status::NoProgress;
            message = format!(
                "the posterior of {} does not settle on a grid of {} nodes: the last refinement moved it by {} sd",
                varies.names(),
                laid.keys.len(),
                figure(laid.mixture.refinement)
            );
        }
        if stopped {
            status = if self.late { Status::Limit } else { Status::Interrupted };
            let what = match (self.varying.scales, laid) {
                (Scales::Posterior, None) => {
                    "before the posterior was known: the numbers are those at the estimate"
                }
                _ => "before the effects of the groups were known",
            };
            message = format!("{message}; stopped {what}");
        }
        let nodes = mixed.nodes.len();
        let count = self.passes as u64;
        Ok(Outcome {
            status,
            message,
            route: self.varying.route(),
            gaussian: mixed.gaussian()?,
            neg_elbo: certus::diagnostics::Estimate { value: f64::NAN, standard_error: f64::NAN },
            certificate: Certificate {
                gap: Gap::none(
                    "mixtures over the scales",
                    format!("the result is no single Gaussian but {nodes} of them, one per node of a grid"),
                ),
                posterior: Posterior::none(self.honest(found, laid)),
            },
            k_hat: None,
            counts: Counts { gradients: count, hessians: count, exact_passes: count },
            trace: Vec::new(),
            error: None,
            elapsed: self.began.elapsed(),
        })
    }

    /// What is proved of the posterior, and what is only estimated.
    fn honest(&self, found: &Found, laid: Option<&Laid>) -> String {
        let which = if self.varying.varies.scales.len() > 1 { "scales" } else { "scale" };
        let which = if matches!(self.varying.model, Unknowns::Effect(_)) { "sd" } else { which };
        let error = match laid {
            // what is summed in closed form has no error but rounding
            Some(laid) => laid.mixture.nodes.iter().map(|n| n.error).fold(found.error, f64::max),
            None => found.error,
        };
        let likelihood = if error.is_finite() {
            let each = match (laid, &self.varying.model) {
                (Some(_), Unknowns::Effect(_)) => " at each sd",
                (Some(_), Unknowns::Counts(Dispersion::Grouped(_))) => " at each node",
                (Some(_), _) => " at the estimate",
                (None, _) => "",
            };
            format!("the likelihood{each} is proved to {} nats", figure(error))
        } else {
            "the error of the likelihood is not proved".into()
        };
        let given = if self.varying.linear {
            format!("coefficients given the {which} are normal")
        } else {
            format!("that coefficients are normal given the {which} is estimated")
        };
        let grid = match laid {
            Some(_) if self.varying.linear => ", the sums over the grid are estimated".into(),
            Some(_) => ", and so are the sums over the grid".into(),
            None => format!("; what is not known of the {which} enters by curvature only"),
        };
        format!("{likelihood}; {given}{grid}")
    }
}
