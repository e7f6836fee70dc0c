//! On captures made by hand: where the interpreter's library or a package is between the program
//! and its wait, the finding says what was waited for in the program's own terms.

use capture::read::{Capture, TaskRow};
use diagnosis::{diagnose, Confidence, Finding};
use format::record::{Await, TARGET_IS_NAME};
use format::usage::Usage;
use format::wait::{AwaitKind, HolderSource, WaitKind};
use made::{also_off as off, also_seen as seen, awaited, request, stack, used, BEGIN, MS};
use report::to_text;

use crate::made;

const THREAD: u32 = 7;
const OTHER: u32 = 9;

const APP: &str = "/srv/app.py";
const PACKAGE: &str = "/site/client/wire.py";
const IMPORTING: &str = "<frozen importlib._bootstrap>";

/// Fifty requests of 2 ms on `THREAD`, and one of 500 ms.
fn capture(on_loop: bool) -> Capture {
    let mut made = made::capture(THREAD, &["GET /"]);
    (made.meta.stdlib, made.meta.site) = (vec!["/lib".to_owned()], vec!["/site".to_owned()]);
    made.requests.push(request(99, THREAD, BEGIN, 500));
    made.requests.iter_mut().for_each(|request| request.on_loop = on_loop);
    made
}

/// The request's task is seen to await so every 50 ms.
fn awaits(made: &mut Capture, request: u64, task: u64, kind: AwaitKind, holder: u64, stack: u32) {
    let named = made.names.len() as u64 - 1;
    let peer = matches!(kind, AwaitKind::Event | AwaitKind::Socket);
    let target = if peer { TARGET_IS_NAME | named } else { 0 };
    let row = |ms| Await { holder, target, ..awaited(ms, request, task, kind, stack) };
    made.awaits.insert(request, (1..10).map(|i| row(i * 50)).collect());
}

fn first(made: &Capture) -> Finding {
    diagnose(made, |_| 300 * MS).findings.into_iter().next().expect("a finding")
}

fn place(finding: &Finding) -> String {
    finding.place.as_ref().expect("a place").short()
}

#[test]
fn an_import_is_one_finding_of_the_code_that_imports_however_deep_it_goes() {
    let mut made = capture(false);
    let report = [("view", APP, 10), ("report", APP, 42)];
    let load = ("_find_and_load", IMPORTING, 1);
    let outer = [&report[..], &[load, ("<module>", "/site/big/__init__.py", 5)]].concat();
    let inner = [&outer[..], &[load, ("<module>", "/site/big/parts.py", 9)]].concat();
    let (outer, inner) = (stack(&mut made, &outer), stack(&mut made, &inner));
    off(&mut made, THREAD, false, &[(500, 1000)]);
    seen(&mut made, THREAD, (0..25).map(|i| i * 10), WaitKind::Running, outer);
    seen(&mut made, THREAD, (25..50).map(|i| i * 10), WaitKind::Running, inner);
    let finding = first(&made);
    assert_eq!((finding.cause.text(), place(&finding).as_str()), ("import", "app.py:42 report()"));
    assert!(finding.share > 0.95, "{}", finding.share);
}

/// A thread that computes loses its CPU every 4 ms to the sampler, which sees it just then; between
/// the samples it blocks, if `blocks`.
fn preempted(blocks: bool) -> Finding {
    let mut made = capture(false);
    let work = stack(&mut made, &[("view", APP, 10), ("compute", APP, 20)]);
    for at in (0..500).step_by(10) {
        off(&mut made, THREAD, true, &[(at + 4, at + 5)]);
        if blocks {
            off(&mut made, THREAD, false, &[(at + 6, at + 8)]);
            off(&mut made, THREAD, false, &[(at + 9, at + 10)]);
        }
    }
    off(&mut made, THREAD, false, &[(500, 1000)]);
    let samples = (0..500).step_by(10).map(|at| at + 4);
    seen(&mut made, THREAD, samples, WaitKind::Running, work);
    let verdict = diagnose(&made, |_| 300 * MS);
    verdict.findings.into_iter().find(|f| f.cause.text() == "cpu").expect("it computed")
}

#[test]
fn a_thread_sampled_each_time_it_loses_its_cpu_was_computing() {
    assert_eq!(preempted(false).confidence, Confidence::Confirmed);
    let doubted = preempted(true);
    assert!(doubted.confidence < Confidence::Confirmed, "what it ran between waits nobody saw");
}

