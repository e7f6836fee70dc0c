//! On captures made by hand: a suspended request that waits for a queue, a future or a library's
//! pool is reported with the task that is to end its wait, also one that works for no request;
//! nothing is known of a thread before its first record; the program's predicate is reported as the
//! recorder's time; and a name that is never normal is said to be.

use crate::divided::divided;
use crate::made;

use capture::read::{Capture, OffCpu, RequestRow};
use diagnosis::{diagnose, Confidence, Finding};
use format::record::{Await, Sample, TARGET_IS_NAME};
use format::wait::{AwaitKind, HolderSource, WaitKind};
use made::{awaited, code, node, BEGIN, MS};

const TID: u32 = 7;
const SLOW: u64 = 99;
const FELLOW: u64 = 98;
/// Addresses of tasks.
const READER: u64 = 4096;
const SWEEPER: u64 = 8192;

const NAMES: [&str; 15] = [
    "GET /",
    "submit",
    "store",
    "poll",
    "Client.execute",
    "Pool.get_connection",
    "Connection.read",
    "Queue.put",
    "tcp 127.0.0.1:6379",
    "/srv/app.py",
    "/srv/jobs.py",
    "/site/store/client.py",
    "/site/store/connection.py",
    "/lib/asyncio/queues.py",
    "/site/other/client.py",
];
const PEER: u64 = TARGET_IS_NAME | 8;
/// Stacks, by id.
const SUBMIT: u32 = 1;
const STORE: u32 = 2;
const PUT: u32 = 3;
const IN_POOL: u32 = 5;
const POLLS: u32 = 8;
const ELSEWHERE: u32 = 10;

/// Fifty requests of 2 ms and one of 500 ms, on a loop that has nothing to do.
fn capture() -> Capture {
    let mut made = made::capture(TID, &NAMES);
    made.meta.site = vec!["/site".to_owned()];
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.codes = vec![
        code(1, 9),
        code(2, 10),
        code(7, 13),
        code(4, 11),
        code(5, 12),
        code(3, 10),
        code(6, 12),
        code(4, 14),
    ];
    made.stacks = vec![
        node(0, 1, 40),
        node(0, 2, 12),
        node(SUBMIT, 3, 130),
        node(SUBMIT, 4, 50),
        node(4, 5, 60),
        node(0, 6, 20),
        node(6, 4, 50),
        node(7, 7, 70),
        node(0, 6, 30),
        node(9, 8, 70),
    ];
    made.requests.push(made::request(SLOW, TID, BEGIN, 500));
    made.requests.iter_mut().for_each(|row| row.on_loop = true);
    made::off(&mut made, TID, &[(0, 500)]);
    made::also_seen(&mut made, TID, (0..500).step_by(50), WaitKind::Poll, 0);
    made
}

fn sample(t_ns: u64, wait: WaitKind) -> Sample {
    made::sample(TID, t_ns, wait, 0)
}

/// Samples of a task all through the slow request.
fn samples(request: u64, task: u64, kind: AwaitKind, stack: u32, target: u64) -> Vec<Await> {
    let look = |i: u64| Await { target, ..awaited(i * 50, request, task, kind, stack) };
    (1..10).map(look).collect()
}

fn refer(mut rows: Vec<Await>, holder: u64) -> Vec<Await> {
    rows.iter_mut().for_each(|row| (row.how, row.holder) = (HolderSource::Refers, holder));
    rows
}

fn first(made: &Capture) -> Finding {
    diagnose(made, |_| 300 * MS).findings[0].clone()
}

#[test]
fn the_reader_of_a_full_queue_is_named_as_an_inference() {
    let mut made = capture();
    made.awaits.insert(SLOW, samples(SLOW, SLOW, AwaitKind::Queue, PUT, 0));
    let wanted = "app.py:40 submit() waited 500 ms for room in a full queue";
    assert_eq!(first(&made).summary, format!("{wanted}; what kept its reader is not known"));
    made.awaits.insert(SLOW, refer(samples(SLOW, SLOW, AwaitKind::Queue, PUT, 0), READER));
    made.awaits.insert(0, samples(0, READER, AwaitKind::Socket, STORE, PEER));
    let finding = first(&made);
    assert_eq!(finding.cause.text(), "pool-wait");
    assert_eq!(finding.confidence, Confidence::Likely);
    let because = "most likely because jobs.py:12 store() kept its reader";
    assert_eq!(finding.summary, format!("{wanted}, {because}"));
}

