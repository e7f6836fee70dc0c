//! What the live export by OTLP costs: its thread's CPU time, and what a request costs beside it.
//!
//!     cargo run --release -p dashcam --example otlp_costs
//!
//! Requests of five spans and an event on one thread, at three rates, for five seconds each, with a
//! collector on this machine that takes everything; at a share of 1 %, and with no exporter.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

const SECONDS: u64 = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let (Some(url), Some(rate)) = (arguments.next(), arguments.next()) {
        return measure(&url, rate.parse()?);
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || listener.incoming().flatten().try_for_each(take));
    println!("{:>10} {:>10} {:>12} {:>14}", "wanted/s", "done/s", "ns a request", "exporter");
    for rate in ["1000", "10000", "0"] {
        for to in ["off", &url] {
            // A process each: what one recorded is not to be seen by the next.
            let done =
                std::process::Command::new(std::env::current_exe()?).args([to, rate]).output()?;
            print!("{}", String::from_utf8_lossy(&done.stdout));
        }
    }
    Ok(())
}

/// Reads a request and takes it.
fn take(mut stream: impl Read + Write) -> std::io::Result<()> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 65536]);
    loop {
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let length = head.and_then(|at| {
            let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let line = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?;
            Some(at + 4 + line.parse::<usize>().ok()?)
        });
        if length.is_some_and(|length| bytes.len() >= length) {
            return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

fn measure(url: &str, rate: u64) -> Result<(), Box<dyn std::error::Error>> {
    let config = dashcam::Config::new().slow("1h").otlp(url).otlp_share(1).switches("off");
    dashcam::start(config)?;
    let begin = Instant::now();
    let (mut done, mut spent) = (0u64, Duration::ZERO);
    while begin.elapsed() < Duration::from_secs(SECONDS) {
        let before = Instant::now();
        for _ in 0..100 {
            request();
        }
        spent += before.elapsed();
        done += 100;
        // 0: as many as there can be.
        if let Some(due_ns) = (done * 1_000_000_000).checked_div(rate) {
            std::thread::sleep(Duration::from_nanos(due_ns).saturating_sub(begin.elapsed()));
        }
    }
    let status = dashcam::status_json();
    let reported = status.split("\"otlp\":{").nth(1).unwrap_or_default();
    let number = |key: &str| -> Option<f64> {
        reported.split(&format!("\"{key}\":")).nth(1)?.split([',', '}']).next()?.parse().ok()
    };
    let exporter = match number("cpu_ns") {
        Some(ns) => format!("{:.2} % of a core", ns / SECONDS as f64 / 1e7),
        None => "none".to_owned(),
    };
    println!(
        "{rate:>10} {:>10} {:>12.0} {exporter:>14}   missed {}, incomplete {}, over the limit {}",
        done / SECONDS,
        spent.as_nanos() as f64 / done as f64,
        number("records_missed").unwrap_or(0.0),
        number("incomplete_requests").unwrap_or(0.0),
        number("requests_over_limit").unwrap_or(0.0),
    );
    Ok(())
}

fn request() {
    let _request = dashcam::request!("GET /checkout", user = 42);
    for _ in 0..5 {
        let _span = dashcam::span!("db.query", rows = 3);
    }
    dashcam::event!("cache.miss", key = "k1");
}
