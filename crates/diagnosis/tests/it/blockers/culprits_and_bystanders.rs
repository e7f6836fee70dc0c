//! On captures made by hand: the culprit is the thread that blocked longest, never a bystander, and
//! the words fit what was seen.

use capture::read::{Capture, RequestRow, TaskRow};
use diagnosis::diagnose;
use format::wait::WaitKind;
use made::{code, node, off, seen, stack_on, BEGIN, MS};
use report::to_text;

use crate::made;

/// Names of the capture: a request, functions, files.
const NAMES: [&str; 8] =
    ["GET /", "<module>", "view", "slow_job", "quick_job", "serve", "/srv/app.py", "/srv/web.py"];

fn request(id: u64, begin_ns: u64, ms: u64) -> RequestRow {
    made::request(id, 7, begin_ns, ms)
}

/// Stack ids: 1 the module, 2 view called by it, 3 slow_job, 4 quick_job, 5 serve called by the
/// module.
fn capture() -> Capture {
    let mut made = made::capture(7, &NAMES);
    made.codes = vec![code(1, 6), code(2, 6), code(3, 6), code(4, 6), code(5, 7)];
    made.stacks =
        vec![node(0, 1, 90), node(1, 2, 12), node(0, 3, 20), node(0, 4, 30), node(1, 5, 40)];
    made
}

/// Thread 7 waits in `view` for 499 ms, of which a worker, thread 9, is at its task for the last 9.
fn waits_for_a_pool(made: &mut Capture, view: u32) {
    waits_in(made, view);
    made.tasks.push(TaskRow {
        request: 99,
        tid: 9,
        queued_ns: BEGIN,
        begin_ns: BEGIN + 490 * MS,
        end_ns: BEGIN + 499 * MS,
    });
}

/// The slow request: thread 7 waits in a futex, with this stack.
fn waits_in(made: &mut Capture, view: u32) {
    made.requests.push(request(99, BEGIN, 500));
    off(made, 7, &[(0, 499)]);
    seen(made, 7, &[(50, WaitKind::Futex, view), (300, WaitKind::Futex, view)]);
}

#[test]
fn a_pool_is_busy_with_what_took_longest_not_with_what_was_seen_most_often() {
    let mut made = capture();
    waits_for_a_pool(&mut made, 2);
    // The worker: 470 ms of waiting, seen twice; then 20 ms of running, seen four times.
    off(&mut made, 9, &[(0, 470)]);
    seen(
        &mut made,
        9,
        &[
            (100, WaitKind::SocketRead, 3),
            (350, WaitKind::SocketRead, 3),
            (472, WaitKind::Running, 4),
            (476, WaitKind::Running, 4),
            (480, WaitKind::Running, 4),
            (484, WaitKind::Running, 4),
        ],
    );
    let verdict = diagnose(&made, |_| 300 * MS);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "pool-wait");
    assert_eq!(first.culprit.as_ref().expect("a culprit").function, "slow_job");
}

/// A worker that is being started has no Python code yet.
#[test]
fn the_systems_library_is_no_work_of_a_pools() {
    let mut made = made::capture(7, &NAMES);
    let view = stack_on(&mut made, 0, &[("view", "/srv/app.py", 12)]);
    waits_for_a_pool(&mut made, view);
    let libc = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    let starts = [("start_thread", libc, 0), ("futex_wait", libc, 0)];
    let starts = stack_on(&mut made, 0, &starts);
    off(&mut made, 9, &[(0, 489)]);
    seen(&mut made, 9, &[(20, WaitKind::Futex, starts), (300, WaitKind::Futex, starts)]);
    let verdict = diagnose(&made, |_| 300 * MS);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "pool-wait", "{}", to_text(&verdict));
    assert!(first.culprit.is_none(), "{}", first.summary);
}

/// Thread 7 waits for a lock in `view`; thread 1, the main thread, ran when that ended.
fn lock(main: u32) -> Capture {
    let mut made = capture();
    waits_in(&mut made, 2);
    off(&mut made, 1, &[(0, 497), (498, 600)]);
    seen(&mut made, 1, &[(100, WaitKind::SocketRead, main), (350, WaitKind::SocketRead, main)]);
    made
}

