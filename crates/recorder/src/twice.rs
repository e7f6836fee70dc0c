//! Records of long events are written twice: by their thread, and by the sampler.
//!
//! Why: a verdict may rest on one record, such as the end of the only slow request, the begin of a
//! task, or a fork that stopped every thread. Its thread may lose it (no free block while many
//! threads start, an overwritten block).
//!
//! How it works: the thread posts the record to a mailbox, and the sampler appends it once more
//! from its own block. Readers ignore the second copy of a record that they have.
//!
//! What it does not promise: of more than `MOST` posts at one time the rest is not written again.
//! The more there are, the less one of them matters.

use std::sync::atomic::{AtomicU64, Ordering};

use format::record::{header, Kind};

use crate::mailbox::Mailbox;
use crate::recorder::Recorder;

/// Words of a record that is written twice: a header and three more.
const WORDS: usize = 4;
/// Records of shorter events are written once.
pub(crate) const LONG_NS: u64 = 1_000_000;
/// Records written again at one time, at most.
const MOST: usize = 16;

/// Records that the sampler is to write again.
pub(crate) struct Twice {
    posts: Mailbox<{ WORDS + 1 }>,
    /// Posts handled. Relaxed: only the sampler uses it.
    told: AtomicU64,
}

impl Twice {
    pub(crate) fn new() -> Twice {
        Twice { posts: Mailbox::new(), told: AtomicU64::new(0) }
    }

    /// Posts a record of the calling thread to be written again. Wait-free, async-signal-safe.
    pub(crate) fn post(&self, record: [u64; WORDS]) {
        let [head, a, b, c] = record;
        self.posts.post([u64::from(sys::thread::cached_tid()), head, a, b, c]);
    }
}

impl Recorder {
    /// Appends, as the calling thread, the records that were posted since the last call: to the
    /// black box alone. For the sampler.
    pub fn tell_twice(&self) {
        let (mut left, told) = (MOST, self.twice.told.load(Ordering::Relaxed));
        let now = sys::clock::now_ns();
        let told = self.twice.posts.take(told, |[tid, record @ ..], is_whole| {
            if is_whole && left > 0 && crate::is_on() {
                left -= 1;
                let [head, a, b, c] = record;
                crate::thread::append(
                    &[header(Kind::Again, WORDS + 2, 0, 0), tid, head, a, b, c],
                    now,
                );
            }
        });
        self.twice.told.store(told, Ordering::Relaxed);
    }
}

/// Appends a record of an interval that many threads may have to wait for (a fork, a collection),
/// and posts it to be written again if it was long.
pub fn append_interval(record: [u64; WORDS], now_ns: u64) {
    crate::append(&record, now_ns);
    let [_, begin_ns, end_ns, _] = record;
    if let (true, Some(recorder)) = (end_ns.saturating_sub(begin_ns) >= LONG_NS, crate::current()) {
        recorder.twice.post(record);
    }
}
