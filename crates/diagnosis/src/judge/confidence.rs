//! How sure a finding is, and what would make it surer.
//!
//! How it works: a finding begins *confirmed*; everything about it that is an estimate, an
//! inference, or not only of slow requests lowers it, and says so in words. What it promises:
//! nothing raises it.

use analysis::thresholds;
use analysis::timeline::State;

use super::material::Material;
use crate::cause::Cause;
use crate::causes::{downstream_wait, lock_wait};
use crate::claim::{Slice, Weighed};
use crate::ended_by::wakeup_record::{self, WakeRecord};
use crate::explain::{Check, Threshold};
use crate::facts::waiting;
use crate::finding::Confidence;
use crate::groups::{blame, Group};

/// Why a task that had something is not named for sure.
const INFERRED_TASK: &str = "who had it was inferred from what other tasks awaited the while";

/// A smaller part is not given as a number.
const HARDLY_ANY: f64 = 0.01;

/// How sure a finding is, what kept it from more, and what that rests on.
pub(crate) struct Sure {
    pub(crate) level: Confidence,
    pub(crate) missing: Vec<String>,
    pub(crate) checks: Vec<Check>,
}

/// Whether threads that came and went may be why there were none: none were lost, or there was
/// a burst of thread creation.
fn paused(judge: &Material<'_, '_>) -> bool {
    let losses = &judge.cx.capture.meta.losses;
    let any = |what: &str| losses.iter().any(|(name, count)| name == what && *count > 0);
    any("switch_pauses") || !any("switches_lost")
}

/// Whether pauses of switch records, or gaps in them, are why some of its times are estimates.
fn blind(judge: &Material<'_, '_>, group: &Group<'_>) -> bool {
    let paused = &judge.cx.capture.switches_paused;
    let segments = group.slices.iter().map(|p| &p.slice.segment).filter(|s| !s.exact);
    let mut lies_in =
        segments.map(|s| paused.iter().any(|(from, to)| *from < s.to_ns && *to > s.from_ns));
    lies_in.any(|blind| blind)
}

/// Whether most of what is an estimate in it is of requests on an event loop.
fn mostly_on_loops(judge: &Material<'_, '_>, group: &Group<'_>) -> bool {
    let estimates = group.slices.iter().filter(|p| !p.slice.segment.exact);
    let (mut on_loop, mut all) = (0.0, 0.0);
    for p in estimates {
        all += p.excess_ns;
        on_loop += p.excess_ns * f64::from(judge.requests.slow[p.request].row.on_loop);
    }
    on_loop * 2.0 >= all
}

/// Whether an interval is of a wait for notice (an Event, a Condition) that still went on when
/// the capture ended, and may end by its time limit: then it is a pause, and no thread was to
/// end it.
fn may_yet_time_out(judge: &Material<'_, '_>, slice: &Slice<'_>) -> bool {
    let waits = lock_wait::is_notice(slice.claim.resource.as_ref());
    let limited = slice.segment.sample.is_some_and(|s| s.timeout_ns > 1);
    waits && limited && waiting::is_still_waiting(judge.cx, &slice.segment)
}

