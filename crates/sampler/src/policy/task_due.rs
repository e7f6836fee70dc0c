//! What a late request's suspended tasks are due for in a pass.
//!
//! How it works: following a task costs tens of microseconds; seeing that it did not move costs
//! three guarded reads. So the same record is written again while nothing moved. The more late
//! requests there are, the less often each is asked.

/// A task that does not move is recorded again after this time; with many of them up to
/// `MOST_REPEAT_NS`, which a reader must still take for one and the same await.
const REPEAT_NS: u64 = 100_000_000;
const MOST_REPEAT_NS: u64 = 250_000_000;
/// Requests that are asked as often as one is.
const FEW: u64 = 4;
/// A request's record is repeated for this time at most; then its task is followed again.
pub const FOLLOW_AGAIN_NS: u64 = 1_000_000_000;
/// Tasks followed in one pass, all those of a request that awaits several.
pub const MOST_FOLLOWED: usize = 3;
/// A request that awaits several tasks is asked this often: which of them moved is not asked each
/// pass.
const REPEAT_SEVERAL_NS: u64 = 30_000_000;
/// Asked this often with this many tasks, less often with more: the more there are, the sooner one
/// of them has moved, and then all are followed.
const SEVERAL: u64 = 3;
/// Tasks that work for no request are sampled this often, and `MOST_AROUND` at a time.
pub const AROUND_NS: u64 = 40_000_000;
/// See `AROUND_NS`.
pub const MOST_AROUND: usize = 6;

/// What a request asks for in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    No,
    /// Nothing moved: the same records again.
    Repeat,
    /// Its tasks are followed.
    Follow,
}

/// What is due for a request of which `tasks` tasks were recorded `since_ns` ago. `late`: requests
/// that are late; `often`: whether one task moved may be asked at any time. `moved`: whether any
/// has; `still`: whether all are where they were, and were followed lately.
pub fn due(
    (tasks, since_ns): (u64, u64),
    (late, often): (u64, bool),
    moved: impl FnOnce() -> bool,
    still: impl FnOnce() -> bool,
) -> Due {
    let several = tasks > 1;
    let several_ns = REPEAT_SEVERAL_NS * tasks.div_ceil(SEVERAL);
    let least_ns = if several { several_ns } else { REPEAT_NS };
    let repeat_ns = (least_ns * late / FEW).clamp(least_ns, MOST_REPEAT_NS.max(least_ns));
    let old = since_ns >= repeat_ns;
    match old {
        false if several || !often => Due::No,
        false if moved() => Due::Follow,
        false => Due::No,
        true if tasks > 0 && still() => Due::Repeat,
        true => Due::Follow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(tasks: u64, ms: u64, late: u64, moved: bool) -> Due {
        due((tasks, ms * MS), (late, true), || moved, || !moved)
    }

    #[test]
    fn one_task_is_followed_as_soon_as_it_moves_and_repeated_each_tenth_of_a_second() {
        assert_eq!(of(1, 10, 1, true), Due::Follow);
        assert_eq!((of(1, 99, 1, false), of(1, 100, 1, false)), (Due::No, Due::Repeat));
        assert_eq!(of(1, 100, 1, true), Due::Follow);
        assert_eq!(of(0, 100, 1, false), Due::Follow, "its task was gone, or could not be read");
        let asked = || unreachable!("it is not asked whether it moved");
        assert_eq!(due((1, 10 * MS), (1, false), asked, || true), Due::No);
    }

    #[test]
    fn many_late_requests_are_repeated_less_often_up_to_a_quarter_of_a_second() {
        assert_eq!((of(1, 199, 8, false), of(1, 200, 8, false)), (Due::No, Due::Repeat));
        assert_eq!((of(1, 249, 99, false), of(1, 250, 99, false)), (Due::No, Due::Repeat));
    }

    #[test]
    fn a_request_that_awaits_several_is_followed_whole_and_less_often_the_more_there_are() {
        assert_eq!((of(3, 29, 1, true), of(3, 30, 1, true)), (Due::No, Due::Follow));
        assert_eq!((of(12, 119, 1, true), of(12, 120, 1, true)), (Due::No, Due::Follow));
        // More than can be repeated within the longest time: no panic.
        assert_eq!(of(30, 300, 99, true), Due::Follow);
    }
}