#[test]
fn an_empty_queue_is_no_pool_and_its_writer_made_it_wait() {
    let mut made = capture();
    made.codes.push(made::code(made.names.len() as u32, 13));
    made.names.push("Queue.get".to_owned());
    made.stacks.push(node(SUBMIT, made.codes.len() as u32, 158));
    let get = made.stacks.len() as u32;
    made.awaits.insert(SLOW, samples(SLOW, SLOW, AwaitKind::Queue, get, 0));
    let wanted = "app.py:40 submit() waited 500 ms for an item of a queue";
    let nobody = "none was put in meanwhile, and the thread that was to is not known";
    assert_eq!(first(&made).summary, format!("{wanted}; {nobody}"));
    made.awaits.insert(SLOW, refer(samples(SLOW, SLOW, AwaitKind::Queue, get, 0), READER));
    made.awaits.insert(0, samples(0, READER, AwaitKind::Socket, STORE, PEER));
    let finding = first(&made);
    let why = "most likely jobs.py:12 store() made it wait, which waited for a peer";
    assert_eq!(finding.summary, format!("{wanted}; {why}"));
    assert!(finding.advice.contains("puts items into the queue"), "{}", finding.advice);
}

#[test]
fn a_task_of_nobodys_that_waits_for_a_peer_most_likely_kept_the_queue_from_being_read() {
    let mut made = capture();
    made.awaits.insert(SLOW, samples(SLOW, SLOW, AwaitKind::Queue, PUT, 0));
    made.awaits.insert(0, samples(0, READER, AwaitKind::Socket, STORE, PEER));
    let finding = first(&made);
    let because = "most likely because jobs.py:12 store() kept its reader";
    assert!(finding.summary.ends_with(because), "{}", finding.summary);
    assert_eq!(finding.confidence, Confidence::Likely);
    // Either of two may be the reader; and a task that only pauses is none.
    let both = samples(0, SWEEPER, AwaitKind::Socket, POLLS, PEER);
    made.awaits.get_mut(&0).expect("looks").extend(both);
    made.awaits.get_mut(&0).expect("looks").sort_by_key(|row| row.t_ns);
    assert!(first(&made).summary.ends_with("what kept its reader is not known"));
    made.awaits.insert(0, samples(0, READER, AwaitKind::Sleep, STORE, 0));
    assert!(first(&made).summary.ends_with("what kept its reader is not known"));
}

#[test]
fn a_task_of_nobodys_in_the_same_file_most_likely_is_to_fulfil_a_future() {
    let mut made = capture();
    made.awaits.insert(SLOW, samples(SLOW, SLOW, AwaitKind::Future, SUBMIT, 0));
    assert_eq!(first(&made).cause.text(), "unknown");
    // In another file there is a task that waits for a future of its own: nothing says that they
    // know each other.
    made.awaits.insert(0, samples(0, READER, AwaitKind::Future, POLLS, 0));
    assert_eq!(first(&made).cause.text(), "unknown");
    let carry = made.codes.len() as u32 + 1;
    made.codes.push(code(3, 9));
    made.stacks.push(node(0, carry, 77));
    let carry = made.stacks.len() as u32;
    made.awaits.insert(0, samples(0, READER, AwaitKind::Future, carry, 0));
    let finding = first(&made);
    assert_eq!((finding.cause.text(), finding.confidence), ("pool-wait", Confidence::Likely));
    let wanted = "most likely app.py:77 poll() made it wait";
    assert!(finding.summary.contains(wanted), "{}", finding.summary);
    made.awaits.insert(0, samples(0, READER, AwaitKind::Sleep, carry, 0));
    assert_eq!(first(&made).cause.text(), "unknown");
}

#[test]
fn those_behind_the_head_of_a_line_wait_for_who_works_for_the_head() {
    let mut made = capture();
    // Its own future lies in the queue still: nobody has it in hand.
    made.awaits.insert(SLOW, samples(SLOW, SLOW, AwaitKind::Future, SUBMIT, 0));
    assert_eq!(first(&made).cause.text(), "unknown");
    made.awaits
        .insert(FELLOW, refer(samples(FELLOW, FELLOW, AwaitKind::Future, SUBMIT, 0), READER));
    made.awaits.insert(0, samples(0, READER, AwaitKind::Sleep, STORE, 0));
    let finding = first(&made);
    assert_eq!(finding.cause.text(), "pool-wait");
    let wanted =
        "app.py:40 submit() waited 500 ms for a result; most likely jobs.py:12 store() made \
                  it wait, which slept";
    assert_eq!(finding.summary, wanted);
    assert_eq!(finding.confidence, Confidence::Likely);
}

