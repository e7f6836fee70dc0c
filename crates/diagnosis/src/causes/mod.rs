//! The causes, one file each: what claims a segment of a slow request for it, and what to say.
//!
//! A segment is offered to all rules; of those that claim it the one on the heaviest grounds has it
//! (`grounds`). What none claims is `unknown`. A rule reads one segment and its surroundings only;
//! comparing with normal requests, grouping and ranking come later and are the same for all.

pub(crate) mod cpus;
pub(crate) mod grounds;
pub(crate) mod locks;
pub(crate) mod others;
pub(crate) mod python;
pub(crate) mod recorder;
pub(crate) mod rule;
pub(crate) mod system;
pub(crate) mod unknown;

use analysis::timeline::Segment;
use format::wait::AwaitKind;

use crate::cause::Cause;
use crate::causes::cpus::{cpu, cpu_starved, cpu_throttled};
use crate::causes::grounds::Grounds;
use crate::causes::locks::{deadlock_timeout, lock_wait};
use crate::causes::others::{connect, dns, downstream_wait, pool_wait, sleep, subprocess_wait};
use crate::causes::python::{event_loop_blocked, gc_pause, gil_wait, import};
use crate::causes::rule::{AwaitRule, Row, Rule};
use crate::causes::system::{disk_io, fork, page_fault, pipe_write, stopped};
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::tasks::library_thread;
use crate::ended_by::tasks::task::{self, For};
use crate::facts::awaits::{self, Awaited};

/// The rules; their order decides nothing.
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
    disk_io::ON_CPU,
    cpu_throttled::RULE,
    cpu_starved::RULE,
    cpu::RULE,
];

/// The rules for suspended tasks; their order decides nothing.
const AWAITS: &[AwaitRule] = &[
    of_await("sleep-of-task", Grounds::TimeLimit, sleep::awaited),
    of_await("deadlock-timeout-of-task", Grounds::TimeLimit, deadlock_timeout::awaited),
    of_await("lock-wait-of-library", Grounds::Helpers, lock_of_library),
    of_await("lock-wait-of-task", Grounds::Primitive, lock_wait::awaited),
    of_await("pool-wait-of-task", Grounds::Primitive, pool_wait::awaited),
    of_await("dns-of-task", Grounds::Code, dns::awaited),
    of_await("connect-of-task", Grounds::Call, connect::awaited),
    of_await("subprocess-wait-of-task", Grounds::Call, subprocess_wait::awaited),
    of_await("downstream-wait-of-task", Grounds::Call, downstream_wait::awaited),
];

type AwaitClaim = fn(&Context<'_>, &Awaited<'_>, &Segment<'_>) -> Option<Claim>;

const fn of_await(id: &'static str, grounds: Grounds, claim: AwaitClaim) -> AwaitRule {
    AwaitRule { id, grounds, claim }
}

/// The claim on a segment; `unknown` when no rule wants it.
pub fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Claim {
    by_rules(cx, RULES, segment).unwrap_or_else(|| {
        let resource = unknown::resource(cx, segment);
        Claim { resource, ..Claim::of(Cause::Unknown, segment) }
    })
}

/// The claim of the rule on the heaviest grounds.
fn by_rules(cx: &Context<'_>, rules: &[Rule], segment: &Segment<'_>) -> Option<Claim> {
    rule::heaviest(cx, rules, |r| r.grounds, |r| r.id, |r| r.claim(cx, segment))
}

/// The claim on time in which a request's task awaits something.
pub(crate) fn awaited(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Claim {
    let ask =
        |rule: &AwaitRule| (rule.claim)(cx, seen, segment).map(|claim| claim.by_rule(rule.id));
    let found = rule::heaviest(cx, AWAITS, |r| r.grounds, |r| r.id, ask);
    found.unwrap_or_else(|| Claim::of_await(Cause::Unknown, seen.row, segment))
}

/// The claim on time in which an event loop was kept from going on, whatever its tasks awaited.
pub(crate) fn of_the_loop(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let whole = by_rules(cx, &[stopped::RULE, gc_pause::RULE], segment);
    whole.or_else(|| event_loop_blocked::is_kept(cx, segment).then(|| claim(cx, segment)))
}

/// The lock that a library's thread asked for, of a task that awaits what that thread is to answer:
/// what the request waited for, and the task that most likely has it.
fn lock_of_library(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let row = seen.row;
    let outside = awaits::target(cx, row).is_some() || !awaits::by_library(cx, row);
    if row.kind != AwaitKind::Future || outside {
        return None;
    }
    let wait = library_thread::wait(cx, seen, segment)?;
    let claim = claim(cx, &wait);
    let holder = || task::blocker(cx, seen, segment, For::Database);
    (claim.cause == Cause::LockWait).then(|| {
        let blocker = claim.blocker.or_else(holder);
        Claim { stack: row.stack, blocker, inferred: true, ..claim }
    })
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
