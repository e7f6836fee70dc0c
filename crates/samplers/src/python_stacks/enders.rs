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

use super::awaits::Chain;
use super::frames::RawFrame;
use super::objects::Sort;
use super::PythonStacks;

/// Frames of a task that are searched.
const MOST_FRAMES: usize = 12;
/// Objects in containers that are searched, for each frame.
const MOST_REACHED: usize = 64;

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
            self.refers_to(frame, object)
                && self.codes.names(&self.mem, &self.layout, frame.code, by)
        })
    }

    /// Whether the task waits for `object` itself: in it, or in one of its methods.
    fn waits_itself(&mut self, chain: &Chain, object: usize) -> bool {
        let leaf = chain.frames.first();
        chain.waiter == object
            || leaf.is_some_and(|frame| self.slots(frame, 0, 1).contains(&object))
    }

    /// Whether a frame has `object` among its locals, on its stack, in a container among these or
    /// in something in there, or as an attribute of its first argument.
    pub(super) fn refers_to(&mut self, frame: &RawFrame, object: usize) -> bool {
        let slots = self.live_slots(frame);
        if slots.contains(&object) {
            return true;
        }
        if self.contain(&slots, object) {
            return true;
        }
        slots.first().is_some_and(|own| self.attributes(*own).contains(&object))
    }

    /// The attributes of an object of a program's class; of other objects nothing.
    pub(super) fn attributes(&mut self, object: usize) -> Vec<usize> {
        let kind = self.objects.type_of(&self.mem, &self.layout, object);
        let kind = kind.filter(|kind| kind.sort == Sort::Instance);
        let contents = |kind| self.objects.contents(&self.mem, &self.layout, object, kind);
        kind.map(contents).unwrap_or_default()
    }

    /// Whether a container among `slots` has `object` in it, or something that has it: a pair, an
    /// entry.
    fn contain(&mut self, slots: &[usize], object: usize) -> bool {
        let container =
            |sort: Sort| matches!(sort, Sort::List | Sort::Tuple | Sort::Set | Sort::Dict);
        let holder = |sort: Sort| matches!(sort, Sort::List | Sort::Tuple | Sort::Instance);
        let mut left = MOST_REACHED;
        for mut items in self.inside(slots, container) {
            if items.contains(&object) {
                return true;
            }
            items.truncate(left);
            left -= items.len();
            if self.inside(&items, holder).iter().any(|own| own.contains(&object)) {
                return true;
            }
        }
        false
    }

    /// What lies in each of the objects at `addresses` that is of a sort that is `wanted`.
    pub(super) fn inside(
        &mut self,
        addresses: &[usize],
        wanted: impl Fn(Sort) -> bool,
    ) -> Vec<Vec<usize>> {
        let kinds = self.types_at(addresses);
        let known = addresses.iter().zip(kinds).filter_map(|(a, kind)| Some((*a, kind?)));
        let known = known.filter(|(_, kind)| wanted(kind.sort));
        known.map(|(a, k)| self.objects.contents(&self.mem, &self.layout, a, k)).collect()
    }
}
