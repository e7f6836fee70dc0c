//! A receiver that dies, comes back, or never reads: callers go on, and every line is accounted
//! for.

#![allow(clippy::expect_used, missing_docs)]

mod common;

use common::*;
use statsd::{Config, Event, Reason, Sink, Target};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};

/// What was sent before the death and what was given meanwhile arrives, each line once.
fn dies_and_comes_back(sink: &Sink, mut start: impl FnMut() -> Server) {
    let mut server = start();
    sink.window(&counters("before", 50));
    assert!(sink.flush(LONG));
    server.wait_for(50);
    let mut arrived = server.end();
    for round in 0..5 {
        sink.window(&counters(&format!("meanwhile{round}"), 50));
    }
    until("the death to be noticed", || sink.stats().down == Some(Reason::NoReceiver));
    let stats = sink.stats();
    assert!(stats.adds_up());
    assert!(stats.errors[Reason::NoReceiver as usize] > 0);
    assert_eq!((stats.sent.lines, stats.waiting.lines), (50, 250), "{stats:?}");
    let mut server = start();
    assert!(sink.flush(LONG), "{:?}", sink.stats());
    sink.window(&counters("after", 50));
    server.wait_for(300);
    arrived.extend(server.end());
    let stats = sink.stats();
    assert_eq!((stats.sent.lines, stats.lost().lines), (350, 0), "{stats:?}");
    assert!(stats.adds_up() && stats.connects >= 2 && stats.down.is_none());
    let tally = tally(&arrived);
    assert_eq!(tally.len(), 350);
    assert!(tally.values().all(|times| *times == 1));
}

#[test]
fn over_udp() {
    // On an address of this process's own: while nobody listens, no other test gets the port.
    let [_, first, second, third] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, first + 1, second, third);
    let port = UdpSocket::bind((host, 0)).and_then(|s| s.local_addr()).expect("free").port();
    let sink = Sink::start(config(Target::Udp { host: host.to_string(), port }));
    dies_and_comes_back(&sink, || {
        Server::udp(UdpSocket::bind((host, port)).expect("nobody took the port"))
    });
}

#[test]
fn over_unix_datagrams() {
    let place = Place::new();
    let sink = Sink::start(config(Target::Unix(place.text())));
    dies_and_comes_back(&sink, || {
        let _ = std::fs::remove_file(&place.0);
        Server::datagrams(UnixDatagram::bind(&place.0).expect("binds"))
    });
}

#[test]
fn over_a_unix_stream() {
    let place = Place::new();
    let sink = Sink::start(config(Target::UnixStream(place.text())));
    dies_and_comes_back(&sink, || {
        let _ = std::fs::remove_file(&place.0);
        Server::stream(UnixListener::bind(&place.0).expect("binds"))
    });
}

/// The model's queue held a million entries once. Ours holds a number of bytes, the newest lines,
/// and counts the rest. No call waits: if one did, this test would never end.
#[test]
fn the_queue_is_bounded_in_bytes_and_keeps_the_newest() {
    let place = Place::new();
    let settings = Config { queue_bytes: 20_000, ..config(Target::Unix(place.text())) };
    let sink = Sink::start(settings);
    for round in 0..2000 {
        sink.window(&counters(&format!("round{round}"), 50));
        let stats = sink.stats();
        assert!(stats.waiting.bytes <= 20_000 && stats.adds_up());
    }
    let stats = sink.stats();
    assert_eq!(stats.produced.lines, 100_000);
    assert!(
        stats.lost_by(Reason::NoReceiver).lines + stats.lost_by(Reason::QueueFull).lines > 98_000
    );
    let mut server = Server::datagrams(UnixDatagram::bind(&place.0).expect("binds"));
    assert!(sink.flush(LONG));
    let sent = sink.stats().sent.lines as usize;
    server.wait_for(sent);
    let arrived = server.end();
    assert_eq!(arrived.len(), sent);
    assert!(arrived.contains(&"round1999.49:1|c".to_owned()), "the newest are kept");
}

