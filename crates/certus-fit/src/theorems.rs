//! What the theorems say about the paper's methods and ours on a problem, in fields and in words: constants, step
//! sizes, bounds, iterations for the gap.

use certus::certificate::figure;
use certus::schedule::Schedule;
use certus::{Forecast, Goal, MethodName};
use certus_models::auto::{Basis, Forecasts, Model, PlannedMethod, Prediction};
use serde::Serialize;

use crate::number::short;
use certus_data::DataError;

/// What a plan says, as lines of what and how much.
pub(crate) type Lines = Vec<(&'static str, String)>;

/// What a fit would do, without doing it. Prints as a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitPlan {
    /// What and how much, a line each.
    pub lines: Vec<(&'static str, String)>,
    /// What the theorems say about the paper's methods, where that can be computed.
    pub theorems: Option<Theorems>,
}

impl std::fmt::Display for FitPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (what, value) in &self.lines {
            writeln!(f, "{what:<13} {}", value.replace('\n', &format!("\n{:14}", "")))?;
        }
        Ok(())
    }
}

/// The theorems of the methods on one problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Theorems {
    /// The gap, in nats, that iterations are counted for.
    pub gap: f64,
    /// Draws per iteration.
    pub batch: usize,
    /// T, after which bounds are given.
    pub iterations: u64,
    /// μ and M of −log p.
    pub curvature: Option<CurvatureFields>,
    /// The certified ball around the Laplace approximation.
    pub ball: Option<BallFields>,
    /// Every method with every set of constants: the paper's steps with the paper's constants, greedy ones with ours.
    pub methods: Vec<MethodPlan>,
    /// The requested run, if it is one of these methods.
    pub run: Option<MethodPlan>,
    /// Iterations of proj-stl for the gap with the paper's a and steps, and b of B4 in the place of the paper's own.
    pub proj_stl_with_b4: Option<u64>,
}

/// μ I ≤ ∇²(−log p) ≤ M I.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurvatureFields {
    /// μ.
    pub strong_convexity: f64,
    /// M.
    pub smoothness: f64,
    /// Who says so.
    pub provenance: String,
}

/// The ball of Theorem G, in the frame of its centre.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BallFields {
    /// r.
    pub radius: f64,
    /// μ_r.
    pub strong_convexity: f64,
    /// L.
    pub smoothness: f64,
    /// |ŵ − w*|² is at most this.
    pub initial: f64,
}

/// A constant of a theorem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConstantFields {
    /// Its name in docs/maths.md.
    pub name: &'static str,
    /// Where it comes from.
    pub formula: &'static str,
    /// Its value.
    pub value: f64,
}

/// What a theorem says about one method with one set of constants; what it does not say is missing, and `reason` says
/// why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodPlan {
    /// The method, as on the command line.
    pub method: &'static str,
    /// paper, sharp or local.
    pub constants: &'static str,
    /// The theorem's name.
    pub theorem: Option<&'static str>,
    /// What it is made of, besides μ and M.
    pub numbers: Vec<ConstantFields>,
    /// The step sizes, as a formula of t = 0, 1, ….
    pub steps: Option<String>,
    /// The first of them.
    pub first_step: Option<f64>,
    /// That of the last of T iterations; missing for greedy steps beyond 10⁷ iterations.
    pub last_step: Option<f64>,
    /// |w₀ − w*|² is at most this.
    pub initial: Option<f64>,
    /// E|w_T − w*|² is at most this.
    pub distance: Option<f64>,
    /// The expected gap after T iterations is at most this, in nats.
    pub expected_gap: Option<f64>,
    /// Iterations after which the expected gap is at most the requested one.
    pub iterations: Option<u64>,
    /// Why one of them is missing.
    pub reason: Option<String>,
}

