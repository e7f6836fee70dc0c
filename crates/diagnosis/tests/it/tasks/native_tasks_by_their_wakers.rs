//! On captures made by hand: what the task of a native runtime awaits, and who ended that, by the
//! stacks it waits with and the stack of its waker.

use capture::read::Capture;
use diagnosis::{diagnose, Confidence, Finding};
use format::record::Await;
use format::suspension::Suspension;
use format::wait::{AwaitKind, HolderSource, WaitKind};
use made::{awaited, BEGIN, MS};
use report::to_text;

use crate::made;

const WORKER: u32 = 7;
const BLOCKING: u32 = 9;
const SLOW: [u64; 2] = [900, 901];
/// Numbers of wakers.
const WAKER: u64 = 1 << 63;

fn package(path: &str) -> String {
    format!("/h/.cargo/registry/src/index-1/{path}")
}

fn stack(made: &mut Capture, frames: &[(&str, &str, u32)]) -> u32 {
    made::stack(made, frames)
}

/// Two requests of 500 ms whose tasks wait from 3 to 498 ms in `code` of `file`, below handler().
fn capture(code: &str, file: &str) -> (Capture, u32) {
    let mut made = made::capture(WORKER, &["GET /"]);
    made.meta.stdlib.clear();
    made.requests.extend(SLOW.iter().map(|id| made::request(*id, WORKER, BEGIN, 500)));
    made.requests.iter_mut().for_each(|row| row.on_loop = true);
    made::off(&mut made, WORKER, &[(1, 499)]);
    let parked = package("tokio-1.54.1/src/runtime/park.rs");
    let parked = stack(&mut made, &[("park", &parked, 3)]);
    made::also_seen(&mut made, WORKER, (10..490).step_by(50), WaitKind::Futex, parked);
    let file = package(file);
    let waits = [("handler::{async_fn#0}", "/srv/shop/main.rs", 20), (code, &file, 40)];
    let waits = stack(&mut made, &waits);
    for id in SLOW {
        let sample = |at: u64| awaited(at, id, 4096 * id, AwaitKind::Native, waits);
        made.awaits.insert(id, [50, 250, 450].map(sample).to_vec());
        let (out_ns, in_ns) = (BEGIN + 3 * MS, BEGIN + 498 * MS);
        made.suspensions.insert(id, vec![Suspension { out_ns, in_ns, request: id }]);
    }
    (made, waits)
}

/// The thread `tid`, at work for `request` (0: none), woke the task of `id` at 497 ms.
fn woken(made: &mut Capture, id: u64, (tid, request, by): (u32, u64, u32)) {
    let number = WAKER | id;
    let last = made.awaits.get(&id).and_then(|rows| rows.last()).copied().expect("samples");
    let at = BEGIN + 497 * MS - id * 1000;
    let row = Await { t_ns: at, how: HolderSource::Woke, holder: number, ..last };
    made.awaits.entry(id).or_default().push(row);
    let (kind, target) = (AwaitKind::Running, u64::from(tid));
    let row = Await { request: 0, task: number, stack: by, kind, holder: request, target, ..row };
    made.awaits.entry(0).or_default().insert(0, row);
}

fn judged(made: &mut Capture) -> (Finding, String) {
    made.settle_awaits();
    let verdict = diagnose(made, |_| 300 * MS);
    let text = to_text(&verdict);
    (verdict.findings.into_iter().next().expect("a finding"), text)
}

fn place_and_culprit(found: &Finding) -> (Option<&str>, Option<&str>) {
    let name = |p: &Option<analysis::frames::Place>| p.as_ref().map(|p| p.function.clone());
    let leak = |name: Option<String>| name.map(|n| &*n.leak());
    (leak(name(&found.place)), leak(name(&found.culprit)))
}

#[test]
fn what_a_task_awaits_is_said_by_the_code_that_it_waits_in() {
    let cases = [
        ("lock", "tokio-1.54.1/src/sync/mutex.rs", "lock-wait"),
        ("acquire", "tokio-1.54.1/src/sync/semaphore.rs", "pool-wait"),
        ("poll", "tokio-1.54.1/src/time/sleep.rs", "sleep"),
        ("poll", "hyper-util-0.1.21/src/client/legacy/client.rs", "downstream-wait"),
        ("connect", "tokio-1.54.1/src/net/tcp/stream.rs", "connect"),
        ("poll", "some-crate-1.0.0/src/lib.rs", "unknown"),
    ];
    for (code, file, cause) in cases {
        let (mut made, _) = capture(code, file);
        let (found, text) = judged(&mut made);
        assert_eq!(found.cause.text(), cause, "{file}: {text}");
        assert_eq!(place_and_culprit(&found).0, Some("handler"), "{file}: {text}");
    }
}