/// Fills the receiver's buffer, then a lot more.
fn never_reads(target: Target, drain: impl FnOnce() -> Server) {
    let settings = Config { queue_bytes: 100_000, ..config(target) };
    let sink = Sink::start(settings);
    for round in 0..3000 {
        sink.window(&counters(&format!("a.long.name.to.fill.the.buffer.{round}"), 50));
        sink.event(&Event { title: "e".into(), ..Event::default() });
        assert!(sink.stats().adds_up());
    }
    until("the full buffer to be noticed", || sink.stats().down == Some(Reason::WouldBlock));
    sink.window(&counters("more", 5000));
    let stats = sink.stats();
    assert!(stats.errors[Reason::WouldBlock as usize] > 0);
    assert!(stats.lost_by(Reason::WouldBlock).lines > 0, "{stats:?}");
    assert!(!sink.flush(std::time::Duration::from_millis(1)), "it cannot be flushed");
    let mut server = drain();
    assert!(sink.flush(LONG));
    sink.close(LONG);
    let stats = sink.stats();
    server.wait_for(stats.sent.lines as usize);
    assert_eq!(server.end().len() as u64, stats.sent.lines);
    assert!(stats.adds_up() && stats.waiting.lines == 0);
}

#[test]
fn a_datagram_socket_that_is_not_read() {
    let place = Place::new();
    let socket = UnixDatagram::bind(&place.0).expect("binds");
    never_reads(Target::Unix(place.text()), || Server::datagrams(socket));
}

#[test]
fn a_stream_that_is_not_read_nor_even_accepted() {
    let place = Place::new();
    let listener = UnixListener::bind(&place.0).expect("binds");
    never_reads(Target::UnixStream(place.text()), || Server::stream(listener));
}

/// The model's process got stuck on exit.
#[test]
fn closing_ends_though_nobody_reads_and_counts_what_is_left() {
    let place = Place::new();
    let socket = UnixDatagram::bind(&place.0).expect("binds");
    let sink = Sink::start(config(Target::Unix(place.text())));
    for round in 0..200 {
        sink.window(&counters(&format!("a.long.name.to.fill.the.buffer.{round}"), 200));
    }
    until("the full buffer to be noticed", || sink.stats().down == Some(Reason::WouldBlock));
    sink.close(std::time::Duration::from_millis(100));
    let stats = sink.stats();
    assert!(stats.adds_up() && stats.waiting.lines == 0, "{stats:?}");
    assert!(stats.lost_by(Reason::WouldBlock).lines > 0);
    let arrived = Server::datagrams(socket).end();
    assert_eq!(arrived.len() as u64, stats.sent.lines);
}

#[test]
fn closing_while_nobody_listens_is_known_at_once_and_lines_after_it_are_counted() {
    let place = Place::new();
    let sink = Sink::start(config(Target::Unix(place.text())));
    sink.window(&counters("x", 10));
    // A limit that is never reached: the first try after the call decides.
    sink.close(LONG * 100);
    sink.close(LONG * 100);
    sink.window(&counters("late", 3));
    let stats = sink.stats();
    assert_eq!(stats.lost_by(Reason::NoReceiver).lines, 10);
    assert_eq!(stats.lost_by(Reason::Closed).lines, 3);
    assert!(stats.adds_up() && stats.waiting.lines == 0);
}

/// The model's finalizer lost the prefix and sent wrong values: it was other code than a flush.
#[test]
fn closing_sends_the_same_lines_as_a_flush() {
    let place = Place::new();
    let mut server = Server::datagrams(UnixDatagram::bind(&place.0).expect("binds"));
    let settings = || Config {
        prefix: "app".into(),
        tags: vec![("env".into(), "prod".into())],
        ..config(Target::Unix(place.text()))
    };
    let flushed = Sink::start(settings());
    flushed.window(&counters("x", 2));
    assert!(flushed.flush(LONG));
    let closed = Sink::start(settings());
    closed.window(&counters("x", 2));
    closed.close(LONG);
    let arrived = server.wait_for(4);
    assert_eq!(arrived[..2], arrived[2..]);
    assert_eq!(arrived[0], "app.x.0:1|c|#env:prod");
}

/// The model never closes the sockets of its threads.
#[test]
fn nothing_is_left_open() {
    if std::env::var_os("STATSD_ALONE").is_none() {
        // Other tests of this process open sockets too: again, alone.
        let own = std::env::current_exe().expect("/proc is there");
        let mut again = std::process::Command::new(own);
        again.args(["--exact", "nothing_is_left_open"]).env("STATSD_ALONE", "1");
        assert!(again.status().expect("it runs").success());
        return;
    }
    let place = Place::new();
    let server = Server::datagrams(UnixDatagram::bind(&place.0).expect("binds"));
    let before = open_sockets();
    for _ in 0..20 {
        let sink = std::sync::Arc::new(Sink::start(config(Target::Unix(place.text()))));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let sink = sink.clone();
                std::thread::spawn(move || sink.window(&counters("x", 5)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("ends"));
        assert!(sink.flush(LONG));
        assert_eq!(sink.stats().connects, 1);
        sink.close(LONG);
    }
    until("all sockets to be closed", || open_sockets() == before);
    drop(server);
}
