//! On captures made by hand: which parts of a thread's time are one wait, however it was divided.

use crate::made;

use analysis::index::Index;
use analysis::timeline::{of_thread, Segment, State};
use analysis::waits::{ended_by_request, longest_lock, merged, merged_by_request, Same, Wait};
use capture::read::Capture;
use format::wait::WaitKind::{self, Futex, Gil, Running, SocketRead};
use made::{off, seen, stack, BEGIN, MS};

const OWN: u32 = 7;
const LOCK: u64 = 0x7f00;

/// A thread that is off the CPU in these intervals and seen there every 40 ms, waiting for `LOCK`
/// in `get`.
fn waiting(stretches: &[(u64, u64)]) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let get = stack(&mut made, &[("get", "/srv/app.py", 12)]);
    off(&mut made, OWN, stretches);
    let at = stretches.iter().flat_map(|(from, to)| (from + 5..*to).step_by(40));
    let samples: Vec<_> = at.map(|ms| (ms, Futex, get)).collect();
    seen(&mut made, OWN, &samples);
    made.samples.get_mut(&OWN).expect("seen").iter_mut().for_each(|s| s.target = LOCK);
    made
}

fn waits_of(made: &Capture, to_ms: u64) -> Vec<Segment<'_>> {
    let mut all = of_thread(made, OWN, BEGIN, BEGIN + to_ms * MS);
    all.retain(|s| s.state == State::Wait);
    all
}

fn ms(wait: &Wait<'_>) -> (u64, u64) {
    ((wait.from_ns - BEGIN) / MS, (wait.to_ns - BEGIN) / MS)
}

#[test]
fn segments_that_touch_are_one_and_a_run_ends_it() {
    let made = waiting(&[(0, 200), (210, 300)]);
    let segments = waits_of(&made, 300);
    assert!(segments.len() > 2, "each sample cuts it: {}", segments.len());
    let waits = merged(segments.iter().map(Wait::of), Same::NoContradiction);
    assert_eq!(waits.iter().map(ms).collect::<Vec<_>>(), [(0, 200), (210, 300)]);
    assert!(waits.iter().all(|w| w.exact && w.seen && w.target == LOCK));
}

#[test]
fn what_contradicts_it_is_another_wait_unless_it_is_known_to_be_one() {
    let mut made = waiting(&[(0, 200)]);
    made.samples.get_mut(&OWN).expect("seen")[2].target = LOCK + 64;
    let segments = waits_of(&made, 200);
    let by = |same| merged(segments.iter().map(Wait::of), same).iter().map(ms).collect::<Vec<_>>();
    assert_eq!(by(Same::NoContradiction), [(0, 65), (65, 105), (105, 200)]);
    assert_eq!(by(Same::Touching), [(0, 200)]);
}

#[test]
fn a_wait_for_the_gil_is_cut_by_its_holders_only_where_asked() {
    let mut made = waiting(&[(0, 80)]);
    for (sample, holder) in made.samples.get_mut(&OWN).expect("seen").iter_mut().zip([8, 9]) {
        (sample.wait, sample.target, sample.gil_holder) = (Gil, 0, holder);
    }
    let segments = waits_of(&made, 80);
    let count = |same| merged(segments.iter().map(Wait::of), same).len();
    assert_eq!((count(Same::NoContradiction), count(Same::GilHolder)), (1, 2));
}

#[test]
fn the_longest_lock_is_the_one_waited_for_longest_in_all() {
    let mut made = waiting(&[(0, 60), (70, 130), (140, 240)]);
    let last = made.samples.get_mut(&OWN).expect("seen").iter_mut();
    last.filter(|s| s.t_ns >= BEGIN + 140 * MS).for_each(|s| s.target = LOCK + 64);
    let segments = waits_of(&made, 240);
    let longest = longest_lock(&segments).expect("it waited");
    assert_eq!((longest.target, longest.waited_ns / MS), (LOCK, 120));
    assert_eq!(ms(&longest), (0, 130), "with the time between");
    assert!(longest.longest.ns() <= 60 * MS);
}

