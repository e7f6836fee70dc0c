//! A place for an object that comes and goes while other threads may be using it.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// A place for an object that comes and goes while other threads may be using it: readers are
/// counted, and the thread that removes it waits until none is inside.
///
/// Reading costs two atomic operations (contended when several threads read at once), never waits,
/// and is async-signal-safe if `visit` is.
pub struct Visited<T> {
    at: AtomicPtr<T>,
    /// Readers inside, and above `ROUND` how often all were forgotten: a reader that a fork took
    /// along (it came from a signal handler inside) leaves the count of its own round alone. SeqCst
    /// on both words: either a reader sees that the object is gone, or the remover sees the reader.
    inside: AtomicU64,
    /// A reader never left; the place is not used again.
    retired: AtomicBool,
    owns: PhantomData<Box<T>>,
}

/// One more time that all readers were forgotten, in `Visited::inside`.
const ROUND: u64 = 1 << 32;

/// Why an object could not be taken back: a reader did not leave in time (its thread may have ended
/// inside). The object stays in memory for that reader.
#[derive(Debug, PartialEq, Eq)]
pub struct StillVisited;

impl<T: Send + Sync> Visited<T> {
    /// Holds nothing.
    pub const fn empty() -> Visited<T> {
        Visited {
            at: AtomicPtr::new(std::ptr::null_mut()),
            inside: AtomicU64::new(0),
            retired: AtomicBool::new(false),
            owns: PhantomData,
        }
    }

    /// Puts an object here; gives it back when there is one already, or the place is retired.
    pub fn put(&self, value: Box<T>) -> Result<(), Box<T>> {
        if self.retired.load(Ordering::Relaxed) {
            return Err(value);
        }
        let raw = Box::into_raw(value);
        let null = std::ptr::null_mut();
        match self.at.compare_exchange(null, raw, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: `raw` came from the box above and no other thread has seen it.
            Err(_) => Err(unsafe { Box::from_raw(raw) }),
        }
    }

    /// Whether something is here.
    pub fn is_empty(&self) -> bool {
        self.at.load(Ordering::Relaxed).is_null()
    }

    /// Calls `visit` with the object, if there is one.
    pub fn with<R>(&self, visit: impl FnOnce(&T) -> R) -> Option<R> {
        struct Leave<'c>(&'c AtomicU64, u64);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                let (inside, round) = (self.0, self.1);
                let less = |now: u64| (now / ROUND == round).then(|| now - 1);
                // An error: it was forgotten.
                let _ = inside.fetch_update(Ordering::SeqCst, Ordering::Relaxed, less);
            }
        }
        let before = self.inside.fetch_add(1, Ordering::SeqCst);
        let _leave = Leave(&self.inside, before / ROUND);
        let at = self.at.load(Ordering::SeqCst);
        // SAFETY: null, or put here by `put`. `take` frees it only after it has set the pointer to
        // null and then seen that no reader is inside; we were inside before we loaded the pointer.
        unsafe { at.as_ref() }.map(visit)
    }

    /// Takes the object from its place and waits for its readers to leave, at most `limit_ns`.
    pub fn take(&self, limit_ns: u64) -> Result<Option<Box<T>>, StillVisited> {
        let at = self.at.swap(std::ptr::null_mut(), Ordering::SeqCst);
        if at.is_null() {
            return Ok(None);
        }
        let deadline_ns = crate::clock::now_ns() + limit_ns;
        while self.inside.load(Ordering::SeqCst) % ROUND > 0 {
            if crate::clock::now_ns() > deadline_ns {
                self.retired.store(true, Ordering::Relaxed);
                return Err(StillVisited);
            }
            crate::thread::pause(50_000);
        }
        // SAFETY: it came from a box; no reader is inside, and later readers find null. Readers
        // that come and go meanwhile may delay us, never let us pass too early.
        Ok(Some(unsafe { Box::from_raw(at) }))
    }

    /// In a forked child: what was here is forgotten (its readers are in the parent), and never
    /// freed, since the caller may be inside. The caller is the only thread.
    pub fn forget(&self) {
        self.at.store(std::ptr::null_mut(), Ordering::Relaxed);
        let round = self.inside.load(Ordering::Relaxed) / ROUND;
        self.inside.store(round.wrapping_add(1).wrapping_mul(ROUND), Ordering::Relaxed);
        self.retired.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_visited_is_freed_once_and_not_too_early() {
        static CELL: Visited<Vec<u64>> = Visited::empty();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stops = testkit::SetsAtEnd(&stop);
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        CELL.with(|v| assert!(v.len() == 100 && v.iter().all(|x| *x == v[0])));
                    }
                });
            }
            for i in 0..2000 {
                assert!(CELL.put(Box::new(vec![i; 100])).is_ok());
                assert!(CELL.put(Box::default()).is_err(), "one at a time");
                assert_eq!(CELL.take(5_000_000_000), Ok(Some(Box::new(vec![i; 100]))));
            }
        });
    }

    /// A signal handler that forks, inside of a visit: the child's visit ends, later, in a place
    /// that was forgotten, and whose new readers must still be waited for.
    #[test]
    fn a_visit_that_a_fork_took_along_ends_without_a_trace() {
        static CELL: Visited<u32> = Visited::empty();
        assert!(CELL.put(Box::new(1)).is_ok());
        let old = CELL.with(|old| {
            CELL.forget();
            assert!(CELL.is_empty() && CELL.with(|_| ()).is_none());
            assert!(CELL.put(Box::new(2)).is_ok());
            *old
        });
        assert_eq!(old, Some(1), "not freed while it was visited");
        assert_eq!(CELL.take(1_000_000), Ok(Some(Box::new(2))), "nobody is inside");
        assert!(CELL.put(Box::new(3)).is_ok());
        assert_eq!(CELL.with(|_| CELL.take(1_000_000)), Some(Err(StillVisited)));
        CELL.forget();
        assert!(CELL.put(Box::new(4)).is_ok(), "what kept the place is the parent's");
    }

    #[test]
    fn a_reader_that_never_leaves_keeps_its_object_and_retires_the_place() {
        static CELL: Visited<u32> = Visited::empty();
        assert!(CELL.put(Box::new(7)).is_ok());
        let taken = CELL.with(|v| (CELL.take(1_000_000), *v));
        assert_eq!(taken, Some((Err(StillVisited), 7)));
        assert!(CELL.put(Box::new(8)).is_err());
    }
}
