//! The owner of a file, as far as its path alone shows.

/// The owner of a frame's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The service itself.
    User,
    /// An installed package.
    Library,
    /// The interpreter's library, frozen modules, generated code without a file.
    Runtime,
    /// dashcam's own hooks.
    Dashcam,
}

/// Packages whose functions are locks and executors: a wait in them is their caller's.
const NATIVE_WAITING: [&str; 7] =
    ["parking_lot", "lock_api-", "crossbeam-", "tokio-", "futures-", "async-std-", "mio-"];

/// Where Rust's own library was built from: its sources, and packages inside of it (its maps).
const RUST_LIBRARY: [&str; 3] = ["/rustc/", "/rust/deps/", "/rust/library/"];

/// The libraries every C, C++ or Rust program runs on.
const C_RUNTIME: [&str; 10] = [
    "libc.so",
    "libc-",
    "ld-linux",
    "libpthread",
    "libm.so",
    "libdl.so",
    "librt.so",
    "libgcc_s",
    "libstdc++",
    "ld-musl",
];

/// The owner of a file of native code, as far as its path shows: a source, or the binary itself.
pub(super) fn native_owner(file: &str) -> Option<Owner> {
    let base = file.rsplit('/').next().unwrap_or(file);
    let begins = |names: &[&str]| names.iter().any(|name| base.starts_with(name));
    let package = cargo_package(file);
    if base.starts_with("libdashcam.so") {
        Some(Owner::Dashcam)
    } else if RUST_LIBRARY.iter().any(|folder| file.starts_with(folder))
        || file.contains("/rustlib/src/rust/")
        || file.contains("/include/c++/")
        || is_cpython(file)
    {
        Some(Owner::Runtime)
    } else if let Some(package) = package {
        Some(if waits_for_others(package) { Owner::Runtime } else { Owner::Library })
    } else if base.contains(".so") && begins(&C_RUNTIME) {
        Some(Owner::Runtime)
    } else if base.contains(".so") && (file.starts_with("/lib") || file.starts_with("/usr/")) {
        Some(Owner::Library)
    } else {
        None
    }
}

/// Whether a file is one of CPython's own sources, as debug information of an interpreter that was
/// built on this machine names them: `/tmp/python-build.1/Python-3.11.7/./Modules/timemodule.c`.
fn is_cpython(file: &str) -> bool {
    const FOLDERS: [&str; 6] = ["Include", "Modules", "Objects", "Parser", "Programs", "Python"];
    let mut parts = file.split('/').filter(|part| *part != ".");
    let is_release = |part: &str| {
        let number = part.strip_prefix("Python-").or_else(|| part.strip_prefix("python-"));
        number.is_some_and(|number| number.starts_with("3."))
    };
    parts.any(is_release) && parts.next().is_some_and(|folder| FOLDERS.contains(&folder))
}

/// The package of Rust's that a file is of, with its version: `tokio-1.54.1`. Wherever cargo's home
/// is, it unpacks packages in `registry/src/INDEX` and repositories in `git/checkouts`.
pub(super) fn cargo_package(file: &str) -> Option<&str> {
    let registry = file.split_once("/registry/src/").and_then(|(_, rest)| rest.split('/').nth(1));
    registry.or_else(|| file.split_once("/git/checkouts/")?.1.split('/').next())
}

fn waits_for_others(package: &str) -> bool {
    NATIVE_WAITING.iter().any(|name| package.starts_with(name))
}

/// Whether a file is of a package whose functions are locks and executors.
pub(super) fn is_waiting_package(file: &str) -> bool {
    cargo_package(file).is_some_and(waits_for_others)
}

/// Whether a file is none: `<frozen …>`, `<string>`, `<attrs generated …>`, code that a library
/// compiled itself. Such code has no lines to read; its caller has lines. What was typed at a
/// prompt is the user's.
pub(super) fn is_generated(file: &str) -> bool {
    const TYPED: [&str; 4] = ["<stdin", "<console", "<python-input", "<ipython-input"];
    file.starts_with('<') && file.ends_with('>') && !TYPED.iter().any(|name| file.starts_with(name))
}

/// Whether native code is SQLite's: its library, a source, or Python's module with it inside.
pub(super) fn is_sqlite(file: &str) -> bool {
    let base = file.rsplit('/').next().unwrap_or(file);
    ["libsqlite3.", "sqlite3.c", "_sqlite3."].iter().any(|name| base.starts_with(name))
}

/// Whether a file is of a package's folder, or is the module of one file.
pub(super) fn is_of(file: &str, package: &str) -> bool {
    is_under(file, package) || file.strip_suffix(".py") == Some(package)
}

pub(super) fn is_under(file: &str, dir: &str) -> bool {
    let dir = dir.trim_end_matches('/');
    !dir.is_empty() && file.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_files_belong_to_the_runtime_a_library_or_nobody_known() {
        let cases = [
            ("/rustc/59807616e/library/std/src/thread/mod.rs", Some(Owner::Runtime)),
            ("/rust/deps/hashbrown-0.16.1/src/raw/mod.rs", Some(Owner::Runtime)),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", Some(Owner::Runtime)),
            ("/usr/lib/x86_64-linux-gnu/libpq.so.5", Some(Owner::Library)),
            ("/usr/include/c++/12/bits/std_mutex.h", Some(Owner::Runtime)),
            ("/h/.cargo/registry/src/index-1/redis-0.9.1/src/lib.rs", Some(Owner::Library)),
            ("/h/.cargo/registry/src/index-1/parking_lot-0.12.1/src/a.rs", Some(Owner::Runtime)),
            ("/usr/local/cargo/registry/src/i-1/hyper-1.9.0/src/lib.rs", Some(Owner::Library)),
            ("/usr/local/cargo/registry/src/i-1/mio-1.2.5/src/poll.rs", Some(Owner::Runtime)),
            ("/h/.cargo/git/checkouts/tokio-9f1c/3e2/tokio/src/lib.rs", Some(Owner::Runtime)),
            ("/srv/billy/registry/src.rs", None),
            ("/srv/lib/libdashcam.so.0", Some(Owner::Dashcam)),
            ("/tmp/python-build.1/Python-3.11.7/./Modules/timemodule.c", Some(Owner::Runtime)),
            ("/usr/local/src/conda/python-3.12.1/Python/ceval.c", Some(Owner::Runtime)),
            ("/srv/Python-3.11/app.py", None),
            ("/srv/Python-course/Modules/one.py", None),
            ("/srv/billy/src/main.rs", None),
            ("src/main.c", None),
        ];
        for (file, wanted) in cases {
            assert_eq!(native_owner(file), wanted, "{file}");
        }
    }
}
