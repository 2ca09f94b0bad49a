//! Checks settings and builds what a plan starts from: the start, the method, the slope of log p there.

use super::method_name::MethodName;
use super::settings::{Settings, StepRule};
use crate::error::{Error, same_length};
use crate::estimator::Quadratic;
use crate::factor::Family;
use crate::gaussian::Gaussian;
use crate::linalg;
use crate::method::Method;
use crate::target::{Curvature, Target};
use crate::theorem::{Constants, Local};
use crate::update::Update;

pub(super) fn validate(settings: &Settings) -> Result<(), Error> {
    if settings.batch == 0 {
        return Err(Error::invalid("batch", 0, "at least one draw per step is required"));
    }
    if settings.iterations == 0 {
        return Err(Error::invalid("iterations", 0, "at least one step is required"));
    }
    if settings.threads == Some(0) {
        return Err(Error::invalid("threads", 0, "at least one thread is required"));
    }
    for (name, value) in [
        ("tolerance", settings.tolerance),
        ("solution_radius", settings.solution_radius),
        (
            "the constant step",
            if let StepRule::Constant(step) = settings.step_rule { Some(step) } else { None },
        ),
    ] {
        if let Some(value) = value.filter(|v| !(*v > 0.0 && v.is_finite())) {
            return Err(Error::invalid(name, value, "a finite number above 0 is required"));
        }
    }
    if settings.step_rule == StepRule::Paper {
        check_paper(settings.method, settings.constants)?;
    }
    if settings.local.is_some() != (settings.method == MethodName::BallStl) {
        return Err(Error::Missing {
            needed: "a certified ball (Settings::local) together with MethodName::BallStl",
            remedy: "give both or neither",
        });
    }
    if settings.local.is_some() && settings.start.is_some() {
        return Err(Error::invalid(
            "start",
            "given",
            "the ball method starts at the centre of its ball; leave it out",
        ));
    }
    Ok(())
}

/// Refuses the paper's steps where the paper has none.
pub(super) fn check_paper(method: MethodName, constants: Constants) -> Result<(), Error> {
    if !method.is_of_paper() {
        return Err(Error::IllegalMethod {
            combination: format!("{method:?} with the paper's steps"),
            reason: "this method is not in the paper; use ProxEnergy, ProjEntropy or ProjStl, or other steps",
        });
    }
    if constants != Constants::Paper {
        return Err(Error::invalid("constants", "Sharp", "the paper's steps need Constants::Paper"));
    }
    Ok(())
}

pub(super) fn start(
    settings: &Settings,
    curvature: Option<&Curvature>,
    dim: usize,
    family: &Family,
) -> Result<Gaussian, Error> {
    if let Some(start) = settings.local.as_ref().map(Local::center).or(settings.start.as_ref()) {
        same_length("the start", dim, start.dim())?;
        if start.factor().family() != *family {
            return Err(Error::invalid(
                "the family of the start",
                start.factor().family().name(),
                "it must be the family the method optimises over",
            ));
        }
        if !start.is_proper() {
            return Err(Error::invalid(
                "the start",
                "not finite, or not positive",
                "it must be a proper Gaussian",
            ));
        }
        return Ok(start.clone());
    }
    let mode = curvature.and_then(Curvature::mode).map_or_else(|| vec![0.0; dim], <[f64]>::to_vec);
    same_length("the mode", dim, mode.len())?;
    let sd =
        if settings.local.is_some() { 1.0 } else { curvature.map_or(1.0, |c| c.smoothness().powf(-0.5)) };
    Gaussian::isotropic(mode, sd, family)
}

pub(super) fn method(
    settings: &Settings,
    curvature: Option<&Curvature>,
    start: &Gaussian,
) -> Result<Method, Error> {
    let need = || {
        curvature.ok_or(Error::Missing {
        needed: "the smoothness of the target",
        remedy: "this method needs it; implement Target::curvature, set Settings::curvature, or use ProxEnergy",
    })
    };
    let method = match settings.method {
        MethodName::ProxEnergy => Method::prox_energy(),
        MethodName::ProjEntropy => Method::proj_entropy(need()?.smoothness()),
        MethodName::ProjStl => Method::proj_stl(need()?.smoothness()),
        MethodName::ProxCv => {
            let c = need()?;
            let precision = 0.5 * (c.strong_convexity() + c.smoothness());
            Method::prox_control_variate(Quadratic { center: start.mean().to_vec(), precision })
        }
        MethodName::BallStl => {
            let radius = settings.local.as_ref().map_or(0.0, |l| l.radius());
            Method::ball_stl(start.clone(), radius)
        }
    };
    let floor = match method.update() {
        Update::ProjectSpectrum { floor } => *floor,
        _ => return Ok(method),
    };
    // A15: C₀ must lie in W_M, not just be positive definite.
    let smallest =
        linalg::extreme_eigenvalues(start.factor().values(), start.dim()).map_or(f64::NAN, |e| e.0);
    if smallest.is_nan() || smallest < floor * (1.0 - 1e-12) {
        return Err(Error::invalid(
            "the smallest eigenvalue of the start's factor",
            smallest,
            "it must be at least 1/√smoothness, because the noise bounds hold only there (A15)",
        ));
    }
    Ok(method)
}

pub(super) fn gradient_norm_at(target: &dyn Target, mean: &[f64]) -> Result<f64, Error> {
    let (mut value, mut gradient) = ([0.0], vec![0.0; mean.len()]);
    target.log_density(mean, &mut value, &mut gradient).map_err(Error::Target)?;
    let norm = linalg::norm_squared(&gradient).sqrt();
    if !(value[0].is_finite() && norm.is_finite()) {
        let (what, value) = if norm.is_finite() {
            ("the log density", value[0])
        } else {
            ("the gradient of the log density", norm)
        };
        return Err(Error::NonFinite { what, value, place: "the mean of the start".into() });
    }
    Ok(norm)
}
