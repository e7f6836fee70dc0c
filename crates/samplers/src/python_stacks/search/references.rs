//! What objects are, and what they refer to: the questions that every search of objects asks.
//!
//! How it works: types are read by `objects`; a list of addresses costs a few batched reads. An
//! object may be among a frame's slots, in a container there, or an attribute of its `self`.
//!
//! What it promises: None for what is no live object; `MOST_REACHED` objects in containers a
//! frame. What is missing on purpose: globals, and objects farther than one attribute away.

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::layout::object;
use crate::python_stacks::layout::words::read_each;
use crate::python_stacks::objects::sorts::{Sort, Type};
use crate::python_stacks::reader::PythonStacks;

/// An object's count of references and its type; a weak reference, and what it refers to.
const HEAD_BYTES: usize = 16;
/// Objects in containers that are searched, for each frame.
const MOST_REACHED: usize = 64;

impl PythonStacks {
    pub(crate) fn type_at(&mut self, address: usize) -> Option<Type> {
        self.objects.type_of(&self.mem, &self.layout, address)
    }

    /// The types of several objects, for the price of a few reads; None for what is no live object.
    pub(crate) fn types_at(&mut self, addresses: &[usize]) -> Vec<Option<Type>> {
        let plausible = |address: usize| address >= 4096 && address % 8 == 0;
        let asked: Vec<usize> = addresses.iter().copied().filter(|a| plausible(*a)).collect();
        let mut heads = Vec::new();
        read_each(&self.mem, &asked, HEAD_BYTES, &mut heads);
        let mut heads = heads.chunks_exact(HEAD_BYTES);
        let (objects, mem, layout) = (&mut self.objects, &self.mem, &self.layout);
        let mut kind = |address: &usize| {
            let head = if plausible(*address) { heads.next()? } else { return None };
            objects.type_in(mem, layout, head)
        };
        addresses.iter().map(&mut kind).collect()
    }

    /// Whether a frame has `object` among its locals, on its stack, in a container among these or
    /// in something in there, or as an attribute of its first argument.
    pub(crate) fn refers_to(&mut self, frame: &RawFrame, object: usize) -> bool {
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
    pub(crate) fn attributes(&mut self, object: usize) -> Vec<usize> {
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
    pub(crate) fn inside(
        &mut self,
        addresses: &[usize],
        wanted: impl Fn(Sort) -> bool,
    ) -> Vec<Vec<usize>> {
        let kinds = self.types_at(addresses);
        let known = addresses.iter().zip(kinds).filter_map(|(a, kind)| Some((*a, kind?)));
        let known = known.filter(|(_, kind)| wanted(kind.sort));
        known.map(|(a, k)| self.objects.contents(&self.mem, &self.layout, a, k)).collect()
    }

    /// Whether it is a builtin function, or method of a builtin type, of this name; the name ends
    /// in a zero.
    pub(crate) fn is_builtin(&self, address: usize, wanted: &[u8]) -> bool {
        let word = |address: usize, offset: usize| self.mem.word(address.wrapping_add(offset)).ok();
        if word(address, object::TYPE) != Some(self.types.builtin_method) {
            return false;
        }
        let definition = word(address, object::METHOD_DEFINITION);
        let Some(name) = definition.and_then(|definition| word(definition, 0)) else {
            return false;
        };
        let mut text = vec![0u8; wanted.len()];
        self.mem.read(name, &mut text).is_ok() && text == wanted
    }
}
