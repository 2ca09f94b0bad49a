//! What a run over unknown scales found, in the words of fit.json.

use crate::record::{GroupEffect, OtherScale, RecordedLevel, Scale, ScaleMaximum};
use certus::Outcome;
use certus::auto::Counts;
use certus::certificate::{Certificate, Gap, Posterior, counted, figure};
use certus::fit::Status;
use certus_data::encoding::Group;
use certus_mixed::collapsed::Effect;
use certus_mixed::scales::ScalesMaximum;
use certus_models::Error;
use certus_models::proof::ROUNDING;

use super::Run;
use crate::variance::engine::{GridPosterior, JointMaximum};
use crate::variance::mixture::MixturePosterior;
use crate::variance::model::ScaleModel;
use crate::variance::profiled::Profiled;
use crate::variance::request::Scales;
use crate::variance::several::Highest;

/// Groups shown on either side.
const EXTREME: usize = 3;
/// What is said of a likelihood whose error has no bound.
const NOT_PROVED: &str = "the error of the likelihood is not proved";

/// The effects of groups on the user's scale, in the order of the model.
pub(super) fn on_user_scale(
    scale_model: &ScaleModel,
    groups: &[Group],
    effects: &[Effect],
) -> Vec<GroupEffect> {
    let mut out = Vec::with_capacity(effects.len());
    for random_effect in &scale_model.unknown_scales.effects {
        let (unit, group) = (random_effect.unit, &groups[random_effect.term]);
        let own = random_effect.first..random_effect.first + random_effect.levels;
        for e in effects.get(own).unwrap_or_default() {
            let [q05, q50, q95] = e.quantiles.map(|q| q * unit);
            out.push(GroupEffect {
                group: group.level_name(e.group),
                rows: e.rows as u64,
                mean: e.mean * unit,
                sd: e.sd * unit,
                q05,
                q50,
                q95,
            });
        }
    }
    out
}

/// The groups with the smallest effects and those with the largest.
pub(super) fn extremes(groups: &[GroupEffect]) -> (Vec<GroupEffect>, Vec<GroupEffect>) {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by(|a, b| groups[*a].mean.total_cmp(&groups[*b].mean));
    let shown = EXTREME.min(groups.len() / 2);
    let named = |order: &[usize]| order.iter().map(|g| groups[*g].clone()).collect();
    (named(&order[..shown]), named(&order[order.len() - shown..]))
}

/// What is known of the likelihood of scales that were not given, and what is assumed beyond it.
#[derive(Clone, Debug)]
pub(crate) struct KnownOfScales {
    /// "the likelihood at each sd is proved to within 1e-9 nats".
    likelihood: String,
    /// "sd", "scale", "scales".
    which: &'static str,
    linear: bool,
    /// False if the scales were estimated.
    on_a_grid: bool,
    /// Of several group effects: whether standard errors of coefficients take the scales as known.
    several: Option<bool>,
    /// The scales that have profile intervals.
    profiled: Vec<String>,
    /// Those whose search failed, and why.
    not_found: Vec<String>,
}

impl KnownOfScales {
    pub(super) fn new(
        scale_model: &ScaleModel,
        found: &JointMaximum,
        grid_posterior: Option<&GridPosterior>,
    ) -> Self {
        let which = if scale_model.unknown_scales.scales.len() > 1 { "scales" } else { "scale" };
        let which = if scale_model.model.is_one_sd() { "sd" } else { which };
        let error = match grid_posterior {
            // what is summed in closed form has no error but rounding
            Some(grid_posterior) => {
                grid_posterior.mixture.nodes.iter().map(|n| n.error).fold(found.error, f64::max)
            }
            None => found.error,
        };
        let likelihood = if error.is_finite() {
            let each = grid_posterior.map_or("", |_| scale_model.model.error_holds());
            format!("the likelihood{each} is proved to within {} nats", figure(error))
        } else {
            NOT_PROVED.into()
        };
        let (linear, on_a_grid) = (scale_model.linear, grid_posterior.is_some());
        let names = || scale_model.unknown_scales.scales.iter().map(|own| own.name.clone());
        let several = found.several.as_ref().map(|several| several.scales_known);
        let (mut profiled, mut not_found) = (Vec::new(), Vec::new());
        for (name, own) in names().zip(&found.profiles) {
            match own {
                Profiled::Interval(_) => profiled.push(name),
                Profiled::NotFound(why) => not_found.push(format!("{name} ({why})")),
                Profiled::NotTried => {}
            }
        }
        Self { likelihood, which, linear, on_a_grid, several, profiled, not_found }
    }

