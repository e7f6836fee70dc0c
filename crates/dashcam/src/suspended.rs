//! Looking at requests whose task is suspended on an event loop: no thread sits in them.
//!
//! How it works: the open request remembers its task. Past its usual time the task is followed to
//! where it stands, and a record is written when it stands elsewhere than before, and every
//! `REPEAT_NS` while it does not move. For a lock or semaphore the task inside its `async with` is
//! looked for among all of asyncio's tasks, and recorded as well.
//!
//! What it promises: at most `most` requests a pass, those not seen for longest first, of which
//! `MOST_LOOKS` are followed; a task that did not move costs two guarded reads. The search for a
//! holder walks a few hundred tasks at most, once in `ASK_HOLDER_NS` for each of `MOST_LOCKS` locks.
//! What is missing on purpose: requests begun outside of any task (in a protocol's callback) until
//! a task enters them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use format::record::{Await, TARGET_IS_NAME};
use format::wait::{AwaitKind, HolderSource};
use recorder::OpenRequest;
use samplers::python_stacks::{Mark, Suspended, UNKNOWN_PEER};
use sys::fds::FdKind;

use crate::subject::Looker;

/// A task that stays where it is is recorded again after this time; with many of them up to
/// `MOST_REPEAT_NS`, which a reader must still take for one and the same await.
const REPEAT_NS: u64 = 100_000_000;
const MOST_REPEAT_NS: u64 = 250_000_000;
/// Requests that are looked at as often as one is.
const FEW: u64 = 4;
/// Tasks followed in one pass. Each costs tens of microseconds.
const MOST_LOOKS: usize = 3;
/// The same for a request that awaits several tasks: which of them moved is not asked each pass.
const REPEAT_SEVERAL_NS: u64 = 30_000_000;
/// The holder of a lock is looked for at most this often; who waits for it too meanwhile is told the
/// same.
const ASK_HOLDER_NS: u64 = 25_000_000;
/// Locks whose holder is looked for within that time.
const MOST_LOCKS: usize = 4;
/// Tasks among which a holder is looked for.
const MOST_TASKS: usize = 256;

/// Address of asyncio's set of weak references to its tasks; 0 while asyncio was not seen. Written
/// by the binding, read by the sampler: a number on its own, so Relaxed.
static TASKS: AtomicUsize = AtomicUsize::new(0);

/// Tells where asyncio keeps its tasks. The address must be one of an object that is never freed.
pub fn set_asyncio_tasks(address: usize) {
    TASKS.store(address, Ordering::Relaxed);
}

struct Seen {
    seen_ns: u64,
    several: bool,
    mark: Mark,
}

/// What is remembered of suspended requests between passes.
#[derive(Default)]
pub(crate) struct Suspensions {
    seen: HashMap<u64, Seen>,
    found: Vec<Suspended>,
    tasks: Vec<usize>,
    /// Lock, when its holder was looked for, the answer.
    asked: Vec<(usize, u64, usize)>,
}

impl Suspensions {
    /// Looks at those of `open` that are in `urgent` (by index) and have a task. Returns the
    /// number of records written.
    pub(crate) fn look(
        &mut self,
        looker: &mut Looker,
        open: &[OpenRequest],
        urgent: &[usize],
        most: usize,
    ) -> u64 {
        let with_task = urgent.iter().filter_map(|i| open.get(*i)).filter(|r| r.task != 0);
        let mut due: Vec<(u64, OpenRequest)> = with_task
            .map(|request| (self.seen.get(&request.id).map_or(0, |s| s.seen_ns), *request))
            .collect();
        if due.is_empty() {
            self.seen.clear();
            return 0;
        }
        due.sort_by_key(|(seen_ns, _)| *seen_ns);
        if self.seen.len() > open.len() {
            self.seen.retain(|id, _| open.iter().any(|r| r.id == *id));
        }
        let repeat_ns = (REPEAT_NS * due.len() as u64 / FEW).clamp(REPEAT_NS, MOST_REPEAT_NS);
        let (mut written, mut looks) = (0, 0);
        for (_, request) in due.into_iter().take(most) {
            if self.is_due(looker, request.id, repeat_ns) {
                written += self.look_at(looker, open, &request);
                looks += 1;
            }
            if looks >= MOST_LOOKS {
                break;
            }
        }
        written
    }

