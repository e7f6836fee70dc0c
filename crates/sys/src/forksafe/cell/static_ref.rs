//! A place for a `&'static T` that is set once or rarely, and never freed.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Holds a `&'static T` or nothing. Reading is one acquire load: no lock that a fork could leave
/// held in the child.
pub struct StaticRef<T: 'static> {
    at: AtomicPtr<T>,
    holds: PhantomData<&'static T>,
}

impl<T: Sync + 'static> StaticRef<T> {
    /// Holds nothing.
    pub const fn empty() -> StaticRef<T> {
        StaticRef { at: AtomicPtr::new(std::ptr::null_mut()), holds: PhantomData }
    }

    /// What it holds.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        // Acquire: pairs with the release in `set`, so the object is seen as it was published.
        let at = self.at.load(Ordering::Acquire);
        // SAFETY: `at` is null or came from a `&'static T` in `set`; statics are never freed.
        unsafe { at.as_ref() }
    }

    /// What it holds; if it holds nothing, the result of `make` is put here first. A thread that
    /// loses the race to do so drops its own.
    #[inline]
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &'static T {
        match self.get() {
            Some(value) => value,
            None => self.make(make()),
        }
    }

    #[cold]
    fn make(&self, value: T) -> &'static T {
        let made = Box::into_raw(Box::new(value));
        let null = std::ptr::null_mut();
        // Release: the object is whole before it is seen. Acquire: so is the other one's.
        match self.at.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it came from a box that is leaked here, and is never freed.
            Ok(_) => unsafe { &*made },
            Err(theirs) => {
                // SAFETY: `made` came from the box above and was not published; `theirs` is not
                // null and came from a `&'static T`, or from a box leaked here.
                unsafe {
                    drop(Box::from_raw(made));
                    &*theirs
                }
            }
        }
    }

    /// Puts an object here, for good; gives it back when there is one already.
    pub fn put(&self, value: T) -> Result<(), T> {
        if self.get().is_some() {
            return Err(value);
        }
        let made = Box::into_raw(Box::new(value));
        let null = std::ptr::null_mut();
        // Release: the object is whole before it is seen.
        match self.at.compare_exchange(null, made, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: `made` came from the box above and was not published.
            Err(_) => Err(*unsafe { Box::from_raw(made) }),
        }
    }

    /// Replaces it.
    pub fn set(&self, value: Option<&'static T>) {
        let at = value.map_or(std::ptr::null_mut(), |v| std::ptr::from_ref(v).cast_mut());
        self.at.store(at, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_make_the_same_object_get_the_same() {
        static PLACE: StaticRef<u64> = StaticRef::empty();
        let seen: Vec<&'static u64> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|n| scope.spawn(move || PLACE.get_or_make(|| n))).collect();
            threads.into_iter().map(|t| t.join().expect("ends")).collect()
        });
        assert!(seen.iter().all(|at| std::ptr::eq(*at, seen[0])), "{seen:?}");
        assert_eq!(PLACE.put(9), Err(9));
        static OTHER: StaticRef<u64> = StaticRef::empty();
        assert_eq!((OTHER.put(9), OTHER.put(8), OTHER.get()), (Ok(()), Err(8), Some(&9)));
    }
}