#[test]
fn a_task_that_holds_a_lock_while_it_asks_a_peer_is_named_by_the_code_that_asked() {
    let mut made = capture(true);
    let waiter = stack(&mut made, &[("view", APP, 10), ("lookup", APP, 20)]);
    let holder = [("reload", APP, 30), ("download", APP, 36), ("receive", PACKAGE, 90)];
    let holder = stack(&mut made, &holder);
    made.names.push("tcp 10.0.0.9:80".to_owned());
    awaits(&mut made, 99, 5, AwaitKind::Lock, 8, waiter);
    awaits(&mut made, 0, 8, AwaitKind::Event, 0, holder);
    off(&mut made, THREAD, false, &[(0, 1000)]);
    seen(&mut made, THREAD, (0..50).map(|i| i * 10), WaitKind::Poll, 0);
    let finding = first(&made);
    assert_eq!(finding.cause.text(), "lock-wait");
    assert!(finding.summary.contains("held by app.py:36 download()"), "{}", finding.summary);
    assert!(finding.summary.contains("which waited for a peer"), "{}", finding.summary);
}

#[test]
fn the_holder_of_a_librarys_permit_is_described_by_what_its_thread_does() {
    let mut made = capture(true);
    let acquire = stack(&mut made, &[("acquire", PACKAGE, 20)]);
    let handed = stack(&mut made, &[("run_sync", PACKAGE, 70)]);
    let work = stack(&mut made, &[("report", APP, 30), ("render", APP, 36)]);
    made.requests.push(request(98, THREAD, BEGIN - 5 * MS, 700));
    made.requests.iter_mut().for_each(|request| request.on_loop = true);
    for (id, task, kind, stack) in
        [(99, 5, AwaitKind::Event, acquire), (98, 8, AwaitKind::Future, handed)]
    {
        let row = |ms| awaited(ms, id, task, kind, stack);
        made.awaits.insert(id, (1..10).map(|i| row(i * 50)).collect());
    }
    off(&mut made, THREAD, false, &[(0, 1000)]);
    seen(&mut made, THREAD, (0..50).map(|i| i * 10), WaitKind::Poll, 0);
    off(&mut made, OTHER, false, &[(0, 690)]);
    seen(&mut made, OTHER, (1..68).map(|i| i * 10), WaitKind::Sleep, work);
    let found = |made: &Capture| {
        let all = diagnose(made, |_| 300 * MS).findings;
        all.into_iter().find(|f| f.cause.text() == "pool-wait").expect("a pool")
    };
    assert_eq!(found(&made).culprit.expect("the task").function, "run_sync");
    let (begin_ns, end_ns) = (BEGIN, BEGIN + 690 * MS);
    made.tasks.push(TaskRow { tid: OTHER, queued_ns: begin_ns, begin_ns, end_ns, request: 98 });
    let finding = found(&made);
    assert_eq!(finding.culprit.as_ref().expect("its thread").function, "render");
    let said = "most likely taken up by app.py:36 render() (called by report()), which slept";
    assert!(finding.summary.contains(said), "{}", finding.summary);
    assert!(finding.confidence < Confidence::Confirmed, "an inference");
}

#[test]
fn an_executor_whose_work_is_not_recorded_is_no_unknown() {
    let mut made = capture(true);
    let waiter = stack(&mut made, &[("view", APP, 10), ("calc", APP, 20)]);
    awaits(&mut made, 99, 5, AwaitKind::Executor, 0, waiter);
    off(&mut made, THREAD, false, &[(0, 1000)]);
    seen(&mut made, THREAD, (0..50).map(|i| i * 10), WaitKind::Poll, 0);
    let finding = first(&made);
    assert_eq!((finding.cause.text(), place(&finding).as_str()), ("pool-wait", "app.py:20 calc()"));
    assert_eq!(finding.target().as_deref(), Some("an executor"));
}

/// `THREAD` waits in `waits`, and `OTHER`, which does something else in the same file, ran last.
fn beside(waits: &[(&str, &str, u32)]) -> Finding {
    let mut made = capture(false);
    let (waits, other) = (stack(&mut made, waits), stack(&mut made, &[("feeder", APP, 70)]));
    off(&mut made, THREAD, false, &[(0, 499), (500, 1000)]);
    seen(&mut made, THREAD, (1..50).map(|i| i * 10), WaitKind::Futex, waits);
    off(&mut made, OTHER, false, &[(0, 498), (499, 1000)]);
    seen(&mut made, OTHER, (1..50).map(|i| i * 10), WaitKind::Sleep, other);
    first(&made)
}

