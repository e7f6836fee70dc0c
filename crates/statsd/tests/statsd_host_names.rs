//! Host names: only the dispatcher waits for them, and they may resolve differently later.

#![allow(clippy::expect_used, missing_docs)]

mod common;

use common::*;
use statsd::{Config, Event, Reason, Sink, Target};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

fn named(host: &str, resolve: statsd::Resolve) -> Config {
    let target = Target::Udp { host: host.to_owned(), port: 8125 };
    Config { resolve, resolve_every: Duration::ZERO, ..config(target) }
}

fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    (socket, address)
}

/// A port that refuses what is sent to it, as long as the socket lives: it takes datagrams from its
/// one peer only, and no other program can have the port.
fn refusing() -> (UdpSocket, SocketAddr) {
    let (socket, address) = bound();
    socket.connect(address).expect("an address");
    (socket, address)
}

/// The model flushed under the lock that callers need. Here the resolver does not return before the
/// callers are done: if one of them waited for it, the test would never end.
#[test]
fn callers_go_on_while_the_resolver_hangs() {
    static GATE: Mutex<()> = Mutex::new(());
    fn slow(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        drop(GATE.lock().unwrap_or_else(PoisonError::into_inner));
        Err(io::Error::other("nothing found"))
    }
    let shut = GATE.lock().expect("nobody has it");
    let sink = Sink::start(named("slow.example", slow));
    for round in 0..100 {
        sink.window(&counters(&format!("round{round}"), 10));
        sink.event(&Event { title: "e".into(), ..Event::default() });
        assert!(sink.stats().adds_up());
    }
    assert!(!sink.flush(Duration::from_millis(1)));
    sink.close(Duration::from_millis(1));
    let stats = sink.stats();
    assert_eq!((stats.sent.lines, stats.waiting.lines), (0, 0));
    assert!(stats.adds_up() && stats.lost().lines == stats.produced.lines);
    drop(shut);
    until("the dispatcher to end", || sink.stats().adds_up());
}

#[test]
fn a_name_that_does_not_resolve_is_reported_and_counted() {
    fn none(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        Err(io::Error::other("no such name"))
    }
    let sink = Sink::start(named("nobody.example", none));
    sink.window(&counters("x", 10));
    until("the resolver's answer", || sink.stats().down == Some(Reason::Unresolved));
    assert!(sink.stats().last_error.contains("udp://nobody.example:8125: no such name"));
    sink.close(LONG);
    let stats = sink.stats();
    assert_eq!(stats.lost_by(Reason::Unresolved).lines, 10);
    assert!(stats.errors[Reason::Unresolved as usize] > 0 && stats.adds_up());
}

#[test]
fn the_machines_own_resolver_says_that_such_a_name_does_not_exist() {
    let target = Target::Udp { host: "no-such-host.invalid".to_owned(), port: 8125 };
    let sink = Sink::start(config(target));
    sink.window(&counters("x", 10));
    sink.close(Duration::from_millis(1));
    let stats = sink.stats();
    assert!(stats.adds_up() && stats.waiting.lines == 0);
    assert_eq!(stats.lost().lines, 10);
    assert!(statsd::resolve("no-such-host.invalid", 1).is_err());
    assert_eq!(
        statsd::resolve("::1", 7).map(|a| a[0].to_string()).ok().as_deref(),
        Some("[::1]:7")
    );
}

static MOVING: Mutex<Option<SocketAddr>> = Mutex::new(None);

fn moving(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
    let at = MOVING.lock().unwrap_or_else(PoisonError::into_inner);
    at.map(|at| vec![at]).ok_or_else(|| io::Error::other("not yet"))
}

#[test]
fn a_name_that_moves_is_followed_and_one_that_stops_resolving_is_kept() {
    let ((one, at_one), (two, at_two)) = (bound(), bound());
    let (mut one, mut two) = (Server::udp(one), Server::udp(two));
    let go = |to: Option<SocketAddr>| *MOVING.lock().expect("not poisoned") = to;
    let sink = Sink::start(named("agent.example", moving));
    sink.window(&counters("first", 1));
    until("a first failure", || sink.stats().down == Some(Reason::Unresolved));
    go(Some(at_one));
    assert_eq!(one.wait_for(1), ["first.0:1|c"]);
    go(None);
    sink.window(&counters("second", 1));
    assert_eq!(one.wait_for(2), ["first.0:1|c", "second.0:1|c"]);
    go(Some(at_two));
    sink.window(&counters("third", 1));
    assert_eq!(two.wait_for(1), ["third.0:1|c"]);
    assert!(sink.flush(LONG));
    assert_eq!(sink.stats().connects, 2);
    assert_eq!((sink.stats().sent.lines, sink.stats().lost().lines), (3, 0));
}

static BOTH: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());

fn both(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(BOTH.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

#[test]
fn when_the_first_address_refuses_the_next_is_tried() {
    let (_held, closed) = refusing();
    let (socket, listening) = bound();
    *BOTH.lock().expect("not poisoned") = vec![closed, listening];
    let mut server = Server::udp(socket);
    let settings = Config { resolve_every: LONG * 100, ..named("localhost", both) };
    let sink = Sink::start(settings);
    sink.window(&counters("x", 3));
    assert_eq!(server.wait_for(3).len(), 3);
    assert!(sink.flush(LONG));
    let stats = sink.stats();
    assert_eq!((stats.sent.lines, stats.lost().lines, stats.connects), (3, 0, 2));
    // Also at the end, where the first refusal of all addresses is the last try.
    let brief = Sink::start(Config { resolve_every: LONG * 100, ..named("localhost", both) });
    brief.window(&counters("y", 4));
    brief.close(LONG);
    assert_eq!((brief.stats().sent.lines, brief.stats().lost().lines), (4, 0));
    assert_eq!(server.wait_for(7).len(), 7);
}

/// A program that is about to exit needs to know whether a receiver is there, and no more.
#[test]
fn a_flush_that_is_not_heard_ends_once_all_addresses_have_refused() {
    fn closed(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        let (socket, address) = refusing();
        std::mem::forget(socket);
        Ok(vec![address, address])
    }
    let sink = Sink::start(named("agent.example", closed));
    sink.window(&counters("x", 3));
    // A limit that is never reached.
    assert!(!sink.flush_if_heard(LONG * 100));
    let stats = sink.stats();
    assert_eq!((stats.waiting.lines, stats.down), (3, Some(Reason::NoReceiver)));
    assert!(stats.errors[Reason::NoReceiver as usize] >= 2 && stats.adds_up());
}
