//! Taking the GIL and letting go of it.

use format::wait::WaitKind;

use super::actor::{Cpu, Micro, On, State, Tid, Wait};
use super::gil::INTERVAL_NS;
use super::request::Actor;
use super::world::World;
use crate::program::US;

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
            self.gil.owners.push((self.now, Some(Actor::Thread(tid))));
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
        let wait = Wait {
            on: On::Gil,
            kind: WaitKind::Gil,
            until,
            limited: true,
            limit_ns: 0,
            target: None,
        };
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
