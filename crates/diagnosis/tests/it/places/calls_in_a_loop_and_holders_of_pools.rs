//! On captures made by hand: calls that one line makes again and again are counted from what was
//! recorded, and reported at that line; the holder of a pool's item is reported as it was known.

use capture::read::{Capture, GcRow};
use diagnosis::{diagnose, Confidence};
use format::record::{flag, Await, Sample};
use format::wait::{AwaitKind, WaitKind};
use made::{code, node, off_row, request, span, BEGIN, MS};
use report::to_text;

use crate::made;

const TID: u32 = 7;

const NAMES: [&str; 11] = [
    "GET /",
    "orders",
    "Cursor.execute",
    "Client.getconn",
    "wait",
    "/srv/orders.py",
    "/site/db/cursor.py",
    "/site/db/pool.py",
    "/lib/threading.py",
    "db.query",
    "join",
];
/// Stacks, by id.
const ORDERS: u32 = 1;
const EXECUTE: u32 = 2;
const IN_POOL: u32 = 4;
const LEDGER: u32 = 5;
const JOINING: u32 = 6;

fn sample(t_ns: u64, wait: WaitKind, stack: u32) -> Sample {
    made::sample(TID, t_ns, wait, stack)
}

/// Fifty requests of 2 ms and one of 500 ms.
fn capture(on_loop: bool) -> Capture {
    let mut made = made::capture(TID, &NAMES);
    made.meta.site = vec!["/site".to_owned()];
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.codes = vec![code(1, 5), code(2, 6), code(3, 7), code(4, 8), code(10, 8)];
    made.stacks = vec![
        node(0, 1, 40),
        node(ORDERS, 2, 12),
        node(ORDERS, 3, 30),
        node(3, 4, 320),
        node(0, 1, 77),
        node(ORDERS, 5, 1112),
    ];
    made.requests.push(request(99, TID, BEGIN, 500));
    made.requests.iter_mut().for_each(|request| request.on_loop = on_loop);
    made
}

/// The slow request waits 4 of every 5 ms, for `wait` in `execute`, and computes between.
fn many_short_waits(wait: WaitKind) -> Capture {
    let mut made = capture(false);
    let out = |i: u64| off_row(i * 5 + 1, i * 5 + 5, false);
    made.off_cpu.insert(TID, (0..100).map(out).collect());
    let seen = (0..100).flat_map(|i| {
        let ran = sample(BEGIN + i * 5 * MS + MS / 2, WaitKind::Running, EXECUTE);
        [ran, sample(BEGIN + (i * 5 + 3) * MS, wait, EXECUTE)]
    });
    made.samples.insert(TID, seen.collect());
    made
}

fn spans(made: &mut Capture, times: u64, each_ms: u64) {
    let span = |request, begin_ns| span(9, TID, request, begin_ns, each_ms);
    made.spans = (1..51).map(|i| span(i, i * 1000 * MS)).collect();
    made.spans.extend((0..times).map(|i| span(99, BEGIN + i * 5 * MS)));
}

#[test]
fn spans_count_the_calls_of_the_line_that_loops() {
    let mut made = many_short_waits(WaitKind::SocketRead);
    spans(&mut made, 100, 5);
    let verdict = diagnose(&made, |_| 300 * MS);
    let finding = &verdict.findings[0];
    assert_eq!(finding.cause.text(), "downstream-wait");
    let wanted =
        "orders.py:40 orders() waited 400 ms for a peer: 100 calls of execute(), one after \
                  the other (spans db.query)";
    assert_eq!(finding.summary, wanted);
    let reported = |what: &str| finding.evidence.iter().find(|e| e.what == what).map(|e| e.value);
    assert_eq!(reported("calls of execute() in a slow request, by spans db.query"), Some(100.0));
    assert_eq!(reported("the same in a normal request"), Some(1.0));
}

#[test]
fn without_spans_only_the_waits_are_counted() {
    let made = many_short_waits(WaitKind::SocketRead);
    let verdict = diagnose(&made, |_| 300 * MS);
    let wanted = "orders.py:40 orders() waited 400 ms for a peer: calls of execute() that waited \
                  100 times, one after the other";
    assert_eq!(verdict.findings[0].summary, wanted);
    // What it computed between the waits is reported at the same line, not in the library.
    assert_eq!(verdict.findings[1].cause.text(), "cpu");
    let place = verdict.findings[1].place.as_ref().expect("a place");
    assert_eq!(place.short(), "orders.py:40 orders()");
}

#[test]
fn without_switch_records_the_kernels_count_of_turns_says_how_often_it_waited() {
    let reported = |slices: u16| {
        let mut made = capture(false);
        made.meta.sources = vec![("switches".to_owned(), "off".to_owned())];
        let samples = (0..50).map(|i| Sample {
            slices,
            ..sample(BEGIN + i * 10 * MS, WaitKind::SocketRead, EXECUTE)
        });
        made.samples.insert(TID, samples.collect());
        let verdict = diagnose(&made, |_| 300 * MS);
        assert_eq!(verdict.findings[0].cause.text(), "downstream-wait", "{}", to_text(&verdict));
        verdict.findings[0].summary.clone()
    };
    let wanted = "calls of execute() that waited up to 98 times, one after the other";
    assert!(reported(2).ends_with(wanted), "{}", reported(2));
    // One long wait.
    assert!(!reported(0).contains("calls"), "{}", reported(0));
}

