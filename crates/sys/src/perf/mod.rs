//! Every context switch of every thread of this process, exact and without privilege.
//!
//! How it works: a dummy software event (`PERF_COUNT_SW_DUMMY` counts nothing) with
//! `context_switch` set makes the kernel write a record at each switch. One mapped ring a CPU
//! takes the records of all threads on that CPU:
//!
//! ```text
//!              cpu 0                                  cpu 1
//!   holder     disabled event --mmap------> ring 0    disabled event -------> ring 1
//!   thread A   event --SET_OUTPUT---------> ring 0    event ----------------> ring 1
//!   thread B   event --SET_OUTPUT---------> ring 0    event ----------------> ring 1
//!     \ threads that A or B start later inherit both events and write into the same rings
//! ```
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | PERF_RECORD_SWITCH | `Switch`: thread, CPU, in or out | ns of CLOCK_MONOTONIC | 4.3 |
//! | its flag SWITCH_OUT_PREEMPT | `Preempted`; before, such a switch reads as `Out` | | 4.17 |
//! | `inherit_thread` | forked children are not followed; before, filtered by pid | | 5.13 |
//! | PERF_RECORD_LOST | `lost()`, and where: `Lost` | records, ns | 2.6.31 |
//! | PERF_RECORD_SAMPLE of `sched_waking` (see `wakings`) | `Switch`: the waker | | 4.3 |
//!
//! Wakeups are recorded of threads that are followed; their wakers' stacks are in rings of their
//! own (`waker_stacks`).
//!
//! What it promises. Order: records of one CPU come in the order they happened. `drain` merges the
//! CPUs by time and delivers what happened before it was called, so the order also holds from one
//! drain to the next; the one exception is a record the kernel had stamped but not finished (well
//! under a microsecond, longer if a hypervisor took that CPU away), which then comes in the next
//! drain. A full ring loses the newest records and counts them in `lost()`; the count arrives with
//! the next record that fits. `Lost` says from when until when, in time: behind the last record
//! before the gap and before any of another CPU inside of it, also if the count is still to come.
//! Cost: no allocation, lock or syscall in `drain` but two clock reads; figures in
//! `examples/costs.rs`. A switch from one thread of ours to another (two records) costs about 1.9
//! us more: 0.7 for the kernel's perf hooks being on at all, 0.3 for moving the events, the rest
//! for the records (socket ping-pong on one vCPU of AMD EPYC under KVM, Linux 6.18; one CPU's event
//! or two, the choice of clock and a full ring make little difference).
//!
//! What it does not promise. A thread that was running when its event was opened shows no `In`
//! first; one that ends shows no `Out`. `sched_yield` reads as `Preempted`: the thread stayed
//! runnable. Threads started by threads in `skip` are not covered. A host with so many threads and
//! CPUs that their events would take more than half of our allowance (`ours`) is covered in part:
//! `uncovered()` counts the threads left out (and those they start are left out with them).
//!
//! Memory: the rings are locked memory, charged per *user* against `perf_event_mlock_kb` x CPUs
//! (516 KiB each by default) and then per process against RLIMIT_MEMLOCK. All processes of the user
//! share the first, so the rings start at 64 KiB a CPU and are halved, down to 8, when the kernel
//! refuses.
//!
//! What is missing on purpose: the kernel's call stacks (they need privileges), a thread to poll
//! the rings, and the process's own account of the threads on each CPU.

mod attr;
mod limits;
mod refused;
mod ring;
mod switch;
mod user_stack;
mod waker_stacks;
mod wakings;
mod watch;

pub use refused::Refused;
pub use switch::{Switch, SwitchKind, Waker};
pub use user_stack::Seen;
pub use waker_stacks::{Take, WakerStacks, Woke, MOST_WAKERS};
pub use wakings::{Wakings, MOST_FOLLOWED};
pub use watch::Watch;

