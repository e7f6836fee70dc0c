//! When the next pass is made, and what counts as late.
//!
//! How it works: passes are planned a period apart, which the budget stretches while it is spent.
//! While no thread works the sampler naps instead, unless the rings of switch records would fill
//! meanwhile. It naps longer in a process that had no request for a minute: nothing there is to be
//! explained, and what wakes up ten times a second, as servers do, is no work.

use super::budget::{Budget, Need};
use super::progress::Since;

/// After this many passes in a row that found no thread at work the next one comes `NAP_NS` later,
/// or when a request begins.
const CALM: u32 = 3;
/// The delay of a pass while no thread works.
pub const NAP_NS: u64 = 50_000_000;
/// The same in a process that has been without requests for `UNUSED_NS`. A stop of the whole
/// process (SIGSTOP, a paused machine) that begins within a nap is seen from the nap's end on.
pub const LONG_NAP_NS: u64 = 250_000_000;
/// As much as a black box remembers of a busy service.
pub const UNUSED_NS: u64 = 60_000_000_000;
/// In a process that has been without requests, threads work if they use more than this part of a
/// CPU. An idle server with an event loop uses a fifth of that.
const WORK_PART: u64 = 100;
/// Without switch records, a thread that used less CPU time than this since the last pass did not
/// work.
pub const WORK_NS: u64 = 100_000;
/// A wake-up later than this is a gap worth a record.
pub const LATE_NS: u64 = 50_000_000;

/// When the next pass is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this time.
    At(u64),
    /// No thread works: at this time, or `period_ns` after a request's begin.
    Nap {
        /// The time.
        until_ns: u64,
        /// A thread that has just begun a request is not to be sampled, nor kept from a CPU, at
        /// once.
        period_ns: u64,
    },
}

/// Passes so far.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Requests begun by the last pass.
    begun: u64,
    /// When there was a request, or recording began.
    requested_ns: u64,
    is_unused: bool,
    /// In a row, that found no thread at work.
    calm_passes: u32,
}

impl Schedule {
    /// Recording begins.
    pub fn new(now: u64) -> Schedule {
        Schedule { begun: 0, requested_ns: now, is_unused: false, calm_passes: 0 }
    }

    /// A pass at `now` found this, and whether a request is `open` and whether a thread `ran`, as
    /// far as clocks show it where there are no switch records.
    pub fn note(&mut self, since: &Since, (open, ran): (bool, bool), now: u64) {
        let began = std::mem::replace(&mut self.begun, since.begun) != since.begun;
        let requested = began || open;
        if requested {
            self.requested_ns = now;
        }
        self.is_unused = now.saturating_sub(self.requested_ns) >= UNUSED_NS;
        let works = match self.is_unused {
            true => since.cpu_ns > since.ns / WORK_PART,
            false => requested || ran,
        };
        self.calm_passes = if works { 0 } else { self.calm_passes.saturating_add(1) };
    }

    /// When the next pass begins; the last one was planned for `planned_ns`. `usual_ns`: the period
    /// that the settings want; `longest_ns`: until the kernel's rings may be full.
    pub fn next(
        &self,
        budget: &Budget,
        need: Need,
        (usual_ns, longest_ns): (u64, u64),
        (planned_ns, now): (u64, u64),
    ) -> Next {
        // The rings must not be full at the next pass, as long as that can be paid somehow.
        let longest_ns = longest_ns.max(usual_ns);
        let period_ns = budget.period_ns(usual_ns, need);
        let paid = !budget.is_overdrawn();
        let period_ns = if paid { period_ns.min(longest_ns) } else { period_ns };
        let paid_at_ns =
            budget.paid_at_ns(usual_ns, need).min(planned_ns.saturating_add(longest_ns));
        match self.calm_passes >= CALM && longest_ns >= NAP_NS {
            true => {
                let nap_ns = if self.is_unused { LONG_NAP_NS.min(longest_ns) } else { NAP_NS };
                Next::Nap { until_ns: now + nap_ns.max(period_ns), period_ns }
            }
            false => {
                let next_ns = (planned_ns + period_ns).max(now.saturating_sub(period_ns));
                Next::At(next_ns.max(paid_at_ns))
            }
        }
    }
}

/// How late a pass is that was planned for `planned_ns`, where that is worth a record: proof that
/// the sampler, which waits for no other thread, could not run.
pub fn late_ns(planned_ns: u64, now: u64) -> Option<u64> {
    Some(now.saturating_sub(planned_ns)).filter(|late_ns| *late_ns >= LATE_NS)
}

#[cfg(test)]
mod tests {
    use super::super::budget::PaidBy;
    use super::*;

    const MS: u64 = 1_000_000;
    const USUAL: (u64, u64) = (10 * MS, u64::MAX);

    const CALM_PASS: Since = Since { begun: 7, ns: 50 * MS, cpu_ns: 0, gil_wanted: false };
    const TICKS: Since = Since { cpu_ns: MS / 10, ..CALM_PASS };
    const WORKS: Since = Since { cpu_ns: MS, ..CALM_PASS };
    const CALM_THREADS: (bool, bool) = (false, false);
    const RAN: (bool, bool) = (false, true);
    const OPEN: (bool, bool) = (true, false);

