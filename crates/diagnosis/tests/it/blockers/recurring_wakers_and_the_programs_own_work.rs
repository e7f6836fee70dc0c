//! On captures made by hand: code around the program's own is not where it computes; one thread
//! that ran before every end of several waits ended them; a thread that carries work to processes
//! has nothing; and a program that loads goes on loading where no sample saw it.

use capture::read::{Capture, TaskRow};
use diagnosis::{diagnose, Diagnosis};
use format::wait::WaitKind::{Futex, Poll, Running, SocketRead};
use made::{also_off, also_seen, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const OTHER: u32 = 9;
const THIRD: u32 = 11;
const APP: &str = "/srv/app.py";

fn made() -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 100 * MS)
}

const LOOP: [(&str, &str, u32); 4] = [
    ("<module>", "/srv/main.py", 9),
    ("run", "/lib/asyncio/runners.py", 190),
    ("BaseEventLoop._run_once", "/lib/asyncio/base_events.py", 1922),
    ("Handle._run", "/lib/asyncio/events.py", 80),
];

#[test]
fn many_callbacks_are_what_keeps_a_loop_not_who_started_the_loop() {
    let mut made = made();
    let on_loop = |inner: &[(&'static str, &'static str, u32)]| [&LOOP[..], inner].concat();
    let fold = stack(&mut made, &on_loop(&[("fold", APP, 11)]));
    let ingest = stack(&mut made, &on_loop(&[("post", APP, 30), ("ingest", APP, 40)]));
    let between = stack(&mut made, &LOOP);
    made.requests.push(made::request(99, OWN, BEGIN, 400));
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    off(&mut made, OWN, &[(400, 9000)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (2..150).step_by(10), Running, ingest);
    also_seen(&mut made, OWN, (152..400).step_by(10), Running, fold);
    for look in made.samples.get_mut(&OWN).into_iter().flatten().step_by(10) {
        look.stack = between;
    }
    let verdict = judge(&made);
    let places: Vec<String> =
        verdict.findings.iter().filter_map(|f| Some(f.place.as_ref()?.function.clone())).collect();
    assert_eq!(places, ["fold", "ingest"], "{}", to_text(&verdict));
    assert!(verdict.findings.iter().all(|f| f.cause.text() == "event-loop-blocked"));
}

#[test]
fn a_loop_that_a_thread_runs_for_its_request_is_its_own_work() {
    let mut made = made();
    let view =
        stack(&mut made, &[("view", APP, 20), LOOP[1], ("new", "/lib/asyncio/events.py", 8)]);
    made.requests.push(made::request(99, OWN, BEGIN, 400));
    off(&mut made, OWN, &[(400, 9000)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (2..400).step_by(10), Running, view);
    let verdict = judge(&made);
    let place = verdict.findings[0].place.clone();
    assert_eq!(place.expect("a place").function, "view", "{}", to_text(&verdict));
}

#[test]
fn what_a_view_computes_in_two_functions_is_the_views_not_the_servers() {
    let mut made = made();
    let server = ("handle_request", "/lib/site-packages/gunicorn/sync.py", 180);
    let under = |inner: (&'static str, &'static str, u32)| {
        [("<module>", "/srv/bin/gunicorn", 8), server, ("view", APP, 20), inner]
    };
    let parts = [("price", APP, 30), ("tax", APP, 40)].map(|part| stack(&mut made, &under(part)));
    made.requests.push(made::request(99, OWN, BEGIN, 400));
    off(&mut made, OWN, &[(400, 9000)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (2..200).step_by(10), Running, parts[0]);
    also_seen(&mut made, OWN, (202..400).step_by(10), Running, parts[1]);
    // Another name's work goes through the same server and nothing else that is shared.
    let other =
        stack(&mut made, &[("<module>", "/srv/bin/gunicorn", 8), server, ("list", APP, 60)]);
    made.requests.push(made::request(100, THIRD, BEGIN, 300));
    off(&mut made, THIRD, &[(300, 9000)]);
    seen(&mut made, THIRD, &[]);
    also_seen(&mut made, THIRD, (2..300).step_by(10), Running, other);
    let verdict = judge(&made);
    let places: Vec<String> =
        verdict.findings.iter().filter_map(|f| Some(f.place.as_ref()?.function.clone())).collect();
    assert_eq!(places, ["view", "list"], "{}", to_text(&verdict));
}

/// Requests of three threads wait for locks, `times` times 2 s apart; a thread in another file
/// waits for a peer meanwhile and goes on just before, each time but the first if it is `late`
/// then.
fn checkpoints(times: u64, late: bool) -> Capture {
    let mut made = made();
    let add = stack(&mut made, &[("add", "/srv/carts.py", 8)]);
    let ship = stack(&mut made, &[("run", "/srv/point.py", 30), ("ship", "/srv/point.py", 12)]);
    for tid in [OWN, THIRD, THIRD + 1] {
        off(&mut made, tid, &[]);
        seen(&mut made, tid, &[]);
    }
    let mut away = Vec::new();
    seen(&mut made, OTHER, &[]);
    for time in 0..times {
        let at = time * 2000;
        for (i, tid) in [OWN, THIRD, THIRD + 1].into_iter().enumerate() {
            let from = at + 20 * i as u64;
            let ms = at + 300 - from;
            made.requests.push(made::request(
                100 + time * 10 + i as u64,
                tid,
                BEGIN + from * MS,
                ms + 1,
            ));
            // A short wait first, which another thread ended.
            also_off(&mut made, tid, false, &[(from, from + 7), (from + 8, at + 300)]);
            also_seen(&mut made, tid, std::iter::once(from + 3), Futex, add);
            also_seen(&mut made, tid, (from + 10..at + 300).step_by(10), Futex, add);
        }
        for look in made.samples.values_mut().flatten().filter(|s| s.wait == Futex) {
            look.target = 0x10 + u64::from(look.tid);
        }
        // Ten answers of the peer, the last of them just before the locks are released.
        let shift = if late && time == 0 { 15 } else { 0 };
        away.extend((0..10).map(|i| (at + i * 30 + shift, at + i * 30 + 29 + shift)));
        also_seen(&mut made, OTHER, (at + 5..at + 295).step_by(10), SocketRead, ship);
    }
    also_off(&mut made, OTHER, false, &away);
    made
}

#[test]
fn a_thread_that_runs_before_every_end_of_several_waits_ended_them() {
    let made = checkpoints(4, false);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    let culprit = first.culprit.clone().expect("a culprit");
    assert_eq!(culprit.function, "ship", "{}", to_text(&verdict));
    assert_eq!(first.confidence.text(), "likely", "{}", to_text(&verdict));
    for (times, late) in [(2, false), (4, true)] {
        let made = checkpoints(times, late);
        let verdict = judge(&made);
        assert!(verdict.findings[0].culprit.is_none(), "{times}, {late}: {}", to_text(&verdict));
    }
}

#[test]
fn a_thread_that_carries_a_result_from_another_process_is_no_culprit() {
    let mut made = made();
    let result = ("Future.result", "/lib/concurrent/futures/_base.py", 451);
    let wait = ("Condition.wait", "/lib/threading.py", 327);
    let page = stack(&mut made, &[("print_page", APP, 7), result, wait]);
    let manager = ("_ExecutorManagerThread.run", "/lib/concurrent/futures/process.py", 346);
    let carries = stack(&mut made, &[manager, ("wait", "/lib/multiprocessing/connection.py", 947)]);
    made.requests.push(made::request(99, OWN, BEGIN, 400));
    off(&mut made, OWN, &[(1, 399)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (5..399).step_by(10), Futex, page);
    off(&mut made, OTHER, &[(0, 398), (401, 9000)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (5..398).step_by(10), Poll, carries);
    // A worker of the server's own executor: it serves requests.
    let worker = ("_worker", "/lib/concurrent/futures/thread.py", 81);
    let serves = stack(&mut made, &[worker]);
    made.requests.push(made::request(98, THIRD, BEGIN - 2000 * MS, 3));
    also_seen(&mut made, THIRD, (5..398).step_by(100), Futex, serves);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.target().as_deref(), Some("a pool of processes"), "{}", to_text(&verdict));
    assert!(first.culprit.is_none(), "{}", to_text(&verdict));
}

#[test]
fn a_worker_that_did_others_work_kept_what_was_handed_to_it_though_it_was_only_seen_idle() {
    let mut made = made();
    let worker = ("_worker", "/lib/concurrent/futures/thread.py", 81);
    let idle = stack(&mut made, &[worker]);
    made.requests.push(made::request(99, OWN, BEGIN, 400));
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    off(&mut made, OWN, &[(1, 399)]);
    let poll = stack(&mut made, &LOOP[..3]);
    seen(&mut made, OWN, &[(5, Poll, poll), (395, Poll, poll)]);
    off(&mut made, OTHER, &[(0, 20), (21, 190), (191, 300), (305, 9000)]);
    seen(&mut made, OTHER, &[(3, Futex, idle), (15, Futex, idle)]);
    let task = |request, queued, begin, end| TaskRow {
        request,
        tid: OTHER,
        queued_ns: BEGIN + queued * MS,
        begin_ns: BEGIN + begin * MS,
        end_ns: BEGIN + end * MS,
    };
    made.tasks = vec![task(97, 0, 20, 190), task(98, 0, 190, 300), task(99, 1, 301, 305)];
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "pool-wait", "{}", to_text(&verdict));
    // One that had nothing to do kept nothing waiting.
    made.tasks.drain(..2);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "unknown", "{}", to_text(&verdict));
}

#[test]
fn a_program_that_loads_before_and_behind_a_time_nobody_looked_at_loads_all_the_while() {
    let mut made = made();
    made.meta.pid = OTHER;
    made.requests.push(made::request(99, OWN, BEGIN, 300));
    made.requests.last_mut().expect("the slow one").started_ns = BEGIN + 290 * MS;
    off(&mut made, OWN, &[]);
    seen(&mut made, OWN, &[(292, Running, 0)]);
    let top = ("<module>", "/srv/bin/gunicorn", 8);
    let loads = ("_find_and_load", "<frozen importlib._bootstrap>", 1176);
    let loading = stack(&mut made, &[top, loads, ("<module>", "/lib/site-packages/orm/a.py", 3)]);
    off(&mut made, OTHER, &[(285, 9000)]);
    // Runs end now and then; there is no sample between 60 and 270 ms.
    also_off(&mut made, OTHER, true, &[(100, 101), (150, 151), (190, 191)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (2..60).step_by(10), Running, loading);
    also_seen(&mut made, OTHER, (270..285).step_by(10), Running, loading);
    for rows in made.off_cpu.values_mut() {
        rows.sort_by_key(|o| o.out_ns);
    }
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "import", "{}", to_text(&verdict));
    assert!(first.share > 0.8, "{}", to_text(&verdict));
    // Without a sample behind it nothing says that it did.
    made.samples.get_mut(&OTHER).expect("seen").retain(|look| look.t_ns < BEGIN + 60 * MS);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "unknown", "{}", to_text(&verdict));
}
