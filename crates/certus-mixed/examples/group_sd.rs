//! The sd between groups, with an interval that is proved to hold a maximum of the likelihood: `group_sd [GROUPS [ROWS
//! PER GROUP]]`.
//!
//! Makes a logistic problem with ten features and an intercept per group whose sd is 1, integrates the groups out, and
//! prints what is found, how long it took and the posterior.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use certus::random::{Purpose, Random};
use certus_likelihood::Logistic;
use certus_mixed::collapsed::{Collapsed, SdPrior};
use certus_models::{Design, Memory, Prior};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FEATURES: usize = 10;
    let mut arguments = std::env::args().skip(1);
    let groups: usize = arguments.next().map_or(Ok(1000), |a| a.parse())?;
    let rows: usize = arguments.next().map_or(Ok(5), |a| a.parse())?;
    let random = Random::new(1, Purpose::Simulate, 0);
    let (mut x, mut y, mut group) = (Vec::new(), Vec::new(), Vec::new());
    for g in 0..groups {
        // a normal number for the effect and for every feature of a row, a uniform one for its response
        let (mut normals, mut luck) = (vec![0.0; 1 + rows * FEATURES], vec![0.0; rows]);
        random.normals(2 * g as u64, 0, normals.len(), &mut normals);
        random.uniforms(2 * g as u64 + 1, 0, rows, &mut luck);
        let effect = normals[0];
        for (row, luck) in normals[1..].chunks_exact(FEATURES).zip(luck) {
            let t =
                -0.5 + effect + row.iter().enumerate().map(|(j, x)| 0.1 * (j as f64 - 4.5) * x).sum::<f64>();
            y.push(f64::from(u8::from(luck < 1.0 / (1.0 + (-t).exp()))));
            x.extend(row);
            group.push(g);
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
