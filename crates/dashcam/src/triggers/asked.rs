//! What the trigger said to requests that still run: each is in one capture, and none is forgotten
//! because it came in a cooldown.
//!
//! How it works: a request past its limit is asked for at each pass. The answer is remembered by
//! its id: a capture will hold it, or a cooldown suppressed it, which is counted once; after the
//! cooldown it is asked for again. Ids are never given twice, so an answer that is kept a little
//! longer than its request does no harm.

use std::collections::HashMap;

/// Answers of ended requests that may be kept: a request leaves the table before its end is
/// recorded.
const SPARE: usize = 64;
/// The capture of those that none will hold.
pub(crate) const NONE: u64 = 0;

enum Answer {
    /// It is not asked for again: the capture of this number holds it, or none is to.
    Settled(u64),
    /// Counted, and to be asked for again after the cooldown.
    Suppressed,
}

/// The answers.
#[derive(Default)]
pub(crate) struct Asked(HashMap<u64, Answer>);

impl Asked {
    /// Whether this request is to be asked for now.
    pub(crate) fn wants(&self, request: u64, cooling: bool) -> bool {
        match self.0.get(&request) {
            None => true,
            Some(Answer::Settled(_)) => false,
            Some(Answer::Suppressed) => !cooling,
        }
    }

    /// Whether it was counted as suppressed.
    pub(crate) fn is_suppressed(&self, request: u64) -> bool {
        matches!(self.0.get(&request), Some(Answer::Suppressed))
    }

    /// Whether it had its answer while it ran.
    pub(crate) fn is_settled(&self, request: u64) -> bool {
        matches!(self.0.get(&request), Some(Answer::Settled(_)))
    }

    pub(crate) fn settle(&mut self, request: u64, capture: u64) {
        self.0.insert(request, Answer::Settled(capture));
    }

    pub(crate) fn suppress(&mut self, request: u64) {
        self.0.insert(request, Answer::Suppressed);
    }

    /// This capture came to nothing: those it was to hold are asked for again.
    pub(crate) fn failed(&mut self, capture: u64) {
        self.0.retain(|_, answer| !matches!(answer, Answer::Settled(held) if *held == capture));
    }

    /// Forgets those that ended, when there are many.
    pub(crate) fn tidy(&mut self, open: usize, is_open: impl Fn(u64) -> bool) {
        if self.0.len() > open + SPARE {
            self.0.retain(|id, _| is_open(*id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cooldown_suppressed_is_wanted_again_and_what_a_capture_holds_is_not() {
        let mut asked = Asked::default();
        assert!(asked.wants(1, true));
        asked.suppress(1);
        asked.settle(2, 7);
        assert!(asked.is_suppressed(1) && !asked.wants(1, true) && asked.wants(1, false));
        assert!(!asked.is_suppressed(2) && !asked.wants(2, false));
        assert!(asked.is_settled(2) && !asked.is_settled(1) && !asked.is_settled(3));
        asked.settle(1, NONE);
        assert!(!asked.is_suppressed(1) && !asked.wants(1, false));
        asked.failed(7);
        assert!(asked.wants(2, false) && !asked.wants(1, false));
    }

    #[test]
    fn there_are_few_more_answers_than_open_requests() {
        let mut asked = Asked::default();
        for id in 0..10_000 {
            asked.suppress(id);
            asked.tidy(100, |open| open + 100 > id);
            assert!(asked.0.len() <= 100 + SPARE);
        }
        assert!(asked.is_suppressed(9_999) && asked.is_suppressed(9_901));
    }
}
