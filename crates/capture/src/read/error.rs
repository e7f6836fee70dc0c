//! Why a file cannot be read.

use std::fmt;

/// Why a file cannot be read at all.
#[derive(Debug)]
pub enum ReadError {
    /// The file could not be opened or read.
    Io(std::path::PathBuf, std::io::Error),
    /// Reading it broke off.
    Broken(std::io::Error),
    /// It is not a capture: what was found at its start.
    NotACapture(String),
    /// It is not a black box: what was found at its start.
    NotABox(String),
    /// It is a capture of another version of the format: its number.
    OtherVersion(u64),
    /// The parts without which nothing can be read are missing.
    NothingLeft(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            ReadError::Broken(error) => write!(f, "reading it broke off: {error}"),
            ReadError::NotACapture(found) => write!(
                f,
                "not a dashcam capture: begins with {found}, wanted \"DASHCAM 2\"; \
                 captures end in .dashcam, black boxes of killed processes need `dashcam recover`"
            ),
            ReadError::NotABox(found) if found.starts_with("DASHCAM ") => {
                f.write_str("no black box but a capture: `dashcam why` reads it as it is")
            }
            ReadError::NotABox(found) => {
                write!(f, "no black box, or one cut short: begins with {found:?}")
            }
            ReadError::OtherVersion(version) => write!(
                f,
                "a dashcam capture of format {version}, this dashcam reads format 2; \
                 read it with the dashcam that made it"
            ),
            ReadError::NothingLeft(what) => write!(f, "capture is damaged beyond reading: {what}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> ReadError {
        ReadError::Broken(error)
    }
}
