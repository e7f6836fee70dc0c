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
//! atomics, plain memory, and syscalls. There is no way to take a registration back; a function
//! registered must stay callable as long as the library is loaded.

use std::io;

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
