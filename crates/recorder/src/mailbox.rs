//! A mailbox between the threads of the host and the trigger: the newest 64 posts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Posts it holds; the trigger polls it every few milliseconds.
const SLOTS: usize = 64;

/// Posted to by anybody without waiting, read by one.
pub(crate) struct Mailbox {
    slots: [[AtomicU64; 2]; SLOTS],
    /// Posts ever. The stores of a slot's second word (release) pair with the loads in `take`.
    posted: AtomicU64,
}

impl Mailbox {
    pub(crate) fn new() -> Mailbox {
        let slots = [const { [const { AtomicU64::new(0) }; 2] }; SLOTS];
        Mailbox { slots, posted: AtomicU64::new(0) }
    }

    /// Posts two words.
    pub(crate) fn post(&self, id: u64, word: u64) {
        let at = self.posted.fetch_add(1, Ordering::Relaxed);
        let slot = &self.slots[at as usize % SLOTS];
        slot[0].store(id, Ordering::Relaxed);
        slot[1].store(word, Ordering::Release);
    }

    /// Posts ever.
    pub(crate) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    /// Those posted since the count `seen`, oldest first; returns the new count. Of more than 64
    /// the oldest are not told. One being written at this instant may be told with a word of its
    /// predecessor; the trigger needs no more than that there was one.
    pub(crate) fn take(&self, seen: u64, mut each: impl FnMut(u64, u64)) -> u64 {
        let posted = self.posted();
        for at in seen.max(posted.saturating_sub(SLOTS as u64))..posted {
            let slot = &self.slots[at as usize % SLOTS];
            let word = slot[1].load(Ordering::Acquire);
            each(slot[0].load(Ordering::Relaxed), word);
        }
        posted
    }
}
