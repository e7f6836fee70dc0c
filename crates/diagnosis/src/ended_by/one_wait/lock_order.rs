//! Two threads that blocked each other, by locks that do not name their holders.
//!
//! How it works: a lock that was taken by `acquire` has no owner to read. But of two threads that
//! wait for each other's, the one goes on just when the other gives up at its time limit and
//! releases what it had. If that is seen, and no other thread that could have had the lock, it is
//! taken for a deadlock; an inference.
//!
//! What it promises: both wait for different locks in the program's own code; no sample names
//! another holder of either; no other thread worked in the file that waits meanwhile. Cost: a
//! timeline of each thread that was seen to wait in a futex with a time limit during the wait.

use analysis::frames::Owner;
use analysis::thresholds;
use analysis::timeline::Segment;
use capture::read::Frame;
use format::record::{Sample, TARGET_IS_NAME};
use format::wait::{HolderSource, WaitKind};

use crate::claim::Blocker;
use crate::compare::{self, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fate, Inference};
use crate::facts::{pools, waiting};

/// A wait of one of the two.
struct Wait {
    lock: u64,
    begin_ns: u64,
    end_ns: u64,
    gave_up: bool,
}

impl Wait {
    /// All of it, of which `slice` is a part.
    fn whole<'c>(&self, slice: &Segment<'c>) -> Segment<'c> {
        Segment { from_ns: self.begin_ns, to_ns: self.end_ns, ..*slice }
    }
}

/// The other of the two, or a thread that only waits behind them.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Partner {
    is_behind: bool,
    end_ns: u64,
    tid: u32,
}

/// The thread that waited for a lock which the thread of `segment` had, and that had the one
/// which `segment` waits for, until one of them gave up; None where it may have been otherwise.
pub fn inverted(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let own = lock_wait(cx, segment, &[])?;
    if own.end_ns.saturating_sub(own.begin_ns) < thresholds::turn_ns() {
        return None;
    }
    // Of all of the wait, whichever part of it is asked about.
    let segment = &own.whole(segment);
    let file = cx.frames.innermost_user(segment.stack())?.file;
    let others = || cx.others(segment.tid);
    let first = partner(cx, segment, &own);
    let partner = match first {
        Some(partner) if !partner.is_behind => Some(partner),
        // This one and the other take the same locks in the same order: the question is about
        // the other's partner.
        Some(before) => partner_of(cx, segment, before.tid),
        None => None,
    };
    let partner = partner.or_else(|| ahead(cx, segment, &own))?;
    let (from, to) = segment.times();
    let may_have_had_it = others().any(|other| worked_in(cx, segment, other, &file));
    let stack = cx.main_stack(partner.tid, from, to);
    let by = Inference::LockOrder;
    let blocker = Blocker::thread(partner.tid, stack, false, by);
    let fate = match may_have_had_it {
        true => Fate::Dropped(Dropped::Ambiguous),
        false => Fate::Won,
    };
    compare::keep_one(cx, Question::about(by, segment), &blocker, fate);
    (!may_have_had_it).then_some(blocker)
}

/// The thread whose wait ended when this one was given up, or the other way round: of several a
/// thread that waits behind nobody, and of these the first to go on.
fn partner(cx: &Context<'_>, segment: &Segment<'_>, own: &Wait) -> Option<Partner> {
    let others = cx.others(segment.tid);
    others.filter_map(|tid| crosses(cx, segment, own, tid)).min()
}

/// The partner of `tid`, which waits behind nobody and is not the thread of `segment`.
fn partner_of(cx: &Context<'_>, segment: &Segment<'_>, tid: u32) -> Option<Partner> {
    let timeline = cx.timeline(tid, segment.from_ns, segment.to_ns);
    let wait = longest_wait(&timeline, comparable_ns(segment))?;
    let theirs = lock_wait(cx, &wait, &[segment.tid])?;
    let partner = partner(cx, &theirs.whole(&wait), &theirs)?;
    (!partner.is_behind && partner.tid != segment.tid).then_some(partner)
}

/// Of two that crossed, the one that waits for the very lock that this one waits for: it is
/// behind them.
fn ahead(cx: &Context<'_>, segment: &Segment<'_>, own: &Wait) -> Option<Partner> {
    let others = cx.others(segment.tid);
    let waits = others.filter(|tid| {
        let samples = cx.samples_in(*tid, own.begin_ns, own.end_ns);
        samples.iter().any(|s| s.wait == WaitKind::Futex && s.target == own.lock)
    });
    let crossed = waits.filter_map(|tid| {
        let timeline = cx.timeline(tid, segment.from_ns, segment.to_ns);
        let wait = longest_wait(&timeline, comparable_ns(segment))?;
        let theirs = lock_wait(cx, &wait, &[]).filter(|theirs| theirs.lock == own.lock)?;
        let partner = partner(cx, &theirs.whole(&wait), &theirs).filter(|p| !p.is_behind)?;
        let other = partner.tid != segment.tid;
        other.then_some(Partner { is_behind: false, end_ns: theirs.end_ns, tid })
    });
    crossed.min()
}

