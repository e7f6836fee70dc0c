//! Joins: the thread whose end a thread waits for.
//!
//! How it works: `Thread.join` is called on the object of that thread. The object is the first
//! local of its frame and has that thread's ident among its attributes:
//!
//! ```text
//!   to 3.12:   Thread._wait_for_tstate_lock(self)   self --> _ident = 140211...
//!   3.13:      Thread.join(self)                    a thread's ident is an address: no other
//!                                                   int is
//! ```
//!
//! What it promises: the one thread that is on the list now, other than the waiter; else none. What
//! is missing on purpose: idents of other things (a process's `join` waits in a system call that
//! names the child).

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::locks::wait_object::{HowKnown, WaitedFor, THREADING};
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::types::PyThread;

/// `join` is at most this far from the innermost frame.
const FRAMES: usize = 3;
/// Functions of `threading.py` that wait for the end of `self`.
const JOINS: [&str; 2] = ["join", "_wait_for_tstate_lock"];

impl PythonStacks {
    /// The thread whose end `waiter` waits for. Costs a read of the innermost frames, and for a
    /// thread that joins a dozen reads more.
    pub(crate) fn joined(&mut self, waiter: &PyThread, threads: &[PyThread]) -> Option<WaitedFor> {
        self.walk_known(waiter.state, FRAMES).ok()?;
        let joins = |frame: &&RawFrame| {
            let function = self.function(frame);
            function.is_some_and(|(file, name)| file.ends_with(THREADING) && JOINS.contains(&name))
        };
        let frame = *self.walker.frames.iter().find(joins)?;
        let object = self.slots(&frame, 0, 1).first().copied()?;
        let attributes = self.attributes(object);
        let idents = attributes
            .into_iter()
            .filter_map(|attribute| self.objects.whole_number(&self.mem, &self.layout, attribute));
        let idents: Vec<u64> = idents.collect();
        let other = |thread: &&PyThread| {
            thread.tid != waiter.tid && thread.ident != 0 && idents.contains(&thread.ident)
        };
        // A class of the program's may keep the ident of another thread as well.
        let mut found = threads.iter().filter(other).map(|thread| thread.tid);
        let tid = found.next()?;
        found.next().is_none().then(|| WaitedFor::held(object, tid, HowKnown::Joined))
    }
}
