//! The endpoint answers valid requests, refuses the others with a number, and outlives all clients.
#![allow(clippy::expect_used, missing_docs)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use dashcam_openmetrics::{Address, Endpoint, Exemplar, RequestTimes, CLIENTS, LONGEST};
use metrics::window::{Id, Kind, Reading, Value, Window};

struct Running {
    endpoint: Arc<Endpoint>,
    thread: Option<JoinHandle<()>>,
    reported: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn at(address: &str) -> Running {
        let address = Address::parse(address).expect("valid").expect("one");
        let slowest =
            Exemplar { request: 7, took_ns: 2_000_000_000, at_epoch_ns: 1, ..Exemplar::default() };
        let times = RequestTimes {
            name: "GET /".to_owned(),
            counts: vec![3, 1],
            bounds_ns: &[1_000_000],
            sum_ns: 2_000_500_000,
            exemplars: vec![None, Some(slowest)],
        };
        let endpoint = Endpoint::new(address, 4711, Box::new(move || vec![times.clone()]));
        let endpoint = Arc::new(endpoint);
        let id = Id { kind: Kind::Counter, name: "orders".into(), tags: [].into() };
        let readings = vec![Reading { id, value: Value::Count(2.0) }];
        endpoint.window(&Window { from_ns: 0, to_ns: 1, readings });
        let reported = Arc::new(Mutex::new(Vec::new()));
        let (own, report) = (endpoint.clone(), reported.clone());
        let thread = std::thread::spawn(move || {
            own.run(&|state| report.lock().expect("whole").push(state.to_owned()));
        });
        Running { endpoint, thread: Some(thread), reported }
    }

    /// Waits for a condition.
    fn until(&self, what: impl Fn(&dashcam_openmetrics::Stats) -> bool) {
        for _ in 0..20_000 {
            if what(&self.endpoint.stats()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{:?}", self.endpoint.stats());
    }

    fn place(&self) -> String {
        self.until(|stats| !stats.listening.is_empty());
        self.endpoint.stats().listening
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.place()).expect("it listens")
    }

    fn stop(mut self) {
        self.endpoint.stop();
        self.thread.take().expect("once").join().expect("no panic");
    }
}

fn ask(mut client: impl Read + Write, text: &str) -> String {
    client.write_all(text.as_bytes()).expect("taken");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer and the end");
    answer
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_valid_request_gets_the_format_it_prefers() {
    let running = Running::at("127.0.0.1:0");
    let answer = ask(running.connect(), GET);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
    assert!(answer.contains("\r\n\r\n# HELP orders_total counter orders\n"), "{answer}");
    assert!(answer.contains("\ndashcam_request_seconds_count{name=\"GET /\"} 4\n"));
    let accept = "Accept: application/openmetrics-text\r\n";
    let open = format!("GET /metrics HTTP/1.1\r\n{accept}\r\n");
    let answer = ask(running.connect(), &open);
    assert!(answer.contains("Content-Type: application/openmetrics-text; version=1.0.0"));
    assert!(answer.contains("le=\"+Inf\"} 4 # {request=\"7\"} 2 0.000\n"), "{answer}");
    assert!(answer.ends_with("# EOF\n"));
    let length = answer.split("Content-Length: ").nth(1).and_then(|l| l.split('\r').next());
    let body = answer.split_once("\r\n\r\n").expect("a body").1;
    assert_eq!(length.and_then(|l| l.parse().ok()), Some(body.len()));
    let answer = ask(running.connect(), "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n"));
    running.until(|stats| stats.scrapes == 3 && stats.refused == 0 && stats.bytes > 0);
    running.stop();
}

#[test]
fn an_invalid_request_is_refused_with_a_number_and_counted() {
    let running = Running::at("127.0.0.1:0");
    let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "x".repeat(LONGEST));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("PUT /metrics HTTP/1.1\r\n\r\n", "405"),
        ("\0\u{1}\r\n\r\n", "400"),
        (long.as_str(), "431"),
    ] {
        let answer = ask(running.connect(), request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    running.until(|stats| stats.refused == 4);
    let mut half = running.connect();
    half.write_all(b"GET /metrics").expect("taken");
    drop(half);
    running.until(|stats| stats.refused == 5);
    drop(running.connect());
    assert!(ask(running.connect(), GET).starts_with("HTTP/1.1 200"));
    running.until(|stats| stats.scrapes == 1 && stats.refused == 5);
    running.stop();
}

#[test]
fn a_silent_client_loses_its_place_before_long() {
    let running = Running::at("127.0.0.1:0");
    let idle: Vec<TcpStream> = (0..CLIENTS).map(|_| running.connect()).collect();
    // All places are taken, or soon will be: then one more client is turned away.
    let mut turned_away = false;
    for _ in 0..100 {
        let mut answer = String::new();
        let mut client = running.connect();
        client.set_read_timeout(Some(Duration::from_millis(500))).expect("a time");
        // An error: it got the last place.
        if client.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 503") {
            turned_away = true;
            break;
        }
    }
    assert!(turned_away);
    for mut client in idle {
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("an answer and the end");
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    assert!(ask(running.connect(), GET).starts_with("HTTP/1.1 200"));
    assert!(running.endpoint.stats().refused > CLIENTS as u64);
    running.stop();
}

#[test]
fn a_port_in_use_is_reported_and_used_when_it_is_free() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("bound").to_string();
    let running = Running::at(&address);
    running.until(|stats| !stats.error.is_empty());
    let error = running.endpoint.stats().error;
    assert!(
        error.starts_with(&format!("{address}: ")) && error.contains("openmetrics="),
        "{error}"
    );
    drop(other);
    assert_eq!(running.place(), address);
    let reported = running.reported.lock().expect("whole").clone();
    assert_eq!((reported.len(), reported[1].as_str()), (2, "on"), "{reported:?}");
    assert!(reported[0].starts_with("off: 127.0.0.1:"));
    running.stop();
}

#[test]
fn the_first_free_port_of_a_range_is_taken() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("bound").port();
    let last = port.saturating_add(50);
    let running = Running::at(&format!("127.0.0.1:{port}-{last}"));
    let found = running.place().rsplit(':').next().and_then(|p| p.parse::<u16>().ok());
    assert!(found.is_some_and(|found| found > port && found <= last), "{found:?}");
    assert!(ask(running.connect(), GET).starts_with("HTTP/1.1 200"));
    running.stop();
}

#[test]
fn a_unix_socket_is_made_and_removed_and_no_other_is_touched() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("openmetrics");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("ours");
    let path = folder.join("a-4711.sock");
    // What an ended process left.
    drop(UnixListener::bind(&path).expect("bound"));
    let address = format!("unix:{}/a-{{pid}}.sock", folder.display());
    let running = Running::at(&address);
    assert_eq!(running.place(), format!("unix:{}", path.display()));
    assert!(ask(UnixStream::connect(&path).expect("listens"), GET).starts_with("HTTP/1.1 200"));
    let second = Running::at(&address);
    second.until(|stats| stats.error.contains("another process listens there"));
    second.stop();
    assert!(ask(UnixStream::connect(&path).expect("listens"), GET).starts_with("HTTP/1.1 200"));
    running.stop();
    assert!(!path.exists());
    std::fs::write(&path, "precious").expect("ours");
    let third = Running::at(&address);
    third.until(|stats| stats.error.contains("found a file"));
    third.stop();
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "precious");
}
