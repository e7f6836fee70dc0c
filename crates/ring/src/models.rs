//! The protocol under loom: every interleaving of a few threads, and every value that the memory
//! model lets a load return. Blocks hold four records here, regions one or two blocks.
#![allow(clippy::expect_used)]

use format::block::{unpack_pair, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::record::{decode, header, Kind, Record};
use format::region::losses;
use loom::thread;

use crate::sync::Ordering;
use crate::{BlockCopy, Newcomer, OnFull, Queue, Region, Writer};

fn writer(region: &'static Region, tid: u32) -> Writer {
    Writer::new(region, &Newcomer { tid, comm: [0; 16], nested: false, now_ns: 1 })
}

/// A record of three words that belong together.
fn record(tid: u32, seq: u64) -> [u64; 3] {
    [header(Kind::Event, 3, 0, tid), seq * 3 + u64::from(tid), seq]
}

fn append(writer: &mut Writer, tid: u32, seq: u64) {
    writer.append(&record(tid, seq), 1);
}

/// All records a copy yields, as (tid, seq); fails on words that do not belong together.
fn copy(region: &Region) -> Vec<(u32, u64)> {
    let (mut out, mut buffer) = (Vec::new(), BlockCopy::default());
    let _ = region.copy_blocks(0, &mut buffer, |block| {
        let words = block.words();
        let (mut owner, mut seq) = (unpack_pair(words[OWNER]).0, words[FIRST_SEQ]);
        let mut at = HEADER_WORDS;
        while at < words.len() {
            let (len, record) = decode(&words[at..]).expect("whole records");
            match record {
                Record::Thread { tid, seq: first, .. } => (owner, seq) = (tid, first),
                Record::Event { name, t_ns, request, .. } => {
                    assert_eq!(t_ns, request * 3 + u64::from(name), "torn");
                    assert_eq!((name, request), (owner, seq), "under the wrong owner or number");
                    out.push((name, request));
                    seq += 1;
                }
                other => panic!("nobody wrote {other:?}"),
            }
            at += len;
        }
        Ok::<(), ()>(())
    });
    out.sort_unstable();
    out
}

/// The block is overwritten by its next generation while it is copied. Each word copied may be the
/// old or the new one, which doubles the number of outcomes: so one preemption less than elsewhere.
#[test]
fn a_copy_is_never_torn_by_the_next_generation() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.map(|bound| bound.saturating_sub(1).max(1));
    model.check(|| {
        let region = Region::for_model(1, 1);
        let mut first = writer(region, 1);
        // One record is enough, and every word more doubles the number of outcomes.
        append(&mut first, 1, 0);
        first.close();
        let reader = thread::spawn(move || copy(region));
        append(&mut first, 1, 1);
        let seen = reader.join().expect("no panic");
        assert!(seen == [(1, 0)] || seen == [(1, 1)] || seen.is_empty(), "{seen:?}");
        assert_eq!(copy(region), [(1, 1)]);
        assert_eq!(region.overwritten(), 1);
    });
}

/// What is being appended is seen whole or not at all.
#[test]
fn a_copy_sees_whole_records_of_a_block_that_grows() {
    loom::model(|| {
        let region = Region::for_model(1, 1);
        let mut first = writer(region, 1);
        append(&mut first, 1, 0);
        let reader = thread::spawn(move || copy(region));
        append(&mut first, 1, 1);
        append(&mut first, 1, 2);
        let seen = reader.join().expect("no panic");
        assert!((1..=3).contains(&seen.len()), "{seen:?}");
    });
}

/// One thread ends while another begins: its block goes to the other, or stays; nothing is lost.
#[test]
fn a_half_full_block_is_handed_over_whole() {
    loom::model(|| {
        let region = Region::for_model(2, 2);
        let mut first = writer(region, 1);
        append(&mut first, 1, 0);
        let other = thread::spawn(move || {
            let mut second = writer(region, 2);
            append(&mut second, 2, 0);
        });
        first.end(2);
        other.join().expect("no panic");
        assert_eq!(copy(region), [(1, 0), (2, 0)]);
    });
}

