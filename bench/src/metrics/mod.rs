//! The cost of a counter: by handle, by name, and with a tag; and events/s of 1, 2 and 8 threads.
//! Every client runs in these loops; clients that send have a receiver of their own, a process that
//! reads.
//!
//! How it works: one process measures one client, runs of the ways interleaved, and at the end
//! checks its accounts: calls made = arrived + counted as lost by the client + lost by the
//! receiver's socket (the kernel counts those datagrams). `lost_unknown` is the rest. Later work of
//! a client (windows, a scrape) is not in its ns; between runs the bench waits, untimed, until
//! everything is sent (`rest`).

mod cadence;
mod dashcam;
mod facade;
mod opentelemetry;
mod prometheus;
mod receiver;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Barrier;
use std::time::Instant;

pub use receiver::serve;

use crate::calls::{median, SETTLE};
use crate::machine;
use crate::report::Figures;
use crate::rivals::Setup;
use receiver::Receiver;

/// Threads that count at once.
const THREADS: [usize; 3] = [1, 2, 8];

/// A client under test: one counter `orders`.
pub trait Client: Sync + Sized {
    /// Its calls end at a server, so it gets a receiver.
    const SENDS: bool = false;
    /// A datagram is one call, so datagrams dropped by a socket are dropped calls.
    const DATAGRAM_A_CALL: bool = false;
    /// It has a bound counter.
    const HAS_HANDLE: bool = true;
    /// It counts by name.
    const HAS_NAME: bool = true;
    /// It counts with a tag.
    const HAS_TAG: bool = true;
    /// Calls of one run; fewer for clients that make a system call.
    const TURNS: u64 = 1_000_000;

    /// Starts it; its server listens on that port of this machine.
    fn start(setup: &Setup, port: u16) -> Result<Self, String>;
    /// One more, by handle.
    fn handle(&self);
    /// One more, by name.
    fn name(&self);
    /// One more, by name and with one tag of ours.
    fn tag(&self);
    /// Waits until what is queued was sent.
    fn rest(&self) {}
    /// Its own number of lost counts.
    fn lost(&self) -> u64 {
        0
    }
    /// For clients that send nothing: the sum of all counters.
    fn kept(&self) -> Option<u64> {
        None
    }
    /// The process ends.
    fn end(&self) {}
}

#[inline(never)]
fn empty<C: Client>(_: &C, turns: u64) {
    (0..turns).for_each(|i| {
        black_box(i);
    });
}

#[inline(never)]
fn handles<C: Client>(client: &C, turns: u64) {
    (0..turns).for_each(|i| {
        black_box(i);
        client.handle();
    });
}

#[inline(never)]
fn names<C: Client>(client: &C, turns: u64) {
    (0..turns).for_each(|i| {
        black_box(i);
        client.name();
    });
}

#[inline(never)]
fn tags<C: Client>(client: &C, turns: u64) {
    (0..turns).for_each(|i| {
        black_box(i);
        client.tag();
    });
}

type Loop<C> = fn(&C, u64);

/// Counts/s of the producers, and until all of it was sent.
fn at_once<C: Client>(client: &C, call: Loop<C>, threads: usize) -> (f64, f64) {
    let each = C::TURNS / threads as u64;
    let gate = Barrier::new(threads);
    let one = |index: usize| {
        machine::pin(index);
        gate.wait();
        let begin = Instant::now();
        call(client, each);
        (begin, Instant::now())
    };
    let found: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let one = &one;
        let running: Vec<_> = (0..threads).map(|i| scope.spawn(move || one(i))).collect();
        running.into_iter().filter_map(|t| t.join().ok()).collect()
    });
    client.rest();
    let through = Instant::now();
    let begin = found.iter().map(|f| f.0).min();
    let end = found.iter().map(|f| f.1).max();
    let (Some(begin), Some(end)) = (begin, end) else { return (f64::NAN, f64::NAN) };
    let calls = (each * threads as u64) as f64;
    (calls / (end - begin).as_secs_f64(), calls / (through - begin).as_secs_f64())
}

