//! From a task to the frames of its coroutines, outermost first, and what each of them awaits.
//!
//! How it works: a task names its coroutine; a suspended coroutine keeps its frame, and on top of
//! that frame's value stack is the object that it awaits: see `awaits`. Links without a frame (a
//! future's iterator, a wrapper) are passed through. So is an object of a program's class or of an
//! extension's type, if it refers to exactly one coroutine that is suspended (a proxy in which an
//! agent counts the steps of the coroutine): nothing else can be what it steps.
//!
//! What it promises: guarded reads, at most `MOST_LINKS` links; `chain` counts only what two walks
//! agree on. What is missing on purpose: the tasks behind the future that a task waits for
//! (`awaited_tasks`); a proxy around a proxy.

use crate::python_stacks::frames::frame::parse_frame;
use crate::python_stacks::layout::words::{int_at, word_at};
use crate::python_stacks::layout::{object, ABSENT};
use crate::python_stacks::objects::sorts::{Sort, Type};
use crate::python_stacks::reader::{PythonStacks, TRIES};
use crate::python_stacks::task_tables::task_layout::FUTURE_LOOP;
use crate::python_stacks::tasks::chain::Chain;
use crate::python_stacks::types::Torn;

/// From 3.15 on the awaited object is below the place of an index, which is empty for what is
/// awaited.
const ABOVE_AWAITED: usize = 1;
/// Coroutines and other links of one task.
const MOST_LINKS: usize = 256;
/// A coroutine's head and the beginning of its frame.
pub(crate) const LINK_BYTES: usize = 256;

impl PythonStacks {
    /// The chain two walks agree on.
    pub(crate) fn chain(&mut self, task: usize) -> Result<Chain, Torn> {
        let mut last = self.chain_once(task);
        for _ in 0..TRIES {
            let again = self.chain_once(task);
            if again == last {
                return again;
            }
            last = again;
        }
        self.counters.torn_stacks += 1;
        Err(Torn("task moved at every try"))
    }

    /// Whether `kind` is a task of the layout known.
    pub(crate) fn is_task(&self, kind: Option<Type>) -> bool {
        kind.is_some_and(|kind| self.tasks.is_of(kind))
    }

    /// Whether the future or task at `address` has no result yet.
    pub(crate) fn is_pending(&self, address: usize) -> bool {
        let mut state = [0u8; 4];
        let read = self.mem.read(address.wrapping_add(self.tasks.state), &mut state);
        read.is_ok() && int_at(&state, 0) == 0
    }

    pub(crate) fn chain_once(&mut self, task: usize) -> Result<Chain, Torn> {
        if self.is_greenlet(task) {
            return self.greenlet_once(task);
        }
        let kind = self.objects.type_of(&self.mem, &self.layout, task);
        if !self.is_task(kind) {
            return Err(Torn("task gone"));
        }
        let mut head = [0u8; 192];
        let head = head.get_mut(..self.tasks.size).ok_or(Torn("task layout"))?;
        self.mem.read(task, head).map_err(|_| Torn("task gone"))?;
        if int_at(head, self.tasks.state) != 0 {
            return Err(Torn("task done"));
        }
        let mut chain = Chain {
            task,
            event_loop: word_at(head, FUTURE_LOOP),
            waiter: word_at(head, self.tasks.waiter),
            ..Chain::default()
        };
        let coroutine = word_at(head, self.tasks.coroutine);
        self.links(coroutine, &mut chain);
        chain.frames.reverse();
        Ok(chain)
    }

    pub(crate) fn links(&mut self, first: usize, chain: &mut Chain) {
        let mut next = first;
        for _ in 0..MOST_LINKS {
            let mut bytes = [0u8; LINK_BYTES];
            // A small object may end shortly before memory that is not mapped.
            let short = 24;
            if next % 8 != 0
                || (self.mem.read(next, &mut bytes).is_err()
                    && self.mem.read(next, &mut bytes[..short]).is_err())
            {
                return;
            }
            let kind = self.objects.type_in(&self.mem, &self.layout, &bytes);
            let Some(kind) = kind else { return };
            let sort = kind.sort;
            let awaited = match sort {
                Sort::Passing => Some(word_at(&bytes, 16)),
                Sort::Instance => self.only_suspended(next, kind),
                Sort::Coroutine | Sort::Generator | Sort::AsyncGenerator => {
                    self.link(next, &bytes, chain)
                }
                _ => None,
            };
            let Some(awaited) = awaited else { return };
            if sort == Sort::Generator && self.layout.generator_state == ABSENT {
                let inner = self.objects.type_of(&self.mem, &self.layout, awaited);
                if inner.is_some_and(|inner| inner.sort == Sort::Generator) {
                    return;
                }
            }
            next = awaited;
        }
    }

