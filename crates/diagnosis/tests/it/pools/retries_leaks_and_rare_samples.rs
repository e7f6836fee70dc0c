//! On captures made by hand, after services nobody had seen before: what is tried again between two
//! pauses, pools that nobody gives back to, tasks and threads that are sampled seldom, requests
//! that waited for the GIL before they began.

use capture::read::{Capture, VitalRow};
use diagnosis::{diagnose, Diagnosis};
use format::record::flag;
use format::wait::WaitKind::{Accept, Futex, Gil, Poll, Running, Sleep, SocketRead};
use format::wait::{AwaitKind, HolderSource, WaitKind};
use made::{
    also_off, also_seen, awaited, capture, off, request, seen, span, stack, stack_on, BEGIN, MS,
};
use report::to_text;

use crate::made;

/// The thread of the slow request, and another one.
const OWN: u32 = 7;
const OTHER: u32 = 9;

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

/// A request of so many ms.
fn slow(ms: u64) -> Capture {
    let mut made = capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.requests.push(request(99, OWN, BEGIN, ms));
    made
}

/// Only samples: no switch records.
fn without_switches(made: &mut Capture) {
    made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())];
    made.off_cpu.clear();
}

/// Three calls of 20 ms that wait for a peer, and 100 ms of sleep behind each; `call` is where the
/// samples of the second and third one find it.
fn retries(call: Option<(&str, &str, u32)>) -> Capture {
    let mut made = slow(400);
    let retry = stack(&mut made, &[("view", "/srv/app.py", 12), ("retry", "/srv/app.py", 30)]);
    off(&mut made, OWN, &[(1, 20), (21, 121), (122, 141), (142, 242), (243, 262), (263, 363)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, [50, 90, 170, 210, 290, 330].into_iter(), Sleep, retry);
    if let Some(call) = call {
        let called =
            stack(&mut made, &[("view", "/srv/app.py", 12), ("retry", "/srv/app.py", 28), call]);
        also_seen(&mut made, OWN, [130, 250].into_iter(), SocketRead, called);
    }
    made.samples.get_mut(&OWN).expect("seen").sort_by_key(|s| s.t_ns);
    made
}

#[test]
fn pauses_are_counted_without_the_waits_between_them_and_what_is_tried_again_is_named() {
    let made = retries(Some(("call_stock", "/srv/stock.py", 8)));
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "sleep", "{}", to_text(&verdict));
    assert!(first.summary.starts_with("app.py:30 retry() slept for 3"), "{}", first.summary);
    let wanted = "in 3 pauses between calls of stock.py:8 call_stock()";
    assert!(first.summary.ends_with(wanted), "{}", first.summary);
    // No sample fell between the pauses: their number is not that of all waits, and nothing is said
    // of a call.
    let made = retries(None);
    let summary = judge(&made).findings[0].summary.clone();
    assert!(summary.starts_with("app.py:30 retry() slept for 3"), "{summary}");
    assert!(!summary.contains("calls") && !summary.contains("6 pauses"), "{summary}");
    // By samples alone there are no counts.
    let mut made = retries(Some(("call_stock", "/srv/stock.py", 8)));
    without_switches(&mut made);
    let summary = judge(&made).findings[0].summary.clone();
    assert!(summary.ends_with("between calls of stock.py:8 call_stock()"), "{summary}");
    assert!(!summary.contains("pauses"), "{summary}");
}

/// Three requests, each of which waits in `Queue.get` for so many ms; `vain` of them have a time
/// limit that runs out then. `OTHER` fills the pool up when the others' waits end, and pauses in
/// between.
fn pool(waits_ms: &[u64], vain: usize) -> Capture {
    let mut made = slow(1);
    made.requests.pop();
    let get = [("view", "/srv/app.py", 12), ("Queue.get", "/lib/queue.py", 170)];
    let get = stack(&mut made, &get);
    let get = stack_on(&mut made, get, &[("Condition.wait", "/lib/threading.py", 320)]);
    let heal = stack(&mut made, &[("heal", "/srv/app.py", 40)]);
    seen(&mut made, OWN, &[]);
    seen(&mut made, OTHER, &[]);
    let mut ends = Vec::new();
    for (i, ms) in (0..).zip(waits_ms) {
        let at = i * 2000;
        made.requests.push(request(99 + i, OWN, BEGIN + at * MS, ms + 1));
        also_off(&mut made, OWN, false, &[(at, at + ms)]);
        also_seen(&mut made, OWN, (at + 10..at + ms).step_by(50), Futex, get);
        for look in made.samples.get_mut(&OWN).into_iter().flatten() {
            let end_ns = BEGIN + (at + ms) * MS;
            if look.t_ns >= BEGIN + at * MS && (i as usize) < vain {
                look.timeout_ns = end_ns - look.t_ns;
            }
            look.target = 4096;
        }
        if i as usize >= vain {
            ends.push(at + ms);
        }
    }
    let mut from = 0;
    for end in ends {
        also_off(&mut made, OTHER, false, &[(from, end - 1)]);
        from = end;
    }
    also_off(&mut made, OTHER, false, &[(from, 9000)]);
    also_seen(&mut made, OTHER, (0..9000).step_by(90), Sleep, heal);
    made
}

