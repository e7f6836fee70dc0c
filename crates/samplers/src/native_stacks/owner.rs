//! The owner of a mapped file's code (interpreter, C library, dashcam, a library), by its name.

/// The libraries under every program: for code in them the caller matters.
const RUNTIME: [&str; 11] = [
    "ld-linux",
    "ld-musl",
    "libc-",
    "libc.so",
    "libdl.so",
    "libgcc_s",
    "libm.so",
    "libpthread",
    "librt.so",
    "libstdc++",
    "libdashcam.so",
];

/// Whether a path is that of a Python interpreter: the program or its library.
pub fn is_interpreter(path: &str) -> bool {
    let base = base(path);
    let version = base.strip_prefix("libpython").or_else(|| base.strip_prefix("python"));
    version.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a file, as `path TAB tag`, is a library that Python code may have called into: no part
/// of the interpreter, of the C library, or of this recorder.
pub fn is_library(text: &str) -> bool {
    let path = text.split('\t').next().unwrap_or(text);
    let own = path.contains("/dashcam/_native.");
    let runtime = || RUNTIME.iter().any(|name| base(path).starts_with(name));
    !own && !is_interpreter(path) && !runtime()
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_and_the_c_library_are_no_libraries_of_python_code() {
        for path in ["/usr/bin/python3.11", "/l/libpython3.13.so.1.0", "/v/bin/python"] {
            assert!(is_interpreter(path) && !is_library(path), "{path}");
        }
        for path in ["/lib/x86_64-linux-gnu/libc.so.6\tbuild:1", "/v/dashcam/_native.abi3.so"] {
            assert!(!is_interpreter(path) && !is_library(path), "{path}");
        }
        for path in ["/l/lib-dynload/_sqlite3.cpython-311.so", "/srv/python-billy", "/l/libz.so.1"]
        {
            assert!(!is_interpreter(path) && is_library(path), "{path}");
        }
    }
}
