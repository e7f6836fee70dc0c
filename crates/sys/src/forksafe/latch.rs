//! An event that happens once, and that a thread waits for.
//!
//! How it works: one word, 0 until the event has happened, which the kernel waits on (a private
//! futex). The waiter loads the word before each wait, and the kernel compares it again, so an
//! event before or at the begin of the wait is not missed.
//!
//! What it promises: `wait` returns behind `open` and not before, and sees all stores before it.
//! No descriptor, no allocation; async-signal-safe. What it does not: a limit of time. A waiter
//! whose `open` another thread owes must not become a child's by a fork, in which that thread does
//! not exist: only its own thread could fork it, in a handler of a signal, so it blocks them.
//!
//! Missing on purpose: closing it again.

use std::sync::atomic::{AtomicU32, Ordering};

/// The event.
#[derive(Debug)]
pub struct Latch {
    /// Written once, by `open`; its release pairs with the acquire of `wait`.
    word: AtomicU32,
}

impl Latch {
    /// It has not happened.
    pub const fn new() -> Latch {
        Latch { word: AtomicU32::new(0) }
    }

    /// It has happened: waiters go on.
    pub fn open(&self) {
        self.word.store(1, Ordering::Release);
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel uses the word's address as a name only.
        unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), wake, i32::MAX) };
    }

    /// Waits until it has happened.
    pub fn wait(&self) {
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        let no_limit = std::ptr::null::<libc::timespec>();
        while self.word.load(Ordering::Acquire) == 0 {
            // SAFETY: the kernel reads the word, which outlives the call.
            let answer =
                unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), wait, 0, no_limit) };
            if answer != 0 {
                // It happened meanwhile, or a signal came. Without futexes (a seccomp profile) this
                // is all that waits.
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_wait_returns_behind_the_event_and_at_once_from_then_on() {
        static LATCH: Latch = Latch::new();
        static HAS_HAPPENED: AtomicBool = AtomicBool::new(false);
        let waiter = || {
            LATCH.wait();
            HAS_HAPPENED.load(Ordering::Relaxed)
        };
        let waiters = [(); 3].map(|()| std::thread::spawn(waiter));
        HAS_HAPPENED.store(true, Ordering::Relaxed);
        LATCH.open();
        for one in waiters {
            assert!(one.join().expect("ends"));
        }
        assert!(waiter());
    }
}
