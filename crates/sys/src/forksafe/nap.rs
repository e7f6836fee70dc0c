//! A sleep of a background thread that others may cut short.
//!
//! How it works: one word, 1 while a thread sleeps, which the kernel waits on (a private futex). A
//! thread that wakes the sleeper loads the word and, if it is set, resets it and makes the kernel
//! wake the sleeper.
//!
//! ```text
//!   sleep_unless   store 1 | fence | due? | wait while 1
//!   wake_for_due             makes it due | fence | load: 1? | store 0, wake
//! ```
//!
//! What it promises: `wake` costs one load while no thread sleeps, and 2-5 us for the call that
//! ends a sleep; it takes no lock and is async-signal-safe. No sleep is longer than requested.
//! A thread that makes it due and then wakes is never missed: either it sees the sleeper, or the
//! sleeper sees that it is due. For that, `wake` needs a SeqCst read-modify-write as what makes it
//! due, which on x86-64 costs no more than a relaxed one; `wake_for_due` has a barrier of its own.

#[cfg(all(loom, test))]
use loom::sync::atomic::{fence, AtomicU32, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{fence, AtomicU32, Ordering};
use std::time::Duration;

/// Where one thread sleeps.
#[derive(Debug, Default)]
pub struct Nap {
    /// Stored by the sleeper and by the thread that wakes it: SeqCst, or ordered by the fences
    /// shown above. Loaded by each thread that has something to wake the sleeper for.
    word: AtomicU32,
    #[cfg(all(loom, test))]
    kernel: model::Kernel,
}

impl Nap {
    /// No sleeper.
    #[cfg(not(all(loom, test)))]
    pub const fn new() -> Nap {
        Nap { word: AtomicU32::new(0) }
    }

    /// Sleeps for `longest` at most. True: it was woken.
    pub fn sleep(&self, longest: Duration) -> bool {
        self.sleep_unless(longest, || false)
    }

    /// The same; not at all if it is `due`, which counts as woken. For a `wake` it must be loaded
    /// with SeqCst.
    pub fn sleep_unless(&self, longest: Duration, due: impl FnOnce() -> bool) -> bool {
        let begin_ns = crate::clock::now_ns();
        self.word.store(1, Ordering::SeqCst);
        // SeqCst: pairs with `wake_for_due`. Of the two fences one is first: behind the other one
        // the word, or what makes it due, is seen. So it is with `wake`, whose two operations and
        // ours are in one order.
        fence(Ordering::SeqCst);
        if due() {
            self.word.store(0, Ordering::SeqCst);
            return true;
        }
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

    /// Whether a thread sleeps here: a hint.
    pub fn has_sleeper(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    #[cfg(not(all(loom, test)))]
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

    /// Ends a sleep, if there is one. Behind a SeqCst read-modify-write that makes it due, the
    /// sleep ends, or does not begin.
    #[inline]
    pub fn wake(&self) {
        // In the model a fence: loom takes SeqCst of single operations for acquire and release.
        #[cfg(all(loom, test))]
        fence(Ordering::SeqCst);
        self.wake_seen();
    }

    #[inline]
    fn wake_seen(&self) {
        // SeqCst: see `wake`.
        if self.word.load(Ordering::SeqCst) != 0 {
            self.wake_now();
        }
    }

    /// The same, behind any store that makes it due. Costs a barrier (5-20 ns).
    #[inline]
    pub fn wake_for_due(&self) {
        // SeqCst: pairs with `sleep_unless`.
        fence(Ordering::SeqCst);
        self.wake_seen();
    }

    #[cold]
    fn wake_now(&self) {
        if self.word.swap(0, Ordering::SeqCst) != 0 {
            self.wake_sleeper();
        }
    }

    #[cfg(not(all(loom, test)))]
    fn wake_sleeper(&self) {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word is ours and aligned, so the call does not fail, nor touch a handler's
        // errno.
        unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), wake, 1) };
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
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
    #[test]
    fn a_sleep_does_not_begin_when_it_is_due() {
        let nap = Nap::new();
        assert!(nap.sleep_unless(Duration::from_secs(600), || true));
        assert!(!nap.has_sleeper());
    }
}

/// Under loom the kernel's list of waiters is a lock and a condition, without timeouts: a wake-up
/// that is lost is a deadlock, which loom reports.
#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};

    #[derive(Debug, Default)]
    pub(super) struct Kernel {
        list: Mutex<()>,
        woken: Condvar,
    }

    impl Nap {
        pub(super) fn wait(&self, _: Duration) -> libc::c_long {
            let list = self.kernel.list.lock().expect("no panic");
            if self.word.load(Ordering::SeqCst) == 1 {
                drop(self.kernel.woken.wait(list));
            }
            0
        }

        pub(super) fn wake_sleeper(&self) {
            let list = self.kernel.list.lock().expect("no panic");
            self.kernel.woken.notify_one();
            drop(list);
        }
    }

    /// A sleeper, and a thread that makes it due and wakes it, in every order.
    fn sleeps_until_due(load: Ordering, make_due_and_wake: fn(&AtomicU32, &Nap)) {
        loom::model(move || {
            let shared = Arc::new((Nap::default(), AtomicU32::new(0)));
            let waker = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || make_due_and_wake(&shared.1, &shared.0))
            };
            let (nap, fact) = &*shared;
            assert!(nap.sleep_unless(Duration::from_secs(1 << 40), || fact.load(load) == 1));
            waker.join().expect("no panic");
        });
    }

    #[test]
    fn a_wake_up_for_what_is_due_is_never_lost() {
        sleeps_until_due(Ordering::Relaxed, |fact, nap| {
            fact.store(1, Ordering::Relaxed);
            nap.wake_for_due();
        });
    }

    #[test]
    fn nor_one_behind_a_read_modify_write() {
        sleeps_until_due(Ordering::SeqCst, |fact, nap| {
            fact.fetch_add(1, Ordering::SeqCst);
            nap.wake();
        });
    }

    /// The model has the fault that fence and order are for.
    #[test]
    #[should_panic(expected = "deadlock")]
    fn without_them_it_may_be_lost() {
        sleeps_until_due(Ordering::Relaxed, |fact, nap| {
            fact.store(1, Ordering::Relaxed);
            nap.wake_seen();
        });
    }
}
