//! The threads: state, stack, what each waits for, the locks it holds.
//!
//! How it works: first each thread's stack, task and locks, read while the kernel shows that the
//! thread is off the CPU (`sys::off_cpu`) and the call it is blocked in; then for those in a futex
//! wait what they wait for and who has it. What it promises: see the crate's head. A thread that
//! ran while it was read is read again up to `TRIES` times; its stack is `torn` if it ran each
//! time. What is missing on purpose: C locks (no object of Python's stands for them).

use format::json::Object;
use samplers::python_stacks::{
    AllTasks, Frame, HowKnown, LockHolder, PyThread, PythonStacks, Torn,
};
use sys::calls;
use sys::off_cpu::Proof;
use sys::task::TaskCall;

use crate::place::{address, list, Place};
use crate::process::{Numbers, Process};

/// Threads that are shown, and frames of a stack.
const MOST_THREADS: usize = 2000;
const MOST_FRAMES: usize = 512;
/// Readings of a thread that runs, and the pause between two.
const TRIES: u32 = 8;
const PAUSE_NS: u64 = 1_000_000;

/// All threads.
pub struct Threads {
    pub shown: Vec<Thread>,
    pub left_out: usize,
    /// The thread that holds the GIL.
    pub gil_holder: Option<u32>,
}

/// One thread.
pub struct Thread {
    numbers: Numbers,
    name: String,
    state: char,
    call: Option<TaskCall>,
    python: Option<PyThread>,
    stack: Stack,
    /// The asyncio task that runs on it, if the program named it.
    task: Option<String>,
    wait: String,
    waits_for: Option<WaitsFor>,
    holds: Vec<Holds>,
    has_gil: bool,
}

enum Stack {
    /// It has none: it is no thread of Python's, or runs no Python code.
    None,
    /// `truncated`: outer frames are missing. Not settled: the kernel does not show whether the
    /// thread ran meanwhile, but two readings agreed.
    Whole {
        frames: Vec<Place>,
        truncated: bool,
        settled: bool,
    },
    Torn(String),
}

/// What is read of a thread at once.
struct Reading {
    frames: Vec<Place>,
    truncated: bool,
    /// Two readings of the stack agreed.
    agreed: bool,
    task: Option<String>,
    holds: Vec<Holds>,
}

enum WaitsFor {
    Gil,
    /// A lock or another object; the thread that has it.
    Object {
        object: usize,
        holder: Option<LockHolder>,
    },
}

struct Holds {
    lock: usize,
    recursive: bool,
    /// Where it was entered: not known of a lock that is found by its waiter.
    at: Option<Place>,
}

impl Threads {
    /// Reads them.
    pub fn read(process: &Process, mut stacks: Option<&mut PythonStacks>) -> Threads {
        let mut python = Vec::new();
        let mut listed = Ok(());
        if let Some(stacks) = &mut stacks {
            listed = stacks.threads(&mut python);
        }
        let numbers = process.threads();
        let all = stacks.as_mut().and_then(|stacks| stacks.all_tasks());
        let mut shown: Vec<Thread> = Vec::new();
        for numbers in numbers.iter().take(MOST_THREADS) {
            let Some(mut thread) = Thread::read(process, *numbers) else { continue };
            thread.python = python.iter().find(|py| py.tid == numbers.own).copied();
            if let (Some(stacks), Some(_)) = (&mut stacks, thread.python) {
                thread.read_stack(process, stacks, all);
            }
            if let Err(torn) = listed {
                thread.stack = Stack::Torn(torn.to_string());
            }
            shown.push(thread);
        }
        let mut threads = Threads {
            shown,
            left_out: numbers.len().saturating_sub(MOST_THREADS),
            gil_holder: None,
        };
        if let Some(stacks) = stacks {
            threads.find_waits(process, stacks, &python);
            threads.add_held_by_waiter();
            threads.find_gil_holder(process, stacks);
        }
        for thread in &mut threads.shown {
            thread.describe(process);
        }
        threads
    }

