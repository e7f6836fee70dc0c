//! Shared memory as a slice of atomic words.
//!
//! How it works: a store into a page that its file system has no room for raises SIGBUS and would
//! kill the host. So no page is touched before it was made present. In a memory file system that
//! happens in steps (`populate`: `MADV_POPULATE_WRITE` returns an error where a store would raise
//! the signal), since each page that is present takes memory for as long as the file exists. In any
//! other file system, and before Linux 5.14, all of the file is reserved at its creation
//! (`posix_fallocate`): there a page that was present may need room again after it was written
//! back. Where no file can be made, anonymous memory is used; it dies with the process.
//!
//! What it promises: a mapping is zeroed at creation. Mappings are never unmapped: writers on other
//! threads may hold the slice. A freshly forked child maps empty memory over its parent's.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// A new mapping.
pub struct Mapped {
    /// Its memory.
    pub words: &'static [AtomicU64],
    /// Nothing of it may be touched before `populate` made it present. False: all may be.
    pub in_steps: bool,
}

/// Maps `bytes` of a new file at `path` (mode 0600, must not exist).
/// Errors: the file cannot be made, or the file system has no room (ENOSPC).
/// Also EFBIG when this process may not write files that large: asking would raise SIGXFSZ.
pub fn create(path: &Path, bytes: usize) -> io::Result<Mapped> {
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
    let mapped = map_file(&file, bytes);
    if mapped.is_err() {
        let _ = std::fs::remove_file(path);
    }
    mapped
}

fn map_file(file: &File, bytes: usize) -> io::Result<Mapped> {
    file.set_len(bytes as u64)?;
    let words = map(Some(file), bytes)?;
    let first = &words[..words.len().min(page() / size_of::<u64>())];
    let in_steps = is_in_memory(file)
        && match populate(first) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => false,
            Err(error) => return Err(error),
        };
    if !in_steps {
        reserve(file, bytes)?;
    }
    Ok(Mapped { words, in_steps })
}

/// Maps `bytes` of anonymous zeroed memory, private to this process: a page takes memory from the
/// first store into it.
pub fn anonymous(bytes: usize) -> io::Result<&'static [AtomicU64]> {
    map(None, bytes)
}

/// Makes the pages of a part of a mapping present, in memory and in its file: from here on a store
/// into them neither fails nor waits. Takes 0.2 to 1 us a page. Async-signal-safe.
/// Errors: ENOSPC when the file system has no room; ENOMEM; EINVAL: the kernel (before 5.14)
/// cannot.
pub fn populate(words: &'static [AtomicU64]) -> io::Result<()> {
    const POPULATE_WRITE: i32 = 23;
    let page = page();
    let begin = words.as_ptr() as usize & !(page - 1);
    let end = (words.as_ptr() as usize + size_of_val(words)).next_multiple_of(page);
    if end == begin {
        return Ok(());
    }
    loop {
        // SAFETY: whole pages of a mapping that we made and never unmap: it begins and ends with
        // whole pages, so rounding does not leave it. This advice keeps content; MADV_DONTNEED or
        // a slice of other memory, whose pages rounding could leave, would break it.
        if unsafe { libc::madvise(begin as *mut _, end - begin, POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // A signal came; what is present by now stays so.
            Some(libc::EINTR | libc::EAGAIN) => (),
            // Where a store would raise SIGBUS.
            Some(libc::EFAULT) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            _ => return Err(error),
        }
    }
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

/// Bytes of a page of this kernel: 4 KiB, of some on ARM 16 or 64. Async-signal-safe.
fn page() -> usize {
    // SAFETY: it reads a number that the C library has in memory.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
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

/// Whether a file lies in a memory file system, whose pages stay where they are.
fn is_in_memory(file: &File) -> bool {
    // SAFETY: zeros are a valid `statfs`, which the kernel fills.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor that we own, and a structure of ours.
    let known = unsafe { libc::fstatfs(file.as_raw_fd(), &mut found) } == 0;
    known && found.f_type == libc::TMPFS_MAGIC
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
    // for the life of the process (`replace_after_fork` puts other memory in its place). All access
    // goes through atomics, so sharing it between threads, and with other processes that map the
    // same file, is free of data races. A process that makes the file shorter would break it
    // (SIGBUS): its mode is 0600, and no code of ours does.
    Ok(unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), bytes / size_of::<u64>()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_is_stored_in_a_file_mapping_is_in_the_file() {
        let path = std::env::temp_dir().join(format!("dashcam-map-{}", std::process::id()));
        let words = create(&path, 8192).expect("temp dir is writable").words;
        words[5].store(0x1122, Relaxed);
        let bytes = std::fs::read(&path).expect("readable");
        std::fs::remove_file(&path).expect("removable");
        assert_eq!(bytes.len(), 8192);
        assert_eq!(bytes[40..42], [0x22, 0x11]);
    }

    /// Bytes that a file takes.
    fn taken(path: &Path) -> u64 {
        std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).expect("there")) * 512
    }

    #[test]
    fn a_file_in_memory_takes_what_was_populated() {
        let name = format!("dashcam-steps-{}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        let Ok(mapped) = create(&path, 4 << 20) else { return };
        if mapped.in_steps {
            let page = page() as u64;
            assert_eq!(taken(&path), page);
            populate(&mapped.words[131_072..262_144]).expect("a megabyte");
            assert_eq!(taken(&path), page + (1 << 20));
            // A part of a page is the whole page.
            let last = page as usize / size_of::<u64>();
            populate(&mapped.words[last - 1..last + 1]).expect("two pages");
            assert_eq!(taken(&path), 2 * page + (1 << 20));
        } else {
            assert_eq!(taken(&path), 4 << 20, "a kernel before 5.14");
        }
        std::fs::remove_file(&path).expect("removable");
    }
}
