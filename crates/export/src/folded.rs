//! Folded stacks, the input of Brendan Gregg's flamegraph.pl: `root;...;leaf VALUE`, one line for
//! each stack, all threads together.
//!
//! A frame is `function (file:line)`; a thread without a stack is `thread name;[no Python stack]`.
//! `;` and line breaks would end a frame or a line: they become `:` and a blank. Times are
//! nanoseconds, so that the sum of the lines is the measured time (`flamegraph.pl --countname ns`).
//! Missing on purpose: the notes, since the format has no comments.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use analysis::states::Threads;
use analysis::words;
use capture::read::Capture;

use crate::frames::{self, Frames};
use crate::part_writer::PartWriter;
use crate::{weights, Progress, Value};

/// The writer of one line a stack, sorted; stacks of value 0 are left out.
pub(crate) struct Lines<'o> {
    value: Value,
    out: &'o mut dyn Write,
    sums: HashMap<(Option<u32>, u32), u64>,
}

impl<'o> Lines<'o> {
    pub(crate) fn new(value: Value, out: &'o mut dyn Write) -> Lines<'o> {
        Lines { value, out, sums: HashMap::new() }
    }
}

impl PartWriter for Lines<'_> {
    fn part(&mut self, capture: &Capture, progress: &mut Progress<'_>) -> io::Result<()> {
        let threads = Threads::new(capture);
        for (done, tid) in threads.ids().enumerate() {
            progress(done as u64, threads.ids().len() as u64);
            for weighted in weights::of_thread(&threads, tid) {
                // Without stacks, threads differ by their names only.
                let stack = weighted.stack();
                let by = if stack.unwrap_or(0) == 0 { tid } else { 0 };
                let sum = self.sums.entry((stack, by)).or_default();
                *sum = sum.saturating_add(weighted.value(self.value));
            }
        }
        Ok(())
    }

    fn finish(&mut self, capture: &Capture, _: &mut Progress<'_>) -> io::Result<()> {
        let threads = Threads::new(capture);
        // Stacks that differ only in what is not shown are one line.
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        // In an order of their own, so that a cut always removes the same stacks.
        let mut sums: Vec<_> = std::mem::take(&mut self.sums).into_iter().collect();
        sums.sort_unstable();
        let mut frames = Frames::new(capture);
        for ((stack, tid), sum) in sums.into_iter().filter(|(_, sum)| *sum > 0) {
            let line = lines.entry(line(&threads, &mut frames, stack, tid)).or_default();
            *line = line.saturating_add(sum);
        }
        for (line, sum) in lines {
            writeln!(self.out, "{line} {sum}")?;
        }
        self.out.flush()
    }
}

fn line(threads: &Threads<'_>, frames: &mut Frames<'_>, stack: Option<u32>, tid: u32) -> String {
    let frames = frames.of(stack.unwrap_or(0));
    if frames.is_empty() {
        return format!("{};{}", escaped(&threads.name(tid)), frames::no_frames(stack));
    }
    let text = |frame| escaped(&words::frame(threads.capture, frame));
    frames.iter().rev().map(text).collect::<Vec<_>>().join(";")
}

fn escaped(frame: &str) -> String {
    let safe = |c: char| match c {
        ';' => ':',
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => ' ',
        c => c,
    };
    frame.chars().map(safe).collect()
}
