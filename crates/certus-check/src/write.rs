//! The text of a certificate, for those who make one: no part of checking.

use crate::certificate::{Certificate, HEADER, Precision, SUMS, triangle};
use crate::moments::Likelihood;

impl Certificate {
    /// The text.
    pub fn write(&self) -> String {
        let mut out = format!("{HEADER} 1\nclaim {}\n", self.claim.name());
        let mut line = |key: &str, numbers: &[f64]| {
            out.push_str(key);
            numbers.iter().for_each(|x| out.push_str(&format!(" {x:?}")));
            out.push('\n');
        };
        line("bound", &[self.bound]);
        line(&format!("likelihood {}", self.likelihood.name()), &[]);
        if let Likelihood::Linear(sd) = self.likelihood {
            line("sd", &[sd]);
        }
        line(&format!("dimension {}", self.dim()), &[]);
        line(&format!("intercept {}", if self.intercept { "yes" } else { "no" }), &[]);
        for column in &self.columns {
            line(&format!("column {}", column.name), &[column.centre, column.scale]);
        }
        line("prior-mean", &self.prior_mean);
        match &self.prior_precision {
            Precision::Diagonal(j) => line("prior-diagonal", j),
            Precision::Dense(j) => j.chunks(self.dim()).for_each(|row| line("prior-row", row)),
        }
        line(&format!("rows {}\nblock-rows {}", self.rows, self.block_rows), &[]);
        line(&format!("root {}", crate::sha256::hex(&self.root)), &[]);
        line("mean", &self.mean);
        triangle(&self.factor).for_each(|row| line("factor-row", row));
        line("theorem D", &[]);
        line("radius", &[self.radius]);
        line("tau", &[self.tau]);
        line("theta", &[self.theta]);
        line("lambda-mean", &[self.lambda_mean]);
        line("lambda-factor", &[self.lambda_factor]);
        line("solution-mean", &self.solution_mean);
        triangle(&self.solution_factor).for_each(|row| line("solution-row", row));
        for (hash, sums) in &self.blocks {
            line(&format!("block {}", crate::sha256::hex(hash)), &[]);
            for ((key, part), radius) in SUMS.iter().zip(&sums.parts).zip(sums.radii) {
                line(&format!("{key} {radius:?}"), part);
            }
        }
        line("end", &[]);
        out
    }
}
