//! The state of a shard: free, being claimed, or owned, and by which generation.

use crate::sync::{AtomicU64, Ordering};

/// Values of the low bits; above them is the generation (of the process, one more in each forked
/// child). A shard of an older generation has no owner: that thread did not survive the fork.
const FREE: u64 = 0;
const OWNED: u64 = 1;
/// Being emptied by its next owner; nothing in it belongs to this process yet.
const CLAIMING: u64 = 2;
/// A bank of it was held by a thread that did not survive the fork.
const DEAD: u64 = u64::MAX;

/// The state word. Claimed by compare-and-swap (acquire: the previous owner's stores are seen),
/// made ready and given back by release stores.
#[derive(Debug)]
pub(crate) struct State(AtomicU64);

impl State {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> State {
        State(AtomicU64::new(FREE))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> State {
        State(AtomicU64::new(FREE))
    }

    /// Takes the shard for the caller; a parent process's counts in it are forgotten first. False:
    /// it has an owner, or could not be emptied.
    pub(crate) fn claim(&self, generation: u64, forget: impl FnOnce() -> bool) -> bool {
        let state = self.0.load(Ordering::Relaxed);
        let is_free = state == generation << 2 | FREE || state >> 2 < generation;
        let claiming = generation << 2 | CLAIMING;
        let take =
            || self.0.compare_exchange(state, claiming, Ordering::Acquire, Ordering::Relaxed);
        if !is_free || take().is_err() {
            return false;
        }
        let is_clean = state >> 2 == generation || forget();
        let next = if is_clean { generation << 2 | OWNED } else { DEAD };
        // Release: the collector that sees the shard as this generation's sees it emptied.
        self.0.store(next, Ordering::Release);
        is_clean
    }

    /// Gives it back. Its content stays for the next window.
    pub(crate) fn release(&self, generation: u64) {
        self.0.store(generation << 2 | FREE, Ordering::Release);
    }

    /// Whether its content was counted by this process.
    pub(crate) fn is_of(&self, generation: u64) -> bool {
        let state = self.0.load(Ordering::Acquire);
        state >> 2 == generation && state & 3 != CLAIMING
    }
}
