//! The sink: the interface for the rest of dashcam.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use metrics::window::{Reading, Window};
use sys::cell::StaticRef;

use crate::config::{Config, Dialect, Target};
use crate::dispatch::Core;
use crate::marks::{self, Event, ServiceCheck};
use crate::pack::Packer;
use crate::stats::{meters, Reason, Stats};

/// The prefix of dashcam's own metrics.
const OWN: &str = "dashcam.";

/// Sends windows, events and checks to a StatsD server. One for a process.
///
/// A forked child may go on using its copy, without a call: at the first use there it gets a queue
/// and a dispatcher of its own, and nothing of its parent's is sent. The content of the parent's
/// copy, about the size of the queue, stays in the child's memory unused.
pub struct Sink {
    config: Config,
    core: StaticRef<Core>,
    /// Process that made, or is making, the core. The thread that changes it from an older process
    /// makes the core.
    maker: AtomicU32,
    /// No core is made any more. Relaxed: the core's own flag decides.
    closed: AtomicBool,
}

impl Sink {
    /// A sink for these settings. Does no I/O and starts no thread: both come with the first line.
    pub fn start(config: Config) -> Sink {
        let maker = AtomicU32::new(0);
        Sink { config, core: StaticRef::empty(), maker, closed: AtomicBool::new(false) }
    }

    /// Whether lines go anywhere.
    pub fn is_on(&self) -> bool {
        self.config.target != Target::Off
    }

    /// Sends a window, without dashcam's own metrics where `self_every` is None. Never waits for
    /// the network; holds a lock that dashcam's own threads share, so it is not for the host's
    /// threads. About 0.4 us a line.
    pub fn window(&self, window: &Window) {
        let Some(core) = self.core() else { return };
        let mut lines = core.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut packer = Packer::new(core.config.packet_bytes);
        let before = lines.without_tags;
        let at_s = window.to_ns / 1_000_000_000;
        let is_sent = |reading: &&Reading| {
            core.config.self_every.is_some() || !reading.id.name.starts_with(OWN)
        };
        let readings = window.readings.iter().filter(is_sent);
        readings.for_each(|reading| lines.reading(reading, at_s, &mut packer));
        let without_tags = lines.without_tags - before;
        let mut queue = core.queue();
        queue.push(packer, without_tags);
        if core.config.self_every.is_some_and(|every| queue.report_due(every)) {
            report(core, &mut queue);
        }
        drop(lines);
        core.wake(queue);
    }

    /// Sends an event. May be called on any thread: never waits, may allocate. False: it was not
    /// taken (plain StatsD has none, no title, too long, queue busy at this instant, closed), and
    /// that is counted.
    pub fn event(&self, event: &Event) -> bool {
        self.mark(|core| marks::event(&core.marks, event))
    }

    /// Sends the outcome of a check. As `event`; false also for no name.
    pub fn service_check(&self, check: &ServiceCheck) -> bool {
        self.mark(|core| marks::service_check(&core.marks, check))
    }

    fn mark(&self, line: impl Fn(&Core) -> Option<String>) -> bool {
        let Some(core) = self.core() else { return false };
        let line = match core.config.dialect {
            Dialect::StatsD => Err(Reason::Unsupported),
            Dialect::DogStatsD => line(core).ok_or(Reason::Invalid),
        };
        let Some(mut queue) = core.try_queue() else {
            core.found_busy.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let taken = match line {
            Ok(line) => queue.push_line(&line),
            Err(reason) => {
                queue.refuse(reason, 1);
                false
            }
        };
        core.wake(queue);
        taken
    }

    /// Waits until everything that was given to the sink before is sent or lost; if the receiver is
    /// gone, makes the dispatcher try once more at once. False: something still waits after
    /// `timeout`.
    pub fn flush(&self, timeout: Duration) -> bool {
        self.wait(timeout, true)
    }

    /// As `flush`, but returns as soon as it is known that no receiver listens; all stays in the
    /// queue.
    pub fn flush_if_heard(&self, timeout: Duration) -> bool {
        self.wait(timeout, false)
    }

    fn wait(&self, timeout: Duration, unheard: bool) -> bool {
        let Some(core) = self.here() else { return true };
        let deadline = Instant::now() + timeout;
        let mut queue = core.queue();
        queue.kicks += 1;
        let (seal, rounds) = (queue.seal(), queue.rounds);
        core.came.notify_one();
        while queue.settled_below() < seal {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !unheard && queue.rounds > rounds {
                return false;
            }
            queue = Core::wait(&core.moved, queue, left);
        }
        true
    }

    /// Sends what waits and the last self-metrics, and ends the dispatcher; all within `timeout`.
    /// What could not be sent is counted; if no receiver listens, that is known at once. Later
    /// lines are counted as `closed`. May be called again.
    pub fn close(&self, timeout: Duration) {
        let core = self.here();
        self.closed.store(true, Ordering::Relaxed);
        let Some(core) = core else { return };
        let deadline = Instant::now() + timeout;
        let mut queue = core.queue();
        if queue.closed {
            return;
        }
        queue.deadline = Some(deadline);
        queue = drained(core, queue, deadline);
        if core.config.self_every.is_some() && queue.books().down.is_none() {
            report(core, &mut queue);
        }
        queue.closed = true;
        queue = drained(core, queue, deadline);
        let reason = queue.books().down.unwrap_or(Reason::Closed);
        queue.drop_all(reason);
        queue.ended = true;
        core.came.notify_one();
        while queue.running && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            queue = Core::wait(&core.moved, queue, left);
        }
    }

