//! Noise and dispersion that are not given, through the real binary: against inverse gamma and t laws, balanced groups
//! by hand, sums over fine grids.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "scan")]

use std::f64::consts::TAU;
use std::path::Path;

use certus_likelihood::special::ln_gamma;
use serde_json::Value;

use crate::common::{certus, expect, scratch};

const FLAT: [&str; 4] = ["--prior-sd", "inf", "--intercept-prior-sd", "inf"];

#[track_caller]
fn fitted(arguments: &[&str]) -> Value {
    let output = certus(&[arguments, &["--json", "--quiet"]].concat());
    expect(&output, 0, "");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn row(record: &Value, name: &str, key: &str) -> f64 {
    let all = record["parameters"].as_array().unwrap();
    let found = all.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("no {name}: {all:?}"));
    found[key].as_f64().unwrap_or_else(|| panic!("no {key} of {name}: {found}"))
}

#[track_caller]
fn near(found: f64, exact: f64, tolerance: f64, what: &str) {
    assert!((found - exact).abs() <= tolerance, "{what}: {found}, by hand {exact}");
}

fn numbers(path: &Path) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with('#')).skip(1);
    lines.map(|l| l.split(',').map(|x| x.parse().unwrap()).collect()).collect()
}

/// x, y with errors that no formula guesses.
fn line(n: usize) -> Vec<[f64; 2]> {
    let wave = |k: f64, i: usize| (k * (i + 1) as f64).sin();
    (0..n)
        .map(|i| {
            let x = 3.0 * wave(2.17, i);
            [x, 2.0 - 0.6 * x + 0.9 * wave(12.9, i) + 0.5 * wave(5.1, i)]
        })
        .collect()
}

fn write(path: &Path, head: &str, rows: impl Iterator<Item = String>) -> String {
    let text: String = std::iter::once(head.to_string()).chain(rows).map(|l| l + "\n").collect();
    std::fs::write(path, text).unwrap();
    path.to_str().unwrap().to_string()
}

/// ∫ of the density of Student's t with ν degrees of freedom up to x.
fn t_below(x: f64, nu: f64) -> f64 {
    let density = |t: f64| (1.0 + t * t / nu).powf(-0.5 * (nu + 1.0));
    let constant =
        (ln_gamma(0.5 * (nu + 1.0)) - ln_gamma(0.5 * nu)).exp() / (nu * std::f64::consts::PI).sqrt();
    let (steps, h) = (20_000, x / 20_000.0);
    0.5 + constant * h * (0..steps).map(|k| density((f64::from(k) + 0.5) * h)).sum::<f64>()
}