use crate::fork::Mark;
use crate::ours::{self, Fd};
use crate::{clock, task};
use limits::{descriptor_budget, none_left, online_cpus, page_bytes};
use refused::TRACEPOINT;
use ring::Ring;
use std::ffi::CString;
use std::io;
use std::sync::atomic::{fence, Ordering};

/// `Refused::errno` of a thread that has ended.
pub const GONE: i32 = libc::ESRCH;

/// Bytes of records each ring should hold, first choice and last.
const RING_BYTES: (usize, usize) = (64 * 1024, 8 * 1024);

/// How often the list of threads is read before those that still appear are left out.
const LIST_ROUNDS: usize = 32;

/// The switches of this process, as they happen. One reader; may move between threads.
pub struct SwitchStream {
    rings: Vec<Ring>,
    events: Vec<Fd>,
    ring_bytes: usize,
    pid: u32,
    home: Mark,
    inherit_thread: bool,
    uncovered: usize,
    /// One event a CPU while threads are followed.
    wakings: Vec<Fd>,
    released_ns: u64,
}

impl SwitchStream {
    /// Starts recording every thread of this process but those in `skip`, and every thread they
    /// start from now on.
    ///
    /// Blocks the caller 5-20 ms if no process on the machine uses perf events yet, because the
    /// kernel then patches its scheduler: call it from a thread of ours. On top come about 6 us for
    /// each thread and CPU (measured: 101 threads, 2 CPUs, 1.3 ms). A stream also makes starting a
    /// thread more expensive, by 3-5 us a CPU. Errors: `Refused` says what the kernel refused and
    /// what would help; nothing is left open then.
    pub fn open(skip: &[u32]) -> Result<SwitchStream, Refused> {
        SwitchStream::open_on(&online_cpus(), skip)
    }

    fn open_on(cpus: &[u16], skip: &[u32]) -> Result<SwitchStream, Refused> {
        // A ring and one event a CPU, at least.
        if 2 * cpus.len() > descriptor_budget() {
            return Err(none_left());
        }
        let (rings, ring_bytes) = open_rings(cpus)?;
        let mut stream = SwitchStream {
            rings,
            events: Vec::new(),
            ring_bytes,
            pid: std::process::id(),
            home: Mark::new(),
            inherit_thread: true,
            uncovered: 0,
            wakings: Vec::new(),
            released_ns: clock::now_ns(),
        };
        stream.cover(0, skip)?;
        if stream.events.is_empty() && stream.uncovered > 0 {
            return Err(none_left());
        }
        Ok(stream)
    }

    /// Adds the CPUs that came online since the stream was opened; returns how many. One read of a
    /// /proc-like file (about 2 us) when nothing changed. `skip` as in `open`.
    ///
    /// New threads need no such call, and CPUs that go away and come back neither.
    pub fn cover_new_cpus(&mut self, skip: &[u32]) -> Result<usize, Refused> {
        let mut new = online_cpus();
        new.retain(|cpu| !self.rings.iter().any(|ring| ring.cpu() == *cpu));
        if new.is_empty() {
            return Ok(0);
        }
        let (first, events) = (self.rings.len(), self.events.len());
        let rings: Result<Vec<Ring>, Refused> =
            new.iter().map(|cpu| open_ring(*cpu, self.ring_bytes)).collect();
        self.rings.extend(rings?);
        self.cover(first, skip).inspect_err(|_| {
            self.events.truncate(events);
            self.rings.truncate(first);
        })?;
        Ok(new.len())
    }

    /// Delivers the switches that happened since the last drain and before this one, by time.
    /// In a forked child it delivers nothing.
    pub fn drain(&mut self, mut each: impl FnMut(Switch)) {
        if !self.is_ours() {
            return;
        }
        let until = clock::now_ns();
        for ring in &mut self.rings {
            ring.scan(self.pid);
        }
        while let Some((earliest, limit)) = earliest(&self.rings, until) {
            self.rings[earliest].deliver(limit, self.pid, &mut each);
        }
        for ring in &mut self.rings {
            ring.release();
        }
        // What the kernel drops from here on it drops though it sees the new tails.
        fence(Ordering::SeqCst);
        self.released_ns = clock::now_ns();
        for ring in self.rings.iter_mut().filter(|ring| ring.held_some()) {
            ring.released_ns = self.released_ns;
        }
    }

