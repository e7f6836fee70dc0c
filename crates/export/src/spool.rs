//! Rows of stacks and weights by thread, for a format in which the rows of one thread are together,
//! while a capture that is read in parts has all threads in each part.
//!
//! How it works: each thread has a small buffer. Full ones go to a file without a name in the
//! folder for temporary files, and only where they lie there is kept. What it promises: memory does
//! not depend on the number of rows, but for 16 bytes for each 170 rows. A capture with few rows
//! needs no file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use analysis::temporary;

/// A stack, None if there was no sample; and its weight.
pub(crate) type Row = (Option<u32>, u64);

/// Bytes of a row in the file: stack (4), weight (8).
const ROW_BYTES: usize = 12;
/// Rows that are kept of a thread before they go to the file.
const BUFFER_ROWS: usize = 170;
/// Rows of all threads that are in memory if nothing has gone to the file yet.
const MOST_ROWS: usize = 1 << 20;
/// The stack of a row without one; a stack's id is below 2^31.
const NONE: u32 = u32::MAX;

#[derive(Default)]
struct Thread {
    /// Where its full buffers lie in the file, and their rows.
    places: Vec<(u64, u32)>,
    rows: Vec<Row>,
}

/// The rows.
#[derive(Default)]
pub(crate) struct Spool {
    threads: BTreeMap<u32, Thread>,
    file: Option<File>,
    end: u64,
    in_memory: usize,
}

impl Spool {
    /// Adds a row of a thread. One with the same stack as the row before is added to it.
    pub(crate) fn push(&mut self, tid: u32, row: Row) -> io::Result<()> {
        let thread = self.threads.entry(tid).or_default();
        if let Some(last) = thread.rows.last_mut().filter(|last| last.0 == row.0) {
            last.1 = last.1.saturating_add(row.1);
            return Ok(());
        }
        thread.rows.push(row);
        self.in_memory += 1;
        let is_full = thread.rows.len() > BUFFER_ROWS && self.file.is_some();
        match is_full || self.in_memory > MOST_ROWS {
            true => self.write_out(),
            false => Ok(()),
        }
    }

    /// Writes all rows but the last of each thread, to which more may be added.
    fn write_out(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(temporary::without_name()?),
        };
        let mut bytes = Vec::new();
        for thread in self.threads.values_mut().filter(|t| t.rows.len() > BUFFER_ROWS) {
            let Some(last) = thread.rows.pop() else { continue };
            for rows in thread.rows.chunks(1 << 16) {
                let at = self.end + bytes.len() as u64;
                thread.places.push((at, rows.len() as u32));
                for (stack, weight) in rows {
                    bytes.extend(stack.unwrap_or(NONE).to_le_bytes());
                    bytes.extend(weight.to_le_bytes());
                }
            }
            self.in_memory -= thread.rows.len();
            thread.rows.clear();
            thread.rows.push(last);
        }
        // With very many threads these alone are many.
        self.in_memory = self.in_memory.min(MOST_ROWS / 2);
        file.seek(SeekFrom::Start(self.end))?;
        file.write_all(&bytes)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// The threads that have rows, in order.
    pub(crate) fn threads(&self) -> Vec<u32> {
        self.threads.keys().copied().collect()
    }

    /// Calls `each` with every row of a thread, in order.
    pub(crate) fn rows(
        &mut self,
        tid: u32,
        each: &mut dyn FnMut(Row) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(thread) = self.threads.get(&tid) else { return Ok(()) };
        let mut bytes = Vec::new();
        for (at, rows) in &thread.places {
            let Some(file) = &mut self.file else { break };
            bytes.resize(*rows as usize * ROW_BYTES, 0);
            file.seek(SeekFrom::Start(*at))?;
            file.read_exact(&mut bytes)?;
            for row in bytes.chunks_exact(ROW_BYTES) {
                let (stack, weight) = row.split_at(4);
                let stack = stack.try_into().map(u32::from_le_bytes).unwrap_or(NONE);
                let weight = weight.try_into().map(u64::from_le_bytes).unwrap_or_default();
                each(((stack != NONE).then_some(stack), weight))?;
            }
        }
        thread.rows.iter().try_for_each(|row| each(*row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_order_from_memory_and_from_the_file() {
        let mut spool = Spool::default();
        let row = |at: u64| ((at % 5 != 0).then_some(at as u32 % 5), at);
        let count = MOST_ROWS as u64 + 100_000;
        for at in 0..count {
            spool.push(at as u32 % 3, row(at)).expect("a file");
            assert!(spool.in_memory <= MOST_ROWS + 1);
        }
        assert!(spool.file.is_some());
        assert_eq!(spool.threads(), [0, 1, 2]);
        for tid in 0..3 {
            let mut next = u64::from(tid);
            let mut check = |got| {
                assert_eq!(got, row(next));
                next += 3;
                Ok(())
            };
            spool.rows(tid, &mut check).expect("readable");
            assert!((count..count + 3).contains(&next), "{next}");
        }
    }

    #[test]
    fn neighbours_with_one_stack_are_one_row() {
        let mut spool = Spool::default();
        for (stack, weight) in [(Some(1), 5), (Some(1), 6), (None, 1), (None, 2), (Some(1), 9)] {
            spool.push(7, (stack, weight)).expect("memory");
        }
        let mut all = Vec::new();
        let mut each = |row| {
            all.push(row);
            Ok(())
        };
        spool.rows(7, &mut each).expect("memory");
        assert_eq!(all, [(Some(1), 11), (None, 3), (Some(1), 9)]);
    }
}