/// With flat priors, of sigma, too: σ² is inverse gamma (ν/2, RSS/2) with ν = n − 3, coefficients and predictions are t
/// with ν degrees of freedom. The maximum of the likelihood is at σ² = RSS/n.
#[test]
fn noise_without_groups_by_hand() {
    let dir = scratch("noise");
    let rows = line(24);
    let file = write(&dir.join("line.csv"), "y,x", rows.iter().map(|[x, y]| format!("{y},{x}")));
    let n = rows.len() as f64;
    let [mx, my] = [0, 1].map(|k| rows.iter().map(|r| r[k]).sum::<f64>() / n);
    let sxx: f64 = rows.iter().map(|r| (r[0] - mx).powi(2)).sum();
    let slope = rows.iter().map(|r| (r[0] - mx) * r[1]).sum::<f64>() / sxx;
    let rss: f64 = rows.iter().map(|[x, y]| (y - my - slope * (x - mx)).powi(2)).sum();
    let base = ["fit", "linear", &file, "--response", "y", "--features", "x"];

    let best = fitted(&[&base[..], &FLAT, &["--scales", "estimate"]].concat());
    let scale = &best["certificate"]["scale"];
    let sigma = (rss / n).sqrt();
    assert_eq!((scale["name"].as_str(), scale["level"].as_str()), (Some("sigma"), Some("proved")));
    assert!(
        scale["group"].is_null() && scale["groups"] == 0 && scale["others"].as_array().unwrap().is_empty()
    );
    let [low, high] = [0, 1].map(|k| scale["interval"][k].as_f64().unwrap());
    assert!(low < sigma && sigma < high && high / low < 1.001, "{low} {sigma} {high}");
    near(scale["estimate"].as_f64().unwrap(), sigma, 1e-5, "sigma");
    near(
        scale["log_likelihood"].as_f64().unwrap(),
        -0.5 * n * ((TAU * sigma * sigma).ln() + 1.0),
        1e-8,
        "the log likelihood",
    );
    near(row(&best, "x", "mean"), slope, 1e-9, "the slope");
    near(row(&best, "x", "sd"), sigma / sxx.sqrt(), 1e-6, "its sd");

    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    let record = fitted(&[&base[..], &FLAT, &["--sd-prior", "flat", "--out", out]].concat());
    let nu = n - 3.0;
    // a mean over the grid is right to 1e-3 sd, an sd to 0.1 %
    let mean = (0.5 * rss).sqrt() * (ln_gamma(0.5 * (nu - 1.0)) - ln_gamma(0.5 * nu)).exp();
    let sd = (rss / (nu - 2.0) - mean * mean).sqrt();
    near(row(&record, "sigma", "mean"), mean, 1e-3 * sd, "sigma");
    near(row(&record, "sigma", "sd"), sd, 1e-3 * sd, "its sd");
    // the first line says how far, and it is no further
    let stated = row(&record, "sigma", "mean_error");
    near(row(&record, "sigma", "mean"), mean, stated * sd, "sigma, as stated");
    near(row(&record, "sigma", "sd"), sd, stated * sd, "its sd, as stated");
    let output = certus(&[&base[..], &FLAT, &["--sd-prior", "flat"]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("posterior  means about ") && first.contains("halving the step"), "{first}");
    near(row(&record, "x", "sd"), (rss / (nu - 2.0) / sxx).sqrt(), 1e-3 * sd, "the slope's sd");
    let unit = (rss / nu / sxx).sqrt();
    near(t_below((row(&record, "x", "q95") - slope) / unit, nu), 0.95, 2e-4, "P(slope < q95)");
    // P(σ < q) from the density of t = log σ, e^{−νt − RSS e^{−2t}/2}
    for (key, p) in [("q05", 0.05), ("q50", 0.5), ("q95", 0.95)] {
        let density = |t: f64| (-nu * t - 0.5 * rss * (-2.0 * t).exp()).exp();
        let to = row(&record, "sigma", key).ln();
        let sum = |from: f64, to: f64| {
            let h = (to - from) / 4000.0;
            (0..4000).map(|k| density(from + (f64::from(k) + 0.5) * h)).sum::<f64>() * h
        };
        let below = sum(-3.0, to) / (sum(-3.0, to) + sum(to, 4.0));
        near(below, p, 3e-4, key);
    }
    expect(&certus(&["verify", out]), 0, "weights of the");

    // predictions: the expected response at x has the mean m + b(x − x̄) and a t law of the scale √(RSS/ν (1/n + (x −
    // x̄)²/Sxx))
    let to = dir.join("new.csv");
    let new = write(&dir.join("x.csv"), "x", ["-1", "4"].map(String::from).into_iter());
    expect(&certus(&["predict", out, &new, "--to", to.to_str().unwrap()]), 0, "rows: 2");
    for (found, x) in numbers(&to).iter().zip([-1.0, 4.0]) {
        let unit = (rss / nu * (1.0 / n + (x - mx) * (x - mx) / sxx)).sqrt();
        near(found[0], my + slope * (x - mx), 1e-6, "a prediction");
        // of a thinned grid: K6 says 1e-4 sd for moments; a quantile may move by some 1e-3 in probability
        near(t_below((found[4] - found[0]) / unit, nu), 0.95, 1e-3, "its q95");
    }
    expect(
        &certus(&["predict", out, &new, "--to", to.to_str().unwrap(), "--overwrite", "--groups", "new"]),
        64,
        "but this fit has none",
    );

    let draws = dir.join("draws.csv");
    expect(&certus(&["sample", out, "--draws", "20000", "--to", draws.to_str().unwrap()]), 0, "3 parameters");
    for (k, name) in ["(Intercept)", "x", "sigma"].into_iter().enumerate() {
        let drawn: Vec<f64> = numbers(&draws).iter().map(|d| d[k]).collect();
        let own = drawn.iter().sum::<f64>() / 20_000.0;
        let [mean, sd] = ["mean", "sd"].map(|key| row(&record, name, key));
        near(own, mean, 4.0 * sd / 20_000f64.sqrt() + 0.003 * sd, name);
    }
    expect(&certus(&["report", out]), 0, "report.html");
    let page = std::fs::read_to_string(dir.join("fit/report.html")).unwrap();
    assert!(
        page.contains("sigma is estimated, with a proved interval")
            && page.contains("Posterior density of sigma")
    );

    // another interval, another likelihood, another prior: none holds
    for (place, value, words) in [
        (
            "interval",
            serde_json::json!([sigma * 1.01, sigma * 1.02]),
            "a maximum of the likelihood is claimed",
        ),
        ("log_likelihood", serde_json::json!(-30.0), "the log likelihood at the estimate"),
        ("name", serde_json::json!("sd(g)"), "is about"),
    ] {
        let mut other = record.clone();
        other["certificate"]["scale"][place] = value;
        std::fs::write(dir.join("fit/fit.json"), other.to_string()).unwrap();
        certus_fit::rewrite_manifest(&dir.join("fit")).unwrap();
        expect(&certus(&["verify", out]), 14, words);
    }
    let mut other = record.clone();
    other["settings"]["sd-prior"] = serde_json::json!("exponential");
    std::fs::write(dir.join("fit/fit.json"), other.to_string()).unwrap();
    certus_fit::rewrite_manifest(&dir.join("fit")).unwrap();
    expect(&certus(&["verify", out]), 14, "the weights of the grid");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// With x the same in all J groups of n rows, the likelihood falls into J(n − 1) directions within groups of variance
/// σ² and J between of variance σ² + n s².
#[test]
fn noise_with_balanced_groups_by_hand() {
    let dir = scratch("balanced");
    let (groups, per) = (14usize, 5usize);
    let wave = |k: f64, i: usize| (k * (i + 1) as f64).sin();
    let mut rows = Vec::new();
    for i in 0..groups * per {
        let (g, x) = (i / per, [-2.0, -1.0, 0.0, 1.5, 2.5][i % per]);
        rows.push([
            1000.0 + 0.7 * x + 1.4 * wave(2.4, g) + 0.6 * wave(12.9, i) + 0.3 * wave(5.1, i),
            x,
            g as f64,
        ]);
    }
    let file = write(&dir.join("b.csv"), "y,x,g", rows.iter().map(|[y, x, g]| format!("{y},{x},g{g}")));
    let (n, j) = (per as f64, groups as f64);
    let center = rows.iter().map(|r| r[1]).sum::<f64>() / (n * j);
    let spread: f64 = rows.iter().map(|r| (r[1] - center).powi(2)).sum();
    let slope = rows.iter().map(|r| (r[1] - center) * r[0]).sum::<f64>() / spread;
    let own: Vec<f64> = rows.chunks(per).map(|g| g.iter().map(|r| r[0]).sum::<f64>() / n).collect();
    let level = own.iter().sum::<f64>() / j;
    let between = own.iter().map(|m| (m - level).powi(2)).sum::<f64>() / j;
    let within: f64 =
        rows.iter().map(|r| (r[0] - own[r[2] as usize] - slope * (r[1] - center)).powi(2)).sum();
    let sigma2 = within / (j * (n - 1.0));
    let s2 = between - sigma2 / n;
    let wide = sigma2 + n * s2;
    let log = -0.5 * j * (n * (TAU.ln() + 1.0) + (n - 1.0) * sigma2.ln() + wide.ln());

    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    let base = ["fit", "linear", &file, "--response", "y", "--features", "x", "--group", "g"];
    let record = fitted(&[&base[..], &FLAT, &["--ml", "--out", out]].concat());
    let scale = &record["certificate"]["scale"];
    assert_eq!((scale["level"].as_str(), scale["groups"].as_u64()), (Some("proved"), Some(14)));
    near(scale["estimate"].as_f64().unwrap(), s2.sqrt(), 1e-9, "sd(g)");
    near(scale["others"][0]["estimate"].as_f64().unwrap(), sigma2.sqrt(), 1e-9, "sigma");
    near(row(&record, "icc(g)", "mean"), s2 / (s2 + sigma2), 1e-9, "the ICC");
    near(scale["log_likelihood"].as_f64().unwrap(), log, 1e-9, "the log likelihood");
    near(row(&record, "x", "mean"), slope, 1e-9, "the slope");
    near(row(&record, "x", "sd"), (sigma2 / spread).sqrt(), 1e-4, "its sd");
    // σ² and σ² + n s² are independent: variances 2σ⁴/(J(n − 1)) and 2(σ² + n s²)²/J
    near(row(&record, "sigma", "sd"), sigma2.sqrt() * (0.5 / (j * (n - 1.0))).sqrt(), 1e-4, "its error");
    expect(&certus(&["verify", out]), 0, "log likelihood at the estimate");
    let to = dir.join("known.csv");
    expect(&certus(&["predict", out, &file, "--to", to.to_str().unwrap()]), 0, "own groups");
    let shrink = n * s2 / wide;
    for (found, [_, x, g]) in numbers(&to).iter().zip(&rows) {
        let mean = level + shrink * (own[*g as usize] - level) + slope * (x - center);
        near(found[0], mean, 1e-4, "a known group");
    }
    let penalised = ["--scales", "estimate", "--prior-sd", "1", "--level", "proved"];
    expect(&certus(&[&base[..], &penalised].concat()), 10, "proof was asked for");

    let record = fitted(&[&base[..], &["--out", out, "--overwrite"]].concat());
    assert!(
        record["certificate"]["scale"]["others"][0]["prior"].as_str().unwrap().starts_with("half-normal")
    );
    expect(&certus(&["verify", out]), 0, "weights of the");
    let draws = dir.join("draws.csv");
    expect(&certus(&["sample", out, "--draws", "20000", "--to", draws.to_str().unwrap()]), 0, "5 parameters");
    let drawn = numbers(&draws);
    for (k, name) in ["(Intercept)", "x", "sd(g)", "icc(g)", "sigma"].into_iter().enumerate() {
        let own = drawn.iter().map(|d| d[k]).sum::<f64>() / 20_000.0;
        let square = drawn.iter().map(|d| (d[k] - own).powi(2)).sum::<f64>() / 20_000.0;
        let [mean, sd, q05, q95] = ["mean", "sd", "q05", "q95"].map(|key| row(&record, name, key));
        // four standard errors; 1 % of an sd for the lattice, 3 % for the sd
        near(own, mean, 4.0 * sd / 20_000f64.sqrt() + 0.01 * sd, name);
        near(square.sqrt() / sd, 1.0, 0.03, name);
        let share = |q: f64| drawn.iter().filter(|d| d[k] < q).count() as f64 / 20_000.0;
        // four standard errors of a share of 5 %, and 2e-3 for quantiles on a lattice of two scales (K9)
        near(share(q05), 0.05, 8.2e-3, name);
        near(share(q95), 0.95, 8.2e-3, name);
    }
    // the ICC at every draw is that of its scales
    assert!(drawn.iter().all(|d| (d[3] - d[2] * d[2] / (d[2] * d[2] + d[4] * d[4])).abs() < 1e-9));
    expect(&certus(&["report", out]), 0, "report.html");
    let page = std::fs::read_to_string(dir.join("fit/report.html")).unwrap();
    assert!(page.contains("sd(g) and sigma are estimated, without a proof"), "{page}");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The usual priors speak of a standardised response: other units and another zero of y change nothing but these.
#[test]
fn units_of_the_response_do_not_matter() {
    let dir = scratch("units");
    let rows = line(40);
    let one = write(&dir.join("one.csv"), "y,x", rows.iter().map(|[x, y]| format!("{y},{x}")));
    let two =
        write(&dir.join("two.csv"), "y,x", rows.iter().map(|[x, y]| format!("{},{x}", 1e6 + 1000.0 * y)));
    let [a, b] = [&one, &two].map(|file| fitted(&["fit", "linear", file, "--response", "y"]));
    for name in ["x", "sigma"] {
        for key in ["mean", "sd", "q95"] {
            // 1e6 + 1000 y has lost digits of y below 1e-13
            near(row(&b, name, key) / row(&a, name, key), 1000.0, 1e-5, name);
        }
    }
    assert!(a["notes"].to_string().contains("sigma ~ half-normal("), "{}", a["notes"]);
    // as they are, with --no-standardise
    let raw = certus(&["plan", "linear", &one, "--response", "y", "--no-standardise"]);
    expect(&raw, 0, "sigma ~ half-normal(2.5)");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Counts with mean 4 and a relative sd of about 0.7.
fn counts() -> Vec<f64> {
    vec![
        2.0, 5.0, 0.0, 9.0, 4.0, 1.0, 7.0, 3.0, 0.0, 12.0, 5.0, 2.0, 8.0, 1.0, 3.0, 6.0, 0.0, 4.0, 15.0, 2.0,
        3.0, 1.0, 6.0, 10.0, 2.0, 0.0, 5.0, 7.0, 1.0, 4.0, 3.0, 2.0, 11.0, 0.0, 6.0, 1.0, 2.0, 8.0, 5.0, 3.0,
    ]
}

/// log p(y | rate e^b, k).
fn log_likelihood(y: &[f64], b: f64, k: f64) -> f64 {
    let one = |y: &f64| {
        ln_gamma(y + k) - ln_gamma(k) - ln_gamma(y + 1.0)
            + k * (k / (k + b.exp())).ln()
            + y * (b.exp() / (k + b.exp())).ln()
    };
    y.iter().map(one).sum()
}

/// One coefficient, so that its posterior with s is a sum over a plane, and the maximum is where y is y on average and
/// a search by hand ends.
#[test]
fn dispersion_by_hand() {
    let dir = scratch("counts");
    let y = counts();
    let file =
        write(&dir.join("c.csv"), "y,one,g", y.iter().enumerate().map(|(i, y)| format!("{y},1,g{}", i % 8)));
    let base = [
        "fit",
        "negative-binomial",
        &file,
        "--response",
        "y",
        "--features",
        "one",
        "--no-intercept",
        "--no-standardise",
    ];
    let b = (y.iter().sum::<f64>() / y.len() as f64).ln();
    let (mut low, mut high) = (0.1f64, 100.0f64);
    for _ in 0..200 {
        let [p, q] = [low.powf(0.6) * high.powf(0.4), low.powf(0.4) * high.powf(0.6)];
        if log_likelihood(&y, b, p) > log_likelihood(&y, b, q) { high = q } else { low = p }
    }
    let k = (low * high).sqrt();
    let best = fitted(&[&base[..], &["--prior-sd", "inf", "--scales", "estimate"]].concat());
    let scale = &best["certificate"]["scale"];
    assert_eq!((scale["name"].as_str(), scale["level"].as_str()), (Some("sd(rates)"), Some("proved")));
    near(row(&best, "one", "mean"), b, 1e-6, "the coefficient");
    near(row(&best, "dispersion", "mean"), k, 1e-3 * k, "the dispersion");
    near(scale["log_likelihood"].as_f64().unwrap(), log_likelihood(&y, b, k), 1e-7, "the log likelihood");
    let [low, high] = [0, 1].map(|e| scale["interval"][e].as_f64().unwrap());
    assert!(low < k.powf(-0.5) && k.powf(-0.5) < high && high / low < 1.01, "{low} {high}");

    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    let record = fitted(&[&base[..], &["--out", out]].concat());
    // priors N(0, 2.5²) and half-normal(2.5), log s and b on a fine grid
    let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
    for i in 0..240 {
        let s = (-5.0 + 7.0 * (f64::from(i) + 0.5) / 240.0).exp();
        for j in 0..160 {
            let b = 0.4 + 2.0 * (f64::from(j) + 0.5) / 160.0;
            let weight =
                (log_likelihood(&y, b, 1.0 / (s * s)) + 100.0 - 0.5 * (s * s + b * b) / 6.25).exp() * s;
            sum += weight;
            first += weight * s;
            second += weight * s * s;
        }
    }
    let mean = first / sum;
    let sd = (second / sum - mean * mean).sqrt();
    // β given s is taken to be normal: with 40 rows per coefficient that moves the law of s by a few hundredths of its
    // sd
    near(row(&record, "sd(rates)", "mean"), mean, 0.03 * sd, "sd(rates)");
    near(row(&record, "sd(rates)", "sd"), sd, 0.03 * sd, "its sd");
    let parameters = record["parameters"].as_array().unwrap();
    let own = parameters.iter().find(|p| p["name"] == "dispersion").unwrap();
    assert!(own["mean"].is_null() && own["sd"].is_null(), "{own}");
    near(
        row(&record, "dispersion", "q05"),
        row(&record, "sd(rates)", "q95").powi(-2),
        1e-9,
        "the 5 % quantile",
    );
    expect(&certus(&["verify", out]), 0, "weights of the");
    expect(
        &certus(&["sample", out, "--draws", "100", "--to", dir.join("d.csv").to_str().unwrap()]),
        0,
        "3 parameters",
    );
    assert!(numbers(&dir.join("d.csv")).iter().all(|d| (d[2] * d[1] * d[1] - 1.0).abs() < 1e-9));
    expect(&certus(&["report", out]), 0, "report.html");

    // with groups
    let grouped = [&base[..], &["--group", "g: 0,one", "--out", out, "--overwrite"]].concat();
    expect(&certus(&grouped), 0, "sd(rates)");
    expect(&certus(&["verify", out]), 0, "weights of the");
    let estimate = fitted(&[&base[..], &["--group", "g: 0,one", "--scales", "estimate"]].concat());
    assert_eq!(estimate["certificate"]["scale"]["others"][0]["name"], "sd(rates)");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Counts that vary less than Poisson ones: the scale is 0, the dispersion infinite and not a number, and groups are
/// still found.
#[test]
fn counts_without_extra_spread() {
    let dir = scratch("poisson");
    let rows = (0..30).map(|i| format!("{},{},g{}", 2 + (i * 7) % 3 + i % 5 / 4, i % 4, i % 6));
    let file = write(&dir.join("p.csv"), "y,x,g", rows);
    let out = dir.join("fit");
    let out = out.to_str().unwrap();
    let base = [
        "fit",
        "negative-binomial",
        &file,
        "--response",
        "y",
        "--features",
        "x",
        "--scales",
        "estimate",
        "--overwrite",
        "--out",
        out,
    ];
    for more in [&[][..], &["--group", "g"]] {
        let record = fitted(&[&base[..], more].concat());
        assert_eq!(row(&record, "sd(rates)", "mean"), 0.0);
        let own = record["parameters"].as_array().unwrap().last().unwrap().clone();
        assert!(own["name"] == "dispersion" && own["mean"].is_null(), "{own}");
        let scale = &record["certificate"]["scale"];
        if more.is_empty() {
            assert!(scale["level"] == "proved" && scale["interval"][0] == 0.0, "{scale}");
        }
        expect(&certus(&["verify", out]), 0, "log likelihood at the estimate");
        expect(
            &certus(&["predict", out, &file, "--to", dir.join("p.out.csv").to_str().unwrap(), "--overwrite"]),
            0,
            "rows: 30",
        );
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// What cannot be had says what can.
#[test]
fn refusals() {
    let dir = scratch("refused");
    let rows = (0..24).map(|i| format!("{},{},a{},b{}", (i * 7) % 5, (i * 5) % 11, i % 4, i % 3));
    let file = write(&dir.join("r.csv"), "y,x,a,b", rows);
    let with = |model: &str, more: &[&str]| {
        certus(&[&["fit", model, &file, "--response", "y", "--features", "x", "--quiet"], more].concat())
    };
    for (model, word) in [("linear", "sigma"), ("negative-binomial", "dispersion")] {
        if model != "linear" {
            expect(
                &with(model, &["--group", "a", "--group-sd", "1"]),
                64,
                &format!("{word} is not given, but the sd of the group a is"),
            );
            expect(&with(model, &["--group", "a", "--group", "b"]), 64, &format!("give the sds and {word}"));
            expect(&with(model, &["--group", "a: x"]), 64, "2 coefficients vary by it");
        }
        expect(&with(model, &["--method", "exact"]), 64, "no choice of method");
        expect(&with(model, &["--max-time", "0s"]), 10, "before there was an estimate");
        expect(&with(model, &["--scales", "estimate", "--sd-prior", "flat"]), 64, "leave sd-prior out");
        expect(
            &with(model, &[&format!("--{word}"), "1", "--scales", "estimate"]),
            64,
            &format!("leave out group-sd, sigma or {word}").replace("sigma or sigma", "sigma or dispersion"),
        );
        let many = dir.join("many");
        let many = [
            "fit-many",
            model,
            &file,
            "--response",
            "y",
            "--features",
            "x",
            "--by",
            "a",
            "--out",
            many.to_str().unwrap(),
        ];
        expect(&certus(&many), 64, word);
    }
    let same = write(&dir.join("same.csv"), "y,x", (0..9).map(|i| format!("3,{i}")));
    expect(&certus(&["fit", "linear", &same, "--response", "y"]), 65, "the same in all 9 rows");
    let exact = write(&dir.join("exact.csv"), "y,x", (0..9).map(|i| format!("{},{i}", 3 * i)));
    expect(
        &certus(&[&["fit", "linear", &exact, "--response", "y"], &FLAT[..]].concat()),
        12,
        "fitted without error",
    );
    std::fs::remove_dir_all(&dir).unwrap();
}
