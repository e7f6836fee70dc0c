//! The thread that is to empty what is full, a queue or a pipe within the process, or to say by a
//! Condition that it is done.
//!
//! How it works: a queue and the thread that empties it are the same code. So that thread is in
//! the file of the code that puts into the queue, or of the program's own that called that, for
//! most of the wait, at something else than waiting for an item; and it is no producer itself: no
//! function of that file that it is in led to the wait, nor is it in the one that puts. Of a pipe
//! it was also seen to read one in that file, before or later; and the thread that gave notice was
//! not still at the same work behind the end of the wait.
//!
//! What it promises: an inference; nobody where several fit, at different places.

use analysis::frames::Owner;
use analysis::resource::{Of, Resource};
use analysis::signatures::{self, Stdlib};
use analysis::thresholds::{self, is_part};
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::record::Sample;
use format::wait::WaitKind;

use crate::claim::{Blocker, Link};
use crate::compare::{self, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fact, Inference};
use crate::facts::{pools, threads, waiting};

/// The thread that most likely is to empty the full queue or pipe that is waited for.
pub(crate) fn of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let files = files(cx, segment.stack());
    let found = files.into_iter().map(|file| in_file(cx, segment, file));
    found.into_iter().find(|found| !found.is_empty()).and_then(|found| one(cx, segment, &found))
}

/// What a thread waits for that a worker in the same code is to give: room in a queue (the
/// interpreter's may be made of a pipe), or notice of a Condition.
pub(crate) fn waits_for(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Link> {
    let room = || pools::puts(cx, segment.stack());
    match segment.wait() {
        _ if segment.state != State::Wait => None,
        // A thread that writes to a pipe of its own with a lock in hand is to blame itself.
        WaitKind::PipeWrite => {
            cx.frames.any_at(segment.stack(), Stdlib::ProcessQueue).then_some(Link::Room)
        }
        WaitKind::Futex if room() => Some(Link::Room),
        WaitKind::Futex if is_for_notice(cx, segment) => Some(Link::Notice),
        _ => None,
    }
}

/// Whether a wait is for a Condition's notice, which did not fail to come.
pub(crate) fn is_for_notice(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let notice = cx.frames.resource(segment.stack(), &signatures::NOTICES);
    notice == Some(Resource::Condition(Of::Threads)) && !waiting::timed_out(cx, segment)
}

/// The files whose code may know what is waited for: of the innermost function that is not the
/// interpreter's, and of the program's innermost.
fn files<'c>(cx: &Context<'c>, stack: u32) -> Vec<&'c str> {
    let owned = |f: &Frame<'_>| matches!(cx.frames.owner(f.file), Owner::User | Owner::Library);
    let inner = cx.frames.above_launchers(stack).find(owned).map(|f| f.file);
    let mut files: Vec<&str> = inner.into_iter().collect();
    files.extend(cx.frames.own_files(stack).first().filter(|file| inner != Some(*file)));
    files
}

/// The threads that were at work in code of `file` for most of the wait, and where.
fn in_file(cx: &Context<'_>, segment: &Segment<'_>, file: &str) -> Vec<(u32, u32)> {
    let (from, to) = segment.times();
    let works = |s: &Sample| is_at_work(cx, segment, file, s);
    let (begin, end) = whole_times(cx, segment);
    // With switch records a blocked thread is sampled once, which may have been before: it was
    // there until it ran.
    let was_there = |tid: u32| {
        let before = cx.samples_in(tid, 0, to).last().filter(|s| segment.exact && works(s))?;
        let until = threads::off_cpu_until(cx, tid, before.t_ns)?.min(to);
        is_part(until.saturating_sub(before.t_ns.max(from)), thresholds::main_part(), to - from)
            .then_some(tid)
    };
    let able = |tid: u32| {
        let samples = cx.samples_in(tid, begin.min(from), end.max(to));
        let there = samples.iter().filter(|s| works(s)).count();
        let often = there >= thresholds::repeated()
            && is_part(there as u64, thresholds::main_part(), samples.len() as u64);
        often.then_some(tid).or_else(|| was_there(tid))
    };
    let pipe = segment.wait() == WaitKind::PipeWrite;
    let others = cx.others(segment.tid).filter_map(able);
    let others = others.filter(|tid| !pipe || reads_a_pipe(cx, *tid, file));
    let notice = waits_for(cx, segment) == Some(Link::Notice);
    let others = others.filter(|tid| !notice || !stayed(cx, segment, end, *tid, works));
    let with_stack = |tid: u32| (tid, cx.main_stack(tid, from, to));
    others.map(with_stack).filter(|(_, stack)| *stack != 0).collect()
}

