//! Where `_asyncio.Task` keeps its fields: a table up to 3.13, published by asyncio from 3.14 on.
//!
//! What it promises: until a layout is known, no object is taken for a task (`is_of`). What is
//! missing on purpose: tasks written in Python (`asyncio.tasks._PyTask`).

use crate::python_stacks::objects::sorts::{Sort, Type};
use crate::python_stacks::task_tables::task_table::{TaskLists, TaskTable};
use sys::mem::Reader;

/// Future -> its loop, its first callback.
pub(crate) const FUTURE_LOOP: usize = 16;
pub(crate) const FUTURE_CALLBACK: usize = 24;

/// Offsets of the fields of `_asyncio.Task`. Up to 3.13 only its source has them; no header does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskLayout {
    /// Bytes of a task; another number is another layout. 0: not known, or not yet.
    pub size: usize,
    /// Future -> `int`: 0 pending.
    pub state: usize,
    /// Task -> the future it waits for.
    pub waiter: usize,
    /// Task -> its coroutine.
    pub coroutine: usize,
    /// Task -> its name.
    pub name: usize,
    /// The lists of tasks (from 3.14 on; before, a set and a dict of Python's).
    pub lists: Option<TaskLists>,
}

impl TaskLayout {
    /// Measured in 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0 by awaits.py in the tests; later ones
    /// publish it.
    pub fn of(version_hex: u32) -> TaskLayout {
        let (size, state, waiter) = match version_hex >> 16 {
            0x0309 => (184, 80, 144),
            0x030a => (192, 88, 152),
            0x030b | 0x030c => (176, 88, 128),
            0x030d => (144, 96, 112),
            _ => (0, 0, 0),
        };
        let (coroutine, name) = (waiter + 8, waiter + 16);
        TaskLayout { size, state, waiter, coroutine, name, lists: None }
    }

    /// Takes what asyncio publishes, once it is imported.
    pub fn learn(&mut self, mem: &Reader) {
        if self.size != 0 {
            return;
        }
        if let Some(found) = TaskTable::found(mem) {
            self.take(found);
        }
    }

    /// Takes a table that was found.
    pub fn take(&mut self, found: TaskTable) {
        let TaskTable { size, name, coroutine, waiter, state, lists } = found;
        *self = TaskLayout { size, state, waiter, coroutine, name, lists: Some(lists) };
    }

    /// Whether tasks of this type have it.
    pub fn is_of(&self, kind: Type) -> bool {
        kind.sort == Sort::Task && kind.sort_size == self.size
    }
}
