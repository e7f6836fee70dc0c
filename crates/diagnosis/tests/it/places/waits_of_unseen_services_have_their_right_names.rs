//! On captures made by hand, after services nobody had seen before: which thread is inside of a
//! lock of C code, which one keeps a full queue from being emptied, on whose behalf a culprit
//! works, and what kept a request from being taken up.

use capture::read::{Capture, RequestRow};
use diagnosis::{diagnose, Diagnosis};
use format::record::TARGET_IS_NAME;
use format::wait::{HolderSource, WaitKind};
use made::{also_off, also_seen, code, node, off, seen, stack_on, BEGIN, MS};
use report::to_text;

use crate::made;

const LIB: &str = "/usr/lib/python3.11";

/// Functions of the capture, by the code ids below, and their files.
const CODES: [(&str, &str); 11] = [
    ("<module>", "/srv/app.py"),
    ("view", "/srv/app.py"),
    ("upload", "/srv/app.py"),
    ("nightly", "/srv/app.py"),
    ("ship", "/srv/app.py"),
    ("Condition.wait", "threading.py"),
    ("Queue.put", "queue.py"),
    ("Queue.get", "queue.py"),
    ("Thread.start", "threading.py"),
    ("serve", "/srv/web.py"),
    ("walk", "/srv/app.py"),
];

/// Stack ids: what each stands for, as its name says.
const VIEW: u32 = 2;
const UPLOAD: u32 = 4;
const PUT: u32 = 6;
const GET: u32 = 8;
const SERVE: u32 = 9;
const START: u32 = 10;
const SHIP: u32 = 11;
const MODULE: u32 = 1;
const WALK: u32 = 15;

fn capture() -> Capture {
    let mut made = made::capture(7, &["GET /"]);
    made.meta.stdlib = vec![LIB.to_owned()];
    for (function, file) in CODES {
        let file = if file.starts_with('/') { file.to_owned() } else { format!("{LIB}/{file}") };
        made.names.extend([function.to_owned(), file]);
        let at = made.names.len() as u32;
        made.codes.push(code(at - 2, at - 1));
    }
    made.stacks = vec![
        node(0, 1, 90),     // 1 the module
        node(0, 2, 12),     // 2 view
        node(0, 4, 70),     // 3 nightly
        node(3, 3, 20),     // 4 upload, called by nightly
        node(VIEW, 7, 140), // 5 Queue.put, called by view
        node(5, 6, 320),    // 6 Condition.wait, called by it
        node(VIEW, 8, 170), // 7 Queue.get, called by view
        node(7, 6, 320),    // 8 Condition.wait, called by it
        node(1, 10, 40),    // 9 serve, called by the module
        node(9, 9, 960),    // 10 Thread.start, called by serve
        node(0, 5, 50),     // 11 ship
        node(VIEW, 11, 33), // 12 walk, called by view
        node(12, 11, 33),   // 13 walk, called by itself
        node(13, 11, 33),   // 14 and again
        node(14, 11, 33),   // 15 and again
    ];
    made
}

/// A request that began `waited` ms before thread `tid` took it up.
fn request(id: u64, tid: u32, begin_ns: u64, waited: u64, ms: u64) -> RequestRow {
    let started_ns = begin_ns + waited * MS;
    RequestRow { started_ns, ..made::request(id, tid, begin_ns, ms) }
}

