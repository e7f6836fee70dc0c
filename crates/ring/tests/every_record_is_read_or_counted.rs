//! Written = read + overwritten + dropped, to the last record, also while readers copy.
#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs)]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::time::Instant;

use common::{copy, record, region, writer, Books, Seen};
use format::block::{unpack_pair, OWNER};
use format::region::{losses, word};
use ring::{BlockCopy, Region, Writer};

#[test]
fn a_flood_from_many_threads_is_accounted_for_to_the_last_record() {
    for threads in [1u32, 2, 4, 32, 256] {
        let region = region(2 << 20);
        let per_thread = 400_000 / u64::from(threads);
        std::thread::scope(|scope| {
            for tid in 1..=threads {
                scope.spawn(move || {
                    let mut writer = writer(region, tid);
                    (0..per_thread).for_each(|seq| {
                        writer.append(&record(tid, seq), seq);
                    });
                    writer.end(1);
                });
            }
        });
        let seen = copy(region);
        let books = Books::of(region, &seen);
        assert_eq!(books.written, per_thread * u64::from(threads));
        assert_eq!(books.dropped, 0, "{threads} threads: blocks are taken back, never short");
        books.balance();
        assert!(books.read > 10_000 && books.overwritten > 10_000, "{books:?}");
    }
}

#[test]
fn ten_thousand_threads_at_once_are_accounted_for() {
    let threads: u32 = if cfg!(tsan) { 500 } else { 10_000 };
    let region = region(64 << 20);
    let (begin, end) = (&Barrier::new(threads as usize), &Barrier::new(threads as usize));
    std::thread::scope(|scope| {
        for tid in 1..=threads {
            let body = move || {
                let mut writer = writer(region, tid);
                begin.wait();
                (0..60).for_each(|seq| {
                    writer.append(&record(tid, seq), seq);
                });
                end.wait();
                writer.end(1);
            };
            std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn_scoped(scope, body)
                .expect("room");
        }
    });
    let books = Books::of(region, &copy(region));
    assert_eq!(books.written, u64::from(threads) * 60);
    books.balance();
    assert!(books.read > books.written / 2, "600,000 records of 24 bytes would fit: {books:?}");
}

#[test]
fn ten_thousand_idle_threads_do_not_pin_the_region() {
    let region = region(64 << 20);
    let mut idle: Vec<Writer> = (1..=10_000).map(|tid| writer(region, tid)).collect();
    for (tid, writer) in (1..).zip(&mut idle) {
        writer.append(&record(tid, 0), 0);
    }
    let mut busy = writer(region, 20_000);
    let many = 3_000_000;
    (0..many).for_each(|seq| {
        busy.append(&record(20_000, seq), seq);
    });
    assert_eq!(region.losses()[losses::DROPPED_NO_BLOCK], 0);
    let seen = copy(region);
    let kept = seen[&(20_000, 10_000)].len();
    let room = region.layout().block_count * 338;
    assert!(kept * 10 > room * 9, "{kept} of {room} records that fit are the busy thread's");
    // The idle ones go on where they were, and their numbers too.
    for (tid, writer) in (1..).zip(&mut idle) {
        writer.append(&record(tid, 1), 1);
    }
    let seen = copy(region);
    assert!((0..10_000).all(|serial| seen[&(serial + 1, serial)] == [1]), "the old ones are gone");
    let books = Books::of(region, &seen);
    assert_eq!(books.written, 20_000 + many);
    books.balance();
    assert!(region.header(word::TAKEN_BACK).load(Ordering::Relaxed) >= 1);
}

#[test]
fn numbers_may_wrap() {
    let region = region(1 << 20);
    let mut writer = writer(region, 7);
    let first = u64::MAX - 100_000;
    writer.begin_at(first);
    (0..200_000u64).for_each(|i| {
        writer.append(&record(7, first.wrapping_add(i)), i);
    });
    let seen = copy(region);
    let seqs = &seen[&(7, 0)];
    assert!(seqs.contains(&99_998), "the last one");
    let after: Vec<u64> = seqs.iter().map(|seq| seq.wrapping_sub(first)).collect();
    assert_eq!(*after.iter().max().unwrap(), 199_999);
    let overwritten = region.overwritten();
    assert_eq!(overwritten + seqs.len() as u64, 200_000);
}

#[test]
fn readers_that_copy_under_full_load_never_see_a_torn_record() {
    let region = region(1 << 20);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = testkit::SetsAtEnd(&stop);
        for tid in 1..=3u32 {
            let stop = &stop;
            scope.spawn(move || {
                let mut writer = writer(region, tid);
                let mut seq = 0;
                while !stop.load(Ordering::Relaxed) {
                    writer.append(&record(tid, seq), seq);
                    seq += 1;
                }
                writer.end(1);
            });
        }
        for _ in 0..300 {
            copy(region);
        }
    });
    let seen = copy(region);
    Books::of(region, &seen).balance();
}

/// Blocks taken for new content beyond those that the records of three words needed.
fn blocks_lost(region: &Region) -> u64 {
    let taken = region.header(word::CURSOR).load(Ordering::Relaxed);
    taken.saturating_sub(Books::of(region, &Seen::new()).written * 3 / 1016)
}

