//! Context managers that hold a lock: finds the thread inside the `with` of such an object.
//!
//! How it works: an object that is entered has its `__exit__` on the value stack of the frame that
//! entered it, as a lock has its own (see `exits`). The lock is one of its attributes, or the
//! generator that `contextlib.contextmanager` made it from is inside of the lock's `with`, or has
//! it at hand and will call `release`:
//!
//! ```text
//!   with guard:                 __exit__ of guard ---> guard ---> _lock
//!   with stripes.section(7):    __exit__ of _GeneratorContextManager ---> gen
//!                                          gen ---> frame: lock, or its __exit__
//! ```
//!
//! `async with` is the same with `__aexit__` and a generator that is asynchronous. What was entered
//! by a `contextlib.ExitStack` is in its deque, as a tuple with its exit function, which is removed
//! before it is called:
//!
//! ```text
//!   with ExitStack() as stack:   __exit__ of stack ---> stack ---> deque
//!                                       deque ---> (True, __exit__ of one)
//!                                                  (True, function of a callback)
//! ```
//!
//! What it promises: a thread in a method of that object (a Condition's `wait` has released the
//! lock) is not named, nor one whose `__exit__` releases nothing. What is missing on purpose: locks
//! farther than one attribute away.

use crate::python_stacks::layout::object;
use crate::python_stacks::layout::words::{read_each, word_at};
use crate::python_stacks::objects::sorts::{Sort, Type};
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::search::exits::Exit;
use crate::python_stacks::tasks::chain::Chain;

/// Functions by which the exit code releases a lock.
const LEAVES: [&str; 3] = ["release", "__exit__", "__aexit__"];

impl PythonStacks {
    /// Whether one of `exits`, which the `with`s of the thread that was walked last keep, releases
    /// `lock`.
    pub(crate) fn is_inside_manager(&mut self, exits: &[Exit], lock: usize) -> bool {
        exits.iter().any(|exit| {
            let attributes = self.attributes(exit.own);
            self.lets_go(exit.function, &attributes, lock) && !self.is_in_a_method(*exit)
                || self.collects(&attributes, lock)
        })
    }

    /// Whether the object with these attributes is an exit stack that contains the exit of `lock`.
    pub(crate) fn collects(&mut self, attributes: &[usize], lock: usize) -> bool {
        let entries = self.contents_of(attributes, Sort::Deque);
        let ways = self.contents_of(&entries, Sort::Tuple);
        ways.into_iter().any(|way| self.is_way_out(way, lock))
    }

    /// The content of those of the objects that are of one sort.
    fn contents_of(&mut self, addresses: &[usize], sort: Sort) -> Vec<usize> {
        self.inside(addresses, |kind| kind == sort).concat()
    }

    /// Whether calling `way`, a bound method or a function with what it calls in a cell, releases
    /// `lock`.
    fn is_way_out(&mut self, way: usize, lock: usize) -> bool {
        let mut head = [0u8; 32];
        if self.mem.read(way, &mut head).is_err() {
            return false;
        }
        // From 3.15 on the stack keeps what `lock.__exit__` gives.
        if self.is_exit_of(&head, lock) {
            return true;
        }
        let kind = self.objects.type_in(&self.mem, &self.layout, &head);
        match kind.map(|kind| kind.sort) {
            Some(Sort::Method) => {
                let function = word_at(&head, object::METHOD_DEFINITION);
                match word_at(&head, object::METHOD_SELF) {
                    own if own == lock => {
                        self.is_exit_descriptor(function) || self.code_of_exit(function).is_some()
                    }
                    own => {
                        let attributes = self.attributes(own);
                        self.lets_go(function, &attributes, lock)
                    }
                }
            }
            Some(Sort::Function) => {
                let cells = self.contents_of(&[way], Sort::Function);
                let called = self.contents_of(&cells, Sort::Single);
                let releases = |word: &usize| {
                    self.is_builtin(*word, b"release\0")
                        && self.mem.word(word.wrapping_add(object::METHOD_SELF)).ok() == Some(lock)
                };
                called.iter().any(releases)
            }
            _ => false,
        }
    }

    /// Whether `function` is an `__exit__` that releases `lock`, by the attributes of the object it
    /// is bound to. The rarest condition is checked first.
    pub(crate) fn lets_go(&mut self, function: usize, attributes: &[usize], lock: usize) -> bool {
        if attributes.contains(&lock) {
            let code = self.code_of_exit(function).unwrap_or(0);
            return self.codes.names(&self.mem, &self.layout, code, &LEAVES);
        }
        let is_generator = |kind: &Option<Type>| {
            kind.is_some_and(|kind| matches!(kind.sort, Sort::Generator | Sort::AsyncGenerator))
        };
        let kinds = self.types_at(attributes);
        let mut all = attributes.iter().zip(kinds).filter(|(_, kind)| is_generator(kind));
        all.any(|(generator, _)| self.is_inside(*generator, lock))
            && self.code_of_exit(function).is_some()
    }

    /// The code of a function that is an `__exit__` or `__aexit__`.
    pub(crate) fn code_of_exit(&mut self, function: usize) -> Option<usize> {
        let kind = self.objects.type_of(&self.mem, &self.layout, function);
        kind.filter(|kind| kind.sort == Sort::Function)?;
        let code = self.mem.word(function.wrapping_add(self.layout.function_code)).ok()?;
        let info = self.codes.glance(&self.mem, &self.layout, code)?;
        let name = info.qualname.rsplit('.').next();
        matches!(name, Some("__exit__" | "__aexit__")).then_some(code)
    }

    /// Whether `generator` is inside of the lock's `with`, or has the lock and will release it.
    fn is_inside(&mut self, generator: usize, lock: usize) -> bool {
        let mut chain = Chain::default();
        self.links(generator, &mut chain);
        let Some(frame) = chain.frames.first().filter(|_| !chain.running) else { return false };
        let slots = self.live_slots(frame);
        let mut heads = Vec::new();
        read_each(&self.mem, &slots, 32, &mut heads);
        heads.chunks_exact(32).any(|head| self.is_exit_of(head, lock))
            || self.exits(&slots).iter().any(|exit| exit.own == lock)
            || (self.refers_to(frame, lock)
                && self.codes.names(&self.mem, &self.layout, frame.code, &LEAVES))
    }

    /// Whether the thread that was walked last has called a method of what it entered, inside of
    /// the frame that keeps the way out.
    fn is_in_a_method(&self, exit: Exit) -> bool {
        for frame in &self.walker.frames {
            if self.keeps(frame, exit) {
                return false;
            }
            if self.slots(frame, 0, 1).contains(&exit.own) {
                return true;
            }
        }
        true
    }
}
