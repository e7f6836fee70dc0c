//! When the list of threads is read again.
//!
//! How it works: new and ended threads show in what is read anyway: in switch records, in the
//! interpreter's newest thread, in a sample of them. Then the list is read within `EVERY_NS`; less
//! often where there are so many threads that this would cost more than `SHARE` of the budget.

/// The list is read this often while something says that it is old.
const EVERY_NS: u64 = 100_000_000;
/// The part of the budget that reading it may cost.
const SHARE: f64 = 0.1;
/// At least this often where switch records do not report births, ...
const AT_LEAST_EVERY_NS: u64 = 1_000_000_000;
/// ... and where they do.
const IN_ANY_CASE_NS: u64 = 5_000_000_000;

/// How old the list is.
#[derive(Clone, Copy, Debug)]
pub struct ListAge {
    listed_ns: u64,
    /// When it was last asked whether the list is old.
    asked_ns: u64,
    every_ns: u64,
    /// The last list had threads that the one before had not, or was torn.
    grew: bool,
}

impl Default for ListAge {
    fn default() -> ListAge {
        ListAge { listed_ns: 0, asked_ns: 0, every_ns: EVERY_NS, grew: true }
    }
}

impl ListAge {
    /// Whether to read it now. `exact`: switch records report births; `is_old`: something else says
    /// that it is old, asked at most each `EVERY_NS`.
    pub fn is_due(&mut self, now: u64, exact: bool, is_old: impl FnOnce() -> bool) -> bool {
        if now.saturating_sub(self.asked_ns) < self.every_ns {
            return false;
        }
        self.asked_ns = now;
        let most_ns = if exact { IN_ANY_CASE_NS } else { AT_LEAST_EVERY_NS };
        now.saturating_sub(self.listed_ns) >= most_ns || self.grew || is_old()
    }

    /// The list was read at `now`, which took `cost_ns`. `grew`: there were new threads, or it was
    /// torn; None: it could not be read.
    pub fn read(&mut self, now: u64, cost_ns: u64, budget_percent: f64, grew: Option<bool>) {
        (self.listed_ns, self.asked_ns) = (now, now);
        self.grew = grew.unwrap_or(self.grew);
        let share = SHARE * budget_percent / 100.0;
        self.every_ns = ((cost_ns as f64 / share) as u64).clamp(EVERY_NS, AT_LEAST_EVERY_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The times in ms, up to ten seconds, at which a list is read that costs `cost_ns`.
    fn read_at(exact: bool, cost_ns: u64, mut is_old: impl FnMut(u64) -> bool) -> Vec<u64> {
        let mut list = ListAge::default();
        let mut times = Vec::new();
        for ms in (0..10_000).step_by(10) {
            let now = (ms + 1_000) * MS;
            if list.is_due(now, exact, || is_old(ms)) {
                times.push(ms);
                list.read(now, cost_ns, 1.0, Some(false));
            }
        }
        times
    }

    #[test]
    fn a_quiet_process_is_listed_each_second_and_with_switch_records_each_fifth() {
        assert_eq!(read_at(true, 0, |_| false), [0, 5_000]);
        let each_second: Vec<u64> = (0..10).map(|second| second * 1_000).collect();
        assert_eq!(read_at(false, 0, |_| false), each_second);
    }

    #[test]
    fn births_are_seen_within_a_tenth_of_a_second_and_an_expensive_list_is_read_less_often() {
        assert_eq!(read_at(true, 0, |ms| (2_345..2_450).contains(&ms)), [0, 2_400, 7_400]);
        assert_eq!(read_at(true, 0, |_| true).len(), 100);
        // 0.3 ms are a tenth of what 300 ms bring in at 1 %.
        assert_eq!(read_at(true, 300_000, |_| true).len(), 34);
        assert_eq!(read_at(true, 50 * MS, |_| true).len(), 10);
    }
}
