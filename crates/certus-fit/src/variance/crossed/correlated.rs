//! A model with one group whose effects are correlated, and any likelihood: its estimate by ML with what is proved of
//! it, and the effects of the groups (docs/mixed.md, G1 and G2).

use std::sync::Arc;

use certus::gaussian::NORMAL_95;
use certus::linalg;
use certus_data::Prepared;
use certus_likelihood::{Likelihood, Prior};
use certus_mixed::collapsed::{Confirmed, Effect, Interval};
use certus_mixed::correlated::{
    CorrelatedFit, Design, Error as CorrelatedError, LevelEffects, Model, Proof, Quadrature, Row,
};
use certus_mixed::linear::TermFit;
use certus_mixed::{Journal, ScaleObserver, Stage};
use certus_models::Error;
use certus_models::error::InvalidModel;

use crate::variance::effect_rows::EffectRows;
use crate::variance::names::UnknownScales;
use crate::variance::profiled::{CUT, PROFILED, Profiled};
use crate::variance::several::{
    CURES, EffectTerms, ProvedBall, SeveralEffects, hardly_apart, no_maximum, watching,
};

/// Correlated effects that are integrated out together, at most.
pub(crate) const MOST_CORRELATED: usize = 3;

/// A model whose correlated effects are integrated out.
pub(crate) struct CorrelatedMixed {
    pub(super) model: Model,
    pub(super) terms: EffectTerms,
}

impl CorrelatedMixed {
    pub(crate) fn new(
        prepared: &Prepared,
        unknown_scales: &UnknownScales,
        likelihood: Arc<dyn Likelihood>,
        prior: Prior,
    ) -> Result<Self, Error> {
        let terms = EffectTerms::new(prepared, unknown_scales);
        let rows = EffectRows::new(prepared, &terms)?;
        let effects = unknown_scales.effects.len();
        let design = Design { levels: terms.levels(), effects, fixed: terms.fixed };
        let each = rows.iter().map(|row| Row {
            level: row.levels[0],
            effects: row.effects,
            fixed: row.fixed,
            datum: row.datum,
            offset: row.offset,
            weight: row.weight,
        });
        let model = Model::new(design, each, likelihood, prior).map_err(|error| refused(&error, &terms))?;
        Ok(Self { model: model.with_stop(prepared.rows.stop().cloned()), terms })
    }

    /// Coefficients.
    pub(crate) fn dim(&self) -> usize {
        self.terms.fixed
    }

    /// Levels of the group.
    pub(crate) fn groups(&self) -> usize {
        self.terms.levels()
    }

    pub(super) fn named<T>(&self, result: Result<T, CorrelatedError>) -> Result<T, Error> {
        result.map_err(|error| refused(&error, &self.terms))
    }

