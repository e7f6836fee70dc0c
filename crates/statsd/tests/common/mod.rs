//! Receivers, windows and waiting, for several tests.
#![allow(dead_code, reason = "no test file uses all of it")]
#![allow(clippy::expect_used, reason = "a helper of tests fails the test it helps")]

use std::collections::BTreeMap;
use std::io::Read;
use std::net::UdpSocket;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};

use metrics::window::{Id, Kind, Reading, Value, Window};
use statsd::{Config, Target};

/// Long enough for anything that is going to happen.
pub const LONG: Duration = Duration::from_secs(20);

/// A socket's path that no other test has; removed with the value.
pub struct Place(pub PathBuf);

impl Place {
    pub fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Place(std::env::temp_dir().join(format!("statsd-{}-{n}.sock", std::process::id())))
    }

    pub fn text(&self) -> String {
        self.0.to_str().expect("a plain path").to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Settings without self-metrics, so that what arrives is what the test sent.
pub fn config(target: Target) -> Config {
    Config { self_every: None, ..Config::to(target) }
}

pub fn udp(port: u16) -> Target {
    Target::Udp { host: "127.0.0.1".to_owned(), port }
}

pub fn id(kind: Kind, name: &str) -> Id {
    Id { kind, name: name.into(), tags: Vec::new().into() }
}

pub fn counter(name: &str, sum: f64) -> Reading {
    Reading { id: id(Kind::Counter, name), value: Value::Count(sum) }
}

pub fn window(readings: Vec<Reading>) -> Window {
    Window { from_ns: 0, to_ns: 1_700_000_000_000_000_000, readings }
}

/// A window of `n` counters named `name.0` and so on, each 1.
pub fn counters(name: &str, n: usize) -> Window {
    window((0..n).map(|i| counter(&format!("{name}.{i}"), 1.0)).collect())
}

/// A receiver on a thread; ends when it is dropped.
pub struct Server {
    lines: Receiver<Vec<String>>,
    stop: Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// All that arrived and was read.
    pub seen: Vec<String>,
}

impl Server {
    fn start(mut receive: impl FnMut() -> Option<Vec<u8>> + Send + 'static) -> Server {
        let (to, lines) = channel();
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || loop {
            match receive() {
                Some(packet) => {
                    let text = String::from_utf8(packet).expect("UTF-8");
                    let _ = to.send(text.split('\n').map(str::to_owned).collect());
                }
                // Nothing for a moment: what was sent before the stop has been read.
                None if stopped.try_recv().is_ok() => return,
                None => {}
            }
        });
        Server { lines, stop, thread: Some(thread), seen: Vec::new() }
    }

    pub fn udp(socket: UdpSocket) -> Server {
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let mut buffer = vec![0; 70_000];
        Server::start(move || socket.recv(&mut buffer).ok().map(|n| buffer[..n].to_vec()))
    }

    pub fn datagrams(socket: UnixDatagram) -> Server {
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let mut buffer = vec![0; 70_000];
        Server::start(move || socket.recv(&mut buffer).ok().map(|n| buffer[..n].to_vec()))
    }

    /// Frames behind their length, of one connection after another. A cut frame is thrown away.
    pub fn stream(listener: UnixListener) -> Server {
        listener.set_nonblocking(true).expect("a mode");
        let mut open = None;
        let mut bytes: Vec<u8> = Vec::new();
        Server::start(move || {
            if let Some(frame) = frame(&mut bytes) {
                return Some(frame);
            }
            if open.is_none() {
                let Ok((stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    return None;
                };
                stream.set_nonblocking(false).expect("a mode");
                stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
                open = Some(stream);
                bytes.clear();
            }
            let mut more = [0; 65_536];
            match open.as_mut().expect("just made").read(&mut more) {
                Ok(0) => open = None,
                Ok(n) => bytes.extend_from_slice(&more[..n]),
                Err(_) => {}
            }
            frame(&mut bytes)
        })
    }

    /// Waits until `n` lines have arrived in all.
    pub fn wait_for(&mut self, n: usize) -> &[String] {
        let until = Instant::now() + LONG;
        while self.seen.len() < n {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(more) => self.seen.extend(more),
                Err(_) => {
                    let last = self.seen.last();
                    panic!("{} of {n} lines came, the last was {last:?}", self.seen.len());
                }
            }
        }
        &self.seen
    }

    /// Ends it; everything that ever arrived.
    pub fn end(mut self) -> Vec<String> {
        self.stop();
        while let Ok(more) = self.lines.try_recv() {
            self.seen.extend(more);
        }
        std::mem::take(&mut self.seen)
    }

    fn stop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the receiver ends");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Takes the first whole frame.
fn frame(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = bytes.first_chunk().map(|l| u32::from_le_bytes(*l) as usize)?;
    if bytes.len() < 4 + length {
        return None;
    }
    let rest = bytes.split_off(4 + length);
    Some(std::mem::replace(bytes, rest).split_off(4))
}

/// How often each line came.
pub fn tally(lines: &[String]) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    lines.iter().for_each(|line| *tally.entry(line.clone()).or_default() += 1);
    tally
}

/// Calls `ready` until it is true. Fails after a long time.
pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ready() {
        assert!(begin.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sockets of this process.
pub fn open_sockets() -> usize {
    let dir = std::fs::read_dir("/proc/self/fd").expect("/proc is there");
    dir.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}
