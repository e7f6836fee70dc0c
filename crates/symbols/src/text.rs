//! Names in the form that people write, and whose code a binary or function is: the system's, the
//! interpreter's, the recorder's or the program's own.

/// Folders of libraries that came with the system.
const SYSTEM: [&str; 4] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"];
/// Prefixes of the functions of Rust's libraries and of dashcam.
const RUNTIME: [&str; 5] = ["std::", "core::", "alloc::", "dashcam::", "recorder::"];

/// Whether a binary is a library of the system: its name is of interest, its source is not.
pub fn is_system(path: &str) -> bool {
    let base = path.rsplit('/').next().unwrap_or(path);
    SYSTEM.iter().any(|dir| path.starts_with(dir)) && base.contains(".so")
        || base.starts_with("libdashcam.so")
}

/// Whether a binary is a Python interpreter: the program or its library.
pub fn is_interpreter(path: &str) -> bool {
    let base = path.rsplit('/').next().unwrap_or(path);
    let version = base.strip_prefix("libpython").or_else(|| base.strip_prefix("python"));
    version.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a binary is the recorder's module for Python.
pub fn is_recorder(path: &str) -> bool {
    path.rsplit_once('/')
        .is_some_and(|(folder, base)| folder.ends_with("/dashcam") && base.starts_with("_native."))
}

/// Whether a function belongs to Rust's library or to dashcam, by its name.
pub fn is_runtime(function: &str) -> bool {
    let name = function.trim_start_matches(['<', '&']);
    RUNTIME.iter().any(|prefix| name.starts_with(prefix)) || name.starts_with("__rust_")
}

/// A demangled name without parameters and without what the compiler appended to a copy of the
/// function (`.cold`, `.constprop.0`).
pub fn clean(name: &str) -> String {
    let name = name.strip_suffix(" const").unwrap_or(name);
    let name = without_parameters(name);
    match name.find('.') {
        Some(at) if at > 0 && !name.contains("::") => name[..at].to_owned(),
        _ => name.to_owned(),
    }
}

fn without_parameters(name: &str) -> &str {
    if !name.ends_with(')') {
        return name;
    }
    let mut depth = 0usize;
    for (at, byte) in name.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' if depth == 1 => return if at == 0 { name } else { &name[..at] },
            b'(' => depth -= 1,
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorders_own_module_is_known_by_its_place() {
        assert!(is_recorder("/venv/site-packages/dashcam/_native.cpython-311-x86_64-linux-gnu.so"));
        assert!(!is_recorder("/venv/site-packages/other/_native.cpython-311.so"));
        assert!(!is_recorder("_native.so"));
    }

    #[test]
    fn names_lose_parameters_and_the_compilers_endings() {
        let cases = [
            ("nap", "nap"),
            ("nap.constprop.0", "nap"),
            ("shop::price(int, char const*)", "shop::price"),
            ("(anonymous namespace)::nap(void (*)(int)) const", "(anonymous namespace)::nap"),
            ("shop::Cart::operator()(int)", "shop::Cart::operator()"),
            ("sick::price::{{closure}}", "sick::price::{{closure}}"),
            ("<sick::A as sick::B>::run", "<sick::A as sick::B>::run"),
            ("()", "()"),
            ("", ""),
        ];
        for (name, wanted) in cases {
            assert_eq!(clean(name), wanted);
        }
    }

    #[test]
    fn the_languages_own_functions_and_the_systems_libraries_are_known() {
        assert!(is_runtime("<core::iter::Map as X>::next") && is_runtime("std::thread::sleep"));
        assert!(!is_runtime("stdout_writer::run") && !is_runtime("billy::core::run"));
        assert!(
            is_system("/usr/lib/x86_64-linux-gnu/libc.so.6") && !is_system("/usr/lib/billy/run")
        );
        assert!(!is_system("/srv/lib/libbilly.so"));
        assert!(is_interpreter("/usr/bin/python3.11") && is_interpreter("/l/libpython3.12.so.1.0"));
        assert!(!is_interpreter("/srv/python-billy") && !is_interpreter("/l/_zlib.cpython-311.so"));
    }
}
