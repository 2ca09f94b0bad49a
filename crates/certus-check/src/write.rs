//! The text of a certificate, for those who make one: no part of checking.

use crate::certificate::{Certificate, Column, HEADER, Precision, SUMS, triangle};
use crate::moments::Likelihood;
use crate::sha256::hex;

impl Certificate {
    /// The text.
    pub fn write(&self) -> String {
        let mut out = format!("{HEADER} 1\nclaim {}\n", self.claim.name());
        let mut line = |key: &str, numbers: &[f64]| push(&mut out, key, numbers);
        line("bound", &[self.bound]);
        let Self { likelihood, intercept, columns, prior_mean, .. } = self;
        model(&mut line, *likelihood, *intercept, columns, prior_mean, &self.prior_precision);
        line(&format!("rows {}\nblock-rows {}", self.rows, self.block_rows), &[]);
        line(&format!("root {}", hex(&self.root)), &[]);
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
            line(&format!("block {}", hex(hash)), &[]);
            for ((key, part), radius) in SUMS.iter().zip(&sums.parts).zip(sums.radii) {
                line(&format!("{key} {radius:?}"), part);
            }
        }
        line("end", &[]);
        out
    }
}

pub(crate) fn push(out: &mut String, key: &str, numbers: &[f64]) {
    out.push_str(key);
    numbers.iter().for_each(|x| out.push_str(&format!(" {x:?}")));
    out.push('\n');
}

/// The lines that every certificate has.
pub(crate) fn model(
    line: &mut impl FnMut(&str, &[f64]),
    likelihood: Likelihood,
    intercept: bool,
    columns: &[Column],
    prior_mean: &[f64],
    prior_precision: &Precision,
) {
    let d = prior_mean.len();
    line(&format!("likelihood {}", likelihood.name()), &[]);
    if let Likelihood::Linear(sd) = likelihood {
        line("sd", &[sd]);
    }
    line(&format!("dimension {d}"), &[]);
    line(&format!("intercept {}", if intercept { "yes" } else { "no" }), &[]);
    for column in columns {
        line(&format!("column {}", column.name), &[column.centre, column.scale]);
    }
    line("prior-mean", prior_mean);
    match prior_precision {
        Precision::Diagonal(j) => line("prior-diagonal", j),
        Precision::Dense(j) => j.chunks(d).for_each(|row| line("prior-row", row)),
    }
}
