//! Finds the suspended task that is to end another task's wait, for objects without a holder.
//!
//! How it works: a full queue is emptied by its reader, a future is set by the task that works for
//! it, an Event by the task that calls its `set`, a lock that was taken by hand is released by
//! `release`. None of these objects knows that task in advance. But the task has the object at
//! hand, and its code names the method:
//!
//! ```text
//!   waits:  await queue.put(item)      frame: Queue.put, self ------.
//!   ends:   item = await queue.get()   frame: locals, or attributes of `self` --> the same queue
//!           await store(item)                 names of its code: get, store
//! ```
//!
//! What it promises: a task that itself waits for the same object is not named, nor one that has
//! the object but whose code names no such method (the task that made the queue and waits for the
//! program's end). It is an inference all the same: `HolderSource::Refers`. A task that works off a
//! batch has its futures in a list, each beside what it is for: containers among the locals are
//! searched too, and the objects in them, `MOST_REACHED` objects a frame. What is missing on
//! purpose: objects reached through globals, or farther than one attribute away.

use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::tasks::chain::Chain;

/// Frames of a task that are searched: a reader of the program's own waits for its peer through
/// some twenty frames of a client library.
const MOST_FRAMES: usize = 40;

impl PythonStacks {
    /// The task among `tasks`, none of `waiting`, that is to end the wait for `object` by one of
    /// the methods `by`. Costs a walk of every task: call it once a wait.
    pub fn task_to_end(
        &mut self,
        object: usize,
        by: &[&str],
        waiting: &[usize],
        tasks: &[usize],
    ) -> Option<usize> {
        if object == 0 || by.is_empty() {
            return None;
        }
        let mut others = tasks.iter().copied().filter(|task| !waiting.contains(task));
        others.find(|task| self.is_to_end(*task, object, by))
    }

    fn is_to_end(&mut self, task: usize, object: usize, by: &[&str]) -> bool {
        let Ok(chain) = self.chain_once(task) else { return false };
        if self.waits_itself(&chain, object) {
            return false;
        }
        let frames = chain.frames.iter().take(MOST_FRAMES);
        frames.into_iter().any(|frame| {
            // What code names is remembered; what a frame refers to is read anew.
            self.codes.names(&self.mem, &self.layout, frame.code, by)
                && self.refers_to(frame, object)
        })
    }

    /// Whether the task waits for `object` itself: in it, or in one of its methods.
    fn waits_itself(&mut self, chain: &Chain, object: usize) -> bool {
        let leaf = chain.frames.first();
        chain.waiter == object
            || leaf.is_some_and(|frame| self.slots(frame, 0, 1).contains(&object))
    }
}