#[test]
fn the_waker_of_one_wait_is_not_to_blame_for_waits_that_nobody_ended() {
    let made = pool(&[500, 500, 500], 2);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "pool-wait", "{}", to_text(&verdict));
    assert!(first.culprit.is_none(), "{}", to_text(&verdict));
    assert!(first.advice.contains("not give it back"), "{}", first.advice);
    // Where most of them were ended, their waker is reported.
    let made = pool(&[500, 500, 500], 1);
    let verdict = judge(&made);
    let culprit = verdict.findings[0].culprit.as_ref().expect("a culprit");
    assert_eq!(culprit.function, "heal");
}

/// A suspended request of 3,200 ms whose task was seen at these times, in the lock's line or beside
/// it.
fn suspended(samples: &[(u64, bool)]) -> Capture {
    let mut made = slow(3200);
    made.requests.last_mut().expect("the slow one").on_loop = true;
    let poll = [("run", "/lib/asyncio/base_events.py", 600), ("select", "/lib/selectors.py", 468)];
    let poll = stack(&mut made, &poll);
    let lock = stack(&mut made, &[("rows", "/srv/app.py", 8)]);
    let other = stack(&mut made, &[("rows", "/srv/app.py", 12)]);
    off(&mut made, OWN, &[(0, 3199), (3200, 9000)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (0..3300).step_by(90), Poll, poll);
    let row = |(at, locked): &(u64, bool)| match locked {
        true => awaited(*at, 99, 4096, AwaitKind::Lock, lock),
        false => awaited(*at, 99, 4096, AwaitKind::Sleep, other),
    };
    made.awaits.insert(99, samples.iter().map(row).collect());
    made
}

#[test]
fn a_task_that_two_rare_samples_found_in_the_same_await_was_there_in_between() {
    let made = suspended(&[(100, true), (1300, true), (3000, true)]);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    assert!(first.share > 0.95, "{}", to_text(&verdict));
    assert!(first.missing.iter().any(|m| m.contains("was seen by a sample")), "{first:?}");
    // Found elsewhere: when it went is not known.
    let made = suspended(&[(100, true), (1300, false), (3000, true)]);
    let verdict = judge(&made);
    let reported: f64 =
        verdict.findings.iter().filter(|f| f.cause.text() != "unknown").map(|f| f.share).sum();
    assert!(reported < 0.6, "{}", to_text(&verdict));
}

/// Without switch records: a request waits 450 ms in a Condition of the program's own, while
/// `OTHER` is in `reload` until `until`.
fn condition(until: u64) -> Capture {
    let mut made = slow(500);
    without_switches(&mut made);
    let wait = [("view", "/srv/app.py", 12), ("Condition.wait", "/lib/threading.py", 320)];
    let wait = stack(&mut made, &wait);
    let reload = stack(&mut made, &[("reload", "/srv/app.py", 40)]);
    let idle = stack(&mut made, &[("serve", "/srv/web.py", 90)]);
    seen(&mut made, OWN, &[]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OWN, (5..490).step_by(100), Futex, wait);
    also_seen(&mut made, OTHER, (20..until).step_by(100), SocketRead, reload);
    also_seen(&mut made, OTHER, (until + 20..until + 300).step_by(100), Poll, idle);
    made
}

#[test]
fn without_switch_records_whose_stay_ends_with_a_wait_most_likely_held_the_lock() {
    let made = condition(450);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    let wanted =
        "most likely notified by app.py:40 reload() in another thread, which waited for a peer";
    assert!(first.summary.ends_with(wanted), "{}", first.summary);
    // A fellow waiter whose wait ends then as well, in other code, is nobody's.
    let mut made = condition(450);
    let wait = made.samples[&OWN][0].stack;
    let fellow = stack(&mut made, &[("stamp", "/srv/app.py", 60)]);
    for look in made.samples.values_mut().flatten().filter(|s| s.stack == wait) {
        look.target = 4096;
    }
    also_seen(&mut made, 10, (10..490).step_by(100), Futex, fellow);
    made.samples.get_mut(&10).expect("seen").iter_mut().for_each(|s| s.target = 4096);
    also_seen(&mut made, 10, [510].into_iter(), Running, fellow);
    let found = judge(&made).findings[0].culprit.clone().expect("a culprit");
    assert_eq!(found.function, "reload");
    // It is still there afterwards: it held nothing of the waiter's.
    let made = condition(1500);
    assert!(judge(&made).findings[0].culprit.is_none(), "{}", to_text(&judge(&made)));
}

/// A request that lay in its socket for 480 of 500 ms. The main thread, which takes connections up,
/// computes meanwhile, and in every 40 ms it has no CPU for 25; for `asks` ms it waits for the GIL.
fn arrives(wait: WaitKind, asks: u64) -> Capture {
    let mut made = slow(500);
    made.requests.last_mut().expect("the slow one").started_ns = BEGIN + 480 * MS;
    let boot = stack(&mut made, &[("boot", "/srv/app.py", 5)]);
    let load = stack(&mut made, &[("load", "/srv/jobs.py", 9)]);
    off(&mut made, OWN, &[(479, 480), (500, 9000)]);
    seen(&mut made, OWN, &[(490, Running, boot)]);
    seen(&mut made, 1, &[]);
    also_off(&mut made, 1, false, &[(0, asks)]);
    also_seen(&mut made, 1, (1..asks).step_by(5), wait, boot);
    let pauses: Vec<(u64, u64)> = (asks..460).step_by(40).map(|at| (at + 15, at + 40)).collect();
    also_off(&mut made, 1, true, &pauses);
    also_seen(&mut made, 1, (asks + 5..480).step_by(40), Running, boot);
    also_off(&mut made, 1, false, &[(480, 9000)]);
    also_seen(&mut made, 1, (490..2000).step_by(100), Accept, boot);
    for look in made.samples.get_mut(&1).into_iter().flatten() {
        look.gil_holder = if look.wait == Gil { OTHER } else { 0 };
    }
    off(&mut made, OTHER, &[(480, 9000)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (5..480).step_by(20), Running, load);
    made
}

#[test]
fn a_thread_that_computes_and_loses_its_cpu_waits_for_no_gil() {
    let made = arrives(Gil, 15);
    let verdict = judge(&made);
    let gil: f64 =
        verdict.findings.iter().filter(|f| f.cause.text() == "gil-wait").map(|f| f.share).sum();
    assert!(gil < 0.1, "{}", to_text(&verdict));
    // Most of it is a wait for the GIL, before any code of the request's ran.
    let made = arrives(Gil, 400);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "gil-wait", "{}", to_text(&verdict));
    let wanted = "requests waited 480 ms for the GIL, held by jobs.py:9 load()";
    assert!(first.summary.starts_with(wanted), "{}", first.summary);
}

/// A request on a loop awaits a future for 3,000 ms; the task that is to fulfil it was found at
/// another request's future, of the same code, at `asked_ms`. That task was seen all the while.
fn fulfilled(asked_ms: u64, seen_ms: u64, kind: AwaitKind) -> Capture {
    let mut made = suspended(&[]);
    let wait = stack(&mut made, &[("predict", "/srv/app.py", 19)]);
    let score =
        stack(&mut made, &[("batcher", "/srv/batch.py", 12), ("score", "/srv/batch.py", 6)]);
    let own = (100..3200).step_by(500).map(|at| awaited(at, 99, 4096, kind, wait)).collect();
    made.awaits.insert(99, own);
    let mut asked = awaited(asked_ms, 98, 8192, kind, wait);
    (asked.holder, asked.how) = (12288, HolderSource::Refers);
    made.awaits.insert(98, vec![asked]);
    let samples =
        (0..seen_ms).step_by(100).map(|at| awaited(at, 0, 12288, AwaitKind::Sleep, score));
    made.awaits.insert(0, samples.collect());
    made
}

#[test]
fn the_task_that_is_to_fulfil_one_future_is_to_fulfil_others_of_the_same_code() {
    let made = fulfilled(5000, 6000, AwaitKind::Future);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "pool-wait", "{}", to_text(&verdict));
    assert_eq!(first.culprit.as_ref().expect("a culprit").function, "score");
    assert!(first.summary.contains("for a result; most likely"), "{}", first.summary);
    // It was seen no more when the request waited; or it is a lock, which has another holder each
    // time.
    let made = fulfilled(0, 10, AwaitKind::Future);
    let verdict = judge(&made);
    assert!(
        verdict.findings[0].culprit.is_none() || verdict.findings[0].share < 0.2,
        "{}",
        to_text(&verdict)
    );
    let made = fulfilled(5000, 6000, AwaitKind::Semaphore);
    assert!(judge(&made).findings[0].culprit.is_none(), "{}", to_text(&judge(&made)));
}

