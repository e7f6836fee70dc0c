//! Adds to the logs what threads did.

use super::actor::{State, Tid};
use super::log::{stack_of, Doing, Entry};
use super::world::World;

impl World<'_> {
    /// Adds to a thread's log what it did up to now.
    pub(super) fn log_until_now(&mut self, tid: Tid) {
        let thread = &self.threads[tid];
        if !thread.is_inside() {
            return;
        }
        let from = self.log.threads[tid].last().map_or(thread.born_ns, |last| last.to);
        if from >= self.now || matches!(thread.state, State::Gone) {
            return;
        }
        let doing = self.doing(tid);
        let stack = stack_of(&mut self.known, self.program, &thread.body);
        let ended_by = matches!(doing, Doing::Wait(_)).then_some(thread.woken_by).flatten();
        let task = thread.task;
        let entry = Entry { from, to: self.now, doing, stack, ended_by, task };
        let log = &mut self.log.threads[tid];
        match log.last_mut().filter(|last| {
            (last.doing, last.stack, last.task) == (doing, stack, task) && last.ended_by.is_none()
        }) {
            Some(last) => (last.to, last.ended_by) = (self.now, ended_by),
            None => log.push(entry),
        }
    }
}