    /// Of a model of which everything is given.
    pub(super) fn of_closed_form(scale_model: &ScaleModel) -> Self {
        let (likelihood, profiled) = (NOT_PROVED.into(), Vec::new());
        Self {
            likelihood,
            which: "scales",
            linear: scale_model.linear,
            on_a_grid: false,
            several: None,
            profiled,
            not_found: Vec::new(),
        }
    }

    /// What is proved about the mixture, and what is only estimated.
    pub(crate) fn of_mixture(&self) -> String {
        self.assuming("not checked")
    }

    /// The same where draws were left out.
    pub(crate) fn left_out(&self, why: &str) -> String {
        let advice = "the setting posterior importance, or an accuracy such as 0.1, draws them";
        self.assuming(&format!("not checked: {why}; {advice}"))
    }

    /// The assumptions, and where profile intervals are missing.
    fn assuming(&self, check: &str) -> String {
        let missing = match self.not_found.is_empty() {
            true => String::new(),
            false => format!("; no profile interval was found for {}", self.not_found.join(", ")),
        };
        format!("{}{missing}", self.assumed(check))
    }

    fn assumed(&self, check: &str) -> String {
        let Self { likelihood, which, profiled, .. } = self;
        if let Some(scales_known) = &self.several {
            let ends = match profiled.is_empty() {
                false => format!(
                    "intervals of {} are profile intervals, other errors of scales from the curvature",
                    profiled.join(", ")
                ),
                true => "errors of scales from the curvature".into(),
            };
            let known = if *scales_known { "coefficients and effects" } else { "effects" };
            return format!(
                "estimated, not proved: standard errors of {known} take the scales as known; {ends}"
            );
        }
        let given = if self.linear {
            format!("the coefficients are normal given the {which}")
        } else {
            format!("assumes that the coefficients are normal given the {which} ({check})")
        };
        let grid = match self.on_a_grid {
            true => "; the sums over the grid are estimated".into(),
            false if profiled.is_empty() => {
                format!("; the uncertainty of the {which} enters through the curvature only")
            }
            false => format!(
                "; the interval of {} is a profile interval; the uncertainty of the {which} enters the errors of the \
                 coefficients through the curvature only",
                profiled.join(", ")
            ),
        };
        format!("{likelihood}; {given}{grid}")
    }

    /// What is proved about draws, whose likelihood has an error of so many nats on average but for those of some
    /// weight, and what is only estimated.
    /// `how` is how the likelihood of a draw is known, if it is by something else.
    pub(crate) fn of_draws(&self, how: Option<String>, proved: Option<(f64, f64)>, effects: bool) -> String {
        let likelihood = match proved {
            _ if how.is_some() => how.unwrap_or_default(),
            _ if self.likelihood == NOT_PROVED => NOT_PROVED.into(),
            Some((0.0, 0.0)) => "the likelihood of every draw is summed directly".into(),
            Some((error, unproved)) => {
                let but = match unproved {
                    0.0 => String::new(),
                    x if x < 1e-9 => ", but for draws of almost no weight".into(),
                    x => format!(", but for draws with {} of the weight", figure(x)),
                };
                format!("the likelihood is proved to within {} nats on average{but}", figure(error))
            }
            None => "the likelihood of every draw is integrated over the groups".into(),
        };
        let groups = if effects { "; effects of groups average over 200 of the draws" } else { "" };
        format!("{likelihood}; means, sds and quantiles are estimated by the draws{groups}")
    }
}