impl MethodPlan {
    fn new(prediction: &Prediction, gap: f64, iterations: u64) -> Self {
        let mut out = Self {
            method: prediction.method.name(),
            constants: prediction.basis.as_str(),
            theorem: None,
            numbers: Vec::new(),
            steps: None,
            first_step: None,
            last_step: None,
            initial: None,
            distance: None,
            expected_gap: None,
            iterations: None,
            reason: None,
        };
        let forecast = match &prediction.forecast {
            Ok(forecast) => forecast,
            Err(reason) => return Self { reason: Some(reason.clone()), ..out },
        };
        out.theorem = Some(forecast.theorem());
        let field = |c: &certus::theorem::NamedConstant| ConstantFields {
            name: c.name,
            formula: c.formula,
            value: c.value,
        };
        out.numbers = forecast.constants().iter().map(field).collect();
        out.steps = Some(formula(forecast));
        out.first_step = forecast.step_size(0);
        out.initial = forecast.initial().ok();
        let (last, bound) = forecast.after(iterations);
        out.last_step = last;
        out.distance = bound.ok().filter(|bound| bound.is_finite());
        let per_distance = forecast.per_distance().ok();
        out.expected_gap = out.distance.zip(per_distance).map(|(bound, factor)| factor * bound);
        match forecast.iterations_for_gap(gap) {
            Ok(count) => out.iterations = Some(count),
            Err(reason) => out.reason = Some(reason.to_string()),
        }
        out
    }

    /// One line.
    fn words(&self, iterations: u64) -> String {
        let start = format!("{}, {} constants: ", self.method, self.constants);
        let (Some(theorem), Some(steps)) = (self.theorem, &self.steps) else {
            return format!("{start}none: {}", self.reason.as_deref().unwrap_or_default());
        };
        let values: Vec<String> =
            self.numbers.iter().map(|c| format!("{} = {} ({})", c.name, short(c.value), c.formula)).collect();
        let size = |step: Option<f64>| step.map_or("not computed".into(), |step| format!("{step:.5e}"));
        let reached = match (self.distance, self.expected_gap) {
            (Some(distance), Some(gap)) => {
                format!("E|w − w*|² ≤ {}, expected gap ≤ {} nats", figure(distance), figure(gap))
            }
            (Some(distance), None) => format!("E|w − w*|² ≤ {}", figure(distance)),
            _ => format!(
                "no bound: {}",
                self.reason.as_deref().unwrap_or("a step is larger than the theorem allows")
            ),
        };
        format!(
            "{start}{theorem}; {}; {steps}, first {}, last {}; after {iterations} iterations {reached}",
            values.join(", "),
            size(self.first_step),
            size(self.last_step)
        )
    }
}

/// The step sizes as a formula.
fn formula(forecast: &Forecast) -> String {
    match *forecast.schedule() {
        Schedule::Constant { .. } => "one step size".into(),
        Schedule::Greedy => "greedy steps".into(),
        Schedule::Decaying { cap, strong_convexity } => {
            format!("steps min{{{cap:.5e}, {} (2t+1)/(t+1)²}}", short(1.0 / strong_convexity))
        }
    }
}

impl Theorems {
    /// Of a model, for `chosen` where it is a run of one of these methods, else for its defaults.
    pub(crate) fn new(
        model: &dyn Model,
        goal: &Goal,
        chosen: Option<&PlannedMethod>,
    ) -> Result<(Self, Lines), DataError> {
        let PlannedMethod { batch, iterations, .. } = chosen.copied().unwrap_or_default();
        let found = Forecasts::new(model, goal, batch, iterations)?;
        let plan = |prediction: &Prediction| MethodPlan::new(prediction, goal.gap, iterations);
        let out = Self {
            gap: goal.gap,
            batch,
            iterations,
            curvature: found.curvature.as_ref().ok().map(|c| CurvatureFields {
                strong_convexity: c.strong_convexity(),
                smoothness: c.smoothness(),
                provenance: c.provenance().to_string(),
            }),
            ball: found.ball.as_ref().ok().map(|local| BallFields {
                radius: local.radius(),
                strong_convexity: local.strong_convexity(),
                smoothness: local.smoothness(),
                initial: local.initial_distance_squared(),
            }),
            methods: found.each.iter().map(plan).collect(),
            run: chosen.map(|chosen| plan(&found.chosen(chosen))),
            proj_stl_with_b4: found.with_b4,
        };
        let lines = out.lines(found.curvature.as_ref().err(), found.ball.as_ref().err());
        Ok((out, lines))
    }