/// As above, on a machine with too few CPUs: every second sample finds the thread runnable.
#[test]
fn turns_beside_a_cpu_shortage_count_without_those_that_a_lost_cpu_takes() {
    let reported = |cpu_ms: u64| {
        let mut made = capture(false);
        made.meta.sources = vec![("switches".to_owned(), "off".to_owned())];
        let samples = (0..50u64).map(|i| Sample {
            slices: 6,
            flags: flag::TIMES,
            wall_ns: 10 * MS,
            cpu_ns: cpu_ms * MS,
            ..sample(
                BEGIN + i * 10 * MS,
                if i % 2 == 0 { WaitKind::SocketRead } else { WaitKind::Running },
                EXECUTE,
            )
        });
        made.samples.insert(TID, samples.collect());
        let verdict = diagnose(&made, |_| 300 * MS);
        let found = verdict.findings.iter().find(|f| f.cause.text() == "downstream-wait");
        found.expect("a wait for the peer").summary.clone()
    };
    let wanted = "calls of execute() that waited up to 235 times, one after the other";
    assert!(reported(1).contains(wanted), "{}", reported(1));
    // It computed, and lost its CPU as often.
    assert!(!reported(6).contains("calls of"), "{}", reported(6));
}

#[test]
fn few_calls_or_spans_of_little_time_are_no_loop() {
    let mut made = many_short_waits(WaitKind::FileRead);
    spans(&mut made, 9, 5);
    let summary = |made: &Capture| diagnose(made, |_| 300 * MS).findings[0].summary.clone();
    assert!(!summary(&made).contains("calls"), "{}", summary(&made));
    spans(&mut made, 100, 1);
    assert!(!summary(&made).contains("calls"), "{}", summary(&made));
}

#[test]
fn a_pool_of_a_library_whose_holder_nobody_saw_is_likely_at_most() {
    let mut made = capture(false);
    made.off_cpu.insert(TID, vec![off_row(1, 499, false)]);
    let seen = (1..49).map(|i| sample(BEGIN + i * 10 * MS, WaitKind::Futex, IN_POOL));
    made.samples.insert(TID, seen.collect());
    let verdict = diagnose(&made, |_| 300 * MS);
    let finding = &verdict.findings[0];
    assert_eq!(finding.cause.text(), "pool-wait");
    assert_eq!(finding.confidence, Confidence::Likely);
    assert!(finding.summary.starts_with("orders.py:40 orders() waited"), "{}", finding.summary);
    assert!(finding.summary.ends_with("what kept it busy is not known"), "{}", finding.summary);
}

fn look(ms: u64, request: u64, kind: AwaitKind, stack: u32) -> Await {
    made::awaited(ms, request, request, kind, stack)
}

#[test]
fn another_requests_task_that_awaited_the_while_most_likely_had_the_lock() {
    let mut made = capture(true);
    made.off_cpu.insert(TID, vec![off_row(0, 500, false)]);
    let polls = (0..10).map(|i| sample(BEGIN + i * 50 * MS, WaitKind::Poll, 0));
    made.samples.insert(TID, polls.collect());
    let waits = (1..10).map(|i| look(i * 50, 99, AwaitKind::Lock, ORDERS));
    made.awaits.insert(99, waits.collect());
    let unknown = diagnose(&made, |_| 300 * MS);
    assert!(unknown.findings[0].summary.ends_with("the holder is not known"));
    let sleeps = (1..10).map(|i| look(i * 50 + 5, 98, AwaitKind::Sleep, LEDGER));
    made.awaits.insert(98, sleeps.collect());
    let verdict = diagnose(&made, |_| 300 * MS);
    let finding = &verdict.findings[0];
    let wanted = "a lock, most likely held by orders.py:77 orders() in another task, which slept";
    assert!(finding.summary.ends_with(wanted), "{}", finding.summary);
    assert_eq!(finding.confidence, Confidence::Likely);
    // One that was seen for a part of it only is not named.
    made.awaits.insert(98, vec![look(205, 98, AwaitKind::Sleep, LEDGER)]);
    let verdict = diagnose(&made, |_| 300 * MS);
    assert!(verdict.findings[0].summary.ends_with("the holder is not known"));
}

#[test]
fn a_collection_without_a_cpu_is_not_the_collectors() {
    let mut made = capture(false);
    made.off_cpu.insert(TID, vec![off_row(50, 490, true)]);
    let seen = (1..49).map(|i| sample(BEGIN + i * 10 * MS, WaitKind::Running, ORDERS));
    made.samples.insert(TID, seen.collect());
    made.gcs = vec![GcRow {
        tid: TID,
        generation: 2,
        begin_ns: BEGIN,
        end_ns: BEGIN + 500 * MS,
        collected: 0,
    }];
    let verdict = diagnose(&made, |_| 300 * MS);
    let reported: Vec<&str> = verdict.findings.iter().map(|f| f.cause.text()).collect();
    assert_eq!(reported, ["cpu-starved", "gc-pause"], "{}", to_text(&verdict));
}

