//! The maximum over all variances, for one or two terms with one effect each: branch and bound over the variance ratios
//! γ_f = Σ_f/σ² (docs/mixed.md, L3).
//!
//! D = log|V| (+ log|XᵀV⁻¹X|) is concave and increasing in γ, Q convex and decreasing, F = D + m log Q + constant.

use certus::certificate::words::nearest;

use super::ball::Ball;
use super::fit::LinearMixedFit;
use super::limit::sum_of_squares;
use super::point::{Criterion, Point, freedom};
use super::proof::{Proof, perturbation};
use super::slopes::Slopes;
use super::statistics::Statistics;

/// Γ: beyond it, relative to the mean square of an effect's column, a variance ratio is in a tail.
const FAR: f64 = 1e6;
/// Cells at most.
const CELLS: usize = 200_000;
/// Cells that a proof takes at least, about: of one term whose sd is 0; of one that is positive, or of two that are 0;
/// of two terms otherwise. What can't afford as many is not begun.
const FEWEST: [f64; 3] = [8.0, 30.0, 150.0];

/// L3: no variances at all give a likelihood as high as those in the ball or on the face of L1 and L2.
#[derive(Debug, Clone, PartialEq)]
pub struct Global {
    /// Cells of variance ratios that were excluded or found to be part of the ball, tails among them.
    pub cells: usize,
}

/// Why the maximum is not proved to be the global one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotGlobal {
    /// Theorem L3 is about one or two terms with one effect each.
    #[error(
        "the global maximum can be proved for one or two terms with one effect each; this model has {terms}"
    )]
    Terms {
        /// What the model has.
        terms: String,
    },
    /// L1 and L2 prove nothing.
    #[error("no maximum is proved near the estimate")]
    Local,
    /// Some variances are better.
    #[error("at other variances the criterion is lower by about {}", nearest(*below, 2))]
    Better {
        /// Variance ratios.
        ratios: Vec<f64>,
        /// By how much the criterion is lower there.
        below: f64,
    },
    /// Large models.
    #[error("the branch and bound was not begun: it could look at {cells} cells, too few for a proof")]
    Large {
        /// Cells that it could look at.
        cells: usize,
    },
    /// A cell could not be excluded.
    #[error("the branch and bound left variances that it could not exclude (after {cells} cells)")]
    Undecided {
        /// Cells so far.
        cells: usize,
        /// A point of it, variance ratios; infinite in a tail.
        ratios: Vec<f64>,
    },
}

/// Theorem L3 for an estimate of [`fit`](super::fit()), with at most about `budget` multiplications.
pub fn global(statistics: &Statistics, fit: &LinearMixedFit, budget: f64) -> Result<Global, NotGlobal> {
    let terms = fit.terms.len();
    if terms > 2 || fit.terms.iter().any(|t| t.sds.len() > 1) {
        let effects: Vec<String> = fit.terms.iter().map(|t| t.sds.len().to_string()).collect();
        let text = format!("{terms} with {} effects", effects.join(", "));
        return Err(NotGlobal::Terms { terms: text });
    }
    let known = Known::new(fit).ok_or(NotGlobal::Local)?;
    let estimate: Vec<f64> = fit.factors.iter().map(|t| t[0] * t[0]).collect();
    let sizes: Vec<f64> = statistics.rms().iter().map(|r| r[0] * r[0]).collect();
    let (criterion, value) = (fit.criterion, fit.value);
    let mut search = Search { s: statistics, criterion, value, allowance: 0.0, budget, cells: 0 };
    let affordable = budget / search.each();
    let positive = usize::from(estimate.iter().any(|ratio| *ratio > 0.0));
    if affordable < FEWEST[terms - 1 + positive] {
        return Err(NotGlobal::Large { cells: affordable as usize });
    }
    search.allowance = search.at(&estimate).ok_or(NotGlobal::Local)?.allowance;
    let scale = Scale { estimate: &estimate, sizes: &sizes };
    let far: Vec<f64> = sizes.iter().map(|s| FAR / s).collect();
    search.inside(&known, &scale, &far)?;
    search.tails(&scale, &far)?;
    Ok(Global { cells: search.cells })
}

