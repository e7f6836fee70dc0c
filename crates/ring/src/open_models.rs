//! Open spans under loom: a copy while spans begin and end, lines change hands, and dead threads'
//! lines are brought back. Lines hold one span here, regions one line.
//!
//! What is not modelled: a process that reads the box of a dead one. Its kernel shows it every
//! store the dead one made, so it sees what a copy after the joins sees here.
#![allow(clippy::expect_used)]

use format::block::unpack_pair;
use loom::thread;

use crate::{OpenLine, OpenPlace, Region};

/// Begins the `turn`th span of a thread; its words belong together.
fn begin(line: &OpenLine, tid: u32, turn: u64) -> Option<OpenPlace> {
    let begin_ns = u64::from(tid) * 10 + turn;
    let (place, _) = line.begin(OpenLine::FIRST, begin_ns as u32 + 1, begin_ns, begin_ns + 2)?;
    Some(place)
}

/// All spans of a copy, as (tid, turn); fails on words that do not belong together.
fn copy(region: &Region) -> Vec<(u32, u64)> {
    let copied = region.copy_open();
    let one = |words: &[u64]| {
        let ((name, tid), begin_ns) = (unpack_pair(words[0]), words[1]);
        assert_eq!((u64::from(name), words[2]), (begin_ns + 1, begin_ns + 2), "torn");
        assert_eq!(begin_ns / 10, u64::from(tid), "copied under another thread");
        (tid, begin_ns % 10)
    };
    copied.chunks_exact(4).map(one).collect()
}

/// The place goes from one span to the next while it is copied.
#[test]
fn a_copy_never_mixes_two_spans_of_a_place() {
    loom::model(|| {
        let region = Region::for_model_of_spans(0, 0, 1);
        let line = region.open_line(1, 1).expect("a line");
        let place = begin(&line, 1, 0).expect("room");
        let reader = thread::spawn(move || copy(region));
        region.close_open(place, 10);
        begin(&line, 1, 1).expect("room again");
        let seen = reader.join().expect("no panic");
        assert!(seen.is_empty() || seen == [(1, 0)] || seen == [(1, 1)], "{seen:?}");
        assert_eq!(copy(region), [(1, 1)]);
    });
}

/// The line goes from a thread that ends to the next one while it is copied.
#[test]
fn a_copy_never_has_a_span_under_another_thread() {
    loom::model(|| {
        let region = Region::for_model_of_spans(0, 0, 1);
        let line = region.open_line(1, 1).expect("a line");
        begin(&line, 1, 0).expect("room");
        let reader = thread::spawn(move || copy(region));
        region.give_open_line(line);
        let line = region.open_line(2, 1).expect("it is free");
        begin(&line, 2, 0).expect("room");
        let seen = reader.join().expect("no panic");
        assert!(seen.len() <= 1, "{seen:?}");
        assert_eq!(copy(region), [(2, 0)]);
    });
}

/// A thread ends and two others want its line: the one that gets it sees its places empty.
#[test]
fn a_line_has_one_owner() {
    loom::model(|| {
        let region = Region::for_model_of_spans(0, 0, 1);
        let first = region.open_line(3, 1).expect("a line");
        begin(&first, 3, 0).expect("room");
        let take = move |tid: u32| {
            let line = region.open_line(tid, 1);
            line.map(|line| begin(&line, tid, 0).expect("its places are free")).is_some()
        };
        let other = thread::spawn(move || take(1));
        region.give_open_line(first);
        let mine = take(2);
        let both = (other.join().expect("no panic"), mine);
        assert!(both.0 != both.1, "{both:?}");
        assert_eq!(copy(region), [(if both.0 { 1 } else { 2 }, 0)]);
    });
}

/// A thread died without freeing its line. Two that want a line free it and take it, while another
/// thread copies.
#[test]
fn a_dead_threads_line_is_brought_back_once() {
    loom::model(|| {
        let region = Region::for_model_of_spans(0, 0, 1);
        let dead = region.open_line(1, 1).expect("a line");
        begin(&dead, 1, 0).expect("room");
        let want = move |tid: u32| {
            let line = region.open_line(tid, 1).or_else(|| {
                region.free_lines_of(|tid| tid == 1);
                region.open_line(tid, 1)
            });
            line.map(|line| begin(&line, tid, 0).expect("its places are free")).is_some()
        };
        let other = thread::spawn(move || want(2));
        let seen = copy(region);
        assert!(seen.len() <= 1, "{seen:?}");
        let mine = want(3);
        let both = (other.join().expect("no panic"), mine);
        assert!(both.0 != both.1, "{both:?}");
        assert_eq!(copy(region), [(if both.0 { 2 } else { 3 }, 0)]);
    });
}
