//! lock-wait: the request's thread waits in a futex (or a file lock) that is not the GIL's.
//!
//! Signature: futex wait; the futex address is the lock's identity. The holder is read from the
//! lock itself where it has an owner field (RLock), or it is the thread inside the lock's `with`
//! block. Otherwise it is inferred: the one thread that is in the very call that waits and does
//! something else there (a lock inside of C code: a buffered file, a database connection), or the
//! only thread that ran just before the wait ended. A sleep inside of SQLite is its busy handler's,
//! which asks for the database's lock again and again, and one inside of a library's function that
//! takes a lock is that library's, as is a peer's answer between two such pauses; a Manager's
//! process answers when a lock of its own is free. None of these names its holder. Inferred holders
//! make the verdict "likely", never "confirmed".
//!
//! Quotes: the holder, what it did, the holder's own blocker. Sure: the lock, or the `with` block
//! of the holder, names the holder.

use analysis::resource::{LockedBy, Of, Resource};
use analysis::signatures::{self, Stdlib};
use analysis::timeline::{Segment, State};
use format::record::Sample;
use format::wait::{AwaitKind, HolderSource, WaitKind};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::holder;
use crate::ended_by::tasks::task::{self, For};
use crate::facts::awaits::{self, Awaited};
use crate::facts::{pools, waiting};

pub const RULE: Rule = Rule { id: "lock-wait", grounds: Grounds::Call, claim };
pub const ROW: Row = Row { sentence, advice };

const ADVICE: &str = "Shorten what is done while the lock is held: move waiting, I/O and long \
     work out of it.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait {
        return None;
    }
    match segment.wait() {
        // `Thread.start` waits for the new thread to come up: no lock of anybody's.
        WaitKind::Futex if cx.frames.any_at(segment.stack(), Stdlib::ThreadStart) => None,
        // Nor does an executor's worker wait for a worker that has nothing to do: the sample is
        // from before its work began.
        WaitKind::Futex if pools::has_no_work(cx, segment.stack()) => None,
        // It waits for what another thread polls for.
        WaitKind::Futex if waiting::polled_by_another(cx, segment).is_some() => None,
        WaitKind::Futex => {
            let blocker = holder::lock_holder(cx, segment);
            if blocker.is_none() && waiting::joins(cx, segment.stack()) {
                // The end of a thread that nobody saw: no lock, and nobody held one.
                return None;
            }
            let notice = notice(cx, segment);
            let named = || waiting::lock_name(cx, segment).map(Resource::Lock);
            let cached = || cx.frames.leaf_at(segment.stack(), Stdlib::CachedProperty);
            let resource = notice.or_else(named);
            let resource = resource.or_else(|| cached().then_some(Resource::CachedProperty));
            Some(Claim { blocker, resource, ..Claim::of(Cause::LockWait, segment) })
        }
        WaitKind::FileLock => {
            let name = segment.sample.and_then(|s| cx.target(s));
            let resource = name.map(Resource::file_lock);
            let ours =
                matches!(resource, Some(Resource::FileLock { by: LockedBy::ThisProcess, .. }));
            let blocker = if ours { holder::file_lock_holder(cx, segment) } else { None };
            Some(Claim { blocker, resource, ..Claim::of(Cause::LockWait, segment) })
        }
        WaitKind::Sleep if cx.frames.asks_sqlite(segment.stack()) => {
            let (blocker, resource) =
                (holder::database_holder(cx, segment), Some(Resource::Database));
            // A database's client is the messenger.
            Some(Claim { blocker, resource, ..Claim::of(Cause::LockWait, segment) })
        }
        WaitKind::Sleep if cx.frames.polls_a_lock(segment.stack()) => {
            let resource = Some(Resource::PolledLock);
            Some(Claim { resource, ..Claim::of(Cause::LockWait, segment) })
        }
        _ if is_managed(cx, segment) => {
            let resource = Some(Resource::ManagedLock);
            Some(Claim { resource, ..Claim::of(Cause::LockWait, segment) })
        }
        _ if asks_between_pauses(cx, segment) => {
            let resource = Some(Resource::PolledLock);
            Some(Claim { resource, ..Claim::of(Cause::LockWait, segment) })
        }
        _ => None,
    }
}

