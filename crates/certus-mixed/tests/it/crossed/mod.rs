//! Generalised linear mixed models with several terms, against lme4, brute-force integration and differences.

mod data;
mod integrals;
mod profiles;
mod properties;
mod reference;
