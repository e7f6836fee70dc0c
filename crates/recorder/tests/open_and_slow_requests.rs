//! The table of open requests and the mailbox of slow ones, with writers and a reader at once.
#![allow(clippy::expect_used, missing_docs)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use recorder::{install, Limit, Recorder, Request};
use ring::Region;

/// One recorder serves all tests of this process.
fn recorder() -> &'static Recorder {
    static MADE: std::sync::OnceLock<&'static Recorder> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        let region = Region::in_process(8 << 20, 1, "test").expect("memory");
        let limit = |name: &str| Limit {
            ns: if name.contains("strict") { 1 } else { u64::MAX },
            group: if name.contains("crowd") { 3 } else { 0 },
        };
        let made = Recorder::new(region, Box::new(limit));
        install(made);
        made
    })
}

#[test]
fn requests_from_many_threads_are_each_seen_whole_while_they_run() {
    let recorder = recorder();
    let stop = AtomicBool::new(false);
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _stops = testkit::SetsAtEnd(&stop);
        for i in 0..4u32 {
            let stop = &stop;
            scope.spawn(move || {
                let name = recorder.request_name(&format!("loose {i}"));
                while !stop.load(Ordering::Relaxed) {
                    let request = Request::begin(name, false, 0);
                    recorder::event(name, request.id, &[]);
                    request.end(name, false, &[]);
                }
            });
        }
        while seen.load(Ordering::Relaxed) < 2000 {
            recorder.open_requests().each(|request| {
                assert!(
                    request.id != 0 && request.begin_ns != 0 && request.tid != 0,
                    "{request:?}"
                );
                seen.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
}

#[test]
fn a_request_that_begins_wakes_the_sampler() {
    let recorder = recorder();
    let name = recorder.request_name("loose alarm");
    let sleeper = std::thread::spawn(|| recorder.nap().sleep(Duration::from_secs(600)));
    while !sleeper.is_finished() {
        Request::begin(name, false, 0).end(name, false, &[]);
        std::thread::yield_now();
    }
    assert!(sleeper.join().expect("no panic"), "woken, not rested");
}

#[test]
fn a_request_past_its_limit_is_posted_once_and_others_never() {
    let recorder = recorder();
    let (strict, loose) = (recorder.request_name("strict"), recorder.request_name("loose"));
    let seen = recorder.limits().take_slow(0, |_| ());
    let (slow, fast) = (Request::begin(strict, false, 0), Request::begin(loose, false, 0));
    slow.end(strict, false, &[]);
    fast.end(loose, false, &[]);
    let mut reported = Vec::new();
    let seen = recorder.limits().take_slow(seen, |s| reported.push(s.id));
    assert_eq!(reported, [slow.id]);
    recorder.limits().take_slow(seen, |s| panic!("reported twice: {s:?}"));
}

#[test]
fn a_request_that_waited_for_its_handler_began_when_it_arrived() {
    let recorder = recorder();
    let name = recorder.request_name("loose waited");
    let request = Request::begin(name, false, 250_000_000);
    let age = sys::clock::now_ns() - request.begin_ns;
    request.end(name, false, &[]);
    assert!(age >= 250_000_000, "{age}");
}

#[test]
fn requests_of_a_group_are_counted_and_those_past_their_limit_too() {
    let recorder = recorder();
    let (loose, strict) =
        (recorder.request_name("crowd loose"), recorder.request_name("crowd strict"));
    for _ in 0..30 {
        Request::begin(loose, false, 0).end(loose, false, &[]);
    }
    for _ in 0..5 {
        Request::begin(strict, false, 1000).end(strict, false, &[]);
    }
    assert_eq!(recorder.limits().group_of(strict), 3);
    assert_eq!(recorder.limits().counts(3), (35, 5));
}
