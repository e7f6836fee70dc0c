//! A set that only grows, is read without a lock, and never exceeds its size.
//!
//! How it works: open addressing over `N` slots; an object is made, then put into the first free
//! slot of its probe by compare-and-swap; a thread that loses the race drops its own. Slots are
//! never freed, so an index names its object for the life of the process, and in its forked
//! children.
//!
//! What it promises: `get` is one load, `find_or_add` of an existing object is a hash and a few
//! compares; both are async-signal-safe. No lock that a fork could leave held.

use std::sync::atomic::{AtomicPtr, Ordering};

/// The largest number of slots tried for one object; past it the shelf counts as full.
const PROBES: usize = 64;

/// The set. `N` is a power of two.
pub struct Shelf<T: 'static, const N: usize> {
    /// Null or a leaked box. Release on publication pairs with acquire in `get`.
    slots: [AtomicPtr<T>; N],
}

impl<T: Sync + Send + 'static, const N: usize> Shelf<T, N> {
    /// Holds nothing.
    pub const fn empty() -> Shelf<T, N> {
        assert!(N.is_power_of_two());
        Shelf { slots: [const { AtomicPtr::new(std::ptr::null_mut()) }; N] }
    }

    /// The object at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'static T> {
        let at = self.slots.get(index)?.load(Ordering::Acquire);
        // SAFETY: null, or a box leaked in `find_or_add`, which is never freed once published.
        unsafe { at.as_ref() }
    }

    /// The object for which `is` holds, if it is there.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&'static T> {
        (0..PROBES.min(N))
            .map_while(|probe| self.get((hash as usize).wrapping_add(probe) % N))
            .find(|found| is(found))
    }

    /// The object for which `is` holds, made by `make` when there is none yet. Equal objects must
    /// have equal hashes. None: no room.
    #[inline]
    pub fn find_or_add(
        &self,
        hash: u64,
        is: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> Option<(usize, &'static T)> {
        for probe in 0..PROBES.min(N) {
            let index = (hash as usize).wrapping_add(probe) % N;
            match self.get(index) {
                Some(found) if is(found) => return Some((index, found)),
                Some(_) => {}
                None => return self.add(hash, probe, is, make()),
            }
        }
        None
    }

    #[cold]
    fn add(
        &self,
        hash: u64,
        from: usize,
        is: impl Fn(&T) -> bool,
        made: T,
    ) -> Option<(usize, &'static T)> {
        let made = Box::into_raw(Box::new(made));
        let mut found = None;
        for probe in from..PROBES.min(N) {
            let index = (hash as usize).wrapping_add(probe) % N;
            let free = std::ptr::null_mut();
            match self.slots[index].compare_exchange(
                free,
                made,
                // Release: the object is whole before it is seen.
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return self.get(index).map(|t| (index, t)),
                Err(_) => match self.get(index) {
                    Some(theirs) if is(theirs) => {
                        found = Some((index, theirs));
                        break;
                    }
                    _ => {}
                },
            }
        }
        // SAFETY: the pointer came from `Box::into_raw` above and was not published.
        drop(unsafe { Box::from_raw(made) });
        found
    }

    /// Calls `each` with everything on it.
    pub fn each(&self, mut each: impl FnMut(&'static T)) {
        (0..N).filter_map(|index| self.get(index)).for_each(&mut each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_add_the_same_get_the_same_and_a_full_shelf_says_so() {
        static SHELF: Shelf<u64, 128> = Shelf::empty();
        let add = |n: u64| SHELF.find_or_add(n * 31, |other| *other == n, || n).map(|f| f.0);
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..50).map(add).collect::<Vec<_>>())).collect();
            let seen: Vec<_> = threads.into_iter().map(|t| t.join().expect("ends")).collect();
            assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
        });
        let found = SHELF.find(7 * 31, |other| *other == 7);
        assert_eq!((found, SHELF.find(8 * 31, |_| false)), (Some(&7), None));
        let mut all = 0;
        SHELF.each(|_| all += 1);
        assert_eq!(all, 50);
        assert!((50..2000).any(|n| add(n).is_none()));
        assert_eq!(add(7).and_then(|at| SHELF.get(at)), Some(&7));
    }
}
