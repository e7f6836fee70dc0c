//! States of threads, and the awaits of event loops' tasks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use analysis::states::Threads;
use analysis::timeline::{Segment, State};
use analysis::words;
use capture::read::Capture;
use format::record::{flag, Await, Sample};
use format::wait::{HolderSource, WaitKind};

use super::lanes::Lanes;
use super::track::{arg, Arg, Args, Slice, Subject, Track, Visit};

/// A waiting task is sampled again at least this often; a longer gap means that nothing was seen.
const STALE_NS: u64 = 300_000_000;

/// Frames of a task that are shown, innermost first: its own and those of the tasks that await it.
const MOST_FRAMES: usize = 32;

/// The rest of a wait's time limit when it was first seen.
const LIMIT: &str = "timeout_ns";

/// A thread's states, by time. Adjacent states that do not contradict each other are one slice: in
/// a long wait, later samples know more, and only its time limit decreases.
pub fn states<'c>(threads: &Threads<'c>, tid: u32) -> Vec<Slice<'c>> {
    let mut out: Vec<Slice<'c>> = Vec::new();
    for segment in threads.states(tid) {
        if segment.state == State::Unknown {
            continue;
        }
        let slice = state(threads, &segment);
        match out.last_mut() {
            Some(last) if goes_on(last, &slice) => {
                last.end_ns = slice.end_ns;
                for more in slice.args {
                    if !last.args.iter().any(|(name, _)| *name == more.0) {
                        last.args.push(more);
                    }
                }
            }
            _ => out.push(slice),
        }
    }
    out
}

/// Whether `next` is the same state, and no fact known in both differs.
fn goes_on(last: &Slice<'_>, next: &Slice<'_>) -> bool {
    let same = |(name, value): &(Cow<'_, str>, Arg)| {
        name == LIMIT || last.args.iter().all(|(known, before)| known != name || before == value)
    };
    (last.end_ns, &last.name, last.category) == (next.begin_ns, &next.name, next.category)
        && next.args.iter().all(same)
}

fn state<'c>(threads: &Threads<'c>, segment: &Segment<'c>) -> Slice<'c> {
    let name = match (segment.state, segment.wait()) {
        (State::Run, _) => Cow::Borrowed("running"),
        (State::Ready, _) => Cow::Borrowed(crate::weights::NO_CPU),
        (_, WaitKind::Unknown | WaitKind::Running) => Cow::Borrowed("waiting"),
        (_, kind) => Cow::Owned(format!("waiting: {}", kind.text())),
    };
    let mut args = Vec::new();
    // A running thread is at many places; samples show those.
    if let Some(sample) = segment.sample.filter(|_| segment.state != State::Run) {
        place(&mut args, threads.capture, sample.stack);
        if let Some(task) = words::task(threads.capture, sample.task) {
            arg(&mut args, "task", Arg::Text(task.to_owned()));
        }
        if segment.state == State::Wait {
            wait(&mut args, threads, sample);
        }
    }
    Slice {
        begin_ns: segment.from_ns,
        end_ns: segment.to_ns,
        name,
        category: if segment.exact { "state" } else { "state.estimated" },
        args,
        group: 0,
        flow: None,
    }
}

/// The innermost frame; the whole stack is a sample.
fn place(args: &mut Args<'_>, capture: &Capture, stack: u32) {
    if let Some(frame) = capture.frames(capture.without_native(stack)).next() {
        arg(args, "at", Arg::Text(words::frame(capture, &frame)));
    }
}

fn wait(args: &mut Args<'_>, threads: &Threads<'_>, sample: &Sample) {
    if sample.flags & flag::TRUNCATED != 0 {
        arg(args, "stack cut", Arg::Bool(true));
    }
    let (target, timeout_ns) = words::target_and_limit(sample);
    match words::target(threads.capture, target) {
        Some(target) => arg(args, "target", Arg::Text(target.to_owned())),
        None if target != 0 => arg(args, "futex", Arg::Text(format!("{target:#x}"))),
        None => (),
    }
    match words::lock_name(threads.capture, sample.lock) {
        Some(name) => arg(args, "lock", Arg::Text(name.to_owned())),
        None if sample.lock != 0 => arg(args, "lock", Arg::Text(format!("{:#x}", sample.lock))),
        None => (),
    }
    let held = match sample.holder_source {
        HolderSource::Joined => "joined thread",
        _ => "lock holder",
    };
    let holders = [(held, sample.lock_holder), ("GIL holder", sample.gil_holder)];
    for (what, tid) in holders.into_iter().filter(|(_, tid)| *tid != 0) {
        arg(args, what, Arg::Text(format!("{} ({tid})", threads.name(tid))));
    }
    if sample.lock_holder != 0 {
        arg(args, "holder known from", Arg::Text(source(sample.holder_source).to_owned()));
    }
    arg(args, "system call", Arg::Count(u64::from(sample.call)));
    if timeout_ns != 0 {
        arg(args, LIMIT, Arg::Count(timeout_ns));
    }
}

