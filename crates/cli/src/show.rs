//! `dashcam show`: the contents of a capture, and its losses.
//!
//! How it works: without a request it prints the time covered, the verdict in a line, requests by
//! name, threads, sources, metrics and losses; with one, its spans and where its time went
//! (`show_tree`), or with `--all` everything that all threads did while it ran, by time. `--json`
//! prints the summary of crates/tables, or the request as an object (`show_request`).
//!
//! What it promises: lists are bounded, and the rest is counted.

use std::path::Path;
use std::process::ExitCode;

use capture::read::{Capture, RequestRow, SpanRow, Traces};
use diagnosis::{ms_text, thousands};
use tables::summary::{self, by_name, request_ms};

use crate::brief::Brief;
use crate::columns::{columns, plain};
use crate::exit_code::NOTHING;
use crate::read::{default_rules, open};
use crate::{show_metrics, show_request, show_tree};

/// Threads listed; the rest are counted.
const MOST_THREADS: usize = 20;
/// Names of requests listed; the rest are counted.
const MOST_NAMES: usize = 20;
/// Shorter collections of a request are only counted.
const SHORT_GC_NS: u64 = 100_000;

/// Selects a request of a capture.
#[derive(Clone, Copy)]
pub enum One {
    /// The slowest request.
    Slowest,
    /// The request with this id, as in exemplars of the OpenMetrics endpoint.
    Id(u64),
}

impl One {
    fn of(self, capture: &Capture) -> Option<&RequestRow> {
        let mut all = capture.requests.iter();
        let took = |request: &&RequestRow| request_ms(capture, request);
        match self {
            One::Slowest => all.max_by(|a, b| took(a).total_cmp(&took(b))),
            One::Id(id) => all.find(|request| request.id == id),
        }
    }

    fn missing(self) -> String {
        match self {
            One::Slowest => "no requests".to_owned(),
            One::Id(id) => format!("no request {id} in this capture"),
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

/// Prints time covered, requests, threads, sources, losses; of one request where its time went.
pub fn show(path: &Path, form: Form, one: Option<One>) -> ExitCode {
    let as_json = form == Form::Json;
    let (file, capture) = match open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    if let Some(one) = one {
        let Some(request) = one.of(&capture) else {
            eprintln!("dashcam: {}: {}", file.display(), one.missing());
            return ExitCode::from(NOTHING);
        };
        match form {
            Form::Json => println!("{:#}", show_request::to_json(&capture, request)),
            Form::All => print_request(&capture, request),
            Form::Screen => print!("{}", show_tree::to_text(&capture, request)),
        }
    } else if as_json {
        println!("{:#}", summary::to_json(&capture, &file.display().to_string()));
    } else {
        print(&capture, &file);
    }
    ExitCode::SUCCESS
}

fn print(capture: &Capture, file: &Path) {
    let meta = &capture.meta;
    println!("{}", file.display());
    println!("  {} on {}, pid {}, {}", meta.service, meta.host, meta.pid, meta.runtime);
    println!("  saved because: {}", meta.reason);
    let covered = meta.to_ns.saturating_sub(meta.from_ns) as f64 / 1e9;
    let horizon = capture.common_horizon_ns();
    let complete = meta.to_ns.saturating_sub(horizon) as f64 / 1e9;
    match meta.to_ns > horizon {
        true => println!(
            "  covers {covered:.1} s; all threads are complete for the last {complete:.1} s"
        ),
        false => {
            println!("  covers {covered:.1} s; there is no time for which all threads are complete")
        }
    }
    println!("  verdict: {}", Brief::of(capture, file, None).judged.line);
    print_requests(capture);
    print_open_spans(capture);
    show_metrics::print(capture);
    print_threads(capture);
    println!("Sources:");
    for (name, state) in &meta.sources {
        println!("  {name}: {state}");
    }
    println!("Losses:");
    let lost: Vec<_> = meta.losses.iter().filter(|(_, count)| *count > 0).collect();
    for (name, count) in &lost {
        println!("  {}: {}", name.replace('_', " "), thousands(*count));
    }
    capture.damage.iter().for_each(|text| println!("  {text}"));
    if lost.is_empty() && capture.damage.is_empty() {
        println!("  none");
    }
}

/// Requests by name, the most frequent first.
fn print_requests(capture: &Capture) {
    println!("Requests: {}", thousands(capture.requests.len() as u64));
    let rules = default_rules(capture);
    let mut names: Vec<(&str, Vec<f64>)> = by_name(capture).into_iter().collect();
    names.sort_by_key(|(_, times)| std::cmp::Reverse(times.len()));
    let left_out = names.len().saturating_sub(MOST_NAMES);
    let rows = names.iter().take(MOST_NAMES).map(|(name, times)| {
        let limit_ms = rules.limit_ns(name) as f64 / 1e6;
        let slow = times.iter().filter(|ms| **ms > limit_ms).count();
        let of = |share: f64| ms_text(percentile(times, share));
        let counts = [times.len(), slow].map(|count| thousands(count as u64));
        let times = [of(0.5), of(0.95), of(0.99), of(1.0)];
        counts.into_iter().chain(times).chain([plain(name)]).collect()
    });
    let head = ["  COUNT", "SLOW", "P50", "P95", "P99", "MAX", "NAME"];
    let text = columns(&head, rows.map(|row: Vec<String>| indented(row)));
    if !names.is_empty() {
        print!("{text}");
    }
    if left_out > 0 {
        println!("  and {left_out} more names");
    }
}

fn indented(mut row: Vec<String>) -> Vec<String> {
    row.iter_mut().take(1).for_each(|first| first.insert_str(0, "  "));
    row
}

/// The smallest time that is not exceeded by this share of the sorted times.
pub fn percentile(times: &[f64], share: f64) -> f64 {
    let at = (times.len() as f64 * share).ceil() as usize;
    times.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
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
        let (wait, holder, gil) = (sample.wait.text(), sample.lock_holder, sample.gil_holder);
        lines.push((
            sample.t_ns,
            format!("{:>7} sample {wait}, holder {holder}, gil {gil}, at {leaf}{task}", sample.tid),
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
fn print_open_spans(capture: &Capture) {
    let open: Vec<&SpanRow> = capture.spans.iter().filter(|s| s.open).collect();
    if open.is_empty() {
        return;
    }
    println!("Open spans: {}", open.len());
    for span in open.iter().take(MOST_THREADS) {
        let thread = capture.thread_name(span.tid).unwrap_or("?");
        let age = ms_text(span.end_ns.saturating_sub(span.begin_ns) as f64 / 1e6);
        println!("  {:>10} {}  on {thread}", age, capture.name(span.name));
    }
    if open.len() > MOST_THREADS {
        println!("  and {} more", open.len() - MOST_THREADS);
    }
}

fn print_threads(capture: &Capture) {
    println!("Threads: {}", capture.coverage.len());
    let mut rows: Vec<_> = capture.coverage.iter().collect();
    rows.sort_by_key(|c| std::cmp::Reverse(c.read));
    println!("      tid  records  older  missing  dropped  samples  name");
    for row in rows.iter().take(MOST_THREADS) {
        let samples = capture.samples.get(&row.tid).map_or(0, Vec::len);
        println!(
            "  {:>7} {:>8} {:>6} {:>8} {:>8} {:>8}  {}",
            row.tid,
            row.read,
            row.missing_before,
            row.missing_between + row.missing_after,
            row.dropped,
            samples,
            capture.thread_name(row.tid).unwrap_or("?"),
        );
    }
    if rows.len() > MOST_THREADS {
        println!("  and {} more", rows.len() - MOST_THREADS);
    }
}
