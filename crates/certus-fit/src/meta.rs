//! What a record says beyond the outcome: settings, data, versions.

use crate::problem::Problem;
use crate::record::{Data, Meta, Parameter};
use crate::settings::Settings;

/// What a record says beyond the outcome, before there are data.
pub fn meta(settings: &Settings) -> Meta {
    let versions = [("certus", env!("CARGO_PKG_VERSION")), ("target", std::env::consts::ARCH)];
    Meta {
        model: settings.model.clone().unwrap_or_else(|| "target".into()),
        parameters: Vec::new(),
        settings: settings.value(),
        seed: settings.seed(),
        data: Data::default(),
        notes: Vec::new(),
        versions: versions.map(|(a, b)| (a.to_string(), b.to_string())).into_iter().collect(),
    }
}

impl Problem {
    /// What a record says beyond the outcome.
    pub fn meta(&self, settings: &Settings, parameters: Vec<Parameter>, notes: Vec<String>) -> Meta {
        let hash = |hash: u64| Some(format!("{hash:016x}"));
        let data = Data {
            rows: Some(self.prepared.rows_used as u64),
            fingerprint: hash(self.prepared.fingerprint),
            responses: hash(self.prepared.responses),
        };
        Meta { parameters, data, notes, ..meta(settings) }
    }
}
