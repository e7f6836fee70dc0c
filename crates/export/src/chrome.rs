//! Trace event JSON, for chrome://tracing and Perfetto's page.
//!
//! The format is described in "Trace Event Format" (Google, 2016).
//!
//! | of the capture | in the file |
//! | --- | --- |
//! | a thread's slices | complete events (`X`) |
//! | its states | complete events of a second thread beside it |
//! | requests, awaits, slices that do not nest | async events (`b`, `e`); their id is their lane |
//! | events | instants (`i`) |
//! | work handed over | a flow (`s`, `f`) |
//! | vitals | counters (`C`) |
//!
//! Times are microseconds with three decimals since the recording began, so nothing is rounded.
//! Missing on purpose: samples of stacks, which have no place in the format; a state names its
//! innermost frame.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use analysis::states::Threads;
use capture::read::Capture;
use serde_json::json;

use crate::part_writer::PartWriter;
use crate::scene::{self, Arg, Args, Slice, Subject, Track};
use crate::{notes, Progress};

/// Added to a thread's id for its states. Linux gives ids below 4,194,304.
const STATES_OF: u64 = 1_000_000_000;

/// The writer of the trace.
pub(crate) struct Events<'o> {
    out: &'o mut dyn Write,
    pid: u32,
    zero_ns: u64,
    any: bool,
    /// The buffer of the last event, reused for the next.
    spare: Vec<u8>,
    /// Where a flow begins, kept until its target slice comes: when, on which thread.
    flows: HashMap<u64, (u64, u32)>,
    /// Threads whose names are written.
    named: HashSet<u64>,
    kept: scene::Kept,
}

impl<'o> Events<'o> {
    pub(crate) fn new(out: &'o mut dyn Write) -> Events<'o> {
        Events {
            out,
            pid: 0,
            zero_ns: 0,
            any: false,
            spare: Vec::new(),
            flows: HashMap::new(),
            named: HashSet::new(),
            kept: scene::Kept::default(),
        }
    }
}

impl PartWriter for Events<'_> {
    fn part(&mut self, capture: &Capture, progress: &mut Progress<'_>) -> io::Result<()> {
        let threads = Threads::new(capture);
        if !self.any {
            (self.pid, self.zero_ns) = (capture.meta.pid, capture.meta.start_ns);
            self.out.write_all(b"{\"traceEvents\":[")?;
            let name = format!("{} {}", capture.meta.service, capture.meta.pid);
            self.named("process_name", 0, |args| args.text("name", &name))?;
        }
        let mut kept = std::mem::take(&mut self.kept);
        scene::tracks(&threads, &mut kept, progress, &mut |track| self.track(&track))?;
        self.kept = kept;
        for counter in scene::counters(capture) {
            for (t_ns, value) in counter.points {
                let mut event = self.event("C", counter.name, "vital", t_ns);
                event.object("args", |args| args.number("value", value));
                self.push(event)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, capture: &Capture, _: &mut Progress<'_>) -> io::Result<()> {
        let other = json!({
            "clock": "CLOCK_MONOTONIC",
            "zero_ns": capture.meta.start_ns,
            "zero_epoch_ns": capture.meta.start_epoch_ns,
            "notes": notes::of(&Threads::new(capture)).join("\n"),
        });
        write!(self.out, "\n],\"displayTimeUnit\":\"ms\",\"otherData\":{other}}}\n")?;
        self.out.flush()
    }
}

impl Events<'_> {
    fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        let tid = match track.subject {
            Subject::Thread(tid) => Some(u64::from(tid)),
            Subject::States(tid) => Some(u64::from(tid) + STATES_OF),
            Subject::Requests | Subject::Awaits | Subject::Overflow(_) => None,
        };
        if let Some(tid) = tid {
            if self.named.insert(tid) {
                self.named("thread_name", tid, |args| args.text("name", &track.name))?;
                // States below their thread.
                let order = match track.subject {
                    Subject::States(tid) => u64::from(tid) * 2 + 1,
                    _ => tid * 2,
                };
                self.named("thread_sort_index", tid, |args| args.number("sort_index", order))?;
            }
            track.slices.iter().try_for_each(|slice| self.complete(tid, slice))?;
        } else {
            self.asynchronous(track)?;
        }
        for mark in &track.marks {
            let mut event = self.event("i", &mark.name, mark.category, mark.t_ns);
            event.text("s", if tid.is_some() { "t" } else { "p" });
            event.number("tid", tid.unwrap_or_default());
            event.object("args", |args| all(args, &mark.args));
            self.push(event)?;
            if let Some(flow) = mark.flow {
                self.flows.insert(flow, (mark.t_ns, mark.tid));
            }
        }
        Ok(())
    }

