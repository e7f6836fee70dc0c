//! pool-wait: the request waits for a worker or for an item of a pool.
//!
//! Signature: a part of its work was handed to an executor and had not begun (the recorder stamps
//! both), or its thread waits in `queue.Queue.get`, the usual shape of a pool of connections, in
//! `Queue.put` for room in a full queue, in `threading.Semaphore`, in a library's code that hands
//! things out, for the result of an executor or of multiprocessing's pool, or for a notice of
//! multiprocessing's; on an event loop its task awaits a Semaphore, a Queue, a future that another
//! task is to fulfil, an executor whose work was not recorded, or a library's code that hands
//! things out; in Rust and C: in the code of a channel or a condition variable.
//!
//! What the pool's workers did meanwhile is the culprit. So is, at the line of the program's own,
//! the thread that ran just before the wait ended, the task that is to end it, or another task that
//! awaited something in the same file or library meanwhile. These are inferences: *likely* at most.
//! Workers of a pool of processes are not recorded, and the thread that runs here when their answer
//! comes only carries it.
//!
//! Quotes: what the workers did, and the holder of what was waited for. Sure: the executor's
//! records have the worker that took it up in the end, and samples show what that worker did
//! meanwhile.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::awaits::{
    by_library, fulfiller, holder_of_any, likely_holder, lock_of_worker, target, worker_of_any,
    Awaited,
};
use crate::explain::trace::Question;
use crate::explain::{Dropped, Fact, Fate, Inference};
use crate::scene::{Culprit, Scene};
use crate::woken::Told;
use analysis::frames::{last_part, Owner};
use analysis::resource::Resource;
use analysis::signatures::{self, Pattern, Stdlib};
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::record::Sample;
use format::wait::{AwaitKind, WaitKind};

pub const RULE: Rule = Rule { id: "pool-wait", claim };
pub const ADVICE: &str =
    "Make the pool larger, give its waiters a time limit, or shorten what keeps its workers busy.";

/// Of a pool whose workers wait for another thread.
pub const ADVICE_CHAINED: &str =
    "Shorten what the pool's workers wait for; a larger pool would only let more of them wait there.";

const ADVICE_ROOM: &str =
    "Shorten what keeps the queue's reader busy, give it more readers, or let \
     who fills the queue drop what does not fit.";

const ADVICE_UNUSED: &str =
    "Look for code that takes from the pool and does not give back: without `with`, or \
     with a way out (an error, an early return) on which nothing is closed.";

const ADVICE_VAIN: &str =
    "Find out who had what is in the pool: code that keeps it for long, or that does not give it back \
     (without `with`, or with a way out on which nothing is closed).";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait || segment.wait() != WaitKind::Futex {
        return None;
    }
    if !is_of_a_pool(scene, segment.stack()) || has_no_work(scene, segment.stack()) {
        return None;
    }
    let in_vain = scene.timed_out(segment);
    let nothing = || in_vain.then(|| nothing_in_time(scene, segment));
    let told = what(scene, segment.stack()).or_else(nothing);
    // A library that hands something else out waits so, too.
    let own = || scene.frames.resource(segment.stack(), &signatures::OWN_POOLS);
    let resource = told.or_else(own);
    // The thread that gave back the item which this one got had it until then; a waiter whose time
    // ran out got none.
    let elsewhere = matches!(resource, Some(Resource::Processes | Resource::OtherProcess));
    let told = !elsewhere && !in_vain;
    let (from_ns, to_ns) = (segment.from_ns, segment.to_ns);
    // Estimates hardly show which thread ran then, except for native code, whose few threads are
    // where they wait.
    let culprit = match segment.exact || native(scene, segment.stack()).is_some() {
        _ if !told => None,
        true => {
            let giver = scene.releaser(segment);
            let by = match scene.told_waker(segment) {
                Told::By(_) => Inference::WakeRecord,
                _ => Inference::RanBefore,
            };
            giver.map(|tid| Culprit::thread(tid, scene.main_stack(tid, from_ns, to_ns), false, by))
        }
        false => scene.keeper(segment),
    };
    let carried = culprit.is_some_and(|c| carries(scene, c.stack));
    let resource = if carried { Some(Resource::Processes) } else { resource };
    // A thread that has no work, or waits for the same, is no candidate: another one may be.
    let able = |c: &Culprit| {
        let idles = is_idle(scene, c.stack) || scene.idles(c.tid, (from_ns, to_ns), c.stack);
        let fellow = scene.same_place(c.stack, segment.stack())
            || is_same_pool(scene, c.stack, segment.stack());
        !idles && !fellow
    };
    let reader = || puts(scene, segment.stack()).then(|| reader(scene, segment)).flatten();
    let culprit = culprit.filter(able).or_else(|| reader().filter(able)).filter(|_| !carried);
    // The blocker of a worker is a lock at times, and then the lock's holder counts; a worker that
    // waits for a pool itself only hands on.
    let culprit = culprit.map(|c| scene.behind(c, segment, true));
    let culprit = culprit.map(|c| {
        let last = is_of_a_pool(scene, c.stack).then(|| scene.behind(c, segment, false));
        last.filter(|last| !is_of_a_pool(scene, last.stack)).unwrap_or(c)
    });
    let at = |c: Culprit| Culprit { stack: scene.let_go_at(segment, c.tid, c.stack), ..c };
    let culprit = culprit.map(at);
    Some(Claim { culprit, resource, prefer_user: true, ..Claim::of(Cause::PoolWait, segment) })
}

