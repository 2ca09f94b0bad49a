//! A second descent, where the first ended in the wrong place: at another mode that has almost all of the posterior, or
//! from the start, where the way up led into the neck of a funnel.

use super::verdict::{Comparison, Verdict};
use super::{Ending, Run, start};
use crate::certificate::Gap;
use crate::certificate::words::percent;
use crate::error::Error;
use crate::factor::Family;
use crate::fit::Status;
use crate::gaussian::Gaussian;
use crate::moving::{Convexity, Measured};

/// From this share of the posterior on, a mode that q misses is where q belongs.
const DOMINANT: f64 = 0.99;
/// Standard errors by which an ELBO must be higher.
const CLEARLY: f64 = 2.0;

/// Where a second descent begins.
enum Elsewhere {
    /// At a mode with this share.
    Mode(Vec<f64>, f64),
    /// At the start, without a search for the mode.
    Start,
}

/// What a descent has found.
struct Found {
    gaussian: Gaussian,
    measured: Option<Measured>,
    convexity: Convexity,
    certified: Option<Gap>,
    comparison: Option<Comparison>,
    route: String,
    ending: Result<Ending, Error>,
}

impl Found {
    fn is_usable(&self) -> bool {
        self.comparison.as_ref().is_some_and(|c| c.verdict.is_usable())
    }

    /// −ELBO and its standard error.
    fn neg_elbo(&self) -> Option<(f64, f64)> {
        self.measured.as_ref().map(|m| (m.neg_elbo.value, m.neg_elbo.standard_error))
    }

    /// Whether it is to be kept, and not `first`.
    fn replaces(&self, first: &Found) -> bool {
        match (self.neg_elbo(), first.neg_elbo()) {
            _ if self.ending.is_err() => false,
            (None, _) => false,
            (Some(_), None) => true,
            _ if self.is_usable() != first.is_usable() => self.is_usable(),
            (Some((own, a)), Some((other, b))) => own + CLEARLY * a.hypot(b) < other,
        }
    }
}

impl Run<'_, '_> {
    /// Begins again where that promises more, once; the better of both is kept.
    pub(super) fn again(&mut self, ending: Result<Ending, Error>) -> Result<Ending, Error> {
        let Some(elsewhere) = self.elsewhere(&ending) else { return ending };
        let first = self.take(ending);
        let ending = self.second(&elsewhere);
        let second = self.take(ending);
        if second.replaces(&first) {
            return self.restore(second);
        }
        // who stopped the second descent, and an error of the target in it, are answered in any case
        let ending = match second.ending {
            ending @ (Ok((Status::Interrupted, _)) | Err(Error::Target(_))) => ending,
            _ => first.ending,
        };
        self.restore(Found { ending, ..first })
    }

    fn second(&mut self, elsewhere: &Elsewhere) -> Result<Ending, Error> {
        self.began_again = true;
        if self.goal.max_gradients.is_none() {
            self.most += self.target.evaluations();
        }
        let (point, climb, words) = match elsewhere {
            Elsewhere::Mode(point, share) => {
                let words =
                    format!("begun again at another mode, with about {} % of the posterior", percent(*share));
                (point.clone(), true, words)
            }
            Elsewhere::Start => (
                start(self.goal, self.gaussian.dim()),
                false,
                "begun again at the start, for a better ELBO".into(),
            ),
        };
        self.gaussian = Gaussian::isotropic(point, 1.0, &Family::Lower)?;
        let ending = self.route_from(climb);
        let ending = self.check_convexity(ending);
        let ending = self.compare(ending);
        self.route = format!("{} ({words})", self.route);
        ending
    }

    /// Where a second descent should begin, if there is time for it.
    fn elsewhere(&self, ending: &Result<Ending, Error>) -> Option<Elsewhere> {
        let half = self.goal.max_time.is_none_or(|limit| 2 * self.clock.elapsed() < limit)
            && self.goal.max_gradients.is_none_or(|most| 2 * self.target.evaluations() < most);
        if self.began_again || !half || self.declares_convexity() {
            return None;
        }
        match ending {
            Ok((Status::Reached | Status::Limit | Status::NoProgress, _)) => {}
            Err(Error::NonFinite { .. }) if self.climbed => return Some(Elsewhere::Start),
            _ => return None,
        }
        let comparison = self.comparison.as_ref()?;
        let modes = &comparison.modes;
        if modes.missed > 0 {
            let (mode, share) = (&modes.found[1], modes.share(1));
            let dominant = share >= DOMINANT && mode.symmetry.is_none();
            return dominant.then(|| Elsewhere::Mode(mode.point.clone(), share));
        }
        let unreliable = comparison.verdict == Verdict::Unreliable && comparison.importance.is_some();
        (unreliable && self.climbed).then_some(Elsewhere::Start)
    }

    fn take(&mut self, ending: Result<Ending, Error>) -> Found {
        Found {
            gaussian: self.gaussian.clone(),
            measured: self.measured.take(),
            convexity: std::mem::replace(&mut self.convexity, Convexity::NotChecked),
            certified: self.certified.take(),
            comparison: self.comparison.take(),
            route: self.route.clone(),
            ending,
        }
    }

    fn restore(&mut self, found: Found) -> Result<Ending, Error> {
        (self.gaussian, self.measured) = (found.gaussian, found.measured);
        (self.convexity, self.certified) = (found.convexity, found.certified);
        (self.comparison, self.route) = (found.comparison, found.route);
        found.ending
    }
}