    /// What those in a futex wait wait for, unless they went on meanwhile.
    fn find_waits(&mut self, process: &Process, stacks: &mut PythonStacks, python: &[PyThread]) {
        let waiting: Vec<(u32, u64)> = self.shown.iter().filter_map(Thread::waits_at).collect();
        for index in 0..self.shown.len() {
            let thread = &self.shown[index];
            let (Some(py), Some((_, futex))) = (thread.python, thread.waits_at()) else { continue };
            let on_same = |tid: u32| waiting.contains(&(tid, futex));
            let found = match stacks.is_gil_futex(futex) {
                true => Some(WaitsFor::Gil),
                false => stacks
                    .waited_for(&py, futex, python, &on_same)
                    .map(|found| WaitsFor::Object { object: found.object, holder: found.holder }),
            };
            let now = process.state(thread.numbers.here).and_then(|(_, call)| call);
            let thread = &mut self.shown[index];
            match now == thread.call {
                true => thread.waits_for = found,
                false => thread.moved_on(),
            }
        }
    }

    fn add_held_by_waiter(&mut self) {
        // A lock inside of an object, or an RLock taken by hand, is known by its waiter.
        let by_waiter = self.shown.iter().filter_map(|thread| match &thread.waits_for {
            Some(WaitsFor::Object { object, holder: Some(holder) }) => Some((*object, *holder)),
            _ => None,
        });
        for (object, holder) in by_waiter.collect::<Vec<_>>() {
            let of_lock = holder.how != HowKnown::Joined;
            let thread = self.shown.iter_mut().find(|thread| thread.numbers.own == holder.tid);
            let Some(thread) = thread.filter(|_| of_lock) else { continue };
            if !thread.holds.iter().any(|held| held.lock == object) {
                let recursive = holder.how == HowKnown::OwnerField;
                thread.holds.push(Holds { lock: object, recursive, at: None });
            }
        }
    }

    fn find_gil_holder(&mut self, process: &Process, stacks: &mut PythonStacks) {
        let holder = stacks.gil_holder();
        if let Some(thread) =
            self.shown.iter_mut().find(|thread| Some(thread.numbers.own) == holder)
        {
            thread.has_gil = true;
        }
        self.gil_holder = holder.map(|own| process.here(own));
        // A holder that waits is known by its number only.
        for thread in &mut self.shown {
            if let Some(WaitsFor::Object { holder: Some(holder), .. }) = &mut thread.waits_for {
                holder.tid = process.here(holder.tid);
            }
        }
    }
}

impl Thread {
    fn read(process: &Process, numbers: Numbers) -> Option<Thread> {
        let (state, call) = process.state(numbers.here)?;
        Some(Thread {
            name: process.name(numbers)?,
            numbers,
            state,
            call,
            python: None,
            stack: Stack::None,
            task: None,
            wait: String::new(),
            waits_for: None,
            holds: Vec::new(),
            has_gil: false,
        })
    }

    fn read_stack(&mut self, process: &Process, stacks: &mut PythonStacks, all: Option<AllTasks>) {
        let Some(py) = self.python else { return };
        let Ok(mut watched) = process.watch(self.numbers.here) else { return };
        for attempt in 0..TRIES {
            let (read, proof) = watched.during(|| Reading::of(stacks, &py, all));
            match read {
                Ok(read) if proof == Proof::Held => return self.take(read, true),
                Ok(read) if proof == Proof::NotShown && read.agreed => {
                    return self.take(read, false);
                }
                Ok(_) => self.stack = Stack::Torn("it ran at each reading".to_owned()),
                Err(torn) => self.stack = Stack::Torn(torn.0.to_owned()),
            }
            sys::thread::pause(PAUSE_NS * u64::from(attempt));
        }
    }

    fn take(&mut self, read: Reading, settled: bool) {
        let Reading { frames, truncated, task, holds, .. } = read;
        (self.task, self.holds) = (task, holds);
        self.stack = match frames.is_empty() {
            true => Stack::None,
            false => Stack::Whole { frames, truncated, settled },
        };
    }

    /// The call is another one by now: nothing is said of it.
    fn moved_on(&mut self) {
        (self.state, self.call) = ('R', Some(TaskCall::Running));
    }

    /// Its own number and the futex it waits at.
    fn waits_at(&self) -> Option<(u32, u64)> {
        let TaskCall::Syscall { nr: libc::SYS_futex, args, .. } = self.call? else { return None };
        Some((self.numbers.own, args[0]))
    }

    fn describe(&mut self, process: &Process) {
        self.wait = match (self.state, self.call) {
            ('R', _) | (_, Some(TaskCall::Running)) => String::new(),
            ('T' | 't', _) => "stopped".to_owned(),
            (_, Some(TaskCall::Syscall { nr, args, .. })) => described(process, nr, &args),
            ('D', _) => "disk or another wait that no signal ends".to_owned(),
            (_, Some(TaskCall::InKernel { .. })) => "a page fault".to_owned(),
            (_, None) => "a system call".to_owned(),
        };
    }