/// By samples alone: the request waits for the GIL, no sample read its holder, and `OTHER` ran all
/// the while, in code of this kind.
fn keeps(native: bool) -> Capture {
    let mut made = slow(500);
    let view = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    let runs = stack(&mut made, &[("write", "/srv/jobs.py", 8)]);
    made.codes.last_mut().expect("a code").native = native;
    off(&mut made, OWN, &[(1, 499)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (5..499).step_by(50), Gil, view);
    off(&mut made, OTHER, &[(500, 9000)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (5..500).step_by(50), Running, runs);
    made
}

#[test]
fn a_thread_without_python_code_has_no_gil() {
    let made = keeps(false);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "gil-wait", "{}", to_text(&verdict));
    assert_eq!(verdict.findings[0].culprit.as_ref().expect("a culprit").function, "write");
    let made = keeps(true);
    let verdict = judge(&made);
    assert!(verdict.findings[0].culprit.is_none(), "{}", to_text(&verdict));
}

/// A sample and the recorder's heartbeat: the recorder wanted to run for all of the request's time
/// and got no CPU.
fn crowded(look_ms: u64, delay_ms: u64) -> Capture {
    let mut made = slow(500);
    let nap = stack(&mut made, &[("nap", "/srv/app.py", 12)]);
    off(&mut made, OWN, &[(1, 499)]);
    seen(&mut made, OWN, &[(100, Sleep, nap), (look_ms, Running, nap)]);
    let last = made.samples.get_mut(&OWN).and_then(|s| s.last_mut()).expect("seen");
    (last.flags, last.wall_ns) = (flag::TIMES, 400 * MS);
    last.run_delay_ns = delay_ms * MS;
    for (name, ms) in [("recorder_gap_ns", 490), ("recorder_gap_run_delay_ns", 480)] {
        made.names.push(name.to_owned());
        let name = made.names.len() as u32 - 1;
        made.vitals.push(VitalRow { t_ns: BEGIN + 495 * MS, name, value: (ms * MS) as f64 });
    }
    made
}

#[test]
fn a_sleeping_thread_lacked_no_cpu_however_long_the_recorder_waited_for_one() {
    let made = crowded(510, 3);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "sleep", "{}", to_text(&verdict));
    // Its own account says that it was woken and got none.
    let made = crowded(510, 400);
    assert_eq!(judge(&made).findings[0].cause.text(), "cpu-starved");
    // Nothing says so.
    let made = crowded(900, 3);
    assert_eq!(judge(&made).findings[0].cause.text(), "cpu-starved");
}

