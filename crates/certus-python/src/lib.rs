//! What Python calls: functions as targets, models on columns, and fits. Everything a user sees is in `python/certus`.
//!
//! | file | what |
//! |---|---|
//! | target.rs | a Python function as a [`certus::Target`], called on the caller's thread |
//! | native.rs | a target that is not a Python function, behind a Python object |
//! | stan.rs | Stan programs through the functions of BridgeStan |
//! | model.rs | columns and settings to a model, and its fit |
//! | fitted.rs | a fit: its record, its Gaussian, draws, predictions, files |
//! | effects.rs | questions about expected responses |
//! | loo.rs | leave-one-out cross-validation |
//! | ppc.rs | data sets that the posterior predicts |
//! | formula.rs | formulas, read as on the command line |
//! | settings.rs | the words of the command line |
//! | columns.rs, memory.rs | columns, and matrices that are not copied |
//! | interrupt.rs | Ctrl-C and progress while Rust works |
//! | error.rs | errors to exceptions |

mod columns;
mod effects;
mod error;
mod fitted;
mod formula;
mod interrupt;
mod loo;
mod memory;
mod model;
mod native;
mod ppc;
mod settings;
mod stan;
mod target;

use pyo3::prelude::*;

#[pymodule]
fn _certus(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("responses", certus_fit::responses())?;
    module.add_class::<fitted::Fitted>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<native::Native>()?;
    module.add_class::<stan::StanModel>()?;
    module.add_class::<loo::CrossValidation>()?;
    module.add_function(wrap_pyfunction!(effects::effects, module)?)?;
    module.add_function(wrap_pyfunction!(loo::compare, module)?)?;
    module.add_function(wrap_pyfunction!(ppc::ppc, module)?)?;
    module.add_function(wrap_pyfunction!(ppc::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(formula::read_formula, module)?)?;
    module.add_function(wrap_pyfunction!(formula::formula_pieces, module)?)?;
    module.add_function(wrap_pyfunction!(formula::quoted, module)?)?;
    module.add_function(wrap_pyfunction!(target::seconds_per_step, module)?)?;
    module.add_function(wrap_pyfunction!(target::fit_target, module)?)
}
