//! On captures made by hand: a Condition is notified and a Barrier reached, nobody holds them; the
//! holder of the lock that a pool's worker waits for is named, and the worker between; a file lock
//! of this very process has a thread that holds it.

use capture::read::{Capture, MetricRow, Text};
use diagnosis::{diagnose, Confidence, Finding};
use format::metric::Numbers;
use format::record::TARGET_IS_NAME;
use format::wait::HolderSource;
use format::wait::WaitKind::{self, FileLock, Futex, Gil, Running, Sleep, SocketRead};
use format::wake::{Wake, Waker};
use made::{also_seen, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const OTHER: u32 = 9;
const THIRD: u32 = 11;
const LIB: &str = "/lib/threading.py";

/// A request of 500 ms that waits in `frames` until 490; `OTHER` sleeps in `collect` until 489.
fn waits(frames: &[(&str, &str, u32)], wait: WaitKind) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let own = stack(&mut made, frames);
    let collect = [("tick", "/srv/app.py", 15), ("collect", "/srv/app.py", 30)];
    let collect = stack(&mut made, &collect);
    off(&mut made, OWN, &[(0, 490)]);
    off(&mut made, OTHER, &[(0, 489), (491, 9000)]);
    seen(&mut made, OWN, &[]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OWN, (5..490).step_by(50), wait, own);
    also_seen(&mut made, OTHER, (10..480).step_by(50), Sleep, collect);
    made
}

fn reported(made: &mut Capture) {
    let wake = Wake { t_ns: BEGIN + 489_500_000, tid: OWN, by: Waker::Thread(OTHER) };
    made.wakes.entry(OWN).or_default().push(wake);
}

fn judged(made: &Capture, look: impl FnOnce(&Finding, &str)) {
    let verdict = diagnose(made, |_| 300 * MS);
    look(verdict.findings.first().expect("a finding"), &to_text(&verdict));
}

#[test]
fn a_condition_is_notified_and_not_held() {
    let view = ("view", "/srv/app.py", 12);
    let wait = ("Condition.wait", LIB, 320);
    let wait_for = ("Condition.wait_for", LIB, 350);
    let barrier = [view, ("Barrier.wait", LIB, 680), ("Barrier._wait", LIB, 700), wait_for, wait];
    let cases: [(&[_], _); 3] = [
        (&[view, wait], "a Condition, notified by app.py:30 collect() (called by tick())"),
        (&[view, wait_for, wait], "a Condition, notified by app.py:30 collect()"),
        (&barrier, "a Barrier, reached last by app.py:30 collect()"),
    ];
    for (frames, wanted) in cases {
        let mut made = waits(frames, Futex);
        judged(&made, |first, text| {
            assert!(first.summary.contains("most likely"), "{text}");
            assert!(!text.contains("holder"), "{text}");
        });
        reported(&mut made);
        judged(&made, |first, text| {
            assert_eq!(first.cause.text(), "lock-wait", "{text}");
            assert!(first.summary.contains(wanted), "{text}");
            assert!(first.summary.contains("which slept"), "{text}");
            assert_eq!(first.confidence, Confidence::Confirmed, "{text}");
            assert!(!text.contains("lock is held"), "{text}");
        });
    }
}

#[test]
fn a_thread_that_takes_a_conditions_own_lock_again_waits_for_its_holder() {
    let mut made = waits(&[("view", "/srv/app.py", 12), ("Condition.wait", LIB, 325)], Futex);
    for look in made.samples.get_mut(&OWN).expect("seen") {
        (look.lock_holder, look.holder_source) = (OTHER, HolderSource::OwnerField);
    }
    judged(&made, |first, text| {
        assert!(first.summary.contains("a lock, held by app.py:30 collect()"), "{text}");
    });
}

/// A request waits in a queue for what `desk`, in `THIRD`, brings. That one waits most of the while
/// for a lock that `OTHER` holds, if `known`.
fn behind(known: bool) -> Capture {
    let get = [("view", "/srv/app.py", 12), ("Queue.get", "/lib/queue.py", 170)];
    let get = [get[0], get[1], ("Condition.wait", LIB, 320)];
    let mut made = waits(&get, Futex);
    let desk = stack(&mut made, &[("desk", "/srv/app.py", 50)]);
    off(&mut made, OTHER, &[(0, 487), (488, 9000)]);
    off(&mut made, THIRD, &[(1, 488), (491, 9000)]);
    seen(&mut made, THIRD, &[]);
    also_seen(&mut made, THIRD, (20..480).step_by(50), Futex, desk);
    for look in made.samples.get_mut(&THIRD).expect("seen") {
        look.target = 4096;
        if known {
            (look.lock_holder, look.holder_source) = (OTHER, HolderSource::WithBlock);
        }
    }
    let wake = Wake { t_ns: BEGIN + 489_500_000, tid: OWN, by: Waker::Thread(THIRD) };
    made.wakes.entry(OWN).or_default().push(wake);
    made
}

