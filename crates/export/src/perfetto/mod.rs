//! Perfetto's protobuf trace: ui.perfetto.dev and `trace_processor`.
//!
//! All times are of one clock, CLOCK_MONOTONIC; a clock snapshot relates it to the wall clock.
//!
//! | of the capture | in the trace |
//! | --- | --- |
//! | process, threads | track descriptors |
//! | requests, awaits | tracks below the process, slices that nest |
//! | handlers, spans, tasks, collections, events | slices and instants on the thread's track |
//! | running, runnable, waiting | slices on a track below the thread |
//! | samples of stacks | `PerfSample`, with interned frames (function, file, line) |
//! | work handed to another thread | a flow from the request's track to the thread's slice |
//! | vitals | counters below the process |
//!
//! Why states are slices and not `sched_switch`: Perfetto's own thread states come from ftrace,
//! whose events name the CPU and every other thread that ran on it. A capture has neither, and an
//! invented CPU would show an idle machine. Slices show what is known, and they can name the
//! resource of a wait.
//!
//! Why `PerfSample` and not `StreamingProfilePacket`: it names its thread (streaming packets need a
//! sequence for each thread) and keeps nanoseconds. Samples are of wall time, and a waiting thread
//! is sampled less often than a busy one: a flame graph that counts them shows where threads were
//! seen, the counter `wall_ns` (time since the thread's previous sample, summed up) shows how long.
//! For times by stack use pprof.

mod packets;
pub mod proto;
mod stacks;

use std::io::{self, Write};

use analysis::states::Threads;
use capture::read::Capture;

use crate::options::Progress;
use crate::part_writer::PartWriter;
use crate::scene;
use packets::{Packets, PROCESS};

/// The writer of the trace.
pub(crate) struct Trace<'o> {
    packets: Packets<'o>,
    kept: scene::Kept,
    stacks: stacks::Known,
    begun: bool,
}

impl<'o> Trace<'o> {
    pub(crate) fn new(out: &'o mut dyn Write) -> Trace<'o> {
        let (kept, stacks) = (scene::Kept::default(), stacks::Known::default());
        Trace { packets: Packets::new(out), kept, stacks, begun: false }
    }
}

impl PartWriter for Trace<'_> {
    fn part(&mut self, capture: &Capture, progress: &mut Progress<'_>) -> io::Result<()> {
        let threads = Threads::new(capture);
        let packets = &mut self.packets;
        if !self.begun {
            packets.pid = capture.meta.pid as i32;
            packets.clocks(capture)?;
            packets.begin(&threads)?;
            self.begun = true;
        }
        let mut parent = PROCESS;
        scene::tracks(&threads, &mut self.kept, progress, &mut |track| {
            packets.track(&track, &mut parent)
        })?;
        for counter in scene::counters(capture) {
            packets.counter(&counter)?;
        }
        stacks::write(&threads, &mut self.stacks, packets)
    }

    fn finish(&mut self, _: &Capture, _: &mut Progress<'_>) -> io::Result<()> {
        self.packets.out.flush()
    }
}
