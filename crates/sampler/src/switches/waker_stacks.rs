//! Stacks of the wakers of threads in a slow request's way: which threads' are wanted, and to which
//! wakeup each belongs.
//!
//! | reads | emits | when |
//! | --- | --- | --- |
//! | wakers' stacks (`sys::perf::WakerStacks`) | `NativeStack` records | each pass that is paid |
//!
//! Only threads that run no Python are asked for: of the others the kernel sees the interpreter's
//! loop, and their Python stack comes with the next sample. Kept are the stacks of wakers that
//! ended a wait of `LONG_NS` or more, a few in a pass. The others remain in the kernel's rings,
//! which lose what does not fit: `waker_stacks_lost`.
//!
//! The kernel reports a wakeup twice, with and without a stack, in two rings and with two times.
//! They are joined here, by waker, woken thread and time, so that readers find the stack at the
//! very time of the `Wake`. What cannot be joined is dropped.

use std::collections::VecDeque;

use format::region::losses;
use sys::perf::{Take, WakerStacks, Wakings, Woke, MOST_WAKERS};

use crate::threads::native::Native;
use crate::world::{Proc, Sink};

/// A wait that ended sooner makes no request slow.
const LONG_NS: u64 = 1_000_000;
/// Stacks read in a pass: as much work as a few samples.
const MOST_AT_ONCE: usize = 4;
/// At most this lies between the two times of one wakeup; two waits of `LONG_NS` are further apart.
/// A stack as young as this may be reported before its wakeup is.
const APART_NS: u64 = 200_000;
/// Wakeups that may still get a stack, and for how long.
const MOST_WAKINGS: usize = 256;
const FORGET_NS: u64 = 1_000_000_000;
/// Where there are more threads than `MOST_WAKERS`, others have their turn after this time.
const ROUND_NS: u64 = 3_000_000_000;

/// The wakers' stacks.
pub(crate) struct Stacks {
    /// None: turned off, or not to be had.
    source: Option<WakerStacks>,
    /// The threads whose stacks are taken, in order of their ids.
    listed: Vec<u32>,
    listed_ns: u64,
    wakings: VecDeque<Recorded>,
    /// The stack at hand.
    bytes: Vec<u8>,
    lost: u64,
}

/// A wakeup that may get a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recorded {
    t_ns: u64,
    tid: u32,
    by: u32,
}

impl Stacks {
    /// `on`: the settings want stacks.
    pub(crate) fn new(on: bool) -> Stacks {
        Stacks {
            source: on.then(WakerStacks::new).flatten(),
            listed: Vec::new(),
            listed_ns: 0,
            wakings: VecDeque::new(),
            bytes: Vec::new(),
            lost: 0,
        }
    }

    /// Whether the list should be made anew for these threads, which run no Python.
    pub(crate) fn lacks(&self, natives: &[u32], now: u64) -> bool {
        let new = || natives.iter().any(|tid| self.listed.binary_search(tid).is_err());
        let room = self.listed.len() < MOST_WAKERS;
        let round = now.saturating_sub(self.listed_ns) >= ROUND_NS;
        self.source.is_some() && (room || round) && new()
    }

    /// Wants the stacks of `natives` when they wake one of `tids`; those in front first. With none
    /// of either it ends. Returns what is to be said where the kernel refuses: it is off from then
    /// on.
    pub(crate) fn follow(
        &mut self,
        wakings: &Wakings,
        tids: &[u32],
        natives: &[u32],
        now: u64,
    ) -> Option<String> {
        let source = self.source.as_mut()?;
        let natives = &natives[..natives.len().min(MOST_WAKERS)];
        let followed = source.follow(wakings, tids, natives);
        self.listed.clear();
        self.listed_ns = now;
        if let Err(refused) = followed {
            self.source = None;
            return Some(refused.to_string());
        }
        if !tids.is_empty() {
            self.listed.extend(natives);
            self.listed.sort_unstable();
        }
        None
    }