/// The thread that most likely is to empty the full queue that is waited for: it was in the file of
/// the code that waits for most of the while, at something else than a pool; None if several were,
/// at different places.
fn reader(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Culprit> {
    const LEAST_LOOKS: usize = 3;
    let (from, to) = (segment.from_ns, segment.to_ns);
    let file = scene.frames.innermost_user(segment.stack())?.file;
    let is_in = |f: &Frame<'_>| f.file == file && f.function != "<module>";
    let works = |s: &Sample| {
        let waits = s.wait == WaitKind::Futex && is_of_a_pool(scene, s.stack);
        !waits && scene.frames.any(s.stack, is_in)
    };
    // A wait is cut at samples: those of its whole length show more.
    let (begin, end) = scene.whole_wait(segment).times();
    // With switch records a blocked thread is sampled once, which may have been before: it was
    // there until it ran.
    let stood = |tid: u32| {
        let before = scene.samples_in(tid, 0, to).last().filter(|s| segment.exact && works(s))?;
        let until = scene.out_until(tid, before.t_ns)?.min(to);
        (until.saturating_sub(before.t_ns.max(from)) * 4 >= (to - from) * 3).then_some(tid)
    };
    let able = |tid: u32| {
        let looks = scene.samples_in(tid, begin.min(from), end.max(to));
        let there = looks.iter().filter(|s| works(s)).count();
        let often = there >= LEAST_LOOKS && there * 4 >= looks.len() * 3;
        often.then_some(tid).or_else(|| stood(tid))
    };
    let mut all: Vec<u32> = scene.capture.samples.keys().copied().collect();
    all.sort_unstable();
    let others = all.into_iter().filter(|tid| *tid != segment.tid).filter_map(able);
    let stands = |tid: u32| (tid, scene.main_stack(tid, from, to));
    let found: Vec<(u32, u32)> = others.map(stands).filter(|(_, stack)| *stack != 0).collect();
    let (tid, stack) = *found.first()?;
    let one = found.iter().all(|(_, other)| scene.same_place(*other, stack));
    let by = Inference::QueueReader;
    let tally: Vec<(u32, u64)> = found.iter().map(|(tid, _)| (*tid, 1)).collect();
    let won = (one.then_some(tid), Dropped::Ambiguous);
    scene.trace_tally(Question::about(by, segment), (&tally, Fact::Samples), won, &[]);
    one.then(|| Culprit::thread(tid, stack, false, by))
}

/// A wait whose time limit ran out, and whether any thread was at work then that may have had what
/// it waited for: a thread in the program's own code that is neither idle nor waits for a pool
/// itself.
fn nothing_in_time(scene: &Scene<'_>, segment: &Segment<'_>) -> Resource {
    let (from, to) = (segment.from_ns, segment.to_ns);
    let user = |f: &Frame<'_>| scene.frames.owner(f.file) == Owner::User;
    let works = |tid: u32| {
        let own = scene.timeline(tid, from, to);
        let idle = |s: &&Segment<'_>| {
            let parked = s.sample.is_some_and(|look| scene.rests(tid, look));
            let waits = s.wait() == WaitKind::Futex
                && (is_of_a_pool(scene, s.stack()) || is_idle(scene, s.stack()));
            s.state == State::Unknown
                || s.state == State::Wait && (parked || waits)
                || !scene.frames.any(s.stack(), user)
        };
        let idle = own.iter().filter(idle).map(Segment::ns).sum::<u64>();
        idle * 2 < to - from
    };
    let others = scene.capture.samples.keys().filter(|tid| **tid != segment.tid);
    Resource::NothingInTime { at_work: others.copied().any(works) }
}

