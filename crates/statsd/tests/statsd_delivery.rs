//! What the account calls sent has arrived, line by line and value by value.

#![allow(clippy::expect_used, missing_docs)]

mod common;

use common::*;
use metrics::window::{Kind, Reading, Value};
use statsd::{Config, Event, Reason, ServiceCheck, Sink, Target};
use std::net::UdpSocket;
use std::os::unix::net::{UnixDatagram, UnixListener};

/// Sends many windows; everything sent has arrived once, nothing was lost, nothing is left.
fn all_arrives(config: Config, mut server: Server) {
    let most = config.packet_bytes as u64;
    let sink = Sink::start(config);
    for round in 0..20 {
        sink.window(&counters(&format!("round{round}"), 100));
        // A receiver on loopback has room for a few hundred datagrams only.
        assert!(sink.flush(LONG));
        server.wait_for((round + 1) * 100);
    }
    let stats = sink.stats();
    assert!(stats.adds_up(), "{stats:?}");
    assert_eq!((stats.sent.lines, stats.lost().lines, stats.waiting.lines), (2000, 0, 0));
    assert_eq!(stats.connects, 1, "one connection, whoever calls");
    assert!(stats.sent.bytes <= stats.sent.packets * most);
    assert!(stats.sent.packets < 2000 / 10, "lines share packets: {}", stats.sent.packets);
    let tally = tally(&server.end());
    assert_eq!(tally.len(), 2000);
    assert!(tally.values().all(|times| *times == 1));
    assert!(tally.contains_key("round19.99:1|c"));
}

#[test]
fn over_udp() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = socket.local_addr().expect("bound").port();
    all_arrives(config(udp(port)), Server::udp(socket));
}

#[test]
fn over_udp_with_version_6_of_the_protocol() {
    let Ok(socket) = UdpSocket::bind("[::1]:0") else {
        eprintln!("SKIPPED: this machine has no ::1");
        return;
    };
    let port = socket.local_addr().expect("bound").port();
    let target = Target::host_port(&format!("[::1]:{port}")).expect("an address");
    all_arrives(config(target), Server::udp(socket));
}

#[test]
fn over_unix_datagrams() {
    let place = Place::new();
    let socket = UnixDatagram::bind(&place.0).expect("binds");
    all_arrives(config(Target::Unix(place.text())), Server::datagrams(socket));
}

#[test]
fn over_a_unix_stream() {
    let place = Place::new();
    let listener = UnixListener::bind(&place.0).expect("binds");
    all_arrives(config(Target::UnixStream(place.text())), Server::stream(listener));
}

#[test]
fn over_a_unix_socket_that_turns_out_to_be_a_stream() {
    let place = Place::new();
    let listener = UnixListener::bind(&place.0).expect("binds");
    all_arrives(config(Target::Unix(place.text())), Server::stream(listener));
}

#[test]
fn a_frame_larger_than_the_sockets_buffer_arrives_whole() {
    let place = Place::new();
    let listener = UnixListener::bind(&place.0).expect("binds");
    let target = Target::UnixStream(place.text());
    let packet_bytes = 3_000_000;
    let sink = Sink::start(Config { packet_bytes, queue_bytes: 8 << 20, ..config(target) });
    sink.window(&counters("one.of.very.many", 100_000));
    // The receiver reads only after the first part of the frame has filled the socket's buffer.
    until("a full buffer", || sink.stats().errors[Reason::WouldBlock as usize] > 0);
    let mut server = Server::stream(listener);
    server.wait_for(100_000);
    assert!(sink.flush(LONG));
    assert_eq!(sink.stats().sent.packets, 1);
    assert_eq!(tally(&server.end()).len(), 100_000);
}