/// Another request, which waits for the GIL `waits_ms` of that, is no reason to blame a thread.
#[test]
fn a_collection_on_the_requests_own_thread_is_no_other_threads() {
    let reported = |waits_ms: u64| {
        let mut made = capture(false);
        let collects = (1..49).map(|i| sample(BEGIN + i * 10 * MS, WaitKind::Running, ORDERS));
        made.samples.insert(TID, collects.collect());
        made.requests.push(request(98, TID + 2, BEGIN + 100 * MS, waits_ms + 50));
        made.off_cpu.insert(TID + 2, vec![off_row(100, 100 + waits_ms, false)]);
        let waits = (0..waits_ms / 10).map(|i| Sample {
            tid: TID + 2,
            ..sample(BEGIN + (101 + i * 10) * MS, WaitKind::Gil, ORDERS)
        });
        made.samples.insert(TID + 2, waits.collect());
        let (begin_ns, end_ns) = (BEGIN + 100 * MS, BEGIN + 400 * MS);
        made.gcs = vec![GcRow { tid: TID, generation: 2, begin_ns, end_ns, collected: 0 }];
        let verdict = diagnose(&made, |_| 60 * MS);
        let found = verdict.findings.iter().find(|f| f.cause.text() == "gc-pause");
        found.map_or_else(|| to_text(&verdict), |found| found.summary.clone())
    };
    let own = reported(100);
    assert!(own.starts_with("the garbage collector ran for"), "{own}");
    assert!(!own.contains("kept the GIL"), "{own}");
}

#[test]
fn a_request_that_lay_in_its_socket_while_a_collection_got_no_cpu_waited_for_a_cpu() {
    let reported = |starved: bool| {
        let mut made = capture(false);
        let slow = made.requests.iter_mut().find(|r| r.begin_ns == BEGIN).expect("the slow one");
        slow.started_ns = BEGIN + 490 * MS;
        let off = off_row(50, 440, true);
        made.off_cpu.insert(TID + 1, if starved { vec![off] } else { Vec::new() });
        let seen = (0..50).map(|i| Sample {
            tid: TID + 1,
            ..sample(BEGIN + i * 10 * MS, WaitKind::Running, ORDERS)
        });
        made.samples.insert(TID + 1, seen.collect());
        let (begin_ns, end_ns) = (BEGIN, BEGIN + 490 * MS);
        made.gcs = vec![GcRow { tid: TID + 1, generation: 2, begin_ns, end_ns, collected: 0 }];
        diagnose(&made, |_| 300 * MS).findings[0].cause.text()
    };
    assert_eq!(reported(true), "cpu-starved");
    assert_eq!(reported(false), "gc-pause");
}

#[test]
fn the_end_of_a_thread_that_nobody_saw_is_no_lock() {
    let mut made = capture(false);
    made.off_cpu.insert(TID, vec![off_row(1, 499, false)]);
    let seen = (1..49).map(|i| sample(BEGIN + i * 10 * MS, WaitKind::Futex, JOINING));
    made.samples.insert(TID, seen.collect());
    let verdict = diagnose(&made, |_| 300 * MS);
    let finding = &verdict.findings[0];
    assert_eq!((finding.cause.text(), finding.confidence), ("unknown", Confidence::Possible));
    assert!(finding.summary.ends_with("passed in orders.py:40 orders()"), "{}", finding.summary);
}

/// A thread without a request that waits for a peer in code of this file, called by the program.
fn one_talks_in(file: &str) -> Option<String> {
    let mut made = made::capture(TID, &NAMES[..1]);
    (made.meta.site, made.meta.stdlib) = (vec!["/site".to_owned()], vec!["/lib".to_owned()]);
    made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())];
    made.requests.push(request(99, TID, BEGIN, 500));
    let pool = [("view", "/srv/app.py", 4), ("Pool.get_connection", "/site/db/pool.py", 9)];
    let pool = made::stack(
        &mut made,
        &[&pool[..], &[("Condition.wait", "/lib/threading.py", 300)]].concat(),
    );
    let talks = made::stack(&mut made, &[("consume", "/srv/jobs.py", 7), ("read", file, 30)]);
    made::also_seen(&mut made, TID, (5..495).step_by(10), WaitKind::Futex, pool);
    made::also_seen(&mut made, 9, (0..900).step_by(50), WaitKind::SocketRead, talks);
    let verdict = diagnose(&made, |_| 300 * MS);
    assert_eq!(verdict.findings[0].cause.text(), "pool-wait", "{}", to_text(&verdict));
    verdict.findings[0].culprit.as_ref().map(|p| p.function.clone())
}

#[test]
fn a_thread_that_talks_to_a_peer_inside_of_a_pools_library_has_one_of_its_connections() {
    assert_eq!(one_talks_in("/site/db/socket.py").as_deref(), Some("consume"));
    assert_eq!(one_talks_in("/site/http/socket.py"), None, "another library's connection");
}
