//! Which route a problem will take, in words.

use certus_models::auto::{MOST_MEMORY, MOST_WORK, Method, Model, Route, Subsampling, steps_in_words};

use crate::method_choice::{INDEPENDENT, MethodChoice};
use crate::problem::Problem;
use crate::variance::model::ScaleModel;

impl Problem {
    /// What is said before a run that will take long: more than the limit of the exact route.
    pub fn long_run(&self, choice: &MethodChoice) -> Option<String> {
        let size = self.model()?.size();
        let automatic = *choice == MethodChoice::Auto(Method::Auto);
        let long = automatic && (size.work() > MOST_WORK || size.memory() > MOST_MEMORY);
        long.then(|| format!("this may take long ({})", Route::choose(size, MOST_WORK, MOST_MEMORY).why))
    }

    /// What will be done, and why.
    pub(crate) fn route(&self, choice: &MethodChoice) -> String {
        match choice {
            MethodChoice::Auto(Method::Auto) => match self.model() {
                Some(model) => Route::choose(model.size(), MOST_WORK, MOST_MEMORY).why,
                None => self.collapsed().map_or(String::new(), ScaleModel::route),
            },
            MethodChoice::Auto(method) => format!("{}: requested", method.as_str()),
            MethodChoice::Subsampled(Subsampling { rows, pairs, iterations }) => {
                let count = iterations
                    .map_or("as many iterations as its plan requires".into(), |n| format!("{n} iterations"));
                format!("subsampled: requested, {count} of {rows} rows and {pairs} pairs of draws")
            }
            MethodChoice::MeanField(Method::Auto) => match self.mean_field() {
                Ok(field) => {
                    format!("{INDEPENDENT}: {}", Route::choose(field.size(), MOST_WORK, MOST_MEMORY).why)
                }
                Err(error) => error.to_string(),
            },
            MethodChoice::MeanField(method) => format!("{INDEPENDENT}: {}: requested", method.as_str()),
            MethodChoice::Planned(chosen) => {
                format!(
                    "{}: requested, {} iterations of {} draws{}",
                    chosen.method.name(),
                    chosen.iterations,
                    chosen.batch,
                    steps_in_words(chosen.steps)
                )
            }
        }
    }
}
