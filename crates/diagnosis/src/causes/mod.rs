//! The causes, one file each: what claims a segment of a slow request for it, and what to say.
//!
//! A segment is offered to the rules in the order of `RULES`; the first that claims it has it. What
//! none claims is `unknown`. A rule reads one segment and its surroundings only; comparing with
//! normal requests, grouping and ranking come later and are the same for all.

pub(crate) mod connect;
pub(crate) mod cpu;
pub(crate) mod cpu_starved;
pub(crate) mod cpu_throttled;
pub(crate) mod deadlock_timeout;
pub(crate) mod disk_io;
pub(crate) mod dns;
pub(crate) mod downstream_wait;
pub(crate) mod event_loop_blocked;
pub(crate) mod fork;
pub(crate) mod gc_pause;
pub(crate) mod gil_wait;
pub(crate) mod import;
pub(crate) mod lock_wait;
pub(crate) mod page_fault;
pub(crate) mod pipe_write;
pub(crate) mod pool_wait;
pub(crate) mod recorder;
pub(crate) mod rule;
pub(crate) mod sleep;
pub(crate) mod stopped;
pub(crate) mod subprocess_wait;
pub(crate) mod unknown;

use analysis::timeline::Segment;
use format::wait::AwaitKind;

use crate::cause::Cause;
use crate::causes::rule::{AwaitRule, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::holder;
use crate::facts::awaits::Awaited;
use crate::facts::pools;

/// The rules in the order they are asked.
pub const RULES: &[Rule] = &[
    stopped::RULE,
    gc_pause::RULE,
    fork::RULE,
    recorder::RULE,
    event_loop_blocked::RULE,
    import::RULE,
    sleep::RULE,
    gil_wait::RULE,
    deadlock_timeout::RULE,
    cpu::OF_LIBRARY,
    pool_wait::RULE,
    lock_wait::RULE,
    dns::RULE,
    connect::RULE,
    subprocess_wait::RULE,
    pipe_write::RULE,
    downstream_wait::RULE,
    page_fault::RULE,
    disk_io::RULE,
    cpu_throttled::RULE,
    cpu_starved::RULE,
    cpu::RULE,
];

/// The rules for suspended tasks in the order they are asked, each with its id.
const AWAITS: &[(&str, AwaitRule)] = &[
    ("sleep-of-task", sleep::awaited),
    ("deadlock-timeout-of-task", deadlock_timeout::awaited),
    ("lock-wait-of-task", lock_wait::awaited),
    ("pool-wait-of-task", pool_wait::awaited),
    ("dns-of-task", dns::awaited),
    ("connect-of-task", connect::awaited),
    ("subprocess-wait-of-task", subprocess_wait::awaited),
    ("downstream-wait-of-task", downstream_wait::awaited),
];

/// The claim on a segment; `unknown` when no rule wants it.
pub fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Claim {
    let first = RULES.iter().find_map(|rule| rule.claim(cx, segment));
    first.unwrap_or_else(|| {
        let resource = unknown::resource(cx, segment);
        Claim { resource, ..Claim::of(Cause::Unknown, segment) }
    })
}

/// The claim on time in which a request's task awaits something.
pub(crate) fn awaited(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Claim {
    let claimed = |(id, rule): &(&'static str, AwaitRule)| {
        rule(cx, seen, segment).map(|claim| claim.by_rule(id))
    };
    let of_worker = lock_of_worker(cx, seen, segment);
    let first = of_worker.or_else(|| AWAITS.iter().find_map(claimed));
    first.unwrap_or_else(|| Claim::of_await(Cause::Unknown, seen.row, segment))
}

/// The claim on time in which an event loop was kept from going on, whatever its tasks awaited.
pub(crate) fn of_the_loop(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let whole = [stopped::RULE, gc_pause::RULE];
    let found = whole.iter().find_map(|rule| rule.claim(cx, segment));
    found.or_else(|| event_loop_blocked::is_kept(cx, segment).then(|| claim(cx, segment)))
}

/// The blocker of the thread that most likely works for the future that was awaited, where that was
/// a lock with a known holder: what the request waited for in the end.
fn lock_of_worker(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let row = seen.row;
    if row.kind != AwaitKind::Executor || pools::futures_are_of_processes(cx) {
        return None;
    }
    let wait = holder::locked_worker(cx, segment, row.stack, seen.seen_ns, seen.until_ns)?;
    let claim = claim(cx, &wait);
    let known = claim.cause == Cause::LockWait && claim.blocker.is_some();
    known.then_some(Claim { waiter: row.stack, inferred: true, ..claim })
}

/// Whether what an event loop's thread did is reported, whichever request or task it did it for:
/// not what the request itself awaited.
pub fn is_in_everybodys_way(cause: Cause) -> bool {
    use Cause::{CpuStarved, EventLoopBlocked, Fork, GcPause, GilWait};
    matches!(cause, CpuStarved | EventLoopBlocked | Fork | GcPause | GilWait)
}

/// What is said of findings of a cause.
pub fn row(cause: Cause) -> &'static Row {
    match cause {
        Cause::Connect => &connect::ROW,
        Cause::Cpu => &cpu::ROW,
        Cause::CpuStarved => &cpu_starved::ROW,
        Cause::CpuThrottled => &cpu_throttled::ROW,
        Cause::DeadlockTimeout => &deadlock_timeout::ROW,
        Cause::DiskIo => &disk_io::ROW,
        Cause::Dns => &dns::ROW,
        Cause::DownstreamWait => &downstream_wait::ROW,
        Cause::EventLoopBlocked => &event_loop_blocked::ROW,
        Cause::Fork => &fork::ROW,
        Cause::GcPause => &gc_pause::ROW,
        Cause::GilWait => &gil_wait::ROW,
        Cause::Import => &import::ROW,
        Cause::LockWait => &lock_wait::ROW,
        Cause::PageFault => &page_fault::ROW,
        Cause::PipeWrite => &pipe_write::ROW,
        Cause::PoolWait => &pool_wait::ROW,
        Cause::Recorder => &recorder::ROW,
        Cause::Sleep => &sleep::ROW,
        Cause::Stopped => &stopped::ROW,
        Cause::SubprocessWait => &subprocess_wait::ROW,
        Cause::Unknown => &unknown::ROW,
    }
}