    /// One object of `threads`.
    pub fn json(&self) -> String {
        let state = if self.wait.is_empty() { "running" } else { "waiting" };
        let mut out = Object::new()
            .int("tid", u64::from(self.numbers.here))
            .text("name", &self.name)
            .text("state", state)
            .flag("python", self.python.is_some())
            .flag("holds_gil", self.has_gil);
        if !self.wait.is_empty() {
            out = out.text("wait", &self.wait);
        }
        out = match &self.waits_for {
            None => out,
            Some(WaitsFor::Gil) => out.raw("waits_for", r#"{"kind":"gil"}"#),
            Some(WaitsFor::Object { object, holder }) => {
                out.raw("waits_for", &waits_for(*object, *holder))
            }
        };
        if let Some(task) = &self.task {
            out = out.text("task", task);
        }
        out = out.raw("holds", &list(self.holds.iter().map(Holds::json)));
        match &self.stack {
            Stack::None => out.raw("stack", "[]").finish(),
            Stack::Torn(why) => out.raw("stack", "[]").text("torn", why).finish(),
            Stack::Whole { frames, truncated, settled } => out
                .raw("stack", &list(frames.iter().map(Place::json)))
                .flag("truncated", *truncated)
                .flag("settled", *settled)
                .finish(),
        }
    }
}

impl Reading {
    fn of(
        stacks: &mut PythonStacks,
        thread: &PyThread,
        all: Option<AllTasks>,
    ) -> Result<Reading, Torn> {
        let mut frames = Vec::new();
        let outcome = stacks.stack(thread, MOST_FRAMES, &mut frames)?;
        let running = all.filter(|_| !frames.is_empty());
        let running = running.and_then(|all| stacks.running_task(all.running));
        let task = running.and_then(|running| running.name.map(str::to_owned));
        let place = |at: Frame| Place::of(stacks, at);
        let frames = frames.into_iter().map(place).collect();
        let held = stacks.locks_held(thread);
        let holds = held.iter().map(|held| Holds {
            lock: held.lock,
            recursive: held.recursive,
            at: Some(Place::of(stacks, held.at)),
        });
        let holds = holds.collect();
        Ok(Reading { frames, truncated: outcome.truncated, agreed: outcome.settled, task, holds })
    }
}

impl Holds {
    fn json(&self) -> String {
        let out = Object::new().text("lock", &address(self.lock)).flag("recursive", self.recursive);
        match &self.at {
            None => out.finish(),
            Some(at) => out.raw("at", &at.json()).finish(),
        }
    }
}

fn waits_for(object: usize, holder: Option<LockHolder>) -> String {
    let joins = holder.is_some_and(|holder| holder.how == HowKnown::Joined);
    let out = Object::new()
        .text("kind", if joins { "thread" } else { "lock" })
        .text("object", &address(object));
    match holder {
        None => out.finish(),
        Some(holder) => out.int("holder", u64::from(holder.tid)).finish(),
    }
}

/// What a thread in this call waits for.
fn described(process: &Process, nr: i64, args: &[u64; 6]) -> String {
    if let Some(name) = descriptor_call(nr) {
        let fd = args[0] as i32;
        let what = process.descriptor(fd).unwrap_or_else(|| format!("descriptor {fd}"));
        return format!("{name} {what}");
    }
    let name = waiting_call(nr).or_else(|| calls::name(nr));
    name.map_or_else(|| format!("system call {nr}"), str::to_owned)
}

/// Calls whose first argument is the descriptor that they wait for.
fn descriptor_call(nr: i64) -> Option<&'static str> {
    Some(match nr {
        libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 => "read",
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 => "write",
        libc::SYS_recvfrom | libc::SYS_recvmsg => "receive from",
        libc::SYS_sendto | libc::SYS_sendmsg => "send to",
        libc::SYS_connect => "connect",
        libc::SYS_accept | libc::SYS_accept4 => "accept",
        libc::SYS_fsync | libc::SYS_fdatasync => "sync",
        libc::SYS_flock => "lock of file",
        _ => return None,
    })
}

/// Calls that wait for no single descriptor.
fn waiting_call(nr: i64) -> Option<&'static str> {
    Some(match nr {
        libc::SYS_futex => "a lock or condition (futex)",
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => "sleep",
        libc::SYS_wait4 | libc::SYS_waitid => "end of a child process",
        _ if calls::polls(nr) => "poll",
        _ => return None,
    })
}
