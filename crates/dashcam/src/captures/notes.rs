//! Limits that were reached, reported on stderr: one line at first, then at most one a minute with
//! the count since.
//!
//! How it works: code that reaches a limit adds to a loss counter and goes on; `dashcam-capture`
//! reads the counters about twice a second. So a line costs the program nothing, however often a
//! limit is reached.
//!
//! Missing on purpose: losses that are not the program's doing, or that have a line of their own.

use format::region::losses;

/// Time between two lines about one limit.
const MINUTE_NS: u64 = 60_000_000_000;

/// Limits that are reported: the counter, and what it counts.
const LIMITS: &[(usize, &str)] = &[
    (
        losses::ATTRIBUTES_CUT,
        "attributes cut or left out (at most 8, texts of 64 bytes, of events 512)",
    ),
    (losses::SPAN_EVENTS_CUT, "events of spans left out (at most 64 a span)"),
    (losses::SPAN_LINKS_CUT, "links of spans left out (at most 16 a span)"),
    (losses::SPANS_UNTRACKED, "open spans not shown before their end (at most 15 on a thread)"),
    (losses::NAMES_REFUSED, "names refused (too many distinct ones; see memory=)"),
    (losses::METRICS_REFUSED, "calls of metrics refused (see metrics_series=)"),
];

/// What was reported of each limit.
#[derive(Default)]
pub(crate) struct Notes {
    reported: [Reported; LIMITS.len()],
}

#[derive(Clone, Copy, Default)]
struct Reported {
    count: u64,
    /// Not before; 0: nothing was reported yet.
    next_ns: u64,
}

impl Notes {
    /// What was counted before is not reported again.
    pub(crate) fn since(counts: &[u64]) -> Notes {
        let mut notes = Notes::default();
        for (reported, (counter, _)) in notes.reported.iter_mut().zip(LIMITS) {
            reported.count = counts.get(*counter).copied().unwrap_or(0);
        }
        notes
    }

    /// Calls `say` with what is due, given all loss counters.
    pub(crate) fn check(&mut self, now_ns: u64, counts: &[u64], mut say: impl FnMut(&str)) {
        for (reported, (counter, what)) in self.reported.iter_mut().zip(LIMITS) {
            let count = counts.get(*counter).copied().unwrap_or(0);
            let more = count.saturating_sub(reported.count);
            if more == 0 || now_ns < reported.next_ns {
                continue;
            }
            match reported.next_ns {
                0 => say(&format!("{more} {what}; status() counts them, docs/losses.md")),
                _ => say(&format!("{more} more {what}")),
            }
            *reported = Reported { count, next_ns: now_ns + MINUTE_NS };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reported_once_and_then_each_minute_with_the_count() {
        let mut notes = Notes::default();
        let mut counts = vec![0; losses::NAMES.len()];
        let mut at = |now_s: u64, cut: u64, notes: &mut Notes| {
            counts[losses::ATTRIBUTES_CUT] = cut;
            let mut said = Vec::new();
            notes.check(now_s * 1_000_000_000, &counts, |line| said.push(line.to_owned()));
            said
        };
        assert_eq!(at(1, 0, &mut notes), Vec::<String>::new());
        assert_eq!(
            at(2, 3, &mut notes),
            ["3 attributes cut or left out (at most 8, texts of 64 bytes, of events 512); status() counts them, docs/losses.md"]
        );
        // A million more within the minute: silence.
        assert_eq!(at(3, 1_000_003, &mut notes), Vec::<String>::new());
        assert_eq!(at(61, 1_000_004, &mut notes), Vec::<String>::new());
        assert_eq!(
            at(62, 1_000_005, &mut notes),
            ["1000002 more attributes cut or left out (at most 8, texts of 64 bytes, of events 512)"]
        );
        assert_eq!(at(500, 1_000_005, &mut notes), Vec::<String>::new(), "nothing new");
    }

    #[test]
    fn each_limit_has_its_own_line() {
        let mut notes = Notes::default();
        let mut counts = vec![0; losses::NAMES.len()];
        counts[losses::NAMES_REFUSED] = 1;
        counts[losses::SPAN_LINKS_CUT] = 2;
        let mut said = 0;
        notes.check(5, &counts, |_| said += 1);
        assert_eq!(said, 2);
    }
}
