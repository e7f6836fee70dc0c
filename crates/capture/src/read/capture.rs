//! A capture in memory: its tables, and what they say together.
//!
//! How it works: reading fills the tables (`super`); nothing here reads a file.

use std::collections::{HashMap, HashSet};

use format::record::{Await, Sample};
use format::suspension::Suspension;
use format::wake::Wake;

use super::meta::Meta;
use super::quick::QuickMap;
use super::rows::{
    CallRow, Coverage, EventRow, Excerpt, GcRow, LinkRow, MetricRow, OffCpu, RequestRow, SpanRow,
    StatementRow, TaskRow, ThreadRow, TraceRow, VitalRow,
};
use super::tables::{Code, StackNode};
use crate::source::SourceLines;

/// Which rows a reader needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All rows.
    All,
    /// All rows; requests, spans and events without their attributes, each of which is memory of
    /// its own.
    Bare,
    /// What a diagnosis needs. Spans other than the recorder's own are sums only; there are no
    /// events, and no attributes but those of metrics. Past 131,072 requests one that was not slow
    /// stands for several (`RequestRow::times`). A tenth of the memory and of the time for a
    /// program with many spans.
    Causes,
}

/// The time of a part of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Begin; 0 for the first part.
    pub from_ns: u64,
    /// End; `u64::MAX` for the last one.
    pub to_ns: u64,
    /// How many parts are before it.
    pub number: u64,
}

impl Part {
    /// Whether a row that begins at this time is of this part.
    pub fn owns(&self, begin_ns: u64) -> bool {
        self.from_ns <= begin_ns && begin_ns < self.to_ns
    }
}

/// A capture in memory.
#[derive(Debug, Default)]
pub struct Capture {
    /// Service, process, reason, settings, sources, losses.
    pub meta: Meta,
    /// Interned names by id.
    pub names: Vec<String>,
    /// Code locations; ids count from 1.
    pub codes: Vec<Code>,
    /// Stack nodes; ids count from 1.
    pub stacks: Vec<StackNode>,
    /// Threads that recorded.
    pub threads: Vec<ThreadRow>,
    /// Requests, by begin; open ones have no end. Not all of them for `Wanted::Causes`.
    pub requests: Vec<RequestRow>,
    /// Requests that were running when the copy was about to be made; empty if the recorder did not
    /// list them (a dead process's box, a stream).
    pub open_at_copy: HashSet<u64>,
    /// Spans, by begin.
    pub spans: Vec<SpanRow>,
    /// For `Wanted::Causes`, instead of `spans`: how many spans of a name a request has, and their
    /// time in ns, by request and name. If there are very many, sums of a single span are left out,
    /// or those of requests that are not judged.
    pub span_sums: QuickMap<(u64, u32), (usize, u64)>,
    /// For `Wanted::Causes`, instead of those in `spans`: spans that had not ended, by begin.
    pub open_spans: Vec<SpanRow>,
    /// Calls to other services of 5 ms and more, whatever is wanted. In the order of the file.
    pub calls: Vec<CallRow>,
    /// Statements that begin, change or end a transaction, by begin; none if there are more than
    /// 262,144.
    pub statements: Vec<StatementRow>,
    /// Spans of the recorder itself, by begin: time inside `fork`, captures being written; see
    /// `format::own_span`.
    pub own_spans: Vec<SpanRow>,
    /// Recorded ids, kinds and statuses, in the order in which they apply; `Traces` joins them with
    /// what is derived.
    pub traces: Vec<TraceRow>,
    /// Links, by time.
    pub links: Vec<LinkRow>,
    /// Events, by time.
    pub events: Vec<EventRow>,
    /// Samples by thread id, by time.
    pub samples: HashMap<u32, Vec<Sample>>,
    /// Awaits of tasks of event loops, by request id, by time; 0: tasks that requests wait for.
    pub awaits: HashMap<u64, Vec<Await>>,
    /// Times in which no code of a request ran on its event loop, by request id, by time: only
    /// those in which its task was sampled, and from CPython 3.14 on.
    pub suspensions: HashMap<u64, Vec<Suspension>>,
    /// Off-CPU intervals by thread id, by time. Those without a CPU are inferred from CPU clocks,
    /// since their records are lost.
    pub off_cpu: HashMap<u32, Vec<OffCpu>>,
    /// Wakeups of some threads (source `wakers`), by thread id, by time. One wakeup may have two
    /// records.
    pub wakes: HashMap<u32, Vec<Wake>>,
    /// Stacks of the wakers at that instant, by the woken thread and the time of the wakeup: of
    /// threads of this process that run no Python, and not of all.
    pub waker_stacks: HashMap<(u32, u64), u32>,
    /// Intervals (from, to) without switch records, because threads were created in a burst or the
    /// kernel had no room; by time, disjoint. One that has not ended ends at `u64::MAX`.
    pub switches_paused: Vec<(u64, u64)>,
    /// The part of the file that this is; None: all of it. There are also rows that are still under
    /// way when the part begins, and observations of threads shortly before and behind it.
    pub part: Option<Part>,
    /// Of a part: when the last request of each thread began, in all parts, for threads that run
    /// requests one after the other.
    pub last_begun: HashMap<u32, u64>,
    /// Which part of the samples, times off the CPU, wakeups and awaits was read; None: all.
    pub excerpt: Option<Excerpt>,
    /// Garbage collections, by begin.
    pub gcs: Vec<GcRow>,
    /// Tasks: work for requests on other threads, by begin.
    pub tasks: Vec<TaskRow>,
    /// Counters of the host and the process, by time.
    pub vitals: Vec<VitalRow>,
    /// Windows of metrics.
    pub metrics: Vec<MetricRow>,
    /// How much of each thread's records is there, and how much is missing.
    pub coverage: Vec<Coverage>,
    /// Blocks that were overwritten while they were copied: their records are missing.
    pub torn_blocks: u64,
    /// Rows of `off_cpu` that stand for a lost record.
    pub switches_mended: u64,
    /// Lines of source around the places of the verdict, as they were on the host.
    pub source: Vec<SourceLines>,
    /// What is wrong with the file; empty for a whole one.
    pub damage: Vec<String>,
}