    /// When the last drain had given all space back: every record behind that had room.
    pub fn released_ns(&self) -> u64 {
        self.released_ns
    }

    /// How full the fullest ring was when the last drain began: 0 to 1.
    pub fn filled(&self) -> f64 {
        self.rings.iter().map(Ring::filled).fold(0.0, f64::max)
    }

    /// Records lost because a ring was full, as far as the kernel has reported.
    pub fn lost(&self) -> u64 {
        self.rings.iter().map(|ring| ring.tally.lost).sum()
    }

    /// Times a ring held something that is no record; what was left of that ring was thrown away.
    pub fn garbled(&self) -> u64 {
        self.rings.iter().map(|ring| ring.tally.garbled).sum()
    }

    /// Records that came twice and were delivered once (see `cover`).
    pub fn repeated(&self) -> u64 {
        self.rings.iter().map(|ring| ring.tally.repeated).sum()
    }

    /// Threads that existed at `open` and could not be covered.
    pub fn uncovered(&self) -> usize {
        self.uncovered
    }

    /// Bytes of records each CPU's ring holds; a record has 24.
    pub fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// CPUs watched.
    pub fn cpus(&self) -> usize {
        self.rings.len()
    }

    /// Descriptors held.
    pub fn descriptors(&self) -> usize {
        self.rings.len() + self.events.len() + self.wakings.len()
    }

    /// Closes the descriptors that a forked child has inherited, without touching the rings, whose
    /// mappings a child does not get. The parent's stream goes on. (A plain drop detects by itself
    /// that it runs in a child; this states it.)
    pub fn forget_after_fork(mut self) {
        for ring in &mut self.rings {
            ring.forget_mapping();
        }
    }

    /// Records from now on the wakeups of these threads (at most `MOST_FOLLOWED`; the rest is left
    /// out), and no others. Without threads it ends. Errors: the previous list remains.
    ///
    /// Blocks the caller for about 100 us a CPU, the first time for 1 ms, since the kernel patches
    /// itself then (`examples/costs.rs`): for a thread of ours.
    pub fn follow(&mut self, wakings: &mut Wakings, tids: &[u32]) -> Result<(), Refused> {
        let refused = |e: io::Error| Refused::new(TRACEPOINT, &e);
        if !self.is_ours() || tids.is_empty() {
            self.wakings.clear();
            return Ok(());
        }
        // Both are open for a moment.
        if self.descriptors() + self.rings.len() > descriptor_budget() {
            return Err(none_left());
        }
        let list: Vec<String> =
            tids.iter().take(MOST_FOLLOWED).map(|tid| format!("pid=={tid}")).collect();
        let list = CString::new(list.join("||")).map_err(|e| refused(e.into()))?;
        wakings.settle()?;
        let mut events = Vec::with_capacity(self.rings.len());
        for ring in &mut self.rings {
            let event = match attr::open_tracepoint(wakings.id(), ring.cpu()) {
                // The CPU went offline.
                Err(e) if e.raw_os_error() == Some(libc::ENODEV) => continue,
                event => event.map_err(refused)?,
            };
            attr::filter(&event, &list).map_err(refused)?;
            attr::redirect(&event, ring.holder()).map_err(refused)?;
            ring.wakings = Some(wakings.layout());
            events.push(event);
        }
        for event in &events {
            attr::enable(event, true).map_err(refused)?;
        }
        // The old events are closed after the new ones are open: no wakeup falls between them.
        self.wakings = events;
        Ok(())
    }

    /// Whether wakeups of any thread are recorded.
    pub fn follows(&self) -> bool {
        !self.wakings.is_empty()
    }

    fn is_ours(&self) -> bool {
        self.home.is_here()
    }

