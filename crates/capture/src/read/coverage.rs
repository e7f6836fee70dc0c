//! Which records of each thread are in the capture, and how many are missing where.
//!
//! How it works: the records of a thread are numbered; the numbers that were read, and the number
//! that the thread wrote in all, show how many are missing before, between and after.

use std::collections::HashMap;

use super::rows::{Coverage, ThreadRow};

struct Run {
    from_ns: u64,
    first: u64,
    read: u64,
    last: u64,
}

/// The numbers read, by thread and serial.
#[derive(Default)]
pub struct Runs(HashMap<(u32, u32), Run>);

impl Runs {
    /// `count` records from this number on were read, from a block that begins at this time.
    pub fn note(&mut self, owner: (u32, u32), seq: u64, count: u64, block_ns: u64) {
        let Some(more) = count.checked_sub(1) else { return };
        let fresh = Run { from_ns: block_ns, first: seq, read: 0, last: seq };
        let run = self.0.entry(owner).or_insert(fresh);
        run.read += count;
        run.last = run.last.max(seq.saturating_add(more));
        if seq < run.first {
            (run.first, run.from_ns) = (seq, block_ns);
        }
    }

    /// The coverage of each thread, by its id.
    pub fn coverage(mut self, threads: &[ThreadRow], end_ns: u64) -> Vec<Coverage> {
        for row in threads {
            // Also threads without any record left: all their records are missing.
            let gone = Run { from_ns: end_ns, first: row.records, read: 0, last: row.records };
            if row.records > 0 {
                self.0.entry((row.tid, row.serial)).or_insert(gone);
            }
        }
        let rows: HashMap<(u32, u32), &ThreadRow> =
            threads.iter().map(|t| ((t.tid, t.serial), t)).collect();
        let covered = |(owner, run)| covered(owner, run, rows.get(&owner).copied());
        let mut coverage: Vec<Coverage> = self.0.into_iter().map(covered).collect();
        coverage.sort_by_key(|c| (c.tid, c.serial));
        coverage
    }
}

fn covered((tid, serial): (u32, u32), run: Run, row: Option<&ThreadRow>) -> Coverage {
    let next = if run.read == 0 { run.last } else { run.last.wrapping_add(1) };
    let between = next.wrapping_sub(run.first).saturating_sub(run.read);
    Coverage {
        tid,
        serial,
        from_ns: run.from_ns,
        read: run.read,
        missing_before: run.first,
        missing_between: between,
        missing_after: row.map_or(0, |row| row.records.saturating_sub(next)),
        dropped: row.map_or(0, |row| row.dropped),
    }
}