#[test]
fn a_library_that_asks_resolvers_itself_waits_for_a_name() {
    for (file, cause) in [("/site/dns/query.py", "dns"), ("/site/mq/query.py", "downstream-wait")] {
        let mut made = capture(false);
        let asks = stack(&mut made, &[("view", APP, 10), ("udp", file, 700)]);
        off(&mut made, THREAD, false, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, (1..50).map(|i| i * 10), WaitKind::Poll, asks);
        let finding = first(&made);
        assert_eq!(finding.cause.text(), cause);
        assert!(place(&finding).starts_with("app.py:10 view()"), "{}", finding.summary);
    }
}

#[test]
fn nobody_of_this_process_is_blamed_for_a_pool_of_processes() {
    let pool = "/lib/multiprocessing/pool.py";
    let get = [("view", APP, 10), ("apply", pool, 300), ("get", pool, 700)];
    let finding = beside(&[&get[..], &[("wait", "/lib/threading.py", 300)]].concat());
    assert_eq!(finding.target().as_deref(), Some("a pool of processes"));
    assert_eq!((finding.cause.text(), finding.culprit), ("pool-wait", None));
    assert_eq!(finding.confidence, Confidence::Likely, "what kept it busy was not seen");
}

/// A future does not say whose it is; the threads that are there do.
#[test]
fn nor_for_an_executor_of_processes_unless_there_is_one_of_threads() {
    for (worker, target) in [(false, Some("a pool of processes")), (true, None)] {
        let mut made = capture(false);
        let result = ("result", "/lib/concurrent/futures/_base.py", 450);
        let waits =
            stack(&mut made, &[("view", APP, 10), result, ("wait", "/lib/threading.py", 300)]);
        let hands = stack(&mut made, &[("run", "/lib/concurrent/futures/process.py", 340)]);
        let works = [("_worker", "/lib/concurrent/futures/thread.py", 80), ("part", APP, 70)];
        off(&mut made, THREAD, false, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, (1..50).map(|i| i * 10), WaitKind::Futex, waits);
        off(&mut made, OTHER, false, &[(0, 498), (499, 1000)]);
        seen(&mut made, OTHER, (1..50).map(|i| i * 10), WaitKind::Poll, hands);
        if worker {
            let works = stack(&mut made, &works);
            seen(&mut made, 77, (1..50).map(|i| i * 10), WaitKind::Sleep, works);
        }
        let finding = first(&made);
        assert_eq!((finding.cause.text(), finding.target().as_deref()), ("pool-wait", target));
        assert!(worker || finding.culprit.is_none(), "{}", finding.summary);
    }
}

#[test]
fn a_full_queue_is_no_lock() {
    let put =
        [("view", APP, 10), ("put", "/lib/queue.py", 140), ("wait", "/lib/threading.py", 300)];
    let finding = beside(&put);
    assert_eq!((finding.cause.text(), place(&finding).as_str()), ("pool-wait", "app.py:10 view()"));
    assert_eq!(finding.target().as_deref(), Some("room in a full queue"));
    assert_eq!(finding.culprit.expect("who takes from it").function, "feeder");
    // The queue's own lock, held for an instant by any thread inside: no pool.
    let lock = beside(&put[..2]);
    assert_eq!(lock.cause.text(), "lock-wait");
}

#[test]
fn a_callback_that_writes_and_computes_is_one_finding_that_says_which_was_longer() {
    let mut made = capture(true);
    let writes = stack(&mut made, &[("view", APP, 10), ("commit", APP, 20)]);
    let sorts = stack(&mut made, &[("view", APP, 10), ("commit", APP, 22)]);
    off(&mut made, THREAD, false, &[(0, 350), (500, 1000)]);
    seen(&mut made, THREAD, (1..35).map(|i| i * 10), WaitKind::FileSync, writes);
    seen(&mut made, THREAD, (36..50).map(|i| i * 10), WaitKind::Running, sorts);
    let verdict = diagnose(&made, |_| 300 * MS);
    let finding = &verdict.findings[0];
    assert_eq!((verdict.findings.len(), finding.cause.text()), (1, "event-loop-blocked"));
    let said = "app.py:20 commit() kept the event loop for 500 ms; it waited for the disk";
    assert!(finding.summary.starts_with(said), "{}", finding.summary);
}

/// `THREAD` waits for a lock; `OTHER`, by the lock's own word, holds it and runs, using so much in
/// each 10 ms.
fn held_by_one_that_runs(each: Usage) -> String {
    let mut made = capture(false);
    let waits = stack(&mut made, &[("view", APP, 10)]);
    let works = stack(&mut made, &[("flush", APP, 70)]);
    off(&mut made, THREAD, false, &[(0, 499), (500, 1000)]);
    seen(&mut made, THREAD, (1..50).map(|i| i * 10), WaitKind::Futex, waits);
    off(&mut made, OTHER, false, &[(500, 1000)]);
    seen(&mut made, OTHER, (0..50).map(|i| i * 10), WaitKind::Running, works);
    for sample in made.samples.get_mut(&THREAD).into_iter().flatten() {
        (sample.holder_source, sample.lock_holder) = (HolderSource::OwnerField, OTHER);
    }
    used(&mut made, OTHER, each);
    first(&made).summary
}