#[test]
fn requests_that_had_not_begun_waited_while_another_thread_forked() {
    let mut made = slow(500);
    made.requests.last_mut().expect("the slow one").started_ns = BEGIN + 490 * MS;
    let sleeps = stack(&mut made, &[("saver", "/srv/app.py", 40)]);
    let forks =
        stack(&mut made, &[("saver", "/srv/app.py", 41), ("checkpoint", "/srv/app.py", 30)]);
    off(&mut made, OWN, &[(0, 489), (501, 9000)]);
    seen(&mut made, OWN, &[]);
    off(&mut made, OTHER, &[(600, 9000)]);
    // Before, and soon behind: the sampler was blocked as well.
    seen(&mut made, OTHER, &[(1, Sleep, sleeps), (492, Running, forks)]);
    made.samples.get_mut(&OTHER).expect("seen")[0].t_ns -= 20 * MS;
    made.names.push("dashcam.fork".to_owned());
    let name = made.names.len() as u32 - 1;
    made.own_spans.push(span(name, OTHER, 0, BEGIN, 490));
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "fork", "{}", to_text(&verdict));
    assert_eq!(first.culprit.as_ref().expect("a culprit").function, "checkpoint");
}

#[test]
fn the_time_of_a_finding_is_that_of_one_request() {
    let mut made = slow(1);
    made.requests.pop();
    let long = stack(&mut made, &[("view", "/srv/app.py", 12), ("ask", "/srv/app.py", 30)]);
    let short = stack(&mut made, &[("view", "/srv/app.py", 13), ("note", "/srv/app.py", 40)]);
    seen(&mut made, OWN, &[]);
    for i in 0..4 {
        let at = i * 2000;
        made.requests.push(request(99 + i, OWN, BEGIN + at * MS, 1000));
        also_off(&mut made, OWN, false, &[(at, at + 915), (at + 916, at + 999)]);
        also_seen(&mut made, OWN, (at + 10..at + 910).step_by(50), Sleep, long);
        also_seen(&mut made, OWN, (at + 920..at + 990).step_by(20), SocketRead, short);
    }
    let verdict = judge(&made);
    let said: Vec<&str> = verdict.findings.iter().map(|f| f.summary.as_str()).collect();
    let wanted = ["app.py:30 ask() slept for 915 ms", "app.py:40 note() waited 83 ms"];
    assert!(said.len() == 2 && (0..2).all(|i| said[i].starts_with(wanted[i])), "{said:?}");
    // It is less than a tenth of each, and yet each has it.
    assert_eq!(verdict.findings[1].slow_requests, 4);
}

