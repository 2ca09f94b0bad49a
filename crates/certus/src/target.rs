//! The posterior to approximate: its log density and gradient at a batch of points, and its curvature with who says so.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, TargetError};

/// A log density log p(z, x) (up to a constant), seen as a function of z ∈ ℝᵈ.
///
/// Points come as a `dim × n` column-major slice: point k is `points[k*dim..(k+1)*dim]`. Targets that see one point at
/// a time implement [`PointTarget`] instead and get the batch for free.
pub trait Target: Sync {
    /// The number of latent coordinates d.
    fn dim(&self) -> usize;

    /// Writes log p and ∇ log p (**plus** sign: the core negates) at every point.
    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError>;

    /// Bounds on the Hessian of −log p, if the model knows or the user declares them.
    fn curvature(&self) -> Option<Curvature> {
        None
    }

    /// True if −log p is declared convex, by whoever wrote the target: statements that hold with a probability rest on
    /// it. Nothing infers it; gradients that contradict it end a fit.
    fn log_concave(&self) -> bool {
        false
    }
}

/// A log density evaluated one point at a time; every `PointTarget` is a [`Target`].
pub trait PointTarget: Sync {
    /// The number of latent coordinates d.
    fn dim(&self) -> usize;

    /// Returns log p at `point` and writes ∇ log p into `gradient`.
    fn log_density_at(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, TargetError>;

    /// Bounds on the Hessian of −log p, if the model knows or the user declares them.
    fn curvature(&self) -> Option<Curvature> {
        None
    }

    /// True if −log p is declared convex, by whoever wrote the target: statements that hold with a probability rest on
    /// it. Nothing infers it; gradients that contradict it end a fit.
    fn log_concave(&self) -> bool {
        false
    }
}

impl<T: PointTarget> Target for T {
    fn dim(&self) -> usize {
        PointTarget::dim(self)
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        let dim = PointTarget::dim(self);
        for ((point, value), gradient) in
            points.chunks_exact(dim).zip(values).zip(gradients.chunks_exact_mut(dim))
        {
            *value = self.log_density_at(point, gradient)?;
        }
        Ok(())
    }

    fn curvature(&self) -> Option<Curvature> {
        PointTarget::curvature(self)
    }

    fn log_concave(&self) -> bool {
        PointTarget::log_concave(self)
    }
}

/// Who says that the constants of a [`Curvature`] are true.
///
/// A target of your own declares its constants: `Provenance::DeclaredByUser("why they hold".into())`. Only the models
/// of certus-models, whose bounds are proved in docs/maths.md and tested against other arithmetic, may say that a model
/// proves them:
///
/// ```compile_fail
/// use certus::{Curvature, Provenance};
/// let forged = Curvature::new(1.0, 2.0, Provenance::ByModel);
/// ```
///
/// ```compile_fail
/// use certus::{Curvature, Provenance, target::ModelWord};
/// let forged = Curvature::new(1.0, 2.0, Provenance::ByModel(ModelWord(())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Computed by a model of ours that proves them.
    ByModel(ModelWord),
    /// Declared by the user, with the reason they gave.
    DeclaredByUser(String),
    /// Measured somewhere; good for choosing steps, never for a proof.
    Estimated,
}

/// The word of a model of certus-models. It has no public constructor, so that no other target claims a proof by
/// accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelWord(());

/// The word of a model; `internals` hands it to the crates of this workspace.
pub(crate) fn by_model() -> Provenance {
    Provenance::ByModel(ModelWord(()))
}

/// μ I ≤ ∇²(−log p) ≤ M I everywhere, and optionally the mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Curvature {
    strong_convexity: f64,
    smoothness: f64,
    mode: Option<Vec<f64>>,
    provenance: Provenance,
}