fn source(source: HolderSource) -> &'static str {
    match source {
        HolderSource::None => "unknown",
        HolderSource::OwnerField => "the lock's owner field",
        HolderSource::WithBlock => "a with block of its",
        HolderSource::Refers => "its code, which refers to it",
        HolderSource::Joined => "the Thread object that is joined",
        HolderSource::Woke => "its own report",
    }
}

/// The tracks with the awaits of requests on event loops, from one sample of a task to the next.
pub fn awaits<'c>(
    threads: &Threads<'c>,
    lanes: &mut Lanes,
    visit: &mut Visit<'_, 'c>,
) -> io::Result<()> {
    let capture = threads.capture;
    let ends: HashMap<u64, u64> =
        capture.requests.iter().filter_map(|r| Some((r.id, r.end_ns?))).collect();
    let mut tasks: Vec<(u64, u64, Vec<&Await>)> = Vec::new();
    let mut requests: Vec<u64> = capture.awaits.keys().copied().collect();
    requests.sort_unstable();
    for request in requests {
        let mut by_task: HashMap<u64, Vec<&Await>> = HashMap::new();
        for seen in &capture.awaits[&request] {
            by_task.entry(seen.task).or_default().push(seen);
        }
        let mut of_request: Vec<_> = by_task.into_iter().map(|(t, s)| (request, t, s)).collect();
        of_request.sort_by_key(|(_, task, _)| *task);
        tasks.extend(of_request);
    }
    let mut slices = Vec::new();
    // Another one for each task, in all parts of a capture.
    let first = capture.part.map_or(0, |part| part.number) << 32;
    for (group, (request, _, observations)) in (first..).zip(&tasks) {
        let end_ns = ends.get(request).copied().unwrap_or(threads.end_ns);
        for (i, seen) in observations.iter().enumerate().filter(|(_, seen)| capture.owns(seen.t_ns))
        {
            let next_ns = observations.get(i + 1).map_or(end_ns, |next| next.t_ns);
            let end_ns = next_ns.min(seen.t_ns.saturating_add(STALE_NS)).max(seen.t_ns);
            let name = Cow::Owned(format!("awaits {}", seen.kind.text()));
            let args = facts(threads, seen);
            let (begin_ns, category, group) = (seen.t_ns, "await", group);
            slices.push(Slice { begin_ns, end_ns, name, category, args, group, flow: None });
        }
    }
    let placed = lanes.place(slices).into_iter().enumerate();
    for (lane, slices) in placed.filter(|(_, slices)| !slices.is_empty()) {
        let (subject, name) = (Subject::Awaits, "awaits".to_owned());
        visit(Track { subject, name, lane, slices, marks: Vec::new() })?;
    }
    Ok(())
}

fn facts<'c>(threads: &Threads<'c>, seen: &Await) -> Args<'c> {
    let capture = threads.capture;
    let mut args = Vec::new();
    arg(&mut args, "request id", Arg::Count(seen.request));
    arg(&mut args, "task", Arg::Text(format!("{:#x}", seen.task)));
    let frames = capture.frames(seen.stack).take(MOST_FRAMES);
    let frames: Vec<String> = frames.map(|f| words::frame(capture, &f)).collect();
    if !frames.is_empty() {
        arg(&mut args, "stack", Arg::Text(frames.join(" < ")));
    }
    if let Some(target) = words::target(capture, seen.target) {
        arg(&mut args, "target", Arg::Text(target.to_owned()));
    }
    if seen.holder != 0 {
        arg(&mut args, "holder task", Arg::Text(format!("{:#x}", seen.holder)));
        arg(&mut args, "holder known from", Arg::Text(source(seen.how).to_owned()));
    }
    if seen.timeout_ns != 0 {
        arg(&mut args, LIMIT, Arg::Count(seen.timeout_ns));
    }
    args
}
