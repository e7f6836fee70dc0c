//! A lock that a fork cannot leave held for ever.
//!
//! How it works: the word holds the process id of who has it, 0: nobody. A thread that had it when
//! another one forked does not exist in the child, and the word is another process's id there: so
//! it is taken over. Who does is told, because what it guards may have been left half changed.
//!
//! What it promises: taking it never waits. What it does not: a child that is the first process of
//! a pid namespace, of a parent that is the first one of another, bears the same number.

use std::sync::atomic::{AtomicU32, Ordering};

/// The lock.
#[derive(Debug)]
pub struct Claim {
    /// Acquire when it is taken pairs with the release when it is given back: what its holder did
    /// before is seen.
    holder: AtomicU32,
}

/// It is held until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Claimed<'c> {
    claim: &'c Claim,
    own: u32,
    was_left: bool,
}

impl Claim {
    /// Nobody has it.
    #[must_use]
    pub const fn free() -> Claim {
        Claim { holder: AtomicU32::new(0) }
    }

    /// Takes it. None: another thread of this process has it. Costs a system call, and none to
    /// give it back.
    pub fn take(&self) -> Option<Claimed<'_>> {
        let own = std::process::id();
        let holder = self.holder.load(Ordering::Relaxed);
        let take =
            || self.holder.compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed);
        if holder == own || take().is_err() {
            return None;
        }
        Some(Claimed { claim: self, own, was_left: holder != 0 })
    }
}

impl Claimed<'_> {
    /// Whether it was taken over from a thread of the parent process, which may have been in the
    /// middle of something.
    #[must_use]
    pub fn was_left(&self) -> bool {
        self.was_left
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        // An error: the thread forked while it had it, and another thread of the child took it
        // over.
        let free =
            self.claim.holder.compare_exchange(self.own, 0, Ordering::Release, Ordering::Relaxed);
        let _ = free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_and_a_forked_child_takes_it_over() {
        static CLAIM: Claim = Claim::free();
        let held = CLAIM.take().expect("free");
        assert!(!held.was_left());
        let other = std::thread::spawn(|| CLAIM.take().is_none());
        assert!(other.join().expect("ends") && CLAIM.take().is_none());
        // As in a child: another process's number.
        CLAIM.holder.store(std::process::id() + 1, Ordering::Relaxed);
        let over = CLAIM.take().expect("its holder is not in this process");
        assert!(over.was_left() && CLAIM.take().is_none());
        CLAIM.holder.store(std::process::id() + 2, Ordering::Relaxed);
        drop((held, over));
        assert!(CLAIM.take().is_some_and(|held| held.was_left()), "not theirs any more");
        assert!(CLAIM.take().is_some_and(|held| !held.was_left()));
    }
}