    fn lines(&self, no_curvature: Option<&String>, no_ball: Option<&String>) -> Lines {
        let none = |reason: Option<&String>| format!("none: {}", reason.map_or("", String::as_str));
        let curvature = self.curvature.as_ref().map_or_else(
            || none(no_curvature),
            |CurvatureFields { strong_convexity: mu, smoothness, provenance }| {
                format!(
                    "μ = {} and M = {} of −log p: the smallest and the largest eigenvalue of the prior's precision \
                        with bounds on the second derivatives of the rows' losses ({provenance})",
                    if *mu > 0.0 { short(*mu) } else { "0".into() },
                    short(*smoothness)
                )
            },
        );
        let ball = self.ball.as_ref().map_or_else(
            || none(no_ball),
            |ball| {
                format!(
                    "around the Laplace approximation, in its frame: radius {}, μ = {}, L = {}, |w₀ − w*|² ≤ {}",
                    short(ball.radius),
                    short(ball.strong_convexity),
                    short(ball.smoothness),
                    figure(ball.initial)
                )
            },
        );
        let mut lines = vec![("curvature", curvature), ("ball", ball)];
        let global = self.methods.iter().find(|m| m.constants != Basis::Local.as_str());
        if let Some(initial) = global.and_then(|m| m.initial) {
            lines.push((
                "start",
                format!("N(mode, I/M), where |w₀ − w*|² ≤ d(1/μ − 1/M) = {}", figure(initial)),
            ));
        }
        let told = self.methods.iter().filter(|m| m.theorem.is_some());
        lines.extend(told.map(|m| ("theorem", m.words(self.iterations))));
        lines.extend(self.run.iter().map(|m| ("run", m.words(self.iterations))));
        lines.push(("iterations", self.table()));
        lines
    }

    /// Iterations for the gap: a row for each method, a column for each set of constants.
    fn table(&self) -> String {
        let mut notes: Vec<String> = Vec::new();
        let mut out = format!(
            "until the expected gap is at most {} nats, with {} draws each, by constants:\n{:<13}",
            self.gap, self.batch, "method"
        );
        let columns = [Basis::Paper, Basis::Sharp, Basis::Local].map(Basis::as_str);
        columns.iter().for_each(|name| out.push_str(&format!(" {name:>20}")));
        for name in MethodName::ALL.map(MethodName::name) {
            out.push_str(&format!("\n{name:<13}"));
            for column in columns {
                let own = self.methods.iter().find(|m| m.method == name && m.constants == column);
                let cell = match (own.and_then(|m| m.iterations), own.and_then(|m| m.reason.as_deref())) {
                    (Some(count), _) => count.to_string(),
                    (None, reason) => {
                        let reason = reason.unwrap_or(match column {
                            "paper" => "this method is not in the paper",
                            "local" => "local constants are those of a ball: use the method ball-stl",
                            _ => "this method has local constants only",
                        });
                        let at = notes.iter().position(|note| note == reason).unwrap_or_else(|| {
                            notes.push(reason.to_string());
                            notes.len() - 1
                        });
                        format!("none [{}]", at + 1)
                    }
                };
                out.push_str(&format!(" {cell:>20}"));
            }
        }
        if let Some(count) = self.proj_stl_with_b4 {
            out.push_str(&format!(
                "\nproj-stl with the paper's a and steps, and b = 2b*/B (B4) for the paper's own b: {count}"
            ));
        }
        for (k, note) in notes.iter().enumerate() {
            out.push_str(&format!("\n[{}] {note}", k + 1));
        }
        out
    }
}