    /// No thread is followed any more.
    pub(crate) fn close(&mut self, wakings: Option<&Wakings>) {
        if let Some(wakings) = wakings {
            self.follow(wakings, &[], &[], 0);
        }
    }

    /// The kernel reported that `by` ended a wait of `tid`.
    pub(crate) fn waking(&mut self, t_ns: u64, (tid, by): (u32, u32), waited_ns: u64) {
        if waited_ns < LONG_NS || self.listed.binary_search(&by).is_err() {
            return;
        }
        if self.wakings.len() == MOST_WAKINGS {
            self.wakings.pop_front();
        }
        self.wakings.push_back(Recorded { t_ns, tid, by });
    }

    /// Records the stacks that came; all wakeups until `now` were reported.
    pub(crate) fn record(&mut self, world: &(impl Proc + Sink), native: &mut Native, now: u64) {
        let (wakings, bytes) = (&mut self.wakings, &mut self.bytes);
        while wakings.front().is_some_and(|waking| waking.t_ns.saturating_add(FORGET_NS) < now) {
            wakings.pop_front();
        }
        let Some(source) = self.source.as_mut().filter(|_| !self.listed.is_empty()) else { return };
        for taken in 0..=MOST_AT_ONCE {
            let take = |woke: &Woke| match woke.seen.t_ns {
                t_ns if t_ns.saturating_add(APART_NS) > now => Take::Later,
                _ if find(wakings, woke).is_none() => Take::Skip,
                _ if taken == MOST_AT_ONCE => Take::Later,
                _ => Take::This,
            };
            let Some(woke) = source.next(bytes, take) else { break };
            let Some(waking) = find(wakings, &woke).and_then(|index| wakings.remove(index)) else {
                continue;
            };
            let (recorder, mem) = (world.recorder(), world.memory());
            if let Some(mut record) = native.waker(recorder, mem, waking.tid, (&woke.seen, bytes)) {
                world.append(record.finish_of_waking(waking.t_ns), now);
            }
        }
        let lost = source.lost();
        world.lose(losses::WAKER_STACKS_LOST, lost.saturating_sub(self.lost));
        self.lost = lost;
    }
}

/// The wakeup that a stack is of: of the same two threads, and nearest in time.
fn find(wakings: &VecDeque<Recorded>, woke: &Woke) -> Option<usize> {
    let apart = |t_ns: u64| t_ns.abs_diff(woke.seen.t_ns);
    let same = |(_, waking): &(usize, &Recorded)| {
        (waking.tid, waking.by) == (woke.tid, woke.by) && apart(waking.t_ns) < APART_NS
    };
    let all = wakings.iter().enumerate().filter(same);
    all.min_by_key(|(_, waking)| apart(waking.t_ns)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::perf::Seen;

    #[test]
    fn a_stack_belongs_to_the_nearest_waking_of_the_same_two() {
        let waking = |t_ns, tid, by| Recorded { t_ns, tid, by };
        let all: VecDeque<Recorded> = [
            waking(1_000_000, 5, 6),
            waking(1_000_900, 5, 7),
            waking(1_001_500, 5, 6),
            waking(9_000_000, 5, 6),
        ]
        .into();
        let woke = |t_ns, tid, by| Woke {
            tid,
            by,
            seen: Seen { t_ns, pc: 1, sp: 8, fp: 0, is_cut: false },
        };
        assert_eq!(find(&all, &woke(1_000_400, 5, 6)), Some(0));
        assert_eq!(find(&all, &woke(1_001_000, 5, 6)), Some(2));
        assert_eq!(find(&all, &woke(8_999_500, 5, 6)), Some(3));
        assert_eq!(find(&all, &woke(5_000_000, 5, 6)), None);
        assert_eq!(find(&all, &woke(1_000_400, 6, 5)), None);
    }
}