/// Thread 7 serves a request that waits 499 ms in a futex, with this stack.
fn waiting(stack: u32) -> Capture {
    let mut made = capture();
    made.requests.push(request(99, 7, BEGIN, 0, 500));
    off(&mut made, 7, &[(0, 499)]);
    seen(&mut made, 7, &[(50, WaitKind::Futex, stack), (300, WaitKind::Futex, stack)]);
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

/// Thread 9 was in the very line that waits and wrote to a pipe there; thread 8, which shares the
/// waiter's file, only slept, and ran when the wait ended.
fn written_under_a_lock_of_c() -> Capture {
    let mut made = waiting(VIEW);
    off(&mut made, 8, &[(0, 498), (499, 600)]);
    seen(&mut made, 8, &[(100, WaitKind::Sleep, SHIP), (350, WaitKind::Sleep, SHIP)]);
    off(&mut made, 9, &[(0, 498)]);
    seen(&mut made, 9, &[(60, WaitKind::PipeWrite, VIEW), (310, WaitKind::PipeWrite, VIEW)]);
    made
}

#[test]
fn a_thread_that_works_in_the_very_call_that_waits_is_inside_of_the_lock() {
    let made = written_under_a_lock_of_c();
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait");
    let words = "app.py:12 view() waited 499 ms for a lock, most likely held by app.py:12 view() \
                 in another thread, which waited on a pipe";
    assert_eq!(first.summary, words);
    assert_eq!(first.confidence.text(), "likely", "inferred is never confirmed");
}

#[test]
fn of_two_that_work_in_the_call_neither_is_named_for_it() {
    let mut made = written_under_a_lock_of_c();
    off(&mut made, 10, &[(0, 498)]);
    seen(&mut made, 10, &[(60, WaitKind::PipeWrite, VIEW), (310, WaitKind::PipeWrite, VIEW)]);
    let verdict = judge(&made);
    assert!(!verdict.findings[0].summary.contains("held by app.py:12 view()"));
}

/// Thread 7 waits for the lock of a file; what the kernel recorded of it.
fn locked_out(target: &str) -> Capture {
    let mut made = waiting(VIEW);
    made.names.push(target.to_owned());
    let name = made.names.len() as u64 - 1;
    for look in made.samples.get_mut(&7).expect("it was seen") {
        (look.wait, look.target) = (WaitKind::FileLock, TARGET_IS_NAME | name);
    }
    made
}

#[test]
fn the_lock_of_a_file_is_held_by_the_process_that_the_kernel_names() {
    let made = locked_out("/run/x.lock, held by process 4711 (spooler)");
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), first.confidence.text()), ("lock-wait", "confirmed"));
    let words = "app.py:12 view() waited 499 ms for the file lock of /run/x.lock, held by process \
                 4711 (spooler)";
    assert_eq!(first.summary, words);
    let made = locked_out("/run/x.lock");
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.confidence.text(), "likely");
    assert!(first.summary.ends_with("/run/x.lock; the holder is not known"), "{}", first.summary);
}

#[test]
fn a_full_queue_is_a_pool_whose_reader_is_late() {
    let mut made = waiting(PUT);
    off(&mut made, 9, &[(0, 497), (499, 600)]);
    seen(&mut made, 9, &[(60, WaitKind::Sleep, UPLOAD), (310, WaitKind::Sleep, UPLOAD)]);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "pool-wait");
    let words = "app.py:12 view() waited 499 ms for room in a full queue, most likely because \
                 app.py:20 upload() (called by nightly()) kept its reader";
    assert_eq!(first.summary, words);
    assert_eq!(first.target().as_deref(), Some("room in a full queue"));
    assert!(first.advice.contains("reader"), "{}", first.advice);
}

#[test]
fn a_culprit_is_reported_with_its_callers() {
    let mut made = waiting(GET);
    off(&mut made, 9, &[(0, 497), (499, 600)]);
    seen(&mut made, 9, &[(60, WaitKind::SocketRead, UPLOAD), (310, WaitKind::SocketRead, UPLOAD)]);
    let words =
        "app.py:12 view() waited 499 ms for an item of a queue; most likely app.py:20 upload() \
                 (called by nightly()) had what it waited for, which waited for a peer";
    assert_eq!(judge(&made).findings[0].summary, words);
}

