//! The model beside reality: programs of the zoo as recorded, and the same things as scripts.
//!
//! How it works: a row of `ROWS` has a golden capture, the defect that is its program as a script,
//! and the program's own numbers: server, length of its trouble, limit. The script runs without
//! noise and neighbours. Both captures, of one kernel mode, are measured in the same way: the waits
//! of slow requests' threads, how many samples found each, and the verdict.
//!
//! What it promises: the same captures make the same table. What is missing on purpose: lengths of
//! programs that compute, which are those of the machine that recorded them; requests on event
//! loops, whose threads do not wait for them.

use std::fmt::Write as _;
use std::path::Path;

use capture::read::{Capture, RequestRow};
use format::record::Sample;
use format::wait::WaitKind;
use golden::store;

use super::table::MODES;
use crate::engine::World;
use crate::program::draw::{self, Shape};
use crate::program::{Program, Server, MS};

/// A program of the zoo.
pub struct Row {
    /// Its golden capture, with switch records; `-off` behind it: without.
    pub capture: &'static str,
    /// The same as a script: a defect.
    pub defect: &'static str,
    server: Server,
    /// The length of its trouble, and of what is slow, ms.
    trouble_ms: u64,
    slow_ms: u64,
}

const fn row(
    capture: &'static str,
    defect: &'static str,
    server: Server,
    (trouble_ms, slow_ms): (u64, u64),
) -> Row {
    Row { capture, defect, server, trouble_ms, slow_ms }
}

/// The programs, with the numbers of tests/zoo.
pub const ROWS: &[Row] = &[
    row("lock_background", "lock_sleep", Server::Threads, (500, 200)),
    row("lock_by_hand", "lock_by_hand", Server::Threads, (450, 200)),
    row("lock_chain", "lock_chain", Server::Threads, (600, 200)),
    row("lock_file", "lock_file", Server::Threads, (400, 200)),
    row("lock_reentrant", "lock_sleep", Server::Workers, (600, 200)),
    row("cpu_loop", "cpu_loop", Server::Threads, (380, 300)),
    row("cpu_regex", "cpu_regex", Server::Threads, (500, 300)),
    row("connect_backlog", "connect_full", Server::Threads, (600, 300)),
    row("deadlock_crossed", "deadlock", Server::Threads, (600, 200)),
    row("disk_sync", "disk_sync", Server::Threads, (500, 150)),
    row("dns_lookup", "dns_slow", Server::Threads, (1000, 300)),
    row("downstream_http", "downstream_ask", Server::Threads, (600, 300)),
    row("downstream_many", "downstream_loop", Server::Threads, (400, 200)),
    row("downstream_socket", "downstream_ask", Server::Threads, (500, 250)),
    row("fork_large", "fork_large", Server::Threads, (400, 150)),
    row("gc_timer", "gc_elsewhere", Server::Threads, (300, 120)),
    row("gc_allocation", "gc_asked", Server::Threads, (390, 120)),
    row("gil_json", "gil_sort", Server::Threads, (700, 200)),
    row("gil_sort", "gil_sort", Server::Threads, (1300, 200)),
    row("import_first", "import_late", Server::Threads, (1000, 200)),
    row("pipe_log", "pipe_full", Server::Threads, (500, 250)),
    row("pool_executor", "pool_workers", Server::Threads, (600, 200)),
    row("pool_requests", "pool_queue", Server::Threads, (400, 200)),
    row("sleep_event", "sleep_event", Server::Threads, (500, 200)),
    row("sleep_library", "sleep_nap", Server::Workers, (600, 300)),
    row("sleep_retry", "sleep_retry", Server::Threads, (600, 300)),
    row("stopped_signal", "stopped", Server::Threads, (500, 250)),
    row("subprocess_run", "child_run", Server::Threads, (500, 250)),
    row("starved_neighbours", "starved", Server::Threads, (800, 250)),
    row("event-loop-blocked-pause", "blocked_sleep", Server::Loop, (500, 200)),
    row("sleep-asyncio-backoff", "task_sleep", Server::Loop, (500, 200)),
    row("lock-wait-asyncio-courier", "task_lock", Server::Loop, (500, 200)),
];

impl Row {
    /// The script.
    pub fn program(&self) -> Result<Program, String> {
        let defect = draw::named(self.defect)
            .ok_or_else(|| format!("{}: no defect has the name {:?}", self.capture, self.defect))?;
        let (server, trouble_ns) = (self.server, self.trouble_ms * MS);
        let shape = Shape { server, trouble_ns, slow_ns: self.slow_ms * MS };
        Ok(draw::plain(1, defect, shape))
    }
}

/// What is measured of a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The first finding's cause.
    pub cause: String,
    /// Its confidence.
    pub confidence: String,
    /// Whether it names who is to blame.
    pub culprit: bool,
    /// Lengths of the waits of slow requests, ns, in order.
    pub waits: Vec<u64>,
    /// Samples in these waits.
    pub samples: usize,
}

/// A program in one kernel mode: recorded, simulated.
pub struct Pair {
    /// Which.
    pub row: &'static Row,
    /// `on` or `off`.
    pub mode: &'static str,
    /// The golden capture.
    pub real: Measured,
    /// The simulated one.
    pub simulated: Measured,
}

