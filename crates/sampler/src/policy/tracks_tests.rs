//! What is new of a thread, by itself: times and readings are passed in.

use super::*;

#[test]
fn a_waiting_thread_is_asked_ever_less_often_only_without_switch_records_and_on_a_low_budget() {
    let ms = |ms: u64| ms * 1_000_000;
    let last = blank(7, ms(400), 0);
    let last = Some(format::record::Sample { wait: WaitKind::SocketRead, ..last });
    let new = |track: Track| Track { sampled_ns: ms(400), last, ..track };
    let waits = new(Track { waits_since_ns: ms(360), ..Track::default() });
    assert!(
        !waits.is_due(false, ms(410), false, true) && waits.is_due(false, ms(420), false, true)
    );
    assert!(waits.is_due(false, ms(410), false, false), "there are savings");
    let long = new(Track { waits_since_ns: ms(1), ..Track::default() });
    assert!(!long.is_due(false, ms(490), false, true) && long.is_due(false, ms(500), false, true));
    let runs = new(Track::default());
    assert!(runs.is_due(false, ms(401), false, true));
    // Switch records show that it did not run.
    assert!(
        !waits.is_due(false, ms(499), true, false) && waits.is_due(false, ms(500), true, false)
    );
    assert!(runs.is_due(true, ms(401), true, true));
    assert!(Track::default().is_due(false, ms(1), true, true), "never looked at");
}

#[test]
fn a_thread_that_ran_or_was_never_seen_has_news() {
    let mut tracks = Tracks::default();
    tracks.refresh(&[7, 8], &[], &[]);
    assert!(tracks.has_run(7) && tracks.has_run(9), "new, and not known");
    let reading = |blocked| Reading { t_ns: 5, clock_ns: Some(1), times: None, blocked };
    for tid in [7, 8] {
        assert!(tracks.begin(tid, true, reading(true)).is_some());
    }
    tracks.keep(blank(7, 5, 0));
    assert!(!tracks.anybody_ran() && tracks.with_news().eq([8]), "8 was looked at in vain");
    assert!(tracks.ran(7) && !tracks.ran(9));
    assert_eq!(tracks.with_news().count(), 2);
    assert!(tracks.begin(7, true, reading(false)).is_some());
    assert!(tracks.has_run(7), "it runs on");
    tracks.forget(7);
    tracks.refresh(&[9], &[], &[]);
    assert!(tracks.with_news().eq([9]), "the others are gone");
}

#[test]
fn a_thread_that_turns_out_to_run_python_is_looked_at_anew() {
    let python = PyThread { state: 4096, tid: 7, ident: 1 };
    let mut tracks = Tracks::default();
    // Listed before its interpreter state was.
    assert!(tracks.refresh(&[7], &[], &[]));
    assert!(tracks.get(7).is_some_and(Track::was_whole));
    assert!(!tracks.refresh(&[7], &[python], &[]));
    assert!(!tracks.get(7).is_some_and(Track::was_whole));
    if let Some(track) = tracks.by_tid.get_mut(&7) {
        track.as_python = true;
    }
    assert!(tracks.get(7).is_some_and(Track::was_whole));
    // A torn list says nothing against what was seen.
    tracks.refresh(&[7], &[], &[]);
    assert!(tracks.get(7).is_some_and(Track::was_whole));
}

const MS: u64 = 1_000_000;

/// A reading of a thread that waits, or runs; it has used `run_ns` of CPU, in `slices` slices.
fn reading(ms: u64, blocked: bool, run_ns: u64, slices: u64) -> Reading {
    let times = Some(Schedstat { run_ns, run_delay_ns: 0, slices });
    Reading { t_ns: ms * MS, clock_ns: Some(run_ns), times, blocked }
}

/// Samples thread 7 as one that waits for a lock, if that says something new; whether its last
/// sample was carried over.
fn sampled(tracks: &mut Tracks, exact: bool, how: (bool, Reading)) -> Option<bool> {
    let (close, reading) = how;
    if !tracks.is_worth(7, reading.t_ns, (close, exact)) {
        return None;
    }
    let begun = tracks.begin(7, exact, reading)?;
    let wait = if reading.blocked { WaitKind::Futex } else { WaitKind::Running };
    tracks.keep(Sample { wait, ..begun.sample });
    Some(begun.carry.is_some())
}

