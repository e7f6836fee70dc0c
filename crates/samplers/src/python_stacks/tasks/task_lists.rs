//! All tasks of the process that are not done: from asyncio's set of them, or its lists (3.14).
//!
//! What it promises: guarded reads; an object that is no pending task is left out.

use crate::python_stacks::layout::object;
use crate::python_stacks::layout::words::{read_each, word_at};
use crate::python_stacks::objects;
use crate::python_stacks::objects::sorts::{Sort, Type};
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::task_tables::task_table::TaskLists;

const REFERENCE_BYTES: usize = 24;

impl PythonStacks {
    /// The tasks in a set of weak references to them, as asyncio keeps it up to 3.13; later those
    /// on its lists, and no set is read.
    pub fn tasks_in(&mut self, set: usize, most: usize, out: &mut Vec<usize>) {
        let tasks = match self.tasks.lists {
            Some(lists) => self.listed(lists, most),
            None => self.referents(set, most),
        };
        let kinds = self.types_at(&tasks);
        for (task, kind) in tasks.into_iter().zip(kinds) {
            if self.is_task(kind) && self.is_pending(task) {
                out.push(task);
            }
        }
    }

    /// What a set of weak references refers to.
    fn referents(&mut self, set: usize, most: usize) -> Vec<usize> {
        let items = objects::set_items(&self.mem, set, most).unwrap_or_default();
        let kinds = self.types_at(&items);
        let is_reference = |kind: &Option<Type>| kind.is_some_and(|kind| kind.sort == Sort::Single);
        let references: Vec<usize> =
            items.into_iter().zip(kinds).filter(|(_, k)| is_reference(k)).map(|(i, _)| i).collect();
        let mut bytes = Vec::new();
        read_each(&self.mem, &references, REFERENCE_BYTES, &mut bytes);
        bytes.chunks_exact(REFERENCE_BYTES).map(|one| word_at(one, object::SIZE)).collect()
    }

    /// What is on the lists of all threads and of the main interpreter: each a ring of nodes, whose
    /// head is no task. One read a task.
    fn listed(&mut self, lists: TaskLists, most: usize) -> Vec<usize> {
        if self.threads.is_old(&self.mem, &self.layout) {
            // A list of threads that is torn is the one before.
            let _ = self.threads.refresh(&self.mem, &self.layout);
        }
        let of_threads = self.threads.seen.iter().map(|thread| thread.state + lists.of_thread);
        let main = self.threads.main_interpreter(&self.mem, &self.layout);
        let heads = of_threads.chain(main.map(|main| main + lists.of_interpreter));
        let mut found = Vec::new();
        for head in heads.collect::<Vec<usize>>() {
            let mut node = self.mem.word(head).unwrap_or(head);
            while node != head && node != 0 && found.len() < most {
                found.push(node.wrapping_sub(lists.node));
                node = self.mem.word(node).unwrap_or(head);
            }
        }
        found
    }
}
