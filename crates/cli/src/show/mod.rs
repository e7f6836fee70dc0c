//! `dashcam show`: the contents of a capture, and its losses.
//!
//! How it works: without a request it prints the time covered, the verdict in a line, requests by
//! name, threads, sources, metrics and losses; with one, its spans and where its time went
//! (`show_tree`), or with `--all` everything that all threads did while it ran, by time. `--json`
//! prints the summary of crates/tables, or the request as an object (`show_request`).
//!
//! What it promises: lists are bounded, and the rest is counted.

pub(crate) mod metrics;
pub(crate) mod request;
pub(crate) mod tree;

use format::source::SourceState;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use analysis::readable::{ms_text, thousands};
use analysis::words::is_own_thread;
use capture::read::{Capture, RequestRow, SpanRow, Traces};
use serde_json::Value;
use tables::summary::{request_ms, Summary};

use crate::brief::{judged, Brief};
use crate::export::parts::{self, Opened};
use crate::output::columns::{columns, plain};
use crate::output::exit_code::{NOTHING, UNREADABLE};
use crate::output::progress;
use crate::output::terminal;
use crate::read::{default_rules, file_of, open, open_judged};
use crate::show::metrics as show_metrics;
use crate::show::request as show_request;
use crate::show::tree as show_tree;

/// A capture up to this size is read in whole.
const SMALL_BYTES: u64 = 16 << 20;
/// Threads listed; the rest are counted.
const MOST_THREADS: usize = 20;
/// Names of requests listed; the rest are counted.
const MOST_NAMES: usize = 20;
/// Shorter collections of a request are only counted.
const SHORT_GC_NS: u64 = 100_000;

/// Time before and behind a request that is read with it.
const AROUND_NS: u64 = 1_000_000_000;

/// Selects a request of a capture.
#[derive(Clone, Copy)]
pub enum One {
    /// The slowest request.
    Slowest,
    /// The request with this id, as in exemplars of the OpenMetrics endpoint.
    Id(u64),
}

