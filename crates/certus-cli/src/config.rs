//! TOML files that hold the same arguments as flags; flags win, unknown keys are refused with the nearest known one.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use certus_fit::Settings;
use clap::Args;

use crate::exit::{Code, Failure};

/// Bytes of a file of settings, at most.
const LARGEST: u64 = 1 << 20;

/// The names a config file may use: those of the flags, `model` and `data`.
fn known() -> Vec<String> {
    let command = Settings::augment_args(clap::Command::new("fit"));
    let names = command.get_arguments().map(|a| a.get_id().as_str().replace('_', "-"));
    names.chain(["priors".to_string()]).collect()
}

/// The arguments of a config file.
pub fn read(path: &Path) -> Result<Settings, Failure> {
    let opened = File::open(path);
    let mut bytes = Vec::new();
    // a device may never end
    let read = opened.and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
    read.map_err(|e| Failure::new(Code::NoInput, format!("cannot read {}: {e}", path.display())))?;
    let bad = |words: &str| Failure::new(Code::Config, format!("{} {words}", path.display()));
    if bytes.len() as u64 > LARGEST {
        return Err(bad("is longer than 1 MiB, but a file of settings has at most that"));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        bad(&format!("is not UTF-8 from byte {} on: save it as UTF-8", e.utf8_error().valid_up_to()))
    })?;
    parse(&text).map_err(|f| Failure::new(f.code, format!("{}: {}", path.display(), f.message)))
}

fn parse(text: &str) -> Result<Settings, Failure> {
    let bad = |message: String| Failure::new(Code::Config, message);
    let table: toml::Table = toml::from_str(text).map_err(|e| bad(e.to_string()))?;
    let known = known();
    for key in table.keys() {
        if !known.contains(key) {
            let hint = certus_data::nearest(known.iter().map(String::as_str), key);
            return Err(bad(format!("unknown setting '{key}'{hint}")));
        }
    }
    let settings: Settings = table.try_into().map_err(|e| bad(e.to_string()))?;
    settings.check_words().map_err(|e| bad(e.to_string()))?;
    Ok(settings)
}

/// The arguments as TOML, without what was left open.
pub fn print(arguments: &Settings) -> Result<String, Failure> {
    toml::to_string(arguments).map_err(|e| Failure::new(Code::Bug, e.to_string()))
}

#[cfg(test)]
mod tests {
    use certus_fit::CoefficientPrior;

    use super::*;

    #[test]
    fn a_config_file_equals_flags() {
        let file = parse(
            "model = \"logistic\"\ndata = \"a.csv\"\nresponse = \"y\"\nprior-sd = inf\ngroup-sd = \
            [\"g=1\"]\n[priors]\nrain = 0.5\nmist = { mean = 0.25, sd = 2 }\nwind = inf\n",
        )
        .expect("legal");
        assert_eq!(file.prior_sd, Some(f64::INFINITY));
        let again = parse(&print(&file).expect("TOML")).expect("legal");
        assert_eq!(format!("{again:?}"), format!("{file:?}"));
        let flags = Settings { prior_sd: Some(1.0), ..Settings::default() };
        assert_eq!(flags.or(&file).prior_sd, Some(1.0));
        let json = serde_json::to_string(&file).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Settings>(&json).expect("legal").prior_sd,
            Some(f64::INFINITY),
            "{json}"
        );
        assert_eq!(file.priors["rain"], 0.5.into());
        assert_eq!(file.priors["mist"], CoefficientPrior { mean: Some(0.25), sd: Some(2.0) });
        let priors = serde_json::from_str::<Settings>(&json).expect("legal").priors;
        assert_eq!(priors, file.priors, "{json}");
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest() {
        let failure = parse("prior_sds = 1.0").expect_err("unknown");
        assert_eq!(failure.code, Code::Config);
        assert!(failure.message.contains("'prior_sds': did you mean 'prior-sd'?"), "{}", failure.message);
        assert_eq!(parse("gap = \"wide\"").expect_err("not a number").code, Code::Config);
        assert_eq!(parse("gap = ").expect_err("no value").code, Code::Config);
        let failure = parse("[priors]\nrain = { mu = 1.0 }").expect_err("no such part of a prior");
        assert!(failure.code == Code::Config && failure.message.contains("'mu'"), "{}", failure.message);
    }
}
