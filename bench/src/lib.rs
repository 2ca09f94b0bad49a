//! What the benchmarks share.

pub mod problems;

use std::time::Instant;

/// CPU seconds of this thread so far.
pub fn cpu_seconds() -> f64 {
    cpu_time::ThreadTime::now().as_duration().as_secs_f64()
}

/// Best time of one call in seconds: several rounds, each long enough for the clock.
pub fn best(mut work: impl FnMut()) -> f64 {
    work();
    let once = Instant::now();
    work();
    let calls = (5e-3 / once.elapsed().as_secs_f64().max(1e-9)).clamp(1.0, 1e5) as usize;
    (0..15)
        .map(|_| {
            let clock = Instant::now();
            (0..calls).for_each(|_| work());
            clock.elapsed().as_secs_f64() / calls as f64
        })
        .fold(f64::INFINITY, f64::min)
}
