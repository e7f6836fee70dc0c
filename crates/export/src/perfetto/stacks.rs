//! Samples of stacks, by time over all threads, and the entries they refer to, each written before
//! its first use.

use std::collections::{HashMap, HashSet};
use std::io;

use analysis::states::Threads;
use capture::read::Frame;
use format::record::Sample;

use super::packets::Packets;
use super::proto::{
    self, Callstack, InternedData, InternedString, Mapping, PerfSample, TracePacket,
};
use crate::frames::Frames;

/// Writes the samples of a part that have a stack.
pub fn write(
    threads: &Threads<'_>,
    known: &mut Known,
    packets: &mut Packets<'_>,
) -> io::Result<()> {
    let capture = threads.capture;
    let all = capture.samples.values().flatten();
    let mut samples: Vec<&Sample> = all.filter(|s| s.stack != 0 && capture.owns(s.t_ns)).collect();
    samples.sort_by_key(|s| (s.t_ns, s.tid));
    let mut frames = Frames::after(capture, known.written);
    for sample in samples {
        let Some(data) = known.stack(&mut frames, sample.stack) else { continue };
        // Nothing new: no packet for it.
        let interned_data = (data != InternedData::default()).then_some(data);
        known.wall_ns = known.wall_ns.saturating_add(sample.wall_ns);
        packets.push(TracePacket {
            timestamp: Some(sample.t_ns),
            interned_data,
            perf_sample: Some(PerfSample {
                cpu: Some(0),
                pid: Some(capture.meta.pid),
                tid: Some(sample.tid),
                callstack_iid: Some(u64::from(sample.stack)),
                cpu_mode: Some(proto::MODE_USER),
                timebase_count: Some(known.wall_ns),
            }),
            ..TracePacket::default()
        })?;
    }
    known.written = frames.written();
    Ok(())
}

/// The entries that were written already. Ids are those of the capture, or count up from 1.
#[derive(Default)]
pub struct Known {
    /// Wall time of the samples so far.
    wall_ns: u64,
    /// Frames so far.
    written: usize,
    stacks: HashSet<u32>,
    frames: HashMap<(u32, u32), u64>,
    functions: HashMap<String, u64>,
    files: HashMap<String, u64>,
}

impl Known {
    /// The entries that must be written before the stack can be named; None: it has no frames.
    fn stack(&mut self, frames: &mut Frames<'_>, stack: u32) -> Option<InternedData> {
        let mut data = InternedData::default();
        if self.stacks.contains(&stack) {
            return Some(data);
        }
        let mut frame_ids: Vec<u64> =
            frames.of(stack).iter().map(|frame| self.frame(frame, &mut data)).collect();
        if frame_ids.is_empty() {
            return None;
        }
        // Outermost first.
        frame_ids.reverse();
        data.callstacks.push(Callstack { iid: Some(u64::from(stack)), frame_ids });
        self.stacks.insert(stack);
        Some(data)
    }

    fn frame(&mut self, frame: &Frame<'_>, data: &mut InternedData) -> u64 {
        let key = (frame.code, frame.line);
        if let Some(iid) = self.frames.get(&key) {
            return *iid;
        }
        let function = interned(&mut self.functions, frame.function, &mut data.function_names);
        let new_file = !self.files.contains_key(frame.file);
        let file = interned(&mut self.files, frame.file, &mut data.source_paths);
        if new_file {
            // Older readers show the mapping where a file is missing; they put a slash in front.
            let path = frame.file.strip_prefix('/').unwrap_or(frame.file).as_bytes().to_vec();
            data.mapping_paths.push(InternedString { iid: Some(file), str: Some(path) });
            data.mappings.push(Mapping { iid: Some(file), path_string_ids: vec![file] });
        }
        let iid = self.frames.len() as u64 + 1;
        self.frames.insert(key, iid);
        data.frames.push(proto::Frame {
            iid: Some(iid),
            function_name_id: Some(function),
            mapping_id: Some(file),
            // Older readers distinguish frames of one function by it.
            rel_pc: Some(u64::from(frame.line)),
            source_path_iid: Some(file),
            line_number: Some(frame.line),
            kind: Some(proto::INTERPRETED),
        });
        iid
    }
}

fn interned(known: &mut HashMap<String, u64>, text: &str, data: &mut Vec<InternedString>) -> u64 {
    if let Some(iid) = known.get(text) {
        return *iid;
    }
    let iid = known.len() as u64 + 1;
    known.insert(text.to_owned(), iid);
    data.push(InternedString { iid: Some(iid), str: Some(text.as_bytes().to_vec()) });
    iid
}
