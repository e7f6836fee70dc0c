//! Locks that a thread holds by `with`, whether or not somebody waits for them.
//!
//! How it works: the frames are read twice, with the slots that live as long as the `with`s they
//! are in (`locks`, `exits`). What is left by the `__exit__` of a lock's type is held.
//!
//! What it promises: a lock counts only if the same frame has it at both readings. What is missing
//! on purpose: locks taken by `acquire()`, which leave no trace in their holder; locks inside of
//! other objects, which are found when somebody waits for them.

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::layout::object;
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::search::exits::Exit;
use crate::python_stacks::types::{Held, PyThread};

/// Frames that are searched, from the innermost on.
const FRAMES: usize = 512;

impl PythonStacks {
    /// The locks that `thread` holds by `with`, those taken last first.
    pub fn locks_held(&mut self, thread: &PyThread) -> Vec<Held> {
        let before = self.held_once(thread);
        if before.is_empty() {
            return Vec::new();
        }
        let now = self.held_once(thread);
        let same = |(frame, held): &&(RawFrame, Held)| {
            before
                .iter()
                .any(|(f, h)| (f.address, f.code, h.lock) == (frame.address, frame.code, held.lock))
        };
        now.iter().filter(same).map(|(_, held)| *held).collect()
    }

    fn held_once(&mut self, thread: &PyThread) -> Vec<(RawFrame, Held)> {
        let mut found = Vec::new();
        if self.walk_known(thread.state, FRAMES).is_err() {
            return found;
        }
        for frame in self.walker.frames.clone() {
            let slots = self.kept_slots(&frame);
            let Ok(Some(at)) = self.frame(&frame) else { continue };
            for lock in self.locks_among(&slots) {
                let recursive = self.kind(lock) == self.types.rlock;
                found.push((frame, Held { lock, recursive, at }));
            }
        }
        found
    }

    pub(crate) fn kind(&self, object: usize) -> usize {
        self.mem.word(object.wrapping_add(object::TYPE)).unwrap_or(0)
    }

    /// The locks whose way out is among the slots, the last first.
    fn locks_among(&mut self, slots: &[usize]) -> Vec<usize> {
        let is_lock = |s: &Self, at: usize| {
            let kind = s.kind(at);
            kind != 0 && (kind == s.types.lock || kind == s.types.rlock)
        };
        let mut locks: Vec<usize> = match self.layout.has_tags() {
            true => {
                let exits: Vec<Exit> = self.exits(slots);
                let exits = exits.iter().filter(|exit| self.is_exit_descriptor(exit.function));
                exits.map(|exit| exit.own).filter(|own| is_lock(self, *own)).collect()
            }
            false => slots.iter().filter_map(|slot| self.lock_left_by(*slot)).collect(),
        };
        locks.retain(|lock| is_lock(self, *lock));
        locks.reverse();
        locks
    }

    /// The object that a builtin method `__exit__` is bound to.
    fn lock_left_by(&self, slot: usize) -> Option<usize> {
        let mut head = [0u8; 32];
        self.mem.read(slot, &mut head).ok()?;
        let own = crate::python_stacks::layout::words::word_at(&head, object::METHOD_SELF);
        self.is_exit_of(&head, own).then_some(own)
    }
}
