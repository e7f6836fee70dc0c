//! What the sampler saw at one instant, as records: of a thread (`Sample`), of a task (`Await`).

use crate::block::unpack_pair;
use crate::record::{flag, header, Kind};
use crate::wait::{AwaitKind, HolderSource, WaitKind};

/// A sample's values; see the table on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was taken.
    pub t_ns: u64,
    /// Whose.
    pub tid: u32,
    /// Stack id, 0 when there is none.
    pub stack: u32,
    /// Flags of the header.
    pub flags: u16,
    /// Thread that held the GIL at that instant, 0 unknown or nobody.
    pub gil_holder: u32,
    /// Wall time since this thread's sample before.
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
    /// Futex address, or the name id of the descriptor's text when `TARGET_IS_NAME` is set in it.
    /// With flag USAGE: what the thread has used so far, see `Usage`.
    pub target: u64,
    /// Time limit of the wait in ns, 0 none. With flag USAGE: the other half of it.
    pub timeout_ns: u64,
}

/// What a running thread has used since it started. Every field wraps; differences are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Page faults.
    pub faults: u32,
    /// Read from and written to storage, KiB; 31 bits.
    pub storage_kib: u32,
    /// Time in its own code, us; in steps of 10 ms.
    pub user_us: u32,
    /// Time in the kernel, us; in steps of 10 ms.
    pub system_us: u32,
}

impl Usage {
    const KIB: u32 = u32::MAX >> 1;

    /// As the words `target` and `timeout_ns` of a sample with flag USAGE.
    pub fn pack(self) -> (u64, u64) {
        let target = u64::from(self.faults) | (u64::from(self.storage_kib & Usage::KIB) << 32);
        (target, u64::from(self.user_us) | (u64::from(self.system_us) << 32))
    }

    /// What was used since `before`.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            faults: self.faults.wrapping_sub(before.faults),
            storage_kib: self.storage_kib.wrapping_sub(before.storage_kib) & Usage::KIB,
            user_us: self.user_us.wrapping_sub(before.user_us),
            system_us: self.system_us.wrapping_sub(before.system_us),
        }
    }
}

/// Set in `Sample.target` when its low half is a name id (a peer, a path) and not an address.
pub const TARGET_IS_NAME: u64 = 1 << 63;

impl Sample {
    /// What its thread has used so far, if this sample says so.
    pub fn usage(&self) -> Option<Usage> {
        (self.flags & flag::USAGE != 0).then_some(Usage {
            faults: self.target as u32,
            storage_kib: (self.target >> 32) as u32 & Usage::KIB,
            user_us: self.timeout_ns as u32,
            system_us: (self.timeout_ns >> 32) as u32,
        })
    }

    /// As words.
    pub fn encode(&self) -> [u64; 9] {
        let how = u64::from(self.wait as u8)
            | (u64::from(self.holder_source as u8) << 8)
            | (u64::from(self.call) << 16)
            | (u64::from(self.lock_holder) << 32);
        [
            header(Kind::Sample, 9, self.flags, self.stack),
            self.t_ns,
            u64::from(self.tid) | (u64::from(self.gil_holder) << 32),
            self.wall_ns,
            self.cpu_ns,
            self.run_delay_ns,
            how,
            self.target,
            self.timeout_ns,
        ]
    }

    pub(crate) fn decode(name: u32, flags: u16, w: &[u64]) -> Option<Sample> {
        let &[t_ns, who, wall_ns, cpu_ns, run_delay_ns, how, target, timeout_ns] = w else {
            return None;
        };
        let (tid, gil_holder) = unpack_pair(who);
        Some(Sample {
            t_ns,
            tid,
            stack: name,
            flags,
            gil_holder,
            wall_ns,
            cpu_ns,
            run_delay_ns,
            wait: WaitKind::from_u8(how as u8),
            holder_source: HolderSource::from_u8((how >> 8) as u8),
            call: (how >> 16) as u16,
            lock_holder: (how >> 32) as u32,
            target,
            timeout_ns,
        })
    }
}

/// Where a task stood at one instant, seen from the request it works for: its own frames and those
/// of the tasks that await it. A request that awaits several tasks has several at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Await {
    /// When it was seen.
    pub t_ns: u64,
    /// The request; 0 for a task that was looked at because it stands in one's way.
    pub request: u64,
    /// The task's address: tells tasks that live at the same time apart.
    pub task: u64,
    /// Stack id, 0 when there is none.
    pub stack: u32,
    /// What it awaits.
    pub kind: AwaitKind,
    /// How `holder` is known.
    pub how: HolderSource,
    /// Address of the task that holds what is awaited, 0 unknown.
    pub holder: u64,
    /// The name id of the peer with `TARGET_IS_NAME` set in it, or 0.
    pub target: u64,
    /// Time limit of the await in ns, 0 none or not known.
    pub timeout_ns: u64,
}

impl Await {
    /// As words.
    pub fn encode(&self) -> [u64; 8] {
        [
            header(Kind::Await, 8, 0, self.stack),
            self.t_ns,
            self.request,
            self.task,
            u64::from(self.kind as u8) | (u64::from(self.how as u8) << 8),
            self.holder,
            self.target,
            self.timeout_ns,
        ]
    }

    pub(crate) fn decode(stack: u32, words: &[u64]) -> Option<Await> {
        let &[t_ns, request, task, what, holder, target, timeout_ns] = words else {
            return None;
        };
        let (kind, how) =
            (AwaitKind::from_u8(what as u8), HolderSource::from_u8((what >> 8) as u8));
        Some(Await { t_ns, request, task, stack, kind, how, holder, target, timeout_ns })
    }
}