/// Whether the code of a wait puts something into a bounded queue.
pub fn puts(scene: &Scene<'_>, stack: u32) -> bool {
    // `Queue.put` waits in a Condition; a thread that waits for the queue's own lock waits for no
    // room.
    scene.frames.fits(stack, Pattern::Inner(&[Stdlib::Wait, Stdlib::QueuePut]))
}

/// The same of an event loop's task.
pub fn awaits_room(scene: &Scene<'_>, stack: u32) -> bool {
    scene.frames.any_at(stack, Stdlib::TaskQueuePut)
}

/// What a thread that waits in a futex with this stack does, if it is of a pool.
pub fn doing(scene: &Scene<'_>, stack: u32) -> Option<&'static str> {
    match puts(scene, stack) {
        true => Some("waited for room in a full queue"),
        false => is_of_a_pool(scene, stack).then_some("waited for a pool"),
    }
}

/// Of a full queue the thread that empties it counts; of an item that is not in use, the thread
/// that took it.
pub fn advice(resource: Option<&Resource>) -> &'static str {
    match resource {
        Some(Resource::Room) => ADVICE_ROOM,
        Some(Resource::NothingInTime { at_work: true }) => ADVICE_VAIN,
        Some(Resource::NothingInTime { at_work: false }) => ADVICE_UNUSED,
        _ => ADVICE,
    }
}

/// What the code of a wait for a pool waits for, where that has a better word than pool.
fn what(scene: &Scene<'_>, stack: u32) -> Option<Resource> {
    let found = scene.frames.resource(stack, &signatures::POOLS);
    let of_processes =
        || scene.frames.any_at(stack, Stdlib::Future) && futures_are_of_processes(scene);
    match found {
        Some(Resource::Processes) => found,
        _ if of_processes() => Some(Resource::Processes),
        _ => found.or_else(|| native(scene, stack)),
    }
}

/// Whether results of executors come from other processes: there is a thread that hands them over,
/// and none that works for an executor of threads, but to serve requests.
fn futures_are_of_processes(scene: &Scene<'_>) -> bool {
    let mut of_processes = false;
    for (tid, looks) in &scene.capture.samples {
        let Some(look) = looks.last() else { continue };
        let has = |code: Stdlib| scene.frames.any_at(look.stack, code);
        let serves = || scene.capture.requests.iter().any(|r| r.tid == *tid);
        if has(Stdlib::ThreadExecutor) && !serves() {
            return false;
        }
        of_processes |= has(Stdlib::ProcessExecutor);
    }
    of_processes
}

/// Whether a thread at this place only carries work to other processes, or what comes back.
fn carries(scene: &Scene<'_>, stack: u32) -> bool {
    const CARRIERS: [Stdlib; 3] =
        [Stdlib::ProcessExecutor, Stdlib::ProcessPool, Stdlib::ProcessQueue];
    let user = |f: &Frame<'_>| scene.frames.owner(f.file) == Owner::User;
    CARRIERS.iter().any(|code| scene.frames.any_at(stack, *code)) && !scene.frames.any(stack, user)
}

/// The same for Rust and C: the code of channels and condition variables, as far as it lies under
/// the innermost function of the program's own.
fn native(scene: &Scene<'_>, stack: u32) -> Option<Resource> {
    let runtime = |f: &Frame<'_>| scene.frames.owner(f.file) == Owner::Runtime;
    let mut found = None;
    for frame in scene.frames.of(stack).take_while(runtime) {
        let waits = frame.file.ends_with("/condvar.rs") || frame.function.contains("pthread_cond_");
        if CHANNELS.iter().any(|part| frame.file.contains(part)) {
            if last_part(frame.function).starts_with("send") {
                return Some(Resource::Room);
            }
            found = Some(Resource::Message);
        } else if waits && found.is_none() {
            found = Some(Resource::NativeCondition);
        }
    }
    found
}