/// Whether `tid` waited for another lock until one of the two gave up.
fn crosses(cx: &Context<'_>, segment: &Segment<'_>, own: &Wait, tid: u32) -> Option<Partner> {
    let samples = cx.samples_in(tid, own.begin_ns, own.end_ns);
    let may = |s: &Sample| {
        let limited = own.gave_up || s.timeout_ns > 1;
        s.wait == WaitKind::Futex && s.target != own.lock && limited
    };
    if !samples.iter().any(may) {
        return None;
    }
    let timeline = cx.timeline(tid, segment.from_ns, segment.to_ns);
    let other = longest_wait(&timeline, comparable_ns(segment))?;
    let wait = lock_wait(cx, &other, &[segment.tid])?;
    let exact = segment.exact && other.exact;
    let pair = wait.lock != own.lock && releases_other(exact, own, &wait);
    let is_behind = same_way(cx, segment.stack(), other.stack());
    pair.then_some(Partner { is_behind, end_ns: wait.end_ns, tid })
}

/// Whether `tid` did something in code of `file` for most of `segment`, and may have had a lock
/// there.
fn worked_in(cx: &Context<'_>, segment: &Segment<'_>, tid: u32, file: &str) -> bool {
    let (from, to) = segment.times();
    let stack = cx.main_stack(tid, from, to);
    if !cx.frames.any(stack, |f| is_in(f, file)) || pools::is_idle(cx, stack) {
        return false;
    }
    let parked = cx.sample_near(tid, from + segment.ns() / 2);
    let timeline = cx.timeline(tid, from, to);
    longest_wait(&timeline, segment.ns() / 2).is_none()
        && !parked.is_some_and(|s| matches!(s.wait, WaitKind::Accept | WaitKind::Poll))
}

/// Whether two stacks have the same functions of the program's own, at different lines: one
/// waits for its first lock and the other for its second. Two that wait at one line for
/// different locks took them in opposite order.
fn same_way(cx: &Context<'_>, a: u32, b: u32) -> bool {
    let own = |stack| cx.frames.of(stack).filter(|f| cx.frames.owner(f.file) == Owner::User);
    let functions = |stack| own(stack).map(|f| (f.function, f.file));
    let lines = |stack| own(stack).map(|f| f.line);
    functions(a).eq(functions(b)) && !lines(a).eq(lines(b))
}

/// The wait around `segment`, if it is for a lock of the program's own code whose holder no
/// sample names, or whose holder is named and is one of `known`.
fn lock_wait(cx: &Context<'_>, segment: &Segment<'_>, known: &[u32]) -> Option<Wait> {
    let own = segment.sample.filter(|s| s.target != 0 && s.target & TARGET_IS_NAME == 0)?;
    let leaf = cx.frames.of(segment.stack()).find(|f| !f.native)?;
    // What `threading` waits for in Python code of its own is a notice, or a permit; an RLock
    // of C code has no frame.
    if cx.frames.owner(leaf.file) != Owner::User || pools::is_of_a_pool(cx, segment.stack()) {
        return None;
    }
    let whole = cx.whole_wait(segment);
    let mut named = cx.samples_of(&whole).filter(|s| s.holder_source != HolderSource::None);
    let named_other = named.any(|s| !known.contains(&s.lock_holder));
    let (begin_ns, end_ns) = whole.times();
    let gave_up = waiting::timed_out(cx, segment);
    (!named_other).then_some(Wait { lock: own.target, begin_ns, end_ns, gave_up })
}

/// A frame of that file, not of what is under everything that its thread does.
fn is_in(frame: &Frame<'_>, file: &str) -> bool {
    frame.file == file && !frame.is_module_body()
}

/// A wait of at least this length is comparable with `segment`: the last thread of a deadlock comes
/// when the other has waited for a while.
fn comparable_ns(segment: &Segment<'_>) -> u64 {
    (segment.ns() as f64 * thresholds::comparable_part()) as u64
}

/// A segment of the longest wait for one lock, if that took more than `least_ns`.
fn longest_wait<'c>(timeline: &[Segment<'c>], least_ns: u64) -> Option<Segment<'c>> {
    let wait = analysis::waits::longest_lock(timeline).filter(|wait| wait.waited_ns > least_ns);
    wait.map(|wait| wait.longest)
}

/// Whether the one wait ended because the other was given up. `exact`: by switch records.
fn releases_other(exact: bool, a: &Wait, b: &Wait) -> bool {
    let (before_ns, then_ns) = if exact {
        (0, thresholds::short_wait_ns())
    } else {
        (thresholds::sampled_ns(), thresholds::sampled_ns())
    };
    let follows = |first: &Wait, next: &Wait| {
        let late = next.end_ns.saturating_add(before_ns) >= first.end_ns;
        first.gave_up && late && next.end_ns <= first.end_ns.saturating_add(then_ns)
    };
    follows(a, b) || follows(b, a)
}