#[test]
fn a_main_thread_knows_no_lock_because_its_module_is_under_everything_it_does() {
    let verdict = |made: &Capture| {
        let verdict = diagnose(made, |_| 300 * MS);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "lock-wait");
        first.culprit.as_ref().map(|c| c.function.clone())
    };
    assert_eq!(verdict(&lock(5)), None, "the module called a server in another file");
    assert_eq!(verdict(&lock(3)).as_deref(), Some("slow_job"), "code of the waiter's own file");
    assert_eq!(verdict(&lock(1)).as_deref(), Some("<module>"), "the module itself");
}

#[test]
fn a_thread_of_the_recorder_holds_nothing_of_the_programs() {
    let named = |thread: &str| {
        let mut made = lock(3);
        made.threads.push(made::thread(1, thread));
        let verdict = diagnose(&made, |_| 300 * MS);
        verdict.findings[0].culprit.as_ref().map(|c| c.function.clone())
    };
    assert_eq!(named("worker").as_deref(), Some("slow_job"));
    assert_eq!(named("dashcam-sampler"), None);
}

#[test]
fn a_thread_at_the_waiters_place_is_a_fellow_waiter() {
    let mut made = lock(3);
    // It was at the waiter's place at first, and in slow_job for most of the wait.
    let waits = WaitKind::SocketRead;
    off(&mut made, 1, &[(0, 150), (151, 497), (498, 600)]);
    seen(&mut made, 1, &[(20, waits, 2), (100, waits, 2), (200, waits, 3), (400, waits, 3)]);
    seen(&mut made, 7, &[(50, WaitKind::Futex, 2), (300, WaitKind::Futex, 2)]);
    let verdict = diagnose(&made, |_| 300 * MS);
    let culprits = verdict.findings.iter().filter_map(|f| f.culprit.as_ref());
    let named: Vec<&str> = culprits.map(|c| c.function.as_str()).collect();
    assert_eq!(named, ["slow_job"]);
    assert_eq!(verdict.findings.len(), 1, "the part without a holder is the same lock's");
}

/// Threads 7 and 8 ask for an item in slices of 100 ms. Thread 9 gives one, which 8 takes, and
/// gives back for 7 to take 8 ms later. Thread 10 was about just then.
#[test]
fn the_thread_that_woke_the_first_of_those_that_ask_in_slices_is_meant() {
    const QUEUE: (&str, &str, u32) = ("Queue.get", "/usr/lib/python3.11/queue.py", 171);
    const CONDITION: (&str, &str, u32) =
        ("Condition.wait", "/usr/lib/python3.11/threading.py", 331);
    let mut made = capture();
    let waits = stack_on(&mut made, 2, &[QUEUE, CONDITION]);
    made.requests.push(request(99, BEGIN, 500));
    for (tid, ended) in [(7, 463), (8, 455)] {
        let slices: Vec<(u64, u64)> =
            (0..5).map(|i| (i * 100, (i * 100 + 99).min(ended))).collect();
        off(&mut made, tid, &slices);
        let samples: Vec<_> =
            (5..ended).step_by(20).map(|at| (at, WaitKind::Futex, waits)).collect();
        seen(&mut made, tid, &samples);
        for sample in made.samples.get_mut(&tid).expect("seen") {
            let at = (sample.t_ns - BEGIN) / MS;
            sample.timeout_ns = BEGIN + (at / 100 * 100 + 99) * MS - sample.t_ns;
            sample.target = 4096 * u64::from(tid);
        }
    }
    for (tid, stack, ran) in [(9, 3, 453), (10, 4, 462)] {
        off(&mut made, tid, &[(0, ran), (ran + 1, 900)]);
        seen(&mut made, tid, &[(50, WaitKind::Sleep, stack), (300, WaitKind::Sleep, stack)]);
    }
    let culprit = |made: &Capture| {
        let verdict = diagnose(made, |_| 300 * MS);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "pool-wait", "{}", to_text(&verdict));
        first.culprit.as_ref().map(|place| place.function.clone())
    };
    assert_eq!(culprit(&made).as_deref(), Some("slow_job"));
    // No sample saw the last slice of thread 8: it did not end with the one before, when thread 10
    // was about. Thread 9 ran when it did, and when thread 7 went on.
    made.samples.get_mut(&8).expect("seen").retain(|s| s.t_ns < BEGIN + 399 * MS);
    off(&mut made, 9, &[(0, 462), (463, 900)]);
    off(&mut made, 10, &[(0, 398), (399, 900)]);
    assert_eq!(culprit(&made).as_deref(), Some("slow_job"));
}

