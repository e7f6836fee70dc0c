//! The growth of the black box: its memory is taken as records need it.
//!
//! How it works: the sampler asks in each pass whether the next step is due (`ring`'s
//! `Region::is_short`), and when a writer ends its sleep for that. It wakes `dashcam-capture`,
//! which takes the step: a MiB, while the next round would overwrite records younger than
//! `keep_ns`. So the box of a process that records little remains small, and one under load has its
//! full size within the first round.
//!
//! What it promises: the boxes of all processes of this user together take at most a part of the
//! memory that is available, and of their file system, in which the program may have files of its
//! own (POSIX shared memory): a service with many workers in a small container keeps its memory. A
//! step that is refused is tried again every `AGAIN_NS`; until then the box is as large as it is,
//! `status` says why, and `box_steps_refused` counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use format::region::losses;
use ring::Region;
use settings::Config;

use crate::lock::lock;

/// Boxes take one part of so many of the memory that is available.
pub(crate) const SHARE_OF_AVAILABLE: u64 = 8;
/// And of their file system. Docker gives a container 64 MiB.
const SHARE_OF_FILE_SYSTEM: u64 = 2;
const STEP_BYTES: u64 = 1 << 20;
/// Between two attempts after a refusal.
const AGAIN_NS: u64 = 10_000_000_000;
/// Captures reach `window` back; the box keeps this many windows, and at least `KEEP_NS`.
const WINDOWS: u64 = 2;
const KEEP_NS: u64 = 300_000_000_000;

/// What there is for boxes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes that those of all processes of this user have, this one included.
    pub boxes: u64,
    /// Bytes of memory that are left.
    pub memory: u64,
    /// Bytes that are left in the boxes' file system.
    pub file_system: u64,
}

impl Room {
    /// Why one more step is not to be taken.
    fn refusal(&self) -> Option<String> {
        let boxes = self.boxes >> 20;
        let refused = |left: u64, share: u64, of: &str| {
            let all = left.saturating_add(self.boxes);
            ((self.boxes + STEP_BYTES).saturating_mul(share) > all).then(|| {
                let (left, most) = (left >> 20, (all / share) >> 20);
                format!("found boxes of {boxes} MiB in all, with {left} MiB {of} left; wanted at most {most}")
            })
        };
        refused(self.memory, SHARE_OF_AVAILABLE, "of memory")
            .or_else(|| refused(self.file_system, SHARE_OF_FILE_SYSTEM, "of their file system"))
    }
}

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
        room: impl FnOnce() -> Room,
    ) -> bool {
        if !self.is_due(region, config, now_ns) {
            return false;
        }
        if let Some(why) = room().refusal() {
            region.lose(losses::BOX_STEPS_REFUSED, 1);
            self.refuse(now_ns, why);
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn refusal(boxes: u64, memory: u64, file_system: u64) -> String {
        let room =
            Room { boxes: boxes * MIB, memory: memory * MIB, file_system: file_system * MIB };
        room.refusal().unwrap_or_default()
    }

    #[test]
    fn the_boxes_of_all_processes_share_an_eighth_of_the_memory() {
        assert_eq!(refusal(63, 449, u64::MAX >> 20), "");
        assert_eq!(
            refusal(64, 448, u64::MAX >> 20),
            "found boxes of 64 MiB in all, with 448 MiB of memory left; wanted at most 64"
        );
        // 32 workers in a container with 200 MiB left: what each has at its start is too much.
        assert_ne!(refusal(45, 200, 1 << 20), "");
        assert_eq!(refusal(0, u64::MAX >> 20, u64::MAX >> 20), "");
    }

    #[test]
    fn half_of_their_file_system_is_left_to_the_program() {
        assert_eq!(refusal(31, 1 << 20, 33), "");
        let why = "found boxes of 32 MiB in all, with 32 MiB of their file system left; wanted at most 32";
        assert_eq!(refusal(32, 1 << 20, 32), why);
        assert_ne!(refusal(1, 1 << 20, 3 - 1), "", "the program has used the rest");
    }
}