/// Where the channels of Rust's library and of its packages are written.
const CHANNELS: [&str; 3] = ["/std/src/sync/mpsc/", "/std/src/sync/mpmc/", "/crossbeam-channel-"];

/// Whether the code of a wait gets an item of a pool: a queue, permits, the result of an executor's
/// or of multiprocessing's pool, or a library's code that hands things out.
pub fn is_of_a_pool(scene: &Scene<'_>, stack: u32) -> bool {
    if let Some(known) = scene.pools.borrow().get(&stack) {
        return *known;
    }
    let found = gets_from_a_pool(scene, stack);
    scene.pools.borrow_mut().insert(stack, found);
    found
}

fn gets_from_a_pool(scene: &Scene<'_>, stack: u32) -> bool {
    const GETS: [Stdlib; 3] = [Stdlib::QueueGet, Stdlib::ProcessPoolResult, Stdlib::FutureResult];
    const PERMIT: Pattern = Pattern::Inner(&[Stdlib::Wait, Stdlib::SemaphoreAcquire]);
    GETS.iter().any(|code| scene.frames.any_at(stack, *code))
        || scene.frames.fits(stack, PERMIT)
        || puts(scene, stack)
        || is_for_processes(scene, stack)
        || native(scene, stack).is_some()
        || scene.frames.leaf_at(stack, Stdlib::Wait) && hands_out(scene, stack)
}

/// Whether both stacks wait for a pool in the same function of the same library, wherever they came
/// from: neither has what the other waits for.
pub fn is_same_pool(scene: &Scene<'_>, a: u32, b: u32) -> bool {
    let asks = |stack: u32| {
        let mut own = scene.frames.of(stack).filter(|f| !scene.frames.is_shared(f));
        let first = own.next().filter(|f| scene.frames.owner(f.file) == Owner::Library);
        first.map(|f| (f.function, f.file)).filter(|_| is_of_a_pool(scene, stack))
    };
    let one = asks(a);
    one.is_some() && one == asks(b)
}

/// Whether the code waits for a notice of multiprocessing's that another process is to give: a
/// Condition's, an Event's or a Barrier's, that a JoinableQueue is done, or room in a bounded one.
fn is_for_processes(scene: &Scene<'_>, stack: u32) -> bool {
    let codes = [Stdlib::ProcessNotice, Stdlib::ProcessQueueWait];
    codes.iter().any(|code| scene.frames.leaf_at(stack, *code))
}

/// A claim for time in which a part of the request's work was in an executor's queue. `worker` is
/// the thread that took it in the end. If that had nothing else to do, it delayed nothing: then the
/// claim is for what kept that thread from beginning, as far as it was seen.
pub fn queued(scene: &Scene<'_>, segment: &Segment<'_>, worker: u32) -> Claim {
    let busy = works_for_others(scene, segment, worker);
    let stack = busy.unwrap_or_else(|| scene.main_stack(worker, segment.from_ns, segment.to_ns));
    if is_idle(scene, stack) {
        let own = scene.timeline(worker, segment.from_ns, segment.to_ns);
        let kept = own.iter().filter(|s| s.state != State::Wait || !is_idle(scene, s.stack()));
        let longest = kept.max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns());
        let claim = longest.map(|s| super::claim(scene, s));
        let outside = |c: &Claim| {
            use Cause::{CpuStarved, CpuThrottled, GcPause, GilWait, Recorder, Stopped};
            matches!(c.cause, CpuStarved | CpuThrottled | GcPause | GilWait | Recorder | Stopped)
        };
        return match claim.filter(outside) {
            Some(claim) => Claim { stack: segment.stack(), ..claim },
            None => Claim::of(Cause::Unknown, segment),
        };
    }
    let by = Inference::ExecutorRecord;
    let culprit = (stack != 0).then_some(Culprit::thread(worker, stack, true, by));
    if let Some(found) = &culprit {
        scene.trace_one(Question::about(by, segment), found, Fate::Won);
    }
    let own = Claim::of(Cause::PoolWait, segment).by_rule("executor-queue");
    Claim { culprit, prefer_user: true, seen: true, ..own }
}

