//! What was long is told twice: by the thread it happened on, and by the sampler.
//!
//! A verdict may rest on one record: the end of the only slow request, since when it had a thread,
//! the fork that all stood still for. Its thread may lose it (no block to be had in a storm, a
//! block overwritten), so the sampler tells it once more from a thread and a block of its own.
//! Readers take what they do not know yet.

use std::sync::atomic::{AtomicU64, Ordering};

use format::record::{header, Kind};

use crate::mailbox::Mailbox;
use crate::recorder::Recorder;

/// Words of a record that is told twice: a header and three more.
const WORDS: usize = 4;
/// What is shorter is told once.
pub(crate) const LONG_NS: u64 = 1_000_000;
/// Told again at one time, at most: the more there are, the less one of them matters.
const MOST: usize = 16;

/// Records that the sampler is to tell again.
pub(crate) struct Twice {
    posts: Mailbox<{ WORDS + 1 }>,
    /// Posts told. Relaxed: only the sampler asks.
    told: AtomicU64,
}

impl Twice {
    pub(crate) fn new() -> Twice {
        Twice { posts: Mailbox::new(), told: AtomicU64::new(0) }
    }

    /// To be told again: a record of the calling thread. Wait-free, async-signal-safe.
    pub(crate) fn post(&self, record: [u64; WORDS]) {
        let [head, a, b, c] = record;
        self.posts.post([u64::from(sys::thread::cached_tid()), head, a, b, c]);
    }
}

impl Recorder {
    /// Tells once more, as the calling thread, what was posted since the last call: to the black
    /// box alone. For the sampler.
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

/// Appends a record with a begin and an end that many may have to wait for (a fork, a collection),
/// and has it told again if it was long.
pub fn append_interval(record: [u64; WORDS], now_ns: u64) {
    crate::append(&record, now_ns);
    let [_, begin_ns, end_ns, _] = record;
    if let (true, Some(recorder)) = (end_ns.saturating_sub(begin_ns) >= LONG_NS, crate::current()) {
        recorder.twice.post(record);
    }
}
