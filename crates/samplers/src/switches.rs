//! Context switches -> intervals off the CPU.
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | `PERF_RECORD_SWITCH` (`sys::perf`) | an `OffCpu` for each out and in | ns | Linux 4.3 |
//!
//! How it works: pure; fed one switch at a time. The `out` of a thread that is off the CPU is kept
//! here until it comes back; `still_out` lists these, so that a capture shows the present state of
//! every thread.
//!
//! Where records end (`end_at`) the open intervals end too. Where they begin again (`begin_at`), a
//! thread that existed and first comes back was off the CPU since then. Where records were lost
//! (`lose`) it is the same: no interval spans a gap, since another one may have begun and ended
//! inside of it.

use sys::perf::{Switch, SwitchKind};

use crate::by_tid::ByTid;

/// A finished or open interval off the CPU.
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
    /// To which CPU, where it came back.
    pub cpu: Option<u16>,
}

/// Pairs switches by thread.
#[derive(Default)]
pub struct Pairs {
    out: ByTid<(u64, bool)>,
    /// Threads without a record since records began again.
    silent: ByTid<()>,
    begin_ns: u64,
}

impl Pairs {
    /// Takes one switch; the finished interval when it ends one.
    pub fn feed(&mut self, switch: Switch) -> Option<Off> {
        let is_switch = !matches!(switch.kind, SwitchKind::Woken { .. } | SwitchKind::Lost { .. });
        // Earlier records say nothing of what the thread did until then.
        let early = switch.t_ns < self.begin_ns;
        let silent = is_switch
            && !early
            && !self.silent.is_empty()
            && self.silent.remove(&switch.tid).is_some();
        match switch.kind {
            SwitchKind::In => {
                let out = self.out.remove(&switch.tid).filter(|_| !early);
                let (out_ns, preempted) = out.or(silent.then_some((self.begin_ns, false)))?;
                let in_ns = switch.t_ns.max(out_ns);
                Some(Off { tid: switch.tid, preempted, out_ns, in_ns, cpu: Some(switch.cpu) })
            }
            SwitchKind::Woken { .. } | SwitchKind::Lost { .. } => None,
            kind => {
                let preempted = kind == SwitchKind::Preempted;
                // Records may come a moment before all threads have them: before `begin_at`.
                self.out.insert(switch.tid, (switch.t_ns.max(self.begin_ns), preempted));
                None
            }
        }
    }