    /// Opens events for all threads on the rings from index `first` on.
    ///
    /// A thread found only in a later round was started meanwhile: by a thread not yet covered, so
    /// it needs events, or by a covered one, so it has inherited them. The two cannot be
    /// distinguished, so it is covered anyway, and a record that then comes twice is dropped: two
    /// records of one switch are always side by side in their ring, while a thread cannot really
    /// come to a CPU twice, nor leave it twice, with nothing in between.
    fn cover(&mut self, first: usize, skip: &[u32]) -> Result<(), Refused> {
        let budget = descriptor_budget();
        let mut done = skip.to_vec();
        let mut found = Vec::new();
        for _ in 0..LIST_ROUNDS {
            done.sort_unstable();
            task::list(&mut found).map_err(|e| Refused::new("listing the threads", &e))?;
            found.retain(|tid| done.binary_search(tid).is_err());
            if found.is_empty() {
                break;
            }
            for tid in &found {
                self.cover_thread(*tid, first, budget)?;
            }
            done.extend_from_slice(&found);
        }
        Ok(())
    }

    fn cover_thread(&mut self, tid: u32, first: usize, budget: usize) -> Result<(), Refused> {
        let rings = &self.rings[first..];
        if self.descriptors() + rings.len() > budget {
            ours::count_refused();
            self.uncovered += 1;
            return Ok(());
        }
        let before = self.events.len();
        for ring in rings {
            let event = attr::open_thread(tid, ring.cpu(), &mut self.inherit_thread)
                .and_then(|event| attr::redirect(&event, ring.holder()).map(|()| event));
            match event.map_err(|e| (e.raw_os_error().unwrap_or(0), e)) {
                Ok(event) => self.events.push(event),
                Err((libc::ENODEV, _)) => continue,
                Err((errno, e)) => {
                    self.events.truncate(before);
                    return match errno {
                        libc::ESRCH => Ok(()),
                        libc::EMFILE | libc::ENFILE | libc::ENOMEM if before > 0 => {
                            self.uncovered += 1;
                            Ok(())
                        }
                        _ => Err(Refused::new("perf_event_open", &e)),
                    };
                }
            }
        }
        Ok(())
    }
}

/// The ring with the earliest record, and until when it stays so: the earliest of the others or
/// `until`, whichever comes first.
fn earliest(rings: &[Ring], until: u64) -> Option<(usize, u64)> {
    let mut best: Option<(usize, u64)> = None;
    let mut limit = until;
    for (i, ring) in rings.iter().enumerate() {
        let Some(t) = ring.next_ns().filter(|t| *t <= until) else {
            continue;
        };
        match best {
            Some((_, first)) if t >= first => limit = limit.min(t),
            earlier => {
                limit = earlier.map_or(limit, |(_, first)| limit.min(first));
                best = Some((i, t));
            }
        }
    }
    best.map(|(i, _)| (i, limit))
}

/// A ring for each CPU, all of one size: the largest that the kernel grants for all of them.
fn open_rings(cpus: &[u16]) -> Result<(Vec<Ring>, usize), Refused> {
    let mut bytes = RING_BYTES.0;
    loop {
        let rings: Result<Vec<Ring>, Refused> =
            cpus.iter().map(|cpu| open_ring(*cpu, bytes)).collect();
        match rings {
            Ok(rings) => return Ok((rings, bytes)),
            Err(e) if e.is_about_memory() && bytes > RING_BYTES.1.max(page_bytes()) => bytes /= 2,
            Err(e) => return Err(e),
        }
    }
}

fn open_ring(cpu: u16, bytes: usize) -> Result<Ring, Refused> {
    let holder = attr::open_holder(cpu).map_err(|e| Refused::new("perf_event_open", &e))?;
    let bytes = bytes.max(page_bytes());
    Ring::map(cpu, holder, bytes, page_bytes()).map_err(|e| Refused::new("mmap of a ring", &e))
}

#[cfg(test)]
mod tests;
