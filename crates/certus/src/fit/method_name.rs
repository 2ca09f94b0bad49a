//! The methods as users choose them, as one table: what each is called, what it does, which factors it optimises
//! over (docs/adding-a-method.md).

use crate::factor::Family;

/// The methods by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MethodName {
    /// Algorithm 1: prox, energy estimator, lower-triangular factors or patterns.
    #[default]
    ProxEnergy,
    /// Algorithm 2: projection, entropy estimator, symmetric factors.
    ProjEntropy,
    /// Algorithm 3: projection, sticking the landing, symmetric factors.
    ProjStl,
    /// Prox with a quadratic control variate centred at the start, precision (μ + M)/2.
    ProxCv,
    /// Sticking the landing in a ball around a certified centre; needs [`Settings::local`](super::Settings::local).
    BallStl,
}

impl MethodName {
    /// All of them, in the order in which they are listed to users.
    pub const ALL: [Self; 5] =
        [Self::ProxEnergy, Self::ProjEntropy, Self::ProjStl, Self::ProxCv, Self::BallStl];

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProxEnergy => "prox-energy",
            Self::ProjEntropy => "proj-entropy",
            Self::ProjStl => "proj-stl",
            Self::ProxCv => "prox-cv",
            Self::BallStl => "ball-stl",
        }
    }

    /// What it does, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Self::ProxEnergy => "Algorithm 1 of the paper: proximal step, energy estimator",
            Self::ProjEntropy => "Algorithm 2 of the paper: projection, entropy estimator",
            Self::ProjStl => "Algorithm 3 of the paper: projection, sticking-the-landing estimator",
            Self::ProxCv => "Proximal step with a quadratic control variate",
            Self::BallStl => "Sticking-the-landing estimator in a certified ball",
        }
    }

    /// The factors that it optimises over, unless others are given.
    pub fn family(self) -> Family {
        match self {
            Self::ProjEntropy | Self::ProjStl => Family::Symmetric,
            Self::ProxEnergy | Self::ProxCv | Self::BallStl => Family::Lower,
        }
    }

    /// True if the entropy enters by a prox.
    pub fn is_prox(self) -> bool {
        match self {
            Self::ProxEnergy | Self::ProxCv => true,
            Self::ProjEntropy | Self::ProjStl | Self::BallStl => false,
        }
    }

    /// True for the paper's methods, for which there are the paper's constants and steps.
    pub fn is_of_paper(self) -> bool {
        match self {
            Self::ProxEnergy | Self::ProjEntropy | Self::ProjStl => true,
            Self::ProxCv | Self::BallStl => false,
        }
    }
}

// Every method is listed: a new one stands above the last, so that its number changes.
const _: () = assert!(MethodName::BallStl as usize + 1 == MethodName::ALL.len());
