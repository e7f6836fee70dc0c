//! A file that its owner holds for as long as it lives, and others can ask about.
//!
//! How it works: the owner's open file has a lock (`F_OFD_SETLK`), which the kernel gives back with
//! the last descriptor of it, however the owner ends. The question takes no lock (`F_OFD_GETLK`),
//! so that it keeps no owner from holding the file.
//!
//! What it promises: nothing waits. The answer holds across containers that share the file, where
//! numbers of processes mean nothing. Missing on purpose: the owner's identity.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Holds a file that is there until the last copy of the descriptor is closed. Errors: another
/// owner holds it, or the file system has no locks.
pub fn hold(path: &Path) -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    lock(&file, libc::F_OFD_SETLK, libc::F_WRLCK)?;
    Ok(file.into())
}

/// Whether somebody holds a file; false where that cannot be known.
pub fn is_held(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let found = options.open(path).and_then(|file| lock(&file, libc::F_OFD_GETLK, libc::F_RDLCK));
    found.is_ok_and(|in_the_way| in_the_way != libc::F_UNLCK)
}

/// The kind of lock that the kernel reports back.
fn lock(file: &File, command: i32, kind: i32) -> io::Result<i32> {
    // SAFETY: all zeroes is a valid `flock`: a lock of the whole file, and no process, as these
    // commands want it.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open, and the kernel reads and writes one `flock` of ours.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        0 => Ok(lock.l_type.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_held_by_one_owner_as_long_as_a_copy_of_the_descriptor_is_open() {
        let folder = testkit::Folder::new("held");
        let path = folder.path().join("box");
        assert!(hold(&path).is_err() && !is_held(&path), "no such file");
        std::fs::write(&path, "x").expect("a file");
        assert!(!is_held(&path));
        let owner = hold(&path).expect("nobody holds it");
        assert!(is_held(&path) && is_held(&path), "asking changes nothing");
        assert!(hold(&path).is_err(), "one owner");
        let copy = owner.try_clone().expect("a descriptor");
        drop(owner);
        assert!(is_held(&path));
        drop(copy);
        assert!(!is_held(&path) && hold(&path).is_ok());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(hold(&link).is_err(), "a link is not followed");
    }
}
