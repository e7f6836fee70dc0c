//! Where asyncio says that its tasks are: the table in section `.AsyncioDebug` (3.14 and later).
//!
//! How it works: the section has 64-bit words in a fixed order. It is a part of the file of module
//! `_asyncio`, or of the interpreter where that is built in. Sections are not named in memory: its
//! place is read from the file, once, and the words from memory.
//!
//! ```text
//!   task: | size | name | awaited_by | is_task | awaited_by_is_set | coro | node |
//!   interpreter: | size | tasks |      thread: | size | loop | running task | tasks |
//! ```
//!
//! The state of a task and the future that it waits for are not published. They lie between fields
//! that are, which leave room for nothing else: a table with other distances is refused.
//!
//! What it promises: a table is used only if each offset is inside of its struct. What is missing
//! on purpose: tasks written in Python, which are on no list.

use crate::native_stacks::maps::{Mapped, Maps};
use crate::native_stacks::{module, owner};
use crate::python_stacks::layout::words::word_at;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use sys::mem::Reader;

const SECTION: &[u8] = b".AsyncioDebug\0";
const WORDS: usize = 13;
/// No version's task is larger, nor smaller.
const TASK_BYTES: std::ops::RangeInclusive<usize> = 128..=192;
/// A thread state or an interpreter is never larger.
const MOST_BYTES: usize = 1 << 20;

/// Address of the table, 0 while it is not known. Written by `find_task_table`, read by the
/// sampler: a number on its own, so Relaxed.
static TABLE: AtomicUsize = AtomicUsize::new(0);

/// Places of tasks: see `TaskTable::read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskTable {
    pub size: usize,
    pub name: usize,
    pub coroutine: usize,
    /// The future it waits for.
    pub waiter: usize,
    pub state: usize,
    pub lists: TaskLists,
}

/// The lists of tasks, and the running one of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskLists {
    /// Task -> the next node, and the one before.
    pub node: usize,
    /// Interpreter -> head of the list of tasks whose thread has ended.
    pub of_interpreter: usize,
    /// Thread state -> head of the list of its tasks.
    pub of_thread: usize,
    /// Thread state -> the running task.
    pub running: usize,
}

impl TaskTable {
    /// Reads the table at `address`; `None` if it has another shape than the one we know.
    pub fn read(mem: &Reader, address: usize) -> Option<TaskTable> {
        let mut bytes = [0u8; WORDS * 8];
        mem.read(address, &mut bytes).ok()?;
        let word = |index: usize| word_at(&bytes, index * 8);
        let [size, name, awaited_by, is_task, is_set, coroutine, node] =
            [0, 1, 2, 3, 4, 5, 6].map(word);
        let (interpreter, of_interpreter) = (word(7), word(8));
        let [thread, event_loop, running, of_thread] = [9, 10, 11, 12].map(word);
        let state = awaited_by.checked_add(8)?;
        let waiter = coroutine.checked_sub(8)?;
        // A state of four bytes, two flags, a word of bits and counts, the future, the coroutine.
        let as_known = is_task == state + 4
            && is_set == is_task + 1
            && waiter == state + 16
            && name == coroutine + 8
            && node == name + 16
            && size == node + 16;
        let inside = TASK_BYTES.contains(&size)
            && of_interpreter < interpreter.min(MOST_BYTES)
            && [event_loop, running, of_thread].iter().all(|at| *at < thread.min(MOST_BYTES));
        let lists = TaskLists { node, of_interpreter, of_thread, running };
        (as_known && inside).then_some(TaskTable { size, name, coroutine, waiter, state, lists })
    }

    /// The table that was found in this process.
    pub fn found(mem: &Reader) -> Option<TaskTable> {
        match TABLE.load(Ordering::Relaxed) {
            0 => None,
            address => TaskTable::read(mem, address),
        }
    }
}

/// Finds asyncio's table in this process, for all readers; its address. `None`: asyncio is not
/// imported, or this version has none that is known. Reads /proc/self/maps and two files, so call
/// it once.
pub fn find_task_table() -> Option<usize> {
    let mem = Reader::new().ok()?;
    let program = std::fs::read_link("/proc/self/exe").ok();
    let maps = Maps::read().ok()?;
    let address = search(&mem, &maps, (program, Path::new("/")))?;
    TABLE.store(address, Ordering::Relaxed);
    Some(address)
}

/// Finds it in the process that `mem` reads and whose mappings these are: the program is its own,
/// and its files lie below `root`.
pub(crate) fn search(
    mem: &Reader,
    maps: &Maps,
    (program, root): (Option<PathBuf>, &Path),
) -> Option<usize> {
    let may_have_it = |file: &&Mapped| {
        let base = file.path.rsplit('/').next().unwrap_or(&file.path);
        base.starts_with("_asyncio.")
            || owner::is_interpreter(&file.path)
            || program.as_ref().is_some_and(|program| program.as_os_str() == file.path.as_str())
    };
    let outside = |file: &Mapped| {
        let path = root.join(file.path.trim_start_matches('/'));
        Mapped { path: path.to_string_lossy().into_owned(), ..file.clone() }
    };
    let files = maps.files.iter().filter(may_have_it);
    let mut found = files.filter_map(|file| module::section(mem, &outside(file), SECTION));
    let (address, _) = found.find(|(at, _)| TaskTable::read(mem, *at).is_some())?;
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 3.15.2.
    const TABLE_WORDS: [u64; WORDS] =
        [168, 136, 96, 108, 109, 128, 152, 343_000, 10_856, 1200, 1024, 1032, 1048];

    fn read(words: &[u64; WORDS]) -> Option<TaskTable> {
        let mem = Reader::new().expect("a process may read itself");
        TaskTable::read(&mem, words.as_ptr() as usize)
    }

    #[test]
    fn what_is_not_published_lies_between_what_is() {
        let table = read(&TABLE_WORDS).expect("the shape that is known");
        assert_eq!((table.size, table.state, table.waiter), (168, 104, 120));
        assert_eq!((table.coroutine, table.name, table.lists.node), (128, 136, 152));
        assert_eq!((table.lists.running, table.lists.of_thread), (1032, 1048));
    }

    /// A release with one more field in its tasks is not read by guess.
    #[test]
    fn another_shape_or_an_offset_outside_of_its_struct_is_refused() {
        for (index, value) in [(0, 176), (1, 144), (2, 88), (3, 112), (4, 112), (5, 136), (6, 160)]
        {
            assert_eq!(read(&TABLE_WORDS.map_at(index, value)), None, "word {index}");
        }
        for (index, value) in [(8, 343_000), (10, 1200), (11, 5000), (12, 1 << 40)] {
            assert_eq!(read(&TABLE_WORDS.map_at(index, value)), None, "word {index}");
        }
        // All of a task moved by one field in front of it: the distances are the same.
        let moved = [176, 144, 104, 116, 117, 136, 160, 343_000, 10_856, 1200, 1024, 1032, 1048];
        assert_eq!(read(&moved).map(|table| (table.state, table.waiter)), Some((112, 128)));
        let mem = Reader::new().expect("a process may read itself");
        assert_eq!(TaskTable::read(&mem, 8), None);
    }

    trait MapAt {
        fn map_at(self, index: usize, value: u64) -> Self;
    }

    impl MapAt for [u64; WORDS] {
        fn map_at(mut self, index: usize, value: u64) -> Self {
            self[index] = value;
            self
        }
    }
}
