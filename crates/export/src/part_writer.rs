//! The interface of a format's writer to a capture that comes in parts.

use std::io;

use capture::read::Capture;

use crate::options::Progress;

/// What writes a format, one part of a capture after the other.
pub(crate) trait PartWriter {
    /// Writes what is of this part.
    fn part(&mut self, capture: &Capture, progress: &mut Progress<'_>) -> io::Result<()>;

    /// Writes the end of the file; `capture` is the last part, with the tables of all.
    fn finish(&mut self, capture: &Capture, progress: &mut Progress<'_>) -> io::Result<()>;
}
