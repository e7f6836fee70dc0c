//! A sleep of a background thread that others may cut short.
//!
//! How it works: one word, 1 while a thread sleeps, which the kernel waits on (a private futex). A
//! thread that wakes the sleeper loads the word and, if it is set, resets it and makes the kernel
//! wake the sleeper.
//!
//! What it promises: `wake` costs one relaxed load while no thread sleeps, and 2-5 us for the call
//! that ends a sleep; it takes no lock and is async-signal-safe. No sleep is longer than requested.
//! What it does not: a `wake` at the very moment in which a sleep begins may be missed, since a
//! barrier on each `wake` would cost more than the whole call; the sleep then takes its full time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Where one thread sleeps.
#[derive(Debug, Default)]
pub struct Nap {
    word: AtomicU32,
}

impl Nap {
    /// No sleeper.
    pub const fn new() -> Nap {
        Nap { word: AtomicU32::new(0) }
    }

    /// Sleeps for `longest` at most. True: it was woken.
    pub fn sleep(&self, longest: Duration) -> bool {
        let begin_ns = crate::clock::now_ns();
        self.word.store(1, Ordering::SeqCst);
        loop {
            let slept = Duration::from_nanos(crate::clock::now_ns().saturating_sub(begin_ns));
            let rest = longest.checked_sub(slept).filter(|rest| !rest.is_zero());
            let Some(rest) = rest else { return self.word.swap(0, Ordering::SeqCst) == 0 };
            let answer = self.wait(rest);
            if self.word.load(Ordering::SeqCst) == 0 {
                return true;
            }
            // A signal, or the time is over: checked again. Else a kernel without futexes.
            if answer == 0 || matches!(errno(), libc::EINTR | libc::EAGAIN | libc::ETIMEDOUT) {
                continue;
            }
            crate::thread::pause_for(rest);
        }
    }

    fn wait(&self, rest: Duration) -> libc::c_long {
        let limit = libc::timespec {
            tv_sec: rest.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: rest.subsec_nanos().into(),
        };
        let none: *const u32 = std::ptr::null();
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel reads the word and the time, both of which outlive the call.
        unsafe {
            libc::syscall(libc::SYS_futex, self.word.as_ptr(), wait, 1, &raw const limit, none, 0)
        }
    }

    /// Ends a sleep, if there is one.
    #[inline]
    pub fn wake(&self) {
        // Relaxed: see above.
        if self.word.load(Ordering::Relaxed) != 0 {
            self.wake_now();
        }
    }

    #[cold]
    fn wake_now(&self) {
        if self.word.swap(0, Ordering::SeqCst) == 0 {
            return;
        }
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is ours and aligned, so the call does not fail, nor touch a handler's
        // errno.
        unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), wake, 1) };
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_sleep_ends_when_it_is_woken_and_not_before() {
        let nap = Arc::new(Nap::new());
        nap.wake();
        assert!(!nap.sleep(Duration::from_millis(5)), "a wake before it is not kept");
        let sleeper = {
            let nap = Arc::clone(&nap);
            std::thread::spawn(move || nap.sleep(Duration::from_secs(600)))
        };
        while !sleeper.is_finished() {
            nap.wake();
            std::thread::yield_now();
        }
        assert!(sleeper.join().expect("no panic"));
    }
}
