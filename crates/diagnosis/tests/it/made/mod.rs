//! Captures made by hand. A row is nothing but what its test is about; everything else is zero.
//!
//! `capture` has fifty requests of 2 ms, a second apart. A test adds one that begins at `BEGIN`,
//! and says by `off` and `seen` what its thread did; times there are milliseconds behind `BEGIN`.
#![allow(dead_code)]

use capture::read::{Capture, Code, OffCpu, RequestRow, SpanRow, StackNode, ThreadRow};
use format::record::{flag, Await, Sample};
use format::usage::Usage;
use format::wait::{AwaitKind, HolderSource, WaitKind};

pub const MS: u64 = 1_000_000;
/// When the slow request begins, ns.
pub const BEGIN: u64 = 60_000 * MS;

/// With switch records, for 100 s; its requests are of thread `tid` and of the first of `names`.
pub fn capture(tid: u32, names: &[&str]) -> Capture {
    let mut made = Capture::default();
    made.meta.sources = vec![("switches".to_owned(), "on".to_owned())];
    made.meta.stdlib = vec!["/usr/lib/python3.11".to_owned()];
    made.meta.to_ns = 100_000 * MS;
    made.names = names.iter().map(|name| (*name).to_owned()).collect();
    made.requests = (1..51).map(|i| request(i, tid, i * 1000 * MS, 2)).collect();
    made
}

/// A request of the name 0 that its thread took up at once.
pub fn request(id: u64, tid: u32, begin_ns: u64, ms: u64) -> RequestRow {
    RequestRow {
        id,
        name: 0,
        tid,
        begin_ns,
        started_ns: begin_ns,
        end_ns: Some(begin_ns + ms * MS),
        ended_tid: tid,
        error: false,
        on_loop: false,
        times: 1,
        attributes: Vec::new(),
    }
}

/// A span of a request.
pub fn span(name: u32, tid: u32, request: u64, begin_ns: u64, ms: u64) -> SpanRow {
    let (error, open, call, attributes) = (false, false, false, Vec::new());
    let end_ns = begin_ns + ms * MS;
    SpanRow { name, tid, begin_ns, end_ns, request, error, open, call, attributes }
}

/// A thread that lives on, with its name.
pub fn thread(tid: u32, name: &str) -> ThreadRow {
    ThreadRow {
        tid,
        serial: 0,
        name: name.to_owned(),
        named: true,
        nested: false,
        start_ns: 0,
        end_ns: None,
        records: 1,
        dropped: 0,
    }
}

/// Python code; both are ids of names.
pub fn code(function: u32, file: u32) -> Code {
    Code { function, file, first_line: 1, releases: false, native: false, inner: false }
}

pub fn node(parent: u32, code: u32, line: u32) -> StackNode {
    StackNode { parent, code, line }
}

/// The id of a new stack: (function, file, line) from the outermost to the innermost.
pub fn stack(made: &mut Capture, frames: &[(&str, &str, u32)]) -> u32 {
    stack_on(made, 0, frames)
}

/// The same, called by the stack `parent`.
pub fn stack_on(made: &mut Capture, parent: u32, frames: &[(&str, &str, u32)]) -> u32 {
    let mut parent = parent;
    for (function, file, line) in frames {
        made.names.extend([(*function).to_owned(), (*file).to_owned()]);
        let at = made.names.len() as u32;
        made.codes.push(code(at - 2, at - 1));
        made.stacks.push(node(parent, made.codes.len() as u32, *line));
        parent = made.stacks.len() as u32;
    }
    parent
}

/// What a sampler saw of a thread.
pub fn sample(tid: u32, t_ns: u64, wait: WaitKind, stack: u32) -> Sample {
    Sample {
        t_ns,
        tid,
        stack,
        flags: 0,
        gil_holder: 0,
        wall_ns: 0,
        cpu_ns: 0,
        run_delay_ns: 0,
        wait,
        holder_source: HolderSource::None,
        call: 0,
        lock_holder: 0,
        slices: 0,
        target: 0,
        timeout_ns: 0,
        task: 0,
        lock: 0,
    }
}

/// What a sampler saw of a task, `at_ms` behind `BEGIN`.
pub fn awaited(at_ms: u64, request: u64, task: u64, kind: AwaitKind, stack: u32) -> Await {
    Await {
        t_ns: BEGIN + at_ms * MS,
        request,
        task,
        stack,
        kind,
        how: HolderSource::None,
        holder: 0,
        target: 0,
        timeout_ns: 0,
    }
}

/// Off the CPU from here to there, ms behind `BEGIN`.
pub fn off_row(from_ms: u64, to_ms: u64, preempted: bool) -> OffCpu {
    OffCpu { out_ns: BEGIN + from_ms * MS, in_ns: BEGIN + to_ms * MS, preempted, cpu: None }
}

/// Thread `tid` is off the CPU in these intervals and no others.
pub fn off(made: &mut Capture, tid: u32, stretches: &[(u64, u64)]) {
    made.off_cpu.remove(&tid);
    also_off(made, tid, false, stretches);
}

/// It is in these, too; `preempted`: not because it waited.
pub fn also_off(made: &mut Capture, tid: u32, preempted: bool, stretches: &[(u64, u64)]) {
    let rows = stretches.iter().map(|(from, to)| off_row(*from, *to, preempted));
    made.off_cpu.entry(tid).or_default().extend(rows);
}

/// Thread `tid` is seen so: (when, in which wait, with which stack), and at no other time.
pub fn seen(made: &mut Capture, tid: u32, samples: &[(u64, WaitKind, u32)]) {
    let look =
        |(at, wait, stack): &(u64, WaitKind, u32)| sample(tid, BEGIN + at * MS, *wait, *stack);
    made.samples.insert(tid, samples.iter().map(look).collect());
}

/// It is seen so at these times, too.
pub fn also_seen(
    made: &mut Capture,
    tid: u32,
    at_ms: impl Iterator<Item = u64>,
    wait: WaitKind,
    stack: u32,
) {
    let samples = at_ms.map(|ms| sample(tid, BEGIN + ms * MS, wait, stack));
    made.samples.entry(tid).or_default().extend(samples);
}

/// Between two samples of thread `tid` it used so much.
pub fn used(made: &mut Capture, tid: u32, each: Usage) {
    for (i, sample) in (1..).zip(made.samples.get_mut(&tid).into_iter().flatten()) {
        let so_far = Usage {
            faults: each.faults * i,
            storage_kib: each.storage_kib * i,
            user_us: each.user_us * i,
            system_us: each.system_us * i,
        };
        (sample.target, sample.timeout_ns) = so_far.pack();
        sample.flags |= flag::USAGE;
    }
}
