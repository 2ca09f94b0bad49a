//! Several group effects whose sds are not given: the terms of a model, and an estimate as it is told.

use std::ops::ControlFlow;

use certus::gaussian::NORMAL_95;
use certus::random::{Purpose, Random};
use certus_data::Prepared;
use certus_mixed::collapsed::Effect;
use certus_mixed::linear::{Design, Modes, Term, TermFit};
use certus_mixed::{Evaluation, Journal, ScaleObserver, Stage};

use crate::variance::mixture::Effects;
use crate::variance::names::UnknownScales;
use crate::variance::request::term_of;

/// Draws of the effects that are kept for predictions, and numbers of them, at most.
const DRAWS: usize = 1000;
const NUMBERS: usize = 4_000_000;

/// The refusal of effects that can hardly be told apart: what, and what to do.
pub(crate) fn hardly_apart(term: &str) -> (String, &'static str) {
    let what = format!(
        "the effects of {term} can hardly be told apart: a slope's column is far from 0 compared with its spread, or \
            the columns of all levels add up to the intercept's"
    );
    (what, "subtract a constant from the column, such as its mean, or write 0 + in the group term")
}

/// Where to read what to do about a refusal that names no cure by the names of the model.
pub(crate) const CURES: &str = "see docs/when-it-says-no.md";

/// The refusal of a likelihood whose maximum was not found: what, and what to do.
pub(crate) fn no_maximum(terms: &str, steps: usize, decrement: f64, sds: &[f64]) -> (String, &'static str) {
    let what = format!(
        "the likelihood of {terms} has no maximum that was found in {steps} steps (decrement {decrement:e}, standard \
            deviations {sds:?}); a coefficient or an sd that grows without end means that the response is separated"
    );
    (what, "leave out the columns that separate it, or simplify the terms")
}

/// A term of the model: correlated effects of a group, or one of several independent ones.
pub(crate) struct EffectTerm {
    /// The group.
    pub(crate) group: usize,
    /// Its effects among those of the model.
    pub(crate) effects: Vec<usize>,
    /// The first of its correlations among the scales.
    pub(crate) correlations: Option<usize>,
}

/// The terms of a model, with the names that errors need.
pub(crate) struct EffectTerms {
    pub(crate) list: Vec<EffectTerm>,
    pub(crate) unknown_scales: UnknownScales,
    /// Rows by level, group after group.
    pub(crate) rows: Vec<Vec<usize>>,
    /// Groups of different factors, the first of each.
    pub(crate) factors: Vec<usize>,
    /// The factor of every group.
    factor_of: Vec<usize>,
    /// Columns of the fixed effects.
    pub(crate) fixed: usize,
    /// The names of the coefficients, and of every term.
    pub(crate) coefficients: Vec<String>,
    pub(crate) names: Vec<String>,
}

impl EffectTerms {
    /// Correlated effects together, independent ones apart.
    pub(crate) fn new(prepared: &Prepared, unknown_scales: &UnknownScales) -> Self {
        let encoding = &prepared.encoding;
        let mut list = Vec::new();
        for group in 0..encoding.groups.len() {
            let (_, correlations) = unknown_scales.term(group);
            let places = unknown_scales.effects.iter().enumerate().filter(|(_, e)| e.term == group);
            let places: Vec<usize> = places.map(|(k, _)| k).collect();
            match correlations {
                Some(_) => list.push(EffectTerm { group, effects: places, correlations }),
                None => list.extend(places.iter().map(|k| EffectTerm {
                    group,
                    effects: vec![*k],
                    correlations: None,
                })),
            }
        }
        let (mut factors, mut factor_of) = (Vec::<usize>::new(), Vec::new());
        for (g, group) in encoding.groups.iter().enumerate() {
            let known = factors.iter().position(|f| encoding.groups[*f].columns == group.columns);
            factor_of.push(known.unwrap_or_else(|| {
                factors.push(g);
                factors.len() - 1
            }));
        }
        Self {
            factors,
            factor_of,
            names: list.iter().map(|t| term_of(encoding, &encoding.groups[t.group])).collect(),
            list,
            unknown_scales: unknown_scales.clone(),
            rows: prepared.rows_by_level(),
            fixed: encoding.features.len() + usize::from(encoding.intercept),
            coefficients: encoding.coefficients(),
        }
    }

    /// The shape, as the engines take it.
    pub(crate) fn design(&self) -> Design {
        Design {
            levels: self.factors.iter().map(|f| self.rows[*f].len()).collect(),
            terms: self.list.iter().map(|t| self.engine_term(t)).collect(),
            fixed: self.fixed,
        }
    }

    fn engine_term(&self, term: &EffectTerm) -> Term {
        Term { factor: self.factor_of[term.group], effects: term.effects.len() }
    }

