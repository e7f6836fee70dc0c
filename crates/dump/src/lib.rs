//! The state of a process now: what each thread and each asyncio task does and waits for, and which
//! requests are open.
//!
//! How it works: /proc shows the threads and the calls they are blocked in, the Python stack reader
//! (crate `samplers`) shows stacks, locks, the GIL and tasks by guarded reads of memory. The memory
//! is this process's own when its control socket is asked, or another's, which `dashcam dump` reads
//! when it is not recorded. Nothing is stopped, and no code of ours runs in another process: a
//! thread is read while it is blocked or waits for a CPU, and one that runs while the reader has
//! its CPU.
//!
//! ```text
//!   threads (/proc) > stacks > waits: lock, holder > locks held > tasks > requests > JSON
//! ```
//!
//! What it promises: a thread's stack, task and locks are of one instant, or it is `torn`: see
//! `sys::off_cpu`. A wait and its holder only if the thread was in the same call before and after
//! they were read. What is left out of a long list is counted. The threads are read one after the
//! other, so two of them are not of the same instant. Where the kernel does not show whether a
//! thread ran, `settled` is false: two readings agreed, which proves nothing.
//!
//! What is missing on purpose: native frames; locks taken by `acquire()` that nobody waits for; the
//! layout as text (crates/cli).

mod place;
mod process;
mod tasks;
mod threads;

pub use process::Process;

use format::json::Object;
use place::{address, list};
use samplers::python_stacks::PythonStacks;
use tasks::Tasks;
use threads::Threads;

/// A request that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// As in captures.
    pub id: u64,
    /// Its present name.
    pub name: String,
    /// Since its begin.
    pub age_ns: u64,
    /// The thread it began on.
    pub tid: u32,
    /// The task or greenlet that works for it, 0 none or not known.
    pub task: u64,
}

/// The state of a process as one line of JSON. `stacks`: its reader, or why there is none.
/// `requests`: None if the process is not recorded.
pub fn dump(
    process: &Process,
    stacks: Result<&mut PythonStacks, String>,
    requests: Option<&[Request]>,
) -> Object {
    let begin_ns = sys::clock::now_ns();
    let mut out = Object::new().int("pid", u64::from(process.pid()));
    let (threads, tasks);
    match stacks {
        Ok(stacks) => {
            stacks.begin_pass();
            let followed: Vec<usize> = requests.unwrap_or_default().iter().map(task_of).collect();
            threads = Threads::read(process, Some(stacks));
            tasks = Tasks::read(stacks, &followed);
        }
        Err(why) => {
            out = out.text("no_stacks", &why);
            threads = Threads::read(process, None);
            tasks = Tasks::default();
        }
    }
    if let Some(holder) = threads.gil_holder {
        out = out.int("gil_holder", u64::from(holder));
    }
    out = out
        .raw("threads", &list(threads.shown.iter().map(threads::Thread::json)))
        .int("threads_left_out", threads.left_out as u64)
        .raw("tasks", &list(tasks.shown.iter().map(tasks::Task::json)))
        .int("tasks_left_out", tasks.left_out as u64);
    if let Some(requests) = requests {
        out = out.raw("requests", &list(requests.iter().map(Request::json)));
    }
    out.int("took_us", (sys::clock::now_ns() - begin_ns) / 1000)
}

fn task_of(request: &Request) -> usize {
    request.task as usize
}

impl Request {
    fn json(&self) -> String {
        let out = Object::new()
            .int("id", self.id)
            .text("name", &self.name)
            .int("age_us", self.age_ns / 1000)
            .int("tid", u64::from(self.tid));
        match self.task {
            0 => out.finish(),
            task => out.text("task", &address(task as usize)).finish(),
        }
    }
}
