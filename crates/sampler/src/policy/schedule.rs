//! When the next pass is made, and what counts as late.
//!
//! How it works: passes are planned a period apart, which the budget stretches while it is spent.
//! While no thread works the sampler naps instead, unless the rings of switch records would fill
//! meanwhile.

use super::budget::Budget;

/// After this many passes in a row that found no thread at work the next one comes `NAP_NS` later,
/// or when a request begins.
const CALM: u32 = 3;
/// The delay of a pass while no thread works.
pub const NAP_NS: u64 = 50_000_000;
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedule {
    /// In a row, that found no thread at work.
    calm_passes: u32,
}

impl Schedule {
    /// A pass found a thread at work, or none.
    pub fn note(&mut self, works: bool) {
        self.calm_passes = if works { 0 } else { self.calm_passes.saturating_add(1) };
    }

    /// When the next pass begins; the last one was planned for `planned_ns`. `usual_ns`: the period
    /// that the settings want; `longest_ns`: until the kernel's rings may be full.
    pub fn next(
        &self,
        budget: &Budget,
        urgent: bool,
        (usual_ns, longest_ns): (u64, u64),
        (planned_ns, now): (u64, u64),
    ) -> Next {
        // The rings must not be full at the next pass, as long as that can be paid somehow.
        let longest_ns = longest_ns.max(usual_ns);
        let period_ns = budget.period_ns(usual_ns, urgent);
        let paid = !budget.is_overdrawn();
        let period_ns = if paid { period_ns.min(longest_ns) } else { period_ns };
        match self.calm_passes >= CALM && longest_ns >= NAP_NS {
            true => Next::Nap { until_ns: now + NAP_NS.max(period_ns), period_ns },
            false => Next::At((planned_ns + period_ns).max(now.saturating_sub(period_ns))),
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
    use super::*;

    const MS: u64 = 1_000_000;
    const USUAL: (u64, u64) = (10 * MS, u64::MAX);

    #[test]
    fn a_nap_begins_behind_three_calm_passes_and_ends_with_work() {
        let (mut schedule, budget) = (Schedule::default(), Budget::new(1.0, 0));
        let next = |schedule: &Schedule| schedule.next(&budget, false, USUAL, (100 * MS, 101 * MS));
        for _ in 0..2 {
            schedule.note(false);
            assert_eq!(next(&schedule), Next::At(110 * MS));
        }
        schedule.note(false);
        assert_eq!(next(&schedule), Next::Nap { until_ns: 151 * MS, period_ns: 10 * MS });
        schedule.note(true);
        assert_eq!(next(&schedule), Next::At(110 * MS));
    }

    #[test]
    fn rings_that_fill_soon_allow_no_nap_and_no_stretched_period() {
        let (mut schedule, mut budget) = (Schedule::default(), Budget::new(1.0, 0));
        (0..9).for_each(|_| schedule.note(false));
        let soon = (10 * MS, 20 * MS);
        assert_eq!(schedule.next(&budget, false, soon, (0, 1)), Next::At(10 * MS));
        // All is spent, but not all that may be borrowed: the rings come first.
        budget.spend(160 * MS, MS, super::super::budget::Look::Trickled);
        schedule.note(true);
        assert_eq!(schedule.next(&budget, false, USUAL, (0, 1)), Next::At(30 * MS));
        assert_eq!(schedule.next(&budget, false, soon, (0, 1)), Next::At(20 * MS));
    }

    #[test]
    fn a_pass_that_was_kept_from_its_cpu_is_not_made_up_for() {
        let (schedule, budget) = (Schedule::default(), Budget::new(1.0, 0));
        let late = schedule.next(&budget, false, USUAL, (0, 1000 * MS));
        assert_eq!(late, Next::At(990 * MS), "at once, and no more than one");
        assert_eq!((late_ns(0, 49 * MS), late_ns(0, 50 * MS)), (None, Some(50 * MS)));
        assert_eq!(late_ns(70 * MS, 60 * MS), None);
    }
}