#[test]
fn the_holder_of_the_lock_that_a_pools_worker_waits_for_made_the_request_wait() {
    judged(&behind(true), |first, text| {
        assert_eq!(first.cause.text(), "pool-wait", "{text}");
        assert_eq!(first.culprit.as_ref().expect("a culprit").function, "collect", "{text}");
        let chain =
            "most likely app.py:50 desk() had what it waited for, which waited for another \
                     lock, held by app.py:30 collect() (called by tick()), which slept";
        assert!(first.summary.contains(chain), "{text}");
        assert!(!first.advice.contains("Make the pool larger"), "{text}");
    });
    // Guesses end the chain of a guess.
    judged(&behind(false), |first, text| {
        assert_eq!(first.culprit.as_ref().expect("a culprit").function, "desk", "{text}");
        assert!(first.summary.ends_with("which waited for another lock"), "{text}");
        assert!(first.advice.contains("Make the pool larger"), "{text}");
    });
}

/// A request waits in `turn` for a file lock whose holder the kernel recorded; `OTHER` was in
/// `turn`, too, and sleeps in what that called.
fn file_lock(holder: &str) -> Capture {
    let mut made = waits(&[("view", "/srv/app.py", 12), ("turn", "/srv/app.py", 60)], FileLock);
    let sweeps = [("turn", "/srv/app.py", 61), ("compact", "/srv/app.py", 70)];
    let sweeps = stack(&mut made, &sweeps);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (10..480).step_by(50), Sleep, sweeps);
    made.names.push(format!("/srv/x.lock, held by {holder}"));
    let target = TARGET_IS_NAME | (made.names.len() as u64 - 1);
    made.samples.get_mut(&OWN).expect("seen").iter_mut().for_each(|s| s.target = target);
    made
}

#[test]
fn a_file_lock_of_this_process_has_a_thread_that_holds_it() {
    let mut made = file_lock("this process");
    judged(&made, |first, text| {
        let wanted = "held by this process, most likely by app.py:70 compact() in";
        assert!(first.summary.contains(wanted), "{text}");
        assert_eq!(first.confidence, Confidence::Likely, "{text}");
    });
    reported(&mut made);
    judged(&made, |first, text| {
        assert!(first.summary.contains("held by this process, by app.py:70 compact()"), "{text}");
        assert_eq!(first.confidence, Confidence::Confirmed, "{text}");
    });
    judged(&file_lock("process 12 (gunicorn)"), |first, text| {
        assert!(first.culprit.is_none(), "{text}");
        assert!(first.summary.contains("held by process 12 (gunicorn)"), "{text}");
    });
}

/// Without switch records a request joins `OTHER`, which waits for a peer, and another thread, born
/// and gone in the same time, waits for the GIL. The joined thread is sampled in the first half
/// only; `known`: the `Thread` object names it.
fn joins(known: bool) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.sources.retain(|(name, _)| name != "switches");
    made.meta.sources.push(("switches".to_owned(), "off: turned off by settings".to_owned()));
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let join = [("view", "/srv/app.py", 12), ("Thread.join", LIB, 1110)];
    let join = [join[0], join[1], ("Thread._wait_for_tstate_lock", LIB, 1130)];
    let join = stack(&mut made, &join);
    let run = ("Thread.run", LIB, 980);
    let reads = stack(&mut made, &[run, ("reads", "/srv/app.py", 40)]);
    let other = stack(&mut made, &[run, ("other", "/srv/app.py", 70)]);
    also_seen(&mut made, OWN, (5..495).step_by(50), Futex, join);
    // Idle by now.
    also_seen(&mut made, OWN, (900..901).step_by(50), Futex, other);
    also_seen(&mut made, OTHER, (10..260).step_by(50), SocketRead, reads);
    also_seen(&mut made, THIRD, (150..480).step_by(50), Gil, other);
    if known {
        let look = &mut made.samples.get_mut(&OWN).expect("seen")[3];
        (look.lock_holder, look.holder_source) = (OTHER, HolderSource::Joined);
    }
    made
}