#[test]
fn another_writer_of_a_full_queue_kept_no_reader() {
    let mut made = slow(500);
    without_switches(&mut made);
    let app = "/srv/app.py";
    let note = [("view", app, 12), ("note", app, 20)];
    let put = [("enqueue", app, 7), ("Queue.put", "/lib/queue.py", 140)];
    let put = [&note[..], &put, &[("Condition.wait", "/lib/threading.py", 320)]].concat();
    let (put, note) = (stack(&mut made, &put), stack(&mut made, &note));
    let send = stack(&mut made, &[("send", app, 30)]);
    let idle = stack(&mut made, &[("serve", "/srv/web.py", 90)]);
    for (tid, wait, stack) in [(OWN, Futex, put), (OTHER, SocketRead, send), (10, Futex, note)] {
        seen(&mut made, tid, &[]);
        let until = if tid == OWN { 490 } else { 450 };
        also_seen(&mut made, tid, (u64::from(tid)..until).step_by(100), wait, stack);
        if tid != OWN {
            also_seen(&mut made, tid, (470..750).step_by(100), Poll, idle);
        }
    }
    let target = |tid: u32| u64::from(tid) * 4096;
    made.samples
        .iter_mut()
        .for_each(|(tid, all)| all.iter_mut().for_each(|s| s.target = target(*tid)));
    let verdict = judge(&made);
    let culprit = verdict.findings[0].culprit.as_ref();
    assert_eq!(culprit.map(|c| c.function.as_str()), Some("send"), "{}", to_text(&verdict));
}

#[test]
fn one_wait_that_looks_cut_is_one_interval() {
    let mut made = slow(500);
    without_switches(&mut made);
    let sleeps = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (10..500).step_by(50), Sleep, sleeps);
    for look in made.samples.get_mut(&OWN).expect("seen") {
        look.wall_ns = 50 * MS;
    }
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    let reported = |what: &str| first.evidence.iter().find(|e| e.what == what).expect("told").value;
    assert!(
        reported("intervals") > 1.0 && reported("longest single interval") > 400.0,
        "{first:?}"
    );
}

/// Python's `execute` sleeps in SQLite's busy handler; the first of the pauses came before native
/// code was sampled.
#[test]
fn a_sleep_inside_of_sqlite_is_a_wait_for_its_lock() {
    for (library, cause) in [("/lib/libsqlite3.so.0", "lock-wait"), ("/lib/libcurl.so.4", "sleep")]
    {
        let mut made = slow(400);
        let order = stack(&mut made, &[("order", "/srv/app.py", 19)]);
        let polls =
            stack_on(&mut made, order, &[("step", library, 0), ("usleep", "/lib/libc.so.6", 0)]);
        let native = made.codes.len() - 2;
        made.codes[native..].iter_mut().for_each(|code| code.native = true);
        off(&mut made, OWN, &[(1, 50), (51, 100), (101, 399)]);
        seen(&mut made, OWN, &[(10, Sleep, order), (60, Sleep, polls), (200, Sleep, polls)]);
        let verdict = judge(&made);
        let (first, text) = (&verdict.findings[0], to_text(&verdict));
        assert_eq!((first.cause.text(), verdict.findings.len()), (cause, 1), "{text}");
        assert_eq!(first.place.as_ref().expect("a place").function, "order", "{text}");
        let reported =
            first.summary.contains("a lock of a SQLite database, asking again; the holder");
        assert_eq!(reported, cause == "lock-wait", "{text}");
    }
}

/// The recorder's own thread that waits for commands serves nobody.
#[test]
fn a_thread_of_the_recorders_takes_no_request_up() {
    let starved = |name: &str| {
        let mut made = arrives(Gil, 15);
        made.threads.push(made::thread(1, name));
        let verdict = judge(&made);
        verdict.findings.iter().any(|f| f.cause.text() == "cpu-starved")
    };
    assert!(starved("MainThread"));
    assert!(!starved("dashcam-control"));
}