    fn is_due(&self, looker: &Looker, request: u64, repeat_ns: u64) -> bool {
        let Some(seen) = self.seen.get(&request) else { return true };
        let repeat_ns = if seen.several { REPEAT_SEVERAL_NS } else { repeat_ns };
        let old = sys::clock::now_ns().saturating_sub(seen.seen_ns) >= repeat_ns;
        old || looker.stacks.as_ref().is_some_and(|stacks| stacks.has_moved(seen.mark))
    }

    fn look_at(&mut self, looker: &mut Looker, open: &[OpenRequest], request: &OpenRequest) -> u64 {
        let Some(stacks) = &mut looker.stacks else { return 0 };
        let now = sys::clock::now_ns();
        let mut found = std::mem::take(&mut self.found);
        if stacks.suspended(request.task as usize, &mut found).is_err() {
            found.clear();
        }
        // Also one whose task is gone, or it would be the first to be looked at each pass.
        let mark = found.first().map_or_else(Mark::default, |one| one.mark);
        self.seen.insert(request.id, Seen { seen_ns: now, several: found.len() > 1, mark });
        let mut written = 0;
        for one in &found {
            let holder = self.find_holder(looker, open, one, now);
            append(looker, request.id, one, holder, now);
            written += 1;
        }
        self.found = found;
        written
    }

    /// The task that holds what `waiter` awaits; recorded itself. 0: not known, or not asked now.
    fn find_holder(
        &mut self,
        looker: &mut Looker,
        open: &[OpenRequest],
        waiter: &Suspended,
        now: u64,
    ) -> usize {
        let held = matches!(waiter.kind, AwaitKind::Lock | AwaitKind::Semaphore);
        let (true, Some(stacks)) = (held, &mut looker.stacks) else { return 0 };
        self.asked.retain(|(_, asked_ns, _)| now.saturating_sub(*asked_ns) < ASK_HOLDER_NS);
        if let Some((_, _, holder)) = self.asked.iter().find(|(lock, ..)| *lock == waiter.lock) {
            return *holder;
        }
        if self.asked.len() >= MOST_LOCKS {
            return 0;
        }
        self.tasks.clear();
        // Those of open requests first: they are the likely ones, and known without the set.
        self.tasks.extend(open.iter().map(|r| r.task as usize).filter(|task| *task != 0));
        self.tasks.truncate(MOST_TASKS);
        let set = TASKS.load(Ordering::Relaxed);
        if set != 0 {
            stacks.tasks_in(set, MOST_TASKS, &mut self.tasks);
        }
        let tasks = &self.tasks[..self.tasks.len().min(2 * MOST_TASKS)];
        let holder = stacks.task_holding(waiter.lock, tasks).unwrap_or(0);
        self.asked.push((waiter.lock, now, holder));
        if holder == 0 {
            return 0;
        }
        let mut found = Vec::new();
        if stacks.suspended(holder, &mut found).is_ok() {
            if let Some(one) = found.first() {
                // Under the holder's address, though it may stand in a task it awaits.
                let one = Suspended { task: holder, ..one.clone() };
                append(looker, 0, &one, 0, now);
            }
        }
        holder
    }
}

fn append(looker: &mut Looker, request: u64, one: &Suspended, holder: usize, now: u64) {
    let stack = if one.frames.is_empty() { 0 } else { looker.stack_of(&one.frames) };
    let peer = match one.fd {
        Some(UNKNOWN_PEER) => Some("a peer".to_owned()),
        Some(fd) => sys::fds::describe(fd).filter(|i| is_socket(i.kind)).map(|info| info.text),
        None => None,
    };
    let target = peer.map_or(0, |text| TARGET_IS_NAME | u64::from(looker.target(&text)));
    let record = Await {
        t_ns: now,
        request,
        task: one.task as u64,
        stack,
        kind: one.kind,
        how: if holder == 0 { HolderSource::None } else { HolderSource::WithBlock },
        holder: holder as u64,
        target,
        timeout_ns: one.timeout_ns,
    };
    recorder::append(&record.encode(), now);
}

fn is_socket(kind: FdKind) -> bool {
    matches!(kind, FdKind::TcpSocket | FdKind::UdpSocket | FdKind::UnixSocket)
}
