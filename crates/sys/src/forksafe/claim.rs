//! A lock that a fork cannot leave held for ever.
//!
//! How it works: the word contains the process id of its holder, 0: none. If a thread held it when
//! another one forked, that thread does not exist in the child, and the word is another process's
//! id there: so the claim is taken over. The thread that takes it over learns that, because what
//! the claim guards may have been left half changed.
//!
//! What it promises: taking it never waits. What it does not: if both a child and its parent are
//! the first process of their pid namespaces, they have the same number.

use std::sync::atomic::{AtomicU32, Ordering};

/// The lock.
#[derive(Debug)]
pub struct Claim {
    /// Acquire when it is taken pairs with the release when it is given back: the stores of its
    /// previous holder are seen.
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
    /// Not held.
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
    fn one_thread_holds_a_claim_and_a_forked_child_takes_it_over() {
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
