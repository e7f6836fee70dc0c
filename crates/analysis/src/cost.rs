//! Lengths of time that bound the work for an answer, not the answer: how far is searched at first.
//!
//! How it works: a search that does not find an end within its first step takes a longer one, until
//! it does. A step that fits most cases is cheap; no verdict depends on it.
//!
//! Missing on purpose: bounds by a count (`*_MAX`), which are where they apply.

/// A step of a search. A type of its own, so that none is taken for a threshold.
#[derive(Clone, Copy, Debug)]
pub struct Step(u64);

impl Step {
    /// Its length.
    pub const fn ns(self) -> u64 {
        self.0
    }
}

/// Around a time for the burst of work that it is part of.
pub const BURST: Step = Step(100_000_000);

/// Around a wait for the GIL for the whole of it: many waits of 5 ms each.
pub const GIL_WAIT: Step = Step(50_000_000);

/// Around a segment for the polls of its event loop: most loops poll every few milliseconds.
pub const LOOP_POLLS: [Step; 2] = [Step(50_000_000), Step(400_000_000)];

/// Of the waits that end within one such time, each shorter than a turn of the scheduler's, one is
/// asked about.
pub const SHORT_WAITS: Step = Step(10_000_000);
