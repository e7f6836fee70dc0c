//! Passes the Python version of the build to the code: `cfg(Py_3_10)` and the like.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
