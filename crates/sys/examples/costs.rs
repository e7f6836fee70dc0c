//! The cost of the system interface on this machine:
//! `cargo run --release -p dashcam-sys --example costs`.
//!
//! Prints one line a figure. Run it as the user that the service runs as; medians of many passes.

#![allow(clippy::expect_used, reason = "an example stops at the first thing that does not work")]

use std::hint::black_box;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;
use sys::perf::{SwitchKind, SwitchStream, Take, WakerStacks, Wakings, MOST_FOLLOWED, MOST_WAKERS};
use sys::task::{self, TaskReader};
use sys::vitals::Vitals;
use sys::{calls, clock, fds, mem, thread};

/// Median over 21 passes of the time one of `times` calls of `body` takes.
fn median_ns(times: u32, mut body: impl FnMut()) -> f64 {
    let mut passes = [(); 21].map(|()| {
        let start = clock::now_ns();
        (0..times).for_each(|_| body());
        (clock::now_ns() - start) as f64 / f64::from(times)
    });
    passes.sort_unstable_by(f64::total_cmp);
    passes[passes.len() / 2]
}

fn print(what: &str, value: f64, unit: &str) {
    println!("{what:<58} {value:>10.2} {unit}");
}

fn read_threads() {
    let (sender, receiver) = mpsc::channel();
    let (_never, wait) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        sender.send(thread::tid()).expect("main listens");
        let _ = wait.recv();
    });
    let tid = receiver.recv().expect("it sends its id");
    std::thread::sleep(Duration::from_millis(10));
    let mut reader = TaskReader::open(tid).expect("it lives");
    let mem = mem::Reader::new().expect("a process may read itself");
    let call = reader.call().expect("it lives");
    let us = 1e-3;
    let mut row = |what: &str, body: &mut dyn FnMut(&mut TaskReader)| {
        print(what, median_ns(1000, || body(&mut reader)) * us, "us");
    };
    row("schedstat", &mut |r| drop(black_box(r.schedstat())));
    row("call (syscall)", &mut |r| drop(black_box(r.call())));
    row("wchan", &mut |r| drop(black_box(r.wchan().map(str::len))));
    row("state (stat)", &mut |r| drop(black_box(r.state())));
    row("status_switches (status)", &mut |r| drop(black_box(r.status_switches())));
    row("meaning of a futex wait", &mut |_| {
        black_box(calls::meaning(&call, &mem));
    });
    let mut tids = Vec::new();
    row("list of 2 threads", &mut |_| drop(black_box(task::list(&mut tids))));
    row("TaskReader::open", &mut |_| drop(black_box(TaskReader::open(tid))));
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let socket = TcpStream::connect(listener.local_addr().expect("it is bound"));
    let socket = socket.expect("it listens");
    let file = std::fs::File::open("/proc/self/exe").expect("/proc is there");
    let mut describe = |what: &str, fd: i32| row(what, &mut |_| drop(black_box(fds::describe(fd))));
    describe("describe a tcp socket", socket.as_raw_fd());
    describe("describe a file", file.as_raw_fd());
    let mut vitals = Vitals::open();
    row("vitals, all", &mut |_| {
        vitals.read(|_, value| {
            black_box(value);
        })
    });
}

/// Two threads hand a byte back and forth; returns the time of one hand-over, two switches.
fn ping_pong(turns: u32) -> f64 {
    let (to, from_main) = mpsc::sync_channel::<()>(0);
    let (back, from_thread) = mpsc::sync_channel::<()>(0);
    let other =
        std::thread::spawn(move || while from_main.recv().is_ok() && back.send(()).is_ok() {});
    let ns = median_ns(turns, || {
        to.send(()).expect("it listens");
        from_thread.recv().expect("it answers");
    });
    drop(to);
    let _ = other.join();
    ns
}