    /// The factor of a group, a place among the levels of a row.
    pub(crate) fn factor_of(&self, group: usize) -> usize {
        self.factor_of[group]
    }

    /// Levels of all factors.
    pub(crate) fn levels(&self) -> usize {
        self.factors.iter().map(|f| self.rows[*f].len()).sum()
    }

    /// The level of every effect and its rows, in the order of the model.
    pub(crate) fn levels_of_effects(&self) -> impl Iterator<Item = (usize, usize)> {
        self.unknown_scales.effects.iter().flat_map(|e| self.rows[e.term].iter().copied().enumerate())
    }

    /// The term of an effect, and its place there.
    pub(crate) fn place(&self, effect: usize) -> (usize, usize) {
        let found = |(t, term): (usize, &EffectTerm)| {
            term.effects.iter().position(|e| *e == effect).map(|place| (t, place))
        };
        self.list.iter().enumerate().find_map(found).unwrap_or((0, 0))
    }

    /// Numbers per effect from the engine's order to that of the model.
    pub(crate) fn ordered(&self, numbers: &[f64]) -> Vec<f64> {
        let mut first = Vec::with_capacity(self.list.len());
        let mut at = 0;
        for term in &self.list {
            first.push(at);
            at += term.effects.len() * self.rows[term.group].len();
        }
        let mut out = Vec::with_capacity(numbers.len());
        for effect in 0..self.unknown_scales.effects.len() {
            let (term, e) = self.place(effect);
            let (k, levels) = (self.list[term].effects.len(), self.rows[self.list[term].group].len());
            out.extend((0..levels).map(|level| numbers[first[term] + level * k + e]));
        }
        out
    }

    /// The effects in the order of the model: per effect, its levels.
    pub(crate) fn effects(&self, all: &[Modes]) -> Vec<Effect> {
        let p = self.fixed;
        let mut out = Vec::new();
        for effect in 0..self.unknown_scales.effects.len() {
            let (term, e) = self.place(effect);
            let (own, rows) = (&all[term], &self.rows[self.list[term].group]);
            let k = own.effects;
            for (level, rows) in rows.iter().enumerate() {
                let at = level * k + e;
                let (mean, sd) = (own.means[at], own.variances[at * k + e].max(0.0).sqrt());
                out.push(Effect {
                    group: level,
                    rows: *rows,
                    mean,
                    sd,
                    quantiles: [mean - NORMAL_95 * sd, mean, mean + NORMAL_95 * sd],
                    covariance: own.with_fixed[at * p..][..p].to_vec(),
                });
            }
        }
        out
    }

    /// Draws of what is not known of coefficients and effects, these in the order of the model: `draw` makes them of
    /// `length` normal numbers each, which come from a stream of their own.
    pub(crate) fn deviations<E>(
        &self,
        length: usize,
        stream: u64,
        draw: impl FnOnce(&[f64]) -> Result<Vec<f64>, E>,
    ) -> Result<Vec<f64>, E> {
        let count = (NUMBERS / length.max(1)).clamp(1, DRAWS);
        let mut normals = vec![0.0; count * length];
        Random::new(0, Purpose::Sample, 0).normals(stream, 0, length, &mut normals);
        let drawn = draw(&normals)?;
        let mut out = Vec::with_capacity(drawn.len());
        for draw in drawn.chunks_exact(drawn.len() / count) {
            let (fixed, effects) = draw.split_at(self.fixed);
            out.extend_from_slice(fixed);
            out.extend(self.ordered(effects));
        }
        Ok(out)
    }

    /// T of a term, k × k by columns, at some scales of the model.
    pub(crate) fn factor(&self, term: &EffectTerm, scales: &[f64]) -> Vec<f64> {
        let k = term.effects.len();
        let sd = |e: usize| self.unknown_scales.sd(&self.unknown_scales.effects[term.effects[e]], scales);
        let mut square: Vec<f64> = (0..k * k).map(|e| sd(e % k) * sd(e / k)).collect();
        if let Some(at) = term.correlations {
            for (place, (i, j)) in TermFit::pairs(k).enumerate() {
                square[j * k + i] *= scales[at + place];
                square[i * k + j] = square[j * k + i];
            }
        }
        root(square, k)
    }

