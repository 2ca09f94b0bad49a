//! TOML files that hold the same arguments as flags; flags win, unknown keys are refused with the nearest known one.

use std::path::Path;

use clap::Args;

use crate::arguments::FitArguments;
use crate::exit::{Code, Failure};

/// The names a config file may use: those of the flags, `model` and `data`.
fn known() -> Vec<String> {
    let command = FitArguments::augment_args(clap::Command::new("fit"));
    let names = command.get_arguments().map(|a| a.get_id().as_str().replace('_', "-"));
    let names = names.filter(|n| n != "config" && n != "print-config");
    names.chain(["priors".to_string()]).collect()
}

/// The arguments of a config file.
pub fn read(path: &Path) -> Result<FitArguments, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::new(Code::NoInput, format!("cannot read {}: {e}", path.display())))?;
    parse(&text).map_err(|f| Failure::new(f.code, format!("{}: {}", path.display(), f.message)))
}

fn parse(text: &str) -> Result<FitArguments, Failure> {
    let bad = |message: String| Failure::new(Code::Config, message);
    let table: toml::Table = toml::from_str(text).map_err(|e| bad(e.to_string()))?;
    let known = known();
    for key in table.keys() {
        if !known.contains(key) {
            let hint = certus_data::nearest(known.iter().map(String::as_str), key);
            return Err(bad(format!("there is no setting '{key}'{hint}")));
        }
    }
    table.try_into().map_err(|e| bad(e.to_string()))
}

/// `flags`, with what they leave open taken from `file`.
pub fn merge(flags: FitArguments, file: FitArguments) -> FitArguments {
    macro_rules! or {
        ($($field:ident),*) => {
            FitArguments {
                $($field: flags.$field.or(file.$field),)*
                no_intercept: flags.no_intercept || file.no_intercept,
                no_standardise: flags.no_standardise || file.no_standardise,
                overwrite: flags.overwrite || file.overwrite,
                json: flags.json || file.json,
                quiet: flags.quiet || file.quiet,
                config: flags.config,
                print_config: flags.print_config,
                priors: file.priors,
            }
        };
    }
    or!(
        model,
        data,
        response,
        features,
        group,
        group_sd,
        weights,
        offset,
        trials,
        dispersion,
        sigma,
        prior_sd,
        intercept_prior_sd,
        sd_prior,
        sd_prior_scale,
        scales,
        missing,
        r#where,
        sql,
        method,
        factor,
        constants,
        steps,
        batch,
        iterations,
        row_batch,
        gap,
        delta,
        level,
        max_time,
        out,
        checkpoint_every,
        seed,
        threads
    )
}

/// The arguments as TOML, without what was left open.
pub fn print(arguments: &FitArguments) -> Result<String, Failure> {
    toml::to_string(arguments).map_err(|e| Failure::new(Code::Bug, e.to_string()))
}

#[cfg(test)]
mod tests {
    use certus_data::CoefficientPrior;

    use super::*;

    #[test]
    fn a_config_file_equals_flags() {
        let file = parse("model = \"logistic\"\ndata = \"a.csv\"\nresponse = \"y\"\nprior-sd = inf\ngroup-sd = [\"g=1\"]\n[priors]\nrain = 0.5\nmist = { mean = 0.25, sd = 2 }\nwind = inf\n").expect("legal");
        assert_eq!(file.prior_sd, Some(f64::INFINITY));
        let again = parse(&print(&file).expect("TOML")).expect("legal");
        assert_eq!(format!("{again:?}"), format!("{file:?}"));
        let flags = FitArguments { prior_sd: Some(1.0), ..FitArguments::default() };
        assert_eq!(merge(flags, file.clone()).prior_sd, Some(1.0));
        let json = serde_json::to_string(&file).expect("JSON");
        assert_eq!(
            serde_json::from_str::<FitArguments>(&json).expect("legal").prior_sd,
            Some(f64::INFINITY),
            "{json}"
        );
        assert_eq!(file.priors["rain"], 0.5.into());
        assert_eq!(file.priors["mist"], CoefficientPrior { mean: Some(0.25), sd: Some(2.0) });
        let priors = serde_json::from_str::<FitArguments>(&json).expect("legal").priors;
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