impl Capture {
    /// The source around a place.
    pub fn source_of(&self, file: &str, line: u32) -> Option<&SourceLines> {
        self.source.iter().find(|source| source.line == line && source.file == file)
    }

    /// Whether switch records give the times off the CPU of all threads in `[from_ns, to_ns)`,
    /// except of threads without any. Cost: the number of pauses.
    pub fn has_switches(&self, from_ns: u64, to_ns: u64) -> bool {
        let paused = |(from, to): &(u64, u64)| *from < to_ns && *to > from_ns;
        let unread = || self.excerpt.iter().flat_map(|excerpt| &excerpt.unread).any(paused);
        let known = self.meta.source_on("switches") && !self.switches_paused.iter().any(paused);
        known && !unread()
    }

    /// Whether a row that begins at this time is one of this part, and not one of an earlier part
    /// that is still under way.
    pub fn owns(&self, begin_ns: u64) -> bool {
        self.part.is_none_or(|part| part.owns(begin_ns))
    }

    /// What all parts of the capture share; it is taken from here.
    pub(super) fn without_rows(&mut self) -> Capture {
        Capture {
            meta: std::mem::take(&mut self.meta),
            names: std::mem::take(&mut self.names),
            codes: std::mem::take(&mut self.codes),
            stacks: std::mem::take(&mut self.stacks),
            threads: std::mem::take(&mut self.threads),
            open_at_copy: std::mem::take(&mut self.open_at_copy),
            switches_paused: std::mem::take(&mut self.switches_paused),
            coverage: std::mem::take(&mut self.coverage),
            last_begun: std::mem::take(&mut self.last_begun),
            source: std::mem::take(&mut self.source),
            torn_blocks: self.torn_blocks,
            damage: std::mem::take(&mut self.damage),
            ..Capture::default()
        }
    }

    pub(super) fn report_bad_blocks(&mut self, count: u64) {
        if count > 0 {
            self.damage.push(format!("{count} blocks hold words that are no records"));
        }
    }

    /// Whether there are times in which nothing is known of any thread's switches.
    pub fn has_blind_times(&self) -> bool {
        !self.switches_paused.is_empty() || self.excerpt.is_some()
    }

    /// The wakeup that ended this interval of `tid` off the CPU, if it was recorded.
    pub fn wake_in(&self, tid: u32, off: &OffCpu) -> Option<&Wake> {
        let own = self.wakes.get(&tid)?;
        // After the first wakeup it was runnable: a later one ended nothing.
        own[own.partition_point(|w| w.t_ns < off.out_ns)..].first().filter(|w| w.t_ns <= off.in_ns)
    }

    /// The stack of the thread that ended this interval of `tid` off the CPU, at that moment; 0 if
    /// there is none.
    pub fn waker_stack_in(&self, tid: u32, off: &OffCpu) -> u32 {
        let Some(wake) = self.wake_in(tid, off).filter(|_| !self.waker_stacks.is_empty()) else {
            return 0;
        };
        // If there are two records of it, the second may have the stack.
        let own = self.wakes.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = own.partition_point(|w| w.t_ns < wake.t_ns);
        let same = own[first..].iter().take_while(|w| w.t_ns <= off.in_ns && w.by == wake.by);
        let mut stacks = same.filter_map(|w| self.waker_stacks.get(&(tid, w.t_ns)));
        stacks.next().copied().unwrap_or(0)
    }

