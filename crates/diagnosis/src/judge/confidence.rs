//! How sure a finding is, and what would make it surer.
//!
//! How it works: a finding begins *confirmed*; everything about it that is an estimate, an
//! inference, or not only of slow requests lowers it, and says so in words. `TABLE` has one row for
//! each: what is measured of a finding, the level that it is lowered to, and the words.
//!
//! What it promises: nothing raises it, and the order of the rows changes no level.

use std::collections::{HashMap, HashSet};

use analysis::readable::is_under_a_percent;
use analysis::thresholds;
use analysis::timeline::State;

use super::material::Material;
use crate::cause::Cause;
use crate::causes::locks::lock_wait;
use crate::causes::others::downstream_wait;
use crate::claim::{Slice, Weighed};
use crate::ended_by::read::wakeup_record::{self, WakeRecord};
use crate::explain::{Check, Inference, Threshold};
use crate::facts::{awaits, waiting};
use crate::finding::Confidence;
use crate::groups::{blame, Group};

/// How sure a finding is, what kept it from more, and what that rests on.
pub(crate) struct Sure {
    pub(crate) level: Confidence,
    pub(crate) missing: Vec<String>,
    pub(crate) checks: Vec<Check>,
}

/// A finding, as far as its confidence rests on it.
struct Basis<'a> {
    judge: &'a Material<'a, 'a>,
    group: &'a Group<'a>,
    /// Its share of the excess.
    share: f64,
    /// Slow requests that have it.
    slow: usize,
    /// Control requests that have it.
    normal: usize,
    /// The kind of wait that it is.
    waits: Cause,
}

impl Basis<'_> {
    /// The part of its excess in slices that pass a test.
    fn part(&self, test: impl Fn(&Weighed<'_>) -> bool) -> f64 {
        let own = self.group.slices.iter().filter(|w| test(w));
        own.map(|w| w.excess_ns).sum::<f64>() / self.group.excess_ns().max(1.0)
    }

    /// No stack shows where it was. A process that is stopped, or gets no CPU, is so nowhere in
    /// particular.
    fn is_unseen(&self) -> bool {
        let anywhere = matches!(self.group.cause, Cause::Stopped | Cause::CpuStarved);
        self.group.place.is_none() && !anywhere
    }

    /// The part of the normal requests that have it too.
    fn usual(&self) -> f64 {
        self.normal as f64 / self.judge.controls.len().max(1) as f64
    }

    /// How many control requests bear the name of a slow one; of all, if none does.
    fn alike(&self) -> usize {
        let names: HashSet<u32> = self.judge.requests.slow.iter().map(|r| r.row.name).collect();
        let controls = self.judge.controls.iter();
        let alike = controls.filter(|r| names.contains(&r.row.name)).count();
        if alike > 0 {
            alike
        } else {
            self.judge.controls.len()
        }
    }

    fn is_usual(&self) -> bool {
        self.normal > 0 && self.usual() > thresholds::doubtful_part()
    }
}

/// A figure, its limit, and whether the finding passes.
type Measured = (f64, f64, bool);