#[test]
fn a_holder_that_is_busy_in_the_kernel_is_described_by_what_the_kernel_did() {
    let computes = Usage { faults: 5, storage_kib: 0, user_us: 9_000, system_us: 1_000 };
    let text = held_by_one_that_runs(computes);
    assert!(text.contains("flush() in another thread, which computed"), "{text}");
    let writes = Usage { faults: 2, storage_kib: 4_000, user_us: 1_000, system_us: 9_000 };
    let text = held_by_one_that_runs(writes);
    assert!(text.contains("flush() in another thread, which waited for the disk"), "{text}");
}

/// A request that waits at one place: 300 ms for a lock that `first` holds, `second_ms` for one
/// that `second` holds, the rest for one whose holder was not seen.
fn three_waits(second_ms: u64) -> Vec<Finding> {
    let mut made = capture(false);
    let waits = stack(&mut made, &[("view", APP, 10)]);
    let (third, fourth) = (OTHER + 1, OTHER + 2);
    let second_end = 305 + second_ms;
    off(&mut made, THREAD, false, &[(0, 300), (305, second_end), (second_end + 5, 499)]);
    off(&mut made, THREAD, false, &[(500, 1000)]);
    seen(&mut made, THREAD, (1..50).map(|i| i * 10 - 2), WaitKind::Futex, waits);
    for (tid, function) in [(OTHER, "first"), (third, "second"), (fourth, "third")] {
        let stands = stack(&mut made, &[(function, APP, 70)]);
        off(&mut made, tid, false, &[(0, 1000)]);
        seen(&mut made, tid, (1..50).map(|i| i * 10), WaitKind::Sleep, stands);
    }
    for sample in made.samples.get_mut(&THREAD).into_iter().flatten() {
        let at = sample.t_ns - BEGIN;
        let holder = match at / MS {
            0..=302 => OTHER,
            at if at <= second_end => third,
            _ => continue,
        };
        (sample.holder_source, sample.lock_holder) = (HolderSource::OwnerField, holder);
    }
    diagnose(&made, |_| 300 * MS).findings
}

#[test]
fn waits_without_a_known_holder_join_those_whose_holder_is_nearly_always_the_same() {
    let joined = three_waits(20);
    assert_eq!(joined.len(), 1, "{joined:?}");
    assert_eq!(joined[0].culprit.as_ref().expect("a culprit").function, "first");
    assert_eq!(three_waits(130).len(), 3, "which of the two it was nobody knows");
}

#[test]
fn channels_and_conditions_of_rust_and_c_are_no_locks() {
    let std = "/rustc/5980/library/std/src";
    let inside = |file: &str| format!("{std}/{file}");
    let (array, context) = (inside("sync/mpmc/array.rs"), inside("sync/mpmc/context.rs"));
    let (park, condvar) = (inside("sys/futex.rs"), inside("sync/poison/condvar.rs"));
    let mutex = inside("sys/sync/mutex/futex.rs");
    let crossbeam = "/h/.cargo/registry/src/index-1/crossbeam-channel-0.5.17/src/flavors/array.rs";
    let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    let reported = |frames: &[(&str, &str)]| {
        let mut all = vec![("handle", "src/main.rs", 5)];
        all.extend(frames.iter().map(|(function, file)| (*function, *file, 1)));
        let finding = beside(&all);
        assert_eq!(place(&finding), "main.rs:5 handle()");
        (finding.cause.text(), finding.target())
    };
    let sends = [("send", array.as_str()), ("wait_until", &context), ("futex_wait", &park)];
    assert_eq!(reported(&sends), ("pool-wait", Some("room in a full queue".to_owned())));
    let receives = [("recv", crossbeam), ("{closure#1}", crossbeam), ("futex_wait", &park)];
    assert_eq!(reported(&receives), ("pool-wait", Some("a message".to_owned())));
    let waits = [("wait<bool>", condvar.as_str()), ("futex_wait", &park)];
    assert_eq!(reported(&waits), ("pool-wait", Some("a condition".to_owned())));
    let waits = [("___pthread_cond_wait", libc), ("__futex_abstimed_wait_common", libc)];
    assert_eq!(reported(&waits), ("pool-wait", Some("a condition".to_owned())));
    assert_eq!(reported(&[("lock_contended", mutex.as_str())]), ("lock-wait", None));
}

