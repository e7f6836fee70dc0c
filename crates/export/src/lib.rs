//! Captures in formats that other tools open: pprof, folded, speedscope, Chrome JSON, Perfetto,
//! OTLP, Zipkin.
//!
//! How it works: each format is one file with a writer of a capture, which comes in whole or in
//! parts (`capture::read::Parts`): what begins in a part is written with it. Three views are
//! shared. `weights` is for flame graphs: stacks with the wall, CPU and off-CPU time spent in them.
//! `scene` is for timelines: tracks of nested slices, instants and counters. `spans` is for traces:
//! spans with ids and parents. All take a thread's states from `analysis::timeline`, so that an
//! export always agrees with the verdict.
//!
//! What it promises: the same capture gives the same bytes; sums of wall, CPU and off-CPU time are
//! those of the records; text of the host is escaped as the format requires; every readable capture
//! gives a valid file, an empty one too. docs/exports.md lists what a format cannot hold; a note
//! inside of the file lists the losses of the capture (sources off, losses, damage).
//!
//! Missing on purpose: no I/O except through the writer that is passed in, and no diagnosis: causes
//! are not in an export.

mod attributes;
pub mod chrome;
pub mod folded;
pub mod frames;
mod holders;
pub mod notes;
mod options;
pub mod otlp;
mod part_writer;
pub mod perfetto;
pub mod pprof;
pub mod scene;
mod seen;
pub mod spans;
pub mod speedscope;
mod spool;
pub mod weights;
pub mod zipkin;

use std::io::{self, Write};

use capture::read::Capture;

pub use options::{Chosen, Options, Progress, Value};
use part_writer::PartWriter;

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `profile.proto`, gzipped: `go tool pprof`, and every tool that reads its format.
    Pprof,
    /// One line for each stack: flamegraph.pl, inferno, and most viewers of flame graphs.
    Folded,
    /// speedscope.app's own JSON.
    Speedscope,
    /// Trace event JSON: chrome://tracing, Perfetto.
    Chrome,
    /// Perfetto's protobuf: ui.perfetto.dev, `trace_processor`.
    Perfetto,
    /// Traces as OTLP's protobuf: OpenTelemetry Collector, and tools that read its files.
    Otlp,
    /// Metrics as OTLP's protobuf.
    OtlpMetrics,
    /// Traces as Zipkin's v2 JSON.
    Zipkin,
}

impl Format {
    /// All formats, in the order of the documentation.
    pub const ALL: [Format; 8] = [
        Format::Pprof,
        Format::Folded,
        Format::Speedscope,
        Format::Chrome,
        Format::Perfetto,
        Format::Otlp,
        Format::OtlpMetrics,
        Format::Zipkin,
    ];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Pprof => "pprof",
            Format::Folded => "folded",
            Format::Speedscope => "speedscope",
            Format::Chrome => "chrome",
            Format::Perfetto => "perfetto",
            Format::Otlp => "otlp",
            Format::OtlpMetrics => "otlp-metrics",
            Format::Zipkin => "zipkin",
        }
    }

    /// The suffix of its files, without the first dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Pprof => "pb.gz",
            Format::Folded => "folded",
            Format::Speedscope => "speedscope.json",
            Format::Chrome => "trace.json",
            Format::Perfetto => "perfetto-trace",
            Format::Otlp => "otlp.pb",
            Format::OtlpMetrics => "otlp-metrics.pb",
            Format::Zipkin => "zipkin.json",
        }
    }

    /// Whether its bytes are binary.
    pub fn is_binary(self) -> bool {
        matches!(self, Format::Pprof | Format::Perfetto | Format::Otlp | Format::OtlpMetrics)
    }

    /// Whether it holds one value for each stack, chosen by `Value`.
    pub fn has_one_value(self) -> bool {
        matches!(self, Format::Folded | Format::Speedscope)
    }
}

fn writer<'o>(
    format: Format,
    options: &Options<'o>,
    out: &'o mut dyn Write,
) -> Box<dyn PartWriter + 'o> {
    match format {
        Format::Pprof => Box::new(pprof::Packed::new(*options, out)),
        Format::Folded => Box::new(folded::Lines::new(options.value, out)),
        Format::Speedscope => Box::new(speedscope::Profiles::new(options.value, out)),
        Format::Chrome => Box::new(chrome::Events::new(out)),
        Format::Perfetto => Box::new(perfetto::Trace::new(out)),
        Format::Otlp => Box::new(otlp::Messages::new(otlp::Signal::Traces, out)),
        Format::OtlpMetrics => Box::new(otlp::Messages::new(otlp::Signal::Metrics, out)),
        Format::Zipkin => Box::new(zipkin::List::new(out)),
    }
}

/// Writes `capture`, which is in memory as a whole, as `format` into `out`. Errors are those of
/// `out`.
pub fn write(
    capture: &Capture,
    format: Format,
    options: &Options<'_>,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<()> {
    let mut writer = writer(format, options, out);
    writer.part(capture, progress)?;
    writer.finish(capture, progress)
}

/// A capture that is read in parts: the part that was read last, and how to read the next in its
/// place. False: there is no further one.
pub struct InParts<'r> {
    /// The part.
    pub capture: Capture,
    /// Reads the next.
    pub next: &'r mut dyn FnMut(&mut Capture) -> io::Result<bool>,
    /// How many parts there are.
    pub count: usize,
}

/// The same of a capture in parts: the memory it takes depends on the size of a part, not on that
/// of the capture. Errors are those of `out` and of reading.
pub fn write_parts(
    parts: &mut InParts<'_>,
    format: Format,
    options: &Options<'_>,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<()> {
    let (mut writer, all) = (writer(format, options, out), parts.count as u64);
    let mut part = 0;
    while (parts.next)(&mut parts.capture)? {
        match all {
            1 => writer.part(&parts.capture, progress)?,
            _ => writer.part(&parts.capture, &mut |_, _| progress(part, all))?,
        }
        part += 1;
    }
    writer.finish(&parts.capture, progress)
}
