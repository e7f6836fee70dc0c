//! The interpreter's lock, as CPython 3.11 hands it on.
//!
//! How it works: a thread that finds it taken waits on its condition for 5 ms at a time. When such
//! a wait runs out and nobody else got it meanwhile, the holder is asked to let go; it does so at
//! its next bytecode, and not before another thread has had it. A thread that releases it for a
//! call wakes the thread that waits longest; the first thread with a CPU takes it.
//!
//! What it promises: never two holders; each wait of 5 ms is a time off the CPU of its own, as the
//! kernel records it. What is missing on purpose: the wait for the other thread's start
//! (`switch_cond`), which is one more wait on the same lock here.

use std::collections::{HashSet, VecDeque};

use format::wait::WaitKind;

use super::actor::{Cpu, Micro, On, State, Tid, Wait};
use super::{Who, World};
use crate::program::{MS, US};

/// `sys.getswitchinterval()`.
pub const INTERVAL_NS: u64 = 5 * MS;

/// Its state.
#[derive(Debug, Default)]
pub struct Gil {
    /// The holder.
    pub holder: Option<Tid>,
    /// The waiters, the longest first.
    pub waiters: VecDeque<Tid>,
    /// Waits that ran out.
    over: HashSet<Tid>,
    /// The holder is to let go.
    asked: bool,
    /// Let go since it was asked: it may not have it before another one had.
    yielded: Option<Tid>,
    /// How often it changed hands, and that number as each waiter saw it.
    switches: u64,
    seen: Vec<u64>,
    /// Holders, and since when.
    pub owners: Vec<(u64, Option<Who>)>,
}

impl Gil {
    /// A wait of 5 ms ran out.
    pub fn timed_out(&mut self, tid: Tid) {
        self.over.insert(tid);
    }

    /// Whether a thread that runs bytecode has to let go.
    pub fn is_wanted(&self) -> bool {
        self.asked && !self.waiters.is_empty()
    }
}

impl World<'_> {
    /// Takes the GIL, or waits for it; whether it is had.
    pub(super) fn take_gil(&mut self, tid: Tid) -> bool {
        if self.threads[tid].has_gil {
            return true;
        }
        let over = self.gil.over.remove(&tid);
        let others = !self.gil.waiters.is_empty();
        let may = !(self.gil.yielded == Some(tid) && others);
        if self.gil.holder.is_none() && may {
            self.gil.holder = Some(tid);
            self.gil.owners.push((self.now, Some(Who::Thread(tid))));
            self.gil.switches += 1;
            (self.gil.asked, self.gil.yielded) = (false, None);
            self.threads[tid].has_gil = true;
            return true;
        }
        self.gil.seen.resize(self.threads.len(), 0);
        if over && self.gil.seen[tid] == self.gil.switches && self.gil.holder.is_some() {
            self.gil.asked = true;
        }
        self.gil.seen[tid] = self.gil.switches;
        self.gil.waiters.push_back(tid);
        let holder = self.gil.holder.map(|holder| &self.threads[holder].state);
        if let (true, Some(State::Running(cpu))) = (self.gil.asked, holder) {
            let cpu = *cpu;
            self.charge(cpu);
            self.to_run.push(cpu);
        }
        let until = Some(self.now + INTERVAL_NS);
        let wait = Wait { on: On::Gil, kind: WaitKind::Gil, until, limited: true, target: None };
        let left = self.threads[tid].random.between(US, 3 * US);
        // Behind the wait: it tries again.
        self.threads[tid].body.micros.push_front(Micro::Cpu { left, how: Cpu::Free });
        self.block(tid, wait);
        false
    }

    /// Releases the GIL.
    pub(super) fn drop_gil(&mut self, tid: Tid, asked: bool) {
        if !std::mem::take(&mut self.threads[tid].has_gil) {
            return;
        }
        self.gil.holder = None;
        self.gil.owners.push((self.now, None));
        self.gil.asked = false;
        self.gil.yielded = asked.then_some(tid);
        if let Some(next) = self.gil.waiters.pop_front() {
            self.wake(next, Some(tid));
        }
    }
}
