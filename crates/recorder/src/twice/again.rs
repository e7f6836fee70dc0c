//! Writing the posted records again.

use std::sync::atomic::Ordering;

use format::record::{header, Kind};

use super::posts::WORDS;
use crate::current::is_on;
use crate::recorder::Recorder;

/// Records written again at one time, at most.
const MOST: usize = 16;

impl Recorder {
    /// Appends, as the calling thread, the records that were posted since the last call: to the
    /// black box alone. For the sampler.
    pub fn record_twice(&self) {
        let (mut left, taken) = (MOST, self.twice.taken.load(Ordering::Relaxed));
        let now = sys::clock::now_ns();
        let taken = self.twice.posts.take(taken, |[tid, record @ ..], is_whole| {
            if is_whole && left > 0 && is_on() {
                left -= 1;
                let [head, a, b, c] = record;
                crate::thread::append(
                    &[header(Kind::Again, WORDS + 2, 0, 0), tid, head, a, b, c],
                    now,
                );
            }
        });
        self.twice.taken.store(taken, Ordering::Relaxed);
    }
}
