//! A waker of async code that reports when it is cloned: a future that is not ready clones the
//! waker it is polled with, in the code that waits.
//!
//! How it works: `Context::from_waker` needs a `Waker`, and the safe way to make one
//! (`std::task::Wake`) has no hook for clones. This one is a borrowed object and a table of
//! functions, alive only for one poll; a clone is an ordinary waker that the object returns.
//!
//! What it promises: the program's futures see a waker as any other. Two of different polls are
//! never equal (`Waker::will_wake`) to a clone that is kept, so a future that waits clones anew in
//! each poll. Missing on purpose: what is done with a clone (`dashcam::api::watch`).

use std::mem::ManuallyDrop;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

/// What a poll's waker calls.
pub trait Clones: Sync {
    /// The waker was cloned: the clone, which may outlive the poll.
    fn cloned(&self) -> Waker;
    /// The task is to be polled again.
    fn wake(&self);
}

/// Calls `poll` with a waker that is cloned by `on`.
pub fn polled<T: Clones, R>(on: &T, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let data = std::ptr::from_ref(on).cast::<()>();
    // SAFETY: `data` points to `on`, which is borrowed until this function returns. The waker is
    // not given away: `poll` has it by reference, inside of a `Context` of a lifetime of its own,
    // and clones are other wakers. The functions of the table expect a `T`, and may be called on
    // any thread, since `T` is `Sync`.
    let waker = ManuallyDrop::new(unsafe { Waker::new(data, table::<T>()) });
    poll(&mut Context::from_waker(&waker))
}

fn table<T: Clones>() -> &'static RawWakerVTable {
    const {
        &RawWakerVTable::new(
            clone_of_poll::<T>,
            wake_by_reference::<T>,
            wake_by_reference::<T>,
            forget,
        )
    }
}

/// A frame of its own, whose name a reader finds: inside of it is the recorder's code, around it
/// the code that waits.
#[inline(never)]
unsafe fn clone_of_poll<T: Clones>(data: *const ()) -> RawWaker {
    // SAFETY: as in `polled`.
    let on = unsafe { &*data.cast::<T>() };
    let own = ManuallyDrop::new(on.cloned());
    // Its reference is given away, not dropped.
    RawWaker::new(own.data(), own.vtable())
}

unsafe fn wake_by_reference<T: Clones>(data: *const ()) {
    // SAFETY: as in `polled`.
    let on = unsafe { &*data.cast::<T>() };
    on.wake();
}

/// There is nothing to drop: the object is borrowed.
unsafe fn forget(_: *const ()) {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Kept(AtomicUsize);

    impl Wake for Kept {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Poll {
        kept: Arc<Kept>,
        clones: AtomicUsize,
        wakes: AtomicUsize,
    }

    impl Clones for Poll {
        fn cloned(&self) -> Waker {
            self.clones.fetch_add(1, Ordering::Relaxed);
            Waker::from(Arc::clone(&self.kept))
        }

        fn wake(&self) {
            self.wakes.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll() -> Poll {
        let kept = Arc::new(Kept(AtomicUsize::new(0)));
        Poll { kept, clones: AtomicUsize::new(0), wakes: AtomicUsize::new(0) }
    }

    #[test]
    fn clones_are_reported_and_live_on() {
        let on = poll();
        let clone = polled(&on, |cx| {
            assert!(!cx.waker().will_wake(&cx.waker().clone()));
            cx.waker().clone()
        });
        assert_eq!(on.clones.load(Ordering::Relaxed), 2);
        let second = clone.clone();
        clone.wake();
        second.wake_by_ref();
        drop(second);
        assert_eq!(on.clones.load(Ordering::Relaxed), 2, "a clone's clone is its own");
        assert_eq!(on.kept.0.load(Ordering::Relaxed), 2);
        assert_eq!(Arc::strong_count(&on.kept), 1, "each clone was dropped once");
    }

    #[test]
    fn a_task_that_wakes_itself_does_so_at_once() {
        let on = poll();
        polled(&on, |cx| cx.waker().wake_by_ref());
        let counts = (on.wakes.load(Ordering::Relaxed), on.clones.load(Ordering::Relaxed));
        assert_eq!(counts, (1, 0));
    }
}
