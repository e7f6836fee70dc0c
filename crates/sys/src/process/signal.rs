//! SIGUSR2 as a request, where the program does not use it; and ending a group of processes.
//!
//! How it works: the handler stores one flag, which a later call finds and clears. What it
//! promises: a program's own handler, or its choice to ignore the signal, is never replaced; a
//! handler that it installs later replaces ours. Interrupted calls are restarted (SA_RESTART) where
//! the kernel can.

use std::sync::atomic::{AtomicBool, Ordering};

/// Raised by the handler. Relaxed: it orders nothing else.
static RAISED: AtomicBool = AtomicBool::new(false);

extern "C" fn raise(_signal: libc::c_int) {
    RAISED.store(true, Ordering::Relaxed);
}

/// The handler of SIGUSR2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// Ours.
    Ours,
    /// None: the signal would end the process.
    Nobody,
    /// The program has a handler, or ignores it.
    Program,
}

/// Whether a signal that requests an end (TERM, INT, HUP), raised by the calling thread now, would
/// end this process: it is not handled, ignored or blocked. Two system calls.
pub fn ends_this_process(signal: libc::c_int) -> bool {
    if ![libc::SIGTERM, libc::SIGINT, libc::SIGHUP].contains(&signal) {
        return false;
    }
    // SAFETY: all zeroes is a valid sigaction and a valid set; NULL for the new value only reads,
    // and the old values are written into places of ours.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now) == 0
            && now.sa_sigaction == libc::SIG_DFL
            && libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut blocked) == 0
            && libc::sigismember(&blocked, signal) == 0
    }
}

/// The handler of SIGUSR2 now. A syscall.
pub fn usr2_handler() -> Handler {
    // SAFETY: all zeroes is a valid sigaction; asking changes nothing.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: NULL for the new action is allowed; `now` is ours and whole.
    let asked = unsafe { libc::sigaction(libc::SIGUSR2, std::ptr::null(), &mut now) };
    match now.sa_sigaction {
        _ if asked != 0 => Handler::Program,
        at if at == raise as *const () as usize => Handler::Ours,
        libc::SIG_DFL => Handler::Nobody,
        _ => Handler::Program,
    }
}

/// Installs our handler of SIGUSR2 if there is none, for the life of the process; a request raised
/// before is forgotten. Returns whether the handler is ours then. A handler that the program
/// installs between the check and our installation could be lost; a program starts us before its
/// threads.
pub fn take_usr2() -> bool {
    RAISED.store(false, Ordering::Relaxed);
    if usr2_handler() != Handler::Nobody {
        return usr2_handler() == Handler::Ours;
    }
    // SAFETY: all zeroes is a valid sigaction with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = raise as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: `raise` has the type of a handler, touches one atomic only, and stays loaded.
    unsafe { libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()) == 0 }
}

/// Whether the signal came since the last call.
pub fn usr2_came() -> bool {
    RAISED.load(Ordering::Relaxed) && RAISED.swap(false, Ordering::Relaxed)
}

/// Ends all processes of a group. An error (there is none any more) is no matter.
pub fn kill_group(group: u32) {
    if let Ok(group @ 2..) = i32::try_from(group) {
        // SAFETY: no pointers; a group of 2 or more is never "everybody".
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: the signal is the process's.
    #[test]
    fn the_signal_is_handled_only_if_the_program_does_not() {
        // SAFETY: SIG_IGN is a valid disposition.
        unsafe { libc::signal(libc::SIGUSR2, libc::SIG_IGN) };
        assert!(!take_usr2() && usr2_handler() == Handler::Program);
        // SAFETY: SIG_DFL is a valid disposition.
        unsafe { libc::signal(libc::SIGUSR2, libc::SIG_DFL) };
        assert!(take_usr2() && take_usr2() && usr2_handler() == Handler::Ours);
        assert!(!usr2_came());
        // SAFETY: the handler is ours.
        unsafe { libc::raise(libc::SIGUSR2) };
        assert!(usr2_came() && !usr2_came());
    }
}
