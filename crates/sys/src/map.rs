//! Shared memory as a slice of atomic words.
//!
//! What it promises: a mapping is always zeroed at creation and always fully backed. Space in a
//! memory file system is reserved before the first store (`posix_fallocate`), since a store into a
//! file that cannot grow raises SIGBUS and would kill the host. Where no file can be made,
//! anonymous memory is used; it dies with the process.
//!
//! Mappings are never unmapped: writers on other threads may hold the slice. A freshly forked child
//! maps empty memory over its parent's.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Maps `bytes` of a new file at `path` (mode 0600, must not exist). Reserves all of it first.
/// Errors: the file cannot be made, or the file system has no room (ENOSPC).
/// Also EFBIG when this process may not write files that large: asking would raise SIGXFSZ.
pub fn create(path: &Path, bytes: usize) -> io::Result<&'static [AtomicU64]> {
    if file_size_limit() < bytes as u64 {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    let mapped = reserve(&file, bytes).and_then(|()| map(Some(&file), bytes));
    if mapped.is_err() {
        let _ = std::fs::remove_file(path);
    }
    mapped
}

/// Maps `bytes` of anonymous zeroed memory, private to this process.
pub fn anonymous(bytes: usize) -> io::Result<&'static [AtomicU64]> {
    map(None, bytes)
}

/// Makes the pages of a part of a mapping present before a thread stores into them: otherwise a
/// first store costs 1-3 us. Cost: the same, here. False: the kernel (before 5.14) cannot.
pub fn populate(words: &'static [AtomicU64]) -> bool {
    const POPULATE_WRITE: i32 = 23;
    const PAGE: usize = 4096;
    let begin = (words.as_ptr() as usize).next_multiple_of(PAGE);
    let end = (words.as_ptr() as usize + size_of_val(words)) & !(PAGE - 1);
    // SAFETY: whole pages inside a mapping that we made and never unmap; their content stays.
    end <= begin || unsafe { libc::madvise(begin as *mut _, end - begin, POPULATE_WRITE) } == 0
}

/// In a forked child: maps fresh private memory over its parent's mapping. The parent's records are
/// out of reach, and a record that the fork interrupted (it came from a signal handler) ends in
/// memory that is never read. Async-signal-safe.
///
/// # Safety
/// Call only in a child right after fork, where the caller is the only thread.
pub unsafe fn replace_after_fork(words: &'static [AtomicU64]) {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let (at, bytes) = (words.as_ptr() as *mut _, size_of_val(words));
    // SAFETY: the slice is exactly one mapping made by `map`; the new one has its place, size and
    // rights, so the slice stays valid. There is no other thread that could be reading.
    unsafe { libc::mmap(at, bytes, protection, flags, -1, 0) };
}

/// RLIMIT_FSIZE, the largest file this process may write.
fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours. The call fails only for a limit that does not exist.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    // SAFETY: plain call on a descriptor we own; returns the error number instead of setting errno.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

fn map(file: Option<&File>, bytes: usize) -> io::Result<&'static [AtomicU64]> {
    let (flags, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `at` is page-aligned, `bytes` long, zeroed (new file or anonymous), and stays mapped
    // for the life of the process (see `release`). All access goes through atomics, so sharing it
    // between threads, and with other processes that map the same file, is free of data races.
    Ok(unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), bytes / size_of::<u64>()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_is_stored_in_a_file_mapping_is_in_the_file() {
        let path = std::env::temp_dir().join(format!("dashcam-map-{}", std::process::id()));
        let words = create(&path, 8192).expect("temp dir is writable");
        words[5].store(0x1122, Relaxed);
        let bytes = std::fs::read(&path).expect("readable");
        std::fs::remove_file(&path).expect("removable");
        assert_eq!(bytes.len(), 8192);
        assert_eq!(bytes[40..42], [0x22, 0x11]);
    }
}
