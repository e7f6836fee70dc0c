//! Every switch of a thread is seen, with its time and its kind.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};
use sys::perf::{Switch, SwitchKind, SwitchStream};
use sys::task::{Switches, TaskReader};
use sys::{clock, thread};

/// Longest time between leaving a CPU and getting one again.
fn longest_gap_ns(switches: &[Switch], tid: u32) -> u64 {
    let own: Vec<&Switch> = switches.iter().filter(|s| s.tid == tid).collect();
    let gaps = own
        .windows(2)
        .filter(|pair| pair[0].kind == SwitchKind::Out && pair[1].kind == SwitchKind::In);
    gaps.map(|pair| pair[1].t_ns - pair[0].t_ns).max().unwrap_or(0)
}

fn drained(stream: &mut SwitchStream) -> Vec<Switch> {
    let mut all = Vec::new();
    stream.drain(|s| all.push(s));
    all
}

#[test]
fn a_sleep_shows_as_a_gap_in_threads_old_and_new() {
    let (go, wait) = mpsc::channel::<()>();
    let sleeper = |wait: Option<mpsc::Receiver<()>>| {
        std::thread::spawn(move || {
            let _ = wait.map(|wait| wait.recv());
            std::thread::sleep(Duration::from_millis(20));
            thread::tid()
        })
    };
    let old = sleeper(Some(wait));
    let Some(mut stream) = crate::common::stream_or_skip(&[]) else {
        return;
    };
    let new = sleeper(None);
    go.send(()).expect("the thread waits");
    let tids = [old, new].map(|t| t.join().expect("it only sleeps"));
    let switches = drained(&mut stream);
    for tid in tids {
        let gap = longest_gap_ns(&switches, tid);
        assert!(gap >= 20_000_000, "thread {tid}: {gap} ns in {switches:?}");
    }
}

#[test]
fn the_count_is_the_kernels_own() {
    let Some(mut stream) = crate::common::stream_or_skip(&[]) else {
        return;
    };
    let counted = std::thread::spawn(|| {
        let mut reader = TaskReader::open(thread::tid()).expect("a thread can open itself");
        let mut both = || reader.status_switches().expect("status is readable");
        both();
        let (before, from) = (both(), clock::now_ns());
        for _ in 0..100 {
            std::thread::sleep(Duration::from_micros(100));
        }
        let (to, after) = (clock::now_ns(), both());
        (thread::tid(), before, after, from, to)
    });
    let (tid, before, after, from, to) = counted.join().expect("it only sleeps");
    let switches = drained(&mut stream);
    let count = |kind| {
        let seen = |s: &&Switch| s.tid == tid && s.kind == kind && (from..to).contains(&s.t_ns);
        switches.iter().filter(seen).count() as u64
    };
    assert_eq!(count(SwitchKind::Out), after.voluntary - before.voluntary);
    // A preemption between the two reads of the counter and of the clock may fall either way.
    let forced = |s: &Switches| s.forced;
    assert!(count(SwitchKind::Preempted).abs_diff(forced(&after) - forced(&before)) <= 2);
    assert_eq!((stream.lost(), stream.garbled()), (0, 0));
}

#[test]
fn threads_that_fight_for_a_cpu_are_preempted() {
    let Some(mut stream) = crate::common::stream_or_skip(&[]) else {
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let fighters = [(); 2].map(|()| {
        let (stop, sender) = (stop.clone(), sender.clone());
        std::thread::spawn(move || {
            pin_to_one_cpu();
            sender.send(thread::tid()).expect("the test listens");
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        })
    });
    let tids = [(); 2].map(|()| receiver.recv().expect("both send"));
    let mut preempted = HashMap::new();
    crate::common::wait_for("both to be preempted", || {
        stream.drain(|s| {
            if s.kind == SwitchKind::Preempted {
                *preempted.entry(s.tid).or_insert(0) += 1;
            }
        });
        tids.iter().all(|tid| preempted.contains_key(tid)).then_some(())
    });
    stop.store(true, Ordering::Relaxed);
    fighters.into_iter().for_each(|t| t.join().expect("it only spins"));
}

#[test]
fn switches_come_in_order_and_alternate() {
    let Some(mut stream) = crate::common::stream_or_skip(&[]) else {
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    let nappers = [(); 4].map(|()| {
        let stop = stop.clone();
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(50));
            }
        })
    });
    let mut last_of_cpu: HashMap<u16, u64> = HashMap::new();
    let mut last_of_pair: HashMap<(u16, u32), SwitchKind> = HashMap::new();
    let mut seen = 0;
    let start = Instant::now();
    while seen < 5_000 && start.elapsed() < Duration::from_secs(10) {
        let mut last = 0;
        stream.drain(|s| {
            assert!(s.t_ns >= last, "within a drain");
            last = s.t_ns;
            let before = last_of_cpu.insert(s.cpu, s.t_ns);
            assert!(before.is_none_or(|t| t <= s.t_ns), "on one CPU, over all drains");
            let before = last_of_pair.insert((s.cpu, s.tid), s.kind);
            let coming = |kind| kind == SwitchKind::In;
            assert!(before.is_none_or(|kind| coming(kind) != coming(s.kind)), "in, out, in, out");
            seen += 1;
        });
        assert!(last <= clock::now_ns());
        std::thread::sleep(Duration::from_millis(1));
    }
    stop.store(true, Ordering::Relaxed);
    nappers.into_iter().for_each(|t| t.join().expect("it only sleeps"));
    assert!(seen >= 5_000, "{seen} switches");
    assert_eq!(stream.lost(), 0);
}

#[test]
fn what_does_not_fit_is_counted() {
    let Some(mut stream) = crate::common::stream_or_skip(&[]) else {
        return;
    };
    let records = stream.ring_bytes() / 24;
    let napper = std::thread::spawn(move || {
        pin_to_one_cpu();
        for _ in 0..records {
            std::thread::sleep(Duration::from_micros(1));
        }
    });
    napper.join().expect("it only sleeps");
    drained(&mut stream);
    // The count comes with the next record that fits.
    std::thread::spawn(pin_to_one_cpu).join().expect("it ends");
    std::thread::sleep(Duration::from_millis(1));
    drained(&mut stream);
    assert!(stream.lost() > 0, "{} records of room", records);
}

#[test]
fn also_as_nobody() {
    crate::common::all_again_as_nobody(module_path!());
}

/// Pins the caller to the first CPU it may use.
fn pin_to_one_cpu() {
    // SAFETY: both sets are plain memory of ours; 0 is the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        let first = (0..libc::CPU_SETSIZE as usize).find(|cpu| libc::CPU_ISSET(*cpu, &set));
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first.unwrap_or(0), &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
