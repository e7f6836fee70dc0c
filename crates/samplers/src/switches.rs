//! Context switches -> times off the CPU.
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | `PERF_RECORD_SWITCH` (`sys::perf`) | one `OffCpu` a pair of out and in | CLOCK_MONOTONIC ns | Linux 4.3 |
//!
//! Pure: fed one switch at a time. A thread that is out has its `out` kept here until it comes
//! back; `still_out` tells them, so that a capture knows what every thread is doing now.

use std::collections::HashMap;
use sys::perf::{Switch, SwitchKind};

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
    out: HashMap<u32, (u64, bool)>,
}

impl Pairs {
    /// Takes one switch; the finished interval when it ends one.
    pub fn feed(&mut self, switch: Switch) -> Option<Off> {
        match switch.kind {
            SwitchKind::In => {
                let (out_ns, preempted) = self.out.remove(&switch.tid)?;
                let in_ns = switch.t_ns.max(out_ns);
                Some(Off { tid: switch.tid, preempted, out_ns, in_ns })
            }
            kind => {
                let preempted = kind == SwitchKind::Preempted;
                self.out.insert(switch.tid, (switch.t_ns, preempted));
                None
            }
        }
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
}
