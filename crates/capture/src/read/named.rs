//! Names of native code that came with the capture (chunk `SYMS`).
//!
//! They are appended to the tables, and the samples, wakeups and awaits for which they were
//! resolved get the named stacks. So a reader sees what it would have seen on the host, with its
//! binaries. Ids out of range are left out.

use std::collections::HashMap;

use format::symbols::{Placed, Symbols, OF_TABLE, OWN};

use super::capture::Capture;
use super::tables::{Code, StackNode};

/// Names that are in the tables, and the stacks that they are for.
pub struct Named {
    symbols: Symbols,
    /// Stack nodes of the capture's own table.
    nodes: usize,
    /// The id of the first node that was added.
    first: u32,
}

impl Named {
    /// The id of a stack; None: there is none such.
    fn stack(&self, id: u32) -> Option<u32> {
        match id & OWN {
            0 => (id as usize <= self.nodes).then_some(id),
            _ => {
                let own = id & !OWN;
                (own < self.symbols.nodes.len() as u32).then(|| self.first + own)
            }
        }
    }
}

/// Adds the names in a chunk to the capture's tables; `nodes`: how many stack nodes the capture's
/// own table has. None: there are no such names.
pub fn tables(capture: &mut Capture, chunk: &[u8], nodes: usize) -> Option<Named> {
    let Some(symbols) = Symbols::decode(chunk, super::tables::names) else {
        if !chunk.is_empty() {
            capture.damage.push("chunk \"SYMS\": cut off, left out".to_owned());
        }
        return None;
    };
    Some(add(capture, symbols, nodes))
}

fn add(capture: &mut Capture, symbols: Symbols, nodes: usize) -> Named {
    let first_name = capture.names.len() as u32;
    capture.names.extend(symbols.names.iter().cloned());
    for (id, own) in &symbols.renamed {
        let text = symbols.names.get(*own as usize);
        if let (Some(slot), Some(text)) = (capture.names.get_mut(*id as usize), text) {
            slot.clone_from(text);
        }
    }
    let first_code = capture.codes.len() as u32 + 1;
    capture.codes.extend(symbols.codes.iter().map(|code| Code {
        function: first_name.saturating_add(code.function),
        file: first_name.saturating_add(code.file),
        first_line: 0,
        releases: false,
        native: false,
        inner: code.inner,
    }));
    let named = Named { symbols, nodes, first: capture.stacks.len() as u32 + 1 };
    capture.stacks.extend(named.symbols.nodes.iter().map(|node| StackNode {
        parent: named.stack(node.parent).unwrap_or(0),
        code: first_code.saturating_add(node.code),
        line: node.line,
    }));
    named
}

/// Gives the capture's samples and wakeups, which are sorted, their named stacks.
pub fn place(capture: &mut Capture, named: &Named) {
    place_samples(capture, &named.symbols.samples, |id| named.stack(id));
    for waking in &named.symbols.wakings {
        let stack = named.stack(waking.stack);
        if let Some(stack) = stack.filter(|_| capture.is_woken_at(waking.tid, waking.t_ns)) {
            capture.waker_stacks.insert((waking.tid, waking.t_ns), stack);
        }
    }
    let of_table = named.symbols.samples.iter().filter(|one| one.tid == OF_TABLE);
    let stacks: HashMap<u64, u32> =
        of_table.filter_map(|one| Some((one.t_ns, named.stack(one.stack)?))).collect();
    for row in capture.awaits.values_mut().flatten() {
        row.stack = stacks.get(&u64::from(row.stack)).copied().unwrap_or(row.stack);
    }
}