    /// The scales of the model at T: sds, then correlations.
    fn scales_at(&self, t: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.terms.unknown_scales.scales.len()];
        self.terms.set(&self.terms.list[0], t, &mut out);
        out
    }

    /// The same of an estimate.
    pub(crate) fn scales(&self, found: &CorrelatedFit) -> Vec<f64> {
        self.scales_at(&found.factor())
    }

    /// The fit with the effects of all groups.
    pub(super) fn estimated(
        &self,
        journal: &Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Result<(CorrelatedFit, SeveralEffects), Error> {
        let mut watch = watching(Stage::Estimate, 0, |at| self.scales_at(at), journal, observer);
        let found = self.named(self.model.fit_observed(&mut watch))?;
        let levels = self.named(self.model.effects(&found.fixed, &found.factor()))?;
        let (effects, between) = self.effects(&found, &levels);
        let ball = match &found.proof {
            Proof::Ball(ball) => Some(ProvedBall {
                theorem: "Theorem G2",
                radius: ball.log_variance.exp_m1(),
                exclusion: f64::INFINITY,
                zero: Vec::new(),
            }),
            _ => None,
        };
        let estimate = SeveralEffects {
            effects,
            between,
            deviations: Vec::new(),
            evaluations: 0,
            thetas: self.terms.thetas(std::slice::from_ref(&found.term)),
            parameters: found.term.theta.len(),
            weight: self.model.weight(),
            ball,
            unenclosed: None,
            estimated: false,
            highest: None,
            scales_known: false,
        };
        Ok((found, estimate))
    }

    /// Profile intervals of sds and correlations of models that are small enough; none if the run is to end.
    pub(crate) fn profiles(
        &self,
        found: &CorrelatedFit,
        journal: &Journal,
        observer: &mut ScaleObserver<'_>,
    ) -> Vec<Profiled> {
        let mut out = vec![Profiled::NotTried; self.terms.unknown_scales.scales.len()];
        if self.model.rows() > PROFILED {
            return out;
        }
        let mut watch =
            watching(Stage::Profile, found.evaluations, |at| self.scales_at(at), journal, observer);
        let (sds, singular) = (found.term.sds.clone(), found.term.rank < found.term.sds.len());
        let found = match self.model.profiles(found, CUT, &mut watch) {
            Ok(found) => found,
            Err(CorrelatedError::Stopped) => return out,
            Err(error) => {
                out.fill(Profiled::NotFound(error.to_string()));
                return out;
            }
        };
        let (term, k) = (&self.terms.list[0], self.terms.list[0].effects.len());
        for (effect, own) in term.effects.iter().zip(&found) {
            out[self.terms.unknown_scales.effects[*effect].scale] = Profiled::of(*own);
        }
        if let Some(at) = term.correlations {
            for (place, (i, j)) in TermFit::pairs(k).enumerate() {
                let own = found[k + place];
                out[at + place] = match own {
                    None if found[i].is_none() || found[j].is_none() => {
                        Profiled::NotFound("that of an sd was not found".into())
                    }
                    // beside an sd of 0 there is none, and of a singular matrix of three effects none is looked for
                    None if sds[i] * sds[j] == 0.0 || (singular && k > 2) => Profiled::NotTried,
                    own => Profiled::of(own),
                };
            }
        }
        out
    }

    /// The error of log L; infinite where none is proved.
    pub(crate) fn error(found: &CorrelatedFit) -> f64 {
        match found.quadrature {
            Quadrature::Proved { error } => error,
            Quadrature::Estimated { .. } => f64::INFINITY,
        }
    }

    /// What is proved of every sd; correlations have no interval of their own.
    pub(crate) fn intervals(&self, found: &CorrelatedFit) -> Vec<Interval> {
        let nothing = |why: String| Interval { sds: [f64::NAN; 2], proved: Err(why) };
        let of = |sd: f64| match &found.proof {
            Proof::Ball(ball) => {
                let factor = (0.5 * ball.log_variance).exp();
                let sds = [(sd / factor).next_down(), (sd * factor).next_up()];
                Interval { sds, proved: Ok(()) }
            }
            Proof::Face { .. } => nothing(format!(
                "the covariance matrix of {} is singular; a maximum is proved only among matrices of its rank \
                    (Theorem G2)",
                self.terms.names[0]
            )),
            Proof::None { reason } => nothing(reason.to_string()),
        };
        let mut out: Vec<Interval> = found.term.sds.iter().map(|sd| of(*sd)).collect();
        out.resize(self.terms.unknown_scales.scales.len(), nothing("no proof".into()));
        out
    }

    /// The laws of the effects of all levels at T: those without rows have the prior's.
    pub(super) fn all_levels(&self, levels: &[LevelEffects], t: &[f64]) -> Vec<LevelEffects> {
        let (k, p) = (self.terms.list[0].effects.len(), self.dim());
        let prior = |e: usize| (0..k).map(|l| t[l * k + e % k] * t[l * k + e / k]).sum::<f64>();
        let unseen = |level: usize| LevelEffects {
            level,
            mean: vec![0.0; k],
            covariance: (0..k * k).map(prior).collect(),
            mode: vec![0.0; k],
            with_fixed: vec![0.0; k * p],
        };
        let mut next = levels.iter().peekable();
        (0..self.groups())
            .map(|g| next.next_if(|own| own.level == g).cloned().unwrap_or_else(|| unseen(g)))
            .collect()
    }

    /// The effects in the order of the model, per effect its levels, and their covariances within a level: what the
    /// coefficients' uncertainty adds is in both (docs/collapsed.md, K6).
    fn effects(&self, found: &CorrelatedFit, levels: &[LevelEffects]) -> (Vec<Effect>, Vec<f64>) {
        let (k, p) = (found.term.sds.len(), self.dim());
        let (all, rows) = (self.all_levels(levels, &found.factor()), &self.terms.rows[0]);
        // Cov(b, β) = −C V, and C V Cᵀ is added
        let v = &found.fixed_covariance;
        let moved = |own: &LevelEffects| -> Vec<f64> {
            let entry =
                |e: usize| (0..p).map(|c| own.with_fixed[e / p * p + c] * v[c * p + e % p]).sum::<f64>();
            (0..k * p).map(entry).collect()
        };
        let moved: Vec<Vec<f64>> = all.iter().map(moved).collect();
        let total = |g: usize, i: usize, j: usize| {
            let added = linalg::dot(&moved[g][i * p..][..p], &all[g].with_fixed[j * p..][..p]);
            all[g].covariance[j * k + i] + added
        };
        let mut effects = Vec::with_capacity(k * all.len());
        for e in 0..k {
            for (g, own) in all.iter().enumerate() {
                let (mean, sd) = (own.mean[e], total(g, e, e).max(0.0).sqrt());
                effects.push(Effect {
                    group: g,
                    rows: rows[g],
                    mean,
                    sd,
                    quantiles: [mean - NORMAL_95 * sd, mean, mean + NORMAL_95 * sd],
                    covariance: moved[g][e * p..][..p].iter().map(|x| -x).collect(),
                });
            }
        }
        let pairs = |g: usize| TermFit::pairs(k).map(move |(i, j)| (g, i, j));
        let between = (0..all.len()).flat_map(pairs).map(|(g, i, j)| total(g, i, j)).collect();
        (effects, between)
    }

    /// The likelihood at stored coefficients and scales, and whether an interval of the first holds that of the
    /// estimate.
    pub(super) fn confirmed(
        &self,
        beta: &[f64],
        stored: &[f64],
        interval: Option<[f64; 2]>,
    ) -> Result<Confirmed, Error> {
        let t = self.terms.factor(&self.terms.list[0], stored);
        let (log_likelihood, error) = self.named(self.model.log_likelihood(beta, &t))?;
        let margin = match interval {
            None => 1.0,
            Some([low, high]) => {
                let own = self.intervals(&self.named(self.model.fit())?).swap_remove(0);
                let inside = own.proved.is_ok() && low <= own.sds[0] && own.sds[1] <= high;
                if inside { 1.0 } else { -1.0 }
            }
        };
        Ok(Confirmed { log_likelihood, value: -log_likelihood, error, margins: [margin; 2] })
    }
}

/// An error of the engine by the names of the model.
fn refused(error: &CorrelatedError, terms: &EffectTerms) -> Error {
    let term = &terms.names[0];
    let (what, remedy) = match error {
        CorrelatedError::Stopped => return Error::Stopped,
        CorrelatedError::Collinear { column } => (
            format!(
                "the coefficient of {} is not identified: its column is a combination of those before it",
                terms.coefficients.get(*column).cloned().unwrap_or_default()
            ),
            "leave it out",
        ),
        CorrelatedError::IllConditioned { .. } => hardly_apart(term),
        CorrelatedError::NotConverged { iterations, decrement, sds } => {
            no_maximum(term, *iterations, *decrement, sds)
        }
        other => (format!("{term}: {other}"), CURES),
    };
    InvalidModel::Unsupported { what, remedy }.into()
}
