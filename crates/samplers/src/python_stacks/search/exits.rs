//! The functions by which what was entered is left: what a `with` keeps on the value stack.
//!
//! How it works: a frame inside of a `with` has the way out at the bottom of its value stack. Up
//! to 3.13 that is one word, a method bound to the object that was entered; from 3.14 on it is two:
//!
//! ```text
//!   to 3.13:   | ... | __exit__ of guard | ...          bound method --> function, guard
//!   3.14 on:   | ... | __exit__ | guard | ...           function, or method of a C type, unbound
//! ```
//!
//! An `__exit__` that is no plain method of the class is bound on 3.14, too, beside an empty word.
//!
//! What it promises: the pair of function and object, in the order of the slots. What is missing on
//! purpose: whether the slots are alive, and what the function does; callers know.

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::layout::object;
use crate::python_stacks::layout::words::word_at;
use crate::python_stacks::objects::sorts::Sort;
use crate::python_stacks::reader::PythonStacks;

/// A way out that a frame keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The word that the frame keeps: the bound method, or the function.
    word: usize,
    /// Called to leave it.
    pub function: usize,
    /// What is left.
    pub own: usize,
}

impl PythonStacks {
    /// The ways out among a frame's slots, which are one behind the other.
    pub(crate) fn exits(&mut self, slots: &[usize]) -> Vec<Exit> {
        let kinds = self.types_at(slots);
        let behind = slots.iter().skip(1).copied().chain([0]);
        let mut found = Vec::new();
        for ((slot, kind), own) in slots.iter().zip(kinds).zip(behind) {
            let word = |offset: usize| self.mem.word(slot.wrapping_add(offset)).unwrap_or(0);
            match kind.map(|kind| kind.sort) {
                Some(Sort::Method) => found.push(Exit {
                    word: *slot,
                    function: word(object::METHOD_DEFINITION),
                    own: word(object::METHOD_SELF),
                }),
                Some(Sort::Function | Sort::Descriptor) if self.layout.has_tags() && own != 0 => {
                    found.push(Exit { word: *slot, function: *slot, own });
                }
                _ => (),
            }
        }
        found
    }

    /// Whether the exit that a C type has for `own` is among a frame's slots (3.14 and later).
    pub(crate) fn keeps_exit_of(&self, slots: &[usize], own: usize) -> bool {
        let mut pairs = slots.windows(2).filter(|pair| pair[1] == own);
        self.layout.has_tags() && pairs.any(|pair| self.is_exit_descriptor(pair[0]))
    }

    /// Whether a frame keeps this way out.
    pub(crate) fn keeps(&self, frame: &RawFrame, exit: Exit) -> bool {
        let kept = self.kept_slots(frame);
        match exit.word == exit.function {
            true => kept.windows(2).any(|pair| *pair == [exit.function, exit.own]),
            false => kept.contains(&exit.word),
        }
    }

    /// Whether a function is a C type's `__exit__`, not bound to an object yet.
    pub(crate) fn is_exit_descriptor(&self, function: usize) -> bool {
        let word = |address: usize| self.mem.word(address).ok();
        let definition = word(function.wrapping_add(object::DESCRIPTOR_DEFINITION));
        let Some(name) = definition.and_then(word) else { return false };
        let mut text = [0u8; 9];
        self.mem.read(name, &mut text).is_ok() && &text == b"__exit__\0"
    }

    /// True for the head of a live builtin method `__exit__` bound to `lock`.
    pub(crate) fn is_exit_of(&self, head: &[u8], lock: usize) -> bool {
        let bound = word_at(head, object::REFERENCES) != 0
            && word_at(head, object::TYPE) == self.types.builtin_method
            && word_at(head, object::METHOD_SELF) == lock;
        if !bound {
            return false;
        }
        let definition = word_at(head, object::METHOD_DEFINITION);
        let Ok(name) = self.mem.word(definition) else {
            return false;
        };
        let mut text = [0u8; 9];
        self.mem.read(name, &mut text).is_ok() && &text == b"__exit__\0"
    }
}

#[cfg(test)]
mod tests {
    use crate::python_stacks::by_hand::ByHand;

    const V3_13: u32 = 0x030d_00f0;
    const V3_14: u32 = 0x030e_0af0;

    #[test]
    fn a_function_and_the_object_behind_it_are_a_way_out_from_3_14_on() {
        for (version, pairs) in [(V3_13, false), (V3_14, true)] {
            let mut memory = ByHand::new(version);
            let (function, method) = (memory.kind(b"function\0"), memory.kind(b"method\0"));
            let leave = memory.object(function, &[0; 8]);
            let guard = memory.object(function, &[0; 8]);
            let bound = memory.object(method, &[leave, guard]);
            let found = memory.stacks.exits(&[leave, 0, bound, 0, leave, guard]);
            let exits: Vec<_> = found.iter().map(|exit| (exit.function, exit.own)).collect();
            let pair = if pairs { &[(leave, guard)][..] } else { &[] };
            assert_eq!(exits, [&[(leave, guard)], pair].concat());
        }
    }

    /// The object alone is none, nor is it in the slots of two frames.
    #[test]
    fn a_locks_own_exit_lies_in_front_of_the_lock() {
        let mut memory = ByHand::new(V3_14);
        let descriptor = memory.kind(b"method_descriptor\0");
        let lock = memory.object(16, &[0; 4]);
        let mut named = |name: &'static [u8]| {
            let definition = memory.words(&[name.as_ptr() as usize]);
            memory.object(descriptor, &[0, 0, 0, definition])
        };
        let (exit, enter) = (named(b"__exit__\0"), named(b"__enter__\0"));
        let keeps = |slots: &[usize]| memory.stacks.keeps_exit_of(slots, lock);
        assert!(keeps(&[0, exit, lock]));
        assert!(!keeps(&[enter, lock]) && !keeps(&[exit, 0, lock]) && !keeps(&[lock, exit]));
    }
}
