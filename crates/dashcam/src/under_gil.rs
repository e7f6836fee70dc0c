//! Stacks of an interpreter whose memory cannot be read: the binding's side of
//! `sampler::under_gil`.
//!
//! How it works: a thread of the binding's asks `Round::begin` ten times a second which threads to
//! sample, walks those threads' frames while it holds the GIL, and hands them in.
//!
//! What it promises: only threads that the sampler chose are sampled, and nothing is asked for
//! while nothing is recorded. The cost of a turn is paid from the sampler's budget: an expensive
//! one makes the pause longer. The source `stacks` says how stacks were read, and why.

use format::source::SourceState;
use std::time::Duration;

use recorder::Recorder;
use sampler::under_gil::Seen;

use crate::running::{running, Running};

/// Most frames of a stack; the innermost ones.
pub const MOST_FRAMES: usize = 128;
/// From one turn to the next, at least.
const PAUSE: Duration = Duration::from_millis(100);
/// A turn is followed by a pause in which this part of the budget comes in for it.
const SHARE: f64 = 0.5;

/// One turn under the GIL, by a thread that holds it and does not release it until the turn is
/// over.
pub struct Round {
    parts: &'static Running,
    recorder: &'static Recorder,
    wanted: Vec<u32>,
    t_ns: u64,
    began_ns: u64,
}

/// What a thread that could sample is to do.
pub enum Next {
    /// Samples, and then pauses.
    Round(Round),
    /// There is nothing to sample now.
    Pause(Duration),
    /// It ends: stacks are read otherwise, or recording was stopped.
    End,
}

impl Round {
    /// For bindings: whether to sample now.
    pub fn begin() -> Next {
        let parts = running().filter(|parts| !parts.recording.stopping());
        let Some(parts) = parts else { return Next::End };
        match parts.under_gil.refused() {
            None => return Next::Pause(PAUSE),
            Some(None) => return Next::End,
            Some(Some(_)) => {}
        }
        let wanted = parts.under_gil.take_wanted();
        let Some(recorder) = recorder::current().filter(|_| recorder::is_on()) else {
            return Next::Pause(PAUSE);
        };
        let began_ns = sys::clock::thread_cpu_ns();
        Next::Round(Round { parts, recorder, wanted, t_ns: sys::clock::now_ns(), began_ns })
    }

    /// The threads to sample.
    pub fn wanted(&self) -> &[u32] {
        &self.wanted
    }

    /// The kernel ids of all threads that run the interpreter, as far as they are known.
    pub fn threads(&self, tids: &[u32]) {
        self.parts.under_gil.keep_threads(tids);
    }

    /// The id of a code object.
    pub fn code(&self, function: &str, file: &str, first_line: u32, releases: bool) -> u32 {
        let tables = self.recorder.tables();
        tables.code(tables.name(function), tables.name(file), first_line, releases)
    }

    /// Hands in a thread's stack: ids of code objects and lines, innermost first.
    pub fn put(&self, tid: u32, frames: &[(u32, u32)], truncated: bool) {
        let tables = self.recorder.tables();
        let inwards = frames.iter().rev();
        let stack = inwards.fold(0, |parent, (code, line)| tables.stack(parent, *code, *line));
        let seen = Seen { stack, truncated, t_ns: self.t_ns };
        self.parts.under_gil.put(tid, seen);
    }

    /// The turn is over: how long to pause.
    pub fn end(self) -> Duration {
        let under_gil = &self.parts.under_gil;
        let cost_ns = sys::clock::thread_cpu_ns().saturating_sub(self.began_ns);
        if under_gil.pay(cost_ns) {
            let why = under_gil.refused().flatten().unwrap_or_default();
            let how = format!("under the GIL, up to 10 times a second, since {why}");
            self.parts.recording.set_source("stacks", SourceState::Partly(how));
            self.parts.recording.store_settings();
        }
        pause_after(cost_ns, self.parts.recording.budget_percent())
    }
}

fn pause_after(cost_ns: u64, budget_percent: f64) -> Duration {
    let earned = Duration::from_nanos((cost_ns as f64 * 100.0 / budget_percent / SHARE) as u64);
    PAUSE.max(earned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expensive_turn_is_rare_and_a_cheap_one_no_more_often_than_ten_times_a_second() {
        assert_eq!(pause_after(100_000, 1.0), Duration::from_millis(100));
        assert_eq!(pause_after(2_000_000, 1.0), Duration::from_millis(400));
        assert_eq!(pause_after(2_000_000, 100.0), Duration::from_millis(100));
    }
}
