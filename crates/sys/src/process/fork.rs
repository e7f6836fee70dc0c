//! Fork hooks: functions of ours that the C library calls around every `fork()`.
//!
//! How it works: `pthread_atfork`. `prepare` runs in the forking thread before the fork, `parent`
//! and `child` in it right after, each in its own process and before `fork()` returns, so before
//! any code of the host. `prepare` functions run in the reverse order of registration, the others
//! in order. A NULL is allowed for each, here as `None`.
//!
//! What it promises: a child made by `fork()` (also Python's `os.fork` and multiprocessing) has run
//! `child` before anything else. What it does not: `vfork`, `posix_spawn`, `clone` and raw
//! syscalls run no hooks. The first two share our memory only until they exec, which the kernel
//! undoes for us: our descriptors close on exec.
//!
//! What a `child` function may do: only the forking thread exists, and any lock may be held by a
//! thread that is gone, the allocator's included unless it has hooks of its own (glibc's has). So:
//! atomics, plain memory, and syscalls. A registration cannot be taken back; a registered function
//! must stay callable as long as the library is loaded.
//!
//! `Mark` needs no hook: it is a page that the kernel gives to each child empty, so it also detects
//! children made by a raw `clone`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// A hook: no arguments, must not unwind.
pub type Hook = extern "C" fn();

/// Registers the three hooks. Call once a process: every call adds another set, and a child keeps
/// the sets of its parent. Errors: ENOMEM.
pub fn register(
    prepare: Option<Hook>,
    parent: Option<Hook>,
    child: Option<Hook>,
) -> io::Result<()> {
    fn raw(hook: Option<Hook>) -> Option<unsafe extern "C" fn()> {
        hook.map(|hook| hook as unsafe extern "C" fn())
    }
    // SAFETY: the functions are safe ones with the C ABI and live as long as this code is loaded;
    // glibc drops the hooks of a library that is unloaded.
    let error = unsafe { libc::pthread_atfork(raw(prepare), raw(parent), raw(child)) };
    match error {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Whether this is still the process it was made in. Costs one load where the kernel can wipe a
/// page in forked children (Linux 4.14); else `getpid`, a system call.
#[derive(Debug)]
pub struct Mark {
    pid: libc::pid_t,
    /// Null: the kernel cannot.
    page: *mut AtomicU64,
}

// SAFETY: the page belongs to the value alone and is unmapped by its drop, on whichever thread.
unsafe impl Send for Mark {}
// SAFETY: the page is an atomic, stored once before `new` returns and only loaded behind that; the
// kernel wipes it in a child, which has one thread. Unmapping it by `&self` would break it.
unsafe impl Sync for Mark {}

/// What `mmap` gives at the least.
const PAGE: usize = 4096;

impl Mark {
    /// A mark of this process. Takes a page of memory.
    pub fn new() -> Mark {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0) };
        let pid = std::process::id() as libc::pid_t;
        if at == libc::MAP_FAILED {
            return Mark { pid, page: std::ptr::null_mut() };
        }
        // From here on the page is unmapped with the value.
        let mark = Mark { pid, page: at.cast() };
        // SAFETY: exactly the page just mapped; it is empty, so that wiping it loses nothing.
        if unsafe { libc::madvise(at, PAGE, libc::MADV_WIPEONFORK) } != 0 {
            drop(mark);
            return Mark { pid, page: std::ptr::null_mut() };
        }
        // SAFETY: the page is mapped, zeroed and aligned, and stays so for as long as `mark` lives.
        unsafe { &*mark.page }.store(1, Ordering::Relaxed);
        mark
    }

    /// The process it was made in.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// False in a child that was left this value by a fork.
    pub fn is_here(&self) -> bool {
        match self.page.is_null() {
            // SAFETY: no arguments, no memory.
            true => unsafe { libc::getpid() == self.pid },
            // SAFETY: see `new`; a child has the mapping as well, empty.
            false => unsafe { &*self.page }.load(Ordering::Relaxed) != 0,
        }
    }
}

impl Default for Mark {
    fn default() -> Mark {
        Mark::new()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.page.is_null() {
            // SAFETY: exactly the page mapped by `new`; no reference outlives `self`.
            unsafe { libc::munmap(self.page.cast(), PAGE) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_its_processs_alone() {
        for without_page in [false, true] {
            let pid = std::process::id() as libc::pid_t;
            let mark = match without_page {
                true => Mark { pid, page: std::ptr::null_mut() },
                false => Mark::new(),
            };
            assert!(mark.is_here());
            // SAFETY: the child only loads, asks for its id and ends; it takes no lock.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends the child without running anything of the test's.
                unsafe { libc::_exit(i32::from(mark.is_here())) };
            }
            let mut status = -1;
            // SAFETY: waits for the child just made; the number is ours.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child took itself for its parent");
            assert!(mark.is_here());
        }
    }
}