/// Where `worker` was in what it did for other requests meanwhile, if that was most of the time; 0
/// where no sample saw it there.
fn works_for_others(scene: &Scene<'_>, segment: &Segment<'_>, worker: u32) -> Option<u32> {
    let work = scene.served_in(worker, segment.from_ns, segment.to_ns);
    let ns = |(begin, end): &(u64, u64)| end - begin;
    if work.iter().map(ns).sum::<u64>() * 2 < segment.ns() {
        return None;
    }
    let seen = work.iter().map(|part| (ns(part), scene.main_stack(worker, part.0, part.1)));
    let seen = seen.filter(|(_, stack)| *stack != 0 && !is_idle(scene, *stack));
    Some(seen.max().map_or(0, |(_, stack)| stack))
}

/// Whether a thread at this place waits for work: an executor's worker, or one at a queue.
pub fn is_idle(scene: &Scene<'_>, stack: u32) -> bool {
    const QUEUE: Pattern = Pattern::Inner(&[Stdlib::Wait, Stdlib::QueueGet]);
    let codes = [Stdlib::QueueGet, Stdlib::ExecutorWorker];
    codes.iter().any(|code| scene.frames.leaf_at(stack, *code)) || scene.frames.fits(stack, QUEUE)
}

/// Whether it is a worker of the interpreter's or a library's, with no code of the program under
/// it: a sample of it from before or behind its work.
pub fn has_no_work(scene: &Scene<'_>, stack: u32) -> bool {
    let user = |f: &Frame<'_>| scene.frames.owner(f.file) == Owner::User;
    is_idle(scene, stack) && !scene.frames.any(stack, user)
}

/// Of a suspended task: a semaphore, a queue, or a library's Event in code that hands something
/// out.
pub fn awaited(scene: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim { prefer_user: true, ..Claim::of_await(Cause::PoolWait, seen.row, segment) };
    match seen.row.kind {
        AwaitKind::Semaphore => {
            let known = holder_of_any(scene, seen, segment);
            let culprit = known.or_else(|| likely_holder(scene, seen, segment));
            Some(Claim { culprit, ..own })
        }
        AwaitKind::Queue => {
            let resource = what(scene, seen.row.stack);
            let culprit = holder_of_any(scene, seen, segment);
            let culprit = culprit.or_else(|| likely_holder(scene, seen, segment));
            Some(Claim { culprit, resource, ..own })
        }
        AwaitKind::Executor => {
            let ours = !futures_are_of_processes(scene);
            if let Some(claim) = ours.then(|| lock_of_worker(scene, seen, segment)).flatten() {
                return Some(claim);
            }
            let culprit = ours.then(|| worker_of_any(scene, seen, segment)).flatten();
            let resource = match culprit {
                Some(_) => Resource::Result,
                None => Resource::Executor,
            };
            Some(Claim { culprit, resource: Some(resource), ..own })
        }
        AwaitKind::Event | AwaitKind::Condition | AwaitKind::Future
            if target(scene, seen.row).is_none() && hands_out(scene, seen.row.stack) =>
        {
            let culprit = likely_holder(scene, seen, segment);
            Some(Claim { culprit, ..own })
        }
        // A future of the program's own: the thread that is to fulfil it works for a request.
        AwaitKind::Future if target(scene, seen.row).is_none() && !by_library(scene, seen.row) => {
            let culprit = holder_of_any(scene, seen, segment);
            let culprit = culprit.or_else(|| fulfiller(scene, seen, segment));
            let culprit = culprit.or_else(|| likely_holder(scene, seen, segment))?;
            Some(Claim { culprit: Some(culprit), resource: Some(Resource::Result), ..own })
        }
        _ => None,
    }
}

/// Frames of a library that are searched for its pool.
const MOST_FRAMES: usize = 4;

