//! pool-wait: the request waits for a worker or for an item of a pool.
//!
//! Signature: a part of its work was handed to an executor and had not begun (the recorder stamps
//! both), or its thread waits in `queue.Queue.get`, the usual shape of a pool of connections, in
//! `Queue.put` for room in a full queue, in `threading.Semaphore`, in a library's code that hands
//! things out, for the result of an executor or of multiprocessing's pool, or for a notice of
//! multiprocessing's; on an event loop its task awaits a Semaphore, a Queue, a future that another
//! task is to fulfil, an executor whose work was not recorded, or a library's code that hands
//! things out; in Rust and C: in the code of a channel or a condition variable. That of a package's
//! pool is known by the names of its functions, types and files.
//!
//! What the pool's workers did meanwhile is the culprit. So is, at the line of the program's own,
//! the thread that ran just before the wait ended, the task that is to end it, or another task that
//! awaited something in the same file or library meanwhile. These are inferences: *likely* at most.
//! Workers of a pool of processes are not recorded.
//!
//! Quotes: what the workers did, and the holder of what was waited for. Sure: the executor's
//! records have the worker that took it up in the end, and samples show what that worker did
//! meanwhile.

use analysis::frames::Owner;
use analysis::resource::Resource;
use analysis::signatures;
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::wait::{AwaitKind, WaitKind};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::{Blocker, Claim};
use crate::context::Context;
use crate::doing::Doing;
use crate::ended_by::holder;
use crate::ended_by::read::wakeup_record;
use crate::ended_by::tasks::task::{self, For};
use crate::facts::awaits::{self, Awaited};
use crate::facts::{pools, threads, waiting};

pub const RULE: Rule = Rule { id: "pool-wait", grounds: Grounds::Code, claim };
pub const ROW: Row = Row { sentence, advice };

const ADVICE: &str =
    "Make the pool larger, give its waiters a time limit, or shorten what keeps its workers busy.";

/// Of a pool whose workers wait for another thread.
const ADVICE_CHAINED: &str =
    "Shorten what the pool's workers wait for; a larger pool would only let more of them wait there.";

/// Of a pool whose workers wait for a pool themselves, which may be their own.
const ADVICE_NESTED: &str =
    "Let no work of a pool wait for other work of it: give the parts a pool of their own, or let the \
     worker do them itself (a larger pool only moves the limit); shorten the wait if it is for \
     another pool.";

const ADVICE_ROOM: &str =
    "Shorten what keeps the queue's reader busy, give it more readers, or let \
     its writers drop what does not fit.";

const ADVICE_ITEM: &str =
    "Look at what puts items into the queue or gives them back (a worker that is busy, a timer, code \
     that keeps what it took), and give the wait a time limit.";

/// Of a future that another task is to fulfil.
const ADVICE_RESULT: &str =
    "Give that work more workers (tasks, threads), or shorten what each of them does; and give the wait \
     a time limit.";

const ADVICE_UNUSED: &str =
    "Look for code that takes from the pool and does not give back: without `with`, or \
     with a way out (an error, an early return) on which nothing is closed.";

const ADVICE_VAIN: &str =
    "Find what holds the pool's items: code that keeps one for long, or that does not give it back \
     (without `with`, or with a way out on which nothing is closed).";

/// Of a condition variable's notice that nobody gave.
const ADVICE_UNNOTIFIED: &str =
    "Change what the waiter checks under the condition's own lock and notify behind that: a notice \
     that comes between the check and the wait is lost.";

/// More workers only wait for more of such clients.
const ADVICE_CLIENT: &str =
    "Put a proxy in front that takes whole requests and responses and keeps idle connections, or use \
     a worker that waits for many clients at once (threads, an event loop); and give clients a time \
     limit.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait || segment.wait() != WaitKind::Futex {
        return None;
    }
    if !pools::is_of_a_pool(cx, segment.stack()) || pools::has_no_work(cx, segment.stack()) {
        return None;
    }
    let in_vain = waiting::timed_out(cx, segment);
    let nothing = || in_vain.then(|| nothing_in_time(cx, segment));
    let known = pools::resource(cx, segment.stack()).or_else(nothing);
    // A library that hands something else out waits so, too.
    let own = || cx.frames.resource(segment.stack(), &signatures::OWN_POOLS);
    let resource = known.or_else(own);
    // The thread that gave back the item which this one got had it until then; a waiter whose time
    // ran out got none.
    let elsewhere = matches!(resource, Some(Resource::Processes | Resource::OtherProcess));
    let ended_here = !elsewhere && !in_vain;
    let blocker = holder::pool_holder(cx, segment, ended_here);
    // The blocker of a worker is a lock at times, and then the lock's holder counts; a worker that
    // waits for a pool itself only hands on.
    let blocker = blocker.map(|c| holder::behind(cx, c, segment, true));
    let blocker = blocker.map(|c| {
        let last = pools::is_of_a_pool(cx, c.stack).then(|| holder::behind(cx, c, segment, false));
        last.filter(|last| !pools::is_of_a_pool(cx, last.stack)).unwrap_or(c)
    });
    let at = |c: Blocker| Blocker {
        stack: wakeup_record::release_stack(cx, segment, c.tid, c.stack),
        ..c
    };
    let blocker = blocker.map(at);
    Some(Claim { blocker, resource, ..Claim::of(Cause::PoolWait, segment) })
}