#[test]
fn waits_of_two_requests_are_two_where_they_touch() {
    let made = waiting(&[(0, 200)]);
    let segments = waits_of(&made, 200);
    let parts =
        segments.iter().rev().map(|s| (usize::from(s.from_ns >= BEGIN + 60 * MS), Wait::of(s)));
    let waits = merged_by_request(parts);
    assert_eq!(
        waits.iter().map(|(r, w)| (*r, ms(w))).collect::<Vec<_>>(),
        [(0, (0, 65)), (1, (65, 200))]
    );
}

/// The whole of the wait that a segment in its middle is of, without switch records.
fn whole_by_samples(kind: WaitKind, after: WaitKind) -> (u64, u64) {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.sources = vec![("switches".to_owned(), "off: turned off by settings".to_owned())];
    let get = stack(&mut made, &[("get", "/srv/app.py", 12)]);
    let at = [(0, Running), (100, kind), (200, kind), (300, kind), (400, after)];
    let samples: Vec<_> = at.iter().map(|(ms, wait)| (*ms, *wait, get)).collect();
    seen(&mut made, OWN, &samples);
    for sample in made.samples.get_mut(&OWN).expect("seen") {
        (sample.flags, sample.wall_ns) = (format::record::flag::TIMES, 100 * MS);
        sample.target = if sample.wait == kind { LOCK } else { 0 };
    }
    let index = Index::new(&made);
    let segments = index.timeline(OWN, BEGIN + 210 * MS, BEGIN + 290 * MS);
    ms(&index.whole_wait(&segments[0]))
}

#[test]
fn from_any_segment_all_of_a_wait_is_found() {
    let made = waiting(&[(0, 200), (210, 300)]);
    let index = Index::new(&made);
    let segments = index.timeline(OWN, BEGIN + 90 * MS, BEGIN + 100 * MS);
    let whole = index.whole_wait(&segments[0]);
    assert_eq!(ms(&whole), (0, 200), "by the switch record");
    assert_eq!(index.samples_of(&whole).count(), 5);
    assert_eq!(whole_by_samples(Futex, Running), (100, 400), "by samples");
}

#[test]
fn samples_do_not_join_waits_that_they_cannot_distinguish() {
    assert_eq!(whole_by_samples(SocketRead, Running), (210, 300));
}

/// The waits of `waiting(stretches)`, each sample with this time limit, that something ended.
fn ended(stretches: &[(u64, u64)], limit_ns: u64) -> Vec<(u64, u64)> {
    let mut made = waiting(stretches);
    let samples = made.samples.get_mut(&OWN).expect("seen");
    samples.iter_mut().for_each(|s| s.timeout_ns = limit_ns);
    let segments = waits_of(&made, 1000);
    ended_by_request(segments.iter().map(|s| (0, Wait::of(s)))).iter().map(|(_, w)| ms(w)).collect()
}

#[test]
fn slices_that_run_to_their_time_limit_are_one_wait() {
    let slices = [(0, 100), (101, 201), (202, 302), (303, 350), (352, 420)];
    assert_eq!(ended(&slices, 100 * MS), [(0, 350), (352, 420)], "an answer came at 350");
    assert_eq!(ended(&slices, 30_000 * MS), slices, "their time was not up");
    assert_eq!(ended(&slices, 0), slices, "no limit");
    assert_eq!(ended(&slices, 1), slices, "a limit that could not be read");
    let far = [(0, 100), (180, 280)];
    assert_eq!(ended(&far, 100 * MS), far, "something else was done between");
}

#[test]
fn a_slice_that_no_sample_saw_has_the_limit_of_the_others() {
    // A sample comes every 40 ms, 5 ms after an interval begins: none falls into the second.
    let slices = [(0, 20), (21, 24), (25, 45), (46, 66)];
    assert_eq!(ended(&slices, 20 * MS), [(0, 24), (25, 66)]);
    let slices = [(0, 4), (5, 25), (26, 46), (47, 50)];
    assert_eq!(ended(&slices, 20 * MS), [(0, 4), (5, 50)]);
}
