//! Tells the code which Python it is built for: `cfg(Py_3_10)` and its kin.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