/// Whether a peer's answer that a segment waits for is that a lock is taken: a library asks for the
/// lock, and before and after that it pauses.
fn asks_between_pauses(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let asks = |stack| cx.frames.is_in_taking_a_lock(stack);
    let of_a_peer = matches!(segment.wait(), WaitKind::SocketRead | WaitKind::Poll);
    if !of_a_peer || !asks(segment.stack()) {
        return false;
    }
    let samples = cx.all_samples(segment.tid);
    let (before, after) = samples.split_at(samples.partition_point(|s| s.t_ns < segment.from_ns));
    let pauses = |s: &Sample| s.wait == WaitKind::Sleep && cx.frames.polls_a_lock(s.stack);
    before.iter().rev().take_while(|s| asks(s.stack)).any(pauses)
        && after.iter().take_while(|s| asks(s.stack)).any(pauses)
}

/// Whether the answer that a segment waits for is that a lock is taken.
pub fn is_asked_of_a_peer(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    is_managed(cx, segment) || asks_between_pauses(cx, segment)
}

/// Whether the answer of a Manager's process that a segment waits for is that a lock is taken: the
/// process only has the lock, and a thread of this or another one holds it.
fn is_managed(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    matches!(segment.wait(), WaitKind::SocketRead | WaitKind::Poll)
        && cx.frames.any_at(segment.stack(), Stdlib::ManagedLock)
}

/// Of a wait for notice, what the notifier does before it gives notice is what counts.
fn advice(d: &Described<'_>) -> &'static str {
    match d.resource {
        Some(Resource::Database) => ADVICE_SQLITE,
        Some(Resource::CachedProperty) => ADVICE_CACHED_PROPERTY,
        _ => notice_of(d.resource).map_or(ADVICE, |n| n.advice),
    }
}

/// Whether it is something that another thread is to give notice of: it has no holder.
pub fn is_notice(resource: Option<&Resource>) -> bool {
    notice_of(resource).is_some()
}

fn notice_of(resource: Option<&Resource>) -> Option<&'static Notice> {
    NOTICES.iter().find(|n| Some(&n.resource) == resource)
}

/// What is waited for with a lock and has no holder: another thread is to give notice.
struct Notice {
    resource: Resource,
    what: &'static str,
    /// The notifier's action: `set by`.
    given: &'static str,
    /// What a notifier that is not known was to do: `the thread that was to ...`.
    to: &'static str,
    advice: &'static str,
}

const SETS: Notice = Notice {
    resource: Resource::Event(Of::Threads),
    what: "an Event",
    given: "set",
    to: "set it",
    advice: "Look at what the thread that sets the Event does before; give the wait a time limit.",
};

const NOTIFIES: Notice = Notice {
    resource: Resource::Condition(Of::Threads),
    what: "a Condition",
    given: "notified",
    to: "notify it",
    advice:
        "Look at what the thread that notifies the Condition does before; give the wait a time \
             limit.",
};

static NOTICES: [Notice; 7] = [
    SETS,
    NOTIFIES,
    Notice {
        resource: Resource::Barrier,
        what: "a Barrier",
        given: "reached last",
        to: "reach it last",
        advice: "Look at what the thread that comes last does before; give the wait a time limit.",
    },
    Notice {
        resource: Resource::ThreadEnd,
        what: "a thread's end",
        given: "kept from it",
        to: "end",
        advice: "Look at what the thread does before it ends; give join() a time limit.",
    },
    Notice {
        resource: Resource::Event(Of::Tasks),
        advice:
            "Look at what the task that sets the Event does before; give the wait a time limit.",
        ..SETS
    },
    Notice {
        resource: Resource::Condition(Of::Tasks),
        advice: "Look at what the task that notifies the Condition does before; give the wait a \
                 time limit.",
        ..NOTIFIES
    },
    Notice {
        resource: Resource::TaskNotice,
        what: "a notice",
        given: "given",
        to: "give it",
        advice: "Look at what the task that gives the notice does before; a notice that is given \
                 before anybody waits must be kept (Notify::notify_one(), not notify_waiters()).",
    },
];

/// Nothing names the holder: the lock is the connection's, not a thread's. The thread that left a
/// function each time is inferred (`recurring`).
const ADVICE_SQLITE: &str =
    "Find the connection whose transaction was open meanwhile, of this process or another, and \
     shorten it: no waiting or long work between BEGIN and COMMIT; WAL lets readers go on.";

const ADVICE_CACHED_PROPERTY: &str =
    "Up to CPython 3.11 a cached_property has one lock for all instances of its class: use 3.12 or \
     later, or keep the value in an attribute of your own.";

/// Whether the kernel recorded which process has the file lock that is waited for.
pub fn has_known_process(resource: Option<&Resource>) -> bool {
    resource.is_some_and(Resource::has_known_process)
}