#[test]
fn one_that_joins_a_thread_lets_go_of_nothing() {
    let mut made = lock(6);
    // Stack 6: join, called by slow_job.
    let join = stack_on(&mut made, 3, &[("Thread.join", "/usr/lib/python3.11/threading.py", 50)]);
    assert_eq!(join, 6);
    let verdict = diagnose(&made, |_| 300 * MS);
    assert!(verdict.findings[0].culprit.is_none());
}

#[test]
fn an_event_is_set_and_not_held() {
    let mut made = lock(5);
    made.meta.stdlib = vec!["/x".to_owned()];
    let lib = "/x/threading.py";
    let waits = [("Event.wait", lib, 50), ("Condition.wait", lib, 60)];
    let waits = stack_on(&mut made, 2, &waits);
    seen(&mut made, 7, &[(50, WaitKind::Futex, waits), (300, WaitKind::Futex, waits)]);
    let verdict = diagnose(&made, |_| 300 * MS);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait");
    let words =
        "app.py:12 view() waited 499 ms for an Event; the thread that was to set it is not known";
    assert_eq!(first.summary, words);
    assert!(first.advice.contains("sets the Event"), "{}", first.advice);
}

#[test]
fn work_nobody_saw_joins_what_was_seen_of_the_same_request() {
    let mut made = capture();
    made.requests.push(request(99, BEGIN, 500));
    // Runs throughout with short breaks; seen only in the first quarter.
    off(&mut made, 7, &[(100, 101), (200, 201), (300, 301), (400, 401)]);
    seen(&mut made, 7, &[(20, WaitKind::Running, 2), (60, WaitKind::Running, 2)]);
    let verdict = diagnose(&made, |_| 300 * MS);
    let cpu: Vec<_> = verdict.findings.iter().filter(|f| f.cause.text() == "cpu").collect();
    assert_eq!(cpu.len(), 1, "one request's computing is one finding");
    assert_eq!(cpu[0].place.as_ref().expect("a place").function, "view");
    assert!(cpu[0].missing.iter().any(|m| m.contains("was seen by a sample")), "{:?}", cpu[0]);
}

#[test]
fn many_short_pauses_are_not_one_long_one() {
    let pauses = |stretches: &[(u64, u64)]| {
        let mut made = capture();
        made.requests.push(request(99, BEGIN, 500));
        off(&mut made, 7, stretches);
        let samples = stretches.iter().map(|(from, _)| (from + 5, WaitKind::Sleep, 2));
        seen(&mut made, 7, &samples.collect::<Vec<_>>());
        diagnose(&made, |_| 300 * MS).findings[0].summary.clone()
    };
    let many: Vec<(u64, u64)> = (0..8).map(|i| (i * 60 + 1, i * 60 + 59)).collect();
    assert!(pauses(&many).contains("in 8 pauses"), "{}", pauses(&many));
    assert_eq!(pauses(&[(1, 499)]), "app.py:12 view() slept for 498 ms");
}

#[test]
fn without_a_normal_request_nothing_is_called_typical() {
    let mut made = capture();
    made.requests = (0..4).map(|i| request(i + 1, BEGIN + i * 1000 * MS, 500)).collect();
    let text = to_text(&diagnose(&made, |_| 300 * MS));
    let first = text.lines().next().expect("a line");
    assert!(first.starts_with("All 4 requests took over 300 ms (worst 500 ms"), "{first}");
    assert!(!first.contains("typical"), "{first}");
}

