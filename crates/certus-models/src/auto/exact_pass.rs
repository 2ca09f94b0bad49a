//! One exact pass over the rows: f and the certificate of the gap at a Gaussian; Gaussians in saved states.

use certus::bytes::{Reader, Writer, bad};
use certus::certificate::{Gap, family_name};
use certus::factor::{Factor, Lower, Pattern};
use certus::{Family, Gaussian, Goal};

use super::Model;
use crate::error::Error;

/// Why there is no certificate of a run that had to end at once.
const UNCERTIFIED: &str = "the run was stopped before the pass that certifies it was done";

/// What an exact pass says of a Gaussian.
#[derive(Clone, Debug)]
pub(super) struct ExactPass {
    pub(super) gaussian: Gaussian,
    pub(super) neg_elbo: f64,
    pub(super) gap: Gap,
}

impl ExactPass {
    pub(super) fn new(model: &dyn Model, gaussian: Gaussian) -> Result<Self, Error> {
        let neg_elbo = model.exact_value(&gaussian)?.value;
        Self::knowing(model, gaussian, neg_elbo)
    }

    /// The Gaussian, or, where rows refuse to be read, the Gaussian without a certificate; f is NaN unless it is known.
    pub(super) fn if_possible(model: &dyn Model, gaussian: Gaussian) -> Result<Self, Error> {
        match Self::new(model, gaussian.clone()) {
            Err(e) if e.is_stopped() => Ok(Self::uncertified(gaussian, f64::NAN)),
            other => other,
        }
    }

    /// A Gaussian of whose gap nothing is known.
    pub(super) fn uncertified(gaussian: Gaussian, neg_elbo: f64) -> Self {
        let gap = Gap::none(family_name(gaussian.factor()), UNCERTIFIED);
        Self { gaussian, neg_elbo, gap }
    }

    /// The same where f is known already.
    pub(super) fn knowing(model: &dyn Model, gaussian: Gaussian, neg_elbo: f64) -> Result<Self, Error> {
        let gap = model.certified_gap(&gaussian)?;
        Ok(Self { gaussian, neg_elbo, gap })
    }

    pub(super) fn bound(&self) -> f64 {
        self.gap.statement.bound().unwrap_or(f64::INFINITY)
    }

    pub(super) fn reaches(&self, goal: &Goal) -> bool {
        self.bound() <= goal.gap
    }

    /// The bound in words.
    pub(super) fn said(&self) -> String {
        self.gap.facts().message()
    }
}

/// The kind of factor, its size, the mean and the entries.
pub(super) fn write_gaussian(out: &mut Writer, w: &Gaussian) {
    out.count(u64::from(matches!(w.factor(), Factor::Pattern(_))));
    out.count(w.dim() as u64);
    out.count(w.factor().values().len() as u64);
    out.numbers(w.mean().iter().chain(w.factor().values()));
}

/// A Gaussian of the model, dense (lower triangular) or on its pattern.
pub(super) fn read_gaussian(words: &mut Reader<'_>, model: &dyn Model) -> Result<Gaussian, Error> {
    let size = model.size();
    let (sparse, dim, stored) = (words.count()? == 1, words.count()?, words.count()?);
    let expected = if sparse { size.stored } else { size.dim * size.dim };
    if dim != size.dim as u64 || stored != expected as u64 {
        return Err(bad("it belongs to a problem of another size").into());
    }
    let (mean, values) = (words.numbers(size.dim)?, words.numbers(expected)?);
    let factor = match (sparse, model.family()) {
        (true, Family::Pattern(tree)) => Factor::Pattern(Pattern::new(tree, values)?),
        (false, _) => Factor::Lower(Lower::new(size.dim, values)?),
        _ => return Err(bad("it belongs to another family").into()),
    };
    Ok(Gaussian::new(mean, factor)?)
}