/// Which primitive of `threading` is waited for until some thread gives notice. Where the lock that
/// is waited for names its holder, a Condition's own lock is being taken again.
fn notice(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Resource> {
    let held = segment.sample.is_some_and(|s| s.holder_source != HolderSource::None);
    let notice = cx.frames.resource(segment.stack(), &signatures::NOTICES);
    notice.filter(|notice| !(held && matches!(notice, Resource::Condition(_))))
}

/// Of a suspended task: a lock of asyncio's, whose holder is the task suspended inside its
/// `async with`, or of a library's, by its names; or an Event or Condition that another task is to
/// set, unless a library's: that is its way to wait for a peer or a pool.
pub fn awaited(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::LockWait, seen.row, segment);
    match seen.row.kind {
        AwaitKind::Lock => {
            Some(Claim { blocker: task::blocker(cx, seen, segment, For::Lock), ..own })
        }
        // A library's lock, which waits in a future of its own.
        AwaitKind::Condition | AwaitKind::Event | AwaitKind::Future
            if cx.frames.is_in_taking_a_lock(seen.row.stack) =>
        {
            Some(Claim { blocker: task::blocker(cx, seen, segment, For::Library), ..own })
        }
        AwaitKind::Condition | AwaitKind::Event => {
            let library = awaits::by_library(cx, seen.row);
            // A library that hands something out waits in a Condition of its own.
            let pool = library && pools::hands_out(cx, seen.row.stack);
            if pool || library && seen.row.kind == AwaitKind::Event {
                return None;
            }
            let resource = Some(match seen.row.kind {
                _ if cx.frames.is_native_program() => Resource::TaskNotice,
                AwaitKind::Event => Resource::Event(Of::Tasks),
                _ => Resource::Condition(Of::Tasks),
            });
            let blocker = task::blocker(cx, seen, segment, For::Notice);
            Some(Claim { blocker, resource, ..own })
        }
        _ => None,
    }
}

fn sentence(d: &Described<'_>) -> String {
    format!("{} waited {} {}", rule::at(d.place), d.time(), waited_for(d))
}

/// `get() waited 600 ms for a Condition`: of a wait for notice, without what came of it.
pub fn noticeless(d: &Described<'_>) -> String {
    let what = notice_of(d.resource).map_or("notice", |n| n.what);
    format!("{} waited {} for {what}", rule::at(d.place), d.time())
}

/// `for a lock, held by ...`: the sentence behind the waiter and the length of its wait.
pub fn waited_for(d: &Described<'_>) -> String {
    let notice = notice_of(d.resource);
    let what = match (notice, d.resource) {
        (Some(notice), _) => notice.what.to_owned(),
        (None, Some(database @ Resource::Database)) => {
            format!("a lock of {database}, asking again")
        }
        (
            None,
            Some(lock @ (Resource::PolledLock | Resource::ManagedLock | Resource::CachedProperty)),
        ) => lock.to_string(),
        (None, Some(Resource::FileLock { name, .. })) if name.starts_with('/') => {
            format!("the file lock of {name}")
        }
        (None, Some(lock)) => format!("the lock {lock}"),
        (None, None) => "a lock".to_owned(),
    };
    let limit = if d.timed_out { " until its time limit" } else { "" };
    let waited = format!("for {what}{limit}");
    let held = notice.map_or("held", |n| n.given);
    if d.culprit.is_none() {
        return match notice {
            Some(notice) => format!("{waited}; the thread that was to {} is not known", notice.to),
            None if has_known_process(d.resource) => waited,
            None => format!("{waited}; the holder is not known"),
        };
    }
    let doing =
        d.culprit_doing.map_or_else(String::new, |doing| format!(", which {}", doing.text()));
    let sure = d.sure();
    // The holder of a file lock of this process is already reported.
    let known = match has_known_process(d.resource) {
        true => format!("{sure}by"),
        false => format!("{sure}{held} by"),
    };
    let known = match d.through {
        Some(through) => {
            let (place, what) = (rule::at(Some(&through.place)), through.waited_for);
            format!("{known} {place}, which waited for {what}")
        }
        None => known,
    };
    let thread = match (d.culprit_threads, d.culprit_thread) {
        _ if d.culprit_is_task => "another task".to_owned(),
        (0 | 1, Some(name)) => format!("thread {name}"),
        (0 | 1, None) => "another thread".to_owned(),
        (n, _) => format!("{n} threads in turn"),
    };
    format!("{waited}, {known} {} in {thread}{doing}", d.blamed())
}