    pub(super) fn is_woken_at(&self, tid: u32, t_ns: u64) -> bool {
        let own = self.wakes.get(&tid).map_or(&[][..], Vec::as_slice);
        own.binary_search_by_key(&t_ns, |w| w.t_ns).is_ok()
    }

    /// Intervals (from, to) in which nothing is known of the thread's switches although it has
    /// records: what was not read (`excerpt`), pauses, and after each pause the time until the
    /// thread's next record. By time.
    pub fn blind_times(&self, tid: u32) -> Vec<(u64, u64)> {
        let off = self.off_cpu.get(&tid).map_or(&[][..], Vec::as_slice);
        let until_recorded = |(from, to): &(u64, u64)| {
            let next = off.partition_point(|o| o.out_ns < *to);
            (*from, off.get(next).map_or(u64::MAX, |o| o.out_ns))
        };
        let paused = self.switches_paused.iter().map(until_recorded);
        let mut all: Vec<(u64, u64)> = paused.collect();
        // Intervals that reach into the time that was read are there: it is known from its begin.
        all.extend(self.excerpt.iter().flat_map(|excerpt| &excerpt.unread));
        all.sort_by_key(|(from, _)| *from);
        let mut out: Vec<(u64, u64)> = Vec::new();
        for (from, to) in all {
            match out.last_mut().filter(|last| last.1 >= from) {
                Some(last) => last.1 = last.1.max(to),
                None => out.push((from, to)),
            }
        }
        out
    }

    /// A name by id; "?" when the table does not reach that far.
    pub fn name(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("?", String::as_str)
    }

    /// The id of a name, if any record has it. Cost: one comparison for each name.
    pub fn name_id(&self, name: &str) -> Option<u32> {
        self.names.iter().position(|n| n == name).map(|id| id as u32)
    }

    /// The frames of a stack, innermost first, at most 4096.
    pub fn frames(&self, stack: u32) -> impl Iterator<Item = Frame<'_>> {
        let mut next = stack;
        let step = move || {
            let node = self.stacks.get((next as usize).checked_sub(1)?)?;
            let code = self.codes.get((node.code as usize).checked_sub(1)?);
            // A parent is always older than its child; anything else is damage and ends the walk.
            next = if node.parent < next { node.parent } else { 0 };
            Some(Frame {
                function: code.map_or("?", |c| self.name(c.function)),
                file: code.map_or("?", |c| self.name(c.file)),
                line: node.line,
                code: node.code,
                releases: code.is_some_and(|c| c.releases),
                native: code.is_some_and(|c| c.native || c.inner),
            })
        };
        std::iter::from_fn(step).take(4096)
    }

    /// The stack without the native frames that its innermost Python frame called; the whole stack
    /// where there is no other frame.
    pub fn without_native(&self, stack: u32) -> u32 {
        let mut next = stack;
        for _ in 0..4096 {
            let Some(node) = (next as usize).checked_sub(1).and_then(|i| self.stacks.get(i)) else {
                return stack;
            };
            let code = (node.code as usize).checked_sub(1).and_then(|i| self.codes.get(i));
            if !code.is_some_and(|c| c.native || c.inner) {
                return next;
            }
            next = if node.parent < next { node.parent } else { 0 };
        }
        stack
    }

    /// The time from which every thread's records are complete: the latest of the threads' oldest
    /// records, over threads that lost older ones.
    pub fn common_horizon_ns(&self) -> u64 {
        let cut = self.coverage.iter().filter(|c| c.missing_before > 0);
        cut.map(|c| c.from_ns).max().unwrap_or(self.meta.start_ns)
    }

    /// A thread's name, by kernel id: of the last thread with that id; a name given by the program
    /// is preferred to the kernel's.
    pub fn thread_name(&self, tid: u32) -> Option<&str> {
        let its = || self.threads.iter().filter(|t| t.tid == tid).rev();
        let alive = |t: &&ThreadRow| t.named && t.end_ns.is_none();
        its().find(alive).or_else(|| its().next()).map(|t| t.name.as_str())
    }
}

/// A resolved stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Qualified name of the function.
    pub function: &'a str,
    /// Its file, as the interpreter knows it.
    pub file: &'a str,
    /// The line being executed.
    pub line: u32,
    /// Id of the code object's entry.
    pub code: u32,
    /// Its code names `release`.
    pub releases: bool,
    /// Native code without a name yet, or native code that an interpreter's frame called. Frames of
    /// a program that is native itself do not count once they are named.
    pub native: bool,
}

impl Frame<'_> {
    /// Whether it is the body of a module, by Python's own name for that.
    pub fn is_module_body(&self) -> bool {
        self.function == MODULE_BODY
    }
}

/// What Python calls the code of a module.
pub const MODULE_BODY: &str = "<module>";
