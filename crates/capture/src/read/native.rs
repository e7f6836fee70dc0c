//! Stacks of threads that were running native code, joined to their samples.
//!
//! A record of such a stack belongs to the sample of the same thread and time. Its words become
//! nodes inside the stack that the sample names, as if the host had put them into its tables. The
//! record of a wakeup becomes a stack of its own: the waker's.

use std::collections::HashMap;

use format::native::NativeStack;

use super::capture::Capture;
use super::tables::{Code, StackNode};

/// A record's content.
#[derive(Debug)]
pub struct Row {
    t_ns: u64,
    tid: u32,
    of_waking: bool,
    file: u32,
    offset: u64,
    words: Vec<(u32, u32)>,
}

impl Row {
    pub fn of(stack: NativeStack<'_>) -> Row {
        let NativeStack { t_ns, tid, of_waking, file, offset, .. } = stack;
        Row { t_ns, tid, of_waking, file, offset, words: stack.words().collect() }
    }
}

/// Adds the stacks to the capture's tables and samples, which are sorted. A stack whose sample or
/// wakeup is missing (overwritten) is left out. `nodes`: what was added to the tables before.
pub fn join(capture: &mut Capture, rows: Vec<Row>, nodes: &mut Nodes) {
    for row in rows {
        if row.of_waking {
            if capture.is_woken_at(row.tid, row.t_ns) {
                if let Some(node) = nodes.stack(capture, 0, &row) {
                    capture.waker_stacks.insert((row.tid, row.t_ns), node);
                }
            }
            continue;
        }
        let samples = capture.samples.get(&row.tid).map_or(&[][..], Vec::as_slice);
        let at = samples.partition_point(|s| s.t_ns < row.t_ns);
        let Some(parent) = samples.get(at).filter(|s| s.t_ns == row.t_ns).map(|s| s.stack) else {
            continue;
        };
        let Some(node) = nodes.stack(capture, parent, &row) else { continue };
        if let Some(sample) = capture.samples.get_mut(&row.tid).and_then(|s| s.get_mut(at)) {
            sample.stack = node;
        }
    }
}

/// What was added to the tables.
#[derive(Default)]
pub struct Nodes {
    nodes: HashMap<(u32, u32, u32), u32>,
    codes: HashMap<(u32, u64), u32>,
    names: HashMap<u64, u32>,
    /// The name "?", once it is needed.
    nowhere: Option<u32>,
}

impl Nodes {
    /// The stack of a record inside `parent`; None where it has no words.
    fn stack(&mut self, capture: &mut Capture, parent: u32, row: &Row) -> Option<u32> {
        let (first, outer) = row.words.split_first()?;
        let mut node = parent;
        for (code, line) in outer.iter().rev() {
            node = self.node(capture, node, *code, *line);
        }
        let code = self.code(capture, row.file, row.offset);
        Some(self.node(capture, node, code, first.1))
    }

    fn node(&mut self, capture: &mut Capture, parent: u32, code: u32, line: u32) -> u32 {
        *self.nodes.entry((parent, code, line)).or_insert_with(|| {
            capture.stacks.push(StackNode { parent, code, line });
            capture.stacks.len() as u32
        })
    }

    /// The code entry of an address; file 0: it lies in no file.
    fn code(&mut self, capture: &mut Capture, file: u32, offset: u64) -> u32 {
        if let Some(code) = self.codes.get(&(file, offset)) {
            return *code;
        }
        let add = |names: &mut Vec<String>, text: String| {
            names.push(text);
            names.len() as u32 - 1
        };
        let names = &mut capture.names;
        let (function, file_name) = if file == 0 {
            let nowhere = *self.nowhere.get_or_insert_with(|| add(names, "?".to_owned()));
            (nowhere, nowhere)
        } else {
            let text = || add(names, format!("{offset:#x}"));
            (*self.names.entry(offset).or_insert_with(text), file)
        };
        let code = Code {
            function,
            file: file_name,
            first_line: 0,
            releases: false,
            native: true,
            inner: false,
        };
        capture.codes.push(code);
        let id = capture.codes.len() as u32;
        self.codes.insert((file, offset), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::OffCpu;
    use super::*;
    use format::native::Builder;
    use format::record::{decode, Record};
    use format::wake::{Wake, Waker};

    fn row(tid: u32, t_ns: u64) -> Row {
        let mut made = Builder::new(tid, 1, 0x40);
        assert!(made.push(0, 3) && made.push(1, 0));
        match decode(made.finish_of_waking(t_ns)) {
            Some((_, Record::NativeStack(stack))) => Row::of(stack),
            other => panic!("no stack: {other:?}"),
        }
    }

    #[test]
    fn a_waker_stack_is_joined_to_its_wakeup_only() {
        let mut capture = Capture::default();
        let code = Code {
            function: 2,
            file: 1,
            first_line: 0,
            releases: false,
            native: true,
            inner: false,
        };
        capture.codes.push(code);
        capture.names = ["", "/srv/app\t", "0x1234"].map(str::to_owned).to_vec();
        let wake = |t_ns, by| Wake { t_ns, tid: 7, by: Waker::Thread(by) };
        capture.wakes.insert(7, vec![wake(500, 9), wake(501, 9), wake(900, 9)]);
        join(&mut capture, vec![row(7, 501), row(7, 600), row(8, 500)], &mut Nodes::default());
        assert_eq!(capture.waker_stacks.keys().collect::<Vec<_>>(), [&(7, 501)]);
        let off = |out_ns, in_ns| OffCpu { out_ns, in_ns, preempted: false, cpu: None };
        let stack = capture.waker_stack_in(7, &off(400, 550));
        let frames: Vec<&str> = capture.frames(stack).map(|frame| frame.function).collect();
        assert_eq!(frames, ["0x40", "0x1234"]);
        assert_eq!(capture.waker_stack_in(7, &off(800, 950)), 0, "that one was told without");
        assert_eq!(capture.waker_stack_in(8, &off(400, 550)), 0);
        // The first wakeup ended the wait; a later one with a stack says nothing about it.
        capture.wakes.insert(7, vec![Wake { by: Waker::Kernel, ..wake(500, 9) }, wake(501, 9)]);
        assert_eq!(capture.waker_stack_in(7, &off(400, 550)), 0);
    }
}