#[test]
fn a_function_that_calls_itself_is_reported_once() {
    let mut made = capture();
    made.requests.push(request(99, 7, BEGIN, 0, 500));
    off(&mut made, 7, &[(0, 499)]);
    seen(&mut made, 7, &[(50, WaitKind::Sleep, WALK), (300, WaitKind::Sleep, WALK)]);
    let text = to_text(&judge(&made));
    assert!(
        text.contains("walk() slept for 499 ms, reached from GET / > view() > walk() (3 deep)."),
        "{text}"
    );
}

/// A request lay in its socket for 400 of 410 ms; thread 9 took it up in the end.
fn late() -> Capture {
    let mut made = capture();
    made.requests.push(request(99, 9, BEGIN, 400, 410));
    off(&mut made, 9, &[(401, 405)]);
    seen(&mut made, 9, &[(403, WaitKind::SocketRead, VIEW)]);
    made
}

#[test]
fn a_request_is_late_when_the_one_that_takes_connections_did_something_else() {
    let mut made = late();
    off(&mut made, 1, &[(0, 390), (420, 900)]);
    let samples =
        [(50, WaitKind::Sleep, SHIP), (300, WaitKind::Sleep, SHIP), (430, WaitKind::Poll, SERVE)];
    seen(&mut made, 1, &samples);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "sleep");
    assert_eq!(first.place.as_ref().expect("a place").function, "ship");
    assert_eq!(first.confidence.text(), "likely", "inferred is never confirmed");
}

#[test]
fn nobody_is_blamed_for_a_request_that_comes_while_all_wait_for_connections() {
    let mut made = late();
    off(&mut made, 1, &[(0, 399), (420, 900)]);
    let samples =
        [(50, WaitKind::Poll, SERVE), (300, WaitKind::Poll, SERVE), (430, WaitKind::Poll, SERVE)];
    seen(&mut made, 1, &samples);
    // A bystander that never takes a connection.
    off(&mut made, 8, &[(0, 900)]);
    seen(&mut made, 8, &[(50, WaitKind::Sleep, SHIP), (300, WaitKind::Sleep, SHIP)]);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "unknown");
}

#[test]
fn a_thread_that_came_up_late_for_want_of_a_cpu_says_so() {
    let mut made = late();
    // Thread 1 starts thread 9 at once and waits for it to come up; thread 9 gets no CPU.
    off(&mut made, 1, &[(1, 398), (420, 900)]);
    let samples =
        [(50, WaitKind::Futex, START), (300, WaitKind::Futex, START), (430, WaitKind::Poll, SERVE)];
    seen(&mut made, 1, &samples);
    off(&mut made, 9, &[(2, 397), (401, 405)]);
    seen(&mut made, 9, &[(100, WaitKind::Running, 0), (300, WaitKind::Running, 0)]);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "cpu-starved");
}

#[test]
fn a_worker_that_still_loads_its_program_is_why_the_first_requests_wait() {
    let mut made = late();
    let load = ("_find_and_load", "<frozen importlib._bootstrap>", 90);
    let loading = stack_on(&mut made, MODULE, &[load]);
    off(&mut made, 1, &[(390, 391), (420, 900)]);
    let loads = (0..20).map(|i| (i * 20, WaitKind::Running, loading));
    let samples: Vec<_> = loads.chain([(430, WaitKind::Poll, SERVE)]).collect();
    seen(&mut made, 1, &samples);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "import");
    let words =
        "requests came before their worker was ready: for 400 ms app.py:90 <module>() was still loading the program";
    assert_eq!(first.summary, words);
    assert!(first.advice.contains("ready"), "{}", first.advice);
    // It is no answer to what was slow later, more than once.
    for (id, from) in [(201, 3000), (202, 5000)] {
        made.requests.push(request(id, 7, BEGIN + from * MS, 0, 120));
        also_off(&mut made, 7, false, &[(from, from + 119)]);
        also_seen(&mut made, 7, (from + 10..from + 110).step_by(20), WaitKind::Sleep, SHIP);
    }
    let verdict = diagnose(&made, |_| 100 * MS);
    let causes: Vec<&str> = verdict.findings.iter().map(|f| f.cause.text()).collect();
    assert_eq!(causes[..2], ["sleep", "import"], "{causes:?}");
    assert!(verdict.findings[0].share < verdict.findings[1].share);
    // From one later request it is not known what it has to do with others.
    made.requests.pop();
    let verdict = diagnose(&made, |_| 100 * MS);
    assert_eq!(verdict.findings[0].cause.text(), "import");
}

