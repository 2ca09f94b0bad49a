//! Linear mixed models against lme4, closed forms, differences and attacks on the theorems.

pub(crate) mod data;
mod estimates;
mod global;
mod large;
mod nested;
