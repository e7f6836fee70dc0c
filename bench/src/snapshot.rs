//! A dump of a full ring while one writer, or a writer on every core, records flat out: how long it
//! takes, and the largest gap that a writer sees meanwhile beside the largest gap in an equal time
//! without a dump, which is the machine's own noise.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::calls::events;
use crate::machine;
use crate::report::Figures;
use crate::rivals::{Rival, Setup};

/// The figures of writers about one window of time.
#[derive(Default)]
struct Window {
    gap: AtomicU64,
    events: AtomicU64,
}

/// Read by writers: the number of the window, `usize::MAX` to stop.
struct Stage {
    at: AtomicUsize,
    windows: Vec<Window>,
}

const STOP: usize = usize::MAX;

fn writer<R: Rival>(rival: R, stage: &Stage) {
    let (mut window, mut gap, mut count) = (0, 0, 0);
    let mut last = machine::rdtsc();
    loop {
        let scope = rival.scope();
        for i in 0..1000 {
            rival.event(i);
            let now = machine::rdtsc();
            gap = gap.max(now - last);
            last = now;
            count += 1;
            let at = stage.at.load(Ordering::Relaxed);
            if at != window {
                let counted = &stage.windows[window];
                counted.gap.fetch_max(gap, Ordering::Relaxed);
                counted.events.fetch_add(count, Ordering::Relaxed);
                (window, gap, count) = (at, 0, 0);
                if at == STOP {
                    return;
                }
            }
        }
        drop(scope);
    }
}

/// Fills the ring from every core, so that rings of single cores are full too.
fn fill<R: Rival>(rival: R, bytes: usize) {
    let cores = machine::cpus().len();
    let turns = (bytes / R::EVENT_BYTES / cores) as u64 * 5 / 4;
    std::thread::scope(|scope| {
        for core in 0..cores {
            scope.spawn(move || {
                machine::pin(core);
                events(&rival, turns);
            });
        }
    });
}

struct Dump {
    took: Duration,
    bytes: u64,
}

fn dumps<R: Rival>(rival: R, writers: usize, path: &PathBuf, dumps: usize) -> (Vec<Dump>, Stage) {
    // Window 0: warming up; then dump, between, quiet, between, dump ...
    let windows = (0..=dumps * 4).map(|_| Window::default()).collect();
    let stage = Stage { at: AtomicUsize::new(0), windows };
    let mut made = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| writer(rival, &stage));
        }
        let next = || {
            stage.at.fetch_add(1, Ordering::Relaxed);
        };
        std::thread::sleep(Duration::from_millis(100));
        for _ in 0..dumps {
            next();
            let begin = Instant::now();
            let bytes = rival.dump(path);
            let took = begin.elapsed();
            next();
            match bytes {
                Ok(bytes) => made.push(Dump { took, bytes }),
                Err(error) => {
                    eprintln!("dump: {error}");
                    break;
                }
            }
            // The written data goes to the disk now, not during the quiet window.
            if let Ok(file) = std::fs::File::open(path) {
                let _ = file.sync_all();
            }
            let _ = std::fs::remove_file(path);
            std::thread::sleep(Duration::from_millis(30));
            next();
            std::thread::sleep(took);
            next();
            std::thread::sleep(Duration::from_millis(5));
        }
        stage.at.store(STOP, Ordering::Relaxed);
    });
    (made, stage)
}

/// Both numbers of writers; `count` dumps each.
pub fn measure<R: Rival>(setup: &Setup, count: usize, figures: &mut Figures) -> R {
    let counts = machine::counts_a_ns();
    let rival = R::on(setup);
    fill(rival, setup.ring_bytes);
    let path = setup.out.join(format!("dump-{}", std::process::id()));
    for (name, writers) in [("one", 1), ("all", machine::cpus().len())] {
        let (made, stage) = dumps(rival, writers, &path, count);
        let list = |value: &dyn Fn(&Dump) -> f64| made.iter().map(value).collect::<Vec<f64>>();
        figures.list(&format!("{name}_dump_ms"), &list(&|d| d.took.as_secs_f64() * 1e3));
        figures.list(&format!("{name}_bytes"), &list(&|d| d.bytes as f64));
        let pick = |first: usize, value: &dyn Fn(&Window) -> f64| -> Vec<f64> {
            (0..made.len()).map(|i| value(&stage.windows[i * 4 + first])).collect()
        };
        let gap = |window: &Window| window.gap.load(Ordering::Relaxed) as f64 / counts / 1e3;
        figures.list(&format!("{name}_gap_us"), &pick(1, &gap));
        figures.list(&format!("{name}_quiet_us"), &pick(3, &gap));
        let events = |window: &Window| window.events.load(Ordering::Relaxed) as f64;
        let rate: Vec<f64> =
            pick(1, &events).iter().zip(pick(3, &events)).map(|(a, b)| a / b.max(1.0)).collect();
        figures.list(&format!("{name}_rate"), &rate);
    }
    rival
}
