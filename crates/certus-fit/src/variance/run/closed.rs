//! A linear model with groups of which everything is given: coefficients and effects in closed form.

use certus::Outcome;
use certus::auto::Counts;
use certus::certificate::{Certificate, Gap, Posterior, Statement, counted, figure};
use certus::diagnostics::Estimate;
use certus::fit::Status;
use certus_mixed::collapsed::Node;
use certus_mixed::{Journal, Stage};
use certus_models::Error;

use super::words::{KnownOfScales, on_user_scale};
use super::{Run, ScalesOutcome};
use crate::variance::engine::ClosedForm;
use crate::variance::mixture::{Effects, MixturePosterior};

/// What the statements about the Gaussian rest on.
const CLOSED: &str = "the factorisation in double precision is accurate (only the residual of its normal equations was \
    measured)";

impl Run<'_> {
    /// The posterior is the Gaussian that is computed, up to rounding: what this did is estimated from what the normal
    /// equations leave, |e|² in H⁻¹ being twice the divergence that an error of the means causes.
    pub(super) fn in_closed_form(
        &mut self,
        model: &dyn ClosedForm,
        journal: &Journal,
    ) -> Result<(Outcome, ScalesOutcome), Error> {
        let scale_model = self.scale_model;
        let found = model.fit_at(&[])?;
        let log_likelihood = found.log_likelihood;
        let node =
            Node { sd: f64::NAN, weight: 1.0, mean: found.beta, factor: found.lower, error: f64::INFINITY };
        self.passes += 1;
        let all = counted(self.scale_model.model.groups(), "group");
        let stopped = || Error::Stopped;
        let mut look = |_: usize| self.look(Stage::Effects, format!("effects of {all}"), journal);
        let given =
            model.effects(std::slice::from_ref(&node), &[Vec::new()], &mut look)?.ok_or_else(stopped)?;
        let left = model.residual(self.prepared, &node, &given.effects)?;
        let groups = on_user_scale(scale_model, self.groups, &given.effects);
        let kept = Effects::new(&given.effects).map(|kept| Effects { deviations: given.deviations, ..kept });
        let mixture_posterior = MixturePosterior {
            nodes: vec![node],
            scales: vec![Vec::new()],
            keys: vec![[0, 0]],
            log_covariance: Some(Vec::new()),
            effects: kept,
        };
        // a residual of 0 is one below the smallest rounding
        let bound = (0.5 * left * left).max(f64::MIN_POSITIVE);
        let statement = || {
            Statement::estimated("L0", bound, CLOSED)
                .with("residual", left)
                .with("log likelihood", log_likelihood)
        };
        let gap = Gap {
            statement: statement(),
            family: "all Gaussians".into(),
            mean_error: Some(left),
            sd_error: None,
        };
        let posterior =
            Posterior { statement: statement(), log_evidence: None, mean_error: Some(left), sd_error: None };
        let message = format!(
            "posterior of the coefficients and of {all} in closed form; what rounding left is about {} nats \
                (estimated)",
            figure(bound)
        );
        let count = self.passes as u64;
        let outcome = Outcome {
            status: Status::Reached,
            message,
            route: scale_model.route(),
            gaussian: mixture_posterior.gaussian()?,
            neg_elbo: Estimate { value: f64::NAN, standard_error: f64::NAN },
            certificate: Certificate { gap, posterior: posterior.clone() },
            k_hat: None,
            comparison: None,
            counts: Counts { gradients: count, hessians: count, exact_passes: count },
            trace: Vec::new(),
            error: None,
            elapsed: self.began.elapsed(),
        };
        let scales = ScalesOutcome {
            mixture_posterior,
            scale: None,
            groups,
            parameters: Vec::new(),
            effects: None,
            deviations: Vec::new(),
            known: KnownOfScales::of_closed_form(scale_model),
            mixed: None,
            closed: Some(posterior),
            profiles: Vec::new(),
        };
        Ok((outcome, scales))
    }
}
