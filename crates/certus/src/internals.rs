//! For the crates of this workspace alone: what must not be said by anybody else. Nothing here is part of the
//! interface.

use crate::target::{self, Provenance};

/// "Proved by the model": for models whose constants are proved in docs/maths.md. A target of your own takes
/// [`Provenance::DeclaredByUser`].
pub fn by_model() -> Provenance {
    target::by_model()
}