#[test]
fn with_switch_records_a_thread_that_did_not_run_is_sampled_each_tenth_of_a_second() {
    let mut tracks = Tracks::default();
    tracks.refresh(&[7], &[], &[]);
    let mut at = |ms| sampled(&mut tracks, true, (false, reading(ms, true, 50, 1)));
    assert_eq!((at(10), at(20), at(109)), (Some(false), None, None));
    assert_eq!((at(110), at(150), at(210)), (Some(true), None, Some(true)), "where it was");
    tracks.ran(7);
    let mut at = |ms, run_ns| sampled(&mut tracks, true, (false, reading(ms, true, run_ns, 2)));
    assert_eq!((at(220, 90), at(230, 90)), (Some(false), None), "it ran, and waits again");
}

#[test]
fn the_holder_of_a_lock_is_asked_for_again_only_where_it_matters() {
    let mut tracks = Tracks::default();
    tracks.refresh(&[7], &[], &[]);
    let waits = |ms| reading(ms, true, 50, 1);
    assert_eq!(sampled(&mut tracks, true, (true, waits(100))), Some(false));
    tracks.holder_asked(7, 100 * MS);
    assert_eq!(sampled(&mut tracks, true, (true, waits(139))), None);
    assert_eq!(sampled(&mut tracks, true, (false, waits(140))), None, "nobody waits for it");
    assert_eq!(sampled(&mut tracks, true, (true, waits(140))), Some(true));
}

#[test]
fn without_switch_records_times_say_that_it_did_not_run() {
    let mut tracks = Tracks::default();
    tracks.refresh(&[7], &[], &[]);
    let mut at = |ms, blocked, run, slices| {
        sampled(&mut tracks, false, (false, reading(ms, blocked, run, slices)))
    };
    assert_eq!(at(10, true, 50, 1), Some(false));
    assert_eq!(at(20, true, 50, 1), Some(true));
    assert_eq!(at(30, true, 50, 2), Some(false), "it was given a CPU");
    assert_eq!(at(40, false, 50, 2), Some(false), "it is runnable");
}

#[test]
fn what_had_nothing_to_report_is_of_the_next_sample() {
    let mut tracks = Tracks::default();
    tracks.refresh(&[7], &[], &[]);
    assert_eq!(sampled(&mut tracks, true, (false, reading(10, false, 100, 1))), Some(false));
    let begun = tracks.begin(7, true, reading(20, false, 300, 1)).map(|begun| {
        tracks.put_back(&begun);
        begun.sample
    });
    assert_eq!(begun.map(|s| (s.cpu_ns, s.wall_ns)), Some((200, 10 * MS)));
    let next = tracks.begin(7, true, reading(30, false, 700, 1)).map(|begun| begun.sample);
    assert_eq!(next.map(|s| (s.cpu_ns, s.wall_ns)), Some((600, 20 * MS)));
}

#[test]
fn each_thread_is_asked_in_its_turn_and_one_that_waits_long_is_repeated_unread() {
    let mut tracks = Tracks::default();
    let tids: Vec<u32> = (1..=80).collect();
    tracks.refresh(&tids, &[], &[]);
    let asked = std::cell::RefCell::new(Vec::new());
    let pass = |tracks: &mut Tracks, ms: u64| {
        let (mut moved, mut repeated) = (Vec::new(), 0);
        let clock = |tid: u32| {
            asked.borrow_mut().push(tid);
            Some(u64::from(tid))
        };
        tracks.ask_some(&[1], ms * MS, clock, &mut moved, |_| repeated += 1);
        (moved.len(), repeated)
    };
    let all = (0..3).map(|i| pass(&mut tracks, 10 + i).0).sum::<usize>();
    assert!((95..=96).contains(&all), "never sampled: each is to be read, but for the urgent one");
    assert!(asked.borrow().is_empty());
    for tid in &tids {
        let reading = Reading { clock_ns: Some(u64::from(*tid)), ..reading(20, true, 1, 1) };
        let begun = tracks.begin(*tid, false, reading);
        begun.into_iter().for_each(|begun| tracks.keep(begun.sample));
    }
    assert_eq!(pass(&mut tracks, 30), (0, 0), "too early");
    let (moved, repeated) =
        (0..5).map(|_| pass(&mut tracks, 1_200)).fold((0, 0), |(m, r), (n, s)| (m + n, r + s));
    assert_eq!((moved, repeated), (0, 79), "each once");
    assert!(asked.borrow().iter().all(|tid| *tid != 1));
}