impl Curvature {
    /// Constants μ = `strong_convexity` (0 if only convex) and M = `smoothness`.
    pub fn new(strong_convexity: f64, smoothness: f64, provenance: Provenance) -> Result<Self, Error> {
        if !(smoothness > 0.0 && smoothness.is_finite()) {
            return Err(Error::invalid("smoothness", smoothness, "a finite number above 0 is required"));
        }
        if !(0.0..=smoothness).contains(&strong_convexity) {
            return Err(Error::invalid(
                "strong_convexity",
                strong_convexity,
                "it must lie between 0 and the smoothness",
            ));
        }
        Ok(Self { strong_convexity, smoothness, mode: None, provenance })
    }

    /// The same constants with the maximiser m̄ of log p, used as the starting mean.
    #[must_use]
    pub fn with_mode(mut self, mode: Vec<f64>) -> Self {
        self.mode = Some(mode);
        self
    }

    /// μ.
    pub fn strong_convexity(&self) -> f64 {
        self.strong_convexity
    }

    /// M.
    pub fn smoothness(&self) -> f64 {
        self.smoothness
    }

    /// m̄, if known.
    pub fn mode(&self) -> Option<&[f64]> {
        self.mode.as_deref()
    }

    /// Who says so.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// A voucher for these constants; see [`Provenance::vouched`].
    pub fn vouched(&self) -> Option<Vouched> {
        self.provenance.vouched()
    }
}

impl Provenance {
    /// What every proved statement of the crate asks for, refused when the constants are only estimated.
    ///
    /// This is the only way to make a [`Vouched`].
    pub fn vouched(&self) -> Option<Vouched> {
        match self {
            Provenance::ByModel(_) | Provenance::DeclaredByUser(_) => Some(Vouched(self.clone())),
            Provenance::Estimated => None,
        }
    }
}

impl Provenance {
    /// What can be said of a statement that rests on two sets of constants: the weaker word.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Provenance::Estimated, _) | (_, Provenance::Estimated) => Provenance::Estimated,
            (Provenance::DeclaredByUser(a), Provenance::DeclaredByUser(b)) => {
                Provenance::DeclaredByUser(format!("{a}; {b}"))
            }
            (Provenance::DeclaredByUser(a), _) | (_, Provenance::DeclaredByUser(a)) => {
                Provenance::DeclaredByUser(a)
            }
            (Provenance::ByModel(word), Provenance::ByModel(_)) => Provenance::ByModel(word),
        }
    }
}

impl std::fmt::Display for Provenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Provenance::ByModel(_) => f.write_str("proved by the model"),
            Provenance::DeclaredByUser(reason) => write!(f, "declared by the user ({reason})"),
            Provenance::Estimated => f.write_str("only estimated"),
        }
    }
}

/// The word of a model or a user for some constants. There is no way to make one from estimated constants:
///
/// ```compile_fail
/// use certus::target::{Provenance, Vouched};
/// let forged = Vouched(Provenance::Estimated);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouched(Provenance);

impl Vouched {
    /// Who vouches.
    pub fn provenance(&self) -> &Provenance {
        &self.0
    }
}

/// A target that counts its evaluations (one per point).
pub struct Counted<'a> {
    target: &'a dyn Target,
    evaluations: AtomicU64,
}

impl<'a> Counted<'a> {
    /// Wraps `target`, starting at `evaluations`.
    pub fn new(target: &'a dyn Target, evaluations: u64) -> Self {
        Self { target, evaluations: AtomicU64::new(evaluations) }
    }

    /// Single-point gradients asked for so far.
    pub fn evaluations(&self) -> u64 {
        self.evaluations.load(Ordering::Relaxed)
    }
}

impl Target for Counted<'_> {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        self.evaluations.fetch_add(values.len() as u64, Ordering::Relaxed);
        self.target.log_density(points, values, gradients)
    }

    fn curvature(&self) -> Option<Curvature> {
        self.target.curvature()
    }

    fn log_concave(&self) -> bool {
        self.target.log_concave()
    }
}

/// A target that is evaluated only while it is admitted.
pub struct Gated<'a> {
    target: &'a dyn Target,
    admit: &'a (dyn Fn(usize) -> Result<(), TargetError> + Sync),
}

