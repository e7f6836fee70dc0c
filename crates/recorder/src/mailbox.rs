//! A mailbox between the threads of the host and the sampler: the newest 64 posts.
//!
//! How it works: posting takes the next slot by one atomic add and stores the words and their sum.
//! The reader compares the sum, so it knows whether the words are of one post.
//!
//! What it promises: posting never waits. What it does not: that each post is read; of more than 64
//! between two reads the oldest are lost, which shows in the count.

use std::sync::atomic::{AtomicU64, Ordering};

/// Posts it holds; the sampler polls it every few milliseconds.
const SLOTS: usize = 64;

/// Any thread posts without waiting, one thread reads.
pub(crate) struct Mailbox<const WORDS: usize = 2> {
    slots: [Slot<WORDS>; SLOTS],
    /// Posts so far. The stores of a slot's sum (release) pair with the loads in `take`.
    posted: AtomicU64,
}

struct Slot<const WORDS: usize> {
    words: [AtomicU64; WORDS],
    sum: AtomicU64,
}

impl<const WORDS: usize> Mailbox<WORDS> {
    pub(crate) fn new() -> Mailbox<WORDS> {
        let slot = || Slot { words: [const { AtomicU64::new(0) }; WORDS], sum: AtomicU64::new(0) };
        Mailbox { slots: std::array::from_fn(|_| slot()), posted: AtomicU64::new(0) }
    }

    /// Posts words.
    pub(crate) fn post(&self, words: [u64; WORDS]) {
        let at = self.posted.fetch_add(1, Ordering::Relaxed);
        let slot = &self.slots[at as usize % SLOTS];
        for (place, word) in slot.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        slot.sum.store(sum(at, &words), Ordering::Release);
    }

    /// Posts so far.
    pub(crate) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    /// The posts since the count `seen`, oldest first, and whether their words are whole; returns
    /// the new count. Of more than 64 the oldest are left out. A post that is being written at this
    /// instant is passed on with words of its predecessor and as not whole: that there was one is
    /// all the trigger needs.
    pub(crate) fn take(&self, seen: u64, mut each: impl FnMut([u64; WORDS], bool)) -> u64 {
        let posted = self.posted();
        for at in seen.max(posted.saturating_sub(SLOTS as u64))..posted {
            let slot = &self.slots[at as usize % SLOTS];
            let stored = slot.sum.load(Ordering::Acquire);
            let words = std::array::from_fn(|i| slot.words[i].load(Ordering::Relaxed));
            each(words, stored == sum(at, &words));
        }
        posted
    }
}

/// Distinguishes words of one post from words of two: FNV-1a over the number of the post and then
/// over the words. (Words count up as posts do: mixed with the number at once, they would cancel it
/// out.)
fn sum(at: u64, words: &[u64]) -> u64 {
    let mixed =
        |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    words.iter().fold(mixed(mixed(!0, at), 0), |sum, word| mixed(sum, *word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of one post arrive together, however many threads post at once.
    #[test]
    fn a_post_read_as_whole_was_posted_so() {
        let mailbox = Mailbox::<3>::new();
        let writes = |thread: u64| {
            let own = |i: u64| [thread << 32 | i, i * i, thread * i];
            (0..200_000).for_each(|i| mailbox.post(own(i)));
        };
        let (mut seen, mut whole) = (0, 0);
        std::thread::scope(|scope| {
            (1..4).for_each(|thread| drop(scope.spawn(move || writes(thread))));
            while seen < 600_000 {
                seen = mailbox.take(seen, |[thread_and_i, square, product], is_whole| {
                    let (thread, i) = (thread_and_i >> 32, thread_and_i & 0xffff_ffff);
                    whole += u64::from(is_whole);
                    assert!(
                        !is_whole || (square == i * i && product == thread * i),
                        "thread {thread}, {i}: {square}, {product}"
                    );
                });
            }
        });
        assert!(whole > 0);
    }
}