    /// No more records from `now_ns` on: returns the intervals that are open then.
    pub fn end_at(&mut self, now_ns: u64) -> impl Iterator<Item = Off> + '_ {
        self.silent.clear();
        self.out.drain().map(move |(tid, (out_ns, preempted))| Off {
            tid,
            preempted,
            out_ns: out_ns.min(now_ns),
            in_ns: now_ns,
            cpu: None,
        })
    }

    /// Records begin again at `now_ns`; `alive` are the threads that exist already.
    pub fn begin_at(&mut self, now_ns: u64, alive: impl Iterator<Item = u32>) {
        self.begin_ns = now_ns;
        self.out.clear();
        self.silent.clear();
        self.silent.extend(alive.map(|tid| (tid, ())));
    }

    /// Records are missing between the two times: closes intervals at the first, and begins again
    /// at the second if it is known; with `u64::MAX` nothing is known until `begin_at`. False:
    /// records were missing already.
    pub fn lose(
        &mut self,
        (from_ns, until_ns): (u64, u64),
        alive: impl Iterator<Item = u32>,
        ended: impl FnMut(Off),
    ) -> bool {
        if until_ns <= self.begin_ns {
            return false;
        }
        self.end_at(from_ns.max(self.begin_ns)).for_each(ended);
        self.begin_at(until_ns, alive);
        true
    }

    /// Threads that are off the CPU now.
    pub fn still_out(&self) -> impl Iterator<Item = Off> + '_ {
        let open = format::record::STILL_OUT;
        self.out.iter().map(move |(tid, (out_ns, preempted))| Off {
            tid: *tid,
            preempted: *preempted,
            out_ns: *out_ns,
            in_ns: open,
            cpu: None,
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
        let mut feed = |t_ns, tid, kind| pairs.feed(Switch { t_ns, tid, cpu: 3, kind });
        assert_eq!(feed(5, 1, SwitchKind::In), None, "its out was before we looked");
        assert_eq!(feed(10, 1, SwitchKind::Out), None);
        assert_eq!(feed(11, 2, SwitchKind::Preempted), None);
        let off = |tid, preempted, out_ns, in_ns| {
            Some(Off { tid, preempted, out_ns, in_ns, cpu: Some(3) })
        };
        assert_eq!(feed(30, 1, SwitchKind::In), off(1, false, 10, 30));
        assert_eq!(pairs.out_since(2), Some(11));
        assert_eq!(pairs.still_out().count(), 1);
    }

    #[test]
    fn a_wakeup_ends_no_off_cpu_interval() {
        let mut pairs = Pairs::default();
        let switch = |t_ns, tid, kind| Switch { t_ns, tid, cpu: 0, kind };
        let woken = SwitchKind::Woken { by: sys::perf::Waker::Thread(2) };
        pairs.feed(switch(10, 1, SwitchKind::Out));
        assert_eq!(pairs.feed(switch(20, 1, woken)), None);
        let off = Off { tid: 1, preempted: false, out_ns: 10, in_ns: 30, cpu: Some(0) };
        assert_eq!(pairs.feed(switch(30, 1, SwitchKind::In)), Some(off));
        pairs.begin_at(100, [1].into_iter());
        assert_eq!(pairs.feed(switch(120, 1, woken)), None);
        let off = Off { tid: 1, preempted: false, out_ns: 100, in_ns: 130, cpu: Some(0) };
        assert_eq!(pairs.feed(switch(130, 1, SwitchKind::In)), Some(off), "still out since then");
    }

    #[test]
    fn no_off_cpu_interval_spans_a_time_without_records() {
        let mut pairs = Pairs::default();
        let switch = |t_ns, tid, kind| Switch { t_ns, tid, cpu: 0, kind };
        pairs.feed(switch(10, 1, SwitchKind::Out));
        let off = |tid, out_ns, in_ns| Off { tid, preempted: false, out_ns, in_ns, cpu: Some(0) };
        let ended = Off { cpu: None, ..off(1, 10, 50) };
        assert_eq!(pairs.end_at(50).collect::<Vec<_>>(), [ended], "it came to no CPU");
        assert_eq!(pairs.still_out().count(), 0);
        pairs.begin_at(100, [1, 2].into_iter());
        assert_eq!(pairs.feed(switch(130, 1, SwitchKind::In)), Some(off(1, 100, 130)));
        assert_eq!(pairs.feed(switch(140, 2, SwitchKind::Out)), None, "it ran until now");
        assert_eq!(pairs.feed(switch(145, 2, SwitchKind::In)), Some(off(2, 140, 145)));
        assert_eq!(pairs.feed(switch(150, 3, SwitchKind::In)), None, "born since");
        pairs.feed(switch(95, 4, SwitchKind::Out));
        assert_eq!(pairs.feed(switch(155, 4, SwitchKind::In)), Some(off(4, 100, 155)));
        assert_eq!(pairs.feed(switch(160, 1, SwitchKind::In)), None, "told before");
    }

    /// The switches of threads 1 and 2, in order: `(tid, t)`, negative when it leaves its CPU.
    fn fed(pairs: &mut Pairs, given: &[(u32, i64)]) -> Vec<(u32, u64, u64)> {
        let mut offs = Vec::new();
        for (tid, t) in given {
            let kind = if *t < 0 { SwitchKind::Out } else { SwitchKind::In };
            let off = pairs.feed(Switch { t_ns: t.unsigned_abs(), tid: *tid, cpu: 0, kind });
            offs.extend(off.map(|off| (off.tid, off.out_ns, off.in_ns)));
        }
        offs
    }

    fn lose(pairs: &mut Pairs, from_ns: u64, until_ns: u64) -> Option<Vec<(u32, u64, u64)>> {
        let mut ended = Vec::new();
        let end = |off: Off| ended.push((off.tid, off.out_ns, off.in_ns));
        pairs.lose((from_ns, until_ns), [1, 2].into_iter(), end).then_some(ended)
    }

    #[test]
    fn no_off_cpu_interval_spans_a_loss() {
        let mut pairs = Pairs::default();
        assert_eq!(fed(&mut pairs, &[(1, -10), (2, -20), (2, 25), (3, -30)]), [(2, 20, 25)]);
        let mut ended = lose(&mut pairs, 40, 100).expect("news");
        ended.sort_unstable();
        assert_eq!(ended, [(1, 10, 40), (3, 30, 40)]);
        // Other rings than the full one had records meanwhile.
        assert_eq!(fed(&mut pairs, &[(1, 50), (1, -60), (2, -70), (2, 80)]), []);
        // Thread 1 was off since there was room again, 2 ran until 120, 3 is in no list.
        let given = [(1, 110), (2, -120), (2, 130), (3, 140), (3, -150), (3, 160)];
        assert_eq!(fed(&mut pairs, &given), [(1, 100, 110), (2, 120, 130), (3, 150, 160)]);
    }

    #[test]
    fn a_loss_whose_end_is_not_known_yet_goes_on_until_it_is() {
        let mut pairs = Pairs::default();
        fed(&mut pairs, &[(1, -10)]);
        assert_eq!(lose(&mut pairs, 40, u64::MAX), Some(vec![(1, 10, 40)]));
        assert_eq!(lose(&mut pairs, 45, u64::MAX), None, "another ring's");
        assert_eq!(lose(&mut pairs, 45, 50), None);
        assert_eq!(fed(&mut pairs, &[(1, 50), (1, -60), (1, 70), (1, -80)]), []);
        pairs.begin_at(100, [1, 2].into_iter());
        assert_eq!(lose(&mut pairs, 40, 100), None, "the kernel's count comes later");
        assert_eq!(lose(&mut pairs, 40, 90), None);
        assert_eq!(
            fed(&mut pairs, &[(1, 110), (2, 120), (2, -130)]),
            [(1, 100, 110), (2, 100, 120)]
        );
        assert_eq!(
            lose(&mut pairs, 140, 200),
            Some(vec![(2, 130, 140)]),
            "the next one is another"
        );
    }
}