impl Run<'_> {
    pub(super) fn scale(
        &self,
        found: &JointMaximum,
        grid_posterior: Option<&GridPosterior>,
        posterior: bool,
        groups: &[GroupEffect],
    ) -> Scale {
        let (unknown_scales, finite) =
            (&self.scale_model.unknown_scales, |x: f64| x.is_finite().then_some(x));
        // several effects are not compared with each other
        let (smallest, largest) = match unknown_scales.effects.len() {
            0 | 1 => extremes(groups),
            _ => Default::default(),
        };
        let (count, first) = (unknown_scales.scales.len(), &found.intervals[0]);
        let proved = first.proved.is_ok();
        let several = found.several.as_ref();
        let ball = several.and_then(|several| several.ball.as_ref());
        // radii speak of all scales, where there are any
        let apart = proved && ball.is_none() && several.is_some();
        let one = |j: usize| {
            let (own, variance) = (&unknown_scales.scales[j], found.log_covariance[j * (count + 1)]);
            OtherScale {
                name: own.name.clone(),
                prior: self.scale_model.prior_of(j).filter(|_| posterior),
                estimate: Some(found.scales[j] * own.unit),
                log_standard_error: (variance > 0.0).then(|| variance.sqrt()),
                interval: (j > 0 && apart).then(|| found.intervals[j].sds.map(|s| s * own.unit)),
            }
        };
        let OtherScale { name, prior, estimate, log_standard_error, .. } = one(0);
        let unenclosed = several.and_then(|several| several.unenclosed.clone());
        let theorem = match (&self.enclosure, ball) {
            (Some(enclosure), _) if unenclosed.is_none() => format!("{}{ROUNDING}", enclosure.theorem()),
            (_, Some(ball)) => ball.theorem.into(),
            (_, None) => "Theorem K3".into(),
        };
        let highest = several.and_then(|several| several.highest.as_ref());
        Scale {
            name,
            group: unknown_scales.effects.first().map(|effect| effect.group.clone()),
            groups: self.scale_model.model.groups() as u64,
            scales: if posterior { "posterior" } else { "estimate" }.into(),
            prior,
            objective: self.scale_model.objective().into(),
            estimate,
            log_standard_error,
            interval: proved.then(|| first.sds.map(|s| s * unknown_scales.scales[0].unit)),
            level: match proved {
                true => RecordedLevel::Proved,
                false if several.is_some_and(|several| several.estimated) => RecordedLevel::Estimated,
                false => RecordedLevel::None,
            },
            theorem: proved.then_some(theorem),
            reason: first.proved.clone().err().or(unenclosed),
            radius: ball.map(|ball| ball.radius),
            exclusion: ball.and_then(|ball| finite(ball.exclusion)),
            global: highest.map(|h| matches!(h, Highest::Proved)),
            global_reason: highest.and_then(|h| match h {
                Highest::Proved => None,
                Highest::NotProved(reason) => Some(reason.clone()),
            }),
            zero: ball.map_or(Vec::new(), |ball| ball.zero.clone()),
            others: (1..count).map(one).collect(),
            maxima: found.maxima.iter().map(|m| self.maximum(m)).collect(),
            searched: found.excluded.as_ref().map(|e| e.searched.map(|s| s * unknown_scales.scales[0].unit)),
            not_excluded: found
                .excluded
                .as_ref()
                .filter(|e| e.proved.is_ok())
                .map(|e| e.open.iter().map(|part| part.map(|s| s * unknown_scales.scales[0].unit)).collect()),
            not_excluded_reason: found.excluded.as_ref().and_then(|e| e.proved.clone().err()),
            log_likelihood: finite(found.log_likelihood),
            log_likelihood_error: finite(found.error),
            log_evidence: grid_posterior.and_then(|l| finite(l.mixture.log_evidence)),
            nodes: grid_posterior.map_or(1, |l| l.mixture.nodes.len() as u64),
            refinement: grid_posterior.and_then(|l| finite(l.mixture.refinement)),
            smallest,
            largest,
        }
    }

    /// A maximum on the user's scale.
    fn maximum(&self, found: &ScalesMaximum) -> ScaleMaximum {
        let scales = self.scale_model.unknown_scales.user(&found.scales);
        ScaleMaximum {
            estimate: scales[0],
            others: scales[1..].to_vec(),
            log_likelihood: found.log_likelihood,
            log_objective: -found.value,
        }
    }

    /// How it ended and what is known about the mixture.
    pub(super) fn outcome(
        &self,
        found: &JointMaximum,
        grid_posterior: Option<&GridPosterior>,
        mixture_posterior: &MixturePosterior,
        known: &KnownOfScales,
        stopped: bool,
    ) -> Result<Outcome, Error> {
        let unknown_scales = &self.scale_model.unknown_scales;
        let several = unknown_scales.scales.len() > 1;
        let objective = self.scale_model.objective();
        let what = match grid_posterior {
            Some(grid_posterior) => {
                format!(
                    "posterior of {} computed on {}",
                    unknown_scales.names(),
                    counted(grid_posterior.keys.len(), "grid point")
                )
            }
            None => format!("{} estimated", unknown_scales.names()),
        };
        let mut message = match &found.intervals[0].proved {
            proved if found.several.is_some() && self.scale_model.scales == Scales::Posterior => {
                let how = if proved.is_ok() { "is proved" } else { "is not proved" };
                let count = counted(unknown_scales.scales.len(), "scale");
                format!("posterior of the coefficients and {count}; a maximum of the {objective} {how}")
            }
            Ok(()) if found.several.is_some() => {
                format!("{}; a maximum is proved to be near", self.scale_model.estimated_by())
            }
            Err(_) if found.several.is_some() => {
                format!("{}; no maximum is proved to be near", self.scale_model.estimated_by())
            }
            Ok(()) => format!("{what}; a maximum of the {objective} is bracketed (proved)"),
            Err(_) if several => format!("{what}; a maximum of the {objective} is not bracketed"),
            Err(why) => format!("{what}; a maximum of the {objective} is not bracketed: {why}"),
        };
        let mut status = Status::Reached;
        if let Some(grid_posterior) =
            grid_posterior.filter(|l| l.mixture.refinement > self.scale_model.model.agree())
        {
            status = Status::NoProgress;
            let (names, points) = (unknown_scales.names(), counted(grid_posterior.keys.len(), "grid point"));
            let advice = "under a flat or half-t prior its mean or sd may not exist, and sd-prior half-normal makes \
                          them finite";
            message = match grid_posterior.mixture.refinement {
                moved if moved.is_finite() => format!(
                    "the posterior of {names} does not converge on {points}: the last refinement moved it by {} sd; \
                     {advice}",
                    figure(moved)
                ),
                _ => format!("the posterior of {names} reaches beyond its {points}: {advice}"),
            };
        }
        let highest = found.several.as_ref().and_then(|several| several.highest.as_ref());
        match highest {
            Some(Highest::Proved) => message = format!("{message}, the highest of all"),
            Some(Highest::NotProved(reason)) => {
                status = Status::Limit;
                message = format!("{message}; that it is the highest of all is not proved: {reason}");
            }
            None => {}
        }
        if stopped {
            status = if self.late { Status::Limit } else { Status::Interrupted };
            let what = match (self.scale_model.scales, grid_posterior) {
                (Scales::Posterior, None) => {
                    "before the posterior was known: the numbers are those at the estimate"
                }
                _ => "before the effects of the groups were known",
            };
            message = format!("{message}; stopped {what}");
        }
        let count = self.passes as u64;
        Ok(Outcome {
            status,
            message,
            route: self.scale_model.route(),
            gaussian: mixture_posterior.gaussian()?,
            neg_elbo: certus::diagnostics::Estimate { value: f64::NAN, standard_error: f64::NAN },
            certificate: Certificate {
                gap: Gap::none(
                    "mixtures over the scales",
                    match mixture_posterior.nodes.len() {
                        1 => "no gap is computed for the Gaussian at the estimate".into(),
                        nodes => format!(
                            "the result is not a single Gaussian but {nodes} of them, one per grid point"
                        ),
                    },
                ),
                posterior: Posterior::none(known.of_mixture()),
            },
            k_hat: None,
            comparison: None,
            counts: Counts { gradients: count, hessians: count, exact_passes: count },
            trace: Vec::new(),
            error: None,
            elapsed: self.began.elapsed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use certus_mixed::ProfileInterval;

    /// A search that fails is told with its reason, and nothing is said of what was not looked for.
    #[test]
    fn missing_profile_intervals_have_reasons() {
        let interval = |low, high| Profiled::of(Some(ProfileInterval { low, high }));
        assert_eq!(interval(0.5, 2.0), Profiled::Interval([0.5, 2.0]));
        assert_eq!(interval(0.5, f64::INFINITY), Profiled::NotFound("its upper end is not finite".into()));
        assert_eq!(Profiled::of(None).interval(), None);
        let known = KnownOfScales {
            likelihood: NOT_PROVED.into(),
            which: "scales",
            linear: true,
            on_a_grid: false,
            several: Some(true),
            profiled: vec!["sd(a)".into()],
            not_found: vec!["sd(b) (the search for an end failed)".into()],
        };
        let said = known.of_mixture();
        let words = "other errors of scales from the curvature; no profile interval was found for sd(b) (the \
            search for an end failed)";
        assert!(said.contains("intervals of sd(a) are profile intervals") && said.ends_with(words), "{said}");
        assert!(
            !KnownOfScales { not_found: Vec::new(), ..known }.of_mixture().contains("no profile interval")
        );
    }
}
