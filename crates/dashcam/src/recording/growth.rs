//! The growth of the black box: its memory is taken as records need it.
//!
//! How it works: the sampler asks in each pass whether the next step is due (`ring`'s
//! `Region::is_short`), and when a writer ends its sleep for that. It wakes `dashcam-keeper`, which
//! takes the step: a MiB, while the next round would overwrite records younger than `keep_ns`. So
//! the box of a process that records little remains small, and one under load has its full size
//! within the first round.
//!
//! What it promises: at most a part of the available memory is taken, as at the start. A step that
//! is refused is tried again every `AGAIN_NS`; until then the box is as large as it is, `status`
//! says why, and `box_steps_refused` counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use format::region::losses;
use ring::Region;
use settings::Config;

use crate::lock::lock;

/// A step is taken if this many times as much memory is available.
pub(crate) const SHARE_OF_AVAILABLE: u64 = 8;
const STEP_BYTES: u64 = 1 << 20;
/// Between two attempts after a refusal.
const AGAIN_NS: u64 = 10_000_000_000;
/// Captures reach `window` back; the box keeps this many windows, and at least `KEEP_NS`.
const WINDOWS: u64 = 2;
const KEEP_NS: u64 = 300_000_000_000;

/// Why the box does not grow, and until when.
#[derive(Default)]
pub(crate) struct Growth {
    /// Relaxed: a time, which orders nothing.
    not_before_ns: AtomicU64,
    refused: Mutex<String>,
}

impl Growth {
    /// Whether a step is due. Cost: a few loads.
    pub(crate) fn is_due(&self, region: &Region, config: &Config, now_ns: u64) -> bool {
        let keep_ns = config.window_ns.saturating_mul(WINDOWS).max(KEEP_NS);
        now_ns >= self.not_before_ns.load(Ordering::Relaxed) && region.is_short(now_ns, keep_ns)
    }

    /// Takes a step, if one is due. True: another one may be.
    pub(crate) fn step(
        &self,
        region: &Region,
        config: &Config,
        now_ns: u64,
        available_bytes: impl FnOnce() -> u64,
    ) -> bool {
        if !self.is_due(region, config, now_ns) {
            return false;
        }
        let available = available_bytes();
        if available < STEP_BYTES * SHARE_OF_AVAILABLE {
            region.lose(losses::BOX_STEPS_REFUSED, 1);
            self.refuse(now_ns, format!("{} MiB of memory are available", available >> 20));
            return false;
        }
        let is_taken = region.grow();
        if is_taken {
            lock(&self.refused).clear();
        } else {
            self.refuse(now_ns, "the file system of the box is full".to_owned());
        }
        is_taken
    }

    fn refuse(&self, now_ns: u64, why: String) {
        self.not_before_ns.store(now_ns + AGAIN_NS, Ordering::Relaxed);
        *lock(&self.refused) = why;
    }

    /// For `status`: why the last step was refused; "" if it was not.
    pub(crate) fn refused(&self) -> String {
        lock(&self.refused).clone()
    }
}
