//! Rows that wait in a file, for readers whose output is in another order than their input.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// A file that is gone when it is closed, readable by its owner only.
pub fn without_name() -> io::Result<File> {
    let folder = std::env::temp_dir();
    for number in 0u32.. {
        let path = folder.join(format!("dashcam-rows-{}-{number}", std::process::id()));
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(error) => {
                let text =
                    format!("{}: {error}; set TMPDIR to a folder for rows", folder.display());
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    Err(io::Error::other("no free name for a temporary file"))
}
