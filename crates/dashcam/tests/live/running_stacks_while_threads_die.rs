//! Threads of slow requests that compute and end while they are watched, more at once than there
//! are watches, in a process that forks: nothing crashes, a child harms nobody, what was seen is
//! named.

use std::hint::black_box;
use std::time::Duration;

use capture::read::Capture;
use format::wait::WaitKind;

/// Threads at once: more than there are watches.
const THREADS: u64 = 14;

#[inline(never)]
fn burn(cpu_ns: u64) -> u64 {
    let end_ns = sys::clock::thread_cpu_ns() + cpu_ns;
    let mut sum = 1u64;
    while sys::clock::thread_cpu_ns() < end_ns {
        for i in 0..5_000u64 {
            sum = black_box(sum.rotate_left(7) ^ i);
        }
    }
    sum
}

#[inline(never)]
fn deep(levels: u64, cpu_ns: u64) -> u64 {
    let room = black_box([levels; 32]);
    match levels {
        0 => burn(cpu_ns),
        _ => deep(levels - 1, cpu_ns) + room[0],
    }
}

#[test]
fn running_stacks_while_threads_die() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("dying-{}", std::process::id()));
    let settings = dashcam::Config::new().service("dying").slow("20ms").out(out.display());
    dashcam::start(settings).expect("settings");
    std::thread::sleep(Duration::from_millis(100));
    // Long enough for a few dozen sights, also where the machine is fast.
    let begin = std::time::Instant::now();
    let mut round = 0;
    while begin.elapsed() < Duration::from_secs(6) {
        round += 1;
        std::thread::scope(|scope| {
            for i in 0..THREADS {
                scope.spawn(move || {
                    let _request = dashcam::request!("dying");
                    deep(i * 2, 2_000_000 * (1 + (i + round) % 12))
                });
            }
            assert_eq!(testkit::in_a_child(|| 0), 0, "the child ended by itself");
        });
    }
    let path = dashcam::snap("dying").expect("a capture");
    let mut capture = Capture::open(&path).expect("a whole capture");
    assert_eq!(capture.damage, Vec::<String>::new());
    symbols::name_native(&mut capture);
    let running: Vec<u32> = capture
        .samples
        .values()
        .flatten()
        .filter(|s| s.wait == WaitKind::Running && s.stack != 0)
        .map(|s| s.stack)
        .collect();
    let state = capture.meta.sources.iter().find(|(name, _)| name.as_str() == "running_stacks");
    let state = &state.expect("a source").1;
    println!("running_stacks {state}: {} stacks, losses {:?}", running.len(), capture.meta.losses);
    if state != "on" {
        eprintln!("SKIPPED running_stacks_while_threads_die: {state}");
        return assert!(running.is_empty());
    }
    // Wherever they were seen, it was below `deep` or at their begin or end.
    let named = |stack: &&u32| capture.frames(**stack).any(|f| f.function.ends_with("burn"));
    let burns = running.iter().filter(named).count();
    assert!(burns > 5 && burns * 10 > running.len() * 8, "{burns} of {}", running.len());
    testkit::remove(&out);
}
