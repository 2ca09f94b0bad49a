//! Where a profile crosses a cut: the ends of the profile intervals of every engine (docs/mixed.md, profiles).

/// A profile interval; 0 where the criterion stays below the cut all the way down, ±1 for a correlation in the same
/// way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Evaluations of the profile for one end, at most.
const TRIALS: usize = 100;
/// The longest step while no bracket is known.
const FAR: f64 = 2.0;

/// The profile at one value of its coordinate.
pub(crate) struct Height {
    /// How far the criterion, −2 log L minimised over everything else, is above its minimum.
    pub(crate) above: f64,
    /// Its derivative in the coordinate.
    pub(crate) slope: f64,
}

/// Which end is looked for.
#[derive(Clone, Copy)]
pub(crate) struct End {
    /// The coordinate of the estimate, or of a first guess at it.
    pub(crate) start: f64,
    /// The first step: its sign is the direction.
    pub(crate) step: f64,
    /// Beyond this coordinate the profile counts as constant.
    pub(crate) limit: f64,
    /// By how much the profile exceeds its minimum there.
    pub(crate) cut: f64,
    /// How close to the cut is close enough, as a part of 1 + the cut.
    pub(crate) close: f64,
}

/// The coordinate at which the profile crosses the cut, or the limit if it does not; nothing if it is not found. √ of
/// what the profile is above its minimum is nearly linear in the coordinate, so that Newton's method for it is used,
/// inside a bracket.
pub(crate) fn end<E>(
    search: End,
    mut height: impl FnMut(f64) -> Result<Height, E>,
) -> Result<Option<f64>, E> {
    let End { start, step, limit, cut, close } = search;
    let up = step > 0.0;
    let beyond_limit = |at: f64| if up { at >= limit } else { at <= limit };
    let (mut inside, mut outside) = (start, None::<f64>);
    let mut at = start + step;
    for _ in 0..TRIALS {
        if beyond_limit(at) {
            at = limit;
        }
        let here = height(at)?;
        let above = here.above - cut;
        if above.abs() < close * (1.0 + cut) {
            return Ok(Some(at));
        }
        if above < 0.0 {
            inside = at;
            if beyond_limit(at) {
                return Ok(Some(limit));
            }
        } else {
            outside = Some(at);
        }
        let root = here.above.max(1e-12).sqrt();
        let newton = at - (root - cut.sqrt()) * 2.0 * root / here.slope;
        let right_way = here.slope.is_finite() && (here.slope > 0.0) == up;
        at = match outside {
            Some(outside) => {
                let (a, b) = (inside.min(outside), inside.max(outside));
                if (b - a) < 1e-13 * (1.0 + a.abs()) {
                    return Ok(Some(at));
                }
                if right_way && newton > a && newton < b { newton } else { 0.5 * (a + b) }
            }
            None => {
                let far = if up { inside + FAR } else { inside - FAR };
                let between =
                    if up { newton > inside && newton < far } else { newton < inside && newton > far };
                if right_way && between { newton } else { 0.5 * (inside + far) }
            }
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parabola in the coordinate is left after two evaluations; a flat side ends at the limit.
    #[test]
    fn ends_of_known_profiles() {
        let search = End { start: 1.0, step: 0.3, limit: 9.0, cut: 2.7, close: 1e-9 };
        let mut count = 0;
        let parabola = |at: f64| {
            count += 1;
            Ok::<_, ()>(Height { above: 4.0 * (at - 1.0).powi(2), slope: 8.0 * (at - 1.0) })
        };
        let found = end(search, parabola).unwrap().unwrap();
        assert!((found - 1.0 - (2.7_f64 / 4.0).sqrt()).abs() < 1e-9 && count <= 2, "{found} {count}");
        // 1 − e^x, at most 1: below the cut all the way down
        let low = End { step: -0.3, start: 0.0, limit: -9.0, ..search };
        let flat = |at: f64| Ok::<_, ()>(Height { above: 1.0 - at.exp(), slope: -at.exp() });
        assert_eq!(end(low, flat).unwrap(), Some(-9.0));
        // a wall that Newton's method overshoots
        let wall = |at: f64| Ok::<_, ()>(Height { above: at.powi(9).max(0.0), slope: 9.0 * at.powi(8) });
        let found = end(End { start: 0.0, step: 4.0, ..search }, wall).unwrap().unwrap();
        assert!((found.powi(9) - 2.7).abs() < 1e-6, "{found}");
    }
}
