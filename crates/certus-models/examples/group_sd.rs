//! The sd between groups, with an interval that is proved to hold a maximum of the likelihood: `group_sd [GROUPS [ROWS PER GROUP [FILE]]]`.
//!
//! Makes a logistic problem with ten features and an intercept per group whose sd is 1, integrates the groups out, and prints what is
//! found, how long it took and the posterior. With a file name the data are written there as CSV, for other programs.
#![allow(clippy::print_stdout)]

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use certus_models::collapsed::{Collapsed, SdPrior};
use certus_models::likelihood::Logistic;
use certus_models::{Design, Memory, Prior};

/// SplitMix64, as normals by Box and Muller.
struct Draws(u64);

impl Draws {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FEATURES: usize = 10;
    let mut arguments = std::env::args().skip(1);
    let groups: usize = arguments.next().map_or(Ok(1000), |a| a.parse())?;
    let rows: usize = arguments.next().map_or(Ok(5), |a| a.parse())?;
    let file = arguments.next();
    let mut draws = Draws(1);
    let (mut x, mut y, mut group) = (Vec::new(), Vec::new(), Vec::new());
    for g in 0..groups {
        let effect = draws.normal();
        for _ in 0..rows {
            let row: Vec<f64> = (0..FEATURES).map(|_| draws.normal()).collect();
            let t =
                -0.5 + effect + row.iter().enumerate().map(|(j, x)| 0.1 * (j as f64 - 4.5) * x).sum::<f64>();
            y.push(f64::from(u8::from(draws.unit() < 1.0 / (1.0 + (-t).exp()))));
            x.extend(row);
            group.push(g);
        }
    }
    if let Some(file) = file {
        let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
        writeln!(out, "y,g,{}", (0..FEATURES).map(|j| format!("x{j}")).collect::<Vec<_>>().join(","))?;
        for (i, y) in y.iter().enumerate() {
            let row: Vec<String> = x[i * FEATURES..][..FEATURES].iter().map(f64::to_string).collect();
            writeln!(out, "{y},{},{}", group[i], row.join(","))?;
        }
    }
    let design = Design::new(Arc::new(Memory { x, y, columns: FEATURES, ..Memory::default() }), true);
    let prior = Prior::independent(vec![0.0; FEATURES + 1], &[f64::INFINITY; FEATURES + 1])?;
    let clock = Instant::now();
    let model = Collapsed::new(&design, &group, None, Arc::new(Logistic), prior)?;
    drop((design, group));
    let found = model.estimate(&[0.0; FEATURES + 1])?;
    println!(
        "{groups} groups of {rows} rows, {:.2} s, {} passes",
        clock.elapsed().as_secs_f64(),
        found.evaluations
    );
    println!("log likelihood {:.6} ± {:.1e}", found.at.log_likelihood, found.at.error);
    let [low, high] = found.interval.sds;
    match &found.interval.proved {
        Ok(()) => println!("sd {:.5}: a maximum between {low:.5} and {high:.5}, proved", found.sd),
        Err(why) => println!("sd {:.5}: nothing is proved, because {why}", found.sd),
    }
    println!("its logarithm has a standard error of {:.4}", found.log_sd_error);
    if groups * rows <= 100_000 {
        let posterior = model.posterior(&found.beta, found.sd, SdPrior::HalfNormal(2.5))?;
        let (mean, sd) = posterior.sd();
        println!(
            "posterior of the sd: {mean:.4} ± {sd:.4}, 5 % {:.4}, 95 % {:.4} ({} nodes, {} passes)",
            posterior.sd_quantile(0.05),
            posterior.sd_quantile(0.95),
            posterior.nodes.len(),
            posterior.evaluations
        );
    }
    Ok(())
}
