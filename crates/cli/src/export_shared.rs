//! What exports to one file and to a folder of tables share: the capture, and the errors.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capture::read::Capture;

use crate::exit_code::USAGE;
use crate::read;

/// Opens the capture, and reports its damage on stderr.
pub fn open(path: &Path) -> Result<(PathBuf, Capture), ExitCode> {
    let (file, capture) = read::open(path)?;
    for what in &capture.damage {
        eprintln!("dashcam: {}: {what}; what is whole is exported", file.display());
    }
    Ok((file, capture))
}

/// `--value` with a format that does not use it.
pub fn refuse_value(format: &str) -> ExitCode {
    eprintln!(
        "dashcam: --value: {format} holds every value already; it is for folded and speedscope"
    );
    ExitCode::from(USAGE)
}

/// The error for a target that cannot be written.
pub fn not_written(target: &str, error: &io::Error) -> ExitCode {
    eprintln!(
        "dashcam: cannot write {target}: {error}; give another place with -o; nothing half is left"
    );
    ExitCode::from(USAGE)
}
