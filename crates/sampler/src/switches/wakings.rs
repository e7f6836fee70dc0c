//! Wakers: which threads the kernel is asked about, and what it reported.
//!
//! | reads | emits | when |
//! | --- | --- | --- |
//! | wakeups of followed threads (`sys::perf::Wakings`) | `Wake` records | each pass |
//! | wakers' stacks (`waker_stacks`) | `NativeStack` records | each pass that is paid |
//!
//! Followed are threads in a slow request's way that were seen waiting in a futex, so a service
//! none of whose requests is slow pays nothing. Each list costs events on every CPU, and while
//! there is one every wakeup on the machine is more expensive. So there are few threads; a list is
//! left as it is for a while, and is forgotten when none of its threads was asked for during three
//! seconds. Threads that found no room are counted in `threads_unwatched`.
//!
//! A waker of one of them may wake it again: it is sampled like others in a slow request's way.
//!
//! Needs privileges and switch records; the source `wakers` says what is missing. Without it the
//! diagnosis infers the waker.

use format::region::losses;
use format::source::SourceState;
use format::wake::{Wake, Waker};
use sys::perf::{self, Wakings, MOST_FOLLOWED};

use crate::switches::waker_stacks::Stacks;
use crate::world::{Clock, Proc, Sink, SwitchRecords, World};

/// A thread that is not asked for is forgotten after this time, and so is a waker.
const FORGET_NS: u64 = 3_000_000_000;
/// A list is left as it is for this time at least, and longer where making it costs more than
/// `SHARE` of a CPU.
const VALID_NS: u64 = 100_000_000;
const SHARE: u64 = 200;
/// The kernel's hook is removed when no thread was followed for this time: setting it stops all
/// CPUs for a moment.
const UNUSED_NS: u64 = 10_000_000_000;
/// Wakers that are sampled as if they were in a slow request's way.
const MOST_WAKERS: usize = 8;

/// The threads that are followed.
pub(crate) struct Followed {
    wakings: Option<Wakings>,
    /// Threads of the list in the kernel, and when each was last asked for.
    list: Vec<(u32, u64)>,
    /// Threads that woke one of them, and when.
    wakers: Vec<(u32, u64)>,
    pub(crate) stacks: Stacks,
    /// The next list may be made.
    due_ns: u64,
    /// The list of the threads whose stacks are taken may be made anew, or asked about.
    stacks_due_ns: u64,
    used_ns: u64,
}

impl Followed {
    /// `on`: there are switch records to go with. `stacks`: the settings want stacks.
    pub(crate) fn new(world: &(impl Proc + Sink), on: bool, stacks: bool) -> Followed {
        let found = on.then(|| world.find_wakings());
        let state = match &found {
            None => SourceState::off("as switches"),
            Some(Ok(_)) => SourceState::On,
            Some(Err(refused)) => SourceState::off(refused),
        };
        world.set_source("wakers", state);
        Followed {
            wakings: found.and_then(Result::ok),
            list: Vec::new(),
            wakers: Vec::new(),
            stacks: Stacks::new(stacks),
            due_ns: 0,
            stacks_due_ns: 0,
            used_ns: 0,
        }
    }

    /// The kernel reported the waker of a thread that had waited for `waited_ns`: the record of it.
    pub(crate) fn waking(&mut self, t_ns: u64, tid: u32, by: perf::Waker, waited_ns: u64) -> Wake {
        let by = match by {
            perf::Waker::Kernel => Waker::Kernel,
            perf::Waker::Process(pid) => Waker::Process(pid),
            perf::Waker::Thread(waker) => {
                self.woke(waker, t_ns);
                self.stacks.waking(t_ns, (tid, waker), waited_ns);
                Waker::Thread(waker)
            }
        };
        Wake { t_ns, tid, by }
    }

    fn woke(&mut self, waker: u32, t_ns: u64) {
        if let Some(known) = self.wakers.iter_mut().find(|(tid, _)| *tid == waker) {
            known.1 = t_ns;
        } else if self.wakers.len() < MOST_WAKERS {
            self.wakers.push((waker, t_ns));
        } else if let Some(oldest) = self.wakers.iter_mut().min_by_key(|(_, t_ns)| *t_ns) {
            *oldest = (waker, t_ns);
        }
    }

