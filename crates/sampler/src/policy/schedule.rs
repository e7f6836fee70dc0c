//! When the next pass is made, and what counts as late.
//!
//! How it works: passes are planned a period apart, which the budget stretches while it is spent.
//! While no thread works the sampler naps instead, unless the rings of switch records would fill
//! meanwhile.

use super::budget::{Budget, Need};

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
            true => Next::Nap { until_ns: now + NAP_NS.max(period_ns), period_ns },
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
    use super::super::budget::Look;
    use super::*;

    const MS: u64 = 1_000_000;
    const USUAL: (u64, u64) = (10 * MS, u64::MAX);

    #[test]
    fn a_nap_begins_behind_three_calm_passes_and_ends_with_work() {
        let (mut schedule, budget) = (Schedule::default(), Budget::new(1.0, 0));
        let next =
            |schedule: &Schedule| schedule.next(&budget, Need::Usual, USUAL, (100 * MS, 101 * MS));
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
        assert_eq!(schedule.next(&budget, Need::Usual, soon, (0, 1)), Next::At(10 * MS));
        // All is spent, but not all that may be borrowed: the rings come first.
        budget.spend(160 * MS, MS, Look::Trickled);
        schedule.note(true);
        assert_eq!(schedule.next(&budget, Need::Usual, USUAL, (0, 1)), Next::At(30 * MS));
        assert_eq!(schedule.next(&budget, Need::Usual, soon, (0, 1)), Next::At(20 * MS));
    }

    /// A pass begins 60 us behind its plan and costs 130.
    #[test]
    fn while_nothing_is_wrong_no_pass_is_made_in_vain_and_all_cost_half_of_the_budget() {
        let (schedule, mut budget) = (Schedule::default(), Budget::new(1.0, 0));
        let (mut planned_ns, mut passes, mut in_vain) = (0, 0, 0);
        while planned_ns < 60_000 * MS {
            let begin_ns = planned_ns + 60_000;
            let look = budget.may_look(Need::Usual, begin_ns);
            (passes, in_vain) = (passes + 1, in_vain + u64::from(look == Look::No));
            budget.spend(130_000, begin_ns + 130_000, look);
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
        let (schedule, budget) = (Schedule::default(), Budget::new(1.0, 0));
        let late = schedule.next(&budget, Need::Usual, USUAL, (0, 1000 * MS));
        assert_eq!(late, Next::At(990 * MS), "at once, and no more than one");
        assert_eq!((late_ns(0, 49 * MS), late_ns(0, 50 * MS)), (None, Some(50 * MS)));
        assert_eq!(late_ns(70 * MS, 60 * MS), None);
    }
}
