//! Blocks and tables of a large capture, written as they fill.
//!
//! How it works: each thread has one open block; a full one goes to the file at once, so what is in
//! memory does not depend on the size of the capture. The tables are known from the start.

use std::collections::BTreeMap;
use std::io::{self, Write};

use capture::write::CaptureWriter;
use format::block::{pack_pair, Head, State, BLOCK_WORDS, HEADER_WORDS};
use format::region::{thread, THREAD_WORDS};

/// Names, code and stacks; ids of names count from 0, the others from 1.
#[derive(Default)]
pub struct Tables {
    names: Vec<String>,
    codes: Vec<[u64; 2]>,
    stacks: Vec<[u64; 2]>,
}

impl Tables {
    /// The id of a name. Cost: one comparison for each name.
    pub fn name(&mut self, text: &str) -> u32 {
        let known = self.names.iter().position(|name| name == text);
        known.unwrap_or_else(|| {
            self.names.push(text.to_owned());
            self.names.len() - 1
        }) as u32
    }

    /// The stack `parent` (0: none) with one more frame, at `line` of `function` in `file`.
    pub fn stack(&mut self, parent: u32, function: &str, file: &str, line: u32) -> u32 {
        let (function, file) = (self.name(function), self.name(file));
        let code = [pack_pair(function, file), pack_pair(line.saturating_sub(5), 0)];
        let at = self.codes.iter().position(|known| *known == code).unwrap_or_else(|| {
            self.codes.push(code);
            self.codes.len() - 1
        });
        self.stacks.push([pack_pair(parent, at as u32 + 1), u64::from(line)]);
        self.stacks.len() as u32
    }

    fn words(&self) -> [Vec<u64>; 3] {
        let mut bytes = Vec::new();
        for name in &self.names {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let names = bytes.chunks_exact(8).map(word).collect();
        [names, self.codes.concat(), self.stacks.concat()]
    }
}

struct Thread {
    name: u32,
    start_ns: u64,
    records: u64,
    block: Vec<u64>,
    in_block: u64,
}

/// Records by thread, and the file they go to.
pub struct Blocks<W: Write> {
    writer: CaptureWriter<W>,
    threads: BTreeMap<u32, Thread>,
    tables: Tables,
    words: u64,
}

impl<W: Write> Blocks<W> {
    /// Begins the file.
    pub fn new(out: W, meta: &str, tables: Tables) -> io::Result<Blocks<W>> {
        let writer = CaptureWriter::new(out, meta)?;
        Ok(Blocks { writer, threads: BTreeMap::new(), tables, words: 0 })
    }

    /// A thread that will record, with the id of its name.
    pub fn thread(&mut self, tid: u32, name: u32, start_ns: u64) {
        let (records, in_block, block) = (0, 0, Vec::with_capacity(BLOCK_WORDS));
        self.threads.insert(tid, Thread { name, start_ns, records, block, in_block });
    }

    /// Writes the tables as they are so far, with room for nothing more.
    pub fn tables(&mut self) -> io::Result<()> {
        let mut threads = Vec::with_capacity(self.threads.len() * THREAD_WORDS);
        for (tid, row) in &self.threads {
            let mut slot = [0; THREAD_WORDS];
            slot[thread::IDENT] = pack_pair(*tid, *tid);
            slot[thread::NAME] = u64::from(row.name);
            slot[thread::START_NS] = row.start_ns;
            slot[thread::PROGRESS] = 2 * row.records;
            threads.extend(slot);
        }
        let [names, codes, stacks] = self.tables.words();
        self.writer.tables(&[threads, names, codes, stacks])
    }

    /// Words in the file so far.
    pub fn words(&self) -> u64 {
        self.words
    }

    /// A record of a thread, written at `now`.
    pub fn append(&mut self, tid: u32, record: &[u64], now: u64) -> io::Result<()> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        if thread.block.len() + record.len() > BLOCK_WORDS {
            Self::close(&mut self.writer, thread, &mut self.words, now)?;
        }
        if thread.block.is_empty() {
            let head = [0, pack_pair(tid, tid), thread.records, now, 0, 0, 0, 0];
            thread.block.extend_from_slice(&head[..HEADER_WORDS]);
        }
        thread.block.extend_from_slice(record);
        thread.records += 1;
        thread.in_block += 1;
        Ok(())
    }

    fn close(
        writer: &mut CaptureWriter<W>,
        thread: &mut Thread,
        words: &mut u64,
        now: u64,
    ) -> io::Result<()> {
        if thread.block.is_empty() {
            return Ok(());
        }
        let committed = thread.block.len() as u32;
        thread.block[0] = Head { generation: 1, committed, state: State::Closed }.pack();
        (thread.block[4], thread.block[6]) = (now, thread.in_block);
        *words += thread.block.len() as u64 + 1;
        writer.block(&thread.block)?;
        thread.block.clear();
        thread.in_block = 0;
        Ok(())
    }

    /// Writes what is open, META and the tables as they are now, and the end.
    pub fn finish(mut self, meta: &str, now: u64) -> io::Result<W> {
        for thread in self.threads.values_mut() {
            Self::close(&mut self.writer, thread, &mut self.words, now)?;
        }
        self.writer.meta(meta)?;
        self.tables()?;
        self.writer.finish(0)
    }
}
