//! The text of a certificate, for those who make one: no part of checking.

use crate::draws::{CLAIM as DRAWS, DrawsCertificate};
use crate::gap::{Certificate, SUMS};
use crate::mixed::{CLAIM as MIXED, MixedCertificate};
use crate::model::{Model, Precision};
use crate::moments::Likelihood;
use crate::sd::{CLAIM, Nodes, POINTS, SdCertificate};
use crate::sha256::hex;
use crate::stated::Stated;
use crate::text::{HEADER, triangle};

/// Lines of a certificate.
struct Text(String);

impl Text {
    fn begin(claim: &str) -> Self {
        Self(format!("{HEADER} 1\nclaim {claim}\n"))
    }

    fn line(&mut self, key: &str, numbers: &[f64]) {
        self.0.push_str(key);
        numbers.iter().for_each(|x| self.0.push_str(&format!(" {x:?}")));
        self.0.push('\n');
    }

    fn stated(&mut self, key: &str, stated: &Stated) {
        self.line(&format!("{key} {:?}", stated.rad), &stated.parts);
    }

    fn triangle(&mut self, key: &str, lower: &[f64]) {
        triangle(lower).for_each(|row| self.line(key, row));
    }

    /// The lines that every certificate has.
    fn model(&mut self, model: &Model) {
        let d = model.dim();
        self.line(&format!("likelihood {}", model.likelihood.name()), &[]);
        if let Likelihood::Linear(sd) = model.likelihood {
            self.line("sd", &[sd]);
        }
        self.line(&format!("dimension {d}"), &[]);
        self.line(&format!("intercept {}", if model.intercept { "yes" } else { "no" }), &[]);
        for column in &model.columns {
            self.line(&format!("column {}", column.name), &[column.centre, column.scale]);
        }
        self.line("prior-mean", &model.prior_mean);
        match &model.prior_precision {
            Precision::Diagonal(j) => self.line("prior-diagonal", j),
            Precision::Dense(j) => j.chunks(d).for_each(|row| self.line("prior-row", row)),
        }
    }
}

impl Certificate {
    /// The text.
    pub fn write(&self) -> String {
        let mut out = Text::begin(self.claim.name());
        out.line("bound", &[self.bound]);
        out.model(&self.model);
        out.line(&format!("rows {}\nblock-rows {}", self.rows, self.block_rows), &[]);
        out.line(&format!("root {}", hex(&self.root)), &[]);
        out.line("mean", &self.mean);
        out.triangle("factor-row", &self.factor);
        out.line("theorem D", &[]);
        out.line("radius", &[self.radius]);
        out.line("tau", &[self.tau]);
        out.line("theta", &[self.theta]);
        out.line("lambda-mean", &[self.lambda_mean]);
        out.line("lambda-factor", &[self.lambda_factor]);
        out.line("solution-mean", &self.solution_mean);
        out.triangle("solution-row", &self.solution_factor);
        for (hash, sums) in &self.blocks {
            out.line(&format!("block {}", hex(hash)), &[]);
            SUMS.iter().zip(sums).for_each(|(key, sum)| out.stated(key, sum));
        }
        out.line("end", &[]);
        out.0
    }
}

impl SdCertificate {
    /// The text.
    pub fn write(&self) -> String {
        let mut out = Text::begin(CLAIM);
        out.line("sd-between", &self.between);
        out.model(&self.model);
        let [rows, groups] = self.counts();
        out.line(&format!("rows {rows}\ngroups {groups}\nroot {}", hex(&self.root)), &[]);
        out.triangle("factor-row", &self.factor);
        out.line("theorem K3", &[]);
        out.line("radius", &[self.radius]);
        out.line("lambda", &[self.lambda]);
        for (name, point) in POINTS.iter().zip(&self.points) {
            out.line(&format!("{name}-sd"), &[point.sd]);
            out.line(&format!("{name}-mean"), &point.mean);
        }
        for block in &self.blocks {
            out.line(&format!("block {} {}", hex(&block.hash), block.groups.len()), &[]);
            for group in &block.groups {
                out.line(&format!("group {}", group.rows), &[]);
                for (value, rad, nodes) in &group.integrals {
                    let Nodes { origin, step, height, below, above, inner } = nodes;
                    let counts = format!("{below} {above} {} {}", inner[0], inner[1]);
                    let numbers = format!("{rad:?} {value:?} {origin:?} {step:?} {height:?}");
                    out.line(&format!("integral {numbers} {counts}"), &[]);
                }
            }
            for stated in block.ends.iter() {
                ["gradient", "curvature"].iter().zip(stated).for_each(|(key, sum)| out.stated(key, sum));
            }
        }
        out.line("end", &[]);
        out.0
    }
}

impl DrawsCertificate {
    /// What is above the seed.
    pub fn above(&self) -> String {
        let mut out = Text::begin(DRAWS);
        out.line("delta", &[self.delta]);
        out.model(&self.model);
        out.line(&format!("rows {}\nblock-rows {}", self.rows[0], self.rows[1]), &[]);
        out.line(&format!("root {}", hex(&self.root)), &[]);
        out.line("mean", &self.mean);
        out.triangle("factor-row", &self.factor);
        out.line("theorem D8", &[]);
        out.line(&format!("pairs {}", self.pairs), &[]);
        out.line("level", &[self.level]);
        out.line("growth", &self.growth);
        out.line("cap", &self.cap);
        out.line(&format!("directions {}", self.directions.len()), &[]);
        for direction in &self.directions {
            out.line(&format!("direction {}", direction.name), &direction.weights);
        }
        out.0
    }

    /// The text.
    pub fn write(&self) -> String {
        let mut out = Text(self.above());
        out.line(&format!("seed {}", hex(&self.seed)), &[]);
        out.line("tail", &[self.tail]);
        out.line("divergence", &[self.divergence]);
        for direction in &self.directions {
            out.line("moments", &[direction.mean, direction.sd].concat());
        }
        self.blocks.iter().for_each(|hash| out.line(&format!("block {}", hex(hash)), &[]));
        out.line("end", &[]);
        out.0
    }
}

impl MixedCertificate {
    /// The text.
    pub fn write(&self) -> String {
        let mut out = Text::begin(MIXED);
        out.line(if self.restricted { "criterion reml" } else { "criterion ml" }, &[]);
        out.line(&format!("rows {}\nroot {}", self.rows, hex(&self.root)), &[]);
        out.line(if self.intercept { "intercept yes" } else { "intercept no" }, &[]);
        out.line(&format!("columns {}", self.columns.len()), &[]);
        for column in &self.columns {
            out.line(&format!("column {}", column.name), &[column.centre, column.scale]);
        }
        out.line(&format!("terms {}", self.terms.len()), &[]);
        for (name, effects) in &self.terms {
            out.line(&format!("term {name} {effects}"), &[]);
        }
        out.line("theorem V1", &[]);
        out.line("estimate", &self.estimate);
        out.triangle("factor-row", &self.factor);
        out.line("radius", &[self.radius]);
        out.line("lambda", &[self.lambda]);
        self.between.iter().for_each(|between| out.line("between", between));
        out.line("end", &[]);
        out.0
    }
}