#[test]
fn what_no_sample_saw_joins_what_was_seen() {
    let mut made = capture(false);
    let touches = stack(&mut made, &[("view", APP, 10), ("grow", APP, 20)]);
    off(&mut made, THREAD, false, &[(500, 1000)]);
    // Memory is touched all along; only the last of it was seen with a stack.
    seen(&mut made, THREAD, (0..45).map(|i| i * 10), WaitKind::Running, 0);
    seen(&mut made, THREAD, (45..50).map(|i| i * 10), WaitKind::Running, touches);
    let each = Usage { faults: 1_500, storage_kib: 0, user_us: 2_000, system_us: 8_000 };
    used(&mut made, THREAD, each);
    let verdict = diagnose(&made, |_| 300 * MS);
    let finding = &verdict.findings[0];
    assert_eq!((verdict.findings.len(), finding.cause.text()), (1, "page-fault"));
    assert_eq!(place(finding), "app.py:20 grow()");
}

#[test]
fn a_stack_of_a_sliver_of_the_wait_does_not_describe_its_thread() {
    let said = |begins_ms: u64| {
        let mut made = capture(false);
        let waits = stack(&mut made, &[("view", APP, 10)]);
        let other = stack(&mut made, &[("serve", APP, 70), ("naps", APP, 80)]);
        off(&mut made, THREAD, false, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, [5].into_iter(), WaitKind::Futex, waits);
        for sample in made.samples.get_mut(&THREAD).into_iter().flatten() {
            (sample.holder_source, sample.lock_holder) = (HolderSource::OwnerField, OTHER);
        }
        // What the holder was in first was not read; then it goes elsewhere.
        off(&mut made, OTHER, false, &[(0, begins_ms - 1), (begins_ms, 1000)]);
        seen(&mut made, OTHER, [5].into_iter(), WaitKind::Sleep, 0);
        seen(&mut made, OTHER, [begins_ms + 2].into_iter(), WaitKind::Sleep, other);
        first(&made).culprit.map(|place| place.function)
    };
    assert_eq!(said(100).as_deref(), Some("naps"));
    assert_eq!(said(490), None);
}

#[test]
fn the_request_is_named_also_where_no_call_lies_between() {
    let reported = |frames: &[(&str, &str, u32)]| {
        let mut made = capture(false);
        let naps = stack(&mut made, frames);
        off(&mut made, THREAD, false, &[(0, 499), (500, 1000)]);
        seen(&mut made, THREAD, (1..50).map(|i| i * 10), WaitKind::Sleep, naps);
        to_text(&diagnose(&made, |_| 300 * MS))
    };
    let direct = reported(&[("view", APP, 10)]);
    assert!(direct.contains("view() slept for 499 ms, in GET /.\n"), "{direct}");
    let behind = reported(&[("view", APP, 10), ("nap", APP, 20)]);
    assert!(behind.contains("nap() slept for 499 ms, reached from GET / > view().\n"), "{behind}");
}

/// Waits for a lock whose holder is in a package, at `wait`.
fn held_in_a_package(wait: WaitKind) -> Option<String> {
    let mut made = capture(false);
    let asks = stack(&mut made, &[("view", APP, 10), ("load", APP, 20)]);
    let holds = stack(&mut made, &[("view", APP, 10), ("fetch", APP, 30), ("read", PACKAGE, 638)]);
    off(&mut made, THREAD, false, &[(0, 499), (500, 1000)]);
    seen(&mut made, THREAD, (5..495).step_by(10), WaitKind::Futex, asks);
    for look in made.samples.values_mut().flatten() {
        (look.lock_holder, look.holder_source) = (OTHER, HolderSource::OwnerField);
    }
    if wait != WaitKind::Running {
        off(&mut made, OTHER, false, &[(0, 498)]);
    }
    seen(&mut made, OTHER, (5..495).step_by(10), wait, holds);
    first(&made).culprit.map(|place| place.short())
}

#[test]
fn a_lock_held_while_a_client_library_waits_belongs_to_the_librarys_caller() {
    let culprit = held_in_a_package(WaitKind::SocketRead);
    assert_eq!(culprit.as_deref(), Some("app.py:30 fetch()"));
    // What a package computes it computes for its caller, as it would be said of a request.
    let culprit = held_in_a_package(WaitKind::Running);
    assert_eq!(culprit.as_deref(), Some("app.py:30 fetch()"));
}