/// One reason to be less sure.
struct Row {
    /// The id of its check in an explanation; "" where it is no figure.
    id: &'static str,
    /// What is measured; None where the row says nothing of such a finding.
    measure: fn(&Basis<'_>) -> Option<Measured>,
    /// What a finding that does not pass is lowered to, and why, in words.
    lowers: fn(&Basis<'_>) -> (Confidence, String),
}

/// A figure of which so much is wanted.
fn at_least(value: f64, limit: f64) -> Measured {
    (value, limit, value >= limit)
}

/// A figure of which no more is wanted.
fn at_most(value: f64, limit: f64) -> Measured {
    (value, limit, value <= limit)
}

/// No figure: `wrong` lowers it.
fn unless(wrong: bool) -> Option<Measured> {
    Some((0.0, 0.0, !wrong))
}

/// Lowered to *likely*.
fn likely(why: &str) -> (Confidence, String) {
    (Confidence::Likely, why.to_owned())
}

/// Lowered to *possible*.
fn possible(why: &str) -> (Confidence, String) {
    (Confidence::Possible, why.to_owned())
}

/// All reasons, in the order in which they are reported.
const TABLE: &[Row] = &[
    Row {
        id: "",
        measure: |f| unless(f.group.cause == Cause::Unknown),
        lowers: |_| possible("no source saw what this time was"),
    },
    Row {
        id: "exact-times.least",
        measure: |f| Some(at_least(f.part(|w| w.slice.is_exact()), thresholds::exact_part())),
        lowers: |f| likely(why_estimates(f.judge, f.group)),
    },
    Row {
        id: "",
        measure: |f| unless(f.group.cause == Cause::EventLoopBlocked && awaited_peers(f)),
        lowers: |_| {
            likely(
                "most requests awaited a peer meanwhile: whether it had answered, and the loop \
                 delayed that, is not known",
            )
        },
    },
    Row {
        id: "seen-by-a-sample.least",
        measure: |f| {
            // What is taken from fellows says so in a row of its own.
            let seen = f.part(|w| w.slice.claim.seen || w.slice.claim.by_fellows);
            let enough = f.is_unseen() || seen >= thresholds::half();
            Some((seen, thresholds::half(), enough))
        },
        lowers: |f| match f.part(|w| w.slice.claim.seen || w.slice.claim.by_fellows) {
            seen if is_under_a_percent(seen) => possible("hardly any of it was seen by a sample"),
            seen => {
                let why = format!("only {:.0} % of it was seen by a sample", seen * 100.0);
                match seen < thresholds::small_part() {
                    true => possible(&why),
                    false => likely(&why),
                }
            }
        },
    },
    Row {
        id: "blocker-measured.least",
        measure: |f| {
            use Cause::{DeadlockTimeout, GilWait, LockWait, PoolWait};
            // A notice that did not come has no blocker.
            let of_two = f.waits == DeadlockTimeout && f.group.culprit.is_some();
            let has_blocker = matches!(f.waits, LockWait | GilWait | PoolWait) || of_two;
            has_blocker.then(|| at_least(blame::measured_part(f.group), thresholds::half()))
        },
        lowers: |f| match blame::is_by_overlap(f.group) {
            true => possible(
                "the holder is a guess: that thread was there during these waits, and rarely at \
                 other times",
            ),
            false => likely(why_inferred(f)),
        },
    },
    Row {
        id: "",
        measure: |f| unless(f.waits == Cause::PipeWrite && f.group.culprit.is_some()),
        lowers: |_| likely("which thread empties the pipe was inferred from its code"),
    },
    Row {
        id: "unended.most",
        measure: |f| {
            let unended = || f.part(|w| may_yet_time_out(f.judge, &w.slice));
            f.group.culprit.is_none().then(|| at_most(unended(), thresholds::half()))
        },
        lowers: |_| {
            possible(
                "most of its waits had a time limit and had not ended when the capture was made",
            )
        },
    },
    Row {
        id: "",
        measure: |f| {
            let own =
                |w: &Weighed<'_>| downstream_wait::is_a_loops(w.slice.claim.resource.as_ref());
            let is_wait = f.group.cause == Cause::DownstreamWait;
            unless(is_wait && f.part(own) > thresholds::half())
        },
        lowers: |_| likely("it is an event loop; what its tasks awaited was not read"),
    },
    Row {
        id: "no-cpu.most",
        measure: |f| {
            use Cause::{CpuStarved, CpuThrottled, Stopped};
            let starved = f.part(|w| w.slice.segment.state == State::Ready);
            let is_it = matches!(f.group.cause, CpuStarved | CpuThrottled | Stopped);
            let limit = thresholds::main_part();
            Some((starved, limit, is_it || starved <= limit))
        },
        lowers: |_| likely("the machine was crowded: for most of it the work had no CPU"),
    },
    Row {
        id: "through-inferred-thread.most",
        measure: |f| Some(at_most(f.part(|w| w.slice.claim.inferred), thresholds::doubtful_part())),
        lowers: |_| {
            likely(
                "the thread that the request waited for was inferred: it ran when the wait ended",
            )
        },
    },
    Row {
        id: "by-fellows.most",
        measure: |f| {
            let part = f.part(|w| w.slice.claim.by_fellows);
            (part > 0.0).then(|| at_most(part, thresholds::doubtful_part()))
        },
        lowers: |f| {
            likely(&format!(
                "for {:.0} % of it the request's task was not seen: other requests of its name were \
                 there then",
                f.part(|w| w.slice.claim.by_fellows) * 100.0
            ))
        },
    },
    Row {
        id: "",
        measure: |f| unless(f.is_unseen()),
        lowers: |f| match f.group.cause {
            Cause::Fork => likely("no stack was seen"),
            _ => possible("no stack was seen"),
        },
    },
    Row {
        id: "share.least",
        measure: |f| {
            let is_known = f.group.cause != Cause::Unknown;
            is_known.then(|| at_least(f.share, thresholds::confirmed_share()))
        },
        lowers: |_| likely("it is a small part of the excess"),
    },
    Row {
        id: "normal-requests-with-it.most",
        measure: |f| Some((f.usual(), thresholds::doubtful_part(), !f.is_usual())),
        lowers: |f| {
            let controls = f.judge.controls.len();
            possible(&format!("{} of {controls} normal requests have it too", f.normal))
        },
    },
    Row {
        id: "",
        measure: |f| unless(!f.is_usual() && f.slow == 1 && f.share < thresholds::exact_part()),
        lowers: |_| likely("only one slow request has it"),
    },
    Row {
        id: "",
        measure: |f| unless(f.judge.controls.is_empty()),
        lowers: |_| likely("no normal request was there to compare with"),
    },
    Row {
        id: "",
        measure: |f| {
            let few = (1..thresholds::few_requests()).contains(&f.alike());
            unless(f.slow == 1 && few)
        },
        lowers: |f| likely(&format!("one slow request, and {} to compare with", f.alike())),
    },
];

/// How sure a group's finding is, and what kept it from more.
pub(crate) fn of(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    share: f64,
    slow: usize,
    normal: usize,
) -> Sure {
    let waits = blame::waits(judge.cx, group);
    let basis = Basis { judge, group, share, slow, normal, waits };
    let mut sure = Sure { level: Confidence::Confirmed, missing: Vec::new(), checks: Vec::new() };
    for row in TABLE {
        let Some((value, limit, passed)) = (row.measure)(&basis) else { continue };
        // The sum of nothing is -0.
        let value = value + 0.0;
        if !row.id.is_empty() {
            let threshold = Threshold::part(row.id, limit);
            sure.checks.push(Check { threshold, value, passed });
        }
        if !passed {
            let (level, why) = (row.lowers)(&basis);
            sure.level = sure.level.min(level);
            sure.missing.push(why);
        }
    }
    sure
}

/// Whether the tasks of most of the group's requests were seen to await a peer, and hardly anything
/// else, in the time that the group claims: samples do not show that the answer had come.
fn awaited_peers(f: &Basis<'_>) -> bool {
    let cx = f.judge.cx;
    let mut times: HashMap<usize, (u64, u64)> = HashMap::new();
    for w in &f.group.slices {
        let (from, to) = times.entry(w.request).or_insert((u64::MAX, 0));
        *from = w.slice.segment.from_ns.min(*from);
        *to = w.slice.segment.to_ns.max(*to);
    }
    let waits = |request: usize| {
        let Some((from, to)) = times.get(&request) else { return false };
        let id = f.judge.requests.slow[request].row.id;
        let rows = cx.capture.awaits.get(&id).into_iter().flatten();
        let rows = rows.filter(|row| (*from..*to).contains(&row.t_ns));
        let all: Vec<_> = rows.collect();
        let peers = all.iter().filter(|row| awaits::busy_outside(cx, row)).count();
        peers > 1 && peers * 2 > all.len()
    };
    let awaiting: HashSet<usize> = times.keys().copied().filter(|r| waits(*r)).collect();
    f.part(|w| awaiting.contains(&w.request)) > thresholds::half()
}

/// Why times are estimates.
fn why_estimates(judge: &Material<'_, '_>, group: &Group<'_>) -> &'static str {
    if !judge.cx.capture.meta.source_on("switches") {
        // Why it was off is reported once, below all findings.
        return "times are estimates: source switches was off";
    }
    match blind(judge, group) {
        true if !paused(judge) => {
            "times are estimates: the kernel had no room for some switch records"
        }
        true => {
            "times are estimates: switch records were paused while threads came and went by the \
             thousand"
        }
        false if mostly_on_loops(judge, group) => {
            "when an await began and ended is known to the sampling period only"
        }
        false => {
            "times are estimates: switch records of this time are not in the capture (overwritten, \
             or not yet written)"
        }
    }
}

/// How the blocker of a finding was inferred, or that none is known.
fn why_inferred(f: &Basis<'_>) -> &'static str {
    if f.waits == Cause::DeadlockTimeout {
        return "that each thread had what the other waited for was inferred: one went on when the \
                other gave up";
    }
    let is_known = f.group.culprit.is_some();
    if is_known && blame::is_task(f.group) {
        return "the holder was inferred from what other tasks awaited meanwhile";
    }
    if f.waits == Cause::PoolWait {
        let recorded = |w: &Weighed<'_>| {
            matches!(wakeup_record::of(f.judge.cx, &w.slice.segment), WakeRecord::By(_))
        };
        let of_package =
            |w: &Weighed<'_>| w.slice.claim.blocker.is_some_and(|c| c.by == Inference::SameCode);
        return match is_known {
            true if f.part(recorded) > thresholds::half() => {
                "the holder was inferred: the thread that ended the wait"
            }
            true if f.part(of_package) > thresholds::half() => {
                "the holder was inferred: a thread of the library was at work meanwhile"
            }
            true => "the holder was inferred: the thread that ran when the wait ended",
            false => "no sample saw the holder",
        };
    }
    let by_transaction =
        |w: &Weighed<'_>| w.slice.claim.blocker.is_some_and(|c| c.by == Inference::OpenTransaction);
    if is_known && f.part(by_transaction) > thresholds::half() {
        return "the holder was inferred: its transaction was open meanwhile, and ended when the \
                wait did";
    }
    let resource = f.group.heaviest().and_then(|w| w.slice.claim.resource.as_ref());
    match (lock_wait::is_notice(resource), is_known) {
        (true, true) => "the waker was inferred: the thread that ran when the wait ended",
        (true, false) => "no sample saw the thread that was to end the wait",
        (false, true) => {
            "the holder was inferred: the thread that was in the same call, or ran when the wait \
             ended"
        }
        (false, false) => "no sample saw the holder",
    }
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
    let estimates = group.slices.iter().map(|p| &p.slice).filter(|s| !s.is_exact());
    let mut lies_in = estimates
        .map(|s| &s.segment)
        .map(|s| paused.iter().any(|(from, to)| *from < s.to_ns && *to > s.from_ns));
    lies_in.any(|blind| blind)
}

/// Whether most of what is an estimate in it is of requests on an event loop.
fn mostly_on_loops(judge: &Material<'_, '_>, group: &Group<'_>) -> bool {
    let estimates = group.slices.iter().filter(|p| !p.slice.is_exact());
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
