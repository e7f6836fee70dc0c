//! What a watch costs the thread it watches, and its reader: fixed work with and without one, taken
//! in turns, at a period short enough to see. Run with `--release`.
#![allow(clippy::expect_used, reason = "an example may stop")]

use std::hint::black_box;
use std::sync::mpsc;
use std::time::Duration;
use sys::clock::{now_ns, thread_cpu_ns};
use sys::perf::Watch;

const PERIOD_NS: u64 = 200_000;
const ROUNDS: usize = 40;

fn work() -> u64 {
    let room = black_box([7u64; 2048]);
    (0..30_000_000u64).fold(room[9], |sum, i| black_box(sum.rotate_left(5) ^ i))
}

fn main() {
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let (done, ready) = mpsc::channel();
    std::thread::spawn(move || {
        sender.send(sys::thread::tid()).expect("main listens");
        while wait.recv().is_ok() {
            let before = thread_cpu_ns();
            black_box(work());
            done.send(thread_cpu_ns() - before).expect("main listens");
        }
    });
    let tid = receiver.recv().expect("it starts");
    let begin = now_ns();
    let mut watch = Watch::open(tid, PERIOD_NS).expect("perf events");
    println!("open: {} us", (now_ns() - begin) / 1000);
    let (mut stack, mut read_ns, mut samples) = (Vec::new(), 0, 0u64);
    let mut least = [u64::MAX; 2];
    for round in 0..ROUNDS {
        let on = round % 2;
        watch.enable(on == 1);
        let lost = watch.lost();
        go.send(()).expect("it waits");
        let used = loop {
            let before = thread_cpu_ns();
            while watch.next(&mut stack).is_some() {
                samples += 1;
            }
            read_ns += thread_cpu_ns() - before;
            match ready.recv_timeout(Duration::from_micros(300)) {
                Ok(used) => break used,
                Err(_) => continue,
            }
        };
        least[on] = least[on].min(used);
        if round + 2 > ROUNDS {
            println!("lost in the last round: {}", watch.lost() - lost);
        }
    }
    let per_round = samples as f64 / (ROUNDS / 2) as f64;
    println!(
        "without {} us, with {} us, {per_round:.0} samples a round",
        least[0] / 1000,
        least[1] / 1000
    );
    let cost = (least[1] as f64 - least[0] as f64) / per_round;
    println!(
        "a sample costs the watched thread {cost:.0} ns, its reader {} ns",
        read_ns / samples.max(1)
    );
}