#[test]
fn a_background_task_in_the_same_library_most_likely_has_what_its_pool_lacks() {
    let mut made = capture();
    made.awaits.insert(SLOW, samples(SLOW, SLOW, AwaitKind::Condition, IN_POOL, 0));
    let unknown = first(&made);
    assert_eq!(unknown.cause.text(), "pool-wait");
    assert!(unknown.summary.ends_with("what kept it busy is not known"), "{}", unknown.summary);
    made.awaits.insert(0, samples(0, SWEEPER, AwaitKind::Socket, POLLS, PEER));
    let finding = first(&made);
    let wanted = "app.py:40 submit() waited 500 ms for a pool that was most likely taken up by \
                  jobs.py:20 poll(), which waited for a peer";
    assert_eq!(finding.summary, wanted);
    // One that pauses between its rounds is idle, wherever it does.
    made.awaits.insert(0, samples(0, SWEEPER, AwaitKind::Sleep, POLLS, 0));
    assert!(first(&made).summary.ends_with("what kept it busy is not known"));
    // One that waits in another library has nothing of this one's.
    made.awaits.insert(0, samples(0, SWEEPER, AwaitKind::Socket, ELSEWHERE, PEER));
    assert!(first(&made).summary.ends_with("what kept it busy is not known"));
}

#[test]
fn a_thread_that_was_not_there_yet_did_not_run() {
    let mut made = capture();
    made.requests.iter_mut().for_each(|row| row.on_loop = false);
    let (found_ns, end_ns) = (BEGIN + 400 * MS, BEGIN + 490 * MS);
    made.off_cpu
        .insert(TID, vec![OffCpu { out_ns: found_ns, in_ns: end_ns, preempted: false, cpu: None }]);
    made.samples.insert(TID, vec![sample(found_ns + 20 * MS, WaitKind::Sleep)]);
    let reported = divided(&made, SLOW);
    let known: Vec<_> = reported.iter().map(|(from, to, c)| ((to - from) / MS, c.text())).collect();
    assert_eq!(known, [(300, "unknown"), (100, "cpu"), (90, "sleep"), (10, "cpu")]);
}

#[test]
fn time_in_the_programs_predicate_is_the_recorders() {
    let mut made = capture();
    made.requests.iter_mut().for_each(|row| row.on_loop = false);
    // The request lay in its socket, for 400 ms of it while its thread slept in the predicate.
    let slow = made.requests.last_mut().expect("a slow request");
    slow.started_ns = BEGIN + 400 * MS;
    let off = OffCpu { out_ns: BEGIN - MS, in_ns: BEGIN + 400 * MS, preempted: false, cpu: None };
    made.off_cpu.insert(TID, vec![off]);
    let seen = |i: u64| Sample { stack: STORE, ..sample(BEGIN + i * 50 * MS, WaitKind::Sleep) };
    made.samples.insert(TID, (0..8).map(seen).collect());
    assert_eq!(first(&made).cause.text(), "sleep");
    made.names.push(format::own_span::PREDICATE.to_owned());
    let predicate = made::span(NAMES.len() as u32, TID, 0, BEGIN - MS, 401);
    made.own_spans.push(predicate);
    let finding = first(&made);
    assert_eq!(finding.cause.text(), "recorder");
    let wanted =
        "jobs.py:12 store(), in the predicate of when= that dashcam asks at each request's \
                  end, took 400 ms";
    assert_eq!(finding.summary, wanted);
    assert!(finding.advice.starts_with("Let the predicate compare"), "{}", finding.advice);
}

#[test]
fn a_name_without_a_normal_request_is_said_to_be_slow_always() {
    let mut made = capture();
    made.awaits.insert(SLOW, samples(SLOW, SLOW, AwaitKind::Sleep, SUBMIT, 0));
    assert!(!first(&made).missing.iter().any(|m| m.starts_with("every GET /")));
    made.names.push("GET /export".to_owned());
    let template = made.requests.pop().expect("a slow request");
    for i in 0..6 {
        let (id, begin_ns) = (200 + i, BEGIN + i * 1000 * MS);
        let end_ns = Some(begin_ns + 500 * MS);
        let (name, started_ns) = (NAMES.len() as u32, begin_ns);
        made.requests.push(RequestRow {
            id,
            name,
            begin_ns,
            started_ns,
            end_ns,
            ..template.clone()
        });
        let rows = samples(id, id, AwaitKind::Sleep, SUBMIT, 0).into_iter();
        let rows = rows.map(|row| Await { t_ns: row.t_ns + i * 1000 * MS, ..row });
        made.awaits.insert(id, rows.collect());
    }
    let finding = first(&made);
    let said = "every GET /export was over the limit";
    assert!(finding.missing.iter().any(|m| m.starts_with(said)), "{:?}", finding.missing);
}

#[test]
fn a_loop_whose_long_wait_nobody_saw_was_not_kept_by_unknown_code() {
    let mut made = capture();
    // The last sample of its thread was in a callback, shortly before the wait.
    let ran = Sample { stack: STORE, ..sample(BEGIN - 5 * MS, WaitKind::Running) };
    for seen in [vec![], vec![ran]] {
        made.samples.insert(TID, seen);
        made.awaits.insert(SLOW, refer(samples(SLOW, SLOW, AwaitKind::Queue, PUT, 0), READER));
        made.awaits.insert(0, samples(0, READER, AwaitKind::Socket, STORE, PEER));
        assert_eq!(first(&made).cause.text(), "pool-wait");
    }
}
