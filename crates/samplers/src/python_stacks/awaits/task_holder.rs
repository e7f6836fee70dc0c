//! The task or greenlet that holds a lock: it is suspended inside the lock's block.
//!
//! How it works: an `asyncio.Lock` does not know its holder, but `async with lock:` has the lock's
//! `__aexit__` on the value stack of the holder's frame (see `exits`), which a suspended coroutine
//! keeps exactly. A gevent lock's `with` does the same with `__exit__`.
//!
//! What it promises: no holder rather than a guess. What is missing on purpose: holders that took
//! the lock by `await lock.acquire()`, or that run.

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::layout::object;
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::types::Torn;

impl PythonStacks {
    /// The task among `tasks` that is suspended inside `async with` of `lock`. Costs a walk of
    /// every task: call it once a wait.
    pub fn task_holding(&mut self, lock: usize, tasks: &[usize]) -> Option<usize> {
        tasks.iter().copied().find(|task| self.holds(*task, lock).unwrap_or(false))
    }

    fn holds(&mut self, task: usize, lock: usize) -> Result<bool, Torn> {
        if self.is_greenlet(task) {
            return self.greenlet_holds(task, lock);
        }
        let chain = self.chain_once(task)?;
        let mut inner = 0;
        for frame in &chain.frames {
            // A task that is still entering (or leaving) has the method on its stack as well.
            let entered = inner;
            inner = self.first_local(frame);
            if entered != lock && self.has_exit_of(frame, lock, entered) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the greenlet switched away inside of the `with` block of `lock`.
    pub(crate) fn greenlet_holds(&mut self, greenlet: usize, lock: usize) -> Result<bool, Torn> {
        let chain = self.greenlet_once(greenlet)?;
        self.vouch(&chain.frames);
        let waits = chain.frames.first().map(|frame| self.first_local(frame));
        if waits == Some(lock) {
            return Ok(false);
        }
        for frame in &chain.frames {
            let kept = self.kept_slots(frame);
            if self.exits(&kept).iter().any(|exit| exit.own == lock) {
                return Ok(true);
            }
            let bound = |slot: &usize| self.mem.word(slot.wrapping_add(object::METHOD_SELF)).ok();
            let candidates: Vec<usize> =
                kept.into_iter().filter(|slot| bound(slot) == Some(lock)).collect();
            let is_builtin = |slot: &usize| {
                let kind = self.mem.word(slot.wrapping_add(object::TYPE)).ok();
                kind == Some(self.types.builtin_method)
            };
            if candidates.iter().any(is_builtin) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a frame is inside `async with` of `lock`, or of an object that
    /// `contextlib.asynccontextmanager` made and that has the lock, unless that is `entered` only
    /// now.
    fn has_exit_of(&mut self, frame: &RawFrame, lock: usize, entered: usize) -> bool {
        let slots = self.live_slots(frame);
        self.exits(&slots).into_iter().any(|exit| match exit.own == lock {
            true => {
                let code = self.asyncio_function(exit.function);
                code.is_some_and(|(_, name)| name == "__aexit__")
            }
            false => {
                let attributes = self.attributes(exit.own);
                exit.own != entered && self.lets_go(exit.function, &attributes, lock)
                    || self.collects(&attributes, lock)
            }
        })
    }
}
