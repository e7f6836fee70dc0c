//! `dashcam export --to parquet` of a build without Parquet: it says so.

use std::path::Path;
use std::process::ExitCode;

use crate::export::shared::Asked;
use crate::output::exit_code::USAGE;

/// Refuses.
pub fn export(_path: &Path, _asked: Asked, _output: Option<&Path>) -> ExitCode {
    eprintln!(
        "dashcam: --to parquet: found a build without Parquet, as the demo's; wanted that of `make setup`"
    );
    ExitCode::from(USAGE)
}
