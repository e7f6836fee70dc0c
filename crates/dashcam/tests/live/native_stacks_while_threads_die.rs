//! Threads that start, wait a moment and end while their stacks are read: nothing crashes, and what
//! was seen can be named. Reads are guarded: a stack that is unmapped under them is an error.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use capture::read::Capture;
use samplers::native_stacks::{NativeStacks, MOST_FRAMES};
use sys::mem::Reader;
use sys::task::{TaskCall, TaskReader};

#[inline(never)]
fn deep(levels: u64) -> u64 {
    let room = std::hint::black_box([levels; 32]);
    if levels == 0 {
        std::thread::sleep(Duration::from_micros(300));
        return room[1];
    }
    deep(levels - 1) + room[0]
}

#[test]
fn native_stacks_while_threads_die() {
    let out = std::env::temp_dir().join(format!("dashcam-churn-{}", std::process::id()));
    let settings = dashcam::Config::new().slow("1s").out(out.display());
    dashcam::start(settings).expect("settings");
    let until = Instant::now() + Duration::from_secs(3);
    let served = AtomicU64::new(0);
    let mut read = 0u64;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while Instant::now() < until {
                    let worker = std::thread::spawn(|| {
                        let _request = dashcam::request!("churn");
                        deep(40)
                    });
                    worker.join().expect("nobody panics");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // As the sampler does, but without its pauses.
        let mem = Reader::new().expect("a process may read itself");
        let mut stacks = NativeStacks::new(1000).expect("x86-64");
        let (mut tids, mut frames) = (Vec::new(), Vec::new());
        while Instant::now() < until {
            sys::task::list(&mut tids).expect("procfs");
            for tid in &tids {
                let call = TaskReader::open(*tid).and_then(|mut task| task.call());
                if let Ok(TaskCall::Syscall { sp, pc, .. }) = call {
                    // Time for it to wake, return and end.
                    std::thread::yield_now();
                    stacks.read(&mem, (sp, pc), dashcam::now_ns(), &mut frames);
                    assert!((1..=MOST_FRAMES).contains(&frames.len()));
                    read += 1;
                }
            }
        }
        for (sp, pc) in
            [(0, 0), (8, u64::MAX), (u64::MAX, 1), (u64::MAX - 7, 1), (1 << 63, 1 << 63)]
        {
            stacks.read(&mem, (sp, pc), dashcam::now_ns(), &mut frames);
            assert_eq!(frames.len(), 1, "{sp:#x}");
        }
    });
    assert!(read > 100 && served.load(Ordering::Relaxed) > 100, "{read} {served:?}");
    let path = dashcam::snap("churned").expect("a capture");
    let mut capture = Capture::open(&path).expect("a whole capture");
    symbols::name_native(&mut capture);
    let stacks = capture.samples.values().flatten().filter(|s| s.stack != 0).map(|s| s.stack);
    let ours = stacks.filter(|stack| capture.frames(*stack).any(|f| f.function.contains("deep")));
    println!("{read} read, {served:?} threads, {} samples in deep()", ours.count());
    testkit::remove(&out);
}