fn measure<C: Client>(setup: &Setup, runs: usize, figures: &mut Figures) -> Result<(), String> {
    let receiver = if C::SENDS { Some(Receiver::start()?) } else { None };
    let client = C::start(setup, receiver.as_ref().map_or(0, |r| r.port))?;
    std::thread::sleep(SETTLE);
    let calls = AtomicU64::new(0);
    let mut ways: Vec<(&str, Loop<C>)> = vec![("empty", empty::<C>)];
    let known = [
        (C::HAS_HANDLE, "handle", handles::<C> as Loop<C>),
        (C::HAS_NAME, "name", names::<C>),
        (C::HAS_TAG, "tag", tags::<C>),
    ];
    ways.extend(known.iter().filter(|k| k.0).map(|k| (k.1, k.2)));
    let cheapest = ways[1].1;
    machine::pin(0);
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    // The first run is for warming up.
    for run in 0..=runs {
        for ((name, call), times) in ways.iter().zip(&mut times) {
            let begin = Instant::now();
            call(&client, C::TURNS);
            let ns = begin.elapsed().as_nanos() as f64 / C::TURNS as f64;
            client.rest();
            if *name != "empty" {
                calls.fetch_add(C::TURNS, Ordering::Relaxed);
            }
            if run > 0 {
                times.push(ns);
            }
        }
    }
    machine::unpin();
    for ((name, _), times) in ways.iter().zip(times) {
        figures.number(name, median(times));
    }
    let mut rates: Vec<(Vec<f64>, Vec<f64>)> = vec![Default::default(); THREADS.len()];
    for _ in 0..runs {
        for (threads, rates) in THREADS.iter().zip(&mut rates) {
            let (rate, through) = at_once(&client, cheapest, *threads);
            calls.fetch_add(C::TURNS / *threads as u64 * *threads as u64, Ordering::Relaxed);
            rates.0.push(rate);
            rates.1.push(through);
        }
    }
    for (threads, (rate, through)) in THREADS.iter().zip(rates) {
        figures.number(&format!("rate_{threads}"), median(rate));
        if C::SENDS {
            figures.number(&format!("through_{threads}"), median(through));
        }
    }
    client.end();
    let (called, lost) = (calls.into_inner() as f64, client.lost() as f64);
    figures.number("called", called);
    let (arrived, by_socket) = match receiver {
        Some(receiver) => {
            let found = receiver.end()?;
            figures.number("packets", found.packets);
            (Some(found.sum), found.dropped_packets)
        }
        None => (client.kept().map(|n| n as f64), 0.0),
    };
    if let Some(arrived) = arrived {
        figures.number("arrived", arrived);
        figures.number("lost_counted", lost);
        let missing = called - arrived - lost;
        let packed = by_socket > 0.0 && !C::DATAGRAM_A_CALL;
        // The number of counts in a lost datagram of many lines is not known any more.
        let in_socket = if packed { missing } else { by_socket };
        figures.number("socket_dropped_packets", by_socket);
        figures.number("lost_socket", in_socket);
        figures.number("lost_unknown", missing - in_socket);
    }
    Ok(())
}

/// Measures one client and prints. None: no such client.
pub fn run(client: &str, setup: &Setup, quick: bool) -> Option<Result<(), String>> {
    let runs = if quick { 3 } else { 5 };
    let mut figures = Figures::default();
    let done = match client {
        "dashcam" => measure::<dashcam::Dashcam>(setup, runs, &mut figures),
        "dashcam-facade" => measure::<facade::OverDashcam>(setup, runs, &mut figures),
        "metrics-prometheus" => measure::<facade::OverPrometheus>(setup, runs, &mut figures),
        "cadence-udp" => measure::<cadence::Udp>(setup, runs, &mut figures),
        "cadence-buffered" => measure::<cadence::Buffered>(setup, runs, &mut figures),
        "cadence-queuing" => measure::<cadence::Queuing>(setup, runs, &mut figures),
        "cadence-queuing-buffered" => {
            measure::<cadence::QueuingBuffered>(setup, runs, &mut figures)
        }
        "prometheus" => measure::<prometheus::Prometheus>(setup, runs, &mut figures),
        "prometheus-client" => measure::<prometheus::PrometheusClient>(setup, runs, &mut figures),
        "opentelemetry" => measure::<opentelemetry::OpenTelemetry>(setup, runs, &mut figures),
        _ => return None,
    };
    Some(done.map(|()| figures.print()))
}
