//! Sessions beside the black box: filters, policies when full, exact counts. A dead reader harms no
//! other session.
#![allow(clippy::expect_used, missing_docs)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use format::record::Kind;
use recorder::{Filter, Limit, Recorder, Session, SessionCounts};
use ring::{OnFull, Region};

/// One recorder serves all tests of this process; sessions see the records of all tests, so one
/// test runs at a time.
fn recorder() -> (&'static Recorder, MutexGuard<'static, ()>) {
    static MADE: OnceLock<&'static Recorder> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let made = MADE.get_or_init(|| {
        let region = Region::in_process(4 << 20, 1, "test").expect("memory");
        let made = Recorder::new(region, Box::new(|_| Limit { ns: u64::MAX, group: 0 }));
        recorder::install(made);
        made
    });
    (made, TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

fn kinds(list: &[Kind]) -> u64 {
    list.iter().map(|kind| 1 << *kind as u64).sum()
}

fn balanced(counts: SessionCounts, left: u64) {
    let q = counts.queue;
    assert_eq!(q.offered, q.read + q.overwritten + q.dropped + q.torn + left, "{q:?}");
}

#[test]
fn each_session_takes_what_its_filter_passes() {
    let (recorder, _turn) = recorder();
    let early = recorder.tables().name("db.early");
    let named = Filter {
        kinds: kinds(&[Kind::Event, Kind::Span]),
        min_ns: 0,
        names: Some(Box::new(|name| name.starts_with("db."))),
    };
    let by_name = Session::open(named, OnFull::DropNewest, 1 << 20).expect("room");
    let slow = Filter { kinds: kinds(&[Kind::Span]), min_ns: 1_000_000_000, names: None };
    let slow = Session::open(slow, OnFull::DropNewest, 1 << 20).expect("room");
    assert_ne!(by_name.number(), slow.number());

    let (late, other) = (recorder.tables().name("db.late"), recorder.tables().name("web.other"));
    let now = sys::clock::now_ns();
    for name in [early, late, other] {
        recorder::event(name, 1, &[]);
        recorder::span(name, now, 2, false, &[]);
        recorder::span(name, now - 2_000_000_000, 3, false, &[]);
    }
    let read = |session: &Session| {
        let mut got = Vec::new();
        session.read(1000, |tid, words| {
            assert_eq!(tid, sys::thread::cached_tid());
            got.push((words[0] as u8, (words[0] >> 32) as u32));
        });
        got
    };
    let (event, span) = (Kind::Event as u8, Kind::Span as u8);
    let wanted: Vec<_> =
        [early, late].iter().flat_map(|n| [(event, *n), (span, *n), (span, *n)]).collect();
    assert_eq!(read(&by_name), wanted);
    assert_eq!(read(&slow), [(span, early), (span, late), (span, other)]);
    assert_eq!(by_name.counts().filtered, 3);
    balanced(slow.counts(), 0);
}

#[test]
fn sixty_three_sessions_fit_and_the_next_is_refused() {
    let (recorder, _turn) = recorder();
    let open = || Session::open(Filter::default(), OnFull::DropNewest, 8 << 10);
    let mut all: Vec<Session> = (0..63).map(|_| open().expect("room")).collect();
    let refused = open().expect_err("full");
    assert!(refused.contains("found 63 open"), "{refused}");
    let name = recorder.tables().name("seen by all");
    recorder::event(name, 0, &[]);
    assert!(all.iter().all(|session| session.read(10, |_, _| ()) == 1));
    all.pop();
    let again = open().expect("a place is free again");
    recorder::event(name, 0, &[]);
    assert_eq!(again.read(10, |_, _| ()), 1);
}

#[test]
fn a_reader_that_never_reads_costs_its_own_session_and_nobody_else() {
    let (recorder, _turn) = recorder();
    let name = recorder.tables().name("flood");
    let only = || Filter { names: Some(Box::new(|n| n == "flood")), ..Filter::default() };
    let dead = Session::open(only(), OnFull::DropNewest, 64 << 10).expect("room");
    let ring = Session::open(only(), OnFull::OverwriteOldest, 64 << 10).expect("room");
    let live = Session::open(only(), OnFull::OverwriteOldest, 64 << 20).expect("room");
    let stop = &AtomicBool::new(false);
    let (threads, each) = (4u64, 30_000u64);
    let mut numbers: Vec<u64> = Vec::new();
    std::thread::scope(|scope| {
        let stops = testkit::SetsAtEnd(stop);
        let reader = scope.spawn(|| {
            let mut got = Vec::new();
            while !stop.load(Ordering::Relaxed) || live.read(1, |_, w| got.push(w[2])) > 0 {
                live.read(1000, |_, words| got.push(words[2]));
            }
            got
        });
        let writers: Vec<_> = (0..threads)
            .map(|t| {
                scope.spawn(move || {
                    (0..each).for_each(|i| recorder::event(name, t * each + i, &[]));
                })
            })
            .collect();
        writers.into_iter().for_each(|w| w.join().expect("no panic"));
        drop(stops);
        numbers = reader.join().expect("no panic");
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (0..threads * each).collect::<Vec<u64>>(), "all, once, in the live one");
    balanced(live.counts(), 0);
    let full = dead.counts().queue;
    assert_eq!((full.offered, full.read, full.overwritten), (threads * each, 0, 0));
    let kept = dead.read(usize::MAX, |_, words| assert_eq!(words.len(), 3)) as u64;
    assert_eq!(kept, 1024);
    balanced(dead.counts(), 0);
    let newest = ring.counts().queue;
    assert_eq!(newest.dropped, newest.offered - newest.overwritten - 1024, "{newest:?}");
    ring.read(usize::MAX, |_, _| ());
    balanced(ring.counts(), 0);
}

#[test]
fn a_blocking_session_waits_for_its_reader_and_no_longer_than_its_limit() {
    let (recorder, _turn) = recorder();
    let name = recorder.tables().name("blocking");
    let only = Filter { names: Some(Box::new(|n| n == "blocking")), ..Filter::default() };
    let limit_ns = 30_000_000;
    let session = Session::open(only, OnFull::Block { limit_ns }, 8 << 10).expect("room");
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stops = testkit::SetsAtEnd(stop);
        let reader = scope.spawn(|| {
            let mut got = 0;
            while !stop.load(Ordering::Relaxed) {
                got += session.read(50, |_, _| ());
                std::thread::sleep(Duration::from_micros(200));
            }
            got + session.read(usize::MAX, |_, _| ())
        });
        for _ in 0..2 {
            scope
                .spawn(move || (0..5_000).for_each(|i| recorder::event(name, i, &[])))
                .join()
                .expect("no panic");
        }
        drop(stops);
        let read = reader.join().expect("no panic") as u64;
        assert_eq!(read + session.counts().queue.dropped, 10_000);
        assert!(read > 9_000, "the reader keeps up when it is waited for: {read}");
    });
    // No reader any more: the queue is full, then each record costs the limit and is given up.
    (0..128).for_each(|i| recorder::event(name, i, &[]));
    let before = session.counts().queue.dropped;
    let begin = Instant::now();
    recorder::event(name, 0, &[]);
    assert!(begin.elapsed() >= Duration::from_nanos(limit_ns), "{:?}", begin.elapsed());
    assert_eq!(session.counts().queue.dropped, before + 1);
}

#[test]
fn sessions_come_and_go_while_everybody_records() {
    let (recorder, _turn) = recorder();
    let name = recorder.tables().name("all the time");
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stops = testkit::SetsAtEnd(stop);
        for _ in 0..3 {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    recorder::event(name, 0, &[]);
                }
            });
        }
        for i in 0..300 {
            let policy = if i % 2 == 0 { OnFull::DropNewest } else { OnFull::OverwriteOldest };
            let session = Session::open(Filter::default(), policy, 16 << 10).expect("room");
            session.read(500, |_, words| assert!(!words.is_empty()));
        }
    });
}
