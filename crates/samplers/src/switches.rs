//! Context switches -> times off the CPU.
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | `PERF_RECORD_SWITCH` (`sys::perf`) | one `OffCpu` a pair of out and in | CLOCK_MONOTONIC ns | Linux 4.3 |
//!
//! Pure: fed one switch at a time. A thread that is out has its `out` kept here until it comes
//! back; `still_out` tells them, so that a capture knows what every thread is doing now.
//!
//! Where records end (`end_at`) the open times end too; where they begin again (`begin_at`), a thread
//! that was there and first comes back was out since then.

use sys::perf::{Switch, SwitchKind};

use crate::by_tid::ByTid;

/// A finished or open time off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Off {
    /// Thread.
    pub tid: u32,
    /// It was preempted.
    pub preempted: bool,
    /// Left the CPU.
    pub out_ns: u64,
    /// Came back.
    pub in_ns: u64,
}

/// Pairs switches by thread.
#[derive(Default)]
pub struct Pairs {
    out: ByTid<(u64, bool)>,
    /// Threads of which nothing was told since records began again.
    silent: ByTid<()>,
    begin_ns: u64,
}

impl Pairs {
    /// Takes one switch; the finished interval when it ends one.
    pub fn feed(&mut self, switch: Switch) -> Option<Off> {
        let tells = !matches!(switch.kind, SwitchKind::Woken { .. });
        let silent = tells && !self.silent.is_empty() && self.silent.remove(&switch.tid).is_some();
        match switch.kind {
            SwitchKind::In => {
                let out = self.out.remove(&switch.tid);
                let (out_ns, preempted) = out.or(silent.then_some((self.begin_ns, false)))?;
                let in_ns = switch.t_ns.max(out_ns);
                Some(Off { tid: switch.tid, preempted, out_ns, in_ns })
            }
            SwitchKind::Woken { .. } => None,
            kind => {
                let preempted = kind == SwitchKind::Preempted;
                // Records may come a moment before all threads have them: before `begin_at`.
                self.out.insert(switch.tid, (switch.t_ns.max(self.begin_ns), preempted));
                None
            }
        }
    }

    /// No more records from `now_ns` on: the times off the CPU that are known until then.
    pub fn end_at(&mut self, now_ns: u64) -> impl Iterator<Item = Off> + '_ {
        self.silent.clear();
        self.out.drain().map(move |(tid, (out_ns, preempted))| Off {
            tid,
            preempted,
            out_ns: out_ns.min(now_ns),
            in_ns: now_ns,
        })
    }

    /// Records begin again at `now_ns`, also of these threads, which are there already.
    pub fn begin_at(&mut self, now_ns: u64, alive: &[u32]) {
        self.begin_ns = now_ns;
        self.out.clear();
        self.silent.clear();
        self.silent.extend(alive.iter().map(|tid| (*tid, ())));
    }

    /// Threads that are off the CPU now.
    pub fn still_out(&self) -> impl Iterator<Item = Off> + '_ {
        let open = format::record::STILL_OUT;
        self.out.iter().map(move |(tid, (out_ns, preempted))| Off {
            tid: *tid,
            preempted: *preempted,
            out_ns: *out_ns,
            in_ns: open,
        })
    }

    /// Whether the thread is off the CPU, and since when.
    pub fn out_since(&self, tid: u32) -> Option<u64> {
        self.out.get(&tid).map(|(out_ns, _)| *out_ns)
    }

    /// Forgets threads that are gone.
    pub fn retain(&mut self, mut lives: impl FnMut(u32) -> bool) {
        self.out.retain(|tid, _| lives(*tid));
        self.silent.retain(|tid, ()| lives(*tid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_out_and_the_next_in_of_a_thread_are_one_interval() {
        let mut pairs = Pairs::default();
        let mut feed = |t_ns, tid, kind| pairs.feed(Switch { t_ns, tid, cpu: 0, kind });
        assert_eq!(feed(5, 1, SwitchKind::In), None, "its out was before we looked");
        assert_eq!(feed(10, 1, SwitchKind::Out), None);
        assert_eq!(feed(11, 2, SwitchKind::Preempted), None);
        let off = |tid, preempted, out_ns, in_ns| Some(Off { tid, preempted, out_ns, in_ns });
        assert_eq!(feed(30, 1, SwitchKind::In), off(1, false, 10, 30));
        assert_eq!(pairs.out_since(2), Some(11));
        assert_eq!(pairs.still_out().count(), 1);
    }

    #[test]
    fn a_waking_ends_no_time_off_the_cpu() {
        let mut pairs = Pairs::default();
        let switch = |t_ns, tid, kind| Switch { t_ns, tid, cpu: 0, kind };
        let woken = SwitchKind::Woken { by: sys::perf::Waker::Thread(2) };
        pairs.feed(switch(10, 1, SwitchKind::Out));
        assert_eq!(pairs.feed(switch(20, 1, woken)), None);
        let off = Off { tid: 1, preempted: false, out_ns: 10, in_ns: 30 };
        assert_eq!(pairs.feed(switch(30, 1, SwitchKind::In)), Some(off));
        pairs.begin_at(100, &[1]);
        assert_eq!(pairs.feed(switch(120, 1, woken)), None);
        let off = Off { tid: 1, preempted: false, out_ns: 100, in_ns: 130 };
        assert_eq!(pairs.feed(switch(130, 1, SwitchKind::In)), Some(off), "still out since then");
    }

    #[test]
    fn no_time_off_the_cpu_reaches_over_a_time_without_records() {
        let mut pairs = Pairs::default();
        let switch = |t_ns, tid, kind| Switch { t_ns, tid, cpu: 0, kind };
        pairs.feed(switch(10, 1, SwitchKind::Out));
        let off = |tid, out_ns, in_ns| Off { tid, preempted: false, out_ns, in_ns };
        assert_eq!(pairs.end_at(50).collect::<Vec<_>>(), [off(1, 10, 50)]);
        assert_eq!(pairs.still_out().count(), 0);
        pairs.begin_at(100, &[1, 2]);
        assert_eq!(pairs.feed(switch(130, 1, SwitchKind::In)), Some(off(1, 100, 130)));
        assert_eq!(pairs.feed(switch(140, 2, SwitchKind::Out)), None, "it ran until now");
        assert_eq!(pairs.feed(switch(145, 2, SwitchKind::In)), Some(off(2, 140, 145)));
        assert_eq!(pairs.feed(switch(150, 3, SwitchKind::In)), None, "born since");
        pairs.feed(switch(95, 4, SwitchKind::Out));
        assert_eq!(pairs.feed(switch(155, 4, SwitchKind::In)), Some(off(4, 100, 155)));
        assert_eq!(pairs.feed(switch(160, 1, SwitchKind::In)), None, "told before");
    }
}
