//! Verbs that the Python package answers: `sql`, `fleet`.
//!
//! How it works: DuckDB and what belongs to it are extras of the Python package, not a part of this
//! binary (they are fifty times its size). The Python beside this binary is tried first, then the
//! Python in PATH; the first one with the package has the arguments, stdin, stdout and stderr.
//!
//! What it promises: the exit code is that of the verb. The current folder is not searched for
//! modules.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::exit_code::USAGE;

/// The exit code of a Python without the package, or with one that lacks the module.
const NO_PACKAGE: i32 = 97;
/// The exit code that shells give to a command ended by a signal.
const SIGNALLED: u8 = 130;

/// Calls `main` of the package's module with these arguments. None: no Python has the module.
pub fn main(module: &str, arguments: &[OsString]) -> Option<ExitCode> {
    let code = format!(
        "\
import importlib, sys
sys.path = [p for p in sys.path if p]
try:
    verb = importlib.import_module({module:?})
except ImportError:
    sys.exit({NO_PACKAGE})
sys.exit(verb.main(sys.argv[1:]))"
    );
    for python in pythons() {
        let mut command = Command::new(&python);
        command.arg("-c").arg(&code).args(arguments);
        match command.status().map(|status| status.code()) {
            Ok(Some(NO_PACKAGE)) | Err(_) => (),
            Ok(Some(code)) => return Some(ExitCode::from(u8::try_from(code).unwrap_or(USAGE))),
            Ok(None) => return Some(ExitCode::from(SIGNALLED)),
        }
    }
    None
}

/// Reports that no Python has the package; `wanted` is the remedy.
pub fn missing(verb: &str, wanted: &str) -> ExitCode {
    eprintln!(
        "dashcam: {verb}: found no Python with the package dashcam beside {} nor as python3 in \
         PATH; wanted one: {wanted}",
        std::env::current_exe().unwrap_or_default().display(),
    );
    ExitCode::from(USAGE)
}

/// The Pythons to try, in order.
fn pythons() -> Vec<OsString> {
    let folder = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let beside = folder.iter().flat_map(|f| ["python3", "python"].map(|name| f.join(name)));
    let beside = beside.filter(|p| p.exists()).take(1).map(PathBuf::into_os_string);
    beside.chain([OsString::from("python3")]).collect()
}