#[test]
fn requests_that_come_together_are_a_burst() {
    let rhythm = |starts: &[u64]| {
        let mut made = capture();
        for (i, at) in starts.iter().enumerate() {
            made.requests.push(request(100 + i as u64, BEGIN + at * MS, 400));
        }
        let text = to_text(&diagnose(&made, |_| 300 * MS));
        text.lines().nth(2).expect("a third line").to_owned()
    };
    assert!(rhythm(&[0, 10, 20]).contains("all within half a second"));
    assert!(rhythm(&[0, 10, 2000, 2010, 4500]).contains("in 3 bursts, 2.0-2.5 s apart"));
    assert!(rhythm(&[0, 2000, 4500]).contains("every 2.0-2.5 s"));
    assert!(rhythm(&[0, 400, 800, 1200]).contains("over 1.2 s"));
}

#[test]
fn a_thread_that_works_in_the_native_call_others_wait_in_holds_its_lock() {
    const RUST: &str = "/rustc/59807616e1/library/std/src/io/stdio.rs";
    const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    let waits = |made: &mut Capture, line: u32| {
        let frames =
            [("log_line", "/srv/src/main.rs", line), ("lock", RUST, 900), ("syscall", LIBC, 0)];
        made::stack(made, &frames)
    };
    let writes = |made: &mut Capture, line: u32| {
        let frames =
            [("log_line", "/srv/src/main.rs", line), ("print", RUST, 1100), ("write", LIBC, 0)];
        made::stack(made, &frames)
    };
    let judged = |line: u32| {
        let mut made = capture();
        made.requests.push(request(99, BEGIN, 500));
        let (waiter, writer) = (waits(&mut made, 33), writes(&mut made, line));
        off(&mut made, 7, &[(0, 499)]);
        seen(&mut made, 7, &[(50, WaitKind::Futex, waiter), (300, WaitKind::Futex, waiter)]);
        off(&mut made, 9, &[(0, 900)]);
        seen(
            &mut made,
            9,
            &[(40, WaitKind::PipeWrite, writer), (290, WaitKind::PipeWrite, writer)],
        );
        let verdict = diagnose(&made, |_| 300 * MS);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
        (first.culprit.as_ref().map(|c| (c.function.clone(), c.line)), first.summary.clone())
    };
    let (culprit, summary) = judged(33);
    assert_eq!(culprit, Some(("log_line".to_owned(), 33)));
    assert!(summary.contains("most likely held by main.rs:33 log_line()"), "{summary}");
    assert!(summary.contains("which waited on a pipe"), "{summary}");
    // Another line is another call: a thread there is nobody's holder.
    assert_eq!(judged(60).0, None);
}

/// Thread 7's request is blocked for 300 ms in a sleep that asked for 2, while thread 9 forks.
#[test]
fn a_thread_that_oversleeps_while_another_forks_waits_for_the_fork() {
    let mut made = capture();
    made.requests.push(request(99, BEGIN, 500));
    off(&mut made, 7, &[(0, 499)]);
    seen(&mut made, 7, &[(50, WaitKind::Sleep, 2), (300, WaitKind::Sleep, 2)]);
    let samples = made.samples.get_mut(&7).expect("seen");
    samples.iter_mut().for_each(|look| look.timeout_ns = 2 * MS);
    // Before and behind its fork, and never in it.
    seen(&mut made, 9, &[(1, WaitKind::Running, 3), (497, WaitKind::ChildWait, 4)]);
    made.names.push(format::own_span::FORK.to_owned());
    let name = made.names.len() as u32 - 1;
    made.own_spans.push(made::span(name, 9, 0, BEGIN + 2 * MS, 494));
    let verdict = diagnose(&made, |_| 300 * MS);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "fork", "{}", to_text(&verdict));
    assert_eq!((&first.place, &first.culprit), (&None, &None), "{}", first.summary);
    // One that asked for as long sleeps.
    let samples = made.samples.get_mut(&7).expect("seen");
    samples.iter_mut().for_each(|look| look.timeout_ns = 499 * MS);
    assert_eq!(diagnose(&made, |_| 300 * MS).findings[0].cause.text(), "sleep");
}

