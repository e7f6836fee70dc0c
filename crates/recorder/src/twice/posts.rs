//! The mailbox of records that the sampler is to write again.

use std::sync::atomic::AtomicU64;

use crate::mailbox::Mailbox;

/// Words of a record that is written twice: a header and three more.
pub(crate) const WORDS: usize = 4;
/// Records of shorter events are written once.
pub(crate) const LONG_NS: u64 = 1_000_000;

/// Records that the sampler is to write again.
pub(crate) struct Twice {
    pub(super) posts: Mailbox<{ WORDS + 1 }>,
    /// Posts handled. Relaxed: only the sampler uses it.
    pub(super) taken: AtomicU64,
}

impl Twice {
    pub(crate) fn new() -> Twice {
        Twice { posts: Mailbox::new(), taken: AtomicU64::new(0) }
    }

    /// Posts a record of the calling thread to be written again. Wait-free, async-signal-safe.
    pub(crate) fn post(&self, record: [u64; WORDS]) {
        let [head, a, b, c] = record;
        self.posts.post([u64::from(sys::thread::cached_tid()), head, a, b, c]);
    }
}
