//! The dispatcher: the one thread that touches the network.
//!
//! How it works: it takes the oldest packet and keeps it until the kernel has it, or it cannot be
//! sent at all. When the receiver is gone it tries again after 50 ms, then twice that, up to 5 s;
//! when the receiver only does not read, after 1 to 50 ms. Meanwhile packets wait, as many as fit,
//! so an agent that restarts costs nothing.
//!
//! Over UDP it pauses for a millisecond after 32 datagrams: a receiver's usual buffer holds about
//! ninety, and what it has no room for is lost without a notice.
//!
//! Names are resolved here and nowhere else: again when they are old or no receiver answers, and
//! one address after another is tried (`localhost` may be ::1 first, and the agent at 127.0.0.1).

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::{Config, Target};
use crate::lines::Lines;
use crate::queue::Queue;
use crate::stats::Reason;
use crate::wire::{Sent, Wire};

const FIRST_WAIT: Duration = Duration::from_millis(50);
const MOST_WAIT: Duration = Duration::from_secs(5);
const FIRST_POLL: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(50);
/// UDP datagrams in a row, and the pause after them, ns: 1.2 million usual lines a second.
const BURST: u32 = 32;
const BREATH_NS: u64 = 1_000_000;
/// A receiver that does not read is reported after this long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Least time between two messages.
const QUIET: Duration = Duration::from_secs(60);

/// What callers and the dispatcher of one process share.
pub(crate) struct Core {
    pub(crate) config: Config,
    /// The process that it is of.
    pub(crate) pid: u32,
    /// For windows: remembers gauges. Locked before the queue.
    pub(crate) lines: Mutex<Lines>,
    /// For events and checks: only its settings are used.
    pub(crate) marks: Lines,
    pub(crate) queue: Mutex<Queue>,
    /// Notified when something came or is wanted.
    pub(crate) came: Condvar,
    /// Notified when something was settled, or the dispatcher ended.
    pub(crate) moved: Condvar,
    /// Lines of callers that found the queue locked. Relaxed: a count, added to the account under
    /// the lock.
    pub(crate) found_busy: AtomicU64,
}

impl Core {
    /// Empty and without a thread.
    pub(crate) fn new(config: &Config) -> Core {
        let target = config.target.to_string();
        Core {
            config: config.clone(),
            pid: std::process::id(),
            lines: Mutex::new(Lines::new(config)),
            marks: Lines::new(config),
            queue: Mutex::new(Queue::new(target, config.queue_bytes, config.packet_bytes)),
            came: Condvar::new(),
            moved: Condvar::new(),
            found_busy: AtomicU64::new(0),
        }
    }

    /// The queue, with every line in its account.
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.fold(&mut queue);
        queue
    }

    /// As `queue`, without waiting. None: another thread has it.
    pub(crate) fn try_queue(&self) -> Option<MutexGuard<'_, Queue>> {
        for _ in 0..1000 {
            match self.queue.try_lock() {
                Ok(mut queue) => {
                    self.fold(&mut queue);
                    return Some(queue);
                }
                Err(std::sync::TryLockError::Poisoned(poisoned)) => {
                    return Some(poisoned.into_inner())
                }
                Err(std::sync::TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    fn fold(&self, queue: &mut Queue) {
        match self.found_busy.swap(0, Ordering::Relaxed) {
            0 => {}
            lines => queue.refuse(Reason::Busy, lines),
        }
    }

    /// Waits on `on` for at most `time`.
    pub(crate) fn wait<'q>(
        on: &Condvar,
        queue: MutexGuard<'q, Queue>,
        time: Duration,
    ) -> MutexGuard<'q, Queue> {
        on.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Starts the dispatcher if there is none. Call it with the queue unlocked.
    pub(crate) fn wake(&'static self, mut queue: MutexGuard<'_, Queue>) {
        let start = !queue.running && !queue.ended;
        queue.running = true;
        drop(queue);
        if !start {
            return self.came.notify_one();
        }
        if let Err(error) = sys::thread::spawn_quiet("dashcam-statsd", move || guarded(self)) {
            let mut queue = self.queue();
            queue.failed(Reason::Internal, format!("no thread for the StatsD sink: {error}"));
            queue.drop_all(Reason::Internal);
            queue.running = false;
        }
    }
}

/// The thread. A panic ends it and is counted; what waits and what comes is lost then.
fn guarded(core: &'static Core) {
    if core.config.target.is_resolved() {
        // An error: the socket is in the host's table, like all descriptors of ours.
        let _ = sys::ours::move_apart();
    }
    let life = std::panic::AssertUnwindSafe(|| Dispatcher::new(core).run());
    let failed = std::panic::catch_unwind(life).is_err();
    let mut queue = core.queue();
    if failed {
        queue.failed(Reason::Internal, "the StatsD sink ended by an internal error".to_owned());
        queue.drop_all(Reason::Internal);
        queue.closed = true;
    }
    queue.ended = true;
    queue.running = false;
    drop(queue);
    core.moved.notify_all();
}

/// Why an attempt failed.
struct Failure {
    reason: Reason,
    error: io::Error,
    /// An earlier packet was refused.
    before: bool,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure { reason: Reason::of(&error), error, before: false }
    }
}