impl<'a> Gated<'a> {
    /// Before `target` is evaluated at n points, `admit(n)` is asked; its error is the target's.
    pub fn new(target: &'a dyn Target, admit: &'a (dyn Fn(usize) -> Result<(), TargetError> + Sync)) -> Self {
        Self { target, admit }
    }
}

impl Target for Gated<'_> {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        (self.admit)(values.len())?;
        self.target.log_density(points, values, gradients)
    }

    fn curvature(&self) -> Option<Curvature> {
        self.target.curvature()
    }

    fn log_concave(&self) -> bool {
        self.target.log_concave()
    }
}

/// Two points at which the declared curvature does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    /// The two points.
    pub points: [Vec<f64>; 2],
    /// Measured ⟨Δπ, Δz⟩ / |Δz|², π = −∇ log p: below μ if strong convexity is violated.
    pub along: f64,
    /// Measured |Δπ| / |Δz|: above M if smoothness is violated.
    pub across: f64,
}

/// How π = −∇ log p changes between two points.
pub(crate) struct Change {
    /// |Δz|².
    pub(crate) apart: f64,
    /// ⟨Δπ, Δz⟩.
    pub(crate) product: f64,
    turned: f64,
}

impl Change {
    /// From Δz and Δπ, coordinate by coordinate.
    pub(crate) fn new(differences: impl Iterator<Item = (f64, f64)>) -> Self {
        let (mut apart, mut product, mut turned) = (0.0, 0.0, 0.0);
        for (dz, dg) in differences {
            apart += dz * dz;
            product += dg * dz;
            turned += dg * dg;
        }
        Self { apart, product, turned }
    }

    fn along(&self) -> f64 {
        self.product / self.apart
    }

    fn across(&self) -> f64 {
        (self.turned / self.apart).sqrt()
    }

    /// The two points with what was measured between them.
    pub(crate) fn witness(&self, points: [Vec<f64>; 2]) -> Witness {
        Witness { points, along: self.along(), across: self.across() }
    }
}

/// A target that compares the first point of every batch with the first point it ever saw, and keeps a pair that
/// contradicts μ|Δz|² ≤ ⟨Δπ, Δz⟩ or |Δπ| ≤ M|Δz|.
///
/// The check costs O(d) a batch. Its allowance for rounding is 1e-9 M plus what gradients with a relative error of
/// 1e-12 can cause: far above f64 noise and far below a real violation.
pub struct Guarded<'a> {
    target: &'a dyn Target,
    curvature: Curvature,
    reference: OnceLock<(Vec<f64>, Vec<f64>)>,
    witness: OnceLock<Witness>,
}

impl<'a> Guarded<'a> {
    /// Watches `target` for contradictions of `curvature`.
    pub fn new(target: &'a dyn Target, curvature: Curvature) -> Self {
        Self { target, curvature, reference: OnceLock::new(), witness: OnceLock::new() }
    }

    /// The first contradiction seen, if any.
    pub fn witness(&self) -> Option<&Witness> {
        self.witness.get()
    }

    fn compare(&self, z: &[f64], g: &[f64]) {
        let (z0, g0) = self.reference.get_or_init(|| (z.to_vec(), g.to_vec()));
        let change = Change::new((0..z.len()).map(|i| (z[i] - z0[i], g0[i] - g[i])));
        let scale: f64 = g.iter().zip(g0).map(|(g, g0)| g * g + g0 * g0).sum();
        let slack = 1e-9 * self.curvature.smoothness + 1e-12 * (scale / change.apart).sqrt();
        let violated = change.along() < self.curvature.strong_convexity - slack
            || change.across() > self.curvature.smoothness + slack;
        if change.apart > 0.0 && violated {
            self.witness.get_or_init(|| change.witness([z0.clone(), z.to_vec()]));
        }
    }
}

impl Target for Guarded<'_> {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        self.target.log_density(points, values, gradients)?;
        let dim = self.dim();
        self.compare(&points[..dim], &gradients[..dim]);
        Ok(())
    }

    fn curvature(&self) -> Option<Curvature> {
        Some(self.curvature.clone())
    }

    fn log_concave(&self) -> bool {
        self.target.log_concave()
    }
}
