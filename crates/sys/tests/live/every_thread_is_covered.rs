//! Threads started at any time, by any thread, are recorded; skipped ones are not.

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::Duration;
use sys::perf::SwitchStream;
use sys::thread;

fn seen(stream: &mut SwitchStream) -> HashSet<u32> {
    let mut tids = HashSet::new();
    stream.drain(|s| {
        tids.insert(s.tid);
    });
    tids
}

fn nap() -> u32 {
    std::thread::sleep(Duration::from_millis(2));
    thread::tid()
}

#[test]
fn grandchildren_of_a_thread_that_has_ended_are_covered() {
    // Everything starts from a thread that is there when the stream opens, and ends soon after;
    // the thread that opened the stream ends too.
    let (go, wait) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    let first = std::thread::spawn(move || {
        wait.recv().expect("the test says go");
        std::thread::spawn(move || {
            nap();
            std::thread::spawn(move || sender.send(nap())).join()
        })
    });
    let opener = std::thread::spawn(|| crate::common::stream_or_skip(&[]));
    let Some(mut stream) = opener.join().expect("it only opens") else {
        return;
    };
    go.send(()).expect("it waits");
    let second = first.join().expect("it only starts another");
    let third = receiver.recv().expect("it sends its id");
    let _ = second.join().expect("it only starts another");
    assert!(seen(&mut stream).contains(&third));
    assert_eq!((stream.uncovered(), stream.lost()), (0, 0));
}

#[test]
fn threads_that_start_while_the_stream_opens_are_covered_once() {
    let (sender, receiver) = mpsc::channel();
    let starter = std::thread::spawn(move || {
        let threads: Vec<_> = (0..50)
            .map(|_| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(30));
                    let _ = sender.send(nap());
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().expect("it only sleeps"));
    });
    let Some(mut stream) = crate::common::stream_or_skip(&[]) else {
        return;
    };
    starter.join().expect("it only starts others");
    let tids: HashSet<u32> = receiver.iter().collect();
    let mut outs = std::collections::HashMap::new();
    stream.drain(|s| *outs.entry((s.tid, s.t_ns / 100, s.kind)).or_insert(0) += 1);
    let covered: HashSet<u32> = outs.keys().map(|(tid, ..)| *tid).collect();
    let missed: Vec<_> = tids.difference(&covered).collect();
    assert!(missed.is_empty(), "{missed:?} of {}", tids.len());
    assert!(outs.values().all(|n| *n == 1), "no record twice");
}

#[test]
fn skipped_threads_are_not_recorded() {
    let (go, wait) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    let skipped = std::thread::spawn(move || {
        sender.send(thread::tid()).expect("the test listens");
        wait.recv().expect("the test says go");
        nap();
    });
    let tid = receiver.recv().expect("it sends its id");
    let Some(mut stream) = crate::common::stream_or_skip(&[tid]) else {
        return;
    };
    go.send(()).expect("it waits");
    skipped.join().expect("it only sleeps");
    let tids = seen(&mut stream);
    assert!(!tids.contains(&tid) && tids.contains(&thread::tid()), "{tids:?}");
}

#[test]
fn also_as_nobody() {
    crate::common::all_again_as_nobody(module_path!());
}