/// How sure a group's finding is, and what kept it from more.
pub(crate) fn of(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    share: f64,
    slow: usize,
    normal: usize,
) -> Sure {
    let total = group.excess_ns().max(1.0);
    let part = |test: &dyn Fn(&Weighed<'_>) -> bool| {
        group.slices.iter().filter(|p| test(p)).map(|p| p.excess_ns).sum::<f64>() / total
    };
    let mut missing = Vec::new();
    let mut level = Confidence::Confirmed;
    let mut checks: Vec<Check> = Vec::new();
    let mut check = |name, value: f64, limit: f64, passed: bool| {
        // The sum of nothing is -0.
        let value = value + 0.0;
        checks.push(Check { threshold: Threshold::part(name, limit), value, passed });
        passed
    };
    let mut lower = |to: Confidence, why: String, level: &mut Confidence| {
        *level = (*level).min(to);
        missing.push(why);
    };
    if group.cause == Cause::Unknown {
        lower(Confidence::Possible, "no source saw what this time was".to_owned(), &mut level);
    }
    let exact = part(&|p| p.slice.segment.exact);
    if !check(
        "exact-times.least",
        exact,
        thresholds::exact_part(),
        exact >= thresholds::exact_part(),
    ) {
        let state = judge.cx.capture.meta.sources.iter().find(|(n, _)| n == "switches");
        let text = match state.map_or("off", |(_, s)| s.as_str()) {
            on if on.starts_with("on") && blind(judge, group) && !paused(judge) => {
                "times are estimates: the kernel had no room for some switch records".to_owned()
            }
            on if on.starts_with("on") && blind(judge, group) => {
                "times are estimates: switch records were paused while threads came and went \
                 by the thousand"
                    .to_owned()
            }
            on if on.starts_with("on") && mostly_on_loops(judge, group) => {
                "when an await began and ended is known to the sampling period only".to_owned()
            }
            on if on.starts_with("on") => {
                "times are estimates: switch records of this time are not in the capture \
                 (overwritten, or not yet written)"
                    .to_owned()
            }
            // Why it was off is reported once, below all findings.
            _ => "times are estimates: source switches was off".to_owned(),
        };
        lower(Confidence::Likely, text, &mut level);
    }
    let seen = part(&|p| p.slice.claim.seen);
    let unseen = group.place.is_none() && group.cause != Cause::Stopped;
    let seen_enough = unseen || seen >= thresholds::half();
    if !check("seen-by-a-sample.least", seen, thresholds::half(), seen_enough) {
        let text = match seen {
            seen if seen < HARDLY_ANY => "hardly any of it was seen by a sample".to_owned(),
            seen => format!("only {:.0} % of it was seen by a sample", seen * 100.0),
        };
        let to =
            if seen < thresholds::small_part() { Confidence::Possible } else { Confidence::Likely };
        lower(to, text, &mut level);
    }
    let waits = blame::waits(judge.cx, group);
    let measured = blame::measured_part(group);
    use Cause::{DeadlockTimeout, GilWait, LockWait, PoolWait};
    if matches!(waits, LockWait | GilWait | DeadlockTimeout | PoolWait) {
        let enough = blame::is_measured(group);
        check("blocker-measured.least", measured, thresholds::half(), enough);
    }
    if matches!(waits, LockWait | GilWait) && !blame::is_measured(group) {
        let resource = group.heaviest().and_then(|w| w.slice.claim.resource.as_ref());
        let notice = lock_wait::is_notice(resource);
        let text = match group.culprit {
            Some(_) if blame::is_task(group) => INFERRED_TASK,
            Some(_) if notice => "who ended the wait was inferred from who ran when it ended",
            None if notice => "who was to end the wait was not seen",
            Some(_) => {
                "the holder was inferred from who stood in the same call, or ran when the wait \
                 ended"
            }
            None => "who held it was not seen",
        };
        lower(Confidence::Likely, text.to_owned(), &mut level);
    }
    if waits == Cause::DeadlockTimeout && !blame::is_measured(group) {
        let text = "that each had what the other waited for was inferred: one went on when the \
                    other gave up";
        lower(Confidence::Likely, text.to_owned(), &mut level);
    }
    if waits == Cause::PoolWait && !blame::is_measured(group) {
        let recorded = |p: &Weighed<'_>| {
            matches!(wakeup_record::of(judge.cx, &p.slice.segment), WakeRecord::By(_))
        };
        let text = match group.culprit {
            Some(_) if blame::is_task(group) => INFERRED_TASK,
            Some(_) if part(&recorded) > thresholds::half() => {
                "who had it is taken to be who ended the wait"
            }
            Some(_) => "who had it was inferred from who ran when the wait ended",
            None => "who had it was not seen",
        };
        lower(Confidence::Likely, text.to_owned(), &mut level);
    }
    let unended = part(&|p| may_yet_time_out(judge, &p.slice));
    if group.culprit.is_none()
        && !check("unended.most", unended, thresholds::half(), unended <= thresholds::half())
    {
        let text = "most of its waits had a time limit and had not ended when the capture was made";
        lower(Confidence::Possible, text.to_owned(), &mut level);
    }
    let of_a_loop = |p: &Weighed<'_>| downstream_wait::is_a_loops(p.slice.claim.resource.as_ref());
    if group.cause == Cause::DownstreamWait && part(&of_a_loop) > thresholds::half() {
        let text = "it is an event loop; what its tasks awaited was not read";
        lower(Confidence::Likely, text.to_owned(), &mut level);
    }
    let starved = part(&|p| p.slice.segment.state == State::Ready);
    let still = matches!(group.cause, Cause::CpuStarved | Cause::CpuThrottled | Cause::Stopped);
    if !check(
        "no-cpu.most",
        starved,
        thresholds::main_part(),
        still || starved <= thresholds::main_part(),
    ) {
        let text = "the machine was crowded: for most of it the work had no CPU";
        lower(Confidence::Likely, text.to_owned(), &mut level);
    }
    let inferred = part(&|p| p.slice.claim.inferred);
    if !check(
        "through-inferred-thread.most",
        inferred,
        thresholds::doubtful_part(),
        inferred <= thresholds::doubtful_part(),
    ) {
        let text = "which thread the request waited for was inferred from who ran when it ended";
        lower(Confidence::Likely, text.to_owned(), &mut level);
    }
    if unseen {
        let least = Confidence::Possible;
        let to = if group.cause == Cause::Fork { Confidence::Likely } else { least };
        lower(to, "no stack was seen".to_owned(), &mut level);
    }
    if !check(
        "share.least",
        share,
        thresholds::confirmed_share(),
        share >= thresholds::confirmed_share(),
    ) {
        level = level.min(Confidence::Likely);
    }
    let usual = normal as f64 / judge.controls.len().max(1) as f64;
    let rare = !(normal > 0 && usual > thresholds::doubtful_part());
    if !check("normal-requests-with-it.most", usual, thresholds::doubtful_part(), rare) {
        let text = format!("{normal} of {} normal requests have it too", judge.controls.len());
        lower(Confidence::Possible, text, &mut level);
    } else if slow == 1 && share < thresholds::exact_part() {
        lower(Confidence::Likely, "only one slow request has it".to_owned(), &mut level);
    }
    if judge.controls.is_empty() {
        let text = "no normal request was there to compare with";
        lower(Confidence::Likely, text.to_owned(), &mut level);
    } else if slow == 1 && judge.controls.len() < thresholds::few_requests() {
        let text = format!("one slow request, and {} to compare with", judge.controls.len());
        lower(Confidence::Likely, text, &mut level);
    }
    Sure { level, missing, checks }
}
