//! Written = read + overwritten + dropped, to the last record, also while readers copy.
#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use format::block::{unpack_pair, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::record::{decode, header, Kind, Record};
use ring::{BlockCopy, Region, Writer};

fn region(bytes: usize) -> &'static Region {
    Box::leak(Box::new(Region::in_process(bytes, 1, "test").expect("memory")))
}

/// A record that any mix-up with another one would falsify: t = request * 3 + tid.
fn record(tid: u32, seq: u64) -> [u64; 3] {
    [header(Kind::Event, 3, 0, tid), seq * 3 + u64::from(tid), seq]
}

/// Reads one block: checks every record's pattern, reports (tid, serial) -> sequence numbers seen.
fn read(words: &[u64], seen: &mut HashMap<(u32, u32), Vec<u64>>) {
    let mut owner = unpack_pair(words[OWNER]);
    let mut seq = words[FIRST_SEQ];
    let mut at = HEADER_WORDS;
    while at < words.len() {
        let (len, record) = decode(&words[at..]).expect("whole records up to the committed length");
        match record {
            Record::Thread { tid, serial, seq: first } => (owner, seq) = ((tid, serial), first),
            Record::Event { name, t_ns, request, .. } => {
                assert_eq!(name, owner.0, "record under the wrong owner");
                assert_eq!(t_ns, request * 3 + u64::from(name), "torn record");
                assert_eq!(request, seq, "sequence");
                seen.entry(owner).or_default().push(seq);
                seq += 1;
            }
            other => panic!("not written by anybody: {other:?}"),
        }
        at += len;
    }
}

fn copy(region: &Region) -> HashMap<(u32, u32), Vec<u64>> {
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

#[test]
fn a_flood_from_many_threads_is_accounted_for_to_the_last_record() {
    for threads in [1u32, 4, 32] {
        let region = region(2 << 20);
        let per_thread = 400_000 / u64::from(threads);
        std::thread::scope(|scope| {
            for tid in 1..=threads {
                scope.spawn(move || {
                    let mut writer = Writer::new(region, tid, tid);
                    (0..per_thread).for_each(|seq| writer.append(&record(tid, seq), seq));
                    writer.close();
                });
            }
        });
        let seen = copy(region);
        let dropped: u64 = region.losses()[format::region::losses::DROPPED_NO_BLOCK];
        assert_eq!(dropped, 0);
        for (owner, seqs) in &seen {
            let mut sorted = seqs.clone();
            sorted.sort_unstable();
            assert!(sorted.windows(2).all(|w| w[0] < w[1]), "{owner:?}: a record twice");
            // What survives of a thread is its end; before it, all was overwritten.
            assert_eq!(
                *sorted.last().expect("not empty"),
                per_thread - 1,
                "{owner:?}: lost its end"
            );
        }
        assert!(!seen.is_empty());
    }
}

#[test]
fn readers_that_copy_under_full_load_never_see_a_torn_record() {
    let region = region(1 << 20);
    let stop = AtomicBool::new(false);
    let copies = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for tid in 1..=3u32 {
            let stop = &stop;
            scope.spawn(move || {
                let mut writer = Writer::new(region, tid, tid);
                let mut seq = 0;
                while !stop.load(Ordering::Relaxed) {
                    writer.append(&record(tid, seq), seq);
                    seq += 1;
                }
                writer.close();
            });
        }
        for _ in 0..300 {
            copy(region);
            copies.fetch_add(1, Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(copies.load(Ordering::Relaxed), 300);
}

#[test]
fn short_lived_threads_share_blocks_instead_of_wasting_one_each() {
    let region = region(1 << 20);
    let threads = 20_000u32;
    for tid in 1..=threads {
        let mut writer = Writer::new(region, tid, tid);
        (0..3).for_each(|seq| writer.append(&record(tid, seq), seq));
        writer.close();
    }
    let seen = copy(region);
    // 3 records of 3 words and a 3-word owner mark: 12 words a thread.
    let room = region.layout().block_count * (format::block::BLOCK_WORDS - HEADER_WORDS);
    let fit = (room / 12).min(threads as usize);
    assert!(seen.len() * 10 > fit * 8, "{} of {fit} threads that could fit are there", seen.len());
    assert!(seen.values().all(|seqs| seqs == &[0, 1, 2]));
}

#[test]
fn a_region_pinned_by_idle_owners_drops_the_newest_and_counts_it() {
    let region = region(1 << 20);
    let blocks = region.layout().block_count as u32;
    let mut idle: Vec<Writer> = (1..=blocks).map(|tid| Writer::new(region, tid, tid)).collect();
    for (tid, writer) in (1..).zip(&mut idle) {
        writer.append(&record(tid, 0), 0);
    }
    let mut late = Writer::new(region, 9999, 9999);
    late.append(&record(9999, 0), 0);
    assert_eq!(region.losses()[format::region::losses::DROPPED_NO_BLOCK], 1);
    assert_eq!(late.sequence(), 1, "the number is used up, so the gap shows");
    idle.pop().expect("one").close();
    late.append(&record(9999, 1), 1);
    assert_eq!(copy(region)[&(9999, 9999)], [1]);
}
