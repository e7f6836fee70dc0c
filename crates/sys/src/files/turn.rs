//! A turn that processes take one after the other: the lock of a file (`flock`).
//!
//! How it works: the lock belongs to the open file, so a command that inherits the descriptor keeps
//! the turn until it ends, however it ends, also when the process that took it for the command has
//! ended before.
//!
//! What it promises: it never waits, and a file that cannot be had is an error, not a turn.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The turn; None: another process has it. The file is made if need be, mode 0600; a link in its
/// place is refused.
pub fn take(path: &Path) -> io::Result<Option<OwnedFd>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = OwnedFd::from(options.custom_flags(libc::O_NOFOLLOW).open(path)?);
    // SAFETY: the descriptor is ours; no memory is involved.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(Some(file)),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_taken_once_and_kept_by_each_copy_of_the_descriptor() {
        let path = std::env::temp_dir().join(format!("turn-{}", std::process::id()));
        let first = take(&path).expect("a file").expect("nobody has it");
        let copy = first.try_clone().expect("a descriptor");
        assert!(take(&path).expect("a file").is_none());
        drop(first);
        assert!(take(&path).expect("a file").is_none(), "the copy has it");
        drop(copy);
        assert!(take(&path).expect("a file").is_some());
        std::fs::remove_file(&path).expect("ours");
        std::os::unix::fs::symlink("/nonexistent/elsewhere", &path).expect("a link");
        assert!(take(&path).is_err(), "a link is not followed");
        std::fs::remove_file(&path).expect("ours");
        assert!(take(Path::new("/nonexistent/turn")).is_err());
    }
}