#[test]
fn the_thread_that_is_joined_is_the_one_its_object_names() {
    judged(&joins(true), |first, text| {
        assert_eq!(first.cause.text(), "downstream-wait", "{text}");
        assert_eq!(first.place.as_ref().expect("a place").function, "reads", "{text}");
        assert!(first.share > 0.9, "{text}");
        assert!(!text.contains("was inferred"), "{text}");
    });
    // Two fit: none is guessed.
    judged(&joins(false), |first, text| assert_eq!(first.cause.text(), "unknown", "{text}"));
}

#[test]
fn a_request_joins_a_thread_whose_first_sample_is_late_and_waits_for_no_lock() {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let wait = ("Thread._wait_for_tstate_lock", LIB, 1130);
    let join = [("view", "/srv/app.py", 12), ("Thread.join", LIB, 1110), wait];
    let join = stack(&mut made, &join);
    let reads = stack(&mut made, &[("Thread.run", LIB, 980), ("reads", "/srv/app.py", 40)]);
    off(&mut made, OWN, &[(0, 490)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (5..490).step_by(25), Futex, join);
    for look in made.samples.get_mut(&OWN).expect("seen") {
        (look.lock_holder, look.holder_source) = (OTHER, HolderSource::Joined);
    }
    off(&mut made, OTHER, &[(80, 300), (301, 489)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (85..480).step_by(50), SocketRead, reads);
    let verdict = diagnose(&made, |_| 300 * MS);
    let causes: Vec<_> = verdict.findings.iter().map(|f| f.cause.text()).collect();
    assert_eq!(causes[0], "downstream-wait", "{}", to_text(&verdict));
    assert!(!causes.contains(&"lock-wait"), "{}", to_text(&verdict));
}

#[test]
fn a_budget_that_was_spent_is_reported() {
    let mut made = waits(&[("view", "/srv/app.py", 12)], Futex);
    let intern = |made: &mut Capture, name: &str| {
        made.names.push(name.to_owned());
        made.names.len() as u32 - 1
    };
    let (passes, losses) = ("dashcam.sampler.passes", "dashcam.losses");
    let (passes, losses) = (intern(&mut made, passes), intern(&mut made, losses));
    let what = intern(&mut made, "what");
    let row = |name: u32, tag: Option<&str>, n: f64| MetricRow {
        name,
        kind: 0,
        tags: tag.map(|text| (what, Text::Text(text.to_owned()))).into_iter().collect(),
        from_ns: BEGIN,
        to_ns: BEGIN + 1000 * MS,
        numbers: Numbers::Count(n),
    };
    made.metrics = vec![row(passes, None, 1100.0), row(losses, Some("records_dropped"), 500.0)];
    judged(&made, |_, text| assert!(!text.contains("budget"), "{text}"));
    made.metrics.push(row(losses, Some("passes_skipped"), 484.0));
    judged(&made, |_, text| {
        let wanted = "484 of 1,100 passes of its sampler took no sample";
        assert!(text.contains(wanted), "{text}");
    });
}

/// A request waits for a lock that `OTHER` has, which waits for the GIL: of `THIRD`, or now of it
/// and now of others.
fn behind_the_gil(one: bool) -> Capture {
    let take = [("view", "/srv/app.py", 12)];
    let mut made = waits(&take, Futex);
    let ticks = stack(&mut made, &[("tick", "/srv/app.py", 50)]);
    let match_ = stack(&mut made, &[("worker", "/srv/app.py", 80), ("parse", "/srv/app.py", 90)]);
    for look in made.samples.get_mut(&OWN).expect("seen") {
        (look.lock_holder, look.holder_source) = (OTHER, HolderSource::OwnerField);
    }
    made.samples.remove(&OTHER);
    made.off_cpu.remove(&OTHER);
    seen(&mut made, OTHER, &[]);
    seen(&mut made, THIRD, &[]);
    let pieces: Vec<_> = (0..48).map(|n| (n * 10, n * 10 + 9)).collect();
    off(&mut made, OTHER, &pieces);
    also_seen(&mut made, OTHER, (5..480).step_by(10), Gil, ticks);
    also_seen(&mut made, THIRD, (5..480).step_by(10), Running, match_);
    for (n, look) in made.samples.get_mut(&OTHER).expect("seen").iter_mut().enumerate() {
        look.gil_holder = if one { THIRD } else { THIRD + n as u32 % 3 };
    }
    made
}

#[test]
fn the_holder_of_the_gil_that_a_locks_holder_waits_for_made_the_request_wait() {
    judged(&behind_the_gil(true), |first, text| {
        assert_eq!(first.cause.text(), "lock-wait", "{text}");
        assert_eq!(first.culprit.as_ref().expect("a culprit").function, "parse", "{text}");
        let chain = "held by app.py:50 tick(), which waited for the GIL, held by app.py:90 parse()";
        assert!(first.summary.contains(chain), "{text}");
    });
    judged(&behind_the_gil(false), |first, text| {
        assert_eq!(first.culprit.as_ref().expect("a culprit").function, "tick", "{text}");
        assert!(first.summary.contains("which waited for the GIL"), "{text}");
    });
}

/// Switch records cut a wait for the GIL into segments; samples come every 100 ms.
#[test]
fn a_wait_for_the_gil_is_one_though_samples_are_few() {
    let view = [("view", "/srv/app.py", 12)];
    let mut made = made::capture(OWN, &["GET /"]);
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let (own, parse) = (stack(&mut made, &view), stack(&mut made, &[("parse", "/srv/app.py", 90)]));
    let pieces: Vec<_> = (0..50).map(|n| (n * 10, n * 10 + 9)).collect();
    off(&mut made, OWN, &pieces);
    seen(&mut made, OWN, &[]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OWN, (2..500).step_by(100), Gil, own);
    also_seen(&mut made, OTHER, (2..500).step_by(100), Running, parse);
    for look in made.samples.get_mut(&OWN).expect("seen") {
        look.gil_holder = OTHER;
    }
    judged(&made, |first, text| {
        assert_eq!(first.cause.text(), "gil-wait", "{text}");
        assert!(first.share > 0.7 && !text.contains("seen by a sample"), "{text}");
        assert_eq!(first.culprit.as_ref().expect("a culprit").function, "parse", "{text}");
    });
}

/// Without switch records, the waiter is sampled each 100 ms. The holder of its lock is sampled
/// each 20 ms, and waits for another lock all the while: its one wait is in segments shorter than
/// half of the waiter's.
#[test]
fn a_holder_that_is_sampled_more_often_still_waited_all_the_time() {
    const PORTER: u32 = 20;
    const LINGERER: u32 = 21;
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.sources = vec![("switches".to_owned(), "off: not permitted".to_owned())];
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let enter = stack(&mut made, &[("enter", "/srv/app.py", 41)]);
    let carry = stack(&mut made, &[("carry", "/srv/app.py", 36)]);
    let linger = stack(&mut made, &[("linger", "/srv/app.py", 19)]);
    for (tid, every, wait, at, holder) in [
        (OWN, 100, Futex, enter, PORTER),
        (PORTER, 20, Futex, carry, LINGERER),
        (LINGERER, 100, Sleep, linger, 0),
    ] {
        also_seen(&mut made, tid, (0..=500).step_by(every), wait, at);
        for look in made.samples.get_mut(&tid).into_iter().flatten() {
            look.flags |= format::record::flag::TIMES;
            (look.wall_ns, look.target) = (every as u64 * MS, u64::from(holder) * 64);
            look.lock_holder = holder;
            look.holder_source = match holder {
                0 => HolderSource::None,
                _ => HolderSource::WithBlock,
            };
        }
    }
    let verdict = diagnose(&made, |_| 300 * MS);
    let text = to_text(&verdict);
    let first = verdict.findings.first().expect("a finding");
    assert!(first.share > 0.9 && text.contains("linger()"), "{text}");
}

/// A request waits inside of a library for notice by the library's own thread, which waits for a
/// peer; it runs a while before the wait ends.
fn flushes(began: (&str, &str, u32)) -> Capture {
    let flush = ("BackgroundWorker.flush", "/site/sentry_sdk/worker.py", 80);
    let frames = [("view", "/srv/app.py", 12), flush, ("Condition.wait", LIB, 320)];
    let mut made = waits(&frames, Futex);
    made.meta.site = vec!["/site".to_owned()];
    off(&mut made, OTHER, &[(0, 9000)]);
    let asks = [began, ("getresponse", "/site/urllib3/connection.py", 638)];
    let asks = stack(&mut made, &asks);
    off(&mut made, THIRD, &[(0, 460), (461, 9000)]);
    seen(&mut made, THIRD, &[]);
    also_seen(&mut made, THIRD, (5..480).step_by(50), SocketRead, asks);
    made
}

#[test]
fn a_librarys_own_thread_at_work_gives_its_notice() {
    let made = flushes(("BackgroundWorker._target", "/site/sentry_sdk/worker.py", 160));
    judged(&made, |first, text| {
        let wanted = "most likely notified by connection.py:638 getresponse() in another thread, \
                      which waited for a peer";
        assert!(first.summary.contains(wanted), "{text}");
        assert_eq!(first.confidence, Confidence::Likely, "{text}");
    });
    let made = flushes(("poll", "/srv/poller.py", 7));
    judged(&made, |first, text| {
        assert!(!first.summary.contains("most likely"), "a thread of the program's: {text}");
    });
}