#[test]
fn a_worker_that_loads_its_program_on_a_crowded_machine_is_seldom_seen_and_named_all_the_same() {
    let mut made = late();
    made.meta.pid = 1;
    let load = ("_find_and_load", "<frozen importlib._bootstrap>", 90);
    let loading = stack_on(&mut made, MODULE, &[load]);
    // 3 ms of work each 10 ms, between which others have the CPU; few of these have a sample, and
    // every second sample found no stack. The capture ends before it waits for connections.
    off(&mut made, 1, &[]);
    also_off(&mut made, 1, true, &(0..40).map(|i| (i * 10 + 3, i * 10 + 10)).collect::<Vec<_>>());
    let stack = |i: u64| if i % 2 == 0 { loading } else { 0 };
    let samples: Vec<_> = (0..20).map(|i| (i * 20 + 1, WaitKind::Running, stack(i))).collect();
    seen(&mut made, 1, &samples);
    let verdict = judge(&made);
    let words: Vec<&str> = verdict.findings.iter().map(|f| f.cause.text()).collect();
    assert!(words.contains(&"import") && !words.contains(&"unknown"), "{words:?}");
    // Of a thread that is not the main one nobody knows that it was to take the request up.
    made.meta.pid = 2;
    assert_eq!(judge(&made).findings[0].cause.text(), "unknown");
}

/// A request lay 400 ms in its socket; its thread was in this wait, with this stack, for the first
/// `until` ms of that; then it had no CPU.
fn kept_open(wait: WaitKind, own: bool, until: u64) -> Capture {
    let mut made = capture();
    made.requests.push(request(99, 7, BEGIN, 400, 420));
    let (server, socket) = (format!("{LIB}/http/server.py"), format!("{LIB}/socket.py"));
    let serves = stack_on(&mut made, 0, &[("handle_one_request", server.as_str(), 424)]);
    let parent =
        if own { stack_on(&mut made, serves, &[("ship", "/srv/app.py", 50)]) } else { serves };
    let stack = stack_on(&mut made, parent, &[("readinto", &socket, 706)]);
    off(&mut made, 7, &[(0, until)]);
    seen(&mut made, 7, &[(0, wait, stack), (until / 2, wait, stack)]);
    made
}

#[test]
fn a_server_that_waits_for_the_next_request_waits_for_no_peer() {
    // As long as the data may need to wake it. What came then is not known.
    let made = kept_open(WaitKind::SocketRead, false, 15);
    assert_eq!(judge(&made).findings[0].cause.text(), "unknown");
    // Much longer: it waited for another client.
    let made = kept_open(WaitKind::SocketRead, false, 399);
    assert_eq!(judge(&made).findings[0].cause.text(), "pool-wait");
    // The program itself read from a socket there; or the thread was busy with something else.
    let made = kept_open(WaitKind::SocketRead, true, 399);
    assert_eq!(judge(&made).findings[0].cause.text(), "downstream-wait");
    let made = kept_open(WaitKind::Sleep, false, 399);
    assert_eq!(judge(&made).findings[0].cause.text(), "sleep");
}

