//! What a window costs its caller, and how many lines a second arrive, for each kind of socket in
//! turn. Sent = arrived + counted lost is checked, so losing everything does not win.
//!
//!     cargo run --release -p dashcam-statsd --example bench

use std::io::Read;
use std::net::UdpSocket;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use metrics::window::{Id, Kind, Reading, Value, Window};
use statsd::{Config, Sink, Target};

/// Series in a window, and windows.
const SERIES: usize = 1000;
const WINDOWS: usize = 1000;
/// Lines that arrived.
static ARRIVED: AtomicU64 = AtomicU64::new(0);

fn count(packet: &[u8]) {
    let lines = 1 + packet.iter().filter(|b| **b == b'\n').count() as u64;
    ARRIVED.fetch_add(lines, Ordering::Relaxed);
}

fn window() -> Window {
    let tags: Vec<(Box<str>, Box<str>)> =
        [("route", "/checkout"), ("status", "200")].map(|(k, v)| (k.into(), v.into())).into();
    let reading = |n: usize| Reading {
        id: Id {
            kind: Kind::Counter,
            name: format!("service.requests.{n}").into(),
            tags: tags.clone().into(),
        },
        value: Value::Count(n as f64),
    };
    Window { from_ns: 0, to_ns: 1, readings: (0..SERIES).map(reading).collect() }
}

fn run(name: &str, target: Target) {
    ARRIVED.store(0, Ordering::Relaxed);
    let queue_bytes = 256 << 20;
    let sink = Sink::start(Config { queue_bytes, self_every: None, ..Config::to(target) });
    let window = window();
    let begin = Instant::now();
    let mut calls = Vec::with_capacity(WINDOWS);
    for _ in 0..WINDOWS {
        let called = Instant::now();
        sink.window(&window);
        calls.push(called.elapsed());
    }
    let produced = begin.elapsed();
    sink.close(Duration::from_secs(60));
    let took = begin.elapsed();
    let stats = sink.stats();
    let settled = Instant::now();
    while ARRIVED.load(Ordering::Relaxed) < stats.sent.lines
        && settled.elapsed() < Duration::from_secs(1)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    calls.sort();
    let arrived = ARRIVED.load(Ordering::Relaxed);
    let lines = (SERIES * WINDOWS) as f64;
    println!(
        "{name:<12} caller {:>4.0} ns a line, window of {SERIES}: median {:>4} us, worst {:>5} us; \
         {:>4.0}k lines/s arrive; produced {} = sent {} + lost {}; arrived {arrived}{}",
        produced.as_nanos() as f64 / lines,
        calls[WINDOWS / 2].as_micros(),
        calls[WINDOWS - 1].as_micros(),
        arrived as f64 / took.as_secs_f64() / 1e3,
        stats.produced.lines,
        stats.sent.lines,
        stats.lost().lines,
        if arrived == stats.sent.lines { "" } else { " (the rest overran the receiver's buffer)" },
    );
}

fn main() -> std::io::Result<()> {
    let place = |name: &str| {
        let path = std::env::temp_dir().join(format!("bench-{}-{name}", std::process::id()));
        path.to_string_lossy().into_owned()
    };
    let udp = UdpSocket::bind("127.0.0.1:0")?;
    let target = Target::Udp { host: "127.0.0.1".into(), port: udp.local_addr()?.port() };
    let (gram, stream) = (place("gram"), place("stream"));
    let (datagrams, listener) = (UnixDatagram::bind(&gram)?, UnixListener::bind(&stream)?);
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(n) = udp.recv(&mut buffer) {
            count(&buffer[..n]);
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(n) = datagrams.recv(&mut buffer) {
            count(&buffer[..n]);
        }
    });
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut stream = listener.accept()?.0;
        let (mut length, mut frame) = ([0; 4], Vec::new());
        loop {
            stream.read_exact(&mut length)?;
            frame.resize(u32::from_le_bytes(length) as usize, 0);
            stream.read_exact(&mut frame)?;
            count(&frame);
        }
    });
    run("UDP", target);
    run("unix", Target::Unix(gram.clone()));
    run("unix stream", Target::UnixStream(stream.clone()));
    run("nobody", Target::Unix(place("nobody")));
    std::fs::remove_file(gram)?;
    std::fs::remove_file(stream)
}
