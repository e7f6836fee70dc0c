//! The asyncio tasks: where each is, what it awaits, the task that holds a lock awaited.
//!
//! How it works: asyncio's own lists of tasks (`PythonStacks::all_tasks`), and those of open
//! requests, which may be greenlets. Each is followed to its innermost await; one that awaits
//! several tasks has an entry for each. What it promises: two readings of a task agree, else it is
//! `torn`. What is missing on purpose: greenlets that work for no open request (nothing lists
//! them).

use format::json::Object;
use format::wait::AwaitKind;
use samplers::python_stacks::{PythonStacks, Suspended};

use crate::place::{address, list, Place};

/// Tasks that are shown, and awaits of one task.
const MOST_TASKS: usize = 1000;
const MOST_AWAITS: usize = 16;
/// Tasks that are listed.
const MOST_LISTED: usize = 1 << 16;
/// Readings of a task that moves.
const TRIES: usize = 8;

/// All tasks.
#[derive(Default)]
pub struct Tasks {
    pub shown: Vec<Task>,
    pub left_out: usize,
}

/// One task.
pub struct Task {
    task: usize,
    name: Option<String>,
    awaits: Result<Vec<Await>, &'static str>,
}

struct Await {
    /// The innermost task: another one where the task awaits tasks.
    task: usize,
    kind: AwaitKind,
    /// The lock, queue, ...; 0: none.
    object: usize,
    /// The task that holds it, 0 not known.
    holder: usize,
    timeout_ns: u64,
    stack: Vec<Place>,
}

impl Tasks {
    /// Reads them; `more` are tasks or greenlets that may be on no list of asyncio's.
    pub fn read(stacks: &mut PythonStacks, more: &[usize]) -> Tasks {
        let all = stacks.all_tasks();
        let list = |stacks: &mut PythonStacks| {
            let mut listed = Vec::new();
            if let Some(all) = all {
                stacks.tasks_in(all.set, MOST_LISTED, &mut listed);
            }
            listed
        };
        let mut listed = list(stacks);
        listed.extend(more.iter().copied().filter(|task| *task != 0));
        listed.sort_unstable();
        listed.dedup();
        let mut shown = Vec::new();
        for task in listed.iter().take(MOST_TASKS) {
            let awaits = awaits_of(stacks, *task, &listed);
            // One that ended meanwhile is none.
            if awaits.is_ok() || list(stacks).contains(task) {
                shown.push(Task { task: *task, name: stacks.task_name(*task), awaits });
            }
        }
        Tasks { shown, left_out: listed.len().saturating_sub(MOST_TASKS) }
    }
}

fn awaits_of(
    stacks: &mut PythonStacks,
    task: usize,
    all: &[usize],
) -> Result<Vec<Await>, &'static str> {
    let mut found = Vec::new();
    let mut read = stacks.suspended(task, MOST_AWAITS, &mut found);
    for _ in 1..TRIES {
        if read.is_ok() {
            break;
        }
        read = stacks.suspended(task, MOST_AWAITS, &mut found);
    }
    read.map_err(|torn| torn.0)?;
    let mut awaits = Vec::with_capacity(found.len());
    for one in found {
        let locks = matches!(one.kind, AwaitKind::Lock | AwaitKind::Semaphore) && one.lock != 0;
        let holder = if locks { stacks.task_holding(one.lock, all) } else { None };
        awaits.push(Await::of(stacks, one, holder.unwrap_or(0)));
    }
    Ok(awaits)
}

impl Await {
    fn of(stacks: &PythonStacks, one: Suspended, holder: usize) -> Await {
        let stack = one.frames.iter().map(|frame| Place::of(stacks, *frame)).collect();
        let Suspended { task, kind, lock, timeout_ns, .. } = one;
        Await { task, kind, object: lock, holder, timeout_ns, stack }
    }

    fn json(&self, of: usize) -> String {
        let mut out = Object::new().text("awaits", self.kind.text());
        if self.task != of {
            out = out.text("in_task", &address(self.task));
        }
        if self.object != 0 {
            out = out.text("object", &address(self.object));
        }
        if self.holder != 0 {
            out = out.text("holder", &address(self.holder));
        }
        if self.timeout_ns != 0 {
            out = out.int("timeout_us", self.timeout_ns / 1000);
        }
        out.raw("stack", &list(self.stack.iter().map(Place::json))).finish()
    }
}

impl Task {
    /// One object of `tasks`.
    pub fn json(&self) -> String {
        let out = Object::new().text("task", &address(self.task));
        let out = match &self.name {
            None => out,
            Some(name) => out.text("name", name),
        };
        match &self.awaits {
            Ok(awaits) => {
                out.raw("awaits", &list(awaits.iter().map(|one| one.json(self.task)))).finish()
            }
            Err(why) => out.text("torn", why).finish(),
        }
    }
}
