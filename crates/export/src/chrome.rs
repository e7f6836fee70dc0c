//! Trace event JSON, as chrome://tracing and Perfetto's page read it.
//!
//! The format is described in "Trace Event Format" (Google, 2016). A thread's slices are complete
//! events (`X`), its states complete events of a thread of their own beside it, requests, awaits and
//! what does not nest are async events (`b`, `e`) whose id is their lane, events are instants (`i`),
//! work handed over is a flow (`s`, `f`), vitals are counters (`C`). Times are microseconds with
//! three decimals since the recording began, so nothing is rounded. Samples of stacks have no place
//! in the format; a state names its innermost frame.

use std::collections::HashMap;
use std::io::{self, Write};

use capture::read::Capture;
use serde_json::{json, Map, Number, Value};

use crate::scene::{self, Arg, Args, Slice, Stand, Track};
use crate::states::Threads;
use crate::{notes, Progress};

/// Added to a thread's id for its states. Linux gives ids below 4,194,304.
const STATES_OF: u64 = 1_000_000_000;

/// Writes the trace.
pub fn write(
    capture: &Capture,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<()> {
    let threads = Threads::new(capture);
    let mut events = Events {
        out,
        pid: capture.meta.pid,
        zero_ns: capture.meta.start_ns,
        any: false,
        flows: HashMap::new(),
    };
    events.out.write_all(b"{\"traceEvents\":[")?;
    let name = format!("{} {}", capture.meta.service, capture.meta.pid);
    events.named("process_name", None, json!({"name": name}))?;
    scene::tracks(&threads, progress, &mut |track| events.track(&track))?;
    for counter in scene::counters(capture) {
        for (t_ns, value) in counter.points {
            let mut event = events.event("C", counter.name, "vital", t_ns);
            event.insert("args".to_owned(), json!({"value": value}));
            events.push(event)?;
        }
    }
    let other = json!({
        "clock": "CLOCK_MONOTONIC",
        "zero_ns": capture.meta.start_ns,
        "zero_epoch_ns": capture.meta.start_epoch_ns,
        "notes": notes::of(&threads).join("\n"),
    });
    write!(events.out, "\n],\"displayTimeUnit\":\"ms\",\"otherData\":{other}}}\n")?;
    events.out.flush()
}

struct Events<'o> {
    out: &'o mut dyn Write,
    pid: u32,
    zero_ns: u64,
    any: bool,
    /// Where a flow begins, until the slice it leads to has come.
    flows: HashMap<u64, (u64, u32)>,
}

