//! On captures made by hand: a thread that copies and syncs by turns, whose samples find it mostly
//! in the sync: readings of what it used are far apart.

use capture::read::Capture;
use diagnosis::diagnose;
use format::record::flag;
use format::usage::Usage;
use format::wait::WaitKind::{FileSync, Running};
use made::{also_off, also_seen, off, request, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;

/// A request of 1,200 ms that runs for 4 of each 10 ms and syncs for the rest. Only the first and
/// the last sample that finds it running have readings.
fn by_turns(between: Usage) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let copies = stack(&mut made, &[("view", "/srv/app.py", 12), ("save", "/srv/app.py", 30)]);
    let syncs = stack(&mut made, &[("view", "/srv/app.py", 12), ("save", "/srv/app.py", 31)]);
    made.requests.push(request(99, OWN, BEGIN, 1200));
    off(&mut made, OWN, &[]);
    seen(&mut made, OWN, &[]);
    for at in (0..1200).step_by(10) {
        also_off(&mut made, OWN, false, &[(at + 4, at + 10)]);
        also_seen(&mut made, OWN, [at + 2].into_iter(), Running, copies);
        also_seen(&mut made, OWN, [at + 7].into_iter(), FileSync, syncs);
    }
    let samples = made.samples.get_mut(&OWN).expect("seen");
    let nothing = Usage { faults: 0, storage_kib: 0, user_us: 0, system_us: 0 };
    for (at, used) in [(0, nothing), (samples.len() - 2, between)] {
        (samples[at].target, samples[at].timeout_ns) = used.pack();
        samples[at].flags |= flag::USAGE;
    }
    made
}

fn share(made: &Capture, cause: &str) -> f64 {
    let verdict = diagnose(made, |_| 300 * MS);
    let own = verdict.findings.iter().filter(|f| f.cause.text() == cause);
    let share: f64 = own.map(|f| f.share).sum();
    assert!(share <= 1.0, "{}", to_text(&verdict));
    share
}

#[test]
fn what_a_function_moved_in_all_says_what_its_short_runs_did() {
    let made =
        by_turns(Usage { faults: 9, storage_kib: 90_000, user_us: 30_000, system_us: 450_000 });
    assert!(share(&made, "disk-io") > 0.95, "{}", share(&made, "disk-io"));
    let made =
        by_turns(Usage { faults: 9, storage_kib: 90_000, user_us: 450_000, system_us: 30_000 });
    assert!(share(&made, "cpu") > 0.35, "{}", share(&made, "cpu"));
}

#[test]
fn readings_with_another_function_between_them_say_nothing_of_either() {
    let mut made =
        by_turns(Usage { faults: 9, storage_kib: 90_000, user_us: 30_000, system_us: 450_000 });
    let other = stack(&mut made, &[("view", "/srv/app.py", 13), ("copy", "/srv/app.py", 50)]);
    made.samples.get_mut(&OWN).expect("seen")[120].stack = other;
    assert!(share(&made, "cpu") > 0.35, "{}", share(&made, "cpu"));
}