/// Thread 7, which ends with its request, waits in a Condition with a time limit of `limit` ms.
fn limited(switches: bool, limit: u64) -> Capture {
    let mut made = capture();
    made.requests.push(request(99, 7, BEGIN, 0, 500));
    // Stack 16: Condition.wait, called by view.
    made.stacks.push(node(VIEW, 6, 320));
    if switches {
        off(&mut made, 7, &[(0, 499)]);
    } else {
        made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())];
    }
    let samples: Vec<_> = (0..5).map(|i| (i * 100 + 10, WaitKind::Futex, 16)).collect();
    seen(&mut made, 7, &samples);
    for look in made.samples.get_mut(&7).expect("seen") {
        look.timeout_ns = BEGIN + limit * MS - look.t_ns;
        look.target = 4096;
    }
    // It ran last, in the waiter's file.
    let samples: Vec<_> = (0..50).map(|i| (i * 10, WaitKind::Sleep, SHIP)).collect();
    off(&mut made, 8, &[(0, 497), (499, 600)]);
    seen(&mut made, 8, &samples);
    made
}

#[test]
fn a_wait_that_nobody_ended_is_no_lock_of_anybodys_with_and_without_switch_records() {
    for switches in [true, false] {
        let made = limited(switches, 499);
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "deadlock-timeout", "{switches}");
        assert_eq!((verdict.findings.len(), &first.culprit), (1, &None), "{switches}");
        let end = "for a Condition until its time limit: nobody gave notice";
        assert!(first.summary.ends_with(end), "{}", first.summary);
    }
    for switches in [true, false] {
        let made = limited(switches, 5000);
        assert_eq!(judge(&made).findings[0].cause.text(), "lock-wait", "{switches}");
    }
}

/// It is not back when the wait ends: another thread released what it had for them.
#[test]
fn a_reader_that_was_blocked_all_the_while_was_sampled_before() {
    let judged = |kind: WaitKind| {
        let mut made = waiting(PUT);
        off(&mut made, 9, &[(0, 520)]);
        seen(&mut made, 9, &[(0, kind, UPLOAD)]);
        judge(&made).findings[0].culprit.as_ref().map(|culprit| culprit.function.clone())
    };
    assert_eq!(judged(WaitKind::Sleep).as_deref(), Some("upload"));
    assert_eq!(judged(WaitKind::SocketRead).as_deref(), Some("upload"));
}

#[test]
fn a_holder_that_waits_for_room_in_a_queue_does_not_wait_for_another_lock() {
    let mut made = waiting(VIEW);
    off(&mut made, 9, &[(0, 498)]);
    seen(&mut made, 9, &[(60, WaitKind::Futex, PUT), (310, WaitKind::Futex, PUT)]);
    for look in made.samples.get_mut(&7).expect("seen") {
        (look.lock_holder, look.holder_source) = (9, HolderSource::OwnerField);
    }
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait");
    let words = "which waited for room in a full queue";
    assert!(first.summary.ends_with(words), "{}", first.summary);
}

/// Thread 7 waits for the GIL; thread 9, a request too, has it and waits for a lock of thread 8's.
fn gil_kept_by_one_that_waits() -> Capture {
    let mut made = waiting(VIEW);
    made.requests.push(request(98, 9, BEGIN, 0, 500));
    for look in made.samples.get_mut(&7).expect("seen") {
        (look.wait, look.gil_holder) = (WaitKind::Gil, 9);
    }
    off(&mut made, 9, &[(3, 497)]);
    seen(&mut made, 9, &[(60, WaitKind::Futex, VIEW), (310, WaitKind::Futex, VIEW)]);
    for look in made.samples.get_mut(&9).expect("seen") {
        (look.lock_holder, look.holder_source) = (8, HolderSource::OwnerField);
    }
    off(&mut made, 8, &[(498, 600)]);
    let samples: Vec<_> = (0..49).map(|i| (i * 10, WaitKind::Running, UPLOAD)).collect();
    seen(&mut made, 8, &samples);
    made
}

#[test]
fn a_thread_that_waits_for_a_lock_with_the_gil_in_hand_lets_all_wait_for_that_lock() {
    let made = gil_kept_by_one_that_waits();
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), first.slow_requests), ("lock-wait", 2), "{}", first.summary);
    assert_eq!(first.culprit.as_ref().expect("a holder").function, "upload");
    assert!(first.share > 0.9, "{}", first.share);
}
