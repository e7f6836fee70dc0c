//! The name of the asyncio task that runs on a thread, as an id of the recorder's tables.
//!
//! How it works: the binding passes the place where asyncio keeps its running tasks, once it is
//! there; behind each sample of a stack the reader is asked which of them runs on that thread.
//!
//! What it promises: a name that the program gave a task, cut at 64 bytes. asyncio's own
//! (`Task-17`) are without end and say nothing: such a task is named by its coroutine's function,
//! as `refresh()`. So is a task whose name is refused, since `ring::Class::Task` holds so many
//! already (`task_names_refused`). At most as many names as that class and the table of code
//! objects hold. Cost for a stack without a coroutine: nothing is read. What is missing on purpose:
//! tasks of subinterpreters; stacks that were taken under the GIL.

use std::sync::atomic::{AtomicUsize, Ordering};

use format::region::losses;
use recorder::Recorder;
use samplers::python_stacks::{CodeId, PythonStacks, RunningTasks};

/// Addresses of asyncio's dict of running tasks and of their type; 0 while asyncio was not seen.
/// Written by the binding, the type first; read by the sampler. Release and Acquire: a reader that
/// sees the dict sees its type.
static BY_LOOP: AtomicUsize = AtomicUsize::new(0);
/// See `BY_LOOP`.
static KIND: AtomicUsize = AtomicUsize::new(0);

/// Says where asyncio keeps its running tasks. Both objects must never be freed.
pub fn set_asyncio_running(tasks: RunningTasks) {
    KIND.store(tasks.kind, Ordering::Relaxed);
    BY_LOOP.store(tasks.by_loop, Ordering::Release);
}

/// The ids of names made of code.
#[derive(Default)]
pub(crate) struct TaskNames {
    by_code: Vec<u32>,
}

impl TaskNames {
    /// The name of the task that runs on the thread whose stack was read last; 0: none, or it is
    /// unknown.
    pub fn running(&mut self, recorder: &Recorder, stacks: &mut PythonStacks) -> u32 {
        let by_loop = BY_LOOP.load(Ordering::Acquire);
        let tasks = RunningTasks { by_loop, kind: KIND.load(Ordering::Relaxed) };
        let Some(task) = stacks.running_task(tasks) else { return 0 };
        if let Some(name) = task.name {
            match recorder.tables().bounded(ring::Class::Task, name) {
                Some(id) => return id,
                None => recorder.region().lose(losses::TASK_NAMES_REFUSED, 1),
            }
        }
        let code = task.code;
        self.of_code(recorder, stacks, code)
    }

    fn of_code(&mut self, recorder: &Recorder, stacks: &PythonStacks, code: CodeId) -> u32 {
        let index = code.0 as usize;
        if let Some(id) = self.by_code.get(index).filter(|id| **id != 0) {
            return *id;
        }
        let known = stacks.code(code).filter(|_| code != CodeId::UNKNOWN);
        let Some(info) = known else { return 0 };
        let id = recorder.tables().name(&format!("{}()", info.qualname));
        if self.by_code.len() <= index {
            self.by_code.resize(index + 1, 0);
        }
        self.by_code[index] = id;
        id
    }
}
