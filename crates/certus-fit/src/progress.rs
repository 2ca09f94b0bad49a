//! Where a run is, in the same words for every interface.

use std::ops::ControlFlow;

use certus::auto::TracePoint;
use certus::certificate::{counted, figure};
use certus_mixed::Stage;

/// Where a run is.
#[derive(Clone, Debug)]
pub struct RunProgress {
    /// Its time and counts, and what is known about the gap.
    pub point: TracePoint,
    /// What a run over unknown scales is doing, and where.
    pub scales: Option<(Stage, String)>,
}

/// Called after every step with where the run is and how to save it; `Break` stops the run.
pub type RunObserver<'a> = dyn FnMut(&RunProgress, &dyn Fn() -> Vec<u8>) -> ControlFlow<()> + Send + 'a;

impl RunProgress {
    /// What is being done, in a few words that change seldom.
    pub fn doing(&self) -> &'static str {
        self.scales.as_ref().map_or("fitting", |(stage, _)| stage_words(*stage))
    }

    /// One line; `goal` is the gap that is to be reached.
    pub fn words(&self, goal: f64) -> String {
        let point = &self.point;
        match &self.scales {
            Some((stage, place)) => {
                format!("{}: {place}; {}", stage_words(*stage), counted(point.iteration, "pass"))
            }
            None => format!(
                "{}, goal {}; iteration {}, {}",
                point.words(),
                figure(goal),
                point.iteration,
                counted(point.gradients, "gradient")
            ),
        }
    }
}

fn stage_words(stage: Stage) -> &'static str {
    match stage {
        Stage::Estimate => "searching for maxima",
        Stage::Interval => "proving an interval",
        Stage::Profile => "profile intervals",
        Stage::Posterior => "computing the posterior on a grid",
        Stage::Effects => "computing the effects of groups",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use certus::certificate::Level;

    use super::*;

    fn point(iteration: u64) -> TracePoint {
        TracePoint {
            elapsed: Duration::ZERO,
            iteration,
            gradients: 1,
            neg_elbo: None,
            bound: Some(0.5),
            level: Level::Proved,
        }
    }

    #[test]
    fn numbers_agree_with_their_nouns() {
        let scales = Some((Stage::Interval, "sd(clinic) 1.2".to_string()));
        let words = |iteration, scales| RunProgress { point: point(iteration), scales }.words(0.01);
        assert_eq!(words(1, scales.clone()), "proving an interval: sd(clinic) 1.2; 1 pass");
        assert_eq!(words(0, scales), "proving an interval: sd(clinic) 1.2; 0 passes");
        assert!(words(3, None).ends_with("iteration 3, 1 gradient"), "{}", words(3, None));
    }
}