#[test]
fn every_kind_arrives_as_the_protocol_has_it() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = socket.local_addr().expect("bound").port();
    let mut server = Server::udp(socket);
    let tags = vec![("env".to_owned(), "test".to_owned())];
    let settings = Config { prefix: "app".into(), tags, ..config(udp(port)) };
    let sink = Sink::start(settings);
    let kept = Value::Values { kept: vec![1.5, 2.0], count: 20.0, sum: 35.0, min: 1.5, max: 2.0 };
    let members = Value::Members { members: vec!["ann".into(), "bob".into()], refused: 0 };
    sink.window(&window(vec![
        counter("c", 3.0),
        Reading { id: id(Kind::Gauge, "g"), value: Value::Gauge { value: -2.5, set: true } },
        Reading { id: id(Kind::Gauge, "g"), value: Value::Gauge { value: 1.0, set: false } },
        Reading { id: id(Kind::Distribution, "d"), value: kept },
        Reading { id: id(Kind::Set, "s"), value: members },
    ]));
    assert!(sink.event(&Event { title: "up".into(), text: "now".into(), ..Event::default() }));
    let check =
        ServiceCheck { name: "db".into(), message: Some("fine".into()), ..Default::default() };
    assert!(sink.service_check(&check));
    let wanted = [
        "app.c:3|c|#env:test",
        "app.g:-2.5|g|#env:test",
        "app.g:-1.5|g|#env:test",
        "app.d:1.5:2|d|@0.1|#env:test",
        "app.s:ann|s|#env:test",
        "app.s:bob|s|#env:test",
        "_e{2,3}:up|now|#env:test",
        "_sc|db|0|#env:test|m:fine",
    ];
    assert_eq!(server.wait_for(wanted.len()), wanted);
    assert!(sink.flush(LONG));
    assert!(sink.stats().adds_up());
}

#[test]
fn self_metrics_add_up_in_every_report() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = socket.local_addr().expect("bound").port();
    let mut server = Server::udp(socket);
    let every = Some(std::time::Duration::ZERO);
    let settings = Config { self_every: every, packet_bytes: 200, ..config(udp(port)) };
    let sink = Sink::start(settings);
    for round in 0..30 {
        let mut odd = counters("some", round);
        odd.readings.push(counter(&"x".repeat(300), 1.0));
        odd.readings.push(counter("nan", f64::NAN));
        sink.window(&odd);
        assert!(sink.stats().adds_up());
    }
    sink.close(LONG);
    let stats = sink.stats();
    assert!(stats.adds_up() && stats.waiting.lines == 0, "{stats:?}");
    assert_eq!(stats.lost_by(Reason::TooLong).lines, 30);
    assert_eq!(stats.lost_by(Reason::Invalid).lines, 30);
    server.wait_for(stats.sent.lines as usize);
    // A gauge ends each report: by then the reported values add up.
    let (mut produced, mut sent, mut dropped, mut reports) = (0, 0, 0, 0);
    for line in server.end() {
        let Some(own) = line.strip_prefix("dashcam.statsd.") else { continue };
        let (name, rest) = own.split_once(':').expect("a value");
        let value: i64 = rest.split('|').next().expect("a value").parse().expect("a number");
        match name {
            "lines.produced" => produced += value,
            "lines.sent" => sent += value,
            "lines.dropped" => dropped += value,
            "queue.lines" => {
                assert_eq!(produced, sent + dropped + value);
                reports += 1;
            }
            _ => {}
        }
    }
    assert_eq!((reports, dropped), (31, 60));
    // All but the last report itself is in the last report.
    let last = stats.produced.lines as i64 - produced;
    assert!((3..20).contains(&last), "{last}");
}

#[test]
fn a_datagram_the_kernel_refuses_is_counted_by_that_reason() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = socket.local_addr().expect("bound").port();
    let mut server = Server::udp(socket);
    // More than UDP can carry.
    let sink = Sink::start(Config { packet_bytes: 80_000, ..config(udp(port)) });
    sink.window(&counters("a.counter.with.a.long.name", 2000));
    assert!(sink.flush(LONG));
    sink.window(&counters("small", 1));
    assert_eq!(server.wait_for(1), ["small.0:1|c"]);
    assert!(sink.flush(LONG));
    let stats = sink.stats();
    assert_eq!(stats.lost_by(Reason::MessageSize).lines, 2000);
    assert_eq!(stats.errors[Reason::MessageSize as usize], 1);
    assert_eq!(stats.sent.lines, 1);
    assert!(stats.adds_up());
}

#[test]
fn plain_statsd_has_no_events_and_that_is_counted() {
    let place = Place::new();
    let mut settings = config(Target::Unix(place.text()));
    settings.dialect = statsd::Dialect::StatsD;
    let sink = Sink::start(settings);
    assert!(!sink.event(&Event { title: "x".into(), ..Event::default() }));
    assert_eq!(sink.stats().lost_by(Reason::Unsupported).lines, 1);
    assert!(sink.stats().adds_up());
}

#[test]
fn a_sink_that_is_off_does_nothing() {
    let sink = Sink::start(Config::off());
    sink.window(&counters("x", 3));
    assert!(!sink.event(&Event { title: "x".into(), ..Event::default() }));
    assert!(sink.flush(LONG));
    sink.close(LONG);
    assert_eq!(sink.stats(), statsd::Stats { target: "off".into(), ..Default::default() });
}
