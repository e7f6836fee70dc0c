//! `dashcam sql`: hands the query to `dashcam.sql` of the Python package that this command belongs
//! to.
//!
//! DuckDB is an extra of the Python package, not a part of this binary (it is fifty times its
//! size). The Python beside this binary is tried first, then the Python in PATH.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::read::{newest, USAGE};

/// The program for Python. The current folder is not searched for modules.
const CODE: &str = "\
import sys
sys.path = [p for p in sys.path if p]
try:
    from dashcam import sql
except ImportError:
    sys.exit(97)
sys.exit(sql.main(sys.argv[1:]))";
/// The exit code of a Python without a package dashcam with `sql` in it.
const NO_PACKAGE: i32 = 97;
/// The exit code that shells give to a command ended by a signal.
const SIGNALLED: u8 = 130;

/// Answers `query` from the capture at `path`, or the newest in that folder; `form` is table, json
/// or csv.
pub fn sql(path: &Path, query: &str, form: &str) -> ExitCode {
    let file = match path.is_dir() {
        true => match newest(path) {
            Ok(file) => file,
            Err(code) => return code,
        },
        false => path.to_owned(),
    };
    for python in pythons() {
        let mut command = Command::new(&python);
        command.arg("-c").arg(CODE).arg(form).arg(&file).arg(query);
        match command.status().map(|status| status.code()) {
            Ok(Some(NO_PACKAGE)) | Err(_) => (),
            Ok(Some(code)) => return ExitCode::from(u8::try_from(code).unwrap_or(USAGE)),
            Ok(None) => return ExitCode::from(SIGNALLED),
        }
    }
    eprintln!(
        "dashcam: sql: found no Python with the package dashcam beside {} nor as python3 in PATH; \
         wanted one: pip install 'dashcam[sql]'; or ask another engine: dashcam export {} --to \
         parquet -o FOLDER",
        std::env::current_exe().unwrap_or_default().display(),
        path.display()
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