    /// The sds of a term and its correlations at T, k × k by columns, among the scales of the model.
    pub(crate) fn set(&self, term: &EffectTerm, t: &[f64], scales: &mut [f64]) {
        let k = term.effects.len();
        let product = |i: usize, j: usize| (0..k).map(|l| t[l * k + i] * t[l * k + j]).sum::<f64>();
        for (e, effect) in term.effects.iter().enumerate() {
            scales[self.unknown_scales.effects[*effect].scale] = product(e, e).sqrt();
        }
        if let Some(at) = term.correlations {
            for (place, (i, j)) in TermFit::pairs(k).enumerate() {
                let r = product(i, j) / (product(i, i) * product(j, j)).sqrt();
                // beside an sd of 0 there is none
                scales[at + place] = if r.is_finite() { r.clamp(-1.0, 1.0) } else { 0.0 };
            }
        }
    }

    /// lme4's θ of every group on the user's scale: the lower factor of Σ (of linear models Σ/σ²) by columns, of
    /// independent effects their sds.
    pub(crate) fn thetas(&self, found: &[TermFit]) -> Vec<Vec<f64>> {
        let mut out: Vec<Vec<f64>> = vec![Vec::new(); self.rows.len()];
        for (term, own) in self.list.iter().zip(found) {
            let k = own.sds.len();
            let rows = (0..k).flat_map(|j| j..k);
            let units = rows.map(|i| self.unknown_scales.effects[term.effects[i]].unit);
            out[term.group].extend(own.theta.iter().zip(units).map(|(t, unit)| t * unit));
        }
        out
    }
}

/// A lower factor of a positive semidefinite matrix, by columns.
fn root(mut a: Vec<f64>, k: usize) -> Vec<f64> {
    for j in 0..k {
        let pivot = a[j * k + j];
        let size = if pivot > 1e-14 * a[j * k..][..k].iter().fold(0.0f64, |m, x| m.max(x.abs())) {
            pivot.sqrt()
        } else {
            0.0
        };
        for i in 0..k {
            a[j * k + i] = if i < j || size == 0.0 { 0.0 } else { a[j * k + i] / size };
        }
        for c in j + 1..k {
            for i in c..k {
                a[c * k + i] -= a[j * k + i] * a[j * k + c];
            }
        }
    }
    a
}

/// What tells the observer of a run about the points of an engine, counted from `count`: `scales` are the scales of the
/// model at one.
pub(crate) fn watching<'a>(
    stage: Stage,
    mut count: usize,
    scales: impl Fn(&[f64]) -> Vec<f64> + 'a,
    journal: &'a Journal,
    observer: &'a mut ScaleObserver<'_>,
) -> impl FnMut(&[f64], f64) -> ControlFlow<()> + 'a {
    move |at, log_likelihood| {
        count += 1;
        observer(&Evaluation { stage, count, scales: scales(at), log_likelihood }, journal)
    }
}

/// What is proved of covariance matrices.
#[derive(Clone)]
pub(crate) struct ProvedBall {
    /// By which theorem.
    pub(crate) theorem: &'static str,
    /// How far every matrix is from that of a maximum at most, as a part of it.
    pub(crate) radius: f64,
    /// No other stationary point is this near; infinite if that is not stated.
    pub(crate) exclusion: f64,
    /// Sds that are 0 at it.
    pub(crate) zero: Vec<String>,
}

/// Whether a maximum is the highest of all.
#[derive(Clone)]
pub(crate) enum Highest {
    /// It is, by Theorem L3.
    Proved,
    /// It is not known, though it was asked for, or it is not: why.
    NotProved(String),
}

/// An estimate of several group effects, as it is told.
#[derive(Clone)]
pub(crate) struct SeveralEffects {
    /// In the order of the model: per effect, its levels.
    pub(crate) effects: Vec<Effect>,
    /// [`Effects::between`] and [`Effects::deviations`].
    pub(crate) between: Vec<f64>,
    pub(crate) deviations: Vec<f64>,
    /// Evaluations that no observer has seen.
    pub(crate) evaluations: usize,
    /// lme4's θ of every group.
    pub(crate) thetas: Vec<Vec<f64>>,
    /// Parameters of the variances.
    pub(crate) parameters: usize,
    /// n, the sum of the weights.
    pub(crate) weight: f64,
    /// What is proved.
    pub(crate) ball: Option<ProvedBall>,
    /// Why that does not include every rounding error, where it was asked for.
    pub(crate) unenclosed: Option<String>,
    /// Whether that maximum is the highest of all, if that was looked at.
    pub(crate) highest: Option<Highest>,
    /// True if the likelihood itself is an estimate.
    pub(crate) estimated: bool,
    /// True if standard errors of coefficients take the scales as known.
    pub(crate) scales_known: bool,
}

impl SeveralEffects {
    /// The effects with what predictions need beside their own laws.
    pub(crate) fn kept(&self) -> Option<Effects> {
        let mut kept = Effects::new(&self.effects)?;
        kept.between.clone_from(&self.between);
        kept.deviations.clone_from(&self.deviations);
        Some(kept)
    }
}
