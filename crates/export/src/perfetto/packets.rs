//! Packets of the trace: clocks, tracks, slices, instants, counters.
//!
//! How it works: each packet is written as soon as it is known, as a field of the `Trace` that the
//! file is.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::states::Threads;
use capture::read::Capture;
use prost::Message;

use super::proto::{
    self, event_type, unit, Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation,
    PerfSampleDefaults, ProcessDescriptor, ThreadDescriptor, Timebase, TracePacket,
    TracePacketDefaults, Tracepoint, TrackDescriptor, TrackEvent,
};
use crate::notes;
use crate::scene::{Arg, Args, Counter, Mark, Slice, Subject, Track};

/// The process's track.
pub(super) const PROCESS: u64 = 1;

/// The writer of packets.
pub(super) struct Packets<'o> {
    pub(super) out: &'o mut dyn Write,
    last_track: u64,
    pub(super) pid: i32,
    /// Tracks that have their descriptor: by position and lane, and of counters.
    tracks: HashMap<(Subject, usize), u64>,
    counters: HashMap<String, u64>,
}

impl<'o> Packets<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Packets<'o> {
        let (tracks, counters) = (HashMap::new(), HashMap::new());
        Packets { out, last_track: PROCESS, pid: 0, tracks, counters }
    }

    /// One packet, as a field of the `Trace` that the file is.
    pub(super) fn push(&mut self, packet: TracePacket) -> io::Result<()> {
        let flags = packet.sequence_flags.unwrap_or(proto::NEEDS_STATE);
        let packet = TracePacket {
            trusted_packet_sequence_id: Some(1),
            sequence_flags: Some(flags),
            ..packet
        };
        // Field 1, length-delimited; then the length.
        let mut bytes = vec![0x0a];
        packet.encode_length_delimited(&mut bytes).map_err(io::Error::other)?;
        self.out.write_all(&bytes)
    }

    pub(super) fn clocks(&mut self, capture: &Capture) -> io::Result<()> {
        let meta = &capture.meta;
        let clock = |id, ns| Clock { clock_id: Some(id), timestamp: Some(ns) };
        let clocks = vec![
            clock(proto::MONOTONIC, meta.start_ns),
            clock(proto::REALTIME, meta.start_epoch_ns),
        ];
        let primary_trace_clock = Some(proto::MONOTONIC);
        let snapshot = ClockSnapshot { clocks, primary_trace_clock };
        let timebase = Timebase {
            frequency: None,
            tracepoint: Some(Tracepoint { name: Some("wall_ns".to_owned()) }),
            name: Some("wall_ns".to_owned()),
            timestamp_clock: Some(proto::PERF_CLOCK_MONOTONIC),
        };
        self.push(TracePacket {
            sequence_flags: Some(proto::STATE_CLEARED),
            clock_snapshot: Some(snapshot),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(proto::MONOTONIC),
                perf_sample_defaults: Some(PerfSampleDefaults { timebase: Some(timebase) }),
            }),
            ..TracePacket::default()
        })
    }

    pub(super) fn begin(&mut self, threads: &Threads<'_>) -> io::Result<()> {
        let meta = &threads.capture.meta;
        let notes = notes::of(threads);
        self.descriptor(TrackDescriptor {
            uuid: Some(PROCESS),
            process: Some(ProcessDescriptor {
                pid: Some(self.pid),
                process_name: Some(meta.service.clone()),
                process_labels: notes.clone(),
            }),
            child_ordering: Some(proto::EXPLICIT),
            description: Some(notes.join("\n")),
            ..TrackDescriptor::default()
        })
    }

    fn descriptor(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.push(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    fn new_track(&mut self) -> u64 {
        self.last_track += 1;
        self.last_track
    }

    /// `thread`: the track of the thread that was written last, the parent of its other tracks.
    pub(super) fn track(&mut self, track: &Track<'_>, thread: &mut u64) -> io::Result<()> {
        let place = (track.subject, track.lane);
        if let Some(uuid) = self.tracks.get(&place).copied() {
            if matches!(track.subject, Subject::Thread(_)) {
                *thread = uuid;
            }
            return self.content(uuid, track);
        }
        let uuid = self.new_track();
        self.tracks.insert(place, uuid);
        let below = |uuid| Some(uuid);
        let (parent_uuid, rank) = match track.subject {
            Subject::Requests => (below(PROCESS), 0),
            Subject::Awaits => (below(PROCESS), 1),
            Subject::Thread(_) => (None, 0),
            Subject::Overflow(_) | Subject::States(_) => (below(*thread), 2),
        };
        let mut descriptor = TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid,
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::default()
        };
        match track.subject {
            Subject::Thread(tid) => {
                *thread = uuid;
                descriptor.thread = Some(ThreadDescriptor {
                    pid: Some(self.pid),
                    tid: Some(i64::from(tid)),
                    thread_name: Some(track.name.clone()),
                });
            }
            _ => descriptor.name = Some(track.name.clone()),
        }
        self.descriptor(descriptor)?;
        self.content(uuid, track)
    }

    fn content(&mut self, uuid: u64, track: &Track<'_>) -> io::Result<()> {
        self.slices(uuid, &track.slices)?;
        track.marks.iter().try_for_each(|mark| self.mark(uuid, mark))
    }

    /// Begin and end events: slices nest, so an end belongs to the latest begin.
    fn slices(&mut self, track: u64, slices: &[Slice<'_>]) -> io::Result<()> {
        let mut open: Vec<u64> = Vec::new();
        for slice in slices {
            while let Some(end_ns) = open.last().copied().filter(|end| *end <= slice.begin_ns) {
                self.end(track, end_ns)?;
                open.pop();
            }
            let event = TrackEvent {
                r#type: Some(event_type::SLICE_BEGIN),
                track_uuid: Some(track),
                categories: vec![slice.category.to_owned()],
                name: Some(slice.name.to_string()),
                debug_annotations: annotations(&slice.args),
                terminating_flow_ids: slice.flow.into_iter().collect(),
                ..TrackEvent::default()
            };
            self.event(slice.begin_ns, event)?;
            open.push(slice.end_ns);
        }
        open.iter().rev().try_for_each(|end_ns| self.end(track, *end_ns))
    }

    fn end(&mut self, track: u64, end_ns: u64) -> io::Result<()> {
        let kind = Some(event_type::SLICE_END);
        let (track_uuid, rest) = (Some(track), TrackEvent::default());
        self.event(end_ns, TrackEvent { r#type: kind, track_uuid, ..rest })
    }

    fn mark(&mut self, track: u64, mark: &Mark<'_>) -> io::Result<()> {
        let event = TrackEvent {
            r#type: Some(event_type::INSTANT),
            track_uuid: Some(track),
            categories: vec![mark.category.to_owned()],
            name: Some(mark.name.to_string()),
            debug_annotations: annotations(&mark.args),
            flow_ids: mark.flow.into_iter().collect(),
            ..TrackEvent::default()
        };
        self.event(mark.t_ns, event)
    }

    fn event(&mut self, t_ns: u64, event: TrackEvent) -> io::Result<()> {
        let (timestamp, track_event) = (Some(t_ns), Some(event));
        self.push(TracePacket { timestamp, track_event, ..TracePacket::default() })
    }

    fn counter_track(&mut self, name: &str) -> io::Result<u64> {
        let uuid = self.new_track();
        self.counters.insert(name.to_owned(), uuid);
        let (unit, unit_name) = unit_of(name);
        self.descriptor(TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: Some(PROCESS),
            name: Some(name.to_owned()),
            counter: Some(CounterDescriptor { unit, unit_name }),
            sibling_order_rank: Some(2),
            ..TrackDescriptor::default()
        })?;
        Ok(uuid)
    }

    pub(super) fn counter(&mut self, counter: &Counter<'_>) -> io::Result<()> {
        let uuid = match self.counters.get(counter.name) {
            Some(uuid) => *uuid,
            None => self.counter_track(counter.name)?,
        };
        for (t_ns, value) in &counter.points {
            let event = TrackEvent {
                r#type: Some(event_type::COUNTER),
                track_uuid: Some(uuid),
                double_counter_value: Some(*value),
                ..TrackEvent::default()
            };
            self.event(*t_ns, event)?;
        }
        Ok(())
    }
}

/// The unit at the end of a vital's name: one that Perfetto knows, or the word itself.
fn unit_of(name: &str) -> (Option<i32>, Option<String>) {
    match name.rsplit('_').next() {
        Some("ns") => (Some(unit::TIME_NS), None),
        Some("bytes") => (Some(unit::SIZE_BYTES), None),
        Some(word @ ("us" | "ms" | "percent" | "ticks")) => (None, Some(word.to_owned())),
        _ => (Some(unit::COUNT), None),
    }
}

fn annotations(args: &Args<'_>) -> Vec<DebugAnnotation> {
    let annotation = |(name, value): &(std::borrow::Cow<'_, str>, Arg)| {
        let mut out = DebugAnnotation { name: Some(name.to_string()), ..Default::default() };
        match value {
            Arg::Int(v) => out.int_value = Some(*v),
            Arg::Count(v) => out.uint_value = Some(*v),
            Arg::Float(v) => out.double_value = Some(*v),
            Arg::Bool(v) => out.bool_value = Some(*v),
            Arg::Text(v) => out.string_value = Some(v.clone()),
        }
        out
    };
    args.iter().map(annotation).collect()
}