#[test]
fn the_code_that_released_a_lock_held_it() {
    let (mut made, _) = capture("lock", "tokio-1.54.1/src/sync/mutex.rs");
    let release = package("tokio-1.54.1/src/sync/batch_semaphore.rs");
    let frames = [("sync::{async_fn#0}", "/srv/shop/main.rs", 31), ("release", &release, 9)];
    let by = stack(&mut made, &frames);
    SLOW.iter().for_each(|id| woken(&mut made, *id, (WORKER, 0, by)));
    let (found, text) = judged(&mut made);
    assert_eq!(found.cause.text(), "lock-wait", "{text}");
    assert_eq!(place_and_culprit(&found), (Some("handler"), Some("sync")), "{text}");
    assert_eq!(found.confidence, Confidence::Likely, "it may have been in line itself: {text}");
}

/// What a task did is not seen; that it was suspended is, by the workers that had nothing to do.
#[test]
fn a_task_that_had_a_lock_while_no_worker_ran_awaited_something() {
    let text = |other_runs: bool| {
        let (mut made, _) = capture("lock", "tokio-1.54.1/src/sync/mutex.rs");
        let by = stack(&mut made, &[("sync::{async_fn#0}", "/srv/shop/main.rs", 31)]);
        SLOW.iter().for_each(|id| woken(&mut made, *id, (WORKER, 0, by)));
        let mut fast = made::request(55, WORKER + 1, BEGIN, 5);
        fast.on_loop = true;
        made.requests.push(fast);
        made.threads.push(made::thread(WORKER + 1, "worker"));
        let until = if other_runs { 499 } else { 6 };
        made::off(&mut made, WORKER + 1, &[(0, 1), (until, 900)]);
        let runs = package("tokio-1.54.1/src/runtime/scheduler/multi_thread/worker.rs");
        let runs = stack(&mut made, &[("run", &runs, 3)]);
        made::also_seen(&mut made, WORKER + 1, (3..5).step_by(5), WaitKind::Running, runs);
        judged(&mut made).1
    };
    let awaited = "sync() in another task, which waited for something that was not seen";
    assert!(text(false).contains(awaited), "{}", text(false));
    let unknown = "sync() in another task, which did something that was not seen";
    assert!(text(true).contains(unknown), "{}", text(true));
}

#[test]
fn a_request_that_released_a_lock_is_known_to_have_had_it() {
    let (mut made, _) = capture("lock", "tokio-1.54.1/src/sync/mutex.rs");
    let by = stack(&mut made, &[("report::{async_fn#0}", "/srv/shop/main.rs", 31)]);
    SLOW.iter().for_each(|id| woken(&mut made, *id, (WORKER, 77, by)));
    let (found, text) = judged(&mut made);
    assert_eq!(place_and_culprit(&found), (Some("handler"), Some("report")), "{text}");
    assert_eq!(found.confidence, Confidence::Confirmed, "{text}");
}

/// What it awaited while it had the lock is what its samples say, without its own turn in the line.
#[test]
fn what_the_request_that_had_a_lock_awaited_meanwhile_is_reported() {
    let (mut made, waits) = capture("lock", "tokio-1.54.1/src/sync/mutex.rs");
    let by = stack(&mut made, &[("report::{async_fn#0}", "/srv/shop/main.rs", 31)]);
    let stream = package("tokio-1.54.1/src/net/tcp/stream.rs");
    let asks = [("report::{async_fn#0}", "/srv/shop/main.rs", 30), ("poll_read", &*stream, 40)];
    let asks = stack(&mut made, &asks);
    let sample = |(at, stack)| awaited(at, 77, 40960, AwaitKind::Native, stack);
    let own =
        [(4, waits), (5, waits), (6, waits), (150, asks), (300, asks), (450, asks), (480, asks)];
    made.awaits.insert(77, own.map(sample).to_vec());
    made.requests.push(made::request(77, WORKER, BEGIN, 497));
    SLOW.iter().for_each(|id| woken(&mut made, *id, (WORKER, 77, by)));
    let (_, text) = judged(&mut made);
    assert!(text.contains("report() in another task, which waited for a peer"), "{text}");
}

/// The second request was woken by the first, which was in front of it.
#[test]
fn behind_the_head_of_a_line_the_heads_waker_is_to_blame() {
    let (mut made, waits) = capture("lock", "tokio-1.54.1/src/sync/mutex.rs");
    let by = stack(&mut made, &[("sync::{async_fn#0}", "/srv/shop/main.rs", 31)]);
    // `woken` gives the request with the higher number the earlier end.
    woken(&mut made, SLOW[1], (WORKER, 0, by));
    woken(&mut made, SLOW[0], (WORKER, SLOW[1], waits));
    made.awaits.get_mut(&0).expect("wakers").sort_by_key(|row| row.t_ns);
    let (found, text) = judged(&mut made);
    assert_eq!(place_and_culprit(&found), (Some("handler"), Some("sync")), "{text}");
    assert!(found.share > 0.95, "{text}");
}

