//! Stan programs through the C functions of BridgeStan 2, called for every point without Python in between.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use certus::error::TargetError;
use certus::target::Target;
use libloading::Library;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::error::{raise, usage};
use crate::native::Native;

/// Exit codes of the command line, by which `certus.errors` chooses the exception.
const USER_CODE: u8 = 20;
const BAD_DATA: u8 = 65;
const NO_INPUT: u8 = 66;

/// Where a function puts the reason of its failure.
type Message = *mut *mut c_char;

/// The functions of one library; their signatures are those of `bridgestan.h`, version 2.
struct Functions {
    model_construct: unsafe extern "C" fn(*const c_char, c_uint, Message) -> *mut c_void,
    model_destruct: unsafe extern "C" fn(*mut c_void),
    free_error_msg: unsafe extern "C" fn(*mut c_char),
    name: unsafe extern "C" fn(*const c_void) -> *const c_char,
    model_info: unsafe extern "C" fn(*const c_void) -> *const c_char,
    param_names: unsafe extern "C" fn(*const c_void, bool, bool) -> *const c_char,
    param_unc_names: unsafe extern "C" fn(*const c_void) -> *const c_char,
    param_num: unsafe extern "C" fn(*const c_void, bool, bool) -> c_int,
    param_unc_num: unsafe extern "C" fn(*const c_void) -> c_int,
    param_constrain:
        unsafe extern "C" fn(*const c_void, bool, bool, *const f64, *mut f64, *mut c_void, Message) -> c_int,
    log_density_gradient:
        unsafe extern "C" fn(*const c_void, bool, bool, *const f64, *mut f64, *mut f64, Message) -> c_int,
    rng_construct: unsafe extern "C" fn(c_uint, Message) -> *mut c_void,
    rng_destruct: unsafe extern "C" fn(*mut c_void),
}

/// Held around every call into a library that was built without STAN_THREADS. One lock for all libraries, because
/// the loader may let them share the static tape of Stan's automatic differentiation.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Functions {
    /// Loads `path` for good: threads keep Stan's tape in thread-local memory, whose release needs the library's code.
    fn load(path: &str) -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisers; the caller named the file and answers for it.
        let library = unsafe { Library::new(path) }.map_err(|e| {
            let reason = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
            format!("the library {path} cannot be loaded: {reason}; give the path of a BridgeStan .so")
        })?;
        let library: &'static Library = Box::leak(Box::new(library));
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type is the one declared in bridgestan.h for this name.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(|_| {
                    format!(
                        "{path} has no function {}; a library of BridgeStan 2.0 or later is required",
                        $name
                    )
                })?
            };
        }
        // what programs print is not shown: a line per evaluation is too much
        type SetPrint = unsafe extern "C" fn(extern "C" fn(*const c_char, usize), Message) -> c_int;
        // SAFETY: the type is the one declared in bridgestan.h for this name.
        if let Ok(set) = unsafe { library.get::<SetPrint>(b"bs_set_print_callback\0") } {
            let mut message = null_mut();
            // SAFETY: the function that is passed lives as long as the process.
            unsafe { set(not_printed, &mut message) };
        }
        Ok(Self {
            model_construct: symbol!("bs_model_construct"),
            model_destruct: symbol!("bs_model_destruct"),
            free_error_msg: symbol!("bs_free_error_msg"),
            name: symbol!("bs_name"),
            model_info: symbol!("bs_model_info"),
            param_names: symbol!("bs_param_names"),
            param_unc_names: symbol!("bs_param_unc_names"),
            param_num: symbol!("bs_param_num"),
            param_unc_num: symbol!("bs_param_unc_num"),
            param_constrain: symbol!("bs_param_constrain"),
            log_density_gradient: symbol!("bs_log_density_gradient"),
            rng_construct: symbol!("bs_rng_construct"),
            rng_destruct: symbol!("bs_rng_destruct"),
        })
    }

    /// The message the library allocated, copied and given back to it.
    fn take(&self, message: *mut c_char) -> String {
        if message.is_null() {
            return "the library gave no reason".into();
        }
        // SAFETY: the library wrote a C string that stays valid until it is freed, here and once.
        let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().trim().to_owned();
        unsafe { (self.free_error_msg)(message) };
        text
    }
}

extern "C" fn not_printed(_: *const c_char, _: usize) {}

/// A Stan program with its data.
struct Program {
    functions: Functions,
    model: NonNull<c_void>,
    dim: usize,
    threads: bool,
    path: PathBuf,
    rejection: Mutex<Option<String>>,
}