/// Where L1 and L2 leave one stationary point.
struct Known {
    low: Vec<f64>,
    high: Vec<f64>,
}

impl Known {
    fn new(fit: &LinearMixedFit) -> Option<Self> {
        let mut out = Self { low: vec![0.0; fit.terms.len()], high: vec![0.0; fit.terms.len()] };
        let mut inside = |ball: &Ball| {
            for (&term, excluded) in ball.terms.iter().zip(&ball.excluded) {
                let ratio = fit.factors[term][0] * fit.factors[term][0];
                (out.low[term], out.high[term]) = (ratio * (1.0 - excluded), ratio * (1.0 + excluded));
            }
        };
        match &fit.proof {
            Proof::Ball(ball) => inside(ball),
            Proof::Boundary { zero, reach, ball } => {
                ball.iter().for_each(&mut inside);
                zero.iter().zip(reach).for_each(|(&term, reach)| out.high[term] = *reach);
            }
            Proof::Singular { .. } | Proof::None { .. } => return None,
        }
        Some(out)
    }

    fn contains(&self, cell: &Cell) -> bool {
        let each = cell.low.iter().zip(&cell.high).zip(self.low.iter().zip(&self.high));
        each.into_iter().all(|((low, high), (least, most))| low >= least && high <= most)
    }
}

/// Coordinates in which cells are halved: log(γ + (γ̂ + 1)/1000), γ relative to the mean square of the column.
struct Scale<'a> {
    estimate: &'a [f64],
    sizes: &'a [f64],
}

impl Scale<'_> {
    fn shift(&self, term: usize) -> f64 {
        1e-3 * (self.estimate[term] + 1.0 / self.sizes[term])
    }

    fn width(&self, term: usize, low: f64, high: f64) -> f64 {
        ((high + self.shift(term)) / (low + self.shift(term))).ln()
    }

    fn middle(&self, term: usize, low: f64, high: f64) -> f64 {
        let shift = self.shift(term);
        (((low + shift) * (high + shift)).sqrt() - shift).clamp(low, high)
    }

    /// A cell in two, across its longest side among `sides`.
    fn halves(&self, cell: &Cell, sides: &[usize]) -> Option<[Cell; 2]> {
        let width = |t: usize| self.width(t, cell.low[t], cell.high[t]);
        let side = sides.iter().copied().max_by(|&a, &b| width(a).total_cmp(&width(b)))?;
        let middle = self.middle(side, cell.low[side], cell.high[side]);
        let mut both = [cell.clone(), cell.clone()];
        both[0].high[side] = middle;
        both[1].low[side] = middle;
        (middle > cell.low[side] && middle < cell.high[side]).then_some(both)
    }
}

#[derive(Clone)]
struct Cell {
    low: Vec<f64>,
    high: Vec<f64>,
}

/// D and Q at a point, and what rounding is expected to add to F there.
struct Value {
    d: f64,
    q: f64,
    allowance: f64,
}

/// At the corners 0, 1 or 00, 10, 01, 11, an affine function that is at most D: the plane of least squares, lowered by
/// its largest excess |ρ|, D₀₀ − D₁₀ − D₀₁ + D₁₁ = 4ρ.
fn plane(d: &[f64]) -> Vec<f64> {
    let [a, b, c, e] = d else { return d.to_vec() };
    let twist = 0.25 * (a - b - c + e);
    let lowered = |(i, d): (usize, &f64)| {
        let own = if i == 0 || i == 3 { twist } else { -twist };
        d - own - twist.abs()
    };
    d.iter().enumerate().map(lowered).collect()
}

struct Search<'a> {
    s: &'a Statistics,
    criterion: Criterion,
    /// F at the estimate.
    value: f64,
    /// What rounding is expected to add to it.
    allowance: f64,
    /// Multiplications at most.
    budget: f64,
    cells: usize,
}

impl<'a> Search<'a> {
    fn m(&self) -> f64 {
        freedom(self.s, self.criterion)
    }