fn switches() {
    let spawn = || drop(std::thread::spawn(|| {}).join());
    let (turn_off, spawn_off) = (ping_pong(500), median_ns(200, spawn));
    let mut stream = match timed_open("SwitchStream::open, the first on this host") {
        Some(stream) => stream,
        None => return,
    };
    drop(timed_open("SwitchStream::open, 1 thread, while another is open"));
    let (never, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    for _ in 0..100 {
        let wait = wait.clone();
        std::thread::spawn(move || drop(wait.lock().map(|wait| wait.recv())));
    }
    drop(timed_open("SwitchStream::open, 101 threads, while another is open"));
    drop(never);
    std::thread::sleep(Duration::from_millis(20));
    let (turn_on, spawn_on) = (ping_pong(500), median_ns(200, spawn));
    print("hand-over between two threads, unrecorded", turn_off * 1e-3, "us");
    print("hand-over between two threads, recorded", turn_on * 1e-3, "us");
    print("start and join a thread, unrecorded", spawn_off * 1e-3, "us");
    print("start and join a thread, recorded", spawn_on * 1e-3, "us");
    print("drain with nothing in it", median_ns(1000, || stream.drain(|_| {})), "ns");
    stream.drain(|_| {});
    let mut costs = Vec::new();
    for _ in 0..50 {
        let naps = std::thread::spawn(|| {
            (0..500).for_each(|_| std::thread::sleep(Duration::from_micros(1)));
        });
        let _ = naps.join();
        let (mut records, mut outs) = (0u32, 0u32);
        let start = clock::now_ns();
        stream.drain(|s| {
            records += 1;
            outs += u32::from(s.kind == SwitchKind::Out);
        });
        let ns = (clock::now_ns() - start) as f64;
        black_box(outs);
        costs.push(ns / f64::from(records.max(1)));
    }
    costs.sort_unstable_by(f64::total_cmp);
    print("drain, a record (batches of about 1000)", costs[costs.len() / 2], "ns");
    println!("garbled {}, twice {}", stream.garbled(), stream.repeated());
}

/// As `ping_pong`, and the time of the CPU that one hand-over takes: others do not count.
fn ping_pong_cpu(turns: u32) -> f64 {
    let (to, from_main) = mpsc::sync_channel::<()>(0);
    let (back, from_thread) = mpsc::sync_channel::<()>(0);
    let (say, said) = mpsc::channel();
    let other = std::thread::spawn(move || {
        while from_main.recv().is_ok() && back.send(()).is_ok() {}
        let _ = say.send(clock::thread_cpu_ns());
    });
    let before = clock::thread_cpu_ns();
    for _ in 0..turns {
        to.send(()).expect("it listens");
        from_thread.recv().expect("it answers");
    }
    let own = clock::thread_cpu_ns() - before;
    drop(to);
    let its = said.recv().expect("it sends");
    let _ = other.join();
    (own + its) as f64 / f64::from(turns)
}

/// What following wakeups costs the wakers. A hand-over has two wakeups.
fn wakings() {
    let mut wakings = match Wakings::find() {
        Ok(wakings) => wakings,
        Err(refused) => return println!("{refused}"),
    };
    let Some(mut stream) = SwitchStream::open(&[]).ok() else { return };
    let turn = |stream: &mut SwitchStream| {
        // The ring must not be full: what does not fit costs less. The fastest, since the
        // differences are smaller than what a busy machine adds.
        let pass = |()| {
            stream.drain(|_| {});
            ping_pong_cpu(200)
        };
        [(); 50].map(pass).into_iter().fold(f64::MAX, f64::min)
    };
    let mut follow = |stream: &mut SwitchStream, what: &str, tids: &[u32]| {
        let start = clock::now_ns();
        stream.follow(&mut wakings, tids).expect("it was found");
        print(what, (clock::now_ns() - start) as f64 * 1e-3, "us");
    };
    let none = turn(&mut stream);
    follow(&mut stream, "follow, the first thread", &[1]);
    let one = turn(&mut stream);
    let strangers: Vec<u32> = (0..MOST_FOLLOWED as u32).map(|i| 1 << 21 | i).collect();
    follow(&mut stream, "follow, a change of the list", &strangers);
    let others = turn(&mut stream);
    follow(&mut stream, "follow, a change of the list", &[thread::tid()]);
    let own = turn(&mut stream);
    follow(&mut stream, "follow, none any more", &[]);
    let hooked = turn(&mut stream);
    print("a waking: more, while nobody is followed any more", (hooked - none) / 2.0, "ns");
    print("a waking: more, while one other thread is followed", (one - none) / 2.0, "ns");
    print("a waking: more, while 16 other threads are followed", (others - none) / 2.0, "ns");
    print("a waking of the followed thread: more", own - (none + one) / 2.0, "ns");
    let Some(mut stacks) = WakerStacks::new() else { return };
    stream.follow(&mut wakings, &strangers).expect("it was found");
    let before = turn(&mut stream);
    let many: Vec<u32> = (0..MOST_WAKERS as u32).map(|i| 1 << 20 | i).collect();
    let mut ask = |what: &str, tids: &[u32], wakers: &[u32]| {
        let start = clock::now_ns();
        let asked = stacks.follow(&wakings, tids, wakers);
        print(what, (clock::now_ns() - start) as f64 * 1e-3, "us");
        asked.map_err(|refused| println!("{refused}")).is_ok()
    };
    if !ask("follow stacks, the first time", &strangers, &many) {
        return;
    }
    let both = turn(&mut stream);
    ask("follow stacks, a change of the list", &strangers, &many);
    print(
        "a waking: more, where stacks of 16 threads' wakers are wanted",
        (both - before) / 2.0,
        "ns",
    );
    let room = black_box([0u8; 16 << 10]);
    waker_stacks(&mut stacks, &mut wakings, &mut stream);
    black_box(&room);
}

/// What it costs a thread that its stack is copied when it wakes another, with room in the ring and
/// without, and what it costs the reader.
fn waker_stacks(stacks: &mut WakerStacks, wakings: &mut Wakings, stream: &mut SwitchStream) {
    let (sender, receiver) = mpsc::channel::<()>();
    let (say, said) = mpsc::channel();
    let waits = std::thread::spawn(move || {
        let _ = say.send(thread::tid());
        while receiver.recv().is_ok() {}
    });
    let other = said.recv().expect("it sends its id");
    stream.follow(wakings, &[other]).expect("it was found");
    let mut copied = Vec::new();
    let mut run = |stacks: &mut WakerStacks, empty: bool| {
        let (mut wakes, mut reads) = (Vec::new(), Vec::new());
        for _ in 0..1000 {
            // By now it waits.
            std::thread::sleep(Duration::from_micros(200));
            let start = clock::now_ns();
            sender.send(()).expect("it waits");
            wakes.push((clock::now_ns() - start) as f64);
            stream.drain(|_| {});
            let start = clock::now_ns();
            if empty && stacks.next(&mut copied, |_| Take::This).is_some() {
                reads.push((clock::now_ns() - start) as f64);
            }
        }
        [wakes, reads].map(|mut all| {
            all.sort_unstable_by(f64::total_cmp);
            all.get(all.len() / 10).copied().unwrap_or(f64::NAN)
        })
    };
    stacks.follow(wakings, &[], &[]).expect("none");
    let [without, _] = run(stacks, true);
    stacks.follow(wakings, &[other], &[thread::tid()]).expect("it was found");
    let [with, read] = run(stacks, true);
    let [full, _] = run(stacks, false);
    print("to wake a thread that is followed", without * 1e-3, "us");
    print("the same, and the stack of who wakes is taken", with * 1e-3, "us");
    print("the same, and there is no room for it", full * 1e-3, "us");
    print("to read such a stack", read * 1e-3, "us");
    println!("stacks lost {}, garbled {}", stacks.lost(), stacks.garbled());
    drop(sender);
    let _ = waits.join();
}

fn timed_open(what: &str) -> Option<SwitchStream> {
    let start = clock::now_ns();
    let stream = SwitchStream::open(&[]).map_err(|refused| println!("{refused}")).ok()?;
    print(what, (clock::now_ns() - start) as f64 * 1e-3, "us");
    Some(stream)
}

fn main() {
    read_threads();
    switches();
    wakings();
}