// SAFETY: the library only reads the model after construction. With STAN_THREADS its calls may overlap (its tape is
// thread-local); without, `serial` lets one thread in at a time.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Program {
    fn serial(&self) -> Option<MutexGuard<'static, ()>> {
        (!self.threads).then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// log p (with all constants and the Jacobian) at one point.
    fn evaluate(&self, point: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
        let (mut value, mut message) = (0.0, null_mut());
        // SAFETY: point and gradient hold `dim` numbers, which is what the library reads and writes.
        let code = unsafe {
            (self.functions.log_density_gradient)(
                self.model.as_ptr(),
                false,
                true,
                point.as_ptr(),
                &mut value,
                gradient.as_mut_ptr(),
                &mut message,
            )
        };
        if code == 0 { Ok(value) } else { Err(self.functions.take(message)) }
    }

    /// As [`Self::evaluate`], but a point that the program rejects has density 0, as Stan's own samplers read it. The
    /// core stops at such a point unless it was a trial of a line search; the reason is kept for the message.
    fn evaluate_or_reject(&self, point: &[f64], value: &mut f64, gradient: &mut [f64]) {
        *value = self.evaluate(point, gradient).unwrap_or_else(|reason| {
            gradient.fill(f64::NAN);
            *self.rejection.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
            f64::NEG_INFINITY
        });
    }

    fn text(&self, pointer: *const c_char) -> String {
        if pointer.is_null() {
            return String::new();
        }
        // SAFETY: the library keeps its C strings as long as the model.
        unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
    }

    fn list(&self, pointer: *const c_char) -> Vec<String> {
        self.text(pointer).split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

impl Target for Program {
    fn dim(&self) -> usize {
        self.dim
    }

    fn log_density(
        &self,
        points: &[f64],
        values: &mut [f64],
        gradients: &mut [f64],
    ) -> Result<(), TargetError> {
        let dim = self.dim;
        if self.threads {
            let points = points.par_chunks_exact(dim);
            points
                .zip(values)
                .zip(gradients.par_chunks_exact_mut(dim))
                .for_each(|((z, v), g)| self.evaluate_or_reject(z, v, g));
        } else {
            let _alone = self.serial();
            let points = points.chunks_exact(dim);
            points
                .zip(values)
                .zip(gradients.chunks_exact_mut(dim))
                .for_each(|((z, v), g)| self.evaluate_or_reject(z, v, g));
        }
        Ok(())
    }
}

impl Program {
    fn open(py: Python<'_>, path: PathBuf, data: &str, seed: u32) -> PyResult<Self> {
        let place = path.to_str().ok_or_else(|| usage(py, "path is not valid Unicode"))?;
        let functions = Functions::load(place).map_err(|words| raise(py, NO_INPUT, &words))?;
        let data = CString::new(data).map_err(|_| usage(py, "data contains a zero byte"))?;
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut message = null_mut();
        // SAFETY: data is a C string, message a place for the reason.
        let model = unsafe { (functions.model_construct)(data.as_ptr(), seed, &mut message) };
        drop(alone);
        let Some(model) = NonNull::new(model) else {
            return Err(raise(py, BAD_DATA, &functions.take(message)));
        };
        let mut made = Self { functions, model, dim: 0, threads: false, path, rejection: Mutex::new(None) };
        // SAFETY: the model was just made.
        made.dim = usize::try_from(unsafe { (made.functions.param_unc_num)(model.as_ptr()) }).unwrap_or(0);
        if made.dim == 0 {
            return Err(usage(py, "the program has no parameters, so there is nothing to fit"));
        }
        made.threads = made.info().replace(' ', "").contains("STAN_THREADS=true");
        Ok(made)
    }

    fn info(&self) -> String {
        // SAFETY: the model lives as long as self.
        self.text(unsafe { (self.functions.model_info)(self.model.as_ptr()) })
    }

    fn width(&self, tp: bool, gq: bool) -> usize {
        // SAFETY: as above.
        usize::try_from(unsafe { (self.functions.param_num)(self.model.as_ptr(), tp, gq) }).unwrap_or(0)
    }

    /// Where the generated quantities of a draw fail, they are NaN, as in Stan: how many, and why at first.
    fn constrain(
        &self,
        draws: &[f64],
        out: &mut [f64],
        tp: bool,
        gq: bool,
        seed: u32,
    ) -> Result<Option<(usize, String)>, String> {
        let _alone = self.serial();
        let (functions, width) = (&self.functions, self.width(tp, gq));
        let mut message = null_mut();
        // SAFETY: destroyed below, on every path.
        let rng = unsafe { (functions.rng_construct)(seed, &mut message) };
        if rng.is_null() {
            return Err(functions.take(message));
        }
        let (mut result, without) = (Ok(None), self.width(tp, false));
        for (k, point) in draws.chunks_exact(self.dim).enumerate() {
            let to = &mut out[k * width..(k + 1) * width];
            let mut write = |gq: bool, to: &mut [f64]| {
                let model = self.model.as_ptr();
                // SAFETY: the library reads `dim` numbers and writes as many as it reported itself: `to` has them.
                let code = unsafe {
                    (functions.param_constrain)(
                        model,
                        tp,
                        gq,
                        point.as_ptr(),
                        to.as_mut_ptr(),
                        rng,
                        &mut message,
                    )
                };
                if code == 0 { Ok(()) } else { Err(functions.take(message)) }
            };
            let Err(words) = write(gq, to) else { continue };
            to.fill(f64::NAN);
            if !gq || write(false, &mut to[..without]).is_err() {
                result = Err(format!("draw {k}: {words}"));
                break;
            }
            if let Ok(failed) = &mut result {
                failed.get_or_insert((0, words)).0 += 1;
            }
        }
        // SAFETY: made above, destroyed once.
        unsafe { (functions.rng_destruct)(rng) };
        result
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _alone = self.serial();
        // SAFETY: nobody else holds the model any more.
        unsafe { (self.functions.model_destruct)(self.model.as_ptr()) };
    }
}

/// A Stan program with its data: its log density for the core, and the way to the program's own parameters.
#[pyclass(frozen, module = "certus._certus")]
pub(crate) struct StanModel(Arc<Program>);

#[pymethods]
impl StanModel {
    /// Loads the library at `path` and gives it the data, JSON text or the path of a .json file.
    #[new]
    #[pyo3(signature = (path, data = "", seed = 0))]
    fn new(py: Python<'_>, path: PathBuf, data: &str, seed: u32) -> PyResult<Self> {
        // a bare file name would be searched for on the system's library path
        Ok(Self(Arc::new(Program::open(py, std::path::absolute(path)?, data, seed)?)))
    }

    /// The log density on the unconstrained space, Jacobian and constants included, for `Target`.
    #[getter]
    fn log_density(&self) -> Native {
        Native::new(self.0.clone())
    }

    /// The number of unconstrained parameters.
    #[getter]
    fn dim(&self) -> usize {
        self.0.dim
    }

    /// True if calls from several threads may overlap, because the library was built with STAN_THREADS.
    #[getter]
    fn threads(&self) -> bool {
        self.0.threads
    }

    /// The program's name.
    #[getter]
    fn name(&self) -> String {
        // SAFETY: here and below, the model lives as long as self.
        self.0.text(unsafe { (self.0.functions.name)(self.0.model.as_ptr()) })
    }

    /// What the library says about how it was compiled.
    #[getter]
    fn info(&self) -> String {
        self.0.info()
    }

    /// Why the program last refused a point, if it ever did.
    #[getter]
    fn rejection(&self) -> Option<String> {
        self.0.rejection.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Names of the constrained parameters, one per number: `beta.2.1`.
    #[pyo3(signature = (transformed = true, generated = true))]
    fn param_names(&self, transformed: bool, generated: bool) -> Vec<String> {
        self.0.list(unsafe { (self.0.functions.param_names)(self.0.model.as_ptr(), transformed, generated) })
    }

    /// Names of the unconstrained parameters.
    fn param_unc_names(&self) -> Vec<String> {
        self.0.list(unsafe { (self.0.functions.param_unc_names)(self.0.model.as_ptr()) })
    }

    /// Unconstrained draws (n, d) to the program's parameters (n, p), columns named by `param_names`.
    #[pyo3(signature = (draws, transformed = true, generated = true, seed = 0))]
    fn param_constrain<'py>(
        &self,
        py: Python<'py>,
        draws: PyReadonlyArray2<'py, f64>,
        transformed: bool,
        generated: bool,
        seed: u32,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (count, columns) = (draws.shape()[0], draws.shape()[1]);
        if columns != self.0.dim {
            let words = format!(
                "draws has {columns} columns, but the program has {} unconstrained parameters",
                self.0.dim
            );
            return Err(usage(py, &words));
        }
        let draws: Vec<f64> = draws.as_array().iter().copied().collect();
        let width = self.0.width(transformed, generated);
        let mut out = vec![0.0; count * width];
        let failed = py
            .detach(|| self.0.constrain(&draws, &mut out, transformed, generated, seed))
            .map_err(|words| raise(py, USER_CODE, &words))?;
        if let Some((failed, words)) = failed {
            let text = format!("the generated quantities of {failed} of {count} draws are NaN: {words}");
            let warning = py.get_type::<pyo3::exceptions::PyRuntimeWarning>();
            PyErr::warn(py, &warning, &CString::new(text.replace('\0', " "))?, 2)?;
        }
        PyArray1::from_vec(py, out).reshape([count, width])
    }

    fn __repr__(&self) -> String {
        format!("StanModel({}, dim={})", self.0.path.display(), self.0.dim)
    }
}