/// When the wait began and ended. By estimates it is cut at its samples: all of its length shows
/// more.
fn whole_times(cx: &Context<'_>, segment: &Segment<'_>) -> (u64, u64) {
    let (begin, end) = cx.whole_wait(segment).times();
    let Some(own) = segment.sample.filter(|_| !segment.exact) else { return (begin, end) };
    let same = |s: &&Sample| s.wait == own.wait && s.stack == own.stack;
    let samples = cx.all_samples(segment.tid);
    let at = samples.partition_point(|s| s.t_ns < own.t_ns);
    let first = samples[..at].iter().rev().take_while(same).last().map_or(begin, |s| s.t_ns);
    let last = samples[at..].iter().take_while(same).last().map_or(end, |s| s.t_ns);
    (begin.min(first), end.max(last))
}

/// Whether a sample found a thread at work in code of `file`, and not on the way to what the wait
/// is for.
fn is_at_work(cx: &Context<'_>, segment: &Segment<'_>, file: &str, sample: &Sample) -> bool {
    let is_in = |f: &Frame<'_>| f.file == file && !f.is_module_body();
    let mut own = cx.frames.of(sample.stack).filter(is_in).peekable();
    let Some(inner) = own.peek().map(|f| f.function) else { return false };
    let pipe = segment.wait() == WaitKind::PipeWrite;
    let idle = pipe && sample.wait == WaitKind::PipeRead
        || sample.wait == WaitKind::Futex && pools::is_of_a_pool(cx, sample.stack);
    let led_to_it = cx.frames.any(segment.stack(), |f| is_in(f) && f.function == inner);
    let puts = cx.frames.of(segment.stack()).find(is_in).map(|f| f.function);
    let produces = led_to_it || own.any(|f| Some(f.function) == puts);
    !idle && !produces
}

/// Whether a thread was at the same work before a wait ended and afterwards, so that it gave no
/// notice meanwhile. With switch records: it did not run at all.
fn stayed(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    end: u64,
    tid: u32,
    works: impl Fn(&Sample) -> bool,
) -> bool {
    let before = cx.samples_in(tid, 0, end).iter().rev().find(|s| works(s));
    let after = cx.samples_in(tid, end, u64::MAX).first();
    before.is_some_and(|before| match segment.exact {
        true => threads::off_cpu_until(cx, tid, before.t_ns).is_some_and(|until| until > end),
        false => after.is_some_and(|s| (s.stack, s.wait) == (before.stack, before.wait)),
    })
}

/// Whether a thread was ever seen to read from a pipe in code of `file`.
fn reads_a_pipe(cx: &Context<'_>, tid: u32, file: &str) -> bool {
    let samples = cx.all_samples(tid).iter();
    let mut reads = samples.filter(|s| s.wait == WaitKind::PipeRead);
    reads.any(|s| cx.frames.is_in_file(s.stack, file))
}

/// The one of the threads, if all are at one place.
fn one(cx: &Context<'_>, segment: &Segment<'_>, found: &[(u32, u32)]) -> Option<Blocker> {
    let (tid, stack) = *found.first()?;
    let one = found.iter().all(|(_, other)| cx.same_place(*other, stack));
    let by = Inference::QueueReader;
    let tally: Vec<(u32, u64)> = found.iter().map(|(tid, _)| (*tid, 1)).collect();
    let won = (one.then_some(tid), Dropped::Ambiguous);
    compare::keep_tally(cx, Question::about(by, segment), (&tally, Fact::Samples), won, &[]);
    one.then(|| Blocker::thread(tid, stack, false, by))
}
