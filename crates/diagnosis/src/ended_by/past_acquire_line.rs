//! The threads that have an item of a pool: those that went on past the line which takes from it.
//!
//! How it works: waiters show where the pool is entered (the innermost function that is neither the
//! interpreter's nor a language's own) and which of the program's functions took from it. That is
//! the function that called a library's pool, or, of a pool of the program's own, the function that
//! waits and its caller. A thread that is seen in such a function, at that line or behind it, and
//! does not wait for the pool itself, most likely has an item of the pool and has not given it
//! back.
//!
//! What it promises: asked only where no other holder is known; a holder is named only if threads
//! were there for half of the wait, mostly in one function. An inference, so *likely* at most.
//! Cost: one walk over all samples and their frames. What is missing on purpose: a thread that has
//! an item which another function took for it.

use std::collections::{BTreeMap, HashMap, HashSet};

use analysis::frames::Owner;
use analysis::resource::Resource;
use analysis::timeline::{Segment, State};
use format::record::Sample;

use crate::claim::{Culprit, Weighed};
use crate::compare::{self, Question};
use crate::context::Scene;
use crate::explain::{Dropped, Fact, Inference, Threshold};
use crate::facts::{pools, threads};

/// A sample is valid for this time behind it at most, unless switch records show that its thread
/// was off the CPU.
const SAMPLE_HOLDS_NS: u64 = 50_000_000;

/// Function and file.
type Function = (String, String);

/// Where a pool is waited for: its own function, and the program's functions that take from it,
/// each with the line of the call.
struct Entry {
    pool: Function,
    takers: Vec<(Function, u32)>,
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

/// Names the holder of what the waits of a group of pool-waits without a culprit were for, where
/// that is likely.
pub fn name_blockers(scene: &Scene<'_>, pieces: &mut [Weighed<'_>]) {
    let known = |w: &Weighed<'_>| {
        w.piece.segment.state == State::Wait
            && !w.piece.claim.resource.as_ref().is_some_and(Resource::is_of_nobody_here)
    };
    let mut held: HashMap<Function, Held> = HashMap::new();
    for w in pieces.iter_mut().filter(|w| known(w)) {
        let own = &w.piece.segment;
        let Some(Entry { pool, .. }) = entry(scene, own.stack()) else { continue };
        let held = held.entry(pool.clone()).or_insert_with(|| holdings(scene, &pool));
        w.piece.claim.culprit = holder(scene, held, own);
    }
}

/// Where the code of a wait enters its pool; None if it is of no pool, or nobody of the program's
/// takes from it.
fn entry(scene: &Scene<'_>, stack: u32) -> Option<Entry> {
    if !pools::is_of_a_pool(scene, stack) || pools::puts(scene, stack) {
        return None;
    }
    let frames = &scene.frames;
    let mut own = frames.of(stack).filter(|f| !frames.is_shared(f)).peekable();
    let function = |f: &capture::read::Frame<'_>| (f.function.to_owned(), f.file.to_owned());
    let pool = function(own.peek()?);
    let user = own.skip_while(|f| frames.owner(f.file) != Owner::User);
    let mut takers: Vec<(Function, u32)> = Vec::new();
    for frame in user.take_while(|f| frames.owner(f.file) == Owner::User) {
        takers.push((function(&frame), frame.line));
        // A library's pool was called by the first; one of the program's own by the first or its
        // caller.
        if takers.len() == if takers[0].0 == pool { 2 } else { 1 } {
            break;
        }
    }
    (!takers.is_empty()).then_some(Entry { pool, takers })
}