    /// m(1 + log(2π/m)).
    fn constant(&self) -> f64 {
        let m = self.m();
        m * (1.0 + (2.0 * std::f64::consts::PI / m).ln())
    }

    fn point(&self, ratios: &[f64]) -> Option<Point<'a>> {
        let terms: Vec<Vec<f64>> = ratios.iter().map(|r| vec![r.sqrt()]).collect();
        Point::new(self.s, self.criterion, &terms).ok()
    }

    fn value_of(&self, point: &Point<'a>) -> Value {
        let m = self.m();
        let size = m + (self.s.layout.columns() + self.s.layout.fixed) as f64;
        Value {
            d: point.value - self.constant() - m * point.q.ln(),
            q: point.q,
            allowance: size * perturbation(point),
        }
    }

    fn at(&self, ratios: &[f64]) -> Option<Value> {
        Some(self.value_of(&self.point(ratios)?))
    }

    /// Whether a bound excludes a cell.
    fn excludes(&self, bound: f64) -> bool {
        bound > self.value + self.allowance
    }

    /// Theorem L3 (a) and (b): a lower bound of F over a cell; and the point of the cell with the lowest F seen.
    fn bound(&self, scale: &Scale<'_>, cell: &Cell) -> Option<(f64, Vec<f64>, f64)> {
        let terms = cell.low.len();
        let corners: Vec<Vec<f64>> = (0..1usize << terms)
            .map(|c| (0..terms).map(|t| if c >> t & 1 == 1 { cell.high[t] } else { cell.low[t] }).collect())
            .collect();
        let values: Option<Vec<Value>> = corners.iter().map(|c| self.at(c)).collect();
        let values = values?;
        let (m, constant) = (self.m(), self.constant());
        let middle: Vec<f64> = (0..terms).map(|t| scale.middle(t, cell.low[t], cell.high[t])).collect();
        let point = self.point(&middle)?;
        let (slopes, centre) = (Slopes::new(&point), self.value_of(&point));
        // ∂Q/∂γ = −Σ u²
        let gradient: Vec<f64> = self
            .s
            .layout
            .places
            .iter()
            .map(|p| -slopes.outer[p.factor][p.first * (self.s.layout.factors[p.factor].effects + 1)])
            .collect();
        let allowance = values.iter().chain([&centre]).map(|v| v.allowance).fold(0.0, f64::max);
        // (a)
        let last = values.len() - 1;
        let first = values[0].d + m * values[last].q.ln();
        // (b)
        let planes = plane(&values.iter().map(|v| v.d).collect::<Vec<_>>());
        let mut second = f64::INFINITY;
        for (corner, plane) in corners.iter().zip(planes) {
            let away: f64 = (0..terms).map(|t| gradient[t] * (corner[t] - middle[t])).sum();
            let tangent = centre.q + away;
            second = if tangent > 0.0 { second.min(plane + m * tangent.ln()) } else { f64::NEG_INFINITY };
            if second == f64::NEG_INFINITY {
                break;
            }
        }
        let lowest = values.iter().map(|v| v.d + m * v.q.ln()).enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let middle_value = centre.d + m * centre.q.ln();
        let (at, least) = match lowest {
            Some((i, least)) if least < middle_value => (corners[i].clone(), least),
            _ => (middle, middle_value),
        };
        Some((first.max(second) + constant - allowance, at, least + constant + allowance))
    }

    /// Multiplications of a cell.
    fn each(&self) -> f64 {
        let components = &self.s.components;
        let work = |c: usize| {
            let (n, levels) = (components.size(c) as f64, components.levels(c).len() as f64);
            n * n * (n + (n + levels).min(1e3))
        };
        let rest: f64 = (0..components.count()).map(work).sum();
        5.0 * (100.0 * self.s.layout.columns() as f64 + rest)
    }

    fn spent(&mut self, cell: &Cell) -> Result<(), NotGlobal> {
        self.cells += 1;
        if self.cells > CELLS || self.cells as f64 * self.each() > self.budget {
            return Err(NotGlobal::Undecided { cells: self.cells, ratios: cell.low.clone() });
        }
        Ok(())
    }

    /// Cells of [0, Γ]: excluded, or where L1 and L2 leave one stationary point.
    fn inside(&mut self, known: &Known, scale: &Scale<'_>, far: &[f64]) -> Result<(), NotGlobal> {
        let sides: Vec<usize> = (0..far.len()).collect();
        let mut open = vec![Cell { low: vec![0.0; far.len()], high: far.to_vec() }];
        while let Some(cell) = open.pop() {
            if known.contains(&cell) {
                self.cells += 1;
                continue;
            }
            self.spent(&cell)?;
            let bound = self.bound(scale, &cell);
            if let Some((bound, at, value)) = bound {
                if self.excludes(bound) {
                    continue;
                }
                let below = self.value - self.allowance - value;
                if below > 0.0 {
                    return Err(NotGlobal::Better { ratios: at, below });
                }
            }
            let undecided = || NotGlobal::Undecided { cells: self.cells, ratios: cell.low.clone() };
            open.extend(scale.halves(&cell, &sides).ok_or_else(undecided)?);
        }
        Ok(())
    }

    /// Theorem L3 (c): one variance ratio beyond Γ, or both.
    fn tails(&mut self, scale: &Scale<'_>, far: &[f64]) -> Result<(), NotGlobal> {
        let terms = far.len();
        for beyond in 1..1usize << terms {
            let is_beyond = |t: usize| beyond >> t & 1 == 1;
            let sides: Vec<usize> = (0..terms).filter(|&t| !is_beyond(t)).collect();
            let low = (0..terms).map(|t| if is_beyond(t) { far[t] } else { 0.0 }).collect();
            let high = (0..terms).map(|t| if is_beyond(t) { f64::INFINITY } else { far[t] }).collect();
            let mut open = vec![Cell { low, high }];
            while let Some(cell) = open.pop() {
                self.spent(&cell)?;
                let bound = self.at(&cell.low).zip(sum_of_squares(self.s, &cell.high));
                let m = self.m();
                let of = |(v, (q, error)): (Value, (f64, f64))| {
                    v.d + m * (q * (1.0 - error)).ln() + self.constant() - 2.0 * v.allowance
                };
                let bound = bound.map(of);
                if bound.is_some_and(|bound| self.excludes(bound)) {
                    continue;
                }
                let undecided = || NotGlobal::Undecided { cells: self.cells, ratios: cell.high.clone() };
                open.extend(scale.halves(&cell, &sides).ok_or_else(undecided)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::sample::{Noise, random};
    use super::*;

    type Case = (&'static [usize], &'static [(usize, usize)]);
    const CASES: [Case; 4] = [
        (&[7], &[(0, 1)]),
        (&[9, 4], &[(0, 1), (1, 1)]),
        (&[8], &[(0, 1), (0, 1)]),
        (&[12, 12], &[(0, 1), (1, 1)]),
    ];

    fn search(s: &Statistics, criterion: Criterion) -> Search<'_> {
        Search { s, criterion, value: 0.0, allowance: 0.0, budget: 1e10, cells: 0 }
    }

    /// (a) and (b) are below F at random points of random cells, and near it in small cells.
    #[test]
    fn cells_are_bounded_from_below() {
        let mut noise = Noise(3);
        let mut nearest = f64::INFINITY;
        for (case, criterion) in CASES.iter().flat_map(|c| [(c, Criterion::Reml), (c, Criterion::Ml)]) {
            let s = random(case.0, case.1, 40, &mut noise);
            let (terms, search) = (case.1.len(), search(&s, criterion));
            let (estimate, sizes) = (vec![0.3; terms], vec![1.0; terms]);
            let scale = Scale { estimate: &estimate, sizes: &sizes };
            for _ in 0..60 {
                let low: Vec<f64> = (0..terms).map(|_| (4.0 * noise.next() - 1.0).exp() - 0.01).collect();
                let low: Vec<f64> = low.into_iter().map(|x| x.max(0.0)).collect();
                let high = low.iter().map(|x| x + (x + 0.1) * (5.0 * noise.next() - 3.0).exp()).collect();
                let cell = Cell { low, high };
                let (bound, ..) = search.bound(&scale, &cell).unwrap();
                let mut least = f64::INFINITY;
                for _ in 0..40 {
                    let inside =
                        |t: usize, u: f64| cell.low[t] + (cell.high[t] - cell.low[t]) * (u + 1.0) / 2.0;
                    let at: Vec<f64> = (0..terms).map(|t| inside(t, noise.next())).collect();
                    least = least.min(search.point(&at).unwrap().value);
                }
                assert!(bound <= least + 1e-9, "{case:?} {criterion:?}: {bound} {least}");
                nearest = nearest.min(least - bound);
            }
        }
        assert!(nearest < 1e-3, "{nearest}");
    }

    /// The plane is one, is nowhere above D at the corners, and touches it.
    #[test]
    fn planes_are_below_the_corners() {
        let mut noise = Noise(6);
        for _ in 0..100 {
            let d: Vec<f64> = (0..4).map(|_| noise.next()).collect();
            let own = plane(&d);
            assert!((own[0] - own[1] - own[2] + own[3]).abs() < 1e-14, "{own:?}");
            let below: Vec<f64> = d.iter().zip(&own).map(|(d, p)| d - p).collect();
            assert!(
                below.iter().all(|b| *b > -1e-15) && below.iter().filter(|b| b.abs() < 1e-15).count() >= 2
            );
        }
        assert_eq!(plane(&[1.0, 2.0]), [1.0, 2.0]);
    }

    /// Q at infinity is the limit of Q, and that of the least-squares fit with the effects among the fixed ones.
    #[test]
    fn sums_of_squares_at_infinity_are_limits() {
        let mut noise = Noise(8);
        for case in CASES {
            let s = random(case.0, case.1, 60, &mut noise);
            let search = search(&s, Criterion::Ml);
            let terms = case.1.len();
            for beyond in 1..1usize << terms {
                let with = |far: f64| -> Vec<f64> {
                    (0..terms).map(|t| if beyond >> t & 1 == 1 { far } else { 0.37 * t as f64 }).collect()
                };
                let (limit, error) = sum_of_squares(&s, &with(f64::INFINITY)).unwrap();
                assert!(error < 1e-6, "{error}");
                let near = search.point(&with(1e8)).unwrap().q;
                assert!(
                    (near / limit - 1.0).abs() < 1e-5 && near >= limit * (1.0 - 1e-9),
                    "{case:?}: {near} {limit}"
                );
            }
        }
    }

    /// A budget for a tenth of the cells that are needed is not spent.
    #[test]
    fn what_is_too_large_is_not_begun() {
        let mut noise = Noise(5);
        let s = random(&[9, 4], &[(0, 1), (1, 1)], 200, &mut noise);
        let found = super::super::fit(&s, Criterion::Reml).unwrap();
        let cells = global(&s, &found, 1e10).unwrap().cells as f64;
        let each = search(&s, Criterion::Reml).each();
        assert!(matches!(global(&s, &found, 0.1 * cells * each), Err(NotGlobal::Large { .. })));
        assert!(global(&s, &found, (cells + 1.0) * each).is_ok());
    }

    /// An estimate at the higher of two minima is not called the global one.
    #[test]
    fn a_lower_minimum_is_found() {
        let mut noise = Noise(4);
        let s = random(&[7], &[(0, 1)], 40, &mut noise);
        let mut found = super::super::fit(&s, Criterion::Reml).unwrap();
        assert!(global(&s, &found, 1e10).is_ok());
        // as if the minimum were elsewhere, and higher by 0.1
        found.factors[0][0] *= 3.0;
        found.value = search(&s, Criterion::Reml).point(&[found.factors[0][0].powi(2)]).unwrap().value;
        assert!(matches!(global(&s, &found, 1e10), Err(NotGlobal::Better { .. })));
    }

    #[test]
    fn several_effects_are_refused() {
        let mut noise = Noise(4);
        let s = random(&[12], &[(0, 2)], 150, &mut noise);
        let found = super::super::fit(&s, Criterion::Reml).unwrap();
        assert!(matches!(global(&s, &found, 1e10), Err(NotGlobal::Terms { .. })));
    }
}