impl Events<'_> {
    fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        let tid = match track.stand {
            Stand::Thread(tid) => Some(u64::from(tid)),
            Stand::States(tid) => Some(u64::from(tid) + STATES_OF),
            Stand::Requests | Stand::Awaits | Stand::Overflow(_) => None,
        };
        if let Some(tid) = tid {
            self.named("thread_name", Some(tid), json!({"name": track.name}))?;
            // States below their thread.
            let order = match track.stand {
                Stand::States(tid) => u64::from(tid) * 2 + 1,
                _ => tid * 2,
            };
            self.named("thread_sort_index", Some(tid), json!({"sort_index": order}))?;
            track.slices.iter().try_for_each(|slice| self.complete(tid, slice))?;
        } else {
            self.asynchronous(track)?;
        }
        for mark in &track.marks {
            let mut event = self.event("i", &mark.name, mark.category, mark.t_ns);
            event.insert("s".to_owned(), json!(if tid.is_some() { "t" } else { "p" }));
            event.insert("tid".to_owned(), json!(tid.unwrap_or_default()));
            event.insert("args".to_owned(), args(&mark.args));
            self.push(event)?;
            if let Some(flow) = mark.flow {
                self.flows.insert(flow, (mark.t_ns, mark.tid));
            }
        }
        Ok(())
    }

    fn complete(&mut self, tid: u64, slice: &Slice<'_>) -> io::Result<()> {
        let mut event = self.event("X", &slice.name, slice.category, slice.begin_ns);
        event.insert("tid".to_owned(), json!(tid));
        let dur_ns = i128::from(slice.end_ns) - i128::from(slice.begin_ns);
        event.insert("dur".to_owned(), micros(dur_ns));
        event.insert("args".to_owned(), args(&slice.args));
        self.push(event)?;
        let from = slice.flow.and_then(|flow| self.flows.remove(&flow));
        if let (Some(flow), Some((queued_ns, from))) = (slice.flow, from) {
            for (phase, t_ns, tid) in [("s", queued_ns, from.into()), ("f", slice.begin_ns, tid)] {
                let mut event = self.event(phase, "handed over", "flow", t_ns);
                event.insert("id".to_owned(), json!(flow));
                event.insert("tid".to_owned(), json!(tid));
                if phase == "f" {
                    event.insert("bp".to_owned(), json!("e"));
                }
                self.push(event)?;
            }
        }
        Ok(())
    }

    /// Slices of a lane as begins and ends: they nest, so an end belongs to the latest begin.
    fn asynchronous(&mut self, track: &Track<'_>) -> io::Result<()> {
        let kind = match track.stand {
            Stand::Requests => "requests".to_owned(),
            Stand::Awaits => "awaits".to_owned(),
            Stand::Thread(tid) | Stand::Overflow(tid) | Stand::States(tid) => format!("{tid}"),
        };
        let id = format!("{kind}.{}", track.lane);
        let mut open: Vec<&Slice<'_>> = Vec::new();
        for slice in &track.slices {
            while let Some(over) = open.last().filter(|over| over.end_ns <= slice.begin_ns) {
                self.edge("e", over, &kind, &id)?;
                open.pop();
            }
            self.edge("b", slice, &kind, &id)?;
            open.push(slice);
        }
        open.iter().rev().try_for_each(|over| self.edge("e", over, &kind, &id))
    }

    fn edge(&mut self, phase: &str, slice: &Slice<'_>, kind: &str, id: &str) -> io::Result<()> {
        let t_ns = if phase == "b" { slice.begin_ns } else { slice.end_ns };
        // One category a lane: viewers pair events by category and id.
        let mut event = self.event(phase, &slice.name, kind, t_ns);
        event.insert("id".to_owned(), json!(id));
        event.insert("tid".to_owned(), json!(0));
        if phase == "b" {
            let mut all = args(&slice.args);
            all["kind"] = json!(slice.category);
            event.insert("args".to_owned(), all);
        }
        self.push(event)
    }

    fn event(&self, phase: &str, name: &str, category: &str, t_ns: u64) -> Map<String, Value> {
        let since = i128::from(t_ns) - i128::from(self.zero_ns);
        let mut event = Map::new();
        event.insert("ph".to_owned(), json!(phase));
        event.insert("name".to_owned(), json!(name));
        event.insert("cat".to_owned(), json!(category));
        event.insert("pid".to_owned(), json!(self.pid));
        event.insert("ts".to_owned(), micros(since));
        event
    }

    fn named(&mut self, what: &str, tid: Option<u64>, args: Value) -> io::Result<()> {
        let mut event = Map::new();
        event.insert("ph".to_owned(), json!("M"));
        event.insert("name".to_owned(), json!(what));
        event.insert("pid".to_owned(), json!(self.pid));
        event.insert("tid".to_owned(), json!(tid.unwrap_or_default()));
        event.insert("args".to_owned(), args);
        self.push(event)
    }

    fn push(&mut self, event: Map<String, Value>) -> io::Result<()> {
        self.out.write_all(if self.any { b",\n" } else { b"\n" })?;
        self.any = true;
        serde_json::to_writer(&mut self.out, &event).map_err(io::Error::from)
    }
}

/// Nanoseconds as microseconds with three decimals.
fn micros(ns: i128) -> Value {
    // A double holds them exactly enough: to 1 ns in the first 104 days of a recording.
    Number::from_f64(ns as f64 / 1e3).map_or(Value::Null, Value::Number)
}

fn args(list: &Args<'_>) -> Value {
    let mut out = Map::new();
    for (name, value) in list {
        let value = match value {
            Arg::Int(v) => json!(v),
            Arg::Count(v) => json!(v),
            Arg::Float(v) if v.is_finite() => json!(v),
            Arg::Float(v) => json!(v.to_string()),
            Arg::Bool(v) => json!(v),
            Arg::Text(v) => json!(v),
        };
        // What the host named like one of ours stays beside it.
        let mut key = name.to_string();
        while out.contains_key(&key) {
            key.push('\'');
        }
        out.insert(key, value);
    }
    Value::Object(out)
}
