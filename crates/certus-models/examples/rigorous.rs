//! What a gap without allowances for rounding costs, in CPU seconds: the ordinary certificate, the proof in balls, and both bounds, at
//! the exact solver's Gaussian. `-- full` has the sizes of bench/results/*-proofs.txt; numbers instead are rows and
//! columns, and a name after them is that of a certificate to write, with its rows.

#![allow(clippy::print_stdout)]

use std::sync::Arc;

use certus::certificate::Gap;
use certus_models::likelihood::{Likelihood, Linear, Logistic, Poisson};
use certus_models::proof::{Guess, Subject};
use certus_models::{Design, Error, Glm, Memory, Prior};

fn model(likelihood: Arc<dyn Likelihood>, n: usize, p: usize) -> Result<Glm, Error> {
    let mut state = 1u64;
    // numbers without a pattern (SplitMix64)
    let mut unit = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    };
    let x: Vec<f64> = (0..n * p).map(|_| 3.46 * (unit() - 0.5)).collect();
    let size = 1.0 / (p as f64).sqrt();
    let y = x.chunks_exact(p).map(|row| {
        let t = size * row.iter().step_by(2).sum::<f64>();
        match likelihood.name() {
            "linear" => t + unit() - 0.5,
            "poisson" => (t.exp() * 2.0 * unit()).floor(),
            _ => f64::from(u8::from(unit() < 1.0 / (1.0 + (-t).exp()))),
        }
    });
    let memory = Memory { y: y.collect(), x: x.clone(), columns: p, ..Memory::default() };
    let design = Design::standardised(Arc::new(memory), true)?;
    Glm::new(design, likelihood, Prior::independent(vec![0.0; p + 1], &vec![2.5; p + 1])?)
}

/// CPU seconds of this process so far, on Linux in steps of 0.01; where there is no /proc, 0.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // after the name, which may have blanks: utime and stime are numbers 12 and 13
    let words: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = words.get(11..13).map_or(0.0, |two| two.iter().filter_map(|w| w.parse::<f64>().ok()).sum());
    ticks / 100.0
}

/// name.proof and name.rows.
fn write(model: &Glm, w: &certus::Gaussian, gap: &Gap, name: &str) -> Result<(), Error> {
    let subject = || Subject::new(model, w, &[], None);
    let (text, mut rows) = (subject()?.certify(Guess::from(gap))?.write(), Vec::new());
    let subject = subject()?;
    for block in 0..subject.blocks() {
        rows.extend(subject.block(block)?);
    }
    let written = std::fs::write(format!("{name}.proof"), text);
    written.and_then(|()| std::fs::write(format!("{name}.rows"), rows)).expect("the files can be written");
    Ok(())
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let sizes: Vec<(usize, usize)> = match &arguments[..] {
        [word] if word == "full" => {
            vec![(100_000, 9), (1_000_000, 9), (20_000, 99), (4_000, 499), (1_000_000, 19)]
        }
        [n, p, ..] => vec![(n.parse().unwrap_or(1000), p.parse().unwrap_or(9))],
        _ => vec![(2_000, 9)],
    };
    println!(
        "{:>9} {:>4}  {:<9} {:>10} {:>10} {:>7} {:>7}  {:>12} {:>12}",
        "rows", "d", "model", "ordinary s", "in balls s", "balls/o", "total/o", "ordinary", "in balls"
    );
    let linear: Arc<dyn Likelihood> = Arc::new(Linear::new(0.5)?);
    for (n, p) in sizes {
        for likelihood in [Arc::new(Logistic), linear.clone(), Arc::new(Poisson) as Arc<dyn Likelihood>] {
            let model = model(likelihood, n, p)?;
            let best = model.solve_exactly()?.gaussian;
            let clock = cpu();
            let gap = model.gap(&best)?;
            let ordinary = cpu() - clock;
            let clock = cpu();
            let proved = model.without_allowances(&best, &gap)?;
            let balls = cpu() - clock;
            if let Some(name) = arguments.get(2).filter(|_| model.likelihood().name() == "logistic") {
                write(&model, &best, &gap, name)?;
            }
            let bound = |gap: &Gap| gap.statement.bound().unwrap_or(f64::NAN);
            println!(
                "{n:>9} {:>4}  {:<9} {ordinary:>10.3} {balls:>10.3} {:>7.2} {:>7.2}  {:>12.3e} {:>12.3e}",
                p + 1,
                model.likelihood().name(),
                balls / ordinary,
                1.0 + balls / ordinary,
                bound(&gap),
                bound(&proved)
            );
        }
    }
    Ok(())
}