/// Whether the innermost code is a library's that hands connections or the like out, as far as its
/// and its file's names say. A client library's own future says nothing else.
pub fn hands_out(scene: &Scene<'_>, stack: u32) -> bool {
    let own = scene.frames.of(stack).filter(|f| scene.frames.owner(f.file) != Owner::Runtime);
    let mut library = own.take_while(|f| scene.frames.owner(f.file) == Owner::Library);
    library.by_ref().take(MOST_FRAMES).any(|f| {
        let name = f.function.rsplit('.').next().unwrap_or(f.function);
        let words = ["acquire", "checkout", "get_connection", "wait_for_connection"];
        words.iter().any(|word| name.contains(word))
            || ["available_connection", "getconn", "borrow"].iter().any(|w| name.contains(w))
            || is_of_a_pools_file(f.file)
    })
}

/// Whether a file is one of a library's pool: `psycopg_pool/pool.py`, `urllib3/connectionpool.py`,
/// `sqlalchemy/pool/impl.py`.
fn is_of_a_pools_file(file: &str) -> bool {
    let mut parts = file.rsplit('/');
    let stem = parts.next().unwrap_or(file).trim_end_matches(".py");
    stem.ends_with("pool") || stem.starts_with("pool") || parts.next() == Some("pool")
}

pub fn sentence(d: &Described<'_>) -> String {
    let who = if d.is_nowhere { "requests".to_owned() } else { at(d.place) };
    format!("{who} waited {} {}", ms_text(d.mean_ms), waited_for(d))
}

/// `for a pool whose workers ...`: the sentence behind the waiter and the length of its wait.
pub fn waited_for(d: &Described<'_>) -> String {
    use Resource::{
        Executor, Item, Message, NativeCondition, NothingInTime, OtherProcess, Permit, Processes,
        Result, Room,
    };
    let room = d.resource == Some(&Room);
    let waited = "for";
    match (d.resource.filter(|_| !d.culprit_measured), d.culprit) {
        (Some(pool @ Processes), _) => {
            return format!("{waited} {pool}; other processes are not recorded here");
        }
        (Some(other @ OtherProcess), _) => {
            return format!("{waited} {other}; what that did is not recorded here");
        }
        (Some(what @ (Message | NativeCondition | Result)), Some(_)) => {
            let doing = d.culprit_doing.filter(|_| *what == Result);
            let doing = doing.map_or_else(String::new, |doing| format!(", which {doing}"));
            return format!("{waited} {what}; most likely {} made it wait{doing}", d.blamed());
        }
        (Some(what @ (Message | NativeCondition)), None) => {
            return format!("{waited} {what}; who was to bring it is not known");
        }
        (Some(executor @ Executor), None) => {
            return format!(
                "{waited} {executor}; what its workers did was not recorded (other processes?)"
            );
        }
        (Some(nothing @ NothingInTime { at_work: true }), None) => {
            return format!("{waited} a pool; {nothing}");
        }
        (Some(NothingInTime { at_work: false }), None) => {
            return format!(
                "{waited} a pool; nothing came before the time limit, and no thread was seen at work \
                 meanwhile: most likely all was taken and not given back (a leak)"
            );
        }
        _ => {}
    }
    let named = d.resource.filter(|what| matches!(what, Room | Permit | Item));
    let what = named.map_or_else(|| "a pool".to_owned(), Resource::to_string);
    let waited = format!("{waited} {what}");
    let doing = d.culprit_doing.map_or_else(String::new, |doing| format!(", which {doing}"));
    match d.culprit {
        Some(_) if room => {
            let sure = if d.culprit_measured { "" } else { "most likely " };
            format!("{waited}, {sure}because {} kept its reader", d.blamed())
        }
        Some(_) if d.culprit_is_task => {
            let sure = if d.culprit_measured { "" } else { "most likely " };
            format!("{waited} that was {sure}taken up by {}{doing}", d.blamed())
        }
        Some(_) if d.culprit_measured => {
            format!("{waited} whose workers were busy in {}{doing}", d.blamed())
        }
        Some(_) => match d.through {
            Some(through) => format!(
                "{waited}; most likely {} had what it waited for, which waited for {}, held by {}{doing}",
                at(Some(&through.place)),
                through.waited_for,
                d.blamed()
            ),
            None => format!("{waited}; most likely {} had what it waited for{doing}", d.blamed()),
        },
        None if room => format!("{waited}; what kept its reader is not known"),
        None => format!("{waited}; what kept it busy is not known"),
    }
}
