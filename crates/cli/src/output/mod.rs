//! Writing the file that the user named.

pub(crate) mod columns;
pub(crate) mod exit_code;
pub(crate) mod pages;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod terminal;

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use sys::whole_file::WholeFile;

/// Fills the file `target`: it is there whole or not at all, even after an interruption. A device
/// or a named pipe is written to directly, and never replaced by a file. Errors: those of `fill`,
/// and of the target; a folder is refused.
pub fn write<T>(
    target: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    if fs::metadata(target).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let mut out =
            BufWriter::with_capacity(1 << 20, OpenOptions::new().write(true).open(target)?);
        let filled = fill(&mut out)?;
        out.flush()?;
        return Ok(filled);
    }
    let mut out = BufWriter::with_capacity(1 << 20, WholeFile::create(target)?);
    let filled = fill(&mut out)?;
    out.into_inner().map_err(|error| error.into_error())?.keep()?;
    Ok(filled)
}

/// Whether both are one file that exists.
pub fn same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
