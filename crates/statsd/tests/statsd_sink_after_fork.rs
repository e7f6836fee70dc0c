//! Fork: the child needs no call, has a dispatcher of its own, and repeats nothing.

#![allow(clippy::expect_used, missing_docs)]

mod common;

use common::*;
use statsd::{Reason, Sink, Target};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use testkit::in_a_child;

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[test]
fn lines_that_waited_at_the_fork_are_sent_by_the_parent_alone() {
    let place = Place::new();
    let sink = Sink::start(config(Target::Unix(place.text())));
    sink.window(&counters("parent", 20));
    until("the dispatcher to have tried", || sink.stats().down == Some(Reason::NoReceiver));
    let mut server = Server::datagrams(UnixDatagram::bind(&place.0).expect("binds"));
    let code = in_a_child(|| {
        let fresh = sink.stats().produced.lines == 0;
        sink.window(&counters("child", 5));
        let flushed = sink.flush(LONG);
        let stats = sink.stats();
        sink.close(LONG);
        let right = stats.sent.lines == 5 && stats.produced.lines == 5 && stats.adds_up();
        i32::from(!(fresh && flushed && right))
    });
    assert_eq!(code, 0);
    assert!(sink.flush(LONG));
    server.wait_for(25);
    let tally = tally(&server.end());
    assert!(tally.values().all(|times| *times == 1), "{tally:?}");
    assert_eq!(tally.keys().filter(|l| l.starts_with("child")).count(), 5);
    assert_eq!(tally.keys().filter(|l| l.starts_with("parent")).count(), 20);
    assert_eq!(sink.stats().sent.lines, 20);
}

/// In the model a silent child never gets its dispatcher back, and one that sends gets it in the
/// middle of a call. Ours has nothing to do until it sends.
#[test]
fn a_silent_child_starts_nothing_and_ends_at_once() {
    let place = Place::new();
    let _server = Server::datagrams(UnixDatagram::bind(&place.0).expect("binds"));
    let sink = Sink::start(config(Target::Unix(place.text())));
    sink.window(&counters("parent", 3));
    assert!(sink.flush(LONG));
    let code = in_a_child(|| {
        let alone = threads() == 1;
        let idle = sink.flush(LONG) && sink.stats().produced.lines == 0;
        sink.close(LONG);
        i32::from(!(alone && idle && threads() == 1))
    });
    assert_eq!(code, 0);
    sink.window(&counters("parent", 3));
    assert!(sink.flush(LONG), "the parent goes on");
    assert_eq!(sink.stats().sent.lines, 6);
}

#[test]
fn a_fork_amid_windows_and_its_childs_child_get_through() {
    let place = Place::new();
    let mut server = Server::datagrams(UnixDatagram::bind(&place.0).expect("binds"));
    let sink = std::sync::Arc::new(Sink::start(config(Target::Unix(place.text()))));
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let _stops = testkit::SetsAtEnd(&stop);
    let busy = {
        let (sink, stop) = (sink.clone(), stop.clone());
        std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // The queue's locks are held most of the time, so also at a fork.
                sink.window(&counters("busy", 50));
                std::thread::sleep(Duration::from_micros(200));
            }
        })
    };
    for n in 0..20 {
        let code = in_a_child(|| {
            sink.after_fork();
            sink.window(&counters(&format!("child{n}"), 1));
            let grandchild = in_a_child(|| {
                sink.window(&counters(&format!("grandchild{n}"), 1));
                assert!(sink.flush(LONG), "of the grandchild: {:?}", sink.stats());
                0
            });
            assert!(sink.flush(LONG), "of the child: {:?}", sink.stats());
            grandchild
        });
        assert_eq!(code, 0);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    busy.join().expect("ends");
    assert!(sink.flush(LONG));
    let busy = sink.stats().sent.lines as usize;
    server.wait_for(busy + 40);
    let tally = tally(&server.end());
    for n in 0..20 {
        assert_eq!(tally.get(&format!("child{n}.0:1|c")), Some(&1));
        assert_eq!(tally.get(&format!("grandchild{n}.0:1|c")), Some(&1));
    }
    let parents = tally.iter().filter(|(line, _)| line.starts_with("busy"));
    assert_eq!(parents.map(|(_, times)| times).sum::<usize>(), busy);
}

#[test]
fn a_sink_that_was_closed_stays_closed_in_children() {
    let place = Place::new();
    let sink = Sink::start(config(Target::Unix(place.text())));
    sink.close(LONG);
    let code = in_a_child(|| {
        sink.window(&counters("late", 2));
        let stats = sink.stats();
        i32::from(stats.lost_by(Reason::Closed).lines != 2 || threads() != 1)
    });
    assert_eq!(code, 0);
}
