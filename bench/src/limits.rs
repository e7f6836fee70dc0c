//! The machine's limits: clock reads, memory, files, threads. No recorder can be faster.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use crate::calls::{median, medians, turn, Case, Effort};
use crate::machine;
use crate::report::Figures;
use crate::rivals::dashcam::Dashcam;
use crate::rivals::plain::Plain;
use crate::rivals::Setup;

#[inline(never)]
fn two_clock_gettime(turns: u64) {
    turn(&Plain, turns, |_| {
        black_box((machine::clock_gettime(), machine::clock_gettime()));
    });
}

/// Two reads of the clock that dashcam uses.
#[inline(never)]
pub fn two_now_ns(turns: u64) {
    turn(&Plain, turns, |_| {
        black_box((dashcam::now_ns(), dashcam::now_ns()));
    });
}

/// Spans without attributes around nothing.
#[inline(never)]
pub fn bare_spans(rival: &Dashcam, turns: u64) {
    turn(rival, turns, |i| {
        black_box(rival.bare_span(|| black_box(i)));
    });
}

/// Events without attributes.
#[inline(never)]
pub fn bare_events(rival: &Dashcam, turns: u64) {
    turn(rival, turns, |_| rival.bare_event());
}

#[inline(never)]
fn one(turns: u64, read: impl Fn(u64) -> u64) {
    turn(&Plain, turns, |i| {
        black_box(read(i));
    });
}

/// Loops that only dashcam's process has: its own clock, and calls without attributes.
pub fn of_dashcam(rival: &Dashcam, effort: &Effort, figures: &mut Figures) {
    let cases: [Case<'_>; 4] = [
        ("two_now_ns", Box::new(two_now_ns)),
        ("two_clock_gettime", Box::new(two_clock_gettime)),
        ("bare_span", Box::new(|n| bare_spans(rival, n))),
        ("bare_event", Box::new(|n| bare_events(rival, n))),
    ];
    medians(&cases, effort, figures);
}

fn ms(mut body: impl FnMut()) -> f64 {
    let begin = Instant::now();
    body();
    begin.elapsed().as_secs_f64() * 1e3
}

/// Memory, file and threads, a few times each.
pub fn measure(setup: &Setup, times: usize, figures: &mut Figures) {
    let from = vec![1u8; setup.ring_bytes];
    let mut warm = vec![2u8; setup.ring_bytes];
    let path = setup.out.join(format!("limit-{}", std::process::id()));
    let (mut copy, mut fresh, mut file, mut spawn) = (vec![], vec![], vec![], vec![]);
    for _ in 0..times {
        copy.push(ms(|| black_box(&mut warm).copy_from_slice(black_box(&from))));
        fresh.push(ms(|| drop(black_box(from.clone()))));
        file.push(ms(|| {
            let made = std::fs::File::create(&path).and_then(|mut f| f.write_all(&from));
            if let Err(error) = made {
                eprintln!("limit: {}: {error}", path.display());
            }
        }));
        let _ = std::fs::remove_file(&path);
        spawn.push(ms(|| {
            (0..2000).for_each(|_| drop(std::thread::spawn(|| ()).join()));
        }));
    }
    figures.number("memcpy_ms", median(copy));
    figures.number("memcpy_fresh_ms", median(fresh));
    figures.number("file_ms", median(file));
    figures.number("spawn_join_ns", median(spawn) * 1e6 / 2000.0);
    machine::pin(0);
    let cases: [Case<'_>; 3] = [
        ("empty", Box::new(|n| one(n, |i| i))),
        ("rdtsc", Box::new(|n| one(n, |_| machine::rdtsc()))),
        ("clock_gettime", Box::new(|n| one(n, |_| machine::clock_gettime()))),
    ];
    medians(&cases, &Effort { turns: 200_000, runs: 7 }, figures);
}
