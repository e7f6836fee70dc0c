//! The threads that have an item of a pool: those that went on past the line which takes from it.
//!
//! How it works: waiters show where the pool is entered (the innermost function that is neither the
//! interpreter's nor a language's own) and which of the program's functions took from it. That is
//! the function that called a library's pool, or, of a pool of the program's own, the function that
//! waits and its caller. A thread that is seen in such a function, at that line or behind it, and
//! does not wait for the pool itself, most likely has an item of the pool and has not given it
//! back. So has a thread that waits for a peer inside of the library whose pool it is: it talks
//! through one of its connections.
//!
//! What it promises: asked only where no other holder is known; a holder is named only if threads
//! were there for half of the wait, mostly in one function. An inference, so *likely* at most.
//! Cost: one walk over all samples and their frames. What is missing on purpose: a thread that has
//! an item which another function took for it.

use std::collections::{BTreeMap, HashMap, HashSet};

use analysis::frames::{Function, Owner};
use analysis::resource::Resource;
use analysis::thresholds;
use analysis::timeline::{overlap_ns, Segment, State};
use format::record::Sample;
use format::wait::WaitKind;

use crate::candidate::OverWaits;
use crate::claim::{Blocker, Weighed};
use crate::compare::{self, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fact, Inference, Threshold};
use crate::facts::{pools, threads};

/// Where a pool is waited for: its own function, and the program's functions that take from it,
/// each with the line of the call.
struct Entry {
    pool: Function,
    acquirers: Vec<(Function, u32)>,
}

/// Intervals in which threads most likely had an item of the pool, by their begins, and the length
/// of the longest.
struct Held {
    all: Vec<Holding>,
    longest_ns: u64,
}

struct Holding {
    from_ns: u64,
    to_ns: u64,
    tid: u32,
    stack: u32,
}

/// The holders of what the waits of a group of pool-waits were for.
pub(crate) fn holders(cx: &Context<'_>, slices: &[Weighed<'_>]) -> Option<OverWaits> {
    let known = |w: &Weighed<'_>| {
        w.slice.segment.state == State::Wait
            && !w.slice.claim.resource.as_ref().is_some_and(Resource::is_of_nobody_here)
    };
    let mut held: HashMap<Function, Held> = HashMap::new();
    let mut blocker = |w: &Weighed<'_>| {
        let own = &w.slice.segment;
        let asked = entry(cx, own.stack()).filter(|_| known(w));
        let Some(Entry { pool, .. }) = asked else { return w.slice.claim.blocker };
        let held = held.entry(pool.clone()).or_insert_with(|| holdings(cx, &pool));
        holder(cx, held, own)
    };
    let blockers: Vec<Option<Blocker>> = slices.iter().map(&mut blocker).collect();
    let by = Inference::PastTheLine;
    let any = blockers.iter().flatten().any(|b| b.by == by);
    any.then(|| OverWaits::weighing(by, f64::MAX, blockers))
}

/// Where the code of a wait enters its pool; None if it is of no pool, or nobody of the program's
/// takes from it.
fn entry(cx: &Context<'_>, stack: u32) -> Option<Entry> {
    if !pools::is_of_a_pool(cx, stack) || pools::puts(cx, stack) {
        return None;
    }
    let frames = &cx.frames;
    let mut own = frames.of(stack).filter(|f| !frames.is_shared(f)).peekable();
    let function = |f: &capture::read::Frame<'_>| (f.function.to_owned(), f.file.to_owned());
    let pool = function(own.peek()?);
    let user = own.skip_while(|f| frames.owner(f.file) != Owner::User);
    let mut acquirers: Vec<(Function, u32)> = Vec::new();
    for frame in user.take_while(|f| frames.owner(f.file) == Owner::User) {
        acquirers.push((function(&frame), frame.line));
        // A library's pool was called by the first; one of the program's own by the first or its
        // caller.
        if acquirers.len() == if acquirers[0].0 == pool { 2 } else { 1 } {
            break;
        }
    }
    (!acquirers.is_empty()).then_some(Entry { pool, acquirers })
}