fn place_samples(capture: &mut Capture, placed: &[Placed], stack: impl Fn(u32) -> Option<u32>) {
    let mut by_thread: HashMap<u32, Vec<&Placed>> = HashMap::new();
    for one in placed {
        by_thread.entry(one.tid).or_default().push(one);
    }
    for (tid, placed) in by_thread {
        let Some(samples) = capture.samples.get_mut(&tid) else { continue };
        for one in placed {
            let at = samples.partition_point(|s| s.t_ns < one.t_ns);
            let sample = samples.get_mut(at).filter(|s| s.t_ns == one.t_ns);
            if let (Some(sample), Some(stack)) = (sample, stack(one.stack)) {
                sample.stack = stack;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::record::{decode, Record, Sample};
    use format::symbols;
    use format::wake::{Wake, Waker};

    fn sample(tid: u32, t_ns: u64, stack: u32) -> Sample {
        let words = [
            format::record::header(format::record::Kind::Sample, 9, 0, stack),
            t_ns,
            u64::from(tid),
        ];
        match decode(&[&words[..], &[0; 6]].concat()) {
            Some((_, Record::Sample(sample))) => sample,
            other => panic!("no sample: {other:?}"),
        }
    }

    /// One Python frame `serve`, below which two native frames were named.
    fn capture() -> (Capture, Symbols) {
        let names = ["", "serve", "/srv/app.py", "/lib/x.so\ttag\t0x40"];
        let mut capture =
            Capture { names: names.map(str::to_owned).to_vec(), ..Capture::default() };
        let python = Code {
            function: 1,
            file: 2,
            first_line: 1,
            releases: false,
            native: false,
            inner: false,
        };
        capture.codes.push(python);
        capture.stacks.push(StackNode { parent: 0, code: 1, line: 5 });
        capture.samples.insert(7, vec![sample(7, 100, 1), sample(7, 200, 1)]);
        capture.wakes.insert(7, vec![Wake { t_ns: 150, tid: 7, by: Waker::Thread(9) }]);
        let code = |function| symbols::Code { function, file: 2, inner: true };
        let symbols = Symbols {
            names: ["pack", "crunch", "/lib/x.c", "CACHE in x.so"].map(str::to_owned).to_vec(),
            codes: vec![code(0), code(1)],
            nodes: vec![
                symbols::Node { parent: 1, code: 0, line: 10 },
                symbols::Node { parent: OWN, code: 1, line: 20 },
            ],
            samples: vec![Placed { tid: 7, t_ns: 200, stack: OWN | 1 }],
            wakings: vec![Placed { tid: 7, t_ns: 150, stack: OWN }],
            renamed: vec![(3, 3)],
        };
        (capture, symbols)
    }

    fn functions(capture: &Capture, stack: u32) -> Vec<(&str, u32, bool)> {
        capture.frames(stack).map(|f| (f.function, f.line, f.native)).collect()
    }

    #[test]
    fn named_frames_are_in_their_sample_and_wakeup_only() {
        let (mut capture, symbols) = capture();
        let named = add(&mut capture, symbols, 1);
        place(&mut capture, &named);
        let stacks: Vec<u32> = capture.samples[&7].iter().map(|s| s.stack).collect();
        assert_eq!(functions(&capture, stacks[0]), [("serve", 5, false)]);
        let named = [("crunch", 20, true), ("pack", 10, true), ("serve", 5, false)];
        assert_eq!(functions(&capture, stacks[1]), named);
        assert_eq!(functions(&capture, capture.waker_stacks[&(7, 150)]), &named[1..]);
        assert_eq!(capture.name(3), "CACHE in x.so");
    }

    #[test]
    fn ids_out_of_range_are_left_out() {
        let (mut capture, mut symbols) = capture();
        symbols.samples = vec![
            Placed { tid: 7, t_ns: 100, stack: 2 },
            Placed { tid: 7, t_ns: 200, stack: OWN | 2 },
            Placed { tid: 7, t_ns: 300, stack: OWN },
            Placed { tid: 8, t_ns: 100, stack: OWN },
        ];
        symbols.wakings = vec![Placed { tid: 7, t_ns: 151, stack: OWN }];
        symbols.renamed = vec![(99, 0), (1, 99)];
        let named = add(&mut capture, symbols, 1);
        place(&mut capture, &named);
        assert!(capture.samples[&7].iter().all(|s| s.stack == 1));
        assert!(capture.waker_stacks.is_empty() && capture.samples.len() == 1);
        assert_eq!(capture.name(1), "serve");
    }
}