    /// What comes behind three passes at `now` that found this.
    fn behind(schedule: &mut Schedule, since: Since, found: (bool, bool), now: u64) -> Next {
        (0..CALM).for_each(|_| schedule.note(&since, found, now));
        schedule.next(&Budget::new(1.0, 0), Need::Usual, USUAL, (now, now + MS))
    }

    fn usual(now: u64) -> Next {
        Next::At(now + 10 * MS)
    }

    #[test]
    fn a_nap_begins_behind_three_calm_passes_and_ends_with_work() {
        let mut schedule = Schedule::new(0);
        for _ in 1..CALM {
            schedule.note(&CALM_PASS, CALM_THREADS, 100 * MS);
            let next =
                schedule.next(&Budget::new(1.0, 0), Need::Usual, USUAL, (100 * MS, 101 * MS));
            assert_eq!(next, usual(100 * MS));
        }
        let nap = Next::Nap { until_ns: 151 * MS, period_ns: 10 * MS };
        assert_eq!(behind(&mut schedule, CALM_PASS, CALM_THREADS, 100 * MS), nap);
        for works in [RAN, OPEN] {
            assert_eq!(behind(&mut schedule, CALM_PASS, works, 100 * MS), usual(100 * MS));
            assert_eq!(behind(&mut schedule, CALM_PASS, CALM_THREADS, 100 * MS), nap);
        }
    }

    #[test]
    fn a_process_that_had_no_request_for_a_minute_naps_longer_though_threads_tick() {
        let mut schedule = Schedule::new(0);
        schedule.note(&CALM_PASS, CALM_THREADS, 0);
        let minute = UNUSED_NS;
        let long = |now: u64| Next::Nap { until_ns: now + 251 * MS, period_ns: 10 * MS };
        assert_eq!(behind(&mut schedule, TICKS, RAN, minute - 1), usual(minute - 1));
        assert_eq!(behind(&mut schedule, TICKS, RAN, minute), long(minute));
        assert_eq!(behind(&mut schedule, WORKS, RAN, minute), usual(minute));
        assert_eq!(behind(&mut schedule, TICKS, RAN, minute), long(minute));
        // A request, though it is over: as any service, for a minute.
        let one_more = Since { begun: 8, ..TICKS };
        assert_eq!(behind(&mut schedule, one_more, RAN, minute), usual(minute));
        assert_eq!(behind(&mut schedule, one_more, RAN, 2 * minute - 1), usual(2 * minute - 1));
        assert_eq!(behind(&mut schedule, one_more, RAN, 2 * minute), long(2 * minute));
        let rings = (10 * MS, 80 * MS);
        let next = schedule.next(&Budget::new(1.0, 0), Need::Usual, rings, (0, 0));
        assert_eq!(next, Next::Nap { until_ns: 80 * MS, period_ns: 10 * MS }, "rings come first");
    }

    #[test]
    fn rings_that_fill_soon_allow_no_nap_and_no_stretched_period() {
        let (mut schedule, mut budget) = (Schedule::new(0), Budget::new(1.0, 0));
        (0..9).for_each(|_| schedule.note(&CALM_PASS, CALM_THREADS, 0));
        let soon = (10 * MS, 20 * MS);
        assert_eq!(schedule.next(&budget, Need::Usual, soon, (0, 1)), Next::At(10 * MS));
        // All is spent, but not all that may be borrowed: the rings come first.
        budget.spend(160 * MS, MS, PaidBy::Trickle);
        schedule.note(&WORKS, RAN, 0);
        assert_eq!(schedule.next(&budget, Need::Usual, USUAL, (0, 1)), Next::At(30 * MS));
        assert_eq!(schedule.next(&budget, Need::Usual, soon, (0, 1)), Next::At(20 * MS));
    }

    /// A pass begins 60 us behind its plan and costs 130.
    #[test]
    fn while_nothing_is_wrong_no_pass_is_made_in_vain_and_all_cost_half_of_the_budget() {
        let (schedule, mut budget) = (Schedule::new(0), Budget::new(1.0, 0));
        let (mut planned_ns, mut passes, mut in_vain) = (0, 0, 0);
        while planned_ns < 60_000 * MS {
            let begin_ns = planned_ns + 60_000;
            let paid_by = budget.may_sample(Need::Usual, begin_ns);
            (passes, in_vain) = (passes + 1, in_vain + u64::from(paid_by == PaidBy::Nothing));
            budget.spend(130_000, begin_ns + 130_000, paid_by);
            let times = (planned_ns, begin_ns + 130_000);
            planned_ns = match schedule.next(&budget, Need::Usual, USUAL, times) {
                Next::At(next_ns) | Next::Nap { until_ns: next_ns, .. } => next_ns,
            };
        }
        assert_eq!(in_vain, 0, "of {passes}");
        let spent = passes as f64 * 130_000.0 / planned_ns as f64;
        assert!((0.0045..0.0054).contains(&spent), "{spent}");
    }

    #[test]
    fn a_pass_that_was_kept_from_its_cpu_is_not_made_up_for() {
        let (schedule, budget) = (Schedule::new(0), Budget::new(1.0, 0));
        let late = schedule.next(&budget, Need::Usual, USUAL, (0, 1000 * MS));
        assert_eq!(late, Next::At(990 * MS), "at once, and no more than one");
        assert_eq!((late_ns(0, 49 * MS), late_ns(0, 50 * MS)), (None, Some(50 * MS)));
        assert_eq!(late_ns(70 * MS, 60 * MS), None);
    }
}