/// Measures all programs in both modes; `folder`: the golden captures.
pub fn pairs(folder: &Path) -> Result<Vec<Pair>, String> {
    let mut out = Vec::new();
    for row in ROWS {
        let program = row.program()?;
        for (mode, switches) in MODES {
            let name =
                if switches { row.capture.to_owned() } else { format!("{}-off", row.capture) };
            let real = store::Entry::read(folder, &name)?.capture()?;
            let mut world = World::new(&program, switches);
            world.run();
            let made = world.capture().map_err(|error| format!("{name}, simulated: {error}"))?;
            let [real, simulated] = [real, made].map(|bytes| measure(&bytes, row.slow_ms * MS));
            out.push(Pair { row, mode, real: real?, simulated: simulated? });
        }
    }
    Ok(out)
}

fn measure(bytes: &[u8], slow_ns: u64) -> Result<Measured, String> {
    let capture = Capture::parse(bytes).map_err(|error| error.to_string())?;
    let verdict = diagnosis::diagnose(&capture, |_| slow_ns);
    let first = verdict.findings.first();
    let end = |r: &RequestRow| r.end_ns.unwrap_or(capture.meta.to_ns);
    let slow = capture
        .requests
        .iter()
        .filter(|r| !r.on_loop && r.begin_ns > 0 && end(r).saturating_sub(r.begin_ns) >= slow_ns);
    let (mut waits, mut samples) = (Vec::new(), 0);
    for request in slow {
        let all = capture.samples.get(&request.tid).map_or(&[][..], Vec::as_slice);
        let (from, to) = (request.started_ns.max(request.begin_ns), end(request));
        let first = all.partition_point(|s| s.t_ns < from);
        let own = &all[first..all.partition_point(|s| s.t_ns < to).max(first)];
        let mut rest = own;
        while let Some(sample) = rest.first() {
            let same = |s: &&Sample| (s.wait, s.stack) == (sample.wait, sample.stack);
            let count = rest.iter().take_while(same).count();
            rest = &rest[count..];
            let next = rest.first().map_or(to, |s| s.t_ns);
            let ns = length(&capture, request, sample, next);
            if sample.wait != WaitKind::Running && ns >= SHORT_NS {
                waits.push(ns);
                samples += count;
            }
        }
    }
    waits.sort_unstable();
    Ok(Measured {
        cause: first.map_or("nothing", |f| f.cause.text()).to_owned(),
        confidence: first.map_or("", |f| f.confidence.text()).to_owned(),
        culprit: first.is_some_and(|f| f.culprit.is_some()),
        waits,
        samples,
    })
}

/// A shorter wait is no part of the trouble.
const SHORT_NS: u64 = 20 * MS;

/// How long the wait lasted that a sample found, as far as it lies in its request: by its switch
/// record, else to the next sample of another kind.
fn length(capture: &Capture, request: &RequestRow, sample: &Sample, next: u64) -> u64 {
    let records = capture.off_cpu.get(&request.tid).map_or(&[][..], Vec::as_slice);
    let at = records.partition_point(|off| off.in_ns <= sample.t_ns);
    match records.get(at).filter(|off| off.out_ns <= sample.t_ns) {
        Some(off) => off.in_ns - off.out_ns.max(request.begin_ns),
        None => next - sample.t_ns,
    }
}

impl Measured {
    /// The value below which this part of the waits lies, ms; None: there are none.
    pub fn wait_ms(&self, part: f64) -> Option<f64> {
        let at = (self.waits.len().checked_sub(1)? as f64 * part).round() as usize;
        self.waits.get(at).map(|ns| *ns as f64 / MS as f64)
    }

    /// Samples for each wait.
    pub fn samples_per_wait(&self) -> Option<f64> {
        (!self.waits.is_empty()).then(|| self.samples as f64 / self.waits.len() as f64)
    }

    fn cells(&self) -> [String; 4] {
        let ms = |part| self.wait_ms(part).map_or("-".to_owned(), |ms| format!("{ms:.0}"));
        let waits = match self.waits.is_empty() {
            true => "-".to_owned(),
            false => format!("{} / {} / {}", ms(0.1), ms(0.5), ms(0.9)),
        };
        let samples = self.samples_per_wait().map_or("-".to_owned(), |n| format!("{n:.1}"));
        let culprit = if self.culprit { "named" } else { "-" };
        [waits, samples, format!("{}, {}", self.cause, self.confidence), culprit.to_owned()]
    }
}

/// The table as Markdown.
pub fn table(pairs: &[Pair]) -> String {
    let mut out = String::from(
        "| program | records | waits, ms: real | simulated | samples a wait: real | simulated | verdict: real | simulated |\n\
         | --- | --- | --- | --- | --: | --: | --- | --- |\n",
    );
    for Pair { row, mode, real, simulated } in pairs {
        let ([a, b, c, _], [d, e, f, _]) = (real.cells(), simulated.cells());
        // A String takes everything.
        let _ = writeln!(out, "| {} | {mode} | {a} | {d} | {b} | {e} | {c} | {f} |", row.capture);
    }
    out
}