    /// The account of this process.
    pub fn stats(&self) -> Stats {
        match self.here() {
            Some(core) => core.queue().books().clone(),
            None => Stats { target: self.config.target.to_string(), ..Stats::default() },
        }
    }

    /// In a forked child: forgets the parent's queue. Not needed, since the next use does it too,
    /// unless both child and parent are the first process of their pid namespaces. Two atomic
    /// stores, so it may be called in a fork hook.
    pub fn after_fork(&self) {
        self.core.set(None);
        self.maker.store(0, Ordering::Relaxed);
    }

    /// The core of this process, if there is one.
    fn here(&self) -> Option<&'static Core> {
        self.core.get().filter(|core| core.pid == std::process::id())
    }

    /// The core of this process, made if needed. None: off, or another thread takes too long to
    /// make it.
    fn core(&self) -> Option<&'static Core> {
        if !self.is_on() {
            return None;
        }
        let pid = std::process::id();
        for _ in 0..1000 {
            if let Some(core) = self.here() {
                return Some(core);
            }
            let maker = self.maker.load(Ordering::Relaxed);
            // Acquire and release add nothing here: the core is published by `core`.
            let ours = maker != pid
                && self
                    .maker
                    .compare_exchange(maker, pid, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if ours {
                let core = Core::new(&self.config);
                let closed = self.closed.load(Ordering::Relaxed);
                {
                    let mut queue = core.queue();
                    (queue.closed, queue.ended) = (closed, closed);
                }
                // Never freed: a forked child could not know whether another thread still uses it.
                self.core.set(Some(Box::leak(Box::new(core))));
            } else {
                std::thread::yield_now();
            }
        }
        None
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

type Locked<'q> = std::sync::MutexGuard<'q, crate::queue::Queue>;

/// Waits until nothing waits, or the time is up.
fn drained<'q>(core: &'static Core, mut queue: Locked<'q>, deadline: Instant) -> Locked<'q> {
    core.came.notify_one();
    while queue.books().waiting.packets > 0 && queue.running {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        queue = Core::wait(&core.moved, queue, left);
    }
    queue
}

/// Puts the self-metrics that have grown into the queue. Their values are as of now:
/// `lines.produced` = `lines.sent` + `lines.dropped` + `queue.lines`, summed over all reports.
fn report(core: &Core, queue: &mut crate::queue::Queue) {
    let waiting = queue.books().waiting;
    let mut packer = Packer::new(core.config.packet_bytes);
    let mut not_reported = Vec::new();
    let names: Vec<_> = meters().collect();
    for (meter, value) in queue.report() {
        let (name, reason) = names[meter];
        let line = core.marks.own(name, reason, value as f64, "c");
        if !packer.report(&line, meter, value) {
            not_reported.push((meter, value));
        }
    }
    for (name, value) in [("queue.lines", waiting.lines), ("queue.bytes", waiting.bytes)] {
        crate::pack::Out::unit(&mut packer, &core.marks.own(name, None, value as f64, "g"));
    }
    queue.push(packer, 0);
    not_reported.into_iter().for_each(|(meter, value)| queue.not_reported(meter, value));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the model the caller takes a lock when the queue is full, and a metric from a signal
    /// handler that interrupts the same thread holding it fails. Ours is counted, and does not
    /// wait.
    #[test]
    fn an_event_from_within_the_queues_lock_neither_waits_nor_goes_uncounted() {
        let sink = Sink::start(Config::to(Target::Unix("/nobody/is/here".to_owned())));
        let event = Event { title: "x".to_owned(), ..Event::default() };
        assert!(sink.event(&event));
        let core = sink.core().expect("on");
        let held = core.queue();
        assert!(!sink.event(&event));
        assert!(!sink.service_check(&ServiceCheck { name: "y".into(), ..Default::default() }));
        drop(held);
        let stats = sink.stats();
        assert_eq!(stats.lost_by(Reason::Busy).lines, 2);
        assert_eq!(stats.produced.lines, 3);
        assert!(stats.adds_up());
    }
}