impl One {
    /// The request in a capture that is read in parts: its id, begin, end.
    fn find(self, opened: &mut Opened) -> io::Result<Option<(u64, u64, u64)>> {
        let mut found: Option<(u64, u64, u64)> = None;
        opened.each(&mut |all| {
            while (all.next)(&mut all.capture)? {
                let capture = &all.capture;
                let own = capture.requests.iter().filter(|r| capture.owns(r.begin_ns));
                for row in own {
                    let end_ns = row.end_ns.unwrap_or(capture.meta.to_ns).max(row.begin_ns);
                    let longest = found.map_or(0, |(_, begin_ns, end_ns)| end_ns - begin_ns);
                    let is_it = match self {
                        One::Slowest => found.is_none() || end_ns - row.begin_ns >= longest,
                        One::Id(id) => row.id == id,
                    };
                    if is_it {
                        found = Some((row.id, row.begin_ns, end_ns));
                    }
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn missing(self) -> String {
        match self {
            One::Slowest => "no requests".to_owned(),
            One::Id(id) => format!(
                "no request {id} in this capture; of a folder only the newest is read: name \
                 another file, `dashcam ls` lists them"
            ),
        }
    }
}

/// The form of what is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Screen,
    /// For people with patience: of a request everything.
    All,
    /// For programs.
    Json,
}

impl Form {
    /// By the flags.
    pub fn of(json: bool, all: bool) -> Form {
        match (json, all) {
            (true, _) => Form::Json,
            (_, true) => Form::All,
            _ => Form::Screen,
        }
    }
}

/// Prints time covered, requests, threads, sources, losses; of one request where its time went.
pub fn show(path: &Path, form: Form, one: Option<One>) -> ExitCode {
    let shown = match one {
        Some(one) => show_one(path, form, one),
        None if form == Form::Json => summary_json(path).map(|json| println!("{json:#}")),
        None => show_all(path),
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

/// The capture is read in parts, so that a large one is never in memory.
fn summary_json(path: &Path) -> Result<Value, ExitCode> {
    let mut opened = parts::open(path)?;
    let mut summary = Summary::default();
    let read = opened.each(&mut |all| {
        while (all.next)(&mut all.capture)? {
            summary.take(&all.capture);
        }
        Ok(())
    });
    progress::clear();
    let file = opened.file.display().to_string();
    read.map_err(|error| {
        eprintln!("dashcam: {file}: {error}");
        ExitCode::from(UNREADABLE)
    })?;
    Ok(summary.to_json(&opened.capture, &file))
}

/// Of a capture that is not small only what a verdict needs is in memory.
fn show_all(path: &Path) -> Result<(), ExitCode> {
    let file = file_of(path)?;
    let small = std::fs::metadata(&file).is_ok_and(|found| found.len() <= SMALL_BYTES);
    let (file, capture) = if small { open(&file)? } else { open_judged(&file, None)? };
    print(&capture, &file);
    Ok(())
}

fn show_one(path: &Path, form: Form, one: One) -> Result<(), ExitCode> {
    let mut opened = parts::open(path)?;
    let file = opened.file.clone();
    let failed = |error: io::Error| {
        eprintln!("dashcam: {}: {error}", file.display());
        ExitCode::from(UNREADABLE)
    };
    let found = one.find(&mut opened).map_err(failed)?;
    let Some((id, begin_ns, end_ns)) = found else {
        eprintln!("dashcam: {}: {}", file.display(), one.missing());
        return Err(ExitCode::from(NOTHING));
    };
    if !opened.is_one() {
        let (from_ns, to_ns) = (begin_ns.saturating_sub(AROUND_NS), end_ns + AROUND_NS);
        opened.between(from_ns, to_ns).map_err(failed)?;
    }
    let capture = &opened.capture;
    let Some(request) = capture.requests.iter().find(|request| request.id == id) else {
        eprintln!("dashcam: {}: {}", file.display(), one.missing());
        return Err(ExitCode::from(NOTHING));
    };
    match form {
        Form::Json => println!("{:#}", show_request::to_json(capture, request)),
        Form::All => print_request(capture, request),
        Form::Screen => print!("{}", show_tree::to_text(capture, request)),
    }
    Ok(())
}

fn print(capture: &Capture, file: &Path) {
    let meta = &capture.meta;
    let mut out = format!("{}\n", file.display());
    // A program without an interpreter has no runtime to name.
    let runtime = if meta.runtime.is_empty() { "" } else { &format!(", {}", meta.runtime) };
    out += &format!("  {} on {}, process {}{runtime}\n", meta.service, meta.host, meta.pid);
    out += &format!("  saved because: {}\n", plain(&meta.reason));
    let covered = meta.to_ns.saturating_sub(meta.from_ns) as f64 / 1e9;
    let horizon = capture.common_horizon_ns();
    // Records of quiet threads reach further back: not what the capture covers.
    let complete = meta.to_ns.saturating_sub(horizon.max(meta.from_ns)) as f64 / 1e9;
    let complete = match meta.to_ns > horizon {
        true => format!("all threads are complete for the last {complete:.1} s"),
        false => "there is no time for which all threads are complete".to_owned(),
    };
    out += &format!("  covers {covered:.1} s; {complete}\n");
    out += &format!("  verdict: {}\n", Brief::of(&judged(capture), file, None).judged.line);
    out += &requests(capture);
    out += &open_spans(capture);
    out += &show_metrics::text(capture);
    out += &threads(capture);
    out += &sources_and_losses(capture);
    print!("{}", terminal::fitted(&out));
}

fn sources_and_losses(capture: &Capture) -> String {
    let mut out = "Sources:\n".to_owned();
    let (on, off): (Vec<_>, Vec<_>) =
        capture.meta.source_states().partition(|(_, state, _)| *state == SourceState::On);
    let on: Vec<&str> = on.iter().map(|(name, ..)| *name).collect();
    out += &format!("  on: {}\n", on.join(", "));
    off.iter().for_each(|(name, _, text)| out += &format!("  {name}: {text}\n"));
    out += "Losses:\n";
    let lost: Vec<_> = capture.meta.losses.iter().filter(|(_, count)| *count > 0).collect();
    for (name, count) in &lost {
        out += &format!("  {}: {}\n", name.replace('_', " "), thousands(*count));
    }
    capture.damage.iter().for_each(|text| out += &format!("  {text}\n"));
    if lost.is_empty() && capture.damage.is_empty() {
        out += "  none\n";
    }
    out
}

/// Requests by name, the most frequent first.
fn requests(capture: &Capture) -> String {
    let times = |r: &RequestRow| u64::from(r.times);
    let all = capture.requests.iter().map(times).sum();
    let mut out = format!("Requests: {}\n", thousands(all));
    if capture.requests.len() as u64 != all {
        let some = thousands(capture.requests.len() as u64);
        out += &format!("  times under the 99th percentile are of {some} of them\n");
    }
    let rules = default_rules(capture);
    let mut names: Vec<(&str, Vec<(f64, u64)>)> = weighed(capture).into_iter().collect();
    names.sort_by_key(|(_, times)| std::cmp::Reverse(count(times)));
    let left_out = names.len().saturating_sub(MOST_NAMES);
    let rows = names.iter().take(MOST_NAMES).map(|(name, times)| {
        let limit_ms = rules.limit_ns(name) as f64 / 1e6;
        let slow = times[times.partition_point(|(ms, _)| *ms <= limit_ms)..].to_vec();
        let of = |share: f64| ms_text(percentile(times, share));
        let counts = [count(times), count(&slow)].map(thousands);
        let times = [of(0.5), of(0.95), of(0.99), of(1.0)];
        counts.into_iter().chain(times).chain([plain(name)]).collect()
    });
    let head = ["  COUNT", "SLOW", "P50", "P95", "P99", "MAX", "NAME"];
    let text = columns(&head, rows.map(|row: Vec<String>| indented(row)));
    if !names.is_empty() {
        out += &text;
    }
    if left_out > 0 {
        out += &format!("  and {left_out} more names\n");
    }
    out
}

/// Times of requests in ms, sorted, each with how many took about that, by name.
fn weighed(capture: &Capture) -> BTreeMap<&str, Vec<(f64, u64)>> {
    let mut names: BTreeMap<&str, Vec<(f64, u64)>> = BTreeMap::new();
    for request in &capture.requests {
        let row = (request_ms(capture, request), u64::from(request.times));
        names.entry(capture.name(request.name)).or_default().push(row);
    }
    names.values_mut().for_each(|times| times.sort_by(|a, b| a.0.total_cmp(&b.0)));
    names
}

fn count(times: &[(f64, u64)]) -> u64 {
    times.iter().map(|(_, count)| count).sum()
}

fn indented(mut row: Vec<String>) -> Vec<String> {
    row.iter_mut().take(1).for_each(|first| first.insert_str(0, "  "));
    row
}

/// The smallest time that is not exceeded by this share of the sorted times.
pub fn percentile(times: &[(f64, u64)], share: f64) -> f64 {
    let at = ((count(times) as f64 * share).ceil() as u64).max(1);
    let mut before = 0;
    let mut reaches = times.iter().skip_while(|(_, count)| {
        before += count;
        before < at
    });
    reaches.next().map_or(0.0, |(ms, _)| *ms)
}

/// Everything that all threads did while a request ran, by time.
fn print_request(capture: &Capture, request: &RequestRow) {
    let (from, to) = (request.begin_ns, request.end_ns.unwrap_or(capture.meta.to_ns));
    let at = |t_ns: u64| (t_ns as f64 - from as f64) / 1e6;
    println!(
        "{} on thread {}: {}, handler began at {:.3} ms",
        capture.name(request.name),
        request.tid,
        ms_text(request_ms(capture, request)),
        at(request.started_ns)
    );
    println!("trace {:032x}", Traces::of(capture).request(request.id).trace);
    let mut lines: Vec<(u64, String)> = Vec::new();
    for sample in capture.samples.values().flatten() {
        let leaf = capture.frames(sample.stack).next();
        let leaf = leaf.map_or("-".to_owned(), |f| format!("{}:{} {}", f.file, f.line, f.function));
        let task = match sample.task {
            0 => String::new(),
            task => format!(", in task {}", capture.name(task)),
        };
        let holder = |what, tid: u32| match tid {
            0 => String::new(),
            tid => format!(", {what} has thread {tid}"),
        };
        let wait = sample.wait.text();
        let lock = holder("the lock", sample.lock_holder);
        let gil = holder("the GIL", sample.gil_holder);
        lines.push((
            sample.t_ns,
            format!("{:>7} sample {wait}{lock}{gil}, at {leaf}{task}", sample.tid),
        ));
    }
    for seen in capture.awaits.get(&request.id).into_iter().flatten() {
        let leaf = capture.frames(seen.stack).next();
        let leaf = leaf.map_or("-".to_owned(), |f| format!("{}:{} {}", f.file, f.line, f.function));
        let (kind, holder) = (seen.kind.text(), seen.holder);
        lines.push((seen.t_ns, format!("   task awaits {kind}, holder {holder:#x}, at {leaf}")));
    }
    for (tid, rows) in &capture.off_cpu {
        for off in rows {
            let ms = (off.in_ns - off.out_ns) as f64 / 1e6;
            let how = if off.preempted { "preempted" } else { "off" };
            let cpu = off.cpu.map_or(String::new(), |cpu| format!(", then on CPU {cpu}"));
            lines.push((off.out_ns, format!("{tid:>7} {how} for {ms:.3} ms{cpu}")));
        }
    }
    let around = from.saturating_sub(20_000_000)..to.saturating_add(20_000_000);
    let (mut short, mut short_ns) = (0, 0);
    for gc in capture.gcs.iter().filter(|gc| around.contains(&gc.begin_ns)) {
        let ns = gc.end_ns.saturating_sub(gc.begin_ns);
        if ns < SHORT_GC_NS {
            (short, short_ns) = (short + 1, short_ns + ns);
            continue;
        }
        let ms = ns as f64 / 1e6;
        lines.push((gc.begin_ns, format!("{:>7} gc {} for {ms:.3} ms", gc.tid, gc.generation)));
    }
    lines.retain(|(t, _)| around.contains(t));
    lines.sort();
    lines.iter().for_each(|(t, line)| println!("{:>10.3} ms  {line}", at(*t)));
    if short > 0 {
        println!(
            "and {short} collections under 0.1 ms each, {:.3} ms in all",
            short_ns as f64 / 1e6
        );
    }
}

/// Spans that had not ended, the oldest first.
fn open_spans(capture: &Capture) -> String {
    let open = capture.spans.iter().filter(|s| s.open).chain(&capture.open_spans);
    let open: Vec<&SpanRow> = open.collect();
    if open.is_empty() {
        return String::new();
    }
    let mut out = format!("Open spans: {}\n", open.len());
    for span in open.iter().take(MOST_THREADS) {
        let thread = capture.thread_name(span.tid).unwrap_or("?");
        let age = ms_text(span.end_ns.saturating_sub(span.begin_ns) as f64 / 1e6);
        out += &format!("  {:>10} {}  on {thread}\n", age, capture.name(span.name));
    }
    if open.len() > MOST_THREADS {
        out += &format!("  and {} more\n", open.len() - MOST_THREADS);
    }
    out
}

/// The program's threads, those with the most records first; dashcam's own are the last.
fn threads(capture: &Capture) -> String {
    let mut out = format!("Threads: {}\n", capture.coverage.len());
    let name = |tid| capture.thread_name(tid).unwrap_or("?");
    let mut rows: Vec<_> = capture.coverage.iter().collect();
    rows.sort_by_key(|c| (is_own_thread(name(c.tid)), std::cmp::Reverse(c.read)));
    let cells = rows.iter().take(MOST_THREADS).map(|row| {
        let samples = match &capture.excerpt {
            Some(excerpt) => excerpt.samples.get(&row.tid).map_or(0, |count| *count as usize),
            None => capture.samples.get(&row.tid).map_or(0, Vec::len),
        };
        let missing = row.missing_between + row.missing_after;
        let counts = [row.read, row.missing_before, missing, row.dropped, samples as u64];
        let tid = row.tid.to_string();
        let counts = counts.map(thousands).into_iter();
        indented([tid].into_iter().chain(counts).chain([plain(name(row.tid))]).collect())
    });
    let head = ["  TID", "RECORDS", "OLDER", "MISSING", "DROPPED", "SAMPLES", "NAME"];
    out += &columns(&head, cells);
    if rows.len() > MOST_THREADS {
        out += &format!("  and {} more\n", rows.len() - MOST_THREADS);
    }
    out
}