    /// Threads that woke a followed thread, lately.
    pub(crate) fn wakers(&mut self, now: u64) -> impl Iterator<Item = u32> + '_ {
        self.wakers.retain(|(_, t_ns)| now.saturating_sub(*t_ns) < FORGET_NS);
        self.wakers.iter().map(|(tid, _)| *tid)
    }

    /// Asks for these threads, which wait in a slow request's way. `natives`: threads that run no
    /// Python, the likeliest wakers first.
    pub(crate) fn ask<W: World>(
        &mut self,
        world: &W,
        stream: Option<&mut W::Switches>,
        wanted: impl Iterator<Item = u32>,
        natives: impl FnOnce() -> Vec<u32>,
        now: u64,
    ) {
        let (Some(_), Some(stream)) = (&self.wakings, stream) else { return };
        let mut new: Vec<u32> = Vec::new();
        for tid in wanted {
            match self.list.iter_mut().find(|(known, _)| *known == tid) {
                Some(known) => known.1 = now,
                None if !new.contains(&tid) => new.push(tid),
                None => (),
            }
        }
        let forgotten = |(_, asked_ns): &(u32, u64)| now.saturating_sub(*asked_ns) >= FORGET_NS;
        if !new.is_empty() && now >= self.due_ns {
            self.list.retain(|row| !forgotten(row));
            let room = MOST_FOLLOWED.saturating_sub(self.list.len());
            let unwatched = new.len().saturating_sub(room) as u64;
            world.lose(losses::THREADS_UNWATCHED, unwatched);
            self.list.extend(new.into_iter().take(room).map(|tid| (tid, now)));
            match room {
                // All of them were asked for lately, so the list is left as it is.
                0 => self.due_ns = now + VALID_NS,
                _ => self.follow(world, stream, &natives(), now),
            }
        } else if !self.list.is_empty() && self.list.iter().all(forgotten) {
            self.list.clear();
            self.follow(world, stream, &[], now);
        } else if !self.list.is_empty() && now >= self.stacks_due_ns {
            // Threads were born since.
            self.stacks_due_ns = now + VALID_NS;
            let natives = natives();
            if self.stacks.lacks(&natives, now) {
                self.follow_stacks(world, &natives, now);
            }
        }
        if self.list.is_empty() {
            self.rest(world, now);
        } else {
            self.used_ns = now;
        }
    }

    fn follow<W: World>(&mut self, world: &W, stream: &mut W::Switches, natives: &[u32], now: u64) {
        let Some(wakings) = &mut self.wakings else { return };
        let before = world.thread_cpu_ns();
        let tids: Vec<u32> = self.list.iter().map(|(tid, _)| *tid).collect();
        if let Err(refused) = stream.follow(wakings, &tids) {
            world.set_source("wakers", SourceState::off(refused));
            world.store_sources();
            self.list.clear();
            self.stacks.close(self.wakings.as_ref());
            world.retire(self.wakings.take());
        }
        self.follow_stacks(world, natives, now);
        let cost_ns = world.thread_cpu_ns().saturating_sub(before);
        self.due_ns = now + VALID_NS.max(cost_ns * SHARE);
    }

    /// The threads whose stacks are taken when they wake one of the list.
    fn follow_stacks(&mut self, world: &(impl Clock + Sink), natives: &[u32], now: u64) {
        let Some(wakings) = &self.wakings else { return };
        let before = world.thread_cpu_ns();
        let tids: Vec<u32> = self.list.iter().map(|(tid, _)| *tid).collect();
        if let Some(refused) = self.stacks.follow(wakings, &tids, natives, now) {
            let state = SourceState::partly(format_args!("without their stacks: {refused}"));
            world.set_source("wakers", state);
            world.store_sources();
        }
        let cost_ns = world.thread_cpu_ns().saturating_sub(before);
        self.stacks_due_ns = now + VALID_NS.max(cost_ns * SHARE);
    }

    /// No thread is followed.
    fn rest(&mut self, sink: &impl Sink, now: u64) {
        if self.used_ns != 0 && now.saturating_sub(self.used_ns) >= UNUSED_NS {
            self.used_ns = 0;
            let fresh = self.wakings.as_ref().map(Wakings::unused);
            sink.retire(std::mem::replace(&mut self.wakings, fresh));
        }
    }

    /// The stream was closed, and what it followed with it.
    pub(crate) fn closed(&mut self) {
        self.list.clear();
        self.stacks.close(self.wakings.as_ref());
    }
}
