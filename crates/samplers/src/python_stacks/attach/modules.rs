//! Attributes of modules, by name: where the types of locks and asyncio's tasks are found in a
//! process that cannot be asked for them.
//!
//! How it works: the interpreter leads to the dict of modules, a module to its dict:
//!
//! ```text
//!   interpreter --> sys.modules: | hash, key, value | ... |
//!                                        `-> module --> its dict: | hash, key, value | ...
//! ```
//!
//! What it promises: guarded reads, `MOST_ENTRIES` of a dict. A dict that changes meanwhile may
//! hide a key; callers check the type of what they find. What is missing on purpose: hashing (a
//! dict is read from end to end; this is done a few times in a process's life).

use std::path::Path;

use crate::native_stacks::maps::Maps;
use crate::python_stacks::layout::object;
use crate::python_stacks::layout::words::{int_at, read_each, read_string, text_bytes, word_at};
use crate::python_stacks::objects::sorts::Sort;
use crate::python_stacks::objects::{dict_entries, DICT_KEYS, DICT_VALUES, KEYS_HEAD};
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::task_tables::task_table::{search, TaskTable};
use crate::python_stacks::types::{AllTasks, RunningTasks};

/// Module -> its dict.
const MODULE_DICT: usize = 16;
const MOST_ENTRIES: usize = 1 << 16;
/// A compact string's head: its length and its state.
const STRING_HEAD: usize = object::STRING_STATE + 4;

impl PythonStacks {
    /// Looks up the types of locks that are not known.
    pub(crate) fn find_lock_types(&mut self) {
        if self.types.lock == 0 {
            self.types.lock = self.module_attribute("_thread", "LockType").unwrap_or(0);
        }
        if self.types.rlock == 0 {
            self.types.rlock = self.module_attribute("_thread", "RLock").unwrap_or(0);
        }
    }

    /// Finds asyncio's table of offsets in the process of these mappings, whose files lie below
    /// `root` (3.14 and later).
    pub fn find_tasks_outside(&mut self, maps: &[u8], program: &Path, root: &Path) {
        let program = Some(program.to_owned());
        let table = search(&self.mem, &Maps::parse(maps), (program, root));
        if let Some(found) = table.and_then(|at| TaskTable::read(&self.mem, at)) {
            self.tasks.take(found);
        }
    }

    /// Where asyncio has its tasks. None: it is not imported, or has none that are known.
    pub fn all_tasks(&mut self) -> Option<AllTasks> {
        let kind = self.module_attribute("_asyncio", "Task")?;
        if self.tasks.lists.is_some() {
            // Only that it is not 0 counts: the thread state has the running one.
            return Some(AllTasks { running: RunningTasks { by_loop: kind, kind }, set: 0 });
        }
        let by_loop = self.module_attribute("_asyncio", "_current_tasks")?;
        let names = ["_scheduled_tasks", "_all_tasks"];
        let weak = names.iter().find_map(|name| self.module_attribute("_asyncio", name))?;
        let mut inside = self.attributes(weak).into_iter();
        let is_set = |s: &mut Self, at: usize| {
            let kind = s.objects.type_of(&s.mem, &s.layout, at);
            kind.is_some_and(|kind| kind.sort == Sort::Set)
        };
        let set = inside.find(|at| is_set(self, *at))?;
        Some(AllTasks { running: RunningTasks { by_loop, kind }, set })
    }

    /// The name of a task, as the program or asyncio gave it.
    pub fn task_name(&mut self, task: usize) -> Option<String> {
        let kind = self.objects.type_of(&self.mem, &self.layout, task);
        if !self.is_task(kind) {
            return None;
        }
        let name = self.mem.word(task.wrapping_add(self.tasks.name)).ok()?;
        match self.objects.type_of(&self.mem, &self.layout, name)?.sort {
            Sort::Text => read_string(&self.mem, &self.layout, name),
            // From 3.13 on a number until it is asked for.
            Sort::Int => {
                let number = self.objects.whole_number(&self.mem, &self.layout, name)?;
                Some(format!("Task-{number}"))
            }
            _ => None,
        }
    }

    /// An attribute of a module that was imported.
    fn module_attribute(&self, module: &str, name: &str) -> Option<usize> {
        let main = self.threads.main_interpreter(&self.mem, &self.layout)?;
        let modules = main.wrapping_add(self.layout.interpreter_modules);
        let module = self.item(self.mem.word(modules).ok()?, module)?;
        self.item(self.mem.word(module.wrapping_add(MODULE_DICT)).ok()?, name)
    }

    /// The value of an ASCII key in a dict whose keys and values are together.
    fn item(&self, dict: usize, key: &str) -> Option<usize> {
        let mut head = [0u8; DICT_VALUES + 8];
        self.mem.read(dict, &mut head).ok()?;
        if word_at(&head, DICT_VALUES) != 0 {
            return None;
        }
        let keys = word_at(&head, DICT_KEYS);
        let mut head = [0u8; KEYS_HEAD];
        self.mem.read(keys, &mut head).ok()?;
        let (start, count, step) = dict_entries(self.objects.minor(), &head)?;
        let mut entries = vec![0u8; count.min(MOST_ENTRIES).checked_mul(step)?];
        self.mem.read(keys.wrapping_add(start), &mut entries).ok()?;
        let entries = entries.chunks_exact(step);
        let pairs = entries.map(|entry| (word_at(entry, step - 16), word_at(entry, step - 8)));
        let pairs: Vec<(usize, usize)> = pairs.filter(|(_, value)| *value != 0).collect();
        let keys: Vec<usize> = pairs.iter().map(|(key, _)| *key).collect();
        let mut heads = Vec::new();
        read_each(&self.mem, &keys, STRING_HEAD, &mut heads);
        let of_length = |head: &[u8]| word_at(head, object::STRING_LENGTH) == key.len();
        let mut fitting = pairs.iter().zip(heads.chunks_exact(STRING_HEAD));
        let found = fitting.find(|((at, _), head)| of_length(head) && self.is_text(*at, head, key));
        found.map(|((_, value), _)| *value)
    }

    /// Whether the string at `address`, with this head, is this text of as many ASCII characters.
    fn is_text(&self, address: usize, head: &[u8], text: &str) -> bool {
        let state = int_at(head, object::STRING_STATE) as u32;
        let Some((start, bytes)) = text_bytes(&self.layout, state, text.len()) else {
            return false;
        };
        let mut found = vec![0u8; bytes];
        let read = self.mem.read(address.wrapping_add(start), &mut found);
        read.is_ok() && found == text.as_bytes()
    }
}
