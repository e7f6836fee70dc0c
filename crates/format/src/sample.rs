//! The record of a sample: one observation of one thread.

use std::ops::Deref;

use crate::block::unpack_pair;
use crate::wait::{HolderSource, WaitKind};
use crate::words::{flag, header, Kind};

/// A request younger than this is never sampled more often than others are.
pub const YOUNG_REQUEST_NS: u64 = 15_000_000;

/// A sample's values; see the table on top of `record`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the sample was taken.
    pub t_ns: u64,
    /// The thread.
    pub tid: u32,
    /// Stack id, 0 when there is none.
    pub stack: u32,
    /// Flags of the header.
    pub flags: u16,
    /// Thread that held the GIL at that instant, 0 unknown or nobody.
    pub gil_holder: u32,
    /// Wall time since the previous sample of this thread.
    pub wall_ns: u64,
    /// CPU time since then (when flag TIMES is set).
    pub cpu_ns: u64,
    /// Time runnable without a CPU since then (when flag TIMES is set).
    pub run_delay_ns: u64,
    /// What it waits for.
    pub wait: WaitKind,
    /// How `lock_holder` is known.
    pub holder_source: HolderSource,
    /// System call number, when blocked in one.
    pub call: u16,
    /// Thread that holds the lock this one waits for, 0 unknown.
    pub lock_holder: u32,
    /// How often it was given a CPU since its previous sample (when flag TIMES is set), at most
    /// `MOST_SLICES`; 0 also where it is not known.
    pub slices: u16,
    /// Futex address, or the name id of the descriptor's text when `TARGET_IS_NAME` is set in it.
    /// With flag USAGE: what the thread has used so far, see `Usage`.
    pub target: u64,
    /// Time limit of the wait in ns, 0 none. With flag USAGE: the other half of it.
    pub timeout_ns: u64,
    /// Name id of the asyncio task that ran on the thread, 0 none.
    pub task: u32,
    /// Address of the object behind the futex: of Python's lock, Condition or queue; 0 not known.
    pub lock: u64,
}

/// A sample as words: as many as it needs.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    words: [u64; 11],
    len: usize,
}

impl Deref for Words {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

/// The largest number of slices that a sample can hold.
pub const MOST_SLICES: u16 = u16::MAX >> flag::SLICES_SHIFT;
/// The bits of a sample's flags that are not slices.
const OWN_FLAGS: u16 = (1 << flag::SLICES_SHIFT) - 1;

/// Set in `Sample.target` when its low half is a name id (a peer, a path) and not an address.
pub const TARGET_IS_NAME: u64 = 1 << 63;

impl Sample {
    /// As words.
    pub fn encode(&self) -> Words {
        let len = match (self.task, self.lock) {
            (0, 0) => 9,
            (_, 0) => 10,
            _ => 11,
        };
        let slices = self.slices.min(MOST_SLICES) << flag::SLICES_SHIFT;
        let flags = self.flags & OWN_FLAGS | slices;
        let how = u64::from(self.wait as u8)
            | (u64::from(self.holder_source as u8) << 8)
            | (u64::from(self.call) << 16)
            | (u64::from(self.lock_holder) << 32);
        let words = [
            header(Kind::Sample, len, flags, self.stack),
            self.t_ns,
            u64::from(self.tid) | (u64::from(self.gil_holder) << 32),
            self.wall_ns,
            self.cpu_ns,
            self.run_delay_ns,
            how,
            self.target,
            self.timeout_ns,
            u64::from(self.task),
            self.lock,
        ];
        Words { words, len }
    }

    pub(crate) fn decode(name: u32, flags: u16, w: &[u64]) -> Option<Sample> {
        let &[t_ns, pair, wall_ns, cpu_ns, run_delay_ns, how, target, timeout_ns, ref more @ ..] =
            w
        else {
            return None;
        };
        let (task, lock) = match *more {
            [] => (0, 0),
            [task] => (task, 0),
            [task, lock] => (task, lock),
            _ => return None,
        };
        let (tid, gil_holder) = unpack_pair(pair);
        Some(Sample {
            t_ns,
            tid,
            stack: name,
            flags: flags & OWN_FLAGS,
            gil_holder,
            wall_ns,
            cpu_ns,
            run_delay_ns,
            wait: WaitKind::from_u8(how as u8),
            holder_source: HolderSource::from_u8((how >> 8) as u8),
            call: (how >> 16) as u16,
            lock_holder: (how >> 32) as u32,
            slices: flags >> flag::SLICES_SHIFT,
            target,
            timeout_ns,
            task: task as u32,
            lock,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{decode, Record};

    #[test]
    fn a_sample_survives_encoding() {
        let sample = Sample {
            t_ns: 1,
            tid: 2,
            stack: 3,
            flags: flag::TIMES,
            gil_holder: 4,
            wall_ns: 5,
            cpu_ns: 6,
            run_delay_ns: 7,
            wait: WaitKind::Futex,
            holder_source: HolderSource::OwnerField,
            call: 202,
            lock_holder: 8,
            slices: 83,
            target: 9,
            timeout_ns: 10,
            task: 0,
            lock: 0,
        };
        assert_eq!(decode(&sample.encode()), Some((9, Record::Sample(sample))));
        let many = Sample { slices: u16::MAX, ..sample };
        let most = Sample { slices: MOST_SLICES, ..sample };
        assert_eq!(decode(&many.encode()), Some((9, Record::Sample(most))));
        for (task, lock, words) in [(11, 0, 10), (0, 12, 11), (11, 12, 11)] {
            let more = Sample { task, lock, ..sample };
            assert_eq!(decode(&more.encode()), Some((words, Record::Sample(more))));
        }
    }
}