#[test]
fn a_result_is_awaited_from_what_its_thread_did_meanwhile() {
    let (mut made, _) = capture("poll", "tokio-1.54.1/src/runtime/task/join.rs");
    made::off(&mut made, BLOCKING, &[(1, 490)]);
    made.threads.push(made::thread(BLOCKING, "blocking"));
    let export = stack(&mut made, &[("export", "/srv/shop/main.rs", 60)]);
    made::also_seen(&mut made, BLOCKING, (10..490).step_by(20), WaitKind::SocketRead, export);
    let complete = package("tokio-1.54.1/src/runtime/task/harness.rs");
    let by = stack(&mut made, &[("complete", &complete, 9)]);
    SLOW.iter().for_each(|id| woken(&mut made, *id, (BLOCKING, 0, by)));
    let (found, text) = judged(&mut made);
    assert_eq!(found.cause.text(), "pool-wait", "{text}");
    assert_eq!(place_and_culprit(&found), (Some("handler"), Some("export")), "{text}");
}

/// The runtime's thread that did the task's own work came late: others' had its threads.
#[test]
fn work_that_has_the_threads_for_blocking_work_keeps_a_result() {
    let culprit = |began: &str| {
        let (mut made, _) = capture("poll", "tokio-1.54.1/src/runtime/task/join.rs");
        made::off(&mut made, BLOCKING, &[(495, 900)]);
        made.threads.push(made::thread(BLOCKING, "blocking"));
        let export = stack(&mut made, &[("run", began, 3), ("export", "/srv/shop/main.rs", 60)]);
        made::also_seen(&mut made, BLOCKING, (10..490).step_by(20), WaitKind::Running, export);
        let (found, text) = judged(&mut made);
        assert_eq!(found.cause.text(), "pool-wait", "{text}");
        (found.culprit.map(|place| place.function), text)
    };
    let (name, text) = culprit(&package("tokio-1.54.1/src/runtime/blocking/pool.rs"));
    assert_eq!(name.as_deref(), Some("export"), "{text}");
    assert!(
        text.contains("most likely main.rs:60 export() made it wait, which computed"),
        "{text}"
    );
    // A thread of the program's own has nothing to do with that.
    assert_eq!(culprit("/srv/shop/main.rs").0, None);
}

#[test]
fn a_time_limit_beside_what_it_limits_is_not_what_is_awaited() {
    let (mut made, _) = capture("poll", "hyper-util-0.1.21/src/client/legacy/client.rs");
    let (limit, timer) =
        (package("tokio-1.54.1/src/time/timeout.rs"), package("tokio-1.54.1/src/time/sleep.rs"));
    let frames = [
        ("handler::{async_fn#0}", "/srv/shop/main.rs", 20),
        ("poll", &*limit, 5),
        ("poll", &timer, 6),
    ];
    let sleeps = stack(&mut made, &frames);
    for rows in made.awaits.values_mut() {
        let beside = |row: &Await| [*row, Await { task: row.task + 1, stack: sleeps, ..*row }];
        *rows = rows.iter().flat_map(beside).collect();
    }
    let (found, text) = judged(&mut made);
    assert_eq!(found.cause.text(), "downstream-wait", "{text}");
}

/// Of a thread of which only the system's library was read nothing is known.
#[test]
fn a_waker_without_code_of_its_own_is_not_blamed() {
    let (mut made, _) = capture("poll", "tokio-1.54.1/src/runtime/task/join.rs");
    made.threads.push(made::thread(BLOCKING, "blocking"));
    let call = stack(&mut made, &[("syscall", "/lib/x86_64-linux-gnu/libc.so.6", 0)]);
    made::also_seen(&mut made, BLOCKING, (10..490).step_by(20), WaitKind::Running, call);
    SLOW.iter().for_each(|id| woken(&mut made, *id, (BLOCKING, 0, call)));
    let (found, text) = judged(&mut made);
    assert_eq!(place_and_culprit(&found), (Some("handler"), None), "{text}");
}

/// A writer that waits behind a reader has the lock for a moment; the reader that it waited for had
/// it all the time.
#[test]
fn one_that_waited_for_the_lock_at_another_place_was_in_the_line_too() {
    let file = "tokio-1.54.1/src/sync/rwlock.rs";
    let (mut made, _) = capture("read", file);
    let rwlock = package(file);
    let writes = [("append::{async_fn#0}", "/srv/shop/main.rs", 50), ("write", &*rwlock, 90)];
    let writes = stack(&mut made, &writes);
    for row in made.awaits.get_mut(&SLOW[1]).expect("samples") {
        row.stack = writes;
    }
    let by = stack(&mut made, &[("send::{async_fn#0}", "/srv/shop/main.rs", 31)]);
    // `woken` gives the request with the higher number the earlier end.
    woken(&mut made, SLOW[1], (WORKER, 77, by));
    woken(&mut made, SLOW[0], (WORKER, SLOW[1], writes));
    made.awaits.get_mut(&0).expect("wakers").sort_by_key(|row| row.t_ns);
    made.settle_awaits();
    let verdict = diagnose(&made, |_| 300 * MS);
    let text = to_text(&verdict);
    let found = &verdict.findings[0];
    assert_eq!((found.cause.text(), found.slow_requests), ("lock-wait", 2), "{text}");
    assert_eq!(place_and_culprit(found).1, Some("send"), "{text}");
}
