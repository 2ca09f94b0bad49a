//! `groups make GROUPS ROWS FEATURES SD FILE`: a logistic problem with an intercept per group of that sd, as 64-bit
//! numbers: response, group, features, row after row. `groups fit FILE FEATURES`: the sd of such a file with its proved
//! interval, the CPU seconds it took and the memory of the process at most.

use std::io::{Read, Write};
use std::sync::Arc;

use certus::random::{Purpose, Random};
use certus_likelihood::Logistic;
use certus_mixed::collapsed::Collapsed;
use certus_models::{Design, Memory, Prior};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", groups, rows, features, sd, file] => {
            make(groups.parse()?, rows.parse()?, features.parse()?, sd.parse()?, file)
        }
        ["fit", file, features] => fit(file, features.parse()?),
        _ => Err("groups make GROUPS ROWS FEATURES SD FILE | groups fit FILE FEATURES".into()),
    }
}

fn make(
    groups: usize,
    rows: usize,
    features: usize,
    sd: f64,
    file: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let random = Random::new(1, Purpose::Simulate, 0);
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    let (mut normals, mut luck) = (vec![0.0; 1 + rows * features], vec![0.0; rows]);
    for g in 0..groups {
        random.normals(2 * g as u64, 0, normals.len(), &mut normals);
        random.uniforms(2 * g as u64 + 1, 0, rows, &mut luck);
        for (i, luck) in luck.iter().enumerate() {
            let row = &normals[1 + i * features..][..features];
            let slopes = row.iter().enumerate().map(|(j, x)| 0.1 * (j as f64 - 4.5) * x);
            let t = -0.5 + sd * normals[0] + slopes.sum::<f64>();
            let y = f64::from(u8::from(*luck < 1.0 / (1.0 + (-t).exp())));
            for value in [y, g as f64].iter().chain(row) {
                out.write_all(&value.to_le_bytes())?;
            }
        }
    }
    Ok(out.flush()?)
}

fn fit(file: &str, features: usize) -> Result<(), Box<dyn std::error::Error>> {
    let (mut x, mut y, mut group) = (Vec::new(), Vec::new(), Vec::new());
    let mut from = std::io::BufReader::with_capacity(1 << 20, std::fs::File::open(file)?);
    let rows = std::fs::metadata(file)?.len() as usize / (8 * (features + 2));
    x.reserve_exact(rows * features);
    let mut row = vec![0; 8 * (features + 2)];
    for _ in 0..rows {
        from.read_exact(&mut row)?;
        let number = |k: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&row[8 * k..8 * k + 8]);
            f64::from_le_bytes(bytes)
        };
        y.push(number(0));
        group.push(number(1) as usize);
        x.extend((2..features + 2).map(number));
    }
    let design = Design::new(Arc::new(Memory { x, y, columns: features, ..Memory::default() }), true);
    let prior = Prior::independent(vec![0.0; features + 1], &vec![f64::INFINITY; features + 1])?;
    let (clock, cpu) = (std::time::Instant::now(), cpu_time::ProcessTime::now());
    let model = Collapsed::new(&design, &group, None, Arc::new(Logistic), prior)?;
    drop((design, group));
    let found = model.estimate(&vec![0.0; features + 1])?;
    let seconds = (clock.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    let [low, high] = found.interval.sds;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("?").trim();
    println!(
        "certus      sd {:.5}, {} in [{low:.5}, {high:.5}], {:.2} s, {:.2} CPU s, {peak} at most, {} passes",
        found.sd,
        if found.interval.proved.is_ok() { "proved" } else { "not proved" },
        seconds.0,
        seconds.1,
        found.evaluations
    );
    Ok(())
}
