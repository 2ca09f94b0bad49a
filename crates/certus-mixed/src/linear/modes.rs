//! Conditional modes of the group effects, and how well the data determine them (docs/mixed.md, L0).

use super::error::Error;
use super::fit::LinearMixedFit;
use super::point::Point;
use super::slopes::Slopes;
use super::small;
use super::statistics::Statistics;

/// The effects of one term, given the data and the estimated variances.
#[derive(Debug, Clone, PartialEq)]
pub struct Modes {
    /// k.
    pub effects: usize,
    /// b̂, k numbers per level.
    pub means: Vec<f64>,
    /// Var(b − b̂) with the uncertainty of the fixed effects, k × k per level.
    pub variances: Vec<f64>,
    /// The same with the fixed effects given (lme4's `condVar`).
    pub given_fixed: Vec<f64>,
    /// Cov(b − b̂, β − β̂), p × k per level.
    pub with_fixed: Vec<f64>,
}

/// b̂_f = (I⊗Σ_f)u_f, Var(b − b̂) = σ²(Σ_f − Σ_fR_jjΣ_f), Cov(β − β̂, b − b̂) = −σ²ΞD_jᵀΣ_f, for every term.
pub fn modes(statistics: &Statistics, fit: &LinearMixedFit) -> Result<Vec<Modes>, Error> {
    let point = Point::new(statistics, fit.criterion, &fit.factors)?;
    let slopes = Slopes::new(&point);
    let variance = fit.sigma * fit.sigma;
    let layout = &statistics.layout;
    let (p, all) = (layout.fixed, layout.columns());
    let mut out = Vec::new();
    for (place, t) in layout.places.iter().zip(&fit.factors) {
        let (k, factor) = (place.effects, layout.factors[place.factor]);
        let sigma = small::congruence(t, &small::identity(k), k);
        let mut modes = Modes {
            effects: k,
            means: Vec::new(),
            variances: Vec::new(),
            given_fixed: Vec::new(),
            with_fixed: Vec::new(),
        };
        for level in 0..factor.levels {
            let at = factor.start + level * factor.effects;
            let u = &slopes.u[at + place.first..][..k];
            modes.means.extend((0..k).map(|i| (0..k).map(|l| sigma[l * k + i] * u[l]).sum::<f64>()));
            let size = factor.effects * factor.effects;
            let block = &slopes.blocks[place.factor][level * size..][..size];
            let explained = slopes.explained(at, factor.effects);
            let left: Vec<f64> = block.iter().zip(&explained).map(|(b, e)| b - e).collect();
            for (r, to) in [(&left[..], &mut modes.variances), (block, &mut modes.given_fixed)] {
                let less = small::congruence(&sigma, &layout.part(place, r), k);
                to.extend(sigma.iter().zip(&less).map(|(s, l)| variance * (s - l)));
            }
            for e in 0..k {
                // DᵀΣ e, then Ξ
                let own = |c: usize, l: usize| slopes.d[c * all + at + place.first + l] * sigma[e * k + l];
                let along: Vec<f64> = (0..p).map(|c| (0..k).map(|l| own(c, l)).sum()).collect();
                let times = |c: usize| (0..p).map(|l| slopes.xi[l * p + c] * along[l]).sum::<f64>();
                modes.with_fixed.extend((0..p).map(|c| -variance * times(c)));
            }
        }
        out.push(modes);
    }
    Ok(out)
}

/// Var(b − b̂) of all effects of a level, those of different terms too, K × K per level; `None` if there are several
/// factors.
pub fn level_covariances(statistics: &Statistics, fit: &LinearMixedFit) -> Result<Option<Vec<f64>>, Error> {
    let layout = &statistics.layout;
    let [factor] = layout.factors[..] else { return Ok(None) };
    let point = Point::new(statistics, fit.criterion, &fit.factors)?;
    let slopes = Slopes::new(&point);
    let (k, variance) = (factor.effects, fit.sigma * fit.sigma);
    let sigma = small::congruence(&point.t[0], &small::identity(k), k);
    let mut out = Vec::with_capacity(factor.levels * k * k);
    for level in 0..factor.levels {
        let block = &slopes.blocks[0][level * k * k..][..k * k];
        let explained = slopes.explained(factor.start + level * k, k);
        let left: Vec<f64> = block.iter().zip(&explained).map(|(b, e)| b - e).collect();
        let less = small::congruence(&sigma, &left, k);
        out.extend(sigma.iter().zip(&less).map(|(s, l)| variance * (s - l)));
    }
    Ok(Some(out))
}