    fn complete(&mut self, tid: u64, slice: &Slice<'_>) -> io::Result<()> {
        let mut event = self.event("X", &slice.name, slice.category, slice.begin_ns);
        event.number("tid", tid);
        event.micros("dur", i128::from(slice.end_ns) - i128::from(slice.begin_ns));
        event.object("args", |args| all(args, &slice.args));
        self.push(event)?;
        let from = slice.flow.and_then(|flow| self.flows.remove(&flow));
        if let (Some(flow), Some((queued_ns, from))) = (slice.flow, from) {
            for (phase, t_ns, tid) in [("s", queued_ns, from.into()), ("f", slice.begin_ns, tid)] {
                let mut event = self.event(phase, "handed over", "flow", t_ns);
                event.number("id", flow);
                event.number("tid", tid);
                if phase == "f" {
                    event.text("bp", "e");
                }
                self.push(event)?;
            }
        }
        Ok(())
    }

    /// Slices of a lane as begin and end events: they nest, so an end belongs to the latest begin.
    fn asynchronous(&mut self, track: &Track<'_>) -> io::Result<()> {
        let kind = match track.subject {
            Subject::Requests => "requests".to_owned(),
            Subject::Awaits => "awaits".to_owned(),
            Subject::Thread(tid) | Subject::Overflow(tid) | Subject::States(tid) => {
                format!("{tid}")
            }
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
        // One category for each lane: viewers pair events by category and id.
        let mut event = self.event(phase, &slice.name, kind, t_ns);
        event.text("id", id);
        event.number("tid", 0);
        if phase == "b" {
            event.object("args", |args| {
                args.text("kind", slice.category);
                all(args, &slice.args);
            });
        }
        self.push(event)
    }

    fn event(&mut self, phase: &str, name: &str, category: &str, t_ns: u64) -> Object {
        let mut event = Object::new(std::mem::take(&mut self.spare));
        event.text("ph", phase);
        event.text("name", name);
        event.text("cat", category);
        event.number("pid", self.pid);
        event.micros("ts", i128::from(t_ns) - i128::from(self.zero_ns));
        event
    }

    fn named(&mut self, what: &str, tid: u64, args: impl FnOnce(&mut Object)) -> io::Result<()> {
        let mut event = Object::new(std::mem::take(&mut self.spare));
        event.text("ph", "M");
        event.text("name", what);
        event.number("pid", self.pid);
        event.number("tid", tid);
        event.object("args", args);
        self.push(event)
    }

    fn push(&mut self, event: Object) -> io::Result<()> {
        self.out.write_all(if self.any { b",\n" } else { b"\n" })?;
        self.any = true;
        self.spare = event.finish();
        self.out.write_all(&self.spare)
    }
}

/// A JSON object under construction, as text: a capture has millions of them.
struct Object {
    text: Vec<u8>,
}

impl Object {
    fn new(mut text: Vec<u8>) -> Object {
        text.clear();
        text.push(b'{');
        Object { text }
    }

    fn key(&mut self, key: &str) {
        if self.text.last() != Some(&b'{') {
            self.text.push(b',');
        }
        self.json(key);
        self.text.push(b':');
    }

    fn json(&mut self, text: &str) {
        // Writing into a Vec does not fail, and a text is always JSON.
        let _ = serde_json::to_writer(&mut self.text, text);
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        self.json(value);
    }

    /// A number or a boolean, the text of which is JSON.
    fn number(&mut self, key: &str, value: impl std::fmt::Display) {
        self.key(key);
        let _ = write!(self.text, "{value}");
    }

    /// Nanoseconds as microseconds with three decimals: nothing is rounded.
    fn micros(&mut self, key: &str, ns: i128) {
        self.key(key);
        let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
        let _ = write!(self.text, "{sign}{}.{:03}", ns / 1000, ns % 1000);
    }

    fn object(&mut self, key: &str, fill: impl FnOnce(&mut Object)) {
        self.key(key);
        self.text.push(b'{');
        fill(self);
        self.text.push(b'}');
    }

    fn finish(mut self) -> Vec<u8> {
        self.text.push(b'}');
        self.text
    }
}

fn all(object: &mut Object, args: &Args<'_>) {
    for (i, (name, value)) in args.iter().enumerate() {
        // A host's key with the name of a key of ours is written beside it.
        let again = args[..i].iter().filter(|(before, _)| before == name).count();
        let ours = usize::from(name == "kind");
        let name = format!("{name}{}", "'".repeat(again + ours));
        match value {
            Arg::Int(v) => object.number(&name, v),
            Arg::Count(v) => object.number(&name, v),
            Arg::Float(v) if v.is_finite() => object.number(&name, v),
            Arg::Float(v) => object.text(&name, &v.to_string()),
            Arg::Bool(v) => object.number(&name, v),
            Arg::Text(v) => object.text(&name, v),
        }
    }
}
