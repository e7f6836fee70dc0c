//! A function of ours at the process's end: `atexit`.
//!
//! What it promises: it runs once, when `main` returns or `exit` is called, while the host's other
//! threads may still run. It does not run after `_exit`, a signal's death, or an abort.

/// Registers `last`. Call once a process; forked children keep the registration. False: the C
/// library had no room.
pub fn at_exit(last: extern "C" fn()) -> bool {
    // SAFETY: `last` has the C ABI and no arguments, and a panic cannot leave it (`extern "C"`). It
    // must stay loaded until the end: code that owns a thread is never unloaded, and glibc runs the
    // handlers of a library that is.
    unsafe { libc::atexit(last) == 0 }
}
