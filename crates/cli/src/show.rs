//! `dashcam show`: what a capture holds and what it lacks.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use capture::read::{Capture, RequestRow};
use diagnosis::causes::{ms_text, thousands};
use serde_json::{json, Value};

use crate::read::open;
use crate::show_metrics;

/// Threads listed; the rest are counted.
const MOST_THREADS: usize = 20;

/// Prints time covered, requests, threads, sources, losses.
pub fn show(path: &Path, as_json: bool, slowest: bool) -> ExitCode {
    let (file, capture) = match open(path) {
        Ok(found) => found,
        Err(code) => return code,
    };
    if slowest {
        print_slowest(&capture);
    } else if as_json {
        println!("{:#}", to_json(&capture, &file.display().to_string()));
    } else {
        print(&capture, &file.display().to_string());
    }
    ExitCode::SUCCESS
}

fn print(capture: &Capture, file: &str) {
    let meta = &capture.meta;
    println!("{file}");
    println!("  {} on {}, pid {}, {}", meta.service, meta.host, meta.pid, meta.runtime);
    println!("  saved because: {}", meta.reason);
    let covered = meta.to_ns.saturating_sub(meta.from_ns) as f64 / 1e9;
    let horizon = capture.common_horizon_ns();
    let complete = meta.to_ns.saturating_sub(horizon) as f64 / 1e9;
    println!("  covers {covered:.1} s; all threads are complete for the last {complete:.1} s");
    println!("Requests: {}", thousands(capture.requests.len() as u64));
    for (name, times) in by_name(capture) {
        println!(
            "  {:>7} {name}  median {}, worst {}",
            thousands(times.len() as u64),
            ms_text(median(&times)),
            ms_text(times.last().copied().unwrap_or(0.0)),
        );
    }
    show_metrics::print(capture);
    print_threads(capture);
    println!("Sources:");
    for (name, state) in &meta.sources {
        println!("  {name}: {state}");
    }
    println!("Losses:");
    let lost: Vec<_> = meta.losses.iter().filter(|(_, count)| *count > 0).collect();
    for (name, count) in &lost {
        println!("  {name}: {}", thousands(*count));
    }
    capture.damage.iter().for_each(|text| println!("  {text}"));
    if lost.is_empty() && capture.damage.is_empty() {
        println!("  none");
    }
}

/// Everything seen of all threads while the slowest request ran, by time.
fn print_slowest(capture: &Capture) {
    let slowest = capture
        .requests
        .iter()
        .max_by(|a, b| request_ms(capture, a).total_cmp(&request_ms(capture, b)));
    let Some(request) = slowest else { return println!("no requests") };
    let (from, to) = (request.begin_ns, request.end_ns.unwrap_or(capture.meta.to_ns));
    let at = |t_ns: u64| (t_ns as f64 - from as f64) / 1e6;
    println!(
        "{} on thread {}: {}, handler began at {:.3} ms",
        capture.name(request.name),
        request.tid,
        ms_text(request_ms(capture, request)),
        at(request.started_ns)
    );
    let mut lines: Vec<(u64, String)> = Vec::new();
    for sample in capture.samples.values().flatten() {
        let leaf = capture.frames(sample.stack).next();
        let leaf = leaf.map_or("-".to_owned(), |f| format!("{}:{} {}", f.file, f.line, f.function));
        let (wait, holder, gil) = (sample.wait.text(), sample.lock_holder, sample.gil_holder);
        lines.push((
            sample.t_ns,
            format!("{:>7} sample {wait}, holder {holder}, gil {gil}, at {leaf}", sample.tid),
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
            lines.push((off.out_ns, format!("{tid:>7} {how} for {ms:.3} ms")));
        }
    }
    for gc in &capture.gcs {
        let ms = (gc.end_ns - gc.begin_ns) as f64 / 1e6;
        lines.push((gc.begin_ns, format!("{:>7} gc {} for {ms:.3} ms", gc.tid, gc.generation)));
    }
    lines.retain(|(t, _)| (from.saturating_sub(20_000_000)..to + 20_000_000).contains(t));
    lines.sort();
    lines.iter().for_each(|(t, line)| println!("{:>10.3} ms  {line}", at(*t)));
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

/// Times of ended requests in ms, sorted, by name.
fn by_name(capture: &Capture) -> BTreeMap<&str, Vec<f64>> {
    let mut names: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for request in &capture.requests {
        let ms = request_ms(capture, request);
        names.entry(capture.name(request.name)).or_default().push(ms);
    }
    names.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
    names
}

fn request_ms(capture: &Capture, request: &RequestRow) -> f64 {
    let end = request.end_ns.unwrap_or(capture.meta.to_ns);
    end.saturating_sub(request.begin_ns) as f64 / 1e6
}

fn median(times: &[f64]) -> f64 {
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

fn to_json(capture: &Capture, file: &str) -> Value {
    let requests: Vec<Value> = by_name(capture)
        .into_iter()
        .map(|(name, times)| {
            json!({"name": name, "count": times.len(), "median_ms": median(&times),
                   "worst_ms": times.last()})
        })
        .collect();
    let threads: Vec<Value> = capture
        .coverage
        .iter()
        .map(|c| {
            json!({"tid": c.tid, "name": capture.thread_name(c.tid), "from_ns": c.from_ns,
                   "read": c.read, "missing_before": c.missing_before,
                   "missing_between": c.missing_between,
                   "missing_after": c.missing_after, "dropped": c.dropped,
                   "samples": capture.samples.get(&c.tid).map_or(0, Vec::len)})
        })
        .collect();
    let open = capture.requests.iter().filter(|r| r.end_ns.is_none()).count();
    json!({
        "schema": 1,
        "file": file,
        "common_horizon_ns": capture.common_horizon_ns(),
        "meta": capture.meta.all,
        "requests": requests,
        "open_requests": open,
        "threads": threads,
        "counts": {
            "requests": capture.requests.len(),
            "spans": capture.spans.len(),
            "events": capture.events.len(),
            "samples": capture.samples.values().map(Vec::len).sum::<usize>(),
            "off_cpu": capture.off_cpu.values().map(Vec::len).sum::<usize>(),
            "awaits": capture.awaits.values().map(Vec::len).sum::<usize>(),
            "gcs": capture.gcs.len(),
            "tasks": capture.tasks.len(),
            "vitals": capture.vitals.len(),
        },
        "metrics": show_metrics::to_json(capture),
        "torn_blocks": capture.torn_blocks,
        "damage": capture.damage,
    })
}