    /// The coroutine that an object of no known type passes its steps on to.
    fn only_suspended(&mut self, address: usize, kind: Type) -> Option<usize> {
        let mut held = self.objects.contents(&self.mem, &self.layout, address, kind);
        held.sort_unstable();
        held.dedup();
        let kinds = self.types_at(&held);
        let mut found = held.into_iter().zip(kinds).filter(|(one, kind)| {
            kind.is_some_and(|kind| match kind.sort {
                Sort::Coroutine | Sort::Generator | Sort::AsyncGenerator => self.awaits(*one),
                Sort::Passing => self.mem.word(one.wrapping_add(16)).is_ok_and(|inner| {
                    let kind = self.objects.type_of(&self.mem, &self.layout, inner);
                    kind.is_some_and(|kind| kind.sort == Sort::Coroutine) && self.awaits(inner)
                }),
                _ => false,
            })
        });
        let (first, second) = (found.next(), found.next());
        first.filter(|_| second.is_none()).map(|(one, _)| one)
    }

    /// Whether the coroutine or generator at `address` is suspended where it awaits.
    fn awaits(&mut self, address: usize) -> bool {
        let mut bytes = [0u8; LINK_BYTES];
        let mut apart = Chain::default();
        self.mem.read(address, &mut bytes).is_ok()
            && self.link(address, &bytes, &mut apart).is_some()
            && !apart.running
    }

    /// Takes the frame of the coroutine at `address`; what it awaits, if it is suspended there.
    pub(crate) fn link(
        &mut self,
        address: usize,
        bytes: &[u8],
        chain: &mut Chain,
    ) -> Option<usize> {
        let layout = &self.layout;
        if !layout.has_chunks() {
            return self.link_object(word_at(bytes, layout.generator_frame), chain);
        }
        let state = bytes.get(layout.generator_state).copied()?;
        let running = layout.generator_running as u8;
        if state as i8 > running as i8 {
            return None;
        }
        chain.running |= state == running;
        let place = address.wrapping_add(layout.generator_frame);
        let head = bytes.get(layout.generator_frame..)?;
        chain.frames.push(parse_frame(layout, place, head));
        if state != layout.generator_awaiting as u8 {
            return None;
        }
        let word = |slot: usize| match head.get(slot..slot.checked_add(8)?) {
            Some(_) => Some(word_at(head, slot)),
            None => self.mem.word(place.wrapping_add(slot)).ok(),
        };
        if !layout.has_tags() {
            let depth = usize::try_from(int_at(head, layout.frame_top)).ok()?.checked_sub(1)?;
            return word(layout.frame_locals.checked_add(depth.checked_mul(8)?)?);
        }
        let top = word_at(head, layout.frame_top).wrapping_sub(place);
        let slots = (1..=ABOVE_AWAITED + 1).map(|depth| top.wrapping_sub(8 * depth));
        let mut slots = slots.filter(|slot| *slot >= layout.frame_locals);
        slots.find_map(|slot| word(slot).map(|word| layout.untagged(word)).filter(|a| *a != 0))
    }

    /// Up to 3.10 the frame is an object of its own.
    fn link_object(&mut self, frame: usize, chain: &mut Chain) -> Option<usize> {
        let layout = &self.layout;
        let mut head = [0u8; 128];
        self.mem.read(frame, &mut head).ok()?;
        if word_at(&head, object::REFERENCES) == 0 {
            return None;
        }
        let raw = parse_frame(layout, frame, &head);
        chain.frames.push(raw);
        let values = word_at(&head, layout.frame_value_stack);
        let top = match layout.instruction_unit {
            1 => word_at(&head, layout.frame_top),
            _ => match usize::try_from(int_at(&head, layout.frame_top)) {
                Ok(depth) => values.wrapping_add(depth * 8),
                Err(_) => 0,
            },
        };
        if top == 0 {
            chain.running = true;
            return None;
        }
        if raw.offset < 0 || top <= values {
            return None;
        }
        self.mem.word(top.wrapping_sub(8)).ok()
    }
}

#[cfg(test)]
#[path = "task_chains_tests.rs"]
mod tests;
