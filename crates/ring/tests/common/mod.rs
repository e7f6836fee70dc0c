//! Regions, writers and a reader that checks every word.
#![allow(dead_code, clippy::expect_used)]

use std::collections::HashMap;

use format::block::{unpack_pair, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::record::{decode, header, Kind, Record};
use format::region::{losses, thread, THREAD_WORDS};
use ring::{BlockCopy, Newcomer, Region, Writer};

pub fn region(bytes: usize) -> &'static Region {
    Box::leak(Box::new(Region::in_process(bytes, 1, "test").expect("memory")))
}

pub fn writer(region: &'static Region, tid: u32) -> Writer {
    Writer::new(
        region,
        &Newcomer { tid, comm: *b"test\0\0\0\0\0\0\0\0\0\0\0\0", nested: false, now_ns: 1 },
    )
}

/// A record that any mix-up with another one would falsify: t = seq * 3 + tid.
pub fn record(tid: u32, seq: u64) -> [u64; 3] {
    [header(Kind::Event, 3, 0, tid), seq.wrapping_mul(3).wrapping_add(u64::from(tid)), seq]
}

/// Sequence numbers read, by (tid, serial).
pub type Seen = HashMap<(u32, u32), Vec<u64>>;

/// Reads one block and checks every record's pattern.
pub fn read(words: &[u64], seen: &mut Seen) {
    let mut owner = unpack_pair(words[OWNER]);
    let mut seq = words[FIRST_SEQ];
    let mut at = HEADER_WORDS;
    while at < words.len() {
        let (len, record) = decode(&words[at..]).expect("whole records up to the committed length");
        match record {
            Record::Thread { tid, serial, seq: first } => (owner, seq) = ((tid, serial), first),
            Record::Event { name, t_ns, request, .. } => {
                assert_eq!(name, owner.0, "record under the wrong owner");
                let wanted = request.wrapping_mul(3).wrapping_add(u64::from(name));
                assert_eq!(t_ns, wanted, "torn record");
                assert_eq!(request, seq, "sequence");
                seen.entry(owner).or_default().push(seq);
                seq = seq.wrapping_add(1);
            }
            other => panic!("not written by anybody: {other:?}"),
        }
        at += len;
    }
}

pub fn copy(region: &Region) -> Seen {
    let mut seen = HashMap::new();
    let mut buffer = BlockCopy::default();
    region
        .copy_blocks(0, &mut buffer, |block| {
            read(block.words(), &mut seen);
            Ok::<(), ()>(())
        })
        .expect("reader does not fail");
    seen
}

/// The account of a region at rest: the records that the thread table counts, and what became of
/// them.
#[derive(Debug, PartialEq, Eq)]
pub struct Books {
    pub written: u64,
    pub read: u64,
    pub overwritten: u64,
    pub dropped: u64,
}

impl Books {
    pub fn of(region: &Region, seen: &Seen) -> Books {
        let (rows, [past_records, past_dropped]) = region.copy_threads();
        let rows = || rows.chunks_exact(THREAD_WORDS);
        let dropped: u64 = rows().map(|r| r[thread::DROPPED]).sum::<u64>() + past_dropped;
        assert_eq!(dropped, region.losses()[losses::DROPPED_NO_BLOCK], "two counts of one thing");
        Books {
            written: rows().map(|r| r[thread::PROGRESS] / 2).sum::<u64>() + past_records,
            read: seen.values().map(|seqs| seqs.len() as u64).sum(),
            overwritten: region.overwritten(),
            dropped,
        }
    }

    pub fn balance(&self) {
        assert_eq!(self.written, self.read + self.overwritten + self.dropped, "{self:?}");
    }
}