/// Blocks are taken back all the time from threads that are in the middle of it.
#[test]
fn owners_and_those_who_take_their_blocks_back_agree() {
    let region = region(1 << 20);
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = testkit::SetsAtEnd(stop);
        for tid in 1..=4u32 {
            scope.spawn(move || {
                let mut writer = writer(region, tid);
                let mut seq = 0;
                while !stop.load(Ordering::Relaxed) {
                    writer.append(&record(tid, seq), seq);
                    seq += 1;
                }
                writer.end(1);
            });
        }
        let begin = Instant::now();
        while blocks_lost(region) < 50 && begin.elapsed().as_secs() < 20 {
            for from in (0..region.layout().block_count).step_by(32) {
                region.take_back(from, 32);
            }
        }
    });
    let seen = copy(region);
    let books = Books::of(region, &seen);
    books.balance();
    assert!(blocks_lost(region) > 10, "owners lost blocks under way");
    for (owner, mut seqs) in seen {
        seqs.sort_unstable();
        assert!(seqs.windows(2).all(|w| w[0] < w[1]), "{owner:?}: a record twice");
    }
}

#[test]
fn short_lived_threads_share_blocks_instead_of_wasting_one_each() {
    let region = region(1 << 20);
    let threads = 20_000u32;
    for tid in 1..=threads {
        let mut writer = writer(region, tid);
        (0..3).for_each(|seq| {
            writer.append(&record(tid, seq), seq);
        });
        writer.end(1);
    }
    let seen = copy(region);
    // 3 records of 3 words and a 3-word owner mark: 12 words a thread.
    let room = region.layout().block_count * (format::block::BLOCK_WORDS - 8);
    let fit = (room / 12).min(threads as usize);
    assert!(seen.len() * 10 > fit * 8, "{} of {fit} threads that could fit are there", seen.len());
    assert!(seen.values().all(|seqs| seqs == &[0, 1, 2]));
    let books = Books::of(region, &seen);
    assert_eq!(books.written, 3 * u64::from(threads));
    books.balance();
}

#[test]
fn threads_beyond_the_table_record_and_are_counted() {
    let region = region(1 << 20);
    let slots = region.layout().thread_slots as u32;
    let mut writers: Vec<Writer> = (1..=slots + 50).map(|tid| writer(region, tid)).collect();
    for round in 0..4 {
        for (tid, writer) in (1..).zip(&mut writers) {
            writer.append(&record(tid, round), round);
        }
    }
    assert_eq!(region.losses()[losses::THREADS_UNNAMED], 50);
    let seen = copy(region);
    assert_eq!(seen.len() as u32, slots + 50, "all of them are there");
    writers.iter_mut().for_each(|writer| writer.end(1));
    let books = Books::of(region, &seen);
    assert_eq!(books.written, 4 * u64::from(slots + 50));
    books.balance();
}

#[test]
fn an_interval_without_any_block_to_be_had_is_dropped_and_counted() {
    let region = region(1 << 20);
    let blocks = region.layout().block_count as u32;
    let mut owners: Vec<Writer> = (1..=blocks).map(|tid| writer(region, tid)).collect();
    for (tid, writer) in (1..).zip(&mut owners) {
        writer.append(&record(tid, 0), 0);
    }
    // As on a kernel without membarrier: nothing can be taken back.
    let _nobody_else = region.hold_taking_back();
    let mut late = writer(region, 9999);
    late.append(&record(9999, 0), 0);
    assert_eq!(region.losses()[losses::DROPPED_NO_BLOCK], 1);
    assert_eq!(late.sequence(), 1, "the number is used up, so the gap shows");
    owners.pop().expect("one").close();
    late.append(&record(9999, 1), 1);
    let seen = copy(region);
    assert_eq!(seen[&(9999, blocks)], [1]);
    Books::of(region, &seen).balance();
}

/// Owners of the region's blocks, in the order of the ring's round.
fn owners(region: &Region) -> Vec<u32> {
    let mut owners = Vec::new();
    let mut buffer = BlockCopy::default();
    region
        .copy_blocks(0, &mut buffer, |block| {
            owners.push(unpack_pair(block.words()[OWNER]).0);
            Ok::<(), ()>(())
        })
        .expect("reader does not fail");
    owners
}

#[test]
fn busy_threads_write_blocks_in_a_row_and_leave_few_behind() {
    let region = region(64 << 20);
    let mut pair = [1u32, 2].map(|tid| writer(region, tid));
    for seq in 0..200_000 {
        for (tid, writer) in (1..).zip(&mut pair) {
            writer.append(&record(tid, seq), seq);
        }
    }
    let taken = owners(region);
    let changes = taken.windows(2).filter(|two| two[0] != two[1]).count();
    assert!(changes * 8 < taken.len(), "{changes} changes of owner in {} blocks", taken.len());
    // One goes on alone, around the ring: what the other has not used comes round again.
    let [mut busy, _resting] = pair;
    let around = region.layout().block_count as u64 * 338 * 2;
    for seq in 200_000..200_000 + around {
        busy.append(&record(1, seq), seq);
    }
    let taken = owners(region);
    let others = taken.iter().filter(|owner| **owner != 1).count();
    assert!(others <= 1, "{others} blocks hold what is older than the ring");
    assert_eq!(taken.len(), region.layout().block_count);
    Books::of(region, &copy(region)).balance();
}

#[test]
fn threads_that_write_now_and_then_take_no_turns_ahead() {
    let region = region(16 << 20);
    let mut many: Vec<Writer> = (1..=300).map(|tid| writer(region, tid)).collect();
    // 300 threads fill one block each, in turn, three times around the ring.
    let rounds = 3 * region.layout().block_count as u64 / 300;
    for round in 0..rounds {
        for (tid, writer) in (1..).zip(&mut many) {
            for seq in round * 338..(round + 1) * 338 {
                writer.append(&record(tid, seq), seq);
            }
        }
    }
    let books = Books::of(region, &copy(region));
    books.balance();
    let room = region.layout().block_count as u64 * 338;
    assert!(books.read * 10 > room * 9, "{books:?}: of {room} records that fit");
}
