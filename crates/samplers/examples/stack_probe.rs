//! The Python stack reader as a shared library with a C interface, for the tests in tests/python to
//! load with ctypes (which releases the GIL for every call).
//!
//! How it works: one reader behind a mutex; answers are written as text, one frame a line. A
//! *flood* (`changing` in names) is a native thread that samples every thread as fast as it can
//! until it is stopped. What it promises: nothing beyond the tests. What is missing on purpose:
//! everything else.

#[path = "probe/moving.rs"]
mod moving;

use samplers::python_stacks::{
    find_task_table, CodeId, Frame, HowKnown, PyThread, PythonStacks, RunningTasks, RuntimeInfo,
    TypeAddresses,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use sys::mem::Reader;

static READER: Mutex<Option<PythonStacks>> = Mutex::new(None);
static CHANGING: Mutex<Option<JoinHandle<[u64; 4]>>> = Mutex::new(None);
/// Written by `probe_changing_stop`, read by the flood; nothing else depends on it, so Relaxed.
static STOP: AtomicBool = AtomicBool::new(false);

fn reader() -> MutexGuard<'static, Option<PythonStacks>> {
    READER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes `text`, cut to fit, and returns its full length.
fn answer(text: &str, out: *mut c_char, capacity: usize) -> c_int {
    let length = text.len().min(capacity);
    // SAFETY: the test hands in a ctypes buffer of `capacity` bytes and keeps it for the call;
    // `length` is no more than that, and the text is ours.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, length) };
    text.len() as c_int
}

/// Attaches; writes "" or the reason why not.
///
/// # Safety
/// `addresses` points to five words: `_PyRuntime` and the four types.
#[no_mangle]
pub unsafe extern "C" fn probe_attach(
    version_hex: u32,
    addresses: *const usize,
    out: *mut c_char,
    capacity: usize,
) -> c_int {
    // SAFETY: the caller's promise, kept by `attach` in tests/python/probe.py.
    let words = unsafe { std::slice::from_raw_parts(addresses, 5) };
    let [runtime, code, lock, rlock, builtin_method] = *words else {
        return answer("five addresses wanted", out, capacity);
    };
    let types = TypeAddresses { code, lock, rlock, builtin_method };
    let info = RuntimeInfo { version_hex, runtime, types };
    let attached = Reader::new()
        .map_err(|e| e.to_string())
        .and_then(|mem| PythonStacks::attach(info, mem).map_err(|e| e.to_string()));
    match attached {
        Ok(stacks) => {
            *reader() = Some(stacks);
            0
        }
        Err(reason) => answer(&reason, out, capacity),
    }
}

fn find(stacks: &mut PythonStacks, tid: u32) -> Option<(PyThread, Vec<PyThread>)> {
    let mut threads = Vec::new();
    stacks.threads(&mut threads).ok()?;
    let thread = threads.iter().find(|thread| thread.tid == tid)?;
    Some((*thread, threads))
}

fn dump(stacks: &mut PythonStacks, tid: u32, max_frames: usize) -> String {
    stacks.begin_pass();
    let Some((thread, _)) = find(stacks, tid) else {
        return format!("no thread {tid}");
    };
    let mut frames = Vec::new();
    let outcome = match stacks.stack(&thread, max_frames, &mut frames) {
        Ok(outcome) => outcome,
        Err(torn) => return torn.to_string(),
    };
    let mut text = format!("truncated={}\n", outcome.truncated);
    for frame in &frames {
        if let Some(code) = stacks.code(frame.code) {
            text += &format!("{}\t{}\t{}\n", code.qualname, code.file, frame.line);
        }
    }
    text
}

/// Writes the stack of a thread: "truncated=...", then name, file, line by tabs, a frame a line.
#[no_mangle]
pub extern "C" fn probe_stack(
    tid: u32,
    max_frames: usize,
    out: *mut c_char,
    capacity: usize,
) -> c_int {
    match reader().as_mut() {
        Some(stacks) => answer(&dump(stacks, tid, max_frames), out, capacity),
        None => answer("not attached", out, capacity),
    }
}

/// Writes the native ids of all threads, a line each.
#[no_mangle]
pub extern "C" fn probe_threads(out: *mut c_char, capacity: usize) -> c_int {
    let mut threads = Vec::new();
    if let Some(stacks) = reader().as_mut() {
        if let Err(torn) = stacks.threads(&mut threads) {
            return answer(&torn.to_string(), out, capacity);
        }
    }
    let lines = threads.iter().map(|t| format!("{}\t{}\n", t.tid, t.ident));
    answer(&lines.collect::<String>(), out, capacity)
}

/// Writes the reader's counters.
#[no_mangle]
pub extern "C" fn probe_counters(out: *mut c_char, capacity: usize) -> c_int {
    let counters = reader().as_ref().map(PythonStacks::counters).unwrap_or_default();
    answer(&format!("{counters:?}"), out, capacity)
}

/// The native id of the GIL's holder, or 0.
#[no_mangle]
pub extern "C" fn probe_gil_holder() -> u32 {
    reader().as_mut().and_then(PythonStacks::gil_holder).unwrap_or(0)
}

/// The same, after a wait in which others can take the GIL that the caller has just released.
#[no_mangle]
pub extern "C" fn probe_gil_holder_after(wait_us: u64) -> u32 {
    std::thread::sleep(std::time::Duration::from_micros(wait_us));
    probe_gil_holder()
}

/// The futex a thread waits on, from /proc; 0 when it is in no futex call.
fn futex_of(tid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall"));
    let text = text.unwrap_or_default();
    let mut words = text.split(' ');
    let call: i64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(-1);
    if call != libc::SYS_futex {
        return 0;
    }
    let address = words.next().and_then(|word| word.strip_prefix("0x"));
    address.and_then(|word| u64::from_str_radix(word, 16).ok()).unwrap_or(0)
}

/// 1 when the thread waits for the GIL, 0 when for another futex, -1 when for none.
#[no_mangle]
pub extern "C" fn probe_waits_for_gil(tid: u32) -> c_int {
    match (futex_of(tid), reader().as_ref()) {
        (0, _) | (_, None) => -1,
        (futex, Some(stacks)) => c_int::from(stacks.is_gil_futex(futex)),
    }
}

/// Writes "tid how lock" of the holder of what a thread waits for, "none" or "not waiting".
#[no_mangle]
pub extern "C" fn probe_lock_holder(tid: u32, out: *mut c_char, capacity: usize) -> c_int {
    let futex = futex_of(tid);
    let mut guard = reader();
    let Some(stacks) = guard.as_mut().filter(|_| futex != 0) else {
        return answer("not waiting", out, capacity);
    };
    stacks.begin_pass();
    let Some((waiter, threads)) = find(stacks, tid) else {
        return answer("no thread", out, capacity);
    };
    let waits = |tid| futex_of(tid) == futex;
    let found = stacks.waited_for(&waiter, futex, &threads, &waits);
    match found.and_then(|found| Some((found.object, found.holder?))) {
        Some((object, holder)) => {
            let how = match holder.how {
                HowKnown::OwnerField => "owner",
                HowKnown::WithBlock => "with",
                HowKnown::Joined => "joined",
            };
            answer(&format!("{} {how} {object}", holder.tid), out, capacity)
        }
        None => answer("none", out, capacity),
    }
}

/// The address of the object that a thread in a futex wait waits for, 0 not known.
#[no_mangle]
pub extern "C" fn probe_waited_for(tid: u32) -> u64 {
    let futex = futex_of(tid);
    let mut guard = reader();
    let Some(stacks) = guard.as_mut().filter(|_| futex != 0) else { return 0 };
    stacks.begin_pass();
    let Some((waiter, threads)) = find(stacks, tid) else { return 0 };
    let found = stacks.waited_for(&waiter, futex, &threads, &|_| false);
    found.map_or(0, |found| found.object as u64)
}

/// Every (callee, caller) of the flood: a mix of two stacks would show calls that do not exist.
static EDGES: Mutex<BTreeSet<[u32; 4]>> = Mutex::new(BTreeSet::new());
const MAX_EDGES: usize = 1 << 16;

fn note_edges(edges: &mut BTreeSet<[u32; 4]>, frames: &[Frame]) {
    for pair in frames.windows(2) {
        if edges.len() < MAX_EDGES {
            edges.insert([pair[0].code.0, pair[0].line, pair[1].code.0, pair[1].line]);
        }
    }
}

/// Writes the calls of the flood: callee, its first line, its line, caller, first line, line.
#[no_mangle]
pub extern "C" fn probe_edges(out: *mut c_char, capacity: usize) -> c_int {
    let guard = reader();
    let Some(stacks) = guard.as_ref() else {
        return answer("not attached", out, capacity);
    };
    let place = |id, line| match stacks.code(CodeId(id)) {
        Some(code) => format!("{}\t{}\t{}\t{line}", code.qualname, code.file, code.first_line),
        None => "?".into(),
    };
    let edges = EDGES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = String::new();
    for [callee, line, caller, caller_line] in edges.iter() {
        text += &format!("{}\t{}\n", place(*callee, *line), place(*caller, *caller_line));
    }
    answer(&text, out, capacity)
}

/// How often each reason for a torn stack was met.
static REASONS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

fn reasons() -> MutexGuard<'static, BTreeMap<&'static str, u64>> {
    REASONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pass(
    stacks: &mut PythonStacks,
    threads: &mut Vec<PyThread>,
    frames: &mut Vec<Frame>,
    mut each: impl FnMut(&[Frame]),
) -> u64 {
    stacks.begin_pass();
    let mut read = 0;
    if stacks.threads(threads).is_ok() {
        for thread in threads.iter() {
            match stacks.stack(thread, 1024, frames) {
                Ok(_) => {
                    read += frames.len() as u64;
                    each(frames);
                }
                Err(torn) => *reasons().entry(torn.0).or_default() += 1,
            }
        }
    }
    read
}

fn changing() -> [u64; 4] {
    let (mut threads, mut frames) = (Vec::new(), Vec::new());
    let mut sums = [0u64; 4];
    let mut edges = EDGES.lock().unwrap_or_else(PoisonError::into_inner);
    while !STOP.load(Ordering::Relaxed) {
        let mut guard = reader();
        let Some(stacks) = guard.as_mut() else { break };
        sums[0] += 1;
        sums[1] += pass(stacks, &mut threads, &mut frames, |stack| note_edges(&mut edges, stack));
        stacks.gil_holder();
        for waiter in threads.iter().take(4) {
            let futex = futex_of(waiter.tid);
            let waits = |tid| tid != waiter.tid && tid % 3 == 0;
            sums[2] += u64::from(stacks.waited_for(waiter, futex, &threads, &waits).is_some());
        }
    }
    sums
}

/// Finds the table in which asyncio publishes its tasks; its address, or 0.
#[no_mangle]
pub extern "C" fn probe_task_table() -> usize {
    find_task_table().unwrap_or(0)
}

/// Follows every task of a set of weak references (asyncio's own), until the flood is stopped;
/// returns numbers of chains, frames, torn reads, holders.
fn awaits_changing(set: usize) -> [u64; 4] {
    let (mut tasks, mut found) = (Vec::new(), Vec::new());
    let mut sums = [0u64; 4];
    while !STOP.load(Ordering::Relaxed) {
        let mut guard = reader();
        let Some(stacks) = guard.as_mut() else { break };
        stacks.begin_pass();
        // Also those of the pass before: most have ended by now.
        for task in &tasks {
            if stacks.suspended(*task, 12, &mut found).is_err() {
                sums[2] += 1;
                continue;
            }
            sums[0] += found.len() as u64;
            sums[1] += found.iter().map(|one| one.frames.len() as u64).sum::<u64>();
            for one in &found {
                stacks.has_moved(one.mark);
                let holder = stacks.task_holding(one.lock, &tasks[..tasks.len().min(16)]);
                sums[3] += u64::from(one.lock != 0 && holder.is_some());
            }
        }
        tasks.truncate(64);
        stacks.tasks_in(set, 512, &mut tasks);
    }
    sums
}

/// The name of the task that runs on the thread whose stack was just read, "" if it was given none,
/// and its coroutine's name; None: not known.
fn running(stacks: &mut PythonStacks, tasks: RunningTasks) -> Option<(String, String)> {
    let task = stacks.running_task(tasks)?;
    let (name, code) = (task.name.unwrap_or_default().to_owned(), task.code);
    Some((name, stacks.code(code).map_or_else(|| "?".into(), |code| code.qualname.clone())))
}

/// Writes the name of the task that runs on a thread, a tab, its coroutine's; or "none". `by_loop`:
/// the dict of running tasks; `kind`: the type of tasks.
#[no_mangle]
pub extern "C" fn probe_running(
    tid: u32,
    by_loop: usize,
    kind: usize,
    out: *mut c_char,
    capacity: usize,
) -> c_int {
    let (mut guard, mut frames) = (reader(), Vec::new());
    let Some(stacks) = guard.as_mut() else {
        return answer("not attached", out, capacity);
    };
    stacks.begin_pass();
    let read = find(stacks, tid).is_some_and(|(t, _)| stacks.stack(&t, 1024, &mut frames).is_ok());
    let tasks = RunningTasks { by_loop, kind };
    match running(stacks, tasks).filter(|_| read) {
        Some((name, code)) => answer(&format!("{name}\t{code}"), out, capacity),
        None => answer("none", out, capacity),
    }
}

/// The median time of a sample of a thread's stack, and of finding its task after that, in
/// nanoseconds: in the low and the high half.
#[no_mangle]
pub extern "C" fn probe_time_running(tid: u32, by_loop: usize, kind: usize, times: usize) -> u64 {
    let (mut guard, mut frames) = (reader(), Vec::new());
    let Some(stacks) = guard.as_mut() else { return 0 };
    let Some((thread, _)) = find(stacks, tid) else { return 0 };
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..times.max(1) {
        stacks.begin_pass();
        let start = Instant::now();
        let _ = stacks.stack(&thread, 1024, &mut frames);
        took[0].push(start.elapsed().as_nanos() as u64);
        let start = Instant::now();
        let _ = stacks.running_task(RunningTasks { by_loop, kind });
        took[1].push(start.elapsed().as_nanos() as u64);
    }
    took.iter_mut().for_each(|took| took.sort_unstable());
    let [stack, task] = took.map(|took| took[took.len() / 2]);
    task << 32 | stack
}

/// Wrong names found in `running_changing`.
static WRONG: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Finds the running task of every thread, until the flood is stopped. Tasks named `FUNCTION
/// NUMBER` run that function, and write their number, one more than the last, to `number` when they
/// begin. Returns numbers of stacks read, tasks found, tasks of such a name, stacks torn.
fn running_changing(tasks: RunningTasks, number: &AtomicU64) -> [u64; 4] {
    let (mut threads, mut frames, mut sums) = (Vec::new(), Vec::new(), [0u64; 4]);
    let mut wrong = WRONG.lock().unwrap_or_else(PoisonError::into_inner);
    while !STOP.load(Ordering::Relaxed) {
        let mut guard = reader();
        let Some(stacks) = guard.as_mut() else { break };
        stacks.begin_pass();
        let _ = stacks.threads(&mut threads);
        for thread in &threads {
            let before = number.load(Ordering::SeqCst);
            let torn = stacks.stack(thread, 1024, &mut frames).is_err();
            sums[0] += 1;
            sums[3] += u64::from(torn);
            let Some((name, code)) = running(stacks, tasks) else { continue };
            let after = number.load(Ordering::SeqCst);
            sums[1] += 1;
            let Some((function, n)) = name.rsplit_once(' ') else { continue };
            sums[2] += 1;
            let n = n.parse().unwrap_or(0);
            // It runs before it writes its number; 0: it has none.
            let known = n == 0 || (before..=after + 1).contains(&n);
            if function != code || !known || torn {
                wrong.insert(format!("{name} in {code}, {before} to {after}, torn: {torn}"));
            }
        }
    }
    sums
}

/// Starts the flood of running tasks, as `awaits_changing`.
///
/// # Safety
/// `number` stays valid until the flood is stopped.
#[no_mangle]
pub unsafe extern "C" fn probe_running_changing_start(
    by_loop: usize,
    kind: usize,
    number: *const u64,
) {
    STOP.store(false, Ordering::Relaxed);
    // SAFETY: the caller's promise, kept by tests/python/running_changing.py; eight bytes, aligned.
    let number: &'static AtomicU64 = unsafe { &*number.cast() };
    let run = move || running_changing(RunningTasks { by_loop, kind }, number);
    let started = std::thread::Builder::new().name("changing".into()).spawn(run);
    *CHANGING.lock().unwrap_or_else(PoisonError::into_inner) = started.ok();
}

/// Writes what was wrong in the flood of running tasks, a line each.
#[no_mangle]
pub extern "C" fn probe_wrong(out: *mut c_char, capacity: usize) -> c_int {
    let wrong = WRONG.lock().unwrap_or_else(PoisonError::into_inner);
    answer(&wrong.iter().map(|line| format!("{line}\n")).collect::<String>(), out, capacity)
}

/// Starts the flood over the tasks of a set.
#[no_mangle]
pub extern "C" fn probe_awaits_changing_start(set: usize) {
    STOP.store(false, Ordering::Relaxed);
    let run = move || awaits_changing(set);
    let started = std::thread::Builder::new().name("changing".into()).spawn(run);
    *CHANGING.lock().unwrap_or_else(PoisonError::into_inner) = started.ok();
}

/// Writes the await of a task: for each chain "kind timeout_ms fd lock task", then its frames by
/// name, file and line, a frame a line, then an empty line; or why it is not known.
#[no_mangle]
pub extern "C" fn probe_suspended(task: usize, out: *mut c_char, capacity: usize) -> c_int {
    let mut guard = reader();
    let Some(stacks) = guard.as_mut() else {
        return answer("not attached", out, capacity);
    };
    stacks.begin_pass();
    let mut found = Vec::new();
    if let Err(torn) = stacks.suspended(task, 12, &mut found) {
        return answer(&torn.to_string(), out, capacity);
    }
    let mut text = String::new();
    for one in &found {
        let fd = one.fd.unwrap_or(-1);
        let (kind, limit) = (one.kind.text().replace(' ', "-"), one.timeout_ns / 1_000_000);
        text += &format!("{kind} {limit} {fd} {} {}\n", one.lock, one.task);
        for frame in &one.frames {
            if let Some(code) = stacks.code(frame.code) {
                text += &format!("{}\t{}\t{}\n", code.qualname, code.file, frame.line);
            }
        }
        text += "\n";
    }
    answer(&text, out, capacity)
}

/// The median time of following a task, in nanoseconds.
#[no_mangle]
pub extern "C" fn probe_time_suspended(task: usize, times: usize) -> u64 {
    let mut guard = reader();
    let Some(stacks) = guard.as_mut() else {
        return 0;
    };
    let mut found = Vec::new();
    let mut took: Vec<u64> = (0..times.max(1))
        .map(|_| {
            let start = Instant::now();
            stacks.begin_pass();
            let _ = stacks.suspended(task, 12, &mut found);
            start.elapsed().as_nanos() as u64
        })
        .collect();
    took.sort_unstable();
    took[took.len() / 2]
}

/// Writes the addresses of the tasks in a set of weak references, a line each.
#[no_mangle]
pub extern "C" fn probe_tasks(set: usize, out: *mut c_char, capacity: usize) -> c_int {
    let mut tasks = Vec::new();
    if let Some(stacks) = reader().as_mut() {
        stacks.begin_pass();
        stacks.tasks_in(set, 512, &mut tasks);
    }
    answer(&tasks.iter().map(|task| format!("{task}\n")).collect::<String>(), out, capacity)
}

/// The task of a set of weak references that holds a lock, or 0.
#[no_mangle]
pub extern "C" fn probe_task_holding(lock: usize, set: usize) -> usize {
    let mut tasks = Vec::new();
    let mut guard = reader();
    let Some(stacks) = guard.as_mut() else { return 0 };
    stacks.begin_pass();
    stacks.tasks_in(set, 512, &mut tasks);
    stacks.task_holding(lock, &tasks).unwrap_or(0)
}

/// The task of a set of weak references that has an item of the pool that a suspended task waits
/// for while it enters a block, or 0.
#[no_mangle]
pub extern "C" fn probe_task_with_item(task: usize, set: usize) -> usize {
    let (mut tasks, mut found) = (Vec::new(), Vec::new());
    let mut guard = reader();
    let Some(stacks) = guard.as_mut() else { return 0 };
    stacks.begin_pass();
    stacks.tasks_in(set, 512, &mut tasks);
    if stacks.suspended(task, 1, &mut found).is_err() {
        return 0;
    }
    let item = found.pop().filter(|one| one.entered != 0);
    item.and_then(|one| stacks.task_with_item(one.entered, one.lock, &tasks)).unwrap_or(0)
}

/// Starts the flood.
#[no_mangle]
pub extern "C" fn probe_changing_start() {
    STOP.store(false, Ordering::Relaxed);
    let started = std::thread::Builder::new().name("changing".into()).spawn(changing);
    *CHANGING.lock().unwrap_or_else(PoisonError::into_inner) = started.ok();
}

/// Stops the flood; writes its totals and the reader's counters.
#[no_mangle]
pub extern "C" fn probe_changing_stop(out: *mut c_char, capacity: usize) -> c_int {
    STOP.store(true, Ordering::Relaxed);
    let changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(sums) = changing.and_then(|changing| changing.join().ok()) else {
        return answer("the changing panicked", out, capacity);
    };
    let counters = reader().as_ref().map(PythonStacks::counters).unwrap_or_default();
    let text = format!(
        "passes={} frames={} holders={} {counters:?} {:?}",
        sums[0],
        sums[1],
        sums[2],
        reasons()
    );
    answer(&text, out, capacity)
}

/// The median time of one pass over all threads, in nanoseconds; 0 when not attached.
#[no_mangle]
pub extern "C" fn probe_time_pass(passes: usize) -> u64 {
    let mut guard = reader();
    let Some(stacks) = guard.as_mut() else {
        return 0;
    };
    let (mut threads, mut frames) = (Vec::new(), Vec::new());
    let mut times: Vec<u64> = (0..passes.max(1))
        .map(|_| {
            let start = Instant::now();
            pass(stacks, &mut threads, &mut frames, |_| ());
            start.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