/// A wait whose time limit ran out, and whether any thread was at work then that may have had what
/// it waited for: a thread in the program's own code that is neither idle nor waits for a pool
/// itself.
fn nothing_in_time(cx: &Context<'_>, segment: &Segment<'_>) -> Resource {
    let (from, to) = segment.times();
    let user = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::User;
    let works = |tid: u32| {
        let idle = |s: &Segment<'_>| {
            let parked = s.sample.is_some_and(|sample| threads::waits_for_work(cx, tid, sample));
            let waits = s.wait() == WaitKind::Futex
                && (pools::is_of_a_pool(cx, s.stack()) || pools::is_idle(cx, s.stack()));
            s.state == State::Unknown
                || s.state == State::Wait && (parked || waits)
                || !cx.frames.any(s.stack(), user)
        };
        cx.ns_of(tid, (from, to), idle) * 2 < to - from
    };
    Resource::NothingInTime { at_work: cx.others(segment.tid).any(works) }
}

/// Whether any task was at work while `seen` was awaited in vain that may have had it: one that
/// awaited something in the code of the program or of that library, but not the same as this one.
fn tasks_at_work(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> bool {
    let own = seen.row;
    cx.await_samples_around(segment).any(|row| {
        let fellow = row.request == own.request || row.task == own.task;
        let same = pools::is_same_pool_of_tasks(cx, row.stack, own.stack);
        !fellow && !same && awaits::is_own(cx, row)
    })
}

/// Of a full queue the thread that empties it counts; of an item that is not in use, the thread
/// that took it; of a queue of tasks, whatever puts into it or takes from it.
fn advice(d: &Described<'_>) -> &'static str {
    match d.resource {
        Some(Resource::Room) => ADVICE_ROOM,
        Some(Resource::NativeCondition) if is_unnotified(d) => ADVICE_UNNOTIFIED,
        Some(Resource::Item) if d.culprit.is_none() || d.culprit_is_task => ADVICE_ITEM,
        Some(Resource::Result) if d.culprit_is_task => ADVICE_RESULT,
        Some(Resource::IdleClient { .. }) => ADVICE_CLIENT,
        // That it handed out nothing in time counts only where nobody is to blame.
        Some(Resource::NothingInTime { at_work }) if d.culprit.is_none() => match at_work {
            true => ADVICE_VAIN,
            false => ADVICE_UNUSED,
        },
        // That it is small counts only where none of its workers waits for another thread.
        _ if d.through.is_some() => ADVICE_CHAINED,
        _ if d.culprit_measured && d.culprit_doing == Some(Doing::Pool) => ADVICE_NESTED,
        _ => ADVICE,
    }
}

/// Whether it was a wait for a notice that ended with its time limit.
fn is_unnotified(d: &Described<'_>) -> bool {
    d.timed_out && d.culprit.is_none()
}

/// Of a suspended task: a semaphore, a queue, or a library's Event in code that hands something
/// out.
pub fn awaited(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::PoolWait, seen.row, segment);
    match seen.row.kind {
        AwaitKind::Semaphore => {
            Some(Claim { blocker: task::blocker(cx, seen, segment, For::Lock), ..own })
        }
        AwaitKind::Queue => {
            let resource = pools::of_queue(cx, seen.row.stack);
            let blocker = task::blocker(cx, seen, segment, For::Lock);
            Some(Claim { blocker, resource, ..own })
        }
        AwaitKind::Executor => {
            let ours = !pools::futures_are_of_processes(cx);
            let blocker = ours.then(|| task::blocker(cx, seen, segment, For::Executor)).flatten();
            let resource = match blocker {
                Some(_) => Resource::Result,
                None if cx.frames.is_native_program() => Resource::Result,
                None => Resource::Executor,
            };
            Some(Claim { blocker, resource: Some(resource), ..own })
        }
        AwaitKind::Event | AwaitKind::Condition | AwaitKind::Future
            if awaits::target(cx, seen.row).is_none() && pools::hands_out(cx, seen.row.stack) =>
        {
            let blocker = task::blocker(cx, seen, segment, For::Library);
            let in_vain = blocker.is_none() && awaits::failed_behind(cx, seen);
            let at_work = || tasks_at_work(cx, seen, segment);
            let resource = in_vain.then(|| Resource::NothingInTime { at_work: at_work() });
            Some(Claim { blocker, resource, ..own })
        }
        // A future of the program's own: the thread that is to fulfil it works for a request.
        AwaitKind::Future
            if awaits::target(cx, seen.row).is_none() && !awaits::by_library(cx, seen.row) =>
        {
            let blocker = task::blocker(cx, seen, segment, For::Future)?;
            Some(Claim { blocker: Some(blocker), resource: Some(Resource::Result), ..own })
        }
        // A library's, which hands its work to a thread of its own.
        AwaitKind::Future if awaits::target(cx, seen.row).is_none() => {
            let blocker = task::blocker(cx, seen, segment, For::LibrarysFuture)?;
            Some(Claim { blocker: Some(blocker), resource: Some(Resource::Result), ..own })
        }
        _ => None,
    }
}

fn sentence(d: &Described<'_>) -> String {
    let waiter = if d.is_nowhere { "requests".to_owned() } else { rule::at(d.place) };
    format!("{waiter} waited {} {}", d.time(), waited_for(d))
}

/// The same behind "for", where that has words of its own: a client that keeps a worker, what other
/// processes do, a message, what did not come in time.
fn waited_for_other_than_an_item(d: &Described<'_>) -> Option<String> {
    use Resource::{
        Executor, IdleClient, Message, NativeCondition, NothingInTime, OtherProcess, Processes,
        Result,
    };
    if let (Some(client @ IdleClient { .. }), Some(_)) = (d.resource, d.culprit) {
        return Some(format!("a worker that was kept in {} by {client}", d.blamed()));
    }
    Some(match (d.resource.filter(|_| !d.culprit_measured), d.culprit) {
        (Some(pool @ Processes), _) => {
            format!("{pool}; other processes are not recorded here")
        }
        (Some(other @ OtherProcess), _) => {
            format!("{other}; what that did is not recorded here")
        }
        (Some(what @ (Message | NativeCondition | Result)), Some(_)) => {
            let doing = d.culprit_doing.filter(|_| *what == Result);
            let doing = doing.map_or_else(String::new, |doing| format!(", which {}", doing.text()));
            format!("{what}; most likely {} made it wait{doing}", d.blamed())
        }
        (Some(message @ Message), None) => format!("{message}; the sender is not known"),
        (Some(condition @ NativeCondition), None) if is_unnotified(d) => {
            format!("{condition} until its time limit: no thread notified it")
        }
        (Some(condition @ NativeCondition), None) => {
            format!("{condition}; the thread that was to notify it is not known")
        }
        (Some(executor @ Executor), None) => {
            let did = "what its workers did was not recorded (other processes?)";
            format!("{executor}; {did}")
        }
        (Some(nothing @ NothingInTime { at_work: true }), None) => {
            format!("a pool; {nothing}")
        }
        (Some(NothingInTime { at_work: false }), None) => {
            let leaked = "nothing came before the time limit, and no thread was seen at work \
                          meanwhile: most likely all was taken and not given back (a leak)";
            format!("a pool; {leaked}")
        }
        _ => return None,
    })
}

/// `for a pool whose workers ...`: the sentence behind the waiter and the length of its wait.
pub fn waited_for(d: &Described<'_>) -> String {
    use Resource::{Item, Permit, Room};
    if let Some(words) = waited_for_other_than_an_item(d) {
        return format!("for {words}");
    }
    let room = d.resource == Some(&Room);
    let waited = "for";
    let named = d.resource.filter(|what| matches!(what, Room | Permit | Item));
    let what = named.map_or_else(|| "a pool".to_owned(), Resource::to_string);
    let waited = format!("{waited} {what}");
    let doing =
        d.culprit_doing.map_or_else(String::new, |doing| format!(", which {}", doing.text()));
    match d.culprit {
        Some(_) if room => {
            let sure = d.sure();
            format!("{waited}, {sure}because {} kept its reader", d.blamed())
        }
        // It may have taken the item, or be the one to put it in.
        Some(_) if d.culprit_is_task && d.resource == Some(&Item) => {
            let sure = d.sure();
            format!("{waited}; {sure}{} made it wait{doing}", d.blamed())
        }
        Some(_) if d.culprit_is_task => {
            let sure = d.sure();
            format!("{waited} that was {sure}taken up by {}{doing}", d.blamed())
        }
        Some(_) if d.culprit_measured => {
            format!("{waited} whose workers were busy in {}{doing}", d.blamed())
        }
        Some(_) => match d.through {
            Some(through) => format!(
                "{waited}; {}{} had what it waited for, which waited for {} {}{doing}",
                d.sure(),
                rule::at(Some(&through.place)),
                through.waited_for,
                d.blamed()
            ),
            None => {
                let (sure, blamed) = (d.sure(), d.blamed());
                format!("{waited}; {sure}{blamed} had what it waited for{doing}")
            }
        },
        None if d.resource == Some(&Item) => {
            format!("{waited}; none was put in meanwhile, and the thread that was to is not known")
        }
        None if room => format!("{waited}; what kept its reader is not known"),
        None => format!("{waited}; what kept it busy is not known"),
    }
}
