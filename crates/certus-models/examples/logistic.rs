//! A logistic regression from rows in memory to the best Gaussian on the user's scale, without sampling; then the same
//! rows with an intercept for each site.

use std::sync::Arc;

use certus_likelihood::Logistic;
use certus_models::{Design, Glm, GroupTerm, Hierarchical, Memory, Prior};

#[allow(clippy::print_stdout)]
fn main() -> Result<(), certus_models::Error> {
    // 300 deliveries: late or not, by distance (km) and rain (0/1), from 6 sites.
    let (mut x, mut y, mut site) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..300_usize {
        let (distance, rain) = (5.0 + 20.0 * ((i * 37 % 100) as f64 / 100.0), f64::from(u8::from(i % 7 < 2)));
        let luck = (i * 7919 % 1000) as f64 / 1000.0;
        let logit = -2.0 + 0.08 * distance + 0.9 * rain + 0.6 * ((i % 6) as f64 - 2.5);
        x.extend([distance, rain]);
        y.push(f64::from(u8::from(luck < 1.0 / (1.0 + (-logit).exp()))));
        site.push(i % 6);
    }

    // Standardised columns, prior sd 2.5 for slopes and 10 for the intercept.
    let memory = Memory { x: x.clone(), y: y.clone(), columns: 2, ..Memory::default() };
    let design = Design::standardised(Arc::new(memory), true)?;
    let prior = Prior::independent(vec![0.0; 3], &[10.0, 2.5, 2.5])?;
    let model = Glm::new(design, Arc::new(Logistic), prior)?;
    let state = model.solve_exactly()?;
    let fit = model.design().to_user_scale(&state.gaussian)?;
    println!("negative ELBO {:.4} after {} Newton steps", state.neg_elbo, state.iterations);
    for (name, (mean, sd)) in ["intercept", "distance", "rain"].iter().zip(fit.mean().iter().zip(fit.sd())) {
        println!("{name:>10} {mean:>8.3} ± {sd:.3}");
    }
    assert!(model.whitened_gradient(&state.gaussian)?.norm() < 1e-9, "this is the best Gaussian");

    // The same with an own intercept (column 0 of the design) for each site, sd 1 around the common one.
    let design = Design::new(Arc::new(Memory { x, y, columns: 2, ..Memory::default() }), true);
    let by_site = GroupTerm { group: site, slopes: vec![0], sd: vec![1.0], within: None };
    let prior = Prior::independent(vec![0.0; 3], &[10.0, 1.0, 2.5])?;
    let model = Hierarchical::new(design, &[by_site], Arc::new(Logistic), &prior, 1 << 30)?;
    let state = model.solve_exactly()?;
    println!("by site: negative ELBO {:.4}", state.neg_elbo);
    for (latent, (mean, sd)) in
        model.latents().iter().zip(state.gaussian.mean().iter().zip(state.gaussian.sd()))
    {
        let feature = ["intercept", "distance", "rain"][latent.feature];
        match latent.term {
            None => println!("{feature:>10} {mean:>8.3} ± {sd:.3}"),
            Some(_) => println!("{:>10} {mean:>8.3} ± {sd:.3}", format!("site {}", latent.level)),
        }
    }
    let sites = &state.gaussian.mean()[3..];
    assert!(sites[5] > sites[0] + 1.0, "the last site is later than the first");
    Ok(())
}