/// All intervals in which threads were in a function that takes from `pool`, past its line.
fn holdings(cx: &Context<'_>, pool: &Function) -> Held {
    let stacks: HashSet<u32> = cx.capture.samples.values().flatten().map(|s| s.stack).collect();
    // Waiters there are known by the stack: a thread with the same stack waits as well, or was
    // about to.
    let mut waits: HashSet<u32> = HashSet::new();
    let mut acquirers: HashMap<Function, u32> = HashMap::new();
    for stack in &stacks {
        let Some(own) = entry(cx, *stack).filter(|own| own.pool == *pool) else { continue };
        waits.insert(*stack);
        for (function, line) in own.acquirers {
            let first = acquirers.entry(function).or_insert(line);
            *first = line.min(*first);
        }
    }
    let past = |stack: &u32| {
        cx.frames.any(*stack, |f| {
            let function = (f.function.to_owned(), f.file.to_owned());
            acquirers.get(&function).is_some_and(|line| f.line >= *line)
        })
    };
    let inside: HashSet<u32> =
        stacks.iter().copied().filter(|stack| !waits.contains(stack) && past(stack)).collect();
    let talks: HashSet<u32> = match library_of(cx, pool) {
        Some(library) => stacks.into_iter().filter(|s| is_in(cx, *s, library)).collect(),
        None => HashSet::new(),
    };
    let has =
        |s: &Sample| inside.contains(&s.stack) || is_of_a_peer(s.wait) && talks.contains(&s.stack);
    let mut all = Vec::new();
    for (tid, samples) in &cx.capture.samples {
        for (at, sample) in samples.iter().enumerate().filter(|(_, s)| has(s)) {
            let to_ns = holds_until(cx, *tid, sample, samples.get(at + 1));
            all.push(Holding { from_ns: sample.t_ns, to_ns, tid: *tid, stack: sample.stack });
        }
    }
    all.sort_unstable_by_key(|h| (h.from_ns, h.tid));
    let longest_ns = all.iter().map(|h| h.to_ns.saturating_sub(h.from_ns)).max().unwrap_or(0);
    Held { all, longest_ns }
}

/// The installed package that a pool is of; None for one of the program's own.
fn library_of<'c>(cx: &Context<'c>, (_, file): &'c Function) -> Option<&'c str> {
    let library = cx.frames.owner(file) == Owner::Library;
    library.then(|| cx.frames.package(file)).flatten()
}

/// Whether the innermost code, but for the interpreter's, is that package's, which the program
/// called.
fn is_in(cx: &Context<'_>, stack: u32, library: &str) -> bool {
    let mut own = cx.frames.of(stack).filter(|f| !cx.frames.is_shared(f));
    own.next().is_some_and(|f| cx.frames.package(f.file) == Some(library))
        && cx.frames.has_user(stack)
}

fn is_of_a_peer(wait: WaitKind) -> bool {
    matches!(wait, WaitKind::SocketRead | WaitKind::SocketWrite | WaitKind::Poll)
}

/// Until when a sample shows where its thread was: to the next one, or the end of what it did for a
/// request.
fn holds_until(cx: &Context<'_>, tid: u32, sample: &Sample, next: Option<&Sample>) -> u64 {
    let out_ns = threads::off_cpu_until(cx, tid, sample.t_ns).unwrap_or(0);
    let most_ns = sample.t_ns.saturating_add(thresholds::sample_valid_ns()).max(out_ns);
    let done = cx.request_end(tid, sample.t_ns);
    next.map(|s| s.t_ns).into_iter().chain(done).fold(most_ns, u64::min)
}

/// The holder of what was waited for in `[from, to)`: the thread that had it longest, of those that
/// were where it was had for most of the time.
fn holder(cx: &Context<'_>, held: &Held, wait: &Segment<'_>) -> Option<Blocker> {
    let (waiter, from, to) = (wait.tid, wait.from_ns, wait.to_ns);
    let earliest = from.saturating_sub(held.longest_ns);
    let first = held.all.partition_point(|h| h.from_ns < earliest);
    let near = held.all[first..].iter().take_while(|h| h.from_ns < to);
    let mut places: BTreeMap<Function, u64> = BTreeMap::new();
    let mut threads: BTreeMap<(Function, u32), (u64, u32)> = BTreeMap::new();
    for own in near.filter(|h| h.to_ns > from && h.tid != waiter) {
        let Some(place) = cx.frames.innermost_user(own.stack) else { continue };
        let ns = overlap_ns((own.from_ns, own.to_ns), (from, to));
        *places.entry(place.in_function()).or_default() += ns;
        let thread = threads.entry((place.in_function(), own.tid)).or_insert((0, own.stack));
        thread.0 += ns;
    }
    let all: u64 = places.values().sum();
    let (place, ns) = places.into_iter().max_by_key(|(_, ns)| *ns)?;
    let enough = all * 2 >= to - from && ns * 2 >= all;
    let there = threads.iter().filter(|((at, _), _)| *at == place);
    let ((_, tid), (_, stack)) = there.max_by_key(|(_, (ns, _))| *ns)?;
    let (tid, stack) = (*tid, *stack);
    if cx.trace.is_on() {
        let question = Question::about(Inference::PastTheLine, wait);
        let tally: Vec<(u32, u64)> =
            threads.iter().map(|((_, tid), (ns, _))| (*tid, *ns)).collect();
        let lost = if enough { Dropped::LessEvidence } else { Dropped::TooLittle };
        let least = Threshold::part("past-acquire-line.part-of-wait", thresholds::half());
        let won = (enough.then_some(tid), lost);
        compare::keep_tally_of_group(cx, question, (&tally, Fact::Time), won, &[least]);
    }
    if !enough {
        return None;
    }
    Some(Blocker::thread(tid, stack, false, Inference::PastTheLine))
}
