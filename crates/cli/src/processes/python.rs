//! Verbs that the Python package answers: `sql`, `fleet`, `ship`.
//!
//! How it works: DuckDB and what belongs to it are extras of the Python package, not a part of this
//! binary (they are fifty times its size). The Python beside this binary is tried first, then the
//! Python in PATH; the first one with the package has the arguments, stdin, stdout and stderr.
//!
//! What it promises: the exit code is that of the verb; Ctrl-C ends it without a traceback, also
//! while it is being loaded. The current folder is not searched for
//! modules. A verb that runs for long (`ship`) takes the place of this process: signals reach it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::output::exit_code::USAGE;

/// The exit code of a Python without the package, or with one that lacks the module.
const NO_PACKAGE: i32 = 97;
/// The exit code that shells give to a command ended by a signal.
const SIGNALLED: u8 = 130;

/// Calls a function of the package's module with these arguments. None: no Python has the module.
pub fn call(module: &str, function: &str, arguments: &[OsString]) -> Option<ExitCode> {
    let value = format!("{function}(sys.argv[1:])");
    for python in pythons() {
        match calling(&python, module, &value).args(arguments).status() {
            Err(_) => (),
            Ok(status) => match status.code() {
                Some(NO_PACKAGE) => (),
                Some(code) => return Some(ExitCode::from(u8::try_from(code).unwrap_or(USAGE))),
                None => return Some(ExitCode::from(SIGNALLED)),
            },
        }
    }
    None
}

/// Whether a Python has the package's module, and another one that it needs.
pub fn has(module: &str, needed: &str) -> bool {
    let value = format!("main and int(importlib.util.find_spec({needed:?}) is None)");
    pythons().iter().any(|python| {
        let mut command = calling(python, module, &value);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// Calls `main` in place of this process. Returns only if no Python has the module.
pub fn replace(module: &str, arguments: &[OsString]) {
    for python in pythons() {
        let has_it = calling(&python, module, "main and 0").status().is_ok_and(|s| s.success());
        if has_it {
            // Returns only if that fails; then the next one is tried.
            let _ = calling(&python, module, "main(sys.argv[1:])").args(arguments).exec();
        }
    }
}

/// A command that imports the module and exits with a value of it.
fn calling(python: &OsString, module: &str, value: &str) -> Command {
    let code = format!(
        "\
import importlib.util, sys
sys.path = [p for p in sys.path if p]
try:
    try:
        verb = importlib.import_module({module:?})
    except ImportError:
        sys.exit({NO_PACKAGE})
    sys.exit(verb.{value})
except KeyboardInterrupt:
    sys.exit({SIGNALLED})"
    );
    let mut command = Command::new(python);
    command.arg("-c").arg(code);
    command
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
