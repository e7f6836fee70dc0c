//! Reading a box as `dashcam recover` does: every record checked, and the accounts.
#![allow(dead_code, clippy::expect_used)]

use std::collections::HashMap;
use std::path::Path;

use format::block::{
    overwritten, unpack_pair, Head, BLOCK_WORDS, FIRST_SEQ, HEAD, HEADER_WORDS, OWNER,
};
use format::record::{decode, Attributes, Record, Value};
use format::region::{thread, word, Layout, THREAD_WORDS};

/// A box as it lies in its file.
pub struct Box {
    words: Vec<u64>,
    layout: Layout,
}

impl Box {
    pub fn read(path: &Path) -> Box {
        let bytes = std::fs::read(path).expect("the box is there");
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("8 bytes"));
        Box { words: bytes.chunks_exact(8).map(word).collect(), layout: Layout::of(bytes.len()) }
    }

    /// Checks that every record is whole, under its owner and number. Records that carry the
    /// attribute `checked` must hold three times their request plus one.
    pub fn check(&self, checked: u32) -> HashMap<(u32, u32), u64> {
        let mut read: HashMap<(u32, u32), u64> = HashMap::new();
        for block in self.words[self.layout.blocks..].chunks_exact(BLOCK_WORDS) {
            let used = Head::unpack(block[HEAD]).used();
            if used <= HEADER_WORDS {
                continue;
            }
            let (mut owner, mut seq) = (unpack_pair(block[OWNER]), block[FIRST_SEQ]);
            let mut at = HEADER_WORDS;
            while at < used {
                let (len, record) = decode(&block[at..used]).expect("whole records");
                at += len;
                match record {
                    Record::Thread { tid, serial, seq: first } => {
                        (owner, seq) = ((tid, serial), first);
                        continue;
                    }
                    Record::Event { request, attributes, .. } => {
                        agree(request, attributes, checked)
                    }
                    Record::Foreign { kind } => panic!("a record of kind {kind}: torn"),
                    _ => (),
                }
                *read.entry(owner).or_default() += 1;
                seq += 1;
            }
            let _ = seq;
        }
        read
    }

    /// Records written or given up, as the threads counted them: (at least, at most). A thread
    /// killed inside a record may or may not have published it.
    pub fn written(&self) -> (u64, u64) {
        let rows = &self.words[self.layout.threads..][..self.layout.thread_slots * THREAD_WORDS];
        let progress = || rows.chunks_exact(THREAD_WORDS).map(|row| row[thread::PROGRESS]);
        let past = self.words[word::PAST_RECORDS];
        (
            progress().map(|p| p / 2).sum::<u64>() + past,
            progress().map(|p| p.div_ceil(2)).sum::<u64>() + past,
        )
    }

    /// Records that are no more in the box: overwritten, or given up.
    pub fn gone(&self) -> u64 {
        let dropped = self.words[word::LOSSES + format::region::losses::DROPPED_NO_BLOCK];
        let blocks = self.words[self.layout.blocks..].chunks_exact(BLOCK_WORDS);
        let of = |block: &[u64]| overwritten(block[..HEADER_WORDS].try_into().expect("a header"));
        blocks.map(of).sum::<u64>() + dropped
    }

    /// The accounts: what the threads say they wrote is here, or counted as gone.
    pub fn balance(&self, checked: u32) {
        let read: u64 = self.check(checked).values().sum();
        let (least, most) = self.written();
        let found = read + self.gone();
        assert!((least..=most).contains(&found), "{found} found, {least} to {most} written");
    }
}

fn agree(request: u64, attributes: Attributes<'_>, checked: u32) {
    attributes.each(|key, value| {
        if key == checked {
            assert_eq!(value, Value::Int((request * 3 + 1) as i64), "torn");
        }
    });
}