struct Dispatcher {
    core: &'static Core,
    wire: Option<Wire>,
    addresses: Vec<SocketAddr>,
    /// The address in use.
    at: usize,
    asked: Option<Instant>,
    wait: Duration,
    poll_wait: Duration,
    /// It was reported that nothing goes.
    reported: bool,
    last_said: Option<Instant>,
    /// What was lost when that was reported.
    lost_before: u64,
}

impl Dispatcher {
    fn new(core: &'static Core) -> Dispatcher {
        Dispatcher {
            core,
            wire: None,
            addresses: Vec::new(),
            at: 0,
            asked: None,
            wait: FIRST_WAIT,
            poll_wait: FIRST_POLL,
            reported: false,
            last_said: None,
            lost_before: 0,
        }
    }

    fn run(&mut self) {
        let mut in_a_row = 0;
        while let Some((number, bytes)) = self.next() {
            self.deliver(number, &bytes);
            self.core.moved.notify_all();
            in_a_row += 1;
            if in_a_row % BURST == 0 && self.wire.as_ref().is_some_and(Wire::is_udp) {
                sys::thread::pause(BREATH_NS);
            }
        }
    }

    /// The next packet. None: the dispatcher is to end.
    fn next(&self) -> Option<(u64, Vec<u8>)> {
        let mut queue = self.core.queue();
        loop {
            if queue.ended {
                return None;
            }
            if let Some(taken) = queue.take() {
                return Some(taken);
            }
            queue = self.core.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends one packet, however long it takes, unless the dispatcher is to end.
    fn deliver(&mut self, number: u64, bytes: &[u8]) {
        loop {
            let (closing, kicks) = {
                let queue = self.core.queue();
                if queue.ended {
                    return;
                }
                (queue.deadline.is_some(), queue.kicks)
            };
            let failure = match self.attempt(bytes) {
                Ok(()) => return self.sent(number),
                Err(failure) => failure,
            };
            let said = format!("{}: {}", self.core.config.target, failure.error);
            let full = matches!(failure.reason, Reason::WouldBlock | Reason::NoBuffers);
            let is_too_large = failure.reason == Reason::MessageSize;
            let is_elsewhere = !full && !is_too_large && self.move_on();
            let mut queue = self.core.queue();
            if failure.before {
                queue.refused_late();
            }
            queue.failed(failure.reason, said);
            if is_too_large {
                queue.lost(number, Reason::MessageSize);
                return;
            }
            if is_elsewhere {
                // The name has another address: no wait between the two.
                continue;
            }
            queue.rounds += u64::from(!full);
            if closing && !full {
                queue.drop_all(failure.reason);
                return;
            }
            drop(queue);
            self.core.moved.notify_all();
            self.complain(full);
            self.pause(full, closing, kicks);
        }
    }

    /// The next try goes to the next address. False: all addresses were tried.
    fn move_on(&mut self) -> bool {
        self.wire = None;
        self.at += 1;
        if self.at >= self.addresses.len() {
            // All were tried: the name may resolve to others by now.
            self.addresses.clear();
            self.at = 0;
        }
        self.at > 0
    }

    /// Waits before the next try; less if a caller asks for a try, or closing begins.
    fn pause(&mut self, full: bool, closing: bool, kicks: u64) {
        let time = if full { self.poll_wait } else { jittered(self.wait) };
        self.poll_wait = (self.poll_wait * 2).min(POLL_MAX);
        if !full {
            self.wait = (self.wait * 2).min(MOST_WAIT);
        }
        let until = Instant::now() + time;
        let mut queue = self.core.queue();
        loop {
            let news = queue.ended || queue.kicks != kicks;
            let left = until.saturating_duration_since(Instant::now());
            if news || left.is_zero() || queue.deadline.is_some() != closing {
                return;
            }
            queue = Core::wait(&self.core.came, queue, left);
        }
    }

    fn sent(&mut self, number: u64) {
        let sure = self.wire.as_ref().is_some_and(|wire| !wire.is_udp());
        (self.wait, self.poll_wait) = (FIRST_WAIT, FIRST_POLL);
        let mut queue = self.core.queue();
        queue.sent(number, sure);
        let lost = queue.books().lost().lines;
        drop(queue);
        if std::mem::take(&mut self.reported) {
            let more = lost - self.lost_before;
            self.say(&format!("lines go again; {more} were lost meanwhile"));
        }
    }

    fn attempt(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.refresh();
        let wire = match self.wire.as_mut() {
            Some(wire) => wire,
            None => {
                let wire = self.connect()?;
                self.core.queue().connected();
                self.wire.insert(wire)
            }
        };
        match wire.send(bytes) {
            Sent::Whole => Ok(()),
            Sent::Failed(error) => Err(error.into()),
            Sent::RefusedBefore(error) => Err(Failure { before: true, ..error.into() }),
        }
    }

    fn connect(&mut self) -> Result<Wire, Failure> {
        match &self.core.config.target {
            Target::Unix(path) => Ok(Wire::unix(path)?),
            Target::UnixStream(path) => Ok(Wire::unix_stream(path)?),
            Target::Udp { host, port } => {
                if self.addresses.is_empty() {
                    let unresolved =
                        |error| Failure { reason: Reason::Unresolved, error, before: false };
                    self.asked = Some(Instant::now());
                    self.addresses = (self.core.config.resolve)(host, *port).map_err(unresolved)?;
                    self.at = 0;
                }
                match self.addresses.get(self.at) {
                    Some(address) => Ok(Wire::udp(*address)?),
                    None => Err(Failure {
                        reason: Reason::Unresolved,
                        error: io::Error::other("the name has no address"),
                        before: false,
                    }),
                }
            }
            Target::Off => Err(io::Error::other("off").into()),
        }
    }

    /// Resolves an old name again; if the address in use is not among the results, leaves it.
    fn refresh(&mut self) {
        let Target::Udp { host, port } = &self.core.config.target else { return };
        let old = self.asked.is_some_and(|at| at.elapsed() >= self.core.config.resolve_every);
        if self.wire.is_none() || !old || host.parse::<std::net::IpAddr>().is_ok() {
            return;
        }
        self.asked = Some(Instant::now());
        // A failure changes nothing: the address that works is kept.
        let Ok(now) = (self.core.config.resolve)(host, *port) else { return };
        let used = self.addresses.get(self.at).copied();
        match now.iter().position(|address| Some(*address) == used) {
            Some(at) => (self.addresses, self.at) = (now, at),
            None if now.is_empty() => {}
            None => {
                (self.addresses, self.at) = (now, 0);
                self.wire = None;
            }
        }
    }

    /// Reports once that nothing goes.
    fn complain(&mut self, full: bool) {
        let queue = self.core.queue();
        let since = queue.down_since.map_or(Duration::ZERO, |since| since.elapsed());
        if self.reported || (full && since < PATIENCE) {
            return;
        }
        let (error, lost) = (queue.books().last_error.clone(), queue.books().lost().lines);
        drop(queue);
        if self.last_said.is_some_and(|at| at.elapsed() < QUIET) {
            return;
        }
        (self.reported, self.lost_before) = (true, lost);
        let room = self.core.config.queue_bytes >> 10;
        self.say(&format!("{error}; lines wait, up to {room} KiB, then the oldest are dropped"));
        self.last_said = Some(Instant::now());
    }

    fn say(&self, text: &str) {
        if let Some(say) = self.core.config.say {
            say(&format!("statsd: {text}"));
        }
    }
}

/// A quarter more or less, so that many processes do not return in step.
fn jittered(time: Duration) -> Duration {
    let part = (sys::clock::now_ns() / 64 % 128) as u32;
    time * (96 + part / 2) / 128
}