/// All intervals in which threads were in a function that takes from `pool`, past its line.
fn holdings(scene: &Scene<'_>, pool: &Function) -> Held {
    let stacks: HashSet<u32> = scene.capture.samples.values().flatten().map(|s| s.stack).collect();
    // Waiters there are known by the stack: a thread with the same stack waits as well, or was
    // about to.
    let mut waits: HashSet<u32> = HashSet::new();
    let mut takers: HashMap<Function, u32> = HashMap::new();
    for stack in &stacks {
        let Some(own) = entry(scene, *stack).filter(|own| own.pool == *pool) else { continue };
        waits.insert(*stack);
        for (function, line) in own.takers {
            let first = takers.entry(function).or_insert(line);
            *first = line.min(*first);
        }
    }
    let past = |stack: &u32| {
        scene.frames.any(*stack, |f| {
            let function = (f.function.to_owned(), f.file.to_owned());
            takers.get(&function).is_some_and(|line| f.line >= *line)
        })
    };
    let inside: HashSet<u32> =
        stacks.into_iter().filter(|stack| !waits.contains(stack) && past(stack)).collect();
    let mut all = Vec::new();
    for (tid, looks) in &scene.capture.samples {
        for (at, look) in looks.iter().enumerate().filter(|(_, s)| inside.contains(&s.stack)) {
            let to_ns = holds_until(scene, *tid, look, looks.get(at + 1));
            all.push(Holding { from_ns: look.t_ns, to_ns, tid: *tid, stack: look.stack });
        }
    }
    all.sort_unstable_by_key(|h| (h.from_ns, h.tid));
    let longest_ns = all.iter().map(|h| h.to_ns.saturating_sub(h.from_ns)).max().unwrap_or(0);
    Held { all, longest_ns }
}

/// Until when a sample shows where its thread was: to the next one, or the end of what it did for a
/// request.
fn holds_until(scene: &Scene<'_>, tid: u32, look: &Sample, next: Option<&Sample>) -> u64 {
    let out_ns = threads::off_cpu_until(scene, tid, look.t_ns).unwrap_or(0);
    let most_ns = look.t_ns.saturating_add(SAMPLE_HOLDS_NS).max(out_ns);
    let done = scene.request_end(tid, look.t_ns);
    next.map(|s| s.t_ns).into_iter().chain(done).fold(most_ns, u64::min)
}

/// The holder of what was waited for in `[from, to)`: the thread that had it longest, of those that
/// were where it was had for most of the time.
fn holder(scene: &Scene<'_>, held: &Held, wait: &Segment<'_>) -> Option<Culprit> {
    let (waiter, from, to) = (wait.tid, wait.from_ns, wait.to_ns);
    let earliest = from.saturating_sub(held.longest_ns);
    let first = held.all.partition_point(|h| h.from_ns < earliest);
    let near = held.all[first..].iter().take_while(|h| h.from_ns < to);
    let mut places: BTreeMap<Function, u64> = BTreeMap::new();
    let mut threads: BTreeMap<(Function, u32), (u64, u32)> = BTreeMap::new();
    for own in near.filter(|h| h.to_ns > from && h.tid != waiter) {
        let Some(place) = scene.frames.innermost_user(own.stack) else { continue };
        let ns = own.to_ns.min(to).saturating_sub(own.from_ns.max(from));
        let place = (place.qualified, place.file);
        *places.entry(place.clone()).or_default() += ns;
        let thread = threads.entry((place, own.tid)).or_insert((0, own.stack));
        thread.0 += ns;
    }
    let all: u64 = places.values().sum();
    let (place, ns) = places.into_iter().max_by_key(|(_, ns)| *ns)?;
    let enough = all * 2 >= to - from && ns * 2 >= all;
    let there = threads.iter().filter(|((at, _), _)| *at == place);
    let ((_, tid), (_, stack)) = there.max_by_key(|(_, (ns, _))| *ns)?;
    let (tid, stack) = (*tid, *stack);
    if scene.trace.is_on() {
        let question = Question::about(Inference::PastTheLine, wait);
        let tally: Vec<(u32, u64)> =
            threads.iter().map(|((_, tid), (ns, _))| (*tid, *ns)).collect();
        let lost = if enough { Dropped::LessEvidence } else { Dropped::TooLittle };
        let least = Threshold::part("past-acquire-line.part-of-wait", 0.5);
        let won = (enough.then_some(tid), lost);
        compare::keep_tally_of_group(scene, question, (&tally, Fact::Time), won, &[least]);
    }
    if !enough {
        return None;
    }
    Some(Culprit::thread(tid, stack, false, Inference::PastTheLine))
}
