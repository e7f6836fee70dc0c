//! Threads that switch so often that the kernel's rings are full, and that store when they
//! certainly ran: no interval off the CPU may contain such an instant.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use samplers::switches::{Off, Pairs};
use sys::perf::{SwitchKind, SwitchStream};

/// Sends and awaits a byte until it is stopped: returns the thread's id, and when it ran.
fn exchange(mut peer: UnixStream, stop: &AtomicBool) -> (u32, Vec<u64>) {
    let (mut ran, mut byte) = (Vec::new(), [0]);
    // A peer that has stopped is gone.
    while !stop.load(Ordering::Relaxed) && peer.write_all(&byte).is_ok() {
        ran.push(sys::clock::kernel_ns());
        if peer.read_exact(&mut byte).is_err() {
            break;
        }
    }
    (sys::thread::tid(), ran)
}

/// Drains seldom until `gaps` were reported; returns the intervals off the CPU, and the gaps.
fn drained(stream: &mut SwitchStream, tids: &[u32], gaps: usize) -> (Vec<Off>, Vec<(u64, u64)>) {
    let (mut pairs, mut offs, mut known_gaps) = (Pairs::default(), Vec::new(), Vec::new());
    let begin = Instant::now();
    while known_gaps.len() < gaps && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(150));
        // Some behind the gap, too.
        for _ in 0..3 {
            let mut open = None;
            stream.drain(|switch| match switch.kind {
                SwitchKind::Lost { until_ns } => {
                    let (gap, alive) = ((switch.t_ns, until_ns), tids.iter().copied());
                    if pairs.lose(gap, alive, |off| offs.push(off)) {
                        match until_ns {
                            u64::MAX => open = Some(switch.t_ns),
                            _ => known_gaps.push(gap),
                        }
                    }
                }
                _ => offs.extend(pairs.feed(switch)),
            });
            if let Some(from_ns) = open {
                pairs.begin_at(stream.released_ns(), tids.iter().copied());
                known_gaps.push((from_ns, stream.released_ns()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    (offs, known_gaps)
}

#[test]
fn switch_records_with_full_rings() {
    let mut stream = match SwitchStream::open(&[]) {
        Ok(stream) => stream,
        Err(refused) => return println!("SKIPPED: {refused}"),
    };
    let stop = AtomicBool::new(false);
    let (offs, gaps, ran) = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..3 {
            let (one, other) = UnixStream::pair().expect("two sockets");
            threads.extend([one, other].map(|end| scope.spawn(|| exchange(end, &stop))));
        }
        let mut tids = Vec::new();
        sys::task::list(&mut tids).expect("/proc is there");
        let (offs, gaps) = drained(&mut stream, &tids, 12);
        stop.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().map(|t| t.join().expect("no panic"));
        (offs, gaps, ended.collect::<HashMap<u32, Vec<u64>>>())
    });
    println!("{} lost, gaps {gaps:?}, {} times", stream.lost(), offs.len());
    assert!(gaps.iter().all(|(from, until)| from <= until), "{gaps:?}");
    assert!(gaps.windows(2).all(|two| two[0].1 <= two[1].0 + 1), "apart: {gaps:?}");
    assert!(stream.lost() == 0 || !gaps.is_empty(), "{} lost, and no gap", stream.lost());
    for off in &offs {
        let over = gaps.iter().find(|(from, until)| off.out_ns < *until && off.in_ns > *from);
        assert_eq!(over, None, "{off:?} reaches over a gap");
        let Some(ran) = ran.get(&off.tid) else { continue };
        let inside = ran.get(ran.partition_point(|t| *t <= off.out_ns)).filter(|t| **t < off.in_ns);
        assert_eq!(inside, None, "it ran inside of {off:?}");
    }
}
