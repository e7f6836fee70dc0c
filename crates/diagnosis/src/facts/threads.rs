//! Of another thread around a wait: whether it ran, waited for others, had no work, or computed all
//! that time.

use analysis::resource::is_epoll;
use analysis::thresholds;
use analysis::timeline::State;
use format::record::{flag, Sample};
use format::wait::WaitKind;

use crate::context::Context;

/// Whether `tid` was on a CPU at some time in `[from, to)`, by switch records or samples.
pub fn ran_in(cx: &Context<'_>, tid: u32, from_ns: u64, to_ns: u64) -> bool {
    let timeline = cx.timeline(tid, from_ns, to_ns);
    timeline.iter().any(|s| s.state == State::Run)
}

/// When anything was first recorded of `tid` by samples and switches.
pub fn first_seen(cx: &Context<'_>, tid: u32) -> Option<u64> {
    let seen = cx.capture.samples.get(&tid).and_then(|s| s.first()).map(|s| s.t_ns);
    let off = cx.capture.off_cpu.get(&tid).and_then(|o| o.first()).map(|o| o.out_ns);
    seen.into_iter().chain(off).min()
}

/// The same; None where no sample has it soon.
pub fn ready_at_most(cx: &Context<'_>, tid: u32, t_ns: u64) -> Option<u64> {
    let next = cx.samples_in(tid, t_ns, t_ns.saturating_add(thresholds::sampled_ns())).first();
    next.filter(|s| s.flags & flag::TIMES != 0).map(|s| s.run_delay_ns)
}

/// Whether `tid` itself waited for others of the process all that time (a lock, a result, a
/// queue), as far as switch records show: it delayed nobody by its own work. A thread whose
/// wait began or ended well within is not meant.
pub(crate) fn is_parked(cx: &Context<'_>, tid: u32, from_ns: u64, to_ns: u64) -> bool {
    let Some(off) = cx.capture.off_cpu.get(&tid) else { return false };
    let whole =
        off[..off.partition_point(|o| o.out_ns <= from_ns + thresholds::asking_ns())].last();
    let Some(whole) = whole.filter(|o| o.in_ns + thresholds::asking_ns() >= to_ns) else {
        return false;
    };
    let seen = cx.samples_in(tid, whole.out_ns, whole.in_ns);
    to_ns - from_ns > thresholds::short_wait_ns() && seen.iter().any(|s| s.wait == WaitKind::Futex)
}

/// Whether `tid` computed from well before a wait to well behind it, and at the same things:
/// nothing that it did had to do with that wait.
pub(crate) fn computes_on(cx: &Context<'_>, tid: u32, (begin_ns, end_ns): (u64, u64)) -> bool {
    let samples = cx.samples_in(
        tid,
        begin_ns.saturating_sub(thresholds::samples_apart_ns()),
        end_ns + thresholds::samples_apart_ns(),
    );
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return false };
    let around = first.t_ns + thresholds::just_before_sampled_ns() <= begin_ns
        && last.t_ns >= end_ns + thresholds::just_before_sampled_ns();
    if !around || samples.iter().any(|s| s.wait != WaitKind::Running) {
        return false;
    }
    let own = |stack: u32| cx.frames.of(stack).filter(|f| !cx.frames.is_shared(f));
    let path = |s: &&Sample| own(s.stack).map(|f| (f.function, f.file)).collect::<Vec<_>>();
    let seen = samples.iter().filter(|s| s.stack != 0);
    let (inside, outside): (Vec<_>, Vec<_>) =
        seen.partition(|s| (begin_ns..end_ns).contains(&s.t_ns));
    let outside: Vec<_> = outside.iter().map(path).collect();
    inside.iter().filter(|s| outside.contains(&path(s))).count() * 2 >= inside.len()
}

/// Whether a sample found `tid` waiting for something to do: for connections, or for any of
/// several descriptors, but in a request. With a time limit a socket's answer is waited for in
/// `poll` as well.
pub(crate) fn waits_for_work(cx: &Context<'_>, tid: u32, sample: &Sample) -> bool {
    let asks = || {
        let leaf = cx.frames.of(sample.stack).find(|f| !f.native);
        let is = |name: &str| leaf.is_some_and(|f| f.file.ends_with(name));
        let one = || cx.target(sample).is_some_and(|target| !is_epoll(&target));
        is("/socket.py") || is("/ssl.py") || !is("/selectors.py") && one()
    };
    match sample.wait {
        WaitKind::Accept => true,
        WaitKind::Poll => cx.request_end(tid, sample.t_ns).is_none() && !asks(),
        _ => false,
    }
}

/// Whether `tid`, of which `stack` is what it mostly did in that time, waited for something to
/// do, in code that is not the program's: a server's worker that gave back what it had, and has
/// had nothing since.
pub(crate) fn is_idle_worker(
    cx: &Context<'_>,
    tid: u32,
    (from_ns, to_ns): (u64, u64),
    stack: u32,
) -> bool {
    let waits = |s: &Sample| matches!(s.wait, WaitKind::Futex | WaitKind::Poll | WaitKind::Accept);
    let mut samples = cx.samples_in(tid, from_ns, to_ns).iter().filter(|s| s.stack == stack);
    !cx.frames.has_user(stack) && samples.all(waits)
}

/// Until when switch records say that `tid` was off the CPU, if it was so at `t_ns`.
pub(crate) fn off_cpu_until(cx: &Context<'_>, tid: u32, t_ns: u64) -> Option<u64> {
    cx.off_at(tid, t_ns).map(|off| off.in_ns)
}

/// When the thread that had this id at `t_ns` ended; None: it lived on, or nothing is known of it.
pub(crate) fn end_of(cx: &Context<'_>, tid: u32, t_ns: u64) -> Option<u64> {
    let own = cx.capture.threads.iter().filter(|row| row.tid == tid && !row.nested);
    own.filter_map(|row| row.end_ns).filter(|end_ns| *end_ns >= t_ns).min()
}