/// Two threads begin, one block is left: one of them gets it.
#[test]
fn a_left_block_has_one_new_owner() {
    loom::model(|| {
        let region = Region::for_model(2, 3);
        let mut first = writer(region, 1);
        append(&mut first, 1, 0);
        first.end(2);
        let begin = |tid: u32| {
            move || {
                let mut new = writer(region, tid);
                append(&mut new, tid, 0);
            }
        };
        let other = thread::spawn(begin(2));
        begin(3)();
        other.join().expect("no panic");
        assert_eq!(region.losses()[losses::DROPPED_NO_BLOCK], 0);
        let seen = copy(region);
        // The thread that did not find the left block took another; in the ring's round that may
        // have been the left one.
        assert!(seen.ends_with(&[(2, 0), (3, 0)]), "{seen:?}");
        let overwritten = region.overwritten();
        assert_eq!(seen.len() as u64 + overwritten, 3);
    });
}

/// An owner appends while its block is taken back: the record is in the old block or in a new one.
#[test]
fn a_block_is_taken_back_or_its_owner_goes_on() {
    loom::model(|| {
        let region = Region::for_model(2, 1);
        let mut first = writer(region, 1);
        append(&mut first, 1, 0);
        let consumer = thread::spawn(move || {
            region.take_back(0, 1);
        });
        append(&mut first, 1, 1);
        consumer.join().expect("no panic");
        assert_eq!(copy(region), [(1, 0), (1, 1)]);
        append(&mut first, 1, 2);
        assert_eq!(copy(region), [(1, 0), (1, 1), (1, 2)]);
    });
}

/// The block taken back goes to a new owner at once, while the old one wakes up.
#[test]
fn the_old_and_the_new_owner_of_a_block_never_share_it() {
    loom::model(|| {
        let region = Region::for_model(2, 2);
        let mut first = writer(region, 1);
        append(&mut first, 1, 0);
        let other = thread::spawn(move || {
            region.take_back(0, 1);
            let mut second = writer(region, 2);
            append(&mut second, 2, 0);
        });
        append(&mut first, 1, 1);
        other.join().expect("no panic");
        assert_eq!(copy(region), [(1, 0), (1, 1), (2, 0)]);
    });
}

/// Two threads offer to a queue with room for two, and one reader takes: none lost, none twice.
#[test]
fn a_queue_gives_each_record_once() {
    loom::model(|| {
        let queue = loom::sync::Arc::new(Queue::new(0, OnFull::DropNewest));
        let other = queue.clone();
        let writer = thread::spawn(move || other.offer(2, &[20, 21]));
        let mut got = Vec::new();
        queue.offer(1, &[10, 11]);
        let mut record = Vec::new();
        if let Some(tid) = queue.take(&mut record) {
            got.push((tid, record.clone()));
        }
        assert!(writer.join().expect("no panic"), "there is room for both");
        while let Some(tid) = queue.take(&mut record) {
            got.push((tid, record.clone()));
        }
        got.sort();
        assert_eq!(got, [(1, vec![10, 11]), (2, vec![20, 21])]);
    });
}

/// A writer makes room by giving the oldest up while it is being read: whole, or not read at all.
#[test]
fn a_record_overwritten_while_it_is_read_is_not_read() {
    loom::model(|| {
        let queue = loom::sync::Arc::new(Queue::new(0, OnFull::OverwriteOldest));
        queue.offer(1, &[10, 11]);
        queue.offer(1, &[20, 21]);
        let other = queue.clone();
        let writer = thread::spawn(move || other.offer(1, &[30, 31]));
        let mut record = Vec::new();
        let mut got = Vec::new();
        while queue.take(&mut record).is_some() {
            assert_eq!(record[0] + 1, record[1], "torn");
            got.push(record[0]);
        }
        writer.join().expect("no panic");
        while queue.take(&mut record).is_some() {
            got.push(record[0]);
        }
        assert!(got == [10, 20, 30] || got == [20, 30], "{got:?}");
        let counts = queue.counts();
        assert_eq!(counts.offered, counts.read + counts.overwritten);
    });
}