/// None of three forks in a row covers half of what waited for all of them; of two threads each has
/// its own.
#[test]
fn forks_in_a_row_by_one_thread_count_together() {
    let judged = |tids: [u32; 3]| {
        let mut made = capture();
        // It lay in its socket until they were over, and its thread was born behind them.
        let mut row = request(99, BEGIN, 500);
        row.started_ns = BEGIN + 490 * MS;
        made.requests.push(row);
        off(&mut made, 7, &[(491, 499)]);
        seen(&mut made, 7, &[(495, WaitKind::Sleep, 2)]);
        made.names.push(format::own_span::FORK.to_owned());
        let name = made.names.len() as u32 - 1;
        for (tid, (from_ms, ms)) in tids.into_iter().zip([(5, 150), (165, 140), (310, 160)]) {
            made.own_spans.push(made::span(name, tid, 0, BEGIN + from_ms * MS, ms));
        }
        diagnose(&made, |_| 300 * MS).findings[0].cause.text()
    };
    assert_eq!(judged([9, 9, 9]), "fork");
    assert_eq!(judged([9, 10, 11]), "unknown");
}

/// The first sample of a wait often comes too soon to have its peer.
#[test]
fn all_of_one_wait_is_for_what_any_sample_of_it_shows() {
    for (target, cause) in [
        ("udp 127.0.0.53:53", "dns"),
        ("udp 10.0.0.2:53, udp 10.0.0.3:5353, pipe:[7] and 2 more", "dns"),
        ("udp 10.0.0.2:53 and 1 more", "dns"),
        ("tcp 10.0.0.7:5432, udp 10.0.0.2:53", "downstream-wait"),
        // Its own port: it may be a resolver itself.
        ("udp, own port 53", "downstream-wait"),
    ] {
        let mut made = capture();
        made.requests.push(request(99, BEGIN, 500));
        off(&mut made, 7, &[(0, 499)]);
        seen(&mut made, 7, &[(100, WaitKind::Poll, 2), (400, WaitKind::Poll, 2)]);
        made.names.push(target.to_owned());
        let name = made.names.len() as u64 - 1;
        let samples = made.samples.get_mut(&7).expect("seen");
        samples[1].target = format::record::TARGET_IS_NAME | name;
        let verdict = diagnose(&made, |_| 300 * MS);
        assert_eq!(verdict.findings.len(), 1, "{}", to_text(&verdict));
        let first = &verdict.findings[0];
        assert_eq!(
            (first.cause.text(), first.share > 0.95),
            (cause, true),
            "{}",
            to_text(&verdict)
        );
        assert_eq!(first.target().as_deref(), Some(target));
    }
}

/// It shares the waiter's file, and ran when the wait ended: as it did all along.
#[test]
fn a_thread_that_computes_before_a_wait_and_behind_it_held_nothing() {
    let judged = |samples: std::ops::Range<u64>, inside: u32| {
        let mut made = capture();
        made.requests.push(request(99, BEGIN, 500));
        off(&mut made, 7, &[(0, 499)]);
        seen(&mut made, 7, &[(50, WaitKind::Futex, 2), (300, WaitKind::Futex, 2)]);
        off(&mut made, 9, &[(2000, 3000)]);
        for ms in samples.step_by(50) {
            let stack = if (200..700).contains(&ms) { inside } else { 3 };
            let look = made::sample(9, BEGIN + ms * MS - 200 * MS, WaitKind::Running, stack);
            made.samples.entry(9).or_default().push(look);
        }
        let verdict = diagnose(&made, |_| 300 * MS);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
        first.culprit.as_ref().map(|c| c.function.clone())
    };
    assert_eq!(judged(0..1000, 3), None);
    // It began with the wait; or did then what it does not do otherwise.
    assert_eq!(judged(200..1000, 3).as_deref(), Some("slow_job"));
    assert_eq!(judged(0..1000, 4).as_deref(), Some("quick_job"));
}
